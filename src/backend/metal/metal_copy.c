/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_copy.c: copies and fills.
 *
 * On Macs the blit encoder needs offsets and sizes that are multiples of 4. Other copies use a
 * built-in kernel, and so do patterns that are not one repeated byte.
 *
 * Pinned memory is copied directly. Other host memory goes through a shared buffer: an upload is
 * copied into it before the call returns, a download out of it when the command buffer has ended.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"

#include <string.h>

enum { WORD = 4, THREADS = 256, GROUPS_MAX = 4096 };

static vram_status location_error(vram_addr addr, const char *operation) {
    return vr_error_set(VRAM_ERR_INVALID, "metal", operation, 0,
                        "no memory of Metal's lies at 0x%llx", (unsigned long long)addr);
}

/* Runs a built-in kernel over `bytes`; its arguments are set. */
static void builtin_dispatch(const struct vr_metal_recording *recording, vr_mtl_id encoder,
                             uint64_t bytes) {
    uint64_t groups = (bytes + THREADS - 1) / THREADS;
    struct vr_mtl_size grid = {groups < GROUPS_MAX ? groups : GROUPS_MAX, 1, 1};
    struct vr_mtl_size group = {THREADS, 1, 1};
    VR_SEND(recording->device->api, dispatch, encoder, grid, group);
    VR_SEND0(recording->device->api, end_encoding, encoder);
}

static vram_status copy_encode(const struct vr_metal_recording *recording,
                               struct vr_metal_location to, struct vr_metal_location from,
                               uint64_t bytes) {
    const struct vr_metal_api *api = recording->device->api;
    bool whole = (to.offset | from.offset | bytes) % WORD == 0;
    vr_mtl_id encoder =
        whole ? vr_metal_blit_encoder(recording) : vr_metal_compute_encoder(recording);
    if (!encoder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (whole) {
        VR_SEND(api, copy_buffer, encoder, from.buffer, from.offset, to.buffer, to.offset, bytes);
        VR_SEND0(api, end_encoding, encoder);
        return VRAM_OK;
    }
    VR_SEND(api, set_pipeline, encoder, recording->device->builtins[VR_METAL_COPY_BYTES]);
    VR_SEND(api, set_buffer, encoder, from.buffer, from.offset, 0ul);
    VR_SEND(api, set_buffer, encoder, to.buffer, to.offset, 1ul);
    VR_SEND(api, set_bytes, encoder, &bytes, sizeof bytes, 2ul);
    builtin_dispatch(recording, encoder, bytes);
    return VRAM_OK;
}

/* One command buffer with one copy. It takes ownership of `staging`, if not NULL, and copies to
   `host` on completion. */
static vram_status copy_submit(struct vr_queue *queue, struct vr_metal_location to,
                               struct vr_metal_location from, uint64_t bytes, void *host,
                               const void *contents, vr_mtl_id staging, const char *operation) {
    struct vr_metal_recording recording;
    const struct vr_metal_device *metal = queue->device->impl;
    vram_status status = vr_metal_begin(queue, operation, &recording);
    if (status == VRAM_OK) {
        status = copy_encode(&recording, to, from, bytes);
        if (status == VRAM_OK) {
            vr_metal_on_complete(&recording, host, contents, bytes, staging);
            vr_metal_commit(&recording);
            return VRAM_OK;
        }
        vr_metal_cancel(&recording);
    }
    if (staging) {
        VR_SEND0(metal->api, release, staging);
    }
    return status;
}

vram_status vr_metal_upload(struct vr_queue *queue, vram_addr to, const void *from,
                            uint64_t bytes) {
    static const char operation[] = "upload";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_location target, source;
    vr_mtl_id staging = NULL;
    void *contents = NULL;
    if (!vr_metal_location_find(metal, to, &target)) {
        return location_error(to, operation);
    }
    if (!vr_metal_location_find(metal, (uintptr_t)from, &source)) {
        vram_status status =
            vr_metal_shared_buffer_make(metal, bytes, operation, &staging, &contents);
        if (status != VRAM_OK) {
            return status;
        }
        memcpy(contents, from, bytes);
        source = (struct vr_metal_location){.buffer = staging};
    }
    return copy_submit(queue, target, source, bytes, NULL, NULL, staging, operation);
}

vram_status vr_metal_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    static const char operation[] = "download";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_location target, source;
    vr_mtl_id staging = NULL;
    void *contents = NULL;
    if (!vr_metal_location_find(metal, from, &source)) {
        return location_error(from, operation);
    }
    if (!vr_metal_location_find(metal, (uintptr_t)to, &target)) {
        vram_status status =
            vr_metal_shared_buffer_make(metal, bytes, operation, &staging, &contents);
        if (status != VRAM_OK) {
            return status;
        }
        target = (struct vr_metal_location){.buffer = staging};
    }
    return copy_submit(queue, target, source, bytes, staging ? to : NULL, contents, staging,
                       operation);
}

vram_status vr_metal_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    static const char operation[] = "copy";
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_location target, source;
    if (!vr_metal_location_find(metal, to, &target)) {
        return location_error(to, operation);
    }
    if (!vr_metal_location_find(metal, from, &source)) {
        return location_error(from, operation);
    }
    return copy_submit(queue, target, source, bytes, NULL, NULL, NULL, operation);
}

/* Whether a pattern is one repeated byte. */
static bool pattern_is_one_byte(uint32_t pattern, uint32_t pattern_bytes) {
    uint32_t byte = pattern & 0xff;
    return pattern_bytes == 1 || (pattern_bytes == 2 && (pattern & 0xffff) == byte * 0x101) ||
           (pattern_bytes == 4 && pattern == byte * 0x01010101);
}

static vram_status fill_encode(const struct vr_metal_recording *recording,
                               struct vr_metal_location to, uint32_t pattern,
                               uint32_t pattern_bytes, uint64_t bytes) {
    const struct vr_metal_api *api = recording->device->api;
    bool plain = (to.offset | bytes) % WORD == 0 && pattern_is_one_byte(pattern, pattern_bytes);
    vr_mtl_id encoder =
        plain ? vr_metal_blit_encoder(recording) : vr_metal_compute_encoder(recording);
    if (!encoder) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (plain) {
        struct vr_mtl_range range = {to.offset, bytes};
        VR_SEND(api, fill_buffer, encoder, to.buffer, range, (uint8_t)pattern);
        VR_SEND0(api, end_encoding, encoder);
        return VRAM_OK;
    }
    const uint32_t what[2] = {pattern, pattern_bytes};
    VR_SEND(api, set_pipeline, encoder, recording->device->builtins[VR_METAL_FILL_BYTES]);
    VR_SEND(api, set_buffer, encoder, to.buffer, to.offset, 0ul);
    VR_SEND(api, set_bytes, encoder, what, sizeof what, 1ul);
    VR_SEND(api, set_bytes, encoder, &bytes, sizeof bytes, 2ul);
    builtin_dispatch(recording, encoder, bytes);
    return VRAM_OK;
}

vram_status vr_metal_fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                          uint32_t pattern_bytes, uint64_t bytes) {
    static const char operation[] = "fill";
    struct vr_metal_recording recording;
    struct vr_metal_location target;
    if (!vr_metal_location_find(queue->device->impl, to, &target)) {
        return location_error(to, operation);
    }
    vram_status status = vr_metal_begin(queue, operation, &recording);
    if (status != VRAM_OK) {
        return status;
    }
    status = fill_encode(&recording, target, pattern, pattern_bytes, bytes);
    if (status == VRAM_OK) {
        vr_metal_commit(&recording);
    } else {
        vr_metal_cancel(&recording);
    }
    return status;
}
