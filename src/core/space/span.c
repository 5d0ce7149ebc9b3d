/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.c: records and their chain by address.
 *
 * Records come from one store for all pools, because readers without a lock may read a block that
 * was freed (block.h). Each space keeps some in stock, so that a free that merges three spans and
 * an allocation that cuts one rarely take the store's lock.
 */
#include "core/space/span.h"

#include "base/stable.h"

#include <assert.h>

enum {
    STOCK_MOST = 64, /* records in stock at most */
    STOCK_MORE = 8   /* taken from the store beyond what is needed now */
};

static struct vr_stable store = VR_STABLE_INIT(struct vr_block);

/* Takes several at a time, so that vr_space_take rarely lacks them. */
vram_status vr_span_stock(struct vr_space *space, uint32_t count) {
    uint32_t target = space->stock_count < count ? count + STOCK_MORE : 0;
    while (space->stock_count < target) {
        struct vr_block *span = vr_stable_take(&store, "vram_alloc");
        if (!span) {
            return space->stock_count < count ? VRAM_ERR_HOST_MEMORY : VRAM_OK;
        }
        vr_store(&span->state, VR_BLOCK_FREE, VR_RELAXED);
        span->span = (struct vr_span){.after = space->stock};
        space->stock = span;
        space->stock_count++;
        space->records++;
    }
    return VRAM_OK;
}

struct vr_block *vr_span_new(struct vr_space *space, uint64_t addr, uint64_t bytes) {
    struct vr_block *span = space->stock;
    assert(span && space->stock_count > 0);
    assert(span->span.kind == VR_SPAN_NONE && vr_block_is_free(span)); /* block.h (2) */
    space->stock = span->span.after;
    space->stock_count--;
    span->span = (struct vr_span){0};
    span->stamp = (struct vr_stamp){0};
    vr_store(&span->addr, addr, VR_RELAXED);
    vr_store(&span->bytes, bytes, VR_RELAXED);
    return span;
}

struct vr_block *vr_span_first(const struct vr_space *space) {
    return space->range_count ? space->ranges[0].first : NULL;
}

struct vr_block *vr_span_next(const struct vr_space *space, const struct vr_block *span) {
    if (span->span.after) {
        return span->span.after;
    }
    uint32_t next = 1;
    while (next < space->range_count &&
           vr_span_end(span) != space->ranges[next - 1].base + space->ranges[next - 1].bytes) {
        next++;
    }
    return next < space->range_count ? space->ranges[next].first : NULL;
}

/* The record keeps its address and its state FREE, for late readers (block.h (2)). */
void vr_span_drop(struct vr_space *space, struct vr_block *span) {
    span->span = (struct vr_span){.after = space->stock};
    if (space->stock_count < STOCK_MOST) {
        space->stock = span;
        space->stock_count++;
    } else {
        space->records--;
        vr_stable_give(&store, span);
    }
}

void vr_span_stock_free(struct vr_space *space) {
    while (space->stock) {
        struct vr_block *span = space->stock;
        space->stock = span->span.after;
        vr_stable_give(&store, span);
    }
    space->stock_count = 0;
}

/* The lower part keeps the record: span.h (7). */
struct vr_block *vr_span_cut(struct vr_space *space, struct vr_block *span, uint64_t addr) {
    uint64_t end = vr_span_end(span);
    assert(vr_span_addr(span) < addr && addr < end);
    assert(addr % VR_SPAN_UNIT == 0);
    assert(!vr_link_linked(&span->span.age) && !span->span.lost); /* a lost span never changes */
    struct vr_block *upper = vr_span_new(space, addr, end - addr);
    upper->stamp = span->stamp;
    upper->span.kind = span->span.kind;
    upper->span.was = span->span.was;
    upper->span.segment = span->span.segment;
    upper->span.before = span;
    upper->span.after = span->span.after;
    if (upper->span.after) {
        upper->span.after->span.before = upper;
    }
    span->span.after = upper;
    vr_store(&span->bytes, addr - vr_span_addr(span), VR_RELAXED);
    return upper;
}

void vr_span_absorb(struct vr_space *space, struct vr_block *span) {
    struct vr_block *next = span->span.after;
    assert(next && vr_span_addr(next) == vr_span_end(span));
    assert(next->span.before == span && !vr_link_linked(&next->span.age));
    assert(!span->span.lost && !next->span.lost); /* span.h (5) */
    vr_store(&span->bytes, vr_span_bytes(span) + vr_span_bytes(next), VR_RELAXED);
    span->span.after = next->span.after;
    if (next->span.after) {
        next->span.after->span.before = span;
    }
    vr_span_drop(space, next);
}
