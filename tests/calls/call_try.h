/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_try.h: how a row makes the call that it is about: TRY(vram_resize, addr, bytes, queue). An
 * engine may look at everything before and after, have the call fail, make it once more, and pass
 * other arguments; what else a row does, to prepare and to end, runs undisturbed.
 *
 * What may be wrong with an argument follows from its type. FIXED(x) is one that a program cannot
 * get wrong without lying about its own memory, or would wait years for; OR_NULL(x) may be NULL;
 * ANY(x) is a number of which every value means something; of LENGTH(x), of the program's own
 * memory, only those are tried that no memory has.
 */
#ifndef TEST_CALL_TRY_H
#define TEST_CALL_TRY_H

#include "calls/call_structs.h"
#include "vram/vram.h"

#include <stdbool.h>

enum call_argument_kind {
    ARG_OTHER,
    ARG_NUMBER,
    ARG_TEXT,
    ARG_HANDLE,
    ARG_PARTS, /* a handle and numbers, by value */
    ARG_STRUCT /* and more: which */
};

enum { MARK_FIXED = 1, MARK_NULL = 2, MARK_ANY = 4, MARK_LENGTH = 8, MARK_OUTPUT = 16 };
#define FIXED(x)   (call_mark(MARK_FIXED), (x))
#define OR_NULL(x) (call_mark(MARK_NULL), (x))
#define ANY(x)     (call_mark(MARK_ANY), (x))
#define LENGTH(x)  (call_mark(MARK_LENGTH), (x))

/* Arguments that nothing else in the row needs: where the call puts a number or a handle; a struct
   that begins with its size: one that the call reads, without and with fields, and one that it
   writes. */
#define OUT(type)        (&(type){0})
#define PLAIN(type)      (&(type){.size = sizeof(type)})
#define SIZED(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
#define TOLD(type)       (call_mark(MARK_OUTPUT), PLAIN(type))

struct call_argument {
    const char *text; /* as the row has it */
    unsigned left;    /* arguments from here on, with this one */
    int kind;
    unsigned marks;
    size_t bytes;
};

struct call_hooks {
    void (*begin)(void);
    bool (*again)(vram_status status); /* the call is over; true: make it again */
    void (*argument)(void *value, const struct call_argument *argument); /* NULL: none */
};
/* Of the engine that runs; NULL: none. */
extern const struct call_hooks *call_hooks;

void call_mark(unsigned mark);
void *call_argument(void *value, struct call_argument argument);

#define TRY(call, ...)                                                                             \
    __extension__({                                                                                \
        vram_status status_;                                                                       \
        do {                                                                                       \
            call_begins();                                                                         \
        } while (call_is_made_again(status_ = call(ARGUMENTS(__VA_ARGS__))));                      \
        status_;                                                                                   \
    })

/* ------------------------------------------------------------------- of arguments */

/* clang-format off */

/* Numbers are as wide as any, so that each can have a value that its parameter cannot. */
#define NUMBERS(of)                                                                                \
    _Bool:                                                                                         \
    of, char : of,                                                                                 \
               signed char : of,                                                                   \
                             unsigned char : of,                                                   \
                                             short : of,                                           \
                                                     unsigned short : of,                          \
                                                                      int : of,                    \
                                                                            unsigned : of,         \
                                                                                       long        \
        : of,                                                                                      \
          unsigned long : of,                                                                      \
                          long long : of,                                                          \
                                      unsigned long long : of
#define ARG_TYPE(x)                                                                                \
    __typeof__(_Generic((x), NUMBERS((unsigned long long)0), default : ((void)0, (x))))

enum {
#define STRUCT_NUMBER(type, input) STRUCT_##type,
    CALL_STRUCTS(STRUCT_NUMBER) STRUCT_COUNT
};
#define STRUCT_KIND(type, input)                                                                   \
    type * : ARG_STRUCT + STRUCT_##type, const type * : ARG_STRUCT + STRUCT_##type,
#define HANDLE(type) type * : ARG_HANDLE, const type * : ARG_HANDLE,
#define HANDLES                                                                                    \
    HANDLE(vram_context)                                                                           \
    HANDLE(vram_device)                                                                            \
    HANDLE(vram_queue)                                                                             \
    HANDLE(vram_kernel)                                                                            \
    HANDLE(vram_physical)                                                                          \
    HANDLE(vram_stream_set)                                                                        \
    HANDLE(vram_readback)                                                                          \
    HANDLE(vram_feed)                                                                              \
    HANDLE(vram_pool) HANDLE(vram_buffer) HANDLE(vram_scope) HANDLE(vram_batch) HANDLE(vram_named) \
        HANDLE(vram_ring) HANDLE(vram_scheduler) HANDLE(vram_weights) HANDLE(vram_labels)          \
            HANDLE(vram_attachment) HANDLE(vram_watch) HANDLE(vram_monitor) HANDLE(vram_trace)     \
                HANDLE(vram_share) HANDLE(vram_lease)
#define ARG_KIND(x)                                                                                \
    _Generic((x), CALL_STRUCTS(STRUCT_KIND) HANDLES NUMBERS(ARG_NUMBER), const char * : ARG_TEXT,  \
             vram_point : ARG_PARTS, vram_span : ARG_PARTS, default : ARG_OTHER)
#define ARG(x, left)                                                                               \
    (*(ARG_TYPE(x) *)call_argument(                                                                \
        (ARG_TYPE(x)[1]){(x)},                                                                     \
        (struct call_argument){#x, left, ARG_KIND(x), 0, sizeof(ARG_TYPE(x))}))

#define ARGUMENTS_1(a)                               ARG(a, 1)
#define ARGUMENTS_2(a, ...)                          ARG(a, 2), ARGUMENTS_1(__VA_ARGS__)
#define ARGUMENTS_3(a, ...)                          ARG(a, 3), ARGUMENTS_2(__VA_ARGS__)
#define ARGUMENTS_4(a, ...)                          ARG(a, 4), ARGUMENTS_3(__VA_ARGS__)
#define ARGUMENTS_5(a, ...)                          ARG(a, 5), ARGUMENTS_4(__VA_ARGS__)
#define ARGUMENTS_6(a, ...)                          ARG(a, 6), ARGUMENTS_5(__VA_ARGS__)
#define ARGUMENTS_7(a, ...)                          ARG(a, 7), ARGUMENTS_6(__VA_ARGS__)
#define ARGUMENTS_8(a, ...)                          ARG(a, 8), ARGUMENTS_7(__VA_ARGS__)
#define ARGUMENTS_OF(a, b, c, d, e, f, g, h, n, ...) n
#define ARGUMENTS(...)                                                                             \
    ARGUMENTS_OF(__VA_ARGS__, ARGUMENTS_8, ARGUMENTS_7, ARGUMENTS_6, ARGUMENTS_5, ARGUMENTS_4,     \
                 ARGUMENTS_3, ARGUMENTS_2, ARGUMENTS_1, )                                          \
    (__VA_ARGS__)

/* clang-format on */

static inline void call_begins(void) {
    if (call_hooks) {
        call_hooks->begin();
    }
}

static inline bool call_is_made_again(vram_status status) {
    return call_hooks && call_hooks->again(status);
}

#endif
