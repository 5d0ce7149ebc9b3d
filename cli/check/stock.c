/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stock.c: a pool with a model of what is in it.
 *
 * (1) The model changes when, and only when, a call has succeeded.
 * (2) After a call that failed everything is compared: how many blocks are live, how large they are
 *     and where, what they contain, and that the pool holds no more of the device's memory than
 *     before.
 * (3) The bytes that a pool says it holds are the bytes that its device says are held, at every
 *     look.
 * (4) Two live blocks never share a byte: each has a mark of its own at both ends.
 * (5) A free of a live block never fails, whatever else does.
 */
#include "case.h"

#include <string.h>

enum { EDGE = 512 }; /* bytes at each end of a block that carry its mark */

bool check_stats(struct check *check, vram_pool *pool, vram_pool_stats *stats) {
    *stats = (vram_pool_stats){.size = sizeof *stats};
    return check_ok(check, vram_pool_stats_get(pool, stats), CHECK_AT("vram_pool_stats_get"));
}

bool check_trim(struct check *check, struct check_stock *stock, vram_pool_stats *stats) {
    uint64_t deadline = check_now() + CHECK_DEADLINE_NS / 3;
    for (;;) {
        CHECK_STOCK_OK(check, stock, vram_pool_trim(stock->pool, NULL, NULL));
        CHECK_TRY(check_stats(check, stock->pool, stats));
        if (stats->reserved_bytes == 0 || check_driver_failed(check)) {
            return true;
        }
        CHECK_THAT(check, check_now() < deadline);
        check_sleep(1000000);
    }
}

bool check_stock_at(struct check *check, struct check_device *device,
                    const vram_pool_options *options, struct check_stock *stock,
                    struct check_place place) {
    vram_pool *canary = (vram_pool *)(uintptr_t)CHECK_CANARY, *given = canary;
    vram_memory_info before = {.size = sizeof before}, after = {.size = sizeof after};

    device->unledgered = true;
    CHECK_TRY(check_ok(check, vram_memory_info_get(device->device, &before), place));
    if (!check_ok(check, vram_pool_create(device->device, options, &given), place)) {
        check_that(check, given == canary, place);
        if (vram_memory_info_get(device->device, &after) == VRAM_OK) {
            check_equal(check, after.held_bytes, before.held_bytes, place);
        }
        return false;
    }
    memset(stock, 0, sizeof *stock);
    stock->device = device;
    stock->pool = given;
    stock->foreign = options != NULL && options->provider != NULL;
    return true;
}

/* ------------------------------------------------------------------ contents */

static uint64_t edge_of(const struct check_block *block) {
    return block->size < EDGE ? block->size / 4 * 4 : EDGE;
}

/* The last whole word of the block, counted from its start. */
static uint64_t tail_of(const struct check_block *block) {
    return block->size / 4 * 4 - edge_of(block);
}

static vram_status write_mark(const struct check_block *block) {
    uint64_t edge = edge_of(block);
    if (edge == 0) {
        return VRAM_OK;
    }
    vram_status status = vram_queue_fill(block->queue, block->addr, block->mark, 4, edge);
    if (status == VRAM_OK && tail_of(block) > 0) {
        status = vram_queue_fill(block->queue, block->addr + tail_of(block), block->mark, 4, edge);
    }
    return status;
}

/* Submits the reading of both ends into 2 * EDGE bytes. */
static vram_status read_mark(const struct check_block *block, uint8_t *to) {
    uint64_t edge = edge_of(block);
    if (edge == 0) {
        return VRAM_OK;
    }
    vram_status status = vram_queue_download(block->queue, to, block->addr, edge);
    if (status == VRAM_OK) {
        status = vram_queue_download(block->queue, to + EDGE, block->addr + tail_of(block), edge);
    }
    return status;
}

static bool mark_is_there(struct check *check, const struct check_block *block,
                          const uint8_t *found, struct check_place place) {
    for (uint64_t at = 0; at < edge_of(block); at += 4) {
        uint32_t head, tail;
        memcpy(&head, found + at, 4);
        memcpy(&tail, found + EDGE + at, 4);
        if (head != block->mark || tail != block->mark) {
            return check_fail(check, place, "a block of %llu bytes holds 0x%x and 0x%x, not 0x%x",
                              (unsigned long long)block->size, (unsigned)head, (unsigned)tail,
                              (unsigned)block->mark);
        }
    }
    return true;
}

/* Reads all marks; a failing call ends it, as `errored` says: with the case, or in silence. */
static bool compare_contents(struct check *check, struct check_stock *stock, bool silent,
                             struct check_place place) {
    void *memory;
    if (stock->foreign || stock->count == 0) {
        return true;
    }
    CHECK_TRY(check_host(check, (size_t)stock->count * 2 * EDGE, &memory));
    uint8_t *found = memory;
    for (uint32_t i = 0; i < stock->count; i++) {
        vram_status status = read_mark(&stock->blocks[i], found + (size_t)i * 2 * EDGE);
        if (status != VRAM_OK) {
            return silent || check_ok(check, status, place);
        }
    }
    for (uint32_t i = 0; i < stock->count; i++) {
        vram_status status = vram_queue_wait(stock->blocks[i].queue, CHECK_DEADLINE_NS);
        if (status != VRAM_OK) {
            return silent || check_ok(check, status, place);
        }
        CHECK_TRY(mark_is_there(check, &stock->blocks[i], found + (size_t)i * 2 * EDGE, place));
    }
    return true;
}

/* ------------------------------------------------------------------ counters */

static bool compare_block(struct check *check, struct check_stock *stock,
                          const struct check_block *block, struct check_place place) {
    vram_block_info info = {.size = sizeof info};
    if (vram_block_info_get(block->addr, &info) != VRAM_OK) {
        return check_fail(check, place, "a live block of %llu bytes is not known",
                          (unsigned long long)block->size);
    }
    CHECK_TRY(check_equal(check, info.addr, block->addr, place));
    CHECK_TRY(check_equal(check, info.requested_bytes, block->size, place));
    CHECK_TRY(check_that(check, info.held_bytes >= block->size && info.held_bytes > 0, place));
    return check_that(check, info.pool == stock->pool, place);
}

static bool compare_counters(struct check *check, struct check_stock *stock,
                             struct check_place place) {
    vram_pool_stats stats;
    vram_memory_info memory = {.size = sizeof memory};
    uint64_t held = 0;

    CHECK_TRY(check_stats(check, stock->pool, &stats));
    CHECK_TRY(check_equal(check, stats.live_blocks, stock->count, place));
    CHECK_TRY(check_equal(check, stats.requested_bytes, stock->requested_bytes, place));
    CHECK_TRY(check_equal(check, stats.allocs - stats.frees, stats.live_blocks, place));
    for (uint32_t i = 0; i < stock->count; i++) {
        vram_block_info info = {.size = sizeof info};
        CHECK_TRY(compare_block(check, stock, &stock->blocks[i], place));
        CHECK_TRY(check_ok(check, vram_block_info_get(stock->blocks[i].addr, &info), place));
        held += info.held_bytes;
    }
    CHECK_TRY(check_equal(check, stats.allocated_bytes, held, place));
    CHECK_TRY(check_that(check, stats.allocated_bytes + stats.cached_bytes <= stats.reserved_bytes,
                         place));
    CHECK_TRY(check_that(check, stats.peak_requested_bytes >= stats.requested_bytes, place));
    CHECK_TRY(check_that(check, stats.peak_allocated_bytes >= stats.allocated_bytes, place));
    CHECK_TRY(check_that(check, stats.peak_reserved_bytes >= stats.reserved_bytes, place));
    if (!stock->foreign && vram_memory_info_get(stock->device->device, &memory) == VRAM_OK) {
        CHECK_TRY(check_that(check, memory.held_bytes >= stats.reserved_bytes, place)); /* (3) */
        CHECK_TRY(check_that(check, memory.held_peak_bytes >= memory.held_bytes, place));
    }
    return true;
}

bool check_stock_verify_at(struct check *check, struct check_stock *stock,
                           struct check_place place) {
    CHECK_TRY(compare_counters(check, stock, place));
    return compare_contents(check, stock, false, place);
}

bool check_stock_failed(struct check *check, struct check_stock *stock, struct check_place place) {
    if (compare_counters(check, stock, place)) {
        compare_contents(check, stock, true, place);
    }
    return false;
}

/* ------------------------------------------------------------ taking, giving */

/* Keeps (2) for the pool's hunger. */
static bool no_more_held(struct check *check, struct check_stock *stock, uint64_t reserved,
                         struct check_place place) {
    vram_pool_stats stats;
    CHECK_TRY(check_stats(check, stock->pool, &stats));
    if (stats.reserved_bytes > reserved) {
        return check_fail(check, place, "the pool holds %llu bytes after a failure, %llu before it",
                          (unsigned long long)stats.reserved_bytes, (unsigned long long)reserved);
    }
    return true;
}

bool check_adopt_at(struct check *check, struct check_stock *stock, uint64_t size,
                    vram_queue *queue, vram_addr addr, struct check_place place) {
    CHECK_TRY(check_that(check, stock->count < CHECK_STOCK_MAX, place));
    struct check_block *block = &stock->blocks[stock->count++];
    *block = (struct check_block){addr, size, queue, 0xB10C0000u + ++stock->last_mark};
    stock->requested_bytes += size;
    CHECK_TRY(compare_block(check, stock, block, place));
    if (stock->foreign) {
        return true;
    }
    return check_ok(check, write_mark(block), place);
}

bool check_take_at(struct check *check, struct check_stock *stock, uint64_t size, vram_queue *queue,
                   const vram_alloc_options *options, vram_addr *addr, struct check_place place) {
    vram_addr given = CHECK_CANARY;
    vram_pool_stats before;

    CHECK_TRY(check_that(check, stock->count < CHECK_STOCK_MAX, place));
    CHECK_TRY(check_stats(check, stock->pool, &before));
    vram_status status = options == NULL
                             ? vram_alloc(stock->pool, size, queue, &given)
                             : vram_alloc_with(stock->pool, size, queue, options, &given);
    if (!check_ok(check, status, place)) {
        check_equal(check, given, CHECK_CANARY, place);
        no_more_held(check, stock, before.reserved_bytes, place);
        return check_stock_failed(check, stock, place);
    }
    *addr = given;
    uint64_t align = options != NULL && options->alignment != 0 ? options->alignment : 512;
    CHECK_TRY(check_adopt_at(check, stock, size, queue, given, place));
    return check_equal(check, given % align, 0, place);
}

static uint32_t find(const struct check_stock *stock, vram_addr addr) {
    uint32_t at = 0;
    while (at < stock->count && stock->blocks[at].addr != addr) {
        at++;
    }
    return at;
}

bool check_give_at(struct check *check, struct check_stock *stock, vram_addr addr,
                   vram_queue *queue, struct check_place place) {
    uint32_t at = find(stock, addr);
    CHECK_TRY(check_that(check, at < stock->count, place));
    vram_status status = vram_free(addr, queue);
    if (status != VRAM_OK) { /* (5) */
        return check_fail(check, place, "a free of a live block failed: %s",
                          vram_status_name(status));
    }
    stock->requested_bytes -= stock->blocks[at].size;
    stock->blocks[at] = stock->blocks[--stock->count];
    return true;
}

/* The head of the block, which both sizes have, must be as it was. */
static bool compare_head(struct check *check, const struct check_block *block, uint64_t bytes,
                         struct check_place place) {
    void *memory;
    CHECK_TRY(check_host(check, EDGE, &memory));
    CHECK_TRY(
        check_ok(check, vram_queue_download(block->queue, memory, block->addr, bytes), place));
    CHECK_TRY(check_ok(check, vram_queue_wait(block->queue, CHECK_DEADLINE_NS), place));
    for (uint64_t at = 0; at < bytes; at += 4) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)memory + at, 4);
        CHECK_TRY(check_equal(check, word, block->mark, place));
    }
    return true;
}

bool check_resize_at(struct check *check, struct check_stock *stock, vram_addr addr, uint64_t size,
                     bool *done, struct check_place place) {
    uint32_t at = find(stock, addr);
    vram_pool_stats before;
    CHECK_TRY(check_that(check, at < stock->count, place));
    CHECK_TRY(check_stats(check, stock->pool, &before));
    struct check_block *block = &stock->blocks[at];
    uint64_t old = edge_of(block), old_size = block->size;
    vram_status status = vram_resize(addr, size, block->queue);
    *done = status == VRAM_OK;
    if (status == VRAM_ERR_BUSY && size > old_size) {
        return compare_counters(check, stock, place);
    }
    if (!check_ok(check, status, place)) {
        check_that(check, size > old_size, place); /* shrinking never fails */
        no_more_held(check, stock, before.reserved_bytes, place);
        return check_stock_failed(check, stock, place);
    }
    stock->requested_bytes += size - old_size;
    block->size = size;
    CHECK_TRY(compare_block(check, stock, block, place));
    if (stock->foreign) {
        return true;
    }
    uint64_t edge = edge_of(block);
    CHECK_TRY(compare_head(check, block, edge < old ? edge : old, place));
    return check_ok(check, write_mark(block), place);
}
