/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tagged.c: allocations with options, and the hit path of those whose only option is a tag.
 *
 * Such a hit is a hit without a tag (pool.c) that is also charged to its tag. It needs no reference
 * to pool, queue or tag: a pool does not end while the thread is inside its cache, and a tag lives
 * as long as its context (tag.h). Tags with quotas, which may refuse or call a callback, take the
 * request path.
 */
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/hit.h"
#include "core/pool/pool_calls.h"

static bool is_only_tagged(const vram_alloc_options *options) {
    return options->size == sizeof *options && options->tag && *options->tag &&
           !options->alignment && !options->flags && !options->reserve_bytes && !options->name &&
           !options->elements;
}

/* The tag of that name, if it was used recently, has no quota and the cache's pool has no safety
   mode. The thread is inside its caches. */
static struct vr_tag *recent_tag(const struct vr_cache *cache, const char *name) {
    const struct vr_pool *pool = cache->pool;
    bool plain = !vr_load(&pool->guard.modes, VR_RELAXED);
    struct vr_tag *tag = plain ? vr_tag_recent(vr_ledger_of(pool->device), name) : NULL;
    return tag && !vr_tag_has_quota(tag) ? tag : NULL;
}

/* False: there is no such hit, and nothing has changed. */
static bool hit_tagged(vram_pool *pool, uint64_t size, vram_queue *queue, const char *name,
                       vram_addr *addr) {
    struct vr_thread_state *thread = vr_thread_current;
    uint64_t bytes;
    if (!thread || !addr || !vr_block_bytes(size, &bytes) || !vr_thread_enter(thread)) {
        return false;
    }
    struct vr_cache *cache = vr_cache_find(thread, (uintptr_t)pool, vr_queue_id_of(queue));
    struct vr_tag *tag =
        cache && vr_pool_bucket(cache->pool, &bytes) ? recent_tag(cache, name) : NULL;
    if (tag && vr_hit_from(cache, size, bytes, tag, addr)) {
        return true;
    }
    vr_thread_leave(thread);
    return false;
}

vram_status vr_alloc_with(vram_pool *pool, uint64_t size, vram_queue *queue,
                          const vram_alloc_options *options, vram_addr *addr) {
    if (!options) {
        return vr_alloc(pool, size, queue, addr);
    }
    if (is_only_tagged(options) && hit_tagged(pool, size, queue, options->tag, addr)) {
        return VRAM_OK;
    }
    return vr_pool_alloc_slow(pool, size, queue, options, addr);
}

/* A block that the program has freed meanwhile, by an address of an earlier block, is not the
   object's: the next one is. */
vram_status vr_alloc_owned(vram_pool *pool, uint64_t size, vram_queue *queue,
                           const vram_alloc_options *options, vram_addr *addr) {
    vram_status status;
    do {
        status = vr_alloc_with(pool, size, queue, options, addr);
    } while (status == VRAM_OK && !vr_pool_own((uintptr_t)pool, *addr, true));
    return status;
}

vram_status vram_alloc_with(vram_pool *pool, uint64_t size, vram_queue *queue,
                            const vram_alloc_options *options, vram_addr *addr) {
    return vr_alloc_with(pool, size, queue, options, addr);
}
