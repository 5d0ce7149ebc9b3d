/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_backend.h: what the files of the OpenCL backend share.
 *
 *   opencl_backend.c  loads the driver, says why it is absent, finds and describes devices
 *   opencl_error.c    driver codes become statuses and one line for people
 *   opencl_device.c   a device's context, opening and closing
 *   opencl_memory.c   device, pinned and managed memory: buffers behind windows of addresses, or
 *                     pointers
 *   opencl_object.c   buffers that the program made, used where they are
 *   opencl_view.c     the sub-buffers that stand for a pool's blocks
 *   opencl_queue.c    command queues: copies, fills, prefetches
 *   opencl_line.c     how far a queue has come: markers, waits, polls
 *   opencl_kernel.c   programs from OpenCL C, and launches
 *
 * Memory comes in one of three ways, best first (enum vr_opencl_way). With unified shared memory
 * (cl_intel_unified_shared_memory) and shared virtual memory (OpenCL 2.0) a vram_addr is a pointer
 *                                  that
 * kernels take as it is. Elsewhere memory is behind cl_mem objects, and addresses are windows
 * (base/window.h).
 */
#ifndef VR_OPENCL_BACKEND_H
#define VR_OPENCL_BACKEND_H

#include "backend/backend.h"
#include "backend/opencl/opencl_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"

/* ------------------------------------------------------------------ objects */

enum vr_opencl_way { VR_OPENCL_BUFFERS, VR_OPENCL_SVM, VR_OPENCL_USM };

/* A device as it was found when the backend started. */
struct vr_opencl_unit {
    struct vr_cl_platform *platform;
    struct vr_cl_device *id;
    enum vr_opencl_way way;
    bool cpu;            /* CL_DEVICE_TYPE_CPU */
    bool compiler;       /* compiles OpenCL C */
    bool fine_svm;       /* fine-grained buffers of shared virtual memory */
    bool priorities;     /* cl_khr_priority_hints */
    uint64_t view_align; /* sub-buffers begin on multiples of this; bytes */
    struct vr_opencl_usm usm;
};

/* vr_backend.impl */
struct vr_opencl {
    struct vr_library library;
    struct vr_opencl_api api;
    struct vr_opencl_unit *units;
    uint32_t unit_count;
    struct vr_cl_context *adopted; /* the program's own, of the one unit; NULL: none */
    vr_cl_int refused;      /* the last code that kept a device from being found, and the call; */
    const char *refused_by; /* while the backend starts */
};

/* Where touching a buffer reads to. Nobody looks at it; type-stable, since a read may come late. */
struct vr_opencl_target {
    void *unused; /* the first word is the free list's */
    unsigned char bytes[56];
};

/* NULL with the error set: out of memory; opencl_memory.c. */
struct vr_opencl_target *vr_opencl_target_take(void);
void vr_opencl_target_give(struct vr_opencl_target *target);

/* vr_device.impl */
struct vr_opencl_device {
    const struct vr_opencl_api *api;
    const struct vr_opencl_unit *unit;
    struct vr_cl_context *context; /* of this device alone, or the program's, retained */
    struct vr_cl_queue *service; /* for touching, mapping and unmapping; never behind users' work */
    uint64_t memory_bytes;       /* of the device; UINT64_MAX: unknown */
    vr_atomic_u64 used_bytes;    /* taken through this handle */
    struct vr_opencl_target *target;
    struct vr_mutex memory; /* opencl_memory.c (3) */
};

struct vr_opencl_line;

/* vr_queue.impl */
struct vr_opencl_queue {
    struct vr_cl_queue *queue; /* retained */
    bool unordered;            /* out-of-order: barriers around every command make it a queue */
    struct vr_opencl_line *line;
};

/* ------------------------------------------------------------------- errors */

/* What a code means; VRAM_ERR_BACKEND for one that the table does not know. */
vram_status vr_opencl_status(vr_cl_int code);
/* CL_OUT_OF_RESOURCES, or NULL for a code without a name. */
const char *vr_opencl_code_name(vr_cl_int code);

/* VRAM_OK for CL_SUCCESS; else records the failure of `operation` and returns its status. */
vram_status vr_opencl_check(const char *operation, vr_cl_int code);

/* Calls a driver function through `owner`->api and checks the result. */
#define VR_OPENCL(owner, function, ...)                                                            \
    vr_opencl_check(#function, (owner)->api->function(__VA_ARGS__))

/* A success whose result cannot be: logged as the driver's fault, VRAM_ERR_CORRUPT. */
vram_status vr_opencl_lied(const char *operation, uint64_t result);

/* Notes a refusal that nobody can be told about: contract (7) of backend.h. */
void vr_opencl_shrug(const char *operation, vr_cl_int code);

/* ------------------------------------------------------------------- memory */

/* One allocation; type-stable, since it is found by its address without a lock. */
struct vr_opencl_memory {
    void *free_link;                           /* vr_stable's */
    _Atomic(struct vr_opencl_device *) device; /* atomic is what is read without a lock */
    _Atomic(struct vr_cl_memory *) buffer;     /* the object; NULL for pointers */
    void *raw;            /* what the driver gave, at or below the address; NULL for windows */
    vr_atomic_u64 bytes;  /* usable, from its address on */
    struct vr_list views; /* sub-buffers made of it; this and the next two are opencl_view.c's */
    uint64_t view_count;
    uint64_t sweep_at; /* how many there are when those of old blocks are looked for */
};

extern const struct vr_pinned_ops vr_opencl_pinned_ops;
extern const struct vr_managed_ops vr_opencl_managed_ops;
extern const struct vr_handle_ops vr_opencl_handle_ops;
extern const struct vr_object_ops vr_opencl_object_ops;
vr_memory_alloc_fn vr_opencl_alloc;
vr_memory_free_fn vr_opencl_free;
vr_managed_prefetch_fn vr_opencl_prefetch;

/* A record for memory of `bytes`, in no map; NULL with the error set: out of memory. */
struct vr_opencl_memory *vr_opencl_record_take(struct vr_opencl_device *device, uint64_t bytes,
                                               const char *operation);
void vr_opencl_record_give(struct vr_opencl_memory *record);
/* What the driver calls the memory at `addr`. */
vr_memory_native_fn vr_opencl_native;

/* The buffer whose window `addr` lies in; NULL: it is a pointer. */
struct vr_opencl_memory *vr_opencl_buffer_at(vram_addr addr, uint64_t *offset);

/* The sub-buffer for the block of `bytes` at `addr`, which is `offset` into the buffer, made when
   it is first asked for. */
vram_status vr_opencl_view(struct vr_opencl_memory *memory, vram_addr addr, uint64_t offset,
                           uint64_t bytes, struct vr_cl_memory **handle);
/* Forgets all sub-buffers; without driver calls when the device is lost. */
void vr_opencl_views_end(struct vr_opencl_memory *memory, bool lost);

/* ------------------------------------------------------------------- queues */

extern const struct vr_queue_ops vr_opencl_queue_ops;

/* Around every command that is given to a queue: keeps out-of-order queues in order, and has the
   driver begin with it. */
vram_status vr_opencl_submit_begin(const struct vr_queue *queue);
vr_queue_copy_rows_fn vr_opencl_copy_rows;
vram_status vr_opencl_submit_end(const struct vr_queue *queue, const char *operation,
                                 vr_cl_int code);

/* ---------------------------------------------------------- points in time */

/* A line for a new queue; its value goes on from where an older one stopped. */
struct vr_opencl_line *vr_opencl_line_take(const struct vr_opencl_api *api);
/* The queue has ended. Markers that the driver still owes us keep the line until they come. With
   `lost` they never will, and those who wait elsewhere are let go. */
void vr_opencl_line_leave(struct vr_opencl_line *line, bool lost);
vr_atomic_u64 *vr_opencl_line_word(struct vr_opencl_line *line);
/* A command was given to the queue. */
void vr_opencl_line_count(struct vr_opencl_line *line);
/* Whether markers are outstanding. */
bool vr_opencl_line_busy(struct vr_opencl_line *line);
vr_queue_signal_fn vr_opencl_signal;
vr_queue_after_fn vr_opencl_after;
vr_queue_poll_fn vr_opencl_poll;

/* ------------------------------------------------------------------ kernels */

extern const struct vr_kernel_ops vr_opencl_kernel_ops;

/* ------------------------------------------------------------------- device */

vr_device_open_fn vr_opencl_device_open;
/* Queue of a device, in order; `priority` as in vram_queue_options. */
vram_status vr_opencl_queue_new(const struct vr_opencl_device *device, int32_t priority,
                                struct vr_cl_queue **queue);

#endif
