/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_spent.h: how long the driver itself takes for its calls. Known where the program runs with
 * the shim between libvram and the driver:
 *
 *   VRAM_CUDA_LIBRARY=$PWD/build/tests/fake/libcuda_shim.so bench/share_bench
 *
 * Without it nothing is known. The shim itself adds about a microsecond to each call.
 */
#ifndef DRIVER_SPENT_H
#define DRIVER_SPENT_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint64_t driver_spent_fn(const char *name, uint64_t *calls);

/* The shim's shim_spent; NULL: libvram has not loaded the shim. */
static inline driver_spent_fn *driver_spent(void) {
    const char *path = getenv("VRAM_CUDA_LIBRARY");
    void *shim = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    driver_spent_fn *spent = NULL;
    if (shim) {
        *(void **)&spent = dlsym(shim, "shim_spent");
    }
    return spent;
}

/* Milliseconds in all calls of `name` so far; 0 if nothing is known. */
static inline double driver_spent_ms(const char *name) {
    driver_spent_fn *spent = driver_spent();
    return spent ? (double)spent(name, NULL) / 1e6 : 0;
}

#endif
