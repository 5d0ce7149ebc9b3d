/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate_devices.c: the devices that a model is laid out over: those of the machine, each GPU
 * once however many backends show it, or devices one does not have.
 */
#include "estimate/estimate_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --memory, as often as it is given. */
static int made_up(const struct invocation *invocation, struct estimate_job *job) {
    const char *sizes[REPEATED_MAX];
    size_t count = flag_values(invocation, "memory", sizes);
    if (count > ESTIMATE_DEVICES_MAX) {
        say_error("--memory is given %zu times; at most %d devices are possible", count,
                  ESTIMATE_DEVICES_MAX);
        return EXIT_MISUSE;
    }
    for (size_t i = 0; i < count; i++) {
        vram_status status = vram_size_parse(sizes[i], &job->devices[i].free_bytes);
        if (status != VRAM_OK) {
            say_error("--memory=%s: %s", sizes[i], failure_text(status));
            return EXIT_MISUSE;
        }
        snprintf(job->labels[i], sizeof job->labels[i], "memory:%zu", i);
    }
    job->options.device_count = (uint32_t)count;
    return EXIT_YES;
}

static bool seen_already(const struct survey *survey, const uint32_t *taken, uint32_t count,
                         uint32_t index) {
    for (uint32_t i = 0; i < count; i++) {
        if (vram_device_same(&survey->devices[taken[i]].info, &survey->devices[index].info)) {
            return true;
        }
    }
    return false;
}

/* What may be taken of a device; false where nothing is known. */
static bool room_of(struct estimate_job *job, const struct device_survey *device, uint64_t *room) {
    if (device->free_bytes.known) {
        *room = device->free_bytes.value;
        return true;
    }
    job->free_guessed = job->free_guessed || device->total_bytes.known;
    *room = device->total_bytes.value / 5 * 4;
    return device->total_bytes.known;
}

static void add_device(struct estimate_job *job, const struct device_survey *device) {
    uint32_t at = job->options.device_count;
    char label[DEVICE_LABEL_MAX];
    if (!room_of(job, device, &job->devices[at].free_bytes)) {
        return;
    }
    if (device->info.kind == VRAM_DEVICE_SIMULATED) {
        job->simulated = true;
    } else if (device->info.kind == VRAM_DEVICE_CPU) {
        job->devices[at].overhead_bytes = (vram_value){0, true};
    }
    snprintf(job->labels[at], sizeof job->labels[at], "%s", device_label(&device->info, label));
    snprintf(job->names[at], sizeof job->names[at], "%s", device->info.name);
    job->options.device_count++;
}

/* Real GPUs; simulated ones where the best device is one. The host is no device here: what is left
   over lies there. */
static void add_all(struct estimate_job *job, const struct survey *survey) {
    bool simulated =
        survey->best_known && survey->devices[survey->best].info.kind == VRAM_DEVICE_SIMULATED;
    uint32_t taken[ESTIMATE_DEVICES_MAX] = {0};
    for (uint32_t i = 0; i < survey->device_count; i++) {
        vram_device_kind kind = survey->devices[i].info.kind;
        uint32_t before = job->options.device_count;
        bool wanted = kind == VRAM_DEVICE_GPU || (kind == VRAM_DEVICE_SIMULATED && simulated);
        if (wanted && before < ESTIMATE_DEVICES_MAX && !seen_already(survey, taken, before, i)) {
            taken[before] = i;
            add_device(job, &survey->devices[i]);
        }
    }
}

/* The host is where layers are left over; for the formula, which knows no layers, the last
   device. */
static void look_at_host(struct estimate_job *job, const struct survey *survey, bool chosen) {
    for (uint32_t i = 0; i < survey->device_count; i++) {
        if (strcmp(survey->devices[i].info.backend, "host") == 0) {
            job->options.host_free_bytes = survey->devices[i].free_bytes;
            if (job->path == NULL && !chosen && job->options.device_count < ESTIMATE_DEVICES_MAX) {
                add_device(job, &survey->devices[i]);
            }
        }
    }
}

static int of_machine(const struct invocation *invocation, struct estimate_job *job) {
    struct survey survey;
    uint64_t index = UINT64_MAX;
    vram_status status = survey_take(flag_value(invocation, "backend"), &survey);
    if (status != VRAM_OK) {
        survey_free(&survey);
        return say_failure("cannot list the devices", status);
    }
    int code = EXIT_YES;
    if (!flag_number(invocation, "device", 0, UINT32_MAX, &index)) {
        code = EXIT_MISUSE;
    } else if (index == UINT64_MAX) {
        add_all(job, &survey);
    } else if (index >= survey.device_count) {
        say_error("there is no device %" PRIu64 "; `vram info` lists them", index);
        code = EXIT_MISUSE;
    } else {
        add_device(job, &survey.devices[index]);
    }
    look_at_host(job, &survey, index != UINT64_MAX);
    survey_free(&survey);
    return code;
}

int estimate_devices_find(const struct invocation *invocation, struct estimate_job *job) {
    const char *overhead = flag_value(invocation, "overhead");
    uint64_t bytes = 0;
    if (overhead != NULL && vram_size_parse(overhead, &bytes) != VRAM_OK) {
        say_error("--overhead=%s: %s", overhead, failure_text(VRAM_ERR_INVALID));
        return EXIT_MISUSE;
    }
    int code =
        flag_given(invocation, "memory") ? made_up(invocation, job) : of_machine(invocation, job);
    for (uint32_t i = 0; i < job->options.device_count && overhead != NULL; i++) {
        job->devices[i].overhead_bytes = (vram_value){bytes, true};
    }
    return code;
}
