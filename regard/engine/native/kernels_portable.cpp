// Kernels for any processor: registers of four floats, which every 64-bit processor of today has.
#define REGARD_LEVEL portable
#define REGARD_LANES 4
#include "kernels.inl"
