/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_async.c: a model of the pool behind cudaMallocAsync, as PyTorch's backend of that name
 * sets it up: it keeps what it has (release threshold: no limit) and may reuse across streams.
 *
 * The driver's source is not public. The rules were read off the addresses and sizes that a pool
 * of driver 580 gave on an H200 for the six traces: with no work on the stream the model makes the
 * same choices for thousands of operations. What must hold:
 *  (1) Sizes are rounded up to 512 bytes. Memory comes in pages of 32 MiB, which follow each other
 *      in one range of addresses; blocks lie across pages.
 *  (2) A freed block is pending: its own queue may have it at once, in stream order. Pending
 *      neighbours of one queue join. The smallest chunk that fits is taken.
 *  (3) When none fits, pending chunks whose work has completed become idle and join idle
 *      neighbours; any queue may have them, the smallest that fits. The last chunk of the range is
 *      taken last.
 *  (4) Then another queue's pending chunk is taken, behind a wait on the device.
 *  (5) Then the range grows by as many pages as are missing: idle ones from elsewhere are moved
 *      first, new ones are created after that.
 *  (6) When the driver refuses, the pool waits for all queues and tries (3) and (5) once more.
 *
 * Traces do not tell when the device was done with a block. A queue holds about a thousand launches
 * and busy programs fill it, so a pending chunk counts as completed a thousand operations after
 * the first free in it, and not before its queue has really come so far.
 */
#include "page_range.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

enum { LAG_OPERATIONS = 1024 };

static const uint64_t round_bytes = 512;
static const uint64_t page_bytes = 32 * MIB;

struct async {
    struct place *place;
    struct size_tree pending;  /* by the queue that they were freed on */
    struct size_tree idle;     /* all as of queue 0 */
    struct page_range *ranges; /* newest first: that one grows */
    struct chunk *last;        /* of the newest range; NULL: nothing is mapped there */
    uint64_t operation;        /* number of the current one */
    struct policy_counts counts;
};

/* ------------------------------------------------------------------- free chunks */

static struct size_tree *tree_of(struct async *all, const struct chunk *chunk) {
    return chunk->pending ? &all->pending : &all->idle;
}

static struct chunk *cut(struct async *all, struct chunk *chunk, uint64_t bytes) {
    struct chunk *rest = chunk_cut(chunk, bytes);
    if (rest != NULL && all->last == chunk) {
        all->last = rest;
    }
    return rest;
}

static bool joins(const struct chunk *chunk, const struct chunk *other) {
    return other != NULL && !other->taken && !other->unmapped && other->pending == chunk->pending &&
           other->node.queue == chunk->node.queue;
}

/* The oldest free counts for the lag, the last point for what really has to pass. */
static void join_behind(struct async *all, struct chunk *chunk) {
    struct chunk *behind = chunk->behind;
    chunk->point = behind->point.value > chunk->point.value ? behind->point : chunk->point;
    chunk->freed_at = behind->freed_at < chunk->freed_at ? behind->freed_at : chunk->freed_at;
    all->last = all->last == behind ? chunk : all->last;
    chunk_join(chunk);
}

/* Joins a chunk that is in no tree to its neighbours, and puts it into its tree. */
static void put_joined(struct async *all, struct chunk *chunk) {
    struct size_tree *tree = tree_of(all, chunk);
    if (joins(chunk, chunk->behind)) {
        size_tree_remove(tree, &chunk->behind->node);
        join_behind(all, chunk);
    }
    if (joins(chunk, chunk->before)) {
        chunk = chunk->before;
        size_tree_remove(tree, &chunk->node);
        join_behind(all, chunk);
    }
    size_tree_add(tree, &chunk->node);
}

/* Keeps (3). With `all_done`, the queues have been waited for. */
static void settle(struct async *all, bool all_done) {
    struct size_node *next;
    for (struct size_node *node = size_tree_next(&all->pending, NULL); node != NULL; node = next) {
        struct chunk *chunk = (struct chunk *)node;
        next = size_tree_next(&all->pending, node);
        if (all_done || (chunk->freed_at + LAG_OPERATIONS <= all->operation &&
                         vram_point_poll(chunk->point) == VRAM_OK)) {
            size_tree_remove(&all->pending, node);
            chunk->pending = false;
            node->queue = 0;
            put_joined(all, chunk);
        }
    }
}

/* --------------------------------------------------------------------- growing */

/* Unmaps up to `most` pages of an idle chunk, which are left as unmapped addresses. */
static uint32_t pages_take(struct async *all, struct chunk *chunk, uint32_t most,
                           vram_physical **pages) {
    struct page_range *range = chunk->segment;
    vram_addr first, end = chunk->node.addr + chunk->node.bytes;
    uint32_t count = page_range_whole(range, chunk, &first);
    count = page_range_unmap(range, first, count < most ? count : most, pages);
    if (count == 0) {
        return 0;
    }
    size_tree_remove(&all->idle, &chunk->node);
    struct chunk *middle = chunk_carve(chunk, first, count * page_bytes);
    if (middle == NULL) { /* no host memory: nobody gets these addresses any more */
        chunk->taken = true;
        return count;
    }
    if (middle != chunk) {
        size_tree_add(&all->idle, &chunk->node);
    }
    if (first + count * page_bytes < end) {
        size_tree_add(&all->idle, &middle->behind->node);
    }
    middle->unmapped = true;
    return count;
}

/* Idle pages from anywhere but the end of the range, smallest chunks first. */
static uint32_t pages_gather(struct async *all, uint32_t most, vram_physical **pages) {
    uint32_t count = 0;
    struct size_node *next;
    for (struct size_node *node = size_tree_fit(&all->idle, 0, page_bytes);
         node != NULL && count < most; node = next) {
        struct chunk *chunk = (struct chunk *)node;
        next = size_tree_next(&all->idle, node);
        if (chunk != all->last) {
            count += pages_take(all, chunk, most - count, pages + count);
        }
    }
    return count;
}

/* A range for twice the device's memory, since moved pages leave unmapped addresses behind. */
static vram_status make_range(struct async *all, uint64_t bytes) {
    uint64_t pages = all->place->info.memory_bytes.value / page_bytes * 2 + 2;
    struct page_range *range;
    if (bytes > pages * page_bytes) {
        return VRAM_ERR_DEVICE_MEMORY;
    }
    vram_status status =
        page_range_create(all->place, &all->counts, page_bytes, (uint32_t)pages, &range);
    if (status == VRAM_OK) {
        range->next = all->ranges;
        all->ranges = range;
        all->last = NULL;
    }
    return status;
}

/* Maps pages behind the last chunk, and joins them to it if it is idle. */
static vram_status map_behind(struct async *all, uint32_t count) {
    struct page_range *range = all->ranges;
    const struct chunk *last = all->last;
    vram_addr addr = last != NULL ? last->node.addr + last->node.bytes : range->base;
    vram_physical **pages = calloc(count, sizeof *pages);
    struct chunk *chunk = chunk_create(addr, count * page_bytes, 0);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    uint32_t moved = 0;
    if (pages != NULL && chunk != NULL) {
        moved = pages_gather(all, count, pages);
        status = page_range_map(range, addr, count, pages, moved);
    }
    if (status != VRAM_OK) {
        while (moved > 0) {
            page_range_release(range, pages[--moved]);
        }
        free(pages);
        free(chunk);
        return status;
    }
    free(pages);
    chunk->segment = range;
    chunk->before = all->last;
    *(all->last != NULL ? &all->last->behind : &range->first) = chunk;
    all->last = chunk;
    put_joined(all, chunk);
    return VRAM_OK;
}

/* Bytes at the end of the range that are idle. */
static uint64_t idle_end(const struct async *all) {
    const struct chunk *last = all->last;
    return last != NULL && !last->taken && !last->pending ? last->node.bytes : 0;
}

/* Keeps (5): the last chunk is idle and has `bytes` after it. */
static vram_status grow(struct async *all, uint64_t bytes) {
    vram_status status = VRAM_OK;
    uint64_t pages = (bytes - idle_end(all) + page_bytes - 1) / page_bytes;
    const struct page_range *range = all->ranges;
    const struct chunk *last = all->last;
    uint64_t used =
        last != NULL && range != NULL ? last->node.addr + last->node.bytes - range->base : 0;
    if (range == NULL || used / page_bytes + pages > range->page_count) {
        status = make_range(all, bytes);
        pages = (bytes + page_bytes - 1) / page_bytes;
    }
    return status == VRAM_OK ? map_behind(all, (uint32_t)pages) : status;
}

/* ----------------------------------------------------------------- operations */

/* The smallest idle chunk that fits, and the last one only when no other does. */
static struct size_node *idle_fit(struct async *all, uint64_t bytes) {
    struct size_node *node = size_tree_fit(&all->idle, 0, bytes);
    if (node != NULL && (struct chunk *)node == all->last) {
        struct size_node *next = size_tree_next(&all->idle, node);
        node = next != NULL ? next : node;
    }
    return node;
}

/* Keeps (4): another queue's chunk, after which `queue` waits for that one on the device. */
static vram_status other_fit(struct async *all, uint64_t bytes, uint32_t queue,
                             struct size_node **found) {
    for (uint32_t i = 0; i < all->place->queue_count; i++) {
        struct size_node *node = size_tree_fit(&all->pending, i, bytes);
        if (node != NULL && (*found == NULL || node->bytes < (*found)->bytes)) {
            *found = node;
        }
    }
    if (*found == NULL) {
        return VRAM_OK;
    }
    all->counts.calls[POLICY_CALL_MARKER]++;
    return place_order(all->place, (*found)->queue, queue);
}

/* A chunk by (2) to (5), still in its tree. */
static vram_status find(struct async *all, uint64_t bytes, uint32_t queue,
                        struct size_node **found) {
    *found = size_tree_fit(&all->pending, queue, bytes);
    if (*found == NULL) {
        settle(all, false);
        *found = idle_fit(all, bytes);
    }
    vram_status status = *found == NULL ? other_fit(all, bytes, queue, found) : VRAM_OK;
    if (status == VRAM_OK && *found == NULL) {
        status = grow(all, bytes);
        *found = status == VRAM_OK ? &all->last->node : NULL;
    }
    return status;
}

/* Keeps (6). */
static vram_status find_after_waiting(struct async *all, uint64_t bytes, struct size_node **found) {
    vram_status status = place_wait(all->place, UINT64_MAX);
    if (status != VRAM_OK) {
        return status;
    }
    settle(all, true);
    *found = idle_fit(all, bytes);
    if (*found == NULL) {
        status = grow(all, bytes);
        *found = status == VRAM_OK ? &all->last->node : NULL;
    }
    return status;
}

static vram_status alloc(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block) {
    struct async *all = state;
    struct size_node *node;
    if (bytes == 0) {
        return VRAM_OK;
    }
    if (bytes > UINT64_MAX - page_bytes) {
        return VRAM_ERR_OVERFLOW;
    }
    all->operation++;
    bytes = (bytes + round_bytes - 1) / round_bytes * round_bytes;
    vram_status status = find(all, bytes, queue, &node);
    if (vram_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) {
        status = find_after_waiting(all, bytes, &node);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct chunk *chunk = (struct chunk *)node, *rest = NULL;
    size_tree_remove(tree_of(all, chunk), node);
    if (node->bytes > bytes && (rest = cut(all, chunk, bytes)) == NULL) {
        put_joined(all, chunk);
        return VRAM_ERR_HOST_MEMORY;
    }
    if (rest != NULL) {
        size_tree_add(tree_of(all, rest), &rest->node);
    }
    chunk->taken = true;
    block->addr = node->addr;
    block->note = chunk;
    return VRAM_OK;
}

static vram_status release(void *state, struct replay_block *block, uint32_t queue) {
    struct async *all = state;
    struct chunk *chunk = block->note;
    uint64_t users = block->used_queues | UINT64_C(1) << block->queue | UINT64_C(1) << queue;
    vram_status status = VRAM_OK;
    if (chunk == NULL) {
        return VRAM_OK;
    }
    for (uint32_t i = 0; i < all->place->queue_count && status == VRAM_OK; i++) {
        status = users & UINT64_C(1) << i ? place_order(all->place, i, queue) : VRAM_OK;
    }
    chunk->taken = false;
    chunk->pending = true;
    chunk->node.queue = queue;
    chunk->freed_at = ++all->operation;
    chunk->point = (vram_point){.value = 0};
    if (status == VRAM_OK && users & all->place->busy_queues) {
        all->counts.calls[POLICY_CALL_MARKER]++;
        status = vram_queue_mark(all->place->queues[queue], &chunk->point);
    }
    put_joined(all, chunk);
    return status;
}

/* ---------------------------------------------------------------------- policy */

static vram_status begin(struct place *place, void **state) {
    struct async *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    all->place = place;
    *state = all;
    return VRAM_OK;
}

static vram_status counts(void *state, struct policy_counts *to) {
    *to = ((struct async *)state)->counts;
    return VRAM_OK;
}

static void end(void *state) {
    struct async *all = state;
    place_wait(all->place, UINT64_MAX);
    for (struct page_range *next; all->ranges != NULL; all->ranges = next) {
        next = all->ranges->next;
        page_range_destroy(all->ranges);
    }
    free(all);
}

const struct policy policy_async = {
    .name = "async",
    .needs_vmm = true,
    .begin = begin,
    .alloc = alloc,
    .free = release,
    .counts = counts,
    .end = end,
};
