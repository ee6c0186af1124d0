// Kernels for x86 processors with AVX-512.
#define REGARD_LEVEL avx512
#define REGARD_LANES 16
#define REGARD_TARGET "avx512f,avx512bw,avx512vl,avx512dq,fma"
#include "kernels_x86.inl"
