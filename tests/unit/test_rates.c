/* SPDX-License-Identifier: Apache-2.0 */
/* test_rates.c: which way copies of ordinary memory go, by what the ways were seen to cost. */
#include "base/size.h"
#include "xfer/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct vr_rates rates;

static int start(void **state) {
    (void)state;
    memset(&rates, 0, sizeof rates);
    return 0;
}

/* One copy on a machine where each way costs so much for a MiB; whether it was staged. */
static bool copy(bool to_host, uint64_t bytes, uint64_t staged_ns, uint64_t plain_ns) {
    bool staged = vr_rates_choose(&rates, to_host, bytes);
    uint64_t ns = staged ? staged_ns : plain_ns;
    vr_rates_note(&rates, to_host, staged, bytes, ns * bytes / VR_MIB);
    return staged;
}

static unsigned staged_of(bool to_host, uint64_t bytes, unsigned copies, uint64_t staged_ns,
                          uint64_t plain_ns) {
    unsigned staged = 0;
    for (unsigned i = 0; i < copies; i++) {
        staged += copy(to_host, bytes, staged_ns, plain_ns);
    }
    return staged;
}

static void the_quicker_way_is_taken(void **state) {
    (void)state;
    assert_true(staged_of(false, 4 * VR_MIB, 1000, 30000, 100000) >= 980);
    assert_true(staged_of(true, 4 * VR_MIB, 1000, 100000, 30000) <= 30);
    assert_true(staged_of(false, 512 * VR_KIB, 1000, 100000, 30000) <=
                30); /* each class by itself */
}

/* Both ways are tried, and tried again: a machine changes. */
static void what_changes_is_noticed(void **state) {
    (void)state;
    assert_true(staged_of(false, VR_MIB, 500, 30000, 100000) >= 480);
    assert_true(staged_of(false, VR_MIB, 2000, 100000, 30000) <= 1000);
    assert_true(staged_of(false, VR_MIB, 500, 100000, 30000) <= 20);
}

/* What a machine with a fast bus was seen to do: the first staged copies make slots of page-locked
   memory, which takes twenty times as long as a copy, and must not be held against the others. */
static void slots_in_the_making_are_no_rate(void **state) {
    unsigned staged = 0;
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        staged += copy(false, 16 * VR_MIB, i < 8 ? 900000 : 45000, 150000);
    }
    assert_true(staged >= 80);
}

/* One copy that was disturbed, however long, changes nothing. */
static void a_disturbance_is_forgiven(void **state) {
    (void)state;
    (void)staged_of(false, 4 * VR_MIB, 100, 45000, 150000);
    for (unsigned i = 0; i < 20; i++) {
        vr_rates_note(&rates, false, true, 4 * VR_MIB, UINT64_C(1000000000));
        assert_true(staged_of(false, 4 * VR_MIB, 10, 45000, 150000) >= 9);
    }
}

/* A way that is fast now and then is what it is mostly. */
static void a_lucky_copy_is_no_rate(void **state) {
    unsigned staged = 0;
    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        staged += copy(false, VR_MIB, i % 4 ? 111000 : 60000, 91000);
    }
    assert_true(staged <= 60); /* until both have made sixteen, and then the trials */
    staged = 0;
    for (unsigned i = 0; i < 640; i++) {
        staged += copy(false, VR_MIB, i % 4 ? 111000 : 60000, 91000);
    }
    assert_int_equal(staged, 10); /* the trials alone */
}

/* Ways that are alike do not alternate, whichever was taken first. */
static void what_is_alike_stays(void **state) {
    (void)state;
    (void)staged_of(false, 4 * VR_MIB, 100, 100000, 100000);
    unsigned changes = 0;
    bool last = true;
    for (unsigned i = 0; i < 640; i++) {
        bool staged = copy(false, 4 * VR_MIB, 98000 + i * 7919 % 4000, 98000 + i * 104729 % 4000);
        changes += staged != last;
        last = staged;
    }
    assert_true(changes <= 2 * 640 / 64 + 2); /* the trials alone */
}

/* A large copy is no trial. */
static void large_copies_follow_small_ones(void **state) {
    (void)state;
    assert_int_equal(staged_of(false, VR_GIB, 100, 30000, 100000), 100);
    assert_true(vr_rates_choose(&rates, true, VR_GIB)); /* nothing is known */
    (void)staged_of(true, 4 * VR_MIB, 100, 100000, 30000);
    assert_int_equal(staged_of(true, VR_GIB, 100, 100000, 30000), 0);
}

static void any_number_is_taken(void **state) {
    static const uint64_t sizes[] = {1, 4096, VR_MIB - 1, VR_MIB, UINT64_MAX};
    (void)state;
    for (int i = 0; i < 5; i++) {
        for (int way = 0; way < 4; way++) {
            vr_rates_note(&rates, way & 1, way & 2, sizes[i], 0);
            vr_rates_note(&rates, way & 1, way & 2, sizes[i], UINT64_MAX);
            (void)vr_rates_choose(&rates, way & 1, sizes[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_quicker_way_is_taken, start),
        cmocka_unit_test_setup(what_changes_is_noticed, start),
        cmocka_unit_test_setup(slots_in_the_making_are_no_rate, start),
        cmocka_unit_test_setup(a_disturbance_is_forgiven, start),
        cmocka_unit_test_setup(a_lucky_copy_is_no_rate, start),
        cmocka_unit_test_setup(what_is_alike_stays, start),
        cmocka_unit_test_setup(large_copies_follow_small_ones, start),
        cmocka_unit_test_setup(any_number_is_taken, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
