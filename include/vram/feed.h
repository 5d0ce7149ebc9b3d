/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/feed.h: uploads a stream of host data to the device block by block, in parallel to other
 * work. The counterpart of vram/readback.h.
 *
 *   vram_feed_create(device, NULL, &feed);
 *   for (;;) {
 *       vram_feed_begin(feed, bytes, timeout, &block);        page-locked memory, not in use
 *       read_input(block.data, bytes);
 *       vram_feed_submit(feed, queue, data, block.number, bytes, NULL);
 *       vram_queue_launch(queue, step, &launch);              sees the new contents of `data`
 *   }
 *
 * A feed has slots of page-locked host memory (2 by default) and a transfer queue. While the host
 * fills one slot, another is being uploaded, and kernels work on the block before. Work submitted
 * to the consumer's queue before the submit sees the old contents, later work the new ones, never a
 * mixture. The mode says how:
 *
 *   STAGED  The block is uploaded in parallel to the consumer's work, into device memory of the
 *           feed. A copy on the consumer's queue, at the speed of device memory, then moves it to
 *           its target. Takes one block of device memory per slot. If device memory runs out, the
 *           block is sent as in DIRECT, and is counted. The default.
 *   DIRECT  The upload waits, on the device, for the consumer's work so far, and the consumer's
 *           later work waits for the upload. Takes no device memory, but the upload and the
 *           consumer's kernels do not overlap.
 *
 * Ownership: a feed belongs to its device. Closing the device destroys it, with its blocks.
 * Threads: any call may be made from any thread; one thread at a time fills a block.
 */
#ifndef VRAM_FEED_H
#define VRAM_FEED_H

#include <vram/async.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_feed vram_feed;

/** How the upload is ordered with the consumer's work; see above. */
typedef enum vram_feed_mode { VRAM_FEED_STAGED = 0, VRAM_FEED_DIRECT = 1 } vram_feed_mode;

enum { VRAM_FEED_SLOTS_MAX = 16 }; /* most slots of a feed */

typedef struct vram_feed_options {
    size_t size;    /* sizeof(vram_feed_options) */
    uint32_t slots; /* 2 to VRAM_FEED_SLOTS_MAX; 0: 2 */
    vram_feed_mode mode;
    int32_t priority; /* of the transfer queue, as in vram_queue_options */
    uint64_t bytes;   /* size of a block, allocated now; 0: allocated by the first blocks */
} vram_feed_options;

VRAM_API vram_status vram_feed_create(vram_device *device, const vram_feed_options *options,
                                      vram_feed **feed);

/**
 * Destroys a feed and the blocks that are being filled. Waits for its transfers up to the option
 * `wait_timeout`. If transfers are unfinished then (VRAM_ERR_TIMEOUT), their memory stays until the
 * device is closed. If another call is using the feed, that call frees the memory when it returns,
 * and this one returns VRAM_OK. NULL is allowed.
 */
VRAM_API vram_status vram_feed_destroy(vram_feed *feed);

/** A block to fill. */
typedef struct vram_feed_block {
    void *data;      /* the host writes here until the submit */
    uint64_t bytes;  /* as requested */
    uint64_t number; /* 1 for the first, rising */
    uint32_t slot;   /* the slot of the block */
    bool pinned;     /* false: no memory could be page-locked; the upload is slower */
} vram_feed_block;

/**
 * Begins a block of `bytes`. Waits up to `timeout` ns until the last upload of a slot is complete
 * (VRAM_ERR_TIMEOUT). Returns VRAM_ERR_BUSY at once if all slots are being filled. Contents are
 * undefined.
 */
VRAM_API vram_status vram_feed_begin(vram_feed *feed, uint64_t bytes, uint64_t timeout,
                                     vram_feed_block *block);

/**
 * Copies the first `bytes` of a block to `to`, ordered with the work of `consumer` as above. The
 * host does not wait. The block belongs to the feed again. *async, which may be NULL, is ready when
 * the bytes are there. VRAM_ERR_INVALID, and nothing is submitted, if no block with that number is
 * being filled, for more bytes than it has, and for memory or a queue of another device. After any
 * failure the block is still being filled and may be submitted again; if the driver failed in
 * between, the contents of `to` are undefined.
 */
VRAM_API vram_status vram_feed_submit(vram_feed *feed, vram_queue *consumer, vram_addr to,
                                      uint64_t number, uint64_t bytes, vram_async *async);

/** Drops a block without submitting it. VRAM_ERR_INVALID if it is not being filled. */
VRAM_API vram_status vram_feed_release(vram_feed *feed, uint64_t number);

/** What a feed has done. */
typedef struct vram_feed_stats {
    size_t size;           /* in: sizeof(vram_feed_stats) of the caller */
    uint64_t submitted;    /* blocks */
    uint64_t bytes;        /* of them */
    uint64_t stalls;       /* times that vram_feed_begin waited for a slot */
    uint64_t direct;       /* blocks of mode STAGED that were sent as in DIRECT */
    uint64_t host_bytes;   /* of its slots now */
    uint64_t pinned_bytes; /* of these, page-locked */
    uint64_t device_bytes; /* device memory of its slots now */
} vram_feed_stats;

VRAM_API vram_status vram_feed_stats_get(vram_feed *feed, vram_feed_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
