/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric.h: the arithmetic of a search: how vectors become operands of products, what a product
 * says of a distance, and the distance itself.
 *
 * A distance is found in two steps. A product of two converted vectors gives a lower bound of it,
 * which is enough to pass over nearly all vectors. Only where the bound is not, the distance is
 * computed from the differences of the numbers. So cancellation costs time, never correctness:
 * docs/design/08-where-products-run.md has the reasons, and where the bounds come from.
 *
 *   metric          key: lower is nearer      bound from terms A, B and the product p
 *   L2, L2_SQUARED  sum of (q - c)^2          A + B - 2 p     A, B: squared length * (1 - e)
 *   INNER_PRODUCT   - sum of q * c            A + B - p       A, B: - squared length * e / 2
 *   COSINE          1 - q * c / (|q| |c|)     1 - e - A B p   A, B: 1 / length, 0 if that is 0
 *
 * Lengths and products are those of the vectors less the centre, if there is one; e is a bound of
 * their rounding. For INNER_PRODUCT then B has - centre * c as well, and bound and key are those of
 * q * (c - centre); what is missing, q * centre, is the same for every vector. Keys of INT8 are
 * those of the integers.
 */
#ifndef VR_METRIC_H
#define VR_METRIC_H

#include "compute/half.h"
#include "compute/search.h"

static inline bool vr_is_finite(float value) {
    return value - value == 0;
}

/* What conversions meet. */
struct vr_found {
    bool not_finite;    /* in the precision of the search; such numbers count as 0 */
    uint64_t saturated; /* numbers beyond 8 bits, which count as -128 or 127 */
    double length;      /* squared, of the last vector, as products use it */
};

/* One number in the precision of a search, before the centre is subtracted. */
static inline float vr_number_take(const struct vr_conversion *how, float value,
                                   struct vr_found *found) {
    float taken = value;
    if (how->precision == VRAM_PRECISION_FP16) {
        uint32_t bits = vr_float_bits(value), size = bits & UINT32_C(0x7FFFFFFF);
        bool normal = size >= UINT32_C(0x38800000) && size < UINT32_C(0x477FF000);
        taken = normal ? vr_bits_float((bits + 0xFFF + (bits >> 13 & 1)) & UINT32_C(0xFFFFE000))
                       : vr_half_float(vr_float_half(value));
    } else if (how->precision == VRAM_PRECISION_INT8 && vr_is_finite(value)) {
        float scaled = value * how->scale;
        scaled += __builtin_copysignf(0.5f, scaled);
        bool above = scaled >= 128, below = scaled <= -129;
        taken = (float)(int)(above ? 127 : below ? -128 : scaled);
        found->saturated += above || below;
    }
    found->not_finite |= !vr_is_finite(taken);
    return vr_is_finite(taken) ? taken : 0;
}

/* Rows of numbers for products. */
struct vr_rows {
    void *numbers;
    vram_precision stored; /* FP32, FP16 or INT8 */
    uint64_t stride;       /* numbers of a row: those behind a vector become 0 */
};

/* Converts a vector to what products use, as row `row`; its memory may be that of `from`. Returns
   its term. */
double vr_vector_take(const struct vr_conversion *how, bool query, const float *from,
                      const struct vr_rows *to, uint64_t row, struct vr_found *found);
/* The term of a vector that products use as it is. False: a number is not finite. */
bool vr_vector_measure(const struct vr_conversion *how, const float *from, double *term);

/* The key of two vectors in double precision. */
double vr_key_exact(const struct vr_conversion *how, const float *query, const float *vector);

/* e of the table above. */
double vr_key_error(const struct vr_conversion *how);

/* The bounds of `count` vectors by terms and products. */
void vr_key_bounds(const struct vr_conversion *how, double term, const double *terms,
                   const float *products, uint64_t count, double *to);

enum { VR_BOUNDS = 256 }; /* that are computed at a time */

/* Adds to the nearest of a query what bounds do not exclude. `row`: distances that become exact
   with it; NULL: none. */
void vr_row_rank(const struct vr_conversion *how, const float *query, const float *vectors,
                 uint64_t first, double term, const double *terms, const float *products,
                 uint64_t count, struct vr_nearest *nearest, float *row);

/* What the keys of a query lack: q * centre for INNER_PRODUCT, else 0. */
double vr_key_rest(const struct vr_conversion *how, const float *query);
/* The distance of a key less what it lacks. */
float vr_key_distance(const struct vr_conversion *how, double key);

/* The distances of a row of products, without a centre if the metric is INNER_PRODUCT. Where too
   many digits were lost, they are computed from the vectors. */
void vr_row_measure(const struct vr_search *search, uint64_t query, uint64_t first, double term,
                    const double *terms, const float *products, uint64_t count, float *to);

/* A centre for a search, if products gain by it: `to` gets `dim` numbers. */
bool vr_centre_find(const struct vram_distance *distance, vram_precision precision, float *to);

/* Mends the sorted list of a query, whose keys have the rounding of a device: those that may be in
   the wrong order because of it are computed anew. False: vectors that are not in the list may
   belong among the first k. */
bool vr_nearest_settle(const struct vr_search *search, uint64_t query, struct vr_nearest *nearest);

/* Checks all numbers: VRAM_ERR_INVALID with the place of the first that is not accepted, else
   VRAM_OK. */
vram_status vr_search_inspect(const struct vr_search *search);

#endif
