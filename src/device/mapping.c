/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.c: maps physical memory to addresses.
 *
 *  (1) A range's mappings are sorted by address and never overlap; they and vr_physical.mapped are
 *      guarded by the device's lock.
 *  (2) The driver is called without that lock. A thread that is about to map or unmap first claims
 *      the entries under the lock, with a reference to each physical handle. No other thread
 *      touches a claimed entry, and its handle cannot be destroyed.
 *  (3) Mapping is all or nothing. If the driver fails and then also refuses to unmap what it had
 *      mapped, the entries stay, unusable but not claimed: they can be unmapped later.
 *  (4) A closing device unmaps everything that is not claimed, once no work can use it any more; a
 *      call that finishes later unmaps what it would leave.
 */
#include "device/mapping.h"
#include "vram/vmm.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "device/ops.h"

#include <string.h>

/* ------------------------------------------------------------------- tables */

/* Index of the first mapping that ends after `addr`. */
static uint32_t mapping_index(const struct vr_record *range, vram_addr addr) {
    uint32_t low = 0, high = range->mapping_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct vr_mapping *mapping = &range->mappings[middle];
        if (mapping->addr + mapping->bytes <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool vr_mappings_cover(const struct vr_record *range, vram_addr addr, uint64_t bytes) {
    vram_addr at = addr, end = addr + bytes;
    uint32_t i = mapping_index(range, addr);
    for (; at < end && i < range->mapping_count; i++) {
        const struct vr_mapping *mapping = &range->mappings[i];
        if (!mapping->usable || mapping->claimed || mapping->addr > at) {
            return false;
        }
        at = mapping->addr + mapping->bytes;
    }
    return at >= end;
}

/* How many whole, unclaimed mappings make up exactly the span; 0 if they do not. */
static uint32_t count_whole(const struct vr_record *range, vram_addr addr, uint64_t bytes) {
    uint32_t first = mapping_index(range, addr), count = 0;
    vram_addr at = addr, end = addr + bytes;
    for (; at < end && first + count < range->mapping_count; count++) {
        const struct vr_mapping *mapping = &range->mappings[first + count];
        if (mapping->claimed || mapping->addr != at || mapping->bytes > end - at) {
            return 0;
        }
        at += mapping->bytes;
    }
    return at == end ? count : 0;
}

static vram_status make_room(struct vr_record *range, uint32_t count) {
    uint64_t need = (uint64_t)range->mapping_count + count;
    uint64_t capacity = need + need / 2 + 8;
    if (need <= range->mapping_capacity) {
        return VRAM_OK;
    }
    if (capacity > UINT32_MAX) {
        return vr_fail(VRAM_ERR_OVERFLOW, "too many handles in one range");
    }
    struct vr_mapping *larger =
        vr_mem_resize(range->mappings, (size_t)capacity, sizeof *larger, vr_operation());
    if (!larger) {
        return VRAM_ERR_HOST_MEMORY;
    }
    range->mappings = larger;
    range->mapping_capacity = (uint32_t)capacity;
    return VRAM_OK;
}

static void remove_entries(struct vr_record *range, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        range->mappings[i].physical->mapped = false;
    }
    memmove(&range->mappings[first], &range->mappings[first + count],
            (range->mapping_count - first - count) * sizeof *range->mappings);
    range->mapping_count -= count;
}

/* Ends a call's claim on `count` entries and releases the lock; keeps (4). */
static void end_claim(struct vr_device_object *device, struct vr_record *range, vram_addr addr,
                      uint32_t count, bool usable) {
    uint32_t first = mapping_index(range, addr);
    for (uint32_t i = 0; i < count; i++) {
        range->mappings[first + i].claimed = false;
        range->mappings[first + i].usable = usable;
    }
    bool unmap_now = device->unmapping && count;
    vr_mutex_unlock(&device->lock);
    if (unmap_now) {
        vr_ranges_unmap(device);
    }
}

/* ------------------------------------------------------------------ mapping */

/* Whether a handle that the caller has pinned may be mapped. If it was destroyed since, it is freed
   with the pin and must not be in a table. Under the lock. */
static vram_status check_handle(const struct vr_physical *physical) {
    if (physical->mapped) {
        return vr_fail(VRAM_ERR_BUSY, "a handle is mapped already, or given twice");
    }
    if (physical->releasing || !vr_link_linked(&physical->link)) {
        return vr_fail(VRAM_ERR_STALE, "a handle was destroyed meanwhile");
    }
    return VRAM_OK;
}

static vram_status mark_mapped(struct vr_physical **list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        vram_status status = check_handle(list[i]);
        if (status != VRAM_OK) {
            while (i-- > 0) {
                list[i]->mapped = false;
            }
            return status;
        }
        list[i]->mapped = true;
    }
    return VRAM_OK;
}

/* Claims the addresses and the handles, under the lock. The caller has pinned the handles: (2). */
static vram_status claim_place(struct vr_device_object *device, vram_addr addr,
                               struct vr_physical **list, uint32_t count, uint64_t bytes,
                               struct vr_record **claimed) {
    struct vr_record *range = vr_range_at(device, addr);
    if (!range || addr % device->base.info.vmm_granule.value ||
        !vr_inside(addr, bytes, vr_load(&range->base, VR_RELAXED),
                   vr_load(&range->bytes, VR_RELAXED))) {
        return vr_fail(VRAM_ERR_INVALID,
                       "0x%llx + %llu bytes is not inside one range of this device on its granule",
                       (unsigned long long)addr, (unsigned long long)bytes);
    }
    uint32_t at = mapping_index(range, addr);
    if (at < range->mapping_count && range->mappings[at].addr < addr + bytes) {
        return vr_fail(VRAM_ERR_BUSY, "something is mapped at 0x%llx already",
                       (unsigned long long)range->mappings[at].addr);
    }
    vram_status status = make_room(range, count);
    if (status != VRAM_OK || (status = mark_mapped(list, count)) != VRAM_OK) {
        return status;
    }
    memmove(&range->mappings[at + count], &range->mappings[at],
            (range->mapping_count - at) * sizeof *range->mappings);
    range->mapping_count += count;
    for (uint32_t i = 0; i < count; i++) {
        range->mappings[at + i] = (struct vr_mapping){
            .addr = addr, .bytes = list[i]->bytes, .physical = list[i], .claimed = true};
        addr += list[i]->bytes;
    }
    *claimed = range;
    return VRAM_OK;
}

/* Tries twice: a driver may refuse to unmap temporarily. */
static vram_status unmap_retry(struct vr_device_object *device, vram_addr addr, uint64_t bytes) {
    vram_status status = vr_vmm_unmap(&device->base, addr, bytes);
    return status == VRAM_OK ? status : vr_vmm_unmap(&device->base, addr, bytes);
}

/* Maps each handle, then makes the whole accessible; undoes it if the driver fails. *left is how
   many are still mapped after a failure: 0, unless the driver refuses to unmap. */
static vram_status map_all(struct vr_device_object *device, vram_addr addr,
                           struct vr_physical **list, uint32_t count, uint64_t bytes,
                           uint32_t *left) {
    vram_status status = VRAM_OK;
    vram_addr at = addr;
    uint32_t done = 0;
    while (done < count && (status = vr_vmm_map(&device->base, at, list[done]->native,
                                                list[done]->bytes)) == VRAM_OK) {
        at += list[done++]->bytes;
    }
    if (status == VRAM_OK) {
        status = vr_vmm_access(&device->base, addr, bytes);
    }
    if (status == VRAM_OK) {
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    while (done > 0 &&
           unmap_retry(device, at - list[done - 1]->bytes, list[done - 1]->bytes) == VRAM_OK) {
        at -= list[--done]->bytes;
    }
    vr_error_restore(&error);
    *left = done;
    return status;
}

static vram_status map_handles(struct vr_device_object *device, vram_addr addr,
                               struct vr_physical **list, uint32_t count) {
    uint64_t bytes = 0;
    uint32_t left = 0;
    struct vr_record *range = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i]->device != device) {
            return vr_fail(VRAM_ERR_INVALID, "a handle belongs to another device");
        }
        if (!vr_add(bytes, list[i]->bytes, &bytes)) {
            return vr_fail(VRAM_ERR_OVERFLOW, "the handles' sizes overflow");
        }
    }
    vr_mutex_lock(&device->lock);
    vram_status status = claim_place(device, addr, list, count, bytes, &range);
    vr_mutex_unlock(&device->lock);
    if (status != VRAM_OK) {
        return status;
    }
    status = map_all(device, addr, list, count, bytes, &left);
    vr_mutex_lock(&device->lock);
    if (status != VRAM_OK) {
        remove_entries(range, mapping_index(range, addr) + left, count - left);
    }
    end_claim(device, range, addr, status == VRAM_OK ? count : left, status == VRAM_OK);
    return status;
}

vram_status vram_range_map(vram_device *handle, vram_addr addr, vram_physical *const *handles,
                           uint32_t count) {
    VR_CALL;
    void *device;
    uint32_t pinned = 0;
    if (!handles || count == 0) {
        return vr_fail(VRAM_ERR_INVALID, "no handles were given");
    }
    vram_status status = vr_vmm_enter(handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_physical **list = vr_mem_alloc(count, sizeof *list, vr_operation());
    if (!list) {
        vr_leave(device);
        return VRAM_ERR_HOST_MEMORY;
    }
    while (pinned < count && status == VRAM_OK) {
        void *physical;
        status = vr_enter(VR_KIND_PHYSICAL, handles[pinned], &physical);
        if (status == VRAM_OK) {
            list[pinned++] = physical;
        }
    }
    if (status == VRAM_OK) {
        status = map_handles(device, addr, list, count);
    }
    while (pinned > 0) {
        vr_leave(list[--pinned]);
    }
    vr_mem_free(list);
    vr_leave(device);
    return status;
}

/* ---------------------------------------------------------------- unmapping */

/* Claims the entry that begins at `addr` and has at most `most` bytes for unmapping, if it exists
   and is not claimed. Under the lock. */
static bool claim_entry(struct vr_record *range, vram_addr addr, uint64_t most,
                        struct vr_mapping *entry) {
    uint32_t at = mapping_index(range, addr);
    if (at == range->mapping_count || range->mappings[at].addr != addr ||
        range->mappings[at].bytes > most || range->mappings[at].claimed) {
        return false;
    }
    range->mappings[at].claimed = true;
    vr_handle_ref(range->mappings[at].physical->object.handle);
    *entry = range->mappings[at];
    return true;
}

/* Unmaps a claimed entry. If the driver refuses, the entry stays, or it is removed from the table
   and its memory is leaked. */
static vram_status unmap_entry(struct vr_device_object *device, struct vr_record *range,
                               const struct vr_mapping *entry, bool give_up) {
    uint64_t handle = entry->physical->object.handle;
    vram_status status = give_up ? unmap_retry(device, entry->addr, entry->bytes)
                                 : vr_vmm_unmap(&device->base, entry->addr, entry->bytes);
    vr_mutex_lock(&device->lock);
    if (status == VRAM_OK || give_up) {
        remove_entries(range, mapping_index(range, entry->addr), 1);
        entry->physical->mapped = status != VRAM_OK;
        range->stuck = range->stuck || status != VRAM_OK;
        end_claim(device, range, entry->addr, 0, false);
    } else {
        end_claim(device, range, entry->addr, 1, entry->usable);
    }
    vr_handle_unpin(handle);
    return status;
}

vram_status vram_range_unmap(vram_device *handle, vram_addr addr, uint64_t bytes) {
    VR_CALL;
    struct vr_mapping entry = {0};
    void *entered;
    uint64_t end = 0;
    vram_status status = vr_vmm_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    vr_mutex_lock(&device->lock);
    struct vr_record *range = vr_range_at(device, addr);
    uint32_t count =
        range && bytes && vr_add(addr, bytes, &end) ? count_whole(range, addr, bytes) : 0;
    vr_mutex_unlock(&device->lock);
    if (count == 0) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "0x%llx + %llu bytes is not made of whole mapped handles of one range",
                         (unsigned long long)addr, (unsigned long long)bytes);
    }
    for (vram_addr at = addr; count > 0 && status == VRAM_OK; count--, at += entry.bytes) {
        vr_mutex_lock(&device->lock);
        range = vr_range_at(device, at);
        bool ours = range && claim_entry(range, at, end - at, &entry);
        vr_mutex_unlock(&device->lock);
        status = ours ? unmap_entry(device, range, &entry, false)
                      : vr_fail(VRAM_ERR_BUSY, "another thread unmaps the same range");
    }
    vr_leave(device);
    return status;
}

/* Finds the first range with an unclaimed entry, and claims that. Under the lock. */
static struct vr_record *claim_any(struct vr_device_object *device, struct vr_mapping *entry) {
    for (struct vr_link *link = vr_list_first(&device->records); link;
         link = vr_list_next(&device->records, link)) {
        struct vr_record *range = VR_CONTAINER(link, struct vr_record, link);
        for (uint32_t i = 0; i < range->mapping_count; i++) {
            if (claim_entry(range, range->mappings[i].addr, UINT64_MAX, entry)) {
                return range;
            }
        }
    }
    return NULL;
}

void vr_ranges_unmap(struct vr_device_object *device) {
    struct vr_mapping entry;
    for (;;) {
        vr_mutex_lock(&device->lock);
        struct vr_record *range = claim_any(device, &entry);
        vr_mutex_unlock(&device->lock);
        if (!range) {
            return;
        }
        unmap_entry(device, range, &entry, true);
    }
}
