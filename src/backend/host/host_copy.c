/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_copy.c: copies and fills. Host and device memory are the same here, so one command serves
 * all three directions. Source and destination are accessed when the worker runs the command, never
 * before: a program that overwrites its data too early fails here as it would on a GPU.
 */
#include "backend/host/host_backend.h"

#include <string.h>

struct copy_command {
    struct vr_host_command command;
    void *to;
    const void *from;
    uint64_t bytes;
};

struct fill_command {
    struct vr_host_command command;
    void *to;
    uint32_t pattern;       /* its low bytes are used */
    uint32_t pattern_bytes; /* 1, 2 or 4 */
    uint64_t bytes;         /* a multiple of pattern_bytes, as is `to` */
};

/* An aligned copy of 8 bytes is one atomic store, after all that was copied before: a kernel of
   another queue, running at the same time, may be waiting for that value. Copy engines of GPUs do
   the same, and rings rely on it. */
static void word_copy(void *to, const void *from) {
    uint64_t value = vr_load((const vr_atomic_u64 *)from, VR_ACQUIRE);
    vr_store((vr_atomic_u64 *)to, value, VR_RELEASE);
}

/* In uploads and downloads the host side may be any memory, so the ranges may overlap: memmove,
   where a driver's result would be undefined. */
static void copy_run(struct vr_host_worker *worker, struct vr_host_command *command) {
    (void)worker;
    struct copy_command *copy = VR_CONTAINER(command, struct copy_command, command);
    if (copy->bytes == sizeof(uint64_t) &&
        ((uintptr_t)copy->to | (uintptr_t)copy->from) % sizeof(uint64_t) == 0) {
        word_copy(copy->to, copy->from);
    } else {
        memmove(copy->to, copy->from, (size_t)copy->bytes);
    }
}

static vram_status copy_submit(struct vr_queue *queue, void *to, const void *from, uint64_t bytes,
                               const char *operation) {
    struct copy_command *copy = vr_host_command_create(sizeof *copy, operation);
    if (!copy) {
        return VRAM_ERR_HOST_MEMORY;
    }
    copy->command.work = copy_run;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    vr_host_command_submit(queue, &copy->command);
    return VRAM_OK;
}

vram_status vr_host_upload(struct vr_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    return copy_submit(queue, vr_host_pointer(to), from, bytes, "upload");
}

vram_status vr_host_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    return copy_submit(queue, to, vr_host_pointer(from), bytes, "download");
}

vram_status vr_host_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    return copy_submit(queue, vr_host_pointer(to), vr_host_pointer(from), bytes, "copy");
}

static void fill_run(struct vr_host_worker *worker, struct vr_host_command *command) {
    (void)worker;
    struct fill_command *fill = VR_CONTAINER(command, struct fill_command, command);
    uint64_t count = fill->bytes / fill->pattern_bytes;
    switch (fill->pattern_bytes) {
    case 1:
        memset(fill->to, (int)(fill->pattern & 0xff), (size_t)count);
        break;
    case 2:
        for (uint64_t i = 0; i < count; i++) {
            ((uint16_t *)fill->to)[i] = (uint16_t)fill->pattern;
        }
        break;
    default:
        for (uint64_t i = 0; i < count; i++) {
            ((uint32_t *)fill->to)[i] = fill->pattern;
        }
        break;
    }
}

vram_status vr_host_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                         uint32_t pattern_bytes, uint64_t bytes) {
    struct fill_command *fill = vr_host_command_create(sizeof *fill, "fill");
    if (!fill) {
        return VRAM_ERR_HOST_MEMORY;
    }
    fill->command.work = fill_run;
    fill->to = vr_host_pointer(to);
    fill->pattern = pattern;
    fill->pattern_bytes = pattern_bytes;
    fill->bytes = bytes;
    vr_host_command_submit(queue, &fill->command);
    return VRAM_OK;
}
