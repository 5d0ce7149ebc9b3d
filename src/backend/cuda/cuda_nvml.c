/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_nvml.c: memory of a device that other processes hold, from NVIDIA's management library
 * (NVML), if it is installed.
 *
 * The driver reports only free and total bytes. NVML is loaded when it is first needed, and then
 * stays loaded, as drivers do.
 *
 * Its calls may never return on a machine with a failing GPU. So a thread of its own makes them,
 * and whoever asked waits for NVML_WAIT at most. A thread that does not come back is left behind;
 * until it does, nobody asks again, and the memory of other processes is unknown.
 *
 * NVML identifies processes by numbers that may belong to another namespace. So the result is known
 * only if the list contains this process, and no process without a size.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>

#define SONAME        "libnvidia-ml.so.1"
#define PROCESSES_MAX 1024
#define NVML_WAIT     UINT64_C(1000000000) /* ns */

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

/* ------------------------------------------------------------------ a question */

enum question_state { IDLE = 0, ASKED = 1, ANSWERED = 2, ABANDONED = 3 };

/* The one question under way. Who claims it from IDLE writes the rest; an answer that nobody waits
   for any more is thrown away by the thread that has it. */
static struct {
    vr_atomic_u32 state;   /* enum question_state */
    vr_atomic_u64 process; /* vr_os_process_generation of the asking process */
    struct nvml_api api;
    struct vram_device_info info;
    struct nvml_process *processes;
    vram_value bytes; /* the answer */
    struct vr_thread thread;
} question;

static vram_value nvml_ask(void) {
    const struct nvml_api *api = &question.api;
    struct nvml_device *device = NULL;
    unsigned count = PROCESSES_MAX;
    vram_value bytes = {0, false};
    if (api->init() != NVML_SUCCESS) {
        return bytes;
    }
    if (nvml_device_find(api, &question.info, &device) &&
        api->processes(device, &count, question.processes) == NVML_SUCCESS &&
        count <= PROCESSES_MAX) {
        bytes.known = processes_sum(question.processes, count, &bytes.value);
        bytes.value = bytes.known ? bytes.value : 0;
    }
    (void)api->shutdown();
    return bytes;
}

static void question_answer(void *unused) {
    uint32_t asked = ASKED;
    (void)unused;
    question.bytes = nvml_ask();
    if (!vr_cas(&question.state, &asked, ANSWERED, VR_ACQ_REL)) {
        vr_mem_free(question.processes);
        vr_store(&question.state, IDLE, VR_RELEASE);
    }
}

/* A question that the parent process asked is nobody's in a forked child. */
static bool question_claim(void) {
    uint64_t process = vr_os_process_generation();
    uint64_t before = vr_exchange(&question.process, process, VR_ACQ_REL);
    uint32_t state = before == process ? IDLE : vr_load(&question.state, VR_ACQUIRE);
    return vr_cas(&question.state, &state, ASKED, VR_ACQ_REL);
}

/* Waits for the answer; false: it did not come in time. */
static bool question_wait(vram_value *bytes) {
    uint64_t end = vr_os_now() + NVML_WAIT;
    uint32_t asked = ASKED;
    while (vr_load(&question.state, VR_ACQUIRE) == ASKED && vr_os_now() < end) {
        vr_os_sleep(50000);
    }
    if (vr_cas(&question.state, &asked, ABANDONED, VR_ACQ_REL)) {
        vr_log(VRAM_LOG_WARN, "NVIDIA's management library does not answer");
        return false;
    }
    *bytes = question.bytes;
    vr_mem_free(question.processes);
    vr_store(&question.state, IDLE, VR_RELEASE);
    return true;
}

/* Asks on a thread of its own. Unknown is no error: contract (8). */
static vram_status nvml_query(const struct nvml_api *api, const struct vram_device_info *info,
                              vram_value *bytes) {
    struct nvml_process *processes = vr_mem_alloc(PROCESSES_MAX, sizeof *processes, "others");
    if (!processes) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (!question_claim()) {
        vr_mem_free(processes);
        return VRAM_OK;
    }
    question.api = *api;
    question.info = *info;
    question.processes = processes;
    vram_error before;
    vr_error_save(&before);
    if (vr_os_thread_start(&question.thread, "vram-nvml", question_answer, NULL) != VRAM_OK) {
        vr_error_restore(&before);
        vr_mem_free(processes);
        vr_store(&question.state, IDLE, VR_RELEASE);
        return VRAM_OK;
    }
    vr_os_thread_detach(&question.thread);
    (void)question_wait(bytes);
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
    status = nvml_query(&api, &device->info, &found);
    if (status == VRAM_OK) {
        *bytes = found;
    }
    return status;
}
