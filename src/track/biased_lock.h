/* SPDX-License-Identifier: Apache-2.0 */
/*
 * biased_lock.h: a lock held for some tens of instructions, biased to its most frequent user, which
 * needs no atomic read-modify-write to take it.
 *
 *  (1) A thread takes the lock by changing `holder` from 0 to its own number by compare-and-swap.
 *  (2) One thread is the owner, for good: the first that took the lock often enough in a row. While
 *      `biased` is set it takes the lock by a plain store. The two sides synchronise as follows, B
 *      being a barrier or, on the owner's side, a compiler fence (vr_os_barrier provides the other
 *      half):
 *          owner:   inside = 1;          B;  if (!biased) inside = 0, then take it by (1)
 *          others:  (1), then biased = 0; B;  while (inside) wait
 *      Whatever the order, at least one of them sees the other.
 *  (3) Only the owner sets `biased`, while it has the lock by (1), after it took the lock often
 *      enough in a row again. Each revocation by others doubles that number, so that threads which
 *      alternate pay little for it.
 *  (4) A thread that has the lock may be interrupted by a signal handler that wants it too: the
 *      handler finds its own number in `holder`, or `inside` set by its own thread, and gives up.
 *
 * Without such a barrier, and under ThreadSanitizer, which does not understand it, both sides use
 * sequentially consistent stores and loads, and the lock costs as much as (1).
 */
#ifndef VR_BIASED_LOCK_H
#define VR_BIASED_LOCK_H

#include "base/atomic.h"
#include "base/os/os.h"

enum {
    VR_BIASED_LOCK_STREAK = 256,          /* times in a row that make an owner, */
    VR_BIASED_LOCK_STREAK_MAX = 64 * 1024 /* at most: doubled by each revocation */
};

struct vr_biased_lock {
    vr_atomic_u64 holder;   /* number of the thread that has it by (1); 0: none */
    vr_atomic_u64 owner;    /* written once, by the owner; 0: none yet */
    vr_atomic_u32 inside;   /* written only by the owner */
    vr_atomic_u32 biased;   /* see (2) and (3) */
    uint64_t last;          /* thread that had it last by (1); the holder's, as all below */
    uint32_t streak;        /* times that it took it in a row */
    uint32_t streak_needed; /* 0: VR_BIASED_LOCK_STREAK */
};

/* Whether the owner's plain stores suffice; can only become false. */
extern vr_atomic_bool vr_biased_lock_enabled;

/* Called before the first lock of the process is taken. */
void vr_biased_locks_start(void);

bool vr_biased_lock_take_slow(struct vr_biased_lock *lock, uint64_t self);
void vr_biased_lock_give_slow(struct vr_biased_lock *lock, uint64_t self);

/* The owner's way in by a plain store; false: the bias was revoked. Keeps (2). */
static inline bool vr_biased_lock_enter(struct vr_biased_lock *lock) {
    if (__builtin_expect(vr_load(&vr_biased_lock_enabled, VR_RELAXED), 1)) {
        vr_store(&lock->inside, 1, VR_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        vr_store(&lock->inside, 1, VR_SEQ_CST);
    }
    if (__builtin_expect(vr_load(&lock->biased, VR_SEQ_CST) != 0, 1)) {
        return true;
    }
    vr_store(&lock->inside, 0, VR_RELEASE);
    return false;
}

/* False: a signal handler has interrupted the thread that has the lock; see (4). */
static inline bool vr_biased_lock_take(struct vr_biased_lock *lock) {
    uint64_t self = vr_os_thread_number();
    if (__builtin_expect(vr_load(&lock->owner, VR_RELAXED) != self, 0)) {
        return vr_biased_lock_take_slow(lock, self);
    }
    if (__builtin_expect(vr_load(&lock->inside, VR_RELAXED) != 0, 0)) {
        return false;
    }
    return vr_biased_lock_enter(lock) || vr_biased_lock_take_slow(lock, self);
}

bool vr_biased_lock_try_slow(struct vr_biased_lock *lock, uint64_t self);

/* The same without waiting: false also if another thread has the lock, or the bias. */
static inline bool vr_biased_lock_try(struct vr_biased_lock *lock) {
    uint64_t self = vr_os_thread_number();
    if (__builtin_expect(
            vr_load(&lock->owner, VR_RELAXED) == self && vr_load(&lock->biased, VR_RELAXED), 1)) {
        return !vr_load(&lock->inside, VR_RELAXED) && vr_biased_lock_enter(lock);
    }
    return vr_biased_lock_try_slow(lock, self);
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
