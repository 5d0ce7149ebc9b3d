/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_threads.c: bugs of others that needed two threads. ThreadSanitizer runs them all; the
 * contents of blocks show on any machine what only a weakly ordered one would do.
 */
#include "others_bugs/bugs.h"

#include "byte_units.h"
#include "unit/buffer_world.h"
#include "unit/share_world.h"
#include "vram/vram.h"

#include <pthread.h>

static int others_bugs_begin(void) {
    return start();
}

static int others_bugs_end(void) {
    return nothing_left();
}

enum { THREADS = 4 };

struct worker {
    struct rig *rig;
    vram_pool *pool;
    uint64_t number, rounds;
    vr_atomic_u64 *slots; /* blocks on their way between threads */
};

static void workers_run(struct rig *rig, vram_pool *pool, uint64_t rounds,
                        void *(*const run[])(void *), int count) {
    pthread_t threads[8];
    struct worker workers[8];
    vr_atomic_u64 slots[64];
    memset(slots, 0, sizeof slots);
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){rig, pool, (uint64_t)i + 1, rounds, slots};
        assert_int_equal(pthread_create(&threads[i], NULL, run[i], &workers[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 64; i++) {
        vram_addr addr = vr_load(&slots[i], VR_RELAXED);
        assert_ok(vram_free(addr, NULL));
    }
}

static uint64_t random_next(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* ----------------------------------------------------------------------- pools */

static void *allocate_and_free(void *argument) {
    const struct worker *worker = argument;
    uint64_t seed = worker->number;
    vram_addr held[8] = {0};
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_addr *at = &held[random_next(&seed) % 8];
        assert_ok(vram_free(*at, worker->rig->queue));
        assert_ok(vram_alloc(worker->pool, random_next(&seed) % 20000, worker->rig->queue, at));
    }
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_free(held[i], worker->rig->queue));
    }
    return NULL;
}

/* Four threads, 100,000 operations each, one pool. */
BUG(16, four_threads_one_pool) {
    void *(*const run[])(void *) = {allocate_and_free, allocate_and_free, allocate_and_free,
                                    allocate_and_free};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 500 : 100000, run, THREADS);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

static void *rebuild_often(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->rounds / 20; i++) {
        vram_status status = vram_pool_rebuild(worker->pool, NULL, NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY || status == VRAM_ERR_TIMEOUT);
        assert_ok(vram_pool_trim(worker->pool, NULL, NULL));
    }
    return NULL;
}

/* One thread moves memory together while others allocate. */
BUG(17, moving_beside_allocations) {
    void *(*const run[])(void *) = {rebuild_often, allocate_and_free, allocate_and_free};
    struct rig rig = rig_make("sim", "memory=256M");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 1000 : 4000, run, 3);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

static void *create_and_destroy(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_pool *pool;
        vram_queue *queue;
        vram_buffer *buffer;
        assert_ok(vram_pool_create(worker->rig->device, NULL, &pool));
        assert_ok(vram_queue_create(worker->rig->device, NULL, &queue));
        assert_ok(vram_buffer_create(pool, 1000 + i, queue, NULL, &buffer));
        if (i % 2) {
            assert_ok(vram_buffer_destroy(buffer));
        }
        assert_ok(vram_pool_destroy(pool));
        vram_queue_destroy(queue);
    }
    return NULL;
}

/* Pools, queues and buffers made and destroyed by two threads as fast as they can. */
BUG(18, made_and_destroyed_at_once) {
    void *(*const run[])(void *) = {create_and_destroy, create_and_destroy};
    struct rig rig = rig_make("sim", "memory=256M");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 50 : 300, run, 2);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- mappings */

static vram_buffer *mapped_buffer;

static void *map_and_write(void *argument) {
    const struct worker *worker = argument;
    uint64_t done = 0;
    while (done < worker->rounds) {
        void *bytes;
        vram_status status = vram_buffer_map(mapped_buffer, 0, 4096, VRAM_MAP_READ | VRAM_MAP_WRITE,
                                             worker->rig->queue, &bytes);
        if (status == VRAM_ERR_BUSY) { /* the other thread has it */
            vr_os_yield();
            continue;
        }
        assert_ok(status);
        uint32_t *words = bytes;
        for (int i = 1; i < 1024; i++) {
            assert_int_equal(words[i], words[0]);
        }
        for (int i = 0; i < 1024; i++) {
            words[i]++;
        }
        assert_ok(vram_buffer_unmap(mapped_buffer));
        done++;
    }
    return NULL;
}

/* Two threads map, write and unmap one buffer: one at a time, and no write is lost. */
BUG(19, mappings_of_two_threads) {
    void *(*const run[])(void *) = {map_and_write, map_and_write};
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    uint64_t rounds = BUGS_WATCHED ? 100 : 500;
    uint32_t first = 1;
    vram_addr addr;
    assert_ok(vram_buffer_create(pool, 4096, rig.queue, NULL, &mapped_buffer));
    assert_ok(vram_buffer_addr(mapped_buffer, &addr));
    assert_ok(vram_queue_fill(rig.queue, addr, 0, 4, 4096));
    workers_run(&rig, pool, rounds, run, 2);
    assert_ok(vram_queue_download(rig.queue, &first, addr, sizeof first));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(first, 2 * rounds);
    assert_ok(vram_buffer_destroy(mapped_buffer));
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- lookups */

static void *look_up(void *argument) {
    const struct worker *worker = argument;
    uint64_t seed = worker->number;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_block_info info = {.size = sizeof info};
        vram_native_info native = {.size = sizeof native};
        vram_addr addr = vr_load(&worker->slots[random_next(&seed) % 64], VR_RELAXED);
        vram_status status = vram_block_info_get(addr, &info);
        assert_true(status == VRAM_ERR_INVALID || (status == VRAM_OK && info.addr == addr));
        (void)vram_native(addr, &native);
    }
    return NULL;
}

static void *pass_on(void *argument) {
    const struct worker *worker = argument;
    uint64_t seed = worker->number;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_addr addr;
        uint64_t bytes = random_next(&seed) % 5 ? 1000 : 3 * MIB;
        assert_ok(vram_alloc(worker->pool, bytes, worker->rig->queue, &addr));
        addr = vr_exchange(&worker->slots[random_next(&seed) % 64], addr, VR_ACQ_REL);
        assert_ok(vram_free(addr, worker->rig->queue));
    }
    return NULL;
}

/* Addresses are looked up while their blocks are freed and their memory goes back. */
BUG(22, lookups_beside_frees) {
    void *(*const run[])(void *) = {look_up, look_up, pass_on, rebuild_often};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 1000 : 4000, run, 4);
    rig_end_clean(&rig);
}

static vram_share_token opened_token;

static void *open_and_close(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_share *share;
        vram_share_part part;
        assert_ok(vram_share_open(worker->rig->device, &opened_token, NULL, &share));
        assert_ok(vram_share_parts_get(share, 0, 1, &part));
        vr_store(&worker->slots[63], 0, VR_RELAXED);
        assert_ok(vram_share_close(share));
    }
    return NULL;
}

/* The map of addresses is read and changed while several threads open what was exported. */
BUG(23, opening_beside_lookups) {
    void *(*const run[])(void *) = {open_and_close, open_and_close, look_up, pass_on};
    struct share_world owner;
    vram_share *share;
    assert_int_equal(share_folder_make(), 0);
    share_world_open(&owner, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&owner, 64 * KIB, 7);
    share_export_one(addr, 0, &share, &opened_token);
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 30 : 150, run, 4);
    assert_ok(vram_context_destroy(rig.context));
    share_await_readers(share, 0);
    assert_ok(vram_share_close(share));
    share_world_close(&owner);
    share_folder_remove();
}

/* ------------------------------------------------------------------- statistics */

static vr_atomic_bool counted_enough;

static void *read_statistics(void *argument) {
    const struct worker *worker = argument;
    while (!vr_load(&counted_enough, VR_ACQUIRE)) {
        vram_pool_stats stats = stats_of(worker->pool);
        assert_true(stats.live_blocks <= 3 * 8 + 3);
        assert_true(stats.frees <= stats.allocs);
    }
    return NULL;
}

static void *allocate_and_count(void *argument) {
    static vr_atomic_u32 ended;
    (void)allocate_and_free(argument);
    if (vr_fetch_add(&ended, 1, VR_ACQ_REL) == 2) {
        vr_store(&counted_enough, true, VR_RELEASE);
    }
    return NULL;
}

/* Counters at any time, and exactly at the end. */
BUG(24, statistics_in_step) {
    void *(*const run[])(void *) = {read_statistics, allocate_and_count, allocate_and_count,
                                    allocate_and_count};
    uint64_t rounds = BUGS_WATCHED ? 300 : 10000;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, rounds, run, 4);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.allocs, 3 * rounds);
    assert_int_equal(stats.frees, 3 * rounds);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------- blocks between threads */

/* Its bytes are those of whoever has it, and nobody else has it. */
static void *stamp_and_pass_on(void *argument) {
    const struct worker *worker = argument;
    uint64_t seed = worker->number;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(worker->pool, 256, NULL, &addr));
        volatile uint64_t *words = (volatile uint64_t *)(uintptr_t)addr;
        uint64_t stamp = worker->number << 32 | i;
        for (int at = 0; at < 32; at += 8) {
            words[at] = stamp;
        }
        for (int at = 0; at < 32; at += 8) {
            assert_int_equal(words[at], stamp);
        }
        /* Another thread frees it; the next owner may be any. */
        addr = vr_exchange(&worker->slots[random_next(&seed) % 64], addr, VR_ACQ_REL);
        assert_ok(vram_free(addr, NULL));
    }
    return NULL;
}

/* A block's last write is seen before its next owner's first. */
BUG(25, order_of_frees) {
    void *(*const run[])(void *) = {stamp_and_pass_on, stamp_and_pass_on, stamp_and_pass_on,
                                    stamp_and_pass_on};
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, BUGS_WATCHED ? 2000 : 50000, run, THREADS);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    vram_context_destroy(rig.context);
}

static void *take_large(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->rounds; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(worker->pool, 3 * MIB, worker->rig->queue, &addr));
        while (vr_exchange(&worker->slots[i % 64], addr, VR_ACQ_REL)) {
            fail();
        }
        while (vr_load(&worker->slots[i % 64], VR_ACQUIRE)) {
            vr_os_yield();
        }
    }
    return NULL;
}

static void *free_large(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < worker->rounds;) {
        vram_addr addr = vr_load(&worker->slots[i % 64], VR_ACQUIRE);
        if (addr) {
            assert_ok(vram_free(addr, worker->rig->queue));
            vr_store(&worker->slots[i % 64], 0, VR_RELEASE);
            i++;
        } else {
            vr_os_yield();
        }
    }
    return NULL;
}

/* Large blocks that always another thread frees: nothing adds up. */
BUG(26, large_blocks_freed_elsewhere) {
    void *(*const run[])(void *) = {take_large, free_large};
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_whole(rig.device);
    workers_run(&rig, pool, 200, run, 2);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    expect_pool_empty(pool);
    rig_end_clean(&rig);
}

EACH_TEST(others_bugs_begin, others_bugs_end)
