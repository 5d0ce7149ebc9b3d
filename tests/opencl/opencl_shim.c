/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_shim.c: a libOpenCL between the library and a real one, which makes calls fail and hands
 * on the rest. SHIM_DRIVER is the real one's path, else libOpenCL.so.1; SHIM_FAIL plans a failure.
 * What fails never reaches the driver, so nothing on the machine is harmed.
 */
#include "opencl/opencl_entries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct vr_opencl_api real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    const char *path = getenv("SHIM_DRIVER");
    void *driver = dlopen(path && *path ? path : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found;
#define LOAD(name, need, parameters, arguments)                                                    \
    found = driver ? dlsym(driver, #name) : NULL;                                                  \
    memcpy(&real.name, &found, sizeof found);
#define LOAD_MAKE(name, need, type, parameters, arguments) LOAD(name, need, parameters, arguments)
    VR_OPENCL_FUNCTIONS(LOAD, LOAD_MAKE, LOAD, LOAD)
}

const struct vr_opencl_api *opencl_target(void) {
    pthread_once(&once, load);
    return &real;
}
