/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_owned_blocks.c: memory of buffers, scopes and mappings beside a thread that frees their
 * addresses, as a program does that kept the address of an earlier block. What an object has got is
 * its own.
 */
#include "unit/mem_world.h"
#include "vram/scope.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 4000, BYTES = 3000 };

static atomic_bool stop;
static _Atomic(vram_addr) old; /* last seen; what is there now is not the thread's */

static void *free_old(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        (void)vram_free(atomic_load(&old), NULL);
    }
    return NULL;
}

static void is_live(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    assert_int_equal(info.addr, addr);
    atomic_store(&old, addr);
}

static void buffer_round(vram_pool *pool) {
    vram_buffer_info info = {.size = sizeof info};
    vram_buffer *buffer;
    assert_ok(vram_buffer_create(pool, BYTES, NULL, NULL, &buffer));
    assert_ok(vram_buffer_info_get(buffer, &info));
    is_live(info.addr);
    assert_ok(vram_buffer_destroy(buffer));
}

static void scope_round(vram_pool *pool) {
    vram_scope *scope;
    vram_addr addr;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, BYTES, NULL, &addr));
    is_live(addr);
    (void)vram_scope_end(scope); /* says so if the thread was faster at the last moment */
}

static void beside_frees(const char *backend, void (*one)(vram_pool *pool)) {
    struct rig rig = rig_make(backend, "memory=256M");
    vram_pool *pool = pool_of(&rig, 0);
    pthread_t thread;
    atomic_store(&stop, false);
    atomic_store(&old, 0);
    assert_int_equal(pthread_create(&thread, NULL, free_old, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        one(pool);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_ok(vram_pool_destroy(pool));
    vram_context_destroy(rig.context);
}

TEST(a_new_buffer_has_its_memory) {
    beside_frees("sim", buffer_round);
    beside_frees("host", buffer_round);
}

TEST(a_new_block_of_a_scope_is_the_scopes) {
    beside_frees("sim", scope_round);
    beside_frees("host", scope_round);
}
