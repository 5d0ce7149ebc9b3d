/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c: what a pool promises its users: distinct and aligned blocks, mistakes found out,
 * memory reused in the time of queues, nothing left at the end.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "byte_units.h"
#include "unit/nothing_left.h"
#include "unit/stats_of.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/whole_device.h"

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static struct rig rig_make_with(const char *backend, const char *sim,
                                const vram_pool_options *options) {
    struct rig rig;
    vram_context_options wanted = {.size = sizeof wanted, .backends = backend, .sim = sim};
    assert_int_equal(vram_context_create(&wanted, &rig.context), VRAM_OK);
    assert_int_equal(vram_device_open(rig.context, 0, &rig.device), VRAM_OK);
    assert_int_equal(vram_queue_create(rig.device, NULL, &rig.queue), VRAM_OK);
    assert_int_equal(vram_queue_create(rig.device, NULL, &rig.other), VRAM_OK);
    whole_device(rig.device);
    assert_int_equal(vram_pool_create(rig.device, options, &rig.pool), VRAM_OK);
    return rig;
}

static struct rig rig_make(const char *sim) {
    return rig_make_with("sim", sim, NULL);
}

static void rig_end(struct rig *rig) {
    vram_device_close(rig->device);
    vram_sim_state state = {.size = sizeof state};
    if (vram_sim_state_get(rig->context, &state) == VRAM_OK) {
        char text[200] = "";
        vram_sim_violation(rig->context, 0, text, sizeof text);
        assert_string_equal(text, "");
        assert_int_equal(state.live_bytes, 0);
        assert_int_equal(state.live_handles, 0);
    }
    vram_context_destroy(rig->context);
}

/* ------------------------------------------------------------------- basics */

static void blocks_are_distinct_and_aligned(void **state) {
    enum { COUNT = 300 };
    static vram_addr addrs[COUNT];
    static uint64_t sizes[COUNT];
    (void)state;
    struct rig rig = rig_make("memory=4G");
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = (uint64_t)i * 7919 % (3 * MIB);
        assert_int_equal(vram_alloc(rig.pool, sizes[i], rig.queue, &addrs[i]), VRAM_OK);
        assert_int_equal(addrs[i] % 512, 0);
        for (int j = 0; j < i; j++) {
            bool apart = addrs[i] + (sizes[i] ? sizes[i] : 1) <= addrs[j] ||
                         addrs[j] + (sizes[j] ? sizes[j] : 1) <= addrs[i];
            assert_true(apart);
        }
    }
    vram_pool_stats stats = stats_of(rig.pool);
    assert_int_equal(stats.live_blocks, COUNT);
    for (int i = 0; i < COUNT; i++) {
        vram_block_info info = {.size = sizeof info};
        assert_int_equal(vram_block_info_get(addrs[i], &info), VRAM_OK);
        assert_int_equal(info.requested_bytes, sizes[i]);
        assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
    }
    stats = stats_of(rig.pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.allocated_bytes, 0);
    assert_int_equal(vram_pool_trim(rig.pool, NULL, NULL), VRAM_OK);
    rig_end(&rig);
}

/* Small and large blocks have a space each; neither starves while the other holds memory for
   nothing. */
static void free_memory_of_one_size_serves_another(void **state) {
    enum { COUNT = 1000 };
    static vram_addr addrs[COUNT];
    vram_addr large;
    (void)state;
    for (int vmm = 0; vmm < 2; vmm++) {
        struct rig rig = rig_make(vmm ? "memory=64M" : "memory=64M,vmm=off");
        for (int round = 0; round < 3; round++) {
            assert_int_equal(vram_alloc(rig.pool, 62 * MIB, rig.queue, &large), VRAM_OK);
            assert_int_equal(vram_free(large, rig.queue), VRAM_OK);
            for (int i = 0; i < COUNT; i++) {
                assert_int_equal(vram_alloc(rig.pool, 32 * KIB, rig.queue, &addrs[i]), VRAM_OK);
            }
            for (int i = 0; i < COUNT; i++) {
                assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
            }
        }
        rig_end(&rig);
    }
}

static void a_second_round_makes_no_driver_call(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=4G");
    uint64_t calls = 0;
    for (int round = 0; round < 3; round++) {
        vram_addr addrs[64];
        for (int i = 0; i < 64; i++) {
            assert_int_equal(
                vram_alloc(rig.pool, (uint64_t)(i + 1) * 100 * KIB, rig.queue, &addrs[i]), VRAM_OK);
        }
        for (int i = 0; i < 64; i++) {
            assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
        }
        vram_sim_state state_now = {.size = sizeof state_now};
        assert_int_equal(vram_sim_state_get(rig.context, &state_now), VRAM_OK);
        assert_true(round == 0 || state_now.calls == calls);
        calls = state_now.calls;
    }
    rig_end(&rig);
}

static void a_hit_gives_the_same_block_again(void **state) {
    static const uint64_t sizes[] = {1, 1024, 64 * KIB, MIB, 5 * MIB};
    (void)state;
    struct rig rig = rig_make("memory=4G");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        vram_addr first, again;
        /* Large blocks are kept at hand once the pool has settled: cache.c (3). */
        for (int round = 0; round < 40000; round++) {
            assert_int_equal(vram_alloc(rig.pool, sizes[i], rig.queue, &first), VRAM_OK);
            assert_int_equal(vram_free(first, rig.queue), VRAM_OK);
        }
        uint64_t hits = stats_of(rig.pool).cache_hits;
        assert_int_equal(vram_alloc(rig.pool, sizes[i], rig.queue, &again), VRAM_OK);
        assert_int_equal(first, again);
        assert_int_equal(stats_of(rig.pool).cache_hits, hits + 1);
        assert_int_equal(vram_free(again, rig.queue), VRAM_OK);
    }
    rig_end(&rig);
}

/* ------------------------------------------------------------------ mistakes */

static void expect_said(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("no \"%s\" in: %s", part, vram_error_get()->text);
    }
}

static void mistakes_are_found_out(void **state) {
    vram_addr addr, other;
    (void)state;
    struct rig rig = rig_make("devices=2,memory=1G");
    assert_int_equal(vram_alloc(rig.pool, 5000, rig.queue, &addr), VRAM_OK);
    assert_int_equal(vram_free(addr + 512, rig.queue), VRAM_ERR_INVALID);
    expect_said("or lies inside one");
    assert_int_equal(vram_free(addr + 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_free(77, rig.queue), VRAM_ERR_INVALID);
    expect_said("never a pool's");
    assert_int_equal(vram_free(0, rig.queue), VRAM_OK);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_OK);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
    expect_said("a live block: it was freed already");
    assert_int_equal(vram_pin(addr), VRAM_ERR_INVALID);
    expect_said("a live block: it was freed already");
    assert_int_equal(vram_free(addr, rig.other), VRAM_ERR_INVALID);
    vram_buffer *buffer;
    vram_buffer_info info = {.size = sizeof info};
    assert_int_equal(vram_buffer_create(rig.pool, 64, rig.queue, NULL, &buffer), VRAM_OK);
    assert_int_equal(vram_buffer_info_get(buffer, &info), VRAM_OK);
    assert_int_equal(vram_free(info.addr, rig.queue), VRAM_ERR_INVALID);
    expect_said("belongs to a buffer");
    assert_int_equal(vram_resize(info.addr, 32, rig.queue), VRAM_ERR_INVALID);
    expect_said("belongs to a buffer");
    vram_buffer_destroy(buffer);
    assert_int_equal(vram_alloc(rig.pool, UINT64_MAX, rig.queue, &addr), VRAM_ERR_OVERFLOW);
    assert_true(vram_status_is_exhausted(vram_alloc(rig.pool, UINT64_MAX - 511, rig.queue, &addr)));
    assert_true(
        vram_status_is_exhausted(vram_alloc(rig.pool, UINT64_C(1) << 40, rig.queue, &addr)));
    assert_int_equal(vram_alloc(rig.pool, 1, rig.queue, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(NULL, 1, rig.queue, &addr), VRAM_ERR_INVALID);
    vram_alloc_options bad = {.size = sizeof bad, .alignment = 3000};
    assert_int_equal(vram_alloc_with(rig.pool, 1, rig.queue, &bad, &addr), VRAM_ERR_INVALID);
    bad = (vram_alloc_options){.size = sizeof bad, .flags = 8};
    assert_int_equal(vram_alloc_with(rig.pool, 1, rig.queue, &bad, &addr), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(rig.pool, 100, rig.queue, &other), VRAM_OK);
    vram_pool_destroy(rig.pool);
    assert_int_equal(vram_free(other, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(rig.pool, 1, rig.queue, &addr), VRAM_ERR_STALE);
    vram_pool_destroy(rig.pool);
    rig_end(&rig);
}

/* Records of blocks go from pool to pool. What a thread remembers of one pool's blocks must not be
   taken for another's: each goes back to its own, and none twice. */
static void blocks_go_back_to_their_own_pool(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static vram_addr ours[COUNT], foreign[COUNT];
    struct rig rig = rig_make("memory=1G,granule=64K");
    vram_pool *other;
    assert_int_equal(vram_pool_create(rig.device, NULL, &other), VRAM_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(rig.pool, 512 * (1 + i % 3), rig.queue, &ours[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_free(ours[i], rig.queue), VRAM_OK);
    }
    assert_int_equal(vram_pool_trim(rig.pool, NULL, NULL), VRAM_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(other, 512 * (1 + i % 3), rig.queue, &foreign[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_alloc(rig.pool, 512, rig.queue, &ours[i]), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_free(foreign[i], rig.queue), VRAM_OK);
        assert_int_equal(vram_free(ours[i], rig.queue), VRAM_OK);
        assert_int_equal(vram_free(foreign[i], rig.queue), VRAM_ERR_INVALID);
        assert_int_equal(stats_of(other).live_blocks, COUNT - 1 - i);
        assert_int_equal(stats_of(rig.pool).live_blocks, COUNT - 1 - i);
    }
    rig_end(&rig);
}

/* A block keeps nothing of who had it before. */
static void a_tag_goes_with_its_block(void **state) {
    (void)state;
    struct rig rig = rig_make(NULL);
    vram_alloc_options options = {.size = sizeof options, .tag = "weights"};
    vram_block_info info = {.size = sizeof info};
    vram_addr tagged, plain;
    assert_int_equal(vram_alloc_with(rig.pool, 4096, rig.queue, &options, &tagged), VRAM_OK);
    assert_int_equal(vram_block_info_get(tagged, &info), VRAM_OK);
    assert_string_equal(info.tag, "weights");
    assert_int_equal(vram_free(tagged, rig.queue), VRAM_OK);
    assert_int_equal(vram_alloc(rig.pool, 4096, rig.queue, &plain), VRAM_OK);
    assert_int_equal(plain, tagged);
    assert_int_equal(vram_block_info_get(plain, &info), VRAM_OK);
    assert_null(info.tag);
    assert_int_equal(vram_free(plain, rig.queue), VRAM_OK);
    rig_end(&rig);
}

static void alignment_is_kept(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=4G");
    for (uint64_t align = 256; align <= 2 * MIB; align *= 2) {
        vram_alloc_options options = {.size = sizeof options, .alignment = align, .tag = "a"};
        vram_addr addr, small;
        assert_int_equal(vram_alloc(rig.pool, 700, rig.queue, &small), VRAM_OK);
        assert_int_equal(vram_alloc_with(rig.pool, 3000, rig.queue, &options, &addr), VRAM_OK);
        assert_int_equal(addr % align, 0);
        vram_block_info info = {.size = sizeof info};
        assert_int_equal(vram_block_info_get(addr, &info), VRAM_OK);
        assert_string_equal(info.tag, "a");
        assert_int_equal(vram_free(addr, rig.queue), VRAM_OK);
    }
    rig_end(&rig);
}

/* ------------------------------------------------------------- reuse in time */

/* Memory freed on one queue with unfinished work is not given to another that could overtake it. */
static void another_queue_waits_for_the_work(void **state) {
    vram_addr first, second;
    uint8_t found[64];
    (void)state;
    assert_int_equal(vram_option_set("device_limit", "64M"), VRAM_OK);
    struct rig rig = rig_make("memory=64M,lag=40,seed=5");
    for (int round = 0; round < 20; round++) {
        assert_int_equal(vram_alloc(rig.pool, 40 * MIB, rig.queue, &first), VRAM_OK);
        assert_int_equal(vram_queue_fill(rig.queue, first, 0xAA, 1, 40 * MIB), VRAM_OK);
        assert_int_equal(vram_free(first, rig.queue), VRAM_OK);
        /* There is no room for both: the second block is made of the first one's memory. */
        assert_int_equal(vram_alloc(rig.pool, 40 * MIB, rig.other, &second), VRAM_OK);
        assert_int_equal(vram_queue_fill(rig.other, second, 0x55, 1, 40 * MIB), VRAM_OK);
        assert_int_equal(vram_queue_download(rig.other, found, second, sizeof found), VRAM_OK);
        assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        assert_int_equal(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        for (size_t i = 0; i < sizeof found; i++) {
            assert_int_equal(found[i], 0x55);
        }
        assert_int_equal(vram_queue_download(rig.other, found, second, sizeof found), VRAM_OK);
        assert_int_equal(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        assert_int_equal(found[0], 0x55);
        assert_int_equal(vram_free(second, rig.other), VRAM_OK);
    }
    rig_end(&rig);
}

/* A queue gets back at once what it freed, with work of its own still in it. Freed again on another
   queue or on none, before anybody has used it, that is not theirs yet. */
static void memory_is_not_laundered_between_queues(void **state) {
    (void)state;
    static const uint64_t sizes[] = {512, MIB};
    for (int i = 0; i < 8; i++) {
        uint64_t size = sizes[i % 2];
        vram_pool_options options = {.size = sizeof options,
                                     .flags = i & 4 ? VRAM_POOL_DETERMINISTIC : 0};
        struct rig rig = rig_make_with("sim", "memory=1G,lag=10000", &options);
        vram_queue *other = i & 2 ? rig.other : NULL;
        vram_addr first, again, late;
        assert_int_equal(vram_alloc(rig.pool, size, rig.queue, &first), VRAM_OK);
        assert_int_equal(vram_queue_fill(rig.queue, first, 1, 1, size), VRAM_OK);
        assert_int_equal(vram_free(first, rig.queue), VRAM_OK);
        assert_int_equal(vram_alloc(rig.pool, size, rig.queue, &again), VRAM_OK);
        assert_int_equal(again, first);
        assert_int_equal(vram_free(again, other), VRAM_OK);
        assert_int_equal(vram_alloc(rig.pool, size, other, &late), VRAM_OK);
        assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_NOT_READY);
        /* A deterministic pool may give it to a queue that it has told to wait on the device. */
        assert_true(late != first || (other && (i & 4)));
        /* Once the work is done it is there for everybody. */
        assert_int_equal(vram_free(late, other), VRAM_OK);
        assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        assert_int_equal(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        assert_int_equal(vram_pool_trim(rig.pool, NULL, NULL), VRAM_OK);
        assert_int_equal(stats_of(rig.pool).reserved_bytes, 0);
        rig_end(&rig);
    }
}

static void used_blocks_wait_for_their_users(void **state) {
    vram_addr addr, next;
    (void)state;
    struct rig rig = rig_make("memory=4G,lag=100,seed=2");
    assert_int_equal(vram_alloc(rig.pool, 4096, rig.queue, &addr), VRAM_OK);
    assert_int_equal(vram_queue_fill(rig.other, addr, 1, 1, 4096), VRAM_OK);
    assert_int_equal(vram_use(addr, rig.other), VRAM_OK);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_OK);
    assert_int_equal(vram_use(addr, rig.other), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(rig.pool, 4096, rig.queue, &next), VRAM_OK);
    assert_int_not_equal(addr, next); /* not before the other queue is done */
    assert_int_equal(vram_pin(next), VRAM_OK);
    assert_int_equal(vram_free(next, rig.queue), VRAM_OK);
    assert_int_equal(vram_unpin(next), VRAM_OK);
    assert_int_equal(vram_unpin(next), VRAM_ERR_INVALID);
    rig_end(&rig);
}

static void a_queue_may_end_with_frees_outstanding(void **state) {
    vram_addr addr, again;
    (void)state;
    struct rig rig = rig_make("memory=1G,lag=30");
    for (int i = 0; i < 50; i++) {
        vram_queue *queue;
        assert_int_equal(vram_queue_create(rig.device, NULL, &queue), VRAM_OK);
        assert_int_equal(vram_alloc(rig.pool, 3 * MIB, queue, &addr), VRAM_OK);
        assert_int_equal(vram_queue_fill(queue, addr, 7, 1, 3 * MIB), VRAM_OK);
        assert_int_equal(vram_free(addr, queue), VRAM_OK);
        vram_queue_destroy(queue);
        assert_int_equal(vram_alloc(rig.pool, 1, queue, &again), VRAM_ERR_STALE);
    }
    assert_true(stats_of(rig.pool).reserved_bytes <= 8 * MIB); /* one block's worth, not fifty */
    rig_end(&rig);
}

/* -------------------------------------------------------------------- threads */

struct worker {
    struct rig *rig;
    unsigned seed;
    bool failed;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    vram_addr held[32] = {0};
    for (int i = 0; i < 3000; i++) {
        worker->seed = worker->seed * 1664525 + 1013904223;
        unsigned slot = worker->seed >> 27;
        if (held[slot]) {
            worker->failed |= vram_free(held[slot], worker->rig->queue) != VRAM_OK;
            held[slot] = 0;
        } else {
            uint64_t size = (worker->seed >> 8) % (256 * KIB);
            worker->failed |=
                vram_alloc(worker->rig->pool, size, worker->rig->queue, &held[slot]) != VRAM_OK;
        }
    }
    for (int i = 0; i < 32; i++) {
        worker->failed |= vram_free(held[i], worker->rig->queue) != VRAM_OK;
    }
    return NULL;
}

static void threads_share_a_pool(void **state) {
    enum { THREADS = 4 };
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct rig rig = rig_make("memory=4G");
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){&rig, (unsigned)(i + 1 + round * 10), false};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < 200; i++) {
            (void)stats_of(rig.pool); /* revokes the caches again and again */
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_false(workers[i].failed);
        }
        vram_pool_stats stats = stats_of(rig.pool);
        assert_int_equal(stats.live_blocks, 0);
        assert_int_equal(stats.allocated_bytes, 0);
        rig_end(&rig);
    }
}

/* ---------------------------------------------------------- modes, providers */

static void segments_work_where_mapping_does_not(void **state) {
    (void)state;
    struct rig rig = rig_make("memory=1G,vmm=off");
    vram_addr addrs[20];
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vram_alloc(rig.pool, (uint64_t)(i + 1) * MIB, rig.queue, &addrs[i]),
                         VRAM_OK);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
    }
    assert_int_equal(vram_pool_trim(rig.pool, NULL, NULL), VRAM_OK);
    assert_int_equal(stats_of(rig.pool).reserved_bytes, 0);
    rig_end(&rig);
}

static vram_status give_host_memory(void *user, uint64_t bytes, vram_addr *addr) {
    void *memory = aligned_alloc(2 * MIB, bytes);
    *(int *)user += 1;
    *addr = (uintptr_t)memory;
    return memory ? VRAM_OK : VRAM_ERR_DEVICE_MEMORY;
}

static vram_status take_host_memory(void *user, vram_addr addr, uint64_t bytes) {
    (void)bytes;
    *(int *)user -= 1;
    free((void *)(uintptr_t)addr);
    return VRAM_OK;
}

static void a_provider_stands_in_for_the_device(void **state) {
    int outstanding = 0;
    vram_provider provider = {.size = sizeof provider,
                              .user = &outstanding,
                              .alloc = give_host_memory,
                              .free = take_host_memory};
    vram_pool_options options = {.size = sizeof options, .provider = &provider, .name = "mine"};
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make_with("host", NULL, &options);
    assert_int_equal(vram_alloc(rig.pool, 100000, rig.queue, &addr), VRAM_OK);
    memset((void *)(uintptr_t)addr, 1, 100000);
    assert_true(outstanding > 0);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_OK);
    rig_end(&rig);
    assert_int_equal(outstanding, 0);
}

static void deterministic_pools_repeat_themselves(void **state) {
    uint64_t offsets[2][200];
    (void)state;
    for (int run = 0; run < 2; run++) {
        vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
        struct rig rig =
            rig_make_with("sim", run ? "memory=4G,lag=77,seed=9" : "memory=4G", &options);
        vram_addr held[16] = {0}, base = 0;
        unsigned seed = 4;
        for (int i = 0; i < 200; i++) {
            seed = seed * 1664525 + 1013904223;
            unsigned slot = seed >> 28;
            vram_queue *queue = seed & 1024 ? rig.queue : rig.other;
            assert_int_equal(vram_free(held[slot], queue), VRAM_OK);
            assert_int_equal(vram_alloc(rig.pool, (seed >> 6) % (4 * MIB), queue, &held[slot]),
                             VRAM_OK);
            base = base ? base : held[slot];
            offsets[run][i] = held[slot] - base;
        }
        rig_end(&rig);
    }
    assert_memory_equal(offsets[0], offsets[1], sizeof offsets[0]);
}

static void warm_pools_have_what_was_asked(void **state) {
    vram_addr addrs[10];
    (void)state;
    struct rig rig = rig_make("memory=1G");
    assert_int_equal(vram_pool_warm(rig.pool, 3 * MIB, 10, rig.queue), VRAM_OK);
    vram_alloc_options cached = {.size = sizeof cached, .flags = VRAM_ALLOC_CACHED_ONLY};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(vram_alloc_with(rig.pool, 3 * MIB, rig.queue, &cached, &addrs[i]),
                         VRAM_OK);
    }
    vram_addr more;
    assert_int_equal(vram_alloc_with(rig.pool, 30 * MIB, rig.queue, &cached, &more),
                     VRAM_ERR_LIMIT);
    assert_int_equal(vram_pool_warm(rig.pool, 300 * MIB, 10, rig.queue), VRAM_ERR_DEVICE_MEMORY);
    vram_device_info info = {.size = sizeof info};
    assert_int_equal(vram_device_describe(rig.device, &info), VRAM_OK);
    for (uint32_t beyond = 0; beyond < 2; beyond++) { /* all of the memory is not too much */
        vram_status status = vram_pool_warm(
            rig.pool, MIB, (uint32_t)(info.memory_bytes.value / MIB) + beyond, rig.queue);
        bool exceeds = strstr(vram_error_get()->text, "exceed the device's memory") != NULL;
        assert_true(beyond ? status == VRAM_ERR_DEVICE_MEMORY && exceeds
                           : status == VRAM_OK || !exceeds);
    }
    rig_end(&rig);
}

/* Up to the slack a pool grows; past it free memory is moved to where it is needed. */
static void slack_is_the_users_choice(void **state) {
    enum { COUNT = 16 };
    (void)state;
    assert_int_equal(vram_option_set("move_credit", "1s"), VRAM_OK);
    for (uint64_t slack = 0; slack <= 64 * MIB; slack += 64 * MIB) {
        vram_pool_options options = {.size = sizeof options, .slack_bytes = slack};
        struct rig rig = rig_make_with("sim", "memory=4G", &options);
        vram_addr addrs[COUNT], large;
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(vram_alloc(rig.pool, 2 * MIB, rig.queue, &addrs[i]), VRAM_OK);
        }
        for (int i = 0; i < COUNT; i += 2) {
            assert_int_equal(vram_free(addrs[i], rig.queue), VRAM_OK);
        }
        assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        uint64_t reserved = stats_of(rig.pool).reserved_bytes;
        assert_int_equal(vram_alloc(rig.pool, 12 * MIB, rig.queue, &large), VRAM_OK);
        vram_pool_stats stats = stats_of(rig.pool);
        assert_true(slack ? stats.moved_handles == 0 : stats.moved_handles > 0);
        assert_true(slack ? stats.reserved_bytes > reserved + 8 * MIB
                          : stats.reserved_bytes < reserved + 8 * MIB);
        rig_end(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blocks_are_distinct_and_aligned, nothing_left),
        cmocka_unit_test_teardown(free_memory_of_one_size_serves_another, nothing_left),
        cmocka_unit_test_teardown(a_second_round_makes_no_driver_call, nothing_left),
        cmocka_unit_test_teardown(a_hit_gives_the_same_block_again, nothing_left),
        cmocka_unit_test_teardown(mistakes_are_found_out, nothing_left),
        cmocka_unit_test_teardown(blocks_go_back_to_their_own_pool, nothing_left),
        cmocka_unit_test_teardown(a_tag_goes_with_its_block, nothing_left),
        cmocka_unit_test_teardown(alignment_is_kept, nothing_left),
        cmocka_unit_test_teardown(another_queue_waits_for_the_work, nothing_left),
        cmocka_unit_test_teardown(memory_is_not_laundered_between_queues, nothing_left),
        cmocka_unit_test_teardown(used_blocks_wait_for_their_users, nothing_left),
        cmocka_unit_test_teardown(a_queue_may_end_with_frees_outstanding, nothing_left),
        cmocka_unit_test_teardown(threads_share_a_pool, nothing_left),
        cmocka_unit_test_teardown(segments_work_where_mapping_does_not, nothing_left),
        cmocka_unit_test_teardown(a_provider_stands_in_for_the_device, nothing_left),
        cmocka_unit_test_teardown(deterministic_pools_repeat_themselves, nothing_left),
        cmocka_unit_test_teardown(warm_pools_have_what_was_asked, nothing_left),
        cmocka_unit_test_teardown(slack_is_the_users_choice, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
