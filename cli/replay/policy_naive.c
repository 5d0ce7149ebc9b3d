/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_naive.c: one driver call for each operation, as programs without an allocator do it.
 */
#include "policy.h"

#include <stdlib.h>

struct naive {
    struct place *place;
    uint64_t granule;        /* what the driver rounds to; 1 when it does not say */
    uint64_t reserved_bytes; /* held from the driver */
    struct policy_counts counts;
};

static vram_status begin(struct place *place, void **state) {
    struct naive *naive = calloc(1, sizeof *naive);
    if (naive == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    naive->place = place;
    naive->granule = place->info.alloc_granule.known ? place->info.alloc_granule.value : 1;
    *state = naive;
    return VRAM_OK;
}

/* What the driver takes for a block. The device has given it, so the sum cannot overflow. */
static uint64_t rounded(const struct naive *naive, uint64_t bytes) {
    return (bytes + naive->granule - 1) / naive->granule * naive->granule;
}

static vram_status alloc(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block) {
    struct naive *naive = state;
    (void)queue;
    if (bytes == 0) {
        return VRAM_OK;
    }
    naive->counts.calls[POLICY_CALL_ALLOC]++;
    vram_status status =
        vram_device_alloc(naive->place->device, bytes, VRAM_MEMORY_DEVICE, &block->addr);
    if (status == VRAM_OK) {
        naive->reserved_bytes += rounded(naive, bytes);
        if (naive->reserved_bytes > naive->counts.peak_reserved_bytes) {
            naive->counts.peak_reserved_bytes = naive->reserved_bytes;
        }
    }
    return status;
}

/* A driver's free waits for the device, or must not be called before: here the wait is visible. */
static vram_status release(void *state, struct replay_block *block, uint32_t queue) {
    struct naive *naive = state;
    if (block->addr == 0) {
        return VRAM_OK;
    }
    vram_status status = place_wait(naive->place, block->used_queues | UINT64_C(1) << block->queue |
                                                      UINT64_C(1) << queue);
    if (status == VRAM_OK) {
        naive->counts.calls[POLICY_CALL_FREE]++;
        status = vram_device_free(naive->place->device, block->addr);
    }
    naive->reserved_bytes -= status == VRAM_OK ? rounded(naive, block->bytes) : 0;
    return status;
}

static vram_status counts(void *state, struct policy_counts *to) {
    *to = ((struct naive *)state)->counts;
    to->reserved_bytes = ((struct naive *)state)->reserved_bytes;
    return VRAM_OK;
}

/* What a failed pass left behind goes with the device. */
static void end(void *state) {
    free(state);
}

const struct policy policy_naive = {
    .name = "naive",
    .begin = begin,
    .alloc = alloc,
    .free = release,
    .counts = counts,
    .end = end,
};
