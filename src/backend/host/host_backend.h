/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_backend.h: what the files of the host backend share. Every other backend is compared with
 * this one, and a new one may start from it (docs/backend-guide.md).
 *
 * The operating system serves as the driver:
 *
 *     host_backend.c   start, stop, description of the one device
 *     host_error.c     failures of the system become statuses
 *     host_device.c    opening and closing
 *     host_memory.c    device memory is pages, pinned memory is locked pages; accounting
 *     host_vmm.c       a range is reserved pages, physical memory a part of one sparse file
 *     host_share.c     memory that other processes import: a sealed file in memory for each handle
 *     host_queue.c     a queue is a thread that runs commands
 *     host_timeline.c  the word of a queue; signals, waits, polls
 *     host_copy.c      copies and fills, as commands
 *     host_kernel.c    launches of C functions, as commands
 *
 * This device is never lost by itself. When the wrappers treat it as lost, the functions marked
 * [lost] in backend.h still free pages, and queues drop the commands that have not run.
 */
#ifndef VR_HOST_BACKEND_H
#define VR_HOST_BACKEND_H

#include "backend/backend.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/os/machine.h"
#include "base/os/os.h"

/* ------------------------------------------------------------------ backend */

/* vr_backend.impl, and vr_device.impl of every handle on the one device. */
struct vr_host {
    struct vr_machine machine;
    uint64_t page;        /* bytes of a page, the granule of allocations */
    uint64_t total;       /* bytes of the device; UINT64_MAX if unknown */
    bool limited;         /* total is set by the option host_memory */
    bool pinned, vmm;     /* what the system allows; see host_backend.c */
    int file;             /* all physical memory of host_vmm.c; valid with vmm */
    vr_atomic_u64 next;   /* first offset of `file` that was never used; bytes */
    vr_atomic_u64 held;   /* device + pinned + managed + physical bytes in use; <= total */
    struct vr_mutex lock; /* guards no data; for waiting on `moved` */
    struct vr_cond moved; /* a word was raised, or a queue was abandoned */
};

extern const struct vr_backend_ops vr_host_backend;
extern const struct vr_device_ops vr_host_device_ops;
extern const struct vr_pinned_ops vr_host_pinned_ops;
extern const struct vr_managed_ops vr_host_managed_ops;
extern const struct vr_vmm_ops vr_host_vmm_ops;
extern const struct vr_share_ops vr_host_share_ops;
extern const struct vr_queue_ops vr_host_queue_ops;
extern const struct vr_kernel_ops vr_host_kernel_ops;

/* Converts the error record that a failed call of base/os left into one of this backend, and
   returns its status. `exhausted` is the status for "out of memory", `doing` describes the call. */
vram_status vr_host_error(vram_status exhausted, const char *doing);

/* ------------------------------------------------------------------- memory */

/* Counts `bytes` as in use; VRAM_ERR_DEVICE_MEMORY if the device has less left. */
vram_status vr_host_charge(struct vr_host *host, uint64_t bytes, const char *operation);
void vr_host_uncharge(struct vr_host *host, uint64_t bytes);

vr_device_open_fn vr_host_device_open;
vr_memory_info_fn vr_host_memory_info;
vr_memory_alloc_fn vr_host_memory_alloc;
vr_memory_free_fn vr_host_memory_free; /* of device, pinned and managed memory */

static inline void *vr_host_pointer(vram_addr addr) {
    return (void *)(uintptr_t)addr;
}

/* ---------------------------------------------------------------------- vmm */

/* The same as on current GPUs, so that programs see the same rounding here. It costs nothing: pages
   of a handle that nobody touches use no memory. */
#define VR_HOST_VMM_GRANULE (UINT64_C(2) << 20)

/* A handle of host_share.c is the descriptor of its own file with this bit set, which no offset in
   host->file has. */
#define VR_HOST_SHARED (UINT64_C(1) << 63)

/* The file and the offset in it that a handle means. */
static inline int vr_host_handle_file(const struct vr_host *host, uint64_t handle,
                                      uint64_t *offset) {
    bool shared = handle & VR_HOST_SHARED;
    *offset = shared ? 0 : handle;
    return shared ? (int)(handle & INT32_MAX) : host->file;
}

/* vr_vmm_release of a handle of host_share.c. */
void vr_host_share_release(struct vr_host *host, uint64_t handle, uint64_t bytes);

/* Creates host->file. Closing it is allowed without one. */
vram_status vr_host_file_open(struct vr_host *host);
void vr_host_file_close(struct vr_host *host);

/* -------------------------------------------------------------------- words */

/* The progress of a queue. It lives until the queue and all waiting commands have released it. */
struct vr_host_word {
    vr_atomic_u64 value; /* the last signal; UINT64_MAX once the queue has ended */
    vr_atomic_u32 refs;  /* one of the queue + one per command that waits for the word */
};

/* A word with value 0 and one reference, or NULL with the error set. */
struct vr_host_word *vr_host_word_create(const char *operation);
struct vr_host_word *vr_host_word_ref(struct vr_host_word *word);
void vr_host_word_unref(struct vr_host_word *word); /* NULL is allowed */

/* Raises it to `value`, with release order; a lower value has no effect. Wakes no waiter: the
   caller calls vr_host_wake once it holds no lock. */
void vr_host_word_raise(struct vr_host_word *word, uint64_t value);
/* Sleeps until the word is at least `value`, or `stop` is set. */
void vr_host_word_wait(struct vr_host *host, const struct vr_host_word *word, uint64_t value,
                       const vr_atomic_bool *stop);
/* Wakes all waiters: a word was raised or a stop flag was set. */
void vr_host_wake(struct vr_host *host);

/* ----------------------------------------------------------------- commands */

struct vr_host_worker;

/*
 * One entry of a queue: a wait, then work, then a signal. Each of the three may be missing. Work
 * that needs data puts it behind the command, in a struct that begins with it:
 *
 *     +-------------------------+-------------------------------------+
 *     | struct vr_host_command  | what `work` needs: addresses, sizes |   one vr_mem_alloc
 *     +-------------------------+-------------------------------------+
 */
struct vr_host_command {
    struct vr_link link;        /* in vr_host_worker.commands until the worker takes it */
    struct vr_host_word *after; /* the word to wait for, a reference; NULL: no wait */
    uint64_t after_value;       /* wait until it is at least this */
    void (*work)(struct vr_host_worker *worker, struct vr_host_command *command); /* or NULL */
    uint64_t signal; /* raises the queue's word to this; 0: no signal */
};

/* vr_queue.impl */
struct vr_host_worker {
    struct vr_host *host;
    struct vr_host_word *word; /* the queue's reference */
    struct vr_thread thread;
    struct vr_mutex lock;
    struct vr_cond wake;      /* wakes the worker: a new command, or the end */
    struct vr_list commands;  /* submitted, not yet started */
    bool busy;                /* the worker is running a command */
    bool ending;              /* the worker exits when the list is empty */
    vr_atomic_bool abandoned; /* the worker drops commands instead of running them */
};

/* A command of `bytes` without wait, work and signal; NULL with the error set. */
void *vr_host_command_create(size_t bytes, const char *operation);
/* Submits it to the queue's worker, which frees it. Cannot fail. */
void vr_host_command_submit(struct vr_queue *queue, struct vr_host_command *command);
/* Whether the worker drops its commands; long work checks this from time to time. */
bool vr_host_abandoned(struct vr_host_worker *worker);

vr_queue_upload_fn vr_host_upload;
vr_queue_download_fn vr_host_download;
vr_queue_copy_fn vr_host_copy;
vr_queue_fill_fn vr_host_fill;
vr_queue_signal_fn vr_host_signal;
vr_queue_after_fn vr_host_after;
vr_queue_poll_fn vr_host_poll;

#endif
