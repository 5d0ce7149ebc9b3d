/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stable.h: objects of one size whose memory holds objects of that type until the process ends. A
 * lock-free reader may therefore read an object that was freed meanwhile, and detects that by its
 * generation. Memory comes from the OS in whole pages, is reused and never returned, and is
 * reachable from a global, so leak checkers do not report it. Thread-safe.
 */
#ifndef VR_STABLE_H
#define VR_STABLE_H

#include "base/lock.h"

#include <stddef.h>
#include <stdint.h>

struct vr_stable {
    struct vr_mutex lock;
    size_t object_bytes; /* set by the initialiser; at least sizeof(void *) */
    void *free;          /* list through the first word of each freed object */
    char *fresh;         /* next object never handed out, in the newest block */
    size_t fresh_count;  /* objects left there */
    void *blocks;        /* newest; each block's last word links to the one before */
    uint64_t page_bytes; /* bytes taken from the OS */
    bool wiped;          /* its pages are zeros in a forked child */
};

/* Only for variables of static storage, as VR_MUTEX_INIT. */
#define VR_STABLE_INIT(type)                                                                       \
    { .lock = VR_MUTEX_INIT(VR_RANK_STABLE), .object_bytes = sizeof(type) }
/* The same for objects that must read as zeros in a forked child: os.h, vr_os_pages_wipe. */
#define VR_STABLE_INIT_WIPED(type)                                                                 \
    { .lock = VR_MUTEX_INIT(VR_RANK_STABLE), .object_bytes = sizeof(type), .wiped = true }

/* An object. It holds what its last user left in it, or zeros if its memory is new from the OS. Its
   first 8 bytes are undefined, also for a reader of a freed object, so fields that readers use come
   after them. NULL with VRAM_ERR_HOST_MEMORY recorded for `operation`. */
void *vr_stable_take(struct vr_stable *stable, const char *operation);
void vr_stable_give(struct vr_stable *stable, void *object);

#endif
