/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_import.c: descriptors of another process become mapped memory.
 *
 * All handles are mapped one after the other in one reserved range, so that a block that lies in
 * several of them is contiguous here too. On a device that maps no memory each handle is an
 * allocation with an address of its own. Both are plain device memory to the rest of the library:
 * copies, fills and launches find it by its address. It is released once the work of the device's
 * queues is complete; otherwise it stays until the device closes.
 */
#include "share/share_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "device/ops.h"

vram_status vr_import_handle(struct vr_share *share, uint32_t index, int descriptor) {
    struct vr_share_handle *handle = &share->handles[index];
    return vr_share_import_handle(&share->opened.device->base, descriptor, handle->bytes,
                                  &handle->native);
}

/* Enters memory in the address map, with its record in `handle`. */
static vram_status memory_publish(struct vr_share *share, struct vr_share_handle *handle,
                                  uint64_t bytes) {
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_store(&record->read_only, share->read_only, VR_RELEASE);
    vram_status status =
        vr_record_publish(record, handle->base, bytes, share->opened.device->object.handle,
                          VRAM_MEMORY_DEVICE, false);
    if (status != VRAM_OK) {
        vr_record_give(record);
        return status;
    }
    handle->record = record;
    return VRAM_OK;
}

/* No new work finds the memory. */
static void memory_withdraw(struct vr_share *share) {
    for (uint32_t i = 0; share->handles && i < share->handle_count; i++) {
        struct vr_share_handle *handle = &share->handles[i];
        if (handle->record) {
            vr_record_withdraw(handle->record);
            vr_record_give(handle->record);
            handle->record = NULL;
        }
    }
}

vram_status vr_import_reserve(struct vr_share *share) {
    struct vr_share_opened *opened = &share->opened;
    struct vr_device *device = &opened->device->base;
    uint64_t granule = vr_share_granule(device);
    if (!device->vmm) {
        return VRAM_OK;
    }
    vram_status status = vr_vmm_reserve(device, share->bytes, granule, &opened->base);
    if (status != VRAM_OK) {
        return status;
    }
    if (!opened->base || opened->base % granule) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the driver reported success with the impossible address 0x%llx",
                       (unsigned long long)opened->base);
    }
    opened->reserved = true;
    return VRAM_OK;
}

/* Without mapping: the driver's addresses are checked, and that is all. */
static vram_status import_place(struct vr_share *share) {
    uint64_t granule = vr_share_granule(&share->opened.device->base);
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < share->handle_count && status == VRAM_OK; i++) {
        struct vr_share_handle *handle = &share->handles[i];
        handle->base = handle->native;
        status = handle->base % granule
                     ? vr_fail(VRAM_ERR_CORRUPT,
                               "the driver reported success with the impossible address 0x%llx",
                               (unsigned long long)handle->base)
                     : memory_publish(share, handle, handle->bytes);
    }
    return status;
}

vram_status vr_import_map(struct vr_share *share) {
    struct vr_share_opened *opened = &share->opened;
    struct vr_device *device = &opened->device->base;
    vram_status status = VRAM_OK;
    if (!device->vmm) {
        return import_place(share);
    }
    for (uint32_t i = 0; i < share->handle_count && status == VRAM_OK; i++) {
        struct vr_share_handle *handle = &share->handles[i];
        handle->base = opened->base + handle->offset;
        status = vr_vmm_map(device, handle->base, handle->native, handle->bytes);
        opened->mapped += status == VRAM_OK;
    }
    if (status == VRAM_OK) {
        status = share->read_only ? vr_vmm_protect(device, opened->base, share->bytes, true)
                                  : vr_vmm_access(device, opened->base, share->bytes);
    }
    return status == VRAM_OK ? memory_publish(share, &share->handles[0], share->bytes) : status;
}

/* Tries twice: a driver may refuse temporarily. */
static bool try_release(vram_status (*release)(struct vr_device *, uint64_t, uint64_t),
                        struct vr_device *device, uint64_t what, uint64_t bytes) {
    return release(device, what, bytes) == VRAM_OK || release(device, what, bytes) == VRAM_OK;
}

void vr_import_end(struct vr_share *share) {
    struct vr_share_opened *opened = &share->opened;
    struct vr_device *device = &opened->device->base;
    struct vram_error error;
    bool all = true, unmapped = true;
    vr_error_save(&error);
    memory_withdraw(share);
    while (opened->mapped > 0) {
        struct vr_share_handle *handle = &share->handles[--opened->mapped];
        if (!try_release(vr_vmm_unmap, device, handle->base, handle->bytes)) {
            handle->native = 0; /* what is mapped cannot be released */
            all = unmapped = false;
        }
    }
    for (uint32_t i = 0; share->handles && i < share->handle_count; i++) {
        struct vr_share_handle *handle = &share->handles[i];
        all = (!handle->native ||
               try_release(vr_share_release, device, handle->native, handle->bytes)) &&
              all;
        handle->native = 0;
    }
    if (opened->reserved && unmapped) {
        all = try_release(vr_vmm_unreserve, device, opened->base, share->bytes) && all;
    }
    opened->reserved = false;
    if (!all) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of opened memory",
               (unsigned long long)share->bytes);
    }
    vr_error_restore(&error);
}

/* ------------------------------------------------------------ lives and ends */

void vr_opened_discard(struct vr_share *share) {
    struct vram_error error;
    vr_error_save(&error);
    vr_import_end(share);
    vr_timeline_end(share);
    vr_share_free(share);
    vr_error_restore(&error);
}

/* The connection ends last: from then on the exporter may reuse the memory. */
static void opened_free(void *memory) {
    struct vr_share *share = memory;
    uint64_t device = share->opened.device->object.handle;
    if (!share->opened.unfinished) {
        vr_import_end(share);
    }
    vr_timeline_end(share);
    if (share->opened.socket >= 0) {
        vr_own_fd_close(share->opened.socket);
        vr_share_settle(); /* the exporter may be in this process */
    }
    vr_share_free(share);
    vr_handle_unpin(device);
}

/* Drops the owner's reference, once. */
static void owner_drop(struct vr_share *share) {
    if (vr_exchange(&share->opened.owned, false, VR_ACQ_REL)) {
        vr_mutex_lock(&share->opened.device->lock);
        vr_link_remove(&share->opened.watcher.link);
        vr_mutex_unlock(&share->opened.device->lock);
        vr_handle_unpin(share->object.handle);
    }
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher;
    (void)queue;
    (void)finished;
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_share *share = VR_CONTAINER(watcher, struct vr_share, opened.watcher);
    (void)vr_handle_retire(share->object.handle);
    share->opened.unfinished = !finished;
    owner_drop(share);
}

vram_status vr_opened_publish(struct vr_share *share, vram_share **out) {
    struct vr_share_opened *opened = &share->opened;
    uint64_t handle;
    opened->watcher.queue_ended = queue_ended;
    opened->watcher.closing = device_closing;
    vr_store(&opened->owned, true, VR_RELAXED);
    vram_status status = vr_handle_publish(VR_KIND_SHARE, share, opened_free, &handle);
    if (status != VRAM_OK) {
        opened_free(share);
        return status;
    }
    share->object.handle = opened->watcher.handle = handle;
    status = vr_device_list_watcher(opened->device, &opened->watcher);
    if (status != VRAM_OK) {
        (void)vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_share *)(uintptr_t)handle; /* may have ended with its device by now */
    return VRAM_OK;
}

/* Waits until no submitted work can use the memory any more. */
static vram_status work_wait(struct vr_device_object *device) {
    uint64_t deadline = vr_deadline_in(device->context->wait_ns);
    struct vr_queue_object *queue;
    if (!vr_readers_wait(device, deadline) || !vr_submits_wait(device, deadline)) {
        return VRAM_ERR_TIMEOUT;
    }
    vram_status status = VRAM_OK;
    for (uint64_t last = 0; status == VRAM_OK && (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        status = vr_pool_settle_queue(queue, deadline);
        vr_leave(queue);
    }
    return status;
}

vram_status vr_opened_close(struct vr_share *share) {
    struct vr_device_object *device = share->opened.device;
    if (!vr_handle_retire(share->object.handle)) {
        return vr_fail(VRAM_ERR_STALE, "the share is being closed already");
    }
    memory_withdraw(share);
    vram_status status = work_wait(device);
    if (status == VRAM_OK) {
        owner_drop(share);
        return VRAM_OK;
    }
    return vr_fail(status,
                   "work that may use the share is unfinished; its %llu bytes stay mapped "
                   "until the device is closed",
                   (unsigned long long)share->bytes);
}
