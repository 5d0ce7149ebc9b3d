/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.c: copies, through host memory, from a device that this one cannot read.
 *
 *       source's own queue        the caller's queue
 *                 |  after p0  <---- p0: all that was submitted before
 *      download 0 | -> block 0
 *                 p1 ---- after ---->|
 *      download 1 | -> block 1       | upload 0
 *                 |  after p2  <----- p2
 *      download 2 | -> block 0       | upload 1 ...
 *
 *  (1) Two blocks of page-locked memory alternate. The queue that fills a block waits on the device
 *      until the block is empty, the queue that empties it until it is full. The host never waits.
 *  (2) Every wait is for work that was submitted before, so the two queues cannot wait for each
 *      other.
 *  (3) The blocks are freed in the order of the caller's queue, which by then waits for the last
 *      download. A failure in the middle waits on the host until both queues are idle, so that no
 *      block is freed before.
 *  (4) This order holds only where the device itself reads and writes host memory. Where memory is
 *      behind driver objects, a backend may copy to and from host memory only when it is notified
 *      that work has ended. A device also cannot wait for one of another backend, and memory cannot
 *      always be page-locked. Then one ordinary block is used and the host waits for each step.
 */
#include "xfer/route.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/status.h"
#include "core/pool/pool_calls.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "xfer/flight.h"

#define PIECE_BYTES (UINT64_C(4) * VR_MIB)

enum { HEAD = 64 }; /* bytes before an ordinary block: see vr_device_free_later */

struct bridge {
    vram_queue *queue, *source;      /* the caller's, and the library's of the source device */
    struct vr_device_object *device; /* of the caller's queue */
    vram_pool *pool;                 /* NULL: case (4) */
    vram_addr blocks[2];
    vram_point emptied[2]; /* all zero: never filled */
};

static vram_status step_async(struct bridge *bridge, const struct vr_route *route, uint64_t done,
                              uint64_t bytes, int index) {
    vram_addr block = bridge->blocks[index];
    vram_point filled;
    vram_status status = vr_submit_after(bridge->source, bridge->emptied[index]);
    if (status == VRAM_OK) {
        status =
            vr_submit_download(bridge->source, (void *)(uintptr_t)block, route->from + done, bytes);
    }
    if (status == VRAM_OK) {
        status = vr_submit_mark(bridge->source, &filled);
    }
    if (status == VRAM_OK) {
        status = vr_submit_after(bridge->queue, filled);
    }
    if (status == VRAM_OK) {
        status = vr_submit_upload(bridge->queue, route->to + done, (const void *)(uintptr_t)block,
                                  bytes);
    }
    return status == VRAM_OK ? vr_submit_mark(bridge->queue, &bridge->emptied[index]) : status;
}

static vram_status run_async(struct bridge *bridge, const struct vr_route *route) {
    vram_point before;
    uint64_t piece = route->bytes < PIECE_BYTES ? route->bytes : PIECE_BYTES;
    int blocks = route->bytes > piece ? 2 : 1, got = 0, index = 0;
    vram_status status = VRAM_OK;
    while (got < blocks && status == VRAM_OK) {
        status = vr_alloc(bridge->pool, piece, bridge->queue, &bridge->blocks[got]);
        got += status == VRAM_OK;
    }
    if (status == VRAM_OK && (status = vr_submit_mark(bridge->queue, &before)) == VRAM_OK) {
        status = vr_submit_after(bridge->source, before);
    }
    for (uint64_t done = 0; done < route->bytes && status == VRAM_OK; done += piece) {
        uint64_t left = route->bytes - done;
        status = step_async(bridge, route, done, left < piece ? left : piece, index);
        index = (index + 1) % blocks;
    }
    struct vram_error error;
    bool through = true;
    vr_error_save(&error);
    if (status !=
        VRAM_OK) { /* keeps (3); work that never ends keeps its block until the device is closed */
        through = vr_queue_drained(bridge->source);
        through = vr_queue_drained(bridge->queue) && through;
    }
    while (got && through) {
        vr_block_give(bridge->pool, bridge->blocks[--got], bridge->queue);
    }
    vr_error_restore(&error);
    return status;
}

/* Copies one piece through the block. One queue at a time uses the block: *user, NULL when that
   queue is known to be idle. */
static vram_status step_waiting(struct bridge *bridge, const struct vr_route *route, char *block,
                                uint64_t done, uint64_t bytes, vram_queue **user) {
    *user = bridge->source;
    vram_status status = vr_submit_download(bridge->source, block, route->from + done, bytes);
    if (status == VRAM_OK) {
        status = vr_queue_wait(bridge->source, VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK) {
        *user = bridge->queue;
        status = vr_submit_upload(bridge->queue, route->to + done, block, bytes);
    }
    if (status == VRAM_OK) {
        status = vr_queue_wait(bridge->queue, VRAM_TIMEOUT_DEFAULT);
    }
    *user = status == VRAM_OK ? NULL : *user;
    return status;
}

/* Keeps (4). */
static vram_status run_waiting(struct bridge *bridge, const struct vr_route *route) {
    uint64_t piece = route->bytes < PIECE_BYTES ? route->bytes : PIECE_BYTES;
    char *memory = vr_mem_alloc(1, piece + HEAD, vr_operation());
    vram_queue *user = NULL;
    vram_status status =
        memory ? vr_queue_wait(bridge->queue, VRAM_TIMEOUT_DEFAULT) : VRAM_ERR_HOST_MEMORY;
    for (uint64_t done = 0; done < route->bytes && status == VRAM_OK; done += piece) {
        uint64_t left = route->bytes - done;
        status =
            step_waiting(bridge, route, memory + HEAD, done, left < piece ? left : piece, &user);
    }
    /* Work that is not known to have ended may still use the block, which then stays until that
       device is closed. */
    struct vram_error error;
    vr_error_save(&error);
    if (user && (status == VRAM_ERR_TIMEOUT || !vr_queue_drained(user))) {
        vr_device_free_later(user == bridge->source ? route->source : bridge->device, memory);
    } else {
        vr_mem_free(memory);
    }
    vr_error_restore(&error);
    return status;
}

vram_status vr_bridge_submit(struct vr_queue_object *queue, const struct vr_route *route) {
    VR_OPERATION("vram_transfer_copy");
    struct vram_error kept;
    struct bridge bridge = {.queue = (vram_queue *)(uintptr_t)queue->object.handle,
                            .device = queue->device,
                            .source = vr_flight_queue(route->source)};
    if (!bridge.source) {
        return vr_error_get()->status;
    }
    vr_error_save(&kept);
    uint32_t caps = queue->base.device->info.caps | route->source->base.info.caps;
    bool near =
        queue->base.device->backend == route->source->base.backend && !(caps & VRAM_CAP_HANDLES);
    bridge.pool = near ? vr_flight_pinned(queue->device) : NULL;
    if (!bridge.pool) {
        vr_error_restore(&kept);
        return run_waiting(&bridge, route);
    }
    vram_status status = run_async(&bridge, route);
    if (vr_status_is_exhausted(status)) { /* no memory could be page-locked: keeps (4) */
        vr_error_restore(&kept);
        status = run_waiting(&bridge, route);
    }
    return status;
}
