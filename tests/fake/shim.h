/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h: a shared object that stands between libvram and a real driver, and makes calls fail.
 *
 * libvram loads it as its driver (VRAM_CUDA_LIBRARY, VRAM_HIP_LIBRARY). Every entry point that the
 * library uses is forwarded to the real one, but for those that the plan strikes: their code is
 * answered and the real driver is not called, so that nothing on the machine is harmed.
 *
 * Environment, read at the first call:
 *   SHIM_DRIVER=PATH                    the real driver; else its usual name
 *   SHIM_FAIL=NAME:N:CODE[:forever]     the n-th call of NAME ("any": of all) answers CODE
 *   SHIM_REPORT=PATH                    the names of calls that were struck are appended here
 *
 * A program that plans again and again takes the control table: dlsym shim_control. One that
 * wants to know what the real driver takes: dlsym shim_spent (bench/driver_spent.h).
 */
#ifndef FAKE_SHIM_H
#define FAKE_SHIM_H

#include "backend/cuda/cuda_api.h"

#define FAKE_API       __attribute__((visibility("default")))
#define SHIM_NO_SYMBOL 500 /* what a call answers that the real driver does not have */

struct shim_control {
    void (*refuse)(const char *name, uint64_t nth, vr_cu_result code, bool for_ever);
    /* Beside the plan: every call of `name` answers `code` too, for four names at most; NULL ends
       all that. Not counted as struck. */
    void (*always)(const char *name, vr_cu_result code);
    uint64_t (*struck)(void);
    const char *(*last_call)(void);
    uint64_t (*calls)(const char *name);
};

FAKE_API const struct shim_control *shim_control(void);

/* Nanoseconds that the real driver took for calls of `name` so far; 0 for a name that it does not
   know. *calls, if not NULL: how many. */
FAKE_API uint64_t shim_spent(const char *name, uint64_t *calls);

/* ---------------------------------- what tools/driver-table writes, and what it calls */

struct shim_entry {
    const char *name;
    const char *symbols[2]; /* newest first; the second NULL when there is none */
};

extern const char *const shim_driver; /* "cuda" or "hip" */
extern const struct shim_entry shim_entries[];
extern const unsigned shim_entry_count;

/* Whether the call is struck; then *answer is what it answers. */
bool shim_strike(unsigned entry, vr_cu_result *answer);
/* The real driver's symbol, NULL when it has none. */
void *shim_real(unsigned entry, unsigned symbol);
/* The time, and adds what the real driver took since `begin` to an entry. */
uint64_t shim_now(void);
void shim_note(unsigned entry, uint64_t begin);

#endif
