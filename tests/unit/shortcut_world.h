/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortcut_world.h: what the tests of the short way of a miss (shortcut.c) share.
 *
 * The linker puts __wrap_vr_pool_alloc_shortcut between vram_alloc and the short way. It counts who
 * asks there and who is served, and keeps one pool off; likewise for vram_free. It puts
 * __wrap_vr_pool_supply into the one moment, on the long way, at which a block has left the space
 * and is nobody's yet.
 */
#ifndef TEST_SHORTCUT_WORLD_H
#define TEST_SHORTCUT_WORLD_H

#include "byte_units.h"
#include "core/object/pool_object.h"
#include "core/pool/pool_calls.h"
#include "unit/child.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#define HERE(test) cmocka_unit_test_setup_teardown(test, begin, nothing_left)

static atomic_uint asked, served, spilled;
static _Atomic(vram_pool *) kept_off;
static void (*supplied_meanwhile)(void *argument);
static void *supplied_argument;

bool __real_vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes,
                                   vram_addr *addr);
bool __wrap_vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes,
                                   vram_addr *addr);
bool __real_vr_pool_free_shortcut(struct vr_cache *cache, struct vr_block *block, uint64_t bytes);
bool __wrap_vr_pool_free_shortcut(struct vr_cache *cache, struct vr_block *block, uint64_t bytes);
vram_status __real_vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                                  struct vr_block **block, struct vr_block **more, uint32_t *extra);
vram_status __wrap_vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                                  struct vr_block **block, struct vr_block **more, uint32_t *extra);

static bool is_kept_off(const struct vr_cache *cache) {
    return cache->pool_handle == (uintptr_t)atomic_load(&kept_off);
}

bool __wrap_vr_pool_alloc_shortcut(struct vr_cache *cache, uint64_t size, uint64_t bytes,
                                   vram_addr *addr) {
    if (is_kept_off(cache)) {
        return false;
    }
    bool done = __real_vr_pool_alloc_shortcut(cache, size, bytes, addr);
    atomic_fetch_add(&asked, 1);
    atomic_fetch_add(&served, done);
    return done;
}

bool __wrap_vr_pool_free_shortcut(struct vr_cache *cache, struct vr_block *block, uint64_t bytes) {
    bool done = !is_kept_off(cache) && __real_vr_pool_free_shortcut(cache, block, bytes);
    atomic_fetch_add(&spilled, done);
    return done;
}

vram_status __wrap_vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                                  struct vr_block **block, struct vr_block **more,
                                  uint32_t *extra) {
    vram_status status = __real_vr_pool_supply(pool, request, block, more, extra);
    void (*meanwhile)(void *) = supplied_meanwhile;
    supplied_meanwhile = NULL;
    if (meanwhile) {
        meanwhile(supplied_argument);
    }
    return status;
}

static inline void forget(void) {
    atomic_store(&asked, 0);
    atomic_store(&served, 0);
    atomic_store(&spilled, 0);
}

static inline int begin(void **state) {
    forget();
    atomic_store(&kept_off, NULL);
    supplied_meanwhile = NULL;
    return start(state);
}

/* Whether the short way serves it, though nothing else was tried. */
static inline bool ask(vram_pool *pool, uint64_t bytes, vram_queue *queue, vram_addr *addr) {
    struct vr_thread_state *thread = vr_thread_get();
    assert_true(vr_thread_enter(thread));
    struct vr_cache *cache = vr_cache_find(thread, (uintptr_t)pool, vr_queue_id_of(queue));
    bool done = cache && __real_vr_pool_alloc_shortcut(cache, bytes, bytes, addr);
    if (!done) {
        vr_thread_leave(thread);
    }
    return done;
}

/* What has happened since the last look. */
static inline void expect(unsigned were_asked, unsigned were_served) {
    assert_int_equal(atomic_exchange(&asked, 0), were_asked);
    assert_int_equal(atomic_exchange(&served, 0), were_served);
}

/* Debug builds track by themselves, and a pool that tells has no short way. */
static inline vram_pool *pool_of(vram_device *device, uint32_t flags, uint64_t cached_bytes) {
    vram_limits limits = {
        .size = sizeof limits, .tracking = VRAM_SWITCH_OFF, .cached_bytes = cached_bytes};
    vram_pool_options options = {.size = sizeof options, .flags = flags, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static inline vram_addr take(vram_pool *pool, uint64_t size, vram_queue *queue) {
    vram_addr addr = 0;
    assert_ok(vram_alloc(pool, size, queue, &addr));
    return addr;
}

#endif
