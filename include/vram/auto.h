/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/auto.h: objects that are destroyed at the end of the C block that declares them, for
 * compilers with the cleanup attribute (GCC and Clang; others do not have VRAM_AUTO). Not part of
 * vram/vram.h.
 *
 *   vram_status work(vram_pool *pool, vram_queue *queue) {
 *       VRAM_AUTO(vram_buffer) *input = NULL;
 *       VRAM_AUTO(vram_buffer) *output = NULL;
 *       VRAM_TRY(vram_buffer_create(pool, 4096, queue, NULL, &input));
 *       VRAM_TRY(vram_buffer_create(pool, 4096, queue, NULL, &output));   destroys input if it
 *                                                                         fails
 *       ...
 *       return VRAM_OK;                                                   destroys both
 *   }
 *
 * Always initialize with NULL (a block: with addr 0), for which nothing is done. An object that has
 * been destroyed already is skipped; VRAM_AUTO_TAKE moves out one that must stay. The status of the
 * destruction is lost: to see it, destroy the object explicitly. The calling thread's error record
 * is kept, so that the text of the failure that ended the block can still be read.
 *
 * Objects are destroyed in the reverse order of their declarations: a queue that was declared
 * before a buffer is destroyed after it.
 */
#ifndef VRAM_AUTO_H
#define VRAM_AUTO_H

#include <vram/batch.h>
#include <vram/feed.h>
#include <vram/named.h>
#include <vram/pinned.h>
#include <vram/readback.h>
#include <vram/ring.h>
#include <vram/scope.h>
#include <vram/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A block of a pool, with what vram_free needs. */
typedef struct vram_auto_block {
    vram_pool *pool;   /* that it is of */
    vram_addr addr;    /* 0: none */
    vram_queue *queue; /* it is freed in the order of this queue; NULL: no work uses it */
} vram_auto_block;

/** A borrowed frame of a readback, to be released. */
typedef struct vram_auto_frame {
    vram_readback *readback; /* that it is of */
    vram_frame frame;        /* its number 0: none */
} vram_auto_frame;

/** A block of a feed; released unless it was submitted or its number is 0. */
typedef struct vram_auto_feed_block {
    vram_feed *feed;       /* that it is of */
    vram_feed_block block; /* its number 0: none */
} vram_auto_feed_block;

/** Memory of the program that vram_pinned_begin has locked, with what vram_pinned_end needs. */
typedef struct vram_auto_pinned {
    vram_device *device; /* that it is locked for */
    void *memory;        /* NULL: nothing is */
    uint64_t bytes;      /* as in vram_pinned_begin */
} vram_auto_pinned;

#if defined(__GNUC__)

/**
 * VRAM_AUTO(vram_pool) *pool = NULL; for vram_context, vram_device, vram_queue, vram_kernel,
 * vram_pool, vram_buffer, vram_scope, vram_batch, vram_named, vram_stream_set, vram_readback,
 * vram_feed and vram_ring, with vram/compute.h for vram_scheduler, vram_weights and vram_labels
 * too; and for structs that begin as nothing:
 *
 *   VRAM_AUTO(vram_auto_block) block = {pool, 0, queue};
 *   VRAM_AUTO(vram_async) copy = {{0}};                              given up; the work goes on
 *   VRAM_AUTO(vram_auto_frame) frame = {readback, {0}};              vram_readback_latest(...,
 *                                                                    &frame.frame)
 *   VRAM_AUTO(vram_auto_feed_block) block = {feed, {0}};             vram_feed_begin(...,
 *                                                                    &block.block)
 *   VRAM_AUTO(vram_auto_pinned) pinned = {device, NULL, bytes};      memory is set once it is
 *                                                                    locked
 */
#define VRAM_AUTO(type) __attribute__((cleanup(type##_auto_end), unused)) type

/** Hands out the pointer and leaves NULL behind: it is the receiver's from then on. */
#define VRAM_AUTO_TAKE(pointer)                                                                    \
    __extension__({                                                                                \
        __typeof__(pointer) vram_auto_taken = (pointer);                                           \
        (pointer) = NULL;                                                                          \
        vram_auto_taken;                                                                           \
    })

/** Leaves the function with the status of a call that failed. */
#define VRAM_TRY(call)                                                                             \
    do {                                                                                           \
        vram_status vram_auto_status = (call);                                                     \
        if (vram_auto_status != VRAM_OK) {                                                         \
            return vram_auto_status;                                                               \
        }                                                                                          \
    } while (0)

#endif

/* ------------------------------------------------------- what VRAM_AUTO calls */

/** Each ends what is there, and leaves the error record as it was. */
VRAM_AUTO_HANDLE_(vram_context, vram_context_destroy)
VRAM_AUTO_HANDLE_(vram_device, vram_device_close)
VRAM_AUTO_HANDLE_(vram_kernel, vram_kernel_destroy)
VRAM_AUTO_HANDLE_(vram_pool, vram_pool_destroy)
VRAM_AUTO_HANDLE_(vram_buffer, vram_buffer_destroy)
VRAM_AUTO_HANDLE_(vram_scope, vram_scope_end)
VRAM_AUTO_HANDLE_(vram_batch, vram_batch_destroy)
VRAM_AUTO_HANDLE_(vram_named, vram_named_destroy)
VRAM_AUTO_HANDLE_(vram_stream_set, vram_stream_set_destroy)
VRAM_AUTO_HANDLE_(vram_readback, vram_readback_destroy)
VRAM_AUTO_HANDLE_(vram_feed, vram_feed_destroy)
VRAM_AUTO_HANDLE_(vram_ring, vram_ring_destroy)

/** A queue of the program's own is ended by the first call, one of libvram's by the second. */
VRAM_AUTO_END_(vram_queue, vram_queue *, *object,
               ((void)vram_queue_end(*object), vram_queue_destroy(*object)))

VRAM_AUTO_END_(vram_async, vram_async, true, vram_async_end(object))
VRAM_AUTO_END_(vram_auto_frame, vram_auto_frame, object->frame.number,
               vram_readback_release(object->readback, object->frame.number))
VRAM_AUTO_END_(vram_auto_feed_block, vram_auto_feed_block, object->block.number,
               vram_feed_release(object->feed, object->block.number))
VRAM_AUTO_END_(vram_auto_pinned, vram_auto_pinned, object->memory,
               vram_pinned_end(object->device, object->memory, object->bytes))

/**
 * Frees a block, if it still is one of its pool: after the pool has ended, its address may belong
 * to a block of another pool, which vram_free would free. It also frees the block when its queue is
 * ending or has ended, for which vram_free answers VRAM_ERR_STALE. All other ends are inline.
 */
VRAM_API void vram_auto_block_auto_end(vram_auto_block *block);

#ifdef __cplusplus
}
#endif

#endif
