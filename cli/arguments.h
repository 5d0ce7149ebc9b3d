/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arguments.h: flags as a table, and the command line read against it.
 *
 * One row per flag is all there is: parsing, --help and the completions come from it. Accepted
 * spellings are --name, --name=value, --name value, -n, -nvalue, -n value and clusters of short
 * switches, for a few flags -word value and --word value (`also`); `--` ends the flags. Everything
 * else is an operand. Long names are never abbreviated, so that a script goes on working when a
 * flag is added.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "terminal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verb;

/* One flag. A table of them ends with a row whose name is NULL. */
struct flag {
    const char *name;    /* the long form without dashes, "backend" */
    char letter;         /* the short form, 'b'; 0: there is none */
    const char *value;   /* how help calls its argument, "NAME"; NULL: a switch, takes none */
    const char *help;    /* one line without a full stop */
    const char *choices; /* the only values accepted, by blanks; NULL: any */
    const char *hints;   /* values that completion offers although others are accepted */
    bool repeats;        /* each time counts: flag_values has them all; else the last one wins */
    const char *also;    /* as another program spells it, behind one dash, by blanks: "ngl" is -ngl,
                            "-n-gpu-layers" is --n-gpu-layers; NULL: only as here */
};

/* Every backend the library knows, for completion only: the library itself judges the names. */
#define BACKEND_HINTS "cuda hip metal vulkan opencl sim host"

/* Rows that several verbs share, so that a flag means and says the same everywhere. */
#define FLAG_BACKEND                                                                               \
    {                                                                                              \
        .name = "backend", .letter = 'b', .value = "NAME",                                         \
        .help = "use only this backend, or several joined by commas", .hints = BACKEND_HINTS       \
    }
#define FLAG_DEVICE                                                                                \
    {                                                                                              \
        .name = "device", .letter = 'd', .value = "N",                                             \
        .help = "use device N as `vram info` numbers them, within --backend if given"              \
    }
#define FLAG_PAGES                                                                                 \
    {                                                                                              \
        .name = "pages", .value = "DIR",                                                           \
        .help = "read live pages in this folder alone, such as one of a container's host"          \
    }
#define FLAG_END                                                                                   \
    { .name = NULL }

/* Accepted by every verb: --json, --color=WHEN, --help. */
extern const struct flag common_flags[];

enum { FLAGS_MAX = 32, OPERANDS_MAX = 64, REPEATED_MAX = 32 };

/* A command line after parsing; what a verb's run is handed. */
struct invocation {
    const struct verb *verb;
    struct terminal terminal;      /* colours and width, decided from --color and environment */
    bool json;                     /* --json */
    bool help;                     /* --help: run is not called */
    const char *color;             /* argument of --color; NULL when not given */
    const char *values[FLAGS_MAX]; /* by row of verb->flags: NULL not given, "" a switch given */
    struct {
        const struct flag *flag;
        const char *value;
    } repeated[REPEATED_MAX]; /* of flags that repeat, in the order given */
    size_t repeated_count;
    const char *operands[OPERANDS_MAX];
    size_t operand_count;
    char *const *rest; /* a program and its arguments (OPERANDS_PROGRAM); NULL: none */
};

/*
 * Reads what follows the verb, a list that ends with NULL. False after one line on stderr that
 * names the mistake and, where one is near, the flag that was meant.
 */
bool arguments_parse(struct invocation *invocation, const struct verb *verb, char *const *words);

/* Whether a flag of the verb was given. The name must be in its table. */
bool flag_given(const struct invocation *invocation, const char *name);

/* The argument it was given (the last one wins); NULL when it was not. */
const char *flag_value(const struct invocation *invocation, const char *name);

/* Every argument that a flag which repeats was given, in order. Returns how many. */
size_t flag_values(const struct invocation *invocation, const char *name,
                   const char *values[REPEATED_MAX]);

/*
 * The argument as a whole number in [minimum, maximum]; *number is untouched when the flag was not
 * given. False after one line on stderr when it is no such number.
 */
bool flag_number(const struct invocation *invocation, const char *name, uint64_t minimum,
                 uint64_t maximum, uint64_t *number);

#endif
