/* SPDX-License-Identifier: Apache-2.0 */
/* fake_opencl_memory.c: buffers, sub-buffers, and memory that is pointers. */
#include "opencl/fake_opencl.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ buffers */

static bool charge(struct vr_cl_device *device, size_t bytes) {
    if (bytes > ((uint64_t)fake_settings.memory_mib << 20) - device->used) {
        return false;
    }
    device->used += bytes;
    return true;
}

static struct vr_cl_memory *whole(struct vr_cl_memory *memory) {
    return memory->parent ? memory->parent : memory;
}

bool fake_memory_back(struct vr_cl_memory *memory) {
    struct vr_cl_memory *buffer = whole(memory);
    if (!buffer->data && charge(buffer->context->device, buffer->bytes)) {
        buffer->data = calloc(1, buffer->bytes);
    }
    return buffer->data != NULL;
}

char *fake_memory_at(struct vr_cl_memory *memory) {
    return whole(memory)->data + memory->offset;
}

bool fake_memory_has(const struct vr_cl_memory *memory, size_t offset, size_t bytes) {
    return offset <= memory->bytes && bytes <= memory->bytes - offset;
}

void fake_memory_drop(struct vr_cl_memory *memory) {
    if (!fake_drop(memory, 'm')) {
        return;
    }
    struct vr_cl_memory *parent = memory->parent;
    if (memory->data) {
        memory->context->device->used -= memory->bytes;
        free(memory->data);
    }
    fake_context_drop(memory->context);
    fake_gone(memory);
    if (parent) {
        fake_memory_drop(parent);
    }
}

static struct vr_cl_memory *create_buffer(struct vr_cl_context *context, vr_cl_bits flags,
                                          size_t bytes, void *host, vr_cl_int *code) {
    struct vr_cl_memory *memory = NULL;
    (void)host;
    fake_lock();
    *code = !fake_is(context, 'c') ? VR_CL_INVALID_CONTEXT
            : !bytes || bytes > (uint64_t)fake_settings.largest_mib << 20
                ? VR_CL_INVALID_BUFFER_SIZE
                : VR_CL_SUCCESS;
    if (*code == VR_CL_SUCCESS) {
        memory = fake_new(sizeof *memory, 'm');
        memory->context = context;
        fake_keep(&context->head);
        memory->bytes = bytes;
        memory->host = (flags & VR_CL_MEM_ALLOC_HOST_PTR) != 0;
        if (!fake_settings.lazy && !fake_memory_back(memory)) {
            *code = VR_CL_MEM_OBJECT_ALLOCATION_FAILURE;
            fake_memory_drop(memory);
            memory = NULL;
        }
    }
    fake_unlock();
    return memory;
}

static struct vr_cl_memory *create_sub_buffer(struct vr_cl_memory *memory, vr_cl_bits flags,
                                              vr_cl_uint type, const void *data, vr_cl_int *code) {
    const struct vr_cl_region *region = data;
    struct vr_cl_memory *part = NULL;
    (void)flags;
    fake_lock();
    if (!fake_is(memory, 'm') || memory->parent) {
        *code = VR_CL_INVALID_MEM_OBJECT;
    } else if (type != VR_CL_BUFFER_CREATE_TYPE_REGION || !region->size ||
               !fake_memory_has(memory, region->origin, region->size)) {
        *code = VR_CL_INVALID_VALUE;
    } else if (region->origin % ((size_t)fake_settings.align_bits / 8)) {
        *code = VR_CL_MISALIGNED_SUB_BUFFER_OFFSET;
    } else {
        part = fake_new(sizeof *part, 'm');
        part->context = memory->context;
        fake_keep(&part->context->head);
        part->parent = memory;
        part->offset = region->origin;
        part->bytes = region->size;
        fake_keep(&memory->head);
        *code = VR_CL_SUCCESS;
    }
    fake_unlock();
    return part;
}

static vr_cl_int release_memory(struct vr_cl_memory *memory) {
    fake_lock();
    fake_memory_drop(memory);
    fake_unlock();
    return VR_CL_SUCCESS;
}

static vr_cl_int retain_memory(struct vr_cl_memory *memory) {
    fake_lock();
    bool good = fake_is(memory, 'm');
    if (good) {
        fake_keep(&memory->head);
    }
    fake_unlock();
    return good ? VR_CL_SUCCESS : VR_CL_INVALID_MEM_OBJECT;
}

static vr_cl_int get_memory_info(struct vr_cl_memory *memory, vr_cl_uint what, size_t bytes,
                                 void *value, size_t *needed) {
    const vr_cl_uint type = VR_CL_MEM_OBJECT_BUFFER;
    (void)needed;
    fake_lock();
    bool good = fake_is(memory, 'm');
    if (good && what == VR_CL_MEM_TYPE) {
        memcpy(value, &type, bytes);
    } else if (good && what == VR_CL_MEM_SIZE) {
        memcpy(value, &memory->bytes, bytes);
    } else if (good && what == VR_CL_MEM_REFERENCES) {
        memcpy(value, &memory->head.references, bytes);
    } else if (good) {
        memcpy(value, &memory->context, bytes);
    }
    fake_unlock();
    return good ? VR_CL_SUCCESS : VR_CL_INVALID_MEM_OBJECT;
}

/* ----------------------------------------------------------------- pointers */

/* In front of what is given out, so that its size is known when it comes back. */
struct block {
    struct fake_head head;
    struct vr_cl_context *context;
    size_t bytes;
    void *memory;
    struct block *next;
};

static struct block *blocks;

static void *block_new(struct vr_cl_context *context, size_t bytes) {
    enum { PAGE = 4096, OFF = 128 };
    struct block *block = NULL;
    void *pointer = NULL;
    fake_lock();
    if (fake_is(context, 'c') && bytes <= (uint64_t)fake_settings.largest_mib << 20 &&
        charge(context->device, bytes)) {
        block = fake_new(sizeof *block, 'b');
        block->context = context;
        block->bytes = bytes;
        size_t room = (bytes + 2 * PAGE - 1) / PAGE * PAGE;
        pointer = aligned_alloc(PAGE, room);
        block->memory = (char *)pointer + (fake_settings.aligned ? 0 : OFF);
        pointer = block->memory;
        block->next = blocks;
        blocks = block;
    }
    fake_unlock();
    return pointer;
}

static void block_free(struct vr_cl_context *context, void *memory) {
    fake_lock();
    struct block **at = &blocks;
    while (*at && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    struct block *block = *at;
    if (!block || block->context != context) {
        fake_violate("a pointer was given back that nobody has, or in another context");
    } else {
        *at = block->next;
        context->device->used -= block->bytes;
        free((void *)((uintptr_t)memory & ~(uintptr_t)4095));
        fake_gone(block);
    }
    fake_unlock();
}

static void *svm_alloc(struct vr_cl_context *context, vr_cl_bits flags, size_t bytes,
                       vr_cl_uint align) {
    bool fine = (flags & VR_CL_MEM_SVM_FINE_GRAIN_BUFFER) != 0;
    if (align > 128 || !(fake_settings.svm &
                         (fine ? VR_CL_SVM_FINE_GRAIN_BUFFER : VR_CL_SVM_COARSE_GRAIN_BUFFER))) {
        return NULL;
    }
    return block_new(context, bytes);
}

static void *usm_alloc(struct vr_cl_context *context, struct vr_cl_device *device,
                       const vr_cl_bits *props, size_t bytes, vr_cl_uint align, vr_cl_int *code) {
    (void)device, (void)props, (void)align;
    if (opencl_strike(OPENCL_CALL_clDeviceMemAllocINTEL, code)) {
        return NULL;
    }
    void *memory = block_new(context, bytes);
    *code = memory ? VR_CL_SUCCESS : VR_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return memory;
}

static void *usm_alloc_shared(struct vr_cl_context *context, struct vr_cl_device *device,
                              const vr_cl_bits *props, size_t bytes, vr_cl_uint align,
                              vr_cl_int *code) {
    (void)device, (void)props, (void)align;
    if (opencl_strike(OPENCL_CALL_clSharedMemAllocINTEL, code)) {
        return NULL;
    }
    void *memory = block_new(context, bytes);
    *code = memory ? VR_CL_SUCCESS : VR_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return memory;
}

static vr_cl_int usm_free(struct vr_cl_context *context, void *memory) {
    vr_cl_int code;
    if (opencl_strike(OPENCL_CALL_clMemFreeINTEL, &code)) {
        return code;
    }
    block_free(context, memory);
    return VR_CL_SUCCESS;
}

/* The same calls as those of shared virtual memory, under other names. */
static vr_cl_int usm_argument(struct vr_cl_kernel *kernel, vr_cl_uint index, const void *pointer) {
    vr_cl_int code;
    return opencl_strike(OPENCL_CALL_clSetKernelArgMemPointerINTEL, &code)
               ? code
               : opencl_target()->clSetKernelArgSVMPointer(kernel, index, pointer);
}

static vr_cl_int usm_fill(struct vr_cl_queue *queue, void *to, const void *pattern,
                          size_t pattern_bytes, size_t bytes, vr_cl_uint count,
                          struct vr_cl_event *const *events, struct vr_cl_event **event) {
    vr_cl_int code;
    return opencl_strike(OPENCL_CALL_clEnqueueMemFillINTEL, &code)
               ? code
               : opencl_target()->clEnqueueSVMMemFill(queue, to, pattern, pattern_bytes, bytes,
                                                      count, events, event);
}

static vr_cl_int usm_copy(struct vr_cl_queue *queue, vr_cl_uint wait, void *to, const void *from,
                          size_t bytes, vr_cl_uint count, struct vr_cl_event *const *events,
                          struct vr_cl_event **event) {
    vr_cl_int code;
    return opencl_strike(OPENCL_CALL_clEnqueueMemcpyINTEL, &code)
               ? code
               : opencl_target()->clEnqueueSVMMemcpy(queue, wait, to, from, bytes, count, events,
                                                     event);
}

void *fake_usm_call(const char *name) {
    static const struct vr_opencl_usm usm = {usm_alloc,    usm_alloc_shared, usm_free,
                                             usm_argument, usm_fill,         usm_copy};
    static const char *const names[] = {
#define NAME(name) #name,
        OPENCL_EXTENSIONS(NAME)
#undef NAME
    };
    void *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            memcpy(&found, (const char *)&usm + i * sizeof found, sizeof found);
        }
    }
    return found;
}

void fake_fill_memory_calls(struct vr_opencl_api *api) {
    api->clCreateBuffer = create_buffer;
    api->clCreateSubBuffer = create_sub_buffer;
    api->clRetainMemObject = retain_memory;
    api->clReleaseMemObject = release_memory;
    api->clGetMemObjectInfo = get_memory_info;
    api->clSVMAlloc = svm_alloc;
    api->clSVMFree = block_free;
}
