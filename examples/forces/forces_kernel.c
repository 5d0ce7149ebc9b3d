/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces_kernel.c: the kernel, for each backend in its own language. Host and simulated devices get
 * C, CUDA gets PTX, Vulkan SPIR-V, OpenCL and Metal text; for HIP the program brings a code object.
 */
#include "forces.h"
#include "generated/forces_ptx.h"
#include "generated/forces_spirv.h"

#include <stdatomic.h>
#include <string.h>

/* ------------------------------------------------------------------------ C */

#define FORCES_CODE(...) __VA_ARGS__
#define FORCES_FN        static
#define FORCES_GLOBAL
#define FORCES_ADD(p, v) add(p, v)

/* Groups may run on several threads at once. */
static void add(unsigned *number, unsigned value) {
    atomic_fetch_add_explicit((_Atomic unsigned *)number, value, memory_order_relaxed);
}

#include "forces_body.h"
#undef FORCES_CODE

static void *pointer_of(const vram_kernel_call *call, int index) {
    return *(void *const *)call->arguments[index];
}

static unsigned number_of(const vram_kernel_call *call, int index) {
    return *(const unsigned *)call->arguments[index];
}

static void forces_group(const vram_kernel_call *call) {
    unsigned first = call->group[0] * call->group_size[0], count = number_of(call, 7);
    for (unsigned i = first; i < first + call->group_size[0] && i < count; i++) {
        forces_stage(i, pointer_of(call, 0), pointer_of(call, 1), pointer_of(call, 2),
                     pointer_of(call, 3), pointer_of(call, 4), pointer_of(call, 5),
                     pointer_of(call, 6), number_of(call, 8), number_of(call, 9));
    }
}

/* -------------------------------------------------------------------- texts */

#define FORCES_CODE(...) #__VA_ARGS__

static const char opencl_text[] =
    "#define FORCES_FN static\n"
    "#define FORCES_GLOBAL __global\n"
    "#define FORCES_ADD(p, v) atomic_add(p, v)\n"
#include "forces_body.h"
    "\n__kernel void forces(__global int *positions, __global int *velocities,\n"
    "                     __global int *forces, __global const uint *offsets,\n"
    "                     __global const uint *edges, __global uint *cells,\n"
    "                     __global uint *result, uint count, uint bits, uint stage) {\n"
    "    uint i = get_global_id(0);\n"
    "    if (i < count) {\n"
    "        forces_stage(i, positions, velocities, forces, offsets, edges, cells, result, bits,\n"
    "                     stage);\n"
    "    }\n"
    "}\n";

/* Not run on hardware yet. */
static const char metal_text[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "#define FORCES_FN static\n"
    "#define FORCES_GLOBAL device\n"
    "#define FORCES_ADD(p, v) \\\n"
    "    atomic_fetch_add_explicit((device atomic_uint *)(p), v, memory_order_relaxed)\n"
#include "forces_body.h"
    "\nkernel void forces(device int *positions [[buffer(0)]],\n"
    "                   device int *velocities [[buffer(1)]],\n"
    "                   device int *forces [[buffer(2)]],\n"
    "                   device const uint *offsets [[buffer(3)]],\n"
    "                   device const uint *edges [[buffer(4)]],\n"
    "                   device uint *cells [[buffer(5)]],\n"
    "                   device uint *result [[buffer(6)]],\n"
    "                   constant uint &count [[buffer(7)]], constant uint &bits [[buffer(8)]],\n"
    "                   constant uint &stage [[buffer(9)]],\n"
    "                   uint i [[thread_position_in_grid]]) {\n"
    "    if (i < count) {\n"
    "        forces_stage(i, positions, velocities, forces, offsets, edges, cells, result, bits,\n"
    "                     stage);\n"
    "    }\n"
    "}\n";

/* ------------------------------------------------------------------- choice */

vram_status forces_source(const char *backend, const void *code, size_t code_bytes,
                          vram_kernel_source *source) {
    const void *function = (const void *)(uintptr_t)forces_group;
    const struct {
        const char *backend;
        vram_kernel_format format;
        const void *code;
        size_t code_bytes;
        const char *entry;
    } rows[] = {
        {"host", VRAM_KERNEL_C, function, 0, "forces"},
        {"sim", VRAM_KERNEL_C, function, 0, "forces"},
        {"cuda", VRAM_KERNEL_PTX, forces_ptx, sizeof forces_ptx - 1, "forces"},
        {"hip", VRAM_KERNEL_HSACO, code, code_bytes, "forces"},
        {"opencl", VRAM_KERNEL_OPENCL_C, opencl_text, sizeof opencl_text - 1, "forces"},
        {"vulkan", VRAM_KERNEL_SPIRV, forces_spirv, sizeof forces_spirv, "main"},
        {"metal", VRAM_KERNEL_METAL, metal_text, sizeof metal_text - 1, "forces"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].backend, backend) == 0 && rows[i].code) {
            *source = (vram_kernel_source){.size = sizeof *source,
                                           .format = rows[i].format,
                                           .code = rows[i].code,
                                           .code_bytes = rows[i].code_bytes,
                                           .entry = rows[i].entry};
            return VRAM_OK;
        }
    }
    return VRAM_ERR_UNSUPPORTED;
}
