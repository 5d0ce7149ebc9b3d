/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/ring.h: messages between the host and a kernel, both ways.
 *
 *   vram_ring_create(pool, NULL, &ring);
 *   vram_ring_info_get(ring, &info);             the kernel gets info.control as its argument,
 *   vram_queue_launch(other_queue, kernel, ...); includes vram/ring_device.h and is the other end
 *   vram_ring_send(ring, &request, sizeof request, 0, timeout);
 *   vram_ring_receive(ring, &answer, sizeof answer, timeout, &header);
 *   vram_ring_stop(ring);
 *   vram_ring_join(ring, timeout);
 *   vram_ring_destroy(ring);
 *
 * A ring has an input, from the host to the device, and an output, back. Each holds `capacity` messages of up
 * to `message_bytes`; vram/ring_layout.h has the layout and the convention. What a full ring does is make its
 * senders wait: nothing is ever lost or overwritten.
 *
 * How messages get across is the strategy:
 *
 *   SYNC         the ring lies in device memory. vram_ring_flush copies what was sent and waits for it,
 *                vram_ring_fetch brings what the device has published. At most two copies for any
 *                number of messages, and one word more.
 *   ASYNC        the same without waiting: flush and fetch give an async handle.
 *   DMA_POLLING  the same by a thread of the ring's own, again and again, every poll_ns.
 *   DIRECT       the ring lies in memory that both reach: nothing is copied, fences are all it takes.
 *
 * A kernel that runs all the while, as in the lines above, needs VRAM_VISIBILITY_SYSTEM (vram/visibility.h);
 * vram_ring_info.live says whether there is that. Elsewhere DIRECT is VRAM_ERR_UNSUPPORTED with the reason, and
 * with the others the kernel is launched on the ring's own queue (vram_ring_info.queue) after a flush, works off
 * what is there, ends with VRAM_RING_RELAUNCHABLE, and is launched again.
 *
 * Ownership: a ring is its pool's, like a buffer, and takes its memory from it.
 * Threads: any call from any thread. Two that send at the same time need VRAM_RING_MULTI_INPUT, or the second
 * is VRAM_ERR_BUSY; the same goes for two that receive, always.
 * A driver that fails in the middle of a copy fails the call, and no message is lost, doubled or out
 * of order: some may have arrived already, and the next call that copies continues from there.
 * A device is not trusted: its counters, sequences and lengths are checked before they are used. Damage is
 * VRAM_ERR_CORRUPT from then on, for every call but vram_ring_destroy and those that only look.
 */
#ifndef VRAM_RING_H
#define VRAM_RING_H

#include <vram/async.h>
#include <vram/pool.h>
#include <vram/ring_layout.h>
#include <vram/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_ring vram_ring;

typedef enum vram_ring_strategy {
    VRAM_RING_AUTO = 0, /* DIRECT where that can be, else DMA_POLLING */
    VRAM_RING_SYNC = 1,
    VRAM_RING_ASYNC = 2,
    VRAM_RING_DIRECT = 3,
    VRAM_RING_DMA_POLLING = 4
} vram_ring_strategy;

/** "auto", "sync", "async", "direct", "dma_polling"; "unknown" for a number that is none. */
VRAM_API const char *vram_ring_strategy_name(vram_ring_strategy strategy);

typedef enum vram_ring_flag {
    VRAM_RING_INPUT = 1 << 0,        /* host to device; neither this nor the next: both ways */
    VRAM_RING_OUTPUT = 1 << 1,       /* device to host */
    VRAM_RING_MULTI_INPUT = 1 << 2,  /* several threads of the host send */
    VRAM_RING_MULTI_OUTPUT = 1 << 3, /* several threads of the device send: vram_ring_peer_claim */
    VRAM_RING_CRC = 1 << 4,          /* each payload carries its CRC-32, and is checked */
    VRAM_RING_NO_TELEMETRY = 1 << 5  /* the kernel reads no clock and reports less */
} vram_ring_flag;

enum {
    VRAM_RING_CAPACITY_DEFAULT = 4096, /* messages */
    VRAM_RING_CAPACITY_MAX = 1 << 24,  /* messages */
    VRAM_RING_MESSAGE_DEFAULT = 96,    /* bytes: a slot is then one cache line */
    VRAM_RING_MESSAGE_MAX = 16 << 20,  /* bytes */
    VRAM_RING_REASON_MAX = VRAM_VISIBILITY_REASON_MAX
};

/** How often the thread of DMA_POLLING looks: 100 us, and at least every 10 s. */
#define VRAM_RING_POLL_NS     UINT64_C(100000)
#define VRAM_RING_POLL_MAX_NS UINT64_C(10000000000)

typedef struct vram_ring_options {
    size_t size; /* sizeof(vram_ring_options) */
    vram_ring_strategy strategy;
    uint32_t flags;             /* of vram_ring_flag */
    uint32_t input_capacity;    /* messages, a power of two; 0: VRAM_RING_CAPACITY_DEFAULT */
    uint32_t output_capacity;   /* the same */
    uint32_t message_bytes;     /* of the largest payload; 0: VRAM_RING_MESSAGE_DEFAULT */
    vram_visibility visibility; /* AUTO: what the machine has; or less than that */
    uint64_t poll_ns;           /* DMA_POLLING: between looks; 0: VRAM_RING_POLL_NS */
    vram_queue *queue;          /* that copies go on; NULL: one of the ring's own */
    const char *kernel_text;    /* in the place of /proc/version; NULL: that itself */
} vram_ring_options;

/**
 * A ring on the pool's device. VRAM_ERR_INVALID for a capacity that is no power of two (the text names the next
 * one), a size or interval past its maximum, and a strategy, flag or visibility that is none; _UNSUPPORTED, with the
 * reason, for a strategy or visibility that the device or the system does not have. Exhaustion as
 * vram_buffer_create has it.
 */
VRAM_API vram_status vram_ring_create(vram_pool *pool, const vram_ring_options *options,
                                      vram_ring **ring);

/**
 * Ends it: its thread, if it has one, its queue and its memory. The kernel has ended, or was never launched: stop
 * and join come first. Messages that are still in it are gone. NULL is allowed, a second call is VRAM_ERR_STALE.
 * VRAM_ERR_BUSY on the ring's own thread, in a log callback that it called: it cannot wait for itself.
 */
VRAM_API vram_status vram_ring_destroy(vram_ring *ring);

/* ------------------------------------------------------------------- messages */

/** A message to be sent. */
typedef struct vram_ring_message {
    const void *data; /* NULL with 0 bytes */
    uint32_t bytes;
    uint32_t kind; /* the program's own number; comes with the message */
} vram_ring_message;

/**
 * Puts a message into the input. While it is full it waits up to `timeout` ns, and copies meanwhile with SYNC and
 * ASYNC. VRAM_ERR_NOT_READY when it is full and timeout is 0 (no error record for that), VRAM_ERR_TIMEOUT later,
 * which tells how far the device has come; _SHUTDOWN after vram_ring_stop; _INVALID for a message that is too
 * long, and for a ring without an input.
 */
VRAM_API vram_status vram_ring_send(vram_ring *ring, const void *data, uint32_t bytes,
                                    uint32_t kind, uint64_t timeout);

/**
 * The same for several, in order. *sent, which is written on failure too, is how many are in the ring; VRAM_OK
 * only when all are.
 */
VRAM_API vram_status vram_ring_send_many(vram_ring *ring, const vram_ring_message *messages,
                                         uint64_t count, uint64_t timeout, uint64_t *sent);

/**
 * Copies the oldest output message to `data` and takes it off. Waits up to `timeout` ns for one: VRAM_ERR_NOT_READY
 * (no error record) when there is none and timeout is 0, VRAM_ERR_TIMEOUT later. *header, which may be NULL, says
 * how long it is and of which kind. VRAM_ERR_LIMIT: it is longer than `room`, and stays; *header is written then.
 * VRAM_ERR_CORRUPT for a payload that does not fit its CRC: that message is gone, the ring goes on.
 */
VRAM_API vram_status vram_ring_receive(vram_ring *ring, void *data, uint32_t room, uint64_t timeout,
                                       vram_ring_slot *header);

/**
 * Makes all that was sent visible to the device. *messages, which may be NULL, is how many this call copied: with
 * DIRECT always 0, since they are there. *async, which may be NULL, is done when they have arrived, and has the same
 * number as its result; with SYNC it is done already.
 */
VRAM_API vram_status vram_ring_flush(vram_ring *ring, uint64_t *messages, vram_async *async);

/**
 * The other way: brings what the device has published, and tells it how much room there is. *messages is how many
 * this call found to have arrived. With ASYNC it takes a look at the device's counter and a copy, one behind the
 * other: call it again, or receive, which does so by itself.
 */
VRAM_API vram_status vram_ring_fetch(vram_ring *ring, uint64_t *messages, vram_async *async);

/* ----------------------------------------------------------------- its end */

/**
 * Says that no more is sent, and tells the kernel, behind all that was sent, to end. Waits for
 * nothing. After a failure nothing more is sent either; the next call that copies tells the kernel.
 */
VRAM_API vram_status vram_ring_stop(vram_ring *ring);

/**
 * Waits until the device has taken every message that was sent. VRAM_ERR_TIMEOUT tells how many it has, and whether
 * the kernel has ended: a consumer that died is found out here.
 */
VRAM_API vram_status vram_ring_drain(vram_ring *ring, uint64_t timeout);

/**
 * Waits until the kernel says that it has ended, by vram_ring_peer_end. What it published before can still be
 * received; for what it wrote elsewhere its queue is waited for. VRAM_ERR_TIMEOUT when it does not: it was never launched, still works, or died.
 */
VRAM_API vram_status vram_ring_join(vram_ring *ring, uint64_t timeout);

/* --------------------------------------------------------------- what it is */

typedef struct vram_ring_info {
    size_t size;                 /* in: sizeof(vram_ring_info) of the caller */
    vram_addr control;           /* the control block: the kernel's argument */
    uint64_t bytes;              /* of the ring from there on */
    vram_ring_strategy strategy; /* that it has, never AUTO */
    vram_visibility visibility;  /* that its fences obey, never AUTO */
    bool live;                   /* a kernel that runs on another queue can be the other end */
    uint32_t flags;              /* of vram_ring_flag, both directions spelled out */
    uint32_t input_capacity, output_capacity, message_bytes;
    uint64_t poll_ns;                  /* 0 but with DMA_POLLING */
    vram_queue *queue;                 /* that copies go on, borrowed; NULL with DIRECT */
    char reason[VRAM_RING_REASON_MAX]; /* why there is no more visibility; "" for SYSTEM */
} vram_ring_info;

VRAM_API vram_status vram_ring_info_get(vram_ring *ring, vram_ring_info *info);

typedef struct vram_ring_stats {
    size_t size;                   /* in: sizeof(vram_ring_stats) of the caller */
    uint64_t host_to_device_count; /* messages made visible to the device */
    uint64_t device_to_host_count; /* messages made visible to the host */
    uint64_t sent, received;       /* messages, by calls of the program */
    uint64_t taken;                /* input messages that the device is known to have taken */
    uint64_t copies, copied_bytes; /* of slots, both ways, not of words */
    uint64_t words;                /* copies of single words */
    uint64_t full_waits;           /* sends that found the ring full */
    uint64_t empty_waits;          /* receives that found it empty */
    uint64_t crc_errors;           /* received messages that did not fit their CRC */
    uint64_t kernel_errors;        /* that the kernel is known to have found */
    bool stopped;                  /* vram_ring_stop was called */
    bool corrupt;                  /* damage was found */
    int32_t has_terminated;        /* as the kernel is known to have told last */
} vram_ring_stats;

/** Looks at what the host knows, and asks no device. */
VRAM_API vram_status vram_ring_stats_get(vram_ring *ring, vram_ring_stats *stats);

/** The kernel's own account, as it was reported last. Waits for a copy but with DIRECT. */
VRAM_API vram_status vram_ring_telemetry_get(vram_ring *ring, vram_ring_telemetry *telemetry);

/**
 * Holds the control block against what vram_ring_create wrote, and the counters against each other. VRAM_ERR_CORRUPT
 * names what is wrong. Waits for a copy but with DIRECT.
 */
VRAM_API vram_status vram_ring_check(vram_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
