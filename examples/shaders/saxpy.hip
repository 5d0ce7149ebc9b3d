/* SPDX-License-Identifier: Apache-2.0 */
/* saxpy.hip: y = a * x + y for 18_hip_kernel, which says how it is compiled. */
#include <hip/hip_runtime.h>

extern "C" __global__ void saxpy(float *y, const float *x, float a, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = a * x[i] + y[i];
    }
}
