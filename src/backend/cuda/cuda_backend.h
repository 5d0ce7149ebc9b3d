/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_backend.h: what the files of the CUDA backend share, with each other and with HIP's.
 *
 * HIP is CUDA under other names, so most of the code serves both. What differs is in a dialect.
 *
 *   cuda_driver.c    NVIDIA's dialect: its library, its contexts, its codes
 *   cuda_backend.c   loads the driver, says why it is absent, describes devices
 *   cuda_error.c     driver codes become statuses and one line of text
 *   cuda_device.c    opening and closing, the current context
 *   cuda_memory.c    device memory and pinned memory
 *   cuda_vmm.c       virtual memory management
 *   cuda_share.c     memory that other processes import
 *   cuda_managed.c   managed memory
 *   cuda_peer.c      devices that use each other's memory
 *   cuda_queue.c     streams: creating, adopting, destroying
 *   cuda_timeline.c  words, events; signals, waits, polls
 *   cuda_copy.c      copies and fills
 *   cuda_kernel.c    kernels
 *   cuda_nvml.c      memory that other processes hold
 *   ../hip           AMD's dialect, and tests of what its drivers promise
 */
#ifndef VR_CUDA_BACKEND_H
#define VR_CUDA_BACKEND_H

#include "backend/backend.h"
#include "backend/cuda/cuda_api.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/option.h"

/* ----------------------------------------------------------------- dialects */

struct vr_cuda_device;
struct vr_cuda_scope;

/* The meaning of a range of result codes. */
struct vr_cuda_error_row {
    vr_cu_result first, last; /* codes, both included */
    vram_status status;
    const char *hint; /* what the user can do about it, or NULL */
};

/* Attributes that both drivers have, under different numbers. */
enum vr_cuda_query {
    VR_CUDA_QUERY_UNIFIED,
    VR_CUDA_QUERY_INTEGRATED,
    VR_CUDA_QUERY_MAJOR,
    VR_CUDA_QUERY_MINOR,
    VR_CUDA_QUERY_HOST_ADDRESS, /* registered host memory has one address for host and device */
    VR_CUDA_QUERY_MEMORY_OPS,   /* 64-bit memory operations of streams */
    VR_CUDA_QUERY_MEMORY_OPS_EARLIER,
    VR_CUDA_QUERY_VMM,
    VR_CUDA_QUERY_RDMA,        /* network cards can register mapped memory */
    VR_CUDA_QUERY_DESCRIPTORS, /* exportable memory */
    VR_CUDA_QUERY_FABRIC,      /* the same to other machines */
    VR_CUDA_QUERY_MANAGED,
    VR_CUDA_QUERY_CONCURRENT_MANAGED,
    VR_CUDA_QUERY_COUNT
};

#define VR_CUDA_NO_QUERY (-1) /* instead of a number: the driver has no such attribute */

/* The differences between the two drivers. */
struct vr_cuda_dialect {
    const char *name;                /* name of the backend */
    const char *const *names;        /* names of the calls, by enum vr_cu_call */
    const char *const *sonames;      /* versioned names first; NULL ends the list */
    const struct vr_symbol *symbols; /* the loader's rows */
    size_t symbol_count;
    enum vr_option library; /* the option that selects another library */
    const char *chosen;     /* what to say if the library that the option names does not load */
    const char *install;    /* what to do if none of the names loads */
    const struct vr_cuda_error_row *rows; /* the one table of codes, contract (4) of backend.h */
    size_t row_count;
    int queries[VR_CUDA_QUERY_COUNT]; /* the driver's numbers, or VR_CUDA_NO_QUERY */
    const char *architecture;         /* format of major and minor; NULL: they do not tell it */
    uint64_t granule;                 /* granule of device memory; the driver aligns to it */
    bool sets_memory_aside;           /* an integrated GPU may have memory that is not the host's */
    unsigned word_flags;              /* flags for the memory of words */
    bool nvtx;                        /* its tools use NVTX */
    enum vram_kernel_format kernel_format; /* the format that it runs */
    const char *kernel_format_name;
    enum vr_cu_call wait_call; /* the call that wait_value makes */

    /* Writes the version as text, or fails if it is too old. */
    vram_status (*version)(const struct vr_cuda_api *api, char *text, size_t bytes);
    /* Starts using a device, and stops using it. */
    vram_status (*retain)(struct vr_cuda_device *device);
    void (*release)(struct vr_cuda_device *device);
    /* Makes the device current for the calling thread, and restores what was current before. */
    vram_status (*enter)(struct vr_cuda_scope *scope, const struct vr_cuda_device *device);
    void (*leave)(const struct vr_cuda_scope *scope);
    /* Checks that a stream of the program belongs to this device. */
    vram_status (*stream_home)(const struct vr_cuda_device *device, struct vr_cu_stream *stream);
    /* Makes the stream wait until *addr >= value. */
    vr_cu_result (*wait_value)(const struct vr_cuda_api *api, struct vr_cu_stream *stream,
                               vr_cu_addr addr, uint64_t value);
    /* Makes the stream migrate managed memory to the device with that ordinal, or to the host
       (VRAM_TARGET_HOST). VR_CU_NOT_SUPPORTED if the driver has no such call. */
    vr_cu_result (*prefetch)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                             vr_cu_addr addr, size_t bytes, int32_t target);
    enum vr_cu_call prefetch_call;
    vr_cu_result (*advise)(const struct vr_cuda_device *device, vr_cu_addr addr, size_t bytes,
                           enum vr_cu_advice advice, int32_t target);
    enum vr_cu_call advise_call;
    /* Lets the device, which is current, use the peer's memory; copies from the peer. */
    bool (*has_peer_calls)(const struct vr_cuda_api *api);
    vr_cu_result (*peer_enable)(const struct vr_cuda_device *device,
                                const struct vr_cuda_device *peer);
    enum vr_cu_call peer_call;
    vr_cu_result (*peer_copy)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                              vr_cu_addr to, const struct vr_cuda_device *peer, vr_cu_addr from,
                              size_t bytes);
    enum vr_cu_call peer_copy_call;
    /* Copies rows. VR_CU_NOT_SUPPORTED if the driver has no such call. */
    vr_cu_result (*copy_rows)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                              const struct vr_rectangle *rectangle);
    enum vr_cu_call copy_rows_call;
    /* Memory that other processes hold; NULL if nothing can tell. */
    vr_memory_others_fn *others;
    /* Tests, on a device just opened, features that the driver is known to report wrongly, and
       removes the capabilities that do not work. NULL: the driver is trusted. */
    vram_status (*probe)(struct vr_device *device);
};

extern const struct vr_cuda_dialect vr_cuda_dialect;

/* ------------------------------------------------------------------ objects */

/* vr_backend.impl */
struct vr_cuda {
    struct vr_library library;
    struct vr_cuda_api api;
    uint32_t device_count;
};

struct vr_cuda_page;

/* The words of a device's queues; cuda_timeline.c. */
struct vr_cuda_words {
    struct vr_mutex lock; /* guards the list and `taken` of the pages, never across a driver call */
    struct vr_cuda_page *pages; /* newest first */
};

#define VR_CUDA_PEERS_MAX 64

struct vr_cuda_mapping;

/* The devices that use this one's memory, and its mappings, which they get access to;
   cuda_peer.c. */
struct vr_cuda_peers {
    bool possible;                    /* otherwise the rest is unused */
    struct vr_mutex lock;             /* guards what follows, never across a driver call */
    uint64_t readers;                 /* bit i: device i uses this one's memory */
    struct vr_cuda_mapping *mappings; /* by address */
    size_t mapping_count, mapping_capacity;
};

/* vr_device.impl */
struct vr_cuda_device {
    const struct vr_cuda_api *api;
    vr_cu_device ordinal;
    struct vr_cu_context *context; /* CUDA: the primary context, retained */
    unsigned long long context_id; /* CUDA: of that context until it is reset; 0: unknown */
    vr_atomic_bool memory_ops;     /* streams can write 64-bit words ... */
    vr_atomic_bool stream_waits;   /* ... and wait for them */
    vr_atomic_bool no_functions;   /* streams cannot call host functions either */
    vr_atomic_bool rdma;           /* memory is created so that network cards can register it */
    struct vr_cuda_words words;
    struct vr_cuda_peers peers;
};

struct vr_cuda_signal_event;

/* Signals by events; cuda_timeline.c. */
struct vr_cuda_events {
    struct vr_mutex lock;                      /* guards the list, never across a driver call */
    struct vr_cuda_signal_event *first, *last; /* oldest first */
};

/* vr_queue.impl */
struct vr_cuda_queue {
    struct vr_cu_stream *stream;
    uint64_t thread;         /* the only thread that may submit; 0: any */
    bool has_id;             /* the driver numbers streams and this one was adopted */
    vr_atomic_u64 id;        /* that number, never reused; 0 until the stream is not captured */
    vr_atomic_u64 signalled; /* highest value of any signal */
    struct vr_cuda_events events;
};

/* ------------------------------------------------------------------- errors */

/* The status of a code; VRAM_ERR_BACKEND for one that is not in the dialect's table. */
vram_status vr_cuda_status(const struct vr_cuda_dialect *dialect, vr_cu_result code);

/* VRAM_OK for VR_CU_SUCCESS; otherwise records the failure of the call and returns its status. The
   driver has one code for all exhaustion: `exhausted` says what ran out in this call. */
vram_status vr_cuda_check(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code,
                          vram_status exhausted);

/* Calls a driver function through `owner`->api and checks the result. */
#define VR_CUDA(owner, function, ...)                                                              \
    vr_cuda_check((owner)->api, VR_CU_CALL_##function, (owner)->api->function(__VA_ARGS__),        \
                  VRAM_ERR_DEVICE_MEMORY)

/* A success with an impossible result: logged as the driver's error; VRAM_ERR_CORRUPT. */
vram_status vr_cuda_bad_result(const struct vr_cuda_api *api, enum vr_cu_call call,
                               uint64_t result);

/* Logs a failure that cannot be returned: contract (7) of backend.h. */
void vr_cuda_warn(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code);

/* ----------------------------------------------------------------- contexts */

/* The time during which a device's context is current; afterwards the thread is as it was. Scopes
   nest. */
struct vr_cuda_scope {
    const struct vr_cuda_device *device;
    int before;                   /* HIP: the device that was current */
    bool clean;                   /* HIP: the thread had no unread error */
    enum vr_cu_capture_mode mode; /* the thread's own, if relaxed */
    bool relaxed;                 /* whether to restore it */
};

/* Submissions leave the thread's capture mode unchanged. Calls that a capture on another stream
   would forbid, and that would invalidate it (memory, queries, synchronisation), are made relaxed:
   they concern objects of the library, never the capture. */
enum vr_cuda_mode { VR_CUDA_UNCHANGED, VR_CUDA_RELAXED };

vram_status vr_cuda_enter(struct vr_cuda_scope *scope, const struct vr_cuda_device *device,
                          enum vr_cuda_mode how);
void vr_cuda_leave(const struct vr_cuda_scope *scope);

/* -------------------------------------------------------------------- words */

/* Allocates the first page; the device's context is current. */
vram_status vr_cuda_words_init(struct vr_cuda_device *device);
/* Frees all pages. Needs the context, unless the device is lost: then it makes no driver call. */
void vr_cuda_words_end(struct vr_cuda_device *device, bool lost);
/* A word that no queue uses, with the value that its last queue left. The context is current. */
vram_status vr_cuda_word_take(struct vr_cuda_device *device, vr_atomic_u64 **word);
/* Lets a later queue use it; no write to it is pending. */
void vr_cuda_word_give(struct vr_cuda_device *device, vr_atomic_u64 *word);

/* -------------------------------------------------------------------- peers */

void vr_cuda_peers_init(struct vr_cuda_device *device, bool possible);
void vr_cuda_peers_end(struct vr_cuda_device *device);
/* Lists a mapping; notes which access those in a range are about to get; removes those. */
vram_status vr_cuda_mapping_add(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes);
void vr_cuda_mapping_note(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes,
                          bool accessible, bool read_only);
void vr_cuda_mapping_remove(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes);
/* Lists the device itself and all devices that use its memory; returns how many. */
size_t vr_cuda_readers(struct vr_cuda_device *device,
                       struct vr_cu_access access[VR_CUDA_PEERS_MAX]);

/* ------------------------------------------------------------ signals as events */

void vr_cuda_events_init(struct vr_cuda_events *events);
/* Raises the word to the value of the last event that is complete. The device's context is current,
   here and below. */
vram_status vr_cuda_events_poll(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                                vr_atomic_u64 *word);
/* Removes all events; `finished`: they are complete. Without driver calls if the device is lost. */
void vr_cuda_events_end(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                        vr_atomic_u64 *word, bool finished, bool lost);

/* ------------------------------------------------------------------ streams */

/* Makes the context current for work that graphs may have; VRAM_ERR_CAPTURE if it would end a
   capture. On VRAM_OK the caller must call vr_cuda_leave, here and below. */
vram_status vr_cuda_submit_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                                 enum vr_cu_call call);
/* The same for markers and for work that graphs cannot have: VRAM_ERR_CAPTURE while the stream is
   captured; VRAM_ERR_STALE for a stream that has the handle of the adopted one and is another. */
vram_status vr_cuda_mark_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                               enum vr_cu_call call);
struct vr_cu_stream *vr_cuda_stream(const struct vr_queue *queue);
/* The stream to ask whether the work of a queue is complete. */
struct vr_cu_stream *vr_cuda_query_stream(const struct vr_cuda_queue *impl);
/* Whether the stream is being captured. The device's context is current. */
vram_status vr_cuda_capture_query(const struct vr_queue *queue, bool *captured);

static inline struct vr_cuda_device *vr_cuda_device_of(const struct vr_queue *queue) {
    return queue->device->impl;
}

/* ------------------------------------------------------------------- tables */

/* The operations of the backend, for both dialects. */
vram_status vr_cuda_start(struct vr_backend *backend, const struct vr_cuda_dialect *dialect);
vr_backend_stop_fn vr_cuda_stop;
vr_backend_count_fn vr_cuda_count;
vr_backend_describe_fn vr_cuda_describe;
vr_device_open_fn vr_cuda_device_open;
extern const struct vr_queue_ops vr_cuda_queue_ops;
extern const struct vr_pinned_ops vr_cuda_pinned_ops;
extern const struct vr_vmm_ops vr_cuda_vmm_ops;
extern const struct vr_share_ops vr_cuda_share_ops;
/* Whether it can be named in a fabric of machines, too. */
bool vr_cuda_has_fabric(const struct vr_cuda_device *cuda);
extern const struct vr_fabric_ops vr_cuda_fabric_ops;
/* Whether this driver exports memory of the device; cuda_share.c. */
bool vr_cuda_can_share(const struct vr_cuda_device *cuda, uint32_t caps);
/* Physical memory that can be exported as `handle_type`; 0: not at all; cuda_vmm.c. */
vram_status vr_cuda_physical_create(struct vr_cuda_device *cuda, uint64_t bytes, int handle_type,
                                    uint64_t *handle);
extern const struct vr_managed_ops vr_cuda_managed_ops;
extern const struct vr_peer_ops vr_cuda_peer_ops;
extern const struct vr_kernel_ops vr_cuda_kernel_ops;
vr_memory_info_fn vr_cuda_memory_info;
vr_memory_alloc_fn vr_cuda_memory_alloc;
vr_memory_others_fn vr_cuda_memory_others;
vr_memory_others_fn vr_cuda_others; /* cuda_nvml.c */
vr_queue_upload_fn vr_cuda_upload;
vr_queue_download_fn vr_cuda_download;
vr_queue_copy_fn vr_cuda_copy;
vr_queue_copy_rows_fn vr_cuda_copy_rows;
vr_queue_fill_fn vr_cuda_fill;
vr_queue_signal_fn vr_cuda_signal;
vr_queue_after_fn vr_cuda_after;
vr_queue_poll_fn vr_cuda_poll;
vr_memory_free_fn vr_cuda_memory_free; /* of managed memory too */

#endif
