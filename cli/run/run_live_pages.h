/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_live_pages.h: the live pages (docs/live-page.md) of programs under `vram run`, which writes
 * them for the programs: from the counters of the page that it shares with them (run_page.h). A
 * process that has pools of libvram writes its own page, which replaces this one.
 */
#ifndef RUN_LIVE_PAGES_H
#define RUN_LIVE_PAGES_H

#include "run_page.h"

/* Between two updates; ns. */
#define RUN_LIVE_INTERVAL UINT64_C(100000000)

struct run_live_pages;

/* NULL: VRAM_LIVE is off, or there is no folder for them. */
struct run_live_pages *run_live_pages_begin(struct run_page *page);
/* Writes the page of each process that uses a device, and removes those of processes that have
   ended. */
void run_live_pages_update(struct run_live_pages *pages);
/* Removes all; accepts NULL. */
void run_live_pages_end(struct run_live_pages *pages);

#endif
