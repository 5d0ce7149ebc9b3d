/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle.h: the operations of a Python pickle, protocols 2 to 5, one at a time.
 *
 * Only operations on plain data are accepted: dictionaries, lists, tuples, texts and numbers. What
 * would import a name or call a function is refused, so that reading a file runs nothing. Memory is
 * bounded: a text longer than PICKLE_TEXT_MAX is cut, and the rest of it skipped.
 */
#ifndef FORMATS_PICKLE_H
#define FORMATS_PICKLE_H

#include "replay/trace_source.h"

enum { PICKLE_TEXT_MAX = 1024, PICKLE_PROBLEM_MAX = 160 };

enum pickle_kind {
    PICKLE_NOTHING, /* PROTO and FRAME */
    PICKLE_STOP,
    PICKLE_NUMBER, /* a whole number or a truth value: `number`, in two's complement */
    PICKLE_FLOAT,
    PICKLE_NONE,
    PICKLE_TEXT, /* `text` */
    PICKLE_MARK,
    PICKLE_POP,
    PICKLE_POP_MARK,
    PICKLE_DUP,
    PICKLE_EMPTY_LIST,
    PICKLE_EMPTY_DICT,
    PICKLE_LIST, /* of what is behind the mark; the two that follow too */
    PICKLE_DICT,
    PICKLE_TUPLE,
    PICKLE_TUPLE_OF, /* `number` values */
    PICKLE_APPEND,   /* one value, or what is behind the mark; the three that follow too */
    PICKLE_APPENDS,
    PICKLE_SETITEM,
    PICKLE_SETITEMS,
    PICKLE_PUT,     /* into the memo at `number` */
    PICKLE_MEMOIZE, /* into the memo behind the last */
    PICKLE_GET      /* from the memo at `number` */
};

struct pickle_op {
    enum pickle_kind kind;
    uint64_t number;
    const char *text; /* valid until the next operation */
    size_t text_bytes;
};

struct pickle {
    struct trace_source *source;
    uint64_t offset; /* of the next byte in the file */
    size_t begin, end;
    uint8_t buffer[SOURCE_PIECE_BYTES];
    char text[PICKLE_TEXT_MAX];
    uint64_t problem_at; /* offset of the operation that is wrong */
    char problem[PICKLE_PROBLEM_MAX];
};

/* The source stays the caller's. */
void pickle_begin(struct pickle *pickle, struct trace_source *source);

/* The next operation. False with the problem set, at the end of the file too. */
bool pickle_next(struct pickle *pickle, struct pickle_op *op);

/* Says what is wrong with the last operation. Always false. */
bool pickle_refuse(struct pickle *pickle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether a file begins as a pickle of these protocols. */
bool pickle_begins(struct trace_source *source);

#endif
