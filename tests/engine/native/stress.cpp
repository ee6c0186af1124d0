// Sessions, beams, threads and wrong arguments through the C interface, to be run under sanitizers.
//
// tests/engine/sanitizers.py builds and runs it. It prints the reason and ends with 1 if a result is wrong.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "interface.h"

using namespace regard;

namespace {

void check(bool is_right, const std::string& what) {
    if (is_right) return;
    std::fprintf(stderr, "wrong: %s (%s)\n", what.c_str(), regard_error());
    std::exit(1);
}

// Random tensors of a shape, under the names that Model looks up.
class Tensors {
public:
    explicit Tensors(const Shape& shape) : shape(shape) {
        const bool has_encoder = shape.family != 1, has_decoder = shape.family != 2;
        if (has_encoder) embedding("source", shape.vocabulary);
        if (has_encoder) stack("encoder", shape.layers, false);
        if (has_decoder) {
            embedding("target", shape.target_vocabulary);
            stack("decoder", shape.decoder_layers, has_encoder);
            linear("head", shape.target_vocabulary, shape.width);
        }
        if (shape.positions == 4) add("rotary.frequencies", shape.key_width / 2, 1);
    }

    std::vector<Tensor> list;

private:
    void add(const std::string& name, int64_t rows, int64_t columns) {
        names.push_back(name);
        data.emplace_back(rows * columns);
        for (float& value : data.back()) value = std::uniform_real_distribution<float>(-0.3f, 0.3f)(random);
        list.push_back({names.back().c_str(), data.back().data(), rows, columns});
    }

    // A matrix, in float16 if the shape says so: numbers between -0.25 and 0.25.
    void matrix(const std::string& name, int64_t rows, int64_t columns) {
        if (!shape.is_half) return add(name, rows, columns);
        names.push_back(name);
        halves.emplace_back(rows * columns);
        for (uint16_t& value : halves.back()) value = uint16_t(random() % 0x3400 | random() % 2 << 15);
        list.push_back({names.back().c_str(), halves.back().data(), rows, columns});
    }

    void linear(const std::string& name, int outputs, int inputs) {
        matrix(name + ".weight", outputs, inputs);
        add(name + ".bias", outputs, 1);
    }

    void norm(const std::string& name) {
        add(name + ".weight", shape.width, 1);
        add(name + ".bias", shape.width, 1);
    }

    void embedding(const std::string& name, int vocabulary) {
        shape.family == 2 ? add(name + ".weight", vocabulary, shape.width)
                          : matrix(name + ".weight", vocabulary, shape.width);
        if (shape.positions == 3) add(name + ".positions.weight", shape.context, shape.width);
        if (shape.segments) add(name + ".segments", shape.segments, shape.width);
        if (shape.embedding_norm) norm(name + ".norm");
    }

    void stack(const std::string& name, int layers, bool has_memory) {
        const int queries = shape.heads * shape.key_width, all = queries + 2 * shape.groups * shape.key_width;
        for (int layer = 0; layer < layers; ++layer) {
            const std::string block = name + ".blocks." + std::to_string(layer);
            for (const char* kind : {"attention", "cross"}) {
                if (!has_memory && !std::strcmp(kind, "cross")) continue;
                linear(block + "." + kind + ".projections", all, shape.width);
                linear(block + "." + kind + ".output", shape.width, queries);
                norm(block + ".around_" + kind + ".norm");
            }
            linear(block + ".feed_forward.expand", shape.feed_forward_width * (shape.gated ? 2 : 1), shape.width);
            linear(block + ".feed_forward.contract", shape.width, shape.feed_forward_width);
            norm(block + ".around_feed_forward.norm");
        }
        if (shape.final_norm) norm(name + ".norm");
    }

    const Shape shape;
    std::mt19937 random{7};
    std::deque<std::string> names;  // their addresses stay
    std::deque<std::vector<float>> data;
    std::deque<std::vector<uint16_t>> halves;
};

Shape shape_of(int family, bool is_int8, bool is_half = false) {
    Shape shape{};
    shape.family = family;
    shape.vocabulary = shape.target_vocabulary = 75;
    shape.width = 22;
    shape.layers = shape.decoder_layers = 2;
    shape.heads = 4;
    shape.groups = family == 1 ? 2 : 4;
    shape.key_width = 6;
    shape.feed_forward_width = 33;
    shape.gated = family == 1;
    shape.activation = int32_t(family == 1 ? Activation::silu : Activation::gelu);
    shape.root_mean_square = shape.norm_first = shape.final_norm = family == 1;
    shape.segments = shape.embedding_norm = family == 2;
    shape.positions = family == 0 ? 1 : family == 1 ? 4 : 3;
    shape.context = 60;
    shape.is_int8 = is_int8;
    shape.is_half = is_half;
    shape.norm_epsilon = 1e-5f;
    shape.embedding_scale = 1.0f;
    return shape;
}

RegardModel* model_of(const Shape& shape, int threads, const char* level) {
    // Embeddings of an encoder-only model are used in place, so the tensors live as long as the program.
    static std::deque<Tensors> kept;
    static std::mutex lock;
    std::lock_guard<std::mutex> guard(lock);
    kept.emplace_back(shape);
    RegardModel* model = nullptr;
    const auto& list = kept.back().list;
    check(!regard_model_new(&shape, list.data(), int(list.size()), nullptr, threads, level, &model), "a model is made");
    return model;
}

// Sequences of different lengths, some longer than a page of keys and values.
struct Sequences {
    Sequences(int count, int vocabulary, unsigned seed) {
        std::mt19937 random{seed};
        for (int i = 0; i < count; ++i) {
            lengths.push_back(1 + int(random() % 37));
            for (int j = 0; j < lengths.back(); ++j) ids.push_back(int(random() % vocabulary));
        }
    }

    std::vector<int64_t> ids, lengths;
};

void admit(Session* session, const Shape& shape, int rows, unsigned seed) {
    const Sequences prefixes(rows, shape.target_vocabulary, seed), sources(rows, shape.vocabulary, seed + 1);
    const int count = shape.family == 0 ? rows : 0;
    check(!regard_session_admit(session, rows, prefixes.ids.data(), prefixes.lengths.data(), count,
                                sources.ids.data(), sources.lengths.data()),
          "rows are admitted");
}

// A beam search in small: the best ids continue, rows are repeated, dropped and admitted.
std::vector<float> decode(RegardModel* model, const Shape& shape) {
    Session* session = nullptr;
    check(!regard_session_new(model, &session), "a session is made");
    std::vector<float> all;
    std::vector<int64_t> next;
    admit(session, shape, 7, 1);
    for (int turn = 0; turn < 20; ++turn) {
        if (turn == 8) admit(session, shape, 3, 2);
        const int rows = regard_session_rows(session), best = 4;
        next.resize(rows, 5);
        check(!regard_session_step(session, next.data(), rows, nullptr), "a step");
        std::vector<int64_t> banned_rows(rows), banned_ids(rows, 3), ids(size_t(rows) * best);
        for (int row = 0; row < rows; ++row) banned_rows[row] = row;
        std::vector<float> values(size_t(rows) * best);
        check(!regard_session_choose(session, rows, best, banned_rows.data(), banned_ids.data(), rows, ids.data(),
                                     values.data()),
              "a choice");
        all.insert(all.end(), values.begin(), values.end());
        std::vector<float> logits(size_t(rows) * shape.target_vocabulary), normalised(logits.size());
        check(!regard_session_logits(session, rows, nullptr, nullptr, 0, logits.data(), normalised.data()), "logits");
        std::vector<int64_t> order(turn == 14 ? rows - 2 : rows);
        for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t((i * 5 + turn) % rows);
        check(!regard_session_reorder(session, order.data(), int(order.size())), "an order");
        next.assign(order.size(), 0);
        for (size_t i = 0; i < order.size(); ++i) next[i] = ids[size_t(order[i]) * best + i % best];
    }
    regard_session_delete(session);
    for (float value : all) check(value <= 0 && std::isfinite(value), "log-probabilities are finite");
    return all;
}

std::vector<float> encode(RegardModel* model, const Shape& shape) {
    Session* session = nullptr;
    check(!regard_session_new(model, &session), "a session is made");
    const Sequences sources(5, shape.vocabulary, 3);
    std::vector<float> vectors(sources.ids.size() * shape.width);
    check(!regard_session_encode(session, 5, sources.ids.data(), sources.lengths.data(), vectors.data()), "vectors");
    regard_session_delete(session);
    return vectors;
}

std::vector<float> run(RegardModel* model, const Shape& shape) {
    return shape.family == 2 ? encode(model, shape) : decode(model, shape);
}

// Every family and type gives the same bits with any number of threads and callers.
void run_all(const char* level) {
    for (int family : {0, 1, 2})
        for (int type : {0, 1, 2}) {
            const Shape shape = shape_of(family, type == 1, type == 2);
            RegardModel* alone = model_of(shape, 1, level);
            const std::vector<float> expected = run(alone, shape);
            regard_model_delete(alone);
            RegardModel* shared = model_of(shape, 3, level);
            std::vector<std::vector<float>> found(3);
            std::vector<std::thread> callers;
            for (auto& result : found) callers.emplace_back([&, shared] { result = run(shared, shape); });
            for (auto& caller : callers) caller.join();
            for (const auto& result : found) check(result == expected, "threads change no bit");
            regard_model_delete(shared);
        }
}

// Two threads that use one session take turns; results are undefined, memory is not. One of them changes the number
// of rows, so that the other's call for the rows it has made room for may be refused.
void share_a_session() {
    const Shape shape = shape_of(1, false);
    RegardModel* model = model_of(shape, 2, "");
    Session* session = nullptr;
    check(!regard_session_new(model, &session), "a session is made");
    admit(session, shape, 4, 1);
    std::thread other([&] {
        for (int turn = 0; turn < 30; ++turn) {
            const int rows = regard_session_rows(session);
            std::vector<int64_t> chosen(rows);
            std::vector<float> values(rows);
            regard_session_choose(session, rows, 1, nullptr, nullptr, 0, chosen.data(), values.data());
            regard_session_step(session, std::vector<int64_t>(rows, 1).data(), rows, nullptr);
        }
    });
    for (int turn = 0; turn < 30; ++turn) {
        admit(session, shape, 1 + turn % 3, 1);
        const int rows = regard_session_rows(session);
        check(!regard_session_step(session, std::vector<int64_t>(rows, 1).data(), rows, nullptr), "a step");
        const std::vector<int64_t> first{0, 1};
        if (turn % 4 == 3) check(!regard_session_reorder(session, first.data(), 2), "rows leave");
    }
    other.join();
    regard_session_delete(session);
    regard_model_delete(model);
}

void refuse_shapes() {
    const Shape good = shape_of(0, false);
    const Tensors tensors(good);
    RegardModel* model = nullptr;
    const auto make = [&](const Shape* shape, int count, int threads, const char* level) {
        return regard_model_new(shape, tensors.list.data(), count, nullptr, threads, level, &model);
    };
    const int count = int(tensors.list.size());
    for (int32_t Shape::* field : {&Shape::width, &Shape::heads, &Shape::groups, &Shape::key_width, &Shape::vocabulary,
                                   &Shape::feed_forward_width, &Shape::layers, &Shape::family, &Shape::positions})
        for (int32_t value : {-1, 1 << 30, 5}) {
            Shape bad = good;
            bad.*field = value;
            check(make(&bad, count, 1, "") && !model, "a shape that does not fit is refused");
        }
    check(make(nullptr, count, 1, ""), "no shape is refused");
    check(regard_model_new(&good, tensors.list.data() + 1, count - 1, nullptr, 1, "", &model), "a missing tensor is refused");
    check(make(&good, -1, 1, ""), "a negative number of tensors is refused");
    check(make(&good, count, 0, "") && make(&good, count, 1 << 20, ""), "numbers of threads are refused");
    check(make(&good, count, 1, "abacus"), "an unknown level is refused");
    check(regard_model_new(&good, nullptr, 3, nullptr, 1, "", &model), "no tensors are refused");
    check(regard_model_new(&good, tensors.list.data(), count, nullptr, 1, "", nullptr), "no place for a model is refused");
    const Tensor nameless{nullptr, nullptr, 1, 1};
    check(regard_model_new(&good, &nameless, 1, nullptr, 1, "", &model), "a tensor without a name is refused");
}

void refuse_calls() {
    const Shape shape = shape_of(2, false), causal = shape_of(0, false);
    RegardModel* model = model_of(causal, 2, "");
    Session* session = nullptr;
    check(regard_session_new(nullptr, &session) && regard_session_new(model, nullptr), "null is refused");
    check(!regard_session_new(model, &session), "a session is made");
    const int64_t ids[] = {1, 75, -1, 2}, one[] = {1}, four[] = {4}, negative[] = {-3}, none[] = {0}, three[] = {3};
    int64_t chosen[8];
    float values[8];
    check(regard_session_admit(nullptr, 1, ids, one, 1, ids, one), "no session is refused");
    check(regard_session_admit(session, -1, ids, one, 1, ids, one), "a negative number of rows is refused");
    check(regard_session_admit(session, 1, nullptr, one, 1, ids, one), "no ids are refused");
    check(regard_session_admit(session, 1, ids, nullptr, 1, ids, one), "no lengths are refused");
    check(regard_session_admit(session, 1, ids, negative, 1, ids, one), "a negative length is refused");
    check(regard_session_admit(session, 1, ids, none, 1, ids, one), "an empty prefix is refused");
    check(regard_session_admit(session, 1, ids, one, 1, ids, none), "an empty source is refused");
    check(regard_session_admit(session, 1, ids, one, 0, nullptr, nullptr), "a missing source is refused");
    check(regard_session_admit(session, 1, ids, three, 1, ids, one), "an id above the vocabulary is refused");
    check(regard_session_admit(session, 1, ids, one, 1, ids, four), "an id of a source is refused");
    check(regard_session_rows(session) == 0 && regard_session_rows(nullptr) == 0, "nothing was admitted");
    check(!regard_session_admit(session, 1, ids, one, 1, ids, one), "a row is admitted");
    check(regard_session_choose(session, 1, 1, nullptr, nullptr, 0, chosen, values), "a choice before a step");
    check(regard_session_step(session, ids, 2, nullptr), "another number of ids is refused");
    check(regard_session_step(session, nullptr, 1, nullptr), "no ids are refused");
    check(regard_session_step(session, ids + 1, 1, nullptr), "an id above the vocabulary is refused");
    check(regard_session_step(session, ids + 2, 1, nullptr), "a negative id is refused");
    check(!regard_session_step(session, ids, 1, nullptr), "a step");
    for (int best : {0, -1, 76})
        check(regard_session_choose(session, 1, best, nullptr, nullptr, 0, chosen, values), "a number of best");
    check(regard_session_choose(session, 2, 1, nullptr, nullptr, 0, chosen, values), "another number of rows is refused");
    check(regard_session_logits(session, 0, nullptr, nullptr, 0, values, values), "another number of rows is refused");
    check(regard_session_choose(session, 1, 1, nullptr, nullptr, 1, chosen, values), "no bans are refused");
    check(regard_session_choose(session, 1, 1, ids, ids, 1, chosen, values), "a ban of another row is refused");
    check(regard_session_choose(session, 1, 1, none, ids + 1, 1, chosen, values), "a ban outside is refused");
    check(regard_session_choose(session, 1, 1, none, none, -1, chosen, values), "a negative number is refused");
    check(regard_session_choose(session, 1, 1, nullptr, nullptr, 0, nullptr, values), "no place is refused");
    check(regard_session_logits(session, 1, nullptr, nullptr, 0, nullptr, nullptr), "no place is refused");
    check(regard_session_reorder(session, ids, 1) && regard_session_reorder(session, negative, 1), "rows");
    check(regard_session_reorder(session, nullptr, 1) && regard_session_reorder(session, none, -1), "an order");
    check(regard_session_encode(session, 1, ids, one, nullptr), "no place for vectors is refused");
    check(!regard_session_reorder(session, nullptr, 0) && regard_session_rows(session) == 0, "all rows leave");
    check(!regard_session_step(session, nullptr, 0, nullptr), "a step of no rows");
    regard_model_delete(model);  // the session keeps what it needs
    check(!regard_session_admit(session, 1, ids, one, 1, ids, one), "a row is admitted");
    regard_session_delete(session);
    regard_session_delete(nullptr);
    RegardModel* encoder = model_of(shape, 1, "");
    check(!regard_session_new(encoder, &session), "a session is made");
    const Sequences sources(1, 75, 1);
    const std::vector<int64_t> many(61, 1);
    const int64_t length[] = {61};
    std::vector<float> vectors(61 * 22);
    check(regard_session_encode(session, 1, many.data(), length, vectors.data()), "61 of 60 positions are refused");
    check(regard_session_admit(session, 1, ids, one, 0, nullptr, nullptr), "an encoder admits no row");
    regard_session_delete(session);
    regard_model_delete(encoder);
}

}  // namespace

int main() {
    refuse_shapes();
    refuse_calls();
    share_a_session();
    for (const char* level : {"portable", "avx2", "avxvnni", "avx512", "avx512vnni"})
        if (regard_level(level)) run_all(level);
    std::puts("all right");
}
