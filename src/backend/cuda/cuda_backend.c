/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_backend.c: loads a driver that speaks CUDA and describes its devices.
 *
 * If a driver is missing, too old or broken, `vram info` prints the reason and what to do. So every
 * failure here is VRAM_ERR_NO_DRIVER or VRAM_ERR_NO_DEVICE: a code that the driver uses for bad
 * arguments must not look like a mistake of the user.
 *
 * Once cuInit was called, the library stays loaded: the driver may have started threads and
 * registered exit handlers, whose code must not be unloaded.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- starting */

/* The driver's status, reduced to those that an absent backend may return. */
static vram_status absent_status(vram_status status) {
    vram_error error;
    if (status != VRAM_OK && status != VRAM_ERR_NO_DEVICE) {
        vr_error_save(&error);
        error.status = status = VRAM_ERR_NO_DRIVER;
        vr_error_restore(&error);
    }
    return status;
}

/* A library that the user selected is not silently replaced by another. */
static vram_status driver_load(struct vr_cuda *cuda, const struct vr_cuda_dialect *dialect) {
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(dialect->library, path);
    const char *const chosen[] = {path, NULL};
    cuda->api.dialect = dialect;
    vram_status status =
        vr_library_load(&cuda->library, dialect->name, *path ? chosen : dialect->sonames,
                        *path ? dialect->chosen : dialect->install);
    return status == VRAM_OK ? vr_library_fill(&cuda->library, dialect->name, dialect->symbols,
                                               dialect->symbol_count, &cuda->api)
                             : status;
}

/* cuInit fails if there is no device, so a count of 0 contradicts it. */
static vram_status devices_count(const struct vr_cuda_api *api, uint32_t *count) {
    int found = 0;
    vram_status status = vr_cuda_check(api, VR_CU_CALL_cuDeviceGetCount,
                                       api->cuDeviceGetCount(&found), VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK && found <= 0) {
        status =
            vr_cuda_check(api, VR_CU_CALL_cuDeviceGetCount, VR_CU_NO_DEVICE, VRAM_ERR_HOST_MEMORY);
    }
    if (status == VRAM_OK) {
        *count = (uint32_t)found;
    }
    return status;
}

/* Several contexts may start the driver: loading it again returns the same library, and a second
   cuInit does nothing. */
vram_status vr_cuda_start(struct vr_backend *backend, const struct vr_cuda_dialect *dialect) {
    struct vr_cuda *cuda = vr_mem_alloc(1, sizeof *cuda, "start");
    if (!cuda) {
        return VRAM_ERR_HOST_MEMORY;
    }
    char version[sizeof backend->version] = "";
    vram_status status = driver_load(cuda, dialect);
    if (status == VRAM_OK) {
        status =
            vr_cuda_check(&cuda->api, VR_CU_CALL_cuInit, cuda->api.cuInit(0), VRAM_ERR_HOST_MEMORY);
    }
    if (status == VRAM_OK) {
        status = dialect->version(&cuda->api, version, sizeof version);
    }
    if (status == VRAM_OK) {
        status = devices_count(&cuda->api, &cuda->device_count);
    }
    if (status != VRAM_OK) {
        vr_mem_free(cuda);
        return absent_status(status);
    }
    memcpy(backend->version, version, sizeof version);
    backend->impl = cuda;
    return VRAM_OK;
}

void vr_cuda_stop(struct vr_backend *backend) {
    vr_mem_free(backend->impl);
    backend->impl = NULL;
}

uint32_t vr_cuda_count(struct vr_backend *backend) {
    const struct vr_cuda *cuda = backend->impl;
    return cuda->device_count;
}

/* --------------------------------------------------------------- describing */

/* These queries may fail without harm: the value is then unknown. */
static bool query_device(const struct vr_cuda_api *api, enum vr_cuda_query fact,
                         vr_cu_device device, int *value) {
    int number = api->dialect->queries[fact];
    return number != VR_CUDA_NO_QUERY &&
           api->cuDeviceGetAttribute(value, (enum vr_cu_attribute)number, device) == VR_CU_SUCCESS;
}

static void describe_architecture(const struct vr_cuda_api *api, vr_cu_device device,
                                  struct vram_device_info *info) {
    const char *format = api->dialect->architecture;
    int major = 0, minor = 0;
    if (format && query_device(api, VR_CUDA_QUERY_MAJOR, device, &major) &&
        query_device(api, VR_CUDA_QUERY_MINOR, device, &minor)) {
        snprintf(info->architecture, sizeof info->architecture, format, major, minor);
    }
}

/* Lower case, as other APIs and tools write the bus address, so that it can be compared. */
static void describe_identity(const struct vr_cuda_api *api, vr_cu_device device,
                              struct vram_device_info *info) {
    struct vr_cu_uuid uuid;
    char pci[sizeof info->pci] = "";
    if (api->cuDeviceGetUuid && api->cuDeviceGetUuid(&uuid, device) == VR_CU_SUCCESS) {
        memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
        info->uuid_known = true;
    }
    if (api->cuDeviceGetPCIBusId &&
        api->cuDeviceGetPCIBusId(pci, (int)sizeof pci, device) == VR_CU_SUCCESS) {
        for (size_t i = 0; i + 1 < sizeof pci && pci[i]; i++) {
            info->pci[i] = (char)tolower((unsigned char)pci[i]);
        }
        info->pci_known = true;
    }
}

/* The firmware of some machines (AMD's APUs) sets memory aside for the GPU, which the host does not
   count. A device with more memory than the host has is such a one: it shares nothing. */
static void describe_integrated(const struct vr_cuda_api *api, vr_cu_device device,
                                struct vram_device_info *info) {
    int integrated = 0;
    if (!query_device(api, VR_CUDA_QUERY_INTEGRATED, device, &integrated)) {
        info->caps_known &= ~(uint32_t)VRAM_CAP_INTEGRATED;
        return;
    }
    vram_value host = integrated ? vr_os_memory_installed() : (vram_value){0, false};
    bool apart = api->dialect->sets_memory_aside && host.known && info->memory_bytes.known &&
                 info->memory_bytes.value > host.value;
    info->caps |= integrated && !apart ? VRAM_CAP_INTEGRATED : 0;
}

/* The group is present as a whole or not at all. */
static bool has_vmm_calls(const struct vr_cuda_api *api) {
    return api->cuMemGetAllocationGranularity && api->cuMemAddressReserve &&
           api->cuMemAddressFree && api->cuMemCreate && api->cuMemRelease && api->cuMemMap &&
           api->cuMemSetAccess && api->cuMemUnmap;
}

/* Virtual memory management is present, absent, or unknown: if the driver does not answer, or
   reports an impossible granule. */
static void describe_vmm(const struct vr_cuda_api *api, vr_cu_device device,
                         struct vram_device_info *info) {
    const struct vr_cu_prop prop = {.type = VR_CU_ALLOCATION_PINNED,
                                    .location = {VR_CU_LOCATION_DEVICE, device}};
    int supported = 0, rdma = 0;
    size_t granule = 0;
    if (!has_vmm_calls(api)) {
        return;
    }
    if (!query_device(api, VR_CUDA_QUERY_VMM, device, &supported)) {
        info->caps_known &= ~(uint32_t)(VRAM_CAP_VMM | VRAM_CAP_ALIAS);
        return;
    }
    if (!supported) {
        return;
    }
    if (api->cuMemGetAllocationGranularity(&granule, &prop, VR_CU_GRANULARITY_MINIMUM) ||
        granule < VR_KIB * 4 || !vr_is_power_of_two(granule)) {
        info->caps_known &= ~(uint32_t)(VRAM_CAP_VMM | VRAM_CAP_ALIAS);
        return;
    }
    info->caps |= VRAM_CAP_VMM | VRAM_CAP_ALIAS;
    if (query_device(api, VR_CUDA_QUERY_RDMA, device, &rdma) && rdma) {
        info->caps |= VRAM_CAP_RDMA;
    }
    info->vmm_granule = (vram_value){granule, true};
}

/* Managed memory is offered only if host and device may use it at the same time. */
static void describe_managed(const struct vr_cuda_api *api, vr_cu_device device,
                             struct vram_device_info *info) {
    int managed = 0, concurrent = 0;
    if (!api->cuMemAllocManaged) {
        return;
    }
    if (!query_device(api, VR_CUDA_QUERY_MANAGED, device, &managed) ||
        !query_device(api, VR_CUDA_QUERY_CONCURRENT_MANAGED, device, &concurrent)) {
        info->caps_known &= ~(uint32_t)VRAM_CAP_MANAGED;
    } else if (managed && concurrent) {
        info->caps |= VRAM_CAP_MANAGED;
    }
}

/* A device has peers if it can access the memory of any other device. */
static void describe_peers(const struct vr_cuda *cuda, vr_cu_device device,
                           struct vram_device_info *info) {
    if (!cuda->api.cuDeviceCanAccessPeer || !cuda->api.dialect->has_peer_calls(&cuda->api)) {
        return;
    }
    for (uint32_t i = 0; i < cuda->device_count; i++) {
        vr_cu_device other = (vr_cu_device)i; /* devices are ordinals */
        int can = 0;
        if (other != device &&
            cuda->api.cuDeviceCanAccessPeer(&can, device, other) == VR_CU_SUCCESS && can) {
            info->caps |= VRAM_CAP_PEERS;
        }
    }
}

static void describe_kernels(const struct vr_cuda_api *api, struct vram_device_info *info) {
    if (api->cuModuleLoadData && api->cuModuleUnload && api->cuModuleGetFunction &&
        api->cuLaunchKernel) {
        info->caps |= VRAM_CAP_KERNELS;
    }
}

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };
#undef CAP_BIT

/* The backend needs one address space for host and device. Every current driver on a 64-bit system
   has it. */
static vram_status check_addressing(const struct vr_cuda_api *api, vr_cu_device device) {
    int unified = 0, number = api->dialect->queries[VR_CUDA_QUERY_UNIFIED];
    if (number == VR_CUDA_NO_QUERY) {
        return VRAM_OK;
    }
    vram_status status =
        vr_cuda_check(api, VR_CU_CALL_cuDeviceGetAttribute,
                      api->cuDeviceGetAttribute(&unified, (enum vr_cu_attribute)number, device),
                      VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK && !unified) {
        status = vr_error_set(VRAM_ERR_NO_DEVICE, api->dialect->name,
                              api->dialect->names[VR_CU_CALL_cuDeviceGetAttribute], 0,
                              "device %d has no unified addressing, which libvram needs", device);
    }
    return status;
}

/* Needs no context: describing a device neither starts it nor allocates memory on it. The driver
   reports no largest allocation, so that is unknown. */
vram_status vr_cuda_describe(struct vr_backend *backend, uint32_t index,
                             struct vram_device_info *info) {
    const struct vr_cuda *cuda = backend->impl;
    const struct vr_cuda_api *api = &cuda->api;
    char name[sizeof info->name] = "";
    vr_cu_device device = 0;
    size_t bytes = 0;
    vram_status status = vr_cuda_check(api, VR_CU_CALL_cuDeviceGet,
                                       api->cuDeviceGet(&device, (int)index), VRAM_ERR_HOST_MEMORY);
    if (status == VRAM_OK) {
        status = vr_cuda_check(api, VR_CU_CALL_cuDeviceGetName,
                               api->cuDeviceGetName(name, (int)sizeof name, device),
                               VRAM_ERR_HOST_MEMORY);
    }
    if (status == VRAM_OK) {
        status = check_addressing(api, device);
    }
    if (status != VRAM_OK) {
        return absent_status(status);
    }
    name[sizeof name - 1] = 0;
    memcpy(info->name, name, sizeof name);
    info->kind = VRAM_DEVICE_GPU;
    info->caps_known = ALL_CAPS;
    info->caps = VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_MEMORY_INFO | VRAM_CAP_ADOPT;
    info->alloc_granule = (vram_value){api->dialect->granule, true};
    if (api->cuDeviceTotalMem(&bytes, device) == VR_CU_SUCCESS) {
        info->memory_bytes = (vram_value){bytes, true};
    }
    describe_architecture(api, device, info);
    describe_identity(api, device, info);
    describe_integrated(api, device, info);
    describe_vmm(api, device, info);
    describe_managed(api, device, info);
    describe_peers(cuda, device, info);
    describe_kernels(api, info);
    return VRAM_OK;
}
