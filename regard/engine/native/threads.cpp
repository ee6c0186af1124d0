#include "threads.h"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace regard {

namespace {

// A barrier within a step is passed in a microsecond, so a thread waits for it without sleeping. Where more
// threads run than the machine has cores, the one it waits for may not run: then it yields.
constexpr int SPINS_BEFORE_YIELD = 4000;
// Between two steps of a search less than this passes; after it a thread sleeps.
constexpr int SPINS_BEFORE_SLEEP = 20000;
// If the last pause was longer, as in a service whose other threads need the cores, a thread sleeps at once.
constexpr std::chrono::microseconds SHORT_PAUSE{200};

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

}  // namespace

int Worker::count() const {
    return team.count();
}

void Worker::meet() {
    const int all = team.count();
    if (all == 1) return;
    const unsigned meeting = team.meetings.load(std::memory_order_acquire);
    if (team.arrived.fetch_add(1, std::memory_order_acq_rel) == all - 1) {
        team.arrived.store(0, std::memory_order_relaxed);
        team.meetings.store(meeting + 1, std::memory_order_release);
        return;
    }
    for (int spins = 0; team.meetings.load(std::memory_order_acquire) == meeting; ++spins) {
        if (spins < SPINS_BEFORE_YIELD)
            pause();
        else
            std::this_thread::yield();
    }
}

Team::Team(int count) : process(getpid()) {
    threads.reserve(count - 1);
    try {
        for (int number = 1; number < count; ++number) threads.emplace_back([this, number] { serve(number); });
    } catch (const std::exception&) {
        const size_t possible = threads.size() + 1;
        end();
        throw std::runtime_error("only " + std::to_string(possible) + " of " + std::to_string(count) +
                                 " threads could be started; set a smaller number");
    }
}

Team::~Team() {
    end();
}

void Team::end() {
    is_ending = true;
    started.fetch_add(1);
    {
        std::lock_guard<std::mutex> lock(sleeping);
        wake.notify_all();
    }
    for (auto& thread : threads) thread.join();
}

void Team::run(const std::function<void(Worker&)>& function) {
    if (!threads.empty() && getpid() != process)
        throw std::runtime_error("a fork has no threads of a model that was loaded before it; load the model again");
    std::lock_guard<std::mutex> lock(busy);
    work = &function;
    started.fetch_add(1);
    if (sleepers.load()) {
        std::lock_guard<std::mutex> waking(sleeping);
        wake.notify_all();
    }
    Worker worker(*this, 0);
    function(worker);
    worker.meet();  // every thread is done with the function before it is destroyed
}

void Team::serve(int number) {
    unsigned seen = 0;
    bool spins = true;
    while (true) {
        const auto begun = std::chrono::steady_clock::now();
        wait_for_work(seen, spins);
        spins = std::chrono::steady_clock::now() - begun < SHORT_PAUSE;
        ++seen;
        if (is_ending) return;
        Worker worker(*this, number);
        (*work)(worker);
        worker.meet();
    }
}

void Team::wait_for_work(unsigned seen, bool spins) {
    for (int i = 0; spins && i < SPINS_BEFORE_SLEEP; ++i) {
        if (started.load(std::memory_order_acquire) != seen) return;
        pause();
    }
    std::unique_lock<std::mutex> lock(sleeping);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return started.load() != seen; });
    sleepers.fetch_sub(1);
}

}  // namespace regard
