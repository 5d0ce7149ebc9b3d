/* SPDX-License-Identifier: Apache-2.0 */
/**
 * backend.h: everything a backend must do, on one page.
 *
 * A backend is a folder with one `const struct vr_backend_ops` that registry.c lists. Each noun has
 * one small table; what a device may lack is a group of its own, present or absent as a whole. Only
 * the wrappers in src/device call these functions. Each function's type is declared once, here, and
 * the wrapper of the same operation is declared with that very type (src/device/ops.h), so table
 * and wrapper cannot drift apart.
 *
 * THE CONTRACT, for every function below
 *
 *  (1) Arguments are valid: pointers not NULL, sizes > 0, addresses inside live memory of this
 *      device, sizes and alignments multiples of the granule. Wrappers see to it.
 *  (2) No lock of the library is held by the caller, and any thread may call at any time, also
 *      several on one device or queue. What a driver forbids in parallel, the backend locks itself.
 *  (3) A function that returns a status either does everything and returns VRAM_OK, or changes
 *      nothing, writes no output, frees what it took, and returns a failure for which it has called
 *      vr_error_set (base/error.h) with the driver call and the driver's own code.
 *  (4) Driver codes become statuses by one table per backend. A code the table does not know is
 *      VRAM_ERR_BACKEND: never success, never an exhaustion. VRAM_ERR_DEVICE_LOST means that
 *      nothing will work on this device again; the wrapper then sets vr_device.lost.
 *  (5) On a lost device only the functions marked [lost] are called. They then make no driver call
 *      and release what the backend itself holds.
 *  (6) Nothing blocks for the device's work except where [waits] is written. The calling thread's
 *      current context, device and last error of the driver's API are left as found.
 *  (7) Functions returning void cannot fail: what the driver refuses is logged and forgotten.
 *  (8) Unknown is unknown: a value the driver does not tell has known = false, never 0.
 */
#ifndef VR_BACKEND_H
#define VR_BACKEND_H

#include "base/atomic.h"
#include "vram/queue.h"
#include "vram/sim.h"

struct vr_backend;
struct vr_device;
struct vr_queue;
struct vram_wrap; /* vram/buffer.h */

/* ------------------------------------------------------------------ objects */

/* A started backend. Allocated by src/device; `impl` is the backend's own. */
struct vr_backend {
    const struct vr_backend_ops *ops;
    void *impl;
    char version[64]; /* driver version for people, set by start; "" when unknown */
};

/* An opened device. `info` is filled by src/device (describe) before open is called. */
struct vr_device {
    struct vr_backend *backend;
    uint32_t index;               /* in the backend */
    struct vram_device_info info; /* caps in it must agree with the groups below */
    void *impl;                   /* the backend's own */
    vr_atomic_bool lost;          /* set by src/device, read by [lost] functions */
    bool pageable_waits; /* set by open: downloads to pageable memory return when they are done */

    const struct vr_device_ops *ops; /* these nine are set by open */
    const struct vr_queue_ops *queue_ops;
    const struct vr_pinned_ops *pinned;   /* NULL without VRAM_CAP_PINNED */
    const struct vr_vmm_ops *vmm;         /* NULL without VRAM_CAP_VMM */
    const struct vr_managed_ops *managed; /* NULL without VRAM_CAP_MANAGED */
    const struct vr_peer_ops *peer;       /* NULL without VRAM_CAP_PEERS */
    const struct vr_kernel_ops *kernel;   /* NULL without VRAM_CAP_KERNELS */
    const struct vr_handle_ops *handles;  /* NULL without VRAM_CAP_HANDLES */
    const struct vr_object_ops *objects;  /* NULL where the program's objects are not taken up */
};

/* A queue, owned or adopted. */
struct vr_queue {
    struct vr_device *device;
    void *impl;   /* the backend's own */
    void *native; /* what users of the driver's API know; NULL when there is no such thing */
    bool adopted; /* the program made `native`: never destroy it */
    /*
     * The word that tells how far the queue has come: signals write rising values into it, in queue
     * order. Host memory the device writes to, set by create and adopt. It may start at any value,
     * from which src/device goes on counting. src/device reads it until it calls destroy; a wait
     * that `after` submitted may look at it even later, and must then find its value or a higher
     * one. So a word is never set back, not even for the next queue that it serves.
     */
    vr_atomic_u64 *word;
};

/* ------------------------------------------------------------------ backend */

/* Starts the backend: loads the driver, finds devices. A missing driver is VRAM_ERR_NO_DRIVER, no
   device VRAM_ERR_NO_DEVICE; the error record's text becomes the reason that `vram info` prints. */
typedef vram_status vr_backend_start_fn(struct vr_backend *backend,
                                        const struct vram_context_options *options);
/* Ends it; all devices are closed. [lost] */
typedef void vr_backend_stop_fn(struct vr_backend *backend);
typedef uint32_t vr_backend_count_fn(struct vr_backend *backend);
/* Fills all of `info` but `size`, `backend` and `backend_index`. alloc_granule is always known; it,
   and vmm_granule with VRAM_CAP_VMM, are powers of two of at least 4096. */
typedef vram_status vr_backend_describe_fn(struct vr_backend *backend, uint32_t index,
                                           struct vram_device_info *info);
/* Opens device->index: sets impl and the tables. device->info is filled already; what turns out not
   to work on this device is taken out of its caps. */
typedef vram_status vr_device_open_fn(struct vr_device *device);

struct vr_backend_ops {
    const char *name;        /* as users write it, "cuda" */
    const char *unavailable; /* not NULL: listed but not in this build; the reason */
    vr_backend_start_fn *start;
    vr_backend_stop_fn *stop;
    vr_backend_count_fn *count;
    vr_backend_describe_fn *describe;
    vr_device_open_fn *device_open;
    const struct vr_sim_ops *sim; /* control of a simulation; NULL elsewhere */
};

/* ------------------------------------------------------------------- device */

/* Closes it; queues, kernels and memory are gone already. [lost] */
typedef void vr_device_close_fn(struct vr_device *device);
/* Free and total bytes now. Only called, and so only needed, with VRAM_CAP_MEMORY_INFO. */
typedef vram_status vr_memory_info_fn(struct vr_device *device, vram_value *free,
                                      vram_value *total);
/* `bytes` of device memory, a multiple of info.alloc_granule and aligned to it. */
typedef vram_status vr_memory_alloc_fn(struct vr_device *device, uint64_t bytes, vram_addr *addr);
/* Bytes of the device's memory that other processes hold. NULL where that cannot be told. */
typedef vram_status vr_memory_others_fn(struct vr_device *device, vram_value *bytes);
/* Gives back what alloc gave. The wrapper's caller has waited for the queues that used it.
   [lost] */
typedef vram_status vr_memory_free_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);

struct vr_device_ops {
    vr_device_close_fn *close;
    vr_memory_info_fn *memory_info;
    vr_memory_alloc_fn *alloc;
    vr_memory_free_fn *free;
    vr_memory_others_fn *others;
};

/* -------------------------------------------------------------------- queue */

/* Sets queue->impl, native and word. There is no limit on queues: where the driver has only so
   many, several share one. */
typedef vram_status vr_queue_create_fn(struct vr_queue *queue,
                                       const struct vram_queue_options *options);
/* The same for queue->native, which the program made. Only called with VRAM_CAP_ADOPT. */
typedef vram_status vr_queue_adopt_fn(struct vr_queue *queue);
/* Ends it. The wrapper has seen its work done, or the driver refused to tell; work that is left is
   then finished, not dropped. The word is not set back. [lost] [waits] */
typedef void vr_queue_destroy_fn(struct vr_queue *queue);
/* Submits a copy from host to device memory, ... */
typedef vram_status vr_queue_upload_fn(struct vr_queue *queue, vram_addr to, const void *from,
                                       uint64_t bytes);
/* ... from device to host memory, ... */
typedef vram_status vr_queue_download_fn(struct vr_queue *queue, void *to, vram_addr from,
                                         uint64_t bytes);
/* ... and within the device; the ranges do not overlap. */
typedef vram_status vr_queue_copy_fn(struct vr_queue *queue, vram_addr to, vram_addr from,
                                     uint64_t bytes);

/* Rows whose beginnings are a pitch apart; the pitches are at least row_bytes, there are two rows
   or more, and the sides do not overlap. */
struct vr_rectangle {
    uint64_t to, from;             /* of the first row: addresses, or host pointers */
    uint64_t to_pitch, from_pitch; /* bytes */
    uint64_t row_bytes, rows;
    bool to_host, from_host; /* that side is host memory; at most one is */
};

/* The same three copies for rows, as one operation of the driver's. VRAM_ERR_UNSUPPORTED where it
   has none, or none for rows like these, which the caller then submits one by one. NULL where no
   driver of the backend has any. */
typedef vram_status vr_queue_copy_rows_fn(struct vr_queue *queue,
                                          const struct vr_rectangle *rectangle);
/* Repeats the low `pattern_bytes` (1, 2, 4) of `pattern` over `bytes`, a multiple of it. */
typedef vram_status vr_queue_fill_fn(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                                     uint32_t pattern_bytes, uint64_t bytes);
/* Submits the write of `value` into *queue->word behind all work submitted so far, with release
   order towards the host. VRAM_ERR_CAPTURE, nothing submitted, while the queue is captured. */
typedef vram_status vr_queue_signal_fn(struct vr_queue *queue, uint64_t value);
/* Later work of `queue` starts when *other->word >= value; that signal has been submitted. Both
   queues belong to this backend. */
typedef vram_status vr_queue_after_fn(struct vr_queue *queue, struct vr_queue *other,
                                      uint64_t value);
/* Called by waits between two looks at the word: lets a backend that has no engine of its own make
   progress and finds a lost device. VRAM_OK when all submitted work is done, VRAM_ERR_NOT_READY (no
   error record) when not, or a failure. Not called while the queue is captured. */
typedef vram_status vr_queue_poll_fn(struct vr_queue *queue);

struct vr_queue_ops {
    vr_queue_create_fn *create;
    vr_queue_adopt_fn *adopt;
    vr_queue_destroy_fn *destroy;
    vr_queue_upload_fn *upload;
    vr_queue_download_fn *download;
    vr_queue_copy_fn *copy;
    vr_queue_copy_rows_fn *copy_rows;
    vr_queue_fill_fn *fill;
    vr_queue_signal_fn *signal;
    vr_queue_after_fn *after;
    vr_queue_poll_fn *poll;
};

/* ------------------------------------------------------ pinned host memory */

/* Page-locked memory, page aligned; `bytes` is a multiple of the page. VRAM_ERR_LIMIT where the
   system's limit on locked memory is reached. */
typedef vr_memory_alloc_fn vr_pinned_alloc_fn;
typedef vr_memory_free_fn vr_pinned_free_fn; /* [lost] */
/* Whether the driver itself says that what alloc gave at `addr` is page-locked: 1 or 0, or unknown
   where it cannot be asked. NULL where it never can. */
typedef vram_status vr_pinned_check_fn(struct vr_device *device, vram_addr addr,
                                       vram_value *pinned);

/* Page-locks memory of the program's own, whole pages, where it lies. VRAM_ERR_BUSY when somebody
   has done so already, _LIMIT or _HOST_MEMORY where the system's limit is reached, _UNSUPPORTED
   where this driver cannot. Both NULL where no driver of the backend can. */
typedef vram_status vr_pinned_register_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Undoes exactly one of these; no work uses the memory. [lost] */
typedef vr_memory_free_fn vr_pinned_unregister_fn;

struct vr_pinned_ops {
    vr_pinned_alloc_fn *alloc;
    vr_pinned_free_fn *free;
    vr_pinned_check_fn *check;
    vr_pinned_register_fn *register_pages;
    vr_pinned_unregister_fn *unregister_pages;
};

/* ----------------------------------------------- virtual memory management */

/* Reserves addresses, aligned to `align` (a power of two, at least the granule). */
typedef vram_status vr_vmm_reserve_fn(struct vr_device *device, uint64_t bytes, uint64_t align,
                                      vram_addr *addr);
/* Gives back a whole reservation in which nothing is mapped. [lost] */
typedef vram_status vr_vmm_unreserve_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Takes physical memory; the handle is never 0. */
typedef vram_status vr_vmm_create_fn(struct vr_device *device, uint64_t bytes, uint64_t *handle);
/* Gives it back; it is mapped nowhere. [lost] */
typedef vram_status vr_vmm_release_fn(struct vr_device *device, uint64_t handle, uint64_t bytes);
/* Maps one whole handle at `addr`, not yet accessible. It is mapped nowhere else, except with
   VRAM_CAP_ALIAS: then what work of a queue writes at one address later work of the same queue
   reads at the other, and each place is made accessible and unmapped by itself. */
typedef vram_status vr_vmm_map_fn(struct vr_device *device, vram_addr addr, uint64_t handle,
                                  uint64_t bytes);
/* Makes whole mapped handles in [addr, addr + bytes) readable and writable by this device. */
typedef vram_status vr_vmm_access_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Unmaps the one whole handle mapped at `addr`. No submitted work uses it there any more. [lost] */
typedef vram_status vr_vmm_unmap_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);

struct vr_vmm_ops {
    vr_vmm_reserve_fn *reserve;
    vr_vmm_unreserve_fn *unreserve;
    vr_vmm_create_fn *create;
    vr_vmm_release_fn *release;
    vr_vmm_map_fn *map;
    vr_vmm_access_fn *access;
    vr_vmm_unmap_fn *unmap;
};

/* ----------------------------------------------------------- managed memory */

/* Memory with one address for host and device; `bytes` is a multiple of the page. */
typedef vr_memory_alloc_fn vr_managed_alloc_fn;
typedef vr_memory_free_fn vr_managed_free_fn; /* [lost] */
/* Submits a move of the range to the device, or to the host. A hint: contents never change. */
typedef vram_status vr_managed_prefetch_fn(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                                           bool to_host);

/* Says how the range is going to be used. A hint; NULL where the driver takes none. */
typedef vram_status vr_managed_advise_fn(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                         vram_advice advice);

struct vr_managed_ops {
    vr_managed_alloc_fn *alloc;
    vr_managed_free_fn *free;
    vr_managed_prefetch_fn *prefetch;
    vr_managed_advise_fn *advise;
};

/* -------------------------------------------------------------------- peers */

/* Whether `device` can reach `peer`'s memory at all; both are of this backend. */
typedef bool vr_peer_reachable_fn(struct vr_device *device, struct vr_device *peer);
/* Lets it. Doing so twice is fine. */
typedef vram_status vr_peer_enable_fn(struct vr_device *device, struct vr_device *peer);
/* Submits a copy of `bytes` from `from` on `peer` to `to` on the queue's device. */
typedef vram_status vr_peer_copy_fn(struct vr_queue *queue, vram_addr to, struct vr_device *peer,
                                    vram_addr from, uint64_t bytes);

struct vr_peer_ops {
    vr_peer_reachable_fn *reachable;
    vr_peer_enable_fn *enable;
    vr_peer_copy_fn *copy;
};

/* -------------------------------------------------- memory behind handles */

/*
 * Where the driver deals in objects, not in addresses, a backend gives out addresses of its own,
 * one window of base/window.h for each object, and the object is found again by them. Neighbouring
 * objects never lie next to each other by accident: a span that is checked lies in one.
 */

/* What the driver's own API calls an address. */
struct vr_native {
    void *handle;              /* the object */
    uint64_t offset;           /* of the address in it */
    uint64_t bytes;            /* size of the object */
    vram_value device_address; /* what a kernel would use, where there is such a thing */
};

/* Device memory only. `bytes` is the size of the pool's block that begins at `addr`, and the handle
   may then be one for exactly that block; 0: no block begins there, and the handle is that of the
   whole allocation. A handle stays good until the block's memory is handed out in another cut or
   the allocation is freed. Takes no lock when it is asked for the same block again.
   VRAM_ERR_INVALID for memory of a program's provider that the backend does not know, here and in
   copies. */
typedef vram_status vr_memory_native_fn(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                        struct vr_native *native);

struct vr_handle_ops {
    vr_memory_native_fn *native;
};

/* ------------------------------------------- objects that the program made */

/* Takes up [offset, offset + bytes) of wrap->pointer, an object of the driver's that the program
   made and goes on owning: copies, fills and launches find it at *addr, in a window of its own.
   Where the driver counts references it takes one. VRAM_ERR_INVALID for an object that this device
   cannot use, or that is smaller. */
typedef vram_status vr_object_adopt_fn(struct vr_device *device, const struct vram_wrap *wrap,
                                       vram_addr *addr);
/* Lets go of it; work that was submitted may still be using it. [lost] */
typedef void vr_object_give_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);

struct vr_object_ops {
    vr_object_adopt_fn *adopt;
    vr_object_give_fn *give;
    vr_memory_native_fn *native; /* `bytes` is 0 */
};

/* ------------------------------------------------------------------ kernels */

/* Loads code; *kernel is the backend's own pointer. UNSUPPORTED for a foreign format. */
typedef vram_status vr_kernel_load_fn(struct vr_device *device,
                                      const struct vram_kernel_source *source, void **kernel);
typedef void vr_kernel_unload_fn(struct vr_device *device, void *kernel); /* [lost] */
/* Submits a launch; argument values are copied before it returns. With VRAM_CAP_HANDLES the value
   of each argument in launch->address_mask is a struct vr_native in the place of the vram_addr. */
typedef vram_status vr_queue_launch_fn(struct vr_queue *queue, void *kernel,
                                       const struct vram_launch *launch);

struct vr_kernel_ops {
    vr_kernel_load_fn *load;
    vr_kernel_unload_fn *unload;
    vr_queue_launch_fn *launch;
};

/* ---------------------------------------------------- control of simulations */

typedef vram_status vr_sim_fault_fn(struct vr_backend *backend, const struct vram_sim_fault *fault);
typedef void vr_sim_state_fn(struct vr_backend *backend, struct vram_sim_state *state);
/* Lets virtual time pass without a call; work that is due by then is done. */
typedef void vr_sim_advance_fn(struct vr_backend *backend, uint64_t ns);
typedef vram_status vr_sim_journal_fn(struct vr_backend *backend, uint64_t back,
                                      struct vram_sim_entry *entry);
typedef vram_status vr_sim_violation_fn(struct vr_backend *backend, uint64_t index, char *text,
                                        size_t text_bytes);

/* Memory of simulated device `device` that other processes hold from now on. VRAM_ERR_NO_DEVICE,
   VRAM_ERR_INVALID for more than there is. */
typedef vram_status vr_sim_others_fn(struct vr_backend *backend, uint32_t device, uint64_t bytes);

struct vr_sim_ops {
    vr_sim_fault_fn *fault;
    vr_sim_state_fn *state;
    vr_sim_advance_fn *advance;
    vr_sim_journal_fn *journal;
    vr_sim_violation_fn *violation;
    vr_sim_others_fn *others;
};

#endif
