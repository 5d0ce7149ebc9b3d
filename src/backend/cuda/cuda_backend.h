/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_backend.h: what the files of the CUDA backend share, with each other and with HIP's.
 *
 * HIP is CUDA under other names, so most of the code serves both; what differs is a dialect.
 *
 *   cuda_driver.c   NVIDIA's dialect: its library, its contexts, what its codes mean
 *   cuda_backend.c  loads the driver, says why it is absent, describes devices
 *   cuda_error.c    driver codes become statuses and one line for people
 *   cuda_device.c   opening and closing, device memory, pinned memory
 *   cuda_vmm.c      addresses without memory, memory without addresses
 *   cuda_queue.c    streams: copies, fills, signals, waits
 *   cuda_word.c     the words that streams write to
 *   cuda_event.c    signals where they do not
 *   cuda_managed.c  memory that migrates
 *   cuda_peer.c     devices that use each other's memory
 *   cuda_kernel.c   code, loaded and launched
 *   cuda_nvml.c     what other processes hold
 *   ../hip          AMD's dialect, and trials of what its drivers promise
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

/* What a result code means. */
struct vr_cuda_row {
    vr_cu_result first, last; /* codes, both included */
    vram_status status;
    const char *mend; /* what the user can do about it, or NULL */
};

/* Questions that drivers number differently. */
enum vr_cuda_fact {
    VR_CUDA_FACT_UNIFIED,
    VR_CUDA_FACT_MAJOR,
    VR_CUDA_FACT_MINOR,
    VR_CUDA_FACT_MEMORY_OPS, /* 64-bit memory operations of streams */
    VR_CUDA_FACT_MEMORY_OPS_EARLIER,
    VR_CUDA_FACT_VMM,
    VR_CUDA_FACT_MANAGED,
    VR_CUDA_FACT_CONCURRENT_MANAGED,
    VR_CUDA_FACT_COUNT
};

#define VR_CUDA_NOT_ASKED (-1) /* in place of a question's number: there is none */

/* What differs between the two drivers that speak CUDA. */
struct vr_cuda_dialect {
    const char *name;                /* of the backend */
    const char *const *names;        /* of the calls, by enum vr_cu_call */
    const char *const *sonames;      /* versioned names first, NULL behind the last */
    const struct vr_symbol *symbols; /* the loader's rows */
    size_t symbol_count;
    enum vr_option library;         /* the option that names another library */
    const char *chosen;             /* what to say of a library that an option names */
    const char *install;            /* what to do when none of the names loads */
    const struct vr_cuda_row *rows; /* the one table of codes, contract (4) of backend.h */
    size_t row_count;
    int facts[VR_CUDA_FACT_COUNT]; /* numbers of the questions, or VR_CUDA_NOT_ASKED */
    const char *architecture;      /* format of major and minor; NULL: they do not name it */
    uint64_t granule;    /* device memory is taken in multiples of it; the driver aligns to it */
    unsigned word_flags; /* how memory for words is asked for */
    enum vram_kernel_format kernel_format; /* the code it runs */
    const char *kernel_format_name;
    enum vr_cu_call wait_call; /* the entry behind wait_value */

    /* Writes the version for people, or says that it is too old. */
    vram_status (*version)(const struct vr_cuda_api *api, char *text, size_t bytes);
    /* Starts using a device, and ends it. */
    vram_status (*retain)(struct vr_cuda_device *device);
    void (*release)(struct vr_cuda_device *device);
    /* Makes the device current for the calling thread, and what was current before again. */
    vram_status (*enter)(struct vr_cuda_scope *scope, const struct vr_cuda_device *device);
    void (*leave)(const struct vr_cuda_scope *scope);
    /* Whether a stream of the program's is one of this device. */
    vram_status (*stream_home)(const struct vr_cuda_device *device, struct vr_cu_stream *stream);
    /* Has the stream wait until *addr >= value. */
    vr_cu_result (*wait_value)(const struct vr_cuda_api *api, struct vr_cu_stream *stream,
                               vr_cu_addr addr, uint64_t value);
    /* Has the stream move managed memory. VR_CU_NOT_SUPPORTED where there is no such call. */
    vr_cu_result (*prefetch)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                             vr_cu_addr addr, size_t bytes, bool to_host);
    enum vr_cu_call prefetch_call;
    vr_cu_result (*advise)(const struct vr_cuda_device *device, vr_cu_addr addr, size_t bytes,
                           enum vr_cu_advice advice, bool host);
    enum vr_cu_call advise_call;
    /* Lets the device, which is current, use the peer's memory; copies from there. */
    bool (*has_peer_calls)(const struct vr_cuda_api *api);
    vr_cu_result (*peer_enable)(const struct vr_cuda_device *device,
                                const struct vr_cuda_device *peer);
    enum vr_cu_call peer_call;
    vr_cu_result (*peer_copy)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                              vr_cu_addr to, const struct vr_cuda_device *peer, vr_cu_addr from,
                              size_t bytes);
    enum vr_cu_call peer_copy_call;
    /* Copies rows. VR_CU_NOT_SUPPORTED where there is no such call. */
    vr_cu_result (*copy_rows)(const struct vr_cuda_device *device, struct vr_cu_stream *stream,
                              const struct vr_rectangle *rectangle);
    enum vr_cu_call copy_rows_call;
    /* What other processes hold; NULL where nobody can be asked. */
    vr_memory_others_fn *others;
    /* Tries, on a device just opened, what the driver cannot be trusted with, and takes away the
       capabilities that do not hold; NULL where all is believed. */
    vram_status (*trial)(struct vr_device *device);
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

/* The words of a device's queues; cuda_word.c. */
struct vr_cuda_words {
    struct vr_mutex lock;       /* guards the list and the pages' marks, never a driver call */
    struct vr_cuda_page *pages; /* newest first */
};

#define VR_CUDA_PEERS_MAX 64

struct vr_cuda_mapping;

/* Who else uses a device's memory, and which of its mappings are to be opened to them;
   cuda_peer.c. */
struct vr_cuda_peers {
    bool possible;                    /* the rest is not kept otherwise */
    struct vr_mutex lock;             /* guards what follows, never a driver call */
    uint64_t readers;                 /* bit i: device i uses this one's memory */
    struct vr_cuda_mapping *mappings; /* by address */
    size_t mapping_count, mapping_room;
};

/* vr_device.impl */
struct vr_cuda_device {
    const struct vr_cuda_api *api;
    vr_cu_device ordinal;
    struct vr_cu_context *context; /* CUDA's primary one, retained; the runtime API's */
    vr_atomic_bool memory_ops;     /* streams can write 64-bit words themselves ... */
    vr_atomic_bool stream_waits;   /* ... and await them */
    vr_atomic_bool no_functions;   /* streams do not call host functions either */
    struct vr_cuda_words words;
    struct vr_cuda_peers peers;
};

struct vr_cuda_mark;

/* Signals that are events; cuda_event.c. */
struct vr_cuda_marks {
    struct vr_mutex lock;              /* guards the list, never a driver call */
    struct vr_cuda_mark *first, *last; /* oldest first */
};

/* vr_queue.impl */
struct vr_cuda_queue {
    struct vr_cu_stream *stream;
    uint64_t thread;         /* number of the only thread that may submit; 0: any may */
    unsigned long long id;   /* the driver's, never used again; 0 where it tells none */
    vr_atomic_u64 signalled; /* highest value that any signal was asked to write */
    struct vr_cuda_marks marks;
};

/* ------------------------------------------------------------------- errors */

/* What a code means; VRAM_ERR_BACKEND for one that the dialect's table does not know. */
vram_status vr_cuda_status(const struct vr_cuda_dialect *dialect, vr_cu_result code);

/* VRAM_OK for VR_CU_SUCCESS; else records the failure of the call and returns its status. The
   driver has one code for all exhaustion: `exhausted` says what ran out in this call. */
vram_status vr_cuda_check(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code,
                          vram_status exhausted);

/* Calls a driver function through `owner`->api and checks the result. */
#define VR_CUDA(owner, function, ...)                                                              \
    vr_cuda_check((owner)->api, VR_CU_CALL_##function, (owner)->api->function(__VA_ARGS__),        \
                  VRAM_ERR_DEVICE_MEMORY)

/* A success whose result cannot be: logged as the driver's fault, VRAM_ERR_CORRUPT. */
vram_status vr_cuda_lied(const struct vr_cuda_api *api, enum vr_cu_call call, uint64_t result);

/* Notes a refusal that nobody can be told about: contract (7) of backend.h. */
void vr_cuda_shrug(const struct vr_cuda_api *api, enum vr_cu_call call, vr_cu_result code);

/* ----------------------------------------------------------------- contexts */

/* The time between making a device's context current and giving the thread back as it was. Scopes
   nest. */
struct vr_cuda_scope {
    const struct vr_cuda_device *device;
    int before;                   /* HIP: the device that was current */
    bool clean;                   /* HIP: the thread had no error waiting to be read */
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
/* Has the stream write `value` behind its work. The device's context is current.
   VRAM_ERR_UNSUPPORTED, without an error record, where streams do not. */
vram_status vr_cuda_word_write(struct vr_cuda_device *device, struct vr_cu_stream *stream,
                               vr_atomic_u64 *word, uint64_t value);

/* -------------------------------------------------------------------- peers */

void vr_cuda_peers_init(struct vr_cuda_device *device, bool possible);
void vr_cuda_peers_end(struct vr_cuda_device *device);
/* Lists a mapping that is about to be usable, and forgets all in a range. */
vram_status vr_cuda_mapping_add(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes);
void vr_cuda_mapping_remove(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes);
/* The device itself and all that use its memory; how many. */
size_t vr_cuda_readers(struct vr_cuda_device *device, struct vr_cu_access *access, size_t room);

/* ------------------------------------------------------------ signals as events */

void vr_cuda_marks_init(struct vr_cuda_marks *marks);
/* Signals by an event. The device's context is current, here and below. */
vram_status vr_cuda_mark_add(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                             uint64_t value);
/* Writes into the word how far the events have come. */
vram_status vr_cuda_marks_look(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                               vr_atomic_u64 *word);
/* Forgets all; finished: they were reached. Without driver calls when the device is lost. */
void vr_cuda_marks_end(const struct vr_cuda_device *device, struct vr_cuda_queue *queue,
                       vr_atomic_u64 *word, bool finished, bool lost);

/* ------------------------------------------------------------------ streams */

/* Makes the context current for a submission; the caller owes vr_cuda_leave on VRAM_OK. */
vram_status vr_cuda_submit_begin(const struct vr_queue *queue, struct vr_cuda_scope *scope,
                                 enum vr_cu_call call);
struct vr_cu_stream *vr_cuda_stream(const struct vr_queue *queue);

/* ------------------------------------------------------------------- tables */

/* The operations of a backend, for both dialects. */
vram_status vr_cuda_start(struct vr_backend *backend, const struct vr_cuda_dialect *dialect);
vr_backend_stop_fn vr_cuda_stop;
vr_backend_count_fn vr_cuda_count;
vr_backend_describe_fn vr_cuda_describe;
vr_device_open_fn vr_cuda_device_open;
extern const struct vr_queue_ops vr_cuda_queue_ops;
extern const struct vr_vmm_ops vr_cuda_vmm_ops;
extern const struct vr_managed_ops vr_cuda_managed_ops;
extern const struct vr_peer_ops vr_cuda_peer_ops;
extern const struct vr_kernel_ops vr_cuda_kernel_ops;
vr_memory_others_fn vr_cuda_others;
vr_memory_free_fn vr_cuda_memory_free; /* of managed memory, too */

#endif
