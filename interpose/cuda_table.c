/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_table.c: which function of this library stands in front of which entry point of the CUDA
 * driver, and cuGetProcAddress, by which runtimes find them.
 *
 * cuGetProcAddress answers with the symbol of the version that the caller was built for. The entry
 * is found by the address of the driver's function, or by version if the driver has another one
 * that it does not export. For a version later than this table a function that is not exported under
 * a known name may have other parameters: it is passed through and counted.
 */
#include "cuda_run.h"

#include <dlfcn.h>
#include <string.h>

static struct run_entry entries[CUDA_ENTRY_COUNT] = {
#define RUN_CUDA_ROW(symbol, base, since, per_thread)                                              \
    {#symbol, base, since, per_thread, (void *)(uintptr_t)symbol, NULL},
    RUN_CUDA_ENTRIES(RUN_CUDA_ROW)
#undef RUN_CUDA_ROW
};

/* Symbols that allocate nothing, or what is freed with something that is counted. */
static bool is_harmless(const char *symbol) {
    static const char *const beginnings[] = {
        "cuMemcpy",
        "cuMemset",
        "cuMemPrefetch",
        "cuMemAdvise",
        "cuMemRange",
        "cuMemGet",
        "cuMemSetAccess",
        "cuMemAddress",
        "cuMemExport",
        "cuMemHostGet",
        "cuMemMapArray",
        "cuMemPoolExport",
        "cuMemPoolImport",
        "cuMemPoolSet",
        "cuMemPoolGet",
        "cuMemBatch",
        "cuMemDiscard",
        "cuArrayGet",
        "cuArray3DGet",
        "cuMipmappedArrayGet",
        "cuModuleGet",
        "cuLibraryGet",
        "cuModuleEnum",
        "cuLibraryEnum",
        "cuLibrarySet",
        "cuCtxGet",
        "cuCtxSet",
        "cuCtxPush",
        "cuCtxPop",
        "cuCtxSync",
        "cuCtxEnable",
        "cuCtxDisable",
        "cuCtxReset",
        "cuCtxAttach",
        "cuCtxDetach",
        "cuCtxRecord",
        "cuCtxWait",
        "cuCtxFrom",
        "cuIpcGet",
        "cuIpcOpenEvent",
        "cuDevicePrimaryCtxGetState",
        "cuDevicePrimaryCtxSetFlags",
    };
    for (unsigned i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (strncmp(symbol, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_memory(const char *symbol) {
    static const char *const families[] = {"cuMem",    "cuArray",        "cuMipmapped",
                                           "cuModule", "cuLibrary",      "cuCtx",
                                           "cuIpc",    "cuDevicePrimary"};
    for (unsigned i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strncmp(symbol, families[i], strlen(families[i])) == 0) {
            return !is_harmless(symbol);
        }
    }
    return false;
}

struct run_driver run_cuda_driver = {"cu",    "libcuda.so",     "libcuda.so.1",
                                     entries, CUDA_ENTRY_COUNT, is_memory};

static int driver_missing(void) {
    return CUDA_NOT_FOUND;
}

void *cuda_real(enum cuda_entry entry) {
    void *real = run_entry_real(&run_cuda_driver, &entries[entry]);
    return real ? real : (void *)(uintptr_t)driver_missing;
}

/* ------------------------------------------------------------- cuGetProcAddress */

/* The exported symbol whose address the driver gave out; NULL: none that is known. */
static struct run_entry *entry_at(const char *base, const void *address) {
    for (size_t i = 0; i < CUDA_ENTRY_COUNT; i++) {
        if (strcmp(entries[i].base, base) == 0 &&
            run_entry_real(&run_cuda_driver, &entries[i]) == address) {
            return &entries[i];
        }
    }
    return NULL;
}

static struct run_entry *entry_of_version(const char *base, int version, bool per_thread) {
    struct run_entry *found = NULL;
    for (size_t i = 0; i < CUDA_ENTRY_COUNT; i++) {
        struct run_entry *entry = &entries[i];
        if (strcmp(entry->base, base) == 0 && entry->since <= version &&
            (entry->per_thread == per_thread || (!found && !entry->per_thread)) &&
            (!found || entry->since >= found->since)) {
            found = entry;
        }
    }
    return found;
}

/* Replaces what the driver gave out by our function, if we have one. */
static void entry_replace(const char *base, void **address, int version, uint64_t flags) {
    enum { PER_THREAD = 2 };
    if (!base || !address || !*address || !run_active() || run_module_is_own(*address)) {
        return;
    }
    struct run_entry *entry = entry_at(base, *address);
    if (!entry && version <= CUDA_TABLE_VERSION) {
        entry = entry_of_version(base, version, (flags & PER_THREAD) != 0);
    }
    if (!entry) {
        if (is_memory(base)) {
            run_unknown(base);
        }
        return;
    }
    void *unknown = NULL;
    (void)__atomic_compare_exchange_n(&entry->real, &unknown, *address, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
    *address = entry->own;
}

int cuGetProcAddress(const char *symbol, void **entry, int version, uint64_t flags) {
    int code = CUDA_REAL(cuGetProcAddress)(symbol, entry, version, flags);
    if (code == CUDA_SUCCESS) {
        entry_replace(symbol, entry, version, flags);
    }
    return code;
}

int cuGetProcAddress_v2(const char *symbol, void **entry, int version, uint64_t flags,
                        int *result) {
    int code = CUDA_REAL(cuGetProcAddress_v2)(symbol, entry, version, flags, result);
    if (code == CUDA_SUCCESS) {
        entry_replace(symbol, entry, version, flags);
    }
    return code;
}

/* -------------------------------------------------------------- further functions */

static void *driver_symbol(void *library, const char *name, const char *older) {
    void *found = library ? run_dlsym_real(library, name) : NULL;
    return found || !older || !library ? found : run_dlsym_real(library, older);
}

const struct cuda_driver_calls *cuda_calls(void) {
    static struct cuda_driver_calls calls;
    static _Atomic(int) ready;
    if (atomic_load_explicit(&ready, memory_order_acquire)) {
        return &calls;
    }
    void *library = dlopen(run_cuda_driver.soname, RTLD_LAZY | RTLD_NOLOAD);
    const struct {
        const char *name, *older;
    } names[] = {
        {"cuCtxGetDevice", NULL},
        {"cuCtxGetCurrent", NULL},
        {"cuCtxPushCurrent_v2", NULL},
        {"cuCtxPopCurrent_v2", NULL},
        {"cuCtxSynchronize", NULL},
        {"cuDeviceGetName", NULL},
        {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"},
        {"cuStreamIsCapturing", NULL},
        {"cuDeviceGetDefaultMemPool", NULL},
        {"cuDeviceGetMemPool", NULL},
        {"cuDevicePrimaryCtxGetState", NULL},
    };
    void *found[sizeof names / sizeof names[0]];
    _Static_assert(sizeof found == sizeof calls, "one name for each function");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = driver_symbol(library, names[i].name, names[i].older);
    }
    static _Atomic(int) writing;
    if (library && !atomic_exchange(&writing, 1)) {
        memcpy(&calls, found, sizeof calls);
        atomic_store_explicit(&ready, 1, memory_order_release);
    }
    while (library && !atomic_load_explicit(&ready, memory_order_acquire)) {
    }
    return &calls;
}
