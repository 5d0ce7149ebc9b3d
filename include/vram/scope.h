/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/scope.h: memory that is freed when a part of the program ends, however it ends.
 *
 *   vram_scope_begin(pool, NULL, &scope);
 *   vram_scope_alloc(scope, bytes, queue, &a);
 *   vram_scope_alloc(scope, bytes, queue, &b);
 *   if (work(a, b) == VRAM_OK) {
 *       vram_scope_take(scope, b);              b outlives the scope, and is freed by its new owner
 *   }
 *   vram_scope_end(scope);                      frees a, and b too if the work has failed
 *
 * A scope owns blocks of its pool, buffers and further scopes. Its end frees them in the reverse
 * order in which it got them. Blocks are freed in stream order, on the queue that each was
 * allocated on: the end waits for no device, and work that was submitted before it may still use
 * them. For work on other queues call vram_use, as always.
 *
 * What a scope owns only the scope frees: at its end, or earlier with vram_scope_free. vram_free
 * returns VRAM_ERR_INVALID for it and changes nothing. A buffer may be destroyed by itself, or be
 * in two scopes: whoever comes first destroys it.
 *
 * Several threads may use a scope at once. A scope belongs to its pool, like a buffer: it ends with
 * the pool, the device or the context at the latest.
 */
#ifndef VRAM_SCOPE_H
#define VRAM_SCOPE_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_scope vram_scope;

/**
 * Begins a scope for memory of `pool`. With a `parent` (NULL: none) the parent owns it, and it ends
 * with the parent at the latest. The parent's pool may be another one of the same context
 * (VRAM_ERR_INVALID: of another context).
 */
VRAM_API vram_status vram_scope_begin(vram_pool *pool, vram_scope *parent, vram_scope **scope);

/**
 * Ends the scope and frees all that it owns, newest first. NULL is allowed. VRAM_ERR_STALE if the
 * scope has ended already, whoever ended it. Otherwise it has ended whatever the status: a status
 * that is not VRAM_OK is the first one of a free, and the other frees were made all the same.
 * Memory of a queue that was destroyed with unfinished work is reused once that work has completed.
 */
VRAM_API vram_status vram_scope_end(vram_scope *scope);

/** vram_alloc from the scope's pool; the scope owns the block. */
VRAM_API vram_status vram_scope_alloc(vram_scope *scope, uint64_t size, vram_queue *queue,
                                      vram_addr *addr);

/** The same with the options of vram_alloc_with. */
VRAM_API vram_status vram_scope_alloc_with(vram_scope *scope, uint64_t size, vram_queue *queue,
                                           const vram_alloc_options *options, vram_addr *addr);

/**
 * Frees a block of the scope early, on a queue of the caller's choice. VRAM_ERR_INVALID if the
 * scope does not own it. The search starts at the newest: its time grows with the number of things
 * that came later.
 */
VRAM_API vram_status vram_scope_free(vram_scope *scope, vram_addr addr, vram_queue *queue);

/** Moves a block out of the scope: the caller owns it from now on, and calls vram_free. */
VRAM_API vram_status vram_scope_take(vram_scope *scope, vram_addr addr);

/**
 * Moves a live block of the scope's pool into the scope, which frees it on `queue` at its end.
 * VRAM_ERR_INVALID for a block that a scope, a batch or a buffer owns already.
 */
VRAM_API vram_status vram_scope_give(vram_scope *scope, vram_addr addr, vram_queue *queue);

/** vram_buffer_create from the scope's pool; the scope owns the buffer. */
VRAM_API vram_status vram_scope_buffer_create(vram_scope *scope, uint64_t bytes, vram_queue *queue,
                                              const vram_buffer_options *options,
                                              vram_buffer **buffer);

/** Moves a buffer out of the scope. VRAM_ERR_INVALID if the scope does not own it. */
VRAM_API vram_status vram_scope_buffer_take(vram_scope *scope, vram_buffer *buffer);

/**
 * Moves a buffer of any pool of its context into the scope. VRAM_ERR_INVALID for a buffer of
 * another context, and if the scope owns it already.
 */
VRAM_API vram_status vram_scope_buffer_give(vram_scope *scope, vram_buffer *buffer);

/** What a scope owns at this moment. */
typedef struct vram_scope_info {
    size_t size;        /* in: sizeof(vram_scope_info) of the caller */
    vram_pool *pool;    /* that it allocates from; borrowed */
    vram_scope *parent; /* NULL: none */
    uint64_t blocks;    /* its own */
    uint64_t bytes;     /* of these, before rounding */
    uint64_t buffers;   /* its own; those that were destroyed early count until its end */
    uint64_t scopes;    /* begun in it and not yet ended */
} vram_scope_info;

VRAM_API vram_status vram_scope_info_get(vram_scope *scope, vram_scope_info *info);

#ifdef __cplusplus
}
#endif

#endif
