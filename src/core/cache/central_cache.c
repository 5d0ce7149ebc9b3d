/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central_cache.c: see central_cache.h.
 */
#include "core/cache/central_cache.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 }; /* of a bin, in blocks; doubled when it is full */

static uint32_t bin_index(struct vr_queue_id queue, uint64_t bytes) {
    uint64_t mixed = (bytes / 512 ^ queue.handle << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 55);
}

_Static_assert(VR_CENTRAL_BINS == 1 << 9, "bin_index takes the top 9 bits");

static bool bin_is_for(const struct vr_central_bin *bin, struct vr_queue_id queue, uint64_t bytes) {
    return bin->bytes == bytes && vr_queue_id_same(bin->queue, queue);
}

/* Blocks that the bin may still keep. */
static uint32_t bin_left(const struct vr_central_bin *bin) {
    return (uint32_t)(VR_CENTRAL_BIN_BYTES / bin->bytes) - bin->count;
}

/* Removes the `count` oldest blocks; returns them as a list. */
static struct vr_block *bin_thin(struct vr_central_cache *central, struct vr_central_bin *bin,
                                 uint32_t count) {
    struct vr_block *list = NULL;
    assert(count <= bin->count && central->held_bytes >= count * bin->bytes);
    for (uint32_t i = 0; i < count; i++) {
        bin->blocks[i]->next = list;
        list = bin->blocks[i];
    }
    bin->count -= count;
    if (bin->count && count) {
        memmove(bin->blocks, bin->blocks + count, bin->count * sizeof *bin->blocks);
    }
    central->held_bytes -= count * bin->bytes;
    return list;
}

static void bin_drop_table(struct vr_central_cache *central, struct vr_central_bin *bin) {
    assert(bin->count == 0);
    central->table_bytes -= bin->capacity * sizeof *bin->blocks;
    vr_mem_free(bin->blocks);
    bin->blocks = NULL;
    bin->capacity = 0;
}

/* Makes sure that `count` more blocks fit into the stack; false if host memory has run out. */
static bool bin_reserve(struct vr_central_cache *central, struct vr_central_bin *bin,
                        uint32_t count) {
    uint32_t capacity = bin->capacity ? bin->capacity : FIRST_CAPACITY;
    if (bin->count + count <= bin->capacity) {
        return true;
    }
    while (capacity < bin->count + count) {
        capacity *= 2;
    }
    struct vram_error error;
    vr_error_save(&error);
    struct vr_block **blocks =
        vr_mem_resize(bin->blocks, capacity, sizeof *bin->blocks, "vram_free");
    if (!blocks) {
        vr_error_restore(&error); /* the blocks go to the space instead */
        return false;
    }
    central->table_bytes += (capacity - bin->capacity) * sizeof *bin->blocks;
    bin->blocks = blocks;
    bin->capacity = capacity;
    return true;
}

uint32_t vr_central_take(struct vr_central_cache *central, struct vr_queue_id queue, uint64_t bytes,
                         struct vr_block **blocks, uint32_t most) {
    struct vr_central_bin *bin = &central->bins[bin_index(queue, bytes)];
    if (!bin_is_for(bin, queue, bytes) || !bin->count || !most) {
        return 0;
    }
    uint32_t count = most < bin->count ? most : bin->count;
    assert(central->held_bytes >= count * bytes);
    bin->count -= count;
    memcpy(blocks, bin->blocks + bin->count, count * sizeof *blocks);
    bin->hits += count;
    central->held_bytes -= count * bytes;
    for (uint32_t i = 0; i < count; i++) {
        assert(vr_block_is_cached(blocks[i]) && vr_load(&blocks[i]->bytes, VR_RELAXED) == bytes);
    }
    return count;
}

bool vr_central_has_room(const struct vr_central_cache *central, struct vr_queue_id queue,
                         uint64_t bytes, uint32_t count) {
    const struct vr_central_bin *bin = &central->bins[bin_index(queue, bytes)];
    return bin_is_for(bin, queue, bytes) && bin->count + count <= bin->capacity &&
           (bin->count + count) * bytes <= VR_CENTRAL_BIN_BYTES;
}

/* For asserts: no owner but the caller (block.h (1)), and free to move (sleep.h (2), (5)). */
__attribute__((unused)) static bool may_keep(const struct vr_block *block, uint64_t bytes) {
    return vr_block_is_cached(block) && vr_load(&block->bytes, VR_RELAXED) == bytes &&
           !vr_load(&block->held, VR_RELAXED) && !vr_block_stays(block);
}

uint32_t vr_central_put(struct vr_central_cache *central, struct vr_queue_id queue, uint64_t bytes,
                        struct vr_block *const *blocks, uint32_t count, struct vr_block **out,
                        struct vr_queue_id *out_queue) {
    struct vr_central_bin *bin = &central->bins[bin_index(queue, bytes)];
    assert(bytes <= VR_CENTRAL_BIN_BYTES / 2);
    *out = NULL;
    *out_queue = bin->queue;
    if (!bin_is_for(bin, queue, bytes)) {
        *out = bin_thin(central, bin, bin->count);
        bin->queue = queue;
        bin->bytes = bytes;
        bin->hits = 0;
        bin->used = false;
    }
    uint32_t kept = count < bin_left(bin) ? count : bin_left(bin);
    if (!kept || !bin_reserve(central, bin, kept)) {
        return 0;
    }
    for (uint32_t i = 0; i < kept; i++) {
        assert(may_keep(blocks[i], bytes));
    }
    memcpy(bin->blocks + bin->count, blocks, kept * sizeof *blocks);
    bin->count += kept;
    central->held_bytes += kept * bytes;
    return kept;
}

struct vr_block *vr_central_empty(struct vr_central_cache *central, struct vr_queue_id only,
                                  struct vr_queue_id *queue) {
    for (int i = 0; i < VR_CENTRAL_BINS; i++) {
        struct vr_central_bin *bin = &central->bins[i];
        if (bin->count && (!only.handle || vr_queue_id_same(bin->queue, only))) {
            *queue = bin->queue;
            struct vr_block *list = bin_thin(central, bin, bin->count);
            bin_drop_table(central, bin);
            return list;
        }
    }
    return NULL;
}

struct vr_block *vr_central_thin(struct vr_central_cache *central, uint32_t at, uint32_t count) {
    return bin_thin(central, &central->bins[at], count);
}

void vr_central_free(struct vr_central_cache *central) {
    for (int i = 0; i < VR_CENTRAL_BINS; i++) {
        central->bins[i].count = 0;
        bin_drop_table(central, &central->bins[i]);
    }
}
