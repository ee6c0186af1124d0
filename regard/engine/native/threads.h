// A team of threads that run one function together and meet at barriers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace regard {

class Team;

// One thread of a team while it runs a function.
class Worker {
public:
    Worker(Team& team, int number) : team(team), number(number) {}

    int count() const;
    void meet();

    // This worker's share of some items, [first, last).
    template <typename Function>
    void share(int items, Function function) {
        const int64_t total = items, workers = count();
        const int first = int(total * number / workers), last = int(total * (number + 1) / workers);
        if (first < last) function(first, last);
    }

    Team& team;
    const int number;
};

class Team {
public:
    explicit Team(int count);
    ~Team();
    Team(const Team&) = delete;

    int count() const { return int(threads.size()) + 1; }

    // Run a function in every thread of the team, the caller's included. One call runs at a time.
    void run(const std::function<void(Worker&)>& function);

private:
    friend class Worker;
    void serve(int number);
    void end();
    void wait_for_work(unsigned seen, bool spins);

    std::mutex busy, sleeping;
    std::condition_variable wake;
    std::vector<std::thread> threads;
    const int process;  // a fork of it does not have the threads
    const std::function<void(Worker&)>* work = nullptr;
    std::atomic<unsigned> started{0};   // number of functions that were run
    std::atomic<int> sleepers{0}, arrived{0};
    std::atomic<unsigned> meetings{0};  // number of barriers that were passed
    std::atomic<bool> is_ending{false};
};

}  // namespace regard
