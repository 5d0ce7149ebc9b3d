/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space_check.c: the checker of the block engine's invariants can fail. Each is broken by hand
 * in a space that is sound, must be found and named, and is mended again. In a debug build the
 * space finds such damage by itself (VR_SPACE_CHECKS): a child process must die of it.
 */
#include "rig/rig.h"
#include "space_driver.h"

#include "base/memory.h"
#include "child.h"
#include "core/space/plan.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct driver driver;
    struct vr_space *space;
    struct vr_block *live, *hole,
        *pending;           /* in the order of addresses: live, hole, live, pending */
    struct vr_piece *piece; /* any */
};

static int begin_in(enum vr_space_mode mode) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct vr_block *blocks[5];
    assert_non_null(fixture);
    struct vr_space_config config = driver_config(&fixture->driver);
    config.mode = mode;
    assert_int_equal(vr_space_create(&config, &fixture->space), VRAM_OK);
    bool segments = mode == VR_SPACE_SEGMENTS;
    /* Whole handles in a hole, or all blocks in one segment. */
    struct vr_want want = {.bytes = segments ? 256 * VR_KIB : 3 * GRANULE, .queue = 1, .now_ns = 1};
    for (int i = 0; i < 5; i++) {
        blocks[i] = driver_want(&fixture->driver, fixture->space, &want, segments);
        assert_non_null(blocks[i]);
    }
    fixture->driver.passed[1] = 5;
    driver_free(fixture->space, blocks[1], 1, 5);
    driver_free(fixture->space, blocks[3], 1, 9);
    struct vr_stamp stamp;
    assert_true(vr_space_pending(fixture->space, &stamp)); /* has what has passed become idle */
    fixture->live = blocks[0];
    fixture->hole = blocks[1];
    fixture->pending = blocks[3];
    fixture->piece = vr_space_piece_next(fixture->space, NULL);
    assert_non_null(fixture->piece);
    rig_state = fixture;
    return 0;
}

static int begin_mapped(void) {
    return begin_in(VR_SPACE_VMM);
}

static int begin_segments(void) {
    return begin_in(VR_SPACE_SEGMENTS);
}

static int end(void) {
    struct fixture *fixture = rig_state;
    vr_space_destroy(fixture->space);
    free(fixture);
    assert_int_equal(vr_mem_live_blocks(), 0);
    return 0;
}

static void expect_sound(const struct vr_space *space) {
    char text[200] = "";
    if (!vr_space_check(space, text, sizeof text)) {
        fail_msg("%s", text);
    }
}

static void expect_found(const struct vr_space *space, const char *part) {
    char text[200] = "";
    assert_false(vr_space_check(space, text, sizeof text));
    if (!strstr(text, part)) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

/* Breaks one field, sees it found, and mends it. */
#define BROKEN(field, value, part)                                                                 \
    do {                                                                                           \
        __typeof__(field) before = (field);                                                        \
        (field) = (value);                                                                         \
        expect_found(space, part);                                                                 \
        (field) = before;                                                                          \
        expect_sound(space);                                                                       \
    } while (0)

#define BROKEN_ATOMIC(field, value, part)                                                          \
    do {                                                                                           \
        __typeof__(vr_load(&(field), VR_RELAXED)) before = vr_load(&(field), VR_RELAXED);          \
        vr_store(&(field), (value), VR_RELAXED);                                                   \
        expect_found(space, part);                                                                 \
        vr_store(&(field), before, VR_RELAXED);                                                    \
        expect_sound(space);                                                                       \
    } while (0)

/* ------------------------------------------------------------------------ both modes */

static void spans(struct fixture *fixture) {
    struct vr_space *space = fixture->space;
    struct vr_block *live = fixture->live, *hole = fixture->hole;
    expect_sound(space);
    BROKEN_ATOMIC(live->bytes, 0, "an empty span");
    BROKEN_ATOMIC(live->bytes, 512, "the chain breaks");
    BROKEN(hole->span.before, NULL, "the chain breaks");
    BROKEN(live->span.before, hole, "a chain starts wrongly");
    BROKEN(live->span.kind, VR_SPAN_NONE, "a span of unknown kind");
    BROKEN(live->span.kind, 77, "a span of unknown kind");
    BROKEN(live->span.kind, VR_SPAN_CLAIM, "belongs to no plan");
    BROKEN_ATOMIC(hole->state, VR_BLOCK_LIVE, "is not FREE");
    BROKEN(fixture->pending->span.after->span.kind, VR_SPAN_HOLE, "should be merged");
}

static void lists_and_trees(struct fixture *fixture) {
    struct vr_space *space = fixture->space;
    BROKEN(fixture->pending->stamp.queue, 0, "is in the wrong list");
    bool listed = vr_link_linked(&fixture->hole->span.age); /* holes with whole pieces are */
    BROKEN(fixture->hole->stamp.queue, 1,
           listed ? "is in the wrong list" : "pending and in no list");
    struct vr_block *hole = fixture->hole;
    struct vr_size_bins *bins = &space->size_bins[VR_BINS_SETTLED];
    uint32_t bin = vr_bins_index(hole->span.by_bytes);
    BROKEN(bins->filled[bin / 64], 0, "is marked as empty");
    BROKEN(bins->filled[bin / 64], bins->filled[bin / 64] | 1, "is marked as filled");
    BROKEN(hole->span.by_bytes, 77, "has changed in its bin");
    BROKEN(fixture->pending->span.by_queue, 77, "has changed in its bin");
    /* A list without its hole. */
    struct vr_link *link = &fixture->pending->span.age;
    vr_link_remove(link);
    expect_found(space, "pending and in no list");
    vr_list_append(&space->pending, link);
    /* A list with what is no hole. */
    vr_list_append(&space->idle, &fixture->live->span.age);
    expect_found(space, "the block");
    vr_link_remove(&fixture->live->span.age);
    expect_sound(space);
    /* A bin with what is no hole, with one of another bin, and with one twice. */
    struct vr_block *most = bins->roots[bin];
    while (most->span.right) {
        most = most->span.right;
    }
    BROKEN(most->span.right, fixture->live, "is in the bins of free spans");
    BROKEN(most->span.right, fixture->pending, "lies in the wrong bin");
    struct vr_block same = *hole;
    same.span.left = same.span.right = NULL;
    BROKEN(most->span.right, &same, "a bin has");
    vr_store(&same.addr, vr_span_end(hole), VR_RELAXED);
    BROKEN(most->span.right, &same, "spans in bins");
}

static void sums(struct fixture *fixture) {
    struct vr_space *space = fixture->space;
    BROKEN(space->stats.blocks, 77, "blocks of");
    BROKEN(space->stats.out_bytes, 77, "blocks of");
    BROKEN(space->stats.holes, 77, "holes of");
    BROKEN(space->stats.hole_bytes, 77, "holes of");
    BROKEN(space->stats.pending_bytes, 77, "holes of");
    BROKEN(space->stats.pieces, 77, "pieces of");
    BROKEN(space->stats.reserved_bytes, 77, "pieces of");
    BROKEN(space->stats.spares, 77, "spares counted");
    BROKEN(space->stats.spare_bytes, 77, "spares counted");
    BROKEN(space->stats.peak_reserved_bytes, 0, "peak_reserved_bytes");
}

/* --------------------------------------------------------------------------- one mode */

TEST(mapped) {
    struct fixture *fixture = rig_state;
    struct vr_space *space = fixture->space;
    struct vr_piece *piece = fixture->piece;
    spans(fixture);
    lists_and_trees(fixture);
    sums(fixture);
    BROKEN(piece->bytes, piece->bytes + 512, "a piece of");
    BROKEN(piece->addr, VR_NOWHERE, "has another address");
    struct vr_block *last = vr_span_first(space);
    while (last->span.after) {
        last = last->span.after;
    }
    assert_int_equal(last->span.kind, VR_SPAN_VOID);
    BROKEN_ATOMIC(last->bytes, GRANULE, "a chain ends");
    BROKEN(last->span.kind, VR_SPAN_BLOCK, "no memory");
    /* Memory where none should be, and none where some should. */
    uint64_t addr = vr_span_addr(last);
    assert_int_equal(vr_granule_map_prepare(&space->granule_map, addr, GRANULE), VRAM_OK);
    vr_granule_map_set(&space->granule_map, addr, GRANULE, piece);
    expect_found(space, "void");
    vr_granule_map_set(&space->granule_map, addr, GRANULE, NULL);
    expect_sound(space);
    vr_granule_map_set(&space->granule_map, piece->addr, GRANULE, NULL);
    expect_found(space, "has no memory");
    vr_granule_map_set(&space->granule_map, piece->addr, GRANULE, piece);
    expect_sound(space);
    /* A piece that is mapped is no spare. */
    vr_list_append(&space->spares, &piece->spare);
    expect_found(space, "is mapped");
    vr_link_remove(&piece->spare);
    expect_sound(space);
}

TEST_IN(begin_segments, end, segments) {
    struct fixture *fixture = rig_state;
    struct vr_space *space = fixture->space;
    spans(fixture);
    lists_and_trees(fixture);
    sums(fixture);
    BROKEN(fixture->piece->first, NULL, "a chain starts wrongly");
    BROKEN(fixture->piece->addr, fixture->piece->addr + GRANULE, "a chain starts wrongly");
    BROKEN(fixture->piece->bytes, fixture->piece->bytes + GRANULE, "a chain ends");
    BROKEN(fixture->hole->span.kind, VR_SPAN_VOID, "a void in a segment");
}

/* ------------------------------------------------------------------- by the space itself */

#if VR_SPACE_CHECKS

/* One way to meet a damaged space, in a child whose stderr is ends[1]. */
struct meeting {
    struct fixture *fixture;
    void (*meet)(struct fixture *fixture);
    int ends[2];
};

static void meet_at_a_free(struct fixture *fixture) {
    fixture->space->check_due = 0;
    driver_free(fixture->space, fixture->live, 1, 1);
}

/* Level 1: as many operations later as the space has spans and eighths of granules, and the
   least. */
static void meet_in_time(struct fixture *fixture) {
    struct vr_want want = {.bytes = 512, .queue = 1, .now_ns = 1};
    for (int i = 0; i < 200; i++) {
        struct vr_block *block = driver_want(&fixture->driver, fixture->space, &want, false);
        driver_free(fixture->space, block, 1, 1);
    }
}

static int meet_nothing(void *argument) {
    struct meeting *meeting = argument;
    dup2(meeting->ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    meeting->meet(meeting->fixture);
    return 0;
}

/* The same when spare memory is counted that is not there. */
static int meet_damage(void *argument) {
    struct meeting *meeting = argument;
    meeting->fixture->space->stats.spare_bytes += GRANULE;
    return meet_nothing(argument);
}

TEST(damage_is_met) {
    static void (*const ways[])(struct fixture *) = {meet_at_a_free, meet_in_time};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct meeting meeting = {rig_state, ways[i], {0}};
        char text[400] = "";
        assert_int_equal(pipe(meeting.ends), 0);
        assert_int_equal(in_child(meet_nothing, &meeting), 0);
        assert_int_equal(in_child(meet_damage, &meeting), 1000 + SIGABRT);
        close(meeting.ends[1]);
        assert_true(read(meeting.ends[0], text, sizeof text - 1) > 0);
        static const char expected[] = "libvram: a space is damaged: 0 spares counted, found 0\n";
        text[strlen(expected)] = 0; /* what assert prints follows */
        assert_string_equal(text, expected);
        close(meeting.ends[0]);
    }
}

#else

static void damage_is_met(void) {
    print_message("a build with NDEBUG, or with VR_SPACE_CHECKS 0, does not validate its spaces\n");
    skip();
}

#endif

EACH_TEST(begin_mapped, end)
