/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.c: see crash.h.
 *
 * The text is put together before a case begins. The handler only copies and writes it: it calls
 * nothing that is not async-signal-safe, and may run on any thread.
 */
#include "crash.h"
#include "verb.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} fatal[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGILL, "SIGILL"},   {SIGBUS, "SIGBUS"},
    {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"},
};

enum { FATAL_COUNT = sizeof fatal / sizeof fatal[0] };

static struct sigaction before[FATAL_COUNT]; /* the action of each before crash_watch */
static char where[160];                      /* " in the case ... on ...\n" */
static size_t where_bytes;                   /* of `where`; 0 while no case runs. Atomic */

const char *crash_signal_name(int number) {
    for (size_t i = 0; i < FATAL_COUNT; i++) {
        if (fatal[i].number == number) {
            return fatal[i].name;
        }
    }
    return NULL;
}

/* One line by one write, so that no other thread's words stand in the middle. */
static void write_line(const char *what) {
    char line[32 + sizeof where];
    size_t bytes = __atomic_load_n(&where_bytes, __ATOMIC_ACQUIRE);
    size_t start = strlen(what);
    if (bytes > 0) {
        memcpy(line, what, start);
        memcpy(line + start, where, bytes);
        ssize_t written = write(STDERR_FILENO, line, start + bytes);
        (void)written; /* a failed write cannot be reported */
    }
}

/*
 * The action from before decides what becomes of the process: the default one, a sanitizer's or a
 * debugger's. A fault happens again when this returns; a signal that was sent is sent once more,
 * and arrives when this returns.
 */
static void handle(int number, siginfo_t *info, void *context) {
    char what[32] = "vram: ";
    (void)context;
    for (size_t i = 0; i < FATAL_COUNT; i++) {
        if (fatal[i].number == number) {
            memcpy(what + strlen(what), fatal[i].name, strlen(fatal[i].name) + 1);
            sigaction(number, &before[i], NULL);
        }
    }
    write_line(what);
    __atomic_store_n(&where_bytes, 0, __ATOMIC_RELEASE); /* printed once */
    if (info->si_code <= 0) {
        raise(number);
    }
}

/* A driver that exits with 0 in the middle of a case must not look like a suite that passed. */
static void at_exit(void) {
    if (__atomic_load_n(&where_bytes, __ATOMIC_ACQUIRE) > 0) {
        fflush(stdout);
        write_line("vram: exit was called");
        _exit(EXIT_NO);
    }
}

void crash_watch(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < FATAL_COUNT; i++) {
        sigaction(fatal[i].number, &action, &before[i]);
    }
    atexit(at_exit);
}

void crash_case_begin(const char *name, const char *backend, uint32_t device) {
    int bytes = snprintf(where, sizeof where, " in the case %s on %s device %" PRIu32 "\n", name,
                         backend, device);
    bool whole = bytes > 0 && (size_t)bytes < sizeof where;
    __atomic_store_n(&where_bytes, whole ? (size_t)bytes : sizeof where - 1, __ATOMIC_RELEASE);
}

void crash_case_end(void) {
    __atomic_store_n(&where_bytes, 0, __ATOMIC_RELEASE);
}
