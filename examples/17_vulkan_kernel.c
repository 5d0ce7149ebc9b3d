/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 17_vulkan_kernel: y = a * x + y on a Vulkan device, with memory from a pool. The shader is
 * shaders/saxpy.comp. It gets memory by address, and all arguments arrive in its push constants, in
 * their order.
 */
#include "saxpy.h"
#include "shaders/generated/saxpy_spirv.h"

int main(void) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_SPIRV,
                                       .code = saxpy_spirv,
                                       .code_bytes = sizeof saxpy_spirv,
                                       .entry = "main"};
    return saxpy("vulkan", &source);
}
