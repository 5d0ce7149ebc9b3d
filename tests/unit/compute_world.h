/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compute_world.h: what the tests of products and distances share: matrices of made-up numbers, and
 * the product in double precision that results are held against by their norm.
 */
#ifndef TEST_COMPUTE_WORLD_H
#define TEST_COMPUTE_WORLD_H

#include "compute/half.h"
#include "unit/mem_world.h"
#include "vram/compute.h"

#include <dlfcn.h>
#include <stdlib.h>

/* What steers one of the tests' own libraries: the answer of its function `name`. */
static inline void *control_of(const char *path, const char *name) {
    void *(*get)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail_msg("%s", dlerror());
    }
    void *found = dlsym(library, name);
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    return get();
}

/* Numbers from -1 to 1, the same for a seed. */
static inline float made_up(uint64_t seed, uint64_t at) {
    uint64_t x = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + at * UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 31;
    x *= UINT64_C(0x94D049BB133111EB);
    return (float)((double)(x >> 40) / 8388608.0 - 1.0);
}

static inline void *matrix_of(uint64_t count, vram_precision precision, uint64_t seed) {
    void *matrix = malloc(count * vram_precision_bytes(precision));
    assert_non_null(matrix);
    for (uint64_t i = 0; i < count; i++) {
        float value = made_up(seed, i);
        if (precision == VRAM_PRECISION_FP32) {
            ((float *)matrix)[i] = value;
        } else {
            ((uint16_t *)matrix)[i] =
                precision == VRAM_PRECISION_FP16 ? vr_float_half(value) : vr_float_bfloat(value);
        }
    }
    return matrix;
}

static inline double number_of(const void *matrix, vram_precision precision, uint64_t at) {
    return precision == VRAM_PRECISION_FP32   ? ((const float *)matrix)[at]
           : precision == VRAM_PRECISION_FP16 ? vr_half_float(((const uint16_t *)matrix)[at])
                                              : vr_bfloat_float(((const uint16_t *)matrix)[at]);
}

static inline double a_of(const vram_matmul *product, uint64_t i, uint64_t p) {
    bool turned = product->flags & VRAM_MATMUL_TRANSPOSED_A;
    return number_of(product->a, product->precision,
                     turned ? p * product->m + i : i * product->k + p);
}

static inline double b_of(const vram_matmul *product, uint64_t p, uint64_t j) {
    bool turned = product->flags & VRAM_MATMUL_TRANSPOSED_B;
    return number_of(product->b, product->precision,
                     turned ? j * product->k + p : p * product->n + j);
}

/* (|C - A * B| / |A * B|)^2, with A * B in double precision. */
static inline double error_of_all(const vram_matmul *product) {
    double off = 0, all = 0;
    for (uint64_t i = 0; i < product->m; i++) {
        for (uint64_t j = 0; j < product->n; j++) {
            double sum = 0;
            for (uint64_t p = 0; p < product->k; p++) {
                sum += a_of(product, i, p) * b_of(product, p, j);
            }
            double is = product->c[i * product->n + j];
            off += (is - sum) * (is - sum);
            all += sum * sum;
        }
    }
    return all > 0 ? off / all : off;
}

/* The same of C * x and A * (B * x), for a made-up x: large products would take minutes
   otherwise. */
static inline double error_of_probe(const vram_matmul *product, uint64_t seed) {
    double *b = calloc(product->k, sizeof *b), off = 0, all = 0;
    assert_non_null(b);
    for (uint64_t p = 0; p < product->k; p++) {
        for (uint64_t j = 0; j < product->n; j++) {
            b[p] += b_of(product, p, j) * made_up(seed, j);
        }
    }
    for (uint64_t i = 0; i < product->m; i++) {
        double sum = 0, is = 0;
        for (uint64_t p = 0; p < product->k; p++) {
            sum += a_of(product, i, p) * b[p];
        }
        for (uint64_t j = 0; j < product->n; j++) {
            is += (double)product->c[i * product->n + j] * made_up(seed, j);
        }
        off += (is - sum) * (is - sum);
        all += sum * sum;
    }
    free(b);
    return all > 0 ? off / all : off;
}

static inline double error_of(const vram_matmul *product) {
    if (product->m * product->k * product->n <= 20000) {
        return error_of_all(product);
    }
    double one = error_of_probe(product, 11), two = error_of_probe(product, 12);
    return one > two ? one : two;
}

/* Rounding adds up with the length of the sums. */
#define assert_right(product)                                                                      \
    assert_true(error_of(product) < 1e-12 * (1 + (double)(product)->k / 200))

static inline vram_matmul product_of(uint64_t m, uint64_t k, uint64_t n, vram_precision precision) {
    precision = precision ? precision : VRAM_PRECISION_FP32;
    return (vram_matmul){.size = sizeof(vram_matmul),
                         .m = m,
                         .k = k,
                         .n = n,
                         .a = matrix_of(m * k, precision, 1),
                         .b = matrix_of(k * n, precision, 2),
                         .c = matrix_of(m * n, VRAM_PRECISION_FP32, 3),
                         .a_elements = m * k,
                         .b_elements = k * n,
                         .c_elements = m * n,
                         .precision = precision};
}

static inline void product_end(vram_matmul *product) {
    free((void *)(uintptr_t)product->a);
    free((void *)(uintptr_t)product->b);
    free(product->c);
}

static inline vram_scheduler_stats stats_of_scheduler(vram_scheduler *scheduler) {
    vram_scheduler_stats stats = {.size = sizeof stats};
    assert_ok(vram_scheduler_stats_get(scheduler, &stats));
    return stats;
}

static inline vram_scheduler *scheduler_of(vram_pool *pool, vram_place place) {
    vram_scheduler_options options = {.size = sizeof options, .place = place};
    vram_scheduler *scheduler;
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));
    return scheduler;
}

#endif
