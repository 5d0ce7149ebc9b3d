/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_opencl_world.h: a loader for tests of the OpenCL layer, and the tests' driver behind it,
 * with the functions that it has not: images are buffers there, and pipes.
 */
#ifndef TEST_LAYER_OPENCL_WORLD_H
#define TEST_LAYER_OPENCL_WORLD_H

#include "interpose/layer_opencl_abi.h"
#include "opencl/fake_opencl.h"

#include <dlfcn.h>
#include <string.h>

/* What a program calls: the layer's functions, and the driver's own where it has none. */
struct calls {
#define FIELD(place, returns, name, parameters) returns(*name) parameters;
    LAYER_CL_FUNCTIONS(FIELD)
#undef FIELD
};

static void *driver_table[LAYER_CL_PLACES];
static struct calls cl, driver;
static const struct fake_opencl_control *fake;
static const struct opencl_control *plan;
static struct vr_cl_context *context;
static struct vr_cl_device *device;

enum { KIB = 1024, MIB = 1024 * 1024 };

/* ------------------------------------------------ what the driver does not have */

static size_t image_bytes = 3 * MIB;

static struct vr_cl_memory *create_image(struct vr_cl_context *of, vr_cl_bits flags,
                                         const struct layer_cl_image_format *format,
                                         const struct layer_cl_image_desc *desc, void *host,
                                         vr_cl_int *code) {
    (void)format;
    if (desc->parent) { /* as a sub-buffer: it keeps its parent, and shares its memory */
        struct vr_cl_region region = {0, 4096};
        return driver.clCreateSubBuffer(desc->parent, flags, VR_CL_BUFFER_CREATE_TYPE_REGION,
                                        &region, code);
    }
    return driver.clCreateBuffer(of, flags, image_bytes, host, code);
}

static struct vr_cl_memory *create_image_2d(struct vr_cl_context *of, vr_cl_bits flags,
                                            const struct layer_cl_image_format *format,
                                            size_t width, size_t height, size_t pitch, void *host,
                                            vr_cl_int *code) {
    (void)format, (void)pitch;
    return driver.clCreateBuffer(of, flags, width * height, host, code);
}

static struct vr_cl_memory *create_pipe(struct vr_cl_context *of, vr_cl_bits flags,
                                        vr_cl_uint bytes, vr_cl_uint packets,
                                        const vr_cl_props *props, vr_cl_int *code) {
    (void)props;
    return driver.clCreateBuffer(of, flags, (size_t)bytes * packets, NULL, code);
}

static struct vr_cl_memory *create_with(struct vr_cl_context *of, const vr_cl_bits *props,
                                        vr_cl_bits flags, size_t bytes, void *host,
                                        vr_cl_int *code) {
    (void)props;
    return driver.clCreateBuffer(of, flags, bytes, host, code);
}

static vr_cl_int enqueue_free_code;

static vr_cl_int enqueue_free(struct vr_cl_queue *queue, vr_cl_uint count, void **pointers,
                              layer_cl_free_fn *callback, void *user, vr_cl_uint waits,
                              struct vr_cl_event *const *events, struct vr_cl_event **event) {
    (void)waits, (void)events, (void)event;
    for (vr_cl_uint i = 0; !enqueue_free_code && !callback && i < count; i++) {
        driver.clSVMFree(context, pointers[i]);
    }
    if (!enqueue_free_code && callback) {
        callback(queue, count, pointers, user);
    }
    return enqueue_free_code;
}

/* A device of AMD's: what is free, in KiB. */
static vr_cl_int get_device_info(struct vr_cl_device *of, vr_cl_uint what, size_t bytes,
                                 void *value, size_t *needed) {
    size_t free_kib[2] = {900 * 1024, 800 * 1024};
    if (what != LAYER_CL_DEVICE_FREE_MEMORY_AMD) {
        return driver.clGetDeviceInfo(of, what, bytes, value, needed);
    }
    if (value && bytes >= sizeof free_kib) {
        memcpy(value, free_kib, sizeof free_kib);
    }
    *needed = sizeof free_kib;
    return VR_CL_SUCCESS;
}

static void *get_any(const char *name) {
    return driver.clGetExtensionFunctionAddressForPlatform(NULL, name);
}

/* ---------------------------------------------------------------- the loader */

#define PUT(name, function)                                                                        \
    do {                                                                                           \
        __typeof__(cl.name) own = function;                                                        \
        memcpy(&driver_table[place_of(#name)], &own, sizeof own);                                  \
    } while (0)

static int place_of(const char *wanted) {
#define PLACE(place, returns, name, parameters)                                                    \
    if (!strcmp(wanted, #name)) {                                                                  \
        return place;                                                                              \
    }
    LAYER_CL_FUNCTIONS(PLACE)
#undef PLACE
    return -1;
}

static void table_read(struct calls *to, void *const *own) {
    const void *found;
#define READ(place, returns, name, parameters)                                                     \
    found = own && own[place] ? own[place] : driver_table[place];                                  \
    memcpy(&to->name, &found, sizeof found);
    LAYER_CL_FUNCTIONS(READ)
#undef READ
}

static vr_cl_int (*context_release)(struct vr_cl_context *of);

/* A pointer to a function is none to an object, for a compiler. */
static void function_set(void *to, void *found) {
    assert_non_null(found);
    memcpy(to, &found, sizeof found);
}

static void driver_load(void) {
    void *library = dlopen(FAKE_OPENCL_PATH, RTLD_NOW);
    assert_non_null(library);
    const struct fake_opencl_control *(*fake_get)(void);
    const struct opencl_control *(*plan_get)(void);
    function_set(&fake_get, dlsym(library, "fake_opencl_control"));
    function_set(&plan_get, dlsym(library, "opencl_control"));
    function_set(&context_release, dlsym(library, "clReleaseContext"));
    fake = fake_get();
    plan = plan_get();
#define LOAD(place, returns, name, parameters) driver_table[place] = dlsym(library, #name);
    LAYER_CL_FUNCTIONS(LOAD)
#undef LOAD
    fake->reset();
    fake->settings->usm = 1;
    fake->settings->platforms = fake->settings->devices = 2;
    table_read(&driver, NULL);
    PUT(clCreateImage, create_image);
    PUT(clCreateImage2D, create_image_2d);
    PUT(clCreatePipe, create_pipe);
    PUT(clCreateBufferWithProperties, create_with);
    PUT(clEnqueueSVMFree, enqueue_free);
    PUT(clGetDeviceInfo, get_device_info);
    PUT(clGetExtensionFunctionAddress, get_any);
}

#endif
