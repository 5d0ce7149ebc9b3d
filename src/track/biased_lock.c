/* SPDX-License-Identifier: Apache-2.0 */
/*
 * biased_lock.c: the slow paths of the lock, and revocation of its bias. See biased_lock.h.
 */
#include "track/biased_lock.h"

#include "base/lock.h"

vr_atomic_bool vr_biased_lock_enabled;

static void barrier_start(void) {
    vr_store(&vr_biased_lock_enabled, vr_os_barrier_start(), VR_RELAXED);
}

void vr_biased_locks_start(void) {
    static struct vr_once once = VR_ONCE_INIT;
    vr_once(&once, barrier_start);
}

static void backoff_wait(unsigned round) {
    if (round < 64) {
        vr_os_pause();
    } else if (round < 128) {
        vr_os_yield();
    } else {
        vr_os_sleep(50000);
    }
}

/* Revokes the bias: keeps (2). If the system refuses the barrier later, a sleep replaces it: the
   store of an owner that enters by the old rule at this moment is visible long before the sleep
   ends. */
static void bias_revoke(struct vr_biased_lock *lock) {
    vr_store(&lock->biased, 0, VR_SEQ_CST);
    if (vr_load(&vr_biased_lock_enabled, VR_RELAXED) && !vr_os_barrier()) {
        vr_store(&vr_biased_lock_enabled, false, VR_RELAXED);
        vr_os_sleep(10000000);
    }
    for (unsigned round = 0; vr_load(&lock->inside, VR_SEQ_CST); round++) {
        backoff_wait(round);
    }
    uint32_t needed = lock->streak_needed ? lock->streak_needed : VR_BIASED_LOCK_STREAK;
    lock->streak_needed = needed < VR_BIASED_LOCK_STREAK_MAX ? 2 * needed : needed;
}

bool vr_biased_lock_take_slow(struct vr_biased_lock *lock, uint64_t self) {
    uint64_t found = 0;
    for (unsigned round = 0; !vr_cas_weak(&lock->holder, &found, self, VR_ACQUIRE); round++) {
        if (found == self) {
            return false;
        }
        found = 0;
        backoff_wait(round);
    }
    if (vr_load(&lock->biased, VR_RELAXED)) { /* only seen by threads other than the owner */
        bias_revoke(lock);
    }
    return true;
}

/* An owner without the bias takes part like any other thread. */
bool vr_biased_lock_try_slow(struct vr_biased_lock *lock, uint64_t self) {
    uint64_t found = 0;
    if (vr_load(&lock->biased, VR_RELAXED) || !vr_cas(&lock->holder, &found, self, VR_ACQUIRE)) {
        return false;
    }
    if (vr_load(&lock->biased, VR_RELAXED)) {
        vr_store(&lock->holder, 0, VR_RELEASE);
        return false;
    }
    return true;
}

/* The owner is inside in both ways briefly, so that a signal handler does not enter: keeps (3) and
   (4). Other threads see `biased` after they took `holder`. */
static void bias_begin(struct vr_biased_lock *lock, uint64_t self) {
    vr_store(&lock->owner, self, VR_RELAXED);
    vr_store(&lock->inside, 1, VR_RELAXED);
    vr_store(&lock->biased, 1, VR_RELEASE);
    vr_store(&lock->holder, 0, VR_RELEASE);
    vr_store(&lock->inside, 0, VR_RELEASE);
}

void vr_biased_lock_give_slow(struct vr_biased_lock *lock, uint64_t self) {
    uint64_t owner = vr_load(&lock->owner, VR_RELAXED);
    lock->streak = lock->last == self ? lock->streak + 1 : 0;
    lock->last = self;
    if (lock->streak >= (lock->streak_needed ? lock->streak_needed : VR_BIASED_LOCK_STREAK) &&
        (!owner || owner == self)) {
        lock->streak = 0;
        bias_begin(lock, self);
    } else {
        vr_store(&lock->holder, 0, VR_RELEASE);
    }
}
