/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c: see walk.h.
 */
#include "core/object/walk.h"

static bool walk_includes(const struct vr_walk *walk, const struct vr_device_object *device) {
    return (!walk->device || device == walk->device) &&
           (!walk->slot || device->slot == walk->slot) &&
           (!walk->account || device->slot->account == walk->account);
}

/* The lowest handle of a pool of the device above `last` and below `best`, or `best`. */
static uint64_t lowest_pool(struct vr_device_object *device, uint64_t last, uint64_t best) {
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->watchers); link;
         link = vr_list_next(&device->watchers, link)) {
        uint64_t handle = VR_CONTAINER(link, struct vr_watcher, link)->handle;
        bool pool = (handle & 0xff) == VR_KIND_POOL;
        best = pool && handle > last && handle < best ? handle : best;
    }
    vr_mutex_unlock(&device->lock);
    return best;
}

/* A destroyed pool may still be listed while queues keep it; it cannot be pinned and is skipped. */
struct vr_pool *vr_walk_next(struct vr_walk *walk) {
    struct vr_context *context = walk->context;
    struct vr_pool *pool = NULL;
    while (!pool && walk->last != UINT64_MAX) {
        uint64_t handle = UINT64_MAX;
        vr_mutex_lock(&context->lock);
        for (struct vr_link *link = vr_list_first(&context->devices); link;
             link = vr_list_next(&context->devices, link)) {
            struct vr_device_object *device = VR_CONTAINER(link, struct vr_device_object, link);
            handle = walk_includes(walk, device) ? lowest_pool(device, walk->last, handle) : handle;
        }
        vr_mutex_unlock(&context->lock);
        walk->last = handle;
        if (handle != UINT64_MAX) {
            pool = vr_handle_pin(VR_KIND_POOL, (const void *)(uintptr_t)handle);
        }
    }
    return pool;
}
