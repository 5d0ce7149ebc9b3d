/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_range.h: a range of addresses into which pages of one size are mapped, each a physical
 * handle of its own, for the models of allocators that use virtual memory management.
 *
 * Every driver call is counted, and what is held from the driver is kept in the policy's counts.
 */
#ifndef REPLAY_PAGE_RANGE_H
#define REPLAY_PAGE_RANGE_H

#include "chunk.h"

struct page_range {
    struct page_range *next; /* the policy's list */
    struct place *place;
    struct policy_counts *counts;
    vram_addr base;
    uint64_t page_bytes;
    uint32_t page_count;   /* addresses for so many */
    vram_physical **pages; /* by number; NULL: not mapped */
    struct chunk *first;   /* the policy's chunks */
};

/* Reserves addresses for `page_count` pages. */
vram_status page_range_create(struct place *place, struct policy_counts *counts,
                              uint64_t page_bytes, uint32_t page_count, struct page_range **range);

/* Unmaps and releases all pages, and frees the range with its chunks. */
void page_range_destroy(struct page_range *range);

/*
 * Maps `count` pages from `addr` on, of which the first `spare_count` are given and the others
 * come from the driver. All or none: after a failure the spare pages are still the caller's.
 */
vram_status page_range_map(struct page_range *range, vram_addr addr, uint32_t count,
                           vram_physical *const *spare, uint32_t spare_count);

/*
 * Unmaps `count` pages from `addr` on, which no work uses, and hands them out, or with NULL
 * releases them. Returns how many: fewer only when the driver failed.
 */
uint32_t page_range_unmap(struct page_range *range, vram_addr addr, uint32_t count,
                          vram_physical **pages);

/* Gives a page that is mapped nowhere back to the driver. */
void page_range_release(struct page_range *range, vram_physical *page);

/* The whole pages of a chunk: how many, and where the first one begins. */
uint32_t page_range_whole(const struct page_range *range, const struct chunk *chunk,
                          vram_addr *first);

#endif
