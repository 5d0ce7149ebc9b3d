/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/async.h: a handle of 32 bytes for work that runs in the background.
 *
 * Everything that the library does in the background (copies, downloads into buffers, flushes,
 * matrix products) returns a vram_async. It is pending, then ready or in error, and does not change
 * afterwards: waiting twice, or polling after a wait, is fine.
 *
 *  - It is plain data: it may be copied, stored and compared to zeros. All zero is ready.
 *  - No thread runs for it. Callbacks run on the thread that polls or waits and finds the work
 *    complete, or at the latest on the thread that ends its queue or device. The exceptions are
 *    work that a thread of the library completes (staged downloads, background products) and
 *    handles that it watches (vram_async_fd_open): their callbacks may run on that thread, and must
 *    not wait there.
 *  - A failure on the device is reported here. It is logged once, and returned each time the
 *    handle is asked, with the name of the operation that the program called.
 *  - A pending handle takes 152 bytes of host memory of the library beside its own 32, a product
 *    that waits for its turn 248 with its arguments, and each callback 40. A driver keeps its own
 *    of what was submitted.
 *  - A handle that became ready keeps no memory of the library, unless its result was known only at
 *    its end. One that failed keeps its error, 288 bytes more. vram_async_end releases any other
 *    handle; the context releases those that are left.
 */
#ifndef VRAM_ASYNC_H
#define VRAM_ASYNC_H

#include <vram/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Work in progress. The words belong to the library. All zero: nothing to wait for, ready. */
typedef struct vram_async {
    uint64_t word[4];
} vram_async;

typedef enum vram_async_state {
    VRAM_ASYNC_PENDING = 0, /* not complete yet, or its state could not be read */
    VRAM_ASYNC_READY = 1,   /* complete */
    VRAM_ASYNC_ERROR = 2    /* failed; vram_async_error_get says why */
} vram_async_state;

/**
 * VRAM_OK if the work is complete, VRAM_ERR_NOT_READY (without an error record) if not. If the work
 * failed, its status, and its text becomes the calling thread's error record. Never waits. Runs
 * callbacks. Any other failure (a driver that cannot be asked now, a forked child) leaves the
 * handle pending.
 */
VRAM_API vram_status vram_async_poll(const vram_async *async);

/** Whether it is ready or in error. False for a value that is not a handle, too. */
VRAM_API bool vram_async_is_ready(const vram_async *async);

/** Pending, ready or in error, as vram_async_poll would find it now. */
VRAM_API vram_status vram_async_state_get(const vram_async *async, vram_async_state *state);

/**
 * Waits until the work is complete. VRAM_ERR_TIMEOUT after `timeout` ns (vram/queue.h has the
 * special values), and the handle stays valid; otherwise as vram_async_poll.
 */
VRAM_API vram_status vram_async_wait(const vram_async *async, uint64_t timeout);

/**
 * Waits until the first of `count` handles is ready or has failed, and sets *index to it: the first
 * of the list, if there are several. The status is that of vram_async_poll for this handle, or
 * VRAM_ERR_TIMEOUT, which leaves *index unchanged. Handles that are all zero are ready.
 */
VRAM_API vram_status vram_async_wait_any(const vram_async *asyncs, size_t count, uint64_t timeout,
                                         size_t *index);

/**
 * Opens a file descriptor for event loops (poll, epoll, kqueue): it becomes readable when the first
 * of `count` handles is ready or has failed, and stays so. Ask the handles then. The descriptor
 * belongs to the program, which closes it with close(2) at any time; the handles are copied. A
 * thread of the library waits for them, and runs their callbacks if it is the first to see their
 * end. So use one descriptor for all handles that a turn of the loop waits for.
 */
VRAM_API vram_status vram_async_fd_open(const vram_async *asyncs, size_t count, int *fd);

/**
 * The result, without waiting: the bytes that a copy moved, the messages that a flush moved, the
 * address of the first element of a product. Statuses as vram_async_poll: VRAM_ERR_NOT_READY while
 * it is pending, and *result is unchanged.
 */
VRAM_API vram_status vram_async_result_get(const vram_async *async, uint64_t *result);

/**
 * Why it failed: status, backend, the driver's code and text, and the operation that the program
 * called. {VRAM_OK, "", "", 0, ""} if it did not fail; VRAM_ERR_NOT_READY while it is pending.
 */
VRAM_API vram_status vram_async_error_get(const vram_async *async, vram_error *error);

/**
 * Called once when the work is complete or has failed. After a failure the thread's error record
 * has its text. No lock of the library is held: it may call anything, also on this handle.
 */
typedef void vram_async_fn(void *user, vram_status status);

/**
 * Registers `call`. It is called exactly once, when the library finds the work complete: in a poll
 * or wait of this handle, in vram_async_poll_all, at the end of its queue or device, or in this
 * call if it is complete already. Several are called in the order they were registered. Another
 * thread may see the handle ready before they have returned.
 */
VRAM_API vram_status vram_async_then(const vram_async *async, vram_async_fn *call, void *user);

/**
 * Polls all pending handles of a device, so that their callbacks run. *pending, which may be NULL,
 * is how many are still pending. For programs with an event loop, which call it once per turn.
 */
VRAM_API vram_status vram_async_poll_all(vram_device *device, uint64_t *pending);

/**
 * A handle for a point, so that a program can wait for its own kernels and copies in the same way.
 * `operation` names the work in errors and must have static storage, as a literal has; NULL is
 * "work". VRAM_ERR_INVALID for a point that the queue has not made.
 */
VRAM_API vram_status vram_async_of_point(vram_point point, const char *operation,
                                         vram_async *async);

/**
 * Releases the handle and sets it to zeros. The work continues, and callbacks are still called.
 * Copies of the handle no longer report what happens later. NULL, zeros and handles that were ended
 * before are allowed. VRAM_ERR_INVALID for words that never were a handle, which are set to zeros,
 * too.
 */
VRAM_API vram_status vram_async_end(vram_async *async);

#ifdef __cplusplus
}
#endif

#endif
