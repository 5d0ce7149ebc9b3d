/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene.h: what the page shows of a trace, at a bounded size, from two passes over its events.
 *
 * The first pass finds how long the trace is, which addresses it uses and what is largest. The
 * second fills:
 *
 *  - Series: live bytes in SCENE_BINS parts of the trace, by tag, call site, stream and size, the
 *    SCENE_COLUMNS largest of each and the rest as one. A bin shows the moment at which most was
 *    live in it, so the columns add up and no peak is lost. One more shows the end.
 *  - Moments: the same in SCENE_MOMENTS parts by call stack, as changes from one to the next.
 *  - Blocks: the SCENE_BLOCKS with the largest area (bytes times length), each with its place.
 *    What is smaller is merged into a grid of cells: how much of it they covered.
 *
 * The page shows a trace by its time or by its events, so a part of the trace is neither a part of
 * the time nor of the events, but of half their sum: how far the time is, from 0 to 1, and how many
 * of the steps (live_set_is_step) were made. That is what "at" means here. Both grow with it, so
 * each bin is an interval on both axes, no wider than 2 / SCENE_BINS. What is live after a step
 * goes from there to the next step on a straight line: on the axis of events it is as wide as one.
 *
 * A value "at the moment at which most was live" needs no copy of all values at each new maximum:
 * every maximum raises `epoch`, and a column keeps what it had when it is changed for the first
 * time after that.
 */
#ifndef VIEWER_SCENE_H
#define VIEWER_SCENE_H

#include "address_ranges.h"
#include "live_set.h"
#include "report/report_input.h"

enum {
    SCENE_BINS = 1 << 14,
    SCENE_COLUMNS = 12, /* by name; one more is the rest */
    SCENE_MOMENTS = 1 << 10,
    SCENE_STACKS = 1000,   /* by name; number 0 is the rest */
    SCENE_BLOCKS = 200000, /* kept, at most */
    SCENE_GRID_TIMES = 1 << 10,
    SCENE_GRID_PLACES = 1 << 9,
    SCENE_NUMBERS_MAX = 1 << 20, /* of tags and stacks; larger ones count as 0 */
    SCENE_NOTES_MAX = 1000       /* refusals and marks */
};

enum scene_grouping { SCENE_TAGS, SCENE_SITES, SCENE_STREAMS, SCENE_SIZES, SCENE_GROUPINGS };

/* A running sum and what it was at the last maximum of the total. */
struct scene_column {
    uint64_t live;
    uint64_t kept;  /* `live` at the maximum of `epoch` */
    uint64_t epoch; /* of the last change */
};

/* Everything with one name in one grouping. */
struct scene_group {
    char *name;
    uint64_t number; /* what the trace calls it: a tag, a queue, a size */
    uint64_t live, peak;
    uint64_t blocks, bytes; /* allocated in all */
    uint64_t left;          /* bytes never freed */
    uint32_t column;        /* 0: the rest */
};

struct scene_grouped {
    struct scene_group *groups; /* 0: what has none */
    size_t count, capacity;
    uint32_t *of_number; /* group of a tag or stack, and 1; 0: not known yet */
    uint32_t *by_name;   /* groups by hash of their name, and 1 */
    struct scene_column columns[SCENE_COLUMNS + 1];
    uint32_t group_of[SCENE_COLUMNS + 1]; /* of a column from 1 on */
    uint32_t column_count;                /* with the rest */
    float *bins[SCENE_COLUMNS + 1];       /* live bytes */
};

struct scene_block {
    uint64_t begin_ns, end_ns; /* UINT64_MAX: never freed */
    uint64_t begin_step, end_step;
    uint64_t place, bytes;
    uint32_t tag, stack, stream; /* groups; `stack` as in scene_stack */
    double area;
};

struct scene_stack {
    uint32_t number; /* of the recording */
    uint64_t live, peak, left;
};

struct scene_refusal;

struct scene_note {
    uint64_t time_ns, step, bytes;
    int status; /* of a refusal; VRAM_OK: a mark */
    char text[64];
    struct scene_refusal *refusal; /* NULL for a mark; scene_notes.h */
};

struct scene {
    uint64_t begin_ns, end_ns, steps;
    uint64_t live, peak, peak_ns, peak_step;
    uint64_t blocks, addressed; /* blocks in all, and those with an address */
    uint64_t left_out;          /* that could not be followed */
    struct scene_grouped grouped[SCENE_GROUPINGS];
    struct scene_stack *stacks; /* 0: the rest; after the first pass only those that are shown */
    size_t stack_count, stack_capacity;
    uint32_t *stack_of; /* of a number: its place in `stacks`; 0: the rest or none */
    struct scene_column *stack_columns;
    uint32_t *moment_changes; /* how many changes each moment has; SCENE_MOMENTS + 1 */
    uint32_t *change_stacks;
    float *change_bytes; /* what the stack has from this moment on */
    size_t change_count, change_capacity;
    uint64_t *moment_ns;         /* when it was; SCENE_MOMENTS + 1, the last is the end */
    float *total, *held, *limit; /* SCENE_BINS + 1; NaN: not known */
    double *past; /* parts of the steps that were made when a bin begins; SCENE_BINS + 1 */
    struct address_ranges ranges;
    struct scene_block *kept; /* a heap by area, then by time */
    size_t kept_count, kept_max;
    double *grid;    /* (SCENE_GRID_TIMES + 1) * (SCENE_GRID_PLACES + 1) */
    uint64_t merged; /* blocks in it */
    struct scene_note *notes;
    size_t note_count;
    uint64_t notes_left_out;
    const char *problem; /* NULL: none */
};

/* Where a moment lies: from 0 to 1. */
double scene_at(const struct scene *scene, uint64_t time_ns, uint64_t step);

/* Reads a trace, which must be there to be read twice, and keeps `blocks` of its blocks one by one,
   SCENE_BLOCKS at most. False with the problem set, or with that of the input. Either way the input
   is open, for its frames, and scene_free is due. */
bool scene_read(struct scene *scene, const struct report_source *source, size_t blocks,
                struct report_input *input);

void scene_free(struct scene *scene);

#endif
