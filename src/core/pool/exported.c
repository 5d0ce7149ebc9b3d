/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exported.c: blocks that other processes may have mapped; src/share.
 *
 * An export is a pin that sleep steps around instead of refusing (sleep.h (6)): the pieces under
 * the block stay as they are, and the rest of the pool may move, sleep and be released. As long as
 * a block is exported its pieces do not change, so they can be read one after the other.
 */
#include "core/cache/drain.h"
#include "core/guard/guard.h"
#include "core/pool/pool_calls.h"

#include "base/error.h"

#include <assert.h>

/* Why a block cannot be exported now; NULL: it can. Under the lock. */
static const char *export_refusal(const struct vr_block *block, bool read_only,
                                  vram_status *status) {
    *status = VRAM_ERR_BUSY;
    if (block && block->asleep) {
        return "is asleep; call vram_pool_wake first";
    }
    if (block && block->sealed && !read_only) {
        return "is sealed, and others could write to it; export it with VRAM_SHARE_READ_ONLY, or "
               "call vram_pool_unseal first";
    }
    *status = VRAM_ERR_INVALID;
    if (!block || !vr_block_is_live(block)) {
        return "is not the start of a live block of the pool";
    }
    if (vr_block_is_other(block)) {
        return "is not device memory of the pool: it was taken from other memory when the device "
               "had none; free it, or forbid fallbacks";
    }
    *status = VRAM_OK;
    return NULL;
}

vram_status vr_pool_export(struct vr_pool *pool, vram_addr addr, bool read_only) {
    vram_status status;
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_guard_find(pool, addr);
    const char *why = export_refusal(block, read_only, &status);
    if (!why) {
        block->pins++;
        block->exports++;
        vr_block_note_held(block);
    }
    vr_mutex_unlock(&pool->lock);
    return why ? vr_fail(status, "0x%llx %s", (unsigned long long)addr, why) : VRAM_OK;
}

void vr_pool_unexport(struct vr_pool *pool, vram_addr addr) {
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_guard_find(pool, addr);
    if (block && block->exports) {
        block->pins--;
        block->exports--;
        vr_block_note_held(block);
        vr_pool_settle(pool);
    }
    vr_mutex_unlock(&pool->lock);
    vr_pool_flush(pool);
}

/* Its entry, or a free one; NULL: there are too many readers to know this one. */
static struct vr_reader *reader_find(struct vr_pool *pool, uint64_t process) {
    struct vr_reader *free_one = NULL;
    for (int i = 0; i < VR_READERS_MOST; i++) {
        struct vr_reader *reader = &pool->readers[i];
        if (reader->opens && reader->process == process) {
            return reader;
        }
        free_one = !free_one && !reader->opens ? reader : free_one;
    }
    return free_one;
}

void vr_pool_reader_change(struct vr_pool *pool, uint64_t process, uint64_t bytes, bool opened) {
    vr_mutex_lock(&pool->lock);
    struct vr_reader *reader = reader_find(pool, process);
    if (reader && opened) {
        reader->process = process;
        reader->bytes += bytes;
        reader->opens++;
    } else if (reader && reader->opens) {
        reader->bytes -= bytes < reader->bytes ? bytes : reader->bytes;
        reader->opens--;
    }
    vr_mutex_unlock(&pool->lock);
}

bool vr_pool_exported_piece(struct vr_pool *pool, vram_addr addr, struct vr_exported_piece *found) {
    const struct vr_piece *piece = NULL;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT && pool->range && !piece; part++) {
        piece = vr_space_piece_at(pool->spaces[part], addr);
    }
    const struct vr_block *block = pool->range ? NULL : vr_guard_find(pool, addr);
    if (block) { /* it lies in one segment */
        piece = block->span.segment;
    }
    if (piece) {
        assert(!piece->sleep_state && !piece->released); /* sleep.h (6) */
        *found = (struct vr_exported_piece){
            .native = pool->range ? piece->native : piece->addr, /* backend.h: without mapping */
            .base = piece->addr,
            .bytes = piece->bytes};
    }
    vr_mutex_unlock(&pool->lock);
    return piece != NULL;
}
