/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_device.c: the contexts, devices and queues that belong to the process; vram/shared.h.
 *
 *  (1) `contexts` has the handle of one context for each backend, each slot of such a context the
 *      handle of one device. 0: not created yet. A handle may have ended, belong to the parent of a
 *      forked child, or be that of a lost device: then a new object takes its place. Others may
 *      still have a lost device's handle, so that stays open.
 *  (2) An object is created under no lock and entered by compare-and-swap. Of two threads that
 *      create one at the same time, the second destroys its own and uses the other's.
 */
#include "device/objects.h"

#include "backend/registry.h"
#include "base/error.h"
#include "device/device_calls.h"
#include "vram/shared.h"

#include <assert.h>
#include <string.h>

enum { CONTEXTS_MAX = 16 };                  /* more than there are backends */
static vr_atomic_u64 contexts[CONTEXTS_MAX]; /* by row of the registry; (1) */

/* ----------------------------------------------------------------- contexts */

static vram_status row_find(const char *backend, uint32_t *row) {
    const struct vr_backend_ops *ops = backend ? vr_registry_find(backend, strlen(backend)) : NULL;
    if (!ops) {
        return vr_fail(VRAM_ERR_INVALID,
                       "unknown backend \"%.32s\"; there are cuda, hip, metal, vulkan, opencl, sim "
                       "and host",
                       backend ? backend : "");
    }
    assert(vr_registry_count() <= CONTEXTS_MAX);
    for (*row = 0; vr_registry_at(*row) != ops; ++*row) {
    }
    return VRAM_OK;
}

/* Keeps (2). The context is pinned. */
static vram_status context_find(uint32_t row, struct vr_context **out) {
    for (;;) {
        uint64_t before = vr_load(&contexts[row], VR_ACQUIRE);
        *out = vr_shared_find(VR_KIND_CONTEXT, before);
        if (*out) {
            return VRAM_OK;
        }
        struct vram_context_options options = {.size = sizeof options,
                                               .backends = vr_registry_at(row)->name};
        vram_context *made;
        vram_status status = vr_context_make(&options, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (!vr_cas(&contexts[row], &before, (uint64_t)(uintptr_t)made, VR_ACQ_REL)) {
            (void)vr_context_end(made);
        }
    }
}

/* ------------------------------------------------------------------ devices */

static vram_status slot_find(const struct vr_context *context, uint32_t row, uint32_t index,
                             uint32_t *slot) {
    const struct vr_backend_state *state = &context->backends[row];
    if (!state->started) {
        return vr_fail(VRAM_ERR_NO_DRIVER, "%s is not present: %s", state->base.ops->name,
                       state->reason);
    }
    for (*slot = 0; *slot < context->slot_count; ++*slot) {
        if (context->slots[*slot].backend_index == index) {
            return VRAM_OK;
        }
    }
    return vr_fail(VRAM_ERR_NO_DEVICE, "%s has no device %u: there are %u", state->base.ops->name,
                   index, context->slot_count);
}

/* Keeps (2). */
static vram_status device_find(struct vr_context *context, uint32_t slot, vram_device **out) {
    vr_atomic_u64 *shared = &context->slots[slot].shared;
    for (;;) {
        uint64_t before = vr_load(shared, VR_ACQUIRE);
        struct vr_device_object *device = vr_shared_find(VR_KIND_DEVICE, before);
        if (device) {
            bool lost = vr_load(&device->base.lost, VR_ACQUIRE);
            vr_leave(device);
            if (!lost) {
                *out = (vram_device *)(uintptr_t)before;
                return VRAM_OK;
            }
        }
        vram_device *made;
        vram_status status =
            vr_device_make((vram_context *)(uintptr_t)context->object.handle, slot, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (!vr_cas(shared, &before, (uint64_t)(uintptr_t)made, VR_ACQ_REL)) {
            (void)vr_device_end(made);
        }
    }
}

vram_status vram_device_shared(const char *backend, uint32_t backend_index, vram_device **out) {
    VR_CALL;
    uint32_t row = 0, slot = 0;
    struct vr_context *context;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the device is NULL");
    }
    vram_status status = row_find(backend, &row);
    if (status == VRAM_OK) {
        status = context_find(row, &context);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = slot_find(context, row, backend_index, &slot);
    if (status == VRAM_OK) {
        status = device_find(context, slot, out);
    }
    vr_leave(context);
    return status;
}

bool vr_device_is_shared(const struct vr_device_object *device) {
    return vr_load(&device->slot->shared, VR_ACQUIRE) == device->object.handle;
}

/* ------------------------------------------------------------------- queues */

/* Whether work that the calling thread submits to `native` is in the order of the queue. */
static bool queue_is_of(const struct vr_queue_object *queue, const void *native) {
    return queue->base.adopted && !queue->region && queue->base.native == native &&
           (!queue->base.thread || queue->base.thread == vr_os_thread_number()) &&
           !vr_load(&queue->base.last, VR_RELAXED);
}

/* The first such queue that is open; NULL: none. */
static vram_queue *queue_find(struct vr_device_object *device, const void *native) {
    vram_queue *found = NULL;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->queues); link && !found;
         link = vr_list_next(&device->queues, link)) {
        struct vr_queue_object *queue = VR_CONTAINER(link, struct vr_queue_object, link);
        if (queue_is_of(queue, native) && vr_queue_is_open(queue)) {
            found = (vram_queue *)(uintptr_t)queue->object.handle;
        }
    }
    vr_mutex_unlock(&device->lock);
    return found;
}

static vram_status queue_make(vram_device *device, void *native, vram_queue **out) {
    vram_status status = vr_queue_take(device, native, out);
    struct vr_queue_object *queue = status == VRAM_OK ? vr_handle_pin(VR_KIND_QUEUE, *out) : NULL;
    if (queue) {
        vr_store(&queue->shared, true, VR_RELAXED);
        vr_leave(queue);
    }
    return status;
}

vram_status vram_queue_shared(vram_device *handle, void *native, vram_queue **out) {
    VR_CALL;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the queue is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    vram_queue *found = queue_find(device, native);
    if (!found) {
        vr_queues_sweep(device);
        status = queue_make(handle, native, &found);
    }
    if (status == VRAM_OK) {
        *out = found;
    }
    vr_leave(device);
    return status;
}
