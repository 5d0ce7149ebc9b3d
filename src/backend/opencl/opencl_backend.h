/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_backend.h: what the files of the OpenCL backend share.
 *
 *   opencl_backend.c    loads the driver, says why it is absent, finds and describes devices
 *   opencl_error.c      driver codes become statuses and one line of text
 *   opencl_device.c     a device's context, opening and closing
 *   opencl_memory.c     device, pinned and managed memory: buffers behind windows of addresses, or
 *                       pointers
 *   opencl_object.c     buffers that the program created
 *   opencl_subbuffer.c  the sub-buffers that stand for a pool's blocks
 *   opencl_queue.c      command queues: creating, adopting, destroying
 *   opencl_timeline.c   words; signals, waits, polls
 *   opencl_copy.c       copies, fills, prefetches
 *   opencl_kernel.c     programs from OpenCL C, and launches
 *
 * Memory is of one of three kinds, best first (enum vr_opencl_memory_kind). With unified shared
 * memory (cl_intel_unified_shared_memory) and with shared virtual memory (OpenCL 2.0) a vram_addr
 * is a pointer that kernels use directly. Otherwise memory is behind cl_mem objects, and addresses
 * are windows (base/window.h).
 */
#ifndef VR_OPENCL_BACKEND_H
#define VR_OPENCL_BACKEND_H

#include "backend/backend.h"
#include "backend/opencl/opencl_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"

/* ------------------------------------------------------------------ objects */

enum vr_opencl_memory_kind { VR_OPENCL_BUFFERS, VR_OPENCL_SVM, VR_OPENCL_USM };

/* A device as found when the backend started. */
struct vr_opencl_physical {
    struct vr_cl_platform *platform;
    struct vr_cl_device *id;
    enum vr_opencl_memory_kind memory_kind;
    bool cpu;                 /* CL_DEVICE_TYPE_CPU */
    bool compiler;            /* compiles OpenCL C */
    bool fine_svm;            /* fine-grained buffers of shared virtual memory */
    bool priorities;          /* cl_khr_priority_hints */
    uint64_t subbuffer_align; /* sub-buffers begin on multiples of this; bytes */
    struct vr_opencl_usm usm;
};

/* vr_backend.impl */
struct vr_opencl {
    struct vr_library library;
    struct vr_opencl_api api;
    struct vr_opencl_physical *physicals;
    uint32_t physical_count;
    struct vr_cl_context *adopted; /* the program's own, with the one device; NULL: none */
    vr_cl_int failed_code;         /* during start: the last code that made a device unusable */
    const char *failed_call;       /* and the call that returned it */
};

/* The destination of reads that touch a buffer. Nobody uses it. Type-stable, because a read may
   come late. */
struct vr_opencl_scratch {
    void *unused; /* the first pointer is the free list's */
    unsigned char bytes[56];
};

/* NULL with the error set if memory ran out; opencl_memory.c. */
struct vr_opencl_scratch *vr_opencl_scratch_take(void);
void vr_opencl_scratch_give(struct vr_opencl_scratch *scratch);

/* vr_device.impl */
struct vr_opencl_device {
    const struct vr_opencl_api *api;
    const struct vr_opencl_physical *physical;
    struct vr_cl_context *context; /* of this device only, or the program's; retained */
    struct vr_cl_queue
        *service;             /* for touching, mapping and unmapping; never behind work of users */
    uint64_t memory_bytes;    /* of the device; UINT64_MAX: unknown */
    vr_atomic_u64 used_bytes; /* allocated through this handle */
    struct vr_opencl_scratch *scratch;
    struct vr_mutex memory; /* keeps (3) of opencl_memory.c */
};

struct vr_opencl_timeline;

/* vr_queue.impl */
struct vr_opencl_queue {
    struct vr_cl_queue *queue; /* retained */
    bool unordered;            /* out-of-order: barriers around every command keep the order */
    struct vr_opencl_timeline *timeline;
};

/* ------------------------------------------------------------------- errors */

/* The status of a code; VRAM_ERR_BACKEND for one that is not in the table. */
vram_status vr_opencl_status(vr_cl_int code);
/* For example "CL_OUT_OF_RESOURCES"; NULL for a code without a name. */
const char *vr_opencl_code_name(vr_cl_int code);

/* VRAM_OK for CL_SUCCESS; otherwise records the failure of `operation` and returns its status. */
vram_status vr_opencl_check(const char *operation, vr_cl_int code);

/* Calls a driver function through `owner`->api and checks the result. */
#define VR_OPENCL(owner, function, ...)                                                            \
    vr_opencl_check(#function, (owner)->api->function(__VA_ARGS__))

/* A success with an impossible result: logged as the driver's error; VRAM_ERR_CORRUPT. */
vram_status vr_opencl_bad_result(const char *operation, uint64_t result);

/* Logs a failure that cannot be returned: contract (7) of backend.h. */
void vr_opencl_warn(const char *operation, vr_cl_int code);

/* ------------------------------------------------------------------- memory */

/* One allocation. Type-stable, because it is found by its address without a lock. */
struct vr_opencl_memory {
    void *free_link;                           /* vr_stable's */
    _Atomic(struct vr_opencl_device *) device; /* atomic fields are read without a lock */
    _Atomic(struct vr_cl_memory *) buffer;     /* the object; NULL for pointers */
    void *raw;           /* what the driver returned, at or below the address; NULL for windows */
    vr_atomic_u64 bytes; /* usable bytes from its address */
    struct vr_list subbuffers; /* opencl_subbuffer.c uses this and the next two */
    uint64_t subbuffer_count;
    uint64_t sweep_at; /* the count at which stale ones are removed */
};

extern const struct vr_pinned_ops vr_opencl_pinned_ops;
extern const struct vr_managed_ops vr_opencl_managed_ops;
extern const struct vr_handle_ops vr_opencl_handle_ops;
extern const struct vr_object_ops vr_opencl_object_ops;
vr_memory_alloc_fn vr_opencl_alloc;
vr_memory_free_fn vr_opencl_free;
vr_managed_prefetch_fn vr_opencl_prefetch;

/* A record for memory of `bytes`, in no map; NULL with the error set if memory ran out. */
struct vr_opencl_memory *vr_opencl_record_take(struct vr_opencl_device *device, uint64_t bytes,
                                               const char *operation);
void vr_opencl_record_give(struct vr_opencl_memory *record);
/* The driver's name for the memory at `addr`. */
vr_memory_native_fn vr_opencl_native;

/* The buffer in whose window `addr` lies; NULL: `addr` is a pointer. */
struct vr_opencl_memory *vr_opencl_buffer_at(vram_addr addr, uint64_t *offset);

/* The sub-buffer for the block of `bytes` at `addr`, which is at `offset` in the buffer. It is
   created at the first request. */
vram_status vr_opencl_subbuffer_get(struct vr_opencl_memory *memory, vram_addr addr,
                                    uint64_t offset, uint64_t bytes, struct vr_cl_memory **handle);
/* Releases all sub-buffers; without driver calls if the device is lost. */
void vr_opencl_subbuffers_end(struct vr_opencl_memory *memory, bool lost);

/* ------------------------------------------------------------------- queues */

extern const struct vr_queue_ops vr_opencl_queue_ops;

/* Called around every command: keep out-of-order queues in order, and flush. */
vram_status vr_opencl_submit_begin(const struct vr_queue *queue);
vram_status vr_opencl_submit_end(const struct vr_queue *queue, const char *operation,
                                 vr_cl_int code);

vr_queue_upload_fn vr_opencl_upload;
vr_queue_download_fn vr_opencl_download;
vr_queue_copy_fn vr_opencl_copy;
vr_queue_copy_rows_fn vr_opencl_copy_rows;
vr_queue_fill_fn vr_opencl_fill;

static inline struct vr_opencl_device *vr_opencl_device_of(const struct vr_queue *queue) {
    return queue->device->impl;
}

/* ---------------------------------------------------------------- timelines */

/* A timeline for a new queue; its value continues where an older one stopped. */
struct vr_opencl_timeline *vr_opencl_timeline_take(const struct vr_opencl_api *api);
/* The queue has ended. Markers whose callbacks are pending keep the timeline until they come. With
   `lost` they never will, and waits in other contexts end. */
void vr_opencl_timeline_end(struct vr_opencl_timeline *timeline, bool lost);
vr_atomic_u64 *vr_opencl_timeline_word(struct vr_opencl_timeline *timeline);
/* Counts a command that was submitted to the queue. */
void vr_opencl_timeline_count(struct vr_opencl_timeline *timeline);
/* Whether markers are pending. */
bool vr_opencl_timeline_busy(struct vr_opencl_timeline *timeline);
vr_queue_signal_fn vr_opencl_signal;
vr_queue_after_fn vr_opencl_after;
vr_queue_poll_fn vr_opencl_poll;

/* ------------------------------------------------------------------ kernels */

extern const struct vr_kernel_ops vr_opencl_kernel_ops;

/* ------------------------------------------------------------------- device */

vr_device_open_fn vr_opencl_device_open;
/* Creates an in-order queue of a device; `priority` as in vram_queue_options. */
vram_status vr_opencl_queue_new(const struct vr_opencl_device *device, int32_t priority,
                                struct vr_cl_queue **queue);

#endif
