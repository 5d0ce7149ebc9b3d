/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_line.c: how far a queue has come.
 *
 * A signal is a marker command with an event, and the driver calls us when it is complete: that
 * call writes the queue's word. A write by the device itself would need memory that host and device
 * share at the grain of a word, which few drivers have. Callbacks may be late, or come in another
 * order than their markers; so the word is only ever raised, and who waits for it asks the newest
 * marker's event as well.
 *
 *      line    word | markers outstanding | the last question that was not answered yes
 *                |            |
 *             queue        event, value        kept until the driver has called back
 *
 * Invariants
 *  (1) A line is kept by its queue and by every callback that the driver owes us. All of it is
 *      type-stable, so that a callback which comes after the device is closed finds what it needs.
 *  (2) The word is raised before the marker leaves the list: who finds neither has a failed queue.
 *  (3) The event of a marker lives as long as somebody holds the marker.
 *  (4) A marker that ended abnormally leaves the word alone and makes the line failed: work before
 *      it did not finish, and on no driver does anything after it.
 *  (5) A queue is idle when a marker that was submitted after the question is complete. OpenCL has
 *      no other way to ask, and the program may have given the queue work of its own.
 *  (6) Whoever waits in another context is let go when the line fails, or ends with a lost device.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"

enum {
    PROBE_NS = 50000, /* how long a queue that may have work is waited for to say it has none, */
    PROBE_IDLE_NS =
        5000000, /* and one that has none of ours, whose answer is all there is to wait for */
    REPEATS = 4  /* how often a driver is asked to let a queue go */
};

struct marker {
    void *free_link; /* vr_stable's */
    struct vr_opencl_line *line;
    struct vr_cl_event *event;
    uint64_t value;
    uint64_t commands;   /* that the queue had been given before it */
    uint32_t holders;    /* the list and the callback count as one; line's lock */
    struct vr_link link; /* in the line's markers, in the order of their submission */
    vr_cl_int (*release)(struct vr_cl_event *event);
};

/* Lets work in another context begin. It is the callback's that the driver owes us, which gives it
   back. */
struct relay {
    void *free_link; /* vr_stable's */
    struct vr_opencl_line *line;
    struct vr_cl_event *gate; /* a user event of that context */
    struct vr_link link;      /* in the line's relays until the gate is opened */
    vr_cl_int (*set)(struct vr_cl_event *event, vr_cl_int status);
    vr_cl_int (*release)(struct vr_cl_event *event);
};

struct vr_opencl_line {
    void *free_link; /* vr_stable's */
    _Alignas(64) vr_atomic_u64 word;
    vr_atomic_u32 keepers;   /* (1) */
    vr_atomic_u64 submitted; /* commands of ours, */
    vr_atomic_u64 finished;  /* and how many of them are known to be done */
    vr_atomic_bool failed;   /* (4) */
    struct vr_mutex lock;    /* guards the rest; not held across driver calls */
    struct vr_list markers;
    struct vr_list relays;
    struct marker *probe; /* incomplete when last looked at; NULL: none */
    const struct vr_opencl_api *api;
};

static struct vr_stable lines = VR_STABLE_INIT(struct vr_opencl_line);
static struct vr_stable markers = VR_STABLE_INIT(struct marker);
static struct vr_stable relays = VR_STABLE_INIT(struct relay);

static struct vr_opencl_line *line_of(const struct vr_queue *queue) {
    return ((const struct vr_opencl_queue *)queue->impl)->line;
}

/* ----------------------------------------------------------------- lifetime */

struct vr_opencl_line *vr_opencl_line_take(const struct vr_opencl_api *api) {
    struct vr_opencl_line *line = vr_stable_take(&lines, "opencl_queue_create");
    if (line) {
        vr_store(&line->keepers, 1, VR_RELAXED);
        vr_store(&line->submitted, 0, VR_RELAXED);
        vr_store(&line->finished, 0, VR_RELAXED);
        vr_store(&line->failed, false, VR_RELAXED);
        vr_mutex_init(&line->lock, VR_RANK_BACKEND);
        vr_list_init(&line->markers);
        vr_list_init(&line->relays);
        line->probe = NULL;
        line->api = api;
    }
    return line;
}

static void line_drop(struct vr_opencl_line *line) {
    if (vr_fetch_sub(&line->keepers, 1, VR_ACQ_REL) == 1) {
        vr_mutex_destroy(&line->lock);
        vr_stable_give(&lines, line);
    }
}

vr_atomic_u64 *vr_opencl_line_word(struct vr_opencl_line *line) {
    return &line->word;
}

bool vr_opencl_line_busy(struct vr_opencl_line *line) {
    vr_mutex_lock(&line->lock);
    bool busy = !vr_list_empty(&line->markers);
    vr_mutex_unlock(&line->lock);
    return busy;
}

/* ------------------------------------------------------------------ markers */

static struct marker *marker_new(struct vr_opencl_line *line, uint64_t value) {
    struct marker *marker = vr_stable_take(&markers, "clEnqueueMarkerWithWaitList");
    if (marker) {
        marker->line = line;
        marker->event = NULL;
        marker->value = value;
        marker->commands = vr_load(&line->submitted, VR_ACQUIRE);
        marker->holders = 1;
        marker->link = (struct vr_link){NULL, NULL};
        marker->release = line->api->clReleaseEvent;
    }
    return marker;
}

/* keeps (3) */
static void marker_drop(struct marker *marker) {
    struct vr_opencl_line *line = marker->line;
    vr_mutex_lock(&line->lock);
    bool last = --marker->holders == 0;
    vr_mutex_unlock(&line->lock);
    if (last) {
        if (marker->event) {
            vr_opencl_shrug("clReleaseEvent", marker->release(marker->event));
        }
        vr_stable_give(&markers, marker);
    }
}

/* Submits a marker behind all work of the queue. */
static vram_status marker_submit(const struct vr_queue *queue, struct marker *marker) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_cl_event *event = NULL;
    vram_status status =
        VR_OPENCL(impl->line, clEnqueueMarkerWithWaitList, impl->queue, 0, NULL, &event);
    if (status == VRAM_OK && !event) {
        status = vr_opencl_lied("clEnqueueMarkerWithWaitList", 0);
    }
    if (status == VRAM_OK) {
        marker->event = event;
    }
    return status;
}

/* A marker is complete: all before it is done. */
static void line_raise(struct vr_opencl_line *line, const struct marker *marker) {
    vr_atomic_max(&line->word, marker->value);
    vr_atomic_max(&line->finished, marker->commands);
}

void vr_opencl_line_count(struct vr_opencl_line *line) {
    vr_fetch_add(&line->submitted, 1, VR_RELEASE);
}

/* What the driver says of a marker: 0 complete, positive not yet, negative ended abnormally. */
static vram_status marker_ask(const struct vr_opencl_line *line, const struct marker *marker,
                              vr_cl_int *state) {
    return VR_OPENCL(line, clGetEventInfo, marker->event, VR_CL_EVENT_COMMAND_EXECUTION_STATUS,
                     sizeof *state, state, NULL);
}

static void relay_open(struct relay *relay);

/* keeps (4) and (6) */
static void line_fail(struct vr_opencl_line *line) {
    vr_store(&line->failed, true, VR_RELEASE);
    for (;;) {
        vr_mutex_lock(&line->lock);
        struct vr_link *link = vr_list_first(&line->relays);
        if (link) {
            vr_link_remove(link);
        }
        vr_mutex_unlock(&line->lock);
        if (!link) {
            return;
        }
        relay_open(VR_CONTAINER(link, struct relay, link));
    }
}

static vram_status say_failed(const char *operation, vr_cl_int code) {
    return vr_error_set(VRAM_ERR_DEVICE_LOST, "opencl", operation, code,
                        "work of the queue ended abnormally; restart the process to use the device "
                        "again");
}

/* Called by the driver, on a thread of its own or inside a call of ours. */
static void marker_done(struct vr_cl_event *event, vr_cl_int state, void *user) {
    struct marker *marker = user;
    struct vr_opencl_line *line = marker->line;
    (void)event;
    if (state == VR_CL_COMPLETE) {
        line_raise(line, marker);
    }
    if (vr_os_exiting()) {
        return; /* what is owed to the driver goes with it */
    }
    if (state != VR_CL_COMPLETE) {
        line_fail(line);
    }
    vr_mutex_lock(&line->lock); /* (2) */
    vr_link_remove(&marker->link);
    vr_mutex_unlock(&line->lock);
    marker_drop(marker);
    line_drop(line);
}

vram_status vr_opencl_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_opencl_line *line = line_of(queue);
    const struct vr_opencl_queue *impl = queue->impl;
    if (vr_load(&line->failed, VR_ACQUIRE)) {
        return say_failed("clEnqueueMarkerWithWaitList", 0);
    }
    struct marker *marker = marker_new(line, value);
    if (!marker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = marker_submit(queue, marker);
    if (status != VRAM_OK) {
        marker_drop(marker);
        return status;
    }
    vr_fetch_add(&line->keepers, 1, VR_RELAXED);
    vr_mutex_lock(&line->lock);
    vr_list_append(&line->markers, &marker->link);
    marker->holders++; /* ours, while the callback may already be dropping its own */
    vr_mutex_unlock(&line->lock);
    status =
        VR_OPENCL(line, clSetEventCallback, marker->event, VR_CL_COMPLETE, marker_done, marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(line, clFlush, impl->queue);
    } else { /* nobody will call: the marker is only a marker */
        vr_mutex_lock(&line->lock);
        vr_link_remove(&marker->link);
        vr_mutex_unlock(&line->lock);
        marker_drop(marker);
        line_drop(line);
    }
    marker_drop(marker);
    return status;
}

/* ------------------------------------------------------------------ waiting */

/* An outstanding marker with at least that value, held for the caller; NULL: none. */
static struct marker *marker_hold(struct vr_opencl_line *line, uint64_t value) {
    struct marker *found = NULL;
    vr_mutex_lock(&line->lock);
    for (struct vr_link *link = vr_list_first(&line->markers); link && !found;
         link = vr_list_next(&line->markers, link)) {
        struct marker *marker = VR_CONTAINER(link, struct marker, link);
        if (marker->value >= value) {
            found = marker;
            found->holders++;
        }
    }
    vr_mutex_unlock(&line->lock);
    return found;
}

/* Whoever takes it off the line opens it: the callback, or the line's failure. A gate that stays
   shut would hold its queue up for ever, so the driver is asked more than once. */
static void relay_open(struct relay *relay) {
    vr_cl_int code = VR_CL_OUT_OF_RESOURCES;
    for (int i = 0; i < REPEATS && code != VR_CL_SUCCESS; i++) {
        code = relay->set(relay->gate, VR_CL_COMPLETE);
    }
    vr_opencl_shrug("clSetUserEventStatus", code);
    vr_opencl_shrug("clReleaseEvent", relay->release(relay->gate));
}

static void relay_done(struct vr_cl_event *event, vr_cl_int state, void *user) {
    struct relay *relay = user;
    struct vr_opencl_line *line = relay->line;
    (void)event, (void)state;
    if (vr_os_exiting()) {
        return;
    }
    vr_mutex_lock(&line->lock);
    bool ours = vr_link_linked(&relay->link);
    vr_link_remove(&relay->link);
    vr_mutex_unlock(&line->lock);
    if (ours) {
        relay_open(relay);
    }
    vr_stable_give(&relays, relay);
    line_drop(line);
}

/* Events are of one context: in another a user event takes the place of the marker's. */
static vram_status wait_elsewhere(const struct vr_queue *queue, struct vr_opencl_line *line,
                                  const struct marker *marker) {
    const struct vr_opencl_device *device = queue->device->impl;
    const struct vr_opencl_api *api = device->api;
    const struct vr_opencl_queue *impl = queue->impl;
    vr_cl_int code = VR_CL_SUCCESS;
    struct relay *relay = vr_stable_take(&relays, "clCreateUserEvent");
    if (!relay) {
        return VRAM_ERR_HOST_MEMORY;
    }
    *relay = (struct relay){.line = line,
                            .set = api->clSetUserEventStatus,
                            .release = api->clReleaseEvent,
                            .gate = api->clCreateUserEvent(device->context, &code)};
    vram_status status = vr_opencl_check("clCreateUserEvent", code);
    if (status == VRAM_OK && !relay->gate) {
        status = vr_opencl_lied("clCreateUserEvent", 0);
    }
    if (status != VRAM_OK) {
        vr_stable_give(&relays, relay);
        return status;
    }
    status = vr_opencl_check("clEnqueueBarrierWithWaitList",
                             api->clEnqueueBarrierWithWaitList(impl->queue, 1, &relay->gate, NULL));
    if (status != VRAM_OK) {
        vr_opencl_shrug("clReleaseEvent", api->clReleaseEvent(relay->gate));
        vr_stable_give(&relays, relay);
        return status;
    }
    vr_fetch_add(&line->keepers, 1, VR_RELAXED);
    vr_mutex_lock(&line->lock);
    vr_list_append(&line->relays, &relay->link);
    vr_mutex_unlock(&line->lock);
    code = api->clSetEventCallback(marker->event, VR_CL_COMPLETE, relay_done, relay);
    status = vr_opencl_check("clSetEventCallback", code);
    if (status != VRAM_OK) {
        relay_done(NULL, 0, relay);
    }
    return status;
}

vram_status vr_opencl_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_opencl_device *device = queue->device->impl, *source = other->device->impl;
    const struct vr_opencl_queue *impl = queue->impl;
    struct vr_opencl_line *line = line_of(other);
    bool failed = vr_load(&line->failed, VR_ACQUIRE); /* its markers may still be there */
    struct marker *marker = failed ? NULL : marker_hold(line, value);
    if (!marker) {
        bool passed = vr_load(&line->word, VR_ACQUIRE) >= value; /* (2) */
        return passed ? VRAM_OK : say_failed("clEnqueueBarrierWithWaitList", 0);
    }
    vram_status status =
        device->context == source->context
            ? VR_OPENCL(device, clEnqueueBarrierWithWaitList, impl->queue, 1, &marker->event, NULL)
            : wait_elsewhere(queue, line, marker);
    marker_drop(marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(device, clFlush, impl->queue);
    }
    return status;
}

/* ------------------------------------------------------------------ polling */

/* The state of a marker that is held, whose word is raised when it is complete. */
static vram_status look(struct vr_opencl_line *line, struct marker *marker) {
    vr_cl_int state = 1;
    vram_status status = marker_ask(line, marker, &state);
    if (status != VRAM_OK) {
        return status;
    }
    if (state < 0) {
        line_fail(line);
        return say_failed("clGetEventInfo", state);
    }
    if (state == VR_CL_COMPLETE) {
        line_raise(line, marker);
    }
    return state == VR_CL_COMPLETE ? VRAM_OK : VRAM_ERR_NOT_READY;
}

/* The newest marker outstanding, or the last question; held for the caller. NULL: neither. */
static struct marker *newest_hold(struct vr_opencl_line *line) {
    struct marker *found = NULL;
    vr_mutex_lock(&line->lock);
    if (!vr_list_empty(&line->markers)) {
        found = VR_CONTAINER(line->markers.head.prev, struct marker, link);
    } else {
        found = line->probe;
    }
    if (found) {
        found->holders++;
    }
    vr_mutex_unlock(&line->lock);
    return found;
}

/* Remembers a question that was not answered yes, or forgets the last one. */
static void probe_set(struct vr_opencl_line *line, struct marker *probe) {
    vr_mutex_lock(&line->lock);
    struct marker *old = line->probe;
    if (probe) {
        probe->holders++;
    }
    line->probe = probe;
    vr_mutex_unlock(&line->lock);
    if (old) {
        marker_drop(old);
    }
}

/* keeps (5). Waits for the answer of a queue without work, not for work. */
static vram_status probe(struct vr_queue *queue, struct vr_opencl_line *line) {
    const struct vr_opencl_queue *impl = queue->impl;
    struct marker *marker = marker_new(line, 0);
    if (!marker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = marker_submit(queue, marker);
    if (status == VRAM_OK) {
        status = VR_OPENCL(line, clFlush, impl->queue);
    }
    if (status == VRAM_OK) {
        bool idle = vr_load(&line->finished, VR_ACQUIRE) >= marker->commands;
        uint64_t deadline = vr_os_now() + (idle ? PROBE_IDLE_NS : PROBE_NS);
        while ((status = look(line, marker)) == VRAM_ERR_NOT_READY && vr_os_now() < deadline) {
            vr_os_yield();
        }
    }
    probe_set(line, status == VRAM_ERR_NOT_READY ? marker : NULL);
    marker_drop(marker);
    return status;
}

vram_status vr_opencl_poll(struct vr_queue *queue) {
    struct vr_opencl_line *line = line_of(queue);
    if (vr_load(&line->failed, VR_ACQUIRE)) {
        return say_failed("clGetEventInfo", 0);
    }
    struct marker *marker = newest_hold(line);
    if (marker) {
        vram_status status = look(line, marker);
        marker_drop(marker);
        if (status != VRAM_OK) {
            return status;
        }
    }
    return probe(queue, line);
}

void vr_opencl_line_leave(struct vr_opencl_line *line, bool lost) {
    if (lost) {
        vr_mutex_lock(&line->lock);
        if (line->probe) {
            line->probe->event = NULL; /* no call of the driver: it is left */
        }
        vr_mutex_unlock(&line->lock);
        line_fail(line);
    }
    probe_set(line, NULL);
    line_drop(line);
}
