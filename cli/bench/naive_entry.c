/* SPDX-License-Identifier: Apache-2.0 */
/*
 * naive_entry.c: memory straight from the driver, one call for each allocation and each free: what
 * a program without a pool pays.
 */
#include "bench/loop.h"
#include "output.h"

#include <stdio.h>

static void keep_reason(char reason[REASON_MAX], vram_status status) {
    snprintf(reason, REASON_MAX, "%s", failure_text(status));
}

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    vram_addr addr = 0;
    vram_status status = vram_device_alloc(worker->entry->state, bytes, VRAM_MEMORY_DEVICE, &addr);
    if (status != VRAM_OK) {
        keep_reason(worker->reason, status);
    }
    return addr;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    vram_status status = vram_device_free(worker->entry->state, addr);
    if (status != VRAM_OK) {
        keep_reason(worker->reason, status);
    }
    return status == VRAM_OK;
}

LOOP_FUNCTIONS(take, give)

/* A handle of its own: the calls of the others on the same device are not in its counters. */
static bool open_entry(struct entry *entry) {
    vram_device *device = NULL;
    vram_status status = vram_device_open(entry->context, entry->device_index, &device);
    if (status != VRAM_OK) {
        keep_reason(entry->reason, status);
    }
    entry->state = device;
    return status == VRAM_OK;
}

static void close_entry(struct entry *entry) {
    vram_device_close(entry->state);
}

/* Asking is a call as well on some backends; the difference of two answers has it once in it. */
static vram_value driver_calls(struct entry *entry) {
    vram_memory_info info = {.size = sizeof info};
    bool known = vram_memory_info_get(entry->state, &info) == VRAM_OK;
    return (vram_value){.value = info.driver_calls, .known = known};
}

const struct allocator allocator_naive = {
    .open = open_entry, .close = close_entry, .driver_calls = driver_calls, LOOP_FIELDS};
