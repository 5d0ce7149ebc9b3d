/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/feed.h: host data that keeps coming, brought to the device block by block, beside everything
 * else: the counterpart of vram/readback.h.
 *
 *   vram_feed_create(device, NULL, &feed);
 *   for (;;) {
 *       vram_feed_begin(feed, bytes, timeout, &block);        page-locked memory that nobody reads
 *       read_input(block.data, bytes);
 *       vram_feed_submit(feed, queue, data, block.number, bytes, NULL);
 *       vram_queue_launch(queue, step, &launch);              sees the new contents of `data`
 *   }
 *
 * A feed has slots (2 unless asked otherwise: ping and pong) of page-locked host memory and a
 * transfer queue of its own. While the host fills one, another is on its way and the kernels work
 * on what came before. Work that the consumer's queue had before the submit sees the old contents,
 * later work the new ones, never a mixture:
 *
 *   STAGED  the block is uploaded beside the consumer's work, into device memory of the feed's own,
 *           and copied to its place on the consumer's queue, at the speed of device memory. Costs
 *           one block of device memory per slot. Where that is exhausted, the block goes as in
 *           DIRECT, and is counted. The default.
 *   DIRECT  the upload waits, on the device, for the work that the consumer has so far, and the
 *           consumer's later work for the upload. No memory; the upload and the consumer's kernels
 *           do not overlap.
 *
 * Ownership: a feed is its device's and ends with it at the latest, blocks included. Threads: any
 * call from any thread; a block is filled by one at a time.
 */
#ifndef VRAM_FEED_H
#define VRAM_FEED_H

#include <vram/async.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_feed vram_feed;

/** How work on the target is kept apart from the upload; see above. */
typedef enum vram_feed_mode { VRAM_FEED_STAGED = 0, VRAM_FEED_DIRECT = 1 } vram_feed_mode;

enum { VRAM_FEED_SLOTS_MAX = 16 }; /* slots of a feed; at least 2 */

typedef struct vram_feed_options {
    size_t size;    /* sizeof(vram_feed_options) */
    uint32_t slots; /* 2 to VRAM_FEED_SLOTS_MAX; 0: 2 */
    vram_feed_mode mode;
    int32_t priority; /* of the transfer queue, as in vram_queue_options */
    uint64_t bytes;   /* of a block: memory that is taken at once; 0: by the first blocks */
} vram_feed_options;

VRAM_API vram_status vram_feed_create(vram_device *device, const vram_feed_options *options,
                                      vram_feed **feed);

/**
 * Destroys it after its transfers are done, waiting up to the option `wait_timeout`; blocks that
 * are being filled go with it. Memory of transfers that do not finish stays until the device is
 * closed: VRAM_ERR_TIMEOUT. While another call is inside the feed, that call frees the memory when
 * it leaves, and the answer here is VRAM_OK. NULL is allowed.
 */
VRAM_API vram_status vram_feed_destroy(vram_feed *feed);

/** A block to be filled. */
typedef struct vram_feed_block {
    void *data;      /* the host writes here, until the submit */
    uint64_t bytes;  /* as asked for */
    uint64_t number; /* 1 for the first, rising */
    uint32_t slot;   /* that it lies in */
    bool pinned;     /* false: no memory could be page-locked, and it will take longer */
} vram_feed_block;

/**
 * Begins a block of `bytes`: waits up to `timeout` ns until a slot's last upload is done
 * (VRAM_ERR_TIMEOUT). VRAM_ERR_BUSY, at once, when all slots are being filled. Contents are
 * whatever was there.
 */
VRAM_API vram_status vram_feed_begin(vram_feed *feed, uint64_t bytes, uint64_t timeout,
                                     vram_feed_block *block);

/**
 * Has the first `bytes` of a block copied to `to`, in the order of `consumer` as above; nothing
 * waits on the host. The block is the feed's again. *async, which may be NULL, is ready when the
 * bytes lie there. VRAM_ERR_INVALID, and nothing was submitted, for a number that is no block being
 * filled, for more bytes than it has, for memory or a queue of another device. After any failure
 * the block is still being filled and may be submitted again; where a driver failed half-way, what
 * lies at `to` is not certain.
 */
VRAM_API vram_status vram_feed_submit(vram_feed *feed, vram_queue *consumer, vram_addr to,
                                      uint64_t number, uint64_t bytes, vram_async *async);

/** Releases a block that is not to be submitted. VRAM_ERR_INVALID when it is not being filled. */
VRAM_API vram_status vram_feed_release(vram_feed *feed, uint64_t number);

/** What a feed has done. */
typedef struct vram_feed_stats {
    size_t size;           /* in: sizeof(vram_feed_stats) of the caller */
    uint64_t submitted;    /* blocks */
    uint64_t bytes;        /* of them */
    uint64_t stalls;       /* begins that had to wait for a slot */
    uint64_t direct;       /* blocks of mode STAGED that went as in DIRECT */
    uint64_t host_bytes;   /* of its slots now, ... */
    uint64_t pinned_bytes; /* ... of them page-locked, ... */
    uint64_t device_bytes; /* ... and of blocks on the device */
} vram_feed_stats;

VRAM_API vram_status vram_feed_stats_get(vram_feed *feed, vram_feed_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
