/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_limit.c: makes a device look smaller: see run_record.h.
 *
 * Bytes are taken before the driver is asked and given back when it refuses, so requests that run
 * at the same time cannot pass the limit together. With --tree the sum of all processes counts.
 * There is no common counter: a process that is killed between two steps would leave it wrong for
 * ever. Every process has its own word, and what a killed one had is given back by the process that
 * is refused because of it.
 */
#include "run_process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { TREE_ROUNDS = 16 }; /* of requests that are in each other's way */

static struct run_device *device_of(struct run_slot *slot, uint32_t device) {
    return slot && device < RUN_DEVICES ? &slot->devices[device] : NULL;
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

/* ------------------------------------------------------------- several processes */

static struct run_device *same_device(struct run_slot *slot, const struct run_device *device) {
    uint32_t api = atomic_load(&device->api);
    for (unsigned i = 0; i < RUN_DEVICES; i++) {
        if (atomic_load(&slot->devices[i].api) == api &&
            slot->devices[i].ordinal == device->ordinal) {
            return &slot->devices[i];
        }
    }
    return NULL;
}

/* What all processes have of a device; no sum of hostile numbers wraps. A process without a slot in
   the page counts itself, and others do not see it. */
static uint64_t tree_used(struct run_page *page, const struct run_device *device) {
    const char *at_page = (const char *)page, *at_device = (const char *)device;
    bool has_slot = at_device >= at_page && at_device < at_page + sizeof *page;
    uint64_t sum = has_slot ? 0 : atomic_load(&device->used);
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        struct run_slot *slot = &page->slots[i];
        struct run_device *at = atomic_load(&slot->pid) ? same_device(slot, device) : NULL;
        uint64_t used = at ? atomic_load(&at->used) : 0;
        sum = used > UINT64_MAX - sum ? UINT64_MAX : sum + used;
    }
    return sum;
}

/* Gives back what processes had that are gone; of those in other containers the id says nothing. */
static void gone_sweep(struct run_page *page) {
    uint64_t space = run_pid_space();
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        struct run_slot *slot = &page->slots[i];
        int64_t pid = atomic_load(&slot->pid);
        if (pid <= 0 || slot->pid_space != space || kill((pid_t)pid, 0) == 0 || errno != ESRCH) {
            continue;
        }
        for (unsigned at = 0; at < RUN_DEVICES; at++) {
            atomic_store(&slot->devices[at].used, 0);
        }
    }
}

/* Each process enters a request in its own slot and then adds up what all have. Of two requests
   that do not fit together at least one sees the other; if both do, both withdraw and try again,
   after pauses of different lengths. */
static bool tree_take(struct run_page *page, struct run_device *at, uint64_t bytes,
                      uint64_t limit) {
    uint32_t seed = (uint32_t)(uintptr_t)&seed >> 6 ^ (uint32_t)getpid();
    if (bytes > limit) {
        return false;
    }
    for (unsigned round = 0; round < TREE_ROUNDS; round++) {
        atomic_fetch_add(&at->used, bytes);
        if (tree_used(page, at) <= limit) {
            return true;
        }
        counter_give(&at->used, bytes);
        seed = seed * 1664525 + 1013904223;
        for (unsigned i = seed >> 24; i; i--) {
            atomic_signal_fence(memory_order_seq_cst); /* a pause that the compiler keeps */
        }
        sched_yield();
    }
    return false;
}

bool run_limit_take(uint32_t device, enum run_kind kind, uint64_t bytes) {
    struct run_page *page = run_page_attach();
    uint64_t limit = page ? page->settings.limit_bytes : 0;
    struct run_device *at =
        limit && run_kinds[kind].counts ? device_of(run_slot_get(), device) : NULL;
    if (!at) {
        return true;
    }
    if (!page->settings.tree) {
        return counter_take(&at->used, bytes, limit);
    }
    if (tree_take(page, at, bytes, limit)) {
        return true;
    }
    int before = errno;
    gone_sweep(page);
    errno = before;
    return tree_take(page, at, bytes, limit);
}

void run_limit_give(uint32_t device, enum run_kind kind, uint64_t bytes) {
    struct run_page *page = bytes == RUN_LIMIT_NONE ? NULL : run_page_attach();
    struct run_device *at = page && page->settings.limit_bytes && run_kinds[kind].counts
                                ? device_of(run_slot_get(), device)
                                : NULL;
    if (at) {
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
    uint64_t used = !at ? 0 : page->settings.tree ? tree_used(page, at) : atomic_load(&at->used);
    uint64_t left = used < limit ? limit - used : 0;
    if (total && *total > limit) {
        *total = limit;
    }
    if (free && *free > left) {
        *free = left;
    }
}
