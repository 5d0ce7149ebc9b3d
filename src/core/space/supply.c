/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supply.c: chooses the physical memory for a planned block.
 *
 * The aim is the highest need so far plus a little slack. Below the aim the space grows: creating
 * memory is the cheapest call. Beyond it, free pieces are moved from holes, the longest idle first,
 * until the time budget is spent. Then the space grows past its aim, up to its limit.
 *
 * If a handle can be mapped at several places (alias), pieces that only work of the request's own
 * queue still uses can be moved too: stream order separates the old use from the new. So there is
 * memory to move even when a program runs far ahead of its device and nearly all free memory is
 * pending. Such pieces are taken last and are never recreated.
 *
 * Driver time depends on the number of handles, not on bytes. So a piece that is much smaller than
 * a handle created in its new place would be is not moved but recreated: it is released, together
 * with others, and one new handle replaces them all. A piece that is too large is released too, and
 * replaced by one that fits. In a space whose memory stays where it is, all are recreated.
 */
#include "core/space/plan.h"

#include "base/memory.h"
#include "base/size.h"
#include "core/space/aging.h"
#include "core/space/free_piece.h"

#include <assert.h>

enum {
    GROW_LEAST = 2,     /* granules of a handle created by growth, at least */
    RUN_LEAST = 4,      /* the same in the window of a run, */
    RUN_WINDOW = 8,     /* if the window has at least so many granules */
    BEHIND_PART = 8,    /* part of the window, behind a block when memory is short */
    END_PART = 2,       /* part of the distance to the nearer end of the window */
    RECREATE_LEAST = 2, /* granules of a recreated handle, at least, */
    RECREATE_MOST = 16, /* and at most */
    TRIMMED_MOST = 8,   /* the same, of a handle that replaces trimmed memory */
    WINDOW_PART = 512,  /* part of the window: a handle created by growth, at least */
    VAST_PART = 2,      /* a window of VAST_BYTES and half of all that is needed is vast, */
    VAST_MOST = 4,      /* and its handles may grow to so many granules towards its middle */
    GIANT_PART = 50     /* growth past the aim by > 1/50 of the need may use the extra budget */
};

#define VAST_BYTES     (256 * VR_MIB) /* see VAST_PART */
#define LENGTHEN_BYTES (32 * VR_MIB)  /* added to a window at most: see window_lengthen */

#define SLACK_EXTRA 1.25 /* the slack grows by 125 % when the time budget is empty, */
#define AMPLE_NS    12e6 /* and by nothing when it has this much time */

/* The state of planning one block. */
struct supply {
    struct vr_space *space;
    struct vr_plan *plan;
    uint64_t need_bytes;  /* highest so far, including the block */
    uint64_t aim_bytes;   /* may be held before anything is moved */
    uint64_t limit_bytes; /* may be held at most */
    uint64_t window_bytes;
    uint64_t queue;                     /* whose pending memory may be moved; 0: no queue's */
    struct vr_link *seen;               /* last pending hole with nothing to take; NULL: none yet */
    int64_t budget_ns, extra_budget_ns; /* left of those of the space */
    bool free_first;                    /* VR_WANT_GATHER: extension.c moves free memory first, */
    bool selective;                     /* but only pieces that are worth moving */
    bool grows;                         /* the plan creates memory that replaces none */
    uint64_t skipped_bytes;             /* free, but not worth moving */
    uint64_t released_bytes;            /* by this plan */
    uint64_t recreate_bytes;            /* of these, not yet replaced by a new handle */
};

static uint64_t supply_held(const struct supply *supply) {
    const struct vr_space *space = supply->space;
    return space->stats.reserved_bytes + space->planned_bytes - supply->released_bytes;
}

static uint64_t bytes_beyond(uint64_t bytes, uint64_t held_bytes) {
    return bytes > held_bytes ? bytes - held_bytes : 0;
}

/* What may be held beyond the need before anything is moved: more when the time budget is low. A
   program that is still growing will need that memory anyway, and its time budget is better spent
   once it has reached its peak. */
static uint64_t slack_bytes(const struct vr_space *space, uint64_t need) {
    if (space->config.slack_bytes) {
        return space->config.slack_bytes; /* set by the program */
    }
    double in_hand = space->budget_ns > 0 ? (double)space->budget_ns : 0;
    double lacking = in_hand < AMPLE_NS ? 1 - in_hand / AMPLE_NS : 0;
    return (uint64_t)((double)need * space->config.slack_ppm / 1e6 * (1 + SLACK_EXTRA * lacking));
}

static struct supply supply_begin(struct vr_space *space, const struct vr_want *want,
                                  struct vr_plan *plan, uint64_t window_bytes) {
    uint64_t need = space->stats.out_bytes + want->bytes;
    need -= vr_smaller(want->idle_bytes, need);
    need = vr_larger(need, space->stats.peak_need_bytes);
    vr_aging_note_need(space, need);
    struct supply supply = {.space = space,
                            .plan = plan,
                            .window_bytes = window_bytes,
                            .need_bytes = need,
                            .budget_ns = space->budget_ns,
                            .extra_budget_ns = space->extra_budget_ns,
                            .free_first = want->flags & VR_WANT_GATHER && !space->config.direct};
    uint64_t slack = slack_bytes(space, need);
    supply.aim_bytes = slack < UINT64_MAX - need ? need + slack : UINT64_MAX;
    supply.limit_bytes = space->config.limit_bytes ? space->config.limit_bytes : UINT64_MAX;
    supply.free_first = supply.free_first && !space->stays;
    supply.queue = space->config.alias && !space->stays ? want->queue : 0;
    supply.selective = supply.free_first && !(want->flags & VR_WANT_NO_GROWTH);
    if (want->flags & VR_WANT_NO_GROWTH) {
        uint64_t most = supply_held(&supply);
        most += vr_smaller(want->grow_bytes, UINT64_MAX - most);
        supply.limit_bytes = vr_smaller(most, supply.limit_bytes);
    }
    return supply;
}

/* Whether the plan grows past the aim for a need that was met before: aging.h (1). */
static bool grows_without_need(const struct supply *supply) {
    return supply->grows && !supply->selective && supply_held(supply) > supply->aim_bytes &&
           supply->need_bytes == supply->space->stats.peak_need_bytes;
}

/* Completes the plan and charges its expected price to the budgets. */
static vram_status supply_end(struct supply *supply, vram_status status, struct vr_plan **out) {
    struct vr_space *space = supply->space;
    if (status == VRAM_OK) {
        status = vr_plan_write(space, supply->plan);
    }
    if (status != VRAM_OK) {
        vr_plan_cancel(space, supply->plan);
        return status;
    }
    assert(space->budget_ns >= supply->budget_ns &&
           space->extra_budget_ns >= supply->extra_budget_ns);
    supply->plan->price_ns = (uint64_t)(space->budget_ns - supply->budget_ns) +
                             (uint64_t)(space->extra_budget_ns - supply->extra_budget_ns);
    space->budget_ns = supply->budget_ns;
    space->extra_budget_ns = supply->extra_budget_ns;
    if (grows_without_need(supply)) {
        vr_aging_note_growth(space);
    }
    *out = supply->plan;
    return VRAM_OK;
}

/* ------------------------------------------------------------------ taking */

/* Puts one more free piece into the plan: a spare, an idle one, or one of at most `most` bytes that
   is aliased. *taken is NULL when there is none. */
static vram_status supply_take_one(struct supply *supply, uint64_t most, struct vr_piece **taken) {
    struct vr_space *space = supply->space;
    struct vr_block *hole = NULL;
    struct vr_piece *piece = vr_free_spare(space);
    piece = piece ? piece : vr_free_idle(space, &hole);
    piece = piece ? piece : vr_free_pending(space, supply->queue, most, &supply->seen, &hole);
    if (!piece && supply->queue) {
        piece = vr_free_unswept(space, most, &hole);
    }
    *taken = piece;
    return *taken ? vr_plan_take(space, supply->plan, *taken, hole) : VRAM_OK;
}

static int64_t move_price(const struct vr_space *space) {
    const uint64_t *prices = space->prices;
    return (int64_t)(prices[VR_STEP_UNMAP] + prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS]);
}

/* Takes pieces until *need bytes are found, none is left, or the time budget is empty (NULL: no
   budget applies); *need becomes what is still missing. */
static vram_status supply_take(struct supply *supply, uint64_t *need, int64_t *budget_ns) {
    supply->seen = NULL; /* pieces that were too large for a smaller need may fit now */
    while (*need && (!budget_ns || *budget_ns > 0)) {
        struct vr_piece *piece;
        vram_status status = supply_take_one(supply, *need, &piece);
        if (status != VRAM_OK || !piece) {
            return status;
        }
        *need -= vr_smaller(piece->bytes, *need);
        *(budget_ns ? budget_ns : &supply->budget_ns) -= move_price(supply->space);
    }
    return VRAM_OK;
}

/* Takes free pieces so that growing by the rest of `bytes` stays within the aim, as far as the time
   budget goes. A growth far past the aim may use the extra budget as well. What would exceed the
   limit is moved at any price. Growing costs memory for ever, moving costs time once. */
static vram_status supply_gather(struct supply *supply, uint64_t bytes) {
    if (supply->free_first) {
        uint32_t items = supply->plan->item_count;
        vram_status taken = vr_extension_gather(supply->space, supply->plan, supply->queue,
                                                supply->selective, &bytes, &supply->skipped_bytes);
        if (taken != VRAM_OK) {
            return taken;
        }
        supply->budget_ns -= move_price(supply->space) * (supply->plan->item_count - items);
    }
    bool ahead = supply->selective && !supply->space->surplus_bytes; /* extension.c (4) */
    uint64_t aim = ahead ? UINT64_MAX : supply->aim_bytes;
    uint64_t past_aim = bytes_beyond(bytes, bytes_beyond(aim, supply_held(supply)));
    uint64_t giant = past_aim > supply->need_bytes / GIANT_PART ? past_aim : 0;
    uint64_t past_limit =
        bytes_beyond(bytes, bytes_beyond(supply->limit_bytes, supply_held(supply)));
    uint64_t left = vr_larger(past_aim, past_limit), all = left;
    vram_status status = supply_take(supply, &left, &supply->budget_ns);
    uint64_t got = all - left;
    if (status == VRAM_OK && giant > got) {
        left = all = giant - got;
        status = supply_take(supply, &left, &supply->extra_budget_ns);
        got += all - left;
    }
    if (status == VRAM_OK && past_limit > got) {
        left = past_limit - got;
        status = supply_take(supply, &left, NULL);
        if (status == VRAM_OK && left) {
            return vr_list_first(&supply->space->pending) ? VRAM_ERR_NOT_READY : VRAM_ERR_LIMIT;
        }
    }
    return status;
}

/* ----------------------------------------------------------------- filling */

/* A part of the distance from `at` to the nearer end of the window. */
static uint64_t graded_bytes(const struct supply *supply, uint64_t at) {
    uint64_t start = supply->plan->addr, end = start + supply->window_bytes;
    return vr_smaller(bytes_beyond(at, start), bytes_beyond(end, at)) / END_PART;
}

/* The least size of a handle created by growth. After a renewal it is that of a first pass. */
static uint64_t growth_bytes(const struct vr_space *space, uint64_t granules) {
    return space->renewed_bytes ? granules * space->config.granule
                                : vr_aging_bytes(space, granules);
}

/*
 * The size of a new handle at `at`, where `rest` bytes are still to be filled.
 *
 * A recreated handle is coarse, because small ones would be moved again and again. Near the ends of
 * the window it is fine: other blocks will be placed there later, and the free part of a handle
 * that they use is stuck. Blocks of a run are freed together and leave less stuck, so their handles
 * are larger. In a vast window, handles are coarse from the start: while the device is far behind
 * the host nothing can be recreated, and the first handles are moved each time.
 *
 * Memory that the program has trimmed is created again in one handle for what lies wholly under the
 * block, if that is not too large: a program that empties its cache again and again waits for the
 * driver each time, and a handle of 16 MiB takes as long as one of 2 MiB. The granule that the
 * next block will share is apart: a handle under two blocks would keep the memory of either.
 */
static uint64_t handle_bytes(const struct supply *supply, uint64_t at, uint64_t rest,
                             bool recreated) {
    const struct vr_space *space = supply->space;
    uint64_t granule = space->config.granule, most = space->config.largest_handle;
    uint64_t bytes = space->stats.peak_need_bytes / VR_GROW_PART;
    uint64_t least = growth_bytes(space, GROW_LEAST);
    if (space->config.direct) {
        return rest; /* one handle for a block: a driver takes its time for each */
    }
    if (!recreated) {
        bytes = vr_larger(bytes, supply->window_bytes / WINDOW_PART);
        most = vr_larger(most, bytes);
        uint64_t whole = vr_granule_down(space, supply->plan->addr + supply->plan->bytes);
        if (space->trimmed_bytes && at >= supply->plan->addr && at < whole) {
            most =
                vr_smaller(vr_larger(vr_granule_down(space, bytes), TRIMMED_MOST * granule), rest);
            return vr_smaller(most, whole - at);
        }
    }
    if (recreated) {
        bytes = graded_bytes(supply, at);
        least = vr_aging_bytes(space, RECREATE_LEAST);
        most = vr_smaller(most, vr_aging_bytes(space, RECREATE_MOST));
    } else if (supply->window_bytes >= VAST_BYTES &&
               supply->window_bytes >= supply->need_bytes / VAST_PART) {
        bytes = vr_larger(bytes, vr_smaller(graded_bytes(supply, at), VAST_MOST * granule));
    }
    if (supply->plan->run_end && supply->window_bytes >= RUN_WINDOW * granule) {
        least = recreated ? vr_aging_bytes(space, RUN_LEAST) : growth_bytes(space, RUN_LEAST);
    }
    if (!recreated && supply->plan->behind) {
        least = vr_larger(least, supply->window_bytes / (supply->selective ? 1 : BEHIND_PART));
        most = supply->selective ? vr_larger(most, VR_EXTENSION_MOST) : most;
    }
    if (!recreated && space->config.coarse) {
        least = vr_larger(least, vr_fit_segment_bytes(space));
    }
    bytes = vr_smaller(vr_smaller(vr_larger(bytes, least), most), rest);
    return UINT64_C(1) << vr_high_bit(vr_larger(bytes, granule));
}

static vram_status piece_create(struct supply *supply, struct vr_block *target, uint64_t to,
                                uint64_t bytes, bool growth) {
    struct vr_space *space = supply->space;
    assert(bytes > 0 && (bytes & (space->config.granule - 1)) == 0);
    struct vr_piece *piece = vr_mem_alloc(1, sizeof *piece, "vram_alloc");
    struct vr_plan_item *item = piece ? vr_plan_add(supply->plan, piece) : NULL;
    if (!item) {
        vr_mem_free(piece);
        return VRAM_ERR_HOST_MEMORY;
    }
    piece->addr = VR_NOWHERE;
    piece->bytes = bytes;
    item->fresh = true;
    if (growth && space->renewed_bytes) { /* replaces what a renewal released, see aging.h (7) */
        space->renewed_bytes -= vr_smaller(bytes, space->renewed_bytes);
        growth = false;
    }
    if (growth) {
        space->trimmed_bytes -= vr_smaller(bytes, space->trimmed_bytes);
    }
    item->growth = growth;
    supply->grows = supply->grows || growth;
    item->target = target;
    item->to = to;
    space->planned_bytes += bytes;
    return VRAM_OK;
}

/*
 * Lengthens the window into the void behind it, so that a pending piece fits at *at that is larger
 * than the rest of the window. Done when filling that rest would make the space grow past its aim,
 * and all free memory is in such pieces, which cannot be recreated. Otherwise the space would grow
 * by a granule or two again and again, beside free memory.
 */
static vram_status window_lengthen(struct supply *supply, struct vr_block *target, uint64_t *at) {
    struct vr_space *space = supply->space;
    struct vr_block *behind = target->span.after, *hole = NULL;
    uint64_t rest = vr_span_end(target) - *at;
    if (!rest || supply->recreate_bytes || supply->budget_ns <= 0 ||
        supply_held(supply) + rest <= supply->aim_bytes ||
        vr_span_end(target) != supply->plan->to || !vr_span_is(behind, VR_SPAN_VOID)) {
        return VRAM_OK;
    }
    supply->seen = NULL;
    struct vr_piece *piece =
        vr_free_pending(space, supply->queue, rest + LENGTHEN_BYTES, &supply->seen, &hole);
    uint64_t more = piece ? bytes_beyond(piece->bytes, rest) : 0;
    if (!more || more >= vr_span_bytes(behind)) {
        return VRAM_OK;
    }
    if (vr_span_stock(space, 2) != VRAM_OK ||
        vr_granule_map_prepare(&space->granule_map, supply->plan->to, more) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_hole_cut(space, behind, supply->plan->to, more);
    vr_span_absorb(space, target);
    supply->plan->to += more;
    vram_status status = vr_plan_take(space, supply->plan, piece, hole);
    if (status == VRAM_OK) {
        struct vr_plan_item *item = &supply->plan->items[supply->plan->item_count - 1];
        item->target = target;
        item->to = *at;
        *at += piece->bytes;
        supply->budget_ns -= move_price(space);
    }
    return status;
}

/* Whether a free piece is moved to `at` as it is, where `rest` bytes are to be filled: it is not
   too small and, in an aged space, not coarser than what would be created there. While memory is
   tight only much coarser pieces are replaced, because every plan waits for that then. */
static bool piece_suits(const struct supply *supply, const struct vr_piece *piece, uint64_t at,
                        uint64_t rest) {
    const struct vr_space *space = supply->space;
    uint64_t made = handle_bytes(supply, at, rest, true);
    return !space->config.direct && !space->stays && piece->bytes <= rest &&
           piece->bytes * 2 >= made &&
           (!space->aged || piece->bytes <= (space->tight ? made * 2 : made));
}

/* Plans the memory for one void of the window. Pieces of about the right size are moved, others
   recreated. */
static vram_status void_fill(struct supply *supply, struct vr_block *target) {
    uint64_t at = vr_span_addr(target), end = vr_span_end(target);
    uint32_t first = supply->plan->item_count;
    vram_status status = supply_gather(supply, end - at);
    for (uint32_t i = first; status == VRAM_OK && i < supply->plan->item_count; i++) {
        struct vr_plan_item *item = &supply->plan->items[i];
        uint64_t bytes = item->piece->bytes;
        if (item->alias || piece_suits(supply, item->piece, at, end - at)) {
            assert(bytes <= end - at);
            item->target = target;
            item->to = at;
            at += bytes;
        } else {
            supply->released_bytes += bytes;
            supply->recreate_bytes += bytes;
        }
    }
    if (status == VRAM_OK) {
        status = window_lengthen(supply, target, &at);
        end = vr_span_end(target);
    }
    while (status == VRAM_OK && at < end) {
        bool growth = supply->recreate_bytes == 0;
        uint64_t bytes = handle_bytes(supply, at, end - at, !growth);
        if (!growth) {
            uint64_t again = vr_smaller(bytes, supply->recreate_bytes);
            bytes = supply->space->config.direct ? bytes : again;
            supply->recreate_bytes -= again;
        }
        status = piece_create(supply, target, at, bytes, growth);
        at += bytes;
    }
    assert(status != VRAM_OK || at == end); /* plan.c (4) */
    return status;
}

/* Claims the window, span by span. */
static vram_status window_claim(struct vr_space *space, struct vr_plan *plan,
                                const struct vr_window *window) {
    struct vr_block *span = window->first;
    uint64_t end = window->addr + window->bytes;
    while (span && vr_span_addr(span) < end) {
        assert(vr_span_is_free(span)); /* fit.c checked it */
        uint64_t low = vr_span_addr(span) > window->addr ? vr_span_addr(span) : window->addr;
        uint64_t high = vr_span_end(span) < end ? vr_span_end(span) : end;
        if (span->span.kind == VR_SPAN_VOID) {
            low = vr_granule_down(space, low);
            high = vr_granule_up(space, high);
            if (vr_granule_map_prepare(&space->granule_map, low, high - low) != VRAM_OK) {
                return VRAM_ERR_HOST_MEMORY;
            }
        }
        if (vr_span_stock(space, 2) != VRAM_OK) {
            return VRAM_ERR_HOST_MEMORY;
        }
        span = vr_hole_cut(space, span, low, high - low);
        span->span.was = span->span.kind;
        span->span.kind = VR_SPAN_CLAIM;
        plan->target = plan->target ? plan->target : span;
        plan->to = high;
        span = span->span.after;
    }
    assert(plan->to >= end);
    return VRAM_OK;
}

/* The claim at the end of the window. */
static struct vr_block *last_claim(const struct vr_plan *plan) {
    struct vr_block *claim = plan->target;
    while (vr_span_end(claim) < plan->to) {
        claim = claim->span.after;
    }
    return claim;
}

vram_status vr_plan_window(struct vr_space *space, const struct vr_want *want,
                           const struct vr_placement *place, struct vr_plan **out) {
    const struct vr_window *window = &place->window;
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    plan->addr = window->addr;
    plan->bytes = want->bytes;
    plan->queue = want->queue;
    plan->run_end = place->run_end;
    plan->behind = want->behind != NULL;
    struct supply supply = supply_begin(space, want, plan, window->bytes);
    vram_status status = window_claim(space, plan, window);
    if (status == VRAM_OK && window->addr + want->bytes == plan->to) { /* keeps span.h (8) */
        plan->reserve = vr_reserve_cut(space, last_claim(plan)->span.after, want->reserve);
    }
    for (struct vr_block *span = plan->target;
         status == VRAM_OK && span && vr_span_addr(span) < plan->to; span = span->span.after) {
        if (span->span.was == VR_SPAN_VOID) {
            status = void_fill(&supply, span);
        }
    }
    uint64_t more = supply.selective ? bytes_beyond(supply_held(&supply), supply.aim_bytes) : 0;
    space->surplus_bytes = vr_larger(space->surplus_bytes, vr_smaller(more, supply.skipped_bytes));
    return supply_end(&supply, status, out);
}

/* ---------------------------------------------------------------- segments */

static uint64_t segment_bytes(const struct supply *supply, uint64_t bytes) {
    const struct vr_space *space = supply->space;
    uint64_t ordinary = vr_fit_segment_bytes(space);
    bytes = vr_granule_up(space, bytes);
    if (space->config.direct || ordinary > bytes_beyond(supply->limit_bytes, supply_held(supply))) {
        return bytes;
    }
    return vr_larger(ordinary, bytes);
}

vram_status vr_plan_segment(struct vr_space *space, const struct vr_want *want,
                            struct vr_plan **out) {
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    plan->bytes = want->bytes;
    plan->queue = want->queue;
    struct supply supply = supply_begin(space, want, plan, want->bytes);
    uint64_t bytes = segment_bytes(&supply, want->bytes);
    vram_status status = supply_gather(&supply, bytes);
    if (status == VRAM_OK) {
        status = piece_create(&supply, NULL, VR_NOWHERE, bytes, plan->item_count == 0);
    }
    return supply_end(&supply, status, out);
}

/* -------------------------------------------------------------------- trim */

vram_status vr_plan_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **out) {
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    struct supply supply = {
        .space = space, .plan = plan, .extra_budget_ns = space->extra_budget_ns};
    uint64_t need = bytes_beyond(supply_held(&supply), keep_bytes), all = need;
    vram_status status = supply_take(&supply, &need, NULL);
    supply.budget_ns = space->budget_ns; /* a trim is not charged to the time budget */
    if (!keep_bytes) { /* the program's: memory that is short is trimmed by what is needed */
        space->trimmed_bytes += all - need;
    }
    if (status != VRAM_OK || plan->item_count) {
        return supply_end(&supply, status, out);
    }
    vr_plan_cancel(space, plan);
    *out = NULL;
    return VRAM_OK;
}
