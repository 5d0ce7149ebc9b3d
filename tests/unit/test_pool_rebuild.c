/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_rebuild.c: vram_pool_rebuild, the step `rebuild` of the ladder, and what both do when
 * the driver fails.
 */
#include "core/space/span.h"
#include "unit/sleep_world.h"

enum { PLOTS = 24, KEPT = 3 /* every third stays */, HELD = 2 /* by a thread */ };

#define PLOT_BYTES   (96 * KIB) /* one granule and a half */
#define DEVICE_BYTES (16 * MIB)
#define SIM          "memory=16M,granule=64K,lag=3"

static vram_addr plots[PLOTS];

static bool is_kept(int i) {
    return i % KEPT == 0;
}

static void plot_fill(const struct rig *rig, int i) {
    assert_ok(vram_queue_fill(rig->queue, plots[i], (uint32_t)(i + 1), 1, PLOT_BYTES));
}

static void plot_holds(const struct rig *rig, int i) {
    static uint8_t found[PLOT_BYTES];
    assert_ok(vram_queue_download(rig->queue, found, plots[i], PLOT_BYTES));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(found[0], i + 1);
    assert_memory_equal(found, found + 1, PLOT_BYTES - 1);
}

static void kept_hold(const struct rig *rig) {
    for (int i = 0; i < PLOTS; i += KEPT) {
        plot_holds(rig, i);
    }
}

/* Blocks with contents, two thirds of them freed. They are placed in the holes of blocks that have
   each grown by a handle of 512 KiB, which they use in several parts. */
static void thin_out(struct rig *rig) {
    vram_addr grown[PLOTS / 6];
    for (int i = 0; i < PLOTS / 6; i++) {
        assert_ok(vram_alloc(rig->pool, 64 * KIB, rig->queue, &grown[i]));
        assert_ok(vram_resize(grown[i], 64 * KIB + 512 * KIB, rig->queue));
    }
    for (int i = 0; i < PLOTS / 6; i++) {
        assert_ok(vram_free(grown[i], rig->queue));
    }
    for (int i = 0; i < PLOTS; i++) {
        assert_ok(vram_alloc(rig->pool, PLOT_BYTES, rig->queue, &plots[i]));
        plot_fill(rig, i);
    }
    for (int i = 0; i < PLOTS; i++) {
        if (!is_kept(i)) {
            assert_ok(vram_free(plots[i], rig->queue));
        }
    }
}

static vram_status rebuild(vram_pool *pool, uint64_t bytes, vram_rebuild_result *result) {
    const vram_rebuild_options options = {.size = sizeof options, .bytes = bytes};
    *result = (vram_rebuild_result){.size = sizeof *result};
    return vram_pool_rebuild(pool, &options, result);
}

/* Bytes of whole granules that are free in pieces with blocks. */
static uint64_t stuck_bytes(vram_pool *handle) {
    uint64_t stuck = 0;
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, handle);
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        const struct vr_space *space = pool->spaces[part];
        for (struct vr_block *hole = vr_span_first(space); hole; hole = vr_span_next(space, hole)) {
            uint64_t at = vr_granule_up(space, vr_span_addr(hole));
            for (;
                 hole->span.kind == VR_SPAN_HOLE && at + space->config.granule <= vr_span_end(hole);
                 at += space->config.granule) {
                const struct vr_piece *piece = vr_granule_map_get(&space->granule_map, at);
                bool inside = piece->addr >= vr_span_addr(hole) &&
                              piece->addr + piece->bytes <= vr_span_end(hole);
                stuck += inside ? 0 : space->config.granule;
            }
        }
    }
    vr_mutex_unlock(&pool->lock);
    vr_handle_unpin(pool->object.handle);
    return stuck;
}

static void trim(vram_pool *pool) {
    assert_ok(vram_pool_trim(pool, NULL, NULL));
}

/* ------------------------------------------------------------------- what it does */

TEST(it_stops_when_enough_is_won) {
    vram_rebuild_result first, rest;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    vram_addr beside; /* in a granule that a plot uses, too */
    assert_ok(vram_alloc(rig.pool, PLOT_BYTES, rig.queue, &beside));
    uint64_t stuck = stuck_bytes(rig.pool);
    assert_ok(rebuild(rig.pool, 1, &first));
    assert_int_equal(first.handles, 1);
    assert_true(first.won_bytes > 0 && first.won_bytes < stuck);
    assert_ok(rebuild(rig.pool, 0, &rest));
    assert_true(rest.handles > 1);
    assert_true(rest.won_bytes / rest.handles <= first.won_bytes); /* most free bytes first */
    assert_int_equal(first.won_bytes + rest.won_bytes, stuck);
    assert_int_equal(stuck_bytes(rig.pool), 0);
    kept_hold(&rig);
    assert_ok(vram_pool_rebuild(rig.pool, NULL, NULL));
    rig_end(&rig, true);
}

/* ------------------------------------------------------------- what stays as it is */

TEST(pinned_blocks_stay) {
    vram_rebuild_result result;
    uint64_t handles = 0;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    for (int i = 0; i < PLOTS; i += KEPT) {
        assert_ok(vram_pin(plots[i]));
    }
    uint64_t stuck = stuck_bytes(rig.pool), calls = stats_of(rig.pool).driver_unmaps;
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_int_equal(result.handles, 0);
    assert_int_equal(stuck_bytes(rig.pool), stuck);
    assert_int_equal(stats_of(rig.pool).driver_unmaps, calls);
    for (int i = 0; i < PLOTS; i += KEPT) {
        assert_ok(vram_unpin(plots[i]));
        assert_ok(rebuild(rig.pool, 0, &result));
        handles += result.handles;
        assert_true(result.handles <= 2); /* one or the two that it lies in */
    }
    assert_true(handles > 1);
    assert_int_equal(stuck_bytes(rig.pool), 0);
    kept_hold(&rig);
    rig_end(&rig, true);
}

/* -------------------------------------------------------------- when memory is short */

/* The pool may hold all that the driver gives. */
static void lift_limits(const struct rig *rig) {
    const vram_limits whole = {
        .size = sizeof whole, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    assert_ok(vram_pool_limits_set(rig->pool, &whole));
}

/* All memory of the device that the pool does not have. */
static uint64_t fill_device(const struct rig *rig, vram_addr *addr) {
    uint64_t bytes = DEVICE_BYTES - sim_state(rig).live_bytes;
    assert_ok(vram_device_alloc(rig->device, bytes, VRAM_MEMORY_DEVICE, addr));
    return bytes;
}

/* Without a granule to copy to, nothing is changed; a free piece of the pool is enough. */
TEST(a_copy_needs_memory) {
    vram_rebuild_result result;
    vram_addr rest, block;
    struct rig rig = rig_make(SIM, 0);
    lift_limits(&rig);
    thin_out(&rig);
    trim(rig.pool);
    uint64_t stuck = stuck_bytes(rig.pool), held = stats_of(rig.pool).reserved_bytes;
    fill_device(&rig, &rest);
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_int_equal(result.handles, 0);
    assert_int_equal(stuck_bytes(rig.pool), stuck);
    assert_int_equal(stats_of(rig.pool).reserved_bytes, held);
    kept_hold(&rig);
    assert_ok(vram_device_free(rig.device, rest));
    assert_ok(vram_alloc(rig.pool, 1 * MIB, rig.queue, &block));
    assert_ok(vram_free(block, rig.queue));
    fill_device(&rig, &rest);
    assert_ok(rebuild(rig.pool, 0, &result)); /* one after the other, with what each one wins */
    assert_true(result.handles > 1);
    assert_int_equal(stuck_bytes(rig.pool), 0);
    spaces_are_sound(&rig);
    kept_hold(&rig);
    assert_ok(vram_device_free(rig.device, rest));
    rig_end(&rig, true);
}

static const char with_rebuild[] =
    "drain,finished,move,trim,rebuild,others,callbacks,cleanup,retry,wait,fallback";

TEST(the_ladder_rebuilds_if_it_may) {
    for (int may = 0; may < 2; may++) {
        struct rig rig = rig_make(SIM, 0);
        vram_ladder_options ladder = {.size = sizeof ladder, .steps = may ? with_rebuild : ""};
        vram_addr rest, block = 0;
        lift_limits(&rig);
        thin_out(&rig);
        assert_ok(vram_pool_ladder_set(rig.pool, &ladder));
        uint64_t stuck = stuck_bytes(rig.pool);
        trim(rig.pool);
        assert_ok(vram_device_alloc(rig.device,
                                    DEVICE_BYTES - sim_state(&rig).live_bytes - 512 * KIB,
                                    VRAM_MEMORY_DEVICE, &rest));
        vram_status status = vram_alloc(rig.pool, stuck, rig.queue, &block);
        assert_int_equal(status == VRAM_OK, may);
        assert_true(may || vram_status_is_exhausted(status));
        vram_pool_stats stats = stats_of(rig.pool);
        assert_int_equal(stats.ladder_rescues[VRAM_LADDER_REBUILD], may);
        assert_int_equal(stats.ladder_steps[VRAM_LADDER_REBUILD], may);
        assert_int_equal(stats.ladder_bytes[VRAM_LADDER_REBUILD] > 0, may);
        if (may) {
            assert_ok(vram_queue_fill(rig.queue, block, 1, 1, stuck));
        }
        kept_hold(&rig);
        spaces_are_sound(&rig);
        assert_ok(vram_device_free(rig.device, rest));
        rig_end(&rig, true);
    }
}

/* -------------------------------------------------------------------------- faults */

/* Blocks keep their contents, nothing is held for nothing, and the call says why it failed. */
TEST(one_failed_call_loses_nothing) {
    static const vram_sim_call calls[] = {VRAM_SIM_CREATE, VRAM_SIM_MAP,   VRAM_SIM_ACCESS,
                                          VRAM_SIM_COPY,   VRAM_SIM_UNMAP, VRAM_SIM_RELEASE};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        vram_rebuild_result result;
        struct rig rig = rig_make(SIM, 0);
        vram_sim_fault plan = {.size = sizeof plan, .call = calls[i], .nth = 1, .code = 9999};
        thin_out(&rig);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        trim(rig.pool);
        uint64_t held = stats_of(rig.pool).reserved_bytes;
        assert_ok(vram_sim_fault_set(rig.context, &plan));
        vram_status status = rebuild(rig.pool, 0, &result);
        assert_int_equal(sim_state(&rig).faults, 1);
        assert_int_equal(status, calls[i] == VRAM_SIM_RELEASE ? VRAM_OK : VRAM_ERR_BACKEND);
        assert_true(status == VRAM_OK || vram_error_get()->native_code == 9999);
        assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
        assert_int_equal(stats_of(rig.pool).reserved_bytes, held - result.won_bytes);
        assert_int_equal(stats_of(rig.pool).reserved_bytes, sim_state(&rig).live_bytes);
        spaces_are_sound(&rig);
        kept_hold(&rig);
        rig_end(&rig, true);
    }
}

EACH_TEST(NULL, nothing_left)
