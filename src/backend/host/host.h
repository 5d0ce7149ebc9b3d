/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h: the host backend, as its own files see it. It is the truth that every other backend is
 * measured against, and the example to write a new one from (docs/backend-guide.md).
 *
 * The operating system plays the driver:
 *
 *     host_backend.c   start and stop, the one device, statuses
 *     host_memory.c    device memory is pages, pinned memory is locked pages; who holds how much
 *     host_vmm.c       a range is reserved pages, physical memory a piece of one sparse file
 *     host_queue.c     a queue is a thread that runs commands
 *     host_word.c      the word that tells how far a queue has come, and waiting for it
 *     host_copy.c      copies and fills, as commands
 *     host_kernel.c    launches of C functions, as commands
 *
 * This device is never lost of itself. When the wrappers treat it so, there is no driver to spare:
 * functions marked [lost] in backend.h still give pages back, and queues drop what has not run.
 */
#ifndef VR_HOST_H
#define VR_HOST_H

#include "backend/backend.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/os/machine.h"

/* ------------------------------------------------------------------ backend */

/* vr_backend.impl, and vr_device.impl of each time the one device is opened. */
struct vr_host {
    struct vr_machine machine;
    uint64_t page;        /* bytes of a page, the granule of allocations */
    uint64_t total;       /* bytes the device has; UINT64_MAX when nobody knows */
    bool limited;         /* total is the option host_memory, not what the machine has */
    bool pinned, vmm;     /* what the system allows; see host_backend.c */
    int file;             /* all physical memory of host_vmm.c; valid with vmm */
    vr_atomic_u64 next;   /* offset in `file` where nothing was ever handed out; bytes */
    vr_atomic_u64 held;   /* device + pinned + managed + physical bytes not given back; <= total */
    struct vr_mutex lock; /* guards nothing but the sleep of those who wait for `moved` */
    struct vr_cond moved; /* a word rose, or a queue was given up */
};

extern const struct vr_backend_ops vr_host_backend;
extern const struct vr_device_ops vr_host_device;
extern const struct vr_pinned_ops vr_host_pinned;
extern const struct vr_managed_ops vr_host_managed;
extern const struct vr_vmm_ops vr_host_vmm;
extern const struct vr_queue_ops vr_host_queue;
extern const struct vr_kernel_ops vr_host_kernel;

/* Turns the error record that a failed call of base/os left into one of this backend and returns
   its status. `exhausted` is what "out of memory" means to the caller, `doing` what it was
   about. */
vram_status vr_host_error(vram_status exhausted, const char *doing);

/* ------------------------------------------------------------------- memory */

/* Counts `bytes` as held; VRAM_ERR_DEVICE_MEMORY when the device has less left. */
vram_status vr_host_charge(struct vr_host *host, uint64_t bytes, const char *operation);
void vr_host_discharge(struct vr_host *host, uint64_t bytes);

static inline void *vr_host_pointer(vram_addr addr) {
    return (void *)(uintptr_t)addr;
}

/* ---------------------------------------------------------------------- vmm */

/* That of today's GPUs, so that programs tried here meet the rounding they will meet there. It
   costs nothing: pages of a piece that nobody touches take no memory. */
#define VR_HOST_VMM_GRANULE (UINT64_C(2) << 20)

/* Makes host->file. Closing is for a host with or without it. */
vram_status vr_host_file_open(struct vr_host *host);
void vr_host_file_close(struct vr_host *host);

/* -------------------------------------------------------------------- words */

/* How far a queue has come. Lives until its queue and all that wait for it have dropped it. */
struct vr_host_word {
    vr_atomic_u64 value; /* the last signal; UINT64_MAX once the queue has ended */
    vr_atomic_u32 refs;  /* the queue's + one per command that waits for the word */
};

/* A word of 0 with one reference, or NULL with the error set. */
struct vr_host_word *vr_host_word_create(const char *operation);
struct vr_host_word *vr_host_word_ref(struct vr_host_word *word);
void vr_host_word_unref(struct vr_host_word *word); /* NULL is allowed */

/* Raises it to `value`, what went before visible to who sees it; a lower value does nothing. Wakes
   nobody: vr_host_wake does, when the caller holds no lock. */
void vr_host_word_raise(struct vr_host_word *word, uint64_t value);
/* Sleeps until the word is at `value`, or `stop` is set. */
void vr_host_word_wait(struct vr_host *host, const struct vr_host_word *word, uint64_t value,
                       const vr_atomic_bool *stop);
/* Lets all waiters look again: a word rose or a stop flag was set. */
void vr_host_wake(struct vr_host *host);

/* ----------------------------------------------------------------- commands */

struct vr_host_worker;

/*
 * One entry of a queue: a wait, then work, then a signal. Each of the three may be missing, and a
 * command with none of them is fine. Work that needs data puts it behind, in a struct that begins
 * with the command:
 *
 *     +-------------------------+-------------------------------------+
 *     | struct vr_host_command  | what `work` needs: addresses, sizes |   one vr_mem_alloc
 *     +-------------------------+-------------------------------------+
 */
struct vr_host_command {
    struct vr_link link;        /* in vr_host_worker.commands until it is taken */
    struct vr_host_word *after; /* wait for this word, a reference; NULL: no wait */
    uint64_t after_value;       /* to be at least this */
    void (*work)(struct vr_host_worker *worker, struct vr_host_command *command); /* or NULL */
    uint64_t signal; /* the queue's word rises to this; 0: no signal */
};

/* A command of `bytes`, all three parts missing; NULL with the error set. */
void *vr_host_command_create(size_t bytes, const char *operation);
/* Hands it to the queue's worker, which frees it. Cannot fail. */
void vr_host_command_submit(struct vr_queue *queue, struct vr_host_command *command);
/* Whether the queue is being thrown away unfinished: long work looks now and then. */
bool vr_host_given_up(struct vr_host_worker *worker);

vr_queue_upload_fn vr_host_upload;
vr_queue_download_fn vr_host_download;
vr_queue_copy_fn vr_host_copy;
vr_queue_fill_fn vr_host_fill;

#endif
