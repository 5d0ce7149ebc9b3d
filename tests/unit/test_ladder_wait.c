/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ladder_wait.c: a thread that is short of memory waits for others to free some, up to a
 * deadline, and never for nobody: when all wait, one of them finds out at once.
 */
#include "unit/ladder_world.h"

#include <stdatomic.h>

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void rest(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void wait_up_to(vram_pool *pool, uint64_t ns) {
    vram_ladder_options options = {.size = sizeof options, .steps = "wait", .wait_ns = ns};
    assert_ok(vram_pool_ladder_set(pool, &options));
}

/* A thread that holds half of the device. */
struct holder {
    vram_pool *pool;
    vram_queue *queue;
    vram_addr addr;
    vram_status status;
    uint64_t took_ns;
    bool wants;     /* asks for more instead of freeing */
    uint64_t pause; /* ms before it does anything */
    pthread_barrier_t *met;
};

static void *hold(void *user) {
    struct holder *holder = user;
    vram_addr more = 0;
    holder->status = vram_alloc(holder->pool, 30 * MIB, holder->queue, &holder->addr);
    pthread_barrier_wait(holder->met);
    rest((long)holder->pause);
    if (holder->wants) {
        uint64_t begin = now_ns();
        holder->status = vram_alloc(holder->pool, 30 * MIB, holder->queue, &more);
        holder->took_ns = now_ns() - begin;
    }
    (void)vram_free(holder->addr, holder->queue);
    if (more) {
        (void)vram_free(more, holder->queue);
    }
    return NULL;
}

/* A thread that has the memory and does nothing is waited for until the deadline. */
TEST(the_deadline_ends_it, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    pthread_barrier_t met;
    pthread_t thread;
    struct holder holder = {.pool = pool, .queue = rig->queue, .pause = 400, .met = &met};
    pthread_barrier_init(&met, NULL, 2);
    wait_up_to(pool, SECOND / 20);
    assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
    pthread_barrier_wait(&met);
    uint64_t begin = now_ns();
    refused(pool, 40 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_true(now_ns() - begin >= SECOND / 20);
    pthread_join(thread, NULL);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_WAIT], 1);
    pthread_barrier_destroy(&met);
}

/* A program of one thread has nobody to wait for. */
TEST(nobody_is_not_waited_for, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    (void)take(pool, 30 * MIB, rig->queue);
    wait_up_to(pool, 3600 * SECOND);
    refused(pool, 40 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).ladder_steps[VRAM_LADDER_WAIT], 0);
}

/* Nor is a captured region that is open: its graphs may run at any time, so what was freed in it
   does not come back by waiting. */
TEST(regions_are_not_waited_for) {
    for (int ordered = 0; ordered < 2; ordered++) {
        struct rig rig = rig_make("sim", SIM);
        vram_pool *pool = pool_on(rig.device, "main", ordered ? VRAM_POOL_DETERMINISTIC : 0);
        vram_queue *region;
        uint64_t begin = now_ns();
        vram_addr other = take(pool, 20 * MIB, rig.queue), between = take(pool, 2 * MIB, rig.queue);
        assert_ok(vram_capture_begin(rig.queue, &region));
        assert_ok(vram_free(take(pool, 20 * MIB, region), region));
        refused(pool, 50 * MIB, rig.queue, VRAM_ERR_DEVICE_MEMORY);
        assert_ok(vram_free(other, rig.queue));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_true(now_ns() - begin < 10 * SECOND);               /* of the 60 of wait_timeout */
        assert_int_equal(stats_of(pool).reserved_bytes, 22 * MIB); /* the region's, and one block */
        assert_ok(vram_capture_end(region));
        assert_ok(vram_free(between, NULL));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        rig_end_clean(&rig);
    }
}

/* Two threads hold half each and want another half: one of them fails at once and frees what it
   has, which is what the other has waited for. */
TEST(all_wait_and_one_finds_out, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    pthread_barrier_t met;
    pthread_t threads[2];
    struct holder holders[2];
    pthread_barrier_init(&met, NULL, 2);
    wait_up_to(pool, 60 * SECOND);
    for (int i = 0; i < 2; i++) {
        holders[i] = (struct holder){.pool = pool, .queue = rig->queue, .wants = true, .met = &met};
        assert_int_equal(pthread_create(&threads[i], NULL, hold, &holders[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_true(holders[i].took_ns < 30 * SECOND);
    }
    assert_true((holders[0].status == VRAM_OK) != (holders[1].status == VRAM_OK));
    vram_status failed = holders[0].status == VRAM_OK ? holders[1].status : holders[0].status;
    assert_int_equal(failed, VRAM_ERR_DEVICE_MEMORY);
    pthread_barrier_destroy(&met);
}

static atomic_bool churn_may_end;

enum { ROUNDS = 33 };

/* A thread that takes blocks of all sizes, one at a time, with work behind each. */
struct worker {
    struct rig *rig;
    vram_pool *pool;
    uint64_t seed;
    int refused;
    pthread_t thread;
};

/* A thread that takes small blocks with work behind each, until it is told to stop. */
static void *churn(void *user) {
    struct worker *worker = user;
    vram_queue *queue;
    vram_addr addr;
    if (vram_queue_create(worker->rig->device, NULL, &queue) != VRAM_OK) {
        worker->refused = -1;
        return NULL;
    }
    for (int i = 0; !churn_may_end; i++) {
        worker->seed = worker->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (vram_alloc(worker->pool, 1 + (worker->seed >> 40) % 2048, queue, &addr) == VRAM_OK) {
            (void)vram_queue_fill(queue, addr, 0, 1, 1);
            (void)vram_free(addr, queue);
        }
        if (i % 4 == 3) {
            (void)vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
        }
    }
    (void)vram_queue_destroy(queue);
    return NULL;
}

/* All memory is one hole of the other space, which is pending and free in turns, as others use a
   little of it. */
TEST(memory_that_is_pending_now_and_then) {
    enum { SMALL = 32 * 1024, BLOCKS = 4 * GRANULE / SMALL };
    struct rig rig = rig_make("sim", "memory=64M,granule=2M,lag=3");
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 4 * GRANULE};
    vram_pool_options options = {
        .size = sizeof options, .limits = &limits, .flags = VRAM_POOL_ZERO_ALLOC};
    struct worker workers[3];
    static vram_addr addrs[BLOCKS];
    vram_pool *pool;
    int refused = 0;
    whole_device(rig.device);
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    churn_may_end = false;
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){.rig = &rig, .pool = pool, .seed = (uint64_t)i * 777 + 5};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, churn, &workers[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int count = 0;
        while (count < BLOCKS && vram_alloc(pool, SMALL, rig.queue, &addrs[count]) == VRAM_OK) {
            count++;
        }
        while (count > 0) {
            assert_ok(vram_free(addrs[--count], rig.queue));
        }
        vram_addr addr = 0;
        refused += vram_alloc(pool, 40 * KIB, rig.queue, &addr) != VRAM_OK;
        if (addr) {
            assert_ok(vram_free(addr, rig.queue));
        }
    }
    churn_may_end = true;
    for (int i = 0; i < 3; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    assert_int_equal(refused, 0);
    rig_end_clean(&rig);
}
