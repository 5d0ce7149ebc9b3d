/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_object.h: what stands behind a vram_pool, and who does what to it.
 *
 *   pool.c       the hit paths of vram_alloc and vram_free
 *   foundation.c making and entering pools, and what one is built on: options, spaces
 *   addresses.c  the ranges of addresses that it maps memory into
 *   pool_end.c   how they end
 *   shortcut.c   the commonest miss: a large block that memory is there for
 *   miss.c       all others: depot, space, a plan
 *   ladder.h     what to do when memory is short
 *   executor.c   carries a plan out with the driver, or with the program's provider
 *   resize.c     blocks that grow and shrink where they are
 *   drain.c      the way back: from caches and depot into the space
 *   order.c      what deterministic pools do in another way
 *   pool_info.c  look-ups, uses and pins
 *   stats.c      counters and peaks
 *   limit.c      limits as set and as in force; budget.c: what the pool may hold now
 *   pressure.c   how near memory is to its end; pressure_state.h lists what belongs to it
 *   sleep.c      sleep and wake, with sleep_space.c, sleep_turn.c, sleep_copy.c and sleep_wake.c
 *   direct.c     pools with pooling switched off
 *   guard.c      safety modes
 *   witness.c    what it tells of its blocks
 *
 *  (1) `lock` guards the space, the depot, the lanes and changes of the table. It is never held across
 *      a driver call: what the space wants done comes as a plan (space.h).
 *  (2) A block is in the table from the moment it leaves the space until it returns.
 *  (3) The pool outlives its caches: a cache is dropped by its thread's end, its queue's end or the
 *      pool's, each with the thread kept out.
 *  (4) A freed block that other queues still use, or that is pinned, waits in `deferred`. So does one
 *      whose queue is new to the pool when host memory is out: a free never fails for want of memory.
 *  (5) Small blocks have a space of their own. Threads keep them at hand, scattered as they were freed;
 *      among large blocks each would hold a whole handle and cut a hole in two.
 */
#ifndef VR_POOL_OBJECT_H
#define VR_POOL_OBJECT_H

#include "core/cache/block_table.h"
#include "core/cache/cache.h"
#include "core/cache/depot.h"
#include "core/cache/lane.h"
#include "core/pool/guard.h"
#include "core/pressure/pressure_state.h"
#include "core/sleep/sleep.h"
#include "core/space/space.h"
#include "device/address.h"
#include "device/objects.h"
#include "vram/limits.h"

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

/* Another queue that uses a block, and until when. */
struct vr_uses {
    struct vr_uses *next;
    struct vr_queue_stamp stamp;
};

/* What is counted past the hit path, in the words of vram_pool_stats: whoever does one of these things
   adds to it with vr_tally, from any thread. */
struct vr_tally {
    vr_atomic_u64 refusals, limit_refusals, quota_refusals, quota_crossings;
    vr_atomic_u64 fallbacks, fallback_bytes, other_bytes;
    vr_atomic_u64 promotions, promoted_bytes, demotions, demoted_bytes; /* of buffers; src/mem */
    vr_atomic_u64 ladder_runs;
    vr_atomic_u64 ladder_steps[VRAM_LADDER_ROOM], ladder_bytes[VRAM_LADDER_ROOM];
    vr_atomic_u64 ladder_rescues[VRAM_LADDER_ROOM];
    vr_atomic_u64 response_steps[VRAM_RESPONSE_ROOM], response_bytes[VRAM_RESPONSE_ROOM];
    vr_atomic_u64 rises[VRAM_PRESSURE_ROOM], falls[VRAM_PRESSURE_ROOM];
    vr_atomic_u64 cleanups, cleaned_bytes;
    vr_atomic_u64 last_cleanup_ns; /* vr_pool_now when the last one ended, and 1; 0: none yet */
    vr_atomic_u64 sleeps, wakes, asleep_bytes, asleep_host_bytes;
    vr_atomic_u64 quarantine_bytes, damaged_blocks, unchecked_blocks;
};

static inline void vr_tally(vr_atomic_u64 *counter, uint64_t value) {
    vr_fetch_add(counter, value, VR_RELAXED);
}

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
    vr_atomic_u64 turn;      /* of the ledger, when they were derived */
    vr_atomic_u64 own_bytes; /* that the pool may hold */
    vr_atomic_u64
        fraction_bytes; /* that the program may hold on the device, when this pool grows */
    vr_atomic_u64 min_free_bytes; /* to stay free on the device; 0: none */
    vr_atomic_u64 cached_bytes;   /* held, and in no block */
    vr_atomic_u32 cached_blocks;  /* in an exact bin */
    vr_atomic_bool falls_back;    /* other memory than the device's may be handed out at all */
};

/* Why threads keep nothing of a pool at hand. */
enum vr_uncached {
    VR_UNCACHED_ORDER = 1 << 0, /* deterministic: addresses must not depend on which thread asks */
    VR_UNCACHED_TURNING = 1 << 1, /* memory is falling asleep or waking: sleep.c */
    VR_UNCACHED_ASLEEP = 1 << 2,  /* all of it is asleep */
    VR_UNCACHED_DIRECT = 1 << 3,  /* pooling is off: direct.c */
    VR_UNCACHED_GUARD = 1 << 4    /* safety modes: guard.h (1) */
};

enum { VR_POOL_NAME_MAX = 64 }; /* bytes of a name, the final 0 included */

/* The two spaces of a pool: keeps (5). */
enum vr_pool_part { VR_PART_SMALL, VR_PART_LARGE, VR_PART_COUNT };

/* How the pool's requests climb when memory is short; ladder.h. */
struct vr_ladder {
    uint8_t steps[VRAM_LADDER_ROOM]; /* vram_ladder_step, in order */
    uint32_t count;                  /* of steps */
    uint32_t fallback;               /* vram_fallback */
    uint64_t wait_ns;                /* longest wait for other threads */
};

/*
 * What the tier above hangs on a pool (a buffer): an object behind a handle itself. When the pool ends,
 * before any of its memory goes, it is taken off the list and told, with no lock held and a reference to it
 * taken; then it must end. It takes itself off the list before its own memory goes; pool_end.c.
 */
struct vr_pool_child {
    struct vr_link link; /* in pool->children */
    uint64_t handle;     /* of the object it is part of */
    void (*pool_ended)(struct vr_pool_child *child);
};

enum { VR_FURTHER_RANGES = 32 }; /* of which each is twice as long as the one before */

struct vr_pool {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    struct vram_provider provider;   /* alloc NULL: the driver's memory */
    vram_memory_kind kind;           /* of the driver's: DEVICE or PINNED */
    uint32_t flags;                  /* vram_pool_flag */
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
    struct vr_tally tally;
    struct vram_oom_report
        report; /* of the last request that ran out; number 0: none; report.c's lock */
    struct vr_caps caps;
    vr_atomic_u64 charged;     /* bytes taken from the driver or provider, or about to be */
    uint64_t large_most;       /* what large_left was last set to allow; the ledger's lock */
    struct vram_limits limits; /* as set; the ledger's lock */
    struct vr_pool_pressure pressure;
    vr_atomic_bool owned;        /* its owner's reference is there; pool_end.c (4) */
    struct vr_cache_counts past; /* of caches that are gone, and of blocks that never were in one */
    vr_atomic_u64
        requested_now; /* bytes asked for and live, as far as caches have told; may be below 0 */
    vr_atomic_u64
        requested_peak; /* most that this was, with what the teller knew of its own; with a
                                     track both are exact, and the track's */

    struct vr_mutex lock; /* guards the rest */
    struct vr_space *spaces[VR_PART_COUNT];
    uint64_t peak_reserved_bytes; /* of both together */
    uint64_t out_bytes;      /* of blocks that are in neither: live, or in a cache or the depot */
    uint64_t peak_out_bytes; /* most that this was */
    struct vr_lanes lanes;
    struct vr_depot depot;
    struct vr_ladder ladder;
    uint64_t plans;   /* times that held memory did not suffice */
    uint64_t landing; /* plans for blocks that have not left the space yet; sleep.c step 2 */
    struct vr_block *deferred; /* freed, waiting for other queues or pins; by `next` */
    bool kept;                 /* destroyed, and only queues it has seen keep it; pool_end.c (2) */
    struct vr_block *fallen;   /* blocks of other memory, live or freed; ladder_fallback.c */
    vr_atomic_bool has_fallen; /* there ever were such */
    uint64_t owed;             /* of `deferred`, those without a lane */
    struct vr_sleep sleep;
    struct vr_guard guard;
    struct vr_list children;    /* vr_pool_child.link */
    bool childless;             /* it has ended, and takes no more of them */
    vr_atomic_u64 requested_up; /* of requested_now, what device and context were told last */
    struct vr_peak_stack peaks;

    struct vr_track
        *track; /* its live blocks; NULL: it tells of none; fixed at creation; witness.h */
    uint32_t stack_every; /* option track_stacks, at creation */
    vr_atomic_bool told;  /* its end was told of */
};

/* Whether its memory is the device's own: not a provider's, and not page-locked memory of the host. Only then
   the device's size and limits mean something to it, and giving it back helps other pools. */
static inline bool vr_pool_on_device(const struct vr_pool *pool) {
    return !pool->provider.alloc && pool->kind == VRAM_MEMORY_DEVICE;
}

/* The space where new blocks of that size lie. One that was resized stays in its own: vr_block.part. */
static inline enum vr_pool_part vr_part_of(uint64_t bytes) {
    return bytes <= VR_SMALL_BYTES ? VR_PART_SMALL : VR_PART_LARGE;
}

/* Whether it tells of its blocks; witness.h. */
static inline bool vr_pool_is_tracked(const struct vr_pool *pool) {
    return VR_TRACKER && pool->track;
}

/* Bytes of large blocks that all caches of the pool may hold together: a budget; cache.c. */
bool vr_pool_large_take(struct vr_pool *pool, uint64_t bytes);
void vr_pool_large_give(struct vr_pool *pool, uint64_t bytes);

/* A cache tells the pool what has become of the bytes handed out through it: at every miss, overflow and
   drain. Inside enter, or revoked. The second is for blocks that go past all caches; stats.c. */
void vr_pool_tell(struct vr_cache *cache);
void vr_pool_tell_bytes(struct vr_pool *pool, int64_t high, int64_t change);
/* Passes on to device and context what the pool knows. */
void vr_pool_tell_up(struct vr_pool *pool);

/* Makes a live block of the pool an object's, or takes that away: keeps block.h (7). False: it is none, or is so
   already; pool_info.c. */
bool vr_pool_own(uint64_t pool, vram_addr addr, bool owned);

/* vram_resize for the object that has the block: the program's own call is refused then. */
vram_status vr_pool_resize(vram_pool *pool, vram_addr addr, uint64_t new_size, vram_queue *queue);

/* How the device tier learns where blocks end, for drivers that have an object for each; pool_info.c. */
vr_extent_fn vr_pool_extent;

/* Now, in the device's time: a simulated device has its own; executor.c. */
uint64_t vr_pool_now(const struct vr_pool *pool);
uint64_t vr_device_now(const struct vr_device_object *device);

/* Under the lock: a block leaves the spaces, or comes back. */
static inline void vr_pool_out(struct vr_pool *pool, const struct vr_block *block) {
    pool->out_bytes += vr_load(&block->bytes, VR_RELAXED);
    if (pool->out_bytes > pool->peak_out_bytes) {
        pool->peak_out_bytes = pool->out_bytes;
    }
    if (pool->out_bytes > pool->pressure.needed_bytes) {
        pool->pressure.needed_bytes = pool->out_bytes;
    }
}

static inline void vr_pool_in(struct vr_pool *pool, const struct vr_block *block) {
    pool->out_bytes -= vr_load(&block->bytes, VR_RELAXED);
}

/* Of vr_request.flags, beside vram_alloc_flag. */
enum {
    VR_REQUEST_AHEAD = 1u << 30, /* nobody uses the block, it is prepared */
    VR_REQUEST_WISHED =
        1u << 29,               /* other memory is what was asked for, and counts as no fallback */
    VR_REQUEST_MOVED = 1u << 28 /* contents fall back that had a place: no fallback more */
};

/* What one request is about. */
struct vr_request {
    uint64_t size;                        /* as asked for */
    uint64_t bytes;                       /* rounded */
    uint64_t align;                       /* 0: as all blocks are */
    struct vr_queue_id queue;             /* 0: none */
    struct vr_queue_object *queue_object; /* pinned by the caller; NULL: none */
    uint32_t flags;                       /* vram_alloc_flag */
    bool wishes;                          /* came with options: no cache has been looked into yet */
    struct vr_tag *tag;                   /* NULL: none */
    uint64_t room;                        /* addresses to keep behind it: vr_want.room */
    struct vr_block
        *behind;       /* a live block that it is to follow without a gap; `growing`; NULL: none */
    const char *name;  /* label; NULL: none */
    uint64_t elements; /* label; 0: not said */
    bool asked;        /* a record was prepared, or tried to be; witness.h */
    uint32_t record;   /* which; 0: none */
    uint32_t stack;    /* who asks; 0: not known */
    uint32_t other;    /* vram_fallback: not of the pool's own memory but of the first of these */
};

/* What is to grow lies among the large ones, whatever its size. */
static inline enum vr_pool_part vr_request_part(const struct vr_request *request) {
    return request->behind ? (enum vr_pool_part)request->behind->part
           : request->room ? VR_PART_LARGE
                           : vr_part_of(request->bytes);
}

/* Has the request ask for room behind its block, where that can be: both become whole granules; resize.c. */
void vr_request_wish_room(const struct vr_pool *pool, uint64_t room_bytes,
                          struct vr_request *request);

/* Where its block will lie. */
static inline struct vr_space *vr_request_space(const struct vr_pool *pool,
                                                const struct vr_request *request) {
    return pool->spaces[vr_request_part(request)];
}

/* Sees to it that stamps of the queue can be asked for. The caller has it pinned; NULL: no queue.
   VRAM_ERR_STALE: it has come to its end. Under the lock; miss.c. */
vram_status vr_pool_know(struct vr_pool *pool, struct vr_queue_object *queue);

/* The number by which the spaces know a queue, and the same for a stamp; 0: no queue, or it has
   ended. And the reverse. Under the lock; order.c. */
uint64_t vr_pool_queue_in_space(struct vr_pool *pool, struct vr_queue_id queue);
struct vr_stamp vr_pool_stamp_to_space(struct vr_pool *pool, struct vr_queue_stamp stamp);
struct vr_queue_stamp vr_pool_stamp_from_space(struct vr_pool *pool, struct vr_stamp stamp);

/* A block leaves the space, or the memory that is no space's, for a cache or a program. Under the lock, with
   room in the table; miss.c. */
void vr_pool_leave_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_id queue);

/* vram_free for objects of the library, in the order of their queue, which may be ending or gone:
   the block is reused once the queue has completed the work submitted so far, or has ended. May
   change the error record. No lock held; pool.c. */
vram_status vr_pool_free_after_queue(vram_pool *handle, vram_addr addr, vram_queue *queue);

/* Makes the end of the pool wait for the queue (NULL: none) as well: its work may use the pool's
   memory, and may have been submitted after the ending pool had waited for its queues. For an
   object that is about to drop its reference to the pool. No lock held; pool_end.c. */
void vr_pool_end_waits_for(struct vr_pool *pool, const vram_queue *queue);

/* Waits until all work of a queue that the caller has pinned is done. No lock held; pool_end.c. */
vram_status vr_pool_settle_queue(struct vr_queue_object *queue, uint64_t deadline);

/* A block for the request, out of the space or the depot, ready to be handed out (state CACHED), and up
   to *extra further ones of the same size in `more`; miss.c. */
vram_status vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block **block, struct vr_block **more, uint32_t *extra);
/* The same where a plain request can be served at once: the block, or NULL. *marks: who has it marks the queue
   then, with vr_pool_mark_batch. */
struct vr_block *vr_pool_supply_held(struct vr_pool *pool, const struct vr_request *request,
                                     bool *marks);
/* Frees tables that were replaced, after every thread has been seen outside its caches. */
void vr_pool_reap(struct vr_pool *pool);

/* Carries a plan of that space out, without the lock, and commits or undoes it. On VRAM_OK *block is the
   plan's block, or NULL for a plan without one. *grown is what the driver gave before the plan was done or
   refused; executor.c. */
vram_status vr_pool_execute(struct vr_pool *pool, struct vr_space *space, struct vr_plan *plan,
                            struct vr_block **block, uint64_t *grown);
/* Makes the driver call of one step, counted and charged. No lock held; executor.c. */
vram_status vr_pool_step(struct vr_pool *pool, struct vr_step *step);
/* Updates the peaks of the pool and its device with what is held now, after a plan's steps and the
   undoing of failed ones. Under the lock; executor.c. */
void vr_pool_note_peak(struct vr_pool *pool);
/* Unmaps what no work can reach any more, as far as the driver lets it; executor.c. No lock held. */
void vr_pool_sweep(struct vr_pool *pool, struct vr_space *space);
/* Gives free memory of a space back to the driver until it holds at most keep_bytes; executor.c. No lock held. */
vram_status vr_pool_shrink(struct vr_pool *pool, struct vr_space *space, uint64_t keep_bytes);
/* Gives every piece back to the driver, when the pool ends; executor.c. */
void vr_pool_release_all(struct vr_pool *pool);

/* Gives an owned block (state CACHED) to its space, to be used when the stamp has passed. Under the lock;
   drain.c. */
void vr_pool_to_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);
/* The same for one that may have fallen asleep meanwhile, and then waits until it is awake. */
void vr_pool_put_back(struct vr_pool *pool, struct vr_block *block, struct vr_queue_stamp stamp);
/* The same for a list of blocks that were freed on `queue`. */
void vr_pool_list_to_space(struct vr_pool *pool, struct vr_block *list, struct vr_queue_id queue);
/* Whether the frees on a queue, with `bytes` more, have become a batch that is worth a mark, which the caller
   then makes. Under the lock; and with no lock held. */
bool vr_pool_batch_is_full(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes);
void vr_pool_mark_batch(struct vr_pool *pool, struct vr_queue_id queue);
/* Gives owned blocks (state CACHED) that were freed on `queue` back, to the depot or the space;
   drain.c. Never fails. */
void vr_pool_return(struct vr_pool *pool, struct vr_queue_id queue, struct vr_block **blocks,
                    uint32_t count);
/* The same for one block, by a thread that has pinned the queue (NULL: none), which may be new. */
void vr_pool_return_new(struct vr_pool *pool, struct vr_queue_object *queue,
                        struct vr_block *block);
/* The same, after the queue has been told to wait for all other users of the block, in a deterministic
   pool; with no queue, the first of the users; order.c. */
void vr_pool_return_ordered(struct vr_pool *pool, struct vr_queue_object *queue,
                            struct vr_block *block);
/* Waits until all that was freed in a deterministic pool is everybody's; VRAM_ERR_TIMEOUT. No lock
   held; order.c. */
vram_status vr_pool_finish(struct vr_pool *pool);
/* All work of the lane's queue is done; for deterministic pools. Under the lock; order.c. */
void vr_pool_forget_lane(struct vr_pool *pool, const struct vr_lane *lane);
/* Makes up for lanes that could not be made. No lock held. */
void vr_pool_repay(struct vr_pool *pool);
/* The next queue by handle that blocks wait for without a lane; 0 behind the last. No lock held. */
struct vr_queue_id vr_pool_owed_behind(struct vr_pool *pool, struct vr_queue_id last);
/* A queue has ended: forgets its lane and what is owed to it. No lock held. */
void vr_pool_forget_queue(struct vr_pool *pool, struct vr_queue_id queue);
/* Takes all blocks out of all caches and the depot into the space. */
void vr_pool_drain(struct vr_pool *pool);
/* Takes all blocks out of the depot, or those of one queue (0: all), into the space, and settles. Under the
   lock. */
void vr_pool_empty_depot(struct vr_pool *pool, struct vr_queue_id only);
/* Drops all caches of the pool, or those of one queue (0: all). */
void vr_pool_drop_caches(struct vr_pool *pool, struct vr_queue_id queue);
/* What a thread that ends does with its caches. */
void vr_pool_thread_ended(struct vr_thread_state *thread);
/* Of memory that is not the device's: a block of it is back, under the lock; gives back to the driver what no
   work uses any more, no lock held; gives everything back when the pool ends; ladder_fallback.c. */
void vr_fallback_freed(struct vr_pool *pool, struct vr_block *block);
/* A block of other memory for a request that asks for it; ladder_fallback.c. No lock held. */
vram_status vr_fallback_supply(struct vr_pool *pool, const struct vr_request *request,
                               struct vr_block **block);
void vr_fallback_reap(struct vr_pool *pool);
void vr_fallback_end(struct vr_pool *pool);
/* Frees what of `deferred` has become free. Under the lock. */
void vr_pool_settle(struct vr_pool *pool);
/* Work that one of `deferred` waits for; false when none does. Under the lock. */
bool vr_pool_deferred(struct vr_pool *pool, struct vr_queue_stamp *stamp);
/* Marks the stamp's queue so that its stamps can pass: the library's own, or any with `ours`. Other
   queues are not marked but asked whether they are idle. No lock held. */
void vr_pool_mark(struct vr_pool *pool, struct vr_queue_stamp stamp, bool ours);
/* Waits until a stamp has passed: VRAM_OK, VRAM_ERR_TIMEOUT, VRAM_ERR_NOT_READY when nobody has marked it, or
   why that cannot be known; 0: looks once. No lock held. */
vram_status vr_pool_await(struct vr_queue_stamp stamp, uint64_t timeout);

/* Lets stamps pass that can: marks what nobody can see the end of yet, asks each pending queue once how
   far it is, and waits for none; drain.c. `idle`: queues that have nothing to do are found out before
   they are marked, which would keep them busy for a moment. False when nothing is pending, or no queue
   could tell. No lock held. */
bool vr_pool_look(struct vr_pool *pool, bool idle);

/* Gives free memory back until at most keep_bytes are held; pool_info.c. No lock held. */
vram_status vr_pool_trim_to(struct vr_pool *pool, uint64_t keep_bytes);
/* The same of what lies in no cache. */
vram_status vr_pool_shrink_to(struct vr_pool *pool, uint64_t keep_bytes);
/* Around giving back what nobody needs at once. False: the driver would wait for kernels to take the pool's memory
   back, and there may be some; it stays for now. Addresses of deterministic pools do not depend on that: their driver
   waits; pool_info.c. */
bool vr_pool_calm_begin(struct vr_pool *pool);
void vr_pool_calm_end(struct vr_pool *pool);
/* With pooling off: gives back what was freed and that no work uses any more; else does nothing. Never
   fails; direct.c. No lock held. */
void vr_pool_flush(struct vr_pool *pool);

/* At the end of a pool: frees kept contents. What is asleep and not gone is released with all else;
   sleep.c. */
void vr_pool_forget_sleep(struct vr_pool *pool);

/* Hangs a child on a pool that the caller has entered; VRAM_ERR_STALE: it ends at this moment. And takes it off,
   if it is there, by the pool's number: the pool may be gone; pool_end.c. */
vram_status vr_pool_child_add(struct vr_pool *pool, struct vr_pool_child *child,
                              const char *operation);
void vr_pool_child_remove(uint64_t handle, struct vr_pool *pool, struct vr_pool_child *child);
/* Gives a new object its handle and the pool its child; what cannot be is freed. */
vram_status vr_pool_child_publish(struct vr_pool *pool, enum vr_kind kind, struct vr_object *object,
                                  void (*destroy)(void *object), struct vr_pool_child *child,
                                  const char *operation, uint64_t *handle);

/* vram_use, which tells the point that was noted too; its value is 0 on a queue that is captured; pool_info.c. */
vram_status vr_pool_use(vram_addr addr, vram_queue *queue, const char *operation,
                        vram_point *point);

/* What a pool that is being made needs for its end; pool_end.c. */
void vr_pool_end_init(struct vr_pool *pool);
/* Ends a pool that is published, waiting for its work. Not OK: its memory is kept. */
vram_status vr_pool_end(struct vr_pool *pool);
/* The destructor, also of a half-built pool. */
void vr_pool_free(void *memory);
/* Reserves the first range of a pool that maps memory, with `wanted` bytes for each space; 0: the
   defaults of addresses.c. Its first *small_bytes are for small blocks. */
vram_status vr_addresses_begin(struct vr_pool *pool, uint64_t wanted, uint64_t *small_bytes);
/* Gives the space of that part a further range in which a block of `bytes` fits.
   VRAM_ERR_FRAGMENTED, with no error recorded: there are no such addresses. No lock held. */
vram_status vr_addresses_add(struct vr_pool *pool, enum vr_pool_part part, uint64_t bytes);
/* Whether parts of the ranges may be asleep: vr_record.sleeps. Under the lock. */
void vr_addresses_note_sleep(struct vr_pool *pool, bool sleeps);
/* Returns all ranges in which nothing is mapped to the driver. */
void vr_addresses_end(struct vr_pool *pool);

/* Refuses options that make no sense; gives a new pool its range and its spaces. What it has when that
   fails is its destructor's; foundation.c. */
vram_status vr_pool_check_options(const struct vram_pool_options *options);
vram_status vr_pool_build(struct vr_pool *pool, const struct vram_pool_options *options);

/* Enters pool and queue for a slow path; the queue may be NULL; foundation.c. */
vram_status vr_pool_enter(vram_pool *handle, vram_queue *queue_handle, const char *operation,
                          struct vr_pool **pool, struct vr_queue_object **queue);
void vr_pool_leave(struct vr_pool *pool, struct vr_queue_object *queue);

/* The thread's cache for this pool and queue, made if need be, with the thread inside it; NULL where there
   can be none: the pool then counts for itself. No lock held; pool.c. */
struct vr_cache *vr_pool_cache_enter(struct vr_pool *pool, struct vr_queue_object *queue);

/* Memory of other kinds than the pool's own, as a block of the pool that vram_free and the pool's end give
   back in queue order: of the first of `other` (vram_fallback) that can be had. `flags`: VR_REQUEST_WISHED,
   _MOVED, or 0 for a fallback; of `options` tag, name and elements count. VRAM_ERR_UNSUPPORTED: the device
   has none of them; ladder_fallback.c. */
vram_status vr_pool_alloc_other(vram_pool *handle, uint64_t size, vram_queue *queue,
                                const struct vram_alloc_options *options, uint32_t other,
                                uint32_t flags, vram_addr *addr);
/* Reads the wishes of a request; pool_info.c. */
vram_status vr_request_read(const struct vr_pool *pool, const vram_alloc_options *options,
                            struct vr_request *request);
/* Serves a request of who has entered pool and queue: the tag's quotas, memory, hand-out; pool.c. */
vram_status vr_pool_alloc_request(struct vr_pool *pool, struct vr_request *request,
                                  vram_addr *addr);

/* A block for vram_alloc by the shortest way, for a thread whose cache of this pool and queue has none; false:
   the long way has to be gone. No lock held; shortcut.c. */
bool vr_pool_alloc_shortcut(vram_pool *handle, uint64_t size, uint64_t bytes, vram_queue *queue,
                            vram_addr *addr);
/* Makes a block the program's without a cache, which would have counted it. */
void vr_pool_hand_out(struct vr_pool *pool, const struct vr_request *request,
                      struct vr_block *block);

/* The slow halves of the public calls; pool.c. */
vram_status vr_pool_alloc_slow(vram_pool *handle, uint64_t size, vram_queue *queue,
                               const vram_alloc_options *options, vram_addr *addr);

#endif
