/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_counts.h: counts transfers, for the code that makes them.
 *
 *     struct vr_transfer_count count;
 *     vr_transfer_begin(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED, &count);
 *     ...                                                        the copy, on any threads
 *     vr_transfer_end(&count, bytes, status);                    when its end is known, once
 *
 * The caller keeps the device pinned from begin to end. Nothing fails: without memory for the
 * counters nothing is counted. Any thread; begin and end may be on different ones.
 */
#ifndef VR_TRANSFER_COUNTS_H
#define VR_TRANSFER_COUNTS_H

#include "device/objects.h"
#include "vram/transfer.h"

struct vr_metrics;

/* A transfer that is being counted: plain data. All zero: not counted. */
struct vr_transfer_count {
    struct vr_metrics *metrics;
    uint64_t start_ns;
    uint8_t direction, route;
    /* Bit i: the i-th of its cells counts it among those under way; (2) of transfer_counts.c. */
    uint8_t busy;
};

void vr_transfer_begin(struct vr_device_object *device, vram_transfer_direction direction,
                       vram_transfer_route route, struct vr_transfer_count *count);
void vr_transfer_end(struct vr_transfer_count *count, uint64_t bytes, vram_status status);

/* A copy of this kind waited `ns` for a slot, or for free space in a ring, before it could
   begin. */
void vr_transfer_stalled(struct vr_device_object *device, vram_transfer_direction direction,
                         vram_transfer_route route, uint64_t ns);
/* A thread of the program waited `ns` in a call of the library for copies of this kind. */
void vr_transfer_waited(struct vr_device_object *device, vram_transfer_direction direction,
                        vram_transfer_route route, uint64_t ns);

#endif
