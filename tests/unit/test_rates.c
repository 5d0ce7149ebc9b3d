/* SPDX-License-Identifier: Apache-2.0 */
/* test_rates.c: which way copies of ordinary memory go, by what the ways were seen to cost. */
#include "byte_units.h"
#include "rig/rig.h"
#include "xfer/rates.h"

#include <string.h>

static struct vr_rates rates;

static int start(void) {
    memset(&rates, 0, sizeof rates);
    return 0;
}

/* One copy on a machine where each way costs so much for a MiB; whether it was staged. */
static bool copy(bool to_host, uint64_t bytes, uint64_t staged_ns, uint64_t plain_ns) {
    bool staged = vr_rates_choose(&rates, to_host, bytes);
    uint64_t ns = staged ? staged_ns : plain_ns;
    vr_rates_note(&rates, to_host, staged, bytes, ns * bytes / MIB);
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

TEST(the_quicker_way_is_taken) {
    assert_true(staged_of(false, 4 * MIB, 1000, 30000, 100000) >= 980);
    assert_true(staged_of(true, 4 * MIB, 1000, 100000, 30000) <= 30);
    assert_true(staged_of(false, 512 * KIB, 1000, 100000, 30000) <= 30); /* each class by itself */
}

/* Both ways are tried, and tried again: a machine changes. */
TEST(what_changes_is_noticed) {
    assert_true(staged_of(false, MIB, 500, 30000, 100000) >= 480);
    assert_true(staged_of(false, MIB, 2000, 100000, 30000) <= 1000);
    assert_true(staged_of(false, MIB, 500, 100000, 30000) <= 20);
}

/* What a machine with a fast bus was seen to do: the first staged copies make slots of page-locked
   memory, which takes twenty times as long as a copy, and must not be held against the others. */
TEST(slots_in_the_making_are_no_rate) {
    unsigned staged = 0;
    for (unsigned i = 0; i < 100; i++) {
        staged += copy(false, 16 * MIB, i < 8 ? 900000 : 45000, 150000);
    }
    assert_true(staged >= 80);
}

/* One copy that was disturbed, however long, changes nothing. */
TEST(a_disturbance_is_forgiven) {
    (void)staged_of(false, 4 * MIB, 100, 45000, 150000);
    for (unsigned i = 0; i < 20; i++) {
        vr_rates_note(&rates, false, true, 4 * MIB, UINT64_C(1000000000));
        assert_true(staged_of(false, 4 * MIB, 10, 45000, 150000) >= 9);
    }
}

/* A way that is fast now and then is what it is mostly. */
TEST(a_lucky_copy_is_no_rate) {
    unsigned staged = 0;
    for (unsigned i = 0; i < 400; i++) {
        staged += copy(false, MIB, i % 4 ? 111000 : 60000, 91000);
    }
    assert_true(staged <= 60); /* until both have made sixteen, and then the trials */
    staged = 0;
    for (unsigned i = 0; i < 640; i++) {
        staged += copy(false, MIB, i % 4 ? 111000 : 60000, 91000);
    }
    assert_int_equal(staged, 10); /* the trials alone */
}

/* Ways that are alike do not alternate, whichever was taken first. */
TEST(what_is_alike_stays) {
    (void)staged_of(false, 4 * MIB, 100, 100000, 100000);
    unsigned changes = 0;
    bool last = true;
    for (unsigned i = 0; i < 640; i++) {
        bool staged = copy(false, 4 * MIB, 98000 + i * 7919 % 4000, 98000 + i * 104729 % 4000);
        changes += staged != last;
        last = staged;
    }
    assert_true(changes <= 2 * 640 / 64 + 2); /* the trials alone */
}

/* A large copy is no trial. */
TEST(large_copies_follow_small_ones) {
    assert_int_equal(staged_of(false, GIB, 100, 30000, 100000), 100);
    assert_true(vr_rates_choose(&rates, true, GIB)); /* nothing is known */
    (void)staged_of(true, 4 * MIB, 100, 100000, 30000);
    assert_int_equal(staged_of(true, GIB, 100, 100000, 30000), 0);
}

EACH_TEST(start, NULL)
