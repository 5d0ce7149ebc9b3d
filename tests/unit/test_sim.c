/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim.c: the simulated machine as a backend: devices, memory, journal, and its protocol. */
#include "base/log.h"
#include "sim_world.h"

/* ---------------------------------------------------------------------- backend */

/* A simulated H200 has the memory of an H200; a device of another size is not called one. */
TEST(products_have_one_size) {
    static const struct {
        const char *text, *name;
        uint64_t bytes;
    } rows[] = {
        {"profile=h200", "Simulated H200", UINT64_C(150109880320)},
        {"memory=150109880320,profile=h200", "Simulated H200", UINT64_C(150109880320)},
        {"profile=h200,memory=8G", "Simulated GPU", 8 * VR_GIB},
        {"profile=none", "Simulated GPU", 8 * VR_GIB},
        {"", "Simulated GPU", 8 * VR_GIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;
        open_world(&world, rows[i].text);
        assert_string_equal(world.device.info.name, rows[i].name);
        assert_int_equal(world.device.info.memory_bytes.value, rows[i].bytes);
        close_world(&world, 0);
    }
}

TEST(starts_by_text_or_option) {
    struct world world;
    assert_int_equal(start_world(&world, "devices=0"), VRAM_ERR_NO_DEVICE);
    assert_true(strstr(vram_error_get()->text, "devices=0") != NULL);
    assert_int_equal(start_world(&world, "devices=none"), VRAM_ERR_INVALID);
    assert_ok(vram_option_set("sim", "devices=5"));
    assert_ok(start_world(&world, NULL));
    assert_int_equal(world.backend.ops->count(&world.backend), 5);
    stop_world(&world);
    assert_ok(vram_option_set("sim", NULL));
    world = (struct world){.backend.ops = &vr_sim_backend};
    world.blocks_before = vr_mem_live_blocks();
    assert_ok(world.backend.ops->start(&world.backend, NULL));
    assert_int_equal(world.backend.ops->count(&world.backend), 1);
    stop_world(&world);
}

/* ----------------------------------------------------------------------- memory */

/* A freed address comes back first; another device, and another world, never gets it. */
TEST(addresses) {
    struct world world;
    open_world(&world, "devices=2,memory=1024T");
    assert_ok(open_device(&world, 1, &world.second));
    struct vr_device *device = &world.device;
    uint64_t rest = VR_SIM_MEMORY_MAX - 2 * PAGE;
    vram_addr a = alloc(device, PAGE), b = alloc(device, PAGE), big = alloc(device, rest);
    assert_true(a >> 56 == 0x5a && b > a + PAGE); /* outside user space, with a gap */
    assert_int_equal(big % PAGE, 0);
    assert_ok(device->ops->free(device, a, PAGE));
    vram_addr other = alloc(&world.second, PAGE);
    assert_int_not_equal(other, a);
    assert_int_equal(alloc(device, PAGE), a);
    assert_ok(device->ops->free(device, a, PAGE));
    assert_ok(device->ops->free(device, b, PAGE));
    assert_ok(device->ops->free(device, big, rest));
    assert_ok(world.second.ops->free(&world.second, other, PAGE));
    world.second.ops->close(&world.second);
    close_world(&world, 0);

    open_world(&world, "");
    assert_true(alloc(&world.device, PAGE) > big);
    world.device.ops->close(&world.device);
    expect_violation(&world, 1, "bytes was never given back");
    stop_world(&world);
}

/* More freed at once than are kept for reuse: the rest is forgotten, nothing overlaps. */
TEST(many_addresses) {
    struct world world;
    vram_addr addrs[100];
    open_world(&world, "");
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 100; i++) {
            addrs[i] = alloc(&world.device, PAGE);
            for (unsigned j = 0; j < i; j++) {
                assert_int_not_equal(addrs[i], addrs[j]);
            }
        }
        for (unsigned i = 0; i < 100; i++) {
            assert_ok(world.device.ops->free(&world.device, addrs[i], PAGE));
        }
    }
    close_world(&world, 0);
}

/* The window of synthetic addresses is large, not endless. */
TEST(addresses_run_out) {
    struct world world;
    vram_addr ranges[64];
    unsigned count = 0;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    uint64_t bytes = UINT64_C(1) << 50;
    while (count < 64 && device->vmm->reserve(device, bytes, GRANULE, &ranges[count]) == VRAM_OK) {
        count++;
    }
    assert_in_range(count, 50, 60);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(device->vmm->reserve(device, UINT64_MAX - GRANULE + 1, GRANULE, ranges),
                     VRAM_ERR_DEVICE_MEMORY);
    while (count) {
        assert_ok(device->vmm->unreserve(device, ranges[--count], bytes));
    }
    close_world(&world, 0);
}

TEST(host_memory) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr pinned = 0, managed = 0;
    assert_ok(device->pinned->alloc(device, 3 * PAGE, &pinned));
    assert_ok(device->managed->alloc(device, PAGE, &managed));
    assert_int_equal(state_of(&world).live_bytes, 0); /* not the device's */
    assert_int_equal(state_of(&world).live_handles, 3);
    memset((void *)(uintptr_t)pinned, 7, 3 * PAGE); /* host pointers */
    memset((void *)(uintptr_t)managed, 8, PAGE);
    struct vr_queue queue = create_queue(device);
    assert_ok(device->managed->prefetch(&queue, managed, PAGE, VRAM_TARGET_HOST));
    assert_ok(device->queue_ops->copy(&queue, managed, pinned, PAGE));
    destroy_queue(&queue);
    assert_int_equal(*(uint8_t *)(uintptr_t)managed, 7);
    assert_ok(device->pinned->free(device, pinned, 3 * PAGE));
    assert_ok(device->managed->free(device, managed, PAGE));
    close_world(&world, 0);
}

/* --------------------------------------------------------------------- contents */

/* The next owner of an address finds nothing of the last one. */
TEST(freed_memory_is_blank) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    uint32_t word = 1;
    vram_addr addr = alloc(device, PAGE);
    assert_ok(device->queue_ops->fill(&queue, addr, 0xffffffff, 4, PAGE));
    finish_queue(&queue);
    assert_ok(device->ops->free(device, addr, PAGE));
    assert_int_equal(alloc(device, PAGE), addr);
    assert_ok(device->queue_ops->download(&queue, &word, addr + 8, sizeof word));
    destroy_queue(&queue);
    assert_int_equal(word, 0);
    assert_ok(device->ops->free(device, addr, PAGE));
    close_world(&world, 0);
}

/* ----------------------------------------------------------------------- devices */

/* The source of a peer copy is in use until the copy is done, on its own device too. */
TEST(peers_keep_memory_busy) {
    struct world world;
    open_world(&world, "devices=2,lag=10000");
    assert_ok(open_device(&world, 1, &world.second));
    struct vr_device *device = &world.device, *peer = &world.second;
    struct vr_queue queue = create_queue(device);
    vram_addr here = alloc(device, PAGE), there = alloc(peer, PAGE);
    assert_ok(device->peer->enable(device, peer));
    assert_ok(device->peer->copy(&queue, here, peer, there, PAGE));
    assert_int_equal(peer->ops->free(peer, there, PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&queue);
    assert_ok(peer->ops->free(peer, there, PAGE));
    assert_ok(device->ops->free(device, here, PAGE));
    destroy_queue(&queue);
    peer->ops->close(peer);
    close_world(&world, 1);
}

/* ---------------------------------------------------------------------- protocol */

TEST(wrong_frees) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr addr = alloc(device, 2 * PAGE), pinned;
    assert_ok(device->pinned->alloc(device, PAGE, &pinned));
    const struct {
        vram_addr addr;
        uint64_t bytes;
        vr_memory_free_fn *free;
    } rows[] = {
        {0, PAGE, device->ops->free},
        {addr + PAGE, PAGE, device->ops->free},
        {addr, PAGE, device->ops->free},
        {addr, 2 * PAGE, device->pinned->free},
        {addr, 2 * PAGE, device->vmm->unreserve},
        {pinned, PAGE, device->managed->free},
        {addr + VR_GIB, PAGE, device->ops->free},
        {UINT64_MAX, PAGE, device->ops->free},
    };
    uint64_t count = sizeof rows / sizeof rows[0];
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].free(device, rows[i].addr, rows[i].bytes), VRAM_ERR_INVALID);
        expect_violations(&world, i + 1);
        assert_int_equal(state_of(&world).live_handles, 3);
    }
    assert_ok(device->ops->free(device, addr, 2 * PAGE));
    assert_int_equal(device->ops->free(device, addr, 2 * PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "given back before");
    assert_int_equal(device->ops->alloc(device, PAGE + 1, &addr), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "granule");
    assert_int_equal(device->ops->alloc(device, 0, &addr), VRAM_ERR_INVALID);
    assert_ok(device->pinned->free(device, pinned, PAGE));
    close_world(&world, count + 1);
}

static char logged[4096];

static void keep_log(void *user, vram_log_level level, const char *text) {
    (void)user;
    (void)level;
    assert_int_equal(vr_locks_held(), 0);
    vr_error_set(VRAM_ERR_BUSY, "", "log", 0, "the callback fails at something of its own");
    strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

TEST(violations_are_logged_and_kept) {
    struct world world;
    char text[VR_SIM_TEXT_MAX];
    open_world(&world, "");
    logged[0] = 0;
    vram_log_set(keep_log, NULL, VRAM_LOG_DEBUG);
    for (unsigned i = 0; i < 70; i++) {
        assert_int_equal(world.device.ops->free(&world.device, 4096 + i, PAGE), VRAM_ERR_INVALID);
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_true(strstr(logged, "protocol: call 2, device 0, free: 0x1000") != NULL);
    assert_string_equal(vram_error_get()->operation, "free"); /* not the callback's */
    const struct vr_sim_ops *sim = world.backend.ops->sim;
    assert_ok(sim->violation(&world.backend, 63, text, sizeof text));
    assert_int_equal(sim->violation(&world.backend, 64, text, sizeof text), VRAM_ERR_INVALID);
    assert_ok(sim->violation(&world.backend, 0, text, 5));
    assert_string_equal(text, "call");
    close_world(&world, 70);
}

TEST(leaks_are_found_at_close) {
    struct world world;
    vram_addr addr;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    alloc(device, PAGE);
    assert_ok(device->pinned->alloc(device, PAGE, &addr));
    assert_ok(device->managed->alloc(device, PAGE, &addr));
    map_range(device, GRANULE, 2);
    create_queue(device);
    device->ops->close(device);
    expect_violations(&world, 7);
    stop_world(&world); /* with nothing live */
}

#ifdef VR_DEBUG
TEST(calls_under_a_lock) {
    struct world world;
    struct vr_mutex lock;
    vram_addr addr = 0;
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_false(vr_log_enabled(VRAM_LOG_ERROR)); /* under the lock nobody may ask */
    open_world(&world, "");
    vr_mutex_init(&lock, VR_RANK_DEVICE);
    vr_mutex_lock(&lock);
    assert_int_equal(world.device.ops->alloc(&world.device, PAGE, &addr), VRAM_ERR_INVALID);
    vr_mutex_unlock(&lock);
    vr_mutex_destroy(&lock);
    expect_violation(&world, 1, "locks of the library held");
    close_world(&world, 1);
}
#endif

TEST(calls_after_stop) {
    struct world world;
    vram_addr addr = 0;
    open_world(&world, "");
    logged[0] = 0;
    vram_log_set(keep_log, NULL, VRAM_LOG_ERROR);
    world.backend.ops->stop(&world.backend);
    assert_true(strstr(logged, "stopped with 1 devices open") != NULL);
    assert_int_equal(world.device.ops->alloc(&world.device, PAGE, &addr), VRAM_ERR_SHUTDOWN);
    assert_true(strstr(logged, "after the backend was stopped") != NULL);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    world.device.ops->close(&world.device); /* frees the machine */
    assert_int_equal(vr_mem_live_blocks(), world.blocks_before);
}

/* What another process holds is missing: the driver says so and refuses what does not fit beside
   it. */
TEST(memory_of_others) {
    struct world world;
    vram_value free, total;
    vram_addr addr = 0;
    open_world(&world, "memory=1G,others=768M");
    struct vr_device *device = &world.device;
    const struct vr_sim_ops *sim = world.backend.ops->sim;
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_int_equal(total.value, VR_GIB);
    assert_int_equal(free.value, 256 * VR_MIB);
    assert_int_equal(device->ops->alloc(device, 257 * VR_MIB, &addr), VRAM_ERR_DEVICE_MEMORY);
    addr = alloc(device, 256 * VR_MIB);
    assert_ok(sim->others(&world.backend, 0, VR_GIB)); /* more than is left: ours stays */
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_int_equal(free.value, 0);
    assert_ok(sim->others(&world.backend, 0, 0));
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_int_equal(free.value, 768 * VR_MIB);
    assert_int_equal(sim->others(&world.backend, 1, 0), VRAM_ERR_NO_DEVICE);
    assert_int_equal(sim->others(&world.backend, 0, VR_GIB + 1), VRAM_ERR_INVALID);
    assert_ok(device->ops->free(device, addr, 256 * VR_MIB));
    close_world(&world, 0);
}
