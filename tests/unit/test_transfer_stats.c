/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_stats.c: what transfers are counted as: by direction and route, under a clock of
 * the test's own, by many threads at once, and where there is no memory to count in. And which way
 * copies of ordinary memory go, by what the ways were seen to cost.
 */
#include "unit/device_world.h"
#include "unit/json_check.h"
#include "unit/report_text.h"
#include "unit/stats_of.h"
#include "unit/test_time.h"

#include "byte_units.h"
#include "rig/rig.h"
#include "vram/vram.h"
#include "xfer/async_record.h"
#include "xfer/rates.h"
#include "xfer/transfer_counts.h"

#include <stdio.h>
#include <string.h>

static struct vr_device_object *enter(vram_device *device) {
    void *entered;
    assert_ok(vr_enter(VR_KIND_DEVICE, device, &entered));
    return entered;
}

/* -------------------------------------------------------------------- counting */

/* Two copies that overlap: 1024 ns together, then nothing for a while, then one alone. */
TEST(counted_by_direction_and_route, "sim:") {
    struct vr_transfer_count first, second, third;
    struct vr_device_object *device = enter(rig->device);
    test_time_begin(1000000, 0);
    assert_int_equal(transfer_stats_of(rig->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY).started, 0);
    vr_transfer_begin(device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_STAGED, &first);
    atomic_fetch_add(&test_time_ns, 256);
    vr_transfer_begin(device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ASYNC, &second);
    atomic_fetch_add(&test_time_ns, 512);
    vr_transfer_end(&first, 4096, VRAM_OK);
    vram_transfer_stats running = transfer_stats_of(rig->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_int_equal(running.started, 2);
    assert_int_equal(running.operations, 1);
    assert_int_equal(running.busy_ns, 768);
    atomic_fetch_add(&test_time_ns, 256);
    vr_transfer_end(&second, 8192, VRAM_OK);
    atomic_fetch_add(&test_time_ns, 1 << 20);
    vr_transfer_begin(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_STAGED, &third);
    atomic_fetch_add(&test_time_ns, 2048);
    running = transfer_stats_of(rig->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_int_equal(running.busy_ns, 3072);
    vram_async over = {{0, 0, 0, 1024}}; /* no record: the work was complete before its handle */
    vr_async_count(&over, &third);

    vram_transfer_stats staged =
        transfer_stats_of(rig->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_STAGED);
    assert_int_equal(staged.operations, 1);
    assert_int_equal(staged.bytes, 4096);
    assert_int_equal(staged.busy_ns, 768);
    assert_int_equal(staged.latency_ns, 768);
    assert_int_equal(staged.histogram[9], 1);
    vram_transfer_stats up =
        transfer_stats_of(rig->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_ANY);
    assert_int_equal(up.operations, 2);
    assert_int_equal(up.bytes, 12288);
    assert_int_equal(up.busy_ns, 1024);
    assert_int_equal(up.latency_ns, 768 + 768);
    assert_true(up.bytes_per_second > 11.99e9 && up.bytes_per_second < 12.01e9);
    vram_transfer_stats all = transfer_stats_of(rig->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_int_equal(all.operations, 3);
    assert_int_equal(all.busy_ns, 3072);
    assert_int_equal(all.min_latency_ns, 768);
    assert_int_equal(all.max_latency_ns, 2048);
    assert_int_equal(all.histogram[9], 2);
    assert_int_equal(all.histogram[11], 1);
    assert_int_equal(transfer_stats_of(rig->device, VRAM_TRANSFER_PEER, VRAM_ROUTE_ANY).started, 0);
    test_time_end();
    vr_leave(device);
}

/* Of 1000 ns under way a quarter was waited for; more waiting than work is no overlap, not a
   negative one. */
TEST(overlap_and_stalls, "sim:") {
    struct vr_transfer_count count;
    struct vr_device_object *device = enter(rig->device);
    test_time_begin(1000000, 0);
    vr_transfer_stalled(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, 300);
    vr_transfer_stalled(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, 200);
    vr_transfer_begin(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, &count);
    atomic_fetch_add(&test_time_ns, 1024);
    vr_transfer_waited(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, 256);
    vr_transfer_end(&count, 64, VRAM_OK);
    vram_transfer_stats stats =
        transfer_stats_of(rig->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK);
    assert_int_equal(stats.stalls, 2);
    assert_int_equal(stats.stall_ns, 500);
    assert_int_equal(stats.waited_ns, 256);
    assert_true(stats.overlap == 0.75);
    vr_transfer_waited(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_READBACK, 4096);
    stats = transfer_stats_of(rig->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY);
    assert_true(stats.overlap == 0);
    test_time_end();
    vr_leave(device);
}

/* --------------------------------------------------------------------- reading */

TEST(percentiles) {
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_int_equal(vram_transfer_stats_percentile(&stats, 50), 0);
    stats.histogram[3] = 90; /* 8 to 15 ns */
    stats.histogram[10] = 9; /* 1024 to 2047 */
    stats.histogram[VRAM_TRANSFER_BUCKETS - 1] = 1;
    stats.max_latency_ns = UINT64_C(1) << 50;
    assert_int_equal(vram_transfer_stats_percentile(&stats, 0), 15);
    assert_int_equal(vram_transfer_stats_percentile(&stats, 90), 15);
    assert_int_equal(vram_transfer_stats_percentile(&stats, 91), 2047);
    assert_int_equal(vram_transfer_stats_percentile(&stats, 99), 2047);
    assert_int_equal(vram_transfer_stats_percentile(&stats, 100), UINT64_C(1) << 50);
    assert_int_equal(vram_transfer_stats_percentile(&stats, 1000), UINT64_C(1) << 50);
    stats.max_latency_ns = 9;
    assert_int_equal(vram_transfer_stats_percentile(&stats, 50), 9);
    stats.size = 8;
    assert_int_equal(vram_transfer_stats_percentile(&stats, 50), 0);
    assert_int_equal(vram_transfer_stats_percentile(NULL, 50), 0);
}

/* What does not change with the time is in the page of one ended transfer. */
static void expect_numbers(const char *text, const vram_transfer_stats *stats) {
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"started", stats->started},
        {"operations", stats->operations},
        {"failures", stats->failures},
        {"bytes", stats->bytes},
        {"busy_ns", stats->busy_ns},
        {"waited_ns", stats->waited_ns},
        {"stalls", stats->stalls},
        {"stall_ns", stats->stall_ns},
        {"latency_ns", stats->latency_ns},
        {"min_latency_ns", stats->min_latency_ns},
        {"max_latency_ns", stats->max_latency_ns},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "\"%s\": %llu", numbers[i].name,
                 (unsigned long long)numbers[i].value);
        if (!strstr(text, wanted)) {
            fail_msg("no %s in %s", wanted, text);
        }
    }
    for (int i = 0; i < VRAM_TRANSFER_BUCKETS; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "\"below_ns\": %llu,", 2ull << i);
        assert_int_equal(strstr(text, wanted) != NULL,
                         stats->histogram[i] && i < VRAM_TRANSFER_BUCKETS - 1);
    }
}

TEST(as_report, "sim:") {
    static struct report_text page;
    struct vr_transfer_count count;
    struct vr_device_object *device = enter(rig->device);
    memset(&page, 0, sizeof page);
    assert_ok(vram_transfer_stats_write(rig->device, VRAM_REPORT_TEXT, report_text_take, &page));
    assert_string_equal(page.text, "transfers by direction and route:\n  none\n");
    test_time_begin(1000000, 0);
    vr_transfer_begin(device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_DMA_POLLING, &count);
    vr_transfer_end(&count, 10, VRAM_OK); /* in no time */
    test_time_end();
    page.bytes = 0;
    assert_ok(vram_transfer_stats_write(rig->device, VRAM_REPORT_JSON, report_text_take, &page));
    assert_true(json_check(page.text, page.bytes));
    report_text_give("transfers", page.text);
    assert_non_null(strstr(page.text, "\"schema\": \"vram.transfers/1\""));
    assert_non_null(strstr(page.text, "\"direction\": \"to_host\",\n      "
                                      "\"route\": \"dma_polling\""));
    assert_non_null(strstr(page.text, "\"direction\": \"any\",\n      \"route\": \"any\""));
    assert_null(strstr(page.text, "to_device"));
    assert_non_null(strstr(page.text, "\"below_ns\": 2,"));
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(vram_transfer_stats_get(rig->device, VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_DMA_POLLING,
                                      &stats));
    expect_numbers(page.text, &stats);
    page.bytes = 0;
    assert_ok(vram_transfer_stats_write(rig->device, VRAM_REPORT_TEXT, report_text_take, &page));
    assert_non_null(
        strstr(page.text, "  to_host    dma_polling  1 of 1 ended, 0 failed; 10 B at "));
    assert_non_null(strstr(page.text, "  any        any          1 of 1 ended"));
    assert_null(strstr(page.text, "to_device"));
    page.room = page.bytes - 1;
    page.bytes = 0;
    assert_int_equal(
        vram_transfer_stats_write(rig->device, VRAM_REPORT_TEXT, report_text_take, &page),
        VRAM_ERR_IO);
    vr_leave(device);
}

/* --------------------------------------------------------------------------- rates */

static struct vr_rates rates;

static int rates_begin(void) {
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

TEST_IN(rates_begin, NULL, the_quicker_way_is_taken) {
    assert_true(staged_of(false, 4 * MIB, 1000, 30000, 100000) >= 980);
    assert_true(staged_of(true, 4 * MIB, 1000, 100000, 30000) <= 30);
    assert_true(staged_of(false, 512 * KIB, 1000, 100000, 30000) <= 30); /* each class by itself */
}

/* Both ways are tried, and tried again: a machine changes. */
TEST_IN(rates_begin, NULL, what_changes_is_noticed) {
    assert_true(staged_of(false, MIB, 500, 30000, 100000) >= 480);
    assert_true(staged_of(false, MIB, 2000, 100000, 30000) <= 1000);
    assert_true(staged_of(false, MIB, 500, 100000, 30000) <= 20);
}

/* What a machine with a fast bus was seen to do: the first staged copies make slots of page-locked
   memory, which takes twenty times as long as a copy, and must not be held against the others. */
TEST_IN(rates_begin, NULL, slots_in_the_making_are_no_rate) {
    unsigned staged = 0;
    for (unsigned i = 0; i < 100; i++) {
        staged += copy(false, 16 * MIB, i < 8 ? 900000 : 45000, 150000);
    }
    assert_true(staged >= 80);
}

/* One copy that was disturbed, however long, changes nothing. */
TEST_IN(rates_begin, NULL, a_disturbance_is_forgiven) {
    (void)staged_of(false, 4 * MIB, 100, 45000, 150000);
    for (unsigned i = 0; i < 20; i++) {
        vr_rates_note(&rates, false, true, 4 * MIB, UINT64_C(1000000000));
        assert_true(staged_of(false, 4 * MIB, 10, 45000, 150000) >= 9);
    }
}

/* A way that is fast now and then is what it is mostly. */
TEST_IN(rates_begin, NULL, a_lucky_copy_is_no_rate) {
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
TEST_IN(rates_begin, NULL, what_is_alike_stays) {
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
TEST_IN(rates_begin, NULL, large_copies_follow_small_ones) {
    assert_int_equal(staged_of(false, GIB, 100, 30000, 100000), 100);
    assert_true(vr_rates_choose(&rates, true, GIB)); /* nothing is known */
    (void)staged_of(true, 4 * MIB, 100, 100000, 30000);
    assert_int_equal(staged_of(true, GIB, 100, 100000, 30000), 0);
}
