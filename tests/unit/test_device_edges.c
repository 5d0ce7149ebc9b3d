/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_device_edges.c: devices at their edges: memory of another kind or device than a call wants,
 * drivers that answer with addresses at the end of all memory, threads inside many queues, and
 * arguments that are half there.
 */
#include "device/objects.h"
#include "unit/transfer_world.h"
#include "vram/extension.h"
#include "vram/vram.h"

/* Kernels access page-locked memory of their own device, too, and no byte behind it. */
static void memory_that_kernels_access(void **state) {
    vram_addr locked, theirs;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2,real=on");
    vram_addr device = memory_of(rig.device, 4096);
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_PINNED, &locked));
    assert_ok(vram_device_alloc(rig.other, 4096, VRAM_MEMORY_PINNED, &theirs));
    assert_ok(vram_memory_check(rig.device, device, 4096));
    assert_ok(vram_memory_check(rig.device, locked, 4096));
    assert_int_equal(vram_memory_check(rig.device, locked, UINT64_C(1) << 40), VRAM_ERR_INVALID);
    assert_int_equal(vram_memory_check(rig.device, theirs, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_memory_check(rig.device, 64, 1), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

static void run_nothing(const vram_kernel_call *call) {
    (void)call;
}

static void kernels_and_their_arguments(void **state) {
    vram_kernel_source source = {.size = sizeof source, .format = VRAM_KERNEL_C};
    vram_kernel *kernel = NULL;
    vram_addr theirs;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2,real=on");
    vram_kernel_fn *code = run_nothing;
    memcpy(&source.code, &code, sizeof source.code);
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    source.entry = "";
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    source.entry = "run_nothing";
    source.code = NULL;
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    memcpy(&source.code, &code, sizeof source.code);
    assert_ok(vram_kernel_create(rig.device, &source, &kernel));
    assert_ok(vram_device_alloc(rig.other, 4096, VRAM_MEMORY_PINNED, &theirs));
    const void *arguments[] = {&theirs};
    const size_t bytes[] = {sizeof theirs};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = arguments};
    assert_int_equal(vram_queue_launch(rig.queue, kernel, &launch), VRAM_ERR_INVALID);
    launch.arguments = NULL;
    launch.argument_bytes = bytes;
    assert_int_equal(vram_queue_launch(rig.queue, kernel, &launch), VRAM_ERR_INVALID);
    launch.arguments = arguments;
    launch.address_mask = 1;
    assert_int_equal(vram_queue_launch(rig.queue, kernel, &launch), VRAM_ERR_INVALID);
    assert_int_equal(calls_of(&rig, VRAM_SIM_LAUNCH), 0);
    vram_kernel_destroy(kernel);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------ impossible addresses */

static vram_status alloc_at_the_end(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    *addr = UINT64_MAX - device->info.alloc_granule.value + 1;
    (void)bytes;
    return VRAM_OK;
}

static vram_status reserve_at_the_end(struct vr_device *device, uint64_t bytes, uint64_t align,
                                      vram_addr *addr) {
    (void)device, (void)bytes;
    *addr = UINT64_MAX - align + 1;
    return VRAM_OK;
}

/* Aligned and not 0, but with an end that no address has. */
static void addresses_at_the_end_of_memory(void **state) {
    static struct vr_device_ops ops;
    static struct vr_vmm_ops vmm;
    vram_addr addr = 77;
    vram_pool *pool = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    const struct vr_device_ops *real = device->base.ops;
    const struct vr_vmm_ops *real_vmm = device->base.vmm;
    ops = *real;
    ops.alloc = alloc_at_the_end;
    vmm = *real_vmm;
    vmm.reserve = reserve_at_the_end;
    device->base.ops = &ops;
    device->base.vmm = &vmm;
    vram_log_set(NULL, NULL, VRAM_LOG_OFF); /* it says so as an error */
    assert_int_equal(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_CORRUPT);
    assert_int_equal(vram_range_create(rig.device, 16 * MIB, &addr), VRAM_ERR_CORRUPT);
    assert_int_equal(vram_pool_create(rig.device, NULL, &pool), VRAM_ERR_CORRUPT);
    assert_int_equal(addr, 77);
    assert_null(pool);
    device->base.ops = real;
    device->base.vmm = real_vmm;
    vr_leave(device);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------------- queues */

/* More queues than a thread's table of queues has: it is inside all of them all the same, and they
   end when it has left. */
static void inside_many_queues(void **state) {
    enum { QUEUES = 24 };
    struct vr_queue_object *entered[QUEUES];
    vram_queue *queues[QUEUES];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_create(rig.device, NULL, &queues[i]));
        entered[i] = vr_handle_pin(VR_KIND_QUEUE, queues[i]);
        assert_true(vr_submit_begin(entered[i]));
        assert_true(vr_entry_inside(&entered[i]->submitting));
    }
    for (int i = 0; i < QUEUES; i++) {
        vr_submit_end(entered[i]);
        assert_false(vr_entry_inside(&entered[i]->submitting));
        vr_leave(entered[i]);
        assert_ok(vram_queue_destroy(queues[i]));
    }
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------- ranges and peers */

/* A part of a handle is not unmapped. */
static void parts_of_handles_stay_mapped(void **state) {
    vram_addr range;
    vram_physical *physical;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    assert_ok(vram_range_create(rig.device, 8 * MIB, &range));
    assert_ok(vram_physical_create(rig.device, 4 * MIB, &physical));
    assert_ok(vram_range_map(rig.device, range, &physical, 1));
    assert_int_not_equal(vram_range_unmap(rig.device, range, 2 * MIB), VRAM_OK);
    assert_int_not_equal(vram_range_unmap(rig.device, range + 2 * MIB, 2 * MIB), VRAM_OK);
    assert_ok(vram_range_unmap(rig.device, range, 4 * MIB));
    assert_ok(vram_physical_destroy(physical));
    assert_ok(vram_range_destroy(rig.device, range));
    rig_end_clean(&rig);
}

static bool is_unreachable(struct vr_device *device, struct vr_device *peer) {
    (void)device, (void)peer;
    return false;
}

static void peers_without_a_path(void **state) {
    static struct vr_peer_ops peer;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    const struct vr_peer_ops *real = device->base.peer;
    device->base.peer = NULL;
    assert_int_equal(vram_device_peer_enable(rig.device, rig.other), VRAM_ERR_UNSUPPORTED);
    peer = *real;
    peer.reachable = is_unreachable;
    device->base.peer = &peer;
    assert_int_equal(vram_device_peer_enable(rig.device, rig.other), VRAM_ERR_UNSUPPORTED);
    device->base.peer = real;
    vr_leave(device);
    assert_ok(vram_device_peer_enable(rig.device, rig.other));
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------------- limits */

/* The option is the lower limit of the two, and then the device's own is. */
static void the_lower_limit_holds(void **state) {
    vram_addr addr;
    (void)state;
    assert_ok(vram_option_set("device_limit", "8M"));
    struct rig rig = rig_make("sim", "memory=64M");
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 16 * MIB};
    assert_ok(vram_device_limits_set(rig.device, &limits));
    assert_int_equal(vram_device_alloc(rig.device, 10 * MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_LIMIT);
    limits.hard_bytes = 4 * MIB;
    assert_ok(vram_device_limits_set(rig.device, &limits));
    assert_int_equal(vram_device_alloc(rig.device, 6 * MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_LIMIT);
    assert_ok(vram_device_alloc(rig.device, 2 * MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_device_free(rig.device, addr));
    rig_end_clean(&rig);
}

/* Who is refused has no reference, and nothing that it could take for one. */
static void a_queue_that_ends_is_not_entered(void **state) {
    void *queue = NULL, *entered = NULL;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    assert_ok(vr_enter(VR_KIND_QUEUE, rig.queue, &queue));
    vr_store(&((struct vr_queue_object *)queue)->closed, true, VR_SEQ_CST);
    assert_int_equal(vr_queue_enter(rig.queue, &entered), VRAM_ERR_STALE);
    assert_null(entered);
    assert_int_equal(vr_submit_enter(rig.queue, &entered), VRAM_ERR_STALE);
    assert_null(entered);
    vr_store(&((struct vr_queue_object *)queue)->closed, false, VR_SEQ_CST);
    vr_leave(queue);
    rig_end_clean(&rig);
}

/* Work of a captured region waits for no work outside of it. */
static void a_captured_queue_waits_for_nobody(void **state) {
    vram_queue *other;
    vram_point point;
    vram_addr addr;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=1000");
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_ok(vram_device_alloc(rig.device, 4096, VRAM_MEMORY_DEVICE, &addr));
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, rig.queue);
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_fill(other, addr, 1, 1, 4096));
    assert_ok(vram_queue_mark(other, &point));
    vr_store(&queue->captured, true, VR_RELEASE);
    assert_int_equal(vram_queue_after(rig.queue, point), VRAM_ERR_CAPTURE);
    vr_store(&queue->captured, false, VR_RELEASE);
    assert_ok(vram_queue_after(rig.queue, point));
    hook.poll_answer = VRAM_OK;
    vr_leave(queue);
    rig_end_clean(&rig);
}

/* An order with a number that no device has, and a context that chooses by itself. */
static void orders_of_devices(void **state) {
    uint32_t index = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_select_options options = {.size = sizeof options, .order = "sim:99999999999999999999"};
    assert_int_equal(vram_device_select(rig.context, &options, &index), VRAM_ERR_INVALID);
    options.order = "a backend of a name that is longer than any that there is";
    assert_int_equal(vram_device_select(rig.context, &options, &index), VRAM_ERR_INVALID);
    assert_int_equal(index, 77);
    rig_end_clean(&rig);
    vram_context_options host = {.size = sizeof host, .backends = "host", .sim = ""};
    vram_context *context;
    assert_ok(vram_context_create(&host, &context));
    assert_ok(vram_device_select(context, NULL, &index));
    assert_int_equal(index, 0);
    vram_context_destroy(context);
}

/* Who asks for a simulation gets it, also beside other devices. */
static void the_best_is_what_was_asked_for(void **state) {
    vram_context_options both = {.size = sizeof both, .backends = "host,sim", .sim = "memory=64M"};
    vram_device_info info = {.size = sizeof info};
    vram_context *context;
    vram_device *device;
    uint32_t index;
    (void)state;
    assert_ok(vram_context_create(&both, &context));
    assert_int_equal(vram_device_count(context), 2);
    assert_ok(vram_device_best(context, &index));
    assert_ok(vram_device_open(context, index, &device));
    assert_ok(vram_device_describe(device, &info));
    assert_string_equal(info.backend, "sim");
    vram_context_destroy(context);
}

int main(void) {
#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)
    const struct CMUnitTest tests[] = {
        HERE(memory_that_kernels_access),
        HERE(kernels_and_their_arguments),
        HERE(addresses_at_the_end_of_memory),
        HERE(inside_many_queues),
        HERE(parts_of_handles_stay_mapped),
        HERE(peers_without_a_path),
        HERE(the_lower_limit_holds),
        HERE(a_captured_queue_waits_for_nobody),
        HERE(orders_of_devices),
        HERE(the_best_is_what_was_asked_for),
        HERE(a_queue_that_ends_is_not_entered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
