/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.c: see survey.h.
 */
#include "survey.h"
#include "output.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct capability capabilities[] = {
#define CAPABILITY(NAME, bit, name, text) {VRAM_CAP_##NAME, name},
    VRAM_CAP_MAP(CAPABILITY)
#undef CAPABILITY
};
const uint32_t capability_count = sizeof capabilities / sizeof capabilities[0];

const char *device_label(const vram_device_info *info, char text[DEVICE_LABEL_MAX]) {
    snprintf(text, DEVICE_LABEL_MAX, "%s:%" PRIu32, info->backend, info->backend_index);
    return text;
}

const char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_MAX]) {
    char *to = text;
    for (int i = 0; i < 16; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        to += snprintf(to, 4, "%s%02x", dash ? "-" : "", uuid[i]);
    }
    return text;
}

/* What only an open device tells. Its total wins: the driver may keep a part for itself. */
static void ask_device(vram_context *context, uint32_t index, struct device_survey *device) {
    vram_device *opened = NULL;
    vram_memory_info memory = {.size = sizeof memory};
    device->total_bytes = device->info.memory_bytes;
    vram_status status = vram_device_open(context, index, &opened);
    if (status == VRAM_OK) {
        status = vram_memory_info_get(opened, &memory);
    }
    if (status != VRAM_OK) {
        snprintf(device->problem, sizeof device->problem, "%s", failure_text(status));
    } else {
        device->free_bytes = memory.free_bytes;
        device->total_bytes = memory.total_bytes.known ? memory.total_bytes : device->total_bytes;
    }
    vram_device_close(opened);
}

/* One entry more is asked for than needed, so that no backend at all is not an empty request. */
static vram_status take_backends(vram_context *context, struct survey *survey) {
    uint32_t count = vram_backend_count(context);
    survey->backends = calloc(count + (size_t)1, sizeof *survey->backends);
    if (survey->backends == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        survey->backends[i].size = sizeof survey->backends[i];
        vram_status status = vram_backend_info_get(context, i, &survey->backends[i]);
        if (status != VRAM_OK) {
            return status;
        }
        survey->backend_count++;
    }
    return VRAM_OK;
}

static vram_status take_devices(vram_context *context, struct survey *survey) {
    uint32_t count = vram_device_count(context);
    survey->devices = calloc(count + (size_t)1, sizeof *survey->devices);
    if (survey->devices == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct device_survey *device = &survey->devices[i];
        device->info.size = sizeof device->info;
        vram_status status = vram_device_info_get(context, i, &device->info);
        if (status != VRAM_OK) {
            return status;
        }
        ask_device(context, i, device);
        survey->device_count++;
    }
    survey->best_known = vram_device_best(context, &survey->best) == VRAM_OK;
    return VRAM_OK;
}

vram_status survey_take(const char *backends, struct survey *survey) {
    memset(survey, 0, sizeof *survey);
    vram_context *context;
    vram_status status = target_context(backends, &context);
    if (status != VRAM_OK) {
        return status;
    }
    status = take_backends(context, survey);
    if (status == VRAM_OK) {
        status = take_devices(context, survey);
    }
    vram_context_destroy(context);
    return status;
}

void survey_free(struct survey *survey) {
    free(survey->backends);
    free(survey->devices);
    memset(survey, 0, sizeof *survey);
}
