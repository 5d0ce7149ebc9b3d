/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_load.h: loads the kernel of 21_ring: PTX of shaders/ring_double.cu where the device takes
 * that, else shaders/ring_double.h as a C function.
 */
#ifndef RING_LOAD_H
#define RING_LOAD_H

#include "shaders/generated/ring_double_ptx.h"
#include "shaders/ring_double.h"

#include <vram/vram.h>

static void ring_double_kernel(const vram_kernel_call *call) {
    ring_double(*(vram_ring_control *const *)call->arguments[0]);
}

static vram_status ring_load(vram_device *device, vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = ring_double_ptx,
                                 .code_bytes = sizeof ring_double_ptx - 1,
                                 .entry = "ring_double_kernel"};
    vram_status status = vram_kernel_create(device, &source, kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        source.format = VRAM_KERNEL_C;
        source.code = (const void *)(uintptr_t)ring_double_kernel;
        source.code_bytes = 0;
        status = vram_kernel_create(device, &source, kernel);
    }
    return status;
}

#endif
