/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h: what is said when nothing helped (vram/oom.h).
 *
 *   report.c        gathers what is known at the moment of the failure, and keeps it
 *   report_cause.c  finds the cause, and the knob that would help
 *   report_text.c   for people and for programs
 *
 *  (1) Nothing here allocates or fails: a report is written when memory is what ran out.
 *  (2) The calling thread's error record is left as it was, and no lock is held across a driver call.
 *  (3) A request that succeeds pays nothing for any of it.
 */
#ifndef VR_REPORT_H
#define VR_REPORT_H

#include "core/ladder.h"

/* Writes the report of a request that failed with `status`, which is in the error record. */
void vr_report_write(struct vr_pool *pool, const struct vr_request *request, vram_status status,
                     const struct vr_climb *climb);

/* Fills cause, summary and advice from all the rest; report_cause.c. */
void vr_report_judge(struct vram_oom_report *report, const struct vr_pool *pool);

#endif
