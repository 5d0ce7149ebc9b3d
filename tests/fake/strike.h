/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strike.h: a plan of failing calls, for the tests' drivers and for the shim in front of a real
 * one. Callers lock.
 */
#ifndef FAKE_STRIKE_H
#define FAKE_STRIKE_H

#include <stdbool.h>
#include <stdint.h>

#define STRIKE_CALLS_MAX 128
#define STRIKE_TRAPPED   98 /* exit code */

struct strike {
    const char *const *names; /* of the calls, in their order */
    unsigned count;
    bool set;
    unsigned call; /* the one to strike; count: any */
    uint64_t nth;  /* of the calls that fit, from 1 */
    bool for_ever; /* and all behind it */
    int code;      /* what it answers */
    int lie;       /* or what is wrong with its success */
    uint64_t matching, struck, total;
    const char *last; /* the call that was struck last; "" when none was */
    uint64_t counts[STRIKE_CALLS_MAX];
};

/* The number of a call; `count` for "any" and for names that there are not. */
unsigned strike_call(const struct strike *strike, const char *name);
/* Forgets the counts and plans anew; a NULL name plans nothing. */
void strike_set(struct strike *strike, const char *name, uint64_t nth, int code, int lie,
                bool for_ever);
/* The same from NAME:N:CODE[:forever], where an environment variable says so; whether it did. */
bool strike_set_text(struct strike *strike, const char *text);
/* With STRIKE_TRAP in the environment: ends the process when a driver is called at its exit, or in
   a forked child of the process that used it. Before any lock. */
void strike_guard(void);
/* Counts a call; whether it is to be struck. */
bool strike_now(struct strike *strike, unsigned call);

#endif
