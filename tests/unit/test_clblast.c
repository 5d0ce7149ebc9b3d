/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_clblast.c: products by CLBlast, over a library and a driver of our own (tests/fake,
 * tests/opencl): right results where memory lies behind buffers, our own kernel for what it is not
 * for, its symbol missing, and any code.
 */
#include "fake/fake_blas.h"
#include "opencl/fake_opencl.h"
#include "unit/compute_world.h"

#define LIBRARY FAKE_BLAS_PATH

static const struct fake_blas_control *blas;
static const struct fake_opencl_control *driver;

static struct rig begin_with(const char *library, const char *memory) {
    driver = control_of(FAKE_OPENCL_PATH, "fake_opencl_control");
    blas = control_of(LIBRARY, "fake_clblast_control");
    driver->reset();
    blas->reset();
    assert_ok(vram_option_set("blas_library", "none"));
    assert_ok(vram_option_set("opencl_library", FAKE_OPENCL_PATH));
    assert_ok(vram_option_set("opencl_memory", memory));
    assert_ok(vram_option_set("clblast_library", library));
    return rig_make("opencl", NULL);
}

static void end_clean(struct rig *rig) {
    const char *text = "";
    blas->refuse(NULL, 0, 0, false);
    vram_context_destroy(rig->context);
    if (blas->violations(&text) || driver->violations(&text)) {
        fail_msg("a rule was broken: %s", text);
    }
}

/* All layouts and types; who computes. */
static void try_all(struct rig *rig, const char *by) {
    vram_scheduler_options options = {.size = sizeof options, .place = VRAM_PLACE_DEVICE};
    vram_pool *pool = pool_of(rig, 0);
    for (int tiled = 0; tiled < 2; tiled++) {
        vram_scheduler *scheduler;
        options.device_bytes = tiled ? 60000 : 0;
        assert_ok(vram_scheduler_create(pool, &options, &scheduler));
        for (int precision = VRAM_PRECISION_FP32; precision <= VRAM_PRECISION_BF16; precision++) {
            for (uint32_t flags = 0; flags < 4; flags++) {
                vram_matmul product = product_of(100, 20, 133, (vram_precision)precision);
                product.flags = flags;
                assert_ok(vram_matmul_run(scheduler, &product));
                assert_right(&product);
                product_end(&product);
            }
        }
        assert_string_equal(stats_of_scheduler(scheduler).device_arithmetic, by);
        assert_true(!tiled || stats_of_scheduler(scheduler).tiles > 12);
        assert_ok(vram_scheduler_destroy(scheduler));
    }
    assert_int_equal(live_in(pool), 0);
}

TEST(right_results) {
    struct rig rig = begin_with(LIBRARY, "buffer");
    try_all(&rig, LIBRARY);
    assert_true(blas->calls("sgemm") > 4);
    end_clean(&rig);
}

/* Operands on the device, inside of blocks. */
TEST(weights_and_batches) {
    vram_matmul products[4];
    vram_weights *weights;
    struct rig rig = begin_with(LIBRARY, "buffer");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
    for (int i = 0; i < 4; i++) {
        products[i] = product_of(20 + (uint64_t)i, 30, 40, 0);
    }
    vram_weights_options kept = {.size = sizeof kept, .k = 30, .n = 40, .b = products[0].b};
    assert_ok(vram_weights_create(scheduler, &kept, &weights));
    const void *b = products[0].b;
    products[0].b = NULL;
    products[0].weights = weights;
    assert_ok(vram_matmul_batch(scheduler, products, 4));
    products[0].b = b;
    for (int i = 0; i < 4; i++) {
        assert_right(&products[i]);
        product_end(&products[i]);
    }
    assert_int_equal(blas->calls("sgemm"), 4);
    end_clean(&rig);
}

/* Shared virtual memory, a library that is not there, lacks the symbol, or is not wanted: our own
   kernel. */
TEST(by_our_own_kernel) {
    static const char *const others[] = {"/nowhere/libclblast.so", "libm.so.6", "none"};
    struct rig rig = begin_with(LIBRARY, "svm");
    try_all(&rig, "vram opencl c");
    end_clean(&rig);
    for (int i = 0; i < 3; i++) {
        rig = begin_with(others[i], "buffer");
        try_all(&rig, "vram opencl c");
        assert_int_equal(blas->calls("sgemm"), 0);
        end_clean(&rig);
    }
}

TEST(any_code) {
    static const int codes[] = {-4, -5, -6, -30, -1024, -2039, 1, 9999};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct rig rig = begin_with(LIBRARY, "buffer");
        vram_pool *pool = pool_of(&rig, 0);
        vram_scheduler *scheduler = scheduler_of(pool, VRAM_PLACE_DEVICE);
        vram_scheduler_options any = {.size = sizeof any, .threshold = 1};
        vram_matmul product = product_of(30, 20, 25, 0);
        bool memory = codes[i] == -4 || codes[i] == -5;
        blas->refuse("sgemm", 1, codes[i], true);
        assert_int_equal(vram_matmul_run(scheduler, &product),
                         memory ? VRAM_ERR_DEVICE_MEMORY : VRAM_ERR_BACKEND);
        assert_int_equal(vram_error_get()->native_code, codes[i]);
        assert_string_equal(vram_error_get()->operation, "CLBlastSgemm");
        assert_ok(vram_scheduler_destroy(scheduler));
        assert_ok(vram_scheduler_create(pool, &any, &scheduler));
        if (memory) { /* the CPU's turn */
            assert_ok(vram_matmul_run(scheduler, &product));
            assert_right(&product);
            assert_int_equal(stats_of_scheduler(scheduler).cpu_fallbacks, 1);
        }
        blas->refuse("sgemm", 1, codes[i], false);
        (void)vram_matmul_run(scheduler, &product);
        assert_ok(vram_matmul_run(scheduler, &product));
        assert_right(&product);
        assert_int_equal(live_in(pool), 0);
        product_end(&product);
        end_clean(&rig);
    }
}
