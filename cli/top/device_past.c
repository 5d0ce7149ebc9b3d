/* SPDX-License-Identifier: Apache-2.0 */
/* device_past.c: see device_past.h. */
#include "top/device_past.h"

#include <string.h>

static bool is_of(const struct device_past *past, const struct machine_device *device) {
    return past->owner == device->owner && strcmp(past->label, device->label) == 0;
}

static struct device_past *past_of(struct past *past, const struct machine_device *device) {
    for (size_t i = 0; i < HISTORY_DEVICES; i++) {
        if (is_of(&past->devices[i], device)) {
            return &past->devices[i];
        }
    }
    return NULL;
}

/* A place that no device of the machine has. */
static struct device_past *past_new(struct past *past, const struct machine *machine,
                                    const struct machine_device *device) {
    struct device_past *free_place = NULL;
    for (size_t i = 0; i < HISTORY_DEVICES && free_place == NULL; i++) {
        bool taken = false;
        for (uint32_t j = 0; j < machine->device_count && !taken; j++) {
            taken = is_of(&past->devices[i], &machine->devices[j]);
        }
        free_place = taken ? NULL : &past->devices[i];
    }
    if (free_place != NULL) {
        memcpy(free_place->label, device->label, sizeof free_place->label);
        free_place->owner = device->owner;
        memset(free_place->thousandths, 0xff, sizeof free_place->thousandths);
    }
    return free_place;
}

static uint16_t sample_of(const struct machine_device *device) {
    uint64_t used = machine_used(device);
    return used == UNKNOWN || device->total_bytes == 0
               ? (uint16_t)HISTORY_UNKNOWN
               : (uint16_t)((double)used / (double)device->total_bytes * 1000.0 + 0.5);
}

void past_add(struct past *past, const struct machine *machine) {
    uint64_t at = past->samples++ % HISTORY_SAMPLES;
    for (size_t i = 0; i < HISTORY_DEVICES; i++) {
        past->devices[i].thousandths[at] = HISTORY_UNKNOWN;
    }
    for (uint32_t i = 0; i < machine->device_count; i++) {
        const struct machine_device *device = &machine->devices[i];
        struct device_past *place = past_of(past, device);
        place = place != NULL ? place : past_new(past, machine, device);
        if (place != NULL) {
            place->thousandths[at] = sample_of(device);
        }
    }
}

uint16_t past_sample(const struct past *past, const struct machine_device *device, uint64_t ago) {
    if (ago >= past->samples || ago >= HISTORY_SAMPLES) {
        return HISTORY_UNKNOWN;
    }
    for (size_t i = 0; i < HISTORY_DEVICES; i++) {
        if (is_of(&past->devices[i], device)) {
            return past->devices[i].thousandths[(past->samples - 1 - ago) % HISTORY_SAMPLES];
        }
    }
    return HISTORY_UNKNOWN;
}
