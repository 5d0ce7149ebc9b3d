/* SPDX-License-Identifier: Apache-2.0 */
/* share_object.c: what both sides of a share have in common. */
#include "share/share_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/struct_tail.h"

struct vr_mutex vr_share_lock = VR_MUTEX_INIT(VR_RANK_SHARE);

struct vr_share *vr_share_make(void) {
    struct vr_share *share = vr_mem_alloc(1, sizeof *share, vr_operation());
    if (share) {
        share->object.process = vr_os_process_generation();
        share->opened.socket = share->export_state.timeline_file = -1;
        share->export_state.marks_end = &share->export_state.marks;
    }
    return share;
}

vram_status vr_share_lists_make(struct vr_share *share, uint32_t parts, uint32_t handles) {
    share->parts = vr_mem_alloc(parts, sizeof *share->parts, vr_operation());
    share->offsets = vr_mem_alloc(parts, sizeof *share->offsets, vr_operation());
    share->handles = handles ? vr_mem_alloc(handles, sizeof *share->handles, vr_operation()) : NULL;
    share->part_count = parts;
    share->handle_count = handles;
    return share->parts && share->offsets && (share->handles || !handles) ? VRAM_OK
                                                                          : VRAM_ERR_HOST_MEMORY;
}

const struct vr_share_handle *vr_share_handle_at(const struct vr_share *share, uint64_t offset) {
    uint32_t low = 0, high = share->handle_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(share->handles[middle].offset <= offset ? &low : &high) = middle;
    }
    return &share->handles[low];
}

uint64_t vr_share_granule(const struct vr_device *device) {
    return device->vmm ? device->info.vmm_granule.value : device->info.alloc_granule.value;
}

void vr_share_free(struct vr_share *share) {
    vr_mem_free(share->parts);
    vr_mem_free(share->offsets);
    vr_mem_free(share->handles);
    vr_mem_free(share);
}

vram_status vr_share_options_read(const vram_share_options *given, vram_share_options *options) {
    vram_status status = vr_options_take(options, sizeof *options, given);
    if (status == VRAM_OK && options->flags & ~(uint32_t)(VRAM_SHARE_READ_ONLY | VRAM_SHARE_USER)) {
        status = vr_fail(VRAM_ERR_INVALID, "unknown flags: 0x%x", options->flags);
    }
    return status;
}

/* The other process sends nothing on the connection: it becomes readable when that has ended. */
bool vr_share_is_served(const struct vr_share *share) {
    struct vr_os_poll poll = {.fd = share->opened.socket, .read = true};
    if (share->exported || share->opened.socket < 0) { /* a fabric's has none */
        return share->exported;
    }
    vr_os_poll(&poll, 1, 0);
    return !poll.readable;
}

/* ------------------------------------------------------------------- exports */

bool vr_export_begin(struct vr_share *share) {
    vr_mutex_lock(&vr_share_lock);
    bool there = !share->export_state.pool_ended;
    share->export_state.using_handles += there;
    vr_mutex_unlock(&vr_share_lock);
    return there;
}

void vr_export_end(struct vr_share *share) {
    vr_mutex_lock(&vr_share_lock);
    share->export_state.using_handles--;
    vr_mutex_unlock(&vr_share_lock);
}
