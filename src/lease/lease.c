/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: opening and closing leases, their pools, safe points and queries. */
#include "lease/broker.h"
#include "lease/lease_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/own_fd.h"
#include "base/size_text.h"
#include "base/struct_tail.h"
#include "base/text.h"
#include "core/sleep/sleep.h"
#include "device/ops.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------- options */

static vram_status options_check(const struct vr_device_object *device,
                                 const struct vram_lease_options *options) {
    const struct vram_value memory = device->base.info.memory_bytes;
    char want[VRAM_SIZE_TEXT_MAX], has[VRAM_SIZE_TEXT_MAX];
    vr_size_format(options->want_bytes, want);
    if (!options->want_bytes) {
        return vr_fail(VRAM_ERR_INVALID, "a lease of 0 bytes: set want_bytes");
    }
    if (options->min_bytes > options->want_bytes) {
        return vr_fail(VRAM_ERR_INVALID, "min_bytes is %s, which is more than want_bytes, %s",
                       vr_size_format(options->min_bytes, has), want);
    }
    if (options->flags & ~(uint32_t)VRAM_LEASE_AT_ONCE) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags: 0x%x", options->flags);
    }
    if (options->priority < -VR_LEASE_PRIORITY_MOST || options->priority > VR_LEASE_PRIORITY_MOST) {
        return vr_fail(VRAM_ERR_INVALID, "the priority is %d; it may be from -%d to %d",
                       (int)options->priority, VR_LEASE_PRIORITY_MOST, VR_LEASE_PRIORITY_MOST);
    }
    if (memory.known && options->want_bytes > memory.value) {
        return vr_fail(VRAM_ERR_LIMIT, "a lease of %s: the device has %s in all", want,
                       vr_size_format(memory.value, has));
    }
    return VRAM_OK;
}

/* A GPU that several backends show has one name. */
static void key_write(const struct vr_device_object *device, char key[VRAM_LEASE_DEVICE_MAX]) {
    const struct vram_device_info *info = &device->base.info;
    if (!info->uuid_known) {
        snprintf(key, VRAM_LEASE_DEVICE_MAX, "%.32s %u", info->backend, info->backend_index);
        return;
    }
    int at = snprintf(key, VRAM_LEASE_DEVICE_MAX, "GPU-");
    for (int i = 0; i < 16; i++) {
        at += snprintf(key + at, VRAM_LEASE_DEVICE_MAX - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info->uuid[i]);
    }
}

/* What all leases of the device together may hold, as far as this process can tell. */
static uint64_t capacity_of(struct vr_device_object *device,
                            const struct vram_lease_options *options) {
    vram_value free = {0}, total = device->base.info.memory_bytes;
    uint64_t all;
    if (options->capacity_bytes) {
        return options->capacity_bytes;
    }
    if (!(device->base.info.caps & VRAM_CAP_MEMORY_INFO) ||
        vr_memory_info(&device->base, &free, &total) != VRAM_OK || !free.known) {
        return total.known && total.value ? total.value : UINT64_MAX;
    }
    vr_error_clear();
    uint64_t held = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    return vr_add(free.value, held, &all) && all ? all : UINT64_MAX;
}

/* ---------------------------------------------------------------------- closing */

static void lease_free(void *memory) {
    struct vr_lease *lease = memory;
    uint64_t device = lease->device->object.handle;
    if (lease->fd >= 0) {
        vr_own_fd_close(lease->fd);
    }
    if (lease->wake[0] >= 0) {
        vr_own_fd_close(lease->wake[0]);
        vr_own_fd_close(lease->wake[1]);
    }
    vr_cond_destroy(&lease->changed);
    vr_mutex_destroy(&lease->lock);
    vr_mem_free(lease);
    vr_handle_unpin(device);
}

/* The account is free of the lease before the broker is told: what it counts is nobody's then. */
static void account_leave(struct vr_lease *lease) {
    struct vr_ledger *ledger = vr_ledger_of(lease->device);
    vr_mutex_lock(&lease->lock);
    vr_store(&lease->device->slot->account->lease, 0, VR_SEQ_CST);
    vr_store(&ledger->lease, 0, VR_RELEASE);
    vr_mutex_unlock(&lease->lock);
}

/* Waits until the thread is done; false: the time is over. */
static bool thread_wait(struct vr_lease *lease, uint64_t ns) {
    uint64_t until = vr_os_now() + ns;
    vr_mutex_lock(&lease->lock);
    lease->stop = true;
    vr_store(&lease->ending, true, VR_RELAXED);
    vr_cond_broadcast(&lease->changed);
    vr_os_event_send(lease->wake[1]);
    for (uint64_t now = vr_os_now(); !lease->done && now < until; now = vr_os_now()) {
        (void)vr_cond_wait(&lease->changed, &lease->lock, until - now);
    }
    bool done = lease->done;
    vr_mutex_unlock(&lease->lock);
    return done;
}

static vram_status lease_end(void *object) {
    VR_OPERATION("vram_lease_close");
    struct vr_lease *lease = object;
    vr_mutex_lock(&lease->device->lock);
    vr_link_remove(&lease->watcher.link);
    vr_mutex_unlock(&lease->device->lock);
    account_leave(lease);
    bool own = vr_load(&lease->runner, VR_ACQUIRE) == vr_os_thread_number();
    bool done = thread_wait(lease, own ? 0 : lease->device->context->wait_ns);
    if (done) {
        vr_os_thread_join(&lease->thread);
    } else {
        vr_os_thread_detach(&lease->thread);
    }
    if (done) {
        vr_broker_host_end(lease->dir);
    }
    return done || own ? VRAM_OK
                       : vr_fail(VRAM_ERR_TIMEOUT,
                                 "the lease is closed, but its callback has not returned");
}

static void queue_ended(struct vr_watcher *watcher, uint64_t queue, bool finished) {
    (void)watcher;
    (void)queue;
    (void)finished;
}

static void device_closing(struct vr_watcher *watcher, bool finished) {
    struct vr_lease *lease = VR_CONTAINER(watcher, struct vr_lease, watcher);
    (void)finished;
    vr_object_parent_ended(&lease->object, lease_end);
}

vram_status vram_lease_close(vram_lease *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_LEASE, handle, lease_end, "the lease is being closed");
}

/* ---------------------------------------------------------------------- opening */

static vram_status lease_make(struct vr_device_object *device,
                              const struct vram_lease_options *options, struct vr_lease **out) {
    struct vr_lease *lease = vr_mem_alloc(1, sizeof *lease, vr_operation());
    if (!lease) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&lease->changed);
    if (status != VRAM_OK) {
        vr_mem_free(lease);
        return status;
    }
    vr_mutex_init(&lease->lock, VR_RANK_LEASE);
    vr_list_init(&lease->holds);
    vr_handle_ref(device->object.handle);
    lease->object.process = vr_os_process_generation();
    lease->device = device;
    lease->options = *options;
    lease->fd = lease->wake[0] = lease->wake[1] = -1;
    lease->watcher.queue_ended = queue_ended;
    lease->watcher.closing = device_closing;
    if (options->name) {
        vr_text_copy(lease->name, sizeof lease->name, options->name);
    } else {
        vr_os_program_name(lease->name, sizeof lease->name);
    }
    key_write(device, lease->key);
    lease->capacity = capacity_of(device, options);
    status = vr_runtime_dir(options->dir, vr_os_user(), true, lease->dir);
    lease->options.dir = lease->options.name = NULL; /* the caller's */
    if (status == VRAM_OK && (status = vr_os_event_open(lease->wake)) == VRAM_OK) {
        vr_own_fd_note(lease->wake[0]);
        vr_own_fd_note(lease->wake[1]);
        *out = lease;
        return VRAM_OK;
    }
    lease->wake[0] = lease->wake[1] = -1;
    lease_free(lease);
    return status;
}

/* Enters the lease in the account: there is one for a device of a context. */
static vram_status account_enter(struct vr_lease *lease) {
    struct vr_ledger *ledger = vr_ledger_of(lease->device);
    uint64_t none = 0;
    atomic_store_explicit(&ledger->lease_ops, &vr_lease_ops, memory_order_release);
    if (!vr_cas(&ledger->lease, &none, lease->object.handle, VR_ACQ_REL)) {
        return vr_fail(VRAM_ERR_BUSY, "the context has a lease on this device already");
    }
    vr_mutex_lock(&lease->lock);
    vr_lease_grant_set(lease, lease->grant);
    vr_mutex_unlock(&lease->lock);
    return VRAM_OK;
}

/* Lists the lease and starts its thread, under the lock of the device: whoever ends the lease finds
   both. */
static vram_status lease_begin(struct vr_lease *lease) {
    struct vr_device_object *device = lease->device;
    vr_handle_ref(lease->object.handle); /* the thread's */
    vr_mutex_lock(&device->lock);
    vram_status status =
        device->closing ? vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed")
                        : vr_os_thread_start(&lease->thread, "vram-lease", vr_lease_run, lease);
    if (status == VRAM_OK) {
        vr_device_append_watcher(device, &lease->watcher);
    }
    vr_mutex_unlock(&device->lock);
    if (status != VRAM_OK) {
        vr_handle_unpin(lease->object.handle);
    }
    return status;
}

/* The minimum, and what the context holds already, must be granted. */
static vram_status minimum_get(struct vr_lease *lease) {
    struct vr_lease_refusal refusal;
    struct vr_lease_hold hold = {.lease = NULL};
    uint64_t held = vr_lease_held(lease), min = lease->options.min_bytes, got;
    uint64_t least = held > min ? held : min;
    vr_mutex_lock(&lease->lock);
    uint64_t grant = lease->grant;
    vr_mutex_unlock(&lease->lock);
    if (least <= grant) {
        return VRAM_OK;
    }
    vram_status status = vr_lease_need_more(lease, least - held, false, &hold, &got, &refusal);
    vr_lease_done(&hold);
    if (status == VRAM_OK) {
        return VRAM_OK;
    }
    status = status == VRAM_ERR_TIMEOUT ? status : VRAM_ERR_LIMIT;
    return vr_fail(status, "%s cannot be granted: %s",
                   held > min ? "what the program holds already" : "the lease's minimum",
                   refusal.text);
}

/* The lease's own reference goes with a failure. */
static vram_status lease_start(struct vr_lease *lease) {
    struct vram_error error;
    vram_status status = account_enter(lease);
    bool entered = status == VRAM_OK, begun = false;
    if (entered) {
        status = vr_lease_connect(lease, false, vr_deadline_in(vr_lease_broker_ns));
    }
    if (status == VRAM_OK && (status = lease_begin(lease)) == VRAM_OK) {
        begun = true;
        status = minimum_get(lease);
    }
    if (status == VRAM_OK) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    if (begun) {
        (void)vr_object_end(&lease->object, lease_end, &(vram_status){VRAM_OK});
    } else {
        if (entered) {
            account_leave(lease);
        }
        (void)vr_handle_retire(lease->object.handle);
        vr_handle_unpin(lease->object.handle);
    }
    vr_error_restore(&error);
    return status;
}

static vram_status lease_open(struct vr_device_object *device,
                              const struct vram_lease_options *options, vram_lease **out) {
    struct vr_lease *lease;
    struct vram_error error;
    vram_status status = lease_make(device, options, &lease);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_handle_publish(VR_KIND_LEASE, lease, lease_free, &lease->object.handle);
    if (status != VRAM_OK) {
        lease_free(lease);
        return status;
    }
    uint64_t handle = lease->watcher.handle = lease->object.handle;
    char dir[VR_RUNTIME_DIR_MAX];
    memcpy(dir, lease->dir, sizeof dir);
    vr_handle_ref(handle); /* whoever closes the device ends a lease that has begun */
    status = lease_start(lease);
    vr_error_save(&error);
    vr_handle_unpin(handle);
    if (status == VRAM_OK) {
        *out = (vram_lease *)(uintptr_t)handle;
    } else {
        vr_broker_host_end(dir); /* sees the end of the connection, that of the last reference */
    }
    vr_error_restore(&error);
    return status;
}

vram_status vram_lease_open(vram_device *handle, const vram_lease_options *options,
                            vram_lease **lease) {
    VR_CALL;
    struct vram_lease_options taken;
    void *entered;
    if (!lease) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the lease is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    taken.timeout_ns = taken.timeout_ns ? taken.timeout_ns : VR_LEASE_TIMEOUT_NS;
    status = options_check(device, &taken);
    if (status == VRAM_OK && !vr_ledger_get(device)) {
        status = vr_error_get()->status;
    }
    if (status == VRAM_OK) {
        status = lease_open(device, &taken, lease);
    }
    vr_leave(device);
    return status;
}

/* --------------------------------------------------------------- pools, points */

/* Under the lock. Entries of pools that were destroyed make room. */
static void entries_sweep(struct vr_lease *lease) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < lease->pool_count; i++) {
        if (!vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)lease->pools[i].pool)) {
            lease->pools[kept++] = lease->pools[i];
        }
    }
    lease->pool_count = kept;
}

static vram_status entry_add(struct vr_lease *lease, const struct vr_lease_pool *entry) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&lease->lock);
    entries_sweep(lease);
    for (uint32_t i = 0; i < lease->pool_count && status == VRAM_OK; i++) {
        const struct vr_lease_pool *other = &lease->pools[i];
        if (other->pool == entry->pool && other->tagged == entry->tagged &&
            strcmp(other->tag, entry->tag) == 0) {
            status = vr_fail(VRAM_ERR_INVALID, "the lease lists this pool%s already",
                             entry->tagged ? " with this tag" : "");
        }
    }
    if (status == VRAM_OK && lease->pool_count == VRAM_LEASE_POOLS_MAX) {
        status = vr_fail(VRAM_ERR_LIMIT, "the lease lists %d pools already, which is the limit",
                         VRAM_LEASE_POOLS_MAX);
    }
    if (status == VRAM_OK) {
        lease->pools[lease->pool_count++] = *entry;
    }
    vr_mutex_unlock(&lease->lock);
    return status;
}

static vram_status pool_check(const struct vr_lease *lease, const struct vr_pool *pool,
                              const struct vram_sleep_options *options,
                              struct vr_lease_pool *entry) {
    if (pool->device->slot->account != lease->device->slot->account) {
        return vr_fail(VRAM_ERR_INVALID,
                       "pool \"%s\" is of another device or context than the "
                       "lease",
                       pool->name);
    }
    vram_status status = vr_sleep_options_check(pool, options);
    if (status != VRAM_OK) {
        return status;
    }
    *entry = (struct vr_lease_pool){
        .pool = pool->object.handle, .contents = options->contents, .tagged = options->tag};
    if (options->tag && strlen(options->tag) >= VR_LEASE_TAG_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "the tag has more than %d bytes", VR_LEASE_TAG_MAX - 1);
    }
    vr_text_copy(entry->tag, sizeof entry->tag, options->tag ? options->tag : "");
    return VRAM_OK;
}

vram_status vram_lease_pool_add(vram_lease *handle, vram_pool *pool_handle,
                                const vram_sleep_options *options) {
    VR_CALL;
    struct vram_sleep_options taken;
    struct vr_lease_pool entry;
    void *entered, *pool;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK || (status = vr_enter(VR_KIND_LEASE, handle, &entered)) != VRAM_OK) {
        return status;
    }
    status = vr_enter(VR_KIND_POOL, pool_handle, &pool);
    if (status == VRAM_OK) {
        status = pool_check(entered, pool, &taken, &entry);
        status = status == VRAM_OK ? entry_add(entered, &entry) : status;
        vr_leave(pool);
    }
    vr_leave(entered);
    return status;
}

vram_status vram_lease_point(vram_lease *handle, uint64_t *given) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_LEASE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_lease *lease = entered;
    uint64_t bytes = vr_load(&lease->asked, VR_RELAXED) ? vr_lease_give(lease, false, true) : 0;
    if (given) {
        *given = bytes;
    }
    vr_leave(lease);
    return VRAM_OK;
}

vram_status vram_lease_info_get(vram_lease *handle, vram_lease_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_LEASE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_lease *lease = entered;
    vr_mutex_lock(&lease->lock);
    struct vram_lease_info found = lease->counts;
    found.granted_bytes = lease->grant;
    found.connected = lease->fd >= 0;
    found.asked_bytes = lease->ask.number ? lease->ask.bytes : 0;
    vr_mutex_unlock(&lease->lock);
    found.held_bytes = vr_lease_held(lease);
    found.min_bytes = lease->options.min_bytes;
    found.want_bytes = lease->options.want_bytes;
    found.priority = lease->options.priority;
    status = vr_info_give(info, &found, sizeof found, sizeof found);
    vr_leave(lease);
    return status;
}
