/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.c: calls that take and give memory, with a ledger of what the device must hold by them.
 *
 * The library's accounting is compared with the ledger after every failure, when nothing may have
 * changed, and whenever a case asks. Out-parameters hold a canary before each call: a failing call
 * that writes one is found out.
 */
#include "case.h"

static bool differ(struct check *check, const char *what, uint64_t found, uint64_t expected,
                   struct check_place place) {
    return check_fail(check, place, "%s is %llu, but the calls made so far add up to %llu", what,
                      (unsigned long long)found, (unsigned long long)expected);
}

static bool compare(struct check *check, const struct check_device *device,
                    const vram_memory_info *info, struct check_place place) {
    if (info->held_bytes != device->held_bytes) {
        return differ(check, "held_bytes", info->held_bytes, device->held_bytes, place);
    }
    if (info->held_count != device->held_count) {
        return differ(check, "held_count", info->held_count, device->held_count, place);
    }
    if (info->held_peak_bytes != device->held_peak_bytes) {
        return differ(check, "held_peak_bytes", info->held_peak_bytes, device->held_peak_bytes,
                      place);
    }
    return true;
}

bool check_ledger_at(struct check *check, struct check_device *device, struct check_place place) {
    vram_memory_info info = {.size = sizeof info};
    CHECK_TRY(check_ok(check, vram_memory_info_get(device->device, &info), place));
    return compare(check, device, &info, place);
}

bool check_unchanged_at(struct check *check, struct check_device *device,
                        struct check_place place) {
    vram_memory_info info = {.size = sizeof info};
    if (!device->unledgered && vram_memory_info_get(device->device, &info) == VRAM_OK) {
        compare(check, device, &info, place);
    }
    return false;
}

static void take(struct check_device *device, uint64_t bytes) {
    device->held_bytes += bytes;
    device->held_count += 1;
    if (device->held_bytes > device->held_peak_bytes) {
        device->held_peak_bytes = device->held_bytes;
    }
}

static void give(struct check_device *device, uint64_t bytes) {
    device->held_bytes -= bytes;
    device->held_count -= 1;
}

/* What every fresh address must be like: known, the size asked for or more, aligned, the
   device's. */
static bool fresh(struct check *check, struct check_device *device, vram_addr addr, uint64_t bytes,
                  vram_memory_kind kind, struct check_place place) {
    vram_native_info native = {.size = sizeof native};
    CHECK_TRY(check_ok(check, vram_native(addr, &native), place));
    if (kind == VRAM_MEMORY_DEVICE && device->info.alloc_granule.known) {
        uint64_t rounded = check_round_up(bytes, device->info.alloc_granule.value);
        CHECK_TRY(check_equal(check, native.bytes, rounded, place));
        CHECK_TRY(check_equal(check, addr % device->info.alloc_granule.value, 0, place));
    }
    if (native.base != addr || native.bytes < bytes || native.kind != kind ||
        native.device != device->device) {
        return check_fail(check, place, "vram_native does not describe it");
    }
    take(device, native.bytes);
    return true;
}

/* Takes memory of any kind and looks at it the way every user would. */
bool check_alloc_at(struct check *check, struct check_device *device, uint64_t bytes,
                    vram_memory_kind kind, vram_addr *addr, struct check_place place) {
    vram_addr given = CHECK_CANARY;
    if (!check_ok(check, vram_device_alloc(device->device, bytes, kind, &given), place)) {
        check_equal(check, given, CHECK_CANARY, place);
        return check_unchanged_at(check, device, place);
    }
    *addr = given;
    return fresh(check, device, given, bytes, kind, place);
}

/* A free that fails must leave the block as it was: found, and counted. */
bool check_free_at(struct check *check, struct check_device *device, vram_addr addr,
                   struct check_place place) {
    vram_native_info before = {.size = sizeof before}, after = {.size = sizeof after};
    CHECK_TRY(check_ok(check, vram_native(addr, &before), place));
    if (!check_ok(check, vram_device_free(device->device, addr), place)) {
        if (vram_native(addr, &after) != VRAM_OK || after.bytes != before.bytes) {
            check_fail(check, place, "the free failed, yet the memory is no longer known");
        }
        return check_unchanged_at(check, device, place);
    }
    give(device, before.bytes);
    return true;
}

/* Addresses only: the ledger does not change. */
bool check_range_at(struct check *check, struct check_device *device, uint64_t bytes,
                    vram_addr *base, struct check_place place) {
    vram_addr given = CHECK_CANARY;
    if (!check_ok(check, vram_range_create(device->device, bytes, &given), place)) {
        check_equal(check, given, CHECK_CANARY, place);
        return check_unchanged_at(check, device, place);
    }
    *base = given;
    CHECK_TRY(check_that(check, given != 0, place));
    return check_equal(check, given % device->info.vmm_granule.value, 0, place);
}

/* Memory without an address is looked up by its handle instead. */
bool check_physical_at(struct check *check, struct check_device *device, uint64_t bytes,
                       vram_physical **physical, struct check_place place) {
    vram_physical *canary = (vram_physical *)(uintptr_t)CHECK_CANARY, *given = canary;
    if (!check_ok(check, vram_physical_create(device->device, bytes, &given), place)) {
        check_that(check, given == canary, place);
        return check_unchanged_at(check, device, place);
    }
    *physical = given;
    uint64_t rounded = check_round_up(bytes, device->info.vmm_granule.value);
    CHECK_TRY(check_equal(check, vram_physical_bytes(given), rounded, place));
    take(device, rounded);
    return true;
}

bool check_physical_end_at(struct check *check, struct check_device *device,
                           vram_physical *physical, struct check_place place) {
    uint64_t bytes = vram_physical_bytes(physical);
    if (!check_ok(check, vram_physical_destroy(physical), place)) {
        check_equal(check, vram_physical_bytes(physical), bytes, place);
        return check_unchanged_at(check, device, place);
    }
    give(device, bytes);
    return check_equal(check, vram_physical_bytes(physical), 0, place);
}

bool check_queue_at(struct check *check, struct check_device *device, vram_queue **queue,
                    struct check_place place) {
    vram_queue *canary = (vram_queue *)(uintptr_t)CHECK_CANARY, *given = canary;
    if (!check_ok(check, vram_queue_create(device->device, NULL, &given), place)) {
        check_that(check, given == canary, place);
        return check_unchanged_at(check, device, place);
    }
    *queue = given;
    return check_that(check, given != NULL, place);
}

bool check_wait_at(struct check *check, vram_queue *queue, struct check_place place) {
    return check_ok(check, vram_queue_wait(queue, CHECK_DEADLINE_NS), place);
}
