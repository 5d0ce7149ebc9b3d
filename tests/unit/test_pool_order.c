/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_order.c: in deterministic pools addresses follow from the order of the program's calls
 * alone: not from how fast a device is, which numbers its queues have, or which threads ask.
 */
#include "unit/buffer_world.h"

#include <pthread.h>

enum { STEPS = 600, SLOTS = 24, QUEUES = 6, RUNS = 4 };

/* One run of the same program. */
struct run {
    struct rig rig;
    vram_queue *queues[QUEUES];
    vram_pool *pool;
    vram_addr held[SLOTS], base;
    uint64_t offsets[STEPS];
    unsigned seed;
    bool hasty; /* the host waits for the device after each step */
    bool relay; /* each step is another thread's */
};

static unsigned chance(struct run *run, unsigned below) {
    run->seed = run->seed * 1664525 + 1013904223;
    return (run->seed >> 8) % below;
}

/* Sizes come in runs, as in programs, so that the engine makes use of what it has learnt of a
   queue. */
static uint64_t next_size(struct run *run, unsigned step) {
    static const uint64_t sizes[] = {700, 40 * KIB, 300 * KIB, MIB, 5 * MIB};
    return step % 16 < 12 ? sizes[step / 16 % 5] : 1 + chance(run, 3 * MIB);
}

static void wait_for_all(struct run *run) {
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_wait(run->queues[i], VRAM_TIMEOUT_DEFAULT));
    }
}

struct step {
    struct run *run;
    unsigned number;
};

/* Frees a block, used by another queue now and then, or pinned; allocates another; ends a queue. */
static void *take_step(void *argument) {
    const struct step *step = argument;
    struct run *run = step->run;
    unsigned slot = chance(run, SLOTS), at = chance(run, QUEUES), other = chance(run, QUEUES);
    vram_queue *queue = run->queues[at];
    if (run->held[slot] && chance(run, 3) == 0) {
        assert_ok(vram_queue_fill(run->queues[other], run->held[slot], 1, 1, 256));
        assert_ok(vram_use(run->held[slot], run->queues[other]));
    }
    bool pinned = run->held[slot] && chance(run, 8) == 0;
    if (pinned) {
        assert_ok(vram_pin(run->held[slot]));
    }
    bool idle =
        chance(run, 16) == 0; /* freed in nobody's time, which takes that its work is done */
    if (idle) {
        wait_for_all(run);
    }
    assert_ok(vram_free(run->held[slot], idle ? NULL : queue));
    vram_addr freed = run->held[slot];
    assert_ok(vram_alloc(run->pool, next_size(run, step->number), queue, &run->held[slot]));
    assert_ok(vram_queue_fill(queue, run->held[slot], 2, 1, 256));
    if (pinned) {
        assert_ok(vram_unpin(freed));
    }
    run->base = run->base ? run->base : run->held[slot];
    run->offsets[step->number] = run->held[slot] - run->base;
    if (chance(run, 40) == 0) { /* its frees are everybody's from here on */
        vram_queue_destroy(run->queues[at]);
        assert_ok(vram_queue_create(run->rig.device, NULL, &run->queues[at]));
    }
    if (run->hasty) {
        wait_for_all(run);
    }
    return NULL;
}

static void run_once(struct run *run, const char *sim, unsigned queues_before) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    vram_queue *before[8];
    run->rig = rig_make("sim", sim);
    for (unsigned i = 0; i < queues_before; i++) { /* other numbers for those that follow */
        assert_ok(vram_queue_create(run->rig.device, NULL, &before[i]));
    }
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_create(run->rig.device, NULL, &run->queues[i]));
    }
    assert_ok(vram_pool_create(run->rig.device, &options, &run->pool));
    run->seed = 4;
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step = {run, i};
        pthread_t thread;
        if (run->relay) {
            assert_int_equal(pthread_create(&thread, NULL, take_step, &step), 0);
            pthread_join(thread, NULL);
        } else {
            take_step(&step);
        }
    }
    rig_end_clean(&run->rig);
}

TEST(the_order_of_calls_decides) {
    static struct run runs[RUNS];
    memset(runs, 0, sizeof runs);
    runs[1].hasty = true;
    runs[3].relay = true;
    run_once(&runs[0], "memory=16G", 0);
    run_once(&runs[1], "memory=16G,profile=h200", 3);
    run_once(&runs[2], "memory=16G,lag=300,seed=9", 5);
    run_once(&runs[3], "memory=16G,lag=20,seed=2", 1);
    for (int i = 1; i < RUNS; i++) {
        for (int at = 0; at < STEPS; at++) {
            if (runs[i].offsets[at] != runs[0].offsets[at]) {
                fail_msg("run %d, step %d: 0x%llx, not 0x%llx", i, at,
                         (unsigned long long)runs[i].offsets[at],
                         (unsigned long long)runs[0].offsets[at]);
            }
        }
    }
}

/* Memory of queues that have ended is not lost to a deterministic pool. */
TEST(ended_queues_leave_their_memory, "sim:memory=256M,lag=10") {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    for (int i = 0; i < 100; i++) {
        vram_queue *queue;
        vram_addr large, small;
        assert_ok(vram_queue_create(rig->device, NULL, &queue));
        assert_ok(vram_alloc(pool, 20 * MIB, queue, &large));
        assert_ok(vram_alloc(pool, 100, queue, &small));
        assert_ok(vram_queue_fill(queue, large, 1, 1, MIB));
        assert_ok(vram_use(small, rig->queue));
        assert_ok(vram_free(large, queue));
        assert_ok(vram_free(small, queue));
        assert_ok(vram_alloc(pool, 100, NULL, &small));
        assert_ok(vram_use(small, queue));
        vram_queue_destroy(queue);
        assert_ok(vram_free(small, NULL)); /* its only user has ended */
    }
    assert_ok(vram_pool_stats_get(pool, &stats));
    assert_true(stats.reserved_bytes <= 32 * MIB);
}

/* ------------------------------------------------------- memory under work */

static vram_pool *ordered_pool(struct rig *rig) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    vram_pool *pool;
    whole_device(rig->device);
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

static void expect_bytes(struct rig *rig, vram_addr addr, uint8_t value) {
    uint8_t *found = malloc(MIB);
    assert_non_null(found);
    assert_ok(vram_queue_download(rig->queue, found, addr, MIB));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < MIB; i++) {
        assert_int_equal(found[i], value);
    }
    free(found);
}

/* Host memory of a destroyed buffer stays until the copies that read it are done, whichever buffer
   comes next. */
TEST(host_memory_outlives_the_copies_from_it) {
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_PINNED, VRAM_BUFFER_FALLBACK};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        vram_buffer_options options = {.size = sizeof options, .kind = kinds[i]};
        struct rig rig = rig_make("sim", "memory=16M,lag=50");
        vram_pool *pool = ordered_pool(&rig);
        vram_buffer *source, *other;
        vram_addr target, filler = 0;
        void *host;
        assert_ok(vram_alloc(pool, MIB, rig.queue, &target));
        if (kinds[i] == VRAM_BUFFER_FALLBACK) { /* the device is full: it lies on the host */
            assert_ok(vram_alloc(pool, 14 * MIB, rig.queue, &filler));
        }
        assert_ok(vram_buffer_create(pool, 2 * MIB, rig.queue, &options, &source));
        assert_ok(vram_buffer_host(source, &host));
        memset(host, 0x5a, 2 * MIB);
        assert_ok(vram_queue_upload(rig.queue, target, host, MIB));
        assert_ok(vram_buffer_destroy(source));
        assert_ok(vram_buffer_create(pool, 2 * MIB, rig.queue, &options, &other));
        expect_bytes(&rig, target, 0x5a);
        assert_ok(vram_buffer_destroy(other));
        assert_ok(vram_free(target, rig.queue));
        assert_ok(vram_free(filler, rig.queue));
        expect_pool_empty(pool);
        rig_end_clean(&rig);
    }
}

/* A block may be freed on another queue than the one it was allocated for, whose work comes first
   all the same. */
TEST(a_free_waits_for_the_first_queue, "sim:memory=64M,lag=1000") {
    for (int i = 0; i < 8; i++) {
        vram_pool *pool = ordered_pool(rig);
        vram_queue *first;
        vram_addr addr, again;
        assert_ok(vram_queue_create(rig->device, NULL, &first));
        assert_ok(vram_alloc(pool, MIB, first, &addr));
        assert_ok(vram_queue_fill(first, addr, 1, 1, MIB));
        assert_ok(vram_free(addr, rig->queue));
        assert_ok(vram_alloc(pool, MIB, rig->queue, &again));
        assert_int_equal(again, addr);
        assert_ok(vram_queue_fill(rig->queue, again, 2, 1, MIB));
        assert_ok(vram_queue_destroy(first));
        expect_bytes(rig, again, 2);
        assert_ok(vram_pool_destroy(pool));
    }
}

/* So does the copy that the host was given to write to. */
TEST(what_was_unmapped_outlives_its_copy, "sim:memory=64M,lag=50") {
    vram_pool *pool = ordered_pool(rig);
    vram_buffer *buffer;
    vram_addr addr;
    void *host;
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, NULL, &buffer));
    assert_ok(vram_buffer_addr(buffer, &addr));
    assert_ok(vram_buffer_map(buffer, 0, MIB, VRAM_MAP_WRITE, rig->queue, &host));
    memset(host, 0x5a, MIB);
    assert_ok(vram_buffer_unmap(buffer));
    expect_bytes(rig, addr, 0x5a);
    assert_ok(vram_buffer_destroy(buffer));
    expect_pool_empty(pool);
}

/* A report of such a pool names queues by their handles, not by the numbers that it knows them
   by. */
TEST(reports_name_the_queues_by_their_handles, "sim:memory=16M,lag=50") {
    vram_pool *pool = ordered_pool(rig);
    vram_oom_report report = {.size = sizeof report};
    vram_queue *other;
    vram_addr addr, none;
    assert_ok(vram_queue_create(rig->device, NULL, &other));
    assert_ok(vram_alloc(pool, 10 * MIB, other, &addr));
    assert_ok(vram_queue_fill(other, addr, 1, 1, MIB));
    assert_ok(vram_free(addr, other));
    assert_int_not_equal(vram_alloc(pool, 10 * MIB, rig->queue, &none), VRAM_OK);
    assert_ok(vram_oom_report_get(pool, &report));
    assert_int_equal(report.queue_count, 1);
    assert_ptr_equal(report.queues[0].queue, other);
    assert_int_equal(report.queues[0].bytes, 10 * MIB);
    expect_pool_empty(pool);
}
