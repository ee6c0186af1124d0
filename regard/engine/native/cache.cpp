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

void KeyValues::attend(const Kernels& kernels, const Queries& queries, const int* visible, int layer, int group,
                       float scale) const {
    const PageLayout& layout = pool->layout;
    const auto [least, most] = std::minmax_element(visible, visible + queries.count);
    const int used = (*most + PAGE - 1) / PAGE;
    for (int page = 0; page < used; ++page)
        kernels.score(queries.part(0, queries.count, page * PAGE), keys(page, layer, group), layout.width, scale);
    for (int i = 0; i < queries.count; ++i) {
        kernels.softmax(queries.scores + i * queries.scores_stride, visible[i]);
        std::fill_n(queries.outputs + i * queries.outputs_stride, layout.width, 0.0f);
    }
    for (int page = 0; page < used; ++page) {
        const auto seen = [page](int count) { return std::clamp(count - page * PAGE, 0, PAGE); };
        const auto mix = [&](int first, int more) {
            kernels.mix(queries.part(first, more, page * PAGE), values(page, layer, group), seen(visible[first]),
                        layout.width, layout.stride());
        };
        if (seen(*least) == seen(*most))
            mix(0, queries.count);
        else
            for (int i = 0; i < queries.count; ++i) mix(i, 1);
    }
}

}  // namespace regard
