/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.c: see terminal.h.
 */
#include "terminal.h"
#include "environment.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 2048, /* of one formatted text; longer ones are cut */
    WIDTH_DEFAULT = 80,
    WIDTH_LEAST = 40, /* narrower terminals wrap by themselves: nothing useful fits */
    WIDTH_MOST = 1000
};

static const char *const escapes[STYLE_COUNT] = {
    [STYLE_PLAIN] = "",          [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",
    [STYLE_GOOD] = "\033[32m",   [STYLE_WARN] = "\033[33m", [STYLE_BAD] = "\033[31m",
    [STYLE_ACCENT] = "\033[36m",
};
static const char escape_end[] = "\033[0m";

/* ---------------------------------------------------------------- detection */

static bool variable_set(const char *name) {
    const char *value = environment_get(name);
    return value != NULL && value[0] != 0;
}

static bool terminal_is_dumb(void) {
    const char *term = environment_get("TERM");
    return term != NULL && strcmp(term, "dumb") == 0;
}

/* The user's word first, then the user's wishes in the environment, then what stdout is. */
static bool wants_color(const char *color) {
    if (color != NULL && strcmp(color, "auto") != 0) {
        return strcmp(color, "always") == 0;
    }
    if (variable_set("NO_COLOR")) {
        return false;
    }
    const char *force = environment_get("CLICOLOR_FORCE");
    if (force != NULL && force[0] != 0 && strcmp(force, "0") != 0) {
        return true;
    }
    return isatty(STDOUT_FILENO) && !terminal_is_dumb();
}

static uint32_t clamp_width(unsigned long width) {
    return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : (uint32_t)width;
}

/* COLUMNS first: it is how a user, or a test, asks for a width of their own. */
static uint32_t width_of(int descriptor) {
    const char *columns = environment_get("COLUMNS");
    if (columns != NULL && columns[0] >= '1' && columns[0] <= '9') {
        return clamp_width(strtoul(columns, NULL, 10));
    }
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return clamp_width(size.ws_col);
    }
    return WIDTH_DEFAULT;
}

void terminal_detect(struct terminal *terminal, const char *color) {
    terminal->color = wants_color(color);
    terminal->progress = isatty(STDERR_FILENO) && !terminal_is_dumb();
    terminal->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    terminal->width = width_of(STDOUT_FILENO);
}

/* --------------------------------------------------------------------- text */

/*
 * Bytes of the UTF-8 character that `text` starts with; 0 when it is none, an overlong form or a
 * surrogate: what is printed may be read by a program. The control characters U+0080 to U+009F,
 * which some terminals obey, are none either, nor are U+2028 to U+202E and U+2066 to U+2069, which
 * end a line or turn its direction, so that a name would show as another one.
 */
static size_t character_bytes(const unsigned char *text) {
    size_t bytes = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : 3;
    bytes = text[0] >= 0xf5 ? 0 : text[0] >= 0xf0 ? 4 : bytes;
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90)) {
        return 0;
    }
    bool control = text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
    bool turns = text[0] == 0xe2 && ((text[1] == 0x80 && text[2] >= 0xa8 && text[2] <= 0xae) ||
                                     (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9));
    return control || turns ? 0 : bytes;
}

void text_sanitize(char *text) {
    bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    char *to = text;
    for (const char *from = text; *from != 0;) {
        size_t bytes = character_bytes((const unsigned char *)from);
        if (bytes == 1 || (bytes > 1 && utf8)) {
            memmove(to, from, bytes);
            to += bytes;
        } else {
            *to++ = '?';
        }
        from += bytes > 0 ? bytes : 1;
    }
    *to = 0;
}

/* Counts the bytes that begin a character; the others have 10 in their upper bits. */
uint32_t terminal_columns(const char *text) {
    uint32_t columns = 0;
    for (; *text != 0; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}

/* Prints text that is clean already. */
static void print_styled(const struct terminal *terminal, enum style style, const char *text) {
    bool escaped = terminal->color && style != STYLE_PLAIN && text[0] != 0;
    printf("%s%s%s", escaped ? escapes[style] : "", text, escaped ? escape_end : "");
}

static uint32_t print_formatted(const struct terminal *terminal, enum style style,
                                const char *format, va_list arguments) {
    char text[LINE_MAX_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    text_sanitize(text);
    print_styled(terminal, style, text);
    return terminal_columns(text);
}

void text_add(char *text, size_t text_bytes, const char *piece) {
    size_t used = strlen(text), bytes = strlen(piece);
    if (used + bytes < text_bytes) {
        memcpy(text + used, piece, bytes + 1);
    }
}

void terminal_print(const struct terminal *terminal, enum style style, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_formatted(terminal, style, format, arguments);
    va_end(arguments);
}

void terminal_cell(const struct terminal *terminal, enum style style, uint32_t columns,
                   const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    uint32_t used = print_formatted(terminal, style, format, arguments);
    va_end(arguments);
    printf("%*s", used < columns ? (int)(columns - used) : 0, "");
}

/* Bytes of the words from `text` on that fit into `columns`: at least one word. */
static size_t line_bytes(const char *text, uint32_t columns) {
    size_t fitting = strcspn(text, " ");
    for (size_t end = fitting; text[end] != 0;) {
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
        char line[LINE_MAX_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)end, text);
        if (terminal_columns(line) > columns) {
            break;
        }
        fitting = end;
    }
    return fitting;
}

void terminal_wrap(const struct terminal *terminal, enum style style, uint32_t indent,
                   const char *text) {
    uint32_t columns = terminal->width > indent ? terminal->width - indent : 1;
    while (*text != 0) {
        size_t bytes = line_bytes(text, columns);
        terminal_print(terminal, style, "%.*s", (int)bytes, text);
        text += bytes + strspn(text + bytes, " ");
        printf("\n%*s", *text != 0 ? (int)indent : 0, "");
    }
}

/* ------------------------------------------------------------ bars and times */

/* Full columns of a bar: rounded, but a little is never shown as nothing. */
static uint32_t bar_columns(uint32_t columns, uint64_t part, uint64_t whole) {
    if (whole == 0 || part == 0) {
        return 0;
    }
    double share = part >= whole ? 1.0 : (double)part / (double)whole;
    uint32_t full = (uint32_t)(share * columns + 0.5);
    return full > 0 ? full : 1;
}

void terminal_bar(const struct terminal *terminal, uint32_t columns, uint64_t part,
                  uint64_t whole) {
    uint32_t full = bar_columns(columns, part, whole);
    double share = whole > 0 ? (double)part / (double)whole : 0;
    enum style style = share >= 0.90 ? STYLE_BAD : share >= 0.75 ? STYLE_WARN : STYLE_GOOD;
    const char *full_text = terminal->utf8 ? "\xe2\x96\x88" : "#";
    const char *rest_text = terminal->utf8 ? "\xe2\x96\x91" : ".";
    for (uint32_t i = 0; i < columns; i++) {
        if (terminal->color && (i == 0 || i == full)) {
            printf("%s%s", i > 0 ? escape_end : "", escapes[i < full ? style : STYLE_DIM]);
        }
        printf("%s", i < full ? full_text : rest_text);
    }
    printf("%s", terminal->color ? escape_end : "");
}

/* Three digits are all that a person reads; the unit follows the size. */
const char *duration_format(uint64_t ns, char text[DURATION_TEXT_MAX]) {
    static const struct {
        uint64_t ns;
        const char *unit;
    } units[] = {{UINT64_C(1000000000), "s"}, {1000000, "ms"}, {1000, "us"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ns >= units[i].ns) {
            double value = (double)ns / (double)units[i].ns;
            int places = value < 10 ? 2 : value < 100 ? 1 : 0;
            snprintf(text, DURATION_TEXT_MAX, "%.*f %s", places, value, units[i].unit);
            return text;
        }
    }
    snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 " ns", ns);
    return text;
}

/* ----------------------------------------------------------------- progress */

/* Cut to the width by characters, not bytes, and always drawn over the line before. */
void terminal_progress(const struct terminal *terminal, uint64_t done, uint64_t total,
                       const char *what) {
    if (!terminal->progress) {
        return;
    }
    enum { BAR = 20 };
    uint32_t full = bar_columns(BAR, done, total);
    char line[LINE_MAX_BYTES];
    snprintf(line, sizeof line, "[%.*s%.*s] %" PRIu64 "/%" PRIu64 " %s", (int)full,
             "####################", (int)(BAR - full), "....................", done, total, what);
    text_sanitize(line);
    /* One column stays free: a cursor behind the last one would scroll the terminal. */
    uint32_t width = width_of(STDERR_FILENO) - 1;
    size_t bytes = 0;
    for (uint32_t column = 0; column < width && line[bytes] != 0; column++) {
        bytes += character_bytes((const unsigned char *)line + bytes);
    }
    fflush(stdout);
    fprintf(stderr, "\r%.*s\033[K", (int)bytes, line);
    fflush(stderr);
}

void terminal_progress_end(const struct terminal *terminal) {
    if (terminal->progress) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
