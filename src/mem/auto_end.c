/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_end.c: what the cleanup attribute calls for contexts, devices, queues, pools and memory.
 */
#include "base/quiet.h"
#include "core/pool/pool_calls.h"
#include "device/device_calls.h"
#include "mem/mem_calls.h"
#include "vram/auto.h"

VR_QUIET_HANDLE(vram_context, vr_context_destroy(*object))
VR_QUIET_HANDLE(vram_device, vr_device_end(*object))
VR_QUIET_HANDLE(vram_kernel, vr_kernel_destroy(*object))
VR_QUIET_HANDLE(vram_pool, (void)vr_pool_destroy(*object))
VR_QUIET_HANDLE(vram_buffer, (void)vr_buffer_destroy(*object))
VR_QUIET_HANDLE(vram_scope, (void)vr_scope_end(*object))
VR_QUIET_HANDLE(vram_batch, (void)vr_batch_destroy(*object))
VR_QUIET_HANDLE(vram_named, (void)vr_named_destroy(*object))

/* Only the call that matches the kind of the queue has an effect. */
VR_QUIET_HANDLE(vram_queue, {
    (void)vr_adoption_end(*object);
    vr_queue_end(*object);
})

VR_QUIET_STRUCT(vram_auto_block, object->addr, {
    if (vr_free(object->pool, object->addr, object->queue) == VRAM_ERR_STALE) {
        (void)vr_pool_free_after_queue(object->pool, object->addr, object->queue);
    }
})
