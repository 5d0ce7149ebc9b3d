/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_object.c: the object behind a buffer's handle: entering, sharing and claiming it,
 * creating, publishing and destroying it.
 */
#include "mem/buffer_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "core/cache/provided.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "mem/mem_calls.h"
#include "track/track.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------ entering, leaving */

vram_status vr_buffer_enter(vram_buffer *handle, struct vr_buffer **out) {
    void *entered, *pool;
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    status = vr_enter(VR_KIND_POOL, (void *)(uintptr_t)buffer->pool_handle, &pool);
    if (status != VRAM_OK) {
        vr_leave(buffer); /* the pool is ending, and the buffer with it */
        return status;
    }
    *out = buffer;
    return VRAM_OK;
}

void vr_buffer_leave(struct vr_buffer *buffer) {
    struct vr_pool *pool = buffer->pool;
    vr_leave(buffer);
    vr_leave(pool);
}

vram_status vr_buffer_finish(struct vr_buffer *buffer, vram_status status) {
    uint64_t handle = buffer->object.handle, pool = buffer->pool_handle;
    uint64_t device = buffer->pool->device->object.handle;
    vr_buffer_leave(buffer);
    status = vr_stale_if_ended(VR_KIND_BUFFER, handle, status);
    status = vr_stale_if_ended(VR_KIND_POOL, pool, status);
    return vr_stale_if_ended(VR_KIND_DEVICE, device, status);
}

static vram_status fail_busy(const struct vr_buffer *buffer) {
    const void *handle = (const void *)(uintptr_t)buffer->object.handle;
    return vr_handle_was(VR_KIND_BUFFER, handle)
               ? vr_handle_error(VR_KIND_BUFFER, handle)
               : vr_fail(VRAM_ERR_BUSY,
                         "another call is using or changing the buffer at this moment");
}

vram_status vr_buffer_share(struct vr_buffer *buffer) {
    return vr_entry_enter(&buffer->sharers) ? VRAM_OK : fail_busy(buffer);
}

void vr_buffer_unshare(struct vr_buffer *buffer) {
    vr_entry_leave(&buffer->sharers);
}

vram_status vr_buffer_claim(struct vr_buffer *buffer) {
    return vr_entry_close_empty(&buffer->sharers) ? VRAM_OK : fail_busy(buffer);
}

void vr_buffer_unclaim(struct vr_buffer *buffer) {
    assert(!vr_entry_is_open(&buffer->sharers));
    vr_entry_reopen(&buffer->sharers);
}

void vr_buffer_touch(struct vr_buffer *buffer) {
    uint64_t now = vr_clock_now();
    vr_mutex_lock(&buffer->lock);
    buffer->accessed_ns = now;
    vr_mutex_unlock(&buffer->lock);
}

/* ----------------------------------------------------------------------- ending */

/* Takes the memory out of a buffer that no call can enter any more, for the caller to free. Returns
   no memory while a call inside still needs it: keeps (5) and (6). */
static struct vr_buffer_memory take_out(struct vr_buffer *buffer, bool last, vram_queue **home) {
    struct vr_buffer_memory memory = {0};
    vr_mutex_lock(&buffer->lock);
    *home = buffer->home;
    if (last || vr_entry_close_empty(&buffer->sharers)) {
        memory = buffer->memory;
        buffer->memory = (struct vr_buffer_memory){0};
    }
    if (buffer->orphan && !memory.wrapped) {
        memory.addr = 0;
    }
    vr_mutex_unlock(&buffer->lock);
    return memory;
}

void vr_buffer_free(void *object) {
    struct vr_buffer *buffer = object;
    vram_queue *home;
    struct vr_buffer_memory memory = take_out(buffer, true, &home);
    struct vr_buffer_memory staging = {.addr = buffer->orphan ? 0 : buffer->mapping.staging,
                                       .kind = VRAM_MEMORY_PINNED};
    (void)vr_buffer_give(buffer, &staging, buffer->mapping.queue);
    (void)vr_buffer_give(buffer, &memory, home);
    vr_pool_child_remove(buffer->pool_handle, buffer->pool, &buffer->child);
    vr_mutex_destroy(&buffer->lock);
    vr_mem_free(buffer->uses);
    vr_mem_free(buffer);
}

void vr_buffer_pool_ended(struct vr_pool_child *child) {
    struct vr_buffer *buffer = VR_CONTAINER(child, struct vr_buffer, child);
    vr_mutex_lock(&buffer->lock);
    buffer->orphan = true;
    vr_mutex_unlock(&buffer->lock);
    if (vr_handle_retire(buffer->object.handle)) {
        vr_handle_unpin(buffer->object.handle);
    }
}

static vram_status buffer_end(void *object) {
    vram_queue *home;
    struct vr_buffer_memory memory = take_out(object, false, &home);
    return vr_buffer_give(object, &memory, home);
}

vram_status vr_buffer_destroy(vram_buffer *handle) {
    VR_OPERATION("vram_buffer_destroy");
    return vr_object_destroy(VR_KIND_BUFFER, handle, buffer_end, NULL);
}

vram_status vram_buffer_destroy(vram_buffer *handle) {
    return vr_buffer_destroy(handle);
}

/* --------------------------------------------------------------------- creating */

vram_status vr_buffer_options_check(const struct vram_buffer_options *taken, uint64_t bytes) {
    uint32_t each = vr_precision_bytes(taken->precision);
    struct vram_growth growth;
    vram_status status = vr_growth_take(taken->growth, &growth);
    if (status != VRAM_OK) {
        return status;
    }
    if ((unsigned)taken->kind > VRAM_BUFFER_FALLBACK) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_buffer_kind", (int)taken->kind);
    }
    if (!each) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_precision", (int)taken->precision);
    }
    if (bytes % each && !growth.element_bytes) {
        return vr_fail(VRAM_ERR_INVALID, "%llu bytes are not a whole number of %s elements",
                       (unsigned long long)bytes, vr_precision_name(taken->precision));
    }
    if (taken->flags & ~(uint32_t)VRAM_BUFFER_PAGEABLE) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a buffer: 0x%x", taken->flags);
    }
    if (taken->provider &&
        (taken->kind == VRAM_BUFFER_MAPPED || taken->kind == VRAM_BUFFER_FALLBACK)) {
        return vr_fail(VRAM_ERR_INVALID, "a buffer with a provider is of kind DEVICE, PINNED or "
                                         "MANAGED");
    }
    status = vr_provided_check(taken->provider);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken->name && strnlen(taken->name, VRAM_BUFFER_NAME_MAX) == VRAM_BUFFER_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "a buffer's name has at most %d bytes",
                       VRAM_BUFFER_NAME_MAX - 1);
    }
    return VRAM_OK;
}

/* A pool of page-locked or of managed memory has no memory of another kind. */
static vram_status check_kind(const struct vr_pool *pool, vram_buffer_kind kind) {
    bool pinned = pool->kind == VRAM_MEMORY_PINNED;
    if (pool->kind == VRAM_MEMORY_DEVICE ||
        (pinned ? kind == VRAM_BUFFER_PINNED || kind == VRAM_BUFFER_MAPPED
                : kind == VRAM_BUFFER_MANAGED)) {
        return VRAM_OK;
    }
    return vr_fail(VRAM_ERR_UNSUPPORTED, "pool \"%s\" is of %s memory: its buffers are %s",
                   pool->name, pinned ? "page-locked" : "managed",
                   pinned ? "pinned or mapped" : "managed");
}

vram_status vr_buffer_make(struct vr_pool *pool, uint64_t bytes, vram_queue *queue,
                           const struct vram_buffer_options *options, struct vr_buffer **out) {
    struct vr_tag *tag = NULL;
    vram_status status =
        options->provider ? vr_provider_check((vram_device *)(uintptr_t)pool->device->object.handle,
                                              options->provider)
                          : check_kind(pool, options->kind);
    if (status == VRAM_OK && options->tag && *options->tag) {
        status = vr_tag_get(vr_ledger_of(pool->device), options->tag, &tag);
    }
    struct vr_buffer *buffer =
        status == VRAM_OK ? vr_mem_alloc(1, sizeof *buffer, vr_operation()) : NULL;
    if (!buffer) {
        return status == VRAM_OK ? VRAM_ERR_HOST_MEMORY : status;
    }
    buffer->object.process = vr_os_process_generation();
    buffer->child.pool_ended = vr_buffer_pool_ended;
    buffer->pool = pool;
    buffer->pool_handle = pool->object.handle;
    buffer->id = vr_track_id_next();
    buffer->kind = options->kind;
    buffer->precision = options->precision;
    buffer->flags = options->flags;
    if (options->provider) {
        buffer->provider = *options->provider;
    }
    buffer->moved = options->moved;
    buffer->user = options->user;
    buffer->tag = vr_tag_name(tag);
    buffer->created_ns = buffer->accessed_ns = vr_clock_now();
    snprintf(buffer->name, sizeof buffer->name, "%s", options->name ? options->name : "");
    vr_mutex_init(&buffer->lock, VR_RANK_BUFFER);
    buffer->capacity_bytes = buffer->used_bytes = bytes;
    buffer->home = queue;
    *out = buffer;
    return VRAM_OK;
}

vram_status vr_buffer_publish(struct vr_pool *pool, struct vr_buffer *buffer, vram_buffer **out) {
    uint64_t handle;
    vram_status status = vr_pool_child_publish(pool, VR_KIND_BUFFER, &buffer->object,
                                               vr_buffer_free, &buffer->child, &handle);
    if (status == VRAM_OK) {
        *out = (vram_buffer *)(uintptr_t)handle;
    }
    return status;
}
