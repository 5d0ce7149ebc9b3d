/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_entry.c: vram_alloc and vram_free enter the contest, each thread with a queue of its own.
 */
#include "bench/loop.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <vram/pool.h>

struct pool_state {
    vram_device *device; /* a handle of its own */
    vram_pool *pool;
};

/* Through pointers, as from a shared library: the peers are called so too. */
static vram_status (*volatile pool_alloc)(vram_pool *pool, uint64_t size, vram_queue *queue,
                                          vram_addr *addr) = vram_alloc;
static vram_status (*volatile pool_free)(vram_addr addr, vram_queue *queue) = vram_free;

static void keep_reason(char reason[REASON_MAX], vram_status status) {
    snprintf(reason, REASON_MAX, "%s", failure_text(status));
}

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    const struct pool_state *state = worker->entry->state;
    vram_addr addr = 0;
    vram_status status = pool_alloc(state->pool, bytes, worker->native, &addr);
    if (__builtin_expect(status != VRAM_OK, 0)) {
        keep_reason(worker->reason, status);
        return 0;
    }
    return addr;
}

/* In a handover this runs on another thread and frees on the queue that the block was made for. */
static inline bool give(struct worker *worker, uint64_t addr) {
    vram_status status = pool_free(addr, worker->native);
    if (__builtin_expect(status != VRAM_OK, 0)) {
        keep_reason(worker->reason, status);
        return false;
    }
    return true;
}

LOOP_FUNCTIONS(take, give)

static void close_entry(struct entry *entry) {
    struct pool_state *state = entry->state;
    if (state != NULL) {
        vram_pool_destroy(state->pool);
        vram_device_close(state->device);
        free(state);
    }
}

static bool open_entry(struct entry *entry) {
    struct pool_state *state = calloc(1, sizeof *state);
    entry->state = state;
    if (state == NULL) {
        snprintf(entry->reason, sizeof entry->reason, "out of host memory");
        return false;
    }
    vram_status status = vram_device_open(entry->context, entry->device_index, &state->device);
    if (status == VRAM_OK) {
        status = vram_pool_create(state->device, NULL, &state->pool);
    }
    if (status != VRAM_OK) {
        keep_reason(entry->reason, status);
    }
    return status == VRAM_OK;
}

/* The side that frees in a handover is given the queue of the other one. */
static bool begin_worker(struct worker *worker) {
    const struct pool_state *state = worker->entry->state;
    vram_queue *queue = NULL;
    if (worker->native != NULL) {
        return true;
    }
    vram_status status = vram_queue_create(state->device, NULL, &queue);
    if (status != VRAM_OK) {
        keep_reason(worker->reason, status);
    }
    worker->native = queue;
    return status == VRAM_OK;
}

static void end_worker(struct worker *worker) {
    vram_queue_destroy(worker->native);
}

static vram_value driver_calls(struct entry *entry) {
    const struct pool_state *state = entry->state;
    vram_pool_stats stats = {.size = sizeof stats};
    bool known = vram_pool_stats_get(state->pool, &stats) == VRAM_OK;
    uint64_t calls = stats.driver_creates + stats.driver_releases + stats.driver_maps +
                     stats.driver_unmaps + stats.driver_accesses + stats.driver_allocs +
                     stats.driver_frees + stats.driver_markers;
    return (vram_value){.value = calls, .known = known};
}

const struct allocator allocator_pool = {.open = open_entry,
                                         .close = close_entry,
                                         .worker_begin = begin_worker,
                                         .worker_end = end_worker,
                                         .driver_calls = driver_calls,
                                         LOOP_FIELDS};
