/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ladder_faults.c: a life in which every step of the ladder is taken, with each call of the
 * driver and each allocation of the library's failing in turn. Whatever fails, a request succeeds
 * or has an error, nothing is lost, and the driver's protocol is kept.
 */
#include "unit/fault_step.h"
#include "unit/ladder_world.h"

struct life {
    struct rig rig;
    vram_queue *second;
    vram_pool *pool, *other;
    vram_addr cache; /* what the callback lets go of */
    uint64_t taken[VRAM_LADDER_STEPS];
};

static uint64_t let_go(void *user, const vram_oom_event *event) {
    struct life *life = user;
    (void)event;
    vram_addr addr = life->cache;
    life->cache = 0;
    return addr && vram_free(addr, NULL) == VRAM_OK ? 8 * MIB : 0;
}

static vram_error_answer fall_back(void *user, const vram_error_event *event) {
    (void)user;
    return event->bytes > 60 * MIB ? VRAM_ERROR_FALL_BACK : VRAM_ERROR_RETRY;
}

/* Success with an address, or an error with a record and none. */
static vram_addr try_take(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_addr addr = 0;
    vram_status status = vram_alloc(pool, bytes, queue, &addr);
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
        assert_int_equal(addr, 0);
    } else {
        assert_int_not_equal(addr, 0);
    }
    return addr;
}

static void give(vram_addr addr, vram_queue *queue) {
    if (addr) {
        assert_ok(vram_free(addr, queue));
    }
}

static void count_steps(struct life *life) {
    vram_pool_stats stats = {.size = sizeof stats};
    if (vram_pool_stats_get(life->pool, &stats) == VRAM_OK) {
        for (int i = 0; i < VRAM_LADDER_STEPS; i++) {
            life->taken[i] += stats.ladder_steps[i];
        }
    }
}

/* Every step gives something once. What cannot be had is done without. */
static void live(struct life *life) {
    struct rig *rig = &life->rig;
    vram_ladder_options options = {.size = sizeof options,
                                   .steps = "",
                                   .fallback = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_HOST,
                                   .wait_ns = 1000000};
    vram_oom_report report = {.size = sizeof report};
    uint64_t id;
    vram_pool_options named = {.size = sizeof named, .name = "life"};
    const vram_limits whole = {
        .size = sizeof whole, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    (void)vram_device_limits_set(rig->device, &whole);
    if (vram_pool_create(rig->device, &named, &life->pool) != VRAM_OK ||
        vram_pool_create(rig->device, &named, &life->other) != VRAM_OK ||
        vram_oom_callback_add(rig->device, let_go, life, &id) != VRAM_OK) {
        return;
    }
    (void)vram_pool_ladder_set(life->pool, &options);
    (void)vram_error_handler_set(rig->context, fall_back, NULL);
    life->cache = try_take(life->pool, 8 * MIB, NULL);
    vram_addr pieces[10];
    for (int i = 0; i < 10; i++) {
        pieces[i] = try_take(life->pool, 2 * MIB, rig->queue);
    }
    vram_addr small = try_take(life->pool, 100 * KIB, NULL);
    give(try_take(life->other, 20 * MIB, NULL), NULL);
    for (int i = 0; i < 10; i += 2) {
        give(pieces[i], rig->queue);
    }
    give(small, NULL);
    vram_addr large = try_take(life->pool, 24 * MIB, life->second); /* moves, trims, others */
    vram_addr larger = try_take(life->pool, 20 * MIB, NULL);        /* callbacks */
    vram_addr most = try_take(life->pool, 30 * MIB, rig->queue);    /* to the end: fallback */
    vram_addr beyond = try_take(life->pool, 70 * MIB, NULL);        /* by the handler */
    (void)vram_oom_report_get(life->pool, &report);
    vram_ladder_options none = {.size = sizeof none, .steps = "retry,wait"};
    (void)vram_pool_ladder_set(life->pool, &none);
    (void)vram_error_handler_set(rig->context, NULL, NULL);
    give(try_take(life->pool, 50 * MIB, NULL), NULL); /* refused: a report */
    give(beyond, NULL);
    give(most, rig->queue);
    give(larger, life->second);
    give(large, life->second);
    (void)vram_pool_trim(life->pool, NULL, NULL);
    for (int i = 1; i < 10; i += 2) {
        give(pieces[i], NULL);
    }
    count_steps(life);
}

static void begin(struct life *life, const char *sim) {
    *life = (struct life){.rig = rig_make("sim", sim)};
    assert_ok(vram_queue_create(life->rig.device, NULL, &life->second));
}

static const char *const worlds[] = {SIM, SIM ",vmm=off", SIM ",lag=40"};

enum { WORLDS = sizeof worlds / sizeof worlds[0] };

/* Without faults all steps but three are seen to be taken: nobody is there to be waited for,
   test_pool_rebuild.c has `rebuild`, and test_lease.c `lease`. */
static void without_faults(void **state) {
    (void)state;
    for (int world = 0; world < WORLDS; world++) {
        struct life life;
        begin(&life, worlds[world]);
        live(&life);
        for (int i = 0; i < VRAM_LADDER_STEPS; i++) {
            if (i != VRAM_LADDER_WAIT && i != VRAM_LADDER_REBUILD && i != VRAM_LADDER_LEASE) {
                assert_true(life.taken[i] > 0);
            }
        }
        rig_end_clean(&life.rig);
    }
}

static void each_driver_call(void **state) {
    (void)state;
    static const int32_t codes[] = {VRAM_SIM_OUT_OF_MEMORY, VRAM_SIM_HOST_MEMORY, 99};
    for (int world = 0; world < WORLDS; world++) {
        for (int code = 0; code < 3; code++) {
            bool struck = true;
            for (uint64_t nth = 1; struck; nth += FAULT_STEP) {
                struct life life;
                begin(&life, worlds[world]);
                fault(&life.rig, VRAM_SIM_ANY, nth, false, codes[code]);
                live(&life);
                struck = sim_state(&life.rig).faults > 0;
                assert_ok(vram_sim_fault_set(life.rig.context, NULL));
                rig_end_clean(&life.rig);
            }
        }
    }
}

static void each_allocation(void **state) {
    (void)state;
    for (int world = 0; world < WORLDS; world++) {
        uint64_t struck = 1;
        for (uint64_t nth = 1; struck; nth += FAULT_STEP) {
            struct life life;
            begin(&life, worlds[world]);
            vr_mem_fail_at(nth, false);
            live(&life);
            struck = vr_mem_failed();
            vr_mem_fail_at(0, false);
            rig_end_clean(&life.rig);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)
        TEST(without_faults),
        TEST(each_driver_call),
        TEST(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
