/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atomic.h: all atomics of the library use these names. So the same source can be built for a model
 * checker, which performs the operations itself: tests/model_checker. Every call names its memory
 * order: there is no implicit seq_cst.
 */
#ifndef VR_ATOMIC_H
#define VR_ATOMIC_H

#include "base/delay.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic(bool) vr_atomic_bool;
typedef _Atomic(uint8_t) vr_atomic_u8;
typedef _Atomic(uint32_t) vr_atomic_u32;
typedef _Atomic(uint64_t) vr_atomic_u64;
typedef _Atomic(void *) vr_atomic_ptr;

enum vr_order {
    VR_RELAXED = memory_order_relaxed,
    VR_ACQUIRE = memory_order_acquire,
    VR_RELEASE = memory_order_release,
    VR_ACQ_REL = memory_order_acq_rel,
    VR_SEQ_CST = memory_order_seq_cst
};

/* A build for the model checker has its own, from tests/model_checker/explored_atomic.h. */
#ifndef VR_EXPLORE

/* A delay point before each change that other threads depend on; relaxed changes (counters) have
   none. */
#ifdef VR_DEBUG
#define VR_ATOMIC_TEXT_(x) #x
#define VR_ATOMIC_TEXT(x)  VR_ATOMIC_TEXT_(x)
#define vr_step(order)                                                                             \
    (order) == VR_RELAXED ? (void)0 : VR_DELAY_POINT(__FILE__ ":" VR_ATOMIC_TEXT(__LINE__)),
#else
#define vr_step(order)
#endif

#define vr_load(object, order) atomic_load_explicit(object, (memory_order)(order))
#define vr_store(object, value, order)                                                             \
    (vr_step(order) atomic_store_explicit(object, value, (memory_order)(order)))
#define vr_fetch_add(object, value, order)                                                         \
    (vr_step(order) atomic_fetch_add_explicit(object, value, (memory_order)(order)))
#define vr_fetch_sub(object, value, order)                                                         \
    (vr_step(order) atomic_fetch_sub_explicit(object, value, (memory_order)(order)))
#define vr_fetch_or(object, value, order)                                                          \
    (vr_step(order) atomic_fetch_or_explicit(object, value, (memory_order)(order)))
#define vr_fetch_and(object, value, order)                                                         \
    (vr_step(order) atomic_fetch_and_explicit(object, value, (memory_order)(order)))
#define vr_exchange(object, value, order)                                                          \
    (vr_step(order) atomic_exchange_explicit(object, value, (memory_order)(order)))
/* On failure `expected` (a pointer) receives what was found, with the loading part of `order`. */
#define vr_order_failed(order)                                                                     \
    ((order) == VR_SEQ_CST                            ? memory_order_seq_cst                       \
     : (order) == VR_ACQUIRE || (order) == VR_ACQ_REL ? memory_order_acquire                       \
                                                      : memory_order_relaxed)
#define vr_cas(object, expected, desired, order)                                                   \
    (vr_step(order) atomic_compare_exchange_strong_explicit(                                       \
        object, expected, desired, (memory_order)(order), vr_order_failed(order)))
#define vr_cas_weak(object, expected, desired, order)                                              \
    (vr_step(order) atomic_compare_exchange_weak_explicit(                                         \
        object, expected, desired, (memory_order)(order), vr_order_failed(order)))

#endif

/* Raises *object to at least `value`, with release order; for peaks and values that only rise. */
static inline void vr_atomic_max(vr_atomic_u64 *object, uint64_t value) {
    uint64_t seen = vr_load(object, VR_RELAXED);
    while (seen < value && !vr_cas_weak(object, &seen, value, VR_RELEASE)) {
    }
}

static inline void vr_counter_add(vr_atomic_u64 *counter, uint64_t value) {
    vr_fetch_add(counter, value, VR_RELAXED);
}

/* Fetches the cache line of an object that this thread is about to write; it may be with another
   processor. The compiler's own prefetch does so for reading where it does not know the
   instruction, which every x86-64 processor executes or ignores. */
static inline void vr_prefetch_to_write(const void *object) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)object));
#else
    __builtin_prefetch(object, 1);
#endif
}

#endif
