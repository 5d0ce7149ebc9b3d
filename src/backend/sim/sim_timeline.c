/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_timeline.c: words, which tell how far a queue's work is complete; signals, waits and polls.
 */
#include "backend/sim/sim_backend.h"

#include "base/memory.h"

/* ------------------------------------------------------------------------ words */

/* A word that a queue of this device has left, with its value, or a new one. */
struct vr_sim_word *vr_sim_word_take(struct vr_sim_device *owner) {
    struct vr_list *words = &owner->words;
    struct vr_sim_word *word = NULL;
    for (struct vr_link *link = vr_list_first(words); link; link = vr_list_next(words, link)) {
        word = VR_CONTAINER(link, struct vr_sim_word, link);
        if (!word->taken) {
            word->taken = true;
            return word;
        }
    }
    word = vr_mem_alloc(1, sizeof *word, "queue_create");
    if (word) {
        word->taken = true;
        vr_list_append(words, &word->link);
    }
    return word;
}

/* ------------------------------------------------------ signals, waits and polls */

/* Several threads may signal one queue at once, so values may come out of order; src/device ensures
   that the highest comes last. The word takes each value in order of submission. */
vram_status vr_sim_queue_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_sim_queue *own = queue->impl;
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_SIGNAL, value, 0)) {
        return vr_sim_end(&call);
    }
    struct vr_sim_work *work = vr_sim_work_make(&call, queue);
    if (work) {
        work->value = value;
        own->submitted = value > own->submitted ? value : own->submitted;
        vr_sim_work_submit(call.sim, work);
    }
    return vr_sim_end(&call);
}

/* Makes work wait for a value of another queue, unless it has passed, or never will because its
   device is lost. */
static void work_wait_for(struct vr_sim_work *work, struct vr_sim_queue *other, uint64_t value) {
    work->value = value;
    if (vr_load(&other->word->value, VR_RELAXED) < value && !other->device->gpu->lost) {
        vr_list_append(&other->waiters, &work->wait_link);
    }
}

vram_status vr_sim_queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_sim_queue *theirs = other->impl;
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_AFTER, value, 0)) {
        return vr_sim_end(&call);
    }
    if (theirs->device->sim != call.sim) {
        vr_sim_violation(&call, "the other queue is of another machine");
    } else if (theirs->submitted < value) {
        vr_sim_violation(&call, "the other queue was not told to signal %llu yet",
                         (unsigned long long)value);
    } else {
        struct vr_sim_work *work = vr_sim_work_make(&call, queue);
        if (work) {
            work_wait_for(work, theirs, value);
            vr_sim_work_submit(call.sim, work);
        }
    }
    return vr_sim_end(&call);
}

/* A caller that polls has nothing else to do, so time advances: to the next time at which work
   completes and, as polls follow each other, over ever more of them. A wait for n pieces of work
   takes about log n polls. */
vram_status vr_sim_queue_poll(struct vr_queue *queue) {
    struct vr_sim_queue *own = queue->impl;
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_POLL, 0, 0)) {
        return vr_sim_end(&call);
    }
    const struct vr_list *work = &own->stream->work;
    if (!vr_list_empty(work)) {
        own->polls += own->polls < 16;
        uint32_t left = 1u << (own->polls - 1);
        while (left-- && !vr_list_empty(work) && vr_sim_step(call.sim)) {
        }
    }
    if (call.gpu->lost) { /* the last step may have lost it */
        vr_sim_lost_result(&call);
    } else if (!vr_list_empty(work)) {
        call.code = VRAM_SIM_NOT_READY;
    }
    return vr_sim_end(&call);
}
