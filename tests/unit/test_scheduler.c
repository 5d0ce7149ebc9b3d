/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scheduler.c: where products run and why, what they take from the pool, tiles, batches,
 * weights, and what happens when something fails. Items 1, 3, 4 and 5 of the acceptance list.
 */
#include "base/clock.h"
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
static int begin(void **state) {
    int failed = start(state);
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("calibration_cache", "off"));
    return failed;
}

/* --------------------------------------------------------------------- memory */

static void acceptance_1_second_of_a_shape_takes_no_memory(void **state) {
    static const uint64_t shapes[][3] = {{64, 64, 64}, {100, 40, 300}, {512, 70, 300}};
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

static void a_warm_up_makes_the_first_one_a_second(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------------- the rule */

static void acceptance_4_the_boundary(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

/* The host is no GPU; a simulation without contents computes nothing. */
static void acceptance_4_no_gpu(void **state) {
    (void)state;
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

static void measured_rates_decide(void **state) {
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
    (void)state;
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

/* The tiles cover every layout and type, with operands of which only parts fit. */
static void tiles_when_the_device_is_small(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler_options options = {
        .size = sizeof options, .place = VRAM_PLACE_DEVICE, .device_bytes = 150000};
    vram_scheduler *scheduler;
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));
    for (int precision = VRAM_PRECISION_FP32; precision <= VRAM_PRECISION_BF16; precision++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            vram_matmul product = product_of(300, 70, 210, (vram_precision)precision);
            product.flags = flags;
            vram_matmul_plan plan = plan_of(scheduler, &product);
            assert_true(plan.tiles > 1);
            assert_true(plan.device_bytes <= 150000);
            uint64_t tiles = stats_of_scheduler(scheduler).tiles;
            assert_ok(vram_matmul_run(scheduler, &product));
            assert_right(&product);
            assert_int_equal(stats_of_scheduler(scheduler).tiles, tiles + plan.tiles);
            product_end(&product);
        }
    }
    assert_int_equal(live_in(pool), 0);
    vram_matmul wide = product_of(2, 40000, 2, 0); /* one row is more than the device may have */
    assert_int_equal(vram_matmul_run(scheduler, &wide), VRAM_ERR_UNSUPPORTED);
    wide.place = VRAM_PLACE_CPU;
    assert_ok(vram_matmul_run(scheduler, &wide));
    assert_right(&wide);
    product_end(&wide);
    rig_end_clean(&rig);
}

/* Memory runs out: smaller tiles, then the CPU, unless that is not wanted. */
static void out_of_device_memory(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_pool_options small = {.size = sizeof small};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 4 * MIB};
    vram_pool *pool;
    small.limits = &limits;
    assert_ok(vram_pool_create(rig.device, &small, &pool));
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
    assert_ok(vram_alloc(pool, 2 * MIB - 65536, rig.queue, &hog));
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
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------- batches */

enum { BATCH = 12 };

static void acceptance_3_a_batch_is_the_same_as_its_products(void **state) {
    vram_matmul products[BATCH];
    float *alone[BATCH];
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    void *shared = matrix_of(80 * 90, VRAM_PRECISION_FP32, 77);
    for (uint64_t i = 0; i < BATCH; i++) {
        products[i] = product_of(70 + i, 80, 90, 0);
        free((void *)(uintptr_t)products[i].b);
        products[i].b = shared;
        alone[i] = products[i].c;
        assert_ok(vram_matmul_run(scheduler, &products[i]));
        products[i].c = matrix_of(products[i].m * 90, VRAM_PRECISION_FP32, 5);
    }
    vram_scheduler_stats before = stats_of_scheduler(scheduler);
    assert_ok(vram_matmul_batch(scheduler, products, BATCH));
    vram_scheduler_stats after = stats_of_scheduler(scheduler);
    for (uint64_t i = 0; i < BATCH; i++) {
        assert_right(&products[i]);
        assert_memory_equal(products[i].c, alone[i], products[i].m * 90 * sizeof(float));
    }
    /* B was sent once, and each A; every product counts. */
    assert_int_equal(after.uploads - before.uploads, BATCH + 1);
    assert_int_equal(after.downloads - before.downloads, BATCH);
    assert_int_equal(after.shared_operands - before.shared_operands, BATCH - 1);
    assert_int_equal(after.device_products - before.device_products, BATCH);
    assert_int_equal(live_in(pool), 0);

    /* What B holds is looked at again by the next batch: nothing stays behind. */
    ((float *)shared)[5] = 123;
    assert_ok(vram_matmul_batch(scheduler, products, 2));
    assert_right(&products[0]);
    products[1].k = 81;
    assert_int_equal(vram_matmul_batch(scheduler, products, 3), VRAM_ERR_INVALID);
    expect_told("product 1 of the batch");
    products[1].k = 80;
    products[1].place = VRAM_PLACE_CPU; /* some here, some there */
    assert_ok(vram_matmul_batch(scheduler, products, 3));
    assert_right(&products[1]);
    assert_right(&products[2]);
    assert_int_equal(vram_matmul_batch(scheduler, NULL, 1), VRAM_ERR_INVALID);
    assert_ok(vram_matmul_batch(scheduler, NULL, 0));
    for (uint64_t i = 0; i < BATCH; i++) {
        free(alone[i]);
        free((void *)(uintptr_t)products[i].a);
        free(products[i].c);
    }
    free(shared);
    rig_end_clean(&rig);
}

/* In the time of a simulated H200: N with shared weights against N by themselves. */
static void acceptance_3_a_batch_is_faster(void **state) {
    vram_matmul products[32];
    (void)state;
    struct rig rig = rig_make("sim", SIM ",profile=h200");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul first = product_of(16, 256, 256, 0);
    for (int i = 0; i < 32; i++) {
        products[i] = first;
        products[i].c = matrix_of(16 * 256, VRAM_PRECISION_FP32, 1);
    }
    assert_ok(vram_matmul_batch(scheduler, products, 32)); /* warm */
    uint64_t begun = sim_state(&rig).clock_ns;
    for (int i = 0; i < 32; i++) {
        assert_ok(vram_matmul_run(scheduler, &products[i]));
    }
    uint64_t middle = sim_state(&rig).clock_ns;
    assert_ok(vram_matmul_batch(scheduler, products, 32));
    uint64_t ended = sim_state(&rig).clock_ns;
    assert_true(ended - middle < (middle - begun) / 2);
    for (int i = 0; i < 32; i++) {
        free(products[i].c);
    }
    product_end(&first);
    rig_end_clean(&rig);
}

static void acceptance_5_sizes(void **state) {
    (void)state;
    assert_int_equal(sizeof(vram_async), 32); /* a pending product, as its caller sees it */
}

/* --------------------------------------------------------------------- weights */

static void weights_stay(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

/* On the host they are a copy that the program cannot change; other schedulers' are refused. */
static void weights_elsewhere(void **state) {
    (void)state;
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

/* ------------------------------------------------------------------- addresses */

static void operands_on_the_device(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(30, 40, 50, 0), there = product;
    vram_addr a, b, c;
    assert_ok(vram_alloc(pool, 4800, rig.queue, &a));
    assert_ok(vram_alloc(pool, 8000, rig.queue, &b));
    assert_ok(vram_alloc(pool, 6000, rig.queue, &c));
    assert_ok(vram_queue_upload(rig.queue, a, product.a, 4800));
    assert_ok(vram_queue_upload(rig.queue, b, product.b, 8000));
    there.a = there.b = there.c = NULL;
    there.a_addr = a, there.b_addr = b, there.c_addr = c;
    there.queue = rig.queue; /* in its order: nobody waits before */
    uint64_t uploads = stats_of_scheduler(scheduler).uploads;
    assert_ok(vram_matmul_run(scheduler, &there));
    assert_int_equal(stats_of_scheduler(scheduler).uploads, uploads);
    memset(product.c, 0, 6000);
    assert_ok(vram_queue_download(rig.queue, product.c, c, 6000));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_right(&product);
    there.place = VRAM_PLACE_CPU; /* fetched, computed, and put back */
    assert_ok(vram_queue_fill(rig.queue, c, 0, 4, 6000));
    assert_ok(vram_matmul_run(scheduler, &there));
    assert_ok(vram_queue_download(rig.queue, product.c, c, 6000));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_right(&product);
    there.place = VRAM_PLACE_AUTO;
    there.c_addr = 4096; /* nobody's memory */
    assert_int_equal(vram_matmul_run(scheduler, &there), VRAM_ERR_INVALID);
    assert_ok(vram_free(a, rig.queue));
    assert_ok(vram_free(b, rig.queue));
    assert_ok(vram_free(c, rig.queue));
    product_end(&product);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------- bad input */

static void bad_input(void **state) {
    float numbers[16] = {0};
    vram_matmul good = {
        .size = sizeof good, .m = 2, .k = 2, .n = 2, .a = numbers, .b = numbers, .c = numbers + 8};
    vram_matmul bad = good;
    vram_matmul_plan plan = {.size = sizeof plan};
    vram_scheduler *scheduler;
    vram_async async;
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler_options options = {.size = sizeof options, .place = 3};
    assert_int_equal(vram_scheduler_create(pool, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    options = (vram_scheduler_options){.size = sizeof options, .flags = 4};
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    options = (vram_scheduler_options){.size = sizeof options, .queues = 9};
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    options = (vram_scheduler_options){.size = sizeof options, .cpu_threads = 17};
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
    scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    assert_ok(vram_matmul_run(scheduler, &good));

#define REFUSED(change, status, text)                                                              \
    do {                                                                                           \
        bad = good;                                                                                \
        change;                                                                                    \
        assert_int_equal(vram_matmul_run(scheduler, &bad), status);                                \
        expect_told(text);                                                                         \
        bad.place = VRAM_PLACE_CPU; /* the same rules on every path */                             \
        assert_int_equal(vram_matmul_run(scheduler, &bad), status);                                \
        assert_int_equal(vram_matmul_start(scheduler, &bad, &async), status);                      \
    } while (0)
    REFUSED(bad.m = 0, VRAM_ERR_INVALID, "at least 1, not 0, 2 and 2");
    REFUSED(bad.k = 0, VRAM_ERR_INVALID, "at least 1");
    REFUSED(bad.n = 0, VRAM_ERR_INVALID, "at least 1");
    REFUSED(bad.m = UINT64_MAX, VRAM_ERR_OVERFLOW, "64 bits");
    REFUSED(bad.k = UINT64_C(1) << 62, VRAM_ERR_OVERFLOW, "64 bits");
    REFUSED((bad.m = UINT64_C(1) << 32, bad.n = UINT64_C(1) << 31), VRAM_ERR_OVERFLOW, "64 bits");
    REFUSED(bad.a_elements = 5, VRAM_ERR_INVALID, "A has 5 elements, and a shape of 2 x 2 needs 4");
    REFUSED(bad.b_elements = 3, VRAM_ERR_INVALID, "B has 3");
    REFUSED(bad.c_elements = 9, VRAM_ERR_INVALID, "C has 9");
    REFUSED(bad.a = NULL, VRAM_ERR_INVALID, "A is missing");
    REFUSED(bad.b = NULL, VRAM_ERR_INVALID, "B is missing");
    REFUSED(bad.c = NULL, VRAM_ERR_INVALID, "C is missing");
    REFUSED(bad.a_addr = 4096, VRAM_ERR_INVALID, "A is both");
    REFUSED(bad.flags = 4, VRAM_ERR_INVALID, "0x4");
    REFUSED(bad.precision = VRAM_PRECISION_INT8, VRAM_ERR_INVALID, "int8");
    REFUSED(bad.precision = 99, VRAM_ERR_INVALID, "99");
    bad = good;
    bad.place = 7;
    assert_int_equal(vram_matmul_run(scheduler, &bad), VRAM_ERR_INVALID);
    bad.size = 1;
    assert_int_equal(vram_matmul_run(scheduler, &bad), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_run(scheduler, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_start(scheduler, NULL, &async), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_start(scheduler, &good, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_plan_get(scheduler, NULL, &plan), VRAM_ERR_INVALID);
    assert_int_equal(vram_matmul_plan_get(scheduler, &good, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scheduler_stats_get(scheduler, NULL), VRAM_ERR_INVALID);
    vram_calibration old = {.size = 1};
    assert_int_equal(vram_scheduler_calibrate(scheduler, &old), VRAM_ERR_UNSUPPORTED);

    vram_weights_options weights = {.size = sizeof weights, .k = 2, .n = 2, .b = numbers};
    vram_weights *made;
    assert_int_equal(vram_weights_create(scheduler, NULL, &made), VRAM_ERR_INVALID);
    assert_int_equal(vram_weights_create(scheduler, &weights, NULL), VRAM_ERR_INVALID);
    weights.b_elements = 5;
    assert_int_equal(vram_weights_create(scheduler, &weights, &made), VRAM_ERR_INVALID);
    weights.b_elements = 0, weights.k = 0;
    assert_int_equal(vram_weights_create(scheduler, &weights, &made), VRAM_ERR_INVALID);
    weights.k = UINT64_MAX;
    assert_int_equal(vram_weights_create(scheduler, &weights, &made), VRAM_ERR_OVERFLOW);
    weights.k = 2, weights.flags = VRAM_MATMUL_TRANSPOSED_A;
    assert_int_equal(vram_weights_create(scheduler, &weights, &made), VRAM_ERR_INVALID);
    weights.flags = 0, weights.precision = VRAM_PRECISION_INT8;
    assert_int_equal(vram_weights_create(scheduler, &weights, &made), VRAM_ERR_INVALID);
    assert_string_equal(vram_reason_text(VRAM_REASON_ONE_ROW), "m is at most 1");
    assert_string_equal(vram_reason_text((vram_reason)99), "unknown");
    assert_int_equal(live_in(pool), 0);
    assert_ok(vram_scheduler_destroy(scheduler));
    assert_int_equal(vram_scheduler_destroy(scheduler), VRAM_ERR_STALE);
    assert_ok(vram_scheduler_destroy(NULL));
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------------- faults */

/* One product with weights, one in tiles, a batch; memory or driver may fail at any call. Results
   of a call that says it is done are there, whichever of its transfers were tried twice. */
static vram_status much(struct rig *rig, vram_pool *pool) {
    static float a[70 * 20], b[20 * 90], c[3][70 * 90];
    vram_scheduler_options options = {
        .size = sizeof options, .place = VRAM_PLACE_DEVICE, .device_bytes = 30000};
    vram_weights_options kept = {.size = sizeof kept, .k = 20, .n = 90, .b = b};
    vram_matmul products[3];
    vram_scheduler *scheduler = NULL;
    vram_weights *weights = NULL;
    (void)rig;
    for (uint64_t i = 0; i < 20 * 90; i++) {
        a[i % (70 * 20)] = made_up(1, i);
        b[i] = made_up(2, i);
    }
    memset(c, 0xff, sizeof c); /* no numbers */
    for (int i = 0; i < 3; i++) {
        products[i] = (vram_matmul){.size = sizeof products[i],
                                    .m = 70,
                                    .k = 20,
                                    .n = 90,
                                    .precision = VRAM_PRECISION_FP32,
                                    .a = a,
                                    .b = b,
                                    .c = c[i]};
    }
    vram_status status = vram_scheduler_create(pool, &options, &scheduler);
    if (status == VRAM_OK) {
        status = vram_weights_create(scheduler, &kept, &weights);
    }
    if (status == VRAM_OK) {
        products[0].b = NULL;
        products[0].weights = weights;
        status = vram_matmul_batch(scheduler, products, 3);
        products[0].b = b; /* to be held against */
    }
    for (int i = 0; status == VRAM_OK && i < 3; i++) {
        assert_right(&products[i]);
    }
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
    }
    struct vram_error error = *vram_error_get();
    assert_ok(vram_weights_destroy(weights));
    assert_ok(vram_scheduler_destroy(scheduler));
    vr_error_restore(&error);
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    fail_every_call(much, SIM);
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

static void threads_share_a_scheduler(void **state) {
    pthread_t threads[4];
    struct worker workers[4];
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, nothing_left)
        TEST(acceptance_1_second_of_a_shape_takes_no_memory),
        TEST(a_warm_up_makes_the_first_one_a_second),
        TEST(acceptance_4_the_boundary),
        TEST(acceptance_4_no_gpu),
        TEST(measured_rates_decide),
        TEST(tiles_when_the_device_is_small),
        TEST(out_of_device_memory),
        TEST(acceptance_3_a_batch_is_the_same_as_its_products),
        TEST(acceptance_3_a_batch_is_faster),
        TEST(acceptance_5_sizes),
        TEST(weights_stay),
        TEST(weights_elsewhere),
        TEST(operands_on_the_device),
        TEST(bad_input),
        TEST(every_call_may_fail),
        TEST(threads_share_a_scheduler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
