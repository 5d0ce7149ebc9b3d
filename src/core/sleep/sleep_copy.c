/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_copy.c: contents on their way to the host and back, on a queue of their own.
 */
#include "core/object/pool_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "device/device_calls.h"
#include "device/ops.h"

#include <assert.h>

static vram_device *device_handle(const struct vr_pool *pool) {
    return (vram_device *)(uintptr_t)pool->device->object.handle;
}

void vr_nap_free_host(struct vr_pool *pool, struct vr_nap *nap) {
    if (nap->host) {
        vr_fetch_sub(&pool->tally.asleep_host_bytes, nap->to - nap->from, VR_RELAXED);
        if (nap->pinned) {
            /* Should the device be closing, it ends such memory itself. */
            (void)vr_device_free(device_handle(pool), (uintptr_t)nap->host);
        } else {
            vr_mem_free(nap->host);
        }
        nap->host = NULL;
    }
}

/* ------------------------------------------------------------------ contents */

static vram_status take_host(const struct vr_turn *turn, struct vr_nap *nap) {
    struct vr_pool *pool = turn->pool;
    uint64_t bytes = nap->to - nap->from;
    assert(nap->from < nap->to && nap->mapped);
    vram_addr addr = 0;
    vram_status status = VRAM_OK;
    nap->pinned = turn->contents == VRAM_SLEEP_PINNED;
    if (nap->pinned) {
        status = vr_device_alloc(device_handle(pool), bytes, VRAM_MEMORY_PINNED, &addr);
        nap->host = (void *)(uintptr_t)addr;
    } else {
        nap->host = vr_mem_alloc(1, (size_t)bytes, vr_operation());
        status = nap->host ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    }
    if (nap->host) {
        vr_tally(&pool->tally.asleep_host_bytes, bytes);
    }
    return status;
}

/* Whether there is anything to copy out of a piece, or back into it. */
static bool has_copy(const struct vr_nap *nap, bool out) {
    return out ? nap->from != nap->to : nap->host != NULL;
}

/* Submits the copy of one piece, out to the host or back in. */
static vram_status submit(const struct vr_turn *turn, struct vr_queue_object *queue,
                          struct vr_nap *nap, bool out) {
    uint64_t bytes = nap->to - nap->from;
    vram_status status = out && !nap->host ? take_host(turn, nap) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    return out ? vr_queue_download(&queue->base, nap->host, nap->from, bytes)
               : vr_queue_upload(&queue->base, nap->from, nap->host, bytes);
}

/* Copies with one copy ahead of the one that is waited for; each may take as long as a call may
   wait. */
static vram_status copy_with(const struct vr_turn *turn, struct vr_queue_object *queue, bool out) {
    uint64_t wait_ns = turn->pool->device->context->wait_ns, value = 0;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < turn->count && status == VRAM_OK; i++) {
        struct vr_nap *nap = turn->naps[i];
        uint64_t before = value;
        if (!has_copy(nap, out)) {
            continue;
        }
        status = submit(turn, queue, nap, out);
        if (status == VRAM_OK && (status = vr_queue_mark(queue, &value)) == VRAM_OK && before) {
            status = vr_queue_wait_value(queue, before, wait_ns);
        }
    }
    return status == VRAM_OK && value ? vr_queue_wait_value(queue, value, wait_ns) : status;
}

static bool has_copies(const struct vr_turn *turn, bool out) {
    for (uint32_t i = 0; i < turn->count; i++) {
        if (has_copy(turn->naps[i], out)) {
            return true;
        }
    }
    return false;
}

/* Copies on a queue of its own. *safe: no copy is on its way any more, whatever happened. */
vram_status vr_turn_copy(const struct vr_turn *turn, bool out, bool *safe) {
    vram_queue *handle;
    void *entered;
    *safe = true;
    vram_status status = has_copies(turn, out)
                             ? vr_queue_make(device_handle(turn->pool), NULL, &handle)
                             : VRAM_ERR_NOT_READY;
    if (status != VRAM_OK) {
        return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
    }
    status = vr_enter(VR_KIND_QUEUE, handle, &entered);
    if (status != VRAM_OK) {
        vr_queue_end(handle);
        return status;
    }
    struct vr_queue_object *queue = entered;
    if (vr_submit_begin(queue)) {
        status = copy_with(turn, queue, out);
        vr_submit_end(queue);
    } else {
        status = vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    vr_queue_end(handle); /* waits */
    *safe = vr_load(&queue->finished, VR_ACQUIRE);
    vr_leave(queue);
    return status;
}
