/* SPDX-License-Identifier: Apache-2.0 */
/*
 * against.h: a trace compared with an earlier one, and limits for automatic checks:
 *
 *   peak>+2%     the peak has grown by more than 2 % since the other trace
 *   held>+64M    what pools held at most has grown by more than 64 MiB
 *   live>0       something was live at the end
 */
#ifndef REPORT_AGAINST_H
#define REPORT_AGAINST_H

#include "json_out.h"
#include "sites.h"
#include "terminal.h"

enum { AGAINST_RULES_MAX = 8, AGAINST_CHANGES_MAX = 32 };

enum against_figure {
    FIGURE_PEAK,    /* most bytes live */
    FIGURE_ROUNDED, /* the same with rounding: what PyTorch calls allocated */
    FIGURE_HELD,    /* most bytes that pools held: what PyTorch calls reserved */
    FIGURE_LIVE,    /* bytes live at the end, or when their pool ended */
    FIGURE_ALLOCS,  /* allocations */
    FIGURE_COUNT
};

struct against_rule {
    const char *text; /* as it was given */
    enum against_figure figure;
    bool change, percent; /* by how much it grew; of the other */
    double limit;
    bool broken; /* after against_judge */
};

struct against {
    const struct history *now, *before; /* `before` NULL: no other trace */
    struct report_input *now_input, *before_input;
    struct against_rule rules[AGAINST_RULES_MAX];
    size_t rule_count;
};

/* Reads a rule. NULL: it is good; else what is wrong with it. */
const char *against_add_rule(struct against *against, const char *text);

/* How many rules are broken. */
size_t against_judge(struct against *against);

/* "peak" and so on; its value in a history. */
const char *against_name(enum against_figure figure);
uint64_t against_value(const struct history *history, enum against_figure figure);

/* The comparison and the rules, for people and as fields of a JSON document. */
void against_print(const struct against *against, const struct terminal *terminal, size_t top);
void against_write(const struct against *against, struct json_out *json);

#endif
