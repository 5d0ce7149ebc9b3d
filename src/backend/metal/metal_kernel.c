/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_kernel.c: kernels in Metal's shading language, the program's and the built-in ones.
 *
 * Argument i of a launch is buffer i of the kernel: an address becomes its buffer and an offset
 * (`device T *x [[buffer(0)]]`), a value is copied (`constant T &n [[buffer(1)]]`).
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* vr_kernel.impl */
struct metal_kernel {
    vr_mtl_id pipeline;      /* retained */
    unsigned long group_max; /* largest number of items of a group */
};

static const char builtin_source[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "kernel void vram_copy_bytes(device const uchar *from [[buffer(0)]],\n"
    "                            device uchar *to [[buffer(1)]],\n"
    "                            constant ulong &bytes [[buffer(2)]],\n"
    "                            uint item [[thread_position_in_grid]],\n"
    "                            uint items [[threads_per_grid]]) {\n"
    "    for (ulong i = item; i < bytes; i += items) { to[i] = from[i]; }\n"
    "}\n"
    "kernel void vram_fill_bytes(device uchar *to [[buffer(0)]],\n"
    "                            constant uint2 &what [[buffer(1)]],\n"
    "                            constant ulong &bytes [[buffer(2)]],\n"
    "                            uint item [[thread_position_in_grid]],\n"
    "                            uint items [[threads_per_grid]]) {\n"
    "    for (ulong i = item; i < bytes; i += items) {\n"
    "        to[i] = uchar(what.x >> (8 * (i % what.y)));\n"
    "    }\n"
    "}\n";

static const char *const builtin_names[VR_METAL_BUILTIN_COUNT] = {"vram_copy_bytes",
                                                                  "vram_fill_bytes"};

/* ------------------------------------------------------------------ loading */

static vr_mtl_id string_make(const struct vr_metal_api *api, const char *text) {
    vr_mtl_id class = api->objc_getClass("NSString");
    return class ? VR_SEND(api, string_with, class, text) : NULL; /* autoreleased */
}

/* Compiles text. Errors are the program's mistake; Metal's message says what is wrong. */
static vram_status library_make(struct vr_metal_device *metal, const char *text,
                                vr_mtl_id *library) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id error = NULL, string = string_make(api, text);
    if (!string) {
        return vr_metal_nil(VRAM_ERR_HOST_MEMORY, "stringWithUTF8String:");
    }
    *library = VR_SEND(api, library_create, metal->device, string, NULL, &error);
    return *library ? VRAM_OK
                    : vr_metal_error(api, error, VRAM_ERR_INVALID,
                                     "newLibraryWithSource:options:error:");
}

static vram_status pipeline_make(struct vr_metal_device *metal, vr_mtl_id library,
                                 const char *entry, vr_mtl_id *pipeline) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id error = NULL, name = string_make(api, entry);
    vr_mtl_id function = name ? VR_SEND(api, function_create, library, name) : NULL;
    if (!function) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "newFunctionWithName:", 0,
                            "the code has no kernel that is called \"%s\"", entry);
    }
    *pipeline = VR_SEND(api, pipeline_create, metal->device, function, &error);
    VR_SEND0(api, release, function);
    return *pipeline ? VRAM_OK
                     : vr_metal_error(api, error, VRAM_ERR_INVALID,
                                      "newComputePipelineStateWithFunction:error:");
}

vram_status vr_metal_builtins_make(struct vr_metal_device *metal) {
    vr_mtl_id library = NULL;
    vram_status status = library_make(metal, builtin_source, &library);
    if (status != VRAM_OK) {
        return status;
    }
    for (int i = 0; i < VR_METAL_BUILTIN_COUNT && status == VRAM_OK; i++) {
        status = pipeline_make(metal, library, builtin_names[i], &metal->builtins[i]);
    }
    VR_SEND0(metal->api, release, library);
    if (status != VRAM_OK) {
        vr_metal_builtins_end(metal);
    }
    return status;
}

void vr_metal_builtins_end(struct vr_metal_device *metal) {
    for (int i = 0; i < VR_METAL_BUILTIN_COUNT; i++) {
        if (metal->builtins[i]) {
            VR_SEND0(metal->api, release, metal->builtins[i]);
        }
        metal->builtins[i] = NULL;
    }
}

static vram_status text_load(struct vr_metal_device *metal, const char *text, const char *entry,
                             struct metal_kernel *kernel) {
    vr_mtl_id library = NULL;
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = library_make(metal, text, &library);
    if (status == VRAM_OK) {
        status = pipeline_make(metal, library, entry, &kernel->pipeline);
        VR_SEND0(metal->api, release, library);
    }
    if (status == VRAM_OK) {
        kernel->group_max = VR_SEND0(metal->api, max_threads, kernel->pipeline);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

/* Metal reads text up to a final 0, which the program's text need not have. */
static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **loaded) {
    static const char operation[] = "metal_kernel_load";
    if (source->format != VRAM_KERNEL_METAL) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "metal", operation, 0,
                            "the device runs kernels in Metal's shading language only");
    }
    struct metal_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, operation);
    char *text = kernel ? vr_mem_alloc(source->code_bytes + 1, 1, operation) : NULL;
    if (!text) {
        vr_mem_free(kernel);
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(text, source->code, source->code_bytes);
    vram_status status = text_load(device->impl, text, source->entry, kernel);
    vr_mem_free(text);
    if (status != VRAM_OK) {
        vr_mem_free(kernel);
        return status;
    }
    *loaded = kernel;
    return VRAM_OK;
}

static void kernel_unload(struct vr_device *device, void *loaded) {
    struct vr_metal_device *metal = device->impl;
    struct metal_kernel *kernel = loaded;
    VR_SEND0(metal->api, release, kernel->pipeline);
    vr_mem_free(kernel);
}

/* ---------------------------------------------------------------- launching */

static bool argument_is_address(const struct vram_launch *launch, uint32_t index) {
    return launch->address_mask >> index & 1;
}

/* The buffers behind all addresses. Pinned memory is given by its address alone. */
static vram_status locations_find(struct vr_metal_device *metal, const struct vram_launch *launch,
                                  struct vr_metal_location locations[32]) {
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        if (argument_is_address(launch, i)) {
            struct vr_native native;
            memcpy(&native, launch->arguments[i], sizeof native);
            locations[i] =
                (struct vr_metal_location){.buffer = native.handle, .offset = native.offset};
            if (!native.handle &&
                !vr_metal_location_find(metal, native.device_address.value, &locations[i])) {
                return vr_error_set(VRAM_ERR_INVALID, "metal", "launch", 0,
                                    "argument %u is no memory of Metal's", i);
            }
        }
    }
    return VRAM_OK;
}

static void launch_encode(const struct vr_metal_recording *recording, vr_mtl_id encoder,
                          const struct metal_kernel *kernel, const struct vram_launch *launch,
                          const struct vr_metal_location locations[32]) {
    const struct vr_metal_api *api = recording->device->api;
    VR_SEND(api, set_pipeline, encoder, kernel->pipeline);
    for (unsigned long i = 0; i < launch->argument_count; i++) {
        if (argument_is_address(launch, (uint32_t)i)) {
            VR_SEND(api, set_buffer, encoder, locations[i].buffer, locations[i].offset, i);
        } else {
            VR_SEND(api, set_bytes, encoder, launch->arguments[i], launch->argument_bytes[i], i);
        }
    }
    struct vr_mtl_size groups = {launch->groups[0], launch->groups[1], launch->groups[2]};
    struct vr_mtl_size size = {launch->group_size[0], launch->group_size[1], launch->group_size[2]};
    VR_SEND(api, dispatch, encoder, groups, size);
    VR_SEND0(api, end_encoding, encoder);
}

static vram_status group_check(const struct metal_kernel *kernel,
                               const struct vram_launch *launch) {
    uint64_t items = (uint64_t)launch->group_size[0] * launch->group_size[1];
    if (items <= kernel->group_max && items * launch->group_size[2] <= kernel->group_max) {
        return VRAM_OK;
    }
    return vr_error_set(VRAM_ERR_INVALID, "metal", "launch", 0,
                        "a group of this kernel has at most %lu items, not %u x %u x %u",
                        kernel->group_max, launch->group_size[0], launch->group_size[1],
                        launch->group_size[2]);
}

static vram_status queue_launch(struct vr_queue *queue, void *loaded,
                                const struct vram_launch *launch) {
    const struct metal_kernel *kernel = loaded;
    struct vr_metal_location locations[32];
    struct vr_metal_recording recording;
    vram_status status = group_check(kernel, launch);
    if (status == VRAM_OK) {
        status = locations_find(queue->device->impl, launch, locations);
    }
    if (status == VRAM_OK) {
        status = vr_metal_begin(queue, "launch", &recording);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_mtl_id encoder = vr_metal_compute_encoder(&recording);
    if (!encoder) {
        vr_metal_cancel(&recording);
        return VRAM_ERR_HOST_MEMORY;
    }
    launch_encode(&recording, encoder, kernel, launch, locations);
    vr_metal_commit(&recording);
    return VRAM_OK;
}

const struct vr_kernel_ops vr_metal_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
