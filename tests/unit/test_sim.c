/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim.c: the simulated machine as a backend: devices, memory, journal, and its protocol. */
#include "sim_world.h"

#include "base/lock.h"
#include "base/option.h"

/* ---------------------------------------------------------------------- backend */

static void check_groups(const struct vr_device *device) {
    uint32_t caps = device->info.caps;
    assert_int_equal(!!(caps & VRAM_CAP_VMM), device->vmm != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_PINNED), device->pinned != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_MANAGED), device->managed != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_PEERS), device->peer != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_KERNELS), device->kernel != NULL);
    assert_int_equal(!!(caps & VRAM_CAP_VMM), device->info.vmm_granule.known);
    assert_int_equal(caps & ~device->info.caps_known, 0);
}

/* A simulated H200 has the memory of an H200; a device of another size is not called one. */
static void products_have_one_size(void **state) {
    (void)state;
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

static void describes_itself(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "devices=3,memory=80G,profile=h200");
    const struct vram_device_info *info = &world.device.info;
    assert_int_equal(world.backend.ops->count(&world.backend), 3);
    assert_int_equal(info->kind, VRAM_DEVICE_SIMULATED);
    assert_string_equal(info->name, "Simulated GPU");
    assert_int_equal(info->memory_bytes.value, 80 * VR_GIB);
    assert_int_equal(info->alloc_granule.value, PAGE);
    assert_int_equal(info->vmm_granule.value, GRANULE);
    assert_false(info->uuid_known || info->pci_known);
    assert_true(info->caps & VRAM_CAP_SIMULATED && info->caps & VRAM_CAP_PEERS);
    assert_false(info->caps & (VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_HOST_ACCESS | VRAM_CAP_KERNELS));
    assert_true(world.backend.version[0] != 0);
    check_groups(&world.device);
    close_world(&world, 0);

    open_world(&world, "vmm=off,info=off,real=on");
    check_groups(&world.device);
    assert_false(world.device.info.caps & (VRAM_CAP_VMM | VRAM_CAP_MEMORY_INFO | VRAM_CAP_PEERS));
    assert_true(world.device.info.caps & VRAM_CAP_KERNELS);
    vram_value unknown = {1, true}, total = {0};
    assert_ok(world.device.ops->memory_info(&world.device, &unknown, &total));
    assert_true(!unknown.known && total.known && total.value == 8 * VR_GIB);
    close_world(&world, 0);
}

static void starts_by_text_or_option(void **state) {
    (void)state;
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

static uint64_t free_bytes(struct vr_device *device) {
    vram_value free, total;
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_true(free.known && total.known);
    return free.value;
}

static void counts_what_is_held(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "memory=1M");
    struct vr_device *device = &world.device;
    assert_int_equal(state_of(&world).live_handles, 1); /* the device */
    vram_addr a = alloc(device, 768 * VR_KIB), b = 0;
    assert_int_equal(a % PAGE, 0);
    assert_int_equal(free_bytes(device), 256 * VR_KIB);
    assert_int_equal(state_of(&world).live_bytes, 768 * VR_KIB);
    assert_int_equal(device->ops->alloc(device, 512 * VR_KIB, &b), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(b, 0);
    assert_int_equal(vram_error_get()->native_code, VRAM_SIM_OUT_OF_MEMORY);
    assert_string_equal(vram_error_get()->operation, "alloc");
    assert_true(strstr(vram_error_get()->text, "256.00 KiB free") != NULL);
    b = alloc(device, 256 * VR_KIB);
    assert_int_equal(free_bytes(device), 0);
    assert_int_equal(state_of(&world).live_handles, 3);
    assert_ok(device->ops->free(device, a, 768 * VR_KIB));
    assert_ok(device->ops->free(device, b, 256 * VR_KIB));
    assert_int_equal(free_bytes(device), VR_MIB);
    close_world(&world, 0);
}

/* A freed address comes back first; another device, and another world, never gets it. */
static void addresses(void **state) {
    (void)state;
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
static void many_addresses(void **state) {
    (void)state;
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
static void addresses_run_out(void **state) {
    (void)state;
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

static void host_memory(void **state) {
    (void)state;
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

static void contents_are_kept(void **state) {
    (void)state;
    struct world world;
    static uint8_t data[200000], back[200000];
    open_world(&world, "memory=1T");
    struct vr_device *device = &world.device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue queue = create_queue(device);
    vram_addr a = alloc(device, 64 * VR_GIB), b = alloc(device, 64 * VR_GIB);
    uint64_t far = 40 * VR_GIB + 12345;
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
    /* Untouched memory reads as zeros, and copying it costs nothing. */
    memset(back, 1, sizeof back);
    assert_ok(ops->copy(&queue, b, a, 64 * VR_GIB));
    assert_ok(ops->fill(&queue, b, 0, 4, 64 * VR_GIB));
    assert_ok(ops->download(&queue, back, b + far, sizeof back));
    finish_queue(&queue);
    for (size_t i = 0; i < sizeof back; i++) {
        assert_int_equal(back[i], 0);
    }
    assert_ok(ops->upload(&queue, a + far, data, sizeof data));
    assert_ok(ops->copy(&queue, b + 5, a + far, sizeof data));
    assert_ok(ops->download(&queue, back, b + 5, sizeof back));
    finish_queue(&queue);
    assert_memory_equal(data, back, sizeof data);
    /* Fills of every pattern, and of blank over written memory. */
    assert_ok(ops->fill(&queue, a + far + 1, 0xabcd, 1, 3));
    assert_ok(ops->fill(&queue, b + 6, 0x12345678, 2, 100000));
    assert_ok(ops->copy(&queue, b + 100010, b + 32 * VR_GIB, 10));
    assert_ok(ops->download(&queue, back, b + 5, sizeof back));
    assert_ok(ops->download(&queue, data, a + far, 8));
    finish_queue(&queue);
    static const uint8_t edge[] = {0xcd, 0xcd, 0xcd};
    assert_memory_equal(data + 1, edge, 3);
    assert_int_equal(back[1], 0x78);
    assert_int_equal(back[2], 0x56);
    assert_int_equal(back[99999], 0x78);
    assert_int_equal(back[100000], 0x56);
    assert_int_equal(back[100004], (uint8_t)(100004u * 31 + 100004u / 251));
    assert_int_equal(back[100005], 0);
    assert_ok(ops->fill(&queue, b + 8, 0xa1b2c3d4, 4, 8));
    assert_ok(ops->download(&queue, back, b + 8, 8));
    finish_queue(&queue);
    static const uint8_t word[] = {0xd4, 0xc3, 0xb2, 0xa1, 0xd4, 0xc3, 0xb2, 0xa1};
    assert_memory_equal(back, word, 8);
    destroy_queue(&queue);
    assert_ok(device->ops->free(device, a, 64 * VR_GIB));
    assert_ok(device->ops->free(device, b, 64 * VR_GIB));
    close_world(&world, 0);
}

/* The next owner of an address finds nothing of the last one. */
static void freed_memory_is_blank(void **state) {
    (void)state;
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

static void two_handles_share_the_device(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "memory=1M");
    assert_ok(open_device(&world, 0, &world.second));
    vram_addr addr = alloc(&world.device, 512 * VR_KIB);
    assert_int_equal(free_bytes(&world.second), 512 * VR_KIB);
    assert_int_equal(state_of(&world).live_handles, 3);
    /* Freeing is the owner's alone. */
    assert_int_equal(world.second.ops->free(&world.second, addr, 512 * VR_KIB), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "another device");
    assert_ok(world.device.ops->free(&world.device, addr, 512 * VR_KIB));
    world.second.ops->close(&world.second);
    close_world(&world, 1);
}

static void peers(void **state) {
    (void)state;
    struct world world;
    open_world(&world, "devices=2");
    assert_ok(open_device(&world, 1, &world.second));
    struct vr_device *device = &world.device, *peer = &world.second;
    struct vr_queue queue = create_queue(device), theirs = create_queue(peer);
    vram_addr here = alloc(device, PAGE), there = alloc(peer, PAGE);
    uint64_t value = 0x0123456789abcdef, back = 0;
    assert_ok(peer->queue_ops->upload(&theirs, there, &value, sizeof value));
    finish_queue(&theirs);
    assert_int_equal(device->peer->copy(&queue, here, peer, there, 8), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "not enabled");
    assert_true(device->peer->reachable(device, peer));
    assert_ok(device->peer->enable(device, peer));
    assert_ok(device->peer->enable(device, peer));
    assert_ok(device->peer->copy(&queue, here, peer, there, 8));
    assert_ok(device->queue_ops->download(&queue, &back, here, 8));
    finish_queue(&queue);
    assert_true(back == value);
    assert_int_equal(device->peer->copy(&queue, there, peer, there, 8), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "memory of device 1");
    assert_int_equal(device->queue_ops->copy(&queue, here, there, 8), VRAM_ERR_INVALID);
    expect_violations(&world, 3);
    destroy_queue(&queue);
    destroy_queue(&theirs);
    assert_ok(device->ops->free(device, here, PAGE));
    assert_ok(peer->ops->free(peer, there, PAGE));
    peer->ops->close(peer);
    close_world(&world, 3);
}

/* The source of a peer copy is in use until the copy is done, on its own device too. */
static void peers_keep_memory_busy(void **state) {
    (void)state;
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

/* ----------------------------------------------------------------------- journal */

static void journal_remembers(void **state) {
    (void)state;
    struct world world;
    struct vram_sim_entry entry;
    open_world(&world, "journal=3,profile=h200,memory=1M");
    const struct vr_sim_ops *sim = world.backend.ops->sim;
    vram_addr addr = alloc(&world.device, PAGE), none = 0;
    assert_int_equal(world.device.ops->alloc(&world.device, VR_GIB, &none), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(sim->journal(&world.backend, 0, &entry));
    assert_int_equal(entry.number, 3);
    assert_int_equal(entry.call, VRAM_SIM_ALLOC);
    assert_int_equal(entry.code, VRAM_SIM_OUT_OF_MEMORY);
    assert_int_equal(entry.bytes, VR_GIB);
    assert_int_equal(entry.clock_ns, 29000);
    assert_ok(sim->journal(&world.backend, 1, &entry));
    assert_true(entry.addr == addr && entry.code == VRAM_SIM_SUCCESS && entry.clock_ns == 0);
    assert_ok(sim->journal(&world.backend, 2, &entry));
    assert_int_equal(entry.call, VRAM_SIM_DEVICE_OPEN);
    assert_int_equal(sim->journal(&world.backend, 3, &entry), VRAM_ERR_INVALID);
    assert_ok(world.device.ops->free(&world.device, addr, PAGE));
    assert_ok(sim->journal(&world.backend, 2, &entry));
    assert_int_equal(entry.number, 2);
    assert_int_equal(sim->journal(&world.backend, 3, &entry), VRAM_ERR_INVALID);
    assert_int_equal(state_of(&world).calls, 4);
    close_world(&world, 0);
    open_world(&world, "journal=0");
    assert_int_equal(world.backend.ops->sim->journal(&world.backend, 0, &entry), VRAM_ERR_INVALID);
    close_world(&world, 0);
}

/* ---------------------------------------------------------------------- protocol */

static void wrong_frees(void **state) {
    (void)state;
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

static void violations_are_logged_and_kept(void **state) {
    (void)state;
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

static void leaks_are_found_at_close(void **state) {
    (void)state;
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
static void calls_under_a_lock(void **state) {
    (void)state;
    struct world world;
    struct vr_mutex lock;
    vram_addr addr = 0;
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

static void calls_after_stop(void **state) {
    (void)state;
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
static void memory_of_others(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_others),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(products_have_one_size),
        cmocka_unit_test(starts_by_text_or_option),
        cmocka_unit_test(counts_what_is_held),
        cmocka_unit_test(addresses),
        cmocka_unit_test(many_addresses),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(contents_are_kept),
        cmocka_unit_test(freed_memory_is_blank),
        cmocka_unit_test(two_handles_share_the_device),
        cmocka_unit_test(peers),
        cmocka_unit_test(peers_keep_memory_busy),
        cmocka_unit_test(journal_remembers),
        cmocka_unit_test(wrong_frees),
        cmocka_unit_test(violations_are_logged_and_kept),
        cmocka_unit_test(leaks_are_found_at_close),
#ifdef VR_DEBUG
        cmocka_unit_test(calls_under_a_lock),
#endif
        cmocka_unit_test(calls_after_stop),
        cmocka_unit_test(addresses_run_out), /* last: it uses up the process's window */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
