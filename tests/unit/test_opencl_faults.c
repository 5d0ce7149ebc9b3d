/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_faults.c: every entry point of the driver fails with every code of OpenCL and with
 * three that there are not, in each way of having memory; then every call in turn, however often it
 * is made; then every allocation. Each is one run of a scenario that uses everything. Whatever
 * fails, the status is what the one table says, the record names the call and its code, outputs are
 * untouched, and nothing is left behind that the driver was not asked to take. The sum is printed.
 */
#include "unit/opencl_world.h"
#include "vram/buffer.h"

#include <limits.h>
#include <stdio.h>

#define TEXT "__kernel void store() {}"

static const char *const ways[] = {"buffer", "svm", "usm"};

static const int codes[] = {
#define CODE(NAME, value) value,
    VR_CL_CODES(CODE)
#undef CODE
        VR_CL_ILLEGAL_ACCESS_NV,
    1, 12345, INT_MIN, /* no code of any driver's */
};
enum { CODES = sizeof codes / sizeof codes[0] };

static const char *const calls[] = {
#define NAME(name, need, parameters, arguments)            #name,
#define NAME_MAKE(name, need, type, parameters, arguments) #name,
#define NAME_PLAIN(name)                                   #name,
    VR_OPENCL_FUNCTIONS(NAME, NAME_MAKE, NAME, NAME) OPENCL_EXTENSIONS(NAME_PLAIN)
#undef NAME
#undef NAME_MAKE
#undef NAME_PLAIN
};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* What a run came to. */
struct outcome {
    vram_status status; /* of the first step that failed */
    const char *step;
    vram_error error;
};

/* ----------------------------------------------------------------- scenario */

struct scene {
    struct vr_backend backend;
    struct vr_device device, other;
    struct vr_queue queue, adopted, far;
    vram_addr memory, pinned, managed;
    void *kernel;
    struct outcome *outcome;
};

/* Notes the first failure; as the wrappers do, a lost device is one from then on. */
static bool good(struct scene *scene, struct vr_device *device, vram_status status,
                 const char *step) {
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        return true;
    }
    if (scene->outcome->status == VRAM_OK) {
        *scene->outcome = (struct outcome){status, step, *vram_error_get()};
    }
    if (status == VRAM_ERR_DEVICE_LOST && device) {
        vr_store(&device->lost, true, VR_RELEASE);
    }
    return false;
}

#define STEP(device, call) good(scene, device, call, #call)

static bool scene_open(struct scene *scene, struct vr_device *device) {
    *device = (struct vr_device){.backend = &scene->backend, .info.backend = "opencl"};
    if (!STEP(NULL, vr_opencl_backend.describe(&scene->backend, 0, &device->info)) ||
        !STEP(NULL, vr_opencl_backend.device_open(device))) {
        device->impl = NULL;
        return false;
    }
    return true;
}

static bool scene_queue(struct scene *scene, struct vr_device *device, struct vr_queue *queue,
                        int32_t priority) {
    struct vram_queue_options options = {.size = sizeof options, .priority = priority};
    *queue = (struct vr_queue){.device = device};
    return STEP(device, device->queue_ops->create(queue, &options));
}

static void scene_memory(struct scene *scene) {
    struct vr_device *device = &scene->device;
    struct vr_native native;
    vram_addr addr;
    if (STEP(device, device->ops->alloc(device, 4 * GRANULE, &addr))) {
        scene->memory = addr;
    }
    if (device->handles && scene->memory) {
        (void)STEP(device, device->handles->native(device, scene->memory + 512, 512, &native));
    }
    if (device->pinned && STEP(device, device->pinned->alloc(device, 4096, &addr))) {
        scene->pinned = addr;
    }
    if (device->managed && STEP(device, device->managed->alloc(device, 4096, &addr))) {
        scene->managed = addr;
    }
}

static void scene_launch(struct scene *scene) {
    struct vr_device *device = &scene->device;
    struct vr_native native;
    const uint32_t index = 0;
    const uint64_t value = 1;
    const void *arguments[] = {&scene->memory, &index, &value};
    size_t sizes[] = {8, sizeof index, sizeof value};
    struct vram_kernel_source source = {
        .size = sizeof source, .format = VRAM_KERNEL_OPENCL_C, .code = TEXT, .entry = "store"};
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {1, 1, 1},
                                 .group_size = {1, 1, 1},
                                 .argument_count = 3,
                                 .arguments = arguments,
                                 .argument_bytes = sizes,
                                 .address_mask = 1};
    if (!device->kernel) {
        return;
    }
    struct vram_kernel_source broken = source; /* whose compiler has something to say */
    broken.code = "#error";
    vram_status said = device->kernel->load(device, &broken, &scene->kernel);
    assert_int_not_equal(said, VRAM_OK);
    if (vram_error_get()->native_code != VR_CL_BUILD_PROGRAM_FAILURE) {
        (void)good(scene, device, said, "load");
    }
    if (!STEP(device, device->kernel->load(device, &source, &scene->kernel))) {
        scene->kernel = NULL;
        return;
    }
    if (device->handles) {
        if (!STEP(device, device->handles->native(device, scene->memory, 512, &native))) {
            return;
        }
        arguments[0] = &native;
        sizes[0] = sizeof native;
    }
    (void)STEP(device, device->kernel->launch(&scene->queue, scene->kernel, &launch));
}

/* A part of the object behind the memory, as if the program had made it. */
static void scene_wrap(struct scene *scene) {
    struct vr_device *device = &scene->device;
    struct vr_native native;
    vram_addr addr;
    if (device->handles &&
        STEP(device, device->handles->native(device, scene->memory, 0, &native))) {
        const vram_wrap wrap = {.size = sizeof wrap,
                                .kind = VRAM_WRAP_HANDLE,
                                .pointer = native.handle,
                                .offset = 256,
                                .bytes = 64};
        if (STEP(device, device->objects->adopt(device, &wrap, &addr))) {
            (void)STEP(device, device->queue_ops->fill(&scene->queue, addr, 7, 1, 8));
            device->objects->give(device, addr, wrap.bytes);
        }
    }
}

/* Rows that the driver will not copy at once would go one by one. */
static vram_status one_by_one(vram_status status) {
    return status == VRAM_ERR_UNSUPPORTED ? VRAM_OK : status;
}

static void scene_rows(struct scene *scene, char *text) {
    struct vr_device *device = &scene->device;
    struct vr_queue *queue = &scene->queue;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_rectangle rows = {.to = scene->memory + 256,
                                .from = (uintptr_t) "libvram",
                                .to_pitch = 3,
                                .from_pitch = 3,
                                .row_bytes = 2,
                                .rows = 2,
                                .from_host = true};
    (void)STEP(device, one_by_one(ops->copy_rows(queue, &rows)));
    rows.from = scene->memory;
    rows.from_host = false;
    (void)STEP(device, one_by_one(ops->copy_rows(queue, &rows)));
    rows.to = (uintptr_t)text;
    rows.to_host = true;
    (void)STEP(device, one_by_one(ops->copy_rows(queue, &rows)));
}

static void scene_work(struct scene *scene) {
    struct vr_device *device = &scene->device;
    struct vr_queue *queue = &scene->queue;
    const struct vr_queue_ops *ops = device->queue_ops;
    /* A place of its own for each scene: nobody waits for the work of a device that is lost. */
    static char texts[1024][8];
    static uint32_t generation;
    char *text = texts[generation++ % 1024];
    uint64_t point = vr_load(queue->word, VR_ACQUIRE) + 1;
    (void)STEP(device, ops->upload(queue, scene->memory, "libvram", 8));
    (void)STEP(device, ops->copy(queue, scene->memory + 64, scene->memory, 8));
    (void)STEP(device, ops->fill(queue, scene->memory + 128, 7, 1, 8));
    scene_rows(scene, text);
    (void)STEP(device, ops->download(queue, text, scene->memory, 8));
    if (scene->managed) {
        (void)STEP(device, ops->fill(queue, scene->managed, 7, 1, 8));
        (void)STEP(device, ops->copy(queue, scene->managed + 64, scene->managed, 8));
        (void)STEP(device,
                   device->managed->prefetch(queue, scene->managed, 4096, VRAM_TARGET_HOST));
    }
    scene_wrap(scene);
    scene_launch(scene);
    fake->hold(true); /* so that there is something to wait for */
    if (!vr_load(&device->lost, VR_ACQUIRE) && STEP(device, ops->signal(queue, point))) {
        if (scene->adopted.impl) {
            (void)STEP(device, ops->after(&scene->adopted, queue, point));
        }
        if (scene->far.impl) {
            (void)STEP(&scene->other, ops->after(&scene->far, queue, point));
        }
    }
    fake->hold(false);
    if (!vr_load(&device->lost, VR_ACQUIRE)) {
        (void)STEP(device, ops->poll(queue));
    }
    if (scene->adopted.impl && !vr_load(&device->lost, VR_ACQUIRE)) {
        (void)STEP(device, ops->upload(&scene->adopted, scene->memory, "libvram", 8));
    }
}

static void scene_end(struct scene *scene) {
    struct vr_device *device = &scene->device;
    struct vr_queue *queues[] = {&scene->far, &scene->adopted, &scene->queue};
    for (int i = 0; i < 3; i++) {
        if (queues[i]->impl) {
            end_queue(queues[i]);
        }
    }
    if (scene->kernel) {
        device->kernel->unload(device, scene->kernel);
    }
    if (scene->memory) { /* a refusal may be repeated: then it works */
        (void)(STEP(device, device->ops->free(device, scene->memory, 4 * GRANULE)) ||
               STEP(device, device->ops->free(device, scene->memory, 4 * GRANULE)));
    }
    if (scene->pinned) {
        (void)(STEP(device, device->pinned->free(device, scene->pinned, 4096)) ||
               STEP(device, device->pinned->free(device, scene->pinned, 4096)));
    }
    if (scene->managed) {
        (void)(STEP(device, device->managed->free(device, scene->managed, 4096)) ||
               STEP(device, device->managed->free(device, scene->managed, 4096)));
    }
    if (scene->other.impl) {
        scene->other.ops->close(&scene->other);
    }
    if (device->impl) {
        device->ops->close(device);
    }
}

/* The context of the device that is open, as if it were a program's, in a backend of its own. */
static void scene_adopt(struct scene *scene) {
    const struct vr_opencl_device *opencl = scene->device.impl;
    const struct vram_opencl_adoption adoption = {
        .size = sizeof adoption, .context = opencl->context, .device = opencl->physical->id};
    const struct vram_context_options options = {.size = sizeof options, .opencl = &adoption};
    struct vr_backend backend = {.ops = &vr_opencl_backend};
    struct vr_device device = {.backend = &backend, .info.backend = "opencl"};
    if (!good(scene, NULL, backend.ops->start(&backend, &options), "start")) {
        return;
    }
    if (STEP(NULL, vr_opencl_backend.describe(&backend, 0, &device.info)) &&
        STEP(NULL, vr_opencl_backend.device_open(&device))) {
        device.ops->close(&device);
    }
    backend.ops->stop(&backend);
}

/* Uses everything there is, as far as it comes. */
static void play(const char *way, struct outcome *outcome) {
    struct scene here = {.outcome = outcome}, *scene = &here;
    *outcome = (struct outcome){.status = VRAM_OK, .step = ""};
    fake->settings->usm = strcmp(way, "usm") == 0;
    assert_int_equal(vram_option_set("opencl_memory", way), VRAM_OK);
    vram_error_clear();
    vram_status status = start_at(FAKE_OPENCL_PATH, &here.backend);
    if (!good(scene, NULL, status, "start")) {
        return;
    }
    if (scene_open(scene, &here.device)) {
        scene_memory(scene);
        (void)scene_open(scene, &here.other);
        scene_adopt(scene);
        if (here.memory && scene_queue(scene, &here.device, &here.queue, 1)) {
            here.adopted = (struct vr_queue){
                .device = &here.device, .native = here.queue.native, .adopted = true};
            (void)STEP(&here.device, here.device.queue_ops->adopt(&here.adopted));
            if (here.other.impl) {
                (void)scene_queue(scene, &here.other, &here.far, 0);
            }
            scene_work(scene);
        }
    }
    scene_end(scene);
    here.backend.ops->stop(&here.backend);
}

/* ---------------------------------------------------------------- judgement */

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What a refusal of `call` with `code` becomes. */
static vram_status expected(const struct outcome *outcome, const char *call, int code) {
    vram_status status = vr_opencl_status(code);
    if (starts(outcome->step, "start") || starts(outcome->step, "vr_opencl_backend.describe")) {
        return status == VRAM_ERR_NO_DEVICE || status == VRAM_ERR_HOST_MEMORY ? status
                                                                              : VRAM_ERR_NO_DRIVER;
    }
    if (starts(outcome->step, "device->pinned->alloc") && status == VRAM_ERR_DEVICE_MEMORY) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (code == VR_CL_INVALID_COMMAND_QUEUE && starts(call, "clEnqueue") &&
        outcome->status == VRAM_ERR_DEVICE_LOST) {
        return VRAM_ERR_DEVICE_LOST; /* a queue of our own */
    }
    return status;
}

static bool judge(const struct outcome *outcome, const char *call, int code) {
    bool plain = strcmp(call, "clSVMAlloc") == 0;
    bool unknown = strcmp(call, "clGetDeviceInfo") == 0; /* how sub-buffers must be aligned */
    if (outcome->status == VRAM_OK || (unknown && outcome->status == VRAM_ERR_UNSUPPORTED)) {
        return true; /* an unknown value, another way, or a line in the log */
    }
    if (plain) {
        return outcome->status == VRAM_ERR_DEVICE_MEMORY;
    }
    bool named = outcome->error.native_code == code &&
                 (strcmp(outcome->error.operation, call) == 0 ||
                  starts(call, outcome->error.operation)); /* ...WithProperties */
    return outcome->status == expected(outcome, call, code) && named;
}

/* What was struck may have been what gives back: that stays with the driver, and nothing else. */
static bool gives_back(const char *call) {
    return strstr(call, "Release") || strstr(call, "Free") || strstr(call, "Unmap");
}

static void run(const char *way, const char *call, uint64_t nth, int code, uint64_t *struck) {
    struct outcome outcome;
    uint64_t blocks = vr_mem_live_blocks(), live = fake->live();
    plan->refuse(call, nth, code, false);
    play(way, &outcome);
    *struck = plan->struck();
    const char *last = plan->last_call();
    plan->refuse(NULL, 0, 0, false);
    bool kept = outcome.status == VRAM_ERR_DEVICE_LOST || (*struck && gives_back(last)) ||
                live_falls_to(live);
    if (!judge(&outcome, *struck ? last : call, code) || vr_mem_live_blocks() != blocks || !kept) {
        fail_msg(
            "%s, call %llu of %s (%s) answers %d: %s in %s, \"%s\" by %s, %llu blocks and %llu "
            "objects left",
            way, (unsigned long long)nth, call, last, code, vram_status_name(outcome.status),
            outcome.step, outcome.error.text, outcome.error.operation,
            (unsigned long long)(vr_mem_live_blocks() - blocks),
            (unsigned long long)(fake->live() - live));
    }
    const char *text = "";
    if (fake->violations(&text)) {
        fail_msg("%s, call %llu of %s (%s) answers %d: %s", way, (unsigned long long)nth, call,
                 last, code, text);
    }
}

/* -------------------------------------------------------------------- tests */

static void nothing_fails_without_a_plan(void **state) {
    struct outcome outcome;
    uint64_t struck;
    (void)state;
    for (int way = 0; way < 3; way++) {
        play(ways[way], &outcome);
        assert_string_equal(outcome.step, "");
        run(ways[way], "any", UINT64_MAX, -5, &struck);
        assert_int_equal(struck, 0);
    }
}

static void every_entry_point_with_every_code(void **state) {
    unsigned met = 0, reached = 0;
    (void)state;
    for (int call = 0; call < CALLS; call++) {
        bool here = false;
        for (int code = 1; code < CODES; code++) { /* the first is success */
            uint64_t struck = 0;
            for (int way = 0; way < 3 && !struck; way++) { /* whichever comes by it */
                run(ways[(way + code) % 3], calls[call], 1, codes[code], &struck);
            }
            met += struck > 0;
            here = here || struck;
        }
        reached += here;
        if (!here) {
            print_message("%s is not reached\n", calls[call]);
        }
    }
    print_message("%u of %d combinations of %d entry points and %d codes\n", met,
                  CALLS * (CODES - 1), CALLS, CODES - 1);
    assert_int_equal(reached, CALLS);
    assert_int_equal(met, CALLS * (CODES - 1));
}

/* Success, and nothing made. */
static void every_lie_is_found_out(void **state) {
#define NOTHING(name, need, parameters, arguments)
#define LIE(name, need, type, parameters, arguments) #name,
    static const char *const makers[] = {VR_OPENCL_FUNCTIONS(NOTHING, LIE, NOTHING, NOTHING)};
#undef NOTHING
#undef LIE
    struct outcome outcome;
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        unsigned struck = 0;
        for (int way = 0; way < 3; way++) {
            uint64_t blocks = vr_mem_live_blocks();
            plan->refuse(makers[i], 1, VR_CL_SUCCESS, false);
            play(ways[way], &outcome);
            if (plan->struck()) {
                assert_int_equal(outcome.status, VRAM_ERR_CORRUPT);
                struck++;
            }
            assert_int_equal(vr_mem_live_blocks(), blocks);
        }
        assert_true(struck > 0);
    }
    assert_rules_kept();
}

static void every_call_fails_once(void **state) {
    static const int each[] = {VR_CL_OUT_OF_RESOURCES, VR_CL_CONTEXT_TERMINATED_KHR, 12345};
    unsigned runs = 0;
    (void)state;
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 3; i++) {
            uint64_t struck = 1;
            for (uint64_t nth = 1; struck; nth++, runs++) {
                run(ways[way], "any", nth, each[i], &struck);
            }
        }
    }
    print_message("%u runs\n", runs);
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    for (int way = 0; way < 3; way++) {
        for (uint64_t nth = 1;; nth++) {
            struct outcome outcome;
            uint64_t blocks = vr_mem_live_blocks(), live = fake->live();
            vr_mem_fail_at(nth, false);
            play(ways[way], &outcome);
            bool failed = vr_mem_failed() > 0;
            vr_mem_fail_at(0, false);
            /* What the compiler said may be left out of the record. */
            assert_true(outcome.status == VRAM_OK ||
                        (failed && outcome.status == VRAM_ERR_HOST_MEMORY));
            assert_int_equal(vr_mem_live_blocks(), blocks);
            assert_true(live_falls_to(live));
            if (!failed) {
                break;
            }
        }
    }
    assert_rules_kept();
}

/* Objects that releases were refused for stay in the fake. */
static int teardown_dirty(void **state) {
    (void)teardown(state);
    return 0;
}

#define DIRTY(test) cmocka_unit_test_setup_teardown(test, setup, teardown_dirty)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(nothing_fails_without_a_plan), HERE(every_allocation_fails_once),
        HERE(every_lie_is_found_out),       DIRTY(every_entry_point_with_every_code),
        DIRTY(every_call_fails_once),
    };
    return cmocka_run_group_tests_name("opencl_faults", tests, NULL, NULL);
}
