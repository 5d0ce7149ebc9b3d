/* SPDX-License-Identifier: Apache-2.0 */
/* driver_metal.c: Metal, by the tests' Objective-C runtime; see drivers.h. */
#include "drivers.h"

#include "check/scale_kernel.h"
#include "fake/fake_metal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct fake_metal_control *control;

static bool load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    control = library ? dlsym(library, "fake_metal_control") : NULL;
    return control != NULL;
}

static const char *const manners[] = {"ends in order", "ends in any order",
                                      "buffers without address"};
enum { ORDERED, UNORDERED, OLD };

static void reset(unsigned manner) {
    (void)setenv("FAKE_METAL_UNORDERED", manner == UNORDERED ? "1" : "0", 1);
    (void)setenv("FAKE_METAL_OLD", manner == OLD ? "1" : "0", 1);
    control->plan(NULL, 0, 0, false);
    control->hold(false);
}

static void set(int key, long value, const void *world) {
    (void)key, (void)value, (void)world;
}

static void plan(const char *call, uint64_t nth, int code, int lie, bool for_ever) {
    (void)lie;
    control->plan(call, nth, code, for_ever);
}

static void hold(bool held) {
    control->hold(held);
}

static uint64_t struck(void) {
    return control->struck();
}

static const char *last_call(void) {
    return control->last_call();
}

static uint64_t live(void) {
    return (uint64_t)control->live();
}

static const char *wrong(const char *call, bool all) {
    const char *text = NULL;
    (void)call, (void)all;
    return control->violations(&text) ? text : NULL;
}

/* ------------------------------------------------------------------- tables */

/* Messages give nothing; a command buffer ends with a code. */
static const int nothing[] = {0};
static const int codes[] = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 5, 99, -1};
#define NIL(name, selector)                                                                        \
    { name, name, selector, NULL, NULL, 1, nothing }
enum { SYMBOLS = 4 }; /* the first four; the rest are messages */
static const struct driver_entry entries[] = {
    NIL("sel_registerName", "sel_registerName"),
    NIL("objc_getClass", "objc_getClass"),
    NIL("MTLCopyAllDevices", "MTLCopyAllDevices"),
    {"objc_msgSend", NULL, "objc_msgSend", NULL, NULL, 0, NULL},
    {"commit", "commit", "MTLCommandBuffer", NULL, NULL, COUNT_OF(codes), codes},
    NIL("create", "new"),
    NIL("count", "count"),
    NIL("object_at", "objectAtIndex:"),
    NIL("string_with", "stringWithUTF8String:"),
    NIL("device_name", "name"),
    NIL("working_set", "recommendedMaxWorkingSetSize"),
    NIL("allocated_size", "currentAllocatedSize"),
    NIL("max_buffer", "maxBufferLength"),
    NIL("registry_id", "registryID"),
    NIL("queue_create", "newCommandQueueWithMaxCommandBufferCount:"),
    NIL("event_create", "newSharedEvent"),
    NIL("heap_create", "newHeapWithDescriptor:"),
    NIL("heap_fit", "heapBufferSizeAndAlignWithLength:options:"),
    NIL("buffer_create", "newBufferWithLength:options:"),
    NIL("library_create", "newLibraryWithSource:options:error:"),
    NIL("pipeline_create", "newComputePipelineStateWithFunction:error:"),
    NIL("heap_buffer", "newBufferWithLength:options:offset:"),
    NIL("contents", "contents"),
    NIL("gpu_address", "gpuAddress"),
    NIL("queue_device", "device"),
    NIL("command_buffer", "commandBuffer"),
    NIL("blit_encoder", "blitCommandEncoder"),
    NIL("compute_encoder", "computeCommandEncoder"),
    NIL("function_create", "newFunctionWithName:"),
    NIL("max_threads", "maxTotalThreadsPerThreadgroup"),
};

static const struct code_row statuses[] = {
    {4, 4, VRAM_ERR_DEVICE_LOST},         {11, 11, VRAM_ERR_DEVICE_LOST},
    {8, 8, VRAM_ERR_DEVICE_MEMORY},       {7, 7, VRAM_ERR_UNSUPPORTED},
    {INT_MIN, INT_MAX, VRAM_ERR_BACKEND},
};

static const int each[] = {VR_MTL_INTERNAL, 0};

static const struct excuse excuses[] = {
    /* Unknown then. */
    {"gpu_address", ANY_CODE, VRAM_OK},
    {"device_name", ANY_CODE, VRAM_OK},
    {"working_set", ANY_CODE, VRAM_ERR_DEVICE_MEMORY, OR_PASS},
    {"buffer_create", ANY_CODE, VRAM_ERR_HOST_MEMORY, UNNAMED | OR_PASS}, /* of an address */
    {"contents", ANY_CODE, VRAM_ERR_HOST_MEMORY, UNNAMED | OR_PASS},
    {"heap_fit", ANY_CODE, VRAM_OK},
    {"allocated_size", ANY_CODE, VRAM_OK},
    {"max_buffer", ANY_CODE, VRAM_OK},
    {"objc_getClass", ANY_CODE, VRAM_ERR_HOST_MEMORY, UNNAMED},
    {"create", ANY_CODE, VRAM_ERR_HOST_MEMORY, UNNAMED},
    {"string_with", ANY_CODE, VRAM_ERR_HOST_MEMORY},
    {"command_buffer", ANY_CODE, VRAM_ERR_HOST_MEMORY},
    {"blit_encoder", ANY_CODE, VRAM_ERR_HOST_MEMORY},
    {"compute_encoder", ANY_CODE, VRAM_ERR_HOST_MEMORY},
    {"count", ANY_CODE, VRAM_ERR_NO_DEVICE},
    {"object_at", ANY_CODE, VRAM_ERR_NO_DEVICE},
    {"heap_create", ANY_CODE, VRAM_ERR_DEVICE_MEMORY},
    {"heap_buffer", ANY_CODE, VRAM_ERR_DEVICE_MEMORY},
    {"queue_create", ANY_CODE, VRAM_ERR_LIMIT},
    {"event_create", ANY_CODE, VRAM_ERR_LIMIT},
    {"registry_id", ANY_CODE, VRAM_ERR_INVALID, UNNAMED}, /* the queue of another device */
    {"queue_device", ANY_CODE, VRAM_ERR_INVALID, UNNAMED},
    {"library_create", ANY_CODE, VRAM_ERR_INVALID},
    {"pipeline_create", ANY_CODE, VRAM_ERR_INVALID},
    {"function_create", ANY_CODE, VRAM_ERR_INVALID},
    {"max_threads", ANY_CODE, VRAM_ERR_INVALID, UNNAMED},
};

/* What gives nothing lies. */
static const struct lie lies[] = {
    {"command_buffer", 1, false}, {"heap_create", 1, false}, {"event_create", 1, false}};

static const struct answer answers[] = {
    {"no library", .library = "/nowhere/Metal", .reason = "/nowhere/Metal"},
    {"another library", .library = "libm.so.6", .reason = "objc_getClass"},
    {"no devices", .plan = {"MTLCopyAllDevices"}, .reason = "MTLCopyAllDevices"},
    {"none of them", .plan = {"count"}, .reason = "no device"},
    {"no selector", .plan = {"sel_registerName", .nth = 7}, .reason = "sel_registerName"},
    {"buffers without address", .manner = OLD},
};

static const vram_kernel_source kernel = {.size = sizeof kernel,
                                          .format = VRAM_KERNEL_METAL,
                                          .code = scale_metal,
                                          .code_bytes = sizeof scale_metal - 1,
                                          .entry = "vram_check_scale"};

const struct driver driver_metal = {.name = "metal",
                                    .option = "metal_library",
                                    .library = FAKE_METAL_PATH,
                                    .entries = entries,
                                    .entry_count = COUNT_OF(entries),
                                    .statuses = statuses,
                                    .excuses = excuses,
                                    .excuse_count = COUNT_OF(excuses),
                                    .answers = answers,
                                    .answer_count = COUNT_OF(answers),
                                    .lies = lies,
                                    .lie_count = COUNT_OF(lies),
                                    .sample = "commit",
                                    .each = each,
                                    .manners = manners,
                                    .manner_count = COUNT_OF(manners),
                                    .usual_manners = COUNT_OF(manners),
                                    .alike = true,
                                    .symbol_count = SYMBOLS,
                                    .kernel = &kernel,
                                    .load = load,
                                    .reset = reset,
                                    .set = set,
                                    .plan = plan,
                                    .hold = hold,
                                    .struck = struck,
                                    .last_call = last_call,
                                    .live = live,
                                    .wrong = wrong};
