/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback_start.c: from the wish for a frame to a download that is under way.
 *
 * Two queues touch a slot, and the order between them is what keeps frames whole:
 *
 *     producer   ... step k | copy source to shadow | step k+1 ...            SNAPSHOT
 *     transfer                                     '-> download shadow
 *
 *     producer   ... step k |                       .-> step k+1 ...          HOLD
 *     transfer              '-> download source ----'
 *
 * The numbers in brackets are those of readback_object.h. A start that fails half-way has told
 * nobody of its frame; what it has submitted may still use the slot, which settles before it serves
 * again. The producer is never left waiting for something that was not submitted.
 */
#include "xfer/readback_object.h"

#include "base/error.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "mem/buffer_object.h"

#include <string.h>

/* One piece of a frame. */
struct source {
    vram_addr addr;           /* on the device; 0: */
    const void *host;         /* in host memory */
    uint64_t bytes;           /* of it */
    struct vr_buffer *buffer; /* entered and shared; NULL: an address of the program's */
};

/* One start. */
struct job {
    struct vr_readback *readback;
    struct vr_frame *frame; /* claimed */
    vram_queue *producer;   /* NULL: nobody writes the source */
    enum vram_readback_mode mode;
    struct source sources[VRAM_READBACK_SPANS_MAX];
    uint32_t count;
    uint64_t bytes;                   /* of the frame */
    vram_point point;                 /* when it will have arrived */
    bool held;                        /* there was no memory for a snapshot */
    bool touched;                     /* the slot's host memory is not what it was */
    struct vr_transfer_count counted; /* in the device's counters */
};

/* -------------------------------------------------------------------- sources */

static void release_sources(struct job *job) {
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->sources[i].buffer) {
            vr_buffer_unshare(job->sources[i].buffer);
            vr_buffer_leave(job->sources[i].buffer);
        }
    }
}

static vram_status add_bytes(struct job *job, uint64_t bytes) {
    if (bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, "a source has 0 bytes");
    }
    return vr_add(job->bytes, bytes, &job->bytes)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_OVERFLOW, "the frame has more than 64 bits");
}

/* The buffer stays where it is until the sources are released. */
static vram_status share_source(struct job *job, struct vr_buffer *buffer, vram_span span) {
    vram_status status = vr_buffer_span_check(buffer, span.offset, span.bytes);
    if (status == VRAM_OK && buffer->pool->device != job->readback->device) {
        status = vr_fail(VRAM_ERR_INVALID, "a buffer belongs to another device");
    }
    if (status == VRAM_OK) {
        status = add_bytes(job, span.bytes);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_share(buffer);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&buffer->lock);
    struct vr_buffer_memory memory = buffer->memory;
    vr_mutex_unlock(&buffer->lock);
    bool on_device = vr_buffer_on_device(&memory);
    job->sources[job->count++] =
        (struct source){.addr = on_device ? memory.addr + span.offset : 0,
                        .host = on_device ? NULL : (void *)(uintptr_t)(memory.addr + span.offset),
                        .bytes = span.bytes,
                        .buffer = buffer};
    vr_buffer_touch(buffer);
    return VRAM_OK;
}

static vram_status gather(struct job *job, const vram_span *spans, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct vr_buffer *buffer;
        vram_status status = vr_buffer_enter(spans[i].buffer, &buffer);
        if (status != VRAM_OK) {
            return status;
        }
        status = share_source(job, buffer, spans[i]);
        if (status != VRAM_OK) {
            vr_buffer_leave(buffer);
            return status;
        }
    }
    return VRAM_OK;
}

/* ---------------------------------------------------------------------- slots */

/* A slot that may be claimed; NULL: none. Under the lock; keeps (3). */
static struct vr_frame *candidate(struct vr_readback *readback) {
    struct vr_frame *oldest = NULL;
    uint64_t newest = 0;
    for (uint32_t i = 0; i < readback->count; i++) {
        struct vr_frame *frame = &readback->frames[i];
        if (frame->state == VR_FRAME_IDLE || frame->state == VR_FRAME_FAILED) {
            return frame;
        }
        newest = frame->state == VR_FRAME_DONE && frame->number > newest ? frame->number : newest;
    }
    for (uint32_t i = 0; i < readback->count && readback->policy == VRAM_READBACK_NEWEST; i++) {
        struct vr_frame *frame = &readback->frames[i];
        if (frame->state == VR_FRAME_DONE && !frame->readers && frame->number < newest &&
            (!oldest || frame->number < oldest->number)) {
            oldest = frame;
        }
    }
    return oldest;
}

/* Claims a slot for the job; *before is what it was. */
static vram_status claim(struct job *job, enum vr_frame_state *before) {
    struct vr_readback *readback = job->readback;
    vr_mutex_lock(&readback->lock);
    job->frame = candidate(readback);
    if (job->frame) {
        *before = job->frame->state;
        job->frame->state = VR_FRAME_STARTING;
    } else {
        readback->stats.refused++;
    }
    vr_mutex_unlock(&readback->lock);
    return job->frame ? VRAM_OK
                      : vr_fail(VRAM_ERR_BUSY,
                                "all %u slots are under way or being read; take and give back a "
                                "frame, or use more slots",
                                readback->count);
}

/* A frame that made room was never looked at; under the lock. */
static void count_dropped(struct job *job, enum vr_frame_state before) {
    if (before == VR_FRAME_DONE && !job->frame->seen) {
        job->readback->stats.dropped++;
    }
}

static void count_memory(struct vr_readback *readback, const struct vr_frame_slot *slot, bool add) {
    uint64_t sign = add ? 1 : UINT64_MAX;
    readback->stats.host_bytes += sign * slot->host_bytes;
    readback->stats.pinned_bytes += sign * (slot->pinned ? slot->host_bytes : 0);
    readback->stats.device_bytes += sign * slot->shadow_bytes;
}

/* The frame has been submitted: keeps (5). */
static void publish(struct job *job, enum vr_frame_state before, uint64_t *number) {
    struct vr_readback *readback = job->readback;
    struct vr_frame *frame = job->frame;
    vr_mutex_lock(&readback->lock);
    count_dropped(job, before);
    readback->stats.held += job->held;
    frame->number = ++readback->stats.started;
    frame->bytes = job->bytes;
    frame->mode = job->mode;
    frame->point = job->point;
    frame->count = job->counted;
    frame->seen = frame->delivered = false;
    frame->state = VR_FRAME_FLYING;
    *number = frame->number;
    vr_mutex_unlock(&readback->lock);
}

/* The start failed. Waits until what it has submitted no longer reads its sources. A frame whose
   slot was not written is available again. */
static void undo(struct job *job, enum vr_frame_state before) {
    const struct vr_slot_work *pending = job->frame->memory.pending;
    if (pending[VR_SLOT_OTHER].queue || pending[VR_SLOT_OTHER].point.queue) {
        (void)vr_queue_drained(job->producer);
    }
    if (pending[VR_SLOT_TRANSFER].queue || pending[VR_SLOT_TRANSFER].point.queue) {
        (void)vr_queue_drained(job->readback->transfer);
    }
    vr_mutex_lock(&job->readback->lock);
    if (job->touched) {
        count_dropped(job, before);
        job->frame->number = 0;
    }
    if (!job->touched && before == VR_FRAME_DONE) {
        job->frame->state = VR_FRAME_DONE; /* of the shadow it needs nothing any more */
    } else if (!job->touched && before == VR_FRAME_FAILED) {
        job->frame->state = VR_FRAME_FAILED;
    } else {
        job->frame->state = VR_FRAME_SETTLING;
    }
    vr_mutex_unlock(&job->readback->lock);
}

/* ----------------------------------------------------------------- submitting */

/* Memory for the frame. A snapshot that device memory has no room for becomes a hold. */
static vram_status reserve(struct job *job) {
    struct vr_readback *readback = job->readback;
    struct vr_frame_slot *slot = &job->frame->memory;
    struct vr_frame_slot was = *slot;
    vram_device *device = vr_readback_device(readback);
    vram_status status = vr_slot_settled(slot); /* of a start that failed before */
    if (status == VRAM_ERR_NOT_READY) {
        return vr_fail(VRAM_ERR_BUSY, "an earlier start that failed is under way");
    }
    if (status == VRAM_OK) {
        status = vr_slot_reserve_host(slot, device, job->bytes);
    }
    job->touched = slot->host != was.host;
    if (status == VRAM_OK && job->mode == VRAM_READBACK_SNAPSHOT) {
        struct vram_error error;
        vr_error_save(&error);
        status = vr_slot_reserve_shadow(slot, device, job->bytes);
        if (vr_status_is_exhausted(status)) {
            vr_error_restore(&error);
            job->mode = VRAM_READBACK_HOLD;
            job->held = true;
            status = VRAM_OK;
        }
    }
    vr_mutex_lock(&readback->lock);
    count_memory(readback, &was, false);
    count_memory(readback, slot, true);
    vr_mutex_unlock(&readback->lock);
    return status;
}

/* The moment that the frame shows: *point is behind it on the producer's queue. */
static vram_status freeze(struct job *job, vram_point *point) {
    struct vr_frame_slot *slot = &job->frame->memory;
    uint64_t offset = 0;
    *point = (vram_point){NULL, 0};
    if (!job->producer) {
        return VRAM_OK;
    }
    if (job->mode != VRAM_READBACK_SNAPSHOT) {
        return vr_submit_mark(job->producer, point);
    }
    for (uint32_t i = 0; i < job->count; offset += job->sources[i++].bytes) {
        const struct source *source = &job->sources[i];
        vram_status status = source->addr ? vr_submit_copy(job->producer, slot->shadow + offset,
                                                           source->addr, source->bytes)
                                          : VRAM_OK;
        if (status != VRAM_OK) {
            return status;
        }
        vr_slot_note(slot, VR_SLOT_OTHER, job->producer);
    }
    return vr_slot_mark(slot, VR_SLOT_OTHER, job->producer, point);
}

/* A piece in host memory: queues have no work for the host, so it waits for theirs. */
static vram_status copy_on_host(struct job *job, const struct source *source, void *to) {
    vram_status status = vr_buffer_settle(source->buffer);
    if (status == VRAM_OK && job->producer) {
        status = vr_queue_wait(job->producer, VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK) {
        job->touched = true;
        memcpy(to, source->host, source->bytes);
    }
    return status;
}

static vram_status fetch(struct job *job) {
    struct vr_frame_slot *slot = &job->frame->memory;
    vram_queue *transfer = job->readback->transfer;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < job->count; offset += job->sources[i++].bytes) {
        const struct source *source = &job->sources[i];
        void *to = (char *)slot->host + offset;
        vram_status status;
        if (!source->addr) {
            status = copy_on_host(job, source, to);
        } else {
            vram_addr from =
                job->mode == VRAM_READBACK_SNAPSHOT ? slot->shadow + offset : source->addr;
            status = vr_submit_download(transfer, to, from, source->bytes);
            if (status == VRAM_OK) {
                job->touched = true;
                vr_slot_note(slot, VR_SLOT_TRANSFER, transfer);
            }
        }
        if (status != VRAM_OK) {
            return status;
        }
    }
    return vr_slot_mark(slot, VR_SLOT_TRANSFER, transfer, &job->point);
}

/* Buffers learn who uses them, so that they do not move or go under the copy. */
static vram_status note_sources(struct job *job) {
    vram_queue *user =
        job->mode == VRAM_READBACK_SNAPSHOT ? job->producer : job->readback->transfer;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < job->count && status == VRAM_OK; i++) {
        if (job->sources[i].buffer && job->sources[i].addr) {
            status = vr_buffer_note(job->sources[i].buffer, user);
        }
    }
    return status;
}

static vram_status submit(struct job *job) {
    vram_queue *transfer = job->readback->transfer;
    vram_point moment;
    vram_status status = reserve(job);
    if (status == VRAM_OK) {
        status = freeze(job, &moment);
    }
    if (status == VRAM_OK) {
        status = vr_submit_after(transfer, moment);
    }
    if (status == VRAM_OK) {
        vr_transfer_begin(job->readback->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK,
                          &job->counted);
        status = fetch(job);
    }
    if (status == VRAM_OK && job->mode == VRAM_READBACK_HOLD) {
        status = vr_submit_after(job->producer, job->point);
    }
    return status == VRAM_OK ? note_sources(job) : status;
}

/* ------------------------------------------------------------------- starting */

/* The producer is a queue of this device that takes work. */
static vram_status check_producer(struct job *job) {
    void *queue;
    if (!job->producer) {
        job->mode = VRAM_READBACK_STEADY;
        return VRAM_OK;
    }
    vram_status status = vr_queue_enter(job->producer, &queue);
    if (status == VRAM_OK) {
        if (((struct vr_queue_object *)queue)->device != job->readback->device) {
            status = vr_fail(VRAM_ERR_INVALID, "the queue belongs to another device");
        }
        vr_leave(queue);
    }
    return status;
}

/* Both queues are entered. */
static vram_status start_entered(struct job *job, uint64_t *number) {
    enum vr_frame_state before = VR_FRAME_IDLE;
    struct vram_error trouble;
    uint64_t given = 0;
    (void)vr_readback_refresh(job->readback, &trouble);
    vram_status status = claim(job, &before);
    if (status != VRAM_OK) {
        return status;
    }
    status = submit(job);
    if (status == VRAM_OK) {
        publish(job, before, &given);
        if (number) {
            *number = given;
        }
    } else {
        undo(job, before);
        vr_transfer_end(&job->counted, 0, status);
    }
    return status;
}

/* The sources are gathered. Neither queue ends between the first step and the last. */
static vram_status start(struct job *job, uint64_t *number) {
    void *producer = NULL, *transfer;
    vram_status status = job->producer ? vr_submit_enter(job->producer, &producer) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_submit_enter(job->readback->transfer, &transfer);
    if (status == VRAM_OK) {
        status = start_entered(job, number);
        vr_submit_leave(transfer);
    }
    if (producer) {
        vr_submit_leave(producer);
    }
    return status;
}

vram_status vram_readback_start(vram_readback *handle, vram_queue *producer, vram_addr from,
                                uint64_t bytes, uint64_t *number) {
    VR_CALL;
    struct job job = {.producer = producer, .count = 1};
    vram_status status = vr_readback_enter(handle, &job.readback);
    if (status != VRAM_OK) {
        return status;
    }
    job.mode = job.readback->mode;
    job.sources[0] = (struct source){.addr = from, .bytes = bytes};
    status = add_bytes(&job, bytes);
    if (status == VRAM_OK) {
        status = vr_span_check(job.readback->device, from, bytes);
    }
    if (status == VRAM_OK) {
        status = check_producer(&job);
    }
    if (status == VRAM_OK) {
        status = start(&job, number);
    }
    vr_leave(job.readback);
    return status;
}

vram_status vram_readback_start_spans(vram_readback *handle, vram_queue *producer,
                                      const vram_span *spans, uint32_t count, uint64_t *number) {
    VR_CALL;
    struct job job = {.producer = producer};
    if (!spans || count == 0 || count > VRAM_READBACK_SPANS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "a frame has 1 to %d spans", VRAM_READBACK_SPANS_MAX);
    }
    vram_status status = vr_readback_enter(handle, &job.readback);
    if (status != VRAM_OK) {
        return status;
    }
    job.mode = job.readback->mode;
    status = check_producer(&job);
    if (status == VRAM_OK) {
        status = gather(&job, spans, count);
    }
    if (status == VRAM_OK) {
        status = start(&job, number);
    }
    status = vr_stale_if_ended(VR_KIND_DEVICE, job.readback->device->object.handle, status);
    for (uint32_t i = 0; i < job.count; i++) {
        status = vr_stale_if_ended(VR_KIND_POOL, job.sources[i].buffer->pool_handle, status);
    }
    release_sources(&job);
    vr_leave(job.readback);
    return status;
}
