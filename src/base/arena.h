/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h: two ways to hold metadata.
 *
 * vr_arena: many small things that die together. Memory comes from vr_mem in chunks; nothing is
 * freed alone. Not thread-safe: its owner's lock guards it.
 *
 * vr_stable: objects of one size whose memory stays an object of that type until the process ends,
 * so that lock-free readers may look at one that was given back meanwhile and find out by its
 * generation. Memory comes from the OS in whole pages, is reused, never returned, and is reachable
 * from a global (no leak for a checker to report). Thread-safe.
 */
#ifndef VR_ARENA_H
#define VR_ARENA_H

#include "base/lock.h"

#include <stddef.h>
#include <stdint.h>

struct vr_arena_chunk;

struct vr_arena {
    struct vr_arena_chunk *chunks; /* newest first */
    size_t used;                   /* bytes of the newest chunk handed out */
    size_t total;                  /* bytes in all chunks */
};

/* Zeroed memory aligned to `align` (a power of two, at most 4096), or NULL with the error set: host
   memory or overflow. 0 bytes are 1. A zeroed struct vr_arena is an empty one. */
void *vr_arena_alloc(struct vr_arena *arena, size_t bytes, size_t align, const char *operation);
/* Frees everything; the arena is as new. */
void vr_arena_clear(struct vr_arena *arena);

struct vr_stable {
    struct vr_mutex lock;
    size_t object_bytes; /* set by the initialiser; at least sizeof(void *) */
    void *free;          /* list through the first word of each object given back */
    char *fresh;         /* next object never handed out, in the newest block */
    size_t fresh_count;  /* how many of them are left */
    void *blocks;        /* newest; each block's last word links to the one before */
    uint64_t page_bytes; /* bytes taken from the OS */
    bool wiped;          /* its pages are zeros in a forked child */
};

/* For variables of static storage only, as VR_MUTEX_INIT is. */
#define VR_STABLE_INIT(type)                                                                       \
    { .lock = VR_MUTEX_INIT(VR_RANK_STABLE), .object_bytes = sizeof(type) }
/* The same for what a child must not believe in: os.h, vr_os_pages_wipe. */
#define VR_STABLE_INIT_WIPED(type)                                                                 \
    { .lock = VR_MUTEX_INIT(VR_RANK_STABLE), .object_bytes = sizeof(type), .wiped = true }

/* An object; NOT zeroed beyond what the last user left, except when fresh from the OS (all zero).
   The first 8 bytes are undefined, also for a reader of an object that was given back: keep what
   readers look at behind them. NULL with VRAM_ERR_HOST_MEMORY recorded for `operation`. */
void *vr_stable_take(struct vr_stable *stable, const char *operation);
void vr_stable_give(struct vr_stable *stable, void *object);

#endif
