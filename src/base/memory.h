/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h: all allocation of host memory. memory.c is the only file that calls malloc. Everything
 * that the library keeps for itself is allocated and counted here, and tests can make it fail.
 */
#ifndef VR_MEMORY_H
#define VR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for `count` objects of `bytes` each. NULL, with VRAM_ERR_HOST_MEMORY recorded for
   `operation`, if it fails or the product overflows. */
void *vr_mem_alloc(size_t count, size_t bytes, const char *operation);

/* Resizes what vr_mem_alloc returned (or NULL) to `count` * `bytes`; new bytes are not zeroed.
   Returns NULL on failure, and the old memory is untouched. */
void *vr_mem_resize(void *memory, size_t count, size_t bytes, const char *operation);

/* A copy of `text`, or NULL. */
char *vr_mem_text(const char *text, const char *operation);

/* NULL is allowed. */
void vr_mem_free(void *memory);

uint64_t vr_mem_live_bytes(void);
uint64_t vr_mem_live_blocks(void);

/* Allocations requested so far; with a plan, since it was set. */
uint64_t vr_mem_calls(void);

/* For tests: makes the n-th allocation from now fail (n >= 1), once or for ever. 0 ends the plan.
   Allocations of all threads count. */
void vr_mem_fail_at(uint64_t nth, bool for_ever);

/* Allocations that the plan has failed. */
uint64_t vr_mem_failed(void);

#endif
