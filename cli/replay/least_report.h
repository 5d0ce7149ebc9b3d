/* SPDX-License-Identifier: Apache-2.0 */
/*
 * least_report.h: what --least found, as a table for people and as JSON for programs.
 */
#ifndef REPLAY_LEAST_REPORT_H
#define REPLAY_LEAST_REPORT_H

#include "json_out.h"
#include "replay_report.h"

/* One table for each trace, a row for each policy. */
void least_report_print(const struct replay_report *report, const struct terminal *terminal);

/* The array `least` of the schema vram.replay/1. */
void least_report_write(const struct replay_report *report, struct json_out *json);

#endif
