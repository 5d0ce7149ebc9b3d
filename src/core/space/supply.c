/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supply.c: where the memory for a block comes from.
 *
 * The aim is the highest need so far and a little slack. Up to it the pool simply grows: no call is
 * cheaper than creating. Beyond it free pieces are taken from holes, the longest idle first, as far
 * as the time budget goes; then the pool grows past its aim, if its limit lets it.
 *
 * Memory that work of the request's own queue may still use is no obstacle where a handle can be
 * mapped at several places: the queue's order keeps its old and its new user apart. So where a
 * program runs far ahead of its device, and nearly all that is free is free only once work has
 * ended, there is something to take all the same. Such pieces go as they are, after all others.
 *
 * What a driver charges for is the number of handles, not of bytes. So a piece that is much smaller
 * than what would be created in its new place is not moved but released, together with others, and
 * one new handle stands for them all; and a piece that is too large is released for one that fits.
 */
#include "core/space/plan.h"

#include "base/memory.h"
#include "base/size.h"
#include "core/space/aging.h"

#include <assert.h>

enum {
    BEHIND_PART = 8, /* one made behind a block when memory is short is this part of the growth, */
    GROW_LEAST =
        2, /* one made by other growth, VR_GROW_PART of the peak, has at least so many granules */
    RUN_LEAST = 4,  /* or so many where a run of blocks is to lie, */
    RUN_WINDOW = 8, /* if the window has so many at least */
    END_PART = 2,   /* one made of released ones is this part of the way to an end of the window, */
    MELT_LEAST = 2, /* at least so many granules, */
    MELT_MOST = 16, /* at most so many; and so is */
    VAST_PART = 2,  /* one made by growth where the window is this part of all that is needed, */
    VAST_MOST = 4,  /* with at most so many */
    IDLE_MOST = 64, /* idle holes looked at for a piece */
    SEGMENT_PART = 16, /* an ordinary segment is this part of what is held */
    GIANT_PART = 50    /* growth by this part of the peak for one block is worth the reserve */
};

#define VAST_BYTES  (256 * VR_MIB) /* no window is vast that has fewer */
#define REACH_BYTES (32 * VR_MIB)  /* how much longer a window may become: see reach */

#define LOOSE    1.25 /* with an empty time budget the slack grows by this part of itself, */
#define AMPLE_NS 12e6 /* and not at all with this much time in it */

/* One planning: how much may still be done. */
struct supply {
    struct vr_space *space;
    struct vr_plan *plan;
    uint64_t need_bytes;  /* the highest so far, with the block */
    uint64_t aim_bytes;   /* to be held without moving anything */
    uint64_t limit_bytes; /* to be held at all */
    uint64_t window_bytes;
    uint64_t queue;       /* whose unfinished memory may be taken; 0: none's */
    struct vr_link *seen; /* the last pending hole that has nothing to take; NULL: none yet */
    int64_t budget_ns, extra_budget_ns;
    bool gathers;      /* what is free and fits comes first, */
    bool weighs;       /* if it is worth it: extension.c */
    bool grows;        /* something new is made, in the place of nothing */
    uint64_t passed;   /* free, and not worth it */
    uint64_t released; /* by this plan */
    uint64_t melted;   /* of it, not yet created anew */
};

static uint64_t held(const struct supply *supply) {
    const struct vr_space *space = supply->space;
    return space->stats.reserved_bytes + space->planned_bytes - supply->released;
}

static uint64_t bytes_below(uint64_t bytes, uint64_t held_bytes) {
    return bytes > held_bytes ? bytes - held_bytes : 0;
}

/* What may be held beyond the need before anything is moved: more when there is hardly any time for
   moving. A program that is still growing will need it anyway, and what its time budget can pay for
   is better spent at the top. */
static uint64_t slack_bytes(const struct vr_space *space, uint64_t need) {
    if (space->config.slack_bytes) {
        return space->config.slack_bytes; /* the program knows better */
    }
    double in_hand = space->budget_ns > 0 ? (double)space->budget_ns : 0;
    double lacking = in_hand < AMPLE_NS ? 1 - in_hand / AMPLE_NS : 0;
    return (uint64_t)((double)need * space->config.slack_ppm / 1e6 * (1 + LOOSE * lacking));
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
                            .gathers = want->flags & VR_WANT_GATHER};
    uint64_t slack = slack_bytes(space, need);
    supply.aim_bytes = slack < UINT64_MAX - need ? need + slack : UINT64_MAX;
    supply.limit_bytes = space->config.limit_bytes ? space->config.limit_bytes : UINT64_MAX;
    supply.queue = space->config.alias ? want->queue : 0;
    supply.weighs = supply.gathers && !(want->flags & VR_WANT_NO_GROWTH);
    if (want->flags & VR_WANT_NO_GROWTH) {
        uint64_t most = held(&supply);
        most += vr_smaller(want->grow_bytes, UINT64_MAX - most);
        supply.limit_bytes = vr_smaller(most, supply.limit_bytes);
    }
    return supply;
}

/* Whether it grows past its aim for a need that it has met before. */
static bool creeps(const struct supply *supply) {
    return supply->grows && !supply->weighs && held(supply) > supply->aim_bytes &&
           supply->need_bytes == supply->space->stats.peak_need_bytes;
}

/* The plan stands: what it is expected to cost is spent. */
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
    if (creeps(supply)) {
        vr_aging_note_growth(space);
    }
    *out = supply->plan;
    return VRAM_OK;
}

/* ------------------------------------------------------------------ taking */

/* Whether a piece under the hole lies wholly inside it and has at most `most` bytes. One that has
   stale mappings may only be moved under work again, not unmapped or given back. */
static bool takeable(const struct vr_block *hole, const struct vr_piece *piece, uint64_t most) {
    return piece->addr >= vr_span_addr(hole) && piece->addr + piece->bytes <= vr_span_end(hole) &&
           piece->bytes <= most && (!piece->stale_mappings || hole->stamp.queue);
}

static struct vr_piece *lowest_piece(const struct vr_space *space, const struct vr_block *hole,
                                     uint64_t most) {
    uint64_t addr = vr_granule_up(space, vr_span_addr(hole));
    while (addr < vr_span_end(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr);
        assert(piece);
        if (takeable(hole, piece, most)) {
            return piece;
        }
        addr = piece->addr + piece->bytes;
    }
    return NULL;
}

static struct vr_piece *highest_piece(const struct vr_space *space, const struct vr_block *hole,
                                      uint64_t most) {
    uint64_t addr = vr_granule_down(space, vr_span_end(hole));
    while (addr > vr_span_addr(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr - 1);
        assert(piece);
        if (takeable(hole, piece, most)) {
            return piece;
        }
        addr = piece->addr;
    }
    return NULL;
}

/* Whether a piece lies wholly inside the hole, one that has stale mappings now and may be taken
   later too. */
static bool holds_piece(const struct vr_space *space, const struct vr_block *hole) {
    uint64_t addr = vr_granule_up(space, vr_span_addr(hole));
    while (addr < vr_span_end(hole)) {
        const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr);
        if (vr_inside(piece->addr, piece->bytes, vr_span_addr(hole), vr_span_bytes(hole))) {
            return true;
        }
        addr = piece->addr + piece->bytes;
    }
    return false;
}

/* A piece of the hole that may be taken, or NULL. Where nothing is mapped beside one end of the
   hole it is the one next to it, so that the hole becomes smaller and not two. */
static struct vr_piece *inner_piece(const struct vr_space *space, const struct vr_block *hole,
                                    uint64_t most) {
    bool from_above = vr_span_is_bare(hole->span.after) && !vr_span_is_bare(hole->span.before);
    return from_above ? highest_piece(space, hole, most) : lowest_piece(space, hole, most);
}

/* A segment that is one hole, or NULL. */
static struct vr_piece *empty_segment(const struct vr_block *hole) {
    return hole->span.before || hole->span.after ? NULL : hole->span.segment;
}

/* How much a hole is worth keeping: an island least. */
static int worth(const struct vr_block *hole) {
    return 2 - vr_hole_shores(hole);
}

/* A piece of the hole that is worth least, among those idle for longest, and that
   hole. Holes that hold no whole piece leave the list: they come back when they change. */
static struct vr_piece *idle_piece(struct vr_space *space, struct vr_block **hole) {
    struct vr_piece *best = NULL;
    struct vr_link *link = vr_list_first(&space->idle), *next;
    for (int left = IDLE_MOST; link && left > 0 && (!best || worth(*hole) > 0); link = next) {
        next = vr_list_next(&space->idle, link);
        struct vr_block *here = VR_CONTAINER(link, struct vr_block, span.age);
        assert(here->span.kind == VR_SPAN_HOLE && !here->stamp.queue); /* span.h (3) */
        left--;
        if (best && worth(here) >= worth(*hole)) {
            continue;
        }
        struct vr_piece *piece = space->config.mode == VR_SPACE_VMM
                                     ? inner_piece(space, here, UINT64_MAX)
                                     : empty_segment(here);
        if (piece) {
            best = piece;
            *hole = here;
        } else if (space->config.mode != VR_SPACE_VMM || !holds_piece(space, here)) {
            vr_link_remove(link);
            left++;
        }
    }
    return best;
}

/* The oldest piece of at most `most` bytes that only work of the request's queue may still use, and
   its hole. What is left of a hole that is cut takes its place in the list: behind `seen`. */
static struct vr_piece *pending_piece(struct supply *supply, uint64_t most,
                                      struct vr_block **hole) {
    struct vr_space *space = supply->space;
    struct vr_link *link;
    while (supply->queue && (link = supply->seen ? vr_list_next(&space->pending, supply->seen)
                                                 : vr_list_first(&space->pending))) {
        *hole = VR_CONTAINER(link, struct vr_block, span.age);
        assert((*hole)->span.kind == VR_SPAN_HOLE && (*hole)->stamp.queue); /* span.h (3) */
        bool own = (*hole)->stamp.queue == supply->queue;
        struct vr_piece *piece = own ? inner_piece(space, *hole, most) : NULL;
        if (piece) {
            return piece;
        }
        supply->seen = link;
    }
    return NULL;
}

/* The longest unused spare, or NULL. */
static struct vr_piece *spare_piece(const struct vr_space *space) {
    struct vr_link *link = vr_list_first(&space->spares);
    return link ? VR_CONTAINER(link, struct vr_piece, spare) : NULL;
}

/* Puts one more free piece into the plan: a spare, the longest idle one, or one of at most `most`
   bytes that stays mapped where it is. *taken is NULL when there is none. */
static vram_status take_one(struct supply *supply, uint64_t most, struct vr_piece **taken) {
    struct vr_space *space = supply->space;
    struct vr_block *hole = NULL;
    struct vr_piece *piece = spare_piece(space);
    piece = piece ? piece : idle_piece(space, &hole);
    *taken = piece ? piece : pending_piece(supply, most, &hole);
    return *taken ? vr_plan_take(space, supply->plan, *taken, hole) : VRAM_OK;
}

static int64_t move_price(const struct vr_space *space) {
    const uint64_t *prices = space->prices;
    return (int64_t)(prices[VR_STEP_UNMAP] + prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS]);
}

/* Takes pieces until *need bytes are together, none is left, or the time budget is empty (NULL: it
   never is); *need is what is still missing. */
static vram_status take(struct supply *supply, uint64_t *need, int64_t *budget_ns) {
    supply->seen = NULL; /* what was too large for less may do now */
    while (*need && (!budget_ns || *budget_ns > 0)) {
        struct vr_piece *piece;
        vram_status status = take_one(supply, *need, &piece);
        if (status != VRAM_OK || !piece) {
            return status;
        }
        *need -= vr_smaller(piece->bytes, *need);
        *(budget_ns ? budget_ns : &supply->budget_ns) -= move_price(supply->space);
    }
    return VRAM_OK;
}

/* Takes what is to come from elsewhere when `bytes` are needed: from the time budget what would
   pass the aim, from the reserve what would pass it by much at once, at any price what would pass
   the limit. Growing costs memory for ever, moving costs time once. */
static vram_status gather(struct supply *supply, uint64_t bytes) {
    if (supply->gathers) {
        uint32_t items = supply->plan->item_count;
        vram_status taken = vr_extension_gather(supply->space, supply->plan, supply->queue,
                                                supply->weighs, &bytes, &supply->passed);
        if (taken != VRAM_OK) {
            return taken;
        }
        supply->budget_ns -= move_price(supply->space) * (supply->plan->item_count - items);
    }
    bool ahead = supply->weighs && !supply->space->owed_bytes; /* see extension.c (4) */
    uint64_t aim = ahead ? UINT64_MAX : supply->aim_bytes;
    uint64_t past_aim = bytes_below(bytes, bytes_below(aim, held(supply)));
    uint64_t giant = past_aim > supply->need_bytes / GIANT_PART ? past_aim : 0;
    uint64_t past_limit = bytes_below(bytes, bytes_below(supply->limit_bytes, held(supply)));
    uint64_t left = vr_larger(past_aim, past_limit), all = left;
    vram_status status = take(supply, &left, &supply->budget_ns);
    uint64_t got = all - left;
    if (status == VRAM_OK && giant > got) {
        left = all = giant - got;
        status = take(supply, &left, &supply->extra_budget_ns);
        got += all - left;
    }
    if (status == VRAM_OK && past_limit > got) {
        left = past_limit - got;
        status = take(supply, &left, NULL);
        if (status == VRAM_OK && left) {
            return vr_list_first(&supply->space->pending) ? VRAM_ERR_NOT_READY : VRAM_ERR_LIMIT;
        }
    }
    return status;
}

/* ----------------------------------------------------------------- filling */

/* A part of the way from `at` to the nearer end of the window. */
static uint64_t graded_bytes(const struct supply *supply, uint64_t at) {
    uint64_t start = supply->plan->addr, end = start + supply->window_bytes;
    return vr_smaller(bytes_below(at, start), bytes_below(end, at)) / END_PART;
}

/*
 * How large a handle is made at `at`, where `room` bytes are to be filled. One that stands for
 * others is coarse, since those are moved again and again; but near the ends of the window it is
 * fine: when the block is gone, others are put there, and what they leave of the handles they touch
 * is stuck. Blocks of a run come and go together, and leave less. Half of all memory in one block
 * is coarse from the start: where a device is far behind its host nothing can be melted, and what
 * was made first is moved each time.
 */
static uint64_t handle_bytes(const struct supply *supply, uint64_t at, uint64_t reserve,
                             bool melted) {
    const struct vr_space *space = supply->space;
    uint64_t granule = space->config.granule, most = space->config.largest_handle;
    uint64_t bytes = space->stats.peak_need_bytes / VR_GROW_PART;
    uint64_t least = vr_aging_bytes(space, GROW_LEAST);
    if (melted) {
        bytes = graded_bytes(supply, at);
        least = vr_aging_bytes(space, MELT_LEAST);
        most = vr_smaller(most, vr_aging_bytes(space, MELT_MOST));
    } else if (supply->window_bytes >= VAST_BYTES &&
               supply->window_bytes >= supply->need_bytes / VAST_PART) {
        bytes = vr_larger(bytes, vr_smaller(graded_bytes(supply, at), VAST_MOST * granule));
    }
    if (supply->plan->run_end && supply->window_bytes >= RUN_WINDOW * granule) {
        least = vr_aging_bytes(space, RUN_LEAST);
    }
    if (!melted && supply->plan->behind) {
        least = vr_larger(least, supply->window_bytes / (supply->weighs ? 1 : BEHIND_PART));
        most = supply->weighs ? vr_larger(most, VR_EXTENSION_MOST) : most;
    }
    bytes = vr_smaller(vr_smaller(vr_larger(bytes, least), most), reserve);
    return UINT64_C(1) << vr_high_bit(vr_larger(bytes, granule));
}

static vram_status create(struct supply *supply, struct vr_block *target, uint64_t to,
                          uint64_t bytes, bool growth) {
    assert(bytes > 0 && (bytes & (supply->space->config.granule - 1)) == 0);
    struct vr_piece *piece = vr_mem_alloc(1, sizeof *piece, "vram_alloc");
    struct vr_plan_item *item = piece ? vr_plan_add(supply->plan, piece) : NULL;
    if (!item) {
        vr_mem_free(piece);
        return VRAM_ERR_HOST_MEMORY;
    }
    piece->addr = VR_NOWHERE;
    piece->bytes = bytes;
    item->fresh = true;
    item->growth = growth;
    supply->grows = supply->grows || growth;
    item->target = target;
    item->to = to;
    supply->space->planned_bytes += bytes;
    return VRAM_OK;
}

/*
 * What is left of the window's last void at *at would make the pool grow past its aim, and all that
 * is free lies in larger pieces under unfinished work, which cannot be melted: the window becomes
 * longer, into addresses that nobody uses, so that one of them fits. Otherwise the pool would grow
 * by a granule or two, again and again, beside memory that is free.
 */
static vram_status reach(struct supply *supply, struct vr_block *target, uint64_t *at) {
    struct vr_space *space = supply->space;
    struct vr_block *behind = target->span.after, *hole = NULL;
    uint64_t rest = vr_span_end(target) - *at;
    if (!rest || supply->melted || supply->budget_ns <= 0 ||
        held(supply) + rest <= supply->aim_bytes || vr_span_end(target) != supply->plan->to ||
        !vr_span_is(behind, VR_SPAN_VOID)) {
        return VRAM_OK;
    }
    supply->seen = NULL;
    struct vr_piece *piece = pending_piece(supply, rest + REACH_BYTES, &hole);
    uint64_t more = piece ? bytes_below(piece->bytes, rest) : 0;
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

/* Whether a free piece goes to `at` as it is, where `room` bytes are to be filled. In a space that
   is worn one that is much too coarse does not. */
static bool suits(const struct supply *supply, const struct vr_piece *piece, uint64_t at,
                  uint64_t reserve) {
    uint64_t made = handle_bytes(supply, at, reserve, true);
    return piece->bytes <= reserve && piece->bytes * 2 >= made &&
           (!supply->space->aging || piece->bytes <= made * 2);
}

/* Finds memory for one void of the window. Pieces of about the right size are moved, others
   melted. */
static vram_status fill(struct supply *supply, struct vr_block *target) {
    uint64_t at = vr_span_addr(target), end = vr_span_end(target);
    uint32_t first = supply->plan->item_count;
    vram_status status = gather(supply, end - at);
    for (uint32_t i = first; status == VRAM_OK && i < supply->plan->item_count; i++) {
        struct vr_plan_item *item = &supply->plan->items[i];
        uint64_t bytes = item->piece->bytes;
        if (item->alias || suits(supply, item->piece, at, end - at)) {
            assert(bytes <= end - at);
            item->target = target;
            item->to = at;
            at += bytes;
        } else {
            supply->released += bytes;
            supply->melted += bytes;
        }
    }
    if (status == VRAM_OK) {
        status = reach(supply, target, &at);
        end = vr_span_end(target);
    }
    while (status == VRAM_OK && at < end) {
        bool growth = supply->melted == 0;
        uint64_t bytes = handle_bytes(supply, at, end - at, !growth);
        if (!growth) {
            bytes = vr_smaller(bytes, supply->melted);
            supply->melted -= bytes;
        }
        status = create(supply, target, at, bytes, growth);
        at += bytes;
    }
    assert(status != VRAM_OK || at == end); /* one access serves the void: plan.c (4) */
    return status;
}

/* Claims the window, span by span. */
static vram_status claim(struct vr_space *space, struct vr_plan *plan,
                         const struct vr_window *window) {
    struct vr_block *span = window->first;
    uint64_t end = window->addr + window->bytes;
    while (span && vr_span_addr(span) < end) {
        assert(vr_span_is_free(span)); /* fit.c has seen to it */
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

/* The claim that ends where the window does. */
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
    vram_status status = claim(space, plan, window);
    if (status == VRAM_OK && window->addr + want->bytes == plan->to) { /* keeps span.h (8) */
        plan->reserve = vr_reserve_cut(space, last_claim(plan)->span.after, want->reserve);
    }
    for (struct vr_block *span = plan->target;
         status == VRAM_OK && span && vr_span_addr(span) < plan->to; span = span->span.after) {
        if (span->span.was == VR_SPAN_VOID) {
            status = fill(&supply, span);
        }
    }
    uint64_t more = supply.weighs ? bytes_below(held(&supply), supply.aim_bytes) : 0;
    space->owed_bytes = vr_larger(space->owed_bytes, vr_smaller(more, supply.passed));
    return supply_end(&supply, status, out);
}

/* ---------------------------------------------------------------- segments */

/* The more a space holds, the larger its next segment. */
static uint64_t segment_bytes(const struct supply *supply, uint64_t bytes) {
    const struct vr_space *space = supply->space;
    uint64_t ordinary = space->stats.reserved_bytes / SEGMENT_PART + 2 * VR_MIB;
    bytes = vr_granule_up(space, bytes);
    ordinary = vr_granule_up(space, vr_smaller(ordinary, space->config.largest_handle));
    if (space->config.direct || ordinary > bytes_below(supply->limit_bytes, held(supply))) {
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
    vram_status status = gather(&supply, bytes);
    if (status == VRAM_OK) {
        status = create(&supply, NULL, VR_NOWHERE, bytes, plan->item_count == 0);
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
    uint64_t need = bytes_below(held(&supply), keep_bytes);
    vram_status status = take(&supply, &need, NULL);
    supply.budget_ns = space->budget_ns; /* giving back is nobody's moving time */
    if (status != VRAM_OK || plan->item_count) {
        return supply_end(&supply, status, out);
    }
    vr_plan_cancel(space, plan);
    *out = NULL;
    return VRAM_OK;
}
