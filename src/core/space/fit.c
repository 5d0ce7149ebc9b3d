/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.c: chooses the place of a block.
 *
 * Mapped memory comes first: best fit among the holes of the block's queue and the settled holes.
 * If none is large enough, the block goes to the window with the fewest missing granules. Windows
 * are tried at the largest holes that border on a void, and at the largest void, usually the end of
 * a range.
 *
 * Programs allocate in runs: layer after layer requests the same size, and later all of these
 * blocks are freed. The blocks of a run (siblings) are placed side by side, so that they leave one
 * large hole and not many small ones. The expected length of a run is the shortest of the queue's
 * last runs; the first block goes where all of them fit.
 */
#include "core/space/fit.h"

#include "base/size.h"
#include "core/space/aging.h"

#include <assert.h>

enum {
    CANDIDATES = 16,     /* holes beside a void that are tried for a window */
    SCANNED = 128,       /* holes examined at most to find them */
    STEPS = 64,          /* spans that a window may cover */
    ALIGN_TRIES = 8,     /* holes tried for a wide alignment before bytes + align is searched */
    LARGE_PART = 32,     /* a large block has at least LARGE_BYTES and 1/32 of the peak need */
    GUARD_BLOCKS = 2,    /* block sizes left free in front: see window_guarded */
    RUN_MOST = 64,       /* siblings expected at most, */
    RUN_PART = 16,       /* and at most 1/16 of the peak need in all */
    RUN_GAP = 8,         /* granules mapped ahead at most if a single block fits elsewhere */
    ISOLATED_PART = 16,  /* a block may take an isolated hole if it leaves <= 1/16 of its size */
    ISOLATED_TRIES = 16, /* isolated holes skipped in search of another hole */
    STUCK_PART = 8,      /* a block may leave 1/8 of its size, or STUCK_BYTES, of a piece unused */
    COARSE_TRIES = 16,   /* holes on coarse pieces skipped in search of another hole */
    LOW_TRIES = 32,      /* holes among which the lowest is chosen */
    SEGMENT_PART = 16,   /* an ordinary segment is 1/16 of what is held, */
    KEPT_PART = 8,       /* and at most 1/8 of the free memory that may be kept */
    EXACT_PART = 1000    /* a hole fits exactly if the block leaves <= 1/1000 of its size */
};

#define SMALL_BYTES (16 * VR_MIB)  /* smaller blocks avoid the topmost hole */
#define LARGE_BYTES (256 * VR_MIB) /* see LARGE_PART */
#define STUCK_BYTES (8 * VR_MIB)   /* see STUCK_PART */
#define AHEAD_BYTES (64 * VR_MIB)  /* mapped ahead for siblings at most */

static bool hole_is_usable(const struct vr_block *span, uint64_t queue) {
    return vr_span_is(span, VR_SPAN_HOLE) && (span->stamp.queue == 0 || span->stamp.queue == queue);
}

static uint64_t align_up(uint64_t addr, uint64_t align) {
    return (addr + align - 1) & ~(align - 1);
}

static bool hole_fits(const struct vr_block *hole, uint64_t bytes, uint64_t align) {
    uint64_t lost = align_up(vr_span_addr(hole), align) - vr_span_addr(hole);
    return lost <= vr_span_bytes(hole) && bytes <= vr_span_bytes(hole) - lost;
}

/* ---------------------------------------------------------------- best fit */

static struct vr_block *best_of_queue(const struct vr_space *space, uint64_t queue, uint64_t bytes,
                                      uint64_t align) {
    struct vr_block *hole = vr_hole_least(space, queue, bytes);
    if (align <= VR_SPAN_UNIT) {
        return hole; /* all addresses are aligned so */
    }
    for (int i = 0; hole && i < ALIGN_TRIES && !hole_fits(hole, bytes, align); i++) {
        hole = vr_hole_least(space, queue, vr_span_bytes(hole) + 1);
    }
    if (hole && !hole_fits(hole, bytes, align)) {
        hole = vr_hole_least(space, queue, bytes + align - VR_SPAN_UNIT);
    }
    return hole;
}

/* The smaller of the best hole of the queue and the best settled hole. */
static struct vr_block *smallest_fit(const struct vr_space *space, const struct vr_want *want,
                                     uint64_t bytes) {
    struct vr_block *own = best_of_queue(space, want->queue, bytes, want->align);
    struct vr_block *any = best_of_queue(space, 0, bytes, want->align);
    if (!own || !any) {
        return own ? own : any;
    }
    return vr_span_bytes(any) < vr_span_bytes(own) ? any : own;
}

/* The smallest fitting hole that is larger than `hole`. */
static struct vr_block *next_larger(const struct vr_space *space, const struct vr_want *want,
                                    const struct vr_block *hole) {
    return smallest_fit(space, want, vr_span_bytes(hole) + VR_SPAN_UNIT);
}

/* Whether the block would leave almost nothing of the hole. */
static bool is_exact(const struct vr_block *hole, uint64_t bytes) {
    assert(vr_span_bytes(hole) >= bytes);
    return vr_span_bytes(hole) - bytes <= bytes / EXACT_PART;
}

/* Whether only void lies above the hole. */
static bool is_topmost(const struct vr_block *hole) {
    const struct vr_block *next = hole->span.after;
    return vr_span_is(next, VR_SPAN_VOID) && !next->span.after;
}

/*
 * In an aged space (aging.h) a block avoids an isolated hole that is too large for it, if another
 * hole fits: the rest of the last handle that the block uses would be stuck, isolated, until the
 * block is freed. The handles of the avoided hole can move to the next window instead.
 */
static struct vr_block *avoid_isolated(const struct vr_space *space, const struct vr_want *want,
                                       struct vr_block *hole, uint64_t bytes) {
    struct vr_block *other = hole;
    if (vr_hole_unmapped_sides(hole) < 2 || vr_span_bytes(hole) - bytes <= bytes / ISOLATED_PART) {
        return hole;
    }
    for (int left = ISOLATED_TRIES; other && vr_hole_unmapped_sides(other) == 2; left--) {
        other = left ? next_larger(space, want, other) : NULL;
    }
    return other ? other : hole;
}

/* Bytes that the block, at the low end of the hole, would leave unused of the piece it ends in. */
static uint64_t left_of_piece(const struct vr_space *space, const struct vr_want *want,
                              const struct vr_block *hole, uint64_t bytes) {
    uint64_t end = align_up(vr_span_addr(hole), want->align) + bytes;
    const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, end - 1);
    assert(piece); /* span.h (1) */
    return piece->addr + piece->bytes - end;
}

/* In the same way a block avoids pieces so coarse that it would leave more of one unused than
   STUCK_PART and STUCK_BYTES allow. */
static struct vr_block *avoid_coarse(const struct vr_space *space, const struct vr_want *want,
                                     struct vr_block *hole, uint64_t bytes) {
    uint64_t most = vr_larger(bytes / STUCK_PART, STUCK_BYTES);
    struct vr_block *other = hole;
    int left = COARSE_TRIES;
    while (other && left > 0 && left_of_piece(space, want, other, bytes) > most) {
        other = next_larger(space, want, other);
        left--;
    }
    return other && left > 0 ? other : hole;
}

/* The lowest of the next larger holes. Blocks allocated while little is in use tend to be
   long-lived; this way they lie together. */
static struct vr_block *lowest_fit(const struct vr_space *space, const struct vr_want *want,
                                   struct vr_block *hole) {
    struct vr_block *lowest = hole;
    for (int left = LOW_TRIES; hole && left > 0; left--) {
        lowest = vr_span_addr(hole) < vr_span_addr(lowest) ? hole : lowest;
        hole = next_larger(space, want, hole);
    }
    return lowest;
}

/* The hole for a block in an aged space, given the smallest one that fits. */
static struct vr_block *aged_fit(const struct vr_space *space, const struct vr_want *want,
                                 struct vr_block *hole, uint64_t bytes) {
    hole = avoid_isolated(space, want, hole, bytes);
    if (is_exact(hole, bytes) || bytes >= LARGE_BYTES) {
        return hole;
    }
    return vr_aging_is_idle(space) ? lowest_fit(space, want, hole)
                                   : avoid_coarse(space, want, hole, bytes);
}

/* The smallest hole that fits. But the topmost hole can be extended upwards without moving
   anything: it is kept for large blocks while small ones fit elsewhere. */
static struct vr_block *best_fit(const struct vr_space *space, const struct vr_want *want,
                                 uint64_t bytes) {
    struct vr_block *hole = smallest_fit(space, want, bytes);
    if (hole && space->aged) {
        hole = aged_fit(space, want, hole, bytes);
    }
    if (!hole || bytes >= SMALL_BYTES || !is_topmost(hole) || is_exact(hole, bytes)) {
        return hole;
    }
    struct vr_block *other = next_larger(space, want, hole);
    return other ? other : hole;
}

static bool is_large(const struct vr_space *space, uint64_t bytes) {
    return bytes >= LARGE_BYTES && bytes >= space->stats.peak_need_bytes / LARGE_PART;
}

/*
 * Places the block at the low end of the hole. Large blocks alternate between the low and the high
 * end: if each of them is freed when the next but one is allocated, the rest of the hole then stays
 * contiguous.
 */
static struct vr_placement place_in_hole(const struct vr_space *space, struct vr_block *hole,
                                         const struct vr_want *want) {
    struct vr_placement place = {.hole = hole};
    if (hole && want->bytes >= LARGE_BYTES && space->next_at_high_end) {
        place.addr = (vr_span_end(hole) - want->bytes) & ~(want->align - 1);
    } else if (hole) {
        place.addr = align_up(vr_span_addr(hole), want->align);
    }
    assert(!hole || vr_inside(place.addr, want->bytes, vr_span_addr(hole), vr_span_bytes(hole)));
    return place;
}

/* ----------------------------------------------------------------- windows */

/* Granules without memory in [addr, addr + bytes); UINT64_MAX if the queue may not use all of it.
   `span` contains addr. */
static uint64_t granules_missing(const struct vr_space *space, const struct vr_block *span,
                                 uint64_t addr, uint64_t bytes, uint64_t queue) {
    uint64_t end = addr + bytes, count = 0;
    for (int left = STEPS; left > 0; left--) {
        bool is_void = span->span.kind == VR_SPAN_VOID;
        if (!is_void && !hole_is_usable(span, queue)) {
            return UINT64_MAX;
        }
        if (is_void) {
            uint64_t low = vr_span_addr(span) > addr ? vr_span_addr(span) : addr;
            uint64_t high = vr_span_end(span) < end ? vr_span_end(span) : end;
            count +=
                (vr_granule_up(space, high) - vr_granule_down(space, low)) / space->config.granule;
        }
        if (vr_span_end(span) >= end) {
            return count;
        }
        span = span->span.after;
        if (!span) {
            return UINT64_MAX;
        }
    }
    return UINT64_MAX;
}

/* Makes the window at `addr` the best if it misses fewer granules. `span` contains addr or lies
   above it. */
static void window_consider(const struct vr_space *space, struct vr_window *best,
                            struct vr_block *span, uint64_t addr, uint64_t bytes, uint64_t queue) {
    for (int left = STEPS; vr_span_addr(span) > addr; left--) {
        span = span->span.before;
        if (left == 0 || !span ||
            (span->span.kind != VR_SPAN_VOID && !hole_is_usable(span, queue))) {
            return;
        }
    }
    uint64_t count = granules_missing(space, span, addr, bytes, queue);
    if (count < best->missing) {
        *best = (struct vr_window){span, addr, bytes, count};
    }
}

/* Tries the window that starts with the span, and the one that ends with it. */
static void window_consider_both(const struct vr_space *space, struct vr_window *best,
                                 struct vr_block *span, const struct vr_want *want,
                                 uint64_t bytes) {
    uint64_t low = align_up(vr_span_addr(span), want->align);
    if (low < vr_span_end(span)) {
        window_consider(space, best, span, low, bytes, want->queue);
    }
    if (vr_span_end(span) >= bytes) {
        uint64_t high = (vr_span_end(span) - bytes) & ~(want->align - 1);
        window_consider(space, best, span, high, bytes, want->queue);
    }
}

/* The next in descending size from two sequences of holes: the queue's own and the settled ones. */
static struct vr_block *next_largest(const struct vr_space *space, struct vr_block **own,
                                     struct vr_block **any, uint64_t queue) {
    struct vr_block **from =
        !*any || (*own && vr_span_bytes(*own) >= vr_span_bytes(*any)) ? own : any;
    struct vr_block *span = *from;
    if (span) {
        *from = vr_hole_smaller(space, from == own ? queue : 0, span);
    }
    return span;
}

/*
 * A large block that finds almost no mapped memory is placed in the void, with free addresses in
 * front of it: when it has been freed, the next block that is a little larger finds most of its
 * memory here.
 */
static struct vr_window window_guarded(const struct vr_space *space, struct vr_block *most,
                                       struct vr_window best, uint64_t bytes) {
    uint64_t granule = space->config.granule, whole = vr_granule_up(space, bytes);
    if (!is_large(space, bytes) || !best.first || (best.missing + 2) * granule < whole ||
        vr_span_bytes(most) / (GUARD_BLOCKS + 1) < whole) {
        return best;
    }
    return (struct vr_window){most, vr_span_addr(most) + GUARD_BLOCKS * whole, bytes,
                              whole / granule};
}

static struct vr_window fewest_missing(const struct vr_space *space, const struct vr_want *want,
                                       uint64_t bytes) {
    struct vr_window best = {.missing = UINT64_MAX};
    struct vr_block *own = vr_hole_smaller(space, want->queue, NULL);
    struct vr_block *any = vr_hole_smaller(space, 0, NULL);
    int scans = SCANNED;
    for (int left = CANDIDATES; left > 0 && scans > 0; scans--) {
        struct vr_block *hole = next_largest(space, &own, &any, want->queue);
        if (!hole) {
            break;
        }
        if (vr_span_is(hole->span.before, VR_SPAN_VOID) ||
            vr_span_is(hole->span.after, VR_SPAN_VOID)) {
            window_consider_both(space, &best, hole, want, bytes);
            left--;
        }
    }
    /* The largest void, usually the end of a range, and the hole below it. */
    struct vr_block *most = vr_hole_smaller(space, VR_QUEUE_VOID, NULL);
    if (most) {
        struct vr_block *below = most->span.before;
        window_consider_both(space, &best, hole_is_usable(below, want->queue) ? below : most, want,
                             bytes);
        best = window_guarded(space, most, best, bytes);
    }
    if (!best.first && (most = vr_hole_least(space, VR_QUEUE_VOID, bytes))) {
        window_consider_both(space, &best, most, want, bytes);
    }
    return best;
}

/* --------------------------------------------------------------------- runs */

static uint32_t run_slot(uint64_t queue) {
    return (uint32_t)((queue * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % VR_RUNS_QUEUES;
}

/* Whether so many siblings are at most a RUN_PART of the peak need. Multiplies, because a division
   by `bytes` takes as long as a search. */
static bool is_part(uint32_t siblings, uint64_t bytes, uint64_t peak) {
    uint64_t sum;
    return vr_mul(siblings, bytes, &sum) && sum <= peak / RUN_PART;
}

/* The expected length of a run of blocks of this size that starts now, when `run` ends. */
static uint32_t run_expected(const struct vr_space *space, const struct vr_run *run,
                             uint64_t bytes) {
    uint32_t expected = run->length < RUN_MOST ? run->length : RUN_MOST;
    for (uint32_t i = 1; i < VR_RUNS_PAST; i++) { /* the oldest is about to be forgotten */
        uint32_t past = run->past[(run->count + i) % VR_RUNS_PAST];
        expected = past < expected ? past : expected;
    }
    while (expected > 1 && !is_part(expected, bytes, space->stats.peak_need_bytes)) {
        expected /= 2;
    }
    return expected;
}

/* Adds a block of this size to the queue's run, or starts a new run. */
static void run_extend(const struct vr_space *space, struct vr_run *run, uint64_t queue,
                       uint64_t bytes) {
    if (run->queue != queue) {
        *run = (struct vr_run){.queue = queue};
    }
    if (run->bytes == bytes) {
        run->length++;
        return;
    }
    run->expected = run_expected(space, run, bytes);
    run->past[run->count++ % VR_RUNS_PAST] = run->length;
    run->bytes = bytes;
    run->length = 1;
    run->end = 0;
    run->last = NULL;
}

void vr_fit_note(struct vr_space *space, struct vr_block *block, uint64_t queue, uint64_t run_end) {
    assert(block->span.kind == VR_SPAN_BLOCK);
    struct vr_run *run = &space->runs[run_slot(queue)];
    run_extend(space, run, queue, vr_span_bytes(block));
    run->last = block;
    run->end = run_end ? run_end : run->end;
    space->next_at_high_end ^= vr_span_bytes(block) >= LARGE_BYTES;
}

void vr_fit_forget(struct vr_space *space, const struct vr_block *block) {
    for (int i = 0; i < VR_RUNS_QUEUES; i++) {
        if (space->runs[i].last == block) {
            space->runs[i].last = NULL;
        }
    }
}

/* Extends a window to map memory also for the siblings that should follow before `end`, up to
   AHEAD_BYTES. */
static struct vr_placement window_ahead(const struct vr_space *space, const struct vr_want *want,
                                        struct vr_window window, uint64_t end) {
    uint64_t bytes = end - window.addr < AHEAD_BYTES ? end - window.addr : AHEAD_BYTES;
    window.bytes = bytes > want->bytes ? bytes : want->bytes;
    if (granules_missing(space, window.first, window.addr, window.bytes, want->queue) ==
        UINT64_MAX) {
        window.bytes = want->bytes;
    }
    return (struct vr_placement){.window = window, .run_end = end};
}

/* Places the block behind the latest of its run, which goes on: in a hole, or in the window planned
   for the run. */
static bool beside_sibling(const struct vr_space *space, const struct vr_want *want,
                           const struct vr_run *run, struct vr_placement *place) {
    if (!run->last || run->expected <= 1) {
        return false;
    }
    assert(run->last->span.kind == VR_SPAN_BLOCK); /* vr_fit_forget clears it on a free */
    struct vr_block *next = run->last->span.after;
    if (hole_is_usable(next, want->queue) && hole_fits(next, want->bytes, want->align)) {
        *place = place_in_hole(space, next, want);
        return true;
    }
    uint64_t addr = vr_span_end(run->last);
    if (!next || addr + want->bytes > run->end || (addr & (want->align - 1)) ||
        granules_missing(space, next, addr, want->bytes, want->queue) == UINT64_MAX) {
        return false;
    }
    *place = window_ahead(space, want, (struct vr_window){.first = next, .addr = addr}, run->end);
    return true;
}

/* Finds a place for several siblings, halving their number until one fits. `hole`: fits one block;
   may be NULL. */
static bool run_fits(const struct vr_space *space, const struct vr_want *want, uint32_t siblings,
                     const struct vr_block *hole, struct vr_placement *place) {
    for (uint32_t count = siblings; count > 1; count /= 2) {
        uint64_t bytes = want->bytes * count;
        struct vr_block *wide = best_fit(space, want, bytes);
        if (wide) {
            *place = place_in_hole(space, wide, want);
            return true;
        }
        if (space->config.mode == VR_SPACE_SEGMENTS) {
            continue;
        }
        struct vr_window window = fewest_missing(space, want, bytes);
        if (window.first && (window.missing <= RUN_GAP || !hole)) {
            *place = window_ahead(space, want, window, window.addr + bytes);
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------- entry points */

static struct vr_placement place_find(struct vr_space *space, const struct vr_want *want,
                                      uint32_t siblings) {
    struct vr_block *hole = best_fit(space, want, want->bytes);
    bool exact = hole && is_exact(hole, want->bytes);
    struct vr_placement place;
    if (!exact && run_fits(space, want, siblings, hole, &place)) {
        return place;
    }
    place = place_in_hole(space, hole, want);
    if (!hole && space->config.mode == VR_SPACE_VMM) {
        place.window = fewest_missing(space, want, want->bytes);
    }
    return place;
}

struct vr_placement vr_fit_find(struct vr_space *space, const struct vr_want *want) {
    const struct vr_run *run = &space->runs[run_slot(want->queue)];
    bool known = run->queue == want->queue, goes_on = known && run->bytes == want->bytes;
    struct vr_placement place;
    if (goes_on && beside_sibling(space, want, run, &place)) {
        return place;
    }
    uint32_t length = goes_on ? run->length + 1 : 1;
    uint32_t expected = goes_on ? run->expected : known ? run_expected(space, run, want->bytes) : 0;
    return place_find(space, want, length < expected ? expected - length + 1 : 1);
}

struct vr_placement vr_fit_held(struct vr_space *space, const struct vr_want *want) {
    struct vr_placement place = vr_fit_find(space, want);
    if (place.hole) {
        return place;
    }
    return place_in_hole(space, best_fit(space, want, want->bytes), want);
}

struct vr_placement vr_fit_after(struct vr_space *space, const struct vr_want *want) {
    struct vr_block *best = NULL;
    uint64_t queue = vr_hole_queue_next(space, 0);
    for (int left = STEPS; left > 0 && queue != VR_QUEUE_VOID; left--) {
        struct vr_block *hole = best_of_queue(space, queue, want->bytes, want->align);
        if (hole && (!best || vr_span_bytes(hole) < vr_span_bytes(best))) {
            best = hole;
        }
        queue = vr_hole_queue_next(space, queue);
    }
    return place_in_hole(space, best, want);
}

/* Whether only unfinished work blocks the addresses from `span` to `end`. */
static bool only_work_blocks(const struct vr_block *span, uint64_t end) {
    for (int left = STEPS; span && left > 0; left--, span = span->span.after) {
        if (span->span.kind != VR_SPAN_HOLE && span->span.kind != VR_SPAN_VOID &&
            span->span.kind != VR_SPAN_STALE) {
            return false;
        }
        if (vr_span_end(span) >= end) {
            return true;
        }
    }
    return false;
}

vram_status vr_fit_behind(const struct vr_space *space, const struct vr_want *want,
                          struct vr_placement *place) {
    struct vr_block *next = want->behind->span.after;
    uint64_t addr = vr_span_end(want->behind), count = UINT64_MAX;
    *place = (struct vr_placement){.addr = addr};
    if (hole_is_usable(next, want->queue) && vr_span_bytes(next) >= want->bytes) {
        place->hole = next;
        return VRAM_OK;
    }
    if (next && space->config.mode == VR_SPACE_VMM) {
        count = granules_missing(space, next, addr, want->bytes, want->queue);
    }
    if (count != UINT64_MAX) {
        place->window = (struct vr_window){next, addr, want->bytes, count};
        return VRAM_OK;
    }
    return only_work_blocks(next, addr + want->bytes) ? VRAM_ERR_NOT_READY : VRAM_ERR_BUSY;
}

/* ----------------------------------------------- spaces that lay out whole handles */

struct vr_window vr_fit_void(const struct vr_space *space, uint64_t bytes) {
    uint64_t whole = vr_granule_up(space, bytes);
    struct vr_block *span =
        space->config.mode == VR_SPACE_VMM ? vr_hole_least(space, VR_QUEUE_VOID, whole) : NULL;
    return span ? (struct vr_window){span, vr_span_addr(span), bytes, whole / space->config.granule}
                : (struct vr_window){.first = NULL};
}

bool vr_fit_is_alone(const struct vr_space *space, const struct vr_want *want) {
    uint64_t end = vr_span_end(want->behind);
    const struct vr_piece *last = space->config.mode == VR_SPACE_VMM
                                      ? vr_granule_map_get(&space->granule_map, end - 1)
                                      : NULL;
    if (!last || end + want->bytes <= last->addr + last->bytes) {
        return true; /* a segment has one block anyway */
    }
    const struct vr_block *span = want->behind->span.after;
    while (span && vr_span_end(span) <= last->addr + last->bytes) {
        span = span->span.after;
    }
    return vr_span_is(span, VR_SPAN_VOID) && vr_span_end(span) >= end + want->bytes;
}

uint64_t vr_fit_segment_bytes(const struct vr_space *space) {
    uint64_t ordinary = space->stats.reserved_bytes / SEGMENT_PART + 2 * VR_MIB;
    uint64_t most =
        vr_larger(vr_granule_down(space, space->kept_bytes / KEPT_PART), space->config.granule);
    ordinary = vr_granule_up(space, vr_smaller(ordinary, space->config.largest_handle));
    return vr_smaller(ordinary, most);
}

void vr_fit_widen(const struct vr_space *space, const struct vr_want *want,
                  struct vr_window *window) {
    uint64_t bytes = vr_fit_segment_bytes(space);
    uint64_t held = space->stats.reserved_bytes + space->planned_bytes;
    uint64_t limit = space->config.limit_bytes ? space->config.limit_bytes : UINT64_MAX;
    if (bytes > window->bytes && held <= limit && bytes <= limit - held &&
        granules_missing(space, window->first, window->addr, bytes, want->queue) != UINT64_MAX) {
        window->bytes = bytes;
    }
}
