/* SPDX-License-Identifier: Apache-2.0 */
/* free_piece.c: finds a free piece, that is, one that lies wholly inside a hole, or a spare. */
#include "core/space/free_piece.h"

#include "base/size.h"
#include "core/space/hole.h"

#include <assert.h>

enum {
    IDLE_MOST = 64,     /* idle holes examined for a piece */
    PENDING_MOST = 1024 /* the same of pending ones, most of which are too small */
};

/* Which pieces may be taken. */
struct takeable {
    uint64_t most; /* bytes at most */
    bool alias;    /* the piece stays mapped where it is, so that it may have stale mappings too; a
                      piece that has some may not be unmapped or released */
};

/* Whether a piece under the hole lies wholly inside it and may be taken. */
static bool piece_is_takeable(const struct vr_block *hole, const struct vr_piece *piece,
                              struct takeable which) {
    return piece->addr >= vr_span_addr(hole) && piece->addr + piece->bytes <= vr_span_end(hole) &&
           piece->bytes <= which.most && (!piece->stale_mappings || which.alias);
}

static struct vr_piece *lowest_piece(const struct vr_space *space, const struct vr_block *hole,
                                     struct takeable which) {
    uint64_t addr = vr_granule_up(space, vr_span_addr(hole));
    while (addr < vr_span_end(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr);
        assert(piece);
        if (piece_is_takeable(hole, piece, which)) {
            return piece;
        }
        addr = piece->addr + piece->bytes;
    }
    return NULL;
}

static struct vr_piece *highest_piece(const struct vr_space *space, const struct vr_block *hole,
                                      struct takeable which) {
    uint64_t addr = vr_granule_down(space, vr_span_end(hole));
    while (addr > vr_span_addr(hole)) {
        struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr - 1);
        assert(piece);
        if (piece_is_takeable(hole, piece, which)) {
            return piece;
        }
        addr = piece->addr;
    }
    return NULL;
}

/* Whether a piece lies wholly inside the hole, including one that cannot be taken yet because of
   stale mappings. */
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

/* A piece of the hole that may be taken, or NULL. If one end of the hole borders on unmapped
   addresses it is the piece next to that end, so that the hole shrinks and is not split. */
static struct vr_piece *inner_piece(const struct vr_space *space, const struct vr_block *hole,
                                    struct takeable which) {
    bool from_above =
        vr_span_is_unmapped(hole->span.after) && !vr_span_is_unmapped(hole->span.before);
    return from_above ? highest_piece(space, hole, which) : lowest_piece(space, hole, which);
}

/* The segment that the hole fills completely, or NULL. */
static struct vr_piece *empty_segment(const struct vr_block *hole) {
    return hole->span.before || hole->span.after ? NULL : hole->span.segment;
}

/* How much a hole is worth keeping: 0 for an isolated one. */
static int hole_worth(const struct vr_block *hole) {
    return 2 - vr_hole_unmapped_sides(hole);
}

struct vr_piece *vr_free_idle(struct vr_space *space, struct vr_block **hole) {
    struct vr_piece *best = NULL;
    struct vr_link *link = vr_list_first(&space->idle), *next;
    for (int left = IDLE_MOST; link && left > 0 && (!best || hole_worth(*hole) > 0); link = next) {
        next = vr_list_next(&space->idle, link);
        struct vr_block *here = VR_CONTAINER(link, struct vr_block, span.age);
        assert(here->span.kind == VR_SPAN_HOLE && !here->stamp.queue); /* span.h (3) */
        left--;
        if (best && hole_worth(here) >= hole_worth(*hole)) {
            continue;
        }
        struct vr_piece *piece =
            space->config.mode == VR_SPACE_VMM
                ? inner_piece(space, here, (struct takeable){UINT64_MAX, false})
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

struct vr_piece *vr_free_pending(struct vr_space *space, uint64_t queue, uint64_t most,
                                 struct vr_link **seen, struct vr_block **hole) {
    struct vr_link *link;
    int left = PENDING_MOST;
    while (queue && left-- > 0 &&
           (link = *seen ? vr_list_next(&space->pending, *seen) : vr_list_first(&space->pending))) {
        *hole = VR_CONTAINER(link, struct vr_block, span.age);
        assert((*hole)->span.kind == VR_SPAN_HOLE && (*hole)->stamp.queue); /* span.h (3) */
        bool own = (*hole)->stamp.queue == queue;
        struct vr_piece *piece =
            own ? inner_piece(space, *hole, (struct takeable){most, true}) : NULL;
        if (piece) {
            return piece;
        }
        *seen = link;
    }
    return NULL;
}

struct vr_piece *vr_free_unswept(const struct vr_space *space, uint64_t most,
                                 struct vr_block **hole) {
    assert(space->config.alias);
    struct vr_link *link = vr_list_first(&space->idle);
    for (; link; link = vr_list_next(&space->idle, link)) {
        *hole = VR_CONTAINER(link, struct vr_block, span.age);
        struct vr_piece *piece = inner_piece(space, *hole, (struct takeable){most, true});
        if (piece) {
            return piece;
        }
    }
    return NULL;
}

struct vr_piece *vr_free_spare(const struct vr_space *space) {
    struct vr_link *link = vr_list_first(&space->spares);
    return link ? VR_CONTAINER(link, struct vr_piece, spare) : NULL;
}
