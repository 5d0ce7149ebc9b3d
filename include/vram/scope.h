/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/scope.h: memory that goes when a part of the program is done, whichever way it was left.
 *
 *   vram_scope_begin(pool, NULL, &scope);
 *   vram_scope_alloc(scope, bytes, queue, &a);
 *   vram_scope_alloc(scope, bytes, queue, &b);
 *   if (work(a, b) == VRAM_OK) {
 *       vram_scope_take(scope, b);              b outlives the scope, and is freed by its new owner
 *   }
 *   vram_scope_end(scope);                      a goes, and b too when the work has failed
 *
 * A scope has blocks of its pool, buffers and further scopes. Its end lets go of them in the reverse
 * order in which they came. Blocks are freed in the time of the queue that each was asked for on: the end
 * waits for no device, and work that was submitted before it may go on using them. Work on other queues
 * is told by vram_use, as ever.
 *
 * What a scope has is freed by the scope: by its end, or early by vram_scope_free. vram_free does not find it:
 * VRAM_ERR_INVALID, and nothing has changed. A buffer may be destroyed by itself, or lie in two scopes: who
 * comes first destroys it.
 *
 * Scopes may be used by several threads at once. A scope is its pool's, like a buffer: it ends with the pool
 * at the latest, and with the device and the context.
 */
#ifndef VRAM_SCOPE_H
#define VRAM_SCOPE_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_scope vram_scope;

/**
 * Begins a scope for memory of `pool`. With a `parent` (NULL: none) it is one of the things that the parent
 * has, and ends with it at the latest; the parent's pool may be another one of the same context
 * (VRAM_ERR_INVALID: of another context).
 */
VRAM_API vram_status vram_scope_begin(vram_pool *pool, vram_scope *parent, vram_scope **scope);

/**
 * Ends it with all it has, newest first. A scope that has ended is VRAM_ERR_STALE, whoever ended it. NULL
 * is allowed. Otherwise it has ended whatever the answer: what is not VRAM_OK is the first answer of a
 * free, and the others were made all the same. Memory of a queue that was destroyed with unfinished work
 * is used again when that work has ended.
 */
VRAM_API vram_status vram_scope_end(vram_scope *scope);

/** vram_alloc from the scope's pool; the scope has the block. */
VRAM_API vram_status vram_scope_alloc(vram_scope *scope, uint64_t size, vram_queue *queue,
                                      vram_addr *addr);

/** vram_alloc_with, the same. */
VRAM_API vram_status vram_scope_alloc_with(vram_scope *scope, uint64_t size, vram_queue *queue,
                                           const vram_alloc_options *options, vram_addr *addr);

/**
 * Frees a block of the scope early, on a queue of the caller's choice. VRAM_ERR_INVALID: the scope has no
 * such block. The newest are found first: the time grows with the number of things that came later.
 */
VRAM_API vram_status vram_scope_free(vram_scope *scope, vram_addr addr, vram_queue *queue);

/** Moves a block out of the scope: from now on it is the caller's, who calls vram_free. */
VRAM_API vram_status vram_scope_take(vram_scope *scope, vram_addr addr);

/**
 * Moves a live block of the scope's pool into the scope, which frees it on `queue` at its end. What a
 * scope, a batch or a buffer has already is VRAM_ERR_INVALID.
 */
VRAM_API vram_status vram_scope_give(vram_scope *scope, vram_addr addr, vram_queue *queue);

/** vram_buffer_create from the scope's pool; the scope has the buffer. */
VRAM_API vram_status vram_scope_buffer_create(vram_scope *scope, uint64_t bytes, vram_queue *queue,
                                              const vram_buffer_options *options,
                                              vram_buffer **buffer);

/** Moves a buffer out of the scope. VRAM_ERR_INVALID: the scope has no such buffer. */
VRAM_API vram_status vram_scope_buffer_take(vram_scope *scope, vram_buffer *buffer);

/**
 * Moves a buffer into the scope, of any pool of its context (VRAM_ERR_INVALID: of another context, or the
 * scope has it already).
 */
VRAM_API vram_status vram_scope_buffer_give(vram_scope *scope, vram_buffer *buffer);

/** What a scope has at this moment. */
typedef struct vram_scope_info {
    size_t size;        /* in: sizeof(vram_scope_info) of the caller */
    vram_pool *pool;    /* that it allocates from; borrowed */
    vram_scope *parent; /* NULL: none */
    uint64_t blocks;    /* its own */
    uint64_t bytes;     /* of these, as asked for */
    uint64_t buffers;   /* its own; those that were destroyed by themselves count until its end */
    uint64_t scopes;    /* begun in it and not ended */
} vram_scope_info;

VRAM_API vram_status vram_scope_info_get(vram_scope *scope, vram_scope_info *info);

#ifdef __cplusplus
}
#endif

#endif
