/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan.c: what the conformance suite cannot see of the Vulkan backend: limits, budgets, the
 * edges of fills, long copies, words whose upper half changes, and devices shared and lost.
 */
#include "unit/vulkan_world.h"

#include "base/size.h"

static struct world world;

static int open_shim(void) {
    shim_open();
    return 0;
}

static int plain(void) {
    world = (struct world){.device.impl = NULL};
    world_open(&world);
    return 0;
}

static int ends(void) {
    world_close(&world);
    return 0;
}

static vram_addr take(uint64_t bytes) {
    vram_addr addr = 0;
    assert_int_equal(world.device.ops->alloc(&world.device, bytes, &addr), VRAM_OK);
    assert_int_equal(addr % GRANULE, 0);
    return addr;
}

static void give(vram_addr addr, uint64_t bytes) {
    assert_int_equal(world.device.ops->free(&world.device, addr, bytes), VRAM_OK);
}

static void seed(unsigned char *bytes, size_t count, unsigned start) {
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)(start + i * 7 + (i >> 8) * 13);
    }
}

/* ----------------------------------------------------------------- starting */

TEST_IN(NULL, NULL, devices_are_described) {
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    shim->pretence.pci = true;
    shim->pretence.budget = true;
    shim->pretence.heap_bytes = 3 * VR_GIB;
    shim->pretence.max_allocation_bytes = VR_GIB + 5;
    assert_int_equal(start_backend(&backend, NULL), VRAM_OK);
    assert_int_equal(backend.ops->count(&backend), 1);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    assert_int_equal(info.kind, VRAM_DEVICE_CPU);
    assert_true(info.pci_known && info.uuid_known);
    assert_string_equal(info.pci, "0001:c2:03.1");
    assert_int_equal(info.memory_bytes.value, 3 * VR_GIB);
    assert_int_equal(info.alloc_max.value, VR_GIB); /* whole granules */
    assert_true(info.caps & VRAM_CAP_MEMORY_INFO);
    assert_true(info.caps & VRAM_CAP_KERNELS);
    assert_true(backend.version[0]);
    backend.ops->stop(&backend);
    shim->reset();
    shim->pretence.no_addresses = true;
    shim->pretence.gpu = true;
    assert_int_equal(start_backend(&backend, NULL), VRAM_OK);
    info = (struct vram_device_info){.size = sizeof info};
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    assert_int_equal(info.kind, VRAM_DEVICE_GPU);
    assert_false(info.caps & (VRAM_CAP_KERNELS | VRAM_CAP_MEMORY_INFO));
    assert_false(info.pci_known);
    backend.ops->stop(&backend);
    shim->reset();
}

/* ------------------------------------------------------------------- memory */

/* Drivers tell budgets beyond the heap and uses beyond the budget; neither is believed. */
TEST_IN(NULL, NULL, budgets_are_told_as_far_as_they_can_be) {
    vram_value free_bytes, total;
    shim->pretence.budget = true;
    shim->pretence.budget_bytes = VR_GIB;
    shim->pretence.usage_bytes = VR_MIB;
    plain();
    const struct vr_device_ops *ops = world.device.ops;
    uint64_t all = world.device.info.memory_bytes.value;
    assert_int_equal(ops->memory_info(&world.device, &free_bytes, &total), VRAM_OK);
    assert_true(free_bytes.known && total.known);
    assert_int_equal(free_bytes.value, VR_GIB - VR_MIB);
    assert_int_equal(total.value, all);
    shim->pretence.budget_bytes = UINT64_MAX;
    assert_int_equal(ops->memory_info(&world.device, &free_bytes, &total), VRAM_OK);
    assert_int_equal(free_bytes.value, all - VR_MIB);
    shim->pretence.usage_bytes = UINT64_MAX;
    assert_int_equal(ops->memory_info(&world.device, &free_bytes, &total), VRAM_OK);
    assert_int_equal(free_bytes.value, 0);
    ends();
}

/* The driver behind the shim would give more than its heap has. */
TEST_IN(NULL, NULL, a_full_heap_says_so) {
    vram_addr addr, none = 7;
    shim->pretence.heap_bytes = 16 * VR_MIB;
    plain();
    addr = take(8 * VR_MIB);
    assert_int_equal(world.device.ops->alloc(&world.device, 8 * VR_MIB, &none),
                     VRAM_ERR_DEVICE_MEMORY); /* words and staging lie there too */
    assert_vulkan_error(VRAM_ERR_DEVICE_MEMORY, "vkAllocateMemory", VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "do not fit"));
    assert_int_equal(none, 7);
    give(addr, 8 * VR_MIB);
    addr = take(12 * VR_MIB);
    give(addr, 12 * VR_MIB);
    ends();
}

TEST_IN(NULL, NULL, the_number_of_allocations_is_respected) {
    vram_addr addrs[16], none = 7;
    int taken = 0;
    shim->pretence.max_allocations = 10;
    plain();
    vram_status status = VRAM_OK;
    while (taken < 16 &&
           (status = world.device.ops->alloc(&world.device, GRANULE, &none)) == VRAM_OK) {
        addrs[taken++] = none;
    }
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_true(taken > 0 && taken <= 10);
    assert_vulkan_error(VRAM_ERR_LIMIT, "vkAllocateMemory", VR_VK_TOO_MANY_OBJECTS);
    assert_non_null(strstr(vram_error_get()->text, "maxMemoryAllocationCount"));
    give(addrs[--taken], GRANULE);
    addrs[taken++] = take(GRANULE);
    while (taken) {
        give(addrs[--taken], GRANULE);
    }
    ends();
}

/* Pinned memory begins on a page wherever the driver maps it. */
TEST_IN(NULL, NULL, pinned_memory_lies_on_pages) {
    vram_addr pinned;
    for (uint64_t shift = 0; shift < 4096; shift += 832) {
        shim->reset();
        shim->pretence.map_shift = shift / 64 * 64; /* a multiple of what buffers are aligned to */
        world = (struct world){.device.impl = NULL};
        world.blocks_before = vr_mem_live_blocks();
        assert_int_equal(start_backend(&world.backend, NULL), VRAM_OK);
        assert_int_equal(open_device(&world.backend, &world.device), VRAM_OK);
        vram_status status = world.device.pinned->alloc(&world.device, PAGE, &pinned);
        assert_int_equal(status, VRAM_OK);
        assert_int_equal(pinned % PAGE, 0);
        assert_int_equal(world.device.pinned->free(&world.device, pinned + 64, PAGE),
                         VRAM_ERR_INVALID);
        assert_int_equal(world.device.pinned->free(&world.device, pinned, PAGE), VRAM_OK);
        ends();
    }
}

TEST(addresses_name_their_buffer) {
    struct vr_native first = {0}, inside = {0};
    vram_addr addr = take(2 * GRANULE), other = take(GRANULE);
    const struct vr_handle_ops *handles = world.device.handles;
    assert_int_equal(handles->native(&world.device, addr, 0, &first), VRAM_OK);
    assert_int_equal(handles->native(&world.device, addr + GRANULE + 5, 99, &inside), VRAM_OK);
    assert_non_null(first.handle);
    assert_ptr_equal(first.handle, inside.handle);
    assert_int_equal(first.offset, 0);
    assert_int_equal(inside.offset, GRANULE + 5);
    assert_int_equal(inside.bytes, 2 * GRANULE);
    assert_true(first.device_address.known);
    assert_int_equal(inside.device_address.value, first.device_address.value + GRANULE + 5);
    assert_int_equal(handles->native(&world.device, other, 0, &inside), VRAM_OK);
    assert_ptr_not_equal(first.handle, inside.handle);
    give(addr, 2 * GRANULE);
    give(other, GRANULE);
    assert_int_equal(handles->native(&world.device, addr, 0, &inside), VRAM_ERR_INVALID);
    assert_int_equal(world.device.ops->free(&world.device, addr, 2 * GRANULE), VRAM_ERR_INVALID);
    const struct vr_queue_ops *ops = world.device.queue_ops; /* memory that is a provider's */
    assert_int_equal(ops->copy(&world.queue, addr, other, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->fill(&world.queue, addr, 0, 1, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->upload(&world.queue, addr, &first, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->download(&world.queue, &first, addr, 8), VRAM_ERR_INVALID);
}

/* ---------------------------------------------------------------- transfers */

/* Longer than several pieces, and more of them under way than staging is kept for. */
TEST(long_copies_go_in_pieces) {
    const uint64_t bytes = 100 * VR_MIB + 12345, room = 101 * VR_MIB;
    unsigned char *from = vr_mem_alloc(1, bytes, "test"), *to = vr_mem_alloc(1, bytes, "test");
    const struct vr_queue_ops *ops = world.device.queue_ops;
    seed(from, bytes, 3);
    vram_addr addr = take(room), second = take(room);
    assert_int_equal(ops->upload(&world.queue, addr + 3, from, bytes), VRAM_OK);
    assert_int_equal(ops->copy(&world.queue, second + 1, addr + 3, bytes), VRAM_OK);
    assert_int_equal(ops->download(&world.queue, to, second + 1, bytes), VRAM_OK);
    assert_memory_equal(from, to, bytes);
    assert_int_equal(finish(&world.queue), VRAM_OK);
    give(addr, room);
    give(second, room);
    vr_mem_free(from);
    vr_mem_free(to);
}

/* --------------------------------------------------------------------- time */

/* What the device writes is right where the upper half of the word changes, and so is what comes
   back down: numbers may arrive out of order. */
TEST_IN(NULL, NULL, words_cross_their_halves) {
    static const uint64_t values[] = {5, 0xFFFFFFFF, 0x100000000, 0x100000003, 0x500000001};
    for (int gpu = 0; gpu <= AS_GPU; gpu++) {
        shim->pretence.gpu = gpu;
        plain();
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            assert_int_equal(world.device.queue_ops->signal(&world.queue, values[i]), VRAM_OK);
            assert_int_equal(wait_for(&world.queue, values[i]), VRAM_OK);
            assert_int_equal(word_of(&world.queue), values[i]);
        }
        ends();
    }
}

/* A later queue goes on where an earlier one stopped, and waits for either are met. */
TEST(clocks_are_used_again) {
    const struct vr_queue_ops *ops = world.device.queue_ops;
    struct vr_queue second;
    make_queue(&world.device, &second);
    const vr_atomic_u64 *word = second.word;
    assert_int_equal(ops->signal(&second, 40), VRAM_OK);
    assert_int_equal(ops->after(&world.queue, &second, 40), VRAM_OK);
    ops->destroy(&second);
    make_queue(&world.device, &second);
    assert_ptr_equal(second.word, word);
    assert_int_equal(word_of(&second), 40);
    for (uint64_t value = 41; value < 80; value++) { /* more than are remembered one by one */
        assert_int_equal(ops->signal(&second, value), VRAM_OK);
    }
    assert_int_equal(ops->after(&world.queue, &second, 41), VRAM_OK);
    assert_int_equal(ops->after(&world.queue, &second, 79), VRAM_OK);
    assert_int_equal(finish(&world.queue), VRAM_OK);
    assert_int_equal(word_of(&second) >= 79 ? VRAM_OK : wait_for(&second, 79), VRAM_OK);
    ops->destroy(&second);
}

/* Memory goes back behind a queue's end: a wait that was refused once is repeated. Who did not wait
   would keep the word. */
TEST(a_queue_ends_behind_its_work) {
    const struct vr_queue_ops *ops = world.device.queue_ops;
    struct vr_queue second;
    make_queue(&world.device, &second);
    const vr_atomic_u64 *word = second.word;
    assert_int_equal(ops->signal(&second, 40), VRAM_OK);
    assert_int_equal(wait_for(&second, 40), VRAM_OK); /* what else waits has had its answer */
    shim->refuse("vkWaitSemaphores", 1, -13, false);
    ops->destroy(&second);
    assert_int_equal(shim->struck(), 1);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    make_queue(&world.device, &second);
    assert_ptr_equal(second.word, word);
    ops->destroy(&second);
}

/* ------------------------------------------------------------------ devices */

/* Two handles of one context are one logical device, whose queues wait for each other. */
TEST(handles_share_a_device) {
    struct vr_device second;
    struct vr_queue other;
    assert_int_equal(open_device(&world.backend, &second), VRAM_OK);
    assert_ptr_equal(second.impl, world.device.impl);
    assert_int_equal(shim->calls("vkCreateDevice"), 1);
    make_queue(&second, &other);
    assert_int_equal(second.queue_ops->signal(&other, 3), VRAM_OK);
    assert_int_equal(second.queue_ops->after(&world.queue, &other, 3), VRAM_OK);
    second.queue_ops->destroy(&other);
    second.ops->close(&second);
    assert_int_equal(finish(&world.queue), VRAM_OK);
}

/* Devices of two contexts are strangers. */
TEST(devices_of_two_contexts_do_not_wait_for_each_other) {
    static struct world elsewhere;
    world_open(&elsewhere);
    assert_int_equal(world.device.queue_ops->signal(&world.queue, 3), VRAM_OK);
    assert_int_equal(world.device.queue_ops->after(&elsewhere.queue, &world.queue, 3),
                     VRAM_ERR_UNSUPPORTED);
    elsewhere.device.queue_ops->destroy(&elsewhere.queue);
    elsewhere.device.ops->close(&elsewhere.device);
    elsewhere.backend.ops->stop(&elsewhere.backend);
    memset(&elsewhere, 0, sizeof elsewhere);
}

/* Whoever opens a device after it was lost gets a new one, while the old handle lives on. */
TEST_IN(NULL, NULL, a_lost_device_is_not_shared) {
    struct vr_device second;
    struct vr_queue other;
    vram_addr addr = 0;
    plain();
    addr = take(GRANULE);
    shim->refuse("vkQueueSubmit", 1, VR_VK_DEVICE_LOST, false);
    assert_int_equal(world.device.queue_ops->fill(&world.queue, addr, 0, 1, 8),
                     VRAM_ERR_DEVICE_LOST);
    vr_store(&world.device.lost, true, VR_RELEASE);
    assert_int_equal(open_device(&world.backend, &second), VRAM_OK);
    assert_ptr_not_equal(second.impl, world.device.impl);
    make_queue(&second, &other);
    assert_int_equal(finish(&other), VRAM_OK);
    second.queue_ops->destroy(&other);
    second.ops->close(&second);
    give(addr, GRANULE);
    ends();
}

/* ------------------------------------------------------------------ kernels */

TEST(bad_code_never_reaches_the_driver) {
    uint32_t words[sizeof saxpy_spirv / 4];
    struct vram_kernel_source source = saxpy_source;
    void *kernel = (void *)(uintptr_t)7;
    const struct vr_kernel_ops *ops = world.device.kernel;
    source.format = VRAM_KERNEL_PTX;
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_UNSUPPORTED);
    source = saxpy_source;
    source.entry = "mai";
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    source.entry = "main2";
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    source = saxpy_source;
    source.code_bytes -= 2;
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    source.code_bytes = 0;
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    source.code_bytes = 20; /* a head and nothing else */
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    source = saxpy_source;
    source.code = words;
    static const uint32_t heads[] = {0x00000011, 0xFFFF0011}; /* of no length, and beyond the end */
    for (int i = 0; i < 2; i++) {
        memcpy(words, saxpy_spirv, sizeof words);
        words[5] = heads[i];
        assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    }
    words[0] = 0;
    assert_int_equal(ops->load(&world.device, &source, &kernel), VRAM_ERR_INVALID);
    assert_int_equal(shim->calls("vkCreateShaderModule"), 0);
    assert_ptr_equal(kernel, (void *)(uintptr_t)7);
}

TEST(launches_keep_to_the_limits) {
    void *kernel = NULL;
    const uint64_t number = 0;
    const void *arguments[32];
    size_t bytes[32];
    for (int i = 0; i < 32; i++) {
        arguments[i] = &number;
        bytes[i] = sizeof number;
    }
    assert_int_equal(world.device.kernel->load(&world.device, &saxpy_source, &kernel), VRAM_OK);
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {1, 1, 1},
                                 .group_size = {32, 1, 1},
                                 .argument_count = 32,
                                 .arguments = arguments,
                                 .argument_bytes = bytes};
    const struct vr_kernel_ops *ops = world.device.kernel;
    assert_int_equal(ops->launch(&world.queue, kernel, &launch), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "push constants"));
    launch.argument_count = 0;
    launch.group_size[0] = UINT32_MAX;
    assert_int_equal(ops->launch(&world.queue, kernel, &launch), VRAM_ERR_LIMIT);
    launch.group_size[0] = launch.group_size[1] = 1000;
    assert_int_equal(ops->launch(&world.queue, kernel, &launch), VRAM_ERR_LIMIT);
    launch.group_size[0] = launch.group_size[1] = 1;
    launch.groups[2] = UINT32_MAX;
    assert_int_equal(ops->launch(&world.queue, kernel, &launch), VRAM_ERR_LIMIT);
    launch.groups[2] = 1;
    assert_int_equal(ops->launch(&world.queue, kernel, &launch), VRAM_OK); /* count is 0 */
    assert_int_equal(finish(&world.queue), VRAM_OK);
    world.device.kernel->unload(&world.device, kernel);
}

WHOLE_FILE(open_shim, NULL)
EACH_TEST(plain, ends)
