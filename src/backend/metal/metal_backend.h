/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_backend.h: what the files of the Metal backend share.
 *
 *   metal_api.h       the part of Metal that is used, as two lists
 *   metal_backend.c   loads Metal, says why it is absent, describes devices
 *   metal_error.c     errors of Metal become statuses and one line of text
 *   metal_device.c    opening and closing
 *   metal_memory.c    heaps and their buffers, pinned memory, the working set
 *   metal_queue.c     command queues and command buffers: creating, recording, committing
 *   metal_timeline.c  words; completion, signals, waits, polls
 *   metal_copy.c      copies and fills
 *   metal_kernel.c    kernels in Metal's shading language, the program's and built-in ones
 *
 * Not run on hardware: it has only run on the tests' driver (tests/fake), which was written from
 * Apple's documentation.
 *
 * An allocation is a placement heap in private storage with one buffer over the whole of it, behind
 * a window of addresses. Heaps have hazard tracking, so that the command buffers of one queue stay
 * in order whatever they access. Pinned memory is a buffer in shared storage, and its address is
 * the host's.
 */
#ifndef VR_METAL_BACKEND_H
#define VR_METAL_BACKEND_H

#include "backend/backend.h"
#include "backend/metal/metal_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"

#define VR_METAL_GRANULE (UINT64_C(64) << 10) /* a multiple of every page size of Macs */

/* ------------------------------------------------------------------ objects */

/* vr_backend.impl */
struct vr_metal {
    struct vr_library library;
    struct vr_metal_api api;
    vr_mtl_id devices; /* an array, retained; NULL: `adopted` is used */
    vr_mtl_id adopted; /* the program's device, retained; NULL: none */
    uint32_t device_count;
};

/* The built-in kernels. */
enum vr_metal_builtin { VR_METAL_COPY_BYTES, VR_METAL_FILL_BYTES, VR_METAL_BUILTIN_COUNT };

/* vr_device.impl */
struct vr_metal_device {
    const struct vr_metal_api *api;
    vr_mtl_id device;                           /* retained */
    bool addresses;                             /* buffers report the address that kernels use */
    vr_mtl_id builtins[VR_METAL_BUILTIN_COUNT]; /* pipelines, retained */
    struct vr_mutex lock;                       /* guards the list, never across a call of Metal */
    struct vr_list pinned;                      /* vr_metal_memory.link */
};

/* One allocation. Records are type-stable, because addresses are looked up without a lock. */
struct vr_metal_memory {
    void *unused; /* the first pointer is the free list's */
    vr_mtl_id heap;
    _Atomic(vr_mtl_id) buffer;
    vr_atomic_u64 bytes;
    vr_atomic_u64 address; /* that kernels use for the first byte; 0: unknown */
    vram_addr addr;        /* of the window, or of the pinned memory */
    struct vr_link link;   /* in vr_metal_device.pinned */
};

/* The buffer behind an address. */
struct vr_metal_location {
    vr_mtl_id buffer;
    uint64_t offset;
    uint64_t bytes;   /* of the buffer */
    uint64_t address; /* for kernels; 0: unknown */
};

/* The word of a queue. Type-stable: a wait may read it after the queue is destroyed. */
struct vr_metal_word {
    void *unused; /* the first pointer is the free list's */
    vr_atomic_u64 value;
};

/* vr_queue.impl */
struct vr_metal_queue {
    struct vr_metal_device *device;
    struct vr_metal_api api;    /* a copy, for callbacks after the device is closed */
    vr_mtl_id queue, event;     /* retained */
    struct vr_mutex submission; /* keeps (1) of metal_timeline.c, and guards the next */
    uint64_t signalled;         /* highest value submitted to the event */
    struct vr_mutex lock;       /* guards the rest */
    struct vr_cond done;        /* an entry was removed */
    struct vr_list entries;     /* submitted, not known to be complete */
    int64_t failed;             /* code of the first failure; 0: none */
    bool advancing;             /* a thread is removing entries */
    uint32_t refs;              /* one of the queue and one per entry */
    struct vr_metal_word *word;
};

struct vr_metal_entry {
    struct vr_link link;
    struct vr_metal_queue *queue;
    bool done, failed; /* its command buffer has ended; with an error */
    uint64_t signal;   /* value for the word; 0: none */
    void *to;          /* download: destination in host memory; NULL: none */
    const void *from;
    uint64_t bytes;
    vr_mtl_id staging; /* released on completion; NULL: none */
};

/* A command buffer that is being recorded: between vr_metal_begin and _commit or _cancel. */
struct vr_metal_recording {
    struct vr_metal_queue *queue;
    struct vr_metal_device *device;
    struct vr_metal_entry *entry; /* its entry in the queue */
    vr_mtl_id buffer;             /* autoreleased */
    void *pool;                   /* autorelease pool */
};

/* ------------------------------------------------------------------- errors */

/* The status of a command buffer's error code; VRAM_ERR_BACKEND for one that is not in the
   table. */
vram_status vr_metal_status(int64_t code);
/* Metal returned nil instead of an object. */
vram_status vr_metal_nil(vram_status status, const char *operation);
/* ... and perhaps an NSError. */
vram_status vr_metal_error(const struct vr_metal_api *api, vr_mtl_id error, vram_status status,
                           const char *operation);

/* ------------------------------------------------------------------ devices */

/* Device `index`, borrowed; NULL with the error set if there is none. */
vr_mtl_id vr_metal_device_at(const struct vr_metal *metal, uint32_t index);

/* ------------------------------------------------------------------- memory */

/* The buffer behind an address of device memory or pinned memory. Lock-free for the former. */
bool vr_metal_location_find(struct vr_metal_device *device, vram_addr addr,
                            struct vr_metal_location *location);
/* Creates a buffer in shared storage, retained. */
vram_status vr_metal_shared_buffer_make(struct vr_metal_device *device, uint64_t bytes,
                                        const char *operation, vr_mtl_id *buffer, void **contents);

/* ------------------------------------------------------------------- queues */

/* Starts a command buffer. On VRAM_OK the caller must call one of the next two; until then other
   threads wait, because command buffers are committed in the order of their entries. */
vram_status vr_metal_begin(struct vr_queue *queue, const char *operation,
                           struct vr_metal_recording *recording);
void vr_metal_commit(struct vr_metal_recording *recording);
void vr_metal_cancel(struct vr_metal_recording *recording);
/* On completion `bytes` are copied from `from` to the host memory `to` (NULL: none), and `staging`
   is released. */
void vr_metal_on_complete(struct vr_metal_recording *recording, void *to, const void *from,
                          uint64_t bytes, vr_mtl_id staging);

/* Frees the record of a queue without references. */
void vr_metal_queue_free(struct vr_metal_queue *queue);

/* Metal calls this when a command buffer has ended, on any thread. */
void vr_metal_completed(struct vr_mtl_block *block, vr_mtl_id buffer);

/* A new encoder; NULL with the error set if there is none. */
vr_mtl_id vr_metal_blit_encoder(const struct vr_metal_recording *recording);
vr_mtl_id vr_metal_compute_encoder(const struct vr_metal_recording *recording);

/* ------------------------------------------------------------------ kernels */

/* Creates and releases the pipelines of the built-in kernels. */
vram_status vr_metal_builtins_make(struct vr_metal_device *device);
void vr_metal_builtins_end(struct vr_metal_device *device);

/* ------------------------------------------------------------------- tables */

vr_device_open_fn vr_metal_device_open;
vr_queue_upload_fn vr_metal_upload;
vr_queue_download_fn vr_metal_download;
vr_queue_copy_fn vr_metal_copy;
vr_queue_fill_fn vr_metal_fill;
vr_queue_signal_fn vr_metal_signal;
vr_queue_after_fn vr_metal_after;
vr_queue_poll_fn vr_metal_poll;
vr_memory_info_fn vr_metal_memory_info;
vr_memory_alloc_fn vr_metal_memory_alloc;
vr_memory_free_fn vr_metal_memory_free;
extern const struct vr_pinned_ops vr_metal_pinned_ops;
extern const struct vr_handle_ops vr_metal_handle_ops;
extern const struct vr_queue_ops vr_metal_queue_ops;
extern const struct vr_kernel_ops vr_metal_kernel_ops;

#endif
