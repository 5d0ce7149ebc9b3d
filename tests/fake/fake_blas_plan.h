/* SPDX-License-Identifier: Apache-2.0 */
/* fake_blas_plan.h: what the libraries of fake_blas.h share: the plan of failing calls, and the
   control table. */
#ifndef FAKE_BLAS_PLAN_H
#define FAKE_BLAS_PLAN_H

#include "fake/fake_blas.h"
#include "fake/strike.h"

#include <pthread.h>

enum blas_call {
    BLAS_CREATE,
    BLAS_DESTROY,
    BLAS_SET_STREAM,
    BLAS_SET_WORKSPACE,
    BLAS_SGEMM,
    BLAS_GEMM_EX,
    BLAS_CALLS
};

static const char *const blas_names[BLAS_CALLS] = {"create",        "destroy", "set_stream",
                                                   "set_workspace", "sgemm",   "gemm_ex"};

static pthread_mutex_t blas_lock = PTHREAD_MUTEX_INITIALIZER;
static struct strike blas_plan = {.names = blas_names, .count = BLAS_CALLS, .last = ""};
static uint64_t blas_handles, blas_broken;
static const char *blas_breach = "";

/* Counts a call; what it has to answer, 0: as it likes. */
static inline int blas_enter(enum blas_call call) {
    strike_guard();
    pthread_mutex_lock(&blas_lock);
    int code = strike_now(&blas_plan, call) ? blas_plan.code : 0;
    pthread_mutex_unlock(&blas_lock);
    return code;
}

static inline void blas_violation(const char *text) {
    pthread_mutex_lock(&blas_lock);
    blas_broken++;
    blas_breach = text;
    pthread_mutex_unlock(&blas_lock);
}

static void blas_refuse(const char *name, uint64_t nth, int code, bool for_ever) {
    pthread_mutex_lock(&blas_lock);
    strike_set(&blas_plan, name, nth, code, 0, for_ever);
    pthread_mutex_unlock(&blas_lock);
}

static void blas_reset(void) {
    blas_refuse(NULL, 0, 0, false);
    pthread_mutex_lock(&blas_lock);
    blas_broken = 0;
    blas_breach = "";
    pthread_mutex_unlock(&blas_lock);
}

static uint64_t blas_number(const uint64_t *number) {
    pthread_mutex_lock(&blas_lock);
    uint64_t value = *number;
    pthread_mutex_unlock(&blas_lock);
    return value;
}

static uint64_t blas_struck(void) {
    return blas_number(&blas_plan.struck);
}

static uint64_t blas_count(const char *name) {
    return blas_number(&blas_plan.counts[strike_call(&blas_plan, name)]);
}

static uint64_t blas_live(void) {
    return blas_number(&blas_handles);
}

static uint64_t blas_violations(const char **text) {
    *text = blas_breach;
    return blas_number(&blas_broken);
}

const struct fake_blas_control *FAKE_BLAS_CONTROL(void) {
    static const struct fake_blas_control control = {blas_reset, blas_refuse, blas_struck,
                                                     blas_count, blas_live,   blas_violations};
    return &control;
}

#endif
