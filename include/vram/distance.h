/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/distance.h: distances between vectors: all of them, or the nearest. Part of vram/compute.h.
 *
 *   vram_distance search = {.size = sizeof search, .queries = 10, .vectors = 1000000, .dim = 128,
 *                           .query = query, .corpus = corpus, .k = 5, .best = best, .best_at = at};
 *   vram_distance_run(scheduler, &search);        the five nearest of a million, for each of ten
 *
 * A scheduler of vram/compute.h computes distances as matrix products: on its device or on the CPU,
 * by the same rule, with its pool's memory. Inputs of any size are computed in tiles, and only one
 * tile is in memory at a time; the nearest are found without storing the whole matrix. Inputs are
 * checked by the same rules wherever the product runs.
 *
 *   L2_SQUARED     sum of (q - c)^2, at least 0         nearest: smallest
 *   L2             its root                             nearest: smallest
 *   INNER_PRODUCT  sum of q * c                         nearest: largest
 *   COSINE         1 - q * c / (|q| |c|); 1 if one of   nearest: smallest
 *                  the two is all zeros
 *
 * Products only bound the distances: what they leave in doubt is computed from the differences of
 * the numbers. So the nearest are those of double precision, in its order, also if the vectors are
 * far from the origin or from each other, and their distances are right to single precision. Of the
 * matrix, L2 and COSINE are right to 16 * dim units in the last place, usually far better. A common
 * offset costs no time. The more vectors are closer to a query than products can tell (clusters far
 * apart, or COSINE of vectors that all have nearly one direction), the longer a search takes.
 *
 * Up to VRAM_NEAREST_DEVICE nearest, if the matrix is not asked for, are found on the device by
 * kernels for CUDA, OpenCL and Vulkan: the vectors are uploaded once, unchanged, and only the
 * nearest are downloaded. Otherwise the products are downloaded in tiles, and the host computes
 * distances from them.
 */
#ifndef VRAM_DISTANCE_H
#define VRAM_DISTANCE_H

#include <vram/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The most nearest vectors per query that a device finds; for more, the host does. */
#define VRAM_NEAREST_DEVICE 128

typedef enum vram_metric {
    VRAM_METRIC_L2_SQUARED = 0,
    VRAM_METRIC_L2 = 1,
    VRAM_METRIC_INNER_PRODUCT = 2,
    VRAM_METRIC_COSINE = 3
} vram_metric;

/** What to do with infinities and NaNs, in the precision of the computation. */
typedef enum vram_nonfinite {
    VRAM_NONFINITE_REJECT = 0, /* VRAM_ERR_INVALID; the text has the position of the first */
    VRAM_NONFINITE_ZERO = 1    /* they count as 0 */
} vram_nonfinite;

/**
 * A computation. Vectors are rows of `dim` numbers of single precision in host memory. They are
 * converted to `precision` first: FP32 (also for 0), FP16, or INT8, which is x * scale, rounded,
 * from -128 to 127; distances are exact for what that gives, and scaled back. FP16 and INT8 cannot
 * hold a difference beside a large offset: subtract it from the vectors first.
 */
typedef struct vram_distance {
    size_t size; /* sizeof(vram_distance) */
    uint64_t queries, vectors, dim;
    const float *query;       /* queries * dim numbers */
    const float *corpus;      /* vectors * dim numbers */
    uint64_t query_elements;  /* length of query, checked against the shape; 0: not checked */
    uint64_t corpus_elements; /* the same for corpus */
    vram_metric metric;
    vram_precision precision;
    vram_nonfinite nonfinite;
    vram_place place;           /* AUTO: the scheduler's */
    float *distances;           /* queries * vectors results, row by row; NULL: not wanted */
    uint64_t distance_elements; /* length of distances; 0: not checked */
    uint64_t k;                 /* how many of the nearest; 0: none */
    float *best;                /* queries * k distances, the nearest first */
    uint64_t *best_at;          /* queries * k indices of vectors; of equal ones the lower first */
    float scale;                /* of INT8; 0: 127, for numbers within -1 and 1 */
    uint64_t *saturated;        /* INT8: set to the number of values beyond -128 to 127, which are
                                   clamped; NULL: such a value is VRAM_ERR_INVALID, and named */
} vram_distance;

/**
 * Computes distances and waits. VRAM_ERR_INVALID for empty or mismatched inputs (the text has both
 * numbers), a `k` above the number of vectors, an unknown metric or precision, and if no result is
 * asked for; VRAM_ERR_OVERFLOW. If device memory runs out, the call cleans up and tries again, then
 * uses smaller tiles, then the CPU if the scheduler allows it. After a failure the results are
 * undefined, and no memory is kept.
 */
VRAM_API vram_status vram_distance_run(vram_scheduler *scheduler, const vram_distance *distance);

/**
 * The same on several devices in parallel, each with a part of the corpus. Schedulers may have any
 * pools, and one may be given twice. At most 16. Returns the first failure.
 */
VRAM_API vram_status vram_distance_split(vram_scheduler *const *schedulers, size_t count,
                                         const vram_distance *distance);

/**
 * The same on device `device` of a context, for programs that do it once: opens the device, creates
 * a pool and a scheduler, and destroys them again. VRAM_ERR_NO_DEVICE if there is no such device.
 */
VRAM_API vram_status vram_distance_on(vram_context *context, uint32_t device,
                                      const vram_distance *distance);

#ifdef __cplusplus
}
#endif

#endif
