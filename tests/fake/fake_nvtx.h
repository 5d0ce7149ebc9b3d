/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvtx.h: a tool that NVTX_INJECTION64_PATH can name: it implements the memory extension as
 * compute-sanitizer does, keeps what it is told, and counts calls that no correct program makes.
 *
 *   FAKE_NVTX=none    it has the entry point, and no function of the extension
 *   FAKE_NVTX=refuse  its entry point returns 0
 */
#ifndef FAKE_NVTX_H
#define FAKE_NVTX_H

#include <stdbool.h>
#include <stdint.h>

struct fake_nvtx_control {
    /* The size of the region that starts at `addr`; 0: none is registered there. */
    uint64_t (*region)(uint64_t addr);
    /* Its name; "": none. */
    const char *(*name)(uint64_t addr);
    /* Whether every byte of that range is in one registered region, as for an access. */
    bool (*accessible)(uint64_t addr, uint64_t bytes);
    /* Heaps and regions that are registered now, and calls so far. */
    uint64_t (*heaps)(void);
    uint64_t (*regions)(void);
    uint64_t (*calls)(void);
    /* Calls that broke a rule: of unknown heaps or regions, out of bounds, overlapping. */
    uint64_t (*breaches)(void);
};

#endif
