/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan.c: what the conformance suite cannot see of the Vulkan backend: limits, budgets,
 * several heaps, the edges of fills, long copies, words whose upper half changes, and devices that
 * are shared and lost. Drivers that are not the usual one, and calls that fail, are in
 * tests/drivers.
 */
#include "unit/vulkan_world.h"

#include "base/handle.h"
#include "device/objects.h"
#include "device/ops.h"

#include <stdlib.h>

/* ----------------------------------------------------------------- starting */

TEST(devices_are_described) {
    vram_device_info info = {.size = sizeof info};
    shim->pretence.pci = true;
    shim->pretence.budget = true;
    shim->pretence.heap_bytes = 3 * GIB;
    shim->pretence.max_allocation_bytes = GIB + 5;
    stage_open();
    assert_ok(vram_device_describe(stage.device, &info));
    assert_int_equal(info.kind, VRAM_DEVICE_CPU);
    assert_true(info.pci_known && info.uuid_known);
    assert_string_equal(info.pci, "0001:c2:03.1");
    assert_int_equal(info.memory_bytes.value, 3 * GIB);
    assert_int_equal(info.alloc_max.value, GIB); /* whole granules */
    assert_true(info.caps & VRAM_CAP_MEMORY_INFO && info.caps & VRAM_CAP_KERNELS);
}

/* ------------------------------------------------------------------- memory */

static uint64_t free_bytes(uint64_t *total) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(stage.device, &info));
    assert_true(info.free_bytes.known && info.total_bytes.known);
    *total = info.total_bytes.value;
    return info.free_bytes.value;
}

/* Drivers tell budgets beyond the heap and uses beyond the budget; neither is believed. */
TEST(budgets_are_told_as_far_as_they_can_be) {
    uint64_t all;
    shim->pretence.budget = true;
    shim->pretence.budget_bytes = GIB;
    shim->pretence.usage_bytes = MIB;
    stage_open();
    assert_int_equal(free_bytes(&all), GIB - MIB);
    shim->pretence.budget_bytes = UINT64_MAX;
    assert_int_equal(free_bytes(&all), all - MIB);
    shim->pretence.usage_bytes = UINT64_MAX;
    assert_int_equal(free_bytes(&all), 0);
}

/* The driver behind the shim would give more than its heap has. */
TEST(a_full_heap_says_so) {
    vram_addr none = 7;
    shim->pretence.heap_bytes = 16 * MIB;
    stage_open();
    vram_addr addr = take(8 * MIB);
    assert_int_equal(alloc(8 * MIB, &none), VRAM_ERR_DEVICE_MEMORY); /* words lie there, too */
    assert_vulkan_error(VRAM_ERR_DEVICE_MEMORY, "vkAllocateMemory", VR_VK_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "do not fit"));
    assert_int_equal(none, 7);
    give(addr);
    give(take(12 * MIB));
}

TEST(the_number_of_allocations_is_respected) {
    vram_addr addrs[16];
    int taken = 0;
    shim->pretence.max_allocations = 10;
    stage_open();
    vram_status status = VRAM_OK;
    while (taken < 16 && (status = alloc(PAGE, &addrs[taken])) == VRAM_OK) {
        taken++;
    }
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_in_range(taken, 1, 10);
    assert_vulkan_error(VRAM_ERR_LIMIT, "vkAllocateMemory", VR_VK_TOO_MANY_OBJECTS);
    assert_non_null(strstr(vram_error_get()->text, "maxMemoryAllocationCount"));
    give(addrs[0]);
    addrs[0] = take(PAGE);
}

/* A card with memory that the host cannot map, a small window to it, and the host's. */
TEST(types_are_taken_in_their_order) {
    enum {
        LOCAL = VR_VK_MEMORY_DEVICE_LOCAL,
        VISIBLE = VR_VK_MEMORY_HOST_VISIBLE,
        COHERENT = VR_VK_MEMORY_HOST_COHERENT,
        CACHED = VR_VK_MEMORY_HOST_CACHED
    };
    static const struct vr_vk_memory_properties card = {
        .type_count = 7,
        .types = {{LOCAL | VISIBLE | COHERENT, 1},
                  {LOCAL | VR_VK_MEMORY_PROTECTED, 0},
                  {LOCAL, 0},
                  {VISIBLE | COHERENT, 2},
                  {VISIBLE | COHERENT | CACHED, 2},
                  {VISIBLE | CACHED, 2},
                  {0, 2}},
        .heap_count = 3,
        .heaps = {{64 * MIB, VR_VK_HEAP_DEVICE_LOCAL}, {MIB, VR_VK_HEAP_DEVICE_LOCAL}, {GIB, 0}}};
    vram_addr pinned, none = 7;
    uint64_t total;
    shim->pretence.memory = &card;
    shim->pretence.budget = true;
    shim->pretence.budget_bytes = GIB;
    stage_open();
    vram_addr all = take(64 * MIB);                 /* words and staging are the host's */
    assert_int_equal(free_bytes(&total), 64 * MIB); /* the budget is more than the heap */
    assert_int_equal(total, 64 * MIB);
    vram_addr window = take(MIB); /* what the host can map comes last */
    assert_int_equal(alloc(PAGE, &none), VRAM_ERR_DEVICE_MEMORY); /* never the host's */
    assert_ok(vram_device_alloc(stage.device, PAGE, VRAM_MEMORY_PINNED, &pinned));
    give(window);
    give(all);
    shim->pretence.no_types = 1u << 2; /* of the buffer that comes next */
    window = take(MIB);
    assert_int_equal(alloc(PAGE, &none), VRAM_ERR_DEVICE_MEMORY); /* the window is full */
    give(window);
    shim->pretence.no_types = UINT32_MAX;
    assert_int_equal(alloc(PAGE, &none), VRAM_ERR_CORRUPT);
    assert_vulkan_error(VRAM_ERR_CORRUPT, "vkGetBufferMemoryRequirements", 0);
    assert_int_equal(none, 7);
}

/* Pinned memory begins on a page wherever the driver maps it; where it begins inside of one, a
   second, larger allocation is made, which may fail, too. */
TEST(pinned_memory_lies_on_pages) {
    static const char *const calls[] = {"vkAllocateMemory", "vkMapMemory"};
    vram_addr pinned = 7;
    stage_open();
    shim->pretence.map_shift = 832;
    for (int i = 0; i < 2; i++) {
        shim->refuse(calls[i], 2, VR_VK_OUT_OF_HOST_MEMORY, false);
        assert_int_equal(vram_device_alloc(stage.device, PAGE, VRAM_MEMORY_PINNED, &pinned),
                         VRAM_ERR_HOST_MEMORY);
        assert_int_equal(shim->struck(), 1);
        assert_vulkan_error(VRAM_ERR_HOST_MEMORY, calls[i], VR_VK_OUT_OF_HOST_MEMORY);
        shim->refuse(NULL, 0, 0, false);
    }
    shim->pretence.map_shift = 1; /* no buffer begins there */
    assert_int_equal(vram_device_alloc(stage.device, PAGE, VRAM_MEMORY_PINNED, &pinned),
                     VRAM_ERR_CORRUPT);
    assert_int_equal(pinned, 7);
    for (uint64_t shift = 0; shift < 4096; shift += 832) {
        shim->pretence.map_shift = shift; /* a multiple of what buffers are aligned to */
        shim->pretence.no_align = shift > 2000;
        assert_ok(vram_device_alloc(stage.device, PAGE, VRAM_MEMORY_PINNED, &pinned));
        assert_int_equal(pinned % PAGE, 0);
        memset((void *)(uintptr_t)pinned, 1, PAGE);
        give(pinned);
    }
}

TEST(addresses_name_their_buffer) {
    vram_native_info first = {.size = sizeof first}, inside = first;
    stage_open();
    vram_addr addr = take(MIB), other = take(PAGE);
    assert_ok(vram_native(addr, &first));
    assert_ok(vram_native(addr + PAGE + 5, &inside));
    assert_non_null(first.handle);
    assert_ptr_equal(first.handle, inside.handle);
    assert_true(first.offset == 0 && inside.offset == PAGE + 5 && inside.bytes == MIB);
    assert_true(first.device_address.known);
    assert_int_equal(inside.device_address.value, first.device_address.value + PAGE + 5);
    assert_ok(vram_native(other, &inside));
    assert_ptr_not_equal(first.handle, inside.handle);
}

/* What the importer could not know is not exported. */
TEST(larger_buffers_are_not_exported) {
    const vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    vram_pool *pool;
    vram_addr addr = 7;
    stage_open();
    assert_ok(vram_pool_create(stage.device, &options, &pool));
    shim->pretence.more_bytes = 65536;
    assert_int_equal(vram_alloc(pool, MIB, NULL, &addr), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(addr, 7);
}

/* ---------------------------------------------------------------- transfers */

/* Longer than several pieces, and more of them under way than staging is kept for; also where the
   driver does not tell what is complete: then the queue waits for the oldest. What is under way
   when a call fails ends, and the failure is the first one. */
TEST(long_copies_go_in_pieces) {
    const uint64_t bytes = 80 * MIB + 12345, room = 81 * MIB;
    unsigned char *from = malloc(bytes), *to = calloc(1, bytes);
    assert_true(from && to);
    for (uint64_t i = 0; i < bytes; i++) {
        from[i] = (unsigned char)(i * 7 + (i >> 8) * 13);
    }
    stage_open();
    vram_addr addr = take(room), second = take(room);
    for (int blind = 0; blind < 2; blind++) {
        shim->refuse(blind ? "vkGetSemaphoreCounterValue" : NULL, 1, VR_VK_UNKNOWN, true);
        uint64_t waits = shim->calls("vkWaitSemaphores");
        assert_ok(vram_queue_upload(stage.queue, addr + 3, from, bytes));
        assert_true(!blind || shim->calls("vkWaitSemaphores") > waits);
        shim->refuse(NULL, 0, 0, false);
        assert_ok(vram_queue_copy(stage.queue, second + 1, addr + 3, bytes));
        shim->refuse("vkQueueSubmit", 2, VR_VK_OUT_OF_HOST_MEMORY, false);
        assert_int_equal(vram_queue_download(stage.queue, to, second + 1, bytes),
                         VRAM_ERR_HOST_MEMORY);
        assert_vulkan_error(VRAM_ERR_HOST_MEMORY, "vkQueueSubmit", VR_VK_OUT_OF_HOST_MEMORY);
        shim->refuse(NULL, 0, 0, false);
        assert_ok(vram_queue_download(stage.queue, to, second + 1, bytes));
        finish();
        assert_memory_equal(from, to, bytes);
        memset(to, 0, bytes);
    }
    free(from);
    free(to);
}

TEST(an_edge_of_a_fill_finds_no_staging) {
    unsigned char found[8] = {0};
    stage_open();
    vram_addr addr = take(PAGE);
    assert_ok(vram_queue_fill(stage.queue, addr, 1, 1, 8));
    for (int good = 0; good < 2; good++) {
        shim->refuse(good ? NULL : "vkCreateBuffer", 1, VR_VK_OUT_OF_HOST_MEMORY, false);
        assert_int_equal(vram_queue_fill(stage.queue, addr + 1, 2, 1, 6),
                         good ? VRAM_OK : VRAM_ERR_HOST_MEMORY);
        shim->refuse(NULL, 0, 0, false);
        assert_ok(vram_queue_download(stage.queue, found, addr, 8));
        finish();
        assert_memory_equal(found, good ? "\1\2\2\2\2\2\2\1" : "\1\1\1\1\1\1\1\1", 8);
    }
}

/* --------------------------------------------------------------------- time */

/* What the device writes is right where the upper half of the word changes: after 2^32 marks, which
   are not waited for here. */
TEST(words_cross_their_halves) {
    static const uint64_t values[] = {5, 0xFFFFFFFF, 0x100000000, 0x100000003, 0x500000001};
    for (int gpu = 0; gpu <= AS_GPU; gpu++) {
        shim->pretence.gpu = gpu;
        stage_open();
        struct vr_queue_object *object = vr_handle_pin(VR_KIND_QUEUE, stage.queue);
        struct vr_queue *queue = &object->base;
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            uint64_t late = vr_os_now() + FOR_EVER;
            assert_ok(vr_queue_signal(queue, values[i]));
            while (vr_load(queue->word, VR_ACQUIRE) < values[i] && vr_os_now() < late) {
                (void)vr_queue_poll(queue);
            }
            assert_int_equal(vr_load(queue->word, VR_ACQUIRE), values[i]);
        }
        vr_leave(object);
        (void)stage_end();
    }
}

/* Memory goes back behind a queue's end: a wait that was refused is repeated, if that can help. */
TEST(a_queue_ends_behind_its_work) {
    static const struct {
        int code;
        bool for_ever;
        uint64_t asked; /* times */
    } rows[] = {{VR_VK_UNKNOWN, false, 1},
                {VR_VK_UNKNOWN, true, 4},
                {VR_VK_TIMEOUT, true, 1},
                {VR_VK_DEVICE_LOST, true, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_queue *second;
        vram_point point;
        shim->pretence.gpu = AS_GPU; /* nobody else waits then */
        stage_open();
        assert_ok(vram_queue_create(stage.device, NULL, &second));
        assert_ok(vram_queue_mark(second, &point));
        assert_ok(vram_point_wait(point, FOR_EVER));
        shim->refuse("vkWaitSemaphores", 1, rows[i].code, rows[i].for_ever);
        vram_error_clear();
        assert_ok(vram_queue_destroy(second));
        assert_in_range(shim->struck(), rows[i].asked, AS_GPU ? rows[i].asked : UINT64_MAX);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        if (rows[i].for_ever) { /* the queue's objects stay, and so does the device */
            shim->refuse("vkQueueSubmit", 1, VR_VK_DEVICE_LOST, false);
            assert_int_equal(vram_queue_mark(stage.queue, &point), VRAM_ERR_DEVICE_LOST);
            stage.lost = true;
        }
        (void)stage_end();
    }
}

/* ------------------------------------------------------------------ devices */

static vram_device *meanwhile;

static void open_meanwhile(void) {
    assert_ok(vram_device_open(stage.context, 0, &meanwhile));
}

/* Two handles of one context are one logical device, whose queues wait for each other; of two
   threads that open it at once, one finds that of the other. */
TEST(handles_share_a_device) {
    for (int at_once = 0; at_once < 2; at_once++) {
        vram_queue *other;
        vram_point point;
        shim->pretence.before_device = at_once ? open_meanwhile : NULL;
        stage_open();
        if (!at_once) {
            open_meanwhile();
        }
        assert_int_equal(shim->calls("vkCreateDevice") - shim->calls("vkDestroyDevice"), 1);
        assert_ok(vram_queue_create(meanwhile, NULL, &other));
        assert_ok(vram_queue_mark(other, &point));
        assert_ok(vram_queue_after(stage.queue, point));
        vram_device_close(meanwhile);
        finish();
        (void)stage_end();
    }
}

/* Whoever opens a device after it was lost gets a new one, while the old handle lives on. */
TEST(a_lost_device_is_not_shared) {
    vram_device *second;
    vram_queue *other;
    vram_addr addr;
    stage_open();
    addr = take(PAGE);
    shim->refuse("vkQueueSubmit", 1, VR_VK_DEVICE_LOST, false);
    assert_int_equal(vram_queue_fill(stage.queue, addr, 0, 1, 8), VRAM_ERR_DEVICE_LOST);
    uint64_t made = shim->calls("vkCreateDevice");
    assert_ok(vram_device_open(stage.context, 0, &second));
    assert_int_equal(shim->calls("vkCreateDevice"), made + 1);
    assert_ok(vram_queue_create(second, NULL, &other));
    assert_ok(vram_device_alloc(second, PAGE, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_queue_fill(other, addr, 0, 1, 8));
    assert_ok(vram_queue_wait(other, FOR_EVER));
    vram_device_close(second);
    stage.lost = true;
}

WHOLE_FILE(shim_open, NULL)
EACH_TEST(NULL, stage_end)
