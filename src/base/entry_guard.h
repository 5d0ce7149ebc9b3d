/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry_guard.h: counts the calls inside an object, so that its end can wait for them: once the
 * guard is closed no call enters, and the thread that closed it can wait until the last one has
 * left.
 *
 *  (1) A call enters before it uses anything that the end of the object frees, and leaves
 *      afterwards. It also needs a reference to the object: a guard does not keep memory alive.
 *  (2) The count and the closed bit are one word. So an entry either precedes the close, which then
 *      sees it, or finds the guard closed.
 *  (3) Entering never waits. Nothing of the guard is touched after leaving.
 *  (4) A call that ends the object it is inside (from a callback of the program) would wait for
 *      itself: the deadline ends the wait, and the object is then treated as if another thread's
 *      call were still inside.
 *
 * A zeroed guard is open and empty.
 */
#ifndef VR_ENTRY_GUARD_H
#define VR_ENTRY_GUARD_H

#include "base/atomic.h"

#define VR_ENTRY_CLOSED (UINT32_C(1) << 31)

struct vr_entry_guard {
    vr_atomic_u32 state; /* calls inside, and VR_ENTRY_CLOSED */
};

/* Leaves. What was done inside happens before what the thread that ends the object does after its
   wait. */
static inline void vr_entry_leave(struct vr_entry_guard *guard) {
    vr_fetch_sub(&guard->state, 1, VR_SEQ_CST);
}

/* Enters; false: the guard is closed, and vr_entry_leave must not be called. The load before the
   increment keeps refused calls from prolonging the wait. */
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

/* Closes the guard to further entries; false: another call has closed it already. */
static inline bool vr_entry_close(struct vr_entry_guard *guard) {
    return !(vr_fetch_or(&guard->state, VR_ENTRY_CLOSED, VR_SEQ_CST) & VR_ENTRY_CLOSED);
}

/* Closes the guard if no call is inside; false: one is, or the guard is closed already. */
static inline bool vr_entry_close_empty(struct vr_entry_guard *guard) {
    uint32_t empty = 0;
    return vr_cas(&guard->state, &empty, VR_ENTRY_CLOSED, VR_SEQ_CST);
}

/* Reopens the guard and leaves the caller, which closed it, inside. */
static inline void vr_entry_close_to_enter(struct vr_entry_guard *guard) {
    vr_fetch_sub(&guard->state, VR_ENTRY_CLOSED - 1, VR_SEQ_CST);
}

/* Reopens the guard; for the caller that closed it, after the end has failed. */
static inline void vr_entry_reopen(struct vr_entry_guard *guard) {
    vr_fetch_and(&guard->state, ~VR_ENTRY_CLOSED, VR_SEQ_CST);
}

/* Waits until the guard is empty; for the caller that closed it. False: a call is still inside at
   the deadline (a time of vr_clock_now), or `*stop` was set (stop may be NULL). No lock held. */
bool vr_entry_wait(const struct vr_entry_guard *guard, uint64_t deadline,
                   const vr_atomic_bool *stop);

#endif
