/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_fabric.c: a block for processes on other machines of a fabric (NVLink), by the driver's own
 * handle of 64 bytes. No server, no connection, no names, no timeline: what another machine needs
 * is in the bytes, and the driver counts references across machines.
 *
 *      0       4    5         8        16      24             32        40       104  124   128
 *     +-------+----+---------+--------+-------+--------------+---------+--------+----+-----+
 *     | magic |ver.|read only| offset | bytes | handle bytes | granule | handle | 0  | CRC |
 *     +-------+----+---------+--------+-------+--------------+---------+--------+----+-----+
 *
 * The checksum finds damage, not intent: whoever makes up bytes must know the driver's handle.
 */
#include "share/share_object.h"

#include "base/error.h"
#include "base/size.h"
#include "device/ops.h"
#include "track/crc32.h"

#include <string.h>

#define FABRIC_MAGIC UINT32_C(0x42465256) /* "VRFB" */

enum { FABRIC_VERSION = 1, FABRIC_CHECKED = VRAM_SHARE_FABRIC_BYTES - 4, FABRIC_HANDLE = 40 };

static vram_status fail_none(const struct vr_device *device) {
    return vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u has no fabric handles", device->info.backend,
                   device->info.backend_index);
}

/* ------------------------------------------------------------------ exporting */

static vram_status fabric_write(struct vr_share *share, struct vram_share_fabric *fabric) {
    struct vram_share_fabric made = {{0}};
    struct vr_device *device = &share->export_state.pool->device->base;
    uint8_t *to = made.bytes;
    vr_wire_put(to, FABRIC_MAGIC, 4);
    to[4] = FABRIC_VERSION;
    to[5] = share->read_only;
    vr_wire_put(to + 8, share->offsets[0], 8);
    vr_wire_put(to + 16, share->parts[0].bytes, 8);
    vr_wire_put(to + 24, share->bytes, 8);
    vr_wire_put(to + 32, vr_share_granule(device), 8);
    vram_status status = vr_fabric_export(device, share->handles[0].native, to + FABRIC_HANDLE);
    if (status == VRAM_OK) {
        vr_wire_put(to + FABRIC_CHECKED, vr_crc32(0, to, FABRIC_CHECKED), 4);
        *fabric = made;
    }
    return status;
}

/* Between vr_export_begin and _end. */
static vram_status fabric_give(struct vr_share *share, struct vram_share_fabric *fabric) {
    const struct vr_device *device = &share->export_state.pool->device->base;
    if (!device->fabric) {
        return fail_none(device);
    }
    if (!(share->export_state.pool->flags & VRAM_POOL_SHARE_FABRIC)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "pool \"%s\" has no memory for a fabric: create it with "
                       "VRAM_POOL_SHAREABLE and VRAM_POOL_SHARE_FABRIC",
                       share->export_state.pool->name);
    }
    if (share->part_count != 1 || share->handle_count != 1) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the share has %u blocks in %u handles: a fabric takes one in one",
                       share->part_count, share->handle_count);
    }
    return fabric_write(share, fabric);
}

vram_status vram_share_fabric_get(vram_share *handle, vram_share_fabric *fabric) {
    VR_CALL;
    void *entered;
    if (!fabric) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the bytes is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SHARE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    if (!share->exported) {
        status = share->opened.device->base.fabric
                     ? vr_fail(VRAM_ERR_INVALID, "the share was opened here, not exported")
                     : fail_none(&share->opened.device->base);
    } else if (!vr_export_begin(share)) {
        status = vr_fail(VRAM_ERR_STALE, "the pool of the share has ended");
    } else {
        status = fabric_give(share, fabric);
        vr_export_end(share);
    }
    vr_leave(share);
    return status;
}

/* -------------------------------------------------------------------- opening */

/* Every number is compared before it is used. */
static vram_status fabric_read(struct vr_share *share, const uint8_t *from) {
    uint64_t granule = vr_share_granule(&share->opened.device->base);
    uint64_t offset = vr_wire_get(from + 8, 8), bytes = vr_wire_get(from + 16, 8);
    uint64_t all = vr_wire_get(from + 24, 8);
    if (vr_wire_get(from, 4) != FABRIC_MAGIC ||
        vr_crc32(0, from, FABRIC_CHECKED) != vr_wire_get(from + FABRIC_CHECKED, 4)) {
        return vr_fail(VRAM_ERR_INVALID, "these bytes are not those of vram_share_fabric_get, or "
                                         "were damaged");
    }
    if (from[4] != FABRIC_VERSION || vr_wire_get(from + 32, 8) != granule) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the bytes have version %u and units of %llu bytes, this libvram version %d "
                       "and %llu",
                       from[4], (unsigned long long)vr_wire_get(from + 32, 8), FABRIC_VERSION,
                       (unsigned long long)granule);
    }
    if (!all || all % granule || offset >= all || bytes > all - offset) {
        return vr_fail(VRAM_ERR_INVALID, "the bytes name memory of an impossible size");
    }
    vram_status status = vr_share_lists_make(share, 1, 1);
    if (status == VRAM_OK) {
        share->read_only = share->read_only || from[5];
        share->bytes = all;
        share->handles[0].bytes = all;
        share->offsets[0] = offset;
        share->parts[0].bytes = bytes;
    }
    return status;
}

static vram_status fabric_open(struct vr_device_object *device, const vram_share_fabric *fabric,
                               const vram_share_options *options, vram_share **out) {
    struct vr_share *share = vr_share_make();
    if (!share) {
        return VRAM_ERR_HOST_MEMORY;
    }
    share->opened.device = device;
    share->read_only = options->flags & VRAM_SHARE_READ_ONLY;
    vram_status status = fabric_read(share, fabric->bytes);
    if (status == VRAM_OK) {
        status = vr_import_reserve(share);
    }
    if (status == VRAM_OK) {
        status = vr_fabric_import(&device->base, fabric->bytes + FABRIC_HANDLE,
                                  &share->handles[0].native);
    }
    if (status == VRAM_OK) {
        status = vr_import_map(share);
    }
    if (status != VRAM_OK) {
        vr_opened_discard(share);
        return status;
    }
    share->parts[0].addr = share->handles[0].base + share->offsets[0];
    vr_handle_ref(device->object.handle);
    return vr_opened_publish(share, out);
}

vram_status vram_share_fabric_open(vram_device *handle, const vram_share_fabric *fabric,
                                   const vram_share_options *options, vram_share **share) {
    VR_CALL;
    vram_share_options taken;
    vram_share_fabric copy;
    vram_share *opened = NULL;
    void *entered;
    if (!fabric || !share) {
        return vr_fail(VRAM_ERR_INVALID, "the %s is NULL",
                       fabric ? "pointer that receives the share" : "fabric's name");
    }
    vram_status status = vr_share_options_read(options, &taken);
    if (status != VRAM_OK || (status = vr_enter(VR_KIND_DEVICE, handle, &entered)) != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    copy = *fabric;
    status = device->base.fabric ? fabric_open(device, &copy, &taken, &opened)
                                 : fail_none(&device->base);
    if (status == VRAM_OK) {
        *share = opened;
    }
    vr_leave(device);
    return status;
}
