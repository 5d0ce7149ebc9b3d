/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scratch.c: host memory that copies of products go through is not freed before they are known
 * to have ended: also when the driver does not say how far a queue is. The simulated driver's work
 * is thousands of calls late and refuses every question about it; a copy into memory that was freed
 * would show under AddressSanitizer, and in the numbers.
 */
#include "unit/compute_world.h"

#define LATE "memory=1G,real=on,lag=10000,seed=3"

enum { SIDE = 512 };

#define OPERAND ((uint64_t)SIDE * SIDE * sizeof(float))

static void refuse_polls(struct rig *rig, bool refuse) {
    vram_sim_fault fault = {.size = sizeof fault,
                            .call = VRAM_SIM_POLL,
                            .nth = 1,
                            .for_ever = true,
                            .code = VRAM_SIM_OUT_OF_MEMORY};
    assert_ok(vram_sim_fault_set(rig->context, refuse ? &fault : NULL));
}

/* A product of the CPU whose operands lie on the device, with the program's own queue. */
struct stage {
    struct rig rig;
    vram_pool *pool;
    vram_scheduler *scheduler;
    vram_matmul product, there;
    uint64_t before; /* live bytes of bookkeeping */
};

static int begin(void) {
    static struct stage stage;
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("calibration_cache", "off"));
    stage.rig = rig_make("sim", LATE);
    stage.pool = pool_of(&stage.rig, 0);
    stage.scheduler = scheduler_of(stage.pool, VRAM_PLACE_CPU);
    stage.product = product_of(SIDE, SIDE, SIDE, 0);
    vram_matmul *there = &stage.there;
    *there = stage.product;
    there->a = there->b = there->c = NULL;
    there->queue = stage.rig.queue;
    assert_ok(vram_alloc(stage.pool, OPERAND, stage.rig.queue, &there->a_addr));
    assert_ok(vram_alloc(stage.pool, OPERAND, stage.rig.queue, &there->b_addr));
    assert_ok(vram_alloc(stage.pool, OPERAND, stage.rig.queue, &there->c_addr));
    assert_ok(vram_queue_upload(stage.rig.queue, there->a_addr, stage.product.a, OPERAND));
    assert_ok(vram_queue_upload(stage.rig.queue, there->b_addr, stage.product.b, OPERAND));
    assert_ok(vram_queue_wait(stage.rig.queue, VRAM_TIMEOUT_DEFAULT));
    stage.before = vr_mem_live_bytes();
    rig_state = &stage;
    return failed;
}

static int finish(void) {
    struct stage *stage = rig_state;
    product_end(&stage->product);
    vram_context_destroy(stage->rig.context);
    assert_int_equal(vr_mem_live_blocks(), 0);
    return 0;
}

static uint64_t more_than_before(const struct stage *stage) {
    uint64_t now = vr_mem_live_bytes();
    return now > stage->before ? now - stage->before : 0;
}

/* The first operand is on its way when the driver falls silent. */
static void fail_once(struct stage *stage) {
    refuse_polls(&stage->rig, true);
    assert_int_equal(vram_matmul_run(stage->scheduler, &stage->there), VRAM_ERR_DEVICE_MEMORY);
    assert_in_range(more_than_before(stage), OPERAND, 2 * OPERAND);
}

TEST(memory_under_work_stays) {
    struct stage *stage = rig_state;
    fail_once(stage);
    refuse_polls(&stage->rig, false);
    assert_in_range(more_than_before(stage), OPERAND, 2 * OPERAND);
    assert_ok(vram_matmul_run(stage->scheduler, &stage->there)); /* looks at what is kept */
    assert_in_range(more_than_before(stage), 0, OPERAND - 1);
    assert_ok(
        vram_queue_download(stage->rig.queue, stage->product.c, stage->there.c_addr, OPERAND));
    assert_ok(vram_queue_wait(stage->rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_right(&stage->product);
}

/* The scheduler ends, the program's queue goes on: the memory is the device's. */
TEST(memory_outlives_its_scheduler) {
    struct stage *stage = rig_state;
    fail_once(stage);
    assert_ok(vram_scheduler_destroy(stage->scheduler));
    assert_in_range(more_than_before(stage), OPERAND / 2, 2 * OPERAND);
    refuse_polls(&stage->rig, false);
    assert_ok(vram_queue_wait(stage->rig.queue, VRAM_TIMEOUT_DEFAULT));
}

/* Nobody may ever hear how far the queue is: the device ends it, and then frees the memory. */
TEST(a_driver_may_never_say) {
    struct stage *stage = rig_state;
    fail_once(stage);
    assert_ok(vram_scheduler_destroy(stage->scheduler));
    assert_in_range(more_than_before(stage), OPERAND / 2, 2 * OPERAND);
}

/* The scheduler's own queues end with it, and what was left in them is finished then. */
TEST(memory_of_own_queues) {
    struct stage *stage = rig_state;
    vram_scheduler *scheduler = scheduler_of(stage->pool, VRAM_PLACE_DEVICE);
    assert_ok(vram_matmul_warm_up(scheduler, 8, 8, 8));
    stage->before = vr_mem_live_bytes();
    refuse_polls(&stage->rig, true);
    assert_int_equal(vram_matmul_warm_up(scheduler, SIDE, SIDE, SIDE), VRAM_ERR_DEVICE_MEMORY);
    assert_in_range(more_than_before(stage), 3 * OPERAND, 8 * OPERAND);
    assert_ok(vram_scheduler_destroy(scheduler));
    assert_in_range(more_than_before(stage), 0, OPERAND - 1);
    refuse_polls(&stage->rig, false);
}

/* A failure that leaves nothing under way keeps nothing. */
TEST(memory_without_work_goes_at_once) {
    struct stage *stage = rig_state;
    vram_sim_fault fault = {.size = sizeof fault,
                            .call = VRAM_SIM_DOWNLOAD,
                            .nth = 1,
                            .for_ever = true,
                            .code = VRAM_SIM_OUT_OF_MEMORY};
    assert_ok(vram_sim_fault_set(stage->rig.context, &fault));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vram_matmul_run(stage->scheduler, &stage->there), VRAM_ERR_DEVICE_MEMORY);
        assert_in_range(more_than_before(stage), 0, OPERAND - 1);
    }
    assert_ok(vram_sim_fault_set(stage->rig.context, NULL));
}

EACH_TEST(begin, finish)
