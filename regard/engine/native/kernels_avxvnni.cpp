// Kernels for x86 processors with AVX2, FMA and products of bytes (AVX-VNNI).
#define REGARD_LEVEL avxvnni
#define REGARD_LANES 8
#define REGARD_VNNI
#define REGARD_TARGET "avx2,fma,f16c,avxvnni"
#include "kernels_x86.inl"
