/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 14_host_kernel: y = a * x + y on the host, with memory from a pool. The kernel is a C function
 * that is called once for each group and loops over its items. Addresses are pointers.
 */
#include "saxpy.h"

static void saxpy_group(const vram_kernel_call *call) {
    float *y = *(float *const *)call->arguments[0];
    const float *x = *(const float *const *)call->arguments[1];
    float a = *(const float *)call->arguments[2];
    uint32_t count = *(const uint32_t *)call->arguments[3];
    for (uint32_t item = 0; item < call->group_size[0]; item++) {
        uint32_t i = call->group[0] * call->group_size[0] + item;
        if (i < count) {
            y[i] = a * x[i] + y[i];
        }
    }
}

int main(void) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_C,
                                       .code = (const void *)(uintptr_t)saxpy_group,
                                       .entry = "saxpy"};
    return saxpy("host", &source);
}
