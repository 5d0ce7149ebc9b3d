/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_vram.c: libvram's own pool, as it is by default, on all of the device: the simulated
 * devices of a replay have nobody to share with.
 */
#include "policy.h"

#include <stdlib.h>
#include <vram/limits.h>
#include <vram/oom.h>

struct pooled {
    struct place *place;
    vram_pool *pool;
};

/* The player submits nothing while it allocates: each allocation is a safe point. */
static vram_status allow_rebuild(vram_pool *pool) {
    const vram_ladder_options ladder = {
        .size = sizeof ladder,
        .steps = "drain,finished,move,trim,rebuild,others,callbacks,cleanup,retry,wait,fallback"};
    return vram_pool_ladder_set(pool, &ladder);
}

static vram_status begin(struct place *place, void **state) {
    struct pooled *pooled = calloc(1, sizeof *pooled);
    if (pooled == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    pooled->place = place;
    const vram_limits whole = {
        .size = sizeof whole, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    const vram_pool_options options = {.size = sizeof options, .limits = &whole};
    vram_status status = vram_pool_create(place->device, &options, &pooled->pool);
    if (status == VRAM_OK && place->rebuild) {
        status = allow_rebuild(pooled->pool);
    }
    if (status != VRAM_OK) {
        vram_pool_destroy(pooled->pool);
        free(pooled);
        return status;
    }
    *state = pooled;
    return VRAM_OK;
}

static vram_status alloc(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block) {
    struct pooled *pooled = state;
    return vram_alloc(pooled->pool, bytes, pooled->place->queues[queue], &block->addr);
}

static vram_status release(void *state, struct replay_block *block, uint32_t queue) {
    struct pooled *pooled = state;
    return vram_free(block->addr, pooled->place->queues[queue]);
}

static vram_status use(void *state, struct replay_block *block, uint32_t queue) {
    struct pooled *pooled = state;
    return vram_use(block->addr, pooled->place->queues[queue]);
}

static vram_status counts(void *state, struct policy_counts *to) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = vram_pool_stats_get(((struct pooled *)state)->pool, &stats);
    if (status == VRAM_OK) {
        *to = (struct policy_counts){.reserved_bytes = stats.reserved_bytes,
                                     .peak_reserved_bytes = stats.peak_reserved_bytes,
                                     .moved_handles = stats.moved_handles,
                                     .move_ns = stats.move_ns,
                                     .calls = {[POLICY_CALL_ALLOC] = stats.driver_allocs,
                                               [POLICY_CALL_FREE] = stats.driver_frees,
                                               [POLICY_CALL_CREATE] = stats.driver_creates,
                                               [POLICY_CALL_RELEASE] = stats.driver_releases,
                                               [POLICY_CALL_MAP] = stats.driver_maps,
                                               [POLICY_CALL_ACCESS] = stats.driver_accesses,
                                               [POLICY_CALL_UNMAP] = stats.driver_unmaps,
                                               [POLICY_CALL_MARKER] = stats.driver_markers}};
    }
    return status;
}

static void end(void *state) {
    struct pooled *pooled = state;
    vram_pool_destroy(pooled->pool);
    free(pooled);
}

const struct policy policy_vram = {
    .name = "vram",
    .begin = begin,
    .alloc = alloc,
    .free = release,
    .use = use,
    .counts = counts,
    .end = end,
};
