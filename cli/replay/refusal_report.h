/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal_report.h: why a request was refused, as a trace has it (docs/trace-format.md, record
 * 0x41).
 */
#ifndef REPLAY_REFUSAL_REPORT_H
#define REPLAY_REFUSAL_REPORT_H

#include "record_cursor.h"

enum {
    REFUSAL_STEPS_MAX = 16,
    REFUSAL_HOLDERS_MAX = 8,
    REFUSAL_TAG_MAX = 63 /* bytes; longer ones are cut */
};

#define REFUSAL_NOT_KNOWN UINT64_MAX

struct refusal_step {
    uint32_t step;  /* vram_ladder_step, or any other number */
    uint64_t taken; /* times; 0: there was nothing it could do */
    uint64_t bytes; /* that it released or found */
    uint64_t ns;    /* it took */
};

struct refusal_holder {
    uint64_t bytes, blocks;
    char tag[REFUSAL_TAG_MAX + 1]; /* "": none */
};

struct refusal_report {
    uint64_t thread; /* whose request it was */
    uint64_t asked, cause, needed;
    uint64_t reserved, live, rounding, cached, unused, largest, pending, pinned; /* of the pool */
    uint64_t stranded;            /* unused in other pools of the device */
    uint64_t process;             /* of the device, held by the process */
    uint64_t total, free, others; /* of the device; REFUSAL_NOT_KNOWN */
    uint64_t limit;               /* of the pool; the same */
    struct refusal_step steps[REFUSAL_STEPS_MAX];
    struct refusal_holder holders[REFUSAL_HOLDERS_MAX];
    uint32_t step_count, holder_count;
    uint32_t stack; /* of the request, as of any event; 0: not known */
    char summary[RECORDING_TEXT_MAX + 1], advice[RECORDING_TEXT_MAX + 1];
};

/* Reads the body of such a record. What it has more steps or holders of than there is room for is
   passed over. A body that is too short is refused by the cursor. */
void refusal_report_read(struct cursor *body, struct refusal_report *report);

#endif
