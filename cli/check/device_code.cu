/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_code.cu: the kernel of the conformance suite for devices that run PTX. tools/ptx compiles it
 * into device_code.h, which is what the command is built with: no build needs a CUDA toolkit.
 */

/* to[i] = from[i] * factor + i, for whole groups. */
extern "C" __global__ void vram_check_scale(unsigned *to, const unsigned *from,
                                            unsigned long long factor, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = from[i] * (unsigned)factor + (unsigned)i;
    }
}
