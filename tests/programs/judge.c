/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c: what a call returned against what it may, and the calls as lines of C. */
#include "programs/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* ------------------------------------------------------------------------ text */

/* Sets *value to the operation's field of that name. */
static void field_get(const struct op *op, const char *name, size_t length,
                      unsigned long long *value) {
#define FIELD(field, slots)                                                                        \
    if (length == strlen(#field) && strncmp(name, #field, length) == 0) {                          \
        *value = op->field;                                                                        \
    }
#define OP_NUMBERS(X) X(choice, 0) X(flags, 0) X(bytes, 0) X(offset, 0) X(seed, 0) X(nth, 0)
    OP_FIELDS(FIELD)
    OP_NUMBERS(FIELD)
#undef OP_NUMBERS
#undef FIELD
}

/* Writes the text of a call with the operation's numbers in the place of its fields. */
static void text_expand(struct run *r, const struct op *op, const char *text) {
    char *out = told->text[r->thread];
    size_t *at = &told->text_bytes[r->thread];
    while (*text && *at < TEXT_MAX - 400) {
        if (strncmp(text, "op->", 4) != 0) {
            out[(*at)++] = *text++;
            continue;
        }
        size_t length = strspn(text + 4, "abcdefghijklmnopqrstuvwxyz_");
        unsigned long long value = 0;
        field_get(op, text + 4, length, &value);
        *at += (size_t)sprintf(out + *at, "%llu", value);
        text += 4 + length;
    }
    out[*at] = 0;
}

void say(struct run *r, const char *format, ...) {
    size_t *at = &told->text_bytes[r->thread];
    if (!told->keep_text || *at > TEXT_MAX - 400) {
        return;
    }
    va_list list;
    va_start(list, format);
    *at += (size_t)sprintf(told->text[r->thread] + *at, "    ");
    *at += (size_t)vsnprintf(told->text[r->thread] + *at, 300, format, list);
    *at += (size_t)sprintf(told->text[r->thread] + *at, "\n");
    va_end(list);
}

/* ------------------------------------------------------------------- judgement */

void fail(struct run *r, const char *format, ...) {
    static _Atomic bool failing;
    char text[1500];
    va_list list;
    if (atomic_exchange(&failing, true)) {
        for (;;) {
            pause();
        }
    }
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(told->failure, sizeof told->failure, "%s (%s): %s", r->call ? r->call : "",
             r->op ? kinds[r->op->kind].name : "end", text);
    say(r, "/* %s */", text);
    fflush(NULL);
    _exit(1);
}

void answer(struct run *r, uint64_t number) {
    if (r->portable) {
        r->digest = mix(r->digest ^ number);
    }
}

void call_begin(struct run *r, const struct op *op, const char *text) {
    r->call = text;
    if (told->keep_text) {
        told->text_bytes[r->thread] +=
            (size_t)sprintf(told->text[r->thread] + told->text_bytes[r->thread], "    CALL(");
        text_expand(r, op, text);
        told->text_bytes[r->thread] +=
            (size_t)sprintf(told->text[r->thread] + told->text_bytes[r->thread], ");\n");
    }
    r->began_ns = now_ns();
}

static void names_of(uint64_t allowed, char text[600]) {
    size_t at = 0;
    text[0] = 0;
#define NAME_OF(name, value, words)                                                                \
    if (allowed & BIT(value)) {                                                                    \
        at += (size_t)snprintf(text + at, 600 - at, " VRAM_%s", #name);                            \
    }
    VRAM_STATUS_MAP(NAME_OF)
#undef NAME_OF
}

vram_status call_end(struct run *r, uint64_t allowed, vram_status status) {
    uint64_t seconds = (now_ns() - r->began_ns) / UINT64_C(1000000000);
    char text[600];
    r->calls++;
    allowed |= r->loose ? RACED : 0;
    allowed |= faults_on && !r->strict ? FAULTED : 0;
    if (told->keep_text) {
        size_t *at = &told->text_bytes[r->thread];
        *at +=
            (size_t)sprintf(told->text[r->thread] + *at - 3, ", %s);\n", vram_status_name(status)) -
            3;
    }
    if (!(allowed & BIT(status))) {
        names_of(allowed, text);
        fail(r, "%s, allowed:%s; \"%s\"", vram_status_name(status), text, vram_error_get()->text);
    }
    EXPECT(seconds < settings.seconds, "the call took %llu s", (unsigned long long)seconds);
    answer(r, (uint64_t)(int64_t)status);
    return status;
}
