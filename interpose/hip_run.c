/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_run.c: memory of HIP, counted on its way through. HIP is a runtime that programs link with,
 * so its exported functions are the entry points. Not run on hardware.
 */
#include "dl_entry.h"
#include "mapped_handles.h"
#include "run_record.h"

#include <dlfcn.h>
#include <string.h>

#define RUN_EXPORT __attribute__((visibility("default")))
#define CALLER     __builtin_return_address(0)

enum { HIP_SUCCESS = 0, HIP_OUT_OF_MEMORY = 2, HIP_NOT_FOUND = 500 };

#define RUN_HIP_ENTRIES(X)                                                                         \
    X(hipMalloc)                                                                                   \
    X(hipExtMallocWithFlags)                                                                       \
    X(hipMallocManaged)                                                                            \
    X(hipMallocPitch)                                                                              \
    X(hipMallocAsync)                                                                              \
    X(hipMallocFromPoolAsync)                                                                      \
    X(hipFree)                                                                                     \
    X(hipFreeAsync)                                                                                \
    X(hipHostMalloc)                                                                               \
    X(hipMallocHost)                                                                               \
    X(hipHostAlloc)                                                                                \
    X(hipHostFree)                                                                                 \
    X(hipFreeHost)                                                                                 \
    X(hipHostRegister)                                                                             \
    X(hipHostUnregister)                                                                           \
    X(hipMemCreate)                                                                                \
    X(hipMemRelease)                                                                               \
    X(hipMemRetainAllocationHandle)                                                                \
    X(hipMemImportFromShareableHandle)                                                             \
    X(hipMemMap)                                                                                   \
    X(hipMemUnmap)                                                                                 \
    X(hipMemGetInfo)                                                                               \
    X(hipDeviceTotalMem)                                                                           \
    X(hipGetDeviceProperties)                                                                      \
    X(hipGetDevicePropertiesR0600)                                                                 \
    X(hipGetProcAddress)                                                                           \
    X(hipDeviceReset)

RUN_EXPORT int hipMalloc(void **memory, size_t bytes);
RUN_EXPORT int hipExtMallocWithFlags(void **memory, size_t bytes, unsigned flags);
RUN_EXPORT int hipMallocManaged(void **memory, size_t bytes, unsigned flags);
RUN_EXPORT int hipMallocPitch(void **memory, size_t *pitch, size_t width, size_t height);
RUN_EXPORT int hipMallocAsync(void **memory, size_t bytes, void *stream);
RUN_EXPORT int hipMallocFromPoolAsync(void **memory, size_t bytes, void *pool, void *stream);
RUN_EXPORT int hipFree(void *memory);
RUN_EXPORT int hipFreeAsync(void *memory, void *stream);
RUN_EXPORT int hipHostMalloc(void **memory, size_t bytes, unsigned flags);
RUN_EXPORT int hipMallocHost(void **memory, size_t bytes);
RUN_EXPORT int hipHostAlloc(void **memory, size_t bytes, unsigned flags);
RUN_EXPORT int hipHostFree(void *memory);
RUN_EXPORT int hipFreeHost(void *memory);
RUN_EXPORT int hipHostRegister(void *memory, size_t bytes, unsigned flags);
RUN_EXPORT int hipHostUnregister(void *memory);
RUN_EXPORT int hipMemCreate(void **handle, size_t bytes, const void *prop,
                            unsigned long long flags);
RUN_EXPORT int hipMemRelease(void *handle);
RUN_EXPORT int hipMemRetainAllocationHandle(void **handle, void *address);
RUN_EXPORT int hipMemImportFromShareableHandle(void **handle, void *shared, int type);
RUN_EXPORT int hipMemMap(void *address, size_t bytes, size_t offset, void *handle,
                         unsigned long long flags);
RUN_EXPORT int hipMemUnmap(void *address, size_t bytes);
RUN_EXPORT int hipMemGetInfo(size_t *free, size_t *total);
RUN_EXPORT int hipDeviceTotalMem(size_t *bytes, int device);
RUN_EXPORT int hipGetDeviceProperties(void *properties, int device);
RUN_EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);
RUN_EXPORT int hipGetProcAddress(const char *symbol, void **entry, int version, uint64_t flags,
                                 void *status);
RUN_EXPORT int hipDeviceReset(void);

enum hip_entry {
#define RUN_HIP_NUMBER(symbol) HIP_ENTRY_##symbol,
    RUN_HIP_ENTRIES(RUN_HIP_NUMBER)
#undef RUN_HIP_NUMBER
        HIP_ENTRY_COUNT
};

static struct run_entry entries[HIP_ENTRY_COUNT] = {
#define RUN_HIP_ROW(symbol) {#symbol, #symbol, 0, false, (void *)(uintptr_t)symbol, NULL},
    RUN_HIP_ENTRIES(RUN_HIP_ROW)
#undef RUN_HIP_ROW
};

static bool hip_is_memory(const char *symbol) {
    return strncmp(symbol, "hipMalloc", 9) == 0 || strncmp(symbol, "hipHostMalloc", 13) == 0 ||
           strncmp(symbol, "hipExtMalloc", 12) == 0;
}

struct run_driver run_hip_driver = {"hip",   "libamdhip64.so", "libamdhip64.so.6",
                                    entries, HIP_ENTRY_COUNT,  hip_is_memory};

static int driver_missing(void) {
    return HIP_NOT_FOUND;
}

static void *hip_real(enum hip_entry entry) {
    void *real = run_entry_real(&run_hip_driver, &entries[entry]);
    return real ? real : (void *)(uintptr_t)driver_missing;
}
#define HIP_REAL(symbol) ((__typeof__(&symbol))(uintptr_t)hip_real(HIP_ENTRY_##symbol))

/* --------------------------------------------------------------------- the device */

/* hipGetDevice, in the library that the program uses. */
static int hip_ordinal(void) {
    static void *_Atomic get;
    int ordinal = 0;
    void *found = atomic_load_explicit(&get, memory_order_acquire);
    if (!found) {
        void *library = dlopen(run_hip_driver.soname, RTLD_LAZY | RTLD_NOLOAD);
        found = run_dlsym_real(library ? library : RTLD_NEXT, "hipGetDevice");
        atomic_store_explicit(&get, found, memory_order_release);
    }
    int (*call)(int *) = (int (*)(int *))(uintptr_t)found;
    return call && call(&ordinal) == HIP_SUCCESS ? ordinal : 0;
}

static uint32_t hip_device(int ordinal) {
    size_t total = 0;
    if (!run_active()) {
        return RUN_NO_DEVICE;
    }
    uint32_t device = run_device_find(RUN_HIP, (uint32_t)ordinal, NULL, 0);
    if (!run_device_total(device)) {
        (void)HIP_REAL(hipDeviceTotalMem)(&total, ordinal);
        device = run_device_find(RUN_HIP, (uint32_t)ordinal, NULL, total);
    }
    return device;
}

static void hip_figure(uint32_t device) {
    size_t free = 0, total = 0;
    if (run_device_due(device) && HIP_REAL(hipMemGetInfo)(&free, &total) == HIP_SUCCESS) {
        run_device_figure(device, free);
    }
}

/* ------------------------------------------------------------------------ requests */

struct hip_request {
    uint32_t device;
    enum run_kind kind;
    uint64_t bytes;
};

static bool request_begin(struct hip_request *request, enum run_kind kind, uint64_t bytes) {
    *request = (struct hip_request){hip_device(hip_ordinal()), kind, bytes};
    if (run_limit_take(request->device, kind, bytes)) {
        return true;
    }
    run_refused(request->device, kind, bytes, true);
    return false;
}

static int request_end(const struct hip_request *request, int code, enum run_space space,
                       const void *value, const void *stream, const void *caller) {
    if (code == HIP_SUCCESS) {
        run_alloc(&(struct run_block){.device = request->device,
                                      .kind = request->kind,
                                      .space = space,
                                      .value = (uintptr_t)value,
                                      .bytes = request->bytes,
                                      .queue = (uintptr_t)stream,
                                      .caller = caller});
        if (request->kind == RUN_DEVICE) {
            hip_figure(request->device);
        }
        return code;
    }
    run_limit_give(request->device, request->kind, request->bytes);
    if (code == HIP_OUT_OF_MEMORY) {
        run_refused(request->device, request->kind, request->bytes, false);
    }
    return code;
}

/* HIP is a shared library that may call its own exported functions, and then finds ours: what it
   does for a call that is counted already is not counted again. */
static _Thread_local bool inside;

/* A function that allocates: parameters behind the size are in `arguments`. */
#define HIP_ALLOC(symbol, kind, stream, ...)                                                       \
    struct hip_request request;                                                                    \
    if (inside) {                                                                                  \
        return HIP_REAL(symbol)(__VA_ARGS__);                                                      \
    }                                                                                              \
    if (!request_begin(&request, kind, bytes)) {                                                   \
        return HIP_OUT_OF_MEMORY;                                                                  \
    }                                                                                              \
    inside = true;                                                                                 \
    int code = HIP_REAL(symbol)(__VA_ARGS__);                                                      \
    inside = false;                                                                                \
    return request_end(&request, code, RUN_SPACE_ADDRESS, code ? NULL : *memory, stream, CALLER)

int hipMalloc(void **memory, size_t bytes) {
    HIP_ALLOC(hipMalloc, RUN_DEVICE, NULL, memory, bytes);
}

int hipExtMallocWithFlags(void **memory, size_t bytes, unsigned flags) {
    HIP_ALLOC(hipExtMallocWithFlags, RUN_DEVICE, NULL, memory, bytes, flags);
}

int hipMallocManaged(void **memory, size_t bytes, unsigned flags) {
    HIP_ALLOC(hipMallocManaged, RUN_MANAGED, NULL, memory, bytes, flags);
}

int hipMallocPitch(void **memory, size_t *pitch, size_t width, size_t height) {
    size_t bytes;
    if (__builtin_mul_overflow(width, height, &bytes)) {
        bytes = SIZE_MAX;
    }
    HIP_ALLOC(hipMallocPitch, RUN_DEVICE, NULL, memory, pitch, width, height);
}

int hipMallocAsync(void **memory, size_t bytes, void *stream) {
    HIP_ALLOC(hipMallocAsync, RUN_STREAM, stream, memory, bytes, stream);
}

int hipMallocFromPoolAsync(void **memory, size_t bytes, void *pool, void *stream) {
    HIP_ALLOC(hipMallocFromPoolAsync, RUN_STREAM, stream, memory, bytes, pool, stream);
}

int hipHostMalloc(void **memory, size_t bytes, unsigned flags) {
    HIP_ALLOC(hipHostMalloc, RUN_PINNED, NULL, memory, bytes, flags);
}

int hipMallocHost(void **memory, size_t bytes) {
    HIP_ALLOC(hipMallocHost, RUN_PINNED, NULL, memory, bytes);
}

int hipHostAlloc(void **memory, size_t bytes, unsigned flags) {
    HIP_ALLOC(hipHostAlloc, RUN_PINNED, NULL, memory, bytes, flags);
}

/* ---------------------------------------------------------------------------- frees */

#define HIP_FREE(symbol, space, value, ...)                                                        \
    struct run_block block;                                                                        \
    if (inside) {                                                                                  \
        return HIP_REAL(symbol)(__VA_ARGS__);                                                      \
    }                                                                                              \
    bool known = run_free_begin(space, (uintptr_t)(value), &block);                                \
    inside = true;                                                                                 \
    int code = HIP_REAL(symbol)(__VA_ARGS__);                                                      \
    inside = false;                                                                                \
    run_free_end(known ? &block : NULL, code == HIP_SUCCESS);                                      \
    return code

int hipFree(void *memory) {
    HIP_FREE(hipFree, RUN_SPACE_ADDRESS, memory, memory);
}

int hipFreeAsync(void *memory, void *stream) {
    HIP_FREE(hipFreeAsync, RUN_SPACE_ADDRESS, memory, memory, stream);
}

int hipHostFree(void *memory) {
    HIP_FREE(hipHostFree, RUN_SPACE_ADDRESS, memory, memory);
}

int hipFreeHost(void *memory) {
    HIP_FREE(hipFreeHost, RUN_SPACE_ADDRESS, memory, memory);
}

int hipHostRegister(void *memory, size_t bytes, unsigned flags) {
    struct hip_request request;
    (void)request_begin(&request, RUN_REGISTERED, bytes);
    int code = HIP_REAL(hipHostRegister)(memory, bytes, flags);
    return request_end(&request, code, RUN_SPACE_REGISTERED, memory, NULL, CALLER);
}

int hipHostUnregister(void *memory) {
    HIP_FREE(hipHostUnregister, RUN_SPACE_REGISTERED, memory, memory);
}

/* ------------------------------------------------------------------- physical memory */

struct hip_prop { /* hipMemAllocationProp, as far as it is needed here */
    int type, handle_types, location_type, location_id;
};

int hipMemCreate(void **handle, size_t bytes, const void *prop, unsigned long long flags) {
    enum { LOCATION_DEVICE = 1 };
    const struct hip_prop *about = prop;
    bool of_device = !about || about->location_type == LOCATION_DEVICE;
    enum run_kind kind = of_device ? RUN_PHYSICAL : RUN_HOST;
    uint32_t device = hip_device(about && of_device ? about->location_id : hip_ordinal());
    if (!run_limit_take(device, kind, bytes)) {
        run_refused(device, kind, bytes, true);
        return HIP_OUT_OF_MEMORY;
    }
    int code = HIP_REAL(hipMemCreate)(handle, bytes, prop, flags);
    if (code == HIP_SUCCESS) {
        run_handle_created(&(struct run_block){.device = device,
                                               .kind = kind,
                                               .space = RUN_SPACE_PHYSICAL,
                                               .value = (uintptr_t)*handle,
                                               .bytes = bytes,
                                               .caller = CALLER});
        return code;
    }
    run_limit_give(device, kind, bytes);
    if (code == HIP_OUT_OF_MEMORY) {
        run_refused(device, kind, bytes, false);
    }
    return code;
}

int hipMemImportFromShareableHandle(void **handle, void *shared, int type) {
    int code = HIP_REAL(hipMemImportFromShareableHandle)(handle, shared, type);
    if (code == HIP_SUCCESS) {
        run_handle_created(&(struct run_block){.device = hip_device(hip_ordinal()),
                                               .kind = RUN_IMPORTED,
                                               .space = RUN_SPACE_PHYSICAL,
                                               .value = (uintptr_t)*handle,
                                               .caller = CALLER});
    }
    return code;
}

int hipMemRetainAllocationHandle(void **handle, void *address) {
    int code = HIP_REAL(hipMemRetainAllocationHandle)(handle, address);
    if (code == HIP_SUCCESS) {
        run_handle_retained((uintptr_t)*handle);
    }
    return code;
}

int hipMemRelease(void *handle) {
    struct run_handle_end end;
    run_handle_release_begin((uintptr_t)handle, &end);
    int code = HIP_REAL(hipMemRelease)(handle);
    run_handle_end(&end, code == HIP_SUCCESS);
    return code;
}

int hipMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags) {
    int code = HIP_REAL(hipMemMap)(address, bytes, offset, handle, flags);
    if (code == HIP_SUCCESS) {
        run_handle_mapped((uintptr_t)handle, (uintptr_t)address, bytes);
    }
    return code;
}

int hipMemUnmap(void *address, size_t bytes) {
    struct run_handle_end end;
    run_handle_unmap_begin((uintptr_t)address, bytes, &end);
    int code = HIP_REAL(hipMemUnmap)(address, bytes);
    run_handle_end(&end, code == HIP_SUCCESS);
    return code;
}

/* --------------------------------------------------------------- what HIP says, resets */

int hipMemGetInfo(size_t *free, size_t *total) {
    int code = HIP_REAL(hipMemGetInfo)(free, total);
    if (code == HIP_SUCCESS && free && total && run_active()) {
        uint32_t device = hip_device(hip_ordinal());
        uint64_t left = *free, all = *total;
        run_device_figure(device, left);
        run_limit_view(device, &left, &all);
        *free = (size_t)left;
        *total = (size_t)all;
    }
    return code;
}

int hipDeviceTotalMem(size_t *bytes, int device) {
    int code = HIP_REAL(hipDeviceTotalMem)(bytes, device);
    if (code == HIP_SUCCESS && run_limit_bytes()) {
        uint64_t all = *bytes;
        run_limit_view(RUN_NO_DEVICE, NULL, &all);
        *bytes = (size_t)all;
    }
    return code;
}

/* totalGlobalMem lies behind the name, in later versions behind the identity too. */
static int properties_view(int code, void *properties, size_t offset) {
    size_t bytes;
    if (code == HIP_SUCCESS && properties && run_limit_bytes()) {
        memcpy(&bytes, (char *)properties + offset, sizeof bytes);
        uint64_t all = bytes;
        run_limit_view(RUN_NO_DEVICE, NULL, &all);
        bytes = (size_t)all;
        memcpy((char *)properties + offset, &bytes, sizeof bytes);
    }
    return code;
}

int hipGetDeviceProperties(void *properties, int device) {
    return properties_view(HIP_REAL(hipGetDeviceProperties)(properties, device), properties, 256);
}

int hipGetDevicePropertiesR0600(void *properties, int device) {
    return properties_view(HIP_REAL(hipGetDevicePropertiesR0600)(properties, device), properties,
                           288);
}

int hipGetProcAddress(const char *symbol, void **entry, int version, uint64_t flags, void *status) {
    int code = HIP_REAL(hipGetProcAddress)(symbol, entry, version, flags, status);
    struct run_entry *found = code == HIP_SUCCESS && symbol && entry && *entry && run_active()
                                  ? run_entry_find(&run_hip_driver, symbol)
                                  : NULL;
    if (found && run_entry_real(&run_hip_driver, found) == *entry) {
        *entry = found->own;
    }
    return code;
}

int hipDeviceReset(void) {
    uint32_t device = hip_device(hip_ordinal());
    int code = HIP_REAL(hipDeviceReset)();
    if (code == HIP_SUCCESS) {
        run_context_ended(device);
    }
    return code;
}
