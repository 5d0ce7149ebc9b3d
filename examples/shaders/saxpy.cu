/* SPDX-License-Identifier: Apache-2.0 */
/* saxpy.cu: y = a * x + y for 15_cuda_kernel. tools/ptx compiles it into generated/saxpy_ptx.h. */
extern "C" __global__ void saxpy(float *y, const float *x, float a, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = a * x[i] + y[i];
    }
}
