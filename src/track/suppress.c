/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suppress.c: reads suppressions and matches patterns. See suppress.h.
 */
#include "track/suppress.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

#define KEY  "leak:"
#define MARK "\xef\xbb\xbf"

enum { FILE_USUAL = 1 << 14, FILE_MOST = 1 << 20 };

/* Whether the pattern matches from the start of the text, or with `anywhere` from any place of it,
   and with `whole` to its end. On a mismatch the part after the last '*' is tried again one byte
   further; a pattern that may begin anywhere has a '*' in front. So the time is that of both
   lengths multiplied, at most. */
static bool pattern_matches(const char *pattern, size_t bytes, const char *text, bool anywhere,
                            bool whole) {
    size_t at = 0, star = 0;
    const char *again = anywhere ? text : NULL;
    while (at < bytes || (whole && *text)) {
        if (at < bytes && pattern[at] == '*') {
            star = ++at;
            again = text;
        } else if (at < bytes && *text && pattern[at] == *text) {
            at++;
            text++;
        } else if (again && *again) {
            at = star;
            text = ++again;
        } else {
            return false;
        }
    }
    return true;
}

bool vr_suppress_matches(const char *pattern, size_t bytes, const char *text) {
    bool first = bytes > 0 && pattern[0] == '^';
    pattern += first;
    bytes -= first;
    bool last = bytes > 0 && pattern[bytes - 1] == '$';
    bytes -= last;
    return pattern_matches(pattern, bytes, text, !first, last);
}

/* Where a line's text begins: behind blanks, and the mark that some editors put before UTF-8. */
static const char *text_of(const char *line) {
    line += strncmp(line, MARK, strlen(MARK)) == 0 ? strlen(MARK) : 0;
    return line + strspn(line, " \t");
}

/* The next line that is not blank or a comment; NULL after the last. */
static const char *next_line(const char **at, size_t *bytes) {
    while (**at) {
        const char *line = text_of(*at);
        size_t length = 0;
        while (line[length] && line[length] != '\n') {
            length++;
        }
        *at = line + length + (line[length] == '\n');
        while (length > 0 && strchr(" \t\r", line[length - 1])) {
            length--;
        }
        if (length > 0 && line[0] != '#') {
            *bytes = length;
            return line;
        }
    }
    return NULL;
}

static bool is_suppression(const char *line, size_t bytes) {
    return bytes > strlen(KEY) && memcmp(line, KEY, strlen(KEY)) == 0;
}

/* Reads a file of fewer than `most` bytes into memory of that size. */
static vram_status file_read(const char *path, size_t most, char **to) {
    size_t bytes = 0;
    char *text = vr_mem_alloc(most + 1, 1, vr_operation());
    vram_status status = text ? vr_os_text_read(path, text, most, &bytes) : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        vr_mem_free(text);
        return status;
    }
    text[bytes] = '\0';
    *to = text;
    return VRAM_OK;
}

vram_status vr_suppressions_read(const char *path, struct vr_suppressions *to) {
    size_t line_bytes;
    char *text = NULL;
    struct vram_error error;
    *to = (struct vr_suppressions){0};
    if (!*path) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = file_read(path, FILE_USUAL, &text); /* the memory is kept */
    if (status == VRAM_ERR_LIMIT) {
        vr_error_restore(&error);
        status = file_read(path, FILE_MOST, &text);
    }
    if (status != VRAM_OK) {
        return status;
    }
    for (const char *at = text, *line; (line = next_line(&at, &line_bytes));) {
        to->bad_lines += !is_suppression(line, line_bytes);
    }
    to->text = text;
    return VRAM_OK;
}

void vr_suppressions_free(struct vr_suppressions *suppressions) {
    vr_mem_free(suppressions->text);
    *suppressions = (struct vr_suppressions){0};
}

bool vr_suppressed(const struct vr_suppressions *by, const char *text) {
    size_t bytes;
    if (!text || !by->text) {
        return false;
    }
    for (const char *at = by->text, *line; (line = next_line(&at, &bytes));) {
        if (is_suppression(line, bytes) &&
            vr_suppress_matches(line + strlen(KEY), bytes - strlen(KEY), text)) {
            return true;
        }
    }
    return false;
}
