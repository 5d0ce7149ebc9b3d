/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_pools.c: see serve_pools.h. Entries are made under a lock of the C library's own, as serve.c
 * says under (1), and stay in place, so a pool that was found is used without it.
 */
#include "serve_pools.h"

#include <pthread.h>
#include <string.h>

/* CUmemPoolProps begins like this. */
struct pool_props {
    int type, handle_types, location_type, location_id;
};

enum { LOCATION_DEVICE = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct served_pool pools[SERVE_POOLS];
static vram_context *context;
static vram_device *devices[RUN_DEVICES]; /* by ordinal */
static bool failed;                       /* no context could be made: the driver serves all */

static struct served_pool *entry_find(void *handle) {
    for (unsigned i = 0; i < SERVE_POOLS; i++) {
        if (pools[i].handle == handle) {
            return &pools[i];
        }
    }
    return NULL;
}

/* The entry of a pool, or a new one; NULL: too many. */
static struct served_pool *entry_take(void *handle, int ordinal) {
    struct served_pool *entry = entry_find(handle);
    if (!entry && (entry = entry_find(NULL))) {
        *entry = (struct served_pool){.handle = handle, .ordinal = ordinal};
    }
    return entry;
}

/* ------------------------------------------------------------------------ making */

static bool context_make(void) {
    const vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    failed = failed || (!context && vram_context_create(&options, &context) != VRAM_OK);
    return !failed;
}

static vram_device *device_make(int ordinal) {
    vram_device_info info = {.size = sizeof info};
    if (ordinal < 0 || ordinal >= RUN_DEVICES || !context_make()) {
        return NULL;
    }
    for (uint32_t i = 0; !devices[ordinal] && vram_device_info_get(context, i, &info) == VRAM_OK;
         i++) {
        if (strcmp(info.backend, "cuda") == 0 && info.backend_index == (uint32_t)ordinal &&
            vram_device_open(context, i, &devices[ordinal]) != VRAM_OK) {
            devices[ordinal] = NULL;
        }
    }
    return devices[ordinal];
}

static void pool_make(struct served_pool *entry) {
    vram_pool_options options = {.size = sizeof options, .name = "vram run --serve"};
    entry->device = device_make(entry->ordinal);
    if (!entry->device || vram_pool_create(entry->device, &options, &entry->pool) != VRAM_OK) {
        entry->pool = NULL;
        entry->refused = true;
    }
}

struct served_pool *serve_pool_take(void *handle, int ordinal, void (*begin)(void),
                                    void (*end)(void)) {
    pthread_mutex_lock(&lock);
    struct served_pool *entry = handle ? entry_take(handle, ordinal) : NULL;
    if (entry && !entry->pool && !entry->refused) {
        begin();
        pool_make(entry);
        end();
    }
    bool good = entry && entry->pool && !entry->refused;
    pthread_mutex_unlock(&lock);
    return good ? entry : NULL;
}

struct served_pool *serve_pool_find(void *handle) {
    pthread_mutex_lock(&lock);
    struct served_pool *entry = handle ? entry_find(handle) : NULL;
    bool good = entry && entry->pool && !entry->refused;
    pthread_mutex_unlock(&lock);
    return good ? entry : NULL;
}

vram_device *serve_device(int ordinal) {
    pthread_mutex_lock(&lock);
    vram_device *device = ordinal >= 0 && ordinal < RUN_DEVICES ? devices[ordinal] : NULL;
    pthread_mutex_unlock(&lock);
    return device;
}

void serve_pool_note(void *handle, const void *props) {
    const struct pool_props *about = props;
    pthread_mutex_lock(&lock);
    struct served_pool *entry = about ? entry_take(handle, about->location_id) : NULL;
    if (entry) {
        entry->refused = about->handle_types != 0 || about->location_type != LOCATION_DEVICE;
    }
    pthread_mutex_unlock(&lock);
}

/* The driver's pool ends; its blocks live on, as CUDA has it, and keep ours. */
void serve_pool_forget(void *handle, void (*begin)(void), void (*end)(void)) {
    pthread_mutex_lock(&lock);
    struct served_pool *entry = entry_find(handle);
    vram_pool *pool = entry ? entry->pool : NULL;
    if (entry) {
        *entry = (struct served_pool){0};
    }
    pthread_mutex_unlock(&lock);
    if (!pool) {
        return;
    }
    vram_pool_stats stats = {.size = sizeof stats};
    begin();
    if (vram_pool_stats_get(pool, &stats) == VRAM_OK && stats.live_blocks == 0) {
        (void)vram_pool_destroy(pool);
    } else {
        (void)vram_pool_trim(pool, NULL, NULL);
    }
    end();
}

void serve_pool_refuse(void *handle, const int *locations, size_t count) {
    pthread_mutex_lock(&lock);
    struct served_pool *entry = entry_find(handle);
    for (size_t i = 0; entry && i < count; i++) {
        entry->refused = entry->refused || locations[i] != entry->ordinal;
    }
    pthread_mutex_unlock(&lock);
}

/* -------------------------------------------------------------------- attributes */

enum pool_attribute { RESERVED_CURRENT = 5, RESERVED_HIGH = 6, USED_CURRENT = 7, USED_HIGH = 8 };

static uint64_t larger_of(uint64_t one, uint64_t other) {
    return one > other ? one : other;
}

/* The library resets all peaks at once: the one that is not meant is kept. */
static void peak_reset(struct served_pool *pool, const vram_pool_stats *stats, int attribute) {
    uint64_t used = larger_of(stats->peak_allocated_bytes, pool->used_high);
    uint64_t reserved = larger_of(stats->peak_reserved_bytes, pool->reserved_high);
    pool->used_high = attribute == USED_HIGH ? 0 : used;
    pool->reserved_high = attribute == RESERVED_HIGH ? 0 : reserved;
    (void)vram_pool_peaks_reset(pool->pool);
}

static bool value_read(const struct served_pool *pool, const vram_pool_stats *stats, int attribute,
                       uint64_t *value) {
    switch (attribute) {
    case RESERVED_CURRENT:
        *value = stats->reserved_bytes;
        return true;
    case RESERVED_HIGH:
        *value = larger_of(stats->peak_reserved_bytes, pool->reserved_high);
        return true;
    case USED_CURRENT:
        *value = stats->allocated_bytes;
        return true;
    case USED_HIGH:
        *value = larger_of(stats->peak_allocated_bytes, pool->used_high);
        return true;
    default:
        return false; /* the driver remembers, also what was set before the first allocation */
    }
}

bool serve_pool_value(struct served_pool *pool, int attribute, void *value, bool set, int *code) {
    vram_pool_stats stats = {.size = sizeof stats};
    if (vram_pool_stats_get(pool->pool, &stats) != VRAM_OK) {
        return false;
    }
    bool good = true;
    *code = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!set) {
        good = value_read(pool, &stats, attribute, value);
    } else if (attribute == RESERVED_HIGH || attribute == USED_HIGH) {
        peak_reset(pool, &stats, attribute);
    } else {
        good = false;
    }
    pthread_mutex_unlock(&lock);
    return good;
}
