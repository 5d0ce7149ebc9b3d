/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_queue.c: queues, and the work they are given.
 *
 * A queue is src/device's view; a stream is the device's. Each queue of our own has a stream of its
 * own, whose native name is a ticket. Adopting a native queue that is known already, ours or the
 * program's, shares the stream, so that work keeps one order whichever queue submitted it.
 */
#include "backend/sim/sim_config.h"
#include "backend/sim/sim_machine.h"

#include "base/memory.h"
#include "base/size.h"

/* ---------------------------------------------------------------------- streams */

/* The stream that some queue of this device uses under this native name; NULL when none does. */
static struct vr_sim_stream *stream_of_native(const struct vr_sim_open *open, const void *native) {
    for (struct vr_link *link = vr_list_first(&open->queues); link;
         link = vr_list_next(&open->queues, link)) {
        struct vr_sim_stream *stream = VR_CONTAINER(link, struct vr_sim_queue, link)->stream;
        if (stream->native == native) {
            return stream;
        }
    }
    return NULL;
}

static struct vr_sim_stream *stream_make(struct vr_sim_call *call, void *native) {
    struct vr_sim_stream *stream = vr_mem_alloc(1, sizeof *stream, "queue_create");
    if (stream) {
        stream->gpu = call->gpu;
        stream->native = native;
        vr_list_init(&stream->work);
    }
    return stream;
}

void vr_sim_stream_leave(struct vr_sim_stream *stream) {
    if (--stream->users == 0) {
        vr_mem_free(stream);
    }
}

/* ------------------------------------------------------------------------ words */

/* A word that a queue of this device has left, with its value, or a new one. */
static struct vr_sim_word *word_take(struct vr_sim_open *open) {
    struct vr_list *words = &open->words;
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

/* ----------------------------------------------------------------------- queues */

/* Who still waits for its word is let go: its points all count as passed from now on. */
void vr_sim_queue_free(struct vr_sim_queue *queue) {
    struct vr_sim *sim = queue->open->sim;
    vr_sim_pass(queue, UINT64_MAX, sim->clock_ns);
    vr_sim_ticket_give(sim, queue->ticket);
    vr_sim_stream_leave(queue->stream);
    queue->word->taken = false;
    vr_link_remove(&queue->link);
    sim->live_handles--;
    vr_mem_free(queue);
}

/* A queue on the stream of `native` or, where that is our own, on a new one. */
static struct vr_sim_queue *queue_make(struct vr_sim_call *call, bool own, void *native) {
    struct vr_sim_queue *queue = vr_mem_alloc(1, sizeof *queue, "queue_create");
    if (!queue) {
        goto fail;
    }
    if (own && !(queue->ticket = vr_sim_ticket_take(call->sim, VR_SIM_KIND_QUEUE, queue))) {
        goto fail;
    }
    native = own ? (void *)(uintptr_t)queue->ticket : native;
    queue->word = word_take(call->open);
    queue->stream = stream_of_native(call->open, native);
    if (!queue->stream) {
        queue->stream = stream_make(call, native);
    }
    if (!queue->word || !queue->stream) {
        goto fail;
    }
    queue->stream->users++;
    queue->open = call->open;
    queue->submitted = vr_load(&queue->word->value, VR_RELAXED);
    vr_list_init(&queue->waiters);
    vr_list_append(&call->open->queues, &queue->link);
    call->sim->live_handles++;
    return queue;
fail:
    vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
    if (queue) {
        if (queue->word) {
            queue->word->taken = false;
        }
        if (queue->stream && queue->stream->users == 0) {
            vr_mem_free(queue->stream);
        }
        vr_sim_ticket_give(call->sim, queue->ticket);
        vr_mem_free(queue);
    }
    return NULL;
}

static vram_status queue_start(struct vr_queue *queue, bool own) {
    struct vr_sim_call call;
    uint64_t native = (uintptr_t)queue->native;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_QUEUE_CREATE, own ? 0 : native, 0)) {
        return vr_sim_end(&call);
    }
    struct vr_sim_queue *made = queue_make(&call, own, queue->native);
    if (made) {
        queue->impl = made;
        queue->native = made->stream->native;
        queue->word = &made->word->value;
        call.addr = (uintptr_t)queue->native;
    }
    return vr_sim_end(&call);
}

static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options; /* priorities are a hint; here all queues are equal */
    return queue_start(queue, true);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_start(queue, false);
}

/* Work of other queues on the same stream does not count. */
static bool has_work(const struct vr_sim_queue *queue) {
    const struct vr_list *works = &queue->stream->work;
    for (struct vr_link *link = vr_list_first(works); link; link = vr_list_next(works, link)) {
        if (VR_CONTAINER(link, struct vr_sim_work, link)->queue == queue) {
            return true;
        }
    }
    return false;
}

static void queue_destroy(struct vr_queue *queue) {
    struct vr_sim_call call;
    struct vr_sim_queue *made = queue->impl;
    (void)vr_sim_begin_lost(&call, queue->device, VRAM_SIM_QUEUE_DESTROY, (uintptr_t)queue->native,
                            0);
    if (has_work(made)) {
        vr_sim_breach(&call, "destroyed with unfinished work");
        vr_sim_settle(call.sim);
        vr_sim_vanish(call.sim, made->stream); /* what is left cannot be finished */
    }
    vr_sim_queue_free(made);
    vr_sim_end_void(&call);
}

/* ------------------------------------------------------------------------- work */

/* The tick lies in the future even without a lag, so that nothing is done inside the call that
   submitted it: a library that takes "submitted" for "done" is found out at once. */
struct vr_sim_work *vr_sim_work_make(struct vr_sim_call *call, struct vr_queue *queue) {
    struct vr_sim_work *work = vr_mem_alloc(1, sizeof *work, vr_sim_call_name(call->kind));
    if (!work) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    work->queue = queue->impl;
    work->stream = work->queue->stream;
    work->kind = call->kind;
    work->submitted_ns = call->sim->clock_ns + call->cost_ns;
    work->tie = vr_sim_random(call->sim);
    work->ready_tick = call->sim->ticks + 1;
    if (call->sim->config.lag) {
        work->ready_tick += vr_sim_random(call->sim) % (call->sim->config.lag + UINT64_C(1));
    }
    return work;
}

void vr_sim_work_submit(struct vr_sim *sim, struct vr_sim_work *work) {
    struct vr_sim_stream *stream = work->stream;
    vr_sim_touch(sim, work->to, work->to ? work->bytes : 0, 1);
    vr_sim_touch(sim, work->from, work->from ? work->bytes : 0, 1);
    work->cost_ns = vr_sim_work_ns(sim->config.profile, work->kind, work->bytes);
    work->queue->polls = 0;
    if (vr_list_empty(&stream->work)) {
        vr_list_append(&sim->streams, &stream->link);
    }
    vr_list_append(&stream->work, &work->link);
}

/* The check is made once, at submission: from then on rule (3) of sim_machine.h holds. */
bool vr_sim_check_memory(struct vr_sim_call *call, const struct vr_sim_gpu *gpu, uint64_t addr,
                         uint64_t bytes) {
    struct vr_sim_span span;
    for (uint64_t at = addr, left = bytes; left; at += span.bytes, left -= span.bytes) {
        if (!vr_sim_span_at(call->sim, at, left, &span)) {
            return vr_sim_breach(call, "0x%llx is not mapped memory that may be used",
                                 (unsigned long long)at);
        }
        if (span.block->open->gpu != gpu) {
            return vr_sim_breach(call, "0x%llx is memory of device %u", (unsigned long long)at,
                                 span.block->open->gpu->index);
        }
    }
    return true;
}

/* Work on memory of the queue's own device, described by `plan`; addresses of 0 are none. */
static vram_status submit(struct vr_queue *queue, vram_sim_call kind,
                          const struct vr_sim_work *plan) {
    struct vr_sim_call call;
    uint64_t addr = plan->to ? plan->to : plan->from;
    if (!vr_sim_begin(&call, queue->device, kind, addr, plan->bytes) ||
        (plan->to && !vr_sim_check_memory(&call, call.gpu, plan->to, plan->bytes)) ||
        (plan->from && !vr_sim_check_memory(&call, call.gpu, plan->from, plan->bytes))) {
        return vr_sim_end(&call);
    }
    struct vr_sim_work *work = vr_sim_work_make(&call, queue);
    if (work) {
        work->to = plan->to;
        work->from = plan->from;
        work->bytes = plan->bytes;
        work->to_host = plan->to_host;
        work->from_host = plan->from_host;
        work->pattern = plan->pattern;
        work->pattern_bytes = plan->pattern_bytes;
        work->value = plan->value;
        vr_sim_work_submit(call.sim, work);
    }
    return vr_sim_end(&call);
}

static vram_status queue_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                uint64_t bytes) {
    return submit(queue, VRAM_SIM_UPLOAD,
                  &(struct vr_sim_work){.to = to, .from_host = from, .bytes = bytes});
}

static vram_status queue_download(struct vr_queue *queue, void *to, vram_addr from,
                                  uint64_t bytes) {
    return submit(queue, VRAM_SIM_DOWNLOAD,
                  &(struct vr_sim_work){.to_host = to, .from = from, .bytes = bytes});
}

static vram_status queue_copy(struct vr_queue *queue, vram_addr to, vram_addr from,
                              uint64_t bytes) {
    return submit(queue, VRAM_SIM_COPY,
                  &(struct vr_sim_work){.to = to, .from = from, .bytes = bytes});
}

static vram_status queue_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                              uint32_t pattern_bytes, uint64_t bytes) {
    return submit(
        queue, VRAM_SIM_FILL,
        &(struct vr_sim_work){
            .to = to, .bytes = bytes, .pattern = pattern, .pattern_bytes = pattern_bytes});
}

vram_status vr_sim_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes, bool to_host) {
    (void)to_host; /* contents stay where they are; only the time is the same */
    return submit(queue, VRAM_SIM_PREFETCH, &(struct vr_sim_work){.to = addr, .bytes = bytes});
}

/* ------------------------------------------------------------- points in time */

/* Several threads may mark one queue at once, so values may come out of order; src/device sees to
   it that the highest comes last. The word takes each as it comes. */
static vram_status queue_signal(struct vr_queue *queue, uint64_t value) {
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

/* Has work wait for a value of another queue, unless it has passed, or never will since its device
   was lost. */
static void wait_for(struct vr_sim_work *work, struct vr_sim_queue *other, uint64_t value) {
    work->value = value;
    if (vr_load(&other->word->value, VR_RELAXED) < value && !other->open->gpu->lost) {
        vr_list_append(&other->waiters, &work->wait_link);
    }
}

static vram_status queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_sim_queue *theirs = other->impl;
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, queue->device, VRAM_SIM_AFTER, value, 0)) {
        return vr_sim_end(&call);
    }
    if (theirs->open->sim != call.sim) {
        vr_sim_breach(&call, "the other queue is of another machine");
    } else if (theirs->submitted < value) {
        vr_sim_breach(&call, "the other queue was not told to signal %llu yet",
                      (unsigned long long)value);
    } else {
        struct vr_sim_work *work = vr_sim_work_make(&call, queue);
        if (work) {
            wait_for(work, theirs, value);
            vr_sim_work_submit(call.sim, work);
        }
    }
    return vr_sim_end(&call);
}

/* Whoever polls has nothing else to do, so time moves on: to the next moment when work can be done
   and, as polls follow each other, over ever more of them. A wait for n pieces of work takes about
   log n polls. */
static vram_status queue_poll(struct vr_queue *queue) {
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
    if (call.gpu->lost) { /* the last step may have found it out */
        vr_sim_lost_answer(&call);
    } else if (!vr_list_empty(work)) {
        call.code = VRAM_SIM_NOT_READY;
    }
    return vr_sim_end(&call);
}

const struct vr_queue_ops vr_sim_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = queue_upload,
    .download = queue_download,
    .copy = queue_copy,
    .fill = queue_fill,
    .signal = queue_signal,
    .after = queue_after,
    .poll = queue_poll,
};
