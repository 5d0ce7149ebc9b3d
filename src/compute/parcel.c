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
 *      goes back. If the wait took too long it stays for ever, or until the device ends.
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
 * An operand or a result is copied by ordinary stores, past the cache, or by ordinary stores of this thread and a copy
 * worker. Which is quickest depends on what the bus leaves in the cache and on how soon a worker is there, by a factor of
 * two to five either way, so it is measured, for operands and results each: of every EPOCH copies the first TRIALS
 * are made all ways, in runs, since each way finds the target as the one before left it.
 */
enum { PLAIN, PAST_CACHE, SHARED, WAYS };
enum { EPOCH = 1024, RUN = 4, TRIALS = 2 * WAYS * RUN };

#define MEASURED_LEAST (UINT64_C(64) << 10) /* bytes */

static void all_copied(struct vr_copy_job *job) {
    vr_store((vr_atomic_bool *)job->user, true, VR_RELEASE);
}

/* A half for this thread and one for whoever takes it first. False: there are no workers. */
static bool copy_shared(const struct vr_scheduler *scheduler, void *to, const void *from,
                        uint64_t bytes) {
    struct vr_staging *staging = NULL;
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, scheduler->device);
    struct vram_error error;
    vr_atomic_bool over = false;
    struct vr_copy_job job = {.to = to,
                              .from = from,
                              .bytes = bytes,
                              .piece = (bytes / 2 + HEAD - 1) / HEAD * HEAD,
                              .ended = all_copied,
                              .user = (void *)&over};
    if (!device) {
        return false;
    }
    vr_error_save(&error);
    bool shared = vr_staging_enter(device, "vram_matmul_run", &staging) == VRAM_OK &&
                  staging->workers.most > 0;
    if (shared) {
        vr_copy_add(&staging->workers, &job);
    }
    while (shared && !vr_load(&over, VR_ACQUIRE)) {
        if (!vr_copy_help(&staging->workers)) {
            vr_os_yield(); /* the other half is being copied */
        }
    }
    if (staging) {
        vr_staging_leave(staging);
    }
    vr_leave(device);
    vr_error_restore(&error);
    return shared;
}

static void copy_by(const struct vr_scheduler *scheduler, int way, void *to, const void *from,
                    uint64_t bytes) {
    if (way == PAST_CACHE) {
        vr_os_copy_past_cache(to, from, bytes);
    } else if (way != SHARED || !copy_shared(scheduler, to, from, bytes)) {
        memcpy(to, from, bytes);
    }
}

static int quickest(const struct vr_copy_ways *ways) {
    int best = PLAIN;
    for (int i = PLAIN + 1; i < WAYS; i++) {
        uint64_t cost = vr_load(&ways->costs[i], VR_RELAXED);
        best = cost && cost < vr_load(&ways->costs[best], VR_RELAXED) ? i : best;
    }
    return best;
}

/* The slower of the last two of a run is its cost, and the lower of two runs the way's: a worker that was there in time
   once is not there each time. */
static void note_cost(struct vr_copy_ways *ways, int way, uint64_t turn, uint64_t cost) {
    uint64_t before = vr_exchange(&ways->last, cost, VR_RELAXED);
    uint64_t known = vr_load(&ways->costs[way], VR_RELAXED);
    cost = before > cost ? before : cost;
    if (turn % RUN == RUN - 1 && (!known || cost < known)) {
        vr_store(&ways->costs[way], cost, VR_RELAXED);
    }
}

static void copy_measured(const struct vr_scheduler *scheduler, struct vr_copy_ways *ways, void *to,
                          const void *from, uint64_t bytes) {
    uint64_t turn = vr_fetch_add(&ways->turns, 1, VR_RELAXED) % EPOCH;
    if (turn >= TRIALS) {
        copy_by(scheduler, quickest(ways), to, from, bytes);
        return;
    }
    for (int i = 0; turn == 0 && i < WAYS; i++) {
        vr_store(&ways->costs[i], 0, VR_RELAXED);
    }
    int way = (int)(turn / RUN % WAYS);
    uint64_t before = vr_clock_now();
    copy_by(scheduler, way, to, from, bytes);
    note_cost(ways, way, turn, ((vr_clock_now() - before) << 20) / bytes + 1);
}

/* Rows that lie one behind the other in `packed`, to or from where they lie apart. */
static void move_rows(struct vr_scheduler *scheduler, char *packed, char *apart,
                      const struct vr_part *part, bool pack) {
    uint64_t bytes = part->rows * part->row_bytes;
    bool whole = part->stride_bytes == part->row_bytes;
    if (whole && bytes >= MEASURED_LEAST) {
        copy_measured(scheduler, pack ? &scheduler->packing : &scheduler->unpacking,
                      pack ? packed : apart, pack ? apart : packed, bytes);
    } else if (whole) {
        memcpy(pack ? packed : apart, pack ? apart : packed, bytes);
    }
    for (uint64_t i = 0; !whole && i < part->rows; i++) {
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
    move_rows(pipeline->scheduler, packed, (char *)(uintptr_t)from, part, true);
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
    struct vram_error error;
    for (; parcel; parcel = parcel->next) {
        move_rows(pipeline->scheduler, (char *)parcel + HEAD, parcel->to, &parcel->part, false);
    }
    vr_error_save(&error);
    for (; sack; sack = next) {
        next = sack->next;
        (void)vram_free(pipeline->pinned, (vram_addr)(uintptr_t)sack,
                        vr_pipeline_queue(pipeline, sack->lane));
    }
    vr_error_restore(&error);
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
