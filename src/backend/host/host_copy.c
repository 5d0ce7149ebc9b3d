/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_copy.c: copies and fills. Host and device memory are the same here, so one command serves
 * all three directions. Source and destination are touched when the worker gets there, never
 * before: a program that overwrites its data too early fails here as it would on a GPU.
 */
#include "backend/host/host.h"

#include <string.h>

struct copy {
    struct vr_host_command command;
    void *to;
    const void *from;
    uint64_t bytes;
};

struct fill {
    struct vr_host_command command;
    void *to;
    uint32_t pattern;       /* its low bytes count */
    uint32_t pattern_bytes; /* 1, 2 or 4 */
    uint64_t bytes;         /* a multiple of pattern_bytes, as is `to` */
};

/* One word goes as one word, after all that was copied before it: a kernel of another queue, which
   runs meanwhile, may be waiting for it. A GPU's copy engines do the same; rings rely on it. */
static void copy_word(void *to, const void *from) {
    uint64_t value = vr_load((const vr_atomic_u64 *)from, VR_ACQUIRE);
    vr_store((vr_atomic_u64 *)to, value, VR_RELEASE);
}

/* The program's own memory may be any memory, so ranges may overlap in uploads and downloads:
   memmove, where a driver's result would be undefined. */
static void do_copy(struct vr_host_worker *worker, struct vr_host_command *command) {
    (void)worker;
    struct copy *copy = VR_CONTAINER(command, struct copy, command);
    if (copy->bytes == sizeof(uint64_t) &&
        ((uintptr_t)copy->to | (uintptr_t)copy->from) % sizeof(uint64_t) == 0) {
        copy_word(copy->to, copy->from);
    } else {
        memmove(copy->to, copy->from, (size_t)copy->bytes);
    }
}

static vram_status submit_copy(struct vr_queue *queue, void *to, const void *from, uint64_t bytes,
                               const char *operation) {
    struct copy *copy = vr_host_command_create(sizeof *copy, operation);
    if (!copy) {
        return VRAM_ERR_HOST_MEMORY;
    }
    copy->command.work = do_copy;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    vr_host_command_submit(queue, &copy->command);
    return VRAM_OK;
}

vram_status vr_host_upload(struct vr_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    return submit_copy(queue, vr_host_pointer(to), from, bytes, "upload");
}

vram_status vr_host_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    return submit_copy(queue, to, vr_host_pointer(from), bytes, "download");
}

vram_status vr_host_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    return submit_copy(queue, vr_host_pointer(to), vr_host_pointer(from), bytes, "copy");
}

static void do_fill(struct vr_host_worker *worker, struct vr_host_command *command) {
    (void)worker;
    struct fill *fill = VR_CONTAINER(command, struct fill, command);
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
    struct fill *fill = vr_host_command_create(sizeof *fill, "fill");
    if (!fill) {
        return VRAM_ERR_HOST_MEMORY;
    }
    fill->command.work = do_fill;
    fill->to = vr_host_pointer(to);
    fill->pattern = pattern;
    fill->pattern_bytes = pattern_bytes;
    fill->bytes = bytes;
    vr_host_command_submit(queue, &fill->command);
    return VRAM_OK;
}
