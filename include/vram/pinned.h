/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pinned.h: page-locked host memory, which devices copy at full speed.
 *
 * A device copies page-locked memory by itself, in parallel to other work. It cannot reach ordinary
 * (pageable) memory, which the host has to copy first. There are three ways to page-locked memory:
 *
 *   pools       vram_pool_options.kind = VRAM_MEMORY_PINNED (vram/pool.h): blocks in nanoseconds.
 *               The best way for memory that the program gets from the library.
 *   staging     what vram/transfer.h does with large pieces of pageable memory: they go through a
 *               few page-locked slots of the library, several threads copying while the bus is
 *               busy. The program does nothing. Its options are staging_slot, staging_slots,
 *               staging_threads and staging_idle.
 *   in place    memory of the program is page-locked where it lies. That takes about 50 ms for a
 *               GiB, so it pays for memory that is copied many times. Pages stay locked after use,
 *               up to limits, so that the next time costs nothing.
 *
 * Releasing page-locked memory may wait for kernels: CUDA and HIP wait for all that run on any
 * queue, and a kernel that listens to a ring (vram/ring.h) does not end by itself. Releases that
 * are not urgent are therefore deferred while a queue of the context has work: trims (vram/pool.h;
 * VRAM_TRIM_PINNED releases staging slots and memory locked in place that nobody uses), maintenance
 * of pinned pools, idle slots. Others are made at once, and wait as the driver does:
 * vram_pinned_forget, a vram_pinned_begin that has to evict other ranges, vram_device_free, the end
 * of buffers and pools of such memory, and a pinned pool that needs room for a block. A program
 * with a ring does these before its kernel is launched or after it was stopped.
 *
 * Threads: any call may be made from any thread.
 */
#ifndef VRAM_PINNED_H
#define VRAM_PINNED_H

#include <vram/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- in place */

/**
 * Page-locks [memory, memory + bytes), and with it the rest of its first and last page, for copies
 * of this device, until vram_pinned_end. Pages that are locked already, by this call or from an
 * earlier time, cost nothing.
 *
 * The options pinned_limit (bytes) and pinned_entries bound what stays locked from earlier times;
 * the least recently used range goes first. Locked ranges that overlap the new one only in part are
 * unlocked and locked again. Unlocking may wait for kernels, see above.
 *
 * RULE: the library cannot see that memory is freed. Before memory that was page-locked goes back
 * to the system or to malloc, the program must call vram_pinned_forget for it.
 *
 * VRAM_ERR_BUSY: a part of it is locked and used by an overlapping vram_pinned_begin, or locked by
 * other code, which has to undo it; in the second case copies of it run at full speed.
 * VRAM_ERR_LIMIT, _HOST_MEMORY: the limits, or the system's own, leave no room; copies of it still
 * work, through staging. VRAM_ERR_UNSUPPORTED: the device's backend cannot (OpenCL, Vulkan and
 * Metal have no such call).
 */
VRAM_API vram_status vram_pinned_begin(vram_device *device, void *memory, uint64_t bytes);

/**
 * Ends one vram_pinned_begin with the same arguments, once the copies that it was for are complete.
 * The pages stay locked for the next time if the limits allow it. VRAM_ERR_INVALID if there was no
 * such begin.
 */
VRAM_API vram_status vram_pinned_end(vram_device *device, void *memory, uint64_t bytes);

/**
 * Unlocks whatever is locked of [memory, memory + bytes); call it before the memory is freed.
 * VRAM_ERR_BUSY, and nothing has changed, while an overlapping vram_pinned_begin has not ended.
 * Memory that is not locked is allowed. It may wait for kernels, see above, because memory that is
 * about to be freed cannot stay locked. VRAM_ERR_DEVICE_LOST: the library forgets the range, but
 * the driver of a lost device is not called any more and may keep the pages locked until the
 * process ends: they can be freed, but not page-locked again.
 */
VRAM_API vram_status vram_pinned_forget(vram_device *device, void *memory, uint64_t bytes);

/* ------------------------------------------------------------- what there is */

/** The state and the counters of copies of host memory on a device. */
typedef struct vram_pinned_info {
    size_t size;             /* in: sizeof(vram_pinned_info) of the caller */
    uint64_t slot_bytes;     /* of one staging slot */
    uint32_t slots;          /* that have memory now */
    uint32_t slots_busy;     /* of them, in use by transfers or the bus */
    uint32_t slots_most;     /* most there may be */
    uint32_t workers;        /* threads that copy, besides the callers */
    uint32_t workers_most;   /* most there may be */
    uint64_t uploads;        /* through staging, */
    uint64_t upload_bytes;   /* and their bytes */
    uint64_t downloads;      /* the same */
    uint64_t download_bytes; /* back */
    uint64_t chunks;         /* pieces that these were cut into */
    uint64_t plain; /* times that the driver copied pageable memory because no slot was free, */
    uint64_t plain_bytes;  /* and those bytes */
    uint64_t refusals;     /* of memory for slots */
    uint64_t waits;        /* for the bus, to use a slot again */
    uint32_t entries;      /* ranges locked in place now */
    uint32_t entries_used; /* of them, between begin and end */
    uint64_t entry_bytes;  /* of all of them */
    uint64_t hits;         /* vram_pinned_begin that found its pages locked */
    uint64_t misses;       /* and that did not */
    uint64_t evictions;    /* ranges unlocked for others, by limits or overlap */
} vram_pinned_info;

VRAM_API vram_status vram_pinned_info_get(vram_device *device, vram_pinned_info *info);

#ifdef __cplusplus
}
#endif

#endif
