// Vectors of floats of the processor level that a file is compiled for, and functions of them.
//
// The level is chosen by REGARD_LEVEL before this header is included. GCC and Clang compile operators on vectors
// to the instructions of the level, so that one source serves all of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#ifndef REGARD_LEVEL
#error "define REGARD_LEVEL as portable, avx2, avxvnni, avx512 or avx512vnni before including vectors.h"
#endif
#ifndef REGARD_LANES
#error "define REGARD_LANES as the number of floats of a register before including vectors.h"
#endif

namespace regard::REGARD_LEVEL {

constexpr int LANES = REGARD_LANES;
typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
typedef int16_t Shorts __attribute__((vector_size(LANES * 4)));
typedef int16_t Halves __attribute__((vector_size(LANES * 2)));  // as many lanes as Floats, like Quarters
typedef int8_t Bytes __attribute__((vector_size(LANES * 2)));
typedef int8_t Quarters __attribute__((vector_size(LANES)));

inline Floats all(float value) {
    return value - Floats{};  // not 0 + value, which GCC computes for the sake of -0
}

inline Floats load(const float* from) {
    Floats values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

inline Ints load(const int32_t* from) {
    Ints values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

inline Ints all(int32_t value) {
    return value - Ints{};
}

#if defined(REGARD_VNNI)

// Each lane gains the four products of its unsigned bytes a and its signed bytes b.
inline Ints add_fours(Ints sums, Ints a, Ints b) {
#if REGARD_LANES == 16
    return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#else
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#endif
}

#else

// Eight-bit weights become 16-bit integers, twice as many as a register has floats. GCC converts them one by one
// unless told.
inline Shorts widen(const int8_t* from) {
#if REGARD_LANES == 16
    return (Shorts)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)from));
#elif REGARD_LANES == 8
    return (Shorts)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from));
#else
    Bytes values;
    std::memcpy(&values, from, sizeof values);
    return __builtin_convertvector(values, Shorts);
#endif
}

// Each lane gains a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1].
inline Ints add_pairs(Ints sums, Shorts a, Shorts b) {
#if REGARD_LANES == 16
    return sums + (Ints)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif REGARD_LANES == 8
    return sums + (Ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    for (int lane = 0; lane < LANES; ++lane)
        sums[lane] += int32_t(a[2 * lane]) * b[2 * lane] + int32_t(a[2 * lane + 1]) * b[2 * lane + 1];
    return sums;
#endif
}

#endif

inline void store(float* to, Floats values) {
    std::memcpy(to, &values, sizeof values);
}

inline Floats choose(Ints condition, Floats yes, Floats no) {
    return (Floats)((condition & (Ints)yes) | (~condition & (Ints)no));
}

// As many float16 numbers in float32. Without an instruction, bits are moved and the exponent is corrected.
inline Floats load_halves(const uint16_t* from) {
#if REGARD_LANES == 16
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
#elif REGARD_LANES == 8
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
#else
    Ints bits;
    for (int lane = 0; lane < LANES; ++lane) bits[lane] = from[lane];
    const Ints size = (bits & 0x7fff) << 13;
    const Floats value = choose(size < 0x0f800000, (Floats)size * 0x1p112f, (Floats)(size | 0x7f800000));
    return (Floats)((Ints)value | (bits >> 15) << 31);
#endif
}

inline Floats larger(Floats a, Floats b) {
    return choose(a > b, a, b);
}

// Whether a condition holds in any lane.
inline bool any(Ints condition) {
#if REGARD_LANES == 16
    return _mm512_movepi32_mask((__m512i)condition);
#elif REGARD_LANES == 8
    return _mm256_movemask_ps((__m256)condition);
#else
    return condition[0] | condition[1] | condition[2] | condition[3];
#endif
}

// 0, 1, 2 and so on.
inline Ints lane_numbers() {
    Ints numbers{};
    for (int lane = 0; lane < LANES; ++lane) numbers[lane] = lane;
    return numbers;
}

// One number of all lanes, by halves: the steps that wait for each other are few.
template <typename Function>
inline float reduce(Floats values, Function function) {
    float lanes[LANES];
    std::memcpy(lanes, &values, sizeof values);
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2)
#pragma GCC unroll 8
        for (int lane = 0; lane < half; ++lane) lanes[lane] = function(lanes[lane], lanes[lane + half]);
    return lanes[0];
}

inline float sum(Floats values) {
    return reduce(values, [](float a, float b) { return a + b; });
}

inline float maximum(Floats values) {
    return reduce(values, [](float a, float b) { return a > b ? a : b; });
}

// e^x with a relative error below 2e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]; 0 below -87.
inline Floats exponential(Floats x) {
    const Floats lowest = all(-87.0f), highest = all(88.0f);
    const Ints vanishes = x < lowest;
    x = choose(vanishes, lowest, x);
    x = choose(x > highest, highest, x);
    const Floats turns = x * 1.44269504f;
    const Ints whole = __builtin_convertvector(turns + choose(turns < 0.0f, all(-0.5f), all(0.5f)), Ints);
    const Floats n = __builtin_convertvector(whole, Floats);
    const Floats rest = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
    Floats power = all(1.0f / 5040);
    for (float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        power = power * rest + coefficient;
    return choose(vanishes, Floats{}, power * (Floats)((whole + 127) << 23));
}

// tanh through the exponential.
inline Floats hyperbolic_tangent(Floats x) {
    return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}

// The error function with an error below 2e-7 (Abramowitz and Stegun 7.1.26).
inline Floats error_function(Floats x) {
    const Floats size = choose(x < 0.0f, -x, x);
    const Floats t = 1.0f / (1.0f + 0.3275911f * size);
    Floats series = all(1.061405429f);
    for (float coefficient : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
        series = series * t + coefficient;
    const Floats value = 1.0f - series * t * exponential(-size * size);
    return choose(x < 0.0f, -value, value);
}

}  // namespace regard::REGARD_LEVEL
