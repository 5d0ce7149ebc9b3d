/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_report.h: the report of a request that ran out of memory as the body of a trace's record.
 */
#ifndef VR_TRACE_REPORT_H
#define VR_TRACE_REPORT_H

#include "track/trace_shard.h"
#include "vram/oom.h"

enum {
    VR_TRACE_REPORT_NUMBERS = 17,
    /* Texts, numbers, the counts of two lists, and the number of a stack behind it. */
    VR_TRACE_REPORT_MAX =
        (VR_TRACE_REPORT_NUMBERS + 3 + 4 * VRAM_LADDER_ROOM + 3 * VRAM_OOM_LIST_MAX + 2) *
            VR_TRACE_NUMBER_MAX +
        VRAM_OOM_LIST_MAX * VRAM_OOM_NAME_MAX + 2 * VR_TRACE_TEXT_MAX
};

/* Writes at most VR_TRACE_REPORT_MAX bytes, and returns the end of them. */
uint8_t *vr_trace_report_put(uint8_t *to, const struct vram_oom_report *report);

#endif
