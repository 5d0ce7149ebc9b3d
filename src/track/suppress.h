/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suppress.h: what a report of leaks leaves out, by lines "leak:PATTERN" as LeakSanitizer has them.
 *
 * Blank lines and those that start with '#' say nothing. A pattern is a part of the text it is held
 * against; '*' in it stands for anything, '^' at its start and '$' at its end for the ends.
 */
#ifndef VR_SUPPRESS_H
#define VR_SUPPRESS_H

#include "vram/base.h"

/* Whether the pattern of `bytes` bytes is in the text. */
bool vr_suppress_matches(const char *pattern, size_t bytes, const char *text);

/* The lines of a file; text NULL: none. */
struct vr_suppressions {
    char *text;
    uint64_t bad_lines; /* that are no suppressions, and do nothing */
};

/* "": nothing is left out. Not OK with the error set: the file cannot be read. */
vram_status vr_suppressions_read(const char *path, struct vr_suppressions *to);
void vr_suppressions_free(struct vr_suppressions *suppressions);

/* Whether a line of them has a pattern that is in the text. NULL text: none has. */
bool vr_suppressed(const struct vr_suppressions *by, const char *text);

#endif
