/* SPDX-License-Identifier: Apache-2.0 */
/* test_size_bins.c: free spans by queue and size, against a search through all of them. */
#include "core/space/size_bins.h"

#include "base/size.h"
#include "rig/rig.h"

#include <string.h>

enum { SPANS = 300, QUEUES = 5, NOBODY = 99 };

static struct vr_size_bins bins;
static struct vr_block spans[SPANS];
static bool there[SPANS];

static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static int begin(void) {
    memset(&bins, 0, sizeof bins);
    memset(spans, 0, sizeof spans);
    memset(there, 0, sizeof there);
    return 0;
}

static void add(int at, uint64_t queue, uint64_t bytes) {
    vr_store(&spans[at].addr, UINT64_C(0x1000000) + (uint64_t)at * 512, VR_RELAXED);
    vr_store(&spans[at].bytes, bytes, VR_RELAXED);
    vr_bins_add(&bins, &spans[at], queue);
    there[at] = true;
}

static void take(int at) {
    vr_bins_remove(&bins, &spans[at]);
    there[at] = false;
}

/* ------------------------------------------------------------------ naive searches */

static bool is_of(int at, uint64_t queue) {
    return there[at] && spans[at].span.by_queue == queue;
}

/* Addresses rise with the number: the first of the smallest is the lowest. */
static struct vr_block *least(uint64_t queue, uint64_t bytes) {
    struct vr_block *best = NULL;
    for (int i = 0; i < SPANS; i++) {
        uint64_t has = spans[i].span.by_bytes;
        if (is_of(i, queue) && has >= bytes && (!best || has < best->span.by_bytes)) {
            best = &spans[i];
        }
    }
    return best;
}

static struct vr_block *smaller(uint64_t queue, const struct vr_block *than) {
    struct vr_block *best = NULL;
    for (int i = 0; i < SPANS; i++) {
        struct vr_block *span = &spans[i];
        if (is_of(i, queue) && (!than || vr_bins_less(span, than)) &&
            (!best || vr_bins_less(best, span))) {
            best = span;
        }
    }
    return best;
}

static uint64_t queue_behind(uint64_t queue) {
    uint64_t best = NOBODY;
    for (int i = 0; i < SPANS; i++) {
        uint64_t has = spans[i].span.by_queue;
        best = there[i] && has > queue && has < best ? has : best;
    }
    return best;
}

static uint64_t most(void) {
    uint64_t best = 0;
    for (int i = 0; i < SPANS; i++) {
        best = there[i] && spans[i].span.by_bytes > best ? spans[i].span.by_bytes : best;
    }
    return best;
}

/* A bin that is empty is not looked into: size_bins.c (2). */
static void empty_bins_are_known(void) {
    for (uint32_t bin = 0; bin < VR_BINS_COUNT; bin++) {
        bool filled = bins.filled[bin / 64] >> bin % 64 & 1;
        assert_int_equal(filled, bins.roots[bin] != NULL);
    }
}

static void compare(uint64_t *seed) {
    empty_bins_are_known();
    for (uint64_t queue = 0; queue <= QUEUES; queue++) {
        uint64_t bytes = random_next(seed) >> random_next(seed) % 60;
        assert_ptr_equal(vr_bins_least(&bins, queue, bytes), least(queue, bytes));
        assert_ptr_equal(vr_bins_smaller(&bins, queue, NULL), smaller(queue, NULL));
        assert_int_equal(vr_bins_queue_next(&bins, queue, NOBODY), queue_behind(queue));
        int at = (int)(random_next(seed) % SPANS);
        if (is_of(at, queue)) {
            assert_ptr_equal(vr_bins_smaller(&bins, queue, &spans[at]), smaller(queue, &spans[at]));
        }
    }
    assert_int_equal(vr_bins_most(&bins), most());
}

/* --------------------------------------------------------------------------- cases */

TEST(an_empty_shelf_has_nothing) {
    assert_null(vr_bins_least(&bins, 1, 0));
    assert_null(vr_bins_least(&bins, 1, UINT64_MAX));
    assert_null(vr_bins_smaller(&bins, 1, NULL));
    assert_int_equal(vr_bins_queue_next(&bins, 0, NOBODY), NOBODY);
    assert_int_equal(vr_bins_most(&bins), 0);
}

/* Every size has a bin, and a larger one has the same or a later bin: size_bins.c (1). */
TEST(bins_rise_with_sizes) {
    assert_int_equal(vr_bins_index(0), 0);
    assert_int_equal(vr_bins_index(512), 1);
    assert_int_equal(vr_bins_index(UINT64_MAX), VR_BINS_COUNT - 1);
    for (uint64_t units = 1; units < 4096; units++) {
        uint32_t step = vr_bins_index((units + 1) * 512) - vr_bins_index(units * 512);
        assert_in_range(step, 0, 1);
    }
    for (unsigned bit = 9; bit < 63; bit++) {
        uint64_t bytes = UINT64_C(1) << bit;
        assert_true(vr_bins_index(bytes - 512) <= vr_bins_index(bytes));
        assert_true(vr_bins_index(bytes) <= vr_bins_index(bytes + bytes / 8));
        assert_in_range(vr_bins_index(bytes + bytes / 8), 1, VR_BINS_COUNT - 1);
    }
}

/* What a queue lacks in the bin of the size it asks for it may have in a later one, behind others'
   spans. */
TEST(others_do_not_hide_a_queue) {
    add(0, 7, 4096);
    add(1, 3, 8192);
    add(2, 7, 16384);
    add(3, 3, 64 * VR_GIB);
    assert_ptr_equal(vr_bins_least(&bins, 3, 512), &spans[1]);
    assert_ptr_equal(vr_bins_least(&bins, 3, 8193), &spans[3]);
    assert_ptr_equal(vr_bins_least(&bins, 7, 4097), &spans[2]);
    assert_null(vr_bins_least(&bins, 7, 16385));
    assert_null(vr_bins_least(&bins, 5, 512));
    assert_ptr_equal(vr_bins_smaller(&bins, 3, &spans[3]), &spans[1]);
    assert_null(vr_bins_smaller(&bins, 3, &spans[1]));
    assert_int_equal(vr_bins_most(&bins), 64 * VR_GIB);
}

/* Sizes of all magnitudes, and few that many spans share. */
TEST(shelves_answer_as_a_search_through_all_does) {
    uint64_t seed = 20260704;
    for (int round = 0; round < 4000; round++) {
        int at = (int)(random_next(&seed) % SPANS);
        uint64_t drawn = random_next(&seed);
        uint64_t bytes = drawn % 3 ? drawn >> (random_next(&seed) % 54 + 1) : drawn % 40 * 512;
        if (there[at]) {
            take(at);
        } else {
            add(at, 1 + random_next(&seed) % QUEUES, (bytes & ~UINT64_C(511)) + 512);
        }
        if (round % 4 == 0) {
            compare(&seed);
        }
    }
    for (int i = 0; i < SPANS; i++) {
        if (there[i]) {
            take(i);
        }
    }
    an_empty_shelf_has_nothing();
}

EACH_TEST(begin, NULL)
