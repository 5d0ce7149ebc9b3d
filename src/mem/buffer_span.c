/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_span.c: parts of buffers, and copies to and from them in any kind of memory.
 */
#include "mem/buffer_object.h"

#include "base/error.h"
#include "base/size.h"
#include "device/device_calls.h"

#include <string.h>

vram_status vr_buffer_span_check(struct vr_buffer *buffer, uint64_t offset, uint64_t bytes) {
    vr_mutex_lock(&buffer->lock);
    uint64_t used = buffer->used_bytes;
    vr_mutex_unlock(&buffer->lock);
    return vr_inside(offset, bytes, 0, used)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_INVALID,
                         "%llu bytes at %llu do not lie in the buffer's %llu used bytes",
                         (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)used);
}

vram_status vram_buffer_span(vram_buffer *handle, uint64_t offset, uint64_t bytes,
                             vram_span *span) {
    VR_CALL;
    void *buffer;
    if (!span) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the span is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &buffer);
    if (status == VRAM_OK) {
        status = vr_buffer_span_check(buffer, offset, bytes);
        vr_leave(buffer);
    }
    if (status == VRAM_OK) {
        *span = (vram_span){handle, offset, bytes};
    }
    return status;
}

vram_status vram_span_addr(vram_span span, vram_addr *addr) {
    VR_CALL;
    void *entered;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, span.buffer, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    status = vr_buffer_span_check(buffer, span.offset, span.bytes);
    if (status == VRAM_OK) {
        vr_mutex_lock(&buffer->lock);
        *addr = buffer->memory.addr + span.offset;
        vr_mutex_unlock(&buffer->lock);
        vr_buffer_touch(buffer);
    }
    vr_leave(buffer);
    return status;
}

/* ----------------------------------------------------------------------- copies */

/* One direction of a copy: `from` or `to` is the program's memory, the other is NULL. */
struct span_copy {
    const void *from;
    void *to;
};

static vram_status copy_on_device(const struct span_copy *copy, vram_queue *queue, vram_addr addr,
                                  uint64_t bytes) {
    return copy->from ? vr_submit_upload(queue, addr, copy->from, bytes)
                      : vr_submit_download(queue, copy->to, addr, bytes);
}

/* Queues cannot copy in host memory: waits for their work, and copies on the host. */
static vram_status copy_on_host(struct vr_buffer *buffer, const struct span_copy *copy,
                                vram_queue *queue, vram_addr addr, uint64_t bytes) {
    vram_status status = vr_buffer_settle(buffer);
    if (status == VRAM_OK && queue) {
        status = vr_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK && copy->from) {
        memcpy((void *)(uintptr_t)addr, copy->from, bytes);
    } else if (status == VRAM_OK) {
        memcpy(copy->to, (const void *)(uintptr_t)addr, bytes);
    }
    return status;
}

/* The buffer is shared. */
static vram_status copy_shared(struct vr_buffer *buffer, vram_span span,
                               const struct span_copy *copy, vram_queue *given) {
    vram_queue *queue = NULL;
    vr_mutex_lock(&buffer->lock);
    struct vr_buffer_memory memory = buffer->memory;
    vr_mutex_unlock(&buffer->lock);
    memory.addr += span.offset;
    if (!vr_buffer_on_device(&memory)) {
        return copy_on_host(buffer, copy, given, memory.addr, span.bytes);
    }
    void *entered;
    vram_status status = vr_buffer_queue(buffer, given, &queue);
    if (status == VRAM_OK) {
        status = vr_submit_enter(queue, &entered);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = copy_on_device(copy, queue, memory.addr, span.bytes);
    if (status == VRAM_OK && given) {
        status = vr_buffer_note(buffer, given);
    }
    vr_submit_leave(entered);
    return status;
}

static vram_status copy_span(vram_span span, const struct span_copy *copy, vram_queue *queue) {
    struct vr_buffer *buffer;
    vram_status status = vr_buffer_enter(span.buffer, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_span_check(buffer, span.offset, span.bytes);
    if (status == VRAM_OK) {
        status = vr_buffer_queue_check(buffer, queue);
    }
    if (status == VRAM_OK && span.bytes && !copy->from && !copy->to) {
        status = vr_fail(VRAM_ERR_INVALID, "the host memory is NULL");
    }
    if (status == VRAM_OK && span.bytes) {
        status = vr_buffer_share(buffer);
        if (status == VRAM_OK) {
            status = copy_shared(buffer, span, copy, queue);
            vr_buffer_unshare(buffer);
        }
    }
    if (status == VRAM_OK) {
        vr_buffer_touch(buffer);
    }
    return vr_buffer_finish(buffer, status);
}

vram_status vram_span_upload(vram_queue *queue, vram_span to, const void *from) {
    VR_CALL;
    return copy_span(to, &(struct span_copy){from, NULL}, queue);
}

vram_status vram_span_download(vram_queue *queue, void *to, vram_span from) {
    VR_CALL;
    return copy_span(from, &(struct span_copy){NULL, to}, queue);
}
