/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pinned.h: host memory that the bus reads and writes at full speed.
 *
 * A device copies page-locked memory by itself, beside everything else; ordinary (pageable) memory it does not
 * reach, so somebody has to copy it first. There are three ways to page-locked memory:
 *
 *   pools       vram_pool_options.kind = VRAM_MEMORY_PINNED (vram/pool.h): blocks in nanoseconds. The best way for
 *               memory that the program asks the library for.
 *   staging     what vram/transfer.h does with large pieces of pageable memory: they go through a few page-locked
 *               slots of the library's own, several threads copying while the bus is at work. Nothing to do for
 *               the program; its options are staging_slot, staging_slots, staging_threads and staging_idle.
 *   in place    memory of the program's own is page-locked where it lies. That takes about 50 ms for a GiB, so it
 *               is worth it for memory that is copied again and again. What is page-locked once is remembered
 *               when it is not used any more, up to limits, so that the next time costs nothing.
 *
 * Giving page-locked memory back may wait for kernels: CUDA and HIP do so for all that run on any
 * queue, and one that listens to a ring (vram/ring.h) does not end by itself. What nobody needs at
 * once is left for later while a queue of the context has work: trims (vram/pool.h;
 * VRAM_TRIM_PINNED gives back staging slots and memory locked in place that nobody uses),
 * maintenance of pinned pools, idle slots. What has to be done at once waits as the driver does:
 * vram_pinned_forget, a vram_pinned_begin that has to give up others, vram_device_free, the end of
 * buffers and pools of such memory, and a pinned pool that needs room for a block. A program with a
 * ring does that before its kernel is launched or after it was stopped.
 *
 * Threads: any call from any thread.
 */
#ifndef VRAM_PINNED_H
#define VRAM_PINNED_H

#include <vram/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- in place */

/**
 * Page-locks [memory, memory + bytes), and with it the rest of its first and last page, for copies of this device,
 * until vram_pinned_end. Pages that are locked already, by this call or from an earlier time, cost nothing.
 *
 * What is kept from earlier times is bounded by the options pinned_limit (bytes) and pinned_entries; the one used
 * longest ago goes first. Pages that are kept and only overlap with what is asked for are given up and locked
 * anew. Giving up may wait for kernels, see above.
 *
 * RULE: the library cannot see that memory is freed. Before memory that was page-locked is given back to the
 * system or to malloc, vram_pinned_forget has to be called for it.
 *
 * VRAM_ERR_BUSY: a part of it is page-locked and used by an overlapping vram_pinned_begin, or page-locked by
 * somebody else, who has to undo it; copies of it are as fast as can be in the second case. VRAM_ERR_LIMIT,
 * _HOST_MEMORY: the limits, or the system's own, leave no room: copies of it work all the same, through staging.
 * VRAM_ERR_UNSUPPORTED: the device's backend cannot (OpenCL, Vulkan and Metal have no such call).
 */
VRAM_API vram_status vram_pinned_begin(vram_device *device, void *memory, uint64_t bytes);

/**
 * Ends one vram_pinned_begin with the same arguments, when the copies that it was for are done. The pages stay
 * locked for the next time as the limits allow. VRAM_ERR_INVALID when there was none.
 */
VRAM_API vram_status vram_pinned_end(vram_device *device, void *memory, uint64_t bytes);

/**
 * Gives up whatever is kept locked of [memory, memory + bytes); call it before the memory is freed. VRAM_ERR_BUSY,
 * and nothing has changed, while a vram_pinned_begin that overlaps with it has not ended. Memory that is not
 * locked is fine. May wait for kernels, see above: memory that is about to be freed cannot stay locked.
 * VRAM_ERR_DEVICE_LOST: it is given up, but a lost device's driver is asked for nothing any more and may keep the
 * pages locked until the process ends: they can be freed, not page-locked again.
 */
VRAM_API vram_status vram_pinned_forget(vram_device *device, void *memory, uint64_t bytes);

/* ------------------------------------------------------------- what there is */

/** What a device's copies of host memory keep and have done. */
typedef struct vram_pinned_info {
    size_t size;             /* in: sizeof(vram_pinned_info) of the caller */
    uint64_t slot_bytes;     /* of one staging slot */
    uint32_t slots;          /* that have memory now */
    uint32_t slots_busy;     /* of them, in use by transfers or the bus */
    uint32_t slots_most;     /* there may be */
    uint32_t workers;        /* threads that copy, beside callers' */
    uint32_t workers_most;   /* there may be */
    uint64_t uploads;        /* through staging, */
    uint64_t upload_bytes;   /* and their bytes */
    uint64_t downloads;      /* the same */
    uint64_t download_bytes; /* back */
    uint64_t chunks;         /* pieces that these were cut into */
    uint64_t plain; /* times that the driver copied pageable memory itself for want of slots, */
    uint64_t plain_bytes;  /* and those bytes */
    uint64_t refusals;     /* of memory for slots */
    uint64_t waits;        /* for the bus, to use a slot again */
    uint32_t entries;      /* ranges locked in place now */
    uint32_t entries_used; /* of them, between begin and end */
    uint64_t entry_bytes;  /* of all of them */
    uint64_t hits;         /* vram_pinned_begin that found its pages locked */
    uint64_t misses;       /* and that did not */
    uint64_t evictions;    /* ranges given up for others, by limits or overlap */
} vram_pinned_info;

VRAM_API vram_status vram_pinned_info_get(vram_device *device, vram_pinned_info *info);

#ifdef __cplusplus
}
#endif

#endif
