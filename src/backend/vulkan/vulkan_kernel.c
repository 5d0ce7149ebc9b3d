/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_kernel.c: compute shaders in SPIR-V.
 *
 * Arguments: all values lie one after the other in the push constants. Each begins at the next
 * multiple of the largest power of two, at most 16, that divides its size. That is the layout of
 * GLSL's `layout(push_constant, scalar)`, and of std430 for scalars and vectors of two and four. An
 * argument of vram_launch.address_mask is the 64-bit device address of the memory, for
 * `buffer_reference` types. There are no descriptors: a shader accesses memory by address.
 *
 * Group size: shaders are written with `local_size_x_id = 0, local_size_y_id = 1, local_size_z_id =
 * 2`, and the launch's group_size becomes these constants. The driver compiles the shader once for
 * each size that is used. A shader with a fixed size accepts launches of that size only.
 *
 * The code is checked before the driver gets it: drivers do not check it, and crash.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

enum { PUSH_MAX = 256 }; /* bytes of push constants that are used */

/* The shader compiled for one group size. */
struct kernel_variant {
    struct kernel_variant *next;
    uint32_t size[3];
    struct vr_vk_pipeline *pipeline;
};

/* *kernel of vr_kernel_ops */
struct vulkan_kernel {
    struct vr_vk_shader *shader;
    struct vr_vk_layout *layout;
    char *entry;
    bool fixed;             /* the group size is part of the code */
    uint32_t fixed_size[3]; /* then this is the size */
    uint32_t push_bytes;    /* bytes available for arguments */
    struct vr_mutex lock;   /* guards the list */
    struct kernel_variant *variants;
};

/* ------------------------------------------------------------------- SPIR-V */

enum {
    MAGIC = 0x07230203,
    HEADER_WORDS = 5,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_FUNCTION_END = 56,
    OP_DECORATE = 71,
    MODEL_COMPUTE = 5,
    MODE_LOCAL_SIZE = 17,
    DECORATION_BUILT_IN = 11,
    BUILT_IN_GROUP_SIZE = 25
};

static vram_status code_error(const char *why, const char *detail) {
    return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkCreateShaderModule", 0,
                        "the code is no SPIR-V for Vulkan: %s%s", why, detail);
}

/* Whether the operands of an instruction, from the third word on, are the text `name`. */
static bool operand_is(const uint32_t *words, uint32_t count, const char *name) {
    const char *text = (const char *)words;
    size_t room = (size_t)count * 4, length = strlen(name);
    return length < room && memcmp(text, name, length + 1) == 0;
}

/* Reads all instructions: finds the entry point and its group size. */
static vram_status code_read(const uint32_t *code, size_t count, struct vulkan_kernel *kernel) {
    uint32_t entry = 0, last = 0;
    bool found = false, by_constant = false;
    if (count <= HEADER_WORDS || code[0] != MAGIC) {
        return code_error("it does not begin with its magic number", "");
    }
    for (size_t at = HEADER_WORDS; at < count;) {
        uint32_t words = code[at] >> 16, op = code[at] & 0xFFFF;
        const uint32_t *operands = &code[at + 1];
        if (words == 0 || words > count - at) {
            return code_error("an instruction reaches beyond its end", "");
        }
        if (op == OP_ENTRY_POINT && words > 3 && operands[0] == MODEL_COMPUTE &&
            operand_is(operands + 2, words - 3, kernel->entry)) {
            entry = operands[1];
            found = true;
        } else if (op == OP_EXECUTION_MODE && words == 6 && found && operands[0] == entry &&
                   operands[1] == MODE_LOCAL_SIZE) {
            memcpy(kernel->fixed_size, operands + 2, sizeof kernel->fixed_size);
            kernel->fixed = true;
        } else if (op == OP_DECORATE && words == 4 && operands[1] == DECORATION_BUILT_IN &&
                   operands[2] == BUILT_IN_GROUP_SIZE) {
            by_constant = true;
        }
        last = op;
        at += words;
    }
    if (last != OP_FUNCTION_END) { /* functions are last */
        return code_error("it is cut off", "");
    }
    kernel->fixed = kernel->fixed && !by_constant;
    return found ? VRAM_OK : code_error("it has no compute shader of the name ", kernel->entry);
}

/* ------------------------------------------------------------------ loading */

static void kernel_end(struct vr_vulkan_device *device, struct vulkan_kernel *kernel, bool lost) {
    while (kernel->variants) {
        struct kernel_variant *variant = kernel->variants;
        kernel->variants = variant->next;
        if (!lost) {
            device->api.vkDestroyPipeline(device->handle, variant->pipeline, NULL);
        }
        vr_mem_free(variant);
    }
    if (kernel->layout && !lost) {
        device->api.vkDestroyPipelineLayout(device->handle, kernel->layout, NULL);
    }
    if (kernel->shader && !lost) {
        device->api.vkDestroyShaderModule(device->handle, kernel->shader, NULL);
    }
    vr_mutex_destroy(&kernel->lock);
    vr_mem_free(kernel->entry);
    vr_mem_free(kernel);
}

static vram_status kernel_make_native(struct vr_vulkan_device *device, struct vulkan_kernel *kernel,
                                      const struct vr_vk_shader_info *code) {
    uint32_t most = device->physical->properties.limits.max_push_constants;
    kernel->push_bytes = (most < PUSH_MAX ? most : PUSH_MAX) / 4 * 4;
    const struct vr_vk_push_range range = {.stages = VR_VK_STAGE_COMPUTE,
                                           .bytes = kernel->push_bytes};
    const struct vr_vk_layout_info layout = {
        .head = {VR_VK_TYPE_LAYOUT, NULL}, .range_count = 1, .ranges = &range};
    vram_status status =
        VR_VULKAN(device, vkCreateShaderModule, device->handle, code, NULL, &kernel->shader);
    if (status == VRAM_OK) {
        status = VR_VULKAN(device, vkCreatePipelineLayout, device->handle, &layout, NULL,
                           &kernel->layout);
    }
    if (status == VRAM_OK && (!kernel->shader || !kernel->layout)) {
        status = vr_vulkan_bad_result("vkCreateShaderModule", 0);
    }
    return status;
}

/* The code is copied, because the program's bytes may be unaligned and Vulkan requires words. */
static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **made) {
    struct vr_vulkan_device *vulkan = device->impl;
    if (source->format != VRAM_KERNEL_SPIRV) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkCreateShaderModule", source->format,
                            "Vulkan runs VRAM_KERNEL_SPIRV only");
    }
    if (source->code_bytes == 0 || source->code_bytes % 4) {
        return code_error("its size is not a multiple of 4", "");
    }
    struct vulkan_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, "vulkan_kernel_load");
    if (!kernel) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&kernel->lock, VR_RANK_BACKEND);
    uint32_t *words = vr_mem_alloc(1, source->code_bytes, "vulkan_kernel_load");
    kernel->entry = words ? vr_mem_text(source->entry, "vulkan_kernel_load") : NULL;
    vram_status status = kernel->entry ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        memcpy(words, source->code, source->code_bytes);
        status = code_read(words, source->code_bytes / 4, kernel);
    }
    if (status == VRAM_OK) {
        const struct vr_vk_shader_info info = {
            .head = {VR_VK_TYPE_SHADER, NULL}, .bytes = source->code_bytes, .code = words};
        status = kernel_make_native(vulkan, kernel, &info);
    }
    vr_mem_free(words);
    if (status != VRAM_OK) {
        kernel_end(vulkan, kernel, status == VRAM_ERR_DEVICE_LOST);
        return status;
    }
    *made = kernel;
    return VRAM_OK;
}

static void kernel_unload(struct vr_device *device, void *kernel) {
    kernel_end(device->impl, kernel, vr_load(&device->lost, VR_ACQUIRE));
}

/* ---------------------------------------------------------------- compiling */

static struct vr_vk_pipeline *variant_find(struct vulkan_kernel *kernel, const uint32_t size[3]) {
    vr_mutex_lock(&kernel->lock);
    struct kernel_variant *variant = kernel->variants;
    while (variant && memcmp(variant->size, size, sizeof variant->size) != 0) {
        variant = variant->next;
    }
    vr_mutex_unlock(&kernel->lock);
    return variant ? variant->pipeline : NULL;
}

static vram_status variant_compile(struct vr_vulkan_device *device,
                                   const struct vulkan_kernel *kernel, const uint32_t size[3],
                                   struct vr_vk_pipeline **pipeline) {
    static const struct vr_vk_constant entries[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
    const struct vr_vk_constants constants = {
        .count = 3, .entries = entries, .bytes = 12, .data = size};
    const struct vr_vk_compute_info info = {
        .head = {VR_VK_TYPE_COMPUTE_PIPELINE, NULL},
        .stage = {.head = {VR_VK_TYPE_STAGE, NULL},
                  .stage = VR_VK_STAGE_COMPUTE,
                  .shader = kernel->shader,
                  .entry = kernel->entry,
                  .constants = kernel->fixed ? NULL : &constants},
        .layout = kernel->layout,
        .base_index = -1};
    vram_status status =
        VR_VULKAN(device, vkCreateComputePipelines, device->handle, NULL, 1, &info, NULL, pipeline);
    if (status == VRAM_OK && !*pipeline) {
        status = vr_vulkan_bad_result("vkCreateComputePipelines", 0);
    }
    return status;
}

/* Several threads may compile the same size at once; all results are kept. */
static vram_status variant_get(struct vr_vulkan_device *device, struct vulkan_kernel *kernel,
                               const uint32_t size[3], struct vr_vk_pipeline **pipeline) {
    *pipeline = variant_find(kernel, size);
    if (*pipeline) {
        return VRAM_OK;
    }
    struct kernel_variant *fresh = vr_mem_alloc(1, sizeof *fresh, "vkCreateComputePipelines");
    if (!fresh) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = variant_compile(device, kernel, size, &fresh->pipeline);
    if (status != VRAM_OK) {
        vr_mem_free(fresh);
        return status;
    }
    memcpy(fresh->size, size, sizeof fresh->size);
    *pipeline = fresh->pipeline; /* two of the same size do no harm */
    vr_mutex_lock(&kernel->lock);
    fresh->next = kernel->variants;
    kernel->variants = fresh;
    vr_mutex_unlock(&kernel->lock);
    return VRAM_OK;
}

/* ---------------------------------------------------------------- launching */

static vram_status launch_check(const struct vr_vulkan_device *device,
                                const struct vulkan_kernel *kernel,
                                const struct vram_launch *launch) {
    static const char operation[] = "vkCmdDispatch";
    const struct vr_vk_limits *limits = &device->physical->properties.limits;
    uint64_t items = 1;
    for (int i = 0; i < 3; i++) {
        items *=
            launch->group_size[i] <= limits->max_group_size[i] ? launch->group_size[i] : UINT32_MAX;
        if (items > limits->max_group_items || launch->groups[i] > limits->max_groups[i]) {
            return vr_error_set(VRAM_ERR_LIMIT, "vulkan", operation, 0,
                                "the device takes at most %u x %u x %u groups of %u items, %u x %u "
                                "x %u of them",
                                limits->max_groups[0], limits->max_groups[1], limits->max_groups[2],
                                limits->max_group_items, limits->max_group_size[0],
                                limits->max_group_size[1], limits->max_group_size[2]);
        }
    }
    if (kernel->fixed &&
        memcmp(kernel->fixed_size, launch->group_size, sizeof launch->group_size) != 0) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", operation, 0,
                            "the shader is written for groups of %u x %u x %u; give it constants "
                            "(local_size_x_id = 0, ...) or launch with that group_size",
                            kernel->fixed_size[0], kernel->fixed_size[1], kernel->fixed_size[2]);
    }
    return VRAM_OK;
}

static size_t argument_align(size_t bytes) {
    size_t power = bytes & (~bytes + 1);
    return power < 16 ? power : 16;
}

/* Lays out the arguments as described above; unused bytes are 0. */
static vram_status arguments_pack(const struct vulkan_kernel *kernel,
                                  const struct vram_launch *launch, char values[PUSH_MAX]) {
    size_t at = 0;
    memset(values, 0, PUSH_MAX);
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        const void *value = launch->arguments[i];
        size_t bytes = launch->argument_bytes[i];
        if (launch->address_mask >> i & 1) {
            const struct vr_native *native = value;
            if (!native->device_address.known) {
                return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vkCmdPushConstants", 0,
                                    "argument %u is a VkBuffer that was wrapped without its device "
                                    "address (vram_wrap.address), which a kernel needs",
                                    i);
            }
            value = &native->device_address.value;
            bytes = sizeof native->device_address.value;
        }
        size_t align = argument_align(bytes);
        at = (at + align - 1) / align * align;
        if (at + bytes > kernel->push_bytes) {
            return vr_error_set(VRAM_ERR_LIMIT, "vulkan", "vkCmdPushConstants", 0,
                                "the arguments do not fit in the %u bytes of push constants that "
                                "the device takes: pass the address of a block that holds them",
                                kernel->push_bytes);
        }
        memcpy(values + at, value, bytes);
        at += bytes;
    }
    return VRAM_OK;
}

static vram_status queue_launch(struct vr_queue *queue, void *code,
                                const struct vram_launch *launch) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_device *device = impl->device;
    struct vulkan_kernel *kernel = code;
    struct vr_vulkan_recording recording;
    struct vr_vk_pipeline *pipeline;
    char values[PUSH_MAX];
    if (!impl->native_queue->compute) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkCmdDispatch", 0,
                            "the queue's family copies only; launch on another queue");
    }
    vram_status status = launch_check(device, kernel, launch);
    if (status == VRAM_OK) {
        status = arguments_pack(kernel, launch, values);
    }
    if (status == VRAM_OK) {
        status = variant_get(device, kernel, launch->group_size, &pipeline);
    }
    if (status == VRAM_OK) {
        status = vr_vulkan_begin(&recording, impl);
    }
    if (status != VRAM_OK) {
        return status;
    }
    device->api.vkCmdBindPipeline(recording.commands, VR_VK_BIND_COMPUTE, pipeline);
    device->api.vkCmdPushConstants(recording.commands, kernel->layout, VR_VK_STAGE_COMPUTE, 0,
                                   kernel->push_bytes, values);
    device->api.vkCmdDispatch(recording.commands, launch->groups[0], launch->groups[1],
                              launch->groups[2]);
    return vr_vulkan_submit(&recording, NULL, NULL);
}

const struct vr_kernel_ops vr_vulkan_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
