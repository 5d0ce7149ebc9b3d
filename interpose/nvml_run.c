/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml_run.c: NVIDIA's management library says the same about memory as the limited CUDA driver.
 */
#include "dl_entry.h"
#include "run_record.h"

#include <stdio.h>
#include <string.h>

#define RUN_EXPORT __attribute__((visibility("default")))

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml_memory_v2 { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

RUN_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
RUN_EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);

static struct run_entry entries[] = {
    {"nvmlDeviceGetMemoryInfo", NULL, 0, false, (void *)(uintptr_t)nvmlDeviceGetMemoryInfo, NULL},
    {"nvmlDeviceGetMemoryInfo_v2", NULL, 0, false, (void *)(uintptr_t)nvmlDeviceGetMemoryInfo_v2,
     NULL},
    {"nvmlDeviceGetUUID", NULL, 0, false, NULL, NULL}, /* only called */
};

enum { INFO = 0, INFO_V2 = 1, UUID = 2, NOT_FOUND = 13 /* NVML_ERROR_FUNCTION_NOT_FOUND */ };

struct run_driver run_nvml_driver = {
    "nvmlDeviceGetMemoryInfo", "libnvidia-ml.so", "libnvidia-ml.so.1", entries, UUID, NULL};

/* "GPU-01020304-0506-...": the digits are the identity. */
static bool uuid_parse(const char *text, unsigned char uuid[16]) {
    const char *at = strchr(text, '-');
    unsigned count = 0;
    for (at = at ? at + 1 : text; *at && count < 16;) {
        unsigned byte;
        if (*at == '-') {
            at++;
        } else if (sscanf(at, "%2x", &byte) == 1 && at[1]) {
            uuid[count++] = (unsigned char)byte;
            at += 2;
        } else {
            return false;
        }
    }
    return count == 16;
}

/* The recorder's number of a device; NVML and CUDA may count in different orders. */
static uint32_t device_of_nvml(void *device) {
    char text[96] = "";
    unsigned char uuid[16];
    void *found = run_entry_real(&run_nvml_driver, &entries[UUID]);
    int (*get)(void *, char *, unsigned) = (int (*)(void *, char *, unsigned))(uintptr_t)found;
    bool known = get && get(device, text, sizeof text) == 0 && uuid_parse(text, uuid);
    return known ? run_device_by_uuid(uuid) : RUN_NO_DEVICE;
}

static void memory_view(void *device, unsigned long long *total, unsigned long long *free,
                        unsigned long long *used) {
    uint64_t all = *total, left = *free;
    run_limit_view(device_of_nvml(device), &left, &all);
    *total = all;
    *free = left;
    *used = all - (left < all ? left : all);
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    void *real = run_entry_real(&run_nvml_driver, &entries[INFO]);
    int code =
        real ? ((__typeof__(&nvmlDeviceGetMemoryInfo))(uintptr_t)real)(device, memory) : NOT_FOUND;
    if (code == 0 && memory && run_limit_bytes()) {
        memory_view(device, &memory->total, &memory->free, &memory->used);
    }
    return code;
}

/* What the driver reserves is part of neither free nor used memory. */
int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory) {
    void *real = run_entry_real(&run_nvml_driver, &entries[INFO_V2]);
    int code = real ? ((__typeof__(&nvmlDeviceGetMemoryInfo_v2))(uintptr_t)real)(device, memory)
                    : NOT_FOUND;
    if (code == 0 && memory && run_limit_bytes()) {
        memory_view(device, &memory->total, &memory->free, &memory->used);
        memory->reserved = 0;
    }
    return code;
}
