/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/extension.h: for libraries on top of libvram, as libvram-compute is. Not part of
 * vram/vram.h.
 *
 * An object of such a library uses the memory of a pool and gives work to queues of its device. An
 * attachment keeps that memory until the object has let go of it, and tells the object when the
 * pool ends:
 *
 *   vram_pool_attach(pool, ended, number, &device, &attachment);
 *   ...                                            allocates from the pool, submits to queues
 *   vram_attachment_wait(attachment, queue, 0);    the pool's end waits for that queue, too
 *   vram_attachment_end(attachment);
 *
 * Failures are recorded with vram_error_set, host memory comes from vram_host_alloc: see
 * vram/base.h.
 */
#ifndef VRAM_EXTENSION_H
#define VRAM_EXTENSION_H

#include <vram/async.h>
#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- attachments */

typedef struct vram_attachment vram_attachment;

/**
 * Called once when the pool ends, by the thread that ends it, with no lock held: ends what the
 * object has.
 */
typedef void vram_pool_ended_fn(void *user);

/**
 * Attaches to a pool. The pool's handle ends as ever, but its memory is not given back before the
 * attachment has ended. `ended` (NULL: nobody wants to know) may still be on its way when
 * vram_attachment_end returns: let `user` be a number that can be looked up, not a pointer to what
 * may be gone. *device is the pool's, unless NULL. VRAM_ERR_STALE when the pool is being destroyed.
 */
VRAM_API vram_status vram_pool_attach(vram_pool *pool, vram_pool_ended_fn *ended, void *user,
                                      vram_device **device, vram_attachment **attachment);

/**
 * Has the pool's end wait for the work of `queue` as well, and waits for it now, up to `timeout` ns
 * (0: not at all). Queues that are ending are waited for, too, which vram_queue_wait refuses; one
 * that has ended has no work. VRAM_OK when the work has ended, and for 0; VRAM_ERR_DEVICE_LOST when
 * the pool's device is lost, which runs nothing any more; after other failures the work may go on.
 */
VRAM_API vram_status vram_attachment_wait(vram_attachment *attachment, vram_queue *queue,
                                          uint64_t timeout);

/** Ends it. NULL is allowed, a second call is VRAM_ERR_STALE. */
VRAM_API vram_status vram_attachment_end(vram_attachment *attachment);

/* -------------------------------------------------------------------------- work */

/**
 * Submits work to a native queue (CUstream, ...; NULL where there is none), and says how that went.
 */
typedef vram_status vram_submit_fn(void *user, void *native);

/**
 * Calls `submit` while the queue cannot end: for libraries of others, such as cuBLAS, that submit
 * work by themselves. The status is that of `submit`, which must not wait for the queue, nor end
 * anything.
 */
VRAM_API vram_status vram_queue_submit(vram_queue *queue, vram_submit_fn *submit, void *user);

/** Work of the caller's own behind an async handle; whoever has it owes one vram_async_finish. */
typedef struct vram_async_work vram_async_work;

/**
 * Begins work of a device that the caller does itself, on any thread. *async is for the program,
 * which polls, waits and gives up as with any other. `operation` names the call in the handle's
 * failure and has static storage. VRAM_ERR_SHUTDOWN when the device is closing.
 */
VRAM_API vram_status vram_async_begin(vram_device *device, const char *operation, vram_async *async,
                                      vram_async_work **work);

/**
 * The work is over: done with VRAM_OK, else failed, with the text of the calling thread's error
 * record when that is of this status. Runs the program's callbacks. A second call is
 * VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_async_finish(vram_async_work *work, vram_status status);

/* ------------------------------------------------------------------------ memory */

/**
 * Whether kernels of the device can use all of [addr, addr + bytes): live memory of the device in
 * one piece, within its block, or page-locked memory of the host where kernels reach it by its
 * address (VRAM_CAP_TRUE_ADDRESS). VRAM_ERR_INVALID says what is wrong.
 */
VRAM_API vram_status vram_memory_check(vram_device *device, vram_addr addr, uint64_t bytes);

/**
 * Whether memory of libvram lies at a host pointer, page-locked memory above all. No lock, no error
 * record.
 */
VRAM_API bool vram_memory_is_known(const void *host);

/**
 * Frees memory of vram_host_alloc when the device is closed: for memory that work may use whose end
 * nobody can see. Work uses none of its first sizeof(void *) bytes, which are the device's from now
 * on. After a failure the memory is still the caller's.
 */
VRAM_API vram_status vram_host_free_later(vram_device *device, void *memory);

#ifdef __cplusplus
}
#endif

#endif
