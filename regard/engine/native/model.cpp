#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace regard {

namespace {

constexpr size_t LINE = 64, HUGE_PAGE = 1 << 21;

// Memory in huge pages where the system has them: reading a large matrix then misses no address translation.
void* allocate(size_t bytes) {
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE;
    bytes = (bytes + 2 * LINE - 1) / LINE * LINE;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes)) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    if (alignment == HUGE_PAGE) madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return memory;
}

}  // namespace

template <typename Item>
Item* Buffer<Item>::need(size_t count) {
    if (count > size) {
        items.reset();
        size = 0;
        items.reset(static_cast<Item*>(allocate(count * sizeof(Item))));
        size = count;
    }
    return items.get();
}

template <typename Item>
void Buffer<Item>::Free::operator()(Item* memory) const {
    std::free(memory);
}

template class Buffer<float>;
template class Buffer<int8_t>;
template class Buffer<int32_t>;
template class Buffer<Scale>;
template class Buffer<uint16_t>;

namespace {

size_t padded(int64_t outputs) {
    return size_t(outputs + PANEL - 1) / PANEL * PANEL;
}

// Copy rows of a matrix into panels, in which some inputs of an output lie beside each other.
template <typename From, typename Item, typename Convert>
void pack(const From* weight, const Matrix& matrix, Item* to, Convert convert) {
    const size_t together = matrix.together, step_size = PANEL * together, panel_size = matrix.steps() * step_size;
    std::fill_n(to, matrix.panels() * panel_size, Item(0));
    for (int output = 0; output < matrix.outputs; ++output) {
        Item* panel = to + output / PANEL * panel_size + output % PANEL * together;
        const From* row = weight + size_t(output) * matrix.inputs;
        for (int input = 0; input < matrix.inputs; panel += step_size)
            for (size_t i = 0; i < together && input < matrix.inputs; ++i, ++input)
                panel[i] = convert(output, row[input]);
    }
}

// A number for each output, zero for the padding.
template <typename Item>
Item* outputs_of(Buffer<Item>& buffer, const Matrix& matrix) {
    return std::fill_n(buffer.need(padded(matrix.outputs)), padded(matrix.outputs), Item(0)) - padded(matrix.outputs);
}

// Whether a row can be divided by its scale. All of another row become 0, and its products 0 or not a number.
bool is_usual(float scale) {
    return scale > 0 && std::isfinite(scale);
}

void pack_bytes(Linear& linear, const float* weight) {
    Matrix& matrix = linear.matrix;
    float* scales = outputs_of(linear.scales, matrix);
    int32_t* totals = outputs_of(linear.totals, matrix);
    for (int output = 0; output < matrix.outputs; ++output) {
        float largest = 0;
        for (int input = 0; input < matrix.inputs; ++input) {
            const float size = std::fabs(weight[size_t(output) * matrix.inputs + input]);
            if (!(size <= largest) && !std::isnan(largest)) largest = size;  // what is not a number stays
        }
        scales[output] = largest / 127;
    }
    int8_t* bytes = linear.bytes.need(padded(matrix.outputs) * matrix.steps() * matrix.together);
    pack(weight, matrix, bytes, [&](int output, float value) {
        const int8_t rounded = int8_t(is_usual(scales[output]) ? std::lrint(value / scales[output]) : 0);
        totals[output] += rounded;
        return rounded;
    });
    matrix.scales = scales;
    matrix.totals = totals;
    matrix.bytes = bytes;
}

void pack_halves(Linear& linear, const uint16_t* weight) {
    Matrix& matrix = linear.matrix;
    uint16_t* halves = linear.halves.need(padded(matrix.outputs) * matrix.inputs);
    pack(weight, matrix, halves, [](int, uint16_t value) { return value; });
    matrix.halves = halves;
}

void pack_floats(Linear& linear, const float* weight) {
    Matrix& matrix = linear.matrix;
    float* floats = linear.floats.need(padded(matrix.outputs) * matrix.inputs);
    pack(weight, matrix, floats, [](int, float value) { return value; });
    matrix.floats = floats;
}

void set_bias(Linear& linear, const float* bias) {
    float* biases = outputs_of(linear.bias, linear.matrix);
    if (bias) std::copy_n(bias, linear.matrix.outputs, biases);
    linear.matrix.bias = biases;
}

// A float16 number in float32: its bits in their new places, with the difference of the exponents' offsets.
float widened(uint16_t half) {
    uint32_t bits = uint32_t(half & 0x7fff) << 13;
    if (bits >= 0x0f800000) bits |= 0x7f800000;  // infinity and what is not a number
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (bits < 0x0f800000) value *= 0x1p112f;
    return half & 0x8000 ? -value : value;
}

// Sizes that no model has are refused before anything is allocated or divided by them.
const Shape& checked(const Shape& shape) {
    constexpr int32_t MOST = 1 << 24;
    const auto check = [](const char* name, int32_t value, int32_t lowest, int32_t highest) {
        if (value < lowest || value > highest)
            throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be between " +
                                        std::to_string(lowest) + " and " + std::to_string(highest));
    };
    check("family", shape.family, 0, 2);
    check("vocabulary", shape.vocabulary, 1, MOST);
    check("target vocabulary", shape.target_vocabulary, 1, MOST);
    check("width", shape.width, 1, MOST);
    check("layers", shape.layers, 0, 1 << 12);
    check("decoder layers", shape.decoder_layers, 0, 1 << 12);
    check("heads", shape.heads, 1, 1 << 12);
    check("key-value heads", shape.groups, 1, shape.heads);
    check("key width", shape.key_width, 1, 1 << 12);
    check("feed-forward width", shape.feed_forward_width, 1, MOST);
    check("activation", shape.activation, 0, int32_t(Activation::silu));
    check("positions", shape.positions, 0, 4);
    check("context", shape.context, 0, std::numeric_limits<int32_t>::max());
    check("segments", shape.segments, 0, MOST);
    if (shape.heads % shape.groups) throw std::invalid_argument("key-value heads must divide heads");
    if (shape.positions == 4 && shape.key_width % 2)
        throw std::invalid_argument("rotary positions need an even key width");
    return shape;
}

const Kernels& found(const char* level) {
    const Kernels* kernels = kernels_of(level);
    if (!kernels) throw std::invalid_argument(std::string("this processor does not have the level ") + level);
    return *kernels;
}

}  // namespace

void Linear::row(int output, float* to) const {
    const size_t together = matrix.together, step_size = PANEL * together;
    size_t at = output / PANEL * matrix.steps() * step_size + output % PANEL * together;
    for (int input = 0; input < matrix.inputs; at += step_size)
        for (size_t i = 0; i < together && input < matrix.inputs; ++i, ++input)
            to[input] = matrix.bytes    ? float(matrix.bytes[at + i]) * matrix.scales[output]
                        : matrix.halves ? widened(matrix.halves[at + i])
                                        : matrix.floats[at + i];
}

const float* Embedding::find(int id, int width, float* space) const {
    if (vectors) return vectors + size_t(id) * width;
    packed->row(id, space);
    return space;
}

// The tensors of the caller by name, with the shapes that the model must have.
class Model::Weights {
public:
    Weights(const Tensor* tensors, int count, Read read, const Shape& shape, int together)
        : read(read), shape(shape), together(together) {
        for (int i = 0; i < count; ++i) {
            if (!tensors[i].name || !(tensors[i].data || read))
                throw std::invalid_argument("a tensor has no name or no data");
            by_name[tensors[i].name] = tensors[i];
        }
    }

    bool has(const std::string& name) const { return by_name.count(name) > 0; }

    // The data of a tensor until the next is asked for; null if the caller has none of this name.
    const void* optional(const std::string& name, int64_t rows, int64_t columns) const {
        const auto place = by_name.find(name);
        if (place == by_name.end()) return nullptr;
        const Tensor& tensor = place->second;
        if (tensor.rows != rows || tensor.columns != columns)
            throw std::invalid_argument(name + " has the shape " + std::to_string(tensor.rows) + " x " +
                                        std::to_string(tensor.columns) + ", not " + std::to_string(rows) + " x " +
                                        std::to_string(columns));
        const void* data = tensor.data ? tensor.data : read(tensor.name);
        if (!data) throw std::invalid_argument("the weight " + name + " cannot be read");
        return data;
    }

    const void* find(const std::string& name, int64_t rows, int64_t columns) const {
        const void* data = optional(name, rows, columns);
        if (!data) throw std::invalid_argument("the weight " + name + " is missing");
        return data;
    }

    const float* floats(const std::string& name, int64_t rows, int64_t columns) const {
        return static_cast<const float*>(find(name, rows, columns));
    }

    std::vector<float> copy(const std::string& name, int64_t rows, int64_t columns) const {
        const float* data = floats(name, rows, columns);
        return {data, data + rows * columns};
    }

    // A linear layer, or the outputs of one from `first` on.
    void linear(const std::string& name, int outputs, int inputs, Linear& to, int first = 0, int all = 0) const {
        all = all ? all : outputs;
        set_sizes(to, outputs, inputs);
        bias(name, to, first, all);
        matrix(find(name + ".weight", all, inputs), to, first);
    }

    // The packed vectors of the tokens; those of the source if the target has none of its own.
    std::shared_ptr<const Linear> tokens(const std::string& name, int vocabulary,
                                         const std::shared_ptr<const Linear>& source) const {
        if (!has(name + ".weight") && source && source->matrix.outputs == vocabulary) return source;
        auto packed = std::make_shared<Linear>();
        set_sizes(*packed, vocabulary, shape.width);
        matrix(find(name + ".weight", vocabulary, shape.width), *packed, 0);
        return packed;
    }

    // The layer over the vocabulary, which may have the matrix of the tokens.
    void head(const std::shared_ptr<const Linear>& tokens, Linear& to) const {
        const int outputs = shape.target_vocabulary;
        if (has("head.weight")) return linear("head", outputs, shape.width, to);
        if (tokens->matrix.outputs != outputs) throw std::invalid_argument("the weight head.weight is missing");
        to.matrix = tokens->matrix;
        bias("head", to, 0, outputs);
    }

    void norm(const std::string& name, int width, Norm& to, bool has_bias) const {
        to.weight = copy(name + ".weight", width, 1);
        if (has_bias) to.bias = copy(name + ".bias", width, 1);
    }

private:
    void set_sizes(Linear& to, int outputs, int inputs) const {
        to.matrix.outputs = outputs;
        to.matrix.inputs = inputs;
        to.matrix.together = shape.is_int8 ? together : 1;
    }

    void bias(const std::string& name, Linear& to, int first, int all) const {
        const auto* data = static_cast<const float*>(optional(name + ".bias", all, 1));
        set_bias(to, data ? data + first : nullptr);
    }

    void matrix(const void* weight, Linear& to, int first) const {
        const size_t skipped = size_t(first) * to.matrix.inputs;
        if (shape.is_half) return pack_halves(to, static_cast<const uint16_t*>(weight) + skipped);
        const float* floats = static_cast<const float*>(weight) + skipped;
        shape.is_int8 ? pack_bytes(to, floats) : pack_floats(to, floats);
    }

    const Read read;
    const Shape& shape;
    const int together;  // inputs that int8 multiplies together
    std::map<std::string, Tensor> by_name;
};

Model::Model(const Shape& shape, const Tensor* tensors, int count, Read read, const char* level)
    : shape(checked(shape)),
      kernels(found(level)),
      activation(Activation(shape.activation)),
      decoder_pages(std::make_shared<PagePool>(PageLayout{shape.decoder_layers, shape.groups, shape.key_width})),
      encoder_pages(std::make_shared<PagePool>(PageLayout{1, shape.groups, shape.key_width})) {
    const Weights weights(tensors, count, read, shape, kernels.rounding.together);
    const bool has_encoder = shape.family != 1, has_decoder = shape.family != 2;
    const auto embedding = [&](const char* name, int vocabulary, Embedding& to) {
        const std::string prefix(name);
        to.vocabulary = vocabulary;
        if (!has_decoder)
            to.vectors = weights.floats(prefix + ".weight", vocabulary, shape.width);
        else
            to.packed = weights.tokens(prefix, vocabulary, source.packed);
        if (shape.positions == 3)
            to.positions = weights.copy(prefix + ".positions.weight", shape.context, shape.width);
        if (shape.segments && has_encoder) {
            to.segment = weights.copy(prefix + ".segments", shape.segments, shape.width);
            to.segment.resize(shape.width);
        }
        if (shape.embedding_norm) {
            to.norm = std::make_unique<Norm>();
            weights.norm(prefix + ".norm", shape.width, *to.norm, !shape.root_mean_square);
        }
    };
    const auto stack = [&](const char* name, int layers, bool has_memory, Stack& to) {
        for (int layer = 0; layer < layers; ++layer) {
            to.blocks.push_back(std::make_unique<Block>());
            load_block(weights, std::string(name) + ".blocks." + std::to_string(layer), has_memory,
                       *to.blocks.back());
        }
        if (shape.final_norm) {
            to.norm = std::make_unique<Norm>();
            weights.norm(std::string(name) + ".norm", shape.width, *to.norm, !shape.root_mean_square);
        }
    };
    if (has_encoder) {
        embedding("source", shape.vocabulary, source);
        stack("encoder", shape.layers, false, encoder);
    }
    if (has_decoder) {
        embedding("target", shape.target_vocabulary, target);
        stack("decoder", shape.decoder_layers, has_encoder, decoder);
        head = std::make_unique<Linear>();
        weights.head(target.packed, *head);
    }
    if (shape.positions == 4) frequencies = weights.copy("rotary.frequencies", shape.key_width / 2, 1);
#if defined(__GLIBC__)
    malloc_trim(0);  // what held the weights while they were read
#endif
}

void Model::load_block(const Weights& weights, const std::string& name, bool has_memory, Block& block) {
    const int width = shape.width, queries = shape.heads * shape.key_width, keys = shape.groups * shape.key_width;
    const int inner = shape.feed_forward_width, all = queries + 2 * keys;
    const bool has_bias = !shape.root_mean_square;
    weights.linear(name + ".attention.projections", all, width, block.query_key_value);
    weights.linear(name + ".attention.output", width, queries, block.output);
    weights.norm(name + ".around_attention.norm", width, block.around_attention, has_bias);
    if (has_memory) {
        weights.linear(name + ".cross.projections", queries, width, block.cross_query, 0, all);
        weights.linear(name + ".cross.projections", 2 * keys, width, block.cross_key_value, queries, all);
        weights.linear(name + ".cross.output", width, queries, block.cross_output);
        weights.norm(name + ".around_cross.norm", width, block.around_cross, has_bias);
    }
    weights.linear(name + ".feed_forward.expand", shape.gated ? 2 * inner : inner, width, block.expand);
    weights.linear(name + ".feed_forward.contract", width, inner, block.contract);
    weights.norm(name + ".around_feed_forward.norm", width, block.around_feed_forward, has_bias);
}

}  // namespace regard
