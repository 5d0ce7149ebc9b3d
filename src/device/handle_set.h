/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle_set.h: the driver's handles of physical memory that are in use on a device.
 *
 * A driver that gives one out twice would have two owners write to the same memory. An address
 * given twice is found in the address map; a handle has none, so it is found here.
 *
 * All under the device's lock. A place is booked before the driver is called, so that nothing can
 * fail once it has answered. A zeroed set is empty.
 */
#ifndef VR_HANDLE_SET_H
#define VR_HANDLE_SET_H

#include "vram/base.h"

struct vr_handle_set {
    uint64_t *slots; /* 0: free; searched from a handle's own slot to the next free one */
    uint32_t room;   /* slots, a power of two, at most half of them in use */
    uint32_t count;  /* handles and booked places */
};

/* Books a place. VRAM_ERR_HOST_MEMORY. */
vram_status vr_handle_set_book(struct vr_handle_set *set, const char *operation);
/* Gives a booked place up. */
void vr_handle_set_cancel(struct vr_handle_set *set);
/* Puts a handle, not 0, in a booked place. False: it is there already, and the place is given
   up. */
bool vr_handle_set_add(struct vr_handle_set *set, uint64_t handle);
/* Takes a handle that is in it out; its place stays booked. */
void vr_handle_set_take(struct vr_handle_set *set, uint64_t handle);
void vr_handle_set_free(struct vr_handle_set *set);

#endif
