/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_time.c: pools and the time of queues, on the host, where gates hold work up for as long
 * as a test wants: one queue that does not come on keeps no other's memory from being found, waited
 * for and reused, and whatever the moment, nobody gets memory that is at work.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/pool.h"

#include <pthread.h>
#include <time.h>

/* ------------------------------------------------------------------------ gates */

/* Work that ends when the gate is opened. */
struct gate {
    vram_kernel *kernel;
    atomic_bool open;
};

static void gate_kernel(const vram_kernel_call *call) {
    atomic_bool *open = *(atomic_bool *const *)call->arguments[0];
    while (!atomic_load(open)) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

static void gate_make(struct rig *rig, struct gate *gate) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)gate_kernel,
                                 .entry = "gate"};
    atomic_store(&gate->open, false);
    assert_ok(vram_kernel_create(rig->device, &source, &gate->kernel));
}

static void gate_pass(struct gate *gate, vram_queue *queue) {
    atomic_bool *open = &gate->open;
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = (const void *const[]){&open},
                          .argument_bytes = (const size_t[]){sizeof open}};
    assert_ok(vram_queue_launch(queue, gate->kernel, &launch));
}

static void *open_later(void *argument) {
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    atomic_store(&((struct gate *)argument)->open, true);
    return NULL;
}

/* ------------------------------------------------------------------------ scenes */

/* A host device that may hold `limit`, a queue that stands before a closed gate, and two that do
   not. */
struct scene {
    struct rig rig;
    struct gate stuck_gate, gate;
    vram_queue *stuck, *other;
    vram_pool *pool;
    uint64_t granule;
};

static void scene_make(struct scene *scene, const char *limit, const char *timeout) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_option_set("device_limit", limit));
    assert_ok(vram_option_set("wait_timeout", timeout));
    scene->rig = rig_make("host", NULL);
    assert_ok(vram_device_describe(scene->rig.device, &info));
    scene->granule = info.vmm_granule.value;
    assert_ok(vram_queue_create(scene->rig.device, NULL, &scene->stuck));
    assert_ok(vram_queue_create(scene->rig.device, NULL, &scene->other));
    assert_ok(vram_pool_create(scene->rig.device, NULL, &scene->pool));
    gate_make(&scene->rig, &scene->stuck_gate);
    gate_make(&scene->rig, &scene->gate);
    gate_pass(&scene->stuck_gate, scene->stuck);
}

static void scene_end(struct scene *scene) {
    atomic_store(&scene->stuck_gate.open, true);
    atomic_store(&scene->gate.open, true);
    vram_device_close(scene->rig.device);
    vram_context_destroy(scene->rig.context);
}

enum { MANY = 200, FEW = 8 };

static void alloc_all(struct scene *scene, vram_queue *queue, uint64_t bytes, vram_addr *addrs,
                      uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(vram_alloc(scene->pool, bytes, queue, &addrs[i]));
    }
}

/* Frees every other one, so that no two holes come together. */
static void free_scattered(vram_queue *queue, const vram_addr *addrs, uint32_t count) {
    for (uint32_t i = 0; i < count; i += 2) {
        assert_ok(vram_free(addrs[i], queue));
    }
}

/* ------------------------------------------------------------------------- tests */

/* A hundred frees of a queue that does not come on lie before those of one that has. */
TEST(stuck_queues_hide_nobody) {
    static vram_addr hidden[MANY], scattered[FEW];
    struct scene scene;
    vram_addr large;
    scene_make(&scene, "64M", "2s");
    alloc_all(&scene, scene.other, 4 * MIB, scattered, FEW);
    alloc_all(&scene, scene.stuck, 40 * KIB, hidden, MANY);
    free_scattered(scene.stuck, hidden, MANY);
    free_scattered(scene.other, scattered, FEW);
    assert_ok(vram_queue_wait(scene.other, VRAM_TIMEOUT_DEFAULT));
    /* Put together from what is free: nothing else is left under the limit. */
    uint64_t size = 64 * MIB - stats_of(scene.pool).reserved_bytes + 8 * MIB;
    assert_ok(vram_alloc(scene.pool, size, scene.rig.queue, &large));
    for (uint32_t i = 0; i < MANY; i += 2) {
        assert_true(hidden[i] + 40 * KIB <= large || large + size <= hidden[i]);
    }
    scene_end(&scene);
}

/* What is waited for is memory, not the queue that was first. */
TEST(waiting_does_not_stop_at_the_oldest) {
    static vram_addr hidden[FEW], scattered[FEW];
    struct scene scene;
    vram_addr large;
    pthread_t thread;
    scene_make(&scene, "64M", "60s");
    alloc_all(&scene, scene.other, 4 * MIB, scattered, FEW);
    alloc_all(&scene, scene.stuck, 40 * KIB, hidden, FEW);
    free_scattered(scene.stuck, hidden, FEW);
    gate_pass(&scene.gate, scene.other);
    free_scattered(scene.other, scattered, FEW);
    uint64_t size = 64 * MIB - stats_of(scene.pool).reserved_bytes + 8 * MIB;
    assert_int_equal(pthread_create(&thread, NULL, open_later, &scene.gate), 0);
    uint64_t before = vr_os_now();
    assert_ok(vram_alloc(scene.pool, size, scene.rig.queue, &large));
    assert_true(atomic_load(&scene.gate.open)); /* not earlier */
    assert_true(vr_os_now() - before < 30 * SECOND);
    pthread_join(thread, NULL);
    scene_end(&scene);
}

/* A free is marked where it is made when much is freed: what the queue is given later is not waited
   for. */
TEST(later_work_is_not_waited_for) {
    struct scene scene;
    vram_addr freed, next;
    scene_make(&scene, "64M", "2s");
    assert_ok(vram_alloc(scene.pool, 48 * MIB, scene.other, &freed));
    assert_ok(vram_free(freed, scene.other));
    gate_pass(&scene.gate, scene.other); /* stays closed */
    assert_ok(vram_alloc(scene.pool, 48 * MIB, scene.rig.queue, &next));
    scene_end(&scene);
}

/* Each queue that uses a block counts once, with the work that it has at the free; the block is
   free when all of them are done. */
TEST(all_users_count) {
    struct scene scene;
    struct gate second;
    vram_addr used, next;
    scene_make(&scene, "64M", "2s");
    gate_make(&scene.rig, &second);
    assert_ok(vram_alloc(scene.pool, 300 * KIB, scene.rig.queue, &used));
    assert_ok(vram_use(used, scene.other));
    assert_ok(vram_queue_wait(scene.other, VRAM_TIMEOUT_DEFAULT));
    uint64_t blocks = vr_mem_live_blocks();
    for (int i = 0; i < 1000; i++) {
        assert_ok(vram_use(used, scene.other));
    }
    assert_ok(vram_queue_wait(scene.other, VRAM_TIMEOUT_DEFAULT));
    assert_true(vr_mem_live_blocks() <= blocks + 1); /* no list that grows */
    assert_ok(vram_use(used, scene.stuck));
    gate_pass(&scene.gate, scene.other);
    gate_pass(&second, scene.other);
    assert_ok(vram_free(used, scene.rig.queue));
    atomic_bool *gates[] = {&scene.gate.open, &second.open, &scene.stuck_gate.open};
    vram_queue *queues[] = {NULL, scene.other, scene.stuck};
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_alloc(scene.pool, 300 * KIB, scene.rig.queue, &next));
        assert_int_not_equal(next, used);
        atomic_store(gates[i], true);
        if (queues[i]) {
            assert_ok(vram_queue_wait(queues[i], VRAM_TIMEOUT_DEFAULT));
        }
    }
    assert_ok(vram_alloc(scene.pool, 300 * KIB, scene.rig.queue, &next));
    assert_int_equal(next, used);
    scene_end(&scene);
}

/* A queue that cannot be marked at the free, because it is being captured or the driver fails, is
   not left out: the block waits until the queue is idle, or for its next mark. */
TEST(uses_without_a_mark_wait) {
    static const vram_status answers[] = {VRAM_ERR_CAPTURE, VRAM_ERR_BACKEND, VRAM_ERR_HOST_MEMORY,
                                          VRAM_ERR_UNSUPPORTED};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct rig rig = rig_make("sim", "memory=1G,lag=10000");
        vram_queue *other;
        vram_pool *pool;
        vram_addr used, next;
        hook_set(rig.device);
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
        assert_ok(vram_alloc(pool, 10 * MIB, rig.queue, &used));
        assert_ok(vram_use(used, other));
        assert_ok(vram_queue_fill(other, used, 1, 1, MIB));
        hook.signal_answer = answers[i];
        hook.poll_answer = VRAM_ERR_NOT_READY;
        vram_error_clear();
        assert_ok(vram_free(used, rig.queue));
        expect_no_record();
        for (int n = 0; n < 3; n++) {
            assert_ok(vram_alloc(pool, 10 * MIB, rig.queue, &next));
            assert_true(next + 10 * MIB <= used || used + 10 * MIB <= next);
            hook.signal_answer = n ? VRAM_OK : answers[i]; /* first in need, then at peace */
        }
        hook.poll_answer = VRAM_OK;
        assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_alloc(pool, 10 * MIB, rig.queue, &next));
        assert_int_equal(next, used);
        rig_end_clean(&rig);
    }
}
