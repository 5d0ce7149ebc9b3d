/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.c: see pickle.h.
 */
#include "pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

bool pickle_refuse(struct pickle *pickle, const char *format, ...) {
    va_list arguments;
    if (pickle->problem[0] == 0) { /* the first complaint counts */
        va_start(arguments, format);
        vsnprintf(pickle->problem, sizeof pickle->problem, format, arguments);
        va_end(arguments);
    }
    return false;
}

void pickle_begin(struct pickle *pickle, struct trace_source *source) {
    pickle->source = source;
    pickle->offset = pickle->begin = pickle->end = 0;
    pickle->problem_at = 0;
    pickle->problem[0] = 0;
}

bool pickle_begins(struct trace_source *source) {
    static const char *const heads[] = {"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (trace_source_begins(source, heads[i], 2)) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------- bytes */

static bool refill(struct pickle *pickle) {
    size_t bytes = sizeof pickle->buffer;
    if (!trace_source_read(pickle->source, pickle->buffer, &bytes)) {
        return pickle_refuse(pickle, "%s", pickle->source->problem);
    }
    pickle->begin = 0;
    pickle->end = bytes;
    if (bytes == 0) {
        return pickle_refuse(pickle, "the file ends in the middle: it was not written to its end, "
                                     "or not copied whole");
    }
    return true;
}

static bool next_byte(struct pickle *pickle, uint8_t *byte) {
    if (pickle->begin == pickle->end && !refill(pickle)) {
        return false;
    }
    *byte = pickle->buffer[pickle->begin++];
    pickle->offset++;
    return true;
}

/* Takes `bytes` bytes; the first `kept` of them go to `to`. */
static bool take(struct pickle *pickle, uint64_t bytes, char *to, size_t kept) {
    while (bytes > 0) {
        if (pickle->begin == pickle->end && !refill(pickle)) {
            return false;
        }
        uint64_t there = pickle->end - pickle->begin;
        size_t some = (size_t)(there < bytes ? there : bytes), copied = some < kept ? some : kept;
        if (copied > 0) {
            memcpy(to, pickle->buffer + pickle->begin, copied);
            to += copied;
            kept -= copied;
        }
        pickle->begin += some;
        pickle->offset += some;
        bytes -= some;
    }
    return true;
}

/* Little endian. */
static bool take_number(struct pickle *pickle, unsigned bytes, uint64_t *number) {
    *number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        uint8_t byte;
        if (!next_byte(pickle, &byte)) {
            return false;
        }
        *number |= (uint64_t)byte << (8 * i);
    }
    return true;
}

/* ----------------------------------------------------------------- arguments */

static bool take_text(struct pickle *pickle, unsigned length_bytes, struct pickle_op *op) {
    uint64_t bytes;
    if (!take_number(pickle, length_bytes, &bytes)) {
        return false;
    }
    op->kind = PICKLE_TEXT;
    op->text = pickle->text;
    op->text_bytes = (size_t)(bytes < PICKLE_TEXT_MAX ? bytes : PICKLE_TEXT_MAX);
    return take(pickle, bytes, pickle->text, op->text_bytes);
}

/* A signed number of any length, of which the lower 64 bits count: addresses may need the ninth
   byte for their sign. */
static bool take_long(struct pickle *pickle, unsigned length_bytes, struct pickle_op *op) {
    uint64_t bytes;
    char low[8] = {0};
    if (!take_number(pickle, length_bytes, &bytes)) {
        return false;
    }
    if (bytes > 9) {
        return pickle_refuse(pickle,
                             "a whole number has %" PRIu64 " bytes; a snapshot has none "
                             "above 64 bits",
                             bytes);
    }
    op->kind = PICKLE_NUMBER;
    if (!take(pickle, bytes, low, sizeof low)) {
        return false;
    }
    for (unsigned i = 0; i < 8; i++) {
        op->number |= (uint64_t)(uint8_t)low[i] << (8 * i);
    }
    if (bytes > 0 && bytes < 8 && ((uint8_t)low[bytes - 1] & 0x80) != 0) {
        op->number |= UINT64_MAX << (8 * bytes);
    }
    return true;
}

static bool take_protocol(struct pickle *pickle) {
    uint64_t protocol;
    if (!take_number(pickle, 1, &protocol)) {
        return false;
    }
    if (protocol < 2 || protocol > 5) {
        return pickle_refuse(pickle, "pickle protocol %" PRIu64 " is not one of 2 to 5", protocol);
    }
    return true;
}

/* ---------------------------------------------------------------- operations */

/* What would import, call or build something: never done, whatever it is. */
static bool refuse_call(struct pickle *pickle, uint8_t code) {
    static const struct {
        uint8_t code;
        const char *name;
    } calls[] = {{'c', "GLOBAL"},       {'R', "REDUCE"},     {'b', "BUILD"},  {'i', "INST"},
                 {'o', "OBJ"},          {0x81, "NEWOBJ"},    {0x82, "EXT1"},  {0x83, "EXT2"},
                 {0x84, "EXT4"},        {0x92, "NEWOBJ_EX"}, {'P', "PERSID"}, {'Q', "BINPERSID"},
                 {0x93, "STACK_GLOBAL"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].code == code) {
            return pickle_refuse(pickle,
                                 "the pickle would run code (%s); only plain data is read, "
                                 "as in a memory snapshot",
                                 calls[i].name);
        }
    }
    return pickle_refuse(pickle, "0x%02x is not an operation of plain data in a pickle", code);
}

/* Operations without an argument. False: it is none of them. */
static bool plain_kind(uint8_t code, struct pickle_op *op) {
    static const struct {
        uint8_t kind;   /* PICKLE_NOTHING: none */
        uint8_t number; /* its argument, which the operation itself implies */
    } kinds[256] = {
        ['.'] = {PICKLE_STOP, 0},       ['N'] = {PICKLE_NONE, 0},
        [0x88] = {PICKLE_NUMBER, 1},    [0x89] = {PICKLE_NUMBER, 0},
        ['('] = {PICKLE_MARK, 0},       ['0'] = {PICKLE_POP, 0},
        ['1'] = {PICKLE_POP_MARK, 0},   ['2'] = {PICKLE_DUP, 0},
        [']'] = {PICKLE_EMPTY_LIST, 0}, ['}'] = {PICKLE_EMPTY_DICT, 0},
        [')'] = {PICKLE_TUPLE_OF, 0},   [0x85] = {PICKLE_TUPLE_OF, 1},
        [0x86] = {PICKLE_TUPLE_OF, 2},  [0x87] = {PICKLE_TUPLE_OF, 3},
        ['l'] = {PICKLE_LIST, 0},       ['d'] = {PICKLE_DICT, 0},
        ['t'] = {PICKLE_TUPLE, 0},      ['a'] = {PICKLE_APPEND, 0},
        ['e'] = {PICKLE_APPENDS, 0},    ['s'] = {PICKLE_SETITEM, 0},
        ['u'] = {PICKLE_SETITEMS, 0},   [0x94] = {PICKLE_MEMOIZE, 0},
    };
    op->kind = (enum pickle_kind)kinds[code].kind;
    op->number = kinds[code].number;
    return op->kind != PICKLE_NOTHING;
}

static bool take_argument(struct pickle *pickle, uint8_t code, struct pickle_op *op) {
    switch (code) {
    case 'h': /* BINGET, LONG_BINGET, BINPUT, LONG_BINPUT */
    case 'j':
        op->kind = PICKLE_GET;
        return take_number(pickle, code == 'h' ? 1 : 4, &op->number);
    case 'q':
    case 'r':
        op->kind = PICKLE_PUT;
        return take_number(pickle, code == 'q' ? 1 : 4, &op->number);
    case 'K': /* BININT1, BININT2, BININT */
    case 'M':
        op->kind = PICKLE_NUMBER;
        return take_number(pickle, code == 'K' ? 1 : 2, &op->number);
    case 'J':
        op->kind = PICKLE_NUMBER;
        if (!take_number(pickle, 4, &op->number)) {
            return false;
        }
        op->number = (uint64_t)(int64_t)(int32_t)(uint32_t)op->number;
        return true;
    case 0x8a: /* LONG1, LONG4 */
    case 0x8b:
        return take_long(pickle, code == 0x8a ? 1 : 4, op);
    case 0x8c: /* texts and bytes, with a length of one, four or eight bytes */
    case 'U':
    case 'C':
        return take_text(pickle, 1, op);
    case 'X':
    case 'T':
    case 'B':
        return take_text(pickle, 4, op);
    case 0x8d:
    case 0x8e:
        return take_text(pickle, 8, op);
    case 'G':
        op->kind = PICKLE_FLOAT;
        return take(pickle, 8, NULL, 0);
    case 0x80:
        return take_protocol(pickle);
    case 0x95: /* FRAME: its length is of no use here */
        return take(pickle, 8, NULL, 0);
    default:
        if (!plain_kind(code, op)) {
            return refuse_call(pickle, code);
        }
        return true;
    }
}

bool pickle_next(struct pickle *pickle, struct pickle_op *op) {
    uint8_t code;
    *op = (struct pickle_op){.kind = PICKLE_NOTHING};
    pickle->problem_at = pickle->offset;
    return next_byte(pickle, &code) && take_argument(pickle, code, op);
}
