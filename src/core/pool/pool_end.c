/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_end.c: how a pool ends.
 *
 *  (1) Memory under unfinished work is never released. A pool that is destroyed waits for three
 *      things, all until one deadline: calls that may have found its memory live and are submitting
 *      work, the queues that it has a queue state for, and peers that read its device.
 *  (2) Unfinished work keeps the whole pool, although its handle is retired: its memory stays taken
 *      from the driver, counted by the device and against its limit. The pool stays a watcher of
 *      the device. It is freed when the last of these queues has ended, or when the device closes.
 *  (3) A device that closes with unfinished work keeps its pools for good, like everything else it
 *      has: device/closing.c (4).
 *  (4) The owner's reference is dropped once, by the call that clears `owned`.
 *  (5) Children of the tier above end with the handle, before the memory is released.
 *  (6) A pool without memory waits for no call, since none can use it. Calls that submit work may
 *      create a pool and destroy it at once because another thread created one first: two such
 *      calls would wait for each other until the deadline.
 *  (7) A call that was inside makes no cache after the caches were dropped: a later call of its
 *      thread would find blocks of the ended pool there.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/cache/stamp.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "core/tracking/pool_tracking.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/ops.h"

#include <assert.h>

/* ------------------------------------------------------------------- waiting */

/* The queue of the next queue state by handle, with a reference; NULL after the last. */
static struct vr_queue_object *queue_behind(struct vr_pool *pool, struct vr_queue_id last) {
    vr_mutex_lock(&pool->lock);
    struct vr_queue_state *queue_state = vr_queue_state_behind(&pool->queue_states, last);
    struct vr_queue_object *queue = queue_state ? queue_state->queue : NULL;
    if (queue) {
        vr_handle_ref(queue->object.handle);
    }
    vr_mutex_unlock(&pool->lock);
    return queue;
}

/* A queue that was destroyed with unfinished work can still be polled; on a lost device nothing
   runs. */
vram_status vr_pool_settle_queue(struct vr_queue_object *queue, uint64_t deadline) {
    VR_OPERATION("vram_pool_destroy");
    vram_status status = VRAM_OK;
    if (!vr_load(&queue->finished, VR_ACQUIRE) && vr_queue_hold(queue)) {
        status = vr_queue_settle(queue, deadline);
        vr_queue_release(queue);
    }
    return status == VRAM_ERR_DEVICE_LOST ? VRAM_OK : status;
}

/* Waits for the queues that have a queue state, and forgets those that are done. Returns the first
   status that is not OK. */
static vram_status settle_queue_states(struct vr_pool *pool, uint64_t deadline) {
    struct vr_queue_object *queue;
    vram_status first = VRAM_OK;
    for (struct vr_queue_id last = {0}; (queue = queue_behind(pool, last));) {
        last.handle = queue->object.handle;
        vram_status status = vr_pool_settle_queue(queue, deadline);
        if (status == VRAM_OK) {
            vr_pool_forget_queue(pool, last);
        }
        first = first == VRAM_OK ? status : first;
        vr_leave(queue);
    }
    return first;
}

/* The same for queues without a queue state, because host memory ran out. */
static vram_status settle_owed(struct vr_pool *pool, uint64_t deadline) {
    vram_status first = VRAM_OK;
    for (struct vr_queue_id last = {0}; (last = vr_pool_stateless_behind(pool, last)).handle;) {
        struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, vr_queue_id_handle(last));
        vram_status status = queue ? vr_pool_settle_queue(queue, deadline) : VRAM_OK;
        if (status == VRAM_OK) {
            vr_pool_forget_queue(pool, last);
        }
        first = first == VRAM_OK ? status : first;
        if (queue) {
            vr_leave(queue);
        }
    }
    return first;
}

static vram_status settle_all(struct vr_pool *pool, uint64_t deadline) {
    vram_status owed = settle_owed(pool, deadline),
                queue_states = settle_queue_states(pool, deadline);
    return queue_states != VRAM_OK ? queue_states : owed;
}

/* Keeps (7). */
static void end_caches(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    vr_store(&pool->uncached, vr_load(&pool->uncached, VR_RELAXED) | VR_UNCACHED_ENDED, VR_RELAXED);
    vr_mutex_unlock(&pool->lock);
    vr_pool_drop_caches(pool, VR_NO_QUEUE);
}

/* If host memory for the entry runs out, the pool's memory is never freed. */
void vr_pool_end_waits_for(struct vr_pool *pool, const vram_queue *queue) {
    struct vr_queue_object *object = queue ? vr_handle_pin(VR_KIND_QUEUE, queue) : NULL;
    if (!object) {
        return; /* NULL, or all its work has ended */
    }
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_pool_ensure_queue(pool, object);
    vr_mutex_unlock(&pool->lock);
    vr_leave(object);
    if (status == VRAM_ERR_HOST_MEMORY) {
        vr_log(VRAM_LOG_ERROR, "work may still use the memory of pool \"%s\": it is kept",
               pool->name);
        vr_handle_ref(pool->object.handle);
    }
}

/* Whether a queue may still use the pool's memory. Under the lock. */
static bool is_busy(struct vr_pool *pool) {
    assert(vr_pool_is_locked(pool));
    return vr_queue_state_behind(&pool->queue_states, VR_NO_QUEUE) || pool->stateless_blocks;
}

/* ------------------------------------------------------------------ children */

vram_status vr_pool_child_add(struct vr_pool *pool, struct vr_pool_child *child) {
    vr_mutex_lock(&pool->lock);
    bool ended = pool->childless;
    if (!ended) {
        vr_list_append(&pool->children, &child->link);
    }
    vr_mutex_unlock(&pool->lock);
    return ended ? vr_fail(VRAM_ERR_STALE, "the pool was destroyed") : VRAM_OK;
}

vram_status vr_pool_child_publish(struct vr_pool *pool, enum vr_kind kind, struct vr_object *object,
                                  void (*destroy)(void *object), struct vr_pool_child *child,
                                  uint64_t *handle) {
    vram_status status = vr_handle_publish(kind, object, destroy, &object->handle);
    if (status != VRAM_OK) {
        destroy(object);
        return status;
    }
    uint64_t number = child->handle = object->handle;
    status = vr_pool_child_add(pool, child);
    if (status != VRAM_OK) {
        vr_handle_retire(number);
        vr_handle_unpin(number);
        return status;
    }
    *handle = number; /* once listed, it may have ended with its pool already */
    return VRAM_OK;
}

/* A pool without references has notified all its children before, and has none left. */
void vr_pool_child_remove(uint64_t handle, struct vr_pool *pool, struct vr_pool_child *child) {
    if (vr_handle_try_ref(handle)) {
        vr_mutex_lock(&pool->lock);
        vr_link_remove(&child->link);
        vr_mutex_unlock(&pool->lock);
        vr_handle_unpin(handle);
    }
}

/* The next child, off the list and with a reference; skips children that are already ending. NULL:
   there are no more, and none is added. */
static struct vr_pool_child *next_child(struct vr_pool *pool) {
    struct vr_pool_child *child = NULL;
    struct vr_link *link;
    vr_mutex_lock(&pool->lock);
    pool->childless = true;
    while (!child && (link = vr_list_first(&pool->children))) {
        vr_link_remove(link);
        child = VR_CONTAINER(link, struct vr_pool_child, link);
        child = vr_handle_try_ref(child->handle) ? child : NULL;
    }
    vr_mutex_unlock(&pool->lock);
    return child;
}

static void end_children(struct vr_pool *pool) {
    struct vr_pool_child *child;
    while ((child = next_child(pool))) {
        uint64_t handle = child->handle;
        child->pool_ended(child);
        vr_handle_unpin(handle);
    }
}

/* ------------------------------------------------------------------- keeping */

/* Drops the owner's reference or, with `for_good`, leaks it; keeps (4). */
static void drop_owner(struct vr_pool *pool, bool for_good) {
    if (vr_exchange(&pool->owned, false, VR_ACQ_REL)) {
        vr_mutex_lock(&pool->device->lock);
        vr_link_remove(&pool->watcher.link);
        vr_mutex_unlock(&pool->device->lock);
        if (!for_good) {
            vr_handle_unpin(pool->object.handle);
        }
    }
}

/* Keeps (2), unless the last queue has ended in the meantime. */
static void keep_pool(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    bool busy = is_busy(pool);
    pool->kept = busy;
    vr_mutex_unlock(&pool->lock);
    if (!busy) {
        drop_owner(pool, false);
    }
}

/* A queue of the device has ended: nothing is allocated or freed on it any more, not even from a
   cache. If its work is complete, too, the pool forgets it. */
static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    struct vr_pool *pool = VR_CONTAINER(watcher, struct vr_pool, watcher);
    struct vr_queue_id id = {queue};
    vr_pool_drop_caches(pool, id);
    if (!finished) {
        return;
    }
    vr_pool_forget_queue(pool, id);
    vr_mutex_lock(&pool->lock);
    bool free = pool->kept && !is_busy(pool);
    vr_mutex_unlock(&pool->lock);
    if (free) {
        drop_owner(pool, false);
    }
}

/* Keeps (3). Another thread may be destroying the pool at this moment; it then waits for nothing
   more. */
static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_pool *pool = VR_CONTAINER(watcher, struct vr_pool, watcher);
    (void)vr_handle_retire(pool->object.handle);
    end_children(pool);
    vr_watches_end(pool, vr_deadline_in(pool->device->context->wait_ns));
    vr_pool_drop_caches(pool, VR_NO_QUEUE);
    vr_tracking_end(pool);
    drop_owner(pool, !finished);
}

static bool pool_covers(struct vr_watcher *watcher, vram_addr addr, uint64_t bytes) {
    struct vr_pool *pool = VR_CONTAINER(watcher, struct vr_pool, watcher);
    bool found = false;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT && !found; part++) {
        found = vr_space_covers(pool->spaces[part], addr, bytes);
    }
    vr_mutex_unlock(&pool->lock);
    return found;
}

static bool pool_rests(struct vr_watcher *watcher, enum vr_rest how, vram_addr addr,
                       uint64_t bytes) {
    struct vr_pool *pool = VR_CONTAINER(watcher, struct vr_pool, watcher);
    vr_mutex_lock(&pool->lock);
    bool rests = vr_sleep_rests(pool->spaces[VR_PART_SMALL], how, addr, bytes) ||
                 vr_sleep_rests(pool->spaces[VR_PART_LARGE], how, addr, bytes);
    vr_mutex_unlock(&pool->lock);
    return rests;
}

void vr_pool_end_init(struct vr_pool *pool) {
    pool->watcher.queue_ended = queue_ended;
    pool->watcher.closing = device_closing;
    pool->watcher.covers = pool_covers;
    pool->watcher.rests = pool_rests;
    vr_list_init(&pool->children);
    vr_store(&pool->owned, true, VR_RELAXED);
}

/* -------------------------------------------------------------------- ending */

static uint64_t held_bytes(struct vr_pool *pool) {
    uint64_t bytes = 0;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT && pool->spaces[part]; part++) {
        struct vr_space_stats stats;
        vr_space_stats_get(pool->spaces[part], &stats);
        bytes += stats.reserved_bytes;
    }
    vr_mutex_unlock(&pool->lock);
    return bytes;
}

static bool is_unused(struct vr_pool *pool) {
    return !held_bytes(pool) && !vr_load(&pool->has_other_blocks, VR_RELAXED);
}

static vram_status report_kept(struct vr_pool *pool, vram_status status) {
    unsigned long long bytes = held_bytes(pool);
    vr_log(VRAM_LOG_WARN, "pool \"%s\" was destroyed with unfinished work; its %llu bytes are kept",
           pool->name, bytes);
    return vr_fail(
        status,
        "work that may use the pool is unfinished: %s; its %llu bytes are kept until the "
        "queues end or the device is closed",
        vr_status_text(status), bytes);
}

vram_status vr_pool_end(struct vr_pool *pool) {
    VR_OPERATION("vram_pool_destroy");
    struct vram_error error;
    (void)vr_guard_release(pool); /* while its memory can still be read */
    if (!vr_handle_retire(pool->object.handle)) {
        return vr_fail(VRAM_ERR_STALE, "the pool is already being destroyed");
    }
    uint64_t deadline = vr_deadline_in(pool->device->context->wait_ns);
    vr_error_save(&error);
    end_children(pool);
    vr_guard_end(pool);
    vr_watches_end(pool, deadline);
    end_caches(pool);
    vr_tracking_end(pool);
    bool unused = is_unused(pool); /* keeps (6) */
    bool readers_done = unused || vr_readers_wait(pool->device, deadline);
    vram_status status = unused || vr_submits_wait(pool->device, deadline)
                             ? settle_all(pool, deadline)
                             : VRAM_ERR_TIMEOUT;
    vr_error_restore(&error); /* keeps (1) */
    if (status != VRAM_OK) {
        status = report_kept(pool, status);
    } else if (!readers_done) {
        status = report_kept(pool, VRAM_ERR_TIMEOUT);
    }
    if (status == VRAM_OK) {
        drop_owner(pool, false);
    } else if (readers_done) {
        keep_pool(pool);
    }
    return status;
}

vram_status vr_pool_destroy(vram_pool *handle) {
    VR_OPERATION("vram_pool_destroy");
    void *pool;
    vram_status status = vr_end_enter(VR_KIND_POOL, handle, &pool);
    if (pool) {
        status = vr_pool_end(pool);
        vr_leave(pool);
    }
    return status;
}

vram_status vram_pool_destroy(vram_pool *handle) {
    return vr_pool_destroy(handle);
}

/* ---------------------------------------------------------------- destroying */

/* Frees the uses of blocks that wait, and of blocks that are still live, whose tags are charged
   until now. */
static void free_uses(struct vr_pool *pool) {
    uint64_t at = 0;
    for (struct vr_block *block; (block = vr_block_table_next(&pool->table, &at));) {
        struct vr_tag *tag = vr_load(&block->tag, VR_RELAXED);
        if (tag && vr_block_is_live(block)) {
            vr_tag_release(tag, vr_load(&block->bytes, VR_RELAXED),
                           vr_load(&block->requested, VR_RELAXED));
        }
        while (block->uses) {
            struct vr_uses *use = block->uses;
            block->uses = use->next;
            vr_mem_free(use);
        }
    }
}

/* Calls that were inside when the pool was destroyed may have added queue states since. If their
   work does not finish, the pool is kept for good: no later call would check again. */
void vr_pool_free(void *memory) {
    struct vr_pool *pool = memory;
    struct vram_error error;
    uint64_t device = pool->device->object.handle;
    vr_error_save(&error);
    vr_pool_drop_caches(pool, VR_NO_QUEUE);
    if (settle_all(pool, vr_deadline_in(pool->device->context->wait_ns)) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "work that uses pool \"%s\" never finished; its memory is kept",
               pool->name);
        vr_error_restore(&error);
        return;
    }
    assert(!pool->leaving_plans && !pool->stateless_blocks &&
           vr_list_empty(&pool->children)); /* (5) */
    free_uses(pool);
    vr_store(&pool->requested_now, 0, VR_RELAXED);
    vr_store(&pool->requested_more, 0, VR_RELAXED);
    vr_pool_report_up(pool);
    vr_fallback_end(pool);
    vr_pool_release_all(pool);
    vr_pool_forget_sleep(pool);
    vr_guard_forget(pool);
    vr_addresses_end(pool);
    vr_space_destroy(pool->spaces[VR_PART_SMALL]);
    vr_space_destroy(pool->spaces[VR_PART_LARGE]);
    vr_central_free(&pool->central);
    vr_block_table_free(&pool->table);
    vr_track_free(pool->track);
    vr_mutex_destroy(&pool->lock);
    vr_mem_free(pool);
    vr_error_restore(&error);
    vr_handle_unpin(device);
}
