/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed_submit.c: submits a filled block to its destination on the device.
 *
 *     transfer   upload k to shadow -.   upload k+1 to shadow                 STAGED
 *     consumer   ... work on k-1 ...  '-> copy k to its place | work on k
 *
 *     transfer                 .-> upload k to its place -.                   DIRECT
 *     consumer   work on k-1 --'                          '-> work on k
 */
#include "xfer/feed_object.h"

#include "base/error.h"
#include "device/device_calls.h"
#include "xfer/xfer_calls.h"

#include <string.h>

/* One submit. */
struct delivery {
    struct vr_feed *feed;
    struct vr_feed_slot *slot; /* claimed */
    vram_queue *consumer;
    vram_addr to;
    uint64_t bytes;
    vram_point uploaded; /* the host memory is free again */
    vram_point arrived;  /* the bytes are at their destination */
};

/* Whether the block can use the slot's shadow: keeps (3). */
static vram_status choose_mode(struct delivery *delivery, bool *staged) {
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
            status = vr_slot_reserve_shadow(slot, vr_feed_device(feed), delivery->bytes);
            vr_feed_recount(feed, &was, slot);
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
static vram_status submit_upload(struct delivery *delivery, vram_addr to) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    vram_queue *transfer = delivery->feed->transfer;
    vram_status status = vr_submit_upload(transfer, to, slot->host, delivery->bytes);
    return status == VRAM_OK ? vr_slot_mark(slot, VR_SLOT_TRANSFER, transfer, &delivery->uploaded)
                             : status;
}

static vram_status deliver_staged(struct delivery *delivery) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    vram_status status = /* keeps (2) */
        vr_submit_after(delivery->feed->transfer, slot->pending[VR_SLOT_OTHER].point);
    if (status == VRAM_OK) {
        status = submit_upload(delivery, slot->shadow);
    }
    if (status == VRAM_OK) {
        status = vr_submit_after(delivery->consumer, delivery->uploaded);
    }
    if (status == VRAM_OK) {
        status = vr_submit_copy(delivery->consumer, delivery->to, slot->shadow, delivery->bytes);
    }
    return status == VRAM_OK
               ? vr_slot_mark(slot, VR_SLOT_OTHER, delivery->consumer, &delivery->arrived)
               : status;
}

static vram_status deliver_direct(struct delivery *delivery) {
    vram_point before;
    vram_status status = vr_submit_mark(delivery->consumer, &before);
    if (status == VRAM_OK) {
        status = vr_submit_after(delivery->feed->transfer, before);
    }
    if (status == VRAM_OK) {
        status = submit_upload(delivery, delivery->to);
    }
    delivery->arrived = delivery->uploaded;
    return status == VRAM_OK ? vr_submit_after(delivery->consumer, delivery->uploaded) : status;
}

/* Makes a handle for the arrival. Without host memory for one, waits for the arrival instead. */
static vram_status give_handle(const struct delivery *delivery, vram_async *async) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_async_of_point(delivery->arrived, "vram_feed_submit", async);
    if (status != VRAM_OK) {
        status = vr_point_wait(delivery->arrived, VRAM_TIMEOUT_DEFAULT);
        *async = (vram_async){{0}};
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

/* After a failed delivery, waits so that nothing writes to its destination later. */
static void take_back(struct delivery *delivery) {
    struct vr_frame_slot *slot = &delivery->slot->memory;
    bool begun = slot->pending[VR_SLOT_TRANSFER].queue || delivery->uploaded.queue;
    if (begun && vr_queue_drained(delivery->feed->transfer) &&
        vr_queue_drained(delivery->consumer)) {
        memset(slot->pending, 0, sizeof slot->pending);
    }
}

static vram_status deliver_block(struct delivery *delivery) {
    struct vr_feed *feed = delivery->feed;
    bool staged = false;
    vram_status status = choose_mode(delivery, &staged);
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
        delivery->slot->state = VR_FEED_IN_FLIGHT;
    }
    vr_mutex_unlock(&feed->lock);
    return status;
}

/* Checks that queue and destination belong to this device and that the bytes fit. */
static vram_status check_delivery(const struct delivery *delivery,
                                  const struct vr_queue_object *consumer) {
    vram_status status = VRAM_OK;
    if (consumer->device != delivery->feed->device) {
        status = vr_fail(VRAM_ERR_INVALID, "the queue belongs to another device");
    } else if (delivery->bytes == 0 || delivery->bytes > delivery->slot->bytes) {
        status =
            vr_fail(VRAM_ERR_INVALID, "the block has %llu bytes, not %llu",
                    (unsigned long long)delivery->slot->bytes, (unsigned long long)delivery->bytes);
    } else {
        status = vr_span_check_write(delivery->feed->device, delivery->to, delivery->bytes);
    }
    return status;
}

/* Keeps (4). A slot that is not IN_FLIGHT afterwards is OPEN again. */
static vram_status submit_delivery(struct delivery *delivery) {
    void *consumer, *transfer;
    vram_status status = vr_submit_enter(delivery->consumer, &consumer);
    if (status == VRAM_OK) {
        status = check_delivery(delivery, consumer);
        if (status == VRAM_OK) {
            status = vr_submit_enter(delivery->feed->transfer, &transfer);
        }
        if (status == VRAM_OK) {
            status = deliver_block(delivery);
            vr_submit_leave(transfer);
        }
        vr_submit_leave(consumer);
    }
    if (status != VRAM_OK) {
        vr_feed_set_state(delivery->feed, delivery->slot, VR_FEED_OPEN);
    }
    return status;
}

vram_status vram_feed_submit(vram_feed *handle, vram_queue *consumer, vram_addr to, uint64_t number,
                             uint64_t bytes, vram_async *async) {
    VR_CALL;
    struct delivery delivery = {.consumer = consumer, .to = to, .bytes = bytes};
    vram_status status = vr_feed_enter(handle, &delivery.feed);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_feed_claim_open(delivery.feed, number, &delivery.slot);
    if (status == VRAM_OK) {
        status = submit_delivery(&delivery);
        status = status == VRAM_OK && async ? give_handle(&delivery, async) : status;
    }
    vr_leave(delivery.feed);
    return status;
}
