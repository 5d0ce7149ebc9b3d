/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c: writes the steps of a plan and applies their outcome. supply.c chooses the pieces.
 *
 *  (1) An open plan shows in the space only as claims: the granule map and the pieces change when
 *      the plan ends.
 *  (2) The end of a plan depends only on which steps of each item were done; a commit is the case
 *      in which all were.
 *  (3) Ending a plan allocates nothing: the window is reassembled from the spans it was cut into,
 *      and two records for the edges of the block were set aside.
 *  (4) One ACCESS step covers one void of the window, so a void becomes usable as a whole or not at
 *      all.
 */
#include "core/space/plan.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

/* ------------------------------------------------------------------ making */

/* Keeps (3): the records for the edges of the block are set aside before anything is claimed. */
struct vr_plan *vr_plan_new(struct vr_space *space) {
    if (vr_span_stock(space, 4) != VRAM_OK) {
        return NULL;
    }
    struct vr_plan *plan = vr_mem_alloc(1, sizeof *plan, "vram_alloc");
    if (!plan) {
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        struct vr_block *edge = vr_span_new(space, 0, 0);
        edge->span.after = plan->edges;
        plan->edges = edge;
    }
    space->open_plans++;
    return plan;
}

struct vr_plan_item *vr_plan_add(struct vr_plan *plan, struct vr_piece *piece) {
    assert(!plan->steps); /* they are written for all items at once */
    if (plan->item_count == plan->item_capacity) {
        uint32_t capacity = plan->item_capacity ? plan->item_capacity * 2 : 8;
        struct vr_plan_item *items =
            vr_mem_resize(plan->items, capacity, sizeof *items, "vram_alloc");
        if (!items) {
            return NULL;
        }
        plan->items = items;
        plan->item_capacity = capacity;
    }
    struct vr_plan_item *item = &plan->items[plan->item_count++];
    *item = (struct vr_plan_item){.piece = piece, .to = VR_NOWHERE};
    return item;
}

vram_status vr_plan_take(struct vr_space *space, struct vr_plan *plan, struct vr_piece *piece,
                         struct vr_block *hole) {
    if (vr_span_stock(space, 2) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    struct vr_plan_item *item = vr_plan_add(plan, piece);
    if (!item) {
        return VRAM_ERR_HOST_MEMORY;
    }
    assert(!piece->sleep_state && !piece->released); /* sleep.h (1) */
    if (!hole) {
        assert(piece->addr == VR_NOWHERE && vr_link_linked(&piece->spare));
        vr_link_remove(&piece->spare);
        space->stats.spares--;
        space->stats.spare_bytes -= piece->bytes;
    } else {
        assert(vr_inside(piece->addr, piece->bytes, vr_span_addr(hole), vr_span_bytes(hole)));
        assert(!(hole->stamp.queue || piece->stale_mappings) ||
               space->config.alias); /* space.h (4) */
        item->alias = hole->stamp.queue || piece->stale_mappings;
        item->source = vr_hole_cut(space, hole, piece->addr, piece->bytes);
        item->source->span.was = VR_SPAN_HOLE;
        item->source->span.kind = VR_SPAN_CLAIM;
    }
    return VRAM_OK;
}

static void step_push(struct vr_plan *plan, enum vr_step_kind kind, struct vr_plan_item *item,
                      uint64_t addr) {
    assert(plan->count < plan->item_count * 4 + 1);
    plan->steps[plan->count++] = (struct vr_step){.kind = kind,
                                                  .handles = 1,
                                                  .piece = item->piece,
                                                  .addr = addr,
                                                  .bytes = item->piece->bytes,
                                                  .item = item};
}

static bool is_released(const struct vr_plan *plan, const struct vr_plan_item *item) {
    return !item->fresh && !item->target && !plan->sweep;
}

/* Writes all steps of one kind other than MAP and ACCESS. Segments are never mapped or unmapped. */
static void steps_push_all(const struct vr_space *space, struct vr_plan *plan,
                           enum vr_step_kind kind) {
    for (uint32_t i = 0; i < plan->item_count; i++) {
        struct vr_plan_item *item = &plan->items[i];
        bool mapped = item->source && space->config.mode == VR_SPACE_VMM;
        bool due = kind == VR_STEP_CREATE    ? item->fresh
                   : kind == VR_STEP_RELEASE ? is_released(plan, item)
                                             : mapped && !item->alias;
        if (due) {
            step_push(plan, kind, item, mapped ? vr_span_addr(item->source) : item->piece->addr);
        }
    }
}

/* The items of one void are consecutive, except for items between them that are released. */
static void steps_push_maps(struct vr_plan *plan) {
    uint32_t i = 0;
    while (i < plan->item_count) {
        struct vr_plan_item *first = &plan->items[i];
        uint32_t handles = 0;
        for (; i < plan->item_count; i++) {
            struct vr_plan_item *item = &plan->items[i];
            if (item->target && item->target != first->target) {
                break;
            }
            if (item->target) {
                step_push(plan, VR_STEP_MAP, item, item->to);
                handles++;
            }
        }
        if (handles) {
            plan->steps[plan->count++] = (struct vr_step){.kind = VR_STEP_ACCESS,
                                                          .handles = handles,
                                                          .addr = vr_span_addr(first->target),
                                                          .bytes = vr_span_bytes(first->target),
                                                          .item = first};
        }
    }
}

static void count_items(struct vr_plan *plan) {
    for (uint32_t i = 0; i < plan->item_count; i++) {
        const struct vr_plan_item *item = &plan->items[i];
        bool released = is_released(plan, item);
        bool moved = !item->fresh && item->target;
        plan->created_handles += item->fresh;
        plan->created_bytes += item->fresh ? item->piece->bytes : 0;
        plan->released_handles += released;
        plan->released_bytes += released ? item->piece->bytes : 0;
        plan->moved_handles += moved;
        plan->moved_bytes += moved ? item->piece->bytes : 0;
    }
}

/*
 * CREATE fails most often, so it comes first: then there is nothing to undo. But if pieces are
 * released to make memory available for it, the releases come before.
 */
vram_status vr_plan_write(struct vr_space *space, struct vr_plan *plan) {
    assert(!plan->steps && plan->edges); /* keeps (3) */
    count_items(plan);
    plan->steps = vr_mem_alloc((size_t)plan->item_count * 4 + 1, sizeof *plan->steps, "vram_alloc");
    if (!plan->steps) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (!plan->released_handles) {
        steps_push_all(space, plan, VR_STEP_CREATE);
    }
    steps_push_all(space, plan, VR_STEP_UNMAP);
    steps_push_all(space, plan, VR_STEP_RELEASE);
    if (plan->released_handles) {
        steps_push_all(space, plan, VR_STEP_CREATE);
    }
    steps_push_maps(plan);
    return VRAM_OK;
}

/* ------------------------------------------------------------------- price */

/* The measured or else the expected time of all steps that are not for growth. */
static uint64_t price_of(const struct vr_space *space, const struct vr_plan *plan) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct vr_step *step = &plan->steps[i];
        uint64_t ns = step->ns ? step->ns / step->handles : space->prices[step->kind];
        uint32_t left = step->handles;
        for (const struct vr_plan_item *item = step->item; left > 0; item++) {
            if (step->kind != VR_STEP_ACCESS || item->target == step->item->target) {
                sum += item->growth ? 0 : ns;
                left--;
            }
        }
    }
    return sum;
}

/* Updates the running means. Driver calls take longer while the device is busy, and the next plan
   is likely to run under the same conditions as the last. */
static void learn_prices(struct vr_space *space, const struct vr_plan *plan, uint32_t done) {
    for (uint32_t i = 0; i < done; i++) {
        const struct vr_step *step = &plan->steps[i];
        uint64_t *price = &space->prices[step->kind];
        if (step->ns) {
            *price = (*price * 7 + step->ns / step->handles) / 8;
        }
    }
}

/* ------------------------------------------------------------------ ending */

/* Marks for each item which of its steps were done: keeps (2). */
static void mark_done(struct vr_plan *plan, uint32_t done) {
    assert(done <= plan->count);
    for (uint32_t i = 0; i < done; i++) {
        const struct vr_step *step = &plan->steps[i];
        if (step->kind != VR_STEP_ACCESS) {
            step->item->done |= 1u << step->kind;
            continue;
        }
        for (struct vr_plan_item *item = step->item; item < plan->items + plan->item_count;
             item++) {
            if (item->target == step->item->target) {
                item->done |= VR_DONE_ACCESS;
            }
        }
    }
}

/* The claim becomes a void: nothing is mapped there any more, and no work can use it. */
static void void_add(struct vr_space *space, struct vr_block *span) {
    assert(span->span.kind == VR_SPAN_CLAIM);
    span->span.kind = VR_SPAN_VOID;
    span->stamp = (struct vr_stamp){0};
    vr_hole_add(space, span);
}

/* The place becomes a stale mapping of the piece. */
static void stale_add(struct vr_space *space, struct vr_block *source, struct vr_piece *piece) {
    assert(source->span.kind == VR_SPAN_CLAIM && piece->stale_mappings); /* span.h (6) */
    assert(vr_span_bytes(source) == piece->bytes);
    source->span.kind = VR_SPAN_STALE;
    source->span.segment = piece;
    vr_list_append(&space->stale_mappings, &source->span.age);
    space->stats.stale_mappings++;
}

/* Ends the sweep of a stale mapping: it becomes a void if it was unmapped. Its piece is mapped
   elsewhere and is not affected. */
static void stale_end(struct vr_space *space, struct vr_plan_item *item) {
    assert(item->source->span.segment == item->piece && item->piece->stale_mappings);
    if (item->done & VR_DONE_UNMAP) {
        item->piece->stale_mappings--;
        item->source->span.segment = NULL;
        void_add(space, item->source);
    } else {
        stale_add(space, item->source, item->piece);
    }
}

/* Ends the claim that an item was taken from. */
static void source_end(struct vr_space *space, struct vr_plan_item *item) {
    struct vr_block *source = item->source;
    assert(source->span.kind == VR_SPAN_CLAIM && !source->span.lost); /* span.h (5) */
    if (space->config.mode == VR_SPACE_SEGMENTS && item->done & VR_DONE_RELEASE) {
        vr_span_drop(space, source);
        return;
    }
    if (item->alias && item->done & (VR_DONE_ACCESS | VR_DONE_STUCK)) {
        vr_granule_map_set(&space->granule_map, item->piece->addr, item->piece->bytes, NULL);
        item->piece->stale_mappings++;
        stale_add(space, source, item->piece);
    } else if (item->done & VR_DONE_UNMAP) {
        assert(!item->piece->stale_mappings &&
               !source->stamp.queue); /* no work can reach it: space.h (4) */
        vr_granule_map_set(&space->granule_map, item->piece->addr, item->piece->bytes, NULL);
        item->piece->addr = VR_NOWHERE;
        void_add(space, source);
    } else {
        source->span.kind = VR_SPAN_HOLE;
        vr_hole_return(space, source);
    }
}

static void piece_enter(struct vr_space *space, struct vr_piece *piece) {
    vr_list_append(&space->pieces, &piece->all);
    space->stats.pieces++;
    space->stats.reserved_bytes += piece->bytes;
    if (space->stats.reserved_bytes > space->stats.peak_reserved_bytes) {
        space->stats.peak_reserved_bytes = space->stats.reserved_bytes;
    }
}

void vr_piece_leave(struct vr_space *space, struct vr_piece *piece) {
    assert(!piece->stale_mappings && !piece->sleep_state && !vr_link_linked(&piece->spare));
    assert(space->stats.reserved_bytes >= piece->bytes);
    vr_link_remove(&piece->all);
    space->stats.pieces--;
    space->stats.reserved_bytes -= piece->bytes;
    vr_mem_free(piece);
}

void vr_space_join_pieces(struct vr_space *space, struct vr_piece *first, struct vr_piece *second) {
    assert(first->released && first->addr + first->bytes == second->addr);
    uint64_t addr = second->addr, bytes = second->bytes;
    vr_space_forget_piece(space, second);
    vr_granule_map_set(&space->granule_map, addr, bytes, first);
    first->bytes += bytes;
}

uint64_t vr_space_released(const struct vr_space *space, const struct vr_block *block) {
    uint64_t bytes = 0, end = vr_span_end(block);
    for (uint64_t at = vr_span_addr(block), next; at < end; at = next) {
        const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, at);
        next = piece ? piece->addr + piece->bytes : vr_granule_map_next(&space->granule_map, at);
        next = vr_smaller(next, end);
        bytes += piece && piece->released ? next - at : 0;
    }
    return bytes;
}

void vr_space_forget_piece(struct vr_space *space, struct vr_piece *piece) {
    assert(piece->released && !piece->stale_mappings);
    vr_granule_map_set(&space->granule_map, piece->addr, piece->bytes, NULL);
    vr_link_remove(&piece->all);
    space->stats.pieces--;
    vr_mem_free(piece);
}

/* The piece is mapped at its target. If it has no access there and could not be unmapped, the
   addresses can never be used again: the claim stays for ever, and the memory counts as lost. */
static void piece_settle_at(struct vr_space *space, struct vr_plan_item *item) {
    assert(item->target->span.kind == VR_SPAN_CLAIM);
    assert(vr_inside(item->to, item->piece->bytes, vr_span_addr(item->target),
                     vr_span_bytes(item->target)));
    if (item->alias && item->source->stamp.value > item->target->stamp.value) {
        /* Both are of one queue. The part of the target that no block covers becomes its hole. */
        item->target->stamp = item->source->stamp;
    }
    item->piece->addr = item->to;
    vr_granule_map_set(&space->granule_map, item->to, item->piece->bytes, item->piece);
    if (item->done & VR_DONE_STUCK) {
        item->target->span.lost = true;
        space->stats.lost++;
        space->stats.lost_bytes += item->piece->bytes;
    } else {
        item->target->span.was = VR_SPAN_HOLE; /* no longer a void */
    }
}

/* Ends an item's piece: released, at its target, at its source, or a spare. */
static void piece_end(struct vr_space *space, struct vr_plan_item *item) {
    struct vr_piece *piece = item->piece;
    if (item->fresh) {
        assert(space->planned_bytes >= piece->bytes);
        space->planned_bytes -= piece->bytes;
        if (!(item->done & VR_DONE_CREATE) || item->done & VR_DONE_RELEASE) {
            vr_mem_free(piece);
            return;
        }
        piece_enter(space, piece);
    } else if (item->done & VR_DONE_RELEASE) {
        vr_piece_leave(space, piece);
        return;
    }
    if (item->done & (VR_DONE_ACCESS | VR_DONE_STUCK)) {
        piece_settle_at(space, item);
    } else if (piece->addr == VR_NOWHERE) {
        vr_list_append(&space->spares, &piece->spare);
        space->stats.spares++;
        space->stats.spare_bytes += piece->bytes;
    }
}

static void claim_end(struct vr_space *space, struct vr_block *claim) {
    assert(claim->span.kind == VR_SPAN_CLAIM);
    assert(claim->span.was == VR_SPAN_HOLE || claim->span.was == VR_SPAN_VOID);
    if (!claim->span.lost) {
        claim->span.kind = claim->span.was;
        vr_hole_add(space, claim);
    }
}

/* Cuts the claims of the window at `addr`, so that the block consists of whole claims. */
static void claims_cut(struct vr_space *space, struct vr_plan *plan, uint64_t addr) {
    struct vr_block *claim = plan->target;
    while (claim && vr_span_end(claim) <= addr) {
        claim = claim->span.after;
    }
    if (claim && vr_span_addr(claim) < addr) {
        assert(addr < plan->to); /* where a claim ends */
        vr_span_cut(space, claim, addr);
    }
}

/* Ends the claims of the window; on success those of the block are merged into the block. */
static struct vr_block *window_end(struct vr_space *space, struct vr_plan *plan, bool success) {
    struct vr_block *block = NULL, *next;
    if (success) {
        claims_cut(space, plan, plan->addr);
        claims_cut(space, plan, plan->addr + plan->bytes);
    }
    for (struct vr_block *claim = plan->target; claim && vr_span_addr(claim) < plan->to;
         claim = next) {
        next = claim->span.after;
        assert(claim->span.kind == VR_SPAN_CLAIM); /* the plan has the whole window: span.h (5) */
        if (!success || vr_span_addr(claim) < plan->addr ||
            vr_span_addr(claim) >= plan->addr + plan->bytes) {
            claim_end(space, claim);
        } else if (block) {
            vr_span_absorb(space, block);
        } else {
            block = claim;
        }
    }
    assert(!block == !success);
    assert(!block || (vr_span_addr(block) == plan->addr && vr_span_bytes(block) == plan->bytes));
    return block;
}

/* A new segment: the block at its start, a hole behind it. */
static struct vr_block *segment_end(struct vr_space *space, struct vr_plan *plan) {
    struct vr_piece *piece = NULL;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        piece = plan->items[i].fresh ? plan->items[i].piece : piece;
    }
    assert(piece && piece->addr != VR_NOWHERE && piece->bytes >= plan->bytes);
    struct vr_block *block = vr_span_new(space, piece->addr, piece->bytes);
    block->span.segment = piece;
    piece->first = block;
    if (piece->bytes > plan->bytes) {
        struct vr_block *rest = vr_span_cut(space, block, piece->addr + plan->bytes);
        rest->span.kind = VR_SPAN_HOLE;
        vr_hole_add(space, rest);
    }
    return block;
}

/* Whether the plan counts against the time budget; a trim does not. */
static bool is_moving(const struct vr_plan *plan) {
    return plan->bytes || plan->sweep || plan->tidies;
}

/* Replaces the price charged in advance by the time actually spent. */
static void budget_charge(struct vr_space *space, const struct vr_plan *plan, uint64_t spent_ns) {
    space->budget_ns += (int64_t)plan->price_ns - (int64_t)spent_ns;
    space->stats.move_ns += spent_ns;
}

static void count_moves(struct vr_space *space, const struct vr_plan *plan) {
    for (uint32_t i = 0; plan->bytes && i < plan->item_count; i++) {
        const struct vr_plan_item *item = &plan->items[i];
        if (!item->fresh && item->done & (VR_DONE_UNMAP | VR_DONE_ACCESS | VR_DONE_RELEASE)) {
            space->stats.moved_pieces++;
            space->stats.moved_bytes += item->piece->bytes;
        }
    }
}

/* Keeps (2) and (3). */
static struct vr_block *plan_end(struct vr_space *space, struct vr_plan *plan, bool success) {
    struct vr_block *block = NULL;
    count_moves(space, plan);
    while (plan->edges) {
        struct vr_block *edge = plan->edges;
        plan->edges = edge->span.after;
        vr_span_drop(space, edge);
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        struct vr_plan_item *item = &plan->items[i];
        if (plan->sweep) {
            stale_end(space, item);
            continue;
        }
        if (item->source) {
            source_end(space, item);
        }
        piece_end(space, item);
    }
    if (plan->target) {
        block = window_end(space, plan, success);
        if (plan->reserve && !success) {
            vr_reserve_end(space, plan->reserve);
        }
    } else if (success && plan->bytes) {
        block = segment_end(space, plan);
    }
    if (block) {
        block->span.kind = VR_SPAN_BLOCK;
        block->stamp = (struct vr_stamp){0};
        space->stats.blocks++;
        space->stats.out_bytes += plan->bytes;
        if (!plan->behind) {
            vr_fit_note(space, block, plan->queue, plan->run_end);
        }
    }
    assert(space->open_plans > 0);
    space->open_plans--;
    vr_hole_note_change(space);
    vr_mem_free(plan->items);
    vr_mem_free(plan->steps);
    vr_mem_free(plan);
    return block;
}

void vr_plan_cancel(struct vr_space *space, struct vr_plan *plan) {
    plan_end(space, plan, false);
}

vram_status vr_plan_finish(struct vr_space *space, struct vr_plan *plan, vram_status status,
                           struct vr_plan **out) {
    if (status == VRAM_OK && plan->item_count) {
        status = vr_plan_write(space, plan);
    }
    if (status != VRAM_OK || !plan->item_count) {
        vr_plan_cancel(space, plan);
        plan = NULL;
    }
    *out = plan;
    return status;
}

struct vr_block *vr_space_commit(struct vr_space *space, struct vr_plan *plan) {
    assert(plan->steps);
    learn_prices(space, plan, plan->count);
    mark_done(plan, plan->count);
    budget_charge(space, plan, is_moving(plan) ? price_of(space, plan) : 0);
    space->renewed_bytes += plan->renews ? plan->released_bytes : 0;
    struct vr_block *block = plan_end(space, plan, true);
    vr_space_validate(space);
    return block;
}

/* Memory that has become usable in the window stays there as a hole. A piece that was unmapped and
   not mapped again becomes a spare; the next plan uses spares first. */
void vr_space_undo(struct vr_space *space, struct vr_plan *plan, uint32_t done) {
    assert(done < plan->count);
    learn_prices(space, plan, done);
    mark_done(plan, done);
    plan->count = done;
    budget_charge(space, plan, is_moving(plan) ? price_of(space, plan) : 0);
    plan->count = 0;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        struct vr_plan_item *item = &plan->items[i];
        if (item->done & VR_DONE_MAP && !(item->done & VR_DONE_ACCESS)) {
            step_push(plan, VR_STEP_UNMAP, item, item->to);
        }
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        struct vr_plan_item *item = &plan->items[i];
        if (item->done & VR_DONE_CREATE && !(item->done & VR_DONE_ACCESS)) {
            step_push(plan, VR_STEP_RELEASE, item, item->piece->addr);
        }
    }
}

void vr_space_abort(struct vr_space *space, struct vr_plan *plan, const bool *failed) {
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct vr_step *step = &plan->steps[i];
        assert(step->kind == VR_STEP_UNMAP || step->kind == VR_STEP_RELEASE); /* of vr_space_undo */
        bool ok = failed ? !failed[i] : !step->failed;
        if (step->kind == VR_STEP_UNMAP && !ok) {
            step->item->done |= VR_DONE_STUCK;
        } else if (step->kind == VR_STEP_RELEASE && ok && !(step->item->done & VR_DONE_STUCK)) {
            step->item->done |= VR_DONE_RELEASE;
        }
    }
    plan_end(space, plan, false);
    vr_space_validate(space);
}
