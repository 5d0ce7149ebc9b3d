/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_memory.c: memory as C11 has it, by views.
 *
 *  (1) Every atomic object has a list of all stores to it, in modification order. The object itself
 *      always has the last one's value.
 *  (2) A thread's view has, for each object, the newest store that it knows. It reads that one or a
 *      newer one, and stores behind it, anywhere in the list; but nothing comes between a
 *      read-modify-write and the store that it read.
 *  (3) A store with release order carries the thread's view; a read-modify-write adds what the
 *      store it read carries. Reading with acquire order adds it to the reader's view. Without
 *      acquire order it waits in `later` for a fence; without release order a store carries
 *      what the thread knew at its last fence.
 *  (4) The sequentially consistent order is that of execution. `sequential` has, for each object,
 *      the newest store of that order: such loads read it or a newer one, such stores come behind
 *      it. A fence exchanges the whole view with it.
 *  (5) Clocks tell what happens before: they pass with the views, but not through `sequential`.
 */
#include "explore_checker.h"

#include <string.h>

enum { OF_LOCATION_MAX = 96 };

struct location {
    volatile void *object;
    uint64_t bytes;
    unsigned count;
    uint16_t order[OF_LOCATION_MAX]; /* numbers of stores; rank = index */
    uint16_t floor;                  /* rank below which nothing can be read: see overwritten */
    bool is_overwritten;
};

struct thread_view {
    struct view now, later, fence; /* `fence`: at the last fence */
};

struct model {
    unsigned locations, stores;
    struct location location[LOCATIONS_MAX];
    struct store store[STORES_MAX];
    struct thread_view thread[THREADS_MAX];
    struct view sequential;
};

static CHECKER_STATE struct model *model;

void model_reset(void) {
    if (!model) {
        model = checker_memory(sizeof *model);
    }
    model->locations = 0;
    model->stores = 1;
    model->store[0].rank = 0;
    memset(model->thread, 0, sizeof model->thread);
    memset(&model->sequential, 0, sizeof model->sequential);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        model->thread[i].now.clock[i] = 1;
    }
}

static uint64_t object_get(const struct location *location) {
    uint64_t value = 0;
    memcpy(&value, (void *)(uintptr_t)location->object, location->bytes);
    return value;
}

static unsigned store_make(uint64_t value) {
    if (model->stores == STORES_MAX) {
        search_violation("more stores than the checker has room for");
    }
    struct store *store = &model->store[model->stores];
    memset(store, 0, sizeof *store);
    store->value = value;
    return model->stores++;
}

static void location_insert(struct location *location, unsigned rank, unsigned store) {
    if (location->count == OF_LOCATION_MAX) {
        search_violation("more stores to one object than the checker has room for");
    }
    memmove(&location->order[rank + 1], &location->order[rank],
            (location->count - rank) * sizeof location->order[0]);
    location->order[rank] = (uint16_t)store;
    location->count++;
    for (unsigned i = rank; i < location->count; i++) {
        model->store[location->order[i]].rank = (uint16_t)i;
    }
}

/* A plain store, which happens before or after every other access (else it is a race, which the
   shadow reports), replaces all stores so far. */
static void overwritten_apply(struct location *location) {
    if (location->is_overwritten) {
        location->is_overwritten = false;
        location_insert(location, location->count, store_make(object_get(location)));
        location->floor = (uint16_t)(location->count - 1);
    }
}

unsigned model_location(volatile void *object, uint64_t bytes) {
    for (unsigned i = 0; i < model->locations; i++) {
        if (model->location[i].object == object) {
            overwritten_apply(&model->location[i]);
            return i;
        }
    }
    if (model->locations == LOCATIONS_MAX) {
        checker_fail("a scenario uses more atomic objects than there is room for");
    }
    struct location *location = &model->location[model->locations];
    *location = (struct location){.object = object, .bytes = bytes};
    location_insert(location, 0, store_make(object_get(location)));
    return model->locations++;
}

void model_overwritten(unsigned location) {
    model->location[location].is_overwritten = true;
}

const struct store *model_store(unsigned number) {
    return &model->store[number];
}

static unsigned rank_of(unsigned store) {
    return model->store[store].rank;
}

unsigned model_readable(unsigned thread, unsigned at, bool sequential, bool writes,
                        uint16_t *stores) {
    const struct location *location = &model->location[at];
    unsigned least = rank_of(model->thread[thread].now.seen[at]), count = 0;
    if (sequential && rank_of(model->sequential.seen[at]) > least) {
        least = rank_of(model->sequential.seen[at]);
    }
    for (unsigned i = least > location->floor ? least : location->floor; i < location->count; i++) {
        if (!writes || !model->store[location->order[i]].is_followed) {
            stores[count++] = location->order[i];
        }
    }
    return count;
}

bool model_is_outdated(unsigned location, unsigned store) {
    return rank_of(store) + 1 < model->location[location].count;
}

static bool has_acquire(enum vr_order order) {
    return order == VR_ACQUIRE || order == VR_ACQ_REL || order == VR_SEQ_CST;
}

static bool has_release(enum vr_order order) {
    return order == VR_RELEASE || order == VR_ACQ_REL || order == VR_SEQ_CST;
}

static void seen_raise(struct view *view, unsigned location, unsigned store) {
    if (rank_of(store) > rank_of(view->seen[location])) {
        view->seen[location] = (uint16_t)store;
    }
}

static void seen_add(struct view *to, const struct view *from) {
    for (unsigned i = 0; i < model->locations; i++) {
        if (from->seen[i] != to->seen[i]) {
            seen_raise(to, i, from->seen[i]);
        }
    }
}

void model_view_add(struct view *to, const struct view *from) {
    seen_add(to, from);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        to->clock[i] = from->clock[i] > to->clock[i] ? from->clock[i] : to->clock[i];
    }
}

void model_read(unsigned thread, unsigned location, unsigned store, enum vr_order order) {
    struct thread_view *view = &model->thread[thread];
    seen_raise(&view->now, location, store);
    model_view_add(has_acquire(order) ? &view->now : &view->later, &model->store[store].message);
}

void model_write(unsigned thread, unsigned at, unsigned after, uint64_t value, enum vr_order order,
                 bool reads) {
    struct location *location = &model->location[at];
    struct thread_view *view = &model->thread[thread];
    unsigned number = store_make(value);
    struct store *store = &model->store[number];
    location_insert(location, rank_of(after) + 1, number);
    seen_raise(&view->now, at, number);
    store->message = has_release(order) ? view->now : view->fence;
    store->message.seen[at] = (uint16_t)number;
    if (reads) {
        model->store[after].is_followed = true;
        model_view_add(&store->message, &model->store[after].message);
        store->message.seen[at] = (uint16_t)number;
    }
    if (order == VR_SEQ_CST) {
        seen_raise(&model->sequential, at, number);
    }
    model_tick(thread);
    uint64_t last = model->store[location->order[location->count - 1]].value;
    memcpy((void *)(uintptr_t)location->object, &last, location->bytes);
}

void model_fence(unsigned thread) {
    struct thread_view *view = &model->thread[thread];
    model_view_add(&view->now, &view->later);
    seen_add(&view->now, &model->sequential);
    seen_add(&model->sequential, &view->now);
    view->fence = view->now;
    model_tick(thread);
}

const struct view *model_view(unsigned thread) {
    return &model->thread[thread].now;
}

void model_join(unsigned thread, const struct view *view) {
    model_view_add(&model->thread[thread].now, view);
}

void model_tick(unsigned thread) {
    model->thread[thread].now.clock[thread]++;
}
