/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.c: blocks of host data from the program's hands to their place on the device.
 *
 *     transfer   upload k to shadow -.   upload k+1 to shadow                 STAGED
 *     consumer   ... work on k-1 ...  '-> copy k to its place | work on k
 *
 *     transfer                 .-> upload k to its place -.                   DIRECT
 *     consumer   work on k-1 --'                          '-> work on k
 *
 *  (1) `lock` guards states, numbers and counters; no driver call is made under it. A slot is IDLE, OPEN (the
 *      program fills it), BUSY (one call has it), FLYING (its upload reads it) or SETTLING (given back after
 *      a submit that failed, whose work may still read it).
 *  (2) Host memory of a slot is free when its upload has passed. Its shadow is free when the consumer's copy has:
 *      the host does not wait for that, the next upload into it does, on the device.
 *  (3) A shadow is replaced by a larger one only when nothing is pending on the slot. A block that cannot have
 *      one now goes DIRECT.
 *  (4) A submit has entered both queues from its first step to its last: neither ends in between.
 */
#include "vram/feed.h"
#include "xfer/frame_slot.h"
#include "xfer/metrics.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

enum slot_state { IDLE = 0, OPEN, BUSY, FLYING, SETTLING };

struct slot {
    struct vr_frame_slot memory;
    enum slot_state state;
    uint64_t number;                /* of the block in it */
    uint64_t bytes;                 /* as asked for */
    vram_point point;               /* FLYING: when its upload has passed */
    uint64_t sent;                  /* bytes that it reads */
    struct vr_transfer_count count; /* in the device's counters */
};

struct vr_feed {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    vram_queue *transfer;            /* its own */
    enum vram_feed_mode mode;
    vr_atomic_bool closing; /* the device is: nothing is waited for any more */
    struct vr_mutex lock;   /* guards the rest */
    uint64_t begun;         /* the last block's number */
    struct vram_feed_stats stats;
    uint32_t count;
    struct slot slots[];
};

static vram_device *device_of(const struct vr_feed *feed) {
    return (vram_device *)(uintptr_t)feed->device->object.handle;
}

static vram_status enter(vram_feed *handle, const char *operation, struct vr_feed **feed) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_FEED, handle, operation, &entered);
    if (status == VRAM_OK) {
        *feed = entered;
    }
    return status;
}

/* ---------------------------------------------------------------------- slots */

static void set_state(struct vr_feed *feed, struct slot *slot, enum slot_state state) {
    vr_mutex_lock(&feed->lock);
    slot->state = state;
    vr_mutex_unlock(&feed->lock);
}

/* Claims the first slot in a state, or in FLYING the one that came first; NULL: none. */
static struct slot *claim(struct vr_feed *feed, enum slot_state state) {
    struct slot *found = NULL;
    vr_mutex_lock(&feed->lock);
    for (uint32_t i = 0; i < feed->count; i++) {
        struct slot *slot = &feed->slots[i];
        if (slot->state == state && (!found || slot->number < found->number)) {
            found = slot;
        }
    }
    if (found) {
        found->state = BUSY;
    }
    vr_mutex_unlock(&feed->lock);
    return found;
}

/* Looks at one slot that the caller has claimed; it is IDLE afterwards, or as it was. */
static vram_status look(struct vr_feed *feed, struct slot *slot, enum slot_state was) {
    vram_status status =
        was == FLYING ? vram_point_poll(slot->point) : vr_slot_settled(&slot->memory);
    bool over = status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST;
    if (over && was == FLYING) {
        memset(&slot->memory.pending[VR_SLOT_TRANSFER], 0, sizeof(struct vr_pending));
        vr_transfer_end(&slot->count, slot->sent, status);
    }
    set_state(feed, slot, over ? IDLE : was);
    return over ? VRAM_OK : status;
}

/* A slot that may be filled, claimed. VRAM_ERR_NOT_READY: none yet, and *point is worth waiting for;
   VRAM_ERR_BUSY: all are in the program's hands. */
static vram_status find_free(struct vr_feed *feed, struct slot **found, vram_point *point) {
    vram_status status = VRAM_ERR_BUSY;
    struct slot *slot = NULL;
    *found = claim(feed, IDLE);
    if (*found) {
        return VRAM_OK;
    }
    if ((slot = claim(feed, FLYING))) {
        *point = slot->point;
        status = look(feed, slot, FLYING);
    } else if ((slot = claim(feed, SETTLING))) {
        *point = slot->memory.pending[VR_SLOT_TRANSFER].point;
        status = look(feed, slot, SETTLING);
    }
    if (status == VRAM_OK) {
        *found = claim(feed, IDLE);
        status = *found ? VRAM_OK : VRAM_ERR_NOT_READY; /* another thread was quicker */
    }
    return status;
}

static void count_memory(struct vr_feed *feed, const struct vr_frame_slot *slot, bool add) {
    uint64_t sign = add ? 1 : UINT64_MAX;
    feed->stats.host_bytes += sign * slot->host_bytes;
    feed->stats.pinned_bytes += sign * (slot->pinned ? slot->host_bytes : 0);
    feed->stats.device_bytes += sign * slot->shadow_bytes;
}

static void recount(struct vr_feed *feed, const struct vr_frame_slot *was,
                    const struct vr_frame_slot *slot) {
    vr_mutex_lock(&feed->lock);
    count_memory(feed, was, false);
    count_memory(feed, slot, true);
    vr_mutex_unlock(&feed->lock);
}

/* ------------------------------------------------------------------- beginning */

/* Opens a claimed slot for the program. */
static vram_status open_block(struct vr_feed *feed, struct slot *slot, uint64_t bytes,
                              const char *operation, vram_feed_block *block) {
    struct vr_frame_slot was = slot->memory;
    vram_status status = vr_slot_reserve_host(&slot->memory, device_of(feed), bytes, operation);
    recount(feed, &was, &slot->memory);
    if (status != VRAM_OK) {
        set_state(feed, slot, IDLE);
        return status;
    }
    vr_mutex_lock(&feed->lock);
    slot->number = ++feed->begun;
    slot->bytes = bytes;
    slot->state = OPEN;
    *block = (vram_feed_block){.data = slot->memory.host,
                               .bytes = bytes,
                               .number = slot->number,
                               .slot = (uint32_t)(slot - feed->slots),
                               .pinned = slot->memory.pinned};
    vr_mutex_unlock(&feed->lock);
    return VRAM_OK;
}

/* Waits for a slot, in slices: another thread may give one back meanwhile. */
static vram_status wait_for_slot(struct vr_feed *feed, uint64_t deadline, const char *operation,
                                 struct slot **slot) {
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
            return vr_fail(VRAM_ERR_BUSY, operation, "all %u slots are being filled", feed->count);
        }
        if (status != VRAM_ERR_NOT_READY) {
            return status;
        }
        uint64_t left = vr_deadline_left(deadline);
        if (left == 0) {
            return vr_fail(VRAM_ERR_TIMEOUT, operation, "all slots are on their way");
        }
        vr_mutex_lock(&feed->lock);
        feed->stats.stalls += !stalled;
        vr_mutex_unlock(&feed->lock);
        stalled = true;
        status = vram_point_wait(point, left < SLICE_NS ? left : SLICE_NS);
        if (status != VRAM_OK && status != VRAM_ERR_TIMEOUT && status != VRAM_ERR_DEVICE_LOST) {
            return status;
        }
        if (status != VRAM_ERR_TIMEOUT) {
            vr_clock_sleep(SLEEP_NS); /* other work of the slot, or another thread, may be at it */
        }
        vr_error_restore(&before);
    }
}

vram_status vram_feed_begin(vram_feed *handle, uint64_t bytes, uint64_t timeout,
                            vram_feed_block *block) {
    static const char operation[] = "vram_feed_begin";
    struct slot *slot = NULL;
    struct vr_feed *feed = NULL;
    if (!block || bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, operation, "there is no place for the block, or 0 bytes");
    }
    vram_status status = enter(handle, operation, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t deadline =
        vr_deadline_in(timeout == VRAM_TIMEOUT_DEFAULT ? feed->device->context->wait_ns : timeout);
    status = wait_for_slot(feed, deadline, operation, &slot);
    if (status == VRAM_OK) {
        status = open_block(feed, slot, bytes, operation, block);
    }
    vr_leave(feed);
    return status;
}

/* Claims the block that the program fills. */
static vram_status claim_open(struct vr_feed *feed, uint64_t number, const char *operation,
                              struct slot **found) {
    *found = NULL;
    vr_mutex_lock(&feed->lock);
    for (uint32_t i = 0; i < feed->count && !*found; i++) {
        struct slot *slot = &feed->slots[i];
        *found = slot->state == OPEN && slot->number == number ? slot : NULL;
    }
    if (*found) {
        (*found)->state = BUSY;
    }
    vr_mutex_unlock(&feed->lock);
    return *found ? VRAM_OK
                  : vr_fail(VRAM_ERR_INVALID, operation, "block %llu is not being filled",
                            (unsigned long long)number);
}

vram_status vram_feed_give(vram_feed *handle, uint64_t number) {
    static const char operation[] = "vram_feed_give";
    struct vr_feed *feed = NULL;
    struct slot *slot = NULL;
    vram_status status = enter(handle, operation, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    status = claim_open(feed, number, operation, &slot);
    if (status == VRAM_OK) {
        bool quiet = !slot->memory.pending[VR_SLOT_TRANSFER].queue &&
                     !slot->memory.pending[VR_SLOT_TRANSFER].point.queue;
        set_state(feed, slot, quiet ? IDLE : SETTLING);
    }
    vr_leave(feed);
    return status;
}

/* ------------------------------------------------------------------ submitting */

/* One submit. */
struct delivery {
    struct vr_feed *feed;
    struct slot *slot; /* claimed */
    vram_queue *consumer;
    vram_addr to;
    uint64_t bytes;
    vram_point uploaded; /* the host memory is free again */
    vram_point arrived;  /* the bytes lie in their place */
};

/* Whether the block can go by the slot's shadow: keeps (3). */
static vram_status choose(struct delivery *delivery, bool *staged) {
    struct vr_feed *feed = delivery->feed;
    struct vr_frame_slot *slot = &delivery->slot->memory, was = *slot;
    struct vram_error error;
    *staged = false;
    if (feed->mode == VRAM_FEED_DIRECT) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = VRAM_OK;
    if (slot->shadow_bytes < delivery->bytes || slot->pending[VR_SLOT_OTHER].queue) {
        status = vr_slot_settled(slot);
        if (status == VRAM_OK) {
            status = vr_slot_reserve_shadow(slot, device_of(feed), delivery->bytes);
            recount(feed, &was, slot);
        }
    }
    *staged = status == VRAM_OK;
    if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST) {
        vr_error_restore(&error);
        status = VRAM_OK;
    }
    return status;
}

/* Submits the upload, with its point. */
static vram_status upload(struct delivery *delivery, vram_addr to) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    vram_queue *transfer = delivery->feed->transfer;
    vram_status status = vram_queue_upload(transfer, to, slot->host, delivery->bytes);
    return status == VRAM_OK ? vr_slot_mark(slot, VR_SLOT_TRANSFER, transfer, &delivery->uploaded)
                             : status;
}

static vram_status deliver_staged(struct delivery *delivery) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    vram_status status = /* keeps (2) */
        vram_queue_after(delivery->feed->transfer, slot->pending[VR_SLOT_OTHER].point);
    if (status == VRAM_OK) {
        status = upload(delivery, slot->shadow);
    }
    if (status == VRAM_OK) {
        status = vram_queue_after(delivery->consumer, delivery->uploaded);
    }
    if (status == VRAM_OK) {
        status = vram_queue_copy(delivery->consumer, delivery->to, slot->shadow, delivery->bytes);
    }
    return status == VRAM_OK
               ? vr_slot_mark(slot, VR_SLOT_OTHER, delivery->consumer, &delivery->arrived)
               : status;
}

static vram_status deliver_direct(struct delivery *delivery) {
    vram_point before;
    vram_status status = vram_queue_mark(delivery->consumer, &before);
    if (status == VRAM_OK) {
        status = vram_queue_after(delivery->feed->transfer, before);
    }
    if (status == VRAM_OK) {
        status = upload(delivery, delivery->to);
    }
    delivery->arrived = delivery->uploaded;
    return status == VRAM_OK ? vram_queue_after(delivery->consumer, delivery->uploaded) : status;
}

/* A handle for the arrival. Where there is no memory for one, the arrival itself is waited for. */
static vram_status give_handle(const struct delivery *delivery, vram_async *async) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vram_async_of_point(delivery->arrived, "vram_feed_submit", async);
    if (status != VRAM_OK) {
        status = vram_point_wait(delivery->arrived, VRAM_TIMEOUT_DEFAULT);
        *async = (vram_async){{0}};
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

/* A delivery that has failed leaves nothing behind that would write to its place later. */
static void take_back(struct delivery *delivery) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    bool begun = slot->pending[VR_SLOT_TRANSFER].queue || delivery->uploaded.queue;
    if (begun && vr_queue_drained(delivery->feed->transfer) &&
        vr_queue_drained(delivery->consumer)) {
        memset(slot->pending, 0, sizeof slot->pending);
    }
}

static vram_status deliver(struct delivery *delivery) {
    struct vr_feed *feed = delivery->feed;
    bool staged = false;
    vram_status status = choose(delivery, &staged);
    if (status == VRAM_OK) {
        vr_transfer_begin(feed->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_FEED,
                          &delivery->slot->count);
        status = staged ? deliver_staged(delivery) : deliver_direct(delivery);
    }
    if (status != VRAM_OK) {
        take_back(delivery);
        vr_transfer_end(&delivery->slot->count, 0, status);
    }
    vr_mutex_lock(&feed->lock);
    if (status == VRAM_OK) {
        feed->stats.submitted++;
        feed->stats.bytes += delivery->bytes;
        feed->stats.direct += !staged && feed->mode == VRAM_FEED_STAGED;
        delivery->slot->point = delivery->uploaded;
        delivery->slot->sent = delivery->bytes;
        delivery->slot->state = FLYING;
    }
    vr_mutex_unlock(&feed->lock);
    return status;
}

/* What the caller gave is of this device, and fits. */
static vram_status check(const struct delivery *delivery, const struct vr_queue_object *consumer,
                         const char *operation) {
    vram_status status = VRAM_OK;
    if (consumer->device != delivery->feed->device) {
        status = vr_fail(VRAM_ERR_INVALID, operation, "the queue belongs to another device");
    } else if (delivery->bytes == 0 || delivery->bytes > delivery->slot->bytes) {
        status =
            vr_fail(VRAM_ERR_INVALID, operation, "the block has %llu bytes, not %llu",
                    (unsigned long long)delivery->slot->bytes, (unsigned long long)delivery->bytes);
    } else {
        status = vr_span_check(delivery->feed->device, delivery->to, delivery->bytes, operation);
    }
    return status;
}

/* Keeps (4). A slot that is not FLYING afterwards is OPEN again. */
static vram_status submit(struct delivery *delivery, const char *operation) {
    void *consumer, *transfer;
    vram_status status = vr_submit_enter(delivery->consumer, operation, &consumer);
    if (status == VRAM_OK) {
        status = check(delivery, consumer, operation);
        if (status == VRAM_OK) {
            status = vr_submit_enter(delivery->feed->transfer, operation, &transfer);
        }
        if (status == VRAM_OK) {
            status = deliver(delivery);
            vr_submit_leave(transfer);
        }
        vr_submit_leave(consumer);
    }
    if (status != VRAM_OK) {
        set_state(delivery->feed, delivery->slot, OPEN);
    }
    return status;
}

vram_status vram_feed_submit(vram_feed *handle, uint64_t number, vram_queue *consumer, vram_addr to,
                             uint64_t bytes, vram_async *async) {
    static const char operation[] = "vram_feed_submit";
    struct delivery delivery = {.consumer = consumer, .to = to, .bytes = bytes};
    vram_status status = enter(handle, operation, &delivery.feed);
    if (status != VRAM_OK) {
        return status;
    }
    status = claim_open(delivery.feed, number, operation, &delivery.slot);
    if (status == VRAM_OK) {
        status = submit(&delivery, operation);
        status = status == VRAM_OK && async ? give_handle(&delivery, async) : status;
    }
    vr_leave(delivery.feed);
    return status;
}

vram_status vram_feed_stats_get(vram_feed *handle, vram_feed_stats *stats) {
    static const char operation[] = "vram_feed_stats_get";
    struct vr_feed *feed = NULL;
    vram_status status = enter(handle, operation, &feed);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&feed->lock);
    struct vram_feed_stats found = feed->stats;
    vr_mutex_unlock(&feed->lock);
    status = vr_info_give(stats, &found, sizeof found, sizeof found, operation);
    vr_leave(feed);
    return status;
}

/* ---------------------------------------------------------------------- ending */

/* The destructor, also of a half-built feed: no call is inside any more. */
static void feed_free(void *memory) {
    struct vr_feed *feed = memory;
    uint64_t device = feed->device->object.handle;
    if (!vr_exiting()) {
        bool waits = !vr_load(&feed->closing, VR_ACQUIRE);
        uint64_t deadline = vr_deadline_in(waits ? feed->device->context->wait_ns : 0);
        struct vr_queue_object *queue =
            feed->transfer ? vr_handle_pin(VR_KIND_QUEUE, feed->transfer) : NULL;
        if (queue) { /* first: it ends when its work has, whether or not that could be marked */
            vr_queue_destroy_by(queue, deadline);
            vr_leave(queue);
        }
        for (uint32_t i = 0; i < feed->count; i++) {
            struct slot *slot = &feed->slots[i];
            bool over = vr_slot_end(&slot->memory, device_of(feed), deadline);
            vr_transfer_end(&slot->count, slot->sent, over ? VRAM_OK : VRAM_ERR_TIMEOUT);
        }
    }
    vr_mutex_destroy(&feed->lock);
    vr_mem_free(feed);
    vr_handle_unpin(device);
}

static void retire(struct vr_feed *feed) {
    if (vr_handle_retire(feed->object.handle)) {
        vr_mutex_lock(&feed->device->lock);
        vr_link_remove(&feed->watcher.link);
        vr_mutex_unlock(&feed->device->lock);
        vr_handle_unpin(feed->object.handle);
    }
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_feed *feed = VR_CONTAINER(watcher, struct vr_feed, watcher);
    (void)finished; /* points tell which slots are not */
    vr_store(&feed->closing, true, VR_RELEASE);
    retire(feed);
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

static bool covers(struct vr_watcher *watcher, vram_addr addr, uint64_t bytes) {
    (void)watcher, (void)addr, (void)bytes;
    return false;
}

void vram_feed_destroy(vram_feed *handle) {
    if (!handle || vr_exiting()) {
        return;
    }
    struct vr_feed *feed = vr_handle_pin(VR_KIND_FEED, handle);
    if (!feed) {
        vr_handle_error(VR_KIND_FEED, handle, "vram_feed_destroy");
    } else if (vr_forked(&feed->object)) {
        vr_handle_retire(feed->object.handle); /* nothing of the parent's is torn down here */
    } else {
        retire(feed);
        vr_leave(feed);
    }
}

/* -------------------------------------------------------------------- creating */

static vram_status furnish(struct vr_feed *feed, const struct vram_feed_options *options,
                           const char *operation) {
    struct vram_queue_options queue = {.size = sizeof queue, .priority = options->priority};
    vram_status status = vram_queue_create(device_of(feed), &queue, &feed->transfer);
    for (uint32_t i = 0; i < feed->count && options->bytes && status == VRAM_OK; i++) {
        struct vr_frame_slot *slot = &feed->slots[i].memory;
        status = vr_slot_reserve_host(slot, device_of(feed), options->bytes, operation);
        if (status == VRAM_OK && feed->mode == VRAM_FEED_STAGED) {
            status = vr_slot_reserve_shadow(slot, device_of(feed), options->bytes);
            status = vram_status_is_exhausted(status) ? VRAM_OK : status;
        }
        count_memory(feed, slot, true);
    }
    return status;
}

/* `device` is entered. */
static vram_status create(struct vr_device_object *device, const struct vram_feed_options *options,
                          const char *operation, vram_feed **out) {
    struct vr_feed *feed =
        vr_mem_alloc(1, sizeof *feed + options->slots * sizeof feed->slots[0], operation);
    if (!feed) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&feed->lock, VR_RANK_SLOTS);
    feed->object.process = vr_os_process_generation();
    feed->watcher.closing = device_closing;
    feed->watcher.queue_ended = queue_ended;
    feed->watcher.covers = covers;
    feed->device = device;
    feed->mode = options->mode;
    feed->count = options->slots;
    vr_handle_ref(device->object.handle);
    vram_status status = furnish(feed, options, operation);
    if (status == VRAM_OK) {
        status = vr_handle_publish(VR_KIND_FEED, feed, feed_free, &feed->object.handle);
    }
    if (status != VRAM_OK) {
        feed_free(feed);
        return status;
    }
    uint64_t handle = feed->watcher.handle = feed->object.handle;
    status = vr_device_list_child(device, &device->watchers, &feed->watcher.link, operation);
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
    static const char operation[] = "vram_feed_create";
    struct vram_feed_options taken;
    void *device;
    if (!feed) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the feed is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options, operation);
    taken.slots = taken.slots ? taken.slots : 2;
    if (status == VRAM_OK && (taken.slots < 2 || taken.slots > VRAM_FEED_SLOTS_MAX ||
                              (unsigned)taken.mode > VRAM_FEED_DIRECT)) {
        status = vr_fail(VRAM_ERR_INVALID, operation, "a feed has 2 to %d slots, and a mode",
                         VRAM_FEED_SLOTS_MAX);
    }
    if (status == VRAM_OK) {
        status = create(device, &taken, operation, feed);
    }
    vr_leave(device);
    return status;
}
