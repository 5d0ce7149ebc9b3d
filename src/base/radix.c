/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radix.c: the address map. Invariants:
 *
 *  (1) A slot holds nothing (NULL), a child node (even pointer), or a record (pointer with the
 *      lowest bit set). A record is in the highest slots whose spans it covers completely. So range
 *      and tree determine each other: remove finds exactly what insert has stored.
 *  (2) `filled` counts a node's slots that are not NULL. A node other than the root with none left
 *      is unlinked and freed, so all slots of a node in the stable are NULL.
 *  (3) A node's memory is a node for ever (vr_stable), its slots only ever hold what (1) says, and
 *      each is read and written whole.
 *  (4) A node on the path to a mapped address has that address's slot filled: it is not freed
 *      before the address is unmapped.
 *
 * Why readers need no lock. A reader takes at most six steps, each a load from a slot of something
 * that was a node (3), so it ends and never follows a wild pointer. If the address stays mapped
 * during the lookup, every node on the path stays in its place (4) and the reader finds the record.
 * If the address is being mapped or unmapped meanwhile, the reader may be in a node that was freed
 * and reused elsewhere, perhaps on another level or in another tree. It then reads NULL; or a node,
 * and continues within its six steps (a node found where only records can be ends the walk with
 * NULL); or a record of another address. Records are type-stable by contract, so the caller may
 * read the record and sees by its base, size and generation that it is the wrong one. That is the
 * same result as a moment before or later. Slots are stored with release and loaded with acquire,
 * so a record or node is seen as it was when it was linked, or newer.
 *
 * Writers hold the tree's lock. They check first and change afterwards: insert knows how many nodes
 * it needs and holds them all before it writes a slot; remove has checked every slot before it
 * clears one.
 */
#include "base/radix.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/stable.h"

#include <assert.h>

#define LEVELS     6u
#define SLOT_BITS  9u
#define NODE_SLOTS (1u << SLOT_BITS)
#define PAGE_BITS  12u

struct vr_radix_node {
    struct vr_radix_node *spare; /* next in a list of unlinked nodes; undefined in the tree */
    uint32_t filled;             /* slots that are not NULL; for writers only */
    vr_atomic_ptr slots[NODE_SLOTS];
};

_Static_assert(VR_RADIX_PAGE == 1u << PAGE_BITS, "one page size");
_Static_assert(PAGE_BITS + (LEVELS - 1) * SLOT_BITS + 7 == 64, "the levels cover 64 bits");

static struct vr_stable nodes = VR_STABLE_INIT(struct vr_radix_node);
static vr_atomic_u64 nodes_used;

/* Addresses from first to last, both included, so that a span can end at 2^64. */
struct addr_span {
    uint64_t first, last;
};

/* The part of a span that lies in one slot. */
struct span_part {
    struct addr_span span;
    unsigned index; /* of the slot */
    bool whole;     /* it is the whole span of the slot */
};

/* ---------------------------------------------------------------------- slots */

static unsigned level_shift(unsigned level) {
    return PAGE_BITS + (LEVELS - 1 - level) * SLOT_BITS;
}

static unsigned slot_index(unsigned level, uint64_t addr) {
    return (unsigned)(addr >> level_shift(level)) & (NODE_SLOTS - 1);
}

static bool is_record(const void *slot) {
    return (uintptr_t)slot & 1;
}

static void *record_slot(const void *record) {
    return (void *)((uintptr_t)record | 1);
}

/* The part of `span` in the slot of `at`, an address inside the span. Callers step with at =
   part.span.last + 1 until the end of the span. */
static struct span_part part_at(unsigned level, struct addr_span span, uint64_t at) {
    uint64_t mask = (UINT64_C(1) << level_shift(level)) - 1;
    uint64_t slot_last = at | mask;
    struct span_part part = {.index = slot_index(level, at)};
    part.span.first = at;
    part.span.last = slot_last < span.last ? slot_last : span.last;
    part.whole = (at & mask) == 0 && part.span.last == slot_last;
    return part;
}

static void *slot_get(struct vr_radix_node *node, unsigned index) {
    return vr_load(&node->slots[index], VR_RELAXED); /* under the writers' lock */
}

static void slot_set(struct vr_radix_node *node, unsigned index, void *value) {
    node->filled += value ? 1 : 0;
    node->filled -= slot_get(node, index) ? 1 : 0;
    vr_store(&node->slots[index], value, VR_RELEASE);
}

/* ---------------------------------------------------------------------- nodes */

static void node_give(struct vr_radix_node *node) {
    vr_stable_give(&nodes, node);
    vr_fetch_sub(&nodes_used, 1, VR_RELAXED);
}

/* Frees a list of nodes that were never linked. */
static void spares_give(struct vr_radix_node *spares) {
    while (spares) {
        struct vr_radix_node *next = spares->spare;
        node_give(spares);
        spares = next;
    }
}

/* Takes `count` nodes as a list; false, with none taken, if memory ran out. */
static bool spares_take(unsigned count, struct vr_radix_node **spares) {
    struct vr_radix_node *list = NULL;
    for (; count > 0; count--) {
        struct vr_radix_node *node = vr_stable_take(&nodes, "vr_radix_insert");
        if (!node) {
            spares_give(list);
            return false;
        }
        vr_fetch_add(&nodes_used, 1, VR_RELAXED);
        node->spare = list;
        list = node;
    }
    *spares = list;
    return true;
}

static struct vr_radix_node *spare_use(struct vr_radix_node **spares) {
    struct vr_radix_node *node = *spares;
    assert(node); /* as many were taken as needed */
    *spares = node->spare;
    return node;
}

/* --------------------------------------------------------------------- insert */

/* Whether nothing in `span` is mapped. Adds the nodes that mapping it would need to *needed. `node`
   is NULL where none exists yet. Only the ends of a span need nodes below, so few are visited. */
static bool span_is_free(struct vr_radix_node *node, unsigned level, struct addr_span span,
                         unsigned *needed) {
    for (uint64_t at = span.first;;) {
        struct span_part part = part_at(level, span, at);
        void *slot = node ? slot_get(node, part.index) : NULL;
        if (slot && (part.whole || is_record(slot))) {
            return false;
        }
        if (!part.whole) {
            *needed += slot ? 0 : 1;
            if (!span_is_free(slot, level + 1, part.span, needed)) {
                return false;
            }
        }
        if (part.span.last == span.last) {
            return true;
        }
        at = part.span.last + 1;
    }
}

static void span_fill(struct vr_radix_node *node, unsigned level, struct addr_span span, void *slot,
                      struct vr_radix_node **spares) {
    for (uint64_t at = span.first;;) {
        struct span_part part = part_at(level, span, at);
        if (part.whole) {
            slot_set(node, part.index, slot);
        } else {
            struct vr_radix_node *child = slot_get(node, part.index);
            if (!child) {
                child = spare_use(spares);
                slot_set(node, part.index, child);
            }
            span_fill(child, level + 1, part.span, slot, spares);
        }
        if (part.span.last == span.last) {
            return;
        }
        at = part.span.last + 1;
    }
}

/* Discards the parent process's mappings. */
static void root_renew(struct vr_radix *radix) {
    uint64_t process = vr_os_process_generation();
    if (radix->process != process) {
        radix->process = process;
        vr_store(&radix->root, NULL, VR_RELAXED); /* it points to nothing that must be visible */
    }
}

static vram_status insert_locked(struct vr_radix *radix, struct addr_span span, void *record) {
    root_renew(radix);
    struct vr_radix_node *root = vr_load(&radix->root, VR_RELAXED);
    struct vr_radix_node *spares = NULL;
    unsigned needed = root ? 0 : 1;
    if (!span_is_free(root, 0, span, &needed)) {
        return vr_fail(VRAM_ERR_BUSY, "a part of 0x%llx..0x%llx is mapped already",
                       (unsigned long long)span.first, (unsigned long long)span.last);
    }
    if (!spares_take(needed, &spares)) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (!root) {
        root = spare_use(&spares);
        vr_store(&radix->root, root, VR_RELEASE);
    }
    span_fill(root, 0, span, record_slot(record), &spares);
    assert(!spares);
    return VRAM_OK;
}

/* --------------------------------------------------------------------- remove */

/* Whether `span` holds `slot` exactly where insert would have put it: see (1). */
static bool span_holds(struct vr_radix_node *node, unsigned level, struct addr_span span,
                       const void *slot) {
    for (uint64_t at = span.first;;) {
        struct span_part part = part_at(level, span, at);
        void *found = slot_get(node, part.index);
        if (part.whole ? found != slot : !found || is_record(found)) {
            return false;
        }
        if (!part.whole && !span_holds(found, level + 1, part.span, slot)) {
            return false;
        }
        if (part.span.last == span.last) {
            return true;
        }
        at = part.span.last + 1;
    }
}

static void span_clear(struct vr_radix_node *node, unsigned level, struct addr_span span) {
    for (uint64_t at = span.first;;) {
        struct span_part part = part_at(level, span, at);
        struct vr_radix_node *child = NULL;
        if (!part.whole) {
            child = slot_get(node, part.index);
            span_clear(child, level + 1, part.span);
        }
        if (!child || child->filled == 0) {
            slot_set(node, part.index, NULL);
            if (child) {
                node_give(child); /* keeps (2) */
            }
        }
        if (part.span.last == span.last) {
            return;
        }
        at = part.span.last + 1;
    }
}

static vram_status remove_locked(struct vr_radix *radix, struct addr_span span,
                                 const void *record) {
    struct vr_radix_node *root = vr_load(&radix->root, VR_RELAXED);
    /* A record that extends beyond the span was inserted with a larger range. */
    bool more = (span.first != 0 && vr_radix_find(radix, span.first - 1) == record) ||
                (span.last != UINT64_MAX && vr_radix_find(radix, span.last + 1) == record);
    if (!root || more || !span_holds(root, 0, span, record_slot(record))) {
        return vr_fail(VRAM_ERR_INVALID, "0x%llx..0x%llx was not mapped as one range",
                       (unsigned long long)span.first, (unsigned long long)span.last);
    }
    span_clear(root, 0, span);
    return VRAM_OK;
}

/* -------------------------------------------------------------------- radix.h */

static bool span_make(uint64_t base, uint64_t bytes, struct addr_span *span) {
    span->first = base;
    return bytes > 0 && (base | bytes) % VR_RADIX_PAGE == 0 && vr_add(base, bytes - 1, &span->last);
}

vram_status vr_radix_insert(struct vr_radix *radix, uint64_t base, uint64_t bytes, void *record) {
    VR_CALL;
    struct addr_span span;
    if (!record || is_record(record) || !span_make(base, bytes, &span)) {
        return vr_fail(VRAM_ERR_INVALID, "%llu bytes at 0x%llx are not a valid range",
                       (unsigned long long)bytes, (unsigned long long)base);
    }
    vr_mutex_lock(&radix->lock);
    vram_status status = insert_locked(radix, span, record);
    vr_mutex_unlock(&radix->lock);
    return status;
}

vram_status vr_radix_remove(struct vr_radix *radix, uint64_t base, uint64_t bytes,
                            const void *record) {
    VR_CALL;
    struct addr_span span;
    if (!record || !span_make(base, bytes, &span)) {
        return vr_fail(VRAM_ERR_INVALID, "%llu bytes at 0x%llx are not a valid range",
                       (unsigned long long)bytes, (unsigned long long)base);
    }
    vr_mutex_lock(&radix->lock);
    vram_status status = remove_locked(radix, span, record);
    vr_mutex_unlock(&radix->lock);
    return status;
}

void *vr_radix_find(struct vr_radix *radix, uint64_t addr) {
    void *slot = vr_load(&radix->root, VR_ACQUIRE);
    for (unsigned level = 0; slot && level < LEVELS; level++) {
        struct vr_radix_node *node = slot;
        slot = vr_load(&node->slots[slot_index(level, addr)], VR_ACQUIRE);
        if (is_record(slot)) {
            return (void *)((uintptr_t)slot - 1);
        }
    }
    return NULL; /* nothing there, or a node below the last level: see the top */
}

uint64_t vr_radix_nodes(void) {
    return vr_load(&nodes_used, VR_RELAXED);
}
