/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c: describing, choosing, opening and closing devices.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "device/device_calls.h"
#include "device/ops.h"

#include <string.h>

/* ------------------------------------------------------- describing, choosing */

/* The context has no device: says why, for each backend that was to be started. */
static vram_status fail_without_device(const struct vr_context *context) {
    char why[VRAM_ERROR_TEXT_MAX] = "";
    for (uint32_t i = 0; i < context->backend_count; i++) {
        const struct vr_backend_state *state = &context->backends[i];
        size_t used = strlen(why);
        if (state->wanted) {
            vr_text_format(why + used, sizeof why - used, "; %s: %s", state->base.ops->name,
                           state->started ? "has no device" : state->reason);
        }
    }
    return vr_fail(VRAM_ERR_NO_DEVICE, "no device was found%s", why);
}

uint32_t vram_device_count(vram_context *handle) {
    VR_CALL;
    void *context;
    if (vr_enter(VR_KIND_CONTEXT, handle, &context) != VRAM_OK) {
        return 0;
    }
    uint32_t count = ((struct vr_context *)context)->slot_count;
    vr_leave(context);
    return count;
}

static vram_status check_index(const struct vr_context *context, uint32_t index) {
    if (!context->slot_count) {
        return fail_without_device(context);
    }
    if (index >= context->slot_count) {
        return vr_fail(VRAM_ERR_NO_DEVICE, "device index %u is out of range; there are %u devices",
                       index, context->slot_count);
    }
    return VRAM_OK;
}

vram_status vram_device_info_get(vram_context *handle, uint32_t index, vram_device_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    status = check_index(context, index);
    if (status == VRAM_OK) {
        const struct vram_device_info *full = &context->slots[index].info;
        status = vr_info_give(info, full, sizeof *full, sizeof *full);
    }
    vr_leave(context);
    return status;
}

/* The first device of a kind; slot_count if there is none. Of CPU devices it is the last one, the
   host itself: a GPU API that runs on the CPU is a slower way to the same memory. */
static uint32_t first_of(const struct vr_context *context, vram_device_kind kind) {
    uint32_t found = context->slot_count;
    for (uint32_t i = 0; i < context->slot_count; i++) {
        if (context->slots[i].info.kind == kind &&
            (found == context->slot_count || kind == VRAM_DEVICE_CPU)) {
            found = i;
        }
    }
    return found;
}

vram_status vram_device_best(vram_context *handle, uint32_t *index) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &entered);
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
        status = vr_fail(VRAM_ERR_INVALID, "the pointer that receives the index is NULL");
    } else if (best == context->slot_count) {
        status = fail_without_device(context);
    } else {
        *index = best;
    }
    vr_leave(context);
    return status;
}

/* ---------------------------------------------------------- opening, closing */

/* The tables that the backend set up must match its description: a group exists exactly when its
   capability is set, and a single function at least then. */
static bool tables_match(const struct vr_device *device) {
    uint32_t caps = device->info.caps;
    const struct {
        uint32_t cap;
        const void *group;
    } groups[] = {
        {VRAM_CAP_PINNED, device->pinned},   {VRAM_CAP_VMM, device->vmm},
        {VRAM_CAP_MANAGED, device->managed}, {VRAM_CAP_PEERS, device->peer},
        {VRAM_CAP_KERNELS, device->kernel},  {VRAM_CAP_HANDLES, device->handles},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (((caps & groups[i].cap) != 0) != (groups[i].group != NULL)) {
            return false;
        }
    }
    return (!(caps & VRAM_CAP_ADOPT) || device->queue_ops->adopt) &&
           (!(caps & VRAM_CAP_MEMORY_INFO) || device->ops->memory_info);
}

static vram_status check_groups(const struct vr_device *device) {
    if (!tables_match(device)) {
        return vr_error_set(
            VRAM_ERR_CORRUPT, device->info.backend, "device_open", 0,
            "%s device %u reports capabilities that its function tables do not match",
            device->info.backend, device->index);
    }
    return VRAM_OK;
}

/* The destructor. There are no children left, since each pinned the device. Its memory is freed at
   once; the native device stays as long as queues of other devices may wait for its words. */
static void device_free(void *memory) {
    struct vr_device_object *device = memory;
    if (device->base.ops) {
        vr_records_end(device);
    }
    vr_native_unref(device);
}

static struct vr_device_object *device_make(struct vr_context *context, uint32_t index) {
    struct vr_device_object *device = vr_mem_alloc(1, sizeof *device, vr_operation());
    if (device) {
        device->object.process = vr_os_process_generation();
        device->context = context;
        device->slot = &context->slots[index];
        device->base.backend = device->slot->backend;
        device->base.index = device->slot->backend_index;
        device->base.info = device->slot->info;
        vr_store(&device->native_users, 1, VR_RELAXED);
        vr_mutex_init(&device->lock, VR_RANK_DEVICE);
        vr_list_init(&device->queues);
        vr_list_init(&device->kernels);
        vr_list_init(&device->physicals);
        vr_list_init(&device->records);
        vr_list_init(&device->watchers);
        vr_handle_ref(context->object.handle);
    }
    return device;
}

/* Adds a complete device to the list, unless the context is closing. */
static vram_status device_list(struct vr_context *context, struct vr_device_object *device) {
    vr_mutex_lock(&context->lock);
    bool closing = context->closing;
    if (!closing) {
        vr_list_append(&context->devices, &device->link);
    }
    vr_mutex_unlock(&context->lock);
    return closing ? vr_fail(VRAM_ERR_SHUTDOWN, "the context is being destroyed") : VRAM_OK;
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
        vr_network_cards_find(&device->base);
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
        if (vr_handle_retire(published)) {
            (void)vr_device_finish(device, vr_deadline_in(context->wait_ns));
        }
        return status;
    }
    *handle = published;
    return VRAM_OK;
}

vram_status vr_device_make(vram_context *handle, uint32_t index, vram_device **out) {
    VR_OPERATION("vram_device_open");
    void *entered;
    uint64_t device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the device is NULL");
    }
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = check_index(entered, index);
    if (status == VRAM_OK) {
        status = device_open(entered, index, &device);
    }
    if (status == VRAM_OK) {
        *out = (vram_device *)(uintptr_t)device;
    }
    vr_leave(entered);
    return status;
}

vram_status vram_device_open(vram_context *handle, uint32_t index, vram_device **out) {
    return vr_device_make(handle, index, out);
}

vram_status vr_device_end(vram_device *handle) {
    VR_OPERATION("vram_device_close");
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_DEVICE, handle, &entered);
    struct vr_device_object *device = entered;
    if (!device) {
        return status;
    }
    status = vr_handle_retire(device->object.handle)
                 ? vr_device_finish(device, vr_deadline_in(device->context->wait_ns))
                 : vr_handle_error(VR_KIND_DEVICE, handle);
    vr_leave(device);
    return status;
}

vram_status vram_device_close(vram_device *handle) {
    return vr_device_end(handle);
}

/* ------------------------------------------------------------------ queries */

vram_status vram_device_describe(vram_device *handle, vram_device_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vram_device_info *full = &((struct vr_device_object *)entered)->base.info;
    status = vr_info_give(info, full, sizeof *full, sizeof *full);
    vr_leave(entered);
    return status;
}

vram_status vr_memory_info_get(vram_device *handle, vram_memory_info *info) {
    VR_OPERATION("vram_memory_info_get");
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vram_memory_info full = {.size = sizeof full};
    struct vram_error error;
    vr_error_save(&error);
    full.lost = vr_load(&device->base.lost, VR_ACQUIRE);
    full.total_bytes = device->base.info.memory_bytes;
    if (!full.lost && (device->base.info.caps & VRAM_CAP_MEMORY_INFO)) {
        status = vr_memory_info(&device->base, &full.free_bytes, &full.total_bytes);
        full.lost = vr_load(&device->base.lost, VR_ACQUIRE);
    }
    /* A lost device still reports what was held on it. */
    if (status == VRAM_OK || full.lost) {
        vr_error_restore(&error);
        full.held_bytes = vr_load(&device->held_bytes, VR_RELAXED);
        full.held_peak_bytes = vr_load(&device->held_peak_bytes, VR_RELAXED);
        full.held_count = vr_load(&device->held_count, VR_RELAXED);
        full.driver_calls = vr_load(&device->driver_calls, VR_RELAXED);
        status = vr_info_give(info, &full, sizeof full, sizeof full);
    }
    vr_leave(device);
    return status;
}

vram_status vram_memory_info_get(vram_device *handle, vram_memory_info *info) {
    return vr_memory_info_get(handle, info);
}
