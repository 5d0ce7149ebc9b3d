/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_faults.c: pools when host memory, the driver or a provider fails them. Every call fails
 * in turn, in every kind of pool; then the scenes that such loops meet only by chance, each by
 * itself.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "byte_units.h"
#include "core/cache/thread.h"
#include "unit/assert_ok.h"
#include "unit/fault_step.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static struct rig rig_make(const char *sim) {
    struct rig rig = {.pool = NULL};
    vram_context_options wanted = {.size = sizeof wanted, .backends = "sim", .sim = sim};
    assert_ok(vram_context_create(&wanted, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.other));
    return rig;
}

static struct rig rig_with_pool(const char *sim, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    struct rig rig = rig_make(sim);
    assert_ok(vram_pool_create(rig.device, &options, &rig.pool));
    return rig;
}

static vram_sim_state sim_state(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

static void fault(const struct rig *rig, vram_sim_call call, bool for_ever, int32_t code) {
    vram_sim_fault planned = {
        .size = sizeof planned, .call = call, .nth = 1, .for_ever = for_ever, .code = code};
    assert_ok(vram_sim_fault_set(rig->context, code ? &planned : NULL));
}

/* `complete`: the driver has taken everything back. */
static void rig_end(struct rig *rig, bool complete) {
    char text[200] = "";
    vram_device_close(rig->device);
    vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    if (complete) {
        assert_int_equal(sim_state(rig).live_bytes, 0);
        assert_int_equal(sim_state(rig).live_handles, 0);
    }
    vram_context_destroy(rig->context);
}

static int nothing_left(void **state) {
    (void)state;
    vr_mem_fail_at(0, false);
    vr_option_reset();
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    return vr_mem_live_bytes() == 0 && vr_handle_live(0) == 0 ? 0 : -1;
}

/* ---------------------------------------------------------------- one life after the other */

enum { MAPPED, SEGMENTS, PROVIDED, REPEATING, KINDS };

/* Made-up memory: the simulation's own would meet its own faults. */
struct source {
    vram_addr next;
    uint64_t given; /* segments */
};

static vram_status give(void *user, uint64_t bytes, vram_addr *addr) {
    struct source *source = user;
    *addr = source->next;
    source->next += bytes;
    source->given++;
    return VRAM_OK;
}

static vram_status take(void *user, vram_addr addr, uint64_t bytes) {
    struct source *source = user;
    (void)addr, (void)bytes;
    source->given--;
    return VRAM_OK;
}

/* A failure has a record, and no address. */
static bool got(vram_status status, vram_addr addr) {
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
        assert_int_equal(addr, 0);
    }
    return status == VRAM_OK;
}

/* Uses every step there is: growth, caches, other queues, moving, pins, trimming. What was given
   can be given back, whatever fails. */
static void live(const struct rig *rig) {
    enum { COUNT = 10 };
    vram_addr addrs[COUNT] = {0}, last = 0;
    for (int i = 0; i < COUNT; i++) {
        vram_queue *queue = i % 3 ? rig->queue : rig->other;
        uint64_t size = i % 2 ? 3 * MIB + (uint64_t)i * 512 * KIB : 100 * KIB;
        (void)got(vram_alloc(rig->pool, size, queue, &addrs[i]), addrs[i]);
    }
    if (addrs[1]) {
        (void)vram_use(addrs[1], rig->other);
        if (vram_pin(addrs[1]) == VRAM_OK) {
            assert_ok(vram_unpin(addrs[1]));
        }
    }
    for (int i = 0; i < COUNT; i += 3) {
        assert_ok(vram_free(addrs[i], rig->queue));
    }
    (void)got(vram_alloc(rig->pool, 9 * MIB, rig->other, &last), last);
    (void)vram_pool_warm(rig->pool, 2 * MIB, 3, rig->queue);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_free(i % 3 ? addrs[i] : 0, i % 2 ? rig->other : rig->queue));
    }
    assert_ok(vram_free(last, rig->queue));
    (void)vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT);
    (void)vram_queue_wait(rig->other, VRAM_TIMEOUT_DEFAULT);
    (void)vram_pool_trim(rig->pool, NULL, NULL);
    assert_int_equal(stats_of(rig->pool).live_blocks, 0);
}

struct plan {
    enum { DRIVER, MEMORY, SYSTEM } source;
    bool for_ever;
    int32_t code;
    vram_sim_lie lie;
};

/* Whether the fault struck. */
static bool try_life(int kind, const struct plan *plan, uint64_t nth) {
    static const uint32_t flags[KINDS] = {0, VRAM_POOL_SEGMENTS, 0, VRAM_POOL_DETERMINISTIC};
    struct source source = {.next = UINT64_C(0x7A00000000000000)};
    vram_provider provider = {
        .size = sizeof provider, .user = &source, .alloc = give, .free = take};
    vram_pool_options options = {.size = sizeof options,
                                 .flags = flags[kind],
                                 .provider = kind == PROVIDED ? &provider : NULL};
    struct rig rig = rig_make("memory=64M,lag=3");
    vram_sim_fault planned = {.size = sizeof planned,
                              .nth = nth,
                              .for_ever = plan->for_ever,
                              .code = plan->code,
                              .lie = plan->lie};
    if (plan->source == MEMORY) {
        vr_mem_fail_at(nth, plan->for_ever);
    } else if (plan->source == SYSTEM) {
        vr_os_fail_at(nth, plan->for_ever, plan->code);
    } else {
        assert_ok(vram_sim_fault_set(rig.context, &planned));
    }
    vram_status status = vram_pool_create(rig.device, &options, &rig.pool);
    if (status == VRAM_OK) {
        live(&rig);
    } else {
        assert_int_equal(vram_error_get()->status, status);
    }
    bool struck = vr_mem_failed() + vr_os_failed() + sim_state(&rig).faults > 0;
    vr_mem_fail_at(0, false);
    vr_os_fail_at(0, false, 0);
    if (status == VRAM_OK) {
        (void)vram_pool_destroy(rig.pool);
    }
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    rig_end(&rig, !plan->for_ever || plan->source != DRIVER);
    assert_int_equal(source.given, 0);
    assert_int_equal(vr_mem_live_bytes(), 0);
    return struck;
}

static void no_failing_call_is_too_much(void **state) {
    static const struct plan plans[] = {
        /* First, while the library holds no pages of its own for blocks, records and maps. */
        {.source = SYSTEM, .for_ever = true, .code = ENOMEM},
        {.source = SYSTEM, .code = ENOMEM},
        {.source = MEMORY, .for_ever = true},
        {.source = MEMORY},
        {.code = VRAM_SIM_OUT_OF_MEMORY},
        {.code = VRAM_SIM_OUT_OF_MEMORY, .for_ever = true},
        {.code = 9999},
        {.code = VRAM_SIM_DEVICE_LOST},
        {.lie = VRAM_SIM_LIE_NULL},
        {.lie = VRAM_SIM_LIE_MISALIGNED},
        {.lie = VRAM_SIM_LIE_OVERLAP},
    };
    (void)state;
    assert_ok(vram_option_set("move_credit", "1s"));
    assert_ok(vram_option_set("wait_timeout", "20s"));
    assert_ok(vram_option_set("oom_wait", "1ms")); /* for queues that never answer */
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            /* A first lie of the kind overlap is the truth, as nothing is in use yet. */
            uint64_t struck = 0, nth = 1;
            for (bool more = true; more || nth < 4; nth += nth < 4 ? 1 : FAULT_STEP) {
                more = try_life(kind, &plans[i], nth);
                struck += more;
            }
            assert_true(struck > 0 || plans[i].source == SYSTEM ||
                        (plans[i].lie && kind == PROVIDED));
        }
    }
}

/* ------------------------------------------------------------- frees that have no memory */

/* A queue that the pool has never seen, and no host memory to note it down: the free succeeds, and
   the block is nobody else's before that queue's work is over. */
static void a_free_needs_no_memory(void **state) {
    vram_addr addr, again = 0;
    uint8_t found[64];
    (void)state;
    struct rig rig = rig_with_pool("memory=64M,lag=40,seed=5", 0);
    for (int round = 0; round < 6; round++) {
        vram_queue *fresh;
        assert_ok(vram_queue_create(rig.device, NULL, &fresh));
        assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(fresh, addr, 0xAA, 1, 40 * MIB));
        vram_error_clear();
        vr_mem_fail_at(1, true);
        assert_ok(vram_free(addr, fresh));
        assert_true(vr_mem_failed() > 0);
        vr_mem_fail_at(0, false);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        assert_int_equal(vram_free(addr, fresh), VRAM_ERR_INVALID);
        if (round % 3 == 0) {
            vram_queue_destroy(fresh); /* what is owed to a queue that ended is settled */
        }
        /* There is no room for two: the second block is made of the first one's memory. */
        assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &again));
        assert_ok(vram_queue_fill(rig.queue, again, 0x55, 1, 40 * MIB));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        if (round % 3) {
            assert_ok(vram_queue_wait(fresh, VRAM_TIMEOUT_DEFAULT));
        }
        assert_ok(vram_queue_download(rig.queue, found, again, sizeof found));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        for (size_t i = 0; i < sizeof found; i++) {
            assert_int_equal(found[i], 0x55);
        }
        assert_ok(vram_free(again, rig.queue));
    }
    rig_end(&rig, true);
}

/* The pool ends while such blocks wait: after the work of their queues, and not before. */
static void pools_end_after_what_they_owe(void **state) {
    vram_addr addr;
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        struct rig rig = rig_with_pool("memory=64M,lag=100,seed=3", 0);
        assert_ok(vram_alloc(rig.pool, 4 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.other, addr, 1, 1, 4 * MIB));
        vr_mem_fail_at(1, true);
        assert_ok(vram_free(addr, rig.other));
        vr_mem_fail_at(0, false);
        if (ended) {
            vram_queue_destroy(rig.other);
        }
        assert_ok(vram_pool_destroy(rig.pool));
        assert_int_equal(sim_state(&rig).violations, 0); /* nothing was unmapped under work */
        rig_end(&rig, true);
    }
}

/* --------------------------------------------------------------------- memory of other queues */

/* A block for no queue at all waits on the host until the memory is free. */
static void no_queue_waits_for_memory(void **state) {
    vram_addr addr, next;
    vram_point filled;
    (void)state;
    struct rig rig = rig_with_pool("memory=64M,lag=1000,seed=5", 0);
    assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &addr));
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 40 * MIB));
    assert_ok(vram_queue_mark(rig.queue, &filled));
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(vram_point_poll(filled), VRAM_ERR_NOT_READY);
    assert_ok(vram_alloc(rig.pool, 40 * MIB, NULL, &next));
    assert_ok(vram_point_poll(filled));
    rig_end(&rig, true);
}

/* Free memory and memory that the driver still has are enough together, once the work is over: for
   a block of the same queue or another, of the other space, on mapped memory or segments, which are
   given back whole. */
static void all_memory_is_found(void **state) {
    static const char *const sims[] = {"memory=64M,lag=1000,seed=5",
                                       "memory=64M,lag=1000,seed=5,alias=off",
                                       "memory=64M,lag=1000,seed=5,vmm=off"};
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct rig rig = rig_with_pool(sims[i % 3], 0);
        vram_queue *queue = i / 3 % 2 ? rig.queue : rig.other;
        vram_addr addr, next;
        assert_ok(vram_alloc(rig.pool, 30 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 30 * MIB));
        assert_ok(vram_free(addr, rig.queue));
        if (i < 6) {
            assert_ok(vram_alloc(rig.pool, 50 * MIB, queue, &next));
        } else { /* as many small ones */
            for (int k = 0; k < 50 * 32; k++) {
                assert_ok(vram_alloc(rig.pool, 32 * KIB, queue, &next));
            }
        }
        assert_int_equal(sim_state(&rig).violations, 0);
        rig_end(&rig, true);
    }
}

/* The device cannot be told to wait: the failure is the caller's to see, the memory stays the other
   queue's, and the next attempt gets it. */
static void a_refused_wait_changes_nothing(void **state) {
    static const int32_t codes[] = {9999, VRAM_SIM_OUT_OF_MEMORY};
    (void)state;
    for (int i = 0; i < 2; i++) {
        vram_addr addr, next = 0;
        struct rig rig = rig_with_pool("memory=64M,lag=1000,seed=5", 0);
        assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 40 * MIB));
        assert_ok(vram_free(addr, rig.queue));
        fault(&rig, VRAM_SIM_AFTER, false, codes[i]);
        vram_status status = vram_alloc(rig.pool, 40 * MIB, rig.other, &next);
        assert_int_equal(sim_state(&rig).faults, 1);
        if (status != VRAM_OK) {
            assert_int_equal(vram_error_get()->status, status);
            assert_int_equal(stats_of(rig.pool).live_blocks, 0);
            assert_ok(vram_alloc(rig.pool, 40 * MIB, rig.other, &next));
        }
        assert_ok(vram_queue_fill(rig.other, next, 2, 1, 40 * MIB));
        assert_int_equal(stats_of(rig.pool).live_blocks, 1);
        rig_end(&rig, true);
    }
}

/* -------------------------------------------------------------- drivers that take nothing back */

static unsigned errors_logged;

static void count_errors(void *user, vram_log_level level, const char *text) {
    (void)user, (void)text;
    errors_logged += level == VRAM_LOG_ERROR;
}

/* The pool ends all the same and the log says what is left; what the device holds stays counted. */
static void stubborn_drivers_are_told_of(void **state) {
    static const struct {
        vram_sim_call call;
        uint32_t flags;
        bool holds; /* memory, not only addresses */
    } scenes[] = {
        {VRAM_SIM_RELEASE, 0, true},
        {VRAM_SIM_UNMAP, 0, true},
        {VRAM_SIM_UNRESERVE, 0, false},
        {VRAM_SIM_FREE, VRAM_POOL_SEGMENTS, true},
    };
    (void)state;
    vram_log_set(count_errors, NULL, VRAM_LOG_ERROR);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        struct rig rig = rig_with_pool("memory=64M", scenes[i].flags);
        vram_memory_info info = {.size = sizeof info};
        vram_addr addr;
        assert_ok(vram_alloc(rig.pool, 4 * MIB, rig.queue, &addr));
        errors_logged = 0;
        fault(&rig, scenes[i].call, true, 9999);
        assert_ok(vram_pool_destroy(rig.pool));
        assert_true(errors_logged > 0);
        assert_ok(vram_memory_info_get(rig.device, &info));
        assert_int_equal(info.held_bytes, sim_state(&rig).live_bytes);
        assert_true(scenes[i].holds == (info.held_bytes > 0));
        fault(&rig, scenes[i].call, false, 0);
        rig_end(&rig, false);
    }
}

/* ------------------------------------------------------------------------------------ threads */

/* As in a signal handler that interrupts its own thread inside its caches: calls go round them. */
static void a_busy_thread_goes_round_its_caches(void **state) {
    vram_addr addr, inner;
    (void)state;
    struct rig rig = rig_with_pool("memory=64M", 0);
    assert_ok(vram_alloc(rig.pool, 4096, rig.queue, &addr));
    assert_non_null(vr_thread_current);
    uint64_t hits = stats_of(rig.pool).cache_hits;
    vr_store(&vr_thread_current->busy, 1, VR_RELAXED);
    assert_ok(vram_alloc(rig.pool, 4096, rig.queue, &inner));
    assert_int_not_equal(addr, inner);
    assert_ok(vram_free(inner, rig.queue));
    assert_int_equal(vram_free(inner, rig.queue), VRAM_ERR_INVALID);
    assert_ok(vram_free(addr, rig.queue));
    vr_store(&vr_thread_current->busy, 0, VR_RELAXED);
    vram_pool_stats stats = stats_of(rig.pool);
    assert_int_equal(stats.cache_hits, hits);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    rig_end(&rig, true);
}

struct worker {
    const struct rig *rig;
    bool failed;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; i < 20000; i++) {
        vram_addr addr = 0;
        worker->failed |=
            vram_alloc(worker->rig->pool, (uint64_t)(i % 7) * 512, worker->rig->queue, &addr) ||
            vram_free(addr, worker->rig->queue);
    }
    return NULL;
}

/* Where the system has no barrier for all threads, the hits use stronger stores instead. */
static void threads_without_a_barrier(void **state) {
    enum { THREADS = 3 };
    (void)state;
    struct rig rig = rig_with_pool("memory=256M", 0);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    vram_addr addr;
    assert_ok(vram_alloc(rig.pool, 1, rig.queue, &addr));
    bool biased = vr_thread_biased;
    vr_thread_biased = false;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&rig, false};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 300; i++) {
        (void)stats_of(rig.pool); /* revokes the caches again and again */
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(workers[i].failed);
    }
    vr_thread_biased = biased;
    vram_pool_stats stats = stats_of(rig.pool);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.allocs, 1 + THREADS * 20000);
    rig_end(&rig, true);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_failing_call_is_too_much, nothing_left),
        cmocka_unit_test_teardown(a_free_needs_no_memory, nothing_left),
        cmocka_unit_test_teardown(pools_end_after_what_they_owe, nothing_left),
        cmocka_unit_test_teardown(no_queue_waits_for_memory, nothing_left),
        cmocka_unit_test_teardown(all_memory_is_found, nothing_left),
        cmocka_unit_test_teardown(a_refused_wait_changes_nothing, nothing_left),
        cmocka_unit_test_teardown(stubborn_drivers_are_told_of, nothing_left),
        cmocka_unit_test_teardown(a_busy_thread_goes_round_its_caches, nothing_left),
        cmocka_unit_test_teardown(threads_without_a_barrier, nothing_left),
    };
    cmocka_set_test_filter(count > 1 ? words[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
