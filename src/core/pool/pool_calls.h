/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_calls.h: pools as the tiers above and the files of this folder use them.
 */
#ifndef VR_POOL_CALLS_H
#define VR_POOL_CALLS_H

#include "core/object/request.h"

/* What the public calls of these names do, for the library's own code; pool.c, tagged.c,
   pool_create.c, pool_end.c, pool_info.c. */
vram_status vr_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr);
vram_status vr_alloc_with(vram_pool *pool, uint64_t size, vram_queue *queue,
                          const vram_alloc_options *options, vram_addr *addr);
vram_status vr_free(vram_pool *pool, vram_addr addr, vram_queue *queue);
vram_status vr_pin(vram_addr addr);
vram_status vr_unpin(vram_addr addr);

/* vr_alloc_with for a library object, which owns the block from here on: keeps block.h (7).
   tagged.c. */
vram_status vr_alloc_owned(vram_pool *pool, uint64_t size, vram_queue *queue,
                           const vram_alloc_options *options, vram_addr *addr);

/* One physical handle under an exported block. */
struct vr_exported_piece {
    uint64_t native; /* the driver's */
    vram_addr base;  /* where it is mapped */
    uint64_t bytes;
};

/* Keeps a live block and its physical memory where they are until vr_pool_unexport. The caller has
   a reference to the pool, and no lock; exported.c. */
vram_status vr_pool_export(struct vr_pool *pool, vram_addr addr, bool read_only);
void vr_pool_unexport(struct vr_pool *pool, vram_addr addr);
/* The handle at an address inside an exported block; false: there is none. */
bool vr_pool_exported_piece(struct vr_pool *pool, vram_addr addr, struct vr_exported_piece *found);
/* Another process has opened or closed an export of that many bytes. For reports. */
void vr_pool_reader_change(struct vr_pool *pool, uint64_t process, uint64_t bytes, bool opened);

vram_status vr_pool_create(vram_device *handle, const vram_pool_options *options, vram_pool **out);
vram_status vr_pool_destroy(vram_pool *handle);

/* vram_resize for the object that owns the block: the program's own call refuses such blocks. */
vram_status vr_pool_resize(vram_pool *pool, vram_addr addr, uint64_t new_size, vram_queue *queue);

/* Adds a reserve of addresses behind the block to the request, if the pool can have one. The sizes
   of block and reserve become whole granules; request.c. */
void vr_request_add_reserve(const struct vr_pool *pool, uint64_t reserve_bytes,
                            struct vr_request *request);

/* vram_free for objects of the library, in the order of their queue, which may be ending or gone:
   the block is reused once the queue has completed the work submitted so far, or has ended. May
   change the error record. No lock held; pool.c. */
vram_status vr_pool_free_after_queue(vram_pool *handle, vram_addr addr, vram_queue *queue);

/* Makes the end of the pool wait for the queue (NULL: none) as well: its work may use the pool's
   memory, and may have been submitted after the ending pool had waited for its queues. For an
   object that is about to drop its reference to the pool. No lock held; pool_end.c. */
void vr_pool_end_waits_for(struct vr_pool *pool, const vram_queue *queue);

/* Waits until all work of a queue that the caller has pinned is complete. No lock held;
   pool_end.c. */
vram_status vr_pool_settle_queue(struct vr_queue_object *queue, uint64_t deadline);

/* Supplies a block for the request from the central cache, the space or the driver, ready to be
   handed out (state CACHED), and up to *extra further ones of the same size in `more`; miss.c. */
vram_status vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block **block, struct vr_block **more, uint32_t *extra);

/* The same for a large block without options, which a thread with a cache requests, if the space
   can serve it at once and without memory of the host: the block, or NULL. *marks: the caller then
   marks the queue, by vr_pool_mark_batch. Under the lock. */
struct vr_block *vr_pool_supply_held(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes,
                                     bool *marks);
extern const struct vr_miss_ops vr_miss_ops; /* miss.c */

/* Frees tables that were replaced, once every thread has been seen outside its caches. */
void vr_pool_reap(struct vr_pool *pool);

/* With pooling off: releases freed memory that no work uses any more. Otherwise does nothing. Never
   fails; direct.c. No lock held. */
void vr_pool_flush(struct vr_pool *pool);

/* Adds a child to a pool that the caller has entered; VRAM_ERR_STALE: the pool is ending. Removes
   it, if it is listed, by the pool's handle: the pool may be gone; pool_end.c. */
vram_status vr_pool_child_add(struct vr_pool *pool, struct vr_pool_child *child);
void vr_pool_child_remove(uint64_t handle, struct vr_pool *pool, struct vr_pool_child *child);

/* Gives a new object its handle and lists it as a child of the pool; frees it if that fails. */
vram_status vr_pool_child_publish(struct vr_pool *pool, enum vr_kind kind, struct vr_object *object,
                                  void (*destroy)(void *object), struct vr_pool_child *child,
                                  uint64_t *handle);

/* vram_use; pool_info.c. */
vram_status vr_pool_use(vram_addr addr, vram_queue *queue);

/* Prepares a new pool for its end; pool_end.c. */
void vr_pool_end_init(struct vr_pool *pool);

/* Ends a published pool and waits for its work. Not OK: its memory is kept. */
vram_status vr_pool_end(struct vr_pool *pool);

/* The destructor, also of a half-built pool. */
void vr_pool_free(void *memory);

/* The kind of memory that a provider is known to serve: DEVICE, unless vram_provider_get made it;
   provider.c. */
vram_memory_kind vr_provider_kind(const struct vram_provider *provider);
/* VRAM_ERR_INVALID for one that vram_provider_get made for another device; NULL is allowed. */
vram_status vr_provider_check(const vram_device *device, const struct vram_provider *provider);

/* Refuses invalid options; gives a new pool its range and its spaces. If that fails, the destructor
   releases what the pool has; pool_create.c. */
vram_status vr_pool_check_options(const struct vram_pool_options *options);
vram_status vr_pool_build(struct vr_pool *pool, const struct vram_pool_options *options);

/* Which other memory than the pool's own. */
struct vr_other {
    uint32_t kinds;                     /* of vram_fallback: the first that is available */
    uint32_t flags;                     /* VR_REQUEST_CHOSEN, _MOVED, or 0 for a fallback */
    const struct vr_provided *provided; /* this, and none of the kinds; NULL: none */
};

/* Allocates such memory as a block of the pool. vram_free and the pool's end free it in stream
   order. Of `options` only tag, name and elements are used. The caller owns the block, as with
   vr_alloc_owned. VRAM_ERR_UNSUPPORTED: the device has none of the kinds; alloc_other.c. */
vram_status vr_pool_alloc_other(vram_pool *handle, uint64_t size, vram_queue *queue,
                                const struct vram_alloc_options *options,
                                const struct vr_other *other, vram_addr *addr);

/* VRAM_ERR_OVERFLOW: the size cannot be rounded up to that of a block; request.c. */
vram_status vr_fail_size(uint64_t size);

/* Reads the options of a request; request.c. */
vram_status vr_request_read(const struct vr_pool *pool, const vram_alloc_options *options,
                            struct vr_request *request);

/* Serves a request whose caller has entered pool and queue: the tag's quotas, memory, hand-out;
   pool.c. */
vram_status vr_pool_alloc_request(struct vr_pool *pool, struct vr_request *request,
                                  vram_addr *addr);

/* A block for vram_alloc by the shortest code path, for a thread whose cache has none; and a place
   for a block that this cache cannot keep, though the cache's queue alone used it. The thread is
   inside its caches. True: done, and the thread is outside. False: nothing has changed; the request
   path must serve it, or vr_pool_return; shortcut.c. */
bool vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes, vram_addr *addr);
bool vr_pool_free_shortcut(struct vr_cache *cache, struct vr_block *block, uint64_t bytes);

/* Makes a block live without a cache, and counts it in the pool. */
void vr_pool_hand_out(struct vr_pool *pool, const struct vr_request *request,
                      struct vr_block *block);

/* The slow path of vram_alloc and vram_alloc_with; pool.c. */
vram_status vr_pool_alloc_slow(vram_pool *handle, uint64_t size, vram_queue *queue,
                               const vram_alloc_options *options, vram_addr *addr);

#endif
