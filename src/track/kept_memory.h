/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept_memory.h: memory for tables that last until the process ends. It is the system's pages: once
 * its last context has ended, a program may replace the host allocator, and may still ask for
 * stacks.
 */
#ifndef VR_KEPT_MEMORY_H
#define VR_KEPT_MEMORY_H

#include <stddef.h>

struct vr_kept; /* one piece of a table's memory */

/* Zeroed memory for a multiple of 8 bytes, many times less than 256 KiB; NULL: memory ran out.
   *latest is NULL at first. Under the table's lock. */
void *vr_kept_alloc(struct vr_kept **latest, size_t bytes);
/* For tests: frees all of a table's memory. */
void vr_kept_free(struct vr_kept **latest);

#endif
