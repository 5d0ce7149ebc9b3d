/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hole.c: free spans in their size bins and in their lists by age; merging, cutting and settling.
 *
 * Settled holes have a set of size bins, and so have voids. Pending holes have a few sets, which
 * queues share by a hash: a free needs no table of queues and allocates nothing.
 */
#include "core/space/hole.h"

#include <assert.h>

enum { UNPASSED_MOST = 64 }; /* unpassed stamps after which vr_hole_settle stops */

static uint64_t span_queue(const struct vr_block *span) {
    return span->span.kind == VR_SPAN_VOID ? VR_QUEUE_VOID : span->stamp.queue;
}

bool vr_hole_key_holds(const struct vr_block *span) {
    return span->span.by_queue == span_queue(span) && span->span.by_bytes == vr_span_bytes(span);
}

/* ------------------------------------------------------------------ size bins */

uint32_t vr_hole_bins(uint64_t queue) {
    if (queue == 0 || queue == VR_QUEUE_VOID) {
        return queue ? VR_BINS_VOIDS : VR_BINS_SETTLED;
    }
    return VR_BINS_PENDING +
           (uint32_t)((queue * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % VR_BINS_QUEUES;
}

struct vr_block *vr_hole_least(const struct vr_space *space, uint64_t queue, uint64_t bytes) {
    return vr_bins_least(&space->size_bins[vr_hole_bins(queue)], queue, bytes);
}

struct vr_block *vr_hole_smaller(const struct vr_space *space, uint64_t queue,
                                 const struct vr_block *span) {
    return vr_bins_smaller(&space->size_bins[vr_hole_bins(queue)], queue, span);
}

uint64_t vr_hole_queue_next(const struct vr_space *space, uint64_t queue) {
    uint64_t next = VR_QUEUE_VOID;
    for (uint32_t i = VR_BINS_PENDING; i < VR_BINS_SETS; i++) {
        next = vr_bins_queue_next(&space->size_bins[i], queue, next);
    }
    return next;
}

/* -------------------------------------------------------------------- index */

/* The list that a hole belongs to, see (3); NULL: none. */
static struct vr_list *hole_list(struct vr_space *space, const struct vr_block *span) {
    if (span->stamp.queue) {
        return &space->pending;
    }
    return vr_span_bytes(span) >= space->config.granule ? &space->idle : NULL;
}

/* Adds a span to its size bins and to its list, behind `older` (NULL: as the youngest). */
static void index_add(struct vr_space *space, struct vr_block *span, struct vr_link *older) {
    assert(vr_span_is_free(span) && vr_block_is_free(span)); /* (4) */
    assert(vr_span_bytes(span) > 0 && !vr_link_linked(&span->span.age));
    assert(span->span.kind == VR_SPAN_HOLE || /* (1) */
           (span->stamp.queue == 0 && vr_span_is_whole(space, span)));
    uint64_t queue = span_queue(span);
    vr_bins_add(&space->size_bins[vr_hole_bins(queue)], span, queue);
    if (span->span.kind != VR_SPAN_HOLE) {
        return;
    }
    struct vr_list *list = hole_list(space, span);
    if (list) {
        struct vr_link *link = &span->span.age;
        link->prev = older ? older : list->head.prev;
        link->next = link->prev->next;
        link->prev->next = link->next->prev = link;
    }
    space->stats.holes++;
    space->stats.hole_bytes += vr_span_bytes(span);
    space->stats.pending_bytes += span->stamp.queue ? vr_span_bytes(span) : 0;
}

static void index_remove(struct vr_space *space, struct vr_block *span) {
    assert(vr_hole_key_holds(span)); /* otherwise the size bins would not find it */
    vr_bins_remove(&space->size_bins[vr_hole_bins(span->span.by_queue)], span);
    if (span->span.kind != VR_SPAN_HOLE) {
        return;
    }
    vr_link_remove(&span->span.age);
    space->stats.holes--;
    assert(space->stats.hole_bytes >= vr_span_bytes(span));
    space->stats.hole_bytes -= vr_span_bytes(span);
    space->stats.pending_bytes -= span->stamp.queue ? vr_span_bytes(span) : 0;
}

/* In deterministic mode no stamp passes: the progress of a device must not change addresses. */
static bool stamp_passed(const struct vr_space *space, struct vr_stamp stamp) {
    if (stamp.queue == 0) {
        return true;
    }
    return !space->config.deterministic && space->config.passed(space->config.user, stamp);
}

/* Whether a hole that no work uses merges into a pending neighbour, so that the neighbour's queue
   finds both as one. The merged hole settles soon, except in deterministic mode, where it may stay
   pending for the life of the queue: there a small block must not withhold a large hole from the
   other queues. */
static bool may_absorb(const struct vr_space *space, const struct vr_block *pending,
                       const struct vr_block *hole) {
    return stamp_passed(space, hole->stamp) &&
           (!space->config.deterministic || vr_span_bytes(hole) <= vr_span_bytes(pending));
}

/* Whether two neighbours merge, and the stamp of the merged span. */
static bool merged_stamp(const struct vr_space *space, const struct vr_block *a,
                         const struct vr_block *b, struct vr_stamp *stamp) {
    if (a->span.kind != b->span.kind) {
        return false;
    }
    if (a->span.kind == VR_SPAN_VOID) {
        *stamp = (struct vr_stamp){0};
    } else if (a->stamp.queue == b->stamp.queue) {
        *stamp = a->stamp.value > b->stamp.value ? a->stamp : b->stamp;
    } else if (may_absorb(space, b, a)) {
        *stamp = b->stamp;
    } else if (may_absorb(space, a, b)) {
        *stamp = a->stamp;
    } else {
        return false;
    }
    return true;
}

/* Merges a span that is in no bin with its neighbours. One merge can enable another: a hole whose
   stamp has passed may have separated two holes of one queue. */
static struct vr_block *hole_merge(struct vr_space *space, struct vr_block *span) {
    struct vr_stamp stamp = {0};
    for (bool more = true; more;) {
        struct vr_block *before = span->span.before, *after = span->span.after;
        more = false;
        if (after && merged_stamp(space, span, after, &stamp)) {
            index_remove(space, after);
            vr_span_absorb(space, span);
            span->stamp = stamp;
            more = true;
        }
        if (before && merged_stamp(space, before, span, &stamp)) {
            index_remove(space, before);
            vr_span_absorb(space, before);
            before->stamp = stamp;
            span = before;
            more = true;
        }
    }
    assert(span->span.kind != VR_SPAN_VOID || /* (2) */
           (!vr_span_is(span->span.before, VR_SPAN_VOID) &&
            !vr_span_is(span->span.after, VR_SPAN_VOID)));
    return span;
}

void vr_hole_add(struct vr_space *space, struct vr_block *span) {
    index_add(space, hole_merge(space, span), NULL);
}

void vr_hole_return(struct vr_space *space, struct vr_block *span) {
    span = hole_merge(space, span);
    struct vr_list *list = hole_list(space, span);
    assert(list); /* a piece is not smaller than a granule */
    index_add(space, span, &list->head);
}

struct vr_block *vr_hole_cut(struct vr_space *space, struct vr_block *span, uint64_t addr,
                             uint64_t bytes) {
    assert(vr_span_addr(span) <= addr && addr + bytes <= vr_span_end(span));
    assert(vr_span_is_free(span) && bytes > 0);
    /* The rest takes the place of the whole in the list: cutting does not change a hole's age. */
    struct vr_list *list = hole_list(space, span);
    struct vr_link *older = span->span.age.prev;
    index_remove(space, span);
    if (addr + bytes < vr_span_end(span)) {
        struct vr_block *upper = vr_span_cut(space, span, addr + bytes);
        index_add(space, upper, hole_list(space, upper) == list ? older : NULL);
    }
    if (vr_span_addr(span) < addr) {
        struct vr_block *lower = span;
        span = vr_span_cut(space, span, addr);
        index_add(space, lower, hole_list(space, lower) == list ? older : NULL);
    }
    return span;
}

void vr_hole_forget(struct vr_space *space, uint64_t queue) {
    struct vr_block *hole;
    while ((hole = vr_hole_smaller(space, queue, NULL))) {
        index_remove(space, hole);
        hole->stamp = (struct vr_stamp){0};
        vr_hole_add(space, hole);
    }
    /* Holes that are hidden or claimed come back later, and then no stamp passes. */
    for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
        if (span->span.kind == VR_SPAN_CLAIM && span->span.was == VR_SPAN_HOLE &&
            span->stamp.queue == queue) {
            span->stamp = (struct vr_stamp){0};
        }
    }
}

uint32_t vr_hole_settle_some(struct vr_space *space, bool all, uint32_t most) {
    uint32_t settled = 0;
    uint32_t left = all ? UINT32_MAX : UNPASSED_MOST;
    if (space->config.deterministic) {
        return 0;
    }
    struct vr_link *link = vr_list_first(&space->pending), *next;
    for (; link && left > 0 && settled < most; link = next) {
        struct vr_block *span = VR_CONTAINER(link, struct vr_block, span.age);
        next = vr_list_next(&space->pending, link);
        assert(span->span.kind == VR_SPAN_HOLE && span->stamp.queue); /* (3) */
        if (!stamp_passed(space, span->stamp)) {
            left--;
            continue;
        }
        index_remove(space, span);
        span->stamp = (struct vr_stamp){0};
        /* A merge may absorb the hole that was next in the list: then start over. */
        uint64_t before = space->stats.holes;
        vr_hole_add(space, span);
        settled++;
        space->changes++;
        next = space->stats.holes == before + 1 ? next : vr_list_first(&space->pending);
    }
    return settled;
}

bool vr_hole_settle(struct vr_space *space, bool all) {
    return vr_hole_settle_some(space, all, UINT32_MAX) > 0;
}

/* ------------------------------------------------------------------ changes */

static _Thread_local uint64_t changes_here; /* in all spaces */

void vr_hole_note_change(struct vr_space *space) {
    space->changes++;
    changes_here++;
}

uint64_t vr_space_changes_here(void) {
    return changes_here;
}
