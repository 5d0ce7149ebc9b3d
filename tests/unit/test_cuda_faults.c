/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_faults.c: every call of the driver fails, once and for ever, with one code after the
 * other, and so does every allocation of bookkeeping. One scenario uses all of the backend; it is
 * run once per failing call. Whatever fails, the status is the right one, the record names the call
 * and its code, the caller's context is found again, and nothing is left behind.
 */
#include "unit/cuda_world.h"

#include <limits.h>

/* Everything the scenario may hold. */
struct holdings {
    struct vr_backend backend;
    struct vr_device device;
    struct vr_queue own, adopted;
    vram_addr addr, pinned, base;
    uint64_t handle;
    bool mapped;
    struct vr_cu_stream *stream; /* the program's */
    const char *step;            /* the first that failed, or NULL */
    vram_status status;          /* its answer */
    vram_error error;            /* and its record */
    bool forgiven;               /* a call failed whose failure nobody can be told */
};

/* ----------------------------------------------------------------- scenario */

/* Notes a step's answer; whether the scenario goes on. */
static bool step(struct holdings *held, const char *name, vram_status status) {
    if (status == VRAM_OK) {
        return true;
    }
    held->step = name;
    held->status = status;
    vr_error_save(&held->error);
    if (status == VRAM_ERR_DEVICE_LOST && held->device.impl) {
        note_loss(&held->device);
    }
    return false;
}

static bool take_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    vram_value free_bytes, total;
    return step(held, "memory_info", device->ops->memory_info(device, &free_bytes, &total)) &&
           step(held, "alloc", device->ops->alloc(device, GRANULE, &held->addr)) &&
           step(held, "pinned", device->pinned->alloc(device, PAGE, &held->pinned));
}

static bool map_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    if (!device->vmm) {
        return true; /* the driver did not say that it can */
    }
    if (!step(held, "reserve", device->vmm->reserve(device, GRANULE, GRANULE, &held->base)) ||
        !step(held, "create", device->vmm->create(device, GRANULE, &held->handle)) ||
        !step(held, "map", device->vmm->map(device, held->base, held->handle, GRANULE))) {
        return false;
    }
    held->mapped = true;
    return step(held, "access", device->vmm->access(device, held->base, GRANULE));
}

/* Waits as src/device does: by the word, asking the driver now and then. */
static vram_status wait_for(struct vr_queue *queue, uint64_t value) {
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

static bool work_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    const struct vr_queue_ops *ops = device->queue_ops;
    struct vr_queue *own = &held->own, *adopted = &held->adopted;
    void *host = (void *)(uintptr_t)held->pinned;
    uint64_t value;
    *own = (struct vr_queue){.device = device};
    *adopted = (struct vr_queue){.device = device, .native = held->stream, .adopted = true};
    if (!step(held, "queue", ops->create(own, NULL)) || !step(held, "adopt", ops->adopt(adopted))) {
        return false;
    }
    value = (word_of(own) > word_of(adopted) ? word_of(own) : word_of(adopted)) + 1;
    return step(held, "upload", ops->upload(own, held->addr, host, PAGE)) &&
           step(held, "fill1", ops->fill(own, held->addr, 1, 1, 64)) &&
           step(held, "fill2", ops->fill(own, held->addr, 1, 2, 64)) &&
           step(held, "fill4", ops->fill(own, held->addr, 1, 4, 64)) &&
           step(held, "signal", ops->signal(own, value)) &&
           step(held, "after", ops->after(adopted, own, value)) &&
           step(held, "copy", ops->copy(adopted, held->addr + 64, held->addr, 64)) &&
           step(held, "download", ops->download(adopted, host, held->addr, PAGE)) &&
           step(held, "signal", ops->signal(adopted, value)) &&
           step(held, "wait", wait_for(adopted, value)) &&
           step(held, "poll", ops->poll(own) == VRAM_ERR_NOT_READY ? VRAM_OK : ops->poll(own));
}

static bool run_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    held->backend = (struct vr_backend){.ops = &vr_cuda_backend};
    if (!step(held, "start", held->backend.ops->start(&held->backend, NULL))) {
        return false;
    }
    *device = (struct vr_device){.backend = &held->backend, .info.backend = "cuda"};
    return step(held, "describe", held->backend.ops->describe(&held->backend, 0, &device->info)) &&
           step(held, "open", held->backend.ops->device_open(device)) && take_all(held) &&
           map_all(held) && work_all(held);
}

/* ------------------------------------------------------------------ release */

/* An end that cannot fail; when the driver refuses something in it, that is nobody's leak. */
static void end_one(struct holdings *held, struct vr_queue *queue) {
    uint64_t struck = fake->struck();
    if (queue->impl) {
        queue->device->queue_ops->destroy(queue);
        held->forgiven = held->forgiven || fake->struck() != struck;
    }
}

/* Submitted work is over before memory goes, as src/device sees to. */
static void settle_all(struct holdings *held) {
    for (int i = 0; i < 10000 && !vr_load(&held->device.lost, VR_ACQUIRE); i++) {
        bool idle = true;
        struct vr_queue *const queues[] = {&held->own, &held->adopted};
        for (int j = 0; j < 2; j++) {
            if (queues[j]->impl) {
                vram_status status = held->device.queue_ops->poll(queues[j]);
                step(held, "settle", status == VRAM_ERR_DEVICE_LOST ? status : VRAM_OK);
                idle = idle && status != VRAM_ERR_NOT_READY;
            }
        }
        if (idle) {
            return;
        }
        vr_os_sleep(20000);
    }
}

/* Gives back what is held; what the driver refuses to take stays held, for another try. */
static void release_all(struct holdings *held) {
    struct vr_device *device = &held->device;
    bool lost = vr_load(&device->lost, VR_ACQUIRE);
    if (held->mapped && device->vmm->unmap(device, held->base, GRANULE) == VRAM_OK) {
        held->mapped = false;
    }
    if (held->handle && !held->mapped &&
        device->vmm->release(device, held->handle, GRANULE) == VRAM_OK) {
        held->handle = 0;
    }
    if (held->base && !held->mapped &&
        device->vmm->unreserve(device, held->base, GRANULE) == VRAM_OK) {
        held->base = 0;
    }
    if (held->pinned && device->pinned->free(device, held->pinned, PAGE) == VRAM_OK) {
        held->pinned = 0;
    }
    if (held->addr && device->ops->free(device, held->addr, GRANULE) == VRAM_OK) {
        held->addr = 0;
    }
    assert_true(!lost || (!held->addr && !held->pinned && !held->base && !held->handle));
}

static void close_all(struct holdings *held) {
    uint64_t struck = fake->struck();
    if (held->device.impl) {
        close_device(&held->device);
    }
    held->forgiven = held->forgiven || fake->struck() != struck;
    if (held->backend.impl) {
        held->backend.ops->stop(&held->backend);
    }
}

/* --------------------------------------------------------------------- sweep */

/* What a code of a call must become, by this table and not by the backend's. */
static vram_status expected(const char *name, const char *call, vr_cu_result code) {
    if (strcmp(name, "start") == 0 || strcmp(name, "describe") == 0) {
        return VRAM_ERR_NO_DRIVER;
    }
    switch (code) {
    case 1:
        return VRAM_ERR_INVALID;
    case 2:
        return strcmp(call, "cuMemHostAlloc") == 0        ? VRAM_ERR_HOST_MEMORY
               : strcmp(call, "cuMemAddressReserve") == 0 ? VRAM_ERR_LIMIT
                                                          : VRAM_ERR_DEVICE_MEMORY;
    case 4:
        return VRAM_ERR_SHUTDOWN;
    case 700:
        return VRAM_ERR_DEVICE_LOST;
    case 801:
        return VRAM_ERR_UNSUPPORTED;
    case 900:
        return VRAM_ERR_CAPTURE;
    default:
        return VRAM_ERR_BACKEND;
    }
}

/* Calls whose failure is an unknown value, a slower way, or a line in the log. */
static bool may_be_ignored(const char *call) {
    static const char *const calls[] = {
        "cuDeviceGetAttribute",
        "cuDeviceGetPCIBusId",
        "cuDeviceGetUuid",
        "cuDeviceTotalMem",
        "cuMemGetAllocationGranularity",
        "cuThreadExchangeStreamCaptureMode",
        "cuCtxPopCurrent",
        "cuStreamWriteValue64",
        "cuStreamWaitValue64",
        "cuEventDestroy",
        "cuStreamQuery",       /* the word had passed meanwhile */
        "cuStreamIsCapturing", /* likewise, of the poll */
        "cuCtxPushCurrent",    /* likewise */
        "cuGetErrorName",
        "cuGetErrorString",
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i], call) == 0) {
            return true;
        }
    }
    return false;
}

static void check_answer(const struct holdings *held, const char *struck_call, vr_cu_result code) {
    if (!held->step) {
        if (!may_be_ignored(struck_call)) {
            fail_msg("%s answered %d and nobody said so", struck_call, code);
        }
        return;
    }
    const char *call = held->error.operation;
    if (held->status != expected(held->step, call, code) || held->error.status != held->status ||
        held->error.native_code != code || strncmp(call, "cu", 2) != 0 || !held->error.text[0]) {
        fail_msg("%s: %s answered %d, which became %s: %s", held->step, call, code,
                 vram_status_name(held->status), held->error.text);
    }
}

/* One run with the n-th call failing; whether a call failed at all. */
static bool run_once(uint64_t nth, vr_cu_result code, bool for_ever) {
    struct holdings held = {.step = NULL};
    uint64_t blocks = vr_mem_live_blocks();
    struct vr_cu_context *mine;
    held.stream = fake->stream_make(0, false, false);
    fake->push_other(0);
    mine = fake->current();
    fake->refuse("any", nth, code, for_ever);
    run_all(&held);
    bool struck = fake->struck() > 0;
    const char *call = fake->last_call();
    if (struck && held.step) {
        check_answer(&held, call, code);
    }
    fake->refuse(NULL, 0, 0, false);
    /* The thread is found as it was, unless it is the putting back itself that failed. */
    if (!for_ever && strcmp(call, "cuCtxPopCurrent") != 0) {
        assert_ptr_equal(fake->current(), mine);
        assert_int_equal(fake->depth(), 1);
    }
    if (!for_ever && strcmp(call, "cuThreadExchangeStreamCaptureMode") != 0) {
        assert_int_equal(fake->thread_mode(), VR_CU_MODE_GLOBAL);
    }
    while (fake->depth() > 1) {
        fake->pop();
    }
    settle_all(&held);
    end_one(&held, &held.own);
    end_one(&held, &held.adopted);
    release_all(&held);
    close_all(&held);
    fake->pop();
    fake->stream_end(held.stream);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    bool lost = held.status == VRAM_ERR_DEVICE_LOST;
    struct fake_cuda_live live;
    fake->live(&live);
    bool refused_end = strcmp(call, "cuEventDestroy") == 0;
    if (!lost && !for_ever && !held.forgiven && !refused_end && live.total) {
        fail_msg("call %llu (%s) answered %d: %llu objects are left", (unsigned long long)nth, call,
                 code, (unsigned long long)live.total);
    }
    if (struck && !held.step) {
        check_answer(&held, call, code);
    }
    return struck;
}

static int open_fake(void **state) {
    (void)state;
    fake = fake_open(FAKE_CUDA_PATH);
    return vram_option_set("cuda_library", FAKE_CUDA_PATH) == VRAM_OK ? 0 : 1;
}

static unsigned sweep(vr_cu_result code, bool for_ever) {
    unsigned faults = 0;
    for (uint64_t nth = 1;; nth++) {
        const char *text = "";
        fake->reset();
        if (!run_once(nth, code, for_ever)) {
            return faults;
        }
        if (fake->violations(&text)) {
            fail_msg("call %llu, code %d: %s", (unsigned long long)nth, code, text);
        }
        faults++;
    }
}

static void every_call_fails_once(void **state) {
    (void)state;
    static const vr_cu_result codes[] = {1, 2, 4, 700, 801, 900, 999, -1, INT_MIN};
    unsigned faults = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        faults += sweep(codes[i], false);
    }
    print_message("%u calls failed once\n", faults);
    assert_true(faults > 900);
}

static void every_call_fails_for_ever(void **state) {
    (void)state;
    static const vr_cu_result codes[] = {2, 4, 700, 999};
    unsigned faults = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        faults += sweep(codes[i], true);
    }
    print_message("%u calls failed for ever\n", faults);
    assert_true(faults > 400);
}

/* The same with bookkeeping that cannot be had. */
static void every_allocation_fails(void **state) {
    (void)state;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (uint64_t nth = 1;; nth++) {
            struct holdings held = {.step = NULL};
            uint64_t blocks = vr_mem_live_blocks();
            fake->reset();
            held.stream = fake->stream_make(0, false, false);
            vr_mem_fail_at(nth, for_ever);
            run_all(&held);
            bool failed = vr_mem_failed() > 0;
            vr_mem_fail_at(0, false);
            assert_int_equal(held.status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
            settle_all(&held);
            end_one(&held, &held.own);
            end_one(&held, &held.adopted);
            release_all(&held);
            close_all(&held);
            fake->stream_end(held.stream);
            assert_int_equal(vr_mem_live_blocks(), blocks);
            assert_int_equal(live_total(), 0);
            assert_clean();
            if (!failed) {
                assert_true(nth > 4);
                break;
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(every_call_fails_for_ever),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests_name("cuda_faults", tests, open_fake, NULL);
}
