/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_export.c: blocks of a pool become a share.
 *
 * Ends of an export, which may come in any order and from several threads: the program closes it,
 * the pool ends, the last reader goes. It is finished when it was closed (by either) and has no
 * reader: then the pins are removed, the server lets it go, and the owner's reference is dropped.
 */
#include "core/guard/block_lookup.h"
#include "share/share_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- ending */

static void export_free(void *memory) {
    struct vr_share *share = memory;
    vr_timeline_end(share);
    vr_share_forget(share);
    vr_share_free(share);
}

/* Removes the pins of the first `count` blocks; the pool is alive. */
static void blocks_unpin(struct vr_share *share, struct vr_pool *pool, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        vr_pool_unpin(pool, share->parts[i].addr);
    }
}

/* Finishes an export that is closed and has no reader, once. No lock held. */
static void export_finish(struct vr_share *share) {
    struct vr_share_export *state = &share->export_state;
    struct vram_error error;
    vr_mutex_lock(&vr_share_lock);
    bool now = state->closed && !state->readers && !state->finished;
    state->finished = state->finished || now;
    bool pool_there = now && !state->pool_ended && vr_handle_try_ref(state->pool_handle);
    vr_mutex_unlock(&vr_share_lock);
    if (!now) {
        return;
    }
    vr_error_save(&error);
    if (pool_there) {
        vr_pool_child_remove(state->pool_handle, state->pool, &state->child);
        blocks_unpin(share, state->pool, share->part_count);
        vr_fetch_sub(&state->pool->counters.shared_bytes, share->bytes, VR_RELAXED);
        vr_handle_unpin(state->pool_handle);
    }
    vr_share_unserve(share);
    vr_error_restore(&error);
    vr_handle_unpin(share->object.handle); /* the owner's */
}

static void reader_gone(struct vr_share *share) {
    vr_mutex_lock(&vr_share_lock);
    share->export_state.readers--;
    vr_mutex_unlock(&vr_share_lock);
    export_finish(share);
}

vram_status vr_export_close(struct vr_share *share) {
    if (!vr_handle_retire(share->object.handle)) {
        return vr_fail(VRAM_ERR_STALE, "the share is being closed already");
    }
    struct vram_error error;
    vram_status status = vr_name_withdraw(share);
    vr_error_save(&error);
    vr_mutex_lock(&vr_share_lock);
    share->export_state.closed = true;
    bool read = share->export_state.readers;
    vr_mutex_unlock(&vr_share_lock);
    if (read) {
        vr_share_settle(); /* it may have gone already */
    }
    export_finish(share);
    vr_error_restore(&error);
    return status;
}

/* The pool's handles go: nothing may use them any more; share_object.h (2). */
static void pool_ended(struct vr_pool_child *child) {
    struct vr_share *share = VR_CONTAINER(child, struct vr_share, export_state.child);
    struct vr_share_export *state = &share->export_state;
    struct vram_error error;
    vr_error_save(&error);
    if (vr_handle_retire(share->object.handle)) {
        (void)vr_name_withdraw(share);
    }
    vr_mutex_lock(&vr_share_lock);
    state->pool_ended = state->closed = true;
    while (state->using_handles) {
        vr_mutex_unlock(&vr_share_lock);
        vr_os_sleep(100000); /* one driver call of the server's thread */
        vr_mutex_lock(&vr_share_lock);
    }
    bool read = state->readers;
    vr_mutex_unlock(&vr_share_lock);
    if (read) {
        vr_share_settle();
    }
    export_finish(share);
    vr_error_restore(&error);
}

/* ----------------------------------------------------------------- exporting */

/* The handle under a pinned block. */
static vram_status block_handle(struct vr_pool *pool, vram_addr addr,
                                struct vr_share_handle *handle) {
    struct vr_address_info place;
    if (!vr_address_find(addr, &place) || place.pool != pool->object.handle ||
        !place.record->share) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the block at 0x%llx is not device memory of the pool: it was taken from "
                       "other memory when the device had none; free it, or forbid fallbacks",
                       (unsigned long long)addr);
    }
    *handle = (struct vr_share_handle){
        .native = place.record->share, .bytes = place.bytes, .base = place.base};
    return VRAM_OK;
}

/* Pins the blocks and finds their handles; *pinned of them are pinned, on failure too. `found` has
   room for one handle for each. */
static vram_status blocks_take(struct vr_share *share, struct vr_pool *pool,
                               const vram_addr *blocks, struct vr_share_handle *found,
                               uint32_t *pinned) {
    for (uint32_t i = 0; i < share->part_count; i++) {
        vram_block_info info = {.size = sizeof info};
        vram_status status = vr_pool_pin(pool, blocks[i]);
        if (status != VRAM_OK) {
            return status;
        }
        share->parts[i].addr = blocks[i];
        *pinned = i + 1;
        if ((status = vr_block_info_get(blocks[i], &info)) != VRAM_OK ||
            (status = block_handle(pool, blocks[i], &found[i])) != VRAM_OK) {
            return status;
        }
        share->parts[i].bytes = info.requested_bytes;
    }
    return VRAM_OK;
}

static int handle_order(const void *a, const void *b) {
    const struct vr_share_handle *first = a, *second = b;
    return first->base < second->base ? -1 : first->base > second->base;
}

/* Each handle once, in the order of addresses, one after the other. */
static void handles_arrange(struct vr_share *share, struct vr_share_handle *found) {
    uint32_t count = 0;
    qsort(found, share->part_count, sizeof *found, handle_order);
    for (uint32_t i = 0; i < share->part_count; i++) {
        if (!count || share->handles[count - 1].base != found[i].base) {
            share->handles[count] = found[i];
            share->handles[count++].offset = share->bytes;
            share->bytes += found[i].bytes;
        }
    }
    share->handle_count = count;
}

/* Where each part lies, by a search for its handle. */
static void parts_place(struct vr_share *share) {
    for (uint32_t i = 0; i < share->part_count; i++) {
        uint32_t low = 0, high = share->handle_count;
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;
            *(share->handles[middle].base <= share->parts[i].addr ? &low : &high) = middle;
        }
        const struct vr_share_handle *handle = &share->handles[low];
        share->offsets[i] = handle->offset + (share->parts[i].addr - handle->base);
    }
}

static vram_status export_fill(struct vr_share *share, struct vr_pool *pool,
                               const vram_addr *blocks, uint32_t *pinned) {
    struct vr_share_handle *found = vr_mem_alloc(share->part_count, sizeof *found, vr_operation());
    if (!found) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = blocks_take(share, pool, blocks, found, pinned);
    if (status == VRAM_OK) {
        handles_arrange(share, found);
        parts_place(share);
        if (share->handle_count > VR_WIRE_HANDLES_MAX) {
            status = vr_fail(VRAM_ERR_LIMIT, "%u handles are too many for one export; %s",
                             share->handle_count,
                             "use VRAM_POOL_SHARE_GROUP for small blocks, or several exports");
        }
    }
    vr_mem_free(found);
    return status;
}

/* Gives a served export its handle and lists it with its pool. From then on the pool may end it. */
static vram_status export_publish(struct vr_share *share, struct vr_pool *pool, uint64_t *out) {
    uint64_t handle;
    vram_status status = vr_handle_publish(VR_KIND_SHARE, share, export_free, &handle);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&vr_share_lock);
    share->object.handle = share->export_state.child.handle = handle;
    vr_mutex_unlock(&vr_share_lock);
    vr_fetch_add(&pool->counters.shared_bytes, share->bytes, VR_RELAXED);
    status = vr_pool_child_add(pool, &share->export_state.child);
    if (status != VRAM_OK) { /* the pool is ending, and its counters with it */
        (void)vr_handle_retire(handle);
    }
    *out = handle;
    return status;
}

static void export_init(struct vr_share *share, struct vr_pool *pool,
                        const vram_share_options *options) {
    struct vr_share_export *state = &share->export_state;
    share->exported = true;
    share->read_only = options->flags & VRAM_SHARE_READ_ONLY;
    state->user_allowed = options->flags & VRAM_SHARE_USER;
    state->user = options->user;
    state->pool = pool;
    state->pool_handle = pool->object.handle;
    state->child.pool_ended = pool_ended;
    state->reader_gone = reader_gone;
}

/* The server has the export before it has a handle: nobody knows its key yet. */
static vram_status export_make(struct vr_pool *pool, const vram_addr *blocks, uint32_t count,
                               const vram_share_options *options, const char *dir,
                               vram_share **out) {
    uint32_t pinned = 0;
    uint64_t handle = 0;
    struct vram_error error;
    struct vr_share *share = vr_share_make();
    if (!share) {
        return VRAM_ERR_HOST_MEMORY;
    }
    export_init(share, pool, options);
    vram_status status = vr_share_lists_make(share, count, count);
    if (status == VRAM_OK) {
        status = export_fill(share, pool, blocks, &pinned);
    }
    if (status == VRAM_OK && (status = vr_share_serve(share, dir)) == VRAM_OK) {
        status = export_publish(share, pool, &handle);
        if (status == VRAM_OK) {
            *out = (vram_share *)(uintptr_t)handle;
            return VRAM_OK;
        }
        vr_error_save(&error);
        vr_share_unserve(share);
        vr_error_restore(&error);
    }
    vr_error_save(&error);
    blocks_unpin(share, pool, pinned);
    if (handle) {
        vr_handle_unpin(handle);
    } else {
        export_free(share);
    }
    vr_error_restore(&error);
    return status;
}

static vram_status export_check(const vram_addr *blocks, uint32_t count, vram_share *const *out) {
    if (!blocks || !count || !out) {
        return vr_fail(VRAM_ERR_INVALID, "%s",
                       !out ? "the pointer that receives the share is NULL"
                            : "there are no blocks to export");
    }
    if (count > VR_WIRE_PARTS_MAX) {
        return vr_fail(VRAM_ERR_LIMIT, "%u blocks are too many for one export: use at most %d",
                       count, VR_WIRE_PARTS_MAX);
    }
    return VRAM_OK;
}

vram_status vram_share_export(const vram_addr *blocks, uint32_t count,
                              const vram_share_options *options, vram_share **share) {
    VR_CALL;
    vram_share_options taken;
    char dir[VR_SHARE_DIR_MAX];
    struct vr_pool *pool;
    vram_status status = export_check(blocks, count, share);
    if (status != VRAM_OK || (status = vr_share_options_read(options, &taken)) != VRAM_OK ||
        (status = vr_share_dir(&taken, true, dir)) != VRAM_OK ||
        (status = vr_pool_enter_at(blocks[0], &pool)) != VRAM_OK) {
        return status;
    }
    status = vr_pool_is_shareable(pool)
                 ? export_make(pool, blocks, count, &taken, dir, share)
                 : vr_fail(VRAM_ERR_INVALID,
                           "pool \"%s\" is not shareable: create it with VRAM_POOL_SHAREABLE, or "
                           "with VRAM_POOL_SHARE_GROUP for small blocks",
                           pool->name);
    vr_leave(pool);
    return status;
}

vram_status vram_share_token_get(vram_share *handle, vram_share_token *token) {
    VR_CALL;
    void *entered;
    if (!token) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the token is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    if (share->exported) {
        vr_share_token_write(token, &share->export_state.ticket);
    } else {
        status =
            vr_fail(VRAM_ERR_INVALID, "the share was opened here; the token is its exporter's");
    }
    vr_leave(share);
    return status;
}
