/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pinned.c: the public calls of vram/pinned.h.
 */
#include "vram/pinned.h"

#include "base/error.h"
#include "xfer/staging.h"

/* Enters the device and its staging, both with a reference. */
static vram_status enter_staging(vram_device *handle, struct vr_device_object **device,
                                 struct vr_staging **staging) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    *device = entered;
    status = vr_staging_enter(*device, staging);
    if (status != VRAM_OK) {
        vr_leave(entered);
    }
    return status;
}

static void leave_staging(struct vr_device_object *device, struct vr_staging *staging) {
    vr_staging_leave(staging);
    vr_leave(device);
}

typedef vram_status registration_fn(struct vr_registrations *registrations, uint64_t addr,
                                    uint64_t bytes);

static vram_status call_registration(vram_device *handle, void *memory, uint64_t bytes,
                                     registration_fn *function) {
    struct vr_device_object *device;
    struct vr_staging *staging;
    vram_status status = enter_staging(handle, &device, &staging);
    if (status == VRAM_OK) {
        status = function(&staging->registrations, (uintptr_t)memory, bytes);
        leave_staging(device, staging);
    }
    return status;
}

vram_status vram_pinned_begin(vram_device *device, void *memory, uint64_t bytes) {
    VR_CALL;
    return call_registration(device, memory, bytes, vr_registration_use);
}

vram_status vram_pinned_end(vram_device *device, void *memory, uint64_t bytes) {
    VR_CALL;
    return call_registration(device, memory, bytes, vr_registration_unuse);
}

vram_status vram_pinned_forget(vram_device *device, void *memory, uint64_t bytes) {
    VR_CALL;
    return call_registration(device, memory, bytes, vr_registration_forget);
}

static uint64_t counter_read(vr_atomic_u64 *counter) {
    return vr_load(counter, VR_RELAXED);
}

static void count_slots(struct vr_staging *staging, struct vram_pinned_info *info) {
    vr_mutex_lock(&staging->lock);
    for (uint32_t i = 0; i < staging->slot_most; i++) {
        info->slots += staging->slots[i].state != VR_SLOT_NONE;
        info->slots_busy += staging->slots[i].state > VR_SLOT_FREE;
    }
    vr_mutex_unlock(&staging->lock);
}

vram_status vram_pinned_info_get(vram_device *handle, vram_pinned_info *info) {
    VR_CALL;
    struct vr_device_object *device;
    struct vr_staging *staging;
    vram_status status = enter_staging(handle, &device, &staging);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_staging_counts *counts = &staging->counts;
    struct vr_registrations *registrations = &staging->registrations;
    struct vram_pinned_info full = {.size = sizeof full,
                                    .slot_bytes = staging->slot_bytes,
                                    .slots_most = staging->slot_most,
                                    .workers = vr_copy_count(&staging->workers),
                                    .workers_most = staging->workers.most,
                                    .uploads = counter_read(&counts->uploads),
                                    .upload_bytes = counter_read(&counts->upload_bytes),
                                    .downloads = counter_read(&counts->downloads),
                                    .download_bytes = counter_read(&counts->download_bytes),
                                    .chunks = counter_read(&counts->chunks),
                                    .plain = counter_read(&counts->plain),
                                    .plain_bytes = counter_read(&counts->plain_bytes),
                                    .refusals = counter_read(&counts->refusals),
                                    .waits = counter_read(&counts->waits),
                                    .hits = counter_read(&registrations->hits),
                                    .misses = counter_read(&registrations->misses),
                                    .evictions = counter_read(&registrations->evictions)};
    count_slots(staging, &full);
    vr_registration_count(registrations, &full.entries, &full.entries_used, &full.entry_bytes);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    leave_staging(device, staging);
    return status;
}
