/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_device.c: opening and closing the one device.
 */
#include "backend/host/host_backend.h"

/* The state of the device is that of the backend, which outlives it. */
static void device_close(struct vr_device *device) {
    device->impl = NULL;
}

const struct vr_device_ops vr_host_device_ops = {
    .close = device_close,
    .memory_info = vr_host_memory_info,
    .alloc = vr_host_memory_alloc,
    .free = vr_host_memory_free,
};

vram_status vr_host_device_open(struct vr_device *device) {
    struct vr_host *host = device->backend->impl;
    device->impl = host;
    device->ops = &vr_host_device_ops;
    device->queue_ops = &vr_host_queue_ops;
    device->pinned = host->pinned ? &vr_host_pinned_ops : NULL;
    device->vmm = host->vmm ? &vr_host_vmm_ops : NULL;
    device->share = host->vmm ? &vr_host_share_ops : NULL;
    device->managed = &vr_host_managed_ops;
    device->peer = NULL; /* there is only one device */
    device->kernel = &vr_host_kernel_ops;
    return VRAM_OK;
}
