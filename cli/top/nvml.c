/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c: devices and processes by NVIDIA's management library, which is loaded if it is installed.
 * It sees processes of all users; of those in another container it may give another id.
 *
 * Its calls may never return on a machine with a failing GPU. So a thread of its own makes them,
 * and whoever asks waits for WAIT_S at most. A thread that does not come back is left behind.
 */
#include "top/outsider.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vram/vram.h>

enum { SUCCESS = 0, INSUFFICIENT_SIZE = 7, PROCESSES_MAX = 1024, WAIT_S = 1 };

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
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by `lock`. */
    bool asked;              /* a question is under way; the first is whether the library starts */
    bool stop;               /* the thread shall end */
    bool ended;              /* it has: the library did not start, or it was told to */
    struct outsiders answer; /* to the last question */
};

static bool nvml_load(struct nvml *nvml) {
#define NVML_CALL(name, symbol, parameters, required)                                              \
    {symbol, offsetof(struct nvml, name), required},
    static const struct {
        const char *symbol;
        size_t field;
        bool required;
    } calls[] = {NVML_CALLS(NVML_CALL)};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(nvml->library, calls[i].symbol);
        if (found == NULL && calls[i].required) {
            return false;
        }
        memcpy((char *)nvml + calls[i].field, &found, sizeof found); /* no cast from data to code */
    }
    return true;
}

bool nvml_uuid_read(const char *text, uint8_t uuid[16]) {
    const char *at = strchr(text, '-');
    at = at != NULL ? at : text;
    for (size_t i = 0; i < 16; i++, at += 2) {
        unsigned byte = 0;
        at += *at == '-';
        if (!isxdigit((unsigned char)at[0]) || !isxdigit((unsigned char)at[1])) {
            return false;
        }
        (void)sscanf(at, "%2x", &byte);
        uuid[i] = (uint8_t)byte;
    }
    return true;
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
        nvml->uuid(handle, text, sizeof text) == SUCCESS && nvml_uuid_read(text, device->uuid);
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
    int code = list(handle, &count, nvml->processes);
    outsiders->cut = outsiders->cut || code == INSUFFICIENT_SIZE;
    if (code != SUCCESS || count > PROCESSES_MAX) {
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

static void devices_read(struct nvml *nvml, struct outsiders *outsiders) {
    unsigned count = 0;
    if (nvml->count(&count) != SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        struct nvml_device *handle;
        size_t device =
            nvml->by_index(i, &handle) == SUCCESS ? device_add(nvml, handle, outsiders) : SIZE_MAX;
        if (device != SIZE_MAX) {
            processes_add(nvml, handle, device, nvml->compute, outsiders);
            if (nvml->graphics != NULL) {
                processes_add(nvml, handle, device, nvml->graphics, outsiders);
            }
        }
    }
}

/* -------------------------------------------------------------------- the thread */

/* Under the lock. Returns whether the next question came. */
static bool question_wait(struct nvml *nvml) {
    nvml->asked = false;
    pthread_cond_broadcast(&nvml->changed);
    while (!nvml->asked && !nvml->stop) {
        pthread_cond_wait(&nvml->changed, &nvml->lock);
    }
    return nvml->asked;
}

static void *nvml_run(void *user) {
    struct nvml *nvml = user;
    bool started = nvml->init() == SUCCESS;
    pthread_mutex_lock(&nvml->lock);
    while (started && question_wait(nvml)) {
        outsiders_free(&nvml->answer);
        pthread_mutex_unlock(&nvml->lock);
        struct outsiders found = {0};
        devices_read(nvml, &found);
        pthread_mutex_lock(&nvml->lock);
        nvml->answer = found;
    }
    pthread_mutex_unlock(&nvml->lock);
    if (started) {
        nvml->shutdown();
    }
    pthread_mutex_lock(&nvml->lock);
    nvml->asked = false;
    nvml->ended = true;
    pthread_cond_broadcast(&nvml->changed);
    pthread_mutex_unlock(&nvml->lock);
    return NULL;
}

static bool thread_begin(struct nvml *nvml) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&nvml->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&nvml->lock, NULL);
    nvml->asked = true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the other thread's */
    bool good = pthread_create(&nvml->thread, NULL, nvml_run, nvml) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

/* Under the lock. Waits until `*state` is `wanted`; false: the time is over. */
static bool thread_wait(struct nvml *nvml, const bool *state, bool wanted) {
    struct timespec until = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    while (*state != wanted && pthread_cond_timedwait(&nvml->changed, &nvml->lock, &until) == 0) {
    }
    return *state == wanted;
}

/* ---------------------------------------------------------------------- callers */

static void nvml_free(struct nvml *nvml) {
    if (nvml->library != NULL) {
        dlclose(nvml->library);
    }
    outsiders_free(&nvml->answer);
    free(nvml);
}

struct nvml *nvml_open(void) {
    char path[256] = "";
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL) {
        return NULL;
    }
    vram_option_get("nvml_library", path, sizeof path, NULL);
    nvml->library = dlopen(path[0] != 0 ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL || !nvml_load(nvml) || !thread_begin(nvml)) {
        nvml_free(nvml);
        return NULL;
    }
    pthread_mutex_lock(&nvml->lock);
    (void)thread_wait(nvml, &nvml->asked, false);
    bool ended = nvml->ended;
    pthread_mutex_unlock(&nvml->lock);
    if (ended) {
        nvml_close(nvml);
        return NULL;
    }
    return nvml;
}

void nvml_close(struct nvml *nvml) {
    if (nvml == NULL) {
        return;
    }
    pthread_mutex_lock(&nvml->lock);
    nvml->stop = true;
    pthread_cond_broadcast(&nvml->changed);
    bool ended = thread_wait(nvml, &nvml->ended, true);
    pthread_mutex_unlock(&nvml->lock);
    if (ended) {
        pthread_join(nvml->thread, NULL);
        nvml_free(nvml);
    } else {
        pthread_detach(nvml->thread); /* what it may still use is left to it */
    }
}

/* Only who asks waits: while an old question is open, there is no answer, at once. */
void nvml_read(struct nvml *nvml, struct outsiders *outsiders) {
    if (nvml == NULL) {
        return;
    }
    pthread_mutex_lock(&nvml->lock);
    bool answered = false;
    if (!nvml->asked) {
        nvml->asked = true;
        pthread_cond_broadcast(&nvml->changed);
        answered = thread_wait(nvml, &nvml->asked, false);
    }
    if (answered) {
        *outsiders = nvml->answer;
        nvml->answer = (struct outsiders){0};
    }
    outsiders->silent = !answered;
    pthread_mutex_unlock(&nvml->lock);
}
