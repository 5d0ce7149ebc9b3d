/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_watch.h: one running process, watched: its live page ten times a second, and its blocks once
 * a second while somebody looks.
 *
 * One thread takes samples (live_watch_sample), a thread of the watch asks for blocks, and those of
 * the server read (live_watch_write). A lock guards all that they share; it is held neither while
 * the page is read nor while the process is asked.
 */
#ifndef LIVE_WATCH_H
#define LIVE_WATCH_H

#include "serve/live_document.h"

struct live_watch;

/* Starts with the page that was found, which the watch owns from now on, also when it fails. NULL
   after one line in `problem`. */
struct live_watch *live_watch_begin(const struct attach_place *place, struct page_view *view,
                                    char problem[ATTACH_PROBLEM_MAX]);
void live_watch_end(struct live_watch *watch);

/* Reads the page again. */
enum live_state live_watch_sample(struct live_watch *watch);

/* Whether a page in a browser has asked within the last seconds. */
bool live_watch_is_read(struct live_watch *watch);

/* live_document_write of what is known now. Any thread. */
bool live_watch_write(void *watch, uint64_t generation, uint64_t from, FILE *to);

/* The most bytes that it held, and since when it was watched. */
uint64_t live_watch_peak(struct live_watch *watch, uint64_t *since_ns);

#endif
