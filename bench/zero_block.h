/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero_block.h: looking at every byte of a block on the device, and making it dirty, for
 * zero_handouts and planted_bugs: zero_look.cu on CUDA, the same in C elsewhere.
 */
#ifndef ZERO_BLOCK_H
#define ZERO_BLOCK_H

#include "generated/zero_look_ptx.h"

#include <string.h>
#include <vram/vram.h>

enum { ZERO_GROUP = 256, ZERO_GROUPS = 64 };

/* What the kernel adds up. */
struct zero_counts {
    uint64_t seen;  /* bytes looked at */
    uint64_t dirty; /* of them, not 0 */
};

static inline void zero_look_group(const vram_kernel_call *call) {
    unsigned char *block = *(unsigned char *const *)call->arguments[0];
    uint64_t bytes = *(const uint64_t *)call->arguments[1];
    struct zero_counts *counts = *(struct zero_counts *const *)call->arguments[2];
    uint64_t dirty = 0;
    if (call->group[0] != 0) { /* the first group does it all */
        return;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        dirty += block[i] != 0;
    }
    memset(block, 0xA5, bytes);
    __atomic_fetch_add(&counts->seen, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->dirty, dirty, __ATOMIC_RELAXED);
}

static inline vram_status zero_look_create(vram_device *device, const char *backend,
                                           vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source, .entry = "zero_look"};
    if (strcmp(backend, "cuda") == 0) {
        source.format = VRAM_KERNEL_PTX;
        source.code = zero_look_ptx;
        source.code_bytes = sizeof zero_look_ptx - 1;
    } else {
        source.format = VRAM_KERNEL_C;
        source.code = (const void *)(uintptr_t)zero_look_group;
    }
    return vram_kernel_create(device, &source, kernel);
}

/* Submits it for `bytes` at `block`; `counts` is device memory too. */
static inline vram_status zero_look_launch(vram_queue *queue, vram_kernel *kernel, vram_addr block,
                                           uint64_t bytes, vram_addr counts) {
    uint64_t groups = (bytes + ZERO_GROUP - 1) / ZERO_GROUP;
    vram_launch call = {.size = sizeof call,
                        .groups = {groups < ZERO_GROUPS ? (uint32_t)groups : ZERO_GROUPS, 1, 1},
                        .group_size = {ZERO_GROUP, 1, 1},
                        .argument_count = 3,
                        .arguments = (const void *[]){&block, &bytes, &counts},
                        .argument_bytes = (size_t[]){sizeof block, sizeof bytes, sizeof counts},
                        .address_mask = 1 << 0 | 1 << 2};
    return vram_queue_launch(queue, kernel, &call);
}

#endif
