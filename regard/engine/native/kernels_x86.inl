// kernels.inl for the instructions of REGARD_TARGET. The headers of the system come first: their functions are
// shared with other files, and must not use these instructions.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels.h"

#define REGARD_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define REGARD_FOR(instructions) \
    REGARD_PRAGMA(clang attribute push(__attribute__((target(instructions))), apply_to = function))
#else
#define REGARD_FOR(instructions) REGARD_PRAGMA(GCC target(instructions))
#endif

REGARD_FOR(REGARD_TARGET)
#include "kernels.inl"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
