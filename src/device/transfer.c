/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: copies, fills and hints. Every span is checked against live memory before a backend
 * gets it.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/size.h"
#include "device/address.h"
#include "device/device_calls.h"
#include "device/ops.h"

#include <string.h>

/* Enters for a transfer between host memory and [addr, addr + bytes) of the device. VRAM_OK with
   entered NULL if there is nothing to do. */
static vram_status enter_host_transfer(vram_queue *handle, vram_addr addr, const void *host,
                                       uint64_t bytes, bool upload,
                                       struct vr_queue_object **entered) {
    void *queue;
    *entered = NULL;
    vram_status status = vr_submit_enter(handle, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    if (bytes && !host) {
        status = vr_fail(VRAM_ERR_INVALID, "the host memory is NULL");
    } else if (bytes) {
        struct vr_device_object *device = ((struct vr_queue_object *)queue)->device;
        status =
            upload ? vr_span_check_write(device, addr, bytes) : vr_span_check(device, addr, bytes);
    }
    if (status == VRAM_OK && bytes) {
        *entered = queue;
    } else {
        vr_submit_leave(queue);
    }
    return status;
}

vram_status vr_submit_upload(vram_queue *handle, vram_addr to, const void *from, uint64_t bytes) {
    VR_OPERATION("vram_queue_upload");
    struct vr_queue_object *queue;
    vram_status status = enter_host_transfer(handle, to, from, bytes, true, &queue);
    if (queue) {
        status = vr_queue_upload(&queue->base, to, from, bytes);
        vr_submit_leave(queue);
    }
    return status;
}

vram_status vram_queue_upload(vram_queue *handle, vram_addr to, const void *from, uint64_t bytes) {
    return vr_submit_upload(handle, to, from, bytes);
}

vram_status vr_submit_download(vram_queue *handle, void *to, vram_addr from, uint64_t bytes) {
    VR_OPERATION("vram_queue_download");
    struct vr_queue_object *queue;
    vram_status status = enter_host_transfer(handle, from, to, bytes, false, &queue);
    if (queue) {
        status = vr_queue_download(&queue->base, to, from, bytes);
        vr_submit_leave(queue);
    }
    return status;
}

vram_status vram_queue_download(vram_queue *handle, void *to, vram_addr from, uint64_t bytes) {
    return vr_submit_download(handle, to, from, bytes);
}

/* ------------------------------------------------------------ device to device */

/* The peer's memory stays until the copy is done: closing it waits for copies that entered here,
   and then for the queue. */
static vram_status copy_from_peer(struct vr_queue_object *queue, vram_addr to,
                                  struct vr_device_object *peer, vram_addr from, uint64_t bytes) {
    if (!vr_device_reads(queue->device, peer->object.handle)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "0x%llx belongs to another device; call vram_device_peer_enable first",
                       (unsigned long long)from);
    }
    vram_status status = vr_span_check(peer, from, bytes);
    if (status != VRAM_OK || (status = vr_check_lost(&peer->base, vr_operation())) != VRAM_OK) {
        return status;
    }
    if (!vr_reader_begin(peer)) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the device of 0x%llx is being closed",
                       (unsigned long long)from);
    }
    status = vr_peer_copy(&queue->base, to, &peer->base, from, bytes);
    vr_reader_end(peer);
    return status;
}

static vram_status device_copy(struct vr_queue_object *queue, vram_addr to, vram_addr from,
                               uint64_t bytes) {
    struct vr_device_object *owner;
    struct vr_address_info place;
    vram_status status = vr_span_check_write(queue->device, to, bytes);
    if (status != VRAM_OK || (status = vr_span_owner(from, &place, &owner)) != VRAM_OK) {
        return status;
    }
    if (owner != queue->device) {
        status = copy_from_peer(queue, to, owner, from, bytes);
    } else if ((status = vr_span_check(owner, from, bytes)) == VRAM_OK) {
        status = vr_overlap(to, bytes, from, bytes)
                     ? vr_fail(VRAM_ERR_INVALID, "the two ranges overlap")
                     : vr_queue_copy(&queue->base, to, from, bytes);
    }
    vr_leave(owner);
    return status;
}

vram_status vr_submit_copy(vram_queue *handle, vram_addr to, vram_addr from, uint64_t bytes) {
    VR_OPERATION("vram_queue_copy");
    void *queue;
    vram_status status = vr_submit_enter(handle, &queue);
    if (status == VRAM_OK) {
        status = bytes ? device_copy(queue, to, from, bytes) : VRAM_OK;
        vr_submit_leave(queue);
    }
    return status;
}

vram_status vram_queue_copy(vram_queue *handle, vram_addr to, vram_addr from, uint64_t bytes) {
    return vr_submit_copy(handle, to, from, bytes);
}

/* -------------------------------------------------------------------- fills */

vram_status vr_submit_fill(vram_queue *handle, vram_addr to, uint32_t pattern,
                           uint32_t pattern_bytes, uint64_t bytes) {
    VR_OPERATION("vram_queue_fill");
    void *entered;
    vram_status status = vr_submit_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = entered;
    if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4) {
        status = vr_fail(VRAM_ERR_INVALID, "a pattern has 1, 2 or 4 bytes, not %u", pattern_bytes);
    } else if (to % pattern_bytes || bytes % pattern_bytes) {
        status =
            vr_fail(VRAM_ERR_INVALID,
                    "address and size must be multiples of the pattern's %u bytes", pattern_bytes);
    } else if (bytes && (status = vr_span_check_write(queue->device, to, bytes)) == VRAM_OK) {
        status = vr_queue_fill(&queue->base, to, pattern, pattern_bytes, bytes);
    }
    vr_submit_leave(queue);
    return status;
}

vram_status vram_queue_fill(vram_queue *handle, vram_addr to, uint32_t pattern,
                            uint32_t pattern_bytes, uint64_t bytes) {
    return vr_submit_fill(handle, to, pattern, pattern_bytes, bytes);
}

/* ---------------------------------------------------- hints for managed memory */

/* Checks the arguments of a hint: VRAM_OK with *any false if the span is empty. */
static vram_status check_managed(struct vr_device_object *device, vram_addr addr, uint64_t bytes,
                                 bool *any) {
    struct vr_address_info place;
    *any = false;
    if (!device->base.managed) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "the device has no managed memory");
    }
    if (bytes == 0) {
        return VRAM_OK;
    }
    if (!vr_address_find(addr, &place) || place.kind != VRAM_MEMORY_MANAGED) {
        return vr_fail(VRAM_ERR_INVALID, "0x%llx is not managed memory", (unsigned long long)addr);
    }
    *any = true;
    return vr_span_check(device, addr, bytes);
}

/* Translates the index of a device of the context to its index in the backend; the host device is
   the host, except for the host backend itself. */
static vram_status find_target(const struct vr_device_object *device, int32_t target,
                               int32_t *found) {
    const struct vr_context *context = device->context;
    if (target == VRAM_TARGET_HOST || target == VRAM_TARGET_OWN) {
        *found = target == VRAM_TARGET_HOST ? target : (int32_t)device->base.index;
        return VRAM_OK;
    }
    if (target < 0 || (uint32_t)target >= context->slot_count) {
        return vr_fail(VRAM_ERR_NO_DEVICE,
                       "%d is not a target: use VRAM_TARGET_HOST, VRAM_TARGET_OWN or the index of "
                       "one of %u devices",
                       (int)target, context->slot_count);
    }
    const struct vr_slot *slot = &context->slots[target];
    bool same = slot->backend == device->base.backend;
    if (!same && strcmp(slot->info.backend, "host") != 0) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "device %d is a device of %s: managed memory of %s does not migrate there",
                       (int)target, slot->info.backend, device->base.info.backend);
    }
    *found = same ? (int32_t)slot->backend_index : VRAM_TARGET_HOST;
    return VRAM_OK;
}

vram_status vr_device_advise(vram_device *handle, vram_addr addr, uint64_t bytes,
                             vram_advice advice, int32_t target) {
    VR_OPERATION("vram_device_advise");
    void *entered;
    int32_t index = VRAM_TARGET_HOST;
    bool any;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    status = check_managed(device, addr, bytes, &any);
    if (status == VRAM_OK && (unsigned)advice > VRAM_ADVICE_PREFER) {
        status = vr_fail(VRAM_ERR_INVALID, "%d is not an advice", (int)advice);
    } else if (status == VRAM_OK && advice == VRAM_ADVICE_PREFER) {
        status = find_target(device, target, &index);
    }
    if (status == VRAM_OK && any) {
        status = vr_managed_advise(&device->base, addr, bytes, advice, index);
    }
    vr_leave(device);
    return status;
}

vram_status vram_device_advise(vram_device *handle, vram_addr addr, uint64_t bytes,
                               vram_advice advice, int32_t target) {
    return vr_device_advise(handle, addr, bytes, advice, target);
}

vram_status vr_submit_prefetch(vram_queue *handle, vram_addr addr, uint64_t bytes, int32_t target) {
    VR_OPERATION("vram_queue_prefetch");
    void *entered;
    int32_t index;
    bool any;
    vram_status status = vr_submit_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = entered;
    status = check_managed(queue->device, addr, bytes, &any);
    if (status == VRAM_OK) {
        status = find_target(queue->device, target, &index);
    }
    if (status == VRAM_OK && any) {
        status = vr_managed_prefetch(&queue->base, addr, bytes, index);
    }
    vr_submit_leave(queue);
    return status;
}

vram_status vram_queue_prefetch(vram_queue *handle, vram_addr addr, uint64_t bytes,
                                int32_t target) {
    return vr_submit_prefetch(handle, addr, bytes, target);
}
