/* SPDX-License-Identifier: Apache-2.0 */
/*
 * named_object.h: what stands behind a vram_named.
 *
 *  (1) A manager is a child of its pool, pins nothing, and ends with it.
 *  (2) `entries` is in the order of the names and never loses one before the end: an entry without
 *      a buffer keeps its config. So an entry, once found, stays good for who has entered the
 *      manager.
 *  (3) Buffers are made and grown without the lock. What a call is about to take stands in
 *      `pending`, so that two at once do not pass the limit together. The program may grow or
 *      destroy a buffer by its handle: capacities are asked of the buffers again, without the lock,
 *      whenever the sum matters.
 *  (4) Of two calls that make one buffer the first to come back wins; the other lets go of its own.
 *  (5) One thread at a time grows a buffer: `grower`. Others wait; the same thread, from inside a
 *      callback, does not.
 *  (6) Who retires the handle ends the manager; `ended`, under the lock, keeps buffers out from
 *      then on.
 */
#ifndef VR_NAMED_OBJECT_H
#define VR_NAMED_OBJECT_H

#include "mem/buffer_object.h"
#include "vram/named.h"

struct vr_named_entry {
    char name[VRAM_BUFFER_NAME_MAX];
    uint64_t buffer;                 /* handle; 0: none */
    uint64_t capacity_bytes;         /* of it, when it was last asked */
    uint64_t grower;                 /* number of the thread that grows it; 0: nobody; (5) */
    struct vram_named_config config; /* `size` 0: nobody has said; its type is that of the buffer */
};

struct vr_named {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool_object; /* not pinned: for vr_pool_child_remove alone */
    uint64_t pool;               /* its handle */
    uint64_t wait_ns;            /* how long to wait for a buffer that is busy */
    vram_queue *queue;           /* home of its buffers; NULL: none */
    uint64_t limit_bytes;        /* 0: none */
    const char *tag;             /* the ledger's; NULL: none */
    struct vr_mutex lock;        /* guards the rest */
    bool ended;
    struct vr_named_entry **entries; /* (2) */
    size_t count, room;
    uint64_t pending_bytes; /* (3) */
    uint64_t peak_bytes, created, removed, resizes, refusals;
};

/* Looks at a name; VRAM_ERR_INVALID for what is none. */
vram_status vr_named_check(const char *name);
/* The place of a name, or where it belongs; whether it is there. Under the lock. */
bool vr_named_find(const struct vr_named *named, const char *name, size_t *at);
/* What the buffer behind a handle has now; all 0 when it is gone. The error record stays. No lock
   held. */
struct vram_buffer_info vr_named_buffer(uint64_t buffer);
/* The buffer of an entry; 0: there is none, or it was destroyed by its handle. Under the lock. */
uint64_t vr_named_live(const struct vr_named_entry *entry);
/* Asks all buffers for their capacities: keeps (3). No lock held. */
void vr_named_refresh(struct vr_named *named);
/* Their sum. Under the lock. */
uint64_t vr_named_total(const struct vr_named *named);

#endif
