/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h: the one door to host memory. memory.c is the only file that calls malloc; everything
 * the library keeps for itself passes here, is counted, and can be made to fail for tests.
 */
#ifndef VR_MEMORY_H
#define VR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for `count` objects of `bytes` each; NULL, with VRAM_ERR_HOST_MEMORY recorded for
   `operation`, when it fails or the product overflows. */
void *vr_mem_alloc(size_t count, size_t bytes, const char *operation);

/* Resizes what vr_mem_alloc gave (or NULL) to `count` * `bytes`; new bytes are not zeroed. On
   failure the old memory is untouched and NULL returned. */
void *vr_mem_resize(void *memory, size_t count, size_t bytes, const char *operation);

/* A copy of `text`, or NULL. */
char *vr_mem_text(const char *text, const char *operation);

/* NULL is allowed. */
void vr_mem_free(void *memory);

uint64_t vr_mem_live_bytes(void);
uint64_t vr_mem_live_blocks(void);

/* How many allocations were asked for so far; with a plan, since it was set. */
uint64_t vr_mem_calls(void);

/* Tests: makes the n-th allocation from now fail (n >= 1), once or for ever. 0 ends the plan.
   Allocations of all threads count. */
void vr_mem_fail_at(uint64_t nth, bool for_ever);

/* How many allocations the plan has failed. */
uint64_t vr_mem_failed(void);

#endif
