/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_named.c: buffers by name: what a second one of a name is, what grows and what stays, the
 * limit of all together, names of any bytes. Item 18 of the acceptance list.
 */
#include "byte_units.h"
#include "unit/json_check.h"
#include "unit/mem_world.h"
#include "unit/report_text.h"
#include "unit/test_time.h"
#include "vram/compat.h"
#include "vram/limits.h"
#include "vram/named.h"
#include "vram/oom.h"

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
TEST(acceptance_18_duplicate_names_are_explicit, "sim:memory=1G") {
    vram_named_config floats = config_of(VRAM_PRECISION_FP32);
    vram_named_config halves = config_of(VRAM_PRECISION_FP16);
    vram_buffer *a = NULL, *b = NULL, *c = NULL;
    vram_pool *pool = pool_of(rig, 0);
    vram_named *named = named_of(rig, pool, 0), *other = named_of(rig, pool, 0);
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
}

/* Control characters reach nobody's terminal, quotes end no string. */
TEST(names_of_any_bytes, "sim:memory=1G") {
    static const char name[] = "a\n\x1b[31m\"b\\\x7f";
    static struct report_text page;
    vram_buffer *buffer;
    memset(&page, 0, sizeof page);
    vram_pool *pool = pool_of(rig, 0);
    vram_named *named = named_of(rig, pool, 0);
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
}

/* --------------------------------------------------------------------- growing */

/* The limit holds for all together, also while a buffer has two memories. */
TEST(acceptance_18_the_limit_holds_while_old_and_new_coexist, "sim:memory=1G,vmm=off") {
    vram_buffer *a, *b, *c = NULL;
    vram_pool *pool = pool_of(rig, 0);
    vram_named *named = named_of(rig, pool, 10 * MIB);
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
    assert_ok(vram_buffer_resize(b, 5 * MIB, rig->queue));
    assert_int_equal(vram_named_add(named, "c", 1 * MIB + 1, NULL, &c), VRAM_ERR_LIMIT);
    assert_ok(vram_named_add(named, "c", 1 * MIB, NULL, &c));
    assert_ok(vram_named_remove(named, "a"));
    assert_ok(vram_named_add(named, "a", 4 * MIB, NULL, &a));
    assert_int_equal(all_of(named).total_bytes, 10 * MIB);
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
TEST(refusals_reach_the_handler, "sim:memory=1G,vmm=off") {
    vram_named_config config = config_of(VRAM_PRECISION_FP32);
    vram_named_config pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *old, *buffer = NULL;
    vram_pool *pool = pool_of(rig, 0);
    vram_named *named = named_of(rig, pool, 10 * MIB);
    struct mender mender = {.named = named};
    assert_ok(vram_error_handler_set(rig->context, mend, &mender));
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
    config.growth =
        (vram_growth){.size = sizeof config.growth, .min_bytes = 4096, .max_bytes = 4096};
    assert_int_equal(vram_named_add(named, "b", 1025, &config, &buffer), VRAM_ERR_LIMIT);
    assert_int_equal(mender.calls, 4);
    assert_ok(vram_named_add(named, "b", 1000, &config, &buffer));
    assert_int_equal(info_of(named, "b").used_bytes, 4000);
    assert_int_equal(info_of(named, "b").capacity_bytes, 4096);
    vram_error_clear();
    assert_int_equal(vram_named_ensure(named, "b", 1025, NULL), VRAM_ERR_LIMIT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_LIMIT);
    assert_int_equal(mender.calls, 5);
    vram_sim_fault fault = {
        .size = sizeof fault, .nth = 1, .for_ever = true, .code = VRAM_SIM_OUT_OF_MEMORY};
    assert_ok(vram_sim_fault_set(rig->context, &fault));
    assert_true(vram_status_is_exhausted(vram_named_add(named, "c", 100, &pinned, &buffer)));
    assert_int_equal(mender.calls, 6);
    assert_int_equal(all_of(named).refusals, 4); /* beside those that were mended */
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

TEST(cleanup_of_the_unused) {
    vram_buffer *a, *b, *c;
    uint64_t bytes = 77;
    test_time_begin(SECOND, 0);
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named *named = named_of(&rig, pool, 0);
    assert_ok(vram_named_add(named, "a", 1000, NULL, &a));
    assert_ok(vram_named_add(named, "b", 2000, NULL, &b));
    assert_ok(vram_named_add(named, "c", 3000, NULL, &c));
    assert_ok(vram_named_cleanup(named, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(vram_buffer_resize(a, 0, rig.queue));
    test_time_ns += 50 * SECOND;
    assert_ok(vram_buffer_resize(b, 0, rig.queue));
    test_time_ns += 20 * SECOND;
    assert_ok(vram_named_cleanup(named, 60 * SECOND, &bytes));
    assert_int_equal(bytes, 1000);
    assert_ok(vram_named_cleanup(named, 0, NULL));
    assert_int_equal(all_of(named).buffers, 1);
    assert_int_equal(all_of(named).total_bytes, 3000);
    assert_int_equal(all_of(named).removed, 2);
    rig_end_clean(&rig);
    test_time_end();
}

/* --------------------------------------------------------------------- threads */

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
TEST(made_and_destroyed_meanwhile) {
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
