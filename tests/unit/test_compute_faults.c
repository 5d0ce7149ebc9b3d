/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_faults.c: products and distances, on the device and on the CPU, while every
 * allocation, every call of the system and every call of the driver fails in its turn: a status or
 * the right result, and nothing is left.
 */
#include "base/os/os.h"
#include "unit/compute_world.h"
#include "unit/fault_step.h"
#include "vram/distance.h"
#include "vram/sim.h"

#include <errno.h>

enum { QUERIES = 3, VECTORS = 40, DIM = 8, NEAREST = 2 };

static float queries[QUERIES * DIM], corpus[VECTORS * DIM];

static int numbers_make(void **state) {
    (void)state;
    for (uint64_t i = 0; i < VECTORS * DIM; i++) {
        corpus[i] = made_up(1, i);
        queries[i % (QUERIES * DIM)] = made_up(2, i);
    }
    return 0;
}

static void distances_run(vram_scheduler *scheduler, vram_place place, vram_precision precision) {
    float best[QUERIES * NEAREST];
    uint64_t at[QUERIES * NEAREST];
    vram_distance distance = {.size = sizeof distance,
                              .queries = QUERIES,
                              .vectors = VECTORS,
                              .dim = DIM,
                              .query = queries,
                              .corpus = corpus,
                              .metric = VRAM_METRIC_COSINE,
                              .precision = precision,
                              .place = place,
                              .k = NEAREST,
                              .best = best,
                              .best_at = at};
    vram_scheduler *both[2] = {scheduler, scheduler};
    if (vram_distance_run(scheduler, &distance) == VRAM_OK) {
        assert_true(at[0] < VECTORS);
    }
    if (vram_distance_split(both, 2, &distance) == VRAM_OK) {
        assert_true(at[0] < VECTORS);
    }
}

static void products_run(vram_scheduler *scheduler) {
    static const vram_place places[] = {VRAM_PLACE_DEVICE, VRAM_PLACE_CPU};
    for (int i = 0; i < 2; i++) {
        vram_matmul product = product_of(30, 40, 50, 0);
        vram_weights_options options = {.size = sizeof options, .k = 40, .n = 50, .b = product.b};
        vram_weights *weights = NULL;
        vram_async async;
        product.place = places[i];
        if (vram_matmul_run(scheduler, &product) == VRAM_OK) {
            assert_right(&product);
        }
        if (vram_matmul_start(scheduler, &product, &async) == VRAM_OK &&
            vram_async_wait(&async, 20 * SECOND) == VRAM_OK) {
            assert_right(&product);
        }
        if (vram_weights_create(scheduler, &options, &weights) == VRAM_OK) {
            vram_matmul by = product;
            by.b = NULL;
            by.weights = weights;
            (void)vram_matmul_run(scheduler, &by);
            (void)vram_weights_destroy(weights);
        }
        product_end(&product);
    }
}

/* Operands and results on the device, computed on the CPU too; and several products at once, of
   which some have the same B. */
static void more_products_run(struct rig *rig, vram_pool *pool, vram_scheduler *scheduler) {
    static float b[6 * 8];
    vram_queue *queue = NULL;
    vram_addr block;
    (void)vram_queue_create(rig->device, NULL, &queue);
    if (queue && vram_alloc(pool, 3 * 64 * sizeof(float), queue, &block) == VRAM_OK) {
        vram_matmul product = {.size = sizeof product,
                               .m = 8,
                               .k = 8,
                               .n = 8,
                               .a_addr = block,
                               .b_addr = block + 64 * sizeof(float),
                               .c_addr = block + 128 * sizeof(float),
                               .queue = queue,
                               .place = VRAM_PLACE_CPU};
        (void)vram_matmul_run(scheduler, &product);
        product.place = VRAM_PLACE_AUTO;
        (void)vram_matmul_run(scheduler, &product);
        (void)vram_free(block, queue);
    }
    (void)vram_matmul_warm_up(scheduler, 4, 4, 4);
    static float results[5][64];
    vram_matmul products[5];
    for (int i = 0; i < 5; i++) {
        products[i] = (vram_matmul){.size = sizeof products[i],
                                    .m = 4,
                                    .k = i == 1 ? 8 : 6,
                                    .n = i < 2 ? 6 : 8,
                                    .a = b,
                                    .b = b,
                                    .c = results[i],
                                    .flags = i == 3 ? VRAM_MATMUL_TRANSPOSED_B : 0,
                                    .queue = i == 4 ? queue : NULL,
                                    .place = VRAM_PLACE_DEVICE};
    }
    (void)vram_matmul_batch(scheduler, products, 5);
    (void)vram_queue_destroy(queue);
}

/* A search with a device and a scheduler of its own. */
static void search_on_context(struct rig *rig) {
    float best[QUERIES];
    uint64_t at[QUERIES];
    vram_distance distance = {.size = sizeof distance,
                              .queries = QUERIES,
                              .vectors = VECTORS,
                              .dim = DIM,
                              .query = queries,
                              .corpus = corpus,
                              .k = 1,
                              .best = best,
                              .best_at = at};
    if (vram_distance_on(rig->context, 0, &distance) == VRAM_OK) {
        assert_true(at[0] < VECTORS);
    }
}

static void life(struct rig *rig) {
    vram_scheduler_options options = {.size = sizeof options, .queues = 2, .cpu_threads = 2};
    vram_scheduler *scheduler;
    vram_pool *pool;
    if (vram_pool_create(rig->device, NULL, &pool) != VRAM_OK) {
        return;
    }
    if (vram_scheduler_create(pool, &options, &scheduler) == VRAM_OK) {
        products_run(scheduler);
        more_products_run(rig, pool, scheduler);
        search_on_context(rig);
        distances_run(scheduler, VRAM_PLACE_DEVICE, VRAM_PRECISION_FP32);
        distances_run(scheduler, VRAM_PLACE_DEVICE, VRAM_PRECISION_INT8);
        distances_run(scheduler, VRAM_PLACE_CPU, VRAM_PRECISION_FP16);
        (void)vram_scheduler_destroy(scheduler);
    }
    (void)vram_pool_destroy(pool);
}

/* Each with a device of its own: one that a failure cost its work is lost. */
static void every_allocation_fails(void **state) {
    (void)state;
    uint64_t blocks = vr_mem_live_blocks();
    for (uint64_t nth = 1, failed = 1; failed; nth += FAULT_STEP) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        vr_mem_fail_at(nth, false);
        life(&rig);
        failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        (void)vram_context_destroy(rig.context);
        assert_int_equal(vr_mem_live_blocks(), blocks);
    }
}

static void every_system_call_fails(void **state) {
    (void)state;
    for (uint64_t nth = 1, failed = 1; failed; nth += FAULT_STEP) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        vr_os_fail_at(nth, false, ENOMEM);
        life(&rig);
        failed = vr_os_failed();
        vr_os_fail_at(0, false, 0);
        (void)vram_context_destroy(rig.context);
    }
}

/* Refused once, and once because memory ran out. */
static void every_driver_call_fails(void **state) {
    static const int32_t codes[] = {VRAM_SIM_INVALID_VALUE, VRAM_SIM_OUT_OF_MEMORY};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint64_t seen = 1;
        for (uint64_t nth = 1; seen; nth += FAULT_STEP) {
            struct rig rig = rig_make("sim", "memory=64M,real=on");
            vram_sim_fault fault = {
                .size = sizeof fault, .call = VRAM_SIM_ANY, .nth = nth, .code = codes[i]};
            vram_sim_state after = {.size = sizeof after};
            assert_ok(vram_sim_fault_set(rig.context, &fault));
            life(&rig);
            assert_ok(vram_sim_state_get(rig.context, &after));
            seen = after.faults;
            assert_ok(vram_sim_fault_set(rig.context, NULL));
            (void)vram_context_destroy(rig.context);
        }
    }
}

static void every_reason_has_a_text(void **state) {
    (void)state;
    for (int reason = VRAM_REASON_NONE; reason <= VRAM_REASON_MEMORY; reason++) {
        assert_string_not_equal(vram_reason_text((vram_reason)reason), "unknown");
    }
    assert_string_equal(vram_reason_text((vram_reason)1000), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_allocation_fails, nothing_left),
        cmocka_unit_test_teardown(every_system_call_fails, nothing_left),
        cmocka_unit_test_teardown(every_driver_call_fails, nothing_left),
        cmocka_unit_test(every_reason_has_a_text),
    };
    return cmocka_run_group_tests_name("compute_faults", tests, numbers_make, NULL);
}
