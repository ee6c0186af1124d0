// The arithmetic of the engine, compiled once for each processor level and chosen when a model is loaded.
//
// Sums run over their inputs in one fixed order, whatever the number of rows or threads, so that a row's result
// is bit-equal in every batch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace regard {

constexpr int PANEL = 16;  // outputs of a matrix that lie beside each other in memory
constexpr int PAGE = 16;   // tokens of a page of keys and values
constexpr int SPAN = 4;    // queries that read the same keys and values together, at most

enum class Activation : int32_t { none, relu, gelu, gelu_tanh, silu };

// A weight matrix in panels: panel p holds outputs 16 p to 16 p + 15. Padding is zero.
struct Matrix {
    int outputs = 0, inputs = 0;
    int together = 1;  // inputs of one output that lie beside each other: 1, or Rounding::together with int8
    const float* floats = nullptr;    // float32: the 16 weights of the first input, of the second, and so on; or
    const uint16_t* halves = nullptr;  // float16, in the same order; or
    const int8_t* bytes = nullptr;    // int8: for each group of inputs the weights of the first output, and so on
    const float* scales = nullptr;    // of int8, one for each output, padded to whole panels
    const int32_t* totals = nullptr;  // of int8, the sum of the weights of each output
    const float* bias = nullptr;      // padded to whole panels; zero if the layer has none

    int panels() const { return (outputs + PANEL - 1) / PANEL; }
    int steps() const { return (inputs + together - 1) / together; }
};

// What a rounded row stands for: x = (rounded - zero) * scale.
struct Scale {
    float scale;
    int32_t zero;
};

// Rows that are multiplied by a matrix: float32, or for int8 weights rounded, a group of inputs in 32 bits.
struct Rows {
    const float* floats = nullptr;
    const int32_t* groups = nullptr;
    const Scale* scales = nullptr;
    ptrdiff_t stride = 0;
    int count = 0;

    // The same without the first rows.
    Rows from(int first) const {
        return {floats ? floats + first * stride : nullptr, groups ? groups + first * stride : nullptr,
                scales ? scales + first : nullptr, stride, count - first};
    }
};

// How a processor level rounds the inputs of products with int8: to two of 16 bits or to four of 8 bits together.
struct Rounding {
    int together, largest;

    // The largest rounded input for which a sum of products with int8 fits into 32 bits.
    int largest_of(const Matrix& matrix) const {
        const int64_t fitting = ((int64_t(1) << 31) - 1) / (int64_t(127) * together * matrix.steps());
        return int(fitting < largest ? fitting : largest);
    }
};

// What happens to x W^T + b before it is stored.
struct Ending {
    Activation activation = Activation::none;
    const float* base = nullptr;  // rows that are added: the residual connection
    ptrdiff_t base_stride = 0;

    // The same without the first rows.
    Ending from(int first) const { return {activation, base ? base + first * base_stride : nullptr, base_stride}; }
};

// Queries of one head that read the same keys and values, and the scores of each.
struct Queries {
    const float* vectors;
    ptrdiff_t stride;
    int count;
    float* scores;
    ptrdiff_t scores_stride;
    float* outputs;
    ptrdiff_t outputs_stride;

    // The same for `more` of them from `first` on, with the scores from the token `token` on.
    Queries part(int first, int more, int token) const {
        return {vectors + first * stride, stride, more, scores + first * scores_stride + token, scores_stride,
                outputs + first * outputs_stride, outputs_stride};
    }
};

struct Kernels {
    const char* level;
    Rounding rounding;

    // y = ending(x W^T + b) for the panels from `first` to before `last`.
    void (*multiply)(const Matrix& matrix, const Rows& x, float* y, ptrdiff_t y_stride, const Ending& ending,
                     int first, int last);

    // Round a row to whole numbers of at most `largest`, in whole groups. With a number that is not finite the scale
    // is not a number, so that no product hides it.
    Scale (*round)(const float* x, int count, int largest, int32_t* groups);

    // gate = activation(gate) * inner
    void (*gate)(float* gate, const float* inner, int count, Activation activation);

    // y = (x - mean) / sqrt(variance + epsilon) * weight + bias; without a bias, root mean square alone.
    void (*normalise)(const float* x, const float* weight, const float* bias, float epsilon, int width, float* y);

    // Scores of the queries with the 16 keys of a page: keys are stored element by element, width x 16.
    void (*score)(const Queries& queries, const float* keys, int width, float scale);

    // Softmax of scores in place; there is room for whole pages.
    void (*softmax)(float* scores, int count);

    // outputs += the sums of `count` values of a page, each `stride` floats long, weighted by the scores.
    void (*mix)(const Queries& queries, const float* values, int count, int width, int stride);

    // The largest of some logits, and the sum of e^(logit - largest).
    void (*normaliser)(const float* logits, int count, float* largest, float* sum);

    // The first index whose value is above `floor`, from `from` on; `count` if there is none.
    int (*next_above)(const float* values, int from, int count, float floor);
};

// The kernels of the best level that this processor has, or of a level by name. None if it does not have it.
const Kernels* kernels_of(const char* level);

}  // namespace regard
