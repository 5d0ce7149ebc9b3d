/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_recorder.c: traces of real pools: what is in the file is what the program did, whoever asked
 * for the trace, and nothing that goes wrong with it is felt by an allocation.
 */
#include "replay/trace_reader.h"
#include "report/history.h"
#include "track/event.h"
#include "track/stack.h"
#include "unit/child.h"
#include "unit/pressure_world.h"
#include "unit/trace_world.h"

#include "vram/trace.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

static vram_trace *begin_looking(struct rig *rig, uint64_t ring_bytes, uint64_t sample_ns) {
    vram_trace_options options = {.size = sizeof options,
                                  .path = trace_path,
                                  .ring_bytes = ring_bytes,
                                  .sample_ns = sample_ns};
    vram_trace *trace = NULL;
    assert_ok(vram_trace_begin(rig->context, &options, &trace));
    return trace;
}

/* Pools are looked at behind every event. */
static vram_trace *begin_trace(struct rig *rig, uint64_t ring_bytes) {
    return begin_looking(rig, ring_bytes, 1);
}

static vram_trace_info info_of(vram_trace *trace) {
    vram_trace_info info = {.size = sizeof info};
    assert_ok(vram_trace_info_get(trace, &info));
    return info;
}

/* --------------------------------------------------------------------- events */

static struct {
    uint64_t live, allocs, frees, refused, begun, ended, samples, marks;
    uint64_t last_hits, last_misses;
    char tag[64], pool[64], mark[64];
} sums;

static void add_up(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    switch (event->kind) {
    case RECORDED_ALLOC:
        sums.allocs++;
        sums.live += event->bytes;
        assert_true(event->id > 0 && event->addr > 0 && event->held >= event->bytes);
        if (event->tag[0]) {
            snprintf(sums.tag, sizeof sums.tag, "%s", event->tag);
        }
        break;
    case RECORDED_FREE:
        sums.frees++;
        sums.live -= event->bytes;
        break;
    case RECORDED_REFUSE:
        sums.refused++;
        break;
    case RECORDED_POOL_BEGIN:
        sums.begun++;
        snprintf(sums.pool, sizeof sums.pool, "%s", event->pool_name);
        break;
    case RECORDED_POOL_END:
        sums.ended++;
        break;
    case RECORDED_SAMPLE:
        sums.samples++;
        sums.last_hits = event->sample.hits;
        sums.last_misses = event->sample.misses;
        assert_true(event->sample.reserved > 0 && event->sample.reserved <= 1024 * MIB);
        assert_true(event->sample.free <= event->sample.reserved);
        assert_true(event->sample.limit <= 1024 * MIB);
        break;
    case RECORDED_MARK:
        sums.marks++;
        snprintf(sums.mark, sizeof sums.mark, "%s", event->name);
        break;
    default:
        fail();
    }
}

static struct found sum_up(const char *path) {
    size_t bytes;
    uint8_t *data = file_bytes(path, &bytes);
    memset(&sums, 0, sizeof sums);
    struct found found = read_memory(data, bytes, add_up);
    free(data);
    assert_string_equal(found.problem, "");
    return found;
}

/* However rarely pools are looked at, the end of a trace has how they ended. */
TEST(the_end_takes_a_last_look, "sim:memory=1G") {
    vram_addr addr;
    vram_trace *trace = begin_looking(rig, 0, 3600 * SECOND);
    vram_pool *pool = pool_of(rig, NULL);
    for (int i = 0; i < 10; i++) {
        assert_ok(vram_alloc(pool, 1000, rig->queue, &addr));
        assert_ok(vram_free(addr, rig->queue));
    }
    assert_ok(vram_trace_end(trace));
    (void)sum_up(trace_path);
    assert_in_range(sums.samples, 1, 2);
    assert_int_equal(sums.last_hits + sums.last_misses, 10);
}

TEST(a_trace_has_what_happened, "sim:memory=1G") {
    vram_addr blocks[10], refused;
    vram_trace *trace = begin_trace(rig, 0);
    vram_pool *pool =
        pool_of(rig, &(vram_pool_options){.size = sizeof(vram_pool_options), .name = "weights"});
    for (int i = 0; i < 10; i++) {
        vram_alloc_options options = {.size = sizeof options, .tag = "model/layer"};
        assert_ok(vram_alloc_with(pool, 1000 + (uint64_t)i, rig->queue, &options, &blocks[i]));
    }
    assert_ok(vram_trace_mark(trace, "loaded"));
    assert_int_equal(vram_alloc(pool, UINT64_C(4) << 30, rig->queue, &refused),
                     VRAM_ERR_DEVICE_MEMORY);
    for (int i = 0; i < 7; i++) {
        assert_ok(vram_free(blocks[i], rig->queue));
    }
    vram_trace_info info = info_of(trace);
    assert_string_equal(info.path, trace_path);
    assert_true(info.events >= 20);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(info.stopped, VRAM_OK);
    vram_pool_stats stats = stats_of(pool);
    assert_ok(vram_trace_end(trace));
    struct found found = sum_up(trace_path);
    assert_int_equal(found.end, RECORDING_ENDED);
    assert_int_equal(sums.allocs, 10);
    assert_int_equal(sums.frees, 7);
    assert_int_equal(sums.live, 1007 + 1008 + 1009);
    assert_int_equal(sums.refused, 1);
    assert_int_equal(sums.begun, 1);
    assert_int_equal(sums.marks, 1);
    assert_string_equal(sums.mark, "loaded");
    assert_string_equal(sums.tag, "model/layer");
    assert_string_equal(sums.pool, "weights");
    assert_true(sums.samples > 0);
    assert_int_equal(sums.last_hits, stats.hits);
    assert_int_equal(sums.last_misses, stats.misses);
    assert_int_equal(vram_trace_end(trace), VRAM_ERR_STALE);
    for (int i = 7; i < 10; i++) {
        assert_ok(vram_free(blocks[i], rig->queue));
    }
}

/* ---------------------------------------------------------------------- stacks */

static uint32_t stacks_seen, deepest;

static void count_stacks(const struct recording *recording, const struct recorded *event) {
    if (event->kind == RECORDED_ALLOC && event->stack) {
        const char *frame;
        uint32_t depth = 0;
        while ((frame = recording_frame(recording, event->stack, depth)) != NULL) {
            assert_true(frame[0] != 0);
            depth++;
        }
        stacks_seen++;
        deepest = depth > deepest ? depth : deepest;
    }
}

TEST(stacks_are_written) {
    vram_addr blocks[4];
    size_t bytes;
    assert_ok(vram_option_set("track_stacks", "1"));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&rig, 0);
    vram_pool *pool = pool_of(&rig, NULL);
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_alloc(pool, 4096, rig.queue, &blocks[i]));
    }
    assert_ok(vram_trace_end(trace));
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    assert_ok(vram_option_set("track_stacks", NULL));
    uint8_t *data = file_bytes(trace_path, &bytes);
    assert_string_equal(read_memory(data, bytes, count_stacks).problem, "");
    free(data);
    assert_int_equal(stacks_seen, 4);
    assert_true(deepest > 0);
    rig_end_clean(&rig);
    vr_stacks_reset();
}

/* A pool that ends in a trace is looked at a last time. */
TEST(the_end_of_a_pool_is_told, "sim:memory=1G") {
    vram_addr addr;
    vram_trace *trace = begin_trace(rig, 1);
    vram_pool *pool = pool_of(rig, NULL);
    assert_ok(vram_alloc(pool, 4096, rig->queue, &addr));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_pool_destroy(pool));
    assert_ok(vram_trace_end(trace));
    sum_up(trace_path);
    assert_int_equal(sums.ended, 1);
    assert_true(sums.samples > 0);
    assert_int_equal(sums.last_misses, 1);
}

/* What `vram report` and `vram replay` make of the file. */
static void read_twice(struct history *history, struct trace *trace) {
    static struct report_input input;
    char problem[TRACE_PROBLEM_MAX] = "";
    assert_true(history_begin(history, "t"));
    assert_true(report_input_open(&input, trace_path));
    assert_true(history_read(history, &input, NULL));
    report_input_close(&input);
    assert_true(trace_read(trace_path, trace, problem));
    assert_string_equal(problem, "");
}

/* Blocks that nobody freed end with their pool, whichever way it ends: they are leaks, and live no
   more. */
TEST(blocks_end_with_their_pool, "sim:memory=1G") {
    enum { POOLS = 300, EACH = 3 }; /* more pools than a report tells apart */
    struct history history;
    struct trace trace;
    vram_addr addr;
    vram_trace *writing = begin_trace(rig, 0);
    for (int i = 0; i < POOLS; i++) {
        vram_pool *pool = pool_of(rig, NULL);
        for (int k = 0; k < EACH; k++) {
            assert_ok(vram_alloc(pool, MIB, rig->queue, &addr));
        }
        assert_ok(vram_free(addr, rig->queue));
        if (i < POOLS - 1) {
            assert_ok(vram_pool_destroy(pool));
        }
    }
    vram_device_close(rig->device);
    assert_ok(vram_trace_end(writing));
    read_twice(&history, &trace);
    assert_int_equal(history.peak_bytes, EACH * MIB);
    assert_int_equal(history.live_bytes, 0);
    assert_int_equal(history.live_blocks, 0);
    assert_int_equal(history.lost_blocks, POOLS * (EACH - 1));
    assert_int_equal(history.lost_bytes, POOLS * (EACH - 1) * MIB);
    assert_int_equal(trace.peak_bytes, EACH * MIB);
    assert_int_equal(trace.op_count, POOLS * EACH * 2);
    assert_int_equal(trace.thread_count, 1);
    history_free(&history);
    trace_free(&trace);
}

/* It ends with its context, and the next one can begin. */
/* A receiver that lets the pool end while an allocation from it is told. */
static struct {
    vram_pool *pool;
    pthread_t ender;
    _Atomic bool pool_ended;
    uint64_t allocated, freed;
} beside;

static void *end_the_pool(void *user) {
    (void)user;
    assert_ok(vram_pool_destroy(beside.pool));
    return NULL;
}

static void end_beside(void *user, const struct vr_event *event) {
    (void)user;
    if (event->kind == VR_EVENT_ALLOC) {
        beside.allocated = event->addr;
        assert_int_equal(pthread_create(&beside.ender, NULL, end_the_pool, NULL), 0);
        while (!beside.pool_ended) {
            sched_yield();
        }
    }
    beside.freed = event->kind == VR_EVENT_FREE ? event->addr : beside.freed;
    beside.pool_ended = beside.pool_ended || event->kind == VR_EVENT_POOL_END;
}

/* The end of the pool may be told before the allocation. */
TEST(an_allocation_beside_the_end_of_its_pool_ends, "sim:memory=1G") {
    vram_addr block;
    assert_ok(vr_events_to(end_beside, NULL));
    beside.pool = pool_of(rig, NULL);
    (void)vram_alloc(beside.pool, 1000, rig->queue, &block);
    assert_int_equal(pthread_join(beside.ender, NULL), 0);
    assert_ok(vr_events_to(NULL, NULL));
    assert_true(beside.allocated != 0);
    assert_int_equal(beside.freed, beside.allocated);
}

TEST(a_context_ends_its_trace) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&rig, 0), *second = NULL;
    vram_trace_options options = {.size = sizeof options, .path = "/tmp/never-made.vrt"};
    assert_int_equal(vram_trace_begin(rig.context, &options, &second), VRAM_ERR_BUSY);
    assert_int_equal(access(options.path, F_OK), -1);
    rig_end_clean(&rig);
    assert_int_equal(vram_trace_mark(trace, "late"), VRAM_ERR_STALE);
    assert_int_equal(sum_up(trace_path).end, RECORDING_ENDED);
    rig = rig_make("sim", "memory=1G");
    trace = begin_trace(&rig, 0);
    assert_ok(vram_trace_end(trace));
    rig_end_clean(&rig);
}

/* Of two contexts one is traced. */
TEST(only_its_context_is_traced) {
    vram_addr addr;
    struct rig one = rig_make("sim", "memory=1G"), other = rig_make("sim", "memory=1G");
    vram_trace *trace = begin_trace(&one, 0);
    vram_pool *mine = pool_of(&one, NULL), *others = pool_of(&other, NULL);
    assert_ok(vram_alloc(others, 4096, other.queue, &addr));
    assert_ok(vram_free(addr, other.queue));
    assert_ok(vram_alloc(mine, 8192, one.queue, &addr));
    assert_ok(vram_free(addr, one.queue));
    assert_ok(vram_trace_end(trace));
    sum_up(trace_path);
    assert_int_equal(sums.begun, 1);
    assert_int_equal(sums.allocs, 1);
    rig_end_clean(&other);
    rig_end_clean(&one);
}

/* -------------------------------------------------------------------- threads */

enum { PAIRS = 1000 };

struct work {
    vram_pool *pool;
    vram_queue *queue;
};

static void *allocate_and_free(void *argument) {
    const struct work *work = argument;
    for (int i = 0; i < PAIRS; i++) {
        vram_addr addr;
        if (vram_alloc(work->pool, 512 + (uint64_t)(i % 64) * 512, work->queue, &addr) != VRAM_OK ||
            vram_free(addr, work->queue) != VRAM_OK) {
            return argument;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ full disk */

/* The trace stops; the pool does not notice. */
TEST(a_full_disk_fails_no_allocation, "sim:memory=1G") {
    vram_trace *trace = begin_looking(rig, 0, 1000000);
    struct work work = {pool_of(rig, NULL), rig->queue};
    vr_os_fail_at(1, true, ENOSPC);
    void *wrong = NULL;
    for (int i = 0; i < 6 && !wrong; i++) {
        wrong = allocate_and_free(&work);
    }
    vr_os_fail_at(0, false, 0);
    assert_null(wrong);
    vram_trace_info info = info_of(trace);
    assert_int_equal(info.stopped, VRAM_ERR_IO);
    assert_true(info.lost_events > 0);
    assert_ok(vram_trace_end(trace));
    assert_int_equal(sum_up(trace_path).end, RECORDING_STOPPED);
}

/* ----------------------------------------------------------------- the option */

static int run_with_option(void *argument) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, NULL);
    vram_trace *trace = NULL;
    vram_addr addr;
    vram_trace_options options = {.size = sizeof options, .path = "/tmp/never-made.vrt"};
    if (vram_alloc(pool, 4096, rig.queue, &addr) != VRAM_OK ||
        vram_trace_begin(rig.context, &options, &trace) != VRAM_ERR_BUSY) {
        return 1;
    }
    if (argument) {
        kill(getpid(), SIGKILL);
    }
    vram_context_destroy(rig.context); /* the block is left behind */
    exit(0);
}

static int set_and_run(void *argument) {
    setenv("VRAM_TRACE", trace_path, 1);
    vr_option_reset();
    return run_with_option(argument);
}

TEST(the_environment_begins_a_trace) {
    int killed = 1;
    unlink(trace_path);
    assert_int_equal(in_child(set_and_run, NULL), 0);
    assert_int_equal(sum_up(trace_path).end, RECORDING_ENDED);
    assert_int_equal(sums.allocs, 1);
    assert_int_equal(sums.live, 4096);
    unlink(trace_path);
    assert_int_equal(in_child(set_and_run, &killed), 1000 + SIGKILL);
    assert_int_equal(sum_up(trace_path).end, RECORDING_CUT);
    assert_int_equal(sums.live, 4096);
}

/* A child that means the file its parent writes gets one of its own. */
TEST(a_file_in_use_gets_another_name, "sim:memory=1G") {
    vram_trace *trace = begin_trace(rig, 0);
    char pattern[96];
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(set_and_run(NULL));
    }
    assert_int_equal(child_end(child), 0);
    snprintf(pattern, sizeof pattern, "%s.%ld", trace_path, (long)child);
    sum_up(pattern);
    assert_int_equal(sums.allocs, 1);
    unlink(pattern);
    assert_ok(vram_trace_end(trace));
    sum_up(trace_path);
    assert_int_equal(sums.allocs, 0);
}

static int run_with_a_bad_path(void *argument) {
    (void)argument;
    setenv("VRAM_TRACE", "/nonexistent/t.vrt", 1);
    vr_option_reset();
    vram_error_clear();
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, NULL), *more = pool_of(&rig, NULL);
    vram_addr addr;
    return vram_alloc(pool, 4096, rig.queue, &addr) == VRAM_OK &&
                   vram_alloc(more, 4096, rig.queue, &addr) == VRAM_OK &&
                   vram_error_get()->status == VRAM_OK
               ? 0
               : 1;
}

TEST(a_bad_path_of_the_option_hurts_nobody) {
    assert_int_equal(in_child(run_with_a_bad_path, NULL), 0);
}

/* ------------------------------------------------------------------ bad input */

TEST(the_process_is_part_of_the_name, "sim:memory=1G") {
    char expected[64];
    vram_trace_options options = {.size = sizeof options, .path = "/tmp/vram-%p-trace.vrt"};
    vram_trace *trace = NULL;
    assert_ok(vram_trace_begin(rig->context, &options, &trace));
    snprintf(expected, sizeof expected, "/tmp/vram-%ld-trace.vrt", (long)getpid());
    assert_string_equal(info_of(trace).path, expected);
    assert_ok(vram_trace_end(trace));
    assert_int_equal(unlink(expected), 0);
}

WHOLE_FILE(trace_world_begin, trace_world_end)
