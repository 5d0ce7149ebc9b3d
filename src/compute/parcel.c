/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parcel.c: small operands and results through page-locked memory.
 *
 * A driver holds its caller up for a copy of ordinary memory, and such a wait costs more than the copy when the copy
 * is small. So a small operand is copied into a parcel, which the device reads in its own time, and a small
 * result arrives in one: nothing waits before the end of the pipeline.
 *
 *     sack, a block of the device's page-locked pool
 *     | head | B ......... | A ....... | parcel, C ......... |        |
 *
 *  (1) Parcels lie in sacks in the order in which they are made: the same product finds each operand's place where it
 *      was the last time, and perhaps still in the processor's cache. The pool is pinned: it may end meanwhile, but
 *      not its memory.
 *  (2) A sack is in use until all lanes were waited for. Then results are brought to where they belong, and its memory
 *      goes back. If the wait failed it stays for ever, or until the device ends: work may go on.
 *  (3) When much is under way the lanes are waited for in between: PARCELS_MOST. Whoever does not wait then has no
 *      more of them.
 *  (4) Without page-locked memory, or none to be had at present, nothing is taken, and the caller has other ways.
 */
#include "compute/scheduler_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "device/address.h"
#include "xfer/flight.h"
#include "xfer/staging.h"

#include <string.h>

enum { HEAD = 64 }; /* bytes: of a sack, of a parcel, and of what all of them are a multiple */

#define SACK_BYTES   (UINT64_C(1) << 20)
#define PARCEL_MOST  (UINT64_C(512) << 10) /* larger ones are worth several threads */
#define PARCELS_MOST (UINT64_C(16) << 20)

struct vr_sack {
    struct vr_sack *next;
    uint64_t used; /* bytes */
    uint32_t lane; /* whose queue it was allocated for */
};

/* The head of a result. */
struct vr_parcel {
    struct vr_parcel *next;
    char *to; /* where it belongs */
    struct vr_part part;
};

_Static_assert(sizeof(struct vr_parcel) <= HEAD && sizeof(struct vr_sack) <= HEAD,
               "heads have room");

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

/* Whether it goes this way: small, and not page-locked where it lies. */
static bool is_small(const void *host, const struct vr_part *part) {
    struct vr_place place;
    return part->rows * part->row_bytes <= PARCEL_MOST &&
           !vr_address_find((vram_addr)(uintptr_t)host, &place);
}

/* Room in the sack at hand, or in a new one; NULL: keeps (3) and (4). */
static void *take(struct vr_pipeline *pipeline, uint32_t lane, uint64_t bytes) {
    struct vr_sack *sack = pipeline->sacks;
    uint64_t room = (bytes + HEAD - 1) / HEAD * HEAD;
    struct vram_error error;
    vram_addr memory;
    if (!sack || SACK_BYTES - sack->used < room) {
        if (pipeline->sack_bytes > 2 * PARCELS_MOST || !pinned_pool(pipeline)) {
            return NULL;
        }
        vr_error_save(&error);
        if (vram_alloc(pipeline->pinned, SACK_BYTES, vr_pipeline_queue(pipeline, lane), &memory) !=
            VRAM_OK) {
            vr_error_restore(&error);
            return NULL;
        }
        sack = (struct vr_sack *)(uintptr_t)memory;
        *sack = (struct vr_sack){pipeline->sacks, HEAD, lane};
        pipeline->sacks = sack;
        pipeline->sack_bytes += SACK_BYTES;
    }
    pipeline->used |= 1u << lane;
    sack->used += room;
    return (char *)sack + sack->used - room;
}

/* ------------------------------------------------------------------- copies */

/*
 * An operand is copied by ordinary stores or past the cache. Which is quicker depends on what the bus leaves in the cache,
 * by a factor of two to five either way, so it is measured: of every EPOCH copies the first TRIALS are made
 * both ways, in runs, since each way finds the target as the one before left it. The quickest counts.
 */
enum { EPOCH = 1024, TRIALS = 32, RUN = 4, WAYS = 2 };

#define MEASURED_LEAST (UINT64_C(64) << 10) /* bytes */

static void pack_measured(struct vr_scheduler *scheduler, void *to, const void *from,
                          uint64_t bytes) {
    vr_atomic_u64 *costs = scheduler->copy_costs; /* ns a MiB; 0: not known */
    uint64_t turn = vr_fetch_add(&scheduler->copy_turns, 1, VR_RELAXED) % EPOCH;
    uint64_t plain = vr_load(&costs[0], VR_RELAXED), past = vr_load(&costs[1], VR_RELAXED);
    int way = turn < TRIALS ? (int)(turn / RUN % WAYS) : past && past < plain ? 1 : 0;
    if (turn == 0) {
        vr_store(&costs[0], 0, VR_RELAXED);
        vr_store(&costs[1], 0, VR_RELAXED);
    }
    uint64_t before = vr_clock_now();
    if (way) {
        vr_os_copy_past_cache(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
    uint64_t cost = ((vr_clock_now() - before) << 20) / bytes + 1;
    uint64_t known = vr_load(&costs[way], VR_RELAXED);
    if (!known || cost < known) {
        vr_store(&costs[way], cost, VR_RELAXED);
    }
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
    uint64_t bytes = part->rows * part->row_bytes;
    char *packed = is_small(from, part) ? take(pipeline, lane, bytes) : NULL;
    *taken = packed != NULL;
    if (!packed) {
        return VRAM_OK;
    }
    if (bytes >= MEASURED_LEAST && part->stride_bytes == part->row_bytes) {
        pack_measured(pipeline->scheduler, packed, from, bytes);
    } else {
        move_rows(packed, (char *)(uintptr_t)from, part, true);
    }
    return vram_queue_upload(vr_pipeline_queue(pipeline, lane), block, packed, bytes);
}

vram_status vr_parcel_fetch(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block, void *to,
                            const struct vr_part *part, bool *taken) {
    uint64_t bytes = part->rows * part->row_bytes;
    struct vr_parcel *parcel = is_small(to, part) ? take(pipeline, lane, HEAD + bytes) : NULL;
    *taken = parcel != NULL;
    if (!parcel) {
        return VRAM_OK;
    }
    vram_status status =
        vram_queue_download(vr_pipeline_queue(pipeline, lane), (char *)parcel + HEAD, block, bytes);
    if (status == VRAM_OK) {
        *parcel = (struct vr_parcel){pipeline->parcels, to, *part};
        pipeline->parcels = parcel;
    }
    return status;
}

bool vr_parcels_are_many(const struct vr_pipeline *pipeline) {
    return pipeline->sack_bytes > PARCELS_MOST;
}

/* Keeps (2). */
void vr_parcels_deliver(struct vr_pipeline *pipeline, vram_status waited) {
    struct vr_parcel *parcel = waited == VRAM_OK ? pipeline->parcels : NULL;
    struct vr_sack *sack = vr_work_goes_on(waited) ? NULL : pipeline->sacks, *next;
    for (; parcel; parcel = parcel->next) {
        move_rows((char *)parcel + HEAD, parcel->to, &parcel->part, false);
    }
    for (; sack; sack = next) {
        next = sack->next;
        vr_block_give(pipeline->pinned, (vram_addr)(uintptr_t)sack,
                      vr_pipeline_queue(pipeline, sack->lane));
    }
    pipeline->parcels = NULL;
    pipeline->sacks = NULL;
    pipeline->sack_bytes = 0;
}

void vr_parcels_end(struct vr_pipeline *pipeline) {
    if (pipeline->pinned_object) {
        vr_leave(pipeline->pinned_object);
        pipeline->pinned_object = NULL;
    }
}
