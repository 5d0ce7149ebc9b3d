/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan.c: what the conformance suite cannot see of the Vulkan backend: drivers and devices
 * that are too old or too small, limits, budgets, the edges of fills, long copies, words whose
 * upper half changes, and devices that are shared and lost.
 */
#include "unit/vulkan_world.h"

#include "base/size.h"

static struct world world;

static int open_shim(void **state) {
    (void)state;
    shim_open();
    return 0;
}

static int plain(void **state) {
    (void)state;
    world = (struct world){.device.impl = NULL};
    world_open(&world);
    return 0;
}

static int ends(void **state) {
    (void)state;
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

static void what_will_not_do_is_left_out_with_its_reason(void **state) {
    (void)state;
    shim->pretence.loader_version = VR_VK_VERSION(1, 1);
    assert_absent(VRAM_ERR_NO_DRIVER, "knows 1.1, libvram needs 1.2");
    shim->pretence.no_devices = true;
    assert_absent(VRAM_ERR_NO_DEVICE, "no physical device");
    shim->pretence.device_version = VR_VK_VERSION(1, 1);
    assert_absent(VRAM_ERR_NO_DEVICE, "knows no Vulkan 1.2");
    shim->pretence.no_timeline = true;
    assert_absent(VRAM_ERR_NO_DEVICE, "no timeline semaphores");
    shim->pretence.no_local_memory = true;
    assert_absent(VRAM_ERR_NO_DEVICE, "memory types cannot be");
    shim->pretence.family_flags = VR_VK_QUEUE_TRANSFER;
    assert_absent(VRAM_ERR_NO_DEVICE, "no queue for compute");
    shim->pretence.max_allocation_bytes = 4096;
    assert_absent(VRAM_ERR_NO_DEVICE, "allocates no memory");
    shim->refuse("vkCreateInstance", 1, VR_VK_INCOMPATIBLE_DRIVER, false);
    assert_absent(VRAM_ERR_NO_DRIVER, "VK_DRIVER_FILES");
    assert_int_equal(vram_option_set("vulkan_library", "/nonexistent/libvulkan.so.1"), VRAM_OK);
    assert_absent(VRAM_ERR_NO_DRIVER, "vulkan_library");
    assert_int_equal(vram_option_set("vulkan_library", SHIM_VULKAN_PATH), VRAM_OK);
}

static void devices_are_described(void **state) {
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    (void)state;
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
static void budgets_are_told_as_far_as_they_can_be(void **state) {
    vram_value free_bytes, total;
    (void)state;
    shim->pretence.budget = true;
    shim->pretence.budget_bytes = VR_GIB;
    shim->pretence.usage_bytes = VR_MIB;
    plain(NULL);
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
    ends(NULL);
}

/* The driver behind the shim would give more than its heap has. */
static void a_full_heap_says_so(void **state) {
    vram_addr addr, none = 7;
    (void)state;
    shim->pretence.heap_bytes = 16 * VR_MIB;
    plain(NULL);
    addr = take(8 * VR_MIB);
    assert_int_equal(world.device.ops->alloc(&world.device, 8 * VR_MIB, &none),
                     VRAM_ERR_DEVICE_MEMORY); /* words and staging lie there too */
    assert_vulkan_error(VRAM_ERR_DEVICE_MEMORY, "vkAllocateMemory", VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "do not fit"));
    assert_int_equal(none, 7);
    give(addr, 8 * VR_MIB);
    addr = take(12 * VR_MIB);
    give(addr, 12 * VR_MIB);
    ends(NULL);
}

static void the_number_of_allocations_is_respected(void **state) {
    vram_addr addrs[16], none = 7;
    int taken = 0;
    (void)state;
    shim->pretence.max_allocations = 10;
    plain(NULL);
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
    ends(NULL);
}

/* Pinned memory begins on a page wherever the driver maps it. */
static void pinned_memory_lies_on_pages(void **state) {
    vram_addr pinned;
    (void)state;
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
        ends(NULL);
    }
}

static void addresses_name_their_buffer(void **state) {
    struct vr_native first = {0}, inside = {0};
    (void)state;
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

/* Every start, length and pattern around the groups of four that the device fills. */
static void fills_begin_and_end_anywhere(void **state) {
    enum { ROOM = 64 };
    unsigned char model[ROOM], found[ROOM];
    const struct vr_queue_ops *ops = world.device.queue_ops;
    vram_addr addr = take(GRANULE);
    (void)state;
    for (uint32_t size = 1; size <= 4; size *= 2) {
        for (uint32_t start = 0; start < 12; start += size) {
            for (uint32_t bytes = size; bytes <= 20; bytes += size) {
                uint32_t pattern = 0x44332211u + start * 0x01010101u;
                memset(model, 0xEE, ROOM);
                for (uint32_t i = 0; i < bytes; i++) {
                    model[start + i] = (unsigned char)(pattern >> i % size * 8);
                }
                assert_int_equal(ops->fill(&world.queue, addr, 0xEEEEEEEE, 4, ROOM), VRAM_OK);
                assert_int_equal(ops->fill(&world.queue, addr + start, pattern, size, bytes),
                                 VRAM_OK);
                assert_int_equal(ops->download(&world.queue, found, addr, ROOM), VRAM_OK);
                assert_memory_equal(found, model, ROOM);
            }
        }
    }
    give(addr, GRANULE);
}

/* Longer than several pieces, and more of them under way than staging is kept for. */
static void long_copies_go_in_pieces(void **state) {
    const uint64_t bytes = 100 * VR_MIB + 12345, room = 101 * VR_MIB;
    unsigned char *from = vr_mem_alloc(1, bytes, "test"), *to = vr_mem_alloc(1, bytes, "test");
    const struct vr_queue_ops *ops = world.device.queue_ops;
    (void)state;
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

/* Small pieces share a block of staging, which is changed when it is full. */
static void many_small_uploads_keep_their_contents(void **state) {
    enum { COUNT = 600, BYTES = 700 };
    static unsigned char model[COUNT * BYTES], found[COUNT * BYTES];
    const struct vr_queue_ops *ops = world.device.queue_ops;
    vram_addr addr = take(8 * GRANULE);
    (void)state;
    seed(model, sizeof model, 9);
    for (size_t i = 0; i < COUNT; i++) {
        unsigned char piece[BYTES];
        memcpy(piece, model + i * BYTES, BYTES);
        assert_int_equal(ops->upload(&world.queue, addr + i * BYTES, piece, BYTES), VRAM_OK);
        memset(piece, 0, BYTES);
    }
    assert_int_equal(ops->download(&world.queue, found, addr, sizeof found), VRAM_OK);
    assert_memory_equal(found, model, sizeof model);
    give(addr, 8 * GRANULE);
}

/* --------------------------------------------------------------------- time */

/* What the device writes is right where the upper half of the word changes, and so is what comes
   back down: numbers may arrive out of order. */
static void words_cross_their_halves(void **state) {
    static const uint64_t values[] = {5, 0xFFFFFFFF, 0x100000000, 0x100000003, 0x500000001};
    (void)state;
    for (int gpu = 0; gpu <= AS_GPU; gpu++) {
        shim->pretence.gpu = gpu;
        plain(NULL);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            assert_int_equal(world.device.queue_ops->signal(&world.queue, values[i]), VRAM_OK);
            assert_int_equal(wait_for(&world.queue, values[i]), VRAM_OK);
            assert_int_equal(word_of(&world.queue), values[i]);
        }
        ends(NULL);
    }
}

/* A later queue goes on where an earlier one stopped, and waits for either are met. */
static void clocks_are_used_again(void **state) {
    const struct vr_queue_ops *ops = world.device.queue_ops;
    struct vr_queue second;
    (void)state;
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
static void a_queue_ends_behind_its_work(void **state) {
    const struct vr_queue_ops *ops = world.device.queue_ops;
    struct vr_queue second;
    (void)state;
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

static void many_queues_share_the_native_ones(void **state) {
    enum { COUNT = 100 };
    static struct vr_queue queues[COUNT];
    const struct vr_queue_ops *ops = world.device.queue_ops;
    vram_addr addr = take(GRANULE);
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        make_queue(&world.device, &queues[i]);
        assert_int_equal(ops->fill(&queues[i], addr + 4 * (uint64_t)i, (uint32_t)i, 4, 4), VRAM_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        uint32_t found = 0;
        assert_int_equal(ops->download(&queues[i], &found, addr + 4 * (uint64_t)i, 4), VRAM_OK);
        assert_int_equal(found, i);
        ops->destroy(&queues[i]);
    }
    give(addr, GRANULE);
}

/* ------------------------------------------------------------------ devices */

/* Two handles of one context are one logical device, whose queues wait for each other. */
static void handles_share_a_device(void **state) {
    struct vr_device second;
    struct vr_queue other;
    (void)state;
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
static void devices_of_two_contexts_do_not_wait_for_each_other(void **state) {
    static struct world elsewhere;
    (void)state;
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
static void a_lost_device_is_not_shared(void **state) {
    struct vr_device second;
    struct vr_queue other;
    vram_addr addr = 0;
    (void)state;
    plain(NULL);
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
    ends(NULL);
}

/* ------------------------------------------------------------------ kernels */

static void shaders_get_their_arguments(void **state) {
    enum { COUNT = 100 };
    float x[COUNT], y[COUNT];
    void *kernel = NULL;
    const struct vr_queue_ops *ops = world.device.queue_ops;
    vram_addr addr = take(GRANULE);
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    assert_int_equal(world.device.kernel->load(&world.device, &saxpy_source, &kernel), VRAM_OK);
    assert_int_equal(ops->upload(&world.queue, addr, y, sizeof y), VRAM_OK);
    assert_int_equal(ops->upload(&world.queue, addr + 4096, x, sizeof x), VRAM_OK);
    assert_int_equal(launch_saxpy(&world.queue, kernel, addr, addr + 4096, 3, COUNT - 1), VRAM_OK);
    assert_int_equal(ops->download(&world.queue, y, addr, sizeof y), VRAM_OK);
    for (int i = 0; i < COUNT - 1; i++) {
        assert_true(y[i] == 3.0f * (float)i + 1);
    }
    assert_true(y[COUNT - 1] == 1); /* beyond the count */
    world.device.kernel->unload(&world.device, kernel);
    give(addr, GRANULE);
}

static void bad_code_never_reaches_the_driver(void **state) {
    uint32_t words[sizeof saxpy_spirv / 4];
    struct vram_kernel_source source = saxpy_source;
    void *kernel = (void *)(uintptr_t)7;
    const struct vr_kernel_ops *ops = world.device.kernel;
    (void)state;
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

static void launches_keep_to_the_limits(void **state) {
    void *kernel = NULL;
    const uint64_t number = 0;
    const void *arguments[32];
    size_t bytes[32];
    (void)state;
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

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, plain, ends)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_will_not_do_is_left_out_with_its_reason),
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(budgets_are_told_as_far_as_they_can_be),
        cmocka_unit_test(a_full_heap_says_so),
        cmocka_unit_test(the_number_of_allocations_is_respected),
        cmocka_unit_test(pinned_memory_lies_on_pages),
        IN_WORLD(addresses_name_their_buffer),
        IN_WORLD(fills_begin_and_end_anywhere),
        IN_WORLD(long_copies_go_in_pieces),
        IN_WORLD(many_small_uploads_keep_their_contents),
        cmocka_unit_test(words_cross_their_halves),
        IN_WORLD(clocks_are_used_again),
        IN_WORLD(a_queue_ends_behind_its_work),
        IN_WORLD(many_queues_share_the_native_ones),
        IN_WORLD(handles_share_a_device),
        IN_WORLD(devices_of_two_contexts_do_not_wait_for_each_other),
        cmocka_unit_test(a_lost_device_is_not_shared),
        IN_WORLD(shaders_get_their_arguments),
        IN_WORLD(bad_code_never_reaches_the_driver),
        IN_WORLD(launches_keep_to_the_limits),
    };
    return cmocka_run_group_tests_name("vulkan", tests, open_shim, NULL);
}
