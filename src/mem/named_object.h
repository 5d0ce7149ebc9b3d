/* SPDX-License-Identifier: Apache-2.0 */
/*
 * named_object.h: the object behind a vram_named, a manager of named buffers.
 *
 *  (1) A manager is a child of its pool, pins nothing, and ends with it.
 *  (2) `entries` is sorted by name and loses none before the end: an entry without a buffer keeps
 *      its config. So an entry, once found, stays valid for a call that has entered the manager.
 *  (3) Buffers are created and grown without the lock. The bytes that a call is about to allocate
 *      are counted in `pending_bytes`, so that two calls cannot exceed the limit together. The
 *      program may grow or destroy a buffer by its handle: capacities are read from the buffers
 *      again, without the lock, whenever the sum matters.
 *  (4) If two calls create one buffer, the first to finish wins; the other destroys its own.
 *  (5) One thread at a time grows a buffer: `grower`. Others wait; the same thread, called from
 *      inside a callback, does not.
 *  (6) The thread that retires the handle ends the manager. It sets `ended` under the lock, and no
 *      buffer is added after that.
 */
#ifndef VR_NAMED_OBJECT_H
#define VR_NAMED_OBJECT_H

#include "mem/buffer_object.h"
#include "vram/named.h"

struct vr_named_entry {
    char name[VRAM_BUFFER_NAME_MAX];
    uint64_t buffer;                 /* handle; 0: none */
    uint64_t capacity_bytes;         /* of the buffer, when last read */
    uint64_t grower;                 /* number of the thread that grows it; 0: none; (5) */
    struct vram_named_config config; /* `size` 0: not set; its type is that of the buffer */
};

struct vr_named {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool_object; /* not pinned: for vr_pool_child_remove alone */
    uint64_t pool;               /* its handle */
    uint64_t wait_ns;            /* how long to wait for a busy buffer */
    vram_queue *queue;           /* home of its buffers; NULL: none */
    uint64_t limit_bytes;        /* 0: none */
    const char *tag;             /* the ledger's; NULL: none */
    struct vr_mutex lock;        /* guards the rest */
    bool ended;
    struct vr_named_entry **entries; /* (2) */
    size_t count, capacity;
    uint64_t pending_bytes; /* (3) */
    uint64_t peak_bytes, created, removed, resizes, refusals;
};

/* VRAM_ERR_INVALID for an invalid name. */
vram_status vr_named_check(const char *name);
/* The index of a name, or where to insert it; whether it is there. Under the lock. */
bool vr_named_find(const struct vr_named *named, const char *name, size_t *at);
/* Information on the buffer of a handle; all 0 if it was destroyed. Keeps the error record. No lock
   held. */
struct vram_buffer_info vr_named_buffer(uint64_t buffer);
/* The buffer of an entry; 0: none, or destroyed by its handle. Under the lock. */
uint64_t vr_named_live(const struct vr_named_entry *entry);
/* Reads the capacities of all buffers: keeps (3). No lock held. */
void vr_named_refresh(struct vr_named *named);
/* The sum of the capacities. Under the lock. */
uint64_t vr_named_total(const struct vr_named *named);

#endif
