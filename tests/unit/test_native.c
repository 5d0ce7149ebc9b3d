/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_native.c: what a backend with handles is asked, and what becomes of its answers, in
 * vram_native and in launches. The smallest backend gets the two tables that it lacks.
 */
#include "byte_units.h"
#include "smallest_backend/smallest.h"
#include "unit/assert_ok.h"
#include "vram/pool.h"

#include <string.h>

#define LARGE_OFFSET UINT64_C(0x1000)

static struct {
    vram_addr addr;
    uint64_t bytes;
    unsigned calls;
    vram_status answer;
} asked;

/* A block has the handle that is its address; any other memory one with an offset. */
static vram_status native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                          struct vr_native *found) {
    (void)device;
    asked.addr = addr;
    asked.bytes = bytes;
    asked.calls++;
    if (asked.answer != VRAM_OK) {
        return vram_error_set(&(vram_error){asked.answer, "smallest", "native", 5, "not now"});
    }
    *found = (struct vr_native){
        .handle = (void *)(uintptr_t)(bytes ? addr : 0x77),
        .offset = bytes ? 0 : LARGE_OFFSET,
        .bytes = bytes ? bytes : 1 << 20,
        .device_address = {addr ^ 1, true},
    };
    return VRAM_OK;
}

static struct vram_launch launched;
static size_t launched_bytes[4]; /* of its arguments */
static struct vr_native named[32];
static uint64_t plain[32];

static vram_status load(struct vr_device *device, const struct vram_kernel_source *source,
                        void **kernel) {
    (void)device, (void)source;
    *kernel = &launched;
    return VRAM_OK;
}

static void unload(struct vr_device *device, void *kernel) {
    (void)device, (void)kernel;
}

static vram_status launch(struct vr_queue *queue, void *kernel, const struct vram_launch *call) {
    (void)queue, (void)kernel;
    launched = *call;
    for (uint32_t i = 0; i < call->argument_count; i++) {
        launched_bytes[i] = call->argument_bytes[i];
        if (call->argument_bytes[i] == sizeof named[i]) {
            memcpy(&named[i], call->arguments[i], sizeof named[i]);
        } else {
            memcpy(&plain[i], call->arguments[i], call->argument_bytes[i]);
        }
    }
    return VRAM_OK;
}

static const struct vr_handle_ops handle_ops = {.native = native};
static const struct vr_kernel_ops kernel_ops = {load, unload, launch};

static struct {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
} world;

static int begin(void) {
    vram_context_options options = {.size = sizeof options, .backends = "smallest"};
    vram_kernel_source source = {
        .size = sizeof source, .format = VRAM_KERNEL_SPIRV, .code = "x", .entry = "x"};
    memset(&asked, 0, sizeof asked);
    memset(&launched, 0, sizeof launched);
    bool handles = !smallest_plan.kernel; /* else the test has set the plan itself */
    if (handles) {
        smallest_plan = (struct smallest_plan){.caps = VRAM_CAP_KERNELS | VRAM_CAP_HANDLES,
                                               .kernel = &kernel_ops,
                                               .handles = &handle_ops};
    }
    return vram_context_create(&options, &world.context) ||
           vram_device_open(world.context, 0, &world.device) ||
           vram_queue_create(world.device, NULL, &world.queue) ||
           vram_kernel_create(world.device, &source, &world.kernel);
}

static int end(void) {
    vram_context_destroy(world.context);
    smallest_plan = (struct smallest_plan){0};
    return 0;
}

static int begin_without_handles(void) {
    smallest_plan = (struct smallest_plan){.caps = VRAM_CAP_KERNELS, .kernel = &kernel_ops};
    return begin();
}

/* -------------------------------------------------------------- vram_native */

TEST(a_block_is_asked_for_with_its_size) {
    vram_pool *pool;
    vram_addr addr;
    vram_native_info info = {.size = sizeof info};
    vram_block_info block = {.size = sizeof block};
    assert_ok(vram_pool_create(world.device, NULL, &pool));
    assert_ok(vram_alloc(pool, 5000, world.queue, &addr));
    assert_ok(vram_block_info_get(addr, &block));
    assert_ok(vram_native(addr, &info));
    assert_int_equal(asked.addr, addr);
    assert_int_equal(asked.bytes, block.held_bytes);
    assert_ptr_equal(info.handle, (void *)(uintptr_t)addr);
    assert_int_equal(info.base, addr);
    assert_int_equal(info.offset, 0);
    assert_int_equal(info.bytes, block.held_bytes);
    assert_true(info.device_address.known);
    assert_int_equal(info.device_address.value, addr ^ 1);

    assert_ok(vram_native(addr + 8, &info)); /* inside */
    assert_int_equal(asked.bytes, 0);
    assert_ptr_equal(info.handle, (void *)0x77);
    assert_int_equal(info.base, addr + 8 - LARGE_OFFSET);
    assert_int_equal(info.offset, LARGE_OFFSET);
    assert_int_equal(info.bytes, 1 << 20);

    assert_ok(vram_free(addr, world.queue)); /* cached, and nobody's block */
    assert_ok(vram_native(addr, &info));
    assert_int_equal(asked.bytes, 0);
}

static vram_status provider_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    return vram_device_alloc(user, bytes, VRAM_MEMORY_DEVICE, addr);
}

static vram_status provider_free(void *user, vram_addr addr, uint64_t bytes) {
    (void)bytes;
    return vram_device_free(user, addr);
}

TEST(memory_passed_on_to_a_pool_is_cut_in_its_blocks) {
    vram_provider provider = {.size = sizeof provider,
                              .user = world.device,
                              .alloc = provider_alloc,
                              .free = provider_free};
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    vram_pool *pool;
    vram_addr addr;
    vram_native_info info = {.size = sizeof info};
    assert_ok(vram_pool_create(world.device, &options, &pool));
    assert_ok(vram_alloc(pool, 700, NULL, &addr));
    assert_ok(vram_native(addr, &info));
    assert_int_equal(asked.bytes, 1024);
    assert_ok(vram_free(addr, NULL));
    vram_pool_destroy(pool);
}

TEST(refusals_are_passed_on) {
    vram_addr addr;
    vram_native_info info = {.size = sizeof info}, before = info;
    assert_ok(vram_device_alloc(world.device, 1, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_native(addr, &info));
    assert_int_equal(asked.bytes, 0);
    info = before;
    asked.answer = VRAM_ERR_DEVICE_MEMORY;
    assert_int_equal(vram_native(addr, &info), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vram_error_get()->native_code, 5);
    assert_memory_equal(&info, &before, sizeof info);
    unsigned calls = asked.calls;
    assert_int_equal(vram_native(1, &info), VRAM_ERR_INVALID);
    assert_int_equal(asked.calls, calls);
}

/* ----------------------------------------------------------------- launches */

static vram_status launch_two(vram_addr addr, uint32_t number, uint32_t mask, size_t bytes) {
    const void *arguments[] = {&addr, &number};
    const size_t sizes[] = {bytes, sizeof number};
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = 2,
                        .arguments = arguments,
                        .argument_bytes = sizes,
                        .address_mask = mask};
    return vram_queue_launch(world.queue, world.kernel, &call);
}

TEST(addresses_reach_the_kernel_by_their_handles) {
    vram_pool *pool;
    vram_addr addr;
    assert_ok(vram_pool_create(world.device, NULL, &pool));
    assert_ok(vram_alloc(pool, 256, world.queue, &addr));
    assert_ok(launch_two(addr, 9, 1, 8));
    assert_int_equal(launched_bytes[0], sizeof(struct vr_native));
    assert_ptr_equal(named[0].handle, (void *)(uintptr_t)addr);
    assert_int_equal(named[0].bytes, 512);
    assert_int_equal(plain[1], 9);
    assert_ok(launch_two(addr + 4, 9, 1, 8));
    assert_int_equal(named[0].offset, LARGE_OFFSET);
    assert_ok(launch_two(addr, 9, 0, 8)); /* a number like any other */
    assert_int_equal(plain[0], addr);
    asked.answer = VRAM_ERR_HOST_MEMORY;
    memset(&launched, 0, sizeof launched);
    assert_int_equal(launch_two(addr, 9, 1, 8), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(launched.argument_count, 0);
}

TEST(bad_masks_are_refused) {
    vram_addr addr;
    assert_ok(vram_device_alloc(world.device, 1, VRAM_MEMORY_DEVICE, &addr));
    assert_int_equal(launch_two(addr, 9, 2, 8), VRAM_ERR_INVALID);        /* of 4 bytes */
    assert_int_equal(launch_two(addr, 9, 4, 8), VRAM_ERR_INVALID);        /* not there */
    assert_int_equal(launch_two(addr, 9, 1u << 31, 8), VRAM_ERR_INVALID); /* nor that */
    assert_int_equal(launch_two(addr, 9, 1, 4), VRAM_ERR_INVALID);        /* half an address */
    assert_int_equal(launch_two(addr + GIB, 9, 1, 8), VRAM_ERR_INVALID);  /* nobody's */
    assert_int_equal(launch_two(0, 9, 1, 8), VRAM_ERR_INVALID);
    assert_int_equal(launched.argument_count, 0);
    assert_ok(launch_two(addr, 9, 1, 8));
    assert_ok(vram_device_free(world.device, addr));
    assert_int_equal(launch_two(addr, 9, 1, 8), VRAM_ERR_INVALID);
}

TEST_IN(begin_without_handles, end, true_addresses_are_checked_and_left_as_they_are) {
    vram_addr addr;
    assert_ok(vram_device_alloc(world.device, 1, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(launch_two(addr, 9, 1, 8));
    assert_int_equal(launched_bytes[0], 8);
    assert_int_equal(plain[0], addr);
    assert_int_equal(asked.calls, 0);
    assert_int_equal(launch_two(addr + GIB, 9, 1, 8), VRAM_ERR_INVALID);
}

EACH_TEST(begin, end)
