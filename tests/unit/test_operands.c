/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_operands.c: memory that is too short for its matrix, and results that would lie on what they
 * are made of: refused before anything is computed, on the device as on the CPU.
 */
#include "unit/compute_world.h"
#include "vram/distance.h"

enum { SIDE = 64, BYTES = SIDE * SIDE * 4 };

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

static int begin(void) {
    int failed = start();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("calibration_cache", "off"));
    return failed;
}

#define REFUSED(scheduler, product)                                                                \
    do {                                                                                           \
        vram_async async;                                                                          \
        assert_int_equal(vram_matmul_run(scheduler, product), VRAM_ERR_INVALID);                   \
        assert_int_equal(vram_matmul_start(scheduler, product, &async), VRAM_ERR_INVALID);         \
        assert_int_equal(vram_matmul_batch(scheduler, product, 1), VRAM_ERR_INVALID);              \
    } while (0)

/* Each operand in turn, in the driver's memory and in a pool's block, on the device and on the
   CPU. */
TEST(addresses_with_too_little_behind_them, "sim:memory=1G,real=on") {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_addr good[3], small, block;
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_alloc(pool, BYTES, rig->queue, &good[i]));
    }
    assert_ok(vram_alloc(pool, BYTES / 2, rig->queue, &block));
    assert_ok(vram_device_alloc(rig->device, BYTES / 2, VRAM_MEMORY_DEVICE, &small));
    for (int i = 0; i < 12; i++) {
        vram_addr at[3] = {good[0], good[1], good[2]};
        at[i % 3] = i / 3 % 2 ? small : block;
        vram_matmul product = {.size = sizeof product,
                               .m = SIDE,
                               .k = SIDE,
                               .n = SIDE,
                               .a_addr = at[0],
                               .b_addr = at[1],
                               .c_addr = at[2],
                               .place = i < 6 ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU,
                               .queue = rig->queue};
        REFUSED(scheduler, &product);
        product.precision = VRAM_PRECISION_FP16; /* half as long: it fits, but for C */
        assert_int_equal(vram_matmul_run(scheduler, &product),
                         i % 3 == 2 ? VRAM_ERR_INVALID : VRAM_OK);
    }
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_device_free(rig->device, small));
}

TEST(results_on_their_operands, "sim:memory=1G,real=on") {
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    float *host = calloc(3, BYTES);
    vram_addr all;
    assert_non_null(host);
    assert_ok(vram_alloc(pool, UINT64_C(3) * BYTES, rig->queue, &all));
    assert_ok(vram_queue_fill(rig->queue, all, 0, 4, UINT64_C(3) * BYTES));
    vram_matmul product = {.size = sizeof product, .m = SIDE, .k = SIDE, .n = SIDE};
    product.queue = rig->queue;
    for (int place = VRAM_PLACE_CPU; place <= VRAM_PLACE_DEVICE; place++) {
        product.place = (vram_place)place;
        product.a = host, product.b = host, product.c = host + 2 * SIDE * SIDE;
        product.a_addr = product.b_addr = product.c_addr = 0;
        assert_ok(vram_matmul_run(scheduler, &product)); /* A and B may be one */
        product.c = host + SIDE * SIDE - 1;
        REFUSED(scheduler, &product);
        expect_told("C overlaps A");
        product.a = host + 2 * SIDE * SIDE;
        REFUSED(scheduler, &product);
        expect_told("C overlaps B");
        product.a = product.b = product.c = NULL;
        product.a_addr = product.b_addr = all;
        product.c_addr = all + UINT64_C(2) * BYTES;
        assert_ok(vram_matmul_run(scheduler, &product));
        product.c_addr = all + BYTES - 4;
        REFUSED(scheduler, &product);
        product.a_addr = all + UINT64_C(2) * BYTES;
        REFUSED(scheduler, &product);
        expect_told("C overlaps B");
    }
    free(host);
}

/* Where an address is a pointer of the host's too, one memory has two names. */
TEST(results_on_operands_by_another_name) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_CPU);
    vram_addr all;
    assert_ok(vram_alloc(pool, UINT64_C(3) * BYTES, rig.queue, &all));
    assert_ok(vram_queue_fill(rig.queue, all, 0, 4, UINT64_C(3) * BYTES));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    float *host = (float *)(uintptr_t)all;
    vram_matmul product = {.size = sizeof product, .m = SIDE, .k = SIDE, .n = SIDE};
    product.queue = rig.queue;
    product.a = host, product.b = host + SIDE * SIDE, product.c_addr = all + UINT64_C(2) * BYTES;
    assert_ok(vram_matmul_run(scheduler, &product));
    product.c_addr = all + BYTES - 4;
    REFUSED(scheduler, &product);
    expect_told("C overlaps A");
    product.c_addr = all + UINT64_C(2) * BYTES - 4;
    REFUSED(scheduler, &product);
    expect_told("C overlaps B");
    product.a = product.b = NULL, product.c_addr = 0;
    product.a_addr = all, product.b_addr = all + BYTES, product.c = host + 2 * SIDE * SIDE;
    assert_ok(vram_matmul_run(scheduler, &product));
    product.c = host + 1;
    REFUSED(scheduler, &product);
    expect_told("C overlaps A");
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

/* A product that is refused for its addresses lets go of its weights: they can be destroyed, and
   serve on. Elements, transposed operands and shapes at the end of 64 bits are looked at as they
   are. */
TEST(weights_and_shapes_of_refused_products, "sim:memory=1G,real=on") {
    float numbers[12] = {0}, results[16];
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_weights_options options = {.size = sizeof options, .k = 3, .n = 4, .b = numbers};
    vram_weights *weights;
    assert_ok(vram_weights_create(scheduler, &options, &weights));
    vram_matmul product = {.size = sizeof product, .m = 4, .k = 3, .n = 4, .weights = weights};
    product.a_addr = 4096, product.c = results, product.queue = rig->queue;
    REFUSED(scheduler, &product);
    product.a_addr = 0, product.a = numbers;
    for (uint32_t flags = 0; flags < 4; flags++) { /* B's is the weights' own */
        product.flags = flags;
        assert_ok(vram_matmul_run(scheduler, &product));
    }
    product.a_elements = 11;
    REFUSED(scheduler, &product);
    expect_told("A has 11 elements, and a shape of 4 x 3 needs 12");
    product.a_elements = 12, product.c_elements = 12;
    REFUSED(scheduler, &product);
    expect_told("C has 12 elements, and a shape of 4 x 4 needs 16");
    product.c_elements = 16;
    assert_ok(vram_matmul_run(scheduler, &product));
    vram_matmul several[3] = {product, product, product};
    float more[2][16];
    several[1].c = more[0], several[2].c = more[1];
    assert_ok(vram_matmul_batch(scheduler, several, 3));
    several[1].k = 2;
    several[1].a_elements = 0;
    assert_int_equal(vram_matmul_batch(scheduler, several, 3), VRAM_ERR_INVALID);
    expect_told("product 1 of the batch: the weights are 3 x 4, and the product needs 2 x 4");
    assert_ok(vram_weights_destroy(weights));
    assert_int_equal(vram_matmul_run(scheduler, &product), VRAM_ERR_STALE);
}

/* Both numbers are told; a shape that has no number of its own is one that does not fit. */
TEST(weights_of_another_length, "sim:memory=1G,real=on") {
    float numbers[16] = {0};
    vram_pool *pool = pool_of(rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_AUTO);
    vram_weights *weights = NULL;
    vram_weights_options options = {
        .size = sizeof options, .k = 4, .n = 4, .b = numbers, .b_elements = 15};
    assert_int_equal(vram_weights_create(scheduler, &options, &weights), VRAM_ERR_INVALID);
    expect_told("B has 15 elements, and a shape of 4 x 4 needs 16");
    options.k = options.n = UINT64_C(1) << 40;
    assert_int_equal(vram_weights_create(scheduler, &options, &weights), VRAM_ERR_OVERFLOW);
    expect_told("1099511627776 x 1099511627776 do not fit into 64 bits");
    assert_null(weights);
}

EACH_TEST(begin, nothing_left)
