/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metal_adopt.c: a program's own MTLDevice and MTLCommandQueue, used by libvram through the
 * public API, and memory of libvram used in the program's own command buffers. Over the tests'
 * driver: no hardware was there.
 */
#include "fake/fake_metal.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 65536 };

static const struct fake_metal_control *control;

/* What the program has of Metal. */
static struct {
    struct vr_metal_api api;
    vr_mtl_id devices, device, other; /* two GPUs */
    vr_mtl_id queue;                  /* of the first */
} program;

static bool program_load(void *library) {
#define LOAD(symbol, returns, parameters)                                                          \
    void *found_##symbol = dlsym(library, #symbol);                                                \
    memcpy(&program.api.symbol, &found_##symbol, sizeof found_##symbol);
    VR_METAL_FUNCTIONS(LOAD)
#undef LOAD
    static const char *const selectors[VR_METAL_MESSAGE_COUNT] = {
#define SELECTOR(name, selector, returns, parameters) selector,
        VR_METAL_MESSAGES(SELECTOR)
#undef SELECTOR
    };
    for (int i = 0; i < VR_METAL_MESSAGE_COUNT; i++) {
        program.api.selectors[i] = program.api.sel_registerName(selectors[i]);
    }
    return program.api.MTLCopyAllDevices != NULL;
}

static int begin(void) {
    setenv("FAKE_METAL_DEVICES", "2", 1);
    control->plan(NULL, 0, 0, false);
    control->hold(false);
    program.devices = program.api.MTLCopyAllDevices();
    program.device = VR_SEND(&program.api, object_at, program.devices, 0ul);
    program.other = VR_SEND(&program.api, object_at, program.devices, 1ul);
    program.queue = VR_SEND(&program.api, queue_create, program.device, 64ul);
    return program.queue ? (int)vram_option_set("metal_library", FAKE_METAL_PATH) : -1;
}

/* All that libvram retained it has released: what is left is the program's. */
static int end(void) {
    const char *text = "";
    VR_SEND0(&program.api, release, program.queue);
    VR_SEND0(&program.api, release, program.devices);
    for (int i = 0; i < 2000 && (control->live() || vram_host_bytes()); i++) {
        usleep(1000);
    }
    assert_int_equal(control->live(), 0);
    assert_int_equal(vram_host_bytes(), 0);
    if (control->violations(&text)) {
        fail_msg("against Metal's rules: %s", text);
    }
    options_reset();
    return 0;
}

static vram_status create(const struct vram_metal_adoption *adoption, vram_context **context) {
    const vram_context_options options = {
        .size = sizeof options, .backends = "metal", .metal = adoption};
    return vram_context_create(&options, context);
}

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue; /* the program's */
    vram_addr addr;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        vram_status tried = (call);                                                                \
        if (tried != VRAM_OK) {                                                                    \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

static vram_status rig_open(struct rig *rig, vr_mtl_id device) {
    const struct vram_metal_adoption adoption = {.size = sizeof adoption, .device = device};
    TRY(create(&adoption, &rig->context));
    TRY(vram_device_open(rig->context, 0, &rig->device));
    TRY(vram_queue_adopt(rig->device, program.queue, &rig->queue));
    return vram_device_alloc(rig->device, BYTES, VRAM_MEMORY_DEVICE, &rig->addr);
}

static void rig_end(struct rig *rig) {
    if (rig->queue) {
        assert_ok(vram_queue_end(rig->queue));
    }
    if (rig->addr) {
        assert_ok(vram_device_free(rig->device, rig->addr));
    }
    vram_device_close(rig->device);
    vram_context_destroy(rig->context);
}

/* The program fills libvram's memory in a command buffer of its own. */
static void program_fills(vram_addr addr, uint8_t value) {
    const struct vr_metal_api *api = &program.api;
    vram_native_info native = {.size = sizeof native};
    assert_ok(vram_native(addr, &native));
    void *pool = api->objc_autoreleasePoolPush();
    vr_mtl_id commands = VR_SEND0(api, command_buffer, program.queue);
    vr_mtl_id encoder = VR_SEND0(api, blit_encoder, commands);
    struct vr_mtl_range range = {native.offset, BYTES};
    VR_SEND(api, fill_buffer, encoder, native.handle, range, value);
    VR_SEND0(api, end_encoding, encoder);
    VR_SEND0(api, commit, commands);
    api->objc_autoreleasePoolPop(pool);
}

/* --------------------------------------------------------------------- tests */

TEST(bad_adoptions_are_refused) {
    const struct vram_metal_adoption cases[] = {
        {.size = 0, .device = program.device},
        {.size = sizeof(size_t), .device = program.device}, /* a header that knew of nothing else */
        {.size = sizeof cases[0], .device = NULL},
        {.size = sizeof cases[0], .device = program.queue},
        {.size = sizeof cases[0], .device = program.devices},
        {.size = SIZE_MAX, .device = program.device},
    };
    vram_context *context = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(create(&cases[i], &context), VRAM_ERR_INVALID);
        assert_null(context);
        assert_non_null(strstr(vram_error_get()->text, "vram_context_options.metal"));
    }
    struct {
        struct vram_metal_adoption known;
        uint64_t later;
    } newer = {.known = {.size = sizeof newer, .device = program.device}, .later = 1};
    assert_int_equal(create(&newer.known, &context), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "does not know"));
    const vram_context_options options = {
        .size = sizeof options, .backends = "host", .metal = &cases[0]};
    assert_ok(vram_context_create(&options, &context)); /* who does not use Metal */
    vram_context_destroy(context);
}

/* The program's device, the second of two, is the only one, and its memory is that device's. */
TEST(the_device_is_the_programs) {
    const struct vram_metal_adoption adoption = {.size = sizeof adoption, .device = program.other};
    vram_native_info native = {.size = sizeof native};
    vram_device_info info = {.size = sizeof info};
    struct rig rig = {.context = NULL};
    assert_ok(create(&adoption, &rig.context));
    uint32_t metal = 0;
    for (uint32_t i = 0; i < vram_device_count(rig.context); i++) {
        assert_ok(vram_device_info_get(rig.context, i, &info));
        metal += strcmp(info.backend, "metal") == 0;
    }
    assert_int_equal(metal, 1);
    assert_ok(vram_device_info_get(rig.context, 0, &info));
    assert_string_equal(info.name, "Fake M2");
    assert_true(info.caps & VRAM_CAP_ADOPT);
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_device_alloc(rig.device, BYTES, VRAM_MEMORY_DEVICE, &rig.addr));
    assert_ok(vram_native(rig.addr, &native));
    assert_ptr_equal(((const struct fake_buffer *)native.handle)->device, program.other);
    rig_end(&rig);
}

/* Command buffers of both stand in one order, and the queue outlives its adoption. */
TEST(work_of_both_is_in_order) {
    struct rig rig = {.context = NULL};
    unsigned char bytes[BYTES];
    void *native = NULL;
    assert_ok(rig_open(&rig, program.device));
    assert_ok(vram_queue_native(rig.queue, &native));
    assert_ptr_equal(native, program.queue);
    for (int round = 0; round < 50; round++) {
        assert_ok(vram_queue_fill(rig.queue, rig.addr, 0xee, 1, BYTES));
        program_fills(rig.addr, (uint8_t)round);
        assert_ok(vram_queue_fill(rig.queue, rig.addr, 0x77, 1, 1));
        assert_ok(vram_queue_download(rig.queue, bytes, rig.addr, BYTES));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(bytes[0], 0x77);
        assert_int_equal(bytes[1], round);
        assert_int_equal(bytes[BYTES - 1], round);
    }
    assert_ok(vram_queue_end(rig.queue));
    rig.queue = NULL;
    program_fills(rig.addr, 5);
    assert_ok(vram_queue_adopt(rig.device, program.queue, &rig.queue));
    assert_ok(vram_queue_download(rig.queue, bytes, rig.addr, BYTES));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(bytes[0], 5);
    rig_end(&rig);
}

/* What the program committed is not done before it is, though libvram has given the queue
   nothing. */
TEST(the_programs_work_counts) {
    struct rig rig = {.context = NULL};
    assert_ok(rig_open(&rig, program.device));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT)); /* idle */
    control->hold(true);
    program_fills(rig.addr, 1);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_queue_wait(rig.queue, 2000000), VRAM_ERR_TIMEOUT);
    control->hold(false);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    rig_end(&rig);
}

TEST(bad_queues_are_refused) {
    struct rig rig = {.context = NULL};
    vram_queue *queue = NULL;
    vr_mtl_id foreign = VR_SEND(&program.api, queue_create, program.other, 64ul);
    assert_ok(rig_open(&rig, program.device));
    assert_int_equal(vram_queue_adopt(rig.device, NULL, &queue), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "no default queue"));
    assert_int_equal(vram_queue_adopt(rig.device, program.devices, &queue), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "no MTLCommandQueue"));
    assert_int_equal(vram_queue_adopt(rig.device, foreign, &queue), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "another device"));
    assert_null(queue);
    VR_SEND0(&program.api, release, foreign);
    rig_end(&rig);
}

static int begin_file(void) {
    void *library = dlopen(FAKE_METAL_PATH, RTLD_NOW | RTLD_LOCAL);
    control = library ? dlsym(library, "fake_metal_control") : NULL;
    if (!control || !program_load(library)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(begin, end)
