// SPDX-License-Identifier: Apache-2.0
//
// throws PLUGIN: what a C++ program sees when an allocation of bench/torch_plugin.c fails. PyTorch
// does not look at the pointer, so there has to be an exception, and the plug-in has to work after
// it.
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <new>

namespace {

template <typename F> F *find(void *library, const char *name) {
    return reinterpret_cast<F *>(dlsym(library, name));
}

bool throws(void *(*alloc)(size_t, int, void *), size_t size, int device) {
    try {
        alloc(size, device, nullptr);
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

} // namespace

int main(int count, char **arguments) {
    const size_t small = size_t{1} << 20, large = size_t{128} << 20;
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
    if (library == nullptr) {
        std::fprintf(stderr, "usage: throws PLUGIN: %s\n", dlerror());
        return 2;
    }
    auto *alloc = find<void *(size_t, int, void *)>(library, "vram_torch_alloc");
    auto *release = find<void(void *, size_t, int, void *)>(library, "vram_torch_free");
    auto *limit = find<int(int, uint64_t)>(library, "vram_torch_limit");

    int wrong = limit(0, 64 << 20) != 1;
    void *first = alloc(small, 0, nullptr);
    wrong += first == nullptr;
    for (int i = 0; i < 3; i++) {
        wrong += !throws(alloc, large, 0);
    }
    wrong += !throws(alloc, small, 99); // no such device
    void *second = alloc(small, 0, nullptr);
    wrong += second == nullptr || second == first;
    release(first, small, 0, nullptr);
    release(second, small, 0, nullptr);
    wrong += limit(0, 0) != 1 || throws(alloc, large, 0);
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
