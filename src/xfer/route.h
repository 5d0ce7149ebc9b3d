/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.h: what a copy is, once both its sides are looked up: from where to where, over which kind
 * of memory, and whether it is valid. All mistakes of a program are found here, before a backend
 * sees the copy.
 */
#ifndef VR_ROUTE_H
#define VR_ROUTE_H

#include "device/objects.h"
#include "vram/transfer.h"

enum vr_way {
    VR_WAY_UPLOAD = 0,   /* host to device */
    VR_WAY_DOWNLOAD = 1, /* device to host */
    VR_WAY_COPY = 2,     /* within the device */
    VR_WAY_PEER = 3,     /* from a device that this one can read */
    VR_WAY_BRIDGE = 4,   /* from one that it cannot: through host memory */
    VR_WAY_FILL = 5      /* not a copy; for counting */
};

struct vr_route {
    enum vr_way way;
    vram_addr to, from;    /* device addresses of the sides */
    void *to_host;         /* of a download */
    const void *from_host; /* of an upload */
    uint64_t bytes;
    bool pinned;                     /* the host side is page-locked memory of the library */
    bool overlap;                    /* the sides share bytes */
    bool same;                       /* both sides begin at the same address */
    bool managed;                    /* the memory on the device side migrates */
    struct vr_device_object *source; /* of VR_WAY_PEER and _BRIDGE: pinned; vr_route_leave */
};

/* Looks up a copy of at least one byte, for a queue that the caller has entered. */
vram_status vr_route_find(struct vr_queue_object *queue, const vram_copy *copy,
                          struct vr_route *route);
/* The same for sides of different extents, neither 0. Ignores copy->bytes; route->bytes is 0. */
vram_status vr_route_find_extents(struct vr_queue_object *queue, const vram_copy *copy,
                                  uint64_t to_bytes, uint64_t from_bytes, struct vr_route *route);
void vr_route_leave(struct vr_route *route);

/* Submits it to the backend; not for VR_WAY_BRIDGE. */
vram_status vr_route_submit(struct vr_queue_object *queue, const struct vr_route *route);

/* Copies from a device that this one cannot read, piece by piece; bridge.c. */
vram_status vr_bridge_submit(struct vr_queue_object *queue, const struct vr_route *route);

#endif
