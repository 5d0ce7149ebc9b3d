/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure_watch.c: calls callbacks when pressure crosses a threshold.
 *
 * A watch of a device or of one of its pools is in the device's list of watchers, and pins both.
 * All of its state but `runner` changes under the device's lock; callbacks run without it.
 *
 *  (1) A watch has at most one call in progress: `runner` is its thread. Other threads skip the
 *      watch meanwhile; the next check finds what has changed.
 *  (2) A watch that has ended is in no list, and gets no new call. The call that ends it waits for
 *      the callback in progress, unless it is made by that callback.
 */
#include "core/object/pool_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

enum { EDGES_MOST = 3, WAIT_NS = 50000 };

struct vr_watch {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    struct vr_pool *pool;            /* pinned; NULL: of the device */
    struct vram_watch_options options;
    uint32_t above;       /* edges that are crossed upwards; device's lock */
    uint32_t level;       /* of the last notification; device's lock */
    vr_atomic_u64 runner; /* number of the thread inside `call`; 0: none */
};

/* --------------------------------------------------------------------- edges */

/* Records whether the threshold is exceeded; returns whether that has changed. Under the device's
   lock. */
static bool cross_threshold(struct vr_watch *watch, uint32_t edge, double threshold, double value) {
    bool was = watch->above & edge;
    bool is = value > threshold || (was && value >= threshold - watch->options.hysteresis);
    watch->above = is ? watch->above | edge : watch->above & ~edge;
    return is != was;
}

static struct vram_pressure_event event_of(const struct vr_watch *watch, vram_pressure_edge edge,
                                           bool up, double threshold,
                                           const struct vram_pressure *p) {
    return (struct vram_pressure_event){
        .size = sizeof(struct vram_pressure_event),
        .edge = edge,
        .up = up,
        .level = p->level,
        .last = (vram_pressure_level)watch->level,
        .value = p->value,
        .threshold = threshold,
        .device = (vram_device *)(uintptr_t)watch->device->object.handle,
        .pool = watch->pool ? (vram_pool *)(uintptr_t)watch->pool->object.handle : NULL,
    };
}

/* Finds the notifications that are due for this watch, lower thresholds first; the caller reverses
   them for a fall. Under the device's lock. */
static uint32_t find_edges(struct vr_watch *watch, const struct vram_pressure *p,
                           struct vram_pressure_event *events) {
    const struct vram_watch_options *options = &watch->options;
    uint32_t count = 0;
    uint32_t now = vr_pressure_level_after(watch->level, p, options->hysteresis);
    if ((options->edges & VRAM_PRESSURE_LEVEL) && now != watch->level) {
        bool up = now > watch->level;
        double begin = vr_pressure_level_begin(up ? now : watch->level);
        events[count] = event_of(watch, VRAM_PRESSURE_LEVEL, up, begin, p);
        events[count++].level = (vram_pressure_level)now;
    }
    if ((options->edges & VRAM_PRESSURE_WARN) &&
        cross_threshold(watch, VRAM_PRESSURE_WARN, options->warn, p->value)) {
        events[count++] = event_of(watch, VRAM_PRESSURE_WARN, watch->above & VRAM_PRESSURE_WARN,
                                   options->warn, p);
    }
    if ((options->edges & VRAM_PRESSURE_EMERGENCY) &&
        cross_threshold(watch, VRAM_PRESSURE_EMERGENCY, options->emergency, p->value)) {
        events[count++] = event_of(watch, VRAM_PRESSURE_EMERGENCY,
                                   watch->above & VRAM_PRESSURE_EMERGENCY, options->emergency, p);
    }
    watch->level = now;
    return count;
}

/* ----------------------------------------------------------------- notifying */

static bool is_watch(uint64_t handle) {
    return (handle & 0xff) == VR_KIND_WATCH;
}

/* The next watch of the pool, or of the device, by handle, that has a notification; with a
   reference, and its call begun; keeps (1). NULL after the last. */
static struct vr_watch *next_notified(struct vr_device_object *device, const struct vr_pool *pool,
                                      const struct vram_pressure *p, uint64_t *last,
                                      struct vram_pressure_event *events, uint32_t *count) {
    struct vr_watch *best;
    vr_mutex_lock(&device->lock);
    do {
        best = NULL;
        for (struct vr_link *link = vr_list_first(&device->watchers); link;
             link = vr_list_next(&device->watchers, link)) {
            struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
            struct vr_watch *watch = VR_CONTAINER(watcher, struct vr_watch, watcher);
            if (is_watch(watcher->handle) && watcher->handle > *last && watch->pool == pool &&
                (!best || watcher->handle < best->watcher.handle)) {
                best = watch;
            }
        }
        *last = best ? best->watcher.handle : *last;
        bool idle = best && !vr_load(&best->runner, VR_ACQUIRE);
        *count = idle ? find_edges(best, p, events) : 0;
    } while (best && !*count);
    if (best) {
        vr_handle_ref(best->object.handle); /* listed, so the owner still has its reference */
        vr_store(&best->runner, vr_os_thread_number(), VR_RELEASE);
    }
    vr_mutex_unlock(&device->lock);
    return best;
}

/* After its end, which its own callback may cause, it gets no more calls: its user data may be
   gone. */
static bool is_open(const struct vr_watch *watch) {
    return !vr_handle_was(VR_KIND_WATCH, (const void *)(uintptr_t)watch->object.handle);
}

void vr_watches_notify(struct vr_device_object *device, struct vr_pool *pool,
                       const struct vram_pressure *p) {
    VR_UNCANCELLED;
    struct vram_pressure_event events[EDGES_MOST];
    struct vr_watch *watch;
    uint32_t count;
    uint64_t last = 0;
    while (p->known && (watch = next_notified(device, pool, p, &last, events, &count))) {
        struct vram_error error;
        vr_error_save(&error);
        for (uint32_t i = 0; i < count && is_open(watch); i++) {
            watch->options.call(watch->options.user, &events[events[0].up ? i : count - 1 - i]);
        }
        vr_error_restore(&error);
        vr_store(&watch->runner, 0, VR_RELEASE);
        vr_handle_unpin(watch->object.handle);
    }
}

/* -------------------------------------------------------------------- ending */

static void watch_free(void *memory) {
    struct vr_watch *watch = memory;
    uint64_t device = watch->device->object.handle;
    uint64_t pool = watch->pool ? watch->pool->object.handle : 0;
    vr_mem_free(watch);
    if (pool) {
        vr_handle_unpin(pool);
    }
    vr_handle_unpin(device);
}

/* Removes the watch from the list and waits for its call; keeps (2). The caller has a reference.
   False: the call is still running. */
static bool watch_retire(struct vr_watch *watch, uint64_t deadline) {
    bool owner = vr_handle_retire(watch->object.handle);
    vr_mutex_lock(&watch->device->lock);
    vr_link_remove(&watch->watcher.link);
    vr_mutex_unlock(&watch->device->lock);
    uint64_t runner;
    while ((runner = vr_load(&watch->runner, VR_ACQUIRE)) && runner != vr_os_thread_number() &&
           !vr_deadline_passed(deadline)) {
        vr_clock_sleep(WAIT_NS);
    }
    if (owner) {
        vr_handle_unpin(watch->object.handle);
    }
    return !runner || runner == vr_os_thread_number();
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_watch *watch = VR_CONTAINER(watcher, struct vr_watch, watcher);
    (void)finished;
    (void)watch_retire(watch, vr_deadline_in(watch->device->context->wait_ns));
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

/* A watch of that pool, with a reference. */
static struct vr_watch *watch_of(struct vr_pool *pool) {
    struct vr_watch *found = NULL;
    vr_mutex_lock(&pool->device->lock);
    for (struct vr_link *link = vr_list_first(&pool->device->watchers); link && !found;
         link = vr_list_next(&pool->device->watchers, link)) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        struct vr_watch *watch = VR_CONTAINER(watcher, struct vr_watch, watcher);
        found = is_watch(watcher->handle) && watch->pool == pool ? watch : NULL;
    }
    if (found) {
        vr_handle_ref(found->object.handle);
    }
    vr_mutex_unlock(&pool->device->lock);
    return found;
}

void vr_watches_end(struct vr_pool *pool, uint64_t deadline) {
    for (struct vr_watch *watch; (watch = watch_of(pool));) {
        (void)watch_retire(watch, deadline);
        vr_handle_unpin(watch->object.handle);
    }
}

vram_status vram_watch_end(vram_watch *handle) {
    VR_CALL;
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_WATCH, handle, &entered);
    struct vr_watch *watch = entered;
    if (!watch) {
        return status;
    }
    bool ended = watch_retire(watch, vr_deadline_in(watch->device->context->wait_ns));
    vr_leave(watch);
    return ended ? VRAM_OK : vr_fail(VRAM_ERR_TIMEOUT, "the callback of the watch does not return");
}

/* ----------------------------------------------------------------- beginning */

static vram_status read_options(const struct vram_watch_options *options,
                                struct vram_watch_options *taken) {
    const uint32_t edges = VRAM_PRESSURE_WARN | VRAM_PRESSURE_EMERGENCY | VRAM_PRESSURE_LEVEL;
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (!taken->call) {
        return vr_fail(VRAM_ERR_INVALID, "the callback of the watch is NULL");
    }
    if (taken->edges & ~edges) {
        return vr_fail(VRAM_ERR_INVALID, "unknown edges: 0x%x", taken->edges);
    }
    taken->edges = taken->edges ? taken->edges : VRAM_PRESSURE_WARN | VRAM_PRESSURE_EMERGENCY;
    taken->warn = taken->warn != 0 ? taken->warn : vr_pressure_option(VR_OPTION_PRESSURE_WARN);
    taken->emergency =
        taken->emergency != 0 ? taken->emergency : vr_pressure_option(VR_OPTION_PRESSURE_EMERGENCY);
    taken->hysteresis = taken->hysteresis != 0 ? taken->hysteresis
                                               : vr_pressure_option(VR_OPTION_PRESSURE_HYSTERESIS);
    return vr_pressure_thresholds(taken->warn, taken->emergency, taken->hysteresis);
}

/* `device` and `pool` are entered. */
static vram_status watch_begin(struct vr_device_object *device, struct vr_pool *pool,
                               const struct vram_watch_options *options, vram_watch **out) {
    struct vr_watch *watch = vr_mem_alloc(1, sizeof *watch, vr_operation());
    if (!watch) {
        return VRAM_ERR_HOST_MEMORY;
    }
    watch->object.process = vr_os_process_generation();
    watch->watcher.closing = device_closing;
    watch->watcher.queue_ended = queue_ended;
    watch->options = *options;
    watch->level = VRAM_PRESSURE_LOW;
    watch->device = device;
    watch->pool = pool;
    vr_handle_ref(device->object.handle);
    if (pool) {
        vr_handle_ref(pool->object.handle);
    }
    vram_status status = vr_handle_publish(VR_KIND_WATCH, watch, watch_free, &watch->object.handle);
    if (status != VRAM_OK) {
        watch_free(watch);
        return status;
    }
    uint64_t handle = watch->watcher.handle = watch->object.handle;
    status = vr_device_list_watcher(device, &watch->watcher);
    if (status != VRAM_OK) {
        vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    if (pool && !vr_pool_is_open(pool)) {
        /* The pool has ended in the meantime, perhaps before this watch was listed. */
        vr_watches_end(pool, vr_deadline_in(device->context->wait_ns));
        return vr_fail(VRAM_ERR_STALE, "the pool is being destroyed");
    }
    *out = (vram_watch *)(uintptr_t)handle;
    return VRAM_OK;
}

vram_status vram_pool_watch_begin(vram_pool *handle, const vram_watch_options *options,
                                  vram_watch **watch) {
    VR_CALL;
    struct vram_watch_options taken;
    void *entered;
    if (!watch) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the watch is NULL");
    }
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = read_options(options, &taken);
    if (status == VRAM_OK) {
        status = watch_begin(pool->device, pool, &taken, watch);
    }
    vr_leave(pool);
    return status;
}

vram_status vram_device_watch_begin(vram_device *handle, const vram_watch_options *options,
                                    vram_watch **watch) {
    VR_CALL;
    struct vram_watch_options taken;
    void *device;
    if (!watch) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the watch is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = read_options(options, &taken);
    if (status == VRAM_OK) {
        status = watch_begin(device, NULL, &taken, watch);
    }
    vr_leave(device);
    return status;
}
