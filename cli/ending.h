/* SPDX-License-Identifier: Apache-2.0 */
/* ending.h: verbs that run until SIGINT or SIGTERM. */
#ifndef ENDING_H
#define ENDING_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Blocks both signals, in this thread and those that it starts from now on. */
void ending_begin(sigset_t *ending);

/* Waits for one of them, at most so long. True: it came. */
bool ending_wait(const sigset_t *ending, uint64_t ns);

#endif
