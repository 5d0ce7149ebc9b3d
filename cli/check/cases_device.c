/* SPDX-License-Identifier: Apache-2.0 */
/* cases_device.c: devices as they are described, chosen, opened and closed. */
#include "case.h"

#include <stdio.h>
#include <string.h>

/* A value that is known is never 0, one that is not says 0: nothing is faked. */
static bool value_is_honest(struct check *check, vram_value value, const char *name) {
    check_note(check, "%s", name);
    CHECK_THAT(check, value.known == (value.value != 0));
    return true;
}

/* Of a number that is not 0. */
static bool power_of_two(uint64_t number) {
    return (number & (number - 1)) == 0;
}

/* Later tiers divide by granules and trust capabilities without asking again. */
static bool info_is_valid(struct check *check, uint32_t index) {
    vram_device_info info = {.size = sizeof info};

    CHECK_OK(check, vram_device_info_get(check->context, index, &info));
    CHECK_EQUAL(check, info.size, sizeof info);
    CHECK_THAT(check, info.backend != NULL && info.name[0] != 0);
    CHECK_THAT(check, info.kind <= VRAM_DEVICE_SIMULATED);
    CHECK_THAT(check, (info.caps & ~info.caps_known) == 0);
    CHECK_THAT(check, !(info.caps & VRAM_CAP_TRUE_ADDRESS) || !(info.caps & VRAM_CAP_HANDLES));
    CHECK_THAT(check,
               ((info.caps & VRAM_CAP_SIMULATED) != 0) == (info.kind == VRAM_DEVICE_SIMULATED));
    CHECK_TRY(value_is_honest(check, info.memory_bytes, "memory_bytes"));
    CHECK_TRY(value_is_honest(check, info.alloc_granule, "alloc_granule"));
    CHECK_TRY(value_is_honest(check, info.alloc_max, "alloc_max"));
    CHECK_TRY(value_is_honest(check, info.vmm_granule, "vmm_granule"));
    CHECK_THAT(check, !info.alloc_granule.known || power_of_two(info.alloc_granule.value));
    CHECK_THAT(check, !info.vmm_granule.known || power_of_two(info.vmm_granule.value));
    CHECK_THAT(check, info.vmm_granule.known || (info.caps & VRAM_CAP_VMM) == 0);
    CHECK_THAT(check, info.pci_known == (info.pci[0] != 0));
    return true;
}

static bool info(struct check *check) {
    uint32_t count = vram_device_count(check->context);
    CHECK_THAT(check, count > check->target->device);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_TRY(info_is_valid(check, i));
    }
    return true;
}

/* Real GPUs, then simulated ones, the host last. */
static int rank(const vram_device_info *info) {
    return info->kind == VRAM_DEVICE_GPU         ? 0
           : info->kind == VRAM_DEVICE_SIMULATED ? 1
           : strcmp(info->backend, "host") != 0  ? 0
                                                 : 2;
}

/* Programs that take device 0 must get the best, not whichever driver answered first. */
static bool order(struct check *check) {
    vram_device_info before = {.size = sizeof before}, now = {.size = sizeof now};
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < vram_device_count(check->context); i++) {
        CHECK_OK(check, vram_device_info_get(check->context, i, &now));
        CHECK_THAT(check, i == 0 || rank(&before) <= rank(&now));
        before = now;
    }
    CHECK_OK(check, vram_device_best(check->context, &best));
    CHECK_THAT(check, best < vram_device_count(check->context));
    CHECK_STATUS(check, vram_device_best(check->context, NULL), VRAM_ERR_INVALID);
    return true;
}

/* Indices come from command lines and configuration files. */
static bool past_end(struct check *check) {
    uint32_t count = vram_device_count(check->context);
    vram_device_info info = {.size = sizeof info};
    vram_device *canary = (vram_device *)(uintptr_t)CHECK_CANARY, *device = canary;

    CHECK_STATUS(check, vram_device_info_get(check->context, count, &info), VRAM_ERR_NO_DEVICE);
    CHECK_STATUS(check, vram_device_open(check->context, count, &device), VRAM_ERR_NO_DEVICE);
    CHECK_STATUS(check, vram_device_open(check->context, UINT32_MAX, &device), VRAM_ERR_NO_DEVICE);
    CHECK_THAT(check, device == canary && info.backend == NULL);
    return true;
}

/* A program built with an older or newer header has structs of another size. */
static bool struct_sizes(struct check *check) {
    struct {
        vram_device_info info;
        uint8_t beyond[64];
    } wide;

    memset(&wide, 0xA5, sizeof wide);
    wide.info.size = sizeof wide;
    CHECK_OK(check, vram_device_info_get(check->context, check->target->device, &wide.info));
    CHECK_EQUAL(check, wide.info.size, sizeof wide);
    for (size_t i = 0; i < sizeof wide.beyond; i++) {
        CHECK_EQUAL(check, wide.beyond[i], 0); /* a field the library does not know is unknown */
    }
    memset(&wide, 0xA5, sizeof wide);
    wide.info.size = 0;
    CHECK_STATUS(check, vram_device_info_get(check->context, check->target->device, &wide.info),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_info_get(check->context, check->target->device, NULL),
                 VRAM_ERR_INVALID);
    CHECK_EQUAL(check, wide.beyond[0], 0xA5);
    return true;
}

/* The list is made when the context is, the description when the device is open: one truth. */
static bool describe(struct check *check) {
    struct check_device *device;
    vram_device_info info;

    CHECK_OPEN(check, &device);
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    CHECK_OK(check, vram_device_describe(device->device, &info));
    CHECK_THAT(check, strcmp(info.backend, device->info.backend) == 0);
    CHECK_THAT(check, strcmp(info.name, device->info.name) == 0);
    CHECK_EQUAL(check, info.backend_index, device->info.backend_index);
    CHECK_EQUAL(check, info.caps, device->info.caps);
    CHECK_EQUAL(check, info.memory_bytes.value, device->info.memory_bytes.value);
    CHECK_EQUAL(check, info.alloc_granule.value, device->info.alloc_granule.value);
    CHECK_EQUAL(check, info.vmm_granule.value, device->info.vmm_granule.value);
    CHECK_EQUAL(check, (uint64_t)memcmp(info.uuid, device->info.uuid, sizeof info.uuid), 0);
    return true;
}

/* Two parts of a program may open the same GPU; neither may see, count or free the other's
   memory. */
static bool open_twice(struct check *check) {
    struct check_device *one, *two;
    struct check_buffer buffer;
    vram_queue *queue;
    vram_addr addr;

    CHECK_OPEN(check, &one);
    CHECK_OPEN(check, &two);
    CHECK_THAT(check, one->device != two->device);
    CHECK_QUEUE(check, two, &queue);
    CHECK_BUFFER(check, two, queue, 5000, &buffer);
    CHECK_ALLOC(check, one, 5000, &addr);
    CHECK_LEDGER(check, one);
    CHECK_LEDGER(check, two);
    CHECK_STATUS(check, vram_device_free(one->device, buffer.addr), VRAM_ERR_INVALID);
    check_close(one);
    CHECK_VERIFY(check, &buffer);
    CHECK_LEDGER(check, two);
    return true;
}

/* With work still submitted: closing waits for it rather than pulling the memory away. */
static bool close_ends_children(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr;
    vram_native_info native = {.size = sizeof native};
    vram_memory_info memory = {.size = sizeof memory};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, 4096, &addr);
    CHECK_OK(check, vram_queue_fill(queue, addr, 7, 1, 4096));
    vram_device *closed = device->device;
    check_close(device);
    CHECK_STATUS(check, vram_queue_poll(queue), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_queue_fill(queue, addr, 7, 1, 4096), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_native(addr, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_memory_info_get(closed, &memory), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_queue_create(closed, NULL, &queue), VRAM_ERR_STALE);
    vram_device_close(closed);
    vram_device_close(NULL);
    return true;
}

/* As often as the suite can keep track of; nothing of one life may reach into the next. */
static bool reopen(struct check *check) {
    for (uint32_t round = 0; round < CHECK_DEVICES_MAX; round++) {
        struct check_device *device;
        vram_queue *queue;
        struct check_buffer buffer;
        check_note(check, "round %u", round);
        CHECK_OPEN(check, &device);
        CHECK_QUEUE(check, device, &queue);
        CHECK_BUFFER(check, device, queue, 3000, &buffer);
        CHECK_VERIFY(check, &buffer);
        CHECK_LEDGER(check, device);
        check_close(device);
    }
    return true;
}

/* What a device lacks it must lack altogether, and say so. */
static bool lacking(struct check *check) {
    const uint32_t all = VRAM_CAP_VMM | VRAM_CAP_PINNED | VRAM_CAP_MANAGED | VRAM_CAP_PEERS |
                         VRAM_CAP_KERNELS | VRAM_CAP_ADOPT;
    struct check_device *device;
    vram_physical *physical;
    vram_queue *queue, *adopted;
    vram_kernel *kernel;
    vram_addr addr;
    vram_kernel_source source = {.size = sizeof source, .code = &source, .entry = "none"};

    if (check_has(check, all)) {
        return check_skip(check, "the device lacks nothing");
    }
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    vram_device *handle = device->device;
    if (!check_has(check, VRAM_CAP_VMM)) {
        CHECK_STATUS(check, vram_range_create(handle, 1, &addr), VRAM_ERR_UNSUPPORTED);
        CHECK_STATUS(check, vram_range_destroy(handle, 4096), VRAM_ERR_UNSUPPORTED);
        CHECK_STATUS(check, vram_range_unmap(handle, 4096, 4096), VRAM_ERR_UNSUPPORTED);
        CHECK_STATUS(check, vram_physical_create(handle, 1, &physical), VRAM_ERR_UNSUPPORTED);
    }
    if (!check_has(check, VRAM_CAP_MANAGED)) {
        CHECK_STATUS(check, vram_queue_prefetch(queue, 4096, 1, VRAM_TARGET_HOST),
                     VRAM_ERR_UNSUPPORTED);
    }
    if (!check_has(check, VRAM_CAP_KERNELS)) {
        CHECK_STATUS(check, vram_kernel_create(handle, &source, &kernel), VRAM_ERR_UNSUPPORTED);
    }
    if (!check_has(check, VRAM_CAP_ADOPT)) {
        CHECK_STATUS(check, vram_queue_adopt(handle, NULL, &adopted), VRAM_ERR_UNSUPPORTED);
    }
    return true;
}

const struct check_case check_cases_device[] = {
    {"device.info", "every device has a valid description, and unknown values are marked", info},
    {"device.order", "devices come in order of preference and the best one is among them", order},
    {"device.past_end", "a device that is not there is refused and nothing is written", past_end},
    {"device.struct_sizes", "a caller with a longer struct is served, one without a size refused",
     struct_sizes},
    {"device.describe", "an opened device has the same description as in the list", describe},
    {"device.open_twice", "two handles on one device are independent of each other", open_twice},
    {"device.close_ends_children", "closing a device ends its queues and memory",
     close_ends_children},
    {"device.lacking", "every part that a device lacks is refused as unsupported", lacking},
    {"device.reopen", "a device can be closed and opened again and works as before", reopen},
    {NULL, NULL, NULL},
};
