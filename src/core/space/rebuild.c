/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c: see rebuild.h.
 *
 *  (1) Only pieces of which every granule lies under a block or a hole are listed: no claim, no
 *      stale mapping, nothing asleep or sealed. Blocks that are pinned, that grow, or that have not
 *      left the space yet keep their piece as it is.
 *  (2) A granule that has any byte of a block is used and is copied as a whole. So guard zones and
 *      poisoned bytes in it stay as they are.
 *  (3) Once vr_rebuild_prepare has succeeded nothing here allocates, except the stage's plan: what
 *      the driver has done can always be recorded.
 */
#include "core/space/rebuild.h"

#include "base/memory.h"
#include "base/size.h"
#include "core/space/plan.h"

#include <assert.h>

/* -------------------------------------------------------------------- finding */

/* Keeps (1), as far as the piece itself tells. */
static bool piece_is_candidate(const struct vr_space *space, const struct vr_piece *piece) {
    return piece->bytes > space->config.granule && piece->addr != VR_NOWHERE &&
           !piece->stale_mappings && !piece->sleep_state && !piece->seal;
}

static vram_status list_candidates(struct vr_space *space, struct vr_rebuild **list) {
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        if (!piece_is_candidate(space, piece)) {
            continue;
        }
        struct vr_rebuild *rebuild = vr_mem_alloc(1, sizeof *rebuild, "vram_pool_rebuild");
        if (!rebuild) {
            return VRAM_ERR_HOST_MEMORY;
        }
        *rebuild = (struct vr_rebuild){.next = *list, .space = space, .coarse = piece};
        piece->rebuild = rebuild;
        *list = rebuild;
    }
    return VRAM_OK;
}

/* The next listed piece under [*at, end), and its granules there, [from, to); NULL: none. */
static struct vr_rebuild *rebuild_under(const struct vr_space *space, uint64_t *at, uint64_t end,
                                        uint64_t *from, uint64_t *to) {
    while (*at < end) {
        const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, *at);
        if (!piece) {
            *at = vr_granule_map_next(&space->granule_map, *at);
            continue;
        }
        *from = vr_larger(vr_granule_down(space, *at), piece->addr);
        *to = vr_smaller(vr_granule_up(space, end), piece->addr + piece->bytes);
        *at = piece->addr + piece->bytes;
        if (piece->rebuild) {
            return piece->rebuild;
        }
    }
    return NULL;
}

/* Whether a block may be copied while the program submits no work: keeps (1). */
static bool block_is_movable(const struct vr_block *block) {
    return !block->pins && !block->growing && !vr_block_is_free(block);
}

/* Adds the granules of a span to the used ones of the pieces under it. */
static void span_count(const struct vr_space *space, const struct vr_block *span) {
    struct vr_rebuild *rebuild;
    uint64_t at = vr_span_addr(span), from, to;
    bool fixed = span->span.kind != VR_SPAN_BLOCK || !block_is_movable(span);
    while ((rebuild = rebuild_under(space, &at, vr_span_end(span), &from, &to))) {
        from = vr_larger(from, rebuild->counted_to);
        rebuild->used_bytes += to > from ? to - from : 0;
        rebuild->counted_to = vr_larger(to, rebuild->counted_to);
        rebuild->fixed = rebuild->fixed || fixed;
    }
}

static void rebuild_free(struct vr_rebuild *rebuild) {
    if (rebuild->coarse) {
        rebuild->coarse->rebuild = NULL;
    }
    if (rebuild->edge) {
        vr_span_drop(rebuild->space, rebuild->edge);
    }
    vr_mem_free(rebuild->parts);
    vr_mem_free(rebuild->freed);
    vr_mem_free(rebuild);
}

/* Drops the candidates of the space from which nothing can be won. A piece without blocks is
   released by a trim. */
static void list_filter(const struct vr_space *space, struct vr_rebuild **list) {
    while (*list) {
        struct vr_rebuild *rebuild = *list;
        if (rebuild->space != space || (!rebuild->fixed && rebuild->used_bytes &&
                                        rebuild->used_bytes < rebuild->coarse->bytes)) {
            list = &rebuild->next;
        } else {
            *list = rebuild->next;
            rebuild_free(rebuild);
        }
    }
}

vram_status vr_rebuild_find(struct vr_space *space, struct vr_rebuild **list) {
    if (space->config.mode != VR_SPACE_VMM) {
        return VRAM_OK;
    }
    vr_hole_settle(space, true);
    vram_status status = list_candidates(space, list);
    for (const struct vr_block *span = vr_span_first(space); span && status == VRAM_OK;
         span = vr_span_next(space, span)) {
        bool unmapped = span->span.kind == VR_SPAN_VOID || span->span.kind == VR_SPAN_RESERVE ||
                        span->span.kind == VR_SPAN_STALE;
        if (!unmapped && (span->span.kind != VR_SPAN_HOLE || span->stamp.queue)) {
            span_count(space, span);
        }
    }
    list_filter(space, list);
    return status;
}

/* -------------------------------------------------------------------- parts */

/* Arrays of parts and claims grow by doubling. */
static bool is_full(uint32_t count) {
    return (count & (count - 1)) == 0; /* 0, 1, 2, 4, ... */
}

/* Adds used granules, in the order of addresses. Adjacent ones share a part. */
static vram_status part_add(struct vr_rebuild *rebuild, uint64_t from, uint64_t to) {
    struct vr_rebuild_part *last =
        rebuild->part_count ? &rebuild->parts[rebuild->part_count - 1] : NULL;
    if (last && from <= last->to + last->bytes) {
        last->bytes = vr_larger(to, last->to + last->bytes) - last->to;
        return VRAM_OK;
    }
    if (is_full(rebuild->part_count)) {
        struct vr_rebuild_part *parts =
            vr_mem_resize(rebuild->parts, rebuild->part_count ? rebuild->part_count * 2 : 1,
                          sizeof *parts, "vram_pool_rebuild");
        if (!parts) {
            return VRAM_ERR_HOST_MEMORY;
        }
        rebuild->parts = parts;
    }
    rebuild->parts[rebuild->part_count++] =
        (struct vr_rebuild_part){.to = from, .bytes = to - from};
    return VRAM_OK;
}

static vram_status block_add(const struct vr_space *space, const struct vr_block *block) {
    struct vr_rebuild *rebuild;
    uint64_t at = vr_span_addr(block), from, to;
    vram_status status = VRAM_OK;
    while (status == VRAM_OK &&
           (rebuild = rebuild_under(space, &at, vr_span_end(block), &from, &to))) {
        status = part_add(rebuild, from, to);
    }
    return status;
}

/* Cuts a claim over a listed piece so that its whole granules are a claim of their own, and notes
   that one. *claim becomes the last of the new claims. */
static vram_status claim_add(struct vr_space *space, struct vr_block **claim) {
    uint64_t at = vr_span_addr(*claim), from, to, end = vr_span_end(*claim);
    struct vr_rebuild *rebuild = rebuild_under(space, &at, end, &from, &to);
    uint64_t low = vr_granule_up(space, vr_span_addr(*claim)), high = vr_granule_down(space, end);
    if (!rebuild || low >= high) {
        return VRAM_OK;
    }
    assert(vr_inside(vr_span_addr(*claim), end - vr_span_addr(*claim), rebuild->coarse->addr,
                     rebuild->coarse->bytes)); /* sleep_space.c cuts them at pieces */
    if (is_full(rebuild->freed_count)) {
        struct vr_block **freed =
            vr_mem_resize(rebuild->freed, rebuild->freed_count ? rebuild->freed_count * 2 : 1,
                          sizeof *freed, "vram_pool_rebuild");
        if (!freed) {
            return VRAM_ERR_HOST_MEMORY;
        }
        rebuild->freed = freed;
    }
    if (vr_span_stock(space, 2) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (low > vr_span_addr(*claim)) {
        *claim = vr_span_cut(space, *claim, low);
    }
    rebuild->freed[rebuild->freed_count++] = *claim;
    if (high < end) {
        *claim = vr_span_cut(space, *claim, high);
    }
    return VRAM_OK;
}

vram_status vr_rebuild_prepare(struct vr_space *space) {
    vram_status status = VRAM_OK;
    for (struct vr_block *span = vr_span_first(space); span && status == VRAM_OK;
         span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK) {
            status = block_add(space, span);
        } else if (span->span.kind == VR_SPAN_CLAIM) {
            status = claim_add(space, &span);
        }
    }
    return status;
}

/* -------------------------------------------------------------------- stage */

static vram_status part_plan(struct vr_plan *plan, struct vr_rebuild *rebuild,
                             struct vr_rebuild_part *part, uint64_t at) {
    struct vr_piece *piece = vr_mem_alloc(1, sizeof *piece, "vram_pool_rebuild");
    struct vr_plan_item *item = piece ? vr_plan_add(plan, piece) : NULL;
    if (!item) {
        vr_mem_free(piece);
        return VRAM_ERR_HOST_MEMORY;
    }
    piece->addr = VR_NOWHERE;
    piece->bytes = part->bytes;
    item->fresh = true;
    item->growth = true; /* not charged to the time budget */
    item->target = plan->target;
    item->to = at;
    part->piece = piece;
    rebuild->space->planned_bytes += part->bytes;
    return VRAM_OK;
}

vram_status vr_rebuild_stage(struct vr_rebuild *rebuild, struct vr_plan **out) {
    struct vr_space *space = rebuild->space;
    uint64_t bytes = rebuild->used_bytes;
    struct vr_block *addresses = vr_hole_least(space, VR_QUEUE_VOID, bytes);
    struct vr_plan *plan = addresses ? vr_plan_new(space) : NULL;
    if (!plan) {
        return addresses ? VRAM_ERR_HOST_MEMORY : VRAM_ERR_FRAGMENTED;
    }
    uint64_t at = vr_span_addr(addresses);
    vram_status status = vr_granule_map_prepare(&space->granule_map, at, bytes);
    if (status == VRAM_OK && (status = vr_span_stock(space, 3)) == VRAM_OK) {
        rebuild->edge = vr_span_new(space, 0, 0);
        plan->target = vr_hole_cut(space, addresses, at, bytes);
        plan->target->span.was = VR_SPAN_VOID;
        plan->target->span.kind = VR_SPAN_CLAIM;
        plan->addr = at;
        plan->bytes = bytes;
        plan->to = at + bytes;
        plan->behind = true; /* no run of allocations: fit.c does not note it */
    }
    for (uint32_t i = 0; i < rebuild->part_count && status == VRAM_OK; i++) {
        status = part_plan(plan, rebuild, &rebuild->parts[i], at);
        at += rebuild->parts[i].bytes;
    }
    status = vr_plan_finish(space, plan, status, out);
    if (status != VRAM_OK) {
        vr_rebuild_forget(rebuild);
    }
    return status;
}

void vr_rebuild_forget(struct vr_rebuild *rebuild) {
    for (uint32_t i = 0; i < rebuild->part_count; i++) {
        rebuild->parts[i].piece = NULL;
    }
    if (rebuild->edge) {
        vr_span_drop(rebuild->space, rebuild->edge);
    }
    rebuild->edge = NULL;
}

void vr_rebuild_unstaged(struct vr_rebuild *rebuild, uint32_t count) {
    struct vr_space *space = rebuild->space;
    struct vr_block *stage = rebuild->stage, *rest = NULL;
    uint64_t end = vr_span_addr(stage);
    assert(stage->span.kind == VR_SPAN_BLOCK && rebuild->edge);
    space->open_plans++; /* until they have a place or are spares */
    for (uint32_t i = 0; i < count; i++) {
        struct vr_piece *piece = rebuild->parts[i].piece;
        assert(piece->addr == end);
        vr_granule_map_set(&space->granule_map, piece->addr, piece->bytes, NULL);
        piece->addr = VR_NOWHERE;
        end += piece->bytes;
    }
    vr_span_drop(space, rebuild->edge); /* for the cut: keeps (3) */
    rebuild->edge = rebuild->stage = NULL;
    if (count && count < rebuild->part_count) {
        rest = vr_span_cut(space, stage, end);
        space->stats.blocks++;
    } else if (!count) {
        rest = stage;
    }
    if (count) {
        space->stats.blocks--;
        space->stats.out_bytes -= vr_span_bytes(stage);
        stage->span.kind = VR_SPAN_VOID;
        vr_hole_add(space, stage);
    }
    if (rest) {
        vr_space_free(space, rest);
    }
}

static void spare_add(struct vr_space *space, struct vr_piece *piece) {
    assert(piece->addr == VR_NOWHERE);
    vr_list_append(&space->spares, &piece->spare);
    space->stats.spares++;
    space->stats.spare_bytes += piece->bytes;
}

void vr_rebuild_give_up(struct vr_rebuild *rebuild) {
    for (uint32_t i = 0; i < rebuild->part_count; i++) {
        struct vr_piece *piece = rebuild->parts[i].piece;
        if (piece->addr == VR_NOWHERE) {
            spare_add(rebuild->space, piece);
        }
        rebuild->parts[i].piece = NULL;
    }
    rebuild->space->open_plans--;
    vr_space_validate(rebuild->space);
}

void vr_rebuild_swap(struct vr_rebuild *rebuild, bool released) {
    struct vr_space *space = rebuild->space;
    struct vr_piece *coarse = rebuild->coarse;
    assert(!coarse->sleep_state && !coarse->stale_mappings);
    vr_granule_map_set(&space->granule_map, coarse->addr, coarse->bytes, NULL);
    for (uint32_t i = 0; i < rebuild->part_count; i++) {
        struct vr_rebuild_part *part = &rebuild->parts[i];
        part->piece->addr = part->to;
        vr_granule_map_set(&space->granule_map, part->to, part->bytes, part->piece);
    }
    for (uint32_t i = 0; i < rebuild->freed_count; i++) {
        struct vr_block *claim = rebuild->freed[i];
        assert(claim->span.kind == VR_SPAN_CLAIM && vr_span_is_whole(space, claim));
        claim->span.kind = VR_SPAN_VOID;
        claim->stamp = (struct vr_stamp){0};
        vr_hole_add(space, claim);
    }
    space->open_plans--;
    coarse->rebuild = NULL;
    coarse->addr = VR_NOWHERE;
    rebuild->coarse = NULL;
    if (released) {
        vr_piece_leave(space, coarse);
    } else {
        spare_add(space, coarse);
    }
}

void vr_rebuild_end(struct vr_rebuild **list) {
    while (*list) {
        struct vr_rebuild *rebuild = *list;
        *list = rebuild->next;
        rebuild_free(rebuild);
    }
}
