/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_steps.c: a call of a scheduler, while a second thread ends something or makes the
 * same call, before each step of the call in its turn: one of the documented statuses, the right
 * result after VRAM_OK, and nothing is left.
 */
#include "unit/compute_world.h"
#include "unit/fault_step.h"
#include "unit/step_world.h"
#include "vram/distance.h"

enum { SIDE = 16, STEPS_MOST = 4000 };

struct world {
    struct rig rig;
    vram_pool *pool;
    vram_scheduler *scheduler;
    vram_matmul product;
    float *result;
    vram_status status, meanwhile;
};

/* Of the testing thread and of the other. They outlive both. */
static float results[2][SIDE * SIDE];

static void world_make(struct world *world) {
    vram_scheduler_options options = {.size = sizeof options, .queues = 2, .cpu_threads = 1};
    *world = (struct world){.rig = rig_make("sim", "memory=64M,real=on")};
    world->pool = pool_of(&world->rig, 0);
    assert_ok(vram_scheduler_create(world->pool, &options, &world->scheduler));
    world->product = product_of(SIDE, SIDE, SIDE, 0);
    world->result = results[0];
}

static void world_end(struct world *world) {
    (void)vram_context_destroy(world->rig.context);
    product_end(&world->product);
}

/* ------------------------------------------------------------------------ calls */

/* With a result of its own: two threads may be in it. */
static void run_on(struct world *world, vram_place place) {
    vram_matmul product = world->product;
    product.c = world->result;
    product.place = place;
    world->status = vram_matmul_run(world->scheduler, &product);
    if (world->status == VRAM_OK) {
        assert_right(&product);
    }
}

static void run_on_device(void *argument) {
    run_on(argument, VRAM_PLACE_DEVICE);
}

static void run_on_cpu(void *argument) {
    run_on(argument, VRAM_PLACE_CPU);
}

static void start_one(void *argument) {
    struct world *world = argument;
    vram_matmul product = world->product;
    vram_async async;
    product.c = world->result;
    world->status = vram_matmul_start(world->scheduler, &product, &async);
    if (world->status == VRAM_OK) {
        world->status = vram_async_wait(&async, 20 * SECOND);
    }
}

static void create_scheduler(void *argument) {
    struct world *world = argument;
    vram_scheduler *scheduler;
    world->status = vram_scheduler_create(world->pool, NULL, &scheduler);
}

static void create_weights(void *argument) {
    struct world *world = argument;
    vram_weights_options options = {
        .size = sizeof options, .k = SIDE, .n = SIDE, .b = world->product.b};
    vram_weights *weights = NULL;
    world->status = vram_weights_create(world->scheduler, &options, &weights);
    if (world->status == VRAM_OK) {
        world->status = vram_weights_destroy(weights);
    }
}

static void read_stats(void *argument) {
    struct world *world = argument;
    vram_scheduler_stats stats = {.size = sizeof stats};
    world->status = vram_scheduler_stats_get(world->scheduler, &stats);
}

static void search(void *argument) {
    struct world *world = argument;
    uint64_t at[SIDE];
    float best[SIDE];
    vram_distance distance = {.size = sizeof distance,
                              .queries = SIDE,
                              .vectors = SIDE,
                              .dim = SIDE,
                              .query = world->product.a,
                              .corpus = world->product.a,
                              .place = VRAM_PLACE_DEVICE,
                              .k = 1,
                              .best = best,
                              .best_at = at};
    world->status = vram_distance_run(world->scheduler, &distance);
    for (uint64_t i = 0; world->status == VRAM_OK && i < SIDE; i++) {
        assert_int_equal(at[i], i);
    }
}

/* ------------------------------------------------------------------- meanwhile */

/* The same call, by the second thread, with a copy of the world from before the call. */
static step_fn *again_call;
static struct world again_world;

static void again(void *argument) {
    struct world *world = argument;
    again_call(&again_world);
    world->meanwhile = again_world.status;
}

static void end_scheduler(void *argument) {
    struct world *world = argument;
    (void)vram_scheduler_destroy(world->scheduler);
}

static void end_pool(void *argument) {
    struct world *world = argument;
    (void)vram_pool_destroy(world->pool);
}

static void end_device(void *argument) {
    struct world *world = argument;
    (void)vram_device_close(world->rig.device);
}

/* ----------------------------------------------------------------------- tests */

static bool is_allowed(vram_status status) {
    return status == VRAM_OK || status == VRAM_ERR_STALE || status == VRAM_ERR_SHUTDOWN;
}

static void at_every_step(step_fn *call, step_fn *meanwhile) {
    again_call = call;
    for (uint64_t at = 1; at < STEPS_MOST; at += FAULT_STEP) {
        struct world world;
        world_make(&world);
        again_world = world;
        again_world.result = results[1];
        bool was = step_call(call, meanwhile, &world, at);
        if (!is_allowed(world.status) || !is_allowed(world.meanwhile)) {
            fail_msg("step %llu: %s, meanwhile %s: %s", (unsigned long long)at,
                     vram_status_name(world.status), vram_status_name(world.meanwhile),
                     vram_error_get()->text);
        }
        world_end(&world);
        if (!was) {
            assert_ok(world.status);
            return;
        }
    }
    fail_msg("the call has no end");
}

static void try_all(step_fn *call) {
    at_every_step(call, again);
    at_every_step(call, end_scheduler);
    at_every_step(call, end_pool);
    at_every_step(call, end_device);
}

static void products(void **state) {
    (void)state;
    try_all(run_on_device);
    try_all(run_on_cpu);
}

static void started_products(void **state) {
    (void)state;
    try_all(start_one);
}

static void schedulers(void **state) {
    (void)state;
    try_all(create_scheduler);
    try_all(read_stats);
}

static void weights(void **state) {
    (void)state;
    try_all(create_weights);
}

static void searches(void **state) {
    (void)state;
    try_all(search);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products, start, nothing_left),
        cmocka_unit_test_setup_teardown(started_products, start, nothing_left),
        cmocka_unit_test_setup_teardown(schedulers, start, nothing_left),
        cmocka_unit_test_setup_teardown(weights, start, nothing_left),
        cmocka_unit_test_setup_teardown(searches, start, nothing_left),
    };
    return cmocka_run_group_tests_name("compute_steps", tests, NULL, NULL);
}
