/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h: one block of a pool, and the rules by which threads pass it on without locks.
 *
 * A block is a range of the pool's addresses. It is in exactly one of these places:
 *
 *      space (free)  --alloc-->  LIVE, owned by the program  --free-->  thread cache
 *           ^                          ^      |                              |
 *           |                          +------+-----------<-- hit -----------+
 *           +------ drained <---- central cache <------ overflow ------------+
 *
 *  (1) The thread that changes `state` from LIVE to CACHED by compare-and-swap owns the block: of
 *      two concurrent frees of one address, one wins.
 *  (2) pool, addr and bytes change only while the block is FREE, under the pool's lock. resize.c
 *      also changes bytes of a live block: it makes it CACHED under that lock and gives it a new
 *      generation. A reader without a lock may read any block at any time (type-stable memory, for
 *      all pools) and must check pool, addr and state. Only stores of LIVE and OWNED have release
 *      order: a reader that finds FREE or CACHED gives up.
 *  (3) stamp is the point after which no work uses the memory, in the space's queue numbers; freed
 *      is that point while the block is in no space. The owner writes it before it puts the block
 *      where other threads find it.
 *  (4) A block gets a new generation, part of its state, each time it leaves the space. A thread
 *      that saw it LIVE, checked pool and address, and then changes exactly that state by (1) has
 *      the block that it checked, not a later use of the same record.
 *  (5) A queue may be handed memory that earlier work of the same queue still uses, and a pool with
 *      safety modes fills a new block on its queue. `home` names that queue while such work may be
 *      unfinished: a block that is then freed on another queue, or on none, is free only when both
 *      queues have completed their work.
 *  (6) A live block with a tag has a flag set in `home`, which then equals no queue: the fast path
 *      of a free rejects it without reading the tag. A free clears the flag first.
 *  (7) A live block of a library object (a buffer, a scope, a batch) is OWNED, not LIVE: a free by
 *      the program does not find it. The object makes it LIVE before it frees it. Both changes are
 *      compare-and-swaps of `state`, so a free at the same moment has the block or has not.
 */
#ifndef VR_BLOCK_H
#define VR_BLOCK_H

#include "base/atomic.h"
#include "base/list.h"
#include "vram/queue.h"

struct vr_record;

enum vr_block_state {
    VR_BLOCK_FREE = 0,   /* in the space */
    VR_BLOCK_LIVE = 1,   /* allocated by the program */
    VR_BLOCK_CACHED = 2, /* in a thread cache or central cache */
    VR_BLOCK_OWNED = 3,  /* as LIVE, but a library object's: see (7) */
    VR_BLOCK_STATES =
        3 /* mask: the bits above it are the generation of a block that is not FREE; see (4) */
};

/* Of LIVE and OWNED alone. */
#define VR_BLOCK_IS_LIVE(state) ((state)&VR_BLOCK_LIVE)

enum {
    VR_HOME_TAGGED = 0x80
}; /* in `home`; the low byte of a handle is its kind, and less; see (6) */

/* A queue, by the number of its handle, which is never reused; 0: none. A separate type, because
   spaces know queues by other numbers: see vr_stamp. */
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

/* The same inside a space. `queue` is the number that the pool gave the queue, which may differ
   from its handle: stamp.c converts. */
struct vr_stamp {
    uint64_t queue;
    uint64_t value;
};

/* What a record stands for in a chain of spans (span.h); private to the space. */
enum vr_span_kind {
    VR_SPAN_NONE = 0,     /* a record in stock */
    VR_SPAN_BLOCK = 1,    /* allocated */
    VR_SPAN_HOLE = 2,     /* free, with memory behind it */
    VR_SPAN_VOID = 3,     /* addresses only */
    VR_SPAN_CLAIM = 4,    /* part of an open plan, or lost to one that failed */
    VR_SPAN_STALE = 5,    /* old place of a moved piece, mapped until work is complete */
    VR_SPAN_RESERVE = 6,  /* addresses only, kept for the block in front; address_reserve.c */
    VR_SPAN_FALLBACK = 7, /* in no chain: a fallback to other memory; other_memory.c */
    VR_SPAN_CHOSEN = 8    /* the same, of a kind that the caller chose */
};

struct vr_tag;

struct vr_span {
    uint8_t kind, was;               /* enum vr_span_kind; what a claim was before */
    bool lost;                       /* a claim that no plan will end */
    struct vr_block *before, *after; /* neighbours by address */
    struct vr_block *left, *right;   /* free: in its bin; one cache line with the next two */
    uint64_t by_queue, by_bytes;     /* sort key in its bin; size_bins.h */
    struct vr_link age; /* in the list of pending or idle holes, or of stale mappings */
    union {
        struct vr_piece *segment; /* the segment around it, or a stale mapping's piece; else NULL */
        struct vr_record *record; /* FALLBACK, CHOSEN: of its memory in the address map */
    };
};

/*
 * The fields that a cache hit writes share one cache line per block, so that threads with
 * neighbouring blocks do not contend. "Owner": written by the owner of the block, see (1). "Lock":
 * under the pool's lock.
 */
struct vr_block {
    _Alignas(64) void *free_link; /* private to vr_stable */
    vr_atomic_u32 state;          /* enum vr_block_state, and the generation */
    vr_atomic_bool held;          /* not cacheable: see vr_block_note_held; lock-free */
    vr_atomic_u64 addr;           /* first address */
    vr_atomic_u64 bytes;          /* after rounding */
    vr_atomic_u64 pool;           /* handle of its pool */
    vr_atomic_u64 requested;      /* bytes as requested; owner */
    _Atomic(struct vr_tag *) tag; /* NULL: none; owner */
    struct vr_queue_id home;      /* queue with earlier work on it; 0: none; owner; see (5), (6) */

    struct vr_block *next;        /* in a list of cached blocks */
    struct vr_uses *uses;         /* other queues that use it; usually NULL; lock */
    uint32_t pins;                /* vram_pin, and exports; lock */
    uint32_t exports;             /* of `pins`, those of src/share: sleep.h (6); lock */
    uint32_t generation;          /* the last one, shifted as in `state`; lock */
    bool asleep;                  /* a piece under it is asleep: sleep.h (2); lock */
    bool sealed;                  /* a piece under it is sealed: sleep.h (5); lock */
    bool growing;                 /* memory is being mapped behind it: resize.c; lock */
    bool stateless;               /* deferred, on a queue without a queue state; lock */
    uint8_t part;                 /* vr_pool_part: its space; lock */
    _Atomic(uint8_t) zone;        /* log2 of the front zone, guard.h (2); 0: none; owner */
    vr_atomic_u32 record;         /* number of its tracking record while live; 0: none; owner */
    vr_atomic_u32 traced_by;      /* thread whose quick event its allocation is; 0: none; owner */
    struct vr_stamp stamp;        /* free, in the space; lock */
    struct vr_queue_stamp freed;  /* deferred, or of no space and freed: see (3); lock */
    struct vr_queue_stamp before; /* deferred: the same for `home`, see (5); lock */
    struct vr_span span;          /* private to the space; lock */
};

/* Whether its memory is not of the device. Under the pool's lock. */
static inline bool vr_block_is_other(const struct vr_block *block) {
    return block->span.kind >= VR_SPAN_FALLBACK;
}

/* Whether it may not leave its place now, so that a free is deferred. Under the pool's lock. */
static inline bool vr_block_stays(const struct vr_block *block) {
    return block->asleep || block->sealed || block->growing;
}

/* To be called after a change of pins, uses or vr_block_stays. Under the pool's lock. */
static inline void vr_block_note_held(struct vr_block *block) {
    vr_store(&block->held,
             block->pins || block->uses || vr_block_stays(block) || vr_block_is_other(block),
             VR_RELAXED);
}

static inline bool vr_block_is_live(const struct vr_block *block) {
    return VR_BLOCK_IS_LIVE(vr_load(&block->state, VR_ACQUIRE));
}

/* Whether a thread or cache owns it, see (1); whether it is in the space. For asserts. */
static inline bool vr_block_is_cached(const struct vr_block *block) {
    return (vr_load(&block->state, VR_RELAXED) & VR_BLOCK_STATES) == VR_BLOCK_CACHED;
}

static inline bool vr_block_is_free(const struct vr_block *block) {
    return vr_load(&block->state, VR_RELAXED) == VR_BLOCK_FREE;
}

#endif
