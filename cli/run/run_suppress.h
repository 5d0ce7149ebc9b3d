/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_suppress.h: what `vram run --leaks` leaves out, by lines "leak:PATTERN" as in LeakSanitizer
 * and heaptrack.
 *
 * A pattern matches any part of a frame's text or of the library's name; '*' in it matches
 * anything, '^' at its start and '$' at its end match the ends of the text. Lines for other
 * sanitizers are ignored.
 */
#ifndef RUN_SUPPRESS_H
#define RUN_SUPPRESS_H

#include "report/history.h"

struct run_suppressions {
    char *text; /* lines, each ended by 0; NULL: none */
    size_t bytes;
};

/* False after one line on stderr. */
bool run_suppressions_read(struct run_suppressions *to, const char *path);
void run_suppressions_free(struct run_suppressions *suppressions);

bool run_suppressed(const struct run_suppressions *by, struct report_input *input,
                    const struct history_group *group);

#endif
