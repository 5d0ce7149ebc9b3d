/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_resize.c: blocks that grow and shrink where they are, in every kind of pool; what they count
 * for; what is in their way; and every call of the driver and of the host's memory failing in turn.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/limits.h"
#include "vram/oom.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static uint64_t held_by(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info.held_bytes;
}

static uint64_t asked_for(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info.requested_bytes;
}

static vram_pool *pool_make(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

static void write_all(struct rig *rig, vram_addr addr, uint64_t bytes, int seed) {
    unsigned char *text = malloc(bytes);
    assert_non_null(text);
    for (uint64_t i = 0; i < bytes; i++) {
        text[i] = (unsigned char)(i * 7 + (uint64_t)seed);
    }
    assert_ok(vram_queue_upload(rig->queue, addr, text, bytes));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    free(text);
}

static void expect_all(struct rig *rig, vram_addr addr, uint64_t bytes, int seed) {
    unsigned char *text = malloc(bytes);
    assert_non_null(text);
    assert_ok(vram_queue_download(rig->queue, text, addr, bytes));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_equal(text[i], (unsigned char)(i * 7 + (uint64_t)seed));
    }
    free(text);
}

/* -------------------------------------------------------------------- plainly */

/* Larger by mapping memory behind it, smaller by giving the tail back, and larger again from what
   that left: without the driver. Numbers follow at each step. */
static void growing_and_shrinking_in_place(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,real=on");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc(pool, 5 * MIB + 1, rig.queue, &addr));
    write_all(&rig, addr, 5 * MIB, 3);
    assert_ok(vram_resize(addr, 33 * MIB + 7, rig.queue));
    assert_int_equal(asked_for(addr), 33 * MIB + 7);
    assert_int_equal(held_by(addr), 33 * MIB + 512);
    expect_all(&rig, addr, 5 * MIB, 3);
    write_all(&rig, addr, 33 * MIB, 4);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.requested_bytes, 33 * MIB + 7);
    assert_int_equal(stats.allocated_bytes, 33 * MIB + 512);
    assert_int_equal(stats.peak_requested_bytes, 33 * MIB + 7);
    assert_int_equal(stats.peak_allocated_bytes, 33 * MIB + 512);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.allocs, 1);

    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_int_equal(held_by(addr), MIB);
    vram_pool_stats less = stats_of(pool);
    assert_int_equal(less.requested_bytes, MIB);
    assert_int_equal(less.allocated_bytes, MIB);
    assert_int_equal(less.reserved_bytes, stats.reserved_bytes);
    assert_int_equal(less.peak_requested_bytes, 33 * MIB + 7);
    assert_ok(vram_resize(addr, 33 * MIB, rig.queue));
    less = stats_of(pool);
    assert_int_equal(less.driver_creates, stats.driver_creates);
    assert_int_equal(less.driver_maps, stats.driver_maps);
    expect_all(&rig, addr, MIB, 4);

    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL)); /* the tail can be given back to the driver */
    assert_in_range(stats_of(pool).reserved_bytes, MIB, 8 * MIB);
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(vram_resize(addr, MIB, rig.queue), VRAM_ERR_INVALID);
    stats = stats_of(pool);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.allocated_bytes, 0);
    assert_int_equal(stats.frees, 1);
    rig_end_clean(&rig);
}

/* Within what rounding gives it only the number changes; the block is freed and found by its size
   again. */
static void rounding_has_room(void **state) {
    vram_addr addr, again;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc(pool, 1, rig.queue, &addr));
    assert_ok(vram_resize(addr, 512, rig.queue));
    assert_int_equal(asked_for(addr), 512);
    assert_ok(vram_resize(addr, 0, rig.queue));
    assert_int_equal(asked_for(addr), 0);
    assert_int_equal(held_by(addr), 512);
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    assert_int_equal(stats_of(pool).peak_requested_bytes, 512);
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_alloc(pool, 512, rig.queue, &again));
    assert_int_equal(again, addr);
    rig_end_clean(&rig);
}

/* Over the border between small and large blocks and back: it stays in its space, and so does what
   it leaves. */
static void sizes_cross_the_border_of_spaces(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vram_addr addr, other;
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, flags[i]);
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &other));
        assert_ok(vram_resize(other, 700, rig.queue)); /* small, where large ones are */
        assert_int_equal(held_by(other), 1024);
        assert_ok(vram_resize(other, 40 * KIB, rig.queue));
        assert_ok(vram_resize(other, 40 * KIB - 600, rig.queue)); /* a small tail */
        assert_ok(vram_resize(other, 700, rig.queue));
        assert_ok(vram_free(other, rig.queue));
        assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        assert_ok(vram_alloc(pool, 32 * KIB, NULL, &addr));
        vram_status status = vram_resize(addr, 100 * KIB, NULL); /* large, among small ones */
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
        assert_ok(vram_free(addr, NULL));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------- where memory comes from */

static uint64_t clock_of(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state.clock_ns;
}

/* A block of 16 MiB behind `bytes` that are free: of an ordinary block, or of one that had grown by
   them. */
static vram_addr block_beside(struct rig *rig, vram_pool *pool, uint64_t bytes, bool grown) {
    vram_addr addr, between, far;
    assert_ok(vram_alloc(pool, grown ? 8 * MIB : bytes, NULL, &far));
    if (grown) {
        assert_ok(vram_resize(far, 8 * MIB + bytes, NULL));
    }
    assert_ok(vram_alloc(pool, 2 * MIB, NULL, &between));
    assert_ok(vram_alloc(pool, 16 * MIB, rig->queue, &addr));
    assert_ok(vram_free(far, NULL));
    return addr;
}

/* One handle stands for all that a block grows by; another block that grows has it in the time of
   one mapping, and the place that it left is unmapped later. */
static void large_handles_go_from_block_to_block(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=4G,profile=h200");
    vram_pool *pool = pool_make(&rig, 0);
    vram_addr addr = block_beside(&rig, pool, 1024 * MIB, true);
    vram_pool_stats before = stats_of(pool);
    uint64_t start = clock_of(&rig);
    assert_ok(vram_resize(addr, 1040 * MIB, rig.queue));
    uint64_t ns = clock_of(&rig) - start;
    vram_pool_stats after = stats_of(pool);
    assert_int_equal(after.reserved_bytes, before.reserved_bytes);
    assert_int_equal(after.driver_maps, before.driver_maps + 1);
    assert_int_equal(after.driver_creates, before.driver_creates);
    assert_int_equal(after.driver_unmaps, before.driver_unmaps);
    assert_true(ns < 70000); /* one mapping; a copy of the block alone takes half a millisecond */
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(
        vram_pool_trim(pool, NULL, NULL)); /* the place where it was mapped before goes first */
    assert_in_range(stats_of(pool).reserved_bytes, 2 * MIB, 8 * MIB);
    rig_end_clean(&rig);
}

/* Many small handles would take longer than a copy: the block grows by new memory, and what the
   pool holds too much for that goes back when there is time for it. */
static void small_handles_stay_and_go_back_later(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=4G,profile=h200");
    vram_pool *pool = pool_make(&rig, 0);
    addr = block_beside(&rig, pool, 256 * MIB, false);
    vram_pool_stats before = stats_of(pool);
    assert_ok(vram_resize(addr, 272 * MIB, rig.queue));
    vram_pool_stats after = stats_of(pool);
    assert_int_equal(after.reserved_bytes, before.reserved_bytes + 256 * MIB);
    assert_int_equal(after.driver_creates, before.driver_creates + 1);
    for (uint64_t i = 1; i <= 40; i++) {
        for (int k = 0; k < 100; k++) { /* time passes */
            assert_ok(vram_queue_fill(rig.queue, addr, 0, 4, 256 * MIB));
        }
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_resize(addr, (272 + 2 * i) * MIB, rig.queue));
    }
    assert_in_range(stats_of(pool).reserved_bytes, 354 * MIB, 364 * MIB);
    rig_end_clean(&rig);
}

/* However many handles a block was made of, and however many places they were mapped at before: a
   trim gives all of them back. */
static void all_old_places_go_with_a_trim(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=40G,profile=h200");
    vram_pool *pool = pool_make(&rig, 0);
    vram_addr addr = block_beside(&rig, pool, 24 * 1024 * MIB, false);
    vram_pool_stats before = stats_of(pool);
    fault(&rig, VRAM_SIM_CREATE, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    assert_ok(vram_resize(addr, 23 * 1024 * MIB, rig.queue));
    assert_true(stats_of(pool).driver_maps > before.driver_maps + 512); /* than one sweep takes */
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_in_range(stats_of(pool).reserved_bytes, 2 * MIB, 64 * MIB);
    rig_end_clean(&rig);
}

/* Where the pool may not hold more all that is free comes, whatever it takes; and where the driver
   turns out to have no handle of that size smaller ones will do. */
static void a_limit_makes_all_handles_worth_it(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=4G,profile=h200");
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 90 * MIB};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    addr = block_beside(&rig, pool, 64 * MIB, false);
    vram_pool_stats before = stats_of(pool);
    assert_ok(vram_resize(addr, 72 * MIB, rig.queue));
    assert_true(stats_of(pool).reserved_bytes <= 90 * MIB);
    assert_true(stats_of(pool).moved_bytes >= before.moved_bytes + 44 * MIB);

    pool = pool_make(&rig, 0);
    assert_ok(vram_alloc(pool, 16 * MIB, rig.queue, &addr));
    fault(&rig, VRAM_SIM_CREATE, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    before = stats_of(pool);
    assert_ok(vram_resize(addr, 144 * MIB, rig.queue));
    assert_int_equal(stats_of(pool).driver_creates, before.driver_creates + 1 + 8);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------------ room */

/* Many blocks side by side, each with room: all of them grow in place, again and again, and what is
   between two growths is nobody else's. */
static void blocks_with_room_grow_side_by_side(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_DETERMINISTIC};
    vram_alloc_options wishes = {.size = sizeof wishes, .reserve_bytes = 61 * MIB, .tag = "t"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        vram_addr addrs[12], other;
        struct rig rig = rig_make("sim", "memory=2G");
        vram_pool *pool = pool_make(&rig, flags[i]);
        for (uint64_t k = 0; k < 12; k++) {
            assert_ok(vram_alloc_with(pool, 3 * MIB + k, rig.queue, &wishes, &addrs[k]));
            assert_int_equal(held_by(addrs[k]), 4 * MIB);
            assert_int_equal(asked_for(addrs[k]), 3 * MIB + k);
            assert_ok(vram_alloc(pool, 3 * MIB, rig.queue, &other)); /* in between */
        }
        for (uint64_t mib = 5; mib <= 64; mib += 13) {
            for (uint64_t k = 0; k < 12; k++) {
                assert_ok(vram_resize(addrs[k], mib * MIB + k, rig.queue));
                assert_int_equal(held_by(addrs[k]),
                                 (mib * MIB + k + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
                assert_ok(vram_alloc(pool, 100 * KIB, rig.queue, &other));
            }
        }
        vram_tag_info tag = {.size = sizeof tag};
        assert_ok(vram_tag_info_get(rig.device, "t", &tag));
        uint64_t held = 0;
        for (uint64_t k = 0; k < 12; k++) {
            held += held_by(addrs[k]);
            assert_ok(vram_free(addrs[k], rig.queue));
        }
        assert_int_equal(tag.used_bytes, held);
        rig_end_clean(&rig);
    }
}

/* A room is a wish: it is not there where the device cannot map memory or the pool does not let it,
   and goes when somebody else needs the addresses. */
static void rooms_are_a_wish(void **state) {
    vram_alloc_options wishes = {.size = sizeof wishes, .reserve_bytes = 1};
    vram_addr addr, other;
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,real=on");
    vram_pool *segments = pool_make(&rig, VRAM_POOL_SEGMENTS);
    assert_ok(vram_alloc_with(segments, 5000, rig.queue, &wishes, &addr));
    assert_int_equal(held_by(addr), 5120);
    vram_pool *guarded = pool_make(&rig, VRAM_POOL_RED_ZONES);
    assert_ok(vram_alloc_with(guarded, 5000, rig.queue, &wishes, &addr));
    assert_ok(vram_free(addr, rig.queue));
    vram_pool_options narrow = {.size = sizeof narrow, .range_bytes = 64 * MIB};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig.device, &narrow, &pool));
    wishes.reserve_bytes = 60 * MIB;
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    assert_ok(vram_alloc(pool, 20 * MIB, rig.queue, &other)); /* takes the room's addresses */
    assert_int_equal(vram_resize(addr, 60 * MIB, rig.queue), VRAM_ERR_BUSY);
    wishes.reserve_bytes = UINT64_MAX;
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    wishes.reserve_bytes = UINT64_MAX / 3;
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    wishes.reserve_bytes = UINT64_MAX - 4 * MIB;
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    wishes.reserve_bytes = 64 * MIB;
    wishes.flags = VRAM_ALLOC_CACHED_ONLY;
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    rig_end_clean(&rig);
}

/* What the driver refuses takes no room away: the block grows there the next time. */
static void a_failure_leaves_the_room(void **state) {
    static const vram_sim_call calls[] = {VRAM_SIM_CREATE, VRAM_SIM_MAP, VRAM_SIM_ACCESS};
    vram_alloc_options wishes = {.size = sizeof wishes, .reserve_bytes = 62 * MIB};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vram_addr addr, others[8];
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, 0);
        assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
        fault(&rig, calls[i], 1, false, 999);
        assert_int_equal(vram_resize(addr, 32 * MIB, rig.queue), VRAM_ERR_BACKEND);
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        for (int k = 0; k < 8; k++) {
            assert_ok(vram_alloc(pool, 7 * MIB, rig.queue, &others[k]));
        }
        assert_ok(vram_resize(addr, 64 * MIB, rig.queue));
        rig_end_clean(&rig);
    }
}

/* A block that grew by the second attempt keeps the rest of its room like any other. */
static void a_refusal_leaves_the_room(void **state) {
    vram_alloc_options wishes = {.size = sizeof wishes, .reserve_bytes = 62 * MIB};
    vram_addr addr, other;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc_with(pool, 2 * MIB, rig.queue, &wishes, &addr));
    fault(&rig, VRAM_SIM_CREATE, 1, false, VRAM_SIM_OUT_OF_MEMORY);
    assert_ok(vram_resize(addr, 32 * MIB, rig.queue));
    assert_int_equal(sim_state(&rig).faults, 1);
    for (int k = 0; k < 8; k++) {
        assert_ok(vram_alloc(pool, 7 * MIB, rig.queue, &other));
    }
    assert_ok(vram_resize(addr, 64 * MIB, rig.queue));
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------- in the way */

static void what_lies_behind_is_in_the_way(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vram_addr low, high;
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, flags[i]);
        assert_ok(vram_alloc(pool, 24 * MIB, rig.queue, &low));
        assert_ok(vram_resize(low, 8 * MIB, rig.queue));
        assert_ok(vram_alloc(pool, 16 * MIB, rig.queue, &high));
        assert_int_equal(high, low + 8 * MIB);
        vram_pool_stats before = stats_of(pool);
        assert_int_equal(vram_resize(low, 8 * MIB + 1, rig.queue), VRAM_ERR_BUSY);
        assert_non_null(strstr(vram_error_get()->text, "behind it"));
        assert_string_equal(vram_error_get()->operation, "vram_resize");
        vram_pool_stats after = stats_of(pool);
        assert_int_equal(after.reserved_bytes, before.reserved_bytes);
        assert_int_equal(after.allocated_bytes, before.allocated_bytes);
        assert_int_equal(after.refusals, 0);
        assert_int_equal(held_by(low), 8 * MIB);
        assert_ok(vram_free(high, rig.queue));
        assert_ok(vram_resize(low, 24 * MIB, rig.queue));
        assert_int_equal(held_by(low), 24 * MIB);
        rig_end_clean(&rig);
    }
}

/* Memory behind the block that another queue may still use is not taken; when that has come on it
   is. */
static void work_of_others_is_in_the_way(void **state) {
    vram_addr low, high;
    vram_queue *other;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,lag=1000");
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    vram_pool *pool = pool_make(&rig, VRAM_POOL_DETERMINISTIC);
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &low));
    assert_ok(vram_alloc(pool, 8 * MIB, other, &high));
    assert_int_equal(high, low + 8 * MIB);
    assert_ok(vram_free(high, other));
    assert_int_equal(vram_resize(low, 12 * MIB, rig.queue), VRAM_ERR_BUSY);
    vram_queue_destroy(other);
    assert_ok(vram_resize(low, 12 * MIB, rig.queue));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------------ uses */

/* While something holds the block its memory stays with it; afterwards it goes like any other. */
static void held_blocks_keep_their_memory(void **state) {
    vram_addr addr;
    vram_queue *other;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,lag=1000");
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &addr));
    assert_ok(vram_pin(addr));
    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_int_equal(held_by(addr), 8 * MIB);
    assert_int_equal(asked_for(addr), MIB);
    assert_ok(vram_resize(addr, 12 * MIB, rig.queue)); /* a pinned block may grow */
    assert_int_equal(held_by(addr), 12 * MIB);
    assert_ok(vram_unpin(addr));
    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_int_equal(held_by(addr), MIB);
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(stats_of(pool).allocated_bytes, 0);
    rig_end_clean(&rig);
}

/* The tail of a block that another queue uses is freed as the block would be: after the work that
   this queue has by then. Contents decide. */
static void tails_wait_for_other_users(void **state) {
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        static uint8_t found[4096];
        vram_addr addr, next;
        vram_queue *other;
        struct rig rig = rig_make("sim", "memory=16M,real=on,lag=1000,seed=5");
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        vram_pool *pool = pool_make(&rig, ordered ? VRAM_POOL_DETERMINISTIC : 0);
        assert_ok(vram_alloc(pool, 12 * MIB, rig.queue, &addr));
        assert_ok(vram_use(addr, other));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_queue_fill(other, addr, 0xDD, 1, 12 * MIB)); /* late */
        assert_ok(vram_resize(addr, 2 * MIB, rig.queue));
        assert_int_equal(held_by(addr), 2 * MIB);
        assert_ok(vram_alloc(pool, 10 * MIB, rig.queue, &next)); /* its memory is the tail's */
        assert_ok(vram_queue_fill(rig.queue, next, 0x11, 1, 10 * MIB));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_queue_wait(other, 30 * SECOND));
        assert_ok(vram_queue_download(rig.queue, found, next, sizeof found));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        for (size_t i = 0; i < sizeof found; i++) {
            assert_int_equal(found[i], 0x11);
        }
        rig_end_clean(&rig);
    }
}

/* A tail is free in the time of the queue it was given back on, and behind the block's home: nobody
   gets it while work may touch it. The simulated driver would see it unmapped under work. */
static void tails_wait_for_their_queue(void **state) {
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        vram_addr addr, same;
        vram_queue *other;
        struct rig rig = rig_make("sim", "memory=64M,lag=1000");
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        vram_pool *pool = pool_make(&rig, ordered ? VRAM_POOL_DETERMINISTIC : 0);
        assert_ok(vram_alloc(pool, 40 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 4, 40 * MIB));
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_alloc(pool, 40 * MIB, rig.queue, &addr)); /* under its own work: its home */
        assert_ok(vram_resize(addr, 8 * MIB, other));            /* freed on another queue */
        assert_ok(vram_alloc(pool, 20 * MIB, other, &same));     /* waits for both, or grows */
        assert_true(same >= addr + 8 * MIB);
        assert_ok(vram_resize(addr, MIB, NULL));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        expect_protocol(&rig);
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------------------- kinds of pools */

/* In a segment a block grows into what is free behind it, and with pooling off into its own
   granule. */
static void segments_have_what_they_have(void **state) {
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        vram_addr addr;
        assert_ok(vram_option_set("pool", direct ? "off" : "on"));
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, VRAM_POOL_SEGMENTS);
        assert_ok(vram_alloc(pool, MIB - 2048, rig.queue, &addr));
        assert_ok(vram_resize(addr, MIB, rig.queue));
        assert_int_equal(held_by(addr), MIB);
        assert_int_equal(vram_resize(addr, 512 * MIB, rig.queue), VRAM_ERR_BUSY);
        assert_ok(vram_resize(addr, 3, rig.queue));
        assert_int_equal(held_by(addr), 512);
        assert_int_equal(stats_of(pool).driver_allocs, 1);
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        rig_end_clean(&rig);
    }
}

static void safety_modes_do_not_resize(void **state) {
    static const uint32_t modes[] = {VRAM_POOL_ZERO_ALLOC, VRAM_POOL_ZERO_FREE, VRAM_POOL_POISON,
                                     VRAM_POOL_RED_ZONES};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        vram_addr addr;
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_make(&rig, modes[i]);
        assert_ok(vram_alloc(pool, 4096, rig.queue, &addr));
        assert_int_equal(vram_resize(addr, 5000, rig.queue), VRAM_ERR_UNSUPPORTED);
        assert_int_equal(vram_resize(addr, 3000, rig.queue), VRAM_ERR_UNSUPPORTED);
        assert_ok(vram_resize(addr, 4096, rig.queue));
        assert_int_equal(asked_for(addr), 4096);
        assert_ok(vram_free(addr, rig.queue)); /* its red zones are where they were */
        rig_end_clean(&rig);
    }
}

static void asleep_is_busy(void **state) {
    vram_addr addr, other;
    vram_alloc_options wishes = {.size = sizeof wishes, .tag = "nap"};
    vram_sleep_options nap = {.size = sizeof nap, .tag = "nap"};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc_with(pool, 8 * MIB, rig.queue, &wishes, &addr));
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &other));
    assert_ok(vram_pool_sleep(pool, &nap));
    assert_int_equal(vram_resize(addr, MIB, rig.queue), VRAM_ERR_BUSY);
    assert_int_equal(vram_resize(addr, 9 * MIB, rig.queue), VRAM_ERR_BUSY);
    assert_non_null(strstr(vram_error_get()->text, "asleep"));
    assert_ok(vram_resize(other, 20 * MIB, rig.queue)); /* awake, and nothing behind it */
    assert_ok(vram_pool_wake(pool, NULL));
    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_ok(vram_pool_sleep(pool, NULL));
    assert_int_equal(vram_resize(other, MIB, rig.queue), VRAM_ERR_BUSY);
    assert_ok(vram_pool_wake(pool, NULL));
    assert_int_equal(held_by(other), 20 * MIB);
    rig_end_clean(&rig);
}

/* Memory that the pool fell back to shrinks in number alone. */
static void fallback_memory_does_not_grow(void **state) {
    vram_addr addr, all;
    vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    (void)state;
    struct rig rig = rig_make("sim", "memory=16M,real=on");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_ok(vram_alloc(pool, 14 * MIB, rig.queue, &all));
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &addr));
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(vram_resize(addr, 9 * MIB, rig.queue), VRAM_ERR_UNSUPPORTED);
    assert_ok(vram_resize(addr, MIB, rig.queue));
    assert_int_equal(held_by(addr), 8 * MIB);
    assert_ok(vram_resize(addr, 8 * MIB, rig.queue));
    /* And growing never falls back. */
    vram_status status = vram_resize(all, 20 * MIB, rig.queue);
    assert_true(vram_status_is_exhausted(status));
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(held_by(all), 14 * MIB);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------- limits and quotas */

static void limits_hold(void **state) {
    vram_addr addr;
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 32 * MIB};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_pool_limits_set(pool, &limits));
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &addr));
    assert_int_equal(vram_resize(addr, 33 * MIB, rig.queue), VRAM_ERR_LIMIT);
    assert_string_equal(vram_error_get()->operation, "vram_resize");
    assert_int_equal(stats_of(pool).limit_refusals, 1);
    assert_int_equal(held_by(addr), 8 * MIB);
    assert_int_equal(stats_of(pool).requested_bytes, 8 * MIB);
    assert_ok(vram_resize(addr, 32 * MIB, rig.queue));
    assert_int_equal(vram_resize(addr, UINT64_MAX, rig.queue), VRAM_ERR_OVERFLOW);
    assert_true(vram_status_is_exhausted(vram_resize(addr, UINT64_MAX - 4096, rig.queue)));
    rig_end_clean(&rig);
}

static vram_tag_info tag_of(vram_device *device, const char *name) {
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(device, name, &info));
    return info;
}

static void quotas_hold_at_every_level(void **state) {
    vram_addr addr;
    vram_alloc_options wishes = {.size = sizeof wishes, .tag = "t/m"};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_tag_quota_set(rig.device, "t", 0, 24 * MIB));
    assert_ok(vram_alloc_with(pool, 8 * MIB, rig.queue, &wishes, &addr));
    assert_ok(vram_resize(addr, 16 * MIB + 1, rig.queue));
    assert_int_equal(tag_of(rig.device, "t").used_bytes, 16 * MIB + 512);
    assert_int_equal(tag_of(rig.device, "t/m").requested_bytes, 16 * MIB + 1);
    assert_int_equal(tag_of(rig.device, "t/m").live_blocks, 1);
    assert_int_equal(vram_resize(addr, 25 * MIB, rig.queue), VRAM_ERR_LIMIT);
    assert_int_equal(stats_of(pool).quota_refusals, 1);
    assert_int_equal(tag_of(rig.device, "t").used_bytes, 16 * MIB + 512);
    assert_ok(vram_resize(addr, 24 * MIB, rig.queue));
    assert_int_equal(tag_of(rig.device, "t").peak_bytes, 24 * MIB);
    assert_ok(vram_resize(addr, 4 * MIB, rig.queue));
    assert_int_equal(tag_of(rig.device, "t").used_bytes, 4 * MIB);
    assert_ok(vram_resize(addr, 4 * MIB - 5, rig.queue));
    assert_int_equal(tag_of(rig.device, "t/m").requested_bytes, 4 * MIB - 5);
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(tag_of(rig.device, "t").used_bytes, 0);
    assert_int_equal(tag_of(rig.device, "t/m").requested_bytes, 0);
    rig_end_clean(&rig);
}

/* Sleep and growth at once: each thread does its own, over and over; nothing is lost, and what is
   awake in the end has its contents. */
struct sleeper {
    vram_pool *pool;
    atomic_bool over;
    unsigned naps;
};

static void *sleep_and_wake(void *argument) {
    struct sleeper *sleeper = argument;
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    while (!atomic_load(&sleeper->over)) {
        if (vram_pool_sleep(sleeper->pool, &options) == VRAM_OK) {
            sleeper->naps++;
            assert_ok(vram_pool_wake(sleeper->pool, NULL));
        }
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* awake */
    }
    return NULL;
}

static void blocks_grow_while_the_pool_naps(void **state) {
    struct rig rig = rig_make("sim", "memory=1G,real=on");
    struct sleeper sleeper = {.pool = pool_make(&rig, 0)};
    vram_addr addr;
    pthread_t thread;
    unsigned grown = 0;
    (void)state;
    assert_ok(vram_alloc(sleeper.pool, 64 * KIB, rig.queue, &addr));
    write_all(&rig, addr, 64 * KIB, 6);
    assert_int_equal(pthread_create(&thread, NULL, sleep_and_wake, &sleeper), 0);
    for (uint64_t i = 0; i < 400 || grown < 20; i++) {
        vram_status status = vram_resize(addr, (1 + i % 7) * MIB, rig.queue);
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
        grown += status == VRAM_OK;
    }
    atomic_store(&sleeper.over, true);
    pthread_join(thread, NULL);
    expect_all(&rig, addr, 64 * KIB, 6);
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(stats_of(sleeper.pool).allocated_bytes, 0);
    rig_end_clean(&rig);
}

/* -------------------------------------------------------------------- meanwhile */

struct meanwhile {
    vram_pool *pool;
    vram_addr addr;
    vram_queue *queue;
    vram_status resized, freed, looked, pinned;
};

static void resize_and_free(void *argument) {
    struct meanwhile *scene = argument;
    vram_block_info info = {.size = sizeof info};
    scene->resized = vram_resize(scene->addr, MIB, scene->queue);
    scene->looked = vram_block_info_get(scene->addr, &info);
    scene->pinned = vram_pin(scene->addr);
    (void)vram_unpin(scene->addr);
    scene->freed = vram_free(scene->addr, scene->queue);
}

/* A block that is freed while memory is mapped behind it is freed; what was mapped goes back to the
   pool. */
static void a_free_meanwhile_wins(void **state) {
    (void)state;
    for (int tagged = 0; tagged < 2; tagged++) {
        vram_alloc_options wishes = {.size = sizeof wishes, .tag = tagged ? "t" : NULL};
        vram_addr addr, again;
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(&rig, 0);
        assert_ok(vram_alloc_with(pool, 8 * MIB, rig.queue, &wishes, &addr));
        struct meanwhile scene = {.pool = pool, .addr = addr, .queue = rig.queue};
        hook_set(rig.device);
        hook.map_meanwhile = resize_and_free;
        hook.argument = &scene;
        assert_int_equal(vram_resize(addr, 32 * MIB, rig.queue), VRAM_ERR_INVALID);
        assert_int_equal(scene.resized, VRAM_ERR_BUSY);
        assert_ok(scene.looked);
        assert_ok(scene.pinned);
        assert_ok(scene.freed);
        vram_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.allocated_bytes, 0);
        assert_int_equal(stats.requested_bytes, 0);
        assert_int_equal(stats.live_blocks, 0);
        if (tagged) {
            assert_int_equal(tag_of(rig.device, "t").used_bytes, 0);
        }
        assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_INVALID);
        assert_ok(vram_alloc(pool, 32 * MIB, rig.queue, &again)); /* all of it is free */
        assert_in_range(stats_of(pool).reserved_bytes, 32 * MIB, 40 * MIB);
        assert_ok(vram_free(again, rig.queue));
        rig_end_clean(&rig);
    }
}

struct racers {
    vram_pool *pool;
    vram_addr addr[8];
    atomic_uint turn;
    atomic_bool over;
};

static void *race(void *argument) {
    struct racers *racers = argument;
    uint64_t random = atomic_fetch_add(&racers->turn, 1) + 1;
    while (!atomic_load(&racers->over)) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        vram_addr addr = racers->addr[random >> 60 & 7], mine;
        vram_block_info info = {.size = sizeof info};
        vram_status status = vram_resize(addr, 1 + (random >> 33) % (4 * MIB), NULL);
        assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
        assert_ok(vram_block_info_get(addr, &info)); /* is found whatever others do to it */
        assert_true(info.held_bytes >= info.requested_bytes);
        assert_ok(vram_alloc(racers->pool, 1 + (random >> 30) % MIB, NULL, &mine));
        assert_ok(vram_free(mine, NULL));
    }
    return NULL;
}

/* Threads resize the same blocks, look at them, and allocate beside them. */
static void threads_may_resize_one_block(void **state) {
    struct racers racers = {0};
    pthread_t threads[3];
    (void)state;
    struct rig rig = rig_make("sim", "memory=4G");
    racers.pool = pool_make(&rig, 0);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(racers.pool, MIB, NULL, &racers.addr[i]));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    atomic_store(&racers.over, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    uint64_t held = 0, asked = 0;
    for (int i = 0; i < 8; i++) {
        held += held_by(racers.addr[i]);
        asked += asked_for(racers.addr[i]);
    }
    assert_int_equal(stats_of(racers.pool).allocated_bytes, held);
    assert_int_equal(stats_of(racers.pool).requested_bytes, asked);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_free(racers.addr[i], NULL));
    }
    assert_int_equal(stats_of(racers.pool).allocated_bytes, 0);
    assert_ok(vram_pool_trim(racers.pool, NULL, NULL));
    assert_int_equal(stats_of(racers.pool).reserved_bytes, 0);
    rig_end_clean(&rig);
}

/* Addresses of a deterministic pool follow from the order of calls, those of resizing too. */
static void order_decides_in_deterministic_pools(void **state) {
    uint64_t first[40] = {0};
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        vram_addr addrs[8] = {0}, base = 0;
        uint64_t random = 7;
        struct rig rig = rig_make("sim", pass ? "memory=1G,lag=1000,seed=5" : "memory=1G");
        vram_pool *pool = pool_make(&rig, VRAM_POOL_DETERMINISTIC);
        for (int i = 0; i < 40; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            vram_addr *addr = &addrs[random >> 61];
            uint64_t size = 1 + (random >> 30) % (6 * MIB);
            uint64_t note;
            if (!*addr) {
                assert_ok(vram_alloc(pool, size, rig.queue, addr));
                base = base ? base : *addr;
                note = *addr - base;
            } else {
                note = (uint64_t)vram_resize(*addr, size, rig.queue);
            }
            assert_true(!pass || note == first[i]);
            first[i] = note;
        }
        rig_end_clean(&rig);
    }
}

/* ---------------------------------------------------------------------- faults */

/* What one run does under a fault: grows, shrinks and grows again; whatever fails, the block is
   there with its contents, and counts add up. */
static void faulty_run(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool = NULL;
    vram_addr addr = 0, other = 0;
    if (vram_pool_create(rig->device, &options, &pool) != VRAM_OK) {
        return;
    }
    uint64_t size = 3 * MIB;
    bool there = vram_alloc(pool, 24 * MIB, NULL, &other) == VRAM_OK;
    if (vram_alloc(pool, size, rig->queue, &addr) != VRAM_OK) {
        assert_ok(vram_pool_destroy(pool));
        return;
    }
    if (there) {
        assert_ok(vram_free(other, NULL));
    }
    static const uint64_t sizes[] = {20, 2, 40, 1, 7};
    for (size_t i = 0; i < 5; i++) {
        vram_status status = vram_resize(addr, sizes[i] * MIB, rig->queue);
        assert_true(status == VRAM_OK || sizes[i] * MIB > size);
        size = status == VRAM_OK ? sizes[i] * MIB : size;
        assert_int_equal(asked_for(addr), size);
        assert_true(held_by(addr) >= size);
        assert_int_equal(stats_of(pool).requested_bytes, size);
        assert_int_equal(stats_of(pool).allocated_bytes, held_by(addr));
    }
    assert_ok(vram_free(addr, rig->queue));
    assert_int_equal(stats_of(pool).allocated_bytes, 0);
}

static void every_call_of_the_driver_fails_in_turn(void **state) {
    static const vram_sim_call calls[] = {VRAM_SIM_CREATE, VRAM_SIM_MAP, VRAM_SIM_ACCESS,
                                          VRAM_SIM_UNMAP, VRAM_SIM_RELEASE};
    (void)state;
    for (size_t call = 0; call < 5; call++) {
        for (int twice = 0; twice < 2; twice++) {
            for (uint64_t nth = 1; nth < 60; nth++) {
                struct rig rig = rig_make("sim", "memory=1G");
                fault(&rig, calls[call], nth, false, VRAM_SIM_OUT_OF_MEMORY);
                if (twice) { /* and undoing it fails as well */
                    fault(&rig, VRAM_SIM_UNMAP, 1, false, 9999);
                }
                faulty_run(&rig, 0);
                assert_ok(vram_sim_fault_set(rig.context, NULL));
                rig_end_clean(&rig);
            }
        }
    }
}

static void every_host_allocation_fails_in_turn(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t nth = 1; nth < 80; nth++) {
            struct rig rig = rig_make("sim", "memory=1G");
            vr_mem_fail_at(nth, false);
            faulty_run(&rig, flags[i]);
            vr_mem_fail_at(0, false);
            rig_end_clean(&rig);
        }
    }
}

static void bad_input_is_refused(void **state) {
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    vram_pool *pool = pool_make(&rig, 0);
    assert_ok(vram_alloc(pool, MIB, rig.queue, &addr));
    assert_int_equal(vram_resize(0, 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_resize(addr + 512, 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_resize((vram_addr)(uintptr_t)&addr, 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_resize(addr, 1, rig.other_queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_resize(addr, UINT64_MAX, rig.queue), VRAM_ERR_OVERFLOW);
    assert_int_equal(asked_for(addr), MIB);
    assert_ok(vram_pool_destroy(pool));
    assert_int_equal(vram_resize(addr, 1, rig.queue), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(growing_and_shrinking_in_place),
        TEST(rounding_has_room),
        TEST(sizes_cross_the_border_of_spaces),
        TEST(large_handles_go_from_block_to_block),
        TEST(small_handles_stay_and_go_back_later),
        TEST(all_old_places_go_with_a_trim),
        TEST(a_limit_makes_all_handles_worth_it),
        TEST(blocks_with_room_grow_side_by_side),
        TEST(rooms_are_a_wish),
        TEST(a_failure_leaves_the_room),
        TEST(a_refusal_leaves_the_room),
        TEST(what_lies_behind_is_in_the_way),
        TEST(work_of_others_is_in_the_way),
        TEST(held_blocks_keep_their_memory),
        TEST(tails_wait_for_their_queue),
        TEST(tails_wait_for_other_users),
        TEST(segments_have_what_they_have),
        TEST(safety_modes_do_not_resize),
        TEST(asleep_is_busy),
        TEST(fallback_memory_does_not_grow),
        TEST(limits_hold),
        TEST(quotas_hold_at_every_level),
        TEST(a_free_meanwhile_wins),
        TEST(threads_may_resize_one_block),
        TEST(blocks_grow_while_the_pool_naps),
        TEST(order_decides_in_deterministic_pools),
        TEST(every_call_of_the_driver_fails_in_turn),
        TEST(every_host_allocation_fails_in_turn),
        TEST(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
