/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program that includes vram/vram.hpp alone: all its objects end, however a block is left. */
#include <vram/compute.hpp>
#include <vram/model.hpp>
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
              moves_only<vram::batch>() && moves_only<vram::named>() && moves_only<vram::kernel>());
static_assert(moves_only<vram::async>() && moves_only<vram::pinned>() &&
              moves_only<vram::stream_set>() && moves_only<vram::readback>() &&
              moves_only<vram::frame>() && moves_only<vram::feed>() &&
              moves_only<vram::feed_block>() && moves_only<vram::ring>() &&
              moves_only<vram::scheduler>() && moves_only<vram::weights>() &&
              moves_only<vram::labels>() && moves_only<vram::model>());

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
    vram::check(vram_free(kept, queue.get()));
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

static void called(void *user, vram_status status) {
    *static_cast<int *>(user) += status == VRAM_OK ? 1 : 100;
}

static void transfers(const vram::device &device, const vram::pool &pool,
                      const vram::queue &queue) {
    std::vector<int> sent(5000, 7), got(5000);
    const uint64_t bytes = sent.size() * sizeof(int);
    vram::block a = pool.alloc(bytes, queue), b = pool.alloc(bytes, queue);
    vram::async none;
    MUST(none.poll() && none.result() == 0 && none.try_get() == 0u);
    vram::async work = vram::upload(queue, a.addr(), sent.data(), bytes);
    work = vram::copy(queue, b.addr(), a.addr(), bytes); /* the first is given up, and goes on */
    vram::async moved = std::move(work);
    MUST(work.poll() && moved.result() == bytes);
    int calls = 0;
    moved.then(called, &calls);
    MUST(calls == 1);
    MUST(vram::download(queue.get(), got.data(), b.addr(), bytes).result() == bytes && got == sent);
    vram::fill(queue, b.addr(), 9, 4, bytes).wait();
    const vram_copy copies[] = {{0, got.data(), b.addr(), nullptr, bytes / 2},
                                {0, got.data() + 2500, b.addr() + bytes / 2, nullptr, bytes / 2}};
    vram::copy_all(queue, copies, 2).wait();
    MUST(got.front() == 9 && got.back() == 9);
    MUST(thrown([&] { vram::upload(queue, b.addr(), sent.data(), bytes * 100); }) ==
         VRAM_ERR_INVALID);
    {
        vram::pinned locked(device, sent.data(), bytes), taken;
        taken = std::move(locked);
        MUST(!locked && taken && taken.memory() == sent.data());
        MUST(vram_pinned_forget(device.get(), sent.data(), bytes) == VRAM_ERR_BUSY);
    }
    MUST(vram_pinned_forget(device.get(), sent.data(), bytes) == VRAM_OK);
}

static void streams(const vram::device &device, const vram::pool &pool) {
    vram::stream_set set(device);
    MUST(set[VRAM_STREAM_MEMORY] == set.find("memory") && set.next() != nullptr);
    MUST(set.transfer() != nullptr);
    vram::block block = pool.alloc(4096, set[VRAM_STREAM_COMPUTE]);
    vram::fill(set[VRAM_STREAM_COMPUTE], block.addr(), 1, 1, 4096);
    set.order(VRAM_STREAM_COMPUTE, VRAM_STREAM_ANALYSIS);
    set.barrier();
    set.sync().wait();
    set.wait();
    MUST(set.poll());
    MUST(thrown([&] { set.find("nobody"); }) == VRAM_ERR_INVALID);
    MUST(block.end() == VRAM_OK); /* before the queues of the set go */
}

/* What was brought to the device block by block comes back frame by frame. */
static void there_and_back(const vram::device &device, const vram::pool &pool,
                           const vram::queue &queue) {
    vram::block block = pool.alloc(4096, queue);
    vram::feed feed(device);
    vram::readback readback(device);
    MUST(!readback.latest() && !readback.next(0));
    for (int turn = 1; turn <= 5; turn++) {
        vram::feed_block filled = feed.begin(4096);
        std::memset(filled.data(), turn, filled.bytes());
        vram::async arrived = filled.submit(queue, block.addr());
        MUST(!filled);
        const uint64_t number = readback.start(queue, block.addr(), 4096);
        readback.wait(number);
        MUST(readback.poll(number));
        vram::frame frame = readback.latest(), taken;
        taken = std::move(frame);
        MUST(!frame && taken && taken.number() == number && taken.bytes() == 4096);
        MUST(static_cast<const unsigned char *>(taken.data())[4095] == turn);
        arrived.wait();
    }
    MUST(feed.stats().submitted == 5 && readback.stats().arrived == 5);
    {
        vram::feed_block first = feed.begin(10), second = feed.begin(10);
        MUST(thrown([&] { feed.begin(10, 0); }) == VRAM_ERR_BUSY);
        MUST(thrown([&] { first.submit(queue, block.addr(), 11); }) == VRAM_ERR_INVALID && first);
    } /* both are given back */
    MUST(feed.begin(10, 0));
}

static void rings(const vram::pool &pool) {
    vram_ring_options options = {};
    options.size = sizeof options;
    options.flags = VRAM_RING_INPUT;
    vram::ring ring(pool, &options), moved;
    moved = std::move(ring);
    uint32_t sent = 0;
    while (moved.send(&sent, sizeof sent, 1, 0)) {
        sent++;
    }
    moved.flush().wait();
    MUST(!ring && sent > 0 && moved.info().control != 0);
    MUST(moved.stats().host_to_device_count == sent);
    MUST(thrown([&] { moved.receive(&sent, sizeof sent, nullptr, 0); }) == VRAM_ERR_INVALID);
    moved.stop();
    MUST(thrown([&] { moved.send(&sent, sizeof sent); }) == VRAM_ERR_SHUTDOWN);
    MUST(moved.end() == VRAM_OK);
}

static vram_status doubled(void *, const int32_t *labels, size_t count, int32_t *mapping, size_t,
                           size_t *mapped) {
    for (size_t i = 0; i < count; i++) {
        mapping[i] = 2 * labels[i];
    }
    *mapped = count;
    return VRAM_OK;
}

static void computing(const vram::pool &pool) {
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    float c[4] = {}, best[1] = {};
    uint64_t best_at[1] = {9};
    vram::scheduler scheduler(pool);
    vram_matmul product = {};
    product.size = sizeof product;
    product.m = product.k = product.n = 2;
    product.a = a;
    product.b = b;
    product.c = c;
    scheduler.run(product);
    MUST(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
    std::memset(c, 0, sizeof c);
    scheduler.start(product).wait();
    {
        auto own = vram::scheduler::own();
        auto started = own.start(product);
        while (!started.try_get()) {
        }
        MUST(reinterpret_cast<float *>(*started.try_get()) == product.c && c[3] == 50);
    }
    MUST(c[3] == 50 && scheduler.plan(product).place == VRAM_PLACE_CPU);
    std::memset(c, 0, sizeof c);
    scheduler.run(&product, 1);
    MUST(c[3] == 50 && scheduler.stats().products == 3);
    vram_weights_options shape = {};
    shape.size = sizeof shape;
    shape.k = shape.n = 2;
    shape.b = b;
    vram::weights weights(scheduler, shape);
    product.b = nullptr;
    product.weights = weights.get();
    std::memset(c, 0, sizeof c);
    scheduler.run(product);
    MUST(c[0] == 19);
    vram_distance distance = {};
    distance.size = sizeof distance;
    distance.queries = 1;
    distance.vectors = distance.dim = 2;
    distance.query = a;
    distance.corpus = b;
    distance.k = 1;
    distance.best = best;
    distance.best_at = best_at;
    scheduler.run(distance);
    MUST(best[0] == 32 && best_at[0] == 0);
    MUST(thrown([&] { vram::weights(scheduler, vram_weights_options()); }) == VRAM_ERR_INVALID);
    vram::labels labels;
    const int32_t asked[2] = {3, 4};
    int32_t mapped[2] = {};
    MUST(labels.map(asked, 2, doubled, nullptr, mapped, 2) == 2 && mapped[1] == 8);
    MUST(labels.map(asked, 2, doubled, nullptr, mapped, 2) == 2 && labels.info().hits == 1);
}

static void models(const char *path) {
    vram::model model(path), moved = std::move(model);
    MUST(model.get() == nullptr && moved->layer_count == 2 && (*moved).hidden == 64);
    MUST(moved.estimate().fits && moved.estimate().weight_bytes == moved->weight_bytes);
    vram_estimate_options options = {};
    vram_estimate_device gpu = {};
    options.size = sizeof options;
    options.devices = &gpu;
    options.device_count = 1;
    gpu.free_bytes = UINT64_C(8) << 30;
    MUST(moved.fit(&options).context > 0);
    MUST(thrown([&] { vram::model("/nowhere/at/all.gguf"); }) == VRAM_ERR_IO);
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

/* What a destructor has to drop, end() returns: here that the parent has ended before. */
static void ended_with_the_parent(const vram_context_options &options) {
    vram::context context(options);
    vram::device device(context);
    vram::queue queue(device);
    vram::pool pool(device);
    vram::stream_set streams(device);
    vram::feed feed(device);
    vram::buffer buffer(pool, 16, queue);
    MUST(context.end() == VRAM_OK && context.end() == VRAM_OK);
    MUST(device.end() == VRAM_ERR_STALE && queue.end() == VRAM_ERR_STALE);
    MUST(pool.end() == VRAM_ERR_STALE && streams.end() == VRAM_ERR_STALE);
    MUST(feed.end() == VRAM_ERR_STALE && buffer.end() == VRAM_ERR_STALE);
}

int main(int, char **argv) {
    vram_context_options options = {};
    options.size = sizeof options;
    options.backends = "host";
    vram::context context(options);
    vram::device device(context), same(context, 0);
    vram::queue queue(device);
    vram::pool pool(device);
    blocks(pool, queue);
    contents(pool, queue);
    unwinding(pool, queue);
    ended_with_the_parent(options);
    errors(device, pool, queue);
    transfers(device, pool, queue);
    streams(device, pool);
    there_and_back(device, pool, queue);
    rings(pool);
    computing(pool);
    models(argv[1]);
    MUST(pool.stats().live_blocks == 0);
    std::printf("raii: %s\n", failures == 0 ? "good" : "failed");
    return failures != 0;
}
