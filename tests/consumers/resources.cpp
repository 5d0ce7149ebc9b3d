/* SPDX-License-Identifier: Apache-2.0 */
/* resources.cpp: pools behind std::pmr, and memory in the order of native queues (vram/cuda.hpp on
   a simulated device, without CCCL). */
#include <vram/cuda.hpp>
#include <vram/sim.h>
#include <vram/vram.hpp>

#include <cstdio>
#include <cstring>
#include <list>
#include <string>
#include <thread>
#include <vector>

static int failures;
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::printf("line %d: %s\n", __LINE__, #what);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

template <typename Call> static vram_status thrown(Call call) {
    try {
        call();
    } catch (const vram::error &error) {
        return error.status();
    } catch (const vram::bad_alloc &error) {
        return error.status();
    }
    return VRAM_OK;
}

static void containers(vram::memory_resource &resource) {
    {
        std::pmr::vector<double> numbers(10000, 1.5, &resource);
        std::pmr::list<std::pmr::string> words(&resource);
        for (int i = 0; i < 100; i++) {
            words.emplace_back(std::string(100 + i, 'a'));
            numbers.push_back(i);
        }
        std::pmr::vector<double> copy(numbers, &resource);
        MUST(copy[9999] == 1.5 && copy.back() == 99 && words.back().size() == 199);
        vram_pool_stats stats = vram::sized<vram_pool_stats>();
        vram::check(vram_pool_stats_get(resource.get(), &stats));
        MUST(stats.live_blocks > 200);
    }
    std::thread other([&] { std::pmr::vector<char> there(100000, 'x', &resource); });
    other.join();
    vram_pool_stats stats = vram::sized<vram_pool_stats>();
    vram::check(vram_pool_stats_get(resource.get(), &stats));
    MUST(stats.live_blocks == 0);
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *memory = resource.allocate(100, alignment);
        MUST(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
        std::memset(memory, 1, 100);
        resource.deallocate(memory, 100, alignment);
    }
}

static void standard(const vram::device &device, vram_memory_kind kind) {
    vram::memory_resource resource(device, kind);
    containers(resource);
    vram::memory_resource same(resource.get()), other(device, kind);
    MUST(resource == same && resource != other && resource != *std::pmr::new_delete_resource());
    vram_limits limits = vram::sized<vram_limits>();
    limits.hard_bytes = 8 << 20;
    vram::check(vram_pool_limits_set(resource.get(), &limits));
    MUST(thrown([&] { (void)resource.allocate(64 << 20); }) == VRAM_ERR_LIMIT);
    MUST(thrown([&] { (void)resource.allocate(SIZE_MAX / 2); }) != VRAM_OK);
    try {
        std::pmr::vector<char> much(64 << 20, &resource);
        MUST(false);
    } catch (const std::bad_alloc &failure) {
        MUST(std::strstr(failure.what(), "the pool may hold 8.00 MiB") != nullptr);
    }
}

static void streams(const vram::device &device, const vram::pool &pool) {
    int native[2] = {}; /* a simulated device takes any address for a native queue */
    vram::stream_resource resource(device.get(), pool.get(), "cpp"), copy = resource;
    MUST(resource == copy && resource.get() == pool.get());
    void *one = resource.allocate_on(&native[0], 100000);
    void *two = copy.allocate_on(&native[1], 100000, 4096);
    MUST(one != two && reinterpret_cast<uintptr_t>(two) % 4096 == 0);
    vram_block_info info = vram::sized<vram_block_info>();
    vram::check(vram_block_info_get(reinterpret_cast<uintptr_t>(one), &info));
    MUST(std::strcmp(info.tag, "cpp") == 0);
    copy.deallocate_on(&native[0], one);
    void *again = resource.allocate_on(&native[0], 100000);
    MUST(again == one); /* the same stream: at once */
    resource.deallocate_on(&native[0], again);
    resource.deallocate_on(&native[1], two);
    resource.forget(&native[0]);
    std::thread other([&] { /* another thread's last queue is not this one's */
                            resource.deallocate_on(&native[0],
                                                   resource.allocate_on(&native[0], 10));
                            resource.forget(&native[0]);
    });
    resource.deallocate_on(&native[0], resource.allocate_on(&native[0], 10));
    other.join();
    void *ready = resource.allocate_sync(1000, 256);
    resource.deallocate_sync(ready, 1000, 256);
    MUST(thrown([&] { resource.allocate_on(&native[1], SIZE_MAX); }) != VRAM_OK);
    MUST(pool.stats().live_blocks == 0);
}

int main() {
    vram_context_options options = vram::sized<vram_context_options>();
    options.backends = "host";
    vram::context host(options);
    vram::device plain(host);
    standard(plain, VRAM_MEMORY_DEVICE);
    standard(plain, VRAM_MEMORY_PINNED);
    options.backends = "sim";
    vram::context simulated(options);
    vram::device device(simulated);
    standard(device, VRAM_MEMORY_PINNED);
    standard(device, VRAM_MEMORY_MANAGED);
    vram::pool pool(device);
    MUST(thrown([&] { vram::memory_resource resource(pool); }) == VRAM_ERR_INVALID);
    streams(device, pool);
    MUST(thrown([] { vram::stream_resource resource(77); }) != VRAM_OK);
    std::printf("resources: %s\n", failures == 0 ? "good" : "failed");
    return failures != 0;
}
