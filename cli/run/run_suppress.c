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
        } else if (pattern == end) {
            return true;
        } else if (pattern + 1 == end && *pattern == '$' && *text == 0) {
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
    const char *end = pattern + strcspn(pattern, "\r");
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
        const char *at = line + strspn(line, " \t");
        if (strncmp(at, "leak:", 5) == 0 && at[5] != 0 && line_matches(at + 5, input, group)) {
            return true;
        }
    }
    return false;
}
