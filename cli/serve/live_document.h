/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_document.h: all that is known of a process that is watched, and the JSON of it that the page
 * in the browser reads once a second. The page comes from the same command, so the format may
 * change with each version.
 */
#ifndef LIVE_DOCUMENT_H
#define LIVE_DOCUMENT_H

#include "live/attach.h"
#include "serve/live_past.h"

#include <stdio.h>

enum { LIVE_REFUSALS = 64 };

enum live_state {
    LIVE_RUNS,
    LIVE_SILENT, /* it runs, and its page is not updated, or cannot be read */
    LIVE_ENDED
};

struct live_document {
    struct page_view view; /* the newest page */
    enum live_state state;
    char words[ATTACH_PROBLEM_MAX]; /* why it does not run; "": it does */
    struct live_past past;
    vram_live_page_refusal refusals[LIVE_REFUSALS]; /* newest first */
    uint32_t refusal_count;
    uint64_t refusal_number; /* of the newest */
    struct attach_answer blocks;
    bool blocks_known;
    uint64_t blocks_ns;                      /* when they came, since the beginning */
    char blocks_problem[ATTACH_PROBLEM_MAX]; /* why there are none, or no newer ones */
};

void live_document_free(struct live_document *now);

/* Adds the refusals of the newest page that are not known yet; `again`: the page is a new one, and
   its numbers begin anew. */
void live_refusals_add(struct live_document *now, bool again);

/*
 * Writes it as JSON, so long after the beginning: the past from slot `from` on if `generation` is
 * the current one, else all of it. False: the stream failed.
 */
bool live_document_write(const struct live_document *now, uint64_t since_ns, uint64_t generation,
                         uint64_t from, FILE *to);

#endif
