/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c: the checked wrappers, one line each.
 *
 * Debug builds assert that the calling thread holds no lock of the library: contract (2) of
 * backend.h. So a driver that blocks cannot block another thread.
 */
#include "device/ops.h"
#include "vram/buffer.h"

#include "base/delay.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/objects.h"

#include <assert.h>

/* Counts the call; true if a [lost] function may proceed. Calls that were inside when the process
   began to exit stop here, since the driver may be unloaded. */
static bool call_begin_always(struct vr_device *device, const char *operation) {
    assert(vr_locks_held() == 0);
    VR_DELAY_POINT(operation);
    if (!vr_driver_enter()) {
        vr_error_set(VRAM_ERR_SHUTDOWN, device->info.backend, operation, 0,
                     "the process is exiting");
        return false;
    }
    vr_fetch_add(&vr_device_of(device)->driver_calls, 1, VR_RELAXED);
    (void)vr_os_cancel_off();
    return true;
}

/* The driver has returned. Every call that began ends with this, or with call_finish. */
static void end_call(void) {
    vr_driver_leave();
    vr_os_cancel_on(NULL);
}

vram_status vr_check_lost(const struct vr_device *device, const char *operation) {
    if (!vr_load(&device->lost, VR_RELAXED)) {
        return VRAM_OK;
    }
    return vr_error_set(VRAM_ERR_DEVICE_LOST, device->info.backend, operation, 0,
                        "%s device %u was lost earlier; close it and go on with another device",
                        device->info.backend, device->index);
}

static bool call_begin(struct vr_device *device, const char *operation) {
    return vr_check_lost(device, operation) == VRAM_OK && call_begin_always(device, operation);
}

/* Detects device loss, and makes sure that every failure has an error record. */
static vram_status call_finish(struct vr_device *device, vram_status status,
                               const char *operation) {
    end_call();
    VR_DELAY_POINT(operation);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        return status;
    }
    if (vr_error_get()->status != status) {
        vr_error_set(status, device->info.backend, operation, 0, "%s failed: %s", operation,
                     vr_status_text(status));
    }
    if (status == VRAM_ERR_DEVICE_LOST && !vr_exchange(&device->lost, true, VR_ACQ_REL)) {
        vr_log(VRAM_LOG_ERROR, "%s device %u was lost, first seen by %s: %s", device->info.backend,
               device->index, vr_error_get()->operation, vr_error_get()->text);
    }
    return status;
}

/* If call_begin fails, it has just recorded the error. */
#define CALL(device, operation, expression)                                                        \
    (call_begin(device, operation) ? call_finish(device, expression, operation)                    \
                                   : vr_error_get()->status)
#define CALL_LOST(device, operation, expression)                                                   \
    (call_begin_always(device, operation) ? call_finish(device, expression, operation)             \
                                          : vr_error_get()->status)

/* The same for work on a queue. It is counted when the driver has it: a mark that has seen the
   count comes behind it. See vr_queue_is_idle. */
#define SUBMIT(queue, operation, expression)                                                       \
    submission_count(queue, CALL((queue)->device, operation, expression))

static vram_status submission_count(struct vr_queue *queue, vram_status status) {
    vr_fetch_add(&VR_CONTAINER(queue, struct vr_queue_object, base)->submissions, 1, VR_RELAXED);
    return status;
}

/* ------------------------------------------------------------------- device */

vram_status vr_device_open(struct vr_device *device) {
    return CALL(device, "device_open", device->backend->ops->device_open(device));
}

void vr_device_close(struct vr_device *device) {
    if (call_begin_always(device, "device_close")) {
        device->ops->close(device);
        end_call();
    }
}

vram_status vr_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    return CALL(device, "memory_info", device->ops->memory_info(device, free, total));
}

vram_status vr_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return CALL(device, "alloc", device->ops->alloc(device, bytes, addr));
}

vram_status vr_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "free", device->ops->free(device, addr, bytes));
}

vram_status vr_memory_others(struct vr_device *device, vram_value *bytes) {
    if (!device->ops->others) {
        *bytes = (vram_value){0, false};
        return VRAM_OK;
    }
    return CALL(device, "others", device->ops->others(device, bytes));
}

vram_status vr_device_check(struct vr_device *device) {
    return device->ops->check ? CALL(device, "device_check", device->ops->check(device)) : VRAM_OK;
}

/* -------------------------------------------------------------------- queue */

vram_status vr_queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    return CALL(queue->device, "queue_create", queue->device->queue_ops->create(queue, options));
}

vram_status vr_queue_adopt(struct vr_queue *queue) {
    return CALL(queue->device, "queue_adopt", queue->device->queue_ops->adopt(queue));
}

void vr_queue_destroy(struct vr_queue *queue) {
    if (call_begin_always(queue->device, "queue_destroy")) {
        queue->device->queue_ops->destroy(queue);
        end_call();
    }
}

vram_status vr_queue_upload(struct vr_queue *queue, vram_addr to, const void *from,
                            uint64_t bytes) {
    return SUBMIT(queue, "upload", queue->device->queue_ops->upload(queue, to, from, bytes));
}

vram_status vr_queue_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    return SUBMIT(queue, "download", queue->device->queue_ops->download(queue, to, from, bytes));
}

vram_status vr_queue_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    return SUBMIT(queue, "copy", queue->device->queue_ops->copy(queue, to, from, bytes));
}

vram_status vr_queue_copy_rows(struct vr_queue *queue, const struct vr_rectangle *rectangle) {
    const struct vr_device *device = queue->device;
    if (!device->queue_ops->copy_rows) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, device->info.backend, "copy_rows", 0,
                            "%s copies rows one by one", device->info.backend);
    }
    return SUBMIT(queue, "copy_rows", device->queue_ops->copy_rows(queue, rectangle));
}

vram_status vr_queue_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                          uint32_t pattern_bytes, uint64_t bytes) {
    return SUBMIT(queue, "fill",
                  queue->device->queue_ops->fill(queue, to, pattern, pattern_bytes, bytes));
}

vram_status vr_queue_signal(struct vr_queue *queue, uint64_t value) {
    return CALL(queue->device, "signal", queue->device->queue_ops->signal(queue, value));
}

vram_status vr_queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    return SUBMIT(queue, "after", queue->device->queue_ops->after(queue, other, value));
}

/* Whether its thread has ended, and all that it submitted. A driver knows less: the stream's handle
   means other streams now. */
static bool queue_is_over(struct vr_queue *queue) {
    uint64_t last = vr_load(&queue->last, VR_ACQUIRE);
    return last && vr_load(queue->word, VR_ACQUIRE) >= last;
}

vram_status vr_queue_poll(struct vr_queue *queue) {
    if (queue_is_over(queue)) {
        return VRAM_OK;
    }
    vram_status status = CALL(queue->device, "poll", queue->device->queue_ops->poll(queue));
    return status == VRAM_ERR_NOT_READY && queue_is_over(queue) ? VRAM_OK : status;
}

/* ------------------------------------------------------------------- pinned */

/* Allocates pages near the device if its NUMA node is known. */
vram_status vr_pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_numa before;
    vram_value node = {0};
    if (device->info.pci_known) {
        node = vr_os_numa_of_device("", device->info.pci);
    }
    bool near = node.known && vr_os_numa_begin(node.value, &before);
    vram_status status = CALL(device, "pinned_alloc", device->pinned->alloc(device, bytes, addr));
    if (near) {
        vr_os_numa_end(&before);
    }
    return status;
}

vram_status vr_pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "pinned_free", device->pinned->free(device, addr, bytes));
}

vram_status vr_pinned_register(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (!device->pinned || !device->pinned->register_pages) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, device->info.backend, "pinned_register", 0,
                            "%s cannot page-lock memory where it lies", device->info.backend);
    }
    return CALL(device, "pinned_register", device->pinned->register_pages(device, addr, bytes));
}

vram_status vr_pinned_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "pinned_unregister",
                     device->pinned->unregister_pages(device, addr, bytes));
}

/* ---------------------------------------------------------------------- vmm */

vram_status vr_vmm_reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                           vram_addr *addr) {
    return CALL(device, "reserve", device->vmm->reserve(device, bytes, align, addr));
}

vram_status vr_vmm_unreserve(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "unreserve", device->vmm->unreserve(device, addr, bytes));
}

/* Checks a handle from a driver that reports success: it must not be 0 or in use already. An
   invalid handle is not released, since it may not be ours. */
static vram_status check_native(struct vr_device *device, uint64_t native) {
    struct vr_device_object *object = vr_device_of(device);
    vr_mutex_lock(&object->lock);
    bool good = native && vr_handle_set_add(&object->natives, native);
    if (!native) {
        vr_handle_set_cancel(&object->natives);
    }
    vr_mutex_unlock(&object->lock);
    return good ? VRAM_OK
                : vr_error_set(VRAM_ERR_CORRUPT, device->info.backend, "create", 0,
                               "the driver reported success with the handle 0x%llx, which is %s",
                               (unsigned long long)native, native ? "in use already" : "none");
}

/* Creates a handle by `create` and enters it in the set. */
static vram_status create_native(struct vr_device *device, vr_vmm_create_fn *create, uint64_t bytes,
                                 uint64_t *handle) {
    struct vr_device_object *object = vr_device_of(device);
    uint64_t native = 0;
    vr_mutex_lock(&object->lock);
    vram_status status = vr_handle_set_reserve(&object->natives, "create");
    vr_mutex_unlock(&object->lock);
    if (status != VRAM_OK) {
        return status;
    }
    status = CALL(device, "create", create(device, bytes, &native));
    if (status == VRAM_OK) {
        status = check_native(device, native);
        *handle = status == VRAM_OK ? native : *handle;
    } else {
        vr_mutex_lock(&object->lock);
        vr_handle_set_cancel(&object->natives);
        vr_mutex_unlock(&object->lock);
    }
    return status;
}

vram_status vr_vmm_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return create_native(device, device->vmm->create, bytes, handle);
}

/* Removed from the set first: the driver may return the same number to another thread at once. */
vram_status vr_vmm_release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    struct vr_device_object *object = vr_device_of(device);
    vr_mutex_lock(&object->lock);
    vr_handle_set_take(&object->natives, handle);
    vr_mutex_unlock(&object->lock);
    vram_status status = CALL_LOST(device, "release", device->vmm->release(device, handle, bytes));
    vr_mutex_lock(&object->lock);
    if (status == VRAM_OK) {
        vr_handle_set_cancel(&object->natives);
    } else {
        (void)vr_handle_set_add(&object->natives, handle);
    }
    vr_mutex_unlock(&object->lock);
    return status;
}

vram_status vr_vmm_map(struct vr_device *device, vram_addr addr, uint64_t handle, uint64_t bytes) {
    return CALL(device, "map", device->vmm->map(device, addr, handle, bytes));
}

vram_status vr_vmm_access(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL(device, "access", device->vmm->access(device, addr, bytes));
}

vram_status vr_vmm_protect(struct vr_device *device, vram_addr addr, uint64_t bytes,
                           bool read_only) {
    return CALL(device, "protect", device->vmm->protect(device, addr, bytes, read_only));
}

vram_status vr_vmm_unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "unmap", device->vmm->unmap(device, addr, bytes));
}

/* ------------------------------------------- memory shared between processes */

vram_status vr_share_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return device->vmm ? create_native(device, device->share->create, bytes, handle)
                       : CALL(device, "alloc", device->share->create(device, bytes, handle));
}

vram_status vr_share_export_handle(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                   bool read_only, int *descriptor) {
    return CALL(device, "export",
                device->share->export_handle(device, handle, bytes, read_only, descriptor));
}

/* Imported handles are not in the set of natives: a driver may return the same number for memory
   that this process has exported or imported before, and counts its references. */
vram_status vr_share_import_handle(struct vr_device *device, int descriptor, uint64_t bytes,
                                   uint64_t *handle) {
    uint64_t native = 0;
    vram_status status =
        CALL(device, "import", device->share->import_handle(device, descriptor, bytes, &native));
    if (status == VRAM_OK && !native) {
        return vr_error_set(VRAM_ERR_CORRUPT, device->info.backend, "import", 0,
                            "the driver reported success without a handle");
    }
    *handle = status == VRAM_OK ? native : *handle;
    return status;
}

vram_status vr_fabric_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    return create_native(device, device->fabric->create, bytes, handle);
}

vram_status vr_fabric_export(struct vr_device *device, uint64_t handle,
                             uint8_t fabric[VR_FABRIC_BYTES]) {
    return CALL(device, "export", device->fabric->export_handle(device, handle, fabric));
}

vram_status vr_fabric_import(struct vr_device *device, const uint8_t fabric[VR_FABRIC_BYTES],
                             uint64_t *handle) {
    return CALL(device, "import", device->fabric->import_handle(device, fabric, handle));
}

vram_status vr_share_release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    return device->vmm ? CALL_LOST(device, "release", device->vmm->release(device, handle, bytes))
                       : CALL_LOST(device, "free", device->ops->free(device, handle, bytes));
}

/* ------------------------------------------------------------------ managed */

vram_status vr_managed_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return CALL(device, "managed_alloc", device->managed->alloc(device, bytes, addr));
}

vram_status vr_managed_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return CALL_LOST(device, "managed_free", device->managed->free(device, addr, bytes));
}

vram_status vr_managed_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                                int32_t target) {
    return SUBMIT(queue, "prefetch", queue->device->managed->prefetch(queue, addr, bytes, target));
}

vram_status vr_pinned_check(struct vr_device *device, vram_addr addr, vram_value *pinned) {
    if (!device->pinned->check) {
        *pinned = (vram_value){0, false};
        return VRAM_OK;
    }
    return CALL(device, "pinned_check", device->pinned->check(device, addr, pinned));
}

vram_status vr_managed_advise(struct vr_device *device, vram_addr addr, uint64_t bytes,
                              vram_advice advice, int32_t target) {
    return device->managed->advise
               ? CALL(device, "advise",
                      device->managed->advise(device, addr, bytes, advice, target))
               : VRAM_OK;
}

/* -------------------------------------------------------------------- peers */

bool vr_peer_reachable(struct vr_device *device, struct vr_device *peer) {
    bool reachable = false;
    if (call_begin(device, "peer_reachable")) {
        reachable = device->peer->reachable(device, peer);
        end_call();
    }
    return reachable;
}

vram_status vr_peer_enable(struct vr_device *device, struct vr_device *peer) {
    return CALL(device, "peer_enable", device->peer->enable(device, peer));
}

vram_status vr_peer_copy(struct vr_queue *queue, vram_addr to, struct vr_device *peer,
                         vram_addr from, uint64_t bytes) {
    return SUBMIT(queue, "peer_copy", queue->device->peer->copy(queue, to, peer, from, bytes));
}

/* ------------------------------------------------------------------ handles */

vram_status vr_memory_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                             struct vr_native *native) {
    return CALL(device, "native", device->handles->native(device, addr, bytes, native));
}

/* ------------------------------------------------------------------ objects */

vram_status vr_object_adopt(struct vr_device *device, const struct vram_wrap *wrap,
                            vram_addr *addr) {
    return CALL(device, "adopt", device->objects->adopt(device, wrap, addr));
}

void vr_object_give(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (call_begin_always(device, "give")) {
        device->objects->give(device, addr, bytes);
        end_call();
    }
}

vram_status vr_object_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                             struct vr_native *native) {
    return CALL(device, "native", device->objects->native(device, addr, bytes, native));
}

/* ------------------------------------------------------------------ kernels */

vram_status vr_kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                           void **kernel) {
    return CALL(device, "kernel_load", device->kernel->load(device, source, kernel));
}

void vr_kernel_unload(struct vr_device *device, void *kernel) {
    if (call_begin_always(device, "kernel_unload")) {
        device->kernel->unload(device, kernel);
        end_call();
    }
}

vram_status vr_queue_launch(struct vr_queue *queue, void *kernel,
                            const struct vram_launch *launch) {
    return SUBMIT(queue, "launch", queue->device->kernel->launch(queue, kernel, launch));
}
