/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 15_cuda_kernel: y = a * x + y on a CUDA device, with memory from a pool. The kernel is
 * shaders/saxpy.cu, compiled to PTX ahead of time, which the driver compiles for the device it
 * finds. Addresses are device pointers as they are.
 */
#include "saxpy.h"
#include "shaders/generated/saxpy_ptx.h"

int main(void) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_PTX,
                                       .code = saxpy_ptx,
                                       .code_bytes = sizeof saxpy_ptx - 1,
                                       .entry = "saxpy"};
    return saxpy("cuda", &source);
}
