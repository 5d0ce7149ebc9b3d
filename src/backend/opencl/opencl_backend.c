/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_backend.c: loads OpenCL's loader, finds the devices of all platforms and describes them.
 *
 * If a driver is missing or broken, `vram info` prints the reason and what to do. So every failure
 * here is VRAM_ERR_NO_DRIVER or VRAM_ERR_NO_DEVICE. A platform that fails is skipped with a message
 * in the log: the devices of the others are used.
 *
 * The library stays loaded: drivers behind it have started threads and registered exit handlers,
 * whose code must not be unloaded.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/lock.h"
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

/* PoCL 3.1 starts its devices in the first clGetDeviceIDs, and meanwhile gives a second thread
   devices that it has not filled: their descriptions crash it. */
static struct vr_mutex first_look = VR_MUTEX_INIT(VR_RANK_DRIVER);

/* ------------------------------------------------------------------ loading */

/* The driver's status, reduced to those that an absent backend may return. */
static vram_status absent_status(vram_status status) {
    vram_error error;
    if (status != VRAM_OK && status != VRAM_ERR_NO_DEVICE && status != VRAM_ERR_HOST_MEMORY) {
        vr_error_save(&error);
        error.status = status = VRAM_ERR_NO_DRIVER;
        vr_error_restore(&error);
    }
    return status;
}

/* A library that the user selected is not silently replaced by another. */
static vram_status loader_load(struct vr_opencl *opencl) {
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_OPENCL_LIBRARY, path);
    const char *const sonames[] = {*path ? path : SONAME, NULL};
    const char *hint = *path ? "the option opencl_library (VRAM_OPENCL_LIBRARY) asks for it"
                             : "install an OpenCL loader (ocl-icd-libopencl1)";
    vram_status status = vr_library_load(&opencl->library, "opencl", sonames, hint);
    return status == VRAM_OK ? vr_library_fill(&opencl->library, "opencl", symbols,
                                               sizeof symbols / sizeof symbols[0], &opencl->api)
                             : status;
}

/* ------------------------------------------------------------------- asking */

/* These queries may fail without harm: the value is then unknown. */
static bool device_query(const struct vr_opencl_api *api, struct vr_cl_device *device,
                         vr_cl_uint what, void *value, size_t bytes) {
    size_t needed = 0;
    return api->clGetDeviceInfo(device, what, bytes, value, &needed) == VR_CL_SUCCESS &&
           needed == bytes;
}

/* Text about a device, always terminated; "" if the driver does not report it. */
static bool device_query_text(const struct vr_opencl_api *api, struct vr_cl_device *device,
                              vr_cl_uint what, char *text, size_t bytes) {
    bool told = api->clGetDeviceInfo(device, what, bytes, text, NULL) == VR_CL_SUCCESS;
    text[told ? bytes - 1 : 0] = 0;
    return told;
}

/* "OpenCL 3.0 ..." as 300; 0 for any other text. */
static unsigned version_parse(const char *text) {
    unsigned major = 0, minor = 0;
    return sscanf(text, "OpenCL %2u.%2u", &major, &minor) == 2 ? major * 100 + minor * 10 : 0;
}

static bool has_extension(const char *extensions, const char *name) {
    size_t length = strlen(name);
    for (const char *at = extensions; (at = strstr(at, name)); at += length) {
        bool begins = at == extensions || at[-1] == ' ', ends = !at[length] || at[length] == ' ';
        if (begins && ends) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------- memory */

/* The group is present as a whole or not at all. */
static bool usm_load(const struct vr_opencl_api *api, struct vr_opencl_physical *physical) {
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
        void *found =
            api->clGetExtensionFunctionAddressForPlatform(physical->platform, rows[i].name);
        if (!found) {
            return false;
        }
        memcpy(rows[i].place, &found, sizeof found);
    }
    physical->usm = usm;
    return true;
}

static bool has_svm_calls(const struct vr_opencl_api *api) {
    return api->clSVMAlloc && api->clSVMFree && api->clSetKernelArgSVMPointer &&
           api->clEnqueueSVMMemcpy && api->clEnqueueSVMMemFill;
}

/* The best kind available, unless the user selected one; if that is not available, buffers. */
static void memory_kind_choose(const struct vr_opencl_api *api, struct vr_opencl_physical *physical,
                               const char *extensions) {
    enum { AUTO = 0, ONLY_USM = 1, ONLY_SVM = 2 }; /* indices into the option's list of choices */
    uint64_t choice = vr_option_number(VR_OPTION_OPENCL_MEMORY);
    vr_cl_bits svm = 0;
    if (!has_svm_calls(api) ||
        !device_query(api, physical->id, VR_CL_DEVICE_SVM_CAPABILITIES, &svm, sizeof svm)) {
        svm = 0;
    }
    physical->fine_svm = (svm & VR_CL_SVM_FINE_GRAIN_BUFFER) != 0;
    physical->memory_kind = VR_OPENCL_BUFFERS;
    if ((choice == AUTO || choice == ONLY_USM) &&
        has_extension(extensions, "cl_intel_unified_shared_memory") && usm_load(api, physical)) {
        physical->memory_kind = VR_OPENCL_USM;
    } else if ((choice == AUTO || choice == ONLY_SVM) && svm & VR_CL_SVM_COARSE_GRAIN_BUFFER) {
        physical->memory_kind = VR_OPENCL_SVM;
    }
}

/* ------------------------------------------------------------------ finding */

/* Stores why there may be no device at all. */
static void failure_note(struct vr_opencl *opencl, const char *operation, vr_cl_int code) {
    if (code != VR_CL_SUCCESS) {
        opencl->failed_code = code;
        opencl->failed_call = operation;
    }
}

/* Fills `physical` for a device. False: it cannot be used, and the log says why. */
static bool physical_read(struct vr_opencl *opencl, struct vr_cl_platform *platform,
                          struct vr_cl_device *device, char *extensions,
                          struct vr_opencl_physical *physical) {
    const struct vr_opencl_api *api = &opencl->api;
    char version[128];
    vr_cl_uint available = 0, compiler = 0, align_bits = 0;
    vr_cl_bits type = 0;
    *physical = (struct vr_opencl_physical){.platform = platform, .id = device};
    vr_cl_int code =
        api->clGetDeviceInfo(device, VR_CL_DEVICE_VERSION, sizeof version, version, NULL);
    version[code == VR_CL_SUCCESS ? sizeof version - 1 : 0] = 0;
    if (version_parse(version) < 120) {
        failure_note(opencl, "clGetDeviceInfo", code);
        vr_log(VRAM_LOG_INFO, "opencl: a device of version \"%s\" is left out: 1.2 is needed",
               version);
        return false;
    }
    code = api->clGetDeviceInfo(device, VR_CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    if (code != VR_CL_SUCCESS || !available) {
        failure_note(opencl, "clGetDeviceInfo", code);
        vr_log(VRAM_LOG_INFO, "opencl: a device is left out: it is not available");
        return false;
    }
    (void)device_query_text(api, device, VR_CL_DEVICE_EXTENSIONS, extensions, EXTENSIONS_MAX);
    physical->cpu = device_query(api, device, VR_CL_DEVICE_TYPE, &type, sizeof type) &&
                    type & VR_CL_DEVICE_TYPE_CPU;
    physical->compiler =
        device_query(api, device, VR_CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler) &&
        compiler;
    physical->priorities = has_extension(extensions, "cl_khr_priority_hints") &&
                           api->clCreateCommandQueueWithProperties;
    bool told =
        device_query(api, device, VR_CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align_bits, sizeof align_bits);
    physical->subbuffer_align =
        told && align_bits >= 8 ? align_bits / 8 : 4096; /* enough for any device */
    memory_kind_choose(api, physical, extensions);
    return true;
}

/* Adds the devices of a platform. */
static vram_status physicals_add(struct vr_opencl *opencl, struct vr_cl_platform *platform,
                                 char *extensions) {
    struct vr_cl_device *devices[DEVICES_MAX];
    vr_cl_uint count = 0;
    vr_mutex_lock(&first_look);
    vr_cl_int code =
        opencl->api.clGetDeviceIDs(platform, VR_CL_DEVICE_TYPE_ALL, DEVICES_MAX, devices, &count);
    vr_mutex_unlock(&first_look);
    if (code != VR_CL_SUCCESS) {
        if (code != VR_CL_DEVICE_NOT_FOUND) {
            vr_opencl_warn("clGetDeviceIDs", code);
            failure_note(opencl, "clGetDeviceIDs", code);
        }
        return VRAM_OK;
    }
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    struct vr_opencl_physical *physicals =
        vr_mem_alloc(opencl->physical_count + count, sizeof *physicals, "opencl_start");
    if (!physicals) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (opencl->physicals) {
        memcpy(physicals, opencl->physicals, opencl->physical_count * sizeof *physicals);
        vr_mem_free(opencl->physicals);
    }
    opencl->physicals = physicals;
    for (vr_cl_uint i = 0; i < count; i++) {
        opencl->physical_count += physical_read(opencl, platform, devices[i], extensions,
                                                &physicals[opencl->physical_count]);
    }
    return VRAM_OK;
}

/* The version of the first platform, without the vendor's suffix. */
static void platform_version(const struct vr_opencl_api *api, struct vr_cl_platform *platform,
                             char *version, size_t bytes) {
    char text[256] = "";
    if (api->clGetPlatformInfo(platform, VR_CL_PLATFORM_VERSION, sizeof text - 1, text, NULL) ==
        VR_CL_SUCCESS) {
        unsigned number = version_parse(text);
        snprintf(version, bytes, "%u.%u", number / 100, number % 100 / 10);
    }
}

static vram_status platforms_read(struct vr_opencl *opencl, char *version, size_t version_bytes) {
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
    platform_version(&opencl->api, platforms[0], version, version_bytes);
    for (vr_cl_uint i = 0; i < count && i < PLATFORMS_MAX && status == VRAM_OK; i++) {
        status = physicals_add(opencl, platforms[i], extensions);
    }
    vr_mem_free(extensions);
    if (status == VRAM_OK && !opencl->physical_count) {
        status = opencl->failed_code ? vr_opencl_check(opencl->failed_call, opencl->failed_code)
                                     : vr_opencl_check("clGetDeviceIDs", VR_CL_DEVICE_NOT_FOUND);
    }
    return status;
}

/* ----------------------------------------------------------------- adopting */

static vram_status adoption_error(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "opencl", "vram_context_create", 0,
                        "vram_context_options.opencl: %s", why);
}

/* Whether the device belongs to the context. If the driver does not say, the backend is absent. */
static vram_status adopted_context_check(const struct vr_opencl_api *api,
                                         struct vr_cl_context *context,
                                         const struct vr_cl_device *device) {
    struct vr_cl_device *devices[DEVICES_MAX];
    size_t needed = 0, count = 0;
    vram_status status = vr_opencl_check(
        "clGetContextInfo",
        api->clGetContextInfo(context, VR_CL_CONTEXT_DEVICES, sizeof devices, devices, &needed));
    if (status != VRAM_OK) {
        return absent_status(status);
    }
    count = needed <= sizeof devices ? needed / sizeof devices[0] : 0;
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == device) {
            return VRAM_OK;
        }
    }
    return adoption_error("the device is none of the context's");
}

/* From here on the program's device is the only one. */
static vram_status context_adopt(struct vr_opencl *opencl,
                                 const struct vram_opencl_adoption *from) {
    struct vram_opencl_adoption adoption;
    if (vr_options_take(&adoption, sizeof adoption, from) != VRAM_OK) {
        return adoption_error(
            "set size to sizeof(vram_opencl_adoption), and what this version does "
            "not know to 0");
    }
    if (!adoption.context || !adoption.device) {
        return adoption_error("context or device is NULL");
    }
    uint32_t at = 0;
    while (at < opencl->physical_count && opencl->physicals[at].id != adoption.device) {
        at++;
    }
    if (at == opencl->physical_count) {
        return adoption_error("the device is none that libvram can use; `vram info` lists those");
    }
    vram_status status = adopted_context_check(&opencl->api, adoption.context, adoption.device);
    if (status == VRAM_OK) {
        opencl->physicals[0] = opencl->physicals[at];
        opencl->physical_count = 1;
        opencl->adopted = adoption.context;
    }
    return status;
}

static void opencl_free(struct vr_opencl *opencl) {
    vr_mem_free(opencl->physicals);
    vr_mem_free(opencl);
}

static vram_status opencl_start(struct vr_backend *backend,
                                const struct vram_context_options *options) {
    char version[sizeof backend->version] = "";
    struct vr_opencl *opencl = vr_mem_alloc(1, sizeof *opencl, "opencl_start");
    if (!opencl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = loader_load(opencl);
    if (status == VRAM_OK) {
        status = platforms_read(opencl, version, sizeof version);
    }
    status = absent_status(status);
    if (status == VRAM_OK && options && options->opencl) {
        status = context_adopt(opencl, options->opencl);
    }
    if (status != VRAM_OK) {
        opencl_free(opencl);
        return status;
    }
    memcpy(backend->version, version, sizeof version);
    backend->impl = opencl;
    return VRAM_OK;
}

static void opencl_stop(struct vr_backend *backend) {
    opencl_free(backend->impl);
    backend->impl = NULL;
}

static uint32_t opencl_count(struct vr_backend *backend) {
    const struct vr_opencl *opencl = backend->impl;
    return opencl->physical_count;
}

/* --------------------------------------------------------------- describing */

static void describe_identity(const struct vr_opencl_api *api,
                              const struct vr_opencl_physical *physical,
                              struct vram_device_info *info) {
    struct vr_cl_pci pci;
    vr_cl_uint major, minor;
    info->uuid_known =
        device_query(api, physical->id, VR_CL_DEVICE_UUID_KHR, info->uuid, sizeof info->uuid);
    info->pci_known =
        device_query(api, physical->id, VR_CL_DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof pci);
    if (info->pci_known) {
        snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", pci.domain & 0xffff,
                 pci.bus & 0xff, pci.device & 0xff, pci.function & 0xf);
    }
    if (device_query(api, physical->id, VR_CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, &major,
                     sizeof major) &&
        device_query(api, physical->id, VR_CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, &minor,
                     sizeof minor)) {
        snprintf(info->architecture, sizeof info->architecture, "sm_%u%u", major % 1000,
                 minor % 1000);
    }
}

static uint32_t opencl_caps(const struct vr_opencl_physical *physical) {
    uint32_t caps = VRAM_CAP_ADOPT;
    caps |= physical->memory_kind == VR_OPENCL_BUFFERS ? VRAM_CAP_HANDLES : VRAM_CAP_TRUE_ADDRESS;
    caps |= physical->memory_kind == VR_OPENCL_USM || physical->fine_svm ? VRAM_CAP_MANAGED : 0;
    caps |= physical->compiler ? VRAM_CAP_KERNELS : 0;
    /* Memory that a CPU's driver maps is the process's own, and not page-locked. */
    caps |= physical->cpu ? 0 : VRAM_CAP_PINNED;
    return caps;
}

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };
#undef CAP_BIT

/* OpenCL does not report free memory, so that is unknown. */
static vram_status opencl_describe(struct vr_backend *backend, uint32_t index,
                                   struct vram_device_info *info) {
    const struct vr_opencl *opencl = backend->impl;
    const struct vr_opencl_api *api = &opencl->api;
    const struct vr_opencl_physical *physical = &opencl->physicals[index];
    char name[sizeof info->name];
    uint64_t bytes = 0;
    size_t needed = 0;
    vram_status status =
        vr_opencl_check("clGetDeviceInfo", api->clGetDeviceInfo(physical->id, VR_CL_DEVICE_NAME,
                                                                sizeof name, name, &needed));
    if (status != VRAM_OK) {
        return absent_status(status);
    }
    name[sizeof name - 1] = 0;
    memcpy(info->name, name, sizeof name);
    vr_text_clean(info->name);
    info->kind = physical->cpu ? VRAM_DEVICE_CPU : VRAM_DEVICE_GPU;
    info->caps_known = ALL_CAPS & ~(physical->cpu ? 0 : VRAM_CAP_INTEGRATED); /* not asked */
    info->caps = opencl_caps(physical);
    info->alloc_granule = (vram_value){physical->cpu ? 4 * VR_KIB : GRANULE_GPU, true};
    if (device_query(api, physical->id, VR_CL_DEVICE_GLOBAL_MEM_SIZE, &bytes, sizeof bytes) &&
        bytes) {
        info->memory_bytes = (vram_value){bytes, true};
    }
    if (device_query(api, physical->id, VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, &bytes, sizeof bytes) &&
        bytes >= info->alloc_granule.value) {
        info->alloc_max = (vram_value){bytes - bytes % info->alloc_granule.value, true};
    }
    describe_identity(api, physical, info);
    return VRAM_OK;
}

const struct vr_backend_ops vr_opencl_backend = {
    .name = "opencl",
    .start = opencl_start,
    .stop = opencl_stop,
    .count = opencl_count,
    .describe = opencl_describe,
    .device_open = vr_opencl_device_open,
};
