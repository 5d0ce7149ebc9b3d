/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_code.cu: the kernels of `vram bench ring` for devices that run PTX. tools/ptx compiles them
 * into generated/ring_code_ptx.h.
 */
#include "ring_kernel.h"

extern "C" __global__ void vram_ring_sink(vram_ring_control *control, unsigned long long count,
                                          unsigned long long bytes) {
    ring_sink(control);
}

extern "C" __global__ void vram_ring_source(vram_ring_control *control, unsigned long long count,
                                            unsigned long long bytes) {
    ring_source(control, count, (uint32_t)bytes);
}

extern "C" __global__ void vram_ring_echo(vram_ring_control *control, unsigned long long patience,
                                          unsigned long long bytes) {
    ring_echo(control, patience);
}
