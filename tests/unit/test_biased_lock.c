/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_biased_lock.c: turns (track/biased_lock.h): one thread at a time, whichever way it came, and
 * no signal handler on top of the thread that it interrupted.
 */
#include "rig/rig.h"
#include "track/biased_lock.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 4, TURNS = 20000 };

static struct vr_biased_lock lock;
static uint64_t count, copy; /* guarded by the lock, and the same outside of it */

static int begin(void) {
    lock = (struct vr_biased_lock){0};
    count = copy = 0;
    vr_biased_locks_start();
    return 0;
}

/* What goes wrong is found at the end: a thread of its own is no place to fail. */
static void have_turn(void) {
    if (vr_biased_lock_take(&lock)) {
        count++;
        copy = copy == count - 1 ? count : UINT64_MAX / 2;
        vr_biased_lock_give(&lock);
    }
}

static void have_turns(uint32_t turns) {
    for (uint32_t i = 0; i < turns; i++) {
        have_turn();
    }
}

static void *have_one(void *unused) {
    have_turn();
    return unused;
}

static void let_another_have_one(void) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, have_one, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Who comes often enough in a row is alone until somebody else comes, and again after twice as many
   turns. */
TEST(an_owner_is_alone_until_another_comes) {
    have_turns(VR_BIASED_LOCK_STREAK);
    assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 0);
    have_turns(1);
    assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 1);
    assert_int_equal(vr_load(&lock.owner, VR_RELAXED), vr_os_thread_number());
    have_turns(1000);
    assert_int_equal(vr_load(&lock.holder, VR_RELAXED), 0);
    for (uint32_t needed = 2 * VR_BIASED_LOCK_STREAK; needed <= 8 * VR_BIASED_LOCK_STREAK;
         needed *= 2) {
        let_another_have_one();
        assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 0);
        have_turns(needed);
        assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 0);
        have_turns(1);
        assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 1);
    }
    assert_int_equal(count, copy);
}

static void *be_regular(void *unused) {
    have_turns(VR_BIASED_LOCK_STREAK + 1);
    return unused;
}

/* An owner that has ended is in nobody's way, and has no successor. */
TEST(an_owner_may_end) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, be_regular, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 1);
    have_turns(10 * VR_BIASED_LOCK_STREAK);
    assert_int_equal(vr_load(&lock.biased, VR_RELAXED), 0);
    assert_int_not_equal(vr_load(&lock.owner, VR_RELAXED), vr_os_thread_number());
    assert_int_equal(count, 11 * VR_BIASED_LOCK_STREAK + 1);
}

static volatile sig_atomic_t refused;

static void interrupt(int number) {
    (void)number;
    if (vr_biased_lock_take(&lock)) {
        vr_biased_lock_give(&lock);
    } else {
        refused = refused + 1;
    }
}

/* By the way of all and by the owner's; outside the handler gets its turn. */
TEST(a_handler_keeps_out_of_its_own_threads_turn) {
    struct sigaction action = {.sa_handler = interrupt}, before;
    refused = 0;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int way = 0; way < 2; way++) {
        assert_int_equal(vr_load(&lock.biased, VR_RELAXED), (uint32_t)way);
        assert_int_equal(raise(SIGUSR1), 0);
        assert_int_equal(refused, way);
        assert_true(vr_biased_lock_take(&lock));
        assert_int_equal(raise(SIGUSR1), 0);
        vr_biased_lock_give(&lock);
        assert_int_equal(refused, way + 1);
        have_turns(VR_BIASED_LOCK_STREAK);
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* The states between two steps: an owner whose bias was revoked, which has the lock by the other
   way, and one that is inside. */
TEST(owners_without_their_bias) {
    uint64_t self = vr_os_thread_number();
    vr_store(&lock.owner, self, VR_RELAXED);
    assert_true(vr_biased_lock_take(&lock)); /* by the holder's word */
    assert_false(vr_biased_lock_take(&lock));
    assert_false(vr_biased_lock_try(&lock));
    vr_biased_lock_give(&lock);
    assert_true(vr_biased_lock_try(&lock));
    vr_biased_lock_give(&lock);
    vr_store(&lock.biased, 1, VR_RELAXED);
    assert_true(vr_biased_lock_try(&lock));
    assert_false(vr_biased_lock_try(&lock)); /* inside already */
    vr_biased_lock_give(&lock);
    lock.streak_needed = VR_BIASED_LOCK_STREAK_MAX;
    let_another_have_one(); /* revokes it */
    assert_int_equal(lock.streak_needed, VR_BIASED_LOCK_STREAK_MAX);
}

EACH_TEST(begin, NULL)
