/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h: what the engines of the program calls share: its options, its rows, its findings. */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "calls/call_table.h"

enum { NAME_MAX_BYTES = 80 };

struct calls_options {
    const char *backend;
    const char *with;  /* words of the engine's own */
    const char *again; /* what a finding printed, to be repeated; NULL: everything */
    double seconds;    /* after which no further round begins */
    uint64_t seed;
    uint64_t runs; /* rounds; 0: as the time allows */
    bool list, slow, sweep, verbose, planted;
    unsigned share, shares;                            /* of an engine's work, from 1 */
    char only[NAME_MAX_BYTES], beside[NAME_MAX_BYTES]; /* "" or "*": all */
};
extern struct calls_options calls_options;

/* All rows, by name. */
extern struct row *calls_rows;

extern struct calls_count {
    unsigned rows, absent; /* of the engine; not on this backend */
    unsigned findings;
    uint64_t runs;
} calls_count;

struct engine {
    const char *name, *does;
    bool (*prepare)(const char *again); /* its work, for the options; false: `again` is not its */
    void (*list)(void);
    void (*run)(void);
};
extern const struct engine engine_ends, engine_faults, engine_misuse, engine_modes, engine_programs,
    engine_rows, engine_storm;

/* "vram_resize" or "vram_resize:larger". */
void row_name(const struct row *row, char name[NAME_MAX_BYTES]);
bool name_is_wanted(const char *pattern, const char *name);
/* Whether the engine is to run it, by --only and --planted. */
bool row_is_wanted(const struct row *row);

/* What runs from now on, for the report of a finding or of a crash; the format makes what --again
   takes. */
__attribute__((format(printf, 3, 4))) void calls_now(const struct row *row, const char *beside,
                                                     const char *again, ...);
void calls_idle(void);
void calls_finding(const char *what);

/* The first error that the library has logged since calls_now(), or NULL. */
const char *calls_logged(void);

double calls_seconds(void);
uint64_t calls_mix(uint64_t x);

#endif
