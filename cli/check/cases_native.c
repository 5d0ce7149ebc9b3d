/* SPDX-License-Identifier: Apache-2.0 */
/* cases_native.c: what vram_native says lies behind an address. */
#include "case.h"

#include <string.h>

/* One lookup against what the case knows. */
static bool describes(struct check *check, struct check_device *device, vram_addr base,
                      uint64_t offset) {
    vram_native_info native = {.size = sizeof native};
    bool true_address = check_has(check, VRAM_CAP_TRUE_ADDRESS);
    bool host_access = check_has(check, VRAM_CAP_HOST_ACCESS);

    CHECK_OK(check, vram_native(base + offset, &native));
    CHECK_EQUAL(check, native.size, sizeof native);
    CHECK_THAT(check, native.device == device->device);
    CHECK_THAT(check, native.kind == VRAM_MEMORY_DEVICE);
    CHECK_EQUAL(check, native.base, base);
    CHECK_EQUAL(check, native.offset, offset);
    CHECK_THAT(check, (native.host_pointer != NULL) == host_access);
    if (true_address) {
        CHECK_THAT(check, native.device_address.known);
        CHECK_EQUAL(check, native.device_address.value, base + offset);
    }
    return true;
}

/* Interior addresses are what kernels and libraries are handed. */
static bool lookup(struct check *check) {
    struct check_device *device;
    vram_addr addr;

    CHECK_OPEN(check, &device);
    uint64_t granule = check_granule(device), bytes = 3 * granule;
    CHECK_ALLOC(check, device, bytes, &addr);
    const uint64_t offsets[] = {0, 1, granule - 1, granule, granule + 1, bytes - 1};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        check_note(check, "offset %llu", (unsigned long long)offsets[i]);
        CHECK_TRY(describes(check, device, addr, offsets[i]));
    }
    return true;
}

/* Lookups meet any 64-bit number; none may be followed. */
static bool not_there(struct check *check) {
    struct check_device *device;
    vram_native_info native = {.size = sizeof native}, small = {.size = 1};
    vram_addr addr;
    int local = 0;

    CHECK_OPEN(check, &device);
    CHECK_ALLOC(check, device, 1, &addr);
    CHECK_STATUS(check, vram_native(0, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_native(1, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_native(UINT64_MAX, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_native((uintptr_t)&local, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_native(addr, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_native(addr, &small), VRAM_ERR_INVALID);
    CHECK_FREE(check, device, addr);
    CHECK_STATUS(check, vram_native(addr, &native), VRAM_ERR_INVALID);
    CHECK_THAT(check, native.device == NULL && native.base == 0);
    return true;
}

/* What lies directly behind a block is either nothing or another block, never the same one. */
static bool past_end(struct check *check) {
    struct check_device *device;
    vram_addr addr;
    vram_native_info own = {.size = sizeof own}, next = {.size = sizeof next};

    CHECK_OPEN(check, &device);
    CHECK_ALLOC(check, device, 1, &addr);
    CHECK_OK(check, vram_native(addr, &own));
    vram_status status = vram_native(addr + own.bytes, &next);
    CHECK_THAT(check, status == VRAM_ERR_INVALID || next.base != addr);
    status = vram_native(addr - 1, &next);
    CHECK_THAT(check, status == VRAM_ERR_INVALID || next.base != addr);
    return true;
}

/* Where the host may dereference device memory there is one memory, not two copies of it. */
static bool host_pointer(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;
    vram_native_info native = {.size = sizeof native};

    CHECK_NEEDS(check, VRAM_CAP_HOST_ACCESS);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 9000, &buffer);
    CHECK_WAIT(check, queue);
    CHECK_OK(check, vram_native(buffer.addr + 100, &native));
    CHECK_SAME(check, (const uint8_t *)native.host_pointer, buffer.model + 100, 8900);
    memset(native.host_pointer, 0x3C, 8000); /* and the device sees what the host writes */
    memset(buffer.model + 100, 0x3C, 8000);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Addresses are unique in the process: no two contexts or handles may share one. */
static bool unique(struct check *check) {
    vram_context *context;
    struct check_device *devices[3];
    vram_addr addrs[24];
    vram_native_info native = {.size = sizeof native};

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN(check, &devices[0]);
    CHECK_OPEN(check, &devices[1]);
    CHECK_OPEN_OF(check, context, check->target->device, &devices[2]);
    for (uint32_t i = 0; i < 24; i++) {
        CHECK_ALLOC(check, devices[i % 3], 1, &addrs[i]);
        for (uint32_t j = 0; j < i; j++) {
            CHECK_OK(check, vram_native(addrs[j], &native));
            CHECK_THAT(check, native.device == devices[j % 3]->device);
            CHECK_THAT(check, addrs[i] < addrs[j] || addrs[i] >= addrs[j] + native.bytes);
        }
    }
    return true;
}

/* Blocks of a pool, where memory has handles: each first address has one, and always the same. */
static bool pool_blocks(struct check *check) {
    struct check_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr blocks[4];
    vram_native_info first[4], again = {.size = sizeof again}, inside = again;
    bool handles = check_has(check, VRAM_CAP_HANDLES);

    CHECK_NEEDS_POOLS(check);
    CHECK_OPEN(check, &device);
    device->unledgered = true; /* what a pool takes is its own affair */
    CHECK_QUEUE(check, device, &queue);
    CHECK_OK(check, vram_pool_create(device->device, NULL, &pool));
    for (uint32_t i = 0; i < 4; i++) {
        first[i].size = sizeof first[i];
        CHECK_OK(check, vram_alloc(pool, 3000 + i * 5000, queue, &blocks[i]));
        CHECK_OK(check, vram_native(blocks[i], &first[i]));
        CHECK_EQUAL(check, first[i].base + first[i].offset, blocks[i]);
        CHECK_THAT(check, first[i].bytes - first[i].offset >= 3000 + i * 5000);
        CHECK_THAT(check, (first[i].handle != NULL) == handles);
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(check, vram_native(blocks[i], &again));
        CHECK_THAT(check, again.handle == first[i].handle && again.offset == first[i].offset);
        CHECK_OK(check, vram_native(blocks[i] + 1000, &inside));
        CHECK_EQUAL(check, inside.base + inside.offset, blocks[i] + 1000);
        CHECK_THAT(check, (inside.handle != NULL) == handles);
        for (uint32_t j = 0; handles && j < i; j++) {
            CHECK_THAT(check,
                       first[i].handle != first[j].handle || first[i].offset != first[j].offset);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(check, vram_free(blocks[i], queue));
    }
    vram_pool_destroy(pool);
    CHECK_STATUS(check, vram_native(blocks[0], &again), VRAM_ERR_INVALID);
    return true;
}

const struct check_case check_cases_native[] = {
    {"native.lookup", "base, interior and last address of a block resolve to it", lookup},
    {"native.not_there", "addresses without live memory are refused, freed ones too", not_there},
    {"native.past_end", "addresses before and after a block do not belong to it", past_end},
    {"native.host_pointer", "the host pointer shows the device's memory, both ways", host_pointer},
    {"native.pool_blocks", "a pool's blocks have handles where memory has, always the same",
     pool_blocks},
    {"native.unique", "an address belongs to one device in the whole process", unique},
    {NULL, NULL, NULL},
};
