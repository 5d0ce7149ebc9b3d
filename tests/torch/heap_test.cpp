/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_test: the memory of a device as PyTorch uses it (adapters/pytorch/heap.h), without PyTorch
 * and without a GPU, on a simulated device.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>
#include <vram/device.h>
#include <vram/sim.h>

#include "heap.h"

using namespace vram_torch;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__,       \
                         #condition, vram_error_get()->text);                                      \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static const uint64_t KIB = 1024, MIB = 1024 * KIB;

/* A context with one simulated device, streams that the program made, and a heap. */
struct World {
    vram_context *context = nullptr;
    vram_device *device = nullptr;
    std::vector<void *> streams;
    std::unique_ptr<Heap> heap;
    int synchronized = 0, reclaimed = 0;
    std::function<void()> meanwhile; /* runs while somebody waits for the device */

    explicit World(const char *sim, bool moving = true, int stream_count = 3) {
        vram_context_options options = {};
        options.size = sizeof options;
        options.backends = "sim";
        options.sim = sim;
        CHECK(vram_context_create(&options, &context) == VRAM_OK);
        CHECK(vram_device_open(context, 0, &device) == VRAM_OK);
        for (int i = 0; i < stream_count; i++) {
            streams.push_back(reinterpret_cast<void *>(uintptr_t(0x1000) * i));
        }
        HeapOptions heap_options;
        heap_options.device = device;
        heap_options.moving = moving;
        heap_options.synchronize = [this] {
            synchronized++;
            if (meanwhile) {
                meanwhile();
            }
        };
        heap_options.reclaim = [this] { return reclaimed++ < 0; };
        vram_status status = VRAM_OK;
        heap = Heap::create(0, heap_options, &status);
        CHECK(status == VRAM_OK && heap != nullptr);
    }
    ~World() {
        heap.reset();
        vram_context_destroy(context);
    }

    Block alloc(uint64_t size, int stream = 0, const char *tag = nullptr) {
        Block block;
        CHECK(heap->alloc(size, streams[static_cast<size_t>(stream)], tag, &block) == VRAM_OK);
        return block;
    }
    void free(const Block &block) {
        Block taken;
        CHECK(Heap::table().remove(block.addr, &taken) && taken.requested == block.requested);
        heap->free(taken);
    }
    int64_t allocated() { return heap->statistics().get().allocated_bytes[ALL].current; }
};

/* ----------------------------------------------------------------------- tables */

static void table_keeps_what_is_live() {
    BlockTable table;
    std::mt19937 random(7);
    std::vector<Block> live;
    for (int round = 0; round < 20000; round++) {
        if (live.empty() || random() % 5 < 3) {
            Block block;
            block.addr = (uintptr_t(random() % 4096) + 1) << 9;
            Block other;
            if (table.find(block.addr, &other)) {
                continue;
            }
            block.requested = random();
            block.held = 512;
            table.insert(block);
            live.push_back(block);
        } else {
            size_t i = random() % live.size();
            Block taken;
            CHECK(table.remove(live[i].addr, &taken) && taken.requested == live[i].requested);
            CHECK(!table.remove(live[i].addr, &taken));
            live[i] = live.back();
            live.pop_back();
        }
    }
    std::vector<Block> all = table.blocks(0);
    CHECK(all.size() == live.size());
    for (const Block &block : live) {
        Block found;
        CHECK(table.find(block.addr, &found) && found.requested == block.requested);
        CHECK(table.find_around(block.addr + 511, &found) && found.addr == block.addr);
    }
    CHECK(std::is_sorted(all.begin(), all.end(),
                         [](const Block &a, const Block &b) { return a.addr < b.addr; }));
    CHECK(table.blocks(1).empty());
}

/* --------------------------------------------------------------- the device's pool */

static void counts_are_exact() {
    World world("memory=1G");
    Block a = world.alloc(1000), b = world.alloc(3 * MIB);
    Counts counts = world.heap->statistics().get();
    CHECK(counts.allocated_bytes[ALL].current == int64_t(1024 + 3 * MIB));
    CHECK(counts.requested_bytes[ALL].current == int64_t(1000 + 3 * MIB));
    CHECK(counts.allocation[SMALL].current == 1 && counts.allocation[LARGE].current == 1);
    Reserved reserved = world.heap->reserved();
    CHECK(reserved.bytes.current >= counts.allocated_bytes[ALL].current);
    CHECK(reserved.small_bytes.current == 1024);
    world.free(b);
    counts = world.heap->statistics().get();
    CHECK(counts.allocated_bytes[ALL].current == 1024);
    CHECK(counts.allocated_bytes[ALL].peak == int64_t(1024 + 3 * MIB));
    CHECK(counts.allocated_bytes[ALL].freed == int64_t(3 * MIB));
    world.heap->reset_peaks();
    world.heap->reset_accumulated();
    counts = world.heap->statistics().get();
    CHECK(counts.allocated_bytes[ALL].peak == 1024 && counts.allocated_bytes[ALL].allocated == 0);
    CHECK(world.heap->reserved().bytes.peak == world.heap->reserved().bytes.current);
    world.free(a);
    CHECK(world.heap->trim(PoolId(0, 0)) > 0);
    CHECK(world.heap->reserved().bytes.current == 0);
    CHECK(world.heap->largest() >= 512 * MIB);
}

static void limits_hold_and_end() {
    World world("memory=1G");
    CHECK(world.heap->fraction() == 1);
    CHECK(world.heap->fraction_set(0.25) == VRAM_OK);
    Block a = world.alloc(200 * MIB), b;
    CHECK(vram_status_is_exhausted(world.heap->alloc(100 * MIB, nullptr, nullptr, &b)));
    CHECK(world.reclaimed > 0);                    /* PyTorch was asked to free something */
    CHECK(world.heap->fraction_set(0) == VRAM_OK); /* less than is live: nothing more */
    CHECK(vram_status_is_exhausted(world.heap->alloc(100 * MIB, nullptr, nullptr, &b)));
    CHECK(world.heap->fraction_set(1) == VRAM_OK);
    b = world.alloc(700 * MIB);
    Block c;
    CHECK(vram_status_is_exhausted(world.heap->alloc(UINT64_C(1) << 50, nullptr, nullptr, &c)));
    world.free(a);
    world.free(b);
    CHECK(Heap::table().blocks(0).empty());
}

/* 82 MiB of an H200 as a fraction, times its memory, are one byte less when they are cut off. */
static void a_fraction_of_bytes_allows_them() {
    World world("memory=150109880320");
    CHECK(world.heap->fraction_set(double(82 * MIB) / 150109880320.0) == VRAM_OK);
    Block a = world.alloc(82 * MIB);
    world.free(a);
}

/* "callbacks" is a step that PyTorch is asked in. */
static void the_users_ladder_is_kept() {
    for (const char *steps : {"drain,retry", static_cast<const char *>(nullptr)}) {
        CHECK(vram_option_set("ladder", steps) == VRAM_OK);
        World world("memory=1G");
        Block first = world.alloc(600 * MIB), second;
        CHECK(vram_status_is_exhausted(world.heap->alloc(600 * MIB, nullptr, nullptr, &second)));
        CHECK((world.reclaimed > 0) == (steps == nullptr));
        world.free(first);
    }
}

static void other_streams_are_waited_for() {
    World world("memory=1G,lag=50");
    Block a = world.alloc(64 * MIB, 1);
    CHECK(world.heap->use(a, world.streams[1]) == VRAM_OK); /* its own */
    CHECK(world.heap->use(a, world.streams[2]) == VRAM_OK);
    world.free(a);
    Block b = world.alloc(64 * MIB, 1);
    world.free(b);
}

static void tags_count_and_refuse() {
    World world("memory=1G");
    Block a = world.alloc(10 * MIB, 0, "model/weights");
    vram_tag_info info = {};
    info.size = sizeof info;
    CHECK(vram_tag_info_get(world.heap->device(), "model", &info) == VRAM_OK);
    CHECK(info.used_bytes >= 10 * MIB);
    vram_tag_quota_set(world.heap->device(), "model", 0, 16 * MIB);
    Block b;
    CHECK(world.heap->alloc(10 * MIB, nullptr, "model/cache", &b) == VRAM_ERR_LIMIT);
    world.free(a);
    world.free(world.alloc(10 * MIB, 0, "model/cache"));
}

static void threads_share_a_heap() {
    World world("memory=2G", true, 5);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++) {
        threads.emplace_back([&world, number] {
            std::mt19937 random(static_cast<unsigned>(number));
            std::vector<Block> live;
            for (int i = 0; i < 3000; i++) {
                if (live.size() < 40 && random() % 2 == 0) {
                    live.push_back(world.alloc(random() % (256 * KIB) + 1, number + 1));
                } else if (!live.empty()) {
                    size_t at = random() % live.size();
                    world.free(live[at]);
                    live[at] = live.back();
                    live.pop_back();
                }
            }
            for (const Block &block : live) {
                world.free(block);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    Counts counts = world.heap->statistics().get();
    CHECK(counts.allocated_bytes[ALL].current == 0 && counts.allocation[ALL].current == 0);
    CHECK(counts.active_bytes[SMALL].current == 0 && counts.requested_bytes[ALL].current == 0);
    CHECK(counts.allocation[ALL].allocated == counts.allocation[ALL].freed);
}

/* ----------------------------------------------------------------- private pools */

static const PoolId GRAPH(0, 1);

static void check_parts(PrivatePool &pool) {
    for (const SegmentInfo &segment : pool.segments()) {
        uintptr_t at = segment.addr;
        bool was_free = false;
        for (const PartInfo &part : segment.parts) {
            CHECK(part.addr == at && part.size > 0);
            bool is_free = !part.live && !part.pending;
            CHECK(!(was_free && is_free));
            was_free = is_free;
            at += part.size;
        }
        CHECK(at == segment.addr + segment.size);
    }
}

static void captures_have_a_pool_of_their_own() {
    World world("memory=1G");
    void *stream = world.streams[1];
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [stream](void *used) { return used == stream; }));
    CHECK(!world.heap->route_begin(GRAPH, [](void *) { return true; }));
    Block outside = world.alloc(1000, 0), inside = world.alloc(1000, 1),
          large = world.alloc(12 * MIB, 1);
    CHECK(outside.source == Source::POOL && inside.source == Source::PRIVATE);
    CHECK(world.heap->trim(PoolId(0, 0)) == 0); /* never during a capture */
    CHECK(world.heap->route_end(GRAPH) && !world.heap->route_end(GRAPH));
    CHECK(!world.heap->capturing());

    auto pool = world.heap->pool_find(GRAPH);
    CHECK(pool->segments().size() == 2);
    uintptr_t base = 0;
    uint64_t size = 0;
    CHECK(pool->segment_of(inside.addr + 10, &base, &size) && base == inside.addr &&
          size == 2 * MIB);
    CHECK(!pool->segment_of(1, &base, &size));
    CHECK(world.heap->reserved().small_bytes.current == int64_t(1024 + 2 * MIB));
    CHECK(world.heap->statistics().get().private_bytes.current == int64_t(1024 + 12 * MIB));

    /* Freed memory of a graph that lives serves nobody else. */
    world.free(inside);
    world.free(large);
    world.heap->trim(PoolId(0, 0));
    CHECK(pool->segments().size() == 2);
    Block other = world.alloc(12 * MIB, 1);
    CHECK(other.source == Source::POOL && other.addr != large.addr);
    world.free(other);

    CHECK(world.heap->pool_uses(GRAPH) == 1);
    CHECK(world.heap->pool_release(GRAPH) && !world.heap->pool_release(GRAPH));
    pool.reset();
    world.heap->trim(PoolId(0, 0));
    CHECK(world.synchronized > 0 && world.heap->pool_find(GRAPH) == nullptr);
    CHECK(world.heap->pool_uses(GRAPH) == 0);
    world.free(outside);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->reserved().bytes.current == 0 && world.allocated() == 0);
}

/* Any sequence, taken back to any checkpoint, is what it was, at the same addresses. */
static void checkpoints_come_back() {
    World world("memory=1G");
    std::mt19937 random(11);
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    auto pool = world.heap->pool_find(GRAPH);
    std::vector<Block> live;
    for (int round = 0; round < 40; round++) {
        Checkpoint saved;
        std::vector<Block> then;
        for (int step = 0; step < 60; step++) {
            if (step == 30) {
                saved = pool->checkpoint();
                then = live;
            }
            if (live.empty() || random() % 3 != 0) {
                uint64_t most = random() % 4 == 0 ? 15 * MIB : 300 * KIB;
                live.push_back(world.alloc(random() % most + 1, 0));
            } else {
                size_t at = random() % live.size();
                world.free(live[at]);
                live[at] = live.back();
                live.pop_back();
            }
            check_parts(*pool);
        }
        Restored restored;
        CHECK(world.heap->restore(saved, &restored) == VRAM_OK);
        CHECK(restored.freed.size() == live.size() && restored.allocated.size() == then.size());
        live = then;
        check_parts(*pool);
        std::unordered_set<void *> expected;
        int64_t bytes = 0;
        for (const Block &block : live) {
            expected.insert(reinterpret_cast<void *>(block.addr));
            Block found;
            CHECK(Heap::table().find(block.addr, &found) && found.requested == block.requested);
            bytes += static_cast<int64_t>(block.held);
        }
        CHECK(pool->live_equals(expected) && world.allocated() == bytes);
        expected.insert(nullptr);
        CHECK(!pool->live_equals(expected));
        while (live.size() > 10) {
            world.free(live.back());
            live.pop_back();
        }
    }
    Checkpoint gone = pool->checkpoint();
    for (const Block &block : live) {
        world.free(block);
    }
    world.heap->route_end(GRAPH);
    world.heap->trim(GRAPH);
    Restored restored;
    CHECK(world.heap->restore(gone, &restored) == VRAM_ERR_INVALID && restored.freed.empty());
    gone.id = PoolId(9, 9);
    CHECK(world.heap->restore(gone, &restored) == VRAM_ERR_INVALID);
}

static void recorded_streams_delay_a_free() {
    World world("memory=1G,lag=200");
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    auto pool = world.heap->pool_find(GRAPH);
    Block a = world.alloc(1000, 1);
    vram_queue *queue = nullptr;
    CHECK(world.heap->streams().get(world.heap->device(), world.streams[2], &queue) == VRAM_OK);
    CHECK(vram_queue_fill(queue, pool->segments()[0].addr, 0, 4, 1 * MIB) == VRAM_OK);
    CHECK(world.heap->use(a, world.streams[2]) == VRAM_OK);
    CHECK(world.heap->use(a, world.streams[2]) == VRAM_OK);
    world.free(a);
    Counts counts = world.heap->statistics().get();
    CHECK(counts.allocation[ALL].current == 0);
    CHECK(counts.active[ALL].current == 1); /* no mark is made during a capture */
    {
        Restored restored;
        CHECK(world.heap->restore(pool->checkpoint(), &restored) == VRAM_ERR_BUSY);
        Block b = world.alloc(1000, 1);
        CHECK(b.addr != a.addr);
        world.free(b);
    }
    world.heap->route_end(GRAPH);
    pool->settle(); /* makes the mark */
    CHECK(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
    pool->settle();
    counts = world.heap->statistics().get();
    CHECK(counts.active[ALL].current == 0 && counts.active_bytes[ALL].current == 0);
    CHECK(counts.requested_bytes[ALL].current == 0);
    check_parts(*pool);
}

/* Uses of a captured region get their mark before the wait for the device, which is the last. */
static void one_trim_gives_a_dead_graph_back() {
    World world("memory=1G,lag=200");
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    Block a = world.alloc(1000, 1);
    CHECK(world.heap->use(a, world.streams[2]) == VRAM_OK);
    world.free(a);
    world.heap->route_end(GRAPH);
    world.heap->pool_release(GRAPH);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->reserved().bytes.current == 0);
}

/* What a capture knows of its streams: where each is, and what each node waits for. */
struct Captured {
    uint64_t id = 7;
    std::map<void *, std::vector<void *>> ends;
    std::map<void *, std::vector<void *>> before;
    std::vector<void *> asked;

    static void *node(uintptr_t number) { return reinterpret_cast<void *>(number); }
    CaptureGraph graph() {
        return CaptureGraph{[this](void *stream, std::vector<void *> *nodes) -> uint64_t {
                                asked.push_back(stream);
                                const std::vector<void *> &own = ends[stream];
                                nodes->insert(nodes->end(), own.begin(), own.end());
                                return own.empty() ? 0 : id;
                            },
                            [this](void *at) { return before[at]; }};
    }
};

static void graphs_order_uses() {
    Captured now;
    World world("memory=1G");
    auto node = Captured::node;
    void *first = world.streams[0], *second = world.streams[1], *third = world.streams[2];
    SegmentSource source;
    source.alloc = [&](uint64_t bytes, bool, uintptr_t *addr) {
        vram_addr made = 0;
        vram_status status = vram_alloc(world.heap->pool(), bytes, nullptr, &made);
        *addr = static_cast<uintptr_t>(made);
        return status;
    };
    source.free = [](uintptr_t addr, uint64_t, bool) { vram_free(addr, nullptr); };
    source.queue_of = [](void *, vram_queue **) { return VRAM_ERR_CAPTURE; };
    source.graph = now.graph();
    PrivatePool pool(GRAPH, source);
    auto make = [&](void *stream, bool lasting) {
        uintptr_t addr = 0;
        uint64_t held = 0;
        CHECK(pool.alloc(1000, stream, true, &addr, &held, lasting) == VRAM_OK);
        return addr;
    };
    now.ends = {{first, {node(1)}}, {second, {node(2)}}, {third, {node(3)}}};
    uintptr_t used = make(first, true);
    pool.use(used, second, true);
    pool.use(used, third, true);
    CHECK(!pool.free(used));
    now.ends[first] = {node(4)};
    now.before[node(4)] = {node(1), node(2)};
    CHECK(make(first, true) != used); /* the third has not joined */
    now.ends[second] = {node(5)};
    now.before[node(5)] = {node(2), node(3), node(4)};
    CHECK(make(second, true) != used); /* it is memory of the first */
    now.ends[first] = {node(5)};
    now.id = 8;
    CHECK(make(first, true) != used); /* another capture, whose nodes have the same addresses */
    now.id = 7;
    CHECK(make(first, true) == used);
    check_parts(pool);
    pool.use(used, second, true);
    now.ends[second].clear(); /* it takes part in no capture */
    CHECK(!pool.free(used) && make(first, true) != used);
    uintptr_t external = make(third, false);
    pool.use(external, first, true);
    now.asked.clear();
    CHECK(!pool.free(external) && make(third, false) != external);
    CHECK(now.asked.empty()); /* the stream may be gone */
}

/* A MemPool with an allocator of its own, one that gives its memory when there is no other, and one
   that does not split. */
static void pools_have_sources_and_offers() {
    World world("memory=256M");
    static uintptr_t next = uintptr_t(1) << 50;
    int made = 0, freed = 0;
    SegmentSource source;
    source.alloc = [&made](uint64_t bytes, bool, uintptr_t *addr) {
        if (bytes > 100 * MIB) {
            return VRAM_ERR_DEVICE_MEMORY;
        }
        made++;
        *addr = next;
        next += bytes;
        return VRAM_OK;
    };
    source.free = [&freed](uintptr_t, uint64_t, bool) { freed++; };
    PoolId own(5, 0);
    world.heap->pool_hold(own, source);
    CHECK(world.heap->route_begin(own, [](void *) { return true; }));
    Block a = world.alloc(30 * MIB), b;
    CHECK(made == 1 && a.addr >= uintptr_t(1) << 50);
    CHECK(world.heap->reserved().bytes.current == int64_t(30 * MIB));
    CHECK(world.heap->alloc(200 * MIB, nullptr, nullptr, &b) == VRAM_ERR_DEVICE_MEMORY);
    world.free(a);
    world.heap->route_end(own);
    world.heap->pool_find(own)->use_on_oom = true;
    Block most = world.alloc(230 * MIB);
    Block from_offer = world.alloc(29 * MIB);
    CHECK(most.source == Source::POOL && from_offer.source == Source::PRIVATE);
    CHECK(world.heap->alloc(31 * MIB, nullptr, nullptr, &b) != VRAM_OK);
    world.free(from_offer);
    world.free(most);
    CHECK(world.heap->trim(own) > 0 && freed == 1);
    CHECK(world.heap->reserved().bytes.current == 0);

    /* What another allocator gives counts for the fraction: of 64 MiB it has 40. */
    CHECK(world.heap->fraction_set(0.25) == VRAM_OK);
    CHECK(world.heap->route_begin(own, [](void *) { return true; }));
    a = world.alloc(40 * MIB);
    CHECK(world.heap->alloc(40 * MIB, nullptr, nullptr, &b) == VRAM_ERR_LIMIT);
    world.heap->route_end(own);
    CHECK(world.heap->alloc(40 * MIB, nullptr, nullptr, &b) == VRAM_ERR_LIMIT);
    Block rest = world.alloc(20 * MIB);
    world.free(rest);
    world.free(a);
    CHECK(world.heap->trim(own) > 0);
    rest = world.alloc(60 * MIB);
    world.free(rest);
    CHECK(world.heap->fraction_set(1) == VRAM_OK && world.heap->pool_release(own));

    PoolId whole(6, 0);
    world.heap->pool_hold(whole);
    world.heap->pool_find(whole)->no_split = true;
    CHECK(world.heap->route_begin(whole, [](void *) { return true; }));
    Block c = world.alloc(3 * MIB), d = world.alloc(3 * MIB);
    CHECK(world.heap->pool_find(whole)->segments().size() == 2);
    PoolId inner(7, 0); /* the innermost route is taken */
    world.heap->pool_hold(inner);
    CHECK(world.heap->route_begin(inner, [](void *) { return true; }));
    Block e = world.alloc(3 * MIB);
    CHECK(e.owner->id() == inner && c.owner->id() == whole);
    world.free(e);
    world.heap->route_end(inner);
    world.free(c);
    world.free(d);
    world.heap->route_end(whole);
}

/* A graph that died gives its memory when there is no other. */
static void dead_graphs_give_way() {
    World world("memory=256M");
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    Block a = world.alloc(150 * MIB);
    world.free(a);
    world.heap->route_end(GRAPH);
    Block b;
    CHECK(world.heap->alloc(200 * MIB, nullptr, nullptr, &b) != VRAM_OK);
    CHECK(world.heap->pool_release(GRAPH));
    b = world.alloc(200 * MIB);
    CHECK(b.source == Source::POOL && world.synchronized > 0);
    world.free(b);
}

/* A stream that the program may destroy is never asked anything: there is no queue of it, memory is
   used again on it alone, and for others after the device was idle. */
static void external_streams_are_not_touched() {
    World world("memory=256M");
    void *stream = reinterpret_cast<void *>(uintptr_t(0x7000));
    Block a, b;
    CHECK(world.heap->alloc_external(100 * MIB, stream, stream, &a) == VRAM_OK);
    CHECK(a.source == Source::PRIVATE && a.queue == nullptr);
    CHECK(!world.heap->streams().knows(stream) && world.heap->streams().queues().empty());
    world.free(a);
    CHECK(world.heap->alloc_external(100 * MIB, stream, stream, &b) == VRAM_OK && b.addr == a.addr);
    world.free(b);
    int before = world.synchronized;
    b = world.alloc(200 * MIB);
    CHECK(world.synchronized > before && world.heap->streams().queues().size() == 1);
    CHECK(world.heap->alloc_external(100 * MIB, stream, stream, &a) != VRAM_OK);
    world.free(b);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->alloc_external(100 * MIB, stream, stream, &a) == VRAM_OK);
    world.free(a);

    /* Another stream with the same handle: work of the one before may still use its memory. */
    void *next = reinterpret_cast<void *>(uintptr_t(0x7001));
    CHECK(world.heap->alloc_external(100 * MIB, stream, next, &b) == VRAM_OK && b.addr != a.addr);
    CHECK(b.stream == stream);
    world.free(b);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->reserved().bytes.current == 0 && world.allocated() == 0);

    /* The default streams of threads have one handle and a number each. */
    void *own = reinterpret_cast<void *>(uintptr_t(2));
    CHECK(world.heap->alloc_external(100 * MIB, own, stream, &a) == VRAM_OK);
    CHECK(world.heap->use(a, own, false) == VRAM_OK); /* perhaps of another thread */
    world.free(a);
    CHECK(world.heap->alloc_external(100 * MIB, own, stream, &b) == VRAM_OK && b.addr != a.addr);
    world.free(b);
    world.heap->trim(PoolId(0, 0));

    /* A capture on it has the graph's memory. */
    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    CHECK(world.heap->alloc_external(MIB, stream, stream, &a) == VRAM_OK && a.owner->id() == GRAPH);
    world.free(a);
    world.heap->route_end(GRAPH);
    CHECK(world.heap->pool_release(GRAPH));
}

/* Work that a stream gets after record_stream and before the free counts, in the device's pool and
   in a private one. Contents decide. */
static void late_work_of_a_recorded_stream_is_waited_for() {
    for (bool graph : {false, true}) {
        World world("memory=256M,real=on,lag=1000");
        const uint64_t size = 400000;
        std::vector<uint8_t> found(size);
        vram_queue *own = nullptr, *side = nullptr;
        CHECK(world.heap->streams().get(world.device, world.streams[0], &own) == VRAM_OK);
        CHECK(world.heap->streams().get(world.device, world.streams[1], &side) == VRAM_OK);
        world.heap->pool_hold(GRAPH);
        CHECK(!graph || world.heap->route_begin(GRAPH, [](void *) { return true; }));
        Block a = world.alloc(size);
        CHECK(world.heap->use(a, world.streams[1], true) == VRAM_OK);
        CHECK(vram_queue_wait(own, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
        CHECK(vram_queue_wait(side, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
        CHECK(vram_queue_fill(side, a.addr, 0xDD, 1, size) == VRAM_OK); /* late */
        world.free(a);
        Block b = world.alloc(size);
        CHECK(vram_queue_fill(own, b.addr, 0x11, 1, size) == VRAM_OK);
        CHECK(vram_queue_wait(own, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
        CHECK(vram_queue_wait(side, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
        CHECK(vram_queue_download(own, found.data(), b.addr, size) == VRAM_OK);
        CHECK(vram_queue_wait(own, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
        CHECK(std::count(found.begin(), found.end(), 0x11) == std::ptrdiff_t(size));
        world.free(b);
        if (graph) {
            world.heap->route_end(GRAPH);
        }
        CHECK(world.heap->pool_release(GRAPH));
    }
}

/* The same of a stream that record_stream names: what it uses is not free before the device was
   idle. */
static void external_uses_wait_for_an_idle_device() {
    World world("memory=256M");
    void *stream = reinterpret_cast<void *>(uintptr_t(0x7000));
    Block a = world.alloc(100 * MIB);
    CHECK(world.heap->use(a, stream, false) == VRAM_OK);
    CHECK(world.heap->use(a, stream, false) == VRAM_OK);
    CHECK(!world.heap->streams().knows(stream) && world.heap->streams().queues().size() == 1);
    world.free(a);
    CHECK(world.allocated() == 0 && world.heap->statistics().get().active[ALL].current == 0);
    Block b = world.alloc(100 * MIB);
    CHECK(b.addr != a.addr && world.synchronized == 0);
    Block c = world.alloc(100 * MIB); /* memory runs out: that of `a` */
    CHECK(world.synchronized > 0);
    CHECK(world.heap->use(c, world.streams[0], false) == VRAM_OK); /* a stream that lasts */
    world.free(c);
    int before = world.synchronized;
    c = world.alloc(100 * MIB);
    CHECK(world.synchronized == before);
    world.free(b);
    world.free(c);

    world.heap->pool_hold(GRAPH);
    CHECK(world.heap->route_begin(GRAPH, [](void *) { return true; }));
    auto pool = world.heap->pool_find(GRAPH);
    a = world.alloc(1000);
    CHECK(world.heap->use(a, stream, false) == VRAM_OK);
    world.free(a);
    b = world.alloc(1000);
    CHECK(b.addr != a.addr && world.heap->statistics().get().active[ALL].current == 2);
    world.free(b);
    world.heap->route_end(GRAPH);
    pool->settle();
    CHECK(world.heap->statistics().get().active[ALL].current == 1);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->statistics().get().active[ALL].current == 0);
    check_parts(*pool);
    CHECK(!world.heap->streams().knows(stream) && world.heap->pool_release(GRAPH));
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->reserved().bytes.current == 0);
}

/* What is freed while somebody waits for the device may be in use when that wait ends. */
static void frees_during_the_wait_are_kept() {
    World world("memory=1G");
    void *stream = reinterpret_cast<void *>(uintptr_t(0x7000));
    Block segment, used = world.alloc(10 * MIB), other = world.alloc(10 * MIB);
    CHECK(world.heap->alloc_external(20 * MIB, stream, stream, &segment) == VRAM_OK);
    CHECK(world.heap->use(used, stream, false) == VRAM_OK);
    CHECK(world.heap->use(other, stream, false) == VRAM_OK);
    world.free(other);
    world.meanwhile = [&] {
        world.free(segment);
        world.free(used);
        world.meanwhile = nullptr;
    };
    world.heap->trim(PoolId(0, 0));
    CHECK(world.synchronized == 1 && world.allocated() == 0);
    CHECK(world.heap->reserved().bytes.current == int64_t(30 * MIB));
    world.heap->trim(PoolId(0, 0));
    CHECK(world.synchronized == 2 && world.heap->reserved().bytes.current == 0);
}

/* Work that was submitted before, on a stream that the pool does not know, is what sleeps. */
static void sleep_waits_for_all_streams() {
    World world("memory=1G");
    Block a = world.alloc(4 * MIB, 0, "weights");
    vram_queue *queue = nullptr;
    uint32_t last = 0;
    CHECK(vram_queue_create(world.device, nullptr, &queue) == VRAM_OK);
    CHECK(vram_queue_fill(queue, a.addr, 0, 4, 4 * MIB) == VRAM_OK);
    world.meanwhile = [&] {
        CHECK(vram_queue_fill(queue, a.addr, 7, 4, 4 * MIB) == VRAM_OK);
        CHECK(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
    };
    vram_sleep_options options = {};
    options.size = sizeof options;
    options.contents = VRAM_SLEEP_HOST;
    options.tag = "weights";
    CHECK(world.heap->sleep(options) == VRAM_OK && world.synchronized == 1);
    CHECK(vram_pool_wake(world.heap->pool(), "weights") == VRAM_OK);
    CHECK(vram_queue_download(queue, &last, a.addr + 4 * MIB - 4, 4) == VRAM_OK);
    CHECK(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK && last == 7);
    CHECK(vram_queue_destroy(queue) == VRAM_OK);
    world.free(a);
}

/* ---------------------------------------------------------------------- failures */

/* Each call of the driver fails once: a status, and nothing lost. */
static void faults_lose_nothing() {
    for (int call = 1; call < 200; call++) {
        char sim[96];
        std::snprintf(sim, sizeof sim, "memory=1G,fault=any:%d", call);
        vram_context_options options = {};
        options.size = sizeof options;
        options.backends = "sim";
        options.sim = sim;
        vram_context *context = nullptr;
        if (vram_context_create(&options, &context) != VRAM_OK) {
            continue;
        }
        vram_status status = VRAM_OK;
        HeapOptions heap_options;
        std::unique_ptr<Heap> heap;
        if (vram_device_open(context, 0, &heap_options.device) == VRAM_OK) {
            heap = Heap::create(0, heap_options, &status);
            CHECK((heap != nullptr) == (status == VRAM_OK));
        }
        if (heap != nullptr) {
            std::vector<Block> live;
            for (int i = 0; i < 12; i++) {
                Block block;
                if (i == 6) {
                    heap->pool_hold(GRAPH);
                    heap->route_begin(GRAPH, [](void *) { return true; });
                }
                if (heap->alloc(uint64_t(i + 1) * MIB, nullptr, nullptr, &block) == VRAM_OK) {
                    live.push_back(block);
                }
            }
            heap->route_end(GRAPH);
            for (const Block &block : live) {
                Block taken;
                CHECK(Heap::table().remove(block.addr, &taken));
                heap->free(taken);
            }
            heap->pool_release(GRAPH);
            heap->trim(PoolId(0, 0));
            CHECK(heap->statistics().get().allocated_bytes[ALL].current == 0);
            CHECK(heap->statistics().get().active[ALL].current == 0);
        }
        heap.reset();
        vram_context_destroy(context);
    }
}

/* The process's own device and pool, which others in the process use too. */
static void one_pool_for_all() {
    CHECK(vram_option_set("sim", "memory=1G,devices=2") == VRAM_OK);
    HeapOptions options;
    options.backend = "sim";
    vram_status status = VRAM_OK;
    CHECK(Heap::create(7, options, &status) == nullptr);
    CHECK(status == VRAM_ERR_NO_DEVICE && std::strlen(vram_error_get()->text) > 0);
    std::unique_ptr<Heap> heap = Heap::create(1, options, &status);
    vram_device *device = nullptr;
    vram_pool *pool = nullptr;
    CHECK(vram_device_shared("sim", 1, &device) == VRAM_OK && device == heap->device());
    CHECK(vram_pool_shared(device, &pool) == VRAM_OK && pool == heap->pool());
    Block block, taken;
    CHECK(heap->alloc(MIB, nullptr, nullptr, &block) == VRAM_OK && block.device == 1);
    CHECK(heap->alloc(UINT64_C(2) << 30, nullptr, nullptr, &taken) != VRAM_OK);
    CHECK(Heap::table().remove(block.addr, &taken));
    heap->free(taken);
    heap.reset();
    vram_addr addr = 0;
    CHECK(vram_alloc(pool, MIB, nullptr, &addr) == VRAM_OK); /* it stays with the process */
    CHECK(vram_free(addr, nullptr) == VRAM_OK);
}

/* The process's own pool lasts until the process ends, so it gets one. */
static void in_a_process(void (*part)()) {
    pid_t child = fork();
    if (child == 0) {
        part();
        _exit(0);
    }
    int code = -1;
    CHECK(child > 0 && waitpid(child, &code, 0) == child && code == 0);
}

static void whole_segments_too() {
    World world("memory=1G", false);
    Block a = world.alloc(100 * MIB), b = world.alloc(100);
    vram_sleep_options options = {};
    options.size = sizeof options;
    CHECK(vram_pool_sleep(world.heap->pool(), &options) == VRAM_ERR_UNSUPPORTED);
    world.free(a);
    world.free(b);
    world.heap->trim(PoolId(0, 0));
    CHECK(world.heap->reserved().bytes.current == 0);
}

static void streams_run_out() {
    World world("memory=1G");
    Block block;
    vram_status status = VRAM_OK;
    for (uintptr_t i = 1; i < 1100 && status == VRAM_OK; i++) {
        status = world.heap->alloc(512, reinterpret_cast<void *>(i << 8), nullptr, &block);
    }
    CHECK(status == VRAM_ERR_LIMIT && std::strstr(vram_error_get()->text, "streams") != nullptr);
    for (const Block &live : Heap::table().blocks(0)) {
        world.free(live);
    }
}

int shared_blocks_test();

static int heap_test() {
    table_keeps_what_is_live();
    counts_are_exact();
    limits_hold_and_end();
    a_fraction_of_bytes_allows_them();
    the_users_ladder_is_kept();
    other_streams_are_waited_for();
    tags_count_and_refuse();
    threads_share_a_heap();
    captures_have_a_pool_of_their_own();
    checkpoints_come_back();
    recorded_streams_delay_a_free();
    one_trim_gives_a_dead_graph_back();
    graphs_order_uses();
    pools_have_sources_and_offers();
    dead_graphs_give_way();
    external_streams_are_not_touched();
    late_work_of_a_recorded_stream_is_waited_for();
    external_uses_wait_for_an_idle_device();
    frees_during_the_wait_are_kept();
    sleep_waits_for_all_streams();
    faults_lose_nothing();
    in_a_process(one_pool_for_all);
    whole_segments_too();
    streams_run_out();
    std::puts("heap_test: all passed");
    return 0;
}

int main(int count, char **words) {
    std::string name = count == 2 ? words[1] : "";
    if (name == "heap") {
        return heap_test();
    }
    if (name == "shared_blocks") {
        return shared_blocks_test();
    }
    std::fprintf(stderr, "usage: torch_tests heap|shared_blocks\n");
    return 2;
}
