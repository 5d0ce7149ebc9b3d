/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h: events of pools and transfers, one at a time, for a receiver that records them (a
 * trace) and, except those of transfers, for the log at debug level.
 *
 *  (1) The receiver is called on the thread that allocates or frees, with no lock of the library
 *      held and outside its caches: it may wait and write files. It must not call pools.
 *  (2) Events of one address are sent in order: an allocation before the program has the address, a
 *      free before the address can be allocated again.
 *  (3) When vr_events_to returns after removing the receiver, no call to it is in progress.
 *  (4) A pool sends events from its beginning or not at all (core/tracking/pool_tracking.h): it
 *      does if it is tracked, or was created while there was a receiver. Hits of such a pool may be
 *      written to a trace without an event (track/trace_shard.h). A transfer is sent by the thread
 *      that sees its end, whether or not pools are tracked.
 *  (5) An announcer (core/backing/announce.h) gets the same events, without a time, until the
 *      process ends.
 *  (6) After a fork the child sends no events to the receiver, whose file belongs to the parent.
 */
#ifndef VR_EVENT_H
#define VR_EVENT_H

#include "base/atomic.h"
#include "base/log.h"
#include "vram/base.h"

enum vr_event_kind {
    VR_EVENT_POOL_BEGIN = 1, /* name: the pool's */
    VR_EVENT_POOL_END = 2,   /* bytes, held, elements: what was live then, in `elements` blocks */
    VR_EVENT_ALLOC = 3,
    VR_EVENT_FREE = 4,
    VR_EVENT_RESIZE = 5,   /* in place; `before` is the old size */
    VR_EVENT_REFUSED = 6,  /* no block: status says why; id and addr are 0 */
    VR_EVENT_TRANSFER = 7, /* of no pool: a copy ended; see below */
    VR_EVENT_REPORT = 8    /* `report`, `stack`; the refusal follows, unless a retry succeeds */
};

struct vr_event {
    /* The pool itself, for core's own receivers; valid during the call. TRANSFER: the context, and
       `memory` is the direction, `stack` the route, `held` its ns. */
    void *source;
    const void *block; /* likewise, of ALLOC, FREE and RESIZE; else NULL */
    enum vr_event_kind kind;
    uint32_t memory;  /* vram_memory_kind */
    uint64_t time_ns; /* vr_clock_now, when it is sent */
    uint64_t id;      /* of the block, unique in the process; 0: none, its record was lost */
    uint64_t pool;    /* handles, never reused */
    uint64_t device;
    uint64_t queue;                       /* of the call; 0: none */
    uint64_t addr;                        /* as the program sees it */
    uint64_t bytes;                       /* as requested */
    uint64_t held;                        /* after rounding */
    uint64_t before;                      /* RESIZE: the requested bytes before; else 0 */
    uint64_t elements;                    /* 0: unknown */
    uint64_t thread;                      /* vr_os_thread_number of the caller */
    const char *tag;                      /* NULL: none; valid during the call, as `name` */
    const char *name;                     /* NULL: none; not set for FREE and RESIZE */
    const char *pool_name;                /* valid during the call; NULL for TRANSFER */
    char label[64];                       /* FREE and RESIZE: the block's name; "": none */
    uint32_t stack;                       /* number of its stack in stack.h; 0: none taken */
    vram_status status;                   /* REFUSED: why */
    const struct vram_oom_report *report; /* REPORT; valid during the call */
};

typedef void vr_event_fn(void *user, const struct vr_event *event);

/* Sends events to `take` from now on; NULL: to none. VRAM_ERR_BUSY: there is another receiver
   already. No lock held. */
vram_status vr_events_to(vr_event_fn *take, void *user);

/* Whether vr_events_to would find another receiver. */
bool vr_events_taken(void);

/* Sends events to the announcer as well; keeps (5). */
void vr_events_also_to(vr_event_fn *announce);

enum { VR_EVENTS_RECEIVED = 1, VR_EVENTS_ANNOUNCED = 2 };
extern vr_atomic_u32 vr_events_wanted_by;

/* Whether there is a receiver or an announcer, or may be a log at debug level: two relaxed
   loads. */
static inline bool vr_events_wanted(void) {
    return vr_load(&vr_events_wanted_by, VR_RELAXED) || vr_log_maybe(VRAM_LOG_DEBUG);
}
/* The same without the receiver. */
static inline bool vr_events_others_wanted(void) {
    return vr_load(&vr_events_wanted_by, VR_RELAXED) & VR_EVENTS_ANNOUNCED ||
           vr_log_maybe(VRAM_LOG_DEBUG);
}

/* Sends the event to the receiver, if there is one, with the time, and to the log; keeps (1) and
   (3). */
void vr_event_tell(struct vr_event *event);

/* "device", "pinned", "managed" or "host", for a vram_memory_kind. */
const char *vr_memory_name(uint32_t kind);

/* Logs one line at debug level: what the format says, then name, tag (NULL or "": none) and pool.
   No lock held. */
void vr_memory_log(const char *name, const char *tag, const char *pool, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
