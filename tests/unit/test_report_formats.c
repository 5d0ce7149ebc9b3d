/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report_formats.c: what reports and traces in other tools' formats make of texts that are not
 * UTF-8, and of the frames of stacks. tests/golden/formats_test.py has the formats themselves.
 */
#include "report/proto_writer.h"
#include "report/report_view.h"
#include "report/sites.h"
#include "report/utf8_text.h"
#include "unit/trace_world.h"

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
    struct vr_trace_writer *trace;
    static struct report_input frames;
    static struct history history;
    static const struct terminal plain = {.width = 100};
    assert_true(history_begin(&history, "trace"));
    assert_ok(vr_trace_writer_open(trace_path, 0, &stacks, &trace));
    for (uint32_t i = 0; i < TRACED; i++) {
        struct vr_event event = event_of(VR_EVENT_ALLOC, i + 1, 4096);
        char tag[16];
        snprintf(tag, sizeof tag, "%u", i);
        event.tag = i == 0 ? NULL : tag;
        event.stack = i;
        vr_trace_write_event(trace, &event);
    }
    vr_trace_writer_close(trace);
    assert_true(report_input_open(&frames, trace_path));
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
    history_free(&history);
}

EACH_TEST(trace_world_begin, trace_world_end)
