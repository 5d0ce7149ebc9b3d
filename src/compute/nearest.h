/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest.h: the best of a stream of candidates: those with the lowest values, and of equal ones
 * those with the lowest numbers.
 *
 * While candidates are added, both arrays are a heap whose top is the worst that is kept: one
 * comparison refuses most candidates.
 */
#ifndef VR_NEAREST_H
#define VR_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

struct vr_nearest {
    double *values; /* lower is better; the units of metric.h */
    uint64_t *places;
    uint64_t capacity, count;
};

void vr_nearest_add(struct vr_nearest *nearest, double value, uint64_t place);
/* Sorts, the best first. */
void vr_nearest_sort(struct vr_nearest *nearest);

/* Whether a candidate may be kept whose value is at least `value`: a quick test before
   vr_nearest_add. A bound that is not finite says nothing. */
static inline bool vr_nearest_wants(const struct vr_nearest *nearest, double value) {
    return nearest->count < nearest->capacity || !(value > nearest->values[0]) ||
           value - value != 0;
}

#endif
