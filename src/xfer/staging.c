/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.c: a device's staging from its first use to its end, and its slots; see staging.h.
 */
#include "xfer/staging.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "device/quiesce.h"

#include <string.h>

static void counter_add(vr_atomic_u64 *counter, uint64_t value) {
    vr_fetch_add(counter, value, VR_RELAXED);
}

static vram_device *device_of(const struct vr_staging *staging) {
    return (vram_device *)(uintptr_t)staging->device->object.handle;
}

/* ------------------------------------------------------------------------ slots */

/* Whether the work before the point is complete. Keeps (1). */
static bool has_passed(const struct vr_staging *staging, vram_point *point) {
    struct vram_error error;
    vr_error_save(&error);
    if (!point->value && !vr_handle_was(VR_KIND_QUEUE, point->queue)) {
        (void)vr_submit_mark(point->queue, point); /* it may be possible by now */
    }
    bool lost = vr_load(&staging->device->base.lost, VR_ACQUIRE);
    bool passed = lost || vr_handle_was(VR_KIND_QUEUE, point->queue) ||
                  (point->value && vr_point_poll(*point) == VRAM_OK);
    vr_error_restore(&error);
    return passed;
}

/* The oldest busy slot, with a transfer given only of that transfer. Under the lock. */
static struct vr_staging_slot *oldest_busy(struct vr_staging *staging, uint64_t transfer) {
    struct vr_staging_slot *oldest = NULL;
    for (uint32_t i = 0; i < staging->slot_most; i++) {
        struct vr_staging_slot *slot = &staging->slots[i];
        if (slot->state == VR_SLOT_BUSY && (!transfer || slot->transfer == transfer) &&
            (!oldest || slot->sequence < oldest->sequence)) {
            oldest = slot;
        }
    }
    return oldest;
}

static struct vr_staging_slot *find_slot(struct vr_staging *staging, enum vr_slot_state state) {
    for (uint32_t i = 0; i < staging->slot_most; i++) {
        if (staging->slots[i].state == state) {
            return &staging->slots[i];
        }
    }
    return NULL;
}

/* Sets the state of a slot, and notifies waiters. */
static void slot_set_state(struct vr_staging *staging, struct vr_staging_slot *slot,
                           enum vr_slot_state state) {
    vr_mutex_lock(&staging->lock);
    slot->state = state;
    if (state == VR_SLOT_BUSY) {
        slot->sequence = ++staging->sequences;
    } else {
        slot->transfer = 0;
    }
    vr_cond_broadcast(&staging->changed);
    vr_mutex_unlock(&staging->lock);
}

void vr_slot_free(struct vr_staging *staging, struct vr_staging_slot *slot) {
    slot_set_state(staging, slot, VR_SLOT_FREE);
}

vram_status vr_slot_busy(struct vr_staging *staging, struct vr_staging_slot *slot,
                         vram_queue *queue) {
    slot->point = (vram_point){queue, 0};
    vram_status status = vr_submit_mark(queue, &slot->point);
    slot_set_state(staging, slot, VR_SLOT_BUSY);
    return status;
}

/* Polls a busy slot without the lock; the slot is HELD meanwhile. NULL: it has not passed, and is
   busy again. */
static struct vr_staging_slot *try_busy(struct vr_staging *staging, struct vr_staging_slot *slot) {
    if (has_passed(staging, &slot->point)) {
        return slot;
    }
    vr_mutex_lock(&staging->lock);
    slot->state = VR_SLOT_BUSY; /* keeps its old age */
    vr_mutex_unlock(&staging->lock);
    return NULL;
}

static struct vr_staging_slot *slot_make(struct vr_staging *staging, struct vr_staging_slot *slot,
                                         bool *refused) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status =
        vr_device_alloc(device_of(staging), staging->slot_bytes, VRAM_MEMORY_PINNED, &slot->memory);
    if (status == VRAM_OK) {
        vr_copy_keep(&staging->workers);
        return slot;
    }
    vr_log(VRAM_LOG_WARN, "no page-locked memory for copies, the driver does them: %s",
           vr_error_get()->text);
    vr_error_restore(&error); /* the driver's way is slower, but not a failure */
    counter_add(&staging->counts.refusals, 1);
    slot_set_state(staging, slot, VR_SLOT_NONE);
    *refused = true;
    return NULL;
}

bool vr_slot_any(struct vr_staging *staging, uint64_t transfer) {
    bool any = false;
    vr_mutex_lock(&staging->lock);
    for (uint32_t i = 0; i < staging->slot_most && !any; i++) {
        const struct vr_staging_slot *slot = &staging->slots[i];
        any = slot->state != VR_SLOT_NONE && (!transfer || slot->transfer == transfer);
    }
    vr_mutex_unlock(&staging->lock);
    return any;
}

static void slot_own(struct vr_staging *staging, struct vr_staging_slot *slot, uint64_t transfer) {
    vr_mutex_lock(&staging->lock);
    slot->transfer = transfer;
    vr_mutex_unlock(&staging->lock);
}

struct vr_staging_slot *vr_slot_take(struct vr_staging *staging, uint64_t transfer, bool may_make,
                                     bool *refused) {
    vr_mutex_lock(&staging->lock);
    struct vr_staging_slot *slot = find_slot(staging, VR_SLOT_FREE);
    struct vr_staging_slot *busy = slot ? NULL : oldest_busy(staging, 0);
    struct vr_staging_slot *taken = slot ? slot : busy;
    if (taken) {
        taken->state = VR_SLOT_HELD;
    }
    vr_mutex_unlock(&staging->lock);
    if (busy) {
        slot = try_busy(staging, busy);
    }
    if (!slot && may_make) {
        vr_mutex_lock(&staging->lock);
        struct vr_staging_slot *none = find_slot(staging, VR_SLOT_NONE);
        if (none) {
            none->state = VR_SLOT_HELD;
        }
        vr_mutex_unlock(&staging->lock);
        slot = none ? slot_make(staging, none, refused) : NULL;
    }
    if (slot) {
        slot_own(staging, slot, transfer);
    }
    return slot;
}

vram_status vr_slot_await(struct vr_staging *staging, uint64_t whose, uint64_t transfer,
                          uint64_t ns, struct vr_staging_slot **slot) {
    vr_mutex_lock(&staging->lock);
    struct vr_staging_slot *busy = oldest_busy(staging, whose);
    if (busy) {
        busy->state = VR_SLOT_HELD;
    }
    vr_mutex_unlock(&staging->lock);
    *slot = NULL;
    if (!busy) {
        return VRAM_OK;
    }
    counter_add(&staging->counts.waits, 1);
    struct vram_error error;
    vr_error_save(&error);
    bool marked = busy->point.value != 0;
    vram_status status =
        marked ? vr_point_wait(busy->point, ns) : vr_queue_wait(busy->point.queue, ns);
    bool idle = !marked && status == VRAM_OK;              /* the queue, and so the slot */
    if (status == VRAM_ERR_TIMEOUT || whose != transfer) { /* others' failures are theirs */
        vr_error_restore(&error);
        status = VRAM_OK;
    }
    *slot = idle ? busy : try_busy(staging, busy);
    if (*slot) {
        slot_own(staging, *slot, transfer);
    }
    return status;
}

bool vr_slot_fetch(struct vr_staging *staging, vram_queue *queue, uint64_t transfer, void *to,
                   vram_addr from, uint64_t bytes, vram_status *status) {
    bool refused = false, fits = bytes <= staging->slot_bytes;
    struct vram_error error;
    struct vr_staging_slot *slot = fits ? vr_slot_take(staging, transfer, true, &refused) : NULL;
    if (!slot) {
        return false;
    }
    vr_error_save(&error);
    *status = vr_submit_download(queue, (void *)(uintptr_t)slot->memory, from, bytes);
    if (*status != VRAM_OK) {
        vr_slot_free(staging, slot);
        if (vr_status_is_exhausted(*status)) {
            vr_error_restore(&error);
            return false;
        }
        return true;
    }
    counter_add(&staging->counts.chunks, 1);
    slot->point = (vram_point){queue, 0};
    *status = vr_submit_mark(queue, &slot->point);
    *status = *status == VRAM_OK ? vr_point_wait(slot->point, staging->device->context->wait_ns)
                                 : vr_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    if (*status == VRAM_OK) {
        vr_error_restore(&error);
        memcpy(to, (const void *)(uintptr_t)slot->memory, bytes);
        vr_slot_free(staging, slot);
    } else {
        (void)vr_slot_busy(staging, slot, queue); /* the device may still write it */
    }
    return true;
}

/* Frees the memory of a HELD slot, unless its driver would wait for work now. */
static bool free_slot_memory(struct vr_staging *staging, const struct vr_staging_slot *slot,
                             bool always) {
    if (!always && !vr_quiesce_begin(staging->device)) {
        return false;
    }
    bool given = vr_device_free(device_of(staging), slot->memory) == VRAM_OK;
    if (!always) {
        vr_quiesce_end(staging->device);
    }
    return given;
}

/* `always`: even if there is work. Frees one slot at a time, so that a launch waits for at most
   one. */
static uint64_t trim_slots(struct vr_staging *staging, bool always) {
    struct vram_error error;
    uint64_t bytes = 0;
    vr_error_save(&error);
    for (uint32_t i = 0; i < staging->slot_most; i++) {
        struct vr_staging_slot *slot = &staging->slots[i];
        vr_mutex_lock(&staging->lock);
        bool busy = slot->state == VR_SLOT_BUSY, mine = busy || slot->state == VR_SLOT_FREE;
        slot->state = mine ? VR_SLOT_HELD : slot->state;
        vr_mutex_unlock(&staging->lock);
        if (!mine || (busy && !try_busy(staging, slot))) {
            continue;
        }
        bool given = free_slot_memory(staging, slot, always);
        bytes += given ? staging->slot_bytes : 0;
        slot_set_state(staging, slot, given ? VR_SLOT_NONE : VR_SLOT_FREE);
    }
    vr_error_restore(&error);
    return bytes;
}

/* Drivers that make callers of copies wait (CUDA, HIP) also wait for all work when page-locked
   memory is freed. Without work only: no thread must wait for a kernel that polls a ring. */
uint64_t vr_staging_trim(struct vr_staging *staging) {
    bool always = !staging->device->base.pageable_waits;
    uint64_t bytes = trim_slots(staging, always);
    return bytes + vr_registration_trim(&staging->registrations, always);
}

/* Runs on a worker that has slept for the option's time. Copies too small for workers may have run
   meanwhile. */
static bool trim_when_idle(struct vr_copy_workers *workers) {
    struct vr_staging *staging = VR_CONTAINER(workers, struct vr_staging, workers);
    vr_mutex_lock(&staging->lock);
    bool used =
        vr_entry_inside(&staging->calls) || vr_os_now() - staging->used_ns < workers->idle_ns;
    bool stop = !vr_entry_is_open(&staging->calls);
    vr_mutex_unlock(&staging->lock);
    if (!used && !stop) {
        (void)trim_slots(staging, false);
    }
    return stop || !vr_slot_any(staging, 0);
}

/* --------------------------------------------------------- creation and end */

static void staging_free(void *memory) {
    struct vr_staging *staging = memory;
    uint64_t device = staging->device->object.handle;
    vr_registrations_destroy(&staging->registrations);
    vr_copy_destroy(&staging->workers);
    vr_cond_destroy(&staging->changed);
    vr_mutex_destroy(&staging->lock);
    vr_mem_free(staging);
    vr_handle_unpin(device);
}

/* Points of a queue that has ended have passed: nothing to do. */
static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher, (void)queue, (void)finished;
}

/* Waits for calls to leave; false: some were still inside at the deadline. */
static bool wait_for_calls(struct vr_staging *staging, bool finished) {
    (void)vr_entry_close(&staging->calls);
    vr_mutex_lock(&staging->lock);
    staging->abandoned = !finished;
    vr_cond_broadcast(&staging->changed);
    vr_mutex_unlock(&staging->lock);
    return vr_entry_wait(&staging->calls, vr_deadline_in(staging->device->context->wait_ns), NULL);
}

/* The device frees the slots, which are its memory, unless a thread may still use them. Keeps
   (5). */
static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_staging *staging = VR_CONTAINER(watcher, struct vr_staging, watcher);
    struct vr_device_object *device = staging->device;
    if (!vr_handle_retire(staging->object.handle)) {
        return;
    }
    vr_mutex_lock(&device->lock);
    vr_link_remove(&watcher->link);
    vr_mutex_unlock(&device->lock);
    uint64_t deadline = vr_os_now() + device->context->wait_ns;
    bool done = wait_for_calls(staging, finished);
    done = vr_copy_end(&staging->workers, deadline) && done;
    if (done && finished) {
        vr_registrations_end(&staging->registrations);
    }
    if (!done) {
        vr_log(VRAM_LOG_ERROR,
               "a copy of pageable memory does not end: its device and memory are kept");
        vr_mutex_lock(&device->lock);
        device->unfinished = true;
        vr_mutex_unlock(&device->lock);
    }
    vr_handle_unpin(staging->object.handle);
}

/* Runs on any thread that runs out of memory, even while the device closes: keeps (5). */
static uint64_t trim_on_pressure(struct vr_watcher *watcher) {
    struct vr_staging *staging = VR_CONTAINER(watcher, struct vr_staging, watcher);
    if (!vr_entry_enter(&staging->calls)) {
        return 0;
    }
    uint64_t bytes = vr_staging_trim(staging);
    vr_entry_leave(&staging->calls);
    return bytes;
}

static uint32_t workers_wanted(void) {
    uint64_t threads = vr_option_number(VR_OPTION_STAGING_THREADS);
    if (!threads) {
        threads = vr_os_processors() / 2;
        threads = threads > 8 ? 8 : threads;
    }
    return threads > 1 ? (uint32_t)threads - 1 : 0;
}

static vram_value node_of(const struct vr_device_object *device) {
    const struct vram_device_info *info = &device->base.info;
    return info->pci_known ? vr_os_numa_of_device("", info->pci) : (vram_value){0, false};
}

/* Not yet published. */
static vram_status staging_make(struct vr_device_object *device, struct vr_staging **out) {
    struct vr_staging *staging = vr_mem_alloc(1, sizeof *staging, vr_operation());
    if (!staging) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&staging->changed);
    if (status == VRAM_OK) {
        status = vr_copy_begin(&staging->workers, workers_wanted(), node_of(device));
        if (status == VRAM_OK) {
            status = vr_registrations_begin(&staging->registrations, device);
            if (status != VRAM_OK) {
                vr_copy_destroy(&staging->workers);
            }
        }
        if (status != VRAM_OK) {
            vr_cond_destroy(&staging->changed);
        }
    }
    if (status != VRAM_OK) {
        vr_mem_free(staging);
        return status;
    }
    vr_mutex_init(&staging->lock, VR_RANK_STAGING);
    staging->object.process = vr_os_process_generation();
    staging->device = device;
    vr_handle_ref(device->object.handle);
    staging->watcher.queue_ended = queue_ended;
    staging->watcher.closing = device_closing;
    staging->watcher.spare = trim_on_pressure;
    staging->slot_bytes = vr_option_number(VR_OPTION_STAGING_SLOT);
    staging->slot_most =
        device->base.pinned ? (uint32_t)vr_option_number(VR_OPTION_STAGING_SLOTS) : 0;
    status = vr_handle_publish(VR_KIND_STAGING, staging, staging_free, &staging->object.handle);
    if (status != VRAM_OK) {
        staging_free(staging);
        return status;
    }
    staging->workers.idle_ns = vr_option_number(VR_OPTION_STAGING_IDLE);
    staging->workers.idle = trim_when_idle;
    staging->workers.owner = staging->watcher.handle = staging->object.handle;
    *out = staging;
    return VRAM_OK;
}

/* The staging in the device's list, with a reference; under the device's lock. */
static struct vr_staging *listed_staging(struct vr_device_object *device) {
    for (struct vr_link *link = vr_list_first(&device->watchers); link;
         link = vr_list_next(&device->watchers, link)) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        if ((watcher->handle & 0xff) == VR_KIND_STAGING) {
            vr_handle_ref(watcher->handle); /* listed: its owner's reference exists */
            return VR_CONTAINER(watcher, struct vr_staging, watcher);
        }
    }
    return NULL;
}

/* Adds a new staging to the device's list, unless another thread was faster. Returns the listed
   one, or NULL when the device is closing. */
static struct vr_staging *list_staging(struct vr_device_object *device, struct vr_staging *fresh) {
    vr_mutex_lock(&device->lock);
    struct vr_staging *found = listed_staging(device);
    if (!found && !device->closing) {
        vr_device_append_watcher(device, &fresh->watcher);
        vr_handle_ref(fresh->object.handle);
        found = fresh;
    }
    vr_mutex_unlock(&device->lock);
    if (found != fresh) {
        uint64_t handle = fresh->object.handle;
        (void)vr_handle_retire(handle);
        vr_handle_unpin(handle);
    }
    return found;
}

vram_status vr_staging_enter(struct vr_device_object *device, struct vr_staging **out) {
    vr_mutex_lock(&device->lock);
    struct vr_staging *staging = listed_staging(device);
    vr_mutex_unlock(&device->lock);
    if (!staging) {
        struct vr_staging *fresh = NULL;
        vram_status status = staging_make(device, &fresh);
        if (status != VRAM_OK) {
            return status;
        }
        staging = list_staging(device, fresh);
    }
    if (!staging || !vr_entry_enter(&staging->calls)) {
        if (staging) {
            vr_handle_unpin(staging->object.handle);
        }
        return vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    *out = staging;
    return VRAM_OK;
}

void vr_staging_leave(struct vr_staging *staging) {
    vr_entry_leave(&staging->calls);
    vr_handle_unpin(staging->object.handle);
}

bool vr_staging_is_useful(const struct vr_device_object *device) {
    return device->base.pinned && !(device->base.info.caps & VRAM_CAP_HOST_ACCESS) &&
           vr_option_number(VR_OPTION_STAGING_SLOTS) > 0;
}
