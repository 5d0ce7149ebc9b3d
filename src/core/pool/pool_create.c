/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_create.c: creating pools: their options, their range and their spaces.
 */
#include "core/backing/announce.h"
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/provided.h"
#include "core/cache/stamp.h"
#include "core/ladder/ladder.h"
#include "core/limit/limit.h"
#include "core/live/live_writer.h"
#include "core/pool/pool_calls.h"
#include "core/tracking/pool_tracking.h"
#include "core/tracking/recorder.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/ops.h"
#include "track/event.h"

#include <stdio.h>
#include <string.h>

enum { SHARE_FLAGS = VRAM_POOL_SHAREABLE | VRAM_POOL_SHARE_GROUP };

static bool stamp_passed(void *user, struct vr_stamp stamp) {
    struct vr_pool *pool = user;
    return vr_queue_state_passed(&pool->queue_states, vr_pool_stamp_from_space(pool, stamp));
}

/* The space for small blocks gets the first small_bytes of the range, the other space the rest. */
static vram_status make_space(struct vr_pool *pool, const struct vram_pool_options *options,
                              enum vr_pool_part part, uint64_t small_bytes) {
    const struct vram_device_info *info = &pool->device->base.info;
    uint64_t base = pool->range ? vr_load(&pool->range->base, VR_RELAXED) : 0;
    uint64_t bytes = pool->range ? vr_load(&pool->range->bytes, VR_RELAXED) : 0;
    struct vr_space_config config = {
        .mode = pool->range ? VR_SPACE_VMM : VR_SPACE_SEGMENTS,
        .deterministic = (pool->flags & VRAM_POOL_DETERMINISTIC) != 0,
        .direct = pool->direct,
        .coarse = pool->flags & VRAM_POOL_SHARE_GROUP && !pool->direct,
        .alias = (info->caps & info->caps_known & VRAM_CAP_ALIAS) != 0,
        .base = part == VR_PART_SMALL ? base : base + small_bytes,
        .bytes = part == VR_PART_SMALL ? small_bytes : bytes - small_bytes,
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
    if (options->flags & ~(uint32_t)(VRAM_POOL_DETERMINISTIC | VRAM_POOL_SEGMENTS |
                                     VRAM_POOL_TRACKED | VRAM_POOL_POWER_OF_TWO | SHARE_FLAGS |
                                     VRAM_POOL_SHARE_FABRIC | VR_GUARD_MODES)) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags: 0x%x", options->flags);
    }
    if (options->name && strnlen(options->name, VR_POOL_NAME_MAX) == VR_POOL_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "the pool's name is too long: use at most %d bytes",
                       VR_POOL_NAME_MAX - 1);
    }
    if (!vr_memory_row(options->kind)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "memory kind %d is invalid for a pool: use VRAM_MEMORY_DEVICE, _PINNED or "
                       "_MANAGED",
                       (int)options->kind);
    }
    const struct vram_provider *provider = options->provider;
    if (provider && options->kind != VRAM_MEMORY_DEVICE &&
        vr_provider_kind(provider) != VRAM_MEMORY_DEVICE &&
        vr_provider_kind(provider) != options->kind) {
        return vr_fail(VRAM_ERR_INVALID, "the provider serves %s memory, and `kind` says %s",
                       vr_memory_name(vr_provider_kind(provider)), vr_memory_name(options->kind));
    }
    vram_status status = vr_provided_check(provider);
    if (status != VRAM_OK) {
        return status;
    }
    if (options->flags & VRAM_POOL_SHARE_FABRIC &&
        (options->flags & SHARE_FLAGS) != VRAM_POOL_SHAREABLE) {
        return vr_fail(VRAM_ERR_INVALID,
                       "VRAM_POOL_SHARE_FABRIC goes with VRAM_POOL_SHAREABLE, and not with "
                       "VRAM_POOL_SHARE_GROUP, whose memory serves other blocks later");
    }
    if (options->flags & SHARE_FLAGS && (provider || options->kind != VRAM_MEMORY_DEVICE)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "a shareable pool has device memory: leave `provider` and `kind` at 0");
    }
    return VRAM_OK;
}

static vram_status check_share(const struct vr_device_object *device, uint32_t flags) {
    if (flags & VRAM_POOL_SHARE_FABRIC && device->base.share && !device->base.fabric) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u has no fabric handles",
                       device->base.info.backend, device->base.info.backend_index);
    }
    if (!(flags & SHARE_FLAGS) || device->base.share) {
        return VRAM_OK;
    }
    return vr_fail(VRAM_ERR_UNSUPPORTED,
                   "%s device %u cannot share memory with other processes: %s",
                   device->base.info.backend, device->base.info.backend_index,
                   device->base.no_share ? device->base.no_share : "its driver exports no memory");
}

static vram_status take_limits(struct vr_pool *pool, const struct vram_pool_options *options) {
    vram_status status = options->limits ? vr_limits_take(&pool->limits, options->limits) : VRAM_OK;
    if (status == VRAM_OK && !vr_ledger_get(pool->device)) {
        status = vr_error_get()->status;
    }
    if (status == VRAM_OK) {
        vr_limit_derive(pool);
    }
    return status;
}

vram_status vr_pool_build(struct vr_pool *pool, const struct vram_pool_options *options) {
    const struct vram_device_info *info = &pool->device->base.info;
    uint32_t share = options->flags & SHARE_FLAGS;
    pool->direct = !vr_option_number(VR_OPTION_POOL) || share == VRAM_POOL_SHAREABLE;
    pool->kind = options->provider && options->kind == VRAM_MEMORY_DEVICE
                     ? vr_provider_kind(options->provider)
                     : options->kind;
    pool->announced = vr_announce_begin(pool, options);
    bool segments = options->flags & VRAM_POOL_SEGMENTS || pool->direct || pool->announced;
    bool vmm = pool->device->base.vmm && !options->provider && pool->kind == VRAM_MEMORY_DEVICE &&
               (share || !segments); /* what is mapped is exported by its handles */
    pool->exportable =
        share || (vmm && pool->device->base.share && vr_option_number(VR_OPTION_EXPORTABLE));
    if (options->provider) {
        pool->provider = *options->provider;
        pool->granule = vr_provided_granule(&pool->provider);
    } else {
        pool->granule = vmm ? info->vmm_granule.value : vr_memory_granule(pool->device, pool->kind);
    }
    pool->flags = options->flags;
    if (vr_option_number(VR_OPTION_POWER_OF_TWO)) {
        pool->flags |= VRAM_POOL_POWER_OF_TWO;
    }
    if (pool->direct) { /* the driver chooses the addresses, in any order */
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
    uint64_t small_bytes = 0;
    if (status == VRAM_OK && vmm) {
        status = vr_addresses_begin(pool, options->range_bytes, &small_bytes);
    }
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        status = make_space(pool, options, (enum vr_pool_part)part, small_bytes);
    }
    return status == VRAM_OK ? vr_guard_make(pool, options) : status;
}

/* ----------------------------------------------------------------- creating */

static struct vr_pool *pool_make(struct vr_device_object *device) {
    struct vr_pool *pool = vr_mem_alloc(1, sizeof *pool, vr_operation());
    if (pool) {
        pool->object.process = vr_os_process_generation();
        pool->device = device;
        pool->miss = &vr_miss_ops;
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
        vr_tracking_begin(pool);
        status = vr_device_list_watcher(device, &pool->watcher);
    }
    if (status != VRAM_OK) {
        vr_pool_end(pool);
        return status;
    }
    *out = (vram_pool *)(uintptr_t)handle; /* may have ended with its device by now */
    vr_live_note(device->context);
    return VRAM_OK;
}

vram_status vr_pool_create(vram_device *handle, const vram_pool_options *options, vram_pool **out) {
    VR_OPERATION("vram_pool_create");
    struct vram_pool_options taken;
    void *device;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the pool is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && (status = vr_pool_check_options(&taken)) == VRAM_OK &&
        (status = vr_memory_kind_check(device, taken.kind)) == VRAM_OK &&
        (status = vr_provider_check(handle, taken.provider)) == VRAM_OK &&
        (status = check_share(device, taken.flags)) == VRAM_OK) {
        status = pool_create(device, &taken, out);
    }
    vr_leave(device);
    return status;
}

vram_status vram_pool_create(vram_device *handle, const vram_pool_options *options,
                             vram_pool **out) {
    return vr_pool_create(handle, options, out);
}
