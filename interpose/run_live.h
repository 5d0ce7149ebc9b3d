/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_live.h: the live blocks of this process, found by space and value.
 *
 * One lock guards the table; it is held for some tens of instructions. A fork empties the table in
 * the child (run_record.h (3)).
 */
#ifndef RUN_LIVE_H
#define RUN_LIVE_H

#include "run_record.h"

/* Enters a block. False: memory ran out. *replaced receives a block of the same value that was
   still there, whose free was not seen; its bytes are 0 if there was none. */
bool run_live_add(const struct run_block *block, struct run_block *replaced);
/* Takes a block out; false: there is none. */
bool run_live_take(enum run_space space, uint64_t value, struct run_block *block);
bool run_live_look(enum run_space space, uint64_t value, struct run_block *block);
/* Takes out one block that `which` selects; false: there is none. *at is where to go on: 0 first. */
bool run_live_take_any(uint64_t *at, bool (*which)(const struct run_block *block, void *user),
                       void *user, struct run_block *block);
void run_live_clear(void);

#endif
