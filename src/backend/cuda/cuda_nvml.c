/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_nvml.c: memory of a device that other processes hold, from NVIDIA's management library
 * (NVML), if it is installed.
 *
 * The driver reports only free and total bytes. NVML is loaded when it is first needed, because it
 * can hang on failing machines, and a program that never runs out of memory should not risk that.
 * It then stays loaded, as drivers do.
 *
 * NVML identifies processes by numbers that may belong to another namespace. So the result is known
 * only if the list contains this process, and no process without a size.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>

#define SONAME        "libnvidia-ml.so.1"
#define PROCESSES_MAX 1024

enum { NVML_SUCCESS = 0 };

struct nvml_device;

/* nvmlProcessInfo_t of the calls below. */
struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* UINT64_MAX: not available */
    unsigned gpu_instance, compute_instance;
};

struct nvml_api {
    int (*init)(void);
    int (*shutdown)(void);
    int (*device_by_uuid)(const char *uuid, struct nvml_device **device);
    int (*processes)(struct nvml_device *device, unsigned *count, struct nvml_process *processes);
};

static const struct vr_symbol symbols[] = {
    {"nvmlInit_v2", NULL, offsetof(struct nvml_api, init), false},
    {"nvmlShutdown", NULL, offsetof(struct nvml_api, shutdown), false},
    {"nvmlDeviceGetHandleByUUID", NULL, offsetof(struct nvml_api, device_by_uuid), false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
     offsetof(struct nvml_api, processes), false},
};

/* Finds the device by its UUID, as a whole GPU or as a part of one (MIG). */
static bool nvml_device_find(const struct nvml_api *api, const struct vram_device_info *info,
                             struct nvml_device **device) {
    static const char *const kinds[] = {"GPU", "MIG"};
    const unsigned char *id = info->uuid;
    char text[48];
    bool found = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && info->uuid_known && !found; i++) {
        snprintf(text, sizeof text,
                 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 kinds[i], id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9],
                 id[10], id[11], id[12], id[13], id[14], id[15]);
        found = api->device_by_uuid(text, device) == NVML_SUCCESS;
    }
    return found;
}

/* Adds up the memory of other processes; false if it cannot be known. */
static bool processes_sum(const struct nvml_process *processes, unsigned count, uint64_t *bytes) {
    uint64_t sum = 0;
    bool self = false;
    for (unsigned i = 0; i < count; i++) {
        if (processes[i].pid == vr_os_process_id()) {
            self = true;
        } else if (processes[i].used_bytes > UINT64_MAX / 2 - sum) {
            return false;
        } else {
            sum += processes[i].used_bytes;
        }
    }
    *bytes = sum;
    return self;
}

static vram_status nvml_query(const struct nvml_api *api, const struct vram_device_info *info,
                              vram_value *bytes) {
    struct nvml_device *device = NULL;
    unsigned count = PROCESSES_MAX;
    struct nvml_process *processes = vr_mem_alloc(PROCESSES_MAX, sizeof *processes, "others");
    if (!processes) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *bytes = (vram_value){0, false};
    if (nvml_device_find(api, info, &device) &&
        api->processes(device, &count, processes) == NVML_SUCCESS && count <= PROCESSES_MAX) {
        bytes->known = processes_sum(processes, count, &bytes->value);
        bytes->value = bytes->known ? bytes->value : 0;
    }
    vr_mem_free(processes);
    return VRAM_OK;
}

vram_status vr_cuda_others(struct vr_device *device, vram_value *bytes) {
    char path[VR_OPTION_TEXT_MAX];
    struct vr_library library;
    struct nvml_api api;
    vram_error before;
    vr_option_text(VR_OPTION_NVML_LIBRARY, path);
    const char *const sonames[] = {*path ? path : SONAME, NULL};
    vram_value found = {0, false};
    vr_error_save(&before);
    vram_status status = vr_library_open(&library, "cuda", sonames, symbols,
                                         sizeof symbols / sizeof symbols[0], &api);
    if (status != VRAM_OK) {
        vr_error_restore(&before); /* unknown, not an error: contract (8) */
        *bytes = found;
        return VRAM_OK;
    }
    if (api.init() == NVML_SUCCESS) {
        status = nvml_query(&api, &device->info, &found);
        (void)api.shutdown();
    }
    if (status == VRAM_OK) {
        *bytes = found;
    }
    return status;
}
