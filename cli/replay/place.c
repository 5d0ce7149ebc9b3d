/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c: see place.h.
 */
#include "place.h"

#include <inttypes.h>
#include <string.h>

enum { SIM_TEXT_MAX = 384 };

/* The context's number of the device that the backend calls `device`. */
static vram_status open_device(struct place *place, uint32_t device) {
    vram_status status;
    place->info.size = sizeof place->info;
    for (uint32_t i = 0;; i++) {
        status = vram_device_info_get(place->context, i, &place->info);
        if (status != VRAM_OK || place->info.backend_index == device) {
            return status == VRAM_OK ? vram_device_open(place->context, i, &place->device) : status;
        }
    }
}

/* The simulated devices of `text`, with another size of memory. */
static void set_sim_memory(const char *text, const char *bytes, char sim[SIM_TEXT_MAX]) {
    size_t used = 0;
    for (const char *entry = text; *entry != 0;) {
        size_t length = strcspn(entry, ",");
        if (strncmp(entry, "memory=", strlen("memory=")) != 0 && used < SIM_TEXT_MAX) {
            used += (size_t)snprintf(sim + used, SIM_TEXT_MAX - used, "%.*s,", (int)length, entry);
        }
        entry += length + (entry[length] == ',');
    }
    if (used < SIM_TEXT_MAX) {
        snprintf(sim + used, SIM_TEXT_MAX - used, "memory=%s", bytes);
    }
}

/* A simulated device is made that large; of any other, no more than that is used. */
static vram_status limit_memory(struct place *place, const struct place_options *options,
                                char sim[SIM_TEXT_MAX], vram_context_options *wishes) {
    char bytes[32];
    if (options->memory_bytes == 0) {
        return VRAM_OK;
    }
    snprintf(bytes, sizeof bytes, "%" PRIu64, options->memory_bytes);
    if (options->sim == NULL) {
        place->limited = true;
        return vram_option_set("device_limit", bytes);
    }
    set_sim_memory(options->sim, bytes, sim);
    wishes->sim = sim;
    return VRAM_OK;
}

vram_status place_open(struct place *place, const struct place_options *options, uint32_t queues) {
    char sim[SIM_TEXT_MAX];
    vram_context_options wishes = {
        .size = sizeof wishes, .backends = options->backend, .sim = options->sim};
    vram_status status = limit_memory(place, options, sim, &wishes);
    place->rebuild = options->rebuild;
    if (status == VRAM_OK) {
        status = vram_context_create(&wishes, &place->context);
    }
    if (status == VRAM_OK) {
        status = open_device(place, options->device);
    }
    for (uint32_t i = 0; i < queues && status == VRAM_OK; i++) {
        status = vram_queue_create(place->device, NULL, &place->queues[i]);
        place->queue_count += status == VRAM_OK;
    }
    return status;
}

void place_close(struct place *place) {
    vram_context_destroy(place->context);
    if (place->limited) {
        vram_option_set("device_limit", NULL);
    }
}

vram_status place_wait(struct place *place, uint64_t queues) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < place->queue_count && status == VRAM_OK; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (queues & place->busy_queues & bit) {
            status = vram_queue_wait(place->queues[i], VRAM_TIMEOUT_DEFAULT);
            place->busy_queues &= status == VRAM_OK ? ~bit : UINT64_MAX;
        }
    }
    return status;
}

vram_status place_order(struct place *place, uint32_t first, uint32_t later) {
    vram_point point;
    if (first == later || !(place->busy_queues & UINT64_C(1) << first)) {
        return VRAM_OK;
    }
    vram_status status = vram_queue_mark(place->queues[first], &point);
    return status == VRAM_OK ? vram_queue_after(place->queues[later], point) : status;
}
