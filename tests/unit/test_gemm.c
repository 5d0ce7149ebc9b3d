/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm.c: products on the CPU against double precision: every layout, type and edge of the
 * blocks, with each of our own kernels that this machine runs, on several threads, without memory,
 * and with the BLAS of this machine.
 */
#include "compute/gemm.h"
#include "unit/compute_world.h"

static const struct vr_blas none = {0};

static struct vr_gemm gemm_of(const vram_matmul *product) {
    bool turned_a = product->flags & VRAM_MATMUL_TRANSPOSED_A;
    bool turned_b = product->flags & VRAM_MATMUL_TRANSPOSED_B;
    return (struct vr_gemm){.m = product->m,
                            .n = product->n,
                            .k = product->k,
                            .a = product->a,
                            .b = product->b,
                            .c = product->c,
                            .lda = turned_a ? product->m : product->k,
                            .ldb = turned_b ? product->k : product->n,
                            .ldc = product->n,
                            .trans_a = turned_a,
                            .trans_b = turned_b,
                            .precision = product->precision};
}

typedef void way_fn(const struct vr_gemm *gemm);

static const struct vr_gemm_kernel *kernel; /* other processors' best is among them */

static void by_ourselves(const struct vr_gemm *gemm) {
    vr_gemm_block_by(gemm, kernel);
}

static void by_threads(const struct vr_gemm *gemm) {
    vr_gemm_cpu(gemm, &none, 3);
}

static void without_memory(const struct vr_gemm *gemm) {
    vr_mem_fail_at(1, true);
    vr_gemm_cpu(gemm, &none, 1);
    vr_mem_fail_at(0, false);
}

static void by_blas(const struct vr_gemm *gemm) {
    struct vr_blas blas;
    vr_blas_open(&blas);
    vr_gemm_cpu(gemm, &blas, 1);
}

static void try_one(way_fn *way, uint64_t m, uint64_t k, uint64_t n, int precision,
                    uint32_t flags) {
    vram_matmul product = product_of(m, k, n, (vram_precision)precision);
    product.flags = flags;
    struct vr_gemm gemm = gemm_of(&product);
    way(&gemm);
    assert_right(&product);
    product_end(&product);
}

static void try_all(way_fn *way, uint64_t m, uint64_t k, uint64_t n) {
    for (int precision = VRAM_PRECISION_FP32; precision <= VRAM_PRECISION_BF16; precision++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            try_one(way, m, k, n, precision, flags);
        }
    }
}

static void edges_of_the_blocks(void) {
    static const uint64_t sides[] = {1, 2, 3, 7, 12, 13, 31, 33, 64};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        for (size_t j = 0; j < sizeof sides / sizeof sides[0]; j++) {
            try_all(by_ourselves, sides[i], 1 + (i + j) * 3, sides[j]);
        }
    }
    try_all(by_ourselves, 200, 260, 70); /* more than one block of A, and of depth */
    try_all(by_ourselves, 5, 20, 600);   /* more than one panel of B */
    try_all(by_ourselves, 1, 165, 43);   /* one row, and a few, as B lies */
    try_all(by_ourselves, 4, 131, 6);
}

TEST(every_edge_of_the_blocks) {
    uint32_t count = 0;
    while ((kernel = vr_gemm_kernel(count)) != NULL) {
        assert_true(kernel->rows * kernel->columns <= VR_GEMM_TILE_MAX);
        edges_of_the_blocks();
        count++;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    int found = 1 + (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) +
                (__builtin_cpu_supports("avx512f") != 0);
    assert_int_equal(count, found);
#else
    assert_int_equal(count, 1);
#endif
    try_all(without_memory, 9, 40, 11);
}

TEST(threads_share_a_product) {
    try_one(by_threads, 1000, 64, 400, VRAM_PRECISION_FP32, 0);
    try_one(by_threads, 100, 400, 1000, VRAM_PRECISION_BF16, VRAM_MATMUL_TRANSPOSED_B);
}

/* Where there is no BLAS this is our own once more. */
TEST(the_machines_blas) {
    struct vr_blas blas;
    try_all(by_blas, 33, 65, 17);
    try_all(by_blas, 1, 100, 40);
    assert_ok(vram_option_set("blas_library", "none"));
    vr_blas_open(&blas);
    assert_null(blas.sgemm);
    assert_non_null(strstr(blas.name, "none"));
    assert_ok(vram_option_set("blas_library", "/nowhere/libblas.so"));
    vr_blas_open(&blas);
    assert_null(blas.sgemm);
    assert_non_null(strstr(blas.name, "/nowhere/libblas.so"));
    assert_ok(vram_option_set("blas_library", NULL));
    expect_no_record();
}

/* ------------------------------------------------------ a BLAS of our own */

static unsigned sgemm_calls;

/* cblas_sgemm, as its reference has it. */
static void plain_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                        const float *a, int lda, const float *b, int ldb, float beta, float *c,
                        int ldc) {
    bool turned_a = trans_a == 112, turned_b = trans_b == 112;
    sgemm_calls++;
    assert_int_equal(order, 101);
    assert_true((turned_a || trans_a == 111) && (turned_b || trans_b == 111));
    assert_true(lda >= (turned_a ? m : k) && ldb >= (turned_b ? k : n) && ldc >= n);
    assert_true(alpha == 1 && beta == 0);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++) {
                sum += (double)a[turned_a ? p * lda + i : i * lda + p] *
                       b[turned_b ? j * ldb + p : p * ldb + j];
            }
            c[i * ldc + j] = (float)sum;
        }
    }
}

static void by_plain_blas(const struct vr_gemm *gemm) {
    static const struct vr_blas plain = {plain_sgemm, "plain"};
    vr_gemm_cpu(gemm, &plain, 2);
}

static void a_blas_without_memory(const struct vr_gemm *gemm) {
    vr_mem_fail_at(1, false);
    by_plain_blas(gemm);
    vr_mem_fail_at(0, false);
}

/* Every layout and type reaches it as its interface says; one row of single precision is ours. */
TEST(what_a_blas_is_given) {
    struct vr_blas blas;
    sgemm_calls = 0;
    try_all(by_plain_blas, 7, 33, 21);
    assert_int_equal(sgemm_calls, 12);
    try_all(by_plain_blas, 1, 33, 21);
    assert_int_equal(sgemm_calls, 12 + 8);
    try_all(a_blas_without_memory, 7, 33, 21); /* other types cannot be converted then */
    assert_int_equal(sgemm_calls, 20 + 4);
    /* A library without the symbol is none. */
    assert_ok(vram_option_set("blas_library", "libm.so.6"));
    vr_blas_open(&blas);
    assert_null(blas.sgemm);
    assert_non_null(strstr(blas.name, "cblas_sgemm"));
    assert_ok(vram_option_set("blas_library", NULL));
    expect_no_record();
}

/* Every half, and the bfloat16 of every float whose upper half it is. */
TEST(numbers_of_16_bits) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float half = vr_half_float((uint16_t)bits), other = vr_bfloat_float((uint16_t)bits);
        if (half == half) {
            assert_int_equal(vr_float_half(half), bits);
        } else {
            assert_int_equal(vr_float_half(half) & 0x7C00, 0x7C00);
        }
        if (other == other) {
            assert_int_equal(vr_float_bfloat(other), bits);
        }
    }
    assert_true(vr_half_float(0x3C00) == 1.0f && vr_half_float(0x0001) == 0x1.0p-24f);
    assert_int_equal(vr_float_half(65520.0f), 0x7C00);        /* too large: infinite */
    assert_int_equal(vr_float_half(1.0f + 0x1p-11f), 0x3C00); /* a tie, to even */
    assert_int_equal(vr_float_bfloat(1.0f + 0x1p-8f), 0x3F80);
}
