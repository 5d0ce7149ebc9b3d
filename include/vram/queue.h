/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/queue.h: queues, points, copies, fills and launches.
 *
 * Work on one queue runs in the order it was submitted; different queues run in parallel. Each
 * queue counts its progress. vram_queue_mark makes a point after all work submitted so far. The
 * host reads a counter that only rises to learn that the point has passed: normally a poll calls no
 * driver, and no wait takes longer than its timeout.
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
 * The longest time that a call waits, in nanoseconds, or one of these. If it passes, or if
 * VRAM_TIMEOUT_NONE finds work unfinished, the call returns VRAM_ERR_TIMEOUT unless its comment
 * says otherwise. In the timeout field of an options struct 0 is VRAM_TIMEOUT_DEFAULT.
 */
#define VRAM_TIMEOUT_NONE     UINT64_C(0)      /* checks once, does not wait */
#define VRAM_TIMEOUT_DEFAULT  (UINT64_MAX - 1) /* the option `wait_timeout`: 60 s unless set */
#define VRAM_TIMEOUT_INFINITE UINT64_MAX       /* until done, device lost, or process exit */

/* ------------------------------------------------------------------- queues */

typedef struct vram_queue_options {
    size_t size;      /* sizeof(vram_queue_options) */
    int32_t priority; /* higher runs first if the driver has priorities; 0 is normal */
} vram_queue_options;

/** Creates a queue. It belongs to its device. */
VRAM_API vram_status vram_queue_create(vram_device *device, const vram_queue_options *options,
                                       vram_queue **queue);

/**
 * Destroys a queue that vram_queue_create made. Waits for calls that are submitting work to it and
 * for that work; then all its points count as passed. Meanwhile it accepts no new work
 * (VRAM_ERR_STALE). If the option `wait_timeout` passes first (VRAM_ERR_TIMEOUT), or the queue is
 * being captured (VRAM_ERR_CAPTURE), the handle is gone, but the library keeps the native queue,
 * and its points stay correct, until the device is closed, which tries once more. NULL is allowed.
 * An adopted queue is unchanged and its handle stays valid: VRAM_ERR_INVALID; use vram_queue_end.
 */
VRAM_API vram_status vram_queue_destroy(vram_queue *queue);

/**
 * Uses a native queue that the program made: a CUstream or cudaStream_t (NULL is CUDA's legacy
 * default stream), a cl_command_queue, a VkQueue of an adopted device, an id<MTLCommandQueue>. The
 * program keeps the ownership. VRAM_ERR_UNSUPPORTED without VRAM_CAP_ADOPT. VRAM_ERR_INVALID for a
 * stream of another device or context. A stream that was destroyed must not be passed: NVIDIA's
 * driver crashes. A stream that is being captured can be adopted. No call ends a capture:
 * VRAM_ERR_CAPTURE instead for work on CUDA's legacy stream while a stream that it waits for is
 * captured, and for prefetches and copies from peers on a captured one. CU_STREAM_PER_THREAD and
 * hipStreamPerThread are the calling thread's: from others, calls that submit work are
 * VRAM_ERR_INVALID. The queue outlives the thread, and so does its work.
 */
VRAM_API vram_status vram_queue_adopt(vram_device *device, void *native, vram_queue **queue);

/**
 * Ends an adoption. Call it before the native queue is destroyed. Waits for the work up to the
 * option `wait_timeout`, and does not use the native queue afterwards. After VRAM_ERR_TIMEOUT and
 * _CAPTURE the queue is still adopted and the handle stays valid. VRAM_ERR_INVALID for a queue that
 * vram_queue_create made. NULL is allowed.
 */
VRAM_API vram_status vram_queue_end(vram_queue *queue);

/**
 * Begins a captured region. `captured` is a second queue on the native queue of `queue`, for work
 * that the program captures into graphs there (between cuStreamBeginCapture and cuStreamEndCapture,
 * once or several times). Memory that is allocated for `captured` and freed on it is reused only by
 * later work of `captured`, in the order that the graphs keep. No other queue gets it until
 * vram_capture_end, however often the graphs are launched. The library puts no markers into the
 * captured work: points on `captured` are VRAM_ERR_CAPTURE. VRAM_ERR_UNSUPPORTED without
 * VRAM_CAP_ADOPT.
 */
VRAM_API vram_status vram_capture_begin(vram_queue *queue, vram_queue **captured);

/**
 * Ends the region. Call it after the graphs were destroyed and before the native queue is. Waits as
 * vram_queue_end does; then any queue may use what was freed on `captured`. VRAM_ERR_INVALID for a
 * queue that vram_capture_begin did not make. After VRAM_ERR_TIMEOUT, and after _CAPTURE during a
 * capture, the region has not ended. NULL is allowed.
 */
VRAM_API vram_status vram_capture_end(vram_queue *captured);

/** Its native queue (CUstream, ...); NULL if it has none. */
VRAM_API vram_status vram_queue_native(vram_queue *queue, void **native);

/** VRAM_OK if all submitted work is complete, VRAM_ERR_NOT_READY if not. Asks the driver. */
VRAM_API vram_status vram_queue_poll(vram_queue *queue);

/**
 * Waits until all work submitted so far is complete. VRAM_ERR_TIMEOUT after `timeout` ns. If the
 * driver cannot mark the queue, or host memory for that ran out, it waits until the queue is idle.
 * If the driver fails to report the queue's progress, it is asked again; after 16 failures the call
 * returns, and work may still be running.
 */
VRAM_API vram_status vram_queue_wait(vram_queue *queue, uint64_t timeout);

/* ----------------------------------------------------------- points in time */

/**
 * A position in the order of a queue. Plain data: it may be copied, stored and compared. All zero:
 * always passed.
 */
typedef struct vram_point {
    vram_queue *queue;
    uint64_t value;
} vram_point;

/** Makes a point after all work submitted to the queue so far. VRAM_ERR_CAPTURE in a capture. */
VRAM_API vram_status vram_queue_mark(vram_queue *queue, vram_point *point);

/** VRAM_OK if the point has passed, VRAM_ERR_NOT_READY (without an error record) if not. */
VRAM_API vram_status vram_point_poll(vram_point point);

/**
 * Waits until the point has passed. VRAM_ERR_TIMEOUT after `timeout` ns, _DEVICE_LOST, _SHUTDOWN.
 */
VRAM_API vram_status vram_point_wait(vram_point point, uint64_t timeout);

/**
 * Makes work submitted to `queue` from now on start after `point`, which may be on another queue of
 * the same backend. The device waits, the host does not.
 */
VRAM_API vram_status vram_queue_after(vram_queue *queue, vram_point point);

/* --------------------------------------------------------- copies and fills */

/*
 * All are asynchronous and ordered on the queue. Device ranges must lie in live memory of the
 * device, and a range that begins with a block of a pool must end in it; otherwise the call returns
 * VRAM_ERR_INVALID and submits nothing (vram/transfer.h has the limits of this check). Host memory
 * must stay unchanged until a later point has passed; a driver may copy pageable memory before the
 * call returns. 0 bytes do nothing.
 */

/** Copies from the host to the device. */
VRAM_API vram_status vram_queue_upload(vram_queue *queue, vram_addr to, const void *from,
                                       uint64_t bytes);

/** Copies from the device to the host. */
VRAM_API vram_status vram_queue_download(vram_queue *queue, void *to, vram_addr from,
                                         uint64_t bytes);

/**
 * Copies within the queue's device, or from a peer after vram_device_peer_enable. Overlapping
 * ranges are VRAM_ERR_INVALID.
 */
VRAM_API vram_status vram_queue_copy(vram_queue *queue, vram_addr to, vram_addr from,
                                     uint64_t bytes);

/**
 * Fills memory with a pattern of 1, 2 or 4 bytes. `to` and `bytes` must be multiples of
 * `pattern_bytes`.
 */
VRAM_API vram_status vram_queue_fill(vram_queue *queue, vram_addr to, uint32_t pattern,
                                     uint32_t pattern_bytes, uint64_t bytes);

/**
 * Moves managed memory to a device or to the host before it is used, in the order of the queue:
 * VRAM_TARGET_OWN, VRAM_TARGET_HOST, or the index of any device (vram/device.h). It is a hint:
 * contents stay the same. VRAM_ERR_UNSUPPORTED without VRAM_CAP_MANAGED, for a target of another
 * backend, and for another device of OpenCL, which migrates to the queue's own device only;
 * VRAM_ERR_NO_DEVICE for an index that no device has, _INVALID for other memory.
 */
VRAM_API vram_status vram_queue_prefetch(vram_queue *queue, vram_addr addr, uint64_t bytes,
                                         int32_t target);

/* ------------------------------------------------------------------ kernels */

/** One group of a launch, as a kernel in C gets it (host and simulated devices). */
typedef struct vram_kernel_call {
    uint32_t group[3];      /* which group this is */
    uint32_t groups[3];     /* how many there are */
    uint32_t group_size[3]; /* items in a group; the kernel loops over them itself */
    void *const *arguments; /* arguments[i] points to the value of argument i */
} vram_kernel_call;

/** A kernel in C. Called once for each group, in any order and from any thread. */
typedef void vram_kernel_fn(const vram_kernel_call *call);

typedef enum vram_kernel_format {
    VRAM_KERNEL_C = 0,        /* code is a vram_kernel_fn cast to const void * */
    VRAM_KERNEL_PTX = 1,      /* code is PTX text or a cubin */
    VRAM_KERNEL_OPENCL_C = 2, /* code is OpenCL C text, compiled by the device's driver */
    VRAM_KERNEL_SPIRV = 3,    /* code is a SPIR-V module */
    VRAM_KERNEL_HSACO = 4,    /* code is an AMD code object, as hipcc --genco writes it */
    VRAM_KERNEL_METAL = 5     /* code is Metal shading language text */
} vram_kernel_format;

typedef struct vram_kernel_source {
    size_t size; /* sizeof(vram_kernel_source) */
    vram_kernel_format format;
    const void *code;  /* read before the call returns; VRAM_KERNEL_C: must last */
    size_t code_bytes; /* 0 for VRAM_KERNEL_C */
    const char *entry; /* name of the function, in the code and in reports */
} vram_kernel_source;

/** Loads code. VRAM_ERR_UNSUPPORTED for a format that the device cannot run. */
VRAM_API vram_status vram_kernel_create(vram_device *device, const vram_kernel_source *source,
                                        vram_kernel **kernel);

/** Unloads a kernel. The caller must have waited for its launches. NULL is allowed. */
VRAM_API vram_status vram_kernel_destroy(vram_kernel *kernel);

typedef struct vram_launch {
    size_t size;                  /* sizeof(vram_launch) */
    uint32_t groups[3];           /* each at least 1 */
    uint32_t group_size[3];       /* each at least 1 */
    uint32_t argument_count;      /* at most 32 */
    const void *const *arguments; /* arguments[i] points to the value; copied by the call */
    const size_t *argument_bytes; /* size of each value, at most 4096 together; addresses are
                                        passed as vram_addr, 8 bytes */
    /* Bit i: argument i is a vram_addr in memory of the queue's device (with VRAM_CAP_TRUE_ADDRESS
       also in page-locked memory), and the kernel gets a pointer of its own kind. Required without
       VRAM_CAP_TRUE_ADDRESS. With it, the call checks these addresses. */
    uint32_t address_mask;
} vram_launch;

/**
 * Submits a launch. Argument values are copied before the call returns. VRAM_ERR_INVALID, and
 * nothing is submitted, if an argument in address_mask is not an address of the device. Some
 * devices can pass only whole blocks to kernels (OpenCL without shared virtual memory): there it
 * must be the first address of a block or allocation. Pass the block and, as a number, the offset
 * in it.
 */
VRAM_API vram_status vram_queue_launch(vram_queue *queue, vram_kernel *kernel,
                                       const vram_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
