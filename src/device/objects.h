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
 *  (6) A queue ends after the last call that gives it work, and memory goes after the last work
 *      that may use it: closing waits for both. What does not finish in time is left alone, with
 *      its device.
 */
#ifndef VR_OBJECTS_H
#define VR_OBJECTS_H

#include "backend/backend.h"
#include "base/entry_guard.h"
#include "base/handle.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/object.h"
#include "base/struct_tail.h"
#include "device/handle_set.h"

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

/* What is held of one piece of hardware, and may be. Backends that show the same GPU
   (vram_device_same) have one account for it, so that its memory is counted once. */
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

/*
 * A function of the program's whose type is the business of core/ladder (vram/oom.h), which casts
 * it back. A change of that header does not recompile this tier.
 */
typedef void vr_program_fn(void);

/* A context's error handler, and what it was told. */
struct vr_error_handler {
    vr_program_fn *call; /* a vram_error_fn; NULL: none */
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
    vr_atomic_u64 giver;       /* thread that gives page-locked memory back; 0: none; quiesce.h */
    vr_atomic_u64 giver_since; /* vr_os_now when it began */
    void *peaks;               /* what the tier above keeps for them; vr_mem's; NULL: nothing */
    struct vr_mutex lock;      /* guards the rest, and vr_device_object.quieted */
    struct vr_error_handler handler;
    bool closing;
    struct vr_list devices; /* vr_device_object.link */
    /* vr_watcher.link: what a higher tier hangs on the context (a monitor). Each is told before any
       device ends, and must end and take itself off the list. */
    struct vr_list watchers;
};

/* ------------------------------------------------------------------- device */

/*
 * What a higher tier hangs on a device (a pool). It is an object behind a handle itself and is
 * told, with no lock held and a reference to it taken, when a queue of the device has ended and
 * when the device closes; then it must end and take itself off the list. Unless all work is
 * `finished`, it gives none of the memory back that this work may use. A queue that was destroyed
 * before its work was done is told of twice.
 */
struct vr_watcher {
    struct vr_link link; /* in device->watchers */
    uint64_t handle;     /* of the object it is part of */
    uint64_t number;     /* of the device's watchers, rising in the order of the list */
    void (*queue_ended)(struct vr_watcher *watcher, uint64_t queue, bool finished);
    void (*closing)(struct vr_watcher *watcher, bool finished);
    /* Whether its range has memory throughout [addr, addr + bytes), which lies in it. */
    bool (*covers)(struct vr_watcher *watcher, vram_addr addr, uint64_t bytes);
    /* Gives back what it keeps for later and nobody uses: the bytes. NULL: nothing of that kind. */
    uint64_t (*spare)(struct vr_watcher *watcher);
};

/* A callback of the program's for pools that are short of memory; core/ladder/ladder_callback.c. */
enum { VR_OOM_CALLBACKS = 16 }; /* VRAM_OOM_CALLBACKS_MAX */
struct vr_oom_callback {
    vr_program_fn *call; /* a vram_oom_fn; NULL: none, or removed */
    void *user;
    uint64_t id;     /* of the device's, rising; 0: the place is free */
    uint32_t inside; /* calls under way */
};

struct vr_device_object {
    struct vr_object object;
    struct vr_device base;
    struct vr_context *context; /* pinned */
    struct vr_slot *slot;
    struct vr_link link;   /* in context->devices */
    bool quieted;          /* the ending context has stopped its queues; context lock */
    vr_atomic_u32 keepers; /* the handle, and queues of other devices that wait for its words */
    struct vr_entry_guard readers; /* calls that have another device's queue read its memory */
    struct vr_mutex lock;          /* guards all below but the atomics */
    bool closing;                  /* takes no more children */
    bool sweeping;                 /* its queues are done: what is mapped is being unmapped */
    bool unfinished;          /* work never ended that may use its memory: nothing is given back */
    struct vr_list queues;    /* vr_queue_object.link */
    struct vr_list kernels;   /* vr_kernel.link */
    struct vr_list physicals; /* vr_physical.link */
    struct vr_list records;   /* vr_record.link */
    struct vr_list watchers;  /* vr_watcher.link */
    struct vr_handle_set natives; /* the driver's handles of physical memory; ops.c */
    uint64_t watcher_numbers;     /* given out */
    struct vr_oom_callback callbacks[VR_OOM_CALLBACKS];
    uint64_t callback_ids; /* given out */
    void *late;            /* memory to free when it is closed; each begins with the next */
    uint64_t *peers;       /* handles of devices whose memory it may read */
    uint32_t peer_count;
    vr_atomic_u64 held_bytes, held_peak_bytes, held_count;
    vr_atomic_u64 driver_calls;
    vr_atomic_u64 flight;    /* handle of what the tier of transfers keeps for it; 0: nothing yet */
    vr_atomic_ptr transfers; /* counters of xfer/metrics.c, one block of memory; NULL: none yet */
};

static inline struct vr_device_object *vr_device_of(struct vr_device *device) {
    return VR_CONTAINER(device, struct vr_device_object, base);
}

/* -------------------------------------------------------------------- queue */

struct vr_queue_object {
    struct vr_object object;
    struct vr_queue base;
    struct vr_device_object *device;    /* pinned */
    struct vr_link link;                /* in device->queues */
    vr_atomic_u64 issued;               /* highest number taken for a mark */
    vr_atomic_u64 turn;                 /* of marks: they count in `marking` by its last bit */
    vr_atomic_u32 marking[2];           /* marks under way: see point.c (7) */
    vr_atomic_bool behind;              /* the word may stay below `signalled`: see point.c (5) */
    vr_atomic_u64 signalled;            /* highest number that the driver agreed to write */
    vr_atomic_u64 settled;              /* points up to here are known to have passed; only rises */
    vr_atomic_u64 looks;                /* polls that found a point not passed */
    vr_atomic_bool closed;              /* its device is closing: it takes no more work */
    vr_atomic_bool finished;            /* nothing is left to wait for; nothing new can come */
    bool region;                        /* made by vram_capture_begin */
    vr_atomic_bool captured;            /* a region that has not ended: no marker goes into it */
    struct vr_entry_guard submitting;   /* calls that may submit work to it; closed: it is ending */
    struct vr_entry_guard asking;       /* calls that ask the driver about it; closed: all is done,
                                           and the native queue is the program's alone */
    struct vr_device_object **followed; /* devices whose words it may wait for; device lock */
    uint32_t followed_count;
};

/* ------------------------------------------------------------------- others */

struct vr_kernel {
    struct vr_object object;
    struct vr_device_object *device; /* pinned */
    struct vr_link link;
    void *impl;
};

struct vr_physical {
    struct vr_object object;
    struct vr_device_object *device; /* pinned */
    struct vr_link link;
    uint64_t native; /* the backend's handle */
    uint64_t bytes;
    bool mapped;  /* in some range, or on the way there; device lock */
    bool leaving; /* a call is giving it back to the driver; device lock */
};

/* ----------------------------------------------------- children; children.c */

/* The next device of a context, or queue of a device, by the number of its handle, with a reference
   that vr_leave drops; NULL behind the last. No lock held. */
struct vr_device_object *vr_device_behind(struct vr_context *context, uint64_t last);
struct vr_queue_object *vr_queue_behind(struct vr_device_object *device, uint64_t last);
/* Lists a child, or says VRAM_ERR_SHUTDOWN when the device is closing. */
vram_status vr_device_list_child(struct vr_device_object *device, struct vr_list *list,
                                 struct vr_link *link);
void vr_queue_unlist(struct vr_queue_object *queue);
/* Puts a record in its device's list, also when that is closing, and takes it off. */
struct vr_record;
void vr_record_list(struct vr_device_object *device, struct vr_record *record);
void vr_record_unlist(struct vr_device_object *device, struct vr_record *record);

/* ------------------------------------------------------ watchers; watcher.c */

/* Lists a watcher, or says VRAM_ERR_SHUTDOWN when the device is closing. The second is for callers
   that hold the device's lock and have seen that it is not. */
vram_status vr_device_list_watcher(struct vr_device_object *device, struct vr_watcher *watcher);
void vr_device_append_watcher(struct vr_device_object *device, struct vr_watcher *watcher);
/* Tells every watcher that a queue has ended, or with 0 that the device closes, and whether all
   work of the one or the other is finished. */
void vr_device_tell(struct vr_device_object *device, uint64_t ended_queue, bool finished);
/* Has every watcher give back what it can spare: the bytes. */
uint64_t vr_device_spare(struct vr_device_object *device);
/* Asks the watcher that is part of the object `handle`; false when there is none. */
bool vr_device_covers(struct vr_device_object *device, uint64_t handle, vram_addr addr,
                      uint64_t bytes);

/* ------------------------------------ the native device; device_reference.c */

/* Adds or drops one of a device's keepers. Who drops the last closes it. */
void vr_device_keep(struct vr_device_object *device);
void vr_device_drop(struct vr_device_object *device);
/* Host memory of vr_mem's, part of which work may use whose end nobody can see: freed when the
   device has been closed. Work uses none of its first sizeof(void *) bytes, which are the device's
   from now on. */
void vr_device_free_later(struct vr_device_object *device, void *memory);

/* ------------------------------------------------------------ peers; peer.c */

/* Whether `device` may read the memory of the device behind `peer`. */
bool vr_device_reads(struct vr_device_object *device, uint64_t peer);

/* ---------------------------------------- limits and accounting; coarse.c */

vram_status vr_charge(struct vr_device_object *device, uint64_t bytes);
/* The same with a bound of the caller's own to all that is charged; `why` names it. */
vram_status vr_charge_within(struct vr_device_object *device, uint64_t bytes, uint64_t most,
                             const char *why);
/* The hard limit for the device, the option's or the program's, whichever is less; 0: none. */
uint64_t vr_charge_limit(const struct vr_device_object *device);
void vr_uncharge(struct vr_device_object *device, uint64_t bytes);
/* Returns what is held now, for vr_held_peak once the call cannot fail any more. */
uint64_t vr_held_add(struct vr_device_object *device, uint64_t bytes);
void vr_held_sub(struct vr_device_object *device, uint64_t bytes);
void vr_held_peak(struct vr_device_object *device, uint64_t bytes);

/* ---------------------------------------------- addresses; address_check.c */

/* Whether what was found at an address, and belongs to a range or a pool, has memory throughout
   [addr, addr + bytes). */
struct vr_address_info;
bool vr_address_info_covers(struct vr_device_object *device, const struct vr_address_info *place,
                            vram_addr addr, uint64_t bytes);
/* Whether a range that begins where a live block of a pool does ends in that block; VRAM_OK for all
   that begins elsewhere. `place` is what vr_address_find has found there. Under no lock. */
vram_status vr_block_check(const struct vr_address_info *place, vram_addr addr, uint64_t bytes);
/* Whether [addr, addr + bytes) is live memory of `device` that its queues may touch, and stays in
   its block as vr_block_check has it. */
vram_status vr_span_check(struct vr_device_object *device, vram_addr addr, uint64_t bytes);
/* The live memory at `addr` on any device of this process; *owner is pinned on success. */
vram_status vr_span_owner(vram_addr addr, struct vr_address_info *place,
                          struct vr_device_object **owner);

/* ---------------------------------- calls inside a queue; queue_entry.c */

/* Whether the queue takes calls: it was neither destroyed nor is its device closing. */
bool vr_queue_is_open(const struct vr_queue_object *queue);
/* vr_enter for a queue; VRAM_ERR_STALE once it is ending, unless the calling thread is already
   inside a call that submits work to it. */
vram_status vr_queue_enter(const vram_queue *handle, void **entered);
/* The same for a call that may give the queue work or a signal. The queue does not end before that
   call has left, or has said that it submits nothing more: then it owes a vr_leave only. A call of
   several steps, such as a copy and the note that it uses a buffer, enters around all of them: each
   step may enter again, and finds the queue open until the outermost leaves. In the same thread,
   and no callback of the program's inside. */
vram_status vr_submit_enter(const vram_queue *handle, void **entered);
void vr_submit_leave(void *queue);
/* For who has a reference already; false: the queue has ended. */
bool vr_submit_begin(struct vr_queue_object *queue);
void vr_submit_end(struct vr_queue_object *queue);
/* Around questions to the driver by who has pinned the queue; false: it has ended, and everything
   has passed. */
bool vr_queue_hold(struct vr_queue_object *queue);
void vr_queue_release(struct vr_queue_object *queue);
/* Waits until no call is inside one of the queue's two guards, or says VRAM_ERR_TIMEOUT. On a lost
   device it does not wait: calls submit nothing there, and a program may end everything from its
   log callback, inside such a call. */
vram_status vr_calls_wait(const struct vr_queue_object *queue, const struct vr_entry_guard *guard,
                          uint64_t deadline);
/* Waits until each queue of the device was seen without a call of another thread that submits work:
   such a call has by then submitted all work on memory that it found live. False: not before the
   deadline. */
bool vr_submits_wait(struct vr_device_object *device, uint64_t deadline);

/* --------------------------------------------------------- points; point.c */

/* Whether a number of the queue has passed: a look at its word, no driver call. */
bool vr_queue_passed(struct vr_queue_object *queue, uint64_t value);
vram_status vr_queue_mark(struct vr_queue_object *queue, uint64_t *value);
/* What vram_queue_mark and vram_queue_after do, for who has a reference to the queue. */
vram_status vr_queue_submit_mark(struct vr_queue_object *queue, vram_point *point);
vram_status vr_queue_submit_after(struct vr_queue_object *queue, vram_point point);
/* For queues that only the program submits to: has the driver say whether the queue is idle, and if
   so lets the number pass, which need not be marked. */
void vr_queue_look(struct vr_queue_object *queue, uint64_t value);
/* When a call that was given `timeout` gives up: VRAM_TIMEOUT_DEFAULT is the context's option. */
uint64_t vr_wait_deadline(const struct vr_context *context, uint64_t timeout);
vram_status vr_queue_wait_value(struct vr_queue_object *queue, uint64_t value, uint64_t timeout);
/* Whether a wait for a queue that was answered so leaves work that may go on using memory: it is
   not known to have ended when the driver does not say. A lost device runs nothing any more. */
static inline bool vr_work_goes_on(vram_status waited) {
    return waited != VRAM_OK && waited != VRAM_ERR_DEVICE_LOST;
}
/* Waits until all work that the queue was given is done, whether or not it can be marked. */
vram_status vr_queue_settle(struct vr_queue_object *queue, uint64_t deadline);
/* The same by handle, and also for a queue that is ending, which public waits refuse: for a call
   that has failed and must not leave its work behind. Waits up to the context's option
   wait_timeout. Whether the work has ended, as that of a lost device has; no error is recorded. */
bool vr_queue_drained(const vram_queue *handle);

/* ------------------------------------------------------------------- ending */

/* Ends a queue of a closing device; false: it is left alone, since it did not finish; queue.c. */
bool vr_queue_retire(struct vr_queue_object *queue, uint64_t deadline);
/* vram_queue_destroy with a deadline of the caller's, who has entered the queue; queue.c. */
vram_status vr_queue_destroy_by(struct vr_queue_object *queue, uint64_t deadline);
/* Unmaps what is mapped in any range of the device; mapping.c. */
void vr_ranges_unmap(struct vr_device_object *device);
/* Gives every allocation and range of a device back that nobody else refers to; coarse.c. */
void vr_records_end(struct vr_device_object *device);
/* Ends the queues of a device that the caller holds a reference to; closing.c. */
void vr_device_quiet(struct vr_device_object *device, uint64_t deadline);
/* Around a call that has a queue of another device read `device`; false: that is closing;
   closing.c. */
bool vr_reader_begin(struct vr_device_object *device);
void vr_reader_end(struct vr_device_object *device);
/* Waits for queues of other devices that may read `device`; false: not all has finished, or some
   never did before; closing.c. */
bool vr_readers_wait(struct vr_device_object *device, uint64_t deadline);
/* Ends a device whose handle the caller has retired and holds a reference to, its children first.
   Work is waited for until the deadline: VRAM_ERR_TIMEOUT when it goes on, and its memory is kept;
   closing.c. */
vram_status vr_device_finish(struct vr_device_object *device, uint64_t deadline);

#endif
