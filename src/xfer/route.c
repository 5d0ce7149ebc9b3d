/* SPDX-License-Identifier: Apache-2.0 */
/* route.c: looks up both sides of a copy in the address map, without a lock; the rest is a
   table. */
#include "xfer/route.h"

#include "base/error.h"
#include "base/size.h"
#include "device/address.h"
#include "device/device_calls.h"
#include "device/ops.h"

/* One side of a copy. */
struct route_side {
    const void *host; /* NULL: memory of a device */
    vram_addr addr;
    bool pinned;
    bool managed;
};

static bool is_host_kind(vram_memory_kind kind) {
    return kind == VRAM_MEMORY_PINNED || kind == VRAM_MEMORY_HOST;
}

/* A host pointer may be any memory of the program. Memory of the library must be live throughout,
   and accessible to the host. */
static vram_status host_side(const void *pointer, uint64_t bytes, struct route_side *side) {
    vram_addr addr = (vram_addr)(uintptr_t)pointer;
    struct vr_address_info place;
    uint64_t end;
    if (!vr_add(addr, bytes, &end)) {
        return vr_fail(VRAM_ERR_INVALID, "%llu bytes at %p wrap around", (unsigned long long)bytes,
                       pointer);
    }
    *side = (struct route_side){.host = pointer, .addr = addr};
    if (!vr_address_find(addr, &place)) {
        return VRAM_OK;
    }
    struct vr_device_object *owner = vr_handle_pin(VR_KIND_DEVICE, (void *)(uintptr_t)place.device);
    bool reached = owner && (is_host_kind(place.kind) || place.kind == VRAM_MEMORY_MANAGED ||
                             (owner->base.info.caps & VRAM_CAP_HOST_ACCESS));
    bool good = reached && vr_inside(addr, bytes, place.base, place.bytes) &&
                vr_address_info_covers(owner, &place, addr, bytes);
    if (owner) {
        vr_leave(owner);
    }
    if (!good) {
        return vr_fail(VRAM_ERR_INVALID,
                       "%p + %llu bytes is not live memory that the host can access", pointer,
                       (unsigned long long)bytes);
    }
    side->pinned = place.kind == VRAM_MEMORY_PINNED;
    return vr_block_check(&place, addr, bytes);
}

/* An address is page-locked memory, a host side, or memory of a device, checked later. */
static vram_status addr_side(vram_addr addr, uint64_t bytes, struct route_side *side) {
    struct vr_address_info place;
    if (!vr_address_find(addr, &place)) {
        return vr_fail(VRAM_ERR_INVALID, "no live memory of libvram is at 0x%llx",
                       (unsigned long long)addr);
    }
    if (is_host_kind(place.kind)) {
        return host_side((const void *)(uintptr_t)addr, bytes, side);
    }
    *side = (struct route_side){.addr = addr, .managed = place.kind == VRAM_MEMORY_MANAGED};
    return VRAM_OK;
}

static vram_status side_find(vram_addr addr, const void *host, uint64_t bytes, const char *name,
                             struct route_side *side) {
    if ((addr != 0) == (host != NULL)) {
        return vr_fail(VRAM_ERR_INVALID, "%s is %s", name,
                       addr ? "both an address and a host pointer" : "NULL");
    }
    return host ? host_side(host, bytes, side) : addr_side(addr, bytes, side);
}

/* From one device to another, or within one. */
static vram_status between_devices(struct vr_queue_object *queue, uint64_t bytes,
                                   struct vr_route *route) {
    struct vr_device_object *owner;
    struct vr_address_info place;
    vram_status status = vr_span_owner(route->from, &place, &owner);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_span_check(owner, route->from, bytes);
    if (status == VRAM_OK && owner != queue->device &&
        (status = vr_check_lost(&owner->base, vr_operation())) == VRAM_OK) {
        route->way =
            vr_device_reads(queue->device, owner->object.handle) ? VR_WAY_PEER : VR_WAY_BRIDGE;
        route->source = owner;
        return VRAM_OK;
    }
    vr_leave(owner);
    return status;
}

vram_status vr_route_find_extents(struct vr_queue_object *queue, const vram_copy *copy,
                                  uint64_t to_bytes, uint64_t from_bytes, struct vr_route *route) {
    struct route_side to, from;
    vram_status status = side_find(copy->to, copy->to_host, to_bytes, "the destination", &to);
    if (status == VRAM_OK) {
        status = side_find(copy->from, copy->from_host, from_bytes, "the source", &from);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (to.host && from.host) {
        return vr_fail(VRAM_ERR_INVALID, "both sides are host memory, which needs no device");
    }
    *route = (struct vr_route){.way = to.host     ? VR_WAY_DOWNLOAD
                                      : from.host ? VR_WAY_UPLOAD
                                                  : VR_WAY_COPY,
                               .to = to.addr,
                               .from = from.addr,
                               .to_host = (void *)(uintptr_t)to.addr,
                               .from_host = from.host,
                               .bytes = to_bytes == from_bytes ? to_bytes : 0,
                               .pinned = to.host ? to.pinned : from.pinned,
                               .managed = to.host ? from.managed : to.managed};
    if (route->way != VR_WAY_DOWNLOAD) {
        status = vr_span_check_write(queue->device, to.addr, to_bytes);
    }
    if (status == VRAM_OK && route->way == VR_WAY_DOWNLOAD) {
        status = vr_span_check(queue->device, from.addr, from_bytes);
    } else if (status == VRAM_OK && route->way == VR_WAY_COPY) {
        status = between_devices(queue, from_bytes, route);
    }
    if (!route->source) {
        route->overlap = vr_overlap(to.addr, to_bytes, from.addr, from_bytes);
        route->same = to.addr == from.addr;
    }
    return status;
}

vram_status vr_route_find(struct vr_queue_object *queue, const vram_copy *copy,
                          struct vr_route *route) {
    return vr_route_find_extents(queue, copy, copy->bytes, copy->bytes, route);
}

void vr_route_leave(struct vr_route *route) {
    if (route->source) {
        vr_leave(route->source);
        route->source = NULL;
    }
}

vram_status vr_route_submit(struct vr_queue_object *queue, const struct vr_route *route) {
    switch (route->way) {
    case VR_WAY_UPLOAD:
        return vr_queue_upload(&queue->base, route->to, route->from_host, route->bytes);
    case VR_WAY_DOWNLOAD:
        return vr_queue_download(&queue->base, route->to_host, route->from, route->bytes);
    case VR_WAY_COPY:
        return vr_queue_copy(&queue->base, route->to, route->from, route->bytes);
    default: /* vr_submit_copy keeps a peer's memory where it is meanwhile */
        return vr_submit_copy((vram_queue *)(uintptr_t)queue->object.handle, route->to, route->from,
                              route->bytes);
    }
}
