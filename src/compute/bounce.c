/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounce.c: small operands and results through page-locked memory.
 *
 * A driver makes its caller wait for a copy of ordinary memory, and for a small copy that wait
 * costs more than the copy. So a small operand is copied into a bounce buffer, from which the
 * device reads it asynchronously, and a small result arrives in one. Nothing waits before the end
 * of the pipeline.
 *
 *     chunk, a block of the scheduler's page-locked pool
 *     | head | B ......... | A ....... | bounce buffer, C ......... |        |
 *
 *  (1) Bounce buffers lie in chunks in the order of their allocation: the same product finds each
 *      operand's buffer at the same address as the last time, perhaps still in the processor's
 *      cache. The scheduler is attached to the pool: the pool may end meanwhile with its device,
 *      but not its memory.
 *  (2) A chunk is in use until all queues were waited for. Then the results are copied to their
 *      destinations, and the chunk is freed. If the wait failed, work may go on: the chunk stays
 *      until the device ends.
 *  (3) When BOUNCES_MOST bytes are in flight, the pipeline waits for the queues. Without that wait
 *      no more chunks are allocated past twice as much.
 *  (4) Without page-locked memory, or when it has run out, nothing is taken, and the caller copies
 *      another way.
 */
#include "compute/scheduler_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "compute/setting.h"

#include <string.h>

enum { HEAD = 64 }; /* bytes of the head of a chunk and of a result; all sizes are multiples */

#define CHUNK_BYTES  (UINT64_C(1) << 20)
#define BOUNCE_MOST  (UINT64_C(512) << 10) /* larger ones are worth several threads */
#define BOUNCES_MOST (UINT64_C(16) << 20)

struct vr_bounce_chunk {
    struct vr_bounce_chunk *next;
    uint64_t used; /* bytes */
    uint32_t slot; /* the queue that it was allocated for */
};

/* The head of a result. */
struct vr_bounce {
    struct vr_bounce *next;
    char *to; /* destination */
    struct vr_part part;
};

_Static_assert(sizeof(struct vr_bounce) <= HEAD && sizeof(struct vr_bounce_chunk) <= HEAD,
               "heads have room");

/* ---------------------------------------------------------------- the pool */

struct vr_bounce_pool {
    vram_pool *pool;
    vram_attachment *attachment;
};

static void bounce_pool_close(struct vr_bounce_pool *pinned) {
    (void)vram_pool_destroy(pinned->pool);
    (void)vram_attachment_end(pinned->attachment);
    vr_mem_free(pinned);
}

static struct vr_bounce_pool *bounce_pool_open(const struct vr_scheduler *scheduler) {
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    struct vr_bounce_pool *pinned = vr_mem_alloc(1, sizeof *pinned, "vram_matmul_run");
    if (pinned &&
        (vram_pool_create(scheduler->device, &options, &pinned->pool) != VRAM_OK ||
         vram_pool_attach(pinned->pool, NULL, NULL, NULL, &pinned->attachment) != VRAM_OK)) {
        bounce_pool_close(pinned);
        pinned = NULL;
    }
    return pinned;
}

void vr_bounce_pool_end(struct vr_scheduler *scheduler) {
    struct vr_bounce_pool *pinned = vr_load(&scheduler->pinned, VR_ACQUIRE);
    if (pinned) {
        bounce_pool_close(pinned);
        vr_store(&scheduler->pinned, NULL, VR_RELAXED);
    }
}

bool vr_bounces_are_useful(uint64_t caps) {
    return caps & VRAM_CAP_PINNED && !(caps & VRAM_CAP_HOST_ACCESS) &&
           vr_setting_number("staging_slots") > 0;
}

/* The scheduler's pool, created at first use; NULL: not available. */
static vram_pool *bounce_pool(struct vr_scheduler *scheduler) {
    void *present = vr_load(&scheduler->pinned, VR_ACQUIRE);
    if (!present) {
        struct vr_bounce_pool *made = bounce_pool_open(scheduler);
        if (!made) {
            return NULL;
        }
        if (vr_cas(&scheduler->pinned, &present, made, VR_ACQ_REL)) {
            present = made;
        } else { /* another thread was first */
            bounce_pool_close(made);
        }
    }
    return ((struct vr_bounce_pool *)present)->pool;
}

/* NULL: none, keeps (4). */
static vram_pool *pinned_pool(struct vr_pipeline *pipeline) {
    struct vram_error error;
    if (!pipeline->pinned_asked) {
        pipeline->pinned_asked = true;
        vr_error_save(&error);
        if (pipeline->scheduler->bounces) {
            pipeline->pinned = bounce_pool(pipeline->scheduler);
        }
        vr_error_restore(&error);
    }
    return pipeline->pinned;
}

/* Whether to use a bounce buffer: small, and not page-locked in place. */
static bool is_small(const void *host, const struct vr_part *part) {
    return part->rows * part->row_bytes <= BOUNCE_MOST && !vram_memory_is_known(host);
}

/* Allocates from the current chunk, or from a new one; NULL: keeps (3) and (4). */
static void *bounce_alloc(struct vr_pipeline *pipeline, uint32_t slot, uint64_t bytes) {
    struct vr_bounce_chunk *chunk = pipeline->chunks;
    uint64_t padded = (bytes + HEAD - 1) / HEAD * HEAD;
    struct vram_error error;
    vram_addr memory;
    if (!chunk || CHUNK_BYTES - chunk->used < padded) {
        if (pipeline->chunk_bytes > 2 * BOUNCES_MOST || !pinned_pool(pipeline)) {
            return NULL;
        }
        vr_error_save(&error);
        if (vram_alloc(pipeline->pinned, CHUNK_BYTES, vr_pipeline_queue(pipeline, slot), &memory) !=
            VRAM_OK) {
            vr_error_restore(&error);
            return NULL;
        }
        chunk = (struct vr_bounce_chunk *)(uintptr_t)memory;
        *chunk = (struct vr_bounce_chunk){pipeline->chunks, HEAD, slot};
        pipeline->chunks = chunk;
        pipeline->chunk_bytes += CHUNK_BYTES;
    }
    pipeline->used |= 1u << slot;
    chunk->used += padded;
    return (char *)chunk + chunk->used - padded;
}

/* ------------------------------------------------------------------- copies */

/*
 * An operand is copied by ordinary stores or past the cache. Which is faster depends on what the
 * bus leaves in the cache, by a factor of two to five either way, so it is measured. Of every EPOCH
 * copies the first TRIALS are made both ways, in runs, since each way finds the target as the copy
 * before left it. The fastest copy of each way counts.
 */
enum { EPOCH = 1024, TRIALS = 32, RUN = 4, WAYS = 2 };

#define MEASURED_LEAST (UINT64_C(64) << 10) /* bytes */

static void pack_measured(struct vr_scheduler *scheduler, void *to, const void *from,
                          uint64_t bytes) {
    vr_atomic_u64 *costs = scheduler->copy_costs; /* ns per MiB; 0: not known */
    uint64_t copy_number = vr_fetch_add(&scheduler->copy_count, 1, VR_RELAXED) % EPOCH;
    uint64_t plain = vr_load(&costs[0], VR_RELAXED), past = vr_load(&costs[1], VR_RELAXED);
    int way = copy_number < TRIALS ? (int)(copy_number / RUN % WAYS) : past && past < plain ? 1 : 0;
    if (copy_number == 0) {
        vr_store(&costs[0], 0, VR_RELAXED);
        vr_store(&costs[1], 0, VR_RELAXED);
    }
    uint64_t before = vr_clock_now();
    if (way) {
        vr_os_copy_nontemporal(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
    uint64_t cost = ((vr_clock_now() - before) << 20) / bytes + 1;
    uint64_t known = vr_load(&costs[way], VR_RELAXED);
    if (!known || cost < known) {
        vr_store(&costs[way], cost, VR_RELAXED);
    }
}

/* Copies rows between `packed`, where they are contiguous, and `apart`, where they are a stride
   apart. */
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

vram_status vr_bounce_send(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                           const void *from, const struct vr_part *part, bool *taken) {
    uint64_t bytes = part->rows * part->row_bytes;
    char *packed = is_small(from, part) ? bounce_alloc(pipeline, slot, bytes) : NULL;
    *taken = packed != NULL;
    if (!packed) {
        return VRAM_OK;
    }
    if (bytes >= MEASURED_LEAST && part->stride_bytes == part->row_bytes) {
        pack_measured(pipeline->scheduler, packed, from, bytes);
    } else {
        move_rows(packed, (char *)(uintptr_t)from, part, true);
    }
    return vram_queue_upload(vr_pipeline_queue(pipeline, slot), block, packed, bytes);
}

vram_status vr_bounce_fetch(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block, void *to,
                            const struct vr_part *part, bool *taken) {
    uint64_t bytes = part->rows * part->row_bytes;
    struct vr_bounce *bounce =
        is_small(to, part) ? bounce_alloc(pipeline, slot, HEAD + bytes) : NULL;
    *taken = bounce != NULL;
    if (!bounce) {
        return VRAM_OK;
    }
    vram_status status =
        vram_queue_download(vr_pipeline_queue(pipeline, slot), (char *)bounce + HEAD, block, bytes);
    if (status == VRAM_OK) {
        *bounce = (struct vr_bounce){pipeline->bounces, to, *part};
        pipeline->bounces = bounce;
    }
    return status;
}

bool vr_bounces_are_many(const struct vr_pipeline *pipeline) {
    return pipeline->chunk_bytes > BOUNCES_MOST;
}

/* Keeps (2). */
void vr_bounces_deliver(struct vr_pipeline *pipeline, vram_status waited) {
    struct vr_bounce *bounce = waited == VRAM_OK ? pipeline->bounces : NULL;
    struct vr_bounce_chunk *chunk = vr_wait_leaves_work(waited) ? NULL : pipeline->chunks, *next;
    for (; bounce; bounce = bounce->next) {
        move_rows((char *)bounce + HEAD, bounce->to, &bounce->part, false);
    }
    for (; chunk; chunk = next) {
        next = chunk->next;
        vr_block_free_after(pipeline->pinned, (vram_addr)(uintptr_t)chunk,
                            vr_pipeline_queue(pipeline, chunk->slot));
    }
    pipeline->bounces = NULL;
    pipeline->chunks = NULL;
    pipeline->chunk_bytes = 0;
}
