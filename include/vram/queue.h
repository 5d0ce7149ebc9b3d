/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/queue.h: queues, points in time, copies, fills and launches.
 *
 * Work on one queue runs in the order it was submitted; queues run beside each other. Time is a
 * number per queue: vram_queue_mark makes a point behind everything submitted so far, and the
 * host learns that it has passed by reading a word that only rises: polling never calls a driver
 * in the good case and no wait lasts longer than its deadline.
 */
#ifndef VRAM_QUEUE_H
#define VRAM_QUEUE_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_queue vram_queue;   /* a stream, a command queue */
typedef struct vram_kernel vram_kernel; /* code loaded on a device */

/**
 * How long a call waits at most: nanoseconds, or one of these. A wait that gives up is
 * VRAM_ERR_TIMEOUT, and so is a look that finds nothing, unless the call says otherwise. In the
 * timeout field of an options struct 0 is VRAM_TIMEOUT_DEFAULT.
 */
#define VRAM_TIMEOUT_NONE     UINT64_C(0)      /* looks once */
#define VRAM_TIMEOUT_DEFAULT  (UINT64_MAX - 1) /* the option `wait_timeout`: 60 s unless set */
#define VRAM_TIMEOUT_INFINITE UINT64_MAX       /* until it is over, the device lost or exit begun */

/* ------------------------------------------------------------------- queues */

typedef struct vram_queue_options {
    size_t size;      /* sizeof(vram_queue_options) */
    int32_t priority; /* higher runs first where the driver knows priorities; 0 is normal */
} vram_queue_options;

/** A new queue of the library's own. */
VRAM_API vram_status vram_queue_create(vram_device *device, const vram_queue_options *options,
                                       vram_queue **queue);

/**
 * Destroys a queue made by vram_queue_create, after calls that are giving it work have left and
 * that work is done; its points all count as passed from then on. It takes no new work meanwhile
 * (VRAM_ERR_STALE). When the option `wait_timeout` ends first (VRAM_ERR_TIMEOUT), or the queue is
 * being captured (VRAM_ERR_CAPTURE), the native queue is kept aside and its points go on telling
 * the truth until the device is closed, which asks once more. NULL is allowed. An adopted queue is
 * left alone, and its handle stays: VRAM_ERR_INVALID (vram_queue_end ends it).
 */
VRAM_API vram_status vram_queue_destroy(vram_queue *queue);

/**
 * Uses a native queue that the program made (a CUstream or cudaStream_t; NULL is CUDA's legacy
 * default stream; a cl_command_queue, a VkQueue of an adopted device, an id<MTLCommandQueue>). It
 * stays the program's own. VRAM_ERR_UNSUPPORTED without VRAM_CAP_ADOPT.
 */
VRAM_API vram_status vram_queue_adopt(vram_device *device, void *native, vram_queue **queue);

/**
 * Ends an adoption; call it before the native queue is destroyed. Waits for the work up to the
 * deadline `wait_timeout` and never touches the native queue again. On VRAM_ERR_TIMEOUT and
 * _CAPTURE the adoption goes on, and so does the handle. VRAM_ERR_INVALID for a queue that
 * vram_queue_create made. NULL is allowed.
 */
VRAM_API vram_status vram_queue_end(vram_queue *queue);

/**
 * Begins a captured region: makes a second queue on the native queue behind `queue`, for what the
 * program captures into graphs there (between cuStreamBeginCapture and cuStreamEndCapture, once or
 * several times). Memory allocated for `captured` and freed to it stays its own: later work of
 * `captured` uses it again, in the order that the graphs keep, and nobody else does until
 * vram_capture_end, however often the graphs are launched. The library puts no marker into it:
 * points on it are VRAM_ERR_CAPTURE. VRAM_ERR_UNSUPPORTED without VRAM_CAP_ADOPT.
 */
VRAM_API vram_status vram_capture_begin(vram_queue *queue, vram_queue **captured);

/**
 * Ends it, when the graphs are gone and before the native queue is: waits as vram_queue_end does,
 * and what was freed to the queue is everybody's again. VRAM_ERR_INVALID for a queue that
 * vram_capture_begin did not make; on VRAM_ERR_TIMEOUT, and on _CAPTURE while a capture is under
 * way, the region goes on. NULL is allowed.
 */
VRAM_API vram_status vram_capture_end(vram_queue *captured);

/** The native queue (CUstream, ...) behind it; NULL where there is none. */
VRAM_API vram_status vram_queue_native(vram_queue *queue, void **native);

/** VRAM_OK when all submitted work is done, VRAM_ERR_NOT_READY when not. Asks the driver. */
VRAM_API vram_status vram_queue_poll(vram_queue *queue);

/**
 * Waits until all work submitted so far is done. VRAM_ERR_TIMEOUT after `timeout` ns. Where the
 * driver, or a lack of host memory, does not let the queue be marked, it waits until the queue is
 * idle instead. A driver that does not say how far the queue is when it is asked is asked again,
 * and believed when it refuses for the 16th time: then work may still be under way.
 */
VRAM_API vram_status vram_queue_wait(vram_queue *queue, uint64_t timeout);

/* ----------------------------------------------------------- points in time */

/** A moment on a queue. Plain data: copy it, keep it, compare it. All zero: passed long ago. */
typedef struct vram_point {
    vram_queue *queue;
    uint64_t value;
} vram_point;

/** Makes a point behind all work submitted to the queue so far. VRAM_ERR_CAPTURE in a capture. */
VRAM_API vram_status vram_queue_mark(vram_queue *queue, vram_point *point);

/** VRAM_OK once the point has passed, VRAM_ERR_NOT_READY before; no error record for that. */
VRAM_API vram_status vram_point_poll(vram_point point);

/** Waits for it. VRAM_ERR_TIMEOUT after `timeout` ns, _DEVICE_LOST, _SHUTDOWN. */
VRAM_API vram_status vram_point_wait(vram_point point, uint64_t timeout);

/**
 * Work submitted to `queue` from now on starts after `point`, which may lie on another queue of
 * the same backend. The device waits, the host does not.
 */
VRAM_API vram_status vram_queue_after(vram_queue *queue, vram_point point);

/* --------------------------------------------------------- copies and fills */

/*
 * All are asynchronous and ordered on the queue. Device ranges are checked against live memory of
 * the device, and what begins with a block of a pool against that block (VRAM_ERR_INVALID, nothing
 * submitted; vram/transfer.h says how far this goes). Host memory must stay as it is until a later
 * point has passed; a driver may copy pageable memory before the call returns. 0 bytes do nothing.
 */

/** Host to device. */
VRAM_API vram_status vram_queue_upload(vram_queue *queue, vram_addr to, const void *from,
                                       uint64_t bytes);

/** Device to host. */
VRAM_API vram_status vram_queue_download(vram_queue *queue, void *to, vram_addr from,
                                         uint64_t bytes);

/**
 * Device to device: within the queue's device, or from a peer after vram_device_peer_enable.
 * Overlapping ranges are VRAM_ERR_INVALID.
 */
VRAM_API vram_status vram_queue_copy(vram_queue *queue, vram_addr to, vram_addr from,
                                     uint64_t bytes);

/**
 * Repeats a pattern of 1, 2 or 4 bytes. `to` and `bytes` must be multiples of `pattern_bytes`.
 */
VRAM_API vram_status vram_queue_fill(vram_queue *queue, vram_addr to, uint32_t pattern,
                                     uint32_t pattern_bytes, uint64_t bytes);

/**
 * Moves managed memory to the queue's device or to the host ahead of its use. A hint: contents
 * stay. VRAM_ERR_UNSUPPORTED without VRAM_CAP_MANAGED, VRAM_ERR_INVALID for other memory.
 */
VRAM_API vram_status vram_queue_prefetch(vram_queue *queue, vram_addr addr, uint64_t bytes,
                                         bool to_host);

/* ------------------------------------------------------------------ kernels */

/** One group of a launch, as a C kernel sees it (host and simulated devices). */
typedef struct vram_kernel_call {
    uint32_t group[3];      /* which group this is */
    uint32_t groups[3];     /* how many there are */
    uint32_t group_size[3]; /* items in a group; the kernel loops over them itself */
    void *const *arguments; /* arguments[i] points to the value of argument i */
} vram_kernel_call;

/** A kernel in C; called once per group, groups in any order and from any thread. */
typedef void vram_kernel_fn(const vram_kernel_call *call);

typedef enum vram_kernel_format {
    VRAM_KERNEL_C = 0,        /* code is a vram_kernel_fn cast to const void * */
    VRAM_KERNEL_PTX = 1,      /* code is PTX text or a cubin */
    VRAM_KERNEL_OPENCL_C = 2, /* code is OpenCL C text, compiled by the device's driver */
    VRAM_KERNEL_SPIRV = 3,    /* code is a SPIR-V module */
    VRAM_KERNEL_HSACO = 4,    /* code is an AMD code object, as hipcc --genco writes it */
    VRAM_KERNEL_METAL = 5     /* code is text in Metal's shading language */
} vram_kernel_format;

typedef struct vram_kernel_source {
    size_t size; /* sizeof(vram_kernel_source) */
    vram_kernel_format format;
    const void *code;  /* borrowed for the call, except VRAM_KERNEL_C */
    size_t code_bytes; /* 0 for VRAM_KERNEL_C */
    const char *entry; /* name of the function in the code, and in reports */
} vram_kernel_source;

/** Loads code. VRAM_ERR_UNSUPPORTED for a format this device does not run. */
VRAM_API vram_status vram_kernel_create(vram_device *device, const vram_kernel_source *source,
                                        vram_kernel **kernel);

/** Unloads it; the caller has waited for its launches. NULL is allowed. */
VRAM_API vram_status vram_kernel_destroy(vram_kernel *kernel);

typedef struct vram_launch {
    size_t size;                  /* sizeof(vram_launch) */
    uint32_t groups[3];           /* each at least 1 */
    uint32_t group_size[3];       /* each at least 1 */
    uint32_t argument_count;      /* at most 32 */
    const void *const *arguments; /* arguments[i] points to the value; copied by the call */
    const size_t *argument_bytes; /* size of each value, at most 4096 together; addresses are
                                        passed as vram_addr, 8 bytes */
    /* bit i: argument i is a vram_addr in memory of the queue's device, page-locked memory too with
       VRAM_CAP_TRUE_ADDRESS, which the kernel gets as its own kind of pointer. Needed without
       VRAM_CAP_TRUE_ADDRESS; elsewhere it has addresses checked. */
    uint32_t address_mask;
} vram_launch;

/**
 * Submits a launch. Argument values are copied before the call returns. VRAM_ERR_INVALID, and
 * nothing is submitted, when an argument of address_mask is no address of the device, or where the
 * device can only hand whole blocks to kernels (OpenCL without shared virtual memory) and it is not
 * the first address of a block or allocation: give the kernel the block, and how far into it as a
 * number.
 */
VRAM_API vram_status vram_queue_launch(vram_queue *queue, vram_kernel *kernel,
                                       const vram_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
