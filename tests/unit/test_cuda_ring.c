/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_ring.c: page-locked memory beside kernels that do not end by themselves, over the fake
 * driver. It waits for all kernels when it takes such memory back, as drivers do, and counts that
 * as a breach: nobody would come back.
 */
#include "byte_units.h"
#include "device/quiesce.h"
#include "trims.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "vram/limits.h"
#include "vram/pressure.h"
#include "vram/ring.h"
#include "vram/vram.h"
#include "xfer/staging.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *listening;
    vram_pool *pool;
    vram_addr memory;
    void *data; /* 2 MiB, pageable */
};

static int begin(void) {
    static struct stage stage;
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    fake = fake ? fake : fake_open(FAKE_CUDA_PATH);
    fake->reset();
    fake->free_waits(true);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("staging_slot", "256K"));
    assert_ok(vram_option_set("staging_threads", "3"));
    assert_ok(vram_option_set("staging_idle", "20ms"));
    assert_ok(vram_context_create(&options, &stage.context));
    assert_ok(vram_device_open(stage.context, 0, &stage.device));
    assert_ok(vram_queue_create(stage.device, NULL, &stage.queue));
    assert_ok(vram_queue_create(stage.device, NULL, &stage.listening));
    assert_ok(vram_pool_create(stage.device, NULL, &stage.pool));
    assert_ok(vram_alloc(stage.pool, 2 * MIB, stage.queue, &stage.memory));
    stage.data = calloc(1, 2 * MIB);
    assert_non_null(stage.data);
    rig_state = &stage;
    return 0;
}

static int end(void) {
    static const char *const names[] = {"staging_slot", "staging_threads", "staging_idle",
                                        "cuda_library"};
    struct stage *stage = rig_state;
    vram_context_destroy(stage->context);
    free(stage->data);
    assert_int_equal(live_total(), 0);
    assert_clean();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_ok(vram_option_set(names[i], NULL));
    }
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

static vram_kernel *kernel_of(struct stage *stage, const char *name) {
    char text[128];
    vram_kernel *kernel;
    int bytes = snprintf(text, sizeof text, ".version 6.0\n.visible .entry %s()\n{\n}\n", name);
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = text,
                                 .code_bytes = (size_t)bytes,
                                 .entry = name};
    assert_ok(vram_kernel_create(stage->device, &source, &kernel));
    return kernel;
}

/* A kernel that ends when it is told to, or after so long. */
static void launch(vram_queue *queue, vram_kernel *kernel, uint64_t word, uint64_t ns, size_t all) {
    uint64_t none = 0;
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = (uint32_t)all,
                        .arguments = (const void *[]){&word, &ns, &none},
                        .argument_bytes = (size_t[]){8, 8, 8}};
    assert_ok(vram_queue_launch(queue, kernel, &call));
}

static uint32_t slots_of(struct stage *stage) {
    vram_pinned_info info = {.size = sizeof info};
    assert_ok(vram_pinned_info_get(stage->device, &info)); /* to look at them is not to use them */
    return info.slots;
}

static void upload(struct stage *stage, uint64_t bytes) {
    assert_ok(vr_staging_upload(stage->queue, stage->memory, stage->data, bytes));
    assert_ok(vram_queue_wait(stage->queue, 20 * SECOND));
}

static void trip(vram_ring *ring, uint64_t number) {
    uint64_t back = 0;
    assert_ok(vram_ring_send(ring, &number, sizeof number, 0, 20 * SECOND));
    assert_ok(vram_ring_receive(ring, &back, sizeof back, 20 * SECOND, NULL));
    assert_int_equal(back, number);
}

/* Idle or not, slots stay as long as a kernel listens, whoever wants them back; and everything goes
   on beside it. */
TEST(slots_stay_beside_a_ring) {
    struct stage *stage = rig_state;
    vram_ring *ring;
    vram_ring_info info = {.size = sizeof info};
    uint64_t released = 1, before = vr_os_now();
    assert_ok(vram_ring_create(stage->pool, NULL, &ring));
    assert_ok(vram_ring_info_get(ring, &info));
    assert_int_equal(info.strategy, VRAM_RING_DIRECT);
    vram_kernel *echo = kernel_of(stage, "vram_ring_echo");
    launch(stage->listening, echo, info.control, 20 * SECOND, 3);
    trip(ring, 1);
    upload(stage, 2 * MIB);
    uint32_t made = slots_of(stage);
    assert_true(made > 0);
    vr_os_sleep(100000000);
    assert_int_equal(slots_of(stage), made);
    upload(stage, 2 * MIB);
    trip(ring, 2);
    assert_ok(vram_device_trim(stage->device, TRIM(.flags = VRAM_TRIM_PINNED), &released));
    assert_int_equal(released, 0);
    assert_ok(vram_device_trim(stage->device, NULL, &released));
    assert_true(slots_of(stage) > 0);
    trip(ring, 3);
    assert_ok(vram_ring_stop(ring));
    assert_ok(vram_ring_join(ring, 20 * SECOND));
    assert_ok(vram_queue_wait(stage->listening, 20 * SECOND));
    while (slots_of(stage) && vr_os_now() - before < 15 * SECOND) {
        vr_os_sleep(1000000);
    }
    assert_int_equal(slots_of(stage), 0);
    assert_ok(vram_ring_destroy(ring));
    vram_kernel_destroy(echo);
}

/* Memory of a page-locked pool that nobody needs stays as long as a kernel runs, whoever wants it
   back. */
TEST(pinned_pools_stay_beside_a_kernel) {
    struct stage *stage = rig_state;
    vram_limits limits = {.size = sizeof limits, .cached_bytes = MIB};
    vram_pool_options options = {
        .size = sizeof options, .kind = VRAM_MEMORY_PINNED, .limits = &limits};
    vram_kernel *gate = kernel_of(stage, "vram_check_gate");
    static uint32_t word;
    vram_pool *pool;
    vram_addr block;
    uint64_t released = 1;
    __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
    assert_ok(vram_pool_create(stage->device, &options, &pool));
    assert_ok(vram_alloc(pool, 8 * MIB, NULL, &block));
    launch(stage->listening, gate, (uintptr_t)&word, 10 * SECOND, 2);
    assert_ok(vram_free(block, NULL)); /* more than it may keep */
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_ok(vram_pool_trim(pool, NULL, &released));
    assert_int_equal(released, 0);
    assert_ok(vram_device_trim(stage->device, NULL, &released));
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_RARE), &released));
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    assert_true(stats.reserved_bytes >= 8 * MIB);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    assert_ok(vram_queue_wait(stage->listening, 20 * SECOND));
    uint64_t before = vr_os_now();
    while (stats.reserved_bytes && vr_os_now() - before < 15 * SECOND) {
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_ok(vram_pool_stats_get(pool, &stats));
    }
    assert_int_equal(stats.reserved_bytes, 0);
    assert_ok(vram_pool_destroy(pool));
    vram_kernel_destroy(gate);
}

/* ------------------------------------------------------------- at the same time */

enum { ROUNDS = 20 };

struct giving {
    struct stage *stage;
    vr_atomic_u64 given; /* times that something went back */
    vr_atomic_bool stop;
};

static void *give(void *argument) {
    struct giving *giving = argument;
    do {
        uint64_t released = 0;
        upload(giving->stage, 100000);
        assert_ok(
            vram_device_trim(giving->stage->device, TRIM(.flags = VRAM_TRIM_PINNED), &released));
        vr_fetch_add(&giving->given, released > 0, VR_RELAXED);
    } while (!vr_load(&giving->stop, VR_ACQUIRE));
    return NULL;
}

/* A kernel that is launched while slots are on their way back comes behind them. */
TEST(launches_wait_for_slots_that_go) {
    struct giving giving = {.stage = rig_state};
    vram_kernel *gate = kernel_of(giving.stage, "vram_check_gate");
    static uint32_t word; /* stays shut: it ends by the time */
    pthread_t thread;
    uint64_t before = vr_os_now();
    assert_int_equal(pthread_create(&thread, NULL, give, &giving), 0);
    for (int i = 0; i < ROUNDS || vr_load(&giving.given, VR_RELAXED) < ROUNDS; i++) {
        launch(giving.stage->listening, gate, (uintptr_t)&word, 300000, 2);
        assert_ok(vram_queue_wait(giving.stage->listening, 20 * SECOND));
        vr_os_sleep(500000 + (uint64_t)(i % 7) * 300000);
        assert_true(vr_os_now() - before < 60 * SECOND);
    }
    vr_store(&giving.stop, true, VR_RELEASE);
    pthread_join(thread, NULL);
    vram_kernel_destroy(gate);
}

/* The driver waits for a stream of the program's own, which waits for what the program launches
   next. */
TEST(a_launch_does_not_wait_for_ever) {
    enum { LAUNCHES = 40 };
    struct giving giving = {.stage = rig_state};
    vram_kernel *gate = kernel_of(giving.stage, "vram_check_gate");
    static uint32_t word;
    pthread_t thread;
    fake->free_waits(false);
    fake->refuse(NULL, 0, VR_CU_SUCCESS, false); /* counts from here */
    fake->free_held(true);
    vr_store(&giving.stop, true, VR_RELEASE); /* after the first */
    assert_int_equal(pthread_create(&thread, NULL, give, &giving), 0);
    while (!fake->calls("cuMemFreeHost")) {
        vr_os_sleep(100000);
    }
    alarm(30); /* SIGALRM ends the test: nobody else would */
    uint64_t before = vr_os_now();
    launch(giving.stage->listening, gate, (uintptr_t)&word, 1000, 2);
    assert_int_equal(fake->calls("cuMemFreeHost"), 1);
    for (int i = 1; i < LAUNCHES; i++) { /* who hangs is paid for once */
        launch(giving.stage->listening, gate, (uintptr_t)&word, 1000, 2);
    }
    assert_in_range(vr_os_now() - before, 0, LAUNCHES * VR_QUIESCE_NS / 2);
    fake->free_held(false);
    pthread_join(thread, NULL);
    alarm(0);
    assert_int_equal(slots_of(giving.stage), 0);
    assert_ok(vram_queue_wait(giving.stage->listening, 20 * SECOND));
    vram_kernel_destroy(gate);
}

EACH_TEST(begin, end)
