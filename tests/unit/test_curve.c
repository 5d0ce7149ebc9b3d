/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_curve.c: what `vram replay --picture` draws: no peak is lost, however short, and a pass that
 * failed ends where it failed.
 */
#include "replay/generator.h"
#include "replay/player.h"
#include "replay/trace_reader.h"
#include "rig/rig.h"

#include <string.h>

static struct curve curve; /* too large for comfort on a stack */

TEST(notes_keep_the_most_of_each_part) {
    uint64_t held, asked;
    curve = (struct curve){.count = 0};
    curve_note(&curve, 0, 10, 4);
    curve_note(&curve, 0, 7, 5);
    curve_note(&curve, 3, 20, 1); /* parts 1 and 2 have what was there before */
    curve_note(&curve, 3, 2, 2);
    assert_int_equal(curve.count, 4);
    assert_int_equal(curve.held[0], 10);
    assert_int_equal(curve.asked[0], 5);
    assert_int_equal(curve.held[1], 7);
    assert_int_equal(curve.asked[2], 5);
    assert_int_equal(curve.held[3], 20);
    assert_int_equal(curve_most(&curve), 20);
    curve_note(&curve, UINT32_MAX, 3, 3); /* past the end is the last part */
    assert_int_equal(curve.count, CURVE_POINTS);
    assert_int_equal(curve.held[CURVE_POINTS - 2], 2);
    assert_int_equal(curve.held[CURVE_POINTS - 1], 3);
    curve_finish(&curve);
    assert_int_equal(curve.count, CURVE_POINTS);

    uint64_t most = 0; /* columns of any number: each part is in one, and so is each peak */
    for (uint32_t columns = 1; columns <= 3 * CURVE_POINTS; columns++) {
        most = 0;
        for (uint32_t i = 0; i < columns; i++) {
            curve_column(&curve, i, columns, &held, &asked);
            most = held > most ? held : most;
        }
        assert_int_equal(most, 20);
    }
    curve = (struct curve){.count = 0};
    curve_column(&curve, 5, 10, &held, &asked);
    assert_int_equal(held + asked + curve_most(&curve), 0);
}

static struct trace trace_of(const char *text) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    if (!trace_read_memory("t", text, strlen(text), &trace, problem)) {
        fail_msg("%s", problem);
    }
    return trace;
}

static struct pass draw(const char *sim, const struct trace *trace, const struct policy *policy,
                        int passes) {
    struct session_options options = {.place.backend = "sim", .place.sim = sim, .curve = &curve};
    struct session *session;
    struct pass pass;
    assert_int_equal(session_open(&options, trace, policy, &session), VRAM_OK);
    for (int i = 0; i < passes; i++) {
        session_play(session, NULL, NULL, &pass);
    }
    session_close(session);
    assert_ptr_equal(pass.curve, &curve);
    return pass;
}

static uint64_t most_asked(void) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < curve.count; i++) {
        most = curve.asked[i] > most ? curve.asked[i] : most;
    }
    return most;
}

TEST(every_policy_is_drawn_with_its_peaks) {
    char problem[TRACE_PROBLEM_MAX];
    struct trace trace;
    assert_true(generator_run("varied,steps=6", &trace, problem));
    for (size_t i = 0; policy_table[i] != NULL; i++) {
        struct pass pass = draw("memory=8G", &trace, policy_table[i], 2);
        assert_int_equal(pass.result, PASS_DONE);
        assert_int_equal(curve.count, CURVE_POINTS);
        assert_int_equal(most_asked(), trace.peak_bytes);
        assert_true(curve_most(&curve) <= pass.counts.peak_reserved_bytes);
        assert_true(curve_most(&curve) >= trace.peak_bytes);
        for (uint32_t k = 0; k < CURVE_POINTS; k++) {
            assert_true(curve.held[k] >= curve.asked[k]);
        }
    }
    trace_free(&trace);
}

/* The driver alone holds what is live: when, is known to the byte. */
TEST(times_are_those_of_the_trace) {
    struct trace trace =
        trace_of("op,id,bytes,stream,t_us\na,1,8192,0,0\na,2,4096,0,500\nf,1,,,750\n"
                 "f,2,,,1000\n");
    struct pass pass = draw("memory=64M", &trace, &policy_naive, 1);
    assert_int_equal(pass.result, PASS_DONE);
    for (uint32_t i = 0; i < CURVE_POINTS; i++) {
        assert_int_equal(curve.asked[i], i < 960 ? 8192 : i <= 1440 ? 12288 : 4096);
        assert_int_equal(curve.held[i], curve.asked[i]);
    }
    trace_free(&trace);

    trace = trace_of("op,id,bytes,stream,t_us\na,1,4096,0,0\nf,1,,,0\n"); /* no times at all */
    assert_int_equal(draw("memory=64M", &trace, &policy_naive, 1).result, PASS_DONE);
    assert_int_equal(curve.count, CURVE_POINTS);
    assert_int_equal(curve.asked[0], 4096);
    assert_int_equal(curve.asked[CURVE_POINTS - 1], 0);
    trace_free(&trace);
}

TEST(a_pass_that_fails_ends_there) {
    struct trace trace = trace_of("op,id,bytes,stream,t_us\na,1,8192,0,0\na,2,900000000,0,500\n"
                                  "f,1,,,750\nf,2,,,1000\n");
    struct pass pass = draw("memory=64M", &trace, &policy_naive, 1);
    assert_int_equal(pass.result, PASS_EXHAUSTED);
    assert_int_equal(curve.count, 1);
    assert_int_equal(curve.asked[0], 8192);
    trace_free(&trace);
}
