/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scheduler.c: where products run and why, what they take from the pool, tiles, batches,
 * weights, and what happens when something fails. Items 1, 3, 4 and 5 of the acceptance list.
 */
#include "unit/compute_world.h"
#include "vram/limits.h"

#include <pthread.h>

#define SIM "memory=1G,real=on"

static vram_matmul_plan plan_of(vram_scheduler *scheduler, const vram_matmul *product) {
    vram_matmul_plan plan = {.size = sizeof plan};
    assert_ok(vram_matmul_plan_get(scheduler, product, &plan));
    return plan;
}

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

/* Our own arithmetic, so that results and threads are the same everywhere. */
static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("calibration_cache", "off"));
    return failed;
}

/* --------------------------------------------------------------------- memory */

TEST(acceptance_1_second_of_a_shape_takes_no_memory, "sim:" SIM) {
    static const uint64_t shapes[][3] = {{64, 64, 64}, {100, 40, 300}, {512, 70, 300}};
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    assert_true(stats_of_scheduler(scheduler).hit_rate == 0.0);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        vram_matmul product = product_of(shapes[i][0], shapes[i][1], shapes[i][2], 0);
        vram_matmul other = product;
        other.a = matrix_of(product.m * product.k, VRAM_PRECISION_FP32, 9);
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);
        vram_scheduler_stats before = stats_of_scheduler(scheduler);
        uint64_t calls = stats_of(pool).driver_maps;
        assert_ok(vram_matmul_run(scheduler, &other)); /* same shape, other data */
        assert_right(&other);
        vram_scheduler_stats after = stats_of_scheduler(scheduler);
        assert_int_equal(after.hits, before.hits + 3);
        assert_int_equal(after.misses, before.misses);
        assert_int_equal(after.pool_driver_allocs, before.pool_driver_allocs);
        assert_int_equal(stats_of(pool).driver_maps, calls);
        assert_int_equal(after.last_place, VRAM_PLACE_DEVICE);
        assert_int_equal(live_in(pool), 0);
        free((void *)(uintptr_t)other.a);
        product_end(&product);
    }
    assert_ok(vram_scheduler_destroy(scheduler));
}

TEST(a_warm_up_makes_the_first_one_a_second, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(80, 80, 80, 0);
    assert_string_equal(stats_of_scheduler(scheduler).device_arithmetic, "");
    assert_ok(vram_matmul_warm_up(scheduler, 80, 80, 80));
    assert_string_equal(stats_of_scheduler(scheduler).device_arithmetic, "vram c");
    vram_scheduler_stats before = stats_of_scheduler(scheduler);
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    assert_int_equal(stats_of_scheduler(scheduler).misses, before.misses);
    assert_int_equal(stats_of_scheduler(scheduler).hits, before.hits + 3);
    assert_int_equal(vram_matmul_warm_up(scheduler, 0, 80, 80), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_warm_up(scheduler, UINT64_MAX, 80, 80), VRAM_ERR_OVERFLOW);
    product_end(&product);
}

/* ----------------------------------------------------------------------- the rule */

TEST(acceptance_4_the_boundary, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    float number = 1, result[4];
    vram_matmul product = {.size = sizeof product, .a = &number, .b = &number, .c = result};
    assert_int_equal(stats_of_scheduler(scheduler).threshold, 262144);
    assert_int_equal(stats_of_scheduler(scheduler).last_reason, VRAM_REASON_NONE);

    product.m = 2, product.k = 131071, product.n = 1; /* 262,142 */
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_CPU);
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_SMALL);
    product.m = 3, product.k = 87381, product.n = 1; /* threshold - 1 */
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_SMALL);
    product.m = 64, product.k = 64, product.n = 64; /* threshold */
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_DEVICE);
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_LARGE);
    product.m = 1, product.k = 100000, product.n = 100000; /* one row */
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_CPU);
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_ONE_ROW);
    product.place = VRAM_PLACE_DEVICE; /* unless the program says so */
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_DEVICE);
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_ASKED);
    product.m = 1000, product.place = VRAM_PLACE_CPU;
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_ASKED);

    vram_scheduler_options options = {.size = sizeof options, .threshold = 1000};
    vram_scheduler *other;
    assert_ok(vram_scheduler_create(pool, &options, &other));
    product.m = 10, product.k = 10, product.n = 10, product.place = VRAM_PLACE_AUTO;
    assert_int_equal(plan_of(other, &product).place, VRAM_PLACE_DEVICE);
    product.m = 9;
    assert_int_equal(plan_of(other, &product).place, VRAM_PLACE_CPU);
}

/* The host is no GPU; a simulation without contents computes nothing. */
TEST(acceptance_4_no_gpu) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(100, 100, 100, 0);
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    assert_int_equal(stats_of_scheduler(scheduler).last_place, VRAM_PLACE_CPU);
    assert_int_equal(stats_of_scheduler(scheduler).last_reason, VRAM_REASON_NO_GPU);
    assert_int_equal(stats_of(pool).allocs, 0);
    product.place = VRAM_PLACE_DEVICE;
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    assert_int_equal(stats_of(pool).allocs, 3);
    vram_device_close(rig.device);
    assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_STALE);
    vram_context_destroy(rig.context);

    rig = rig_make("sim", "memory=1G");
    pool = pool_of(&rig, 0);
    scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    product.place = VRAM_PLACE_AUTO;
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    assert_int_equal(stats_of_scheduler(scheduler).last_reason, VRAM_REASON_NO_ARITHMETIC);
    product.place = VRAM_PLACE_DEVICE;
    assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_UNSUPPORTED);
    product_end(&product);
    rig_end_clean(&rig);
}

TEST(measured_rates_decide) {
    vram_calibration rates = {.size = sizeof rates,
                              .cpu_rate = 1e9,
                              .device_rate = 1e12,
                              .upload_rate = 1e10,
                              .download_rate = 1e10,
                              .device_seconds = 1e-4};
    vram_scheduler_options options = {.size = sizeof options, .calibration = &rates};
    float number;
    vram_matmul product = {.size = sizeof product, .a = &number, .b = &number, .c = &number};
    vram_scheduler *scheduler;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));
    assert_true(stats_of_scheduler(scheduler).calibrated);
    product.m = 64, product.k = 64, product.n = 16; /* 66 us here, 100 us there */
    assert_int_equal(plan_of(scheduler, &product).reason, VRAM_REASON_MEASURED);
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_CPU);
    product.n = 64; /* 262 us here */
    assert_int_equal(plan_of(scheduler, &product).place, VRAM_PLACE_DEVICE);
    assert_int_equal(vram_scheduler_calibrate(scheduler, &rates), VRAM_OK); /* what it has */
    rates.cpu_rate = 0;
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    assert_int_equal(vram_scheduler_calibrate(scheduler, NULL), VRAM_ERR_UNSUPPORTED);
    rig_end_clean(&rig);

    rig = rig_make("host", NULL);
    pool = pool_of(&rig, 0);
    scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    rates = (vram_calibration){.size = sizeof rates};
    assert_ok(vram_scheduler_calibrate(scheduler, &rates));
    assert_true(rates.cpu_rate > 0 && rates.device_rate > 0 && rates.upload_rate > 0);
    vram_calibration again = {.size = sizeof again};
    assert_ok(vram_scheduler_calibrate(scheduler, &again)); /* once */
    assert_memory_equal(&rates, &again, sizeof rates);
    assert_int_equal(live_in(pool), 0);
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------------------ tiles */

/* Memory runs out: smaller tiles, then the CPU, unless that is not wanted. */
TEST(out_of_device_memory, "sim:memory=64M,real=on") {
    vram_pool_options small = {.size = sizeof small};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 4 * MIB};
    vram_pool *pool;
    small.limits = &limits;
    assert_ok(vram_pool_create(rig->device, &small, &pool));
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(1000, 100, 1500, 0); /* 400 K, 600 K, 6 M */
    assert_ok(vram_matmul_run(scheduler, &product));
    assert_right(&product);
    vram_scheduler_stats stats = stats_of_scheduler(scheduler);
    assert_int_equal(stats.last_place, VRAM_PLACE_DEVICE);
    assert_true(stats.shrinks > 0);
    assert_int_equal(stats.cpu_fallbacks, 0);

    vram_addr hog; /* leaves nothing */
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    limits.hard_bytes = 2 * MIB;
    assert_ok(vram_pool_limits_set(pool, &limits));
    assert_ok(vram_alloc(pool, 2 * MIB - 65536, rig->queue, &hog));
    vram_matmul long_one = product_of(64, 4000, 64, 0); /* 1 M for the smallest tile */
    assert_ok(vram_matmul_run(scheduler, &long_one));
    assert_right(&long_one);
    stats = stats_of_scheduler(scheduler);
    assert_int_equal(stats.last_place, VRAM_PLACE_CPU);
    assert_int_equal(stats.last_reason, VRAM_REASON_MEMORY);
    assert_int_equal(stats.cpu_fallbacks, 1);
    long_one.place = VRAM_PLACE_DEVICE;
    assert_true(vram_status_is_exhausted(vram_matmul_run(scheduler, &long_one)));
    long_one.place = VRAM_PLACE_AUTO;
    vram_scheduler_options options = {.size = sizeof options, .flags = VRAM_SCHEDULER_NO_FALLBACK};
    vram_scheduler *strict;
    assert_ok(vram_scheduler_create(pool, &options, &strict));
    assert_true(vram_status_is_exhausted(vram_matmul_run(strict, &long_one)));
    assert_int_equal(stats_of_scheduler(strict).failures, 1);
    assert_int_equal(live_in(pool), 1);
    product_end(&product);
    product_end(&long_one);
}

TEST(exhaustion_is_told_if_asked) {
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make("sim", "memory=64M,real=on");
        vram_scheduler_options options = {
            .size = sizeof options, .flags = i ? VRAM_SCHEDULER_NO_FALLBACK : 0, .threshold = 1};
        vram_matmul product = product_of(8, 8, 8, 0);
        vram_weights_options of_weights = {
            .size = sizeof of_weights, .k = 2048, .n = 2048, .b = product.b};
        vram_scheduler *scheduler;
        vram_weights *weights;
        vram_pool *pool = pool_of(&rig, 0);
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        vr_mem_fail_at(1, false); /* of what computes on the device */
        vram_status status = vram_matmul_run(scheduler, &product);
        vr_mem_fail_at(0, false);
        assert_int_equal(status, i ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);

        /* Weights go to the host only if they may. */
        void *b = calloc(2048 * 2048, sizeof(float));
        of_weights.b = b;
        fault(&rig, VRAM_SIM_ANY, 1, true, VRAM_SIM_OUT_OF_MEMORY);
        status = vram_weights_create(scheduler, &of_weights, &weights);
        assert_int_equal(status, i ? VRAM_ERR_DEVICE_MEMORY : VRAM_OK);
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        free(b);
        product_end(&product);
        vram_error_clear();
        rig_end_clean(&rig);
    }
}

/* The library's own kernels count lines and elements. Nobody reads the operands for a plan. */
TEST(tiles_have_bounds) {
    static float somewhere[1];
    const uint64_t lines = UINT64_C(65535) * 64, deep = 8192, memory = UINT64_C(1) << 40;
    const struct {
        uint64_t m, k, n, device_bytes;
        bool too_large;
    } rows[] = {
        {2 * lines, 1, 1, 0, false}, {1, 1, 2 * lines, 0, false},
        {lines, deep, 1, 0, false},  {1, deep, lines, 0, false}, /* 2^32 elements */
        {1, lines + 1, 1, 0, true},  {4096, 64, 4096, 256 << 10, false},
    };
    assert_int_equal(setenv("FAKE_CUDA_MEMORY", "1099511627776", 1), 0);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("cublas_library", "none"));
    struct rig rig = rig_make("cuda", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_matmul_plan plan = {.size = sizeof plan};
    vram_scheduler *scheduler;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_scheduler_options options = {.size = sizeof options,
                                          .place = VRAM_PLACE_DEVICE,
                                          .device_bytes = rows[i].device_bytes};
        vram_matmul product = {.size = sizeof product,
                               .m = rows[i].m,
                               .k = rows[i].k,
                               .n = rows[i].n,
                               .a = somewhere,
                               .b = somewhere,
                               .c = somewhere};
        uint64_t most = rows[i].device_bytes ? rows[i].device_bytes : memory;
        plan.tile_m = plan.tile_n = plan.device_bytes = 0;
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        assert_int_equal(vram_matmul_plan_get(scheduler, &product, &plan),
                         rows[i].too_large ? VRAM_ERR_UNSUPPORTED : VRAM_OK);
        assert_true(plan.tile_m <= lines && plan.tile_n <= lines && plan.device_bytes <= most);
        assert_true(plan.tile_m * rows[i].k <= UINT32_MAX && plan.tile_n * rows[i].k <= UINT32_MAX);
        assert_ok(vram_scheduler_destroy(scheduler));
    }
    /* What lies on the device is not cut: it is too much. */
    vram_addr large, small;
    assert_ok(vram_device_alloc(rig.device, lines * deep * 4, VRAM_MEMORY_DEVICE, &large));
    assert_ok(vram_alloc(pool, lines * 4, rig.queue, &small));
    scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    for (int turned = 0; turned < 2; turned++) {
        vram_matmul product = {.size = sizeof product,
                               .m = turned ? 1 : lines,
                               .k = deep,
                               .n = turned ? lines : 1,
                               .a_addr = turned ? small : large,
                               .b_addr = turned ? large : small,
                               .queue = rig.queue};
        vram_addr result;
        assert_ok(vram_alloc(pool, lines * 4, rig.queue, &result));
        product.c_addr = result;
        assert_int_equal(vram_matmul_plan_get(scheduler, &product, &plan), VRAM_ERR_UNSUPPORTED);
        assert_ok(vram_free(result, rig.queue));
    }
    assert_ok(vram_device_free(rig.device, large));
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- batches */

/* In the time of a simulated H200: N with shared weights against N by themselves. */
TEST(acceptance_3_a_batch_is_faster, "sim:" SIM ",profile=h200") {
    vram_matmul products[32];
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul first = product_of(16, 256, 256, 0);
    for (int i = 0; i < 32; i++) {
        products[i] = first;
        products[i].c = matrix_of(16 * 256, VRAM_PRECISION_FP32, 1);
    }
    assert_ok(vram_matmul_batch(scheduler, products, 32)); /* warm */
    uint64_t begun = sim_state(rig).clock_ns;
    for (int i = 0; i < 32; i++) {
        assert_ok(vram_matmul_run(scheduler, &products[i]));
    }
    uint64_t middle = sim_state(rig).clock_ns;
    assert_ok(vram_matmul_batch(scheduler, products, 32));
    uint64_t ended = sim_state(rig).clock_ns;
    assert_true(ended - middle < (middle - begun) / 2);
    for (int i = 0; i < 32; i++) {
        free(products[i].c);
    }
    product_end(&first);
}

/* --------------------------------------------------------------------- weights */

TEST(weights_stay, "sim:" SIM) {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    for (int precision = VRAM_PRECISION_FP32; precision <= VRAM_PRECISION_BF16; precision++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            vram_matmul product = product_of(1, 40, 50, (vram_precision)precision);
            vram_weights_options options = {.size = sizeof options,
                                            .k = 40,
                                            .n = 50,
                                            .b = product.b,
                                            .b_elements = 2000,
                                            .precision = (vram_precision)precision,
                                            .flags = flags & VRAM_MATMUL_TRANSPOSED_B};
            vram_weights *weights;
            assert_ok(vram_weights_create(scheduler, &options, &weights));
            assert_int_equal(live_in(pool), 1);
            uint64_t uploads = stats_of_scheduler(scheduler).uploads;
            vram_matmul with = product;
            with.b = NULL;
            with.weights = weights;
            with.flags = flags & VRAM_MATMUL_TRANSPOSED_A;
            product.flags = flags;
            assert_int_equal(plan_of(scheduler, &with).reason, VRAM_REASON_RESIDENT);
            assert_ok(vram_matmul_run(scheduler, &with)); /* one row, and on the device */
            assert_right(&product);
            assert_int_equal(stats_of_scheduler(scheduler).last_place, VRAM_PLACE_DEVICE);
            assert_int_equal(stats_of_scheduler(scheduler).uploads, uploads + 1); /* A alone */
            with.place = VRAM_PLACE_CPU; /* they come to the CPU when it is asked for */
            memset(product.c, 0, 50 * sizeof(float));
            assert_ok(vram_matmul_run(scheduler, &with));
            assert_right(&product);

            with.k = 41;
            with.a_elements = 0;
            assert_int_equal(vram_matmul_run(scheduler, &with), VRAM_ERR_INVALID);
            expect_told("40 x 50");
            with.k = 40;
            with.b = product.b;
            assert_int_equal(vram_matmul_run(scheduler, &with), VRAM_ERR_INVALID);
            assert_ok(vram_weights_destroy(weights));
            assert_int_equal(vram_weights_destroy(weights), VRAM_ERR_STALE);
            with.b = NULL;
            assert_int_equal(vram_matmul_run(scheduler, &with), VRAM_ERR_STALE);
            assert_int_equal(live_in(pool), 0);
            product_end(&product);
        }
    }
    assert_int_equal(stats_of_scheduler(scheduler).weights, 0);
    assert_ok(vram_weights_destroy(NULL));
}

/* On the host they are a copy that the program cannot change; other schedulers' are refused. */
TEST(weights_elsewhere) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_scheduler *other = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(3, 4, 5, 0);
    vram_weights_options options = {.size = sizeof options, .k = 4, .n = 5, .b = product.b};
    vram_weights *weights, *left;
    assert_ok(vram_weights_create(scheduler, &options, &weights));
    assert_ok(vram_weights_create(scheduler, &options, &left));
    assert_int_equal(stats_of_scheduler(scheduler).weights, 2);
    assert_int_equal(stats_of_scheduler(scheduler).weight_bytes, 160);
    vram_matmul with = product;
    with.b = NULL;
    with.weights = weights;
    assert_ok(vram_matmul_run(scheduler, &with));
    assert_right(&product);
    assert_int_equal(vram_matmul_run(other, &with), VRAM_ERR_INVALID);
    with.precision = VRAM_PRECISION_FP16;
    assert_int_equal(vram_matmul_run(scheduler, &with), VRAM_ERR_INVALID);
    expect_told("fp16");
    assert_ok(vram_weights_destroy(weights));
    product_end(&product);
    vram_context_destroy(rig.context); /* `left` goes with the pool */
    assert_int_equal(vram_weights_destroy(left), VRAM_ERR_STALE);
}

/* --------------------------------------------------------------------- threads */

struct worker {
    vram_scheduler *scheduler;
    vram_weights *weights;
    uint64_t seed;
};

static void *computes(void *argument) {
    const struct worker *worker = argument;
    for (uint64_t i = 0; i < 6; i++) {
        vram_matmul product = product_of(10 + worker->seed * 13, 50, 60, 0);
        product.place = i % 2 ? VRAM_PLACE_DEVICE : VRAM_PLACE_AUTO;
        vram_matmul with = product;
        if (i % 3 == 0) {
            with.b = NULL;
            with.weights = worker->weights;
        }
        assert_ok(vram_matmul_run(worker->scheduler, &with));
        assert_right(&product);
        product_end(&product);
    }
    return NULL;
}

TEST(every_reason_has_a_text) {
    for (int reason = VRAM_REASON_NONE; reason <= VRAM_REASON_MEMORY; reason++) {
        assert_string_not_equal(vram_reason_text((vram_reason)reason), "unknown");
    }
    assert_string_equal(vram_reason_text((vram_reason)1000), "unknown");
}

TEST(threads_share_a_scheduler, "sim:" SIM) {
    pthread_t threads[4];
    struct worker workers[4];
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    void *b = matrix_of(3000, VRAM_PRECISION_FP32, 2);
    vram_weights_options options = {.size = sizeof options, .k = 50, .n = 60, .b = b};
    vram_weights *weights;
    assert_ok(vram_weights_create(scheduler, &options, &weights));
    for (uint64_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){scheduler, weights, i};
        assert_int_equal(pthread_create(&threads[i], NULL, computes, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(stats_of_scheduler(scheduler).products, 24);
    assert_int_equal(live_in(pool), 1);
    free(b);
}

EACH_TEST(begin, nothing_left)
