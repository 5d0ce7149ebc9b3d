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
        int32_t own = i % 4 ? VRAM_TARGET_OWN : (int32_t)check->target->device;
        CHECK_OK(check, vram_queue_prefetch(queue, addr, bytes, i % 2 ? VRAM_TARGET_HOST : own));
        CHECK_OK(check, vram_queue_prefetch(queue, addr + 4096, 10000,
                                            i % 3 ? VRAM_TARGET_OWN : VRAM_TARGET_HOST));
        CHECK_WAIT(check, queue);
        CHECK_SAME(check, (const uint8_t *)(uintptr_t)addr, expected, bytes);
    }
    CHECK_STATUS(check, vram_queue_prefetch(queue, plain, 4096, VRAM_TARGET_OWN), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_prefetch(queue, 0, 4096, VRAM_TARGET_OWN), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_prefetch(queue, addr, UINT64_MAX, VRAM_TARGET_OWN),
                 VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_prefetch(queue, addr, 0, VRAM_TARGET_OWN));
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check, vram_queue_prefetch(queue, addr, 4096, VRAM_TARGET_OWN), VRAM_ERR_INVALID);
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
    const int32_t targets[] = {(int32_t)check->target->device, VRAM_TARGET_HOST, VRAM_TARGET_OWN};
    for (int i = 0; i < 9; i++) {
        vram_advice advised = (vram_advice)(VRAM_ADVICE_PREFER - i % 3);
        CHECK_OK(check, vram_device_advise(device->device, addr, bytes, advised, targets[i / 3]));
        CHECK_OK(check,
                 vram_device_advise(device->device, addr + 8192, 4096, advised, targets[i / 3]));
        CHECK_SAME(check, (const uint8_t *)(uintptr_t)addr, expected, bytes);
    }
    CHECK_STATUS(check,
                 vram_device_advise(device->device, addr, bytes, (vram_advice)3, VRAM_TARGET_OWN),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check,
                 vram_device_advise(device->device, addr, bytes, (vram_advice)-1, VRAM_TARGET_OWN),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check,
                 vram_device_advise(device->device, plain, 4096, VRAM_ADVICE_NONE, VRAM_TARGET_OWN),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(
        check,
        vram_device_advise(device->device, addr, UINT64_MAX, VRAM_ADVICE_NONE, VRAM_TARGET_OWN),
        VRAM_ERR_INVALID);
    CHECK_OK(check, vram_device_advise(device->device, addr, 0, VRAM_ADVICE_NONE, VRAM_TARGET_OWN));
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check,
                 vram_device_advise(device->device, addr, 4096, VRAM_ADVICE_NONE, VRAM_TARGET_OWN),
                 VRAM_ERR_INVALID);
    return true;
}

/* Any device of the backend is a target, by its index in the context; what no driver can do is
   refused with a reason, and so is an index that no device has. */
static bool targets(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr;
    uint8_t *expected;
    const uint64_t bytes = 100000;

    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC_KIND(check, device, bytes, VRAM_MEMORY_MANAGED, &addr);
    CHECK_TRY(check_host_seeded(check, bytes, 33, &expected));
    check_seed((uint8_t *)(uintptr_t)addr, bytes, 33);
    uint32_t count = vram_device_count(check->context);
    for (uint32_t i = 0; i < count; i++) {
        vram_device_info info = {.size = sizeof info};
        CHECK_OK(check, vram_device_info_get(check->context, i, &info));
        bool same = strcmp(info.backend, device->info.backend) == 0;
        bool reached = same || strcmp(info.backend, "host") == 0;
        bool only_own = same && i != check->target->device && strcmp(info.backend, "opencl") == 0;
        check_note(check, "target %u", i);
        vram_status advised =
            vram_device_advise(device->device, addr, bytes, VRAM_ADVICE_PREFER, (int32_t)i);
        vram_status moved = vram_queue_prefetch(queue, addr, bytes, (int32_t)i);
        if (!reached) {
            CHECK_STATUS(check, advised, VRAM_ERR_UNSUPPORTED);
        }
        if (!reached || only_own) {
            CHECK_STATUS(check, moved, VRAM_ERR_UNSUPPORTED);
        } else if (i == check->target->device || !same) {
            CHECK_OK(check, advised);
            CHECK_OK(check, moved);
        } else { /* another device may lack what this one has: then its driver says so */
            CHECK_THAT(check, moved == VRAM_OK || vram_error_get()->text[0]);
        }
        CHECK_WAIT(check, queue);
        CHECK_SAME(check, (const uint8_t *)(uintptr_t)addr, expected, bytes);
    }
    check_note(check, "%s", "");
    const int32_t none[] = {(int32_t)count, INT32_MAX, -3, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(check, vram_queue_prefetch(queue, addr, bytes, none[i]), VRAM_ERR_NO_DEVICE);
        CHECK_STATUS(check,
                     vram_device_advise(device->device, addr, bytes, VRAM_ADVICE_PREFER, none[i]),
                     VRAM_ERR_NO_DEVICE);
    }
    return true;
}

/* Blocks of a pool are managed memory like any, buffers too; a device without says so. */
static bool pooled(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_stock stock;
    vram_addr addrs[3];
    uint8_t *expected;
    void *host;
    vram_buffer *buffer;
    vram_pool_stats stats;
    vram_block_info block = {.size = sizeof block};
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_MANAGED};
    vram_buffer_options kind = {.size = sizeof kind, .kind = VRAM_BUFFER_MANAGED};
    const uint64_t bytes = 70001;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    if (!check_has(check, VRAM_CAP_MANAGED)) {
        vram_pool *none = NULL;
        CHECK_STATUS(check, vram_pool_create(device->device, &options, &none),
                     VRAM_ERR_UNSUPPORTED);
        CHECK_THAT(check, strstr(vram_error_get()->text, device->info.name) != NULL);
        return true;
    }
    CHECK_STOCK(check, device, &options, &stock);
    CHECK_TRY(check_host_seeded(check, bytes, 23, &expected));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE(check, &stock, bytes + i * 1000, queue, &addrs[i]);
        CHECK_OK(check, vram_block_info_get(addrs[i], &block));
        CHECK_THAT(check, block.kind == VRAM_MEMORY_MANAGED);
    }
    CHECK_STOCK_VERIFY(check, &stock); /* waits: the device wrote them */
    check_seed((uint8_t *)(uintptr_t)addrs[0], bytes, 23);
    CHECK_OK(check, vram_queue_prefetch(queue, addrs[0], bytes, VRAM_TARGET_OWN));
    CHECK_OK(check, vram_queue_copy(queue, addrs[1], addrs[0], bytes));
    CHECK_OK(check, vram_queue_prefetch(queue, addrs[1], bytes, VRAM_TARGET_HOST));
    CHECK_WAIT(check, queue);
    CHECK_SAME(check, (const uint8_t *)(uintptr_t)addrs[1], expected, bytes);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_OK(check, vram_buffer_create(stock.pool, bytes, queue, &kind, &buffer));
    CHECK_OK(check, vram_buffer_host(buffer, &host));
    check_seed(host, bytes, 23);
    CHECK_OK(check, vram_buffer_prefetch(buffer, 0, bytes, VRAM_TARGET_OWN, NULL));
    CHECK_WAIT(check, queue);
    CHECK_SAME(check, host, expected, bytes);
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.allocs == stats.frees && stats.hits + stats.misses == stats.allocs);
    CHECK_THAT(check, stats.other_bytes == 0); /* the buffer was a block of the pool */
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_trim(check, &stock, &stats));
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
    {"managed.targets", "hints name any device by its index; others are refused", targets},
    {"managed.pooled", "a pool of managed memory has blocks and buffers of it", pooled},
    {"managed.account", "managed blocks are counted, found and freed", account},
    {NULL, NULL, NULL},
};
