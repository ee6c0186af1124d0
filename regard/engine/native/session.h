// A batch of running sequences of one model: the Stepper protocol of regard/engine/stepper.py.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model.h"

namespace regard {

// Ids that a row must not continue with.
struct Bans {
    const int64_t *rows = nullptr, *ids = nullptr;
    int count = 0;
};

class Session {
public:
    Session(std::shared_ptr<const Model> model, std::shared_ptr<Team> team);

    std::mutex busy;  // held by the thread that calls

    int rows() const { return int(running.size()); }

    // Append rows; all tokens of a prefix except the last are processed now.
    void admit(const std::vector<std::vector<int>>& prefixes, const std::vector<std::vector<int>>& sources);

    // Append one id to each row. The logits of the next ids are those of `choose` or `copy_logits` afterwards. If
    // memory runs out, all rows are removed.
    void step(const int64_t* ids, float* hidden);

    // The best ids of each row in descending order, with their log-probabilities.
    void choose(int best, const Bans& bans, int64_t* ids, float* log_probabilities);

    // All logits and log-probabilities.
    void copy_logits(const Bans& bans, float* logits, float* log_probabilities);

    // Row i becomes the previous row rows[i].
    void reorder(const int64_t* rows, int count);

    // Vectors of the tokens of some sequences after the encoder, one sequence after the other.
    void encode(const std::vector<std::vector<int>>& sources, float* vectors);

private:
    struct Row {
        KeyValues own;
        std::shared_ptr<KeyValues> memory;
    };
    std::vector<std::shared_ptr<KeyValues>> memories_of(const std::vector<std::vector<int>>& sources);
    void make_room();  // for one more token in each row
    void copy(const std::vector<PageCopy>& copies);
    std::vector<KeyValues> encoded(const std::vector<std::vector<int>>& sources);

    std::shared_ptr<const Model> model;
    std::shared_ptr<Team> team;
    Pass pass;
    std::vector<Row> running;
    const float* logits = nullptr;  // of the last step, rows x vocabulary
};

}  // namespace regard
