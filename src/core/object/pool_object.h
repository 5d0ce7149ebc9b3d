/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_object.h: the object behind a vram_pool. Each folder of core is a module that works on its
 * own part of it. A folder calls only folders below it; what it needs from above is a function
 * pointer (vr_miss_ops).
 *
 *   pool/      vram_alloc and vram_free, misses, creating and destroying pools
 *   live/      the live page, by which other processes see what pools hold
 *   sleep/     memory that is released while its addresses and contents are kept
 *   ladder/    the steps taken when memory is short, and the report when all failed
 *   tracking/  records of a pool's blocks
 *   pressure/  how close memory is to running out, and releasing it
 *   backing/   driver memory: ranges of addresses, and executing plans
 *   guard/     safety modes, and finding blocks by address
 *   stats/     counters and peaks
 *   cache/     thread caches, the central cache, queue states, and returning blocks to the space
 *   limit/     limits, budgets, tags, memory of other processes
 *   object/    this struct, requests, entering and iterating over pools
 *   space/     the block engine, which knows nothing of pools
 *
 *  (1) `lock` guards the space, the central cache, the queue states and changes of the table. It is
 *      never held across a driver call: the space returns driver work as a plan (space.h).
 *  (2) A block is in the table from the moment it leaves the space until it returns.
 *  (3) The pool outlives its caches: a cache is dropped when its thread ends, or when its queue or
 *      the pool is destroyed, each time with the thread kept out.
 *  (4) A freed block that other queues still use, or that is pinned, waits in `deferred`. So does a
 *      block freed on a queue that is new to the pool when host memory has run out: a free never
 *      fails because memory ran out.
 *  (5) Small blocks have a separate space. Thread caches keep them, scattered as they were freed;
 *      among large blocks each would occupy a whole handle and split a hole.
 */
#ifndef VR_POOL_OBJECT_H
#define VR_POOL_OBJECT_H

#include "base/size.h"
#include "core/cache/block_table.h"
#include "core/cache/cache.h"
#include "core/cache/central_cache.h"
#include "core/cache/queue_state.h"
#include "core/guard/guard.h"
#include "core/pressure/pressure_state.h"
#include "core/sleep/sleep.h"
#include "core/space/space.h"
#include "device/address.h"
#include "device/objects.h"
#include "vram/limits.h"
#include "vram/oom.h"

#include <assert.h>

/* Driver calls that a pool counts. */
enum vr_pool_call {
    VR_CALL_CREATE,
    VR_CALL_RELEASE,
    VR_CALL_MAP,
    VR_CALL_UNMAP,
    VR_CALL_ACCESS,
    VR_CALL_ALLOC,
    VR_CALL_FREE,
    VR_CALL_MARK,
    VR_CALL_COUNT
};

/* Another queue that uses a block, until the block is freed: `stamp` is marked then. Its value is 0
   before that, and while the queue cannot be marked. */
struct vr_uses {
    struct vr_uses *next;
    struct vr_queue_stamp stamp;
};

/* Counters outside the hit path, named as in vram_pool_stats. Any thread adds to them with
   vr_counter_add. */
struct vr_pool_counters {
    vr_atomic_u64 refusals, limit_refusals, quota_refusals, quota_crossings;
    vr_atomic_u64 fallbacks, fallback_bytes, other_bytes, other_frees;
    vr_atomic_u64 promotions, promoted_bytes, demotions, demoted_bytes; /* of buffers; src/mem */
    vr_atomic_u64 ladder_runs;
    vr_atomic_u64 ladder_steps[VRAM_LADDER_ROOM], ladder_bytes[VRAM_LADDER_ROOM];
    vr_atomic_u64 ladder_rescues[VRAM_LADDER_ROOM];
    vr_atomic_u64 response_steps[VRAM_RESPONSE_ROOM], response_bytes[VRAM_RESPONSE_ROOM];
    vr_atomic_u64 rises[VRAM_PRESSURE_ROOM], falls[VRAM_PRESSURE_ROOM];
    vr_atomic_u64 cleanups, cleaned_bytes;
    vr_atomic_u64 last_cleanup_ns; /* vr_pool_now when the last one ended, and 1; 0: none yet */
    vr_atomic_u64 sleeps, wakes, asleep_bytes, asleep_host_bytes, sealed_bytes;
    vr_atomic_u64 shared_bytes; /* src/share */
    vr_atomic_u64 quarantine_bytes, damaged_blocks, unchecked_blocks;
};

/* Peaks as they were when scopes began, the oldest first. */
enum { VR_PEAK_SCOPES = 16 };
struct vr_peak_stack {
    uint32_t depth;
    struct {
        uint64_t requested, allocated, reserved;
    } saved[VR_PEAK_SCOPES];
};

/* The limits of a pool as numbers, UINT64_MAX where there is none; limit.h (1). */
struct vr_caps {
    vr_atomic_u64 generation;     /* of the ledger, when they were derived */
    vr_atomic_u64 own_bytes;      /* that the pool may hold */
    vr_atomic_u64 fraction_bytes; /* that the program may hold on the device when the pool grows */
    vr_atomic_u64 min_free_bytes; /* to stay free on the device; 0: none */
    vr_atomic_u64 cached_bytes;   /* held, and in no block */
    vr_atomic_u32 all_blocks;     /* of one size in all caches together; 0: cached_blocks in each */
    vr_atomic_u32 cached_blocks;  /* in an exact bin: its cache's share of all_blocks */
    vr_atomic_u32 small_blocks;   /* in a small bin: the same share, or else VR_SMALL_DEPTH */
    vr_atomic_bool falls_back;    /* a fallback to other memory is allowed */
    vr_atomic_u32 fallback; /* vram_fallback of plain allocations, unless the ladder has some */
};

/* Why threads do not cache blocks of a pool. Relaxed: whoever sets one while the pool is in use
   then drops its caches, and so visits every thread. A cache that was made before that visit is
   dropped by it. A thread that makes one after it sees the reason. */
enum vr_uncached {
    VR_UNCACHED_ORDER = 1 << 0,    /* deterministic: addresses must not depend on the thread */
    VR_UNCACHED_CHANGING = 1 << 1, /* memory is falling asleep or waking: sleep.c */
    VR_UNCACHED_ASLEEP = 1 << 2,   /* all of it is asleep */
    VR_UNCACHED_DIRECT = 1 << 3,   /* pooling is off: direct.c */
    VR_UNCACHED_GUARD = 1 << 4,    /* safety modes: guard.h (1) */
    VR_UNCACHED_ENDED = 1 << 5     /* its handle is retired: pool_end.c (7) */
};

enum { VR_POOL_NAME_MAX = 64 }; /* bytes of a name, the final 0 included */

/* The two spaces of a pool: keeps (5). */
enum vr_pool_part { VR_PART_SMALL, VR_PART_LARGE, VR_PART_COUNT };

/* The ladder: what the pool's requests try when memory is short; ladder.h. */
struct vr_ladder {
    uint8_t steps[VRAM_LADDER_ROOM]; /* vram_ladder_step, in order */
    uint32_t count;                  /* of steps */
    uint32_t fallback;               /* vram_fallback */
    bool rebuilds;                   /* has the step `rebuild`: allocations are safe points */
    uint64_t wait_ns;                /* longest wait for other threads */
};

/*
 * An object of the layer above that depends on a pool (a buffer); it has its own handle. When the
 * pool is destroyed, before any of its memory is released, the child is removed from the list and
 * pool_ended is called, with a reference to it and no lock held; it must then end. A child that
 * ends earlier removes itself from the list before its memory is freed; pool_end.c.
 */
struct vr_pool_child {
    struct vr_link link; /* in pool->children */
    uint64_t handle;     /* of the object it is part of */
    void (*pool_ended)(struct vr_pool_child *child);
};

enum { VR_FURTHER_RANGES = 32 }; /* each twice as long as the one before */

/* Another process that has memory of the pool open; src/share. */
struct vr_reader {
    uint64_t process; /* its id; 0: it is in another pid namespace */
    uint64_t bytes;   /* of the exports that it has open */
    uint32_t opens;   /* how many; 0: the entry is free */
};

enum { VR_READERS_MOST = 16 }; /* that are known by their ids */

struct vr_miss_ops; /* ladder.h */

struct vr_pool {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    struct vram_provider provider;   /* alloc NULL: memory comes from the driver */
    vram_memory_kind kind;           /* of its memory: DEVICE, PINNED or MANAGED */
    uint32_t flags;                  /* vram_pool_flag */
    bool exportable;                 /* by its flags, or by the option of that name */
    bool direct;                     /* pooling is off: direct.c */
    uint64_t granule;
    char name[VR_POOL_NAME_MAX];
    struct vr_record *range;                      /* the first reserved addresses; NULL: segments */
    struct vr_record *further[VR_FURTHER_RANGES]; /* addresses.c (4); under the lock */
    uint32_t further_count;
    struct vr_block_table table; /* read without the lock */
    vr_atomic_u32 uncached;      /* of vr_uncached; 0: threads have caches */
    vr_atomic_u64 large_left;    /* bytes of large blocks that caches may still keep */
    vr_atomic_u64 calls[VR_CALL_COUNT];
    struct vr_pool_counters counters;
    struct vram_oom_report report; /* of the last exhaustion; number 0: none; report.c's lock */
    struct vr_caps caps;
    vr_atomic_u64 charged;     /* bytes held from driver or provider, or about to be */
    uint64_t large_most;       /* what large_left was last set to; the ledger's lock */
    uint32_t cache_count;      /* of threads and queues, or about to be; the ledger's lock */
    struct vram_limits limits; /* as set; the ledger's lock */
    struct vr_pool_pressure pressure;
    vr_atomic_bool owned;         /* the owner still has its reference; pool_end.c (4) */
    struct vr_cache_counts past;  /* of dropped caches, and of blocks that were in no cache */
    vr_atomic_u64 requested_now;  /* live bytes as requested, as reported; may be below 0 */
    vr_atomic_u64 requested_more; /* to be added to it: reported under the lock; live_bytes.c */
    vr_atomic_u64 requested_peak; /* its highest value: live_bytes.c; with a track both are exact */

    struct vr_mutex lock; /* guards the rest */
    struct vr_space *spaces[VR_PART_COUNT];
    uint64_t peak_reserved_bytes; /* of both together */
    uint64_t out_bytes;           /* of blocks outside both: live, or in a cache */
    uint64_t peak_out_bytes;      /* its highest value */
    struct vr_queue_states queue_states;
    struct vr_central_cache central;
    struct vr_ladder ladder;
    const struct vr_miss_ops *miss;  /* calls for the ladder's steps; fixed at creation */
    uint64_t idle_tried_bytes;       /* idle bytes that the last release left: limit_set.c */
    uint64_t idle_calls;             /* calls since then that found too much */
    uint64_t plans;                  /* number of times that held memory did not suffice */
    uint64_t leaving_plans;          /* plans whose blocks are still in the space; sleep.c step 2 */
    struct vr_block *deferred;       /* freed, waiting for other queues or pins; by `next` */
    bool kept;                       /* destroyed, but its queues keep it; pool_end.c (2) */
    struct vr_block *other_blocks;   /* blocks of other memory, live or freed; other_memory.c */
    vr_atomic_bool has_other_blocks; /* whether there was ever one */
    uint64_t stateless_blocks;       /* of `deferred`, those without a queue state */
    struct vr_sleep sleep;
    struct vr_guard guard;
    struct vr_reader readers[VR_READERS_MOST]; /* in no order; exported.c */
    struct vr_list children;                   /* vr_pool_child.link */
    bool childless;                            /* it has ended and accepts no more children */
    vr_atomic_u64 requested_up; /* the requested_now last reported to device and context */
    struct vr_peak_stack peaks;

    struct vr_track *track;      /* its live blocks; NULL: not tracked; fixed; pool_tracking.h */
    bool traced;                 /* it sends events (track/event.h); fixed */
    bool announced;              /* a tool knows its blocks (announce.h); fixed */
    uint32_t stack_every;        /* option track_stacks, at creation */
    vr_atomic_bool end_reported; /* its end and its leaks were reported */
};

/* Whether its memory is device memory: not a provider's, not page-locked and not managed. Only then
   do the device's size and all its limits apply to it. */
static inline bool vr_pool_on_device(const struct vr_pool *pool) {
    return !pool->provider.alloc && pool->kind == VRAM_MEMORY_DEVICE;
}

/* Whether other processes may open its blocks: its memory is created so; src/share. */
static inline bool vr_pool_is_shareable(const struct vr_pool *pool) {
    return pool->exportable;
}

/* Whether it counts against the hard limit of the device, so that releasing it helps other pools:
   managed memory does too, because it may migrate there. A provider of the library's charges the
   device itself. */
static inline bool vr_pool_is_charged(const struct vr_pool *pool) {
    return !pool->provider.alloc && pool->kind != VRAM_MEMORY_PINNED;
}

/* Rounds the bytes of a block up to a power of two in a pool that asks for it
   (VRAM_POOL_POWER_OF_TWO); false on overflow. */
static inline bool vr_pool_bucket(const struct vr_pool *pool, uint64_t *bytes) {
    if (!(pool->flags & VRAM_POOL_POWER_OF_TWO) || vr_is_power_of_two(*bytes)) {
        return true;
    }
    *bytes = UINT64_C(2) << vr_high_bit(*bytes); /* 0 on overflow: the bit is shifted out */
    return *bytes != 0;
}

/* The space for new blocks of that size. A resized block stays in its space: vr_block.part. */
static inline enum vr_pool_part vr_part_of(uint64_t bytes) {
    return bytes <= VR_SMALL_BYTES ? VR_PART_SMALL : VR_PART_LARGE;
}

/* Whether its handle is live: no callback or other thread has destroyed it. */
static inline bool vr_pool_is_open(const struct vr_pool *pool) {
    return !vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle);
}

/* Whether its blocks are tracked; pool_tracking.h. */
static inline bool vr_pool_is_tracked(const struct vr_pool *pool) {
    return VR_TRACKER && pool->track;
}

/* Whether its allocations and frees are tracked, or sent to listeners if there are any. */
static inline bool vr_pool_is_watched(const struct vr_pool *pool) {
    return VR_TRACKER && pool->traced;
}

/* The present time of the device's clock: a simulated device has its own; pool_access.c. */
uint64_t vr_pool_now(const struct vr_pool *pool);
uint64_t vr_device_now(const struct vr_device_object *device);

/* Whether the caller holds the pool's lock, as far as the build can tell; for asserts. */
static inline bool vr_pool_is_locked(const struct vr_pool *pool) {
    return vr_mutex_is_held(&pool->lock);
}

/* Counts a block that leaves the spaces, or returns. Under the lock. */
static inline void vr_pool_out(struct vr_pool *pool, const struct vr_block *block) {
    assert(vr_pool_is_locked(pool));
    pool->out_bytes += vr_load(&block->bytes, VR_RELAXED);
    if (pool->out_bytes > pool->peak_out_bytes) {
        pool->peak_out_bytes = pool->out_bytes;
    }
    if (pool->out_bytes > pool->pressure.needed_bytes) {
        pool->pressure.needed_bytes = pool->out_bytes;
    }
}

static inline void vr_pool_in(struct vr_pool *pool, const struct vr_block *block) {
    assert(vr_pool_is_locked(pool));
    assert(pool->out_bytes >= vr_load(&block->bytes, VR_RELAXED));
    pool->out_bytes -= vr_load(&block->bytes, VR_RELAXED);
}

/* Enters pool and queue for a slow path; the queue may be NULL; pool_access.c. */
vram_status vr_pool_enter(vram_pool *handle, vram_queue *queue_handle, struct vr_pool **pool,
                          struct vr_queue_object **queue);
/* Enters only the queue, for a pool that was entered; leaves the pool on failure. */
vram_status vr_pool_enter_queue(struct vr_pool *pool, vram_queue *handle,
                                struct vr_queue_object **queue);
void vr_pool_leave(struct vr_pool *pool, struct vr_queue_object *queue);

#endif
