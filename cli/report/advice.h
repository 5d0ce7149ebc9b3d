/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice.h: what a trace shows that could be better, and the call or option that makes it so. The
 * rules are those of docs/troubleshooting.md, where each has a section of its own.
 */
#ifndef REPORT_ADVICE_H
#define REPORT_ADVICE_H

#include "history.h"

enum { ADVICE_MAX = 14, ADVICE_TEXT_MAX = 320 };

enum advice_weight { ADVICE_NOTE, ADVICE_WARN, ADVICE_BAD };

struct advice {
    const char *name; /* one word, for programs; also the section of the document */
    enum advice_weight weight;
    char found[ADVICE_TEXT_MAX]; /* what is the case, in figures */
    const char *mend;            /* what to do about it */
};

/* All that applies, the heaviest first; how many. */
size_t advice_give(const struct history *history, struct advice list[ADVICE_MAX]);

/* "note", "warn" or "bad". */
const char *advice_weight_name(enum advice_weight weight);

#endif
