/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h: what stands behind the public handles, and who keeps whom alive.
 *
 *   vr_context
 *     +- vr_slot[]            what is known of each device, opened or not; the limit is kept here
 *     +- vr_device_object     one per vram_device_open; pins the context
 *          +- vr_record       one per allocation and per reserved range; in the address map
 *          +- vr_physical     memory without an address; pins the device
 *          +- vr_queue_object pins the device
 *          +- vr_kernel       pins the device
 *
 * Rules
 *  (1) Every object begins with a vr_object; its handle is what users hold.
 *  (2) A public call enters (vr_enter: pins, refuses after exit and after fork) and leaves.
 *  (3) A child pins its parent, so a parent's destructor runs after its children's.
 *  (4) Destroying a parent retires its children first. A child that is being made meanwhile finds
 *      `closing` under the parent's lock when it wants to be listed, and is undone.
 *  (5) No lock is held across an operation of a backend. What must not change meanwhile is marked
 *      under the lock first.
 *  (6) A queue ends after the last call that gives it work, and memory goes after the last work that
 *      may use it: closing waits for both. What does not finish in time is left alone, with its device.
 */
#ifndef VR_OBJECTS_H
#define VR_OBJECTS_H

#include "backend/backend.h"
#include "base/handle.h"
#include "base/list.h"
#include "base/lock.h"
#include "device/handle_set.h"
#include "vram/oom.h"

/* The head of every object behind a handle. */
struct vr_object {
    uint64_t handle;  /* what users hold */
    uint64_t process; /* vr_os_process_generation of the process that made it */
};

/* ------------------------------------------------------------------ context */

/* A number of bytes and the most it has been. `now` may be below 0 for a moment. */
struct vr_gauge {
    vr_atomic_u64 now, peak;
};

static inline void vr_gauge_add(struct vr_gauge *gauge, int64_t high, int64_t change) {
    int64_t before = (int64_t)vr_fetch_add(&gauge->now, (uint64_t)change, VR_RELAXED);
    if (before + high > (int64_t)vr_load(&gauge->peak, VR_RELAXED)) {
        vr_atomic_max(&gauge->peak, (uint64_t)(before + high));
    }
}

/* What is held of one piece of hardware, and may be. Backends that show the same GPU (vram_device_same) have
   one account for it, so that its memory is counted once. */
struct vr_account {
    vr_atomic_u64 charged_bytes; /* device memory held through all handles of this context */
    vr_atomic_u64 limit_bytes;   /* the program's own limit for charged_bytes; 0: none */
    vr_atomic_ptr ledger;        /* what the tier above keeps for it; NULL: nothing yet */
    void (*ledger_free)(void *); /* ends it with the context; set before it */
};

struct vr_slot {
    struct vr_backend *backend;
    uint32_t backend_index;
    struct vram_device_info info;
    struct vr_account *account;  /* its own, or that of the first slot with the same hardware */
    struct vr_account own;       /* NULL and 0 where it has another's */
    vr_atomic_u64 charged_bytes; /* its part of the account's */
    vr_atomic_u64 charged_peak;  /* most that this was */
    struct vr_gauge requested;   /* live in pools, as asked for */
    void *peaks;                 /* what the tier above keeps for them; vr_mem's; NULL: nothing */
};

struct vr_backend_state {
    struct vr_backend base;
    bool started;
    uint32_t device_count;
    char reason[sizeof((struct vram_backend_info *)0)->reason];
};

/* Statuses there are. */
enum {
#define VR_STATUS_NUMBER(name, value, text) VR_STATUS_OF_##name,
    VRAM_STATUS_MAP(VR_STATUS_NUMBER)
#undef VR_STATUS_NUMBER
        VR_STATUS_COUNT
};

/* The errors of one status that a handler was told of; core/ladder/handler.c. */
struct vr_error_count {
    uint64_t total;
    double recent; /* as of at_ns */
    uint64_t at_ns;
};

/* A context's error handler, and what it was told. */
struct vr_error_handler {
    vram_error_fn *call; /* NULL: none */
    void *user;
    struct vr_error_count counts[VR_STATUS_COUNT];
};

struct vr_context {
    struct vr_object object;
    struct vr_backend_state *backends; /* one per registry row, same order */
    uint32_t backend_count;
    struct vr_slot *slots; /* one per device, order of preference */
    uint32_t slot_count;
    bool sim_wanted;                    /* the user asked for a simulation */
    uint64_t wait_ns;                   /* option wait_timeout, at creation */
    uint64_t limit_bytes;               /* option device_limit, at creation; 0: none */
    struct vr_gauge charged, requested; /* of all devices together */
    void *peaks;          /* what the tier above keeps for them; vr_mem's; NULL: nothing */
    struct vr_mutex lock; /* guards the rest, and vr_device_object.quieted */
    struct vr_error_handler handler;
    bool closing;
    struct vr_list devices; /* vr_device_object.link */
    struct vr_list
        watchers; /* vr_watcher.link: what a higher tier hangs on the context (a monitor); each is
                                told, before any device ends, and must end and take itself off the list */
};

/* ------------------------------------------------------------------- device */

/*
 * What a higher tier hangs on a device (a pool). It is an object behind a handle itself and is told,
 * with no lock held and a reference to it taken, when a queue of the device has ended and when the
 * device closes; then it must end and take itself off the list. Unless all work is `finished`, it gives
 * none of the memory back that this work may use. A queue that was destroyed before its work was done
 * is told of twice.
 */
struct vr_watcher {
    struct vr_link link; /* in device->watchers */
    uint64_t handle;     /* of the object it is part of */
    uint64_t told;       /* bits of the tellings under way that have reached it */
    void (*queue_ended)(struct vr_watcher *watcher, uint64_t queue, bool finished);
    void (*closing)(struct vr_watcher *watcher, bool finished);
    /* Whether its range has memory throughout [addr, addr + bytes), which lies in it. */
    bool (*covers)(struct vr_watcher *watcher, vram_addr addr, uint64_t bytes);
};

/* A callback of the program's for pools that are short of memory; core/ladder/ladder_callback.c. */
struct vr_oom_callback {
    vram_oom_fn *call; /* NULL: none, or removed */
    void *user;
    uint64_t id;     /* of the device's, rising; 0: the place is free */
    uint32_t inside; /* calls under way */
};

struct vr_device_object {
    struct vr_object object;
    struct vr_device base;
    struct vr_context *context; /* pinned */
    struct vr_slot *slot;
    struct vr_link link;      /* in context->devices */
    bool quieted;             /* the context, which ends, has seen to its queues; context lock */
    vr_atomic_u32 keepers;    /* the handle, and queues of other devices that wait for its words */
    struct vr_mutex lock;     /* guards all below but the atomics */
    bool closing;             /* takes no more children */
    bool sweeping;            /* its queues are done: what is mapped is being unmapped */
    bool unfinished;          /* work never ended that may use its memory: nothing is given back */
    uint32_t readers;         /* calls that are having another device's queue read its memory */
    struct vr_list queues;    /* vr_queue_object.link */
    struct vr_list kernels;   /* vr_kernel.link */
    struct vr_list physicals; /* vr_physical.link */
    struct vr_list records;   /* vr_record.link */
    struct vr_list watchers;  /* vr_watcher.link */
    struct vr_handle_set natives; /* the driver's handles of physical memory; ops.c */
    uint64_t tellings;            /* bits of the tellings under way */
    struct vr_oom_callback callbacks[VRAM_OOM_CALLBACKS_MAX];
    uint64_t callback_ids; /* given out */
    uint64_t *peers;       /* handles of devices whose memory it may read */
    uint32_t peer_count;
    vr_atomic_u64 held_bytes, held_peak_bytes, held_count;
    vr_atomic_u64 driver_calls;
    vr_atomic_ptr transfers; /* counters of xfer/metrics.c, one block of memory; NULL: none yet */
