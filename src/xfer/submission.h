/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submission.h: one public copy: it enters its queue, submits one route or many, and ends with a
 * handle; strategy.c.
 */
#ifndef VR_SUBMISSION_H
#define VR_SUBMISSION_H

#include "xfer/async_record.h"
#include "xfer/route.h"
#include "xfer/transfer_counts.h"

struct vr_submission {
    struct vr_queue_object *queue; /* entered for work */
    vram_transfer_strategy strategy;
    uint64_t poll_ns, timeout;
    uint64_t result;                /* bytes */
    bool any;                       /* something was submitted, or must be waited for */
    bool parts;                     /* several copies: when one fails, others may be in flight */
    struct vr_transfer_count count; /* all zero: not counted yet */
    bool handle;     /* the caller takes a handle, so a copy may end after the queue's point */
    vram_async made; /* of such a copy; zeros: none */
};

/* Reads the options and enters the queue. After VRAM_OK the caller calls vr_submission_end. */
vram_status vr_submission_begin(vram_queue *handle, const vram_transfer_options *options,
                                struct vr_submission *submission);
/* Leaves the queue. With VRAM_OK so far, makes the handle for `result`, or waits with SYNC. After a
   failure it waits until all submitted work has ended, up to the option wait_timeout. */
vram_status vr_submission_end(struct vr_submission *submission, vram_status status, uint64_t result,
                              vram_async *async);

/* Begins to count it as a transfer of this kind; once. */
void vr_submission_count(struct vr_submission *submission, enum vr_way way,
                         vram_transfer_route route);
/* Submits a route by the strategy; *result is the bytes that it moves. */
vram_status vr_submission_add(struct vr_submission *submission, struct vr_route *route,
                              uint64_t *result);
/* Submits a direct transfer. */
vram_status vr_submission_direct(struct vr_submission *submission, const struct vr_route *route);

#endif
