/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels.c: a cache of computed mappings of labels.
 *
 *  (1) An entry is one allocation: its head, the labels, then their mapping. It is in one chain of
 *      the table, and in the list of all entries, most recently used last.
 *  (2) `bytes` is the sum over all entries and never above max_bytes, nor `entries` above
 *      max_entries: old entries are evicted before a new one is added.
 *  (3) The program's function and the allocator are called without the lock. A thread that then
 *      adds an entry checks again: if two computed the same one, the first is kept.
 */
#include "vram/labels.h"

#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/object.h"
#include "base/os/os.h"
#include "base/struct_tail.h"

#include <assert.h>
#include <string.h>

#define ENTRIES_DEFAULT 1000
#define BYTES_DEFAULT   (UINT64_C(64) << 20)
#define CHAINS_FIRST    64 /* a power of two */

struct label_entry {
    struct vr_link link;      /* in vr_labels.used */
    struct label_entry *next; /* in its chain */
    uint64_t hash;
    size_t count, mapped; /* labels, and numbers of their mapping behind them */
    int32_t numbers[];
};

struct vr_labels {
    struct vr_object object;
    uint64_t max_entries, max_bytes;
    struct vr_mutex lock; /* guards the rest */
    struct label_entry **chains;
    size_t chain_count;  /* a power of two */
    struct vr_list used; /* least recently used first */
    uint64_t entries, bytes, hits, misses, evictions, unkept;
};

/* ------------------------------------------------------------------- entries */

static uint64_t hash_mix(uint64_t value) {
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 32);
}

static uint64_t hash_of(const int32_t *labels, size_t count) {
    uint64_t hash = hash_mix(count + UINT64_C(0x9e3779b97f4a7c15));
    for (size_t i = 0; i < count; i++) {
        hash = hash_mix(hash + (uint32_t)labels[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return hash_mix(hash);
}

static uint64_t bytes_of(const struct label_entry *entry) {
    return sizeof *entry + (entry->count + entry->mapped) * sizeof(int32_t);
}

static struct label_entry **chain_of(const struct vr_labels *cache, uint64_t hash) {
    return &cache->chains[hash & (cache->chain_count - 1)];
}

/* Under the lock. */
static struct label_entry *find_entry(const struct vr_labels *cache, uint64_t hash,
                                      const int32_t *labels, size_t count) {
    struct label_entry *entry = *chain_of(cache, hash);
    while (entry && (entry->hash != hash || entry->count != count ||
                     (count && memcmp(entry->numbers, labels, count * sizeof *labels) != 0))) {
        entry = entry->next;
    }
    return entry;
}

/* Removes an entry from chain and list; under the lock. */
static void remove_entry(struct vr_labels *cache, struct label_entry *entry) {
    struct label_entry **at = chain_of(cache, entry->hash);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    entry->next = NULL;
    vr_link_remove(&entry->link);
    cache->entries--;
    cache->bytes -= bytes_of(entry);
}

/* Frees entries that are chained by `next` and in no table any more. */
static void free_entries(struct label_entry *removed) {
    while (removed) {
        struct label_entry *next = removed->next;
        vr_mem_free(removed);
        removed = next;
    }
}

/* Removes the least recently used entries until one of `bytes` fits, and returns them; keeps
   (2). */
static struct label_entry *evict_for(struct vr_labels *cache, uint64_t bytes) {
    struct label_entry *removed = NULL;
    while (cache->entries >= cache->max_entries || cache->bytes > cache->max_bytes - bytes) {
        struct vr_link *first = vr_list_first(&cache->used);
        assert(first); /* an empty cache has room */
        struct label_entry *oldest = VR_CONTAINER(first, struct label_entry, link);
        remove_entry(cache, oldest);
        oldest->next = removed;
        removed = oldest;
        cache->evictions++;
    }
    return removed;
}

/* ------------------------------------------------------------------ the table */

/* Distributes all entries over `chains`, which are more; returns the old chains. Under the lock. */
static struct label_entry **spread_entries(struct vr_labels *cache, struct label_entry **chains,
                                           size_t count) {
    struct label_entry **before = cache->chains;
    cache->chains = chains;
    cache->chain_count = count;
    for (struct vr_link *link = vr_list_first(&cache->used); link;
         link = vr_list_next(&cache->used, link)) {
        struct label_entry *entry = VR_CONTAINER(link, struct label_entry, link);
        struct label_entry **at = chain_of(cache, entry->hash);
        entry->next = *at;
        *at = entry;
    }
    return before;
}

/* Keeps chains short. A table that cannot grow is slower, not wrong. */
static void grow_table(struct vr_labels *cache) {
    struct vram_error error;
    vr_mutex_lock(&cache->lock);
    size_t had = cache->chain_count;
    bool crowded = cache->entries > had;
    vr_mutex_unlock(&cache->lock);
    if (!crowded) {
        return;
    }
    vr_error_save(&error);
    struct label_entry **chains =
        vr_mem_alloc(had * 2, sizeof(struct label_entry *), vr_operation());
    if (chains) {
        vr_mutex_lock(&cache->lock);
        if (cache->chain_count == had) {
            chains = spread_entries(cache, chains, had * 2);
        }
        vr_mutex_unlock(&cache->lock);
        vr_mem_free(chains);
    }
    vr_error_restore(&error);
}

/* ------------------------------------------------------------------- lookup */

struct label_query {
    const int32_t *labels;
    size_t count;
    uint64_t hash;
    int32_t *mapping;
    size_t capacity;
};

/* Finds a mapping and copies it; *found says whether there is one. */
static vram_status give_mapping(struct vr_labels *cache, const struct label_query *query,
                                size_t *mapped, bool *found) {
    size_t needs = 0;
    vr_mutex_lock(&cache->lock);
    struct label_entry *entry = find_entry(cache, query->hash, query->labels, query->count);
    *found = entry != NULL;
    cache->hits += *found;
    cache->misses += !*found;
    if (entry) {
        vr_link_remove(&entry->link);
        vr_list_append(&cache->used, &entry->link);
        needs = entry->mapped;
        if (needs && needs <= query->capacity) {
            memcpy(query->mapping, entry->numbers + entry->count, needs * sizeof(int32_t));
        }
    }
    vr_mutex_unlock(&cache->lock);
    if (needs > query->capacity) {
        return vr_fail(VRAM_ERR_LIMIT,
                       "the mapping has %zu numbers, and the caller's array has %zu", needs,
                       query->capacity);
    }
    if (*found) {
        *mapped = needs;
    }
    return VRAM_OK;
}

/* The bytes of an entry; 0: more than the cache may hold, or an overflow. */
static uint64_t entry_bytes(const struct vr_labels *cache, size_t count, size_t mapped) {
    uint64_t most = cache->max_bytes / sizeof(int32_t);
    if (count > most || mapped > most) {
        return 0;
    }
    uint64_t bytes = sizeof(struct label_entry) + ((uint64_t)count + mapped) * sizeof(int32_t);
    return bytes <= cache->max_bytes ? bytes : 0;
}

/* Copies labels and mapping to a new entry; NULL: not to be cached, or no memory, which does not
   fail the call. */
static struct label_entry *copy_entry(struct vr_labels *cache, const struct label_query *query,
                                      size_t mapped) {
    struct vram_error error;
    uint64_t bytes = entry_bytes(cache, query->count, mapped);
    if (!bytes) {
        return NULL;
    }
    vr_error_save(&error);
    struct label_entry *entry = vr_mem_alloc(1, (size_t)bytes, vr_operation());
    vr_error_restore(&error);
    if (entry) {
        entry->hash = query->hash;
        entry->count = query->count;
        entry->mapped = mapped;
        if (query->count) {
            memcpy(entry->numbers, query->labels, query->count * sizeof(int32_t));
        }
        if (mapped) {
            memcpy(entry->numbers + query->count, query->mapping, mapped * sizeof(int32_t));
        }
    }
    return entry;
}

/* Adds the mapping to the cache; keeps (3). */
static void keep_mapping(struct vr_labels *cache, const struct label_query *query, size_t mapped) {
    struct label_entry *entry = copy_entry(cache, query, mapped), *removed = NULL;
    vr_mutex_lock(&cache->lock);
    if (!entry) {
        cache->unkept++;
    } else if (find_entry(cache, query->hash, query->labels, query->count)) {
        removed = entry;
    } else {
        removed = evict_for(cache, bytes_of(entry));
        struct label_entry **at = chain_of(cache, entry->hash);
        entry->next = *at;
        *at = entry;
        vr_list_append(&cache->used, &entry->link);
        cache->entries++;
        cache->bytes += bytes_of(entry);
    }
    vr_mutex_unlock(&cache->lock);
    free_entries(removed);
    grow_table(cache);
}

static vram_status compute_mapping(struct vr_labels *cache, const struct label_query *query,
                                   vram_labels_fn *compute, void *user, size_t *mapped) {
    VR_UNCANCELLED;
    size_t written = 0;
    vram_status status =
        compute(user, query->labels, query->count, query->mapping, query->capacity, &written);
    if (status != VRAM_OK) {
        return vr_fail(status, "the program's function returned %s", vram_status_name(status));
    }
    if (written > query->capacity) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the program's function wrote %zu numbers into an array of %zu", written,
                       query->capacity);
    }
    keep_mapping(cache, query, written);
    *mapped = written;
    return VRAM_OK;
}

vram_status vram_labels_get(vram_labels *handle, const int32_t *labels, size_t count,
                            vram_labels_fn *compute, void *user, int32_t *mapping, size_t room,
                            size_t *mapped) {
    VR_CALL;
    bool found;
    void *cache;
    if ((count && !labels) || !compute || (room && !mapping) || !mapped) {
        return vr_fail(VRAM_ERR_INVALID, "%s is NULL",
                       !compute           ? "the function that computes mappings"
                       : count && !labels ? "the pointer to the labels"
                       : !mapped          ? "the pointer that receives the number of the mapping"
                                          : "the pointer that receives the mapping");
    }
    vram_status status = vr_enter(VR_KIND_LABELS, handle, &cache);
    if (status != VRAM_OK) {
        return status;
    }
    struct label_query query = {.labels = labels,
                                .count = count,
                                .hash = hash_of(labels, count),
                                .mapping = mapping,
                                .capacity = room};
    status = give_mapping(cache, &query, mapped, &found);
    if (status == VRAM_OK && !found) {
        status = compute_mapping(cache, &query, compute, user, mapped);
    }
    vr_leave(cache);
    return status;
}

/* ----------------------------------------------------------------- the whole */

/* Removes all entries from the table, chained by `next`. Under the lock. */
static struct label_entry *take_all(struct vr_labels *cache) {
    struct label_entry *all = NULL;
    struct vr_link *link;
    while ((link = vr_list_first(&cache->used))) {
        struct label_entry *entry = VR_CONTAINER(link, struct label_entry, link);
        remove_entry(cache, entry);
        entry->next = all;
        all = entry;
    }
    return all;
}

vram_status vram_labels_clear(vram_labels *handle, uint64_t *bytes) {
    VR_CALL;
    struct vr_labels *cache;
    void *entered;
    vram_status status = vr_enter(VR_KIND_LABELS, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    cache = entered;
    vr_mutex_lock(&cache->lock);
    uint64_t held = cache->bytes;
    struct label_entry *removed = take_all(cache);
    vr_mutex_unlock(&cache->lock);
    free_entries(removed);
    if (bytes) {
        *bytes = held;
    }
    vr_leave(entered);
    return VRAM_OK;
}

vram_status vram_labels_info_get(vram_labels *handle, vram_labels_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_LABELS, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_labels *cache = entered;
    vr_mutex_lock(&cache->lock);
    uint64_t asked = cache->hits + cache->misses;
    struct vram_labels_info full = {
        .size = sizeof full,
        .hits = cache->hits,
        .misses = cache->misses,
        .hit_rate = asked ? (double)cache->hits / (double)asked : 0,
        .entries = cache->entries,
        .bytes = cache->bytes,
        .evictions = cache->evictions,
        .unkept = cache->unkept,
        .entries_max = cache->max_entries,
        .bytes_max = cache->max_bytes,
    };
    vr_mutex_unlock(&cache->lock);
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(entered);
    return status;
}

static void labels_free(void *memory) {
    struct vr_labels *cache = memory;
    if (cache->chains) {
        free_entries(take_all(cache));
        vr_mem_free(cache->chains);
    }
    vr_mutex_destroy(&cache->lock);
    vr_mem_free(cache);
}

vram_status vram_labels_create(const vram_labels_options *options, vram_labels **out) {
    VR_CALL;
    struct vram_labels_options taken;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the cache is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    struct vr_labels *cache =
        status == VRAM_OK ? vr_mem_alloc(1, sizeof *cache, vr_operation()) : NULL;
    if (!cache) {
        return status == VRAM_OK ? VRAM_ERR_HOST_MEMORY : status;
    }
    vr_mutex_init(&cache->lock, VR_RANK_SCOPE);
    vr_list_init(&cache->used);
    cache->object.process = vr_os_process_generation();
    cache->max_entries = taken.entries ? taken.entries : ENTRIES_DEFAULT;
    cache->max_bytes = taken.max_bytes ? taken.max_bytes : BYTES_DEFAULT;
    cache->chain_count = CHAINS_FIRST;
    cache->chains = vr_mem_alloc(CHAINS_FIRST, sizeof(struct label_entry *), vr_operation());
    status = cache->chains
                 ? vr_handle_publish(VR_KIND_LABELS, cache, labels_free, &cache->object.handle)
                 : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        labels_free(cache);
        return status;
    }
    *out = (vram_labels *)(uintptr_t)cache->object.handle;
    return VRAM_OK;
}

vram_status vram_labels_destroy(vram_labels *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_LABELS, handle, NULL, "the cache is being destroyed");
}
