/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attached.c: what schedulers and weights share: both are attached to a pool, which may end during
 * any call.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "vram/auto.h"

vram_status vr_in_operation(vram_status status) {
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        error.operation = vr_operation();
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_scheduler_stale(const struct vr_scheduler *scheduler, vram_status status) {
    struct vram_pool_stats stats = {.size = sizeof stats};
    struct vram_error error;
    if (status != VRAM_ERR_INVALID) {
        return status;
    }
    vr_error_save(&error);
    if (vram_pool_stats_get(scheduler->pool, &stats) == VRAM_ERR_STALE) {
        return vr_in_operation(VRAM_ERR_STALE);
    }
    vr_error_restore(&error);
    return status;
}

void vr_block_free_after(vram_pool *pool, vram_addr block, vram_queue *queue) {
    vram_auto_block kept = {pool, block, queue};
    vram_auto_block_auto_end(&kept);
}

vram_status vr_publish_attached(vram_pool *pool, enum vr_kind kind, struct vr_object *object,
                                void (*destroy)(void *object), vram_pool_ended_fn *ended,
                                vram_device **device, vram_attachment **attachment) {
    vram_status status = vr_handle_publish(kind, object, destroy, &object->handle);
    if (status != VRAM_OK) {
        destroy(object);
        return vr_in_operation(status);
    }
    vr_handle_ref(object->handle); /* from here on the object may end with its pool */
    status = vram_pool_attach(pool, ended, (void *)(uintptr_t)object->handle, device, attachment);
    if (status != VRAM_OK) {
        vram_status ended_with;
        (void)vr_in_operation(status);
        (void)vr_object_end(object, NULL, &ended_with);
        vr_leave(object);
    }
    return status;
}
