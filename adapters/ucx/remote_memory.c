/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_memory.c: memory as UCX sees it: what the host reaches, what is registered, the provider's
 * shared memory, and the slots for everything else.
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

/* ------------------------------------------------------------------ provider */

bool vr_segment_find(struct vr_remote *remote, vram_addr addr, struct vr_segment *found) {
    bool is_one = false;
    vr_mutex_lock(&remote->lock);
    for (struct vr_link *link = vr_list_first(&remote->segments); link && !is_one;
         link = vr_list_next(&remote->segments, link)) {
        const struct vr_segment *segment = VR_CONTAINER(link, struct vr_segment, link);
        is_one = addr >= segment->base && addr - segment->base < segment->bytes;
        if (is_one) {
            *found = *segment;
        }
    }
    vr_mutex_unlock(&remote->lock);
    return is_one;
}

/* Has UCX allocate memory that other processes on this machine can map. */
static vram_status segment_map(struct vr_remote *remote, uint64_t bytes,
                               struct vr_segment *segment) {
    VR_UCX_QUIET;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = bytes,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attributes = {.field_mask =
                                     UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
    ucs_status_t code = vr_ucx.mem_map(remote->near.context, &params, &segment->memory);
    if (code != UCS_OK) {
        return vr_ucx_fail(code, "ucp_mem_map");
    }
    code = vr_ucx.mem_query(segment->memory, &attributes);
    if (code != UCS_OK || (uintptr_t)attributes.address % 4096 || attributes.length < bytes) {
        (void)vr_ucx.mem_unmap(remote->near.context, segment->memory);
        return code != UCS_OK ? vr_ucx_fail(code, "ucp_mem_query")
                              : vr_fail(VRAM_ERR_BACKEND, "UCX allocated memory that is not in "
                                                          "whole pages");
    }
    segment->base = (vram_addr)(uintptr_t)attributes.address;
    segment->bytes = bytes;
    return VRAM_OK;
}

static vram_status provider_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    VR_OPERATION("vram_remote_provider");
    struct vr_remote *remote = vr_handle_pin(VR_KIND_REMOTE, user);
    if (!remote) {
        return vr_handle_error(VR_KIND_REMOTE, user);
    }
    struct vr_segment *segment = vr_mem_alloc(1, sizeof *segment, vr_operation());
    vram_status status = segment ? segment_map(remote, bytes, segment) : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        vr_mem_free(segment);
        vr_leave(remote);
        return status;
    }
    vr_mutex_lock(&remote->lock);
    vr_list_append(&remote->segments, &segment->link);
    vr_mutex_unlock(&remote->lock);
    *addr = segment->base;
    return VRAM_OK; /* the segment keeps the reference; keeps (3) */
}

static vram_status provider_free(void *user, vram_addr addr, uint64_t bytes) {
    VR_OPERATION("vram_remote_provider");
    VR_UCX_QUIET;
    struct vr_segment *segment = NULL;
    struct vr_remote *remote = vr_handle_hold(VR_KIND_REMOTE, user);
    if (!remote) {
        return vr_handle_error(VR_KIND_REMOTE, user);
    }
    vr_mutex_lock(&remote->lock);
    for (struct vr_link *link = vr_list_first(&remote->segments); link && !segment;
         link = vr_list_next(&remote->segments, link)) {
        struct vr_segment *at = VR_CONTAINER(link, struct vr_segment, link);
        segment = at->base == addr && at->bytes == bytes ? at : NULL;
    }
    if (segment) {
        vr_link_remove(&segment->link);
    }
    vr_mutex_unlock(&remote->lock);
    if (!segment) {
        vr_leave(remote);
        return vr_fail(VRAM_ERR_INVALID, "0x%llx is not memory of this provider",
                       (unsigned long long)addr);
    }
    if (!vr_exiting()) {
        (void)vr_ucx.mem_unmap(remote->near.context, segment->memory);
    }
    vr_mem_free(segment);
    vr_leave(remote);
    vr_leave(remote); /* the segment's */
    return VRAM_OK;
}

vram_status vram_remote_provider_get(vram_remote *handle, vram_provider *provider) {
    VR_CALL;
    void *entered;
    if (!provider || provider->size < sizeof *provider) {
        return vr_fail(VRAM_ERR_INVALID, "the provider is NULL, or its size is not set");
    }
    vram_status status = vr_enter(VR_KIND_REMOTE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_remote *remote = entered;
    if (!remote->near.worker) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED,
                         "this remote has no shared memory: the host cannot access the device's "
                         "memory, or the transports leave it out");
    } else {
        provider->user = handle;
        provider->alloc = provider_alloc;
        provider->free = provider_free;
        provider->granule = 4096;
    }
    vr_leave(remote);
    return status;
}

/* ------------------------------------------------------------- what is where */

vram_status vr_memory_find(struct vr_remote *remote, vram_addr addr, uint64_t bytes,
                           uint8_t **host) {
    struct vr_segment segment;
    struct vram_native_info native = {.size = sizeof native};
    bool staged = remote->flags & VRAM_REMOTE_STAGED;
    *host = NULL;
    if (vr_segment_find(remote, addr, &segment)) {
        *host = (uint8_t *)(uintptr_t)addr;
        return bytes <= segment.bytes - (addr - segment.base)
                   ? VRAM_OK
                   : vr_fail(VRAM_ERR_INVALID, "0x%llx + %llu bytes reaches past its memory",
                             (unsigned long long)addr, (unsigned long long)bytes);
    }
    vram_status status = vram_native(addr, &native);
    bool pinned = status == VRAM_OK && native.kind == VRAM_MEMORY_PINNED;
    if (status == VRAM_OK) {
        status =
            pinned ? vr_inside(addr, bytes, native.base, native.bytes)
                         ? VRAM_OK
                         : vr_fail(VRAM_ERR_INVALID, "0x%llx + %llu bytes reaches past its memory",
                                   (unsigned long long)addr, (unsigned long long)bytes)
                   : vram_memory_check(remote->device, addr, bytes);
    }
    if (status == VRAM_OK && !staged) {
        *host = remote->device_direct ? (uint8_t *)(uintptr_t)addr : native.host_pointer;
    }
    if (status == VRAM_OK && !*host && !remote->slot_count) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED, "the device has no page-locked memory, through "
                                               "which its own could be copied");
    }
    return status;
}

/* ------------------------------------------------------------- registrations */

static vram_status key_pack(ucp_context_h context, ucp_mem_h memory, void **key, size_t *bytes) {
    ucs_status_t code = vr_ucx.rkey_pack(context, memory, key, bytes);
    if (code != UCS_OK) {
        *key = NULL;
        return vr_ucx_fail(code, "ucp_rkey_pack");
    }
    return *bytes <= VR_REMOTE_RKEY_MAX
               ? VRAM_OK
               : vr_fail(VRAM_ERR_LIMIT, "UCX's key has %zu bytes, over %d", *bytes,
                         VR_REMOTE_RKEY_MAX);
}

static void registration_free(struct vr_remote *remote, struct vr_registration *registration) {
    if (registration->net_key) {
        vr_ucx.rkey_buffer_release(registration->net_key);
    }
    if (registration->near_key) {
        vr_ucx.rkey_buffer_release(registration->near_key);
    }
    if (registration->net) {
        (void)vr_ucx.mem_unmap(remote->net.context, registration->net);
    }
    vr_mem_free(registration);
}

static vram_status registration_make(struct vr_remote *remote,
                                     struct vr_registration *registration) {
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = (void *)(uintptr_t)registration->base,
        .length = registration->bytes,
        .memory_type = remote->device_direct ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST};
    struct vr_segment segment;
    ucs_status_t code = vr_ucx.mem_map(remote->net.context, &params, &registration->net);
    if (code != UCS_OK) {
        registration->net = NULL;
        return vr_ucx_fail(code, "ucp_mem_map");
    }
    vram_status status = VRAM_OK;
    if (remote->flags & VRAM_REMOTE_IN_PLACE) {
        status = key_pack(remote->net.context, registration->net, &registration->net_key,
                          &registration->net_key_bytes);
    }
    if (status == VRAM_OK && vr_segment_find(remote, registration->base, &segment)) {
        registration->near = segment.memory; /* the provider's; it is unmapped there */
        status = key_pack(remote->near.context, segment.memory, &registration->near_key,
                          &registration->near_key_bytes);
    }
    return status;
}

vram_status vr_registration_get(struct vr_remote *remote, vram_addr addr,
                                struct vr_registration **out) {
    for (struct vr_link *link = vr_list_first(&remote->registrations); link;
         link = vr_list_next(&remote->registrations, link)) {
        struct vr_registration *at = VR_CONTAINER(link, struct vr_registration, link);
        if (addr >= at->base && addr - at->base < at->bytes) {
            at->users++;
            *out = at;
            return VRAM_OK;
        }
    }
    struct vr_registration *registration = vr_mem_alloc(1, sizeof *registration, vr_operation());
    if (!registration) {
        return VRAM_ERR_HOST_MEMORY;
    }
    struct vr_segment segment;
    vram_status status = VRAM_OK;
    if (vr_segment_find(remote, addr, &segment)) {
        registration->base = segment.base;
        registration->bytes = segment.bytes;
    } else {
        status = vram_memory_handle_get(addr, &registration->base, &registration->bytes);
    }
    if (status == VRAM_OK) {
        status = registration_make(remote, registration);
    }
    if (status != VRAM_OK) {
        registration_free(remote, registration);
        return status;
    }
    registration->users = 1;
    vr_list_append(&remote->registrations, &registration->link);
    vr_fetch_add(&remote->handle_count, 1, VR_RELAXED);
    vr_fetch_add(&remote->registration_count, 1, VR_RELAXED);
    *out = registration;
    return VRAM_OK;
}

void vr_registration_put(struct vr_remote *remote, struct vr_registration *registration) {
    if (--registration->users == 0) {
        vr_link_remove(&registration->link);
        registration_free(remote, registration);
        vr_fetch_sub(&remote->handle_count, 1, VR_RELAXED);
    }
}

/* --------------------------------------------------------------------- slots */

/* Makes all slots at once, at the first need. */
static vram_status slots_make(struct vr_remote *remote) {
    struct vr_remote_slot *slots = vr_mem_alloc(remote->slot_count, sizeof *slots, vr_operation());
    if (!slots) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status =
        remote->queue ? VRAM_OK : vram_queue_create(remote->device, NULL, &remote->queue);
    uint32_t made = 0;
    for (; status == VRAM_OK && made < remote->slot_count; made++) {
        status = vram_alloc(remote->pool, remote->chunk_bytes, remote->queue, &slots[made].addr);
        if (status != VRAM_OK) {
            break;
        }
        slots[made].memory = (void *)(uintptr_t)slots[made].addr;
        slots[made].next = remote->free_slots;
        remote->free_slots = &slots[made];
    }
    if (made == 0) {
        vr_mem_free(slots);
        return status;
    }
    remote->slot_count = made; /* fewer will do */
    remote->slots = slots;
    return VRAM_OK;
}

struct vr_remote_slot *vr_remote_slot_take(struct vr_remote *remote, vram_status *status) {
    *status = remote->slots ? VRAM_OK : slots_make(remote);
    struct vr_remote_slot *slot = remote->free_slots;
    if (slot) {
        remote->free_slots = slot->next;
    }
    return slot;
}

void vr_remote_slot_give(struct vr_remote *remote, struct vr_remote_slot *slot) {
    if (slot) {
        slot->next = remote->free_slots;
        remote->free_slots = slot;
    }
}

void vr_remote_slots_free(struct vr_remote *remote) {
    for (uint32_t i = 0; remote->slots && i < remote->slot_count; i++) {
        (void)vram_free(remote->slots[i].addr, remote->queue);
    }
    vr_mem_free(remote->slots);
    remote->slots = remote->free_slots = NULL;
}
