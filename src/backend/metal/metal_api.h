/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_api.h: the part of Metal and of the Objective-C runtime that the backend uses.
 *
 * Metal is an Objective-C API, which is C underneath: an object is a pointer whose first word is
 * its class, and a message is a call of objc_msgSend with the receiver and the selector before the
 * arguments, through a pointer of the right type. So no second language is needed, and the part of
 * Metal that is used is a table as with any other driver: FUNCTIONS are symbols, MESSAGES are
 * selectors. Loader, calls, the tests' driver and its fault plan are generated from these two
 * lists.
 */
#ifndef VR_METAL_API_H
#define VR_METAL_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *vr_mtl_id;       /* any object */
typedef void *vr_mtl_selector; /* a registered selector */

struct vr_mtl_range {
    unsigned long location, length;
};

struct vr_mtl_size {
    unsigned long width, height, depth;
};

struct vr_mtl_size_and_align {
    unsigned long size, align;
};

/* X(symbol, returns, (parameters)): functions and data that the libraries export. */
#define VR_METAL_FUNCTIONS(X)                                                                      \
    X(objc_getClass, vr_mtl_id, (const char *name))                                                \
    X(sel_registerName, vr_mtl_selector, (const char *name))                                       \
    X(objc_msgSend, void, (void))                                                                  \
    X(objc_autoreleasePoolPush, void *, (void))                                                    \
    X(objc_autoreleasePoolPop, void, (void *pool))                                                 \
    X(MTLCopyAllDevices, vr_mtl_id, (void))

/* Receiver and selector come before all parameters. */
#define VR_MTL_TO vr_mtl_id receiver, vr_mtl_selector message

/* X(name, "selector", returns, (parameters)) */
#define VR_METAL_MESSAGES(X)                                                                       \
    /* Foundation */                                                                               \
    X(create, "new", vr_mtl_id, (VR_MTL_TO))                                                       \
    X(retain, "retain", vr_mtl_id, (VR_MTL_TO))                                                    \
    X(release, "release", void, (VR_MTL_TO))                                                       \
    X(responds, "respondsToSelector:", bool, (VR_MTL_TO, vr_mtl_selector))                         \
    X(count, "count", unsigned long, (VR_MTL_TO))                                                  \
    X(object_at, "objectAtIndex:", vr_mtl_id, (VR_MTL_TO, unsigned long))                          \
    X(utf8, "UTF8String", const char *, (VR_MTL_TO))                                               \
    X(string_with, "stringWithUTF8String:", vr_mtl_id, (VR_MTL_TO, const char *))                  \
    X(error_code, "code", long, (VR_MTL_TO))                                                       \
    X(error_text, "localizedDescription", vr_mtl_id, (VR_MTL_TO))                                  \
    /* MTLDevice */                                                                                \
    X(device_name, "name", vr_mtl_id, (VR_MTL_TO))                                                 \
    X(working_set, "recommendedMaxWorkingSetSize", uint64_t, (VR_MTL_TO))                          \
    X(allocated_size, "currentAllocatedSize", unsigned long, (VR_MTL_TO))                          \
    X(max_buffer, "maxBufferLength", unsigned long, (VR_MTL_TO))                                   \
    X(registry_id, "registryID", uint64_t, (VR_MTL_TO))                                            \
    X(queue_create, "newCommandQueueWithMaxCommandBufferCount:", vr_mtl_id,                        \
      (VR_MTL_TO, unsigned long))                                                                  \
    X(event_create, "newSharedEvent", vr_mtl_id, (VR_MTL_TO))                                      \
    X(heap_create, "newHeapWithDescriptor:", vr_mtl_id, (VR_MTL_TO, vr_mtl_id))                    \
    X(heap_fit, "heapBufferSizeAndAlignWithLength:options:", struct vr_mtl_size_and_align,         \
      (VR_MTL_TO, unsigned long, unsigned long))                                                   \
    X(buffer_create, "newBufferWithLength:options:", vr_mtl_id,                                    \
      (VR_MTL_TO, unsigned long, unsigned long))                                                   \
    X(library_create, "newLibraryWithSource:options:error:", vr_mtl_id,                            \
      (VR_MTL_TO, vr_mtl_id, vr_mtl_id, vr_mtl_id *))                                              \
    X(pipeline_create, "newComputePipelineStateWithFunction:error:", vr_mtl_id,                    \
      (VR_MTL_TO, vr_mtl_id, vr_mtl_id *))                                                         \
    /* MTLHeapDescriptor, MTLHeap, MTLBuffer */                                                    \
    X(set_size, "setSize:", void, (VR_MTL_TO, unsigned long))                                      \
    X(set_storage, "setStorageMode:", void, (VR_MTL_TO, unsigned long))                            \
    X(set_type, "setType:", void, (VR_MTL_TO, long))                                               \
    X(set_hazards, "setHazardTrackingMode:", void, (VR_MTL_TO, unsigned long))                     \
    X(heap_buffer, "newBufferWithLength:options:offset:", vr_mtl_id,                               \
      (VR_MTL_TO, unsigned long, unsigned long, unsigned long))                                    \
    X(contents, "contents", void *, (VR_MTL_TO))                                                   \
    X(gpu_address, "gpuAddress", uint64_t, (VR_MTL_TO))                                            \
    /* MTLCommandQueue, MTLCommandBuffer */                                                        \
    X(queue_device, "device", vr_mtl_id, (VR_MTL_TO))                                              \
    X(command_buffer, "commandBuffer", vr_mtl_id, (VR_MTL_TO))                                     \
    X(blit_encoder, "blitCommandEncoder", vr_mtl_id, (VR_MTL_TO))                                  \
    X(compute_encoder, "computeCommandEncoder", vr_mtl_id, (VR_MTL_TO))                            \
    X(encode_signal, "encodeSignalEvent:value:", void, (VR_MTL_TO, vr_mtl_id, uint64_t))           \
    X(encode_wait, "encodeWaitForEvent:value:", void, (VR_MTL_TO, vr_mtl_id, uint64_t))            \
    X(add_completed, "addCompletedHandler:", void, (VR_MTL_TO, void *))                            \
    X(commit, "commit", void, (VR_MTL_TO))                                                         \
    X(buffer_error, "error", vr_mtl_id, (VR_MTL_TO))                                               \
    /* Encoders */                                                                                 \
    X(copy_buffer, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", void,           \
      (VR_MTL_TO, vr_mtl_id, unsigned long, vr_mtl_id, unsigned long, unsigned long))              \
    X(fill_buffer, "fillBuffer:range:value:", void,                                                \
      (VR_MTL_TO, vr_mtl_id, struct vr_mtl_range, uint8_t))                                        \
    X(set_pipeline, "setComputePipelineState:", void, (VR_MTL_TO, vr_mtl_id))                      \
    X(set_buffer, "setBuffer:offset:atIndex:", void,                                               \
      (VR_MTL_TO, vr_mtl_id, unsigned long, unsigned long))                                        \
    X(set_bytes, "setBytes:length:atIndex:", void,                                                 \
      (VR_MTL_TO, const void *, unsigned long, unsigned long))                                     \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:", void,                               \
      (VR_MTL_TO, struct vr_mtl_size, struct vr_mtl_size))                                         \
    X(end_encoding, "endEncoding", void, (VR_MTL_TO))                                              \
    /* MTLLibrary, MTLComputePipelineState */                                                      \
    X(function_create, "newFunctionWithName:", vr_mtl_id, (VR_MTL_TO, vr_mtl_id))                  \
    X(max_threads, "maxTotalThreadsPerThreadgroup", unsigned long, (VR_MTL_TO))

enum vr_metal_message {
#define VR_METAL_ENUM(name, ...) VR_METAL_##name,
    VR_METAL_MESSAGES(VR_METAL_ENUM)
#undef VR_METAL_ENUM
        VR_METAL_MESSAGE_COUNT
};

/* The function type of each message: vr_metal_commit_fn and so on. */
#define VR_METAL_TYPE(name, selector, returns, parameters)                                         \
    typedef returns vr_metal_##name##_fn parameters;
VR_METAL_MESSAGES(VR_METAL_TYPE)
#undef VR_METAL_TYPE

struct vr_metal_api {
#define VR_METAL_POINTER(symbol, returns, parameters) returns(*symbol) parameters;
    VR_METAL_FUNCTIONS(VR_METAL_POINTER)
#undef VR_METAL_POINTER
    void *_NSConcreteStackBlock; /* data: the class of blocks on the stack */
    vr_mtl_selector selectors[VR_METAL_MESSAGE_COUNT];
};

/* Sends a message with arguments, VR_SEND(api, set_size, descriptor, bytes), or without any. */
#define VR_SEND(api, name, receiver, ...)                                                          \
    ((vr_metal_##name##_fn *)(api)->objc_msgSend)(receiver, (api)->selectors[VR_METAL_##name],     \
                                                  __VA_ARGS__)
#define VR_SEND0(api, name, receiver)                                                              \
    ((vr_metal_##name##_fn *)(api)->objc_msgSend)(receiver, (api)->selectors[VR_METAL_##name])

enum vr_mtl_storage { VR_MTL_SHARED = 0, VR_MTL_PRIVATE = 2 };
enum { VR_MTL_STORAGE_SHIFT = 4 }; /* of a storage mode in resource options */
enum vr_mtl_hazards { VR_MTL_TRACKED = 2 };
enum { VR_MTL_HAZARDS_SHIFT = 8 }; /* of a hazard tracking mode in resource options */
enum vr_mtl_heap_type { VR_MTL_PLACEMENT = 1 };

/* Codes of MTLCommandBufferErrorDomain. */
enum vr_mtl_code {
    VR_MTL_NONE = 0,
    VR_MTL_INTERNAL = 1,
    VR_MTL_TIMEOUT = 2,
    VR_MTL_PAGE_FAULT = 3,
    VR_MTL_ACCESS_REVOKED = 4,
    VR_MTL_NOT_PERMITTED = 7,
    VR_MTL_OUT_OF_MEMORY = 8,
    VR_MTL_INVALID_RESOURCE = 9,
    VR_MTL_MEMORYLESS = 10,
    VR_MTL_DEVICE_REMOVED = 11,
    VR_MTL_STACK_OVERFLOW = 12
};

/*
 * A block is a function with its data, as Objective-C passes it:
 *
 *     +-----+-------+----------+--------+------------+------+
 *     | isa | flags | reserved | invoke | descriptor | data |     the receiver copies `size` bytes
 *     +-----+-------+----------+--------+------------+------+
 */
struct vr_mtl_block_descriptor {
    unsigned long reserved, size;
};

struct vr_mtl_block {
    void *isa;
    int flags, reserved;
    void (*invoke)(struct vr_mtl_block *block, vr_mtl_id argument);
    const struct vr_mtl_block_descriptor *descriptor;
    void *data; /* ours */
};

#endif
