/* SPDX-License-Identifier: Apache-2.0 */
/*
 * range.c: reserved addresses.
 */
#include "device/mapping.h"
#include "vram/vmm.h"

#include "base/error.h"
#include "base/size.h"
#include "device/ops.h"

vram_status vr_vmm_enter(vram_device *handle, void **device) {
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, device);
    if (status == VRAM_OK && !((struct vr_device_object *)*device)->base.vmm) {
        const struct vram_device_info *info = &((struct vr_device_object *)*device)->base.info;
        status = vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u has no virtual memory management",
                         info->backend, info->backend_index);
        vr_leave(*device);
    }
    return status;
}

vram_status vr_vmm_round(const struct vr_device_object *device, uint64_t bytes, uint64_t *rounded) {
    uint64_t granule = device->base.info.vmm_granule.value;
    if (bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, "0 bytes were asked for");
    }
    if (!vr_round_up(bytes, granule, rounded)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "%llu bytes cannot be rounded up to %llu",
                       (unsigned long long)bytes, (unsigned long long)granule);
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------- ranges */

static vram_status range_reserve(struct vr_device_object *device, uint64_t bytes,
                                 struct vr_record *record, vram_addr *base) {
    uint64_t granule = device->base.info.vmm_granule.value, end;
    vram_addr given = 0;
    vram_status status = vr_vmm_reserve(&device->base, bytes, granule, &given);
    if (status != VRAM_OK) {
        return status;
    }
    if (!given || given % granule || !vr_add(given, bytes, &end)) {
        return vr_error_set(VRAM_ERR_CORRUPT, device->base.info.backend, vr_operation(), 0,
                            "the driver reported success with the impossible address 0x%llx",
                            (unsigned long long)given);
    }
    vr_record_list(device, record); /* first, as in coarse.c (4) */
    status =
        vr_record_publish(record, given, bytes, device->object.handle, VRAM_MEMORY_DEVICE, true);
    if (status == VRAM_OK) {
        *base = given;
        return VRAM_OK;
    }
    vr_record_unlist(device, record);
    if (status != VRAM_ERR_CORRUPT) {
        struct vram_error error;
        vr_error_save(&error);
        vr_vmm_unreserve(&device->base, given, bytes);
        vr_error_restore(&error);
    }
    return status;
}

vram_status vram_range_create(vram_device *handle, uint64_t bytes, vram_addr *base) {
    VR_CALL;
    void *entered;
    uint64_t rounded;
    vram_addr given;
    if (!base) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    vram_status status = vr_vmm_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vr_record *record = NULL;
    status = vr_vmm_round(device, bytes, &rounded);
    if (status == VRAM_OK && !(record = vr_record_take())) {
        status = VRAM_ERR_HOST_MEMORY;
    }
    if (status == VRAM_OK) {
        status = range_reserve(device, rounded, record, &given);
    }
    if (status == VRAM_OK) {
        *base = given;
    } else if (record) {
        vr_record_give(record);
    }
    vr_leave(device);
    return status;
}

struct vr_record *vr_range_at(struct vr_device_object *device, vram_addr addr) {
    struct vr_address_info place;
    bool found = vr_address_find(addr, &place) && place.is_range && !place.pool &&
                 place.device == device->object.handle && !place.record->freeing;
    return found ? place.record : NULL;
}

static vram_status claim_range(struct vr_device_object *device, vram_addr base,
                               struct vr_record **claimed) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&device->lock);
    struct vr_record *range = vr_range_at(device, base);
    if (!range || vr_load(&range->base, VR_RELAXED) != base) {
        status = vr_fail(VRAM_ERR_INVALID, "0x%llx is not the start of a range of this device",
                         (unsigned long long)base);
    } else if (range->mapping_count) {
        status = vr_fail(VRAM_ERR_BUSY, "%u handles are still mapped in the range",
                         range->mapping_count);
    } else {
        range->freeing = true;
        *claimed = range;
    }
    vr_mutex_unlock(&device->lock);
    return status;
}

vram_status vram_range_destroy(vram_device *handle, vram_addr base) {
    VR_CALL;
    void *entered;
    struct vr_record *range = NULL;
    if (vr_exiting()) {
        return VRAM_OK;
    }
    vram_status status = vr_vmm_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    status = claim_range(device, base, &range);
    if (status == VRAM_OK) {
        uint64_t bytes = vr_load(&range->bytes, VR_RELAXED);
        vr_record_withdraw(range);
        status = vr_vmm_unreserve(&device->base, base, bytes);
        if (status == VRAM_OK) {
            vr_record_unlist(device, range);
            vr_record_give(range);
        } else {
            struct vram_error error;
            vr_error_save(&error);
            vram_status back = vr_record_publish(range, base, bytes, device->object.handle,
                                                 VRAM_MEMORY_DEVICE, true);
            vr_mutex_lock(&device->lock);
            range->freeing = back != VRAM_OK; /* otherwise freed again when the device is closed */
            vr_mutex_unlock(&device->lock);
            vr_error_restore(&error);
        }
    }
    vr_leave(device);
    return status;
}
