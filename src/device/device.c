/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c: describing, choosing, opening and closing devices.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/ops.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------- describing, choosing */

uint32_t vram_device_count(vram_context *handle) {
    void *context;
    if (vr_enter(VR_KIND_CONTEXT, handle, "vram_device_count", &context) != VRAM_OK) {
        return 0;
    }
    uint32_t count = ((struct vr_context *)context)->slot_count;
    vr_leave(context);
    return count;
}

static vram_status check_index(const struct vr_context *context, uint32_t index,
                               const char *operation) {
    if (index >= context->slot_count) {
        return vr_fail(VRAM_ERR_NO_DEVICE, operation, "there are %u devices, no number %u",
                       context->slot_count, index);
    }
    return VRAM_OK;
}

vram_status vram_device_info_get(vram_context *handle, uint32_t index, vram_device_info *info) {
    static const char operation[] = "vram_device_info_get";
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    status = check_index(context, index, operation);
    if (status == VRAM_OK) {
        const struct vram_device_info *full = &context->slots[index].info;
        status = vr_info_give(info, full, sizeof *full, sizeof *full, operation);
    }
    vr_leave(context);
    return status;
}

/* The first device of a kind; slot_count when there is none. */
static uint32_t first_of(const struct vr_context *context, vram_device_kind kind) {
    uint32_t index = 0;
    while (index < context->slot_count && context->slots[index].info.kind != kind) {
        index++;
    }
    return index;
}

vram_status vram_device_best(vram_context *handle, uint32_t *index) {
    static const char operation[] = "vram_device_best";
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    const vram_device_kind order[] = {
        context->sim_wanted ? VRAM_DEVICE_SIMULATED : VRAM_DEVICE_GPU,
        VRAM_DEVICE_GPU,
        VRAM_DEVICE_CPU,
        VRAM_DEVICE_SIMULATED,
    };
    uint32_t best = context->slot_count;
    for (size_t i = 0; i < sizeof order / sizeof order[0] && best == context->slot_count; i++) {
        best = first_of(context, order[i]);
    }
    if (!index) {
        status = vr_fail(VRAM_ERR_INVALID, operation, "the place for the index is NULL");
    } else if (best == context->slot_count) {
        status = vr_fail(VRAM_ERR_NO_DEVICE, operation,
                         "no backend shows a device; `vram info` tells why");
    } else {
        *index = best;
    }
    vr_leave(context);
    return status;
}

/* ---------------------------------------------------------- opening, closing */

vram_status vr_device_list_child(struct vr_device_object *device, struct vr_list *list,
                                 struct vr_link *link, const char *operation) {
    vr_mutex_lock(&device->lock);
    bool closing = device->closing;
    if (!closing) {
        vr_list_append(list, link);
    }
    vr_mutex_unlock(&device->lock);
    return closing ? vr_fail(VRAM_ERR_SHUTDOWN, operation, "the device is being closed") : VRAM_OK;
}

/* What the backend set up must be what it described: a group is there exactly when its capability
   is. */
static vram_status check_groups(const struct vr_device *device) {
    const struct {
        uint32_t cap;
        const void *group;
    } groups[] = {
        {VRAM_CAP_PINNED, device->pinned},   {VRAM_CAP_VMM, device->vmm},
        {VRAM_CAP_MANAGED, device->managed}, {VRAM_CAP_PEERS, device->peer},
        {VRAM_CAP_KERNELS, device->kernel},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (((device->info.caps & groups[i].cap) != 0) != (groups[i].group != NULL)) {
            return vr_error_set(VRAM_ERR_CORRUPT, device->info.backend, "device_open", 0,
                                "%s device %u has capabilities that its tables do not bear out",
                                device->info.backend, device->index);
        }
    }
    return VRAM_OK;
}

/* The destructor: children are gone, since each of them pinned the device. */
static void device_free(void *memory) {
    struct vr_device_object *device = memory;
    uint64_t context = device->context->object.handle;
    if (device->base.ops) {
        vr_records_end(device);
        vr_device_close(&device->base);
    }
    vr_mutex_lock(&device->context->lock);
    vr_link_remove(&device->link);
    vr_mutex_unlock(&device->context->lock);
    vr_mutex_destroy(&device->lock);
    vr_mem_free(device->peers);
    vr_mem_free(device);
    vr_handle_unpin(context);
}

static struct vr_device_object *device_make(struct vr_context *context, uint32_t index) {
    struct vr_device_object *device = vr_mem_alloc(1, sizeof *device, "vram_device_open");
    if (device) {
        device->object.process = vr_os_process_generation();
        device->context = context;
        device->slot = &context->slots[index];
        device->base.backend = device->slot->backend;
        device->base.index = device->slot->backend_index;
        device->base.info = device->slot->info;
        vr_mutex_init(&device->lock, VR_RANK_DEVICE);
        vr_list_init(&device->queues);
        vr_list_init(&device->kernels);
        vr_list_init(&device->physicals);
        vr_list_init(&device->records);
        vr_handle_ref(context->object.handle);
    }
    return device;
}

/* Lists a device that is complete, or finds the context closing. */
static vram_status device_list(struct vr_context *context, struct vr_device_object *device) {
    vr_mutex_lock(&context->lock);
    bool closing = context->closing;
    if (!closing) {
        vr_list_append(&context->devices, &device->link);
    }
    vr_mutex_unlock(&context->lock);
    return closing
               ? vr_fail(VRAM_ERR_SHUTDOWN, "vram_device_open", "the context is being destroyed")
               : VRAM_OK;
}

static vram_status device_open(struct vr_context *context, uint32_t index, uint64_t *handle) {
    struct vr_device_object *device = device_make(context, index);
    if (!device) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_device_open(&device->base);
    if (status != VRAM_OK) {
        device->base.ops = NULL;
    } else {
        status = check_groups(&device->base);
    }
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_DEVICE, device, device_free, &device->object.handle);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        device_free(device);
        vr_error_restore(&error);
        return status;
    }
    uint64_t published = device->object.handle;
    status = device_list(context, device);
    if (status != VRAM_OK) {
        vr_device_retire(published, device);
        return status;
    }
    *handle = published;
    return VRAM_OK;
}

vram_status vram_device_open(vram_context *handle, uint32_t index, vram_device **out) {
    static const char operation[] = "vram_device_open";
    void *entered;
    uint64_t device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the device is NULL");
    }
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = check_index(entered, index, operation);
    if (status == VRAM_OK) {
        status = device_open(entered, index, &device);
    }
    if (status == VRAM_OK) {
        *out = (vram_device *)(uintptr_t)device;
    }
    vr_leave(entered);
    return status;
}

/* Takes the first child off a list; 0 when there is none left. A reference is added for the caller,
   since the child's own may go at any moment. */
static uint64_t take_child(struct vr_device_object *device, struct vr_list *list, size_t to_object,
                           void **child) {
    vr_mutex_lock(&device->lock);
    device->closing = true;
    struct vr_link *link = vr_list_first(list);
    uint64_t handle = 0;
    if (link) {
        struct vr_object *object = (struct vr_object *)((char *)link - to_object);
        vr_link_remove(link);
        handle = object->handle;
        vr_handle_ref(handle);
        *child = object;
    }
    vr_mutex_unlock(&device->lock);
    return handle;
}

/* Ends a device that the caller has pinned, or at least referenced: children first. */
void vr_device_retire(uint64_t handle, struct vr_device_object *device) {
    void *child;
    uint64_t found;
    if (!vr_handle_retire(handle)) {
        return;
    }
    while ((found = take_child(device, &device->queues, offsetof(struct vr_queue_object, link),
                               &child))) {
        vr_queue_retire(child);
        vr_handle_unpin(found);
    }
    while (
        (found = take_child(device, &device->kernels, offsetof(struct vr_kernel, link), &child))) {
        if (vr_handle_retire(found)) {
            vr_handle_unpin(found);
        }
        vr_handle_unpin(found);
    }
    vr_ranges_unmap(device);
    while ((found = take_child(device, &device->physicals, offsetof(struct vr_physical, link),
                               &child))) {
        if (vr_handle_retire(found)) {
            vr_handle_unpin(found);
        }
        vr_handle_unpin(found);
    }
    vr_mutex_lock(&device->context->lock);
    vr_link_remove(&device->link);
    vr_mutex_unlock(&device->context->lock);
    vr_handle_unpin(handle); /* the owner's reference */
}

void vram_device_close(vram_device *handle) {
    struct vr_device_object *device;
    if (!handle || vr_exiting()) {
        return;
    }
    device = vr_handle_pin(VR_KIND_DEVICE, handle);
    if (!device) {
        vr_handle_error(VR_KIND_DEVICE, handle, "vram_device_close");
        return;
    }
    if (vr_forked(&device->object)) {
        vr_handle_retire(device->object.handle);
        return;
    }
    vr_device_retire(device->object.handle, device);
    vr_leave(device);
}

/* ---------------------------------------------------------------- asking it */

vram_status vram_device_describe(vram_device *handle, vram_device_info *info) {
    static const char operation[] = "vram_device_describe";
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vram_device_info *full = &((struct vr_device_object *)entered)->base.info;
    status = vr_info_give(info, full, sizeof *full, sizeof *full, operation);
    vr_leave(entered);
    return status;
}

vram_status vram_memory_info_get(vram_device *handle, vram_memory_info *info) {
    static const char operation[] = "vram_memory_info_get";
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vram_memory_info full = {.size = sizeof full};
    full.lost = vr_load(&device->base.lost, VR_ACQUIRE);
    full.total_bytes = device->base.info.memory_bytes;
    if (!full.lost && (device->base.info.caps & VRAM_CAP_MEMORY_INFO)) {
        status = vr_memory_info(&device->base, &full.free_bytes, &full.total_bytes);
        full.lost = vr_load(&device->base.lost, VR_ACQUIRE);
    }
    /* A lost device still tells what was held on it: that is when people ask. */
    if (status == VRAM_OK || full.lost) {
        full.held_bytes = vr_load(&device->held_bytes, VR_RELAXED);
        full.held_peak_bytes = vr_load(&device->held_peak_bytes, VR_RELAXED);
        full.held_count = vr_load(&device->held_count, VR_RELAXED);
        full.driver_calls = vr_load(&device->driver_calls, VR_RELAXED);
        status = vr_info_give(info, &full, sizeof full, sizeof full, operation);
    }
    vr_leave(device);
    return status;
}

/* -------------------------------------------------------------------- peers */

/* Remembers the peer's handle; the list is read under the lock by transfers. */
static vram_status remember_peer(struct vr_device_object *device, uint64_t peer) {
    static const char operation[] = "vram_device_peer_enable";
    vr_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < device->peer_count; i++) {
        if (device->peers[i] == peer) {
            vr_mutex_unlock(&device->lock);
            return VRAM_OK;
        }
    }
    uint64_t *larger =
        vr_mem_resize(device->peers, device->peer_count + 1, sizeof *larger, operation);
    if (larger) {
        device->peers = larger;
        larger[device->peer_count++] = peer;
    }
    vr_mutex_unlock(&device->lock);
    return larger ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

static vram_status peer_enable(struct vr_device_object *device, struct vr_device_object *peer) {
    static const char operation[] = "vram_device_peer_enable";
    if (device->base.backend != peer->base.backend || !device->base.peer ||
        !vr_peer_reachable(&device->base, &peer->base)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, operation,
                       "there is no direct path from %s device %u to %s device %u",
                       peer->base.info.backend, peer->base.index, device->base.info.backend,
                       device->base.index);
    }
    vram_status status = vr_peer_enable(&device->base, &peer->base);
    return status == VRAM_OK ? remember_peer(device, peer->object.handle) : status;
}

vram_status vram_device_peer_enable(vram_device *handle, vram_device *peer_handle) {
    static const char operation[] = "vram_device_peer_enable";
    void *device, *peer;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_enter(VR_KIND_DEVICE, peer_handle, operation, &peer);
    if (status == VRAM_OK) {
        status = device == peer
                     ? vr_fail(VRAM_ERR_INVALID, operation, "a device is no peer of itself")
                     : peer_enable(device, peer);
        vr_leave(peer);
    }
    vr_leave(device);
    return status;
}
