/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_entry_guard.c: the guard of objects that end beside calls on them (base/entry_guard.h): no
 * call enters after the close, and the end waits for all calls inside, up to its deadline.
 */
#include "base/clock.h"
#include "base/entry_guard.h"
#include "base/os/os.h"
#include "rig/rig.h"

#define SECOND UINT64_C(1000000000)

TEST(a_closed_guard_lets_nobody_in) {
    struct vr_entry_guard guard = {0};
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    assert_true(vr_entry_close(&guard));
    assert_false(vr_entry_close(&guard));
    assert_false(vr_entry_is_open(&guard));
    assert_false(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    vr_entry_leave(&guard);
    vr_entry_leave(&guard);
    assert_true(vr_entry_wait(&guard, 0, NULL));
    vr_entry_reopen(&guard);
    assert_true(vr_entry_enter(&guard));
    assert_false(vr_entry_close_empty(&guard));
    vr_entry_leave(&guard);
    assert_true(vr_entry_close_empty(&guard));
    assert_false(vr_entry_close_empty(&guard));
    assert_false(vr_entry_enter(&guard));
    vr_entry_close_to_enter(&guard);
    assert_true(vr_entry_is_open(&guard));
    assert_int_equal(vr_entry_inside(&guard), 1);
    vr_entry_leave(&guard);
    assert_int_equal(vr_entry_inside(&guard), 0);
}

TEST(the_wait_ends_at_its_deadline_or_when_it_is_stopped) {
    struct vr_entry_guard guard = {0};
    vr_atomic_bool stop = false;
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_close(&guard));
    uint64_t began = vr_os_now();
    assert_false(vr_entry_wait(&guard, vr_deadline_in(SECOND / 100), &stop));
    assert_true(vr_os_now() - began >= SECOND / 100);
    vr_store(&stop, true, VR_RELEASE);
    assert_false(vr_entry_wait(&guard, UINT64_MAX, &stop));
    vr_entry_leave(&guard);
}
