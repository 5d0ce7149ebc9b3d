/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attachment.c: what libraries on top of libvram attach to a pool, and where its memory lies.
 *
 *  (1) An attachment is a child of its pool and pins it: the pool's memory is released after the
 *      last attachment has ended.
 *  (2) The pool notifies it once. It stays until its owner ends it.
 */
#include "core/object/pool_object.h"
#include "core/pool/pool_calls.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/ops.h"
#include "vram/extension.h"

struct vr_attachment {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool; /* pinned; (1) */
    vram_pool_ended_fn *ended;
    void *user;
};

static void attachment_free(void *memory) {
    struct vr_attachment *attachment = memory;
    uint64_t pool = attachment->pool->object.handle;
    vr_pool_child_remove(pool, attachment->pool, &attachment->child);
    vr_mem_free(attachment);
    vr_handle_unpin(pool);
}

/* Keeps (2). */
static void pool_ended(struct vr_pool_child *child) {
    VR_UNCANCELLED;
    struct vr_attachment *attachment = VR_CONTAINER(child, struct vr_attachment, child);
    if (attachment->ended) {
        attachment->ended(attachment->user);
    }
}

vram_status vram_pool_attach(vram_pool *handle, vram_pool_ended_fn *ended, void *user,
                             vram_device **device, vram_attachment **out) {
    VR_CALL;
    void *entered;
    uint64_t number;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the attachment is NULL");
    }
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    struct vr_attachment *attachment = vr_mem_alloc(1, sizeof *attachment, vr_operation());
    status = attachment ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (attachment) {
        attachment->object.process = vr_os_process_generation();
        attachment->child.pool_ended = pool_ended;
        attachment->pool = pool;
        attachment->ended = ended;
        attachment->user = user;
        vr_handle_ref(pool->object.handle);
        vram_device *of = (vram_device *)(uintptr_t)pool->device->object.handle;
        status = vr_pool_child_publish(pool, VR_KIND_ATTACHMENT, &attachment->object,
                                       attachment_free, &attachment->child, &number);
        if (status == VRAM_OK) {
            *out = (vram_attachment *)(uintptr_t)number;
            if (device) {
                *device = of;
            }
        }
    }
    vr_leave(pool);
    return status;
}

/* Waits for the work of a queue of the pool's device. The queue may be ending. */
static vram_status wait_for(struct vr_pool *pool, vram_queue *handle, uint64_t timeout) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
    vram_status status = VRAM_OK;
    if (queue && queue->device != pool->device) {
        status = vr_fail(VRAM_ERR_INVALID, "the queue belongs to another device than the pool");
    } else if (queue) {
        vr_pool_end_waits_for(pool, handle);
        if (timeout) {
            uint64_t wait_ns = pool->device->context->wait_ns;
            status = vr_pool_settle_queue(
                queue, vr_deadline_in(timeout == VRAM_TIMEOUT_DEFAULT ? wait_ns : timeout));
        }
    } else if (!vr_handle_was(VR_KIND_QUEUE, handle)) {
        status = vr_handle_error(VR_KIND_QUEUE, handle);
    }
    if (queue) {
        vr_leave(queue);
    }
    return status;
}

vram_status vram_attachment_wait(vram_attachment *handle, vram_queue *queue, uint64_t timeout) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_ATTACHMENT, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_attachment *attachment = entered;
    status = wait_for(attachment->pool, queue, timeout);
    if (status == VRAM_OK && timeout) {
        status = vr_check_lost(&attachment->pool->device->base, vr_operation());
    }
    vr_leave(attachment);
    return status;
}

vram_status vram_attachment_end(vram_attachment *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_ATTACHMENT, handle, NULL, "the attachment is being ended");
}

/* ------------------------------------------------------------------ handles */

/* The handle of a pool's range at `addr`. */
static bool pool_handle_at(uint64_t number, vram_addr addr, vram_addr *base, uint64_t *bytes) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)number);
    const struct vr_piece *piece = NULL;
    if (!pool) {
        return false;
    }
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT && !piece; part++) {
        piece = vr_space_piece_at(pool->spaces[part], addr);
    }
    bool found = piece && !piece->sleep_state;
    if (found) {
        *base = piece->addr;
        *bytes = piece->bytes;
    }
    vr_mutex_unlock(&pool->lock);
    vr_leave(pool);
    return found;
}

vram_status vram_memory_handle_get(vram_addr addr, vram_addr *base, uint64_t *bytes) {
    VR_CALL;
    struct vr_address_info place;
    struct vr_device_object *device;
    if (!base || !bytes) {
        return vr_fail(VRAM_ERR_INVALID, "the pointers that receive the handle's place are NULL");
    }
    vram_status status = vr_span_owner(addr, &place, &device);
    if (status != VRAM_OK) {
        return status;
    }
    vr_leave(device);
    if (!place.is_range) {
        *base = place.base;
        *bytes = place.bytes;
    } else if (!place.pool || !pool_handle_at(place.pool, addr, base, bytes)) {
        status = vr_fail(VRAM_ERR_INVALID, "no handle of a pool is mapped at 0x%llx",
                         (unsigned long long)addr);
    }
    return status;
}
