/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_world.h: what the tests of the Vulkan backend share. Its tables are driven directly, with
 * objects made by hand as src/device makes them, over lavapipe behind the shim of tests/vulkan.
 * Every test ends with nothing left: no block of bookkeeping, no object of the driver's.
 */
#ifndef TEST_VULKAN_WORLD_H
#define TEST_VULKAN_WORLD_H

#include "../examples/shaders/generated/saxpy_spirv.h"
#include "backend/vulkan/vulkan_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "rig/rig.h"
#include "vulkan/shim_vulkan.h"

#include <dlfcn.h>
#include <string.h>

extern const struct vr_backend_ops vr_vulkan_backend;

#define GRANULE  VR_VULKAN_GRANULE
#define PAGE     ((uint64_t)vr_os_page_bytes())
#define FOR_EVER UINT64_C(30000000000) /* ns: longer than anything here takes */

/* Words that the device writes are a race of threads where the device is the CPU. */
#if defined(__SANITIZE_THREAD__)
#define AS_GPU false
#else
#define AS_GPU true
#endif

static struct shim_vulkan_control *shim;

static inline void shim_open(void) {
    shim_vulkan_control_fn *get = NULL;
    void *library = dlopen(SHIM_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "shim_vulkan_control");
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    shim = get();
    shim->reset();
    assert_int_equal(vram_option_set("vulkan_library", SHIM_VULKAN_PATH), VRAM_OK);
}

/* ------------------------------------------------------------------- world */

struct world {
    struct vr_backend backend;
    struct vr_device device;
    struct vr_queue queue;
    uint64_t blocks_before;
};

static inline vram_status start_backend(struct vr_backend *backend,
                                        const struct vram_context_options *options) {
    *backend = (struct vr_backend){.ops = &vr_vulkan_backend};
    return backend->ops->start(backend, options);
}

static inline vram_status open_device(struct vr_backend *backend, struct vr_device *device) {
    *device = (struct vr_device){.backend = backend, .info.backend = "vulkan"};
    vram_status status = backend->ops->describe(backend, 0, &device->info);
    return status == VRAM_OK ? backend->ops->device_open(device) : status;
}

/* Starts with what the shim pretends; the backend must be absent, and its reason say `why`. */
static inline void assert_absent(vram_status status, const char *why) {
    struct vr_backend backend;
    uint64_t blocks = vr_mem_live_blocks();
    assert_int_equal(start_backend(&backend, NULL), status);
    assert_null(backend.impl);
    if (!strstr(vram_error_get()->text, why)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, why);
    }
    assert_int_equal(vr_mem_live_blocks(), blocks);
    assert_int_equal(shim->live(), 0);
    shim->reset();
}

static inline void make_queue(struct vr_device *device, struct vr_queue *queue) {
    *queue = (struct vr_queue){.device = device};
    assert_int_equal(device->queue_ops->create(queue, NULL), VRAM_OK);
}

/* Opens backend, device and queue, with whatever the shim was told before. */
static inline void world_open(struct world *world) {
    world->blocks_before = vr_mem_live_blocks();
    assert_int_equal(start_backend(&world->backend, NULL), VRAM_OK);
    assert_int_equal(open_device(&world->backend, &world->device), VRAM_OK);
    make_queue(&world->device, &world->queue);
    vram_error_clear();
}

static inline void world_close(struct world *world) {
    shim->refuse(NULL, 0, 0, false);
    bool lost = vr_load(&world->device.lost, VR_ACQUIRE);
    uint64_t before = shim->calls(NULL);
    if (world->queue.impl) {
        world->device.queue_ops->destroy(&world->queue);
    }
    world->device.ops->close(&world->device);
    assert_true(!lost || shim->calls(NULL) <= before + 1); /* a thread may be inside one */
    world->backend.ops->stop(&world->backend);
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
    assert_true(lost || shim->live() == 0);
    shim->reset();
}

static inline uint64_t word_of(const struct vr_queue *queue) {
    return vr_load(queue->word, VR_ACQUIRE);
}

/* Waits as src/device does: by the word, asking the driver now and then. */
static inline vram_status wait_for(struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    while (word_of(queue) < value) {
        vram_status status = queue->device->queue_ops->poll(queue);
        if (status != VRAM_OK && status != VRAM_ERR_NOT_READY && word_of(queue) < value) {
            return status;
        }
        if (vr_os_now() > end) {
            return VRAM_ERR_TIMEOUT;
        }
        vr_os_yield();
    }
    return VRAM_OK;
}

static inline vram_status finish(struct vr_queue *queue) {
    uint64_t value = word_of(queue) + 1;
    vram_status status = queue->device->queue_ops->signal(queue, value);
    return status == VRAM_OK ? wait_for(queue, value) : status;
}

static inline void assert_vulkan_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "vulkan");
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
    assert_true(error->text[0] != 0);
}

/* saxpy on two blocks of 64 floats each; y and x as src/device hands addresses over. */
static inline vram_status launch_saxpy(struct vr_queue *queue, void *kernel, vram_addr y,
                                       vram_addr x, float a, uint32_t count) {
    struct vr_native natives[2];
    const struct vr_handle_ops *handles = queue->device->handles;
    vram_status status = handles->native(queue->device, y, 0, &natives[0]);
    if (status == VRAM_OK) {
        status = handles->native(queue->device, x, 0, &natives[1]);
    }
    if (status != VRAM_OK) {
        return status;
    }
    const struct vram_launch launch = {
        .size = sizeof launch,
        .groups = {(count + 31) / 32, 1, 1},
        .group_size = {32, 1, 1},
        .argument_count = 4,
        .arguments = (const void *[]){&natives[0], &natives[1], &a, &count},
        .argument_bytes = (size_t[]){sizeof natives[0], sizeof natives[1], 4, 4},
        .address_mask = 3};
    return queue->device->kernel->launch(queue, kernel, &launch);
}

static const struct vram_kernel_source saxpy_source = {.size = sizeof saxpy_source,
                                                       .format = VRAM_KERNEL_SPIRV,
                                                       .code = saxpy_spirv,
                                                       .code_bytes = sizeof saxpy_spirv,
                                                       .entry = "main"};

#endif
