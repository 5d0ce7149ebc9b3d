/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/stream.h: a set of queues of one device that are created, waited for and destroyed together.
 *
 *   vram_stream_set_create(device, NULL, &set);              compute, memory and analysis
 *   vram_stream_set_get(set, VRAM_STREAM_COMPUTE, &queue);   submit to it as to any queue
 *   vram_stream_set_order(set, VRAM_STREAM_COMPUTE, VRAM_STREAM_ANALYSIS);
 *   vram_stream_set_sync(set, &async);                       a handle for all work so far
 *   vram_stream_set_wait(set, timeout);                      or wait for it here
 *   vram_stream_set_destroy(set);
 *
 * The streams of a set are ordinary queues: every call that takes a queue takes them, and they run
 * in parallel to each other and to all other queues. On CUDA and HIP they are non-blocking streams,
 * which do not wait for the default stream. The set owns them: they are borrowed, and must not be
 * destroyed one by one.
 *
 * Every wait has a timeout. A failure is never reported as "not ready": if a driver returns an
 * error, or the device is lost, every wait ends with that error.
 *
 * Ownership: a set belongs to its device. Closing the device destroys it. Threads: any call may be
 * made from any thread.
 */
#ifndef VRAM_STREAM_H
#define VRAM_STREAM_H

#include <vram/async.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_stream_set vram_stream_set;

/** Indices of the streams in a set that was created without a list. */
typedef enum vram_stream {
    VRAM_STREAM_COMPUTE = 0,  /* "compute": kernels */
    VRAM_STREAM_MEMORY = 1,   /* "memory": copies and fills */
    VRAM_STREAM_ANALYSIS = 2, /* "analysis": reads results while the next ones are computed */
    VRAM_STREAM_COUNT = 3
} vram_stream;

enum {
    VRAM_STREAM_NAME_MAX = 32, /* bytes of a stream's name, the final 0 included */
    VRAM_STREAMS_MAX = 64      /* most streams of one set */
};

/** A stream to create. */
typedef struct vram_stream_plan {
    const char *name; /* copied; unique in the set; NULL: its index, "0", "1", ... */
    int32_t priority; /* as in vram_queue_options */
} vram_stream_plan;

typedef struct vram_stream_set_options {
    size_t size;    /* sizeof(vram_stream_set_options) */
    uint32_t count; /* of streams, at most VRAM_STREAMS_MAX; 0: three, as vram_stream */
    const vram_stream_plan *streams; /* `count` of them; NULL: no names, priority 0 */
} vram_stream_set_options;

/**
 * Creates a set: all of its queues, or none. VRAM_ERR_INVALID for a name that is empty, too long or
 * used twice, and for too many streams.
 */
VRAM_API vram_status vram_stream_set_create(vram_device *device,
                                            const vram_stream_set_options *options,
                                            vram_stream_set **set);

/**
 * Destroys the set and its queues, as vram_queue_destroy does. One deadline, the option
 * `wait_timeout`, covers all of them. The library keeps a queue that does not finish in time until
 * the device is closed, and the call returns what vram_queue_destroy returns for it. NULL is
 * allowed.
 */
VRAM_API vram_status vram_stream_set_destroy(vram_stream_set *set);

/* ----------------------------------------------------------------- its queues */

/** Stream `index`, borrowed. VRAM_ERR_INVALID if there is none. */
VRAM_API vram_status vram_stream_set_get(vram_stream_set *set, uint32_t index, vram_queue **queue);

/** The stream with that name, borrowed. VRAM_ERR_INVALID if there is none. */
VRAM_API vram_status vram_stream_set_find(vram_stream_set *set, const char *name,
                                          vram_queue **queue);

/**
 * The next stream in turn, borrowed: 0, 1, 2, ... and 0 again. Each stream is returned once before
 * any is returned twice, whichever threads call. The transfer queue is not part of the turn.
 */
VRAM_API vram_status vram_stream_set_next(vram_stream_set *set, vram_queue **queue);

/**
 * The set's transfer queue, borrowed: one more queue, for copies that run in parallel to all
 * streams. The first call creates it, and may fail like vram_queue_create. From then on marks,
 * waits and polls of the set include it.
 */
VRAM_API vram_status vram_stream_set_transfer(vram_stream_set *set, vram_queue **queue);

/** A stream of a set. */
typedef struct vram_stream_info {
    size_t size; /* in: sizeof(vram_stream_info) of the caller */
    uint32_t index;
    int32_t priority;  /* as requested; the driver may use another */
    vram_queue *queue; /* borrowed */
    uint64_t turns;    /* times that vram_stream_set_next returned it */
    char name[VRAM_STREAM_NAME_MAX];
} vram_stream_info;

/** VRAM_ERR_INVALID past the last stream, so that a program can count them. */
VRAM_API vram_status vram_stream_info_get(vram_stream_set *set, uint32_t index,
                                          vram_stream_info *info);

/* ------------------------------------------------------------ waiting for all */

/**
 * VRAM_OK if all work of all streams is complete, VRAM_ERR_NOT_READY if not. If a stream fails, the
 * first error, whatever the others return; its text names the stream. Asks the driver.
 */
VRAM_API vram_status vram_stream_set_poll(vram_stream_set *set);

/**
 * Waits for all work submitted to all streams so far, up to `timeout` ns for all of them together
 * (VRAM_ERR_TIMEOUT). If a stream fails, the wait ends with its error, whose text names it.
 */
VRAM_API vram_status vram_stream_set_wait(vram_stream_set *set, uint64_t timeout);

/**
 * Makes one point after all work submitted to all streams so far, without waiting. A queue of the
 * set joins the streams on the device, and no stream waits for it. The point can be polled, waited
 * for, and waited for by other queues. If work before it fails, or the device is lost, polls and
 * waits of the point return that error.
 */
VRAM_API vram_status vram_stream_set_mark(vram_stream_set *set, vram_point *point);

/**
 * The same as a handle, which may have callbacks. If work before it fails, the handle has the error
 * and its text.
 */
VRAM_API vram_status vram_stream_set_sync(vram_stream_set *set, vram_async *async);

/* ------------------------------------------------------- waits between queues */

/** Makes later work of stream `later` start after all work that stream `earlier` has so far. */
VRAM_API vram_status vram_stream_set_order(vram_stream_set *set, uint32_t earlier, uint32_t later);

/**
 * Makes later work of every stream start after `point`, which may be on any queue of the same
 * backend. If a stream fails, the others wait for the point all the same, and the call returns the
 * first error.
 */
VRAM_API vram_status vram_stream_set_after(vram_stream_set *set, vram_point point);

/**
 * Makes later work of every stream start after all work that all streams have so far. The host does
 * not wait.
 */
VRAM_API vram_status vram_stream_set_barrier(vram_stream_set *set);

#ifdef __cplusplus
}
#endif

#endif
