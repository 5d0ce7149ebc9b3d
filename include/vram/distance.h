/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/distance.h: distances between vectors: all of them, or the nearest. Part of vram/compute.h.
 *
 *   vram_distance search = {.size = sizeof search, .queries = 10, .vectors = 1000000, .dim = 128,
 *                           .query = query, .corpus = corpus, .k = 5, .best = best, .best_at = at};
 *   vram_distance_run(scheduler, &search);        the five nearest of a million, for each of ten
 *
 * Distances are computed as products of matrices by a scheduler of vram/compute.h: on its device or
 * on the CPU, by the same rule, with its pool's memory, whatever the sizes: in tiles, of which only
 * one is in memory at a time. The nearest are found without the whole matrix ever being there. The
 * inputs are looked at by the same rules wherever it runs.
 *
 *   L2_SQUARED     sum of (q - c)^2, at least 0         nearest: smallest
 *   L2             its root                             nearest: smallest
 *   INNER_PRODUCT  sum of q * c                         nearest: largest
 *   COSINE         1 - q * c / (|q| |c|); 1 where one   nearest: smallest
 *                  of the two is all zeros
 *
 * Both forms of L2 are |q|^2 + |c|^2 - 2 q * c, so vectors that are much closer to each other than
 * they are long have a distance of few good digits.
 *
 * Up to VRAM_NEAREST_DEVICE nearest without the matrix are found on the device itself, by kernels
 * for CUDA, OpenCL and Vulkan: vectors go there once, as they are, and nothing but the nearest
 * comes back. Distances are then of single precision all the way. Otherwise products come back in
 * tiles, and the host turns them into distances.
 */
#ifndef VRAM_DISTANCE_H
#define VRAM_DISTANCE_H

#include <vram/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The most nearest of a query that a device finds; more are found by the host. */
#define VRAM_NEAREST_DEVICE 128

typedef enum vram_metric {
    VRAM_METRIC_L2_SQUARED = 0,
    VRAM_METRIC_L2 = 1,
    VRAM_METRIC_INNER_PRODUCT = 2,
    VRAM_METRIC_COSINE = 3
} vram_metric;

/** What becomes of numbers that are infinite or none, in the precision that is computed with. */
typedef enum vram_nonfinite {
    VRAM_NONFINITE_REJECT = 0, /* VRAM_ERR_INVALID, with the place of the first */
    VRAM_NONFINITE_ZERO = 1    /* they count as 0 */
} vram_nonfinite;

/**
 * What is to be computed. Vectors are rows of `dim` numbers of single precision in host memory;
 * `precision` says what they are turned into first: FP32 (also for 0), FP16, or INT8: x * 127,
 * rounded, from -128 to 127, for vectors within -1 and 1; results are scaled back.
 */
typedef struct vram_distance {
    size_t size; /* sizeof(vram_distance) */
    uint64_t queries, vectors, dim;
    const float *query;       /* queries * dim numbers */
    const float *corpus;      /* vectors * dim numbers */
    uint64_t query_elements;  /* how many are there; 0: not said, else compared with the shape */
    uint64_t corpus_elements; /* the same */
    vram_metric metric;
    vram_precision precision;
    vram_nonfinite nonfinite;
    vram_place place;           /* AUTO: as the scheduler says */
    float *distances;           /* queries * vectors results, row by row; NULL: not asked for */
    uint64_t distance_elements; /* how many there is room for; 0: not said */
    uint64_t k;                 /* how many of the nearest; 0: none */
    float *best;                /* queries * k distances, the nearest first */
    uint64_t *best_at;          /* queries * k numbers of vectors; of equal ones the lower first */
} vram_distance;

/**
 * Computes them and waits. VRAM_ERR_INVALID for empty or mismatched inputs (both numbers in the
 * text), a `k` above the number of vectors, an unknown metric or precision, and nothing asked for;
 * VRAM_ERR_OVERFLOW. When device memory runs out: cleanup, once more, smaller tiles, then the CPU,
 * as the scheduler allows. After a failure the results hold nothing of use, and no memory is kept.
 */
VRAM_API vram_status vram_distance_run(vram_scheduler *scheduler, const vram_distance *distance);

/**
 * The same on several devices, each with a part of the corpus, at the same time. Schedulers may be
 * of any pools; one may be named twice. At most 16. The first failure is the answer.
 */
VRAM_API vram_status vram_distance_split(vram_scheduler *const *schedulers, size_t count,
                                         const vram_distance *distance);

/**
 * The same on device `device` of a context, for programs that do it once: opens the device, makes a
 * pool and a scheduler, and lets go of all. VRAM_ERR_NO_DEVICE for an index that no device has.
 */
VRAM_API vram_status vram_distance_on(vram_context *context, uint32_t device,
                                      const vram_distance *distance);

#ifdef __cplusplus
}
#endif

#endif
