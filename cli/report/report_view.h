/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_view.h: a history as text for people, as JSON (docs/schema/vram.report-1.schema.json) and
 * as collapsed stacks for flame graphs.
 */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "advice.h"
#include "against.h"
#include "sites.h"
#include "terminal.h"

#include <vram/vram.h>

struct report_view {
    const struct history *history;
    struct report_input *input; /* for frames */
    const struct terminal *terminal;
    size_t top;                    /* rows of a table, at most */
    const struct against *against; /* what it is compared with, and rules */
};

/* Figures, what was live at the peak, the timeline and advice. */
void report_print(const struct report_view *view);

/* What was live at the end, or when its pool ended, by tag and stack. */
void report_print_leaks(const struct report_view *view);

/* One line for each tag and stack: frames by semicolons, the outermost first, without offsets in
   functions, and a weight: bytes live at the peak, bytes at the end or when their pool ended, or
   allocations. False: out of host memory. */
enum folded_weight { FOLDED_PEAK, FOLDED_LEAKED, FOLDED_COUNT };
bool report_write_folded(const struct report_view *view, enum folded_weight weight, FILE *to);

/* The same figures as JSON, `leaks` block by block; false: `to` could not take it. */
bool report_write(const struct report_view *view, FILE *to);

/* Parts of it, for a document that is open: the first members up to "refusals", and "advice". */
struct json_out;
void report_write_summary(const struct report_view *view, struct json_out *json);
void report_write_advice(const struct history *history, struct json_out *json);

/* Groups in the order of what they had at the peak, never freed, or allocated in all; those that
   had nothing are left out. ORDER_ALL is the last with those that have only blocks from before the
   first event. Memory of the caller's; NULL: none. *count is how many. */
enum report_order { ORDER_PEAK, ORDER_END, ORDER_CHURN, ORDER_ALL };
const struct history_group **report_order(const struct history *history, enum report_order order,
                                          size_t *count);

/* What a group has in such an order, in bytes. */
uint64_t report_weight(const struct history_group *group, enum report_order order);

/* How many frames a stack has. */
uint32_t report_depth(const struct report_view *view, uint32_t stack);
/* The stacks that had the most, with their frames and share of `whole` bytes. */
void report_print_holders(const struct report_view *view, enum report_order order, uint64_t whole);

/* "outer;inner" of a group's stack, or what stands for one; cut to `bytes`. Returns `text`. */
const char *report_stack(const struct report_view *view, const struct history_group *group,
                         char *text, size_t bytes);

/* The blocks that were never freed, the largest first; as above. */
const struct history_block **report_blocks(const struct history *history, size_t *count);

#endif
