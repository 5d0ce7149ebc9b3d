/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_world.h: what the tests of the host backend share. Its tables are driven directly, with
 * objects made by hand as src/device makes them. Every test opens a world of its own and ends with
 * nothing held and no block of bookkeeping left.
 */
#ifndef TEST_HOST_WORLD_H
#define TEST_HOST_WORLD_H

#include "backend/host/host_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "rig/rig.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PAGE     ((uint64_t)vr_os_page_bytes())
#define GRANULE  VR_HOST_VMM_GRANULE
#define FOR_EVER UINT64_C(10000000000) /* ns: longer than anything here takes */

/* ------------------------------------------------------------------- world */

struct world {
    struct vr_backend backend;
    struct vr_device device;
    uint64_t blocks_before;
};

static inline void open_device(struct vr_backend *backend, struct vr_device *device) {
    *device = (struct vr_device){.backend = backend, .info.backend = "host"};
    assert_int_equal(backend->ops->describe(backend, 0, &device->info), VRAM_OK);
    assert_int_equal(backend->ops->device_open(device), VRAM_OK);
}

static inline void open_world(struct world *world) {
    *world = (struct world){.backend.ops = &vr_host_backend};
    world->blocks_before = vr_mem_live_blocks();
    assert_int_equal(world->backend.ops->start(&world->backend, NULL), VRAM_OK);
    assert_int_equal(world->backend.ops->count(&world->backend), 1);
    open_device(&world->backend, &world->device);
}

static inline uint64_t held_by(const struct world *world) {
    struct vr_host *host = world->backend.impl;
    return vr_load(&host->held, VR_RELAXED);
}

static inline void close_world(struct world *world) {
    assert_int_equal(held_by(world), 0);
    world->device.ops->close(&world->device);
    world->backend.ops->stop(&world->backend);
    assert_null(world->backend.impl);
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
}

static inline int setup(void) {
    static struct world world;
    open_world(&world);
    vram_error_clear();
    rig_state = &world;
    return 0;
}

static inline int teardown(void) {
    vr_mem_fail_at(0, false);
    vr_os_fail_at(0, false, 0);
    close_world(rig_state);
    assert_int_equal(vram_option_set("host_memory", NULL), VRAM_OK);
    return 0;
}

/* A world whose device has 8 MiB. */
static inline int setup_limited(void) {
    assert_int_equal(vram_option_set("host_memory", "8M"), VRAM_OK);
    return setup();
}

/* Whether the host may read the byte at `addr`, asked of the kernel, so that no handler is needed
   for the case that it may not. */
static inline bool readable(vram_addr addr) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    ssize_t wrote = write(ends[1], vr_host_pointer(addr), 1);
    assert_true(wrote == 1 || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return wrote == 1;
}

/* Tests of what this machine refuses (see host_backend.c) cannot run on it. */
#define NEEDS(group)                                                                               \
    if (!(group)) {                                                                                \
        skip();                                                                                    \
    }

static inline void assert_host_error(vram_status status, const char *operation) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "host");
    assert_string_equal(error->operation, operation);
    assert_true(error->text[0] != 0);
}

/* ------------------------------------------------------------------ queues */

static inline void make_queue(struct world *world, struct vr_queue *queue) {
    *queue = (struct vr_queue){.device = &world->device};
    assert_int_equal(world->device.queue_ops->create(queue, NULL), VRAM_OK);
    assert_non_null(queue->word);
    assert_null(queue->native);
    assert_int_equal(vr_load(queue->word, VR_ACQUIRE), 0);
}

static inline bool passes(const struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    while (vr_load(queue->word, VR_ACQUIRE) < value) {
        if (vr_os_now() > end) {
            return false;
        }
        vr_os_yield();
    }
    return true;
}

static inline void signal_and_wait(struct vr_queue *queue, uint64_t value) {
    assert_int_equal(queue->device->queue_ops->signal(queue, value), VRAM_OK);
    assert_true(passes(queue, value));
}

/* A kernel that holds its queue up until the test opens it. Its argument is the gate's address. */
struct gate {
    vr_atomic_bool entered, open;
};

static inline void pass_gate(const vram_kernel_call *call) {
    struct gate *gate = vr_host_pointer(*(const vram_addr *)call->arguments[0]);
    vr_store(&gate->entered, true, VR_RELEASE);
    while (!vr_load(&gate->open, VR_ACQUIRE)) {
        vr_os_sleep(100000);
    }
}

static inline vram_status launch(struct vr_queue *queue, vram_kernel_fn *kernel,
                                 const void *argument, size_t bytes, uint32_t groups) {
    struct vram_kernel_source source = {.size = sizeof source,
                                        .format = VRAM_KERNEL_C,
                                        .code = (const void *)(uintptr_t)kernel,
                                        .entry = "test"};
    void *loaded;
    assert_int_equal(queue->device->kernel->load(queue->device, &source, &loaded), VRAM_OK);
    const void *const arguments[] = {argument};
    struct vram_launch options = {.size = sizeof options,
                                  .groups = {groups, 1, 1},
                                  .group_size = {1, 1, 1},
                                  .argument_count = 1,
                                  .arguments = arguments,
                                  .argument_bytes = &bytes};
    vram_status status = queue->device->kernel->launch(queue, loaded, &options);
    queue->device->kernel->unload(queue->device, loaded);
    return status;
}

static inline void shut(struct vr_queue *queue, struct gate *gate) {
    vram_addr addr = (vram_addr)(uintptr_t)gate;
    assert_int_equal(launch(queue, pass_gate, &addr, sizeof addr, 1), VRAM_OK);
    while (!vr_load(&gate->entered, VR_ACQUIRE)) {
        vr_os_yield();
    }
}

static inline void touch(const vram_kernel_call *call) {
    vr_fetch_add((vr_atomic_u32 *)vr_host_pointer(*(const vram_addr *)call->arguments[0]), 1,
                 VR_RELAXED);
}

struct opener {
    struct vr_thread thread;
    struct gate *gate;
};

static inline void open_later(void *argument) {
    struct opener *opener = argument;
    vr_os_sleep(5000000);
    vr_store(&opener->gate->open, true, VR_RELEASE);
}

#endif
