/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.c: host memory that copies go through, and blocks whose users the pool could not be told.
 *
 * Work that is not known to have ended may still read or write this memory: a wait that failed
 * proves nothing. Such memory is not freed.
 *
 *  (1) Memory is free when each queue that may use it was seen idle, or has ended. The driver is
 *      polled once, immediately: after most failures no work is pending.
 *  (2) Memory in use is kept with the scheduler, and checked whenever a later wait succeeds. A
 *      queue that is busy even then is marked: the memory is free when that point has passed,
 *      whatever is submitted behind it.
 *  (3) A scheduler that ends has ended its queues, and the driver has completed their work. Memory
 *      that another queue of the program may still use is passed to the device, which frees it when
 *      it is closed.
 *
 *   | next, queue, points | the caller's memory ...
 *   ^ from malloc           ^ HEAD bytes on
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

enum { HEAD = 192 };

struct vr_scratch {
    struct vr_scratch *next;          /* first: vram_host_free_later uses it afterwards */
    vram_queue *queue;                /* that used it; NULL: any of the scheduler's */
    vram_point points[VR_QUEUES_MAX]; /* of the queue, or of each slot; value 0: not marked */
    vram_addr block;                  /* of the scheduler's pool, freed with it; 0: none */
};

_Static_assert(sizeof(struct vr_scratch) <= HEAD, "the head of scratch memory has room");

void *vr_scratch_alloc(uint64_t count, uint64_t bytes) {
    uint64_t all;
    if (!vr_mul(count, bytes, &all) || !vr_add(all, HEAD, &all) || all > SIZE_MAX) {
        all = SIZE_MAX; /* refused like any other size that is too large */
    }
    char *memory = vr_mem_alloc(1, (size_t)all, vr_operation());
    return memory ? memory + HEAD : NULL;
}

/* --------------------------------------------------------------------- in use */

/* The queues that may use it, one after another; NULL: no more. */
static vram_queue *queue_at(const struct vr_scheduler *scheduler, const struct vr_scratch *scratch,
                            uint32_t i) {
    if (scratch->queue) {
        return i == 0 ? scratch->queue : NULL;
    }
    return i < scheduler->queue_count ? scheduler->queues[i] : NULL;
}

/* A lost device runs no work. */
static bool is_over(vram_status status) {
    return status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST;
}

/* Polls the driver, once. A handle that was never a queue has no work. For a queue that is ending a
   poll returns VRAM_ERR_STALE, but its work may go on; once it has ended, all its points have
   passed, even those that were never made. */
static bool is_idle(vram_queue *queue) {
    vram_point last = {.queue = queue, .value = UINT64_MAX};
    vram_status status = vram_queue_poll(queue);
    return is_over(status) || status == VRAM_ERR_INVALID || is_over(vram_point_poll(last));
}

/* Whether a queue may still use it; keeps (1) and, with `marks`, (2). */
static bool is_used(const struct vr_scheduler *scheduler, struct vr_scratch *scratch, bool marks) {
    struct vram_error error;
    vram_queue *queue;
    bool used = false;
    vr_error_save(&error);
    for (uint32_t i = 0; !used && (queue = queue_at(scheduler, scratch, i)); i++) {
        vram_point *point = &scratch->points[i];
        used = !is_idle(queue) && !(point->value && is_over(vram_point_poll(*point)));
        if (used && marks && !point->value && vram_queue_mark(queue, point) != VRAM_OK) {
            *point = (vram_point){0};
        }
    }
    vr_error_restore(&error);
    return used;
}

/* --------------------------------------------------------------------- freeing */

static void keep_scratch(struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
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

/* No work uses it any more. */
static void release_scratch(struct vr_scheduler *scheduler, struct vr_scratch *scratch) {
    vr_block_free_after(scheduler->pool, scratch->block, NULL); /* the pool may have ended */
    vr_mem_free(scratch);
}

static void free_or_keep(struct vr_scheduler *scheduler, struct vr_scratch *scratch, bool marks) {
    if (is_used(scheduler, scratch, marks)) {
        keep_scratch(scheduler, scratch);
    } else {
        release_scratch(scheduler, scratch);
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
        free_or_keep(scheduler, scratch, false);
        return;
    }
    vr_mem_free(scratch);
    for (scratch = take_kept(scheduler); scratch; scratch = next) { /* keeps (2) */
        next = scratch->next;
        free_or_keep(scheduler, scratch, true);
    }
}

void vr_scratch_keep_block(struct vr_scheduler *scheduler, vram_addr block, vram_queue *queue) {
    VR_OPERATION("vram_free");
    struct vram_error error;
    if (!block) {
        return;
    }
    vr_error_save(&error);
    struct vr_scratch *scratch = vr_mem_alloc(1, sizeof *scratch, vr_operation());
    vr_error_restore(&error);
    if (scratch) {
        scratch->queue = queue;
        scratch->block = block;
        keep_scratch(scheduler, scratch);
    }
}

/* Keeps (3). A closing device keeps what never finished. */
void vr_scratch_end(struct vr_scheduler *scheduler) {
    struct vram_error error;
    struct vr_scratch *next;
    vr_error_save(&error);
    for (struct vr_scratch *scratch = take_kept(scheduler); scratch; scratch = next) {
        next = scratch->next;
        if (is_used(scheduler, scratch, false)) {
            (void)vram_host_free_later(scheduler->device, scratch);
        } else {
            release_scratch(scheduler, scratch);
        }
    }
    vr_error_restore(&error);
}
