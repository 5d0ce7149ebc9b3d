/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_ends.c: what products do with memory that work may still use: when a wait took too
 * long, and when the pool could not be told who uses a block. And the host memory that bookkeeping
 * takes, as the headers state it: of a pending operation (vram/async.h) and of a size class
 * (vram/pool.h).
 */
#include "unit/compute_world.h"
#include "unit/gate_world.h"

#include "compute/scheduler_object.h"
#include "core/cache/cache.h"
#include "core/cache/central_cache.h"
#include "vram/distance.h"
#include "vram/transfer.h"

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

/* --------------------------------------------------------------------- bookkeeping */

enum { COUNT = 10000, PENDING_BYTES = 256, CLASS_BYTES = 64 };

static vram_async asyncs[COUNT];

/* Handles lie in a table beside what vram_host_bytes counts. */
static uint64_t bytes_now(void) {
    return vram_host_bytes() + vr_handle_live(0) * VR_HANDLE_BYTES;
}

static void expect_pending(const char *what, uint64_t before, uint64_t drivers) {
    uint64_t bytes = (bytes_now() - before - drivers) / COUNT;
    print_message("%s: %llu bytes each\n", what, (unsigned long long)bytes);
    assert_in_range(bytes, 1, PENDING_BYTES);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(vram_async_poll(&asyncs[i]), VRAM_ERR_NOT_READY);
    }
}

static void await_all(void) {
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_async_wait(&asyncs[i], VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_async_end(&asyncs[i]));
    }
}

TEST(pending_points) {
    static struct gate gate;
    vram_point point;
    vram_async first;
    struct rig rig = rig_make("host", NULL);
    gate_shut(rig.device, rig.queue, &gate);
    assert_ok(vram_queue_mark(rig.queue, &point));
    assert_ok(vram_async_of_point(point, "kernel", &first)); /* the device's list of them */
    uint64_t before = bytes_now();
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_async_of_point(point, "kernel", &asyncs[i]));
    }
    expect_pending("a point", before, 0);
    gate_open(&gate);
    await_all();
    assert_true(bytes_now() <= before); /* a ready handle keeps nothing */
    vram_context_destroy(rig.context);
}

/* What the backend keeps of a submitted copy is its own: measured with plain copies. */
TEST(pending_copies) {
    static struct gate gate;
    static char from[512];
    vram_point point;
    vram_addr to;
    struct rig rig = rig_make("host", NULL);
    assert_ok(vram_device_alloc(rig.device, sizeof from, VRAM_MEMORY_DEVICE, &to));
    assert_ok(vram_transfer_upload(rig.queue, to, from, sizeof from, NULL, &asyncs[0]));
    assert_ok(vram_async_wait(&asyncs[0], VRAM_TIMEOUT_DEFAULT)); /* the tables of a first copy */
    gate_shut(rig.device, rig.queue, &gate);
    uint64_t before = bytes_now();
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_queue_upload(rig.queue, to, from, sizeof from));
        assert_ok(vram_queue_mark(rig.queue, &point));
    }
    uint64_t plain = bytes_now();
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_transfer_upload(rig.queue, to, from, sizeof from, NULL, &asyncs[i]));
    }
    expect_pending("a copy", plain, plain - before);
    gate_open(&gate);
    await_all();
    vram_context_destroy(rig.context);
}

/* Products wait with all their arguments. The first two keep the scheduler's threads busy. */
TEST(pending_products) {
    static struct gate gate;
    vram_async running[2];
    vram_addr c;
    assert_ok(vram_option_set("blas_library", "none"));
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    vram_matmul product = product_of(4, 4, 4, 0);
    float *kept = product.c;
    assert_ok(vram_alloc(pool, 4 * 4 * sizeof(float), rig.queue, &c));
    assert_ok(vram_matmul_warm_up(scheduler, 4, 4, 4));
    product.c = NULL;
    product.c_addr = c;
    product.queue = rig.queue; /* behind the gate */
    gate_shut(rig.device, rig.queue, &gate);
    uint64_t sent = stats_of_scheduler(scheduler).uploads;
    assert_ok(vram_matmul_start(scheduler, &product, &running[0]));
    assert_ok(vram_matmul_start(scheduler, &product, &running[1]));
    while (stats_of_scheduler(scheduler).uploads < sent + 4) { /* A and B of both */
        vr_os_yield();
    }
    vr_os_sleep(20000000); /* until their threads wait for the gate, as good as always */
    uint64_t before = bytes_now();
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_matmul_start(scheduler, &product, &asyncs[i]));
    }
    expect_pending("a product", before, 0);
    assert_int_equal(stats_of_scheduler(scheduler).pending, COUNT + 2);
    gate_open(&gate);
    assert_ok(vram_scheduler_destroy(scheduler)); /* what has not begun is told so */
    for (int i = 0; i < COUNT; i++) {
        vram_status status = vram_async_poll(&asyncs[i]);
        assert_true(status == VRAM_OK || status == VRAM_ERR_SHUTDOWN);
        assert_ok(vram_async_end(&asyncs[i]));
    }
    assert_true(bytes_now() <= before);
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_async_poll(&running[i]));
    }
    product.c = kept;
    product_end(&product);
    vram_context_destroy(rig.context);
}

/* A class that is used for the first time takes nothing that was not there: its place in the
   tables is at most so large, without the pointers to cached blocks. */
TEST(size_classes, "sim:memory=1G") {
    enum { CLASSES = 2000 };
    assert_true(sizeof(struct vr_central_bin) <= CLASS_BYTES);
    assert_true(sizeof(struct vr_bin) - sizeof((struct vr_bin *)0)->blocks <= CLASS_BYTES);
    assert_true(sizeof(struct vr_exact_bin) - sizeof((struct vr_exact_bin *)0)->blocks <=
                CLASS_BYTES);
    vram_pool *pool = pool_of(rig, 0);
    vram_trim_options caches = {.size = sizeof caches, .flags = VRAM_TRIM_CACHES};
    vram_addr addr;
    assert_ok(vram_alloc(pool, (CLASSES + 1) * 512, rig->queue, &addr));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_pool_trim(pool, &caches, NULL));
    uint64_t before = stats_of(pool).metadata_bytes, threads = stats_of(pool).thread_cache_bytes;
    for (uint64_t i = 1; i <= CLASSES; i++) {
        assert_ok(vram_alloc(pool, i * 512, rig->queue, &addr));
        assert_ok(vram_free(addr, rig->queue));
        assert_ok(vram_pool_trim(pool, &caches, NULL)); /* the same memory serves the next class */
    }
    uint64_t grown = stats_of(pool).metadata_bytes - before;
    print_message("%llu bytes for %d classes\n", (unsigned long long)grown, CLASSES);
    assert_true(grown <= CLASSES * CLASS_BYTES);
    assert_int_equal(stats_of(pool).thread_cache_bytes, threads);
}
