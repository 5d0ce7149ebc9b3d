/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_look.h: everything that a program can observe of a world, as text. Every engine's judge: it
 * is taken before a call that may fail, and compared after it.
 *
 * A line is one thing: "name=value". Contents are there as a checksum. Lines that begin with '@'
 * are implementation choices (addresses, kinds of memory, copies made). A call that succeeds after
 * an internal failure may make other choices; after a failed call they must be unchanged too. Lines
 * that begin with '~' are what a call may leave a part of, where errors.md says so. A lost device
 * has no more of those that begin with '#'.
 */
#ifndef TEST_CALL_LOOK_H
#define TEST_CALL_LOOK_H

#include "calls/call_table.h"

struct call_state {
    char text[8192];
    size_t length;
    bool contents; /* are read; not from a lost device */
};

/* Waits for all work first, unless `contents` is false. */
void call_look(struct world *world, bool contents, struct call_state *state);

/* The first line that differs, as "expected ..., found ..."; NULL: none. Lines that begin with one
   of `ignored` do not count. */
const char *call_difference(const struct call_state *expected, const struct call_state *found,
                            const char *ignored);

#endif
