/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_device_code.c: code in the device's own language. The same kernel stands in every language
 * that a device of some backend runs; the case takes the first that this one accepts.
 */
#include "case.h"
#include "device_code.h"
#include "device_code_spirv.h"

#include <string.h>

enum { COUNT = 1000, GROUP = 64 };

static const char opencl_text[] =
    "__kernel void vram_check_scale(__global uint *to, __global const uint *from, ulong factor,\n"
    "                               ulong count) {\n"
    "    ulong i = get_global_id(0);\n"
    "    if (i < count) {\n"
    "        to[i] = from[i] * (uint)factor + (uint)i;\n"
    "    }\n"
    "}\n";

static const char metal_text[] =
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

/* The kernel of device_code.* by its format; text without its end. */
static const struct {
    vram_kernel_format format;
    const void *code;
    size_t bytes;
} languages[] = {
    {VRAM_KERNEL_PTX, check_ptx, sizeof check_ptx - 1},
    {VRAM_KERNEL_SPIRV, device_code_spirv, sizeof device_code_spirv},
    {VRAM_KERNEL_OPENCL_C, opencl_text, sizeof opencl_text - 1},
    {VRAM_KERNEL_METAL, metal_text, sizeof metal_text - 1},
};

static bool load(struct check *check, struct check_device *device, vram_kernel **kernel) {
    vram_status status = VRAM_ERR_UNSUPPORTED;
    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        vram_kernel_source source = {.size = sizeof source,
                                     .format = languages[i].format,
                                     .code = languages[i].code,
                                     .code_bytes = languages[i].bytes,
                                     .entry = "vram_check_scale"};
        status = status == VRAM_ERR_UNSUPPORTED
                     ? vram_kernel_create(device->device, &source, kernel)
                     : status;
    }
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "no code of the suite is in the device's language");
    }
    CHECK_OK(check, status);
    return true;
}

/* to = from * factor + i on the device, behind an upload and before a download of the same queue. */
static bool scale(struct check *check) {
    static const size_t bytes[] = {8, 8, 8, 8};
    static uint32_t from[COUNT], to[COUNT];
    struct check_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    vram_addr in, out;

    CHECK_OPEN(check, &device);
    CHECK_TRY(load(check, device, &kernel));
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, sizeof from, &in);
    CHECK_ALLOC(check, device, sizeof to, &out);
    for (uint64_t factor = 1; factor < 100; factor += 33) {
        const uint64_t values[] = {out, in, factor, COUNT};
        const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
        const vram_launch launch = {.size = sizeof launch,
                                    .groups = {(COUNT + GROUP - 1) / GROUP, 1, 1},
                                    .group_size = {GROUP, 1, 1},
                                    .argument_count = 4,
                                    .arguments = arguments,
                                    .argument_bytes = bytes,
                                    .address_mask = 3};
        for (uint32_t i = 0; i < COUNT; i++) {
            from[i] = i * 7919 + (uint32_t)factor;
        }
        memset(to, 0, sizeof to);
        CHECK_OK(check, vram_queue_upload(queue, in, from, sizeof from));
        CHECK_OK(check, vram_queue_launch(queue, kernel, &launch));
        CHECK_OK(check, vram_queue_download(queue, to, out, sizeof to));
        CHECK_WAIT(check, queue);
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK_EQUAL(check, to[i], from[i] * (uint32_t)factor + i);
        }
    }
    vram_kernel_destroy(kernel);
    return true;
}

/* What does not load leaves nothing, whichever part of it is wrong. */
static bool broken(struct check *check) {
    struct check_device *device;
    vram_kernel *kernel, *canary = (vram_kernel *)(uintptr_t)CHECK_CANARY, *refused = canary;

    CHECK_OPEN(check, &device);
    CHECK_TRY(load(check, device, &kernel));
    vram_kernel_destroy(kernel);
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        vram_kernel_source half = {.size = sizeof half,
                                   .format = languages[i].format,
                                   .code = languages[i].code,
                                   .code_bytes = languages[i].bytes / 2,
                                   .entry = "vram_check_scale"};
        vram_kernel_source nobody = half;
        nobody.code_bytes = languages[i].bytes;
        nobody.entry = "vram_check_nobody";
        CHECK_THAT(check, vram_kernel_create(device->device, &half, &refused) != VRAM_OK);
        CHECK_THAT(check, vram_kernel_create(device->device, &nobody, &refused) != VRAM_OK);
    }
    CHECK_THAT(check, refused == canary);
    return true;
}

const struct check_case check_cases_device_code[] = {
    {"device_code.scale", "a kernel in the device's own language computes on its memory", scale},
    {"device_code.broken", "code that is cut off, or lacks its entry, is refused", broken},
    {NULL, NULL, NULL},
};
