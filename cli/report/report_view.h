/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_view.h: a history as text for people, as JSON (docs/schema/vram.report-1.schema.json) and
 * as collapsed stacks for flame graphs.
 */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "advice.h"
#include "terminal.h"

#include <vram/vram.h>

struct report_view {
    const struct history *history;
    struct report_input *input; /* for frames */
    const struct terminal *terminal;
    size_t top; /* rows of a table, at most */
};

/* Figures, what was live at the peak, the timeline and advice. */
void report_print(const struct report_view *view);

/* What was live at the end, or when its pool ended, by tag and stack. */
void report_print_leaks(const struct report_view *view);

/* One line for each tag and stack: frames by semicolons, the outermost first, without offsets in
   functions, and bytes live at the peak or, for leaks, at the end or when their pool ended. False:
   out of host memory. */
bool report_print_stacks(const struct report_view *view, bool leaks);

/* The same figures as JSON, `leaks` block by block; false: stdout could not take it. */
bool report_write(const struct report_view *view);

/* Groups in the order of what they had at the peak, never freed, or allocated in all; those that
   had nothing are left out. Memory of the caller's; NULL: none. *count is how many. */
enum report_order { ORDER_PEAK, ORDER_END, ORDER_CHURN };
const struct history_group **report_order(const struct history *history, enum report_order order,
                                          size_t *count);

/* "outer;inner" of a group's stack, or what stands for one; cut to `bytes`. Returns `text`. */
const char *report_stack(const struct report_view *view, const struct history_group *group,
                         char *text, size_t bytes);

/* The blocks that were never freed, the largest first; as above. */
const struct history_block **report_blocks(const struct history *history, size_t *count);

#endif
