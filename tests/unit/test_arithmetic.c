/* SPDX-License-Identifier: Apache-2.0 */
/* test_arithmetic.c: size.h at its edges, and the atomic maximum. */
#include "base/atomic.h"
#include "base/os/os.h"
#include "base/size.h"
#include "rig/rig.h"

#define MOST UINT64_MAX

TEST(sums_and_products_tell_overflow) {
    uint64_t out = 7;
    assert_true(vr_add(1, 2, &out) && out == 3);
    assert_true(vr_add(MOST, 0, &out) && out == MOST);
    out = 7;
    assert_false(vr_add(MOST, 1, &out));
    assert_false(vr_add(MOST, MOST, &out));
    assert_true(out == 7);
    assert_true(vr_mul(MOST, 1, &out) && out == MOST);
    assert_true(vr_mul(MOST, 0, &out) && out == 0);
    out = 7;
    assert_false(vr_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(vr_mul(MOST, 2, &out));
    assert_true(out == 7);
}

TEST(rounding_up_takes_any_unit) {
    uint64_t out = 7;
    assert_true(vr_round_up(0, 4096, &out) && out == 0);
    assert_true(vr_round_up(1, 4096, &out) && out == 4096);
    assert_true(vr_round_up(4096, 4096, &out) && out == 4096);
    assert_true(vr_round_up(10, 7, &out) && out == 14); /* not a power of two */
    assert_true(vr_round_up(MOST, 1, &out) && out == MOST);
    assert_true(vr_round_up(MOST, MOST, &out) && out == MOST);
    out = 7;
    assert_false(vr_round_up(MOST, 2, &out));
    assert_false(vr_round_up(MOST - 4094, 4096, &out));
    assert_true(out == 7);
    assert_true(vr_round_up(MOST - 4095, 4096, &out) && out == MOST - 4095);
}

TEST(powers_and_bits) {
    assert_false(vr_is_power_of_two(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = UINT64_C(1) << bit;
        assert_true(vr_is_power_of_two(value));
        assert_int_equal(vr_is_power_of_two(value | 1), bit == 0);
        assert_int_equal(vr_low_bit(value), bit);
        assert_int_equal(vr_high_bit(value), bit);
        assert_int_equal(vr_low_bit(value | UINT64_C(1) << 63), bit);
        assert_int_equal(vr_high_bit(value | 1), bit);
    }
}

TEST(inside_does_not_wrap) {
    assert_true(vr_inside(10, 5, 10, 5));
    assert_true(vr_inside(12, 3, 10, 5));
    assert_true(vr_inside(15, 0, 10, 5)); /* nothing, at the end */
    assert_false(vr_inside(15, 1, 10, 5));
    assert_false(vr_inside(9, 1, 10, 5));
    assert_false(vr_inside(16, 0, 10, 5));
    assert_false(vr_inside(12, MOST, 10, 5));
    assert_false(vr_inside(MOST, 2, 10, 5));
    assert_true(vr_inside(MOST, 0, MOST - 5, 5));
}

TEST(overlap_is_a_shared_byte) {
    assert_true(vr_overlap(10, 5, 14, 5));
    assert_true(vr_overlap(14, 5, 10, 5));
    assert_false(vr_overlap(10, 5, 15, 5));
    assert_false(vr_overlap(15, 5, 10, 5));
    assert_true(vr_overlap(10, 10, 12, 1));
    assert_false(vr_overlap(10, 0, 5, 20));
    assert_false(vr_overlap(5, 20, 10, 0));
    /* Ranges that end where the addresses do are ranges like any other. */
    assert_true(vr_overlap(MOST - 4, 5, MOST - 4, 1));
    assert_true(vr_overlap(0, MOST, MOST - 4, 4));
    assert_false(vr_overlap(0, 10, MOST - 4, 5));
}

static vr_atomic_u64 peak;

static void raise_peak(void *argument) {
    uint64_t start = *(uint64_t *)argument;
    for (uint64_t i = 0; i < 50000; i++) {
        vr_atomic_max(&peak, start + i * 3);
    }
}

TEST(a_maximum_only_rises) {
    struct vr_thread threads[3];
    uint64_t starts[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "test", raise_peak, &starts[i]), VRAM_OK);
    }
    for (int i = 0; i < 3; i++) {
        vr_os_thread_join(&threads[i]);
    }
    assert_int_equal(vr_load(&peak, VR_RELAXED), 2 + 49999 * 3);
    vr_atomic_max(&peak, 5);
    assert_int_equal(vr_load(&peak, VR_RELAXED), 2 + 49999 * 3);
}
