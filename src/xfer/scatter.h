/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter.h: many small copies as one launch.
 *
 * A copy engine takes microseconds for each copy, however small. A kernel that gets a table of
 * copies makes all of them at memory speed, and accesses page-locked memory like its own. It exists
 * where memory has true addresses and the device accepts a format of the code: PTX, or C on the
 * host.
 */
#ifndef VR_SCATTER_H
#define VR_SCATTER_H

#include "device/objects.h"

/* One copy, as the kernel sees it; addresses that the device can access. */
struct vr_scatter_row {
    uint64_t to, from, bytes;
};

/* The device's kernel, loaded at first use; NULL: not available, no error is set. */
vram_kernel *vr_scatter_kernel(struct vr_device_object *device);

/* Launches it for rows in page-locked memory that stay until the queue has completed the launch. */
vram_status vr_scatter_launch(vram_queue *queue, vram_kernel *kernel, vram_addr rows,
                              uint32_t count);

#endif
