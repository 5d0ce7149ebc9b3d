/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c: time never falls, tests can replace it, deadlines do not overflow. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/os/os.h"
#include "rig/rig.h"

struct fake {
    uint64_t now;
    uint64_t slept;
};

static uint64_t fake_now(void *user) {
    return ((struct fake *)user)->now;
}

static void fake_sleep(void *user, uint64_t ns) {
    struct fake *fake = user;
    fake->now += ns;
    fake->slept += ns;
}

static int restore(void) {
    vr_clock_set(NULL);
    return 0;
}

TEST(a_fake_replaces_it) {
    struct fake fake = {.now = 100};
    vr_clock_set(&(struct vr_clock_source){fake_now, fake_sleep, &fake});
    assert_int_equal(vr_clock_now(), 100);
    vr_clock_sleep(UINT64_C(3600000000000));
    assert_int_equal(fake.slept, UINT64_C(3600000000000));
    assert_int_equal(vr_clock_now(), UINT64_C(3600000000100));
    struct fake other = {.now = 5}; /* a new source begins where it is */
    vr_clock_set(&(struct vr_clock_source){fake_now, fake_sleep, &other});
    assert_int_equal(vr_clock_now(), 5);
    vr_clock_set(NULL);
    assert_true(vr_clock_now() > 5);
}

TEST(functions_are_replaced_one_by_one) {
    struct fake fake = {.now = 100};
    vr_clock_set(&(struct vr_clock_source){NULL, fake_sleep, &fake});
    assert_true(vr_clock_now() != 100);
    vr_clock_sleep(7);
    assert_int_equal(fake.slept, 7);
    fake.now = 100;
    vr_clock_set(&(struct vr_clock_source){fake_now, NULL, &fake});
    vr_clock_sleep(1);
    assert_int_equal(fake.slept, 7);
    assert_int_equal(vr_clock_now(), 100);
}

TEST(time_never_falls) {
    struct fake fake = {.now = 1000};
    vr_clock_set(&(struct vr_clock_source){fake_now, fake_sleep, &fake});
    assert_int_equal(vr_clock_now(), 1000);
    fake.now = 10; /* a source that falls, or fails with 0 */
    assert_int_equal(vr_clock_now(), 1000);
    fake.now = 0;
    assert_int_equal(vr_clock_now(), 1000);
    fake.now = 1001;
    assert_int_equal(vr_clock_now(), 1001);
}

TEST(deadlines_pass_and_saturate) {
    struct fake fake = {.now = 1000};
    vr_clock_set(&(struct vr_clock_source){fake_now, fake_sleep, &fake});
    uint64_t deadline = vr_deadline_in(50);
    assert_int_equal(deadline, 1050);
    assert_false(vr_deadline_passed(deadline));
    assert_int_equal(vr_deadline_left(deadline), 50);
    fake.now = 1049;
    assert_int_equal(vr_deadline_left(deadline), 1);
    fake.now = 1050;
    assert_true(vr_deadline_passed(deadline));
    assert_int_equal(vr_deadline_left(deadline), 0);
    fake.now = 9999;
    assert_true(vr_deadline_passed(deadline));
    assert_int_equal(vr_deadline_in(UINT64_MAX), UINT64_MAX);
    assert_int_equal(vr_deadline_in(UINT64_MAX - 9999), UINT64_MAX);
    fake.now = UINT64_MAX;
    assert_false(vr_deadline_passed(UINT64_MAX)); /* never */
    assert_true(vr_deadline_passed(UINT64_MAX - 1));
}

/* Each thread sees what any thread saw before: no answer below one that was given. */
static vr_atomic_u64 highest;

static void look_often(void *argument) {
    vr_atomic_u32 *fallen = argument;
    for (int i = 0; i < 20000; i++) {
        uint64_t before = vr_load(&highest, VR_ACQUIRE);
        uint64_t now = vr_clock_now();
        if (now < before) {
            vr_fetch_add(fallen, 1, VR_RELAXED);
        }
        vr_atomic_max(&highest, now);
    }
}

TEST_IN(NULL, NULL, threads_agree) {
    struct vr_thread threads[3];
    vr_atomic_u32 fallen = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "test", look_often, &fallen), VRAM_OK);
    }
    for (int i = 0; i < 3; i++) {
        vr_os_thread_join(&threads[i]);
    }
    assert_int_equal(vr_load(&fallen, VR_RELAXED), 0);
}

/* A clock that is cheap by not being read each time neither runs ahead nor stays behind, and it
   moves. */
TEST_IN(NULL, NULL, a_recent_time_is_recent) {
    uint64_t first = vr_os_now_recent(), last = first, late = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t before = vr_os_now(), recent = vr_os_now_recent(), after = vr_os_now();
        assert_true(recent <= after);
        assert_true(recent >= last);
        late += recent + UINT64_C(1000000) < before;
        last = recent;
    }
    assert_int_equal(late, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = vr_os_now();
        vr_os_sleep(UINT64_C(2000000));
        assert_true(vr_os_now_recent() >= before + UINT64_C(1000000));
    }
    assert_true(vr_os_now_recent() > first);
    uint64_t coarse = vr_clock_coarse();
    assert_true(coarse <= vr_os_now() && coarse + UINT64_C(100000000) > first);
}

/* Ticks pass as time does, at the rate that is said, whether they are the processor's or not. */
TEST(ticks_pass_at_their_rate) {
    const struct vr_clock_source none = {.now = NULL};
    for (int replaced = 0; replaced < 2; replaced++) {
        vr_clock_set(replaced ? &none : NULL);
        vr_clock_ticks_start();
        uint64_t before = vr_os_now(), first = vr_clock_ticks_ordered();
        vr_os_sleep(UINT64_C(20000000));
        uint64_t last = vr_clock_ticks_ordered(), after = vr_os_now();
        double seconds = (double)(last - first) / (double)vr_clock_tick_rate();
        assert_true(seconds > 0.019 && seconds < (double)(after - before) / 1e9 * 1.05);
        assert_true(vr_clock_ticks() + vr_clock_tick_rate() / 1000 >= last);
    }
    vr_clock_set(NULL);
    assert_int_equal(vr_clock_tick_rate(), 1000000000); /* not started: the clock's own */
}

EACH_TEST(NULL, restore)
