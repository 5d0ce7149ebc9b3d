/* SPDX-License-Identifier: Apache-2.0 */
/* cases_managed.c: memory with one address for host and device. */
#include "case.h"

#include <string.h>

/* Host and device take turns, with a wait in between as the programming models demand. */
static bool both_sides(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr;
    struct check_buffer copy;
    const uint64_t bytes = 100000;

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &copy);
    CHECK_ALLOC_KIND(check, device, bytes, VRAM_MEMORY_MANAGED, &addr);
    CHECK_WAIT(check, queue);
    uint8_t *host = (uint8_t *)(uintptr_t)addr;
    check_seed(host, bytes, 21); /* the host writes, the device copies */
    check_seed(copy.model, bytes, 21);
    CHECK_OK(check, vram_queue_copy(queue, copy.addr, addr, bytes));
    CHECK_VERIFY(check, &copy);
    CHECK_OK(check, vram_queue_fill(queue, addr, 0x42, 1, bytes)); /* and the other way round */
    CHECK_WAIT(check, queue);
    memset(copy.model, 0x42, bytes);
    CHECK_SAME(check, host, copy.model, bytes);
    return true;
}

/* A hint in any direction and of any part: only where the pages are may change. */
static bool prefetch(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr, plain;
    uint8_t *expected;
    const uint64_t bytes = 200000;

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC_KIND(check, device, bytes, VRAM_MEMORY_MANAGED, &addr);
    CHECK_ALLOC(check, device, bytes, &plain);
    CHECK_TRY(check_host_seeded(check, bytes, 31, &expected));
    check_seed((uint8_t *)(uintptr_t)addr, bytes, 31);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_OK(check, vram_queue_prefetch(queue, addr, bytes, i % 2 != 0));
        CHECK_OK(check, vram_queue_prefetch(queue, addr + 4096, 10000, i % 3 == 0));
        CHECK_WAIT(check, queue);
        CHECK_SAME(check, (const uint8_t *)(uintptr_t)addr, expected, bytes);
    }
    CHECK_STATUS(check, vram_queue_prefetch(queue, plain, 4096, false), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_prefetch(queue, 0, 4096, false), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_prefetch(queue, addr, UINT64_MAX, false), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_prefetch(queue, addr, 0, false));
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check, vram_queue_prefetch(queue, addr, 4096, false), VRAM_ERR_INVALID);
    return true;
}

/* A hint of any kind and for any part: contents stay. */
static bool advice(struct check *check) {
    struct check_device *device;
    vram_addr addr, plain;
    uint8_t *expected;
    const uint64_t bytes = 200000;

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_OPEN(check, &device);
    CHECK_ALLOC_KIND(check, device, bytes, VRAM_MEMORY_MANAGED, &addr);
    CHECK_ALLOC(check, device, bytes, &plain);
    CHECK_TRY(check_host_seeded(check, bytes, 47, &expected));
    check_seed((uint8_t *)(uintptr_t)addr, bytes, 47);
    for (int i = VRAM_ADVICE_PREFER_HOST; i >= VRAM_ADVICE_NONE; i--) {
        CHECK_OK(check, vram_device_advise(device->device, addr, bytes, (vram_advice)i));
        CHECK_OK(check, vram_device_advise(device->device, addr + 8192, 4096, (vram_advice)i));
        CHECK_SAME(check, (const uint8_t *)(uintptr_t)addr, expected, bytes);
    }
    CHECK_STATUS(check, vram_device_advise(device->device, addr, bytes, (vram_advice)4),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_advise(device->device, addr, bytes, (vram_advice)-1),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_advise(device->device, plain, 4096, VRAM_ADVICE_NONE),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_advise(device->device, addr, UINT64_MAX, VRAM_ADVICE_NONE),
                 VRAM_ERR_INVALID);
    CHECK_OK(check, vram_device_advise(device->device, addr, 0, VRAM_ADVICE_NONE));
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check, vram_device_advise(device->device, addr, 4096, VRAM_ADVICE_NONE),
                 VRAM_ERR_INVALID);
    return true;
}

/* Counted with the device's memory, because that is where it ends up. */
static bool account(struct check *check) {
    struct check_device *device;
    vram_addr one, two, refused = CHECK_CANARY;
    vram_native_info native = {.size = sizeof native};

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_OPEN(check, &device);
    CHECK_ALLOC_KIND(check, device, 1, VRAM_MEMORY_MANAGED, &one);
    CHECK_ALLOC_KIND(check, device, 123456, VRAM_MEMORY_MANAGED, &two);
    CHECK_LEDGER(check, device);
    CHECK_OK(check, vram_native(two + 99, &native));
    CHECK_THAT(check, native.kind == VRAM_MEMORY_MANAGED && native.offset == 99);
    CHECK_THAT(check, native.host_pointer == (void *)(uintptr_t)(two + 99));
    CHECK_FREE(check, device, one);
    CHECK_LEDGER(check, device);
    CHECK_STATUS(check, vram_device_free(device->device, one), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_alloc(device->device, 0, VRAM_MEMORY_MANAGED, &refused),
                 VRAM_ERR_INVALID);
    CHECK_EQUAL(check, refused, CHECK_CANARY);
    return true;
}

const struct check_case check_cases_managed[] = {
    {"managed.both_sides", "host and device see each other's writes at one address", both_sides},
    {"managed.prefetch", "prefetching moves memory, never changes it, and refuses other memory",
     prefetch},
    {"managed.advice", "advice changes nothing but where memory lies", advice},
    {"managed.account", "managed blocks are counted, found and freed", account},
    {NULL, NULL, NULL},
};
