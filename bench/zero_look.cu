/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero_look.cu: looks at every byte of a block and then makes it dirty, for zero_handouts. tools/ptx
 * compiles it into generated/zero_look_ptx.h.
 */

/* counts: bytes looked at, and bytes that were not 0. */
extern "C" __global__ void zero_look(unsigned char *block, unsigned long long bytes,
                                     unsigned long long *counts) {
    unsigned long long stride = gridDim.x * (unsigned long long)blockDim.x;
    unsigned long long seen = 0, dirty = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < bytes;
         i += stride) {
        seen++;
        dirty += block[i] != 0;
        block[i] = 0xA5;
    }
    atomicAdd(&counts[0], seen);
    atomicAdd(&counts[1], dirty);
}
