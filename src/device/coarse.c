/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse.c: memory directly from the driver, in whole granules, and its accounting.
 *
 *  (1) held_bytes and held_count change only if a call succeeds.
 *  (2) An allocation is in the address map exactly while the driver has allocated it to us: it is
 *      published after the driver's call and withdrawn before the driver's free. So an address that
 *      the driver reuses at once is never in the map twice.
 *  (3) If the driver refuses a free, the allocation stays live and the caller may try again. What
 *      is left is freed once more when the device is closed.
 *  (4) A record is in its device's list, and counted, before it is in the map. A thread that finds
 *      it there may withdraw it at once: a program that frees twice may hit an address that another
 *      thread has just received.
 */
#include "device/objects.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/address.h"
#include "device/device_calls.h"
#include "device/ops.h"

/* --------------------------------------------------------------- accounting */

uint64_t vr_charge_limit(const struct vr_device_object *device) {
    uint64_t option = device->context->limit_bytes;
    uint64_t own = vr_load(&device->slot->account->limit_bytes, VR_RELAXED);
    return !own || (option && option < own) ? option : own;
}

vram_status vr_charge_within(struct vr_device_object *device, uint64_t bytes, uint64_t most,
                             const char *why) {
    vr_atomic_u64 *charged = &device->slot->account->charged_bytes;
    uint64_t before = vr_load(charged, VR_RELAXED), lease = vr_lease_limit(device);
    if (lease < most) {
        most = lease;
        why = "the grant of its lease";
    }
    /* A refused request is never added, not even briefly: it must not make other requests fail. */
    while (bytes <= most && before <= most - bytes) {
        if (vr_cas_weak(charged, &before, before + bytes, VR_SEQ_CST)) {
            if (before + bytes > (lease = vr_lease_limit(device))) { /* it was lowered meanwhile */
                vr_fetch_sub(charged, bytes, VR_RELAXED);
                most = lease;
                why = "the grant of its lease";
                break;
            }
            vr_fetch_add(&device->slot->charged_bytes, bytes, VR_RELAXED);
            vr_fetch_add(&device->context->charged.now, bytes, VR_RELAXED);
            return VRAM_OK;
        }
    }
    return vr_fail(VRAM_ERR_LIMIT,
                   "%llu bytes more would pass the limit of %llu bytes for this device (%s); %llu "
                   "are held",
                   (unsigned long long)bytes, (unsigned long long)most, why,
                   (unsigned long long)before);
}

vram_status vr_charge(struct vr_device_object *device, uint64_t bytes) {
    uint64_t limit = vr_charge_limit(device);
    return vr_charge_within(device, bytes, limit ? limit : UINT64_MAX, "option device_limit");
}

void vr_uncharge(struct vr_device_object *device, uint64_t bytes) {
    vr_fetch_sub(&device->slot->account->charged_bytes, bytes, VR_RELAXED);
    vr_fetch_sub(&device->slot->charged_bytes, bytes, VR_RELAXED);
    vr_fetch_sub(&device->context->charged.now, bytes, VR_RELAXED);
}

uint64_t vr_held_add(struct vr_device_object *device, uint64_t bytes) {
    vr_fetch_add(&device->held_count, 1, VR_RELAXED);
    return vr_fetch_add(&device->held_bytes, bytes, VR_RELAXED) + bytes;
}

void vr_held_peak(struct vr_device_object *device, uint64_t bytes) {
    struct vr_gauge *all = &device->context->charged;
    vr_atomic_max(&device->held_peak_bytes, bytes);
    vr_atomic_max(&device->slot->charged_peak, vr_load(&device->slot->charged_bytes, VR_RELAXED));
    vr_atomic_max(&all->peak, vr_load(&all->now, VR_RELAXED));
}

void vr_held_sub(struct vr_device_object *device, uint64_t bytes) {
    vr_fetch_sub(&device->held_bytes, bytes, VR_RELAXED);
    vr_fetch_sub(&device->held_count, 1, VR_RELAXED);
}

/* ------------------------------------------------------------ kinds of memory */

static const struct vr_memory_row kinds[] = {
    [VRAM_MEMORY_DEVICE] = {"device", 0, true, vr_memory_alloc, vr_memory_free},
    [VRAM_MEMORY_PINNED] = {"page-locked", VRAM_CAP_PINNED, false, vr_pinned_alloc, vr_pinned_free},
    [VRAM_MEMORY_MANAGED] = {"managed", VRAM_CAP_MANAGED, true, vr_managed_alloc, vr_managed_free},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

const struct vr_memory_row *vr_memory_row(vram_memory_kind kind) {
    return (unsigned)kind < KIND_COUNT ? &kinds[kind] : NULL;
}

uint64_t vr_memory_granule(const struct vr_device_object *device, vram_memory_kind kind) {
    return kind == VRAM_MEMORY_DEVICE ? device->base.info.alloc_granule.value
                                      : (uint64_t)vr_os_page_bytes();
}

vram_status vr_memory_kind_check(const struct vr_device_object *device, vram_memory_kind kind) {
    const struct vram_device_info *info = &device->base.info;
    const struct vr_memory_row *row = vr_memory_row(kind);
    if (!row) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a kind of memory that a device has", (int)kind);
    }
    bool unknown = row->cap & ~info->caps_known;
    return !(row->cap & ~info->caps)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u (%s) has no %s memory%s",
                         info->backend, info->backend_index, info->name, row->name,
                         unknown ? ": its driver did not say whether it can" : "");
}

/* Rounds the request up and checks it against the device's limits. */
static vram_status request_check(const struct vr_device_object *device, uint64_t bytes,
                                 vram_memory_kind kind, uint64_t *rounded) {
    const struct vram_device_info *info = &device->base.info;
    vram_status status = vr_memory_kind_check(device, kind);
    if (status != VRAM_OK) {
        return status;
    }
    if (bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, "0 bytes were asked for");
    }
    uint64_t granule = vr_memory_granule(device, kind);
    if (!vr_round_up(bytes, granule, rounded)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "%llu bytes cannot be rounded up to %llu",
                       (unsigned long long)bytes, (unsigned long long)granule);
    }
    if (info->alloc_max.known && *rounded > info->alloc_max.value) {
        return vr_fail(VRAM_ERR_LIMIT,
                       "%llu bytes are more than the device's largest allocation, %llu",
                       (unsigned long long)*rounded, (unsigned long long)info->alloc_max.value);
    }
    return VRAM_OK;
}

/* Checks that a driver which reports success returned valid memory. Invalid memory is not freed,
   since it may not be ours. */
static vram_status check_answer(const struct vr_device_object *device, vram_addr addr,
                                uint64_t bytes, uint64_t granule) {
    uint64_t end;
    if (addr && addr % granule == 0 && vr_add(addr, bytes, &end)) {
        return VRAM_OK;
    }
    vr_log(VRAM_LOG_ERROR, "%s returned from %s with the impossible address 0x%llx",
           device->base.info.backend, vr_operation(), (unsigned long long)addr);
    return vr_error_set(VRAM_ERR_CORRUPT, device->base.info.backend, vr_operation(), 0,
                        "the driver reported success with the impossible address 0x%llx",
                        (unsigned long long)addr);
}

/* Allocates the memory, checks it, and adds it to the map; keeps (2) and (4). */
static vram_status memory_obtain(struct vr_device_object *device, uint64_t bytes,
                                 vram_memory_kind kind, struct vr_record *record, vram_addr *addr) {
    uint64_t granule = vr_memory_granule(device, kind);
    vram_addr given = 0;
    vram_status status = kinds[kind].alloc(&device->base, bytes, &given);
    if (status != VRAM_OK) {
        return status;
    }
    status = check_answer(device, given, bytes, granule);
    if (status != VRAM_OK) {
        return status;
    }
    vr_record_list(device, record);
    uint64_t held = vr_held_add(device, bytes);
    status = vr_record_publish(record, given, bytes, device->object.handle, kind, false);
    if (status == VRAM_OK) {
        vr_held_peak(device, held);
        *addr = given;
        return VRAM_OK;
    }
    vr_held_sub(device, bytes);
    vr_record_unlist(device, record);
    if (status != VRAM_ERR_CORRUPT) {
        struct vram_error error;
        vr_error_save(&error);
        kinds[kind].free(&device->base, given, bytes);
        vr_error_restore(&error);
    }
    return status;
}

static vram_status memory_allocate(struct vr_device_object *device, uint64_t bytes,
                                   vram_memory_kind kind, vram_addr *addr) {
    uint64_t rounded = 0;
    vram_status status = request_check(device, bytes, kind, &rounded);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t charge = kinds[kind].on_device ? rounded : 0;
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    status = vr_charge(device, charge);
    if (status != VRAM_OK) {
        goto fail_record;
    }
    status = memory_obtain(device, rounded, kind, record, addr);
    if (status != VRAM_OK) {
        goto fail_charge;
    }
    return VRAM_OK;

fail_charge:
    vr_uncharge(device, charge);
fail_record:
    vr_record_give(record);
    return status;
}

vram_status vr_device_alloc(vram_device *handle, uint64_t bytes, vram_memory_kind kind,
                            vram_addr *addr) {
    VR_OPERATION("vram_device_alloc");
    void *device;
    vram_addr given;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = memory_allocate(device, bytes, kind, &given);
        vr_leave(device);
    }
    if (status == VRAM_OK) {
        *addr = given;
    }
    return status;
}

vram_status vram_device_alloc(vram_device *handle, uint64_t bytes, vram_memory_kind kind,
                              vram_addr *addr) {
    return vr_device_alloc(handle, bytes, kind, addr);
}

/* ----------------------------------------------------------------------- freeing */

/* Claims an allocation for freeing, so that a concurrent second free does not find it. */
static struct vr_record *record_claim(struct vr_device_object *device, vram_addr addr) {
    struct vr_address_info place;
    struct vr_record *record = NULL;
    vr_mutex_lock(&device->lock);
    if (vr_address_find(addr, &place) && place.device == device->object.handle &&
        place.base == addr && !place.is_range && !place.pool && !place.record->freeing) {
        record = place.record;
        record->freeing = true;
    }
    vr_mutex_unlock(&device->lock);
    return record;
}

/* Frees a claimed allocation in the driver. In any case the record stays the device's. */
static vram_status record_free(struct vr_device_object *device, struct vr_record *record) {
    uint64_t base = vr_load(&record->base, VR_RELAXED);
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    vram_memory_kind kind = (vram_memory_kind)vr_load(&record->kind, VR_RELAXED);
    vr_record_withdraw(record);
    vram_status status = kinds[kind].free(&device->base, base, bytes);
    if (status != VRAM_OK) {
        return status;
    }
    vr_held_sub(device, bytes);
    vr_uncharge(device, kinds[kind].on_device ? bytes : 0);
    vr_record_unlist(device, record);
    vr_record_give(record);
    return VRAM_OK;
}

/* The driver refused: makes the allocation live again; keeps (3). If the map is out of memory, the
   record stays listed and is freed when the device is closed. */
static void record_restore(struct vr_device_object *device, struct vr_record *record) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_record_publish(
        record, vr_load(&record->base, VR_RELAXED), vr_load(&record->bytes, VR_RELAXED),
        device->object.handle, (vram_memory_kind)vr_load(&record->kind, VR_RELAXED), false);
    vr_mutex_lock(&device->lock);
    record->freeing = status != VRAM_OK;
    vr_mutex_unlock(&device->lock);
    vr_error_restore(&error);
}

vram_status vr_device_free(vram_device *handle, vram_addr addr) {
    VR_OPERATION("vram_device_free");
    void *device;
    if (vr_exiting()) {
        return VRAM_OK; /* the system frees everything in a moment */
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_record *record = addr ? record_claim(device, addr) : NULL;
    if (record) {
        status = record_free(device, record);
        if (status != VRAM_OK) {
            record_restore(device, record);
        }
    } else if (addr) {
        status =
            vr_fail(VRAM_ERR_INVALID,
                    "0x%llx is not the start of a live allocation of this device: it was freed "
                    "already, or is a pool's",
                    (unsigned long long)addr);
    }
    vr_leave(device);
    return status;
}

vram_status vram_device_free(vram_device *handle, vram_addr addr) {
    return vr_device_free(handle, addr);
}

/* Frees one record's memory or addresses for the last time. Tries twice, since the driver may
   refuse temporarily; not at all if the driver did not unmap what is in it. */
static void end_record(struct vr_device_object *device, struct vr_record *record) {
    uint64_t base = vr_load(&record->base, VR_RELAXED);
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    uint32_t kind = vr_load(&record->kind, VR_RELAXED);
    bool is_range = vr_load(&record->is_range, VR_RELAXED);
    vr_memory_free_fn *give = is_range ? vr_vmm_unreserve : kinds[kind].free;
    if (record->stuck || (give(&device->base, base, bytes) != VRAM_OK &&
                          give(&device->base, base, bytes) != VRAM_OK)) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to free %llu bytes at 0x%llx",
               (unsigned long long)bytes, (unsigned long long)base);
    }
    vr_uncharge(device, !is_range && kinds[kind].on_device ? bytes : 0);
}

/* The device is closing and has no other references: no lock is needed. */
void vr_records_end(struct vr_device_object *device) {
    struct vr_link *link;
    while ((link = vr_list_first(&device->records))) {
        struct vr_record *record = VR_CONTAINER(link, struct vr_record, link);
        if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
            vr_record_withdraw(record);
        }
        end_record(device, record);
        vr_link_remove(link);
        vr_record_give(record);
    }
}

/* ------------------------------------------------------------------- looking up */

/* Returns the driver's name for the address, and the size of that object. */
static vram_status name_native(struct vr_device_object *device, const struct vr_address_info *place,
                               vram_addr addr, struct vram_native_info *info) {
    struct vr_native native = {.handle = NULL};
    vram_status status =
        place->object ? vr_object_native(&device->base, addr, 0, &native)
                      : vr_memory_native(&device->base, addr, vr_address_extent(addr), &native);
    if (status == VRAM_OK) {
        info->base = addr - native.offset;
        info->bytes = native.bytes;
        info->offset = native.offset;
        info->handle = native.handle;
        info->device_address = native.device_address;
    }
    return status;
}

/* Whether the address has no memory now because its pool is asleep. */
static bool is_asleep(struct vr_device_object *device, const struct vr_address_info *place,
                      vram_addr addr) {
    return place->pool && vr_load(&place->record->sleeps, VR_ACQUIRE) &&
           !vr_address_info_covers(device, place, addr, 1);
}

vram_status vr_native_get(vram_addr addr, vram_native_info *info) {
    VR_OPERATION("vram_native");
    struct vr_address_info place;
    struct vr_device_object *device;
    vram_status status = vr_span_owner(addr, &place, &device);
    if (status != VRAM_OK) {
        return status;
    }
    if (is_asleep(device, &place, addr)) {
        vr_leave(device);
        return vr_fail(VRAM_ERR_BUSY, "0x%llx is asleep; call vram_pool_wake first",
                       (unsigned long long)addr);
    }
    uint32_t caps = device->base.info.caps;
    bool on_host =
        place.kind != VRAM_MEMORY_DEVICE || ((caps & VRAM_CAP_HOST_ACCESS) && !place.object &&
                                             vr_address_info_covers(device, &place, addr, 1));
    struct vram_native_info full = {
        .size = sizeof full,
        .device = (vram_device *)(uintptr_t)place.device,
        .kind = place.kind,
        .base = place.base,
        .bytes = place.bytes,
        .offset = addr - place.base,
        .host_pointer = on_host ? (void *)(uintptr_t)addr : NULL,
    };
    full.device_address.known =
        (caps & VRAM_CAP_TRUE_ADDRESS) != 0 && place.kind != VRAM_MEMORY_HOST;
    full.device_address.value = full.device_address.known ? addr : 0;
    if (place.object || (device->base.handles && place.kind == VRAM_MEMORY_DEVICE)) {
        status = name_native(device, &place, addr, &full);
    }
    if (status == VRAM_OK) {
        status = vr_info_give(info, &full, sizeof full, sizeof full);
    }
    vr_leave(device);
    return status;
}

vram_status vram_native(vram_addr addr, vram_native_info *info) {
    return vr_native_get(addr, info);
}
