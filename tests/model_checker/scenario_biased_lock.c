/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_biased_lock.c: the tracker's lock (track/biased_lock.c). What it guards is a plain
 * variable: a race on it shows that two threads were inside at once, or that one did not see what
 * the other had done.
 */
#include "explore_scenario.h"

#include "track/biased_lock.h"

static struct vr_biased_lock lock;
static unsigned guarded;

static void locked_add(void) {
    CHECK(vr_biased_lock_take(&lock));
    guarded++;
    vr_biased_lock_give(&lock);
}

static void tried_add(void) {
    if (vr_biased_lock_try(&lock)) {
        guarded++;
        vr_biased_lock_give(&lock);
    }
}

static void lock_free_for_all(void) {
    vr_biased_locks_start();
}

/* Thread 1 becomes the owner by taking it often enough. */
static void owner_takes(void) {
    for (int i = 0; i < VR_BIASED_LOCK_STREAK + 2; i++) {
        CHECK(vr_biased_lock_take(&lock));
        vr_biased_lock_give(&lock);
    }
}

static void thread_numbers_begin(void) {
    vr_os_thread_own = 1;
}

static void lock_owned(void) {
    vr_biased_locks_start();
    fiber_act_as(0, thread_numbers_begin);
    fiber_act_as(0, owner_takes);
    CHECK(vr_load(&lock.biased, VR_RELAXED) && vr_load(&lock.owner, VR_RELAXED) == 1);
}

/* The system has no barrier of all threads. */
static void lock_owned_without_barrier(void) {
    lock_owned();
    vr_store(&vr_biased_lock_enabled, false, VR_RELAXED);
}

/* One more, and thread 1 is the owner. */
static void lock_almost_owned(void) {
    vr_biased_locks_start();
    fiber_act_as(0, thread_numbers_begin);
    lock.last = 1;
    lock.streak = VR_BIASED_LOCK_STREAK - 1;
}

static void lock_almost_owned_without_barrier(void) {
    lock_almost_owned();
    vr_store(&vr_biased_lock_enabled, false, VR_RELAXED);
}

static void two_adds(void) {
    locked_add();
    locked_add();
}

static void two_were_added(void) {
    CHECK(guarded == 2);
}

static void three_were_added(void) {
    CHECK(guarded == 3);
}

static void four_were_added(void) {
    CHECK(guarded == 4);
}

static void some_were_added(void) {
    CHECK(guarded >= 1 && guarded <= 3);
}

static void some_more_were_added(void) {
    CHECK(guarded >= 3 && guarded <= 4);
}

const struct scenario biased_lock_scenarios[] = {
    {"biased lock",
     "without an owner",
     lock_free_for_all,
     {two_adds, locked_add},
     three_were_added,
     false},
    {"biased lock",
     "owner beside another",
     lock_owned,
     {locked_add, locked_add},
     two_were_added,
     false},
    {"biased lock",
     "owner twice beside another",
     lock_owned,
     {two_adds, locked_add},
     three_were_added,
     false},
    {"biased lock", "twice each", lock_owned, {two_adds, two_adds}, four_were_added, true},
    {"biased lock",
     "owner without barrier",
     lock_owned_without_barrier,
     {two_adds, locked_add},
     three_were_added,
     false},
    {"biased lock",
     "becoming the owner",
     lock_almost_owned,
     {two_adds, locked_add},
     three_were_added,
     false},
    {"biased lock",
     "becoming it without barrier",
     lock_almost_owned_without_barrier,
     {two_adds, locked_add},
     three_were_added,
     false},
    {"biased lock", "tried by another", lock_owned, {two_adds, tried_add}, some_were_added, false},
    {"biased lock",
     "tried by the owner",
     lock_owned,
     {tried_add, two_adds},
     some_were_added,
     false},
    {"biased lock",
     "tried while it is given up",
     lock_almost_owned,
     {two_adds, tried_add},
     some_were_added,
     false},
    {"biased lock",
     "tried by one, taken by another",
     lock_almost_owned,
     {two_adds, tried_add, locked_add},
     some_more_were_added,
     true},
    {"biased lock",
     "three threads",
     lock_owned,
     {locked_add, locked_add, locked_add},
     three_were_added,
     true},
    {.name = NULL}};
