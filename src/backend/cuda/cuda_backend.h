/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_backend.h: what the files of the CUDA backend share.
 *
 *   cuda_backend.c  loads the driver, says why it is absent, describes devices
 *   cuda_error.c    driver codes become statuses and one line for people
 *   cuda_device.c   the primary context, device memory, pinned memory
 *   cuda_vmm.c      addresses without memory, memory without addresses
 *   cuda_queue.c    streams: copies, fills, signals, waits
 *   cuda_word.c     the words that streams write to
 *
 * It is a thin backend: managed memory, peers and kernels are known to be absent.
 */
#ifndef VR_CUDA_BACKEND_H
#define VR_CUDA_BACKEND_H

#include "backend/backend.h"
#include "backend/cuda/cuda_api.h"
#include "base/loader.h"
#include "base/lock.h"

/* Device memory is taken in multiples of what the driver maps at once on every GPU of the last
   decade; smaller blocks are a pool's business. */
#define VR_CUDA_GRANULE (UINT64_C(2) << 20)

/* ------------------------------------------------------------------ objects */

/* vr_backend.impl */
struct vr_cuda {
    struct vr_library library;
    struct vr_cuda_api api;
    uint32_t device_count;
};

struct vr_cuda_page;

/* The words of a device's queues; cuda_word.c. */
struct vr_cuda_words {
    struct vr_mutex lock;       /* guards the list and the pages' marks, never a driver call */
    struct vr_cuda_page *pages; /* newest first */
};

/* vr_device.impl */
struct vr_cuda_device {
    const struct vr_cuda_api *api;
    vr_cu_device ordinal;
    struct vr_cu_context *context; /* the primary one, retained; the runtime API's */
    vr_atomic_bool memory_ops;     /* streams can write and await 64-bit words themselves */
    struct vr_cuda_words words;
};

/* vr_queue.impl */
struct vr_cuda_queue {
    struct vr_cu_stream *stream;
    uint64_t thread;         /* number of the only thread that may submit; 0: any may */
    vr_atomic_u64 signalled; /* highest value that any signal was asked to write */
};

/* ------------------------------------------------------------------- errors */

/* What a code means; VRAM_ERR_BACKEND for one that the table does not know. */
vram_status vr_cuda_status(vr_cu_result code);

/* VRAM_OK for VR_CU_SUCCESS; else records the failure of `operation` and returns its status. The
   driver has one code for all exhaustion: `exhausted` says what ran out in this call. */
vram_status vr_cuda_check(const struct vr_cuda_api *api, const char *operation, vr_cu_result code,
                          vram_status exhausted);

/* Calls a driver function through `owner`->api and checks the result. */
#define VR_CUDA(owner, function, ...)                                                              \
    vr_cuda_check((owner)->api, #function, (owner)->api->function(__VA_ARGS__),                    \
                  VRAM_ERR_DEVICE_MEMORY)

/* A success whose result cannot be: logged as the driver's fault, VRAM_ERR_CORRUPT. */
vram_status vr_cuda_lied(const char *operation, uint64_t result);

/* Notes a refusal that nobody can be told about: contract (7) of backend.h. */
void vr_cuda_shrug(const struct vr_cuda_api *api, const char *operation, vr_cu_result code);

/* ----------------------------------------------------------------- contexts */

/* The time between making a device's context current and giving the thread back as it was. Scopes
   nest. */
struct vr_cuda_scope {
    const struct vr_cuda_device *device;
    enum vr_cu_capture_mode mode; /* the thread's own, when relaxed */
    bool relaxed;                 /* whether it has to be put back */
};

/* Submissions to a stream are made as they are. Calls that a graph capture elsewhere would forbid
   and be spoiled by (memory, queries, synchronisation) are made relaxed: they concern the library's
   own objects, never the capture. */
enum vr_cuda_manner { VR_CUDA_AS_IT_IS, VR_CUDA_RELAXED };

vram_status vr_cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device,
                          enum vr_cuda_manner manner);
void vr_cuda_leave(const struct vr_cuda_scope *scope);

/* -------------------------------------------------------------------- words */

/* Makes the first page; the device's context is current. */
vram_status vr_cuda_words_init(struct vr_cuda_device *device);
/* Frees all pages; without driver calls when the device is lost. Needs the context otherwise. */
void vr_cuda_words_end(struct vr_cuda_device *device, bool lost);
/* A word that no queue uses; it keeps what the last one left. The device's context is current. */
vram_status vr_cuda_word_take(struct vr_cuda_device *device, vr_atomic_u64 **word);
/* Lets a later queue use it; no write to it is outstanding. */
void vr_cuda_word_give(struct vr_cuda_device *device, vr_atomic_u64 *word);
/* Has the stream write `value` behind its work. The device's context is current. */
vram_status vr_cuda_word_write(struct vr_cuda_device *device, struct vr_cu_stream *stream,
                               vr_atomic_u64 *word, uint64_t value);

/* ------------------------------------------------------------------- tables */

vr_device_open_fn vr_cuda_device_open;
extern const struct vr_queue_ops vr_cuda_queue_ops;
extern const struct vr_vmm_ops vr_cuda_vmm_ops;

#endif
