/* SPDX-License-Identifier: Apache-2.0 */
/* page_maker.h: live pages for tests of their readers. */
#ifndef TEST_PAGE_MAKER_H
#define TEST_PAGE_MAKER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <vram/live_page.h>

/* A page with rows of every kind. */
struct page_maker {
    vram_live_page head;
    vram_live_page_device devices[2];
    vram_live_page_pool pools[3];
    vram_live_page_tag tags[2];
    vram_live_page_refusal refusals[1];
};

#define PAGE_TABLE(rows)                                                                           \
    {                                                                                              \
        .offset = offsetof(struct page_maker, rows),                                               \
        .stride = sizeof((struct page_maker *)0)->rows[0],                                         \
        .count = sizeof((struct page_maker *)0)->rows / sizeof((struct page_maker *)0)->rows[0],   \
        .total = sizeof((struct page_maker *)0)->rows / sizeof((struct page_maker *)0)->rows[0]    \
    }

/* Fills a page of the process `pid`, started at `start_ticks`. */
static inline void page_make(struct page_maker *page, uint64_t pid, uint64_t start_ticks,
                             uint64_t pid_space) {
    memset(page, 0, sizeof *page);
    page->head = (vram_live_page){
        .magic = VRAM_LIVE_PAGE_MAGIC,
        .version = VRAM_LIVE_PAGE_VERSION,
        .page_bytes = sizeof *page,
        .pid = pid,
        .start_ticks = start_ticks,
        .pid_space = pid_space,
        .interval_ns = 100000000,
        .library = "1.0.0",
        .command = "./train --steps 10",
        .sequence = 2,
        .updates = 1,
        .devices = PAGE_TABLE(devices),
        .pools = PAGE_TABLE(pools),
        .tags = PAGE_TABLE(tags),
        .refusals = PAGE_TABLE(refusals),
    };
    page->head.sum.held_bytes = 6 << 20;
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(page->devices[i].name, sizeof page->devices[i].name, "device %u", i);
        snprintf(page->tags[i].name, sizeof page->tags[i].name, "tag/%u", i);
        page->tags[i].device = i;
        page->tags[i].used_bytes = 2048 - i;
    }
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(page->pools[i].name, sizeof page->pools[i].name, "pool %u", i);
        page->pools[i].device = i % 2;
        page->pools[i].counts.held_bytes = (uint64_t)(3 - i) << 20;
    }
    page->refusals[0].number = 1;
    snprintf(page->refusals[0].text, sizeof page->refusals[0].text, "a limit was reached");
}

#endif
