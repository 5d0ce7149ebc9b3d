/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.h: copies between a device and pageable host memory, through page-locked memory of the
 * library.
 *
 *     upload     user memory --copies--> slot --bus--> device        download   the same, backwards
 *
 *                slot 0   |copy|==bus==|        |copy|==bus==|
 *                slot 1        |copy|==bus==|        |copy|==bus==|
 *                slot 2             |copy|==bus==|        ...
 *
 * A device's slots are allocated when needed, up to the option `staging_slots`. They are freed by
 * vr_staging_trim, by a cleanup of the device, by a worker when no copy has used them for the
 * option `staging_idle` and no queue has work, and with the device. A transfer is cut into chunks,
 * each of which goes through one slot. The caller and the workers of copy_workers.h copy the pieces
 * of a chunk, and chunks follow each other without a barrier.
 *
 *  (1) A slot is FREE, HELD by the transfer that fills or empties it, or BUSY until a point of a
 *      queue. Any thread may take a BUSY slot once its point has passed; a lost device has no work
 *      that could use it.
 *  (2) No lock is held across a driver call, a copy or a wait.
 *  (3) A transfer that has a slot waits only for its own. One that has none waits a few
 *      milliseconds for those of others and then copies the driver's way. So two transfers cannot
 *      block each other, whatever their queues wait for.
 *  (4) When a transfer ends, no thread copies from or to the user's memory any more, whatever has
 *      failed.
 *  (5) Every step names its queue by handle: a queue that is destroyed meanwhile ends the transfer
 *      with VRAM_ERR_STALE. Every user of slots or registrations, a cleanup of the device included,
 *      is inside `calls`, and the device ends when `calls` is empty.
 */
#ifndef VR_STAGING_H
#define VR_STAGING_H

#include "base/entry_guard.h"
#include "device/objects.h"
#include "xfer/copy_workers.h"
#include "xfer/registration.h"

enum { VR_STAGING_SLOTS_MAX = 64 };

enum vr_slot_state {
    VR_SLOT_NONE = 0, /* no memory */
    VR_SLOT_FREE,
    VR_SLOT_HELD, /* one thread uses it, or allocates its memory */
    VR_SLOT_BUSY  /* until its point has passed */
};

struct vr_staging_slot {
    enum vr_slot_state state; /* guarded by the staging's lock */
    uint64_t sequence;        /* order in which slots became BUSY; the same lock */
    /* The transfer that has it, or had it before it became BUSY; 0: none; the same lock. */
    uint64_t transfer;
    vram_addr memory; /* a host pointer; slot_bytes */
    vram_point point; /* BUSY; value 0: no point, the slot waits for an idle queue */
    struct vr_copy_job job;
    uint64_t at, bytes; /* the part of the transfer */
};

/* Counters, named as in vram_pinned_info. */
struct vr_staging_counts {
    vr_atomic_u64 uploads, downloads, upload_bytes, download_bytes;
    vr_atomic_u64 chunks, plain, plain_bytes, refusals, waits;
};

struct vr_staging {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    struct vr_copy_workers workers;
    struct vr_registrations registrations; /* of the program's own memory */
    struct vr_staging_counts counts;
    uint64_t slot_bytes;
    uint32_t slot_most;
    struct vr_entry_guard calls; /* (5); closed: the device is closing, and waits end */
    struct vr_mutex lock;        /* guards the rest */
    struct vr_cond changed;
    bool abandoned;     /* the device's work did not end: slots and registrations are not freed */
    uint64_t sequences; /* times that a slot became BUSY */
    uint64_t used_ns;   /* vr_os_now when a transfer last began or ended */
    uint64_t transfers; /* number of the last transfer */
    struct vr_staging_slot slots[VR_STAGING_SLOTS_MAX];
};

/* The device's staging, created at first use, with a reference that vr_staging_leave drops.
   VRAM_ERR_HOST_MEMORY, _SHUTDOWN. The caller has pinned the device. */
vram_status vr_staging_enter(struct vr_device_object *device, struct vr_staging **staging);
void vr_staging_leave(struct vr_staging *staging);

/* A slot that is not in use; NULL: none now. With `may_make` one is allocated if needed; *refused
   if that failed. No lock held. */
struct vr_staging_slot *vr_slot_take(struct vr_staging *staging, uint64_t transfer, bool may_make,
                                     bool *refused);
/* Whether the transfer has a slot, or was the last that had it; with 0, whether there are any. */
bool vr_slot_any(struct vr_staging *staging, uint64_t transfer);
/* Makes the slot free, or busy until `queue` has completed the work submitted so far. If no point
   can be made the status says why, and the slot is busy until the queue is idle. */
void vr_slot_free(struct vr_staging *staging, struct vr_staging_slot *slot);
vram_status vr_slot_busy(struct vr_staging *staging, struct vr_staging_slot *slot,
                         vram_queue *queue);
/* Takes the oldest busy slot of the transfer `whose` (0: of any) when its point has passed, and
   waits for that at most so long. VRAM_OK with *slot NULL: there is none, or not yet. */
vram_status vr_slot_await(struct vr_staging *staging, uint64_t whose, uint64_t transfer,
                          uint64_t ns, struct vr_staging_slot **slot);
/* Downloads what fits into a slot, waits, and copies it, all on the calling thread: no worker knows
   of it. False: it does not fit, there is no slot, or the driver has no memory for it now. */
bool vr_slot_fetch(struct vr_staging *staging, vram_queue *queue, uint64_t transfer, void *to,
                   vram_addr from, uint64_t bytes, vram_status *status);

/*
 * Copies `bytes` of ordinary host memory to the device, in the order of `queue`. When it returns,
 * `from` has been read and may be changed; the device has it when the queue has completed the copy.
 * Waits for the queue when it needs its slots again, up to the option `wait_timeout`. After a
 * failure some of it may have been copied. A driver that runs out of memory once is not a failure.
 */
vram_status vr_staging_upload(vram_queue *queue, vram_addr to, const void *from, uint64_t bytes);

/* The same from the device. When it returns VRAM_OK, `to` has been written: it waits for the
   queue. */
vram_status vr_staging_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes);

/*
 * The same without waiting, if all of it fits into free slots and workers are allowed. *begun: the
 * record is settled when a worker has written `to`, or has failed to. Otherwise nothing was
 * submitted and the caller still has the record, as after a failure. Work submitted to the queue
 * later runs behind the read on the device. The queue's points do not tell that `to` is written,
 * the record does.
 */
struct vr_async;
vram_status vr_staging_download_begin(vram_queue *queue, void *to, vram_addr from, uint64_t bytes,
                                      struct vr_async *record, bool *begun);

/* Whether staging can be faster than the driver: there is page-locked memory, and the host cannot
   access the device's memory itself. */
bool vr_staging_is_useful(const struct vr_device_object *device);

/* Frees unused slots and registrations. Returns their bytes. */
uint64_t vr_staging_trim(struct vr_staging *staging);

#endif
