/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dl_entry.h: dlsym as the program sees it. Static runtimes find their driver by dlopen and dlsym,
 * so an entry point that is looked up in a driver's library is answered with this library's own.
 */
#ifndef DL_ENTRY_H
#define DL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

/* The C library's dlsym. Symbols are looked up for this library: not for RTLD_NEXT of others. */
void *run_dlsym_real(void *handle, const char *name);

/* The file name, without its folder, of the module at an address; NULL: unknown. */
const char *run_module_of(const void *address);
/* Whether the address lies in this library. */
bool run_module_is_own(const void *address);

/* An entry point that stands in front of one of a driver. */
struct run_entry {
    const char *symbol; /* as the library exports it */
    const char *base;   /* as cuGetProcAddress takes it; NULL: it does not */
    int since;          /* version of the API from which on `base` means this symbol */
    bool per_thread;    /* for the per-thread default stream */
    void *own;          /* our function */
    void *real;         /* the driver's, once known; atomic */
};

/* The entries of one driver. */
struct run_driver {
    const char *prefix; /* of its symbols: "cu" */
    const char *module; /* how the file name of its library begins: "libcuda.so" */
    const char *soname; /* to find it when the program is linked with it */
    struct run_entry *entries;
    size_t count;
    /* Whether a symbol that is no entry may allocate memory: it is counted as unknown. */
    bool (*is_memory)(const char *symbol);
};

extern struct run_driver run_cuda_driver, run_hip_driver, run_nvml_driver;

/* The driver's own function; NULL: the process has no such driver. */
void *run_entry_real(const struct run_driver *driver, struct run_entry *entry);
struct run_entry *run_entry_find(const struct run_driver *driver, const char *symbol);

#endif
