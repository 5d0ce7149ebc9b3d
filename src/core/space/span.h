/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h: the state of a space, and its spans: every address belongs to exactly one.
 *
 *     +-------+------+---------------+-------+------+-------+------------- - -
 *     | BLOCK | HOLE |     VOID      | CLAIM | HOLE | GHOST |    VOID
 *     +-------+------+---------------+-------+------+-------+------------- - -
 *      out     free,  addresses only  an open free   mapped,
 *              mapped                 plan's         but the memory is another's
 *
 * Each reserved range is one chain of spans, and so is each segment: no block, hole or window
 * reaches from one into another.
 *
 *  (1) Holes are mapped and accessible throughout; voids are whole granules with nothing mapped.
 *  (2) Two neighbouring holes differ in their queues, and neither is settled, except in
 *      deterministic mode; no two voids are neighbours.
 *  (3) A hole with stamp.queue 0 is settled: no work can touch it. Settled holes that may
 *      hold a whole piece are in the list `idle`, longest idle first; those not settled are in
 *      `pending`, oldest first.
 *  (4) Free spans, and only they, are on size bins, by queue, size and address; voids under
 *      VR_QUEUE_VOID.
 *  (5) A claim belongs to one open plan, hides what sleeps (sleep.h), or is lost for ever.
 *  (6) a stale mapping is one place of one piece that is in use elsewhere: work that its queue was
 *      given before its stamp may still reach it. It is unmapped, and a void, when that has passed.
 *  (7) The record of the lowest span of a chain stays the same as long as the chain: merging keeps
 *      the lower record, cutting leaves it to the lower part.
 *  (8) a reserve is whole granules of addresses with nothing mapped, in no bin, right behind its
 *      block or behind the claims of a plan that makes or grows it. It is a void again when the
 *      block is freed, or when addresses run out.
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
    VR_RUNS_QUEUES = 8 /* queues whose runs are told apart */
};

/* Where free spans are found by size. */
enum {
    VR_BINS_VOIDS,
    VR_BINS_SETTLED,
    VR_BINS_PENDING, /* the first of several, by a hash of the queue */
    VR_BINS_QUEUES = 8,
    VR_SHELVES = VR_BINS_PENDING + VR_BINS_QUEUES
};

#define VR_SPAN_UNIT  UINT64_C(512)
#define VR_QUEUE_VOID UINT64_MAX /* stands for the queue of voids on the size bins */

/* Blocks that come one after another on a queue, with one size: see fit.c. */
struct vr_run {
    uint64_t queue;
    uint64_t bytes;              /* of each; 0: no run yet */
    uint32_t length;             /* so far */
    uint32_t expected;           /* how long it is likely to become */
    uint32_t past[VR_RUNS_PAST]; /* lengths of the runs before */
    uint32_t count;              /* of runs, for the place in past */
    uint64_t end;                /* of the window foreseen for it; 0: none */
    struct vr_block *last;       /* the latest of it, while it is out */
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
    struct vr_size_bins size_bins[VR_SHELVES]; /* free spans by size, see (4) */
    struct vr_list pending, idle;              /* holes, see (3) */
    struct vr_list stale_mappings;             /* see (6); oldest first */
    struct vr_list pieces, spares;             /* all; those mapped nowhere */
    struct vr_block *stock;                    /* records at hand, through span.after */
    uint32_t stock_count;
    struct vr_run runs[VR_RUNS_QUEUES]; /* by a hash of the queue */
    bool high_turn;                     /* the next large block goes to the high end of its hole */
    int64_t budget_ns;                  /* for moving; may fall below 0 */
    int64_t extra_budget_ns;            /* for moving when growth would be far too much */
    uint64_t clock_ns;                  /* when the two were filled last */
    uint64_t prices[VR_STEP_RELEASE + 1]; /* ns a handle, as measured lately */
    uint64_t planned_bytes;               /* to be created by open plans */
    uint64_t memory_bytes;                /* there is; vr_space_limit_set */
    uint64_t owed_bytes;  /* held past the aim beside free memory that was not worth moving */
    bool tight;           /* most of the memory there is is needed: aging.h (3) */
    uint32_t aging;       /* how much it is worn: aging.h */
    uint64_t most_blocks; /* that were ever out, as aging.c has seen it */
    uint32_t open_plans;
    bool resting;      /* hands nothing out: sleep.h */
    uint64_t reserves; /* spans of that kind */
    uint64_t records;  /* taken from the stable store */
    struct vr_space_stats stats;
#if VR_SPACE_CHECKS
    uint64_t check_due; /* operations until the next validation */
#endif
};

/* An operation has ended: validates the space if its turn has come. A violation is printed, and
   meets an assert. space_check.c */
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

/* Whether it is free: on a set of size bins, or about to be; see (4). */
static inline bool vr_span_is_free(const struct vr_block *span) {
    return vr_span_is(span, VR_SPAN_HOLE) || vr_span_is(span, VR_SPAN_VOID);
}

/* Whether nothing is mapped there, or nothing will be once the plan is done. */
static inline bool vr_span_is_bare(const struct vr_block *span) {
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
/* The spans of all ranges: the first of all, and the next by address or, behind the last of a
   range, the first of the next range. NULL: none. */
struct vr_block *vr_span_first(const struct vr_space *space);
struct vr_block *vr_span_next(const struct vr_space *space, const struct vr_block *span);

/* Back into the stock. */
void vr_span_drop(struct vr_space *space, struct vr_block *span);
/* All records in stock back to the store; those of the chains are dropped before. */
void vr_span_stock_free(struct vr_space *space);

/* ------------------------------------------------------- neither is indexed */

/* Cuts the span in two at `addr`, strictly inside; returns the upper part. One record from
   stock. */
struct vr_block *vr_span_cut(struct vr_space *space, struct vr_block *span, uint64_t addr);

/* The span behind `span` becomes part of it. */
void vr_span_absorb(struct vr_space *space, struct vr_block *span);

#endif
