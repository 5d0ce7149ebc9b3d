/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_queue.c: queues, streams and the work they get.
 *
 * A queue belongs to src/device, a stream to the device. Each queue that the library creates has a
 * stream of its own, whose native pointer is a handle. Adopting a native queue that is already
 * known shares the stream, so that work keeps one order whichever queue submitted it.
 */
#include "backend/sim/sim_backend.h"
#include "backend/sim/sim_config.h"

#include "base/memory.h"

/* ---------------------------------------------------------------------- streams */

/* The stream that a queue of this device uses under this native pointer; NULL if none does. */
static struct vr_sim_stream *stream_of_native(const struct vr_sim_device *owner,
                                              const void *native) {
    for (struct vr_link *link = vr_list_first(&owner->queues); link;
         link = vr_list_next(&owner->queues, link)) {
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

/* ----------------------------------------------------------------------- queues */

/* Waits for its word end: all its points count as passed from now on. */
void vr_sim_queue_free(struct vr_sim_queue *queue) {
    struct vr_sim *sim = queue->device->sim;
    vr_sim_waiters_release(queue, UINT64_MAX, sim->clock_ns);
    vr_sim_handle_give(sim, queue->handle);
    vr_sim_stream_leave(queue->stream);
    queue->word->taken = false;
    vr_link_remove(&queue->link);
    sim->live_handles--;
    vr_mem_free(queue);
}

/* Creates a queue on the stream of `native` or, if it is our own, on a new one. */
static struct vr_sim_queue *queue_make(struct vr_sim_call *call, bool own, void *native) {
    struct vr_sim_queue *queue = vr_mem_alloc(1, sizeof *queue, "queue_create");
    if (!queue) {
        goto fail;
    }
    if (own && !(queue->handle = vr_sim_handle_take(call->sim, VR_SIM_KIND_QUEUE, queue))) {
        goto fail;
    }
    native = own ? (void *)(uintptr_t)queue->handle : native;
    queue->word = vr_sim_word_take(call->device);
    queue->stream = stream_of_native(call->device, native);
    if (!queue->stream) {
        queue->stream = stream_make(call, native);
    }
    if (!queue->word || !queue->stream) {
        goto fail;
    }
    queue->stream->users++;
    queue->device = call->device;
    queue->submitted = vr_load(&queue->word->value, VR_RELAXED);
    vr_list_init(&queue->waiters);
    vr_list_append(&call->device->queues, &queue->link);
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
        vr_sim_handle_give(call->sim, queue->handle);
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
static bool queue_has_work(const struct vr_sim_queue *queue) {
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
    if (queue_has_work(made)) {
        vr_sim_violation(&call, "destroyed with unfinished work");
        vr_sim_finish_all(call.sim);
        vr_sim_stream_clear(call.sim, made->stream); /* what is left cannot complete */
    }
    vr_sim_queue_free(made);
    vr_sim_end_void(&call);
}

/* ------------------------------------------------------------------------- work */

/* The tick lies in the future even without a lag, so that nothing completes inside the call that
   submitted it: a library that takes "submitted" for "complete" fails at once. */
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
    vr_sim_busy_add(sim, work->to, work->to ? work->bytes : 0, 1);
    vr_sim_busy_add(sim, work->from, work->from ? work->bytes : 0, 1);
    work->cost_ns = vr_sim_work_ns(sim->config.profile, work->kind, work->bytes);
    work->queue->polls = 0;
    if (vr_list_empty(&stream->work)) {
        vr_list_append(&sim->streams, &stream->link);
    }
    vr_list_append(&stream->work, &work->link);
}

/* The check is made once, at submission: from then on rule (3) of sim_backend.h holds. */
bool vr_sim_check_memory(struct vr_sim_call *call, const struct vr_sim_gpu *gpu, uint64_t addr,
                         uint64_t bytes, bool write) {
    struct vr_sim_span span;
    for (uint64_t at = addr, left = bytes; left; at += span.bytes, left -= span.bytes) {
        if (!vr_sim_span_at(call->sim, at, left, &span)) {
            return vr_sim_violation(call, "0x%llx is not mapped memory that may be used",
                                    (unsigned long long)at);
        }
        if (write && span.block->read_only) {
            return vr_sim_violation(call, "0x%llx is read-only", (unsigned long long)at);
        }
        if (span.block->device->gpu != gpu) {
            return vr_sim_violation(call, "0x%llx is memory of device %u", (unsigned long long)at,
                                    span.block->device->gpu->index);
        }
    }
    return true;
}

const struct vr_queue_ops vr_sim_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_sim_queue_upload,
    .download = vr_sim_queue_download,
    .copy = vr_sim_queue_copy,
    .fill = vr_sim_queue_fill,
    .signal = vr_sim_queue_signal,
    .after = vr_sim_queue_after,
    .poll = vr_sim_queue_poll,
};
