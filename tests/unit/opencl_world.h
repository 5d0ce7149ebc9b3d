/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_world.h: what the tests of the OpenCL backend share. Its tables are driven directly, with
 * objects made by hand as src/device makes them, over the driver of tests/opencl. Every test ends
 * with nothing left: no block of bookkeeping, no object of the driver's, no breach of OpenCL's
 * rules.
 */
#ifndef TEST_OPENCL_WORLD_H
#define TEST_OPENCL_WORLD_H

#include "backend/opencl/opencl_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "opencl/fake_opencl.h"
#include "rig/rig.h"
#include "vram/opencl.h"

#include <dlfcn.h>
#include <string.h>

extern const struct vr_backend_ops vr_opencl_backend;

#define FOR_EVER UINT64_C(10000000000) /* ns: longer than anything here takes */
#define GRANULE  (64 * VR_KIB)

static const struct fake_opencl_control *fake;
static const struct opencl_control *plan;

struct world {
    struct vr_backend backend;
    struct vr_device device;
    uint64_t blocks_before;
};

static inline void *symbol_of(void *library, const char *name) {
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

/* The control tables of a fake. The handle is kept: the backend opens the same library again. */
static inline void fake_load(const char *path) {
    const struct fake_opencl_control *(*get)(void) = NULL;
    const struct opencl_control *(*get_plan)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = symbol_of(library, "fake_opencl_control");
    memcpy(&get, &found, sizeof get);
    found = symbol_of(library, "opencl_control");
    memcpy(&get_plan, &found, sizeof get_plan);
    fake = get();
    plan = get_plan();
}

/* Waits for what the fake's own threads still hold. */
static inline bool live_falls_to(uint64_t count) {
    uint64_t end = vr_os_now() + FOR_EVER / 10;
    while (fake->live() > count && vr_os_now() < end) {
        vr_os_sleep(50000);
    }
    return fake->live() <= count;
}

static inline void assert_rules_kept(void) {
    const char *text = "";
    if (fake->violations(&text)) {
        fail_msg("OpenCL's rules were broken: %s", text);
    }
}

static inline vram_status start_at(const char *path, struct vr_backend *backend) {
    *backend = (struct vr_backend){.ops = &vr_opencl_backend};
    assert_int_equal(vram_option_set("opencl_library", path), VRAM_OK);
    return backend->ops->start(backend, NULL);
}

static inline void open_device(struct vr_backend *backend, uint32_t index,
                               struct vr_device *device) {
    *device = (struct vr_device){.backend = backend, .index = index, .info.backend = "opencl"};
    assert_int_equal(backend->ops->describe(backend, index, &device->info), VRAM_OK);
    assert_int_equal(backend->ops->device_open(device), VRAM_OK);
}

/* Memory by "usm", "svm" or "buffer"; the settings of the fake are the test's. */
static inline void begin(struct world *world, const char *memory) {
    world->blocks_before = vr_mem_live_blocks();
    assert_int_equal(vram_option_set("opencl_memory", memory), VRAM_OK);
    assert_int_equal(start_at(FAKE_OPENCL_PATH, &world->backend), VRAM_OK);
    open_device(&world->backend, 0, &world->device);
    vram_error_clear();
}

static inline void end(struct world *world) {
    bool lost = vr_load(&world->device.lost, VR_ACQUIRE);
    fake->settle(); /* callbacks call the driver */
    uint64_t calls = plan->calls("any");
    world->device.ops->close(&world->device);
    assert_null(world->device.impl);
    assert_true(!lost || plan->calls("any") == calls);
    world->backend.ops->stop(&world->backend);
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
    assert_rules_kept();
}

static inline int setup(void) {
    if (!fake) {
        fake_load(FAKE_OPENCL_PATH);
    }
    fake->reset();
    return 0;
}

static inline int teardown(void) {
    vr_mem_fail_at(0, false);
    vr_os_fail_at(0, false, 0);
    fake->reset();
    assert_int_equal(vram_option_set("opencl_library", NULL), VRAM_OK);
    assert_int_equal(vram_option_set("opencl_memory", NULL), VRAM_OK);
    return live_falls_to(0) ? 0 : -1;
}

static inline void assert_opencl_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "opencl");
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
    assert_true(error->text[0] != 0);
}

/* ------------------------------------------------------------------ queues */

static inline void make_queue(struct vr_device *device, struct vr_queue *queue) {
    static const struct vram_queue_options options = {.size = sizeof options};
    *queue = (struct vr_queue){.device = device};
    assert_int_equal(device->queue_ops->create(queue, &options), VRAM_OK);
}

static inline vram_status adopt(struct vr_device *device, void *native, struct vr_queue *queue) {
    *queue = (struct vr_queue){.device = device, .native = native, .adopted = true};
    return device->queue_ops->adopt(queue);
}

static inline void end_queue(struct vr_queue *queue) {
    queue->device->queue_ops->destroy(queue);
    assert_null(queue->impl);
}

static inline bool passes(const struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    while (vr_load(queue->word, VR_ACQUIRE) < value && vr_os_now() < end) {
        vr_os_sleep(20000);
    }
    return vr_load(queue->word, VR_ACQUIRE) >= value;
}

/* Submits the next value and waits until it has passed. */
static inline void settle(struct vr_queue *queue) {
    uint64_t value = vr_load(queue->word, VR_ACQUIRE) + 1;
    assert_int_equal(queue->device->queue_ops->signal(queue, value), VRAM_OK);
    assert_true(passes(queue, value));
}

static inline vram_addr take_memory(struct vr_device *device, uint64_t bytes) {
    vram_addr addr = 0;
    assert_int_equal(device->ops->alloc(device, bytes, &addr), VRAM_OK);
    assert_true(addr && addr % device->info.alloc_granule.value == 0);
    return addr;
}

static inline void give_memory(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    assert_int_equal(device->ops->free(device, addr, bytes), VRAM_OK);
}

#endif
