/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release_calls.c: the program's calls that give memory back; release.c does it.
 */
#include "core/cache/drain.h"

#include "base/error.h"

/* Enters for a call that answers with a number of bytes. */
static vram_status enter(enum vr_kind kind, const void *handle, const uint64_t *place,
                         const char *operation, void **entered) {
    if (!place) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the bytes is NULL");
    }
    return vr_enter(kind, handle, operation, entered);
}

vram_status vram_pool_shrink(vram_pool *handle, uint64_t *released) {
    uint64_t bytes = 0;
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, released, "vram_pool_shrink", &pool);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_pool_trim(pool, 0, &bytes);
    vr_pressure_note(pool, false);
    vr_leave(pool);
    if (status == VRAM_OK) {
        *released = bytes;
    }
    return status;
}

vram_status vram_pool_clear(vram_pool *handle, uint64_t *cached) {
    struct vr_survey survey;
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, cached, "vram_pool_clear", &pool);
    if (status == VRAM_OK) {
        vr_decay_survey(pool, false, &survey);
        (void)vr_pool_drain(pool);
        vr_count_cleanup(pool, 0);
        *cached = survey.all_bytes;
        vr_leave(pool);
    }
    return status;
}

vram_status vram_pool_maintain(vram_pool *handle, uint64_t interval_ns, uint64_t *released) {
    void *pool;
    vram_status status = enter(VR_KIND_POOL, handle, released, "vram_pool_maintain", &pool);
    if (status == VRAM_OK) {
        status = vr_pool_maintain(pool, interval_ns, released);
        vr_pressure_tick(pool, false);
        vr_leave(pool);
    }
    return status;
}

vram_status vram_device_cleanup(vram_device *handle, uint64_t *released) {
    void *entered;
    vram_status status = enter(VR_KIND_DEVICE, handle, released, "vram_device_cleanup", &entered);
    if (status == VRAM_OK) {
        struct vr_device_object *device = entered;
        status = vr_cleanup(device->context, device->slot, false, released);
        vr_leave(device);
    }
    return status;
}

vram_status vram_context_cleanup(vram_context *handle, uint64_t *released) {
    void *context;
    vram_status status = enter(VR_KIND_CONTEXT, handle, released, "vram_context_cleanup", &context);
    if (status == VRAM_OK) {
        status = vr_cleanup(context, NULL, false, released);
        vr_leave(context);
    }
    return status;
}
