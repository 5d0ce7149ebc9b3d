/* SPDX-License-Identifier: Apache-2.0 */
/* share_info.c: closing and queries of both sides. */
#include "share/share_object.h"

#include "base/error.h"
#include "base/struct_tail.h"

#include <string.h>

vram_status vram_share_close(vram_share *handle) {
    VR_CALL;
    void *entered;
    vram_error before;
    vr_error_save(&before);
    vram_status status = vr_end_enter(VR_KIND_SHARE, handle, &entered);
    if (entered) {
        struct vr_share *share = entered;
        status = share->exported ? vr_export_close(share) : vr_opened_close(share);
        vr_leave(share);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&before); /* a lost device is no failure of the close */
    }
    return status;
}

vram_status vram_share_parts_get(vram_share *handle, uint32_t first, uint32_t count,
                                 vram_share_part *parts) {
    VR_CALL;
    void *entered;
    if (!parts) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the parts is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vr_share *share = entered;
    if (first > share->part_count || count > share->part_count - first) {
        status = vr_fail(VRAM_ERR_INVALID, "the share has %u parts, not %u from part %u on",
                         share->part_count, count, first);
    } else {
        memcpy(parts, share->parts + first, count * sizeof *parts);
    }
    vr_leave(entered);
    return status;
}

vram_status vram_share_info_get(vram_share *handle, vram_share_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    vram_share_info found = {.exported = share->exported,
                             .read_only = share->read_only,
                             .parts = share->part_count,
                             .handles = share->handle_count,
                             .bytes = share->bytes};
    vr_mutex_lock(&vr_share_lock);
    found.version = share->version;
    if (share->exported) {
        found.reader_count = share->export_state.readers;
        (void)vr_share_readers(share, found.readers, VRAM_SHARE_READERS);
    }
    vr_mutex_unlock(&vr_share_lock);
    found.alive = vr_share_is_served(share);
    status = vr_info_give(info, &found, sizeof found, sizeof found);
    vr_leave(share);
    return status;
}
