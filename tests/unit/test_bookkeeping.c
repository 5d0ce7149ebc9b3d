/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bookkeeping.c: the host memory that bookkeeping takes, as the headers state it: of a pending
 * operation (vram/async.h) and of a size class (vram/pool.h).
 */
#include "core/cache/cache.h"
#include "core/cache/central_cache.h"
#include "unit/compute_world.h"
#include "unit/gate_world.h"
#include "vram/transfer.h"

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
