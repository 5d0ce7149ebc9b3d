/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suppress.h: what a report of leaks leaves out, by lines "leak:PATTERN" as in LeakSanitizer.
 *
 * Blank lines, lines that start with '#' and blanks around a line are ignored, as is a byte order
 * mark. cli/run/run_suppress.c reads the same files. A pattern matches any part of a text; '*'
 * in it matches anything, '^' at its start and '$' at its end match the ends of the text.
 */
#ifndef VR_SUPPRESS_H
#define VR_SUPPRESS_H

#include "vram/base.h"

/* Whether the pattern of `bytes` bytes matches a part of the text. */
bool vr_suppress_matches(const char *pattern, size_t bytes, const char *text);

/* The lines of a file; text NULL: none. */
struct vr_suppressions {
    char *text;
    uint64_t bad_lines; /* malformed lines, which are ignored */
};

/* "": nothing is suppressed. On failure, with the error set: the file cannot be read. */
vram_status vr_suppressions_read(const char *path, struct vr_suppressions *to);
void vr_suppressions_free(struct vr_suppressions *suppressions);

/* Whether a line has a pattern that matches the text. NULL text: false. */
bool vr_suppressed(const struct vr_suppressions *by, const char *text);

#endif
