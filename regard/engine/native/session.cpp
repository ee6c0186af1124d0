#include "session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace regard {

namespace {

// The vocabulary is examined in pieces of this size, whatever the number of threads.
constexpr int PIECE = 2048;
constexpr float NEVER = -std::numeric_limits<float>::infinity();

struct Choice {
    float logit;
    int id;
};

// What one piece of a row's logits contributes.
struct Summary {
    float largest, sum;
    std::vector<Choice> best;
};

// Insert a choice into a descending list of at most `most`; of equal logits the one inserted first stays before.
void insert(std::vector<Choice>& best, Choice choice, int most) {
    const auto is_above = [](float logit, const Choice& other) { return logit > other.logit; };
    const auto place = std::upper_bound(best.begin(), best.end(), choice.logit, is_above);
    if (place - best.begin() >= most) return;
    best.insert(place, choice);
    if (int(best.size()) > most) best.pop_back();
}

void find_best(const Kernels& kernels, const float* logits, int first, int end, int most,
               const std::vector<int>& banned, std::vector<Choice>& best) {
    float floor = NEVER;
    for (int id = kernels.next_above(logits, first, end, floor); id < end;
         id = kernels.next_above(logits, id + 1, end, floor)) {
        if (std::binary_search(banned.begin(), banned.end(), id)) continue;
        insert(best, {logits[id], id}, most);
        if (int(best.size()) == most) floor = best.back().logit;
    }
}

// Banned ids of each row in ascending order.
std::vector<std::vector<int>> by_row(const Bans& bans, int rows, int vocabulary) {
    std::vector<std::vector<int>> ids(rows);
    for (int i = 0; i < bans.count; ++i) {
        if (bans.rows[i] < 0 || bans.rows[i] >= rows || bans.ids[i] < 0 || bans.ids[i] >= vocabulary)
            throw std::invalid_argument("a banned id is outside the rows or the vocabulary");
        ids[bans.rows[i]].push_back(int(bans.ids[i]));
    }
    for (auto& row : ids) std::sort(row.begin(), row.end());
    return ids;
}

// The largest logit and the logarithm of the sum of e^(logit - largest), from pieces in order. A piece of which
// every logit is minus infinity adds nothing.
std::pair<float, float> combined(const Summary* pieces, int count) {
    float largest = pieces[0].largest, sum = 0;
    for (int i = 1; i < count; ++i) largest = std::max(largest, pieces[i].largest);
    for (int i = 0; i < count; ++i)
        if (pieces[i].largest != NEVER) sum += pieces[i].sum * std::exp(pieces[i].largest - largest);
    return {largest, std::log(sum)};
}

// Fill a list up with ids that it does not have, in order: banned ones and those with a logit of minus infinity.
void fill(std::vector<Choice>& best, int most) {
    const size_t found = best.size();
    for (int id = 0; int(best.size()) < most; ++id)
        if (std::none_of(best.begin(), best.begin() + found, [id](const Choice& one) { return one.id == id; }))
            best.push_back({NEVER, id});
}

}  // namespace

Session::Session(std::shared_ptr<const Model> owner, std::shared_ptr<Team> threads)
    : model(std::move(owner)), team(std::move(threads)), pass(*model, *team) {}

std::vector<KeyValues> Session::encoded(const std::vector<std::vector<int>>& sources) {
    std::vector<KeyValues> sequences;
    std::vector<Token> tokens;
    sequences.reserve(sources.size());
    for (const auto& source : sources) {
        if (source.empty()) throw std::invalid_argument("a source is empty");
        sequences.emplace_back(model->encoder_pages);
        sequences.back().grow(int(source.size()));
        for (int i = 0; i < int(source.size()); ++i) tokens.push_back({source[i], i, &sequences.back(), nullptr});
    }
    pass.encode(tokens);
    return sequences;
}

void Session::encode(const std::vector<std::vector<int>>& sources, float* vectors) {
    if (model->shape.family == 1) throw std::invalid_argument("a decoder-only model has no encoder");
    size_t count = 0;
    for (const auto& source : sources) count += source.size();
    if (!count) return;
    const auto sequences = encoded(sources);
    std::memcpy(vectors, pass.vectors(), count * model->shape.width * sizeof(float));
}

std::vector<std::shared_ptr<KeyValues>> Session::memories_of(const std::vector<std::vector<int>>& sources) {
    const auto sequences = encoded(sources);
    std::vector<std::shared_ptr<KeyValues>> memories;
    std::vector<KeyValues*> of_token;
    std::vector<int> places;
    for (const auto& source : sources) {
        memories.push_back(std::make_shared<KeyValues>(model->decoder_pages));
        memories.back()->grow(int(source.size()));
        for (int i = 0; i < int(source.size()); ++i) {
            of_token.push_back(memories.back().get());
            places.push_back(i);
        }
    }
    pass.remember(of_token, places);
    return memories;
}

void Session::admit(const std::vector<std::vector<int>>& prefixes, const std::vector<std::vector<int>>& sources) {
    const bool has_memory = model->shape.family == 0;
    if (model->shape.family == 2) throw std::invalid_argument("an encoder-only model has no decoder");
    for (const auto& prefix : prefixes)
        if (prefix.empty()) throw std::invalid_argument("a prefix is empty; it must have at least the start token");
    if (has_memory && sources.size() != prefixes.size())
        throw std::invalid_argument("there must be one source for each prefix");
    if (prefixes.empty()) return;
    std::vector<std::shared_ptr<KeyValues>> memories(prefixes.size());
    if (has_memory) memories = memories_of(sources);
    std::vector<Row> admitted;
    admitted.reserve(prefixes.size());
    std::vector<Token> tokens;
    for (size_t row = 0; row < prefixes.size(); ++row) {
        admitted.push_back({KeyValues(model->decoder_pages), memories[row]});
        const int length = int(prefixes[row].size()) - 1;
        admitted.back().own.grow(length);
        for (int i = 0; i < length; ++i)
            tokens.push_back({prefixes[row][i], i, &admitted.back().own, memories[row].get()});
    }
    running.reserve(running.size() + admitted.size());
    if (!tokens.empty()) pass.decode(tokens);
    for (auto& row : admitted) running.push_back(std::move(row));
    logits = nullptr;
}

void Session::step(const int64_t* ids, float* hidden) {
    std::vector<Token> tokens;
    for (int row = 0; row < rows(); ++row) {
        KeyValues& own = running[row].own;
        const int position = own.length();
        if (ids[row] < 0 || ids[row] >= model->shape.target_vocabulary)
            throw std::invalid_argument("the id " + std::to_string(ids[row]) + " is not in the vocabulary");
        if (model->shape.positions == 3 && position >= model->shape.context)
            throw std::invalid_argument("a sequence is longer than the " + std::to_string(model->shape.context) +
                                        " learned positions");
        tokens.push_back({int(ids[row]), position, &own, running[row].memory.get()});
    }
    try {
        make_room();
        const float* vectors = pass.decode(tokens);
        if (hidden) std::memcpy(hidden, vectors, size_t(rows()) * model->shape.width * sizeof(float));
        logits = pass.logits();
    } catch (...) {  // out of memory: some rows have a token more than others, and it has no keys and values
        running.clear();
        logits = nullptr;
        throw;
    }
}

void Session::make_room() {
    std::vector<PageCopy> copies;
    for (Row& row : running) {
        row.own.unshare(copies);
        row.own.grow(1);
    }
    copy(copies);
}

void Session::copy(const std::vector<PageCopy>& copies) {
    if (copies.empty()) return;
    const PageLayout& layout = model->decoder_pages->layout;
    team->run([&](Worker& worker) {
        worker.share(int(copies.size()) * layout.layers, [&](int first, int end) {
            for (int unit = first; unit < end; ++unit)
                layout.copy(copies[unit / layout.layers], unit % layout.layers);
        });
    });
}

void Session::choose(int best, const Bans& bans, int64_t* ids, float* log_probabilities) {
    const int vocabulary = model->shape.target_vocabulary, pieces = (vocabulary + PIECE - 1) / PIECE;
    if (!logits) throw std::logic_error("there are no logits; step first");
    if (best < 1 || best > vocabulary) throw std::invalid_argument("best must be between 1 and the vocabulary");
    const auto banned = by_row(bans, rows(), vocabulary);
    // Everything is allocated here: a thread of the team has nobody to report an error to.
    std::vector<Summary> summaries(size_t(rows()) * pieces);
    for (Summary& summary : summaries) summary.best.reserve(size_t(std::min(best, PIECE)) + 1);
    std::vector<std::vector<Choice>> chosen(rows());
    for (auto& row : chosen) row.reserve(size_t(best) + 1);
    team->run([&](Worker& worker) {
        worker.share(rows() * pieces, [&](int first, int end) {
            for (int unit = first; unit < end; ++unit) {
                const int row = unit / pieces, begin = unit % pieces * PIECE, stop = std::min(begin + PIECE, vocabulary);
                const float* values = logits + size_t(row) * vocabulary;
                Summary& summary = summaries[unit];
                model->kernels.normaliser(values + begin, stop - begin, &summary.largest, &summary.sum);
                find_best(model->kernels, values, begin, stop, best, banned[row], summary.best);
            }
        });
        worker.meet();
        worker.share(rows(), [&](int first, int end) {
            for (int row = first; row < end; ++row) {
                const Summary* parts = summaries.data() + size_t(row) * pieces;
                const auto [largest, logarithm] = combined(parts, pieces);
                std::vector<Choice>& all = chosen[row];
                for (int piece = 0; piece < pieces; ++piece)
                    for (const Choice& choice : parts[piece].best) insert(all, choice, best);
                fill(all, best);
                for (int i = 0; i < best; ++i) {
                    ids[size_t(row) * best + i] = all[i].id;
                    log_probabilities[size_t(row) * best + i] = (all[i].logit - largest) - logarithm;
                }
            }
        });
    });
}

void Session::copy_logits(const Bans& bans, float* to, float* log_probabilities) {
    const int vocabulary = model->shape.target_vocabulary, pieces = (vocabulary + PIECE - 1) / PIECE;
    if (!logits) throw std::logic_error("there are no logits; step first");
    const auto banned = by_row(bans, rows(), vocabulary);
    std::vector<Summary> summaries(size_t(rows()) * pieces);
    team->run([&](Worker& worker) {
        worker.share(rows(), [&](int first, int end) {
            for (int row = first; row < end; ++row) {
                const float* values = logits + size_t(row) * vocabulary;
                Summary* parts = summaries.data() + size_t(row) * pieces;
                for (int piece = 0; piece < pieces; ++piece)
                    model->kernels.normaliser(values + piece * PIECE, std::min(PIECE, vocabulary - piece * PIECE),
                                              &parts[piece].largest, &parts[piece].sum);
                const auto [largest, logarithm] = combined(parts, pieces);
                float* out = log_probabilities + size_t(row) * vocabulary;
                for (int id = 0; id < vocabulary; ++id) out[id] = (values[id] - largest) - logarithm;
                for (int id : banned[row]) out[id] = NEVER;
                std::memcpy(to + size_t(row) * vocabulary, values, vocabulary * sizeof(float));
            }
        });
    });
}

void Session::reorder(const int64_t* from, int count) {
    std::vector<Row> next;
    next.reserve(count);
    for (int i = 0; i < count; ++i) {
        if (from[i] < 0 || from[i] >= rows()) throw std::invalid_argument("a row to keep does not exist");
        next.push_back(running[from[i]]);
    }
    running = std::move(next);
    logits = nullptr;
}

}  // namespace regard
