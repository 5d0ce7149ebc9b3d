/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.c: a thread that checks every device of a context at intervals.
 *
 *  (1) The monitor is in its context's list of watchers and pins the context. The thread has its
 *      own reference to the monitor, which it drops at its end.
 *  (2) Only one call ends the monitor. It sets `stop` and waits until the thread is done or the
 *      deadline has passed, since a callback may not return. Then it joins or detaches the thread.
 *      A callback on the thread itself detaches it at once.
 *  (3) `lock` is never held during a check.
 */
#include "core/object/walk.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"

struct vr_monitor {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_context *context; /* pinned */
    uint64_t interval_ns, maintain_ns;
    struct vr_thread thread;
    vr_atomic_u64 runner; /* the thread's number, once it runs */
    struct vr_mutex lock; /* guards the rest */
    struct vr_cond changed;
    bool stop, done;
};

/* -------------------------------------------------------------------- checks */

static bool must_stop(struct vr_monitor *monitor) {
    vr_mutex_lock(&monitor->lock);
    bool stop = monitor->stop;
    vr_mutex_unlock(&monitor->lock);
    return stop || vr_exiting();
}

static void check_pools(struct vr_monitor *monitor, struct vr_device_object *device) {
    struct vr_walk walk = {.context = monitor->context, .device = device};
    struct vr_pool *pool;
    uint64_t released;
    for (; !must_stop(monitor) && (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        if (monitor->maintain_ns) {
            (void)vr_pool_maintain(pool, monitor->maintain_ns, &released);
        }
        vr_pressure_tick(pool, true);
    }
}

static void check_devices(struct vr_monitor *monitor) {
    struct vr_device_object *device;
    for (uint64_t last = 0;
         !must_stop(monitor) && (device = vr_device_behind(monitor->context, last));
         vr_leave(device)) {
        struct vram_pressure now;
        last = device->object.handle;
        vr_pressure_of_device(device, NULL, &now);
        vr_watches_notify(device, NULL, &now);
        check_pools(monitor, device);
    }
}

static void monitor_run(void *argument) {
    struct vr_monitor *monitor = argument;
    vr_store(&monitor->runner, vr_os_thread_number(), VR_RELEASE);
    while (!must_stop(monitor)) {
        check_devices(monitor);
        vr_error_clear();
        uint64_t until = vr_os_now() + monitor->interval_ns;
        vr_mutex_lock(&monitor->lock);
        for (uint64_t now = vr_os_now(); !monitor->stop && now < until; now = vr_os_now()) {
            (void)vr_cond_wait(&monitor->changed, &monitor->lock, until - now);
        }
        vr_mutex_unlock(&monitor->lock);
    }
    uint64_t handle = monitor->object.handle;
    vr_mutex_lock(&monitor->lock);
    monitor->done = true;
    vr_cond_broadcast(&monitor->changed);
    vr_mutex_unlock(&monitor->lock);
    vr_handle_unpin(handle); /* keeps (1) */
}

/* -------------------------------------------------------------------- ending */

static void monitor_free(void *memory) {
    struct vr_monitor *monitor = memory;
    uint64_t context = monitor->context->object.handle;
    vr_cond_destroy(&monitor->changed);
    vr_mutex_destroy(&monitor->lock);
    vr_mem_free(monitor);
    vr_handle_unpin(context);
}

/* Waits until the thread is done; false: the deadline has passed. */
static bool wait_for_thread(struct vr_monitor *monitor, uint64_t ns) {
    uint64_t until = vr_os_now() + ns;
    vr_mutex_lock(&monitor->lock);
    monitor->stop = true;
    vr_cond_broadcast(&monitor->changed);
    for (uint64_t now = vr_os_now(); !monitor->done && now < until; now = vr_os_now()) {
        (void)vr_cond_wait(&monitor->changed, &monitor->lock, until - now);
    }
    bool done = monitor->done;
    vr_mutex_unlock(&monitor->lock);
    return done;
}

/* Keeps (2). VRAM_ERR_TIMEOUT: the thread is still running. */
static vram_status monitor_end(void *object) {
    VR_OPERATION("vram_monitor_end");
    struct vr_monitor *monitor = object;
    vr_mutex_lock(&monitor->context->lock);
    vr_link_remove(&monitor->watcher.link);
    vr_mutex_unlock(&monitor->context->lock);
    bool own = vr_load(&monitor->runner, VR_ACQUIRE) == vr_os_thread_number();
    bool done = wait_for_thread(monitor, own ? 0 : monitor->context->wait_ns);
    if (done) {
        vr_os_thread_join(&monitor->thread);
    } else {
        vr_os_thread_detach(&monitor->thread);
    }
    return done || own
               ? VRAM_OK
               : vr_fail(VRAM_ERR_TIMEOUT, "the monitor has not ended: a callback does not return");
}

static void context_closing(struct vr_watcher *watcher, bool finished) {
    struct vram_error error;
    vram_status status = VRAM_OK;
    (void)finished;
    vr_error_save(&error);
    (void)vr_object_end(&VR_CONTAINER(watcher, struct vr_monitor, watcher)->object, monitor_end,
                        &status);
    vr_error_restore(&error);
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "a monitor does not end: a callback does not return");
    }
}

vram_status vram_monitor_end(vram_monitor *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_MONITOR, handle, monitor_end, NULL);
}

/* ----------------------------------------------------------------- beginning */

/* Lists the monitor and starts its thread; undone by the caller. */
static vram_status monitor_start(struct vr_monitor *monitor) {
    struct vr_context *context = monitor->context;
    vr_mutex_lock(&context->lock);
    bool closing = context->closing;
    if (!closing) {
        /* The thread runs before another call can end the monitor, which has to find it in the
           list. */
        vr_handle_ref(monitor->object.handle);
        vram_status status =
            vr_os_thread_start(&monitor->thread, "vram-monitor", monitor_run, monitor);
        if (status == VRAM_OK) {
            vr_list_append(&context->watchers, &monitor->watcher.link);
        }
        vr_mutex_unlock(&context->lock);
        if (status != VRAM_OK) {
            vr_handle_unpin(monitor->object.handle);
        }
        return status;
    }
    vr_mutex_unlock(&context->lock);
    return vr_fail(VRAM_ERR_SHUTDOWN, "the context is being destroyed");
}

static vram_status monitor_begin(struct vr_context *context,
                                 const struct vram_monitor_options *options, vram_monitor **out) {
    struct vr_monitor *monitor = vr_mem_alloc(1, sizeof *monitor, vr_operation());
    if (!monitor) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&monitor->changed);
    if (status != VRAM_OK) {
        vr_mem_free(monitor);
        return status;
    }
    vr_mutex_init(&monitor->lock, VR_RANK_MONITOR);
    monitor->object.process = vr_os_process_generation();
    monitor->watcher.closing = context_closing;
    monitor->context = context;
    monitor->interval_ns = options->interval_ns;
    monitor->maintain_ns = options->maintain_ns;
    vr_handle_ref(context->object.handle);
    status = vr_handle_publish(VR_KIND_MONITOR, monitor, monitor_free, &monitor->object.handle);
    if (status != VRAM_OK) {
        monitor_free(monitor);
        return status;
    }
    uint64_t handle = monitor->watcher.handle = monitor->object.handle;
    status = monitor_start(monitor);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_monitor *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_monitor_begin(vram_context *handle, const vram_monitor_options *options,
                               vram_monitor **monitor) {
    VR_CALL;
    struct vram_monitor_options taken;
    void *context;
    if (!monitor) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the monitor is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_CONTEXT, handle, &context);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (!taken.interval_ns) {
        taken.interval_ns = vr_option_number(VR_OPTION_MONITOR_INTERVAL);
    }
    if (taken.interval_ns > UINT64_C(3600000000000)) {
        status = vr_fail(VRAM_ERR_INVALID, "the interval is too long: use at most one hour");
    } else {
        status = monitor_begin(context, &taken, monitor);
    }
    vr_leave(context);
    return status;
}
