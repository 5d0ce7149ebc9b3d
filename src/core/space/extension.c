/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extension.c: which free memory is mapped behind a block that grows.
 *
 * What a driver charges for is the number of handles. A block that grows by 1 GiB has it from one
 * free handle of that size in the time of one mapping, from 256 handles of 4 MiB in many times of
 * what the device would need to copy the block. So free memory is weighed by the piece, and the
 * largest come first:
 *
 *  (1) A piece is worth moving when that takes no longer than a copy of as many bytes on a fast
 *      device, or about as long as new memory for them. A block that grows by hundreds of MiB is
 *      then quicker than one that is copied; a small one may take longer than its copy, and keeps
 *      its address.
 *  (2) Where all that is free must be had, since the driver may have no more, nothing is weighed.
 *  (3) Where a handle can be mapped twice, the old place is not unmapped now but becomes a stale
 *      mapping, which is swept before the next plan: nobody waits for it.
 *  (4) So a block may grow by new memory beside free memory, once: what the pool holds past its aim
 *      for that is owed. It is given back bit by bit, before later plans, as there is time in the
 *      time budget; until then other blocks that grow move memory as every request does.
 */
#include "core/space/plan.h"

#include "base/size.h"
#include "core/space/aging.h"

#include <assert.h>

#define TIDY_NS 1000000 /* spent at a time on giving back */

enum {
    COPY_MIB_NS = 550, /* the fastest device known copies a MiB in this time */
    EQUAL = 2,         /* so many times the price of new memory are still about as much */
    SIZES = 64         /* powers of two */
};

/* One search. */
struct search {
    struct vr_space *space;
    struct vr_plan *plan;
    uint64_t queue;        /* whose unfinished memory may be taken too; 0: none's */
    uint64_t bytes[SIZES]; /* of free pieces, by the logarithm of their size */
    uint64_t need;         /* bytes still lacking */
};

static uint64_t move_price(const struct vr_space *space) {
    const uint64_t *prices = space->prices;
    return prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS] +
           (space->config.alias ? 0 : prices[VR_STEP_UNMAP]); /* keeps (3) */
}

/* The smallest piece that is worth moving when `bytes` are to be had: (1). */
static uint64_t least_piece(const struct vr_space *space, uint64_t bytes) {
    const uint64_t *prices = space->prices;
    uint64_t fresh = prices[VR_STEP_CREATE] + prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS];
    uint64_t most = bytes < VR_EXTENSION_MOST ? bytes : VR_EXTENSION_MOST;
    double handle = (double)(UINT64_C(1) << vr_high_bit(most));
    double copied = (double)move_price(space) / COPY_MIB_NS * (double)VR_MIB;
    double equal = handle * (double)move_price(space) / (double)(EQUAL * fresh + 1);
    return (uint64_t)(copied < equal ? copied : equal);
}

/* The next piece at or behind *addr that lies wholly inside the hole and may be moved; *addr is its
   end then. NULL: there is none. */
static struct vr_piece *next_piece(const struct vr_space *space, const struct vr_block *hole,
                                   uint64_t *addr) {
    *addr = vr_granule_up(space, *addr);
    while (*addr < vr_span_end(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, *addr);
        assert(piece); /* span.h (1) */
        *addr = piece->addr + piece->bytes;
        if (vr_inside(piece->addr, piece->bytes, vr_span_addr(hole), vr_span_bytes(hole)) &&
            (!piece->stale_mappings || space->config.alias)) {
            return piece;
        }
    }
    return NULL;
}

static bool may_take(const struct search *search, const struct vr_block *hole) {
    return !hole->stamp.queue || hole->stamp.queue == search->queue;
}

static void survey_holes(struct search *search, const struct vr_list *list) {
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        const struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        uint64_t addr = vr_span_addr(hole);
        const struct vr_piece *piece;
        while (may_take(search, hole) && (piece = next_piece(search->space, hole, &addr))) {
            search->bytes[vr_high_bit(piece->bytes)] += piece->bytes;
        }
    }
}

static void survey_spares(struct search *search) {
    const struct vr_list *list = &search->space->spares;
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        const struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, spare);
        search->bytes[vr_high_bit(piece->bytes)] += piece->bytes;
    }
}

/* Whether the piece is of the size looked for, and fits. */
static bool suits(const struct search *search, const struct vr_piece *piece, unsigned size) {
    return vr_high_bit(piece->bytes) == size && piece->bytes <= search->need;
}

/* Takes what suits and is mapped nowhere. */
static vram_status take_spares(struct search *search, unsigned size) {
    const struct vr_list *list = &search->space->spares;
    struct vr_link *link = vr_list_first(list), *next;
    vram_status status = VRAM_OK;
    for (; link && status == VRAM_OK; link = next) {
        struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, spare);
        next = vr_list_next(list, link);
        if (suits(search, piece, size)) {
            status = vr_plan_take(search->space, search->plan, piece, NULL);
            search->need -= piece->bytes;
        }
    }
    return status;
}

/* The same from one hole, from below: what is left of it above is looked at in its place. Keeps
   (3). */
static vram_status take_from(struct search *search, struct vr_block *hole, unsigned size) {
    struct vr_space *space = search->space;
    uint64_t addr = vr_span_addr(hole), end = vr_span_end(hole);
    struct vr_piece *piece;
    while (addr < end && (piece = next_piece(space, hole, &addr))) {
        if (!suits(search, piece, size)) {
            continue;
        }
        vram_status status = vr_plan_take(space, search->plan, piece, hole);
        if (status != VRAM_OK) {
            return status;
        }
        struct vr_plan_item *item = &search->plan->items[search->plan->item_count - 1];
        item->alias = space->config.alias;
        hole = item->source->span.after;
        search->need -= piece->bytes;
    }
    return VRAM_OK;
}

static vram_status take_holes(struct search *search, const struct vr_list *list, unsigned size) {
    struct vr_link *link = vr_list_first(list), *next;
    vram_status status = VRAM_OK;
    for (; link && search->need && status == VRAM_OK; link = next) {
        struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        next = vr_list_next(list, link);
        if (may_take(search, hole)) {
            status = take_from(search, hole, size);
        }
    }
    return status;
}

/* Takes pieces of one size: spares first, then what is free for all. */
static vram_status take_size(struct search *search, unsigned size) {
    vram_status status = take_spares(search, size);
    if (status == VRAM_OK) {
        status = take_holes(search, &search->space->idle, size);
    }
    if (status == VRAM_OK && search->queue) {
        status = take_holes(search, &search->space->pending, size);
    }
    return status;
}

vram_status vr_extension_gather(struct vr_space *space, struct vr_plan *plan, uint64_t queue,
                                bool weighs, uint64_t *bytes, uint64_t *left) {
    struct search search = {.space = space, .plan = plan, .queue = queue, .need = *bytes};
    uint64_t least = weighs ? least_piece(space, *bytes) : 0, all = 0;
    vram_status status = VRAM_OK;
    survey_spares(&search);
    survey_holes(&search, &space->idle);
    if (queue) {
        survey_holes(&search, &space->pending);
    }
    for (unsigned size = SIZES; size-- > 0 && status == VRAM_OK;) {
        uint64_t piece = UINT64_C(1) << size;
        all += search.bytes[size];
        if (search.bytes[size] && piece <= search.need && piece >= least) { /* keeps (1), (2) */
            status = take_size(&search, size);
        }
    }
    assert(search.need <= *bytes && *bytes - search.need <= all);
    *left = all - (*bytes - search.need);
    *bytes = search.need;
    return status;
}

/* ------------------------------------------------------------- giving back */

/* How much more than it is to hold the space has. */
static uint64_t past_aim(const struct vr_space *space) {
    uint64_t aim = space->stats.peak_need_bytes;
    aim += space->config.slack_bytes ? space->config.slack_bytes
                                     : (uint64_t)((double)aim * space->config.slack_ppm / 1e6);
    return space->stats.reserved_bytes > aim ? space->stats.reserved_bytes - aim : 0;
}

/* Puts pieces into the plan that are free for all and not more than is owed, the longest idle
   first. */
static vram_status give_back(struct search *search, int64_t *budget_ns) {
    struct vr_space *space = search->space;
    int64_t price = (int64_t)(space->prices[VR_STEP_UNMAP] + space->prices[VR_STEP_RELEASE]);
    struct vr_link *link = vr_list_first(&space->idle), *next;
    for (; link && *budget_ns > 0; link = next) {
        struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        uint64_t addr = vr_span_addr(hole), end = vr_span_end(hole);
        struct vr_piece *piece;
        next = vr_list_next(&space->idle, link);
        while (*budget_ns > 0 && addr < end && (piece = next_piece(space, hole, &addr))) {
            if (piece->bytes > search->need || piece->stale_mappings) {
                continue;
            }
            if (vr_plan_take(space, search->plan, piece, hole) != VRAM_OK) {
                return VRAM_ERR_HOST_MEMORY;
            }
            hole = search->plan->items[search->plan->item_count - 1].source->span.after;
            search->need -= piece->bytes;
            *budget_ns -= price;
        }
    }
    return VRAM_OK;
}

/* Keeps (4). */
vram_status vr_plan_tidy(struct vr_space *space, struct vr_plan **out) {
    int64_t budget = space->budget_ns < TIDY_NS ? space->budget_ns : TIDY_NS, before = budget;
    uint64_t more = past_aim(space);
    *out = NULL;
    space->owed_bytes = space->owed_bytes < more ? space->owed_bytes : more;
    if (!space->owed_bytes || budget <= 0) {
        return VRAM_OK;
    }
    struct search search = {.space = space, .need = space->owed_bytes};
    search.plan = vr_plan_new(space);
    if (!search.plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    search.plan->tidies = true;
    vram_status status = vr_plan_finish(space, search.plan, give_back(&search, &budget), out);
    if (!*out) {
        space->owed_bytes = status == VRAM_OK ? 0 : space->owed_bytes; /* nothing is left of it */
        return status;
    }
    (*out)->price_ns = (uint64_t)(before - budget);
    space->budget_ns -= before - budget;
    space->owed_bytes = search.need;
    return VRAM_OK;
}

/* ---------------------------------------------------------------- refining */

static vram_status take_coarse(struct vr_space *space, struct vr_plan *plan) {
    struct vr_link *link = vr_list_first(&space->idle), *next;
    for (; link; link = next) {
        struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        uint64_t addr = vr_span_addr(hole), end = vr_span_end(hole);
        struct vr_piece *piece;
        next = vr_list_next(&space->idle, link);
        while (addr < end && (piece = next_piece(space, hole, &addr))) {
            if (!vr_aging_is_coarse(space, piece) || piece->stale_mappings) {
                continue;
            }
            if (vr_plan_take(space, plan, piece, hole) != VRAM_OK) {
                return VRAM_ERR_HOST_MEMORY;
            }
            hole = plan->items[plan->item_count - 1].source->span.after;
        }
    }
    return VRAM_OK;
}

vram_status vr_plan_refine(struct vr_space *space, struct vr_plan **out) {
    *out = NULL;
    if (!space->tight) {
        return VRAM_OK;
    }
    struct vr_plan *plan = vr_plan_new(space);
    if (!plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    plan->tidies = true;
    return vr_plan_finish(space, plan, take_coarse(space, plan), out);
}
