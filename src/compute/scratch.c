/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.c: host memory that copies go through.
 *
 * Work that was not seen to end may still read or write it. Such memory is not freed but kept with the scheduler, and
 * freed when the scheduler ends and its queue is through. If the queue is not even then, it stays for ever: a
 * leak is better than memory that a device writes into while somebody else has it.
 *
 *   | queue, next | what the caller has ...
 *   ^ from malloc   ^ HEAD bytes on
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

enum { HEAD = 64 };

struct vr_scratch {
    struct vr_scratch *next;
    vram_queue *queue; /* that used it; NULL: any of the scheduler's */
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

/* What a wait tells of the work before it. A driver that fails to answer is taken at its word, as everywhere. */
bool vr_work_goes_on(vram_status waited) {
    return waited == VRAM_ERR_TIMEOUT || waited == VRAM_ERR_CAPTURE || waited == VRAM_ERR_SHUTDOWN;
}

void vr_scratch_free(struct vr_scheduler *scheduler, void *memory, vram_queue *queue,
                     vram_status waited) {
    if (!memory) {
        return;
    }
    struct vr_scratch *scratch = (struct vr_scratch *)(void *)((char *)memory - HEAD);
    if (!vr_work_goes_on(waited)) {
        vr_mem_free(scratch);
        return;
    }
    scratch->queue = queue;
    vr_mutex_lock(&scheduler->lock);
    scratch->next = scheduler->kept;
    scheduler->kept = scratch;
    vr_mutex_unlock(&scheduler->lock);
}

/* Whether nothing of the queue is left to run; waits for it like its end would. */
static bool is_through(vram_queue *queue) {
    return vr_handle_was(VR_KIND_QUEUE, queue) ||
           vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK;
}

void vr_scratch_end(struct vr_scheduler *scheduler) {
    struct vram_error error;
    struct vr_scratch *scratch = scheduler->kept, *next;
    vr_error_save(&error);
    for (scheduler->kept = NULL; scratch; scratch = next) {
        bool through = true;
        next = scratch->next;
        for (uint32_t i = 0; !scratch->queue && i < scheduler->lane_count; i++) {
            through = through && is_through(scheduler->lanes[i]);
        }
        if (through && (!scratch->queue || is_through(scratch->queue))) {
            vr_mem_free(scratch);
        }
    }
    vr_error_restore(&error);
}
