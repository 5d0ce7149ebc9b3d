/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_driver.c: drivers that look things up in ways that made interposers of others recurse.
 *
 *   libcuda.so.1    hands every call on to libcuda.so.1.1 beside it, found by dlopen and dlsym, as
 *                   on WSL2; also built as that one (DRIVER_SECOND), which is the driver itself. It
 *                   leaves rubbish in the results of calls that fail.
 *   libamdhip64.so.6 (DRIVER_HIP)  its functions call others of its own that are exported, and look
 *                   themselves up in everything that is loaded.
 *
 * Addresses are numbers: nobody follows them.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#define DRIVER_API __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NOT_FOUND = 500, DEPTH_MOST = 64 };
#define TOTAL   ((size_t)1 << 30)
#define RUBBISH 0xdeadbeefdeadbeefull

/* Each of the three needs some of these. */
#define SOME __attribute__((unused))

SOME static atomic_ullong next_addr = 0x700000000000;
SOME static _Thread_local int depth;

/* An endless recursion ends here, and not on the stack's guard page. */
SOME static void depth_check(void) {
    if (++depth > DEPTH_MOST) {
        abort();
    }
}

#ifdef DRIVER_HIP

DRIVER_API int hipInit(unsigned flags);
DRIVER_API int hipGetDevice(int *device);
DRIVER_API int hipDeviceTotalMem(size_t *bytes, int device);
DRIVER_API int hipMemGetInfo(size_t *free, size_t *total);
DRIVER_API int hipExtMallocWithFlags(void **memory, size_t bytes, unsigned flags);
DRIVER_API int hipMalloc(void **memory, size_t bytes);
DRIVER_API int hipFreeAsync(void *memory, void *stream);
DRIVER_API int hipFree(void *memory);

int hipInit(unsigned flags) {
    return flags ? NOT_FOUND : SUCCESS;
}

int hipGetDevice(int *device) {
    *device = 0;
    return SUCCESS;
}

int hipDeviceTotalMem(size_t *bytes, int device) {
    *bytes = TOTAL;
    return device ? NOT_FOUND : SUCCESS;
}

int hipMemGetInfo(size_t *free, size_t *total) {
    *free = *total = TOTAL;
    return SUCCESS;
}

int hipExtMallocWithFlags(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = (void *)(size_t)atomic_fetch_add(&next_addr, bytes + 4096);
    return SUCCESS;
}

/* Through the table of the loader, where an interposer's functions come first. */
int hipMalloc(void **memory, size_t bytes) {
    depth_check();
    int code =
        dlsym(RTLD_DEFAULT, "hipMalloc") ? hipExtMallocWithFlags(memory, bytes, 0) : NOT_FOUND;
    depth--;
    return code;
}

int hipFreeAsync(void *memory, void *stream) {
    (void)stream;
    return memory ? SUCCESS : NOT_FOUND;
}

int hipFree(void *memory) {
    depth_check();
    int code = hipFreeAsync(memory, NULL);
    depth--;
    return code;
}

#else

typedef unsigned long long addr_number;

DRIVER_API int cuInit(unsigned flags);
DRIVER_API int cuCtxGetDevice(int *device);
DRIVER_API int cuMemAlloc_v2(addr_number *addr, size_t bytes);
DRIVER_API int cuMemFree_v2(addr_number addr);
DRIVER_API int cuMemGetInfo_v2(size_t *free, size_t *total);
DRIVER_API int cuDeviceTotalMem_v2(size_t *bytes, int device);

#ifdef DRIVER_SECOND

int cuInit(unsigned flags) {
    return flags ? NOT_FOUND : SUCCESS;
}

int cuCtxGetDevice(int *device) {
    *device = 0;
    return SUCCESS;
}

int cuMemAlloc_v2(addr_number *addr, size_t bytes) {
    if (bytes > TOTAL) {
        *addr = RUBBISH;
        return OUT_OF_MEMORY;
    }
    *addr = atomic_fetch_add(&next_addr, bytes + 4096);
    return SUCCESS;
}

int cuMemFree_v2(addr_number addr) {
    return addr == RUBBISH || !addr ? NOT_FOUND : SUCCESS;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = *total = TOTAL;
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = TOTAL;
    return device ? NOT_FOUND : SUCCESS;
}

#else

/* Looked up at every call, as a lookup that is repeated is no recursion. */
static void *second(const char *name) {
    void *library = dlopen("libcuda.so.1.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

#define PASS(name, parameters, ...)                                                                \
    int name parameters {                                                                          \
        int(*real) parameters = (int(*) parameters)(size_t)second(#name);                          \
        depth_check();                                                                             \
        int code = real ? real(__VA_ARGS__) : NOT_FOUND;                                           \
        depth--;                                                                                   \
        return code;                                                                               \
    }

PASS(cuInit, (unsigned flags), flags)
PASS(cuCtxGetDevice, (int *device), device)
PASS(cuMemAlloc_v2, (addr_number * addr, size_t bytes), addr, bytes)
PASS(cuMemFree_v2, (addr_number addr), addr)
PASS(cuMemGetInfo_v2, (size_t * free, size_t *total), free, total)
PASS(cuDeviceTotalMem_v2, (size_t * bytes, int device), bytes, device)

#endif
#endif
