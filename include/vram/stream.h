/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/stream.h: several queues of one device, made, named, waited for and ended together.
 *
 *   vram_stream_set_create(device, NULL, &set);              compute, memory and analysis
 *   vram_stream_set_get(set, VRAM_STREAM_COMPUTE, &queue);   submit to it as to any queue
 *   vram_stream_set_order(set, VRAM_STREAM_COMPUTE, VRAM_STREAM_ANALYSIS);
 *   vram_stream_set_sync(set, &async);                       behind all of it, in one handle
 *   vram_stream_set_wait(set, timeout);                      or wait here
 *   vram_stream_set_destroy(set);
 *
 * The streams of a set are ordinary queues: they run beside each other and beside all other queues
 * (on CUDA and HIP they are non-blocking streams, which the default stream does not hold up), and
 * every call that takes a queue takes them. They are the set's: borrow them, and do not destroy
 * them one by one.
 *
 * Nothing here waits without a deadline, and a failure is never taken for "not ready": a driver
 * that answers with an error, and a device that was lost, end every wait with that error.
 *
 * Ownership: a set is its device's and ends with it at the latest. Threads: any call from any
 * thread.
 */
#ifndef VRAM_STREAM_H
#define VRAM_STREAM_H

#include <vram/async.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_stream_set vram_stream_set;

/** Places of the streams of a set that was made without a list. */
typedef enum vram_stream {
    VRAM_STREAM_COMPUTE = 0,  /* "compute": kernels */
    VRAM_STREAM_MEMORY = 1,   /* "memory": copies and fills */
    VRAM_STREAM_ANALYSIS = 2, /* "analysis": what looks at results while the next are made */
    VRAM_STREAM_COUNT = 3
} vram_stream;

enum {
    VRAM_STREAM_NAME_MAX = 32, /* bytes of a stream's name, the final 0 included */
    VRAM_STREAMS_MAX = 64      /* streams of one set */
};

/** One stream as it is asked for. */
typedef struct vram_stream_plan {
    const char *name; /* copied; unique in the set; NULL: its number, "0", "1", ... */
    int32_t priority; /* as in vram_queue_options */
} vram_stream_plan;

typedef struct vram_stream_set_options {
    size_t size;                     /* sizeof(vram_stream_set_options) */
    uint32_t count;                  /* of streams, at most VRAM_STREAMS_MAX; 0: the three */
    const vram_stream_plan *streams; /* `count` of them; NULL: no names, priority 0 */
} vram_stream_set_options;

/**
 * Makes a set: all of its queues, or none. VRAM_ERR_INVALID for a name that is given twice, is
 * empty or too long, and for too many streams.
 */
VRAM_API vram_status vram_stream_set_create(vram_device *device,
                                            const vram_stream_set_options *options,
                                            vram_stream_set **set);

/**
 * Destroys the set and its queues, as vram_queue_destroy does, all within one deadline, the option
 * `wait_timeout`. A queue that does not finish until then is kept aside until the device is closed,
 * and the answer is the one that vram_queue_destroy has for it. NULL is allowed.
 */
VRAM_API vram_status vram_stream_set_destroy(vram_stream_set *set);

/* ----------------------------------------------------------------- its queues */

/** Stream `index`, borrowed. VRAM_ERR_INVALID past the last. */
VRAM_API vram_status vram_stream_set_get(vram_stream_set *set, uint32_t index, vram_queue **queue);

/** The stream of that name, borrowed. VRAM_ERR_INVALID when there is none. */
VRAM_API vram_status vram_stream_set_find(vram_stream_set *set, const char *name,
                                          vram_queue **queue);

/**
 * The streams in turn, borrowed: 0, 1, 2, ... and 0 again, each once before any comes twice,
 * whichever threads ask. The transfer queue takes no turn.
 */
VRAM_API vram_status vram_stream_set_next(vram_stream_set *set, vram_queue **queue);

/**
 * The set's transfer queue, borrowed: one more queue, for copies that are to run beside all
 * streams. It is made by the first call that asks for it, which may therefore fail like
 * vram_queue_create, and is part of the set from then on: marks, waits and polls of the set include
 * it.
 */
VRAM_API vram_status vram_stream_set_transfer(vram_stream_set *set, vram_queue **queue);

/** What a stream is. */
typedef struct vram_stream_info {
    size_t size; /* in: sizeof(vram_stream_info) of the caller */
    uint32_t index;
    int32_t priority;  /* as asked for; what the driver makes of it is its own business */
    vram_queue *queue; /* borrowed */
    uint64_t turns;    /* times that vram_stream_set_next gave it */
    char name[VRAM_STREAM_NAME_MAX];
} vram_stream_info;

/** VRAM_ERR_INVALID past the last stream: so it counts them, too. */
VRAM_API vram_status vram_stream_info_get(vram_stream_set *set, uint32_t index,
                                          vram_stream_info *info);

/* ------------------------------------------------------------ waiting for all */

/**
 * VRAM_OK when all work of all streams is done, VRAM_ERR_NOT_READY when not, and the first error
 * otherwise, whatever the others say; its text names the stream. Asks the driver.
 */
VRAM_API vram_status vram_stream_set_poll(vram_stream_set *set);

/**
 * Waits for all work submitted so far to all streams: one deadline for all of them, `timeout` ns
 * from now (VRAM_ERR_TIMEOUT). A stream that fails ends the wait with its error, and the text names
 * it.
 */
VRAM_API vram_status vram_stream_set_wait(vram_stream_set *set, uint64_t timeout);

/**
 * Makes one point behind all work submitted so far to all streams, without waiting: the streams are
 * joined on the device, on a queue of the set's own, which holds none of them up. Poll it, wait for
 * it with a deadline, have other queues wait for it. An error on the way to it, or a lost device,
 * is what polls and waits of the point answer.
 */
VRAM_API vram_status vram_stream_set_mark(vram_stream_set *set, vram_point *point);

/**
 * The same as a handle: synchronises all streams without waiting. Errors on the way arrive in it,
 * with their text, and it may have callbacks.
 */
VRAM_API vram_status vram_stream_set_sync(vram_stream_set *set, vram_async *async);

/* ------------------------------------------------------- waits between queues */

/** Later work of stream `later` starts after all work that stream `earlier` has so far. */
VRAM_API vram_status vram_stream_set_order(vram_stream_set *set, uint32_t earlier, uint32_t later);

/**
 * Later work of every stream starts after `point`, which may lie on any queue of the same backend.
 * When a stream refuses, the others wait all the same; the first error is the answer.
 */
VRAM_API vram_status vram_stream_set_after(vram_stream_set *set, vram_point point);

/**
 * Later work of every stream starts after all work that all streams have so far. The host does not
 * wait.
 */
VRAM_API vram_status vram_stream_set_barrier(vram_stream_set *set);

#ifdef __cplusplus
}
#endif

#endif
