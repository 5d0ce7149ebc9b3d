/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_point.c: points in time under the worst interleavings, with a driver made for it.
 *
 * The driver records signals in the order they reach it and, when asked, runs another mark in the
 * middle of one: exactly what a second thread can do, but at will.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "rig/rig.h"

#include <string.h>
#include <time.h>

enum { SIGNALS_MAX = 64 };

/* What reached the driver, in order, and how it is to behave. */
static struct {
    uint64_t values[SIGNALS_MAX];
    uint64_t taken[SIGNALS_MAX]; /* numbers taken when it arrived: all work in front of it */
    unsigned count;
    unsigned nested; /* run this many marks inside the next signal, before it is recorded */
    vram_status answer;
    vram_status poll_answer;
    unsigned polls;
} driver;

static struct vr_context context;
static struct vr_device_object device;
static struct vr_queue_object queue;
static vr_atomic_u64 word;

static vram_status fake_signal(struct vr_queue *base, uint64_t value) {
    (void)base;
    if (driver.nested) {
        uint64_t other;
        driver.nested--;
        assert_int_equal(vr_queue_mark(&queue, &other), VRAM_OK);
    }
    if (driver.answer != VRAM_OK) {
        return vr_error_set(driver.answer, "fake", "signal", 7, "refused");
    }
    assert_true(driver.count < SIGNALS_MAX);
    driver.taken[driver.count] = vr_load(&queue.issued, VR_RELAXED);
    driver.values[driver.count++] = value;
    return VRAM_OK;
}

static vram_status fake_poll(struct vr_queue *base) {
    (void)base;
    driver.polls++;
    return driver.poll_answer;
}

static const struct vr_queue_ops fake_ops = {.signal = fake_signal, .poll = fake_poll};

static int start(void) {
    memset(&driver, 0, sizeof driver);
    memset(&context, 0, sizeof context);
    memset(&device, 0, sizeof device);
    memset(&queue, 0, sizeof queue);
    driver.poll_answer = VRAM_ERR_NOT_READY;
    context.wait_ns = 1000000;
    device.context = &context;
    device.base.queue_ops = &fake_ops;
    device.base.info.backend = "fake";
    queue.device = &device;
    queue.base.device = &device.base;
    queue.base.word = &word;
    vr_store(&word, 0, VR_RELAXED);
    return 0;
}

/* However they nest, the last write is the highest number, and nobody repeats without reason. */
TEST(the_last_write_is_always_the_highest) {
    for (unsigned depth = 1; depth < 6; depth++) {
        uint64_t value;
        start();
        driver.nested = depth;
        assert_int_equal(vr_queue_mark(&queue, &value), VRAM_OK);
        assert_int_equal(value, 1);
        assert_int_equal(driver.values[driver.count - 1], depth + 1);
        assert_true(driver.count <= 2 * (depth + 1));
    }
}

/* Claim (1) of point.c: a write of v stands behind the work of every number up to v, which is so
   when all of them were taken before it reached the driver. */
TEST(a_word_never_claims_too_much) {
    uint64_t value;
    for (unsigned depth = 0; depth < 6; depth++) {
        start();
        driver.nested = depth;
        assert_int_equal(vr_queue_mark(&queue, &value), VRAM_OK);
        for (unsigned i = 0; i < driver.count; i++) {
            assert_true(driver.values[i] <= driver.taken[i]);
        }
        vr_store(&word, driver.values[driver.count - 1], VR_RELEASE);
        assert_int_equal(vr_queue_wait_value(&queue, depth + 1, 0), VRAM_OK);
    }
}

/* ------------------------------------------------------------------ waiting */

/* The first sleep of a wait: when it came, what the driver had been asked by then, and how the
   point passes. */
static struct {
    uint64_t at; /* vr_os_now; 0: not yet */
    unsigned polls;
} first_sleep;

static void sleep_and_pass(void *user, uint64_t ns) {
    (void)user;
    (void)ns;
    if (!first_sleep.at) {
        first_sleep.at = vr_os_now();
        first_sleep.polls = driver.polls;
    }
    vr_store(&word, 1, VR_RELEASE);
}

/* A sleep takes longer than a short wait does. Where there is one processor it may be needed by
   others. */
TEST(a_short_wait_does_not_sleep) {
    const struct vr_clock_source source = {NULL, sleep_and_pass, NULL};
    first_sleep.at = 0;
    vr_clock_set(&source);
    uint64_t began = vr_os_now();
    vram_status status = vr_queue_wait_value(&queue, 1, UINT64_C(60000000000));
    vr_clock_set(NULL);
    assert_int_equal(status, VRAM_OK);
    assert_true(first_sleep.at != 0); /* a long one does */
    uint32_t processors = vr_os_processors() < 16 ? vr_os_processors() : 16;
    if (processors > 1) {
        assert_true(first_sleep.at - began >= 100000 * processors);
    }
    /* The pauses at least; a yield takes 16 ns or more, and every 64th asks. */
    assert_in_range(first_sleep.polls, 5, 21 + 100000 * processors / 16 / 64);
}

/* On a busy machine a yield gives the processor away for long. */
static unsigned slow_yields; /* 0: yields are as the system has them */

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    if (slow_yields) {
        slow_yields++;
        struct timespec busy = {.tv_nsec = 1000000};
        return nanosleep(&busy, NULL);
    }
    return __real_sched_yield();
}

TEST(a_busy_machine_makes_no_wait_yield_for_long) {
    slow_yields = 1;
    vram_status status = vr_queue_wait_value(&queue, 1, 3000000);
    unsigned yields = slow_yields - 1;
    slow_yields = 0;
    assert_int_equal(status, VRAM_ERR_TIMEOUT);
    assert_in_range(yields, 0, 1);
}

TEST(loss_ends_a_wait_and_is_remembered) {
    driver.poll_answer = VRAM_ERR_DEVICE_LOST;
    assert_int_equal(vr_queue_wait_value(&queue, 1, UINT64_C(60000000000)), VRAM_ERR_DEVICE_LOST);
    assert_true(vr_load(&device.base.lost, VR_ACQUIRE));
    unsigned polls = driver.polls;
    assert_int_equal(vr_queue_wait_value(&queue, 1, UINT64_C(60000000000)), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(driver.polls, polls); /* no driver call on a lost device */
}

/* A look at an idle queue passes the number, one at a busy queue does not. The error record
   stays. */
TEST(a_look_asks_the_driver_once) {
    vr_error_set(VRAM_ERR_BUSY, "fake", "before", 3, "an error from before");
    driver.poll_answer = VRAM_OK;
    vr_queue_look(&queue, 1);
    assert_int_equal(driver.polls, 1);
    assert_true(vr_queue_passed(&queue, 1));
    driver.poll_answer = VRAM_ERR_NOT_READY;
    vr_queue_look(&queue, 2);
    assert_int_equal(driver.polls, 2);
    assert_false(vr_queue_passed(&queue, 2));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_BUSY);
    assert_string_equal(vram_error_get()->text, "an error from before");
}

EACH_TEST(start, NULL)
