/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_kernel.c: kernels in C, on machines whose memory is real.
 *
 * A kernel's arguments are bytes. One of 8 bytes whose value is an address of device memory counts
 * as an address: its block is in use until the launch is complete. This is a safe guess: it can
 * only miss memory that a kernel reaches in other ways.
 */
#include "backend/sim/sim_backend.h"

#include "base/memory.h"
#include "base/size.h"

#include <string.h>

#define VALUE_ALIGN 16

/* ---------------------------------------------------------------------- kernels */

void vr_sim_kernel_free(struct vr_sim_kernel *kernel) {
    struct vr_sim *sim = kernel->device->sim;
    vr_sim_handle_give(sim, kernel->handle);
    vr_link_remove(&kernel->link);
    sim->live_handles--;
    vr_mem_free(kernel);
}

static struct vr_sim_kernel *kernel_make(struct vr_sim_call *call, const void *code) {
    struct vr_sim_kernel *kernel = vr_mem_alloc(1, sizeof *kernel, "kernel_load");
    if (kernel) {
        kernel->handle = vr_sim_handle_take(call->sim, VR_SIM_KIND_KERNEL, kernel);
    }
    if (!kernel || !kernel->handle) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        vr_mem_free(kernel);
        return NULL;
    }
    kernel->device = call->device;
    memcpy(&kernel->code, &code, sizeof code); /* a function behind a pointer to void */
    vr_list_append(&call->device->kernels, &kernel->link);
    call->sim->live_handles++;
    return kernel;
}

static vram_status kernel_load(struct vr_device *device, const struct vram_kernel_source *source,
                               void **kernel) {
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, device, VRAM_SIM_KERNEL_LOAD, 0, source->code_bytes)) {
        return vr_sim_end(&call);
    }
    if (source->format != VRAM_KERNEL_C) {
        vr_sim_refuse(&call, VRAM_SIM_NOT_SUPPORTED, "kernels here are C functions");
    } else {
        struct vr_sim_kernel *made = kernel_make(&call, source->code);
        if (made) {
            call.addr = made->handle;
            *kernel = (void *)(uintptr_t)made->handle;
        }
    }
    return vr_sim_end(&call);
}

static struct vr_sim_kernel *kernel_check(struct vr_sim_call *call, const void *kernel) {
    struct vr_sim_kernel *found =
        vr_sim_handle_find(call->sim, VR_SIM_KIND_KERNEL, (uint64_t)(uintptr_t)kernel);
    if (!found || found->device != call->device) {
        vr_sim_violation(call, "%p is no kernel of this device, or was unloaded before", kernel);
        return NULL;
    }
    return found;
}

static void kernel_unload(struct vr_device *device, void *kernel) {
    struct vr_sim_call call;
    (void)vr_sim_begin_lost(&call, device, VRAM_SIM_KERNEL_UNLOAD, (uintptr_t)kernel, 0);
    struct vr_sim_kernel *found = kernel_check(&call, kernel);
    if (found && found->busy) {
        vr_sim_violation(&call, "unloaded with unfinished launches");
        vr_sim_finish_all(call.sim);
        found =
            found->busy ? NULL : found; /* the caller is that kernel: closing the device frees it */
    }
    if (found) {
        vr_sim_kernel_free(found);
    }
    vr_sim_end_void(&call);
}

/* --------------------------------------------------------------------- launches */

/* Bytes that all argument values need, each aligned; 0 if there are too many. */
static uint64_t launch_values_bytes(const struct vram_launch *launch) {
    uint64_t sum = 1; /* never 0 */
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        uint64_t bytes;
        if (!vr_round_up(launch->argument_bytes[i], VALUE_ALIGN, &bytes) ||
            !vr_add(sum, bytes, &sum)) {
            return 0;
        }
    }
    return launch->argument_count <= VR_SIM_ARGUMENTS_MAX ? sum : 0;
}

/* Copies the values, and finds those that are addresses. */
static void launch_copy_values(struct vr_sim *sim, struct vr_sim_launch *to,
                               const struct vram_launch *from) {
    uint8_t *at = to->values;
    struct vr_sim_span span;
    for (uint32_t i = 0; i < from->argument_count; i++) {
        size_t bytes = from->argument_bytes[i];
        memcpy(at, from->arguments[i], bytes);
        to->arguments[i] = at;
        if (bytes == sizeof(uint64_t) && vr_sim_span_at(sim, *(const uint64_t *)at, 1, &span)) {
            to->touched |= 1u << i;
            span.block->busy++;
        }
        at += (bytes + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
    }
}

static struct vr_sim_launch *launch_make(struct vr_sim_call *call, struct vr_sim_kernel *kernel,
                                         const struct vram_launch *launch) {
    uint64_t bytes = launch_values_bytes(launch);
    if (!bytes) {
        vr_sim_violation(call, "%u arguments", launch->argument_count);
        return NULL;
    }
    struct vr_sim_launch *made = vr_mem_alloc(1, sizeof *made + bytes, "launch");
    if (!made) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    made->kernel = kernel;
    made->code = kernel->code;
    memcpy(made->call.groups, launch->groups, sizeof made->call.groups);
    memcpy(made->call.group_size, launch->group_size, sizeof made->call.group_size);
    return made;
}

/* Blocks become busy last, when nothing can fail any more. */
static vram_status queue_launch(struct vr_queue *queue, void *kernel,
                                const struct vram_launch *launch) {
    struct vr_sim_call call;
    struct vr_sim_kernel *found;
    struct vr_sim_launch *made = NULL;
    if (vr_sim_begin(&call, queue->device, VRAM_SIM_LAUNCH, (uintptr_t)kernel, 0) &&
        (found = kernel_check(&call, kernel)) && (made = launch_make(&call, found, launch))) {
        struct vr_sim_work *work = vr_sim_work_make(&call, queue);
        if (work) {
            launch_copy_values(call.sim, made, launch);
            found->busy++;
            work->launch = made;
            vr_sim_work_submit(call.sim, work);
        } else {
            vr_mem_free(made);
        }
    }
    return vr_sim_end(&call);
}

const struct vr_kernel_ops vr_sim_kernel_ops = {
    .load = kernel_load,
    .unload = kernel_unload,
    .launch = queue_launch,
};
