// Kernels for x86 processors with AVX2, FMA and F16C.
#define REGARD_LEVEL avx2
#define REGARD_LANES 8
#define REGARD_TARGET "avx2,fma,f16c"
#include "kernels_x86.inl"
