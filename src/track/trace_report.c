/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_report.c: see trace_report.h; docs/trace-format.md has the order.
 */
#include "track/trace_report.h"

#include <string.h>

/* One more than the value, so that 0 is "not known". */
static uint64_t known_or_none(vram_value value) {
    return value.known ? value.value + 1 : 0;
}

static uint8_t *put_text(uint8_t *to, const char *text, size_t most) {
    size_t bytes = strnlen(text, most);
    to = vr_trace_number(to, bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

static uint8_t *put_steps(uint8_t *to, const struct vram_oom_report *report) {
    to = vr_trace_number(to, report->step_count);
    for (uint32_t i = 0; i < report->step_count; i++) {
        const struct vram_oom_step *step = &report->steps[i];
        to = vr_trace_number(vr_trace_number(to, (uint64_t)step->step), step->taken);
        to = vr_trace_number(vr_trace_number(to, step->bytes), step->ns);
    }
    return to;
}

static uint8_t *put_holders(uint8_t *to, const struct vram_oom_report *report) {
    to = vr_trace_number(to, report->holder_count);
    for (uint32_t i = 0; i < report->holder_count; i++) {
        const struct vram_oom_holder *holder = &report->holders[i];
        to = vr_trace_number(vr_trace_number(to, holder->bytes), holder->blocks);
        to = put_text(to, holder->tag, sizeof holder->tag - 1);
    }
    return to;
}

uint8_t *vr_trace_report_put(uint8_t *to, const struct vram_oom_report *report) {
    const uint64_t numbers[VR_TRACE_REPORT_NUMBERS] = {
        report->asked_bytes,
        (uint64_t)report->cause,
        report->needed_bytes,
        report->reserved_bytes,
        report->live_bytes,
        report->rounding_bytes,
        report->cached_bytes,
        report->unused_bytes,
        report->largest_bytes,
        report->pending_bytes,
        report->pinned_bytes,
        report->stranded_bytes,
        report->process_bytes,
        known_or_none(report->total_bytes),
        known_or_none(report->free_bytes),
        known_or_none(report->others_bytes),
        known_or_none(report->limit_bytes),
    };
    for (size_t i = 0; i < VR_TRACE_REPORT_NUMBERS; i++) {
        to = vr_trace_number(to, numbers[i]);
    }
    to = put_holders(put_steps(to, report), report);
    to = put_text(to, report->summary, VR_TRACE_TEXT_MAX);
    return put_text(to, report->advice, VR_TRACE_TEXT_MAX);
}
