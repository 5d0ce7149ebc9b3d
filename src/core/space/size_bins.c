/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_bins.c: see size_bins.h.
 *
 *  (1) All sizes in a bin are below those in the next bin: the first bin, upwards or downwards,
 *      with a match for a queue has the answer.
 *  (2) Bit b of `filled` is set exactly if bin b has a root.
 *  (3) Treap priorities need no storage: they are a hash of the address of the record.
 */
#include "core/space/size_bins.h"

#include "base/size.h"

#include <assert.h>

enum {
    UNIT_BITS = 9, /* sizes are multiples of 512 */
    PART_BITS = 3  /* log2 of the bins per power of two */
};

/* The sort key of a span in its bin. */
struct bin_key {
    uint64_t queue, bytes, addr;
};

static uint64_t addr_of(const struct vr_block *span) {
    return vr_load(&span->addr, VR_RELAXED);
}

/* by_queue and by_bytes are in one cache line with the links, so that a step down reads one line
   and not three. The address is read only if those are equal. */
static bool is_below(const struct vr_block *span, struct bin_key key) {
    if (span->span.by_queue != key.queue) {
        return span->span.by_queue < key.queue;
    }
    return span->span.by_bytes != key.bytes ? span->span.by_bytes < key.bytes
                                            : addr_of(span) < key.addr;
}

static struct bin_key key_of(const struct vr_block *span) {
    return (struct bin_key){span->span.by_queue, span->span.by_bytes, addr_of(span)};
}

bool vr_bins_less(const struct vr_block *a, const struct vr_block *b) {
    return is_below(a, key_of(b));
}

/* -------------------------------------------------------------------- treap */

static uint64_t treap_priority(const struct vr_block *span) {
    uint64_t mixed = (uint64_t)(uintptr_t)span * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 32;
}

/* Descends while the heap order allows, then splits the subtree there below the new node. */
static void tree_insert(struct vr_block **at, struct vr_block *span) {
    struct bin_key key = key_of(span);
    while (*at && treap_priority(*at) >= treap_priority(span)) {
        at = is_below(*at, key) ? &(*at)->span.right : &(*at)->span.left;
    }
    struct vr_block *rest = *at, **low = &span->span.left, **high = &span->span.right;
    *at = span;
    while (rest) { /* splits the subtree around the key */
        if (is_below(rest, key)) {
            *low = rest;
            low = &rest->span.right;
            rest = *low;
        } else {
            *high = rest;
            high = &rest->span.left;
            rest = *high;
        }
    }
    *low = *high = NULL;
}

/* Keys are unique because addresses are: the path to a node is found without a link to its
   parent. */
static void tree_remove(struct vr_block **at, struct vr_block *span) {
    struct bin_key key = key_of(span);
    while (*at != span) {
        assert(*at);
        at = is_below(*at, key) ? &(*at)->span.right : &(*at)->span.left;
    }
    struct vr_block *low = span->span.left, *high = span->span.right;
    while (low && high) { /* joins its two subtrees */
        if (treap_priority(low) > treap_priority(high)) {
            *at = low;
            at = &low->span.right;
            low = *at;
        } else {
            *at = high;
            at = &high->span.left;
            high = *at;
        }
    }
    *at = low ? low : high;
    span->span.left = span->span.right = NULL;
}

/* The first with a key of at least `key`. */
static struct vr_block *tree_from(struct vr_block *at, struct bin_key key) {
    struct vr_block *best = NULL;
    while (at) {
        if (is_below(at, key)) {
            at = at->span.right;
        } else {
            best = at;
            at = at->span.left;
        }
    }
    return best;
}

/* The last with a key below `key`. */
static struct vr_block *tree_below(struct vr_block *at, struct bin_key key) {
    struct vr_block *best = NULL;
    while (at) {
        if (is_below(at, key)) {
            best = at;
            at = at->span.right;
        } else {
            at = at->span.left;
        }
    }
    return best;
}

/* --------------------------------------------------------------------- bins */

uint32_t vr_bins_index(uint64_t bytes) {
    uint64_t units = bytes >> UNIT_BITS;
    if (units >> PART_BITS == 0) {
        return (uint32_t)units;
    }
    uint32_t shift = vr_high_bit(units) - PART_BITS;
    uint32_t bin = (shift << PART_BITS) + (uint32_t)(units >> shift);
    return bin < VR_BINS_COUNT ? bin : VR_BINS_COUNT - 1;
}

/* The first non-empty bin from `bin` upwards; VR_BINS_COUNT: none. */
static uint32_t filled_from(const struct vr_size_bins *bins, uint32_t bin) {
    for (uint32_t word = bin / 64; word < VR_BINS_WORDS; word++) {
        uint64_t bits = bins->filled[word];
        bits = word == bin / 64 ? bits >> bin % 64 << bin % 64 : bits;
        if (bits) {
            return word * 64 + vr_low_bit(bits);
        }
    }
    return VR_BINS_COUNT;
}

/* The first non-empty bin from `bin` downwards; VR_BINS_COUNT: none. */
static uint32_t filled_to(const struct vr_size_bins *bins, uint32_t bin) {
    for (uint32_t word = bin / 64 + 1; word-- > 0;) {
        uint64_t bits = bins->filled[word];
        bits = word == bin / 64 ? bits << (63 - bin % 64) >> (63 - bin % 64) : bits;
        if (bits) {
            return word * 64 + vr_high_bit(bits);
        }
    }
    return VR_BINS_COUNT;
}

void vr_bins_add(struct vr_size_bins *bins, struct vr_block *span, uint64_t queue) {
    assert(!span->span.left && !span->span.right);
    span->span.by_queue = queue;
    span->span.by_bytes = vr_load(&span->bytes, VR_RELAXED);
    uint32_t bin = vr_bins_index(span->span.by_bytes);
    tree_insert(&bins->roots[bin], span);
    bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

void vr_bins_remove(struct vr_size_bins *bins, struct vr_block *span) {
    uint32_t bin = vr_bins_index(span->span.by_bytes);
    assert(bins->filled[bin / 64] >> bin % 64 & 1); /* (2) */
    tree_remove(&bins->roots[bin], span);
    if (!bins->roots[bin]) {
        bins->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
}

struct vr_block *vr_bins_least(const struct vr_size_bins *bins, uint64_t queue, uint64_t bytes) {
    struct bin_key key = {queue, bytes, 0};
    for (uint32_t bin = filled_from(bins, vr_bins_index(bytes)); bin < VR_BINS_COUNT;
         bin = filled_from(bins, bin + 1)) {
        struct vr_block *found = tree_from(bins->roots[bin], key);
        if (found && found->span.by_queue == queue) {
            return found; /* keeps (1) */
        }
    }
    return NULL;
}

struct vr_block *vr_bins_smaller(const struct vr_size_bins *bins, uint64_t queue,
                                 const struct vr_block *span) {
    struct bin_key key = span ? key_of(span) : (struct bin_key){queue, UINT64_MAX, UINT64_MAX};
    uint32_t bin = filled_to(bins, vr_bins_index(key.bytes));
    while (bin < VR_BINS_COUNT) {
        struct vr_block *found = tree_below(bins->roots[bin], key);
        if (found && found->span.by_queue == queue) {
            return found; /* keeps (1) */
        }
        assert(bin > 0); /* which is empty: no span is shorter than a unit */
        bin = filled_to(bins, bin - 1);
    }
    return NULL;
}

uint64_t vr_bins_queue_next(const struct vr_size_bins *bins, uint64_t queue, uint64_t none) {
    uint64_t best = none;
    for (uint32_t bin = filled_from(bins, 0); bin < VR_BINS_COUNT;
         bin = filled_from(bins, bin + 1)) {
        struct vr_block *found = tree_from(bins->roots[bin], (struct bin_key){queue + 1, 0, 0});
        best = found && found->span.by_queue < best ? found->span.by_queue : best;
    }
    return best;
}

uint64_t vr_bins_most(const struct vr_size_bins *bins) {
    uint32_t bin = filled_to(bins, VR_BINS_COUNT - 1);
    struct vr_block *root = bin < VR_BINS_COUNT ? bins->roots[bin] : NULL;
    uint64_t most = 0;
    for (const struct vr_block *span = tree_from(root, (struct bin_key){0, 0, 0}); span;
         span = tree_from(root, (struct bin_key){span->span.by_queue + 1, 0, 0})) {
        span = tree_below(root, (struct bin_key){span->span.by_queue, UINT64_MAX, UINT64_MAX});
        most = span->span.by_bytes > most ? span->span.by_bytes : most;
    }
    return most;
}
