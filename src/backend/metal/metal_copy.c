/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_copy.c: copies and fills.
 *
 * On Macs the copying engine takes whole words only: offset and size are multiples of 4. What is
 * not goes through a kernel of the backend's own, and so do patterns that are more than one byte
 * repeated.
 *
 * Host memory that Metal knows (pinned) is copied from and to directly. Other memory goes through a
 * shared buffer: before the call returns on the way in, when the command buffer has ended on the
 * way out.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"

#include <string.h>

enum { WORD = 4, THREADS = 256, GROUPS_MAX = 4096 };

static vram_status unknown(vram_addr addr, const char *operation) {
    return vr_error_set(VRAM_ERR_INVALID, "metal", operation, 0,
                        "no memory of Metal's lies at 0x%llx", (unsigned long long)addr);
}

/* Runs one of the backend's kernels over `bytes`; its arguments are set. */
static void dispatch(const struct vr_metal_work *work, vr_mtl_id encoder, uint64_t bytes) {
    uint64_t groups = (bytes + THREADS - 1) / THREADS;
    struct vr_mtl_size grid = {groups < GROUPS_MAX ? groups : GROUPS_MAX, 1, 1};
    struct vr_mtl_size group = {THREADS, 1, 1};
    VR_SEND(work->device->api, dispatch, encoder, grid, group);
    VR_TELL(work->device->api, end_encoding, encoder);
}

static vram_status encode_copy(const struct vr_metal_work *work, struct vr_metal_span to,
                               struct vr_metal_span from, uint64_t bytes) {
    const struct vr_metal_api *api = work->device->api;
    bool whole = (to.offset | from.offset | bytes) % WORD == 0;
    vr_mtl_id encoder = whole ? vr_metal_blit(work) : vr_metal_compute(work);
    if (!encoder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (whole) {
        VR_SEND(api, copy_buffer, encoder, from.buffer, from.offset, to.buffer, to.offset, bytes);
        VR_TELL(api, end_encoding, encoder);
        return VRAM_OK;
    }
    VR_SEND(api, set_pipeline, encoder, work->device->tools[VR_METAL_COPY_BYTES]);
    VR_SEND(api, set_buffer, encoder, from.buffer, from.offset, 0ul);
    VR_SEND(api, set_buffer, encoder, to.buffer, to.offset, 1ul);
    VR_SEND(api, set_bytes, encoder, &bytes, sizeof bytes, 2ul);
    dispatch(work, encoder, bytes);
    return VRAM_OK;
}

/* One command buffer with one copy. `staging`, if any, is the work's from here on, with what is to
   be done when it has ended. */
static vram_status submit_copy(struct vr_queue *queue, struct vr_metal_span to,
                               struct vr_metal_span from, uint64_t bytes, void *host,
                               const void *contents, vr_mtl_id staging, const char *operation) {
    struct vr_metal_work work;
    const struct vr_metal_device *metal = queue->device->impl;
    vram_status status = vr_metal_begin(queue, operation, &work);
    if (status == VRAM_OK) {
        status = encode_copy(&work, to, from, bytes);
        if (status == VRAM_OK) {
            vr_metal_when_done(&work, host, contents, bytes, staging);
            vr_metal_commit(&work);
            return VRAM_OK;
        }
        vr_metal_abandon(&work);
    }
    if (staging) {
        VR_TELL(metal->api, release, staging);
    }
    return status;
}

vram_status vr_metal_upload(struct vr_queue *queue, vram_addr to, const void *from,
                            uint64_t bytes) {
    static const char operation[] = "upload";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_span target, source;
    vr_mtl_id staging = NULL;
    void *contents = NULL;
    if (!vr_metal_find(metal, to, &target)) {
        return unknown(to, operation);
    }
    if (!vr_metal_find(metal, (uintptr_t)from, &source)) {
        vram_status status = vr_metal_shared(metal, bytes, operation, &staging, &contents);
        if (status != VRAM_OK) {
            return status;
        }
        memcpy(contents, from, bytes);
        source = (struct vr_metal_span){.buffer = staging};
    }
    return submit_copy(queue, target, source, bytes, NULL, NULL, staging, operation);
}

vram_status vr_metal_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    static const char operation[] = "download";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_span target, source;
    vr_mtl_id staging = NULL;
    void *contents = NULL;
    if (!vr_metal_find(metal, from, &source)) {
        return unknown(from, operation);
    }
    if (!vr_metal_find(metal, (uintptr_t)to, &target)) {
        vram_status status = vr_metal_shared(metal, bytes, operation, &staging, &contents);
        if (status != VRAM_OK) {
            return status;
        }
        target = (struct vr_metal_span){.buffer = staging};
    }
    return submit_copy(queue, target, source, bytes, staging ? to : NULL, contents, staging,
                       operation);
}

vram_status vr_metal_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    static const char operation[] = "copy";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_span target, source;
    if (!vr_metal_find(metal, to, &target)) {
        return unknown(to, operation);
    }
    if (!vr_metal_find(metal, from, &source)) {
        return unknown(from, operation);
    }
    return submit_copy(queue, target, source, bytes, NULL, NULL, NULL, operation);
}

/* Whether a pattern is one byte over and over. */
static bool is_one_byte(uint32_t pattern, uint32_t pattern_bytes) {
    uint32_t byte = pattern & 0xff;
    return pattern_bytes == 1 || (pattern_bytes == 2 && (pattern & 0xffff) == byte * 0x101) ||
           (pattern_bytes == 4 && pattern == byte * 0x01010101);
}

static vram_status encode_fill(const struct vr_metal_work *work, struct vr_metal_span to,
                               uint32_t pattern, uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_metal_api *api = work->device->api;
    bool plain = (to.offset | bytes) % WORD == 0 && is_one_byte(pattern, pattern_bytes);
    vr_mtl_id encoder = plain ? vr_metal_blit(work) : vr_metal_compute(work);
    if (!encoder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (plain) {
        struct vr_mtl_range range = {to.offset, bytes};
        VR_SEND(api, fill_buffer, encoder, to.buffer, range, (uint8_t)pattern);
        VR_TELL(api, end_encoding, encoder);
        return VRAM_OK;
    }
    const uint32_t what[2] = {pattern, pattern_bytes};
    VR_SEND(api, set_pipeline, encoder, work->device->tools[VR_METAL_FILL_BYTES]);
    VR_SEND(api, set_buffer, encoder, to.buffer, to.offset, 0ul);
    VR_SEND(api, set_bytes, encoder, what, sizeof what, 1ul);
    VR_SEND(api, set_bytes, encoder, &bytes, sizeof bytes, 2ul);
    dispatch(work, encoder, bytes);
    return VRAM_OK;
}

vram_status vr_metal_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                          uint32_t pattern_bytes, uint64_t bytes) {
    static const char operation[] = "fill";
    struct vr_metal_work work;
    struct vr_metal_span target;
    if (!vr_metal_find(queue->device->impl, to, &target)) {
        return unknown(to, operation);
    }
    vram_status status = vr_metal_begin(queue, operation, &work);
    if (status != VRAM_OK) {
        return status;
    }
    status = encode_fill(&work, target, pattern, pattern_bytes, bytes);
    if (status == VRAM_OK) {
        vr_metal_commit(&work);
    } else {
        vr_metal_abandon(&work);
    }
    return status;
}
