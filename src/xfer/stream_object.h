/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_object.h: the object behind a vram_stream_set. The numbers in brackets are those of
 * stream_set.c.
 */
#ifndef VR_STREAM_OBJECT_H
#define VR_STREAM_OBJECT_H

#include "device/objects.h"
#include "vram/stream.h"

struct vr_stream {
    vram_queue *queue;
    int32_t priority;
    char name[VRAM_STREAM_NAME_MAX];
};

struct vr_stream_set {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vr_atomic_u64 turn;              /* calls of vram_stream_set_next */
    vr_atomic_ptr transfer, join;    /* vram_queue *; NULL until first used */
    uint32_t count;
    struct vr_stream streams[]; /* `count` of them; keeps (2) */
};

vram_status vr_stream_set_enter(vram_stream_set *handle, struct vr_stream_set **set);

/* A queue of the set besides its streams, created if there is none yet; keeps (2). */
vram_status vr_stream_extra_queue(struct vr_stream_set *set, vr_atomic_ptr *place,
                                  vram_queue **queue);

/* VRAM_ERR_INVALID past the last stream. */
vram_status vr_stream_check(const struct vr_stream_set *set, uint32_t index);

#endif
