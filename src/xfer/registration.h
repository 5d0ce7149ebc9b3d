/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registration.h: memory of the program that is page-locked in place, and kept so for the next use;
 * the public calls are those of vram/pinned.h.
 *
 *  (1) Entries of one device are whole pages and never overlap: drivers refuse to register pages
 *      twice.
 *  (2) An entry with uses is never unregistered. While a thread registers or unregisters an entry,
 *      it is `moving`: no other thread uses its pages, and no lock is held across the driver call.
 *  (3) `bytes` and `count` include all entries, also those being registered: the limits hold at
 *      every moment.
 */
#ifndef VR_REGISTRATION_H
#define VR_REGISTRATION_H

#include "base/list.h"
#include "base/lock.h"
#include "device/objects.h"

struct vr_registrations {
    struct vr_device_object *device;
    vr_atomic_u64 hits, misses, evictions;
    struct vr_mutex lock; /* guards the rest */
    struct vr_cond changed;
    struct vr_list entries; /* most recently used last */
    uint64_t bytes;
    uint32_t count;
};

vram_status vr_registrations_begin(struct vr_registrations *registrations,
                                   struct vr_device_object *device);
/* For a closing device: unregisters everything, used or not. No call is inside, and no work uses
   the memory. */
void vr_registrations_end(struct vr_registrations *registrations);
/* Leaves everything registered with the driver: work may still use it. */
void vr_registrations_destroy(struct vr_registrations *registrations);

vram_status vr_registration_use(struct vr_registrations *registrations, uint64_t addr,
                                uint64_t bytes);
vram_status vr_registration_unuse(struct vr_registrations *registrations, uint64_t addr,
                                  uint64_t bytes);
vram_status vr_registration_forget(struct vr_registrations *registrations, uint64_t addr,
                                   uint64_t bytes);
/* Unregisters all entries without uses. Returns their bytes. Without `always` it does so only while
   no work is pending that the driver would wait for (device/quiesce.h), checked for each entry: a
   launch waits for at most one. */
uint64_t vr_registration_trim(struct vr_registrations *registrations, bool always);
/* Whether all of it is page-locked and in use: then the device can access it in place. */
bool vr_registration_covers(struct vr_registrations *registrations, uint64_t addr, uint64_t bytes);
void vr_registration_count(struct vr_registrations *registrations, uint32_t *entries,
                           uint32_t *used, uint64_t *bytes);

#endif
