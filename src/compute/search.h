/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h: distances from queries to a part of the corpus, in tiles.
 *
 *   distance.c    the calls: checks, several devices, merging
 *   search.c      tiles: conversion of vectors, products by the scheduler, distances
 *   shortlist.c   the same completely on the device, if only the nearest are requested
 *   metric.c      checks of numbers, distances from products
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
    struct vr_nearest *nearest; /* one for each query; NULL: not requested */
};

vram_status vr_search_run(struct vr_scheduler *scheduler, const struct vr_search *search);

#endif
