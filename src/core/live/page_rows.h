/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_rows.h: collects what a live page (vram/live_page.h) says of contexts, devices and pools.
 *
 *  (1) It calls no driver and takes no reference: an object is read under the lock of the list that
 *      it is in, and leaves that list before it is freed. So no memory is ever released here.
 *  (2) Threads are kept out of their caches once per collection, for all pools together, and not
 *      at all while one of them is inside, perhaps without a processor: then the counters of the
 *      collection before are used, for a second at most.
 *  (3) It allocates no memory and fails never. What does not fit is counted and left out.
 */
#ifndef VR_PAGE_ROWS_H
#define VR_PAGE_ROWS_H

#include "core/stats/pool_stats.h"
#include "vram/live_page.h"

enum { VR_PAGE_POOLS_KNOWN = 256 }; /* pools whose counters of threads and rates are kept */

/* A page as it is written: all rows that there may be, at fixed places. */
struct vr_page_image {
    vram_live_page head;
    vram_live_page_device devices[VRAM_LIVE_PAGE_DEVICES];
    vram_live_page_pool pools[VRAM_LIVE_PAGE_POOLS];
    vram_live_page_tag tags[VRAM_LIVE_PAGE_TAGS];
    vram_live_page_refusal refusals[VRAM_LIVE_PAGE_REFUSALS];
};

/* Events per second, from the counters of about a second ago. */
struct vr_page_rate {
    uint64_t at_ns, allocs, frees; /* the counters then; at_ns 0: not yet */
    uint64_t alloc_rate, free_rate;
};

/* What is remembered of a pool from one collection to the next. */
struct vr_page_pool {
    uint64_t handle;
    bool seen; /* in this collection */
    struct vr_thread_counts threads, counting;
    struct vr_page_rate rate;
};

/* The histogram of live blocks, which is made in steps. */
struct vr_page_walk {
    uint64_t pool; /* handle of the pool that is walked */
    uint64_t at;   /* in its table of blocks */
    bool more;     /* its table was not at its end yet */
    uint64_t next; /* lowest handle above it in this collection; UINT64_MAX: none */
    vram_live_page_size sizes[VRAM_LIVE_PAGE_SIZES];
};

struct vr_page_rows {
    struct vr_page_image image;
    struct vr_page_pool known[VR_PAGE_POOLS_KNOWN];
    uint32_t known_count;
    struct vr_page_rate rate; /* of all pools */
    struct vr_page_walk walk;
    uint32_t missed; /* collections since threads were visited */
    const struct vr_slot *slots[VRAM_LIVE_PAGE_DEVICES]; /* of the devices' rows */
    const struct vr_ledger *ledgers[VRAM_LIVE_PAGE_DEVICES];
};

/* A collection: begin, add each context, end. The caller keeps each context from ending. */
void vr_page_rows_begin(struct vr_page_rows *rows, uint64_t now_ns);
void vr_page_rows_add(struct vr_page_rows *rows, struct vr_context *context);
void vr_page_rows_end(struct vr_page_rows *rows);

#endif
