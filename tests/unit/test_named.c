/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_named.c: buffers by name: what a second one of a name is, what grows and what stays, the
 * limit of all together, names of any bytes. Item 18 of the acceptance list.
 */
#include "base/clock.h"
#include "byte_units.h"
#include "unit/json_check.h"
#include "unit/mem_world.h"
#include "unit/report_text.h"
#include "vram/compat.h"
#include "vram/limits.h"
#include "vram/named.h"
#include "vram/oom.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static vram_named *named_of(struct rig *rig, vram_pool *pool, uint64_t limit_bytes) {
    vram_named_options options = {.size = sizeof options, .limit_bytes = limit_bytes};
    vram_named *named;
    assert_ok(vram_named_create(pool, rig->queue, &options, &named));
    return named;
}

static vram_named_stats all_of(vram_named *named) {
    vram_named_stats stats = {.size = sizeof stats};
    assert_ok(vram_named_stats_get(named, &stats));
    return stats;
}

static vram_named_info info_of(vram_named *named, const char *name) {
    vram_named_info info = {.size = sizeof info};
    assert_ok(vram_named_info_get(named, name, &info));
    return info;
}

static vram_named_config config_of(vram_precision precision) {
    return (vram_named_config){.size = sizeof(vram_named_config), .precision = precision};
}

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

/* --------------------------------------------------------------- by their names */

/* A second one of a name is an error, or got by a call that says so. */
static void acceptance_18_duplicate_names_are_explicit(void **state) {
    vram_named_config floats = config_of(VRAM_PRECISION_FP32);
    vram_named_config halves = config_of(VRAM_PRECISION_FP16);
    vram_buffer *a = NULL, *b = NULL, *c = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0), *other = named_of(&rig, pool, 0);
    assert_int_equal(vram_named_get(named, "a", NULL, &a), VRAM_ERR_INVALID);
    assert_ok(vram_named_add(named, "a", 1000, &floats, &a));
    assert_int_equal(vram_named_add(named, "a", 1000, &floats, &b), VRAM_ERR_INVALID);
    expect_told("\"a\" already");
    assert_null(b);
    assert_ok(vram_named_get(named, "a", NULL, &b));
    assert_ptr_equal(a, b);
    assert_ok(vram_named_get(named, "a", &floats, &b));
    assert_ok(vram_named_get_or_create(named, "a", 5, &floats, &b));
    assert_ptr_equal(a, b);
    assert_int_equal(info_of(named, "a").used_bytes, 4000); /* its size stays */
    assert_ok(vram_named_get_or_create(named, "b", 10, &halves, &b));
    assert_ok(vram_named_add(other, "a", 1, NULL, &c)); /* another manager, another name */

    /* A type that is another is refused, by whatever call. */
    c = NULL;
    assert_int_equal(vram_named_get(named, "a", &halves, &c), VRAM_ERR_INVALID);
    expect_told("fp32");
    assert_int_equal(vram_named_get_or_create(named, "a", 1, &halves, &c), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_config_set(named, "a", &halves), VRAM_ERR_INVALID);
    assert_null(c);
    assert_ok(vram_named_config_set(named, "a", &floats));

    vram_named_info info = info_of(named, "b");
    assert_ptr_equal(info.buffer, b);
    assert_int_equal(info.precision, VRAM_PRECISION_FP16);
    assert_int_equal(info.capacity_bytes, 20);
    assert_true(info.utilisation > 0.99);
    assert_ok(vram_named_remove(named, "a"));
    assert_int_equal(vram_named_remove(named, "a"), VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_destroy(a), VRAM_ERR_STALE);
    assert_ok(vram_named_add(named, "a", 1, NULL, &a)); /* of the config that was set */
    assert_int_equal(info_of(named, "a").precision, VRAM_PRECISION_FP32);
    assert_int_equal(all_of(named).created, 3);
    assert_int_equal(all_of(named).removed, 1);
    assert_ok(vram_named_destroy(named));
    assert_int_equal(vram_named_destroy(named), VRAM_ERR_STALE);
    assert_int_equal(live_in(pool), 1);
    assert_ok(vram_named_destroy(other));
    assert_int_equal(live_in(pool), 0);
    assert_ok(vram_named_destroy(NULL));
    rig_end_clean(&rig);
}

/* One that the program has destroyed by its handle is gone, and can be made again. */
static void destroyed_by_its_handle(void **state) {
    vram_buffer *buffer;
    vram_named_info info = {.size = sizeof info};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    assert_ok(vram_named_add(named, "a", 1000, NULL, &buffer));
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(vram_named_get(named, "a", NULL, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_ensure(named, "a", 1, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_info_get(named, "a", &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_remove(named, "a"), VRAM_ERR_INVALID);
    assert_int_equal(all_of(named).buffers, 0);
    assert_int_equal(all_of(named).total_bytes, 0);
    assert_ok(vram_named_add(named, "a", 500, NULL, &buffer));
    assert_int_equal(all_of(named).total_bytes, 500);
    rig_end_clean(&rig);
}

/* In the order of their bytes, however they came. */
static void listed_in_order(void **state) {
    static const char *const names[] = {"m", "z", "a", "ab", "A", "\xff", "1"};
    static const char *const order[] = {"1", "A", "a", "ab", "m", "z", "\xff"};
    vram_named_info info = {.size = sizeof info};
    vram_buffer *buffer;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    for (int i = 0; i < 7; i++) {
        assert_ok(vram_named_add(named, names[i], 100, NULL, &buffer));
    }
    vram_named_config config = config_of(VRAM_PRECISION_FP32);
    assert_ok(vram_named_config_set(named, "b", &config)); /* a config is no buffer */
    for (uint32_t i = 0; i < 7; i++) {
        assert_ok(vram_named_info_at(named, i, &info));
        assert_string_equal(info.name, order[i]);
    }
    assert_int_equal(vram_named_info_at(named, 7, &info), VRAM_ERR_INVALID);
    assert_int_equal(all_of(named).buffers, 7);
    rig_end_clean(&rig);
}

/* Control characters reach nobody's terminal, quotes end no string. */
static void names_of_any_bytes(void **state) {
    static const char name[] = "a\n\x1b[31m\"b\\\x7f";
    static struct report_text page;
    vram_buffer *buffer;
    (void)state;
    memset(&page, 0, sizeof page);
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    assert_ok(vram_named_add(named, name, 10, NULL, &buffer));
    assert_int_equal(vram_named_add(named, name, 10, NULL, &buffer), VRAM_ERR_INVALID);
    for (const char *c = vram_error_get()->text; *c; c++) {
        assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
    }
    assert_string_equal(info_of(named, name).name, name); /* as given */
    assert_ok(vram_named_write(named, VRAM_REPORT_JSON, report_text_take, &page));
    for (size_t i = 0; i < page.bytes; i++) {
        assert_true((unsigned char)page.text[i] >= 0x20 || page.text[i] == '\n');
    }
    assert_true(json_check(page.text, page.bytes));
    report_text_give("named", page.text);
    assert_non_null(strstr(page.text, "\"a\\n\\u001b[31m\\\"b\\\\"));
    assert_non_null(strstr(page.text, "\"capacity_bytes\": 10"));
    assert_non_null(strstr(page.text, "\"limit_bytes\": null"));
    page.bytes = 0;
    assert_ok(vram_named_write(named, VRAM_REPORT_TEXT, report_text_take, &page));
    assert_string_equal(page.text, "named buffers: 1, 10 B of 10 B in use, peak 10 B, limit none\n"
                                   "  \"a??[31m\"b\\?\" (bytes): 10 B of 10 B in use (100 %), "
                                   "resized 0 times\n");
    page.room = 20;
    page.bytes = 0;
    assert_int_equal(vram_named_write(named, VRAM_REPORT_TEXT, report_text_take, &page),
                     VRAM_ERR_IO);
    assert_int_equal(vram_named_write(named, VRAM_REPORT_JSON, report_text_take, &page),
                     VRAM_ERR_IO);
    assert_int_equal(vram_named_write(named, VRAM_REPORT_TEXT, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_write(named, (vram_report_format)2, report_text_take, &page),
                     VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- growing */

static uint64_t checksum(struct rig *rig, vram_addr addr, uint64_t bytes) {
    uint8_t *copy = malloc(bytes);
    uint64_t sum = 0;
    assert_non_null(copy);
    assert_ok(vram_queue_download(rig->queue, copy, addr, bytes));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes; i++) {
        sum = sum * 31 + copy[i];
    }
    free(copy);
    return sum;
}

/* Contents stay through growth by each preset, and the total is 0 again at the end. */
static void acceptance_18_resize_keeps_contents(void **state) {
    static const char *const presets[] = {"default", "positions", "velocities",
                                          "forces",  "edges",     "grid_cells"};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, VRAM_NAMED_LIMIT_PRESET);
    assert_int_equal(all_of(named).limit_bytes, 6 * GIB);
    for (int i = 0; i < 6; i++) {
        vram_named_config config = {.size = sizeof config};
        vram_buffer *buffer, *again;
        vram_addr addr;
        assert_ok(vram_named_config_preset(presets[i], &config));
        uint64_t each = config.growth.element_bytes;
        assert_ok(vram_named_config_set(named, presets[i], &config));
        assert_ok(vram_named_add(named, presets[i], 100, NULL, &buffer));
        vram_named_info info = info_of(named, presets[i]);
        assert_int_equal(info.used_bytes, 100 * each);
        assert_int_equal(info.capacity_bytes, config.growth.min_bytes > 100 * each
                                                  ? config.growth.min_bytes
                                                  : 100 * each);
        assert_ok(vram_buffer_addr(buffer, &addr));
        for (uint64_t at = 0; at < 100 * each; at += 4) {
            assert_ok(vram_queue_fill(rig.queue, addr + at, (uint32_t)(at * 7919), 4, 4));
        }
        uint64_t sum = checksum(&rig, addr, 100 * each);
        for (uint64_t elements = 1000; elements <= 100000; elements *= 10) {
            assert_ok(vram_named_ensure(named, presets[i], elements, &again));
            assert_ptr_equal(again, buffer);
            assert_ok(vram_buffer_addr(buffer, &addr));
            assert_int_equal(checksum(&rig, addr, 100 * each), sum);
            assert_int_equal(info_of(named, presets[i]).used_bytes, elements * each);
        }
        assert_ok(vram_named_ensure(named, presets[i], 50, NULL)); /* fits: nothing changes */
        assert_int_equal(info_of(named, presets[i]).used_bytes, 100000 * each);
        assert_true(info_of(named, presets[i]).resizes >= 2);
        assert_ok(vram_named_remove(named, presets[i]));
        assert_int_equal(all_of(named).total_bytes, 0);
    }
    assert_true(all_of(named).resizes >= 12);
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    rig_end_clean(&rig);
}

/* Sums that overflow pass the limit if there is one, and are told as what they are if not. */
static void sums_that_overflow_are_no_limit(void **state) {
    const vram_named_config pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    for (unsigned limited = 0; limited < 2; limited++) {
        vram_named *named = named_of(&rig, pool, limited ? 10 * MIB : 0);
        vram_buffer *buffer;
        assert_ok(vram_named_add(named, "a", MIB, &pinned, &buffer));
        assert_int_equal(vram_named_ensure(named, "a", UINT64_MAX - 4096, &buffer),
                         limited ? VRAM_ERR_LIMIT : VRAM_ERR_OVERFLOW);
        expect_told(limited ? "limit_bytes" : "overflow");
        assert_int_equal(info_of(named, "a").capacity_bytes, MIB);
        assert_ok(vram_named_destroy(named));
    }
    rig_end_clean(&rig);
}

/* The limit holds for all together, also while a buffer has two memories. */
static void acceptance_18_the_limit_holds_while_old_and_new_coexist(void **state) {
    vram_buffer *a, *b, *c = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,vmm=off");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 10 * MIB);
    assert_ok(vram_named_add(named, "a", 4 * MIB, NULL, &a));
    assert_ok(vram_named_add(named, "b", 2 * MIB, NULL, &b));
    assert_int_equal(vram_named_add(named, "c", 4 * MIB + 1, NULL, &c), VRAM_ERR_LIMIT);
    expect_told("limit_bytes");
    assert_null(c);
    assert_int_equal(live_in(pool), 2);
    assert_int_equal(
        vram_named_info_get(named, "c", &(vram_named_info){.size = sizeof(vram_named_info)}),
        VRAM_ERR_INVALID);
    /* 6 held and 5 more are above 10, although 7 would remain: old and new coexist. */
    assert_int_equal(vram_named_ensure(named, "a", 5 * MIB, &a), VRAM_ERR_LIMIT);
    assert_int_equal(info_of(named, "a").capacity_bytes, 4 * MIB);
    assert_int_equal(info_of(named, "a").used_bytes, 4 * MIB);
    assert_ok(vram_named_ensure(named, "b", 4 * MIB, &b));
    assert_int_equal(all_of(named).total_bytes, 8 * MIB);
    assert_int_equal(all_of(named).peak_bytes, 10 * MIB);
    assert_int_equal(all_of(named).refusals, 2);
    /* What the program grows by the handle counts the next time that it matters. */
    assert_ok(vram_buffer_resize(b, 5 * MIB, rig.queue));
    assert_int_equal(vram_named_add(named, "c", 1 * MIB + 1, NULL, &c), VRAM_ERR_LIMIT);
    assert_ok(vram_named_add(named, "c", 1 * MIB, NULL, &c));
    assert_ok(vram_named_remove(named, "a"));
    assert_ok(vram_named_add(named, "a", 4 * MIB, NULL, &a));
    assert_int_equal(all_of(named).total_bytes, 10 * MIB);
    rig_end_clean(&rig);
}

/* Where it grows in place there is one memory, and only what is new counts. */
static void growth_in_place_counts_what_is_new(void **state) {
    vram_buffer *a, *b;
    vram_addr before, after;
    (void)state;
    SKIP_UNDER(TEST_POOL_GUARDS | VRAM_POOL_SEGMENTS, true, "no block grows in place there");
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 10 * MIB);
    assert_ok(vram_named_add(named, "b", 2 * MIB, NULL, &b));
    assert_ok(vram_named_add(named, "a", 4 * MIB, NULL, &a)); /* nothing lies behind it */
    assert_ok(vram_buffer_addr(a, &before));
    assert_ok(vram_named_ensure(named, "a", 8 * MIB, &a)); /* 6 held and 4 more */
    assert_ok(vram_buffer_addr(a, &after));
    assert_int_equal(before, after);
    assert_int_equal(all_of(named).total_bytes, 10 * MIB);
    assert_int_equal(all_of(named).peak_bytes, 10 * MIB);
    assert_int_equal(vram_named_ensure(named, "a", 8 * MIB + 1, &a), VRAM_ERR_LIMIT);
    assert_int_equal(info_of(named, "a").capacity_bytes, 8 * MIB);
    assert_int_equal(all_of(named).refusals, 1);
    assert_ok(vram_named_ensure(named, "b", 2 * MIB, &b));
    rig_end_clean(&rig);
}

/* The policy's own maximum, and overflows. */
static void limits_of_one(void **state) {
    vram_named_config config = config_of(VRAM_PRECISION_FP32);
    vram_buffer *buffer = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    config.growth = (vram_growth){.size = sizeof config.growth, .max_bytes = 4096};
    assert_int_equal(vram_named_add(named, "a", 1025, &config, &buffer), VRAM_ERR_LIMIT);
    assert_int_equal(vram_named_add(named, "a", UINT64_MAX / 2, &config, &buffer),
                     VRAM_ERR_OVERFLOW);
    assert_null(buffer);
    assert_ok(vram_named_add(named, "a", 1000, &config, &buffer));
    assert_int_equal(vram_named_ensure(named, "a", 1025, NULL), VRAM_ERR_LIMIT);
    assert_int_equal(vram_named_ensure(named, "a", UINT64_MAX / 2, NULL), VRAM_ERR_OVERFLOW);
    assert_int_equal(info_of(named, "a").used_bytes, 4000);
    assert_ok(vram_named_ensure(named, "a", 1024, NULL));
    config.growth.max_bytes = 8192; /* the policy may change later */
    assert_ok(vram_named_config_set(named, "a", &config));
    assert_ok(vram_named_ensure(named, "a", 2048, NULL));
    rig_end_clean(&rig);
}

struct mender {
    vram_named *named;
    unsigned calls;
    uint64_t bytes;
    vram_status status;
    unsigned mends; /* at which call it removes "old"; 0: never */
};

static vram_error_answer mend(void *user, const vram_error_event *event) {
    struct mender *mender = user;
    mender->calls++;
    mender->bytes = event->bytes;
    mender->status = event->error->status;
    if (mender->calls == mender->mends) {
        assert_ok(vram_named_remove(mender->named, "old"));
        return VRAM_ERROR_RETRY;
    }
    return VRAM_ERROR_FAIL;
}

/* The error handler hears of what the manager refuses and of what the driver does, and may help. */
static void refusals_reach_the_handler(void **state) {
    vram_named_config config = config_of(VRAM_PRECISION_FP32);
    vram_named_config pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *old, *buffer = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,vmm=off");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 10 * MIB);
    struct mender mender = {.named = named};
    assert_ok(vram_error_handler_set(rig.context, mend, &mender));
    assert_ok(vram_named_add(named, "old", 8 * MIB, NULL, &old));
    assert_int_equal(vram_named_add(named, "a", 4 * MIB, NULL, &buffer), VRAM_ERR_LIMIT);
    assert_int_equal(mender.calls, 1);
    assert_int_equal(mender.bytes, 4 * MIB);
    assert_int_equal(mender.status, VRAM_ERR_LIMIT);
    vram_error_clear();
    mender.mends = 2;
    assert_ok(vram_named_add(named, "a", 4 * MIB, NULL, &buffer)); /* now it goes */
    assert_int_equal(mender.calls, 2);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_ok(vram_named_add(named, "old", 4 * MIB, NULL, &old));
    mender.mends = 3;
    assert_ok(vram_named_ensure(named, "a", 5 * MIB, &buffer)); /* 4, 4 and 5 are too many */
    assert_int_equal(mender.calls, 3);
    config.growth = (vram_growth){.size = sizeof config.growth, .max_bytes = 4096};
    assert_int_equal(vram_named_add(named, "b", 1025, &config, &buffer), VRAM_ERR_LIMIT);
    assert_int_equal(mender.calls, 4);
    assert_ok(vram_named_add(named, "b", 1000, &config, &buffer));
    assert_int_equal(vram_named_ensure(named, "b", 1025, NULL), VRAM_ERR_LIMIT);
    assert_int_equal(mender.calls, 5);
    vram_sim_fault fault = {
        .size = sizeof fault, .nth = 1, .for_ever = true, .code = VRAM_SIM_OUT_OF_MEMORY};
    assert_ok(vram_sim_fault_set(rig.context, &fault));
    assert_true(vram_status_is_exhausted(vram_named_add(named, "c", 100, &pinned, &buffer)));
    assert_int_equal(mender.calls, 6);
    assert_int_equal(all_of(named).refusals, 4); /* beside those that were mended */
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    rig_end_clean(&rig);
}

static uint64_t the_time;
static uint64_t clock_now(void *user) {
    (void)user;
    return the_time;
}
static void clock_sleep(void *user, uint64_t ns) {
    (void)user;
    the_time += ns;
}

static void cleanup_of_the_unused(void **state) {
    vram_buffer *a, *b, *c;
    uint64_t bytes = 77;
    (void)state;
    the_time = SECOND;
    vr_clock_set(&(struct vr_clock_source){clock_now, clock_sleep, NULL});
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    assert_ok(vram_named_add(named, "a", 1000, NULL, &a));
    assert_ok(vram_named_add(named, "b", 2000, NULL, &b));
    assert_ok(vram_named_add(named, "c", 3000, NULL, &c));
    assert_ok(vram_named_cleanup(named, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(vram_buffer_resize(a, 0, rig.queue));
    the_time += 50 * SECOND;
    assert_ok(vram_buffer_resize(b, 0, rig.queue));
    the_time += 20 * SECOND;
    assert_ok(vram_named_cleanup(named, 60 * SECOND, &bytes));
    assert_int_equal(bytes, 1000);
    assert_ok(vram_named_cleanup(named, 0, NULL));
    assert_int_equal(all_of(named).buffers, 1);
    assert_int_equal(all_of(named).total_bytes, 3000);
    assert_int_equal(all_of(named).removed, 2);
    rig_end_clean(&rig);
    vr_clock_set(NULL);
}

/* Only other calls on the buffer are waited for. */
static void a_pool_that_sleeps_is_not_waited_for(void **state) {
    (void)state;
    the_time = SECOND;
    vr_clock_set(&(struct vr_clock_source){clock_now, clock_sleep, NULL});
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    assert_ok(vram_named_add(named, "a", 1000, NULL, &(vram_buffer *){NULL}));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_sleep(pool, NULL));
    uint64_t before = the_time;
    assert_int_equal(vram_named_ensure(named, "a", 64 * MIB, NULL), VRAM_ERR_BUSY);
    assert_true(the_time - before < SECOND / 10);
    assert_ok(vram_pool_wake(pool, NULL));
    assert_ok(vram_named_ensure(named, "a", 64 * MIB, NULL));
    rig_end_clean(&rig);
    vr_clock_set(NULL);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 8, ROUNDS = 100, NAMES = 5 };

struct crowd {
    vram_named *named;
    vram_queue *queue;
    atomic_uintptr_t buffers[NAMES];
    atomic_int failed;
};

static void *ask(void *argument) {
    struct crowd *crowd = argument;
    for (int i = 0; i < ROUNDS; i++) {
        char name[] = "n0";
        vram_buffer *buffer;
        name[1] = (char)('0' + i % NAMES);
        uintptr_t first = 0;
        bool good = vram_named_get_or_create(crowd->named, name, 1000, NULL, &buffer) == VRAM_OK;
        if (good && !atomic_compare_exchange_strong(&crowd->buffers[i % NAMES], &first,
                                                    (uintptr_t)buffer)) {
            good = first == (uintptr_t)buffer; /* the same for everybody */
        }
        good = good &&
               vram_named_ensure(crowd->named, name, 1000 + (uint64_t)i * 50, &buffer) == VRAM_OK;
        atomic_fetch_add(&crowd->failed, !good);
    }
    return NULL;
}

static void *come_and_go(void *argument) {
    struct crowd *crowd = argument;
    for (int i = 0; i < ROUNDS; i++) {
        char name[] = "x0";
        vram_buffer *buffer;
        vram_named_info info = {.size = sizeof info};
        name[1] = (char)('0' + i % NAMES);
        vram_status status = vram_named_get_or_create(crowd->named, name, 1000, NULL, &buffer);
        atomic_fetch_add(&crowd->failed, status != VRAM_OK);
        (void)vram_named_ensure(crowd->named, name, (uint64_t)i * 50, NULL);
        (void)vram_named_info_at(crowd->named, (uint32_t)i % 7, &info);
        (void)vram_named_remove(crowd->named, name);
    }
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        pthread_t threads[THREADS];
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        struct crowd crowd = {.named = named_of(&rig, pool, 0), .queue = rig.queue};
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, round ? come_and_go : ask, &crowd),
                             0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(atomic_load(&crowd.failed), 0);
        if (!round) {
            assert_int_equal(all_of(crowd.named).buffers, NAMES);
            assert_int_equal(all_of(crowd.named).created, NAMES);
            assert_int_equal(live_in(pool), NAMES);
            for (uint64_t i = 0; i < NAMES; i++) {
                char name[] = {'n', (char)('0' + i), 0};
                assert_int_equal(info_of(crowd.named, name).used_bytes,
                                 1000 + (ROUNDS - NAMES + i) * 50);
            }
        }
        assert_ok(vram_named_destroy(crowd.named));
        assert_int_equal(live_in(pool), 0);
        rig_end_clean(&rig);
    }
}

/* The log does what another thread could do at the worst moments: its first line is the call's own
   allocation, its second the free of that. What the log does itself is not logged. */
struct rival {
    vram_named *named;
    vram_buffer *buffer; /* of the same name */
    int lines;
};

static void rival_acts(void *user, vram_log_level level, const char *text) {
    struct rival *rival = user;
    (void)level;
    if (++rival->lines == 1) {
        assert_non_null(strstr(text, "alloc: "));
        assert_ok(vram_named_add(rival->named, "x", 1000, NULL, &rival->buffer));
    } else if (rival->lines == 2) {
        assert_non_null(strstr(text, "free: "));
        assert_ok(vram_buffer_destroy(rival->buffer));
    }
}

/* VRAM_OK has a buffer, also if one of its name was made and destroyed during the call. */
static void made_and_destroyed_meanwhile(void **state) {
    (void)state;
    for (int add = 0; add < 2; add++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, VRAM_POOL_TRACKED);
        struct rival rival = {.named = named_of(&rig, pool, 0)};
        vram_buffer *buffer = NULL;
        vram_log_set(rival_acts, &rival, VRAM_LOG_DEBUG);
        vram_status status = add ? vram_named_add(rival.named, "x", 1000, NULL, &buffer)
                                 : vram_named_get_or_create(rival.named, "x", 1000, NULL, &buffer);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        assert_ok(status);
        assert_int_equal(rival.lines, 3); /* both acts, and a buffer that was made after them */
        assert_non_null(buffer);
        assert_ptr_not_equal(buffer, rival.buffer);
        assert_int_equal(info_of(rival.named, "x").used_bytes, 1000);
        assert_int_equal(live_in(pool), 1);
        assert_ok(vram_named_destroy(rival.named));
        rig_end_clean(&rig);
    }
}

/* ---------------------------------------------------------------------- faults */

/* Whatever fails, what was there before is there, with its contents. */
static vram_status part(struct rig *rig, vram_pool *pool) {
    vram_named_config config = config_of(VRAM_PRECISION_FP32);
    vram_named *named = NULL;
    vram_buffer *buffer;
    char name[16];
    vram_status status = vram_named_create(pool, rig->queue, NULL, &named);
    if (status == VRAM_OK) {
        status = vram_named_config_set(named, "n3", &config);
    }
    for (int i = 0; i < 18 && status == VRAM_OK; i++) { /* more than fit into the list at first */
        snprintf(name, sizeof name, "n%d", i);
        status = vram_named_get_or_create(named, name, 1000, NULL, &buffer);
    }
    if (status == VRAM_OK) {
        uint64_t before = info_of(named, "n0").capacity_bytes;
        status = vram_named_ensure(named, "n0", 5000, NULL);
        vram_error error;
        vr_error_save(&error);
        assert_int_equal(info_of(named, "n0").capacity_bytes, status == VRAM_OK ? 5000 : before);
        assert_int_equal(info_of(named, "n0").used_bytes, status == VRAM_OK ? 5000 : 1000);
        vr_error_restore(&error);
    }
    if (status == VRAM_OK) {
        status = vram_named_remove(named, "n1");
    }
    if (named) {
        vram_error error;
        vram_named_stats stats = all_of(named);
        vr_error_save(&error);
        assert_int_equal(stats.buffers, stats.created - stats.removed);
        vr_error_restore(&error);
    }
    assert_ok(vram_named_destroy(named));
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    fail_every_call(part, "memory=1G");
}

/* Out of memory at every step of a growth: the old buffer is intact. */
static void acceptance_18_a_resize_that_fails_changes_nothing(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct rig rig = rig_make("sim", "memory=1G,vmm=off");
        vram_pool *pool = pool_of(&rig, 0);
        vram_named *named = named_of(&rig, pool, 0);
        vram_buffer *buffer;
        vram_addr addr;
        assert_ok(vram_named_add(named, "a", 1 * MIB, NULL, &buffer));
        assert_ok(vram_buffer_addr(buffer, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 0x5a, 1, MIB));
        uint64_t sum = checksum(&rig, addr, MIB);
        fault(&rig, VRAM_SIM_ANY, nth, true, VRAM_SIM_OUT_OF_MEMORY);
        vram_status status = vram_named_ensure(named, "a", 5 * MIB, NULL);
        bool struck = sim_state(&rig).faults > 0;
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        assert_ok(vram_buffer_addr(buffer, &addr));
        assert_int_equal(checksum(&rig, addr, MIB), sum);
        assert_int_equal(all_of(named).total_bytes, status == VRAM_OK ? 5 * MIB : MIB);
        assert_ok(vram_named_remove(named, "a"));
        assert_int_equal(all_of(named).total_bytes, 0);
        rig_end_clean(&rig);
        if (!struck) {
            assert_true(nth > 1);
            return;
        }
    }
}

static void parents_that_go_first(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        vram_named *named = named_of(&rig, pool, 0);
        vram_buffer *buffer;
        assert_ok(vram_named_add(named, "a", 1000, NULL, &buffer));
        if (round == 0) {
            assert_ok(vram_pool_destroy(pool));
        } else if (round == 1) {
            vram_device_close(rig.device);
            rig.device = NULL;
        } else {
            vram_context_destroy(rig.context);
        }
        assert_int_equal(vram_named_get(named, "a", NULL, &buffer), VRAM_ERR_STALE);
        assert_int_equal(vram_named_destroy(named), VRAM_ERR_STALE);
        if (round < 2) {
            rig_end_clean(&rig);
        }
    }
}

/* ------------------------------------------------------------------- bad input */

static void bad_input(void **state) {
    char name[VRAM_BUFFER_NAME_MAX + 1];
    vram_named_options options = {.size = sizeof options, .tag = "a//b"};
    vram_named_config config = config_of((vram_precision)99), good = {.size = sizeof good};
    vram_named_info info = {.size = sizeof info};
    vram_named_stats stats = {.size = sizeof stats};
    vram_named *named = NULL;
    vram_buffer *buffer = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    vram_pool *pool = pool_of(&rig, 0);
    assert_int_equal(vram_named_create(pool, rig.queue, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_create(NULL, rig.queue, NULL, &named), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_create(pool, rig.other_queue, NULL, &named), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_create(pool, rig.queue, &options, &named), VRAM_ERR_INVALID);
    options.size = 1;
    assert_int_equal(vram_named_create(pool, rig.queue, &options, &named), VRAM_ERR_INVALID);
    assert_null(named);
    assert_ok(vram_named_create(pool, rig.queue, NULL, &named));
    memset(name, 'x', sizeof name);
    name[VRAM_BUFFER_NAME_MAX] = 0;
    const char *const bad_names[] = {NULL, "", name};
    for (int i = 0; i < 3; i++) {
        const char *bad = bad_names[i];
        assert_int_equal(vram_named_add(named, bad, 1, NULL, &buffer), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_get(named, bad, NULL, &buffer), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_get_or_create(named, bad, 1, NULL, &buffer), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_ensure(named, bad, 1, NULL), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_remove(named, bad), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_config_set(named, bad, &good), VRAM_ERR_INVALID);
        assert_int_equal(vram_named_info_get(named, bad, &info), VRAM_ERR_INVALID);
    }
    assert_int_equal(vram_named_remove(named, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_add(named, "a", 1, &config, &buffer), VRAM_ERR_INVALID);
    config = config_of(VRAM_PRECISION_FP32);
    config.kind = (vram_buffer_kind)99;
    assert_int_equal(vram_named_get_or_create(named, "a", 1, &config, &buffer), VRAM_ERR_INVALID);
    config.kind = VRAM_BUFFER_DEVICE;
    config.growth = (vram_growth){.size = sizeof config.growth,
                                  .policy = VRAM_GROWTH_FACTOR,
                                  .factor_ppm = 1000000}; /* grows by nothing */
    assert_int_equal(vram_named_add(named, "a", 1, &config, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_config_set(named, "a", &config), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_config_set(named, "a", NULL), VRAM_ERR_INVALID);
    config.size = 1;
    assert_int_equal(vram_named_add(named, "a", 1, &config, &buffer), VRAM_ERR_INVALID);
    assert_null(buffer);
    assert_int_equal(vram_named_add(named, "a", 1, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_get(named, "a", NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_get_or_create(named, "a", 1, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_ensure(named, "a", 1, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_info_get(named, "a", &info), VRAM_ERR_INVALID);
    assert_int_equal(live_in(pool), 0);
    assert_ok(vram_named_add(named, "a", 0, NULL, &buffer)); /* nothing is something to hold */
    assert_int_equal(vram_named_info_get(named, "a", NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_info_at(named, 0, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_stats_get(named, NULL), VRAM_ERR_INVALID);
    stats.size = 3;
    assert_int_equal(vram_named_stats_get(named, &stats), VRAM_ERR_INVALID);
    assert_ok(vram_named_cleanup(named, UINT64_MAX, NULL));
    assert_int_equal(vram_named_config_preset(NULL, &good), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_config_preset("nothing", &good), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_config_preset("edges", NULL), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(acceptance_18_duplicate_names_are_explicit, start,
                                        nothing_left),
        cmocka_unit_test_setup_teardown(destroyed_by_its_handle, start, nothing_left),
        cmocka_unit_test_setup_teardown(listed_in_order, start, nothing_left),
        cmocka_unit_test_setup_teardown(names_of_any_bytes, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_18_resize_keeps_contents, start, nothing_left),
        cmocka_unit_test_setup_teardown(sums_that_overflow_are_no_limit, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_18_the_limit_holds_while_old_and_new_coexist,
                                        start, nothing_left),
        cmocka_unit_test_setup_teardown(growth_in_place_counts_what_is_new, start, nothing_left),
        cmocka_unit_test_setup_teardown(limits_of_one, start, nothing_left),
        cmocka_unit_test_setup_teardown(refusals_reach_the_handler, start, nothing_left),
        cmocka_unit_test_setup_teardown(cleanup_of_the_unused, start, nothing_left),
        cmocka_unit_test_setup_teardown(many_threads, start, nothing_left),
        cmocka_unit_test_setup_teardown(a_pool_that_sleeps_is_not_waited_for, start, nothing_left),
        cmocka_unit_test_setup_teardown(made_and_destroyed_meanwhile, start, nothing_left),
        cmocka_unit_test_setup_teardown(every_call_may_fail, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_18_a_resize_that_fails_changes_nothing, start,
                                        nothing_left),
        cmocka_unit_test_setup_teardown(parents_that_go_first, start, nothing_left),
        cmocka_unit_test_setup_teardown(bad_input, start, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
