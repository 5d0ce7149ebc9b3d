/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h: distances from queries to a part of the corpus, in tiles.
 *
 *   distance.c    the calls: checks, several devices, merging
 *   search.c      tiles: vectors converted, products by the scheduler, distances of them
 *   shortlist.c   the same on the device from end to end, where only the nearest are asked for
 *   nearest.c     the k best
 */
#ifndef VR_SEARCH_H
#define VR_SEARCH_H

#include "compute/nearest.h"
#include "compute/scheduler_object.h"
#include "vram/distance.h"

/* Vectors [first, first + count) of the corpus, for all queries. */
struct vr_search {
    const struct vram_distance *distance; /* checked */
    vram_precision precision;             /* FP32, FP16 or INT8 */
    uint64_t first, count;
    struct vr_nearest *nearest; /* one for each query; NULL: not asked for */
    const char *operation;
};

vram_status vr_search_run(struct vr_scheduler *scheduler, const struct vr_search *search);

/* Looks at all numbers: VRAM_ERR_INVALID with the place of the first that may not be, VRAM_OK where all may. */
vram_status vr_search_inspect(const struct vr_search *search);

/* One finite number in the precision of a search. */
float vr_search_round(vram_precision precision, float value);

/* A row of products becomes a row of distances, in place. Lengths are squared. */
void vr_search_measure(vram_metric metric, vram_precision precision, double query,
                       const double *lengths, float *row, uint64_t count);

#endif
