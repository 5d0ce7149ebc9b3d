/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_writer.c: what is written is what is read, and whatever is done to a file, a reader
 * gives a right answer or says where it is wrong.
 */
#include "replay/trace_reader.h"
#include "unit/trace_world.h"

#include <vram/oom.h>
#include <vram/transfer.h>

#include <stdarg.h>

static uint64_t clock_ns;

static uint64_t clock_now(void *user) {
    (void)user;
    return clock_ns;
}

static uint32_t frames_of(uint32_t stack, uint64_t *frames, uint32_t room) {
    assert_int_equal(room, VR_TRACE_FRAMES_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        frames[i] = stack * 16 + i;
    }
    return 3;
}

static void describe(uint64_t frame, char *text, size_t bytes) {
    snprintf(text, bytes, "function_%u", (unsigned)frame);
}

static struct vr_trace_writer *writer;

static void writer_begin(uint64_t ring_bytes, const struct vr_trace_stacks *stacks) {
    static const struct vr_clock_source source = {.now = clock_now};
    clock_ns = 1000;
    vr_clock_set(&source);
    assert_ok(vr_trace_writer_open(trace_path, ring_bytes, stacks, &writer));
}

static void writer_end(void) {
    vr_trace_writer_close(writer);
    vr_clock_set(NULL);
}

static void write_at(uint64_t ns, struct vr_event event) {
    clock_ns = ns;
    vr_trace_write_event(writer, &event);
}

static void write_report(uint64_t asked, uint32_t stack) {
    struct vram_oom_report report = {
        .size = sizeof report,
        .cause = VRAM_OOM_FRAGMENTED,
        .asked_bytes = asked,
        .needed_bytes = 2048,
        .stranded_bytes = 12,
        .total_bytes = {.known = true, .value = 1000},
        .free_bytes = {.known = true},
        .limit_bytes = {.known = true, .value = UINT64_MAX - 1},
        .step_count = 2,
        .steps = {{VRAM_LADDER_DRAIN, 1, 2, 3}, {VRAM_LADDER_LEASE, 1, 300, UINT64_MAX}},
        .holder_count = 1,
        .holders = {{"model/<b>", 4096, 3}},
        .summary = "no memory"};
    struct vr_event event = {
        .kind = VR_EVENT_REPORT, .pool = 0x106, .device = 0x102, .stack = stack, .report = &report};
    memset(report.advice, 'x', sizeof report.advice - 1);
    vr_trace_write_event(writer, &event);
}

/* One of each kind of event. */
static void write_small(uint64_t ring_bytes) {
    const struct vr_trace_stacks stacks = {frames_of, describe};
    struct vr_event event = {
        .kind = VR_EVENT_POOL_BEGIN, .pool = 0x106, .device = 0x102, .name = "main"};
    writer_begin(ring_bytes, &stacks);
    write_at(1000, event);
    event = event_of(VR_EVENT_ALLOC, 1, 1000);
    event.name = "layer 0";
    event.stack = 7;
    write_at(2000, event);
    event.addr += 8192;
    event.tag = NULL;
    write_at(2000, event);
    event = event_of(VR_EVENT_RESIZE, 1, 5000);
    event.before = 1000;
    write_at(2500, event);
    event = event_of(VR_EVENT_REFUSED, 0, UINT64_C(1) << 40);
    event.status = VRAM_ERR_DEVICE_MEMORY;
    write_report(7, 0);           /* of a request that a retry served */
    write_report(event.bytes, 9); /* a stack that no allocation has */
    write_at(2600, event);
    clock_ns = 3000;
    vr_trace_write_sample(writer, &(struct vr_trace_sample){.pool = 0x106,
                                                            .live_bytes = 6000,
                                                            .held_bytes = 6144,
                                                            .reserved_bytes = 2 << 20,
                                                            .hits = 3,
                                                            .misses = 4});
    clock_ns = 3100;
    vr_trace_write_mark(writer, "step 1");
    write_at(3300, (struct vr_event){.kind = VR_EVENT_TRANSFER,
                                     .memory = VRAM_TRANSFER_TO_HOST,
                                     .stack = VRAM_ROUTE_READBACK,
                                     .device = 0x102,
                                     .bytes = 70000,
                                     .held = 12345,
                                     .thread = 9,
                                     .status = VRAM_ERR_TIMEOUT});
    write_at(2900, event_of(VR_EVENT_FREE, 3, 1000)); /* a clock that falls: written as 3100 */
    write_at(4000, (struct vr_event){.kind = VR_EVENT_POOL_END,
                                     .pool = 0x106,
                                     .device = 0x102,
                                     .name = "main",
                                     .elements = 1,
                                     .bytes = 5000});
    writer_end();
}

/* ---------------------------------------------------------------- both ways */

static char said[4096];

static void say(const char *text, ...) {
    va_list list;
    size_t used = strlen(said);
    va_start(list, text);
    vsnprintf(said + used, sizeof said - used, text, list);
    va_end(list);
}

static void say_report(const struct refusal_report *report) {
    say(" cause %d needed %llu stranded %llu total %llu free %llu others %s limit max-%llu;",
        (int)report->cause, (unsigned long long)report->needed,
        (unsigned long long)report->stranded, (unsigned long long)report->total,
        (unsigned long long)report->free, report->others == REFUSAL_NOT_KNOWN ? "?" : "known",
        (unsigned long long)(UINT64_MAX - report->limit));
    for (uint32_t i = 0; i < report->step_count; i++) {
        say(" step %d %llu %lld;", (int)report->steps[i].step,
            (unsigned long long)report->steps[i].bytes, (long long)report->steps[i].ns);
    }
    for (uint32_t i = 0; i < report->holder_count; i++) {
        say(" %s %llu;", report->holders[i].tag, (unsigned long long)report->holders[i].blocks);
    }
    say(" %s, advice of %zu", report->summary, strlen(report->advice));
}

/* A line of what the event's kind has; the addresses from the first. */
static void say_event(const struct recording *recording, const struct recorded *event) {
    const char *frame;
    say("%x at %llu:", (unsigned)event->kind, (unsigned long long)event->time_ns);
    if (event->addr) {
        say(" block %llu +%llx", (unsigned long long)event->id,
            (unsigned long long)(event->addr - FIRST_ADDRESS));
    }
    say(" %llu/%llu/%llu", (unsigned long long)event->bytes, (unsigned long long)event->held,
        (unsigned long long)event->before);
    say(" pool %llx %s device %llx queue %llx", (unsigned long long)event->pool, event->pool_name,
        (unsigned long long)event->device, (unsigned long long)event->queue);
    if (event->kind == RECORDED_TRANSFER) {
        say(" %d %d %llu thread %llu", (int)event->direction, (int)event->route,
            (unsigned long long)event->took_ns, (unsigned long long)event->thread);
    } else {
        assert_true(event->thread == 0 || event->thread == vr_os_thread_number());
    }
    say(" status %d '%s' '%s'", event->status, event->tag, event->name);
    for (uint32_t i = 0; (frame = recording_frame(recording, event->stack, i)) != NULL; i++) {
        say(" %s", frame);
    }
    if (event->kind == RECORDED_SAMPLE) {
        say(" %llu of %llu, %llu and %llu", (unsigned long long)event->sample.live,
            (unsigned long long)event->sample.reserved, (unsigned long long)event->sample.hits,
            (unsigned long long)event->sample.misses);
    }
    if (event->report) {
        say_report(event->report);
    }
    say("%s\n", event->blocks ? " with a block" : "");
    assert_null(recording_frame(recording, 0, 0));
    assert_null(recording_frame(recording, UINT32_MAX, 0));
}

TEST(what_is_written_is_read) {
    static const char expected[] =
        "14 at 0: 0/0/0 pool 106 main device 102 queue 0 status 0 '' ''\n"
        "10 at 1000: block 1 +1000 1000/1024/0 pool 106 main device 102 queue 103 status 0 "
        "'model/weights' 'layer 0' function_112 function_113 function_114\n"
        "10 at 1000: block 2 +3000 1000/1024/0 pool 106 main device 102 queue 103 status 0 "
        "'' 'layer 0' function_112 function_113 function_114\n"
        "12 at 1500: block 1 +1000 5000/5120/1000 pool 106 main device 102 queue 103 status "
        "0 '' ''\n"
        "13 at 1600: 1099511627776/0/0 pool 106 main device 102 queue 103 status -21 "
        "'model/weights' '' function_144 function_145 function_146 cause 2 needed 2048 "
        "stranded 12 total 1000 free 0 others ? limit max-1; step 0 2 3; step 11 300 -1; "
        "model/<b> 3; no memory, advice of 255\n"
        "16 at 2000: 0/0/0 pool 106 main device 102 queue 0 status 0 '' '' 6000 of 2097152, "
        "3 and 4\n"
        "17 at 2100: 0/0/0 pool 0  device 0 queue 0 status 0 '' 'step 1'\n"
        "40 at 2300: 70000/0/0 pool 0  device 102 queue 0 1 7 12345 thread 9 status -81 '' "
        "''\n"
        "11 at 2100: block 2 +3000 1000/0/0 pool 106 main device 102 queue 103 status 0 '' "
        "''\n"
        "15 at 3000: 5000/0/0 pool 106 main device 102 queue 0 status 0 '' '' with a block\n";
    for (uint64_t ring = 0; ring < 2; ring++) {
        write_small(ring);
        said[0] = '\0';
        struct found found = read_each(trace_path, say_event);
        assert_string_equal(said, expected);
        assert_int_equal(found.events, 9);
        assert_int_equal(found.end, RECORDING_ENDED);
    }
}

TEST(replay_reads_it) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    write_small(0);
    assert_true(trace_read(trace_path, &trace, problem));
    /* Two allocations, a resize as two, a free, and one by the end of the pool. */
    assert_int_equal(trace.op_count, 6);
    assert_int_equal(trace.ops[5].kind, TRACE_FREE);
    assert_int_equal(trace.ops[5].block, trace.ops[3].block);
    assert_int_equal(trace.alloc_count, 3);
    assert_int_equal(trace.peak_bytes, 6000);
    assert_int_equal(trace.ops[2].kind, TRACE_FREE);
    assert_int_equal(trace.ops[3].bytes, 5000);
    trace_free(&trace);
}

static unsigned reported;

static void count_reports(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    reported += event->kind == RECORDED_REFUSE && event->report != NULL;
}

/* Reports are large: a program that is refused over and over does not fill the disk by them. */
TEST(reports_have_a_rate) {
    writer_begin(0, NULL);
    for (unsigned i = 0; i < 200; i++) {
        struct vr_event refused = event_of(VR_EVENT_REFUSED, 0, 1 + i);
        refused.status = VRAM_ERR_DEVICE_MEMORY;
        write_report(1 + i, 0);
        vr_trace_write_event(writer, &refused);
        clock_ns += i >= 100 ? 1000000 : 0; /* for the second hundred, a millisecond each */
    }
    writer_end();
    reported = 0;
    assert_int_equal(read_each(trace_path, count_reports).events, 200);
    assert_in_range(reported, 64 + 8, 64 + 11);
}

/* -------------------------------------------------------------------- damage */

/* How many events of the whole file a prefix has, by hash. */
static uint64_t prefix_hashes[16];
static size_t prefix_count;

static void note_prefix(const struct recording *recording, const struct recorded *event) {
    prefix_hashes[prefix_count + 1] = mix_event(prefix_hashes[prefix_count], recording, event);
    prefix_count++;
}

/* All lengths inside the header and the last 500 bytes that are used; some of the others. */
static size_t next_cut(size_t cut, size_t bytes) {
    size_t end = bytes < 70000 ? bytes : vr_os_page_bytes() + 500;
    bool near = cut < VR_TRACE_HEADER_USED || (cut <= end && cut + 500 > end);
    return cut - (near || cut < 61 ? 1 : cut > end + 8192 ? 7919 : 61);
}

TEST(every_truncation) {
    size_t bytes, most = 0;
    for (uint64_t ring = 0; ring < 2; ring++) {
        write_small(ring);
        uint8_t *data = file_bytes(trace_path, &bytes);
        prefix_hashes[0] = 1;
        prefix_count = 0;
        read_memory(data, bytes, note_prefix);
        /* The memory is of exactly that size, so that a read past it is noticed. */
        for (size_t cut = bytes - 1; cut < bytes; cut = next_cut(cut, bytes)) {
            uint8_t *less = malloc(cut + 1);
            assert_non_null(less);
            memcpy(less + 1, data, cut);
            struct found found = read_memory(less + 1, cut, NULL);
            size_t read = (size_t)(found.events + found.transfers);
            assert_true(found.good || (cut < VR_TRACE_HEADER_USED && found.problem_at <= cut));
            assert_true(read <= prefix_count);
            assert_true(!found.good || found.hash == prefix_hashes[read]);
            assert_true(!found.good || found.end == RECORDING_CUT);
            most = read > most ? read : most;
            free(less);
        }
        assert_true(most >= prefix_count - 1); /* the last byte of a file is of its last event */
        free(data);
    }
}

/* Each byte of a file becomes another: an error that says where, or all events as they were. Of the
   zeros between what is used some are enough. */
TEST(every_damaged_byte) {
    static const uint8_t changes[] = {0x01, 0x80, 0xFF, 0};
    size_t bytes, header = vr_os_page_bytes();
    for (uint64_t ring = 0; ring < 2; ring++) {
        write_small(ring);
        uint8_t *data = file_bytes(trace_path, &bytes);
        struct found whole = read_memory(data, bytes, NULL);
        uint64_t refused = 0, end = bytes < 70000 ? bytes : 5000;
        for (size_t at = 0; at < end;) {
            for (size_t i = 0; i < sizeof changes; i++) {
                uint8_t right = data[at];
                data[at] = changes[i] ? right ^ changes[i] : 0;
                if (data[at] != right) {
                    struct found found = read_memory(data, bytes, NULL);
                    refused += !found.good;
                    assert_true(!found.good ||
                                (found.hash == whole.hash && found.end == whole.end));
                    assert_true(found.good || found.problem_at <= bytes);
                }
                data[at] = right;
            }
            at += at < VR_TRACE_HEADER_USED || (at >= header && at < header + 500) ? 1 : 61;
        }
        assert_true(refused > 500);
        free(data);
    }
}

WHOLE_FILE(trace_world_begin, trace_world_end)
