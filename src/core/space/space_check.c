/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space_check.c: checks every invariant of span.h independently of the code that keeps them, for
 * tests and for debug builds (VR_SPACE_CHECKS).
 */
#include "core/space/plan.h"

#include "base/os/os.h"
#include "base/text.h"

#include <assert.h>
#include <string.h>

/* The sums of a walk over all spans and pieces. */
struct tally {
    const struct vr_space *space;
    char *text;
    size_t text_bytes;
    struct vr_space_stats sum;
    uint64_t free_spans;      /* holes and voids */
    uint64_t listed;          /* holes in the list of pending or of idle ones */
    uint64_t stale_of_pieces; /* sum of the pieces' stale_mappings */
    uint64_t reserves;        /* kept behind blocks */
    uint64_t spans;           /* visited */
    uint64_t granules;        /* visited */
};

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            vr_text_format(tally->text, tally->text_bytes, __VA_ARGS__);                           \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static const char *kind_name(const struct vr_block *span) {
    static const char *const names[] = {"nothing", "block",         "hole",   "void",
                                        "claim",   "stale mapping", "reserve"};
    return span->span.kind < sizeof names / sizeof names[0] ? names[span->span.kind] : "garbage";
}

static unsigned long long as_ull(uint64_t value) {
    return (unsigned long long)value;
}

/* Whether each granule of a span has memory (`expected`), or none has: (1). */
static bool check_memory(struct tally *tally, const struct vr_block *span, bool expected) {
    const struct vr_space *space = tally->space;
    for (uint64_t addr = vr_granule_down(space, vr_span_addr(span)); addr < vr_span_end(span);
         addr = vr_granule_map_next(&space->granule_map, addr)) {
        const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, addr);
        tally->granules++;
        CHECK(!piece == !expected, "%s at %llx: granule %llx has %s", kind_name(span),
              as_ull(vr_span_addr(span)), as_ull(addr), piece ? "memory" : "no memory");
        CHECK(!piece || (piece->addr <= addr && addr < piece->addr + piece->bytes),
              "the piece under %llx has another address", as_ull(addr));
    }
    return true;
}

static bool check_hole(struct tally *tally, const struct vr_block *span) {
    bool linked = vr_link_linked(&span->span.age);
    CHECK(linked || span->stamp.queue == 0, "the hole at %llx is pending and in no list",
          as_ull(vr_span_addr(span)));
    CHECK(vr_load(&span->state, VR_RELAXED) == VR_BLOCK_FREE, "the hole at %llx is not FREE",
          as_ull(vr_span_addr(span)));
    tally->listed += linked;
    tally->sum.holes++;
    tally->sum.hole_bytes += vr_span_bytes(span);
    tally->sum.pending_bytes += span->stamp.queue ? vr_span_bytes(span) : 0;
    const struct vr_block *next = span->span.after;
    if (vr_span_is(next, VR_SPAN_HOLE)) {
        bool apart = (next->stamp.queue && span->stamp.queue) || tally->space->config.deterministic;
        CHECK(apart && next->stamp.queue != span->stamp.queue,
              "the holes at %llx and %llx should be merged", as_ull(vr_span_addr(span)),
              as_ull(vr_span_addr(next)));
    }
    return true;
}

static bool check_void(struct tally *tally, const struct vr_block *span) {
    const struct vr_space *space = tally->space;
    const struct vr_block *next = span->span.after;
    CHECK(space->config.mode == VR_SPACE_VMM, "a void in a segment");
    CHECK(vr_granule_down(space, vr_span_addr(span)) == vr_span_addr(span) &&
              vr_granule_down(space, vr_span_end(span)) == vr_span_end(span),
          "the void at %llx is not of whole granules", as_ull(vr_span_addr(span)));
    CHECK(span->stamp.queue == 0, "the void at %llx has a stamp", as_ull(vr_span_addr(span)));
    CHECK(!vr_span_is(next, VR_SPAN_VOID), "two voids are neighbours at %llx",
          as_ull(vr_span_end(span)));
    return check_memory(tally, span, false);
}

static bool check_stale(struct tally *tally, const struct vr_block *span) {
    const struct vr_piece *piece = span->span.segment;
    CHECK(piece && piece->stale_mappings && piece->bytes == vr_span_bytes(span),
          "the stale mapping at %llx belongs to no piece", as_ull(vr_span_addr(span)));
    CHECK(vr_link_linked(&span->span.age), "the stale mapping at %llx is in no list",
          as_ull(vr_span_addr(span)));
    tally->sum.stale_mappings++;
    return check_memory(tally, span, false);
}

/* (8) */
static bool check_reserve(struct tally *tally, const struct vr_block *span) {
    const struct vr_space *space = tally->space;
    const struct vr_block *before = span->span.before;
    CHECK(vr_granule_down(space, vr_span_addr(span)) == vr_span_addr(span) &&
              vr_granule_down(space, vr_span_end(span)) == vr_span_end(span),
          "the reserve at %llx is not of whole granules", as_ull(vr_span_addr(span)));
    CHECK(vr_span_is(before, VR_SPAN_BLOCK) || vr_span_is(before, VR_SPAN_CLAIM),
          "the reserve at %llx is not behind a block", as_ull(vr_span_addr(span)));
    tally->reserves++;
    return check_memory(tally, span, false);
}

/* Whether it lies over a piece that is asleep or sealed, as the hidden holes there do. */
static bool is_hidden(const struct vr_space *space, const struct vr_block *span) {
    bool vmm = space->config.mode == VR_SPACE_VMM;
    const struct vr_piece *piece =
        vmm ? vr_granule_map_get(&space->granule_map, vr_span_addr(span)) : NULL;
    return piece && (piece->sleep_state || piece->seal);
}

static bool check_span(struct tally *tally, const struct vr_block *span) {
    const struct vr_space *space = tally->space;
    const struct vr_block *next = span->span.after;
    unsigned kind = span->span.kind;
    tally->spans++;
    CHECK(vr_span_bytes(span) > 0, "an empty span at %llx", as_ull(vr_span_addr(span)));
    CHECK(!next || (next->span.before == span && vr_span_addr(next) == vr_span_end(span)),
          "the chain breaks behind %llx", as_ull(vr_span_addr(span)));
    CHECK(kind >= VR_SPAN_BLOCK && kind <= VR_SPAN_RESERVE, "a span of unknown kind at %llx",
          as_ull(vr_span_addr(span)));
    if (kind == VR_SPAN_HOLE || kind == VR_SPAN_VOID) {
        tally->free_spans++;
    }
    if (kind == VR_SPAN_BLOCK) {
        tally->sum.blocks++;
        tally->sum.out_bytes += vr_span_bytes(span);
    }
    if (kind == VR_SPAN_CLAIM) {
        CHECK(span->span.lost || space->open_plans || is_hidden(space, span),
              "the claim at %llx belongs to no plan", as_ull(vr_span_addr(span)));
        return true;
    }
    if (kind == VR_SPAN_VOID) {
        return check_void(tally, span);
    }
    if (kind == VR_SPAN_STALE) {
        return check_stale(tally, span);
    }
    if (kind == VR_SPAN_RESERVE) {
        return check_reserve(tally, span);
    }
    if (space->config.mode == VR_SPACE_VMM && !check_memory(tally, span, true)) {
        return false;
    }
    return kind != VR_SPAN_HOLE || check_hole(tally, span);
}

static bool check_chain(struct tally *tally, const struct vr_block *span, uint64_t base,
                        uint64_t bytes) {
    CHECK(span && !span->span.before && vr_span_addr(span) == base, "a chain starts wrongly");
    for (; span; span = span->span.after) {
        if (!check_span(tally, span)) {
            return false;
        }
        CHECK(span->span.after || vr_span_end(span) == base + bytes, "a chain ends at %llx",
              as_ull(vr_span_end(span)));
    }
    return true;
}

static bool check_piece(struct tally *tally, const struct vr_piece *piece) {
    const struct vr_space *space = tally->space;
    tally->sum.pieces++;
    tally->stale_of_pieces += piece->stale_mappings;
    tally->sum.reserved_bytes += piece->released ? 0 : piece->bytes;
    CHECK(!piece->released || piece->sleep_state, "the piece at %llx is released but not asleep",
          as_ull(piece->addr));
    CHECK(piece->bytes && piece->bytes % space->config.granule == 0, "a piece of %llu bytes",
          as_ull(piece->bytes));
    if (space->config.mode == VR_SPACE_SEGMENTS) {
        /* The span of a segment that is being released is a claim. */
        return check_chain(tally, piece->first, piece->addr, piece->bytes);
    }
    CHECK(piece->addr != VR_NOWHERE || vr_link_linked(&piece->spare) || space->open_plans,
          "an unmapped piece is not a spare");
    for (uint64_t at = 0; piece->addr != VR_NOWHERE && at < piece->bytes;
         at += space->config.granule) {
        tally->granules++;
        CHECK(vr_granule_map_get(&space->granule_map, piece->addr + at) == piece,
              "the piece at %llx is not under %llx", as_ull(piece->addr), as_ull(piece->addr + at));
    }
    return true;
}

static bool check_pieces(struct tally *tally) {
    const struct vr_space *space = tally->space;
    for (const struct vr_link *link = vr_list_first(&space->pieces); link;
         link = vr_list_next(&space->pieces, link)) {
        if (!check_piece(tally, VR_CONTAINER(link, struct vr_piece, all))) {
            return false;
        }
    }
    for (const struct vr_link *link = vr_list_first(&space->spares); link;
         link = vr_list_next(&space->spares, link)) {
        const struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, spare);
        CHECK(piece->addr == VR_NOWHERE, "the spare at %llx is mapped", as_ull(piece->addr));
        tally->sum.spares++;
        tally->sum.spare_bytes += piece->bytes;
    }
    return true;
}

/* Each listed hole is in the right list: (3). */
static bool check_lists(struct tally *tally) {
    const struct vr_space *space = tally->space;
    const struct vr_list *lists[2] = {&space->pending, &space->idle};
    uint64_t count = 0;
    for (int i = 0; i < 2; i++) {
        for (const struct vr_link *link = vr_list_first(lists[i]); link;
             link = vr_list_next(lists[i], link)) {
            const struct vr_block *span = VR_CONTAINER(link, struct vr_block, span.age);
            CHECK(span->span.kind == VR_SPAN_HOLE && !span->stamp.queue == (i == 1),
                  "the %s at %llx is in the wrong list", kind_name(span),
                  as_ull(vr_span_addr(span)));
            count++;
        }
    }
    CHECK(count == tally->listed, "%llu holes in lists, %llu found by address", as_ull(count),
          as_ull(tally->listed));
    return true;
}

/* The state of a walk over all bins. */
struct bin_walk {
    uint32_t bins, bin;          /* the set, and the bin in it */
    const struct vr_block *last; /* the previous node of the bin */
    uint64_t nodes;              /* of all bins so far */
};

/* The nodes of a bin are free spans in strictly rising order, each in the right bin. If they are as
   many as the free spans found by address, the bins contain each of those once: (4). */
static bool check_tree(struct tally *tally, const struct vr_block *span, struct bin_walk *walk) {
    if (!span) {
        return true;
    }
    if (!check_tree(tally, span->span.left, walk)) {
        return false;
    }
    bool is_free = span->span.kind == VR_SPAN_HOLE || span->span.kind == VR_SPAN_VOID;
    CHECK(is_free, "a %s at %llx is in the bins of free spans", kind_name(span),
          as_ull(vr_span_addr(span)));
    CHECK(vr_hole_key_holds(span), "the %s at %llx has changed in its bin", kind_name(span),
          as_ull(vr_span_addr(span)));
    CHECK(vr_hole_bins(span->span.by_queue) == walk->bins &&
              vr_bins_index(span->span.by_bytes) == walk->bin,
          "the %s at %llx lies in the wrong bin", kind_name(span), as_ull(vr_span_addr(span)));
    CHECK(!walk->last || vr_bins_less(walk->last, span), "a bin has %llx before %llx",
          as_ull(vr_span_addr(walk->last)), as_ull(vr_span_addr(span)));
    walk->last = span;
    walk->nodes++;
    return check_tree(tally, span->span.right, walk);
}

static bool check_bins(struct tally *tally) {
    struct bin_walk walk = {.nodes = 0};
    for (walk.bins = 0; walk.bins < VR_BINS_SETS; walk.bins++) {
        const struct vr_size_bins *bins = &tally->space->size_bins[walk.bins];
        for (walk.bin = 0; walk.bin < VR_BINS_COUNT; walk.bin++) {
            bool filled = bins->filled[walk.bin / 64] >> walk.bin % 64 & 1;
            CHECK(filled == (bins->roots[walk.bin] != NULL), "bin %u of set %u is marked as %s",
                  walk.bin, walk.bins, filled ? "filled" : "empty");
            walk.last = NULL;
            if (!check_tree(tally, bins->roots[walk.bin], &walk)) {
                return false;
            }
        }
    }
    CHECK(walk.nodes == tally->free_spans, "%llu spans in bins, %llu found by address",
          as_ull(walk.nodes), as_ull(tally->free_spans));
    return true;
}

static bool check_sums(struct tally *tally) {
    const struct vr_space_stats *sum = &tally->sum, *stats = &tally->space->stats;
    CHECK(sum->blocks == stats->blocks && sum->out_bytes == stats->out_bytes,
          "%llu blocks of %llu bytes counted, found %llu of %llu", as_ull(stats->blocks),
          as_ull(stats->out_bytes), as_ull(sum->blocks), as_ull(sum->out_bytes));
    CHECK(sum->holes == stats->holes && sum->hole_bytes == stats->hole_bytes &&
              sum->pending_bytes == stats->pending_bytes,
          "%llu holes of %llu bytes counted, found %llu of %llu", as_ull(stats->holes),
          as_ull(stats->hole_bytes), as_ull(sum->holes), as_ull(sum->hole_bytes));
    CHECK(sum->pieces == stats->pieces && sum->reserved_bytes == stats->reserved_bytes,
          "%llu pieces of %llu bytes counted, found %llu of %llu", as_ull(stats->pieces),
          as_ull(stats->reserved_bytes), as_ull(sum->pieces), as_ull(sum->reserved_bytes));
    CHECK(sum->spares == stats->spares && sum->spare_bytes == stats->spare_bytes,
          "%llu spares counted, found %llu", as_ull(stats->spares), as_ull(sum->spares));
    CHECK(sum->stale_mappings == stats->stale_mappings &&
              (tally->stale_of_pieces == sum->stale_mappings || tally->space->open_plans),
          "%llu stale mappings counted, found %llu, %llu of pieces", as_ull(stats->stale_mappings),
          as_ull(sum->stale_mappings), as_ull(tally->stale_of_pieces));
    CHECK(tally->reserves == tally->space->reserves, "%llu reserves counted, found %llu",
          as_ull(tally->space->reserves), as_ull(tally->reserves));
    CHECK(stats->reserved_bytes <= stats->peak_reserved_bytes,
          "peak_reserved_bytes is below reserved_bytes");
    return true;
}

static bool check_all(struct tally *tally) {
    const struct vr_space *space = tally->space;
    for (uint32_t i = 0; i < space->range_count; i++) {
        const struct vr_range *range = &space->ranges[i];
        if (!check_chain(tally, range->first, range->base, range->bytes)) {
            return false;
        }
    }
    return check_pieces(tally) && check_lists(tally) && check_bins(tally) && check_sums(tally);
}

bool vr_space_check(const struct vr_space *space, char *text, size_t text_bytes) {
    struct tally tally = {.space = space, .text = text, .text_bytes = text_bytes};
    return check_all(&tally);
}

/* --------------------------------------------------------------- validation */

#if VR_SPACE_CHECKS

enum {
    CHECK_LEAST = 16,  /* operations between two validations, at least */
    CHECK_GRANULES = 8 /* granules that take as long to check as one span */
};

void vr_space_validate(struct vr_space *space) {
    char text[160], line[200];
    struct tally tally = {.space = space, .text = text, .text_bytes = sizeof text};
    if (VR_SPACE_CHECKS < 2 && space->check_due > 0) {
        space->check_due--;
        return;
    }
    if (!check_all(&tally)) {
        /* To stderr, not to the log: the pool's lock is held. */
        vr_text_format(line, sizeof line - 1, "libvram: a space is damaged: %s", text);
        size_t length = strlen(line);
        line[length] = '\n';
        vr_os_stderr(line, length + 1);
        assert(false && "the space breaks an invariant of span.h");
    }
    space->check_due = CHECK_LEAST + tally.spans + tally.granules / CHECK_GRANULES;
}

#endif

/* ------------------------------------------------------------------- layout */

static uint64_t hash_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_chain(uint64_t hash, const struct vr_block *span) {
    for (; span; span = span->span.after) {
        hash = hash_mix(hash, vr_span_addr(span));
        hash = hash_mix(hash, vr_span_bytes(span));
        hash = hash_mix(hash, span->span.kind);
        hash = hash_mix(hash, span->span.kind == VR_SPAN_HOLE ? span->stamp.queue : 0);
    }
    return hash;
}

uint64_t vr_space_hash(const struct vr_space *space) {
    uint64_t hash = 0, segments = 0;
    for (uint32_t i = 0; i < space->range_count; i++) {
        hash = hash_chain(hash, space->ranges[i].first);
    }
    for (const struct vr_link *link = vr_list_first(&space->pieces); link;
         link = vr_list_next(&space->pieces, link)) {
        const struct vr_piece *piece = VR_CONTAINER(link, struct vr_piece, all);
        /* Added up, because the order of the list is not part of the layout. */
        segments += hash_chain(hash_mix(0, piece->addr), piece->first);
    }
    return hash_mix(hash, segments);
}
