/* SPDX-License-Identifier: Apache-2.0 */
/* fake_opencl_event.c: events, those of the program's own, and who is called when they come. */
#include "opencl/fake_opencl.h"

#include <stdlib.h>
#include <string.h>

static struct fake_callback *late; /* callbacks that wait for fake_opencl_control.call_back */

void fake_event_drop(struct vr_cl_event *event) {
    if (fake_drop(event, 'e')) {
        fake_gone(event);
    }
}

struct vr_cl_event *fake_event_new(struct vr_cl_context *context, bool user) {
    struct vr_cl_event *event = fake_new(sizeof *event, 'e');
    event->context = context;
    event->status = 2;
    event->user = user;
    return event;
}

void fake_callbacks_run(struct fake_callback *callbacks) {
    while (callbacks) {
        struct fake_callback *next = callbacks->next;
        fake_lock();
        vr_cl_int status = callbacks->event->status;
        fake_unlock();
        callbacks->notify(callbacks->event, status, callbacks->user);
        fake_lock();
        fake_event_drop(callbacks->event);
        fake_unlock();
        free(callbacks);
        callbacks = next;
    }
}

struct fake_callback *fake_event_complete(struct vr_cl_event *event, vr_cl_int status) {
    event->status = status;
    struct fake_callback *callbacks = event->callbacks;
    event->callbacks = NULL;
    if (fake_settings.late_callbacks && callbacks) {
        struct fake_callback *last = callbacks;
        while (last->next) {
            last = last->next;
        }
        last->next = late;
        late = callbacks;
        callbacks = NULL;
    }
    return callbacks;
}

static struct vr_cl_event *create_user_event(struct vr_cl_context *context, vr_cl_int *code) {
    fake_lock();
    struct vr_cl_event *event = fake_event_new(context, true);
    fake_unlock();
    *code = VR_CL_SUCCESS;
    return event;
}

static vr_cl_int set_user_event(struct vr_cl_event *event, vr_cl_int status) {
    fake_lock();
    struct fake_callback *callbacks = NULL;
    if (fake_is(event, 'e') && event->user && event->status > 0) {
        callbacks = fake_event_complete(event, status);
    } else {
        fake_violate("a user event was set twice, or is none");
    }
    fake_unlock();
    fake_callbacks_run(callbacks);
    return VR_CL_SUCCESS;
}

static vr_cl_int get_event_info(struct vr_cl_event *event, vr_cl_uint what, size_t bytes,
                                void *value, size_t *needed) {
    (void)what, (void)bytes, (void)needed;
    fake_lock();
    vr_cl_int status = fake_is(event, 'e') ? event->status : -1;
    fake_unlock();
    memcpy(value, &status, sizeof status);
    return VR_CL_SUCCESS;
}

static vr_cl_int release_event(struct vr_cl_event *event) {
    fake_lock();
    fake_event_drop(event);
    fake_unlock();
    return VR_CL_SUCCESS;
}

/* One that has come is called at once, as drivers may. */
static vr_cl_int set_callback(struct vr_cl_event *event, vr_cl_int status, vr_cl_notify_fn *notify,
                              void *user) {
    struct fake_callback *callback = calloc(1, sizeof *callback);
    (void)status;
    *callback = (struct fake_callback){.event = event, .notify = notify, .user = user};
    fake_lock();
    bool good = fake_is(event, 'e');
    if (good) {
        fake_keep(&event->head);
        callback->next = event->callbacks;
        event->callbacks = callback;
        callback = event->status <= 0 ? fake_event_complete(event, event->status) : NULL;
    }
    fake_unlock();
    fake_callbacks_run(callback);
    return VR_CL_SUCCESS;
}

void fake_engine_call_back(void) {
    fake_lock();
    struct fake_callback *callbacks = late;
    late = NULL;
    fake_unlock();
    fake_callbacks_run(callbacks);
}

void fake_fill_event_calls(struct vr_opencl_api *api) {
    api->clCreateUserEvent = create_user_event;
    api->clSetUserEventStatus = set_user_event;
    api->clGetEventInfo = get_event_info;
    api->clReleaseEvent = release_event;
    api->clSetEventCallback = set_callback;
}
