/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parcel.c: small operands and results through page-locked memory.
 *
 * A driver holds its caller up for a copy of ordinary memory, and such a wait costs more than the copy when the copy
 * is small. So a small operand is copied into a parcel, which the device reads in its own time, and a small
 * result arrives in one: nothing waits before the end of the pipeline.
 *
 *     sack, a block of the scheduler's page-locked pool
 *     | head | B ......... | A ....... | parcel, C ......... |        |
 *
 *  (1) Parcels lie in sacks in the order in which they are made: the same product finds each operand's place where it
 *      was the last time, and perhaps still in the processor's cache. The scheduler is attached to the pool: it may
 *      end meanwhile with its device, but not its memory.
 *  (2) A sack is in use until all lanes were waited for. Then results are brought to where they belong, and its memory
 *      goes back. If the wait failed it stays for ever, or until the device ends: work may go on.
 *  (3) When much is under way the lanes are waited for in between: PARCELS_MOST. Whoever does not wait then has no
 *      more of them.
 *  (4) Without page-locked memory, or none to be had at present, nothing is taken, and the caller has other ways.
 */
#include "compute/scheduler_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "compute/setting.h"

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

/* ---------------------------------------------------------------- the pool */

struct vr_parcel_pool {
    vram_pool *pool;
    vram_attachment *attachment;
};

static void parcel_pool_close(struct vr_parcel_pool *pinned) {
    (void)vram_pool_destroy(pinned->pool);
    (void)vram_attachment_end(pinned->attachment);
    vr_mem_free(pinned);
}

static struct vr_parcel_pool *parcel_pool_open(const struct vr_scheduler *scheduler) {
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    struct vr_parcel_pool *pinned = vr_mem_alloc(1, sizeof *pinned, "vram_matmul_run");
    if (pinned &&
        (vram_pool_create(scheduler->device, &options, &pinned->pool) != VRAM_OK ||
         vram_pool_attach(pinned->pool, NULL, NULL, NULL, &pinned->attachment) != VRAM_OK)) {
        parcel_pool_close(pinned);
        pinned = NULL;
    }
    return pinned;
}

void vr_parcel_pool_end(struct vr_scheduler *scheduler) {
    struct vr_parcel_pool *pinned = vr_load(&scheduler->pinned, VR_ACQUIRE);
    if (pinned) {
        parcel_pool_close(pinned);
        vr_store(&scheduler->pinned, NULL, VR_RELAXED);
    }
}

bool vr_parcels_are_useful(uint64_t caps) {
    return caps & VRAM_CAP_PINNED && !(caps & VRAM_CAP_HOST_ACCESS) &&
           vr_setting_number("staging_slots") > 0;
}

/* The scheduler's, made by whoever needs it first; NULL: none is to be had. */
static vram_pool *parcel_pool(struct vr_scheduler *scheduler) {
    void *present = vr_load(&scheduler->pinned, VR_ACQUIRE);
    if (!present) {
        struct vr_parcel_pool *made = parcel_pool_open(scheduler);
        if (!made) {
            return NULL;
        }
        if (vr_cas(&scheduler->pinned, &present, made, VR_ACQ_REL)) {
            present = made;
        } else { /* another thread was first */
            parcel_pool_close(made);
        }
    }
    return ((struct vr_parcel_pool *)present)->pool;
}

/* NULL: none, keeps (4). */
static vram_pool *pinned_pool(struct vr_pipeline *pipeline) {
    struct vram_error error;
    if (!pipeline->pinned_asked) {
        pipeline->pinned_asked = true;
        vr_error_save(&error);
        if (pipeline->scheduler->parcels) {
            pipeline->pinned = parcel_pool(pipeline->scheduler);
        }
        vr_error_restore(&error);
    }
    return pipeline->pinned;
}

/* Whether it goes this way: small, and not page-locked where it lies. */
static bool is_small(const void *host, const struct vr_part *part) {
    return part->rows * part->row_bytes <= PARCEL_MOST && !vram_memory_is_known(host);
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
    struct vr_sack *sack = vr_wait_leaves_work(waited) ? NULL : pipeline->sacks, *next;
    for (; parcel; parcel = parcel->next) {
        move_rows((char *)parcel + HEAD, parcel->to, &parcel->part, false);
    }
    for (; sack; sack = next) {
        next = sack->next;
        vr_block_let_go(pipeline->pinned, (vram_addr)(uintptr_t)sack,
                        vr_pipeline_queue(pipeline, sack->lane));
    }
    pipeline->parcels = NULL;
    pipeline->sacks = NULL;
    pipeline->sack_bytes = 0;
}
