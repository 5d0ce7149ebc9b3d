/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h: what is said when nothing helped (vram/oom.h).
 *
 *   report.c         gathers what is known at the moment of the failure, and keeps it
 *   report_holder.c  who holds memory of the device
 *   report_cause.c   finds the cause, and the knob that would help
 *   report_text.c    for people and for programs
 *
 *  (1) Nothing here needs memory, and nothing fails: a report is written when memory is what ran
 *      out. What a driver does not tell, for want of memory or otherwise, is unknown.
 *  (2) The calling thread's error record is left as it was, and no lock is held across a driver
 *      call.
 *  (3) A request that succeeds pays nothing for any of it.
 */
#ifndef VR_REPORT_H
#define VR_REPORT_H

#include "core/ladder/ladder.h"

/* Writes the report of a request that failed with `status`, which is in the error record. No lock
   held. */
void vr_report_write(struct vr_pool *pool, const struct vr_request *request, vram_status status,
                     const struct vr_ladder_run *run);
/* The same of one that the quota of the tag `full` refused. */
void vr_report_write_quota(struct vr_pool *pool, const struct vr_request *request,
                           vram_status status, struct vr_tag *full);

/* vr_tag_charge for a request, counted; a refusal is told in a report, and to the error handler,
   which may have it tried again. No lock held; quota_charge.c. */
vram_status vr_quota_charge(struct vr_pool *pool, const struct vr_request *request,
                            uint32_t *crossed);

/* What is live in the pools of a device, or counts for it (vram/foreign.h), and what of the tags'
   account is not: the charge of the request that failed. */
struct vr_live {
    const struct vr_device_object *device;
    uint64_t bytes, blocks;
    const struct vr_request *charged; /* NULL: it has no tag, or its charge was refused */
};

/* Lists who holds that; report_holder.c. */
void vr_report_holders(struct vram_oom_report *report, const struct vr_live *live);

/* "unknown" for what is none; report_cause.c. */
const char *vr_oom_cause_name(vram_oom_cause cause);

/* Fills cause, summary and advice from all the rest; `full` as above, NULL: no quota was in the
   way; report_cause.c. */
void vr_report_judge(struct vram_oom_report *report, const struct vr_pool *pool,
                     const struct vr_tag *full);

#endif
