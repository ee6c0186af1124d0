// The pass of tokens through a stack. All workers run the same function; `meet` separates its phases.
//
// A phase that multiplies by a matrix is shared out by panels of outputs, attention by tokens and heads, and
// everything else by tokens. Nothing is padded: the tokens of all sequences lie one after the other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "model.h"

namespace regard {

namespace {

// With so few tokens each worker normalises all of them for itself, which is faster than to meet.
constexpr int FEW_TOKENS = 4;
// With more rows than outputs / OUTPUTS_PER_ROW each worker multiplies rows of its own by the whole matrix. Then it
// finds most of what it reads next in its own cache; with fewer rows it is more to read the matrix twice.
constexpr int OUTPUTS_PER_ROW = 16;

void rotate(float* vector, const float* turns, int width) {
    const int half = width / 2;
    for (int i = 0; i < half; ++i) {
        const float left = vector[i], right = vector[i + half], cosine = turns[2 * i], sine = turns[2 * i + 1];
        vector[i] = left * cosine - right * sine;
        vector[i + half] = right * cosine + left * sine;
    }
}

// Add a token to the last span if it reads the same keys and values, or begin another one.
void extend(std::vector<Span>& spans, bool is_same) {
    if (is_same && spans.back().count < SPAN)
        ++spans.back().count;
    else
        spans.push_back({spans.empty() ? 0 : spans.back().first + spans.back().count, 1});
}

}  // namespace

Pass::Pass(const Model& model, Team& team)
    : model(model), team(team), own_normed(team.count()), own_scores(team.count()), own_rounded(team.count()) {}

const float* Pass::encode(const std::vector<Token>& tokens) {
    return run(tokens, model.source, model.encoder, false);
}

const float* Pass::decode(const std::vector<Token>& tokens) {
    return run(tokens, model.target, model.decoder, true);
}

const float* Pass::run(const std::vector<Token>& tokens, const Embedding& embedding, const Stack& stack,
                       bool is_decoder) {
    const bool norm_first = model.shape.norm_first, has_memory = is_decoder && model.shape.family == 0;
    prepare(tokens, embedding.vocabulary);
    team.run([&](Worker& worker) {
        embed(worker, tokens, embedding);
        // The residual stream: with the norm first it is `sums` itself, otherwise the normalised sums.
        const float* stream = sums.data();
        const auto around = [&](const Norm& norm, auto sublayer) {
            const float* input = norm_first ? normalise(worker, sums.data(), norm) : stream;
            sublayer(input, Ending{Activation::none, stream, model.shape.width});
            worker.meet();
            if (!norm_first) stream = normalise(worker, sums.data(), norm);
        };
        for (int layer = 0; layer < int(stack.blocks.size()); ++layer) {
            const Block& block = *stack.blocks[layer];
            around(block.around_attention, [&](const float* input, const Ending& residual) {
                multiply(worker, block.query_key_value, input, wide.data());
                worker.meet();
                attend(worker, tokens, is_decoder ? layer : 0, is_decoder);
                worker.meet();
                multiply(worker, block.output, attended.data(), sums.data(), residual);
            });
            if (has_memory)
                around(block.around_cross, [&](const float* input, const Ending& residual) {
                    multiply(worker, block.cross_query, input, wide.data());
                    worker.meet();
                    attend_memory(worker, tokens, layer);
                    worker.meet();
                    multiply(worker, block.cross_output, attended.data(), sums.data(), residual);
                });
            around(block.around_feed_forward, [&](const float* input, const Ending& residual) {
                feed_forward(worker, block, input, residual.base);
            });
        }
        if (stack.norm) stream = normalise(worker, stream, *stack.norm);
        worker.share(count, [&](int first, int end) {
            const size_t width = model.shape.width;
            std::memcpy(result.data() + first * width, stream + first * width, (end - first) * width * sizeof(float));
        });
    });
    return last = result.data();
}

void Pass::prepare(const std::vector<Token>& tokens, int vocabulary) {
    const Shape& shape = model.shape;
    count = int(tokens.size());
    longest = 0;
    has_several = false;
    own_spans.clear();
    memory_spans.clear();
    for (int i = 0; i < count; ++i) {
        const Token& token = tokens[i];
        if (token.id < 0 || token.id >= vocabulary)
            throw std::invalid_argument("the id " + std::to_string(token.id) + " is not below " +
                                        std::to_string(vocabulary) + ", the size of the vocabulary");
        if (shape.positions == 3 && token.position >= shape.context)
            throw std::invalid_argument("a sequence of " + std::to_string(token.position + 1) +
                                        " tokens exceeds the " + std::to_string(shape.context) +
                                        " learned positions");
        const bool is_next = i > 0 && tokens[i - 1].own == token.own;
        has_several |= is_next;
        extend(own_spans, is_next);
        extend(memory_spans, i > 0 && token.memory && tokens[i - 1].memory == token.memory);
        longest = std::max(longest, token.own->length());
        if (token.memory) longest = std::max(longest, token.memory->length());
        if (shape.positions == 1 || shape.positions == 2) sinusoid(token.position);
    }
    const size_t queries = size_t(shape.heads) * shape.key_width;
    const size_t projected = queries + 2 * size_t(shape.groups) * shape.key_width;
    const size_t inner = size_t(shape.feed_forward_width) * (shape.gated ? 2 : 1);
    sums.need(size_t(count) * shape.width);
    normed.need(size_t(count) * shape.width);
    result.need(size_t(count) * shape.width);
    wide.need(size_t(count) * std::max(projected, inner));
    attended.need(size_t(count) * queries);
    if (!model.frequencies.empty()) angles.need(size_t(count) * shape.key_width);
    if (shape.is_int8) {
        const size_t widest = std::max({size_t(shape.width), queries, size_t(shape.feed_forward_width)});
        const size_t groups = widest / model.kernels.rounding.together + 1;
        rounded.need(count, groups);
        for (auto& buffer : own_rounded) buffer.need(FEW_TOKENS, groups);
    }
    for (auto& buffer : own_normed) buffer.need(size_t(FEW_TOKENS) * shape.width);
    for (auto& buffer : own_scores) buffer.need(SPAN * size_t(scores_stride()));
}

const float* Pass::sinusoid(int position) {
    const int width = model.shape.width;
    const bool halves = model.shape.positions == 2;
    for (int next = int(table.size() / width); next <= position; ++next) {
        table.resize(size_t(next + 1) * width);
        float* row = table.data() + size_t(next) * width;
        for (int i = 0; 2 * i < width; ++i) {
            const double angle = next / std::pow(10000.0, 2.0 * i / width);
            const int cosine = halves ? width / 2 + i : 2 * i + 1;
            row[halves ? i : 2 * i] = float(std::sin(angle));
            if (cosine < width) row[cosine] = float(std::cos(angle));
        }
    }
    return table.data() + size_t(position) * width;
}

void Pass::embed(Worker& worker, const std::vector<Token>& tokens, const Embedding& embedding) {
    const int width = model.shape.width, kind = model.shape.positions, half = model.shape.key_width / 2;
    const float scale = model.shape.embedding_scale;
    worker.share(count, [&](int first, int end) {
        for (int i = first; i < end; ++i) {
            const Token& token = tokens[i];
            float* sum = sums.data() + size_t(i) * width;
            const float* vector = embedding.find(token.id, width, sum);
            const float* position = kind == 3 ? embedding.positions.data() + size_t(token.position) * width
                                    : kind == 1 || kind == 2 ? table.data() + size_t(token.position) * width
                                                             : nullptr;
            for (int j = 0; j < width; ++j) {
                sum[j] = vector[j] * scale;
                if (position) sum[j] += position[j];
                if (!embedding.segment.empty()) sum[j] += embedding.segment[j];
            }
            if (embedding.norm) {
                const Norm& norm = *embedding.norm;
                model.kernels.normalise(sum, norm.weight.data(), norm.bias.empty() ? nullptr : norm.bias.data(),
                                        model.shape.norm_epsilon, width, sum);
            }
            for (int j = 0; kind == 4 && j < half; ++j) {
                const float angle = float(token.position) * model.frequencies[j];
                float* turn = angles.data() + (size_t(i) * half + j) * 2;
                turn[0] = std::cos(angle);
                turn[1] = std::sin(angle);
            }
        }
    });
    worker.meet();
}

void Pass::attend(Worker& worker, const std::vector<Token>& tokens, int layer, bool is_causal) {
    const Shape& shape = model.shape;
    const int width = shape.key_width, groups = shape.groups, heads = shape.heads, per_group = heads / groups;
    const size_t stride = size_t(heads + 2 * groups) * width;
    const float scale = 1.0f / std::sqrt(float(width));
    const auto store = [&](int i, int group) {
        float* row = wide.data() + i * stride;
        float *key = row + size_t(heads + group) * width, *value = key + size_t(groups) * width;
        if (shape.positions == 4) {
            const float* turns = angles.data() + size_t(i) * width;
            rotate(key, turns, width);
            for (int head = group * per_group; head < (group + 1) * per_group; ++head)
                rotate(row + size_t(head) * width, turns, width);
        }
        tokens[i].own->put(tokens[i].position, layer, group, key, value);
    };
    const auto read = [&](Span span, int group) {
        const KeyValues& own = *tokens[span.first].own;
        int visible[SPAN];
        for (int i = 0; i < span.count; ++i)
            visible[i] = is_causal ? tokens[span.first + i].position + 1 : own.length();
        for (int head = group * per_group; head < (group + 1) * per_group; ++head) {
            const Queries queries{wide.data() + span.first * stride + size_t(head) * width, ptrdiff_t(stride),
                                  span.count, own_scores[worker.number].data(), scores_stride(),
                                  attended.data() + (size_t(span.first) * heads + head) * width, heads * width};
            own.attend(model.kernels, queries, visible, layer, group, scale);
        }
    };
    if (!has_several && is_causal) {
        worker.share(count * groups, [&](int first, int end) {
            for (int unit = first; unit < end; ++unit) {
                store(unit / groups, unit % groups);
                read({unit / groups, 1}, unit % groups);
            }
        });
        return;
    }
    worker.share(count * groups, [&](int first, int end) {
        for (int unit = first; unit < end; ++unit) store(unit / groups, unit % groups);
    });
    worker.meet();
    worker.share(int(own_spans.size()) * groups, [&](int first, int end) {
        for (int unit = first; unit < end; ++unit) read(own_spans[unit / groups], unit % groups);
    });
}

void Pass::attend_memory(Worker& worker, const std::vector<Token>& tokens, int layer) {
    const Shape& shape = model.shape;
    const int width = shape.key_width, heads = shape.heads, per_group = heads / shape.groups;
    const float scale = 1.0f / std::sqrt(float(width));
    worker.share(int(memory_spans.size()) * heads, [&](int first, int end) {
        for (int unit = first; unit < end; ++unit) {
            const Span span = memory_spans[unit / heads];
            const KeyValues& memory = *tokens[span.first].memory;
            const int head = unit % heads, length = memory.length();
            const int visible[SPAN] = {length, length, length, length};
            const size_t at = (size_t(span.first) * heads + head) * width;
            const Queries queries{wide.data() + at, heads * width, span.count, own_scores[worker.number].data(),
                                  scores_stride(), attended.data() + at, heads * width};
            memory.attend(model.kernels, queries, visible, layer, head / per_group, scale);
        }
    });
}

void Pass::feed_forward(Worker& worker, const Block& block, const float* input, const float* base) {
    const Shape& shape = model.shape;
    const int inner = shape.feed_forward_width, expanded = block.expand.matrix.outputs;
    multiply(worker, block.expand, input, wide.data(), {shape.gated ? Activation::none : model.activation});
    worker.meet();
    if (shape.gated) {
        const int panels = (inner + PANEL - 1) / PANEL;
        worker.share(count * panels, [&](int first, int end) {
            for (int unit = first; unit < end; ++unit) {
                float* gate = wide.data() + size_t(unit / panels) * expanded + unit % panels * PANEL;
                model.kernels.gate(gate, gate + inner, std::min(PANEL, inner - unit % panels * PANEL),
                                   model.activation);
            }
        });
        worker.meet();
    }
    multiply(worker, block.contract, wide.data(), sums.data(), {Activation::none, base, shape.width}, expanded);
}

const float* Pass::normalise(Worker& worker, const float* from, const Norm& norm) {
    const int width = model.shape.width;
    const bool is_own = count <= FEW_TOKENS;
    float* to = is_own ? own_normed[worker.number].data() : normed.data();
    const auto rows = [&](int first, int end) {
        for (int i = first; i < end; ++i)
            model.kernels.normalise(from + size_t(i) * width, norm.weight.data(),
                                    norm.bias.empty() ? nullptr : norm.bias.data(), model.shape.norm_epsilon, width,
                                    to + size_t(i) * width);
    };
    if (is_own) {
        rows(0, count);
    } else {
        worker.share(count, rows);
        worker.meet();
    }
    return to;
}

void Pass::multiply(Worker& worker, const Linear& linear, const float* from, float* to, Ending ending, int stride) {
    const Matrix& matrix = linear.matrix;
    stride = stride ? stride : matrix.inputs;
    const Rows rows = matrix.bytes ? round(worker, matrix, from, stride) : Rows{from, nullptr, nullptr, stride, count};
    if (count >= matrix.outputs / OUTPUTS_PER_ROW) {
        worker.share(count, [&](int first, int end) {
            Rows own = rows.from(first);
            own.count = end - first;
            model.kernels.multiply(matrix, own, to + size_t(first) * matrix.outputs, matrix.outputs,
                                   ending.from(first), 0, matrix.panels());
        });
        return;
    }
    worker.share(matrix.panels(), [&](int first, int end) {
        model.kernels.multiply(matrix, rows, to, matrix.outputs, ending, first, end);
    });
}

// Rows rounded for int8. As with norms, few of them are rounded by each worker for itself.
Rows Pass::round(Worker& worker, const Matrix& matrix, const float* from, int stride) {
    const bool is_own = count <= FEW_TOKENS;
    Rounded& to = is_own ? own_rounded[worker.number] : rounded;
    const int groups = matrix.steps(), largest = model.kernels.rounding.largest_of(matrix);
    const auto rows = [&](int first, int end) {
        for (int i = first; i < end; ++i)
            to.scales.data()[i] = model.kernels.round(from + size_t(i) * stride, matrix.inputs, largest,
                                                      to.rows.data() + size_t(i) * groups);
    };
    if (is_own) {
        rows(0, count);
    } else {
        worker.share(count, rows);
        worker.meet();
    }
    return {nullptr, to.rows.data(), to.scales.data(), groups, count};
}

void Pass::remember(const std::vector<KeyValues*>& memories, const std::vector<int>& places) {
    const Shape& shape = model.shape;
    const int width = shape.key_width, groups = shape.groups;
    const size_t stride = size_t(2) * groups * width;
    team.run([&](Worker& worker) {
        for (int layer = 0; layer < shape.decoder_layers; ++layer) {
            multiply(worker, model.decoder.blocks[layer]->cross_key_value, last, wide.data());
            worker.meet();
            worker.share(count * groups, [&](int first, int end) {
                for (int unit = first; unit < end; ++unit) {
                    const int i = unit / groups, group = unit % groups;
                    const float* key = wide.data() + i * stride + size_t(group) * width;
                    memories[i]->put(places[i], layer, group, key, key + size_t(groups) * width);
                }
            });
            worker.meet();
        }
    });
}

const float* Pass::logits() {
    scored.need(size_t(count) * model.shape.target_vocabulary);
    team.run([&](Worker& worker) { multiply(worker, *model.head, last, scored.data()); });
    return scored.data();
}

}  // namespace regard
