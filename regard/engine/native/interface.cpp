#include "interface.h"

#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace regard;

namespace {

thread_local std::string message;

template <typename Function>
int guarded(Function function) {
    try {
        function();
        return 0;
    } catch (const std::bad_alloc&) {
        message = "not enough memory";
    } catch (const std::exception& error) {
        message = error.what();
    }
    return 1;
}

template <typename Item>
Item& given(Item* pointer) {
    if (!pointer) throw std::invalid_argument("a pointer is null");
    return *pointer;
}

// A call of a session: two threads that call the same session take turns.
template <typename Function>
int guarded(Session* session, Function function) {
    return guarded([&] {
        std::lock_guard<std::mutex> lock(given(session).busy);
        function();
    });
}

void check_rows(const Session& session, int rows) {
    if (session.rows() != rows)
        throw std::invalid_argument("there are " + std::to_string(session.rows()) + " rows, not " +
                                    std::to_string(rows) + "; pass one id per row");
}

int narrowed(int64_t id) {
    if (id < 0 || id > std::numeric_limits<int>::max())
        throw std::invalid_argument("the id " + std::to_string(id) + " is negative or above 2^31; ask the tokenizer");
    return int(id);
}

Bans checked(const Bans& bans) {
    if (bans.count < 0) throw std::invalid_argument("a number of banned ids is negative");
    if (bans.count) given(bans.rows), given(bans.ids);
    return bans;
}

// Sequences of the given lengths that lie one after the other.
std::vector<std::vector<int>> sequences(const int64_t* ids, const int64_t* lengths, int count) {
    if (count < 0) throw std::invalid_argument("a number of sequences is negative");
    std::vector<std::vector<int>> all;
    for (int i = 0; i < count; ++i) {
        const int64_t length = (&given(lengths))[i];
        if (length < 0) throw std::invalid_argument("a length is negative");
        all.emplace_back();
        if (!length) continue;
        all.back().reserve(size_t(length));
        for (const int64_t *id = &given(ids), *end = id + length; id < end; ++id) all.back().push_back(narrowed(*id));
        ids += length;
    }
    return all;
}

}  // namespace

struct RegardModel {
    std::shared_ptr<const Model> model;
    std::shared_ptr<Team> team;
};

EXPORTED int32_t regard_interface() {
    constexpr int32_t VERSION = 3;  // raise it with every change of interface.h, Shape or Tensor
    return VERSION * 1000 + int32_t(sizeof(Shape));
}

EXPORTED const char* regard_error() {
    return message.c_str();
}

EXPORTED const char* regard_level(const char* wanted) {
    const Kernels* kernels = kernels_of(wanted);
    return kernels ? kernels->level : nullptr;
}

EXPORTED int regard_model_new(const Shape* shape, const Tensor* tensors, int count, Read read, int threads,
                              const char* level, RegardModel** model) {
    return guarded([&] {
        given(model) = nullptr;
        if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be between 1 and 1024");
        auto made = std::make_unique<RegardModel>();
        made->model = std::make_shared<Model>(given(shape), &given(tensors), count, read, level);
        made->team = std::make_shared<Team>(threads);
        *model = made.release();
    });
}

EXPORTED void regard_model_delete(RegardModel* model) {
    delete model;
}

EXPORTED int regard_session_new(const RegardModel* model, Session** session) {
    return guarded([&] {
        given(session) = nullptr;
        const RegardModel& of = given(model);
        *session = new Session(of.model, of.team);
    });
}

EXPORTED void regard_session_delete(Session* session) {
    delete session;
}

EXPORTED int regard_session_rows(Session* session) {
    int rows = 0;
    guarded(session, [&] { rows = session->rows(); });
    return rows;
}

EXPORTED int regard_session_admit(Session* session, int rows, const int64_t* prefixes, const int64_t* prefix_lengths,
                                  int sources, const int64_t* source_ids, const int64_t* source_lengths) {
    return guarded(session, [&] {
        session->admit(sequences(prefixes, prefix_lengths, rows), sequences(source_ids, source_lengths, sources));
    });
}

EXPORTED int regard_session_step(Session* session, const int64_t* ids, int rows, float* hidden) {
    return guarded(session, [&] {
        check_rows(*session, rows);
        if (rows) session->step(&given(ids), hidden);
    });
}

EXPORTED int regard_session_choose(Session* session, int rows, int best, const int64_t* banned_rows,
                                   const int64_t* banned_ids, int banned, int64_t* ids, float* log_probabilities) {
    return guarded(session, [&] {
        check_rows(*session, rows);
        const Bans bans = checked({banned_rows, banned_ids, banned});
        if (rows) session->choose(best, bans, &given(ids), &given(log_probabilities));
    });
}

EXPORTED int regard_session_logits(Session* session, int rows, const int64_t* banned_rows, const int64_t* banned_ids,
                                   int banned, float* logits, float* log_probabilities) {
    return guarded(session, [&] {
        check_rows(*session, rows);
        const Bans bans = checked({banned_rows, banned_ids, banned});
        if (rows) session->copy_logits(bans, &given(logits), &given(log_probabilities));
    });
}

EXPORTED int regard_session_reorder(Session* session, const int64_t* rows, int count) {
    return guarded(session, [&] {
        if (count < 0) throw std::invalid_argument("a number of rows is negative");
        session->reorder(count ? &given(rows) : nullptr, count);
    });
}

EXPORTED int regard_session_encode(Session* session, int sources, const int64_t* ids, const int64_t* lengths,
                                   float* vectors) {
    return guarded(session, [&] { session->encode(sequences(ids, lengths, sources), &given(vectors)); });
}
