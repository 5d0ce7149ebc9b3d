/* SPDX-License-Identifier: Apache-2.0 */
/* test_opencl_memory.c: buffers behind windows and their sub-buffers, pointers, and want of
   memory. */
#include "unit/opencl_world.h"

static struct vr_native native_of(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_native native = {.handle = NULL};
    assert_int_equal(device->handles->native(device, addr, bytes, &native), VRAM_OK);
    assert_non_null(native.handle);
    return native;
}

/* ---------------------------------------------------------------- sub-buffers */

TEST(a_block_has_a_sub_buffer_of_its_own) {
    struct world world;
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, 4 * GRANULE);
    uint64_t before = fake->live();
    struct vr_native whole = native_of(&world.device, addr + 5, 0);
    assert_int_equal(whole.offset, 5);
    assert_int_equal(whole.bytes, 4 * GRANULE);
    assert_false(whole.device_address.known);
    struct vr_native first = native_of(&world.device, addr, 512);
    struct vr_native second = native_of(&world.device, addr + 512, 1024);
    assert_true(first.handle != whole.handle && second.handle != whole.handle);
    assert_true(first.handle != second.handle);
    assert_int_equal(first.offset + second.offset, 0);
    assert_int_equal(second.bytes, 1024);
    assert_int_equal(fake->live(), before + 2);

    uint64_t calls = plan->calls("any"); /* from now on they are found, without the driver */
    assert_ptr_equal(native_of(&world.device, addr, 512).handle, first.handle);
    assert_ptr_equal(native_of(&world.device, addr + 512, 1024).handle, second.handle);
    assert_ptr_equal(native_of(&world.device, addr, 4 * GRANULE).handle, whole.handle);
    assert_int_equal(plan->calls("any"), calls);

    struct vr_native wider = native_of(&world.device, addr, 2048); /* the block was cut anew */
    assert_true(wider.handle != whole.handle);
    assert_int_equal(wider.bytes, 2048);
    assert_int_equal(fake->live(), before + 2);
    give_memory(&world.device, addr, 4 * GRANULE);
    end(&world);
}

TEST(blocks_that_lie_badly_are_refused) {
    struct world world;
    struct vr_native native = {.bytes = 7};
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, GRANULE);
    assert_int_equal(world.device.handles->native(&world.device, addr + 256, 512, &native),
                     VRAM_ERR_UNSUPPORTED);
    assert_opencl_error(VRAM_ERR_UNSUPPORTED, "clCreateSubBuffer",
                        VR_CL_MISALIGNED_SUB_BUFFER_OFFSET);
    assert_int_equal(world.device.handles->native(&world.device, addr + GRANULE, 0, &native),
                     VRAM_ERR_INVALID);
    assert_int_equal(world.device.handles->native(&world.device, 4096, 0, &native),
                     VRAM_ERR_INVALID);
    assert_int_equal(native.bytes, 7);
    give_memory(&world.device, addr, GRANULE);
    end(&world);
}

/* Blocks of all sizes come and go: what is there of sub-buffers stays near what is alive. */
TEST(old_sub_buffers_go) {
    enum { ROUNDS = 200, BYTES = 1 << 20 };
    struct world world;
    uint64_t most = 0;
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, BYTES);
    uint64_t before = fake->live();
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t bytes = 512u << round % 7;
        for (uint64_t at = round % 3 * 512; at + bytes <= BYTES / 4; at += bytes) {
            (void)native_of(&world.device, addr + at, bytes);
        }
        uint64_t now = fake->live() - before;
        most = now > most ? now : most;
    }
    /* 512 blocks of 512 bytes are the most that live at a time; without sweeping it would be 3
       times the 512-byte places of the whole, each with the last block that began there. */
    assert_in_range(most, 512, 2 * 512 + 64);
    void *live = native_of(&world.device, addr, 512).handle;
    for (uint64_t at = 512; at < BYTES / 4; at += 512) { /* and a live one is never swept */
        (void)native_of(&world.device, addr + at, 512);
        assert_ptr_equal(native_of(&world.device, addr, 512).handle, live);
    }
    give_memory(&world.device, addr, BYTES);
    assert_true(live_falls_to(before - 1));
    end(&world);
}

/* A block that is there again after others lay in its place is found, and stays. */
TEST(a_block_that_comes_back_is_kept) {
    struct world world;
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, 16 * GRANULE);
    void *large = native_of(&world.device, addr, 64 * VR_KIB).handle;
    for (uint64_t at = 512; at < 30 * VR_KIB; at += 512) { /* too few for a sweep */
        (void)native_of(&world.device, addr + at, 512);
    }
    assert_ptr_equal(native_of(&world.device, addr, 64 * VR_KIB).handle, large);
    for (uint64_t at = 64 * VR_KIB; at < 1000 * VR_KIB; at += 512) {
        (void)native_of(&world.device, addr + at, 512);
    }
    uint64_t calls = plan->calls("clCreateSubBuffer");
    assert_ptr_equal(native_of(&world.device, addr, 64 * VR_KIB).handle, large);
    assert_int_equal(plan->calls("clCreateSubBuffer"), calls);
    give_memory(&world.device, addr, 16 * GRANULE);
    end(&world);
}

static vr_atomic_u32 mismatches;

static void ask_often(void *argument) {
    struct vr_device *device = ((void **)argument)[0];
    vram_addr addr = *(vram_addr *)((void **)argument)[1];
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t offset = i * 7 % 256 * 512;
        struct vr_native one, other;
        if (device->handles->native(device, addr + offset, 512, &one) ||
            device->handles->native(device, addr + offset, 512, &other) ||
            one.handle != other.handle) {
            vr_fetch_add(&mismatches, 1, VR_RELAXED);
        }
    }
}

TEST(threads_get_the_same_sub_buffer) {
    struct world world;
    struct vr_thread threads[3];
    begin(&world, "buffer");
    vram_addr addr = take_memory(&world.device, 4 * GRANULE);
    uint64_t before = fake->live();
    void *argument[] = {&world.device, &addr};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "ask", ask_often, argument), VRAM_OK);
    }
    for (int i = 0; i < 3; i++) {
        vr_os_thread_join(&threads[i]);
    }
    assert_int_equal(vr_load(&mismatches, VR_RELAXED), 0);
    assert_int_equal(fake->live(), before + 256);
    give_memory(&world.device, addr, 4 * GRANULE);
    end(&world);
}

/* ------------------------------------------------------------ want of memory */

/* The driver says yes and has nothing: the allocation fails, not what comes after it. */
TEST(lazy_buffers_fail_when_they_are_allocated) {
    static const char *const memories[] = {"buffer", "svm", "usm"};
    for (int i = 0; i < 3; i++) {
        struct world world;
        vram_addr addr = 7, addrs[4];
        fake->settings->memory_mib = 8;
        fake->settings->usm = i == 2;
        begin(&world, memories[i]);
        uint64_t before = fake->live();
        world.device.info.memory_bytes.known = false;
        ((struct vr_opencl_device *)world.device.impl)->memory_bytes =
            UINT64_MAX; /* as if unsaid */
        for (int j = 0; j < 3; j++) {
            addrs[j] = take_memory(&world.device, 2 * VR_MIB);
        }
        assert_int_equal(world.device.ops->alloc(&world.device, 4 * VR_MIB, &addr),
                         VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(addr, 7);
        addrs[3] = take_memory(&world.device, VR_MIB);
        for (int j = 0; j < 3; j++) {
            give_memory(&world.device, addrs[j], 2 * VR_MIB);
        }
        give_memory(&world.device, addrs[3], VR_MIB);
        assert_true(live_falls_to(before));
        end(&world);
        fake->reset();
    }
}

/* What the device has is all that is given, whatever the driver would promise. */
TEST(the_device_says_no_when_it_is_full) {
    struct world world;
    vram_addr addr = 7;
    fake->settings->memory_mib = 2;
    begin(&world, "svm");
    vram_addr all = take_memory(&world.device, 2 * VR_MIB - 2 * GRANULE);
    uint64_t calls = plan->calls("any");
    assert_int_equal(world.device.ops->alloc(&world.device, 4 * GRANULE, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(plan->calls("any"), calls);
    assert_int_equal(addr, 7);
    give_memory(&world.device, all, 2 * VR_MIB - 2 * GRANULE);
    end(&world);
}

/* ----------------------------------------------------------- other memory */

TEST(pinned_memory_is_mapped_and_aligned) {
    struct world world;
    vram_addr addrs[3];
    begin(&world, "buffer");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world.device.pinned->alloc(&world.device, 8192, &addrs[i]), VRAM_OK);
        assert_int_equal(addrs[i] % vr_os_page_bytes(), 0);
        memset((void *)(uintptr_t)addrs[i], i, 8192);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world.device.pinned->free(&world.device, addrs[i], 8192), VRAM_OK);
    }
    assert_int_equal(world.device.pinned->free(&world.device, addrs[0], 8192), VRAM_ERR_INVALID);
    end(&world);
}

/* Memory of a program's provider may be anything: what is no buffer here is refused. */
TEST(foreign_addresses_are_refused) {
    struct world world, elsewhere;
    struct vr_queue queue;
    char text[8] = "";
    fake->settings->svm = 0;
    begin(&elsewhere, "buffer");
    begin(&world, "buffer");
    make_queue(&world.device, &queue);
    vram_addr foreign = take_memory(&elsewhere.device, GRANULE);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    struct vr_native native;
    assert_int_equal(ops->upload(&queue, foreign, text, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->download(&queue, text, foreign, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->fill(&queue, foreign, 0, 1, 8), VRAM_ERR_INVALID);
    assert_int_equal(ops->copy(&queue, foreign, foreign + 64, 8), VRAM_ERR_INVALID);
    assert_int_equal(world.device.handles->native(&world.device, foreign, 0, &native),
                     VRAM_ERR_INVALID);
    give_memory(&elsewhere.device, foreign, GRANULE);
    assert_int_equal(elsewhere.device.ops->free(&elsewhere.device, foreign, GRANULE),
                     VRAM_ERR_INVALID);
    end_queue(&queue);
    end(&world);

    elsewhere.device.ops->close(&elsewhere.device);
    elsewhere.backend.ops->stop(&elsewhere.backend);
}

EACH_TEST(setup, teardown)
