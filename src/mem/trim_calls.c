/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trim_calls.c: vram_pool_trim, vram_device_trim and vram_context_trim. First buffers return memory
 * to their pool, then pools return it to the driver (core/pressure/release.c), so that one call can
 * do both.
 */
#include "mem/buffer_object.h"

#include "base/error.h"
#include "core/guard/guard.h"
#include "core/object/walk.h"
#include "core/pressure/trim.h"

enum {
    POOL_FLAGS = VRAM_TRIM_MEMORY | VRAM_TRIM_CACHES | VRAM_TRIM_RARE | VRAM_TRIM_BUFFERS,
    DEVICE_FLAGS = POOL_FLAGS | VRAM_TRIM_PINNED
};

static vram_status read_options(const vram_trim_options *options, uint32_t known, uint32_t usual,
                                struct vram_trim_options *taken) {
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status == VRAM_OK && taken->flags & ~known) {
        status =
            vr_fail(VRAM_ERR_INVALID, "flags %#x: unknown, or not valid for a pool", taken->flags);
    }
    taken->flags = taken->flags ? taken->flags : usual;
    return status;
}

/* The bytes that the driver got, or, if the call is only for buffers, that the pool got. */
static void report_released(const struct vram_trim_options *options,
                            const struct vr_trimmed *trimmed, uint64_t *released) {
    bool inside = !(options->flags & (VRAM_TRIM_MEMORY | VRAM_TRIM_RARE | VRAM_TRIM_PINNED));
    if (released) {
        *released = inside ? trimmed->to_pool : trimmed->to_driver;
    }
}

static void fit_buffers(struct vr_pool *pool, const struct vram_trim_options *options,
                        struct vr_trimmed *trimmed) {
    if (options->flags & VRAM_TRIM_BUFFERS) {
        trimmed->to_pool += vr_buffers_fit(pool, options->idle_ns);
    }
}

/* Trims one pool: checks for damage first, and the memory pressure afterwards. */
static vram_status trim_alone(struct vr_pool *pool, const struct vram_trim_options *options,
                              struct vr_trimmed *trimmed) {
    struct vram_error error;
    bool damaged = options->flags & VRAM_TRIM_MEMORY && vr_guard_empty_quarantine(pool);
    vr_error_save(&error);
    vram_status status = vr_pool_trim_by(pool, options, trimmed);
    if (status == VRAM_OK && damaged) {
        vr_error_restore(&error);
        status = VRAM_ERR_CORRUPT;
    }
    if (options->flags & VRAM_TRIM_MEMORY) {
        vr_pressure_note(pool, false);
    } else if (options->flags & VRAM_TRIM_RARE) {
        vr_pressure_tick(pool, false);
    }
    return status;
}

vram_status vram_pool_trim(vram_pool *handle, const vram_trim_options *options,
                           uint64_t *released) {
    VR_CALL;
    struct vram_trim_options taken;
    struct vr_trimmed trimmed = {0};
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    status = read_options(options, POOL_FLAGS, VRAM_TRIM_MEMORY, &taken);
    if (status == VRAM_OK) {
        fit_buffers(pool, &taken, &trimmed);
        status = trim_alone(pool, &taken, &trimmed);
        report_released(&taken, &trimmed, released);
    }
    vr_leave(pool);
    return status;
}

/* ------------------------------------------------------------------ many pools */

static uint64_t held_bytes(struct vr_walk walk) {
    uint64_t bytes = 0;
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        bytes += vr_pool_reserved(pool);
    }
    return bytes;
}

/* Trims one of several pools. *excess: the bytes that all of them together still have to return. */
static vram_status trim_one(struct vr_pool *pool, const struct vram_trim_options *options,
                            uint64_t *excess, struct vr_trimmed *trimmed) {
    struct vram_trim_options own = *options;
    uint64_t held = vr_pool_reserved(pool), before = trimmed->to_driver;
    own.keep_bytes = held > *excess ? held - *excess : 0;
    own.flags &= *excess ? UINT32_MAX : ~(uint32_t)VRAM_TRIM_MEMORY;
    fit_buffers(pool, &own, trimmed);
    vram_status status = vr_pool_trim_by(pool, &own, trimmed);
    uint64_t given = trimmed->to_driver - before;
    *excess -= given < *excess ? given : *excess;
    return status;
}

/* Trims the pools of a device, or of all devices (slot NULL). Returns the first failure, after all
   were tried. */
static vram_status trim_all(struct vr_context *context, const struct vr_slot *slot,
                            const struct vram_trim_options *options, struct vr_trimmed *trimmed) {
    struct vr_walk walk = {.context = context, .slot = slot};
    uint64_t held = options->keep_bytes ? held_bytes(walk) : UINT64_MAX;
    uint64_t excess = held > options->keep_bytes ? held - options->keep_bytes : 0;
    vram_status first = VRAM_OK;
    struct vram_error error;
    if (options->flags & VRAM_TRIM_PINNED) {
        trimmed->to_driver += vr_spare(context, slot);
    }
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        vram_status status = trim_one(pool, options, &excess, trimmed);
        if (first == VRAM_OK && status != VRAM_OK) {
            first = status;
            vr_error_save(&error);
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error);
    }
    return first;
}

static vram_status trim_entered(struct vr_context *context, const struct vr_slot *slot,
                                const vram_trim_options *options, uint64_t *released) {
    struct vram_trim_options taken;
    struct vr_trimmed trimmed = {0};
    vram_status status =
        read_options(options, DEVICE_FLAGS, VRAM_TRIM_MEMORY | VRAM_TRIM_PINNED, &taken);
    if (status == VRAM_OK) {
        status = trim_all(context, slot, &taken, &trimmed);
        report_released(&taken, &trimmed, released);
    }
    return status;
}

vram_status vram_device_trim(vram_device *handle, const vram_trim_options *options,
                             uint64_t *released) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status == VRAM_OK) {
        struct vr_device_object *device = entered;
        status = trim_entered(device->context, device->slot, options, released);
        vr_leave(device);
    }
    return status;
}

vram_status vram_context_trim(vram_context *handle, const vram_trim_options *options,
                              uint64_t *released) {
    VR_CALL;
    void *context;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &context);
    if (status == VRAM_OK) {
        status = trim_entered(context, NULL, options, released);
        vr_leave(context);
    }
    return status;
}
