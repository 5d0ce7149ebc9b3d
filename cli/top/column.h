/* SPDX-License-Identifier: Apache-2.0 */
/* column.h: the columns of the table of processes: what they show, and how rows are sorted. */
#ifndef COLUMN_H
#define COLUMN_H

#include "top/top_machine.h"

enum column_id {
    COLUMN_PID,
    COLUMN_USER,
    COLUMN_DEVICE,
    COLUMN_HELD,
    COLUMN_LIVE,
    COLUMN_CACHED,
    COLUMN_RATIO,
    COLUMN_PEAK,
    COLUMN_DRIVER,
    COLUMN_PRESSURE,
    COLUMN_RATE,
    COLUMN_TAG,
    COLUMN_COMMAND,
    COLUMN_COUNT
};

struct column {
    const char *head;
    const char *key; /* in CSV */
    int width;       /* columns of the terminal; the last takes what is left */
    bool left;       /* its text begins at the left */
    int rank;        /* those of the highest rank are left out first where it is narrow */
    bool rises;      /* sorted from the smallest by default */
};

extern const struct column top_columns[COLUMN_COUNT];

enum { CELL_BYTES = 288 };

/* The cell's text; "-" for what is not known. Returns `text`. */
const char *column_format(const struct machine *machine, const struct machine_process *process,
                          enum column_id column, char text[CELL_BYTES]);

/* Writes the numbers of the processes that match the filter ("": all), in order; returns how
   many. */
uint32_t column_sort(const struct machine *machine, enum column_id column, bool reversed,
                     const char *filter, uint32_t *order);

/* "40.2G" in up to six characters; "-" for UNKNOWN. Returns `text`. */
#define SHORT_SIZE_MAX 8
const char *short_size(uint64_t bytes, char text[SHORT_SIZE_MAX]);

#endif
