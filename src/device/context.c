/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.c: starts every backend, records why a backend is absent, and lists the devices.
 */
#include "device/objects.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/radix.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------- which backends to start */

/* Whether `name` is in a comma-separated list; an empty list means all. */
static bool name_listed(const char *list, const char *name) {
    size_t bytes = strlen(name);
    if (!*list) {
        return true;
    }
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (length == bytes && memcmp(at, name, bytes) == 0) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

static vram_status check_list(const char *list) {
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (!vr_registry_find(at, length)) {
            return vr_fail(VRAM_ERR_INVALID,
                           "unknown backend \"%.*s\"; there are cuda, hip, metal, vulkan, "
                           "opencl, sim and host",
                           (int)(length < 32 ? length : 32), at);
        }
        at += length + (at[length] == ',');
    }
    return VRAM_OK;
}

/* -------------------------------------------------------------- starting, listing */

/* A missing or broken driver is a reason, not an error. Running out of host memory, and settings
   that the user can correct, are failures of the call. */
static bool is_absence(vram_status status) {
    return status != VRAM_ERR_HOST_MEMORY && status != VRAM_ERR_INVALID &&
           status != VRAM_ERR_OVERFLOW;
}

/* The reason is the backend's error text, or its status if it recorded none. */
static void note_absence(struct vr_backend_state *state, vram_status status) {
    const struct vram_error *error = vr_error_get();
    snprintf(state->reason, sizeof state->reason, "%s",
             error->status == status ? error->text : vr_status_text(status));
    vr_log(VRAM_LOG_INFO, "backend %s is absent: %s", state->base.ops->name, state->reason);
}

static vram_status start_backend(struct vr_backend_state *state, const char *list,
                                 const struct vram_context_options *options) {
    const struct vr_backend_ops *ops = state->base.ops;
    state->wanted = name_listed(list, ops->name);
    if (ops->unavailable) {
        snprintf(state->reason, sizeof state->reason, "%s", ops->unavailable);
        return VRAM_OK;
    }
    if (!state->wanted) {
        snprintf(state->reason, sizeof state->reason,
                 "left out by the option backends (VRAM_BACKENDS) or the program");
        return VRAM_OK;
    }
    VR_UNCANCELLED; /* calls drivers directly, without the wrappers of ops.c */
    vram_status status = ops->start(&state->base, options);
    if (status == VRAM_OK) {
        state->started = true;
        state->device_count = ops->count(&state->base);
        return VRAM_OK;
    }
    if (!is_absence(status)) {
        return status;
    }
    note_absence(state, status);
    return VRAM_OK;
}

/* Rejects an invalid description here, once, so that later code need not check it. */
static vram_status check_info(const struct vram_device_info *info) {
    const struct vram_value *granule = &info->alloc_granule;
    bool vmm_ok = !(info->caps & VRAM_CAP_VMM) ||
                  (info->vmm_granule.known && vr_is_power_of_two(info->vmm_granule.value) &&
                   info->vmm_granule.value >= VR_RADIX_PAGE);
    if (!granule->known || !vr_is_power_of_two(granule->value) || granule->value < VR_RADIX_PAGE ||
        !vmm_ok || (info->caps & ~info->caps_known)) {
        return vr_error_set(VRAM_ERR_CORRUPT, info->backend, "describe", 0,
                            "%s device %u reports impossible granules or capabilities",
                            info->backend, info->backend_index);
    }
    return VRAM_OK;
}

static vram_status fill_slot(struct vr_slot *slot, struct vr_backend *backend, uint32_t index) {
    VR_UNCANCELLED;
    slot->backend = backend;
    slot->backend_index = index;
    slot->info.size = sizeof slot->info;
    slot->info.backend = backend->ops->name;
    slot->info.backend_index = index;
    vram_status status = backend->ops->describe(backend, index, &slot->info);
    return status == VRAM_OK ? check_info(&slot->info) : status;
}

/* Describes every device of one backend. If one cannot be described the whole backend is left out:
   its other devices could not be numbered reliably. */
static vram_status list_devices(struct vr_context *context, struct vr_backend_state *state) {
    VR_UNCANCELLED;
    uint32_t first = context->slot_count;
    for (uint32_t i = 0; i < state->device_count; i++) {
        vram_status status = fill_slot(&context->slots[context->slot_count], &state->base, i);
        if (status == VRAM_OK) {
            context->slot_count++;
            continue;
        }
        if (!is_absence(status)) {
            return status;
        }
        note_absence(state, status);
        memset(&context->slots[first], 0, (i + 1) * sizeof context->slots[0]);
        context->slot_count = first;
        state->base.ops->stop(&state->base);
        state->started = false;
        state->device_count = 0;
    }
    return VRAM_OK;
}

/* One account for each physical device, however many backends list it. */
static void share_accounts(struct vr_context *context) {
    for (uint32_t i = 0; i < context->slot_count; i++) {
        struct vr_slot *slot = &context->slots[i];
        slot->account = &slot->own;
        for (uint32_t j = i; j-- > 0;) { /* the first slot of the same device wins */
            if (vr_device_same(&context->slots[j].info, &slot->info)) {
                slot->account = context->slots[j].account;
            }
        }
    }
}

static vram_status start_all(struct vr_context *context, const char *list,
                             const struct vram_context_options *options) {
    uint32_t total = 0;
    context->backends =
        vr_mem_alloc(vr_registry_count(), sizeof *context->backends, vr_operation());
    if (!context->backends) {
        return VRAM_ERR_HOST_MEMORY;
    }
    context->backend_count = vr_registry_count();
    for (uint32_t i = 0; i < context->backend_count; i++) {
        context->backends[i].base.ops = vr_registry_at(i);
        vram_status status = start_backend(&context->backends[i], list, options);
        if (status != VRAM_OK) {
            return status;
        }
        total += context->backends[i].device_count;
    }
    context->slots = vr_mem_alloc(total ? total : 1, sizeof *context->slots, vr_operation());
    if (!context->slots) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < context->backend_count; i++) {
        vram_status status = list_devices(context, &context->backends[i]);
        if (status != VRAM_OK) {
            return status;
        }
    }
    share_accounts(context);
    return VRAM_OK;
}

/* The backends that run: bit i is row i of the registry. */
static uint32_t started_backends(const struct vr_context *context) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < context->backend_count; i++) {
        bits |= (uint32_t)context->backends[i].started << i;
    }
    return bits;
}

/* Frees a context without devices, also a half-built one. */
static void context_free(void *memory) {
    VR_UNCANCELLED;
    struct vr_context *context = memory;
    for (uint32_t i = context->backend_count; context->backends && i-- > 0;) {
        if (context->backends[i].started) {
            context->backends[i].base.ops->stop(&context->backends[i].base);
        }
    }
    for (uint32_t i = 0; i < context->slot_count; i++) {
        struct vr_account *account = &context->slots[i].own;
        void *ledger = vr_load(&account->ledger, VR_ACQUIRE);
        if (ledger) {
            account->ledger_free(ledger);
        }
        vr_mem_free(context->slots[i].peaks);
    }
    vr_mem_free(context->peaks);
    vr_mem_free(context->slots);
    vr_mem_free(context->backends);
    vr_mutex_destroy(&context->lock);
    vr_mem_free(context);
}

/* ------------------------------------------------------------------- public */

vram_status vr_context_make(const vram_context_options *options, vram_context **out) {
    VR_OPERATION("vram_context_create");
    struct vram_context_options taken;
    struct vram_error error;
    char list[VR_OPTION_TEXT_MAX], sim[VR_OPTION_TEXT_MAX];
    struct vr_context *context = NULL;
    if (!out) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the context is NULL");
    }
    if (vr_exiting()) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    vr_error_save(&error); /* an absent driver does not fail this call */
    vr_log_option_problems();
    if ((status = vr_option_check()) != VRAM_OK) {
        return status;
    }
    vr_option_text(VR_OPTION_BACKENDS, list);
    vr_option_text(VR_OPTION_SIM, sim);
    const char *wanted = taken.backends ? taken.backends : list;
    taken.sim = taken.sim ? taken.sim : sim;
    if ((status = check_list(wanted)) != VRAM_OK) {
        return status;
    }
    context = vr_mem_alloc(1, sizeof *context, vr_operation());
    if (!context) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&context->lock, VR_RANK_CONTEXT);
    vr_list_init(&context->devices);
    vr_list_init(&context->watchers);
    context->object.process = vr_os_process_generation();
    context->sim_wanted = *taken.sim != 0;
    context->wait_ns = vr_option_number(VR_OPTION_WAIT_TIMEOUT);
    context->limit_bytes = vr_option_number(VR_OPTION_DEVICE_LIMIT);
    if ((status = start_all(context, wanted, &taken)) != VRAM_OK ||
        (status = vr_process_watch(started_backends(context))) != VRAM_OK ||
        (status = vr_handle_publish(VR_KIND_CONTEXT, context, context_free,
                                    &context->object.handle)) != VRAM_OK) {
        goto fail;
    }
    *out = (vram_context *)(uintptr_t)context->object.handle;
    vr_error_restore(&error);
    return VRAM_OK;
fail:
    context_free(context);
    return status;
}

vram_status vram_context_create(const vram_context_options *options, vram_context **out) {
    return vr_context_make(options, out);
}

/* Notifies the watchers that the context closes. No watcher is added from here on. */
static void notify_watchers(struct vr_context *context) {
    struct vr_link *link;
    vr_mutex_lock(&context->lock);
    context->closing = true;
    while ((link = vr_list_first(&context->watchers))) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        uint64_t handle = watcher->handle;
        vr_handle_ref(handle); /* listed: its owner still has its reference */
        vr_mutex_unlock(&context->lock);
        watcher->closing(watcher, true);
        vr_handle_unpin(handle);
        vr_mutex_lock(&context->lock);
    }
    vr_mutex_unlock(&context->lock);
}

/* The next device, with a reference, since its owner's may be dropped at any moment; NULL after the
   last. The first pass stops each device's queues; the second ends each device, which removes it
   from the list. */
static struct vr_device_object *take_device(struct vr_context *context, bool to_end) {
    struct vr_device_object *device = NULL;
    vr_mutex_lock(&context->lock);
    context->closing = true;
    for (struct vr_link *link = vr_list_first(&context->devices); link && !device;
         link = vr_list_next(&context->devices, link)) {
        device = VR_CONTAINER(link, struct vr_device_object, link);
        device = to_end || !device->queues_stopped ? device : NULL;
    }
    if (device) {
        vr_handle_ref(device->object.handle);
        device->queues_stopped = true;
        if (to_end) {
            vr_link_remove(&device->link);
        }
    }
    vr_mutex_unlock(&context->lock);
    return device;
}

/* Queues may use memory of other devices, pinned or a peer's, so all queues end before any memory
   is freed. VRAM_ERR_TIMEOUT if a device has work that does not finish. */
static vram_status end_devices(struct vr_context *context) {
    vram_status status = VRAM_OK;
    uint64_t deadline = vr_deadline_in(context->wait_ns);
    for (struct vr_device_object *device; (device = take_device(context, false));) {
        vr_device_stop_queues(device, deadline);
        vr_leave(device);
    }
    for (struct vr_device_object *device; (device = take_device(context, true));) {
        if (vr_handle_retire(device->object.handle)) { /* else another thread closes it */
            vram_status ended = vr_device_finish(device, deadline);
            status = ended != VRAM_OK ? ended : status;
        }
        vr_leave(device);
    }
    return status;
}

static vram_status context_end(void *object) {
    VR_OPERATION("vram_context_destroy");
    struct vr_context *context = object;
    notify_watchers(context);
    return end_devices(context);
}

vram_status vr_context_end(vram_context *handle) {
    VR_OPERATION("vram_context_destroy");
    return vr_object_destroy(VR_KIND_CONTEXT, handle, context_end, NULL);
}

vram_status vram_context_destroy(vram_context *handle) {
    return vr_context_end(handle);
}

uint32_t vram_backend_count(vram_context *handle) {
    VR_CALL;
    void *context;
    if (vr_enter(VR_KIND_CONTEXT, handle, &context) != VRAM_OK) {
        return 0;
    }
    uint32_t count = ((struct vr_context *)context)->backend_count;
    vr_leave(context);
    return count;
}

vram_status vram_backend_info_get(vram_context *handle, uint32_t index, vram_backend_info *info) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    if (index >= context->backend_count) {
        status =
            vr_fail(VRAM_ERR_INVALID, "backend index %u is out of range; there are %u backends",
                    index, context->backend_count);
    } else {
        const struct vr_backend_state *state = &context->backends[index];
        struct vram_backend_info full = {.size = sizeof full,
                                         .name = state->base.ops->name,
                                         .present = state->started,
                                         .device_count = state->device_count};
        memcpy(full.version, state->base.version, sizeof full.version);
        memcpy(full.reason, state->reason, sizeof full.reason);
        status = vr_info_give(info, &full, sizeof full, sizeof full);
    }
    vr_leave(context);
    return status;
}
