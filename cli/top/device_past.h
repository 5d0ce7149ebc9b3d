/* SPDX-License-Identifier: Apache-2.0 */
/* device_past.h: how full each device was at the last samples, for the plot. */
#ifndef DEVICE_PAST_H
#define DEVICE_PAST_H

#include "top/top_machine.h"

enum { HISTORY_SAMPLES = 512, HISTORY_DEVICES = 64, HISTORY_UNKNOWN = UINT16_MAX };

struct device_past {
    char label[LABEL_BYTES]; /* "": free */
    uint64_t owner;
    uint16_t thousandths[HISTORY_SAMPLES]; /* a ring; HISTORY_UNKNOWN */
};

struct past {
    struct device_past devices[HISTORY_DEVICES];
    uint64_t samples; /* taken so far; the last is at (samples - 1) % HISTORY_SAMPLES */
};

/* Adds a sample of every device. A device that is gone keeps its samples until its place is
   needed. */
void past_add(struct past *past, const struct machine *machine);

/* The sample `ago` before the last, 0: the last; HISTORY_UNKNOWN: there is none. */
uint16_t past_sample(const struct past *past, const struct machine_device *device, uint64_t ago);

#endif
