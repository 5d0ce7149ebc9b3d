/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program that knows vram/vram.hpp alone: everything it makes goes, whichever way it is left. */
#include <vram/vram.hpp>

#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

static int failures;
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::printf("line %d: %s\n", __LINE__, #what);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

template <typename T> constexpr bool moves_only() {
    return std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
           std::is_nothrow_destructible_v<T>;
}
static_assert(moves_only<vram::context>() && moves_only<vram::device>() &&
              moves_only<vram::queue>() && moves_only<vram::pool>() && moves_only<vram::block>() &&
              moves_only<vram::buffer>() && moves_only<vram::scope>() &&
              moves_only<vram::batch>() && moves_only<vram::named>());

struct stop {};

static void blocks(const vram::pool &pool, const vram::queue &queue) {
    {
        vram::block a = pool.alloc(5000, queue), b;
        MUST(a && !b && pool.stats().live_blocks == 1);
        b = std::move(a);
        MUST(!a && b && pool.stats().live_blocks == 1);
        a = pool.alloc(100, nullptr);
        a = std::move(b); /* what it had is freed */
        MUST(pool.stats().live_blocks == 1);
        std::vector<vram::block> many;
        for (int i = 0; i < 100; i++) {
            many.push_back(pool.alloc(4096, queue));
        }
        MUST(pool.stats().live_blocks == 101);
    }
    MUST(pool.stats().live_blocks == 0);
    vram_addr kept = pool.alloc(100, queue).take();
    MUST(pool.stats().live_blocks == 1);
    vram::check(vram_free(pool.get(), kept, queue.get()));
}

static void contents(const vram::pool &pool, const vram::queue &queue) {
    const float sent[4] = {1, 2, 3, 4};
    float got[4] = {};
    vram::buffer buffer(pool, 4, VRAM_PRECISION_FP32, queue);
    MUST(buffer.info().elements == 4);
    queue.upload(buffer.addr(), sent, sizeof sent);
    vram::buffer copy(pool, sizeof sent, queue);
    queue.copy(copy.addr(), buffer.addr(), sizeof sent);
    queue.download(got, copy.addr(), sizeof got);
    queue.wait();
    MUST(std::memcmp(sent, got, sizeof got) == 0);
    MUST(buffer.end() == VRAM_OK && !buffer && buffer.end() == VRAM_OK);
}

/* An exception leaves in the middle of everything. */
static void unwinding(const vram::pool &pool, const vram::queue &queue) {
    try {
        vram::scope outer(pool);
        outer.alloc(1000, queue);
        vram::scope inner(pool, outer);
        vram_addr addr = inner.alloc(2000, queue);
        vram::block moved = inner.take_block(addr, queue);
        vram::batch batch(pool, queue);
        vram_batch_item items[2] = {};
        for (auto &item : items) {
            item.size = sizeof item;
            item.elements = 100;
        }
        MUST(batch.add(items, 2) == 0 && batch.add(items, 2) == 2);
        MUST(batch[3] != nullptr);
        vram::named named(pool, queue);
        MUST(named.get_or_create("a", 100) == named.get_or_create("a", 200));
        throw stop();
    } catch (const stop &) {
    }
    MUST(pool.stats().live_blocks == 0);
}

template <typename Call> static vram_status thrown(Call call) {
    try {
        call();
    } catch (const vram::error &error) {
        MUST(error.what()[0] != '\0');
        return error.status();
    }
    return VRAM_OK;
}

static void errors(const vram::device &device, const vram::pool &pool, const vram::queue &queue) {
    MUST(thrown([&] { pool.alloc(UINT64_MAX, queue); }) != VRAM_OK);
    MUST(thrown([&] { vram::buffer(pool, 3, VRAM_PRECISION_FP32, vram::queue()); }) == VRAM_OK);
    MUST(thrown([&] { vram::scope scope{vram::pool()}; }) == VRAM_ERR_INVALID);
    MUST(thrown([&] { vram::batch(pool, queue)[0]; }) == VRAM_ERR_INVALID);
    vram_limits limits = {};
    limits.size = sizeof limits;
    limits.hard_bytes = 8 << 20;
    vram::pool small(device);
    vram::check(vram_pool_limits_set(small.get(), &limits));
    try {
        small.alloc(64 << 20, queue);
        MUST(false);
    } catch (const vram::error &error) {
        MUST(error.exhausted() && error.status() == VRAM_ERR_LIMIT);
        MUST(std::strstr(error.what(), "limit") != nullptr || error.what()[0] != '\0');
        MUST(error.operation()[0] != '\0');
    }
    MUST(small.end() == VRAM_OK && !small);
    vram_error_clear();
    MUST(std::strcmp(vram::error(VRAM_ERR_TIMEOUT).what(), vram_status_text(VRAM_ERR_TIMEOUT)) ==
         0);
}

int main() {
    vram_context_options options = {};
    options.size = sizeof options;
    options.backends = "host";
    vram::context context(&options);
    vram::device device(context), same(context, 0);
    vram::queue queue(device);
    vram::pool pool(device);
    blocks(pool, queue);
    contents(pool, queue);
    unwinding(pool, queue);
    errors(device, pool, queue);
    MUST(pool.stats().live_blocks == 0);
    std::printf("raii: %s\n", failures == 0 ? "good" : "failed");
    return failures != 0;
}
