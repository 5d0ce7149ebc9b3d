/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_fault.h: type-stable records (base/stable.h) that run out of memory. For tests that are
 * linked with --wrap=vr_stable_take.
 */
#ifndef TEST_RECORD_FAULT_H
#define TEST_RECORD_FAULT_H

#include "base/error.h"
#include "base/stable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Weak: several files of one program may have them. */
__attribute__((weak)) atomic_uint records_taken, record_fails_at;
__attribute__((weak)) atomic_bool record_fails_on;

/* The n-th record from now is refused; 0: none. */
static inline void record_fail_at(unsigned nth) {
    atomic_store(&records_taken, 0);
    atomic_store(&record_fails_on, false);
    atomic_store(&record_fails_at, nth);
}

/* And all behind it. */
static inline void record_fail_from(unsigned nth) {
    record_fail_at(nth);
    atomic_store(&record_fails_on, true);
}

/* Whether it was. */
static inline bool record_failed(void) {
    unsigned nth = atomic_load(&record_fails_at);
    return nth && atomic_load(&records_taken) >= nth;
}

void *__real_vr_stable_take(struct vr_stable *stable, const char *operation);
void *__wrap_vr_stable_take(struct vr_stable *stable, const char *operation);
__attribute__((weak)) void *__wrap_vr_stable_take(struct vr_stable *stable, const char *operation) {
    unsigned nth = atomic_fetch_add(&records_taken, 1) + 1, at = atomic_load(&record_fails_at);
    if (nth == at || (at && nth > at && atomic_load(&record_fails_on))) {
        (void)vr_error_set(VRAM_ERR_HOST_MEMORY, "os", operation, ENOMEM, "no pages for metadata");
        return NULL;
    }
    return __real_vr_stable_take(stable, operation);
}

#endif
