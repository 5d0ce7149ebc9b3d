/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_timeline.c: words, which tell how far a queue's work is complete; signals, waits and
 * polls.
 *
 * A signal is a marker command with an event. The driver calls back when it is complete, and the
 * callback writes the queue's word. A write by the device itself would need memory that host and
 * device share at the granularity of a word, which few drivers have. Callbacks may be late, or come
 * in another order than their markers. So the word is only ever raised, and a poll queries the
 * event of the newest marker as well.
 *
 *      timeline   word | pending markers | the last idle marker that was not complete
 *                  |            |
 *                queue     event, value     kept until the driver has called back
 *
 * Invariants
 *  (1) The queue and every pending callback hold a reference to the timeline. All records are
 *      type-stable, so a callback that comes after the device is closed finds valid memory.
 *  (2) The word is raised before the marker leaves the list: if neither shows a value, the queue
 *      has failed.
 *  (3) The event of a marker lives as long as the marker has references.
 *  (4) A marker that ended abnormally does not raise the word and makes the timeline failed: work
 *      before it did not complete, and no driver completes work after it.
 *  (5) A queue is idle if a marker that is submitted now is complete. OpenCL has no other way to
 *      ask, and the program may have submitted work of its own.
 *  (6) A wait in another context ends when the timeline fails, or ends with a lost device.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/stable.h"

/* How long a poll waits for the idle marker: of a queue that may have work, and of one that has no
   work of the library, so that only this answer is missing. */
enum { IDLE_CHECK_NS = 50000, IDLE_CHECK_LONG_NS = 5000000 };
enum { REPEATS = 4 }; /* how often a refused call is repeated */

struct opencl_marker {
    void *free_link; /* vr_stable's */
    struct vr_opencl_timeline *timeline;
    struct vr_cl_event *event;
    uint64_t value;
    uint64_t commands;   /* commands submitted to the queue before it */
    uint32_t refs;       /* list and callback together count as one; the timeline's lock */
    struct vr_link link; /* in timeline->markers, in order of submission */
    vr_cl_int (*release)(struct vr_cl_event *event);
};

/* A wait of a queue in another context, as a user event of that context. The pending callback owns
   it and frees it. */
struct cross_wait {
    void *free_link; /* vr_stable's */
    struct vr_opencl_timeline *timeline;
    struct vr_cl_event *user_event; /* of that context */
    struct vr_link link;            /* in timeline->cross_waits until the user event is set */
    vr_cl_int (*set)(struct vr_cl_event *event, vr_cl_int status);
    vr_cl_int (*release)(struct vr_cl_event *event);
};

struct vr_opencl_timeline {
    void *free_link; /* vr_stable's */
    _Alignas(64) vr_atomic_u64 word;
    vr_atomic_u32 refs;      /* (1) */
    vr_atomic_u64 submitted; /* commands of the library, */
    vr_atomic_u64 finished;  /* and how many of them are known to be complete */
    vr_atomic_bool failed;   /* (4) */
    struct vr_mutex lock;    /* guards the rest; not held across driver calls */
    struct vr_list markers;
    struct vr_list cross_waits;
    struct opencl_marker *idle_marker; /* incomplete at the last poll; NULL: none */
    const struct vr_opencl_api *api;
};

static struct vr_stable timeline_memory = VR_STABLE_INIT(struct vr_opencl_timeline);
static struct vr_stable marker_memory = VR_STABLE_INIT(struct opencl_marker);
static struct vr_stable cross_wait_memory = VR_STABLE_INIT(struct cross_wait);

static struct vr_opencl_timeline *timeline_of(const struct vr_queue *queue) {
    return ((const struct vr_opencl_queue *)queue->impl)->timeline;
}

/* ----------------------------------------------------------------- lifetime */

struct vr_opencl_timeline *vr_opencl_timeline_take(const struct vr_opencl_api *api) {
    struct vr_opencl_timeline *timeline = vr_stable_take(&timeline_memory, "opencl_queue_create");
    if (timeline) {
        vr_store(&timeline->refs, 1, VR_RELAXED);
        vr_store(&timeline->submitted, 0, VR_RELAXED);
        vr_store(&timeline->finished, 0, VR_RELAXED);
        vr_store(&timeline->failed, false, VR_RELAXED);
        vr_mutex_init(&timeline->lock, VR_RANK_BACKEND);
        vr_list_init(&timeline->markers);
        vr_list_init(&timeline->cross_waits);
        timeline->idle_marker = NULL;
        timeline->api = api;
    }
    return timeline;
}

static void timeline_unref(struct vr_opencl_timeline *timeline) {
    if (vr_fetch_sub(&timeline->refs, 1, VR_ACQ_REL) == 1) {
        vr_mutex_destroy(&timeline->lock);
        vr_stable_give(&timeline_memory, timeline);
    }
}

vr_atomic_u64 *vr_opencl_timeline_word(struct vr_opencl_timeline *timeline) {
    return &timeline->word;
}

bool vr_opencl_timeline_busy(struct vr_opencl_timeline *timeline) {
    vr_mutex_lock(&timeline->lock);
    bool busy = !vr_list_empty(&timeline->markers);
    vr_mutex_unlock(&timeline->lock);
    return busy;
}

/* ------------------------------------------------------------------ markers */

static struct opencl_marker *marker_new(struct vr_opencl_timeline *timeline, uint64_t value) {
    struct opencl_marker *marker = vr_stable_take(&marker_memory, "clEnqueueMarkerWithWaitList");
    if (marker) {
        marker->timeline = timeline;
        marker->event = NULL;
        marker->value = value;
        marker->commands = vr_load(&timeline->submitted, VR_ACQUIRE);
        marker->refs = 1;
        marker->link = (struct vr_link){NULL, NULL};
        marker->release = timeline->api->clReleaseEvent;
    }
    return marker;
}

/* keeps (3) */
static void marker_unref(struct opencl_marker *marker) {
    struct vr_opencl_timeline *timeline = marker->timeline;
    vr_mutex_lock(&timeline->lock);
    bool last = --marker->refs == 0;
    vr_mutex_unlock(&timeline->lock);
    if (last) {
        if (marker->event) {
            vr_opencl_warn("clReleaseEvent", marker->release(marker->event));
        }
        vr_stable_give(&marker_memory, marker);
    }
}

/* Submits a marker after all work of the queue. */
static vram_status marker_submit(const struct vr_queue *queue, struct opencl_marker *marker) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_cl_event *event = NULL;
    vram_status status =
        VR_OPENCL(impl->timeline, clEnqueueMarkerWithWaitList, impl->queue, 0, NULL, &event);
    if (status == VRAM_OK && !event) {
        status = vr_opencl_bad_result("clEnqueueMarkerWithWaitList", 0);
    }
    if (status == VRAM_OK) {
        marker->event = event;
    }
    return status;
}

/* A marker is complete, and so is all work before it. */
static void timeline_raise(struct vr_opencl_timeline *timeline,
                           const struct opencl_marker *marker) {
    vr_atomic_max(&timeline->word, marker->value);
    vr_atomic_max(&timeline->finished, marker->commands);
}

void vr_opencl_timeline_count(struct vr_opencl_timeline *timeline) {
    vr_fetch_add(&timeline->submitted, 1, VR_RELEASE);
}

/* The state of a marker: 0 complete, positive not yet, negative ended abnormally. */
static vram_status marker_query(const struct vr_opencl_timeline *timeline,
                                const struct opencl_marker *marker, vr_cl_int *state) {
    return VR_OPENCL(timeline, clGetEventInfo, marker->event, VR_CL_EVENT_COMMAND_EXECUTION_STATUS,
                     sizeof *state, state, NULL);
}

static void cross_wait_open(struct cross_wait *wait);

/* keeps (4) and (6) */
static void timeline_fail(struct vr_opencl_timeline *timeline) {
    vr_store(&timeline->failed, true, VR_RELEASE);
    for (;;) {
        vr_mutex_lock(&timeline->lock);
        struct vr_link *link = vr_list_first(&timeline->cross_waits);
        if (link) {
            vr_link_remove(link);
        }
        vr_mutex_unlock(&timeline->lock);
        if (!link) {
            return;
        }
        cross_wait_open(VR_CONTAINER(link, struct cross_wait, link));
    }
}

static vram_status timeline_failed(const char *operation, vr_cl_int code) {
    return vr_error_set(VRAM_ERR_DEVICE_LOST, "opencl", operation, code,
                        "work of the queue ended abnormally; restart the process to use the device "
                        "again");
}

/* Called by the driver, on a thread of its own or inside one of its calls. */
static void marker_done(struct vr_cl_event *event, vr_cl_int state, void *user) {
    struct opencl_marker *marker = user;
    struct vr_opencl_timeline *timeline = marker->timeline;
    (void)event;
    if (state == VR_CL_COMPLETE) {
        timeline_raise(timeline, marker);
    }
    if (vr_os_exiting()) {
        return; /* the driver's objects end with the process */
    }
    if (state != VR_CL_COMPLETE) {
        timeline_fail(timeline);
    }
    vr_mutex_lock(&timeline->lock); /* (2) */
    vr_link_remove(&marker->link);
    vr_mutex_unlock(&timeline->lock);
    marker_unref(marker);
    timeline_unref(timeline);
}

vram_status vr_opencl_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_opencl_timeline *timeline = timeline_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    if (vr_load(&timeline->failed, VR_ACQUIRE)) {
        return timeline_failed("clEnqueueMarkerWithWaitList", 0);
    }
    struct opencl_marker *marker = marker_new(timeline, value);
    if (!marker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = marker_submit(queue, marker);
    if (status != VRAM_OK) {
        marker_unref(marker);
        return status;
    }
    vr_fetch_add(&timeline->refs, 1, VR_RELAXED);
    vr_mutex_lock(&timeline->lock);
    vr_list_append(&timeline->markers, &marker->link);
    marker->refs++; /* ours, because the callback may already drop its own */
    vr_mutex_unlock(&timeline->lock);
    status =
        VR_OPENCL(timeline, clSetEventCallback, marker->event, VR_CL_COMPLETE, marker_done, marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(timeline, clFlush, impl->queue);
    } else { /* no callback will come: it is not a signal */
        vr_mutex_lock(&timeline->lock);
        vr_link_remove(&marker->link);
        vr_mutex_unlock(&timeline->lock);
        marker_unref(marker);
        timeline_unref(timeline);
    }
    marker_unref(marker);
    return status;
}

/* ------------------------------------------------------------------ waiting */

/* A pending marker with at least that value, with a reference for the caller; NULL: none. */
static struct opencl_marker *marker_find(struct vr_opencl_timeline *timeline, uint64_t value) {
    struct opencl_marker *found = NULL;
    vr_mutex_lock(&timeline->lock);
    for (struct vr_link *link = vr_list_first(&timeline->markers); link && !found;
         link = vr_list_next(&timeline->markers, link)) {
        struct opencl_marker *marker = VR_CONTAINER(link, struct opencl_marker, link);
        if (marker->value >= value) {
            found = marker;
            found->refs++;
        }
    }
    vr_mutex_unlock(&timeline->lock);
    return found;
}

/* Whoever removes the wait from the list sets the event: the callback, or the timeline's failure.
   If it is never set, its queue waits forever, so a refused call is repeated. */
static void cross_wait_open(struct cross_wait *wait) {
    vr_cl_int code = VR_CL_OUT_OF_RESOURCES;
    for (int i = 0; i < REPEATS && code != VR_CL_SUCCESS; i++) {
        code = wait->set(wait->user_event, VR_CL_COMPLETE);
    }
    vr_opencl_warn("clSetUserEventStatus", code);
    vr_opencl_warn("clReleaseEvent", wait->release(wait->user_event));
}

static void cross_wait_done(struct vr_cl_event *event, vr_cl_int state, void *user) {
    struct cross_wait *wait = user;
    struct vr_opencl_timeline *timeline = wait->timeline;
    (void)event, (void)state;
    if (vr_os_exiting()) {
        return;
    }
    vr_mutex_lock(&timeline->lock);
    bool ours = vr_link_linked(&wait->link);
    vr_link_remove(&wait->link);
    vr_mutex_unlock(&timeline->lock);
    if (ours) {
        cross_wait_open(wait);
    }
    vr_stable_give(&cross_wait_memory, wait);
    timeline_unref(timeline);
}

/* Events belong to one context: in another context a user event replaces the marker's event. */
static vram_status wait_other_context(const struct vr_queue *queue,
                                      struct vr_opencl_timeline *timeline,
                                      const struct opencl_marker *marker) {
    const struct vr_opencl_device *device = queue->device->impl;
    const struct vr_opencl_api *api = device->api;
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = VR_CL_SUCCESS;
    struct cross_wait *wait = vr_stable_take(&cross_wait_memory, "clCreateUserEvent");
    if (!wait) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *wait = (struct cross_wait){.timeline = timeline,
                                .set = api->clSetUserEventStatus,
                                .release = api->clReleaseEvent,
                                .user_event = api->clCreateUserEvent(device->context, &code)};
    vram_status status = vr_opencl_check("clCreateUserEvent", code);
    if (status == VRAM_OK && !wait->user_event) {
        status = vr_opencl_bad_result("clCreateUserEvent", 0);
    }
    if (status != VRAM_OK) {
        vr_stable_give(&cross_wait_memory, wait);
        return status;
    }
    status =
        vr_opencl_check("clEnqueueBarrierWithWaitList",
                        api->clEnqueueBarrierWithWaitList(impl->queue, 1, &wait->user_event, NULL));
    if (status != VRAM_OK) {
        vr_opencl_warn("clReleaseEvent", api->clReleaseEvent(wait->user_event));
        vr_stable_give(&cross_wait_memory, wait);
        return status;
    }
    vr_fetch_add(&timeline->refs, 1, VR_RELAXED);
    vr_mutex_lock(&timeline->lock);
    vr_list_append(&timeline->cross_waits, &wait->link);
    vr_mutex_unlock(&timeline->lock);
    code = api->clSetEventCallback(marker->event, VR_CL_COMPLETE, cross_wait_done, wait);
    status = vr_opencl_check("clSetEventCallback", code);
    if (status != VRAM_OK) {
        cross_wait_done(NULL, 0, wait);
    }
    return status;
}

vram_status vr_opencl_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_opencl_device *device = queue->device->impl, *source = other->device->impl;
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_timeline *timeline = timeline_of(other);
    bool failed = vr_load(&timeline->failed, VR_ACQUIRE); /* its markers may still be in the list */
    struct opencl_marker *marker = failed ? NULL : marker_find(timeline, value);
    if (!marker) {
        bool passed = vr_load(&timeline->word, VR_ACQUIRE) >= value; /* (2) */
        return passed ? VRAM_OK : timeline_failed("clEnqueueBarrierWithWaitList", 0);
    }
    vram_status status =
        device->context == source->context
            ? VR_OPENCL(device, clEnqueueBarrierWithWaitList, impl->queue, 1, &marker->event, NULL)
            : wait_other_context(queue, timeline, marker);
    marker_unref(marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(device, clFlush, impl->queue);
    }
    return status;
}

/* ------------------------------------------------------------------ polling */

/* Queries a marker that the caller holds; raises the word if it is complete. */
static vram_status marker_poll(struct vr_opencl_timeline *timeline, struct opencl_marker *marker) {
    vr_cl_int state = 1;
    vram_status status = marker_query(timeline, marker, &state);
    if (status != VRAM_OK) {
        return status;
    }
    if (state < 0) {
        timeline_fail(timeline);
        return timeline_failed("clGetEventInfo", state);
    }
    if (state == VR_CL_COMPLETE) {
        timeline_raise(timeline, marker);
    }
    return state == VR_CL_COMPLETE ? VRAM_OK : VRAM_ERR_NOT_READY;
}

/* The newest pending marker, else the last idle marker, with a reference for the caller; NULL:
   none. */
static struct opencl_marker *marker_newest(struct vr_opencl_timeline *timeline) {
    struct opencl_marker *found = NULL;
    vr_mutex_lock(&timeline->lock);
    if (!vr_list_empty(&timeline->markers)) {
        found = VR_CONTAINER(timeline->markers.head.prev, struct opencl_marker, link);
    } else {
        found = timeline->idle_marker;
    }
    if (found) {
        found->refs++;
    }
    vr_mutex_unlock(&timeline->lock);
    return found;
}

/* Stores an idle marker that is not complete, or NULL. */
static void idle_marker_set(struct vr_opencl_timeline *timeline, struct opencl_marker *probe) {
    vr_mutex_lock(&timeline->lock);
    struct opencl_marker *old = timeline->idle_marker;
    if (probe) {
        probe->refs++;
    }
    timeline->idle_marker = probe;
    vr_mutex_unlock(&timeline->lock);
    if (old) {
        marker_unref(old);
    }
}

/* keeps (5). Waits for the answer of a queue without work, not for work. */
static vram_status idle_check(struct vr_queue *queue, struct vr_opencl_timeline *timeline) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct opencl_marker *marker = marker_new(timeline, 0);
    if (!marker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = marker_submit(queue, marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(timeline, clFlush, impl->queue);
    }
    if (status == VRAM_OK) {
        bool idle = vr_load(&timeline->finished, VR_ACQUIRE) >= marker->commands;
        uint64_t deadline = vr_os_now() + (idle ? IDLE_CHECK_LONG_NS : IDLE_CHECK_NS);
        while ((status = marker_poll(timeline, marker)) == VRAM_ERR_NOT_READY &&
               vr_os_now() < deadline) {
            vr_os_yield();
        }
    }
    idle_marker_set(timeline, status == VRAM_ERR_NOT_READY ? marker : NULL);
    marker_unref(marker);
    return status;
}

vram_status vr_opencl_poll(struct vr_queue *queue) {
    struct vr_opencl_timeline *timeline = timeline_of(queue);
    if (vr_load(&timeline->failed, VR_ACQUIRE)) {
        return timeline_failed("clGetEventInfo", 0);
    }
    struct opencl_marker *marker = marker_newest(timeline);
    if (marker) {
        vram_status status = marker_poll(timeline, marker);
        marker_unref(marker);
        if (status != VRAM_OK) {
            return status;
        }
    }
    return idle_check(queue, timeline);
}

void vr_opencl_timeline_end(struct vr_opencl_timeline *timeline, bool lost) {
    if (lost) {
        vr_mutex_lock(&timeline->lock);
        if (timeline->idle_marker) {
            timeline->idle_marker->event = NULL; /* no driver call: the event is not released */
        }
        vr_mutex_unlock(&timeline->lock);
        timeline_fail(timeline);
    }
    idle_marker_set(timeline, NULL);
    timeline_unref(timeline);
}
