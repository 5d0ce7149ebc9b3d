/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h: addresses for memory that has none of its own.
 *
 * Some drivers use objects (cl_mem, VkBuffer, MTLBuffer) and have no addresses, but libvram needs
 * one for every byte, unique in the process. A window is a part of the process's address space,
 * without memory and without access, that represents one object. Nothing else gets these addresses
 * while it is open, and dereferencing one faults at once. The object is found by any address inside
 * the window, without a lock.
 */
#ifndef VR_WINDOW_H
#define VR_WINDOW_H

#include "vram/device.h"

/* Reserves `bytes` addresses on a multiple of `align` (a power of two, at least the page; bytes a
   multiple of the page) for `object`, which is not NULL. Fails if host memory or addresses ran out,
   recorded for `operation`. */
vram_status vr_window_open(uint64_t bytes, uint64_t align, void *object, const char *operation,
                           vram_addr *addr);

/* Releases the addresses; `addr` and `bytes` are those of vr_window_open. Concurrent lookups may
   still return the object, so it must be in type-stable memory. */
void vr_window_close(vram_addr addr, uint64_t bytes);

/* The object whose window contains `addr`, and the offset in it; NULL if there is none.
   Lock-free. */
void *vr_window_find(vram_addr addr, uint64_t *offset);

#endif
