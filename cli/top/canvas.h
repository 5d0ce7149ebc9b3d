/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canvas.h: a screen in memory. Views draw on it; it then goes to the terminal through ncurses, or
 * to standard output as text. So views know nothing of terminals.
 */
#ifndef CANVAS_H
#define CANVAS_H

#include "terminal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* How a cell looks. */
enum paint {
    PAINT_PLAIN,
    PAINT_BOLD,
    PAINT_DIM,
    PAINT_HEAD,   /* the head of a table */
    PAINT_CHOSEN, /* the selected row */
    PAINT_KEY,    /* the line of keys */
    PAINT_LOW,    /* below the first threshold: green */
    PAINT_MEDIUM, /* from the first: cyan */
    PAINT_HIGH,   /* from the second: yellow */
    PAINT_FULL,   /* from the third: red */
    PAINT_OTHERS, /* what others hold: blue */
    PAINT_COUNT
};

struct cell {
    uint32_t character; /* Unicode; 0: blank */
    uint8_t paint;
};

struct canvas {
    int rows, columns;
    bool utf8; /* more than ASCII may be drawn */
    struct cell *cells;
};

/* A blank canvas. False: out of host memory. */
bool canvas_begin(struct canvas *canvas, int rows, int columns, bool utf8);
void canvas_end(struct canvas *canvas);

/* Characters outside of the canvas are left out. */
void canvas_put(struct canvas *canvas, int row, int column, enum paint paint, uint32_t character);

/*
 * Text of at most `width` columns from there, cut with "~" if it is longer. Returns the column
 * behind it. What is not printable, or not one column wide, becomes '?'.
 */
int canvas_text(struct canvas *canvas, int row, int column, int width, enum paint paint,
                const char *text);
/* The same, ending at the right of those columns. */
void canvas_right(struct canvas *canvas, int row, int column, int width, enum paint paint,
                  const char *text);
int canvas_print(struct canvas *canvas, int row, int column, enum paint paint, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* Gives all cells of a row a paint. */
void canvas_paint_row(struct canvas *canvas, int row, enum paint paint);

/* Columns of a text. */
int text_columns(const char *text);

/* The first `rows` rows as text, with colours if the terminal has them. */
void canvas_write(const struct canvas *canvas, int rows, const struct terminal *terminal);

/* One character as UTF-8, ended. */
void character_encode(uint32_t character, char text[5]);

#endif
