/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_safety.c: pools with safety modes: zeros where they are promised, and writes to where
 * nobody may write found out.
 */
#include "case.h"

#include <time.h>

enum { BYTES = 3000 };

static bool begin(struct check *check, uint32_t flags, struct check_device **device,
                  vram_queue **queue, vram_pool **pool) {
    vram_pool_options options = {
        .size = sizeof options, .flags = flags, .quarantine_bytes = UINT64_C(1) << 20};
    CHECK_OPEN(check, device);
    (*device)->unledgered = true;
    CHECK_QUEUE(check, *device, queue);
    CHECK_OK(check, vram_pool_create((*device)->device, &options, pool));
    return true;
}

/* All of [addr, addr + BYTES) is `value` for later work of the queue. */
static bool holds(struct check *check, vram_queue *queue, vram_addr addr, uint8_t value) {
    void *memory;
    CHECK_TRY(check_host(check, BYTES, &memory));
    const uint8_t *found = memory;
    CHECK_OK(check, vram_queue_download(queue, memory, addr, BYTES));
    CHECK_WAIT(check, queue);
    for (uint32_t i = 0; i < BYTES; i++) {
        CHECK_EQUAL(check, found[i], value);
    }
    return true;
}

static bool zero_alloc(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    CHECK_TRY(begin(check, VRAM_POOL_ZERO_ALLOC, &device, &queue, &pool));
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(check, vram_alloc(pool, BYTES, i == 0 ? NULL : queue, &addr));
        CHECK_TRY(holds(check, queue, addr, 0));
        CHECK_OK(check, vram_queue_fill(queue, addr, 0xEE, 1, BYTES));
        CHECK_OK(check, vram_free(addr, queue));
    }
    return true;
}

static bool zero_free(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr, again;
    CHECK_TRY(begin(check, VRAM_POOL_ZERO_FREE, &device, &queue, &pool));
    CHECK_OK(check, vram_alloc(pool, BYTES, queue, &addr));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(check, vram_queue_fill(queue, addr, 0xEE, 1, BYTES));
        CHECK_OK(check, vram_free(addr, queue));
        CHECK_OK(check, vram_alloc(pool, BYTES, queue, &again));
        if (again == addr && check_pools()) {
            CHECK_TRY(holds(check, queue, again, 0));
        }
        addr = again;
    }
    return true;
}

/* An injected fault kept the pool from checking a block, and that was counted. */
static bool is_unseen(const struct check *check, const vram_pool_stats *before,
                      const vram_pool_stats *after) {
    return check->target->faulty && after->unchecked_blocks == before->unchecked_blocks + 1;
}

/* A call that met a damaged block must report it, unless a fault kept it from checking. */
static bool is_told(struct check *check, vram_pool *pool, const vram_pool_stats *before,
                    vram_status status) {
    vram_pool_stats after;
    CHECK_TRY(check_stats(check, pool, &after));
    bool unseen = is_unseen(check, before, &after);
    CHECK_EQUAL(check, after.damaged_blocks - before->damaged_blocks, !unseen);
    CHECK_EQUAL(check, after.unchecked_blocks - before->unchecked_blocks, unseen);
    CHECK_STATUS(check, status, unseen ? VRAM_OK : VRAM_ERR_CORRUPT);
    return true;
}

static bool red_zones(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    vram_pool_stats before, stats;
    CHECK_TRY(begin(check, VRAM_POOL_RED_ZONES, &device, &queue, &pool));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(check, vram_alloc(pool, BYTES, queue, &addr));
        CHECK_OK(check, vram_queue_fill(queue, addr, 0xEE, 1, BYTES));
        CHECK_TRY(check_stats(check, pool, &before));
        if (i == 0) {
            CHECK_OK(check, vram_free(addr, queue));
            CHECK_TRY(check_stats(check, pool, &stats));
            CHECK_EQUAL(check, stats.damaged_blocks, 0);
            CHECK_EQUAL(check, stats.unchecked_blocks, is_unseen(check, &before, &stats));
            continue;
        }
        CHECK_OK(check, vram_queue_fill(queue, i == 1 ? addr + BYTES : addr - 1, 0x11, 1, 1));
        CHECK_TRY(is_told(check, pool, &before, vram_free(addr, queue)));
        CHECK_STATUS(check, vram_free(addr, queue), VRAM_ERR_INVALID);
    }
    CHECK_TRY(check_stats(check, pool, &stats));
    CHECK_EQUAL(check, stats.live_blocks, 0);
    return true;
}

static bool waits(struct check *check, vram_queue *queue) {
    CHECK_WAIT(check, queue);
    return true;
}

/* Work on memory that was freed is nobody's to wait for but ours: it is over before the case is,
   also when a wait has failed. */
static bool when_over(vram_queue *queue, bool good) {
    const struct timespec moment = {.tv_nsec = 20000};
    for (int i = 0; i < 100000 && vram_queue_poll(queue) == VRAM_ERR_NOT_READY; i++) {
        nanosleep(&moment, NULL);
    }
    return good;
}

static bool poison(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    vram_pool_stats before, stats;
    CHECK_TRY(begin(check, VRAM_POOL_POISON, &device, &queue, &pool));
    CHECK_OK(check, vram_alloc(pool, BYTES, queue, &addr));
    CHECK_TRY(holds(check, queue, addr, 0xCD));
    CHECK_TRY(check_stats(check, pool, &before));
    CHECK_OK(check, vram_free(addr, queue));
    CHECK_TRY(check_stats(check, pool, &stats));
    /* Without its poison the block is not kept. */
    if (is_unseen(check, &before, &stats)) {
        CHECK_EQUAL(check, stats.quarantine_bytes, 0);
        return true;
    }
    CHECK_TRY(when_over(queue, holds(check, queue, addr, 0xDD)));
    CHECK_THAT(check, stats.quarantine_bytes >= BYTES);
    CHECK_OK(check, vram_queue_fill(queue, addr + 7, 0x11, 1, 1)); /* too late */
    CHECK_TRY(when_over(queue, waits(check, queue)));
    CHECK_TRY(is_told(check, pool, &stats, vram_pool_trim(pool, NULL, NULL)));
    CHECK_TRY(check_stats(check, pool, &stats));
    CHECK_EQUAL(check, stats.quarantine_bytes, 0);
    return true;
}

const struct check_case check_cases_safety[] = {
    {"safety.zero_alloc", "new blocks are filled with zeros if the pool is asked to", zero_alloc},
    {"safety.zero_free", "freed memory is filled with zeros after the work that used it",
     zero_free},
    {"safety.red_zones", "a byte written next to a block is found when the block is freed",
     red_zones},
    {"safety.poison", "a byte written after a free is found when the block leaves quarantine",
     poison},
    {NULL, NULL, NULL},
};
