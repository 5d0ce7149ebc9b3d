/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum.h: sums of products in 64 bits. A sum that has overflowed stays so, and is 0: code that
 * forgets to check gets no plausible number.
 */
#ifndef VR_SUM_H
#define VR_SUM_H

#include "base/size.h"

struct vr_sum {
    uint64_t value; /* 0 after an overflow */
    bool overflow;
};

static inline struct vr_sum vr_sum_of(uint64_t value) {
    return (struct vr_sum){value, false};
}

/* Adds the product of `count` factors. A factor of 0 makes it 0, whatever the others are. */
static inline void vr_sum_add(struct vr_sum *sum, uint32_t count, const uint64_t *factors) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] == 0) {
            return;
        }
    }
    for (uint32_t i = 0; i < count && !sum->overflow; i++) {
        sum->overflow = !vr_mul(product, factors[i], &product);
    }
    sum->overflow = sum->overflow || !vr_add(sum->value, product, &sum->value);
    sum->value = sum->overflow ? 0 : sum->value;
}

/* Adds another sum, `times` times. */
static inline void vr_sum_add_times(struct vr_sum *sum, struct vr_sum other, uint64_t times) {
    if (times == 0) {
        return;
    }
    sum->overflow = sum->overflow || other.overflow;
    vr_sum_add(sum, 2, (const uint64_t[]){other.value, times});
    sum->value = sum->overflow ? 0 : sum->value;
}

#endif
