/* SPDX-License-Identifier: Apache-2.0 */
/* mapping.h: shared by range.c, physical.c and mapping.c. */
#ifndef VR_MAPPING_H
#define VR_MAPPING_H

#include "device/address.h"
#include "device/objects.h"

/* vr_enter for a device that must have virtual memory management; range.c. */
vram_status vr_vmm_enter(vram_device *handle, void **device);
/* Rounds up to the device's granule; refuses 0 and overflow; range.c. */
vram_status vr_vmm_round(const struct vr_device_object *device, uint64_t bytes, uint64_t *rounded);
/* The range that contains `addr`; NULL if there is none. Under the device's lock; range.c. */
struct vr_record *vr_range_at(struct vr_device_object *device, vram_addr addr);
/* Whether usable mappings cover the span without a gap. Under the device's lock; mapping.c. */
bool vr_mappings_cover(const struct vr_record *range, vram_addr addr, uint64_t bytes);

#endif
