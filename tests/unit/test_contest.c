/* SPDX-License-Identifier: Apache-2.0 */
/* test_contest.c: a contest of vram bench that lacks host memory at any place says so. */
#include "bench/contest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int fails_in; /* requests until one fails; 0: none does */

static bool comes_up(void) {
    return fails_in > 0 && --fails_in == 0;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    return comes_up() ? NULL : __real_calloc(count, bytes);
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return comes_up() ? NULL : __real_aligned_alloc(align, bytes);
}

static bool absent(struct entry *entry) {
    (void)entry;
    return false;
}

static void nothing(struct entry *entry) {
    (void)entry;
}

static void no_progress(void *user, uint64_t done, uint64_t all) {
    (void)user;
    (void)done;
    (void)all;
}

static bool run_failing(enum pattern pattern, int at) {
    static const struct allocator none = {.open = absent, .close = nothing};
    struct contest contest = {.plan = {.pattern = pattern, .threads = 2, .live = 3},
                              .entry_count = 2};
    for (uint32_t i = 0; i < contest.entry_count; i++) {
        contest.entries[i] =
            (struct entry){.allocator = &none, .bytes = 512, .threads = 2, .live = 3};
    }
    fails_in = at;
    return contest_run(&contest, no_progress, NULL);
}

static void any_request_may_fail(void **state) {
    static const enum pattern patterns[] = {PATTERN_PAIR, PATTERN_HANDOVER};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int at = 0;
        do {
            at++;
            bool good = run_failing(patterns[i], at);
            assert_int_equal(good, fails_in > 0);
        } while (fails_in == 0);
        assert_true(at > 10); /* the scripts, the team, and of two entries samples and workers */
        fails_in = 0;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
