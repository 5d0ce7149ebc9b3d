/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_rebuild.c: vram_pool_rebuild, the step `rebuild` of the ladder, and what both do when
 * the driver fails.
 */
#include "base/clock.h"
#include "base/os/os.h"
#include "core/space/span.h"
#include "unit/fault_step.h"
#include "unit/sleep_world.h"

#include <pthread.h>

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

static void free_kept(const struct rig *rig) {
    for (int i = 0; i < PLOTS; i += KEPT) {
        assert_ok(vram_free(plots[i], rig->queue));
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

static void free_parts_are_won(void **state) {
    vram_rebuild_result result, again;
    (void)state;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    trim(rig.pool);
    uint64_t held = stats_of(rig.pool).reserved_bytes, stuck = stuck_bytes(rig.pool);
    assert_true(stuck > 0);
    assert_int_equal(sim_state(&rig).live_bytes, held);
    assert_ok(rebuild(rig.pool, 0, &result));
    spaces_are_sound(&rig);
    assert_int_equal(result.won_bytes, stuck);
    assert_true(result.handles > 0 && result.copied_bytes >= result.handles * 64 * KIB);
    assert_int_equal(stuck_bytes(rig.pool), 0);
    assert_int_equal(stats_of(rig.pool).reserved_bytes, held - stuck);
    assert_int_equal(sim_state(&rig).live_bytes, held - stuck);
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
    assert_int_equal(stats_of(rig.pool).spare_handles, 0);
    kept_hold(&rig);
    assert_ok(rebuild(rig.pool, 0, &again)); /* nothing is left */
    assert_int_equal(again.won_bytes + again.handles + again.copied_bytes, 0);
    for (int i = 0; i < PLOTS; i++) { /* the rest of the addresses is as good as before */
        if (!is_kept(i)) {
            assert_ok(vram_alloc(rig.pool, PLOT_BYTES, rig.queue, &plots[i]));
            plot_fill(&rig, i);
        }
    }
    for (int i = 0; i < PLOTS; i++) {
        plot_holds(&rig, i);
        assert_ok(vram_free(plots[i], rig.queue));
    }
    spaces_are_sound(&rig);
    rig_end(&rig, true);
}

static void it_stops_when_enough_is_won(void **state) {
    vram_rebuild_result first, rest;
    (void)state;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    uint64_t stuck = stuck_bytes(rig.pool);
    assert_ok(rebuild(rig.pool, 1, &first));
    assert_int_equal(first.handles, 1);
    assert_true(first.won_bytes > 0 && first.won_bytes < stuck);
    assert_ok(rebuild(rig.pool, 0, &rest));
    assert_true(rest.handles > 1);
    assert_true(rest.won_bytes / rest.handles <= first.won_bytes); /* most free bytes first */
    assert_int_equal(stuck_bytes(rig.pool), 0);
    kept_hold(&rig);
    assert_ok(vram_pool_rebuild(rig.pool, NULL, NULL));
    rig_end(&rig, true);
}

/* Work that was submitted before is waited for, and its results are there. */
static void work_is_waited_for(void **state) {
    vram_rebuild_result result;
    (void)state;
    struct rig rig = rig_make("memory=16M,granule=64K,lag=1000,seed=4", 0);
    thin_out(&rig);
    for (int i = 0; i < PLOTS; i += KEPT) {
        assert_ok(vram_queue_fill(rig.queue, plots[i], 99, 1, PLOT_BYTES));
        plot_fill(&rig, i);
    }
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_true(result.handles > 0);
    kept_hold(&rig);
    rig_end(&rig, true);
}

/* Memory that the host may read, mapped by the operating system. */
static void real_memory_keeps_its_contents(void **state) {
    vram_rebuild_result result;
    struct rig rig = {.pool = NULL};
    vram_context_options host = {.size = sizeof host, .backends = "host"};
    (void)state;
    assert_ok(vram_context_create(&host, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_pool_create(rig.device, NULL, &rig.pool));
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_info_get(rig.context, 0, &info));
    uint64_t bytes = info.vmm_granule.value * 3 / 2;
    for (int i = 0; i < PLOTS; i++) {
        assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &plots[i]));
        assert_ok(vram_queue_fill(rig.queue, plots[i], (uint32_t)(i + 1), 1, bytes));
    }
    for (int i = 0; i < PLOTS; i++) {
        if (!is_kept(i)) {
            assert_ok(vram_free(plots[i], rig.queue));
        }
    }
    uint64_t stuck = stuck_bytes(rig.pool);
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_true(stuck > 0 && result.won_bytes == stuck);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < PLOTS; i += KEPT) {
        const uint8_t *memory = (const uint8_t *)(uintptr_t)plots[i];
        assert_int_equal(memory[0], i + 1);
        assert_memory_equal(memory, memory + 1, bytes - 1);
    }
    spaces_are_sound(&rig);
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------- what stays as it is */

static void pinned_blocks_stay(void **state) {
    vram_rebuild_result result;
    uint64_t handles = 0;
    (void)state;
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

static void sealed_blocks_stay(void **state) {
    vram_rebuild_result result;
    (void)state;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    assert_ok(vram_pool_seal(rig.pool, NULL));
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_int_equal(result.handles, 0);
    assert_ok(vram_pool_unseal(rig.pool, NULL));
    assert_ok(rebuild(rig.pool, 0, &result));
    assert_true(result.handles > 0);
    kept_hold(&rig);
    rig_end(&rig, true);
}

static void refusals_are_told(void **state) {
    vram_rebuild_result result = {.size = sizeof result}, small = {.size = 4};
    vram_rebuild_options wrong = {.size = 3};
    (void)state;
    struct rig rig = rig_make(SIM, 0);
    thin_out(&rig);
    assert_int_equal(vram_pool_rebuild(NULL, NULL, &result), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_rebuild(rig.pool, &wrong, &result), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_rebuild(rig.pool, NULL, &small), VRAM_ERR_INVALID);
    uint64_t stuck = stuck_bytes(rig.pool);
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL));
    assert_int_equal(rebuild(rig.pool, 0, &result), VRAM_ERR_BUSY);
    assert_ok(vram_pool_wake(rig.pool, NULL));
    vram_queue *captured;
    assert_ok(vram_capture_begin(rig.queue, &captured));
    assert_int_equal(rebuild(rig.pool, 0, &result), VRAM_ERR_CAPTURE);
    assert_int_equal(result.handles, 0);
    assert_ok(vram_capture_end(captured));
    assert_true(stuck > 0 && stuck_bytes(rig.pool) == stuck);
    assert_int_equal(stats_of(rig.pool).asleep_bytes, 0);
    kept_hold(&rig);
    rig_end(&rig, true);
    rig = rig_make(SIM, VRAM_POOL_SEGMENTS);
    assert_int_equal(rebuild(rig.pool, 0, &result), VRAM_ERR_UNSUPPORTED);
    rig_end(&rig, true);
    rig = rig_make(SIM, VRAM_POOL_DETERMINISTIC);
    assert_int_equal(rebuild(rig.pool, 0, &result), VRAM_ERR_UNSUPPORTED);
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
static void a_copy_needs_memory(void **state) {
    vram_rebuild_result result;
    vram_addr rest, block;
    (void)state;
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

static void the_ladder_rebuilds_if_it_may(void **state) {
    (void)state;
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

struct plan {
    bool memory; /* else the driver's */
    bool for_ever;
    int32_t code;
    vram_sim_lie lie;
    vram_sim_call call; /* that fails; ANY: every one in its turn */
};

static void set_fault(const struct rig *rig, const struct plan *plan, uint64_t nth) {
    vram_sim_fault planned = {.size = sizeof planned,
                              .call = plan->call,
                              .nth = nth,
                              .for_ever = plan->for_ever,
                              .code = plan->code,
                              .lie = plan->lie};
    if (plan->memory) {
        vr_mem_fail_at(nth, plan->for_ever);
    } else {
        assert_ok(vram_sim_fault_set(rig->context, &planned));
    }
}

static bool clear_fault(const struct rig *rig) {
    bool struck = vr_mem_failed() || sim_state(rig).faults;
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    return struck;
}

/* What no fault changes: every block with its contents, and as much memory as the driver says. */
static void nothing_is_lost(const struct rig *rig, const struct plan *plan, uint64_t held,
                            const vram_rebuild_result *result) {
    vram_pool_stats stats = stats_of(rig->pool);
    if (!plan->for_ever) {
        assert_int_equal(stats.asleep_bytes, 0);
        assert_true(stats.reserved_bytes <= held - result->won_bytes);
    }
    assert_int_equal(stats.live_blocks, PLOTS / KEPT);
    assert_int_equal(stats.reserved_bytes, sim_state(rig).live_bytes);
    if (stats.asleep_bytes) {
        assert_ok(vram_pool_wake(rig->pool, NULL));
        spaces_are_sound(rig);
    }
    kept_hold(rig);
    assert_ok(
        vram_pool_rebuild(rig->pool, NULL, NULL)); /* what is left, with a driver that works */
    trim(rig->pool);
    assert_int_equal(stuck_bytes(rig->pool), 0);
    assert_int_equal(stats_of(rig->pool).reserved_bytes, sim_state(rig).live_bytes);
    kept_hold(rig);
    free_kept(rig);
    spaces_are_sound(rig);
}

/* One rebuild with the n-th call failing. Whether the fault struck. */
static bool try_rebuild(const struct plan *plan, uint64_t nth) {
    struct rig rig = rig_make(SIM, 0);
    vram_rebuild_result result;
    thin_out(&rig);
    trim(rig.pool);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    trim(rig.pool);
    uint64_t held = stats_of(rig.pool).reserved_bytes;
    set_fault(&rig, plan, nth);
    vram_status status = rebuild(rig.pool, 0, &result);
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
    }
    bool struck = clear_fault(&rig);
    spaces_are_sound(&rig);
    if (plan->code != VRAM_SIM_DEVICE_LOST) {
        nothing_is_lost(&rig, plan, held, &result);
    }
    (void)vram_pool_destroy(rig.pool);
    rig_end(&rig, plan->code != VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vr_mem_live_bytes(), 0);
    return struck;
}

static void any_call_may_fail(void **state) {
    static const struct plan plans[] = {
        {.memory = true},
        {.memory = true, .for_ever = true},
        {.code = VRAM_SIM_OUT_OF_MEMORY},
        {.code = 9999},
        {.code = 9999, .for_ever = true},
        {.code = VRAM_SIM_DEVICE_LOST},
        {.lie = VRAM_SIM_LIE_NULL},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_CREATE},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_RELEASE},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_MAP},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_ACCESS},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_UNMAP},
        {.code = 9999, .for_ever = true, .call = VRAM_SIM_COPY},
    };
    (void)state;
    assert_ok(vram_option_set("wait_timeout", "20s"));
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        uint64_t nth = 1;
        while (try_rebuild(&plans[i], nth)) {
            nth += FAULT_STEP;
        }
        assert_true(nth > 1);
    }
}

/* A clock on which, from one look on, every wait is over. */
struct hurry {
    uint64_t now_ns, looks, patient; /* looks before that */
};

static uint64_t hurry_now(void *user) {
    struct hurry *hurry = user;
    return hurry->now_ns += hurry->looks++ < hurry->patient ? 1 : UINT64_C(60000000000);
}

static void no_sleep(void *user, uint64_t ns) {
    (void)user, (void)ns;
}

/* A wait that ends early changes nothing. What a copy may still write to is kept, also when the
   pool ends. Returns the status; *kept: the copy had not ended. */
static vram_status rebuild_in_a_hurry(uint64_t patient, bool *kept) {
    struct hurry hurry = {.patient = patient};
    struct vr_clock_source clock = {.now = hurry_now, .sleep = no_sleep, .user = &hurry};
    vram_rebuild_result result;
    struct rig rig = rig_make("memory=16M,granule=64K,lag=300,seed=3", 0);
    thin_out(&rig);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    uint64_t stuck = stuck_bytes(rig.pool), held = stats_of(rig.pool).reserved_bytes;
    vr_clock_set(&clock);
    vram_status status = rebuild(rig.pool, 0, &result);
    vr_clock_set(NULL);
    vram_pool_stats stats = stats_of(rig.pool);
    assert_int_equal(stuck_bytes(rig.pool), stuck - result.won_bytes);
    assert_true(stats.reserved_bytes < held - result.won_bytes + 1 * MIB);
    assert_int_equal(stats.reserved_bytes, sim_state(&rig).live_bytes);
    assert_int_equal(stats.asleep_bytes, 0);
    assert_int_equal(stats.live_blocks, PLOTS / KEPT);
    *kept = stats.reserved_bytes > held - result.won_bytes;
    spaces_are_sound(&rig);
    kept_hold(&rig);
    rig_end(&rig, true);
    return status;
}

static void any_wait_may_end_early(void **state) {
    uint64_t patient = 0, ended = 0;
    bool kept;
    (void)state;
    while (rebuild_in_a_hurry(patient, &kept) != VRAM_OK) {
        ended += kept;
        patient += 1 + patient / 8;
    }
    assert_true(patient > 0 && ended > 0);
}

/* -------------------------------------------------------------------------- threads */

struct crew {
    struct rig *rig;
    vr_atomic_bool stop;
    vr_atomic_u64 rounds;
};

/* Allocates and frees, and submits nothing. */
static void *churn(void *user) {
    struct crew *crew = user;
    vram_addr held[HELD] = {0};
    for (uint32_t i = 0; !vr_load(&crew->stop, VR_RELAXED); i++) {
        vram_addr *addr = &held[i % HELD];
        if (*addr) {
            assert_ok(vram_free(*addr, crew->rig->queue));
        }
        *addr = 0;
        assert_ok(vram_alloc(crew->rig->pool, (40 + i % 5 * 30) * KIB, crew->rig->queue, addr));
        vr_fetch_add(&crew->rounds, 1, VR_RELAXED);
    }
    for (int i = 0; i < HELD; i++) {
        assert_ok(held[i] ? vram_free(held[i], crew->rig->queue) : VRAM_OK);
    }
    return NULL;
}

/* Other threads allocate and free while handles are rebuilt; two calls at once exclude each
   other. */
static void threads_go_on(void **state) {
    pthread_t threads[3];
    vram_rebuild_result result;
    uint64_t handles = 0;
    (void)state;
    struct rig rig = rig_make(SIM, 0);
    struct crew crew = {.rig = &rig};
    thin_out(&rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &crew), 0);
    }
    for (int i = 0; i < 100 || vr_load(&crew.rounds, VR_RELAXED) < 1000; i++) {
        assert_ok(rebuild(rig.pool, 0, &result));
        handles += result.handles;
    }
    vr_store(&crew.stop, true, VR_RELAXED);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(handles > 0);
    spaces_are_sound(&rig);
    kept_hold(&rig);
    assert_int_equal(stats_of(rig.pool).live_blocks, PLOTS / KEPT);
    rig_end(&rig, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(free_parts_are_won, nothing_left),
        cmocka_unit_test_teardown(it_stops_when_enough_is_won, nothing_left),
        cmocka_unit_test_teardown(work_is_waited_for, nothing_left),
        cmocka_unit_test_teardown(real_memory_keeps_its_contents, nothing_left),
        cmocka_unit_test_teardown(pinned_blocks_stay, nothing_left),
        cmocka_unit_test_teardown(sealed_blocks_stay, nothing_left),
        cmocka_unit_test_teardown(refusals_are_told, nothing_left),
        cmocka_unit_test_teardown(a_copy_needs_memory, nothing_left),
        cmocka_unit_test_teardown(the_ladder_rebuilds_if_it_may, nothing_left),
        cmocka_unit_test_teardown(any_call_may_fail, nothing_left),
        cmocka_unit_test_teardown(any_wait_may_end_early, nothing_left),
        cmocka_unit_test_teardown(threads_go_on, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
