/* SPDX-License-Identifier: Apache-2.0 */
/*
 * biased_lock.c: the ways of a turn that its owner does not go as a rule. See biased_lock.h.
 */
#include "track/biased_lock.h"

#include "base/lock.h"

vr_atomic_bool vr_biased_lock_enabled;

static void start(void) {
    vr_store(&vr_biased_lock_enabled, vr_os_barrier_start(), VR_RELAXED);
}

void vr_biased_locks_start(void) {
    static struct vr_once once = VR_ONCE_INIT;
    vr_once(&once, start);
}

static void rest(unsigned round) {
    if (round < 64) {
        vr_os_pause();
    } else if (round < 128) {
        vr_os_yield();
    } else {
        vr_os_sleep(50000);
    }
}

/* Ends the owner's way: keeps (2). A system that refuses the barrier later gets time instead: an
   owner who goes inside by the old rule at this very moment has its store out long before the sleep
   is over. */
static void share(struct vr_biased_lock *lock) {
    vr_store(&lock->alone, 0, VR_SEQ_CST);
    if (vr_load(&vr_biased_lock_enabled, VR_RELAXED) && !vr_os_barrier()) {
        vr_store(&vr_biased_lock_enabled, false, VR_RELAXED);
        vr_os_sleep(10000000);
    }
    for (unsigned round = 0; vr_load(&lock->inside, VR_SEQ_CST); round++) {
        rest(round);
    }
    uint32_t needed = lock->row_needed ? lock->row_needed : VR_BIASED_LOCK_ROW;
    lock->row_needed = needed < VR_BIASED_LOCK_ROW_MOST ? 2 * needed : needed;
}

bool vr_biased_lock_take_slow(struct vr_biased_lock *lock, uint64_t self) {
    uint64_t found = 0;
    for (unsigned round = 0; !vr_cas_weak(&lock->holder, &found, self, VR_ACQUIRE); round++) {
        if (found == self) {
            return false;
        }
        found = 0;
        rest(round);
    }
    if (vr_load(&lock->alone, VR_RELAXED)) { /* which only others than the owner find */
        share(lock);
    }
    return true;
}

/* The owner is inside by both ways for a moment, so that a signal handler keeps out: keeps (3) and
   (4). */
static void begin_alone(struct vr_biased_lock *lock, uint64_t self) {
    vr_store(&lock->owner, self, VR_RELAXED);
    vr_store(&lock->inside, 1, VR_SEQ_CST);
    vr_store(&lock->alone, 1, VR_SEQ_CST);
    vr_store(&lock->holder, 0, VR_RELEASE);
    vr_store(&lock->inside, 0, VR_RELEASE);
}

void vr_biased_lock_give_slow(struct vr_biased_lock *lock, uint64_t self) {
    uint64_t owner = vr_load(&lock->owner, VR_RELAXED);
    lock->row = lock->last == self ? lock->row + 1 : 0;
    lock->last = self;
    if (lock->row >= (lock->row_needed ? lock->row_needed : VR_BIASED_LOCK_ROW) &&
        (!owner || owner == self)) {
        lock->row = 0;
        begin_alone(lock, self);
    } else {
        vr_store(&lock->holder, 0, VR_RELEASE);
    }
}
