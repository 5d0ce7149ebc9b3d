/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_code.cu: the kernels of the conformance suite for devices that run PTX. tools/ptx compiles them
 * into generated/device_code_ptx.h, which is what the command is built with: no build needs a CUDA toolkit.
 */

/* to[i] = from[i] * factor + i, for whole groups. */
extern "C" __global__ void vram_check_scale(unsigned *to, const unsigned *from,
                                            unsigned long long factor, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = from[i] * (unsigned)factor + (unsigned)i;
    }
}

/* Work that ends when the host says so: it waits for the word, and for `limit` ns at most. */
extern "C" __global__ void vram_check_gate(volatile unsigned *word, unsigned long long limit) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start)::"memory");
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    } while (*word == 0 && now - start < limit);
}
