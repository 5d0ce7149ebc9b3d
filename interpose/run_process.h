/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_process.h: this process's part of the page of `vram run`: its slot, and its trace.
 */
#ifndef RUN_PROCESS_H
#define RUN_PROCESS_H

#include "run_attach.h"
#include "run_record.h"

struct vr_trace_writer;

/* The space of process ids that this process is in; 0: unknown. */
uint64_t run_pid_space(void);

/* The slot of this process, taken at the first call; NULL: there is no page, or no free slot. After
   a fork the child takes another one. */
struct run_slot *run_slot_get(void);

/* Whether this process has taken one. */
bool run_slot_has(void);

/* The trace to write to; NULL: none. Every call is paired with run_trace_leave, if it was not
   NULL. */
struct vr_trace_writer *run_trace_enter(void);
void run_trace_leave(void);
/* Closes the trace once nobody writes to it. */
void run_trace_end(void);

/* Calls `begin` before the first event of a pool of the trace, once, and before this returns in any
   thread. */
void run_pool_once(uint32_t pool, void (*begin)(void *user), void *user);
/* The handle of a pool in the trace; another one after the pool has ended there. */
uint64_t run_pool_handle(uint32_t pool);
void run_pool_ended(uint32_t pool);

#endif
