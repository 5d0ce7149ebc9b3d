/* SPDX-License-Identifier: Apache-2.0 */
/* top_output.h: a machine as JSON (schema vram.top/1) and as CSV, for other programs. */
#ifndef TOP_OUTPUT_H
#define TOP_OUTPUT_H

#include "top/view.h"

/* One JSON document on standard output, processes in the order of the view. False after one line on
   stderr. */
bool top_json(const struct view *view, const struct machine *machine);

/* One line per process; `head`: and the names of the columns before. */
void top_csv(const struct view *view, const struct machine *machine, bool head);

#endif
