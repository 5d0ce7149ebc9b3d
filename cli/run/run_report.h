/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_report.h: what `vram run` says about the processes that it watched, in the end or when asked:
 * as text, and as JSON (docs/schema/vram.run-1.schema.json).
 */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include "run_history.h"
#include "run_suppress.h"
#include "terminal.h"

#include <sys/types.h>

struct run_report {
    const struct run_page *page;
    const struct terminal *terminal;
    const struct run_suppressions *suppressions;
    const char *const *words; /* the command, NULL behind the last */
    uint64_t wall_ns;
    bool running;                         /* the program has not ended */
    int exit_code;                        /* 128 + signal if it was killed */
    int signal;                           /* 0: none */
    bool leaks;                           /* list what was never freed */
    uint64_t leaked_blocks, leaked_bytes; /* found, over all processes */
    unsigned lost_programs;               /* that cannot reach the page */
    char doubt[2 * RUN_PATH]; /* why there may be others that were not found; "": there are none */
};

/* Reads the traces and prints. Sums up what leaked either way; `quiet`: does only that. */
void run_report_print(struct run_report *report, bool quiet);
/* False: stdout could not take it. */
bool run_report_write(struct run_report *report);

/* ------------------------------------------------------------- what both need */

/* Notes why blocks of a process may never have been freed that its history does not show (NULL: it
   cannot be read). Without a slot: forgets what was noted, and looks at the page. */
void run_report_doubt(struct run_report *report, const struct run_slot *slot,
                      const struct run_history *history);

/* Why a process has no trace: `history` was read from it, or NULL. */
enum { RUN_PROBLEM = 512 };
void run_trace_problem(const struct run_slot *slot, const struct run_history *history,
                       char text[RUN_PROBLEM]);

/* One line on stderr if a process has no trace or not all of it, and one was wanted. */
void run_trace_warn(const struct run_slot *slot, const struct run_history *history);

/* A device's part of the page, copied: the process may still write. */
struct run_device_view {
    const char *api; /* "cuda" */
    uint32_t ordinal;
    char name[RUN_NAME];
    uint64_t total, counted, counted_peak;
    uint64_t live[RUN_KINDS], peak[RUN_KINDS];
    bool figures;          /* the driver was asked: */
    uint64_t driver_used;  /* by all processes, when the least was free */
    uint64_t driver_first; /* by all, after the first context */
    uint64_t counted_then; /* when the least was free */
    vram_value own_first;  /* of driver_first, this process's: the driver's own part */
    int64_t unexplained;   /* of driver_used: neither counted nor there at first */
};

/* False: there is no such device in the slot. */
bool run_device_view(const struct run_slot *slot, unsigned device, struct run_device_view *view);

/* A text of the page, ended within its bytes. */
void run_page_text(const char *from, size_t bytes, char *to);

const char *run_kind_name(unsigned kind);

/* Blocks never freed of a part that no line suppresses. */
struct run_leaks {
    uint64_t blocks, bytes, suppressed;
};
void run_leaks_sum(const struct run_report *report, struct run_history *history, enum run_part part,
                   struct run_leaks *sum);

/* Whether a group of blocks that were never freed is left out: suppressed, or the pool of --serve,
   which lives as long as the process. */
bool run_leak_is_out(const struct run_report *report, struct run_history *history,
                     const struct history_group *group);

#define RUN_POOL_OWNER "libvram pool" /* the tag of that pool's memory */

#endif
