/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/readback.h: device data that keeps changing, brought to the host frame by frame, beside
 * everything else.
 *
 *   vram_readback_create(device, NULL, &readback);
 *   for (;;) {
 *       vram_queue_launch(queue, step, &launch);                    changes `data`
 *       vram_readback_start(readback, queue, data, bytes, NULL);    as it is behind that step
 *       if (vram_readback_latest(readback, &frame) == VRAM_OK) {    newest that has arrived; never
 *                                                                   waits
 *           draw(frame.data, frame.bytes);
 *           vram_readback_release(readback, frame.number);
 *       }
 *   }
 *
 * A readback has slots (2 unless asked otherwise) of page-locked host memory, a transfer queue of
 * its own and one point in time per slot. A start takes a slot and submits a download behind the
 * work that the producer's queue has so far; nothing waits on the host. A frame is whole or it is
 * not there: it shows the source as it was between two pieces of work of the producer, never a
 * mixture, and the slot of a frame that somebody reads is not written.
 *
 * That the producer may go on changing the source is a matter of the mode:
 *
 *   SNAPSHOT  the source is copied on the device, on the producer's queue, and the copy is
 *             downloaded. The producer goes on after a copy at the speed of device memory; costs
 *             one copy in device memory per slot. Where that is exhausted, the frame is made as in
 *             HOLD, and says so. The default.
 *   HOLD      later work of the producer's queue waits, on the device, until the download is done.
 *             No memory; the producer's kernels and the download do not overlap.
 *   STEADY    nobody waits: the program promises to leave the source alone until the frame has
 *             arrived, as one that writes two sources in turn can.
 *
 * And what a start means while earlier frames have not been taken is a matter of the policy:
 *
 *   NEWEST    frames may be skipped. A start takes a free slot, or that of the oldest frame that
 *             has arrived, that nobody reads and that is not the newest of those: which is dropped,
 *             and counted. So the newest frame is always there to be read. The default; for
 *             displays, monitors, checkpoints.
 *   EVERY     no frame is lost: each is given once by vram_readback_next, in order, and its slot is
 *             free when it has been given back.
 *
 * In both, when every slot is under way or read, the start is VRAM_ERR_BUSY: nothing was submitted,
 * and the producer was not held up. With three slots a NEWEST readback never refuses for one
 * reader's sake.
 *
 * Ownership: a readback is its device's and ends with it at the latest, frames included. Threads:
 * any call from any thread. Where two threads start at once, the numbers say who came first. In
 * modes HOLD and STEADY other threads give the producer's queue no work that writes the source
 * while a start is inside.
 */
#ifndef VRAM_READBACK_H
#define VRAM_READBACK_H

#include <vram/async.h>
#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_readback vram_readback;

/** How the source is kept from changing under the download; see above. */
typedef enum vram_readback_mode {
    VRAM_READBACK_SNAPSHOT = 0,
    VRAM_READBACK_HOLD = 1,
    VRAM_READBACK_STEADY = 2
} vram_readback_mode;

/** What becomes of frames that nobody takes; see above. */
typedef enum vram_readback_policy {
    VRAM_READBACK_NEWEST = 0,
    VRAM_READBACK_EVERY = 1
} vram_readback_policy;

enum {
    VRAM_READBACK_SLOTS_MAX = 16, /* slots of a readback, and of a feed; at least 2 */
    VRAM_READBACK_SPANS_MAX = 16  /* sources of one frame */
};

typedef struct vram_readback_options {
    size_t size;    /* sizeof(vram_readback_options) */
    uint32_t slots; /* 2 to VRAM_READBACK_SLOTS_MAX; 0: 2 */
    vram_readback_mode mode;
    vram_readback_policy policy;
    int32_t priority; /* of the transfer queue, as in vram_queue_options */
    uint64_t bytes;   /* of a frame: memory that is taken at once; 0: by the first starts */
} vram_readback_options;

VRAM_API vram_status vram_readback_create(vram_device *device, const vram_readback_options *options,
                                          vram_readback **readback);

/**
 * Destroys it after its transfers are done, waiting up to the option `wait_timeout`; frames that
 * are still borrowed go with it. Memory of transfers that do not finish stays until the device is
 * closed: VRAM_ERR_TIMEOUT. While another call is inside the readback, that call frees the memory
 * when it leaves, and the answer here is VRAM_OK. NULL is allowed.
 */
VRAM_API vram_status vram_readback_destroy(vram_readback *readback);

/* ------------------------------------------------------------------- starting */

/**
 * Starts a frame of `bytes` at `from`, as they are behind all work that `producer` has so far
 * (NULL: the source is not being written; mode STEADY for this frame). *number, which may be NULL,
 * is the frame's: 1 for the first, one more with every start that succeeds. The source may be
 * another one, and larger, each time: slots grow. VRAM_ERR_BUSY when no slot is to be had, as
 * above; any failure leaves earlier frames alone, but for one that the start has dropped to make
 * room.
 */
VRAM_API vram_status vram_readback_start(vram_readback *readback, vram_queue *producer,
                                         vram_addr from, uint64_t bytes, uint64_t *number);

/**
 * The same from parts of buffers, 1 to VRAM_READBACK_SPANS_MAX of them, which lie one behind the
 * other in the frame and show the same moment. Buffers may grow and move between starts. A part
 * that lies in host memory is waited for and copied before the call returns.
 */
VRAM_API vram_status vram_readback_start_spans(vram_readback *readback, vram_queue *producer,
                                               const vram_span *spans, uint32_t count,
                                               uint64_t *number);

/** VRAM_OK once frame `number` (0: the last one started) has arrived, VRAM_ERR_NOT_READY before, without an
 * error record; _STALE when its slot serves another frame by now, _INVALID when it was never started; and
 * what went wrong when it will never arrive. */
VRAM_API vram_status vram_readback_poll(vram_readback *readback, uint64_t number);

/** Waits for it, VRAM_ERR_TIMEOUT after `timeout` ns. Otherwise as vram_readback_poll. */
VRAM_API vram_status vram_readback_wait(vram_readback *readback, uint64_t number, uint64_t timeout);

/** The point in time at which the frame's slot is written. Errors as vram_readback_poll. */
VRAM_API vram_status vram_readback_point(vram_readback *readback, uint64_t number,
                                         vram_point *point);

/** The same as a handle, ready when the frame has arrived, in error when it never will. */
VRAM_API vram_status vram_readback_async(vram_readback *readback, uint64_t number,
                                         vram_async *async);

/* --------------------------------------------------------------------- frames */

/** A frame that has arrived, borrowed. */
typedef struct vram_frame {
    const void *data; /* good until it is given back */
    uint64_t bytes;
    uint64_t number;
    uint32_t slot;           /* that it lies in */
    vram_readback_mode mode; /* that it was made in */
    bool pinned;             /* false: no memory could be page-locked for it, and it took longer */
} vram_frame;

/**
 * Borrows the newest frame that has arrived; never waits. VRAM_ERR_NOT_READY when there is none.
 * The same frame may be borrowed again, by several readers at once. Each owes a give.
 */
VRAM_API vram_status vram_readback_latest(vram_readback *readback, vram_frame *frame);

/**
 * Borrows the oldest frame that this call has not given out yet, waiting for it up to `timeout` ns
 * (VRAM_ERR_TIMEOUT). Each is given out once, in order, whichever threads ask. VRAM_ERR_NOT_READY,
 * at once, when none has been started. A frame that will never arrive is told by its error, once,
 * and then passed over.
 */
VRAM_API vram_status vram_readback_next(vram_readback *readback, uint64_t timeout,
                                        vram_frame *frame);

/** Releases a borrowed frame. VRAM_ERR_INVALID when it is not borrowed. */
VRAM_API vram_status vram_readback_release(vram_readback *readback, uint64_t number);

/** What a readback has done. */
typedef struct vram_readback_stats {
    size_t size;           /* in: sizeof(vram_readback_stats) of the caller */
    uint64_t started;      /* frames; the number of the last */
    uint64_t arrived;      /* of these */
    uint64_t failed;       /* and these never will */
    uint64_t dropped;      /* arrived, and made room for another before anybody borrowed them */
    uint64_t refused;      /* starts that were VRAM_ERR_BUSY */
    uint64_t held;         /* frames of mode SNAPSHOT that were made as in HOLD */
    uint64_t bytes;        /* that arrived */
    uint64_t host_bytes;   /* of its slots now, ... */
    uint64_t pinned_bytes; /* ... of them page-locked, ... */
    uint64_t device_bytes; /* ... and of snapshots on the device */
} vram_readback_stats;

VRAM_API vram_status vram_readback_stats_get(vram_readback *readback, vram_readback_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
