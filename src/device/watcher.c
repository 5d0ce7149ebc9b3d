/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watcher.c: objects of higher tiers on a device: notifications and queries.
 */
#include "device/objects.h"

#include "base/error.h"

void vr_device_append_watcher(struct vr_device_object *device, struct vr_watcher *watcher) {
    watcher->number = ++device->watcher_numbers;
    vr_list_append(&device->watchers, &watcher->link);
}

vram_status vr_device_list_watcher(struct vr_device_object *device, struct vr_watcher *watcher) {
    vr_mutex_lock(&device->lock);
    bool closing = device->closing;
    if (!closing) {
        vr_device_append_watcher(device, watcher);
    }
    vr_mutex_unlock(&device->lock);
    return closing ? vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed") : VRAM_OK;
}

/* The watcher after the one numbered `last`, with a reference for the caller: a listed watcher
   still has its owner's reference. Under the lock, which callers release while they call the
   watcher. The list may change then, and another walk may begin, by the same thread too. */
static struct vr_watcher *next_watcher(struct vr_device_object *device, uint64_t last) {
    for (struct vr_link *link = vr_list_first(&device->watchers); link;
         link = vr_list_next(&device->watchers, link)) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        if (watcher->number > last) {
            vr_handle_ref(watcher->handle);
            return watcher;
        }
    }
    return NULL;
}

void vr_device_notify(struct vr_device_object *device, uint64_t ended_queue, bool finished) {
    struct vr_watcher *watcher;
    vr_mutex_lock(&device->lock);
    device->closing = device->closing || !ended_queue;
    for (uint64_t last = 0; (watcher = next_watcher(device, last));) {
        uint64_t handle = watcher->handle;
        last = watcher->number;
        vr_mutex_unlock(&device->lock);
        if (ended_queue) {
            watcher->queue_ended(watcher, ended_queue, finished);
        } else {
            watcher->closing(watcher, finished);
        }
        vr_handle_unpin(handle);
        vr_mutex_lock(&device->lock);
    }
    vr_mutex_unlock(&device->lock);
}

uint64_t vr_device_spare(struct vr_device_object *device) {
    struct vr_watcher *watcher;
    uint64_t bytes = 0;
    vr_mutex_lock(&device->lock);
    for (uint64_t last = 0; (watcher = next_watcher(device, last));) {
        uint64_t handle = watcher->handle;
        last = watcher->number;
        vr_mutex_unlock(&device->lock);
        bytes += watcher->spare ? watcher->spare(watcher) : 0;
        vr_handle_unpin(handle);
        vr_mutex_lock(&device->lock);
    }
    vr_mutex_unlock(&device->lock);
    return bytes;
}

/* The watcher that is part of the object `handle`, pinned; NULL: none. */
static struct vr_watcher *watcher_pin(struct vr_device_object *device, uint64_t handle) {
    struct vr_watcher *found = NULL;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->watchers); link && !found;
         link = vr_list_next(&device->watchers, link)) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        found = watcher->handle == handle ? watcher : NULL;
    }
    if (found) {
        vr_handle_ref(handle); /* listed: its owner still has its reference */
    }
    vr_mutex_unlock(&device->lock);
    return found;
}

bool vr_device_covers(struct vr_device_object *device, uint64_t handle, vram_addr addr,
                      uint64_t bytes) {
    struct vr_watcher *watcher = watcher_pin(device, handle);
    bool covers = watcher && watcher->covers(watcher, addr, bytes);
    if (watcher) {
        vr_handle_unpin(handle);
    }
    return covers;
}

bool vr_device_rests(struct vr_device_object *device, uint64_t handle, enum vr_rest how,
                     vram_addr addr, uint64_t bytes) {
    struct vr_watcher *watcher = watcher_pin(device, handle);
    bool rests = watcher && watcher->rests(watcher, how, addr, bytes);
    if (watcher) {
        vr_handle_unpin(handle);
    }
    return rests;
}
