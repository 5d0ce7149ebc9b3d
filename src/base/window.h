/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h: addresses for memory that has none of its own.
 *
 * Drivers that deal in objects (cl_mem, VkBuffer, MTLBuffer) give no addresses, and libvram needs
 * one for every byte, unique in the process. A window is a piece of the process's address space,
 * without memory and without access, that stands for one object: nothing else gets these addresses
 * while it is open, and who dereferences one is stopped at once. The object is found again by any
 * address inside, without a lock.
 */
#ifndef VR_WINDOW_H
#define VR_WINDOW_H

#include "vram/device.h"

/* Reserves `bytes` addresses on a multiple of `align` (a power of two, at least the page; bytes a
   multiple of the page) for `object`, which is not NULL. Otherwise host memory or addresses ran
   out, recorded for `operation`. */
vram_status vr_window_open(uint64_t bytes, uint64_t align, void *object, const char *operation,
                           vram_addr *addr);

/* Gives the addresses back; `addr` and `bytes` are those of vr_window_open. Look-ups under way may
   still answer with the object: its owner keeps it in memory that stays. */
void vr_window_close(vram_addr addr, uint64_t bytes);

/* The object whose window `addr` lies in, and how far into it; NULL when there is none.
   Lock-free. */
void *vr_window_find(vram_addr addr, uint64_t *offset);

#endif
