/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle_set.h: the driver's handles of physical memory that are in use on a device.
 *
 * If a driver returns a handle twice, two owners would write to the same memory. An address
 * returned twice is detected by the address map; a handle has no address, so it is detected here.
 *
 * All under the device's lock. A place is reserved before the driver is called, so that nothing can
 * fail after the driver's call. A zeroed set is empty.
 */
#ifndef VR_HANDLE_SET_H
#define VR_HANDLE_SET_H

#include "vram/base.h"

struct vr_handle_set {
    uint64_t *slots;   /* 0: free; searched from a handle's first slot to the next free one */
    uint32_t capacity; /* slots, a power of two, at most half of them in use */
    uint32_t count;    /* handles and reserved places */
};

/* Reserves a place. VRAM_ERR_HOST_MEMORY. */
vram_status vr_handle_set_reserve(struct vr_handle_set *set, const char *operation);
/* Releases a reserved place. */
void vr_handle_set_cancel(struct vr_handle_set *set);
/* Stores a handle, not 0, in a reserved place. False: it is stored already, and the place is
   released. */
bool vr_handle_set_add(struct vr_handle_set *set, uint64_t handle);
/* Removes a stored handle; its place stays reserved. */
void vr_handle_set_take(struct vr_handle_set *set, uint64_t handle);
void vr_handle_set_free(struct vr_handle_set *set);

#endif
