/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h: asks a running process for its live blocks, for `vram report --pid`. docs/live-page.md
 * describes the request and the lines of the answer. Who answers may be hostile: what is not as it
 * should be is refused, and texts are made harmless.
 */
#ifndef ATTACH_H
#define ATTACH_H

#include "live/page_folder.h"

#include <stdatomic.h>

enum { ATTACH_PROBLEM_MAX = 400 };

/* Blocks of one tag and stack. */
struct attach_group {
    uint64_t bytes, blocks;         /* live, before rounding */
    uint64_t old_bytes, old_blocks; /* of these, a minute old or older */
    uint64_t oldest_ns;             /* age of the oldest */
    uint64_t largest_bytes;
    bool foreign; /* records of memory of others */
    bool rest;    /* all groups that the process had no room for */
    const char *tag;
    size_t first_frame, frames; /* in attach_answer.frames, innermost first */
};

/* One of the largest blocks. */
struct attach_block {
    uint64_t id, addr, requested_bytes, held_bytes, age_ns, thread;
    const char *tag, *pool, *name;
    size_t first_frame, frames;
};

struct attach_answer {
    uint64_t bytes, blocks, tracked_pools, lost_records;
    struct attach_group *groups; /* most bytes first */
    size_t group_count;
    struct attach_block *largest;
    size_t largest_count;
    const char **frames;
    size_t frame_count;
    char *text; /* owned: what the pointers point to */
};

/* Takes an answer, text of `bytes` with room for one more, from malloc, which it owns from now on.
   False: it is not one, and *problem says why. */
bool attach_take(char *text, size_t bytes, struct attach_answer *answer, const char **problem);
void attach_free(struct attach_answer *answer);

/* Where the page of a process lies. */
struct attach_place {
    char folder[PAGE_FOLDER_MAX];
    struct page_name name;
};

/* Finds the page of a process and reads it. False: `problem` has a line for people. */
bool attach_find(uint64_t pid, struct attach_place *place, struct page_view *view,
                 char problem[ATTACH_PROBLEM_MAX]);

/* Reads the page again; PAGE_WRONG also if it claims to be of another process. */
enum page_state attach_read(const struct attach_place *place, struct page_view *view,
                            const char **problem);

/* Asks the process with this page for its blocks. False: `problem` has a line for people. The
   answer is the caller's to free, whatever it returns. `stop`, which may be NULL: give up soon once
   it is true. */
bool attach_blocks(const struct attach_place *place, const struct page_view *view,
                   struct attach_answer *answer, atomic_bool *stop,
                   char problem[ATTACH_PROBLEM_MAX]);

/* Finds and asks. The view is the caller's to free too. */
bool attach_ask(uint64_t pid, struct page_view *view, struct attach_answer *answer,
                char problem[ATTACH_PROBLEM_MAX]);

#endif
