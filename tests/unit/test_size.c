/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_size.c: checked arithmetic at its edges, the atomic maximum; sizes and durations as text.
 */
#include "base/atomic.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/size_text.h"
#include "rig/rig.h"
#include "vram/base.h"

#include <inttypes.h>
#include <string.h>

struct reading {
    const char *text;
    uint64_t value;
};

#define KI UINT64_C(1024)

static const struct reading sizes[] = {
    {"0", 0},
    {"4096", 4096},
    {"0004096", 4096},
    {"64K", 64 * KI},
    {"64k", 64 * KI},
    {"64KiB", 64 * KI},
    {"64kib", 64 * KI},
    {"64KB", 64000},
    {"64kB", 64000},
    {"64kb", 64000},
    {"2 MB", 2000000},
    {"2   M", 2 * KI *KI},
    {"1.5GiB", 3 * KI *KI *KI / 2},
    {"1.5GB", 1500000000},
    {"1.50000000000000000000000000000G", 3 * KI *KI *KI / 2},
    {"3T", 3 * KI *KI *KI *KI},
    {"3TB", UINT64_C(3000000000000)},
    {"1P", KI *KI *KI *KI *KI},
    {"1EiB", KI *KI *KI *KI *KI *KI},
    {"15.999E", UINT64_C(18445591152204944769)},
    {"512 B", 512},
    {"512b", 512},
    {"0.3K", 307}, /* a part of a byte is dropped */
    {"0.0K", 0},
    {"0.9999999999999999999999999999999999999999K", 1023},
    {"0.001kB", 1},
    {"18446744073709551615", UINT64_MAX},
    {"18446744073709551615B", UINT64_MAX},
    {"18014398509481983K", UINT64_C(18446744073709550592)},
    {"18014398509481983.9999K", UINT64_C(18446744073709551615)},
};

TEST(reads_sizes) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t bytes = 77;
        if (vram_size_parse(sizes[i].text, &bytes) != VRAM_OK || bytes != sizes[i].value) {
            fail_msg("%s read as %" PRIu64, sizes[i].text, bytes);
        }
    }
}

TEST(refuses_bad_sizes) {
    const char *const bad[] = {"",
                               " ",
                               " 1",
                               "1 ",
                               "1K ",
                               "+1",
                               "-1",
                               "K",
                               ".5G",
                               "5.G",
                               "1.5",
                               "1.5B",
                               "2.0",
                               "1,5G",
                               "1.2.3",
                               "0x10",
                               "1e3",
                               "1KK",
                               "1KiBB",
                               "1Ki",
                               "1iB",
                               "1Z",
                               "1 K B",
                               "1\tK",
                               "1K\n",
                               "B",
                               "1bb",
                               "1.K",
                               "0.0001K",
                               "0.00000000000001GB",
                               "\xEF\xBC\x91",
                               "1\xC2\xA0K",
                               "nan",
                               "inf",
                               "1KiBx"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 77;
        vram_error_clear();
        if (vram_size_parse(bad[i], &bytes) != VRAM_ERR_INVALID || bytes != 77) {
            fail_msg("\"%s\" was read as %" PRIu64, bad[i], bytes);
        }
        assert_int_equal(vram_error_get()->status, VRAM_ERR_INVALID);
        assert_string_equal(vram_error_get()->operation, "vram_size_parse");
        assert_non_null(strstr(vram_error_get()->text, "1.5GiB")); /* names what would do */
    }
}

TEST(refuses_what_overflows) {
    const char *const huge[] = {"18446744073709551616",    "99999999999999999999999999999999999999",
                                "18014398509481984K",      "16E",
                                "18446744073709551615.5K", "20EB",
                                "18446744073709551616B"};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        uint64_t bytes = 77;
        assert_int_equal(vram_size_parse(huge[i], &bytes), VRAM_ERR_OVERFLOW);
        assert_int_equal(bytes, 77);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_OVERFLOW);
    }
}

TEST(refuses_null) {
    uint64_t bytes = 77;
    assert_int_equal(vram_size_parse(NULL, &bytes), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "text is NULL"));
    assert_int_equal(vram_size_parse("1", NULL), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "bytes is NULL"));
    assert_int_equal(bytes, 77);
    assert_null(vram_size_format(1, NULL));
}

TEST(formats_for_people) {
    const struct reading shown[] = {
        {"0 B", 0},
        {"512 B", 512},
        {"1023 B", 1023},
        {"1.00 KiB", 1024},
        {"1.50 KiB", 1536},
        {"2.00 MiB", 2 * KI * KI},
        {"79.10 GiB", UINT64_C(84932978278)},
        {"1.00 MiB", KI * KI - 1}, /* 1023.999 KiB rounds into the next unit */
        {"1023.99 KiB", KI * KI - 10},
        {"1.00 KiB", 1029},
        {"1.01 KiB", 1030},
        {"3.00 TiB", 3 * KI * KI * KI * KI},
        {"4.00 PiB", 4 * KI * KI * KI * KI * KI},
        {"1.00 EiB", KI * KI * KI * KI * KI * KI - 1},
        {"16.00 EiB", UINT64_MAX},
        {"15.99 EiB", UINT64_MAX - KI * KI * KI * KI * KI * 6},
    };
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        char text[VRAM_SIZE_TEXT_MAX];
        assert_ptr_equal(vram_size_format(shown[i].value, text), text);
        assert_string_equal(text, shown[i].text);
    }
}

static uint64_t random_u64(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Reading back what was formatted lands within half a hundredth of the unit. */
TEST(formatted_sizes_read_back) {
    uint64_t seed = 88172645463325252;
    for (int round = 0; round < 50000; round++) {
        uint64_t bytes = random_u64(&seed) >> (round % 64), again = 0;
        char text[VRAM_SIZE_TEXT_MAX];
        vram_size_format(bytes, text);
        vram_status status = vram_size_parse(text, &again);
        if (status == VRAM_ERR_OVERFLOW && bytes > UINT64_MAX - (UINT64_C(1) << 53)) {
            continue; /* 16.00 EiB is one byte more than there is */
        }
        uint64_t unit = bytes < KI ? 1 : UINT64_C(1) << (vr_high_bit(bytes) / 10 * 10);
        uint64_t off = again > bytes ? again - bytes : bytes - again;
        if (status != VRAM_OK || off > unit / 200 + 1) {
            fail_msg("%" PRIu64 " became %s and then %" PRIu64, bytes, text, again);
        }
    }
}

/* ------------------------------------------------------------------ durations */

TEST(reads_durations) {
    const struct reading good[] = {
        {"0", 0},
        {"00", 0},
        {"5ns", 5},
        {"5us", 5000},
        {"5ms", 5000000},
        {"5s", UINT64_C(5000000000)},
        {"5 s", UINT64_C(5000000000)},
        {"2min", UINT64_C(120000000000)},
        {"1.5ms", 1500000},
        {"0s", 0},
        {"0.0s", 0},
        {"0.0000000019s", 1},
        {"18446744073709551615ns", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t ns = 77;
        if (vr_duration_read(good[i].text, &ns) != VRAM_OK || ns != good[i].value) {
            fail_msg("%s read as %" PRIu64, good[i].text, ns);
        }
    }
    const char *const large[] = {"307445734.99min", "18446744073.8s", "18446744073709551616ns"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        uint64_t ns = 77;
        assert_int_equal(vr_duration_read(large[i], &ns), VRAM_ERR_OVERFLOW);
        assert_int_equal(ns, 77);
    }
    const char *const bad[] = {"18446744073709551616",
                               "5",
                               "",
                               "s",
                               "-1s",
                               "1.5ns",
                               "5S",
                               "5sec",
                               "5m",
                               "5 ",
                               "5s ",
                               "0.0",
                               "1.5",
                               ".5s",
                               "5h",
                               "5 m s",
                               "0.0000000001s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t ns = 77;
        if (vr_duration_read(bad[i], &ns) != VRAM_ERR_INVALID || ns != 77) {
            fail_msg("\"%s\" was read as %" PRIu64, bad[i], ns);
        }
    }
    uint64_t ns;
    assert_int_equal(vr_duration_read("18446744073709551616ns", &ns), VRAM_ERR_OVERFLOW);
    assert_int_equal(vr_duration_read("99999999999min", &ns), VRAM_ERR_OVERFLOW);
    assert_int_equal(vr_duration_read("99999999999999999999", &ns), VRAM_ERR_INVALID);
}

TEST(writes_exact_numbers) {
    char text[VR_NUMBER_TEXT_MAX];
    assert_string_equal(vr_size_write(0, text), "0");
    assert_string_equal(vr_size_write(1000, text), "1000");
    assert_string_equal(vr_size_write(64 * KI, text), "64K");
    assert_string_equal(vr_size_write(3 * KI * KI / 2, text), "1536K");
    assert_string_equal(vr_size_write(5 * KI * KI * KI * KI, text), "5T");
    assert_string_equal(vr_size_write(UINT64_MAX, text), "18446744073709551615");
    assert_string_equal(vr_duration_write(0, text), "0ns");
    assert_string_equal(vr_duration_write(1, text), "1ns");
    assert_string_equal(vr_duration_write(UINT64_C(3600000000000), text), "60min");
    assert_string_equal(vr_duration_write(1500000, text), "1500us");
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        uint64_t value = random_u64(&seed) >> (round % 64) << (round % 7 * 5), again;
        assert_int_equal(vr_size_read(vr_size_write(value, text), &again), VRAM_OK);
        assert_true(again == value);
        assert_int_equal(vr_duration_read(vr_duration_write(value, text), &again), VRAM_OK);
        assert_true(again == value);
    }
}

/* ----------------------------------------------------------------- arithmetic */

TEST(ranges_and_bits) {
    assert_true(vr_inside(10, 5, 10, 5) && vr_inside(15, 0, 10, 5) && vr_inside(12, 2, 10, 5));
    assert_false(vr_inside(9, 1, 10, 5) || vr_inside(14, 2, 10, 5) || vr_inside(16, 0, 10, 5));
    assert_false(vr_inside(UINT64_MAX, UINT64_MAX, 10, 5) || vr_inside(12, UINT64_MAX, 10, 5));
    assert_true(vr_overlap(0, 10, 9, 1) && vr_overlap(5, 1, 0, 10));
    assert_false(vr_overlap(0, 10, 10, 1) || vr_overlap(0, 0, 0, 1) || vr_overlap(0, 1, 0, 0));
    assert_true(vr_is_power_of_two(1) && vr_is_power_of_two(UINT64_C(1) << 63));
    assert_false(vr_is_power_of_two(0) || vr_is_power_of_two(3) || vr_is_power_of_two(UINT64_MAX));
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(vr_low_bit(UINT64_C(1) << i | UINT64_C(1) << 63), i);
        assert_int_equal(vr_high_bit(UINT64_C(1) << i | 1), i);
    }
}

/* ---------------------------------------------------------------------- arithmetic */

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
