/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_backend.c: loads OpenCL's loader, finds the devices of all platforms and describes them.
 *
 * A driver that is missing or broken is a reason that `vram info` prints, one line with its mend.
 * So whatever goes wrong here is VRAM_ERR_NO_DRIVER or VRAM_ERR_NO_DEVICE. One platform that does
 * not answer is passed over, with a word in the log: the devices of the others are there all the
 * same.
 *
 * The library stays loaded for good: drivers behind it have started threads and registered exit
 * handlers, whose code must not go away.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/size.h"
#include "base/struct_tail.h"
#include "base/text.h"
#include "vram/opencl.h"

#include <stdio.h>
#include <string.h>

#define SONAME "libOpenCL.so.1"
enum { PLATFORMS_MAX = 64, DEVICES_MAX = 256, EXTENSIONS_MAX = 16 << 10, GRANULE_GPU = 64 << 10 };

static const struct vr_symbol symbols[] = {
#define CALL(name, need, parameters, arguments)                                                    \
    {#name, NULL, offsetof(struct vr_opencl_api, name), need},
#define MAKE(name, need, type, parameters, arguments) CALL(name, need, parameters, arguments)
    VR_OPENCL_FUNCTIONS(CALL, MAKE, CALL, CALL)
#undef CALL
#undef MAKE
};

/* ------------------------------------------------------------------ loading */

/* The driver's own status, as far as a backend that is to be found absent may answer it. */
static vram_status absent(vram_status status) {
    vram_error error;
    if (status != VRAM_OK && status != VRAM_ERR_NO_DEVICE && status != VRAM_ERR_HOST_MEMORY) {
        vr_error_save(&error);
        error.status = status = VRAM_ERR_NO_DRIVER;
        vr_error_restore(&error);
    }
    return status;
}

/* A library that the user chose is not silently replaced by another. */
static vram_status load(struct vr_opencl *opencl) {
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_OPENCL_LIBRARY, path);
    const char *const sonames[] = {*path ? path : SONAME, NULL};
    const char *mend = *path ? "the option opencl_library (VRAM_OPENCL_LIBRARY) asks for it"
                             : "install an OpenCL loader (ocl-icd-libopencl1)";
    vram_status status = vr_library_load(&opencl->library, "opencl", sonames, mend);
    return status == VRAM_OK ? vr_library_fill(&opencl->library, "opencl", symbols,
                                               sizeof symbols / sizeof symbols[0], &opencl->api)
                             : status;
}

/* ------------------------------------------------------------------- asking */

/* What is asked below may fail without harm: the answer is then unknown. */
static bool ask(const struct vr_opencl_api *api, struct vr_cl_device *device, vr_cl_uint what,
                void *value, size_t bytes) {
    size_t needed = 0;
    return api->clGetDeviceInfo(device, what, bytes, value, &needed) == VR_CL_SUCCESS &&
           needed == bytes;
}

/* Text of a device, always terminated; "" when the driver does not tell. */
static bool ask_text(const struct vr_opencl_api *api, struct vr_cl_device *device, vr_cl_uint what,
                     char *text, size_t bytes) {
    size_t needed = 0;
    bool told = api->clGetDeviceInfo(device, what, bytes, text, &needed) == VR_CL_SUCCESS &&
                needed <= bytes;
    text[told ? bytes - 1 : 0] = 0;
    return told;
}

/* "OpenCL 3.0 and more" as 300; 0 when it is something else. */
static unsigned version_of(const char *text) {
    unsigned major = 0, minor = 0;
    return sscanf(text, "OpenCL %2u.%2u", &major, &minor) == 2 ? major * 100 + minor * 10 : 0;
}

static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        bool begins = at == words || at[-1] == ' ', ends = !at[length] || at[length] == ' ';
        if (begins && ends) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------- memory */

/* The group is there as a whole or not at all. */
static bool load_usm(const struct vr_opencl_api *api, struct vr_opencl_unit *unit) {
    struct vr_opencl_usm usm;
    const struct {
        const char *name;
        void *place;
    } rows[] = {
        {"clDeviceMemAllocINTEL", &usm.clDeviceMemAllocINTEL},
        {"clSharedMemAllocINTEL", &usm.clSharedMemAllocINTEL},
        {"clMemFreeINTEL", &usm.clMemFreeINTEL},
        {"clSetKernelArgMemPointerINTEL", &usm.clSetKernelArgMemPointerINTEL},
        {"clEnqueueMemFillINTEL", &usm.clEnqueueMemFillINTEL},
        {"clEnqueueMemcpyINTEL", &usm.clEnqueueMemcpyINTEL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *found = api->clGetExtensionFunctionAddressForPlatform(unit->platform, rows[i].name);
        if (!found) {
            return false;
        }
        memcpy(rows[i].place, &found, sizeof found);
    }
    unit->usm = usm;
    return true;
}

static bool has_svm_calls(const struct vr_opencl_api *api) {
    return api->clSVMAlloc && api->clSVMFree && api->clSetKernelArgSVMPointer &&
           api->clEnqueueSVMMemcpy && api->clEnqueueSVMMemFill;
}

/* The best way there is, unless the user chose one; what is not there gives way to buffers. */
static void choose_way(const struct vr_opencl_api *api, struct vr_opencl_unit *unit,
                       const char *extensions) {
    enum { AUTO = 0, ONLY_USM = 1, ONLY_SVM = 2 }; /* places in the option's list of choices */
    uint64_t choice = vr_option_number(VR_OPTION_OPENCL_MEMORY);
    vr_cl_bits svm = 0;
    if (!has_svm_calls(api) ||
        !ask(api, unit->id, VR_CL_DEVICE_SVM_CAPABILITIES, &svm, sizeof svm)) {
        svm = 0;
    }
    unit->fine_svm = (svm & VR_CL_SVM_FINE_GRAIN_BUFFER) != 0;
    unit->way = VR_OPENCL_BUFFERS;
    if ((choice == AUTO || choice == ONLY_USM) &&
        has_word(extensions, "cl_intel_unified_shared_memory") && load_usm(api, unit)) {
        unit->way = VR_OPENCL_USM;
    } else if ((choice == AUTO || choice == ONLY_SVM) && svm & VR_CL_SVM_COARSE_GRAIN_BUFFER) {
        unit->way = VR_OPENCL_SVM;
    }
}

/* ------------------------------------------------------------------ finding */

/* Remembers why there may be no device at all. */
static void refuse(struct vr_opencl *opencl, const char *operation, vr_cl_int code) {
    if (code != VR_CL_SUCCESS) {
        opencl->refused = code;
        opencl->refused_by = operation;
    }
}

/* Fills `unit` for a device; false: it cannot be used, and the log says why. */
static bool examine(struct vr_opencl *opencl, struct vr_cl_platform *platform,
                    struct vr_cl_device *device, char *extensions, struct vr_opencl_unit *unit) {
    const struct vr_opencl_api *api = &opencl->api;
    char version[128];
    vr_cl_uint available = 0, compiler = 0, align_bits = 0;
    vr_cl_bits type = 0;
    *unit = (struct vr_opencl_unit){.platform = platform, .id = device};
    vr_cl_int code =
        api->clGetDeviceInfo(device, VR_CL_DEVICE_VERSION, sizeof version, version, NULL);
    version[code == VR_CL_SUCCESS ? sizeof version - 1 : 0] = 0;
    if (version_of(version) < 120) {
        refuse(opencl, "clGetDeviceInfo", code);
        vr_log(VRAM_LOG_INFO, "opencl: a device of version \"%s\" is left out: 1.2 is needed",
               version);
        return false;
    }
    code = api->clGetDeviceInfo(device, VR_CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    if (code != VR_CL_SUCCESS || !available) {
        refuse(opencl, "clGetDeviceInfo", code);
        vr_log(VRAM_LOG_INFO, "opencl: a device is left out: it is not available");
        return false;
    }
    (void)ask_text(api, device, VR_CL_DEVICE_EXTENSIONS, extensions, EXTENSIONS_MAX);
    unit->cpu =
        ask(api, device, VR_CL_DEVICE_TYPE, &type, sizeof type) && type & VR_CL_DEVICE_TYPE_CPU;
    unit->compiler =
        ask(api, device, VR_CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler) && compiler;
    unit->priorities =
        has_word(extensions, "cl_khr_priority_hints") && api->clCreateCommandQueueWithProperties;
    bool told = ask(api, device, VR_CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align_bits, sizeof align_bits);
    unit->view_align = told && align_bits >= 8 ? align_bits / 8 : 4096; /* enough for any device */
    choose_way(api, unit, extensions);
    return true;
}

/* Adds the devices of a platform. */
static vram_status find_units(struct vr_opencl *opencl, struct vr_cl_platform *platform,
                              char *extensions) {
    struct vr_cl_device *devices[DEVICES_MAX];
    vr_cl_uint count = 0;
    vr_cl_int code =
        opencl->api.clGetDeviceIDs(platform, VR_CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count);
    if (code != VR_CL_SUCCESS) {
        if (code != VR_CL_DEVICE_NOT_FOUND) {
            vr_opencl_shrug("clGetDeviceIDs", code);
            refuse(opencl, "clGetDeviceIDs", code);
        }
        return VRAM_OK;
    }
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    struct vr_opencl_unit *units =
        vr_mem_alloc(opencl->unit_count + count, sizeof *units, "opencl_start");
    if (!units) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (opencl->units) {
        memcpy(units, opencl->units, opencl->unit_count * sizeof *units);
        vr_mem_free(opencl->units);
    }
    opencl->units = units;
    for (vr_cl_uint i = 0; i < count; i++) {
        opencl->unit_count +=
            examine(opencl, platform, devices[i], extensions, &units[opencl->unit_count]);
    }
    return VRAM_OK;
}

/* The version of the first platform, without what only a vendor understands. */
static void read_version(const struct vr_opencl_api *api, struct vr_cl_platform *platform,
                         char *version, size_t bytes) {
    char text[256] = "";
    size_t needed = 0;
    if (api->clGetPlatformInfo(platform, VR_CL_PLATFORM_VERSION, sizeof text, text, &needed) ==
            VR_CL_SUCCESS &&
        needed <= sizeof text) {
        unsigned number = version_of(text);
        snprintf(version, bytes, "%u.%u", number / 100, number % 100 / 10);
    }
}

static vram_status find_all(struct vr_opencl *opencl, char *version, size_t version_bytes) {
    struct vr_cl_platform *platforms[PLATFORMS_MAX];
    vr_cl_uint count = 0;
    vr_cl_int code = opencl->api.clGetPlatformIDs(PLATFORMS_MAX, platforms, &count);
    if (code == VR_CL_SUCCESS && !count) {
        code = VR_CL_PLATFORM_NOT_FOUND_KHR;
    }
    vram_status status = vr_opencl_check("clGetPlatformIDs", code);
    if (status != VRAM_OK) {
        return status;
    }
    char *extensions = vr_mem_alloc(1, EXTENSIONS_MAX, "opencl_start");
    if (!extensions) {
        return VRAM_ERR_HOST_MEMORY;
    }
    read_version(&opencl->api, platforms[0], version, version_bytes);
    for (vr_cl_uint i = 0; i < count && i < PLATFORMS_MAX && status == VRAM_OK; i++) {
        status = find_units(opencl, platforms[i], extensions);
    }
    vr_mem_free(extensions);
    if (status == VRAM_OK && !opencl->unit_count) {
        status = opencl->refused ? vr_opencl_check(opencl->refused_by, opencl->refused)
                                 : vr_opencl_check("clGetDeviceIDs", VR_CL_DEVICE_NOT_FOUND);
    }
    return status;
}

/* ----------------------------------------------------------------- adopting */

static vram_status refuse_adoption(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "opencl", "vram_context_create", 0,
                        "vram_context_options.opencl: %s", why);
}

/* Whether the context is one of that device. A driver that does not say makes the backend
   absent. */
static vram_status check_context(const struct vr_opencl_api *api, struct vr_cl_context *context,
                                 const struct vr_cl_device *device) {
    struct vr_cl_device *devices[DEVICES_MAX];
    size_t needed = 0, count = 0;
    vram_status status = vr_opencl_check(
        "clGetContextInfo",
        api->clGetContextInfo(context, VR_CL_CONTEXT_DEVICES, sizeof devices, devices, &needed));
    if (status != VRAM_OK) {
        return absent(status);
    }
    count = needed <= sizeof devices ? needed / sizeof devices[0] : 0;
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == device) {
            return VRAM_OK;
        }
    }
    return refuse_adoption("the device is none of the context's");
}

/* The program's device is the only one from here on. */
static vram_status adopt(struct vr_opencl *opencl, const struct vram_opencl_adoption *from) {
    struct vram_opencl_adoption adoption = {0};
    if (from->size < sizeof from->size || from->size > (1u << 16)) {
        return refuse_adoption("set size to sizeof(vram_opencl_adoption)");
    }
    if (!vr_tail_is_zero(from, sizeof adoption)) {
        return refuse_adoption("it has fields that this version does not know");
    }
    memcpy(&adoption, from, from->size < sizeof adoption ? from->size : sizeof adoption);
    if (!adoption.context || !adoption.device) {
        return refuse_adoption("context or device is NULL");
    }
    uint32_t at = 0;
    while (at < opencl->unit_count && opencl->units[at].id != adoption.device) {
        at++;
    }
    if (at == opencl->unit_count) {
        return refuse_adoption("the device is none that libvram can use; `vram info` lists those");
    }
    vram_status status = check_context(&opencl->api, adoption.context, adoption.device);
    if (status == VRAM_OK) {
        opencl->units[0] = opencl->units[at];
        opencl->unit_count = 1;
        opencl->adopted = adoption.context;
    }
    return status;
}

static void forget(struct vr_opencl *opencl) {
    vr_mem_free(opencl->units);
    vr_mem_free(opencl);
}

static vram_status start(struct vr_backend *backend, const struct vram_context_options *options) {
    char version[sizeof backend->version] = "";
    struct vr_opencl *opencl = vr_mem_alloc(1, sizeof *opencl, "opencl_start");
    if (!opencl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = load(opencl);
    if (status == VRAM_OK) {
        status = find_all(opencl, version, sizeof version);
    }
    status = absent(status);
    if (status == VRAM_OK && options && options->opencl) {
        status = adopt(opencl, options->opencl);
    }
    if (status != VRAM_OK) {
        forget(opencl);
        return status;
    }
    memcpy(backend->version, version, sizeof version);
    backend->impl = opencl;
    return VRAM_OK;
}

static void stop(struct vr_backend *backend) {
    forget(backend->impl);
    backend->impl = NULL;
}

static uint32_t count(struct vr_backend *backend) {
    const struct vr_opencl *opencl = backend->impl;
    return opencl->unit_count;
}

/* --------------------------------------------------------------- describing */

static void describe_identity(const struct vr_opencl_api *api, const struct vr_opencl_unit *unit,
                              struct vram_device_info *info) {
    struct vr_cl_pci pci;
    vr_cl_uint major, minor;
    info->uuid_known = ask(api, unit->id, VR_CL_DEVICE_UUID_KHR, info->uuid, sizeof info->uuid);
    info->pci_known = ask(api, unit->id, VR_CL_DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof pci);
    if (info->pci_known) {
        snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", pci.domain & 0xffff,
                 pci.bus & 0xff, pci.device & 0xff, pci.function & 0xf);
    }
    if (ask(api, unit->id, VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, &major, sizeof major) &&
        ask(api, unit->id, VR_CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, &minor, sizeof minor)) {
        snprintf(info->architecture, sizeof info->architecture, "sm_%u%u", major % 1000,
                 minor % 1000);
    }
}

static uint32_t caps_of(const struct vr_opencl_unit *unit) {
    uint32_t caps = VRAM_CAP_ADOPT;
    caps |= unit->way == VR_OPENCL_BUFFERS ? VRAM_CAP_HANDLES : VRAM_CAP_TRUE_ADDRESS;
    caps |= unit->way == VR_OPENCL_USM || unit->fine_svm ? VRAM_CAP_MANAGED : 0;
    caps |= unit->compiler ? VRAM_CAP_KERNELS : 0;
    /* Memory that a CPU's driver maps is the process's own, and pages like any other. */
    caps |= unit->cpu ? 0 : VRAM_CAP_PINNED;
    return caps;
}

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };
#undef CAP_BIT

/* OpenCL has no word for free memory, so that stays unknown. */
static vram_status describe(struct vr_backend *backend, uint32_t index,
                            struct vram_device_info *info) {
    const struct vr_opencl *opencl = backend->impl;
    const struct vr_opencl_api *api = &opencl->api;
    const struct vr_opencl_unit *unit = &opencl->units[index];
    char name[sizeof info->name];
    uint64_t bytes = 0;
    size_t needed = 0;
    vram_status status =
        vr_opencl_check("clGetDeviceInfo", api->clGetDeviceInfo(unit->id, VR_CL_DEVICE_NAME,
                                                                sizeof name, name, &needed));
    if (status != VRAM_OK) {
        return absent(status);
    }
    name[sizeof name - 1] = 0;
    memcpy(info->name, name, sizeof name);
    vr_text_clean(info->name);
    info->kind = unit->cpu ? VRAM_DEVICE_CPU : VRAM_DEVICE_GPU;
    info->caps_known = ALL_CAPS;
    info->caps = caps_of(unit);
    info->alloc_granule = (vram_value){unit->cpu ? 4 * VR_KIB : GRANULE_GPU, true};
    if (ask(api, unit->id, VR_CL_DEVICE_GLOBAL_MEM_SIZE, &bytes, sizeof bytes) && bytes) {
        info->memory_bytes = (vram_value){bytes, true};
    }
    if (ask(api, unit->id, VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, &bytes, sizeof bytes) &&
        bytes >= info->alloc_granule.value) {
        info->alloc_max = (vram_value){bytes - bytes % info->alloc_granule.value, true};
    }
    describe_identity(api, unit, info);
    return VRAM_OK;
}

const struct vr_backend_ops vr_opencl_backend = {
    .name = "opencl",
    .start = start,
    .stop = stop,
    .count = count,
    .describe = describe,
    .device_open = vr_opencl_device_open,
};
