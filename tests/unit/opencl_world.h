/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_world.h: the tests' OpenCL driver behind the public calls. A test ends with nothing left:
 * no object of the driver's, no breach of OpenCL's rules.
 */
#ifndef TEST_OPENCL_WORLD_H
#define TEST_OPENCL_WORLD_H

#include "base/memory.h"
#include "base/os/os.h"
#include "byte_units.h"
#include "opencl/fake_opencl.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <string.h>

#define FOR_EVER UINT64_C(10000000000) /* ns: longer than anything here takes */

static const struct fake_opencl_control *fake;
static const struct opencl_control *plan;

/* A device with a queue. */
struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
};

static inline int begin(void) {
    const void *(*get)(void) = NULL;
    void *library = dlopen(FAKE_OPENCL_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&get = dlsym(library, "fake_opencl_control");
    fake = get();
    *(void **)&get = dlsym(library, "opencl_control");
    plan = get();
    fake->reset();
    return vram_option_set("opencl_library", FAKE_OPENCL_PATH);
}

static inline bool live_falls_to(uint64_t count) {
    for (int i = 0; i < 20000 && fake->live() > count; i++) {
        vr_os_sleep(50000); /* its own threads hold something for a moment */
    }
    return fake->live() <= count;
}

static inline int end(void) {
    const char *text = "";
    fake->hold(false);
    fake->settle();
    if (fake->violations(&text)) {
        fail_msg("OpenCL's rules were broken: %s", text);
    }
    fake->reset();
    plan->refuse(NULL, 0, 0, false);
    assert_ok(vram_option_set("opencl_library", NULL));
    assert_ok(vram_option_set("opencl_memory", NULL));
    assert_int_equal(vr_mem_live_blocks(), 0);
    return live_falls_to(0) ? 0 : -1;
}

/* What a lost device held stays with the driver: the next test begins with a clean count. */
static inline int end_lost(void) {
    (void)end();
    return 0;
}

/* Memory by "usm", "svm" or "buffer"; the settings of the fake are the test's. */
static inline void stage_open(struct stage *stage, const char *memory) {
    const vram_context_options options = {.size = sizeof options, .backends = "opencl"};
    assert_ok(vram_option_set("opencl_memory", memory));
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    vram_error_clear();
}

static inline void stage_close(struct stage *stage) {
    vram_context_destroy(stage->context);
}

static inline vram_addr take(struct stage *stage, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_device_alloc(stage->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

static inline void assert_opencl_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, "opencl");
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
}

#endif
