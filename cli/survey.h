/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.h: everything that can be learned of the machine's backends and devices, gathered once so
 * that text and JSON show the same.
 */
#ifndef SURVEY_H
#define SURVEY_H

#include <stdbool.h>
#include <vram/vram.h>

struct device_survey {
    vram_device_info info;
    vram_value total_bytes, free_bytes;
    char problem[VRAM_ERROR_TEXT_MAX]; /* why it could not be opened or asked; "" */
};

struct survey {
    uint32_t backend_count, device_count; /* entries of the two arrays */
    bool best_known;
    uint32_t best; /* device to use when the user does not choose */
    vram_backend_info *backends;
    struct device_survey *devices;
};

/*
 * Opens each device for a moment, to ask how much of its memory is free; a device that refuses has
 * its problem noted. A failure of the library itself is returned; survey_free is due either way.
 */
vram_status survey_take(const char *backends, struct survey *survey);
void survey_free(struct survey *survey);

/* "cuda:0". Returns `text`. */
#define DEVICE_LABEL_MAX 32
const char *device_label(const vram_device_info *info, char text[DEVICE_LABEL_MAX]);

/* "8-4-4-4-12" hexadecimal digits. Returns `text`. */
#define UUID_TEXT_MAX 37
const char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_MAX]);

/* Every capability in the order of VRAM_CAP_MAP. */
struct capability {
    uint32_t bit;
    const char *name;
};
extern const struct capability capabilities[];
extern const uint32_t capability_count;

#endif
