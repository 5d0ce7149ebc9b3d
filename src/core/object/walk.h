/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h: pools, one after the other. A walk goes by the numbers of their handles and holds no lock
 * between two steps, so pools may come and go meanwhile: one that is there all the time is met
 * exactly once.
 */
#ifndef VR_WALK_H
#define VR_WALK_H

#include "core/object/pool_object.h"

/* Where it goes, as narrow as said: what is NULL does not matter. */
struct vr_walk {
    struct vr_context *context;            /* never NULL */
    const struct vr_device_object *device; /* pools that were made through this handle */
    const struct vr_slot *slot;            /* on this device, through whatever handle */
    const struct vr_account *account;      /* on this hardware, through whatever backend */
    uint64_t last;                         /* the pool's handle where it is; 0: before the first */
};

/* The next pool that has not been destroyed, with a reference that vr_leave drops; NULL behind the
   last. No lock held. */
struct vr_pool *vr_walk_next(struct vr_walk *walk);

#endif
