/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c: devices and processes by NVIDIA's management library, which is loaded if it is installed.
 * It sees processes of all users; of those in another container it may give another id.
 */
#include "top/outsider.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/vram.h>

enum { SUCCESS = 0, PROCESSES_MAX = 1024 };

struct nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32]; /* "00000000:3B:00.0" */
};

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* UINT64_MAX: not available */
    unsigned gpu_instance, compute_instance;
};

/* X(name, symbol, parameters, required) */
#define NVML_CALLS(X)                                                                              \
    X(init, "nvmlInit_v2", (void), true)                                                           \
    X(shutdown, "nvmlShutdown", (void), true)                                                      \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *), true)                                          \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, struct nvml_device **), true)          \
    X(name, "nvmlDeviceGetName", (struct nvml_device *, char *, unsigned), true)                   \
    X(uuid, "nvmlDeviceGetUUID", (struct nvml_device *, char *, unsigned), true)                   \
    X(pci, "nvmlDeviceGetPciInfo_v3", (struct nvml_device *, struct nvml_pci *), true)             \
    X(memory, "nvmlDeviceGetMemoryInfo", (struct nvml_device *, struct nvml_memory *), true)       \
    X(compute, "nvmlDeviceGetComputeRunningProcesses_v3",                                          \
      (struct nvml_device *, unsigned *, struct nvml_process *), true)                             \
    X(graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3",                                        \
      (struct nvml_device *, unsigned *, struct nvml_process *), false)

struct nvml {
    void *library;
    struct nvml_process processes[PROCESSES_MAX];
#define NVML_FIELD(name, symbol, parameters, required) int(*name) parameters;
    NVML_CALLS(NVML_FIELD)
};

static bool nvml_load(struct nvml *nvml) {
    bool complete = true;
    void *found;
#define NVML_LOAD(name, symbol, parameters, required)                                              \
    found = dlsym(nvml->library, symbol);                                                          \
    complete = complete && (found != NULL || !(required));                                         \
    memcpy(&nvml->name, &found, sizeof found); /* C has no cast from data to code */
    NVML_CALLS(NVML_LOAD)
    return complete;
}

struct nvml *nvml_open(void) {
    char path[256] = "";
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL) {
        return NULL;
    }
    vram_option_get("nvml_library", path, sizeof path, NULL);
    nvml->library = dlopen(path[0] != 0 ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library != NULL && nvml_load(nvml) && nvml->init() == SUCCESS) {
        return nvml;
    }
    if (nvml->library != NULL) {
        dlclose(nvml->library);
    }
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml) {
    if (nvml != NULL) {
        nvml->shutdown();
        dlclose(nvml->library);
        free(nvml);
    }
}

/* "GPU-01020304-0506-..." */
static bool uuid_read(const char *text, uint8_t uuid[16]) {
    const char *at = strchr(text, '-');
    size_t done = 0;
    for (; at != NULL && done < 16; done++) {
        unsigned byte;
        at += *at == '-';
        if (sscanf(at, "%2x", &byte) != 1 || strlen(at) < 2) {
            return false;
        }
        uuid[done] = (uint8_t)byte;
        at += 2;
    }
    return done == 16;
}

/* The driver writes eight digits of the domain, and capitals; the kernel four. */
static void pci_read(const struct nvml_pci *info, char pci[16]) {
    snprintf(pci, 16, "%04x:%02x:%02x.0", info->domain & 0xffff, info->bus & 0xff,
             info->device & 0xff);
}

static size_t device_add(struct nvml *nvml, struct nvml_device *handle,
                         struct outsiders *outsiders) {
    struct nvml_pci info = {0};
    struct nvml_memory memory;
    char pci[16] = "", text[96] = "";
    if (nvml->pci(handle, &info) == SUCCESS) {
        pci_read(&info, pci);
    }
    size_t index = outsiders_device(outsiders, pci);
    if (index == SIZE_MAX) {
        return index;
    }
    struct outsider_device *device = &outsiders->devices[index];
    if (nvml->name(handle, device->name, sizeof device->name) != SUCCESS) {
        device->name[0] = 0;
    }
    device->name[sizeof device->name - 1] = 0;
    device->uuid_known =
        nvml->uuid(handle, text, sizeof text) == SUCCESS && uuid_read(text, device->uuid);
    if (nvml->memory(handle, &memory) == SUCCESS && memory.free <= memory.total) {
        device->total_bytes = memory.total;
        device->free_bytes = memory.free;
    }
    return index;
}

/* A process that computes and draws is in both lists with the same bytes. */
static void processes_add(struct nvml *nvml, struct nvml_device *handle, size_t device,
                          int (*list)(struct nvml_device *, unsigned *, struct nvml_process *),
                          struct outsiders *outsiders) {
    unsigned count = PROCESSES_MAX;
    if (list == NULL || list(handle, &count, nvml->processes) != SUCCESS || count > PROCESSES_MAX) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned long long bytes = nvml->processes[i].used_bytes;
        if (outsiders_has(outsiders, device, nvml->processes[i].pid)) {
            continue;
        }
        outsiders_add(outsiders, device, nvml->processes[i].pid,
                      bytes < UINT64_MAX / 4 ? bytes : OUTSIDER_UNKNOWN, OUTSIDER_UNKNOWN);
    }
}

void nvml_read(struct nvml *nvml, struct outsiders *outsiders) {
    unsigned count = 0;
    if (nvml == NULL || nvml->count(&count) != SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < count && i < OUTSIDER_DEVICES_MAX; i++) {
        struct nvml_device *handle;
        size_t device =
            nvml->by_index(i, &handle) == SUCCESS ? device_add(nvml, handle, outsiders) : SIZE_MAX;
        if (device != SIZE_MAX) {
            processes_add(nvml, handle, device, nvml->compute, outsiders);
            processes_add(nvml, handle, device, nvml->graphics, outsiders);
        }
    }
}
