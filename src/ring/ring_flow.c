/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_flow.c: send, receive, flush, fetch, stop, drain and join. A thread that waits here loops
 * until its deadline: it pumps if no other thread does, checks whether waiting can still succeed,
 * and backs off for longer each time.
 */
#include "ring/ring_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/ops.h"
#include "xfer/async_record.h"

#include <string.h>

/* ------------------------------------------------------------------ entering */

static vram_status ring_enter(vram_ring *handle, struct vr_ring **ring) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_RING, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    *ring = entered;
    if (vr_load(&(*ring)->corrupt, VR_ACQUIRE)) {
        vr_leave(entered);
        return vr_fail(VRAM_ERR_CORRUPT, "the ring was found damaged earlier");
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------- waiting */

/* One round of a wait. VRAM_ERR_TIMEOUT, without a record, at the deadline. */
struct ring_wait {
    uint64_t deadline;
    uint32_t attempts;
};

static vram_status pump_round(struct vr_ring *ring) {
    uint64_t moved, arrived;
    if (!vr_ring_copies(ring)) {
        return vr_check_lost(&ring->device->base, vr_operation());
    }
    if (ring->info.strategy == VRAM_RING_DMA_POLLING && !vr_ring_thread_failed(ring)) {
        return VRAM_OK;
    }
    vram_status status = vr_ring_pump(ring, &moved, &arrived);
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

static vram_status wait_round(struct vr_ring *ring, struct ring_wait *wait) {
    vram_status status = pump_round(ring);
    if (status != VRAM_OK) {
        return status;
    }
    if (vr_load(&ring->corrupt, VR_ACQUIRE)) {
        return vr_fail(VRAM_ERR_CORRUPT, "the ring was found damaged");
    }
    if (vr_load(&ring->ending, VR_ACQUIRE)) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the ring is being destroyed");
    }
    if (vr_deadline_passed(wait->deadline)) {
        return VRAM_ERR_TIMEOUT;
    }
    vr_ring_backoff(wait->attempts++);
    return VRAM_OK;
}

/* ------------------------------------------------------------------- sending */

static vram_status check_messages(const struct vr_ring *ring, const vram_ring_message *messages,
                                  uint64_t count) {
    if (!ring->input.capacity) {
        return vr_fail(VRAM_ERR_INVALID, "the ring has no input");
    }
    for (uint64_t i = 0; i < count; i++) {
        if (messages[i].bytes > ring->input.message_bytes) {
            return vr_fail(VRAM_ERR_INVALID,
                           "a message of %u bytes does not fit: the ring's have at most %u",
                           messages[i].bytes, ring->input.message_bytes);
        }
        if (!messages[i].data && messages[i].bytes) {
            return vr_fail(VRAM_ERR_INVALID, "the data of a message is NULL");
        }
    }
    return VRAM_OK;
}

static vram_status too_late(struct vr_ring *ring) {
    uint64_t tail = vr_load(ring->input.tail, VR_ACQUIRE);
    return vr_fail(
        VRAM_ERR_TIMEOUT,
        "the input stayed full: the kernel has taken %llu of %llu messages; is it running?",
        (unsigned long long)tail, (unsigned long long)vr_load(ring->input.head, VR_ACQUIRE));
}

/* Sends all of them, or as many as the time allows. */
static vram_status send_some(struct vr_ring *ring, const vram_ring_message *messages,
                             uint64_t count, uint64_t timeout, uint64_t *sent, uint64_t *full_ns) {
    struct ring_wait wait = {.deadline = vr_wait_deadline(ring->device->context, timeout)};
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && *sent < count) {
        uint64_t now = 0;
        if (vr_load(&ring->stopped, VR_ACQUIRE)) {
            return vr_fail(VRAM_ERR_SHUTDOWN, "the ring was stopped");
        }
        status =
            vr_channel_send(&ring->input, messages + *sent, count - *sent, vr_clock_now(), &now);
        if (status != VRAM_OK) {
            return vr_ring_damaged(ring, "the device's input tail");
        }
        *sent += now;
        vr_fetch_add(&ring->sent, now, VR_RELAXED);
        if (*sent < count) {
            if (wait.attempts == 0) {
                vr_fetch_add(&ring->full_waits, 1, VR_RELAXED);
                *full_ns = *full_ns ? *full_ns : vr_clock_now();
            }
            wait.attempts = now ? 1 : wait.attempts;
            if (timeout == 0 && wait.attempts > 1) {
                return VRAM_ERR_NOT_READY;
            }
            status = wait_round(ring, &wait);
            status = timeout == 0 && status == VRAM_ERR_TIMEOUT ? VRAM_OK : status;
            wait.attempts += timeout == 0;
        }
    }
    return status == VRAM_ERR_TIMEOUT ? too_late(ring) : status;
}

/* The same, and counts the time since the ring was full as a stall. */
static vram_status send_all(struct vr_ring *ring, const vram_ring_message *messages, uint64_t count,
                            uint64_t timeout, uint64_t *sent) {
    uint64_t full_ns = 0;
    vram_status status = send_some(ring, messages, count, timeout, sent, &full_ns);
    if (full_ns) {
        vr_transfer_stalled(ring->device, VRAM_TRANSFER_TO_DEVICE, VRAM_ROUTE_RING,
                            vr_clock_now() - full_ns);
    }
    return status;
}

static vram_status send_alone(struct vr_ring *ring, const vram_ring_message *messages,
                              uint64_t count, uint64_t timeout, uint64_t *sent) {
    vram_status status = check_messages(ring, messages, count);
    if (status != VRAM_OK || ring->input.multi) {
        return status == VRAM_OK ? send_all(ring, messages, count, timeout, sent) : status;
    }
    if (vr_exchange(&ring->sending, true, VR_ACQUIRE)) {
        return vr_fail(VRAM_ERR_BUSY,
                       "another thread is sending; VRAM_RING_MULTI_INPUT allows both");
    }
    status = send_all(ring, messages, count, timeout, sent);
    vr_store(&ring->sending, false, VR_RELEASE);
    return status;
}

vram_status vram_ring_send(vram_ring *handle, const void *data, uint32_t bytes, uint32_t kind,
                           uint64_t timeout) {
    VR_CALL;
    vram_ring_message message = {.data = data, .bytes = bytes, .kind = kind};
    uint64_t sent = 0;
    struct vr_ring *ring;
    vram_status status = ring_enter(handle, &ring);
    if (status == VRAM_OK) {
        status = send_alone(ring, &message, 1, timeout, &sent);
        vr_leave(ring);
    }
    return status;
}

vram_status vram_ring_send_many(vram_ring *handle, const vram_ring_message *messages,
                                uint64_t count, uint64_t timeout, uint64_t *sent) {
    VR_CALL;
    struct vr_ring *ring;
    uint64_t done = 0;
    if (!sent || (!messages && count)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the messages or the pointer that receives their number is NULL");
    }
    vram_status status = ring_enter(handle, &ring);
    if (status == VRAM_OK) {
        status = send_alone(ring, messages, count, timeout, &done);
        *sent = done;
        vr_leave(ring);
    }
    return status;
}

/* ----------------------------------------------------------------- receiving */

static vram_status receive_status(struct vr_ring *ring, vram_status status,
                                  const vram_ring_slot *slot, uint32_t capacity) {
    switch (status) {
    case VRAM_ERR_LIMIT:
        return vr_fail(VRAM_ERR_LIMIT, "a message of %u bytes does not fit into %u", slot->bytes,
                       capacity);
    case VRAM_ERR_CORRUPT:
        return vr_ring_damaged(ring, "the counter, sequence or length of a message");
    case VRAM_ERR_IO:
        vr_fetch_add(&ring->crc_errors, 1, VR_RELAXED);
        vr_fetch_add(&ring->received, 1, VR_RELAXED);
        return vr_fail(VRAM_ERR_CORRUPT, "message %llu does not match its CRC",
                       (unsigned long long)(slot->sequence - 1));
    default:
        vr_fetch_add(&ring->received, status == VRAM_OK, VR_RELAXED);
        return status;
    }
}

static vram_status message_receive(struct vr_ring *ring, void *data, uint32_t capacity,
                                   uint64_t timeout, vram_ring_slot *slot) {
    struct ring_wait wait = {.deadline = vr_wait_deadline(ring->device->context, timeout)};
    for (;;) {
        vram_status status = vr_channel_receive(&ring->output, data, capacity, slot);
        if (status != VRAM_ERR_NOT_READY) {
            return receive_status(ring, status, slot, capacity);
        }
        if (wait.attempts == 0) {
            vr_fetch_add(&ring->empty_waits, 1, VR_RELAXED);
        } else if (timeout == 0) {
            return VRAM_ERR_NOT_READY;
        }
        status = wait_round(ring, &wait);
        if (status == VRAM_ERR_TIMEOUT && timeout == 0) {
            wait.attempts++; /* checked once, pumped once, and checks once more */
        } else if (status == VRAM_ERR_TIMEOUT) {
            return vr_fail(status, "no message arrived in time; is the kernel running?");
        } else if (status != VRAM_OK) {
            return status;
        }
    }
}

vram_status vram_ring_receive(vram_ring *handle, void *data, uint32_t room, uint64_t timeout,
                              vram_ring_slot *header) {
    VR_CALL;
    vram_ring_slot slot = {0};
    struct vr_ring *ring;
    if (!data && room) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the message is NULL");
    }
    vram_status status = ring_enter(handle, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    if (!ring->output.capacity) {
        status = vr_fail(VRAM_ERR_INVALID, "the ring has no output");
    } else if (vr_exchange(&ring->receiving, true, VR_ACQUIRE)) {
        status = vr_fail(VRAM_ERR_BUSY, "another thread is receiving");
    } else {
        status = message_receive(ring, data, room, timeout, &slot);
        vr_store(&ring->receiving, false, VR_RELEASE);
        if (header && (status == VRAM_OK || status == VRAM_ERR_LIMIT)) {
            *header = slot;
        }
    }
    vr_leave(ring);
    return status;
}

/* ---------------------------------------------------------- flush and fetch */

/* The handle of what was submitted up to the ring's last point. It cannot fail, since the messages
   have moved: if memory for a record ran out, or the queue has ended, the point alone is the
   handle. */
static vram_async async_of(struct vr_ring *ring, uint64_t messages) {
    struct vram_point point =
        vr_ring_copies(ring) ? vr_ring_last_point(ring) : (struct vram_point){0};
    vram_async async = {{0}};
    struct vram_error kept;
    void *queue;
    async.word[VR_ASYNC_QUEUE] = (uint64_t)(uintptr_t)point.queue;
    async.word[VR_ASYNC_VALUE] = point.value;
    async.word[VR_ASYNC_RESULT] = messages;
    if (!point.queue) {
        return async;
    }
    vr_error_save(&kept);
    if (vr_enter(VR_KIND_QUEUE, point.queue, &queue) == VRAM_OK) {
        (void)vr_async_of_value(queue, point.value, messages, &async);
        vr_leave(queue);
    }
    vr_error_restore(&kept);
    return async;
}

/* Both directions are alike: with SYNC a `push` or `pull`, which waits; otherwise a push or one
   step. */
static vram_status ring_copy(vram_ring *handle, bool out, uint64_t *messages, vram_async *async) {
    struct vr_ring *ring;
    uint64_t count = 0, other;
    vram_status status = ring_enter(handle, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t deadline = vr_deadline_in(ring->wait_ns);
    if (!vr_ring_copies(ring)) {
        (void)vr_fetch_add(&ring->fences, 1,
                           VR_SEQ_CST); /* a full fence that sanitizers understand too */
    } else if (out) {
        status = vr_ring_push(ring, deadline, &count);
        if (status == VRAM_OK && ring->info.strategy == VRAM_RING_SYNC) {
            status = vr_ring_settle(ring, true, deadline);
        }
    } else if (ring->info.strategy == VRAM_RING_SYNC) {
        status = vr_ring_pull(ring, deadline, &count);
    } else {
        status = vr_ring_pump(ring, &other, &count);
        status = status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
    }
    if (status == VRAM_OK && async) {
        *async = async_of(ring, count);
    }
    if (status == VRAM_OK && messages) {
        *messages = count;
    }
    vr_leave(ring);
    return status;
}

vram_status vram_ring_flush(vram_ring *ring, uint64_t *messages, vram_async *async) {
    VR_CALL;
    return ring_copy(ring, true, messages, async);
}

vram_status vram_ring_fetch(vram_ring *ring, uint64_t *messages, vram_async *async) {
    VR_CALL;
    return ring_copy(ring, false, messages, async);
}

/* ------------------------------------------------------------------- the end */

vram_status vram_ring_stop(vram_ring *handle) {
    VR_CALL;
    struct vr_ring *ring;
    vram_status status = ring_enter(handle, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    vr_store(&ring->stopped, true, VR_SEQ_CST);
    if (!vr_ring_copies(ring)) {
        vr_store((vr_atomic_u64 *)(void *)ring->shared, vr_ring_control_word(ring), VR_RELEASE);
    } else {
        status = pump_round(ring);
    }
    vr_leave(ring);
    return status;
}

int32_t vr_ring_terminated(struct vr_ring *ring) {
    const vr_atomic_u64 *word = vr_ring_copies(ring)
                                    ? &ring->seen
                                    : (const vr_atomic_u64 *)(const void *)(ring->shared + 8);
    uint64_t value = vr_load(word, VR_ACQUIRE);
    int32_t fields[2];
    memcpy(fields, &value, sizeof value);
    return fields[0];
}

static bool is_drained(struct vr_ring *ring, uint64_t target) {
    return vr_load(ring->input.tail, VR_ACQUIRE) - target <= INT64_MAX;
}

vram_status vram_ring_drain(vram_ring *handle, uint64_t timeout) {
    VR_CALL;
    struct vr_ring *ring;
    vram_status status = ring_enter(handle, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    struct ring_wait wait = {.deadline = vr_wait_deadline(ring->device->context, timeout)};
    uint64_t target = vr_load(ring->input.head, VR_ACQUIRE);
    while (status == VRAM_OK && !is_drained(ring, target)) {
        status = vr_channel_depth(&ring->input) == UINT64_MAX
                     ? vr_ring_damaged(ring, "the device's input tail")
                     : wait_round(ring, &wait);
    }
    if (status == VRAM_ERR_TIMEOUT) {
        status = vr_fail(status, "the kernel has taken %llu of %llu messages and %s",
                         (unsigned long long)vr_load(ring->input.tail, VR_ACQUIRE),
                         (unsigned long long)target,
                         vr_ring_terminated(ring) ? "has ended" : "has not said that it ended");
    }
    vr_leave(ring);
    return status;
}

vram_status vram_ring_join(vram_ring *handle, uint64_t timeout) {
    VR_CALL;
    struct vr_ring *ring;
    vram_status status = ring_enter(handle, &ring);
    if (status != VRAM_OK) {
        return status;
    }
    struct ring_wait wait = {.deadline = vr_wait_deadline(ring->device->context, timeout)};
    while (status == VRAM_OK && vr_ring_terminated(ring) == VRAM_RING_RUNNING) {
        status = wait_round(ring, &wait);
    }
    if (status == VRAM_ERR_TIMEOUT) {
        status =
            vr_fail(status, "the kernel did not say that it ended: not launched, busy or dead");
    }
    vr_leave(ring);
    return status;
}
