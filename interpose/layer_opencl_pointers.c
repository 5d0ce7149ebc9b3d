/* SPDX-License-Identifier: Apache-2.0 */
/* layer_opencl_pointers.c: shared virtual memory and unified shared memory, known by address. */
#include "layer_opencl.h"

#include "base/memory.h"

static uint64_t address_of(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

static struct run_block pointer_block(uint32_t device, enum run_kind kind, size_t bytes) {
    return (struct run_block){
        .device = device, .kind = kind, .space = RUN_SPACE_ADDRESS, .bytes = bytes};
}

/* ---------------------------------------------------- shared virtual memory */

void *layer_clSVMAlloc(struct vr_cl_context *context, vr_cl_bits flags, size_t bytes,
                       vr_cl_uint align) {
    const vr_cl_int refused = VR_CL_MEM_OBJECT_ALLOCATION_FAILURE; /* NULL may have other causes */
    struct run_block block = pointer_block(layer_cl_context(context, NULL), RUN_MANAGED, bytes);
    if (!layer_cl_begin(&block, refused, NULL)) {
        return NULL;
    }
    void *pointer = layer_cl()->clSVMAlloc(context, flags, bytes, align);
    layer_cl_end(&block, pointer, NULL);
    return pointer;
}

void layer_clSVMFree(struct vr_cl_context *context, void *pointer) {
    struct run_block block;
    bool known = pointer && run_free_begin(RUN_SPACE_ADDRESS, address_of(pointer), &block);
    layer_cl()->clSVMFree(context, pointer);
    run_free_end(known ? &block : NULL, true);
}

/* With a callback the program frees the pointers itself, there. Without one the driver does, any
   time after the call; so they are forgotten before it. */
vr_cl_int layer_clEnqueueSVMFree(struct vr_cl_queue *queue, vr_cl_uint pointer_count,
                                 void **pointers, layer_cl_free_fn *callback, void *user,
                                 vr_cl_uint count, struct vr_cl_event *const *events,
                                 struct vr_cl_event **event) {
    struct run_block few[16], *blocks = NULL;
    vr_cl_uint known = 0;
    if (!callback && pointers && pointer_count) {
        blocks = pointer_count <= sizeof few / sizeof few[0]
                     ? few
                     : vr_mem_alloc(pointer_count, sizeof *blocks, "vram run");
    }
    for (vr_cl_uint i = 0; blocks && i < pointer_count; i++) {
        known += pointers[i] &&
                 run_free_begin(RUN_SPACE_ADDRESS, address_of(pointers[i]), &blocks[known]);
    }
    vr_cl_int code = layer_cl()->clEnqueueSVMFree(queue, pointer_count, pointers, callback, user,
                                                  count, events, event);
    for (vr_cl_uint i = 0; i < known; i++) {
        run_free_end(&blocks[i], code == VR_CL_SUCCESS);
    }
    if (blocks != few) {
        vr_mem_free(blocks);
    }
    return code;
}

/* ---------------------------------------------------- unified shared memory */

/* A program may have the function of another platform than the context's. */
static void *usm_missing(vr_cl_int *code) {
    if (code) {
        *code = VR_CL_INVALID_CONTEXT;
    }
    return NULL;
}

void *layer_clHostMemAllocINTEL(struct vr_cl_context *context, const vr_cl_bits *props,
                                size_t bytes, vr_cl_uint align, vr_cl_int *code) {
    const struct layer_cl_usm *usm;
    struct run_block block = pointer_block(layer_cl_context(context, &usm), RUN_PINNED, bytes);
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    if (!usm->clHostMemAllocINTEL) {
        return usm_missing(code);
    }
    if (!layer_cl_begin(&block, VR_CL_OUT_OF_RESOURCES, code)) {
        return NULL;
    }
    void *pointer = usm->clHostMemAllocINTEL(context, props, bytes, align, answer);
    layer_cl_end(&block, pointer, answer);
    return pointer;
}

void *layer_clDeviceMemAllocINTEL(struct vr_cl_context *context, struct vr_cl_device *device,
                                  const vr_cl_bits *props, size_t bytes, vr_cl_uint align,
                                  vr_cl_int *code) {
    const struct layer_cl_usm *usm;
    (void)layer_cl_context(context, &usm);
    struct run_block block = pointer_block(layer_cl_device(device), RUN_DEVICE, bytes);
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    if (!usm->clDeviceMemAllocINTEL) {
        return usm_missing(code);
    }
    if (!layer_cl_begin(&block, VR_CL_OUT_OF_RESOURCES, code)) {
        return NULL;
    }
    void *pointer = usm->clDeviceMemAllocINTEL(context, device, props, bytes, align, answer);
    layer_cl_end(&block, pointer, answer);
    return pointer;
}

void *layer_clSharedMemAllocINTEL(struct vr_cl_context *context, struct vr_cl_device *device,
                                  const vr_cl_bits *props, size_t bytes, vr_cl_uint align,
                                  vr_cl_int *code) {
    const struct layer_cl_usm *usm;
    uint32_t number = layer_cl_context(context, &usm);
    struct run_block block =
        pointer_block(device ? layer_cl_device(device) : number, RUN_MANAGED, bytes);
    vr_cl_int own = VR_CL_SUCCESS, *answer = code ? code : &own;
    if (!usm->clSharedMemAllocINTEL) {
        return usm_missing(code);
    }
    if (!layer_cl_begin(&block, VR_CL_OUT_OF_RESOURCES, code)) {
        return NULL;
    }
    void *pointer = usm->clSharedMemAllocINTEL(context, device, props, bytes, align, answer);
    layer_cl_end(&block, pointer, answer);
    return pointer;
}

static vr_cl_int usm_free(struct vr_cl_context *context, void *pointer,
                          vr_cl_int (*call)(struct vr_cl_context *context, void *pointer)) {
    struct run_block block;
    if (!call) {
        return VR_CL_INVALID_CONTEXT;
    }
    bool known = pointer && run_free_begin(RUN_SPACE_ADDRESS, address_of(pointer), &block);
    vr_cl_int code = call(context, pointer);
    run_free_end(known ? &block : NULL, code == VR_CL_SUCCESS);
    return code;
}

vr_cl_int layer_clMemFreeINTEL(struct vr_cl_context *context, void *pointer) {
    const struct layer_cl_usm *usm;
    (void)layer_cl_context(context, &usm);
    return usm_free(context, pointer, usm->clMemFreeINTEL);
}

vr_cl_int layer_clMemBlockingFreeINTEL(struct vr_cl_context *context, void *pointer) {
    const struct layer_cl_usm *usm;
    (void)layer_cl_context(context, &usm);
    return usm_free(context, pointer, usm->clMemBlockingFreeINTEL);
}
