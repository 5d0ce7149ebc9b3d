/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_shortage.c: pools when memory is short: what is free is moved to where it is needed, what
 * threads and queues keep is fetched back, and a refusal changes nothing.
 *
 * A device is made short by taking nearly all of its memory beforehand. That is done on simulated
 * devices only: a real one has other users.
 */
#include "case.h"

#include <string.h>

/* A pool on a device of which `granules` are left, all of which it may have. */
static bool begin(struct check *check, uint32_t granules, bool segments,
                  struct check_device **device, vram_queue **queue, struct check_stock *stock) {
    vram_limits whole = {.size = sizeof whole, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    vram_pool_options options = {.size = sizeof options, .limits = &whole};
    vram_addr ballast;

    options.flags = segments ? VRAM_POOL_SEGMENTS : 0;
    if (strcmp(check->info.backend, "sim") != 0) {
        return check_skip(check, "only a simulated device's memory may be used up");
    }
    CHECK_OPEN(check, device);
    CHECK_QUEUE(check, *device, queue);
    uint64_t granule = check_pool_granule(*device, segments);
    CHECK_ALLOC(check, *device, (*device)->info.memory_bytes.value - granules * granule, &ballast);
    CHECK_STOCK(check, *device, &options, stock);
    return true;
}

/* ------------------------------------------------------------------- moving */

/* When the library itself ran out of host memory, everything free went back to the driver and was
   taken anew: then nothing had to be moved. */
static bool was_cleaned(const vram_pool_stats *stats) {
    return stats->ladder_steps[VRAM_LADDER_CLEANUP] > 0;
}

/* Scattered free memory serves a large block before the pool grows, and no live block notices. */
static bool moves(struct check *check) {
    enum { PAIRS = 8 };
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[2 * PAIRS], large;
    vram_pool_stats before, after;

    CHECK_NEEDS_POOLS(check);
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    uint64_t granule = check_pool_granule(device, false);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        CHECK_TAKE(check, &stock, granule, queue, &addrs[i]);
    }
    for (uint32_t i = 0; i < 2 * PAIRS; i += 2) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_stats(check, stock.pool, &before));
    CHECK_TAKE(check, &stock, PAIRS / 2 * granule, queue, &large);
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_THAT(check, after.moved_handles > before.moved_handles ||
                          after.reserved_bytes > before.reserved_bytes || was_cleaned(&after));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* With no memory left to grow into, moving is the only way. */
static bool must_move(struct check *check) {
    enum { PAIRS = 4 };
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[2 * PAIRS], large;
    vram_pool_stats stats;

    CHECK_NEEDS_POOLS(check);
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_TRY(begin(check, 2 * PAIRS, false, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, false);
    for (uint32_t i = 0; i < 2 * PAIRS; i++) {
        CHECK_TAKE(check, &stock, granule, queue, &addrs[i]);
    }
    for (uint32_t i = 0; i < 2 * PAIRS; i += 2) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_TAKE(check, &stock, PAIRS * granule, queue, &large);
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.moved_handles > 0 || was_cleaned(&stats));
    CHECK_EQUAL(check, stats.reserved_bytes, 2 * PAIRS * granule);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* ----------------------------------------------------------- what others keep */

/* Memory that another queue has freed is waited for on the device, not on the host, and not
   skipped. */
static bool from_other_queue(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr addr, next;

    CHECK_TRY(begin(check, 4, segments, &device, &queue, &stock));
    CHECK_QUEUE(check, device, &other);
    uint64_t granule = check_pool_granule(device, segments);
    for (uint32_t round = 0; round < check_rounds(check, 10); round++) {
        CHECK_TAKE(check, &stock, 3 * granule, queue, &addr);
        CHECK_OK(check, vram_queue_fill(queue, addr, 0xDD, 1, 3 * granule));
        CHECK_GIVE(check, &stock, addr, queue);
        CHECK_TAKE(check, &stock, 3 * granule, other, &next);
        CHECK_WAIT(check, queue);
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_GIVE(check, &stock, next, other);
    }
    return true;
}

static bool from_other_queue_mapped(struct check *check) {
    return from_other_queue(check, false);
}

static bool from_other_queue_segments(struct check *check) {
    return from_other_queue(check, true);
}

struct hoarder {
    struct check_stock *stock;
    vram_queue *queue;
    uint64_t size;
};

/* Leaves a free block in this thread's cache for as long as the thread lives. */
static bool hoard(struct check *check, void *argument) {
    struct hoarder *hoarder = argument;
    vram_addr addrs[8];
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(check, vram_alloc(hoarder->stock->pool, hoarder->size, hoarder->queue, &addrs[i]));
    }
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(check, vram_free(addrs[i], hoarder->queue));
    }
    return true;
}

/* Small blocks of many sizes lie in the caches of this thread: they come together for a large
   one. */
static bool from_caches(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr large;

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, 2, false, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, false);
    for (uint32_t i = 1; i <= 6; i++) {
        struct hoarder hoarder = {&stock, queue, granule / 64 * i / 2 + 512};
        CHECK_TRY(hoard(check, &hoarder));
        CHECK_TRY(check_threads(check, 1, hoard, &hoarder, sizeof hoarder));
    }
    CHECK_WAIT(check, queue);
    CHECK_TAKE(check, &stock, 2 * granule, queue, &large);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* ------------------------------------------------------------------ refusals */

static bool refused(struct check *check, bool segments) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, second, none = CHECK_CANARY;
    vram_pool_stats before, after;

    CHECK_TRY(begin(check, 4, segments, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, segments);
    CHECK_TAKE(check, &stock, granule, queue, &addr);
    CHECK_TAKE(check, &stock, 2 * granule, queue, &second);
    CHECK_TRY(check_stats(check, stock.pool, &before));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, 2 * granule, queue, &none),
                            VRAM_ERR_DEVICE_MEMORY);
        CHECK_STATUS(check, vram_pool_warm(stock.pool, granule, 3, queue), VRAM_ERR_DEVICE_MEMORY);
    }
    CHECK_EQUAL(check, none, CHECK_CANARY);
    vram_oom_report report = {.size = sizeof report};
    CHECK_OK(check, vram_oom_report_get(stock.pool, &report));
    CHECK_THAT(check, report.status == VRAM_ERR_DEVICE_MEMORY && report.pool == stock.pool);
    /* What warming took in vain was given back. Without host memory that can wait until now. */
    CHECK_STOCK_OK(
        check, &stock,
        vram_pool_trim(stock.pool, CHECK_TRIM(.keep_bytes = before.reserved_bytes), NULL));
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_THAT(check, after.reserved_bytes == before.reserved_bytes || check_driver_failed(check));
    CHECK_GIVE(check, &stock, second, queue);
    CHECK_TAKE(check, &stock, 2 * granule, queue, &second); /* what was there is there again */
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

static bool refused_mapped(struct check *check) {
    return refused(check, false);
}

static bool refused_segments(struct check *check) {
    return refused(check, true);
}

/* What a callback has to let go of. */
struct luggage {
    vram_pool *pool;
    vram_addr addr;
};

static uint64_t let_go(void *user, const vram_oom_event *event) {
    struct luggage *luggage = user;
    vram_addr addr = luggage->addr;
    luggage->addr = 0;
    return addr && vram_free(addr, NULL) == VRAM_OK ? event->bytes : 0;
}

/* A callback lets go of a block, and the request that was short gets its memory. */
static bool by_callback(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct luggage luggage;
    vram_queue *queue;
    vram_addr addr;
    uint64_t id;

    CHECK_TRY(begin(check, 4, false, &device, &queue, &stock));
    uint64_t granule = check_pool_granule(device, false);
    luggage.pool = stock.pool;
    CHECK_OK(check, vram_alloc(stock.pool, 4 * granule, NULL, &luggage.addr));
    CHECK_OK(check, vram_oom_callback_add(device->device, let_go, &luggage, &id));
    CHECK_OK(check, vram_alloc(stock.pool, 3 * granule, queue, &addr));
    CHECK_EQUAL(check, luggage.addr, 0);
    CHECK_OK(check, vram_oom_callback_remove(device->device, id));
    CHECK_OK(check, vram_free(addr, queue));
    return true;
}

const struct check_case check_cases_shortage[] = {
    {"shortage.moves", "scattered free memory is joined without touching a live block", moves},
    {"shortage.must_move", "a full device serves a large block from scattered holes", must_move},
    {"shortage.other_queue", "memory that another queue just freed is used after its work",
     from_other_queue_mapped},
    {"shortage.other_queue_segments", "the same on segments", from_other_queue_segments},
    {"shortage.caches", "blocks in thread caches are used before a request is refused",
     from_caches},
    {"shortage.callback", "a callback frees a block for a request that ran out of memory",
     by_callback},
    {"shortage.refused", "a request that fails because memory ran out changes nothing",
     refused_mapped},
    {"shortage.refused_segments", "the same on segments", refused_segments},
    {NULL, NULL, NULL},
};
