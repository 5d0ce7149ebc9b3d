/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.c: the process-wide address map.
 *
 *  (1) base, bytes, device, kind, is_range, object, pool and extent change only while sequence is
 *      odd.
 *  (2) A record is in the radix only while its sequence is even, except briefly in publish
 *      (inserted last) and withdraw (odd first).
 *  (3) A reader trusts its copy if the sequence was the same even number before and after, and the
 *      address lies inside what it copied. Records are never returned to the system, so copying is
 *      always safe. The fields are written with release and read with acquire: a reader that sees a
 *      new value also sees the odd sequence that preceded it.
 */
#include "device/address.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/radix.h"
#include "base/size.h"
#include "base/stable.h"
#include "track/event.h"

#include <assert.h>
#include <string.h>

static struct vr_radix address_map = VR_RADIX_INIT;
static struct vr_radix passed_map =
    VR_RADIX_INIT; /* memory of the other map that was provided to pools */
static struct vr_stable record_memory = VR_STABLE_INIT(struct vr_record);
static vr_atomic_u64 range_bytes; /* of all ranges in the map */

struct vr_record *vr_record_take(void) {
    struct vr_record *record = vr_stable_take(&record_memory, vr_operation());
    if (!record) {
        return NULL;
    }
    if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
        vr_store(&record->sequence, 1, VR_RELAXED); /* new from the system: all zero */
    }
    vr_store(&record->pool, 0, VR_RELEASE);
    vr_store(&record->extent, NULL, VR_RELEASE);
    vr_store(&record->object, false, VR_RELEASE);
    vr_store(&record->sleeps, false, VR_RELEASE);
    vr_store(&record->seals, false, VR_RELEASE);
    vr_store(&record->read_only, false, VR_RELEASE);
    record->link = (struct vr_link){NULL, NULL};
    record->freeing = record->stuck = record->passed_on = false;
    record->provider = NULL;
    record->mappings = NULL;
    record->mapping_count = record->mapping_capacity = 0;
    return record;
}

void vr_record_give(struct vr_record *record) {
    assert(vr_load(&record->sequence, VR_RELAXED) % 2 == 1);
    vr_mem_free(record->mappings);
    record->mappings = NULL;
    vr_stable_give(&record_memory, record);
}

static struct vr_radix *map_of(const struct vr_record *record) {
    return record->passed_on ? &passed_map : &address_map;
}

/* The whole pages that a record lies in, which is the map's unit. A program's own memory may begin
   and end inside a page; then no other record uses that page. */
static uint64_t first_page(uint64_t base) {
    return base & ~(VR_RADIX_PAGE - 1);
}
static uint64_t page_bytes(uint64_t base, uint64_t bytes) {
    uint64_t last = base + (bytes - 1);
    return (last | (VR_RADIX_PAGE - 1)) - first_page(base) + 1;
}

vram_status vr_record_publish(struct vr_record *record, vram_addr base, uint64_t bytes,
                              uint64_t device, vram_memory_kind kind, bool is_range) {
    vr_store(&record->base, base, VR_RELEASE);
    vr_store(&record->bytes, bytes, VR_RELEASE);
    vr_store(&record->device, device, VR_RELEASE);
    vr_store(&record->kind, (uint32_t)kind, VR_RELEASE);
    vr_store(&record->is_range, is_range, VR_RELEASE);
    vr_fetch_add(&record->sequence, 1, VR_RELEASE); /* keeps (1) */
    vram_status status =
        vr_radix_insert(map_of(record), first_page(base), page_bytes(base, bytes), record);
    if (status != VRAM_OK) {
        vr_fetch_add(&record->sequence, 1, VR_ACQ_REL);
    }
    if (status == VRAM_ERR_BUSY) {
        status =
            vr_fail(VRAM_ERR_CORRUPT, "the driver gave address 0x%llx, which is in use already",
                    (unsigned long long)base);
    }
    vr_fetch_add(&range_bytes, status == VRAM_OK && is_range ? bytes : 0, VR_RELAXED);
    return status;
}

vram_status vr_record_publish_provided(struct vr_record *record, vram_addr base, uint64_t bytes,
                                       uint64_t device, vram_memory_kind kind) {
    struct vr_address_info place;
    record->passed_on = vr_address_find(base, &place) && place.device == device && !place.pool &&
                        vr_inside(base, bytes, place.base, place.bytes);
    if (record->passed_on && place.kind != kind) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the provider returned %s memory, and its pool is of %s memory: set "
                       "vram_pool_options.kind to what the provider serves",
                       vr_memory_name(place.kind), vr_memory_name(kind));
    }
    return vr_record_publish(record, base, bytes, device, kind, false);
}

void vr_record_withdraw(struct vr_record *record) {
    uint64_t base = vr_load(&record->base, VR_RELAXED);
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    vr_fetch_add(&record->sequence, 1, VR_ACQ_REL); /* odd first: keeps (2) */
    vram_status status =
        vr_radix_remove(map_of(record), first_page(base), page_bytes(base, bytes), record);
    assert(status == VRAM_OK);
    (void)status;
    vr_fetch_sub(&range_bytes, vr_load(&record->is_range, VR_RELAXED) ? bytes : 0, VR_RELAXED);
}

uint64_t vr_address_range_bytes(void) {
    return vr_load(&range_bytes, VR_RELAXED);
}

static bool find_in(struct vr_radix *map, vram_addr addr, struct vr_address_info *place) {
    struct vr_record *record = vr_radix_find(map, addr);
    if (!record) {
        return false;
    }
    uint64_t before = vr_load(&record->sequence, VR_ACQUIRE);
    place->record = record;
    place->base = vr_load(&record->base, VR_ACQUIRE);
    place->bytes = vr_load(&record->bytes, VR_ACQUIRE);
    place->device = vr_load(&record->device, VR_ACQUIRE);
    place->kind = (vram_memory_kind)vr_load(&record->kind, VR_ACQUIRE);
    place->is_range = vr_load(&record->is_range, VR_ACQUIRE);
    place->object = vr_load(&record->object, VR_ACQUIRE);
    place->pool = vr_load(&record->pool, VR_ACQUIRE);
    place->extent = vr_load(&record->extent, VR_ACQUIRE);
    uint64_t after = vr_load(&record->sequence, VR_ACQUIRE); /* (3) */
    return before == after && before % 2 == 0 && vr_inside(addr, 1, place->base, place->bytes);
}

bool vr_address_find(vram_addr addr, struct vr_address_info *place) {
    return find_in(&address_map, addr, place);
}

/* Memory of the address map that a provider passed to a pool belongs to the pool. */
static bool find_pool(vram_addr addr, struct vr_address_info *place) {
    return (find_in(&address_map, addr, place) && place->pool) || find_in(&passed_map, addr, place);
}

uint64_t vr_address_pool(vram_addr addr) {
    struct vr_address_info place;
    return find_pool(addr, &place) ? place.pool : 0;
}

uint64_t vr_address_extent(vram_addr addr) {
    struct vr_address_info place;
    return find_pool(addr, &place) && place.extent ? place.extent(place.pool, addr) : 0;
}
