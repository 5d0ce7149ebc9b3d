/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_backend.h: what the files of the Metal backend share.
 *
 *   metal_api.h     what is used of Metal, as two lists
 *   metal_backend.c loads Metal, says why it is absent, describes devices
 *   metal_device.c  heaps and what lies in them, pinned memory, the working set
 *   metal_queue.c   command buffers from submission to completion, and the time they tell
 *   metal_copy.c    copies and fills
 *   metal_kernel.c  kernels from text in Metal's shading language, ours and the program's
 *
 * Not run on hardware: what is known of it is what the tests' driver (tests/fake) does, which was
 * written from Apple's documentation.
 *
 * An allocation is a placement heap in private storage with one buffer over the whole of it, behind
 * a window of addresses. Heaps are made with hazard tracking, so that the command buffers of one
 * queue stay in order whatever they touch. Pinned memory is a buffer in shared storage, and its
 * address is the host's.
 */
#ifndef VR_METAL_BACKEND_H
#define VR_METAL_BACKEND_H

#include "backend/backend.h"
#include "backend/metal/metal_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"

#define VR_METAL_GRANULE (UINT64_C(64) << 10) /* a multiple of every page size that Macs have */

/* ------------------------------------------------------------------ objects */

/* vr_backend.impl */
struct vr_metal {
    struct vr_library library;
    struct vr_metal_api api;
    vr_mtl_id devices; /* an array, retained; NULL: there is the next */
    vr_mtl_id adopted; /* the program's device, retained; NULL: none */
    uint32_t device_count;
};

/* The backend's own kernels. */
enum vr_metal_tool { VR_METAL_COPY_BYTES, VR_METAL_FILL_BYTES, VR_METAL_TOOL_COUNT };

/* vr_device.impl */
struct vr_metal_device {
    const struct vr_metal_api *api;
    vr_mtl_id device;                     /* retained */
    bool addresses;                       /* buffers tell the address that kernels use */
    vr_mtl_id tools[VR_METAL_TOOL_COUNT]; /* pipelines, retained */
    struct vr_mutex lock;                 /* guards the list, never a call of Metal's */
    struct vr_list pinned;                /* vr_metal_memory.link */
};

/* Memory of a device. Its records are type-stable, since addresses are looked up without a lock. */
struct vr_metal_memory {
    void *unused; /* the first word is the free list's */
    vr_mtl_id heap;
    _Atomic(vr_mtl_id) buffer;
    vr_atomic_u64 bytes;
    vr_atomic_u64 address; /* that kernels use for the first byte; 0: it is not told */
    vram_addr addr;        /* a window's, or the host's of pinned memory */
    struct vr_link link;   /* of pinned memory */
};

/* Where an address lies for Metal. */
struct vr_metal_span {
    vr_mtl_id buffer;
    uint64_t offset;
    uint64_t bytes;   /* of the buffer */
    uint64_t address; /* as kernels use it; 0: it is not told */
};

struct vr_metal_queue;
struct vr_metal_entry;

/* A command buffer that is being filled: between vr_metal_begin and _commit or _abandon. */
struct vr_metal_work {
    struct vr_metal_queue *queue;
    struct vr_metal_device *device;
    struct vr_metal_entry *entry; /* its place among what the queue was given */
    vr_mtl_id buffer;             /* autoreleased */
    void *pool;                   /* of autoreleased objects */
};

/* ------------------------------------------------------------------- errors */

/* What a code of a command buffer means; VRAM_ERR_BACKEND for one that the table does not know. */
vram_status vr_metal_status(int64_t code);
/* Metal gave nothing where it owed an object. */
vram_status vr_metal_nothing(vram_status status, const char *operation);
/* ... and perhaps said why. */
vram_status vr_metal_refused(const struct vr_metal_api *api, vr_mtl_id error, vram_status status,
                             const char *operation);

/* ------------------------------------------------------------------ devices */

/* The device of that number, borrowed; recorded when there is none. */
vr_mtl_id vr_metal_device_at(const struct vr_metal *metal, uint32_t index);

/* ------------------------------------------------------------------- memory */

/* Where an address of the device's memory, or of its pinned memory, lies. Lock-free for the
   former. */
bool vr_metal_find(struct vr_metal_device *device, vram_addr addr, struct vr_metal_span *span);
/* A buffer that the host can read and write; retained. */
vram_status vr_metal_shared(struct vr_metal_device *device, uint64_t bytes, const char *operation,
                            vr_mtl_id *buffer, void **contents);

/* ------------------------------------------------------------------- queues */

/* Starts a command buffer; the caller owes one of the next two on VRAM_OK. Others wait that long:
   command buffers are committed in the order of their entries. */
vram_status vr_metal_begin(struct vr_queue *queue, const char *operation,
                           struct vr_metal_work *work);
void vr_metal_commit(struct vr_metal_work *work);
void vr_metal_abandon(struct vr_metal_work *work);
/* When the work is done, `bytes` are copied `to` the host's memory `from` there (NULL: none), and
   `staging` is released. */
void vr_metal_when_done(struct vr_metal_work *work, void *to, const void *from, uint64_t bytes,
                        vr_mtl_id staging);

/* An encoder that was asked for with this message; recorded when there is none. */
vr_mtl_id vr_metal_blit(const struct vr_metal_work *work);
vr_mtl_id vr_metal_compute(const struct vr_metal_work *work);

/* ------------------------------------------------------------------ kernels */

/* Makes the pipelines of the backend's own kernels, and ends them. */
vram_status vr_metal_tools_make(struct vr_metal_device *device);
void vr_metal_tools_end(struct vr_metal_device *device);

/* ------------------------------------------------------------------- tables */

vr_device_open_fn vr_metal_device_open;
vr_queue_upload_fn vr_metal_upload;
vr_queue_download_fn vr_metal_download;
vr_queue_copy_fn vr_metal_copy;
vr_queue_fill_fn vr_metal_fill;
extern const struct vr_queue_ops vr_metal_queue_ops;
extern const struct vr_kernel_ops vr_metal_kernel_ops;

#endif
