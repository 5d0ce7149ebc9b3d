/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_bins.h: free spans, found by queue and size. hole.h says what the queues mean.
 *
 * A set of size bins has a bin for each class of sizes, eight per power of two, and in each bin a
 * treap by (queue, bytes, address). A program's holes are spread over many bins, so a search takes
 * far fewer steps than in one tree of all holes, and each step is likely a cache miss. Even if all
 * holes have one size, a search takes no more steps than in that tree.
 *
 *     filled  0 0 1 0 1 1 ...            one bit per bin
 *     bins    . . | . | | ...
 *                 |   | +- treap of sizes from 2560 on
 *                 |   +--- of 2048
 *                 +------- of 1024
 *
 * Nothing here allocates: the links are in the records (vr_span).
 */
#ifndef VR_BINS_H
#define VR_BINS_H

#include "core/space/block.h"

enum {
    VR_BINS_COUNT = 256, /* the last has all sizes from 7.5 TiB on */
    VR_BINS_WORDS = VR_BINS_COUNT / 64
};

struct vr_size_bins {
    uint64_t filled[VR_BINS_WORDS];        /* which bins are not empty */
    struct vr_block *roots[VR_BINS_COUNT]; /* of the treaps */
};

/* Adds a span that is in no bin; removes one. In between, its queue, size and address must not
   change. */
void vr_bins_add(struct vr_size_bins *bins, struct vr_block *span, uint64_t queue);
void vr_bins_remove(struct vr_size_bins *bins, struct vr_block *span);

/* The queue's smallest of at least `bytes`, and of equal ones the lowest. NULL: none. */
struct vr_block *vr_bins_least(const struct vr_size_bins *bins, uint64_t queue, uint64_t bytes);

/* The queue's next smaller than `span`, or its largest when span is NULL. NULL: none. */
struct vr_block *vr_bins_smaller(const struct vr_size_bins *bins, uint64_t queue,
                                 const struct vr_block *span);

/* The lowest queue above `queue` that has a span here, if it is below `none`; otherwise `none`.
   Searches every bin. */
uint64_t vr_bins_queue_next(const struct vr_size_bins *bins, uint64_t queue, uint64_t none);

/* Bytes of the largest span of all queues; 0: there is none. */
uint64_t vr_bins_most(const struct vr_size_bins *bins);

/* The bin of a size; and the order of two spans in one bin. For checks. */
uint32_t vr_bins_index(uint64_t bytes);
bool vr_bins_less(const struct vr_block *a, const struct vr_block *b);

#endif
