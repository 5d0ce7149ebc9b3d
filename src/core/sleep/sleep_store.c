/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_store.c: the host memory that keeps contents: one store for each change that falls asleep.
 *
 *     store->pages   | contents of state 0 | contents of state 1 | ...     each begins a page
 *
 * A state gives its pages back when it wakes, the store when the last one does. Large pages: the
 * system clears them 10 times as fast, and a driver locks them 100 times as fast.
 */
#include "core/object/pool_object.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/ops.h"

#include <assert.h>

#define LARGE_PAGE (UINT64_C(2) << 20)

struct vr_sleep_store {
    struct vr_sleep_store *next; /* in the pool's list of those that the driver keeps locked */
    char *pages;
    uint64_t bytes;
    uint32_t kept;   /* states whose contents it keeps */
    uint32_t states; /* states with a pointer to it */
    bool registered; /* page-locked by the driver */
};

static uint64_t bytes_of(const struct vr_sleep_state *sleep_state) {
    return sleep_state->to - sleep_state->from;
}

static uint64_t pages_of(const struct vr_sleep_state *sleep_state) {
    uint64_t page = vr_os_page_bytes();
    return (bytes_of(sleep_state) + page - 1) / page * page;
}

/* Whether contents of a change need a place. */
static bool needs_place(const struct vr_sleep_state *sleep_state) {
    return bytes_of(sleep_state) && !sleep_state->host;
}

static vram_status check_available(uint64_t bytes) {
    vram_value total, available;
    vr_os_memory(&total, &available);
    if (available.known && bytes > available.value) {
        return vr_fail(VRAM_ERR_HOST_MEMORY,
                       "the contents take %llu bytes of host memory, and %llu are available: wake "
                       "other pools, or use VRAM_SLEEP_DROP",
                       (unsigned long long)bytes, (unsigned long long)available.value);
    }
    return VRAM_OK;
}

vram_status vr_sleep_store_make(uint64_t bytes, struct vr_sleep_store **out) {
    void *pages;
    struct vr_sleep_store *store = vr_mem_alloc(1, sizeof *store, vr_operation());
    if (!store) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_os_pages_reserve(bytes, LARGE_PAGE, &pages);
    if (status == VRAM_OK && (status = vr_os_pages_access(pages, bytes)) != VRAM_OK) {
        (void)vr_os_pages_free(pages, bytes);
    }
    if (status != VRAM_OK) {
        vr_mem_free(store);
        return status;
    }
    vr_os_pages_enlarge(pages, bytes);
    store->pages = pages;
    store->bytes = bytes;
    *out = store;
    return VRAM_OK;
}

char *vr_sleep_store_pages(const struct vr_sleep_store *store) {
    return store->pages;
}

vram_status vr_sleep_store_lock(const struct vr_pool *pool, struct vr_sleep_store *store) {
    vram_status status =
        vr_pinned_register(&pool->device->base, (uintptr_t)store->pages, store->bytes);
    store->registered = status == VRAM_OK;
    return status;
}

/* Frees a store. Pages that the driver refuses to unlock are not freed: it may still know them. */
static bool store_free(const struct vr_pool *pool, struct vr_sleep_store *store) {
    if (store->registered && vr_pinned_unregister(&pool->device->base, (uintptr_t)store->pages,
                                                  store->bytes) != VRAM_OK) {
        return false;
    }
    (void)vr_os_pages_free(store->pages, store->bytes);
    vr_mem_free(store);
    return true;
}

void vr_sleep_store_end(struct vr_pool *pool, struct vr_sleep_store *store) {
    if (!store_free(pool, store)) {
        vr_mutex_lock(&pool->lock);
        store->next = pool->sleep.locked;
        pool->sleep.locked = store;
        vr_mutex_unlock(&pool->lock);
    }
}

void vr_sleep_stores_forget(struct vr_pool *pool) {
    struct vr_sleep_store *next;
    for (struct vr_sleep_store *store = pool->sleep.locked; store; store = next) {
        next = store->next;
        if (!store_free(pool, store) && !store_free(pool, store)) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to unlock %llu bytes of host memory",
                   (unsigned long long)store->bytes);
            vr_mem_free(store);
        }
    }
    pool->sleep.locked = NULL;
}

void vr_sleep_store_join(struct vr_sleep_store *store) {
    assert(store->kept > 1 && store->states > 1);
    store->kept--;
    store->states--;
}

vram_status vr_sleep_store_open(const struct vr_sleep_change *change) {
    struct vr_sleep_store *store = NULL;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < change->count; i++) {
        bytes += needs_place(change->sleep_states[i]) ? pages_of(change->sleep_states[i]) : 0;
    }
    vram_status status = bytes ? check_available(bytes) : VRAM_OK;
    if (status == VRAM_OK && bytes) {
        status = vr_sleep_store_make(bytes, &store);
    }
    uint64_t at = 0;
    for (uint32_t i = 0; status == VRAM_OK && bytes && i < change->count; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (needs_place(sleep_state)) {
            sleep_state->store = store;
            sleep_state->host = store->pages + at;
            at += pages_of(sleep_state);
            store->kept++;
            store->states++;
            vr_counter_add(&change->pool->counters.asleep_host_bytes, bytes_of(sleep_state));
        }
    }
    return status;
}

vram_status vr_sleep_stores_lock(const struct vr_sleep_change *change) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < change->count && status == VRAM_OK; i++) {
        struct vr_sleep_store *store = change->sleep_states[i]->store;
        if (store && !store->registered) {
            status = vr_sleep_store_lock(change->pool, store);
        }
    }
    return status;
}

void vr_sleep_state_wake_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state) {
    if (sleep_state->store) {
        sleep_state->store->kept--;
        vr_fetch_sub(&pool->counters.asleep_host_bytes, bytes_of(sleep_state), VR_RELAXED);
    }
}

void vr_sleep_state_free_host(struct vr_pool *pool, struct vr_sleep_state *sleep_state) {
    struct vr_sleep_store *store = sleep_state->store;
    if (!store) {
        return;
    }
    if (store->kept && !store->registered) { /* locked memory is unlocked as a whole */
        (void)vr_os_pages_unmap(sleep_state->host, pages_of(sleep_state));
    }
    if (--store->states == 0) {
        vr_sleep_store_end(pool, store);
    }
    sleep_state->store = NULL;
    sleep_state->host = NULL;
}
