/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_lookup.c: from an address to its pool and its live block, with or without red zones.
 */
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/tracking/pool_tracking.h"

#include "base/error.h"

#include <assert.h>

vram_status vr_pool_enter_at(vram_addr addr, struct vr_pool **pool) {
    uint64_t handle = vr_address_pool(addr);
    void *entered;
    vram_status status =
        handle ? vr_enter(VR_KIND_POOL, (void *)(uintptr_t)handle, &entered) : VRAM_ERR_STALE;
    if (status == VRAM_ERR_STALE) {
        return vr_fail(VRAM_ERR_INVALID,
                       "no pool has memory at 0x%llx: it was freed already, or never a pool's",
                       (unsigned long long)addr);
    }
    if (status == VRAM_OK) {
        *pool = entered;
    }
    return status;
}

vram_status vr_pool_enter_block(vram_addr addr, vram_queue *queue_handle, struct vr_pool **pool,
                                struct vr_queue_object **queue) {
    vram_status status = vr_pool_enter_at(addr, pool);
    return status == VRAM_OK ? vr_pool_enter_queue(*pool, queue_handle, queue) : status;
}

static vram_status block_refuse(const struct vr_block *block, vram_addr addr) {
    uint32_t state = block ? vr_load(&block->state, VR_RELAXED) & VR_BLOCK_STATES : VR_BLOCK_FREE;
    if (state == VR_BLOCK_OWNED) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "the block at 0x%llx belongs to a buffer, a scope or a batch, which alone frees it",
            (unsigned long long)addr);
    }
    return vr_fail(VRAM_ERR_INVALID, "0x%llx is not the start of a live block: it %s",
                   (unsigned long long)addr,
                   state == VR_BLOCK_CACHED ? "was freed already"
                                            : "was freed already, or lies inside one");
}

vram_status vr_pool_no_block(struct vr_pool *pool, vram_addr addr) {
    vr_mutex_lock(&pool->lock);
    vram_status status = block_refuse(vr_guard_find(pool, addr), addr);
    vr_mutex_unlock(&pool->lock);
    return status;
}

struct vr_block *vr_pool_live_block(struct vr_pool *pool, vram_addr addr) {
    assert(vr_pool_is_locked(pool));
    struct vr_block *block = vr_guard_find(pool, addr);
    if (!block || !vr_block_is_live(block)) {
        (void)block_refuse(block, addr);
        return NULL;
    }
    return block;
}

/* Reads the block's record. False: it did not stand for the live block of the pool at `addr` during
   the whole read: keeps block.h (4). */
static bool read_block(const struct vr_pool *pool, const struct vr_block *block, vram_addr addr,
                       struct vram_block_info *info, uint64_t *front) {
    uint32_t seen = block ? vr_load(&block->state, VR_ACQUIRE) : VR_BLOCK_FREE;
    if (!VR_BLOCK_IS_LIVE(seen) || vr_load(&block->pool, VR_ACQUIRE) != pool->object.handle) {
        return false;
    }
    *front = vr_guard_front(block);
    info->addr = vr_load(&block->addr, VR_ACQUIRE) + *front;
    info->requested_bytes = vr_load(&block->requested, VR_ACQUIRE);
    info->held_bytes = vr_load(&block->bytes, VR_ACQUIRE);
    info->tag = vr_tag_name(vr_load(&block->tag, VR_ACQUIRE));
    return info->addr == addr && vr_load(&block->state, VR_ACQUIRE) == seen;
}

/* A thread inside its caches keeps the table from being freed (block_table.h). A thread without
   caches takes the lock. */
static bool look_up(struct vr_pool *pool, vram_addr addr, struct vram_block_info *info,
                    uint64_t *front) {
    struct vr_thread_state *thread = vr_thread_current;
    bool inside = thread && vr_thread_enter(thread);
    if (!inside) {
        vr_mutex_lock(&pool->lock);
    }
    struct vr_block *block = vr_guard_find(pool, addr);
    bool found = read_block(pool, block, addr, info, front);
    if (inside) {
        vr_thread_leave(thread);
    } else {
        vr_mutex_unlock(&pool->lock);
    }
    if (!found && block && inside) { /* a resize may be in progress, under the lock */
        vr_mutex_lock(&pool->lock);
        found = read_block(pool, vr_guard_find(pool, addr), addr, info, front);
        vr_mutex_unlock(&pool->lock);
    }
    return found;
}

/* Makes the live block that starts at `addr` an object's, or the program's. Inside the thread's
   caches or under the lock. */
static bool change_owner(struct vr_pool *pool, vram_addr addr, bool owned) {
    struct vr_block *block = vr_guard_find(pool, addr);
    uint32_t seen = block ? vr_load(&block->state, VR_ACQUIRE) : VR_BLOCK_FREE;
    return (seen & VR_BLOCK_STATES) == (owned ? VR_BLOCK_LIVE : VR_BLOCK_OWNED) &&
           vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block) == addr &&
           vr_load(&block->pool, VR_RELAXED) == pool->object.handle &&
           vr_cas(&block->state, &seen, seen ^ (VR_BLOCK_LIVE ^ VR_BLOCK_OWNED), VR_ACQ_REL);
}

bool vr_pool_own(uint64_t handle, vram_addr addr, bool owned) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)handle);
    struct vr_thread_state *thread = vr_thread_current;
    bool done = false;
    if (!pool) {
        return false;
    }
    if (thread && vr_thread_enter(thread)) {
        done = change_owner(pool, addr, owned);
        vr_thread_leave(thread);
    }
    if (!done) { /* a resize may be in progress, under the lock */
        vr_mutex_lock(&pool->lock);
        done = change_owner(pool, addr, owned);
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return done;
}

/* Every copy calls this, so a thread without a state gets one here and later look-ups take no lock.
   The front zone counts in the bytes that the block holds, but lies before the program's
   address. */
uint64_t vr_pool_extent(uint64_t handle, vram_addr addr) {
    VR_OPERATION("vram_native");
    struct vram_block_info info;
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)handle);
    if (!pool) {
        return 0;
    }
    if (!vr_thread_current) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_thread_get();
        vr_error_restore(&error);
    }
    uint64_t front, bytes = look_up(pool, addr, &info, &front) ? info.held_bytes - front : 0;
    vr_leave(pool);
    return bytes;
}

vram_status vr_block_info_get(vram_addr addr, vram_block_info *info) {
    VR_OPERATION("vram_block_info_get");
    struct vram_block_info full = {.size = sizeof full};
    struct vr_address_info place;
    struct vr_pool *pool;
    uint64_t front;
    vram_status status = vr_pool_enter_at(addr, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    full.pool = (vram_pool *)(uintptr_t)pool->object.handle;
    full.kind = vr_address_find(addr, &place) ? place.kind : VRAM_MEMORY_DEVICE;
    status = look_up(pool, addr, &full, &front)
                 ? vr_info_give(info, &full, sizeof full, sizeof full)
                 : vr_pool_no_block(pool, addr);
    vr_leave(pool);
    return status;
}

vram_status vram_block_info_get(vram_addr addr, vram_block_info *info) {
    return vr_block_info_get(addr, info);
}

vram_status vr_pool_record_of(vram_addr addr, struct vr_pool **pool, uint32_t *record) {
    struct vr_pool *entered;
    vram_status status = vr_pool_enter_at(addr, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&entered->lock);
    struct vr_block *block = vr_pool_live_block(entered, addr);
    *record = block ? vr_load(&block->record, VR_RELAXED) : 0;
    vr_mutex_unlock(&entered->lock);
    if (!block) {
        vr_leave(entered);
        return VRAM_ERR_INVALID;
    }
    *pool = entered;
    return VRAM_OK;
}
