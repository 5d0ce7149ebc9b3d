/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_kernel.c: launches. The kernels here are C functions, which host and simulated devices run;
 * where a device has kernels but not in C, the cases say so and are skipped.
 */
#include "case.h"

#include <string.h>

static bool make_kernel(struct check *check, struct check_device *device, vram_kernel_fn *function,
                        vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)function,
                                 .entry = "check"};
    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    vram_status status = vram_kernel_create(device->device, &source, kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "the device runs no kernels in C");
    }
    CHECK_OK(check, status);
    return true;
}

/* One value argument after the other, 8 bytes each. */
static vram_status launch(vram_queue *queue, vram_kernel *kernel, const uint32_t groups[3],
                          const uint32_t sizes[3], uint32_t count, const uint64_t *values) {
    const void *arguments[4];
    const size_t bytes[4] = {8, 8, 8, 8};
    vram_launch call = {.size = sizeof call,
                        .argument_count = count,
                        .arguments = arguments,
                        .argument_bytes = bytes};
    for (uint32_t i = 0; i < count; i++) {
        arguments[i] = &values[i];
    }
    memcpy(call.groups, groups, sizeof call.groups);
    memcpy(call.group_size, sizes, sizeof call.group_size);
    return vram_queue_launch(queue, kernel, &call);
}

static uint64_t argument(const vram_kernel_call *call, uint32_t index) {
    uint64_t value;
    memcpy(&value, call->arguments[index], sizeof value);
    return value;
}

/* ------------------------------------------------------------------- a grid */

/* Adds one to the cell of its group, and more when it was told anything wrong. */
static void tally(const vram_kernel_call *call) {
    uint32_t *cells = (uint32_t *)(uintptr_t)argument(call, 0);
    uint64_t told = argument(call, 1); /* groups and sizes, a byte each */
    uint64_t seen = 0;
    for (int axis = 2; axis >= 0; axis--) {
        seen = seen << 8 | call->groups[axis];
    }
    for (int axis = 2; axis >= 0; axis--) {
        seen = seen << 8 | call->group_size[axis];
    }
    bool inside = call->group[0] < call->groups[0] && call->group[1] < call->groups[1] &&
                  call->group[2] < call->groups[2];
    uint32_t index = (call->group[2] * call->groups[1] + call->group[1]) * call->groups[0];
    __atomic_fetch_add(&cells[inside ? index + call->group[0] : 0],
                       inside && seen == told ? 1 : 1000, __ATOMIC_RELAXED);
}

/* The shape travels as an argument, so the kernel can compare what it was told. */
static bool grid_of(struct check *check, vram_queue *queue, vram_kernel *kernel,
                    const uint32_t groups[3], const uint32_t sizes[3]) {
    uint32_t count = groups[0] * groups[1] * groups[2];
    void *memory;
    uint64_t told = 0;

    for (int axis = 2; axis >= 0; axis--) {
        told = told << 8 | groups[axis];
    }
    for (int axis = 2; axis >= 0; axis--) {
        told = told << 8 | sizes[axis];
    }
    check_note(check, "%u x %u x %u groups", groups[0], groups[1], groups[2]);
    CHECK_TRY(check_host(check, count * sizeof(uint32_t), &memory));
    const uint64_t values[] = {(uintptr_t)memory, told};
    CHECK_OK(check, launch(queue, kernel, groups, sizes, 2, values));
    CHECK_WAIT(check, queue);
    const uint32_t *cells = memory;
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQUAL(check, cells[i], 1);
    }
    return true;
}

static bool grid(struct check *check) {
    static const uint32_t shapes[][2][3] = {{{1, 1, 1}, {1, 1, 1}},
                                            {{100, 1, 1}, {32, 1, 1}},
                                            {{1, 7, 1}, {4, 4, 4}},
                                            {{1, 1, 9}, {1, 1, 64}},
                                            {{5, 6, 7}, {8, 2, 1}}};
    struct check_device *device;
    vram_queue *queue;
    vram_kernel *kernel;

    CHECK_OPEN(check, &device);
    CHECK_TRY(make_kernel(check, device, tally, &kernel));
    CHECK_QUEUE(check, device, &queue);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        CHECK_TRY(grid_of(check, queue, kernel, shapes[i][0], shapes[i][1]));
    }
    CHECK_OK(check, vram_kernel_destroy(kernel));
    CHECK_STATUS(check, vram_kernel_destroy(kernel), VRAM_ERR_STALE);
    CHECK_OK(check, vram_kernel_destroy(NULL));
    return true;
}

/* ----------------------------------------------------- on device memory */

/* y = a * x + y over whole groups of 64; (y, x, a, count). */
static void saxpy(const vram_kernel_call *call) {
    float *y = (float *)(uintptr_t)argument(call, 0);
    const float *x = (const float *)(uintptr_t)argument(call, 1);
    uint64_t count = argument(call, 3);
    uint32_t a_bits = (uint32_t)argument(call, 2);
    float a;
    memcpy(&a, &a_bits, sizeof a);
    for (uint32_t item = 0; item < call->group_size[0]; item++) {
        uint64_t i = (uint64_t)call->group[0] * call->group_size[0] + item;
        if (i < count) {
            y[i] = a * x[i] + y[i];
        }
    }
}

/* Copies before, a kernel between, copies behind: all in the order of the queue. */
static bool in_order(struct check *check) {
    enum { COUNT = 1000, BYTES = COUNT * sizeof(float) };
    static const uint32_t groups[3] = {16, 1, 1}, sizes[3] = {64, 1, 1};
    struct check_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    vram_addr x, y;
    void *memory;
    float a = 2.0f;
    uint32_t a_bits;

    CHECK_NEEDS(check, VRAM_CAP_HOST_ACCESS);
    CHECK_OPEN(check, &device);
    CHECK_TRY(make_kernel(check, device, saxpy, &kernel));
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, BYTES, &x);
    CHECK_ALLOC(check, device, BYTES, &y);
    CHECK_TRY(check_host(check, 3 * BYTES, &memory));
    float *x_start = memory, *y_start = x_start + COUNT, *found = y_start + COUNT;
    for (uint32_t i = 0; i < COUNT; i++) {
        x_start[i] = (float)i;
        y_start[i] = 0.5f;
    }
    memcpy(&a_bits, &a, sizeof a_bits);
    const uint64_t values[] = {y, x, a_bits, COUNT};
    CHECK_OK(check, vram_queue_upload(queue, x, x_start, BYTES));
    CHECK_OK(check, vram_queue_upload(queue, y, y_start, BYTES));
    CHECK_OK(check, launch(queue, kernel, groups, sizes, 4, values));
    CHECK_OK(check, launch(queue, kernel, groups, sizes, 4, values));
    CHECK_OK(check, vram_queue_download(queue, found, y, BYTES));
    CHECK_OK(check, vram_queue_fill(queue, y, 0, 4, BYTES));
    CHECK_WAIT(check, queue);
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_THAT(check, found[i] == 4.0f * (float)i + 0.5f);
    }
    return true;
}

/* ---------------------------------------------------------------- arguments */

/* Stores what it was given: (place, value). */
static void store(const vram_kernel_call *call) {
    __atomic_store_n((uint64_t *)(uintptr_t)argument(call, 0), argument(call, 1), __ATOMIC_RELAXED);
}

static bool arguments_copied(struct check *check) {
    enum { LAUNCHES = 50 };
    static const uint32_t one[3] = {1, 1, 1};
    struct check_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    void *memory;

    CHECK_OPEN(check, &device);
    CHECK_TRY(make_kernel(check, device, store, &kernel));
    CHECK_QUEUE(check, device, &queue);
    CHECK_TRY(check_host(check, LAUNCHES * sizeof(uint64_t), &memory));
    uint64_t *cells = memory;
    for (uint64_t i = 0; i < LAUNCHES; i++) {
        uint64_t values[] = {(uintptr_t)&cells[i], i * 1000003};
        CHECK_OK(check, launch(queue, kernel, one, one, 2, values));
        values[0] = 0; /* what the caller does with them now is its own affair */
        values[1] = 0;
    }
    CHECK_WAIT(check, queue);
    for (uint64_t i = 0; i < LAUNCHES; i++) {
        CHECK_EQUAL(check, cells[i], i * 1000003);
    }
    return true;
}

/* ------------------------------------------------------------------ refusal */

/* Text that is no code is handed to whatever reads code on this device; it must come back. */
static bool bad_sources(struct check *check) {
    struct check_device *device;
    vram_kernel *canary = (vram_kernel *)(uintptr_t)CHECK_CANARY, *kernel = canary;
    const vram_kernel_source good = {.size = sizeof good,
                                     .format = VRAM_KERNEL_C,
                                     .code = (const void *)(uintptr_t)store,
                                     .entry = "store"};
    vram_kernel_source unsized = good, format = good, code = good, entry = good, ptx = good;

    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    CHECK_OPEN(check, &device);
    unsized.size = 0;
    format.format = (vram_kernel_format)77;
    code.code = NULL;
    entry.entry = NULL;
    ptx.format = VRAM_KERNEL_PTX;
    ptx.code = "this is no code";
    ptx.code_bytes = sizeof "this is no code";
    CHECK_STATUS(check, vram_kernel_create(device->device, NULL, &kernel), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_kernel_create(device->device, &good, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_kernel_create(device->device, &unsized, &kernel), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_kernel_create(device->device, &format, &kernel), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_kernel_create(device->device, &code, &kernel), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_kernel_create(device->device, &entry, &kernel), VRAM_ERR_INVALID);
    CHECK_THAT(check, vram_kernel_create(device->device, &ptx, &kernel) != VRAM_OK);
    CHECK_THAT(check, kernel == canary);
    return true;
}

/* Each launch is good but for one thing. */
static bool bad_launches(struct check *check) {
    static const uint32_t one[3] = {1, 1, 1}, none[3] = {1, 0, 1};
    struct check_device *device, *other;
    vram_queue *queue, *foreign;
    vram_kernel *kernel;
    uint8_t value[8] = {0};
    const void *arguments[33], *null_argument[1] = {NULL};
    size_t sizes[33], zero[1] = {0}, huge[2] = {4000, 97};

    CHECK_OPEN(check, &device);
    CHECK_OPEN(check, &other);
    CHECK_TRY(make_kernel(check, device, store, &kernel));
    CHECK_QUEUE(check, device, &queue);
    CHECK_QUEUE(check, other, &foreign);
    for (uint32_t i = 0; i < 33; i++) {
        arguments[i] = value;
        sizes[i] = sizeof value;
    }
    vram_launch good = {.size = sizeof good, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_launch many = good, missing = good, null = good, empty = good, large = good,
                unsized = good;
    many.argument_count = 33;
    many.arguments = null.arguments = empty.arguments = large.arguments = arguments;
    many.argument_bytes = null.argument_bytes = sizes;
    missing.argument_count = null.argument_count = empty.argument_count = 1;
    null.arguments = null_argument;
    empty.argument_bytes = zero;
    large.argument_count = 2;
    large.argument_bytes = huge;
    unsized.size = 0;
    CHECK_STATUS(check, launch(queue, kernel, none, one, 0, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, launch(queue, kernel, one, none, 0, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &many), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &missing), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &null), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &empty), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &large), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &unsized), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_launch(foreign, kernel, &good), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_queue_launch(queue, NULL, &good));
    CHECK_REFUSED(check, vram_queue_launch(NULL, kernel, &good));
    CHECK_OK(check, vram_kernel_destroy(kernel));
    CHECK_STATUS(check, vram_queue_launch(queue, kernel, &good), VRAM_ERR_STALE);
    CHECK_WAIT(check, queue);
    return true;
}

const struct check_case check_cases_kernel[] = {
    {"kernel.grid", "every group of a launch runs exactly once and gets its index", grid},
    {"kernel.in_order", "kernels and transfers of a queue take effect in order", in_order},
    {"kernel.arguments_copied", "argument values are copied before a launch returns",
     arguments_copied},
    {"kernel.bad_sources", "missing code, foreign code and unknown formats are refused",
     bad_sources},
    {"kernel.bad_launches", "empty grids, bad arguments and wrong devices are refused",
     bad_launches},
    {NULL, NULL, NULL},
};
