/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.c: creation and destruction of feeds, and the blocks that the program fills. Numbers in
 * brackets are those of feed_object.h.
 */
#include "xfer/feed_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "device/device_calls.h"

#include <string.h>

vram_status vr_feed_enter(vram_feed *handle, struct vr_feed **feed) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_FEED, handle, &entered);
    if (status == VRAM_OK) {
        *feed = entered;
    }
    return status;
}

/* ---------------------------------------------------------------------- slots */

void vr_feed_set_state(struct vr_feed *feed, struct vr_feed_slot *slot, enum vr_feed_state state) {
    vr_mutex_lock(&feed->lock);
    slot->state = state;
    vr_mutex_unlock(&feed->lock);
}

/* Claims the first slot in a state, or in IN_FLIGHT the oldest one; NULL: none. */
static struct vr_feed_slot *claim_slot(struct vr_feed *feed, enum vr_feed_state state) {
    struct vr_feed_slot *found = NULL;
    vr_mutex_lock(&feed->lock);
    for (uint32_t i = 0; i < feed->count; i++) {
        struct vr_feed_slot *slot = &feed->slots[i];
        if (slot->state == state && (!found || slot->number < found->number)) {
            found = slot;
        }
    }
    if (found) {
        found->state = VR_FEED_BUSY;
    }
    vr_mutex_unlock(&feed->lock);
    return found;
}

/* Polls one claimed slot; it is IDLE afterwards, or as it was. */
static vram_status poll_slot(struct vr_feed *feed, struct vr_feed_slot *slot,
                             enum vr_feed_state was) {
    vram_status status =
        was == VR_FEED_IN_FLIGHT ? vr_point_poll(slot->point) : vr_slot_settled(&slot->memory);
    bool over = status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST;
    if (over && was == VR_FEED_IN_FLIGHT) {
        memset(&slot->memory.pending[VR_SLOT_TRANSFER], 0, sizeof(struct vr_slot_work));
        vr_transfer_end(&slot->count, slot->sent, status);
    }
    vr_feed_set_state(feed, slot, over ? VR_FEED_IDLE : was);
    return over ? VRAM_OK : status;
}

/* A slot that may be filled, claimed. VRAM_ERR_NOT_READY: none yet, wait for *point; VRAM_ERR_BUSY:
   the program fills all of them. */
static vram_status find_free(struct vr_feed *feed, struct vr_feed_slot **found, vram_point *point) {
    vram_status status = VRAM_ERR_BUSY;
    struct vr_feed_slot *slot = NULL;
    *found = claim_slot(feed, VR_FEED_IDLE);
    if (*found) {
        return VRAM_OK;
    }
    if ((slot = claim_slot(feed, VR_FEED_IN_FLIGHT))) {
        *point = slot->point;
        status = poll_slot(feed, slot, VR_FEED_IN_FLIGHT);
    } else if ((slot = claim_slot(feed, VR_FEED_SETTLING))) {
        *point = slot->memory.pending[VR_SLOT_TRANSFER].point;
        status = poll_slot(feed, slot, VR_FEED_SETTLING);
    }
    if (status == VRAM_OK) {
        *found = claim_slot(feed, VR_FEED_IDLE);
        status = *found ? VRAM_OK : VRAM_ERR_NOT_READY;
    }
    return status;
}

static void count_memory(struct vr_feed *feed, const struct vr_frame_slot *slot, bool add) {
    uint64_t sign = add ? 1 : UINT64_MAX;
    feed->stats.host_bytes += sign * slot->host_bytes;
    feed->stats.pinned_bytes += sign * (slot->pinned ? slot->host_bytes : 0);
    feed->stats.device_bytes += sign * slot->shadow_bytes;
}

void vr_feed_recount(struct vr_feed *feed, const struct vr_frame_slot *was,
                     const struct vr_frame_slot *slot) {
    vr_mutex_lock(&feed->lock);
    count_memory(feed, was, false);
    count_memory(feed, slot, true);
    vr_mutex_unlock(&feed->lock);
}

/* ------------------------------------------------------------------- beginning */

/* Opens a claimed slot for the program. */
static vram_status open_block(struct vr_feed *feed, struct vr_feed_slot *slot, uint64_t bytes,
                              vram_feed_block *block) {
    struct vr_frame_slot was = slot->memory;
    vram_status status = vr_slot_reserve_host(&slot->memory, vr_feed_device(feed), bytes);
    vr_feed_recount(feed, &was, &slot->memory);
    if (status != VRAM_OK) {
        vr_feed_set_state(feed, slot, VR_FEED_IDLE);
        return status;
    }
    vr_mutex_lock(&feed->lock);
    slot->number = ++feed->begun;
    slot->bytes = bytes;
    slot->state = VR_FEED_OPEN;
    *block = (vram_feed_block){.data = slot->memory.host,
                               .bytes = bytes,
                               .number = slot->number,
                               .slot = (uint32_t)(slot - feed->slots),
                               .pinned = slot->memory.pinned};
    vr_mutex_unlock(&feed->lock);
    return VRAM_OK;
}

/* Waits for a slot, in slices: another thread may release one meanwhile. */
static vram_status wait_for_slot(struct vr_feed *feed, uint64_t deadline,
                                 struct vr_feed_slot **slot) {
    enum { SLICE_NS = 1000000, SLEEP_NS = 20000 };
    struct vram_error before;
    vram_point point;
    uint64_t began = vr_clock_now();
    bool stalled = false;
    vr_error_save(&before);
    for (;;) {
        vram_status status = find_free(feed, slot, &point);
        if (stalled && status != VRAM_ERR_NOT_READY) {
            vr_transfer_stalled(feed->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_FEED,
                                vr_clock_now() - began);
        }
        if (status == VRAM_ERR_BUSY) {
            return vr_fail(VRAM_ERR_BUSY, "all %u slots are being filled", feed->count);
        }
        if (status != VRAM_ERR_NOT_READY) {
            return status;
        }
        uint64_t left = vr_deadline_left(deadline);
        if (left == 0) {
            return vr_fail(VRAM_ERR_TIMEOUT, "all slots are in flight");
        }
        vr_mutex_lock(&feed->lock);
        feed->stats.stalls += !stalled;
        vr_mutex_unlock(&feed->lock);
        stalled = true;
        status = vr_point_wait(point, left < SLICE_NS ? left : SLICE_NS);
        if (status != VRAM_OK && status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_DEVICE_LOST) {
            return status;
        }
        if (status != VRAM_ERR_TIMEOUT) {
            vr_clock_sleep(
                SLEEP_NS); /* other work of the slot, or another thread, may be using it */
        }
        vr_error_restore(&before);
    }
}

vram_status vram_feed_begin(vram_feed *handle, uint64_t bytes, uint64_t timeout,
                            vram_feed_block *block) {
    VR_CALL;
    struct vr_feed_slot *slot = NULL;
    struct vr_feed *feed = NULL;
    if (!block || bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the pointer that receives the block is NULL, or the block has 0 bytes");
    }
    vram_status status = vr_feed_enter(handle, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t deadline = vr_wait_deadline(feed->device->context, timeout);
    status = wait_for_slot(feed, deadline, &slot);
    if (status == VRAM_OK) {
        status = open_block(feed, slot, bytes, block);
    }
    vr_leave(feed);
    return status;
}

vram_status vr_feed_claim_open(struct vr_feed *feed, uint64_t number, struct vr_feed_slot **found) {
    *found = NULL;
    vr_mutex_lock(&feed->lock);
    for (uint32_t i = 0; i < feed->count && !*found; i++) {
        struct vr_feed_slot *slot = &feed->slots[i];
        *found = slot->state == VR_FEED_OPEN && slot->number == number ? slot : NULL;
    }
    if (*found) {
        (*found)->state = VR_FEED_BUSY;
    }
    vr_mutex_unlock(&feed->lock);
    return *found ? VRAM_OK
                  : vr_fail(VRAM_ERR_INVALID, "block %llu is not being filled",
                            (unsigned long long)number);
}

vram_status vram_feed_release(vram_feed *handle, uint64_t number) {
    VR_CALL;
    struct vr_feed *feed = NULL;
    struct vr_feed_slot *slot = NULL;
    vram_status status = vr_feed_enter(handle, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_feed_claim_open(feed, number, &slot);
    if (status == VRAM_OK) {
        bool quiet = !slot->memory.pending[VR_SLOT_TRANSFER].queue &&
                     !slot->memory.pending[VR_SLOT_TRANSFER].point.queue;
        vr_feed_set_state(feed, slot, quiet ? VR_FEED_IDLE : VR_FEED_SETTLING);
    }
    vr_leave(feed);
    return status;
}

vram_status vram_feed_stats_get(vram_feed *handle, vram_feed_stats *stats) {
    VR_CALL;
    struct vr_feed *feed = NULL;
    vram_status status = vr_feed_enter(handle, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&feed->lock);
    struct vram_feed_stats found = feed->stats;
    vr_mutex_unlock(&feed->lock);
    status = vr_info_give(stats, &found, sizeof found, sizeof found);
    vr_leave(feed);
    return status;
}

/* ---------------------------------------------------------------------- ending */

/* Destroys the transfer queue and frees the memory; no other call is inside. VRAM_ERR_TIMEOUT when
   a transfer does not end: its memory stays until the device is closed. A second call does
   nothing. */
static vram_status feed_release_all(struct vr_feed *feed) {
    VR_OPERATION("vram_feed_destroy");
    bool over = true, waits = !vr_load(&feed->closing, VR_ACQUIRE);
    uint64_t deadline = vr_deadline_in(waits ? feed->device->context->wait_ns : 0);
    struct vr_queue_object *queue =
        feed->transfer ? vr_handle_pin(VR_KIND_QUEUE, feed->transfer) : NULL;
    struct vram_error error;
    vr_error_save(&error);
    if (queue) { /* first: it ends when its work has ended, even if that work could not be marked */
        vram_status status = vr_queue_destroy_by(queue, deadline);
        over = status == VRAM_OK || status == VRAM_ERR_STALE; /* STALE: see the slots */
        vr_leave(queue);
    }
    feed->transfer = NULL;
    for (uint32_t i = 0; i < feed->count; i++) {
        struct vr_feed_slot *slot = &feed->slots[i];
        bool settled = vr_slot_end(&slot->memory, vr_feed_device(feed), deadline);
        vr_transfer_end(&slot->count, slot->sent, settled ? VRAM_OK : VRAM_ERR_TIMEOUT);
        over = over && settled;
    }
    vr_error_restore(&error);
    return over ? VRAM_OK
                : vr_fail(VRAM_ERR_TIMEOUT,
                          "a transfer of the feed is unfinished; its memory is kept until the "
                          "device is closed");
}

/* The destructor, also of a half-built feed: no call is inside any more. */
static void feed_free(void *memory) {
    struct vr_feed *feed = memory;
    uint64_t device = feed->device->object.handle;
    if (!vr_exiting()) {
        (void)feed_release_all(feed);
    }
    vr_mutex_destroy(&feed->lock);
    vr_mem_free(feed);
    vr_handle_unpin(device);
}

/* A call that is inside, in another thread or further up this one's stack, leaves the rest to the
   destructor. */
static vram_status feed_end(void *object) {
    struct vr_feed *feed = object;
    vr_mutex_lock(&feed->device->lock);
    vr_link_remove(&feed->watcher.link);
    vr_mutex_unlock(&feed->device->lock);
    return vr_handle_is_last(feed->object.handle) ? feed_release_all(feed) : VRAM_OK;
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_feed *feed = VR_CONTAINER(watcher, struct vr_feed, watcher);
    (void)finished; /* points tell which slots are not finished */
    vr_store(&feed->closing, true, VR_RELEASE);
    vr_object_parent_ended(&feed->object, feed_end);
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

vram_status vram_feed_destroy(vram_feed *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_FEED, handle, feed_end, NULL);
}

/* -------------------------------------------------------------------- creating */

static vram_status feed_setup(struct vr_feed *feed, const struct vram_feed_options *options) {
    struct vram_queue_options queue = {.size = sizeof queue, .priority = options->priority};
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_queue_make(vr_feed_device(feed), &queue, &feed->transfer);
    for (uint32_t i = 0; i < feed->count && options->bytes && status == VRAM_OK; i++) {
        struct vr_frame_slot *slot = &feed->slots[i].memory;
        status = vr_slot_reserve_host(slot, vr_feed_device(feed), options->bytes);
        if (status == VRAM_OK && feed->mode == VRAM_FEED_STAGED) {
            status = vr_slot_reserve_shadow(slot, vr_feed_device(feed), options->bytes);
            if (vr_status_is_exhausted(status)) {
                vr_error_restore(&error);
                status = VRAM_OK;
            }
        }
        count_memory(feed, slot, true);
    }
    return status;
}

/* `device` is entered. */
static vram_status feed_create(struct vr_device_object *device,
                               const struct vram_feed_options *options, vram_feed **out) {
    struct vr_feed *feed =
        vr_mem_alloc(1, sizeof *feed + options->slots * sizeof feed->slots[0], vr_operation());
    if (!feed) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&feed->lock, VR_RANK_SLOTS);
    feed->object.process = vr_os_process_generation();
    feed->watcher.closing = device_closing;
    feed->watcher.queue_ended = queue_ended;
    feed->device = device;
    feed->mode = options->mode;
    feed->count = options->slots;
    vr_handle_ref(device->object.handle);
    vram_status status = feed_setup(feed, options);
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_FEED, feed, feed_free, &feed->object.handle);
    }
    if (status != VRAM_OK) {
        feed_free(feed);
        return status;
    }
    uint64_t handle = feed->watcher.handle = feed->object.handle;
    status = vr_device_list_watcher(device, &feed->watcher);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_feed *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_feed_create(vram_device *handle, const vram_feed_options *options,
                             vram_feed **feed) {
    VR_CALL;
    struct vram_feed_options taken;
    void *device;
    if (!feed) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the feed is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options);
    taken.slots = taken.slots ? taken.slots : 2;
    if (status == VRAM_OK && (taken.slots < 2 || taken.slots > VRAM_FEED_SLOTS_MAX ||
                              (unsigned)taken.mode > VRAM_FEED_DIRECT)) {
        status =
            vr_fail(VRAM_ERR_INVALID, "a feed has 2 to %d slots, and a mode", VRAM_FEED_SLOTS_MAX);
    }
    if (status == VRAM_OK) {
        status = feed_create(device, &taken, feed);
    }
    vr_leave(device);
    return status;
}
