/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_callers.c: stacks of every kind of code, beside what the compiler's runtime finds; and rules
 * by tables that no compiler wrote.
 */
#include "base/os/frame_rule.h"
#include "base/os/platform.h"
#include "base/size.h"
#include "rig/rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

enum { CAPACITY = 128, THREADS = 4 };

/* --------------------------------------------------------------- two ways */

struct stacks {
    uint64_t walked[CAPACITY], unwound[CAPACITY], called[CAPACITY];
    uint32_t walked_count, unwound_count, called_count;
    bool whole; /* the walk says so */
};

static _Thread_local struct stacks taken;

static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *unused) {
    uint64_t at = _Unwind_GetIP(context);
    (void)unused;
    if (at && taken.unwound_count < CAPACITY) {
        taken.unwound[taken.unwound_count++] = at;
    }
    return _URC_NO_REASON;
}

/* Both lists begin with the address to which this function returns. */
__attribute__((noinline)) static int stacks_take(void) {
    struct vr_stack_frame frame = {
        .pc = vr_os_plain_address((uintptr_t)__builtin_return_address(0)),
        .sp = (uintptr_t)__builtin_dwarf_cfa(),
        .fp = *(const uintptr_t *)__builtin_frame_address(0),
    };
    memset(&taken, 0, sizeof taken);
    taken.whole = vr_os_frames_walk(&frame, taken.walked, CAPACITY, &taken.walked_count);
    taken.called_count = vr_os_callers(taken.called, CAPACITY);
    (void)_Unwind_Backtrace(frame_note, NULL);
    uint32_t inside = 0;
    while (inside < taken.unwound_count && taken.unwound[inside] != frame.pc) {
        inside++;
    }
    taken.unwound_count -= inside;
    memmove(taken.unwound, taken.unwound + inside, taken.unwound_count * sizeof *taken.unwound);
    return (int)taken.walked_count;
}

/* Whether the walk alone found what the runtime finds. */
static bool walk_agrees(void) {
    return taken.whole && taken.walked_count == taken.unwound_count &&
           memcmp(taken.walked, taken.unwound, taken.walked_count * sizeof *taken.walked) == 0;
}

/* Whether the stack was found, by the walk or by the runtime; its first frame is in this file. */
static bool stack_agrees(void) {
    return taken.called_count == taken.unwound_count + 1 &&
           memcmp(taken.called + 1, taken.unwound, taken.unwound_count * sizeof *taken.called) == 0;
}

static void check_walk(uint32_t least) {
    assert_true(taken.unwound_count >= least);
    assert_true(walk_agrees());
}

TEST(plain_functions) {
    (void)stacks_take();
    check_walk(4);
    assert_true(taken.called_count == taken.walked_count + 1);
}

static int compare_numbers(const void *a, const void *b) {
    int first = *(const int *)a, second = *(const int *)b;
    (void)stacks_take();
    return first < second ? -1 : first > second;
}

TEST(callbacks_of_the_c_library) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], compare_numbers);
    assert_int_equal(numbers[0], 1);
    check_walk(6);
}

__attribute__((noinline)) static int frames_vary(unsigned depth) {
    volatile char *block = __builtin_alloca(depth * 24 + 1);
    block[depth * 24] = 1;
    return (depth ? frames_vary(depth - 1) : stacks_take()) + block[depth * 24];
}

TEST(frames_whose_size_varies) {
    (void)frames_vary(40);
    check_walk(44);
}

/* Compilers compute the frame of such a function from what it saved. */
__attribute__((noinline)) static int frames_aligned(unsigned depth) {
    _Alignas(128) volatile char block[128];
    volatile char *more = __builtin_alloca(depth * 40 + 1);
    block[depth] = more[depth * 40] = 1;
    return (depth ? frames_aligned(depth - 1) : stacks_take()) + block[depth] + more[depth * 40];
}

TEST(frames_that_are_aligned) {
    (void)frames_aligned(12);
    check_walk(16);
}

__attribute__((noinline)) static int frame_large(void) {
    volatile char block[400000];
    block[0] = block[399999] = 1;
    return stacks_take() + block[0] + block[399999];
}

TEST(frames_too_large_for_a_rule) {
    (void)frame_large();
    assert_true(stack_agrees());
}

TEST(more_frames_than_asked_for) {
    uint64_t frames[3];
    assert_int_equal(vr_os_callers(frames, 3), 3);
    assert_int_equal(vr_os_callers(frames, 0), 0);
    (void)frames_vary(CAPACITY);
    assert_true(taken.whole);
    assert_int_equal(taken.walked_count, CAPACITY);
    assert_memory_equal(taken.walked, taken.unwound, 64 * sizeof *taken.walked);
}

/* ----------------------------------------------------------------- signals */

static void signal_handle(int number) {
    (void)number;
    (void)stacks_take();
}

/* The runtime's unwinder, which the walk may need, is loaded at its first use. Programs do not
   ask for stacks in handlers, and ThreadSanitizer says why. */
static void signal_run(int flags) {
#if defined(__SANITIZE_THREAD__)
    skip();
#endif
    struct sigaction action = {.sa_handler = signal_handle, .sa_flags = flags}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

TEST(handlers_of_signals) {
    signal_run(0);
    assert_true(taken.unwound_count >= 6);
    assert_true(stack_agrees());
#if defined(__x86_64__)
    assert_true(walk_agrees());
#endif
}

TEST(handlers_on_another_stack) {
    static char other[1 << 16];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other}, before;
    assert_int_equal(sigaltstack(&stack, &before), 0);
    signal_run(SA_ONSTACK);
    assert_int_equal(sigaltstack(&before, NULL), 0);
    assert_false(taken.whole);
    assert_int_equal(taken.walked_count, 0);
    assert_true(stack_agrees());
}

/* ----------------------------------------------------------------- threads */

static void *thread_run(void *agreed) {
    for (int i = 0; i < 200; i++) {
        (void)frames_vary((unsigned)i % 32);
        *(int *)agreed += walk_agrees();
    }
    return NULL;
}

TEST(threads_at_once) {
    pthread_t threads[THREADS];
    int agreed[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_run, &agreed[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(agreed[i], 200);
    }
}

/* ------------------------------------------------------------ gone modules */

typedef void call_fn(void (*back)(void));

static void module_back(void) {
    (void)stacks_take();
}

/* Both have the same return address, and other frames. They are likely to be loaded in the same
   place, one after the other. */
TEST(modules_come_and_go) {
    uintptr_t places[2];
    bool again = false;
    static const char *const paths[] = {FRAMED_16_PATH, FRAMED_48_PATH};
    for (int i = 0; i < 8; i++) {
        void *module = dlopen(paths[i % 2], RTLD_NOW | RTLD_LOCAL);
        assert_non_null(module);
        void *symbol = dlsym(module, "framed_call");
        assert_non_null(symbol);
        call_fn *call;
        memcpy(&call, &symbol, sizeof call);
        call(module_back);
        assert_int_equal(dlclose(module), 0);
        check_walk(6);
        again = again || (i > 0 && places[1 - i % 2] == (uintptr_t)symbol);
        places[i % 2] = (uintptr_t)symbol;
    }
    if (!again) {
        print_message("every module was loaded in a place of its own\n");
    }
}

/* ------------------------------------------------------------- made tables */

enum { BASE = 0x10000, CODE = 0x400000, CODE_BYTES = 0x1000 };

static struct made {
    uint8_t bytes[512];
    size_t used;
} made;

static void put(const void *bytes, size_t count) {
    assert_true(made.used + count <= sizeof made.bytes);
    memcpy(made.bytes + made.used, bytes, count);
    made.used += count;
}

static void put_number(uint64_t value, size_t bytes) {
    put(&value, bytes); /* little-endian machines */
}

#define PUT(...) put((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static bool made_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    (void)file;
    assert_true(vr_inside(offset, bytes, BASE, made.used));
    memcpy(to, made.bytes + (offset - BASE), bytes);
    return true;
}

struct words {
    size_t count;
    uint8_t bytes[40];
};

#define WORDS(...)                                                                                 \
    {                                                                                              \
        sizeof((const uint8_t[]){__VA_ARGS__}), {                                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* An index, what functions share, and one function with a program. */
static struct vr_frame_table table_make(const struct words *shared, const struct words *program) {
    made.used = 0;
    PUT(1, 0x1b, 0x03, 0x3b);
    put_number(16, 4); /* .eh_frame, not used */
    put_number(1, 4);
    put_number(CODE - BASE, 4);
    size_t entry_at = made.used;
    put_number(0, 4);
    size_t shared_at = made.used;
    put_number(4 + shared->count, 4);
    put_number(0, 4);
    put(shared->bytes, shared->count);
    uint32_t place = (uint32_t)made.used;
    memcpy(made.bytes + entry_at, &place, 4);
    put_number(4 + 8 + 8 + 1 + program->count, 4);
    put_number(made.used - shared_at, 4);
    put_number(CODE, 8);
    put_number(CODE_BYTES, 8);
    PUT(0); /* of the augmentation */
    put(program->bytes, program->count);
    return (struct vr_frame_table){
        .source = {.read = made_read}, .segment = {BASE, made.used}, .index = BASE};
}

enum { SP = VR_FRAME_SP, FP = VR_FRAME_FP, RET = VR_FRAME_RETURN };

/* Version 1, "zR", steps of 1 and -8, absolute addresses; CFA = sp + 8, return address at -8. */
static const struct words standard =
    WORDS(1, 'z', 'R', 0, 1, 0x78, RET, 1, 0x00, 0x0c, SP, 8, 0x80 | RET, 1);

static struct vr_frame_rule rule_at(const struct words *shared, const struct words *program,
                                    uint64_t offset) {
    struct vr_frame_table table = table_make(shared, program);
    return vr_frame_rule_find(&table, CODE + offset);
}

TEST(rows_follow_the_address) {
    /* push fp; sub 0x40, sp; at 0x110 an early return, behind it the body again */
    static const struct words program =
        WORDS(0x41, 0x0e, 16, 0x80 | FP, 2, 0x02, 0x0f, 0x0e, 80, 0x03, 0xf0, 0x00, 0x0a, 0x0e, 16,
              0x04, 0x10, 0, 0, 0, 0x0e, 8, 0xc0 | FP, 0x41, 0x0b);
    static const struct {
        uint32_t offset;
        int16_t cfa, fp;
        bool same;
    } rows[] = {{0, 1, 0, true},       {1, 2, -2, false},      {0xf, 2, -2, false},
                {0x10, 10, -2, false}, {0xff, 10, -2, false},  {0x100, 2, -2, false},
                {0x110, 1, 0, true},   {0x111, 10, -2, false}, {CODE_BYTES - 1, 10, -2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_frame_rule rule = rule_at(&standard, &program, rows[i].offset);
        assert_int_equal(rule.kind, VR_FRAME_STEP);
        assert_int_equal(rule.cfa, rows[i].cfa);
        assert_int_equal(rule.ret, -1);
        assert_int_equal(rule.fp_same, rows[i].same);
        assert_int_equal(rule.fp, rows[i].fp);
    }
    assert_int_equal(rule_at(&standard, &program, CODE_BYTES).kind, VR_FRAME_UNKNOWN);
    assert_int_equal(rule_at(&standard, &program, UINT64_MAX).kind, VR_FRAME_UNKNOWN);
}

static const struct {
    struct words program;
    struct vr_frame_rule rule;
} forms[] = {
    {WORDS(0), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x07, RET), {.kind = VR_FRAME_LAST}},
    {WORDS(0x08, RET), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x09, RET, 3), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x14, RET, 3), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x15, RET, 3), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x05, RET, 2), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -2, .fp_same = true}},
    {WORDS(0x11, RET, 0x7d), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = 3, .fp_same = true}},
    {WORDS(0x06, RET), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x07, FP), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x80 | FP, 3), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp = -3}},
    {WORDS(0x80 | FP, 3, 0x08, FP), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x80 | FP, 3, 0x06, FP), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x80 | 3, 3, 0xc0 | 3), {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x0d, FP),
     {.kind = VR_FRAME_STEP, .from_fp = true, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x0c, FP, 16),
     {.kind = VR_FRAME_STEP, .from_fp = true, .cfa = 2, .ret = -1, .fp_same = true}},
    {WORDS(0x12, FP, 0x7c),
     {.kind = VR_FRAME_STEP, .from_fp = true, .cfa = 4, .ret = -1, .fp_same = true}},
    {WORDS(0x13, 0x7c), {.kind = VR_FRAME_STEP, .cfa = 4, .ret = -1, .fp_same = true}},
    {WORDS(0x2e, 0x80, 1, 0x2d, 0x2c, 0),
     {.kind = VR_FRAME_STEP, .cfa = 1, .ret = -1, .fp_same = true}},
    {WORDS(0x01, CODE & 255, CODE >> 8 & 255, CODE >> 16, 0, 0, 0, 0, 0, 0x0e, 24),
     {.kind = VR_FRAME_STEP, .cfa = 3, .ret = -1, .fp_same = true}},
    {WORDS(0x0c, 3, 16), {.kind = VR_FRAME_UNKNOWN}},            /* of another register */
    {WORDS(0x0e, 20), {.kind = VR_FRAME_UNKNOWN}},               /* not of words */
    {WORDS(0x0e, 0x80, 0x80, 0x10), {.kind = VR_FRAME_UNKNOWN}}, /* 256 KiB */
    {WORDS(0x0e, 0xf8, 0xff, 0x0f),
     {.kind = VR_FRAME_STEP, .cfa = 32767, .ret = -1, .fp_same = true}},
    /* expressions: CFA = *(fp - 8), and the frame pointer at *fp */
    {WORDS(0x0f, 3, 0x70 + FP, 0x78, 0x06, 0x10, FP, 2, 0x70 + FP, 0),
     {.kind = VR_FRAME_STEP,
      .from_fp = true,
      .cfa_stored = true,
      .fp_based = true,
      .cfa = -1,
      .ret = -1}},
    {WORDS(0x0f, 2, 0x70 + SP, 16), {.kind = VR_FRAME_STEP, .cfa = 2, .ret = -1, .fp_same = true}},
    {WORDS(0x10, RET, 2, 0x70 + SP, 8),
     {.kind = VR_FRAME_STEP, .return_based = true, .cfa = 1, .ret = 1, .fp_same = true}},
    {WORDS(0x10, RET, 2, 0x70 + FP, 8), {.kind = VR_FRAME_UNKNOWN}}, /* two bases */
    {WORDS(0x10, RET, 3, 0x70 + SP, 8, 0x06), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 3, 0x70 + SP, 8, 0x22), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 5, 0x70 + SP, 8, 0x06, 0x06, 0x06), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 1, 0x70 + SP, 8), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 2, 0x70 + SP, 0x80, 0x01), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 0), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0f, 90, 0x70 + SP, 8), {.kind = VR_FRAME_UNKNOWN}}, /* past the entry */
    {WORDS(0x16, RET, 2, 0x70 + SP, 8), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x0b), {.kind = VR_FRAME_UNKNOWN}}, /* nothing is remembered */
    {WORDS(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a), {.kind = VR_FRAME_UNKNOWN}},
    {WORDS(0x3f), {.kind = VR_FRAME_UNKNOWN}}, /* no such instruction */
    {WORDS(0x0e), {.kind = VR_FRAME_UNKNOWN}}, /* no operand */
};

TEST(every_form_of_a_rule) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct vr_frame_rule rule = rule_at(&standard, &forms[i].program, 8);
        assert_memory_equal(&rule, &forms[i].rule, sizeof rule);
    }
}

TEST(entries_of_every_form) {
    static const struct words program = WORDS(0x0e, 32);
    static const struct {
        struct words shared;
        uint8_t kind;
    } rows[] = {
        {WORDS(3, 'z', 'R', 0, 1, 0x78, RET, 1, 0, 0x0c, SP, 8, 0x80 | RET, 1), VR_FRAME_STEP},
        {WORDS(1, 'z', 'P', 'L', 'R', 0, 1, 0x78, RET, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0, 0x0c, SP, 8,
               0x80 | RET, 1),
         VR_FRAME_STEP},
        {WORDS(1, 'z', 'R', 'B', 'G', 0, 1, 0x78, RET, 2, 0, 9, 0x0c, SP, 8, 0x80 | RET, 1),
         VR_FRAME_STEP},
        {WORDS(1, 'z', 'R', 0, 1, 0x78, RET, 0, 0, 0x0c, SP, 8, 0x80 | RET, 1), VR_FRAME_UNKNOWN},
        {WORDS(2, 'z', 'R', 0, 1, 0x78, RET, 1, 0, 0x0c, SP, 8, 0x80 | RET, 1), VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'X', 0, 1, 0x78, RET, 1, 0, 0x0c, SP, 8, 0x80 | RET, 1), VR_FRAME_UNKNOWN},
        {WORDS(1, 'e', 'h', 0, 1, 0x78, RET, 1, 0, 0x0c, SP, 8, 0x80 | RET, 1), VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'R', 0, 1, 0x78, 3, 1, 0, 0x0c, SP, 8, 0x80 | 3, 1), VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'R', 0, 1, 0x78, RET, 1, 0x50, 0x0c, SP, 8, 0x80 | RET, 1),
         VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'R', 0, 1, 0x78, RET, 1, 0x05, 0x0c, SP, 8, 0x80 | RET, 1),
         VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'R', 0, 1, 0x78, RET, 1, 0, 0x0c), VR_FRAME_UNKNOWN},
        {WORDS(1, 'z', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 0), VR_FRAME_UNKNOWN},
        {WORDS(1), VR_FRAME_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_frame_rule rule = rule_at(&rows[i].shared, &program, 8);
        assert_int_equal(rule.kind, rows[i].kind);
        assert_int_equal(rule.cfa, rows[i].kind == VR_FRAME_STEP ? 4 : 0);
    }
}
