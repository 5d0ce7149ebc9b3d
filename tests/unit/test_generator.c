/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of `vram replay`: each kind is what it says, and specifications are checked. */
#include "replay/generator.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <string.h>

static struct trace generate(const char *text) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    if (!generator_run(text, &trace, problem)) {
        fail_msg("%s: %s", text, problem);
    }
    return trace;
}

static size_t count(const struct trace *trace, enum trace_kind kind) {
    size_t sum = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        sum += trace->ops[i].kind == kind;
    }
    return sum;
}

/* Steps are alike: the sizes of the second are those of the third. */
TEST(steady_repeats) {
    struct trace trace = generate("steady,steps=3,blocks=50,weights=10");
    assert_int_equal(trace.alloc_count, 10 + 3 * 50);
    assert_int_equal(count(&trace, TRACE_FREE), 150);
    assert_int_equal(trace.op_count, 10 + 3 * 100);
    for (size_t i = 0; i < 100; i++) {
        const struct trace_op *second = &trace.ops[110 + i], *third = &trace.ops[210 + i];
        assert_int_equal(second->kind, third->kind);
        assert_int_equal(second->bytes, third->bytes);
        assert_int_equal(second->t_us + 20000, third->t_us);
    }
    trace_free(&trace);
}

TEST(varied_varies) {
    struct trace trace = generate("varied,steps=2,blocks=50,weights=0");
    size_t same = 0;
    for (size_t i = 0; i < 100; i++) {
        same += trace.ops[i].bytes == trace.ops[100 + i].bytes;
    }
    assert_true(same < 20);
    trace_free(&trace);
}

TEST(sizes_stay_within) {
    struct trace trace = generate("varied,min=3,max=1M,steps=20");
    uint64_t small = 0, large = 0;
    for (size_t i = 0; i < trace.op_count; i++) {
        if (trace.ops[i].kind == TRACE_ALLOC) {
            assert_in_range(trace.ops[i].bytes, 3, 1 << 20);
            small += trace.ops[i].bytes < 1000;
            large += trace.ops[i].bytes > 100000;
        }
    }
    assert_true(small > 1000 && large > 500); /* even over the logarithm */
    trace_free(&trace);
}

TEST(queues_are_shared) {
    struct trace trace = generate("queues");
    uint64_t others = 0;
    uint32_t *own = calloc(trace.block_slots, sizeof *own);
    assert_int_equal(trace.queue_count, 4);
    for (size_t i = 0; i < trace.op_count; i++) {
        const struct trace_op *op = &trace.ops[i];
        if (op->kind == TRACE_ALLOC) {
            own[op->block] = op->queue;
        }
        others += op->kind == TRACE_USE && op->queue != own[op->block];
    }
    assert_true(others > 500);
    free(own);
    trace_free(&trace);
}

/* Blocks are worked on, and a step takes the host next to no time. */
TEST(ahead_gives_work) {
    struct trace trace = generate("ahead");
    assert_true(count(&trace, TRACE_USE) > trace.alloc_count / 5);
    assert_true(trace_ns(&trace) < 10000000);
    trace_free(&trace);
}

TEST(threads_hand_over) {
    struct trace trace = generate("threads");
    uint64_t handed = 0;
    uint32_t *own = calloc(trace.block_slots, sizeof *own);
    assert_int_equal(trace.thread_count, 4);
    for (size_t i = 0; i < trace.op_count; i++) {
        const struct trace_op *op = &trace.ops[i];
        if (op->kind == TRACE_ALLOC) {
            own[op->block] = op->thread;
        }
        handed += op->kind == TRACE_FREE && op->thread != own[op->block];
    }
    assert_true(handed > 500);
    free(own);
    trace_free(&trace);
}

TEST(seed_decides) {
    struct trace one = generate("queues,seed=5"), two = generate("queues,seed=5"),
                 other = generate("queues,seed=6"),
                 largest = generate("queues,seed=18446744073709551615");
    assert_int_equal(one.op_count, two.op_count);
    assert_memory_equal(one.ops, two.ops, one.op_count * sizeof *one.ops);
    assert_true(one.peak_bytes != other.peak_bytes);
    trace_free(&one);
    trace_free(&two);
    trace_free(&other);
    trace_free(&largest);
}

TEST(mistakes_are_named) {
    static const struct {
        const char *text, *problem;
    } wrong[] = {
        {"", "--generate: \"\" is none of steady, varied, queues, ahead, threads"},
        {"stead", "--generate: \"stead\" is none of steady, varied, queues, ahead, threads"},
        {"steady,stps=1", "--generate: \"stps\" is none of steps, blocks"},
        {"steady,steps", "--generate: \"steps\" is none of steps, blocks"},
        {"steady,steps=0", "--generate: steps=0: not a whole number from 1 to 1000000"},
        {"steady,steps=-1", "--generate: steps=-1: not a whole number from 1 to 1000000"},
        {"steady,steps=", "--generate: steps=: not a whole number from 1 to 1000000"},
        {"steady,queues=65", "--generate: queues=65: not a whole number from 1 to 64"},
        {"steady,seed=18446744073709551616", "--generate: seed=18446744073709551616: not a whole "
                                             "number from 0 to 18446744073709551615"},
        {"steady,min=x", "--generate: min=x: not a size from 1"},
        {"steady,min=2M,max=1M", "--generate: min is larger than max"},
        {"steady,weights=2,min=1T,max=1T,blocks=1,steps=1000001",
         "--generate: steps=1000001: not a whole number from 1 to 1000000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct trace trace;
        char problem[TRACE_PROBLEM_MAX];
        assert_false(generator_run(wrong[i].text, &trace, problem));
        if (strncmp(problem, wrong[i].problem, strlen(wrong[i].problem)) != 0) {
            fail_msg("%s: %s", wrong[i].text, problem);
        }
    }
    char text[400], problem[TRACE_PROBLEM_MAX];
    struct trace trace;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_false(generator_run(text, &trace, problem));
    assert_string_equal(problem, "--generate: the specification is too long");
}
