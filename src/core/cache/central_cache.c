/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central_cache.c: see central_cache.h.
 */
#include "core/cache/central_cache.h"

#include <assert.h>

static struct vr_central_bin *bin_of(struct vr_central_cache *central, struct vr_queue_id queue,
                                     uint64_t bytes) {
    uint64_t mixed = (bytes / 512 ^ queue.handle << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return &central->bins[mixed >> 55];
}

_Static_assert(VR_CENTRAL_BINS == 1 << 9, "bin_of takes the top 9 bits");

struct vr_block *vr_central_take(struct vr_central_cache *central, struct vr_queue_id queue,
                                 uint64_t bytes) {
    struct vr_central_bin *bin = bin_of(central, queue, bytes);
    if (bin->bytes != bytes || !vr_queue_id_same(bin->queue, queue) || !bin->first) {
        return NULL;
    }
    struct vr_block *block = bin->first;
    assert(bin->count > 0 && central->held_bytes >= bytes);
    assert(vr_block_is_cached(block) && vr_load(&block->bytes, VR_RELAXED) == bytes);
    bin->first = block->next;
    bin->count--;
    bin->hits++;
    central->held_bytes -= bytes;
    return block;
}

/* Empties a bin; returns the list of its blocks. */
static struct vr_block *bin_empty(struct vr_central_cache *central, struct vr_central_bin *bin) {
    struct vr_block *first = bin->first;
    central->held_bytes -= bin->count * bin->bytes;
    bin->first = NULL;
    bin->count = 0;
    return first;
}

struct vr_block *vr_central_put(struct vr_central_cache *central, struct vr_queue_id queue,
                                struct vr_block *block, struct vr_queue_id *out_queue) {
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
    struct vr_central_bin *bin = bin_of(central, queue, bytes);
    struct vr_block *out = NULL;
    assert(bytes <= VR_CENTRAL_BIN_BYTES / 2);
    assert(vr_block_is_cached(block));                                    /* block.h (1) */
    assert(!vr_load(&block->held, VR_RELAXED) && !vr_block_stays(block)); /* sleep.h (2), (5) */
    *out_queue = bin->queue;
    if (bin->bytes != bytes || !vr_queue_id_same(bin->queue, queue)) {
        out = bin_empty(central, bin);
        bin->queue = queue;
        bin->bytes = bytes;
        bin->hits = 0;
        bin->used = false;
    } else if ((bin->count + 1) * bytes > VR_CENTRAL_BIN_BYTES) {
        block->next = NULL;
        return block;
    }
    block->next = bin->first;
    bin->first = block;
    bin->count++;
    central->held_bytes += bytes;
    return out;
}

struct vr_block *vr_central_empty(struct vr_central_cache *central, struct vr_queue_id only,
                                  struct vr_queue_id *queue) {
    for (int i = 0; i < VR_CENTRAL_BINS; i++) {
        struct vr_central_bin *bin = &central->bins[i];
        if (bin->first && (!only.handle || vr_queue_id_same(bin->queue, only))) {
            *queue = bin->queue;
            return bin_empty(central, bin);
        }
    }
    return NULL;
}

struct vr_block *vr_central_thin(struct vr_central_cache *central, uint32_t at, uint32_t count) {
    struct vr_central_bin *bin = &central->bins[at];
    struct vr_block **link = &bin->first;
    assert(count <= bin->count);
    if (!count) {
        return NULL;
    }
    for (uint32_t i = count; i < bin->count; i++) {
        link = &(*link)->next;
    }
    struct vr_block *list = *link;
    *link = NULL;
    bin->count -= count;
    central->held_bytes -= count * bin->bytes;
    return list;
}
