/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_space.c: chooses the pieces of a space that fall asleep or are sealed, and changes its
 * spans accordingly. No driver is called here; everything is under the pool's lock.
 */
#include "core/sleep/sleep.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "core/limit/tag.h"
#include "core/space/hole.h"

#include <assert.h>
#include <string.h>

/* Bytes of a joined piece at most: a sealed one, for which a driver takes 0.1 ms, or one without
   contents, which also is at most half of the distance to the nearer end of its block. */
#define JOIN_MOST      (UINT64_C(64) << 20)
#define JOIN_BARE_MOST (UINT64_C(256) << 20)

enum { END_PART = 2 };

/* What lies over a piece (piece->seen): blocks of the tag; other blocks or claims. */
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

static void mark_seen(struct vr_space *space, const struct vr_block *span, uint8_t what) {
    struct vr_piece *piece;
    for (uint64_t at = vr_span_addr(span); (piece = piece_under(space, &at, vr_span_end(span)));) {
        piece->seen |= what;
    }
}

static bool has_tag(const struct vr_block *block, const char *tag) {
    return !tag || vr_sleep_tag_covers(tag, vr_tag_name(vr_load(&block->tag, VR_RELAXED)));
}

static bool is_wanted(const struct vr_block *block, const char *tag, bool seal) {
    return (!tag && !seal) || (vr_block_is_live(block) && has_tag(block, tag));
}

static void clear_seen(struct vr_space *space) {
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        piece->seen = 0;
    }
}

/* Whether the span is a claim of claim_hole over a piece; NULL: it is not. */
static struct vr_piece *piece_hidden(const struct vr_space *space, const struct vr_block *span) {
    bool hidden =
        span->span.kind == VR_SPAN_CLAIM && !span->span.lost && span->span.was == VR_SPAN_HOLE;
    return hidden ? vr_granule_map_get(&space->granule_map, vr_span_addr(span)) : NULL;
}

/* Marks on every piece what lies over it. VRAM_ERR_BUSY: a block that would fall asleep is pinned,
   or one that would be sealed is exported. */
static vram_status mark_all_seen(struct vr_space *space, const char *tag, bool seal, bool *seen) {
    clear_seen(space);
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK && is_wanted(span, tag, seal)) {
            if (span->pins > span->exports || (seal && span->exports)) {
                return vr_fail(
                    VRAM_ERR_BUSY, "the block at 0x%llx is %s first",
                    (unsigned long long)vr_span_addr(span),
                    seal && span->exports
                        ? "shared with other processes; call vram_share_close"
                        : "pinned; call vram_unpin, or vram_ring_destroy if it is a ring's,");
            }
            *seen = true;
            mark_seen(space, span, span->exports ? SEEN_OTHER : SEEN_WANTED); /* sleep.h (6) */
        } else if (span->span.kind == VR_SPAN_BLOCK || span->span.kind == VR_SPAN_CLAIM) {
            const struct vr_piece *piece = piece_hidden(space, span);
            if (!piece || !piece->seal) {
                mark_seen(space, span, SEEN_OTHER);
            }
        }
    }
    return VRAM_OK;
}

static bool may_sleep(const struct vr_piece *piece, const char *tag, bool seal) {
    return !piece->sleep_state && !(seal && piece->seal) && piece->addr != VR_NOWHERE &&
           !piece->stale_mappings && !(piece->seen & SEEN_OTHER) &&
           ((!tag && !seal) || piece->seen & SEEN_WANTED);
}

static vram_status make_sleep_state(struct vr_space *space, struct vr_piece *piece,
                                    struct vr_sleep_state **sleep_states) {
    struct vr_sleep_state *sleep_state = vr_mem_alloc(1, sizeof *sleep_state, vr_operation());
    if (!sleep_state) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *sleep_state = (struct vr_sleep_state){.next = *sleep_states,
                                           .space = space,
                                           .piece = piece,
                                           .host = piece->seal ? piece->seal->host : NULL,
                                           .mapped = true,
                                           .changing = true};
    piece->sleep_state = sleep_state;
    *sleep_states = sleep_state;
    return VRAM_OK;
}

/* Creates a sleep state for every piece that may sleep. */
static vram_status make_sleep_states(struct vr_space *space, const char *tag, bool seal,
                                     struct vr_sleep_state **sleep_states) {
    vram_status status = VRAM_OK;
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece && status == VRAM_OK;
         piece = vr_space_piece_next(space, piece)) {
        if (may_sleep(piece, tag, seal)) {
            status = make_sleep_state(space, piece, sleep_states);
        }
    }
    return status;
}

/* ------------------------------------------------------------------- spans */

/* Turns the part of a hole over the first piece with a sleep state into a claim. *span becomes that
   claim; it stays the hole if there is no such piece. */
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
    uint64_t from = vr_larger(piece->addr, vr_span_addr(*span)),
             to = vr_smaller(piece_end(piece), end);
    assert(from < to && !piece->stale_mappings); /* may_sleep */
    *span = vr_hole_cut(space, *span, from, to - from);
    (*span)->span.kind = VR_SPAN_CLAIM;
    (*span)->span.was = VR_SPAN_HOLE;
    piece->sleep_state->hidden_bytes += to - from;
    return VRAM_OK;
}

bool vr_sleep_rests(const struct vr_space *space, enum vr_rest how, uint64_t addr, uint64_t bytes) {
    const struct vr_piece *piece;
    for (uint64_t at = addr; (piece = piece_under(space, &at, addr + bytes));) {
        if (how == VR_REST_SEALED ? piece->seal : piece->sleep_state) {
            return true;
        }
    }
    return false;
}

/* Whether a piece under the block is at rest. */
static bool lies_on(const struct vr_space *space, enum vr_rest how, const struct vr_block *block) {
    return vr_sleep_rests(space, how, vr_span_addr(block), vr_span_bytes(block));
}

/* Keeps sleep.h (2) and (5). */
static void block_note(const struct vr_space *space, struct vr_block *block) {
    bool asleep = lies_on(space, VR_REST_ASLEEP, block);
    bool sealed = lies_on(space, VR_REST_SEALED, block);
    if (block->asleep != asleep || block->sealed != sealed) {
        block->asleep = asleep;
        block->sealed = sealed;
        vr_block_note_held(block);
    }
}

void vr_sleep_note_blocks(struct vr_space *space) {
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK) {
            block_note(space, span);
        }
    }
}

/* Adds the block's part of pieces that fall asleep to their contents. Called in address order. */
static void note_contents(struct vr_space *space, const struct vr_block *block) {
    struct vr_piece *piece;
    uint64_t at = vr_span_addr(block);
    while ((piece = piece_under(space, &at, vr_span_end(block)))) {
        struct vr_sleep_state *sleep_state = piece->sleep_state;
        if (sleep_state && sleep_state->changing) {
            const struct vr_tag *tag = vr_load(&block->tag, VR_RELAXED);
            bool first = sleep_state->from == sleep_state->to;
            sleep_state->mixed = sleep_state->mixed || (!first && sleep_state->tag != tag);
            sleep_state->tag = tag;
            sleep_state->from =
                first ? vr_larger(piece->addr, vr_span_addr(block)) : sleep_state->from;
            sleep_state->to = vr_smaller(piece_end(piece), vr_span_end(block));
        }
    }
}

/* Marks the blocks over pieces that are asleep, and hides the holes. */
static vram_status hide_spans(struct vr_space *space) {
    vram_status status = VRAM_OK;
    for (struct vr_block *span = vr_span_first(space); span && status == VRAM_OK;
         span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_HOLE) {
            status = claim_hole(space, &span);
        } else if (span->span.kind == VR_SPAN_BLOCK) {
            block_note(space, span);
            note_contents(space, span);
        }
    }
    return status;
}

/* Whether the span is a claim of claim_hole over a piece that is in full use again. */
static bool claim_is_awake(const struct vr_space *space, const struct vr_block *span) {
    const struct vr_piece *piece = piece_hidden(space, span);
    return piece && piece->woken && !piece->seal;
}

/* Undoes hide_spans for pieces that are awake; keeps (5). A restored hole may merge with holes on
   both sides, whose records are dropped, so the walk continues behind `anchor`, the last span that
   is not a hole. */
static void restore_spans(struct vr_space *space) {
    struct vr_block *anchor = NULL;
    for (struct vr_block *span = vr_span_first(space); span;) {
        if (claim_is_awake(space, span)) {
            span->span.kind = VR_SPAN_HOLE;
            vr_hole_add(space, span);
            span = anchor ? vr_span_next(space, anchor) : vr_span_first(space);
            continue;
        }
        assert(span->span.kind != VR_SPAN_BLOCK || span->asleep ||
               !lies_on(space, VR_REST_ASLEEP, span)); /* (2) */
        if (span->span.kind == VR_SPAN_BLOCK) {
            block_note(space, span);
        }
        anchor = span->span.kind == VR_SPAN_HOLE ? anchor : span;
        span = vr_span_next(space, span);
    }
}

/* ------------------------------------------------------------------ changing */

static void states_free(struct vr_sleep_state *first) {
    while (first) {
        struct vr_sleep_state *next = first->next;
        vr_mem_free(first);
        first = next;
    }
}

/* Hides what lies over the pieces that got sleep states, if that succeeded; on failure ends those
   states. */
static vram_status picked_hide(struct vr_space *space, struct vr_sleep_state **sleep_states,
                               vram_status status) {
    struct vr_sleep_state *ended = NULL;
    if (status == VRAM_OK) {
        status = hide_spans(space);
    }
    if (status != VRAM_OK) {
        vr_sleep_end(space, sleep_states, &ended);
    }
    states_free(ended);
    return status;
}

vram_status vr_sleep_pick(struct vr_space *space, const char *tag, bool seal,
                          struct vr_sleep_state **sleep_states, bool *seen) {
    vram_status status = mark_all_seen(space, tag, seal, seen);
    return status == VRAM_OK
               ? picked_hide(space, sleep_states, make_sleep_states(space, tag, seal, sleep_states))
               : status;
}

vram_status vr_sleep_pick_rebuilds(struct vr_space *space, struct vr_sleep_state **sleep_states) {
    vram_status status = VRAM_OK;
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece && status == VRAM_OK;
         piece = vr_space_piece_next(space, piece)) {
        if (piece->rebuild) {
            status = make_sleep_state(space, piece, sleep_states);
        }
    }
    return picked_hide(space, sleep_states, status);
}

/* -------------------------------------------------------------------- freed */

uint32_t vr_sleep_pieces(const struct vr_space *space, const struct vr_block *block) {
    uint32_t count = 0;
    for (uint64_t at = vr_span_addr(block); piece_under(space, &at, vr_span_end(block));) {
        count++;
    }
    return count;
}

void vr_sleep_hide_block(struct vr_space *space, struct vr_block *block) {
    uint64_t at = vr_span_addr(block), end = vr_span_end(block);
    struct vr_piece *piece;
    while ((piece = piece_under(space, &at, end))) {
        struct vr_block *rest = NULL;
        if (at < end) {
            (void)vr_space_split(space, block, at - vr_span_addr(block), &rest); /* in stock */
        }
        struct vr_sleep_state *state = piece->seal ? piece->seal : piece->sleep_state;
        if (state) {
            state->hidden_bytes += vr_span_bytes(block);
            vr_space_hide(space, block);
        } else {
            vr_space_free(space, block);
        }
        block = rest;
    }
}

/* The claims over an ended piece, [first, end), become a void; returns it. */
static struct vr_block *claims_end(struct vr_space *space, struct vr_block *first, uint64_t end) {
    struct vr_block *before = first->span.before;
    bool merges = vr_span_is(before, VR_SPAN_VOID);
    while (vr_span_end(first) < end) {
        vr_span_absorb(space, first);
    }
    assert(vr_span_end(first) == end);
    first->span.kind = VR_SPAN_VOID;
    first->stamp = (struct vr_stamp){0};
    vr_hole_add(space, first);
    return merges ? before : first;
}

/* Moves states without a piece to *ended. */
static void states_end(struct vr_sleep_state **at, struct vr_sleep_state **ended) {
    while (*at) {
        struct vr_sleep_state *state = *at;
        if (state->piece) {
            at = &state->next;
        } else {
            *at = state->next;
            state->next = *ended;
            *ended = state;
        }
    }
}

void vr_sleep_drop_unused(struct vr_space *space, struct vr_pool *pool, vr_sleep_keeps_fn *keeps,
                          struct vr_sleep *sleep, struct vr_sleep_state **ended) {
    clear_seen(space);
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK ||
            (span->span.kind == VR_SPAN_CLAIM && span->stamp.queue && keeps(pool, span->stamp))) {
            mark_seen(space, span, SEEN_OTHER);
        }
    }
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        struct vr_piece *piece = piece_hidden(space, span);
        if (piece && piece->released && !piece->seen) {
            uint64_t end = piece_end(piece);
            assert(vr_span_addr(span) == piece->addr);
            piece->sleep_state->piece = NULL;
            if (piece->seal) {
                piece->seal->piece = NULL;
            }
            vr_space_forget_piece(space, piece);
            span = claims_end(space, span, end);
        }
    }
    states_end(&sleep->sleep_states, ended);
    states_end(&sleep->seals, ended);
    vr_space_validate(space);
}

/* Marks the pieces under blocks of the tag, also those that were freed and are deferred. */
static void mark_tagged(struct vr_space *space, const char *tag) {
    clear_seen(space);
    for (struct vr_block *span = vr_span_first(space); tag && span;
         span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_BLOCK && (span->asleep || span->sealed) &&
            has_tag(span, tag)) {
            mark_seen(space, span, SEEN_WANTED);
        }
    }
}

void vr_sleep_mark_seals(struct vr_space *space, const char *tag) {
    mark_tagged(space, tag);
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        if (piece->seal) {
            piece->seal->changing = !tag || piece->seen & SEEN_WANTED;
        }
    }
}

/* Notes for each piece that is asleep whether one live block covers it. */
static void note_covers(struct vr_space *space) {
    struct vr_piece *piece = NULL;
    while ((piece = vr_space_piece_next(space, piece))) {
        if (piece->sleep_state) {
            piece->sleep_state->cover_from = piece->sleep_state->cover_to = 0;
        }
    }
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind != VR_SPAN_BLOCK || !span->asleep || !vr_block_is_live(span)) {
            continue;
        }
        uint64_t at = vr_span_addr(span), end = vr_span_end(span);
        while ((piece = piece_under(space, &at, end))) {
            if (piece->sleep_state && piece->addr >= vr_span_addr(span) &&
                piece_end(piece) <= end) {
                piece->sleep_state->cover_from = vr_span_addr(span);
                piece->sleep_state->cover_to = end;
            }
        }
    }
}

void vr_sleep_mark(struct vr_space *space, const char *tag) {
    mark_tagged(space, tag);
    note_covers(space);
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        if (piece->sleep_state && (!tag || piece->seen & SEEN_WANTED)) {
            piece->sleep_state->changing = true;
        }
    }
}

/* Sealed pieces do not move. */
static bool may_join_sealed(const struct vr_sleep_state *a, const struct vr_sleep_state *b) {
    const struct vr_piece *first = a->piece, *second = b->piece;
    return first->seal && second->seal && !a->mixed && !b->mixed && a->tag == b->tag &&
           first->bytes + second->bytes <= JOIN_MOST && a->to == second->addr &&
           b->from == second->addr && first->seal->store == second->seal->store &&
           a->host + (b->from - a->from) == b->host;
}

/* Pieces without contents under one block. Near its ends they stay fine, as those of a large block
   are made (space/supply.c): that is where later blocks cut into what it leaves. */
static bool may_join_bare(const struct vr_sleep_state *a, const struct vr_sleep_state *b) {
    uint64_t begin = a->piece->addr, end = piece_end(b->piece);
    if (a->piece->seal || b->piece->seal || a->host || b->host || !a->cover_to ||
        a->cover_from != b->cover_from) {
        return false;
    }
    uint64_t edge = vr_smaller(begin - a->cover_from, a->cover_to - end);
    return end - begin <= vr_smaller(JOIN_BARE_MOST, edge / END_PART);
}

/* In a direct space each block has pieces of its own, which other processes may map. */
static bool may_join(const struct vr_sleep_state *a, const struct vr_sleep_state *b) {
    return a->space == b->space && !a->space->config.direct &&
           piece_end(a->piece) == b->piece->addr && a->piece->released && b->piece->released &&
           (may_join_sealed(a, b) || may_join_bare(a, b));
}

static void state_absorb(struct vr_sleep_state *a, struct vr_sleep_state *b) {
    a->to = b->to;
    a->hidden_bytes += b->hidden_bytes;
    b->piece = NULL; /* b ends */
}

/* Keeps sleep.h (5): the contents of sealed pieces are joined, too. */
static void piece_absorb(struct vr_sleep_state *a, struct vr_sleep_state *b) {
    struct vr_piece *second = b->piece;
    if (second->seal) {
        vr_sleep_store_join(second->seal->store);
        state_absorb(a->piece->seal, second->seal);
    }
    state_absorb(a, b);
    vr_space_join_pieces(a->space, a->piece, second);
}

/* Removes and frees the states that were absorbed. */
static void states_sweep(struct vr_sleep_state **at) {
    struct vr_sleep_state *ended = NULL;
    states_end(at, &ended);
    states_free(ended);
}

void vr_sleep_join(struct vr_sleep *sleep, struct vr_sleep_state **sleep_states, uint32_t *count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        struct vr_sleep_state *a = kept ? sleep_states[kept - 1] : NULL, *b = sleep_states[i];
        if (a && may_join(a, b)) {
            piece_absorb(a, b);
        } else {
            sleep_states[kept++] = b;
        }
    }
    if (kept < *count) {
        states_sweep(&sleep->sleep_states);
        states_sweep(&sleep->seals);
    }
    *count = kept;
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
        restore_spans(space);
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
