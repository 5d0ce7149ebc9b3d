/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.c: deterministic pools, whose addresses depend only on the order of the program's calls.
 *
 *  (1) The progress of a device has no effect. The spaces do not check which work of a queue is
 *      complete: a queue finds what was freed on it, and on queues that have ended since.
 *  (2) External numbers have no effect either: a queue is known by its number in the order in which
 *      the pool first saw them.
 *  (3) A block that several queues have used is free in stream order of the queue it was freed on;
 *      that queue waits for the others on the device.
 *  (4) A trim waits for all work, so that what it releases does not depend on progress. It leaves
 *      alone what was freed in a captured region, whose graphs may run at any time until it ends:
 *      begin and end are calls of the program too, so (1) holds.
 *
 * Pools with safety modes use vr_pool_join_block, in the same way.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/device_calls.h"

#include <assert.h>

/* Waits for all frees on the queue after `last`, including those made meanwhile. *last becomes its
   handle, or 0 after the last one. */
static vram_status finish_next(struct vr_pool *pool, struct vr_queue_id *last, uint64_t deadline) {
    VR_OPERATION("vram_pool_trim");
    struct vr_queue_stamp waited = {{0}, 0};
    for (;;) {
        vr_mutex_lock(&pool->lock);
        struct vr_queue_state *queue_state = vr_queue_state_next(&pool->queue_states, *last);
        struct vr_queue_stamp stamp = {{0}, 0};
        if (queue_state) {
            stamp = (struct vr_queue_stamp){queue_state->id, queue_state->stamped};
        }
        bool done = !queue_state ||
                    (vr_queue_id_same(stamp.queue, waited.queue) && stamp.value == waited.value);
        if (done && queue_state) {
            vr_pool_forget_queue_state(pool, queue_state);
        }
        vr_mutex_unlock(&pool->lock);
        if (done || vr_pool_is_region(stamp.queue)) {
            *last = stamp.queue;
            return VRAM_OK;
        }
        vr_pool_mark(pool, stamp, false);
        if (vr_pool_await(stamp, vr_deadline_left(deadline)) != VRAM_OK) {
            return vr_fail(VRAM_ERR_TIMEOUT,
                           "the work of a queue was not complete at the deadline");
        }
        waited = stamp;
    }
}

/* Keeps (4). */
vram_status vr_pool_finish(struct vr_pool *pool) {
    uint64_t deadline = vr_deadline_in(pool->device->context->wait_ns);
    struct vr_queue_id last = {0};
    struct vram_error error;
    vr_error_save(&error);
    vram_status status;
    while ((status = finish_next(pool, &last, deadline)) == VRAM_OK && last.handle) {
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

/* Makes the queue wait on the device for the work of another one so far. */
static bool wait_for_other(struct vr_queue_object *queue, struct vr_queue_id other) {
    vram_point point;
    return vr_submit_mark(vr_queue_id_handle(other), &point) == VRAM_OK &&
           vr_queue_submit_after(queue, point) == VRAM_OK;
}

/* The same for the block's other users. Those it cannot wait for stay in the list. */
static void wait_for_uses(struct vr_queue_object *queue, struct vr_block *block) {
    for (struct vr_uses **at = &block->uses; *at;) {
        struct vr_uses *use = *at;
        if (wait_for_other(queue, use->stamp.queue)) {
            *at = use->next;
            vr_mem_free(use);
        } else {
            at = &use->next;
        }
    }
}

/* The same for the block's home: block.h (5). If it cannot, the home stays set, and the free waits
   for it. */
static void wait_for_home(struct vr_queue_object *queue, struct vr_block *block) {
    if (block->home.handle && block->home.handle != queue->object.handle &&
        wait_for_other(queue, block->home)) {
        block->home.handle = 0;
    }
}

/* A queue for a free without one: the block's home, or the first of its users; NULL if all have
   ended. */
static struct vr_queue_object *enter_user(const struct vr_block *block) {
    VR_OPERATION("vram_free");
    void *entered;
    if (block->home.handle &&
        vr_queue_enter(vr_queue_id_handle(block->home), &entered) == VRAM_OK) {
        return entered;
    }
    for (struct vr_uses *use = block->uses; use; use = use->next) {
        if (vr_queue_enter(vr_queue_id_handle(use->stamp.queue), &entered) == VRAM_OK) {
            return entered;
        }
    }
    return NULL;
}

/* Keeps (3). */
void vr_pool_return_ordered(struct vr_pool *pool, struct vr_queue_object *queue,
                            struct vr_block *block) {
    struct vr_queue_object *user = NULL; /* for a free without a queue; entered */
    struct vram_error error;
    assert(pool->flags & VRAM_POOL_DETERMINISTIC && vr_block_is_cached(block));
    vr_error_save(&error);
    if (!queue) {
        queue = user = enter_user(block);
    }
    if (queue) {
        wait_for_home(queue, block);
        wait_for_uses(queue, block);
    }
    vr_error_restore(&error);
    vr_pool_return_new(pool, queue, block);
    if (user) {
        vr_leave(user);
    }
}

/* --------------------------------------------------------------------- joining */

/* Makes the queue wait for the point. If it cannot, the host waits; false: that wait failed. */
static bool join_point(struct vr_queue_object *queue, vram_point point) {
    return vr_queue_submit_after(queue, point) == VRAM_OK ||
           vr_point_wait(point, VRAM_TIMEOUT_DEFAULT) == VRAM_OK;
}

static bool has_ended(struct vr_queue_id id) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, vr_queue_id_handle(id));
    bool ended = !queue || vr_load(&queue->finished, VR_ACQUIRE);
    if (queue) {
        vr_leave(queue);
    }
    return ended;
}

/* The same for the work of another queue so far, and its mark. One that is ending or captured
   cannot be marked. */
static bool join_other(struct vr_queue_object *queue, struct vr_queue_id other, vram_point *point) {
    return vr_submit_mark(vr_queue_id_handle(other), point) == VRAM_OK ? join_point(queue, *point)
                                                                       : has_ended(other);
}

/* The same for the work of the block's home: block.h (5). */
static bool join_home(struct vr_queue_object *queue, struct vr_block *block) {
    struct vr_queue_id home = {block->home.handle & ~(uint64_t)VR_HOME_TAGGED};
    vram_point point;
    bool own = home.handle == queue->object.handle;
    bool joined = !home.handle || own || join_other(queue, home, &point);
    if (joined && !own) {
        block->home.handle &= VR_HOME_TAGGED;
    }
    return joined;
}

bool vr_pool_join_block(struct vr_queue_object *queue, struct vr_block *block) {
    bool joined = join_home(queue, block);
    for (struct vr_uses *use = block->uses; use && joined; use = use->next) {
        vram_point point = {NULL, 0};
        joined = join_other(queue, use->stamp.queue, &point);
        use->stamp.value = point.value; /* the block need not wait for more */
    }
    return joined;
}
