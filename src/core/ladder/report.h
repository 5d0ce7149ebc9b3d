/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h: the report of a request that failed (vram/oom.h).
 *
 *   report.c         collects what is known at the moment of the failure, and keeps it
 *   report_holder.c  which tags hold memory of the device
 *   report_cause.c   finds the cause, and the setting that would help
 *   report_text.c    the report as text and as JSON
 *
 *  (1) Nothing here allocates memory, and nothing fails: a report is written when memory has run
 *      out. What a driver does not report is unknown.
 *  (2) The calling thread's error record does not change, and no lock is held across a driver call.
 *  (3) A request that succeeds does none of this.
 */
#ifndef VR_REPORT_H
#define VR_REPORT_H

#include "core/ladder/ladder.h"

/* Writes the report of a request that failed with `status`, which is in the error record. No lock
   held. */
void vr_report_write(struct vr_pool *pool, const struct vr_request *request, vram_status status,
                     const struct vr_ladder_run *run);
/* The same for a request that the quota of the tag `full` refused. */
void vr_report_write_quota(struct vr_pool *pool, const struct vr_request *request,
                           vram_status status, struct vr_tag *full);

/* What the process's reports have in common, for the live page. */
enum { VR_REFUSAL_CAUSES = 16, VR_REFUSALS_LAST = 8 };
struct vr_refusal {
    uint64_t number;  /* of the report; 0: none */
    uint64_t date_ns; /* since 1970 */
    uint64_t bytes;   /* requested */
    vram_oom_cause cause;
    vram_status status;
    char pool[VRAM_OOM_NAME_MAX], tag[VRAM_OOM_NAME_MAX];
    char text[256]; /* the summary, truncated */
};
struct vr_refusals {
    uint64_t causes[VR_REFUSAL_CAUSES];       /* how many, by vram_oom_cause */
    struct vr_refusal last[VR_REFUSALS_LAST]; /* report n at (n - 1) % VR_REFUSALS_LAST */
};
/* Copies those of this process; a forked child begins anew. */
void vr_refusals_get(struct vr_refusals *refusals);

/* vr_tag_charge for a request. A refusal is counted and reported, and the error handler may ask for
   a retry. No lock held; quota_charge.c. */
vram_status vr_quota_charge(struct vr_pool *pool, const struct vr_request *request,
                            uint32_t *crossed);

/* What is live in the pools of a device or counts for it (vram/foreign.h), and the charge of the
   failed request, which the accounts of tags include but which is not live. */
struct vr_live {
    const struct vr_device_object *device;
    uint64_t bytes, blocks;
    const struct vr_request *charged; /* NULL: it has no tag, or its charge was refused */
};

/* Lists the tags that hold that memory; report_holder.c. */
void vr_report_holders(struct vram_oom_report *report, const struct vr_live *live);

/* "unknown" if the value is no cause; report_cause.c. */
const char *vr_oom_cause_name(vram_oom_cause cause);

/* Sets cause, summary and advice from the rest of the report; `full` as above, NULL: no quota
   refused the request; report_cause.c. */
void vr_report_judge(struct vram_oom_report *report, const struct vr_pool *pool,
                     const struct vr_tag *full);

#endif
