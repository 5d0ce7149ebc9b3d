/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c: creation of buffers, the work that uses them, and information on them.
 */
#include "core/pool/pool_calls.h"
#include "mem/buffer_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/device_calls.h"
#include "mem/mem_calls.h"

#include <assert.h>
#include <string.h>

/* --------------------------------------------------------------------- creating */

static vram_status buffer_create(vram_pool *handle, uint64_t bytes, vram_queue *queue_handle,
                                 const struct vram_buffer_options *options, vram_buffer **out) {
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    struct vram_growth growth;
    uint64_t capacity;
    vram_status status = vr_growth_first(options->growth, bytes, &growth, &capacity);
    if (status == VRAM_OK) {
        status = vr_pool_enter(handle, queue_handle, &pool, &queue);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer;
    struct vr_buffer_memory memory = {0};
    vram_buffer_event event = {.size = sizeof event, .cause = VRAM_MOVE_FALLBACK};
    status = vr_buffer_make(pool, bytes, queue_handle, options, &buffer);
    if (status == VRAM_OK) {
        buffer->growth.growth = growth;
        buffer->capacity_bytes = capacity;
        status = options->growth ? vr_buffer_take_growing(buffer, capacity, queue_handle, &memory)
                                 : vr_buffer_take(buffer, capacity, queue_handle, &memory);
        buffer->memory = memory;
        event.id = buffer->id;
        if (status == VRAM_OK) {
            status = vr_buffer_publish(pool, buffer, out);
        } else {
            vr_buffer_free(buffer);
        }
    }
    vr_pool_leave(pool, queue);
    if (status == VRAM_OK && options->kind == VRAM_BUFFER_FALLBACK && options->moved &&
        memory.kind != VRAM_MEMORY_DEVICE) {
        event.buffer = *out;
        event.to = memory.kind;
        VR_UNCANCELLED;
        options->moved(options->user, &event);
    }
    return status;
}

vram_status vr_buffer_carve(struct vr_pool *pool, vram_addr base, vram_addr addr, uint64_t bytes,
                            vram_queue *queue, const struct vram_buffer_options *options,
                            vram_buffer **out) {
    struct vr_buffer *buffer;
    struct vr_address_info place;
    vram_status status = vr_buffer_make(pool, bytes, queue, options, &buffer);
    if (status == VRAM_OK) {
        buffer->memory.addr = addr;
        buffer->memory.base = base;
        buffer->memory.kind = vr_address_find(base, &place) ? place.kind : VRAM_MEMORY_DEVICE;
        status = vr_buffer_publish(pool, buffer, out);
    }
    return status;
}

vram_status vr_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                             const vram_buffer_options *options, vram_buffer **buffer) {
    VR_OPERATION("vram_buffer_create");
    struct vram_buffer_options taken;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the buffer is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_buffer_options_check(&taken, bytes);
    }
    return status == VRAM_OK ? buffer_create(pool, bytes, queue, &taken, buffer) : status;
}

vram_status vram_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                               const vram_buffer_options *options, vram_buffer **buffer) {
    return vr_buffer_create(pool, bytes, queue, options, buffer);
}

vram_status vram_buffer_create_elements(vram_pool *pool, uint64_t count, vram_precision precision,
                                        vram_queue *queue, const vram_buffer_options *options,
                                        vram_buffer **buffer) {
    VR_CALL;
    struct vram_buffer_options taken;
    uint64_t bytes;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the buffer is NULL");
    }
    struct vram_growth growth;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_growth_take(taken.growth, &growth);
    }
    if (status == VRAM_OK) {
        status = vr_precision_bytes(precision) && growth.element_bytes
                     ? vr_elements_size(growth.element_bytes, count, &bytes)
                     : vr_precision_size(precision, count, &bytes);
    }
    if (status == VRAM_OK) {
        taken.precision = precision;
        status = vr_buffer_options_check(&taken, bytes);
    }
    return status == VRAM_OK ? buffer_create(pool, bytes, queue, &taken, buffer) : status;
}

/* ------------------------------------------------------------------------- uses */

/* Reserves one entry for each call that shares the buffer and may add one. Under the lock. */
static vram_status uses_reserve(struct vr_buffer *buffer) {
    uint32_t needed = buffer->use_count + vr_entry_inside(&buffer->sharers);
    if (needed <= buffer->use_capacity) {
        return VRAM_OK;
    }
    uint32_t room = 2 * needed;
    vram_queue **uses = vr_mem_resize(buffer->uses, room, sizeof *uses, vr_operation());
    if (!uses) {
        return VRAM_ERR_HOST_MEMORY;
    }
    buffer->uses = uses;
    buffer->use_capacity = room;
    return VRAM_OK;
}

/* Keeps (4): one entry per queue. Those of queues that have ended are replaced. Under the lock,
   with capacity reserved. */
static void uses_note(struct vr_buffer *buffer, vram_queue *queue) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < buffer->use_count; i++) {
        if (buffer->uses[i] != queue && !vr_handle_was(VR_KIND_QUEUE, buffer->uses[i])) {
            buffer->uses[kept++] = buffer->uses[i];
        }
    }
    buffer->uses[kept++] = queue;
    buffer->use_count = kept;
}

/* Whether the queue is being captured, or is that of a captured region: a graph may then use the
   buffer at any time, at the address that it has now. Only a mark finds out on every device. */
static vram_status ask_captured(vram_queue *queue, bool *captured) {
    struct vram_error error;
    vram_point point;
    vr_error_save(&error);
    vram_status status = vr_submit_mark(queue, &point);
    *captured = status == VRAM_ERR_CAPTURE;
    if (*captured) {
        vr_error_restore(&error);
    }
    return *captured ? VRAM_OK : status;
}

/* The buffer is shared. */
static vram_status note_use(struct vr_buffer *buffer, vram_queue *queue) {
    VR_OPERATION("vram_buffer_use");
    bool captured = false;
    vr_mutex_lock(&buffer->lock);
    vram_addr addr = buffer->memory.base ? buffer->memory.base : buffer->memory.addr;
    bool home = buffer->home == queue, wrapped = buffer->memory.wrapped;
    vram_status status = home ? VRAM_OK : uses_reserve(buffer);
    vr_mutex_unlock(&buffer->lock);
    if (status == VRAM_OK && !home) {
        status = ask_captured(queue, &captured);
    }
    if (status == VRAM_OK && !home && !wrapped) {
        status = vr_pool_use(addr, queue);
    }
    if (status == VRAM_OK && !home) {
        vr_mutex_lock(&buffer->lock);
        uses_note(buffer, queue);
        buffer->captured_use |= captured;
        vr_mutex_unlock(&buffer->lock);
    }
    return status;
}

/* Waits for work that could not be recorded. */
vram_status vr_buffer_note(struct vr_buffer *buffer, vram_queue *queue) {
    struct vram_error error;
    vr_error_save(&error);
    if (note_use(buffer, queue) == VRAM_OK) {
        return VRAM_OK;
    }
    vr_error_restore(&error);
    return vr_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
}

vram_status vram_buffer_use(vram_buffer *handle, vram_queue *queue_handle) {
    VR_CALL;
    struct vr_buffer *buffer;
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    vram_status status = vr_buffer_enter(handle, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    if (!queue_handle) {
        status = vr_handle_error(VR_KIND_QUEUE, NULL);
    } else {
        status =
            vr_pool_enter((vram_pool *)(uintptr_t)buffer->pool_handle, queue_handle, &pool, &queue);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_share(buffer);
        if (status == VRAM_OK) {
            status = note_use(buffer, queue_handle);
            vr_buffer_unshare(buffer);
        }
        vr_pool_leave(pool, queue);
    }
    if (status == VRAM_OK) {
        vr_buffer_touch(buffer);
    }
    return vr_buffer_finish(buffer, status);
}

/* ------------------------------------------------------------------ information */

static void buffer_describe(struct vr_buffer *buffer, struct vram_buffer_info *info) {
    *info = (struct vram_buffer_info){
        .size = sizeof *info,
        .id = buffer->id,
        .tag = buffer->tag,
        .kind = buffer->kind,
        .precision = buffer->precision,
        .pool = (vram_pool *)(uintptr_t)buffer->pool_handle,
        .created_ns = buffer->created_ns,
    };
    memcpy(info->name, buffer->name, sizeof info->name);
    vr_mutex_lock(&buffer->lock);
    struct vr_buffer_memory memory = buffer->memory;
    info->mapped = buffer->mapping.open;
    info->promotions = buffer->promotions;
    info->demotions = buffer->demotions;
    info->capacity_bytes = buffer->capacity_bytes;
    info->used_bytes = buffer->used_bytes;
    info->queue = buffer->home;
    info->accessed_ns = buffer->accessed_ns;
    info->resizes = buffer->resizes;
    info->elements = info->used_bytes / vr_element_bytes(&buffer->growth.growth, buffer->precision);
    vr_mutex_unlock(&buffer->lock);
    info->location = memory.kind;
    info->addr = memory.addr;
    info->wrapped = memory.wrapped;
    info->pinned = memory.kind == VRAM_MEMORY_PINNED && !memory.pageable;
    info->host = vr_buffer_host_pointer(&memory);
    if (memory.addr && !vr_buffer_on_device(&memory)) {
        info->numa_node = vr_os_numa_of_page(info->host);
    }
}

vram_status vr_buffer_info_get(vram_buffer *handle, vram_buffer_info *info) {
    VR_OPERATION("vram_buffer_info_get");
    struct vram_buffer_info full;
    void *buffer;
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &buffer);
    if (status == VRAM_OK) {
        buffer_describe(buffer, &full);
        status = vr_info_give(info, &full, sizeof full, sizeof full);
        vr_leave(buffer);
    }
    return status;
}

vram_status vram_buffer_info_get(vram_buffer *handle, vram_buffer_info *info) {
    return vr_buffer_info_get(handle, info);
}

vram_status vr_buffer_addr(vram_buffer *handle, vram_addr *addr) {
    VR_OPERATION("vram_buffer_addr");
    void *entered;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the address is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &entered);
    if (status == VRAM_OK) {
        struct vr_buffer *buffer = entered;
        uint64_t now = vr_clock_now();
        vr_mutex_lock(&buffer->lock);
        buffer->accessed_ns = now;
        *addr = buffer->memory.addr;
        vr_mutex_unlock(&buffer->lock);
        vr_leave(buffer);
    }
    return status;
}

vram_status vr_buffer_host(vram_buffer *handle, void **pointer) {
    VR_OPERATION("vram_buffer_host");
    void *entered;
    if (!pointer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the pointer is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    vr_buffer_touch(buffer);
    vr_mutex_lock(&buffer->lock);
    struct vr_buffer_memory memory = buffer->memory;
    vr_mutex_unlock(&buffer->lock);
    void *found = vr_buffer_host_pointer(&memory);
    vr_leave(buffer);
    if (!found) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the host cannot access this memory; use vram_buffer_map for a copy");
    }
    *pointer = found;
    return VRAM_OK;
}

vram_status vram_buffer_host(vram_buffer *handle, void **pointer) {
    return vr_buffer_host(handle, pointer);
}
