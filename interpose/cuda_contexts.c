/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_contexts.c: devices, contexts and modules of CUDA, and what the driver says about free
 * memory.
 *
 * The driver does not tell what a context or a module takes. Free memory before and after does,
 * unless another process allocates meanwhile; contexts and modules are rare enough to ask. What is
 * more than DRIVER_MOST can only be another process's, and then nothing is known. A context that
 * ends takes all its memory with it.
 */
#include "cuda_run.h"

#include "base/os/os.h"

#include <string.h>

#define CALLER      __builtin_return_address(0)
#define DRIVER_MOST (UINT64_C(1) << 30) /* that a context or a module takes */

/* ------------------------------------------------------------------------- devices */

uint32_t cuda_device(int ordinal) {
    static _Atomic(uint64_t) known[RUN_DEVICES]; /* generation of the process << 8 | number + 1 */
    uint64_t generation = vr_os_process_generation() << 8;
    if (ordinal >= 0 && ordinal < RUN_DEVICES) {
        uint64_t found = atomic_load_explicit(&known[ordinal], memory_order_relaxed);
        if (found >> 8 == generation >> 8 && (found & 255)) {
            return (uint32_t)(found & 255) - 1;
        }
    }
    if (ordinal < 0 || !run_active()) {
        return RUN_NO_DEVICE;
    }
    char name[RUN_NAME] = "";
    unsigned char uuid[16] = {0};
    size_t total = 0;
    const struct cuda_driver_calls *calls = cuda_calls();
    if (calls->device_name) {
        (void)calls->device_name(name, sizeof name, ordinal);
    }
    if (calls->device_uuid) {
        (void)calls->device_uuid(uuid, ordinal);
    }
    (void)CUDA_REAL(cuDeviceTotalMem_v2)(&total, ordinal);
    uint32_t device = run_device_find(RUN_CUDA, (uint32_t)ordinal, name, total);
    run_device_uuid(device, uuid);
    if (ordinal < RUN_DEVICES && device < RUN_DEVICES) {
        atomic_store_explicit(&known[ordinal], generation | (device + 1), memory_order_relaxed);
    }
    return device;
}

uint32_t cuda_device_current(void) {
    int ordinal = 0;
    const struct cuda_driver_calls *calls = cuda_calls();
    if (calls->context_device && calls->context_device(&ordinal) != CUDA_SUCCESS) {
        return RUN_NO_DEVICE; /* no context: the driver will refuse the call */
    }
    return cuda_device(ordinal);
}

uint64_t cuda_free_bytes(void) {
    size_t free = 0, total = 0;
    return CUDA_REAL(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS ? free : 0;
}

void cuda_figure(uint32_t device) {
    if (run_device_due(device)) {
        uint64_t free = cuda_free_bytes();
        if (free) {
            run_device_figure(device, free);
        }
    }
}

/* ------------------------------------------------------------ what the driver says */

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    int code = CUDA_REAL(cuMemGetInfo_v2)(free, total);
    if (code == CUDA_SUCCESS && free && total && run_active()) {
        uint32_t device = cuda_device_current();
        uint64_t left = *free, all = *total;
        run_device_figure(device, left);
        run_limit_view(device, &left, &all);
        *free = (size_t)left;
        *total = (size_t)all;
    }
    return code;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    int code = CUDA_REAL(cuDeviceTotalMem_v2)(bytes, device);
    if (code == CUDA_SUCCESS && run_limit_bytes()) {
        uint64_t all = *bytes;
        run_limit_view(RUN_NO_DEVICE, NULL, &all);
        *bytes = (size_t)all;
    }
    return code;
}

/* ------------------------------------------------------------------------ contexts */

/* What the driver took for itself. The program did not ask for it, so the limit does not refuse it;
   it counts as far as there is room. */
static void driver_took(uint32_t device, enum run_kind kind, enum run_space space, uint64_t value,
                        uint64_t fell, const void *caller) {
    uint64_t bytes = fell <= DRIVER_MOST ? fell : 0;
    bool counted = run_limit_take(device, kind, bytes);
    run_alloc(&(struct run_block){.device = device,
                                  .kind = kind,
                                  .space = space,
                                  .value = value,
                                  .bytes = bytes,
                                  .limit = counted ? bytes : RUN_LIMIT_NONE,
                                  .caller = caller});
}

/* What a first context takes: what is in use beyond what was before the program started. */
static void context_took(uint32_t device, uint64_t free) {
    uint64_t before = run_device_before(device), total = run_device_total(device);
    struct run_block block;
    if (before && total >= free && !run_block_find(RUN_SPACE_CONTEXT, device + 1, &block)) {
        uint64_t used = total - free, counted = run_device_counted(device);
        uint64_t known = before - 1 + counted;
        driver_took(device, RUN_CONTEXT, RUN_SPACE_CONTEXT, device + 1,
                    used > known ? used - known : 0, NULL);
    }
}

/* A context was made, or the primary one retained: the first one of a device says how much memory
   is left once the driver has taken its own part. */
static void context_made(int ordinal, void *context) {
    const struct cuda_driver_calls *calls = cuda_calls();
    uint32_t device = cuda_device(ordinal);
    void *popped;
    if (!run_device_due(device) || !calls->context_push || !calls->context_pop ||
        calls->context_push(context) != CUDA_SUCCESS) {
        return;
    }
    uint64_t free = cuda_free_bytes();
    (void)calls->context_pop(&popped);
    if (free) {
        run_device_figure(device, free);
        context_took(device, free);
    }
}

/* More than one context of a device is rare, and which block is whose is not known: blocks end with
   the primary one, which runtimes use. */
static void context_ended(int ordinal) {
    if (run_active()) {
        run_context_ended(cuda_device(ordinal));
    }
}

/* A released primary context ends with its last user. */
static int context_released(int code, int ordinal) {
    unsigned flags;
    int active = 1;
    const struct cuda_driver_calls *calls = cuda_calls();
    if (code == CUDA_SUCCESS && run_active() && calls->context_state &&
        calls->context_state(ordinal, &flags, &active) == CUDA_SUCCESS && !active) {
        context_ended(ordinal);
    }
    return code;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    int code = CUDA_REAL(cuCtxCreate_v2)(context, flags, device);
    if (code == CUDA_SUCCESS && run_active()) {
        context_made(device, *context);
    }
    return code;
}

int cuCtxCreate_v3(void **context, void *params, int count, unsigned flags, int device) {
    int code = CUDA_REAL(cuCtxCreate_v3)(context, params, count, flags, device);
    if (code == CUDA_SUCCESS && run_active()) {
        context_made(device, *context);
    }
    return code;
}

int cuCtxCreate_v4(void **context, void *params, unsigned flags, int device) {
    int code = CUDA_REAL(cuCtxCreate_v4)(context, params, flags, device);
    if (code == CUDA_SUCCESS && run_active()) {
        context_made(device, *context);
    }
    return code;
}

int cuCtxDestroy_v2(void *context) {
    return CUDA_REAL(cuCtxDestroy_v2)(context);
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    int code = CUDA_REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (code == CUDA_SUCCESS && run_active()) {
        context_made(device, *context);
    }
    return code;
}

int cuDevicePrimaryCtxRelease(int device) {
    return context_released(CUDA_REAL(cuDevicePrimaryCtxRelease)(device), device);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    return context_released(CUDA_REAL(cuDevicePrimaryCtxRelease_v2)(device), device);
}

int cuDevicePrimaryCtxReset(int device) {
    int code = CUDA_REAL(cuDevicePrimaryCtxReset)(device);
    if (code == CUDA_SUCCESS) {
        context_ended(device);
    }
    return code;
}

int cuDevicePrimaryCtxReset_v2(int device) {
    int code = CUDA_REAL(cuDevicePrimaryCtxReset_v2)(device);
    if (code == CUDA_SUCCESS) {
        context_ended(device);
    }
    return code;
}

/* ------------------------------------------------------------------------- modules */

/* Around a load: what it took is what free memory fell by. */
static uint64_t module_before(void) {
    return run_active() ? cuda_free_bytes() : 0;
}

static int module_after(int code, void *const *module, uint64_t before, const void *caller) {
    uint64_t after = code == CUDA_SUCCESS && before ? cuda_free_bytes() : 0;
    if (after && after < before) { /* most code is loaded later, or into memory that is there */
        driver_took(cuda_device_current(), RUN_CODE, RUN_SPACE_MODULE, (uintptr_t)*module,
                    before - after, caller);
    }
    return code;
}

int cuModuleLoad(void **module, const char *path) {
    uint64_t before = module_before();
    return module_after(CUDA_REAL(cuModuleLoad)(module, path), module, before, CALLER);
}

int cuModuleLoadData(void **module, const void *image) {
    uint64_t before = module_before();
    return module_after(CUDA_REAL(cuModuleLoadData)(module, image), module, before, CALLER);
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values) {
    uint64_t before = module_before();
    int code = CUDA_REAL(cuModuleLoadDataEx)(module, image, count, options, values);
    return module_after(code, module, before, CALLER);
}

int cuModuleLoadFatBinary(void **module, const void *image) {
    uint64_t before = module_before();
    return module_after(CUDA_REAL(cuModuleLoadFatBinary)(module, image), module, before, CALLER);
}

int cuLibraryLoadData(void **library, const void *code, int *jit, void **jit_values,
                      unsigned jit_count, int *options, void **values, unsigned count) {
    uint64_t before = module_before();
    int result = CUDA_REAL(cuLibraryLoadData)(library, code, jit, jit_values, jit_count, options,
                                              values, count);
    return module_after(result, library, before, CALLER);
}

int cuLibraryLoadFromFile(void **library, const char *path, int *jit, void **jit_values,
                          unsigned jit_count, int *options, void **values, unsigned count) {
    uint64_t before = module_before();
    int result = CUDA_REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, jit_count,
                                                  options, values, count);
    return module_after(result, library, before, CALLER);
}

static int module_unload(int (*real)(void *module), void *module) {
    struct run_block block;
    bool known = run_block_find(RUN_SPACE_MODULE, (uintptr_t)module, &block) &&
                 run_free_begin(RUN_SPACE_MODULE, (uintptr_t)module, &block);
    int code = real(module);
    run_free_end(known ? &block : NULL, code == CUDA_SUCCESS);
    return code;
}

int cuModuleUnload(void *module) {
    return module_unload(CUDA_REAL(cuModuleUnload), module);
}

int cuLibraryUnload(void *library) {
    return module_unload(CUDA_REAL(cuLibraryUnload), library);
}
