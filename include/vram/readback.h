/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/readback.h: downloads changing device data, frame by frame, in parallel to other work.
 *
 *   vram_readback_create(device, NULL, &readback);
 *   for (;;) {
 *       vram_queue_launch(queue, step, &launch);                    changes `data`
 *       vram_readback_start(readback, queue, data, bytes, NULL);    as it is after that step
 *       if (vram_readback_latest(readback, &frame) == VRAM_OK) {    the newest that has arrived;
 *                                                                   never waits
 *           draw(frame.data, frame.bytes);
 *           vram_readback_release(readback, frame.number);
 *       }
 *   }
 *
 * A readback has slots of page-locked host memory (2 by default), a transfer queue, and one point
 * per slot. A start takes a slot and submits a download after the work that the producer's queue
 * has so far; the host does not wait. A frame is complete or not available: it shows the source as
 * it was between two pieces of the producer's work, never a mixture. The slot of a frame that is
 * being read is not written.
 *
 * The mode says how the source is kept unchanged during the download:
 *
 *   SNAPSHOT  The source is copied on the device, on the producer's queue, and the copy is
 *             downloaded. The producer continues after a copy at the speed of device memory. Takes
 *             device memory for one copy per slot. If that runs out, the frame is made as in HOLD,
 *             and its `mode` says so. The default.
 *   HOLD      Later work of the producer's queue waits, on the device, until the download is
 *             complete. Takes no device memory, but the producer's kernels and the download do not
 *             overlap.
 *   STEADY    Nothing waits. The program promises not to change the source until the frame has
 *             arrived, for example because it writes two sources in turn.
 *
 * The policy says what a start does if earlier frames have not been read:
 *
 *   NEWEST    Frames may be dropped. A start takes a free slot. If there is none, it drops the
 *             oldest frame that has arrived and is not being read, except the newest frame that has
 *             arrived, and counts it. So the newest frame can always be read. The default; for
 *             displays, monitors, checkpoints.
 *   EVERY     No frame is dropped. vram_readback_next returns each frame once, in order, and its
 *             slot is free again when the frame is released.
 *
 * With both, if every slot is being downloaded or read, the start returns VRAM_ERR_BUSY: nothing is
 * submitted and the producer does not wait. With three slots and one reader, a NEWEST readback
 * never refuses because of the reader.
 *
 * Ownership: a readback belongs to its device. Closing the device destroys it, with its frames.
 * Threads: any call may be made from any thread. If two threads start frames at the same time, the
 * numbers tell their order. In modes HOLD and STEADY, no other thread may submit work that writes
 * the source to the producer's queue during a start.
 */
#ifndef VRAM_READBACK_H
#define VRAM_READBACK_H

#include <vram/async.h>
#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_readback vram_readback;

/** How the source is kept unchanged during the download; see above. */
typedef enum vram_readback_mode {
    VRAM_READBACK_SNAPSHOT = 0,
    VRAM_READBACK_HOLD = 1,
    VRAM_READBACK_STEADY = 2
} vram_readback_mode;

/** What happens to frames that are not read; see above. */
typedef enum vram_readback_policy {
    VRAM_READBACK_NEWEST = 0,
    VRAM_READBACK_EVERY = 1
} vram_readback_policy;

enum {
    VRAM_READBACK_SLOTS_MAX = 16, /* most slots of a readback */
    VRAM_READBACK_SPANS_MAX = 16  /* most sources of one frame */
};

typedef struct vram_readback_options {
    size_t size;    /* sizeof(vram_readback_options) */
    uint32_t slots; /* 2 to VRAM_READBACK_SLOTS_MAX; 0: 2 */
    vram_readback_mode mode;
    vram_readback_policy policy;
    int32_t priority; /* of the transfer queue, as in vram_queue_options */
    uint64_t bytes;   /* size of a frame, allocated now; 0: allocated by the first starts */
} vram_readback_options;

VRAM_API vram_status vram_readback_create(vram_device *device, const vram_readback_options *options,
                                          vram_readback **readback);

/**
 * Destroys a readback and its frames, borrowed ones too. Waits for its transfers up to the option
 * `wait_timeout`. If transfers are unfinished then (VRAM_ERR_TIMEOUT), their memory stays until the
 * device is closed. If another call is using the readback, that call frees the memory when it
 * returns, and this one returns VRAM_OK. NULL is allowed.
 */
VRAM_API vram_status vram_readback_destroy(vram_readback *readback);

/* ------------------------------------------------------------------- starting */

/**
 * Starts a frame of `bytes` at `from`, as they are after all work that `producer` has so far. NULL:
 * nothing is writing the source, and this frame has mode STEADY. *number, which may be NULL, is the
 * number of the frame: 1 for the first, one more with every start that succeeds. The source may be
 * another one, and larger, each time: slots grow. VRAM_ERR_BUSY if there is no slot, as above.
 * After any failure earlier frames are unchanged, except one that the start may have dropped to get
 * a slot.
 */
VRAM_API vram_status vram_readback_start(vram_readback *readback, vram_queue *producer,
                                         vram_addr from, uint64_t bytes, uint64_t *number);

/**
 * The same for parts of buffers, 1 to VRAM_READBACK_SPANS_MAX of them. They follow one another in
 * the frame and show the same moment. Buffers may grow and move between starts. For a part in host
 * memory the call waits, and copies it before it returns.
 */
VRAM_API vram_status vram_readback_start_spans(vram_readback *readback, vram_queue *producer,
                                               const vram_span *spans, uint32_t count,
                                               uint64_t *number);

/**
 * VRAM_OK if frame `number` (0: the last one started) has arrived, VRAM_ERR_NOT_READY (without an
 * error record) if it has not yet. VRAM_ERR_STALE if its slot holds a later frame by now, _INVALID
 * if it was never started, and its error if it failed and will never arrive.
 */
VRAM_API vram_status vram_readback_poll(vram_readback *readback, uint64_t number);

/** Waits for a frame. VRAM_ERR_TIMEOUT after `timeout` ns; otherwise as vram_readback_poll. */
VRAM_API vram_status vram_readback_wait(vram_readback *readback, uint64_t number, uint64_t timeout);

/** The point that passes when the frame's slot is written. Errors as vram_readback_poll. */
VRAM_API vram_status vram_readback_point(vram_readback *readback, uint64_t number,
                                         vram_point *point);

/** The same as a handle: ready when the frame has arrived, in error if it never will. */
VRAM_API vram_status vram_readback_async(vram_readback *readback, uint64_t number,
                                         vram_async *async);

/* --------------------------------------------------------------------- frames */

/** A frame that has arrived, borrowed. */
typedef struct vram_frame {
    const void *data; /* valid until the release */
    uint64_t bytes;
    uint64_t number;
    uint32_t slot;           /* the slot of the frame */
    vram_readback_mode mode; /* in which it was made */
    bool pinned;             /* false: no memory could be page-locked; the download was slower */
} vram_frame;

/**
 * Borrows the newest frame that has arrived. Never waits. VRAM_ERR_NOT_READY if there is none.
 * Several readers may borrow the same frame; each must release it.
 */
VRAM_API vram_status vram_readback_latest(vram_readback *readback, vram_frame *frame);

/**
 * Borrows the oldest frame that this call has not returned yet. Waits for it up to `timeout` ns
 * (VRAM_ERR_TIMEOUT). Each frame is returned once, in order, whichever threads call.
 * VRAM_ERR_NOT_READY, at once, if no further frame has been started. For a frame that will never
 * arrive the call returns its error, once, and then skips it.
 */
VRAM_API vram_status vram_readback_next(vram_readback *readback, uint64_t timeout,
                                        vram_frame *frame);

/** Releases a borrowed frame. VRAM_ERR_INVALID if it is not borrowed. */
VRAM_API vram_status vram_readback_release(vram_readback *readback, uint64_t number);

/** What a readback has done. */
typedef struct vram_readback_stats {
    size_t size;           /* in: sizeof(vram_readback_stats) of the caller */
    uint64_t started;      /* frames; also the number of the last */
    uint64_t arrived;      /* of these */
    uint64_t failed;       /* and will never arrive */
    uint64_t dropped;      /* arrived, and replaced before they were borrowed */
    uint64_t refused;      /* starts that were VRAM_ERR_BUSY */
    uint64_t held;         /* frames of mode SNAPSHOT that were made as in HOLD */
    uint64_t bytes;        /* that arrived */
    uint64_t host_bytes;   /* of its slots now */
    uint64_t pinned_bytes; /* of these, page-locked */
    uint64_t device_bytes; /* device memory of snapshots now */
} vram_readback_stats;

VRAM_API vram_status vram_readback_stats_get(vram_readback *readback, vram_readback_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
