/* SPDX-License-Identifier: Apache-2.0 */
/* The search of `vram replay --least`. */
#include "byte_units.h"
#include "replay/generator.h"
#include "replay/inflate.h"
#include "replay/least.h"
#include "replay/trace_reader.h"
#include "rig/rig.h"

#include <math.h>
#include <string.h>

static struct trace read_text(const char *text) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    assert_true(trace_read_memory("text", (const uint8_t *)text, strlen(text), &trace, problem));
    return trace;
}

static const struct session_options h200 = {.place.backend = "sim",
                                            .place.sim = "profile=h200,memory=1G,seed=2"};

/* 30 and 60 MiB are cached as segments of their own; 90 MiB need both to be given back. */
static const char text_of_90_mib[] = "op,id,bytes,stream,t_us\n"
                                     "a,1,31457280,0,0\n"
                                     "a,2,62914560,0,1000\n"
                                     "f,1,,,2000\n"
                                     "f,2,,,3000\n"
                                     "a,3,94371840,0,4000\n";

TEST(finds_what_caching_needs) {
    struct trace trace = read_text(text_of_90_mib);
    struct least least;
    assert_int_equal(least_find(&h200, 8 * GIB, &trace, &policy_caching, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_DONE);
    assert_int_equal(least.freely.counts.peak_reserved_bytes, 180 * MIB);
    assert_true(least.tight.bytes >= 90 * MIB && least.tight.bytes < 90 * MIB + 128 * KIB);
    assert_true(least_slowdown(&least, &least.tight) > 1); /* it gave memory back */
    assert_true(least_slowdown(&least, &least.quick) <= 1.05);
    assert_true(fabs(least_ratio(&least, &least.tight) - 1) < 0.002);
    assert_true(least.runs > 8 && least.runs < 30);
    trace_free(&trace);
}

/* Two queues in turns share no cached memory: in the least memory every turn calls the driver. */
TEST(slow_memory_is_told_apart) {
    char text[1024] = "op,id,bytes,stream,t_us\n";
    for (int i = 0; i < 10; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "a,1,94371840,%d,%d\nf,1,,,%d\n", i % 2, i * 100,
                 i * 100);
    }
    struct trace trace = read_text(text);
    struct least least;
    assert_int_equal(least_find(&h200, GIB, &trace, &policy_caching, &least), VRAM_OK);
    assert_int_equal(least.freely.counts.peak_reserved_bytes, 180 * MIB);
    assert_true(least_slowdown(&least, &least.tight) > 1.05);
    assert_true(least_slowdown(&least, &least.quick) <= 1.05);
    assert_true(least.tight.bytes < 91 * MIB && least.quick.bytes >= 180 * MIB);
    trace_free(&trace);
}

/* A device that has less than what is live cannot run it. */
TEST(does_not_fit) {
    struct trace trace = read_text(text_of_90_mib);
    struct least least;
    assert_int_equal(least_find(&h200, 64 * MIB, &trace, &policy_naive, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_EXHAUSTED);
    assert_int_equal(least.tight.bytes, 0);
    assert_int_equal(least.runs, 1);
    trace_free(&trace);
}

/* A policy that needs all there is, a trace of nothing, and a device that cannot be opened. */
TEST(edges) {
    struct trace trace = read_text(text_of_90_mib),
                 nothing = read_text("op,id,bytes,stream,t_us\n");
    struct least least;
    assert_int_equal(least_find(&h200, 90 * MIB, &trace, &policy_naive, &least), VRAM_OK);
    assert_int_equal(least.tight.bytes, 90 * MIB);
    assert_int_equal(least_find(&h200, GIB, &nothing, &policy_caching, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_DONE);
    assert_true(least_ratio(&least, &least.tight) == 0);
    assert_true(least_slowdown(&least, &least.tight) == 1);
    const struct session_options bad = {.place.backend = "sim", .place.sim = "profile=none,lag=x"};
    assert_int_equal(least_find(&bad, GIB, &trace, &policy_naive, &least), VRAM_ERR_INVALID);
    trace_free(&trace);
    trace_free(&nothing);
}

/* The device is lost in one of the passes: that is the result. */
TEST(lost_devices_end_it) {
    struct trace trace = read_text(text_of_90_mib);
    struct least least;
    const struct session_options freely = {.place.backend = "sim", .place.sim = "fault=alloc:2:6"};
    assert_int_equal(least_find(&freely, GIB, &trace, &policy_caching, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_FAILED);
    const struct session_options later = {.place.backend = "sim", .place.sim = "fault=free:1:6"};
    assert_int_equal(least_find(&later, GIB, &trace, &policy_caching, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_FAILED); /* nothing is given back before the limit */
    assert_true(least.runs > 1);
    trace_free(&trace);
}

/* Of a device that is not simulated, no more than so much is used. */
TEST(real_devices_are_limited) {
    struct trace trace = read_text("op,id,bytes,stream,t_us\na,1,8388608,0,0\n");
    const struct session_options host = {.place.backend = "host"};
    struct least least;
    assert_int_equal(least_find(&host, 4 * MIB, &trace, &policy_naive, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_EXHAUSTED);
    assert_int_equal(least_find(&host, GIB, &trace, &policy_naive, &least), VRAM_OK);
    assert_int_equal(least.freely.result, PASS_DONE);
    assert_true(least.tight.bytes >= 8 * MIB && least.tight.bytes < 9 * MIB);
    trace_free(&trace);
}

/*
 * What PyTorch 2.11 itself needs on an H200, over the live peak: the same trace through its
 * allocator under set_per_process_memory_fraction, by bisection (docs/benchmarks.md, "Models of
 * other allocators").
 */
TEST(least_is_that_of_pytorch) {
    static const struct {
        const char *path;
        double caching, expandable;
    } rows[] = {
        {TRACES "/resnet50_multires.csv.gz", 1.039, 1.015},
    };
    if (!inflate_built) {
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct trace trace;
        struct least least;
        char problem[TRACE_PROBLEM_MAX];
        assert_true(trace_read(rows[i].path, &trace, problem));
        assert_int_equal(least_find(&h200, 80 * GIB, &trace, &policy_caching, &least), VRAM_OK);
        assert_true(fabs(least_ratio(&least, &least.tight) - rows[i].caching) < 0.015);
        assert_int_equal(least_find(&h200, 80 * GIB, &trace, &policy_expandable, &least), VRAM_OK);
        assert_true(fabs(least_ratio(&least, &least.tight) - rows[i].expandable) < 0.002);
        trace_free(&trace);
    }
}
