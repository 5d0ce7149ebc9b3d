/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_pump.c: copies between the host's half of a ring and the device's, for all strategies except
 * DIRECT. Numbers in parentheses are those of ring_object.h.
 */
#include "ring/ring_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/device_calls.h"

#include <string.h>

vram_status vr_ring_damaged(struct vr_ring *ring, const char *what) {
    vr_store(&ring->corrupt, true, VR_RELEASE);
    return vr_fail(VRAM_ERR_CORRUPT,
                   "%s is invalid: the ring is damaged; destroy it and check the kernel", what);
}

static vram_status ring_is_ending(void) {
    return vr_fail(VRAM_ERR_SHUTDOWN, "the ring is being destroyed");
}

/* The status of a pump. A failure while the ring or its pool is ending becomes SHUTDOWN: copies can
   then fail because the ring's queue or memory was freed. */
static vram_status pump_status(const struct vr_ring *ring, vram_status status) {
    const void *pool = (void *)(uintptr_t)ring->pool->object.handle;
    return status != VRAM_OK &&
                   (vr_load(&ring->ending, VR_ACQUIRE) || vr_handle_was(VR_KIND_POOL, pool))
               ? ring_is_ending()
               : status;
}

/* The offset of a channel's slots in the block. */
static uint64_t slots_at(const struct vr_ring *ring, const struct vr_channel *channel) {
    uint64_t input = ring->input.capacity * ring->input.stride;
    return VRAM_RING_AT_SLOTS + (channel == &ring->output ? input : 0);
}

/* -------------------------------------------------------------------- receiving */

/* Checks the fetched counters against the host's own: (6). */
static vram_status counters_read(struct vr_ring *ring) {
    uint64_t tail = ring->counters->input_tail, head = ring->counters->output_head;
    uint64_t old_tail = vr_load(&ring->tail.word, VR_RELAXED);
    if (ring->input.capacity) {
        if (tail - old_tail > vr_load(&ring->moved, VR_RELAXED) - old_tail) {
            return vr_ring_damaged(ring, "the device's input tail");
        }
        vr_store(&ring->tail.word, tail, VR_RELEASE);
    }
    if (ring->output.capacity) {
        uint64_t consumed = vr_load(&ring->consumed.word, VR_ACQUIRE);
        uint64_t old_head = vr_load(&ring->output_seen, VR_RELAXED);
        if (head - old_head > ring->output.capacity || head - consumed > ring->output.capacity) {
            return vr_ring_damaged(ring, "the device's output head");
        }
        vr_store(&ring->output_seen, head, VR_RELAXED);
    }
    vr_store(&ring->seen, ring->counters->control, VR_RELAXED);
    vr_fetch_add(&ring->rounds, 1, VR_RELEASE);
    return VRAM_OK;
}

/* VRAM_OK with *passed, or the failure of the poll. */
static vram_status point_passed(struct vram_point point, bool *passed) {
    vram_status status = vr_point_poll(point);
    *passed = status == VRAM_OK;
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

/* Whether it is seen to have passed. A failed poll is reported by the step itself. */
static bool point_is_over(struct vram_point point) {
    struct vram_error error;
    vr_error_save(&error);
    bool over = vr_point_poll(point) == VRAM_OK;
    vr_error_restore(&error);
    return over;
}

/* Ends the counts of steps that are seen to have completed, oldest first: (7). */
static void end_loads(struct vr_ring *ring) {
    for (; ring->loads_ended < ring->step; ring->loads_ended++) {
        uint64_t at = ring->loads_ended % VR_RING_STEPS;
        struct vr_ring_load *load = &ring->loads[at];
        if (load->count.metrics && !point_is_over(ring->step_points[at])) {
            return;
        }
        vr_transfer_end(&load->count, load->bytes, VRAM_OK);
    }
}

void vr_ring_loads_end(struct vr_ring *ring) {
    bool lost = vr_load(&ring->device->base.lost, VR_ACQUIRE);
    vram_status status = lost ? VRAM_ERR_DEVICE_LOST : VRAM_OK;
    for (uint64_t i = 0; i < VR_RING_STEPS; i++) {
        vr_transfer_end(&ring->loads[i].count, ring->loads[i].bytes, status);
    }
    vr_transfer_end(&ring->fetched.count, ring->fetched.bytes, status);
}

static vram_status take_in(struct vr_ring *ring, uint64_t *arrived) {
    bool passed = false;
    vram_status status = VRAM_OK;
    end_loads(ring);
    if (ring->slots_pending) {
        status = point_passed(ring->slots_point, &passed);
        if (passed) {
            ring->slots_pending = false;
            vr_transfer_end(&ring->fetched.count, ring->fetched.bytes, VRAM_OK);
            *arrived = ring->asked - vr_load(&ring->arrived.word, VR_RELAXED);
            vr_store(&ring->arrived.word, ring->asked, VR_RELEASE);
        }
    }
    if (status == VRAM_OK && ring->counters_pending) {
        status = point_passed(ring->counters_point, &passed);
        if (passed) {
            ring->counters_pending = false;
            status = counters_read(ring);
        }
    }
    return status;
}

/* ------------------------------------------------------------------- submitting */

typedef vram_status copy_fn(struct vr_ring *ring, uint64_t offset, unsigned char *host,
                            uint64_t bytes);

static vram_status block_upload(struct vr_ring *ring, uint64_t offset, unsigned char *host,
                                uint64_t bytes) {
    return vr_submit_upload(ring->info.queue, ring->info.control + offset, host, bytes);
}

static vram_status block_download(struct vr_ring *ring, uint64_t offset, unsigned char *host,
                                  uint64_t bytes) {
    return vr_submit_download(ring->info.queue, host, ring->info.control + offset, bytes);
}

/* Copies the slots of `count` messages from `first` on: one copy, or two if they wrap around. */
static vram_status copy_slots(struct vr_ring *ring, const struct vr_channel *channel, copy_fn *copy,
                              uint64_t first, uint64_t count) {
    uint64_t start = first & (channel->capacity - 1);
    uint64_t part = channel->capacity - start < count ? channel->capacity - start : count;
    uint64_t base = slots_at(ring, channel), stride = channel->stride;
    vram_status status =
        copy(ring, base + start * stride, channel->slots + start * stride, part * stride);
    if (status == VRAM_OK && part < count) {
        status = copy(ring, base, channel->slots, (count - part) * stride);
    }
    if (status == VRAM_OK) {
        vr_fetch_add(&ring->copies, part < count ? 2 : 1, VR_RELAXED);
        vr_fetch_add(&ring->copied_bytes, count * stride, VR_RELAXED);
    }
    return status;
}

static vram_status copy_word(struct vr_ring *ring, copy_fn *copy, uint64_t offset, uint64_t *word) {
    vr_fetch_add(&ring->words, 1, VR_RELAXED);
    return copy(ring, offset, (unsigned char *)word, sizeof *word);
}

static void begin_load(struct vr_ring *ring, const struct vr_channel *channel, uint64_t count,
                       struct vr_ring_load *load) {
    bool out = channel == &ring->input;
    vr_transfer_begin(ring->device, out ? VRAM_TRANSFER_TO_DEVICE : VRAM_TRANSFER_TO_HOST,
                      VRAM_ROUTE_RING, &load->count);
    load->bytes = count * channel->stride;
}

/* What one step submits; recorded in the ring only when all of it was submitted. */
struct step_plan {
    uint64_t head, consumed, control, output_head;
    bool sends, tells, orders, brings, asks;
};

static struct step_plan plan_make(struct vr_ring *ring) {
    struct step_plan plan = {.consumed = vr_load(&ring->consumed.word, VR_ACQUIRE),
                             .control = vr_ring_control_word(ring),
                             .output_head = vr_load(&ring->output_seen, VR_RELAXED)};
    /* Read after the control word: messages sent before the stop are part of the same step. */
    plan.head = vr_load(&ring->head.word, VR_ACQUIRE);
    plan.sends = plan.head != vr_load(&ring->moved, VR_RELAXED);
    plan.tells = plan.consumed != ring->tail_sent;
    plan.orders = plan.control != ring->control_sent;
    plan.brings = plan.output_head != ring->asked && !ring->slots_pending;
    plan.asks = !ring->counters_pending;
    return plan;
}

static vram_status submit_up(struct vr_ring *ring, const struct step_plan *plan,
                             struct vr_ring_step *words) {
    uint64_t moved = vr_load(&ring->moved, VR_RELAXED);
    vram_status status = VRAM_OK;
    *words = (struct vr_ring_step){plan->head, plan->consumed, plan->control, 0};
    if (plan->sends) {
        begin_load(ring, &ring->input, plan->head - moved,
                   &ring->loads[ring->step % VR_RING_STEPS]);
        status = copy_slots(ring, &ring->input, block_upload, moved, plan->head - moved);
        if (status == VRAM_OK) { /* after its slots: (2) */
            status = copy_word(ring, block_upload, VRAM_RING_AT_INPUT_HEAD, &words->input_head);
        }
    }
    if (status == VRAM_OK && plan->tells) {
        status = copy_word(ring, block_upload, VRAM_RING_AT_OUTPUT_TAIL, &words->output_tail);
    }
    if (status == VRAM_OK && plan->orders) {
        status = copy_word(ring, block_upload, 0, &words->control);
    }
    return status;
}

static vram_status submit_down(struct vr_ring *ring, const struct step_plan *plan) {
    vram_status status = VRAM_OK;
    if (plan->brings) {
        begin_load(ring, &ring->output, plan->output_head - ring->asked, &ring->fetched);
        status = copy_slots(ring, &ring->output, block_download, ring->asked,
                            plan->output_head - ring->asked);
    }
    if (status == VRAM_OK && plan->asks) {
        status = copy_word(ring, block_download, 8, &ring->counters->control);
        if (status == VRAM_OK && ring->input.capacity) {
            status = copy_word(ring, block_download, VRAM_RING_AT_INPUT_TAIL,
                               &ring->counters->input_tail);
        }
        if (status == VRAM_OK && ring->output.capacity) {
            status = copy_word(ring, block_download, VRAM_RING_AT_OUTPUT_HEAD,
                               &ring->counters->output_head);
        }
    }
    return status;
}

/* Records a step that was submitted, with its point. The point is stored before other threads see
   what the step moved. */
static void step_note(struct vr_ring *ring, const struct step_plan *plan, struct vram_point point,
                      uint64_t *moved) {
    vr_store(&ring->last_value, point.value, VR_RELEASE);
    *moved = plan->head - vr_load(&ring->moved, VR_RELAXED);
    vr_store(&ring->moved, plan->head, VR_RELEASE);
    ring->tail_sent = plan->consumed;
    ring->control_sent = plan->control;
    ring->step_points[ring->step++ % VR_RING_STEPS] = point;
    if (plan->brings) {
        ring->asked = plan->output_head;
        ring->slots_pending = true;
        ring->slots_point = point;
    }
    if (plan->asks) {
        vr_fetch_add(&ring->counters_asked, 1, VR_RELEASE);
        ring->counters_pending = true;
        ring->counters_point = point;
    }
}

/* After a step that failed half-way its words may still be in transit: they are not overwritten
   before the queue has completed. *ready false: it has not yet. */
static vram_status failed_step_check(struct vr_ring *ring, bool *ready) {
    vram_status status = ring->step_failed ? vr_queue_done(ring->info.queue) : VRAM_OK;
    *ready = status == VRAM_OK;
    ring->step_failed = !*ready;
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

static vram_status step_submit(struct vr_ring *ring, uint64_t *moved) {
    struct step_plan plan = plan_make(ring);
    struct vram_point point;
    bool ready = true;
    vram_status status = failed_step_check(ring, &ready);
    if (status == VRAM_OK && ready) {
        status = point_passed(ring->step_points[ring->step % VR_RING_STEPS], &ready);
    }
    if (status != VRAM_OK || !ready ||
        !(plan.sends || plan.tells || plan.orders || plan.brings || plan.asks)) {
        return status;
    }
    end_loads(ring);          /* including those of the step whose slot this one reuses */
    ring->step_failed = true; /* until all of it is submitted: (4) */
    status = submit_up(ring, &plan, &ring->steps[ring->step % VR_RING_STEPS]);
    if (status == VRAM_OK) {
        status = submit_down(ring, &plan);
    }
    if (status == VRAM_OK) {
        status = vr_submit_mark(ring->info.queue, &point);
    }
    if (status == VRAM_OK) {
        ring->step_failed = false;
        step_note(ring, &plan, point, moved);
    } else {
        vr_transfer_end(&ring->loads[ring->step % VR_RING_STEPS].count, 0, status);
        if (plan.brings) {
            vr_transfer_end(&ring->fetched.count, 0, status);
        }
    }
    return status;
}

vram_status vr_ring_pump(struct vr_ring *ring, uint64_t *moved, uint64_t *arrived) {
    *moved = *arrived = 0;
    if (vr_load(&ring->ending, VR_ACQUIRE)) {
        return ring_is_ending();
    }
    if (vr_exchange(&ring->pumping, true, VR_ACQUIRE)) {
        return VRAM_ERR_NOT_READY;
    }
    vram_status status = take_in(ring, arrived);
    if (status == VRAM_OK) {
        status = step_submit(ring, moved);
    }
    vr_store(&ring->pumping, false, VR_RELEASE);
    return pump_status(ring, status);
}

/* --------------------------------------------------------------------- completing */

void vr_ring_backoff(uint32_t attempts) {
    if (attempts < 64) {
        vr_os_pause();
    } else if (attempts < 256) {
        vr_os_yield();
    } else {
        vr_clock_sleep(attempts < 1024 ? 20000 : 100000);
    }
}

/* Waits until no other thread pumps, and prevents others from pumping. */
static vram_status pump_take(struct vr_ring *ring, uint64_t deadline) {
    for (uint32_t attempts = 0; vr_exchange(&ring->pumping, true, VR_ACQUIRE); attempts++) {
        if (vr_load(&ring->ending, VR_ACQUIRE)) {
            return ring_is_ending();
        }
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "another thread did not leave the ring in time");
        }
        vr_ring_backoff(attempts);
    }
    return VRAM_OK;
}

struct vram_point vr_ring_last_point(const struct vr_ring *ring) {
    uint64_t value = vr_load(&ring->last_value, VR_ACQUIRE);
    return (struct vram_point){value ? ring->info.queue : NULL, value};
}

vram_status vr_ring_settle(struct vr_ring *ring, bool out, uint64_t deadline) {
    uint64_t begun = vr_clock_now();
    vram_status status = vr_point_wait(vr_ring_last_point(ring), vr_deadline_left(deadline));
    vr_transfer_waited(ring->device, out ? VRAM_TRANSFER_TO_DEVICE : VRAM_TRANSFER_TO_HOST,
                       VRAM_ROUTE_RING, vr_clock_now() - begun);
    return status;
}

/* Waits for the last step, and backs off longer each time, since another thread may be submitting
   the next one. */
static vram_status pause_pump(struct vr_ring *ring, bool out, uint32_t attempts,
                              uint64_t deadline) {
    if (vr_deadline_passed(deadline)) {
        return vr_fail(VRAM_ERR_TIMEOUT, "copies of the ring were not done in time");
    }
    vr_ring_backoff(attempts);
    vram_status status = vr_ring_settle(ring, out, deadline);
    return status == VRAM_ERR_TIMEOUT
               ? vr_fail(VRAM_ERR_TIMEOUT, "copies of the ring were not done in time")
               : status;
}

vram_status vr_ring_push(struct vr_ring *ring, uint64_t deadline, uint64_t *moved) {
    uint64_t target = vr_load(&ring->head.word, VR_ACQUIRE), now, arrived;
    *moved = 0;
    for (uint32_t attempts = 0;; attempts++) {
        vram_status status = vr_ring_pump(ring, &now, &arrived);
        *moved += now;
        if (status != VRAM_OK && status != VRAM_ERR_NOT_READY) {
            return status;
        }
        if (vr_load(&ring->moved, VR_ACQUIRE) - target <= INT64_MAX) {
            return VRAM_OK;
        }
        status = pause_pump(ring, true, attempts, deadline);
        if (status != VRAM_OK) {
            return status;
        }
    }
}

vram_status vr_ring_pull(struct vr_ring *ring, uint64_t deadline, uint64_t *arrived) {
    uint64_t round = vr_load(&ring->counters_asked, VR_ACQUIRE) + 1, moved, now;
    *arrived = 0;
    for (uint32_t attempts = 0;; attempts++) {
        vram_status status = vr_ring_pump(ring, &moved, &now);
        *arrived += now;
        if (status != VRAM_OK && status != VRAM_ERR_NOT_READY) {
            return status;
        }
        if (vr_load(&ring->rounds, VR_ACQUIRE) >= round &&
            vr_load(&ring->arrived.word, VR_ACQUIRE) == vr_load(&ring->output_seen, VR_ACQUIRE)) {
            return VRAM_OK;
        }
        status = pause_pump(ring, false, attempts, deadline);
        if (status != VRAM_OK) {
            return status;
        }
    }
}

/* A running kernel may use the words, so each is read as one. */
static void peek_shared(const struct vr_ring *ring, uint64_t offset, uint64_t *to, uint64_t count) {
    const vr_atomic_u64 *from = (const vr_atomic_u64 *)(const void *)(ring->shared + offset);
    for (uint64_t i = 0; i < count; i++) {
        to[i] = vr_load(&from[i], VR_ACQUIRE);
    }
}

/* Waits until the copies of a failed step have ended. */
static vram_status failed_step_wait(struct vr_ring *ring, uint64_t deadline) {
    bool ready = false;
    vram_status status = failed_step_check(ring, &ready);
    while (status == VRAM_OK && !ready) {
        if (vr_deadline_passed(deadline) || vr_load(&ring->ending, VR_ACQUIRE)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "copies of the ring were not done in time");
        }
        vr_clock_sleep(20000);
        status = failed_step_check(ring, &ready);
    }
    return status;
}

vram_status vr_ring_peek(struct vr_ring *ring, uint64_t offset, void *to, uint64_t bytes) {
    uint64_t count = bytes / sizeof(uint64_t), deadline = vr_deadline_in(ring->wait_ns);
    if (!vr_ring_copies(ring)) {
        peek_shared(ring, offset, to, count);
        return VRAM_OK;
    }
    vram_status status = pump_take(ring, deadline);
    if (status != VRAM_OK) {
        return status;
    }
    status = failed_step_wait(ring, deadline);
    ring->step_failed = true; /* until the words have arrived: no other copy may use their buffer */
    for (uint64_t i = 0; status == VRAM_OK && i < count; i++) {
        status = copy_word(ring, block_download, offset + i * sizeof(uint64_t), &ring->peeked[i]);
    }
    if (status == VRAM_OK) {
        status = vr_queue_wait(ring->info.queue, vr_deadline_left(deadline));
    }
    if (status == VRAM_OK) {
        ring->step_failed = false;
        memcpy(to, ring->peeked, (size_t)bytes);
    }
    vr_store(&ring->pumping, false, VR_RELEASE);
    return pump_status(ring, status);
}

/* --------------------------------------------------------------- the ring's thread */

static void thread_run(void *argument) {
    VR_OPERATION("vram_ring_create");
    struct vr_ring *ring = argument;
    uint64_t moved, arrived;
    vr_store(&ring->thread_number, vr_os_thread_number(), VR_RELEASE);
    vr_mutex_lock(&ring->lock);
    while (!ring->thread_ends && ring->thread_status != VRAM_ERR_DEVICE_LOST &&
           !vr_load(&ring->corrupt, VR_ACQUIRE)) {
        vr_mutex_unlock(&ring->lock);
        vram_status status = vr_ring_pump(ring, &moved, &arrived);
        vr_mutex_lock(&ring->lock);
        if (status != VRAM_ERR_NOT_READY) {
            ring->thread_status = status;
        }
        if (!ring->thread_ends) {
            (void)vr_cond_wait(&ring->wake, &ring->lock, ring->info.poll_ns);
        }
    }
    bool kept = ring->thread_has_reference;
    uint64_t handle = ring->object.handle;
    vr_mutex_unlock(&ring->lock);
    if (kept) {
        vr_handle_unpin(handle);
    }
}

vram_status vr_ring_thread_start(struct vr_ring *ring) {
    return vr_os_thread_start(&ring->thread, "vram ring", thread_run, ring);
}

bool vr_ring_thread_is_own(struct vr_ring *ring) {
    return vr_load(&ring->thread_number, VR_ACQUIRE) == vr_os_thread_number();
}

/* A thread does not wait for itself. If the caller is the ring's own thread, it is inside a step
   whose driver call has called the program. It does not touch the ring after that, and the ring is
   freed when it has ended. */
void vr_ring_thread_stop(struct vr_ring *ring) {
    bool own = ring->thread.running && vr_ring_thread_is_own(ring);
    vr_mutex_lock(&ring->lock);
    ring->thread_ends = true;
    ring->thread_has_reference |= own;
    vr_cond_broadcast(&ring->wake);
    vr_mutex_unlock(&ring->lock);
    if (own) {
        vr_handle_ref(ring->object.handle);
        vr_os_thread_detach(&ring->thread);
    }
    vr_os_thread_join(&ring->thread);
}

bool vr_ring_thread_failed(struct vr_ring *ring) {
    vr_mutex_lock(&ring->lock);
    bool failed = ring->thread_status != VRAM_OK;
    vr_mutex_unlock(&ring->lock);
    return failed;
}
