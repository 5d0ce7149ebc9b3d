/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metal.c: the Metal backend on the tests' driver: kernels that it refuses, a full device, and
 * what vram_native tells. Messages that give nothing are in tests/drivers; order and points, with
 * ends in any order, in the suite of `vram check`.
 */
#include "byte_units.h"
#include "fake/fake_metal.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct fake_metal_control *control;
static vram_context *context;
static vram_device *device;
static vram_queue *queue;

static int begin(void) {
    const vram_context_options options = {.size = sizeof options, .backends = "metal"};
    void *library = dlopen(FAKE_METAL_PATH, RTLD_NOW | RTLD_LOCAL);
    control = library ? dlsym(library, "fake_metal_control") : NULL;
    assert_non_null(control);
    unsetenv("FAKE_METAL_UNORDERED");
    unsetenv("FAKE_METAL_OLD");
    unsetenv("FAKE_METAL_DELAY");
    control->plan(NULL, 0, 0, false);
    control->hold(false);
    assert_ok(vram_option_set("metal_library", FAKE_METAL_PATH));
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    return vram_queue_create(device, NULL, &queue);
}

/* Its threads let go of queues on their own time, and we of what they used then. */
static int end(void) {
    const char *text = "";
    vram_context_destroy(context);
    for (int i = 0; i < 2000 && (control->live() || vram_host_bytes()); i++) {
        usleep(1000);
    }
    assert_int_equal(control->live(), 0);
    assert_int_equal(vram_host_bytes(), 0);
    if (control->violations(&text)) {
        fail_msg("against Metal's rules: %s", text);
    }
    return vram_option_set("metal_library", NULL);
}

TEST(kernels_are_looked_at) {
    static const char saxpy[] =
        "#include <metal_stdlib>\n"
        "kernel void saxpy(device float *y [[buffer(0)]], device const float *x [[buffer(1)]],\n"
        "                  constant float &a [[buffer(2)]], constant ulong &count [[buffer(3)]],\n"
        "                  uint i [[thread_position_in_grid]]) {\n"
        "    if (i < count) { y[i] += a * x[i]; }\n"
        "}\n";
    static const struct {
        vram_kernel_format format;
        const char *code, *entry;
        vram_status status;
        const char *why;
    } rows[] = {
        {VRAM_KERNEL_METAL, "this is no code", "saxpy", VRAM_ERR_INVALID, "unknown type name"},
        {VRAM_KERNEL_METAL, saxpy, "saxp", VRAM_ERR_INVALID, "no kernel that is called \"saxp\""},
        {VRAM_KERNEL_PTX, saxpy, "saxpy", VRAM_ERR_UNSUPPORTED, ""},
        {VRAM_KERNEL_METAL, saxpy, "saxpy", VRAM_OK, ""},
    };
    vram_kernel *kernel = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vram_kernel_source source = {.size = sizeof source,
                                           .format = rows[i].format,
                                           .code = rows[i].code,
                                           .code_bytes = strlen(rows[i].code),
                                           .entry = rows[i].entry};
        assert_int_equal(vram_kernel_create(device, &source, &kernel), rows[i].status);
        assert_non_null(strstr(vram_error_get()->text, rows[i].why));
    }
    const vram_launch launch = {
        .size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1025, 1, 1}};
    assert_int_equal(vram_queue_launch(queue, kernel, &launch), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "at most 1024 items"));
}

/* Beyond the working set: refused at once, not when work fails. */
TEST(a_full_device_says_so) {
    vram_memory_info memory = {.size = sizeof memory};
    vram_addr addr = 7, held[2];
    assert_ok(vram_memory_info_get(device, &memory));
    uint64_t part = memory.free_bytes.value / 3 / MIB * MIB;
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_device_alloc(device, part, VRAM_MEMORY_DEVICE, &held[i]));
    }
    assert_int_equal(vram_device_alloc(device, part + 64 * MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "what the device can keep in memory"));
    assert_int_equal(addr, 7);
}

/* What vram_native says is what Metal's own calls would be given. */
TEST(addresses_name_their_buffer) {
    vram_native_info native = {.size = sizeof native};
    vram_addr addr;
    assert_ok(vram_device_alloc(device, MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_native(addr + 100, &native));
    const struct fake_buffer *buffer = native.handle;
    assert_non_null(buffer);
    assert_int_equal(native.offset, 100);
    assert_true(native.device_address.known);
    assert_int_equal(native.device_address.value, (uintptr_t)buffer->contents + 100);
    assert_null(native.host_pointer);
}

EACH_TEST(begin, end)
