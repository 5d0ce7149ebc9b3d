/* SPDX-License-Identifier: Apache-2.0 */
/**
 * backend.h: the contract between the library and a backend, on one page.
 *
 * A backend is a folder with one `const struct vr_backend_ops` that registry.c lists. Each noun has
 * one small table of functions. A feature that a device may lack is a group of its own, present or
 * absent as a whole. Only the wrappers in src/device call these functions. Each function type is
 * declared once, here, and src/device/ops.h declares the wrapper of the same operation with that
 * type, so the compiler keeps table and wrapper in agreement.
 *
 * THE CONTRACT, for every function below
 *
 *  (1) Arguments are valid: pointers are not NULL, sizes are > 0, addresses lie inside live memory
 *      of this device, sizes and alignments are multiples of the granule. The wrappers check this.
 *  (2) The caller holds no lock of the library. Any thread may call at any time, several at once
 *      on one device or queue. If the driver forbids parallel calls, the backend has its own lock.
 *  (3) A function that returns a status either does everything and returns VRAM_OK, or changes
 *      nothing, writes no output, frees what it acquired, and returns a failure. It has then called
 *      vr_error_set (base/error.h) with the driver call and the driver's own code.
 *  (4) One table per backend maps driver codes to statuses. A code that is not in the table is
 *      VRAM_ERR_BACKEND: never success, never an exhaustion. VRAM_ERR_DEVICE_LOST means that
 *      nothing will work on this device again; the wrapper then sets vr_device.lost.
 *  (5) On a lost device only the functions marked [lost] are called. They make no driver call and
 *      release what the backend itself owns.
 *  (6) No function waits for work of the device, except those marked [waits]. The calling thread's
 *      current context, current device and last error of the driver's API are left unchanged.
 *  (7) A function that returns void cannot fail: if the driver refuses, it logs that and continues.
 *  (8) A value that the driver does not report has known = false. It is never 0 instead.
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
    char version[64]; /* driver version as text, set by start; "" if unknown */
};

/* Calls `call` with the driver's context current, as tools expect it. Returns without a call if
   that fails. */
typedef void vr_within_fn(struct vr_device *device, void (*call)(void *user), void *user);

/* Whether network cards may have registered memory of the device; device/network_card.c. */
enum vr_network_cards { VR_CARDS_NONE, VR_CARDS_IDLE, VR_CARDS_REGISTER };

/* An opened device. src/device fills `info` (by describe) before it calls open. */
struct vr_device {
    struct vr_backend *backend;
    uint32_t index;               /* in the backend */
    struct vram_device_info info; /* its caps must agree with the groups below */
    void *impl;                   /* the backend's own */
    vr_atomic_bool lost;          /* set by src/device, read by [lost] functions */
    vr_atomic_u32 network_cards;  /* enum vr_network_cards; set by src/device */
    bool pageable_waits; /* set by open: a download to pageable memory is complete on return */

    const char *no_share; /* set by open if `share` is NULL: why; NULL: the driver cannot */
    uint32_t driver_id;   /* set by open: memory is imported only from the same driver; 0: any */

    vr_within_fn *within; /* set by open: tools watch its memory through NVTX; NULL: none does */

    const struct vr_device_ops *ops; /* open sets these eleven */
    const struct vr_queue_ops *queue_ops;
    const struct vr_pinned_ops *pinned;   /* NULL without VRAM_CAP_PINNED */
    const struct vr_vmm_ops *vmm;         /* NULL without VRAM_CAP_VMM */
    const struct vr_share_ops *share;     /* NULL if memory cannot be shared */
    const struct vr_fabric_ops *fabric;   /* NULL without fabric handles; needs `share` */
    const struct vr_managed_ops *managed; /* NULL without VRAM_CAP_MANAGED */
    const struct vr_peer_ops *peer;       /* NULL without VRAM_CAP_PEERS */
    const struct vr_kernel_ops *kernel;   /* NULL without VRAM_CAP_KERNELS */
    const struct vr_handle_ops *handles;  /* NULL without VRAM_CAP_HANDLES */
    const struct vr_object_ops *objects;  /* NULL if objects of the program cannot be adopted */
};

/* A queue, owned or adopted. */
struct vr_queue {
    struct vr_device *device;
    void *impl;   /* the backend's own */
    void *native; /* the driver's own handle; NULL if there is none */
    bool adopted; /* the program created `native`: never destroy it */
    /* Set by adopt: `native` means another queue in each thread, and here that of the thread with
       this vr_os_thread_number, the only one that may submit to it. 0: any thread may. */
    uint64_t thread;
    /* Set by src/device when that thread has ended: the value of the signal behind all its work,
       UINT64_MAX if the driver refused one. 0: the thread has not ended. */
    vr_atomic_u64 last;
    /*
     * The queue's progress: signals write rising values into this word, in queue order. It is host
     * memory that the device writes to; create and adopt set it. It may start at any value, and
     * src/device continues counting from there. src/device reads it until it calls destroy. A wait
     * that `after` submitted may read it even later, and must then find its value or a higher one.
     * So a word is never reset, not even for the next queue that uses it.
     */
    vr_atomic_u64 *word;
};

/* ------------------------------------------------------------------ backend */

/* Starts the backend: loads the driver and finds the devices. A missing driver is
   VRAM_ERR_NO_DRIVER, no device is VRAM_ERR_NO_DEVICE. `vram info` prints the text of the error
   record as the reason. */
typedef vram_status vr_backend_start_fn(struct vr_backend *backend,
                                        const struct vram_context_options *options);
/* Stops the backend; all devices are closed. [lost] */
typedef void vr_backend_stop_fn(struct vr_backend *backend);
typedef uint32_t vr_backend_count_fn(struct vr_backend *backend);
/* Fills all fields of `info` except `size`, `backend` and `backend_index`. alloc_granule is always
   known. It and, with VRAM_CAP_VMM, vmm_granule are powers of two of at least 4096. */
typedef vram_status vr_backend_describe_fn(struct vr_backend *backend, uint32_t index,
                                           struct vram_device_info *info);
/* Opens device->index: sets impl and the tables. device->info is already filled; open removes from
   its caps what does not work on this device. */
typedef vram_status vr_device_open_fn(struct vr_device *device);

struct vr_backend_ops {
    const char *name;        /* as users write it, "cuda" */
    const char *unavailable; /* not NULL: not in this build, for this reason */
    vr_backend_start_fn *start;
    vr_backend_stop_fn *stop;
    vr_backend_count_fn *count;
    vr_backend_describe_fn *describe;
    vr_device_open_fn *device_open;
    const struct vr_sim_ops *sim; /* control of a simulation; NULL in other backends */
};

/* ------------------------------------------------------------------- device */

/* Closes the device; its queues, kernels and memory are already released. [lost] */
typedef void vr_device_close_fn(struct vr_device *device);
/* Free and total bytes now. Called, and so needed, only with VRAM_CAP_MEMORY_INFO. With
   VRAM_CAP_INTEGRATED, memory that the host would have to swap out is not free. */
typedef vram_status vr_memory_info_fn(struct vr_device *device, vram_value *free,
                                      vram_value *total);
/* Allocates `bytes` of device memory, a multiple of info.alloc_granule, aligned to that granule. */
typedef vram_status vr_memory_alloc_fn(struct vr_device *device, uint64_t bytes, vram_addr *addr);
/* Bytes of the device's memory that other processes hold. NULL if the driver cannot tell. */
typedef vram_status vr_memory_others_fn(struct vr_device *device, vram_value *bytes);
/* Frees memory that alloc returned. The caller has waited for the queues that used it. [lost] */
typedef vram_status vr_memory_free_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* VRAM_ERR_DEVICE_LOST if the program has reset the device, which takes away the page-locked memory
   that the driver allocated: asked before the host touches that. NULL if resets leave it alone. */
typedef vram_status vr_device_check_fn(struct vr_device *device);

struct vr_device_ops {
    vr_device_close_fn *close;
    vr_memory_info_fn *memory_info;
    vr_memory_alloc_fn *alloc;
    vr_memory_free_fn *free;
    vr_memory_others_fn *others;
    vr_device_check_fn *check;
};

/* -------------------------------------------------------------------- queue */

/* Creates a queue: sets queue->impl, native and word. The number of queues is not limited: if the
   driver has only a few, several queues share one of its own. */
typedef vram_status vr_queue_create_fn(struct vr_queue *queue,
                                       const struct vram_queue_options *options);
/* The same for queue->native, which the program created. Called only with VRAM_CAP_ADOPT. */
typedef vram_status vr_queue_adopt_fn(struct vr_queue *queue);
/* Destroys the queue. The wrapper has seen its work complete, or the driver refused to say; work
   that is left is completed, not dropped. The word is not reset. [lost] [waits] */
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

/* Rows at a fixed distance, the pitch, from each other. A pitch is at least row_bytes, there are
   two rows or more, and source and destination do not overlap. */
struct vr_rectangle {
    uint64_t to, from;             /* of the first row: addresses, or host pointers */
    uint64_t to_pitch, from_pitch; /* bytes */
    uint64_t row_bytes, rows;
    bool to_host, from_host; /* that side is host memory; at most one of them is */
};

/* The same three copies for rows, as one driver operation. VRAM_ERR_UNSUPPORTED if the driver has
   none, or none for these rows; the caller then submits the rows one by one. NULL if no driver of
   the backend has such an operation. */
typedef vram_status vr_queue_copy_rows_fn(struct vr_queue *queue,
                                          const struct vr_rectangle *rectangle);
/* Fills `bytes` with the low `pattern_bytes` (1, 2 or 4) of `pattern`; `bytes` is a multiple. */
typedef vram_status vr_queue_fill_fn(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                                     uint32_t pattern_bytes, uint64_t bytes);
/* Submits a write of `value` into *queue->word after all work submitted so far, with release order
   towards the host. VRAM_ERR_CAPTURE, with nothing submitted, while the queue is captured. */
typedef vram_status vr_queue_signal_fn(struct vr_queue *queue, uint64_t value);
/* Makes later work of `queue` start only when *other->word >= value; that signal is already
   submitted. Both queues belong to this backend. */
typedef vram_status vr_queue_after_fn(struct vr_queue *queue, struct vr_queue *other,
                                      uint64_t value);
/* Waits call this between two reads of the word. A backend without an engine of its own makes
   progress here, and a lost device is noticed here. VRAM_OK when all submitted work is complete,
   VRAM_ERR_NOT_READY (no error record) when not, or a failure. Not called while the queue is
   captured. */
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

/* Allocates page-locked memory, page aligned; `bytes` is a multiple of the page. VRAM_ERR_LIMIT if
   the system's limit on locked memory is reached. */
typedef vr_memory_alloc_fn vr_pinned_alloc_fn;
typedef vr_memory_free_fn vr_pinned_free_fn; /* [lost] */
/* Asks the driver whether the memory at `addr`, which alloc returned, is page-locked: 1, 0 or
   unknown. NULL if no driver of the backend can be asked. */
typedef vram_status vr_pinned_check_fn(struct vr_device *device, vram_addr addr,
                                       vram_value *pinned);

/* Page-locks memory that the program owns, in place; whole pages. VRAM_ERR_BUSY if it is already
   page-locked, _LIMIT or _HOST_MEMORY if the system's limit is reached, _UNSUPPORTED if this driver
   cannot. Both functions are NULL if no driver of the backend can. */
typedef vram_status vr_pinned_register_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Undoes exactly one register_pages; no work uses the memory. [lost] */
typedef vr_memory_free_fn vr_pinned_unregister_fn;

struct vr_pinned_ops {
    vr_pinned_alloc_fn *alloc;
    vr_pinned_free_fn *free;
    vr_pinned_check_fn *check;
    vr_pinned_register_fn *register_pages;
    vr_pinned_unregister_fn *unregister_pages;
};

/* ----------------------------------------------- virtual memory management */

/* Reserves an address range, aligned to `align` (a power of two, at least the granule). */
typedef vram_status vr_vmm_reserve_fn(struct vr_device *device, uint64_t bytes, uint64_t align,
                                      vram_addr *addr);
/* Releases a whole reservation in which nothing is mapped. [lost] */
typedef vram_status vr_vmm_unreserve_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Allocates physical memory; the handle is never 0. */
typedef vram_status vr_vmm_create_fn(struct vr_device *device, uint64_t bytes, uint64_t *handle);
/* Releases a handle that is mapped nowhere. [lost] */
typedef vram_status vr_vmm_release_fn(struct vr_device *device, uint64_t handle, uint64_t bytes);
/* Maps one whole handle at `addr`, without access. The handle is mapped nowhere else, except with
   VRAM_CAP_ALIAS: then later work of a queue reads at one address what earlier work of the same
   queue wrote at the other, and access and unmap apply to each mapping separately. */
typedef vram_status vr_vmm_map_fn(struct vr_device *device, vram_addr addr, uint64_t handle,
                                  uint64_t bytes);
/* Makes the whole mapped handles in [addr, addr + bytes) readable and writable by this device. */
typedef vram_status vr_vmm_access_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);
/* Makes the whole accessible handles in [addr, addr + bytes) read-only, or writable again, for all
   devices that may access them. A write by a kernel may end the device (VRAM_ERR_DEVICE_LOST). */
typedef vram_status vr_vmm_protect_fn(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                      bool read_only);
/* Unmaps the one whole handle mapped at `addr`. No submitted work still uses it there. [lost] */
typedef vram_status vr_vmm_unmap_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);

struct vr_vmm_ops {
    vr_vmm_reserve_fn *reserve;
    vr_vmm_unreserve_fn *unreserve;
    vr_vmm_create_fn *create;
    vr_vmm_release_fn *release;
    vr_vmm_map_fn *map;
    vr_vmm_access_fn *access;
    vr_vmm_protect_fn *protect;
    vr_vmm_unmap_fn *unmap;
};

/* ---------------------------------------- memory shared between processes */

/* vr_vmm_create for a handle that can be exported. It is mapped and released like any other.
   Without VRAM_CAP_VMM a handle is an address, here and below: that of vr_memory_alloc, for memory
   that can be exported, and vr_memory_free releases it. */
typedef vr_vmm_create_fn vr_share_create_fn;
/* A new descriptor, close-on-exec, of the whole memory behind a handle that vr_share_create made:
   whoever has it can import all of that memory. With `read_only` the descriptor allows no writes,
   if the system can enforce that. */
typedef vram_status vr_share_export_fn(struct vr_device *device, uint64_t handle, uint64_t bytes,
                                       bool read_only, int *descriptor);
/* A handle for exported memory of `bytes`, from a descriptor that stays the caller's and may be
   hostile. It takes no memory of the device, and vr_vmm_release releases it. VRAM_ERR_INVALID if
   the descriptor is something else, or its memory is smaller or may shrink. */
typedef vram_status vr_share_import_fn(struct vr_device *device, int descriptor, uint64_t bytes,
                                       uint64_t *handle);

struct vr_share_ops {
    vr_share_create_fn *create;
    vr_share_export_fn *export_handle;
    vr_share_import_fn *import_handle;
    bool export_is_slow; /* src/share then makes descriptors ahead, and keeps some */
};

/* A handle's name in a fabric of several machines: whoever has these bytes can import the memory,
   if the system lets that process use the fabric at all. Nobody is asked, and nobody is told. */
enum { VR_FABRIC_BYTES = 64 };

typedef vram_status vr_fabric_export_fn(struct vr_device *device, uint64_t handle,
                                        uint8_t fabric[VR_FABRIC_BYTES]);
/* As vr_share_import_fn, from bytes that may be hostile. */
typedef vram_status vr_fabric_import_fn(struct vr_device *device,
                                        const uint8_t fabric[VR_FABRIC_BYTES], uint64_t *handle);

struct vr_fabric_ops {
    vr_share_create_fn *create; /* a handle that can be exported in both ways */
    vr_fabric_export_fn *export_handle;
    vr_fabric_import_fn *import_handle;
};

/* ----------------------------------------------------------- managed memory */

/* Allocates memory with one address for host and device; `bytes` is a multiple of the page. */
typedef vr_memory_alloc_fn vr_managed_alloc_fn;
typedef vr_memory_free_fn vr_managed_free_fn; /* [lost] */
/* Submits a migration of the range to device `target` of the backend, open or not, or to the host
   (VRAM_TARGET_HOST). A hint: contents never change. VRAM_ERR_UNSUPPORTED if the driver cannot
   migrate to another device than the queue's. */
typedef vram_status vr_managed_prefetch_fn(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                                           int32_t target);

/* Says how the range will be used; VRAM_ADVICE_PREFER: at `target`, as above. A hint; NULL if the
   driver accepts none. */
typedef vram_status vr_managed_advise_fn(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                         vram_advice advice, int32_t target);

struct vr_managed_ops {
    vr_managed_alloc_fn *alloc;
    vr_managed_free_fn *free;
    vr_managed_prefetch_fn *prefetch;
    vr_managed_advise_fn *advise;
};

/* -------------------------------------------------------------------- peers */

/* Whether `device` can access `peer`'s memory at all; both belong to this backend. */
typedef bool vr_peer_reachable_fn(struct vr_device *device, struct vr_device *peer);
/* Enables that access. Enabling it twice is allowed. */
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
 * If the driver uses objects instead of addresses, the backend returns addresses of its own: one
 * window of base/window.h per object, by which it finds the object again. Windows of different
 * objects are never adjacent, so a range that was checked lies in one object.
 */

/* The driver's own name for an address. */
struct vr_native {
    void *handle;              /* the object */
    uint64_t offset;           /* of the address in it */
    uint64_t bytes;            /* size of the object */
    vram_value device_address; /* the address that a kernel uses, if there is one */
};

/* Device memory only. `bytes` is the size of the pool's block that begins at `addr`; the handle may
   then be one for exactly that block. With 0 no block begins there, and the handle is that of the
   whole allocation. A handle is valid until the block's memory is divided differently or the
   allocation is freed. Asking again for the same block takes no lock. VRAM_ERR_INVALID, here and in
   copies, for memory of a program's provider that the backend does not know. */
typedef vram_status vr_memory_native_fn(struct vr_device *device, vram_addr addr, uint64_t bytes,
                                        struct vr_native *native);

struct vr_handle_ops {
    vr_memory_native_fn *native;
};

/* ------------------------------------------- objects that the program made */

/* Adopts [offset, offset + bytes) of wrap->pointer, a driver object that the program created and
   still owns. Copies, fills and launches find it at *addr, in a window of its own. If the driver
   counts references, the backend takes one. VRAM_ERR_INVALID for an object that this device cannot
   use, or that is smaller. */
typedef vram_status vr_object_adopt_fn(struct vr_device *device, const struct vram_wrap *wrap,
                                       vram_addr *addr);
/* Releases an adopted object; submitted work may still use it. [lost] */
typedef void vr_object_give_fn(struct vr_device *device, vram_addr addr, uint64_t bytes);

struct vr_object_ops {
    vr_object_adopt_fn *adopt;
    vr_object_give_fn *give;
    vr_memory_native_fn *native; /* `bytes` is 0 */
};

/* ------------------------------------------------------------------ kernels */

/* Loads code; *kernel is the backend's own pointer. VRAM_ERR_UNSUPPORTED for a format that it does
   not run. */
typedef vram_status vr_kernel_load_fn(struct vr_device *device,
                                      const struct vram_kernel_source *source, void **kernel);
typedef void vr_kernel_unload_fn(struct vr_device *device, void *kernel); /* [lost] */
/* Submits a launch; argument values are copied before it returns. With VRAM_CAP_HANDLES the value
   of each argument in launch->address_mask is a struct vr_native instead of a vram_addr. */
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
/* Advances virtual time without a call; work that is due by then completes. */
typedef void vr_sim_advance_fn(struct vr_backend *backend, uint64_t ns);
typedef vram_status vr_sim_journal_fn(struct vr_backend *backend, uint64_t back,
                                      struct vram_sim_entry *entry);
typedef vram_status vr_sim_violation_fn(struct vr_backend *backend, uint64_t index, char *text,
                                        size_t text_bytes);

/* Sets how much memory of simulated device `device` other processes hold. VRAM_ERR_NO_DEVICE for an
   unknown device, VRAM_ERR_INVALID for more than it has. */
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
