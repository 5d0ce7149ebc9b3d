/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h: one block of a pool, and the few rules that let it be handed around without locks.
 *
 * A block is a piece of the pool's addresses. It is in exactly one of these places:
 *
 *      space (free)  --take-->  LIVE in the program's hands  --free-->  cache of a thread
 *           ^                          ^      |                              |
 *           |                          +------+-----------<-- hit -----------+
 *           +------ drained <---- central cache <------ overflow ---------------------+
 *
 *  (1) Whoever moves `state` from LIVE to CACHED by compare-and-swap owns the block: of two frees
 *      of one address one wins, from whatever threads they come.
 *  (2) pool, addr and bytes change only while the block is FREE, under the pool's lock; bytes of a
 *      live one also while resize.c has made it CACHED under that lock, and then it has another
 *      turn. A reader without a lock may look at any block at any time (type-stable memory, for all
 *      pools) and must check pool, addr and state.
 *  (3) stamp tells when the memory is free of work, in the words of its space; freed does so while
 *      the block is in none. It is written by the owner before the block goes to a place where
 *      others find it.
 *  (4) Every time a block leaves the space it has another generation, which is part of its state.
 *      So who has seen it LIVE, then looked at pool and address, and moves it from exactly that
 *      state by (1), has the block that was looked at, and not what a record used again stands for
 *      meanwhile.
 *  (5) A queue gets memory back at once that work of its own may still touch. `home` names that
 *      queue for as long as this may be: a block that is then freed on another queue, or on none,
 *      is not free before both have come that far.
 *  (6) A live block that has a tag says so in its home, which then is no queue's: the quick way of
 *      a free passes it by without a look at the tag. Whoever frees it takes that away before
 *      anything else.
 *  (7) A live block that an object of the library has (a buffer, a scope, a batch) says so in its
 *      pool, which then is no pool's: a free by the program does not find it. The object takes that
 *      away before it frees.
 */
#ifndef VR_BLOCK_H
#define VR_BLOCK_H

#include "base/atomic.h"
#include "base/list.h"
#include "vram/queue.h"

struct vr_record;

enum vr_block_state {
    VR_BLOCK_FREE = 0,   /* in the space */
    VR_BLOCK_LIVE = 1,   /* the program's */
    VR_BLOCK_CACHED = 2, /* in a thread cache or central cache */
    VR_BLOCK_STATES =
        3 /* mask: the bits above it are the generation of a block that is not FREE; see (4) */
};

enum {
    VR_HOME_TAGGED = 0x80
}; /* in `home`; the low byte of a handle is its kind, and less; see (6) */

enum { VR_POOL_OWNED = 0x80 }; /* in `pool`, as VR_HOME_TAGGED is in `home`; see (7) */

/* A queue, by the number of its handle, which is never used twice; 0: none. A type of its own,
   since spaces know queues by other numbers: see vr_stamp. */
struct vr_queue_id {
    uint64_t handle;
};

#define VR_NO_QUEUE ((struct vr_queue_id){0})

static inline bool vr_queue_id_same(struct vr_queue_id a, struct vr_queue_id b) {
    return a.handle == b.handle;
}

static inline struct vr_queue_id vr_queue_id_of(const vram_queue *queue) {
    return (struct vr_queue_id){(uintptr_t)queue};
}

static inline vram_queue *vr_queue_id_handle(struct vr_queue_id id) {
    return (vram_queue *)(uintptr_t)id.handle;
}

/* The point until which work may use memory: `value` of a queue. Queue 0: no work. */
struct vr_queue_stamp {
    struct vr_queue_id queue;
    uint64_t value;
};

/* The same inside a space. `queue` is the number that the space's owner gave the queue, which may
   differ from its handle: stamp.c converts. */
struct vr_stamp {
    uint64_t queue;
    uint64_t value;
};

/* What a record stands for in the space's order of addresses (span.h); the space's own. */
enum vr_span_kind {
    VR_SPAN_NONE = 0,  /* a record in stock */
    VR_SPAN_BLOCK = 1, /* handed out */
    VR_SPAN_HOLE = 2,  /* free, with memory behind it */
    VR_SPAN_VOID = 3,  /* addresses only */
    VR_SPAN_CLAIM = 4, /* part of an open plan, or lost to one that failed */
    VR_SPAN_STALE = 5, /* where a piece was mapped, and still is until work has ended */
    VR_SPAN_RESERVE =
        6,              /* addresses only, kept for the block in front to grow; address_reserve.c */
    VR_SPAN_FALLEN = 7, /* in no chain: other memory than the device's; other_memory.c */
    VR_SPAN_WISHED = 8  /* the same, of a kind that was asked for */
};

struct vr_tag;

struct vr_span {
    uint8_t kind, was;               /* enum vr_span_kind; what a claim was before */
    bool lost;                       /* a claim that no plan will give back */
    struct vr_block *before, *after; /* neighbours by address */
    struct vr_block *left, *right;   /* free: in its bin; with the next in one line */
    uint64_t by_queue, by_bytes;     /* what it is found by; size_bins.h */
    struct vr_link age; /* in the list of pending or idle holes, or of stale mappings */
    union {
        struct vr_piece
            *segment; /* the segment it lies in, or a stale mapping's piece; else NULL */
        struct vr_record *record; /* FALLEN, WISHED: of its memory in the address map */
    };
};

/* What a hit writes lies in a line of its own, so that threads with neighbouring blocks do not
   meet. */
struct vr_block {
    _Alignas(64) void *free_link; /* vr_stable's */
    vr_atomic_u32 state;          /* enum vr_block_state, and the generation */
    vr_atomic_bool
        held; /* not for a cache: pins, uses, asleep, growing or fallen; read without the lock */
    vr_atomic_u64 addr;           /* first address */
    vr_atomic_u64 bytes;          /* after rounding */
    vr_atomic_u64 pool;           /* handle of the pool it is a block of */
    vr_atomic_u64 requested;      /* as asked for; the owner's */
    _Atomic(struct vr_tag *) tag; /* NULL: none; the owner's */
    struct vr_queue_id
        home; /* queue whose work may touch it from before; 0: none; the owner's; see (5) */

    struct vr_block *next; /* in a list of cached blocks: central cache, batches on the way */
    struct vr_uses *uses;  /* other queues that use it; NULL as a rule; under the pool's lock */
    uint32_t pins;         /* vram_pin; under the pool's lock */
    uint32_t
        generation; /* its last, in the place of the generation in `state`; under the pool's lock */
    bool asleep;    /* a piece under it is: sleep.h (2); pool's lock, as the next two */
    bool growing;   /* memory is being put behind it: resize.c */
    bool owed;      /* deferred, on a queue that no queue state could be made for */
    uint8_t part;   /* vr_pool_part: the space it is of; pool's lock */
    _Atomic(uint8_t) zone; /* log2 of the front zone, guard.h (2); 0: none; the owner's */
    vr_atomic_u32
        record; /* number of its record while it is live; 0: none; pool_tracking.h; the owner's */
    struct vr_stamp stamp;        /* in the space, free; pool's lock, as the next three */
    struct vr_queue_stamp freed;  /* deferred, or of no space and freed: see (3) */
    struct vr_queue_stamp before; /* deferred: the same for what `home` said, in (5) */
    struct vr_span span;          /* the space's, under the pool's lock */
};

/* Whether it is no memory of the device's. Under the pool's lock. */
static inline bool vr_block_is_fallen(const struct vr_block *block) {
    return block->span.kind >= VR_SPAN_FALLEN;
}

/* After a change of its pins or uses, of `asleep` or of `growing`. Under the pool's lock. */
static inline void vr_block_note_held(struct vr_block *block) {
    vr_store(&block->held,
             block->pins || block->uses || block->asleep || block->growing ||
                 vr_block_is_fallen(block),
             VR_RELAXED);
}

static inline bool vr_block_is_live(const struct vr_block *block) {
    return (vr_load(&block->state, VR_ACQUIRE) & VR_BLOCK_STATES) == VR_BLOCK_LIVE;
}

/* Whether it is owned by whoever has it, see (1); whether it is in the space. For asserts. */
static inline bool vr_block_is_cached(const struct vr_block *block) {
    return (vr_load(&block->state, VR_RELAXED) & VR_BLOCK_STATES) == VR_BLOCK_CACHED;
}

static inline bool vr_block_is_free(const struct vr_block *block) {
    return vr_load(&block->state, VR_RELAXED) == VR_BLOCK_FREE;
}

#endif
