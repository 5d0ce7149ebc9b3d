/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_device.c: what the conformance suite cannot show through healthy devices: limits, drivers
 * that refuse or lie, lost devices, unfinished queues, and struct versions.
 */
#include "backend/registry.h"
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "unit/nothing_left.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* A context with one opened device and a queue, on `backend`. */
struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
};

static struct rig rig_make(const char *backend, const char *sim) {
    struct rig rig;
    vram_context_options options = {.size = sizeof options, .backends = backend, .sim = sim};
    assert_int_equal(vram_context_create(&options, &rig.context), VRAM_OK);
    assert_int_equal(vram_device_open(rig.context, 0, &rig.device), VRAM_OK);
    assert_int_equal(vram_queue_create(rig.device, NULL, &rig.queue), VRAM_OK);
    return rig;
}

static void fault(struct rig *rig, vram_sim_call call, uint64_t nth, bool for_ever, int32_t code,
                  vram_sim_lie lie) {
    vram_sim_fault plan = {.size = sizeof plan,
                           .call = call,
                           .nth = nth,
                           .for_ever = for_ever,
                           .code = code,
                           .lie = lie};
    assert_int_equal(vram_sim_fault_set(rig->context, &plan), VRAM_OK);
}

static vram_memory_info memory(vram_device *device) {
    vram_memory_info info = {.size = sizeof info};
    assert_int_equal(vram_memory_info_get(device, &info), VRAM_OK);
    return info;
}

static vram_sim_state sim_state(vram_context *context) {
    vram_sim_state state = {.size = sizeof state};
    assert_int_equal(vram_sim_state_get(context, &state), VRAM_OK);
    return state;
}

/* No breach of protocol, nothing held by the simulated driver, nothing left in the library. */
static void rig_end_clean(struct rig *rig) {
    vram_device_close(rig->device);
    vram_sim_state state = sim_state(rig->context);
    char text[200] = "";
    vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(state.violations, 0);
    assert_int_equal(state.live_bytes, 0);
    assert_int_equal(state.live_handles, 0);
    vram_context_destroy(rig->context);
}

/* ------------------------------------------------------------------- limits */

static void there_are_so_many_backends(void **state) {
    (void)state;
    assert_non_null(vr_registry_at(vr_registry_count() - 1));
    assert_null(vr_registry_at(vr_registry_count()));
}

static void the_limit_counts_all_handles_of_a_device(void **state) {
    vram_addr a, b;
    vram_device *again;
    vram_physical *physical;
    (void)state;
    assert_int_equal(vram_option_set("device_limit", "8M"), VRAM_OK);
    struct rig rig = rig_make("sim", "memory=1G");
    assert_int_equal(vram_device_open(rig.context, 0, &again), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, 6 * MIB, VRAM_MEMORY_DEVICE, &a), VRAM_OK);
    assert_int_equal(vram_device_alloc(again, 4 * MIB, VRAM_MEMORY_DEVICE, &b), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "device_limit"));
    assert_true(vram_status_is_exhausted(VRAM_ERR_LIMIT));
    assert_int_equal(vram_physical_create(again, 4 * MIB, &physical), VRAM_ERR_LIMIT);
    assert_int_equal(memory(again).held_bytes, 0);
    assert_int_equal(vram_device_alloc(again, 4 * MIB, VRAM_MEMORY_PINNED, &b), VRAM_OK);
    assert_int_equal(vram_device_free(rig.device, a), VRAM_OK);
    assert_int_equal(vram_physical_create(again, 8 * MIB, &physical), VRAM_OK);
    vram_device_close(again);
    rig_end_clean(&rig);
}

/* What a handle leaves behind counts no more when it is closed: memory, and not a range, which
   never counted. */
static void closing_makes_way_under_the_limit(void **state) {
    vram_addr a, base;
    vram_device *again;
    (void)state;
    assert_int_equal(vram_option_set("device_limit", "8M"), VRAM_OK);
    struct rig rig = rig_make("sim", "memory=1G");
    assert_int_equal(vram_device_open(rig.context, 0, &again), VRAM_OK);
    assert_int_equal(vram_device_alloc(again, 6 * MIB, VRAM_MEMORY_DEVICE, &a), VRAM_OK);
    assert_int_equal(vram_range_create(again, 64 * MIB, &base), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, 3 * MIB, VRAM_MEMORY_DEVICE, &a),
                     VRAM_ERR_LIMIT);
    vram_device_close(again);
    assert_int_equal(vram_device_alloc(rig.device, 8 * MIB, VRAM_MEMORY_DEVICE, &a), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &base), VRAM_ERR_LIMIT);
    assert_int_equal(vram_device_free(rig.device, a), VRAM_OK);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------- drivers that refuse or lie */

static void a_refused_free_leaves_the_memory_live(void **state) {
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr), VRAM_OK);
    uint64_t held = memory(rig.device).held_bytes;
    fault(&rig, VRAM_SIM_FREE, 1, false, 9999, 0);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_BACKEND);
    assert_int_equal(vram_error_get()->native_code, 9999);
    assert_int_equal(memory(rig.device).held_bytes, held);
    assert_int_equal(vram_native(addr + 5, &native), VRAM_OK);
    assert_int_equal(native.offset, 5);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_OK);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* Closing tries again what was refused before. */
static void closing_gives_back_what_was_refused(void **state) {
    vram_addr addr, base;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr), VRAM_OK);
    assert_int_equal(vram_range_create(rig.device, 8 * MIB, &base), VRAM_OK);
    fault(&rig, VRAM_SIM_FREE, 1, false, 9999, 0);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_BACKEND);
    fault(&rig, VRAM_SIM_UNRESERVE, 1, false, 9999, 0);
    assert_int_equal(vram_range_destroy(rig.device, base), VRAM_ERR_BACKEND);
    rig_end_clean(&rig);
}

static void lies_are_found_out(void **state) {
    static const vram_sim_lie lies[] = {VRAM_SIM_LIE_NULL, VRAM_SIM_LIE_MISALIGNED,
                                        VRAM_SIM_LIE_OVERLAP};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        vram_addr first, addr = 77, base = 77;
        struct rig rig = rig_make("sim", "memory=1G");
        assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &first), VRAM_OK);
        fault(&rig, VRAM_SIM_ALLOC, 1, false, 0, lies[i]);
        assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr),
                         VRAM_ERR_CORRUPT);
        fault(&rig, VRAM_SIM_RESERVE, 1, false, 0, lies[i]);
        assert_int_equal(vram_range_create(rig.device, MIB, &base), VRAM_ERR_CORRUPT);
        assert_int_equal(addr, 77);
        assert_int_equal(base, 77);
        assert_int_equal(memory(rig.device).held_count, 1);
        assert_int_equal(vram_device_free(rig.device, first), VRAM_OK);
        vram_context_destroy(rig.context);
    }
    struct rig rig = rig_make("sim", "memory=1G");
    vram_physical *physical;
    fault(&rig, VRAM_SIM_CREATE, 1, false, 0, VRAM_SIM_LIE_NULL);
    assert_int_equal(vram_physical_create(rig.device, MIB, &physical), VRAM_ERR_CORRUPT);
    vram_context_destroy(rig.context);
}

/* Two owners of one handle would write to the same memory. */
static void handles_given_twice_are_found_out(void **state) {
    vram_physical *first, *second = NULL, *more[200];
    vram_pool *pool;
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_int_equal(vram_physical_create(rig.device, MIB, &first), VRAM_OK);
    fault(&rig, VRAM_SIM_CREATE, 1, true, 0, VRAM_SIM_LIE_OVERLAP);
    uint64_t held = memory(rig.device).held_bytes;
    assert_int_equal(vram_physical_create(rig.device, MIB, &second), VRAM_ERR_CORRUPT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "in use already"));
    assert_null(second);
    assert_int_equal(vram_pool_create(rig.device, NULL, &pool), VRAM_OK);
    assert_int_equal(vram_alloc(pool, MIB, rig.queue, &addr), VRAM_ERR_CORRUPT);
    assert_int_equal(memory(rig.device).held_bytes, held);
    vram_sim_fault_set(rig.context, NULL);
    /* A number that was given back may come again, and one that was refused stays known. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            assert_int_equal(vram_physical_create(rig.device, MIB, &more[i]), VRAM_OK);
        }
        for (int i = 0; i < 200; i++) {
            assert_int_equal(vram_physical_destroy(more[i * 7 % 200]), VRAM_OK);
        }
    }
    fault(&rig, VRAM_SIM_RELEASE, 1, false, 9999, 0);
    assert_int_equal(vram_physical_destroy(first), VRAM_ERR_BACKEND);
    fault(&rig, VRAM_SIM_CREATE, 1, false, 0, VRAM_SIM_LIE_OVERLAP);
    assert_int_equal(vram_physical_create(rig.device, MIB, &second), VRAM_ERR_CORRUPT);
    assert_int_equal(vram_physical_destroy(first), VRAM_OK);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------- mapping half-way */

enum { HANDLES = 3 };

static void make_handles(struct rig *rig, vram_addr *base, vram_physical *handles[HANDLES]) {
    assert_int_equal(vram_range_create(rig->device, 64 * MIB, base), VRAM_OK);
    for (int i = 0; i < HANDLES; i++) {
        assert_int_equal(vram_physical_create(rig->device, 2 * MIB, &handles[i]), VRAM_OK);
    }
}

static void mapping_is_all_or_nothing(void **state) {
    vram_addr base;
    vram_physical *handles[HANDLES];
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    make_handles(&rig, &base, handles);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        fault(&rig, nth <= 3 ? VRAM_SIM_MAP : VRAM_SIM_ACCESS, nth <= 3 ? nth : 1, false, 9999, 0);
        assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_ERR_BACKEND);
        assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 16), VRAM_ERR_INVALID);
    }
    assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_OK);
    assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 6 * MIB), VRAM_OK);
    assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    rig_end_clean(&rig);
}

/* The driver fails and then will not even undo: what is stuck can be unmapped later. */
/* Neighbours may be mapped in any order; a place that is taken, and another device's handle, are
   refused, and nothing has changed then. */
static void mappings_may_touch_but_not_meet(void **state) {
    vram_addr base;
    vram_physical *handles[HANDLES], *foreign;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,granule=2M,devices=2");
    vram_device *second;
    assert_int_equal(vram_device_open(rig.context, 1, &second), VRAM_OK);
    make_handles(&rig, &base, handles);
    assert_int_equal(vram_physical_create(second, 2 * MIB, &foreign), VRAM_OK);
    assert_int_equal(vram_range_map(rig.device, base + 4 * MIB, &handles[0], 1), VRAM_OK);
    assert_int_equal(vram_range_map(rig.device, base + 2 * MIB, &handles[1], 2), VRAM_ERR_BUSY);
    assert_int_equal(vram_range_map(rig.device, base + 2 * MIB, &handles[1], 1), VRAM_OK);
    assert_int_equal(vram_range_map(rig.device, base + 6 * MIB, &handles[2], 1), VRAM_OK);
    assert_int_equal(vram_range_map(rig.device, base + 8 * MIB, &foreign, 1), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "another device"));
    assert_int_equal(vram_range_unmap(rig.device, base + 2 * MIB, 6 * MIB), VRAM_OK);
    assert_int_equal(vram_physical_destroy(foreign), VRAM_OK);
    vram_device_close(second);
    rig_end_clean(&rig);
}

static void what_is_stuck_can_be_unmapped_later(void **state) {
    vram_addr base;
    vram_physical *handles[HANDLES];
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    make_handles(&rig, &base, handles);
    fault(&rig, VRAM_SIM_ANY, 3, true, 9999, 0); /* two maps pass, all else fails */
    assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_ERR_BACKEND);
    assert_int_equal(vram_sim_fault_set(rig.context, NULL), VRAM_OK);
    assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 16), VRAM_ERR_INVALID);
    assert_int_equal(vram_physical_destroy(handles[0]), VRAM_ERR_BUSY);
    assert_int_equal(vram_physical_destroy(handles[2]), VRAM_OK);
    assert_int_equal(vram_range_unmap(rig.device, base, 4 * MIB), VRAM_OK);
    assert_int_equal(vram_physical_destroy(handles[0]), VRAM_OK);
    rig_end_clean(&rig);
}

static void unmapping_half_way_keeps_the_rest(void **state) {
    vram_addr base;
    vram_physical *handles[HANDLES];
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    make_handles(&rig, &base, handles);
    assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_OK);
    fault(&rig, VRAM_SIM_UNMAP, 2, false, 9999, 0);
    assert_int_equal(vram_range_unmap(rig.device, base, 6 * MIB), VRAM_ERR_BACKEND);
    assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 16), VRAM_ERR_INVALID);
    assert_int_equal(vram_queue_fill(rig.queue, base + 2 * MIB, 1, 1, 4 * MIB), VRAM_OK);
    assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_int_equal(vram_range_destroy(rig.device, base), VRAM_ERR_BUSY);
    assert_int_equal(vram_range_unmap(rig.device, base + 2 * MIB, 4 * MIB), VRAM_OK);
    assert_int_equal(vram_range_destroy(rig.device, base), VRAM_OK);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------- lost devices */

static void a_lost_device_lets_go_of_everything(void **state) {
    vram_addr addr, base, more;
    vram_physical *handles[HANDLES];
    vram_point point;
    vram_queue *late;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,lag=50");
    make_handles(&rig, &base, handles);
    assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr), VRAM_OK);
    assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 1, MIB), VRAM_OK);
    assert_int_equal(vram_queue_mark(rig.queue, &point), VRAM_OK);
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST, 0);
    assert_int_equal(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &more),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 1, MIB), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_queue_create(rig.device, NULL, &late), VRAM_ERR_DEVICE_LOST);
    assert_true(memory(rig.device).lost);
    assert_int_equal(memory(rig.device).held_count, 4);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_OK);
    assert_int_equal(vram_range_unmap(rig.device, base, 6 * MIB), VRAM_OK);
    assert_int_equal(vram_physical_destroy(handles[1]), VRAM_OK);
    vram_queue_destroy(rig.queue);
    assert_int_equal(vram_point_poll(point), VRAM_OK); /* nothing of it will ever run again */
    rig_end_clean(&rig);
}

/* Calls about a simulation need one, a kernel needs a format that there is, and a list of backends
   their names: a text quotes no more than 32 bytes of another one. */
static void what_is_not_there_is_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_kernel_source source = {.size = sizeof source,
                                 .format = (vram_kernel_format)(VRAM_KERNEL_METAL + 1),
                                 .code = "x",
                                 .entry = "x"};
    vram_kernel *kernel = NULL;
    assert_int_not_equal(vram_sim_clock_advance(rig.context, 1), VRAM_OK);
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "not a kernel format"));
    assert_null(kernel);
    char name[41] = "";
    memset(name, 'x', sizeof name - 1);
    vram_context_options options = {.size = sizeof options, .backends = name};
    vram_context *none = NULL;
    assert_int_equal(vram_context_create(&options, &none), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, name + 8));
    assert_null(strstr(vram_error_get()->text, name + 7));
    vram_context_destroy(rig.context);
}

/* --------------------------------------------------------- unfinished queues */

static atomic_bool gate;

static void wait_at_gate(const vram_kernel_call *call) {
    (void)call;
    while (!atomic_load(&gate)) {
    }
}

static vram_point submit_endless(struct rig *rig) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)wait_at_gate,
                                 .entry = "wait_at_gate"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    vram_point point;
    atomic_store(&gate, false);
    assert_int_equal(vram_kernel_create(rig->device, &source, &kernel), VRAM_OK);
    assert_int_equal(vram_queue_launch(rig->queue, kernel, &launch), VRAM_OK);
    assert_int_equal(vram_queue_mark(rig->queue, &point), VRAM_OK);
    return point;
}

static void an_unfinished_queue_is_kept_aside(void **state) {
    vram_point next;
    (void)state;
    assert_int_equal(vram_option_set("wait_timeout", "20ms"), VRAM_OK);
    struct rig rig = rig_make("host", NULL);
    vram_point point = submit_endless(&rig);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_queue_destroy(rig.queue), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY); /* and tells the truth */
    assert_int_equal(vram_queue_mark(rig.queue, &next), VRAM_ERR_STALE);
    assert_int_equal(vram_queue_destroy(rig.queue), VRAM_ERR_STALE);
    atomic_store(&gate, true);
    assert_int_equal(vram_point_wait(point, UINT64_C(60000000000)), VRAM_OK);
    vram_context_destroy(rig.context);
    assert_int_equal(vram_point_poll(point), VRAM_OK);
}

/* ------------------------------------------------------------ adopted queues */

static void adopted_queues_are_ended_not_destroyed(void **state) {
    int native;
    void *found;
    vram_queue *queue;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,lag=10");
    assert_int_equal(vram_queue_adopt(rig.device, &native, &queue), VRAM_OK);
    assert_int_equal(vram_queue_native(queue, &found), VRAM_OK);
    assert_ptr_equal(found, &native);
    assert_int_equal(vram_queue_destroy(queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_INVALID);
    assert_int_equal(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_int_equal(vram_queue_end(queue), VRAM_OK);
    assert_int_equal(vram_queue_end(queue), VRAM_ERR_STALE);
    assert_int_equal(vram_queue_end(rig.queue), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
    rig = rig_make("host", NULL);
    assert_int_equal(vram_queue_adopt(rig.device, &native, &queue), VRAM_ERR_UNSUPPORTED);
    vram_context_destroy(rig.context);
}

/* A queue that waits for another device's queue keeps that device until it ends itself. */
static void a_wait_outlives_the_other_device(void **state) {
    vram_device *other;
    vram_queue *other_queue;
    vram_point point;
    (void)state;
    struct rig rig = rig_make("sim", "devices=2,memory=1G,lag=200,seed=3");
    assert_int_equal(vram_device_open(rig.context, 1, &other), VRAM_OK);
    assert_int_equal(vram_queue_create(other, NULL, &other_queue), VRAM_OK);
    assert_int_equal(vram_queue_mark(other_queue, &point), VRAM_OK);
    assert_int_equal(vram_queue_after(rig.queue, point), VRAM_OK);
    vram_device_close(other);
    assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------- struct versions */

static void older_and_newer_structs_are_understood(void **state) {
    struct {
        vram_device_info info;
        char later[64];
    } newer;
    vram_device_info info;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    memset(&newer, 0xAA, sizeof newer);
    newer.info.size = sizeof newer;
    assert_int_equal(vram_device_describe(rig.device, &newer.info), VRAM_OK);
    assert_int_equal(newer.info.size, sizeof newer);
    assert_int_equal(newer.later[0], 0);
    assert_string_equal(newer.info.backend, "sim");
    info.size = 0;
    assert_int_equal(vram_device_describe(rig.device, &info), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "size"));
    assert_int_equal(vram_device_describe(rig.device, NULL), VRAM_ERR_INVALID);
    vram_context_options options = {.size = 3};
    vram_context *context;
    assert_int_equal(vram_context_create(&options, &context), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

static void *host_pointer(vram_addr addr) {
    vram_native_info native = {.size = sizeof native};
    assert_int_equal(vram_native(addr, &native), VRAM_OK);
    assert_true(addr >= native.base && addr - native.base == native.offset);
    return native.host_pointer;
}

/* Reserved addresses are the device's, but only where something is mapped may they be touched. */
static void only_mapped_addresses_can_be_touched(void **state) {
    static const char *const backends[] = {"host", "sim"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "real=on,memory=1G");
        vram_device_info info = {.size = sizeof info};
        assert_int_equal(vram_device_describe(rig.device, &info), VRAM_OK);
        assert_true(info.caps & VRAM_CAP_HOST_ACCESS);
        uint64_t granule = info.vmm_granule.value;
        vram_physical *physical;
        vram_addr base;
        assert_int_equal(vram_range_create(rig.device, 3 * granule, &base), VRAM_OK);
        assert_null(host_pointer(base + granule));
        assert_int_equal(vram_physical_create(rig.device, granule, &physical), VRAM_OK);
        assert_int_equal(vram_range_map(rig.device, base + granule, &physical, 1), VRAM_OK);
        assert_null(host_pointer(base + granule - 1));
        assert_ptr_equal(host_pointer(base + granule), (void *)(uintptr_t)(base + granule));
        assert_ptr_equal(host_pointer(base + 2 * granule - 1),
                         (void *)(uintptr_t)(base + 2 * granule - 1));
        assert_null(host_pointer(base + 2 * granule));
        assert_int_equal(vram_range_unmap(rig.device, base + granule, granule), VRAM_OK);
        assert_null(host_pointer(base + granule));
        vram_context_destroy(rig.context);
    }
}

/* The same in the range of a pool, for the host and for copies: its holes are nobody's. */
static void only_memory_of_pools_can_be_touched(void **state) {
    static const char *const backends[] = {"host", "sim"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "real=on,memory=1G");
        vram_native_info native = {.size = sizeof native};
        vram_pool *pool;
        vram_addr addr;
        uint32_t word;
        assert_int_equal(vram_pool_create(rig.device, NULL, &pool), VRAM_OK);
        assert_int_equal(vram_alloc(pool, 4 * MIB, rig.queue, &addr), VRAM_OK);
        assert_ptr_equal(host_pointer(addr + 77), (void *)(uintptr_t)(addr + 77));
        assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 4, 4 * MIB), VRAM_OK);
        assert_int_equal(vram_native(addr, &native), VRAM_OK);
        vram_addr last = native.base + native.bytes - MIB;
        assert_null(host_pointer(last));
        assert_int_equal(vram_queue_fill(rig.queue, last, 1, 4, 4), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_download(rig.queue, &word, last, 4), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 4, native.base + native.bytes - addr),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_copy(rig.queue, addr, last, 4), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
        vram_context_destroy(rig.context);
    }
}

static void bad_contexts_are_refused_by_name(void **state) {
    vram_context *context;
    vram_context_options options = {.size = sizeof options, .backends = "host,cuba"};
    (void)state;
    assert_int_equal(vram_context_create(&options, &context), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "cuba"));
    options.backends = "sim";
    options.sim = "devices=2,colour=red";
    assert_int_equal(vram_context_create(&options, &context), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "colour"));
    assert_int_equal(vram_context_create(NULL, NULL), VRAM_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_so_many_backends),
        cmocka_unit_test_teardown(the_limit_counts_all_handles_of_a_device, nothing_left),
        cmocka_unit_test_teardown(closing_makes_way_under_the_limit, nothing_left),
        cmocka_unit_test_teardown(a_refused_free_leaves_the_memory_live, nothing_left),
        cmocka_unit_test_teardown(closing_gives_back_what_was_refused, nothing_left),
        cmocka_unit_test_teardown(lies_are_found_out, nothing_left),
        cmocka_unit_test_teardown(handles_given_twice_are_found_out, nothing_left),
        cmocka_unit_test_teardown(mapping_is_all_or_nothing, nothing_left),
        cmocka_unit_test_teardown(mappings_may_touch_but_not_meet, nothing_left),
        cmocka_unit_test_teardown(what_is_stuck_can_be_unmapped_later, nothing_left),
        cmocka_unit_test_teardown(unmapping_half_way_keeps_the_rest, nothing_left),
        cmocka_unit_test_teardown(a_lost_device_lets_go_of_everything, nothing_left),
        cmocka_unit_test_teardown(what_is_not_there_is_refused, nothing_left),
        cmocka_unit_test_teardown(an_unfinished_queue_is_kept_aside, nothing_left),
        cmocka_unit_test_teardown(adopted_queues_are_ended_not_destroyed, nothing_left),
        cmocka_unit_test_teardown(a_wait_outlives_the_other_device, nothing_left),
        cmocka_unit_test_teardown(older_and_newer_structs_are_understood, nothing_left),
        cmocka_unit_test_teardown(only_mapped_addresses_can_be_touched, nothing_left),
        cmocka_unit_test_teardown(only_memory_of_pools_can_be_touched, nothing_left),
        cmocka_unit_test_teardown(bad_contexts_are_refused_by_name, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
