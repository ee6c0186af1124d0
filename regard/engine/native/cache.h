// Keys and values of a sequence in pages of 16 tokens.
//
// A page holds 16 tokens of every layer. Beams that share a beginning share its pages. A page is copied only when
// a sequence appends to one that another sequence holds too.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels.h"

namespace regard {

// A page that a sequence takes for itself, with the tokens that it has.
struct PageCopy {
    const float* from;
    float* to;
    int tokens;
};

// Where the parts of a page lie. Keys are stored element by element (width x 16), values token by token.
struct PageLayout {
    int layers = 0, groups = 0, width = 0;

    int stride() const { return (width + PANEL - 1) / PANEL * PANEL; }  // floats from one value to the next
    size_t keys_size() const { return size_t(width) * PAGE; }
    size_t group_size() const { return keys_size() + size_t(stride()) * PAGE; }
    size_t size() const { return size_t(layers) * groups * group_size(); }

    // Copy the keys and values of one layer.
    void copy(const PageCopy& page, int layer) const;
};

using Page = std::shared_ptr<float>;

// Pages that are free to be used again: allocating memory anew would touch each of its pages. Some are kept.
class PagePool : public std::enable_shared_from_this<PagePool> {
public:
    explicit PagePool(PageLayout layout) : layout(layout) {}
    ~PagePool();

    Page take();

    const PageLayout layout;

private:
    static constexpr size_t KEPT = size_t(256) << 20;  // bytes
    std::mutex lock;
    std::vector<float*> unused;
};

class KeyValues {
public:
    explicit KeyValues(std::shared_ptr<PagePool> pool) : pool(std::move(pool)) {}

    int length() const { return tokens; }

    // Replace the last page by one of our own if other sequences hold it too, before it is appended to. The caller
    // copies what it contains.
    void unshare(std::vector<PageCopy>& copies);

    // Make room for more tokens.
    void grow(int more);

    float* keys(int page, int layer, int group) const {
        return pages[page].get() + (size_t(layer) * pool->layout.groups + group) * pool->layout.group_size();
    }
    float* values(int page, int layer, int group) const {
        return keys(page, layer, group) + pool->layout.keys_size();
    }

    // Store the key and value of a token; `grow` has made room.
    void put(int token, int layer, int group, const float* key, const float* value) const;

    // The weighted sums of the values, of which query i sees the first `visible[i]`. The scores of each query have
    // room for whole pages.
    void attend(const Kernels& kernels, const Queries& queries, const int* visible, int layer, int group,
                float scale) const;

private:
    std::shared_ptr<PagePool> pool;
    std::vector<Page> pages;
    int tokens = 0;
};

}  // namespace regard
