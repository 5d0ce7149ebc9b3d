/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler_object.h: the objects behind a vram_scheduler and a vram_weights, and the files.
 *
 *   scheduler.c    from creation to end, counters
 *   decision.c     the rule: where a product runs, and the measurements that it uses
 *   operand.c      checks of a product
 *   product.c      a product and a batch of them, on the CPU or as tiles
 *   pipeline.c     tiles over several queues: memory, transfers, arithmetic
 *   weights.c      matrices that stay
 *   background.c   asynchronous products
 *   bounce.c       small operands and results through page-locked memory
 *   scratch.c      host memory that copies go through
 *   attached.c     how these objects are attached to their pool
 *   shortlist.c    searches that run completely on the device
 *
 *  (1) A scheduler is attached to its pool and ends with it; the pool's memory stays until the last
 *      product has left. Pool, device and queues are held by handle: a call on one that has ended
 *      is VRAM_ERR_STALE, which the product returns.
 *  (2) Weights are attached to the pool too, and hold their scheduler by handle.
 *  (3) `arithmetic`, `shortlist` and `pinned` are opened at first use and set once: a thread that
 *      loses the race closes its own.
 *  (4) No lock is held while a driver is called or a product computed.
 */
#ifndef VR_SCHEDULER_OBJECT_H
#define VR_SCHEDULER_OBJECT_H

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/object.h"
#include "compute/arithmetic.h"
#include "vram/compute.h"
#include "vram/extension.h"

struct vr_background;
struct vr_scratch;

/* Counters, named as in vram_scheduler_stats. */
struct vr_scheduler_counters {
    vr_atomic_u64 cpu_products, device_products, cpu_fallbacks, failures, tiles;
    vr_atomic_u64 uploads, uploaded_bytes, downloads, downloaded_bytes;
    vr_atomic_u64 hits, misses, shared_operands, shrinks, pending, weights, weight_bytes;
    vr_atomic_u64 last; /* place << 8 | reason */
};

struct vr_scheduler {
    struct vr_object object;
    vram_attachment *attachment; /* to the pool; (1) */
    vram_pool *pool;             /* handle; (1) */
    vram_context *own;           /* of pool and device, if it made them; NULL: the program did */
    vram_device *device;
    vram_queue *queues[VR_QUEUES_MAX];
    uint32_t queue_count;
    struct vram_device_info info;
    vram_place place;
    uint32_t flags;
    uint64_t threshold, device_bytes;
    uint32_t cpu_threads;
    bool bounces; /* small operands go through page-locked memory; bounce.c */
    struct vr_blas blas;
    char cpu_name[32]; /* of the library's own kernel */
    struct vr_scheduler_counters counters;
    vr_atomic_u64 copy_costs[2], copy_count; /* of ordinary copies and past the cache; bounce.c */
    vr_atomic_ptr arithmetic;                /* struct vr_arithmetic; NULL: not needed yet; (3) */
    vr_atomic_ptr shortlist;                 /* struct vr_shortlist_kernels; NULL: the same; (3) */
    vr_atomic_ptr pinned;                    /* struct vr_bounce_pool; NULL: the same; (3) */
    struct vr_mutex lock;                    /* guards the rest */
    struct vram_calibration rates;           /* size 0: not measured */
    struct vr_background *background;        /* NULL: no product was started yet */
    struct vr_scratch *kept;                 /* memory that work may still use; scratch.c */
    bool ended;
};

struct vr_weights {
    struct vr_object object;
    vram_attachment *attachment; /* to the pool; (2) */
    uint64_t scheduler;          /* handle; (2) */
    vram_pool *pool;
    vram_queue *queue; /* that it is freed on */
    uint64_t k, n, bytes;
    vram_precision precision;
    bool transposed;
    vram_addr addr; /* on the device; 0: in `host` */
    void *host;
};

/* A checked product: no number overflows. */
struct vr_product {
    uint64_t m, k, n;
    vram_precision precision;
    uint64_t each; /* bytes of an element of A and B */
    const void *a, *b;
    float *c;
    vram_addr a_addr, b_addr, c_addr; /* where the pointers are NULL */
    bool trans_a, trans_b;
    bool resident;              /* one of them is on the device */
    vram_place place;           /* as requested */
    vram_queue *queue;          /* NULL: the scheduler's */
    struct vr_weights *weights; /* pinned; NULL: none */
};

/* Checks a product and pins its weights. The caller calls vr_product_drop, after a failure too;
   operand.c. */
vram_status vr_product_take(struct vr_scheduler *scheduler, const vram_matmul *from,
                            struct vr_product *product);
/* The same without a check of where the operands are. */
vram_status vr_product_shape(struct vr_scheduler *scheduler, const vram_matmul *from,
                             struct vr_product *product);
void vr_product_drop(struct vr_product *product);
/* m * k * n, or UINT64_MAX on overflow. */
uint64_t vr_product_work(const struct vr_product *product);

/* Where it runs and why, and the size of its tiles; decision.c. */
vram_status vr_decide(struct vr_scheduler *scheduler, const struct vr_product *product,
                      struct vram_matmul_plan *plan);
/* Makes the tiles of a plan smaller; false: they cannot be smaller. */
bool vr_plan_shrink(const struct vr_product *product, struct vram_matmul_plan *plan);
/* The provider for the device, opened at first use; NULL in provider: none; decision.c. */
vram_status vr_scheduler_arithmetic(struct vr_scheduler *scheduler, struct vr_arithmetic **out);

/* Runs products, and returns their status with the error recorded; product.c. */
vram_status vr_products_run(struct vr_scheduler *scheduler, struct vr_product *products,
                            size_t count);

/* ------------------------------------------------------------------ tiles; pipeline.c */

/* A result that was not fetched yet. */
struct vr_pending_result {
    vram_addr block; /* 0: none */
    float *to;
    uint64_t rows, columns, stride; /* in host memory; stride in elements */
};

/* A part of a matrix in host memory. */
struct vr_part {
    uint64_t rows, row_bytes, stride_bytes;
};

struct vr_bounce;
struct vr_bounce_chunk;

struct vr_pipeline {
    struct vr_scheduler *scheduler;
    struct vr_arithmetic *arithmetic;
    vram_queue *only;     /* the program's queue; NULL: use the scheduler's */
    uint32_t queue_count; /* of those in use */
    uint32_t next;        /* slot that is used next */
    uint32_t used;        /* bit i: slot i has work */
    struct vr_pending_result pending[VR_QUEUES_MAX];
    /* B of the current products, as it is on the device. */
    vram_addr b_block; /* 0: none, or not the pipeline's */
    uint32_t b_slot;
    const void *b_of; /* host memory it was sent from */
    uint64_t b_first, b_columns, b_rows;
    bool b_trans;
    vram_precision b_precision;
    vram_point b_point; /* behind its upload */
    uint32_t b_seen;    /* bit i: slot i has waited for it */
    bool alone;         /* there is one tile: no other slot needs B */
    /* Small operands and results in flight; bounce.c. */
    bool pinned_asked;
    vram_pool *pinned;         /* the scheduler's; NULL: none */
    vram_status lost;          /* not VRAM_OK: why small results of earlier products were lost */
    struct vr_bounce *bounces; /* results in flight */
    struct vr_bounce_chunk *chunks; /* that contain them */
    uint64_t chunk_bytes;
};

/* Puts the operation in the record of a failure; attached.c. */
vram_status vr_in_operation(vram_status status);

/* Gives a new object its handle and attaches it to the pool: `ended` gets the handle. The caller
   gets a reference, too. On failure the object is freed, by `destroy`; attached.c. */
vram_status vr_publish_attached(vram_pool *pool, enum vr_kind kind, struct vr_object *object,
                                void (*destroy)(void *object), vram_pool_ended_fn *ended,
                                vram_device **device, vram_attachment **attachment);

/* The status of a call of a scheduler whose pool may have ended during it: then VRAM_ERR_INVALID
   becomes VRAM_ERR_STALE, since what the call did not find is not the caller's mistake;
   attached.c. */
vram_status vr_scheduler_stale(const struct vr_scheduler *scheduler, vram_status status);

/* Whether after a wait for a queue with this status work may still use memory. A lost device runs
   no work. */
static inline bool vr_wait_leaves_work(vram_status waited) {
    return waited != VRAM_OK && waited != VRAM_ERR_DEVICE_LOST;
}

/* Waits for the work of a queue that the scheduler's products have used, even if the queue is
   ending. */
vram_status vr_scheduler_wait(struct vr_scheduler *scheduler, vram_queue *queue);
void vr_pipeline_begin(struct vr_pipeline *pipeline, struct vr_scheduler *scheduler,
                       struct vr_arithmetic *arithmetic, vram_queue *only);
/* Submits all tiles of a product. */
vram_status vr_pipeline_add(struct vr_pipeline *pipeline, const struct vr_product *product,
                            const struct vram_matmul_plan *plan);
/* Fetches all results and frees all memory, whatever `status` is. Returns the first failure. */
vram_status vr_pipeline_end(struct vr_pipeline *pipeline, vram_status status);

/* For other work on the slots: memory in the order of a slot's queue, and a copy of host memory to
   it; 0 is no block. */
vram_status vr_pipeline_alloc(struct vr_pipeline *pipeline, uint32_t slot, uint64_t bytes,
                              vram_addr *block);
void vr_pipeline_free(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block);
vram_status vr_pipeline_send(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                             const void *from, uint64_t bytes);

static inline vram_queue *vr_pipeline_queue(const struct vr_pipeline *pipeline, uint32_t slot) {
    return pipeline->only ? pipeline->only : pipeline->scheduler->queues[slot];
}

/* Sends a small operand, or fetches a small result, without waiting. Not *taken: it is not small,
   or there is no page-locked memory; nothing was submitted. bounce.c */
vram_status vr_bounce_send(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                           const void *from, const struct vr_part *part, bool *taken);
vram_status vr_bounce_fetch(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block, void *to,
                            const struct vr_part *part, bool *taken);
/* Whether so much is in flight that the pipeline should wait for its slots. */
bool vr_bounces_are_many(const struct vr_pipeline *pipeline);
/* After a wait for all slots with the status `waited`: delivers results if that is VRAM_OK. */
void vr_bounces_deliver(struct vr_pipeline *pipeline, vram_status waited);
/* Whether bounce buffers help on a device with these capabilities: not if the host can access its
   memory, as its driver then makes no caller wait. Reads an option. */
bool vr_bounces_are_useful(uint64_t caps);
/* Frees the pool, when the scheduler ends. */
void vr_bounce_pool_end(struct vr_scheduler *scheduler);

/* ---------------------------------------------------------------- scratch.c */

/* Host memory for copies, zeroed; NULL with VRAM_ERR_HOST_MEMORY recorded. */
void *vr_scratch_alloc(uint64_t count, uint64_t bytes);
/* Frees it: at once if `waited`, the status of the wait for the queue behind its copies, is
   VRAM_OK, else when they are known to have ended. Queue NULL: any of the scheduler's own. Memory
   NULL is allowed. */
void vr_scratch_free(struct vr_scheduler *scheduler, void *memory, vram_queue *queue,
                     vram_status waited);
/* Takes over a block of the scheduler's pool that work of the queue (NULL: of any slot) may still
   use; freed like the memory above. Without host memory for the record it stays until the pool
   ends. 0 is allowed. */
void vr_scratch_keep_block(struct vr_scheduler *scheduler, vram_addr block, vram_queue *queue);
/* After the scheduler's queues have ended: frees what was kept, or leaves it to the device. */
void vr_scratch_end(struct vr_scheduler *scheduler);

/* ------------------------------------------------------------- background.c */

/* Ends the threads, and waits for their current products; products that have not begun get
   VRAM_ERR_SHUTDOWN. */
void vr_background_end(struct vr_scheduler *scheduler);
void vr_background_free(struct vr_scheduler *scheduler);

#endif
