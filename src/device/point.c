/* SPDX-License-Identifier: Apache-2.0 */
/*
 * point.c: points in time.
 *
 * A mark takes a number and has the queue write it into the queue's word behind everything
 * submitted so far. Any number of threads may mark one queue at once, and no lock is held across
 * the driver call, so two marks may reach the driver in the other order than their numbers. That is
 * harmless, for these reasons:
 *
 *  (1) Point v means the work submitted before v was taken. A signal with any number >= v was
 *      submitted after v was taken, hence behind that work. So word >= v proves v has passed,
 *      whichever signal wrote the word.
 *  (2) A late signal with a lower number may lower the word for a moment. Whoever submitted a
 *      signal and then finds that a higher number was taken meanwhile submits the newest number
 *      again. The last signal of a queue therefore always carries the highest number, and nobody
 *      waits for ever. Re-submitting takes no new number, so threads cannot chase each other
 *      endlessly.
 *
 *  (3) A point that was seen to have passed stays so: `settled` keeps the highest number seen.
 *  (4) A signal that the driver refused is covered by the next one, or by the queue being seen
 *      idle.
 *  (5) When it is the newest number again that the driver refuses, the word may stay below a point
 *      that was given out. The host does not mind, by (4), but a device that waits for the word
 *      would wait until the next mark. So the driver is asked several times, and then `behind` is
 *      set: the number is written before any device is told to wait for it.
 *
 *  (6) The queue of a captured region makes no points and is never seen idle: its graphs may be
 *      launched at any time until the region ends.
 *
 *  (7) While a lower number is on its way, the word may fall below a point that was given out,
 *      until the repeat of (2), which may come to lie behind a wait of that very queue. A device
 *      that was told to wait for the point would then wait for ever, if that wait waits for it in
 *      turn. So before a device is told to, the marks that were under way are seen to have ended:
 *      they took their numbers earlier, and those that begin later take higher ones. Marks count
 *      themselves in the bucket of the turn in which they began; `after` begins a new turn and
 *      waits for the old bucket to be empty. They make driver calls and wait for nobody.
 *
 * docs/design/02-points-in-time.md has the argument at length.
 */
#include "device/objects.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/device_calls.h"
#include "device/ops.h"

enum {
    PAUSED = 64,   /* rounds of a wait that pause, */
    YIELDED = 256, /* and up to which it yields at least */
    NAPS = 768,    /* sleeps that are short */
    REPEATS = 4,   /* how often a driver is asked to write the newest number again */
    REFUSALS =
        16 /* in a row: a driver that does not say how far a queue is, so often, never will */
};

#define AWAKE_NS UINT64_C(200000)

/* Keeps (3): what was seen once stays seen, however the word moves. */
bool vr_queue_passed(struct vr_queue_object *queue, uint64_t value) {
    uint64_t word = vr_load(queue->base.word, VR_ACQUIRE);
    if (word > vr_load(&queue->settled, VR_RELAXED)) {
        vr_atomic_max(&queue->settled, word);
    }
    return vr_load(&queue->settled, VR_ACQUIRE) >= value;
}

/* Asks the driver. A queue without unfinished work has passed every number taken before it was
   asked; that settles points even when a signal was refused and the word stays behind. A refusal to
   answer is not the caller's business when the point has passed all the same. */
static vram_status ask(struct vr_queue_object *queue, uint64_t value) {
    struct vram_error error;
    uint64_t taken = vr_load(&queue->issued, VR_ACQUIRE);
    if (vr_load(&queue->captured, VR_ACQUIRE)) {
        return VRAM_ERR_NOT_READY; /* keeps (6) */
    }
    if (!vr_queue_hold(queue)) {
        return VRAM_OK; /* nothing is left of an adoption that was ended */
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

static vram_status signal(struct vr_queue_object *queue, uint64_t value) {
    vram_status status = vr_queue_signal(&queue->base, value);
    if (status == VRAM_OK) {
        vr_atomic_max(&queue->signalled, value);
    }
    return status;
}

/* Has a number written that a late signal with a lower one may have overwritten; keeps (5). */
static vram_status repeat(struct vr_queue_object *queue, uint64_t value) {
    vram_status status = VRAM_ERR_NOT_READY;
    for (int i = 0; i < REPEATS && status != VRAM_OK; i++) {
        status = signal(queue, value);
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
                   "the queue is that of a captured region; vram_capture_end comes first");
}

/* How a wait rests between two looks. */
struct rest {
    unsigned round, sleeps;
    uint64_t began; /* vr_os_now: the clock of tests stands still until somebody sleeps */
    bool awake;     /* yields for the first AWAKE_NS */
};

/* Rests a little longer each time. A sleep of any length costs 50 us and more, as much as many a
   wait lasts: nobody sleeps before AWAKE_NS have passed, unless whoever is waited for may need this
   very processor. */
static void rest(struct rest *rest) {
    unsigned round = rest->round++;
    if (round == 0) {
        rest->began = vr_os_now();
    } else if (round == YIELDED) {
        rest->awake = vr_os_processors() > 1;
    }
    rest->awake = rest->awake && vr_os_now() - rest->began < AWAKE_NS;
    if (round < PAUSED) {
        vr_os_pause();
    } else if (round < YIELDED || rest->awake) {
        vr_os_yield();
    } else {
        vr_clock_sleep(rest->sleeps++ < NAPS ? 20000 : 200000);
    }
}

/* The driver is asked now and then only: it may have no engine of its own, or be lost. */
static bool is_time_to_ask(const struct rest *rest) {
    return rest->round % (rest->awake ? 64 : 16) == 0;
}

/* The bucket that a mark counts in, from now on: keeps (7). */
static vr_atomic_u32 *mark_begin(struct vr_queue_object *queue) {
    for (;;) {
        uint64_t turn = vr_load(&queue->turn, VR_SEQ_CST);
        vr_atomic_u32 *bucket = &queue->marking[turn & 1];
        vr_fetch_add(bucket, 1, VR_SEQ_CST);
        if (vr_load(&queue->turn, VR_SEQ_CST) == turn) {
            return bucket;
        }
        vr_fetch_sub(bucket, 1, VR_RELEASE); /* whoever began a new turn may not have seen us */
    }
}

/* Waits for the marks that are under way: keeps (7). Not for ever: a thread may have died in
   one. */
static void marks_end(struct vr_queue_object *queue) {
    static struct vr_mutex turns = VR_MUTEX_INIT(VR_RANK_SHORT); /* one new turn at a time */
    if (!vr_load(&queue->marking[0], VR_SEQ_CST) && !vr_load(&queue->marking[1], VR_SEQ_CST)) {
        return;
    }
    uint64_t deadline = vr_deadline_in(queue->device->context->wait_ns);
    vr_mutex_lock(&turns);
    uint64_t turn = vr_fetch_add(&queue->turn, 1, VR_SEQ_CST);
    struct rest resting = {.round = 0};
    while (vr_load(&queue->marking[turn & 1], VR_ACQUIRE) && !vr_deadline_passed(deadline)) {
        rest(&resting);
    }
    vr_mutex_unlock(&turns);
}

static vram_status mark(struct vr_queue_object *queue, uint64_t *value) {
    uint64_t mine = vr_fetch_add(&queue->issued, 1, VR_ACQ_REL) + 1;
    vram_status status = signal(queue, mine);
    if (status != VRAM_OK) {
        return status;
    }
    struct vram_error error;
    vr_error_save(&error);
    for (uint64_t newest, written = mine; /* keeps (2) */
         status == VRAM_OK && (newest = vr_load(&queue->issued, VR_ACQUIRE)) != written;
         written = newest) {
        status = repeat(queue, newest);
    }
    vr_error_restore(&error); /* this mark was made, whatever became of the others */
    *value = mine;
    return VRAM_OK;
}

vram_status vr_queue_mark(struct vr_queue_object *queue, uint64_t *value) {
    VR_OPERATION("vram_queue_mark");
    if (refuse_region(queue) != VRAM_OK) {
        return VRAM_ERR_CAPTURE;
    }
    vr_atomic_u32 *bucket = mark_begin(queue);
    vram_status status = mark(queue, value);
    vr_fetch_sub(bucket, 1, VR_RELEASE);
    return status;
}

/* A number that is taken and not written is like one whose write was refused: (4). */
void vr_queue_look(struct vr_queue_object *queue, uint64_t value) {
    struct vram_error error;
    vr_error_save(&error);
    vr_atomic_max(&queue->issued, value);
    (void)ask(queue, value);
    vr_error_restore(&error);
}

/* How a wait goes on: the refusals since the driver last answered, and the last of them. */
struct patience {
    unsigned refusals;
    vram_status status;
    struct vram_error before, refusal; /* the error record without it, and with it */
};

/* One look: VRAM_OK, VRAM_ERR_NOT_READY, or what ends the wait. Work may be under way when a driver
   does not answer, for want of memory say: it is asked again. */
static vram_status look(struct vr_queue_object *queue, uint64_t value, struct patience *patience) {
    vram_status status = ask(queue, value);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        patience->refusals = 0;
        return status;
    }
    patience->status = status;
    if (status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN ||
        ++patience->refusals == REFUSALS) {
        return status;
    }
    vr_error_save(&patience->refusal);
    vr_error_restore(&patience->before);
    return VRAM_ERR_NOT_READY;
}

static vram_status too_late(const struct patience *patience) {
    if (patience->refusals) {
        vr_error_restore(&patience->refusal);
        return patience->status;
    }
    return vr_fail(VRAM_ERR_TIMEOUT, "the point had not passed when the deadline did");
}

uint64_t vr_wait_deadline(const struct vr_context *context, uint64_t timeout) {
    return vr_deadline_in(timeout == VRAM_TIMEOUT_DEFAULT ? context->wait_ns : timeout);
}

vram_status vr_queue_wait_value(struct vr_queue_object *queue, uint64_t value, uint64_t timeout) {
    if (vr_queue_passed(queue, value)) {
        return VRAM_OK;
    }
    uint64_t deadline = vr_wait_deadline(queue->device->context, timeout);
    struct patience patience = {.refusals = 0};
    vr_error_save(&patience.before);
    for (struct rest resting = {.round = 0};; rest(&resting)) {
        vram_status status =
            is_time_to_ask(&resting) ? look(queue, value, &patience) : VRAM_ERR_NOT_READY;
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
            return too_late(&patience);
        }
    }
}

/* A number behind all work so far, whether or not the queue can be marked: keeps (4), since the
   driver says when the queue is idle. The refusal is nobody's error then. */
static vram_status number_behind(struct vr_queue_object *queue, uint64_t *value) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_queue_mark(queue, value);
    if (status == VRAM_OK || status == VRAM_ERR_CAPTURE || status == VRAM_ERR_DEVICE_LOST ||
        status == VRAM_ERR_SHUTDOWN) {
        return status;
    }
    vr_error_restore(&error);
    *value = vr_load(&queue->issued, VR_ACQUIRE);
    return VRAM_OK;
}

vram_status vr_queue_settle(struct vr_queue_object *queue, uint64_t deadline) {
    uint64_t value;
    vram_status status = number_behind(queue, &value);
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

/* The queue of a point: VRAM_OK with *queue NULL when the point has passed because its queue is
   gone, or never was. */
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
        return VRAM_OK; /* destroyed between the two looks */
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
        return vr_fail(VRAM_ERR_INVALID, "the place for the point is NULL");
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
        /* Most polls only read the word; every eighth that finds it short asks the driver, which
           may need to be asked to make progress, and may be lost. What is known to be lost is said
           every time. */
        if (vr_fetch_add(&queue->looks, 1, VR_RELAXED) % 8 == 0 ||
            vr_load(&queue->base.device->lost, VR_RELAXED)) {
            status = ask(queue, point.value);
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
    status = number_behind(queue, &value);
    vr_submit_end(queue); /* the queue may end under a wait for it */
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

/* A wait on another device's word needs that device for as long as the wait may be pending, that is
   as long as the waiting queue lives: it is kept, once per queue. Its memory is not. */
static vram_status follow(struct vr_queue_object *queue, struct vr_device_object *device) {
    vr_mutex_lock(&queue->device->lock);
    for (uint32_t i = 0; i < queue->followed_count; i++) {
        if (queue->followed[i] == device) {
            vr_mutex_unlock(&queue->device->lock);
            return VRAM_OK;
        }
    }
    struct vr_device_object **larger =
        vr_mem_resize(queue->followed, queue->followed_count + 1, sizeof *larger, vr_operation());
    if (larger) {
        queue->followed = larger;
        larger[queue->followed_count++] = device;
        vr_device_keep(device);
    }
    vr_mutex_unlock(&queue->device->lock);
    return larger ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

static vram_status after(struct vr_queue_object *queue, struct vr_queue_object *other,
                         uint64_t value) {
    vram_status status = VRAM_OK;
    if (queue == other || vr_queue_passed(other, value)) {
        return VRAM_OK; /* a queue is in order with itself */
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
        /* Nothing may be told to wait for what a lost device will never write. */
        status = vr_check_lost(other->base.device, vr_operation());
        status = status == VRAM_OK ? follow(queue, other->device) : status;
    }
    if (status == VRAM_OK && vr_queue_hold(other)) {
        marks_end(other);
        if (vr_exchange(&other->behind, false, VR_ACQ_REL)) { /* keeps (5) */
            status = repeat(other, vr_load(&other->signalled, VR_ACQUIRE));
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
        status = after(queue, other, point.value);
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
