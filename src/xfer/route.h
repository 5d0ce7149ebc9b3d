/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.h: what a copy is, once both its sides have been looked up: from where to where, over which
 * kind of memory, and whether it may be made at all. Everything that a program can get wrong ends
 * here, before a backend sees it.
 */
#ifndef VR_ROUTE_H
#define VR_ROUTE_H

#include "device/objects.h"
#include "vram/transfer.h"

enum vr_way {
    VR_WAY_UPLOAD = 0,   /* host to device */
    VR_WAY_DOWNLOAD = 1, /* device to host */
    VR_WAY_COPY = 2,     /* within the device */
    VR_WAY_PEER = 3,     /* from a device that may be read */
    VR_WAY_BRIDGE = 4,   /* from one that may not: through host memory */
    VR_WAY_FILL = 5      /* no copy; for counting */
};

struct vr_route {
    enum vr_way way;
    vram_addr to, from;    /* the sides in memory of devices */
    void *to_host;         /* of a download */
    const void *from_host; /* of an upload */
    uint64_t bytes;
    bool pinned;                     /* the host's side is page-locked, by our own word */
    bool overlap;                    /* the sides share bytes */
    bool same;                       /* both sides are one place */
    bool managed;                    /* the device's side migrates */
    struct vr_device_object *source; /* of VR_WAY_PEER and _BRIDGE: pinned; vr_route_leave */
};

/* Looks a copy of at least one byte up, for a queue that the caller is inside of. */
vram_status vr_route_find(struct vr_queue_object *queue, const vram_copy *copy,
                          struct vr_route *route);
/* The same for sides of different extents, neither 0; copy->bytes are ignored, and route->bytes
   0. */
vram_status vr_route_find_extents(struct vr_queue_object *queue, const vram_copy *copy,
                                  uint64_t to_bytes, uint64_t from_bytes, struct vr_route *route);
void vr_route_leave(struct vr_route *route);

/* Gives it to the backend; of all but VR_WAY_BRIDGE. */
vram_status vr_route_submit(struct vr_queue_object *queue, const struct vr_route *route);

/* Copies from a device that may not be read, piece by piece; bridge.c. */
vram_status vr_bridge_submit(struct vr_queue_object *queue, const struct vr_route *route);

#endif
