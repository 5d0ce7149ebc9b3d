/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.c: loads the kernel of scatter.h in the available formats, and launches it. */
#include "xfer/scatter.h"

#include "base/error.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "xfer/flight.h"
#include "xfer/generated/scatter_ptx.h"

#include <string.h>

enum {
    NONE = 1,         /* instead of a handle: no format that the device accepts */
    GROUP_ITEMS = 256 /* 4 KiB in steps of 16 bytes */
};

/* The same in C: a group copies one row. */
static void scatter_rows(const vram_kernel_call *call) {
    const struct vr_scatter_row *rows = *(const struct vr_scatter_row *const *)call->arguments[0];
    const struct vr_scatter_row *row = &rows[call->group[0]];
    memcpy((void *)(uintptr_t)row->to, (const void *)(uintptr_t)row->from, row->bytes);
}

static vram_status kernel_load(struct vr_device_object *device, vram_kernel **kernel) {
    vram_device *handle = (vram_device *)(uintptr_t)device->object.handle;
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = scatter_ptx,
                                 .code_bytes = sizeof scatter_ptx,
                                 .entry = "vram_scatter"};
    vram_status status = vr_kernel_create(handle, &source, kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        source.format = VRAM_KERNEL_C;
        source.code = (const void *)(uintptr_t)scatter_rows;
        source.code_bytes = 0;
        status = vr_kernel_create(handle, &source, kernel);
    }
    return status;
}

vram_kernel *vr_scatter_kernel(struct vr_device_object *device) {
    struct vram_error kept;
    vram_kernel *made = NULL;
    if (!device->base.kernel || device->base.handles || !device->base.pinned) {
        return NULL;
    }
    vr_error_save(&kept);
    struct vr_flight *flight = vr_flight_enter(device);
    uint64_t found = flight ? vr_load(&flight->scatter, VR_ACQUIRE) : NONE;
    if (!found) {
        vram_status status = kernel_load(device, &made);
        /* Memory that ran out may be available next time; a driver that rejects the code always
           will. */
        uint64_t kernel = status == VRAM_OK ? (uint64_t)(uintptr_t)made : NONE;
        if (vr_status_is_exhausted(status)) {
            found = NONE;
        } else if (vr_cas(&flight->scatter, &found, kernel, VR_ACQ_REL)) {
            found = kernel;
        } else {
            vr_kernel_destroy(made);
        }
    }
    if (flight) {
        vr_leave(flight);
    }
    vr_error_restore(&kept);
    return found == NONE ? NULL : (vram_kernel *)(uintptr_t)found;
}

vram_status vr_scatter_launch(vram_queue *queue, vram_kernel *kernel, vram_addr rows,
                              uint32_t count) {
    uint64_t wide = count;
    const void *const arguments[] = {&rows, &wide};
    const size_t bytes[] = {sizeof rows, sizeof wide};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {count, 1, 1},
                          .group_size = {GROUP_ITEMS, 1, 1},
                          .argument_count = 2,
                          .arguments = arguments,
                          .argument_bytes = bytes};
    return vr_submit_launch(queue, kernel, &launch);
}
