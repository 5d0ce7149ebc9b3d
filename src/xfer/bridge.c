/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.c: copies from a device that may not be read, through host memory.
 *
 *       source's own queue        the caller's queue
 *                 |  after p0  <---- p0: all that was submitted before
 *      download 0 | -> block 0
 *                 p1 ---- after ---->|
 *      download 1 | -> block 1       | upload 0
 *                 |  after p2  <----- p2
 *      download 2 | -> block 0       | upload 1 ...
 *
 *  (1) Two blocks of page-locked memory take turns. Who fills one waits on the device until it was
 *      emptied, who empties it until it was filled; the host waits for nobody.
 *  (2) Every wait is for work that was submitted before, so the two queues cannot wait for each
 *      other.
 *  (3) The blocks are freed in the order of the caller's queue, which by then waits for the last
 *      download. A failure in the middle waits on the host until both queues are through, so that
 *      no block goes before.
 *  (4) The host's side of a copy takes part in that order only where a device reads and writes it
 *      itself. Where memory lies behind a driver's objects a backend may bring bytes to and from
 *      host memory when it is told of an end, a device cannot wait for one of another backend, and
 *      memory cannot always be locked: then one ordinary block serves and the host waits for each
 *      step.
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
    vram_queue *queue, *source;      /* the caller's, and the other device's own */
    struct vr_device_object *device; /* the caller's queue's */
    vram_pool *pool;                 /* NULL: as (4) has it */
    vram_addr blocks[2];
    vram_point emptied[2]; /* all zero: never filled */
};

static vram_status step_async(struct bridge *bridge, const struct vr_route *route, uint64_t done,
                              uint64_t bytes, int turn) {
    vram_addr block = bridge->blocks[turn];
    vram_point filled;
    vram_status status = vr_submit_after(bridge->source, bridge->emptied[turn]);
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
    return status == VRAM_OK ? vr_submit_mark(bridge->queue, &bridge->emptied[turn]) : status;
}

static vram_status run_async(struct bridge *bridge, const struct vr_route *route) {
    vram_point before;
    uint64_t piece = route->bytes < PIECE_BYTES ? route->bytes : PIECE_BYTES;
    int blocks = route->bytes > piece ? 2 : 1, got = 0, turn = 0;
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
        status = step_async(bridge, route, done, left < piece ? left : piece, turn);
        turn = (turn + 1) % blocks;
    }
    struct vram_error error;
    bool through = true;
    vr_error_save(&error);
    if (status !=
        VRAM_OK) { /* keeps (3); what never ends keeps its block, until the device is closed */
        through = vr_queue_drained(bridge->source);
        through = vr_queue_drained(bridge->queue) && through;
    }
    while (got && through) {
        vr_block_give(bridge->pool, bridge->blocks[--got], bridge->queue);
    }
    vr_error_restore(&error);
    return status;
}

/* One piece through the block. One queue at a time uses it: *user, NULL when that was seen to be
   through. */
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
    /* Work that was not seen to end may still use the block, which then stays until that device is
       closed. */
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
    if (vr_status_is_exhausted(status)) { /* no memory could be locked: keeps (4) */
        vr_error_restore(&kept);
        status = run_waiting(&bridge, route);
    }
    return status;
}
