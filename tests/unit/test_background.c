/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_background.c: products that nobody waits for: pending, ready, in error, many at once, and
 * ended under their hands. Items 2 and 5 of the acceptance list, for products.
 */
#include "unit/compute_world.h"

#include <pthread.h>

#define SIM "memory=1G,real=on"

static int begin(void **state) {
    int failed = start(state);
    assert_ok(vram_option_set("blas_library", "none"));
    return failed;
}

/* A long one is pending while the program goes on; its result stays readable after the wait. */
static void acceptance_2_pending_then_ready(void **state) {
    (void)state;
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
static void acceptance_2_error_with_text(void **state) {
    vram_error error;
    vram_async async;
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(20, 20, 20, 0);
    assert_ok(vram_matmul_warm_up(scheduler, 20, 20, 20));
    fault(&rig, VRAM_SIM_LAUNCH, 1, false, 9999);
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
    rig_end_clean(&rig);
}

enum { MANY = 24 };

static void many_at_once(void **state) {
    vram_matmul products[MANY];
    vram_async asyncs[MANY];
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_of(&rig, 0);
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
    rig_end_clean(&rig);
}

static void ends_it(void *user, vram_status status) {
    assert_ok(status);
    assert_ok(vram_scheduler_destroy(user));
}

/* The scheduler ends: what has begun is finished, the rest is told. A callback may be who ends
   it. */
static void ended_under_their_hands(void **state) {
    vram_matmul products[MANY];
    vram_async asyncs[MANY];
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct rig rig = rig_make("sim", SIM);
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
        for (uint64_t i = 0; i < MANY; i++) {
            products[i] = product_of(40, 30, 20, 0);
            assert_ok(vram_matmul_start(scheduler, &products[i], &asyncs[i]));
        }
        if (way == 0) {
            assert_ok(vram_scheduler_destroy(scheduler));
        } else if (way == 1) {
            assert_ok(vram_pool_destroy(pool));
        } else {
            assert_ok(vram_async_wait(&asyncs[MANY - 1], VRAM_TIMEOUT_DEFAULT));
            assert_ok(vram_async_then(&asyncs[0], ends_it, scheduler));
        }
        for (uint64_t i = 0; i < MANY; i++) {
            vram_status status = vram_async_wait(&asyncs[i], VRAM_TIMEOUT_DEFAULT);
            assert_true(status == VRAM_OK || status == VRAM_ERR_SHUTDOWN ||
                        status == VRAM_ERR_STALE);
            if (status == VRAM_OK) {
                assert_right(&products[i]);
            }
            vram_async_end(&asyncs[i]);
            product_end(&products[i]);
        }
        assert_int_equal(vram_matmul_start(scheduler, &products[0], &asyncs[0]), VRAM_ERR_STALE);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        rig_end_clean(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, nothing_left)
        TEST(acceptance_2_pending_then_ready),
        TEST(acceptance_2_error_with_text),
        TEST(many_at_once),
        TEST(ended_under_their_hands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
