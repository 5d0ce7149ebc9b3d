/* SPDX-License-Identifier: Apache-2.0 */
/* cases_vmm.c: reserved ranges and physical handles, each by itself. cases_mapping.c joins them. */
#include "case.h"

/* Each goes back before the next comes, so nothing is left to hide a wrong size. */
static bool rounding(struct check *check) {
    struct check_device *device;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    uint64_t granule = device->info.vmm_granule.value;
    const uint64_t sizes[] = {1, granule - 1, granule, granule + 1, 3 * granule - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        vram_physical *physical;
        vram_addr base;
        check_note(check, "%llu bytes", (unsigned long long)sizes[i]);
        CHECK_PHYSICAL(check, device, sizes[i], &physical); /* its size is checked */
        CHECK_RANGE(check, device, sizes[i], &base);        /* and its alignment */
        CHECK_PHYSICAL_END(check, device, physical);
        CHECK_OK(check, vram_range_destroy(device->device, base));
    }
    CHECK_LEDGER(check, device);
    return true;
}

/* Addresses cost nothing, memory does. */
static bool account(struct check *check) {
    struct check_device *device;
    vram_physical *one, *two;
    vram_addr base;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    CHECK_RANGE(check, device, UINT64_C(16) << 30, &base);
    CHECK_LEDGER(check, device);
    CHECK_PHYSICAL(check, device, 1, &one);
    CHECK_LEDGER(check, device);
    CHECK_PHYSICAL(check, device, 2 * device->info.vmm_granule.value, &two);
    CHECK_LEDGER(check, device);
    CHECK_OK(check, vram_range_map(device->device, base, &one, 1));
    CHECK_LEDGER(check, device); /* mapping moves nothing */
    CHECK_PHYSICAL_END(check, device, two);
    CHECK_LEDGER(check, device);
    return true;
}

/* The largest range is more than any address space; the largest handle more than the device. */
static bool bad_sizes(struct check *check) {
    struct check_device *device;
    vram_physical *canary = (vram_physical *)(uintptr_t)CHECK_CANARY, *physical = canary, *fine;
    vram_addr base = CHECK_CANARY;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    vram_device *handle = device->device;
    CHECK_STATUS(check, vram_physical_create(handle, 0, &physical), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_physical_create(handle, UINT64_MAX, &physical), VRAM_ERR_OVERFLOW);
    CHECK_STATUS(check, vram_physical_create(handle, 1, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_create(handle, 0, &base), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_create(handle, UINT64_MAX, &base), VRAM_ERR_OVERFLOW);
    CHECK_STATUS(check, vram_range_create(handle, 1, NULL), VRAM_ERR_INVALID);
    CHECK_EXHAUSTED(check, vram_range_create(handle, UINT64_C(1) << 63, &base));
    if (device->info.memory_bytes.known) {
        uint64_t bytes = device->info.memory_bytes.value + device->info.vmm_granule.value;
        CHECK_EXHAUSTED(check, vram_physical_create(handle, bytes, &physical));
    }
    CHECK_THAT(check, physical == canary && base == CHECK_CANARY);
    CHECK_LEDGER(check, device);
    CHECK_PHYSICAL(check, device, 1, &fine); /* and it goes on working */
    return true;
}

/* Reserved addresses are finite too: making and ending many must not use them up. */
static bool range_end(struct check *check) {
    struct check_device *device, *other;
    vram_addr base, later, block;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    CHECK_OPEN(check, &other);
    uint64_t granule = device->info.vmm_granule.value;
    CHECK_RANGE(check, device, 4 * granule, &base);
    CHECK_ALLOC(check, device, 1, &block);
    CHECK_STATUS(check, vram_range_destroy(device->device, 0), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_destroy(device->device, base + granule), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_destroy(device->device, base + 4 * granule), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_destroy(device->device, block), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_range_destroy(other->device, base), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(device->device, base), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_range_destroy(device->device, base));
    CHECK_STATUS(check, vram_range_destroy(device->device, base), VRAM_ERR_INVALID);
    for (uint32_t i = 0; i < check_rounds(check, 50); i++) {
        CHECK_RANGE(check, device, (1 + i % 7) * granule, &later);
        CHECK_OK(check, vram_range_destroy(device->device, later));
    }
    return true;
}

/* A handle is checked by its number; pointers and handles of other kinds are not followed. */
static bool physical_end(struct check *check) {
    struct check_device *device;
    vram_physical *physical;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_OPEN(check, &device);
    CHECK_OK(check, vram_physical_destroy(NULL));
    CHECK_EQUAL(check, vram_physical_bytes(NULL), 0);
    CHECK_PHYSICAL(check, device, 1, &physical);
    CHECK_PHYSICAL_END(check, device, physical);
    CHECK_STATUS(check, vram_physical_destroy(physical), VRAM_ERR_STALE);
    CHECK_REFUSED(check, vram_physical_destroy((vram_physical *)(uintptr_t)CHECK_CANARY));
    CHECK_REFUSED(check, vram_physical_destroy((vram_physical *)(void *)device->device));
    CHECK_LEDGER(check, device);
    return true;
}

const struct check_case check_cases_vmm[] = {
    {"vmm.rounding", "ranges and handles of any size are rounded to the granule", rounding},
    {"vmm.account", "handles count as held memory, addresses and mappings do not", account},
    {"vmm.bad_sizes", "absurd sizes are refused and leave nothing behind", bad_sizes},
    {"vmm.range_end", "a range is destroyed by its base only, once, on its own device", range_end},
    {"vmm.physical_end", "a handle is destroyed once; unknown ones are refused", physical_end},
    {NULL, NULL, NULL},
};
