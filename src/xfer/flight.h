/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.h: the list of work in flight on one device, and one record of it, for flight.c and
 * async_record.c.
 *
 * A flight is created with the first record, watches its device, and pins it until it closes.
 *
 *  (1) A record is HELD (its producer will finish it), FOLLOWING (its point decides), READY or
 *      FAILED. It only moves forward, under the flight's lock. It is settled, READY or FAILED,
 *      exactly once: the thread that settles it takes its callbacks off and calls them, with no
 *      lock held.
 *  (2) point and outcome are written before the state that lets others read them.
 *  (3) A READY record is freed at once, and its handle becomes invalid (handle.h): a vram_async has
 *      in its words what it needs then. A record whose result was set at its end, and a FAILED one,
 *      stay until the handle is ended, or until the context is: a flight whose device has closed
 *      watches the context instead.
 *  (4) A record whose handle is ended is freed when it has no callbacks left to make and is no
 *      longer counted; a HELD one still has its producer's reference.
 *  (5) When a queue has ended its points count as passed, even if its device was lost. So such a
 *      point makes a record READY only if the device was not lost.
 *  (6) Only a lost device makes a FOLLOWING record FAILED. Any other refusal to answer says nothing
 *      about the work, which may still be writing to the caller's memory: it stays pending.
 *  (7) The program need not poll: each new record polls the two records that were polled longest
 *      ago, if they have no callbacks. So handles that are dropped without an end do not
 *      accumulate.
 */
#ifndef VR_FLIGHT_H
#define VR_FLIGHT_H

#include "vram/pool.h"
#include "xfer/async_record.h"
#include "xfer/rates.h"
#include "xfer/transfer_counts.h"

enum vr_async_phase {
    VR_ASYNC_HELD = 0,
    VR_ASYNC_FOLLOWING = 1,
    VR_ASYNC_READY = 2,
    VR_ASYNC_FAILED = 3
};

struct vr_callback {
    struct vr_callback *next;
    vram_async_fn *call;
    void *user;
};

struct vr_flight {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_context *context;      /* pinned */
    struct vr_mutex lock;            /* guards all below, and the records' fields */
    struct vr_cond changed;          /* a record was settled, or follows a point */
    struct vr_device_object *device; /* pinned; NULL once it has closed */
    bool lost;                       /* the device was lost when it closed */
    bool closed;                     /* the device is closing: no record begins */
    bool done;                       /* settled records are no longer kept */
    struct vr_list pending;          /* vr_async.link; polled longest ago first */
    struct vr_list settled;          /* the settled records that stay */
    vr_atomic_u64 bridge;            /* the library's own queue of the device; 0: none yet */
    vr_atomic_u64 pinned;            /* its pool of page-locked memory; 0: none yet */
    vr_atomic_u64 scatter;           /* the kernel of scatter.c; 0: not loaded yet */
    struct vr_rates rates;           /* measured cost of copies of ordinary memory */
};

/* One for each pending operation, so it is small: its failure lies apart. */
struct vr_async {
    struct vr_object object;
    struct vr_flight *flight; /* pinned */
    struct vr_link link;
    const char *operation;
    vram_point point; /* once VR_ASYNC_FOLLOWING */
    /* The result. Once VR_ASYNC_FAILED the struct vram_error, from vr_mem; 0: there was no memory
       for one. */
    vr_atomic_u64 outcome;
    struct vr_callback *last; /* registered; by `next` those before it */
    uint64_t start_ns;        /* of a counted transfer; vr_transfer_count */
    vr_atomic_u32 state;      /* enum vr_async_phase */
    int32_t status;           /* once VR_ASYNC_FAILED: vram_status */
    vr_atomic_u32 poll_us;    /* that a wait sleeps between polls; 0: as waits for points do */
    uint8_t direction, route, busy; /* of a counted transfer */
    bool counted : 1;               /* it is a counted transfer, and not settled */
    bool ended : 1;                 /* the handle was ended */
    bool late : 1;                  /* its result was set at its end */
    bool produced : 1; /* vram_async_begin made it; vram_async_finish was not called yet */
};
_Static_assert(sizeof(struct vr_async) <= 104, "what vram/async.h says of a pending operation");

/* The device's flight, pinned; created if there is none. NULL with the error set; flight.c. */
struct vr_flight *vr_flight_enter(struct vr_device_object *device);

/* A queue of the device for the library's own work, and a pool of page-locked memory: children of
   the device, created at first use. NULL with the error set; flight.c. */
vram_queue *vr_flight_queue(struct vr_device_object *device);
vram_pool *vr_flight_pinned(struct vr_device_object *device);
/* Frees a block of a pool after the work of a queue, which may be ending. A pool that has ended has
   freed it already. */
void vr_block_give(vram_pool *pool, vram_addr block, vram_queue *queue);

/* Makes a record of a flight, pending and published, with a reference for the caller.
   VRAM_ERR_SHUTDOWN when the device is closing; async_record.c. */
vram_status vr_async_make(struct vr_flight *flight, uint64_t result, vram_point point,
                          struct vr_async **made);
/* Settles a record, with the failure `cause` if it failed; does nothing if it is settled. The
   caller has a reference; async_record.c. */
void vr_async_settle(struct vr_async *record, vram_status status, const struct vram_error *cause);
/* Settles by what polling the record's point returned, keeping (5) and (6). Returns the record's
   status; async_record.c. */
vram_status vr_async_conclude(struct vr_async *record, vram_status status);

#endif
