/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.c: the entry points of the block engine: creation, allocation, freeing, statistics. span.c
 * and hole.c keep the spans, fit.c chooses the place of a block, supply.c chooses its memory,
 * plan.c writes and ends plans.
 */
#include "core/space/space.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "core/space/aging.h"
#include "core/space/plan.h"

#include <assert.h>

enum {
    ALLOC_RECORDS = 2,  /* that an allocation needs at most */
    SETTLE_MOST = 1024, /* holes that a request settles: a few milliseconds */
    EXTRA_PART = 5      /* the extra budget gets 1/5 of what the time budget gets */
};

#define SAVED_NS 60e9 /* elapsed time whose share a budget can hold at most */

/* Until prices are measured: those of an H200 under load. */
static const uint64_t first_prices[] = {
    [VR_STEP_CREATE] = 15000, [VR_STEP_UNMAP] = 40000,   [VR_STEP_MAP] = 1000,
    [VR_STEP_ACCESS] = 60000, [VR_STEP_RELEASE] = 15000,
};

/* ---------------------------------------------------------------- creation */

static bool config_valid(const struct vr_space_config *config) {
    uint64_t end;
    if (!vr_is_power_of_two(config->granule) || config->granule < 4096 || !config->passed) {
        return false;
    }
    if (config->mode == VR_SPACE_SEGMENTS) {
        return true;
    }
    return config->bytes >= config->granule && config->bytes % config->granule == 0 &&
           config->base % config->granule == 0 && vr_add(config->base, config->bytes, &end);
}

/* The range is one void. */
vram_status vr_space_add_range(struct vr_space *space, uint64_t base, uint64_t bytes) {
    VR_OPERATION("vram_pool_create");
    assert(space->config.mode == VR_SPACE_VMM);
    assert(bytes > 0 && ((base | bytes) & (space->config.granule - 1)) == 0);
    struct vr_range *ranges =
        vr_mem_resize(space->ranges, space->range_count + 1, sizeof *ranges, vr_operation());
    space->ranges = ranges ? ranges : space->ranges;
    if (!ranges || vr_span_stock(space, 1) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    struct vr_block *span = vr_span_new(space, base, bytes);
    span->span.kind = VR_SPAN_VOID;
    ranges[space->range_count++] = (struct vr_range){base, bytes, span};
    vr_hole_add(space, span);
    return VRAM_OK;
}

vram_status vr_space_create(const struct vr_space_config *config, struct vr_space **out) {
    if (!config_valid(config)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the granule of %llu bytes must be a power of two of at least 4096, and the "
                       "range of %llu bytes at 0x%llx a multiple of it",
                       (unsigned long long)config->granule, (unsigned long long)config->bytes,
                       (unsigned long long)config->base);
    }
    struct vr_space *space = vr_mem_alloc(1, sizeof *space, vr_operation());
    if (!space) {
        return VRAM_ERR_HOST_MEMORY;
    }
    space->config = *config;
    space->config.alias =
        config->alias && config->mode == VR_SPACE_VMM && !config->deterministic && !config->direct;
    if (!space->config.largest_handle) {
        space->config.largest_handle = 64 * VR_MIB;
    }
    space->extra_budget_ns = (int64_t)config->credit_ns;
    space->memory_bytes = config->limit_bytes ? config->limit_bytes : UINT64_MAX;
    space->kept_bytes = UINT64_MAX;
    space->next_at_high_end = true;
    vr_list_init(&space->pending);
    vr_list_init(&space->idle);
    vr_list_init(&space->stale_mappings);
    vr_list_init(&space->pieces);
    vr_list_init(&space->spares);
    for (size_t i = 0; i < sizeof first_prices / sizeof first_prices[0]; i++) {
        space->prices[i] = first_prices[i];
    }
    vr_granule_map_init(&space->granule_map, config->granule);
    if (config->mode == VR_SPACE_VMM &&
        vr_space_add_range(space, config->base, config->bytes) != VRAM_OK) {
        vr_space_destroy(space);
        return VRAM_ERR_HOST_MEMORY;
    }
    *out = space;
    return VRAM_OK;
}

/* Blocks that were never freed are dropped too: their records return to the store. */
static void chain_drop(struct vr_space *space, struct vr_block *span) {
    while (span) {
        struct vr_block *next = span->span.after;
        vr_span_drop(space, span);
        span = next;
    }
}

void vr_space_destroy(struct vr_space *space) {
    if (!space) {
        return;
    }
    assert(space->open_plans == 0);
    for (uint32_t i = 0; i < space->range_count; i++) {
        chain_drop(space, space->ranges[i].first);
    }
    struct vr_link *link;
    while ((link = vr_list_first(&space->pieces))) {
        struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, all);
        vr_link_remove(link);
        chain_drop(space, piece->first);
        vr_mem_free(piece);
    }
    assert(space->stock_count == space->records); /* none is lost or still in use */
    vr_span_stock_free(space);
    vr_granule_map_free(&space->granule_map);
    vr_mem_free(space->ranges);
    vr_mem_free(space);
}

/* -------------------------------------------------------------- allocation */

/* The size of the largest range; for segments, a bound that none can have. */
static uint64_t longest_range(const struct vr_space *space) {
    uint64_t most = space->config.mode == VR_SPACE_VMM ? 0 : UINT64_MAX / 4;
    for (uint32_t i = 0; i < space->range_count; i++) {
        most = vr_larger(most, space->ranges[i].bytes);
    }
    return most;
}

/* Rounds the request. Rejects sizes that no space could hold, so that later sums of addresses and
   sizes cannot overflow. */
static vram_status want_round(const struct vr_space *space, struct vr_want *want) {
    want->align = want->align > VR_SPAN_UNIT ? want->align : VR_SPAN_UNIT;
    if (!vr_is_power_of_two(want->align) || want->align > space->config.granule) {
        return VRAM_ERR_INVALID;
    }
    if (!vr_round_up(want->bytes ? want->bytes : 1, VR_SPAN_UNIT, &want->bytes) ||
        want->bytes > longest_range(space)) {
        return VRAM_ERR_FRAGMENTED;
    }
    return VRAM_OK;
}

/* Adds to a budget, up to a maximum: a pool that was idle for a day must not stall for minutes on
   its next allocation. */
static void budget_add(int64_t *budget_ns, double earned, double most) {
    double sum = (double)*budget_ns + earned;
    *budget_ns = (int64_t)(sum < most ? sum : most);
}

/* Adds a share of the elapsed time to the budgets. */
static void budget_fill(struct vr_space *space, uint64_t now_ns) {
    double share = space->config.share_ppm / 1e6;
    if (space->clock_ns && now_ns > space->clock_ns) {
        double earned = (double)(now_ns - space->clock_ns) * share;
        double saved = SAVED_NS * share, credit = (double)space->config.credit_ns;
        budget_add(&space->budget_ns, earned, saved);
        budget_add(&space->extra_budget_ns, earned / EXTRA_PART, saved / EXTRA_PART + credit);
    }
    space->clock_ns = now_ns > space->clock_ns ? now_ns : space->clock_ns;
}

/* Updates the peak need, which the space aims to hold. Blocks in caches do not count: they are
   drained before the space grows. */
static void need_note(struct vr_space *space, const struct vr_want *want) {
    vr_aging_note_blocks(space);
    uint64_t need = space->stats.out_bytes + want->bytes;
    need -= want->idle_bytes < need ? want->idle_bytes : need;
    if (need > space->stats.peak_need_bytes) {
        space->stats.peak_need_bytes = need;
    }
}

/* Cuts the block out of the hole that was found for it. */
static void hand_out(struct vr_space *space, const struct vr_want *want,
                     const struct vr_placement *place, struct vr_answer *answer) {
    need_note(space, want);
    uint64_t queue = place->hole->stamp.queue;
    struct vr_stamp after = {0};
    if (queue != want->queue) {
        after = place->hole->stamp;
    }
    assert(!after.queue || want->flags & VR_WANT_AFTER); /* only if the request allows it */
    struct vr_block *block = vr_hole_cut(space, place->hole, place->addr, want->bytes);
    assert(place->addr % want->align == 0);
    block->span.kind = VR_SPAN_BLOCK;
    block->stamp = (struct vr_stamp){0};
    space->stats.blocks++;
    space->stats.out_bytes += want->bytes;
    if (!want->behind) {
        vr_fit_note(space, block, want->queue, place->run_end);
    }
    *answer = (struct vr_answer){.block = block, .after = after};
}

/* Plans the block: no mapped memory fits. */
static vram_status plan_for(struct vr_space *space, const struct vr_want *want,
                            const struct vr_placement *place, struct vr_answer *answer) {
    struct vr_plan *plan = NULL;
    vram_status status = VRAM_ERR_FRAGMENTED;
    if (space->config.mode == VR_SPACE_SEGMENTS) {
        status = vr_plan_segment(space, want, &plan);
    } else if (place->window.first) {
        struct vr_placement wider = *place;
        if (space->config.coarse && !want->behind && !(want->flags & VR_WANT_NO_GROWTH)) {
            vr_fit_widen(space, want, &wider.window);
        }
        status = vr_plan_window(space, want, &wider, &plan);
    }
    if (status == VRAM_OK) {
        need_note(space, want);
        *answer = (struct vr_answer){.plan = plan};
    }
    return status;
}

/* Whether the block would cut a free coarse piece, which could otherwise be moved or released;
   keeps aging.h (6). */
static bool cuts_coarse(const struct vr_space *space, const struct vr_placement *place,
                        uint64_t bytes) {
    uint64_t ends[] = {place->addr, place->addr + bytes - 1};
    for (int i = 0; i < 2 && space->tight && !place->hole->stamp.queue; i++) {
        const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, ends[i]);
        if (vr_aging_is_coarse(space, piece) && !piece->stale_mappings &&
            vr_inside(piece->addr, piece->bytes, vr_span_addr(place->hole),
                      vr_span_bytes(place->hole)) &&
            !vr_inside(piece->addr, piece->bytes, place->addr, bytes)) {
            return true;
        }
    }
    return false;
}

/* With VR_WANT_HELD any hole will do; otherwise the policy may prefer to map more memory. */
static struct vr_placement placement_find(struct vr_space *space, const struct vr_want *want) {
    bool held = want->flags & (VR_WANT_HELD | VR_WANT_PROBE) && !(want->flags & VR_WANT_ANY);
    struct vr_placement place =
        want->flags & VR_WANT_HELD ? vr_fit_held(space, want) : vr_fit_find(space, want);
    if (place.hole && held && cuts_coarse(space, &place, want->bytes)) {
        place.hole = NULL;
    }
    return place;
}

/* Finds or plans the block directly behind want->behind. */
static vram_status find_behind(struct vr_space *space, const struct vr_want *want,
                               struct vr_answer *answer) {
    struct vr_placement place;
    if (space->config.direct && !vr_fit_is_alone(space, want)) {
        return VRAM_ERR_BUSY;
    }
    vram_status status = vr_fit_behind(space, want, &place);
    if (!place.hole && vr_hole_settle(space, true)) {
        status = vr_fit_behind(space, want, &place);
    }
    if (place.hole) {
        hand_out(space, want, &place, answer);
        return VRAM_OK;
    }
    bool held = want->flags & (VR_WANT_HELD | VR_WANT_PROBE);
    if (status != VRAM_OK) {
        return held ? status : VRAM_ERR_BUSY;
    }
    if (held) {
        return VRAM_ERR_LIMIT;
    }
    budget_fill(space, want->now_ns);
    return plan_for(space, want, &place, answer);
}

/* Uses the reserve of want->behind; the rest of the reserve is kept for the next growth. */
static vram_status alloc_behind(struct vr_space *space, const struct vr_want *asked,
                                struct vr_answer *answer) {
    struct vr_want want = *asked;
    uint64_t reserve = vr_space_reserve(want.behind);
    if (reserve && want.flags & (VR_WANT_HELD | VR_WANT_PROBE)) {
        return VRAM_ERR_LIMIT; /* nothing is mapped there */
    }
    want.reserve = reserve > want.bytes ? reserve - want.bytes : 0;
    if (reserve) {
        vr_reserve_end(space, want.behind->span.after);
    }
    vram_status status = find_behind(space, &want, answer);
    if (status != VRAM_OK && reserve) {
        vr_space_keep_reserve(space, want.behind, reserve);
    }
    return status;
}

/* Plans a block with a reserve behind it, if there is a place for that. */
static vram_status alloc_with_reserve(struct vr_space *space, const struct vr_want *want,
                                      struct vr_answer *answer) {
    struct vr_want with_reserve = *want;
    struct vr_placement place;
    struct vr_plan *plan = NULL;
    if (want->flags & (VR_WANT_HELD | VR_WANT_PROBE)) {
        return VRAM_ERR_LIMIT;
    }
    (void)vr_hole_settle_some(space, false, SETTLE_MOST); /* settled memory can be moved */
    budget_fill(space, want->now_ns);
    vram_status status = vr_reserve_find(space, &with_reserve, &place)
                             ? vr_plan_window(space, &with_reserve, &place, &plan)
                             : VRAM_ERR_FRAGMENTED;
    if (status == VRAM_OK) {
        need_note(space, want);
        *answer = (struct vr_answer){.plan = plan};
    }
    return status;
}

static bool reserve_is_possible(const struct vr_space *space, const struct vr_want *want) {
    uint64_t rest = space->config.granule - 1;
    return want->reserve && space->config.mode == VR_SPACE_VMM && !(want->bytes & rest) &&
           !(want->reserve & rest) && want->reserve <= UINT64_MAX / 4;
}

/* Whether a request for free memory is refused because a renewal is due: the pool then has a plan
   made, and before it vr_space_tidy. */
static bool refuses_for_renewal(struct vr_space *space, uint32_t flags) {
    if (!(flags & VR_WANT_HELD) || flags & (VR_WANT_ANY | VR_WANT_AFTER) ||
        !vr_aging_renews(space)) {
        return false;
    }
    space->renewal_wait -= space->renewal_wait > 0;
    return space->renewal_wait == 0;
}

/* Stamps are checked only if no hole known to be free fits, to keep a hit fast. After many small
   frees only a part is settled, unless memory is short: one request does not pay for all of them
   under the lock, and the next that finds nothing settles more. */
static struct vr_placement placement_settle(struct vr_space *space, const struct vr_want *want) {
    struct vr_placement place = placement_find(space, want);
    bool short_of_memory = want->flags & (VR_WANT_NO_GROWTH | VR_WANT_AFTER);
    uint32_t most = short_of_memory ? UINT32_MAX : SETTLE_MOST;
    if (!place.hole && vr_hole_settle_some(space, short_of_memory, most)) {
        place = placement_find(space, want);
    }
    return place;
}

struct vr_block *vr_space_take(struct vr_space *space, uint64_t bytes, uint64_t queue) {
    const struct vr_want want = {
        .bytes = bytes, .align = VR_SPAN_UNIT, .queue = queue, .flags = VR_WANT_HELD};
    struct vr_answer answer;
    assert(bytes && bytes % VR_SPAN_UNIT == 0 && queue);
    if (space->suspended || space->config.direct || space->stock_count < ALLOC_RECORDS ||
        bytes > space->stats.hole_bytes ||
        (space->renewal_due && refuses_for_renewal(space, want.flags))) {
        return NULL;
    }
    struct vr_placement place = placement_settle(space, &want);
    if (!place.hole) {
        return NULL;
    }
    hand_out(space, &want, &place, &answer);
    return answer.block;
}

/* Plans a block of a direct space. */
static vram_status alloc_alone(struct vr_space *space, const struct vr_want *want,
                               struct vr_answer *answer) {
    if (want->flags & (VR_WANT_HELD | VR_WANT_PROBE)) {
        return VRAM_ERR_LIMIT;
    }
    struct vr_placement place = {.window = vr_fit_void(space, want->bytes)};
    if (!place.window.first && space->reserves && vr_reserve_end_all(space)) {
        place.window = vr_fit_void(space, want->bytes);
    }
    return plan_for(space, want, &place, answer);
}

vram_status vr_space_alloc(struct vr_space *space, const struct vr_want *asked,
                           struct vr_answer *answer) {
    struct vr_want want = *asked;
    vram_status status = want_round(space, &want);
    assert(want.queue && (!want.behind || vr_span_is(want.behind, VR_SPAN_BLOCK)));
    if (status == VRAM_OK) {
        status = space->suspended ? VRAM_ERR_BUSY : vr_span_stock(space, ALLOC_RECORDS);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (want.behind) {
        return alloc_behind(space, &want, answer);
    }
    if (reserve_is_possible(space, &want)) {
        status = alloc_with_reserve(space, &want, answer);
        if (status != VRAM_ERR_FRAGMENTED) {
            return status;
        }
    }
    want.reserve = 0;
    if (space->config.direct) {
        return alloc_alone(space, &want, answer);
    }
    if (space->renewal_due && refuses_for_renewal(space, want.flags)) {
        return VRAM_ERR_LIMIT;
    }
    struct vr_placement place = placement_settle(space, &want);
    if (!place.hole && want.flags & VR_WANT_AFTER) {
        struct vr_placement shared = vr_fit_after(space, &want);
        place = shared.hole ? shared : place;
    }
    if (place.hole) {
        hand_out(space, &want, &place, answer);
        return VRAM_OK;
    }
    if (want.flags & (VR_WANT_HELD | VR_WANT_PROBE)) {
        return VRAM_ERR_LIMIT;
    }
    budget_fill(space, want.now_ns);
    status = plan_for(space, &want, &place, answer);
    if (status == VRAM_ERR_FRAGMENTED && space->reserves && vr_reserve_end_all(space)) {
        place = placement_find(space, &want); /* again, with the addresses of the reserves */
        status = plan_for(space, &want, &place, answer);
    }
    return status;
}

void vr_space_join(struct vr_space *space, struct vr_block *block, struct vr_block *tail) {
    assert(block->span.kind == VR_SPAN_BLOCK && tail->span.kind == VR_SPAN_BLOCK);
    assert(block->span.after == tail);
    vr_fit_forget(space, tail);
    vr_store(&tail->state, VR_BLOCK_FREE, VR_RELAXED);
    space->stats.blocks--;
    vr_span_absorb(space, block);
}

vram_status vr_space_split(struct vr_space *space, struct vr_block *block, uint64_t bytes,
                           struct vr_block **tail) {
    assert(block->span.kind == VR_SPAN_BLOCK && bytes && bytes % VR_SPAN_UNIT == 0);
    assert(bytes < vr_span_bytes(block));
    if (vr_span_stock(space, 1) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *tail = vr_span_cut(space, block, vr_span_addr(block) + bytes);
    space->stats.blocks++;
    return VRAM_OK;
}

/* The block is one no longer; its span gets another kind. */
static void block_end(struct vr_space *space, struct vr_block *block) {
    assert(block->span.kind == VR_SPAN_BLOCK);
    assert(space->stats.blocks > 0 && space->stats.out_bytes >= vr_span_bytes(block));
    vr_fit_forget(space, block);
    if (vr_space_reserve(block)) {
        vr_reserve_end(space, block->span.after);
    }
    space->stats.blocks--;
    space->stats.out_bytes -= vr_span_bytes(block);
    vr_store(&block->state, VR_BLOCK_FREE, VR_RELAXED); /* for readers without a lock */
}

void vr_space_hide(struct vr_space *space, struct vr_block *block) {
    block_end(space, block);
    block->span.kind = VR_SPAN_CLAIM;
    block->span.was = VR_SPAN_HOLE;
}

void vr_space_free(struct vr_space *space, struct vr_block *block) {
    block_end(space, block);
    block->span.kind = VR_SPAN_HOLE;
    vr_hole_add(space, block);
    vr_hole_note_change(space);
    vr_space_validate(space);
}

vram_status vr_space_trim(struct vr_space *space, uint64_t keep_bytes, struct vr_plan **plan) {
    vr_hole_settle(space, true);
    return vr_plan_trim(space, keep_bytes, plan);
}

vram_status vr_space_sweep(struct vr_space *space, struct vr_plan **plan) {
    return vr_plan_sweep(space, plan);
}

vram_status vr_space_tidy(struct vr_space *space, struct vr_plan **plan) {
    return vr_plan_tidy(space, plan);
}

void vr_space_limit_set(struct vr_space *space, uint64_t bytes, uint64_t memory_bytes,
                        uint64_t kept_bytes) {
    space->config.limit_bytes = bytes ? bytes : 1; /* 0 would mean no limit */
    space->memory_bytes = vr_smaller(memory_bytes, space->config.limit_bytes);
    space->kept_bytes = kept_bytes;
}

void vr_space_rebuilds_set(struct vr_space *space, bool rebuilds) {
    space->rebuilds = rebuilds;
}

void vr_space_stays_set(struct vr_space *space, bool stays) {
    space->stays = stays;
}

void vr_space_suspend(struct vr_space *space, bool suspended) {
    space->suspended = suspended;
}

uint32_t vr_space_open_plans(const struct vr_space *space) {
    return space->open_plans;
}

uint64_t vr_space_changes(const struct vr_space *space) {
    return space->changes;
}

/* -------------------------------------------------------------- statistics */

void vr_space_forget(struct vr_space *space, uint64_t queue) {
    vr_hole_forget(space, queue);
}

bool vr_space_pending(struct vr_space *space, struct vr_stamp *stamp) {
    (void)vr_hole_settle_some(space, false, SETTLE_MOST);
    struct vr_link *link = vr_list_first(&space->pending);
    if (link) {
        *stamp = VR_CONTAINER(link, struct vr_block, span.age)->stamp;
    }
    return link != NULL;
}

bool vr_space_covers(const struct vr_space *space, uint64_t addr, uint64_t bytes) {
    const struct vr_piece *piece = NULL;
    for (uint64_t at = addr; at - addr < bytes; at = piece->addr + piece->bytes) {
        piece = vr_granule_map_get(&space->granule_map, at);
        if (!piece || piece->sleep_state) {
            return false;
        }
    }
    return true;
}

struct vr_piece *vr_space_piece_at(const struct vr_space *space, uint64_t addr) {
    return vr_granule_map_get(&space->granule_map, addr);
}

struct vr_piece *vr_space_piece_next(struct vr_space *space, struct vr_piece *piece) {
    struct vr_link *link =
        piece ? vr_list_next(&space->pieces, &piece->all) : vr_list_first(&space->pieces);
    return link ? VR_CONTAINER(link, struct vr_piece, all) : NULL;
}

struct vr_block *vr_space_stale_next(struct vr_space *space, struct vr_block *stale) {
    struct vr_link *link = stale ? vr_list_next(&space->stale_mappings, &stale->span.age)
                                 : vr_list_first(&space->stale_mappings);
    return link ? VR_CONTAINER(link, struct vr_block, span.age) : NULL;
}

static uint64_t largest_hole(const struct vr_space *space) {
    uint64_t most = 0;
    for (uint32_t i = VR_BINS_SETTLED; i < VR_BINS_SETS; i++) {
        uint64_t bytes = vr_bins_most(&space->size_bins[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t vr_space_reserved(const struct vr_space *space) {
    return space->stats.reserved_bytes;
}

void vr_space_stats_get(struct vr_space *space, struct vr_space_stats *stats) {
    *stats = space->stats;
    stats->largest_hole_bytes = largest_hole(space);
    const struct vr_block *longest = vr_hole_smaller(space, VR_QUEUE_VOID, NULL);
    stats->largest_void_bytes = longest ? vr_span_bytes(longest) : 0;
    for (uint32_t i = 0; i < space->range_count; i++) {
        stats->address_bytes += space->ranges[i].bytes;
    }
    stats->metadata_bytes = sizeof *space + space->records * sizeof(struct vr_block) +
                            space->stats.pieces * sizeof(struct vr_piece) +
                            space->range_count * sizeof *space->ranges +
                            vr_granule_map_bytes(&space->granule_map);
}
