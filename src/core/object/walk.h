/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h: iterates over pools in the order of their handles. A walk holds no lock between two
 * steps, so pools may be created and destroyed meanwhile; a pool that exists during the whole walk
 * is visited exactly once.
 */
#ifndef VR_WALK_H
#define VR_WALK_H

#include "core/object/pool_object.h"

/* The pools to visit; a filter that is NULL admits all. */
struct vr_walk {
    struct vr_context *context;            /* never NULL */
    const struct vr_device_object *device; /* pools created through this handle */
    const struct vr_slot *slot;            /* on this device, through any handle */
    const struct vr_account *account;      /* on this hardware, through any backend */
    uint64_t last;                         /* handle of the last pool visited; 0: none yet */
};

/* The next pool that has not been destroyed, with a reference that vr_leave drops; NULL after the
   last. No lock held. */
struct vr_pool *vr_walk_next(struct vr_walk *walk);

#endif
