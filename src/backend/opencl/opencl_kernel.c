/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_kernel.c: programs from OpenCL C, and launches.
 *
 * How a kernel gets an address depends on the kind of memory. A pointer (shared virtual memory,
 * unified shared memory) is set directly. A buffer is set as the cl_mem of a block, so a kernel can
 * only get the first address of a block. The compiler knows which arguments are pointers and is
 * told to keep that (-cl-kernel-arg-info); if it does not, the launch's address_mask decides.
 *
 * Arguments are state of the kernel object, so only one launch at a time sets them and submits.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

enum { ARGUMENTS_MAX = 32 }; /* of a launch; src/device checks it */

enum argument_kind { UNKNOWN, POINTER, LOCAL, VALUE };

struct opencl_kernel {
    struct vr_cl_program *program;
    struct vr_cl_kernel *native;
    struct vr_mutex lock; /* held from setting arguments to submission */
    vr_cl_uint argument_count;
    enum argument_kind kinds[ARGUMENTS_MAX];
};

/* ------------------------------------------------------------------ loading */

/* Adds the compiler's message to the error record; the log gets all of it. */
static vram_status program_build_error(const struct vr_opencl_device *device,
                                       struct vr_cl_program *program, vr_cl_int code) {
    size_t needed = 0;
    vram_status status = vr_opencl_check("clBuildProgram", code);
    if (device->api->clGetProgramBuildInfo(program, device->physical->id, VR_CL_PROGRAM_BUILD_LOG,
                                           0, NULL, &needed) != VR_CL_SUCCESS ||
        !needed) {
        return status;
    }
    vram_error error;
    vr_error_save(&error);
    char *text = vr_mem_alloc(1, needed + 1, "clGetProgramBuildInfo");
    vr_error_restore(&error);
    if (text &&
        device->api->clGetProgramBuildInfo(program, device->physical->id, VR_CL_PROGRAM_BUILD_LOG,
                                           needed, text, NULL) == VR_CL_SUCCESS) {
        vr_log(VRAM_LOG_WARN, "opencl: the compiler says: %s", text);
        vr_text_clean(text);
        vr_error_set(status, "opencl", "clBuildProgram", code, "%s: %s", error.text, text);
    }
    vr_mem_free(text);
    return status;
}

static vram_status program_build(const struct vr_opencl_device *device,
                                 const struct vram_kernel_source *source,
                                 struct vr_cl_program **program) {
    const char *text = source->code;
    size_t length = source->code_bytes ? source->code_bytes : strlen(text);
    vr_cl_int code = VR_CL_SUCCESS;
    struct vr_cl_program *made =
        device->api->clCreateProgramWithSource(device->context, 1, &text, &length, &code);
    vram_status status = vr_opencl_check("clCreateProgramWithSource", code);
    if (status != VRAM_OK || !made) {
        return status != VRAM_OK ? status : vr_opencl_bad_result("clCreateProgramWithSource", 0);
    }
    code = device->api->clBuildProgram(made, 1, &device->physical->id, "-cl-kernel-arg-info", NULL,
                                       NULL);
    if (code != VR_CL_SUCCESS) {
        status = program_build_error(device, made, code);
        vr_opencl_warn("clReleaseProgram", device->api->clReleaseProgram(made));
        return status;
    }
    *program = made;
    return VRAM_OK;
}

static enum argument_kind argument_kind_query(const struct vr_opencl_device *device,
                                              struct vr_cl_kernel *kernel, vr_cl_uint index) {
    vr_cl_uint qualifier = 0;
    if (device->api->clGetKernelArgInfo(kernel, index, VR_CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                        sizeof qualifier, &qualifier, NULL) != VR_CL_SUCCESS) {
        return UNKNOWN;
    }
    switch (qualifier) {
    case VR_CL_ARG_GLOBAL:
    case VR_CL_ARG_CONSTANT:
        return POINTER;
    case VR_CL_ARG_LOCAL:
        return LOCAL;
    case VR_CL_ARG_PRIVATE:
        return VALUE;
    default:
        return UNKNOWN;
    }
}

static vram_status kernel_make(const struct vr_opencl_device *device, const char *entry,
                               struct opencl_kernel *kernel) {
    vr_cl_int code = VR_CL_SUCCESS;
    struct vr_cl_kernel *made = device->api->clCreateKernel(kernel->program, entry, &code);
    vram_status status = vr_opencl_check("clCreateKernel", code);
    if (status == VRAM_OK && !made) {
        status = vr_opencl_bad_result("clCreateKernel", 0);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = VR_OPENCL(device, clGetKernelInfo, made, VR_CL_KERNEL_NUM_ARGS,
                       sizeof kernel->argument_count, &kernel->argument_count, NULL);
    if (status != VRAM_OK) {
        vr_opencl_warn("clReleaseKernel", device->api->clReleaseKernel(made));
        return status;
    }
    for (vr_cl_uint i = 0; i < kernel->argument_count && i < ARGUMENTS_MAX; i++) {
        kernel->kinds[i] = argument_kind_query(device, made, i);
    }
    kernel->native = made;
    return VRAM_OK;
}

static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **out) {
    struct vr_opencl_device *opencl = device->impl;
    if (source->format != VRAM_KERNEL_OPENCL_C) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "opencl", "clCreateProgramWithSource", 0,
                            "an OpenCL device takes kernels in OpenCL C");
    }
    struct opencl_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, "opencl_kernel_load");
    if (!kernel) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = program_build(opencl, source, &kernel->program);
    if (status == VRAM_OK) {
        status = kernel_make(opencl, source->entry, kernel);
        if (status != VRAM_OK) {
            vr_opencl_warn("clReleaseProgram", opencl->api->clReleaseProgram(kernel->program));
        }
    }
    if (status != VRAM_OK) {
        vr_mem_free(kernel);
        return status;
    }
    vr_mutex_init(&kernel->lock, VR_RANK_BACKEND);
    *out = kernel;
    return VRAM_OK;
}

static void kernel_unload(struct vr_device *device, void *loaded) {
    struct vr_opencl_device *opencl = device->impl;
    struct opencl_kernel *kernel = loaded;
    if (!vr_load(&device->lost, VR_ACQUIRE)) {
        vr_opencl_warn("clReleaseKernel", opencl->api->clReleaseKernel(kernel->native));
        vr_opencl_warn("clReleaseProgram", opencl->api->clReleaseProgram(kernel->program));
    }
    vr_mutex_destroy(&kernel->lock);
    vr_mem_free(kernel);
}

/* ---------------------------------------------------------------- arguments */

static vram_status argument_error(uint32_t index, const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "opencl", "clSetKernelArg", VR_CL_INVALID_ARG_VALUE,
                        "argument %u %s", index, why);
}

static vram_status argument_set_pointer(const struct vr_opencl_device *device,
                                        const struct opencl_kernel *kernel, uint32_t index,
                                        uint64_t value) {
    const void *pointer = (const void *)(uintptr_t)value;
    if (device->physical->memory_kind == VR_OPENCL_USM) {
        return vr_opencl_check(
            "clSetKernelArgMemPointerINTEL",
            device->physical->usm.clSetKernelArgMemPointerINTEL(kernel->native, index, pointer));
    }
    return VR_OPENCL(device, clSetKernelArgSVMPointer, kernel->native, index, pointer);
}

/* An address in the form that src/device uses with handles. */
static vram_status argument_set_native(const struct vr_opencl_device *device,
                                       const struct opencl_kernel *kernel, uint32_t index,
                                       const struct vr_native *native) {
    if (!native->handle) {
        return argument_set_pointer(device, kernel, index, native->device_address.value);
    }
    if (native->offset) {
        return argument_error(index,
                              "lies inside a block; on this device a kernel gets the block's first "
                              "address, and an offset as a number of its own");
    }
    return VR_OPENCL(device, clSetKernelArg, kernel->native, index, sizeof native->handle,
                     &native->handle);
}

static vram_status argument_set_address(const struct vr_opencl_device *device,
                                        const struct opencl_kernel *kernel, uint32_t index,
                                        const struct vram_launch *launch) {
    bool buffers = device->physical->memory_kind == VR_OPENCL_BUFFERS;
    uint64_t value;
    if (buffers && launch->address_mask >> index & 1) {
        return argument_set_native(device, kernel, index, launch->arguments[index]);
    }
    if (launch->argument_bytes[index] != sizeof value) {
        return argument_error(index, "is a pointer, and no address of 8 bytes was given for it");
    }
    if (buffers) {
        return argument_error(index, "is a pointer: say so in address_mask");
    }
    memcpy(&value, launch->arguments[index], sizeof value);
    struct vr_native native = {.device_address = {value, true}};
    const struct vr_opencl_memory *made = vr_opencl_buffer_at(value, &native.offset);
    if (made && vr_load(&made->device, VR_ACQUIRE) == device) {
        native.handle = vr_load(&made->buffer, VR_RELAXED);
    }
    return argument_set_native(device, kernel, index, &native);
}

static vram_status argument_set(const struct vr_opencl_device *device,
                                const struct opencl_kernel *kernel, uint32_t index,
                                const struct vram_launch *launch) {
    bool masked = launch->address_mask >> index & 1;
    enum argument_kind kind = kernel->kinds[index];
    if (kind == POINTER || (kind == UNKNOWN && masked)) {
        return argument_set_address(device, kernel, index, launch);
    }
    if (kind == LOCAL) {
        return VR_OPENCL(device, clSetKernelArg, kernel->native, index,
                         launch->argument_bytes[index], NULL);
    }
    if (masked && device->physical->memory_kind == VR_OPENCL_BUFFERS) {
        return argument_error(
            index, "is no pointer, and this device's addresses are good for nothing else");
    }
    return VR_OPENCL(device, clSetKernelArg, kernel->native, index, launch->argument_bytes[index],
                     launch->arguments[index]);
}

/* ---------------------------------------------------------------- launching */

static vram_status kernel_submit(struct vr_queue *queue, struct opencl_kernel *kernel,
                                 const struct vram_launch *launch) {
    const struct vr_opencl_device *opencl = queue->device->impl;
    const struct vr_opencl_queue *impl = queue->impl;
    size_t items[3], group[3];
    for (int axis = 0; axis < 3; axis++) {
        group[axis] = launch->group_size[axis];
        items[axis] = (size_t)launch->groups[axis] * launch->group_size[axis];
    }
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        vram_status status = argument_set(opencl, kernel, i, launch);
        if (status != VRAM_OK) {
            return status;
        }
    }
    vram_status status = vr_opencl_submit_begin(queue);
    if (status != VRAM_OK) {
        return status;
    }
    return vr_opencl_submit_end(queue, "clEnqueueNDRangeKernel",
                                opencl->api->clEnqueueNDRangeKernel(impl->queue, kernel->native, 3,
                                                                    NULL, items, group, 0, NULL,
                                                                    NULL));
}

static vram_status queue_launch(struct vr_queue *queue, void *loaded,
                                const struct vram_launch *call) {
    struct opencl_kernel *kernel = loaded;
    if (call->argument_count != kernel->argument_count) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clEnqueueNDRangeKernel",
                            VR_CL_INVALID_KERNEL_ARGS, "the kernel has %u arguments, not %u",
                            kernel->argument_count, call->argument_count);
    }
    vr_mutex_lock(&kernel->lock);
    vram_status status = kernel_submit(queue, kernel, call);
    vr_mutex_unlock(&kernel->lock);
    return status;
}

const struct vr_kernel_ops vr_opencl_kernel_ops = {
    .load = kernel_load, .unload = kernel_unload, .launch = queue_launch};
