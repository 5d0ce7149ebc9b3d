/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_child.h: starts a program under `vram run`: the page that it shares with the library in it,
 * its environment, and what can be said beforehand about whether the loader will take the library.
 */
#ifndef RUN_CHILD_H
#define RUN_CHILD_H

#include "run_page.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Exit codes of env, nice and timeout. */
enum { RUN_CANNOT_EXECUTE = 126, RUN_NOT_FOUND = 127 };

struct run_child {
    struct run_page *page;  /* shared; NULL: not made yet */
    int page_fd;            /* -1: none */
    int lost_fd;            /* socket for programs that cannot reach the page; -1: none */
    char lost_name[48];     /* of the socket, with a colon behind it; "": none */
    char program[RUN_PATH]; /* the file that is executed */
    char trace[RUN_PATH];   /* path of the trace, with %p and %h in it; "": none */
    char library[RUN_PATH]; /* libvram-run.so */
    bool to_stderr;         /* the program's standard output goes to standard error */
    pid_t pid;              /* 0: not started */
};

/* Makes the page, finds the library. False after one line on stderr; run_child_end is due either
   way. */
bool run_child_prepare(struct run_child *child);

/* Finds the program as the shell would; 0, or an exit code after one line on stderr. Warns about a
   program that the loader will not give the library to. */
int run_child_find(struct run_child *child, const char *name);

/* Starts it with the signal mask `signals`; 0, or an exit code after one line on stderr. */
int run_child_start(struct run_child *child, char *const *words, const sigset_t *signals);

/* How many more programs have said that they cannot reach the page: none of them is recorded. */
unsigned run_child_lost(struct run_child *child);

void run_child_end(struct run_child *child);

#endif
