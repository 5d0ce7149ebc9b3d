/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h: what pools and transfers tell, one event at a time, for whoever writes it down (a
 * trace).
 *
 *  (1) The receiver is called on the thread that allocates or frees, with no lock of the library
 *      held and outside its caches: it may wait and write files. It must not call pools.
 *  (2) Events of one address are told in their order: an allocation before the program has the
 *      address, a free before anybody can have it again.
 *  (3) Who ends the telling knows that no call is under way when vr_events_to returns.
 *  (4) Only pools that are tracked tell, and a pool is tracked from its beginning or not at all
 *      (core/tracking/pool_tracking.h). While somebody listens all new pools are.
 *      A transfer is told by whoever sees its end, traced pools or not.
 *  (5) After a fork the child tells nobody: what the parent writes is the parent's.
 */
#ifndef VR_EVENT_H
#define VR_EVENT_H

#include "base/atomic.h"
#include "vram/base.h"

enum vr_event_kind {
    VR_EVENT_POOL_BEGIN = 1, /* name: the pool's */
    VR_EVENT_POOL_END = 2,   /* what it had is gone; bytes, held: what was live then,
                                and `elements`: in how many blocks */
    VR_EVENT_ALLOC = 3,
    VR_EVENT_FREE = 4,
    VR_EVENT_RESIZE = 5,  /* in place; `before` is what it was */
    VR_EVENT_REFUSED = 6, /* no block: status says why; id and addr are 0 */
    VR_EVENT_TRANSFER = 7 /* of no pool: a copy ended; see below */
};

struct vr_event {
    void *source; /* the pool itself, for core's own receivers; there during the call. TRANSFER: the
                     context, and `memory` is the direction, `stack` the route, `held` its ns */
    enum vr_event_kind kind;
    uint32_t memory;  /* vram_memory_kind */
    uint64_t time_ns; /* vr_clock_now, when it is told */
    uint64_t id;      /* of the block, unique in the process; 0: none, its record was lost */
    uint64_t pool;    /* handles, never used twice */
    uint64_t device;
    uint64_t queue;     /* of the call; 0: none */
    uint64_t addr;      /* as the program has it */
    uint64_t bytes;     /* as asked for */
    uint64_t held;      /* after rounding */
    uint64_t before;    /* RESIZE: bytes as they were asked for before; else 0 */
    uint64_t elements;  /* 0: not said */
    uint64_t thread;    /* vr_os_thread_number of the caller */
    const char *tag;    /* NULL: none; valid during the call, as `name` */
    const char *name;   /* NULL: none; not told of FREE and RESIZE */
    uint32_t stack;     /* number of its stack in stack.h; 0: none taken */
    vram_status status; /* REFUSED: why */
};

typedef void vr_event_fn(void *user, const struct vr_event *event);

/* From now on tells `take`; NULL: nobody. VRAM_ERR_BUSY: there is another one already. No lock
   held. */
vram_status vr_events_to(vr_event_fn *take, void *user);

/* Whether vr_events_to would find another one. */
bool vr_events_taken(void);

extern vr_atomic_bool vr_events_wanted_flag;

/* Whether somebody listens: one relaxed load. */
static inline bool vr_events_wanted(void) {
    return vr_load(&vr_events_wanted_flag, VR_RELAXED);
}

/* Tells whoever listens, with the time; keeps (1) and (3). */
void vr_event_tell(struct vr_event *event);

#endif
