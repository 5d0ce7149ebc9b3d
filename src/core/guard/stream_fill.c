/* SPDX-License-Identifier: Apache-2.0 */
/* stream_fill.c: the option poison=stream, for work that uses memory too early or too late. */
#include "core/guard/guard.h"

#include "base/error.h"
#include "base/log.h"
#include "core/object/request.h"
#include "device/device_calls.h"

/* In a captured queue the fill would become a part of the graph. */
static vram_status fill_uncaptured(struct vr_queue_object *queue, vram_addr addr, uint32_t pattern,
                                   uint64_t bytes) {
    vram_point point;
    vram_status status = vr_queue_submit_mark(queue, &point);
    return status == VRAM_OK ? vr_submit_fill((vram_queue *)(uintptr_t)queue->object.handle, addr,
                                              pattern, 1, bytes)
                             : status;
}

void vr_guard_fill_by_stream(const struct vr_pool *pool, const struct vr_request *request,
                             const struct vr_block *block) {
    uint32_t modes = vr_load(&pool->guard.modes, VR_RELAXED);
    vram_addr addr = vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block);
    struct vram_error error;
    if (!request->queue_object || !request->size || vr_block_is_other(block) ||
        modes & (VRAM_POOL_ZERO_ALLOC | VRAM_POOL_POISON)) { /* these have filled it already */
        return;
    }
    vr_error_save(&error);
    uint32_t pattern = modes & VRAM_POOL_ZERO_FREE ? 0 : VR_GUARD_NEW; /* zeros were promised */
    vram_status status = fill_uncaptured(request->queue_object, addr, pattern, request->size);
    if (status != VRAM_OK && status != VRAM_ERR_CAPTURE) {
        vr_log(VRAM_LOG_WARN, "pool \"%s\": the new block at 0x%llx was not filled: %s", pool->name,
               (unsigned long long)addr, vr_error_get()->text);
    }
    vr_error_restore(&error);
}
