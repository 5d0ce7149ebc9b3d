/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verb.h: what a subcommand of `vram` is.
 *
 * A verb is one row: main.c finds it by name, arguments.c reads its flags, help.c and completion.c
 * print from the same row, so the four cannot drift apart. A new verb is a file with a `const
 * struct verb`, one line below and one in the table of main.c.
 */
#ifndef VERB_H
#define VERB_H

#include "arguments.h"
#include "output.h"
#include "terminal.h"

/* What the process returns; every verb keeps to these. */
enum exit_code {
    EXIT_YES = 0,   /* done, or the answer is yes */
    EXIT_NO = 1,    /* the answer is no: a check failed, contents differ, it does not fit */
    EXIT_MISUSE = 2 /* wrong arguments, or something outside failed; one line is on stderr */
};

#define OPERANDS_VERBS   "@verbs"   /* in verb.operands: the names of the verbs */
#define OPERANDS_FILES   "@files"   /* any number of files, and - for standard input */
#define OPERANDS_PROGRAM "@program" /* a program and its arguments, which are not read */

struct verb {
    const char *name;     /* "info" */
    const char *summary;  /* one line without a full stop, for `vram --help` */
    const char *usage;    /* what follows "vram NAME" in the synopsis: "[OPTION]..." */
    const char *examples; /* lines of "COMMAND  # what it does", each ended by \n */
    const struct flag
        *flags; /* its own, ended by a row without a name; the common ones are added */
    int (*run)(struct invocation *invocation); /* returns an exit_code */
    const char *operands;                      /* words it accepts, by blanks; NULL: none at all */
};

extern const struct verb verb_info;
extern const struct verb verb_check;
extern const struct verb verb_tour;
extern const struct verb verb_replay;
extern const struct verb verb_report;
extern const struct verb verb_run;
extern const struct verb verb_bench;
extern const struct verb verb_estimate;
extern const struct verb verb_stress;
extern const struct verb verb_broker;
extern const struct verb verb_top;
extern const struct verb verb_exporter;
extern const struct verb verb_completion;
extern const struct verb verb_help;

/* Every verb in the order of `vram --help`, NULL at the end. */
extern const struct verb *const verb_table[];

/* The verb of that name, NULL when there is none. */
const struct verb *verb_find(const char *name);

/* The same; says so on stderr, with the nearest name, when there is none. */
const struct verb *verb_require(const char *name);

#endif
