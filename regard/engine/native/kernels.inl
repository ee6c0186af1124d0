// The kernels of one processor level. Included by kernels_portable.cpp, kernels_avx2.cpp and the others.

#include <cmath>

#include "kernels.h"
#include "vectors.h"

namespace regard::REGARD_LEVEL {

constexpr int PER_PANEL = PANEL / LANES;  // registers of a panel

inline Floats activate(Floats x, Activation activation) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return larger(Floats{}, x);  // in this order NaN stays NaN
        case Activation::gelu: return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
        case Activation::gelu_tanh:
            return 0.5f * x * (1.0f + hyperbolic_tangent(0.79788456f * (x + 0.044715f * x * x * x)));
        case Activation::silu: return x / (1.0f + exponential(-x));
    }
    return x;
}

// A function of whole registers, and of the rest in a padded register.
template <typename Function>
inline void each(int count, Function function) {
    int at = 0;
    for (; at + LANES <= count; at += LANES) function(at, LANES);
    if (at < count) function(at, count - at);
}

inline Floats load_some(const float* from, int count, float padding = 0.0f) {
    if (count == LANES) return load(from);
    Floats values = all(padding);
    std::memcpy(&values, from, count * sizeof(float));
    return values;
}

inline void store_some(float* to, Floats values, int count) {
    if (count == LANES) return store(to, values);
    std::memcpy(to, &values, count * sizeof(float));
}

// What one block of a product needs besides its sizes.
struct Product {
    const Matrix& matrix;
    Rows x;
    float* y;
    ptrdiff_t y_stride;
    Ending ending;

    // The same for the rows from `row` on.
    Product from(int row) const { return {matrix, x.from(row), y + row * y_stride, y_stride, ending.from(row)}; }
};

inline Floats scaled(Ints sums, float scale, const Matrix& matrix, int output) {
    return __builtin_convertvector(sums, Floats) * scale * load(matrix.scales + output) + load(matrix.bias + output);
}

// float32 weights: a step multiplies one input.
struct FloatArithmetic {
    using Sums = Floats;
    static const float* weights(const Matrix& matrix) { return matrix.floats; }
    static const float* inputs(const Rows& x) { return x.floats; }
    static Floats load_weights(const float* from) { return load(from); }
    static Floats input(float x) { return all(x); }
    static Floats add(Floats sums, Floats weights, Floats x) { return sums + weights * x; }
    static Floats result(Floats sums, const Product& product, int, int output) {
        return sums + load(product.matrix.bias + output);
    }
    static constexpr int TOGETHER = 1;
};

// float16 weights: the same, with weights that are widened on the way.
struct HalfArithmetic : FloatArithmetic {
    static const uint16_t* weights(const Matrix& matrix) { return matrix.halves; }
    static Floats load_weights(const uint16_t* from) { return load_halves(from); }
};

#if defined(REGARD_VNNI)

// int8 weights: a step multiplies four inputs, which are rounded to bytes. Sums are exact.
struct IntegerArithmetic {
    using Sums = Ints;
    static const int8_t* weights(const Matrix& matrix) { return matrix.bytes; }
    static const int32_t* inputs(const Rows& x) { return x.groups; }
    static Ints load_weights(const int8_t* from) { return load((const int32_t*)from); }
    static Ints input(int32_t x) { return all(x); }
    static Ints add(Ints sums, Ints weights, Ints x) { return add_fours(sums, x, weights); }
    static Floats result(Ints sums, const Product& product, int row, int output) {
        const auto [scale, zero] = product.x.scales[row];
        return scaled(sums - load(product.matrix.totals + output) * zero, scale, product.matrix, output);
    }
    static constexpr int TOGETHER = 4, LARGEST = 255;
};

#else

// int8 weights: a step multiplies two inputs, which are rounded to 16 bits. Sums are exact.
struct IntegerArithmetic {
    using Sums = Ints;
    static const int8_t* weights(const Matrix& matrix) { return matrix.bytes; }
    static const int32_t* inputs(const Rows& x) { return x.groups; }
    static Shorts load_weights(const int8_t* from) { return widen(from); }
    static Shorts input(int32_t x) { return (Shorts)all(x); }
    static Ints add(Ints sums, Shorts weights, Shorts x) { return add_pairs(sums, weights, x); }
    static Floats result(Ints sums, const Product& product, int row, int output) {
        return scaled(sums, product.x.scales[row].scale, product.matrix, output);
    }
    static constexpr int TOGETHER = 2, LARGEST = 32767;
};

#endif

// The sums of some rows and panels with everything that follows them, written to the outputs of the rows.
template <typename Arithmetic, typename Activate>
inline void finish_with(const Product& product, int panel, int rows, int columns,
                        const typename Arithmetic::Sums* sums, Activate activate) {
    const int begin = panel * PANEL, end = begin + columns * PANEL, outputs = product.matrix.outputs;
    for (int row = 0; row < rows; ++row) {
        const float* base = product.ending.base ? product.ending.base + row * product.ending.base_stride : nullptr;
        float* y = product.y + row * product.y_stride;
        for (int at = begin; at < end; at += LANES) {
            Floats value = activate(Arithmetic::result(*sums++, product, row, at));
            const int count = outputs - at < LANES ? outputs - at : LANES;
            if (count <= 0) continue;
            if (base) value += load_some(base + at, count);
            store_some(y + at, value, count);
        }
    }
}

// It is not inlined: every block would contain every activation.
template <typename Arithmetic>
__attribute__((noinline)) void finish(const Product& product, int panel, int rows, int columns,
                                      const typename Arithmetic::Sums* sums) {
    const Activation activation = product.ending.activation;
    const auto with = [&](auto function) {
        finish_with<Arithmetic>(product, panel, rows, columns, sums, function);
    };
    if (activation == Activation::none)
        with([](Floats x) { return x; });
    else if (activation == Activation::relu)
        with([](Floats x) { return activate(x, Activation::relu); });
    else
        with([=](Floats x) { return activate(x, activation); });
}

// ROWS rows times COLUMNS panels: the sums stay in registers while the inputs pass by.
template <typename Arithmetic, int ROWS, int COLUMNS>
inline void block(const Product& product, int panel) {
    const Matrix& matrix = product.matrix;
    const ptrdiff_t steps = matrix.steps(), stride = product.x.stride;
    constexpr int STEP_SIZE = PANEL * Arithmetic::TOGETHER, PART_SIZE = LANES * Arithmetic::TOGETHER;
    const ptrdiff_t panel_size = steps * STEP_SIZE;
    const auto* weights = Arithmetic::weights(matrix) + panel * panel_size;
    const auto* x = Arithmetic::inputs(product.x);
    typename Arithmetic::Sums sums[ROWS][COLUMNS][PER_PANEL];
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 8
        for (int column = 0; column < COLUMNS; ++column)
#pragma GCC unroll 8
            for (int part = 0; part < PER_PANEL; ++part) sums[row][column][part] = typename Arithmetic::Sums{};
    for (ptrdiff_t step = 0; step < steps; ++step, weights += STEP_SIZE) {
        decltype(Arithmetic::load_weights(weights)) values[COLUMNS][PER_PANEL];
#pragma GCC unroll 8
        for (int column = 0; column < COLUMNS; ++column)
#pragma GCC unroll 8
            for (int part = 0; part < PER_PANEL; ++part)
                values[column][part] = Arithmetic::load_weights(weights + column * panel_size + part * PART_SIZE);
#pragma GCC unroll 8
        for (int row = 0; row < ROWS; ++row) {
            const auto value = Arithmetic::input(x[row * stride + step]);
#pragma GCC unroll 8
            for (int column = 0; column < COLUMNS; ++column)
#pragma GCC unroll 8
                for (int part = 0; part < PER_PANEL; ++part)
                    sums[row][column][part] = Arithmetic::add(sums[row][column][part], values[column][part], value);
        }
    }
    const bool is_plain = product.ending.activation == Activation::none && !product.ending.base &&
                          (panel + COLUMNS) * PANEL <= matrix.outputs;
    if (!is_plain) {
        typename Arithmetic::Sums stored[ROWS][COLUMNS][PER_PANEL];
        std::memcpy(stored, sums, sizeof sums);
        return finish<Arithmetic>(product, panel, ROWS, COLUMNS, &stored[0][0][0]);
    }
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; ++row)
#pragma GCC unroll 8
        for (int column = 0; column < COLUMNS; ++column)
#pragma GCC unroll 8
            for (int part = 0; part < PER_PANEL; ++part) {
                const int at = (panel + column) * PANEL + part * LANES;
                store(product.y + row * product.y_stride + at,
                      Arithmetic::result(sums[row][column][part], product, row, at));
            }
}

// Few rows leave registers for several panels at once, which keeps more reads of the matrix under way.
template <typename Arithmetic, int ROWS>
void panels(const Product& product, int first, int last) {
    constexpr int REGISTERS = LANES == 16 ? 28 : 12;
    constexpr int FITTING = REGISTERS / (ROWS * PER_PANEL);
    constexpr int COLUMNS = FITTING >= 4 ? 4 : FITTING >= 2 ? 2 : 1;
    int panel = first;
    for (; panel + COLUMNS <= last; panel += COLUMNS) block<Arithmetic, ROWS, COLUMNS>(product, panel);
    for (; panel < last; ++panel) block<Arithmetic, ROWS, 1>(product, panel);
}

constexpr int MOST_ROWS = 6;
constexpr int STRIP = 4;  // panels that stay in the cache while all rows pass by

template <typename Arithmetic>
void multiply_with(const Product& product, int first, int last) {
    const int rows = product.x.count, strip = rows > MOST_ROWS ? STRIP : last - first;
    const int blocks = (rows + MOST_ROWS - 1) / MOST_ROWS;
    for (int begin = first; begin < last; begin += strip) {
        const int end = begin + strip < last ? begin + strip : last;
        for (int number = 0; number < blocks; ++number) {
            const int row = rows * number / blocks;
            const Product rest = product.from(row);
            switch (rows * (number + 1) / blocks - row) {
                case 1: panels<Arithmetic, 1>(rest, begin, end); break;
                case 2: panels<Arithmetic, 2>(rest, begin, end); break;
                case 3: panels<Arithmetic, 3>(rest, begin, end); break;
                case 4: panels<Arithmetic, 4>(rest, begin, end); break;
                case 5: panels<Arithmetic, 5>(rest, begin, end); break;
                default: panels<Arithmetic, MOST_ROWS>(rest, begin, end);
            }
        }
    }
}

void multiply(const Matrix& matrix, const Rows& x, float* y, ptrdiff_t y_stride, const Ending& ending, int first,
              int last) {
    const Product product{matrix, x, y, y_stride, ending};
    if (matrix.bytes)
        multiply_with<IntegerArithmetic>(product, first, last);
    else if (matrix.halves)
        multiply_with<HalfArithmetic>(product, first, last);
    else
        multiply_with<FloatArithmetic>(product, first, last);
}

void gate(float* gate, const float* inner, int count, Activation activation) {
    each(count, [&](int at, int some) {
        store_some(gate + at, activate(load_some(gate + at, some), activation) * load_some(inner + at, some), some);
    });
}

// The scale of a row, or not a number if `spoiled`, the sum of its numbers times 0, is not 0.
inline float checked(float scale, Floats spoiled) {
    return any(spoiled != Floats{}) ? NAN : scale;
}

#if defined(REGARD_VNNI)

Scale round(const float* x, int count, int largest, int32_t* groups) {
    Floats highest{}, lowest{}, spoiled{};
    each(count, [&](int at, int some) {
        const Floats value = load_some(x + at, some);
        highest = larger(value, highest);
        lowest = larger(-value, lowest);
        spoiled += value * 0.0f;
    });
    const float low = maximum(lowest), range = maximum(highest) + low;
    const bool is_usual = range > 1e-30f && range < 1e38f;  // otherwise a quotient would be infinite
    const float factor = is_usual ? largest / range : 0.0f, zero = is_usual ? std::floor(low * factor + 0.5f) : 0.0f;
    const Floats top = all(float(largest));
    auto* rounded = (uint8_t*)groups;
    each(count, [&](int at, int some) {
        Floats value = load_some(x + at, some) * factor + (zero + 0.5f);
        value = larger(choose(value < top, value, top), Floats{});  // also what is not a number
        const Quarters bytes = __builtin_convertvector(__builtin_convertvector(value, Ints), Quarters);
        std::memcpy(rounded + at, &bytes, some);
    });
    std::memset(rounded + count, 0, (4 - count % 4) % 4);
    return {checked(is_usual ? range / largest : range, spoiled), int32_t(zero)};
}

#else

Scale round(const float* x, int count, int largest, int32_t* groups) {
    Floats sizes{}, spoiled{};
    each(count, [&](int at, int some) {
        const Floats value = load_some(x + at, some);
        sizes = larger(larger(value, -value), sizes);
        spoiled += value * 0.0f;
    });
    const float size = maximum(sizes), factor = size > 0 ? largest / size : 0.0f;
    const Floats highest = all(float(largest));
    auto* rounded = (int16_t*)groups;
    each(count, [&](int at, int some) {
        Floats value = load_some(x + at, some) * factor;
        value = choose(value < highest, value, highest);  // also what is not a number
        value = larger(value, -highest) + choose(value < 0.0f, all(-0.5f), all(0.5f));
        const Halves halves = __builtin_convertvector(__builtin_convertvector(value, Ints), Halves);
        std::memcpy(rounded + at, &halves, some * sizeof(int16_t));
    });
    std::memset(rounded + count, 0, count % 2 * sizeof(int16_t));
    return {checked(size > 0 ? size / largest : size, spoiled), 0};
}

#endif

void normalise(const float* x, const float* weight, const float* bias, float epsilon, int width, float* y) {
    Floats total{};
    if (bias) each(width, [&](int at, int some) { total += load_some(x + at, some); });
    const float mean = sum(total) / width;
    Floats squares{};
    each(width, [&](int at, int some) {
        const Floats distance = load_some(x + at, some, mean) - mean;
        squares += distance * distance;
    });
    const float factor = 1.0f / std::sqrt(sum(squares) / width + epsilon);
    each(width, [&](int at, int some) {
        const Floats value = (load_some(x + at, some) - mean) * factor * load_some(weight + at, some);
        store_some(y + at, bias ? value + load_some(bias + at, some) : value, some);
    });
}

// Sums of even and of odd elements, so that an addition does not wait for the one before it. The order of the sums
// of a query does not depend on the number of queries.
template <int COUNT>
inline void score_together(const Queries& queries, const float* keys, int width, float scale) {
    constexpr int PARTS = PAGE / LANES;
    const float* query = queries.vectors;
    const ptrdiff_t stride = queries.stride;
    Floats even[COUNT][PARTS] = {}, odd[COUNT][PARTS] = {};
    int element = 0;
    for (; element + 2 <= width; element += 2)
#pragma GCC unroll 4
        for (int part = 0; part < PARTS; ++part) {
            const Floats first = load(keys + element * PAGE + part * LANES);
            const Floats second = load(keys + (element + 1) * PAGE + part * LANES);
#pragma GCC unroll 4
            for (int i = 0; i < COUNT; ++i) {
                even[i][part] += query[i * stride + element] * first;
                odd[i][part] += query[i * stride + element + 1] * second;
            }
        }
#pragma GCC unroll 4
    for (int i = 0; i < COUNT; ++i)
        for (int part = 0; part < PARTS; ++part) {
            if (element < width)
                even[i][part] += query[i * stride + element] * load(keys + element * PAGE + part * LANES);
            store(queries.scores + i * queries.scores_stride + part * LANES, (even[i][part] + odd[i][part]) * scale);
        }
}

void score(const Queries& queries, const float* keys, int width, float scale) {
    constexpr int TOGETHER = LANES / 4;  // whose sums fit into the registers
    int first = 0;
    for (; first + TOGETHER <= queries.count; first += TOGETHER)
        score_together<TOGETHER>(queries.part(first, TOGETHER, 0), keys, width, scale);
    for (; first < queries.count; ++first) score_together<1>(queries.part(first, 1, 0), keys, width, scale);
}

void softmax(float* scores, int count) {
    const auto load_first = [&](int at) {  // there are scores of whole pages; those after the first `count` vanish
        return choose(lane_numbers() < count - at, load(scores + at), all(-INFINITY));
    };
    Floats best = all(scores[0]), sums{};
    for (int at = 0; at < count; at += LANES) best = larger(best, load_first(at));
    const float largest = maximum(best);
    for (int at = 0; at < count; at += LANES) {
        const Floats power = exponential(load_first(at) - largest);
        sums += power;
        store(scores + at, power);
    }
    const float factor = 1.0f / sum(sums);
    for (int at = 0; at < count; at += LANES) store(scores + at, load(scores + at) * factor);
}

// COUNT queries and REGISTERS registers of each output at once, for the same reason, as often as they fit.
template <int COUNT, int REGISTERS>
inline int mix_columns(const Queries& queries, const float* values, int count, int width, int stride, int at) {
    const float* weights = queries.scores;
    for (; at + REGISTERS * LANES <= width; at += REGISTERS * LANES) {
        Floats totals[COUNT][REGISTERS];
#pragma GCC unroll 4
        for (int i = 0; i < COUNT; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < REGISTERS; ++j)
                totals[i][j] = load(queries.outputs + i * queries.outputs_stride + at + j * LANES);
        for (int token = 0; token < count; ++token) {
            Floats value[REGISTERS];
#pragma GCC unroll 4
            for (int j = 0; j < REGISTERS; ++j) value[j] = load(values + token * stride + at + j * LANES);
#pragma GCC unroll 4
            for (int i = 0; i < COUNT; ++i)
#pragma GCC unroll 4
                for (int j = 0; j < REGISTERS; ++j)
                    totals[i][j] += weights[i * queries.scores_stride + token] * value[j];
        }
#pragma GCC unroll 4
        for (int i = 0; i < COUNT; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < REGISTERS; ++j)
                store(queries.outputs + i * queries.outputs_stride + at + j * LANES, totals[i][j]);
    }
    return at;
}

template <int COUNT>
inline void mix_together(const Queries& queries, const float* values, int count, int width, int stride) {
    int at = 0;
    if (COUNT == 1) at = mix_columns<COUNT, 4>(queries, values, count, width, stride, at);
    at = mix_columns<COUNT, 2>(queries, values, count, width, stride, at);
    at = mix_columns<COUNT, 1>(queries, values, count, width, stride, at);
    if (at == width) return;
    for (int i = 0; i < COUNT; ++i) {
        float* output = queries.outputs + i * queries.outputs_stride + at;
        Floats total = load_some(output, width - at);
        for (int token = 0; token < count; ++token)
            total += queries.scores[i * queries.scores_stride + token] *
                     load_some(values + token * stride + at, width - at);
        store_some(output, total, width - at);
    }
}

void mix(const Queries& queries, const float* values, int count, int width, int stride) {
    if (queries.count == SPAN) return mix_together<SPAN>(queries, values, count, width, stride);
    for (int i = 0; i < queries.count; ++i)
        mix_together<1>(queries.part(i, 1, 0), values, count, width, stride);
}

void normaliser(const float* logits, int count, float* largest, float* total) {
    Floats best = all(logits[0]);
    each(count, [&](int at, int some) { best = larger(best, load_some(logits + at, some, logits[0])); });
    *largest = maximum(best);
    Floats sums{};
    each(count, [&](int at, int some) { sums += exponential(load_some(logits + at, some, -INFINITY) - *largest); });
    *total = sum(sums);
}

int next_above(const float* values, int from, int count, float floor) {
    int at = from;
    while (at + LANES <= count && !any(load(values + at) > floor)) at += LANES;
    for (; at < count; ++at)
        if (values[at] > floor) return at;
    return count;
}

const Kernels* kernels(const char* name) {
    constexpr Rounding rounding{IntegerArithmetic::TOGETHER, IntegerArithmetic::LARGEST};
    static const Kernels table{name,  rounding, multiply, round,      gate,      normalise,
                               score, softmax,  mix,      normaliser, next_above};
    return &table;
}

}  // namespace regard::REGARD_LEVEL
