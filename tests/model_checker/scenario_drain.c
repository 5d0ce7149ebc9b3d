/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_drain.c: hits of vram_alloc and vram_free (core/pool/pool.c) beside a drain of all
 * thread caches (core/cache/drain.c). A block is in one place only: `content` is written by whoever
 * has allocated it, and by the space when the block is back there.
 */
#include "explore_scenario.h"

#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"

enum { BYTES = VR_UNIT, SIZE = BYTES - 1, ADDRESS = 1 << 20, DEPTH = 4 };

static struct vr_pool pool;
static struct vr_block *block;
static struct vr_cache *caches[2];
static unsigned content;    /* of the block's memory */
static unsigned in_space;   /* times that it came back */
static vr_atomic_u64 given; /* an address that one thread passes to the other */

static vram_pool *pool_handle(void) {
    return (vram_pool *)(uintptr_t)pool.object.handle;
}

/* ------------------------------------------------ what is not explored here */

void vr_space_free(struct vr_space *space, struct vr_block *freed) {
    (void)space;
    CHECK(freed == block && vr_block_is_free(block));
    content = 0;
    in_space++;
}

void vr_fallback_reap(struct vr_pool *reaped) {
    (void)reaped;
}

void vr_pool_flush(struct vr_pool *flushed) {
    (void)flushed;
}

bool vr_limit_caches_add(struct vr_pool *of, bool added) {
    (void)of;
    (void)added;
    return false;
}

void vr_limit_trim_cached(struct vr_pool *trimmed) {
    (void)trimmed;
}

struct vr_block *vr_guard_find(struct vr_pool *within, vram_addr addr) {
    return vr_block_table_find(&within->table, addr);
}

/* Says why, under the pool's lock. */
vram_status vr_pool_no_block(struct vr_pool *within, vram_addr addr) {
    vr_mutex_lock(&within->lock);
    (void)vr_guard_find(within, addr);
    vr_mutex_unlock(&within->lock);
    return VRAM_ERR_INVALID;
}

vram_status vr_pool_enter(vram_pool *handle, vram_queue *queue_handle, struct vr_pool **entered,
                          struct vr_queue_object **queue) {
    (void)handle;
    (void)queue_handle;
    *entered = &pool;
    *queue = NULL;
    return VRAM_OK;
}

void vr_pool_leave(struct vr_pool *left, struct vr_queue_object *queue) {
    (void)left;
    (void)queue;
}

/* A miss: the scenario has no more memory. */
bool vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes,
                            vram_addr *addr) {
    (void)cache;
    (void)size;
    (void)bytes;
    (void)addr;
    return false;
}

bool vr_guard_widen(const struct vr_pool *of, struct vr_request *request) {
    (void)of;
    (void)request;
    return false; /* the request fails */
}

static void pool_make(void) {
    pool.object.handle = 0x100;
    vr_mutex_init(&pool.lock, VR_RANK_POOL);
    vr_store(&pool.caps.small_blocks, DEPTH, VR_RELAXED);
    CHECK(vr_block_table_reserve(&pool.table) == VRAM_OK);
    block = scenario_memory(sizeof *block);
    vr_store(&block->addr, ADDRESS, VR_RELAXED);
    vr_store(&block->bytes, BYTES, VR_RELAXED);
}

static void thread_begin(void) {
    (void)vr_thread_get();
}

static void cache_make(unsigned at) {
    struct vr_thread_state *thread = vr_thread_get();
    caches[at] = vr_cache_make(thread, &pool, pool.object.handle, VR_NO_QUEUE);
    CHECK(caches[at]);
}

static void block_leaves_space(void) {
    vr_mutex_lock(&pool.lock);
    vr_pool_leave_space(&pool, block, VR_NO_QUEUE);
    vr_mutex_unlock(&pool.lock);
}

static void first_begin(void) {
    cache_make(0);
    block_leaves_space();
    vr_count(&caches[0]->counts.frees, 1); /* as a free does before it */
    CHECK(vr_cache_put(caches[0], block, BYTES));
}

static void second_begin(void) {
    cache_make(1);
}

/* The block is in the first thread's cache. */
static void one_cached(void) {
    pool_make();
    fiber_act_as(0, first_begin);
    fiber_act_as(1, second_begin);
}

static void alloc_and_free(void) {
    vram_addr addr;
    if (vr_alloc(pool_handle(), BYTES, NULL, &addr) == VRAM_OK) {
        content++;
        CHECK(vr_free(pool_handle(), addr, NULL) == VRAM_OK);
    }
}

static void alloc_and_give(void) {
    vram_addr addr;
    if (vr_alloc(pool_handle(), BYTES, NULL, &addr) == VRAM_OK) {
        content++;
        vr_store(&given, addr, VR_RELEASE);
    }
}

static void take_and_free(void) {
    vram_addr addr = vr_load(&given, VR_ACQUIRE);
    if (addr) {
        content++;
        CHECK(vr_free(pool_handle(), addr, NULL) == VRAM_OK);
    }
}

/* The program has the block. */
static void first_alloc(void) {
    vram_addr addr;
    CHECK(vr_alloc(pool_handle(), BYTES, NULL, &addr) == VRAM_OK && addr == ADDRESS);
}

static void one_live(void) {
    one_cached();
    fiber_act_as(0, first_alloc);
}

static void free_it(void) {
    content++;
    CHECK(vr_free(pool_handle(), ADDRESS, NULL) == VRAM_OK);
}

/* Two threads free it: one of them made a mistake, and is told so. */
static vr_atomic_u32 freed;

static void free_it_or_not(void) {
    if (vr_free(pool_handle(), ADDRESS, NULL) == VRAM_OK) {
        vr_fetch_add(&freed, 1, VR_RELAXED);
    }
}

static void drain(void) {
    (void)vr_pool_drain(&pool);
}

/* As a pool that ends, or whose memory falls asleep. */
static void caches_end(void) {
    vr_store(&pool.uncached, VR_UNCACHED_ENDED, VR_RELAXED);
    vr_pool_drop_caches(&pool, VR_NO_QUEUE);
}

/* The thread has no cache yet. */
static void block_is_cached(void) {
    struct vr_cache *cache = vr_pool_cache_enter(&pool, NULL);
    if (cache) {
        block_leaves_space();
        vr_count(&cache->counts.frees, 1);
        CHECK(vr_cache_put(cache, block, BYTES));
        vr_thread_leave(cache->thread);
    }
}

static void pool_and_thread(void) {
    pool_make();
    fiber_act_as(0, thread_begin);
}

/* The thread is new, too. */
static void pool_and_other_thread(void) {
    pool_make();
    fiber_act_as(1, thread_begin);
}

static void pool_and_thread_without_barrier(void) {
    pool_and_thread();
    vr_store(&vr_thread_biased, false, VR_RELAXED);
}

static void has_no_cache(struct vr_thread_state *thread, void *user) {
    (void)user;
    CHECK(!thread->caches);
}

static void no_cache_is_left(void) {
    vr_thread_visit_all(has_no_cache, NULL);
    CHECK(vr_block_is_free(block) && pool.central.held_bytes == 0);
}

static void allocation(void) {
    vram_addr addr;
    CHECK(vr_alloc(pool_handle(), SIZE, NULL, &addr) == VRAM_OK);
}

/* As the walks of core/live and core/tracking. */
static void live_blocks_are_read(void) {
    uint64_t at = 0;
    vr_mutex_lock(&pool.lock);
    for (struct vr_block *found; (found = vr_block_table_next(&pool.table, &at));) {
        if (vr_block_is_live(found)) {
            CHECK(vr_load(&found->requested, VR_RELAXED) == SIZE);
        }
    }
    vr_mutex_unlock(&pool.lock);
}

static void is_in_one_place(void) {
    unsigned cached = caches[0]->small[1].count + caches[1]->small[1].count;
    unsigned central = (unsigned)(pool.central.held_bytes / BYTES);
    CHECK(cached + central + in_space + vr_block_is_live(block) == 1);
}

static void is_freed_once(void) {
    is_in_one_place();
    CHECK(vr_load(&freed, VR_RELAXED) == 1);
}

const struct scenario drain_scenarios[] = {
    {"thread caches",
     "an allocation beside a drain",
     one_cached,
     {alloc_and_give, drain},
     is_in_one_place,
     false},
    {"thread caches", "a free beside a drain", one_live, {free_it, drain}, is_in_one_place, true},
    {"thread caches",
     "freed by another thread",
     one_cached,
     {alloc_and_give, take_and_free},
     is_in_one_place,
     false},
    {"thread caches",
     "freed twice",
     one_live,
     {free_it_or_not, free_it_or_not},
     is_freed_once,
     false},
    {"thread caches",
     "a pair beside a drain",
     one_cached,
     {alloc_and_free, drain},
     is_in_one_place,
     true},
    {"thread caches",
     "an allocation beside a walk",
     one_cached,
     {allocation, live_blocks_are_read},
     is_in_one_place,
     false},
    {"thread caches",
     "a first cache beside the end",
     pool_and_thread,
     {block_is_cached, caches_end},
     no_cache_is_left,
     true},
    {"thread caches",
     "a first cache of a new thread",
     pool_and_other_thread,
     {block_is_cached, caches_end},
     no_cache_is_left,
     true},
    {"thread caches",
     "a first cache without barrier",
     pool_and_thread_without_barrier,
     {block_is_cached, caches_end},
     no_cache_is_left,
     true},
    {.name = NULL}};
