/* SPDX-License-Identifier: Apache-2.0 */
/* driver_runs.h: how the engines (driver_engines.c) run the program with a fault, and what must
   come of that (drivers.c). */
#ifndef TEST_DRIVER_RUNS_H
#define TEST_DRIVER_RUNS_H

#include "drivers.h"

#include <string.h>

enum {
    NOT_HERE = 3, /* a process's exit code: this machine cannot come by the row */
    FAR = 1 << 20 /* no program makes so many calls */
};

extern const struct driver *driver;
extern bool shim;

/* What a run is about, for its messages. */
struct fault {
    const char *call; /* or "any" */
    uint64_t nth;
    int code, lie;
    bool for_ever;
    unsigned manner;
    bool when_open;     /* not before */
    const char *hidden; /* a symbol that the driver lacks; NULL: none */
    bool anywhere;      /* somewhere in the program, and not in the first call of an entry */
};

struct run {
    struct fault fault;
    struct program program;
    uint64_t struck;
    const char *last; /* call that was struck */
    bool at_open;     /* struck before the device was open */
    bool forgiven;    /* struck in a call that has nobody to tell */
};

/* False, and says so. */
bool complain(const struct run *run, const char *what);
const struct excuse *excuse_find(const char *entry, int code);
bool judge(const struct run *run, uint64_t blocks, uint64_t live);
/* Waits for what a driver's own threads still hold. */
bool nothing_left(const struct run *run, uint64_t blocks, uint64_t live);

/* The program, while the fault is planned; its plan ends with the first call that was struck, but
   for one that strikes for ever. */
struct run run_with(const struct fault *fault);
/* Runs it and looks whether all is well; -1: it is not, 0: nothing was struck, 1: well. */
int try_fault(const struct fault *fault);
/* After all that, everything works. */
bool works(const char *after);

/* An engine has numbered rows with names. What runs one returns an exit code, and counts what it
   tried. */
struct engine {
    const char *name, *sum;
    unsigned (*rows)(void);
    const char *(*row)(unsigned row);
    int (*run)(unsigned row, unsigned *tried);
};

enum { ENGINES = 6 };
extern const struct engine engines[ENGINES];

static inline bool same(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

#endif
