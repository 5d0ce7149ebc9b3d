/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_python_stack.c: frames of Python code, of structures that this test makes as interpreters
 * do. What interpreters make themselves is in tests/run/python_test.py.
 */
#include "base/os/os.h"
#include "rig/rig.h"
#include "track/frame_name.h"
#include "track/python_stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Structures are cut from one piece; `wall` is a page that cannot be read. */
static _Alignas(16) unsigned char heap[1 << 16];
static size_t used;
static void *wall;

static char code_type, text_type, bytes_type, frame_type, interpreter, other;
static void *thread_state, *latest;
static int locked, finalizing;

static void *state_of_thread(void) {
    return thread_state;
}

static void *first_one(void) {
    return &interpreter;
}

static void *latest_one(void) {
    return latest;
}

static int is_locked(void) {
    return locked;
}

static int is_finalizing(void) {
    return finalizing;
}

static struct vr_python python_make(const char *version) {
    struct vr_python python = {.code_type = (uintptr_t)&code_type,
                               .text_type = (uintptr_t)&text_type,
                               .bytes_type = (uintptr_t)&bytes_type,
                               .frame_type = (uintptr_t)&frame_type,
                               .thread_state = state_of_thread,
                               .interpreter_first = first_one,
                               .interpreter_latest = latest_one,
                               .is_locked = is_locked,
                               .is_finalizing = is_finalizing};
    assert_true(vr_python_layout_of(version, NULL, &python.layout));
    used = 0;
    memset(heap, 0, sizeof heap);
    latest = &interpreter;
    locked = finalizing = 0;
    return python;
}

static unsigned char *make(size_t bytes) {
    unsigned char *made = heap + used;
    used += (bytes + 15) / 16 * 16;
    assert_true(used <= sizeof heap);
    return made;
}

static void put(unsigned char *object, size_t offset, const void *pointer) {
    memcpy(object + offset, &pointer, sizeof pointer);
}

static void put_number(unsigned char *object, size_t offset, int32_t number) {
    memcpy(object + offset, &number, sizeof number);
}

static unsigned char *text_make(const struct vr_python *python, const char *text) {
    size_t bytes = strlen(text);
    unsigned char *object = make(python->layout.text_wide + bytes + 8);
    put(object, 8, &text_type);
    object[16] = (unsigned char)bytes;
    put(object, 24, (void *)-1);
    put_number(object, 32, 1 << 2 | 1 << 5 | 1 << 6);
    memcpy(object + python->layout.text_ascii, text, bytes);
    return object;
}

static unsigned char *bytes_make(const void *data, size_t bytes) {
    unsigned char *object = make(32 + bytes);
    put(object, 8, &bytes_type);
    object[16] = (unsigned char)bytes;
    memcpy(object + 32, data, bytes);
    return object;
}

static unsigned char *code_make(const struct vr_python *python, const char *name, const void *lines,
                                size_t bytes) {
    const struct vr_python_layout *layout = &python->layout;
    unsigned char *code = make(512);
    put(code, 8, &code_type);
    code[16] = 100;
    put(code, layout->code_file, text_make(python, "/file.py"));
    put(code, layout->code_name, text_make(python, name));
    put(code, layout->code_lines, bytes_make(lines, bytes));
    put_number(code, layout->code_first, 10);
    return code;
}

static unsigned char *frame_make(const struct vr_python *python, const unsigned char *code, int at,
                                 const unsigned char *previous) {
    const struct vr_python_layout *layout = &python->layout;
    unsigned char *frame = make(256);
    put(frame, layout->frame_previous, previous);
    put(frame, layout->frame_code, code);
    if (layout->frame_object) {
        put(frame, 8, &frame_type);
        put_number(frame, layout->frame_instruction, at);
    } else {
        put(frame, layout->frame_instruction, code + layout->code_instructions + at);
    }
    return frame;
}

static void thread_make(const struct vr_python *python, const unsigned char *frame) {
    const struct vr_python_layout *layout = &python->layout;
    unsigned char *thread = make(256), *between = make(64);
    put(thread, layout->thread_interpreter, &interpreter);
    put(between, layout->between, frame);
    put(thread, layout->thread_frame, layout->frame_between ? between : frame);
    thread_state = thread;
}

static uint32_t frames_are(const struct vr_python *python, const char *const *wanted) {
    uint64_t frames[8];
    uint32_t count = vr_python_frames(python, frames, 8);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(vr_frame_name(frames[i]), wanted[i]);
    }
    return count;
}

/* Three functions, the outer two of one module, with a call of C between; and one that has not
   begun. Entries of one line, two instructions, each a line further. */
static const unsigned char entries[] = {0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3 | 1, 0, 0,
                                        0x80 | 15 << 3 | 1};
static const char *const three[] = {"inner (/file.py:12)", "outer (/file.py)",
                                    "<module> (/file.py:11)"};

static unsigned char *three_make(const struct vr_python *python) {
    const char *names[] = {"inner", "outer", "<module>"};
    unsigned char *codes[3], *frame;
    for (int i = 0; i < 3; i++) {
        codes[i] = code_make(python, names[i], entries, sizeof entries);
    }
    frame = frame_make(python, codes[2], 2, NULL);
    frame = frame_make(python, codes[1], 8, frame);
    frame = frame_make(python, codes[1], 2, frame);
    frame[python->layout.frame_owner] = 3;
    frame = frame_make(python, codes[0], 4, frame);
    frame = frame_make(python, codes[0], -2, frame);
    thread_make(python, frame);
    return codes[1];
}

static void *frames_of_a_thread(void *user) {
    uint32_t *count = user;
    struct vr_python python = python_make("3.12.1");
    unsigned char *code = three_make(&python);
    for (locked = 1; locked >= 0; locked--) {
        count[locked] = frames_are(&python, three);
    }
    locked = 0;
    put(code, python.layout.code_lines, wall);
    count[2] = frames_are(&python, three);
    return NULL;
}

/* The first walk has the kernel read everything. The first test: later ones would be trusted. */
TEST(unknown_structures_do_no_harm) {
    struct vr_python python = python_make("3.12.1");
    unsigned char *code = three_make(&python);
    put(code, python.layout.code_name, wall);
    assert_int_equal(frames_are(&python, three), 0);
    put(code, 8, wall);
    assert_int_equal(frames_are(&python, three), 0);
    put(code, 8, &text_type);
    assert_int_equal(frames_are(&python, three), 0);
}

TEST(frames_are_named) {
    struct vr_python python = python_make("3.12.1");
    (void)three_make(&python);
    for (int round = 0; round < 3; round++) { /* the first by the kernel */
        assert_int_equal(frames_are(&python, three), 3);
    }
    uint32_t count[3];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, frames_of_a_thread, count), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count[0], 3);
    assert_int_equal(count[1], 3);
    assert_int_equal(count[2], 0); /* another thread ends the interpreter */
}

/* Two instructions of a line, and a function's name whose hash the interpreter makes meanwhile. */
TEST(one_frame_for_each_text) {
    struct vr_python python = python_make("3.12.1");
    unsigned char *code = code_make(&python, "f", entries, sizeof entries), *name;
    uint64_t frames[2], again[2];
    memcpy(&name, code + python.layout.code_name, sizeof name);
    thread_make(&python, frame_make(&python, code, 4, frame_make(&python, code, 6, NULL)));
    assert_int_equal(vr_python_frames(&python, frames, 2), 2);
    assert_true(frames[0] == frames[1]);
    put(name, 24, (void *)77);
    assert_int_equal(vr_python_frames(&python, again, 2), 2);
    assert_memory_equal(frames, again, sizeof frames);
}

/* The interpreter's own code around an __init__ has one entry of lines: none. */
TEST(what_no_traceback_has) {
    static const unsigned char no_line[] = {0x80 | 15 << 3 | 7};
    struct vr_python python = python_make("3.12.1");
    unsigned char *own = code_make(&python, "__init__", no_line, sizeof no_line);
    unsigned char *code = code_make(&python, "f", entries, sizeof entries);
    const char *const one[] = {"f (/file.py:11)"};
    thread_make(&python, frame_make(&python, own, 4, frame_make(&python, code, 2, NULL)));
    assert_int_equal(frames_are(&python, one), 1);
}

/* compile() takes it for a file's name. Its characters lie elsewhere. */
TEST(strings_of_other_classes) {
    struct vr_python python = python_make("3.12.1");
    unsigned char *code = code_make(&python, "f", entries, sizeof entries), *file, *class;
    const char *const one[] = {"f (/another:11)"};
    uint64_t flags = UINT64_C(1) << 28;
    memcpy(&file, code + python.layout.code_file, sizeof file);
    put(file, 8, class = make(256));
    put_number(file, 32, 1 << 2 | 1 << 6);
    put(file, python.layout.text_wide, "/another");
    thread_make(&python, frame_make(&python, code, 2, NULL));
    assert_int_equal(frames_are(&python, one), 0);
    memcpy(class + 168, &flags, sizeof flags);
    assert_int_equal(frames_are(&python, one), 1);
}

/* The same file, function and instruction, in the same place: only the table of lines differs. */
TEST(code_in_the_place_of_other_code) {
    struct vr_python python = python_make("3.12.1");
    (void)three_make(&python);
    assert_int_equal(frames_are(&python, three), 3);
    python = python_make("3.12.1");
    unsigned char *code = three_make(&python), *lines;
    memcpy(&lines, code + python.layout.code_lines, sizeof lines);
    lines[32 + 6] = 0x80 | 12 << 3 | 1;
    const char *others[] = {three[0], "outer (/file.py:14)", three[2]};
    assert_int_equal(frames_are(&python, others), 3);
}

TEST(none_is_better_than_wrong) {
    struct vr_python python = python_make("3.12.1");
    unsigned char *code = three_make(&python);
    void *thread = thread_state;
    finalizing = 1;
    assert_int_equal(frames_are(&python, three), 0);
    finalizing = 0;
    latest = &other;
    assert_int_equal(frames_are(&python, three), 0);
    latest = &interpreter;
    thread_state = NULL;
    assert_int_equal(frames_are(&python, three), 0);
    thread_state = thread;
    put(thread, python.layout.thread_interpreter, &other);
    assert_int_equal(frames_are(&python, three), 0);
    put(thread, python.layout.thread_interpreter, &interpreter);
    assert_int_equal(frames_are(&python, three), 3);
    code[16] = 4; /* the instruction is none of the code's */
    assert_int_equal(frames_are(&python, three), 0);
    code[16] = 100;
    put(code, 8, &bytes_type);
    assert_int_equal(frames_are(&python, three), 0);
}

/* 3.9 and 3.10 have pairs of steps; where the instruction is past the end the last line counts, or
   none. */
TEST(lines_of_older_versions) {
    static const unsigned char steps[] = {4, 1, 4, 2, 0, 128, 4, 1};
    static const struct {
        const char *version;
        int at;
        const char *frame;
    } rows[] = {
        {"3.9.18", 0, "f (/file.py:10)"},  {"3.9.18", 4, "f (/file.py:11)"},
        {"3.9.18", 8, "f (/file.py)"},     {"3.10.13", 0, "f (/file.py:11)"},
        {"3.10.13", 2, "f (/file.py:13)"}, {"3.10.13", 4, "f (/file.py:14)"},
        {"3.10.13", 100, "f (/file.py)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_python python = python_make(rows[i].version);
        vr_frame_names_reset(); /* a process has one version */
        unsigned char *code = code_make(&python, "f", steps, sizeof steps);
        thread_make(&python, frame_make(&python, code, rows[i].at, NULL));
        assert_int_equal(frames_are(&python, &rows[i].frame), 1);
    }
}

/* Tables of any bytes end. */
TEST(any_table_of_lines) {
    static const char *const versions[] = {"3.9.0", "3.10.0", "3.12.0"};
    unsigned char lines[40];
    uint64_t frames[2];
    srand(1);
    for (int round = 0; round < 3000; round++) {
        struct vr_python python = python_make(versions[round % 3]);
        size_t bytes = (size_t)rand() % sizeof lines;
        for (size_t i = 0; i < bytes; i++) {
            lines[i] = (unsigned char)rand();
        }
        unsigned char *code = code_make(&python, "f", lines, bytes);
        thread_make(&python, frame_make(&python, code, rand() % 100, NULL));
        bool own = round % 3 == 2 && bytes == 1; /* see what_no_traceback_has */
        assert_int_equal(vr_python_frames(&python, frames, 2), !own);
        assert_true(own || memcmp(vr_frame_name(frames[0]), "f (/file.py", 11) == 0);
    }
    vr_frame_names_reset();
}

TEST(versions_that_are_known) {
    static const char *const unknown[] = {"2.7.18 (default", "3",           "3.8.18 (x",
                                          "3.15.0 (x",       "3.12.0a1 (x", "3.12.0b4+ (x",
                                          "3.13.0 (x"};
    struct vr_python_layout layout;
    uint64_t table[64] = {0, 0x030D00F0, 0};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(vr_python_layout_of(unknown[i], NULL, &layout));
    }
    memcpy(table, "xdebugpy", 8);
    table[23] = 72;  /* of a thread's frame */
    table[43] = 200; /* of instructions in code */
    assert_true(vr_python_layout_of("3.13.0 (x", table, &layout));
    assert_int_equal(layout.thread_frame, 72);
    assert_int_equal(layout.code_instructions, 200);
    assert_false(vr_python_layout_of("3.14.0 (x", table, &layout));
    table[2] = 1; /* without a global lock */
    assert_false(vr_python_layout_of("3.13.0 (x", table, &layout));
    table[2] = 0;
    table[35] = 5000; /* of a name in code */
    assert_false(vr_python_layout_of("3.13.0 (x", table, &layout));
    table[35] = 0;
    memcpy(table, "another", 8);
    assert_false(vr_python_layout_of("3.13.0 (x", table, &layout));
}

TEST(modules_and_memory) {
    struct vr_module module;
    char bytes[4];
    void *symbol = vr_os_library_symbol(NULL, "ldiv");
    assert_true(vr_os_module_keep(symbol, &module));
    assert_true(module.low <= (uintptr_t)symbol && (uintptr_t)symbol < module.high);
    assert_memory_equal(module.name, "libc.so", 7);
    assert_false(vr_os_module_keep(&module, &module)); /* on the stack */
    char *before = program_invocation_name;
    program_invocation_name = "/bin/another";
    assert_true(vr_os_module_keep(heap, &module)); /* the program */
    program_invocation_name = before;
    assert_non_null(strstr(module.name, "unit"));
    char more[4];
    struct vr_memory_part parts[] = {{(uintptr_t) "abc", bytes, 4}, {(uintptr_t) "def", more, 4}};
    assert_true(vr_os_memory_copy(parts, 2));
    assert_string_equal(bytes, "abc");
    assert_string_equal(more, "def");
    parts[1].from = (uintptr_t)wall;
    assert_false(vr_os_memory_copy(parts, 2));
    assert_false(vr_os_memory_copy(&parts[1], 1));
}

static int begin_file(void) {
    char byte;
    const struct vr_memory_part part = {(uintptr_t) "x", &byte, 1};
    wall = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!vr_os_memory_copy(&part, 1)) {
        puts("the system does not let a process read itself by process_vm_readv");
        skip();
    }
    return wall == MAP_FAILED;
}
WHOLE_FILE(begin_file, NULL)
