/* SPDX-License-Identifier: Apache-2.0 */
/* explore_table.h: the table of weakened orders, docs/explore.md. */
#ifndef EXPLORE_TABLE_H
#define EXPLORE_TABLE_H

#include "explore_checker.h"
#include "explore_scenario.h"

/* Why no scenario notices a weakened order. */
struct explore_reason {
    const char *file, *site, *order, *reason;
};
extern const struct explore_reason explore_reasons[]; /* ended by one without a file */

/* Prints it; false: a scenario is violated, or an order is neither noticed nor has a reason. */
bool explore_table_print(const struct scenario *const *parts, unsigned part_count,
                         uint64_t executions_max);

#endif
