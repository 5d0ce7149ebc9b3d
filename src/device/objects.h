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
 */
#ifndef VR_OBJECTS_H
#define VR_OBJECTS_H

#include "backend/backend.h"
#include "base/handle.h"
#include "base/list.h"
#include "base/lock.h"

/* The head of every object behind a handle. */
struct vr_object {
    uint64_t handle;  /* what users hold */
    uint64_t process; /* vr_os_process_generation of the process that made it */
};

/* ------------------------------------------------------------------ context */

struct vr_slot {
    struct vr_backend *backend;
    uint32_t backend_index;
    struct vram_device_info info;
    vr_atomic_u64 charged_bytes; /* device memory held through all handles of this context */
};

struct vr_backend_state {
    struct vr_backend base;
    bool started;
    uint32_t device_count;
    char reason[sizeof((struct vram_backend_info *)0)->reason];
};

struct vr_context {
    struct vr_object object;
    struct vr_backend_state *backends; /* one per registry row, same order */
    uint32_t backend_count;
    struct vr_slot *slots; /* one per device, order of preference */
    uint32_t slot_count;
    bool sim_wanted;      /* the user asked for a simulation */
    uint64_t wait_ns;     /* option wait_timeout, at creation */
    uint64_t limit_bytes; /* option device_limit, at creation; 0: none */
    struct vr_mutex lock; /* guards the two below */
    bool closing;
    struct vr_list devices; /* vr_device_object.link */
};

/* ------------------------------------------------------------------- device */

struct vr_device_object {
    struct vr_object object;
    struct vr_device base;
    struct vr_context *context; /* pinned */
    struct vr_slot *slot;
    struct vr_link link;  /* in context->devices */
    struct vr_mutex lock; /* guards all below but the atomics */
    bool closing;
    struct vr_list queues;    /* vr_queue_object.link */
    struct vr_list kernels;   /* vr_kernel.link */
    struct vr_list physicals; /* vr_physical.link */
    struct vr_list records;   /* vr_record.link */
    uint64_t *peers;          /* handles of devices whose memory it may read */
    uint32_t peer_count;
    vr_atomic_u64 held_bytes, held_peak_bytes, held_count;
    vr_atomic_u64 driver_calls;
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
    vr_atomic_u64 issued;            /* highest value any signal was asked to write */
    vr_atomic_u64 settled;           /* points up to here are known to have passed; only rises */
    vr_atomic_u64 looks;             /* polls that found a point not passed */
    vr_atomic_bool ended;            /* destroyed or ended by the user; only points still work */
    vr_atomic_bool idle;             /* all work is known to be done; nothing new can come */
    uint64_t *followed;              /* handles of devices pinned for our waits; device lock */
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
    bool mapped; /* in some range, or on the way there; device lock */
};

/* -------------------------------------------------------- entering, leaving */

/* Refuses after exit, pins the object behind `handle`, refuses in a forked child. On VRAM_OK the
   caller owes a vr_leave. */
vram_status vr_enter(enum vr_kind kind, const void *handle, const char *operation, void **object);
void vr_leave(void *object);

/* Whether the process is exiting: from then on no driver is called. */
bool vr_exiting(void);
/* Sees to it that vr_exiting becomes true before the drivers' own exit handlers run. Called after
   the drivers were started. */
vram_status vr_process_watch(void);
/* Whether the object was made by a process of which this one is a fork. */
bool vr_forked(const struct vr_object *object);

/* Copies min(size) bytes of an info struct that the caller's header may know shorter or longer.
   VRAM_ERR_INVALID for NULL and for sizes no version had. */
vram_status vr_info_give(void *to, const void *from, size_t bytes, size_t oldest,
                         const char *operation);
/* Reads an option struct of whatever version into `to`, which is zeroed first. */
vram_status vr_options_take(void *to, size_t bytes, const void *from, const char *operation);

/* Ends a device that the caller holds a reference to, its children first; device.c. */
void vr_device_retire(uint64_t handle, struct vr_device_object *device);
/* Lists a child, or says VRAM_ERR_SHUTDOWN when the device is closing. */
vram_status vr_device_list_child(struct vr_device_object *device, struct vr_list *list,
                                 struct vr_link *link, const char *operation);

/* Limits and accounting; coarse.c. */
vram_status vr_charge(struct vr_device_object *device, uint64_t bytes, const char *operation);
void vr_uncharge(struct vr_device_object *device, uint64_t bytes);
void vr_held_add(struct vr_device_object *device, uint64_t bytes);
void vr_held_sub(struct vr_device_object *device, uint64_t bytes);

/* At the end of a device: unmaps what is mapped (range.c), ends a queue (queue.c), and gives every
   allocation and range back to the driver (coarse.c). */
void vr_ranges_unmap(struct vr_device_object *device);
void vr_queue_retire(struct vr_queue_object *queue);
void vr_records_end(struct vr_device_object *device);

/* Whether [addr, addr + bytes) is live memory of `device` that its queues may touch; range.c. */
vram_status vr_span_check(struct vr_device_object *device, vram_addr addr, uint64_t bytes,
                          const char *operation);
/* The same for `addr` on any device; *owner is pinned on success. */
vram_status vr_span_owner(vram_addr addr, const char *operation, struct vr_device_object **owner);

/* vr_enter for a queue; VRAM_ERR_STALE once it has ended; queue.c. */
vram_status vr_queue_enter(const vram_queue *handle, const char *operation, void **entered);

/* Points; point.c. */
vram_status vr_queue_mark(struct vr_queue_object *queue, uint64_t *value);
vram_status vr_queue_wait_value(struct vr_queue_object *queue, uint64_t value, uint64_t timeout,
                                const char *operation);

#endif
