/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_copy.c: copies contents to the host and back, on a separate queue.
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

void vr_sleep_state_free_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state) {
    if (sleep_state->host) {
        vr_fetch_sub(&pool->counters.asleep_host_bytes, sleep_state->to - sleep_state->from,
                     VR_RELAXED);
        if (sleep_state->pinned) {
            /* A device that is closing frees such memory itself. */
            (void)vr_device_free(device_handle(pool), (uintptr_t)sleep_state->host);
        } else {
            vr_mem_free(sleep_state->host);
        }
        sleep_state->host = NULL;
    }
}

/* ------------------------------------------------------------------ contents */

static vram_status take_host(const struct vr_sleep_change *change,
                             struct vr_sleep_state *sleep_state) {
    struct vr_pool *pool = change->pool;
    uint64_t bytes = sleep_state->to - sleep_state->from;
    assert(sleep_state->from < sleep_state->to && sleep_state->mapped);
    vram_addr addr = 0;
    vram_status status = VRAM_OK;
    sleep_state->pinned = change->contents == VRAM_SLEEP_PINNED;
    if (sleep_state->pinned) {
        status = vr_device_alloc(device_handle(pool), bytes, VRAM_MEMORY_PINNED, &addr);
        sleep_state->host = (void *)(uintptr_t)addr;
    } else {
        sleep_state->host = vr_mem_alloc(1, (size_t)bytes, vr_operation());
        status = sleep_state->host ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    }
    if (sleep_state->host) {
        vr_counter_add(&pool->counters.asleep_host_bytes, bytes);
    }
    return status;
}

/* Whether there is anything to copy out of a piece, or back into it. */
static bool has_copy(const struct vr_sleep_state *sleep_state, bool out) {
    return out ? sleep_state->from != sleep_state->to : sleep_state->host != NULL;
}

/* Submits the copy of one piece, out to the host or back in. */
static vram_status copy_submit(const struct vr_sleep_change *change, struct vr_queue_object *queue,
                               struct vr_sleep_state *sleep_state, bool out) {
    uint64_t bytes = sleep_state->to - sleep_state->from;
    vram_status status = out && !sleep_state->host ? take_host(change, sleep_state) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    return out ? vr_queue_download(&queue->base, sleep_state->host, sleep_state->from, bytes)
               : vr_queue_upload(&queue->base, sleep_state->from, sleep_state->host, bytes);
}

/* Submits each copy before it waits for the previous one. The context's wait limit applies to each
   copy. */
static vram_status copy_with(const struct vr_sleep_change *change, struct vr_queue_object *queue,
                             bool out) {
    uint64_t wait_ns = change->pool->device->context->wait_ns, value = 0;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < change->count && status == VRAM_OK; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        uint64_t before = value;
        if (!has_copy(sleep_state, out)) {
            continue;
        }
        status = copy_submit(change, queue, sleep_state, out);
        if (status == VRAM_OK && (status = vr_queue_mark(queue, &value)) == VRAM_OK && before) {
            status = vr_queue_wait_value(queue, before, wait_ns);
        }
    }
    return status == VRAM_OK && value ? vr_queue_wait_value(queue, value, wait_ns) : status;
}

static bool has_copies(const struct vr_sleep_change *change, bool out) {
    for (uint32_t i = 0; i < change->count; i++) {
        if (has_copy(change->sleep_states[i], out)) {
            return true;
        }
    }
    return false;
}

vram_status vr_sleep_change_copy(const struct vr_sleep_change *change, bool out, bool *safe) {
    vram_queue *handle;
    void *entered;
    *safe = true;
    vram_status status = has_copies(change, out)
                             ? vr_queue_make(device_handle(change->pool), NULL, &handle)
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
        status = copy_with(change, queue, out);
        vr_submit_end(queue);
    } else {
        status = vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    vr_queue_end(handle); /* waits */
    *safe = vr_load(&queue->finished, VR_ACQUIRE);
    vr_leave(queue);
    return status;
}
