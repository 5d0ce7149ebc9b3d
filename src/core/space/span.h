/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h: the state of a space, and its spans: every address belongs to exactly one span.
 *
 *     +-------+--------+----------------+--------+------+--------+------------- - -
 *     | BLOCK |  HOLE  |      VOID      | CLAIM  | HOLE | STALE  |    VOID
 *     +-------+--------+----------------+--------+------+--------+------------- - -
 *      in use  free,    addresses only   of an           mapped, but the memory
 *              mapped                    open plan       now serves another place
 *
 * Each reserved range is one chain of spans, and so is each segment. No block, hole or window
 * crosses from one chain into another.
 *
 *  (1) Holes are mapped and accessible throughout; voids are whole granules with nothing mapped.
 *  (2) Two neighbouring holes have different queues, and neither is settled; in deterministic mode
 *      one may be. No two voids are neighbours.
 *  (3) A hole with stamp.queue 0 is settled: no work can use it. Settled holes that may contain a
 *      whole piece are in the list `idle`, longest idle first; holes that are not settled are in
 *      `pending`, oldest first.
 *  (4) Free spans, and no others, are in the size bins, by queue, size and address; voids under
 *      VR_QUEUE_VOID.
 *  (5) A claim belongs to one open plan, hides memory that is asleep or sealed (sleep.h), or is
 *      lost for ever.
 *  (6) A stale mapping is an old place of a piece that is now mapped elsewhere: work submitted
 *      before its stamp may still use it there. When the stamp has passed it is unmapped and
 *      becomes a void.
 *  (7) The record of the lowest span of a chain stays the same for the life of the chain: merging
 *      keeps the lower record, cutting leaves it to the lower part.
 *  (8) A reserve is whole granules of addresses with nothing mapped, in no bin, directly behind its
 *      block or behind the claims of a plan that makes or grows the block. It becomes a void when
 *      the block is freed or when addresses run out.
 */
#ifndef VR_SPAN_H
#define VR_SPAN_H

#include "core/space/granule_map.h"
#include "core/space/size_bins.h"
#include "core/space/space.h"

/*
 * How often a debug build validates the whole space after a commit, an abort or a free
 * (space_check.c): 0 never, 1 once in as many operations as the space has spans, so that the cost
 * of each stays constant, 2 after every operation. Release builds never do.
 */
#ifdef NDEBUG
#undef VR_SPACE_CHECKS
#define VR_SPACE_CHECKS 0
#elif !defined VR_SPACE_CHECKS
#define VR_SPACE_CHECKS 1
#endif

enum {
    VR_RUNS_PAST = 4,  /* past runs that are remembered */
    VR_RUNS_QUEUES = 8 /* slots for the runs of queues, by a hash */
};

/* Where free spans are found by size. */
enum {
    VR_BINS_VOIDS,
    VR_BINS_SETTLED,
    VR_BINS_PENDING, /* the first of several, by a hash of the queue */
    VR_BINS_QUEUES = 8,
    VR_BINS_SETS = VR_BINS_PENDING + VR_BINS_QUEUES
};

#define VR_SPAN_UNIT  UINT64_C(512)
#define VR_QUEUE_VOID UINT64_MAX /* stands for the queue of voids on the size bins */

/* Consecutive allocations of one size on one queue: see fit.c. */
struct vr_run {
    uint64_t queue;
    uint64_t bytes;              /* of each; 0: no run yet */
    uint32_t length;             /* blocks so far */
    uint32_t expected;           /* blocks expected in all */
    uint32_t past[VR_RUNS_PAST]; /* lengths of earlier runs */
    uint32_t count;              /* of runs, for the index in past */
    uint64_t end;                /* of the window planned for it; 0: none */
    struct vr_block *last;       /* the latest block, until it is freed */
};

/* Reserved addresses. */
struct vr_range {
    uint64_t base, bytes;
    struct vr_block *first; /* lowest span */
};

struct vr_space {
    struct vr_space_config config;
    struct vr_granule_map granule_map; /* VMM */
    struct vr_range *ranges;           /* VMM: in the order in which they were added */
    uint32_t range_count;
    struct vr_size_bins size_bins[VR_BINS_SETS]; /* free spans by size, see (4) */
    struct vr_list pending, idle;                /* holes, see (3) */
    struct vr_list stale_mappings;               /* see (6); oldest first */
    struct vr_list pieces, spares;               /* all; those mapped nowhere */
    struct vr_block *stock;                      /* unused records, through span.after */
    uint32_t stock_count;
    struct vr_run runs[VR_RUNS_QUEUES]; /* by a hash of the queue */
    bool next_at_high_end;              /* the next large block goes to the high end of its hole */
    int64_t budget_ns;                  /* time for moving memory; may fall below 0 */
    int64_t extra_budget_ns;            /* the same, only for very large requests: supply.c */
    uint64_t clock_ns;                  /* when the two were last increased */
    uint64_t prices[VR_STEP_RELEASE + 1]; /* ns per handle, running means */
    uint64_t planned_bytes;               /* to be created by open plans */
    uint64_t memory_bytes;                /* available in all; vr_space_limit_set */
    uint64_t kept_bytes;                  /* free memory that may be kept; vr_space_limit_set */
    uint64_t surplus_bytes; /* held past the aim beside free memory not worth moving: extension.c */
    bool tight;             /* most of the available memory is needed: aging.h (3) */
    bool rebuilds;          /* coarse pieces can be rebuilt: aging.h (8) */
    bool stays;             /* no piece is mapped at a second place: network_card.c */
    bool aged;              /* aging.h */
    bool renewal_due;       /* free memory is released when little is in use: aging.h (7) */
    uint32_t renewal_wait;  /* requests until stamps are examined for a renewal again */
    uint64_t excess_bytes; /* held beyond the need when the space became aged; the slack at least */
    uint64_t renewed_bytes; /* released by a renewal and not created again yet */
    uint64_t trimmed_bytes; /* released by trims and not created again yet: supply.c */
    uint64_t most_blocks;   /* highest number of blocks that aging.c has seen */
    uint32_t open_plans;
    uint64_t changes;  /* vr_space_changes */
    bool suspended;    /* allocates nothing: sleep.h */
    uint64_t reserves; /* spans of that kind */
    uint64_t records;  /* taken from the stable store */
    struct vr_space_stats stats;
#if VR_SPACE_CHECKS
    uint64_t check_due; /* operations until the next validation */
#endif
};

/* Called at the end of an operation: validates the space if a check is due. A violation is printed
   and fails an assert. space_check.c */
#if VR_SPACE_CHECKS
void vr_space_validate(struct vr_space *space);
#else
static inline void vr_space_validate(struct vr_space *space) {
    (void)space;
}
#endif

static inline uint64_t vr_span_addr(const struct vr_block *span) {
    return vr_load(&span->addr, VR_RELAXED);
}

static inline uint64_t vr_span_bytes(const struct vr_block *span) {
    return vr_load(&span->bytes, VR_RELAXED);
}

static inline uint64_t vr_span_end(const struct vr_block *span) {
    return vr_span_addr(span) + vr_span_bytes(span);
}

static inline bool vr_span_is(const struct vr_block *span, enum vr_span_kind kind) {
    return span && span->span.kind == kind;
}

/* Whether it is free: in a size bin, or about to be; see (4). */
static inline bool vr_span_is_free(const struct vr_block *span) {
    return vr_span_is(span, VR_SPAN_HOLE) || vr_span_is(span, VR_SPAN_VOID);
}

/* Whether nothing is mapped there, or nothing will be once the plan has ended. */
static inline bool vr_span_is_unmapped(const struct vr_block *span) {
    return vr_span_is(span, VR_SPAN_VOID) || vr_span_is(span, VR_SPAN_CLAIM) ||
           vr_span_is(span, VR_SPAN_RESERVE);
}

static inline uint64_t vr_granule_down(const struct vr_space *space, uint64_t addr) {
    return addr & ~(space->config.granule - 1);
}

static inline uint64_t vr_granule_up(const struct vr_space *space, uint64_t addr) {
    return vr_granule_down(space, addr + space->config.granule - 1);
}

/* Whether a span is whole granules, as voids and reserves are: (1), (8). */
static inline bool vr_span_is_whole(const struct vr_space *space, const struct vr_block *span) {
    return ((vr_span_addr(span) | vr_span_bytes(span)) & (space->config.granule - 1)) == 0;
}

/* ------------------------------------------------------------------ records */

/* Makes sure that `count` records are in stock. */
vram_status vr_span_stock(struct vr_space *space, uint32_t count);

/* A record from the stock, which is not empty, for [addr, addr + bytes); in no chain. */
struct vr_block *vr_span_new(struct vr_space *space, uint64_t addr, uint64_t bytes);
/* The spans of all ranges: the first of all, and the next by address or, after the last of a
   range, the first of the next range. NULL: none. */
struct vr_block *vr_span_first(const struct vr_space *space);
struct vr_block *vr_span_next(const struct vr_space *space, const struct vr_block *span);

/* Returns a record to the stock. */
void vr_span_drop(struct vr_space *space, struct vr_block *span);
/* Returns all records in stock to the store; the caller drops those of the chains first. */
void vr_span_stock_free(struct vr_space *space);

/* ------------------------------------- on spans that are in no bin and no list */

/* Cuts the span in two at `addr`, strictly inside; returns the upper part. Uses one record from
   stock. */
struct vr_block *vr_span_cut(struct vr_space *space, struct vr_block *span, uint64_t addr);

/* Merges the span behind `span` into it. */
void vr_span_absorb(struct vr_space *space, struct vr_block *span);

#endif
