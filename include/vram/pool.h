/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pool.h: allocation in nanoseconds, from memory that is kept close to what was asked for.
 *
 * A pool takes coarse memory from a device (or from a provider of the program's own) and hands out
 * blocks. A hit in the calling thread's cache calls no driver and touches no cache line that another
 * thread normally touches. Where the device has virtual memory management the pool lives in one
 * reserved range and moves free physical memory to where it is needed before it grows.
 *
 * Blocks are freed in the time of a queue: memory freed on a queue is reused by later work of that
 * queue at once, and by others when the queue has come that far. A free never waits for a device or
 * a driver and never fails for want of memory. Any thread may free what any other allocated.
 *
 * The option `pool` (VRAM_POOL=off) switches pooling off for pools created from then on: every allocation
 * is one of the driver's, in whole granules and aligned to at most one, and every free gives it back when
 * its queue has come that far. Calls, statuses and counters stay the same; nothing is cached or prepared,
 * addresses are the driver's, and such pools do not sleep.
 */
#ifndef VRAM_POOL_H
#define VRAM_POOL_H

#include <vram/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_pool vram_pool;
struct vram_limits;           /* vram/limits.h */
struct vram_response_options; /* vram/pressure.h */

/* ---------------------------------------------------------------- providers */

/** `bytes` (a multiple of granule) aligned to granule; an address no other live memory has. */
typedef vram_status vram_provider_alloc_fn(void *user, uint64_t bytes, vram_addr *addr);
/** Gives back exactly what alloc gave. */
typedef vram_status vram_provider_free_fn(void *user, vram_addr addr, uint64_t bytes);

/**
 * Coarse memory of the program's own, in the place of a device: the pool then runs on segments.
 * Both functions may be called from any thread, never with a lock of the pool held.
 */
typedef struct vram_provider {
    size_t size; /* sizeof(vram_provider) */
    void *user;  /* handed to each call */
    vram_provider_alloc_fn *alloc;
    vram_provider_free_fn *free;
    uint64_t granule; /* a power of two, at least 4096; 0: 2 MiB */
} vram_provider;

/* -------------------------------------------------------------------- pools */

/**
 * In a deterministic pool addresses (relative to the first one, where the device can map memory) depend
 * on the order of the calls alone, whatever threads make them and however fast the device is. A queue
 * then finds only what was freed on it, or on queues that have ended since; no memory is moved, and
 * nothing is kept per thread. The price is speed, and memory where several queues take turns.
 *
 * Safety modes, off unless a flag or the option of the same name asks. A pool with one keeps nothing at
 * hand for threads: each call costs microseconds and work on a queue.
 *
 *   zero_alloc  blocks are full of zeros, for work of the queue they were asked for on.
 *   zero_free   freed memory is overwritten with zeros, behind the work of the queue it was freed on.
 *   poison      new blocks are filled with 0xCD, freed ones with 0xDD. These stay in quarantine until there
 *               is too much of them or memory is short, and are looked through when they leave it.
 *   red_zones   at least 512 bytes before and behind each block, looked at when it is freed.
 *
 * New blocks are filled on the queue they were allocated on: the program waits for that queue
 * before the host touches one. With poison or red zones a free waits for its queue. Damage is
 * VRAM_ERR_CORRUPT from the vram_free or vram_pool_trim that finds it, which still frees or trims;
 * the error record and the log name the block that was written to, its size and tag, and the offset
 * of the first bad byte. If the driver or a host allocation fails, the block is still freed and the
 * call returns VRAM_OK; the log (level warn) says what was not checked or not overwritten. Blocks
 * that are pinned or asleep when they are freed, are freed on a queue that is being captured, or
 * are not device memory are neither checked nor overwritten. vram_pool_stats.unchecked_blocks
 * counts blocks of device memory that could not be checked for one of these reasons. With
 * zero_free, such device memory is overwritten before the pool hands it out again: no later owner
 * can read it. Pools of a provider or of page-locked memory have no such modes
 * (VRAM_ERR_UNSUPPORTED).
 */
typedef enum vram_pool_flag {
    VRAM_POOL_DETERMINISTIC = 1 << 0, /* addresses depend on the order of calls alone */
    VRAM_POOL_SEGMENTS = 1 << 1,      /* segments even where the device could map memory */
    VRAM_POOL_ZERO_ALLOC = 1 << 2,    /* safety modes: see above */
    VRAM_POOL_ZERO_FREE = 1 << 3,
    VRAM_POOL_POISON = 1 << 4,
    VRAM_POOL_RED_ZONES = 1 << 5,
    VRAM_POOL_TRACKED =
        1 << 6 /* a record of every live block, as limits with `tracking` on: stats.h */
} vram_pool_flag;

/**
 * A pool of page-locked host memory (`kind` PINNED) gives blocks that are host pointers: the host writes them,
 * and copies to and from them run at the bus's full speed beside other work. Page-locking costs a millisecond
 * for each MiB, a block of such a pool costs what any block costs. It runs on segments of the driver's, on the
 * device's NUMA node where the system knows it, and alignments go up to a page. Blocks are freed in the time
 * of queues as others are, and the host is in no queue's order: what it writes first is allocated without a
 * queue (NULL), and is then nothing that work still reads; with a queue come blocks that work of this queue
 * writes first, downloads above all. Its memory is not the device's: of the limits hard_bytes and what is kept
 * count, it neither sleeps nor has safety modes, and its buffers are PINNED or, where host and device share
 * addresses, MAPPED. Where the system refuses to lock more the pool climbs its ladder (vram/oom.h), and with
 * VRAM_FALLBACK_HOST there it goes on with ordinary memory: vram_block_info.kind tells, vram_pool_stats
 * counts.
 */
typedef struct vram_pool_options {
    size_t size;                   /* sizeof(vram_pool_options) */
    uint32_t flags;                /* of vram_pool_flag */
    const vram_provider *provider; /* instead of the device's memory; copied */
    /* Addresses to reserve at first, for small and for large blocks each, if the device can map
       memory. 0: option range_bytes; without that 2 and 64 times the device's memory, or less if
       the process has less. Further ranges follow when they are needed. A deterministic pool has
       no further ranges, and its default is 2 times the memory for each. */
    uint64_t range_bytes;
    uint64_t slack_bytes;             /* may be held beyond what is needed; 0: option pool_slack */
    const char *name;                 /* for reports; copied; at most 63 bytes */
    const struct vram_limits *limits; /* as vram_pool_limits_set has them; copied; NULL: none set */
    const struct vram_response_options
        *response;             /* what it does by itself when memory runs low: see
                                                     pressure.h; copied; NULL: as the options say */
    uint64_t quarantine_bytes; /* most that poison keeps apart; 0: option quarantine */
    vram_memory_kind kind;     /* DEVICE, or PINNED: a pool of page-locked host memory, see above */
} vram_pool_options;

/** Creates a pool on a device. No memory is taken from the driver before it is needed. */
VRAM_API vram_status vram_pool_create(vram_device *device, const vram_pool_options *options,
                                      vram_pool **pool);

/**
 * Destroys it with all its blocks. Waits for submitted work that may still use them, up to the option
 * `wait_timeout`. Work that is unfinished then keeps the memory, since taking it away would be worse:
 * the answer is VRAM_ERR_TIMEOUT (_CAPTURE for a queue in a capture, or what the driver said), the
 * handle is gone all the same, and the memory is counted in vram_memory_info.held_bytes until the
 * queues have ended or the device is closed; a provider has to last as long. NULL is allowed.
 */
VRAM_API vram_status vram_pool_destroy(vram_pool *pool);

/* --------------------------------------------------------------- allocation */

/**
 * `size` bytes, aligned to 512, ready for work submitted to `queue` from now on. Contents are
 * undefined. 0 bytes give a distinct address that may be freed and not be touched. Without a queue
 * (NULL) the memory is ready for any.
 */
VRAM_API vram_status vram_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr);

/**
 * Gives a block back to its pool, which is found by the address. Work submitted to `queue` so far
 * may still use the block; without a queue (NULL) none does. 0 is allowed. Addresses that are not the
 * start of a live block (foreign, interior, already freed) are VRAM_ERR_INVALID and change nothing,
 * from any thread.
 */
VRAM_API vram_status vram_free(vram_addr addr, vram_queue *queue);

typedef enum vram_alloc_flag {
    VRAM_ALLOC_CACHED_ONLY = 1 << 0, /* from memory the pool holds already, or not at all */
    VRAM_ALLOC_NO_WAIT =
        1 << 1 /* when memory is short, do not wait for other threads to free some */
} vram_alloc_flag;

typedef struct vram_alloc_options {
    size_t size;        /* sizeof(vram_alloc_options) */
    uint64_t alignment; /* a power of two from 256 to the device's granule; 0: 512 */
    uint32_t flags;     /* of vram_alloc_flag */
    const char *tag;    /* who asks, "tenant/model/layer"; vram/limits.h; copied; NULL, "": none */
    uint64_t
        room_bytes;    /* a wish: addresses to keep free behind the block, so that vram_resize finds
                            them. The block then begins and ends with a granule of the device's and holds
                            that much. Costs no memory otherwise; goes with the block, when it shrinks,
                            and when the pool's addresses run out. Where the device cannot map memory, and
                            in pools with safety modes, nothing comes of it. 0: none */
    const char *name;  /* what it is, for vram/stats.h; several may share one; copied and cut at 63
                           bytes; NULL: none */
    uint64_t elements; /* how many things it holds, for vram/stats.h; 0: not said */
} vram_alloc_options;

/** vram_alloc with wishes. */
VRAM_API vram_status vram_alloc_with(vram_pool *pool, uint64_t size, vram_queue *queue,
                                     const vram_alloc_options *options, vram_addr *addr);

/**
 * Makes a live block larger or smaller where it is: the address stays, nothing is copied, and what both
 * sizes have in common keeps its contents. 0 bytes count as one.
 *
 * Shrinking always succeeds on memory of the pool's own, and gives what is not needed back as a vram_free
 * on `queue` would; while the block is pinned, or another queue uses it, it keeps that memory and only
 * counts as smaller. Growing takes the addresses behind the block, where nothing else lies there, for
 * work submitted to `queue` from now on: memory that is there, then free memory of the pool from
 * elsewhere, then more from the driver, within all limits and quotas and by the ladder of vram/oom.h.
 * Where the device cannot map memory it grows into what is free behind it in its segment. Whatever the
 * answer, a block that was not resized is as it was:
 *
 *   VRAM_ERR_BUSY         something lies behind the block, or work that has not ended uses memory there;
 *                         or the block is asleep, or another thread is resizing it. A new block and a
 *                         copy will do.
 *   VRAM_ERR_UNSUPPORTED  this block never changes in place: its pool has a safety mode, or it is not of
 *                         the device's memory and would grow.
 *   any exhaustion        the addresses are free, the memory is not to be had.
 *   VRAM_ERR_INVALID      no live block starts at `addr`, or it was freed meanwhile; or it
 *                         is a buffer's, a scope's or a batch's, which vram_free refuses too.
 */
VRAM_API vram_status vram_resize(vram_addr addr, uint64_t new_size, vram_queue *queue);

/**
 * Says that work on another queue uses the block too: after it is freed it is not reused before that
 * queue has come as far as it is now. Call it after submitting that work. While that queue is captured
 * into a graph the block waits for the first point behind the capture; what a graph uses whenever it is
 * launched is kept by vram_pin.
 */
VRAM_API vram_status vram_use(vram_addr addr, vram_queue *queue);

/**
 * Keeps the physical memory behind a block where it is, and the block from being handed out again when it
 * is freed, until the last pin goes (RDMA, captured graphs, sharing). Counts.
 */
VRAM_API vram_status vram_pin(vram_addr addr);
VRAM_API vram_status vram_unpin(vram_addr addr);

/** What is known of a block. */
typedef struct vram_block_info {
    size_t size;              /* in: sizeof(vram_block_info) of the caller */
    vram_pool *pool;          /* borrowed */
    vram_addr addr;           /* its start */
    uint64_t requested_bytes; /* as asked for */
    uint64_t held_bytes;      /* after rounding */
    const char *tag;          /* NULL: none; valid until the context ends */
    vram_memory_kind kind;    /* the pool's, or what it fell back to (vram/oom.h) */
} vram_block_info;

/**
 * Looks up the live block that starts at `addr`. Takes no lock on a thread that has used a pool before.
 */
VRAM_API vram_status vram_block_info_get(vram_addr addr, vram_block_info *info);

/* ------------------------------------------------------------ ahead of time */

/**
 * Prepares memory so that `count` blocks of `size` bytes can be live at once without a driver call.
 * All or nothing. Counts as no allocation.
 */
VRAM_API vram_status vram_pool_warm(vram_pool *pool, uint64_t size, uint32_t count,
                                    vram_queue *queue);

/* ------------------------------------------------------------- giving it back */

/** What a trim gives back. Several may be given; they are done in the order BUFFERS, CACHES, RARE,
    MEMORY. */
typedef enum vram_trim_flag {
    VRAM_TRIM_MEMORY = 1 << 0,  /* free memory goes to the driver, cached blocks first, until at
                                   most keep_bytes are held, as far as possible */
    VRAM_TRIM_CACHES = 1 << 1,  /* every cached block goes back into its pool, where it can serve
                                   any size; the driver gets nothing */
    VRAM_TRIM_RARE = 1 << 2,    /* maintenance: rarely used sizes give up their caches, and memory
                                   that no block has needed since the last time goes to the driver.
                                   Often used sizes keep their caches. A deterministic pool does
                                   nothing */
    VRAM_TRIM_BUFFERS = 1 << 3, /* buffers of which nothing is in use and that no call has used for
                                   idle_ns give their memory to the pool, all but one granule of
                                   the allocator, as vram_buffer_fit does. Their handles stay good;
                                   those that another call is busy with are left alone */
    VRAM_TRIM_PINNED = 1 << 4   /* of a device or context: what is kept page-locked beside pools,
                                   and nobody uses (vram/pinned.h) */
} vram_trim_flag;

typedef struct vram_trim_options {
    size_t size;          /* sizeof(vram_trim_options) */
    uint32_t flags;       /* of vram_trim_flag; 0: MEMORY, and PINNED too for device and context */
    uint64_t keep_bytes;  /* MEMORY: that may still be held; of a device or context, by all pools */
    uint64_t idle_ns;     /* BUFFERS: without a use for so long; 0: however short */
    uint64_t interval_ns; /* RARE: nothing is due before so much of the device's time has passed
                             since the last maintenance; the first is due at once; 0: always */
} vram_trim_options;

/**
 * Gives back what nobody uses: of a pool, of every pool on a device (through whatever handle it was
 * opened), of every pool of a context. NULL options: all that can be given to the driver. Live
 * blocks stay where they are, and stay counted.
 *
 * *released, which may be NULL, is how many bytes the driver got; with CACHES and BUFFERS alone,
 * how many the pools got. It is written on failure, too, unless an argument was refused.
 *
 * Waits for no work, except in deterministic pools, up to the option `wait_timeout`. Page-locked
 * memory, of pinned pools too, stays while a queue of the context has work where the driver would
 * wait for that (CUDA, HIP). Of several pools the first failure is returned after all have been
 * tried. VRAM_ERR_INVALID for a flag that is none, and for PINNED of a pool; VRAM_ERR_CORRUPT from
 * vram_pool_trim as above.
 */
VRAM_API vram_status vram_pool_trim(vram_pool *pool, const vram_trim_options *options,
                                    uint64_t *released);
VRAM_API vram_status vram_device_trim(vram_device *device, const vram_trim_options *options,
                                      uint64_t *released);
VRAM_API vram_status vram_context_trim(vram_context *context, const vram_trim_options *options,
                                       uint64_t *released);

/* ------------------------------------------------------------ sleep and wake */

typedef enum vram_sleep_contents {
    VRAM_SLEEP_DROP = 0,  /* what was in the memory is lost */
    VRAM_SLEEP_HOST = 1,  /* kept in ordinary host memory */
    VRAM_SLEEP_PINNED = 2 /* kept in page-locked host memory: quicker to copy, dearer to get */
} vram_sleep_contents;

typedef struct vram_sleep_options {
    size_t size;                  /* sizeof(vram_sleep_options) */
    vram_sleep_contents contents; /* what becomes of them */
    const char *tag;              /* only memory under blocks of this tag, or of tags below it
                                     ("model" has "model/layer"); NULL: the whole pool */
} vram_sleep_options;

/**
 * Gives the physical memory of a pool back to the driver and keeps every address: live blocks stay where
 * they are, without memory, until vram_pool_wake. Copies and fills there are VRAM_ERR_INVALID meanwhile,
 * pins and vram_native VRAM_ERR_BUSY; work that the library does not see must keep off by itself. Blocks
 * may be freed; nothing can be allocated from a pool that sleeps as a whole (VRAM_ERR_BUSY). With a tag
 * those pieces of memory fall asleep that lie under its blocks alone, and the rest of the pool goes on.
 *
 * Waits for all work of the device's queues and for what reads it from others, up to the option
 * `wait_timeout`: VRAM_ERR_TIMEOUT, or _CAPTURE while a queue is captured. VRAM_ERR_BUSY: a block is
 * pinned, another thread changes the pool's sleep, or all memory under the tag's blocks is under others
 * too. VRAM_ERR_INVALID: asleep already, or no live block has that tag. VRAM_ERR_UNSUPPORTED: the pool
 * runs on segments, or there is no page-locked memory. All or nothing: after a failure the pool is awake
 * with its contents; memory that the driver first unmapped and then refused to map again stays asleep
 * with its contents, and vram_pool_wake tries again.
 */
VRAM_API vram_status vram_pool_sleep(vram_pool *pool, const vram_sleep_options *options);

/**
 * Gives memory back to what is asleep, at the same addresses and with the contents that were kept. NULL
 * wakes everything; a tag wakes what lies under its blocks, also in a pool that sleeps as a whole, which
 * goes on refusing to allocate until all of it is awake. Where memory is short the pool climbs its ladder
 * (vram/oom.h) as an allocation does, without the steps that look for a block: finished, move, wait and
 * fallback. All or nothing: after a failure it is asleep as before; any exhaustion says that the memory is
 * not there now, and the report why. VRAM_ERR_INVALID: nothing of that kind is asleep.
 */
VRAM_API vram_status vram_pool_wake(vram_pool *pool, const char *tag);

/* ----------------------------------------------------------------- counters */

enum {
    VRAM_LADDER_ROOM = 16,  /* counters of ladder steps in a struct: there is room for more steps */
    VRAM_RESPONSE_ROOM = 8, /* the same of response steps */
    VRAM_PRESSURE_ROOM = 8  /* the same of levels of pressure */
};

/**
 * Everything that is counted, of a pool, of a device (the sum of its pools), of a context or of a tag;
 * what does not apply is 0. Sums over all threads, taken while they run: each number is exact, the set is
 * not one moment. Only peak_requested_bytes is less than exact, with several threads: a thread tells of
 * what it does when it goes past its cache, so the peak may be off by what caches hold. Of a pool that is
 * tracked (vram/stats.h) it is exact.
 */
typedef struct vram_pool_stats {
    size_t size;                   /* in: sizeof(vram_pool_stats) of the caller */
    uint64_t requested_bytes;      /* live, as asked for */
    uint64_t allocated_bytes;      /* live, after rounding */
    uint64_t cached_bytes;         /* free, in thread caches and depots */
    uint64_t reserved_bytes;       /* taken from the driver: live + cached + holes + spares */
    uint64_t peak_requested_bytes; /* most of requested_bytes */
    uint64_t peak_allocated_bytes; /* most of allocated_bytes + cached_bytes: what was at hand */
    uint64_t peak_reserved_bytes;  /* most of reserved_bytes */
    uint64_t live_blocks;
    uint64_t allocs, frees;                       /* calls that succeeded */
    uint64_t hits, misses;                        /* served by a thread cache, or not */
    uint64_t returns;                             /* frees kept in a thread cache */
    uint64_t moved_handles, moved_bytes, move_ns; /* physical memory taken from holes */
    uint64_t spare_handles;                       /* mapped nowhere */
    uint64_t driver_creates, driver_releases, driver_maps, driver_unmaps, driver_accesses;
    uint64_t driver_allocs, driver_frees, driver_markers;
    uint64_t metadata_bytes;     /* host memory of the pool's bookkeeping, thread caches apart */
    uint64_t thread_cache_bytes; /* host memory of thread caches */

    double hit_rate;         /* hits / allocs, 0 to 1; 0 before the first allocation */
    uint64_t rounding_bytes; /* allocated_bytes - requested_bytes */
    uint64_t active_buffers; /* live_blocks, by the name that others give it */
    uint64_t peak_scopes;    /* open scopes of peaks */
    vram_value budget_bytes; /* most that may be held at the last look; unknown: no limit applies */
    uint64_t refusals;       /* allocations that failed for want of memory of any kind */
    uint64_t limit_refusals; /* of these, those that a limit of the program's or user's refused */
    uint64_t quota_refusals; /* of these, those that a tag's hard quota refused */
    uint64_t quota_crossings; /* times that a tag went above its soft quota */

    uint64_t fallbacks;      /* allocations served by other memory than the device's */
    uint64_t fallback_bytes; /* of them, live */
    uint64_t ladder_runs;    /* times that memory was short */
    uint64_t ladder_steps[VRAM_LADDER_ROOM];   /* by vram_ladder_step (vram/oom.h): times */
    uint64_t ladder_bytes[VRAM_LADDER_ROOM];   /* by vram_ladder_step: bytes that it gave back */
    uint64_t ladder_rescues[VRAM_LADDER_ROOM]; /* by vram_ladder_step: allocations that it served */

    uint64_t response_steps[VRAM_RESPONSE_ROOM]; /* by vram_response_step (vram/pressure.h) */
    uint64_t response_bytes[VRAM_RESPONSE_ROOM]; /* by vram_response_step: bytes that left caches */
    uint64_t rises[VRAM_PRESSURE_ROOM]; /* by level of pressure: times it was entered from below */
    uint64_t falls[VRAM_PRESSURE_ROOM]; /* the same from above */
    uint64_t cleanups;                  /* trims and emergency cleanups */
    uint64_t cleaned_bytes;             /* what they gave back to the driver */
    vram_value
        last_cleanup_ns; /* when the last one ended, in the device's time; unknown: none yet */

    uint64_t sleeps, wakes;     /* that succeeded */
    uint64_t asleep_bytes;      /* whose addresses are kept without memory */
    uint64_t asleep_host_bytes; /* of host memory, with the contents of what is asleep */
    uint64_t quarantine_bytes;  /* freed, and kept apart to catch late writes */
    uint64_t damaged_blocks;    /* found with a red zone or poison written over */

    uint64_t other_bytes; /* live, of buffers whose kind is not the device's memory; not reserved */
    uint64_t promotions, promoted_bytes; /* buffers moved back to the device; vram/buffer.h */
    uint64_t demotions, demoted_bytes;   /* buffers moved from the device to host memory */

    uint64_t unchecked_blocks; /* freed, or out of quarantine, and not looked at for damage */
} vram_pool_stats;

VRAM_API vram_status vram_pool_stats_get(vram_pool *pool, vram_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
