/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_pool.c: what a pool gives and takes back, what it refuses, what it counts, and how it ends.
 * Most cases run twice: on mapped memory where the device can map, and on segments.
 */
#include "case.h"

#include <string.h>

#define KIB UINT64_C(1024)

/* A pool on a fresh device with one queue. `segments`: not on mapped memory. */
static bool begin(struct check *check, bool segments, struct check_device **device,
                  vram_queue **queue, struct check_stock *stock) {
    vram_pool_options options = {.size = sizeof options, .name = "case"};
    options.flags = segments ? VRAM_POOL_SEGMENTS : 0;
    check_note(check, segments ? "on segments" : "as the device has it");
    CHECK_OPEN(check, device);
    CHECK_QUEUE(check, *device, queue);
    CHECK_STOCK(check, *device, &options, stock);
    return true;
}

/* Runs a case in both modes. */
#define IN_BOTH_MODES(body)                                                                        \
    static bool body##_in_both(struct check *check) {                                              \
        return body(check, false) && body(check, true);                                            \
    }

/* --------------------------------------------------------- giving and taking */

/* Sizes around everything that rounds, freed in another order than they came. */
static bool blocks(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[9];

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, segments);
    const uint64_t sizes[9] = {1,       511,         512,     513,        33 * KIB,
                               granule, granule + 1, 4 * KIB, 2 * granule};
    for (uint32_t i = 0; i < 9; i++) {
        CHECK_TAKE(check, &stock, sizes[i], queue, &addrs[i]);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    for (uint32_t i = 0; i < 9; i += 2) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    for (uint32_t i = 0; i < 9; i += 2) {
        CHECK_TAKE(check, &stock, sizes[8 - i], queue, &addrs[i]);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}
IN_BOTH_MODES(blocks)

static bool zero_bytes(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr one, two, other;

    CHECK_TRY(begin(check, false, &device, &queue, &stock));
    CHECK_TAKE(check, &stock, 0, queue, &one);
    CHECK_TAKE(check, &stock, 0, queue, &two);
    CHECK_TAKE(check, &stock, 1, NULL, &other); /* no queue: for nobody's work yet */
    stock.blocks[2].queue = queue;
    CHECK_THAT(check, one != two && one != other && two != other);
    CHECK_GIVE(check, &stock, one, queue);
    CHECK_STOCK_REFUSES(check, &stock, vram_free(one, queue), VRAM_ERR_INVALID);
    CHECK_GIVE(check, &stock, two, queue);
    CHECK_OK(check, vram_free(0, queue)); /* nothing at all */
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

static bool sizes_refused(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr held, addr = CHECK_CANARY;

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_TAKE(check, &stock, 5000, queue, &held);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, UINT64_MAX, queue, &addr),
                        VRAM_ERR_OVERFLOW);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, UINT64_MAX - 510, queue, &addr),
                        VRAM_ERR_OVERFLOW);
    if (check_block_bytes(UINT64_MAX - 511) != 0) {
        CHECK_EXHAUSTED(check, vram_alloc(stock.pool, UINT64_MAX - 511, queue, &addr));
    }
    CHECK_EXHAUSTED(check, vram_alloc(stock.pool, UINT64_C(1) << 60, queue, &addr));
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, 1, queue, NULL), VRAM_ERR_INVALID);
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    return true;
}
IN_BOTH_MODES(sizes_refused)

static bool aligned(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr = CHECK_CANARY, small;

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, segments);
    for (uint64_t align = 256; align <= granule; align *= 8) {
        vram_alloc_options options = {.size = sizeof options, .alignment = align};
        CHECK_TAKE(check, &stock, 700, queue, &small); /* so that nothing is aligned by chance */
        CHECK_TAKE_WITH(check, &stock, 3 * KIB + align / 2, queue, &options, &addr);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    const uint64_t wrong[] = {1, 128, 3000, 2 * granule, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vram_alloc_options options = {.size = sizeof options, .alignment = wrong[i]};
        CHECK_STOCK_REFUSES(check, &stock, vram_alloc_with(stock.pool, 1, queue, &options, &small),
                            VRAM_ERR_INVALID);
    }
    return true;
}
IN_BOTH_MODES(aligned)

/* Size, pool, tag and device of an address. */
static bool known(struct check *check, bool segments) {
    static const char tag[] = "weights";
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, plain;
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    vram_block_info info = {.size = sizeof info};
    vram_native_info native = {.size = sizeof native};

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_TAKE_WITH(check, &stock, 10000, queue, &options, &addr);
    CHECK_TAKE(check, &stock, 10000, queue, &plain);
    CHECK_OK(check, vram_block_info_get(addr, &info));
    CHECK_THAT(check, info.tag != NULL && strcmp(info.tag, tag) == 0);
    CHECK_OK(check, vram_block_info_get(plain, &info));
    CHECK_THAT(check, info.tag == NULL);
    CHECK_OK(check, vram_native(addr + 9999, &native)); /* interior: its segment */
    CHECK_THAT(check, native.device == device->device && native.kind == VRAM_MEMORY_DEVICE);
    CHECK_THAT(check, native.base <= addr && native.base + native.offset == addr + 9999);
    CHECK_THAT(check, native.offset + 1 <= native.bytes);
    CHECK_STATUS(check, vram_block_info_get(addr + 512, &info), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_block_info_get(77, &info), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_block_info_get(addr, NULL), VRAM_ERR_INVALID);
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_STATUS(check, vram_block_info_get(addr, &info), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(device->device, native.base), VRAM_ERR_INVALID);
    return true;
}
IN_BOTH_MODES(known)

/* ------------------------------------------------------------------- mistakes */

struct wrong_free {
    vram_queue *queue;
    vram_addr addr;
};

static bool free_wrongly(struct check *check, void *argument) {
    const struct wrong_free *wrong = argument;
    CHECK_STATUS(check, vram_free(wrong->addr, wrong->queue), VRAM_ERR_INVALID);
    return true;
}

static bool free_mistakes(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, gone, coarse;

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_TAKE(check, &stock, 5000, queue, &gone);
    CHECK_OK(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &coarse));
    CHECK_GIVE(check, &stock, gone, queue);
    const vram_addr wrong[] = {addr + 512, addr + 1, addr - 512, gone, coarse, 77};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct wrong_free mistake = {queue, wrong[i]};
        CHECK_TRY(free_wrongly(check, &mistake));
        CHECK_TRY(check_threads(check, 1, free_wrongly, &mistake, sizeof mistake));
    }
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_REFUSED(check, vram_free(addr, (vram_queue *)(uintptr_t)12345));
    CHECK_REFUSED(check, vram_alloc(stock.pool, 1, (vram_queue *)(uintptr_t)12345, &gone));
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_OK(check, vram_device_free(device->device, coarse));
    return true;
}
IN_BOTH_MODES(free_mistakes)

enum { CREW = 4 };

struct racer {
    struct check_stock *stock;
    vram_queue *queue;
    vram_addr addr;
    vram_status result;
};

static bool race_free(struct check *check, void *argument) {
    struct racer *racer = argument;
    racer->result = vram_free(racer->addr, racer->queue);
    if (racer->result == VRAM_ERR_INVALID) {
        return true;
    }
    return check_ok(check, racer->result, CHECK_AT("vram_free"));
}

/* Two winners would have the same memory handed out twice. */
static bool free_race(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;

    CHECK_TRY(begin(check, false, &device, &queue, &stock));
    for (uint32_t round = 0; round < check_rounds(check, 30); round++) {
        struct racer racers[CREW];
        vram_addr addr;
        uint32_t winners = 0;
        CHECK_TAKE(check, &stock, 100 + round * 5000, queue, &addr);
        for (uint32_t i = 0; i < CREW; i++) {
            racers[i] = (struct racer){&stock, queue, addr, VRAM_OK};
        }
        CHECK_TRY(check_threads(check, CREW, race_free, racers, sizeof racers[0]));
        for (uint32_t i = 0; i < CREW; i++) {
            winners += racers[i].result == VRAM_OK;
        }
        CHECK_EQUAL(check, winners, 1);
        stock.count = 0;
        stock.requested_bytes = 0;
        CHECK_STOCK_VERIFY(check, &stock);
    }
    return true;
}

/* Whatever is wrong with the options, no pool is made. */
static bool options_refused(struct check *check) {
    struct check_device *device;
    vram_pool *canary = (vram_pool *)(uintptr_t)CHECK_CANARY, *pool = canary;
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options options = {.size = sizeof options, .flags = 1u << 20};

    CHECK_OPEN(check, &device);
    CHECK_STATUS(check, vram_pool_create(device->device, &options, &pool), VRAM_ERR_INVALID);
    options = (vram_pool_options){.size = 3};
    CHECK_STATUS(check, vram_pool_create(device->device, &options, &pool), VRAM_ERR_INVALID);
    options = (vram_pool_options){.size = sizeof options, .provider = &provider};
    CHECK_STATUS(check, vram_pool_create(device->device, &options, &pool), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_pool_create(device->device, NULL, NULL), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_pool_create(NULL, NULL, &pool));
    CHECK_THAT(check, pool == canary);
    CHECK_OK(check, vram_pool_destroy(NULL));
    CHECK_LEDGER(check, device);
    return true;
}

/* A queue of another device would free memory in the wrong device's time. */
static bool other_device(struct check *check) {
    struct check_device *device, *other;
    struct check_stock stock;
    vram_queue *queue, *theirs;
    vram_addr addr, none = CHECK_CANARY;
    uint32_t index;

    if (!check_other_device(check, &index)) {
        return check_skip(check, "the backend has one device only");
    }
    CHECK_TRY(begin(check, false, &device, &queue, &stock));
    CHECK_OPEN_OF(check, check->context, index, &other);
    CHECK_QUEUE(check, other, &theirs);
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, 1, theirs, &none), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_free(addr, theirs), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_use(addr, theirs)); /* a peer may read it: that is said so */
    CHECK_GIVE(check, &stock, addr, queue);
    check_close(other);
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* -------------------------------------------------------------- ahead of time */

static bool cached_only(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, none = CHECK_CANARY;
    vram_alloc_options options = {.size = sizeof options, .flags = VRAM_ALLOC_CACHED_ONLY};
    vram_alloc_options unknown = {.size = sizeof unknown, .flags = 1u << 9};

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc_with(stock.pool, 4096, queue, &options, &none),
                        VRAM_ERR_LIMIT);
    CHECK_TAKE(check, &stock, 4096, queue, &addr);
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_TAKE_WITH(check, &stock, 4096, queue, &options, &addr);
    CHECK_STOCK_REFUSES(check, &stock,
                        vram_alloc_with(stock.pool, UINT64_C(1) << 40, queue, &options, &none),
                        VRAM_ERR_LIMIT);
    CHECK_STOCK_REFUSES(check, &stock, vram_alloc_with(stock.pool, 1, queue, &unknown, &none),
                        VRAM_ERR_INVALID);
    CHECK_EQUAL(check, none, CHECK_CANARY);
    return true;
}
IN_BOTH_MODES(cached_only)

/* What was prepared is there without a driver call; what cannot be prepared leaves nothing
   behind. */
static bool warm(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    vram_pool_stats before, after;
    vram_alloc_options options = {.size = sizeof options, .flags = VRAM_ALLOC_CACHED_ONLY};

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    uint64_t size = check_pool_granule(device, segments) + 5000;
    CHECK_STOCK_OK(check, &stock, vram_pool_warm(stock.pool, size, 3, queue));
    CHECK_TRY(check_stats(check, stock.pool, &before));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE_WITH(check, &stock, size, queue, &options, &addr);
    }
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_EQUAL(check, after.reserved_bytes, before.reserved_bytes);
    CHECK_EQUAL(check, after.driver_creates + after.driver_allocs + after.driver_maps,
                before.driver_creates + before.driver_allocs + before.driver_maps);
    CHECK_EXHAUSTED(check, vram_pool_warm(stock.pool, UINT64_C(1) << 50, 2, queue));
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_THAT(check, after.reserved_bytes == before.reserved_bytes || check_driver_failed(check));
    CHECK_STATUS(check, vram_pool_warm(stock.pool, 1, 0, queue), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_pool_warm(NULL, 1, 1, queue));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}
IN_BOTH_MODES(warm)

/* Free memory goes back to the driver, live memory stays as it is. */
static bool trim(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[4];
    vram_pool_stats stats;
    vram_memory_info memory = {.size = sizeof memory};

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, segments);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_TAKE(check, &stock, 2 * granule, queue, &addrs[i]);
    }
    CHECK_GIVE(check, &stock, addrs[0], queue);
    CHECK_GIVE(check, &stock, addrs[2], queue);
    CHECK_WAIT(check, queue);
    CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, NULL));
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.reserved_bytes >= stats.allocated_bytes);
    if (!segments && check_has(check, VRAM_CAP_VMM)) { /* a segment goes only when it is empty */
        CHECK_THAT(check,
                   stats.peak_reserved_bytes > stats.reserved_bytes || check_driver_failed(check));
    }
    CHECK_GIVE(check, &stock, addrs[1], queue);
    CHECK_GIVE(check, &stock, addrs[3], queue);
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_trim(check, &stock, &stats));
    CHECK_OK(check, vram_memory_info_get(device->device, &memory));
    CHECK_EQUAL(check, memory.held_bytes, stats.reserved_bytes);
    CHECK_TAKE(check, &stock, granule, queue, &addrs[0]); /* and it goes on */
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_REFUSED(check, vram_pool_trim(NULL, NULL, NULL));
    return true;
}
IN_BOTH_MODES(trim)

/* ------------------------------------------------------------------- counters */

static bool counters(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, other;
    vram_pool_stats one, two;

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, false, &device, &queue, &stock));
    CHECK_TRY(check_stats(check, stock.pool, &one));
    CHECK_EQUAL(check, one.allocs + one.frees + one.reserved_bytes + one.cached_bytes, 0);
    CHECK_EQUAL(check, one.peak_requested_bytes, 0);
    CHECK_TAKE(check, &stock, 1000, queue, &addr);
    CHECK_TAKE(check, &stock, 70000, queue, &other);
    CHECK_TRY(check_stats(check, stock.pool, &one));
    CHECK_EQUAL(check, one.hits + one.misses, 2);
    CHECK_THAT(check, one.misses >= 1); /* the second may lie beside the first */
    CHECK_EQUAL(check, one.allocated_bytes, 1024 + check_block_bytes(70000));
    CHECK_EQUAL(check, one.peak_requested_bytes, 71000);
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_TAKE(check, &stock, 900, queue, &addr); /* a hit: the same block */
    CHECK_TRY(check_stats(check, stock.pool, &two));
    CHECK_EQUAL(check, two.hits, one.hits + 1);
    CHECK_EQUAL(check, two.cache_hits, one.cache_hits + 1);
    CHECK_EQUAL(check, two.misses, one.misses);
    CHECK_EQUAL(check, two.returns, one.returns + 1);
    CHECK_EQUAL(check, two.cache_returns, one.cache_returns + 1);
    CHECK_EQUAL(check, two.peak_requested_bytes, 71000); /* less than before: the peak stays */
    CHECK_THAT(check, two.metadata_bytes > 0 && two.thread_cache_bytes > 0);
    CHECK_STATUS(check, vram_pool_stats_get(stock.pool, NULL), VRAM_ERR_INVALID);
    two.size = 3;
    CHECK_STATUS(check, vram_pool_stats_get(stock.pool, &two), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_pool_stats_get(NULL, &one));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* The same requests in the same order, whatever the device's work does meanwhile. */
static bool deterministic(struct check *check, bool segments) {
    enum { STEPS = 24, SLOTS = 6 };
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queues[2];
    uint64_t offsets[2][STEPS], granule;
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};

    CHECK_NEEDS_POOLS(check);
    options.flags |= segments ? VRAM_POOL_SEGMENTS : 0;
    check_note(check, segments ? "on segments" : "as the device has it");
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queues[0]);
    CHECK_QUEUE(check, device, &queues[1]);
    granule = check_pool_granule(device, segments);
    for (uint32_t run = 0; run < 2; run++) {
        vram_addr held[SLOTS] = {0}, base = 0;
        CHECK_STOCK(check, device, &options, &stock);
        for (uint32_t i = 0; i < STEPS; i++) {
            vram_queue *queue = queues[i / 3 % 2];
            uint32_t slot = i * 5 % SLOTS;
            if (held[slot] != 0) {
                CHECK_GIVE(check, &stock, held[slot], queue);
            }
            CHECK_TAKE(check, &stock, 1 + i * 7919 % (granule / 2), queue, &held[slot]);
            base = base != 0 ? base : held[slot];
            /* Segments lie where the driver likes: how blocks lie in them must repeat. */
            offsets[run][i] = segments ? held[slot] % granule : held[slot] - base;
            if (run == 1) {
                CHECK_WAIT(check, queue);
            }
        }
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_OK(check, vram_pool_destroy(stock.pool));
    }
    CHECK_THAT(check, memcmp(offsets[0], offsets[1], sizeof offsets[0]) == 0);
    return true;
}
IN_BOTH_MODES(deterministic)

/* --------------------------------------------------------------------- ending */

/* A pool takes its blocks with it; its handle is dead from then on. */
static bool destroyed(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr addr, none = CHECK_CANARY;
    vram_memory_info memory = {.size = sizeof memory};
    vram_block_info info = {.size = sizeof info};

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_QUEUE(check, device, &other);
    CHECK_TAKE(check, &stock, 100, queue, &addr);
    CHECK_TAKE(check, &stock, 3 * check_pool_granule(device, segments), other, &addr);
    CHECK_OK(check, vram_use(addr, queue));
    CHECK_OK(check, vram_pin(addr));
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_STATUS(check, vram_free(addr, queue), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_alloc(stock.pool, 1, queue, &none), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_pool_trim(stock.pool, NULL, NULL), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_block_info_get(addr, &info), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_pin(addr), VRAM_ERR_INVALID);
    CHECK_EQUAL(check, none, CHECK_CANARY);
    CHECK_OK(check, vram_memory_info_get(device->device, &memory));
    CHECK_THAT(check, memory.held_bytes == 0 || check_driver_failed(check));
    CHECK_STATUS(check, vram_pool_destroy(stock.pool), VRAM_ERR_STALE); /* again */
    return true;
}
IN_BOTH_MODES(destroyed)

/* Closing ends the pool, whose blocks are live, freed, used and pinned, after all work. */
static bool device_closed(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr live, freed, pinned;

    CHECK_TRY(begin(check, segments, &device, &queue, &stock));
    CHECK_QUEUE(check, device, &other);
    CHECK_TAKE(check, &stock, 40000, queue, &live);
    CHECK_TAKE(check, &stock, 40000, queue, &freed);
    CHECK_TAKE(check, &stock, 40000, queue, &pinned);
    CHECK_OK(check, vram_use(live, other));
    CHECK_OK(check, vram_use(freed, other));
    CHECK_OK(check, vram_pin(pinned));
    CHECK_GIVE(check, &stock, freed, queue);
    CHECK_GIVE(check, &stock, pinned, queue);
    check_close(device);
    CHECK_REFUSED(check, vram_free(live, NULL));
    CHECK_REFUSED(check, vram_alloc(stock.pool, 1, NULL, &live));
    return true;
}
IN_BOTH_MODES(device_closed)

const struct check_case check_cases_pool[] = {
    {"pool.blocks", "blocks do not overlap, lie on multiples of 512, and keep their contents",
     blocks_in_both},
    {"pool.zero_bytes", "0 bytes give a distinct address, and freeing 0 does nothing", zero_bytes},
    {"pool.sizes_refused", "sizes that no memory can hold are refused and change nothing",
     sizes_refused_in_both},
    {"pool.aligned", "alignments up to the granule are kept, others refused", aligned_in_both},
    {"pool.known", "size, pool, tag and device of a block are known while it is live",
     known_in_both},
    {"pool.free_mistakes", "foreign, interior and second frees are refused from any thread",
     free_mistakes_in_both},
    {"pool.free_race", "of several frees of one block exactly one succeeds", free_race},
    {"pool.options_refused", "no pool is created with invalid options", options_refused},
    {"pool.other_device", "queues of another device may be told to use a block, and nothing else",
     other_device},
    {"pool.cached_only", "a request for cached memory never takes more from the driver",
     cached_only_in_both},
    {"pool.warm", "prepared blocks need no driver call, and all or nothing is prepared",
     warm_in_both},
    {"pool.trim", "a trim releases free memory and leaves live memory alone", trim_in_both},
    {"pool.counters", "every counter equals the sum of the calls", counters},
    {"pool.deterministic", "the same requests get the same addresses, whatever the device does",
     deterministic_in_both},
    {"pool.destroyed", "destroying a pool ends its blocks and its handle", destroyed_in_both},
    {"pool.device_closed", "closing a device ends its pools, whatever the state of their blocks",
     device_closed_in_both},
    {NULL, NULL, NULL},
};
