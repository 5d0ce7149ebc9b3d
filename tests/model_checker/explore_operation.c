/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_operation.c: the atomic operations of the explored sources, by the model.
 *
 * Outside of threads (in set_up and finish) they act on the objects directly, which always have the
 * last value.
 */
#include "explore_checker.h"

#include <string.h>

enum { READS_MAX = 32 };

/* The loads since a thread last yielded, and those of the round before. A thread that yields waits
   until one of them would return something else: a round that reads the same is not explored. */
struct reads {
    unsigned count;
    struct {
        uint16_t location, store;
    } read[READS_MAX];
};

static CHECKER_STATE struct {
    struct reads now, before;
    bool writes; /* it wrote since it last yielded */
} spins[THREADS_MAX];

void spins_reset(void) {
    memset(spins, 0, sizeof spins);
}

bool spin_may_go_on(unsigned thread) {
    const struct reads *reads = &spins[thread].before;
    for (unsigned i = 0; i < reads->count; i++) {
        if (model_is_outdated(reads->read[i].location, reads->read[i].store)) {
            return true;
        }
    }
    return false;
}

static void read_note(unsigned location, unsigned store) {
    struct reads *reads = &spins[fiber_self()].now;
    if (reads->count < READS_MAX) {
        reads->read[reads->count].location = (uint16_t)location;
        reads->read[reads->count++].store = (uint16_t)store;
    }
}

void explore_yield(void) {
    if (!search_is_running()) {
        return;
    }
    unsigned self = fiber_self();
    const struct step step = {.kind = STEP_YIELD};
    bool same = spins[self].now.count == spins[self].before.count && spins[self].now.count &&
                memcmp(spins[self].now.read, spins[self].before.read,
                       spins[self].now.count * sizeof spins[self].now.read[0]) == 0;
    if (same && !spins[self].writes) {
        search_cut();
    }
    spins[self].before = spins[self].now;
    spins[self].now.count = 0;
    search_note(NULL, "yields", 0);
    (void)search_step(&step);
    spins[self].writes = false;
}

static uint64_t object_get(const volatile void *object, uint64_t bytes) {
    uint64_t value = 0;
    memcpy(&value, (const void *)(uintptr_t)object, bytes);
    return value;
}

static void object_set(volatile void *object, uint64_t bytes, uint64_t value) {
    memcpy((void *)(uintptr_t)object, &value, bytes);
}

static uint64_t value_cut(uint64_t value, uint64_t bytes) {
    return bytes == 8 ? value : value & ((UINT64_C(1) << (bytes * 8)) - 1);
}

static uint64_t value_changed(const struct explore_site *site, uint64_t before, uint64_t value,
                              uint64_t bytes) {
    uint64_t changed = value; /* of "exchange" */
    if (strcmp(site->operation, "add") == 0) {
        changed = before + value;
    } else if (strcmp(site->operation, "sub") == 0) {
        changed = before - value;
    } else if (strcmp(site->operation, "or") == 0) {
        changed = before | value;
    } else if (strcmp(site->operation, "and") == 0) {
        changed = before & value;
    }
    return value_cut(changed, bytes);
}

/* The loading part of an order, for a compare and swap that fails. */
static enum vr_order order_failed(enum vr_order order) {
    return order == VR_ACQ_REL ? VR_ACQUIRE : order == VR_RELEASE ? VR_RELAXED : order;
}

uint64_t explore_load(const struct explore_site *site, const volatile void *object,
                      uint64_t bytes) {
    if (!search_is_running()) {
        return object_get(object, bytes);
    }
    enum vr_order order = site_order(site);
    unsigned location = model_location((volatile void *)object, bytes);
    struct step step = {STEP_LOAD, site, location, order == VR_SEQ_CST, 0};
    unsigned store = search_step(&step);
    shadow_atomic(object, bytes, false, location);
    model_read(fiber_self(), location, store, order);
    read_note(location, store);
    search_note(site, "loads", model_store(store)->value);
    return model_store(store)->value;
}

void explore_store(const struct explore_site *site, volatile void *object, uint64_t bytes,
                   uint64_t value) {
    if (!search_is_running()) {
        object_set(object, bytes, value);
        return;
    }
    enum vr_order order = site_order(site);
    unsigned self = fiber_self(), location = model_location(object, bytes), after;
    if (order == VR_SEQ_CST) {
        struct step step = {STEP_STORE, site, location, true, 0};
        after = search_step(&step);
    } else {
        uint16_t stores[STORES_MAX];
        unsigned count = model_readable(self, location, false, true, stores);
        after = stores[count - 1 - search_pick(count)]; /* behind the last one first */
    }
    shadow_atomic(object, bytes, true, location);
    search_note(site, "stores", value);
    model_write(self, location, after, value, order, false);
    spins[self].writes = true;
}

uint64_t explore_change(const struct explore_site *site, volatile void *object, uint64_t bytes,
                        uint64_t value) {
    if (!search_is_running()) {
        uint64_t before = object_get(object, bytes);
        object_set(object, bytes, value_changed(site, before, value, bytes));
        return before;
    }
    enum vr_order order = site_order(site);
    unsigned self = fiber_self(), location = model_location(object, bytes);
    struct step step = {STEP_CHANGE, site, location, order == VR_SEQ_CST, 0};
    unsigned store = search_step(&step);
    uint64_t before = model_store(store)->value;
    shadow_atomic(object, bytes, true, location);
    search_note(site, "changes", before);
    model_read(self, location, store, order);
    model_write(self, location, store, value_changed(site, before, value, bytes), order, true);
    spins[self].writes = true;
    return before;
}

static bool cas_direct(volatile void *object, uint64_t bytes, void *expected, uint64_t desired) {
    uint64_t found = object_get(object, bytes);
    bool succeeds = found == object_get(expected, bytes);
    if (succeeds) {
        object_set(object, bytes, desired);
    } else {
        object_set(expected, bytes, found);
    }
    return succeeds;
}

bool explore_cas(const struct explore_site *site, volatile void *object, uint64_t bytes,
                 void *expected, uint64_t desired) {
    if (!search_is_running()) {
        return cas_direct(object, bytes, expected, desired);
    }
    enum vr_order order = site_order(site);
    unsigned self = fiber_self(), location = model_location(object, bytes);
    struct step step = {STEP_CAS, site, location, order == VR_SEQ_CST, object_get(expected, bytes)};
    unsigned store = search_step(&step);
    uint64_t found = model_store(store)->value;
    bool succeeds = found == step.expected;
    shadow_atomic(object, bytes, succeeds, location);
    search_note(site, succeeds ? "swaps" : "fails", found);
    model_read(self, location, store, succeeds ? order : order_failed(order));
    if (succeeds) {
        model_write(self, location, store, desired, order, true);
        spins[self].writes = true;
    } else {
        read_note(location, store);
        object_set(expected, bytes, found);
    }
    return succeeds;
}

void explore_fence(const struct explore_site *site) {
    if (search_is_running() && site_order(site) == VR_SEQ_CST) {
        const struct step step = {.kind = STEP_FENCE, .site = site};
        (void)search_step(&step);
        search_note(site, "fence", 0);
        model_fence(fiber_self());
    }
}

bool explore_barrier(void) {
    if (search_is_running()) {
        const struct step step = {.kind = STEP_BARRIER};
        unsigned self = fiber_self();
        (void)search_step(&step);
        search_note(NULL, "barrier", 0);
        model_fence(self);
        for (unsigned i = 0; i < THREADS_MAX; i++) {
            if (i != self) {
                model_fence(i);
            }
        }
        model_fence(self);
    }
    return true;
}
