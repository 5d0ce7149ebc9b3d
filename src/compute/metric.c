/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric.c: which numbers a search accepts, and how distances follow from products.
 */
#include "compute/metric.h"

#include "base/error.h"

vram_status vr_search_reject(const struct vr_search *search, const char *whose, uint64_t vector,
                             uint64_t at, float value) {
    return vr_fail(VRAM_ERR_INVALID, "number %llu of %s %llu is %g, which is not finite in %s",
                   (unsigned long long)at, whose, (unsigned long long)vector, (double)value,
                   vram_precision_name(search->precision));
}

static vram_status inspect_numbers(const struct vr_search *search, const float *from,
                                   uint64_t first, uint64_t count, const char *whose) {
    uint64_t dim = search->distance->dim;
    for (uint64_t i = first * dim; i < (first + count) * dim; i++) {
        if (!vr_is_finite(from[i]) || !vr_is_finite(vr_search_round(search->precision, from[i]))) {
            return vr_search_reject(search, whose, i / dim, i % dim, from[i]);
        }
    }
    return VRAM_OK;
}

vram_status vr_search_inspect(const struct vr_search *search) {
    const struct vram_distance *distance = search->distance;
    vram_status status = inspect_numbers(search, distance->query, 0, distance->queries, "query");
    return status == VRAM_OK
               ? inspect_numbers(search, distance->corpus, search->first, search->count, "vector")
               : status;
}

static double square_root(double value) {
    return value > 0 ? __builtin_sqrt(value) : 0;
}

void vr_search_measure(vram_metric metric, vram_precision precision, double query,
                       const double *lengths, float *row, uint64_t count) {
    double scale = precision == VRAM_PRECISION_INT8 ? 1.0 / (127.0 * 127.0) : 1.0;
    switch (metric) {
    case VRAM_METRIC_INNER_PRODUCT:
        for (uint64_t j = 0; scale != 1.0 && j < count; j++) {
            row[j] = (float)(row[j] * scale);
        }
        break;
    case VRAM_METRIC_COSINE:
        for (uint64_t j = 0; j < count; j++) {
            double both = square_root(query * lengths[j]);
            row[j] = both > 0 ? (float)(1 - row[j] / both) : 1.0f;
        }
        break;
    default:
        for (uint64_t j = 0; j < count; j++) {
            double squared = (query + lengths[j] - 2.0 * (double)row[j]) * scale;
            squared = squared > 0 ? squared : 0;
            row[j] = (float)(metric == VRAM_METRIC_L2 ? square_root(squared) : squared);
        }
    }
}
