/* SPDX-License-Identifier: Apache-2.0 */
/*
 * depot.c: see depot.h.
 */
#include "core/cache/depot.h"

#include <assert.h>

static struct vr_depot_bin *bin_of(struct vr_depot *depot, struct vr_queue_id queue,
                                   uint64_t bytes) {
    uint64_t mixed = (bytes / 512 ^ queue.handle << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return &depot->bins[mixed >> 55];
}

_Static_assert(VR_DEPOT_BINS == 1 << 9, "bin_of takes the top 9 bits");

struct vr_block *vr_depot_take(struct vr_depot *depot, struct vr_queue_id queue, uint64_t bytes) {
    struct vr_depot_bin *bin = bin_of(depot, queue, bytes);
    if (bin->bytes != bytes || !vr_queue_id_same(bin->queue, queue) || !bin->first) {
        return NULL;
    }
    struct vr_block *block = bin->first;
    assert(bin->count > 0 && depot->held_bytes >= bytes);
    assert(vr_block_is_cached(block) && vr_load(&block->bytes, VR_RELAXED) == bytes);
    bin->first = block->next;
    bin->count--;
    bin->hits++;
    depot->held_bytes -= bytes;
    return block;
}

/* Empties a bin; the list of what was in it. */
static struct vr_block *bin_empty(struct vr_depot *depot, struct vr_depot_bin *bin) {
    struct vr_block *first = bin->first;
    depot->held_bytes -= bin->count * bin->bytes;
    bin->first = NULL;
    bin->count = 0;
    return first;
}

struct vr_block *vr_depot_put(struct vr_depot *depot, struct vr_queue_id queue,
                              struct vr_block *block, struct vr_queue_id *out_queue) {
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
    struct vr_depot_bin *bin = bin_of(depot, queue, bytes);
    struct vr_block *out = NULL;
    assert(bytes <= VR_DEPOT_BIN_BYTES / 2);
    assert(vr_block_is_cached(block));                            /* block.h (1) */
    assert(!vr_load(&block->held, VR_RELAXED) && !block->asleep); /* sleep.h (2) */
    *out_queue = bin->queue;
    if (bin->bytes != bytes || !vr_queue_id_same(bin->queue, queue)) {
        out = bin_empty(depot, bin);
        bin->queue = queue;
        bin->bytes = bytes;
        bin->hits = 0;
        bin->used = false;
    } else if ((bin->count + 1) * bytes > VR_DEPOT_BIN_BYTES) {
        block->next = NULL;
        return block;
    }
    block->next = bin->first;
    bin->first = block;
    bin->count++;
    depot->held_bytes += bytes;
    return out;
}

struct vr_block *vr_depot_empty(struct vr_depot *depot, struct vr_queue_id only,
                                struct vr_queue_id *queue) {
    for (int i = 0; i < VR_DEPOT_BINS; i++) {
        struct vr_depot_bin *bin = &depot->bins[i];
        if (bin->first && (!only.handle || vr_queue_id_same(bin->queue, only))) {
            *queue = bin->queue;
            return bin_empty(depot, bin);
        }
    }
    return NULL;
}

struct vr_block *vr_depot_thin(struct vr_depot *depot, uint32_t at, uint32_t count) {
    struct vr_depot_bin *bin = &depot->bins[at];
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
    depot->held_bytes -= count * bin->bytes;
    return list;
}
