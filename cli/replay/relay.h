/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h: several threads that work in turns, one at a time, in an order they find out as they go.
 */
#ifndef REPLAY_RELAY_H
#define REPLAY_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <vram/base.h>

/* Works until it is another thread's turn, says whose in *thread, and returns true; false: done. */
typedef bool relay_turn_fn(void *user, uint32_t *thread);

/*
 * Runs turns, beginning with thread `first`, until one is the last. One thread alone is the caller.
 * VRAM_ERR_IO when the system gives no threads; nothing was run then.
 */
vram_status relay_run(uint32_t threads, uint32_t first, relay_turn_fn *turn, void *user);

#endif
