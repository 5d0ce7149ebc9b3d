/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_writer.c: what is written is what is read, and whatever is done to a file, a reader
 * gives a right answer or says where it is wrong.
 */
#include "replay/trace_reader.h"
#include "track/crc32.h"
#include "unit/trace_world.h"

#include <vram/oom.h>
#include <vram/transfer.h>

#include <pthread.h>

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
    snprintf(text, bytes, "program`function_%u", (unsigned)frame);
}

static void write_report(struct vr_trace_writer *writer, uint64_t asked, uint32_t stack) {
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
    const struct vr_clock_source source = {.now = clock_now};
    struct vr_trace_writer *writer = NULL;
    clock_ns = 1000;
    vr_clock_set(&source);
    assert_ok(vr_trace_writer_open(trace_path, ring_bytes, &stacks, &writer));
    struct vr_event begin = {
        .kind = VR_EVENT_POOL_BEGIN, .pool = 0x106, .device = 0x102, .name = "main"};
    vr_trace_write_event(writer, &begin);
    struct vr_event alloc = event_of(VR_EVENT_ALLOC, 1, 1000);
    clock_ns = 2000;
    alloc.name = "layer 0";
    alloc.stack = 7;
    vr_trace_write_event(writer, &alloc);
    alloc.addr += 8192;
    alloc.tag = NULL;
    vr_trace_write_event(writer, &alloc);
    struct vr_event resize = event_of(VR_EVENT_RESIZE, 1, 5000);
    resize.before = 1000;
    clock_ns = 2500;
    vr_trace_write_event(writer, &resize);
    struct vr_event refused = event_of(VR_EVENT_REFUSED, 0, UINT64_C(1) << 40);
    refused.status = VRAM_ERR_DEVICE_MEMORY;
    clock_ns = 2600;
    write_report(writer, 7, 0);             /* of a request that a retry served */
    write_report(writer, refused.bytes, 9); /* a stack that no allocation has */
    vr_trace_write_event(writer, &refused);
    clock_ns = 3000;
    vr_trace_write_sample(writer, &(struct vr_trace_sample){.pool = 0x106,
                                                            .live_bytes = 6000,
                                                            .held_bytes = 6144,
                                                            .reserved_bytes = 2 << 20,
                                                            .hits = 3,
                                                            .misses = 4});
    clock_ns = 3100;
    vr_trace_write_mark(writer, "step 1");
    const struct vr_event transfer = {.kind = VR_EVENT_TRANSFER,
                                      .memory = VRAM_TRANSFER_TO_HOST,
                                      .stack = VRAM_ROUTE_READBACK,
                                      .device = 0x102,
                                      .bytes = 70000,
                                      .held = 12345,
                                      .thread = 9,
                                      .status = VRAM_ERR_TIMEOUT};
    clock_ns = 3300;
    vr_trace_write_event(writer, &transfer);
    struct vr_event freed = event_of(VR_EVENT_FREE, 3, 1000);
    clock_ns = 2900; /* a clock that falls: it is written as 3100 */
    vr_trace_write_event(writer, &freed);
    struct vr_event end = begin;
    end.kind = VR_EVENT_POOL_END;
    end.elements = 1;
    end.bytes = 5000;
    clock_ns = 4000;
    vr_trace_write_event(writer, &end);
    vr_trace_writer_close(writer);
    vr_clock_set(NULL);
}

/* ---------------------------------------------------------------- both ways */

static void report_is_as_written(const struct refusal_report *report) {
    assert_non_null(report);
    assert_int_equal(report->cause, VRAM_OOM_FRAGMENTED);
    assert_int_equal(report->needed, 2048);
    assert_int_equal(report->stranded, 12);
    assert_true(report->total == 1000 && report->free == 0);
    assert_true(report->others == REFUSAL_NOT_KNOWN && report->limit == UINT64_MAX - 1);
    assert_int_equal(report->step_count, 2);
    assert_int_equal(report->steps[1].step, VRAM_LADDER_LEASE);
    assert_int_equal(report->steps[1].bytes, 300);
    assert_int_equal(report->steps[1].ns, UINT64_MAX);
    assert_int_equal(report->holder_count, 1);
    assert_string_equal(report->holders[0].tag, "model/<b>");
    assert_int_equal(report->holders[0].blocks, 3);
    assert_string_equal(report->summary, "no memory");
    assert_int_equal(strlen(report->advice), 255);
}

static unsigned reported;

static void count_reports(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    reported += event->kind == RECORDED_REFUSE && event->report != NULL;
}

/* Reports are large: a program that is refused over and over does not fill the disk by them. */
TEST(reports_have_a_rate) {
    const struct vr_clock_source source = {.now = clock_now};
    struct vr_trace_writer *writer = NULL;
    clock_ns = 1000;
    vr_clock_set(&source);
    assert_ok(vr_trace_writer_open(trace_path, 0, NULL, &writer));
    for (unsigned i = 0; i < 200; i++) {
        struct vr_event refused = event_of(VR_EVENT_REFUSED, 0, 1 + i);
        refused.status = VRAM_ERR_DEVICE_MEMORY;
        write_report(writer, 1 + i, 0);
        vr_trace_write_event(writer, &refused);
        clock_ns += i >= 100 ? 1000000 : 0; /* for the second hundred, a millisecond each */
    }
    vr_trace_writer_close(writer);
    vr_clock_set(NULL);
    reported = 0;
    size_t bytes;
    uint8_t *data = file_bytes(trace_path, &bytes);
    struct found found = read_memory(data, bytes, count_reports);
    free(data);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.events, 200);
    assert_in_range(reported, 64 + 8, 64 + 11);
}

static unsigned seen;

static void each_is_as_written(const struct recording *recording, const struct recorded *event) {
    static const enum recorded_kind kinds[] = {
        RECORDED_POOL_BEGIN, RECORDED_ALLOC, RECORDED_ALLOC,    RECORDED_RESIZE, RECORDED_REFUSE,
        RECORDED_SAMPLE,     RECORDED_MARK,  RECORDED_TRANSFER, RECORDED_FREE,   RECORDED_POOL_END};
    static const uint64_t times[] = {0, 1000, 1000, 1500, 1600, 2000, 2100, 2300, 2100, 3000};
    assert_int_equal(event->kind, kinds[seen]);
    assert_int_equal(event->time_ns, times[seen]);
    switch (seen++) {
    case 0:
        assert_string_equal(event->pool_name, "main");
        assert_int_equal(event->device, 0x102);
        break;
    case 1:
        assert_int_equal(event->id, 1);
        assert_int_equal(event->addr, 0x7f0000001000);
        assert_int_equal(event->bytes, 1000);
        assert_int_equal(event->held, 1024);
        assert_int_equal(event->thread, vr_os_thread_number());
        assert_int_equal(event->queue, 0x103);
        assert_string_equal(event->tag, "model/weights");
        assert_string_equal(event->name, "layer 0");
        assert_string_equal(recording_frame(recording, event->stack, 0), "program`function_112");
        assert_string_equal(recording_frame(recording, event->stack, 2), "program`function_114");
        assert_null(recording_frame(recording, event->stack, 3));
        assert_null(recording_frame(recording, 0, 0));
        assert_null(recording_frame(recording, UINT32_MAX, 0));
        break;
    case 2:
        assert_string_equal(event->tag, "");
        assert_int_equal(event->addr, 0x7f0000003000);
        break;
    case 3:
        assert_int_equal(event->id, 1);
        assert_int_equal(event->before, 1000);
        assert_int_equal(event->bytes, 5000);
        assert_int_equal(event->held, 5120);
        break;
    case 4:
        assert_int_equal(event->status, VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(event->bytes, UINT64_C(1) << 40);
        report_is_as_written(event->report);
        assert_string_equal(recording_frame(recording, event->stack, 0), "program`function_144");
        break;
    case 5:
        assert_int_equal(event->sample.reserved, 2 << 20);
        assert_int_equal(event->sample.hits, 3);
        assert_int_equal(event->sample.misses, 4);
        break;
    case 6:
        assert_string_equal(event->name, "step 1");
        break;
    case 7:
        assert_int_equal(event->direction, VRAM_TRANSFER_TO_HOST);
        assert_int_equal(event->route, VRAM_ROUTE_READBACK);
        assert_int_equal(event->device, 0x102);
        assert_int_equal(event->thread, 9);
        assert_int_equal(event->bytes, 70000);
        assert_int_equal(event->took_ns, 12345);
        assert_int_equal(event->status, VRAM_ERR_TIMEOUT);
        break;
    case 8:
        assert_int_equal(event->id, 2);
        assert_int_equal(event->bytes, 1000);
        break;
    default:
        assert_string_equal(event->pool_name, "main");
        assert_int_equal(event->blocks, 1);
        assert_int_equal(event->bytes, 5000);
    }
}

TEST(what_is_written_is_read) {
    size_t bytes;
    for (uint64_t ring = 0; ring < 2; ring++) {
        write_small(ring);
        uint8_t *data = file_bytes(trace_path, &bytes);
        seen = 0;
        struct found found = read_memory(data, bytes, each_is_as_written);
        assert_string_equal(found.problem, "");
        assert_int_equal(seen, 10);
        assert_int_equal(found.events, 9);
        assert_int_equal(found.end, RECORDING_ENDED);
        free(data);
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

/* -------------------------------------------------------------------- damage */

/* How many events of the whole file a prefix has, by hash. */
static uint64_t prefix_hashes[16];
static size_t prefix_count;

static void note_prefix(const struct recording *recording, const struct recorded *event) {
    prefix_hashes[prefix_count + 1] = mix_event(prefix_hashes[prefix_count], recording, event);
    prefix_count++;
}

static void is_a_prefix(const struct found *found, size_t events) {
    assert_true(events <= prefix_count);
    assert_int_equal(found->hash, prefix_hashes[events]);
}

/* All lengths inside the header and the last 500 bytes that are used; some of the others. */
static size_t next_cut(size_t cut, size_t bytes) {
    size_t end = bytes < 70000 ? bytes : vr_os_page_bytes() + 500;
    bool near = cut < VR_TRACE_HEADER_USED || (cut <= end && cut + 500 > end);
    return cut - (near || cut < 61 ? 1 : cut > end + 8192 ? 7919 : 61);
}

TEST(every_truncation) {
    size_t bytes, before = 0;
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
            if (found.good) {
                size_t read = (size_t)(found.events + found.transfers);
                is_a_prefix(&found, read);
                assert_true(found.end == RECORDING_CUT);
                before = read > before ? read : before;
            } else {
                assert_true(cut < VR_TRACE_HEADER_USED);
                assert_true(found.problem_at <= cut);
            }
            free(less);
        }
        assert_true(before >= prefix_count - 1); /* the last byte of a file is of its last event */
        free(data);
    }
}

/* The next byte to damage: all of those that are used, some of the zeros between them. */
static size_t next_byte(size_t at) {
    size_t header = vr_os_page_bytes();
    bool used = at < VR_TRACE_HEADER_USED || (at >= header && at < header + 500);
    return at + (used ? 1 : 61);
}

/* Each byte of a file becomes another: an error that says where, or all events as they were. */
TEST(every_damaged_byte) {
    size_t bytes;
    for (uint64_t ring = 0; ring < 2; ring++) {
        write_small(ring);
        uint8_t *data = file_bytes(trace_path, &bytes);
        struct found whole = read_memory(data, bytes, NULL);
        uint64_t refused = 0, end = bytes < 70000 ? bytes : 5000;
        for (size_t at = 0; at < end; at = next_byte(at)) {
            static const uint8_t changes[] = {0x01, 0x80, 0xFF, 0};
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
        }
        assert_true(refused > 500);
        free(data);
    }
}

/* -------------------------------------------------------------------- hostile */

static void put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* A file with one sealed chunk of these records. */
static struct found read_records(const void *records, size_t bytes,
                                 void (*each)(const struct recording *recording,
                                              const struct recorded *event)) {
    uint8_t file[4096];
    assert_true(bytes < 3000);
    memset(file, 0, sizeof file);
    memcpy(file, VR_TRACE_MAGIC, 8);
    put(file + 8, 1, 4);
    put(file + 12, 512, 4);
    put(file + 16, 4096, 4);
    put(file + 52, vr_crc32(0, file, 52), 4);
    uint8_t *chunk = file + 512;
    memcpy(chunk, "VRTC", 4);
    memcpy(chunk + 48, records, bytes);
    uint64_t crc = vr_crc32(0, chunk + 16, 32 + bytes);
    put(chunk + 8, crc << 32 | VR_TRACE_CHUNK_MARK | bytes, 8);
    return read_memory(file, 512 + 48 + bytes, each);
}

#define REFUSED(text, at, why)                                                                     \
    do {                                                                                           \
        struct found found_ = read_records(text, sizeof text - 1, NULL);                           \
        assert_string_equal(found_.problem, why);                                                  \
        assert_int_equal(found_.problem_at, 560 + (at));                                           \
    } while (0)

TEST(records_that_cannot_be) {
    REFUSED("\x08", 0, "this kind of record is unknown");
    REFUSED("\x18\x00", 0, "this kind of record is unknown");
    REFUSED("\x00", 0, "this kind of record is unknown");
    REFUSED("\x17", 0, "a record extends past its chunk");
    REFUSED("\x17\x00\x05", 0, "a number refers to something that was not defined");
    REFUSED("\x01\x00\x01x", 0, "a number is defined that is out of range");
    REFUSED("\x01\xff\xff\xff\xff\x0f\x01x", 0, "a number is defined that is out of range");
    REFUSED("\x01\x01\x01x\x01\x01\x01y", 4, "a number is defined again as something else");
    REFUSED("\x01\x01\x01x\x04\x01\x09", 4, "a number is defined again as something else");
    REFUSED("\x01\x01\x80\x02x", 0, "a text is longer than 255 bytes");
    REFUSED("\x01\x01\x09x", 0, "a record extends past its chunk");
    REFUSED("\x03\x01\x41", 0, "a stack has more than 64 frames");
    REFUSED("\x03\x01\x01\x01", 0, "a number refers to something that was not defined");
    REFUSED("\x01\x01\x01x\x03\x02\x01\x01", 4,
            "a number refers to something that was not defined");
    REFUSED("\x17\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00", 0,
            "a number has more than 64 bits");
    REFUSED("\x17\x01\x00\x17\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 3,
            "a sum does not fit in 64 bits");
    REFUSED("\x10\x00\x00\x00\x00\x02\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00\x00\x00",
            0, "a sum does not fit in 64 bits");
    REFUSED("\x41\x05\x00", 0, "a record extends past its chunk");
    REFUSED("\x40\x09\x00", 0, "a record extends past its chunk");
    REFUSED("\x40\x00", 0, "a transfer record is too short");
    REFUSED("\x41\x00", 0, "the report of a refusal is too short");
    REFUSED("\x41\x16\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 0,
            "the report of a refusal is too short");
    REFUSED("\x17\x05\x00\x40\x07\x00\x01\x02\x03\x04\x05\x06", 3,
            "a transfer record is too short");
    REFUSED("\x40\x08\x00\x01\x02\x03\x04\x05\x06\x80", 0, "a transfer record is too short");
    REFUSED("\x17\x01\x00\x40\x11\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0", 3,
            "a sum does not fit in 64 bits");
}

TEST(records_of_the_future_are_passed_over) {
    static const char text[] = "\x42\x03\x01\x02\x03\x17\x05\x00\x7f\x00\x17\x00\x00";
    struct found found = read_records(text, sizeof text - 1, NULL);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.events, 2);
    static const char same[] = "\x01\x01\x01x\x01\x01\x01x\x17\x00\x01";
    assert_true(read_records(same, sizeof same - 1, NULL).good);
}

static void check_transfer(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    if (event->kind == RECORDED_TRANSFER) {
        assert_int_equal(event->time_ns, 5 + 7);
        assert_int_equal(event->thread, 1);
        assert_int_equal(event->device, 2);
        assert_int_equal(event->direction, 3);
        assert_int_equal(event->route, 4);
        assert_int_equal(event->bytes, 128);
        assert_int_equal(event->took_ns, 6);
        assert_int_equal(event->status, -9);
    } else {
        assert_int_equal(event->kind, RECORDED_MARK);
        assert_true(event->time_ns == 5 || event->time_ns == 6);
    }
}

/* It is none of the events, its time is not part of the next one's, and what lies behind its
   numbers is left. */
TEST(a_transfer_is_read_between_events) {
    static const char text[] =
        "\x17\x05\x00\x40\x0b\x07\x01\x02\x03\x04\x80\x01\x06\x09zz\x17\x01\x00";
    struct found found = read_records(text, sizeof text - 1, check_transfer);
    assert_string_equal(found.problem, "");
    assert_int_equal(found.events, 2);
    assert_int_equal(found.transfers, 1);
}

/* --------------------------------------------------------------- slow symbols */

static struct {
    struct vr_trace_writer *writer;
    vr_atomic_bool asked,
        written; /* a frame's text is being made; another thread wrote meanwhile */
    bool in_time;
} slow;

static void describe_slowly(uint64_t frame, char *text, size_t bytes) {
    uint64_t before = vr_os_now();
    describe(frame, text, bytes);
    vr_store(&slow.asked, true, VR_RELEASE);
    while (!vr_load(&slow.written, VR_ACQUIRE) && vr_os_now() - before < UINT64_C(10000000000)) {
        vr_os_yield();
    }
    slow.in_time = vr_load(&slow.written, VR_ACQUIRE);
}

static void *write_beside(void *argument) {
    struct vr_event alloc = event_of(VR_EVENT_ALLOC, 2, 1000);
    while (!vr_load(&slow.asked, VR_ACQUIRE)) {
        vr_os_yield();
    }
    vr_trace_write_event(slow.writer, &alloc);
    vr_store(&slow.written, true, VR_RELEASE);
    return argument;
}

/* To find the name of a function may take as long as reading a file does: whoever writes meanwhile
   does not wait. */
TEST(names_are_found_without_the_lock) {
    const struct vr_trace_stacks stacks = {frames_of, describe_slowly};
    struct vr_event alloc = event_of(VR_EVENT_ALLOC, 1, 1000);
    pthread_t thread;
    alloc.stack = 7;
    assert_ok(vr_trace_writer_open(trace_path, 0, &stacks, &slow.writer));
    assert_int_equal(pthread_create(&thread, NULL, write_beside, NULL), 0);
    vr_trace_write_event(slow.writer, &alloc);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(slow.in_time);
    vr_trace_writer_close(slow.writer);
}

TEST(crc_is_that_of_gzip) {
    static const char text[] = "123456789";
    assert_int_equal(vr_crc32(0, text, 9), 0xCBF43926);
    assert_int_equal(vr_crc32(vr_crc32(0, text, 4), text + 4, 5), 0xCBF43926);
    assert_int_equal(chunk_crc((const uint8_t *)text, 9), 0xCBF43926);
}

WHOLE_FILE(trace_world_begin, trace_world_end)
