/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/ring.h: messages between the host and a kernel, in both directions.
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
 * A ring has an input, from the host to the device, and an output, from the device to the host.
 * Each holds `capacity` messages of up to `message_bytes`; vram/ring_layout.h has the layout and
 * the convention. A full ring makes its senders wait: nothing is ever lost or overwritten.
 *
 * The strategy says how messages travel:
 *
 *   SYNC         the ring lies in device memory. vram_ring_flush copies what was sent and waits for
 *                it, vram_ring_fetch brings what the device has published. Each takes at most two
 *                copies for any number of messages, and one word more.
 *   ASYNC        the same without waiting: flush and fetch return an async handle.
 *   DMA_POLLING  the same by a thread of the ring, every poll_ns.
 *   DIRECT       the ring lies in memory that both reach: nothing is copied, it takes fences alone.
 *
 * A kernel that runs all the time, as in the lines above, needs VRAM_VISIBILITY_SYSTEM
 * (vram/visibility.h); vram_ring_info.live says whether that is available. Without it DIRECT
 * returns VRAM_ERR_UNSUPPORTED with the reason. With the other strategies the kernel is then
 * launched on the ring's own queue (vram_ring_info.queue) after a flush, handles the messages that
 * are there, ends with VRAM_RING_RELAUNCHABLE, and is launched again.
 *
 * Ownership: a ring belongs to its pool, like a buffer, and takes its memory from it. Where DIRECT
 * lies in the pool itself (host devices), the ring pins it: the pool neither sleeps nor is sealed.
 *
 * Threads: any call may be made from any thread. Two threads that send at the same time need
 * VRAM_RING_MULTI_INPUT; without it the second gets VRAM_ERR_BUSY. Of two threads that receive at
 * the same time the second always gets VRAM_ERR_BUSY.
 *
 * If a driver fails in the middle of a copy, the call fails, and no message is lost, doubled or out
 * of order. Some may have arrived already, and the next call that copies continues from there.
 *
 * The device is not trusted: its counters, sequences and lengths are checked before they are used.
 * After damage every call returns VRAM_ERR_CORRUPT, except vram_ring_destroy and those that only
 * look.
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
    VRAM_RING_AUTO = 0, /* DIRECT if it is available, else DMA_POLLING */
    VRAM_RING_SYNC = 1,
    VRAM_RING_ASYNC = 2,
    VRAM_RING_DIRECT = 3,
    VRAM_RING_DMA_POLLING = 4
} vram_ring_strategy;

/** "auto", "sync", "async", "direct", "dma_polling"; "unknown" for any other number. */
VRAM_API const char *vram_ring_strategy_name(vram_ring_strategy strategy);

typedef enum vram_ring_flag {
    VRAM_RING_INPUT = 1 << 0,        /* host to device; without this and the next: both */
    VRAM_RING_OUTPUT = 1 << 1,       /* device to host */
    VRAM_RING_MULTI_INPUT = 1 << 2,  /* several threads of the host send */
    VRAM_RING_MULTI_OUTPUT = 1 << 3, /* several threads of the device send: vram_ring_peer_claim */
    VRAM_RING_CRC = 1 << 4,          /* each payload has a CRC-32, which is checked */
    VRAM_RING_NO_TELEMETRY = 1 << 5  /* the kernel does not read a clock, and reports less */
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
    uint32_t flags;             /* bits of vram_ring_flag, with both directions */
    uint32_t input_capacity;    /* messages, a power of two; 0: VRAM_RING_CAPACITY_DEFAULT */
    uint32_t output_capacity;   /* the same */
    uint32_t message_bytes;     /* of the largest payload; 0: VRAM_RING_MESSAGE_DEFAULT */
    vram_visibility visibility; /* of its fences, never AUTO */
    uint64_t poll_ns;           /* DMA_POLLING: between looks; 0: VRAM_RING_POLL_NS */
    vram_queue *queue;          /* the queue for copies; NULL: one of the ring's own */
    const char *kernel_text;    /* replaces the content of /proc/version; NULL: the file is read */
} vram_ring_options;

/**
 * Creates a ring on the pool's device. VRAM_ERR_INVALID for a capacity that is not a power of two
 * (the text names the next one), a size or interval above its maximum, and an unknown strategy,
 * flag or visibility. VRAM_ERR_UNSUPPORTED, with the reason, for a strategy or visibility that the
 * device or the system does not have. Exhaustion as for vram_buffer_create.
 */
VRAM_API vram_status vram_ring_create(vram_pool *pool, const vram_ring_options *options,
                                      vram_ring **ring);

/**
 * Destroys a ring with its thread, its queue and its memory. The kernel must have ended, or never
 * have been launched: call stop and join first. Messages that are still in the ring are lost. NULL
 * is allowed. A second call returns VRAM_ERR_STALE. VRAM_ERR_BUSY on the ring's own thread, in a
 * log callback, because it cannot wait for itself.
 */
VRAM_API vram_status vram_ring_destroy(vram_ring *ring);

/* ------------------------------------------------------------------- messages */

/** A message to send. */
typedef struct vram_ring_message {
    const void *data; /* NULL with 0 bytes */
    uint32_t bytes;
    uint32_t kind; /* a number of the program's, sent with the message */
} vram_ring_message;

/**
 * Sends a message. While the input is full, it waits up to `timeout` ns; with SYNC and ASYNC it
 * copies meanwhile. If it is full, VRAM_ERR_NOT_READY with a timeout of 0 (without an error
 * record), else VRAM_ERR_TIMEOUT, whose text says how far the device has got. VRAM_ERR_SHUTDOWN
 * after vram_ring_stop. VRAM_ERR_INVALID for a message that is too long, and for a ring without an
 * input.
 */
VRAM_API vram_status vram_ring_send(vram_ring *ring, const void *data, uint32_t bytes,
                                    uint32_t kind, uint64_t timeout);

/**
 * The same for several messages, in order. *sent, which is also written on failure, is how many are
 * in the ring. VRAM_OK only if all are.
 */
VRAM_API vram_status vram_ring_send_many(vram_ring *ring, const vram_ring_message *messages,
                                         uint64_t count, uint64_t timeout, uint64_t *sent);

/**
 * Takes the oldest output message off the ring and copies it to `data`. Waits up to `timeout` ns
 * for one: VRAM_ERR_NOT_READY (without an error record) if there is none and the timeout is 0, else
 * VRAM_ERR_TIMEOUT. *header, which may be NULL, gives its length and kind. VRAM_ERR_LIMIT if it is
 * longer than `room`: it stays in the ring, and *header is written. VRAM_ERR_CORRUPT for a payload
 * that does not match its CRC: that message is lost, the ring goes on.
 */
VRAM_API vram_status vram_ring_receive(vram_ring *ring, void *data, uint32_t room, uint64_t timeout,
                                       vram_ring_slot *header);

/**
 * Makes all sent messages visible to the device. *messages, which may be NULL, is how many this
 * call copied: 0 with DIRECT, because they are there already. *async, which may be NULL, is ready
 * when they have arrived, with the same number as its result; with SYNC it is ready already.
 */
VRAM_API vram_status vram_ring_flush(vram_ring *ring, uint64_t *messages, vram_async *async);

/**
 * The other direction: brings the messages that the device has published, and tells it how much
 * room there is. *messages is how many this call found to have arrived. With ASYNC that takes a
 * read of the device's counter and then a copy: call it again, or receive, which does so by itself.
 */
VRAM_API vram_status vram_ring_fetch(vram_ring *ring, uint64_t *messages, vram_async *async);

/* ----------------------------------------------------------------- its end */

/**
 * Ends sending: the kernel is told to end after all messages that were sent. Waits for nothing.
 * After a failure no more can be sent either; the next call that copies tells the kernel.
 */
VRAM_API vram_status vram_ring_stop(vram_ring *ring);

/**
 * Waits until the device has taken every message that was sent. The text of VRAM_ERR_TIMEOUT says
 * how many it has taken, and whether the kernel has ended: so it finds a consumer that died.
 */
VRAM_API vram_status vram_ring_drain(vram_ring *ring, uint64_t timeout);

/**
 * Waits until the kernel has ended its part by vram_ring_peer_end. What it published before can
 * still be received; for what it wrote elsewhere, wait for its queue. VRAM_ERR_TIMEOUT if it was
 * never launched, still runs, or died.
 */
VRAM_API vram_status vram_ring_join(vram_ring *ring, uint64_t timeout);

/* --------------------------------------------------------------- what it is */

typedef struct vram_ring_info {
    size_t size;                 /* in: sizeof(vram_ring_info) of the caller */
    vram_addr control;           /* the control block: the kernel's argument */
    uint64_t bytes;              /* of the ring, from there on */
    vram_ring_strategy strategy; /* in use, never AUTO */
    vram_visibility visibility;  /* that its fences obey, never AUTO */
    bool live;                   /* a kernel on another queue can be the other end while it runs */
    uint32_t flags;              /* of vram_ring_flag, both directions spelled out */
    uint32_t input_capacity, output_capacity, message_bytes;
    uint64_t poll_ns;                  /* 0 except with DMA_POLLING */
    vram_queue *queue;                 /* the queue for copies, borrowed; NULL with DIRECT */
    char reason[VRAM_RING_REASON_MAX]; /* why visibility is not higher; "" for SYSTEM */
} vram_ring_info;

VRAM_API vram_status vram_ring_info_get(vram_ring *ring, vram_ring_info *info);

typedef struct vram_ring_stats {
    size_t size;                   /* in: sizeof(vram_ring_stats) of the caller */
    uint64_t host_to_device_count; /* messages made visible to the device */
    uint64_t device_to_host_count; /* messages made visible to the host */
    uint64_t sent, received;       /* messages, by calls of the program */
    uint64_t taken;                /* input messages that the device is known to have taken */
    uint64_t copies, copied_bytes; /* of slots, in both directions, without single words */
    uint64_t words;                /* copies of single words */
    uint64_t full_waits;           /* sends that found the ring full */
    uint64_t empty_waits;          /* receives that found it empty */
    uint64_t crc_errors;           /* received messages that did not match their CRC */
    uint64_t kernel_errors;        /* that the kernel is known to have found */
    bool stopped;                  /* vram_ring_stop was called */
    bool corrupt;                  /* damage was found */
    int32_t has_terminated;        /* the last value known from the kernel */
} vram_ring_stats;

/** What the host knows; it does not ask the device. */
VRAM_API vram_status vram_ring_stats_get(vram_ring *ring, vram_ring_stats *stats);

/** The kernel's telemetry, as last reported. Waits for a copy, except with DIRECT. */
VRAM_API vram_status vram_ring_telemetry_get(vram_ring *ring, vram_ring_telemetry *telemetry);

/**
 * Compares the control block with what vram_ring_create wrote, and the counters with each other.
 * VRAM_ERR_CORRUPT names what is wrong. Waits for a copy, except with DIRECT.
 */
VRAM_API vram_status vram_ring_check(vram_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
