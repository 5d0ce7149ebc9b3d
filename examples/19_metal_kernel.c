/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 19_metal_kernel: y = a * x + y on a Metal device, with memory from a pool. Metal compiles the
 * text below. An address reaches the kernel as the MTLBuffer it lies in, with its offset, at the
 * index of the argument. Not run on hardware yet.
 */
#include "saxpy.h"

static const char text[] =
    "#include <metal_stdlib>\n"
    "kernel void saxpy(device float *y [[buffer(0)]], device const float *x [[buffer(1)]],\n"
    "                  constant float &a [[buffer(2)]], constant uint &count [[buffer(3)]],\n"
    "                  uint i [[thread_position_in_grid]]) {\n"
    "    if (i < count) {\n"
    "        y[i] = a * x[i] + y[i];\n"
    "    }\n"
    "}\n";

int main(void) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_METAL,
                                       .code = text,
                                       .code_bytes = sizeof text - 1,
                                       .entry = "saxpy"};
    return saxpy("metal", &source);
}
