/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16_opencl_kernel: y = a * x + y on an OpenCL device, with memory from a pool. The device's driver
 * compiles the text below. Addresses reach the kernel as pointers where the device has shared
 * memory, else as the cl_mem of the block.
 */
#include "saxpy.h"

static const char text[] =
    "__kernel void saxpy(__global float *y, __global const float *x, float a, uint count) {\n"
    "    size_t i = get_global_id(0);\n"
    "    if (i < count) {\n"
    "        y[i] = a * x[i] + y[i];\n"
    "    }\n"
    "}\n";

int main(void) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_OPENCL_C,
                                       .code = text,
                                       .code_bytes = sizeof text - 1,
                                       .entry = "saxpy"};
    return saxpy("opencl", &source);
}
