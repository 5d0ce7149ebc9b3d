/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.c: host memory that copies go through, and blocks that the pool cannot be told the users of.
 *
 * Work that was not seen to end may still read or write it, also when the driver did not say: a wait that failed proves
 * nothing. Such memory is not freed.
 *
 *  (1) It is stamped, as a pool's blocks are, with the next number of each queue that may use it, and is free when all
 *      of them have passed. The driver is asked once, at once: most failures leave nothing under way.
 *  (2) What has not passed is kept with the scheduler, and looked at whenever a later wait succeeds.
 *  (3) A scheduler that ends has ended its queues, and the driver finished what was left in them. What another queue of
 *      the program's has not passed even then goes to the device, which frees it when it is closed.
 *
 *   | next, queue, stamps | what the caller has ...
 *   ^ from malloc           ^ HEAD bytes on
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

enum { HEAD = 128 };

struct vr_scratch {
    struct vr_scratch *next;       /* first: vr_device_free_later has it after us */
    vram_queue *queue;             /* that used it; NULL: any of the scheduler's */
    uint64_t stamps[VR_LANES_MAX]; /* the queue's, or each lane's */
    vram_addr block;               /* of the scheduler's pool, freed with it; 0: none */
};

_Static_assert(sizeof(struct vr_scratch) <= HEAD, "the head of scratch memory has room");

void *vr_scratch_alloc(uint64_t count, uint64_t bytes, const char *operation) {
    uint64_t all;
    if (!vr_mul(count, bytes, &all) || !vr_add(all, HEAD, &all) || all > SIZE_MAX) {
        all = SIZE_MAX; /* refused like any other size that is not to be had */
    }
    char *memory = vr_mem_alloc(1, (size_t)all, operation);
    return memory ? memory + HEAD : NULL;
}

/* --------------------------------------------------------------------- stamps */

/* The queues that may use it, one after the other; NULL: no more. */
static vram_queue *queue_at(const struct vr_scheduler *scheduler, const struct vr_scratch *scratch,
                            uint32_t i) {
    if (scratch->queue) {
        return i == 0 ? scratch->queue : NULL;
    }
    return i < scheduler->lane_count ? scheduler->lanes[i] : NULL;
}

/* Keeps (1): the number that comes behind all that the queues were given so far. */
static void stamp(const struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
    vram_queue *handle;
    for (uint32_t i = 0; (handle = queue_at(scheduler, scratch, i)); i++) {
        struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
        if (queue) {
            scratch->stamps[i] = vr_load(&queue->issued, VR_ACQUIRE) + 1;
            vr_leave(queue);
        }
    }
}

/* Asks the driver, once. A lost device runs nothing any more. */
static bool has_passed(struct vr_queue_object *queue, uint64_t value) {
    vr_queue_look(queue, value);
    return vr_queue_passed(queue, value) || vr_load(&queue->base.device->lost, VR_ACQUIRE);
}

/* A queue that has not passed its stamp, pinned; NULL: all have, or have ended. */
static struct vr_queue_object *user_of(const struct vr_scheduler *scheduler,
                                       const struct vr_scratch *scratch) {
    vram_queue *handle;
    for (uint32_t i = 0; (handle = queue_at(scheduler, scratch, i)); i++) {
        struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
        if (queue && !has_passed(queue, scratch->stamps[i])) {
            return queue;
        }
        if (queue) {
            vr_leave(queue);
        }
    }
    return NULL;
}

static bool is_used(const struct vr_scheduler *scheduler, const struct vr_scratch *scratch) {
    struct vr_queue_object *queue = user_of(scheduler, scratch);
    if (queue) {
        vr_leave(queue);
    }
    return queue != NULL;
}

/* --------------------------------------------------------------------- freeing */

static void keep(struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
    vr_mutex_lock(&scheduler->lock);
    scratch->next = scheduler->kept;
    scheduler->kept = scratch;
    vr_mutex_unlock(&scheduler->lock);
}

static struct vr_scratch *take_kept(struct vr_scheduler *scheduler) {
    vr_mutex_lock(&scheduler->lock);
    struct vr_scratch *kept = scheduler->kept;
    scheduler->kept = NULL;
    vr_mutex_unlock(&scheduler->lock);
    return kept;
}

/* Nobody uses it any more. */
static void release(struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
    (void)scheduler;
    if (scratch->block) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vram_free(scratch->block, NULL); /* the pool may be gone */
        vr_error_restore(&error);
    }
    vr_mem_free(scratch);
}

static void free_or_keep(struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
    if (is_used(scheduler, scratch)) {
        keep(scheduler, scratch);
    } else {
        release(scheduler, scratch);
    }
}

void vr_scratch_free(struct vr_scheduler *scheduler, void *memory, vram_queue *queue,
                     vram_status waited) {
    if (!memory) {
        return;
    }
    struct vr_scratch *scratch = (struct vr_scratch *)(void *)((char *)memory - HEAD), *next;
    if (waited != VRAM_OK) {
        scratch->queue = queue;
        stamp(scheduler, scratch);
        free_or_keep(scheduler, scratch);
        return;
    }
    vr_mem_free(scratch);
    for (scratch = take_kept(scheduler); scratch; scratch = next) { /* keeps (2) */
        next = scratch->next;
        free_or_keep(scheduler, scratch);
    }
}

void vr_scratch_keep_block(struct vr_scheduler *scheduler, vram_addr block, vram_queue *queue) {
    struct vram_error error;
    if (!block) {
        return;
    }
    vr_error_save(&error);
    struct vr_scratch *scratch = vr_mem_alloc(1, sizeof *scratch, "vram_free");
    vr_error_restore(&error);
    if (scratch) {
        scratch->queue = queue;
        scratch->block = block;
        stamp(scheduler, scratch);
        keep(scheduler, scratch);
    }
}

/* Keeps (3). */
void vr_scratch_end(struct vr_scheduler *scheduler) {
    struct vram_error error;
    struct vr_scratch *next;
    vr_error_save(&error);
    for (struct vr_scratch *scratch = take_kept(scheduler); scratch; scratch = next) {
        next = scratch->next;
        struct vr_queue_object *queue = user_of(scheduler, scratch);
        if (!queue) {
            release(scheduler, scratch);
            continue;
        }
        vr_device_free_later(queue->device, scratch);
        vr_leave(queue);
    }
    vr_error_restore(&error);
}
