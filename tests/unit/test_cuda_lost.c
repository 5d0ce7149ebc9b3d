/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_lost.c: the device is lost before each operation in turn. The operation says so, with
 * the driver's own code, writes no output, and what is held is then given up without a call of the
 * driver.
 */
#include "unit/cuda_scenario.h"

/* Whatever a device may be asked to do, as one call each. */
struct try {
    const char *name;
    vram_status (*run)(struct holdings * held);
};

static uint64_t out; /* where a result would go */

#define TRY(name, expression)                                                                      \
    static vram_status try_##name(struct holdings *held) {                                         \
        struct vr_device *device = &held->device;                                                  \
        struct vr_queue *queue = &held->own;                                                       \
        (void)device, (void)queue;                                                                 \
        return expression;                                                                         \
    }

static vram_value told;
static struct vr_queue fresh;
static char host[64];

TRY(memory_info, device->ops->memory_info(device, &told, &told))
TRY(alloc, device->ops->alloc(device, GRANULE, &out))
TRY(free, device->ops->free(device, held->addr, GRANULE))
TRY(pin, device->pinned->alloc(device, PAGE, &out))
TRY(unpin, device->pinned->free(device, held->pinned, PAGE))
TRY(reserve, device->vmm->reserve(device, GRANULE, GRANULE, &out))
TRY(create, device->vmm->create(device, GRANULE, &out))
TRY(map, device->vmm->map(device, held->base + GRANULE, held->handle, GRANULE))
TRY(access, device->vmm->access(device, held->base, GRANULE))
TRY(protect, device->vmm->protect(device, held->base, GRANULE, true))
TRY(unmap, device->vmm->unmap(device, held->base, GRANULE))
TRY(release, device->vmm->release(device, held->handle, GRANULE))
TRY(unreserve, device->vmm->unreserve(device, held->base, GRANULE))
TRY(managed, device->managed->alloc(device, PAGE, &out))
TRY(advise, device->managed->advise(device, held->managed, PAGE, VRAM_ADVICE_READ_MOSTLY, 0))
TRY(prefetch, device->managed->prefetch(queue, held->managed, PAGE, VRAM_TARGET_HOST))
TRY(queue, (fresh = (struct vr_queue){.device = device}, device->queue_ops->create(&fresh, NULL)))
TRY(upload, device->queue_ops->upload(queue, held->addr, host, sizeof host))
TRY(download, device->queue_ops->download(queue, host, held->addr, sizeof host))
TRY(copy, device->queue_ops->copy(queue, held->addr, held->addr + 64, 64))
TRY(fill1, device->queue_ops->fill(queue, held->addr, 1, 1, 64))
TRY(fill2, device->queue_ops->fill(queue, held->addr, 1, 2, 64))
TRY(fill4, device->queue_ops->fill(queue, held->addr, 1, 4, 64))
TRY(signal, device->queue_ops->signal(queue, word_of(queue) + 1))
TRY(after, device->queue_ops->after(queue, &held->adopted, word_of(&held->adopted)))
TRY(poll, device->queue_ops->poll(queue))
TRY(peer_copy, device->peer->copy(queue, held->addr, &held->other, held->other_addr, 64))
TRY(load, load_kernel(held) ? VRAM_OK : held->status)

static vram_status try_launch(struct holdings *held) {
    const uint64_t value = held->addr;
    const void *const arguments[] = {&value, &value, &value, &value};
    const size_t bytes[] = {8, 8, 8, 8};
    const struct vram_launch launch = {.size = sizeof launch,
                                       .groups = {1, 1, 1},
                                       .group_size = {1, 1, 1},
                                       .argument_count = 4,
                                       .arguments = arguments,
                                       .argument_bytes = bytes};
    return held->device.kernel->launch(&held->own, held->kernel, &launch);
}

#define ROW(name)                                                                                  \
    { #name, try_##name }

static const struct try tries[] = {
    ROW(memory_info), ROW(alloc),   ROW(free),      ROW(pin),      ROW(unpin),  ROW(reserve),
    ROW(create),      ROW(map),     ROW(access),    ROW(protect),  ROW(unmap),  ROW(release),
    ROW(unreserve),   ROW(managed), ROW(advise),    ROW(prefetch), ROW(queue),  ROW(upload),
    ROW(download),    ROW(copy),    ROW(fill1),     ROW(fill2),    ROW(fill4),  ROW(signal),
    ROW(after),       ROW(poll),    ROW(peer_copy), ROW(load),     ROW(launch),
};

/* Codes after which nothing works any more; both drivers have them. */
static const vr_cu_result codes[] = {VR_CU_ILLEGAL_ADDRESS, VR_CU_ECC_UNCORRECTABLE,
                                     VR_CU_LAUNCH_FAILED};

static void lose_before(const struct try *try, vr_cu_result code) {
    struct holdings held = {.step = NULL};
    uint64_t blocks = vr_mem_live_blocks();
    fake->reset();
    fake->devices(2);
    held.stream = fake->stream_make(WORLD_INDEX, false, false);
    if (!run_open(&held) || !run_rest(&held)) {
        fail_msg("%s: %s", held.step, held.error.text);
    }
    settle_all(&held);
    out = UNTOUCHED;
    void *kernel = held.kernel;
    fake->lose(WORLD_INDEX, code);
    vram_error_clear();
    vram_status status = try->run(&held);
    if (status != VRAM_ERR_DEVICE_LOST || vram_error_get()->native_code != code ||
        strcmp(vram_error_get()->backend, WORLD_NAME) != 0 || out != UNTOUCHED) {
        fail_msg("%s answered %s (%s)", try->name, vram_status_name(status),
                 vram_error_get()->text);
    }
    held.kernel = kernel;
    note_loss(&held.device);
    fake->refuse("any", 1, VR_CU_UNKNOWN, true); /* counts from here on */
    uint64_t before = fake->struck();
    end_one(&held, &held.own);
    end_one(&held, &held.adopted);
    release_all(&held);
    held.device.kernel->unload(&held.device, held.kernel);
    held.kernel = NULL;
    held.device.ops->close(&held.device);
    assert_int_equal(fake->struck(), before);
    fake->refuse(NULL, 0, 0, false);
    close_all(&held); /* the other device, which is not lost */
    fake->stream_end(held.stream);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    assert_int_equal(fake->depth(), 0);
}

static void every_operation_says_so(void **state) {
    (void)state;
    unsigned done = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        for (size_t j = 0; j < sizeof tries / sizeof tries[0]; j++) {
            lose_before(&tries[j], codes[i]);
            done++;
        }
    }
    print_message("%s: lost before %u operations, %u codes each\n", WORLD_NAME,
                  (unsigned)(sizeof tries / sizeof tries[0]),
                  (unsigned)(sizeof codes / sizeof codes[0]));
    assert_int_equal(done, sizeof tries / sizeof tries[0] * (sizeof codes / sizeof codes[0]));
}

/* A device that is lost already cannot be opened, and takes nothing with it. */
static void lost_devices_are_not_opened(void **state) {
    (void)state;
    struct vr_backend backend;
    uint64_t blocks = vr_mem_live_blocks();
    fake->reset();
    start_backend(&backend);
    struct vr_device device = {.backend = &backend, .info.backend = WORLD_NAME};
    assert_int_equal(backend.ops->describe(&backend, 0, &device.info), VRAM_OK);
    fake->lose(0, VR_CU_ILLEGAL_ADDRESS);
    assert_int_equal(backend.ops->device_open(&device), VRAM_ERR_DEVICE_LOST);
    assert_null(device.impl);
    backend.ops->stop(&backend);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    fake->reset();
}

static int open_fake(void **state) {
    (void)state;
    fake = fake_open(WORLD_PATH);
    return vram_option_set(WORLD_OPTION, WORLD_PATH) == VRAM_OK ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_says_so),
        cmocka_unit_test(lost_devices_are_not_opened),
    };
    return cmocka_run_group_tests_name(WORLD_NAME "_lost", tests, open_fake, NULL);
}
