/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explored_atomic.h: the atomic operations of base/atomic.h as the model checker performs them. A
 * build with VR_EXPLORE includes it before everything else. Each place in the source that has an
 * operation is a site with a fixed order, so that one order at a time can be weakened: see
 * explore_site.c.
 */
#ifndef EXPLORED_ATOMIC_H
#define EXPLORED_ATOMIC_H

#include <stdint.h>

/* In the section `explore_sites`, from which explore_site.c lists them. Aligned: an array without
   gaps. */
struct explore_site {
    const char *file, *function, *operation, *object;
    uint64_t line;
    uint64_t order; /* enum vr_order, as the source has it */
} __attribute__((aligned(64)));

/* Each of these may switch to another thread. Values are passed as the low bytes of 64 bits. */
uint64_t explore_load(const struct explore_site *site, const volatile void *object, uint64_t bytes);
void explore_store(const struct explore_site *site, volatile void *object, uint64_t bytes,
                   uint64_t value);
/* Adds, subtracts, and so on, by the operation's name; returns what was there. */
uint64_t explore_change(const struct explore_site *site, volatile void *object, uint64_t bytes,
                        uint64_t value);
_Bool explore_cas(const struct explore_site *site, volatile void *object, uint64_t bytes,
                  void *expected, uint64_t desired);
/* A fence of the calling thread. */
void explore_fence(const struct explore_site *site);

#define EXPLORE_SITE(operation, object, order)                                                     \
    __extension__({                                                                                \
        static struct explore_site explore_site                                                    \
            __attribute__((section("explore_sites"), used)) = {__FILE__, __func__, operation,      \
                                                               object,   __LINE__, order};         \
        &explore_site;                                                                             \
    })

/* The object's type without _Atomic and const. */
#define EXPLORE_TYPE(object) __typeof__((void)0, *(object))

#define EXPLORE_BITS(object, value)                                                                \
    __extension__({                                                                                \
        EXPLORE_TYPE(object) explore_value = (value);                                              \
        uint64_t explore_bits = 0;                                                                 \
        __builtin_memcpy(&explore_bits, &explore_value, sizeof explore_value);                     \
        explore_bits;                                                                              \
    })

#define EXPLORE_VALUE(object, bits)                                                                \
    __extension__({                                                                                \
        uint64_t explore_result = (bits);                                                          \
        EXPLORE_TYPE(object) explore_typed;                                                        \
        __builtin_memcpy(&explore_typed, &explore_result, sizeof explore_typed);                   \
        explore_typed;                                                                             \
    })

#define EXPLORE_CHANGE(name, object, value, order)                                                 \
    EXPLORE_VALUE(object, explore_change(EXPLORE_SITE(name, #object, order), object,               \
                                         sizeof *(object), EXPLORE_BITS(object, value)))

#define vr_load(object, order)                                                                     \
    EXPLORE_VALUE(object,                                                                          \
                  explore_load(EXPLORE_SITE("load", #object, order), object, sizeof *(object)))
#define vr_store(object, value, order)                                                             \
    explore_store(EXPLORE_SITE("store", #object, order), object, sizeof *(object),                 \
                  EXPLORE_BITS(object, value))
#define vr_fetch_add(object, value, order) EXPLORE_CHANGE("add", object, value, order)
#define vr_fetch_sub(object, value, order) EXPLORE_CHANGE("sub", object, value, order)
#define vr_fetch_or(object, value, order)  EXPLORE_CHANGE("or", object, value, order)
#define vr_fetch_and(object, value, order) EXPLORE_CHANGE("and", object, value, order)
#define vr_exchange(object, value, order)  EXPLORE_CHANGE("exchange", object, value, order)
#define vr_cas(object, expected, desired, order)                                                   \
    explore_cas(EXPLORE_SITE("cas", #object, order), object, sizeof *(object), expected,           \
                EXPLORE_BITS(object, desired))
/* A weak one that fails without a reason is not explored: every use repeats it. */
#define vr_cas_weak(object, expected, desired, order) vr_cas(object, expected, desired, order)

#define __sync_synchronize() explore_fence(EXPLORE_SITE("fence", "memory", VR_SEQ_CST))

#endif
