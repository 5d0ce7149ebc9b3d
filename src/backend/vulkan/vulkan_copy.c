/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_copy.c: copies and fills.
 *
 * Between device memory and pinned memory the device copies by itself. Other host memory goes
 * through staging: an upload is copied there before the call returns, and a download is waited for,
 * as drivers with pageable memory do it; only pinned memory makes downloads asynchronous. Long
 * copies go in pieces. An upload keeps at most so much staging under way, and waits for its own
 * pieces beyond that.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"

#include <string.h>

#define UNDER_WAY  (UINT64_C(64) << 20)  /* bytes of staging that a queue uses at a time */
#define WAIT_NS    UINT64_C(60000000000) /* longest wait for a piece */
#define PIECES_MAX 2                     /* pieces of a download under way */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ------------------------------------------------------- one copy of the device */

/* What the device copies between: buffers, and where in them. */
struct span {
    struct vr_vk_buffer *from, *to;
    struct vr_vk_copy copy;
};

static void record_copy(const struct vr_vulkan_recording *recording, const struct span *span) {
    recording->queue->device->api.vkCmdCopyBuffer(recording->commands, span->from, span->to, 1,
                                                  &span->copy);
}

static vram_status submit_copy(struct vr_vulkan_queue *queue, const struct span *span,
                               struct vr_vulkan_block *staging, uint64_t *value) {
    struct vr_vulkan_recording recording;
    vram_status status = vr_vulkan_begin(&recording, queue);
    if (status != VRAM_OK) {
        if (staging) {
            vr_vulkan_staging_give(queue->device, staging);
        }
        return status;
    }
    record_copy(&recording, span);
    return vr_vulkan_submit(&recording, staging, value);
}

vram_status vr_vulkan_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_place target, source;
    vram_status status = vr_vulkan_find(impl->device, to, "vkCmdCopyBuffer", &target);
    if (status == VRAM_OK) {
        status = vr_vulkan_find(impl->device, from, "vkCmdCopyBuffer", &source);
    }
    if (status != VRAM_OK) {
        return status;
    }
    const struct span span = {
        .from = source.buffer, .to = target.buffer, .copy = {source.offset, target.offset, bytes}};
    return submit_copy(impl, &span, NULL, NULL);
}

/* ------------------------------------------------------------------ uploads */

static vram_status upload_small(struct vr_vulkan_queue *queue, const struct span *target,
                                const void *from) {
    struct vr_vulkan_recording recording;
    struct span span = *target;
    char *pointer;
    vram_status status = vr_vulkan_begin(&recording, queue);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        vr_vulkan_chunk_cut(&recording, span.copy.bytes, &span.from, &span.copy.from, &pointer);
    if (status != VRAM_OK) {
        vr_vulkan_cancel(&recording);
        return status;
    }
    memcpy(pointer, from, span.copy.bytes);
    record_copy(&recording, &span);
    return vr_vulkan_submit(&recording, NULL, NULL);
}

/* Holds the caller back while too much of its own is under way. */
static vram_status make_room(struct vr_vulkan_queue *queue) {
    uint64_t value = 0;
    vr_vulkan_line_lock(queue->line);
    struct vr_link *oldest = vr_list_first(&queue->spent);
    if (queue->spent_bytes > UNDER_WAY && oldest) {
        value = vr_vulkan_block_of(oldest)->own.value;
    }
    vr_vulkan_line_unlock(queue->line);
    return value ? vr_vulkan_clock_wait(queue->device, queue->clock, value, WAIT_NS) : VRAM_OK;
}

static vram_status upload_piece(struct vr_vulkan_queue *queue, const struct span *target,
                                const void *from) {
    struct vr_vulkan_block *staging;
    struct span span = *target;
    if (span.copy.bytes <= VR_VULKAN_SMALL) {
        return upload_small(queue, target, from);
    }
    vram_status status = make_room(queue);
    if (status == VRAM_OK) {
        status = vr_vulkan_staging_take(queue->device, span.copy.bytes, &staging);
    }
    if (status != VRAM_OK) {
        return status;
    }
    memcpy(staging->own.mapped, from, span.copy.bytes);
    span.from = staging->own.buffer;
    span.copy.from = 0;
    return submit_copy(queue, &span, staging, NULL);
}

vram_status vr_vulkan_upload(struct vr_queue *queue, vram_addr to, const void *from,
                             uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_place target;
    vram_status status = vr_vulkan_find(impl->device, to, "vkCmdCopyBuffer", &target);
    if (status != VRAM_OK) {
        return status;
    }
    struct span span = {.to = target.buffer, .copy = {.to = target.offset, .bytes = bytes}};
    span.from = vr_vulkan_pinned_find(impl->device, from, bytes, &span.copy.from);
    if (span.from) {
        return submit_copy(impl, &span, NULL, NULL);
    }
    for (uint64_t done = 0; status == VRAM_OK && done < bytes; done += span.copy.bytes) {
        span.copy.bytes = least(bytes - done, VR_VULKAN_PIECE);
        status = upload_piece(impl, &span, (const char *)from + done);
        span.copy.to += span.copy.bytes;
    }
    return status;
}

/* ---------------------------------------------------------------- downloads */

/* A piece under way to the host: staging that stays the caller's until it was copied out. */
struct piece {
    struct vr_vulkan_block *staging;
    uint64_t bytes, value;
    char *to;
};

static vram_status piece_begin(struct vr_vulkan_queue *queue, struct piece *piece,
                               struct vr_vk_buffer *from, uint64_t offset) {
    vram_status status = vr_vulkan_staging_take(queue->device, piece->bytes, &piece->staging);
    if (status != VRAM_OK) {
        return status;
    }
    const struct span span = {
        .from = from, .to = piece->staging->own.buffer, .copy = {offset, 0, piece->bytes}};
    status = submit_copy(queue, &span, NULL, &piece->value);
    if (status != VRAM_OK) {
        vr_vulkan_staging_give(queue->device, piece->staging);
    }
    return status;
}

/* The device may still write into what it did not finish in time: that is left to the queue. */
static vram_status piece_end(struct vr_vulkan_queue *queue, const struct piece *piece,
                             bool wanted) {
    vram_status status = vr_vulkan_clock_wait(queue->device, queue->clock, piece->value, WAIT_NS);
    if (status == VRAM_OK) {
        if (wanted) {
            memcpy(piece->to, piece->staging->own.mapped, piece->bytes);
        }
        vr_vulkan_staging_give(queue->device, piece->staging);
        return VRAM_OK;
    }
    vr_vulkan_line_lock(queue->line);
    piece->staging->own.value = vr_load(&queue->clock->submitted, VR_RELAXED);
    vr_list_append(&queue->spent, &piece->staging->own.link);
    queue->spent_bytes += piece->staging->own.bytes;
    vr_vulkan_line_unlock(queue->line);
    return status;
}

/* While the host copies one piece out the device copies the next one in. */
static vram_status download_pieces(struct vr_vulkan_queue *queue, struct vr_vk_buffer *from,
                                   uint64_t offset, char *to, uint64_t bytes) {
    struct piece pieces[PIECES_MAX];
    uint64_t begun = 0, ended = 0, done = 0;
    vram_status status = VRAM_OK;
    vram_error error;
    while (done < bytes || ended < begun) {
        if (status == VRAM_OK && done < bytes && begun - ended < PIECES_MAX) {
            struct piece *piece = &pieces[begun % PIECES_MAX];
            *piece = (struct piece){.bytes = least(bytes - done, VR_VULKAN_PIECE), .to = to + done};
            status = piece_begin(queue, piece, from, offset + done);
            begun += status == VRAM_OK;
            done = status == VRAM_OK ? done + piece->bytes : bytes;
        } else if (status == VRAM_OK) {
            status = piece_end(queue, &pieces[ended++ % PIECES_MAX], true);
            done = status == VRAM_OK ? done : bytes;
        } else { /* the first failure is told, what is under way still ends */
            vr_error_save(&error);
            (void)piece_end(queue, &pieces[ended++ % PIECES_MAX], false);
            vr_error_restore(&error);
        }
    }
    return status;
}

vram_status vr_vulkan_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_place source;
    vram_status status = vr_vulkan_find(impl->device, from, "vkCmdCopyBuffer", &source);
    if (status != VRAM_OK) {
        return status;
    }
    struct span span = {.from = source.buffer, .copy = {.from = source.offset, .bytes = bytes}};
    span.to = vr_vulkan_pinned_find(impl->device, to, bytes, &span.copy.to);
    if (!span.to) {
        return download_pieces(impl, source.buffer, source.offset, to, bytes);
    }
    return submit_copy(impl, &span, NULL, NULL);
}

/* -------------------------------------------------------------------- fills */

/* Copies the pattern over a few bytes that the device cannot fill. */
static vram_status fill_edge(struct vr_vulkan_recording *recording, struct vr_vk_buffer *to,
                             uint64_t offset, uint64_t bytes, uint32_t pattern) {
    struct span span = {.to = to, .copy = {.to = offset, .bytes = bytes}};
    char *pointer;
    vram_status status =
        vr_vulkan_chunk_cut(recording, sizeof pattern, &span.from, &span.copy.from, &pointer);
    if (status == VRAM_OK) {
        memcpy(pointer, &pattern, sizeof pattern);
        span.copy.from += offset % 4;
        record_copy(recording, &span);
    }
    return status;
}

/* The device fills whole groups of four bytes; what is left at either end is copied. The pattern,
   four bytes long, begins at a multiple of four: shorter ones are repeated in it, and begin at
   multiples of their own length. */
vram_status vr_vulkan_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                           uint32_t pattern_bytes, uint64_t bytes) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_recording recording;
    struct vr_vulkan_place target;
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
    uint64_t head = least((4 - offset % 4) % 4, bytes), tail = (bytes - head) % 4;
    uint64_t middle = bytes - head - tail;
    if (head) {
        status = fill_edge(&recording, target.buffer, offset, head, whole);
    }
    if (status == VRAM_OK && tail) {
        status = fill_edge(&recording, target.buffer, offset + head + middle, tail, whole);
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
