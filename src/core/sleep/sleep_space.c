/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_space.c: which pieces of a space fall asleep, and what that does to its spans. No driver is
 * called here; everything is under the pool's lock.
 */
#include "core/sleep/sleep.h"

#include "base/error.h"
#include "base/memory.h"
#include "core/limit/tag.h"
#include "core/space/hole.h"

#include <assert.h>
#include <string.h>

/* What lies over a piece, as one walk over the spans finds out. */
enum { SEEN_WANTED = 1, SEEN_OTHER = 2 };

bool vr_sleep_tag_covers(const char *tag, const char *of_block) {
    size_t bytes = strlen(tag);
    return of_block && strncmp(tag, of_block, bytes) == 0 &&
           (of_block[bytes] == 0 || of_block[bytes] == '/');
}

static uint64_t piece_end(const struct vr_piece *piece) {
    return piece->addr + piece->bytes;
}

/* The first piece under [*addr, end); *addr moves to where the next search begins. NULL: none. */
static struct vr_piece *piece_under(const struct vr_space *space, uint64_t *addr, uint64_t end) {
    while (*addr < end) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, *addr);
        if (piece) {
            *addr = piece_end(piece);
            return piece;
        }
        *addr = vr_granule_down(space, *addr) + space->config.granule;
    }
    return NULL;
}

static void see(struct vr_space *space, const struct vr_block *span, uint8_t what) {
    struct vr_piece *piece;
    for (uint64_t at = vr_span_addr(span); (piece = piece_under(space, &at, vr_span_end(span)));) {
        piece->seen |= what;
    }
}

static bool is_wanted(const struct vr_block *block, const char *tag) {
    if (!tag) {
        return true;
    }
    return vr_block_is_live(block) &&
           vr_sleep_tag_covers(tag, vr_tag_name(vr_load(&block->tag, VR_RELAXED)));
}

static void forget_seen(struct vr_space *space) {
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        piece->seen = 0;
    }
}

/* Notes on every piece what lies over it. VRAM_ERR_BUSY: a block that would fall asleep is
   pinned. */
static vram_status see_all(struct vr_space *space, const char *tag, bool *seen) {
    forget_seen(space);
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK && is_wanted(span, tag)) {
            if (span->pins) {
                return vr_fail(VRAM_ERR_BUSY,
                               "the block at 0x%llx is pinned; vram_unpin comes first",
                               (unsigned long long)vr_span_addr(span));
            }
            *seen = true;
            see(space, span, SEEN_WANTED);
        } else if (span->span.kind == VR_SPAN_BLOCK || span->span.kind == VR_SPAN_CLAIM) {
            see(space, span, SEEN_OTHER);
        }
    }
    return VRAM_OK;
}

static bool may_sleep(const struct vr_piece *piece, const char *tag) {
    return !piece->sleep_state && piece->addr != VR_NOWHERE && !piece->stale_mappings &&
           !(piece->seen & SEEN_OTHER) && (!tag || piece->seen & SEEN_WANTED);
}

/* Gives every piece that may sleep a sleep state. */
static vram_status make_sleep_states(struct vr_space *space, const char *tag,
                                     struct vr_sleep_state **sleep_states) {
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        if (!may_sleep(piece, tag)) {
            continue;
        }
        struct vr_sleep_state *sleep_state = vr_mem_alloc(1, sizeof *sleep_state, vr_operation());
        if (!sleep_state) {
            return VRAM_ERR_HOST_MEMORY;
        }
        *sleep_state = (struct vr_sleep_state){.next = *sleep_states,
                                               .space = space,
                                               .piece = piece,
                                               .mapped = true,
                                               .changing = true};
        piece->sleep_state = sleep_state;
        *sleep_states = sleep_state;
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------- spans */

static uint64_t higher(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t lower(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* What of a hole lies over the first piece with a sleep state becomes a claim. *span is that claim
   then, or the hole, where there is no such piece. */
static vram_status claim_hole(struct vr_space *space, struct vr_block **span) {
    uint64_t at = vr_span_addr(*span), end = vr_span_end(*span);
    struct vr_piece *piece;
    while ((piece = piece_under(space, &at, end)) && !piece->sleep_state) {
    }
    if (!piece) {
        return VRAM_OK;
    }
    if (vr_span_stock(space, 2) != VRAM_OK) {
        return VRAM_ERR_HOST_MEMORY;
    }
    uint64_t from = higher(piece->addr, vr_span_addr(*span)), to = lower(piece_end(piece), end);
    assert(from < to && !piece->stale_mappings); /* one that has stale mappings does not sleep */
    *span = vr_hole_cut(space, *span, from, to - from);
    (*span)->span.kind = VR_SPAN_CLAIM;
    (*span)->span.was = VR_SPAN_HOLE;
    return VRAM_OK;
}

/* Whether a piece under the block is asleep. */
static bool lies_on_sleeping(const struct vr_space *space, const struct vr_block *block) {
    struct vr_piece *piece;
    uint64_t at = vr_span_addr(block);
    while ((piece = piece_under(space, &at, vr_span_end(block))) && !piece->sleep_state) {
    }
    return piece != NULL;
}

/* What the block has on pieces that fall asleep is contents of theirs. Spans come by address. */
static void note_contents(struct vr_space *space, const struct vr_block *block) {
    struct vr_piece *piece;
    uint64_t at = vr_span_addr(block);
    while ((piece = piece_under(space, &at, vr_span_end(block)))) {
        struct vr_sleep_state *sleep_state = piece->sleep_state;
        if (sleep_state && sleep_state->changing) {
            sleep_state->from = sleep_state->from == sleep_state->to
                                    ? higher(piece->addr, vr_span_addr(block))
                                    : sleep_state->from;
            sleep_state->to = lower(piece_end(piece), vr_span_end(block));
        }
    }
}

/* Keeps sleep.h (2), and hides the holes. */
static vram_status settle_down(struct vr_space *space) {
    vram_status status = VRAM_OK;
    for (struct vr_block *span = vr_span_first(space); span && status == VRAM_OK;
         span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_HOLE) {
            status = claim_hole(space, &span);
        } else if (span->span.kind == VR_SPAN_BLOCK && lies_on_sleeping(space, span)) {
            span->asleep = true;
            vr_block_note_held(span);
            note_contents(space, span);
        }
    }
    return status;
}

/* A claim of ours over a piece that is awake again. */
static bool is_over(const struct vr_space *space, const struct vr_block *span) {
    if (span->span.kind != VR_SPAN_CLAIM || span->span.lost || span->span.was != VR_SPAN_HOLE) {
        return false;
    }
    const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, vr_span_addr(span));
    return piece && piece->woken;
}

/* The other way round. A hole that is put back may merge with holes on both sides, whose records
   go; the walk goes on behind the last span that is none. */
static void get_up(struct vr_space *space) {
    struct vr_block *anchor = NULL;
    for (struct vr_block *span = vr_span_first(space); span;) {
        if (is_over(space, span)) {
            span->span.kind = VR_SPAN_HOLE;
            vr_hole_add(space, span);
            span = anchor ? vr_span_next(space, anchor) : vr_span_first(space);
            continue;
        }
        assert(span->span.kind != VR_SPAN_BLOCK || span->asleep ||
               !lies_on_sleeping(space, span)); /* (2) */
        if (span->span.kind == VR_SPAN_BLOCK && span->asleep && !lies_on_sleeping(space, span)) {
            span->asleep = false;
            vr_block_note_held(span);
        }
        anchor = span->span.kind == VR_SPAN_HOLE ? anchor : span;
        span = vr_span_next(space, span);
    }
}

/* ------------------------------------------------------------------ changing */

vram_status vr_sleep_pick(struct vr_space *space, const char *tag,
                          struct vr_sleep_state **sleep_states, bool *seen) {
    struct vr_sleep_state *ended = NULL;
    vram_status status = see_all(space, tag, seen);
    if (status == VRAM_OK) {
        status = make_sleep_states(space, tag, sleep_states);
        if (status == VRAM_OK) {
            status = settle_down(space);
        }
        if (status != VRAM_OK) {
            vr_sleep_end(space, sleep_states, &ended);
        }
    }
    while (ended) {
        struct vr_sleep_state *next = ended->next;
        vr_mem_free(ended);
        ended = next;
    }
    return status;
}

uint64_t vr_sleep_mark(struct vr_space *space, const char *tag) {
    uint64_t missing = 0;
    forget_seen(space);
    for (struct vr_block *span = vr_span_first(space); tag && span;
         span = vr_span_next(space, span)) {
        const char *own = vr_tag_name(vr_load(&span->tag, VR_RELAXED));
        if (span->span.kind == VR_SPAN_BLOCK && span->asleep && vr_sleep_tag_covers(tag, own)) {
            see(space, span, SEEN_WANTED);
        }
    }
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        if (piece->sleep_state && (!tag || piece->seen & SEEN_WANTED)) {
            piece->sleep_state->changing = true;
            missing += piece->released ? piece->bytes : 0;
        }
    }
    return missing;
}

void vr_sleep_end(struct vr_space *space, struct vr_sleep_state **sleep_states,
                  struct vr_sleep_state **ended) {
    bool any = false;
    for (struct vr_sleep_state **at = sleep_states; *at;) {
        struct vr_sleep_state *sleep_state = *at;
        bool woken = sleep_state->space == space && sleep_state->changing && sleep_state->mapped &&
                     !sleep_state->piece->released;
        assert(sleep_state->piece->sleep_state == sleep_state); /* (4) */
        if (woken) {
            *at = sleep_state->next;
            sleep_state->next = *ended;
            *ended = sleep_state;
            sleep_state->piece->sleep_state = NULL;
            sleep_state->piece->woken = true;
            any = true;
        } else {
            at = &sleep_state->next;
        }
    }
    if (any) {
        get_up(space);
        for (struct vr_sleep_state *sleep_state = *ended; sleep_state;
             sleep_state = sleep_state->next) {
            sleep_state->piece->woken = false;
        }
    }
}

void vr_sleep_set_released(struct vr_sleep_state *sleep_state, bool released) {
    struct vr_space_stats *stats = &sleep_state->space->stats;
    assert(sleep_state->piece->sleep_state == sleep_state &&
           sleep_state->piece->released != released);
    assert(!released || stats->reserved_bytes >= sleep_state->piece->bytes);
    sleep_state->piece->released = released;
    stats->reserved_bytes += released ? -sleep_state->piece->bytes : sleep_state->piece->bytes;
    if (stats->reserved_bytes > stats->peak_reserved_bytes) {
        stats->peak_reserved_bytes = stats->reserved_bytes;
    }
}
