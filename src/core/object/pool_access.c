/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_access.c: entering a pool with a queue, and the pool's clock.
 */
#include "core/object/pool_object.h"

#include "base/clock.h"
#include "base/error.h"

vram_status vr_pool_enter_queue(struct vr_pool *pool, vram_queue *handle,
                                struct vr_queue_object **queue) {
    void *entered = NULL;
    vram_status status = handle ? vr_queue_enter(handle, &entered) : VRAM_OK;
    if (status == VRAM_OK && handle &&
        ((struct vr_queue_object *)entered)->device != pool->device) {
        vr_leave(entered);
        status = vr_fail(VRAM_ERR_INVALID, "the queue belongs to another device than the pool");
    }
    if (status != VRAM_OK) {
        vr_leave(pool);
        return status;
    }
    *queue = entered;
    return VRAM_OK;
}

vram_status vr_pool_enter(vram_pool *handle, vram_queue *queue_handle, struct vr_pool **pool,
                          struct vr_queue_object **queue) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status == VRAM_OK) {
        *pool = entered;
        status = vr_pool_enter_queue(*pool, queue_handle, queue);
    }
    return status;
}

void vr_pool_leave(struct vr_pool *pool, struct vr_queue_object *queue) {
    if (queue) {
        vr_leave(queue);
    }
    vr_leave(pool);
}

uint64_t vr_device_now(const struct vr_device_object *device) {
    struct vr_backend *backend = device->base.backend;
    if (backend->ops->sim) {
        struct vram_sim_state state = {.size = sizeof state};
        backend->ops->sim->state(backend, &state);
        return state.clock_ns;
    }
    return vr_clock_now();
}

uint64_t vr_pool_now(const struct vr_pool *pool) {
    return vr_device_now(pool->device);
}
