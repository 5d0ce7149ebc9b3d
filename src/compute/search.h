/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h: distances from queries to a part of the corpus, in tiles.
 *
 *   distance.c    the calls: checks, several devices, merging
 *   search.c      tiles: conversion of vectors, products by the scheduler, distances
 *   shortlist.c   the same completely on the device, if only the nearest are requested
 *   metric.c      numbers as they are computed with, bounds from products, exact distances
 *   nearest.c     the k best
 */
#ifndef VR_SEARCH_H
#define VR_SEARCH_H

#include "compute/nearest.h"
#include "compute/scheduler_object.h"
#include "vram/distance.h"

/* How vectors become operands of products; metric.h. */
struct vr_conversion {
    uint64_t dim;
    vram_precision precision; /* FP32, FP16 or INT8 */
    vram_metric metric;
    float scale;         /* INT8: of the numbers */
    const float *centre; /* `dim` numbers that are subtracted; NULL: none */
};

/* Squared lengths of a corpus, as products use it: the error of keys from a device follows. */
struct vr_lengths {
    double longest, shortest;
};

/* Vectors [first, first + count) of the corpus, for all queries. */
struct vr_search {
    const struct vram_distance *distance; /* checked */
    struct vr_conversion how;
    uint64_t first, count;
    struct vr_nearest *nearest; /* one for each query; NULL: not requested */
    /* Written by a search: */
    bool rough; /* the nearest are sorted by keys with a device's rounding; `lengths` are set */
    struct vr_lengths lengths;
    uint64_t query_saturated, saturated; /* numbers beyond 8 bits, of queries and corpus */
};

vram_status vr_search_run(struct vr_scheduler *scheduler, struct vr_search *search);
/* The same with keys computed by the host. */
vram_status vr_search_by_tiles(struct vr_scheduler *scheduler, struct vr_search *search);

#endif
