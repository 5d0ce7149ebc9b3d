/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx.h: tells a tool which parts of a segment are blocks in use, through the memory extension of
 * NVTX (nvToolsExtMem.h of NVIDIA, version 0x0102). compute-sanitizer then finds an access past the
 * end of a block, to a freed block, or to memory that nobody has written since the block was
 * handed out.
 *
 *  (1) A tool asks for it by the variable NVTX_INJECTION64_PATH, which names its library. Without
 *      the variable, in a set-id program, and with a tool that does not implement the calls, every
 *      function here does nothing.
 *  (2) The tool's functions may take locks and call the driver: no lock of the library is held.
 *  (3) The tool is loaded once and stays for the life of the process.
 */
#ifndef VR_NVTX_H
#define VR_NVTX_H

#include "vram/base.h"

/* Whether a tool wants to know. The first call loads the tool. No lock held. */
bool vr_nvtx_wanted(void);

/* `bytes` of the driver at `addr` are from now on accessible only where a block is. Returns what
   the other calls take; 0: the tool does not watch that memory. */
uint64_t vr_nvtx_heap_begin(uint64_t addr, uint64_t bytes);
/* Before the memory is returned to the driver; also ends its blocks. 0 is accepted. */
void vr_nvtx_heap_end(uint64_t heap);

/* A block in that heap; `name` may be NULL. Its contents are undefined. */
void vr_nvtx_block_begin(uint64_t heap, uint64_t addr, uint64_t bytes, const char *name);
void vr_nvtx_block_resize(uint64_t addr, uint64_t bytes);
void vr_nvtx_block_end(uint64_t addr);

#endif
