/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim_fault.c: the simulated driver when things go wrong: planned faults, lies, lost devices,
 * and a host without memory. One scenario uses every entry point the way src/device would; it is
 * run with call 1, 2, 3 ... failing until none is left to fail.
 */
#include "sim_world.h"

#include <stdio.h>

/* --------------------------------------------------------------------- scenario */

struct give {
    struct vr_device *device;
    vr_memory_free_fn *free;
    uint64_t addr, bytes;
};

struct run {
    struct world world;
    bool opened[2];
    struct vr_queue queues[3];
    bool made[3];
    void *kernel;
    bool loaded;
    struct give gives[18];
    unsigned give_count;
    vram_status failed; /* first failure; nothing new is begun after it */
};

/* Notes what a call answered, as the wrappers in src/device do; whether it succeeded. */
static bool note(struct run *run, struct vr_device *device, vram_status status) {
    if (status == VRAM_ERR_DEVICE_LOST) {
        vr_store(&device->lost, true, VR_RELEASE);
    }
    if (status != VRAM_OK) {
        assert_int_equal(vram_error_get()->status, status);
        assert_true(vram_error_get()->text[0] != 0);
        run->failed = run->failed ? run->failed : status;
    }
    return status == VRAM_OK;
}

#define TRY(run, device, call) (!(run)->failed && note(run, device, call))

static void later(struct run *run, struct vr_device *device, vr_memory_free_fn *free, uint64_t addr,
                  uint64_t bytes) {
    run->gives[run->give_count++] = (struct give){device, free, addr, bytes};
}

static void take_memory(struct run *run) {
    struct vr_device *device = &run->world.device;
    vram_addr addr;
    vram_value free, total;
    if (TRY(run, device, device->ops->alloc(device, 4 * PAGE, &addr))) {
        later(run, device, device->ops->free, addr, 4 * PAGE);
    }
    if (TRY(run, device, device->pinned->alloc(device, PAGE, &addr))) {
        later(run, device, device->pinned->free, addr, PAGE);
    }
    if (TRY(run, device, device->managed->alloc(device, PAGE, &addr))) {
        later(run, device, device->managed->free, addr, PAGE);
    }
    (void)TRY(run, device, device->ops->memory_info(device, &free, &total));
}

static void register_memory(struct run *run) {
    static _Alignas(4096) char own[4096];
    struct vr_device *device = &run->world.device;
    if (TRY(run, device, device->pinned->register_pages(device, (uintptr_t)own, PAGE))) {
        later(run, device, device->pinned->unregister_pages, (uintptr_t)own, PAGE);
    }
}

static void share_memory(struct run *run) {
    struct vr_device *device = &run->world.device;
    uint64_t handle, imported;
    int descriptor = -1;
    if (TRY(run, device, device->share->create(device, GRANULE, &handle))) {
        later(run, device, device->vmm->release, handle, GRANULE);
    }
    if (TRY(run, device,
            device->share->export_handle(device, handle, GRANULE, true, &descriptor))) {
        if (TRY(run, device,
                device->share->import_handle(device, descriptor, GRANULE, &imported))) {
            later(run, device, device->vmm->release, imported, GRANULE);
        }
        vr_os_file_close(descriptor);
    }
}

static void map_memory(struct run *run) {
    struct vr_device *device = &run->world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_addr addr;
    uint64_t handle;
    if (TRY(run, device, vmm->reserve(device, 2 * GRANULE, GRANULE, &addr))) {
        later(run, device, vmm->unreserve, addr, 2 * GRANULE);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (TRY(run, device, vmm->create(device, GRANULE, &handle))) {
            later(run, device, vmm->release, handle, GRANULE);
        }
        if (TRY(run, device, vmm->map(device, addr + i * GRANULE, handle, GRANULE))) {
            later(run, device, vmm->unmap, addr + i * GRANULE, GRANULE);
        }
    }
    (void)TRY(run, device, vmm->access(device, addr, 2 * GRANULE));
    (void)TRY(run, device, vmm->protect(device, addr, GRANULE, true));
    (void)TRY(run, device, vmm->protect(device, addr, GRANULE, false));
}

static void empty_kernel(const vram_kernel_call *call) {
    (void)call;
}

static void make_queues(struct run *run) {
    struct vram_queue_options options = {.size = sizeof options};
    vram_kernel_fn *code = empty_kernel;
    struct vram_kernel_source source = {.size = sizeof source};
    struct vr_device *device = &run->world.device, *second = &run->world.second;
    for (unsigned i = 0; i < 3; i++) {
        run->queues[i] = (struct vr_queue){.device = i == 2 ? second : device, .adopted = i == 1};
    }
    run->made[0] = TRY(run, device, device->queue_ops->create(&run->queues[0], &options));
    run->made[1] = TRY(run, device, device->queue_ops->adopt(&run->queues[1]));
    run->made[2] = TRY(run, second, second->queue_ops->create(&run->queues[2], &options));
    if (device->kernel) {
        memcpy(&source.code, &code, sizeof code);
        run->loaded = TRY(run, device, device->kernel->load(device, &source, &run->kernel));
    }
}

static uint8_t host_data[2][8192];

/* The first block is the plain memory, the last ones are mapped. */
static void submit_work(struct run *run) {
    struct vr_device *device = &run->world.device, *second = &run->world.second;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue *one = &run->queues[0], *two = &run->queues[1], *far = &run->queues[2];
    vram_addr plain = run->gives[0].addr, mapped = run->gives[3].addr, there;
    if (TRY(run, second, second->ops->alloc(second, PAGE, &there))) {
        later(run, second, second->ops->free, there, PAGE);
    }
    (void)TRY(run, device, device->peer->enable(device, second));
    (void)TRY(run, device, ops->upload(one, mapped + GRANULE - 8, host_data[0], 16));
    (void)TRY(run, device, ops->fill(one, plain, 7, 4, PAGE));
    (void)TRY(run, device, ops->copy(one, plain + PAGE, mapped + GRANULE - 8, 16));
    (void)TRY(run, device, ops->signal(one, vr_load(one->word, VR_RELAXED) + 1));
    (void)TRY(run, device, ops->after(two, one, 1));
    (void)TRY(run, device, ops->download(two, host_data[1], plain, 2 * PAGE));
    (void)TRY(run, device, device->managed->prefetch(two, run->gives[2].addr, PAGE, 0));
    (void)TRY(run, second, ops->fill(far, there, 1, 1, PAGE));
    (void)TRY(run, second, ops->signal(far, 1));
    (void)TRY(run, device, ops->after(two, far, 1));
    (void)TRY(run, device, device->peer->copy(two, plain + 3 * PAGE, second, there, PAGE));
    if (run->loaded) {
        struct vram_launch launch = {.groups = {1, 1, 1}, .group_size = {1, 1, 1}};
        (void)TRY(run, device, device->kernel->launch(one, run->kernel, &launch));
    }
}

/* Waits as src/device does: by signal and word, by polls alone when there is no signal to be
   had. */
static void end_queue(struct run *run, struct vr_queue *queue) {
    struct vr_device *device = queue->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    uint64_t value = vr_load(queue->word, VR_RELAXED) + 5;
    bool marked =
        !vr_load(&device->lost, VR_RELAXED) && note(run, device, ops->signal(queue, value));
    for (unsigned i = 0; i < 1000 && !vr_load(&device->lost, VR_RELAXED); i++) {
        if (marked && vr_load(queue->word, VR_ACQUIRE) >= value) {
            break;
        }
        vram_status status = ops->poll(queue);
        if (status == VRAM_ERR_DEVICE_LOST) {
            note(run, device, status);
        }
        if (status == VRAM_OK || status != VRAM_ERR_NOT_READY) {
            break;
        }
    }
    ops->destroy(queue);
}

/* Gives everything back in reverse; a refusal is met by trying again, twice. */
static void give_all(struct run *run) {
    while (run->give_count) {
        const struct give *give = &run->gives[--run->give_count];
        bool given = false;
        for (unsigned i = 0; i < 3 && !given; i++) {
            given = note(run, give->device, give->free(give->device, give->addr, give->bytes));
        }
        if (!given && give->free == give->device->vmm->unmap) {
            run->give_count--; /* the handle below it cannot be released */
        }
    }
}

static void close_devices(struct run *run) {
    struct vr_device *devices[] = {&run->world.device, &run->world.second};
    for (unsigned i = 0; i < 2; i++) {
        if (run->opened[i]) {
            devices[i]->ops->close(devices[i]);
        }
    }
}

/* Runs it all; how it ended. Whatever fails, nothing is live at the end and nothing was
   breached. */
static vram_status scenario(struct run *run, const char *text) {
    *run = (struct run){0};
    vram_status status = start_world(&run->world, text);
    if (status != VRAM_OK) {
        assert_int_equal(vr_mem_live_blocks(), run->world.blocks_before);
        return status;
    }
    struct vr_device *device = &run->world.device, *second = &run->world.second;
    run->opened[0] = note(run, device, open_device(&run->world, 0, device));
    run->opened[1] = run->opened[0] && note(run, second, open_device(&run->world, 1, second));
    if (run->opened[1]) {
        take_memory(run);
        map_memory(run);
        register_memory(run);
        share_memory(run);
        make_queues(run);
        submit_work(run);
        for (unsigned i = 3; i-- > 0;) {
            if (run->made[i]) {
                end_queue(run, &run->queues[i]);
            }
        }
        if (run->loaded) {
            device->kernel->unload(device, run->kernel);
        }
        give_all(run);
    }
    close_devices(run);
    expect_violations(&run->world, 0);
    return run->failed;
}

static void end_run(struct run *run) {
    if (run->world.backend.impl) {
        stop_world(&run->world);
    }
}

/* ------------------------------------------------------------------------ faults */

static const char *const worlds[] = {
    "devices=2,memory=64M",
    "devices=2,memory=64M,real=on",
    "devices=2,memory=64M,lag=20,profile=h200,journal=0",
};

enum { WORLDS = sizeof worlds / sizeof worlds[0] };

TEST(plans_count) {
    struct world world;
    vram_addr addr = 0;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    plan(&world, VRAM_SIM_ALLOC, 2, false, VRAM_SIM_OUT_OF_MEMORY);
    vram_addr first = alloc(device, PAGE);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(addr, 0);
    assert_true(strstr(vram_error_get()->text, "out_of_memory, as planned") != NULL);
    vram_addr second = alloc(device, PAGE); /* once */
    plan(&world, VRAM_SIM_ALLOC, 1, true, -77);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_BACKEND);
        assert_int_equal(vram_error_get()->native_code, -77);
    }
    assert_ok(device->ops->free(device, first, PAGE)); /* another call */
    struct vram_sim_fault wrong = {.size = sizeof wrong};
    assert_int_equal(world.backend.ops->sim->fault(&world.backend, &wrong), VRAM_ERR_INVALID);
    assert_int_equal(device->ops->alloc(device, PAGE, &addr), VRAM_ERR_BACKEND); /* as before */
    plan_none(&world);
    assert_ok(device->ops->free(device, second, PAGE));
    assert_int_equal(state_of(&world).faults, 5);
    close_world(&world, 0);
}

/* What a planned fault kept from being given back is no leak; what was never tried is. */
TEST(refused_is_no_leak) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr addr = alloc(device, PAGE);
    struct mapped made = map_range(device, GRANULE, 1);
    uint64_t loose;
    assert_ok(device->vmm->create(device, GRANULE, &loose));
    alloc(device, PAGE);
    plan(&world, VRAM_SIM_ANY, 1, true, 5);
    assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(device->vmm->unmap(device, made.addr, GRANULE), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(device->vmm->release(device, loose, GRANULE), VRAM_ERR_HOST_MEMORY);
    device->ops->close(device);
    expect_violation(&world, 1, "never given back");
    stop_world(&world);
}

/* ---------------------------------------------------------------------------- lies */

TEST(lies) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr mine = alloc(device, PAGE), addr = 1;
    uint64_t handle = 1;
    plan_lie(&world, VRAM_SIM_ALLOC, VRAM_SIM_LIE_NULL);
    assert_ok(device->ops->alloc(device, PAGE, &addr));
    assert_int_equal(addr, 0);
    plan_lie(&world, VRAM_SIM_RESERVE, VRAM_SIM_LIE_MISALIGNED);
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &addr));
    assert_int_not_equal(addr % PAGE, 0);
    assert_ok(device->vmm->unreserve(device, addr, GRANULE)); /* a kindness, once */
    assert_int_equal(device->vmm->unreserve(device, addr, GRANULE), VRAM_ERR_INVALID);
    plan_lie(&world, VRAM_SIM_PINNED_ALLOC, VRAM_SIM_LIE_OVERLAP);
    assert_ok(device->pinned->alloc(device, PAGE, &addr));
    assert_int_equal(addr, mine);
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_OVERLAP);
    assert_ok(device->vmm->create(device, GRANULE, &handle)); /* nothing to overlap: the truth */
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_OVERLAP);
    uint64_t same = 0;
    assert_ok(device->vmm->create(device, GRANULE, &same));
    assert_int_equal(same, handle);
    plan_lie(&world, VRAM_SIM_CREATE, VRAM_SIM_LIE_NULL);
    assert_ok(device->vmm->create(device, GRANULE, &same));
    assert_int_equal(same, 0);
    /* Any call that can lie; those that cannot do not count. */
    plan_lie(&world, VRAM_SIM_ANY, VRAM_SIM_LIE_MISALIGNED);
    vram_value free, total;
    assert_ok(device->ops->memory_info(device, &free, &total));
    assert_ok(device->managed->alloc(device, PAGE, &addr));
    assert_int_not_equal(addr % PAGE, 0);
    assert_int_equal(state_of(&world).faults, 6);
    assert_int_equal(state_of(&world).live_bytes, PAGE + GRANULE); /* lies take nothing */
    plan_none(&world);
    assert_ok(device->vmm->release(device, handle, GRANULE));
    assert_ok(device->ops->free(device, mine, PAGE));
    close_world(&world, 1);
}

/* --------------------------------------------------------------------------- loss */

/* Lost at call 1, 2, 3 ...: everything can still be given back, without a call. */
TEST(lost_at_every_call) {
    for (unsigned i = 0; i < WORLDS * 2; i++) {
        bool lost = true;
        for (uint64_t nth = 1; lost; nth++) {
            char text[160];
            struct run run;
            snprintf(text, sizeof text, "%s,lose=%llu%s", worlds[i % WORLDS],
                     (unsigned long long)nth, i / WORLDS ? ":1" : "");
            vram_status status = scenario(&run, text);
            struct vr_sim *sim = run.world.backend.impl;
            lost = sim->gpus[0].lost || sim->gpus[1].lost;
            assert_true(status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST);
            assert_true(i < WORLDS || !sim->gpus[0].lost);
            end_run(&run);
        }
    }
}

TEST(lost_is_lost) {
    struct world world;
    vram_addr more = 0;
    uint32_t back = 0;
    open_world(&world, "devices=2,lag=100");
    assert_ok(open_device(&world, 1, &world.second));
    struct vr_device *device = &world.device, *second = &world.second;
    struct vr_queue queue = create_queue(device), other = create_queue(second);
    vram_addr addr = alloc(device, PAGE);
    assert_ok(device->queue_ops->fill(&queue, addr, 5, 4, PAGE));
    assert_ok(device->queue_ops->download(&queue, &back, addr, 4));
    signal_queue(&queue, 1);
    assert_ok(second->queue_ops->after(&other, &queue, 1));
    signal_queue(&other, 1);
    plan(&world, VRAM_SIM_ALLOC, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(device->ops->alloc(device, PAGE, &more), VRAM_ERR_DEVICE_LOST);
    assert_true(strstr(vram_error_get()->text, "lost at call") != NULL);
    /* Its work vanished; who waited for it goes on; the other device is well. */
    wait_queue(&other, 1);
    assert_int_equal(back, 0);
    assert_int_equal(word_of(&queue), 0);
    assert_ok(second->queue_ops->after(&other, &queue, 1));
    destroy_queue(&other);
    /* This thread knows: it must not call again. */
    expect_violations(&world, 0);
    assert_int_equal(device->ops->alloc(device, PAGE, &more), VRAM_ERR_DEVICE_LOST);
    expect_violation(&world, 1, "known to be lost");
    uint64_t calls = state_of(&world).calls;
    vr_store(&device->lost, true, VR_RELEASE);
    assert_int_equal(device->ops->free(device, addr + 1, PAGE), VRAM_ERR_INVALID);
    expect_violations(&world, 2);
    assert_ok(device->ops->free(device, addr, PAGE));
    device->queue_ops->destroy(&queue);
    assert_int_equal(state_of(&world).calls, calls);
    device->ops->close(device);
    assert_int_equal(open_device(&world, 0, device), VRAM_ERR_DEVICE_LOST);
    second->ops->close(second);
    expect_violations(&world, 2);
    stop_world(&world);
}

static void call_once(struct vr_device *device) {
    vram_value free, total;
    assert_int_equal(device->ops->memory_info(device, &free, &total), VRAM_ERR_DEVICE_LOST);
}

static vr_atomic_u32 callers;

/* Stays until all have called, so that each is a thread of its own. */
static void caller(void *argument) {
    call_once(argument);
    vr_fetch_add(&callers, 1, VR_ACQ_REL);
    while (vr_load(&callers, VR_ACQUIRE) < VR_SIM_THREADS_MAX + 4) {
        vr_os_yield();
    }
}

/* Other threads may have looked just before the first was told: each may call once. */
TEST(every_thread_is_told) {
    struct world world;
    struct vr_thread threads[VR_SIM_THREADS_MAX + 4];
    open_world(&world, "lose=2");
    call_once(&world.device);
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX + 4; i++) {
        assert_ok(vr_os_thread_start(&threads[i], "caller", caller, &world.device));
    }
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX + 4; i++) {
        vr_os_thread_join(&threads[i]);
    }
    expect_violations(&world, 0);
    call_once(&world.device);
    expect_violation(&world, 1, "known to be lost");
    vr_store(&world.device.lost, true, VR_RELEASE);
    close_world(&world, 1);
}
