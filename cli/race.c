/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.c: see race.h. Each racer is what a program would write. The last one is a readback with two
 * slots: the device computes a frame while the one before is copied and the host works on the one
 * before that.
 */
#include "race.h"

#include "output.h"

#include <stdio.h>
#include <string.h>

enum { BYTES_PER_NS = 50 }; /* that several threads add up, on the clock of a simulation */

/* ---------------------------------------------------------------------- frame */

/* The device's work: every number of frame i is i + 1. */
static vram_status make_frame(const struct race *race, uint32_t i) {
    return vram_queue_fill(race->queue, race->source, i + 1, 4, race->bytes);
}

/* The host's work: adds the frame up, which also shows that it is whole. */
static vram_status use_frame(const struct race *race, const void *data, uint32_t i) {
    const uint32_t *numbers = data;
    uint64_t count = race->bytes / 4, sum = 0;
    for (uint64_t k = 0; k < count; k++) {
        sum += numbers[k];
    }
    if (race->priced) {
        (void)vram_sim_clock_advance(race->context, race->bytes / BYTES_PER_NS);
    }
    return sum == count * (i + 1) ? VRAM_OK : VRAM_ERR_CORRUPT;
}

/* --------------------------------------------------------------------- racers */

static vram_status run_plain(const struct race *race, void *host) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < RACE_FRAMES && status == VRAM_OK; i++) {
        status = make_frame(race, i);
        if (status == VRAM_OK) {
            status = vram_queue_download(race->queue, host, race->source, race->bytes);
        }
        if (status == VRAM_OK) {
            status = vram_queue_wait(race->queue, VRAM_TIMEOUT_DEFAULT);
        }
        if (status == VRAM_OK) {
            status = use_frame(race, host, i);
        }
    }
    return status;
}

static vram_status run_blocking(const struct race *race) {
    return run_plain(race, race->host);
}

/* The memory is page-locked once, as a program would, and not in the race. */
static vram_status run_pinned(const struct race *race, vram_addr pinned) {
    return run_plain(race, (void *)(uintptr_t)pinned);
}

static vram_status run_staged(const struct race *race) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < RACE_FRAMES && status == VRAM_OK; i++) {
        vram_async async;
        status = make_frame(race, i);
        if (status == VRAM_OK) {
            status = vram_transfer_download(race->queue, race->host, race->source, race->bytes,
                                            NULL, &async);
        }
        if (status == VRAM_OK) {
            status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT);
        }
        if (status == VRAM_OK) {
            status = use_frame(race, race->host, i);
        }
    }
    return status;
}

static vram_status start_frame(const struct race *race, vram_readback *readback, uint32_t i) {
    vram_status status = make_frame(race, i);
    return status == VRAM_OK
               ? vram_readback_start(readback, race->queue, race->source, race->bytes, NULL)
               : status;
}

static vram_status run_buffered(const struct race *race, vram_readback *readback) {
    vram_status status = start_frame(race, readback, 0);
    for (uint32_t i = 0; i < RACE_FRAMES && status == VRAM_OK; i++) {
        vram_frame frame;
        if (i + 1 < RACE_FRAMES) {
            status = start_frame(race, readback, i + 1);
        }
        if (status == VRAM_OK) {
            status = vram_readback_next(readback, VRAM_TIMEOUT_DEFAULT, &frame);
        }
        if (status == VRAM_OK) {
            status = use_frame(race, frame.data, i);
            vram_status given = vram_readback_release(readback, frame.number);
            status = status == VRAM_OK ? given : status;
        }
    }
    return status;
}

/* ----------------------------------------------------------------------- race */

enum { BLOCKING, PINNED, STAGED, BUFFERED };

/* Whether calls of a simulated device take time: without that there is nothing to see. */
static bool has_prices(const struct race *race) {
    uint64_t start = race->now(race->user);
    return race->simulated && make_frame(race, 0) == VRAM_OK &&
           vram_queue_wait(race->queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK &&
           race->now(race->user) > start;
}

/* One racer with its memory around it, once to warm up and once timed. */
static vram_status run_racer(struct race *race, int which) {
    struct racer *racer = &race->racers[which];
    vram_readback_options every = {
        .size = sizeof every, .policy = VRAM_READBACK_EVERY, .bytes = race->bytes};
    vram_readback *readback = NULL;
    vram_addr pinned = 0;
    vram_status status = VRAM_OK;
    if (which == PINNED) {
        status = vram_device_alloc(race->device, race->bytes, VRAM_MEMORY_PINNED, &pinned);
    } else if (which == BUFFERED) {
        status = vram_readback_create(race->device, &every, &readback);
    }
    for (int turn = 0; turn < 2 && status == VRAM_OK; turn++) {
        uint64_t start = race->now(race->user);
        status = which == BLOCKING ? run_blocking(race)
                 : which == PINNED ? run_pinned(race, pinned)
                 : which == STAGED ? run_staged(race)
                                   : run_buffered(race, readback);
        racer->ns = race->now(race->user) - start;
    }
    racer->ran = status == VRAM_OK;
    if (!racer->ran) {
        snprintf(racer->reason, sizeof racer->reason, "%s", failure_text(status));
    }
    vram_readback_destroy(readback);
    if (pinned != 0) {
        vram_status freed = vram_device_free(race->device, pinned);
        status = status == VRAM_OK ? freed : status;
    }
    return status;
}

static bool run_all(struct race *race, vram_status *status) {
    static const char *const names[RACERS] = {"blocking", "pinned", "staged", "double"};
    static const char *const abouts[RACERS] = {
        "a copy to ordinary memory, waited for", "the same to page-locked memory",
        "vram_transfer_download, waited for", "vram_readback with two slots: all at once"};
    race->priced = has_prices(race);
    for (int i = 0; i < RACERS; i++) {
        race->racers[i].name = names[i];
        race->racers[i].about = abouts[i];
        *status = run_racer(race, i);
        if (*status != VRAM_OK && *status != VRAM_ERR_UNSUPPORTED &&
            !vram_status_is_exhausted(*status)) {
            return false;
        }
    }
    *status = VRAM_OK;
    return true;
}

bool race_run(struct race *race, vram_status *status) {
    *status = vram_device_open(race->context, race->index, &race->device);
    if (*status == VRAM_OK) {
        *status = vram_queue_create(race->device, NULL, &race->queue);
    }
    if (*status == VRAM_OK) {
        *status = vram_device_alloc(race->device, race->bytes, VRAM_MEMORY_DEVICE, &race->source);
    }
    bool good = *status == VRAM_OK && run_all(race, status);
    vram_device_close(race->device);
    race->device = NULL;
    return good;
}
