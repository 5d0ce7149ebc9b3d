/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.h: starting another program. */
#ifndef VR_SPAWN_H
#define VR_SPAWN_H

#include "vram/base.h"

/*
 * Runs a program, found by PATH if its name has no slash, and waits for its end, until `deadline`
 * (vr_clock_now): then it is killed. It has no terminal, no input and no output, its signals are as
 * a shell would set them, and of the environment it gets what finding programs and libraries needs.
 * *code is its exit code; -1: a signal ended it, or the system does not tell. VRAM_ERR_UNSUPPORTED
 * if it cannot be started, or this process must not trust its environment (setuid).
 */
vram_status vr_os_spawn(const char *const *arguments, uint64_t deadline, int *code);

#endif
