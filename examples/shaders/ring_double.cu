/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_double.cu: a kernel that stays on the GPU, for 21_ring. One thread is enough for what it does: a real one would
 * hand the messages to its block. tools/ptx compiles it into generated/ring_double_ptx.h.
 */
#include "ring_double.h"

extern "C" __global__ void ring_double_kernel(vram_ring_control *control) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        ring_double(control);
    }
}
