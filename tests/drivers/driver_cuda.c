/* SPDX-License-Identifier: Apache-2.0 */
/* driver_cuda.c: CUDA and HIP, by the tests' drivers or a shim before a real one; see drivers.h. */
#include "drivers.h"

#include "check/generated/device_code_ptx.h"
#include "fake/fake_cuda.h"
#include "fake/generated/table_cuda.h"
#include "fake/generated/table_hip.h"
#include "fake/shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct fake_cuda_control *fake; /* one of the two is there */
static const struct shim_control *shim;

static bool load(const char *path) {
    const struct fake_cuda_control *(*get_fake)(void) = NULL;
    const struct shim_control *(*get_shim)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_cuda_control") : NULL;
    void *other = library ? dlsym(library, "shim_control") : NULL;
    memcpy(&get_fake, &found, sizeof get_fake);
    memcpy(&get_shim, &other, sizeof get_shim);
    fake = found ? get_fake() : NULL;
    shim = other ? get_shim() : NULL;
    if (!fake && !shim) {
        printf("%s is neither the tests' driver nor a shim: %s\n", path, library ? "" : dlerror());
    }
    return fake || shim;
}

/* Ways to know how far a stream has come, and a device without memory, where some call fails and
   its words are asked for. */
enum { USUAL, BY_FUNCTIONS, BY_EVENTS, FULL };
static const char *const manners[] = {"words that streams write", "words that functions write",
                                      "events alone", "a full device"};

static void reset_shim(unsigned manner) {
    shim->always(NULL, 0);
    if (manner == BY_FUNCTIONS || manner == BY_EVENTS) {
        shim->always("cuStreamWriteValue64", VR_CU_NOT_SUPPORTED);
    }
    if (manner == BY_EVENTS) {
        shim->always("cuLaunchHostFunc", VR_CU_NOT_SUPPORTED);
    }
    if (manner == FULL) {
        shim->always("cuMemAlloc", VR_CU_OUT_OF_MEMORY);
    }
    shim->refuse(NULL, 0, 0, false);
}

static void reset(unsigned manner) {
    if (shim) {
        reset_shim(manner);
        return;
    }
    fake->reset();
    fake->devices(2);
    if (manner == BY_FUNCTIONS || manner == BY_EVENTS) {
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, 0);
    }
    fake->host_functions(manner != BY_EVENTS);
    if (manner == FULL) {
        fake->capacity(0);
    }
}

static void plan(const char *call, uint64_t nth, int code, int lie, bool for_ever) {
    if (shim) {
        shim->refuse(call, nth, code, for_ever);
    } else if (lie) {
        fake->lie(call, nth, (enum fake_cuda_lie)lie, for_ever);
    } else {
        fake->refuse(call, nth, code, for_ever);
    }
}

static void hold(bool held) {
    if (fake) {
        fake->hold(held);
    }
}

static uint64_t struck(void) {
    return shim ? shim->struck() : fake->struck();
}

static const char *last_call(void) {
    return shim ? shim->last_call() : fake->last_call();
}

static uint64_t live(void) {
    struct fake_cuda_live all = {.total = 0};
    if (fake) {
        fake->live(&all);
    }
    return all.total;
}

/* The rules, and the caller's thread as it was. A context stays on its stack when the driver
   refused to take it off. */
static const char *wrong(const char *last, bool all) {
    const char *text = NULL;
    if (!fake) {
        return NULL;
    }
    bool refused = all || strstr(last, "CtxPopCurrent") || strstr(last, "StreamCaptureMode");
    while (refused && fake->depth()) {
        fake->pop();
    }
    if (fake->violations(&text)) {
        return text;
    }
    return fake->depth()                                          ? "a context is left current"
           : fake->thread_mode() != VR_CU_MODE_GLOBAL && !refused ? "a capture mode is left"
                                                                  : NULL;
}

/* ------------------------------------------------------------------- tables */

static const struct code_row cuda_statuses[] = {
    {1, 1, VRAM_ERR_INVALID},         {2, 2, VRAM_ERR_DEVICE_MEMORY},
    {3, 3, VRAM_ERR_NO_DRIVER},       {4, 4, VRAM_ERR_SHUTDOWN},
    {34, 34, VRAM_ERR_NO_DRIVER},     {36, 36, VRAM_ERR_NO_DRIVER},
    {46, 46, VRAM_ERR_BUSY},          {100, 100, VRAM_ERR_NO_DEVICE},
    {101, 101, VRAM_ERR_INVALID},     {102, 102, VRAM_ERR_NO_DEVICE},
    {200, 201, VRAM_ERR_INVALID},     {208, 208, VRAM_ERR_BUSY},
    {209, 209, VRAM_ERR_UNSUPPORTED}, {211, 211, VRAM_ERR_INVALID},
    {214, 214, VRAM_ERR_DEVICE_LOST}, {217, 217, VRAM_ERR_UNSUPPORTED},
    {218, 218, VRAM_ERR_INVALID},     {220, 220, VRAM_ERR_DEVICE_LOST},
    {221, 222, VRAM_ERR_UNSUPPORTED}, {226, 226, VRAM_ERR_DEVICE_LOST},
    {304, 304, VRAM_ERR_IO},          {400, 401, VRAM_ERR_INVALID},
    {500, 500, VRAM_ERR_INVALID},     {600, 600, VRAM_ERR_NOT_READY},
    {700, 700, VRAM_ERR_DEVICE_LOST}, {701, 701, VRAM_ERR_INVALID},
    {702, 702, VRAM_ERR_DEVICE_LOST}, {709, 710, VRAM_ERR_DEVICE_LOST},
    {711, 711, VRAM_ERR_UNSUPPORTED}, {712, 712, VRAM_ERR_BUSY},
    {713, 713, VRAM_ERR_INVALID},     {714, 719, VRAM_ERR_DEVICE_LOST},
    {721, 721, VRAM_ERR_DEVICE_LOST}, {800, 801, VRAM_ERR_UNSUPPORTED},
    {802, 804, VRAM_ERR_NO_DRIVER},   {810, 810, VRAM_ERR_DEVICE_LOST},
    {900, 908, VRAM_ERR_CAPTURE},     {909, 909, VRAM_ERR_TIMEOUT},
    {911, 911, VRAM_ERR_DEVICE_LOST}, {INT_MIN, INT_MAX, VRAM_ERR_BACKEND},
};

static const struct code_row hip_statuses[] = {
    {1, 1, VRAM_ERR_INVALID},
    {2, 2, VRAM_ERR_DEVICE_MEMORY},
    {3, 3, VRAM_ERR_NO_DRIVER},
    {4, 4, VRAM_ERR_SHUTDOWN},
    {12, 12, VRAM_ERR_UNSUPPORTED},
    {17, 17, VRAM_ERR_INVALID},
    {21, 21, VRAM_ERR_INVALID},
    {35, 35, VRAM_ERR_NO_DRIVER},
    {100, 100, VRAM_ERR_NO_DEVICE},
    {101, 101, VRAM_ERR_INVALID},
    {200, 201, VRAM_ERR_INVALID},
    {208, 208, VRAM_ERR_BUSY},
    {209, 209, VRAM_ERR_UNSUPPORTED},
    {211, 211, VRAM_ERR_INVALID},
    {214, 214, VRAM_ERR_DEVICE_LOST},
    {217, 217, VRAM_ERR_UNSUPPORTED},
    {218, 218, VRAM_ERR_INVALID},
    {304, 304, VRAM_ERR_IO},
    {400, 401, VRAM_ERR_INVALID},
    {500, 500, VRAM_ERR_INVALID},
    {600, 600, VRAM_ERR_NOT_READY},
    {700, 700, VRAM_ERR_DEVICE_LOST},
    {701, 701, VRAM_ERR_INVALID},
    {702, 702, VRAM_ERR_DEVICE_LOST},
    {709, 710, VRAM_ERR_DEVICE_LOST},
    {712, 712, VRAM_ERR_BUSY},
    {713, 713, VRAM_ERR_INVALID},
    {719, 719, VRAM_ERR_DEVICE_LOST},
    {801, 801, VRAM_ERR_UNSUPPORTED},
    {900, 908, VRAM_ERR_CAPTURE},
    {INT_MIN, INT_MAX, VRAM_ERR_BACKEND},
};

static const int each[] = {1, 2, 700, 801, 999, 0};

static const vram_kernel_source ptx = {.size = sizeof ptx,
                                       .format = VRAM_KERNEL_PTX,
                                       .code = device_code_ptx,
                                       .code_bytes = sizeof device_code_ptx - 1,
                                       .entry = "vram_check_scale"};

/* Of both, by CUDA's names. */
static const struct excuse excuses[] = {
    {"cuDeviceGetPCIBusId", ANY_CODE, VRAM_OK},
    {"cuDeviceGetUuid", ANY_CODE, VRAM_OK},
    {"cuDeviceTotalMem", ANY_CODE, VRAM_OK},
    {"cuDeviceGetAttribute", ANY_CODE, VRAM_OK},
    {"cuMemGetAllocationGranularity", ANY_CODE, VRAM_OK},
    {"cuDeviceCanAccessPeer", ANY_CODE, VRAM_OK},
    {"cuThreadExchangeStreamCaptureMode", ANY_CODE, VRAM_OK},
    {"cuCtxPopCurrent", ANY_CODE, VRAM_OK},
    {"cuEventDestroy", ANY_CODE, VRAM_OK},
    {"cuStreamQuery", ANY_CODE, VRAM_OK}, /* the word had passed meanwhile */
    {"cuEventQuery", ANY_CODE, VRAM_OK},
    /* The text of a failure is what it is about. */
    {"cuGetErrorName", ANY_CODE, VRAM_ERR_DEVICE_MEMORY, UNNAMED},
    {"cuGetErrorString", ANY_CODE, VRAM_ERR_DEVICE_MEMORY, UNNAMED},
    {"cuCtxPushCurrent", VR_CU_INVALID_CONTEXT, VRAM_ERR_DEVICE_LOST, UNNAMED}, /* it was reset */
    {"cuCtxGetId", VR_CU_INVALID_CONTEXT, VRAM_ERR_DEVICE_LOST, UNNAMED},
    {"cuMemHostAlloc", VR_CU_OUT_OF_MEMORY, VRAM_ERR_HOST_MEMORY},
    {"cuMemHostRegister", VR_CU_OUT_OF_MEMORY, VRAM_ERR_HOST_MEMORY},
    {"cuMemHostUnregister", VR_CU_OUT_OF_MEMORY, VRAM_ERR_HOST_MEMORY},
    {"cuMemAddressReserve", VR_CU_OUT_OF_MEMORY, VRAM_ERR_LIMIT},
    {"cuMemHostGetFlags", VR_CU_INVALID_VALUE, VRAM_OK}, /* not page-locked is an answer */
    {"cuMemHostRegister", VR_CU_NOT_PERMITTED, VRAM_OK}, /* the driver allocates */
    {"cuMemHostRegister", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuCtxEnablePeerAccess", VR_CU_PEER_ACCESS_ALREADY_ENABLED, VRAM_OK},
    {"cuMemPrefetchAsync", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuMemAdvise", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuMemCreate", VR_CU_INVALID_VALUE, VRAM_OK}, /* then without what network cards need */
    {"cuMemCreate", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuMemcpy2DAsync", VR_CU_INVALID_VALUE, VRAM_OK}, /* the rows go one by one */
    {"cuMemcpy2DAsync", ANY_UNSUPPORTED, VRAM_OK},
    {"cuMemExportToShareableHandle", ANY_CODE, VRAM_OK},      /* a reader has it made once more */
    {"cuStreamIsCapturing", VR_CU_CAPTURE_IMPLICIT, VRAM_OK}, /* an id is asked for later */
    {"cuStreamWriteValue64", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuStreamWaitValue64", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"cuLaunchHostFunc", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"hipPeekAtLastError", ANY_CODE, VRAM_OK}, /* it is not the program's */
    {"hipGetLastError", ANY_CODE, VRAM_OK},
    {"hipMemcpy2DAsync", VR_CU_INVALID_VALUE, VRAM_OK},
    {"hipMemcpy2DAsync", ANY_UNSUPPORTED, VRAM_OK},
    {"hipDeviceEnablePeerAccess", VR_CU_PEER_ACCESS_ALREADY_ENABLED, VRAM_OK},
    {"hipMemPrefetchAsync", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"hipMemAdvise", VR_CU_NOT_SUPPORTED, VRAM_OK},
    {"hipStreamWaitValue64", VR_CU_NOT_SUPPORTED, VRAM_OK},
};

static const struct lie cuda_lies[] = {
    {"cuMemAlloc", FAKE_CUDA_NULL, false},
    {"cuMemAlloc", FAKE_CUDA_MISALIGNED, false},
    {"cuMemHostAlloc", FAKE_CUDA_NULL, false},
    {"cuMemHostAlloc", FAKE_CUDA_MISALIGNED, true},
    {"cuMemAllocManaged", FAKE_CUDA_NULL, false},
    {"cuMemAllocManaged", FAKE_CUDA_MISALIGNED, false},
    {"cuMemAddressReserve", FAKE_CUDA_NULL, false},
    {"cuMemAddressReserve", FAKE_CUDA_MISALIGNED, false},
    {"cuMemCreate", FAKE_CUDA_NULL, false},
    {"cuStreamCreateWithPriority", FAKE_CUDA_NULL, false},
    {"cuModuleGetFunction", FAKE_CUDA_NULL, false},
    {"cuMemImportFromShareableHandle", FAKE_CUDA_NULL, false},
};
static const struct lie hip_lies[] = {
    {"hipMalloc", FAKE_CUDA_NULL, false},
    {"hipMalloc", FAKE_CUDA_MISALIGNED, false},
    {"hipHostMalloc", FAKE_CUDA_NULL, false},
    {"hipHostMalloc", FAKE_CUDA_MISALIGNED, true},
    {"hipMallocManaged", FAKE_CUDA_NULL, false},
    {"hipMallocManaged", FAKE_CUDA_MISALIGNED, false},
    {"hipMemAddressReserve", FAKE_CUDA_NULL, false},
    {"hipMemAddressReserve", FAKE_CUDA_MISALIGNED, false},
    {"hipMemCreate", FAKE_CUDA_NULL, false},
    {"hipStreamCreateWithPriority", FAKE_CUDA_NULL, false},
    {"hipModuleGetFunction", FAKE_CUDA_NULL, false},
};

/* Settings beside the attributes. */
enum { DEVICES = -1, VERSION = -2, FUNCTIONS = -3 };

static void set(int key, long value, const void *world) {
    (void)world;
    switch (key) {
    case 0:
        break;
    case DEVICES:
        fake->devices((int)value);
        break;
    case VERSION:
        fake->version((int)value);
        break;
    case FUNCTIONS:
        fake->host_functions(value);
        break;
    default:
        fake->attribute((enum vr_cu_attribute)key, (int)value);
    }
}

#define ATTRIBUTE(name, number) .key = VR_CU_ATTRIBUTE_##name, .value = (number)
#define SETTING(name, number)   .key = (name), .value = (number)
#define REFUSES(...)            .plan = {__VA_ARGS__}
#define OF_VMM                  (VRAM_CAP_VMM | VRAM_CAP_ALIAS)

static bool is_usual(const struct program *program) {
    static const uint32_t absent = VRAM_CAP_HOST_ACCESS | VRAM_CAP_SIMULATED | VRAM_CAP_HANDLES;
    const vram_device_info *info = &program->info;
    return strcmp(info->name, "Fake GPU 0") == 0 && strcmp(info->architecture, "sm_90") == 0 &&
           info->kind == VRAM_DEVICE_GPU && info->uuid_known && info->pci_known &&
           info->memory_bytes.value == UINT64_C(4) << 30 && !info->alloc_max.known &&
           info->alloc_granule.value == 2 << 20 && info->vmm_granule.value == 2 << 20 &&
           info->caps == (VRAM_CAP_VMM | VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS |
                          VRAM_CAP_MEMORY_INFO | VRAM_CAP_ADOPT | VRAM_CAP_ALIAS |
                          VRAM_CAP_MANAGED | VRAM_CAP_PEERS | VRAM_CAP_KERNELS | VRAM_CAP_RDMA) &&
           (info->caps_known & absent) == absent;
}

static bool tells_hardware(const struct program *program) {
    vram_backend_info info = {.size = sizeof info};
    for (uint32_t i = 0; vram_backend_info_get(program->context, i, &info) == VRAM_OK; i++) {
        if (strcmp(info.name, "hip") == 0) {
            return strcmp(info.version, "6.4 (not run on hardware)") == 0 &&
                   program->info.alloc_granule.value == 4096;
        }
    }
    return false;
}

static const struct answer cuda_answers[] = {
    {"the usual one", .more = is_usual},
    {"no library", .library = "/nowhere/libcuda.so.1", .reason = "/nowhere/libcuda.so.1"},
    {"and what to do", .library = "/nowhere/libcuda.so.1", .reason = "VRAM_CUDA_LIBRARY"},
    {"no file", .library = "/dev/null", .reason = "/dev/null"},
    {"another library", .library = "libc.so.6", .reason = "cuInit"},
    {"a stub", REFUSES("cuInit", .code = 34), .reason = "stub"},
    {"no device", REFUSES("cuInit", .code = 100), .reason = "CUDA_VISIBLE_DEVICES"},
    {"not ready", REFUSES("cuInit", .code = 802), .reason = "nvidia-fabricmanager"},
    {"two versions", REFUSES("cuInit", .code = 803), .reason = "restart the machine"},
    {"unknown", REFUSES("cuInit", .code = 999), .reason = "CUDA_ERROR_UNKNOWN, 999"},
    {"a code of nobody", REFUSES("cuInit", .code = -77), .reason = "-77"},
    {"too old", SETTING(VERSION, 10020), .reason = "CUDA 10.2, libvram needs 11.0"},
    {"old enough", SETTING(VERSION, 11000)},
    {"none there", SETTING(DEVICES, 0), .reason = "nvidia-smi"},
    {"a count of none", REFUSES("cuDeviceGetCount", .lie = FAKE_CUDA_NULL), .reason = "NO_DEVICE"},
    {"fewer than none", REFUSES("cuDeviceGetCount", .lie = FAKE_CUDA_MISALIGNED),
     .reason = "NO_DEVICE"},
    {"no unified addressing", ATTRIBUTE(UNIFIED_ADDRESSING, 0), .reason = "unified addressing"},
    {"not told", ATTRIBUTE(UNIFIED_ADDRESSING, -1), .reason = "cuDeviceGetAttribute"},
    {"memory unknown", REFUSES("cuDeviceTotalMem", .code = 999), .unknown = MEMORY_UNKNOWN},
    {"architecture unknown", ATTRIBUTE(MINOR, -1), .unknown = ARCHITECTURE_UNKNOWN},
    {"no mapping", ATTRIBUTE(VMM, 0), .lacks = OF_VMM | VRAM_CAP_RDMA, .unknown = VMM_UNKNOWN},
    {"mapping unknown", ATTRIBUTE(VMM, -1), .lacks = OF_VMM | VRAM_CAP_RDMA,
     .unknown = VMM_UNKNOWN},
    {"granules of nothing", REFUSES("cuMemGetAllocationGranularity", .lie = FAKE_CUDA_NULL),
     .lacks = OF_VMM | VRAM_CAP_RDMA, .unknown = VMM_UNKNOWN},
    {"odd granules", REFUSES("cuMemGetAllocationGranularity", .lie = FAKE_CUDA_MISALIGNED),
     .lacks = OF_VMM | VRAM_CAP_RDMA, .unknown = VMM_UNKNOWN},
    {"no managed memory", ATTRIBUTE(CONCURRENT_MANAGED, 0), .lacks = VRAM_CAP_MANAGED},
    {"no paths", REFUSES("cuDeviceCanAccessPeer", .code = 101, .for_ever = true),
     .lacks = VRAM_CAP_PEERS},
    {"no network cards", ATTRIBUTE(RDMA, 0), .lacks = VRAM_CAP_RDMA},
    {"the host's memory", ATTRIBUTE(INTEGRATED, 1), .has = VRAM_CAP_INTEGRATED},
    {"no descriptors", ATTRIBUTE(DESCRIPTORS, -1)},
};

static const struct answer hip_answers[] = {
    {"the usual one", .more = tells_hardware},
    {"no library", .library = "/nowhere/libamdhip64.so.6", .reason = "VRAM_HIP_LIBRARY"},
    {"too old", SETTING(VERSION, 40400000), .reason = "HIP 4.4, libvram needs 5.0"},
    {"none there", SETTING(DEVICES, 0), .reason = "HIP_VISIBLE_DEVICES"},
    {"no kernel driver", REFUSES("hipInit", .code = 35), .reason = "amdgpu kernel driver"},
    /* What it promises is tried. */
    {"words that are not written",
     REFUSES("hipStreamWriteValue64", .lie = FAKE_CUDA_NULL, .for_ever = true)},
    {"words that are refused", REFUSES("hipStreamWriteValue64", .code = 1, .for_ever = true)},
    {"words that are not awaited", REFUSES("hipStreamWaitValue64", .code = 1, .for_ever = true)},
    {"copies that never come",
     REFUSES("hipMemcpyDtoHAsync", .lie = FAKE_CUDA_NULL, .for_ever = true),
     .lacks = OF_VMM | VRAM_CAP_PINNED, .unknown = VMM_UNKNOWN},
    {"no addresses", REFUSES("hipMemAddressReserve", .code = 1, .for_ever = true), .lacks = OF_VMM,
     .unknown = VMM_UNKNOWN},
    {"no memory to map", REFUSES("hipMemCreate", .code = 1, .for_ever = true), .lacks = OF_VMM,
     .unknown = VMM_UNKNOWN},
    {"no mapping", REFUSES("hipMemMap", .code = 1, .for_ever = true), .lacks = OF_VMM,
     .unknown = VMM_UNKNOWN},
    {"no access", REFUSES("hipMemSetAccess", .code = 1, .for_ever = true), .lacks = OF_VMM,
     .unknown = VMM_UNKNOWN},
    {"a full device", REFUSES("hipMemCreate", .code = 2, .for_ever = true)},
    {"lost in the trial", REFUSES("hipMemcpyHtoDAsync", .code = 700, .for_ever = true),
     .status = VRAM_ERR_DEVICE_LOST, .words = "hipMemcpyHtoDAsync"},
    {"no way to know how far a stream is", .manner = BY_FUNCTIONS,
     REFUSES("hipLaunchHostFunc", .code = 1, .for_ever = true), .status = VRAM_ERR_INVALID,
     .words = "how far a stream has come"},
};

static const vram_kernel_source hsaco = {.size = sizeof hsaco,
                                         .format = VRAM_KERNEL_HSACO,
                                         .code = device_code_ptx, /* the tests' driver reads it */
                                         .code_bytes = sizeof device_code_ptx - 1,
                                         .entry = "vram_check_scale"};

#define COMMON                                                                                     \
    .excuses = excuses, .excuse_count = COUNT_OF(excuses), .each = each, .manners = manners,       \
    .manner_count = COUNT_OF(manners), .usual_manners = COUNT_OF(manners) - 1, .identified = true, \
    .load = load, .reset = reset, .set = set, .plan = plan, .hold = hold, .struck = struck,        \
    .last_call = last_call, .live = live, .wrong = wrong

const struct driver driver_cuda = {.name = "cuda",
                                   .option = "cuda_library",
                                   .library = FAKE_CUDA_PATH,
                                   .entries = cuda_entries,
                                   .entry_count = COUNT_OF(cuda_entries),
                                   .statuses = cuda_statuses,
                                   .sample = "cuModuleLoadData",
                                   .answers = cuda_answers,
                                   .answer_count = COUNT_OF(cuda_answers),
                                   .lies = cuda_lies,
                                   .lie_count = COUNT_OF(cuda_lies),
                                   .kernel = &ptx,
                                   COMMON};

const struct driver driver_hip = {.name = "hip",
                                  .option = "hip_library",
                                  .library = FAKE_HIP_PATH,
                                  .entries = hip_entries,
                                  .entry_count = COUNT_OF(hip_entries),
                                  .statuses = hip_statuses,
                                  .sample = "hipModuleLoadData",
                                  .answers = hip_answers,
                                  .answer_count = COUNT_OF(hip_answers),
                                  .lies = hip_lies,
                                  .lie_count = COUNT_OF(hip_lies),
                                  .slow = true,
                                  .tries = true,
                                  .kernel = &hsaco,
                                  COMMON};
