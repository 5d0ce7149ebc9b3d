/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_copy.c: copies and fills.
 *
 * Between device memory and pinned memory the device copies directly. Other host memory needs
 * staging: an upload is copied there before the call returns, and a download is waited for, as
 * other drivers do with pageable memory; only pinned memory makes downloads asynchronous. Long
 * copies are split into pieces. An upload uses a limited amount of staging memory, and waits for
 * its own pieces beyond that.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"

#include <string.h>

#define UNDER_WAY  (UINT64_C(64) << 20)  /* bytes of staging memory in use per queue */
#define WAIT_NS    UINT64_C(60000000000) /* longest wait for a piece */
#define PIECES_MAX 2                     /* pieces of a download in progress */

static uint64_t u64_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ------------------------------------------------------- one copy of the device */

/* Source and destination of one copy on the device. */
struct buffer_range {
    struct vr_vk_buffer *from, *to;
    struct vr_vk_copy copy;
};

static void copy_record(const struct vr_vulkan_recording *recording,
                        const struct buffer_range *range) {
    recording->queue->device->api.vkCmdCopyBuffer(recording->commands, range->from, range->to, 1,
                                                  &range->copy);
}

static vram_status copy_submit(struct vr_vulkan_queue *queue, const struct buffer_range *range,
                               struct vr_vulkan_memory *staging, uint64_t *value) {
    struct vr_vulkan_recording recording;
    vram_status status = vr_vulkan_begin(&recording, queue);
    if (status != VRAM_OK) {
        if (staging) {
            vr_vulkan_staging_give(queue->device, staging);
        }
        return status;
    }
    copy_record(&recording, range);
    return vr_vulkan_submit(&recording, staging, value);
}

vram_status vr_vulkan_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_location target, source;
    vram_status status = vr_vulkan_find(impl->device, to, "vkCmdCopyBuffer", &target);
    if (status == VRAM_OK) {
        status = vr_vulkan_find(impl->device, from, "vkCmdCopyBuffer", &source);
    }
    if (status != VRAM_OK) {
        return status;
    }
    const struct buffer_range range = {
        .from = source.buffer, .to = target.buffer, .copy = {source.offset, target.offset, bytes}};
    return copy_submit(impl, &range, NULL, NULL);
}

/* ------------------------------------------------------------------ uploads */

static vram_status upload_small(struct vr_vulkan_queue *queue, const struct buffer_range *target,
                                const void *from) {
    struct vr_vulkan_recording recording;
    struct buffer_range range = *target;
    char *pointer;
    vram_status status = vr_vulkan_begin(&recording, queue);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        vr_vulkan_chunk_cut(&recording, range.copy.bytes, &range.from, &range.copy.from, &pointer);
    if (status != VRAM_OK) {
        vr_vulkan_cancel(&recording);
        return status;
    }
    memcpy(pointer, from, range.copy.bytes);
    copy_record(&recording, &range);
    return vr_vulkan_submit(&recording, NULL, NULL);
}

/* Waits while too much staging memory of the queue is in use. */
static vram_status staging_wait(struct vr_vulkan_queue *queue) {
    uint64_t value = 0;
    vr_vulkan_native_queue_lock(queue->native_queue);
    if (queue->staging_busy_bytes > UNDER_WAY) {
        value = vr_vulkan_memory_of(vr_list_first(&queue->staging_busy))->own.value;
    }
    vr_vulkan_native_queue_unlock(queue->native_queue);
    return value ? vr_vulkan_timeline_wait(queue->device, queue->timeline, value, WAIT_NS)
                 : VRAM_OK;
}

static vram_status upload_piece(struct vr_vulkan_queue *queue, const struct buffer_range *target,
                                const void *from) {
    struct vr_vulkan_memory *staging;
    struct buffer_range range = *target;
    if (range.copy.bytes <= VR_VULKAN_SMALL) {
        return upload_small(queue, target, from);
    }
    vram_status status = staging_wait(queue);
    if (status == VRAM_OK) {
        status = vr_vulkan_staging_take(queue->device, range.copy.bytes, &staging);
    }
    if (status != VRAM_OK) {
        return status;
    }
    memcpy(staging->own.mapped, from, range.copy.bytes);
    range.from = staging->own.buffer;
    range.copy.from = 0;
    return copy_submit(queue, &range, staging, NULL);
}

vram_status vr_vulkan_upload(struct vr_queue *queue, vram_addr to, const void *from,
                             uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_location target;
    vram_status status = vr_vulkan_find(impl->device, to, "vkCmdCopyBuffer", &target);
    if (status != VRAM_OK) {
        return status;
    }
    struct buffer_range range = {.to = target.buffer,
                                 .copy = {.to = target.offset, .bytes = bytes}};
    range.from = vr_vulkan_pinned_find(impl->device, from, bytes, &range.copy.from);
    if (range.from) {
        return copy_submit(impl, &range, NULL, NULL);
    }
    for (uint64_t done = 0; status == VRAM_OK && done < bytes; done += range.copy.bytes) {
        range.copy.bytes = u64_min(bytes - done, VR_VULKAN_PIECE);
        status = upload_piece(impl, &range, (const char *)from + done);
        range.copy.to += range.copy.bytes;
    }
    return status;
}

/* ---------------------------------------------------------------- downloads */

/* A piece of a download in progress; its staging memory belongs to the caller until it is copied
   out. */
struct download_piece {
    struct vr_vulkan_memory *staging;
    uint64_t bytes, value;
    char *to;
};

static vram_status piece_begin(struct vr_vulkan_queue *queue, struct download_piece *piece,
                               struct vr_vk_buffer *from, uint64_t offset) {
    vram_status status = vr_vulkan_staging_take(queue->device, piece->bytes, &piece->staging);
    if (status != VRAM_OK) {
        return status;
    }
    const struct buffer_range range = {
        .from = from, .to = piece->staging->own.buffer, .copy = {offset, 0, piece->bytes}};
    status = copy_submit(queue, &range, NULL, &piece->value);
    if (status != VRAM_OK) {
        vr_vulkan_staging_give(queue->device, piece->staging);
    }
    return status;
}

/* If the work did not complete in time, the device may still write the staging memory: the queue
   frees it later. */
static vram_status piece_end(struct vr_vulkan_queue *queue, const struct download_piece *piece,
                             bool wanted) {
    vram_status status =
        vr_vulkan_timeline_wait(queue->device, queue->timeline, piece->value, WAIT_NS);
    if (status == VRAM_OK) {
        if (wanted) {
            memcpy(piece->to, piece->staging->own.mapped, piece->bytes);
        }
        vr_vulkan_staging_give(queue->device, piece->staging);
        return VRAM_OK;
    }
    vr_vulkan_native_queue_lock(queue->native_queue);
    piece->staging->own.value = vr_load(&queue->timeline->submitted, VR_RELAXED);
    vr_list_append(&queue->staging_busy, &piece->staging->own.link);
    queue->staging_busy_bytes += piece->staging->own.bytes;
    vr_vulkan_native_queue_unlock(queue->native_queue);
    return status;
}

/* While the host copies one piece out, the device copies the next one in. */
static vram_status download_pieces(struct vr_vulkan_queue *queue, struct vr_vk_buffer *from,
                                   uint64_t offset, char *to, uint64_t bytes) {
    struct download_piece pieces[PIECES_MAX];
    uint64_t begun = 0, ended = 0, done = 0;
    vram_status status = VRAM_OK;
    vram_error error;
    while (done < bytes || ended < begun) {
        if (status == VRAM_OK && done < bytes && begun - ended < PIECES_MAX) {
            struct download_piece *piece = &pieces[begun % PIECES_MAX];
            *piece = (struct download_piece){.bytes = u64_min(bytes - done, VR_VULKAN_PIECE),
                                             .to = to + done};
            status = piece_begin(queue, piece, from, offset + done);
            begun += status == VRAM_OK;
            done = status == VRAM_OK ? done + piece->bytes : bytes;
        } else if (status == VRAM_OK) {
            status = piece_end(queue, &pieces[ended++ % PIECES_MAX], true);
            done = status == VRAM_OK ? done : bytes;
        } else { /* the first failure is returned; pieces in progress still end */
            vr_error_save(&error);
            (void)piece_end(queue, &pieces[ended++ % PIECES_MAX], false);
            vr_error_restore(&error);
        }
    }
    return status;
}

vram_status vr_vulkan_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_location source;
    vram_status status = vr_vulkan_find(impl->device, from, "vkCmdCopyBuffer", &source);
    if (status != VRAM_OK) {
        return status;
    }
    struct buffer_range range = {.from = source.buffer,
                                 .copy = {.from = source.offset, .bytes = bytes}};
    range.to = vr_vulkan_pinned_find(impl->device, to, bytes, &range.copy.to);
    if (!range.to) {
        return download_pieces(impl, source.buffer, source.offset, to, bytes);
    }
    return copy_submit(impl, &range, NULL, NULL);
}

/* -------------------------------------------------------------------- fills */

/* Copies the pattern over a few bytes that the device cannot fill. */
static vram_status fill_edge_record(struct vr_vulkan_recording *recording, struct vr_vk_buffer *to,
                                    uint64_t offset, uint64_t bytes, uint32_t pattern) {
    struct buffer_range range = {.to = to, .copy = {.to = offset, .bytes = bytes}};
    char *pointer;
    vram_status status =
        vr_vulkan_chunk_cut(recording, sizeof pattern, &range.from, &range.copy.from, &pointer);
    if (status == VRAM_OK) {
        memcpy(pointer, &pattern, sizeof pattern);
        range.copy.from += offset % 4;
        copy_record(recording, &range);
    }
    return status;
}

/* The device fills whole groups of four bytes; the bytes left at either end are copied. The
   pattern, four bytes long, begins at a multiple of four. Shorter patterns are repeated in it and
   begin at multiples of their own length. */
vram_status vr_vulkan_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                           uint32_t pattern_bytes, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_recording recording;
    struct vr_vulkan_location target;
    uint32_t whole = pattern_bytes == 1   ? (pattern & 0xFF) * 0x01010101u
                     : pattern_bytes == 2 ? (pattern & 0xFFFF) * 0x00010001u
                                          : pattern;
    vram_status status = vr_vulkan_find(impl->device, to, "vkCmdFillBuffer", &target);
    if (status == VRAM_OK) {
        status = vr_vulkan_begin(&recording, impl);
    }
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t offset = target.offset;
    uint64_t head = u64_min((4 - offset % 4) % 4, bytes), tail = (bytes - head) % 4;
    uint64_t middle = bytes - head - tail;
    if (head) {
        status = fill_edge_record(&recording, target.buffer, offset, head, whole);
    }
    if (status == VRAM_OK && tail) {
        status = fill_edge_record(&recording, target.buffer, offset + head + middle, tail, whole);
    }
    if (status != VRAM_OK) {
        vr_vulkan_cancel(&recording);
        return status;
    }
    if (middle) {
        impl->device->api.vkCmdFillBuffer(recording.commands, target.buffer, offset + head, middle,
                                          whole);
    }
    return vr_vulkan_submit(&recording, NULL, NULL);
}
