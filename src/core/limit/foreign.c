/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign.c: memory allocated by other code, recorded and counted like the program's own.
 */
#include "core/limit/foreign_record.h"

#include "core/limit/limit.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "track/track.h"

#include <string.h>

enum { CAPACITY_FIRST = 16 };

/* The index of the first record whose id is at least `id`. Under the lock. */
static size_t foreign_index(const struct vr_foreigns *foreigns, uint64_t id) {
    size_t from = 0, to = foreigns->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (foreigns->records[middle]->id < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static vram_status no_record(uint64_t id) {
    return vr_fail(VRAM_ERR_INVALID, "the device has no foreign memory with the id %llu",
                   (unsigned long long)id);
}

/* ------------------------------------------------------------------ tracking */

static vram_status take_options(const struct vram_foreign_options *from,
                                struct vram_foreign_options *taken) {
    vram_status status = vr_options_take(taken, sizeof *taken, from);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken->flags & ~(uint32_t)VRAM_FOREIGN_COUNTS) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags: 0x%x", taken->flags);
    }
    bool counts = taken->flags & VRAM_FOREIGN_COUNTS;
    bool host = taken->kind == VRAM_MEMORY_PINNED || taken->kind == VRAM_MEMORY_HOST;
    if ((unsigned)taken->kind > VRAM_MEMORY_HOST) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_memory_kind", (int)taken->kind);
    }
    if (counts && host) {
        return vr_fail(VRAM_ERR_INVALID, "host memory is in no budget: leave VRAM_FOREIGN_COUNTS");
    }
    if (taken->name && strlen(taken->name) >= VRAM_FOREIGN_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "the name is too long: use at most %d bytes",
                       VRAM_FOREIGN_NAME_MAX - 1);
    }
    return VRAM_OK;
}

/* Charges a record that counts to the device and to its tag with all parents: all or none. */
static vram_status foreign_charge(struct vr_device_object *device, const struct vr_foreign *record,
                                  uint32_t *crossed) {
    struct vr_tag *full;
    *crossed = 0;
    if (!record->counts) {
        return VRAM_OK;
    }
    vram_status status = vr_charge(device, record->bytes);
    if (status == VRAM_OK && record->tag) {
        status = vr_tag_charge(record->tag, record->bytes, record->bytes, crossed, &full);
        if (status == VRAM_OK) {
            vr_tag_confirm(record->tag);
        } else {
            vr_uncharge(device, record->bytes);
        }
    }
    return status;
}

/* Backends that show the same hardware share its records. The bytes are removed from the slot
   through which they were charged. */
static void foreign_uncharge(struct vr_device_object *device, const struct vr_foreign *record) {
    if (record->counts) {
        vr_fetch_add(&device->slot->charged_bytes, record->bytes, VR_RELAXED);
        vr_fetch_sub(&record->slot->charged_bytes, record->bytes, VR_RELAXED);
        vr_uncharge(device, record->bytes);
        if (record->tag) {
            vr_tag_release(record->tag, record->bytes, record->bytes);
        }
    }
}

/* Under the lock. Ids are assigned here, so that they rise in the list. */
static vram_status foreign_append(struct vr_foreigns *foreigns, struct vr_foreign *record) {
    if (foreigns->count == foreigns->capacity) {
        size_t capacity = foreigns->capacity ? foreigns->capacity * 2 : CAPACITY_FIRST;
        void *records =
            vr_mem_resize(foreigns->records, capacity, sizeof *foreigns->records, vr_operation());
        if (!records) {
            return VRAM_ERR_HOST_MEMORY;
        }
        foreigns->records = records;
        foreigns->capacity = capacity;
    }
    record->id = vr_track_id_next();
    foreigns->records[foreigns->count++] = record;
    foreigns->bytes += record->bytes;
    foreigns->counted_bytes += record->counts ? record->bytes : 0;
    if (foreigns->bytes > foreigns->peak_bytes) {
        foreigns->peak_bytes = foreigns->bytes;
    }
    return VRAM_OK;
}

static vram_status foreign_track(struct vr_device_object *device, struct vr_foreign *record,
                                 uint64_t *id) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    uint32_t crossed;
    vram_status status = foreign_charge(device, record, &crossed);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&ledger->lock);
    bool fits = record->bytes <= UINT64_MAX - ledger->foreigns.bytes;
    status = fits ? foreign_append(&ledger->foreigns, record) : VRAM_ERR_OVERFLOW;
    uint64_t given = record->id; /* without the lock another thread may remove the record */
    struct vr_tag *tag = record->tag;
    vr_mutex_unlock(&ledger->lock);
    if (status != VRAM_OK) {
        foreign_uncharge(device, record);
        return fits
                   ? status
                   : vr_fail(VRAM_ERR_OVERFLOW, "the device's foreign memory would exceed 64 bits");
    }
    *id = given;
    vr_held_peak(device, 0); /* the charge may be a new peak */
    if (crossed) {
        vr_tag_notify(device, NULL, tag, crossed);
    }
    return VRAM_OK;
}

vram_status vram_foreign_track(vram_device *handle, uint64_t bytes,
                               const vram_foreign_options *options, uint64_t *id) {
    VR_CALL;
    struct vram_foreign_options taken;
    struct vr_ledger *ledger;
    void *device;
    if (!id || !bytes) {
        return vr_fail(VRAM_ERR_INVALID,
                       id ? "the size is 0 bytes" : "the pointer that receives the id is NULL");
    }
    vram_status status = take_options(options, &taken);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_DEVICE, handle, &device);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_foreign *record = vr_mem_alloc(1, sizeof *record, vr_operation());
    if (!record || !(ledger = vr_ledger_get(device))) {
        status = vr_error_get()->status;
    } else {
        record->slot = ((struct vr_device_object *)device)->slot;
        record->device = ((struct vr_object *)device)->handle;
        record->bytes = bytes;
        record->counts = taken.flags & VRAM_FOREIGN_COUNTS;
        record->kind = taken.kind;
        record->elements = taken.elements;
        record->since_ns = vr_clock_now();
        memcpy(record->name, taken.name ? taken.name : "", taken.name ? strlen(taken.name) : 0);
        if (taken.tag && *taken.tag) {
            status = vr_tag_get(ledger, taken.tag, &record->tag);
        }
    }
    if (status == VRAM_OK) {
        status = foreign_track(device, record, id);
    }
    if (status != VRAM_OK) {
        vr_mem_free(record);
    }
    vr_leave(device);
    return status;
}

vram_status vram_foreign_untrack(vram_device *handle, uint64_t id) {
    VR_CALL;
    struct vr_foreign *record = NULL;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger) {
        vr_mutex_lock(&ledger->lock);
        struct vr_foreigns *foreigns = &ledger->foreigns;
        size_t at = foreign_index(foreigns, id);
        if (at < foreigns->count && foreigns->records[at]->id == id) {
            record = foreigns->records[at];
            memmove(&foreigns->records[at], &foreigns->records[at + 1],
                    (--foreigns->count - at) * sizeof *foreigns->records);
            foreigns->bytes -= record->bytes;
            foreigns->counted_bytes -= record->counts ? record->bytes : 0;
        }
        vr_mutex_unlock(&ledger->lock);
    }
    if (record) {
        foreign_uncharge(device, record);
        vr_mem_free(record);
    } else {
        status = no_record(id);
    }
    vr_leave(device);
    return status;
}

/* ------------------------------------------------------------------- reading */

/* Reads the record `id` or, with `behind`, the first after it. */
static vram_status foreign_read(vram_device *handle, uint64_t id, bool behind,
                                struct vram_foreign_info *info) {
    struct vram_foreign_info full = {.size = sizeof full};
    void *device;
    bool found = false;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger && !(behind && id == UINT64_MAX)) {
        vr_mutex_lock(&ledger->lock);
        const struct vr_foreigns *foreigns = &ledger->foreigns;
        size_t at = foreign_index(foreigns, behind ? id + 1 : id);
        found = at < foreigns->count && (behind || foreigns->records[at]->id == id);
        if (found) {
            const struct vr_foreign *record = foreigns->records[at];
            full.id = record->id;
            full.bytes = record->bytes;
            full.counts = record->counts;
            full.kind = record->kind;
            full.elements = record->elements;
            full.tag = vr_tag_name(record->tag);
            full.since_ns = record->since_ns;
            memcpy(full.name, record->name, sizeof full.name);
        }
        vr_mutex_unlock(&ledger->lock);
    }
    status = !found ? no_record(id) : vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(device);
    return status;
}

vram_status vram_foreign_info_get(vram_device *device, uint64_t id, vram_foreign_info *info) {
    VR_CALL;
    return foreign_read(device, id, false, info);
}

vram_status vram_foreign_info_after(vram_device *device, uint64_t last, vram_foreign_info *info) {
    VR_CALL;
    return foreign_read(device, last, true, info);
}

vram_status vram_foreign_totals_get(vram_device *handle, vram_foreign_totals *totals) {
    VR_CALL;
    struct vram_foreign_totals full = {.size = sizeof full};
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger) {
        vr_mutex_lock(&ledger->lock);
        full.count = ledger->foreigns.count;
        full.bytes = ledger->foreigns.bytes;
        full.counted_bytes = ledger->foreigns.counted_bytes;
        full.peak_bytes = ledger->foreigns.peak_bytes;
        vr_mutex_unlock(&ledger->lock);
    }
    status = vr_info_give(totals, &full, sizeof full, sizeof full);
    vr_leave(device);
    return status;
}
