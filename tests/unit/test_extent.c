/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_extent.c: where a block ends, as copies and fills are held to it (vr_block_check). What
 * reaches past the end is refused; what does not never is, whatever other threads do to the block
 * or to its pool meanwhile.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#include <pthread.h>

#define KEPT (128 * KIB) /* of a block that changes, all the while */

static vram_status fill(struct rig *rig, vram_addr addr, uint64_t bytes) {
    return vram_queue_fill(rig->queue, addr, 1, 1, bytes);
}

static vram_pool *pool_of(struct rig *rig, uint32_t flags, const vram_provider *provider) {
    vram_pool_options options = {.size = sizeof options, .flags = flags, .provider = provider};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

/* ----------------------------------------------------------------------- red zones */

/* The zone in front of a block is part of what it holds, and not of what lies behind its
   address. */
TEST(red_zones_end_with_their_block) {
    static const uint64_t alignments[] = {0, 512, 4096, 64 * KIB};
    for (int i = 0; i < 4; i++) {
        vram_alloc_options options = {.size = sizeof options, .alignment = alignments[i]};
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_of(&rig, VRAM_POOL_RED_ZONES, NULL);
        uint64_t front = alignments[i] > 512 ? alignments[i] : 512;
        vram_addr addr;
        assert_ok(vram_alloc_with(pool, 3000, rig.queue, &options, &addr));
        uint64_t held = block_info_of(addr).held_bytes;
        assert_int_equal(held, front + 3072 + 512);
        assert_int_equal(fill(&rig, addr, held - front + 1), VRAM_ERR_INVALID);
        assert_int_equal(fill(&rig, addr, held), VRAM_ERR_INVALID);
        assert_ok(fill(&rig, addr, 3000));
        assert_ok(vram_free(addr, rig.queue)); /* no zone was written to */
        rig_end_clean(&rig);
    }
}

/* ----------------------------------------------------------------------- providers */

static struct {
    vram_addr base;
    uint64_t used;
} arena;

enum { ARENA = 16 << 20 };

static vram_status arena_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    (void)user;
    if (bytes > ARENA - arena.used) {
        return VRAM_ERR_DEVICE_MEMORY;
    }
    *addr = arena.base + arena.used;
    arena.used += bytes;
    return VRAM_OK;
}

static vram_status arena_free(void *user, vram_addr addr, uint64_t bytes) {
    (void)user, (void)addr, (void)bytes;
    return VRAM_OK;
}

/* Memory that a program has from the device and passes on to a pool of its own is still the
   program's: it saves all of it at once, blocks or not. */
TEST(who_provides_memory_may_copy_all_of_it, "sim:memory=1G,real=on") {
    static char host[ARENA];
    vram_provider provider = {.size = sizeof provider, .alloc = arena_alloc, .free = arena_free};
    vram_pool *pool = pool_of(rig, 0, &provider);
    vram_addr addr, lowest = UINT64_MAX;
    arena.used = 0;
    assert_ok(vram_device_alloc(rig->device, ARENA, VRAM_MEMORY_DEVICE, &arena.base));
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(pool, 100 * KIB, rig->queue, &addr));
        lowest = addr < lowest ? addr : lowest;
    }
    assert_int_equal(lowest, arena.base); /* a block begins where the memory does */
    assert_ok(vram_queue_download(rig->queue, host, arena.base, ARENA));
    assert_ok(vram_queue_upload(rig->queue, arena.base, host, ARENA));
    assert_ok(fill(rig, arena.base, ARENA));
    assert_ok(vram_transfer_download(rig->queue, host, arena.base, ARENA, NULL, NULL));
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = arena.base, .bytes = ARENA};
    vram_buffer *buffer;
    assert_ok(vram_buffer_wrap(pool, &wrap, rig->queue, NULL, &buffer));
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(fill(rig, arena.base, ARENA + 1), VRAM_ERR_INVALID);
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_destroy(pool));
    assert_ok(vram_device_free(rig->device, arena.base));
}

/* ------------------------------------------------------------------ blocks that change */

struct change {
    struct rig *rig;
    vram_pool *pool;
    vram_addr addr;
    atomic_bool stop;
    atomic_uint rounds, refused;
};

/* Copies of what the block has all the while. */
static void *copy_on(void *argument) {
    struct change *change = argument;
    vram_queue *queue;
    assert_ok(vram_queue_create(change->rig->device, NULL, &queue));
    while (!atomic_load(&change->stop)) {
        vram_status status = vram_queue_fill(queue, change->addr, 1, 1, KEPT);
        atomic_fetch_add(&change->refused, status != VRAM_OK);
        atomic_fetch_add(&change->rounds, 1);
    }
    vram_queue_destroy(queue);
    return NULL;
}

/* Blocks beside it come and go, too, so that it grows into memory that is there and into new
   memory. */
TEST(copies_go_on_while_a_block_is_resized) {
    for (uint32_t flags = 0; flags <= VRAM_POOL_SEGMENTS; flags += VRAM_POOL_SEGMENTS) {
        struct rig rig = rig_make("sim", "memory=1G");
        struct change change = {.rig = &rig, .pool = pool_of(&rig, flags, NULL)};
        vram_alloc_options options = {.size = sizeof options, .reserve_bytes = 64 * MIB};
        pthread_t threads[2];
        uint64_t seed = 5;
        assert_ok(vram_alloc_with(change.pool, 8 * MIB, NULL, &options, &change.addr));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, copy_on, &change), 0);
        }
        unsigned grown = 0;
        for (int i = 0; i < 150 || atomic_load(&change.rounds) < 150; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            uint64_t bytes = KEPT + (seed >> 33) % (8 * MIB - KEPT);
            vram_status status = vram_resize(change.addr, bytes, NULL);
            assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
            grown += status == VRAM_OK;
            uint64_t held = block_info_of(change.addr).held_bytes;
            assert_int_equal(fill(&rig, change.addr, held + 1), VRAM_ERR_INVALID);
        }
        atomic_store(&change.stop, true);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_true(grown > 50);
        assert_int_equal(atomic_load(&change.refused), 0);
        rig_end_clean(&rig);
    }
}
