/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_layer_pocl.c: the OpenCL layer as vram run has it loaded: by the system's loader, in front
 * of PoCL. The recorder is that of the library which the loader loads.
 */
#include "unit/child.h"

#include "interpose/layer_opencl_abi.h"
#include "unit/watched_world.h"

#include <dlfcn.h>
#include <string.h>

enum { MIB = 1024 * 1024 };

/* What a program finds in the loader. */
static struct {
#define FIELD(place, returns, name, parameters) returns(*name) parameters;
    LAYER_CL_FUNCTIONS(FIELD)
#undef FIELD
    vr_cl_int (*clReleaseContext)(struct vr_cl_context *context);
    vr_cl_int (*clCreateSubDevices)(struct vr_cl_device *device, const vr_cl_props *props,
                                    vr_cl_uint room, struct vr_cl_device **devices,
                                    vr_cl_uint *count);
    vr_cl_int (*clReleaseDevice)(struct vr_cl_device *device);
} cl;

static struct vr_cl_platform *platform;
static struct vr_cl_device *device;

static struct vr_cl_context *context_make(void) {
    vr_cl_int code = -1;
    struct vr_cl_context *context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    assert_int_equal(code, VR_CL_SUCCESS);
    return context;
}

static struct watched now(void) {
    return watched_of(RUN_OPENCL, 0);
}

/* ocl-icd has layers since 2.3. */
static void skip_without_layers(void) {
    struct vr_cl_context *context = context_make();
    vr_cl_int code = -1;
    cl.clReleaseMemObject(cl.clCreateBuffer(context, 0, MIB, NULL, &code));
    cl.clReleaseContext(context);
    if (!now().allocs) {
        watched_end();
        puts("skipped: this OpenCL loader has no layers");
        exit(77);
    }
}

static int loader_open(void) {
    vr_cl_uint count = 0;
    watched_file();
    setenv("OPENCL_LAYERS", VRAM_RUN_PATH, 1);
    assert_non_null(dlopen(VRAM_RUN_PATH, RTLD_NOW)); /* as the loader will, or does not */
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
    assert_non_null(loader);
    void *found;
#define LOAD(place, returns, name, parameters) FIND(name)
#define FIND(name)                                                                                 \
    found = dlsym(loader, #name);                                                                  \
    memcpy(&cl.name, &found, sizeof found);
    LAYER_CL_FUNCTIONS(LOAD)
    FIND(clReleaseContext)
    FIND(clCreateSubDevices)
    FIND(clReleaseDevice)
    assert_int_equal(cl.clGetPlatformIDs(1, &platform, &count), VR_CL_SUCCESS);
    assert_int_equal(cl.clGetDeviceIDs(platform, VR_CL_DEVICE_TYPE_ALL, 1, &device, &count),
                     VR_CL_SUCCESS);
    skip_without_layers();
    return 0;
}

static int loader_leave(void) {
    watched_end();
    return 0;
}

/* --------------------------------------------------------------------- tests */

TEST(images_have_the_size_that_the_driver_gives_them) {
    struct vr_cl_context *context = context_make();
    const uint32_t format[2] = {0x10B5, 0x10DE}; /* CL_RGBA of CL_FLOAT */
    struct layer_cl_image_desc desc = {.type = 0x10F1, .width = 256, .height = 128};
    vr_cl_int code = -1;
    struct watched before = now();
    struct vr_cl_memory *image =
        cl.clCreateImage(context, VR_CL_MEM_READ_WRITE,
                         (const struct layer_cl_image_format *)format, &desc, NULL, &code);
    assert_int_equal(code, VR_CL_SUCCESS);
    assert_true(now().live[RUN_ARRAY] - before.live[RUN_ARRAY] >= 256 * 128 * 16);
    cl.clReleaseMemObject(image);
    assert_int_equal(now().live[RUN_ARRAY], before.live[RUN_ARRAY]);
    struct vr_cl_memory *pipe = cl.clCreatePipe(context, 0, 16, 64, NULL, &code);
    if (pipe) { /* not every version has them */
        cl.clReleaseMemObject(pipe);
    }
    assert_int_equal(now().counted, before.counted);
    cl.clReleaseContext(context);
}

TEST(under_a_limit_the_device_is_smaller) {
    uint64_t total = 0, largest = 0;
    vr_cl_int code = 0;
    watched_limit(UINT64_C(64) * MIB + now().counted);
    struct vr_cl_context *context = context_make();
    cl.clGetDeviceInfo(device, VR_CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, NULL);
    cl.clGetDeviceInfo(device, VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
    assert_int_equal(total, watched_page->settings.limit_bytes);
    assert_true(largest <= total);
    struct vr_cl_memory *memory = cl.clCreateBuffer(context, 0, 40 * MIB, NULL, &code);
    assert_int_equal(code, VR_CL_SUCCESS);
    assert_null(cl.clCreateBuffer(context, 0, 40 * MIB, NULL, &code));
    assert_int_equal(code, VR_CL_MEM_OBJECT_ALLOCATION_FAILURE);
    cl.clReleaseMemObject(memory);
    memory = cl.clCreateBuffer(context, 0, 40 * MIB, NULL, &code);
    assert_int_equal(code, VR_CL_SUCCESS);
    cl.clReleaseMemObject(memory);
    cl.clReleaseContext(context);
    watched_limit(0);
}

TEST(a_part_of_a_device_counts_as_the_device) {
    const vr_cl_props equally[] = {0x1086, 1, 0}; /* CL_DEVICE_PARTITION_EQUALLY, one unit each */
    struct vr_cl_device *parts[16], *whole = device;
    struct watched before = now();
    vr_cl_uint count = 0;
    if (cl.clCreateSubDevices(device, equally, 16, parts, &count) != VR_CL_SUCCESS || !count) {
        return; /* a processor with one unit */
    }
    device = parts[0];
    struct vr_cl_context *context = context_make();
    device = whole;
    struct vr_cl_memory *memory = cl.clCreateBuffer(context, 0, MIB, NULL, NULL);
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE] + MIB);
    cl.clReleaseMemObject(memory);
    cl.clReleaseContext(context);
    for (vr_cl_uint i = 0; i < count && i < 16; i++) {
        cl.clReleaseDevice(parts[i]);
    }
    assert_int_equal(now().live[RUN_DEVICE], before.live[RUN_DEVICE]);
}

WHOLE_FILE(loader_open, loader_leave)
