/* SPDX-License-Identifier: Apache-2.0 */
/*
 * point.c: points in the order of a queue.
 *
 * A mark takes a number and makes the queue write it into the queue's word after everything
 * submitted so far. Any number of threads may mark one queue at once, and no lock is held across
 * the driver call, so two marks may reach the driver in the reverse order of their numbers. That is
 * harmless, for these reasons:
 *
 *  (1) Point v means the work submitted before v was taken. A signal with any number >= v was
 *      submitted after v was taken, hence after that work. So word >= v proves that v has passed,
 *      whichever signal wrote the word.
 *  (2) A late signal with a lower number may lower the word briefly. A thread that has submitted a
 *      signal and then finds that a higher number was taken meanwhile submits the newest number
 *      again. So the last signal of a queue always has the highest number, and no thread waits for
 *      ever. Submitting again takes no new number, so threads cannot keep each other busy
 *      endlessly.
 *
 *  (3) A point that was seen to have passed stays so: `settled` holds the highest number seen.
 *  (4) A signal that the driver refused is covered by the next one, or by the queue being seen
 *      idle.
 *  (5) If the driver refuses the newest number when it is submitted again, the word may stay below
 *      an issued point. The host is unaffected, by (4), but a device that waits for the word would
 *      wait until the next mark. So the driver is asked several times, and then `behind` is set:
 *      the number is written before any device is made to wait for it.
 *
 *  (6) The queue of a captured region makes no points and is never seen idle: its graphs may be
 *      launched at any time until the region ends.
 *
 *  (7) While a signal with a lower number is pending, the word may fall below an issued point,
 *      until the repeated signal of (2). That one may be queued behind a wait of the same queue. A
 *      device made to wait for the point would then wait for ever, if that wait depends on it in
 *      turn. So before a device is made to wait, the marks in progress must end: they took their
 *      numbers earlier, and marks that begin later take higher ones. Marks are counted in the
 *      bucket of the epoch in which they began; `queue_after` begins a new epoch and waits until
 *      the old bucket is empty. Marks only make driver calls and wait for nothing.
 *
 * docs/design/02-points-in-time.md has the full argument.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/device_calls.h"
#include "device/ops.h"

enum {
    PAUSES = 64,           /* rounds of a wait that pause, */
    YIELDS = 256,          /* and those that at least yield */
    SHORT_SLEEPS = 768,    /* short sleeps before longer ones */
    AWAKE_PROCESSORS = 16, /* see AWAKE_NS */
    REPEATS = 4,           /* attempts to write the newest number again */
    REFUSALS = 16          /* in a row: then the driver is assumed never to answer */
};

/* A wait stays awake for this time for each processor, of at most AWAKE_PROCESSORS: 1.6 ms of many,
   where a sleep is 5 % of the wait, and 0.2 ms of two, which others need more. */
#define AWAKE_NS UINT64_C(100000)

/* Keeps (3): a number that has passed stays passed, even if the word falls. */
bool vr_queue_passed(struct vr_queue_object *queue, uint64_t value) {
    uint64_t word = vr_load(queue->base.word, VR_ACQUIRE);
    if (word > vr_load(&queue->settled, VR_RELAXED)) {
        vr_atomic_max(&queue->settled, word);
    }
    return vr_load(&queue->settled, VR_ACQUIRE) >= value;
}

/* Queries the driver. An idle queue has passed every number taken before the query; that settles
   points even if a signal was refused and the word stays behind. A failed query is not reported if
   the point has passed anyway. */
static vram_status idle_query(struct vr_queue_object *queue, uint64_t value) {
    struct vram_error error;
    uint64_t taken = vr_load(&queue->issued, VR_ACQUIRE);
    if (vr_load(&queue->captured, VR_ACQUIRE)) {
        return VRAM_ERR_NOT_READY; /* keeps (6) */
    }
    if (!vr_queue_hold(queue)) {
        return VRAM_OK; /* the adoption was ended: nothing is pending */
    }
    vr_error_save(&error);
    vram_status status = vr_queue_poll(&queue->base);
    vr_queue_release(queue);
    if (status == VRAM_OK) {
        vr_atomic_max(&queue->settled, taken);
    }
    if (vr_queue_passed(queue, value)) {
        vr_error_restore(&error);
        return VRAM_OK;
    }
    return status == VRAM_OK ? VRAM_ERR_NOT_READY : status;
}

static vram_status signal_submit(struct vr_queue_object *queue, uint64_t value) {
    vram_status status = vr_queue_signal(&queue->base, value);
    if (status == VRAM_OK) {
        vr_atomic_max(&queue->signalled, value);
    }
    return status;
}

/* Writes a number again that a late signal with a lower one may have overwritten; keeps (5). */
static vram_status signal_repeat(struct vr_queue_object *queue, uint64_t value) {
    vram_status status = VRAM_ERR_NOT_READY;
    for (int i = 0; i < REPEATS && status != VRAM_OK; i++) {
        status = signal_submit(queue, value);
    }
    if (status != VRAM_OK) {
        vr_store(&queue->behind, true, VR_RELEASE);
    }
    return status;
}

/* keeps (6) */
static vram_status refuse_region(const struct vr_queue_object *queue) {
    if (!vr_load(&queue->captured, VR_ACQUIRE)) {
        return VRAM_OK;
    }
    return vr_fail(VRAM_ERR_CAPTURE,
                   "the queue is that of a captured region; call vram_capture_end first");
}

/* The backoff of a wait between two polls. */
struct backoff {
    unsigned round, sleeps;
    uint64_t began;    /* of vr_os_now: the clock of tests advances only by sleeps */
    uint64_t awake_ns; /* no sleep before this time has passed */
    bool awake;        /* yields until then */
};

/* Waits a little longer each time. Any sleep costs at least 50 us, as long as many waits last. So
   no thread sleeps before awake_ns have passed, unless the other thread may need this processor.
   Nor does one yield after that: on a busy machine each yield costs the time slices of all others,
   tens of milliseconds, and a thread that sleeps comes back sooner. */
static void backoff_wait(struct backoff *backoff) {
    unsigned round = backoff->round++;
    if (round == 0) {
        backoff->began = vr_os_now();
        backoff->awake_ns = 2 * AWAKE_NS;
    } else if (round == YIELDS) {
        uint32_t processors = vr_os_processors();
        processors = processors < AWAKE_PROCESSORS ? processors : AWAKE_PROCESSORS;
        backoff->awake = processors > 1;
        backoff->awake_ns = AWAKE_NS * processors;
    }
    bool early = round < PAUSES || vr_os_now() - backoff->began < backoff->awake_ns;
    backoff->awake = backoff->awake && early;
    if (round < PAUSES) {
        vr_os_pause();
    } else if (early && (round < YIELDS || backoff->awake)) {
        vr_os_yield();
    } else {
        vr_clock_sleep(backoff->sleeps++ < SHORT_SLEEPS ? 20000 : 200000);
    }
}

/* The driver is queried rarely: only to let it make progress, and to detect its loss. */
static bool is_time_to_ask(const struct backoff *backoff) {
    return backoff->round % (backoff->awake ? 64 : 16) == 0;
}

/* Counts a mark in the current bucket: keeps (7). */
static vr_atomic_u32 *mark_begin(struct vr_queue_object *queue) {
    for (;;) {
        uint64_t epoch = vr_load(&queue->mark_epoch, VR_RELAXED); /* the second load decides */
        vr_atomic_u32 *bucket = &queue->marking[epoch & 1];
        vr_fetch_add(bucket, 1, VR_SEQ_CST);
        if (vr_load(&queue->mark_epoch, VR_SEQ_CST) == epoch) {
            return bucket;
        }
        vr_fetch_sub(bucket, 1,
                     VR_RELEASE); /* the thread that began a new epoch may not have seen us */
    }
}

/* Waits for the marks in progress: keeps (7). With a limit: a thread may have died in one. */
static void marks_end(struct vr_queue_object *queue) {
    static struct vr_mutex epoch_lock = VR_MUTEX_INIT(VR_RANK_SHORT); /* one new epoch at a time */
    if (!vr_load(&queue->marking[0], VR_SEQ_CST) && !vr_load(&queue->marking[1], VR_SEQ_CST)) {
        return;
    }
    uint64_t deadline = vr_deadline_in(queue->device->context->wait_ns);
    vr_mutex_lock(&epoch_lock);
    uint64_t epoch = vr_fetch_add(&queue->mark_epoch, 1, VR_SEQ_CST);
    struct backoff backoff = {.round = 0};
    while (vr_load(&queue->marking[epoch & 1], VR_ACQUIRE) && !vr_deadline_passed(deadline)) {
        backoff_wait(&backoff);
    }
    vr_mutex_unlock(&epoch_lock);
}

static vram_status mark_submit(struct vr_queue_object *queue, uint64_t *value) {
    uint64_t mine = vr_fetch_add(&queue->issued, 1, VR_ACQ_REL) + 1;
    vram_status status = signal_submit(queue, mine);
    if (status != VRAM_OK) {
        return status;
    }
    struct vram_error error;
    vr_error_save(&error);
    for (uint64_t newest, written = mine; /* keeps (2) */
         status == VRAM_OK && (newest = vr_load(&queue->issued, VR_ACQUIRE)) != written;
         written = newest) {
        status = signal_repeat(queue, newest);
    }
    vr_error_restore(&error); /* this mark succeeded, even if repeating another failed */
    *value = mine;
    return VRAM_OK;
}

vram_status vr_queue_mark(struct vr_queue_object *queue, uint64_t *value) {
    VR_OPERATION("vram_queue_mark");
    if (refuse_region(queue) != VRAM_OK) {
        return VRAM_ERR_CAPTURE;
    }
    /* Relaxed: the driver has what is counted here, and takes the signal behind it. */
    uint64_t submissions = vr_load(&queue->submissions, VR_RELAXED);
    vr_atomic_u32 *bucket = mark_begin(queue);
    vram_status status = mark_submit(queue, value);
    vr_fetch_sub(bucket, 1, VR_RELEASE);
    if (status == VRAM_OK) {
        vr_store(&queue->marked, submissions, VR_RELEASE);
    }
    return status;
}

/* `marked` is read before `issued`, which then is at least the number of that mark. */
bool vr_queue_is_idle(struct vr_queue_object *queue) {
    bool seen = !queue->base.adopted && !vr_load(&queue->shown, VR_RELAXED);
    if (seen && vr_load(&queue->marked, VR_ACQUIRE) == vr_load(&queue->submissions, VR_RELAXED) &&
        vr_queue_passed(queue, vr_load(&queue->issued, VR_RELAXED))) {
        return true;
    }
    struct vram_error error;
    vr_error_save(&error);
    bool idle = vr_queue_poll(&queue->base) == VRAM_OK;
    vr_error_restore(&error);
    return idle;
}

/* A number that was taken and not written is like one whose write was refused: (4). */
void vr_queue_look(struct vr_queue_object *queue, uint64_t value) {
    struct vram_error error;
    vr_error_save(&error);
    vr_atomic_max(&queue->issued, value);
    (void)idle_query(queue, value);
    vr_error_restore(&error);
}

/* The state of a wait: failed queries since the driver last answered, and the last of them. */
struct wait_state {
    unsigned refusals;
    vram_status status;
    struct vram_error before, refusal; /* the error record without it, and with it */
};

/* One poll: VRAM_OK, VRAM_ERR_NOT_READY, or the status that ends the wait. A driver that fails to
   answer, for example because memory ran out, is asked again, since work may be pending. */
static vram_status wait_poll(struct vr_queue_object *queue, uint64_t value,
                             struct wait_state *wait_state) {
    vram_status status = idle_query(queue, value);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        wait_state->refusals = 0;
        return status;
    }
    wait_state->status = status;
    if (status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN ||
        ++wait_state->refusals == REFUSALS) {
        return status;
    }
    vr_error_save(&wait_state->refusal);
    vr_error_restore(&wait_state->before);
    return VRAM_ERR_NOT_READY;
}

static vram_status too_late(const struct wait_state *wait_state) {
    if (wait_state->refusals) {
        vr_error_restore(&wait_state->refusal);
        return wait_state->status;
    }
    return vr_fail(VRAM_ERR_TIMEOUT, "the point had not passed at the deadline");
}

uint64_t vr_wait_deadline(const struct vr_context *context, uint64_t timeout) {
    return vr_deadline_in(timeout == VRAM_TIMEOUT_DEFAULT ? context->wait_ns : timeout);
}

vram_status vr_queue_wait_value(struct vr_queue_object *queue, uint64_t value, uint64_t timeout) {
    if (vr_queue_passed(queue, value)) {
        return VRAM_OK;
    }
    uint64_t deadline = vr_wait_deadline(queue->device->context, timeout);
    struct wait_state wait_state = {.refusals = 0};
    vr_error_save(&wait_state.before);
    for (struct backoff backoff = {.round = 0};; backoff_wait(&backoff)) {
        vram_status status =
            is_time_to_ask(&backoff) ? wait_poll(queue, value, &wait_state) : VRAM_ERR_NOT_READY;
        if (status != VRAM_ERR_NOT_READY) {
            return status;
        }
        if (vr_queue_passed(queue, value)) {
            return VRAM_OK;
        }
        if (vr_exiting()) {
            return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
        }
        if (vr_deadline_passed(deadline)) {
            return too_late(&wait_state);
        }
    }
}

/* A number after all work so far, whether or not the queue can be marked: keeps (4), since the
   driver says when the queue is idle. A failed mark is then not an error. */
static vram_status number_after(struct vr_queue_object *queue, uint64_t *value) {
    struct vram_error error;
    if (vr_load(&queue->base.last, VR_ACQUIRE)) { /* its thread has ended, which has marked it */
        *value = vr_load(&queue->issued, VR_RELAXED);
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_queue_mark(queue, value);
    if (status == VRAM_OK || status == VRAM_ERR_CAPTURE || status == VRAM_ERR_DEVICE_LOST ||
        status == VRAM_ERR_SHUTDOWN) {
        return status;
    }
    vr_error_restore(&error);
    *value = vr_load(&queue->issued, VR_RELAXED); /* at least the number of the mark that failed */
    return VRAM_OK;
}

vram_status vr_queue_settle(struct vr_queue_object *queue, uint64_t deadline) {
    uint64_t value;
    vram_status status = number_after(queue, &value);
    return status == VRAM_OK ? vr_queue_wait_value(queue, value, vr_deadline_left(deadline))
                             : status;
}

bool vr_queue_drained(const vram_queue *handle) {
    VR_OPERATION("vram_queue_wait");
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
    vram_status status = VRAM_OK;
    struct vram_error error;
    if (!queue) {
        return true; /* it has ended, or never existed */
    }
    vr_error_save(&error);
    if (!vr_load(&queue->finished, VR_ACQUIRE) && vr_queue_hold(queue)) {
        uint64_t deadline = vr_deadline_in(queue->device->context->wait_ns);
        status = vr_queue_settle(queue, deadline);
        vr_queue_release(queue);
    }
    vr_error_restore(&error);
    vr_leave(queue);
    return !vr_work_goes_on(status);
}

/* The queue of a point. VRAM_OK with *queue NULL: the point has passed because its queue was
   destroyed or never existed. */
static vram_status point_enter(vram_point point, struct vr_queue_object **queue) {
    struct vram_error error;
    void *entered;
    *queue = NULL;
    if (!point.queue && !point.value) {
        return VRAM_OK;
    }
    if (vr_handle_was(VR_KIND_QUEUE, point.queue)) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_enter(VR_KIND_QUEUE, point.queue, &entered);
    if (status == VRAM_ERR_STALE) {
        vr_error_restore(&error);
        return VRAM_OK; /* destroyed between the two checks */
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *found = entered;
    if (point.value > vr_load(&found->signalled, VR_RELAXED)) {
        vr_leave(found);
        return vr_fail(VRAM_ERR_INVALID, "the queue has not made such a point yet");
    }
    *queue = found;
    return VRAM_OK;
}

/* ---------------------------------------------------------------- by handle */

vram_status vr_queue_submit_mark(struct vr_queue_object *queue, vram_point *point) {
    VR_OPERATION("vram_queue_mark");
    uint64_t value;
    if (!vr_submit_begin(queue)) {
        return vr_fail(VRAM_ERR_STALE, "the queue was destroyed");
    }
    vram_status status = vr_queue_mark(queue, &value);
    vr_submit_end(queue);
    if (status == VRAM_OK) {
        *point = (vram_point){(vram_queue *)(uintptr_t)queue->object.handle, value};
    }
    return status;
}

vram_status vr_submit_mark(vram_queue *handle, vram_point *point) {
    VR_OPERATION("vram_queue_mark");
    void *queue;
    if (!point) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the point is NULL");
    }
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, &queue);
    if (status == VRAM_OK) {
        status = vr_queue_submit_mark(queue, point);
        vr_leave(queue);
    }
    return status;
}

vram_status vram_queue_mark(vram_queue *handle, vram_point *point) {
    return vr_submit_mark(handle, point);
}

vram_status vr_point_poll(vram_point point) {
    VR_OPERATION("vram_point_poll");
    struct vr_queue_object *queue;
    vram_status status = point_enter(point, &queue);
    if (status != VRAM_OK || !queue) {
        return status;
    }
    if (!vr_queue_passed(queue, point.value)) {
        status = VRAM_ERR_NOT_READY;
        /* Most polls only read the word. Every eighth poll that finds it too low queries the
           driver, which may need that to make progress, and may be lost. A known loss is reported
           every time. */
        if (vr_fetch_add(&queue->unpassed_polls, 1, VR_RELAXED) % 8 == 0 ||
            vr_load(&queue->base.device->lost, VR_RELAXED)) {
            status = idle_query(queue, point.value);
        }
    }
    vr_leave(queue);
    return status;
}

vram_status vram_point_poll(vram_point point) {
    return vr_point_poll(point);
}

vram_status vr_point_wait(vram_point point, uint64_t timeout) {
    VR_OPERATION("vram_point_wait");
    struct vr_queue_object *queue;
    vram_status status = point_enter(point, &queue);
    if (status == VRAM_OK && queue) {
        status = vr_queue_wait_value(queue, point.value, timeout);
        vr_leave(queue);
    }
    return status;
}

vram_status vram_point_wait(vram_point point, uint64_t timeout) {
    return vr_point_wait(point, timeout);
}

vram_status vr_queue_wait(vram_queue *handle, uint64_t timeout) {
    VR_OPERATION("vram_queue_wait");
    void *queue;
    uint64_t value;
    vram_status status = vr_submit_enter(handle, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    status = number_after(queue, &value);
    vr_submit_end(queue); /* the queue may end during a wait for it */
    if (status == VRAM_OK) {
        status = vr_queue_wait_value(queue, value, timeout);
    }
    vr_leave(queue);
    return status;
}

vram_status vram_queue_wait(vram_queue *handle, uint64_t timeout) {
    return vr_queue_wait(handle, timeout);
}

vram_status vr_queue_done(vram_queue *handle) {
    VR_OPERATION("vram_queue_poll");
    void *queue;
    vram_status status = vr_submit_enter(handle, &queue);
    if (status == VRAM_OK) {
        status = vr_queue_poll(&((struct vr_queue_object *)queue)->base);
        vr_submit_leave(queue);
    }
    return status;
}

vram_status vram_queue_poll(vram_queue *handle) {
    return vr_queue_done(handle);
}

/* A wait on another device's word needs that device as long as the wait may be pending, that is as
   long as the waiting queue exists. So the native device is kept, once per queue; its memory is
   not. */
static vram_status device_await(struct vr_queue_object *queue, struct vr_device_object *device) {
    vr_mutex_lock(&queue->device->lock);
    for (uint32_t i = 0; i < queue->awaited_count; i++) {
        if (queue->awaited[i] == device) {
            vr_mutex_unlock(&queue->device->lock);
            return VRAM_OK;
        }
    }
    struct vr_device_object **larger =
        vr_mem_resize(queue->awaited, queue->awaited_count + 1, sizeof *larger, vr_operation());
    if (larger) {
        queue->awaited = larger;
        larger[queue->awaited_count++] = device;
        vr_native_ref(device);
    }
    vr_mutex_unlock(&queue->device->lock);
    return larger ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

static vram_status queue_after(struct vr_queue_object *queue, struct vr_queue_object *other,
                               uint64_t value) {
    vram_status status = VRAM_OK;
    if (queue == other || vr_queue_passed(other, value)) {
        return VRAM_OK; /* a queue is already in order with itself */
    }
    if (refuse_region(queue) != VRAM_OK) {
        return VRAM_ERR_CAPTURE;
    }
    if (queue->base.device->backend != other->base.device->backend) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "a %s queue cannot wait for a %s queue; wait on the host",
                       queue->base.device->info.backend, other->base.device->info.backend);
    }
    if (queue->device != other->device) {
        /* No queue may be made to wait for a word that a lost device never writes. */
        status = vr_check_lost(other->base.device, vr_operation());
        status = status == VRAM_OK ? device_await(queue, other->device) : status;
    }
    if (status == VRAM_OK && vr_queue_hold(other)) {
        marks_end(other);
        if (vr_exchange(&other->behind, false, VR_ACQ_REL)) { /* keeps (5) */
            status = signal_repeat(other, vr_load(&other->signalled, VR_ACQUIRE));
        }
        if (status == VRAM_OK) {
            status = vr_queue_after(&queue->base, &other->base, value);
        }
        vr_queue_release(other);
    }
    return status;
}

vram_status vr_queue_submit_after(struct vr_queue_object *queue, vram_point point) {
    VR_OPERATION("vram_queue_after");
    struct vr_queue_object *other;
    if (!vr_submit_begin(queue)) {
        return vr_fail(VRAM_ERR_STALE, "the queue was destroyed");
    }
    vram_status status = point_enter(point, &other);
    if (status == VRAM_OK && other) {
        status = queue_after(queue, other, point.value);
        vr_leave(other);
    }
    vr_submit_end(queue);
    return status;
}

vram_status vr_submit_after(vram_queue *handle, vram_point point) {
    VR_OPERATION("vram_queue_after");
    void *queue;
    vram_status status = vr_enter(VR_KIND_QUEUE, handle, &queue);
    if (status == VRAM_OK) {
        status = vr_queue_submit_after(queue, point);
        vr_leave(queue);
    }
    return status;
}

vram_status vram_queue_after(vram_queue *handle, vram_point point) {
    return vr_submit_after(handle, point);
}
