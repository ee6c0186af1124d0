// Kernels for x86 processors with AVX-512 and its products of bytes (VNNI).
#define REGARD_LEVEL avx512vnni
#define REGARD_LANES 16
#define REGARD_VNNI
#define REGARD_TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma"
#include "kernels_x86.inl"
