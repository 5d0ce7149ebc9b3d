/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extension.c: chooses the free memory that is mapped behind a block that grows.
 *
 * Driver time depends on the number of handles. A block that grows by 1 GiB from one free handle of
 * that size needs the time of one mapping; from 256 handles of 4 MiB it needs many times longer
 * than the device would need to copy the block. So each piece is judged by its size, and the
 * largest come first:
 *
 *  (1) A piece is worth moving if that takes no longer than a copy of as many bytes on a fast
 *      device, or about as long as creating new memory for them. Growing by hundreds of MiB is then
 *      quicker than copying the block. Growing a small block may take longer than copying it, but
 *      the block keeps its address.
 *  (2) When the driver may have no more memory, all free memory is used, worth moving or not.
 *  (3) If a handle can be mapped twice, the old place is not unmapped now. It becomes a stale
 *      mapping, which is swept before the next plan, so that no caller waits for it.
 *  (4) So a block may once grow by new memory beside free memory. What the space then holds past
 *      its aim is the surplus. It is released in small parts before later plans, as the time budget
 *      allows. Until then, other blocks that grow move memory as every request does.
 */
#include "core/space/plan.h"

#include "base/size.h"
#include "core/space/aging.h"

#include <assert.h>

#define TIDY_NS 1000000 /* spent on releasing surplus before one plan */

enum {
    COPY_MIB_NS = 550, /* time in which the fastest known device copies a MiB */
    EQUAL = 2,         /* "about as long" in (1) is up to twice as long */
    SIZES = 64,        /* powers of two */
    PENDING_PART = 4,  /* a renewal waits while more than 1/4 of the free memory is pending, */
    RENEWAL_WAIT = 64  /* for so many requests */
};

/* The state of one search for pieces. */
struct extension {
    struct vr_space *space;
    struct vr_plan *plan;
    uint64_t queue;        /* whose pending memory may be taken too; 0: no queue's */
    uint64_t bytes[SIZES]; /* of free pieces, by log2 of their size */
    uint64_t need;         /* bytes still missing */
};

static uint64_t move_price(const struct vr_space *space) {
    const uint64_t *prices = space->prices;
    return prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS] +
           (space->config.alias ? 0 : prices[VR_STEP_UNMAP]); /* keeps (3) */
}

/* The smallest piece that is worth moving when `bytes` are needed: (1). */
static uint64_t least_piece(const struct vr_space *space, uint64_t bytes) {
    const uint64_t *prices = space->prices;
    uint64_t fresh = prices[VR_STEP_CREATE] + prices[VR_STEP_MAP] + prices[VR_STEP_ACCESS];
    uint64_t most = bytes < VR_EXTENSION_MOST ? bytes : VR_EXTENSION_MOST;
    double handle = (double)(UINT64_C(1) << vr_high_bit(most));
    double copied = (double)move_price(space) / COPY_MIB_NS * (double)VR_MIB;
    double equal = handle * (double)move_price(space) / (double)(EQUAL * fresh + 1);
    return (uint64_t)(copied < equal ? copied : equal);
}

/* The next piece from *addr on that lies wholly inside the hole and may be moved; *addr becomes its
   end. NULL: there is none. */
static struct vr_piece *next_piece(const struct vr_space *space, const struct vr_block *hole,
                                   uint64_t *addr) {
    *addr = vr_granule_up(space, *addr);
    while (*addr < vr_span_end(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, *addr);
        assert(piece); /* span.h (1) */
        *addr = piece->addr + piece->bytes;
        if (vr_inside(piece->addr, piece->bytes, vr_span_addr(hole), vr_span_bytes(hole))) {
            assert(!piece->stale_mappings || space->config.alias); /* only aliases leave some */
            return piece;
        }
    }
    return NULL;
}

static bool may_take(const struct extension *extension, const struct vr_block *hole) {
    return !hole->stamp.queue || hole->stamp.queue == extension->queue;
}

static void survey_holes(struct extension *extension, const struct vr_list *list) {
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        const struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        uint64_t addr = vr_span_addr(hole);
        const struct vr_piece *piece;
        while (may_take(extension, hole) && (piece = next_piece(extension->space, hole, &addr))) {
            extension->bytes[vr_high_bit(piece->bytes)] += piece->bytes;
        }
    }
}

static void survey_spares(struct extension *extension) {
    const struct vr_list *list = &extension->space->spares;
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        const struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, spare);
        extension->bytes[vr_high_bit(piece->bytes)] += piece->bytes;
    }
}

/* Whether the piece is of the size class `size` and not larger than what is needed. */
static bool size_matches(const struct extension *extension, const struct vr_piece *piece,
                         unsigned size) {
    return vr_high_bit(piece->bytes) == size && piece->bytes <= extension->need;
}

/* Takes matching spares. */
static vram_status take_spares(struct extension *extension, unsigned size) {
    const struct vr_list *list = &extension->space->spares;
    struct vr_link *link = vr_list_first(list), *next;
    vram_status status = VRAM_OK;
    for (; link && status == VRAM_OK; link = next) {
        struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, spare);
        next = vr_list_next(list, link);
        if (size_matches(extension, piece, size)) {
            status = vr_plan_take(extension->space, extension->plan, piece, NULL);
            extension->need -= piece->bytes;
        }
    }
    return status;
}

/* Takes matching pieces from one hole, upwards: after each, `hole` is the rest above it. Keeps
   (3). */
static vram_status take_from(struct extension *extension, struct vr_block *hole, unsigned size) {
    struct vr_space *space = extension->space;
    uint64_t addr = vr_span_addr(hole), end = vr_span_end(hole);
    struct vr_piece *piece;
    while (addr < end && (piece = next_piece(space, hole, &addr))) {
        if (!size_matches(extension, piece, size)) {
            continue;
        }
        vram_status status = vr_plan_take(space, extension->plan, piece, hole);
        if (status != VRAM_OK) {
            return status;
        }
        struct vr_plan_item *item = &extension->plan->items[extension->plan->item_count - 1];
        item->alias = space->config.alias;
        hole = item->source->span.after;
        extension->need -= piece->bytes;
    }
    return VRAM_OK;
}

static vram_status take_holes(struct extension *extension, const struct vr_list *list,
                              unsigned size) {
    struct vr_link *link = vr_list_first(list), *next;
    vram_status status = VRAM_OK;
    for (; link && extension->need && status == VRAM_OK; link = next) {
        struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        next = vr_list_next(list, link);
        if (may_take(extension, hole)) {
            status = take_from(extension, hole, size);
        }
    }
    return status;
}

/* Takes pieces of one size class: spares first, then settled, then pending ones of the queue. */
static vram_status take_size(struct extension *extension, unsigned size) {
    vram_status status = take_spares(extension, size);
    if (status == VRAM_OK) {
        status = take_holes(extension, &extension->space->idle, size);
    }
    if (status == VRAM_OK && extension->queue) {
        status = take_holes(extension, &extension->space->pending, size);
    }
    return status;
}

vram_status vr_extension_gather(struct vr_space *space, struct vr_plan *plan, uint64_t queue,
                                bool selective, uint64_t *bytes, uint64_t *left) {
    struct extension extension = {.space = space, .plan = plan, .queue = queue, .need = *bytes};
    uint64_t least = selective ? least_piece(space, *bytes) : 0, all = 0;
    vram_status status = VRAM_OK;
    survey_spares(&extension);
    survey_holes(&extension, &space->idle);
    if (queue) {
        survey_holes(&extension, &space->pending);
    }
    for (unsigned size = SIZES; size-- > 0 && status == VRAM_OK;) {
        uint64_t piece = UINT64_C(1) << size;
        all += extension.bytes[size];
        if (extension.bytes[size] && piece <= extension.need &&
            piece >= least) { /* keeps (1), (2) */
            status = take_size(&extension, size);
        }
    }
    assert(extension.need <= *bytes && *bytes - extension.need <= all);
    *left = all - (*bytes - extension.need);
    *bytes = extension.need;
    return status;
}

/* ----------------------------------------------------------------- surplus */

/* Bytes that the space holds beyond its aim. */
static uint64_t past_aim(const struct vr_space *space) {
    uint64_t aim = space->stats.peak_need_bytes;
    aim += space->config.slack_bytes ? space->config.slack_bytes
                                     : (uint64_t)((double)aim * space->config.slack_ppm / 1e6);
    return space->stats.reserved_bytes > aim ? space->stats.reserved_bytes - aim : 0;
}

/* Whether a settled piece is released: for a renewal those of isolated holes, and those that are
   coarser than what growth creates; otherwise any. */
static bool is_surplus(const struct extension *extension, const struct vr_piece *piece,
                       bool isolated) {
    return piece->bytes <= extension->need && !piece->stale_mappings &&
           (!extension->plan->renews || isolated || vr_aging_is_coarse(extension->space, piece));
}

/* Puts settled pieces into the plan, the longest idle first, up to extension->need bytes. */
static vram_status take_surplus(struct extension *extension, int64_t *budget_ns) {
    struct vr_space *space = extension->space;
    int64_t price = (int64_t)(space->prices[VR_STEP_UNMAP] + space->prices[VR_STEP_RELEASE]);
    struct vr_link *link = vr_list_first(&space->idle), *next;
    for (; link && *budget_ns > 0; link = next) {
        struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        uint64_t addr = vr_span_addr(hole), end = vr_span_end(hole);
        struct vr_piece *piece;
        bool isolated = vr_hole_unmapped_sides(hole) == 2; /* before it is cut */
        next = vr_list_next(&space->idle, link);
        while (*budget_ns > 0 && addr < end && (piece = next_piece(space, hole, &addr))) {
            if (!is_surplus(extension, piece, isolated)) {
                continue;
            }
            if (vr_plan_take(space, extension->plan, piece, hole) != VRAM_OK) {
                return VRAM_ERR_HOST_MEMORY;
            }
            hole = extension->plan->items[extension->plan->item_count - 1].source->span.after;
            extension->need -= piece->bytes;
            *budget_ns -= price;
        }
    }
    return VRAM_OK;
}

/* Plans a renewal: aging.h (7). While much of the free memory is pending the
   space could not be renewed as a whole, so the renewal waits. */
static vram_status plan_renewal(struct vr_space *space, struct vr_plan **out) {
    struct extension extension = {.space = space, .need = UINT64_MAX};
    int64_t budget = INT64_MAX;
    vr_hole_settle(space, true);
    if (space->stats.pending_bytes > space->stats.hole_bytes / PENDING_PART) {
        space->renewal_wait = RENEWAL_WAIT;
        return VRAM_OK;
    }
    extension.plan = vr_plan_new(space);
    if (!extension.plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    space->renewal_due = false;
    extension.plan->tidies = extension.plan->renews = true;
    vram_status status =
        vr_plan_finish(space, extension.plan, take_surplus(&extension, &budget), out);
    if (*out) {
        (*out)->price_ns = (uint64_t)(INT64_MAX - budget);
        space->budget_ns -= INT64_MAX - budget;
    }
    return status;
}

/* Keeps (4). */
vram_status vr_plan_tidy(struct vr_space *space, struct vr_plan **out) {
    int64_t budget = space->budget_ns < TIDY_NS ? space->budget_ns : TIDY_NS, before = budget;
    uint64_t more = past_aim(space);
    *out = NULL;
    if (vr_aging_renews(space)) {
        return plan_renewal(space, out);
    }
    space->surplus_bytes = space->surplus_bytes < more ? space->surplus_bytes : more;
    if (!space->surplus_bytes || budget <= 0) {
        return VRAM_OK;
    }
    struct extension extension = {.space = space, .need = space->surplus_bytes};
    extension.plan = vr_plan_new(space);
    if (!extension.plan) {
        return VRAM_ERR_HOST_MEMORY;
    }
    extension.plan->tidies = true;
    vram_status status =
        vr_plan_finish(space, extension.plan, take_surplus(&extension, &budget), out);
    if (!*out) {
        /* Without a failure, no free piece of the surplus is left. */
        space->surplus_bytes = status == VRAM_OK ? 0 : space->surplus_bytes;
        return status;
    }
    (*out)->price_ns = (uint64_t)(before - budget);
    space->budget_ns -= before - budget;
    space->surplus_bytes = extension.need;
    return VRAM_OK;
}
