/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry_guard.h: the calls that are inside an object, and its end: once the guard is closed no call enters, and
 * whoever closed it can wait until the last has left.
 *
 *  (1) A call enters before it uses what the end takes away, and leaves when it does not use it any more. It needs a
 *      reference to the object besides: a guard keeps no memory alive.
 *  (2) The count and the mark of the end are one word. So an entry either comes before the end, which then sees it,
 *      or finds the guard closed.
 *  (3) Entering never waits. Nothing of the guard is touched after leaving.
 *  (4) A call that ends the object it is inside of (from a callback of the program's) would wait for itself: the
 *      deadline of the wait ends that, and the object is then left as if the call were another thread's.
 *
 * A guard of zeros is open, with nobody inside.
 */
#ifndef VR_ENTRY_GUARD_H
#define VR_ENTRY_GUARD_H

#include "base/atomic.h"

#define VR_ENTRY_CLOSED (UINT32_C(1) << 31)

struct vr_entry_guard {
    vr_atomic_u32 state; /* calls inside, and VR_ENTRY_CLOSED */
};

/* Leaves. What was done inside happens before what the end does after its wait. */
static inline void vr_entry_leave(struct vr_entry_guard *guard) {
    vr_fetch_sub(&guard->state, 1, VR_SEQ_CST);
}

/* Enters; false: the guard is closed, and no vr_entry_leave is owed. The look before keeps those who are refused
   from holding up the wait. */
static inline bool vr_entry_enter(struct vr_entry_guard *guard) {
    if (vr_load(&guard->state, VR_SEQ_CST) & VR_ENTRY_CLOSED) {
        return false;
    }
    if (vr_fetch_add(&guard->state, 1, VR_SEQ_CST) & VR_ENTRY_CLOSED) {
        vr_entry_leave(guard);
        return false;
    }
    return true;
}

static inline bool vr_entry_is_open(const struct vr_entry_guard *guard) {
    return !(vr_load(&guard->state, VR_SEQ_CST) & VR_ENTRY_CLOSED);
}

static inline uint32_t vr_entry_inside(const struct vr_entry_guard *guard) {
    return vr_load(&guard->state, VR_SEQ_CST) & ~VR_ENTRY_CLOSED;
}

/* Lets nobody enter any more; false: another call has closed it already. */
static inline bool vr_entry_close(struct vr_entry_guard *guard) {
    return !(vr_fetch_or(&guard->state, VR_ENTRY_CLOSED, VR_SEQ_CST) & VR_ENTRY_CLOSED);
}

/* Closes the guard if nobody is inside; false: somebody is, or it is closed already. */
static inline bool vr_entry_close_empty(struct vr_entry_guard *guard) {
    uint32_t empty = 0;
    return vr_cas(&guard->state, &empty, VR_ENTRY_CLOSED, VR_SEQ_CST);
}

/* The one that closed it goes on as one of those inside, and lets others in. */
static inline void vr_entry_close_to_enter(struct vr_entry_guard *guard) {
    vr_fetch_sub(&guard->state, VR_ENTRY_CLOSED - 1, VR_SEQ_CST);
}

/* Takes the end back: the one that closed it does so, because it failed. */
static inline void vr_entry_reopen(struct vr_entry_guard *guard) {
    vr_fetch_and(&guard->state, ~VR_ENTRY_CLOSED, VR_SEQ_CST);
}

/* Waits until nobody is inside, for whoever has closed the guard; false: somebody still is at the deadline (a moment
   of vr_clock_now), or since `*stop` is set (NULL: nothing stops it). No lock held. */
bool vr_entry_wait(const struct vr_entry_guard *guard, uint64_t deadline,
                   const vr_atomic_bool *stop);

#endif
