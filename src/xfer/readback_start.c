/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readback_start.c: starts frames: claims a slot and submits the download.
 *
 * Two queues use a slot, and the order between them keeps frames consistent:
 *
 *     producer   ... step k | copy source to shadow | step k+1 ...            SNAPSHOT
 *     transfer                                     '-> download shadow
 *
 *     producer   ... step k |                       .-> step k+1 ...          HOLD
 *     transfer              '-> download source ----'
 *
 * The numbers in brackets are those of readback_object.h. A start that fails half-way publishes no
 * frame. What it has submitted may still use the slot, which settles before it is used again. The
 * producer never waits for something that was not submitted.
 */
#include "xfer/readback_object.h"

#include "base/error.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "mem/buffer_object.h"

#include <string.h>

/* One part of a frame. */
struct frame_source {
    vram_addr addr;           /* on the device; 0: in host memory */
    const void *host;         /* with addr 0 */
    uint64_t bytes;           /* of the part */
    struct vr_buffer *buffer; /* entered and shared; NULL: an address of the program's */
};

/* One start. */
struct frame_start {
    struct vr_readback *readback;
    struct vr_frame *frame; /* claimed */
    vram_queue *producer;   /* NULL: no queue writes the source */
    enum vram_readback_mode mode;
    struct frame_source sources[VRAM_READBACK_SPANS_MAX];
    uint32_t count;
    uint64_t bytes;                   /* of the frame */
    vram_point point;                 /* passed when the frame has arrived */
    bool held;                        /* no memory for a snapshot: mode HOLD instead */
    bool touched;                     /* the slot's host memory was overwritten */
    struct vr_transfer_count counted; /* in the device's counters */
};

/* -------------------------------------------------------------------- sources */

static void release_sources(struct frame_start *job) {
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->sources[i].buffer) {
            vr_buffer_unshare(job->sources[i].buffer);
            vr_buffer_leave(job->sources[i].buffer);
        }
    }
}

static vram_status add_bytes(struct frame_start *job, uint64_t bytes) {
    if (bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, "a source has 0 bytes");
    }
    return vr_add(job->bytes, bytes, &job->bytes)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_OVERFLOW, "the frame has more than 64 bits");
}

/* The buffer cannot move until the sources are released. */
static vram_status share_source(struct frame_start *job, struct vr_buffer *buffer, vram_span span) {
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
    job->sources[job->count++] = (struct frame_source){
        .addr = on_device ? memory.addr + span.offset : 0,
        .host = on_device ? NULL : (void *)(uintptr_t)(memory.addr + span.offset),
        .bytes = span.bytes,
        .buffer = buffer};
    vr_buffer_touch(buffer);
    return VRAM_OK;
}

static vram_status gather_sources(struct frame_start *job, const vram_span *spans, uint32_t count) {
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
static struct vr_frame *candidate_slot(struct vr_readback *readback) {
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

/* Claims a slot for the job; *before is its old state. */
static vram_status claim_slot(struct frame_start *job, enum vr_frame_state *before) {
    struct vr_readback *readback = job->readback;
    vr_mutex_lock(&readback->lock);
    job->frame = candidate_slot(readback);
    if (job->frame) {
        *before = job->frame->state;
        job->frame->state = VR_FRAME_STARTING;
    } else {
        readback->stats.refused++;
    }
    vr_mutex_unlock(&readback->lock);
    return job->frame ? VRAM_OK
                      : vr_fail(VRAM_ERR_BUSY,
                                "all %u slots are in flight or being read; take and release a "
                                "frame, or use more slots",
                                readback->count);
}

/* Counts a frame that was overwritten without having been read; under the lock. */
static void count_dropped(struct frame_start *job, enum vr_frame_state before) {
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

/* Publishes a frame that has been submitted: keeps (5). */
static void publish_frame(struct frame_start *job, enum vr_frame_state before, uint64_t *number) {
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
    frame->state = VR_FRAME_IN_FLIGHT;
    *number = frame->number;
    vr_mutex_unlock(&readback->lock);
}

/* After a failure, waits until what was submitted no longer reads its sources. If the slot was not
   overwritten, its old frame is available again. */
static void undo_start(struct frame_start *job, enum vr_frame_state before) {
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
        job->frame->state = VR_FRAME_DONE; /* a frame that is DONE does not need its shadow */
    } else if (!job->touched && before == VR_FRAME_FAILED) {
        job->frame->state = VR_FRAME_FAILED;
    } else {
        job->frame->state = VR_FRAME_SETTLING;
    }
    vr_mutex_unlock(&job->readback->lock);
}

/* ----------------------------------------------------------------- submitting */

/* Allocates memory for the frame. A snapshot without enough device memory becomes a hold. */
static vram_status reserve_memory(struct frame_start *job) {
    struct vr_readback *readback = job->readback;
    struct vr_frame_slot *slot = &job->frame->memory;
    struct vr_frame_slot was = *slot;
    vram_device *device = vr_readback_device(readback);
    vram_status status = vr_slot_settled(slot); /* after an earlier start that failed */
    if (status == VRAM_ERR_NOT_READY) {
        return vr_fail(VRAM_ERR_BUSY, "work of an earlier start that failed is still in flight");
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

/* Fixes the contents of the frame: *point is behind the snapshot, or the mark, on the producer's
   queue. */
static vram_status freeze_contents(struct frame_start *job, vram_point *point) {
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
        const struct frame_source *source = &job->sources[i];
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

/* Copies a part in host memory: queues cannot, so it waits for their work. */
static vram_status copy_on_host(struct frame_start *job, const struct frame_source *source,
                                void *to) {
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

static vram_status submit_downloads(struct frame_start *job) {
    struct vr_frame_slot *slot = &job->frame->memory;
    vram_queue *transfer = job->readback->transfer;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < job->count; offset += job->sources[i++].bytes) {
        const struct frame_source *source = &job->sources[i];
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

/* Records the use in the buffers, so that they neither move nor are freed during the copy. */
static vram_status note_sources(struct frame_start *job) {
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

static vram_status submit_frame(struct frame_start *job) {
    vram_queue *transfer = job->readback->transfer;
    vram_point moment;
    vram_status status = reserve_memory(job);
    if (status == VRAM_OK) {
        status = freeze_contents(job, &moment);
    }
    if (status == VRAM_OK) {
        status = vr_submit_after(transfer, moment);
    }
    if (status == VRAM_OK) {
        vr_transfer_begin(job->readback->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK,
                          &job->counted);
        status = submit_downloads(job);
    }
    if (status == VRAM_OK && job->mode == VRAM_READBACK_HOLD) {
        status = vr_submit_after(job->producer, job->point);
    }
    return status == VRAM_OK ? note_sources(job) : status;
}

/* ------------------------------------------------------------------- starting */

/* Checks that the producer is a queue of this device that accepts work. */
static vram_status check_producer(struct frame_start *job) {
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
static vram_status start_entered(struct frame_start *job, uint64_t *number) {
    enum vr_frame_state before = VR_FRAME_IDLE;
    struct vram_error trouble;
    uint64_t given = 0;
    (void)vr_readback_refresh(job->readback, &trouble);
    vram_status status = claim_slot(job, &before);
    if (status != VRAM_OK) {
        return status;
    }
    status = submit_frame(job);
    if (status == VRAM_OK) {
        publish_frame(job, before, &given);
        if (number) {
            *number = given;
        }
    } else {
        undo_start(job, before);
        vr_transfer_end(&job->counted, 0, status);
    }
    return status;
}

/* Starts a frame whose sources are gathered. Enters both queues, so that neither ends between the
   first step and the last. */
static vram_status start_frame(struct frame_start *job, uint64_t *number) {
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
    struct frame_start job = {.producer = producer, .count = 1};
    vram_status status = vr_readback_enter(handle, &job.readback);
    if (status != VRAM_OK) {
        return status;
    }
    job.mode = job.readback->mode;
    job.sources[0] = (struct frame_source){.addr = from, .bytes = bytes};
    status = add_bytes(&job, bytes);
    if (status == VRAM_OK) {
        status = vr_span_check(job.readback->device, from, bytes);
    }
    if (status == VRAM_OK) {
        status = check_producer(&job);
    }
    if (status == VRAM_OK) {
        status = start_frame(&job, number);
    }
    vr_leave(job.readback);
    return status;
}

vram_status vram_readback_start_spans(vram_readback *handle, vram_queue *producer,
                                      const vram_span *spans, uint32_t count, uint64_t *number) {
    VR_CALL;
    struct frame_start job = {.producer = producer};
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
        status = gather_sources(&job, spans, count);
    }
    if (status == VRAM_OK) {
        status = start_frame(&job, number);
    }
    status = vr_stale_if_ended(VR_KIND_DEVICE, job.readback->device->object.handle, status);
    for (uint32_t i = 0; i < job.count; i++) {
        status = vr_stale_if_ended(VR_KIND_POOL, job.sources[i].buffer->pool_handle, status);
    }
    release_sources(&job);
    vr_leave(job.readback);
    return status;
}
