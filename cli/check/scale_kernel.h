/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale_kernel.h: one kernel in every language that a device of some backend runs. It has the
 * arguments to, from, factor and count, and sets to[i] = from[i] * factor + i for each i below
 * count; words of 32 bits.
 */
#ifndef CHECK_SCALE_KERNEL_H
#define CHECK_SCALE_KERNEL_H

#include "generated/device_code_ptx.h"
#include "generated/device_code_spirv.h"

#include "vram/vram.h"

static const char scale_opencl[] =
    "__kernel void vram_check_scale(__global uint *to, __global const uint *from, ulong factor,\n"
    "                               ulong count) {\n"
    "    ulong i = get_global_id(0);\n"
    "    if (i < count) {\n"
    "        to[i] = from[i] * (uint)factor + (uint)i;\n"
    "    }\n"
    "}\n";

static const char scale_metal[] =
    "#include <metal_stdlib>\n"
    "kernel void vram_check_scale(device uint *to [[buffer(0)]],\n"
    "                             device const uint *from [[buffer(1)]],\n"
    "                             constant ulong &factor [[buffer(2)]],\n"
    "                             constant ulong &count [[buffer(3)]],\n"
    "                             uint i [[thread_position_in_grid]]) {\n"
    "    if (i < count) {\n"
    "        to[i] = from[i] * uint(factor) + i;\n"
    "    }\n"
    "}\n";

/* Text without its end. */
static const struct {
    vram_kernel_format format;
    const void *code;
    size_t bytes;
} scale_languages[] = {
    {VRAM_KERNEL_PTX, device_code_ptx, sizeof device_code_ptx - 1},
    {VRAM_KERNEL_SPIRV, device_code_spirv, sizeof device_code_spirv},
    {VRAM_KERNEL_OPENCL_C, scale_opencl, sizeof scale_opencl - 1},
    {VRAM_KERNEL_METAL, scale_metal, sizeof scale_metal - 1},
};
enum { SCALE_LANGUAGES = sizeof scale_languages / sizeof scale_languages[0] };

/* Loads it in the first language that the device takes; `in_c` is its form in C, NULL: none.
   VRAM_ERR_UNSUPPORTED when the device takes none of them. */
static inline vram_status scale_kernel_create(vram_device *device, vram_kernel_fn *in_c,
                                              vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)in_c,
                                 .entry = "vram_check_scale"};
    vram_status status = in_c ? vram_kernel_create(device, &source, kernel) : VRAM_ERR_UNSUPPORTED;
    for (int i = 0; i < SCALE_LANGUAGES && status == VRAM_ERR_UNSUPPORTED; i++) {
        source.format = scale_languages[i].format;
        source.code = scale_languages[i].code;
        source.code_bytes = scale_languages[i].bytes;
        status = vram_kernel_create(device, &source, kernel);
    }
    return status;
}

#endif
