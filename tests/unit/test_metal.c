/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metal.c: the Metal backend on the tests' driver: what it does not find, what it refuses,
 * kernels, ends of work that come in any order, every code of a failed command buffer, and every
 * message that may give nothing, at every place where it is sent.
 */
#include "backend/metal/metal_backend.h"
#include "base/handle.h"
#include "base/option.h"
#include "device/objects.h"
#include "fake/fake_metal.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

static int begin(void **state) {
    (void)state;
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

static int end(void **state) {
    (void)state;
    control->plan(NULL, 0, 0, false);
    assert_nothing_left();
    vr_option_reset();
    return 0;
}

/* ------------------------------------------------------------------ absence */

static void reason(char text[VRAM_ERROR_TEXT_MAX]) {
    vram_context *context;
    vram_backend_info info = {.size = sizeof info};
    assert_int_equal(context_try(&context), VRAM_OK);
    for (uint32_t i = 0; i < vram_backend_count(context); i++) {
        assert_int_equal(vram_backend_info_get(context, i, &info), VRAM_OK);
        if (strcmp(info.name, "metal") == 0) {
            assert_false(info.present);
            memcpy(text, info.reason, VRAM_ERROR_TEXT_MAX);
        }
    }
    vram_context_destroy(context);
}

static void test_absence_has_a_reason(void **state) {
    (void)state;
    char text[VRAM_ERROR_TEXT_MAX] = "";
    assert_int_equal(vram_option_set("metal_library", NULL), VRAM_OK);
    reason(text);
    assert_non_null(strstr(text, "it is a part of macOS"));
    assert_int_equal(vram_option_set("metal_library", "/nonexistent/Metal"), VRAM_OK);
    reason(text);
    assert_non_null(strstr(text, "/nonexistent/Metal"));
    assert_int_equal(vram_option_set("metal_library", "libm.so.6"), VRAM_OK);
    reason(text);
    assert_non_null(strstr(text, "objc_getClass"));
    assert_int_equal(vram_option_set("metal_library", FAKE_METAL_PATH), VRAM_OK);
    control->plan("MTLCopyAllDevices", 1, 0, false);
    reason(text);
    assert_non_null(strstr(text, "MTLCopyAllDevices"));
    control->plan("count", 1, 0, false);
    reason(text);
    assert_non_null(strstr(text, "no device"));
    control->plan("sel_registerName", 7, 0, false);
    reason(text);
    assert_non_null(strstr(text, "sel_registerName"));
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

static vram_status rig_launch(struct rig *rig, vram_addr y, vram_addr x, float a, uint64_t count) {
    const void *arguments[] = {&y, &x, &a, &count};
    const size_t bytes[] = {sizeof y, sizeof x, sizeof a, sizeof count};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {4, 1, 1},
                          .group_size = {64, 1, 1},
                          .argument_count = 4,
                          .arguments = arguments,
                          .argument_bytes = bytes,
                          .address_mask = 3};
    return vram_queue_launch(rig->queue, rig->kernel, &launch);
}

enum { COUNT = 200 };

/* Everything once: odd copies and fills, pinned memory both ways, two queues, a kernel on a
   block. */
static vram_status rig_work(struct rig *rig, float result[COUNT], char odd[8]) {
    float x[COUNT], *pinned = (float *)(uintptr_t)rig->pinned;
    vram_point point;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        pinned[i] = 1.0f;
    }
    TRY(vram_queue_upload(rig->queue, rig->a + 1, x, sizeof x)); /* not in whole words */
    TRY(vram_queue_copy(rig->queue, rig->b, rig->a + 1, sizeof x));
    TRY(vram_queue_upload(rig->queue, rig->block, pinned, sizeof x));
    TRY(rig_launch(rig, rig->block, rig->b, 2.0f, COUNT));
    TRY(vram_queue_fill(rig->queue, rig->a, 0xab, 1, 64));
    TRY(vram_queue_fill(rig->queue, rig->a + 2, 0x1234, 2, 4));
    TRY(vram_queue_fill(rig->queue, rig->a + 4, 0x01020304, 4, 8));
    TRY(vram_queue_mark(rig->queue, &point));
    TRY(vram_queue_after(rig->other, point));
    TRY(vram_queue_download(rig->other, odd, rig->a + 1, 7));
    TRY(vram_queue_download(rig->other, pinned, rig->block, sizeof x));
    TRY(vram_queue_mark(rig->other, &point));
    TRY(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
    memcpy(result, pinned, sizeof x);
    return VRAM_OK;
}

static vram_status rig_live(struct rig *rig, float result[COUNT], char odd[8]) {
    TRY(rig_open(rig));
    TRY(rig_load(rig));
    return rig_work(rig, result, odd);
}

static void assert_right(const float result[COUNT], const char odd[8]) {
    static const char expected[7] = {'\xab', 0x34, 0x12, 0x04, 0x03, 0x02, 0x01};
    for (int i = 0; i < COUNT; i++) {
        assert_true(result[i] == 2.0f * (float)i + 1.0f);
    }
    assert_memory_equal(odd, expected, sizeof expected);
}

static void test_a_whole_life(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct rig rig = {.context = NULL};
        float result[COUNT];
        char odd[8];
        setenv("FAKE_METAL_UNORDERED", round % 2 ? "1" : "0", 1);
        setenv("FAKE_METAL_OLD", round % 3 ? "1" : "0", 1);
        assert_int_equal(rig_live(&rig, result, odd), VRAM_OK);
        assert_right(result, odd);
        rig_end(&rig);
        assert_nothing_left();
    }
}

/* ------------------------------------------------------------------- faults */

/* The n-th message that may give nothing does, for every n: a status, nothing lost, nothing
   left. */
static void test_every_message_may_give_nothing(void **state) {
    (void)state;
    uint64_t places = 0;
    for (uint64_t nth = 1;; nth++) {
        struct rig rig = {.context = NULL};
        float result[COUNT];
        char odd[8];
        control->plan("any", nth, VR_MTL_INTERNAL, false);
        vram_status status = rig_live(&rig, result, odd);
        uint64_t struck = control->struck();
        control->plan(NULL, 0, 0, false);
        if (status ==
            VRAM_OK) { /* the first queue failed, and says so; or it can be done without */
            status = vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT);
        }
        if (status == VRAM_OK) {
            assert_right(result, odd);
        } else {
            assert_string_not_equal(vram_error_get()->text, "");
        }
        rig_end(&rig);
        assert_nothing_left();
        if (!struck) {
            assert_int_equal(status, VRAM_OK);
            break;
        }
        places++;
    }
    print_message("%llu places\n", (unsigned long long)places);
    assert_true(places > 60);
}

/* Every code of a command buffer, documented or not, spoils its queue and says so. */
static void test_every_code_of_a_command_buffer(void **state) {
    (void)state;
    static const int codes[] = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 5, 99, -1};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct rig rig = {.context = NULL};
        vram_point point;
        assert_int_equal(rig_open(&rig), VRAM_OK);
        control->plan("commit", 1, codes[i], false);
        assert_int_equal(vram_queue_fill(rig.queue, rig.a, 0, 1, 64), VRAM_OK);
        vram_status status = vram_queue_mark(rig.queue, &point);
        if (status == VRAM_OK) {
            status = vram_point_wait(point, VRAM_TIMEOUT_DEFAULT);
        }
        vram_status expected = codes[i] == 4 || codes[i] == 11 ? VRAM_ERR_DEVICE_LOST
                               : codes[i] == 8                 ? VRAM_ERR_DEVICE_MEMORY
                               : codes[i] == 7                 ? VRAM_ERR_UNSUPPORTED
                                                               : VRAM_ERR_BACKEND;
        assert_int_equal(status, expected);
        assert_int_equal(vram_error_get()->native_code, codes[i]);
        rig_end(&rig);
        assert_nothing_left();
    }
}

/* ----------------------------------------------------------------- refusals */

static void test_what_is_refused(void **state) {
    (void)state;
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
static void test_native(void **state) {
    (void)state;
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
static void test_time(void **state) {
    (void)state;
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
static void test_addresses_of_nobody(void **state) {
    struct rig rig = {.context = NULL};
    char bytes[16] = {0};
    vram_addr nobody = 16;
    (void)state;
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

int main(void) {
    void *library = dlopen(FAKE_METAL_PATH, RTLD_NOW | RTLD_LOCAL);
    control = library ? dlsym(library, "fake_metal_control") : NULL;
    if (!control) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_absence_has_a_reason, begin, end),
        cmocka_unit_test_setup_teardown(test_a_whole_life, begin, end),
        cmocka_unit_test_setup_teardown(test_every_message_may_give_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_every_code_of_a_command_buffer, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_native, begin, end),
        cmocka_unit_test_setup_teardown(test_addresses_of_nobody, begin, end),
        cmocka_unit_test_setup_teardown(test_time, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
