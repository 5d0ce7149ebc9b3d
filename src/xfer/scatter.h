/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter.h: many small copies as one launch.
 *
 * A copy engine takes microseconds for each copy, however small. A kernel that is given a table of
 * them copies all at the speed of the memory, and reads and writes page-locked memory as it does
 * its own. It is to be had where memory has true addresses and the code is in a format that the
 * device takes: PTX, or C on the host.
 */
#ifndef VR_SCATTER_H
#define VR_SCATTER_H

#include "device/objects.h"

/* One copy, as the kernel sees it; addresses that the device reaches. */
struct vr_scatter_row {
    uint64_t to, from, bytes;
};

/* The device's kernel, loaded when it is first asked for; NULL: not to be had, no error is set. */
vram_kernel *vr_scatter_kernel(struct vr_device_object *device);

/* Launches it for rows that lie in page-locked memory until the queue is through. */
vram_status vr_scatter_launch(vram_queue *queue, vram_kernel *kernel, vram_addr rows,
                              uint32_t count);

#endif
