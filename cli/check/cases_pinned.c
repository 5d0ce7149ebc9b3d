/* SPDX-License-Identifier: Apache-2.0 */
/* cases_pinned.c: page-locked host memory. */
#include "case.h"

#include <string.h>

/* There and back through one pinned block; each half is compared, the device's side as well. */
static bool through(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_addr pinned;
    uint8_t *expected;
    const uint64_t bytes = 70001;

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_WAIT(check, queue);
    CHECK_ALLOC_KIND(check, device, 2 * bytes, VRAM_MEMORY_PINNED, &pinned);
    uint8_t *host = (uint8_t *)(uintptr_t)pinned;
    CHECK_TRY(check_host_seeded(check, 2 * bytes, 11, &expected));
    check_seed(host, 2 * bytes, 11);
    CHECK_OK(check, vram_queue_upload(queue, buffer.addr, host, bytes));
    CHECK_OK(check, vram_queue_download(queue, host + bytes, buffer.addr, bytes));
    CHECK_WAIT(check, queue);
    memcpy(buffer.model, expected, bytes);
    memcpy(expected + bytes, expected, bytes);
    CHECK_VERIFY(check, &buffer);
    CHECK_SAME(check, host, expected, 2 * bytes);
    return true;
}

/* Pinned memory is the scarcest of all; what is lost of it is lost for every program. */
static bool account(struct check *check) {
    struct check_device *device;
    vram_addr addrs[6];
    vram_native_info native = {.size = sizeof native};

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_OPEN(check, &device);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_ALLOC_KIND(check, device, 1 + i * 3000, VRAM_MEMORY_PINNED, &addrs[i]);
        CHECK_LEDGER(check, device);
        memset((void *)(uintptr_t)addrs[i], (int)i, 1 + i * 3000);
        CHECK_EQUAL(check, addrs[i] % 4096, 0);
        CHECK_OK(check, vram_native(addrs[i] + i, &native));
        CHECK_THAT(check, native.kind == VRAM_MEMORY_PINNED && native.offset == i);
        CHECK_THAT(check, native.host_pointer == (void *)(uintptr_t)(addrs[i] + i));
    }
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQUAL(check, ((const uint8_t *)(uintptr_t)addrs[i])[i * 3000], i);
        CHECK_FREE(check, device, addrs[i]);
        CHECK_STATUS(check, vram_device_free(device->device, addrs[i]), VRAM_ERR_INVALID);
    }
    CHECK_LEDGER(check, device);
    return true;
}

/* The system's own limit answers for the largest, the library for the rest. */
static bool bad_sizes(struct check *check) {
    struct check_device *device;
    vram_addr addr = CHECK_CANARY, fine;

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_OPEN(check, &device);
    vram_device *handle = device->device;
    CHECK_STATUS(check, vram_device_alloc(handle, 0, VRAM_MEMORY_PINNED, &addr), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_alloc(handle, UINT64_MAX, VRAM_MEMORY_PINNED, &addr),
                 VRAM_ERR_OVERFLOW);
    CHECK_EXHAUSTED(check, vram_device_alloc(handle, UINT64_C(1) << 62, VRAM_MEMORY_PINNED, &addr));
    CHECK_EQUAL(check, addr, CHECK_CANARY);
    CHECK_LEDGER(check, device);
    CHECK_ALLOC_KIND(check, device, 5000, VRAM_MEMORY_PINNED, &fine);
    memset((void *)(uintptr_t)fine, 1, 5000);
    return true;
}

/* Blocks of a pool are pinned memory like any: transfers go through the middle of the driver's
   pieces. */
static bool pooled(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    struct check_stock stock;
    vram_addr first, second;
    vram_block_info info = {.size = sizeof info};
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    const uint64_t bytes = 30001;

    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_WAIT(check, queue);
    CHECK_STOCK(check, device, &options, &stock);
    stock.foreign = true;
    CHECK_TAKE(check, &stock, bytes, queue, &first);
    CHECK_TAKE(check, &stock, bytes, queue, &second);
    CHECK_OK(check, vram_block_info_get(second, &info));
    CHECK_THAT(check, info.kind == VRAM_MEMORY_PINNED);
    check_seed((void *)(uintptr_t)first, bytes, 12);
    check_seed(buffer.model, bytes, 12);
    CHECK_OK(check, vram_queue_upload(queue, buffer.addr, (void *)(uintptr_t)first, bytes));
    CHECK_OK(check, vram_queue_download(queue, (void *)(uintptr_t)second, buffer.addr, bytes));
    CHECK_WAIT(check, queue);
    CHECK_VERIFY(check, &buffer);
    CHECK_SAME(check, (const uint8_t *)(uintptr_t)second, buffer.model, bytes);
    CHECK_GIVE(check, &stock, first, queue);
    CHECK_GIVE(check, &stock, second, queue);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* What the system or the backend cannot lock is refused with a reason, and copies of it work all
   the same. */
static bool in_place(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_pinned_info info = {.size = sizeof info};
    uint8_t *host;
    const uint64_t bytes = 40001;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, bytes, &buffer);
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_host_seeded(check, bytes, 13, &host));
    vram_status status = vram_pinned_begin(device->device, host, bytes);
    if (status == VRAM_ERR_UNSUPPORTED || vram_status_is_exhausted(status)) {
        return true;
    }
    CHECK_OK(check, status);
    memcpy(buffer.model, host, bytes);
    vram_status copied = vram_queue_upload(queue, buffer.addr, host, bytes);
    if (copied == VRAM_OK) {
        copied = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    }
    status = vram_pinned_end(device->device, host, bytes);
    CHECK_OK(check, copied);
    CHECK_OK(check, status);
    CHECK_VERIFY(check, &buffer);
    CHECK_OK(check, vram_pinned_info_get(device->device, &info));
    CHECK_THAT(check, info.entries == 1 && info.entries_used == 0 && info.entry_bytes >= bytes);
    CHECK_OK(check, vram_pinned_forget(device->device, host, bytes));
    CHECK_OK(check, vram_pinned_info_get(device->device, &info));
    CHECK_EQUAL(check, info.entries, 0);
    CHECK_OK(check, vram_device_trim(device->device, CHECK_TRIM(.flags = VRAM_TRIM_PINNED), NULL));
    return true;
}

const struct check_case check_cases_pinned[] = {
    {"pinned.through", "the host writes pinned memory and transfers go through it", through},
    {"pinned.account", "pinned blocks are counted, found, aligned and freed", account},
    {"pinned.bad_sizes", "absurd sizes are refused, and pinning still works", bad_sizes},
    {"pinned.pool", "a pool of pinned memory hands out blocks that transfers go through", pooled},
    {"pinned.in_place", "memory of the program is locked where it lies, or refused", in_place},
    {NULL, NULL, NULL},
};
