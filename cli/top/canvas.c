/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.c: see canvas.h. */
#include "top/canvas.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { TEXT_BYTES = 1024, SIDE_MAX = 2000 };

bool canvas_begin(struct canvas *canvas, int rows, int columns, bool utf8) {
    rows = rows < 1 ? 1 : rows;
    columns = columns < 1 ? 1 : columns > SIDE_MAX ? SIDE_MAX : columns;
    *canvas = (struct canvas){.rows = rows, .columns = columns, .utf8 = utf8};
    canvas->cells = calloc((size_t)rows * (size_t)columns, sizeof *canvas->cells);
    return canvas->cells != NULL;
}

void canvas_end(struct canvas *canvas) {
    free(canvas->cells);
    *canvas = (struct canvas){0};
}

void canvas_put(struct canvas *canvas, int row, int column, enum paint paint, uint32_t character) {
    if (row >= 0 && row < canvas->rows && column >= 0 && column < canvas->columns) {
        struct cell *cell = &canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];
        *cell = (struct cell){.character = character, .paint = (uint8_t)paint};
    }
}

/* The UTF-8 character at *text, which moves on; '?' for what is none. */
static uint32_t character_decode(const char **text) {
    const unsigned char *at = (const unsigned char *)*text;
    int more = at[0] < 0x80 ? 0 : at[0] < 0xc2 ? -1 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    uint32_t code = more <= 0 ? at[0] : at[0] & (0x3fu >> more);
    if (more < 0 || at[0] > 0xf4) {
        *text += 1;
        return '?';
    }
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            *text += i;
            return '?';
        }
        code = code << 6 | (at[i] & 0x3fu);
    }
    *text += 1 + more;
    return code;
}

/* Every character takes one column here: what does not is replaced, so that nothing shifts. */
static uint32_t character_next(const struct canvas *canvas, const char **text) {
    uint32_t code = character_decode(text);
    bool ascii = code >= 0x20 && code < 0x7f;
    bool shown = ascii || (code >= 0xa0 && canvas->utf8 && wcwidth((wchar_t)code) == 1);
    return shown ? code : '?';
}

int text_columns(const char *text) {
    int columns = 0;
    while (*text != 0) {
        (void)character_decode(&text);
        columns++;
    }
    return columns;
}

int canvas_text(struct canvas *canvas, int row, int column, int width, enum paint paint,
                const char *text) {
    for (int left = width; *text != 0 && left > 0; left--) {
        uint32_t code = character_next(canvas, &text);
        canvas_put(canvas, row, column++, paint, left == 1 && *text != 0 ? '~' : code);
    }
    return column;
}

void canvas_right(struct canvas *canvas, int row, int column, int width, enum paint paint,
                  const char *text) {
    int used = text_columns(text);
    canvas_text(canvas, row, column + (used < width ? width - used : 0), width, paint, text);
}

int canvas_print(struct canvas *canvas, int row, int column, enum paint paint, const char *format,
                 ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return canvas_text(canvas, row, column, canvas->columns - column, paint, text);
}

void canvas_paint_row(struct canvas *canvas, int row, enum paint paint) {
    for (int column = 0; column < canvas->columns && row >= 0 && row < canvas->rows; column++) {
        struct cell *cell = &canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];
        cell->paint = (uint8_t)paint;
    }
}

/* ------------------------------------------------------------------------- text */

void character_encode(uint32_t character, char text[5]) {
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--) {
        text[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    text[0] = (char)(marks[bytes == 1 ? 0 : bytes] | character);
    text[bytes] = 0;
}

static const enum style styles[PAINT_COUNT] = {
    [PAINT_BOLD] = STYLE_BOLD, [PAINT_DIM] = STYLE_DIM,       [PAINT_HEAD] = STYLE_BOLD,
    [PAINT_LOW] = STYLE_GOOD,  [PAINT_MEDIUM] = STYLE_ACCENT, [PAINT_HIGH] = STYLE_WARN,
    [PAINT_FULL] = STYLE_BAD,  [PAINT_OTHERS] = STYLE_DIM,
};

/* Cells of one paint together, so that colours are switched rarely. */
static void row_write(const struct cell *cells, int columns, const struct terminal *terminal) {
    char run[TEXT_BYTES];
    size_t used = 0;
    while (columns > 0 && cells[columns - 1].character == 0) {
        columns--;
    }
    for (int i = 0; i < columns; i++) {
        char text[5];
        character_encode(cells[i].character != 0 ? cells[i].character : ' ', text);
        size_t bytes = strlen(text);
        memcpy(run + used, text, bytes + 1);
        used += bytes;
        bool last = i + 1 == columns || cells[i + 1].paint != cells[i].paint;
        if (last || used + 5 > sizeof run) {
            terminal_print(terminal, styles[cells[i].paint], "%s", run);
            used = 0;
        }
    }
    printf("\n");
}

void canvas_write(const struct canvas *canvas, int rows, const struct terminal *terminal) {
    for (int row = 0; row < rows && row < canvas->rows; row++) {
        row_write(canvas->cells + (size_t)row * (size_t)canvas->columns, canvas->columns, terminal);
    }
}
