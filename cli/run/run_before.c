/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_before.c: see run_before.h. NVML is asked here and not in the program, whose time it would
 * take. It may never answer on a machine with a failing GPU: a thread of its own asks, and the
 * program starts without the figures if they have not come after NVML_WAIT.
 */
#include "run_before.h"
#include "environment.h"
#include "top/outsider.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NVML_WAIT 2000 /* ms, about */

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*device)(unsigned index, void **device);
    int (*uuid)(void *device, char *text, unsigned bytes);
    int (*memory)(void *device, struct memory *memory);
};

static bool nvml_load(void *library, struct nvml *nvml) {
    static const char *const names[] = {"nvmlInit_v2",           "nvmlShutdown",
                                        "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
                                        "nvmlDeviceGetUUID",     "nvmlDeviceGetMemoryInfo"};
    void *found[sizeof names / sizeof names[0]];
    _Static_assert(sizeof found == sizeof *nvml, "one name for each function");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = dlsym(library, names[i]);
        if (found[i] == NULL) {
            return false;
        }
    }
    memcpy(nvml, found, sizeof *nvml);
    return true;
}

static struct run_before found[RUN_DEVICES];
static atomic_bool is_read; /* all of it */

static void devices_read(const struct nvml *nvml) {
    unsigned count = 0;
    if (nvml->count(&count) != 0) {
        return;
    }
    for (unsigned i = 0; i < count && i < RUN_DEVICES; i++) {
        struct run_before *before = &found[i];
        struct memory memory;
        char text[96] = "";
        void *device;
        if (nvml->device(i, &device) == 0 && nvml->uuid(device, text, sizeof text) == 0 &&
            nvml->memory(device, &memory) == 0 && nvml_uuid_read(text, before->uuid)) {
            before->used = memory.used + 1;
        }
    }
}

static void *nvml_read_all(void *unused) {
    struct nvml nvml;
    const char *path = environment_get("VRAM_NVML_LIBRARY");
    void *library = dlopen(path != NULL ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL && nvml_load(library, &nvml) && nvml.init() == 0) {
        devices_read(&nvml);
        nvml.shutdown();
    }
    if (library != NULL) {
        dlclose(library);
    }
    atomic_store(&is_read, true);
    return unused;
}

void run_before_read(struct run_page *page) {
    const struct timespec moment = {0, 1000000};
    pthread_t thread;
    memset(found, 0, sizeof found);
    atomic_store(&is_read, false);
    if (pthread_create(&thread, NULL, nvml_read_all, NULL) != 0) {
        return;
    }
    for (int ms = 0; ms < NVML_WAIT && !atomic_load(&is_read); ms++) {
        (void)nanosleep(&moment, NULL);
    }
    if (atomic_load(&is_read)) {
        pthread_join(thread, NULL);
        memcpy(page->settings.before, found, sizeof found);
    } else {
        pthread_detach(thread);
    }
}
