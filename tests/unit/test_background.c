/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_background.c: products that nobody waits for: pending, ready, in error, and many at once.
 * Items 2 and 5 of the acceptance list, for products.
 */
#include "unit/compute_world.h"
#include "unit/gate_world.h"

#define SIM "memory=1G,real=on"

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    return failed;
}

/* A long one is pending while the program goes on; its result stays readable after the wait. */
TEST(acceptance_2_pending_then_ready) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    for (int place = VRAM_PLACE_CPU; place <= VRAM_PLACE_DEVICE; place++) {
        vram_matmul product = product_of(600, 600, 600, 0);
        vram_async async;
        product.place = (vram_place)place;
        /* On a busy machine this thread may sleep until the product is made; not a hundred
           times. */
        assert_ok(vram_matmul_start(scheduler, &product, &async));
        vram_status begun = vram_async_poll(&async);
        for (int i = 0; i < 100 && begun != VRAM_ERR_NOT_READY; i++) {
            vram_async_end(&async);
            assert_ok(vram_matmul_start(scheduler, &product, &async));
            begun = vram_async_poll(&async);
        }
        assert_int_equal(begun, VRAM_ERR_NOT_READY);
        while (vram_async_poll(&async) == VRAM_ERR_NOT_READY) {
            vr_os_yield(); /* work of the program's own */
        }
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_wait(&async, 0)); /* twice */
        assert_true(vram_async_is_ready(&async));
        assert_right(&product);
        assert_int_equal(stats_of_scheduler(scheduler).last_place, place);
        assert_int_equal(stats_of_scheduler(scheduler).pending, 0);
        vram_async_end(&async);
        product_end(&product);
    }
    vram_context_destroy(rig.context);
}

/* What goes wrong arrives in the handle, with a text. */
TEST(acceptance_2_error_with_text, "sim:" SIM) {
    vram_error error;
    vram_async async;
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(20, 20, 20, 0);
    assert_ok(vram_matmul_warm_up(scheduler, 20, 20, 20));
    fault(rig, VRAM_SIM_LAUNCH, 1, false, 9999);
    assert_ok(vram_matmul_start(scheduler, &product, &async));
    vram_status status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT);
    assert_int_equal(status, VRAM_ERR_BACKEND);
    assert_int_equal(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT), status); /* twice */
    assert_ok(vram_async_error_get(&async, &error));
    assert_int_equal(error.status, status);
    assert_true(*error.text);
    assert_int_equal(stats_of_scheduler(scheduler).failures, 1);
    assert_int_equal(live_in(pool), 0);
    vram_async_end(&async);
    assert_ok(vram_matmul_start(scheduler, &product, &async)); /* the next one is fine */
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    assert_right(&product);
    vram_async_end(&async);
    product_end(&product);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
}

/* The result of a started product is the product: nothing before it is there, then C, wherever it
   lies. */
TEST(try_get_yields_the_product) {
    static struct gate gate;
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_matmul product = product_of(30, 20, 10, 0);
    vram_async async;
    vram_addr c;
    uint64_t result = 7;
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_alloc(pool, 30 * 10 * sizeof(float), rig.queue, &c));
    float *host = product.c;
    product.c = NULL;
    product.c_addr = c;
    product.queue = rig.queue;
    assert_ok(vram_matmul_start(scheduler, &product, &async));
    assert_int_equal(vram_async_result_get(&async, &result), VRAM_ERR_NOT_READY);
    assert_int_equal(result, 7);
    expect_no_record();
    gate_open(&gate);
    vram_status status;
    while ((status = vram_async_result_get(&async, &result)) == VRAM_ERR_NOT_READY) {
        vr_os_yield();
    }
    assert_ok(status);
    assert_int_equal(result, c);
    assert_ok(vram_queue_download(rig.queue, host, result, 30 * 10 * sizeof(float)));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    product.c = host;
    product.c_addr = 0;
    assert_right(&product);
    memset(host, 0, 30 * 10 * sizeof(float));
    product.queue = NULL;
    assert_ok(vram_matmul_start(scheduler, &product, &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 2; i++) { /* as often as it is asked */
        assert_ok(vram_async_result_get(&async, &result));
        assert_ptr_equal((float *)(uintptr_t)result, product.c);
    }
    assert_right(&product);
    product_end(&product);
    vram_context_destroy(rig.context);
}

/* Operands of a started product are what they were: in host memory, on the device, as weights, and
   turned; it equals the product that is waited for, bit for bit. */
TEST(operands_wait_unchanged, "sim:" SIM) {
    static const uint32_t flags[] = {0, VRAM_MATMUL_TRANSPOSED_A, VRAM_MATMUL_TRANSPOSED_B,
                                     VRAM_MATMUL_TRANSPOSED_A | VRAM_MATMUL_TRANSPOSED_B};
    enum { M = 12, K = 20, N = 16 };
    float expected[M * N];
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    for (int way = 0; way < 24; way++) {
        vram_precision precision = way / 12 ? VRAM_PRECISION_BF16 : VRAM_PRECISION_FP32;
        vram_matmul product = product_of(M, K, N, precision), started;
        uint64_t each = vram_precision_bytes(precision);
        vram_weights *weights = NULL;
        vram_addr a = 0, b = 0;
        vram_async async;
        product.flags = flags[way / 3 % 4];
        started = product;
        if (way % 3 == 1) {
            assert_ok(vram_alloc(pool, M * K * each, rig->queue, &a));
            assert_ok(vram_alloc(pool, K * N * each, rig->queue, &b));
            assert_ok(vram_queue_upload(rig->queue, a, product.a, M * K * each));
            assert_ok(vram_queue_upload(rig->queue, b, product.b, K * N * each));
            started.a = started.b = NULL;
            started.a_addr = a;
            started.b_addr = b;
            started.queue = rig->queue;
        } else if (way % 3 == 2) {
            vram_weights_options options = {.size = sizeof options,
                                            .k = K,
                                            .n = N,
                                            .b = product.b,
                                            .precision = precision,
                                            .flags = product.flags & VRAM_MATMUL_TRANSPOSED_B};
            assert_ok(vram_weights_create(scheduler, &options, &weights));
            started.b = NULL;
            started.b_elements = 0;
            started.weights = weights;
            started.flags &= ~(uint32_t)VRAM_MATMUL_TRANSPOSED_B;
        }
        assert_ok(vram_matmul_run(scheduler, &product));
        memcpy(expected, product.c, sizeof expected);
        memset(product.c, 0, sizeof expected);
        assert_ok(vram_matmul_start(scheduler, &started, &async));
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        assert_memory_equal(product.c, expected, sizeof expected);
        assert_ok(vram_free(a, rig->queue));
        assert_ok(vram_free(b, rig->queue));
        assert_ok(vram_weights_destroy(weights));
        product_end(&product);
    }
}

enum { MANY = 24 };

TEST(many_at_once, "sim:" SIM) {
    vram_matmul products[MANY];
    vram_async asyncs[MANY];
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    for (uint64_t i = 0; i < MANY; i++) {
        products[i] = product_of(10 + i, 30, 20, 0);
        products[i].place = i % 2 ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU;
        assert_ok(vram_matmul_start(scheduler, &products[i], &asyncs[i]));
    }
    for (uint64_t i = MANY; i-- > 0;) { /* in any order */
        assert_ok(vram_async_wait(&asyncs[i], VRAM_TIMEOUT_DEFAULT));
        assert_right(&products[i]);
        vram_async_end(&asyncs[i]);
        product_end(&products[i]);
    }
    assert_int_equal(stats_of_scheduler(scheduler).products, MANY);
}

/* A thread that waits and was woken for one product is not there for the next: both begin. */
TEST(an_idle_thread_counts_once) {
    static struct gate gate;
    vram_async asyncs[2];
    vram_addr c;
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(4, 4, 4, 0);
    float *kept = product.c;
    assert_ok(vram_alloc(pool, 4 * 4 * sizeof(float), rig.queue, &c));
    assert_ok(vram_matmul_start(scheduler, &product, &asyncs[0]));
    assert_ok(vram_async_wait(&asyncs[0], VRAM_TIMEOUT_DEFAULT)); /* its thread waits now */
    assert_ok(vram_async_end(&asyncs[0]));
    product.c = NULL;
    product.c_addr = c;
    product.queue = rig.queue;
    gate_shut(rig.device, rig.queue, &gate);
    uint64_t sent = stats_of_scheduler(scheduler).uploads;
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_matmul_start(scheduler, &product, &asyncs[i]));
    }
    uint64_t deadline = vr_os_now() + UINT64_C(30000000000);
    while (stats_of_scheduler(scheduler).uploads < sent + 4 && vr_os_now() < deadline) {
        vr_os_yield();
    }
    bool both = stats_of_scheduler(scheduler).uploads >= sent + 4; /* A and B of each */
    gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_async_wait(&asyncs[i], VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_end(&asyncs[i]));
    }
    assert_true(both);
    product.c = kept;
    product_end(&product);
    vram_context_destroy(rig.context);
}

EACH_TEST(begin, nothing_left)
