/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.h: names the case of `vram check` in which a driver ended the process.
 *
 * A driver may divide by zero, emit an instruction that the processor lacks, or call abort or exit.
 * Nothing can be done about it then but to say where it happened.
 */
#ifndef CRASH_H
#define CRASH_H

#include <stdint.h>

/* "SIGSEGV"; NULL for a signal that no driver is known to raise. Async-signal-safe. */
const char *crash_signal_name(int number);

/*
 * From now on, a signal that ends the process during a case, or a call of exit, prints one line on
 * stderr with the case. A signal then takes the action that it had before; an exit has code 1.
 */
void crash_watch(void);

/* The case that runs from now on, and where; and that it has returned. */
void crash_case_begin(const char *name, const char *backend, uint32_t device);
void crash_case_end(void);

#endif
