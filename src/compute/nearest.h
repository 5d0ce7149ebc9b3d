/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest.h: the k best of a stream of candidates, in the memory of the caller's results.
 *
 * While candidates are added, both arrays are a heap whose top is the worst that is kept: one
 * comparison refuses most candidates. Of equal ones the lower number is better.
 */
#ifndef VR_NEAREST_H
#define VR_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

struct vr_nearest {
    float *values;
    uint64_t *places;
    uint64_t capacity, count;
    bool largest; /* larger is better */
};

void vr_nearest_add(struct vr_nearest *nearest, float value, uint64_t place);
/* Sorts, the best first. */
void vr_nearest_sort(struct vr_nearest *nearest);

/* Whether a value may be kept: a quick test before vr_nearest_add. */
static inline bool vr_nearest_wants(const struct vr_nearest *nearest, float value) {
    return nearest->count < nearest->capacity ||
           (nearest->largest ? value >= nearest->values[0] : value <= nearest->values[0]);
}

#endif
