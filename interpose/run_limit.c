/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_limit.c: makes a device look smaller: see run_record.h.
 *
 * Bytes are taken before the driver is asked and given back when it refuses, so requests that run
 * at the same time cannot pass the limit together. With --tree the sum of all processes counts;
 * what a killed process had is given back by the process that is refused because of it.
 */
#include "run_process.h"

#include <errno.h>
#include <signal.h>

static struct run_device *device_of(struct run_slot *slot, uint32_t device) {
    return slot && device < RUN_DEVICES ? &slot->devices[device] : NULL;
}

/* The sum over all processes for this device, or the process's own. */
static _Atomic(uint64_t) *counter_of(struct run_page *page, struct run_device *device) {
    uint32_t api = atomic_load(&device->api);
    bool tree = page->settings.tree && api >= 1 && api <= RUN_APIS && device->ordinal < RUN_DEVICES;
    return tree ? &page->tree_used[api - 1][device->ordinal] : &device->used;
}

uint64_t run_limit_bytes(void) {
    const struct run_page *page = run_page_get();
    return page ? page->settings.limit_bytes : 0;
}

/* Takes bytes that fit under `limit`. */
static bool counter_take(_Atomic(uint64_t) *counter, uint64_t bytes, uint64_t limit) {
    uint64_t now = atomic_load(counter);
    do {
        if (now > limit || bytes > limit - now) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(counter, &now, now + bytes));
    return true;
}

/* Never below 0, whatever another process wrote there. */
static void counter_give(_Atomic(uint64_t) *counter, uint64_t bytes) {
    uint64_t now = atomic_load(counter);
    while (!atomic_compare_exchange_weak(counter, &now, now > bytes ? now - bytes : 0)) {
    }
}

/* Gives back what processes had that are gone. */
static void gone_sweep(struct run_page *page) {
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        struct run_slot *slot = &page->slots[i];
        int64_t pid = atomic_load(&slot->pid);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) {
            continue;
        }
        for (unsigned at = 0; at < RUN_DEVICES; at++) {
            struct run_device *device = &slot->devices[at];
            uint64_t used = atomic_exchange(&device->used, 0);
            if (used && atomic_load(&device->api)) {
                counter_give(counter_of(page, device), used);
            }
        }
    }
}

bool run_limit_take(uint32_t device, enum run_kind kind, uint64_t bytes) {
    struct run_page *page = run_page_attach();
    uint64_t limit = page ? page->settings.limit_bytes : 0;
    struct run_device *at =
        limit && run_kinds[kind].counts ? device_of(run_slot_get(), device) : NULL;
    if (!at) {
        return true;
    }
    _Atomic(uint64_t) *counter = counter_of(page, at);
    bool shared = counter != &at->used;
    if (!counter_take(counter, bytes, limit)) {
        if (!shared) {
            return false;
        }
        int before = errno;
        gone_sweep(page);
        errno = before;
        if (!counter_take(counter, bytes, limit)) {
            return false;
        }
    }
    if (shared) {
        atomic_fetch_add(&at->used, bytes);
    }
    return true;
}

void run_limit_give(uint32_t device, enum run_kind kind, uint64_t bytes) {
    struct run_page *page = bytes == RUN_LIMIT_NONE ? NULL : run_page_attach();
    struct run_device *at = page && page->settings.limit_bytes && run_kinds[kind].counts
                                ? device_of(run_slot_get(), device)
                                : NULL;
    if (!at) {
        return;
    }
    _Atomic(uint64_t) *counter = counter_of(page, at);
    counter_give(counter, bytes);
    if (counter != &at->used) {
        counter_give(&at->used, bytes);
    }
}

void run_limit_view(uint32_t device, uint64_t *free, uint64_t *total) {
    struct run_page *page = run_page_attach();
    uint64_t limit = page ? page->settings.limit_bytes : 0;
    if (!limit) {
        return;
    }
    struct run_device *at = device_of(run_slot_get(), device);
    uint64_t used = at ? atomic_load(counter_of(page, at)) : 0;
    uint64_t left = used < limit ? limit - used : 0;
    if (total && *total > limit) {
        *total = limit;
    }
    if (free && *free > left) {
        *free = left;
    }
}
