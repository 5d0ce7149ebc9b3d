/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan_answers.c: what drivers other than lavapipe answer: several memory types, heaps and
 * queue families, lists that grow, alignments and sizes of buffers, answers that cannot be; and
 * calls that fail in the middle of a transfer or at the end of a queue.
 */
#include "unit/vulkan_world.h"

#include "base/size.h"

enum {
    LOCAL = VR_VK_MEMORY_DEVICE_LOCAL,
    VISIBLE = VR_VK_MEMORY_HOST_VISIBLE,
    COHERENT = VR_VK_MEMORY_HOST_COHERENT,
    CACHED = VR_VK_MEMORY_HOST_CACHED
};

static struct world world;

static int open_shim(void) {
    shim_open();
    return 0;
}

static int shim_new(void) {
    shim->reset();
    world = (struct world){.device.impl = NULL};
    return 0;
}

/* Closes the world as a lost device is closed: what the library left behind goes with the shim. */
static void close_as_lost(void) {
    vr_store(&world.device.lost, true, VR_RELEASE);
    world_close(&world);
}

static struct vr_vulkan_physical *physical_of(const struct vr_backend *backend) {
    return ((struct vr_vulkan *)backend->impl)->physicals;
}

static vram_status alloc(uint64_t bytes, vram_addr *addr) {
    return world.device.ops->alloc(&world.device, bytes, addr);
}

static void give(vram_addr addr, uint64_t bytes) {
    assert_int_equal(world.device.ops->free(&world.device, addr, bytes), VRAM_OK);
}

/* ----------------------------------------------------------------- starting */

TEST(families_are_chosen) {
    static const struct vr_vk_family none[] = {{.flags = VR_VK_QUEUE_TRANSFER, .count = 1},
                                               {.flags = VR_VK_QUEUE_COMPUTE, .count = 0}};
    static const struct vr_vk_family some[] = {
        {.flags = VR_VK_QUEUE_COMPUTE | VR_VK_QUEUE_GRAPHICS, .count = 1},
        {.flags = VR_VK_QUEUE_COMPUTE, .count = 2},
        {.flags = VR_VK_QUEUE_COMPUTE, .count = 0},
        {.flags = VR_VK_QUEUE_TRANSFER, .count = 1}};
    struct vr_queue second, third;
    shim->pretence.families = none;
    shim->pretence.family_count = 2;
    assert_absent(VRAM_ERR_NO_DEVICE, "no queue for compute");
    shim->pretence.families = some;
    shim->pretence.family_count = 4;
    world_open(&world);
    make_queue(&world.device, &second);
    make_queue(&world.device, &third);
    const struct vr_vulkan_device *device = world.device.impl;
    const struct vr_vulkan_queue *queues[] = {world.queue.impl, second.impl, third.impl};
    assert_int_equal(device->native_queue_count, 2);
    for (int i = 0; i < 3; i++) { /* by turns */
        assert_int_equal(queues[i]->native_queue->family, 1);
        assert_ptr_equal(queues[i]->native_queue, &device->native_queues[i % 2]);
    }
    assert_int_equal(finish(&second), VRAM_OK);
    world.device.queue_ops->destroy(&second);
    world.device.queue_ops->destroy(&third);
    world_close(&world);
}

TEST(properties_are_told) {
    /* The one UUID in 2^32 whose hash is 0, which means "none". */
    static const uint8_t uuid[16] = {0x6c, 0x69, 0x62, 0x76, 0x72, 0x61, 0x6d, 0x20,
                                     0x74, 0x65, 0x73, 0x01, 0x00, 0xef, 0xe6, 0x1e};
    shim->pretence.integrated = true;
    shim->pretence.device_version = VR_VK_VERSION(1, 2);
    shim->pretence.driver_uuid = uuid;
    shim->pretence.no_import = true;
    shim->pretence.no_device_scope = true;
    world_open(&world);
    assert_int_equal(world.device.info.kind, VRAM_DEVICE_GPU);
    assert_true(world.device.info.caps & VRAM_CAP_INTEGRATED);
    assert_int_equal(world.device.driver_id, 1);
    assert_null(world.device.share);
    const struct vr_vk_features_12 *features = &physical_of(&world.backend)->features_12;
    assert_int_equal(features->values[VR_VK_FEATURE_12_MEMORY_MODEL], 0);
    world_close(&world);
}

static struct vr_device meanwhile;

static void open_meanwhile(void) {
    assert_int_equal(open_device(&world.backend, &meanwhile), VRAM_OK);
}

/* Of two threads that open the device at once, one finds that of the other. */
TEST(a_device_that_another_thread_opened_is_shared) {
    shim->pretence.before_device = open_meanwhile;
    world_open(&world);
    assert_int_equal(shim->calls("vkCreateDevice"), 2);
    assert_int_equal(shim->calls("vkDestroyDevice"), 1);
    assert_ptr_equal(world.device.impl, meanwhile.impl);
    meanwhile.ops->close(&meanwhile);
    assert_int_equal(finish(&world.queue), VRAM_OK);
    world_close(&world);
}

/* ------------------------------------------------------------------- memory */

/* A card with memory that the host cannot map, a small window to it, and the host's. */
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
    .heaps = {
        {64 * VR_MIB, VR_VK_HEAP_DEVICE_LOCAL}, {VR_MIB, VR_VK_HEAP_DEVICE_LOCAL}, {VR_GIB, 0}}};

static uint64_t used(int heap) {
    return vr_load(&physical_of(&world.backend)->heap_used[heap], VR_RELAXED);
}

TEST(types_are_taken_in_their_order) {
    vram_addr all, window, pinned, none = 7;
    vram_value free_bytes, total;
    shim->pretence.memory = &card;
    shim->pretence.budget = true;
    shim->pretence.budget_bytes = VR_GIB;
    world_open(&world);
    assert_int_equal(world.device.info.memory_bytes.value, 64 * VR_MIB);
    assert_int_equal(used(0) + used(1), 0); /* words and staging are the host's */
    uint64_t before = used(2);
    assert_int_equal(alloc(64 * VR_MIB, &all), VRAM_OK);
    assert_int_equal(used(0), 64 * VR_MIB);
    assert_int_equal(alloc(GRANULE, &window), VRAM_OK); /* what the host can map comes last */
    assert_int_equal(used(1), GRANULE);
    assert_int_equal(alloc(128 * VR_MIB, &none), VRAM_ERR_DEVICE_MEMORY); /* never the host's */
    assert_int_equal(none, 7);
    assert_int_equal(world.device.pinned->alloc(&world.device, PAGE, &pinned), VRAM_OK);
    assert_true(used(2) >= before + PAGE);
    assert_int_equal(world.device.ops->memory_info(&world.device, &free_bytes, &total), VRAM_OK);
    assert_int_equal(free_bytes.value, 64 * VR_MIB); /* the budget is more than the heap */
    assert_int_equal(world.device.pinned->free(&world.device, pinned, PAGE), VRAM_OK);
    give(window, GRANULE);
    give(all, 64 * VR_MIB);
    assert_int_equal(used(0) + used(1), 0);
    shim->pretence.no_types = 1u << 2; /* of the buffer that comes next */
    assert_int_equal(alloc(GRANULE, &window), VRAM_OK);
    assert_int_equal(used(1), GRANULE);
    give(window, GRANULE);
    shim->pretence.no_types = UINT32_MAX;
    assert_int_equal(alloc(GRANULE, &none), VRAM_ERR_CORRUPT);
    assert_vulkan_error(VRAM_ERR_CORRUPT, "vkGetBufferMemoryRequirements", 0);
    assert_int_equal(none, 7);
    world_close(&world);
}

/* Where mapped memory begins inside a page, a second, larger allocation is made. */
TEST(the_second_allocation_may_fail_too) {
    static const char *const calls[] = {"vkAllocateMemory", "vkMapMemory"};
    vram_addr pinned = 7;
    world_open(&world);
    const struct vr_pinned_ops *ops = world.device.pinned;
    shim->pretence.map_shift = 832;
    for (int i = 0; i < 2; i++) {
        shim->refuse(calls[i], 2, VR_VK_OUT_OF_HOST_MEMORY, false);
        assert_int_equal(ops->alloc(&world.device, PAGE, &pinned), VRAM_ERR_HOST_MEMORY);
        assert_int_equal(shim->struck(), 1);
        assert_vulkan_error(VRAM_ERR_HOST_MEMORY, calls[i], VR_VK_OUT_OF_HOST_MEMORY);
        shim->refuse(NULL, 0, 0, false);
    }
    shim->pretence.map_shift = 1; /* no buffer begins there */
    assert_int_equal(ops->alloc(&world.device, PAGE, &pinned), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "vkMapMemory"));
    assert_int_equal(pinned, 7);
    shim->pretence.no_align = true;
    shim->pretence.map_shift = 832;
    assert_int_equal(ops->alloc(&world.device, PAGE, &pinned), VRAM_OK);
    assert_int_equal(pinned % PAGE, 0);
    assert_int_equal(ops->free(&world.device, pinned, PAGE), VRAM_OK);
    world_close(&world);
}

TEST(only_what_was_made_for_it_is_exported) {
    uint64_t handle = 7;
    vram_addr addr;
    int descriptor = -1;
    world_open(&world);
    const struct vr_share_ops *ops = world.device.share;
    assert_int_equal(alloc(GRANULE, &addr), VRAM_OK);
    assert_int_equal(ops->export_handle(&world.device, addr, GRANULE, false, &descriptor),
                     VRAM_ERR_INVALID);
    give(addr, GRANULE);
    assert_int_equal(ops->export_handle(&world.device, addr, GRANULE, false, &descriptor),
                     VRAM_ERR_INVALID);
    assert_int_equal(descriptor, -1);
    shim->pretence.more_bytes = GRANULE; /* which the importer could not know */
    assert_int_equal(ops->create(&world.device, GRANULE, &handle), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(handle, 7);
    world_close(&world);
}

/* An address belongs to the device that it was allocated on. */
TEST(memory_of_another_context_is_refused) {
    static struct world elsewhere;
    vram_addr addr;
    world_open(&world);
    elsewhere = (struct world){.device.impl = NULL};
    world_open(&elsewhere);
    assert_int_equal(alloc(GRANULE, &addr), VRAM_OK);
    assert_int_equal(elsewhere.device.queue_ops->fill(&elsewhere.queue, addr, 7, 1, 8),
                     VRAM_ERR_INVALID);
    give(addr, GRANULE);
    elsewhere.device.queue_ops->destroy(&elsewhere.queue);
    elsewhere.device.ops->close(&elsewhere.device);
    elsewhere.backend.ops->stop(&elsewhere.backend);
    world_close(&world);
}

/* ---------------------------------------------------------------- transfers */

/* While the driver does not tell what is complete, no staging memory can be used again: the queue
   waits for the oldest before it takes more than its share. */
TEST(uploads_wait_for_their_staging) {
    const uint64_t bytes = 9 * VR_VULKAN_PIECE;
    unsigned char *from = vr_mem_alloc(1, bytes, "test"), *to = vr_mem_alloc(1, bytes, "test");
    vram_addr addr;
    world_open(&world);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    assert_int_equal(alloc(bytes, &addr), VRAM_OK);
    for (uint64_t i = 0; i < bytes; i++) {
        from[i] = (unsigned char)(i * 7 + (i >> 8) * 13);
    }
    shim->refuse("vkGetSemaphoreCounterValue", 1, VR_VK_UNKNOWN, true);
    assert_int_equal(ops->upload(&world.queue, addr, from, bytes), VRAM_OK);
    assert_int_equal(shim->calls("vkWaitSemaphores"), 0);
    assert_int_equal(ops->upload(&world.queue, addr, from, VR_VULKAN_PIECE), VRAM_OK);
    assert_int_equal(shim->calls("vkWaitSemaphores"), 1);
    shim->refuse("vkWaitSemaphores", 1, VR_VK_UNKNOWN, false);
    assert_int_equal(ops->upload(&world.queue, addr, from, VR_VULKAN_PIECE), VRAM_ERR_BACKEND);
    assert_vulkan_error(VRAM_ERR_BACKEND, "vkWaitSemaphores", VR_VK_UNKNOWN);
    assert_int_equal(ops->download(&world.queue, to, addr, bytes), VRAM_OK);
    assert_memory_equal(from, to, bytes);
    /* All ten pieces are free now, of which eight are kept. */
    assert_int_equal(ops->upload(&world.queue, addr, from, 1), VRAM_OK);
    const struct vr_vulkan_device *device = world.device.impl;
    assert_in_range(device->staging_bytes, 1, 8 * VR_VULKAN_PIECE);
    assert_int_equal(finish(&world.queue), VRAM_OK);
    give(addr, bytes);
    world_close(&world);
    vr_mem_free(from);
    vr_mem_free(to);
}

/* What is under way ends, and the failure is the first one. */
TEST(a_download_fails_in_its_middle) {
    const uint64_t bytes = 3 * VR_VULKAN_PIECE;
    unsigned char *to = vr_mem_alloc(1, bytes, "test");
    vram_addr addr;
    world_open(&world);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    assert_int_equal(alloc(bytes, &addr), VRAM_OK);
    assert_int_equal(ops->fill(&world.queue, addr, 5, 1, bytes), VRAM_OK);
    shim->refuse("vkQueueSubmit", 2, VR_VK_OUT_OF_HOST_MEMORY, false);
    assert_int_equal(ops->download(&world.queue, to, addr, bytes), VRAM_ERR_HOST_MEMORY);
    assert_vulkan_error(VRAM_ERR_HOST_MEMORY, "vkQueueSubmit", VR_VK_OUT_OF_HOST_MEMORY);
    assert_int_equal(ops->download(&world.queue, to, addr, bytes), VRAM_OK);
    assert_int_equal(to[0] + to[bytes - 1], 10);
    give(addr, bytes);
    world_close(&world);
    vr_mem_free(to);
}

TEST(an_edge_of_a_fill_finds_no_staging) {
    unsigned char found[8] = {0};
    vram_addr addr;
    world_open(&world);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    assert_int_equal(alloc(GRANULE, &addr), VRAM_OK);
    assert_int_equal(ops->fill(&world.queue, addr, 1, 1, 8), VRAM_OK);
    shim->refuse("vkCreateBuffer", 1, VR_VK_OUT_OF_HOST_MEMORY, false);
    assert_int_equal(ops->fill(&world.queue, addr + 1, 2, 1, 6), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(ops->download(&world.queue, found, addr, 8), VRAM_OK);
    assert_memory_equal(found, ((unsigned char[]){1, 1, 1, 1, 1, 1, 1, 1}), 8);
    assert_int_equal(ops->fill(&world.queue, addr + 1, 2, 1, 6), VRAM_OK);
    assert_int_equal(ops->download(&world.queue, found, addr, 8), VRAM_OK);
    assert_memory_equal(found, ((unsigned char[]){1, 2, 2, 2, 2, 2, 2, 1}), 8);
    give(addr, GRANULE);
    world_close(&world);
}

/* --------------------------------------------------------------------- ends */

/* A queue whose work may still run keeps its word: no other queue gets it. */
TEST(a_queue_that_does_not_end_is_not_used_again) {
    static const struct {
        int code;
        uint64_t asked; /* how often */
    } cases[] = {{VR_VK_UNKNOWN, 4}, {VR_VK_TIMEOUT, 1}, {VR_VK_DEVICE_LOST, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vr_queue second, third;
        shim->pretence.gpu = AS_GPU; /* nobody else waits then */
        world_open(&world);
        const struct vr_queue_ops *ops = world.device.queue_ops;
        make_queue(&world.device, &second);
        assert_int_equal(ops->signal(&second, 1), VRAM_OK);
        assert_int_equal(wait_for(&second, 1), VRAM_OK);
        const vr_atomic_u64 *word = second.word;
        shim->refuse("vkWaitSemaphores", 1, cases[i].code, true);
        ops->destroy(&second);
        assert_int_equal(shim->struck(), cases[i].asked);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        shim->refuse(NULL, 0, 0, false);
        make_queue(&world.device, &third);
        assert_ptr_not_equal(third.word, word);
        ops->destroy(&third);
        close_as_lost();
    }
}

WHOLE_FILE(open_shim, NULL)
EACH_TEST(shim_new, NULL)
