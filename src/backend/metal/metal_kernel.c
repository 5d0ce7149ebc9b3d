/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_kernel.c: kernels from text in Metal's shading language, the program's and the backend's
 * own.
 *
 * Argument i of a launch is buffer i of the kernel: an address becomes the buffer that it lies in
 * with its offset (`device T *x [[buffer(0)]]`), a value is copied (`constant T &n [[buffer(1)]]`).
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* vr_kernel.impl */
struct kernel {
    vr_mtl_id pipeline; /* retained */
    unsigned long most; /* items of a group */
};

static const char tools_source[] =
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

static const char *const tool_names[VR_METAL_TOOL_COUNT] = {"vram_copy_bytes", "vram_fill_bytes"};

/* ------------------------------------------------------------------ loading */

static vr_mtl_id make_string(const struct vr_metal_api *api, const char *text) {
    vr_mtl_id class = api->objc_getClass("NSString");
    return class ? VR_SEND(api, string_with, class, text) : NULL; /* autoreleased */
}

/* Compiles text; what is wrong with it is the program's mistake, and Metal's words say what. */
static vram_status make_library(struct vr_metal_device *metal, const char *text,
                                vr_mtl_id *library) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id error = NULL, string = make_string(api, text);
    if (!string) {
        return vr_metal_nothing(VRAM_ERR_HOST_MEMORY, "stringWithUTF8String:");
    }
    *library = VR_SEND(api, library_create, metal->device, string, NULL, &error);
    return *library ? VRAM_OK
                    : vr_metal_refused(api, error, VRAM_ERR_INVALID,
                                       "newLibraryWithSource:options:error:");
}

static vram_status make_pipeline(struct vr_metal_device *metal, vr_mtl_id library,
                                 const char *entry, vr_mtl_id *pipeline) {
    const struct vr_metal_api *api = metal->api;
    vr_mtl_id error = NULL, name = make_string(api, entry);
    vr_mtl_id function = name ? VR_SEND(api, function_create, library, name) : NULL;
    if (!function) {
        return vr_error_set(VRAM_ERR_INVALID, "metal", "newFunctionWithName:", 0,
                            "the code has no kernel that is called \"%s\"", entry);
    }
    *pipeline = VR_SEND(api, pipeline_create, metal->device, function, &error);
    VR_TELL(api, release, function);
    return *pipeline ? VRAM_OK
                     : vr_metal_refused(api, error, VRAM_ERR_INVALID,
                                        "newComputePipelineStateWithFunction:error:");
}

vram_status vr_metal_tools_make(struct vr_metal_device *metal) {
    vr_mtl_id library;
    vram_status status = make_library(metal, tools_source, &library);
    if (status != VRAM_OK) {
        return status;
    }
    for (int i = 0; i < VR_METAL_TOOL_COUNT && status == VRAM_OK; i++) {
        status = make_pipeline(metal, library, tool_names[i], &metal->tools[i]);
    }
    VR_TELL(metal->api, release, library);
    if (status != VRAM_OK) {
        vr_metal_tools_end(metal);
    }
    return status;
}

void vr_metal_tools_end(struct vr_metal_device *metal) {
    for (int i = 0; i < VR_METAL_TOOL_COUNT; i++) {
        if (metal->tools[i]) {
            VR_TELL(metal->api, release, metal->tools[i]);
        }
        metal->tools[i] = NULL;
    }
}

static vram_status load_text(struct vr_metal_device *metal, const char *text, const char *entry,
                             struct kernel *kernel) {
    vr_mtl_id library;
    void *pool = metal->api->objc_autoreleasePoolPush();
    vram_status status = make_library(metal, text, &library);
    if (status == VRAM_OK) {
        status = make_pipeline(metal, library, entry, &kernel->pipeline);
        VR_TELL(metal->api, release, library);
    }
    if (status == VRAM_OK) {
        kernel->most = VR_TELL(metal->api, max_threads, kernel->pipeline);
    }
    metal->api->objc_autoreleasePoolPop(pool);
    return status;
}

/* Metal reads text up to a final 0, which the program's need not have. */
static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **loaded) {
    static const char operation[] = "metal_kernel_load";
    if (source->format != VRAM_KERNEL_METAL) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "metal", operation, 0,
                            "the device runs kernels in Metal's shading language only");
    }
    struct kernel *kernel = vr_mem_alloc(1, sizeof *kernel, operation);
    char *text = kernel ? vr_mem_alloc(source->code_bytes + 1, 1, operation) : NULL;
    if (!text) {
        vr_mem_free(kernel);
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(text, source->code, source->code_bytes);
    vram_status status = load_text(device->impl, text, source->entry, kernel);
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
    struct kernel *kernel = loaded;
    VR_TELL(metal->api, release, kernel->pipeline);
    vr_mem_free(kernel);
}

/* ---------------------------------------------------------------- launching */

static bool in_mask(const struct vram_launch *launch, uint32_t index) {
    return launch->address_mask >> index & 1;
}

/* The buffers behind all addresses. Pinned memory comes by its address alone. */
static vram_status find_spans(struct vr_metal_device *metal, const struct vram_launch *launch,
                              struct vr_metal_span spans[32]) {
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        if (in_mask(launch, i)) {
            struct vr_native native;
            memcpy(&native, launch->arguments[i], sizeof native);
            spans[i] = (struct vr_metal_span){.buffer = native.handle, .offset = native.offset};
            if (!native.handle && !vr_metal_find(metal, native.device_address.value, &spans[i])) {
                return vr_error_set(VRAM_ERR_INVALID, "metal", "launch", 0,
                                    "argument %u is no memory of Metal's", i);
            }
        }
    }
    return VRAM_OK;
}

static void encode(const struct vr_metal_work *work, vr_mtl_id encoder, const struct kernel *kernel,
                   const struct vram_launch *launch, const struct vr_metal_span spans[32]) {
    const struct vr_metal_api *api = work->device->api;
    VR_SEND(api, set_pipeline, encoder, kernel->pipeline);
    for (unsigned long i = 0; i < launch->argument_count; i++) {
        if (in_mask(launch, (uint32_t)i)) {
            VR_SEND(api, set_buffer, encoder, spans[i].buffer, spans[i].offset, i);
        } else {
            VR_SEND(api, set_bytes, encoder, launch->arguments[i], launch->argument_bytes[i], i);
        }
    }
    struct vr_mtl_size groups = {launch->groups[0], launch->groups[1], launch->groups[2]};
    struct vr_mtl_size size = {launch->group_size[0], launch->group_size[1], launch->group_size[2]};
    VR_SEND(api, dispatch, encoder, groups, size);
    VR_TELL(api, end_encoding, encoder);
}

static vram_status check_group(const struct kernel *kernel, const struct vram_launch *launch) {
    uint64_t items = (uint64_t)launch->group_size[0] * launch->group_size[1];
    if (items <= kernel->most && items * launch->group_size[2] <= kernel->most) {
        return VRAM_OK;
    }
    return vr_error_set(VRAM_ERR_INVALID, "metal", "launch", 0,
                        "a group of this kernel has at most %lu items, not %u x %u x %u",
                        kernel->most, launch->group_size[0], launch->group_size[1],
                        launch->group_size[2]);
}

static vram_status queue_launch(struct vr_queue *queue, void *loaded,
                                const struct vram_launch *launch) {
    const struct kernel *kernel = loaded;
    struct vr_metal_span spans[32];
    struct vr_metal_work work;
    vram_status status = check_group(kernel, launch);
    if (status == VRAM_OK) {
        status = find_spans(queue->device->impl, launch, spans);
    }
    if (status == VRAM_OK) {
        status = vr_metal_begin(queue, "launch", &work);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_mtl_id encoder = vr_metal_compute(&work);
    if (!encoder) {
        vr_metal_abandon(&work);
        return VRAM_ERR_HOST_MEMORY;
    }
    encode(&work, encoder, kernel, launch, spans);
    vr_metal_commit(&work);
    return VRAM_OK;
}

const struct vr_kernel_ops vr_metal_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
