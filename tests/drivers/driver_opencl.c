/* SPDX-License-Identifier: Apache-2.0 */
/* driver_opencl.c: OpenCL, by the tests' driver; see drivers.h. */
#include "drivers.h"

#include "check/scale_kernel.h"
#include "device/objects.h"
#include "opencl/fake_opencl.h"

#include "backend/opencl/opencl_backend.h"
#include "base/handle.h"
#include "vram/buffer.h"
#include "vram/opencl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct fake_opencl_control *fake;
static const struct opencl_control *control;

static bool load(const char *path) {
    const struct fake_opencl_control *(*get)(void) = NULL;
    const struct opencl_control *(*get_control)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_opencl_control") : NULL;
    void *other = library ? dlsym(library, "opencl_control") : NULL;
    memcpy(&get, &found, sizeof get);
    memcpy(&get_control, &other, sizeof get_control);
    fake = found ? get() : NULL;
    control = other ? get_control() : NULL;
    return fake && control;
}

static const char *const manners[] = {"svm", "buffer", "usm"};
enum { SVM, BUFFER, USM };

static void reset(unsigned manner) {
    fake->hold(false);
    fake->settle(); /* a device that was lost here is well, and at work */
    fake->reset();
    fake->settings->usm = manner == USM;
    control->refuse(NULL, 0, 0, false);
    (void)vram_option_set("opencl_memory", manners[manner]);
}

/* A number among the settings. */
static void set(int key, long value, const void *world) {
    if (key) {
        *(int *)(void *)((char *)fake->settings + key - 1) = (int)value;
    }
    if (world) {
        fake->settings->extensions = world;
    }
}

/* A call that succeeds and has made nothing. */
static void plan(const char *call, uint64_t nth, int code, int lie, bool for_ever) {
    control->refuse(call, nth, lie ? VR_CL_SUCCESS : code, for_ever);
}

static uint64_t live(void) {
    return fake->live();
}

static const char *wrong(const char *last, bool all) {
    const char *text = NULL;
    (void)last, (void)all;
    return fake->violations(&text) ? text : NULL;
}

/* ------------------------------------------------------------------ program */

/* The context of the device that is open, as if it were a program's, in a context of its own. */
static bool adopt(struct program *program, void *context, void *device) {
    const struct vram_opencl_adoption adoption = {
        .size = sizeof adoption, .context = context, .device = device};
    const struct vram_context_options options = {
        .size = sizeof options, .backends = "opencl", .opencl = &adoption};
    vram_context *own = NULL;
    vram_device *opened = NULL;
    bool going = STEP(program, vram_context_create(&options, &own)) && present(program, own) &&
                 STEP(program, vram_device_open(own, 0, &opened));
    vram_context_destroy(own);
    return going;
}

/* A part of a buffer, as if the program had made it. */
static bool wrap(struct program *program, const vram_native_info *native) {
    const vram_wrap part = {.size = sizeof part,
                            .kind = VRAM_WRAP_HANDLE,
                            .pointer = native->handle,
                            .offset = 256,
                            .bytes = 64};
    vram_buffer *buffer = NULL;
    vram_pool *pool = NULL;
    vram_addr addr;
    bool going = STEP(program, vram_pool_create(program->device, NULL, &pool)) &&
                 STEP(program, vram_buffer_wrap(pool, &part, program->queue, NULL, &buffer)) &&
                 STEP(program, vram_buffer_addr(buffer, &addr)) &&
                 STEP(program, vram_queue_fill(program->queue, addr, 7, 1, 8)) &&
                 STEP(program, vram_queue_wait(program->queue, VRAM_TIMEOUT_DEFAULT)) &&
                 STEP(program, vram_buffer_destroy(buffer));
    return STEP(program, vram_pool_destroy(pool)) && going;
}

/* What its compiler says of text that is no code. */
static bool complain(struct program *program) {
    vram_kernel_source broken = *program->driver->kernel;
    vram_kernel *kernel = NULL;
    broken.code = "#error";
    broken.code_bytes = 6;
    vram_status status = vram_kernel_create(program->device, &broken, &kernel);
    return vram_error_get()->native_code == VR_CL_BUILD_PROGRAM_FAILURE ||
           step(program, "vram_kernel_create of what is no code", status);
}

static bool more(struct program *program) {
    struct vr_device_object *object = vr_handle_pin(VR_KIND_DEVICE, program->device);
    const struct vr_opencl_device *opencl = object->base.impl;
    void *context = opencl->context, *device = opencl->physical->id;
    vram_native_info native = {.size = sizeof native};
    vr_leave(object);
    return adopt(program, context, device) &&
           (!(program->info.caps & VRAM_CAP_HANDLES) ||
            (STEP(program, vram_native(program->addr, &native)) && wrap(program, &native))) &&
           (!(program->info.caps & VRAM_CAP_KERNELS) || complain(program));
}

/* ------------------------------------------------------------------- tables */

static const int codes[] = {
#define CODE(NAME, value) value,
    VR_CL_CODES(CODE)
#undef CODE
        VR_CL_ILLEGAL_ACCESS_NV,
};

/* The first code is success. */
#define NEED_VR_CL_REQUIRED NULL
#define NEED_VR_CL_OPTIONAL "svm"
/* What makes shared virtual memory what it is; without another call there is another way. */
static bool of_svm(const char *name) {
    static const char *const names[] = {"clSVMAlloc", "clSVMFree", "clSetKernelArgSVMPointer",
                                        "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

#define ENTRY_OF(name, without)                                                                    \
    { #name, #name, #name, NULL, without, COUNT_OF(codes) - 1, codes + 1 }
#define ENTRY(name, need, parameters, arguments)            ENTRY_OF(name, NEED_##need),
#define ENTRY_MAKE(name, need, type, parameters, arguments) ENTRY_OF(name, NEED_##need),
#define ENTRY_PLAIN(name)                                   ENTRY_OF(name, "usm"),
static struct driver_entry entries[] = {VR_OPENCL_FUNCTIONS(ENTRY, ENTRY_MAKE, ENTRY, ENTRY)
                                            OPENCL_EXTENSIONS(ENTRY_PLAIN)};

static bool load_all(const char *path) {
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        if (entries[i].without && !of_svm(entries[i].name)) {
            entries[i].without = "another way";
        }
    }
    return load(path);
}

/* Most codes say what the caller did wrong. */
static const struct code_row statuses[] = {
    {-1, -1, VRAM_ERR_NO_DEVICE},         {-2, -2, VRAM_ERR_BUSY},
    {-3, -3, VRAM_ERR_UNSUPPORTED},       {-5, -4, VRAM_ERR_DEVICE_MEMORY},
    {-6, -6, VRAM_ERR_HOST_MEMORY},       {-7, -7, VRAM_ERR_UNSUPPORTED},
    {-10, -10, VRAM_ERR_UNSUPPORTED},     {-12, -12, VRAM_ERR_HOST_MEMORY},
    {-14, -14, VRAM_ERR_DEVICE_LOST},     {-16, -16, VRAM_ERR_UNSUPPORTED},
    {-19, -19, VRAM_ERR_UNSUPPORTED},     {-61, -61, VRAM_ERR_LIMIT},
    {-72, -72, VRAM_ERR_LIMIT},           {-1001, -1001, VRAM_ERR_NO_DEVICE},
    {-1121, -1121, VRAM_ERR_DEVICE_LOST}, {-9999, -9999, VRAM_ERR_DEVICE_LOST},
    {-19, -8, VRAM_ERR_INVALID},          {-71, -30, VRAM_ERR_INVALID},
    {INT_MIN, INT_MAX, VRAM_ERR_BACKEND},
};

static const int each[] = {VR_CL_OUT_OF_RESOURCES, VR_CL_CONTEXT_TERMINATED_KHR, 12345, 0};

static const struct excuse excuses[] = {
    {"clGetDeviceInfo", ANY_CODE, VRAM_OK},
    {"clRelease*", ANY_CODE, VRAM_OK}, /* the driver keeps it */
    {"clSVMFree", ANY_CODE, VRAM_OK},
    {"clMemFreeINTEL", ANY_CODE, VRAM_OK},
    {"clEnqueueUnmapMemObject", ANY_CODE, VRAM_OK},
    {"clFlush", ANY_CODE, VRAM_OK},              /* behind what it unmapped */
    {"clSetUserEventStatus", ANY_CODE, VRAM_OK}, /* who waits there asks the word */
    {"clGetPlatformInfo", ANY_CODE, VRAM_OK},
    {"clGetExtensionFunctionAddressForPlatform", ANY_CODE, VRAM_OK},
    /* The rows go one by one. */
    {"clEnqueueReadBufferRect", ANY_UNSUPPORTED, VRAM_OK},
    {"clEnqueueReadBufferRect", VR_CL_INVALID_VALUE, VRAM_OK},
    {"clEnqueueReadBufferRect", VR_CL_MEM_COPY_OVERLAP, VRAM_OK},
    {"clEnqueueWriteBufferRect", ANY_UNSUPPORTED, VRAM_OK},
    {"clEnqueueWriteBufferRect", VR_CL_INVALID_VALUE, VRAM_OK},
    {"clEnqueueWriteBufferRect", VR_CL_MEM_COPY_OVERLAP, VRAM_OK},
    {"clEnqueueCopyBufferRect", ANY_UNSUPPORTED, VRAM_OK},
    {"clEnqueueCopyBufferRect", VR_CL_INVALID_VALUE, VRAM_OK},
    {"clEnqueueCopyBufferRect", VR_CL_MEM_COPY_OVERLAP, VRAM_OK},
    {"clGetProgramBuildInfo", ANY_CODE, VRAM_OK},
    {"clGetKernelArgInfo", ANY_CODE, VRAM_OK},
    {"clSVMAlloc", ANY_CODE, VRAM_ERR_DEVICE_MEMORY, UNNAMED}, /* it tells no code */
    {"clEnqueue*", VR_CL_INVALID_COMMAND_QUEUE, VRAM_ERR_DEVICE_LOST,
     OR_USUAL}, /* a queue of our own */
    {"clCreateBuffer", VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, VRAM_ERR_HOST_MEMORY, OR_USUAL},
    {"clCreateBuffer", VR_CL_OUT_OF_RESOURCES, VRAM_ERR_HOST_MEMORY, OR_USUAL},
    {"clEnqueueMapBuffer", VR_CL_MEM_OBJECT_ALLOCATION_FAILURE, VRAM_ERR_HOST_MEMORY, OR_USUAL},
    {"clEnqueueMapBuffer", VR_CL_OUT_OF_RESOURCES, VRAM_ERR_HOST_MEMORY, OR_USUAL},
};

#define NO_LIE(name, need, parameters, arguments)
#define LIE(name, need, type, parameters, arguments) {#name, 1, false},
static const struct lie lies[] = {VR_OPENCL_FUNCTIONS(NO_LIE, LIE, NO_LIE, NO_LIE)};

#define SETTING(name, number)                                                                      \
    .key = (int)offsetof(struct fake_opencl_settings, name) + 1, .value = (number)

#define OF_SVM (VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_MANAGED)

static bool is_usual(const struct program *program) {
    const vram_device_info *info = &program->info;
    return info->kind == VRAM_DEVICE_GPU && strcmp(info->name, "Fake OpenCL device") == 0 &&
           info->caps == (VRAM_CAP_ADOPT | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_MANAGED |
                          VRAM_CAP_KERNELS | VRAM_CAP_PINNED) &&
           info->memory_bytes.value == UINT64_C(1) << 30 && info->alloc_max.value == 256 << 20 &&
           info->uuid_known && info->uuid[0] == 0xFA && strcmp(info->pci, "0000:07:00.0") == 0;
}

static bool is_cpu(const struct program *program) {
    return program->info.kind == VRAM_DEVICE_CPU;
}

static const struct answer answers[] = {
    {"the usual one", .more = is_usual},
    {"no library", .library = "/nowhere/libOpenCL.so.1", .reason = "opencl_library"},
    {"another library", .library = "libc.so.6", .reason = "clGetPlatformIDs"},
    {"no platform", SETTING(platforms, 0), .reason = "install an OpenCL driver"},
    {"platforms without number", .plan = {"clGetPlatformIDs", .lie = 1},
     .reason = "CL_PLATFORM_NOT_FOUND"},
    {"no device", SETTING(devices, 0), .reason = "CL_DEVICE_NOT_FOUND"},
    {"too old", SETTING(version, 110), .reason = "CL_DEVICE_NOT_FOUND"},
    {"not available", SETTING(available, 0), .reason = "CL_DEVICE_NOT_FOUND"},
    {"no compiler", SETTING(compiler, 0), .lacks = VRAM_CAP_KERNELS},
    {"a CPU", SETTING(gpu, 0), .lacks = VRAM_CAP_PINNED, .more = is_cpu},
    {"no shared virtual memory", SETTING(svm, 0), .has = VRAM_CAP_HANDLES, .lacks = OF_SVM},
    {"one that is coarse", SETTING(svm, 1), .lacks = VRAM_CAP_MANAGED},
    {"none in buffers", .manner = BUFFER, SETTING(svm, 0), .lacks = VRAM_CAP_MANAGED},
    {"its architecture", SETTING(nvidia, 1), .unknown = ARCHITECTURE_UNKNOWN},
    {"memory unknown", SETTING(memory_mib, 0), .idle = true, .unknown = MEMORY_UNKNOWN},
    {"the largest allocation unknown", SETTING(largest_mib, 0), .idle = true,
     .unknown = MAX_UNKNOWN},
    {"alignment unknown", .manner = BUFFER, SETTING(align_bits, 0), .idle = true},
    {"arguments unknown", SETTING(arg_info, 0)},
    {"no priorities", .world = "cl_khr_priority_hints2 xcl_khr_priority_hints"},
    {"two platforms", SETTING(platforms, 2)},
};

static const vram_kernel_source kernel = {.size = sizeof kernel,
                                          .format = VRAM_KERNEL_OPENCL_C,
                                          .code = scale_opencl,
                                          .code_bytes = sizeof scale_opencl - 1,
                                          .entry = "vram_check_scale"};

static void hold(bool held) {
    fake->hold(held);
}

static uint64_t struck(void) {
    return control->struck();
}

static const char *last_call(void) {
    return control->last_call();
}

const struct driver driver_opencl = {.name = "opencl",
                                     .option = "opencl_library",
                                     .library = FAKE_OPENCL_PATH,
                                     .entries = entries,
                                     .entry_count = COUNT_OF(entries),
                                     .statuses = statuses,
                                     .excuses = excuses,
                                     .excuse_count = COUNT_OF(excuses),
                                     .answers = answers,
                                     .answer_count = COUNT_OF(answers),
                                     .lies = lies,
                                     .lie_count = COUNT_OF(lies),
                                     .sample = "clBuildProgram",
                                     .each = each,
                                     .manners = manners,
                                     .manner_count = COUNT_OF(manners),
                                     .usual_manners = COUNT_OF(manners),
                                     .slow = true,
                                     .alike = true,
                                     .kernel = &kernel,
                                     .load = load_all,
                                     .reset = reset,
                                     .set = set,
                                     .plan = plan,
                                     .hold = hold,
                                     .struck = struck,
                                     .last_call = last_call,
                                     .live = live,
                                     .wrong = wrong,
                                     .more = more};
