/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_resolution.c: what the CUDA driver has for runtimes, and libvram does not call:
 * cuGetProcAddress, which answers with the symbol of a version, the current context, pitched
 * memory, arrays, and pools of stream-ordered memory. `vram run` is tested with these.
 */
#include "fake/fake_state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- cuGetProcAddress */

/* FAKE_CUDA_NEWER=NAME: from version 14000 on, that name means a function that is not exported. */
static vr_cu_result newer_function(void) {
    return VR_CU_SUCCESS;
}

/* The C library's dlsym: `vram run` stands in front of the one that is found by name. */
static void *own_symbol(const char *symbol) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *real = NULL;
    for (unsigned i = 0; libc && !real && i < sizeof versions / sizeof versions[0]; i++) {
        real = dlvsym(libc, "dlsym", versions[i]);
    }
    Dl_info info;
    void *own = real && dladdr((void *)(uintptr_t)newer_function, &info)
                    ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                    : NULL;
    void *(*look)(void *, const char *) = (void *(*)(void *, const char *))(uintptr_t)real;
    void *found = own ? look(own, symbol) : NULL;
    if (own) {
        dlclose(own);
    }
    return found;
}

static void *symbol_find(const char *name, int version, uint64_t flags) {
    static const char *const suffixes[] = {"_ptsz", "_v4", "_v3", "_v2", ""};
    const char *newer = fake_environment("NEWER");
    void *found = NULL;
    if (newer && version >= 14000 && strcmp(newer, name) == 0) {
        return (void *)(uintptr_t)newer_function;
    }
    for (unsigned i = flags & 2 ? 0 : 1; !found && i < sizeof suffixes / sizeof *suffixes; i++) {
        char symbol[96];
        snprintf(symbol, sizeof symbol, "%s%s", name, suffixes[i]);
        found = own_symbol(symbol);
    }
    return found;
}

FAKE_API vr_cu_result cuGetProcAddress_v2(const char *name, void **entry, int version,
                                          uint64_t flags, int *result);
FAKE_API vr_cu_result cuGetProcAddress_v2(const char *name, void **entry, int version,
                                          uint64_t flags, int *result) {
    *entry = symbol_find(name, version, flags);
    if (result) {
        *result = *entry ? 0 : 1;
    }
    return *entry ? VR_CU_SUCCESS : VR_CU_NOT_FOUND;
}

FAKE_API vr_cu_result cuGetProcAddress(const char *name, void **entry, int version, uint64_t flags);
FAKE_API vr_cu_result cuGetProcAddress(const char *name, void **entry, int version,
                                       uint64_t flags) {
    return cuGetProcAddress_v2(name, entry, version, flags, NULL);
}

/* ----------------------------------------------------------------------- contexts */

FAKE_API vr_cu_result cuCtxGetDevice(int *device);
FAKE_API vr_cu_result cuCtxGetDevice(int *device) {
    pthread_mutex_lock(&fake.lock);
    struct fake_device *found = fake_current_device();
    pthread_mutex_unlock(&fake.lock);
    *device = found ? found->ordinal : 0;
    return found ? VR_CU_SUCCESS : VR_CU_INVALID_CONTEXT;
}

FAKE_API vr_cu_result cuCtxGetCurrent(struct vr_cu_context **context);
FAKE_API vr_cu_result cuCtxGetCurrent(struct vr_cu_context **context) {
    *context = fake_current_context();
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuCtxSynchronize(void);
FAKE_API vr_cu_result cuCtxSynchronize(void) {
    pthread_mutex_lock(&fake.lock);
    vr_cu_result code = fake_leave(fake_context_uncaptured());
    return code == VR_CU_SUCCESS ? fake_cuStreamSynchronize(NULL) : code;
}

FAKE_API vr_cu_result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
FAKE_API vr_cu_result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    if (device < 0 || device >= fake.device_count) {
        return VR_CU_INVALID_DEVICE;
    }
    *flags = 0;
    *active = fake.devices[device].primary.alive;
    return VR_CU_SUCCESS;
}

/* ------------------------------------------------------- pitched memory and arrays */

FAKE_API vr_cu_result cuMemAllocPitch_v2(vr_cu_addr *addr, size_t *pitch, size_t width,
                                         size_t height, unsigned element);
FAKE_API vr_cu_result cuMemAllocPitch_v2(vr_cu_addr *addr, size_t *pitch, size_t width,
                                         size_t height, unsigned element) {
    size_t wide = (width + 511) / 512 * 512;
    vr_cu_result code = element ? fake_cuMemAlloc(addr, wide * height) : VR_CU_INVALID_VALUE;
    *pitch = wide;
    return code;
}

struct array_shape {
    size_t width, height;
    int format;
    unsigned channels;
};

/* An array's handle is the address of its memory. */
FAKE_API vr_cu_result cuArrayCreate_v2(void **array, const struct array_shape *shape);
FAKE_API vr_cu_result cuArrayCreate_v2(void **array, const struct array_shape *shape) {
    vr_cu_addr addr;
    size_t rows = shape->height ? shape->height : 1;
    vr_cu_result code = fake_cuMemAlloc(&addr, shape->width * rows * shape->channels * 4);
    if (code == VR_CU_SUCCESS) {
        *array = (void *)(uintptr_t)addr;
    }
    return code;
}

FAKE_API vr_cu_result cuArrayDestroy(void *array);
FAKE_API vr_cu_result cuArrayDestroy(void *array) {
    return fake_cuMemFree((vr_cu_addr)(uintptr_t)array);
}

/* --------------------------------------------------------- stream-ordered memory */

static vr_cu_result alloc_ordered(vr_cu_addr *addr, size_t bytes, struct vr_cu_stream *stream) {
    unsigned long long id;
    vr_cu_result code = fake_cuStreamGetId(stream, &id);
    return code == VR_CU_SUCCESS ? fake_cuMemAlloc(addr, bytes) : code;
}

FAKE_API vr_cu_result cuMemAllocAsync_ptsz(vr_cu_addr *addr, size_t bytes,
                                           struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemAllocAsync_ptsz(vr_cu_addr *addr, size_t bytes,
                                           struct vr_cu_stream *stream) {
    return alloc_ordered(addr, bytes, stream);
}

FAKE_API vr_cu_result cuMemFreeAsync_ptsz(vr_cu_addr addr, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemFreeAsync_ptsz(vr_cu_addr addr, struct vr_cu_stream *stream) {
    vr_cu_result code = fake_cuStreamSynchronize(stream);
    return code == VR_CU_SUCCESS ? fake_cuMemFree(addr) : code;
}

/* Pools that keep nothing. */
FAKE_API vr_cu_result cuMemPoolCreate(void **pool, const void *props);
FAKE_API vr_cu_result cuMemPoolCreate(void **pool, const void *props) {
    *pool = props ? calloc(1, 64) : NULL;
    return *pool ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE;
}

FAKE_API vr_cu_result cuMemPoolDestroy(void *pool);
FAKE_API vr_cu_result cuMemPoolDestroy(void *pool) {
    free(pool);
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuMemPoolTrimTo(void *pool, size_t keep);
FAKE_API vr_cu_result cuMemPoolTrimTo(void *pool, size_t keep) {
    (void)keep;
    return pool ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE;
}

FAKE_API vr_cu_result cuMemAllocFromPoolAsync(vr_cu_addr *addr, size_t bytes, void *pool,
                                              struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemAllocFromPoolAsync(vr_cu_addr *addr, size_t bytes, void *pool,
                                              struct vr_cu_stream *stream) {
    return pool ? alloc_ordered(addr, bytes, stream) : VR_CU_INVALID_VALUE;
}

FAKE_API vr_cu_result cuDeviceGetMemPool(void **pool, int device);
struct vr_cu_pool;
vr_cu_result cuDeviceGetDefaultMemPool(struct vr_cu_pool **pool, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetMemPool(void **pool, int device) {
    struct vr_cu_pool *found;
    vr_cu_result code = cuDeviceGetDefaultMemPool(&found, device);
    *pool = code == VR_CU_SUCCESS ? found : NULL;
    return code;
}
