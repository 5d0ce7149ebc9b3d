/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_check.c: checks that a span of addresses is live memory that a device may access.
 */
#include "device/mapping.h"

#include "base/error.h"
#include "base/size.h"

enum { LEAST_BLOCK = 256 }; /* bytes: the smallest alignment of a pool's block */

/* A pool that was destroyed may still keep its memory, but nothing may use it. */
bool vr_address_info_covers(struct vr_device_object *device, const struct vr_address_info *place,
                            vram_addr addr, uint64_t bytes) {
    if (place->pool) {
        return !vr_handle_was(VR_KIND_POOL, (void *)(uintptr_t)place->pool) &&
               (!place->is_range || vr_device_covers(device, place->pool, addr, bytes));
    }
    if (!place->is_range) {
        return true;
    }
    vr_mutex_lock(&device->lock);
    struct vr_record *range = vr_range_at(device, addr);
    bool covers = range && vr_mappings_cover(range, addr, bytes);
    vr_mutex_unlock(&device->lock);
    return covers;
}

/* For a range that begins inside a block, the end of the block is unknown without a search under
   the pool's lock. Memory that a program passed to a pool is still its own (address.h): it may copy
   all of it at once. */
vram_status vr_block_check(const struct vr_address_info *place, vram_addr addr, uint64_t bytes) {
    bool asks = place->extent && addr % LEAST_BLOCK == 0 && bytes > LEAST_BLOCK;
    uint64_t extent = asks ? place->extent(place->pool, addr) : 0;
    return bytes <= extent || extent == 0
               ? VRAM_OK
               : vr_fail(VRAM_ERR_INVALID,
                         "0x%llx + %llu bytes reaches past the end of its block of %llu bytes",
                         (unsigned long long)addr, (unsigned long long)bytes,
                         (unsigned long long)extent);
}

/* Says why a span is not live memory. */
static vram_status span_refuse(struct vr_device_object *device, const struct vr_address_info *place,
                               bool within, vram_addr addr, uint64_t bytes) {
    bool asleep = within && place->pool && vr_load(&place->record->sleeps, VR_ACQUIRE) &&
                  vr_device_rests(device, place->pool, VR_REST_ASLEEP, addr, bytes);
    return vr_fail(VRAM_ERR_INVALID, "0x%llx + %llu bytes is %s", (unsigned long long)addr,
                   (unsigned long long)bytes,
                   asleep ? "asleep; call vram_pool_wake first" : "not live memory of this device");
}

static vram_status span_find(struct vr_device_object *device, vram_addr addr, uint64_t bytes,
                             struct vr_address_info *place) {
    bool within = vr_address_find(addr, place) && place->device == device->object.handle &&
                  place->kind != VRAM_MEMORY_PINNED && place->kind != VRAM_MEMORY_HOST &&
                  vr_inside(addr, bytes, place->base, place->bytes);
    if (!within || !vr_address_info_covers(device, place, addr, bytes)) {
        return span_refuse(device, place, within, addr, bytes);
    }
    return vr_block_check(place, addr, bytes);
}

vram_status vr_span_check(struct vr_device_object *device, vram_addr addr, uint64_t bytes) {
    struct vr_address_info place;
    return span_find(device, addr, bytes, &place);
}

vram_status vr_span_check_write(struct vr_device_object *device, vram_addr addr, uint64_t bytes) {
    struct vr_address_info place;
    vram_status status = span_find(device, addr, bytes, &place);
    if (status == VRAM_OK && vr_load(&place.record->read_only, VR_ACQUIRE)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "0x%llx + %llu bytes is memory of another process that was opened read-only",
                       (unsigned long long)addr, (unsigned long long)bytes);
    }
    if (status == VRAM_OK && vr_load(&place.record->seals, VR_ACQUIRE) &&
        vr_device_rests(device, place.pool, VR_REST_SEALED, addr, bytes)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "0x%llx + %llu bytes is sealed; call vram_pool_unseal before writing there",
                       (unsigned long long)addr, (unsigned long long)bytes);
    }
    return status;
}

vram_status vr_span_owner(vram_addr addr, struct vr_address_info *place,
                          struct vr_device_object **owner) {
    void *device;
    vram_status status = VRAM_ERR_STALE;
    if (vr_address_find(addr, place)) {
        status = vr_enter(VR_KIND_DEVICE, (void *)(uintptr_t)place->device, &device);
    }
    if (status == VRAM_ERR_STALE) { /* the device is closing: its memory counts as freed */
        return vr_fail(VRAM_ERR_INVALID, "no live memory of libvram is at 0x%llx",
                       (unsigned long long)addr);
    }
    if (status == VRAM_OK) {
        *owner = device;
    }
    return status;
}
