/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_run.h: the entry points of the CUDA driver that this library stands in front of, and what
 * their files share. Handles are void pointers here: nothing looks into them.
 */
#ifndef CUDA_RUN_H
#define CUDA_RUN_H

#include "dl_entry.h"
#include "run_record.h"

typedef unsigned long long cuda_addr;   /* CUdeviceptr */
typedef unsigned long long cuda_handle; /* CUmemGenericAllocationHandle */

enum {
    CUDA_SUCCESS = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_FOUND = 500,
    CUDA_TABLE_VERSION = 13000 /* what the entries below were written for */
};

/* Symbol, name for cuGetProcAddress, version from which on it means this symbol, whether it is the
   one for per-thread default streams. */
#define RUN_CUDA_ENTRIES(X)                                                                        \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, false)                                          \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, false)                                       \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, false)                                                    \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, false)                                          \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, false)                                         \
    X(cuMemFree_v2, "cuMemFree", 3020, false)                                                      \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, false)                                            \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, true)                                        \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, false)                            \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, true)                        \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, false)                                              \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, true)                                          \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, false)                                            \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, false)                                               \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, false)                                                 \
    X(cuMemHostRegister, "cuMemHostRegister", 4000, false)                                         \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, false)                                      \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, false)                                     \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, false)                                                \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, false)                                        \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, false)                                              \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, false)                                          \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, false)                                               \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, false)                               \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, false)                             \
    X(cuMemCreate, "cuMemCreate", 10020, false)                                                    \
    X(cuMemRelease, "cuMemRelease", 10020, false)                                                  \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, false)                    \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, false)              \
    X(cuMemMap, "cuMemMap", 10020, false)                                                          \
    X(cuMemUnmap, "cuMemUnmap", 10020, false)                                                      \
    X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, false)                                       \
    X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, false)                                   \
    X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, false)                                     \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, false)                                            \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, false)                                          \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, false)                                            \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, false)                                \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, false)                                \
    X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, false)                                      \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, false)                                          \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, false)                                                  \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, false)                                                 \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, false)                                                 \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, false)                                                \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, false)                           \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, false)                         \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, false)                     \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, false)                             \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, false)                         \
    X(cuModuleLoad, "cuModuleLoad", 2000, false)                                                   \
    X(cuModuleLoadData, "cuModuleLoadData", 2000, false)                                           \
    X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, false)                                       \
    X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, false)                                 \
    X(cuModuleUnload, "cuModuleUnload", 2000, false)                                               \
    X(cuLibraryLoadData, "cuLibraryLoadData", 12000, false)                                        \
    X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, false)                                \
    X(cuLibraryUnload, "cuLibraryUnload", 12000, false)

#define RUN_EXPORT __attribute__((visibility("default")))

/* Prototypes. The same order; `int` is CUresult. */
RUN_EXPORT int cuGetProcAddress(const char *symbol, void **entry, int version, uint64_t flags);
RUN_EXPORT int cuGetProcAddress_v2(const char *symbol, void **entry, int version, uint64_t flags,
                                   int *result);
RUN_EXPORT int cuMemAlloc_v2(cuda_addr *addr, size_t bytes);
RUN_EXPORT int cuMemAllocPitch_v2(cuda_addr *addr, size_t *pitch, size_t width, size_t height,
                                  unsigned element);
RUN_EXPORT int cuMemAllocManaged(cuda_addr *addr, size_t bytes, unsigned flags);
RUN_EXPORT int cuMemFree_v2(cuda_addr addr);
RUN_EXPORT int cuMemAllocAsync(cuda_addr *addr, size_t bytes, void *stream);
RUN_EXPORT int cuMemAllocAsync_ptsz(cuda_addr *addr, size_t bytes, void *stream);
RUN_EXPORT int cuMemAllocFromPoolAsync(cuda_addr *addr, size_t bytes, void *pool, void *stream);
RUN_EXPORT int cuMemAllocFromPoolAsync_ptsz(cuda_addr *addr, size_t bytes, void *pool,
                                            void *stream);
RUN_EXPORT int cuMemFreeAsync(cuda_addr addr, void *stream);
RUN_EXPORT int cuMemFreeAsync_ptsz(cuda_addr addr, void *stream);
RUN_EXPORT int cuMemAllocHost_v2(void **memory, size_t bytes);
RUN_EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
RUN_EXPORT int cuMemFreeHost(void *memory);
RUN_EXPORT int cuMemHostRegister(void *memory, size_t bytes, unsigned flags);
RUN_EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
RUN_EXPORT int cuMemHostUnregister(void *memory);
RUN_EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total);
RUN_EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
RUN_EXPORT int cuArrayCreate_v2(void **array, const void *descriptor);
RUN_EXPORT int cuArray3DCreate_v2(void **array, const void *descriptor);
RUN_EXPORT int cuArrayDestroy(void *array);
RUN_EXPORT int cuMipmappedArrayCreate(void **array, const void *descriptor, unsigned levels);
RUN_EXPORT int cuMipmappedArrayDestroy(void *array);
RUN_EXPORT int cuMemCreate(cuda_handle *handle, size_t bytes, const void *prop,
                           unsigned long long flags);
RUN_EXPORT int cuMemRelease(cuda_handle handle);
RUN_EXPORT int cuMemRetainAllocationHandle(cuda_handle *handle, void *addr);
RUN_EXPORT int cuMemImportFromShareableHandle(cuda_handle *handle, void *shared, int type);
RUN_EXPORT int cuMemMap(cuda_addr addr, size_t bytes, size_t offset, cuda_handle handle,
                        unsigned long long flags);
RUN_EXPORT int cuMemUnmap(cuda_addr addr, size_t bytes);
struct cuda_ipc_handle { /* passed by value */
    char bytes[64];
};
RUN_EXPORT int cuIpcOpenMemHandle(cuda_addr *addr, struct cuda_ipc_handle handle, unsigned flags);
RUN_EXPORT int cuIpcOpenMemHandle_v2(cuda_addr *addr, struct cuda_ipc_handle handle,
                                     unsigned flags);
RUN_EXPORT int cuIpcCloseMemHandle(cuda_addr addr);
RUN_EXPORT int cuMemPoolCreate(void **pool, const void *props);
RUN_EXPORT int cuMemPoolDestroy(void *pool);
RUN_EXPORT int cuMemPoolTrimTo(void *pool, size_t keep);
RUN_EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value);
RUN_EXPORT int cuMemPoolGetAttribute(void *pool, int attribute, void *value);
struct cuda_access { /* CUmemAccessDesc */
    int location_type, location_id, flags;
};
RUN_EXPORT int cuMemPoolSetAccess(void *pool, const struct cuda_access *access, size_t count);
RUN_EXPORT int cuStreamDestroy_v2(void *stream);
RUN_EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device);
RUN_EXPORT int cuCtxCreate_v3(void **context, void *params, int count, unsigned flags, int device);
RUN_EXPORT int cuCtxCreate_v4(void **context, void *params, unsigned flags, int device);
RUN_EXPORT int cuCtxDestroy_v2(void *context);
RUN_EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
RUN_EXPORT int cuDevicePrimaryCtxRelease(int device);
RUN_EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
RUN_EXPORT int cuDevicePrimaryCtxReset(int device);
RUN_EXPORT int cuDevicePrimaryCtxReset_v2(int device);
RUN_EXPORT int cuModuleLoad(void **module, const char *path);
RUN_EXPORT int cuModuleLoadData(void **module, const void *image);
RUN_EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                                  void **values);
RUN_EXPORT int cuModuleLoadFatBinary(void **module, const void *image);
RUN_EXPORT int cuModuleUnload(void *module);
RUN_EXPORT int cuLibraryLoadData(void **library, const void *code, int *jit, void **jit_values,
                                 unsigned jit_count, int *options, void **values, unsigned count);
RUN_EXPORT int cuLibraryLoadFromFile(void **library, const char *path, int *jit, void **jit_values,
                                     unsigned jit_count, int *options, void **values,
                                     unsigned count);
RUN_EXPORT int cuLibraryUnload(void *library);

enum cuda_entry {
#define RUN_CUDA_NUMBER(symbol, base, since, per_thread) CUDA_ENTRY_##symbol,
    RUN_CUDA_ENTRIES(RUN_CUDA_NUMBER)
#undef RUN_CUDA_NUMBER
        CUDA_ENTRY_COUNT
};

/* The driver's function of an entry; one that answers CUDA_NOT_FOUND if there is no driver. */
void *cuda_real(enum cuda_entry entry);
#define CUDA_REAL(symbol) ((__typeof__(&symbol))(uintptr_t)cuda_real(CUDA_ENTRY_##symbol))

/* What else of the driver is called; NULL: it has no such function. */
struct cuda_driver_calls {
    int (*context_device)(int *device);     /* cuCtxGetDevice */
    int (*context_current)(void **context); /* cuCtxGetCurrent */
    int (*context_push)(void *context);     /* cuCtxPushCurrent_v2 */
    int (*context_pop)(void **context);     /* cuCtxPopCurrent_v2 */
    int (*context_synchronize)(void);       /* cuCtxSynchronize */
    int (*device_name)(char *name, int bytes, int device);
    int (*device_uuid)(void *uuid, int device);
    int (*stream_capturing)(void *stream, int *status);             /* cuStreamIsCapturing */
    int (*default_pool)(void **pool, int device);                   /* cuDeviceGetDefaultMemPool */
    int (*current_pool)(void **pool, int device);                   /* cuDeviceGetMemPool */
    int (*context_state)(int device, unsigned *flags, int *active); /* of the primary one */
};
const struct cuda_driver_calls *cuda_calls(void);

/* The recorder's number of a device, and of the calling thread's current one. */
uint32_t cuda_device(int ordinal);
uint32_t cuda_device_current(void);
/* Asks the driver for free memory if it is time to. */
void cuda_figure(uint32_t device);
/* Free memory now; 0 if the driver does not say. */
uint64_t cuda_free_bytes(void);

#endif
