/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.c: the ranges of addresses that a pool maps memory into.
 *
 *      first range                                 further ones, each for one space
 *     +---------+------------------------------+   +-------------------+
 *     | small   | large blocks                 |   | large (or small)  |  ...
 *     +---------+------------------------------+   +-------------------+
 *
 *  (1) Memory can be remapped but live addresses cannot change, so a space needs more addresses
 *      than memory: the gaps between live blocks may be too short for a larger one. First fit needs
 *      at most the logarithm of largest over smallest size times the memory (Robson 1974), which is
 *      22 for blocks from 32 KiB to 128 GiB. 64 times is enough for placement that is not first
 *      fit. Small blocks fit into any granule and need only twice the memory.
 *  (2) A process has 128 TiB of addresses for all purposes. Pools share half of that. Each takes 64
 *      times the memory, but at most an eighth of what is left of the half, and at least 2 times
 *      the memory.
 *  (3) If the system refuses, as under `ulimit -v`, the pool asks for half as much, and so on. The
 *      amount that is granted may be all there is, so the pool keeps only a quarter of it: the rest
 *      of the program needs addresses too.
 *  (4) When no run of addresses is long enough for a block, the space gets a further range, twice
 *      as long as the previous one if the system grants it, and long enough for the block. So there
 *      are few ranges, and range_bytes does not limit the pool's size.
 *  (5) Ranges stay until the pool is destroyed. A deterministic pool, whose addresses depend only
 *      on the order of calls, has a single range of a fixed length.
 */
#include "core/backing/backing.h"
#include "core/guard/block_lookup.h"

#include "base/error.h"
#include "base/log.h"
#include "base/option.h"
#include "base/size.h"
#include "base/status.h"
#include "device/ops.h"

#include <assert.h>

enum {
    LARGE_TIMES = 64, /* times the device's memory, for large blocks; (1) */
    SMALL_TIMES = 2,  /* and for small ones, and in a deterministic pool for both */
    SHARE_PART = 8,   /* one pool takes at most this part of what is left to pools; (2) */
    SCARCE_PART = 4   /* part that is kept of a range granted after a refusal; (3) */
};

#define POOLS_BYTES   (UINT64_C(1) << 46) /* half of 128 TiB; (2) */
#define UNKNOWN_BYTES (UINT64_C(1) << 40) /* if the device does not report its memory */

/* `count` times the memory, or the memory itself if that overflows. */
static uint64_t memory_times(uint64_t memory, uint64_t count) {
    uint64_t bytes;
    return vr_mul(memory, count, &bytes) ? bytes : memory;
}

/* The maximum for one range, unless a block needs more; keeps (2). */
static uint64_t range_share(void) {
    uint64_t taken = vr_address_range_bytes();
    return taken < POOLS_BYTES ? (POOLS_BYTES - taken) / SHARE_PART : 0;
}

/* The initial size of the space for large blocks. */
static uint64_t large_bytes(uint64_t memory) {
    return vr_larger(vr_smaller(memory_times(memory, LARGE_TIMES), range_share()),
                     memory_times(memory, SMALL_TIMES));
}

/* ---------------------------------------------------------------- one range */

/* Reserves *bytes, or less, down to `least`, if the driver refuses; *bytes becomes the size of the
   range. Keeps (3). */
static vram_status range_reserve(struct vr_pool *pool, uint64_t least, uint64_t *bytes,
                                 vram_addr *base) {
    struct vr_device *device = &pool->device->base;
    uint64_t wanted = *bytes, granule = pool->granule;
    vram_status status = vr_vmm_reserve(device, *bytes, granule, base);
    while (vr_status_is_exhausted(status) && *bytes > least) {
        *bytes = vr_larger(*bytes / 2 / granule * granule, least);
        status = vr_vmm_reserve(device, *bytes, granule, base);
    }
    assert(*bytes >= least && *bytes <= wanted);
    uint64_t part = vr_larger(*bytes / SCARCE_PART / granule * granule, least);
    if (status == VRAM_OK && *bytes < wanted && part < *bytes) {
        status = vr_vmm_unreserve(device, *base, *bytes);
        *bytes = part;
        status = status == VRAM_OK ? vr_vmm_reserve(device, part, granule, base) : status;
    }
    return status;
}

/* Enters the range of the pool in the address map. On failure it is returned to the driver, unless
   the map shows that it is in use already. */
static vram_status range_publish(struct vr_pool *pool, vram_addr base, uint64_t bytes,
                                 struct vr_record **range) {
    VR_OPERATION("vram_pool_create");
    uint64_t end;
    if (!base || base % pool->granule || !vr_add(base, bytes, &end)) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the driver reported success with the impossible address 0x%llx",
                       (unsigned long long)base);
    }
    struct vr_record *record = vr_record_take();
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (record) {
        vr_store(&record->pool, pool->object.handle, VR_RELEASE);
        vr_store(&record->extent, vr_pool_extent, VR_RELEASE);
        status = vr_record_publish(record, base, bytes, pool->device->object.handle,
                                   VRAM_MEMORY_DEVICE, true);
    }
    if (status == VRAM_OK) {
        *range = record;
        return VRAM_OK;
    }
    if (status != VRAM_ERR_CORRUPT) {
        struct vram_error error;
        vr_error_save(&error);
        vr_vmm_unreserve(&pool->device->base, base, bytes);
        vr_error_restore(&error);
    }
    if (record) {
        vr_record_give(record);
    }
    return status;
}

static void range_unreserve(struct vr_pool *pool, struct vr_record *range, bool stuck) {
    struct vr_device *device = &pool->device->base;
    uint64_t base = vr_load(&range->base, VR_RELAXED), bytes = vr_load(&range->bytes, VR_RELAXED);
    vr_record_withdraw(range);
    if (stuck || (vr_vmm_unreserve(device, base, bytes) != VRAM_OK &&
                  vr_vmm_unreserve(device, base, bytes) != VRAM_OK)) {
        vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of a pool's addresses",
               (unsigned long long)bytes);
    }
    vr_record_give(range);
}

/* ---------------------------------------------------------------- the first */

vram_status vr_addresses_begin(struct vr_pool *pool, uint64_t wanted, uint64_t *small_bytes) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t small, large, bytes, all, least = pool->granule * VR_PART_COUNT;
    vram_addr base = 0;
    struct vram_error error;
    vr_error_save(&error);
    wanted = wanted ? wanted : vr_option_number(VR_OPTION_RANGE_BYTES);
    bool fixed = wanted || (pool->flags & VRAM_POOL_DETERMINISTIC); /* keeps (5) */
    small = wanted         ? wanted
            : memory.known ? memory_times(memory.value, SMALL_TIMES)
                           : UNKNOWN_BYTES;
    large = fixed ? small : memory.known ? large_bytes(memory.value) : UNKNOWN_BYTES;
    if (!vr_round_up(small, pool->granule, &small) || !vr_round_up(large, pool->granule, &large) ||
        !vr_add(small, large, &all)) {
        return vr_fail(VRAM_ERR_OVERFLOW,
                       "a range of %llu bytes is too large; set range_bytes to less",
                       (unsigned long long)small);
    }
    bytes = all;
    vram_status status = range_reserve(pool, fixed ? all : least, &bytes, &base);
    if (vr_status_is_exhausted(status)) {
        return vr_fail(status,
                       "no %llu bytes of addresses can be reserved; set range_bytes "
                       "(VRAM_RANGE_BYTES) to less, or use VRAM_POOL_SEGMENTS",
                       (unsigned long long)bytes);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_error_restore(&error); /* a smaller range is not an error */
    *small_bytes = vr_smaller(small, bytes / VR_PART_COUNT / pool->granule * pool->granule);
    return range_publish(pool, base, bytes, &pool->range);
}

/* -------------------------------------------------------------- further ones */

/* Adds a range that is in the address map to the space. Under the lock. */
static vram_status range_enter(struct vr_pool *pool, enum vr_pool_part part,
                               struct vr_record *range) {
    assert(vr_pool_is_locked(pool) && pool->range);
    if (pool->further_count == VR_FURTHER_RANGES) {
        return VRAM_ERR_FRAGMENTED;
    }
    vram_status status = vr_space_add_range(pool->spaces[part], vr_load(&range->base, VR_RELAXED),
                                            vr_load(&range->bytes, VR_RELAXED));
    if (status == VRAM_OK) {
        vr_store(&range->sleeps, vr_load(&pool->range->sleeps, VR_RELAXED), VR_RELEASE);
        vr_store(&range->seals, vr_load(&pool->range->seals, VR_RELAXED), VR_RELEASE);
        pool->further[pool->further_count++] = range;
    }
    return status;
}

/* The wanted length of the next range; keeps (4). */
static uint64_t next_bytes(struct vr_pool *pool) {
    uint64_t first = vr_load(&pool->range->bytes, VR_RELAXED) / VR_PART_COUNT;
    vr_mutex_lock(&pool->lock);
    uint32_t count = pool->further_count;
    vr_mutex_unlock(&pool->lock);
    return memory_times(first / pool->granule * pool->granule, UINT64_C(2) << count);
}

vram_status vr_addresses_add(struct vr_pool *pool, enum vr_pool_part part, uint64_t bytes) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    struct vr_record *range = NULL;
    struct vram_error error;
    vram_addr base = 0;
    uint64_t least;
    if (!pool->range || pool->flags & VRAM_POOL_DETERMINISTIC ||
        (memory.known && bytes > memory.value) || !vr_round_up(bytes, pool->granule, &least)) {
        return VRAM_ERR_FRAGMENTED;
    }
    uint64_t wanted = vr_larger(vr_smaller(next_bytes(pool), range_share()), least);
    wanted = wanted / pool->granule * pool->granule;
    vr_error_save(&error);
    vram_status status = range_reserve(pool, least, &wanted, &base);
    if (status == VRAM_OK || vr_status_is_exhausted(status)) {
        vr_error_restore(&error);
    }
    if (status != VRAM_OK) {
        return vr_status_is_exhausted(status) ? VRAM_ERR_FRAGMENTED : status;
    }
    status = range_publish(pool, base, wanted, &range);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&pool->lock);
    status = range_enter(pool, part, range);
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK) {
        vr_error_save(&error);
        range_unreserve(pool, range, false);
        vr_error_restore(&error);
    }
    return status;
}

void vr_addresses_note_sleep(struct vr_pool *pool, bool sleeps, bool seals) {
    assert(vr_pool_is_locked(pool));
    vr_store(&pool->range->sleeps, sleeps, VR_RELEASE);
    vr_store(&pool->range->seals, seals, VR_RELEASE);
    for (uint32_t i = 0; i < pool->further_count; i++) {
        vr_store(&pool->further[i]->sleeps, sleeps, VR_RELEASE);
        vr_store(&pool->further[i]->seals, seals, VR_RELEASE);
    }
}

void vr_addresses_end(struct vr_pool *pool) {
    bool stuck = pool->range && pool->range->stuck;
    while (pool->further_count) {
        range_unreserve(pool, pool->further[--pool->further_count], stuck);
    }
    if (pool->range) {
        range_unreserve(pool, pool->range, stuck);
    }
}
