/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h: the objects behind the public handles, and which object keeps which alive.
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
 *  (4) Destroying a parent retires its children first. A child that is being created meanwhile
 *      finds `closing` set, under the parent's lock, when it is to be listed, and is undone.
 *  (5) No lock is held across an operation of a backend. What must not change meanwhile is marked
 *      under the lock first.
 *  (6) A queue ends after the last call that submits work to it, and memory is freed after the last
 *      work that may use it: closing waits for both. What does not finish in time is kept, with its
 *      device.
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

/* A number of bytes and its maximum so far. `now` may be below 0 briefly. */
struct vr_gauge {
    vr_atomic_u64 now, peak;
};

static inline void vr_gauge_add(struct vr_gauge *gauge, int64_t high, int64_t change) {
    int64_t before = (int64_t)vr_fetch_add(&gauge->now, (uint64_t)change, VR_RELAXED);
    if (before + high > (int64_t)vr_load(&gauge->peak, VR_RELAXED)) {
        vr_atomic_max(&gauge->peak, (uint64_t)(before + high));
    }
}

/* What is held of one physical device, and its limit. Backends that list the same GPU
   (vram_device_same) share one account, so that its memory is counted once. */
struct vr_account {
    vr_atomic_u64 charged_bytes; /* device memory held through all handles of this context */
    vr_atomic_u64 limit_bytes;   /* the program's own limit for charged_bytes; 0: none */
    vr_atomic_u64 lease;         /* the grant of a lease (src/lease) and 1; 0: there is none */
    vr_atomic_ptr ledger;        /* owned by the tier above; NULL: not created yet */
    void (*ledger_free)(void *); /* frees it with the context; set before it */
};

struct vr_slot {
    struct vr_backend *backend;
    uint32_t backend_index;
    struct vram_device_info info;
    struct vr_account *account; /* its own, or that of the first slot of the same physical device */
    struct vr_account own;      /* zero if it uses another slot's */
    vr_atomic_u64 charged_bytes; /* its part of the account's charged_bytes */
    vr_atomic_u64 charged_peak;  /* maximum of charged_bytes */
    struct vr_gauge requested;   /* live in pools, as requested */
    void *peaks;                 /* owned by the tier above, from vr_mem; NULL: none */
    vr_atomic_u64 shared;        /* the process's handle on the device; shared_device.c; 0: none */
};

struct vr_backend_state {
    struct vr_backend base;
    bool wanted; /* not left out by the options */
    bool started;
    uint32_t device_count;
    char reason[sizeof((struct vram_backend_info *)0)->reason];
};

/* Number of statuses. */
enum {
#define VR_STATUS_NUMBER(name, value, text) VR_STATUS_OF_##name,
    VRAM_STATUS_MAP(VR_STATUS_NUMBER)
#undef VR_STATUS_NUMBER
        VR_STATUS_COUNT
};

/* Errors of one status that were passed to a handler; core/ladder/handler.c. */
struct vr_error_count {
    uint64_t total;
    double recent; /* as of at_ns */
    uint64_t at_ns;
};

/*
 * A function of the program whose type only core/ladder knows (vram/oom.h), which casts it back. So
 * a change of that header does not recompile this tier.
 */
typedef void vr_program_fn(void);

/* A context's error handler, and the errors that were passed to it. */
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
    vr_atomic_u64
        quiescing_thread;        /* thread that is freeing page-locked memory; 0: none; quiesce.h */
    vr_atomic_u64 quiesce_began; /* vr_os_now when it began */
    void *peaks;                 /* owned by the tier above, from vr_mem; NULL: none */
    struct vr_mutex lock;        /* guards the rest, and vr_device_object.queues_stopped */
    struct vr_error_handler handler;
    bool closing;
    struct vr_list devices; /* vr_device_object.link */
    /* vr_watcher.link: objects of a higher tier on the context (a monitor). Each is notified before
       any device ends, and must then end and unlist itself. */
    struct vr_list watchers;
};

/* ------------------------------------------------------------------- device */

enum vr_rest { VR_REST_SEALED, VR_REST_ASLEEP }; /* vram_pool_seal, vram_pool_sleep */

/*
 * An object of a higher tier on a device (a pool), which has a handle. It is notified, with no lock
 * held and a reference taken, when a queue of the device has ended and when the device closes; in
 * the latter case it must end and unlist itself. Unless all work is `finished`, it must not free
 * memory that this work may use. There are two notifications for a queue that was destroyed before
 * its work was done.
 */
struct vr_watcher {
    struct vr_link link; /* in device->watchers */
    uint64_t handle;     /* of the object that contains it */
    uint64_t number;     /* among the device's watchers, rising in list order */
    void (*queue_ended)(struct vr_watcher *watcher, uint64_t queue, bool finished);
    void (*closing)(struct vr_watcher *watcher, bool finished);
    /* Only of objects with a range, as is `rests`: whether the range has memory in all of
       [addr, addr + bytes), which lies in it. */
    bool (*covers)(struct vr_watcher *watcher, vram_addr addr, uint64_t bytes);
    /* Whether a part of it is at rest in that way. Called for ranges whose record says that they
       may be. */
    bool (*rests)(struct vr_watcher *watcher, enum vr_rest how, vram_addr addr, uint64_t bytes);
    /* Frees cached memory that is not in use and returns the bytes. NULL: it caches nothing. */
    uint64_t (*spare)(struct vr_watcher *watcher);
};

/* A callback of the program for pools that run out of memory; core/ladder/ladder_callback.c. */
enum { VR_OOM_CALLBACKS = 16 }; /* VRAM_OOM_CALLBACKS_MAX */
struct vr_oom_callback {
    vr_program_fn *call; /* a vram_oom_fn; NULL: none, or removed */
    void *user;
    uint64_t id;     /* among the device's, rising; 0: the entry is free */
    uint32_t inside; /* calls in progress */
};

struct vr_device_object {
    struct vr_object object;
    struct vr_device base;
    struct vr_context *context; /* pinned */
    struct vr_slot *slot;
    struct vr_link link; /* in context->devices */
    bool queues_stopped; /* the ending context has stopped its queues; context lock */
    vr_atomic_u32
        native_users; /* the handle, and queues of other devices that wait for its words */
    struct vr_entry_guard readers; /* calls in which another device's queue reads its memory */
    struct vr_mutex lock;          /* guards all below except the atomics */
    bool closing;                  /* accepts no more children */
    bool unmapping;                /* its queues have finished: mappings are being removed */
    bool unfinished;               /* work that may use its memory never ended: nothing is freed */
    struct vr_list queues;         /* vr_queue_object.link */
    struct vr_list kernels;        /* vr_kernel.link */
    struct vr_list physicals;      /* vr_physical.link */
    struct vr_list records;        /* vr_record.link */
    struct vr_list watchers;       /* vr_watcher.link */
    struct vr_handle_set natives;  /* the driver's handles of physical memory; ops.c */
    uint64_t watcher_numbers;      /* last number issued */
    struct vr_oom_callback callbacks[VR_OOM_CALLBACKS];
    uint64_t callback_ids; /* last id issued */
    void *deferred;  /* memory to free after it is closed; each begins with a link to the next */
    uint64_t *peers; /* handles of devices whose memory it may read */
    uint32_t peer_count;
    vr_atomic_u64 held_bytes, held_peak_bytes, held_count;
    vr_atomic_u64 driver_calls;
    vr_atomic_u64 flight; /* handle of the transfer tier's object for it; 0: not created yet */
    vr_atomic_ptr
        transfers; /* counters of xfer/transfer_counts.c, one allocation; NULL: not created yet */
    vr_atomic_u64 shared_pool; /* handle of the process's pool; core/pool/shared_pool.c; 0: none */
};

static inline struct vr_device_object *vr_device_of(struct vr_device *device) {
    return VR_CONTAINER(device, struct vr_device_object, base);
}

/* -------------------------------------------------------------------- queue */

struct vr_queue_object {
    struct vr_object object;
    struct vr_queue base;
    struct vr_device_object *device; /* pinned */
    struct vr_link link;             /* in device->queues */
    vr_atomic_u64 submissions;       /* copies, launches and waits that were submitted to it */
    vr_atomic_u64 marked;            /* `submissions` at the last mark */
    vr_atomic_bool shown;            /* the program has its native queue and may submit to it */
    vr_atomic_u64 issued;            /* highest number issued for a mark */
    vr_atomic_u64 mark_epoch;        /* of marks; its last bit selects their counter in `marking` */
    vr_atomic_u32 marking[2];        /* marks in progress: see point.c (7) */
    vr_atomic_bool behind;           /* the word may stay below `signalled`: see point.c (5) */
    vr_atomic_u64 signalled;         /* highest number that the driver agreed to write */
    vr_atomic_u64 settled;           /* points up to here are known to have passed; only rises */
    vr_atomic_u64 unpassed_polls;    /* polls that found a point not passed */
    vr_atomic_bool closed;           /* its device is closing: it accepts no more work */
    vr_atomic_bool finished;         /* all work is done, and no more can be submitted */
    bool region;                     /* created by vram_capture_begin */
    vr_atomic_bool shared;           /* created by vram_queue_shared */
    vr_atomic_bool captured;         /* a region that has not ended: no marker is submitted to it */
    struct vr_entry_guard submitting; /* calls that may submit work to it; closed: it is ending */
    /* Calls that query the driver about it. Closed: all is done, and only the program uses the
       native queue. */
    struct vr_entry_guard querying;
    struct vr_device_object **awaited; /* devices whose words it may wait for; device lock */
    uint32_t awaited_count;
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
    bool mapped;    /* in some range, or being mapped; device lock */
    bool releasing; /* a call is releasing it to the driver; device lock */
};

/* ----------------------------------------------------- children; children.c */

/* The next device of a context, or queue of a device, in the order of handles, with a reference
   that vr_leave drops; NULL after the last. No lock held. */
struct vr_device_object *vr_device_behind(struct vr_context *context, uint64_t last);
struct vr_queue_object *vr_queue_behind(struct vr_device_object *device, uint64_t last);
/* The object of a handle that is remembered, pinned; NULL if the handle is 0, or its object has
   ended or is of a parent process. */
void *vr_shared_find(enum vr_kind kind, uint64_t handle);
/* Lists a child; VRAM_ERR_SHUTDOWN if the device is closing. */
vram_status vr_device_list_child(struct vr_device_object *device, struct vr_list *list,
                                 struct vr_link *link);
void vr_queue_unlist(struct vr_queue_object *queue);
/* Lists a record, also if the device is closing, and unlists it. */
struct vr_record;
void vr_record_list(struct vr_device_object *device, struct vr_record *record);
void vr_record_unlist(struct vr_device_object *device, struct vr_record *record);

/* ------------------------------------------------------ watchers; watcher.c */

/* Lists a watcher; VRAM_ERR_SHUTDOWN if the device is closing. The second is for callers that hold
   the device's lock and have checked that it is not. */
vram_status vr_device_list_watcher(struct vr_device_object *device, struct vr_watcher *watcher);
void vr_device_append_watcher(struct vr_device_object *device, struct vr_watcher *watcher);
/* Notifies every watcher that a queue has ended, or with 0 that the device closes, and whether all
   work of the queue or device is finished. */
void vr_device_notify(struct vr_device_object *device, uint64_t ended_queue, bool finished);
/* Makes every watcher free its cached memory; returns the bytes. */
uint64_t vr_device_spare(struct vr_device_object *device);
/* Both ask the watcher that is part of the object `handle`; false if there is none. */
bool vr_device_covers(struct vr_device_object *device, uint64_t handle, vram_addr addr,
                      uint64_t bytes);
bool vr_device_rests(struct vr_device_object *device, uint64_t handle, enum vr_rest how,
                     vram_addr addr, uint64_t bytes);

/* ------------------------------------ the native device; device_reference.c */

/* Adds or drops a reference to the native device. The last one closes it. */
void vr_native_ref(struct vr_device_object *device);
void vr_native_unref(struct vr_device_object *device);
/* Memory of vr_mem that is used by work whose end cannot be detected: freed after the device is
   closed. The work must not use its first sizeof(void *) bytes, which belong to the device from now
   on. */
void vr_device_free_later(struct vr_device_object *device, void *memory);

/* ------------------------- objects of the process; shared_device.c, shared_pool.c */

/* Finds out whether there are cards; whether they may have registered memory by now, which stays
   so. Without locks. network_card.c */
void vr_network_cards_find(struct vr_device *device);
bool vr_network_cards_register(struct vr_device *device);

/* Whether vram_device_shared returns this handle on the device. */
bool vr_device_is_shared(const struct vr_device_object *device);

/* ------------------------------------------------------------ peers; peer.c */

/* Whether `device` may read the memory of the device behind `peer`. */
bool vr_device_reads(struct vr_device_object *device, uint64_t peer);

/* ------------------------------------------------- kinds of memory; coarse.c */

/* One kind of driver memory: the capability it needs, and how it is allocated and freed. */
struct vr_memory_row {
    const char *name;
    uint32_t cap;   /* 0: every device has it */
    bool on_device; /* it is charged to the device's limits */
    vr_memory_alloc_fn *alloc;
    vr_memory_free_fn *free;
};

/* NULL for a number that is not a kind of driver memory. */
const struct vr_memory_row *vr_memory_row(vram_memory_kind kind);
/* Allocations of that kind are multiples of this, and aligned to it. */
uint64_t vr_memory_granule(const struct vr_device_object *device, vram_memory_kind kind);
/* VRAM_ERR_UNSUPPORTED, with the device's name, if the device lacks that kind. */
vram_status vr_memory_kind_check(const struct vr_device_object *device, vram_memory_kind kind);

/* ---------------------------------------- limits and accounting; coarse.c */

vram_status vr_charge(struct vr_device_object *device, uint64_t bytes);
/* The same with the caller's own limit on all that is charged; `why` names it. */
vram_status vr_charge_within(struct vr_device_object *device, uint64_t bytes, uint64_t most,
                             const char *why);
/* The hard limit for the device: the smaller of the option's and the program's; 0: none. */
uint64_t vr_charge_limit(const struct vr_device_object *device);
/* The grant of the context's lease on the device; UINT64_MAX: it has none. Whoever lowers a grant
   stores it first and reads charged_bytes then, both VR_SEQ_CST; a charge is made in the opposite
   order. So one of the two sees the other, and no charge passes the grant. */
static inline uint64_t vr_lease_limit(const struct vr_device_object *device) {
    uint64_t lease = vr_load(&device->slot->account->lease, VR_SEQ_CST);
    return lease ? lease - 1 : UINT64_MAX;
}
void vr_uncharge(struct vr_device_object *device, uint64_t bytes);
/* Returns what is held now, for vr_held_peak once the call can no longer fail. */
uint64_t vr_held_add(struct vr_device_object *device, uint64_t bytes);
void vr_held_sub(struct vr_device_object *device, uint64_t bytes);
void vr_held_peak(struct vr_device_object *device, uint64_t bytes);

/* ---------------------------------------------- addresses; address_check.c */

/* Whether `place`, which belongs to a range or a pool, has memory in all of [addr, addr +
   bytes). */
struct vr_address_info;
bool vr_address_info_covers(struct vr_device_object *device, const struct vr_address_info *place,
                            vram_addr addr, uint64_t bytes);
/* Whether a span that begins at the start of a pool's live block ends in that block; VRAM_OK for a
   span that begins elsewhere. `place` is the result of vr_address_find. Under no lock. */
vram_status vr_block_check(const struct vr_address_info *place, vram_addr addr, uint64_t bytes);
/* Whether [addr, addr + bytes) is live memory of `device` that its queues may access, and passes
   vr_block_check. */
vram_status vr_span_check(struct vr_device_object *device, vram_addr addr, uint64_t bytes);
/* The same for memory that is to be written: VRAM_ERR_INVALID also if it is sealed. */
vram_status vr_span_check_write(struct vr_device_object *device, vram_addr addr, uint64_t bytes);
/* The live memory at `addr` on any device of this process; *owner is pinned on success. */
vram_status vr_span_owner(vram_addr addr, struct vr_address_info *place,
                          struct vr_device_object **owner);

/* ---------------------------------- calls inside a queue; queue_entry.c */

/* Whether the queue accepts calls: it was not destroyed, and its device is not closing. */
bool vr_queue_is_open(const struct vr_queue_object *queue);
/* vr_enter for a queue; VRAM_ERR_STALE once it is ending, unless the calling thread is already
   inside a call that submits work to it. */
vram_status vr_queue_enter(const vram_queue *handle, void **entered);
/* The same for a call that may submit work or a signal to the queue. The queue does not end before
   that call has left, or has declared with vr_submit_end that it submits nothing more: then it only
   needs vr_leave. A call of several steps, such as a copy and the note that it uses a buffer,
   enters around all of them. Each step may enter again, and finds the queue open until the
   outermost leaves. In the same thread, and with no callback of the program inside. */
vram_status vr_submit_enter(const vram_queue *handle, void **entered);
void vr_submit_leave(void *queue);
/* For callers that have a reference; false: the queue has ended. */
bool vr_submit_begin(struct vr_queue_object *queue);
void vr_submit_end(struct vr_queue_object *queue);
/* Around queries to the driver, for callers that have pinned the queue. False: it has ended, and
   every point has passed. */
bool vr_queue_hold(struct vr_queue_object *queue);
void vr_queue_release(struct vr_queue_object *queue);
/* Waits until no call is inside one of the queue's two guards; VRAM_ERR_TIMEOUT. On a lost device
   it does not wait: calls submit nothing there, and a program may end everything from its log
   callback, inside such a call. */
vram_status vr_calls_wait(const struct vr_queue_object *queue, const struct vr_entry_guard *guard,
                          uint64_t deadline);
/* Waits until each queue of the device was seen without a call of another thread that submits work.
   By then such a call has submitted all work on memory that it found live. False: not before the
   deadline. */
bool vr_submits_wait(struct vr_device_object *device, uint64_t deadline);

/* --------------------------------------------------------- points; point.c */

/* Whether a number of the queue has passed: reads its word, calls no driver. */
bool vr_queue_passed(struct vr_queue_object *queue, uint64_t value);
vram_status vr_queue_mark(struct vr_queue_object *queue, uint64_t *value);
/* Whether all its work is complete, as far as is known without a query of the driver, which takes
   2 us on an H200, or by one. A submission that has not returned may be missed. */
bool vr_queue_is_idle(struct vr_queue_object *queue);
/* What vram_queue_mark and vram_queue_after do, for callers that have a reference to the queue. */
vram_status vr_queue_submit_mark(struct vr_queue_object *queue, vram_point *point);
vram_status vr_queue_submit_after(struct vr_queue_object *queue, vram_point point);
/* For queues to which only the program submits: asks the driver whether the queue is idle. If it
   is, the number counts as passed, even if it was never marked. */
void vr_queue_look(struct vr_queue_object *queue, uint64_t value);
/* The deadline of a call with `timeout`: VRAM_TIMEOUT_DEFAULT is the context's option. */
uint64_t vr_wait_deadline(const struct vr_context *context, uint64_t timeout);
vram_status vr_queue_wait_value(struct vr_queue_object *queue, uint64_t value, uint64_t timeout);
/* Whether, after a wait for a queue with this status, work may still use memory: if the driver does
   not say, the work is not known to have ended. A lost device runs nothing. */
static inline bool vr_work_goes_on(vram_status waited) {
    return waited != VRAM_OK && waited != VRAM_ERR_DEVICE_LOST;
}
/* Waits until all submitted work of the queue is done, whether or not the queue can be marked. */
vram_status vr_queue_settle(struct vr_queue_object *queue, uint64_t deadline);
/* The same by handle, also for a queue that is ending, which public waits refuse: for a call that
   has failed and must not leave its work running. Waits up to the context's option wait_timeout.
   Returns whether the work has ended, as that of a lost device has; records no error. */
bool vr_queue_drained(const vram_queue *handle);

/* ------------------------------------------------------------------- ending */

/* Ends a queue of a closing device. False: it did not finish, and is kept; queue.c. */
bool vr_queue_retire(struct vr_queue_object *queue, uint64_t deadline);
/* Ends the process's own queues of threads that have ended, if their work has; queue.c. */
void vr_queues_sweep(struct vr_device_object *device);
/* vram_queue_destroy with a deadline of the caller, which has entered the queue; queue.c. */
vram_status vr_queue_destroy_by(struct vr_queue_object *queue, uint64_t deadline);
/* Unmaps everything that is mapped in ranges of the device; mapping.c. */
void vr_ranges_unmap(struct vr_device_object *device);
/* Frees every allocation and range of a device that has no other references; coarse.c. */
void vr_records_end(struct vr_device_object *device);
/* Ends the queues of a device that the caller has a reference to; closing.c. */
void vr_device_stop_queues(struct vr_device_object *device, uint64_t deadline);
/* Around a call in which a queue of another device reads `device`; false: `device` is closing;
   closing.c. */
bool vr_reader_begin(struct vr_device_object *device);
void vr_reader_end(struct vr_device_object *device);
/* Waits for queues of other devices that may read `device`; false: not all work has finished, or
   earlier work never did; closing.c. */
bool vr_readers_wait(struct vr_device_object *device, uint64_t deadline);
/* Ends a device whose handle the caller has retired and has a reference to, its children first.
   Waits for work until the deadline: VRAM_ERR_TIMEOUT if it has not finished, and its memory is
   kept; closing.c. */
vram_status vr_device_finish(struct vr_device_object *device, uint64_t deadline);

#endif
