/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture.h: what each policy held over the time of a trace, side by side: on the terminal, and as
 * SVG.
 */
#ifndef REPLAY_PICTURE_H
#define REPLAY_PICTURE_H

#include "replay/replay_report.h"

/*
 * One picture for each trace: a panel for each policy, all of one scale, with the last pass of
 * each. What the program had asked for is drawn full, what was held beyond it is drawn otherwise.
 */
void picture_print(const struct replay_report *report, const struct terminal *terminal);

/* The same as an SVG file. False after one line on stderr when it could not be written. */
bool picture_write(const struct replay_report *report, const char *path);

/* The panels of a trace: its passes with curves, the last of each policy. Returns how many. */
enum { PICTURE_PANELS_MAX = 8 };
size_t picture_panels(const struct replay_report *report, const struct trace *trace,
                      const struct pass *panels[PICTURE_PANELS_MAX]);

/* What the top of the panels stands for: the most that any of them holds, or was asked for. */
uint64_t picture_top(const struct pass *const *panels, size_t count);

#endif
