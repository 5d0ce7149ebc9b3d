/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_suppress.c: see run_suppress.h.
 */
#include "run_suppress.h"
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 20 };

/* Where a line's text begins: behind blanks, and the mark that some editors put before UTF-8. */
static const char *text_of(const char *line) {
    static const char mark[] = "\xef\xbb\xbf";
    line += strncmp(line, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
    return line + strspn(line, " \t");
}

/* The end of a line's text: before blanks and the first half of a line break of Windows. */
static const char *end_of(const char *text) {
    const char *end = text + strlen(text);
    while (end > text && strchr(" \t\r", end[-1]) != NULL) {
        end--;
    }
    return end;
}

/* The pattern of a line "leak:PATTERN"; NULL if it has none. */
static const char *pattern_of(const char *line) {
    const char *text = text_of(line);
    return strncmp(text, "leak:", 5) == 0 && end_of(text) > text + 5 ? text + 5 : NULL;
}

/* A line that is misspelt would otherwise be missed only when its leak is reported. */
static void lines_check(const struct run_suppressions *of, const char *path) {
    size_t bad = 0;
    for (const char *line = of->text; line < of->text + of->bytes; line += strlen(line) + 1) {
        const char *text = text_of(line);
        bad += end_of(text) > text && *text != '#' && pattern_of(line) == NULL;
    }
    if (bad > 0) {
        say_warning("--suppressions=%s: %zu line%s not leak:PATTERN and ignored", path, bad,
                    bad == 1 ? " is" : "s are");
    }
}

bool run_suppressions_read(struct run_suppressions *to, const char *path) {
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(FILE_MAX_BYTES + 1) : NULL;
    if (text == NULL) {
        say_error("--suppressions=%s: %s", path, strerror(errno));
        if (file != NULL) {
            fclose(file);
        }
        return false;
    }
    size_t bytes = fread(text, 1, FILE_MAX_BYTES + 1, file);
    bool good = !ferror(file) && bytes <= FILE_MAX_BYTES;
    fclose(file);
    if (!good) {
        say_error("--suppressions=%s: cannot be read, or longer than 1 MiB", path);
        free(text);
        return false;
    }
    text[bytes] = 0;
    for (char *at = text; (at = memchr(at, '\n', (size_t)(text + bytes - at))) != NULL;) {
        *at++ = 0;
    }
    *to = (struct run_suppressions){text, bytes};
    lines_check(to, path);
    return true;
}

void run_suppressions_free(struct run_suppressions *suppressions) {
    free(suppressions->text);
    *suppressions = (struct run_suppressions){NULL, 0};
}

/* Whether the pattern up to `end` matches the text from its start, or from any place of it: then
   there is a '*' in front. On a mismatch only the part after the last '*' is tried again, so the
   time is that of both lengths multiplied, at most. */
static bool matches_from(const char *pattern, const char *end, const char *text, bool anywhere) {
    const char *star = anywhere ? pattern : NULL, *retry = text;
    while (true) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (pattern == end || (pattern + 1 == end && *pattern == '$' && *text == 0)) {
            return true;
        } else if (*text != 0 && *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL && *retry != 0) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
}

static bool pattern_matches(const char *pattern, const char *text) {
    const char *end = end_of(pattern);
    bool first = *pattern == '^';
    return matches_from(pattern + first, end, text, !first);
}

static bool line_matches(const char *pattern, struct report_input *input,
                         const struct history_group *group) {
    const char *frame;
    if (pattern_matches(pattern, group->tag)) {
        return true;
    }
    for (uint32_t i = 0; (frame = report_input_frame(input, group->stack, i)) != NULL; i++) {
        if (pattern_matches(pattern, frame)) {
            return true;
        }
    }
    return false;
}

bool run_suppressed(const struct run_suppressions *by, struct report_input *input,
                    const struct history_group *group) {
    const char *end = by->text != NULL ? by->text + by->bytes : NULL;
    for (const char *line = by->text; line != NULL && line < end; line += strlen(line) + 1) {
        const char *pattern = pattern_of(line);
        if (pattern != NULL && line_matches(pattern, input, group)) {
            return true;
        }
    }
    return false;
}
