/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/pool.h: allocation in nanoseconds, from memory that stays close to what the program uses.
 *
 * A pool takes memory from a device (or from a provider of the program's own) in large pieces, and
 * hands out blocks. An allocation that the calling thread's cache serves calls no driver and uses
 * no cache line that another thread normally uses. If the device can map memory, the pool lies in
 * one reserved range of addresses, and moves free physical memory to where it is needed before it
 * takes more.
 *
 * Blocks are freed in stream order: later work of the same queue may reuse the memory at once,
 * other queues when that queue has completed the work submitted so far. A free never waits for
 * work, and never fails because memory ran out. It calls the driver for memory only if idle memory
 * exceeds vram_limits.cached_bytes. Any thread may free what any other allocated.
 *
 * The option `pool` (VRAM_POOL=off) turns pooling off for pools created from then on. Every
 * allocation then comes from the driver, in whole granules and aligned to at most one, and every
 * free returns it once its queue has completed its work. Calls, statuses and counters stay the
 * same; nothing is cached or prepared, addresses are the driver's, and such pools do not sleep.
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

/**
 * Allocates `bytes` (a multiple of granule) aligned to granule, at an address that no live memory
 * has.
 */
typedef vram_status vram_provider_alloc_fn(void *user, uint64_t bytes, vram_addr *addr);
/** Frees exactly what alloc returned. */
typedef vram_status vram_provider_free_fn(void *user, vram_addr addr, uint64_t bytes);

/**
 * Memory of the program that a pool, or one buffer (vram_buffer_options.provider), uses instead of
 * a device's. The pool then runs on segments. Both functions may be called from any thread, never
 * with a lock of the pool held.
 */
typedef struct vram_provider {
    size_t size; /* sizeof(vram_provider) */
    void *user;  /* handed to each call */
    vram_provider_alloc_fn *alloc;
    vram_provider_free_fn *free;
    uint64_t granule; /* a power of two, at least 4096; 0: 2 MiB */
} vram_provider;

/**
 * The ready-made provider of one kind of a device's memory: an allocator for programs and libraries
 * that take one, or the base of a provider of the program's own (one that counts, or keeps large
 * pages). Its functions are vram_device_alloc and vram_device_free: what alloc returned may also be
 * freed by vram_device_free, and the device frees what is left when it is closed.
 *
 *   vram_provider pinned = {.size = sizeof pinned};
 *   vram_provider_get(device, VRAM_MEMORY_PINNED, &pinned);
 *   pinned.alloc(pinned.user, bytes, &addr);             a host pointer, page-locked
 *   pinned.free(pinned.user, addr, bytes);
 *
 * A pool of the same device on it has memory of that kind and buffers of that kind, as with
 * vram_pool_options.kind, which is the shorter way to such a pool. `size` is set by the caller; the
 * rest is filled in. VRAM_ERR_UNSUPPORTED for a kind that the device lacks, with its name.
 */
VRAM_API vram_status vram_provider_get(vram_device *device, vram_memory_kind kind,
                                       vram_provider *provider);

/* -------------------------------------------------------------------- pools */

/**
 * In a deterministic pool, addresses (relative to the first one, if the device can map memory)
 * depend on the order of the calls alone, whatever threads make them and however fast the device
 * is. A queue reuses only what was freed on it, or on queues that have ended since; no memory is
 * moved, and there are no thread caches. The price is speed, and more memory if several queues take
 * turns.
 *
 * Safety modes are off unless a flag or the option of the same name turns them on. A pool with one
 * has no thread caches: each call takes microseconds and puts work on a queue.
 *
 *   zero_alloc  new blocks are filled with zeros, in the order of the queue of the allocation.
 *   zero_free   freed memory is overwritten with zeros, after the work of the queue it was freed
 *               on.
 *   poison      new blocks are filled with 0xCD, freed ones with 0xDD. Freed blocks stay in
 *               quarantine until it is full or memory is short, and are checked when they leave it.
 *   red_zones   at least 512 bytes before and after each block, checked when it is freed.
 *
 * New blocks are filled on the queue they were allocated on: the program waits for that queue
 * before the host touches one. With poison or red zones a free waits for its queue; a free without
 * a queue waits for the pool's own, with zero_free too. Damage is VRAM_ERR_CORRUPT from the
 * vram_free or vram_pool_trim that finds it, which still frees or trims; the error record and the
 * log name the block that was written to, its size and tag, and the offset of the first bad byte.
 * If the driver or a host allocation fails, the block is still freed and the call returns VRAM_OK;
 * the log (level warn) says what was not checked or not overwritten. Blocks that are pinned or
 * asleep when they are freed, are freed on a queue that is being captured, or are not device memory
 * are neither checked nor overwritten. vram_pool_stats.unchecked_blocks counts blocks of device
 * memory that could not be checked for one of these reasons. With zero_free, such device memory is
 * overwritten before the pool hands it out again: no later owner can read it. Pools of a provider,
 * of page-locked or of managed memory have no such modes (VRAM_ERR_UNSUPPORTED).
 *
 * The option poison has one more value, stream, for tests of programs with several queues. It is no
 * mode: caches and timing of frees stay, and nothing waits. Each block is filled with 0xCD (zeros
 * with zero_free) on the queue that gets it. Work that uses memory after it was handed out again,
 * or before its new owner's queue has come to it, then reads that. Blocks allocated without a
 * queue, on a queue that is being captured, and what vram_resize adds are not filled.
 *
 * POWER_OF_TWO, or the option power_of_two, rounds every request up to a power of two, as pools of
 * buckets do: a block of 40,000 bytes takes 65,536, which vram_block_info.held_bytes shows. It is
 * for programs that were built on buckets: without it blocks are rounded to 512 bytes, which holds
 * less memory. Red zones are inside the bucket.
 */
typedef enum vram_pool_flag {
    VRAM_POOL_DETERMINISTIC = 1 << 0, /* addresses depend on the order of calls alone */
    VRAM_POOL_SEGMENTS = 1 << 1,      /* segments even if the device can map memory; shareable pools
                                         map it in any case */
    VRAM_POOL_ZERO_ALLOC = 1 << 2,    /* safety modes: see above */
    VRAM_POOL_ZERO_FREE = 1 << 3,
    VRAM_POOL_POISON = 1 << 4,
    VRAM_POOL_RED_ZONES = 1 << 5,
    VRAM_POOL_TRACKED = 1 << 6, /* a record of every live block (vram/stats.h), limits.tracking */
    VRAM_POOL_POWER_OF_TWO = 1 << 7, /* requests are rounded up to powers of two: see above */
    VRAM_POOL_SHAREABLE = 1 << 8,    /* other processes may open its blocks: vram/share.h */
    VRAM_POOL_SHARE_GROUP = 1 << 9,  /* the same, and whoever opens one may see all: see there */
    VRAM_POOL_SHARE_FABRIC = 1 << 10 /* with SHAREABLE: also by vram_share_fabric_get */
} vram_pool_flag;

/**
 * Options of a pool.
 *
 * The blocks of a pool of page-locked host memory (`kind` PINNED) are host pointers: the host
 * writes them, and copies to and from them run at full speed in parallel to other work.
 * Page-locking takes a millisecond for each MiB, but a block of such a pool costs what any block
 * costs. The pool runs on segments of the driver, on the device's NUMA node if the system knows it,
 * and alignments go up to a page.
 *
 * Its blocks are freed in stream order like others, but the host is not part of any queue's order.
 * Allocate memory that the host writes first without a queue (NULL): then no work still reads it.
 * Allocate memory that work of a queue writes first, above all downloads, on that queue.
 *
 * Its memory is not the device's: of the limits only hard_bytes and those on cached memory apply.
 * It has no sleep and no safety modes, and its buffers are PINNED or, if host and device share
 * addresses, MAPPED. If the system refuses to lock more, the pool runs its ladder (vram/oom.h),
 * and with VRAM_FALLBACK_HOST there it continues with ordinary memory: vram_block_info.kind says
 * so, vram_pool_stats counts it.
 *
 * The blocks of a pool of managed memory (`kind` MANAGED) have one address for host and device, and
 * their pages migrate to the side that uses them. vram_queue_prefetch and vram_device_advise take
 * parts of a block. The rules above hold for it as well: segments, stream order without the host,
 * and no sleep or safety modes; its buffers are MANAGED. It may be larger than the device's memory:
 * of the limits hard_bytes, those on cached memory and the device's hard limit (device_limit)
 * apply. VRAM_ERR_UNSUPPORTED, with the device's name, for a kind that the device lacks.
 *
 * With a provider, `kind` says what the provider serves, so that an allocator of the program's own
 * for page-locked or managed memory stands behind PINNED or MANAGED buffers. The driver is asked,
 * if it can tell, whether memory of such a PINNED buffer is page-locked. A provider that returns
 * memory of vram_device_alloc of another kind is refused: VRAM_ERR_INVALID from the allocation.
 * Hints for managed memory (vram_queue_prefetch) go to the driver, not to the provider.
 */
typedef struct vram_pool_options {
    size_t size;                   /* sizeof(vram_pool_options) */
    uint32_t flags;                /* bits of vram_pool_flag */
    const vram_provider *provider; /* replaces the device's memory; copied */
    /* Addresses to reserve at first, for small and for large blocks each, if the device can map
       memory. 0: option range_bytes; without that 2 and 64 times the device's memory, or less if
       the process has less. Further ranges follow when they are needed. A deterministic pool has
       no further ranges, and its default is 2 times the memory for each. */
    uint64_t range_bytes;
    uint64_t slack_bytes;             /* may be held beyond what is needed; 0: option pool_slack */
    const char *name;                 /* for reports; copied; at most 63 bytes */
    const struct vram_limits *limits; /* as in vram_pool_limits_set; copied; NULL: none set */
    /* What it does by itself when memory runs low (vram/pressure.h); copied; NULL: as the options
       say. */
    const struct vram_response_options *response;
    uint64_t quarantine_bytes; /* freed, and kept to catch late writes */
    vram_memory_kind kind;     /* DEVICE; PINNED or MANAGED: a pool of such memory, see above. With
                                  a provider of vram_provider_get, 0 is its kind */
} vram_pool_options;

/** Creates a pool on a device. It takes no memory from the driver before it needs some. */
VRAM_API vram_status vram_pool_create(vram_device *device, const vram_pool_options *options,
                                      vram_pool **pool);

/**
 * Destroys a pool and all its blocks. Waits for submitted work that may still use them, up to the
 * option `wait_timeout`. If work is unfinished then, the pool keeps the memory, because releasing
 * it would be worse: the call returns VRAM_ERR_TIMEOUT (_CAPTURE for a queue in a capture, or the
 * driver's error), and the handle is gone all the same. vram_memory_info.held_bytes counts the
 * memory until the queues have ended or the device is closed. A call of another thread that visits
 * all pools (vram_context_trim, vram_device_stats_get) and is inside this one frees the memory when
 * it leaves. A provider has to last as long. NULL is allowed.
 */
VRAM_API vram_status vram_pool_destroy(vram_pool *pool);

/* --------------------------------------------------------------- allocation */

/**
 * Allocates `size` bytes, aligned to 512, ready for work submitted to `queue` from now on. Without
 * a queue (NULL) the memory is ready for any. Contents are undefined. 0 bytes give a distinct
 * address that may be freed but not accessed.
 */
VRAM_API vram_status vram_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr);

/**
 * Gives a block back to its pool, which is found by the address. Work submitted to `queue` so far
 * may still use the block; without a queue (NULL) none does. 0 is allowed. Addresses that are not
 * the start of a live block (foreign, interior, already freed) are VRAM_ERR_INVALID and change
 * nothing, from any thread.
 */
VRAM_API vram_status vram_free(vram_addr addr, vram_queue *queue);

typedef enum vram_alloc_flag {
    VRAM_ALLOC_CACHED_ONLY = 1 << 0, /* from memory that the pool holds already, or not at all */
    VRAM_ALLOC_NO_WAIT = 1 << 1,     /* if memory is short, wait for no other thread to free some */
    VRAM_ALLOC_NO_FALLBACK = 1 << 2  /* the pool's own memory, although a fallback is allowed */
} vram_alloc_flag;

typedef struct vram_alloc_options {
    size_t size;        /* sizeof(vram_alloc_options) */
    uint64_t alignment; /* a power of two from 256 to the device's granule; 0: 512 */
    uint32_t flags;     /* of vram_alloc_flag */
    /* who it is for, "tenant/model/layer" (vram/limits.h); copied; NULL, "": none */
    const char *tag;
    /* A hint: addresses to keep free after the block, so that vram_resize can use them. The block
       then begins and ends at a granule of the device and holds whole granules. It costs no other
       memory. The addresses are released with the block, if it shrinks, and if the pool's addresses
       run out. If the device cannot map memory, and in pools with safety modes, it has no effect.
       0: none. */
    uint64_t reserve_bytes;
    const char *name;  /* a label for vram/stats.h; need not be unique; copied, at most 63 bytes */
    uint64_t elements; /* how many things it holds, for vram/stats.h; 0: unknown */
} vram_alloc_options;

/** vram_alloc with options. */
VRAM_API vram_status vram_alloc_with(vram_pool *pool, uint64_t size, vram_queue *queue,
                                     const vram_alloc_options *options, vram_addr *addr);

/**
 * Resizes a live block in place: the address stays, nothing is copied, and the bytes that both
 * sizes have in common keep their contents. 0 bytes count as one.
 *
 * Shrinking always succeeds on memory of the pool, and frees the rest like a vram_free on `queue`.
 * While the block is pinned it keeps that memory and only counts as smaller.
 *
 * Growing takes the addresses after the block, if nothing else lies there, for work submitted to
 * `queue` from now on. It uses memory that is there, then free memory from elsewhere in the pool,
 * then more from the driver, within all limits and quotas and by the ladder of vram/oom.h. If the
 * device cannot map memory, it grows into what is free after it in its segment.
 *
 * A block that was not resized is unchanged, whatever the status:
 *
 *   VRAM_ERR_BUSY         something lies after the block, or unfinished work uses memory there; or
 *                         the block is asleep, or another thread resizes it. Use a new block and a
 *                         copy.
 *   VRAM_ERR_UNSUPPORTED  this block never changes in place: its pool has a safety mode, or it is
 *                         not device memory and would grow.
 *   any exhaustion        the addresses are free, but memory ran out.
 *   VRAM_ERR_INVALID      no live block starts at `addr`, or it was freed meanwhile;
 *                         or a buffer, a scope or a batch owns it, which vram_free refuses too.
 */
VRAM_API vram_status vram_resize(vram_addr addr, uint64_t new_size, vram_queue *queue);

/**
 * Tells the library that another queue uses the block too, until the block is freed: it is not
 * reused before that queue has completed all work that was submitted to it before the free. Call it
 * once, before or after submitting that work. It submits nothing; the free marks the queue, and
 * never waits or fails because of it. If the queue is being captured into a graph at that time, the
 * block waits for the end of the capture. Use vram_pin for memory that a graph uses at each launch.
 */
VRAM_API vram_status vram_use(vram_addr addr, vram_queue *queue);

/**
 * Keeps the physical memory of a block in place, and keeps the block from being reused after it is
 * freed, until the last pin is removed (RDMA, captured graphs, sharing). Pins are counted.
 */
VRAM_API vram_status vram_pin(vram_addr addr);
VRAM_API vram_status vram_unpin(vram_addr addr);

/** A live block. */
typedef struct vram_block_info {
    size_t size;              /* in: sizeof(vram_block_info) of the caller */
    vram_pool *pool;          /* borrowed */
    vram_addr addr;           /* its start */
    uint64_t requested_bytes; /* before rounding */
    uint64_t held_bytes;      /* after rounding */
    const char *tag;          /* NULL: none; valid until the context ends */
    vram_memory_kind kind;    /* the pool's, or what it fell back to (vram/oom.h) */
} vram_block_info;

/**
 * Looks up the live block that starts at `addr`. Takes no lock on a thread that has used a pool
 * before.
 */
VRAM_API vram_status vram_block_info_get(vram_addr addr, vram_block_info *info);

/* ------------------------------------------------------------ ahead of time */

/**
 * Prepares memory so that `count` blocks of `size` bytes can be live at once without a driver call.
 * All or nothing. It does not count as an allocation.
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
 * Waits for no work, except in deterministic pools, up to the option `wait_timeout`. What was freed
 * in a captured region (vram_capture_begin) stays until that has ended. Page-locked
 * memory, of pinned pools too, stays while a queue of the context has work where the driver would
 * wait for that (CUDA, HIP). Of several pools the first failure is returned after all have been
 * tried. VRAM_ERR_INVALID for an unknown flag, and for PINNED of a pool; VRAM_ERR_CORRUPT from
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
    VRAM_SLEEP_DROP = 0,  /* the contents are lost */
    VRAM_SLEEP_HOST = 1,  /* kept in ordinary host memory */
    VRAM_SLEEP_PINNED = 2 /* the same, page-locked until it wakes: the system cannot swap it */
} vram_sleep_contents;

typedef struct vram_sleep_options {
    size_t size;                  /* sizeof(vram_sleep_options) */
    vram_sleep_contents contents; /* what becomes of them */
    /* Only memory of blocks with this tag, or with tags below it ("model" includes "model/layer");
       NULL: the whole pool. */
    const char *tag;
} vram_sleep_options;

/**
 * Puts a pool to sleep: its physical memory goes back to the driver, and every address is kept.
 * Live blocks stay where they are, without memory, until vram_pool_wake. Meanwhile copies and fills
 * there return VRAM_ERR_INVALID, pins and vram_native VRAM_ERR_BUSY. Work that the library does not
 * see must not use them: a kernel that touches sleeping memory is a mistake of the program, and
 * ends its context on the device (CUDA reports an illegal address). Blocks may be freed. Nothing
 * can be allocated from a pool that sleeps as a whole (VRAM_ERR_BUSY). With a tag, only memory that
 * lies under its blocks alone is released, and the rest of the pool goes on. Memory under exported
 * blocks (vram/share.h) stays awake with its contents.
 *
 * While a captured region of the device is open (vram_capture_begin), contents are never dropped:
 * _DROP keeps them as _HOST does, and the graphs find them where they were after vram_pool_wake. No
 * graph may be launched meanwhile.
 *
 * Waits for all work of the device's queues and for other queues that read it, up to the option
 * `wait_timeout`: VRAM_ERR_TIMEOUT, or _CAPTURE during a capture. VRAM_ERR_BUSY if a block
 * is pinned, if another thread changes the pool's sleep, or if all memory under the tag's blocks is
 * asleep already or under others too. VRAM_ERR_INVALID if no tag is given and the whole pool is
 * asleep already, or if no live block has that tag. VRAM_ERR_UNSUPPORTED if the pool runs on
 * segments, if there is no page-locked memory, and with VRAM_CAP_INTEGRATED unless contents are
 * dropped: host memory is the same memory there, and to keep them in it would free nothing. All or
 * nothing: after a failure the pool is awake with its contents. The exception is memory that the
 * driver first unmapped and then refused to map again: it stays asleep with its contents, and
 * vram_pool_wake tries again.
 *
 * Several threads copy the contents (option staging_threads). VRAM_ERR_HOST_MEMORY if they take
 * more than the system has available. Their host memory is given back when they wake.
 */
VRAM_API vram_status vram_pool_sleep(vram_pool *pool, const vram_sleep_options *options);

/**
 * Wakes what is asleep, at the same addresses and with the contents that were kept. NULL wakes
 * everything. A tag wakes what lies under its blocks, also in a pool that sleeps as a whole, which
 * refuses to allocate until all of it is awake. Blocks that were freed meanwhile need no memory:
 * what lies under no live block becomes free addresses. If memory is short, the pool runs its
 * ladder (vram/oom.h) like an allocation, without the steps that look for a block: finished, move,
 * wait and fallback. All or nothing: after a failure it is asleep as before. Exhaustion means that
 * the memory is not there now, and the report says why. VRAM_ERR_INVALID if nothing of that kind is
 * asleep.
 */
VRAM_API vram_status vram_pool_wake(vram_pool *pool, const char *tag);

/**
 * Seals memory that no longer changes, as the weights of a model: its contents are copied to the
 * host once, and vram_pool_sleep only releases the memory, whatever its `contents` say. They stay
 * on the host until vram_pool_unseal. NULL seals all live blocks; a tag, as with vram_pool_sleep,
 * what lies under its blocks alone.
 *
 * Sealed memory is read as before. Copies and fills into it return VRAM_ERR_INVALID. Where the
 * driver can (CUDA, and the host device), it is mapped read-only, and a kernel that writes there
 * ends its context, on this device and on its peers. Elsewhere that no kernel writes there is a
 * promise of the program. A pool with the mode poison checks it: if sealed memory was written,
 * vram_pool_sleep returns VRAM_ERR_CORRUPT and the pool stays awake, and vram_pool_unseal returns
 * it too, and has unsealed. The error record and the log name the block, its size and tag, and the
 * first byte that differs. A block that is freed while it is sealed keeps its memory until it is
 * unsealed, and vram_resize returns VRAM_ERR_BUSY. Free memory that shares a piece of driver memory
 * with sealed blocks is not used meanwhile.
 *
 * Waits like vram_pool_sleep, with the same errors; while it runs, other calls cannot use the
 * memory. VRAM_ERR_BUSY also if all of it is asleep or sealed already. VRAM_ERR_INVALID if there is
 * no such live block. All or nothing.
 */
VRAM_API vram_status vram_pool_seal(vram_pool *pool, const char *tag);

/**
 * Makes what lies under blocks of the tag (NULL: all that is sealed) writable again, and frees the
 * contents on the host. VRAM_ERR_BUSY if a part of it is asleep, VRAM_ERR_INVALID if nothing of
 * that kind is sealed. What the driver refuses to make writable stays sealed, and the call may be
 * repeated.
 */
VRAM_API vram_status vram_pool_unseal(vram_pool *pool, const char *tag);

/* ------------------------------------------------------------------ rebuild */

typedef struct vram_rebuild_options {
    size_t size;    /* sizeof(vram_rebuild_options) */
    uint64_t bytes; /* stop when so many were won; 0: win all that can be */
} vram_rebuild_options;

/** What a rebuild has done, complete or not. */
typedef struct vram_rebuild_result {
    size_t size;           /* in: sizeof(vram_rebuild_result) of the caller */
    uint64_t won_bytes;    /* given to the driver */
    uint64_t copied_bytes; /* used parts that were copied on the device */
    uint64_t handles;      /* coarse handles that were replaced */
} vram_rebuild_result;

/**
 * Wins free memory that is stuck: a driver handle larger than the granule can be released only as a
 * whole, so a single live block keeps all of it. The parts that blocks use are copied to handles of
 * their own and mapped at the same addresses; the large handle goes back to the driver. Live blocks
 * keep their addresses and contents. Handles with the most free memory come first.
 *
 * Calling it declares a safe point: until it returns, no thread submits work that uses the pool's
 * memory, and none is unfinished on native queues that the library does not know. Such work would
 * read or write memory that is being replaced. Other threads may allocate and free meanwhile;
 * copies and fills there return VRAM_ERR_INVALID. An allocation that runs out of memory can do the
 * same as a step of the ladder, if the program has declared that its allocations are safe points:
 * vram/oom.h, step `rebuild`.
 *
 * Handles under blocks that are pinned, asleep or sealed stay as they are. Waits for all work of
 * the device's queues like vram_pool_sleep: VRAM_ERR_TIMEOUT, and _CAPTURE while a captured region
 * of the device is open. VRAM_ERR_BUSY if the pool is asleep or another thread changes its sleep;
 * VRAM_ERR_UNSUPPORTED if the pool runs on segments or is deterministic. A copy needs memory for
 * the used parts of one handle at a time: handles for which that is not there are left out. Each
 * handle is replaced as a whole or not at all, also if the driver fails, with this exception:
 * memory that the driver has unmapped and then refuses to map again is asleep with its contents, as
 * after vram_pool_sleep, and vram_pool_wake maps it.
 *
 * `options` may be NULL, and so may `result`, which is written on failure, too, unless an argument
 * was refused.
 */
VRAM_API vram_status vram_pool_rebuild(vram_pool *pool, const vram_rebuild_options *options,
                                       vram_rebuild_result *result);

/* ----------------------------------------------------------------- counters */

enum {
    VRAM_LADDER_ROOM = 16,  /* size of arrays of ladder steps, with room for later ones */
    VRAM_RESPONSE_ROOM = 8, /* the same for response steps */
    VRAM_PRESSURE_ROOM = 8  /* the same for levels of pressure */
};

/**
 * Everything that is counted, for a pool, a device (the sum of its pools), a context or a tag; what
 * does not apply is 0. The numbers are sums over all threads, taken while they run: each number is
 * exact, but they are not of one moment. With several threads peak_requested_bytes may be off by
 * what thread caches hold, because a thread reports its use only when it goes past its cache. It is
 * exact for a tracked pool (vram/stats.h).
 */
typedef struct vram_pool_stats {
    size_t size;                   /* in: sizeof(vram_pool_stats) of the caller */
    uint64_t requested_bytes;      /* live, before rounding */
    uint64_t allocated_bytes;      /* live, after rounding */
    uint64_t cached_bytes;         /* free, in thread caches and in the central cache */
    uint64_t reserved_bytes;       /* taken from the driver: live + cached + holes + spares */
    uint64_t peak_requested_bytes; /* most of requested_bytes */
    uint64_t peak_allocated_bytes; /* most of allocated_bytes + cached_bytes */
    uint64_t peak_reserved_bytes;  /* most of reserved_bytes */
    uint64_t live_blocks;
    uint64_t allocs, frees; /* calls that succeeded */
    /* allocs = hits + misses. A hit is served from memory that the pool holds; for a miss the
       driver is called: the pool grows, moves memory or falls back. */
    uint64_t hits, misses;
    uint64_t cache_hits;    /* of the hits: from the calling thread's cache, in nanoseconds */
    uint64_t returns;       /* frees whose memory the pool keeps for later hits */
    uint64_t cache_returns; /* of the returns: into the calling thread's cache */
    uint64_t moved_handles, moved_bytes, move_ns; /* physical memory taken from holes */
    uint64_t spare_handles;                       /* mapped nowhere */
    uint64_t driver_creates, driver_releases, driver_maps, driver_unmaps, driver_accesses;
    uint64_t driver_allocs, driver_frees, driver_markers;
    /* Host memory of the pool's bookkeeping, without thread caches. It grows with blocks and holes;
       a size that was not used before adds at most 64 bytes. */
    uint64_t metadata_bytes;
    uint64_t thread_cache_bytes; /* host memory of thread caches */

    double hit_rate;          /* hits / allocs, 0 to 1; 0 before the first allocation */
    uint64_t rounding_bytes;  /* allocated_bytes - requested_bytes */
    uint64_t active_buffers;  /* the same as live_blocks, by another name */
    uint64_t peak_scopes;     /* open scopes of peaks */
    vram_value budget_bytes;  /* most that may be held, at the last look; unknown: no limit */
    uint64_t refusals;        /* allocations that failed because memory of any kind ran out */
    uint64_t limit_refusals;  /* of these, those that a limit refused */
    uint64_t quota_refusals;  /* of these, those that a tag's hard quota refused */
    uint64_t quota_crossings; /* times that a tag exceeded its soft quota */

    uint64_t fallbacks;      /* allocations served by other memory than the device's */
    uint64_t fallback_bytes; /* of them, live */
    uint64_t ladder_runs;    /* times that memory was short */
    uint64_t ladder_steps[VRAM_LADDER_ROOM]; /* by vram_ladder_step (vram/oom.h): times */
    uint64_t ladder_bytes[VRAM_LADDER_ROOM]; /* by vram_ladder_step: bytes that it released */
    /* by vram_ladder_step: allocations that it served */
    uint64_t ladder_rescues[VRAM_LADDER_ROOM];

    uint64_t response_steps[VRAM_RESPONSE_ROOM]; /* by vram_response_step (vram/pressure.h) */
    uint64_t response_bytes[VRAM_RESPONSE_ROOM]; /* by vram_response_step: bytes that left caches */
    uint64_t rises[VRAM_PRESSURE_ROOM]; /* by level of pressure: times it was entered from below */
    uint64_t falls[VRAM_PRESSURE_ROOM]; /* the same from above */
    uint64_t cleanups;                  /* trims and emergency cleanups */
    uint64_t cleaned_bytes;             /* what they gave back to the driver */
    vram_value last_cleanup_ns; /* end of the last one, in the device's time; unknown: none yet */

    uint64_t sleeps, wakes;     /* that succeeded */
    uint64_t asleep_bytes;      /* addresses that are kept without memory */
    uint64_t asleep_host_bytes; /* host memory with contents of what is asleep or sealed */
    uint64_t quarantine_bytes;  /* freed, and kept apart to catch late writes */
    uint64_t damaged_blocks;    /* found with a red zone, poison or sealed contents overwritten */

    uint64_t other_bytes; /* live, of buffers outside the device's memory; not in reserved_bytes */
    uint64_t promotions, promoted_bytes; /* buffers moved back to the device; vram/buffer.h */
    uint64_t demotions, demoted_bytes;   /* buffers moved from the device to host memory */

    uint64_t unchecked_blocks; /* freed, or out of quarantine, and not checked for damage */

    uint64_t sealed_bytes; /* memory that is sealed, asleep or not; vram_pool_seal */
    uint64_t shared_bytes; /* memory under exports, each counted by itself; vram/share.h */
} vram_pool_stats;

VRAM_API vram_status vram_pool_stats_get(vram_pool *pool, vram_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
