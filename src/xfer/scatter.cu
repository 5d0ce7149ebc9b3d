/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter.cu: many small copies as one launch, for devices that run PTX. tools/ptx compiles it into
 * generated/scatter_ptx.h, which is what the library is built with: no build needs a CUDA toolkit.
 */

struct row {
    unsigned long long to, from, bytes;
};

/* A group copies one row: in steps of 16 bytes where everything is a multiple of that, else of one. */
extern "C" __global__ void vram_scatter(const row *rows, unsigned long long count) {
    for (unsigned long long i = blockIdx.x; i < count; i += gridDim.x) {
        const row one = rows[i];
        if (((one.to | one.from | one.bytes) & 15) == 0) {
            for (unsigned long long at = threadIdx.x * 16ull; at < one.bytes;
                 at += blockDim.x * 16ull) {
                *(uint4 *)(one.to + at) = *(const uint4 *)(one.from + at);
            }
        } else {
            for (unsigned long long at = threadIdx.x; at < one.bytes; at += blockDim.x) {
                *(unsigned char *)(one.to + at) = *(const unsigned char *)(one.from + at);
            }
        }
    }
}
