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
        vr_pool_unexport(pool, share->parts[i].addr);
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

/* Waits until no call uses the handles. With the lock, which it releases meanwhile. */
static void handles_leave(struct vr_share_export *state) {
    while (state->using_handles) {
        vr_mutex_unlock(&vr_share_lock);
        vr_os_sleep(100000); /* one driver call of the server's thread */
        vr_mutex_lock(&vr_share_lock);
    }
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
    handles_leave(&share->export_state);
    bool read = share->export_state.readers;
    vr_mutex_unlock(&vr_share_lock);
    vr_kept_drop(share);
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
    handles_leave(state);
    bool read = state->readers;
    vr_mutex_unlock(&vr_share_lock);
    vr_kept_drop(share);
    if (read) {
        vr_share_settle();
    }
    export_finish(share);
    vr_error_restore(&error);
}

/* ----------------------------------------------------------------- exporting */

/* Handles found under the blocks, one or more for each. */
struct found {
    struct vr_share_handle *handles;
    uint32_t count, capacity;
};

static vram_status found_add(struct found *found, const struct vr_exported_piece *piece) {
    if (found->count && found->handles[found->count - 1].base == piece->base) {
        return VRAM_OK; /* several small blocks lie in one */
    }
    if (found->count == found->capacity) {
        uint32_t capacity = found->capacity ? found->capacity * 2 : 16;
        struct vr_share_handle *handles =
            vr_mem_resize(found->handles, capacity, sizeof *handles, vr_operation());
        if (!handles) {
            return VRAM_ERR_HOST_MEMORY;
        }
        found->handles = handles;
        found->capacity = capacity;
    }
    found->handles[found->count++] = (struct vr_share_handle){
        .native = piece->native, .bytes = piece->bytes, .base = piece->base};
    return VRAM_OK;
}

/* All handles under an exported block. */
static vram_status block_handles(struct vr_pool *pool, const struct vram_share_part *part,
                                 struct found *found) {
    struct vr_exported_piece piece;
    vram_status status = VRAM_OK;
    vram_addr end = part->addr + vr_larger(part->bytes, 1);
    for (vram_addr at = part->addr; status == VRAM_OK && at < end; at = piece.base + piece.bytes) {
        if (!vr_pool_exported_piece(pool, at, &piece)) {
            return vr_fail(VRAM_ERR_CORRUPT, "there is no memory at 0x%llx, inside a live block",
                           (unsigned long long)at);
        }
        status = found_add(found, &piece);
    }
    return status;
}

/* Takes the blocks and finds their handles; *pinned of them are taken, on failure too. */
static vram_status blocks_take(struct vr_share *share, struct vr_pool *pool,
                               const vram_addr *blocks, struct found *found, uint32_t *pinned) {
    for (uint32_t i = 0; i < share->part_count; i++) {
        vram_block_info info = {.size = sizeof info};
        vram_status status = vr_pool_export(pool, blocks[i], share->read_only);
        if (status != VRAM_OK) {
            return status;
        }
        share->parts[i].addr = blocks[i];
        *pinned = i + 1;
        if ((status = vr_block_info_get(blocks[i], &info)) != VRAM_OK) {
            return status;
        }
        share->parts[i].bytes = info.requested_bytes;
        if ((status = block_handles(pool, &share->parts[i], found)) != VRAM_OK) {
            return status;
        }
    }
    return VRAM_OK;
}

static int handle_order(const void *a, const void *b) {
    const struct vr_share_handle *first = a, *second = b;
    return first->base < second->base ? -1 : first->base > second->base;
}

/* Each handle once, in the order of addresses, one after the other. */
static void handles_arrange(struct vr_share *share, struct found *found) {
    uint32_t count = 0;
    if (found->count) {
        qsort(found->handles, found->count, sizeof *found->handles, handle_order);
    }
    for (uint32_t i = 0; i < found->count; i++) {
        struct vr_share_handle handle = found->handles[i];
        if (!count || found->handles[count - 1].base != handle.base) {
            handle.offset = share->bytes;
            share->bytes += handle.bytes;
            found->handles[count++] = handle;
        }
    }
    share->handles = found->handles;
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
    struct found found = {.handles = NULL};
    vram_status status = blocks_take(share, pool, blocks, &found, pinned);
    handles_arrange(share, &found); /* the share frees the list, on failure too */
    if (status != VRAM_OK) {
        return status;
    }
    parts_place(share);
    return share->handle_count <= VR_WIRE_HANDLES_MAX
               ? VRAM_OK
               : vr_fail(VRAM_ERR_LIMIT, "%u handles are too many for one export; %s",
                         share->handle_count,
                         "use VRAM_POOL_SHARE_GROUP for small blocks, or several exports");
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
    vr_handle_ref(handle);
    status = vr_pool_child_add(pool, &share->export_state.child);
    if (status == VRAM_OK) {
        vr_share_prepare(share);
    } else { /* the pool is ending, and its counters with it */
        (void)vr_handle_retire(handle);
    }
    vr_handle_unpin(handle);
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
    vram_status status = vr_share_lists_make(share, count, 0);
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
    char dir[VR_RUNTIME_DIR_MAX];
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
