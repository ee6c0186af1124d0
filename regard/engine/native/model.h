// A Transformer with packed weights, and the pass of tokens through its stacks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache.h"
#include "kernels.h"
#include "threads.h"

namespace regard {

// The shape of a model, filled in by Python: native_stepper.py has the same fields in the same order.
struct Shape {
    int32_t family;  // 0 encoder-decoder, 1 decoder-only, 2 encoder-only
    int32_t vocabulary, target_vocabulary, width, layers, decoder_layers, heads, groups, key_width;
    int32_t feed_forward_width, gated, activation;
    int32_t root_mean_square, norm_first, final_norm, embedding_norm, segments;
    int32_t positions;  // 0 none, 1 sinusoidal, 2 sinusoidal in halves, 3 learned, 4 rotary
    int32_t context;
    int32_t is_int8, is_half;  // how matrices are stored; float32 if neither
    float norm_epsilon, embedding_scale;
};

// A tensor of the caller, one row after the other: float32, or float16 for a matrix of a model that stores it.
struct Tensor {
    const char* name;
    const void* data;  // null if the caller's function Read gives it
    int64_t rows, columns;
};

// The data of a tensor, valid until the next call; null if there is none.
typedef const void* (*Read)(const char* name);

// Memory that is aligned for vectors.
template <typename Item>
class Buffer {
public:
    Item* need(size_t count);
    Item* data() const { return items.get(); }

private:
    struct Free {
        void operator()(Item* memory) const;
    };
    std::unique_ptr<Item, Free> items;
    size_t size = 0;
};

struct Linear {
    Matrix matrix;
    Buffer<float> floats, scales, bias;
    Buffer<int8_t> bytes;
    Buffer<int32_t> totals;
    Buffer<uint16_t> halves;

    // A row of the matrix, which is the vector of a token.
    void row(int output, float* to) const;
};

struct Norm {
    std::vector<float> weight, bias;
};

struct Block {
    Linear query_key_value, output;
    Linear cross_query, cross_key_value, cross_output;  // of a decoder with an encoder
    Linear expand, contract;
    Norm around_attention, around_cross, around_feed_forward;
};

struct Stack {
    std::vector<std::unique_ptr<Block>> blocks;
    std::unique_ptr<Norm> norm;
};

// The vectors of tokens: of an encoder-only model the caller's memory, otherwise packed, often with the head.
struct Embedding {
    const float* vectors = nullptr;
    std::shared_ptr<const Linear> packed;
    std::vector<float> positions, segment;
    std::unique_ptr<Norm> norm;
    int vocabulary = 0;

    // The vector of a token; `space` is used where it must be unpacked.
    const float* find(int id, int width, float* space) const;
};

class Model {
public:
    Model(const Shape& shape, const Tensor* tensors, int count, Read read, const char* level);

    const Shape shape;
    const Kernels& kernels;
    const Activation activation;
    Embedding source, target;
    Stack encoder, decoder;
    std::unique_ptr<Linear> head;
    std::vector<float> frequencies;  // of rotary positions
    // Of all sessions: a decoder's own tokens and its memories; an encoder, where a layer needs no keys before it.
    const std::shared_ptr<PagePool> decoder_pages, encoder_pages;

private:
    class Weights;
    void load_block(const Weights& weights, const std::string& name, bool has_memory, Block& block);
};

// One token of a pass: its id, its place in its sequence, the sequence's keys and values, and its memory.
struct Token {
    int id, position;
    KeyValues* own;
    const KeyValues* memory;
};

// Tokens of a pass one after the other that read the same keys and values, at most SPAN.
struct Span {
    int first, count;
};

// Inputs of a product with int8 weights.
struct Rounded {
    void need(size_t count, size_t groups) {
        rows.need(count * groups);
        scales.need(count);
    }

    Buffer<int32_t> rows;
    Buffer<Scale> scales;
};

// The working memory of a pass. One thread at a time may use it.
class Pass {
public:
    Pass(const Model& model, Team& team);

    // Vectors of tokens after the encoder, count x width.
    const float* encode(const std::vector<Token>& tokens);

    // Keys and values of the last encoded tokens for every block of the decoder.
    void remember(const std::vector<KeyValues*>& memories, const std::vector<int>& places);

    // Append tokens to the decoder, and return their vectors.
    const float* decode(const std::vector<Token>& tokens);

    // The logits of the last vectors, count x vocabulary.
    const float* logits();

    // The vectors of the last pass.
    const float* vectors() const { return last; }

private:
    const float* run(const std::vector<Token>& tokens, const Embedding& embedding, const Stack& stack,
                     bool is_decoder);
    void embed(Worker& worker, const std::vector<Token>& tokens, const Embedding& embedding);
    void attend(Worker& worker, const std::vector<Token>& tokens, int layer, bool is_causal);
    void attend_memory(Worker& worker, const std::vector<Token>& tokens, int layer);
    void feed_forward(Worker& worker, const Block& block, const float* input, const float* base);
    const float* normalise(Worker& worker, const float* from, const Norm& norm);
    void multiply(Worker& worker, const Linear& linear, const float* from, float* to, Ending ending = {},
                  int stride = 0);
    Rows round(Worker& worker, const Matrix& matrix, const float* from, int stride);
    void prepare(const std::vector<Token>& tokens, int vocabulary);
    ptrdiff_t scores_stride() const { return (longest + PAGE - 1) / PAGE * PAGE; }
    const float* sinusoid(int position);

    const Model& model;
    Team& team;
    int count = 0, longest = 0;
    bool has_several = false;  // tokens of one sequence, which attend to each other
    const float* last = nullptr;
    Buffer<float> sums, normed, wide, attended, result, scored, angles;
    std::vector<Span> own_spans, memory_spans;          // tokens that attend together, and to a memory together
    std::vector<Buffer<float>> own_normed, own_scores;  // of each worker
    Rounded rounded;
    std::vector<Rounded> own_rounded;
    std::vector<float> table;                           // sinusoids of the first positions
};

}  // namespace regard
