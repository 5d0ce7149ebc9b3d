/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_view.h: reads live pages (vram/live_page.h) whose writer may be dead, newer or hostile.
 *
 * What a view shows is safe to use: tables lie in memory of the view, texts end and have no control
 * characters, row numbers and levels are valid, and no number above PAGE_NUMBER_MAX is left except
 * VRAM_LIVE_PAGE_UNKNOWN and times.
 */
#ifndef PAGE_VIEW_H
#define PAGE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vram/live_page.h>

/* Larger numbers are taken as unknown. */
#define PAGE_NUMBER_MAX (UINT64_C(1) << 56)

enum page_state {
    PAGE_READ,  /* the view is filled */
    PAGE_BUSY,  /* it was written all the time, or is not complete yet: look again later */
    PAGE_GONE,  /* there is none, or its process has ended */
    PAGE_WRONG, /* not a page of this version, or damaged: *problem says what */
    PAGE_FAILED /* it cannot be read: *problem says why */
};

/* A copy of a page. The counts of its tables are at most VRAM_LIVE_PAGE_DEVICES and so on. */
struct page_view {
    vram_live_page head;
    vram_live_page_device *devices; /* head.devices.count */
    vram_live_page_pool *pools;     /* head.pools.count */
    vram_live_page_tag *tags;
    vram_live_page_refusal *refusals;
    uint64_t age_ns; /* since the last update; set by page_read */
    bool silent;     /* no update for two seconds: stopped, or its host is suspended */
    void *memory;    /* of the tables */
};

/* Takes a page from memory: `bytes` of a copy that was not changed meanwhile. */
enum page_state page_take(const void *copy, size_t bytes, struct page_view *view,
                          const char **problem);

/* Copies the page in file `name` of the folder and takes it. It is opened for reading only. */
enum page_state page_read(int folder, const char *name, struct page_view *view,
                          const char **problem);

/* Frees the tables; accepts a zeroed view. */
void page_view_free(struct page_view *view);

/* A sum that stops at PAGE_NUMBER_MAX; unknown if either is. */
uint64_t page_sum(uint64_t a, uint64_t b);

#endif
