/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/batch.h: buffers that come together, lie together and go together.
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
 * What one vram_batch_add asks for of the device's memory lies side by side in one block of the pool, each
 * item aligned to 512 bytes: it takes one allocation, and leaves one hole when it goes. Items of other
 * kinds, and all items on a device whose kernels take whole blocks only (VRAM_CAP_HANDLES),
 * have memory of their own.
 *
 * Batches may be used by several threads at once. A batch is its pool's, like a buffer, and ends with it at
 * the latest.
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
    const char *tag; /* who its memory is for, as in vram_alloc_options; copied; NULL, "": nobody */
} vram_batch_options;

/**
 * An empty batch. `queue` is the home of all that is added to it (vram_buffer_create); without one (NULL)
 * nothing can be uploaded.
 */
VRAM_API vram_status vram_batch_create(vram_pool *pool, vram_queue *queue,
                                       const vram_batch_options *options, vram_batch **batch);

/**
 * Destroys it with all its buffers, newest first, as vram_buffer_destroy does: nothing waits. The first
 * answer that is not VRAM_OK is told, and the rest goes all the same. NULL is allowed; a second call is
 * VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_batch_destroy(vram_batch *batch);

/** One buffer that is asked for. */
typedef struct vram_batch_item {
    size_t size;              /* sizeof(vram_batch_item) */
    uint64_t elements;        /* may be 0 */
    vram_precision precision; /* what an element is */
    vram_buffer_kind kind;    /* where it is to lie */
    const char *name;         /* a label for reports; copied; NULL: "" */
    const void *host;         /* what it is to begin with; NULL: contents are undefined */
    uint64_t host_bytes;      /* of `host`: exactly those of the elements; 0 without it */
    uint32_t flags;           /* of vram_buffer_flag */
} vram_batch_item;

/**
 * Adds `count` buffers, all or none: after a failure the batch is as it was, and nothing is left behind.
 * They have the numbers *first, *first + 1 and so on. What is given in `host` is uploaded on the batch's
 * queue, in the order of the items; it must stay as it is until the queue has come that far
 * (vram_queue_upload), after a failure too.
 *
 * VRAM_ERR_INVALID when host_bytes are not those of the elements, for host bytes without a queue, for 0
 * items and for what vram_buffer_create would refuse; VRAM_ERR_OVERFLOW when their bytes do not fit into 64
 * bits; exhaustion as vram_alloc has it.
 */
VRAM_API vram_status vram_batch_add(vram_batch *batch, const vram_batch_item *items, uint32_t count,
                                    uint32_t *first);

/**
 * Moves a buffer into the batch, of any pool of its context (VRAM_ERR_INVALID: of another context, or the
 * batch has it already). It keeps its memory, and goes with the others.
 */
VRAM_API vram_status vram_batch_give(vram_batch *batch, vram_buffer *buffer, uint32_t *index);

/**
 * Buffer number `index`, borrowed. It may be used like any other, also grown and moved, and destroyed early;
 * its share of a common block stays with the batch. VRAM_ERR_INVALID past the end.
 */
VRAM_API vram_status vram_batch_get(vram_batch *batch, uint32_t index, vram_buffer **buffer);

/** What a batch has at this moment. */
typedef struct vram_batch_info {
    size_t size;           /* in: sizeof(vram_batch_info) of the caller */
    vram_pool *pool;       /* borrowed */
    vram_queue *queue;     /* borrowed; NULL: none */
    uint32_t count;        /* buffers, those that were destroyed early too */
    uint32_t blocks;       /* that several of them share */
    uint64_t shared_bytes; /* of these blocks, as asked for */
} vram_batch_info;

VRAM_API vram_status vram_batch_info_get(vram_batch *batch, vram_batch_info *info);

#ifdef __cplusplus
}
#endif

#endif
