/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_device_faults.c: one life of a device, from context to end, while host memory, the system or
 * the driver fails at call 1, 2, 3 ... until none is left. Whatever failed has a record and gave
 * nothing; what was given can be given back; nothing is left at the end.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "device/objects.h"
#include "device/ops.h"
#include "unit/assert_ok.h"
#include "unit/child.h"
#include "vram/vram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SPREAD = 6 };

static unsigned char host[4096];

/* How calls fail. */
struct plan {
    enum { MEMORY, SYSTEM, DRIVER } source;
    bool for_ever;
    int32_t code; /* errno, or the simulated driver's */
    vram_sim_lie lie;
};

static bool good(vram_status status) {
    if (status != VRAM_OK && status != VRAM_ERR_NOT_READY) {
        assert_int_equal(vram_error_get()->status, status);
        assert_true(vram_error_get()->text[0] != 0);
    }
    return status == VRAM_OK;
}

/* ------------------------------------------------------------------------ one life */

/* Memory of every kind, each at an address of its own, so that the address map grows. */
static void live_memory(vram_device *device, vram_queue *queue) {
    vram_addr addrs[SPREAD] = {0};
    for (int i = 0; i < SPREAD; i++) {
        (void)good(vram_device_alloc(device, (uint64_t)(i + 1) << 20, (vram_memory_kind)(i % 3),
                                     &addrs[i]));
    }
    bool idle = true;
    if (addrs[0] && queue && good(vram_queue_upload(queue, addrs[0], host, sizeof host))) {
        (void)good(vram_queue_fill(queue, addrs[0], 5, 1, sizeof host));
        idle = good(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    }
    for (int i = idle ? 0 : 1; i < SPREAD; i++) {
        (void)good(vram_device_free(device, addrs[i])); /* what fails is freed with the device */
    }
}

static void live_mapping(vram_device *device) {
    enum { HANDLES = 12 };
    vram_physical *physicals[HANDLES] = {NULL};
    vram_device_info info = {.size = sizeof info};
    vram_addr base = 0;
    uint32_t made = 0;
    assert_ok(vram_device_describe(device, &info));
    uint64_t granule = info.vmm_granule.value;
    while (made < HANDLES && good(vram_physical_create(device, granule, &physicals[made]))) {
        made++;
    }
    if (good(vram_range_create(device, HANDLES * granule, &base)) && made == HANDLES &&
        good(vram_range_map(device, base, physicals, HANDLES))) {
        (void)good(vram_range_unmap(device, base, HANDLES * granule));
    }
    if (base) {
        (void)good(vram_range_destroy(device, base));
    }
    for (uint32_t i = 0; i < made; i++) {
        (void)good(vram_physical_destroy(physicals[i]));
    }
}

static void nothing(const vram_kernel_call *call) {
    (void)call;
}

static void live_kernel(vram_device *device, vram_queue *queue) {
    vram_kernel_source source = {
        .size = sizeof source, .code = (const void *)(uintptr_t)nothing, .entry = "nothing"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    if (good(vram_kernel_create(device, &source, &kernel))) {
        if (!queue || !good(vram_queue_launch(queue, kernel, &launch)) ||
            good(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT))) {
            vram_kernel_destroy(kernel);
        }
    }
}

static void live(vram_device *device) {
    vram_queue *queue = NULL, *other = NULL;
    vram_point point = {NULL, 0};
    (void)good(vram_queue_create(device, NULL, &queue));
    (void)good(vram_queue_create(device, NULL, &other));
    live_memory(device, queue);
    live_mapping(device);
    live_kernel(device, queue);
    if (queue && other && good(vram_queue_mark(queue, &point))) {
        (void)good(vram_queue_after(other, point));
        (void)good(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
    }
    vram_queue_destroy(queue);
    vram_queue_destroy(other);
}

/* ---------------------------------------------------------------------- over and over */

static uint64_t struck_so_far(vram_context *context) {
    vram_sim_state state = {.size = sizeof state};
    uint64_t faults = vr_mem_failed() + vr_os_failed();
    return context && vram_sim_state_get(context, &state) == VRAM_OK ? faults + state.faults
                                                                     : faults;
}

/* What the driver refused to free for ever may remain, and nothing else. */
static void expect_clean(vram_context *context, bool complete) {
    vram_sim_state state = {.size = sizeof state};
    if (vram_sim_state_get(context, &state) == VRAM_OK) {
        assert_int_equal(state.violations, 0);
        if (complete) {
            assert_int_equal(state.live_bytes, 0);
            assert_int_equal(state.live_handles, 0);
        }
    }
}

/* Whether the fault struck. */
static bool try_life(const char *backend, const struct plan *plan, uint64_t nth) {
    vram_context_options options = {
        .size = sizeof options, .backends = backend, .sim = "memory=1G,real=on,lag=3"};
    vram_sim_fault fault = {.size = sizeof fault,
                            .nth = nth,
                            .for_ever = plan->for_ever,
                            .code = plan->code,
                            .lie = plan->lie};
    vram_context *context = NULL;
    vram_device *device = NULL;
    if (plan->source == MEMORY) {
        vr_mem_fail_at(nth, plan->for_ever);
    } else if (plan->source == SYSTEM) {
        vr_os_fail_at(nth, plan->for_ever, plan->code);
    }
    if (good(vram_context_create(&options, &context))) {
        if (plan->source == DRIVER) {
            assert_ok(vram_sim_fault_set(context, &fault));
        }
        if (vram_device_count(context) > 0 && good(vram_device_open(context, 0, &device))) {
            live(device);
        }
    }
    uint64_t struck = struck_so_far(context);
    vr_mem_fail_at(0, false);
    vr_os_fail_at(0, false, 0);
    if (context) {
        vram_device_close(device);
        expect_clean(context, plan->source != DRIVER || !plan->for_ever);
        vram_context_destroy(context);
    }
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(vr_handle_live(0), 0);
    return struck > 0;
}

static void try_all(const char *backend, const struct plan *plans, size_t count) {
    assert_ok(vram_option_set("wait_timeout", "20s"));
    assert_ok(vram_option_set("host_memory", "1G"));
    for (size_t i = 0; i < count; i++) {
        uint64_t struck = 0, nth = 1;
        for (bool more = true; more || nth < 8; nth++) {
            more = try_life(backend, &plans[i], nth);
            struck += more;
        }
        assert_true(struck > 0);
    }
    vr_option_reset();
}

TEST(no_host_memory) {
    static const struct plan plans[] = {{.source = MEMORY}, {.source = MEMORY, .for_ever = true}};
    try_all("sim", plans, 2);
    try_all("host", plans, 2);
}

/* First, and for ever first: the records of memory and the nodes of the address map lie in pages
   that are kept once the system gave them, and here each is asked for while there is none. */
TEST(no_system) {
    static const struct plan plans[] = {
        {.source = SYSTEM, .code = ENOMEM, .for_ever = true},
        {.source = SYSTEM, .code = ENOMEM},
        {.source = SYSTEM, .code = EIO},
    };
    try_all("sim", plans, 3);
    try_all("host", plans, 3);
}

TEST(no_driver) {
    static const struct plan plans[] = {
        {.source = DRIVER, .code = VRAM_SIM_OUT_OF_MEMORY},
        {.source = DRIVER, .code = 9999},
        {.source = DRIVER, .code = VRAM_SIM_DEVICE_LOST},
        {.source = DRIVER, .code = VRAM_SIM_OUT_OF_MEMORY, .for_ever = true},
        {.source = DRIVER, .lie = VRAM_SIM_LIE_NULL},
        {.source = DRIVER, .lie = VRAM_SIM_LIE_MISALIGNED},
        {.source = DRIVER, .lie = VRAM_SIM_LIE_OVERLAP},
    };
    try_all("sim", plans, sizeof plans / sizeof plans[0]);
}

/* --------------------------------------------------------------------------- sums */

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
    assert_int_equal(vr_mem_live_bytes(), 0);
}

/* ------------------------------------------------------------------------ an exit */

/* Every call of a driver, once the process has begun to exit: how many went through, or did not say
   why. */
static int calls_at_exit(void *argument) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "devices=2"};
    vram_context *context;
    vram_device *handle;
    vram_queue *submitted;
    vram_addr addr = 4096;
    vram_value value;
    uint64_t number = 0;
    int descriptor = -1;
    uint8_t fabric[VR_FABRIC_BYTES] = {0};
    struct vr_native native;
    void *kernel = NULL;
    (void)argument;
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &handle));
    assert_ok(vram_queue_create(handle, NULL, &submitted));
    struct vr_device_object *object = vr_handle_pin(VR_KIND_DEVICE, handle);
    struct vr_queue_object *of = vr_handle_pin(VR_KIND_QUEUE, submitted);
    struct vr_device *device = &object->base;
    struct vr_queue *queue = &of->base;
    vr_os_exit_begins();
    vr_device_close(device);
    vr_queue_destroy(queue);
    vr_object_give(device, addr, 4096);
    vr_kernel_unload(device, kernel);
    const vram_status all[] = {
        vr_device_open(device),
        vr_memory_info(device, &value, &value),
        vr_memory_alloc(device, 4096, &addr),
        vr_memory_free(device, addr, 4096),
        vr_queue_create(queue, NULL),
        vr_queue_adopt(queue),
        vr_queue_upload(queue, addr, host, 16),
        vr_queue_download(queue, host, addr, 16),
        vr_queue_copy(queue, addr, addr, 16),
        vr_queue_fill(queue, addr, 0, 4, 16),
        vr_queue_signal(queue, 1),
        vr_queue_after(queue, queue, 1),
        vr_queue_poll(queue),
        vr_queue_launch(queue, kernel, NULL),
        vr_pinned_alloc(device, 4096, &addr),
        vr_pinned_free(device, addr, 4096),
        vr_pinned_register(device, addr, 4096),
        vr_pinned_unregister(device, addr, 4096),
        vr_vmm_reserve(device, 4096, 4096, &addr),
        vr_vmm_unreserve(device, addr, 4096),
        vr_vmm_create(device, 4096, &number),
        vr_vmm_release(device, number, 4096),
        vr_vmm_map(device, addr, number, 4096),
        vr_vmm_access(device, addr, 4096),
        vr_vmm_unmap(device, addr, 4096),
        vr_share_export_handle(device, number, 4096, false, &descriptor),
        vr_share_import_handle(device, descriptor, 4096, &number),
        vr_share_release(device, number, 4096),
        vr_fabric_export(device, number, fabric),
        vr_fabric_import(device, fabric, &number),
        vr_managed_alloc(device, 4096, &addr),
        vr_managed_free(device, addr, 4096),
        vr_managed_prefetch(queue, addr, 4096, 0),
        vr_peer_enable(device, device),
        vr_peer_copy(queue, addr, device, addr, 16),
        vr_memory_native(device, addr, 4096, &native),
        vr_object_adopt(device, NULL, &addr),
        vr_object_native(device, addr, 4096, &native),
        vr_kernel_load(device, NULL, &kernel),
    };
    int through = vr_peer_reachable(device, device);
    through += vram_error_get()->status != VRAM_ERR_SHUTDOWN;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        through += all[i] != VRAM_ERR_SHUTDOWN;
    }
    return through;
}

TEST(no_driver_is_called_at_exit) {
    assert_int_equal(in_child(calls_at_exit, NULL), 0);
}
