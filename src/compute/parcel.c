/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parcel.c: small operands and results through page-locked memory.
 *
 * A driver holds its caller up for a copy of ordinary memory, and such a wait costs more than the copy when the copy
 * is small. So a small operand is copied into a parcel, which the device reads in its own time, and a small
 * result arrives in one: nothing waits before the end of the pipeline.
 *
 *  (1) A parcel is a block of the device's page-locked pool, its head in front of what it carries. The pool is
 *      pinned: it may end meanwhile, but not its memory.
 *  (2) It is in use until all lanes were waited for. Then its result is brought to where it belongs, and its memory
 *      goes back. If the wait took too long it stays for ever, or until the device ends.
 *  (3) When much is under way the lanes are waited for in between: PARCELS_MOST. Whoever does not wait then has no
 *      more of them.
 *  (4) Without page-locked memory, or none to be had at present, nothing is taken, and the caller has other ways.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "device/address.h"
#include "xfer/flight.h"
#include "xfer/staging.h"

#include <string.h>

enum { HEAD = 64 }; /* bytes */

#define PARCEL_MOST  (UINT64_C(512) << 10) /* bytes: larger ones are worth several threads */
#define PARCELS_MOST (UINT64_C(16) << 20)

struct vr_parcel {
    struct vr_parcel *next;
    uint64_t bytes; /* with the head */
    uint32_t lane;
    char *to; /* where the result belongs; NULL: it carries an operand */
    struct vr_part part;
};

_Static_assert(sizeof(struct vr_parcel) <= HEAD, "the head of a parcel has room");

/* The device's page-locked pool; NULL: none, keeps (4). */
static vram_pool *pinned_pool(struct vr_pipeline *pipeline) {
    struct vram_error error;
    if (!pipeline->pinned_asked) {
        pipeline->pinned_asked = true;
        struct vr_device_object *device =
            vr_handle_pin(VR_KIND_DEVICE, pipeline->scheduler->device);
        if (device) {
            vr_error_save(&error);
            if (vr_staging_is_useful(device)) {
                pipeline->pinned = vr_flight_pinned(device, "vram_matmul_run");
                pipeline->pinned_object = vr_handle_pin(VR_KIND_POOL, pipeline->pinned);
                pipeline->pinned = pipeline->pinned_object ? pipeline->pinned : NULL;
            }
            vr_error_restore(&error);
            vr_leave(device);
        }
    }
    return pipeline->pinned;
}

static struct vr_parcel *take(struct vr_pipeline *pipeline, uint32_t lane, const void *host,
                              const struct vr_part *part) {
    uint64_t bytes = part->rows * part->row_bytes + HEAD;
    struct vram_error error;
    struct vr_place place;
    vram_addr memory;
    if (bytes > PARCEL_MOST || pipeline->parcel_bytes > 2 * PARCELS_MOST ||
        !pinned_pool(pipeline) ||
        vr_address_find((vram_addr)(uintptr_t)host, &place)) { /* page-locked where it lies */
        return NULL;
    }
    vr_error_save(&error);
    if (vram_alloc(pipeline->pinned, bytes, vr_pipeline_queue(pipeline, lane), &memory) !=
        VRAM_OK) {
        vr_error_restore(&error);
        return NULL;
    }
    struct vr_parcel *parcel = (struct vr_parcel *)(uintptr_t)memory;
    *parcel =
        (struct vr_parcel){.next = pipeline->parcels, .bytes = bytes, .lane = lane, .part = *part};
    pipeline->parcels = parcel;
    pipeline->parcel_bytes += bytes;
    pipeline->used |= 1u << lane;
    return parcel;
}

/* Rows that lie one behind the other in `packed`, to or from where they lie apart. */
static void move_rows(char *packed, char *apart, const struct vr_part *part, bool pack) {
    if (part->stride_bytes == part->row_bytes) {
        uint64_t bytes = part->rows * part->row_bytes;
        memcpy(pack ? packed : apart, pack ? apart : packed, bytes);
        return;
    }
    for (uint64_t i = 0; i < part->rows; i++) {
        char *row = packed + i * part->row_bytes, *there = apart + i * part->stride_bytes;
        memcpy(pack ? row : there, pack ? there : row, part->row_bytes);
    }
}

vram_status vr_parcel_send(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block,
                           const void *from, const struct vr_part *part, bool *taken) {
    struct vr_parcel *parcel = take(pipeline, lane, from, part);
    *taken = parcel != NULL;
    if (!parcel) {
        return VRAM_OK;
    }
    char *packed = (char *)parcel + HEAD;
    move_rows(packed, (char *)(uintptr_t)from, part, true);
    return vram_queue_upload(vr_pipeline_queue(pipeline, lane), block, packed,
                             part->rows * part->row_bytes);
}

vram_status vr_parcel_fetch(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block, void *to,
                            const struct vr_part *part, bool *taken) {
    struct vr_parcel *parcel = take(pipeline, lane, to, part);
    *taken = parcel != NULL;
    if (!parcel) {
        return VRAM_OK;
    }
    vram_status status =
        vram_queue_download(vr_pipeline_queue(pipeline, lane), (char *)parcel + HEAD, block,
                            part->rows * part->row_bytes);
    parcel->to = status == VRAM_OK ? to : NULL;
    return status;
}

bool vr_parcels_are_many(const struct vr_pipeline *pipeline) {
    return pipeline->parcel_bytes > PARCELS_MOST;
}

/* Keeps (2). */
void vr_parcels_deliver(struct vr_pipeline *pipeline, vram_status waited) {
    struct vr_parcel *parcel = pipeline->parcels, *next;
    struct vram_error error;
    bool in_use = vr_work_goes_on(waited);
    pipeline->parcels = NULL;
    pipeline->parcel_bytes = 0;
    vr_error_save(&error);
    for (; parcel && !in_use; parcel = next) {
        next = parcel->next;
        if (waited == VRAM_OK && parcel->to) {
            move_rows((char *)parcel + HEAD, parcel->to, &parcel->part, false);
        }
        (void)vram_free(pipeline->pinned, (vram_addr)(uintptr_t)parcel,
                        vr_pipeline_queue(pipeline, parcel->lane));
    }
    vr_error_restore(&error);
}

void vr_parcels_end(struct vr_pipeline *pipeline) {
    if (pipeline->pinned_object) {
        vr_leave(pipeline->pinned_object);
        pipeline->pinned_object = NULL;
    }
}
