/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registration.h: memory of the program's own that is page-locked where it lies, kept for the next
 * time; the public calls are vram/pinned.h's.
 *
 *  (1) Entries of one device are whole pages and never overlap: drivers refuse what is registered
 *      already.
 *  (2) An entry with uses is never given up. One that a thread registers or gives up is `moving`,
 *      its pages are nobody else's meanwhile, and no lock is held across the driver's call.
 *  (3) `bytes` and `count` are of all entries, those on their way in among them: the limits hold at
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
    struct vr_list entries; /* the one used last at the end */
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
/* Gives up all that nobody uses: the bytes. Without `always` only while nothing is under way that
   the driver would wait for (device/quiesce.h), which is looked at for each: a launch waits for one
   at most. */
uint64_t vr_registration_trim(struct vr_registrations *registrations, bool always);
/* Whether all of it is locked and in use: then the bus reads it as it is. */
bool vr_registration_covers(struct vr_registrations *registrations, uint64_t addr, uint64_t bytes);
void vr_registration_count(struct vr_registrations *registrations, uint32_t *entries,
                           uint32_t *used, uint64_t *bytes);

#endif
