/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.c: stamps of queues: their numbers in a space, and finding out whether they have passed.
 */
#include "core/cache/stamp.h"

#include "base/error.h"

#include <assert.h>

vram_status vr_pool_ensure_queue(struct vr_pool *pool, struct vr_queue_object *queue) {
    assert(vr_pool_is_locked(pool));
    return queue ? vr_queue_state_ensure(&pool->queue_states, queue) : VRAM_OK;
}

/* Keeps order.c (2). */
uint64_t vr_pool_queue_in_space(struct vr_pool *pool, struct vr_queue_id queue) {
    assert(vr_pool_is_locked(pool) && !(queue.handle & VR_HOME_TAGGED)); /* block.h (6) */
    if (!queue.handle || !(pool->flags & VRAM_POOL_DETERMINISTIC)) {
        return queue.handle;
    }
    struct vr_queue_state *queue_state = vr_queue_state_find(&pool->queue_states, queue);
    return queue_state ? queue_state->number.number : 0;
}

struct vr_stamp vr_pool_stamp_to_space(struct vr_pool *pool, struct vr_queue_stamp stamp) {
    return (struct vr_stamp){vr_pool_queue_in_space(pool, stamp.queue), stamp.value};
}

struct vr_queue_stamp vr_pool_stamp_from_space(struct vr_pool *pool, struct vr_stamp stamp) {
    struct vr_queue_id queue = {stamp.queue};
    if (stamp.queue && pool->flags & VRAM_POOL_DETERMINISTIC) {
        struct vr_queue_state *queue_state =
            vr_queue_state_numbered(&pool->queue_states, (struct vr_queue_state_id){stamp.queue});
        queue = queue_state ? queue_state->id : VR_NO_QUEUE;
    }
    return (struct vr_queue_stamp){queue, stamp.value};
}

void vr_pool_forget_queue_state(struct vr_pool *pool, const struct vr_queue_state *queue_state) {
    assert(vr_pool_is_locked(pool) && queue_state->number.number >= 2);
    for (int part = 0; part < VR_PART_COUNT && (pool->flags & VRAM_POOL_DETERMINISTIC); part++) {
        vr_space_forget(pool->spaces[part], queue_state->number.number);
    }
}

/* ------------------------------------------------------------------ marking */

/* A queue that is ending accepts no marks, but can be polled until it has ended. */
uint64_t vr_pool_mark(struct vr_pool *pool, struct vr_queue_stamp stamp, bool ours) {
    VR_OPERATION("vram_alloc");
    vram_point point = {NULL, 0};
    void *entered;
    if (vr_enter(VR_KIND_QUEUE, vr_queue_id_handle(stamp.queue), &entered) != VRAM_OK) {
        return 0; /* it has ended: all its stamps have passed */
    }
    struct vr_queue_object *queue = entered;
    if (vr_queue_is_open(queue) && (!queue->base.adopted || ours)) {
        vr_fetch_add(&pool->calls[VR_CALL_MARK], 1, VR_RELAXED);
        (void)vr_queue_submit_mark(queue, &point);
    } else {
        vr_queue_look(queue, stamp.value);
    }
    vr_leave(queue);
    return point.value;
}

static void ask_whether_idle(struct vr_queue_stamp stamp) {
    VR_OPERATION("vram_alloc");
    void *queue;
    if (vr_enter(VR_KIND_QUEUE, vr_queue_id_handle(stamp.queue), &queue) == VRAM_OK) {
        vr_queue_look(queue, stamp.value);
        vr_leave(queue);
    }
}

vram_status vr_pool_await(struct vr_queue_stamp stamp, uint64_t timeout) {
    VR_OPERATION("vram_alloc");
    void *entered;
    vram_status status = vr_enter(VR_KIND_QUEUE, vr_queue_id_handle(stamp.queue), &entered);
    if (status != VRAM_OK) {
        return status == VRAM_ERR_STALE ? VRAM_OK : status;
    }
    struct vr_queue_object *queue = entered;
    if (!vr_load(&queue->finished, VR_ACQUIRE)) {
        status = stamp.value <= vr_load(&queue->issued, VR_RELAXED)
                     ? vr_queue_wait_value(queue, stamp.value, timeout)
                     : VRAM_ERR_NOT_READY;
    }
    vr_leave(queue);
    return status;
}

bool vr_pool_is_region(struct vr_queue_id id) {
    struct vr_queue_object *queue =
        id.handle ? vr_handle_pin(VR_KIND_QUEUE, vr_queue_id_handle(id)) : NULL;
    bool region = queue && vr_load(&queue->captured, VR_ACQUIRE);
    if (queue) {
        vr_leave(queue);
    }
    return region;
}

/* Marks all queues with unmarked stamps, or with `ask` only polls whether they are idle. */
static void mark_all(struct vr_pool *pool, bool ask) {
    struct vr_queue_stamp stamp = {{0}, 0};
    for (;;) {
        vr_mutex_lock(&pool->lock);
        stamp = vr_queue_state_unmarked(&pool->queue_states, stamp.queue);
        vr_mutex_unlock(&pool->lock);
        if (!stamp.queue.handle) {
            return;
        }
        if (ask) {
            ask_whether_idle(stamp);
        } else {
            vr_pool_mark(pool, stamp, false);
        }
    }
}

/* Whether free memory in either space waits for work. */
static bool is_pending(struct vr_pool *pool) {
    struct vr_stamp stamp;
    bool pending = false;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT && !pending; part++) {
        pending = vr_space_pending(pool->spaces[part], &stamp);
    }
    vr_mutex_unlock(&pool->lock);
    return pending;
}

/* Polls every queue with unpassed stamps once. Whether any could be polled. */
static bool ask_all(struct vr_pool *pool) {
    struct vr_queue_stamp stamp = {{0}, 0};
    bool answered = false;
    while (is_pending(pool)) {
        vr_mutex_lock(&pool->lock);
        stamp = vr_queue_state_unpassed(&pool->queue_states, stamp.queue);
        vr_mutex_unlock(&pool->lock);
        if (!stamp.queue.handle) {
            break;
        }
        vram_status status = vr_pool_await(stamp, 0);
        answered = answered || status == VRAM_OK || status == VRAM_ERR_TIMEOUT;
    }
    return answered;
}

bool vr_pool_poll(struct vr_pool *pool, bool idle) {
    struct vram_error error;
    if (pool->flags & VRAM_POOL_DETERMINISTIC) {
        return false; /* such a pool does not check progress */
    }
    assert(vr_locks_held() == 0); /* polling a queue may call the driver */
    vr_error_save(&error);
    if (idle) {
        mark_all(pool, true);
    }
    mark_all(pool, false);
    bool answered = ask_all(pool);
    vr_error_restore(&error);
    return answered;
}
