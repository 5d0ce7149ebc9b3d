/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_world.h: lavapipe behind the shim of tests/vulkan, and the public calls before it. A test
 * ends with nothing left: no block of bookkeeping, no object of the driver's.
 */
#ifndef TEST_VULKAN_WORLD_H
#define TEST_VULKAN_WORLD_H

#include "../examples/shaders/generated/saxpy_spirv.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"
#include "vulkan/shim_vulkan.h"

#include "backend/vulkan/vulkan_api.h"

#include <dlfcn.h>
#include <string.h>

#define PAGE     ((uint64_t)vr_os_page_bytes())
#define FOR_EVER UINT64_C(30000000000) /* ns: longer than anything here takes */

/* Words that the device writes are a race of threads where the device is the CPU. */
#if defined(__SANITIZE_THREAD__)
#define AS_GPU false
#else
#define AS_GPU true
#endif

static struct shim_vulkan_control *shim;

/* A device with a queue. */
static struct {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    bool lost; /* what the driver has of it stays */
} stage;

static inline int shim_open(void) {
    shim_vulkan_control_fn *get = NULL;
    void *library = dlopen(SHIM_VULKAN_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "shim_vulkan_control");
    memcpy(&get, &found, sizeof get);
    shim = get();
    shim->reset();
    return vram_option_set("vulkan_library", SHIM_VULKAN_PATH);
}

/* With whatever the shim was told before. */
static inline void stage_open(void) {
    const vram_context_options options = {.size = sizeof options, .backends = "vulkan"};
    assert_ok(vram_context_create(&options, &stage.context));
    assert_ok(vram_device_open(stage.context, 0, &stage.device));
    assert_ok(vram_queue_create(stage.device, NULL, &stage.queue));
    vram_error_clear();
}

static inline int stage_end(void) {
    shim->refuse(NULL, 0, 0, false);
    vram_context_destroy(stage.context);
    assert_int_equal(vr_mem_live_blocks(), 0);
    assert_true(stage.lost || shim->live() == 0);
    memset(&stage, 0, sizeof stage);
    shim->reset();
    return 0;
}

static inline vram_status alloc(uint64_t bytes, vram_addr *addr) {
    return vram_device_alloc(stage.device, bytes, VRAM_MEMORY_DEVICE, addr);
}

static inline vram_addr take(uint64_t bytes) {
    vram_addr addr = 0;
    assert_ok(alloc(bytes, &addr));
    return addr;
}

static inline void give(vram_addr addr) {
    assert_ok(vram_device_free(stage.device, addr));
}

static inline void finish(void) {
    assert_ok(vram_queue_wait(stage.queue, FOR_EVER));
}

static inline void assert_vulkan_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "vulkan");
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
    assert_true(error->text[0] != 0);
}

static const struct vram_kernel_source saxpy_source = {.size = sizeof saxpy_source,
                                                       .format = VRAM_KERNEL_SPIRV,
                                                       .code = saxpy_spirv,
                                                       .code_bytes = sizeof saxpy_spirv,
                                                       .entry = "main"};

#endif
