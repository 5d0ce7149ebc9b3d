/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_blas.h: cuBLAS, hipBLAS, CLBlast and a CBLAS for tests: real shared objects that compute
 * what the real ones do, in the order of their streams, by the tests' own drivers.
 *
 * Each keeps to the documented rules of its library and counts what breaks them: a product without
 * a stream, in another context or on another device than the handle's, a handle in two calls at
 * once, one workspace for two streams, leading dimensions that are too small.
 *
 * A test takes the control table: dlopen the same path, dlsym fake_cublas_control, or another.
 */
#ifndef FAKE_BLAS_H
#define FAKE_BLAS_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_BLAS_API __attribute__((visibility("default")))

/* The calls by name: create, destroy, set_stream, set_workspace, sgemm, gemm_ex. */
struct fake_blas_control {
    void (*reset)(void);
    /* The n-th call of `name` from now on ("any": of all) answers `code`; NULL ends the plan. */
    void (*refuse)(const char *name, uint64_t nth, int code, bool for_ever);
    uint64_t (*struck)(void);
    uint64_t (*calls)(const char *name); /* since the plan was set */
    uint64_t (*handles)(void);           /* made and not destroyed */
    uint64_t (*violations)(const char **text);
};

FAKE_BLAS_API const struct fake_blas_control *fake_cublas_control(void);
FAKE_BLAS_API const struct fake_blas_control *fake_hipblas_control(void);
FAKE_BLAS_API const struct fake_blas_control *fake_clblast_control(void);

#endif
