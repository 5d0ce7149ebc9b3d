/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c: the slow paths of cache.h: tables of caches, bins that change size, emptying.
 *
 *  (1) A thread's table is open addressing with at most half of its slots used. Caches are dropped
 *      when a pool, a queue or a thread ends; the run of entries behind one is then rehashed.
 *  (2) The bytes of a large block in an exact bin are charged to the pool when the bin adopts its
 *      size, and uncharged when the bin changes it, not at every hit: a bin that alternates between
 *      full and empty with one size stays charged for it.
 *  (3) A large block in a thread cache is memory that cannot be merged. When the pool needs memory
 *      it drains the caches; after that large blocks go directly to the space. Once some thousands
 *      have, they are cached again. Each time another drain shows that this was too early, twice as
 *      many are skipped.
 */
#include "core/cache/cache.h"

#include "base/error.h"
#include "base/memory.h"
#include "core/cache/drain.h"

#include <assert.h>
#include <string.h>

/* -------------------------------------------------------------------- table */

static uint32_t table_hash(uint64_t pool, struct vr_queue_id id) {
    uint64_t queue = id.handle;
    uint64_t mixed = (pool ^ (queue << 17 | queue >> 47)) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

struct vr_cache *vr_cache_find_slow(struct vr_thread_state *thread, uint64_t pool,
                                    struct vr_queue_id queue) {
    if (!thread->caches) {
        return NULL;
    }
    struct vr_cache *watched = thread->watched;
    if (watched && watched->pool_handle == pool && vr_queue_id_same(watched->queue, queue)) {
        return watched;
    }
    for (uint32_t at = table_hash(pool, queue);; at++) {
        struct vr_cache *cache = thread->caches[at & thread->cache_mask];
        if (!cache) {
            return NULL;
        }
        if (cache->pool_handle == pool && vr_queue_id_same(cache->queue, queue)) {
            if (vr_cache_is_watched(cache)) {
                thread->watched = cache;
            } else {
                thread->recent = cache;
            }
            return cache;
        }
    }
}

static void table_put(struct vr_cache **table, uint32_t mask, struct vr_cache *cache) {
    uint32_t at = table_hash(cache->pool_handle, cache->queue);
    while (table[at & mask]) {
        at++;
    }
    table[at & mask] = cache;
}

/* An empty table for `count` caches; NULL if memory ran out. */
static struct vr_cache **table_make(uint32_t count, uint32_t *mask) {
    uint32_t slots = 8;
    while (slots < 2 * count) {
        slots *= 2;
    }
    *mask = slots - 1;
    return vr_mem_alloc(slots, sizeof(struct vr_cache *), "vram_alloc");
}

/* Moves all present caches and `added` into a new table. Inside enter; the caller frees the old
   table, which is returned. */
static struct vr_cache **table_replace(struct vr_thread_state *thread, struct vr_cache **table,
                                       uint32_t mask, struct vr_cache *added) {
    struct vr_cache **old = thread->caches;
    assert(vr_load(&thread->busy, VR_RELAXED));
    assert(2 * (thread->cache_count + 1) <= mask + 1); /* keeps (1): every probe ends */
    for (uint32_t i = 0; old && i <= thread->cache_mask; i++) {
        if (old[i]) {
            table_put(table, mask, old[i]);
        }
    }
    table_put(table, mask, added);
    thread->caches = table;
    thread->cache_mask = mask;
    thread->cache_count++;
    thread->recent = vr_cache_is_watched(added) ? NULL : added;
    return old;
}

/* Other threads may drop caches of this thread whenever it is not inside. So the caches are counted
   inside, the table is allocated outside, where malloc may be called, and filled inside again: by
   then there may be fewer caches, not more. */
struct vr_cache *vr_cache_make(struct vr_thread_state *thread, struct vr_pool *pool,
                               uint64_t pool_handle, struct vr_queue_id queue) {
    uint32_t mask;
    struct vr_cache *cache = vr_mem_alloc(1, sizeof *cache, "vram_alloc");
    if (!cache) {
        return NULL;
    }
    (void)vr_thread_enter_wait(thread);
    uint32_t count = thread->cache_count + 1;
    vr_thread_leave(thread);
    struct vr_cache **table = table_make(count, &mask);
    if (!table) {
        vr_mem_free(cache);
        return NULL;
    }
    cache->pool_handle = pool_handle;
    cache->queue = queue;
    cache->pool = pool;
    cache->thread = thread;
    cache->watched = pool->traced;
    (void)vr_thread_enter_wait(thread);
    cache->depth = vr_load(&pool->caps.small_blocks, VR_RELAXED); /* inside: a drain renews it */
    struct vr_cache **old = table_replace(thread, table, mask, cache);
    vr_thread_leave(thread);
    vr_mem_free(old);
    return cache;
}

/* Rehashes in place and does not allocate a smaller table: nothing may fail here. */
void vr_cache_drop(struct vr_cache *cache) {
    struct vr_thread_state *thread = cache->thread;
    assert(thread->cache_count > 0 && vr_cache_bytes(cache) == 0 && cache->large_bytes == 0);
    for (uint32_t i = 0; i <= thread->cache_mask; i++) {
        if (thread->caches[i] == cache) {
            thread->caches[i] = NULL;
            /* Entries behind it may have been displaced by it: rehash the run. */
            for (uint32_t at = i + 1; thread->caches[at & thread->cache_mask]; at++) {
                struct vr_cache *moved = thread->caches[at & thread->cache_mask];
                thread->caches[at & thread->cache_mask] = NULL;
                table_put(thread->caches, thread->cache_mask, moved);
            }
            break;
        }
    }
    thread->recent = thread->watched = NULL;
    if (--thread->cache_count == 0) {
        vr_mem_free(thread->caches);
        thread->caches = NULL;
        thread->cache_mask = 0;
    }
    vr_mem_free(cache);
}

/* --------------------------------------------------------------------- bins */

/* Clears the size of an empty bin, and uncharges it; keeps (2). */
static void bin_clear(struct vr_cache *cache, struct vr_exact_bin *bin) {
    assert(bin->count == 0);
    if (bin->bytes > VR_LARGE_BYTES) {
        assert(cache->large_bytes >= bin->bytes); /* charged by bin_adopts */
        vr_pool_large_give(cache->pool, bin->bytes);
        cache->large_bytes -= bin->bytes;
    }
    vr_count(&cache->counts.allocs, bin->hits);
    bin->bytes = bin->hits = 0;
    bin->used = false;
}

/* Gives an empty bin the size `bytes`; false if it is not empty and has another, or may not. */
static bool bin_adopts(struct vr_cache *cache, struct vr_exact_bin *bin, uint64_t bytes) {
    if (bin->bytes == bytes) {
        return true;
    }
    if (bin->count) {
        return false;
    }
    bin_clear(cache, bin);
    if (bytes > VR_LARGE_BYTES) {
        if (cache->skip_large > 0) { /* keeps (3) */
            cache->skip_large--;
            return false;
        }
        if (!vr_pool_large_take(cache->pool, bytes)) {
            return false;
        }
        cache->large_bytes += bytes;
    }
    bin->bytes = bytes;
    return true;
}

bool vr_cache_put_slow(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    struct vr_exact_bin *bin = &cache->exact[vr_exact_index(bytes)];
    uint32_t most = vr_load(&cache->pool->caps.cached_blocks, VR_RELAXED);
    uint32_t depth = bytes > VR_LARGE_BYTES && most ? 1 : most; /* 0: it has no share */
    if (bin->count >= depth || !bin_adopts(cache, bin, bytes)) {
        return false;
    }
    bin->blocks[bin->count++] = block;
    return true;
}

static uint32_t empty_bin(uint32_t *count, struct vr_block **from, struct vr_block **blocks,
                          uint32_t capacity) {
    uint32_t taken = 0;
    while (*count && taken < capacity) {
        blocks[taken++] = from[--*count];
    }
    return taken;
}

uint32_t vr_cache_empty(struct vr_cache *cache, struct vr_block **blocks, uint32_t capacity) {
    uint32_t taken = 0;
    for (uint32_t i = 1; i <= VR_SMALL_UNITS; i++) {
        struct vr_bin *bin = &cache->small[i];
        taken += empty_bin(&bin->count, bin->blocks, blocks + taken, capacity - taken);
    }
    for (uint32_t i = 0; i < VR_EXACT_BINS; i++) {
        struct vr_exact_bin *bin = &cache->exact[i];
        taken += empty_bin(&bin->count, bin->blocks, blocks + taken, capacity - taken);
        if (!bin->count && bin->bytes) {
            bin_clear(cache, bin); /* it may have no share any more */
        }
    }
    return taken;
}

uint64_t vr_cache_bytes(const struct vr_cache *cache) {
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= VR_SMALL_UNITS; i++) {
        bytes += (uint64_t)cache->small[i].count * i * VR_UNIT;
    }
    for (uint32_t i = 0; i < VR_EXACT_BINS; i++) {
        bytes += cache->exact[i].count * cache->exact[i].bytes;
    }
    return bytes;
}

/* ----------------------------------------------------------- bins one by one */

uint64_t vr_cache_hits(const struct vr_cache *cache) {
    uint64_t hits = 0;
    for (uint32_t i = 0; i <= VR_SMALL_UNITS; i++) {
        hits += cache->small[i].hits;
    }
    for (uint32_t i = 0; i < VR_EXACT_BINS; i++) {
        hits += cache->exact[i].hits;
    }
    return hits;
}

/* The common fields of both kinds of bin. */
struct bin_fields {
    uint64_t bytes;
    uint32_t *count;
    bool *used;
    uint64_t *hits;
    struct vr_block **blocks;
};

static struct bin_fields fields_of(struct vr_cache *cache, uint32_t at) {
    if (at <= VR_SMALL_UNITS) {
        struct vr_bin *bin = &cache->small[at];
        return (struct bin_fields){(uint64_t)at * VR_UNIT, &bin->count, &bin->used, &bin->hits,
                                   bin->blocks};
    }
    struct vr_exact_bin *bin = &cache->exact[at - VR_SMALL_UNITS - 1];
    return (struct bin_fields){bin->bytes, &bin->count, &bin->used, &bin->hits, bin->blocks};
}

struct vr_bin_view vr_cache_bin_view(struct vr_cache *cache, uint32_t at) {
    struct bin_fields bin = fields_of(cache, at);
    struct vr_bin_view view = {bin.bytes, *bin.count, *bin.used || *bin.hits, *bin.hits};
    vr_count(&cache->counts.allocs, *bin.hits);
    *bin.hits = 0;
    *bin.used = view.used;
    return view;
}

void vr_cache_tick(struct vr_cache *cache, uint32_t at) {
    *fields_of(cache, at).used = false;
}

void vr_cache_thin(struct vr_cache *cache, uint32_t at, uint32_t count, struct vr_block **blocks) {
    struct bin_fields bin = fields_of(cache, at);
    assert(count <= *bin.count && count <= VR_SMALL_DEPTH);
    memcpy(blocks, bin.blocks, count * sizeof *blocks);
    *bin.count -= count;
    memmove(bin.blocks, bin.blocks + count, *bin.count * sizeof *blocks);
    if (at > VR_SMALL_UNITS && !*bin.count) {
        bin_clear(cache, &cache->exact[at - VR_SMALL_UNITS - 1]);
    }
}

/* ------------------------------------------------------------- large blocks */

bool vr_pool_large_take(struct vr_pool *pool, uint64_t bytes) {
    uint64_t left = vr_load(&pool->large_left, VR_RELAXED);
    while ((int64_t)left >= (int64_t)bytes) { /* may be below 0 after limits were lowered */
        if (vr_cas_weak(&pool->large_left, &left, left - bytes, VR_RELAXED)) {
            return true;
        }
    }
    return false;
}

void vr_pool_large_give(struct vr_pool *pool, uint64_t bytes) {
    vr_fetch_add(&pool->large_left, bytes, VR_RELAXED);
}
