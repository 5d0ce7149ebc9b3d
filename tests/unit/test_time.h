/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_time.h: a clock of the test's own in the place of the library's. Time passes while somebody
 * sleeps, by a step with each look at it, and when the test moves it on.
 */
#ifndef TEST_TIME_H
#define TEST_TIME_H

#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint_fast64_t test_time_ns, test_time_step_ns;

static inline uint64_t test_time_look(void *unused) {
    (void)unused;
    return atomic_fetch_add(&test_time_ns, test_time_step_ns) + test_time_step_ns;
}

static inline void test_time_sleep(void *unused, uint64_t ns) {
    (void)unused;
    atomic_fetch_add(&test_time_ns, ns);
}

static inline void test_time_begin(uint64_t now_ns, uint64_t step_ns) {
    test_time_ns = now_ns;
    test_time_step_ns = step_ns;
    vr_clock_set(&(struct vr_clock_source){test_time_look, test_time_sleep, NULL});
}

static inline void test_time_end(void) {
    vr_clock_set(NULL);
}

#endif
