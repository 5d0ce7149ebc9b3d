/* SPDX-License-Identifier: Apache-2.0 */
/* fake_plan.c: how tests steer the fake driver: environment, fault plan, journal, control table. */
#include "fake/fake_state.h"
#include "fake/strike.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --------------------------------------------------------------------- plan */

static struct strike plan = {.names = fake_names, .count = FAKE_CALL_COUNT, .last = ""};

static void plan_set(const char *name, uint64_t nth, vr_cu_result code, enum fake_cuda_lie lie,
                     bool for_ever) {
    pthread_mutex_lock(&fake.lock);
    strike_set(&plan, name, nth, code, lie, for_ever);
    pthread_mutex_unlock(&fake.lock);
}

vr_cu_result fake_strike(enum fake_call call) {
    bool struck = strike_now(&plan, call);
    fake_thread.lie = struck ? (enum fake_cuda_lie)plan.lie : FAKE_CUDA_TRUE;
    return struck ? plan.code : VR_CU_SUCCESS;
}

static struct {
    unsigned call; /* before which */
    void (*run)(void);
} meanwhile;

void fake_meanwhile(enum fake_call call) {
    void (*run)(void) = NULL;
    pthread_mutex_lock(&fake.lock);
    if (meanwhile.run && meanwhile.call == call) {
        run = meanwhile.run;
        meanwhile.run = NULL;
    }
    pthread_mutex_unlock(&fake.lock);
    if (run) {
        run();
    }
}

/* -------------------------------------------------------------- environment */

static struct attribute_row {
    enum vr_cu_attribute attribute;
    int hip; /* its number there, or -1 */
    int normal, value;
    const char *name; /* in the environment, behind FAKE_CUDA_ or FAKE_HIP_ */
} attributes[] = {
    {VR_CU_ATTRIBUTE_INTEGRATED, 16, 0, 0, "INTEGRATED"},
    {VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING, 85, 1, 1, "UNIFIED"},
    {VR_CU_ATTRIBUTE_MAJOR, 23, 9, 9, "MAJOR"},
    {VR_CU_ATTRIBUTE_MINOR, 61, 0, 0, "MINOR"},
    {VR_CU_ATTRIBUTE_HOST_ADDRESS, -1, 1, 1, "HOST_ADDRESS"},
    {VR_CU_ATTRIBUTE_MEMORY_OPS_V1, -1, 1, 1, "MEMORY_OPS"},
    {VR_CU_ATTRIBUTE_VMM, 89, 1, 1, "VMM"},
    {VR_CU_ATTRIBUTE_DESCRIPTORS, -1, 1, 1, "DESCRIPTORS"},
    {VR_CU_ATTRIBUTE_FABRIC, -1, 0, 0, "FABRIC"},
    {VR_CU_ATTRIBUTE_RDMA, -1, 1, 1, "RDMA"},
    {VR_CU_ATTRIBUTE_MANAGED, 24, 1, 1, "MANAGED"},
    {VR_CU_ATTRIBUTE_CONCURRENT_MANAGED, 9, 1, 1, "MANAGED"},
    {VR_CU_ATTRIBUTE_MEMORY_OPS, 10013, 1, 1, "MEMORY_OPS"},
};

enum { ATTRIBUTE_COUNT = sizeof attributes / sizeof attributes[0] };

const char *fake_environment(const char *name) {
    char full[64];
    snprintf(full, sizeof full, "FAKE_%s_%s", fake_speaks_hip() ? "HIP" : "CUDA", name);
    return getenv(full);
}

static uint64_t environment(const char *name, uint64_t otherwise) {
    const char *text = fake_environment(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* Settings that cuInit finds and reset() comes back to. */
static void settings_from_environment(void) {
    fake.device_count = (int)environment("DEVICES", 1);
    fake.device_count = fake.device_count > FAKE_DEVICES_MAX ? FAKE_DEVICES_MAX : fake.device_count;
    fake.name = fake_environment("NAME") ? fake_environment("NAME") : "Fake GPU";
    fake.capacity = environment("MEMORY", UINT64_C(4) << 30);
    fake.version = (int)environment("VERSION", fake_speaks_hip() ? 60443484 : 13000);
    fake.delay_us = (unsigned)environment("DELAY", 0);
    fake.export_us = (unsigned)environment("EXPORT_DELAY", 0);
    fake.no_functions = !environment("FUNCTIONS", 1);
    fake.cache_bytes = environment("CACHE", 0);
    fake.host_bytes = environment("HOST", 0);
    fake.ahead_bytes = environment("AHEAD", 0);
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        attributes[i].value = (int)environment(attributes[i].name, (uint64_t)attributes[i].normal);
    }
}

/* In a forked child the lock may be one that a thread of the parent held; nobody there looks. */
static void on_exit_begins(void) {
    if (fake.process != (int)getpid()) {
        return;
    }
    pthread_mutex_lock(&fake.lock);
    fake.exiting = true;
    pthread_mutex_unlock(&fake.lock);
}

void fake_wake_up(void) {
    static bool awake;
    if (awake) {
        return;
    }
    awake = true;
    fake.process = (int)getpid();
    settings_from_environment();
    strike_set_text(&plan, fake_environment("FAIL"));
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        struct fake_device *device = &fake.devices[i];
        device->ordinal = i;
        device->file = -1;
        device->primary = (struct vr_cu_context){.device = device, .primary = true};
        device->other = (struct vr_cu_context){.device = device, .alive = true};
    }
    atexit(on_exit_begins);
}

void fake_journal(enum fake_call call) {
    const char *path = fake_environment("JOURNAL");
    char line[96];
    bool forked = fake.process != (int)getpid();
    if (!path || (!fake.exiting && !forked)) {
        return;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) {
        int bytes =
            snprintf(line, sizeof line, "%s %s\n", forked ? "fork" : "exit", fake_names[call]);
        if (write(file, line, (size_t)bytes) < 0) {
            fake.violations++;
        }
        close(file);
    }
}

/* ------------------------------------------------------------------ control */

int fake_attribute(int number) {
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        int own = fake_speaks_hip() ? attributes[i].hip : (int)attributes[i].attribute;
        if (own == number) {
            return attributes[i].value;
        }
    }
    return -1;
}

static void control_reset(void) {
    plan_set(NULL, 0, 0, FAKE_CUDA_TRUE, false);
    pthread_mutex_lock(&fake.lock);
    meanwhile.run = NULL;
    while (fake.calling) { /* its memory is about to go */
        pthread_cond_wait(&fake.changed, &fake.lock);
    }
    fake_wake_up();
    settings_from_environment();
    fake.held = false;
    fake.pinned_offset = 0;
    fake.free_waits = false;
    fake.free_held = false;
    fake.violations = 0;
    fake.violation = "";
    fake.captured = 0;
    fake_streams_reset();
    fake_memory_reset();
    fake_modules_reset();
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        fake.devices[i].peers = 0;
        fake.devices[i].sticky = 0;
        fake.devices[i].retains = 0;
    }
    memset(&fake.live, 0, sizeof fake.live);
    fake_thread.mode = VR_CU_MODE_GLOBAL;
    fake_thread.device = 0;
    fake_thread.last = VR_CU_SUCCESS;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void control_devices(int count) {
    pthread_mutex_lock(&fake.lock);
    fake.device_count = count;
    pthread_mutex_unlock(&fake.lock);
}

static void control_capacity(uint64_t bytes) {
    pthread_mutex_lock(&fake.lock);
    fake.capacity = bytes;
    pthread_mutex_unlock(&fake.lock);
}

static void control_version(int version) {
    pthread_mutex_lock(&fake.lock);
    fake.version = version;
    pthread_mutex_unlock(&fake.lock);
}

static void control_attribute(enum vr_cu_attribute attribute, int value) {
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        if (attributes[i].attribute == attribute) {
            attributes[i].value = value;
        }
    }
    pthread_mutex_unlock(&fake.lock);
}

static void control_refuse(const char *name, uint64_t nth, vr_cu_result code, bool for_ever) {
    plan_set(name, nth, code, FAKE_CUDA_TRUE, for_ever);
}

static void control_lie(const char *name, uint64_t nth, enum fake_cuda_lie lie, bool for_ever) {
    plan_set(name, nth, VR_CU_SUCCESS, lie, for_ever);
}

static void control_meanwhile(const char *name, void (*call)(void)) {
    pthread_mutex_lock(&fake.lock);
    meanwhile.call = strike_call(&plan, name);
    meanwhile.run = call;
    pthread_mutex_unlock(&fake.lock);
}

static uint64_t control_struck(void) {
    pthread_mutex_lock(&fake.lock);
    uint64_t struck = plan.struck;
    pthread_mutex_unlock(&fake.lock);
    return struck;
}

static uint64_t control_calls(const char *name) {
    pthread_mutex_lock(&fake.lock);
    unsigned call = name ? strike_call(&plan, name) : FAKE_CALL_COUNT;
    uint64_t calls = call == FAKE_CALL_COUNT ? plan.total : plan.counts[call];
    pthread_mutex_unlock(&fake.lock);
    return calls;
}

static const char *control_last_call(void) {
    return plan.last;
}

static void control_lose(int device, vr_cu_result code) {
    pthread_mutex_lock(&fake.lock);
    fake.devices[device].sticky = code;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void control_device_reset(int device) {
    pthread_mutex_lock(&fake.lock);
    fake_device_reset(&fake.devices[device]);
    pthread_mutex_unlock(&fake.lock);
}

static unsigned control_depth(void) {
    return fake_thread.depth;
}

static void control_push_other(int device) {
    fake_thread.stack[fake_thread.depth++] = &fake.devices[device].other;
}

static void control_pop(void) {
    fake_thread.depth--;
}

static enum vr_cu_capture_mode control_thread_mode(void) {
    return fake_thread.mode;
}

static void control_live(struct fake_cuda_live *live) {
    pthread_mutex_lock(&fake.lock);
    *live = fake.live;
    live->total = live->allocations + live->reservations + live->physicals + live->mappings +
                  live->pinned + live->managed + live->streams + live->events + live->retains +
                  live->modules;
    live->device_bytes = 0;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        live->device_bytes += fake.devices[i].used;
    }
    pthread_mutex_unlock(&fake.lock);
}

static uint64_t control_violations(const char **text) {
    pthread_mutex_lock(&fake.lock);
    uint64_t violations = fake.violations;
    if (text) {
        *text = fake.violation ? fake.violation : "";
    }
    pthread_mutex_unlock(&fake.lock);
    return violations;
}

static vr_cu_result control_last_error(void) {
    return fake_thread.last;
}

static void control_pinned_offset(unsigned bytes) {
    pthread_mutex_lock(&fake.lock);
    fake.pinned_offset = bytes;
    pthread_mutex_unlock(&fake.lock);
}

static void control_free_waits(bool waits) {
    pthread_mutex_lock(&fake.lock);
    fake.free_waits = waits;
    pthread_mutex_unlock(&fake.lock);
}

static void control_free_held(bool held) {
    pthread_mutex_lock(&fake.lock);
    fake.free_held = held;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static bool control_peek(vr_cu_addr addr, void *to, size_t bytes) {
    bool found = false;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < FAKE_DEVICES_MAX && !found; i++) {
        found = fake_access(&fake.devices[i], addr, to, bytes, false);
    }
    pthread_mutex_unlock(&fake.lock);
    return found;
}

static bool control_reaches(int device, vr_cu_addr addr) {
    pthread_mutex_lock(&fake.lock);
    bool reaches = fake_reaches(device, addr);
    pthread_mutex_unlock(&fake.lock);
    return reaches;
}

static bool control_writable(int device, vr_cu_addr addr) {
    char byte;
    pthread_mutex_lock(&fake.lock);
    bool writable = fake_access(&fake.devices[device], addr, &byte, 1, false) &&
                    fake_access(&fake.devices[device], addr, &byte, 1, true);
    pthread_mutex_unlock(&fake.lock);
    return writable;
}

static int control_hinted(void) {
    pthread_mutex_lock(&fake.lock);
    int hinted = fake.hinted;
    pthread_mutex_unlock(&fake.lock);
    return hinted;
}

FAKE_API const struct fake_cuda_control *fake_cuda_control(void) {
    static struct fake_cuda_control control = {
        .reset = control_reset,
        .devices = control_devices,
        .capacity = control_capacity,
        .version = control_version,
        .attribute = control_attribute,
        .refuse = control_refuse,
        .lie = control_lie,
        .meanwhile = control_meanwhile,
        .struck = control_struck,
        .calls = control_calls,
        .last_call = control_last_call,
        .lose = control_lose,
        .device_reset = control_device_reset,
        .pinned_offset = control_pinned_offset,
        .free_waits = control_free_waits,
        .free_held = control_free_held,
        .current = fake_current_context,
        .depth = control_depth,
        .push_other = control_push_other,
        .pop = control_pop,
        .thread_mode = control_thread_mode,
        .last_error = control_last_error,
        .live = control_live,
        .violations = control_violations,
        .peek = control_peek,
        .reaches = control_reaches,
        .writable = control_writable,
        .hinted = control_hinted,
    };
    pthread_mutex_lock(&fake.lock);
    fake_stream_fill_control(&control);
    pthread_mutex_unlock(&fake.lock);
    return &control;
}
