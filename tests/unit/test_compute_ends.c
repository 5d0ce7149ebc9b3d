/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_ends.c: what products do with memory that work may still use: when a wait took too
 * long, and when the pool could not be told who uses a block.
 */
#include "compute/scheduler_object.h"
#include "unit/compute_world.h"
#include "unit/gate_world.h"
#include "vram/distance.h"

#include <pthread.h>

/* A product on the CPU whose operand has to come over a queue that does not move. */
TEST(a_late_copy_finds_its_memory) {
    struct gate gate;
    vram_addr a;
    assert_ok(vram_option_set("wait_timeout", "1s"));
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_CPU);
    vram_matmul product = product_of(30, 40, 50, 0), there = product;
    assert_ok(vram_alloc(pool, 4800, rig.queue, &a));
    assert_ok(vram_queue_upload(rig.queue, a, product.a, 4800));
    there.a = NULL;
    there.a_addr = a;
    there.queue = rig.queue;
    assert_ok(vram_matmul_run(scheduler, &there));
    assert_right(&product);
    uint64_t before = vr_mem_live_bytes();
    gate_shut(rig.device, rig.queue, &gate);
    uint64_t shut = vr_mem_live_bytes(); /* with the kernel */
    assert_int_equal(vram_matmul_run(scheduler, &there), VRAM_ERR_TIMEOUT);
    assert_true(vr_mem_live_bytes() >= shut + 4800); /* what the copy will write to is there */
    gate_open(&gate);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_matmul_run(scheduler, &there)); /* as good as before */
    assert_right(&product);
    assert_true(vr_mem_live_bytes() < before + 4800); /* the queue was seen to be through */
    assert_ok(vram_free(a, rig.queue));
    assert_ok(vram_scheduler_destroy(scheduler));
    product_end(&product);
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------------ a shared B */

static struct {
    struct vr_provider provider; /* the device's own, but for submit */
    vram_status (*submit)(struct vr_arithmetic *arithmetic, uint32_t lane, vram_queue *queue,
                          const struct vr_device_gemm *gemm);
    vram_device *device;
    vram_addr b;
    vram_queue *first;  /* that sent B */
    struct gate gate;   /* which shuts the second lane */
    unsigned submitted; /* so far */
    bool opens;         /* the gate, soon */
} held;

static void *open_soon(void *argument) {
    vr_os_sleep(5000000);
    gate_open(argument);
    return NULL;
}

/* The product of the second lane comes to stand behind a gate, and the pool cannot be told that it
   uses B. */
static vram_status submit_held(struct vr_arithmetic *arithmetic, uint32_t lane, vram_queue *queue,
                               const struct vr_device_gemm *gemm) {
    pthread_t thread;
    held.b = gemm->b.base;
    if (held.submitted++ == 0) {
        held.first = queue;
        return held.submit(arithmetic, lane, queue, gemm);
    }
    bool second = held.submitted == 2;
    if (second) {
        gate_shut(held.device, queue, &held.gate);
    }
    vram_status status = held.submit(arithmetic, lane, queue, gemm);
    if (second && held.opens) {
        assert_int_equal(pthread_create(&thread, NULL, open_soon, &held.gate), 0);
        pthread_detach(thread);
    }
    vr_mem_fail_at(second ? 1 : 0, false);
    return status;
}

static struct vr_scheduler *hold(vram_scheduler *handle, vram_device *device) {
    struct vr_scheduler *scheduler = vr_handle_pin(VR_KIND_SCHEDULER, handle);
    struct vr_arithmetic *arithmetic;
    assert_non_null(scheduler);
    assert_ok(vr_scheduler_arithmetic(scheduler, &arithmetic));
    memset(&held, 0, sizeof held);
    held.provider = *arithmetic->provider;
    held.submit = held.provider.submit;
    held.provider.submit = submit_held;
    held.device = device;
    arithmetic->provider = &held.provider;
    return scheduler;
}

TEST(a_shared_operand_outlasts_its_users) {
    for (int opens = 0; opens < 2; opens++) {
        assert_ok(vram_option_set("wait_timeout", opens ? "60s" : "1s"));
        struct rig rig = rig_make("host", NULL);
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler_options options = {
            .size = sizeof options, .place = VRAM_PLACE_DEVICE, .queues = 2};
        vram_scheduler *scheduler;
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        vram_matmul products[2] = {product_of(64, 50, 90, 0), product_of(64, 50, 90, 0)};
        free((void *)(uintptr_t)products[1].b);
        products[1].b = products[0].b; /* sent once */
        struct vr_scheduler *pinned = hold(scheduler, rig.device);
        held.opens = opens;
        vram_status status = vram_matmul_batch(scheduler, products, 2);
        vr_mem_fail_at(0, false);
        assert_int_equal(held.submitted, 2);
        if (opens) { /* waited for: nothing is wrong */
            assert_ok(status);
            assert_right(&products[0]);
            assert_right(&products[1]);
            assert_int_equal(live_in(pool), 0);
        } else {
            vram_addr again; /* nobody gets it while the second product may read it */
            assert_int_equal(status, VRAM_ERR_TIMEOUT);
            assert_ok(vram_alloc(pool, 50 * 90 * sizeof(float), held.first, &again));
            assert_true(again != held.b);
            assert_ok(vram_free(again, held.first));
            assert_int_equal(live_in(pool), 1);
            gate_open(&held.gate);
        }
        vr_leave(pinned);
        assert_ok(vram_scheduler_destroy(scheduler));
        free((void *)(uintptr_t)products[1].a);
        free(products[1].c);
        product_end(&products[0]);
        vram_context_destroy(rig.context);
    }
}

/* The first product comes to stand behind a gate. */
static vram_status submit_gated(struct vr_arithmetic *arithmetic, uint32_t lane, vram_queue *queue,
                                const struct vr_device_gemm *gemm) {
    if (held.submitted++ == 0) {
        gate_shut(held.device, queue, &held.gate);
    }
    return held.submit(arithmetic, lane, queue, gemm);
}

/* A matrix of distances has products of its own, in memory of its own. */
TEST(late_products_find_their_memory) {
    enum { QUERIES = 64, CORPUS = 200, DIM = 32 };
    static float all[QUERIES * CORPUS];
    assert_ok(vram_option_set("wait_timeout", "1s"));
    struct rig rig = rig_make("host", NULL);
    vram_scheduler *scheduler = scheduler_of(pool_of(&rig, 0), VRAM_PLACE_DEVICE);
    float *query = matrix_of(QUERIES * DIM, VRAM_PRECISION_FP32, 1);
    float *corpus = matrix_of(CORPUS * DIM, VRAM_PRECISION_FP32, 2);
    vram_distance distance = {.size = sizeof distance,
                              .metric = VRAM_METRIC_L2,
                              .precision = VRAM_PRECISION_FP16,
                              .queries = QUERIES,
                              .vectors = CORPUS,
                              .dim = DIM,
                              .query = query,
                              .corpus = corpus,
                              .distances = all};
    assert_ok(vram_distance_run(scheduler, &distance));
    struct vr_scheduler *pinned = hold(scheduler, rig.device);
    held.provider.submit = submit_gated;
    uint64_t before = vr_mem_live_bytes();
    assert_int_equal(vram_distance_run(scheduler, &distance), VRAM_ERR_TIMEOUT);
    assert_true(held.submitted > 0);
    /* Results, and both operands in half precision. */
    uint64_t used = sizeof all + (QUERIES + CORPUS) * DIM * 2;
    assert_true(vr_mem_live_bytes() >= before + used);
    gate_open(&held.gate);
    vr_leave(pinned);
    assert_ok(vram_scheduler_destroy(scheduler));
    free(query);
    free(corpus);
    vram_context_destroy(rig.context);
}
