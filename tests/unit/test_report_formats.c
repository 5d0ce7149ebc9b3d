/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report_formats.c: traces in the formats of other tools, and reports as text: texts that are
 * not UTF-8, more of everything than a format has room for, files that cannot be written.
 */
#include "formats/snapshot.h"
#include "printed_text.h"
#include "report/pickle_writer.h"
#include "report/proto_writer.h"
#include "report/report_writer.h"
#include "report/utf8_text.h"
#include "unit/trace_world.h"

static const struct terminal plain = {.width = 100};
static bool is_terminal; /* standard output is one */

int __wrap_isatty(int file);
int __wrap_isatty(int file) {
    (void)file;
    return is_terminal;
}

/* ------------------------------------------------------------------- small things */

TEST_IN(NULL, NULL, texts_become_utf8) {
    static const struct {
        const char *text, *copy;
    } cases[] = {
        {"abc", "abc"},
        {"\xc3\xa4", "\xc3\xa4"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xf0\x9d\x84\x9e", "\xf0\x9d\x84\x9e"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\x80\xc1x", "??x"},
        {"\xc3x", "?x"},
        {"\xe2\x82", "??"},
        {"\xe0\x80\x80", "???"},          /* longer than it need be */
        {"\xe0\xa0\x80", "\xe0\xa0\x80"}, /* the first of three bytes */
        {"\xed\xa0\x80", "???"},          /* half of a pair of UTF-16 */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xf0\x80\x80\x80", "????"},
        {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {"\xf4\x90\x80\x80", "????"}, /* beyond the last character */
        {"\xf5\x80", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char copy[32];
        copy[utf8_copy(cases[i].text, copy, sizeof copy)] = 0;
        assert_string_equal(copy, cases[i].copy);
    }
    char little[4];
    assert_int_equal(utf8_copy("ab\xe2\x82\xac", little, 4), 2); /* no half of a character */
}

TEST_IN(NULL, NULL, numbers_of_pickles) {
    static const struct {
        uint64_t number;
        size_t bytes;
        unsigned char text[12];
    } cases[] = {
        {0, 2, {'K', 0}},
        {255, 2, {'K', 255}},
        {256, 3, {'M', 0, 1}},
        {65536, 5, {'J', 0, 0, 1, 0}},
        {INT32_MAX, 5, {'J', 255, 255, 255, 127}},
        {UINT64_C(1) << 31, 7, {0x8a, 5, 0, 0, 0, 128, 0}},
        {UINT64_C(1) << 62, 10, {0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 64}},
        {UINT64_MAX, 11, {0x8a, 9, 255, 255, 255, 255, 255, 255, 255, 255, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char text[32];
        FILE *to = fmemopen(text, sizeof text, "w");
        assert_non_null(to);
        pickle_write_number(to, cases[i].number);
        fflush(to);
        assert_int_equal(ftell(to), cases[i].bytes);
        fclose(to);
        assert_memory_equal(text, cases[i].text, cases[i].bytes);
    }
}

/* What does not fit is left out whole. */
TEST_IN(NULL, NULL, messages_are_bounded) {
    static struct proto proto, inner;
    static char far[600];
    memset(far, 'x', sizeof far - 1);
    for (int i = 0; i < 1000; i++) {
        size_t before = proto.bytes;
        proto_text(&proto, 1, far);
        proto_number(&proto, 2, UINT64_MAX);
        assert_true(proto.bytes <= PROTO_MAX && proto.bytes >= before);
    }
    size_t full = proto.bytes;
    inner.bytes = PROTO_MAX;
    proto_message(&proto, 3, &inner);
    assert_int_equal(proto.bytes, full);
}

/* ------------------------------------------------------------------------- blocks */

static struct {
    unsigned allocs, frees, others;
    uint64_t addr;
    bool alloc_fails, free_fails, other_fails;
} told;

static bool flow_alloc(void *user, struct flow_block *block) {
    (void)user;
    told.allocs++;
    told.addr = block->addr;
    return !told.alloc_fails;
}
static bool flow_free(void *user, const struct flow_block *block, uint64_t time_ns) {
    (void)user, (void)block, (void)time_ns;
    told.frees++;
    return !told.free_fails;
}
static bool flow_other(void *user, const struct recorded *event) {
    (void)user, (void)event;
    told.others++;
    return !told.other_fails;
}

static struct recorded recorded_of(enum recorded_kind kind, uint64_t id, uint64_t bytes) {
    return (struct recorded){.kind = kind,
                             .id = id,
                             .bytes = bytes,
                             .pool_number = 1,
                             .tag = "",
                             .name = "",
                             .pool_name = ""};
}

TEST_IN(NULL, NULL, blocks_come_and_go) {
    struct flow_writer writer = {
        .alloc = flow_alloc, .free = flow_free, .other = flow_other, .user = NULL};
    struct block_flow flow;
    memset(&told, 0, sizeof told);
    assert_true(block_flow_begin(&flow, &writer));
    struct recorded event = recorded_of(RECORDED_ALLOC, 0, 10); /* a part of its record is lost */
    assert_true(block_flow_add(&flow, &event));
    assert_int_equal(told.allocs, 0);
    for (uint64_t i = 1; i <= 300; i++) {
        event = recorded_of(RECORDED_ALLOC, i, 10);
        event.held = i == 5 ? UINT64_MAX : 512;
        assert_true(block_flow_add(&flow, &event));
    }
    uint64_t last = told.addr;
    event = recorded_of(RECORDED_RESIZE, 300, 20);
    assert_true(block_flow_add(&flow, &event));
    assert_true(told.addr == last); /* it lies where it lay */
    event.addr = 77;
    assert_true(block_flow_add(&flow, &event));
    assert_int_equal(told.addr, 77);
    event = recorded_of(RECORDED_RESIZE, 999, 20);
    assert_true(block_flow_add(&flow, &event)); /* of what was never seen */
    event.kind = RECORDED_FREE;
    assert_true(block_flow_add(&flow, &event));
    event.kind = RECORDED_POOL_BEGIN;
    assert_true(block_flow_add(&flow, &event));
    assert_int_equal(told.frees, 2);
    told.alloc_fails = told.free_fails = told.other_fails = true;
    event = recorded_of(RECORDED_ALLOC, 400, 10);
    assert_false(block_flow_add(&flow, &event));
    event = recorded_of(RECORDED_FREE, 1, 10);
    assert_false(block_flow_add(&flow, &event));
    event = recorded_of(RECORDED_RESIZE, 2, 10);
    assert_false(block_flow_add(&flow, &event));
    event = recorded_of(RECORDED_POOL_END, 0, 0);
    assert_false(block_flow_add(&flow, &event));
    event = recorded_of(RECORDED_MARK, 0, 0);
    assert_false(block_flow_add(&flow, &event));
    told.free_fails = false;
    event = recorded_of(RECORDED_RESIZE, 4, 10);
    assert_false(block_flow_add(&flow, &event));
    flow.writer.other = NULL;
    event = recorded_of(RECORDED_SAMPLE, 0, 0);
    assert_true(block_flow_add(&flow, &event));
    event = recorded_of(RECORDED_POOL_END, 0, 0);
    assert_true(block_flow_add(&flow, &event));
    block_flow_free(&flow);
}

/* ------------------------------------------------------------------------ formats */

static char path[64];
static char written[1 << 24];
static size_t written_bytes;
static struct report_input input = {.format = FORMAT_CSV}; /* no frames */
static struct report_writer writer;
static struct history history;

static int format_begin(void) {
    (void)trace_world_begin();
    snprintf(path, sizeof path, "/tmp/vram_formats_%ld", (long)getpid());
    return !history_begin(&history, "trace");
}

static int format_end(void) {
    history_free(&history);
    (void)unlink(path);
    return trace_world_end();
}

static bool open_format(const char *name, const char *to) {
    writer = (struct report_writer){
        .format = report_format_find(name), .source = "/nonexistent", .input = &input};
    assert_non_null(writer.format);
    printed_begin();
    bool good = report_writer_open(&writer, to);
    printed_end();
    return good;
}

static void add(const struct recorded *event) {
    assert_true(block_flow_add(&writer.flow, event));
}

static const struct against nothing; /* to compare with */

static bool close_format(bool failed) {
    struct report_view view = {
        .history = &history, .input = &input, .terminal = &plain, .top = 5, .against = &nothing};
    printed_begin();
    bool good = report_writer_close(&writer, failed ? NULL : &view);
    printed_end();
    FILE *file = fopen(path, "r");
    written_bytes = file != NULL ? fread(written, 1, sizeof written, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return good;
}

static unsigned occurrences(const char *text) {
    unsigned count = 0;
    const char *at = written, *end = written + written_bytes;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* More blocks at once than there are tracks, and more pools and tags than counters. */
TEST(perfetto_has_bounds) {
    static char names[140][24];
    assert_true(open_format("perfetto", path));
    for (unsigned i = 0; i < 140; i++) {
        if (i != 1) {
            snprintf(names[i], sizeof names[i], "name %u;", i);
        }
    }
    for (uint64_t i = 1; i <= 2100; i++) {
        struct recorded event = recorded_of(RECORDED_ALLOC, i, 100);
        event.addr = 4096 * i;
        event.pool = i % 140;
        event.pool_name = event.tag = names[i % 140];
        event.tag_number = (uint32_t)(i % 140);
        event.stack = i % 2 ? 0 : (uint32_t)i;
        add(&event);
    }
    for (uint64_t i = 1500; i <= 2100; i++) { /* of shared tracks, and of none */
        struct recorded event = recorded_of(RECORDED_FREE, i, 100);
        add(&event);
    }
    for (uint64_t i = 5000; i < 5010; i++) { /* on tracks that are free again; and their own one */
        struct recorded event = recorded_of(RECORDED_ALLOC, i, 100);
        event.addr = i == 5000 ? 4096 : 4096 * i;
        add(&event);
    }
    for (unsigned i = 0; i < 140; i++) {
        struct recorded event = recorded_of(RECORDED_SAMPLE, 0, 0);
        event.pool = i;
        event.pool_name = names[i];
        add(&event);
    }
    struct recorded event = recorded_of(RECORDED_REFUSE, 0, 100);
    add(&event);
    event.kind = RECORDED_MARK;
    event.name = "a mark";
    add(&event);
    assert_true(close_format(false));
    assert_int_equal(occurrences("other addresses"), 1000);
    assert_int_equal(occurrences("some blocks are only in the counters"), 1);
    assert_int_equal(occurrences("out of memory"), 1);
    assert_int_equal(occurrences("a mark"), 1);
    assert_int_equal(occurrences("held, pool"), 128);
    assert_int_equal(occurrences("live, tag"), 128);
    assert_int_equal(occurrences("live, pool (no name)"), 1);
}

TEST(memory_viz_has_bounds) {
    static const int actions[] = {SNAPSHOT_SEGMENT_ALLOC, SNAPSHOT_SEGMENT_FREE,
                                  SNAPSHOT_SEGMENT_MAP, SNAPSHOT_SEGMENT_UNMAP, 99};
    assert_true(open_format("memory_viz", path));
    for (uint64_t i = 1; i <= SNAPSHOT_DEVICES_MAX + 3; i++) {
        struct recorded event = recorded_of(RECORDED_ALLOC, i, 100);
        event.device = i;
        event.pool_number = (uint32_t)i % 3;
        event.earlier = i == 1;
        add(&event);
    }
    for (uint64_t i = 1; i <= 3; i++) {
        struct recorded event = recorded_of(RECORDED_FREE, i, 100);
        add(&event);
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        struct recorded event = recorded_of(RECORDED_SAMPLE, 0, 100);
        event.status = actions[i];
        add(&event);
    }
    struct recorded event = recorded_of(RECORDED_SAMPLE, 0, 0); /* of a pool, not of a segment */
    add(&event);
    event = recorded_of(RECORDED_REFUSE, 0, 100);
    add(&event);
    for (int i = 0; i < 1001; i++) {
        event = recorded_of(RECORDED_MARK, 0, 0);
        event.name = "a mark";
        add(&event);
    }
    assert_true(close_format(false));
    assert_int_equal(occurrences("a mark"), 1001);
    assert_true(written_bytes > 10000 && written[written_bytes - 1] == '.');
}

TEST(files_that_cannot_be_written) {
    struct stat about;
    static const char *const names[] = {"text", "json", "csv", "folded", "perfetto", "memory_viz"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], "folded") == 0) {
            continue; /* an empty one has no bytes */
        }
        assert_true(open_format(names[i], "/dev/full"));
        assert_false(close_format(false));
        printed_has("/dev/full: ");
        assert_int_equal(stat("/dev/full", &about), 0);
    }
    assert_false(open_format("text", "/nonexistent/file"));
    printed_has("/nonexistent/file: No such file");
    assert_false(close_format(true));
    assert_true(open_format("perfetto", path)); /* what was written goes if the trace was bad */
    assert_false(close_format(true));
    assert_int_not_equal(stat(path, &about), 0);
    assert_true(open_format("html", path)); /* and if it cannot be read again */
    assert_false(close_format(false));
    is_terminal = true;
    assert_false(open_format("perfetto", "-"));
    printed_has("--format=perfetto is not for a terminal");
    assert_false(close_format(true));
    assert_true(open_format("text", NULL));
    assert_true(close_format(false));
    printed_has("nothing\n");
    is_terminal = false;
    assert_true(open_format("perfetto", NULL)); /* into a pipe, say */
    printed_has("GPU memory");
    assert_true(close_format(false));
    assert_true(open_format("perfetto", "/dev/full"));
    assert_false(close_format(true)); /* nothing more is said: the trace was bad */
    assert_string_equal(printed, "");
    assert_null(report_format_find("none"));
}

/* ------------------------------------------------------------------------- reports */

static void history_event(enum recorded_kind kind, uint64_t time_ns, uint64_t id, uint64_t bytes,
                          uint32_t tag, uint64_t pool) {
    static const char *const tags[] = {
        "", "one", "two",
        ("a t\xc3\xa4g with a name that is longer than any column of a "
         "table has room for \xc3\xa4\xc3\xa4")};
    struct recorded event = recorded_of(kind, id, bytes);
    event.time_ns = time_ns;
    event.tag_number = tag;
    event.tag = tags[tag];
    event.pool = pool;
    event.pool_number = (uint32_t)pool;
    event.pool_name = pool == 1 ? "" : "pool";
    event.direction = event.route = 99;
    event.took_ns = time_ns;
    event.held = bytes;
    assert_true(history_add(&history, &event));
}

TEST(reports_of_odd_histories) {
    struct report_view view = {.history = &history, .input = &input, .terminal = &plain, .top = 3};
    view.against = &nothing;
    history_event(RECORDED_TRANSFER, 5, 0, 100, 0, 0); /* of no direction that is known */
    history_event(RECORDED_TRANSFER, 3, 0, 100, 0, 0);
    history_event(RECORDED_TRANSFER, 4, 0, 100, 0, 0);
    history_event(RECORDED_ALLOC, 1, 1, 100, 1, 1);
    history_event(RECORDED_ALLOC, 2, 2, 100, 2, 2);
    history_event(RECORDED_ALLOC, 3, 3, 50, 3, 2);
    history_event(RECORDED_ALLOC, 3, 4, 1, 0, 2);
    history_event(RECORDED_RESIZE, 4, 4, 2, 0, 2);
    history_event(RECORDED_RESIZE, 4, 0, 2, 0, 2);
    history_event(RECORDED_FREE, 5, 99, 2, 0, 2);
    history_event(RECORDED_POOL_END, 6, 0, 0, 0, 1); /* one block is lost with it */
    history.first_blocks = 4;
    history_finish(&history);
    printed_begin();
    report_print(&view);
    report_print_leaks(&view);
    printed_end();
    printed_has("in 1 block that was live when the pool ended");
    printed_has("resized");
    printed_has("2 times");
    printed_has("(no name)");
    printed_has("unknown    unknown");
    printed_has("g with a na");
    printed_has("...");
    printed_has("and 4 blocks from before the first event that is left");
    FILE *to = tmpfile();
    assert_non_null(to);
    assert_true(report_write(&view, to));
    rewind(to);
    written_bytes = fread(written, 1, sizeof written, to);
    fclose(to);
    assert_int_equal(occurrences("\"direction\": null"), 1);
    assert_int_equal(occurrences("\"route\": null"), 1);
    assert_int_equal(occurrences("\"from_bytes\": 0,"), 1);
}

TEST(an_empty_history) {
    struct report_view view = {.history = &history, .input = &input, .terminal = &plain, .top = 3};
    view.against = &nothing;
    history_event(RECORDED_POOL_BEGIN, 1, 0, 0, 0, 1);
    history_event(RECORDED_POOL_BEGIN, 1, 0, 0, 0, 2);
    history_finish(&history);
    printed_begin();
    report_print(&view);
    printed_end();
    printed_has("0.0 %");
    printed_lacks("Live at the peak");
    printed_lacks("Over time");
}

TEST(resizes_may_be_lies) {
    history_event(RECORDED_ALLOC, 1, 1, 100, 1, 1);
    struct recorded event = recorded_of(RECORDED_RESIZE, 1, UINT64_MAX);
    assert_false(history_add(&history, &event));
    assert_string_equal(history.problem, "the live bytes do not fit in 64 bits");
}

/* ------------------------------------------------------------------------- frames */

/* Stacks, the innermost frame first; what they fold to, and what their call site is. */
static const struct {
    const char *frames[3];
    const char *folded, *site;
} traced[] = {
    {{NULL}, "(no stack);no tag", "(no stack)"},
    {{"f+0x1f (main.c:42, m+0x2a3f)", "g+0x2 (main.c:50, m+0x30)"},
     "g (m);f (main.c:42, m)",
     "f+0x1f (main.c:42, m+0x2a3f)"},
    {{"f (m+0x2a3f)"}, "f (m)", "f (m+0x2a3f)"},
    {{"m`f+0x1f"}, "m`f", "m`f+0x1f"},
    {{"m+0x2a"}, "m+0x2a", "m+0x2a"},
    {{"x+0x1 (y)"}, "x+0x1 (y)", "x+0x1 (y)"},
    {{"f", "f+0x1 (m+0x2, x)", "a;b"}, "a:b;f (m);f", "f"},
    {{"k (site-packages/torch/x.py:1)", "own (train.py:5)"},
     "own (train.py:5);k (site-packages/torch/x.py:1)",
     "k (torch/x.py:1), from own (train.py:5)"},
    {{"a (nb.ipynb:1)"}, "a (nb.ipynb:1)", "a (nb.ipynb:1)"},
    {{"b (<ipython-input-1>:1)"}, "b (<ipython-input-1>:1)", "b (<ipython-input-1>:1)"},
    {{"c (/usr/lib/python3/os.py:1)", "n (x.c:1)"},
     "n (x.c:1);c (/usr/lib/python3/os.py:1)",
     "c (/usr/lib/python3/os.py:1)"},
    {{"d (<frozen importlib>.py:2)"}, "d (<frozen importlib>.py:2)", "d (<frozen importlib>.py:2)"},
    {{"e (/x/torch/y.py:3)"}, "e (/x/torch/y.py:3)", "e (/x/torch/y.py:3)"},
    {{"h (dist-packages/z.py:4)"}, "h (dist-packages/z.py:4)", "h (z.py:4)"},
    {{"i (file:12a)", "j (file:7) ", "k (file)"},
     "k (file);j (file:7) ;i (file:12a)",
     "i (file:12a)"},
};
enum { TRACED = sizeof traced / sizeof traced[0] };

static uint32_t frames_of(uint32_t stack, uint64_t *frames, uint32_t capacity) {
    uint32_t count = 0;
    for (; count < 3 && count < capacity && traced[stack].frames[count] != NULL; count++) {
        frames[count] = 10 * stack + count;
    }
    return count;
}

static void frame_describe(uint64_t frame, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", traced[frame / 10].frames[frame % 10]);
}

TEST(frames_are_folded) {
    static const struct vr_trace_stacks stacks = {frames_of, frame_describe};
    static const char *const formats[] = {"folded", "memory_viz", "perfetto", "text"};
    struct vr_trace_writer *trace;
    static struct report_input frames;
    assert_ok(vr_trace_writer_open(path, 0, &stacks, &trace));
    for (uint32_t i = 0; i < TRACED; i++) {
        struct vr_event event = event_of(VR_EVENT_ALLOC, i + 1, 4096);
        char tag[16];
        snprintf(tag, sizeof tag, "%u", i);
        event.tag = i == 0 ? NULL : tag;
        event.stack = i;
        vr_trace_write_event(trace, &event);
    }
    vr_trace_writer_close(trace);
    assert_true(report_input_open(&frames, path));
    assert_true(history_read(&history, &frames, NULL));
    const struct report_view view = {.history = &history, .input = &frames, .terminal = &plain};
    assert_int_equal(history.group_count, TRACED);
    for (uint32_t i = 0; i < TRACED; i++) {
        const struct history_group *group = &history.groups[i];
        char text[512], site[SITE_TEXT_MAX];
        report_stack(&view, group, text, sizeof text);
        site_name(&frames, group, site);
        assert_string_equal(text, traced[i].folded);
        assert_string_equal(site, traced[i].site);
        report_stack(&view, group, text, 6); /* less room than it needs */
        assert_true(strlen(text) < 6);
    }
    report_input_close(&frames);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char to[80];
        snprintf(to, sizeof to, "%s.out", path);
        history_free(&history);
        assert_true(history_begin(&history, "trace"));
        assert_true(open_format(formats[i], to));
        assert_true(report_input_open(&frames, path));
        writer.input = &frames;
        const struct event_sink sink = {block_flow_add, &writer.flow};
        assert_true(history_read(&history, &frames, writer.format->begin != NULL ? &sink : NULL));
        const struct report_view whole = {.history = &history,
                                          .input = &frames,
                                          .terminal = &plain,
                                          .top = TRACED,
                                          .against = &nothing};
        assert_true(report_writer_close(&writer, &whole));
        report_input_close(&frames);
        struct stat about;
        assert_int_equal(stat(to, &about), 0);
        assert_true(about.st_size > 100);
        assert_int_equal(unlink(to), 0);
    }
}

/* A page of several traces ends with the first that cannot be read. */
TEST(pages_of_several_traces) {
    char bad[80];
    struct vr_trace_writer *trace;
    assert_ok(vr_trace_writer_open(trace_path, 0, NULL, &trace));
    write_one(trace, VR_EVENT_ALLOC, 1, 4096);
    vr_trace_writer_close(trace);
    snprintf(bad, sizeof bad, "%s.bad", path);
    assert_ok(vr_trace_writer_open(bad, 0, NULL, &trace));
    for (uint64_t addr = 1; addr <= 128; addr++) { /* more than there can be */
        write_one(trace, VR_EVENT_ALLOC, addr, UINT64_C(1) << 57);
    }
    vr_trace_writer_close(trace);
    for (size_t count = 1; count <= 3; count++) {
        const char *const these[] = {trace_path, bad, trace_path};
        assert_true(open_format("html", path));
        writer.source = trace_path;
        writer.more = these;
        writer.more_count = count;
        assert_int_equal(close_format(false), count == 1);
        if (count > 1) {
            printed_has("the live bytes do not fit in 64 bits");
        }
    }
    assert_int_equal(unlink(bad), 0);
}

/* ------------------------------------------------------------------------- against */

TEST(rules_are_read) {
    static const struct {
        const char *rule;
        bool good;
    } cases[] = {{"peak>64M", true},   {"peak>+2%", true},
                 {"live>0", true},     {"peak", false},
                 {"none>5", false},    {"peak>", false},
                 {"peak>x", false},    {"peak>5%", false},
                 {"peak>+-5%", false}, {"peak>+99999999999%", false},
                 {"allocs>+10", true}, {"peak>+nan%", false}};
    struct against against = {.now = &history, .before = &history};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if ((against_add_rule(&against, cases[i].rule) == NULL) != cases[i].good) {
            fail_msg("%s", cases[i].rule);
        }
    }
    while (against.rule_count < AGAINST_RULES_MAX) {
        assert_null(against_add_rule(&against, "live>0"));
    }
    assert_string_equal(against_add_rule(&against, "live>0"), "there are more than 8 rules");
    against = (struct against){.now = &history};
    assert_non_null(against_add_rule(&against, "peak>+2%"));
    assert_null(against_add_rule(&against, "peak>1"));
    history.peak_bytes = 2;
    assert_int_equal(against_judge(&against), 1);
}

TEST(changes_are_shown) {
    static struct history before;
    struct report_input no_input = {.format = FORMAT_CSV};
    struct against against = {
        .now = &history, .before = &before, .now_input = &input, .before_input = &no_input};
    assert_true(history_begin(&before, "before"));
    history_finish(&before);
    printed_begin();
    against_print(&against, &plain, 5); /* neither has anything */
    printed_end();
    printed_lacks("Changed at the peak");
    struct recorded event = recorded_of(RECORDED_ALLOC, 1, 500);
    assert_true(history_add(&before, &event));
    history_finish(&before);
    history_finish(&history);
    printed_begin();
    against_print(&against, &plain, 5);
    printed_end();
    printed_has("Changed at the peak\n  -       500 B");
    printed_has("-100.00 %");
    assert_true(history_add(&history, &event));
    history_finish(&history);
    printed_begin();
    against_print(&against, &plain, 5);
    printed_end();
    printed_has("+0.00 %");
    printed_lacks("Changed at the peak");
    history_free(&before);
}

/* More sites than are listed, the same change at some of them. */
TEST(changes_are_bounded) {
    static struct history before;
    static char names[50][16];
    struct report_input no_input = {.format = FORMAT_CSV};
    struct against against = {
        .now = &history, .before = &before, .now_input = &input, .before_input = &no_input};
    assert_true(history_begin(&before, "before"));
    for (uint32_t i = 0; i < 50; i++) {
        struct recorded event = recorded_of(RECORDED_ALLOC, i + 1, 100 + 100 * (i * 7 % 10));
        snprintf(names[i], sizeof names[i], "tag %u", i);
        event.tag = names[i];
        event.tag_number = i + 1;
        assert_true(history_add(i % 2 ? &before : &history, &event));
        if (i == 49) { /* one that is the same in both */
            assert_true(history_add(&history, &event));
        }
    }
    history_finish(&before);
    history_finish(&history);
    FILE *to = tmpfile();
    assert_non_null(to);
    struct report_view view = {
        .history = &history, .input = &input, .terminal = &plain, .top = 5, .against = &against};
    assert_true(report_write(&view, to));
    rewind(to);
    written_bytes = fread(written, 1, sizeof written, to);
    fclose(to);
    assert_int_equal(occurrences("\"now_bytes\""), AGAINST_CHANGES_MAX);
    printed_begin();
    against_print(&against, &plain, 5);
    printed_end();
    printed_has("-      1000 B  tag 17\n");
    history_free(&before);
}

EACH_TEST(format_begin, format_end)
