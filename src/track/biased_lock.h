/* SPDX-License-Identifier: Apache-2.0 */
/*
 * biased_lock.h: whose turn it is: a lock for some tens of instructions, which costs its most
 * regular user no locked instruction.
 *
 *  (1) Whoever moves `holder` from 0 to its own number by compare-and-swap has the lock.
 *  (2) One thread is the owner, for good: the first that came often enough in a row. While `alone`
 *      is set it has the lock by a plain store. The two sides meet like this, B being a barrier or,
 *      on the owner's side, its promise (vr_os_barrier):
 *          owner:   inside = 1;        B;  if (!alone) inside = 0, and the way of (1)
 *          others:  (1), then alone = 0; B;  while (inside) rest
 *      Whatever the order, at least one of them sees the other.
 *  (3) Only the owner sets `alone`, while it has the lock by (1), when it came often enough in a
 *      row again; each time that others end it, more is needed, so that threads who take turns pay
 *      little for it.
 *  (4) A thread that has the lock may be interrupted by a signal handler that wants it too: that
 *      one finds its own number in `holder`, or `inside` set by itself, and goes away.
 *
 * Without such a barrier, and under ThreadSanitizer, which does not know it, both sides use
 * sequentially consistent stores and loads, and it is as dear as (1).
 */
#ifndef VR_BIASED_LOCK_H
#define VR_BIASED_LOCK_H

#include "base/atomic.h"
#include "base/os/os.h"

enum {
    VR_BIASED_LOCK_ROW = 256,           /* times in a row that make an owner, */
    VR_BIASED_LOCK_ROW_MOST = 64 * 1024 /* at most: twice as many after each end of `alone` */
};

struct vr_biased_lock {
    vr_atomic_u64 holder; /* number of the thread that has it by (1); 0: none */
    vr_atomic_u64 owner;  /* written once, by the owner; 0: none yet */
    vr_atomic_u32 inside; /* written by the owner alone */
    vr_atomic_u32 alone;  /* see (2) and (3) */
    uint64_t last;        /* who had it last by (1); the holder's, as all below */
    uint32_t row;         /* times in a row */
    uint32_t row_needed;  /* 0: VR_BIASED_LOCK_ROW */
};

/* Whether the owner's plain stores suffice; it can only become false. */
extern vr_atomic_bool vr_biased_lock_enabled;

/* Before the first turn of a process. */
void vr_biased_locks_start(void);

bool vr_biased_lock_take_slow(struct vr_biased_lock *lock, uint64_t self);
void vr_biased_lock_give_slow(struct vr_biased_lock *lock, uint64_t self);

/* False: a signal handler has interrupted who has the lock; see (4). */
static inline bool vr_biased_lock_take(struct vr_biased_lock *lock) {
    uint64_t self = vr_os_thread_number();
    if (__builtin_expect(vr_load(&lock->owner, VR_RELAXED) != self, 0)) {
        return vr_biased_lock_take_slow(lock, self);
    }
    if (__builtin_expect(vr_load(&lock->inside, VR_RELAXED) != 0, 0)) {
        return false;
    }
    if (__builtin_expect(vr_load(&vr_biased_lock_enabled, VR_RELAXED), 1)) {
        vr_store(&lock->inside, 1, VR_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        vr_store(&lock->inside, 1, VR_SEQ_CST);
    }
    if (__builtin_expect(vr_load(&lock->alone, VR_SEQ_CST) != 0, 1)) {
        return true;
    }
    vr_store(&lock->inside, 0, VR_RELEASE);
    return vr_biased_lock_take_slow(lock, self);
}

static inline void vr_biased_lock_give(struct vr_biased_lock *lock) {
    uint64_t self = vr_os_thread_number();
    if (__builtin_expect(vr_load(&lock->holder, VR_RELAXED) == self, 0)) {
        vr_biased_lock_give_slow(lock, self);
    } else {
        vr_store(&lock->inside, 0, VR_RELEASE);
    }
}

#endif
