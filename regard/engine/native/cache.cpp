#include "cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace regard {

Page PagePool::take() {
    float* memory = nullptr;
    {
        std::lock_guard<std::mutex> guard(lock);
        if (!unused.empty()) {
            memory = unused.back();
            unused.pop_back();
        }
    }
    if (!memory) {
        memory = static_cast<float*>(std::aligned_alloc(64, (layout.size() * sizeof(float) + 63) / 64 * 64));
        if (!memory) throw std::bad_alloc();
        // Scores are computed for whole pages and those of tokens that do not exist yet are not used.
        std::memset(memory, 0, layout.size() * sizeof(float));
    }
    return Page(memory, [pool = shared_from_this()](float* page) {
        std::lock_guard<std::mutex> guard(pool->lock);
        if (pool->unused.size() * pool->layout.size() * sizeof(float) < KEPT)
            pool->unused.push_back(page);
        else
            std::free(page);
    });
}

PagePool::~PagePool() {
    for (float* page : unused) std::free(page);
}

void PageLayout::copy(const PageCopy& page, int layer) const {
    for (int group = 0; group < groups; ++group) {
        const size_t begin = (size_t(layer) * groups + group) * group_size();
        std::memcpy(page.to + begin, page.from + begin,
                    (keys_size() + size_t(stride()) * page.tokens) * sizeof(float));
    }
}

void KeyValues::unshare(std::vector<PageCopy>& copies) {
    if (tokens % PAGE == 0 || pages.back().use_count() == 1) return;
    Page own = pool->take();
    // The last sequence that holds the page keeps it, so it stays until it is copied.
    copies.push_back({pages.back().get(), own.get(), tokens % PAGE});
    pages.back() = std::move(own);
}

void KeyValues::grow(int more) {
    tokens += more;
    while (int(pages.size()) * PAGE < tokens) pages.push_back(pool->take());
}

void KeyValues::put(int token, int layer, int group, const float* key, const float* value) const {
    const PageLayout& layout = pool->layout;
    const int page = token / PAGE, place = token % PAGE;
    float* to = keys(page, layer, group) + place;
    for (int element = 0; element < layout.width; ++element) to[element * PAGE] = key[element];
    std::memcpy(values(page, layer, group) + place * layout.stride(), value, layout.width * sizeof(float));
}

void KeyValues::attend(const Kernels& kernels, const float* query, int layer, int group, int count, float scale,
                       float* scores, float* output) const {
    const PageLayout& layout = pool->layout;
    const int used = (count + PAGE - 1) / PAGE;
    for (int page = 0; page < used; ++page)
        kernels.score(query, keys(page, layer, group), layout.width, scale, scores + page * PAGE);
    kernels.softmax(scores, count);
    std::fill_n(output, layout.width, 0.0f);
    for (int page = 0; page < used; ++page)
        kernels.mix(scores + page * PAGE, values(page, layer, group), std::min(PAGE, count - page * PAGE),
                    layout.width, layout.stride(), output);
}

}  // namespace regard
