/* SPDX-License-Identifier: Apache-2.0 */
/* refusal_report.c: see refusal_report.h. */
#include "refusal_report.h"

#include <string.h>

/* A value that may be unknown is written as one more than it is. */
static uint64_t read_known(struct cursor *body) {
    uint64_t value = cursor_number(body);
    return value > 0 ? value - 1 : REFUSAL_NOT_KNOWN;
}

static void read_text(struct cursor *body, char *text, size_t most) {
    uint64_t bytes = cursor_number(body);
    text[0] = 0;
    if (bytes > (uint64_t)(body->end - body->at)) {
        body->cut_short = true;
    }
    if (body->cut_short || body->wrong != NULL) {
        return;
    }
    size_t kept = bytes < most ? (size_t)bytes : most;
    for (size_t i = 0; i < kept; i++) {
        text[i] = body->at[i] != 0 ? (char)body->at[i] : '?';
    }
    text[kept] = 0;
    body->at += bytes;
}

static void read_numbers(struct cursor *body, struct refusal_report *report) {
    uint64_t *const fields[] = {
        &report->asked,    &report->cause,    &report->needed, &report->reserved, &report->live,
        &report->rounding, &report->cached,   &report->unused, &report->largest,  &report->pending,
        &report->pinned,   &report->stranded, &report->process};
    uint64_t *const known[] = {&report->total, &report->free, &report->others, &report->limit};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = cursor_number(body);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        *known[i] = read_known(body);
    }
}

static bool is_read(const struct cursor *body) {
    return !body->cut_short && body->wrong == NULL;
}

static void read_steps(struct cursor *body, struct refusal_report *report) {
    uint64_t count = cursor_number(body);
    for (uint64_t i = 0; i < count && is_read(body); i++) {
        uint64_t step = cursor_number(body);
        struct refusal_step read = {.step = step < UINT32_MAX ? (uint32_t)step : UINT32_MAX};
        read.taken = cursor_number(body);
        read.bytes = cursor_number(body);
        read.ns = cursor_number(body);
        if (report->step_count < REFUSAL_STEPS_MAX) {
            report->steps[report->step_count++] = read;
        }
    }
}

static void read_holders(struct cursor *body, struct refusal_report *report) {
    uint64_t count = cursor_number(body);
    for (uint64_t i = 0; i < count && is_read(body); i++) {
        struct refusal_holder read = {.bytes = cursor_number(body)};
        read.blocks = cursor_number(body);
        read_text(body, read.tag, REFUSAL_TAG_MAX);
        if (report->holder_count < REFUSAL_HOLDERS_MAX) {
            report->holders[report->holder_count++] = read;
        }
    }
}

void refusal_report_read(struct cursor *body, struct refusal_report *report) {
    memset(report, 0, sizeof *report);
    read_numbers(body, report);
    read_steps(body, report);
    read_holders(body, report);
    read_text(body, report->summary, RECORDING_TEXT_MAX);
    read_text(body, report->advice, RECORDING_TEXT_MAX);
    if (is_read(body) && body->at < body->end) { /* earlier versions end here */
        cursor_definition(body, DEFINITION_STACK, &report->stack);
    }
    if (body->cut_short) {
        cursor_refuse(body, "the report of a refusal is too short");
    }
}
