/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metal.c: the Metal backend on the tests' driver: what it refuses, kernels, and ends of work
 * that come in any order. Messages that give nothing are in tests/drivers.
 */
#include "backend/metal/metal_backend.h"
#include "base/handle.h"
#include "base/option.h"
#include "device/objects.h"
#include "fake/fake_metal.h"
#include "rig/rig.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static const struct fake_metal_control *control;

static const char saxpy_text[] =
    "#include <metal_stdlib>\n"
    "kernel void saxpy(device float *y [[buffer(0)]], device const float *x [[buffer(1)]],\n"
    "                  constant float &a [[buffer(2)]], constant ulong &count [[buffer(3)]],\n"
    "                  uint i [[thread_position_in_grid]]) {\n"
    "    if (i < count) { y[i] += a * x[i]; }\n"
    "}\n";

static vram_status context_try(vram_context **context) {
    vram_context_options options = {.size = sizeof options, .backends = "metal"};
    return vram_context_create(&options, context);
}

static int begin(void) {
    unsetenv("FAKE_METAL_UNORDERED");
    unsetenv("FAKE_METAL_OLD");
    unsetenv("FAKE_METAL_DELAY");
    control->plan(NULL, 0, 0, false);
    control->hold(false);
    return vram_option_set("metal_library", FAKE_METAL_PATH) == VRAM_OK ? 0 : -1;
}

static void assert_nothing_left(void) {
    const char *text = "";
    for (int i = 0; i < 2000 && (control->live() || vram_host_bytes()); i++) {
        usleep(
            /* its threads let go of queues on their own time, and we of what they used then */
            1000);
    }
    assert_int_equal(vram_host_bytes(), 0);
    assert_int_equal(control->live(), 0);
    if (control->violations(&text)) {
        fail_msg("against Metal's rules: %s", text);
    }
}

static int end(void) {
    control->plan(NULL, 0, 0, false);
    assert_nothing_left();
    vr_option_reset();
    return 0;
}

/* -------------------------------------------------------------- a whole life */

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_kernel *kernel;
    vram_pool *pool;
    vram_addr a, b, block, pinned;
};

/* Whatever came of it, all is given back. */
static void rig_end(struct rig *rig) {
    vram_kernel_destroy(rig->kernel);
    vram_pool_destroy(rig->pool);
    vram_queue_destroy(rig->queue);
    vram_queue_destroy(rig->other);
    if (rig->device) {
        vram_device_free(rig->device, rig->a);
        vram_device_free(rig->device, rig->b);
        vram_device_free(rig->device, rig->pinned);
    }
    vram_device_close(rig->device);
    vram_context_destroy(rig->context);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        vram_status tried = (call);                                                                \
        if (tried != VRAM_OK) {                                                                    \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

static vram_status rig_open(struct rig *rig) {
    TRY(context_try(&rig->context));
    TRY(vram_device_open(rig->context, 0, &rig->device));
    TRY(vram_queue_create(rig->device, NULL, &rig->queue));
    TRY(vram_queue_create(rig->device, NULL, &rig->other));
    TRY(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &rig->a));
    TRY(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &rig->b));
    TRY(vram_device_alloc(rig->device, 64 * KIB, VRAM_MEMORY_PINNED, &rig->pinned));
    TRY(vram_pool_create(rig->device, NULL, &rig->pool));
    return vram_alloc(rig->pool, 4 * KIB, rig->queue, &rig->block);
}

static vram_status rig_load(struct rig *rig) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_METAL,
                                 .code = saxpy_text,
                                 .code_bytes = sizeof saxpy_text - 1,
                                 .entry = "saxpy"};
    return vram_kernel_create(rig->device, &source, &rig->kernel);
}

enum { COUNT = 200 };

/* ----------------------------------------------------------------- refusals */

TEST(test_what_is_refused) {
    struct rig rig = {.context = NULL};
    vram_addr addr;
    assert_int_equal(rig_open(&rig), VRAM_OK);
    assert_int_equal(rig_load(&rig), VRAM_OK);
    vram_kernel *kernel = NULL;
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_METAL,
                                 .code = "this is no code",
                                 .code_bytes = 15,
                                 .entry = "saxpy"};
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "unknown type name"));
    source.code = saxpy_text;
    source.code_bytes = sizeof saxpy_text - 1;
    source.entry = "saxp";
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "no kernel that is called \"saxp\""));
    source.format = VRAM_KERNEL_PTX;
    assert_int_equal(vram_kernel_create(rig.device, &source, &kernel), VRAM_ERR_UNSUPPORTED);
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1025, 1, 1}};
    assert_int_equal(vram_queue_launch(rig.queue, rig.kernel, &launch), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "at most 1024 items"));
    /* Beyond the working set: refused at once, not when work fails. */
    vram_memory_info memory = {.size = sizeof memory};
    assert_int_equal(vram_memory_info_get(rig.device, &memory), VRAM_OK);
    uint64_t half = memory.free_bytes.value / 3 / MIB * MIB;
    vram_addr held[2];
    assert_int_equal(vram_device_alloc(rig.device, half, VRAM_MEMORY_DEVICE, &held[0]), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, half, VRAM_MEMORY_DEVICE, &held[1]), VRAM_OK);
    assert_int_equal(vram_device_alloc(rig.device, half + 64 * MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vram_device_free(rig.device, held[0]), VRAM_OK);
    assert_int_equal(vram_device_free(rig.device, held[1]), VRAM_OK);
    rig_end(&rig);
}

/* What vram_native says is what Metal's own calls would be given. */
TEST(test_native) {
    struct rig rig = {.context = NULL};
    vram_native_info native = {.size = sizeof native};
    assert_int_equal(rig_open(&rig), VRAM_OK);
    assert_int_equal(vram_native(rig.a + 100, &native), VRAM_OK);
    const struct fake_buffer *buffer = native.handle;
    assert_non_null(buffer);
    assert_int_equal(native.offset, 100);
    assert_true(native.device_address.known);
    assert_int_equal(native.device_address.value, (uintptr_t)buffer->contents + 100);
    assert_null(native.host_pointer);
    rig_end(&rig);
}

/* While the device does nothing, nothing passes, and nobody waits longer than asked. */
TEST(test_time) {
    struct rig rig = {.context = NULL};
    vram_point point;
    assert_int_equal(rig_open(&rig), VRAM_OK);
    control->hold(true);
    assert_int_equal(vram_queue_fill(rig.queue, rig.a, 7, 1, 64), VRAM_OK);
    assert_int_equal(vram_queue_mark(rig.queue, &point), VRAM_OK);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_point_wait(point, 2000000), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_NOT_READY);
    control->hold(false);
    assert_int_equal(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    assert_int_equal(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    rig_end(&rig);
}

/* The tables are given addresses that are nobody's, which src/device would find first. */
TEST(test_addresses_of_nobody) {
    struct rig rig = {.context = NULL};
    char bytes[16] = {0};
    vram_addr nobody = 16;
    assert_int_equal(rig_open(&rig), VRAM_OK);
    struct vr_queue_object *object = vr_handle_pin(VR_KIND_QUEUE, rig.queue);
    struct vr_queue *queue = &object->base;
    struct vr_device *device = queue->device;
    assert_int_equal(vr_metal_upload(queue, nobody, bytes, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_download(queue, bytes, nobody, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_copy(queue, nobody, rig.a, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_copy(queue, rig.a, nobody, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_fill(queue, nobody, 0, 4, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_memory_free(device, nobody, 16), VRAM_ERR_INVALID);
    assert_int_equal(vr_metal_memory_free(device, rig.a + 1, 16), VRAM_ERR_INVALID);
    assert_int_equal(device->pinned->free(device, nobody, 16), VRAM_ERR_INVALID);
    vr_leave(object);
    rig_end(&rig);
}

static int begin_file(void) {
    void *library = dlopen(FAKE_METAL_PATH, RTLD_NOW | RTLD_LOCAL);
    control = library ? dlsym(library, "fake_metal_control") : NULL;
    if (!control) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(begin, end)
