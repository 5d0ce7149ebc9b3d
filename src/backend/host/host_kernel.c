/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_kernel.c: kernels are C functions of the program. Loading one only stores its address; a
 * launch calls it once per group, on the queue's worker.
 *
 * A launch is one allocation. Each value is aligned for any type:
 *
 *     +------------------------+--------------------+---------+---------+-----+
 *     | struct launch_command  | arguments[count]   | value 0 | value 1 | ... |
 *     +------------------------+--------|--|--------+---------+---------+-----+
 *                                       |  +------------------^
 *                                       +-----------^
 */
#include "backend/host/host_backend.h"

#include "base/error.h"

#include <stddef.h>
#include <string.h>

struct launch_command {
    struct vr_host_command command;
    vram_kernel_fn *function;
    vram_kernel_call call; /* all but `group`, which runs over `groups` */
    void *arguments[];     /* call.arguments; the values are behind them */
};

/* Function pointers and data pointers have the same representation on every system with dlsym. */
static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **kernel) {
    (void)device;
    if (source->format != VRAM_KERNEL_C) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "host", "load", source->format,
                            "the host runs VRAM_KERNEL_C only");
    }
    *kernel = (void *)(uintptr_t)source->code;
    return VRAM_OK;
}

static void kernel_unload(struct vr_device *device, void *kernel) {
    (void)device, (void)kernel;
}

/* The first offset at or behind `bytes` that is aligned for any type. */
static size_t value_align(size_t bytes) {
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

static size_t launch_values_offset(const struct vram_launch *launch) {
    return value_align(offsetof(struct launch_command, arguments) +
                       launch->argument_count * sizeof(void *));
}

static size_t launch_bytes(const struct vram_launch *launch) {
    size_t bytes = launch_values_offset(launch);
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        bytes += value_align(launch->argument_bytes[i]);
    }
    return bytes;
}

static void arguments_copy(struct launch_command *to, const struct vram_launch *from) {
    char *value = (char *)to + launch_values_offset(from);
    for (uint32_t i = 0; i < from->argument_count; i++) {
        memcpy(value, from->arguments[i], from->argument_bytes[i]);
        to->arguments[i] = value;
        value += value_align(from->argument_bytes[i]);
    }
    to->call.arguments = to->arguments;
}

/* Advances `group`, x fastest; false past the last. */
static bool group_next(vram_kernel_call *call) {
    for (int axis = 0; axis < 3; axis++) {
        if (++call->group[axis] < call->groups[axis]) {
            return true;
        }
        call->group[axis] = 0;
    }
    return false;
}

static void launch_run(struct vr_host_worker *worker, struct vr_host_command *command) {
    struct launch_command *launch = VR_CONTAINER(command, struct launch_command, command);
    do {
        launch->function(&launch->call);
    } while (!vr_host_abandoned(worker) && group_next(&launch->call));
}

static vram_status queue_launch(struct vr_queue *queue, void *kernel,
                                const struct vram_launch *launch) {
    struct launch_command *copy = vr_host_command_create(launch_bytes(launch), "launch");
    if (!copy) {
        return VRAM_ERR_HOST_MEMORY;
    }
    copy->command.work = launch_run;
    copy->function = (vram_kernel_fn *)(uintptr_t)kernel;
    memcpy(copy->call.groups, launch->groups, sizeof launch->groups);
    memcpy(copy->call.group_size, launch->group_size, sizeof launch->group_size);
    arguments_copy(copy, launch);
    vr_host_command_submit(queue, &copy->command);
    return VRAM_OK;
}

const struct vr_kernel_ops vr_host_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
