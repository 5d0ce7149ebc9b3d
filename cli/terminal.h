/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.h: how text looks: colours, width, bars, and a progress line on stderr.
 *
 * Everything here writes plain ASCII unless the locale is UTF-8, and plain text unless colours are
 * on. They are on when --color=always, or when --color=auto (the default), stdout is a terminal,
 * TERM is not "dumb" and NO_COLOR is empty; CLICOLOR_FORCE turns them on without a terminal.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct terminal {
    bool color;     /* escape sequences may go to stdout */
    bool progress;  /* stderr is a terminal that can be rewritten */
    bool utf8;      /* the locale's text may hold more than ASCII */
    uint32_t width; /* columns of stdout; 80 when it is no terminal and COLUMNS is not set */
};

enum style {
    STYLE_PLAIN,
    STYLE_BOLD,   /* headings, names */
    STYLE_DIM,    /* what matters least */
    STYLE_GOOD,   /* green: passed, free */
    STYLE_WARN,   /* yellow: skipped, filling up */
    STYLE_BAD,    /* red: failed, full */
    STYLE_ACCENT, /* cyan: numbers, indices */
    STYLE_COUNT
};

/* Decides all fields. `color` is the argument of --color, NULL for auto. */
void terminal_detect(struct terminal *terminal, const char *color);

/*
 * Replaces, in place, what must not reach a terminal by '?': control characters, line breaks among
 * them, broken UTF-8, and all that is not ASCII when the locale is not UTF-8. Names come from
 * drivers and arguments from anywhere.
 */
void text_sanitize(char *text);

/* Appends a piece to a text that has room for `text_bytes`; one that does not fit is left out. */
void text_add(char *text, size_t text_bytes, const char *piece);

/* Prints to stdout in a style; the formatted text is sanitized. */
void terminal_print(const struct terminal *terminal, enum style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, filled with blanks up to `columns` (counted in characters); never cut. */
void terminal_cell(const struct terminal *terminal, enum style style, uint32_t columns,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Columns that UTF-8 text takes, one for each character. */
uint32_t terminal_columns(const char *text);

/*
 * Prints text to stdout that is broken between words to the width; every line but the first starts
 * with `indent` blanks. The cursor is taken to stand in column `indent`. Ends with a line break.
 */
void terminal_wrap(const struct terminal *terminal, enum style style, uint32_t indent,
                   const char *text);

/* A bar of `columns` characters, `part` of `whole` of it full; green, yellow from 75 %, red 90
   %. */
void terminal_bar(const struct terminal *terminal, uint32_t columns, uint64_t part, uint64_t whole);

/* Writes a duration for people: "840 ns", "12.3 us", "4.56 ms", "1.20 s". Returns `text`. */
#define DURATION_TEXT_MAX 24
const char *duration_format(uint64_t ns, char text[DURATION_TEXT_MAX]);

/*
 * Shows "done/total what" with a bar on one line of stderr, over the last one; nothing when stderr
 * is no terminal. End it before anything else is written there or to stdout.
 */
void terminal_progress(const struct terminal *terminal, uint64_t done, uint64_t total,
                       const char *what);
void terminal_progress_end(const struct terminal *terminal);

#endif
