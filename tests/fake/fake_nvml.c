/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvml.c: NVIDIA's management library for tests.
 *
 *   FAKE_NVML_PROCESSES=PID:BYTES,...  what its one device runs; "self" for the calling process,
 *                                      and "?" for bytes that are not available
 *   FAKE_NVML_USED=BYTES               of its memory, 4 GiB, that other processes use (0)
 *   FAKE_NVML_FAIL=NAME[:CODE]         the call that answers that code, or "unknown error"; 3:
 *                                      "not supported", where host and device share one memory
 *   FAKE_NVML_HANG=PATH                no lists and figures before that file is gone
 *   FAKE_NVML_LIE=WHAT                 devices: there are 70 at unknown places; uuid: it is none;
 *                                      memory: more is free than there is; list: longer than the
 *                                      room for it; room: there is never enough
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE_API __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char text[32];
};

struct memory {
    unsigned long long total, free, used;
};

FAKE_API int nvmlInit_v2(void);
FAKE_API int nvmlShutdown(void);
FAKE_API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                                     struct process *processes);

FAKE_API int nvmlDeviceGetCount_v2(unsigned *count);
FAKE_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
FAKE_API int nvmlDeviceGetName(void *device, char *name, unsigned bytes);
FAKE_API int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes);
FAKE_API int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info);
FAKE_API int nvmlDeviceGetMemoryInfo(void *device, struct memory *info);
FAKE_API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count,
                                                      struct process *processes);

#define UUID "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"

static int started;

/* The code that a call must answer. */
static int failing(const char *name) {
    const char *text = getenv("FAKE_NVML_FAIL");
    size_t length = strlen(name);
    if (!text || strncmp(text, name, length) != 0 || (text[length] && text[length] != ':')) {
        return SUCCESS;
    }
    return text[length] ? atoi(text + length + 1) : UNKNOWN;
}

static int lies(const char *what) {
    const char *text = getenv("FAKE_NVML_LIE");
    return text && strcmp(text, what) == 0;
}

static void hang(void) {
    const char *path = getenv("FAKE_NVML_HANG");
    while (path && access(path, F_OK) == 0) {
        usleep(1000);
    }
}

int nvmlInit_v2(void) {
    if (failing("init")) {
        return failing("init");
    }
    started++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    return started ? (started--, SUCCESS) : UNINITIALIZED;
}

/* The first device of the fake CUDA driver. */
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (!started || failing("device")) {
        return started ? failing("device") : UNINITIALIZED;
    }
    if (strcmp(uuid, UUID) != 0) {
        return NOT_FOUND;
    }
    *device = &started;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                            struct process *processes) {
    const char *text = getenv("FAKE_NVML_PROCESSES");
    unsigned room = *count, found = 0;
    hang();
    if (device != &started || failing("processes")) {
        return device == &started ? failing("processes") : UNKNOWN;
    }
    while (text && *text) {
        struct process process = {.used_bytes = ~0ull};
        const char *colon = strchr(text, ':'), *comma = strchr(text, ',');
        process.pid =
            strncmp(text, "self", 4) == 0 ? (unsigned)getpid() : (unsigned)strtoul(text, NULL, 10);
        if (colon && colon[1] != '?') {
            process.used_bytes = strtoull(colon + 1, NULL, 0);
        }
        if (found < room) {
            processes[found] = process;
        }
        found++;
        text = comma ? comma + 1 : NULL;
    }
    *count = lies("list") ? room + 1 : found;
    return found > room || lies("room") ? INSUFFICIENT_SIZE : SUCCESS;
}

/* -------------------------- what `vram top` and `vram run` ask for, of the same device */

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = lies("devices") ? 70 : 1;
    return failing("count");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &started;
    return (index == 0 || lies("devices")) && started ? failing("device") : NOT_FOUND;
}

int nvmlDeviceGetName(void *device, char *name, unsigned bytes) {
    (void)device;
    snprintf(name, bytes, "Fake GPU");
    return failing("name");
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes) {
    (void)device;
    snprintf(uuid, bytes, "%s", lies("uuid") ? "GPU-0102" : UUID);
    return failing("uuid");
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info) {
    (void)device;
    *info = (struct pci){.bus = 0x3b, .text = "00000000:3B:00.0"};
    return lies("devices") ? UNKNOWN : failing("pci");
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *info) {
    const char *text = getenv("FAKE_NVML_USED"); /* of a smaller device, for `vram run` */
    unsigned long long used = text ? strtoull(text, NULL, 0) : 20ull << 30;
    (void)device;
    hang();
    info->total = text ? 4ull << 30 : 80ull << 30;
    info->used = used;
    info->free = lies("memory") ? info->total + 1 : info->total - used;
    return failing("memory");
}

/* A process that computes is in this list too, as on a real driver. */
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count,
                                             struct process *processes) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}
