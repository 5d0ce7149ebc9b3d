/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/batch.h: buffers that are created together, lie together and are destroyed together.
 *
 *   vram_batch_item items[] = {
 *       {.size = sizeof items[0], .elements = 4096, .precision = VRAM_PRECISION_FP32,
 *        .host = weights, .host_bytes = sizeof weights},
 *       {.size = sizeof items[0], .elements = 512, .precision = VRAM_PRECISION_INT8},
 *   };
 *   vram_batch_create(pool, queue, NULL, &batch);
 *   vram_batch_add(batch, items, 2, &first);      both, or neither
 *   vram_batch_get(batch, first, &weights);
 *   vram_batch_destroy(batch);                    all of them
 *
 * The device memory of one vram_batch_add lies in one block of the pool, each item aligned to 512
 * bytes: it takes one allocation, and leaves one hole when it is freed. Items of other kinds, and
 * all items on a device whose kernels take whole blocks only (VRAM_CAP_HANDLES), have memory of
 * their own.
 *
 * Several threads may use a batch at once. A batch belongs to its pool, like a buffer, and ends
 * with it at the latest.
 */
#ifndef VRAM_BATCH_H
#define VRAM_BATCH_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_batch vram_batch;

typedef struct vram_batch_options {
    size_t size;     /* sizeof(vram_batch_options) */
    const char *tag; /* who its memory is for, as in vram_alloc_options; copied; NULL, "": no tag */
} vram_batch_options;

/**
 * Creates an empty batch. `queue` is the home queue of all buffers in it (vram_buffer_create);
 * without one (NULL) nothing can be uploaded.
 */
VRAM_API vram_status vram_batch_create(vram_pool *pool, vram_queue *queue,
                                       const vram_batch_options *options, vram_batch **batch);

/**
 * Destroys a batch and all its buffers, newest first, like vram_buffer_destroy: nothing waits.
 * Returns the first status that is not VRAM_OK; the other buffers are destroyed all the same. NULL
 * is allowed. A second call returns VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_batch_destroy(vram_batch *batch);

/** One buffer to create. */
typedef struct vram_batch_item {
    size_t size;              /* sizeof(vram_batch_item) */
    uint64_t elements;        /* may be 0 */
    vram_precision precision; /* what an element is */
    vram_buffer_kind kind;    /* where it lies */
    const char *name;         /* a label for reports; copied; NULL: "" */
    const void *host;         /* its first contents; NULL: they are undefined */
    uint64_t host_bytes;      /* of `host`: exactly those of the elements; 0 without `host` */
    uint32_t flags;           /* bits of vram_buffer_flag */
} vram_batch_item;

/**
 * Adds `count` buffers, all or none: after a failure the batch is unchanged, and nothing is left
 * behind. Their numbers are *first, *first + 1 and so on. `host` is uploaded on the batch's queue,
 * in the order of the items. It must not change until the queue has completed the upload
 * (vram_queue_upload), even after a failure.
 *
 * VRAM_ERR_INVALID if host_bytes are not those of the elements, for host bytes without a queue, for
 * 0 items and for what vram_buffer_create would refuse. VRAM_ERR_OVERFLOW if the bytes do not fit
 * in 64 bits. Exhaustion as for vram_alloc.
 */
VRAM_API vram_status vram_batch_add(vram_batch *batch, const vram_batch_item *items, uint32_t count,
                                    uint32_t *first);

/**
 * Moves a buffer of any pool of its context into the batch. VRAM_ERR_INVALID for a buffer of
 * another context, and if the batch has it already. It keeps its memory, and is destroyed with the
 * others.
 */
VRAM_API vram_status vram_batch_give(vram_batch *batch, vram_buffer *buffer, uint32_t *index);

/**
 * Buffer number `index`, borrowed. It may be used like any other: grown, moved, and destroyed
 * early. Its share of a common block stays with the batch. VRAM_ERR_INVALID past the end.
 */
VRAM_API vram_status vram_batch_get(vram_batch *batch, uint32_t index, vram_buffer **buffer);

/** What a batch has at this moment. */
typedef struct vram_batch_info {
    size_t size;           /* in: sizeof(vram_batch_info) of the caller */
    vram_pool *pool;       /* borrowed */
    vram_queue *queue;     /* borrowed; NULL: none */
    uint32_t count;        /* buffers, including those that were destroyed early */
    uint32_t blocks;       /* that several of them share */
    uint64_t shared_bytes; /* of these blocks, before rounding */
} vram_batch_info;

VRAM_API vram_status vram_batch_info_get(vram_batch *batch, vram_batch_info *info);

#ifdef __cplusplus
}
#endif

#endif
