/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foundation.c: making and entering pools, and what one is built on: its options, its range of addresses, its spaces.
 */
#include "core/ladder/ladder.h"
#include "core/limit/limit.h"
#include "core/witness/recorder.h"
#include "core/witness/witness.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/ops.h"

#include <stdio.h>
#include <string.h>

/* Addresses for both spaces: `wanted` for each or, when that is 0, what a device of this size can make use
   of and less where there is less: addresses are finite, and some systems are tight with them. */
static vram_status find_addresses(struct vr_pool *pool, uint64_t wanted, vram_addr *base,
                                  uint64_t *bytes) {
    static const char operation[] = "vram_pool_create";
    const struct vram_device_info *info = &pool->device->base.info;
    uint64_t least = wanted, each = wanted;
    struct vram_error error;
    vr_error_save(&error);
    if (!wanted) {
        each = UINT64_C(1) << 40;
        least = pool->granule;
        if (info->memory_bytes.known && !vr_mul(info->memory_bytes.value, 2, &each)) {
            each = info->memory_bytes.value;
        }
    }
    if (pool->flags & VRAM_POOL_DETERMINISTIC) {
        least =
            each; /* where small and large blocks lie must not depend on what a system has left */
    }
    for (;;) {
        if (!vr_round_up(each, pool->granule, bytes) || !vr_mul(*bytes, VR_PART_COUNT, bytes)) {
            return vr_fail(VRAM_ERR_OVERFLOW, operation,
                           "a range of %llu bytes is too large; set range_bytes to less",
                           (unsigned long long)each);
        }
        vram_status status = vr_vmm_reserve(&pool->device->base, *bytes, pool->granule, base);
        if (!vram_status_is_exhausted(status)) {
            if (status == VRAM_OK) {
                vr_error_restore(&error); /* that there was less is no error */
            }
            return status;
        }
        if (each / 2 < least) {
            return vr_fail(
                status, operation,
                "no %llu bytes of addresses can be reserved; set range_bytes to less, or "
                "VRAM_POOL_SEGMENTS",
                (unsigned long long)*bytes);
        }
        each /= 2;
    }
}

/* Reserves the pool's range and enters it in the address map. */
static vram_status reserve_range(struct vr_pool *pool, uint64_t wanted) {
    static const char operation[] = "vram_pool_create";
    uint64_t granule = pool->granule, bytes = 0, end;
    vram_addr base = 0;
    struct vr_record *record = vr_record_take(operation);
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = find_addresses(pool, wanted, &base, &bytes);
    if (status == VRAM_OK && (!base || base % granule || !vr_add(base, bytes, &end))) {
        status = vr_fail(VRAM_ERR_CORRUPT, operation,
                         "the driver reported success with the impossible address 0x%llx",
                         (unsigned long long)base);
    } else if (status == VRAM_OK) {
        vr_store(&record->pool, pool->object.handle, VR_RELEASE);
        vr_store(&record->extent, vr_pool_extent, VR_RELEASE);
        status = vr_record_publish(record, base, bytes, pool->device->object.handle,
                                   VRAM_MEMORY_DEVICE, true, operation);
        if (status != VRAM_OK && status != VRAM_ERR_CORRUPT) {
            vr_vmm_unreserve(&pool->device->base, base, bytes);
        }
    }
    if (status != VRAM_OK) {
        vr_record_give(record);
        return status;
    }
    pool->range = record;
    return VRAM_OK;
}

static bool stamp_passed(void *user, struct vr_stamp stamp) {
    struct vr_pool *pool = user;
    return vr_lane_passed(&pool->lanes, vr_pool_stamp_from_space(pool, stamp));
}

/* Each space has one half of the range: addresses cost nothing. */
static vram_status make_space(struct vr_pool *pool, const struct vram_pool_options *options,
                              enum vr_pool_part part) {
    const struct vram_device_info *info = &pool->device->base.info;
    uint64_t bytes = pool->range ? vr_load(&pool->range->bytes, VR_RELAXED) / VR_PART_COUNT : 0;
    struct vr_space_config config = {
        .mode = pool->range ? VR_SPACE_VMM : VR_SPACE_SEGMENTS,
        .deterministic = (pool->flags & VRAM_POOL_DETERMINISTIC) != 0,
        .direct = pool->direct,
        .alias = (info->caps & info->caps_known & VRAM_CAP_ALIAS) != 0,
        .base = pool->range ? vr_load(&pool->range->base, VR_RELAXED) + part * bytes : 0,
        .bytes = bytes,
        .granule = pool->granule,
        .slack_bytes = options->slack_bytes / VR_PART_COUNT + options->slack_bytes % VR_PART_COUNT,
        .slack_ppm = (uint32_t)vr_option_number(VR_OPTION_POOL_SLACK),
        .share_ppm = (uint32_t)vr_option_number(VR_OPTION_POOL_MOVE_SHARE),
        .credit_ns = vr_option_number(VR_OPTION_POOL_MOVE_CREDIT),
        .passed = stamp_passed,
        .user = pool,
    };
    return vr_space_create(&config, &pool->spaces[part]);
}

vram_status vr_pool_check_options(const struct vram_pool_options *options) {
    static const char operation[] = "vram_pool_create";
    if (options->flags & ~(uint32_t)(VRAM_POOL_DETERMINISTIC | VRAM_POOL_SEGMENTS |
                                     VRAM_POOL_TRACKED | VR_GUARD_MODES)) {
        return vr_fail(VRAM_ERR_INVALID, operation, "there are no such flags: 0x%x",
                       options->flags);
    }
    if (options->name && strnlen(options->name, VR_POOL_NAME_MAX) == VR_POOL_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, operation, "a pool's name has at most %d bytes",
                       VR_POOL_NAME_MAX - 1);
    }
    if (options->kind != VRAM_MEMORY_DEVICE && options->kind != VRAM_MEMORY_PINNED) {
        return vr_fail(VRAM_ERR_INVALID, operation,
                       "a pool is of device or page-locked memory, and not of kind %d",
                       (int)options->kind);
    }
    const struct vram_provider *provider = options->provider;
    if (provider && options->kind != VRAM_MEMORY_DEVICE) {
        return vr_fail(VRAM_ERR_INVALID, operation,
                       "a provider's memory is of no kind of the driver's: leave `kind` at 0");
    }
    if (provider && (provider->size != sizeof *provider || !provider->alloc || !provider->free ||
                     (provider->granule &&
                      (!vr_is_power_of_two(provider->granule) || provider->granule < 4096)))) {
        return vr_fail(
            VRAM_ERR_INVALID, operation,
            "a provider needs its size, both functions, and a granule that is a power of "
            "two from 4096 or 0");
    }
    return VRAM_OK;
}

static vram_status take_limits(struct vr_pool *pool, const struct vram_pool_options *options) {
    static const char operation[] = "vram_pool_create";
    vram_status status =
        options->limits ? vr_limits_take(&pool->limits, options->limits, operation) : VRAM_OK;
    if (status == VRAM_OK && !vr_ledger_get(pool->device, operation)) {
        status = vram_error_get()->status;
    }
    if (status == VRAM_OK) {
        vr_limit_derive(pool);
    }
    return status;
}

vram_status vr_pool_build(struct vr_pool *pool, const struct vram_pool_options *options) {
    const struct vram_device_info *info = &pool->device->base.info;
    pool->direct = !vr_option_number(VR_OPTION_POOL);
    pool->kind = options->kind;
    bool vmm = pool->device->base.vmm && !options->provider && pool->kind == VRAM_MEMORY_DEVICE &&
               !(options->flags & VRAM_POOL_SEGMENTS) && !pool->direct;
    if (options->provider) {
        pool->provider = *options->provider;
        pool->granule = pool->provider.granule ? pool->provider.granule : 2 * VR_MIB;
    } else if (pool->kind == VRAM_MEMORY_PINNED) {
        pool->granule = vr_os_page_bytes();
    } else {
        pool->granule = vmm ? info->vmm_granule.value : info->alloc_granule.value;
    }
    pool->flags = options->flags;
    if (pool->direct) { /* addresses are the driver's, in whatever order it gives them */
        pool->flags &= ~(uint32_t)VRAM_POOL_DETERMINISTIC;
    }
    bool ordered = pool->flags & VRAM_POOL_DETERMINISTIC;
    vr_store(&pool->uncached,
             (ordered ? VR_UNCACHED_ORDER : 0u) | (pool->direct ? VR_UNCACHED_DIRECT : 0u),
             VR_RELAXED);
    snprintf(pool->name, sizeof pool->name, "%s", options->name ? options->name : "pool");
    vram_status status = take_limits(pool, options);
    if (status == VRAM_OK) {
        status = vr_ladder_init(pool);
    }
    if (status == VRAM_OK) {
        status = vr_pressure_begin(pool, options->response);
    }
    if (status == VRAM_OK && vmm) {
        status = reserve_range(pool, options->range_bytes);
    }
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        status = make_space(pool, options, (enum vr_pool_part)part);
    }
    return status == VRAM_OK ? vr_guard_make(pool, options) : status;
}

/* ------------------------------------------------------------------- making */

static vram_status check_kind(const struct vr_device_object *device, vram_memory_kind kind) {
    const struct vram_device_info *info = &device->base.info;
    return kind != VRAM_MEMORY_PINNED || device->base.pinned
               ? VRAM_OK
               : vr_fail(VRAM_ERR_UNSUPPORTED, "vram_pool_create",
                         "%s device %u has no page-locked memory", info->backend,
                         info->backend_index);
}

static struct vr_pool *pool_make(struct vr_device_object *device) {
    struct vr_pool *pool = vr_mem_alloc(1, sizeof *pool, "vram_pool_create");
    if (pool) {
        pool->object.process = vr_os_process_generation();
        pool->device = device;
        vr_pool_end_init(pool);
        vr_mutex_init(&pool->lock, VR_RANK_POOL);
        vr_handle_ref(device->object.handle);
        vr_thread_on_end(vr_pool_thread_ended);
    }
    return pool;
}

static vram_status pool_create(struct vr_device_object *device,
                               const struct vram_pool_options *options, vram_pool **out) {
    struct vr_pool *pool = pool_make(device);
    if (!pool) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_handle_publish(VR_KIND_POOL, pool, vr_pool_free, &pool->object.handle);
    if (status != VRAM_OK) {
        vr_pool_free(pool);
        return status;
    }
    uint64_t handle = pool->object.handle;
    pool->watcher.handle = handle;
    status = vr_pool_build(pool, options);
    if (status == VRAM_OK) {
        vr_recorder_start();
        vr_witness_begin(pool);
        status = vr_device_list_child(device, &device->watchers, &pool->watcher.link,
                                      "vram_pool_create");
    }
    if (status != VRAM_OK) {
        vr_pool_end(pool);
        return status;
    }
    *out = (vram_pool *)(uintptr_t)handle; /* listed, it may have ended with its device by now */
    return VRAM_OK;
}

vram_status vram_pool_create(vram_device *handle, const vram_pool_options *options,
                             vram_pool **out) {
    static const char operation[] = "vram_pool_create";
    struct vram_pool_options taken;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the pool is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options, operation);
    if (status == VRAM_OK && (status = vr_pool_check_options(&taken)) == VRAM_OK &&
        (status = check_kind(device, taken.kind)) == VRAM_OK) {
        status = pool_create(device, &taken, out);
    }
    vr_leave(device);
    return status;
}

/* ----------------------------------------------------------------- entering */

vram_status vr_pool_enter(vram_pool *handle, vram_queue *queue_handle, const char *operation,
                          struct vr_pool **pool, struct vr_queue_object **queue) {
    void *entered, *queue_entered = NULL;
    vram_status status = vr_enter(VR_KIND_POOL, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    *pool = entered;
    if (queue_handle) {
        status = vr_queue_enter(queue_handle, operation, &queue_entered);
        if (status == VRAM_OK &&
            ((struct vr_queue_object *)queue_entered)->device != (*pool)->device) {
            vr_leave(queue_entered);
            status = vr_fail(VRAM_ERR_INVALID, operation,
                             "the queue belongs to another device than the pool");
        }
    }
    if (status != VRAM_OK) {
        vr_leave(entered);
        return status;
    }
    *queue = queue_entered;
    return VRAM_OK;
}

void vr_pool_leave(struct vr_pool *pool, struct vr_queue_object *queue) {
    if (queue) {
        vr_leave(queue);
    }
    vr_leave(pool);
}
