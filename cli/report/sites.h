/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sites.h: the line of the program that an allocation comes from. Stacks of PyTorch begin with
 * frames of its allocator and of the interpreter, which all allocations share.
 */
#ifndef REPORT_SITES_H
#define REPORT_SITES_H

#include "history.h"

enum { SITE_TEXT_MAX = 320 };

/* "function (file.py:1)", or what was typed or passed with -c. */
bool site_is_python(const char *frame);

/* The first frame of a stack that is not one of the allocator's own. */
uint32_t site_first_frame(struct report_input *input, uint32_t stack);

/* The frame to show after the frame `last`, when `shown` were: after SITE_NATIVE of them the first
   of Python code, if there is one. */
enum { SITE_NATIVE = 3 };
uint32_t site_next_frame(struct report_input *input, uint32_t stack, uint32_t last, uint32_t shown);

/* Where a group allocates: the innermost frame of a Python file, and where that is another the
   innermost frame of the program's own files that leads to it, as "inner, from own"; else the
   innermost frame that is not the allocator's; its tag if it has no stack. */
void site_name(struct report_input *input, const struct history_group *group,
               char site[SITE_TEXT_MAX]);

/* Groups of one site together. */
struct site {
    char name[SITE_TEXT_MAX];
    uint64_t bytes, blocks;
};

/* The sites that had the most at the peak, or with `end` at the end, `most` at most, and
   how many. False, and none, if host memory ran out. */
bool sites_find(const struct history *history, struct report_input *input, bool end,
                struct site *list, size_t most, size_t *found);

#endif
