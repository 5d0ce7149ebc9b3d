/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/extension.h: for libraries on top of libvram, such as libvram-compute. Not part of
 * vram/vram.h.
 *
 * An object of such a library uses the memory of a pool and submits work to queues of its device.
 * An attachment keeps that memory until the object has released it, and tells the object when the
 * pool ends:
 *
 *   vram_pool_attach(pool, ended, number, &device, &attachment);
 *   ...                                            allocates from the pool, submits to queues
 *   vram_attachment_wait(attachment, queue, 0);    the pool's end waits for that queue, too
 *   vram_attachment_end(attachment);
 *
 * Failures are recorded with vram_error_set, and host memory comes from vram_host_alloc
 * (vram/base.h).
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
 * Called once when the pool ends, on the thread that ends it, with no lock held. It must end what
 * the object has.
 */
typedef void vram_pool_ended_fn(void *user);

/**
 * Attaches to a pool. The pool's handle ends as usual, but its memory is kept until the attachment
 * has ended. A call of `ended` (which may be NULL) may still be running when vram_attachment_end
 * returns: use a number that can be looked up as `user`, not a pointer to something that may be
 * freed. *device, which may be NULL, is the pool's device. VRAM_ERR_STALE if the pool is being
 * destroyed.
 */
VRAM_API vram_status vram_pool_attach(vram_pool *pool, vram_pool_ended_fn *ended, void *user,
                                      vram_device **device, vram_attachment **attachment);

/**
 * Makes the pool's end wait for the work of `queue`, too, and waits for it now, up to `timeout` ns
 * (0: does not wait). It also waits for queues that are being destroyed, which vram_queue_wait
 * refuses; a queue that has ended has no work. VRAM_OK if the work is complete, and always for 0.
 * VRAM_ERR_DEVICE_LOST if the pool's device is lost: then no work runs any more. After other
 * failures the work may still run.
 */
VRAM_API vram_status vram_attachment_wait(vram_attachment *attachment, vram_queue *queue,
                                          uint64_t timeout);

/** Ends an attachment. NULL is allowed. A second call returns VRAM_ERR_STALE. */
VRAM_API vram_status vram_attachment_end(vram_attachment *attachment);

/* -------------------------------------------------------------------------- work */

/**
 * Submits work to a native queue (CUstream, ...; NULL if there is none), and returns its status.
 */
typedef vram_status vram_submit_fn(void *user, void *native);

/**
 * Calls `submit` while the queue is kept from ending. For other libraries, such as cuBLAS, that
 * submit work themselves. Returns the status of `submit`, which must not wait for the queue or end
 * anything.
 */
VRAM_API vram_status vram_queue_submit(vram_queue *queue, vram_submit_fn *submit, void *user);

/** Work of the caller behind an async handle. Its owner must call vram_async_finish once. */
typedef struct vram_async_work vram_async_work;

/**
 * Begins work for a device that the caller does itself, on any thread. *async is for the program,
 * which uses it like any other handle; `result` is what vram_async_result_get gives once the work
 * is complete. `operation` names the call in the handle's error and must have static storage.
 * VRAM_ERR_SHUTDOWN if the device is closing.
 */
VRAM_API vram_status vram_async_begin(vram_device *device, const char *operation, uint64_t result,
                                      vram_async *async, vram_async_work **work);

/**
 * Completes the work: VRAM_OK, or a failure, with the text of the calling thread's error record if
 * that has the same status. Runs the program's callbacks. A second call returns VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_async_finish(vram_async_work *work, vram_status status);

/* ------------------------------------------------------------------------ memory */

/**
 * Checks that kernels of the device can use all of [addr, addr + bytes): live memory of the device
 * in one piece, within its block, or page-locked host memory if kernels reach it by its address
 * (VRAM_CAP_TRUE_ADDRESS). The text of VRAM_ERR_INVALID says what is wrong.
 */
VRAM_API vram_status vram_memory_check(vram_device *device, vram_addr addr, uint64_t bytes);

/**
 * The physical handle, or the allocation of the driver, that lies at `addr`: its first address and
 * size. For registering memory once per handle. It stays the same while a block in it is pinned
 * (vram_pin). VRAM_ERR_INVALID if there is no memory, or it was mapped by vram_range_map.
 */
VRAM_API vram_status vram_memory_handle_get(vram_addr addr, vram_addr *base, uint64_t *bytes);

/**
 * Whether memory of libvram, such as page-locked memory, lies at a host pointer. Takes no lock and
 * makes no error record.
 */
VRAM_API bool vram_memory_is_known(const void *host);

/**
 * Frees memory of vram_host_alloc when the device is closed: for memory that work may use whose end
 * cannot be observed. From now on its first sizeof(void *) bytes belong to the device, and work
 * must not use them. After a failure the caller still owns the memory.
 */
VRAM_API vram_status vram_host_free_later(vram_device *device, void *memory);

#ifdef __cplusplus
}
#endif

#endif
