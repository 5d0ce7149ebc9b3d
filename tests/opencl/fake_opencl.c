/* SPDX-License-Identifier: Apache-2.0 */
/* fake_opencl.c: the fake's objects, platforms and devices, and its control. */
#include "opencl/fake_opencl.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLATFORMS_MAX = 4, DEVICES_MAX = 4 };

static const struct fake_opencl_settings usual = {.platforms = 1,
                                                  .devices = 1,
                                                  .gpu = 1,
                                                  .svm = 3,
                                                  .version = 300,
                                                  .available = 1,
                                                  .compiler = 1,
                                                  .priorities = 1,
                                                  .align_bits = 4096,
                                                  .lazy = 1,
                                                  .arg_info = 1,
                                                  .memory_mib = 1024,
                                                  .largest_mib = 256};
struct fake_opencl_settings fake_settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct vr_cl_platform platforms[PLATFORMS_MAX];
static struct vr_cl_device devices[PLATFORMS_MAX][DEVICES_MAX];
static struct fake_head *objects;
static uint64_t live, violations;
static const char *violation = "";
static struct vr_opencl_api api;

void fake_lock(void) {
    pthread_mutex_lock(&lock);
}

void fake_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ objects */

void fake_violate(const char *text) {
    violations++;
    violation = text;
}

void *fake_new(size_t bytes, char letter) {
    struct fake_head *head = calloc(1, bytes);
    head->magic = FAKE_MAGIC((unsigned char)letter);
    head->references = 1;
    head->next = objects;
    if (objects) {
        objects->before = head;
    }
    objects = head;
    live++;
    return head;
}

void fake_keep(struct fake_head *head) {
    head->references++;
}

bool fake_is(const void *object, char letter) {
    const struct fake_head *head = object;
    bool good = head && head->magic == FAKE_MAGIC((unsigned char)letter) && head->references > 0;
    if (!good) {
        fake_violate("an object that is none, or was given back, was used");
    }
    return good;
}

bool fake_drop(void *object, char letter) {
    return fake_is(object, letter) && --((struct fake_head *)object)->references == 0;
}

void fake_gone(void *object) {
    struct fake_head *head = object;
    head->magic = 0;
    *(head->before ? &head->before->next : &objects) = head->next;
    if (head->next) {
        head->next->before = head->before;
    }
    live--;
    free(object);
}

/* -------------------------------------------------------- platforms, devices */

static vr_cl_int get_platforms(vr_cl_uint room, struct vr_cl_platform **found, vr_cl_uint *count) {
    int present = fake_settings.platforms;
    *count = (vr_cl_uint)present;
    for (int i = 0; i < present && i < (int)room; i++) {
        found[i] = &platforms[i];
    }
    return present ? VR_CL_SUCCESS : VR_CL_PLATFORM_NOT_FOUND_KHR;
}

static vr_cl_int give(const void *from, size_t bytes, size_t room, void *to, size_t *needed) {
    if (needed) {
        *needed = bytes;
    }
    if (to && room < bytes) {
        return VR_CL_INVALID_VALUE;
    }
    if (to) {
        memcpy(to, from, bytes);
    }
    return VR_CL_SUCCESS;
}

static vr_cl_int get_platform_info(struct vr_cl_platform *platform, vr_cl_uint what, size_t bytes,
                                   void *value, size_t *needed) {
    char text[64];
    (void)platform;
    snprintf(text, sizeof text, what == VR_CL_PLATFORM_VERSION ? "OpenCL %d.%d Fake" : "Fake %d.%d",
             fake_settings.version / 100, fake_settings.version / 10 % 10);
    return give(text, strlen(text) + 1, bytes, value, needed);
}

static vr_cl_int get_devices(struct vr_cl_platform *platform, vr_cl_bits type, vr_cl_uint room,
                             struct vr_cl_device **found, vr_cl_uint *count) {
    static _Atomic(int) inside;
    int present = fake_settings.devices, index = (int)(platform - platforms);
    (void)type;
    *count = (vr_cl_uint)present;
    if (atomic_fetch_add(&inside, 1)) {
        fake_lock();
        fake_violate("two threads listed devices at once, which crashes PoCL 3.1");
        fake_unlock();
    }
    for (int i = 0; i < 50; i++) {
        sched_yield(); /* to the other thread */
    }
    for (int i = 0; i < present && i < (int)room; i++) {
        devices[index][i].head = (struct fake_head){.magic = FAKE_MAGIC('d'), .references = 1};
        devices[index][i].platform = platform;
        found[i] = &devices[index][i];
    }
    atomic_fetch_sub(&inside, 1);
    return present ? VR_CL_SUCCESS : VR_CL_DEVICE_NOT_FOUND;
}

static vr_cl_int device_text(vr_cl_uint what, size_t bytes, void *value, size_t *needed) {
    char text[160] = "Fake OpenCL device";
    if (what == VR_CL_DEVICE_VERSION) {
        snprintf(text, sizeof text, "OpenCL %d.%d fake", fake_settings.version / 100,
                 fake_settings.version / 10 % 10);
    } else if (what == VR_CL_DEVICE_EXTENSIONS && fake_settings.extensions) {
        snprintf(text, sizeof text, "%s", fake_settings.extensions);
    } else if (what == VR_CL_DEVICE_EXTENSIONS) {
        snprintf(text, sizeof text, "cl_khr_icd%s%s cl_khr_byte_addressable_store",
                 fake_settings.usm ? " cl_intel_unified_shared_memory" : "",
                 fake_settings.priorities ? " cl_khr_priority_hints" : "");
    }
    return give(text, strlen(text) + 1, bytes, value, needed);
}

static vr_cl_int get_device_info(struct vr_cl_device *device, vr_cl_uint what, size_t bytes,
                                 void *value, size_t *needed) {
    const uint64_t total = (uint64_t)fake_settings.memory_mib << 20;
    const uint64_t largest = (uint64_t)fake_settings.largest_mib << 20;
    const vr_cl_bits type = fake_settings.gpu ? 4 : VR_CL_DEVICE_TYPE_CPU;
    const vr_cl_bits svm = (vr_cl_bits)fake_settings.svm;
    const struct vr_cl_pci pci = {0, 7, 0, 0};
    const unsigned char own[16] = {0xFA, 0x4E, (unsigned char)(device - devices[0])};
    const unsigned char cuda[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const unsigned char *uuid = fake_settings.twin ? cuda : own;
    const struct {
        vr_cl_uint what;
        const void *value;
        size_t bytes;
    } rows[] = {
        {VR_CL_DEVICE_TYPE, &type, sizeof type},
        {VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, &largest, sizeof largest},
        {VR_CL_DEVICE_MEM_BASE_ADDR_ALIGN, &fake_settings.align_bits, 4},
        {VR_CL_DEVICE_GLOBAL_MEM_SIZE, &total, sizeof total},
        {VR_CL_DEVICE_AVAILABLE, &fake_settings.available, 4},
        {VR_CL_DEVICE_COMPILER_AVAILABLE, &fake_settings.compiler, 4},
        {VR_CL_DEVICE_SVM_CAPABILITIES, &svm, sizeof svm},
        {VR_CL_DEVICE_UUID_KHR, uuid, sizeof own},
        {VR_CL_DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof pci},
    };
    if (fake_settings.nvidia && (what == VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV ||
                                 what == VR_CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)) {
        vr_cl_uint number = what == VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV ? 9 : 0;
        return give(&number, sizeof number, bytes, value, needed);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].what == what) {
            return give(rows[i].value, rows[i].bytes, bytes, value, needed);
        }
    }
    return what == VR_CL_DEVICE_NAME || what == VR_CL_DEVICE_VERSION ||
                   what == VR_CL_DEVICE_EXTENSIONS
               ? device_text(what, bytes, value, needed)
               : VR_CL_INVALID_VALUE;
}

static void *get_extension(struct vr_cl_platform *platform, const char *name) {
    (void)platform;
    return fake_settings.usm ? fake_usm_call(name) : NULL;
}

/* ----------------------------------------------------------------- contexts */

static struct vr_cl_context *create_context(const vr_cl_props *props, vr_cl_uint count,
                                            struct vr_cl_device *const *of, vr_cl_fault_fn *fault,
                                            void *user, vr_cl_int *code) {
    (void)props, (void)count, (void)fault, (void)user;
    fake_lock();
    struct vr_cl_context *context = fake_new(sizeof *context, 'c');
    context->device = of[0];
    fake_unlock();
    *code = VR_CL_SUCCESS;
    return context;
}

void fake_context_drop(struct vr_cl_context *context) {
    if (fake_drop(context, 'c')) {
        fake_gone(context);
    }
}

static vr_cl_int retain_context(struct vr_cl_context *context) {
    fake_lock();
    fake_keep(&context->head);
    fake_unlock();
    return VR_CL_SUCCESS;
}

static vr_cl_int get_context_info(struct vr_cl_context *context, vr_cl_uint what, size_t bytes,
                                  void *value, size_t *needed) {
    return what == VR_CL_CONTEXT_DEVICES
               ? give(&context->device, sizeof context->device, bytes, value, needed)
               : VR_CL_INVALID_VALUE;
}

static vr_cl_int release_context(struct vr_cl_context *context) {
    fake_lock();
    fake_context_drop(context);
    fake_unlock();
    return VR_CL_SUCCESS;
}

/* ------------------------------------------------------------------ control */

/* "gpu=1,svm=3": each field by its name. */
static void read_environment(void) {
    static const struct {
        const char *name;
        int *place;
    } rows[] = {
        {"platforms=", &fake_settings.platforms},
        {"devices=", &fake_settings.devices},
        {"gpu=", &fake_settings.gpu},
        {"svm=", &fake_settings.svm},
        {"usm=", &fake_settings.usm},
        {"align_bits=", &fake_settings.align_bits},
        {"lazy=", &fake_settings.lazy},
        {"aligned=", &fake_settings.aligned},
        {"arg_info=", &fake_settings.arg_info},
        {"twin=", &fake_settings.twin},
    };
    const char *text = getenv("FAKE_OPENCL");
    for (size_t i = 0; text && i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = strstr(text, rows[i].name);
        if (at) {
            *rows[i].place = (int)strtol(at + strlen(rows[i].name), NULL, 10);
        }
    }
}

static void wake_up(void) {
    fake_settings = usual;
    read_environment();
    for (int i = 0; i < PLATFORMS_MAX; i++) {
        platforms[i].head = (struct fake_head){.magic = FAKE_MAGIC('p'), .references = 1};
    }
    api = (struct vr_opencl_api){.clGetPlatformIDs = get_platforms,
                                 .clGetPlatformInfo = get_platform_info,
                                 .clGetDeviceIDs = get_devices,
                                 .clGetDeviceInfo = get_device_info,
                                 .clGetExtensionFunctionAddressForPlatform = get_extension,
                                 .clCreateContext = create_context,
                                 .clRetainContext = retain_context,
                                 .clGetContextInfo = get_context_info,
                                 .clReleaseContext = release_context};
    fake_fill_memory_calls(&api);
    fake_fill_queue_calls(&api);
    fake_fill_kernel_calls(&api);
}

const struct vr_opencl_api *opencl_target(void) {
    pthread_once(&once, wake_up);
    return &api;
}

static void control_reset(void) {
    pthread_once(&once, wake_up);
    fake_engine_hold(false);
    fake_engine_crash(0);
    fake_engine_call_back();
    fake_lock();
    fake_settings = usual;
    violations = 0;
    violation = "";
    fake_unlock();
    opencl_control()->refuse(NULL, 0, 0, false);
}

static uint64_t control_live(void) {
    fake_lock();
    uint64_t now = live;
    fake_unlock();
    return now;
}

static uint64_t control_violations(const char **text) {
    fake_lock();
    uint64_t now = violations;
    *text = violation;
    fake_unlock();
    return now;
}

const struct fake_opencl_control *fake_opencl_control(void) {
    static const struct fake_opencl_control control = {.reset = control_reset,
                                                       .settings = &fake_settings,
                                                       .hold = fake_engine_hold,
                                                       .crash = fake_engine_crash,
                                                       .settle = fake_engine_settle,
                                                       .call_back = fake_engine_call_back,
                                                       .live = control_live,
                                                       .violations = control_violations,
                                                       .queue_new = fake_engine_queue};
    pthread_once(&once, wake_up);
    return &control;
}
