/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortcut_world.h: what the tests of the short way of a miss (shortcut.c) share.
 *
 * The linker puts __wrap_vr_pool_alloc_shortcut between vram_alloc and the short way. It counts who
 * asks there and who is served, and keeps one pool off. It puts __wrap_vr_pool_reap into the one
 * moment at which a block has left the space and is nobody's yet.
 */
#ifndef TEST_SHORTCUT_WORLD_H
#define TEST_SHORTCUT_WORLD_H

#include "byte_units.h"
#include "core/object/pool_object.h"
#include "unit/child.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#define HERE(test) cmocka_unit_test_setup_teardown(test, begin, nothing_left)

static atomic_uint asked, served;
static _Atomic(vram_pool *) kept_off;
static void (*reap_meanwhile)(void *argument);
static void *reap_argument;

bool __real_vr_pool_alloc_shortcut(vram_pool *pool, uint64_t size, uint64_t bytes,
                                   vram_queue *queue, vram_addr *addr);
bool __wrap_vr_pool_alloc_shortcut(vram_pool *pool, uint64_t size, uint64_t bytes,
                                   vram_queue *queue, vram_addr *addr);
void __real_vr_pool_reap(struct vr_pool *pool);
void __wrap_vr_pool_reap(struct vr_pool *pool);

bool __wrap_vr_pool_alloc_shortcut(vram_pool *pool, uint64_t size, uint64_t bytes,
                                   vram_queue *queue, vram_addr *addr) {
    if (pool == atomic_load(&kept_off)) {
        return false;
    }
    bool done = __real_vr_pool_alloc_shortcut(pool, size, bytes, queue, addr);
    atomic_fetch_add(&asked, 1);
    atomic_fetch_add(&served, done);
    return done;
}

void __wrap_vr_pool_reap(struct vr_pool *pool) {
    void (*meanwhile)(void *) = reap_meanwhile;
    reap_meanwhile = NULL;
    if (meanwhile) {
        meanwhile(reap_argument);
    }
    __real_vr_pool_reap(pool);
}

static inline void forget(void) {
    atomic_store(&asked, 0);
    atomic_store(&served, 0);
}

static inline int begin(void **state) {
    forget();
    atomic_store(&kept_off, NULL);
    reap_meanwhile = NULL;
    return start(state);
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
