/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_device.c: what the conformance suite cannot show through healthy devices: limits, drivers
 * that refuse or lie, lost devices, unfinished queues, and struct versions.
 */
#include "unit/assert_ok.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
    assert_ok(vram_context_create(&options, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
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
    assert_ok(vram_sim_fault_set(rig->context, &plan));
}

static vram_memory_info memory(vram_device *device) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(device, &info));
    return info;
}

static vram_sim_state sim_state(vram_context *context) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(context, &state));
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

/* What a handle leaves behind counts no more when it is closed: memory, and not a range, which
   never counted. */
TEST(closing_makes_way_under_the_limit) {
    vram_addr a, base;
    vram_device *again;
    assert_ok(vram_option_set("device_limit", "8M"));
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_device_open(rig.context, 0, &again));
    assert_ok(vram_device_alloc(again, 6 * MIB, VRAM_MEMORY_DEVICE, &a));
    assert_ok(vram_range_create(again, 64 * MIB, &base));
    assert_int_equal(vram_device_alloc(rig.device, 3 * MIB, VRAM_MEMORY_DEVICE, &a),
                     VRAM_ERR_LIMIT);
    vram_device_close(again);
    assert_ok(vram_device_alloc(rig.device, 8 * MIB, VRAM_MEMORY_DEVICE, &a));
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &base), VRAM_ERR_LIMIT);
    assert_ok(vram_device_free(rig.device, a));
    rig_end_clean(&rig);
}

/* ---------------------------------------------------- drivers that refuse or lie */

TEST(a_refused_free_leaves_the_memory_live) {
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    uint64_t held = memory(rig.device).held_bytes;
    fault(&rig, VRAM_SIM_FREE, 1, false, 9999, 0);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_BACKEND);
    assert_int_equal(vram_error_get()->native_code, 9999);
    assert_int_equal(memory(rig.device).held_bytes, held);
    assert_ok(vram_native(addr + 5, &native));
    assert_int_equal(native.offset, 5);
    assert_ok(vram_device_free(rig.device, addr));
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* Closing tries again what was refused before. */
TEST(closing_gives_back_what_was_refused) {
    vram_addr addr, base;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_range_create(rig.device, 8 * MIB, &base));
    fault(&rig, VRAM_SIM_FREE, 1, false, 9999, 0);
    assert_int_equal(vram_device_free(rig.device, addr), VRAM_ERR_BACKEND);
    fault(&rig, VRAM_SIM_UNRESERVE, 1, false, 9999, 0);
    assert_int_equal(vram_range_destroy(rig.device, base), VRAM_ERR_BACKEND);
    rig_end_clean(&rig);
}

TEST(lies_are_found_out) {
    static const vram_sim_lie lies[] = {VRAM_SIM_LIE_NULL, VRAM_SIM_LIE_MISALIGNED,
                                        VRAM_SIM_LIE_OVERLAP};
    for (size_t i = 0; i < 3; i++) {
        vram_addr first, addr = 77, base = 77;
        struct rig rig = rig_make("sim", "memory=1G");
        assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &first));
        fault(&rig, VRAM_SIM_ALLOC, 1, false, 0, lies[i]);
        assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr),
                         VRAM_ERR_CORRUPT);
        fault(&rig, VRAM_SIM_RESERVE, 1, false, 0, lies[i]);
        assert_int_equal(vram_range_create(rig.device, MIB, &base), VRAM_ERR_CORRUPT);
        assert_int_equal(addr, 77);
        assert_int_equal(base, 77);
        assert_int_equal(memory(rig.device).held_count, 1);
        assert_ok(vram_device_free(rig.device, first));
        vram_context_destroy(rig.context);
    }
    struct rig rig = rig_make("sim", "memory=1G");
    vram_physical *physical;
    fault(&rig, VRAM_SIM_CREATE, 1, false, 0, VRAM_SIM_LIE_NULL);
    assert_int_equal(vram_physical_create(rig.device, MIB, &physical), VRAM_ERR_CORRUPT);
    vram_context_destroy(rig.context);
}

/* Two owners of one handle would write to the same memory. */
TEST(handles_given_twice_are_found_out) {
    vram_physical *first, *second = NULL, *more[200];
    vram_pool *pool;
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_physical_create(rig.device, MIB, &first));
    fault(&rig, VRAM_SIM_CREATE, 1, true, 0, VRAM_SIM_LIE_OVERLAP);
    uint64_t held = memory(rig.device).held_bytes;
    assert_int_equal(vram_physical_create(rig.device, MIB, &second), VRAM_ERR_CORRUPT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "in use already"));
    assert_null(second);
    assert_ok(vram_pool_create(rig.device, NULL, &pool));
    assert_int_equal(vram_alloc(pool, MIB, rig.queue, &addr), VRAM_ERR_CORRUPT);
    assert_int_equal(memory(rig.device).held_bytes, held);
    vram_sim_fault_set(rig.context, NULL);
    /* A number that was given back may come again, and one that was refused stays known. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            assert_ok(vram_physical_create(rig.device, MIB, &more[i]));
        }
        for (int i = 0; i < 200; i++) {
            assert_ok(vram_physical_destroy(more[i * 7 % 200]));
        }
    }
    fault(&rig, VRAM_SIM_RELEASE, 1, false, 9999, 0);
    assert_int_equal(vram_physical_destroy(first), VRAM_ERR_BACKEND);
    fault(&rig, VRAM_SIM_CREATE, 1, false, 0, VRAM_SIM_LIE_OVERLAP);
    assert_int_equal(vram_physical_create(rig.device, MIB, &second), VRAM_ERR_CORRUPT);
    assert_ok(vram_physical_destroy(first));
    rig_end_clean(&rig);
}

/* One handle many times over: the sum of the sizes is looked at before anything else. */
TEST(handles_beyond_all_addresses) {
    enum { COUNT = 16385 };
    vram_context_options options = {
        .size = sizeof options, .backends = "sim", .sim = "memory=1024T,granule=2M"};
    vram_context *context;
    vram_device *device;
    vram_physical *physical, **list = calloc(COUNT, sizeof *list);
    vram_addr base;
    assert_non_null(list);
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_physical_create(device, UINT64_C(1) << 50, &physical));
    assert_ok(vram_range_create(device, UINT64_C(1) << 50, &base));
    for (int i = 0; i < COUNT; i++) {
        list[i] = physical;
    }
    assert_int_equal(vram_range_map(device, base, list, COUNT), VRAM_ERR_OVERFLOW);
    assert_ok(vram_range_map(device, base, list, 1));
    assert_ok(vram_range_unmap(device, base, UINT64_C(1) << 50));
    vram_context_destroy(context);
    free(list);
}

/* --------------------------------------------------------- mapping half-way */

enum { HANDLES = 3 };

static void make_handles(struct rig *rig, vram_addr *base, vram_physical *handles[HANDLES]) {
    assert_ok(vram_range_create(rig->device, 64 * MIB, base));
    for (int i = 0; i < HANDLES; i++) {
        assert_ok(vram_physical_create(rig->device, 2 * MIB, &handles[i]));
    }
}

/* The driver fails and then will not even undo: what is stuck can be unmapped later. */

TEST(what_is_stuck_can_be_unmapped_later) {
    vram_addr base;
    vram_physical *handles[HANDLES];
    struct rig rig = rig_make("sim", "memory=1G");
    make_handles(&rig, &base, handles);
    fault(&rig, VRAM_SIM_ANY, 3, true, 9999, 0); /* two maps pass, all else fails */
    assert_int_equal(vram_range_map(rig.device, base, handles, HANDLES), VRAM_ERR_BACKEND);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 16), VRAM_ERR_INVALID);
    assert_int_equal(vram_physical_destroy(handles[0]), VRAM_ERR_BUSY);
    assert_ok(vram_physical_destroy(handles[2]));
    assert_ok(vram_range_unmap(rig.device, base, 4 * MIB));
    assert_ok(vram_physical_destroy(handles[0]));
    rig_end_clean(&rig);
}

TEST(unmapping_half_way_keeps_the_rest) {
    vram_addr base;
    vram_physical *handles[HANDLES];
    struct rig rig = rig_make("sim", "memory=1G");
    make_handles(&rig, &base, handles);
    assert_ok(vram_range_map(rig.device, base, handles, HANDLES));
    fault(&rig, VRAM_SIM_UNMAP, 2, false, 9999, 0);
    assert_int_equal(vram_range_unmap(rig.device, base, 6 * MIB), VRAM_ERR_BACKEND);
    assert_int_equal(vram_queue_fill(rig.queue, base, 1, 1, 16), VRAM_ERR_INVALID);
    assert_ok(vram_queue_fill(rig.queue, base + 2 * MIB, 1, 1, 4 * MIB));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(vram_range_destroy(rig.device, base), VRAM_ERR_BUSY);
    assert_ok(vram_range_unmap(rig.device, base + 2 * MIB, 4 * MIB));
    assert_ok(vram_range_destroy(rig.device, base));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------- lost devices */

TEST(a_lost_device_lets_go_of_everything) {
    vram_addr addr, base, more;
    vram_physical *handles[HANDLES];
    vram_point point;
    vram_queue *late;
    struct rig rig = rig_make("sim", "memory=1G,lag=50");
    make_handles(&rig, &base, handles);
    assert_ok(vram_range_map(rig.device, base, handles, HANDLES));
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, MIB));
    assert_ok(vram_queue_mark(rig.queue, &point));
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST, 0);
    assert_int_equal(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &more),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 1, MIB), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_queue_create(rig.device, NULL, &late), VRAM_ERR_DEVICE_LOST);
    assert_true(memory(rig.device).lost);
    assert_int_equal(memory(rig.device).held_count, 4);
    assert_ok(vram_device_free(rig.device, addr));
    assert_ok(vram_range_unmap(rig.device, base, 6 * MIB));
    assert_ok(vram_physical_destroy(handles[1]));
    vram_queue_destroy(rig.queue);
    assert_ok(vram_point_poll(point)); /* nothing of it will ever run again */
    rig_end_clean(&rig);
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
    assert_ok(vram_kernel_create(rig->device, &source, &kernel));
    assert_ok(vram_queue_launch(rig->queue, kernel, &launch));
    assert_ok(vram_queue_mark(rig->queue, &point));
    return point;
}

TEST(an_unfinished_queue_is_kept_aside) {
    vram_point next;
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    struct rig rig = rig_make("host", NULL);
    vram_point point = submit_endless(&rig);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_queue_destroy(rig.queue), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY); /* and tells the truth */
    assert_int_equal(vram_queue_mark(rig.queue, &next), VRAM_ERR_STALE);
    assert_int_equal(vram_queue_destroy(rig.queue), VRAM_ERR_STALE);
    atomic_store(&gate, true);
    assert_ok(vram_point_wait(point, UINT64_C(60000000000)));
    vram_context_destroy(rig.context);
    assert_ok(vram_point_poll(point));
}

/* ------------------------------------------------------------ adopted queues */

/* A queue that waits for another device's queue keeps that device until it ends itself. */
TEST(a_wait_outlives_the_other_device) {
    vram_device *other;
    vram_queue *other_queue;
    vram_point point;
    vram_sim_entry entry;
    struct rig rig = rig_make("sim", "devices=2,memory=1G,lag=200,seed=3,journal=1");
    assert_ok(vram_device_open(rig.context, 1, &other));
    assert_ok(vram_queue_create(other, NULL, &other_queue));
    assert_ok(vram_queue_mark(other_queue, &point));
    assert_ok(vram_queue_after(rig.queue, point));
    vram_device_close(other);
    assert_ok(vram_sim_journal_get(rig.context, 0, &entry));
    assert_int_not_equal(entry.call, VRAM_SIM_DEVICE_CLOSE);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* What belongs to another device, is lost with it, or is captured, is refused. */
TEST(other_devices_are_told_apart) {
    vram_device *other, *closed;
    vram_queue *other_queue, *captured;
    vram_physical *theirs;
    vram_addr range;
    vram_point point;
    struct rig rig = rig_make("sim", "devices=2,memory=1G,lag=1000");
    assert_ok(vram_device_open(rig.context, 1, &other));
    assert_ok(vram_physical_create(other, 2 * MIB, &theirs));
    assert_ok(vram_range_create(rig.device, 2 * MIB, &range));
    assert_int_equal(vram_range_map(rig.device, range, &theirs, 1), VRAM_ERR_INVALID);
    assert_ok(vram_queue_create(other, NULL, &other_queue));
    assert_ok(vram_queue_mark(other_queue, &point));
    assert_ok(vram_capture_begin(rig.queue, &captured));
    assert_int_equal(vram_queue_after(captured, point), VRAM_ERR_CAPTURE);
    assert_ok(vram_capture_end(captured));
    assert_ok(vram_device_open(rig.context, 1, &closed));
    assert_ok(vram_device_close(closed));
    assert_int_equal(vram_device_close(closed), VRAM_ERR_STALE);
    fault(&rig, VRAM_SIM_MEMORY_INFO, 1, false, VRAM_SIM_DEVICE_LOST, 0);
    (void)memory(other);
    assert_int_equal(vram_device_peer_enable(rig.device, other), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_device_peer_enable(other, rig.device), VRAM_ERR_DEVICE_LOST);
    vram_context_destroy(rig.context);
}

/* ----------------------------------------------------------- struct versions */

static void *host_pointer(vram_addr addr) {
    vram_native_info native = {.size = sizeof native};
    assert_ok(vram_native(addr, &native));
    assert_true(addr >= native.base && addr - native.base == native.offset);
    return native.host_pointer;
}

/* Reserved addresses are the device's, but only where something is mapped may they be touched. */
TEST(only_mapped_addresses_can_be_touched) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "real=on,memory=1G");
        vram_device_info info = {.size = sizeof info};
        assert_ok(vram_device_describe(rig.device, &info));
        assert_true(info.caps & VRAM_CAP_HOST_ACCESS);
        uint64_t granule = info.vmm_granule.value;
        vram_physical *physical;
        vram_addr base;
        assert_ok(vram_range_create(rig.device, 3 * granule, &base));
        assert_null(host_pointer(base + granule));
        assert_ok(vram_physical_create(rig.device, granule, &physical));
        assert_ok(vram_range_map(rig.device, base + granule, &physical, 1));
        assert_null(host_pointer(base + granule - 1));
        assert_ptr_equal(host_pointer(base + granule), (void *)(uintptr_t)(base + granule));
        assert_ptr_equal(host_pointer(base + 2 * granule - 1),
                         (void *)(uintptr_t)(base + 2 * granule - 1));
        assert_null(host_pointer(base + 2 * granule));
        assert_ok(vram_range_unmap(rig.device, base + granule, granule));
        assert_null(host_pointer(base + granule));
        vram_context_destroy(rig.context);
    }
}

/* The same in the range of a pool, for the host and for copies: its holes are nobody's. */
TEST(only_memory_of_pools_can_be_touched) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "real=on,memory=1G");
        vram_native_info native = {.size = sizeof native};
        vram_pool *pool;
        vram_addr addr;
        uint32_t word;
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
        assert_ok(vram_alloc(pool, 4 * MIB, rig.queue, &addr));
        assert_ptr_equal(host_pointer(addr + 77), (void *)(uintptr_t)(addr + 77));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 4, 4 * MIB));
        assert_ok(vram_native(addr, &native));
        vram_addr last = native.base + native.bytes - MIB;
        assert_null(host_pointer(last));
        assert_int_equal(vram_queue_fill(rig.queue, last, 1, 4, 4), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_download(rig.queue, &word, last, 4), VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 4, native.base + native.bytes - addr),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_queue_copy(rig.queue, addr, last, 4), VRAM_ERR_INVALID);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        vram_context_destroy(rig.context);
    }
}
