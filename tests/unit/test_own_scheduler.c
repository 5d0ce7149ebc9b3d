/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_scheduler.c: a scheduler that makes its context, device, pool and queues itself: one
 * call to products, one call to nothing left, whatever fails on the way.
 */
#include "unit/compute_world.h"

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("backends", "host,sim"));
    return failed;
}

TEST(one_call_is_enough) {
    vram_scheduler *scheduler;
    vram_async async;
    uint64_t result;
    assert_ok(vram_scheduler_create(NULL, NULL, &scheduler));
    for (int place = VRAM_PLACE_AUTO; place <= VRAM_PLACE_DEVICE; place++) {
        vram_matmul product = product_of(40, 30, 20, 0);
        product.place = (vram_place)place;
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);
        memset(product.c, 0, 40 * 20 * sizeof(float));
        assert_ok(vram_matmul_start(scheduler, &product, &async));
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_result_get(&async, &result));
        assert_ptr_equal((float *)(uintptr_t)result, product.c);
        assert_right(&product);
        product_end(&product);
    }
    assert_int_equal(stats_of_scheduler(scheduler).products, 6);
    assert_int_equal(stats_of_scheduler(scheduler).device_products, 2);
    assert_ok(vram_scheduler_destroy(scheduler));
    assert_int_equal(vram_scheduler_destroy(scheduler), VRAM_ERR_STALE);
    assert_int_equal(vr_handle_live(0), handles_before); /* its context and all of it is gone */
}

/* The options are the program's; each such scheduler has its own device memory. */
TEST(options_are_taken) {
    vram_scheduler_options options = {
        .size = sizeof options, .place = VRAM_PLACE_DEVICE, .queues = 1, .threshold = 5};
    vram_scheduler *one, *two;
    assert_ok(vram_scheduler_create(NULL, &options, &one));
    assert_ok(vram_scheduler_create(NULL, &options, &two));
    vram_matmul product = product_of(10, 10, 10, 0);
    assert_ok(vram_matmul_run(one, &product));
    assert_int_equal(stats_of_scheduler(one).threshold, 5);
    assert_int_equal(stats_of_scheduler(one).device_products, 1);
    assert_true(stats_of_scheduler(one).pool_reserved_bytes > 0);
    assert_int_equal(stats_of_scheduler(two).pool_reserved_bytes, 0);
    product_end(&product);
    options.queues = 99;
    vram_scheduler *none = NULL;
    assert_int_equal(vram_scheduler_create(NULL, &options, &none), VRAM_ERR_INVALID);
    assert_int_equal(vram_scheduler_create(NULL, NULL, NULL), VRAM_ERR_INVALID);
    assert_null(none);
    assert_ok(vram_scheduler_destroy(one));
    assert_ok(vram_scheduler_destroy(two));
}

TEST(no_device_is_the_reason) {
    vram_scheduler *scheduler = NULL;
    assert_ok(vram_option_set("backends", "cuda"));
    assert_ok(vram_option_set("cuda_library", "/nonexistent/libcuda.so"));
    vram_status status = vram_scheduler_create(NULL, NULL, &scheduler);
    assert_int_not_equal(status, VRAM_OK);
    assert_int_equal(vram_error_get()->status, status);
    assert_string_equal(vram_error_get()->operation, "vram_scheduler_create");
    assert_true(*vram_error_get()->text);
    assert_null(scheduler);
}

/* What was started is computed before everything ends: no handle says more than is true. */
TEST(what_was_started_is_computed) {
    enum { STARTED = 12 };
    vram_matmul products[STARTED];
    vram_async asyncs[STARTED];
    vram_scheduler *scheduler;
    assert_ok(vram_scheduler_create(NULL, NULL, &scheduler));
    for (int i = 0; i < STARTED; i++) {
        products[i] = product_of(100, 100, 100, 0);
        assert_ok(vram_matmul_start(scheduler, &products[i], &asyncs[i]));
    }
    assert_ok(vram_scheduler_destroy(scheduler));
    for (int i = 0; i < STARTED; i++) {
        assert_ok(vram_async_poll(&asyncs[i]));
        assert_right(&products[i]);
        product_end(&products[i]);
    }
}

static vr_atomic_bool called; /* after the product was computed */

static void ends_it(void *user, vram_status status) {
    assert_ok(status);
    assert_ok(vram_scheduler_destroy(user));
    vr_store(&called, true, VR_RELEASE);
}

/* A callback ends it, on the thread that computed: that thread ends the context. */
TEST(a_callback_ends_it) {
    vram_scheduler *scheduler;
    vram_async async;
    assert_ok(vram_scheduler_create(NULL, NULL, &scheduler));
    vram_matmul product = product_of(200, 200, 200, 0);
    assert_ok(vram_matmul_start(scheduler, &product, &async));
    assert_ok(vram_async_then(&async, ends_it, scheduler));
    while (!vr_load(&called, VR_ACQUIRE) || vr_handle_live(0) > handles_before) {
        vr_os_sleep(1000000);
    }
    while (vr_mem_live_bytes() > bytes_before) { /* the last thread is on its way out */
        vr_os_sleep(1000000);
    }
    assert_right(&product);
    product_end(&product);
}

EACH_TEST(begin, nothing_left)
