/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c: the ways of a turn that its owner does not go as a rule. See turn.h.
 */
#include "track/turn.h"

#include "base/lock.h"

vr_atomic_bool vr_turn_biased;

static void start(void) {
    vr_store(&vr_turn_biased, vr_os_barrier_start(), VR_RELAXED);
}

void vr_turns_start(void) {
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
static void share(struct vr_turn *turn) {
    vr_store(&turn->alone, 0, VR_SEQ_CST);
    if (vr_load(&vr_turn_biased, VR_RELAXED) && !vr_os_barrier()) {
        vr_store(&vr_turn_biased, false, VR_RELAXED);
        vr_os_sleep(10000000);
    }
    for (unsigned round = 0; vr_load(&turn->inside, VR_SEQ_CST); round++) {
        rest(round);
    }
    uint32_t needed = turn->row_needed ? turn->row_needed : VR_TURN_ROW;
    turn->row_needed = needed < VR_TURN_ROW_MOST ? 2 * needed : needed;
}

bool vr_turn_take_slow(struct vr_turn *turn, uint64_t self) {
    uint64_t found = 0;
    for (unsigned round = 0; !vr_cas_weak(&turn->holder, &found, self, VR_ACQUIRE); round++) {
        if (found == self) {
            return false;
        }
        found = 0;
        rest(round);
    }
    if (vr_load(&turn->alone, VR_RELAXED)) { /* which only others than the owner find */
        share(turn);
    }
    return true;
}

/* The owner is inside by both ways for a moment, so that a signal handler keeps out: keeps (3) and
   (4). */
static void begin_alone(struct vr_turn *turn, uint64_t self) {
    vr_store(&turn->owner, self, VR_RELAXED);
    vr_store(&turn->inside, 1, VR_SEQ_CST);
    vr_store(&turn->alone, 1, VR_SEQ_CST);
    vr_store(&turn->holder, 0, VR_RELEASE);
    vr_store(&turn->inside, 0, VR_RELEASE);
}

void vr_turn_give_slow(struct vr_turn *turn, uint64_t self) {
    uint64_t owner = vr_load(&turn->owner, VR_RELAXED);
    turn->row = turn->last == self ? turn->row + 1 : 0;
    turn->last = self;
    if (turn->row >= (turn->row_needed ? turn->row_needed : VR_TURN_ROW) &&
        (!owner || owner == self)) {
        turn->row = 0;
        begin_alone(turn, self);
    } else {
        vr_store(&turn->holder, 0, VR_RELEASE);
    }
}
