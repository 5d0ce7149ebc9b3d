/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_formats.c: traces of other programs: what PyTorch's allocator cut, and what grows over time.
 * tests/golden/formats_test.py has the formats themselves, and golden.injected runs reports of them
 * in which memory runs out.
 */
#include "formats/interner.h"
#include "formats/json_scan.h"
#include "formats/pickle.h"
#include "formats/rmm_log.h"
#include "formats/segment_map.h"
#include "report/advice.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)

/* Reads a file as a report does; whether it was good. */
static bool read_report(const char *path, struct history *history) {
    struct report_input *input = calloc(1, sizeof *input);
    bool good = history_begin(history, path) && report_input_open(input, path) &&
                history_read(history, input, NULL);
    report_input_close(input);
    free(input);
    return good;
}

/* ---------------------------------------------------------------- small files */

/* The first operation behind the protocol; whether there is a good one. */
static bool operation(const char *bytes, size_t count, struct pickle_op *op) {
    static struct pickle pickle;
    struct trace_source source;
    struct pickle_op before;
    trace_source_open_memory(&source, bytes, count);
    pickle_begin(&pickle, &source);
    bool good = pickle_next(&pickle, &before) && pickle_next(&pickle, op);
    assert_int_equal(good, pickle.problem[0] == '\0');
    trace_source_close(&source);
    return good;
}

#define OPERATION(text, op) operation("\x80\x04" text, sizeof("\x80\x04" text) - 1, op)

TEST(numbers_of_pickles) {
    struct pickle_op op;
    assert_true(OPERATION("\x8a\x00", &op));
    assert_int_equal(op.kind, PICKLE_NUMBER);
    assert_true(op.number == 0);
    assert_true(OPERATION("\x8a\x01\xff", &op));
    assert_true(op.number == UINT64_MAX); /* -1 */
    assert_true(OPERATION("\x8a\x08\1\0\0\0\0\0\0\x80", &op));
    assert_true(op.number == (UINT64_C(1) << 63) + 1);
    assert_true(OPERATION("\x8b\x09\0\0\0\1\0\0\0\0\0\0\x80\0", &op));
    assert_true(op.number == (UINT64_C(1) << 63) + 1);
    assert_true(OPERATION("J\xff\xff\xff\xff", &op));
    assert_true(op.number == UINT64_MAX);
    assert_false(OPERATION("\x8a", &op));         /* ends before the length, */
    assert_false(OPERATION("\x8a\x03\1\2", &op)); /* in the digits, */
    assert_false(OPERATION("\x8a\x0a\1\2\3\4\5\6\7\x08\x09\x0a", &op)); /* is too long */
    assert_false(OPERATION("J\1\2", &op));
    assert_false(OPERATION("cos\nsystem\n", &op)); /* calls are refused */
    assert_false(operation("\x80\x01.", 3, &op));
    assert_false(operation("\x80\x06.", 3, &op));
    assert_false(operation("\x80", 1, &op));
}

/* All of a text; NULL: it is good, and `last` is its last text, number or word. */
static const char *json_problem(const char *bytes, size_t count, char *last) {
    static struct json_scan scan;
    struct trace_source source;
    trace_source_open_memory(&source, bytes, count);
    json_scan_begin(&scan, &source);
    while (json_scan_next(&scan) && scan.kind != JSON_END) {
        if (scan.kind == JSON_TEXT || scan.kind == JSON_NUMBER || scan.kind == JSON_WORD) {
            memcpy(last, scan.text, scan.text_bytes + 1);
        }
    }
    trace_source_close(&source);
    return scan.problem;
}

TEST(tokens_of_json) {
    static const struct {
        const char *text, *last, *problem;
    } rows[] = {
        {"[\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\\ufffd\"]", "A\xc3\xa9\xe2\x82\xac??\xef\xbf\xbd",
         NULL},
        {"\t{\"a\" :\r\ntrue , \"b\":[ ],\"c\":false}", "false", NULL},
        {"[null,-1.5e+3]", "-1.5e+3", NULL},
        {"[nil]", NULL, "expected a value"},
        {"[1x]", NULL, "a number is not complete"},
        {"[1e+]", NULL, "a number is not complete"},
        {"[1-2]", NULL, "a number is not complete"},
        {"\xef\xbb\xbf[7]", "7", NULL},
        {"[\"\\q\"]", NULL, "a wrong escape"},
        {"[\"\\u00@0\"]", NULL, "a wrong escape"},
        {"[\"\\u00G0\"]", NULL, "a wrong escape"},
        {"[\"\\u00g0\"]", NULL, "a wrong escape"},
        {"[\"\\u00 0\"]", NULL, "a wrong escape"},
        {"[\"a", NULL, "ends inside a text"},
        {"[\"a\\", NULL, "ends inside a text"},
        {"{\"a\"}", NULL, "expected a colon"},
        {"{1}", NULL, "expected a comma, a key or an end"},
        {"[1 2]", NULL, "expected a comma, a key or an end"},
        {"[1,]", NULL, "ends where none can"},
        {"[1}", NULL, "ends where none can"},
        {"]", NULL, "ends where none can"},
        {"[,1]", NULL, "expected a value"},
        {"{,}", NULL, "expected a comma, a key or an end"},
        {"[1", NULL, "the file ends in the middle"},
        {"[1,", NULL, "the file ends in the middle"},
        {"", NULL, "the file ends in the middle"},
    };
    static char last[JSON_SCAN_TEXT_MAX + 1];
    char many[2 * JSON_SCAN_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *problem = json_problem(rows[i].text, strlen(rows[i].text), last);
        assert_int_equal(problem != NULL, rows[i].problem != NULL);
        if (problem == NULL) {
            assert_string_equal(last, rows[i].last);
        } else if (!strstr(problem, rows[i].problem)) {
            fail_msg("%s: %s", rows[i].text, problem);
        }
    }
    assert_non_null(json_problem("\"\\\0\"", 4, last)); /* a zero byte is no escape */
    memset(many, 'x', sizeof many);
    many[0] = many[sizeof many - 1] = '"';
    assert_null(json_problem(many, sizeof many, last)); /* is cut */
    assert_int_equal(strlen(last), JSON_SCAN_TEXT_MAX);
    memset(many, '[', sizeof many);
    assert_non_null(json_problem(many, sizeof many, last));
    if (inflate_built) { /* begins as gzip'd, and is not */
        assert_non_null(json_problem("\x1f\x8b\x08\0garbage garbage", 20, last));
    }
}

/* More texts than the first tables have, within a budget and beyond. */
TEST(texts_outgrow_their_tables) {
    static const uint64_t budgets[] = {1000, UINT64_C(1) << 30};
    for (size_t k = 0; k < 2; k++) {
        struct interner interner;
        uint64_t budget = budgets[k];
        char text[32];
        uint32_t number = 0;
        assert_true(interner_begin(&interner, &budget));
        for (uint32_t i = 1; i <= 1000 && (i == 1 || number > 0); i++) {
            snprintf(text, sizeof text, "text number %u", i);
            number = interner_number(&interner, text, strlen(text));
            assert_true(number == i || number == 0);
        }
        assert_int_equal(number, k == 0 ? 0 : 1000);
        for (uint32_t i = 1; i <= interner.count; i++) { /* what is in it stays */
            snprintf(text, sizeof text, "text number %u", i);
            assert_string_equal(interner_text(&interner, i), text);
            assert_int_equal(interner_number(&interner, text, strlen(text)), i);
        }
        assert_string_equal(interner_text(&interner, interner.count + 1), "");
        assert_string_equal(interner_text(&interner, 0), "");
        interner_free(&interner);
    }
}

static bool log_opens(const char *text, size_t bytes, struct recorded *event) {
    static struct rmm_log log;
    struct trace_source source;
    bool there = false;
    trace_source_open_memory(&source, text, bytes);
    bool good = rmm_log_open(&log, &source) && rmm_log_next(&log, event, &there);
    rmm_log_close(&log);
    trace_source_close(&source);
    return good && there;
}

TEST(lines_of_rmm) {
    static const char *const wrong[] = {
        "",
        "Thread,Time\n",
        "Thread,Time,Action,Pointer,Size,River\n",
    };
    static const char *const times[] = {"24:00:00.1", "00:60:00.1", "00:00:61.1",
                                        "00:00:00;1", "00:00:00",   "00:00:00.1x"};
    struct recorded event;
    char text[200];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(log_opens(wrong[i], strlen(wrong[i]), &event));
    }
    for (size_t i = 0; i <= sizeof times / sizeof times[0]; i++) {
        bool good = i == sizeof times / sizeof times[0];
        snprintf(text, sizeof text, RMM_LOG_HEADER "\n1,%s,allocate,0x10,256,0x0\n",
                 good ? "23:59:60:5" : times[i]);
        assert_int_equal(log_opens(text, strlen(text), &event), good);
    }
    assert_int_equal(event.bytes, 256);
    static const char upper[] = RMM_LOG_HEADER "\n1,00:00:00.1,allocate,0X1F,512,0X0\n";
    assert_true(log_opens(upper, sizeof upper - 1, &event));
    assert_int_equal(event.addr, 0x1F);
    if (inflate_built) { /* begins as gzip'd, and is not */
        assert_false(log_opens("\x1f\x8b\x08\0garbage garbage", 20, &event));
    }
}

/* ------------------------------------------------------------- real snapshots */

static void check_peaks(const char *name, uint64_t requested, uint64_t allocated,
                        uint64_t reserved) {
    struct history history;
    char path[512];
    snprintf(path, sizeof path, "%s/snapshots/%s", TRACES, name);
    assert_true(read_report(path, &history));
    assert_int_equal(history.peak_bytes, requested);
    assert_int_equal(history.peak_held, allocated);
    assert_int_equal(history.peak_reserved, reserved);
    assert_false(history.partial);
    history_free(&history);
}

TEST(peaks_are_those_of_pytorch) {
    if (inflate_built) {
        check_peaks("resnet_leak.pickle.gz", 612628019, 616564736, 1235222528);
    }
    if (unzstd_built) {
        check_peaks("gpt2.pickle.zst", 11143718328, 11185480704, 15296626688);
    }
}

/* ------------------------------------------------------------------- segments */

static uint64_t take(struct segment_map *map, uint64_t addr, uint64_t bytes, bool expandable,
                     bool *exact) {
    const struct split_rule rule = {.expandable = expandable};
    struct map_block *block = segment_map_take(map, addr, bytes, 0, &rule, exact);
    assert_non_null(block);
    return block->size;
}

/* A small remainder is split off small blocks, and stays with large ones. */
TEST(blocks_are_cut_as_pytorch_does) {
    struct segment_map map;
    bool exact;
    assert_true(segment_map_begin(&map));
    assert_true(segment_map_add(&map, 2 * MIB, 2 * MIB, false));
    assert_int_equal(take(&map, 2 * MIB, 100, false, &exact), 512);
    assert_true(exact);
    assert_int_equal(take(&map, 2 * MIB + 512, 513, false, &exact), 1024);
    assert_true(segment_map_add(&map, 32 * MIB, 20 * MIB, false));
    assert_int_equal(take(&map, 32 * MIB, 19 * MIB + 1, false, &exact), 20 * MIB);
    assert_true(exact);
    assert_true(segment_map_give(&map, 32 * MIB));
    assert_int_equal(take(&map, 32 * MIB, 19 * MIB + 1, true, &exact), 19 * MIB + 512);
    assert_int_equal(take(&map, 700 * MIB, 1000, false, &exact), 1024); /* of unknown memory */
    assert_false(exact);
    segment_map_free(&map);
}

/* Freed neighbours merge, but not across the begin of a segment. */
TEST(free_memory_merges_within_segments) {
    struct segment_map map;
    bool exact;
    assert_true(segment_map_begin(&map));
    assert_true(segment_map_add(&map, 2 * MIB, 2 * MIB, false));
    assert_true(segment_map_add(&map, 4 * MIB, 2 * MIB, false));
    take(&map, 2 * MIB, MIB, false, &exact);
    take(&map, 3 * MIB, MIB, false, &exact);
    assert_true(segment_map_give(&map, 3 * MIB));
    assert_true(segment_map_give(&map, 2 * MIB));
    assert_int_equal(take(&map, 2 * MIB, 2 * MIB, false, &exact), 2 * MIB);
    assert_true(exact);
    assert_null(segment_map_find(&map, 4 * MIB));
    assert_int_equal(take(&map, 4 * MIB, 2 * MIB, false, &exact), 2 * MIB);
    assert_true(segment_map_give(&map, 4 * MIB));
    assert_true(segment_map_remove(&map, 4 * MIB, 2 * MIB));
    take(&map, 4 * MIB, MIB, false, &exact);
    assert_false(exact);
    segment_map_free(&map);
}

/* --------------------------------------------------------------------- growth */

TEST(growth_is_told_from_oscillation) {
    struct growth steady = {.part = 0}, waves = steady, burst = steady;
    struct growth_span span;
    for (uint32_t i = 0; i < 40; i++) {
        growth_note(&steady, i, i / 2, i / 2 + 1);
        growth_note(&waves, i, i % 5, i % 5 + 1);
        growth_note(&burst, i, i < 20 ? 0 : 90 + i / 6, i < 20 ? 1 : 90 + i / 6);
    }
    assert_true(growth_find(&steady, 40, &span));
    assert_int_equal(span.blocks, 19);
    assert_false(growth_find(&waves, 40, &span));
    assert_false(growth_find(&burst, 40, &span));
    growth_halve(&steady);
    assert_int_equal(steady.least[1], 1);
    growth_finish(&steady, 64, 3);
    assert_int_equal(steady.least[63], 3);
}
