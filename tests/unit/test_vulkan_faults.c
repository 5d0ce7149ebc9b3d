/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan_faults.c: every call of Vulkan fails, with every documented code and with three that
 * are none; every function is missing in turn; every allocation of bookkeeping and every system
 * call fails. One scenario uses all of the backend; it is run once per failure. Whatever fails, the
 * status is the right one, the record names the call and its code, and nothing is left behind.
 */
#include "unit/record_fault.h"
#include "unit/vulkan_world.h"

#include <errno.h>
#include <limits.h>

enum { LARGE = 100000 }; /* more than what small copies go through */

/* Everything the scenario may hold. */
struct holdings {
    struct vr_backend backend;
    struct vr_device device;
    struct vr_queue own, adopted;
    vram_addr addr, pinned, shared, imported;
    void *kernel;
    const char *step;   /* the first that failed, or NULL */
    vram_status status; /* its answer */
    vram_error error;   /* and its record */
};

/* ----------------------------------------------------------------- scenario */

static bool step(struct holdings *held, const char *name, vram_status status) {
    if (status == VRAM_OK) {
        return true;
    }
    held->step = name;
    held->status = status;
    vr_error_save(&held->error);
    if (status == VRAM_ERR_DEVICE_LOST && held->device.impl) {
        vr_store(&held->device.lost, true, VR_RELEASE);
    }
    return false;
}

#define UNTOUCHED UINT64_C(0xABCDEF0123456789)

/* Memory for another process, which is this one. */
static bool share_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_addr out = UNTOUCHED;
    int fd = -1;
    if (!device->share) {
        return step(
            held, "share",
            vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "share", 0, "%s", device->no_share));
    }
    vram_status status = device->share->create(device, GRANULE, &out);
    assert_true((status == VRAM_OK) == (out != UNTOUCHED));
    held->shared = status == VRAM_OK ? out : 0;
    if (!step(held, "share", status) ||
        !step(held, "export",
              device->share->export_handle(device, held->shared, GRANULE, false, &fd))) {
        assert_int_equal(fd, -1);
        return false;
    }
    out = UNTOUCHED;
    status = device->share->import_handle(device, fd, GRANULE, &out);
    assert_true((status == VRAM_OK) == (out != UNTOUCHED));
    held->imported = status == VRAM_OK ? out : 0;
    bool good = step(held, "import", status);
    vr_os_file_close(fd);
    return good;
}

static bool take_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_addr out = UNTOUCHED;
    vram_status status = device->ops->alloc(device, 2 * GRANULE, &out);
    assert_true((status == VRAM_OK) == (out != UNTOUCHED));
    held->addr = status == VRAM_OK ? out : 0;
    if (!step(held, "alloc", status)) {
        return false;
    }
    out = UNTOUCHED;
    status = device->pinned->alloc(device, PAGE, &out);
    assert_true((status == VRAM_OK) == (out != UNTOUCHED));
    held->pinned = status == VRAM_OK ? out : 0;
    return step(held, "pinned", status) && share_all(held) &&
           step(held, "kernel", device->kernel->load(device, &saxpy_source, &held->kernel));
}

static vram_status poll_once(struct vr_queue *queue) {
    vram_status status = queue->device->queue_ops->poll(queue);
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

/* Waits by the word and polls, each of which must succeed, even if the word has passed
   meanwhile. */
static vram_status poll_until(struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && word_of(queue) < value) {
        status = vr_os_now() < end ? poll_once(queue) : VRAM_ERR_TIMEOUT;
        vr_os_yield();
    }
    return status;
}

static bool work_all(struct holdings *held) {
    static unsigned char large[LARGE];
    const struct vr_queue_ops *ops = held->device.queue_ops;
    struct vr_queue *own = &held->own, *adopted = &held->adopted;
    void *host = (void *)(uintptr_t)held->pinned;
    own->device = adopted->device = &held->device;
    if (!step(held, "queue", ops->create(own, NULL))) {
        assert_null(own->impl);
        return false;
    }
    adopted->native = own->native;
    adopted->adopted = true;
    if (!step(held, "adopt", ops->adopt(adopted))) {
        assert_null(adopted->impl);
        return false;
    }
    uint64_t value = (word_of(own) > word_of(adopted) ? word_of(own) : word_of(adopted)) + 1;
    return step(held, "upload", ops->upload(own, held->addr, host, PAGE)) &&
           step(held, "upload_small", ops->upload(own, held->addr, large, 100)) &&
           step(held, "upload_large", ops->upload(own, held->addr, large, LARGE)) &&
           step(held, "fill", ops->fill(own, held->addr + 1, 1, 1, 30)) &&
           step(held, "launch",
                launch_saxpy(own, held->kernel, held->addr, held->addr + 256, 1, 64)) &&
           step(held, "signal", ops->signal(own, value)) &&
           step(held, "after", ops->after(adopted, own, value)) &&
           step(held, "copy", ops->copy(adopted, held->addr + 64, held->addr, 64)) &&
           step(held, "download", ops->download(adopted, host, held->addr, PAGE)) &&
           step(held, "download_large", ops->download(adopted, large, held->addr, LARGE)) &&
           step(held, "signal", ops->signal(adopted, value)) &&
           step(held, "wait", poll_until(adopted, value)) && step(held, "poll", poll_once(own)) &&
           step(held, "poll", poll_once(adopted));
}

static void run_all(struct holdings *held) {
    (void)(step(held, "start", start_backend(&held->backend, NULL)) &&
           step(held, "open", open_device(&held->backend, &held->device)) && take_all(held) &&
           work_all(held));
}

/* Gives back what is held, in the order of src/device. */
static void release_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    struct vr_queue *const queues[] = {&held->adopted, &held->own};
    for (int i = 0; i < 2; i++) {
        if (queues[i]->impl) {
            device->queue_ops->destroy(queues[i]);
        }
    }
    if (held->kernel) {
        device->kernel->unload(device, held->kernel);
    }
    if (held->pinned) {
        assert_int_equal(device->pinned->free(device, held->pinned, PAGE), VRAM_OK);
    }
    if (held->imported) {
        assert_int_equal(device->ops->free(device, held->imported, GRANULE), VRAM_OK);
    }
    if (held->shared) {
        assert_int_equal(device->ops->free(device, held->shared, GRANULE), VRAM_OK);
    }
    if (held->addr) {
        assert_int_equal(device->ops->free(device, held->addr, 2 * GRANULE), VRAM_OK);
    }
    if (device->impl) {
        device->ops->close(device);
    }
    if (held->backend.impl) {
        held->backend.ops->stop(&held->backend);
    }
}

/* ------------------------------------------------------------------- answers */

/* What a code must become, by this table and not by the backend's. */
static const struct {
    int code;
    vram_status status;
} codes[] = {
    {1, VRAM_ERR_BACKEND},
    {2, VRAM_ERR_BACKEND},
    {3, VRAM_ERR_BACKEND},
    {4, VRAM_ERR_BACKEND},
    {5, VRAM_ERR_BACKEND},
    {-1, VRAM_ERR_HOST_MEMORY},
    {-2, VRAM_ERR_DEVICE_MEMORY},
    {-3, VRAM_ERR_NO_DRIVER},
    {-4, VRAM_ERR_DEVICE_LOST},
    {-5, VRAM_ERR_HOST_MEMORY},
    {-6, VRAM_ERR_NO_DRIVER},
    {-7, VRAM_ERR_UNSUPPORTED},
    {-8, VRAM_ERR_UNSUPPORTED},
    {-9, VRAM_ERR_NO_DRIVER},
    {-10, VRAM_ERR_LIMIT},
    {-11, VRAM_ERR_UNSUPPORTED},
    {-12, VRAM_ERR_HOST_MEMORY},
    {-13, VRAM_ERR_BACKEND},
    {-1000069000, VRAM_ERR_HOST_MEMORY},
    {-1000072003, VRAM_ERR_INVALID},
    {-1000161000, VRAM_ERR_FRAGMENTED},
    {-1000257000, VRAM_ERR_BACKEND},
    {-1000012000, VRAM_ERR_INVALID},
    {-1000174001, VRAM_ERR_UNSUPPORTED},
    {77, VRAM_ERR_BACKEND}, /* and three that nobody documents */
    {-999, VRAM_ERR_BACKEND},
    {INT_MIN, VRAM_ERR_BACKEND},
};

enum { CODES = sizeof codes / sizeof codes[0] };

/* Whether the answer to a code is right. Memory for the host that the device takes from its own
   heap is the host's; a wait that timed out, and lists that are longer than was asked for, are told
   apart. */
static bool right_answer(const struct holdings *held, int code) {
    const char *call = held->error.operation;
    if (strcmp(held->step, "start") == 0) {
        return held->status == VRAM_ERR_NO_DRIVER;
    }
    if (code == 2 && strcmp(call, "vkWaitSemaphores") == 0) {
        return held->status == VRAM_ERR_TIMEOUT;
    }
    for (int i = 0; i < CODES; i++) {
        if (codes[i].code == code) {
            return held->status == codes[i].status ||
                   (code == -2 && held->status == VRAM_ERR_HOST_MEMORY &&
                    strcmp(held->step, "alloc") != 0);
        }
    }
    return false;
}

/* Calls whose failure only means that the answer comes another way: command buffers are looked for
   later, and a thread that waits for the device asks again. */
static bool may_be_ignored(const char *call, int code) {
    return strcmp(call, "vkGetSemaphoreCounterValue") == 0 ||
           strcmp(call, "vkDeviceWaitIdle") == 0 || strcmp(call, "vkWaitSemaphores") == 0 ||
           (code == 5 && strstr(call, "Enumerate")) ||
           (code == -2 && strcmp(call, "vkAllocateMemory") == 0);
}

static void check_answer(const struct holdings *held, const char *struck, int code) {
    if (!held->step) {
        if (!may_be_ignored(struck, code)) {
            fail_msg("%s answered %d and nobody said so", struck, code);
        }
        return;
    }
    if (!right_answer(held, code) || held->error.status != held->status ||
        held->error.native_code != code || strncmp(held->error.operation, "vk", 2) != 0 ||
        !held->error.text[0]) {
        fail_msg("%s: %s answered %d, which became %s: %s", held->step, held->error.operation, code,
                 vram_status_name(held->status), held->error.text);
    }
}

/* One run with a plan; whether a call was struck. */
static bool run_once(const char *name, uint64_t nth, int code, bool for_ever, bool gpu) {
    struct holdings held = {.step = NULL};
    uint64_t blocks = vr_mem_live_blocks();
    shim->reset();
    vram_error_clear();
    shim->pretence.gpu = gpu;
    shim->refuse(name, nth, code, for_ever);
    run_all(&held);
    bool struck = shim->struck() > 0, at_end = strcmp(name, "vkDeviceWaitIdle") == 0;
    const char *call = shim->last_call();
    if (struck) {
        check_answer(&held, call, code);
    } else {
        assert_null(held.step);
    }
    if (!at_end) {
        shim->refuse(NULL, 0, 0, false);
    }
    bool lost = held.status == VRAM_ERR_DEVICE_LOST || code == -4;
    release_all(&held);
    struck = struck || (at_end && shim->struck() > 0);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    if (!lost && shim->live() != 0) {
        fail_msg("call %llu (%s) answered %d: %lld objects are left", (unsigned long long)nth, call,
                 code, (long long)shim->live());
    }
    return struck;
}

/* -------------------------------------------------------------------- tests */

/* Every function with a result, with every code, at its first call; with every fourth one where a
   sanitizer makes it slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CODE_STEP = 4 };
#else
enum { CODE_STEP = 1 };
#endif

static void every_entry_answers_every_code(void **state) {
    unsigned runs = 0, entries = 0;
    (void)state;
    for (const char *name; (name = shim->entry(entries)); entries++) {
        for (int i = entries % CODE_STEP; i < CODES; i += CODE_STEP, runs++) {
            if (!run_once(name, 1, codes[i].code, false, AS_GPU)) {
                fail_msg("%s is never called", name);
            }
        }
    }
    print_message("%u entry points, %d codes: %u runs\n", entries, CODES, runs);
    assert_true(CODE_STEP > 1 || runs == entries * CODES);
}

static unsigned sweep(int code, bool for_ever, bool gpu) {
    unsigned faults = 0;
    for (uint64_t nth = 1; run_once("any", nth, code, for_ever, gpu); nth++) {
        faults++;
    }
    return faults;
}

static void every_call_fails_once(void **state) {
    (void)state;
    unsigned faults = sweep(-2, false, AS_GPU) + sweep(-4, false, AS_GPU) + sweep(-1, false, false);
    print_message("%u calls failed once\n", faults);
    assert_true(faults > 200);
}

static void every_call_fails_for_ever(void **state) {
    (void)state;
    unsigned faults = sweep(-13, true, AS_GPU) + sweep(-4, true, false);
    print_message("%u calls failed for ever\n", faults);
    assert_true(faults > 120);
}

/* A driver without one of the functions is absent, or its device does not open, and the text says
   why. */
static void every_function_is_missing_in_turn(void **state) {
    static const char *const names[] = {
#define NAME(returns, name, level, parameters, names) #name,
        VR_VULKAN_FUNCTIONS(NAME)
#undef NAME
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct holdings held = {.step = NULL};
        uint64_t blocks = vr_mem_live_blocks();
        shim->reset();
        shim->hide(names[i]);
        run_all(&held);
        assert_non_null(held.step);
        assert_true(held.status == VRAM_ERR_NO_DRIVER || held.status == VRAM_ERR_UNSUPPORTED);
        assert_non_null(strstr(held.error.text, names[i]));
        release_all(&held);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        /* What cannot be found cannot be ended either. */
        int left = strcmp(names[i], "vkDestroyInstance") == 0 ? 1
                   : strcmp(names[i], "vkDestroyDevice") == 0 ? 2
                                                              : 0;
        assert_int_equal(shim->live(), left);
    }
}

/* Successes that have done nothing: the result is looked at before it is used. */
static void lies_are_found_out(void **state) {
    static const char *const names[] = {"vkCreateInstance",
                                        "vkCreateDevice",
                                        "vkGetDeviceQueue",
                                        "vkAllocateMemory",
                                        "vkMapMemory",
                                        "vkGetMemoryFdKHR",
                                        "vkCreateBuffer",
                                        "vkCreateSemaphore",
                                        "vkGetBufferDeviceAddress",
                                        "vkGetBufferMemoryRequirements",
                                        "vkCreateCommandPool",
                                        "vkAllocateCommandBuffers",
                                        "vkCreateShaderModule",
                                        "vkCreatePipelineLayout",
                                        "vkCreateComputePipelines"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct holdings held = {.step = NULL};
        uint64_t blocks = vr_mem_live_blocks();
        shim->reset();
        shim->lie(names[i], 1);
        run_all(&held);
        assert_int_equal(shim->struck(), 1);
        if (!held.step) {
            fail_msg("%s lied and nobody noticed", names[i]);
        }
        assert_true(held.status == VRAM_ERR_CORRUPT || strcmp(held.step, "start") == 0);
        assert_non_null(strstr(held.error.text, "cannot be"));
        shim->refuse(NULL, 0, 0, false);
        release_all(&held);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        assert_int_equal(shim->live(), 0);
    }
}

static void every_allocation_fails(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct holdings held = {.step = NULL};
        uint64_t blocks = vr_mem_live_blocks();
        shim->reset();
        vr_mem_fail_at(nth, false);
        run_all(&held);
        bool failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        assert_int_equal(held.status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        release_all(&held);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        assert_int_equal(shim->live(), 0);
        if (!failed) {
            assert_true(nth > 10);
            return;
        }
    }
}

static void every_record_fails(void **state) {
    (void)state;
    for (unsigned nth = 1;; nth++) { /* staging takes more or fewer, by how fast the device is */
        struct holdings held = {.step = NULL};
        uint64_t blocks = vr_mem_live_blocks();
        shim->reset();
        record_fail_at(nth);
        run_all(&held);
        bool failed = record_failed();
        record_fail_at(0);
        assert_int_equal(held.status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        release_all(&held);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        assert_int_equal(shim->live(), 0);
        if (!failed) {
            assert_true(nth > 5); /* two kinds of memory, shared memory twice, words */
            return;
        }
    }
}

static void every_system_call_fails(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct holdings held = {.step = NULL};
        uint64_t blocks = vr_mem_live_blocks();
        shim->reset();
        vr_os_fail_at(nth, false, ENOMEM);
        run_all(&held);
        bool failed = vr_os_failed() > 0;
        vr_os_fail_at(0, false, 0);
        assert_int_equal(held.status != VRAM_OK, failed);
        release_all(&held);
        assert_int_equal(vr_mem_live_blocks(), blocks);
        assert_int_equal(shim->live(), 0);
        if (!failed) {
            assert_true(nth > 2);
            return;
        }
    }
}

static int open_shim(void **state) {
    (void)state;
    shim_open();
    return 0;
}

static int end_shim(void **state) {
    (void)state;
    shim->reset();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_answers_every_code),
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(every_call_fails_for_ever),
        cmocka_unit_test(every_function_is_missing_in_turn),
        cmocka_unit_test(lies_are_found_out),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(every_record_fails),
        cmocka_unit_test(every_system_call_fails),
    };
    return cmocka_run_group_tests_name("vulkan_faults", tests, open_shim, end_shim);
}
