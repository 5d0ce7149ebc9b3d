/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric.h: the arithmetic of a search: numbers in its precision, and distances from products.
 */
#ifndef VR_METRIC_H
#define VR_METRIC_H

#include "compute/half.h"
#include "compute/search.h"

static inline bool vr_is_finite(float value) {
    return value - value == 0;
}

/* One finite number in the precision of a search. */
static inline float vr_search_round(vram_precision precision, float value) {
    if (precision == VRAM_PRECISION_FP16) {
        return vr_half_float(vr_float_half(value));
    }
    if (precision == VRAM_PRECISION_INT8) {
        float scaled = value * 127.0f;
        scaled = scaled > 127 ? 127 : scaled < -128 ? -128 : scaled;
        return (float)(int)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
    }
    return value;
}

/* VRAM_ERR_INVALID with the place of a number that is not accepted. `whose` is "query" or
   "vector". */
vram_status vr_search_reject(const struct vr_search *search, const char *whose, uint64_t vector,
                             uint64_t at, float value);
/* Checks all numbers: VRAM_ERR_INVALID with the place of the first that is not accepted, else
   VRAM_OK. */
vram_status vr_search_inspect(const struct vr_search *search);

/* Turns a row of products into a row of distances, in place. Lengths are squared. */
void vr_search_measure(vram_metric metric, vram_precision precision, double query,
                       const double *lengths, float *row, uint64_t count);

#endif
