/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/async.h: work that is under way, as a handle of 32 bytes.
 *
 * Everything that the library does in the background (copies, downloads into buffers, flushes,
 * products) gives its caller a vram_async. It is pending, then ready or in error, and stays so
 * however often it is asked: waiting twice, or asking after the wait, is fine.
 *
 *  - It is plain data in the caller's hands: copy it, keep it, compare it to zeros. All zero is
 *    ready.
 *  - No thread runs for it. Whoever asks is who notices: callbacks run on the thread that polls or
 *    waits and finds the work done, at the latest on the one that ends its queue or device. Only
 *    what a thread of the library finishes itself (staged downloads, products in the background)
 *    may have its callbacks run on that thread: they wait for nothing there.
 *  - What went wrong on the device arrives here, is written to the log once, and is told every time
 *    the handle is asked, with the name of the operation that the program called.
 *  - A handle that became ready keeps nothing of the library's, unless its result came with its
 *    end. vram_async_end gives up any other; what is forgotten goes with the context.
 */
#ifndef VRAM_ASYNC_H
#define VRAM_ASYNC_H

#include <vram/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Work under way. The words are the library's. All zero: nothing to wait for, ready long ago. */
typedef struct vram_async {
    uint64_t word[4];
} vram_async;

typedef enum vram_async_state {
    VRAM_ASYNC_PENDING = 0, /* not done yet, or nobody could find out */
    VRAM_ASYNC_READY = 1,   /* done */
    VRAM_ASYNC_ERROR = 2    /* failed; vram_async_error_get says why */
} vram_async_state;

/**
 * VRAM_OK once it is done, VRAM_ERR_NOT_READY before (no error record for that), or the status it
 * failed with, whose text is then the calling thread's error record. Never waits. Any other
 * failure, of a driver that cannot be asked at this moment or in a forked child, leaves the handle
 * pending. Runs callbacks.
 */
VRAM_API vram_status vram_async_poll(const vram_async *async);

/** Whether it is pending no more: ready, or in error. False, too, for what is no handle. */
VRAM_API bool vram_async_is_ready(const vram_async *async);

/** Pending, ready or in error, as vram_async_poll would find it now. */
VRAM_API vram_status vram_async_state_get(const vram_async *async, vram_async_state *state);

/**
 * Waits until it is done. VRAM_ERR_TIMEOUT after `timeout` ns (vram/queue.h has the
 * special ones), and the handle is as good as before; otherwise as vram_async_poll.
 */
VRAM_API vram_status vram_async_wait(const vram_async *async, uint64_t timeout);

/**
 * What came of it, without waiting: the bytes that a copy moved, the messages that a flush moved.
 * Statuses as vram_async_poll, so that VRAM_ERR_NOT_READY is "not yet".
 */
VRAM_API vram_status vram_async_result_get(const vram_async *async, uint64_t *result);

/**
 * Why it failed: status, backend, the driver's own code and text, under the name of the operation
 * that the program called. {VRAM_OK, "", "", 0, ""} when it did not; VRAM_ERR_NOT_READY while it is
 * pending.
 */
VRAM_API vram_status vram_async_error_get(const vram_async *async, vram_error *error);

/**
 * Told once that the work is over. With a failure, the thread's error record has its text. No lock
 * of the library is held: it may call anything, also on this handle.
 */
typedef void vram_async_fn(void *user, vram_status status);

/**
 * Has `call` called exactly once, when the work is seen to be over: by a poll or wait of this
 * handle, by vram_async_poll_all, by the end of its queue or device, or right here when it is over
 * already. Several are called in the order they came. Another thread may see the handle ready
 * before they have returned.
 */
VRAM_API vram_status vram_async_then(const vram_async *async, vram_async_fn *call, void *user);

/**
 * Polls everything that is pending on a device, so that its callbacks run, and tells how much of it
 * is pending still (NULL: not asked for). For programs with an event loop, which call it once a
 * turn.
 */
VRAM_API vram_status vram_async_poll_all(vram_device *device, uint64_t *pending);

/**
 * A handle for a point in time, so that kernels and copies of the program's own are waited for like
 * everything else. `operation` names the work in errors and must have static storage, as a literal
 * has; NULL is "work". VRAM_ERR_INVALID for a point that the queue has not made.
 */
VRAM_API vram_status vram_async_of_point(vram_point point, const char *operation,
                                         vram_async *async);

/**
 * Gives the handle up and sets it to zeros. The work goes on, and callbacks are still called. Its
 * copies tell of nothing that happens later. NULL, zeros and handles that were ended before are
 * allowed; VRAM_ERR_INVALID for words that never were a handle, which are set to zeros, too.
 */
VRAM_API vram_status vram_async_end(vram_async *async);

#ifdef __cplusplus
}
#endif

#endif
