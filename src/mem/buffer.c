/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer.c: buffers from their creation to their end, and what is known of them.
 */
#include "mem/buffer_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "core/limit/limit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static vr_atomic_u64 last_id;

/* ------------------------------------------------------------ entering, leaving */

vram_status vr_buffer_enter(vram_buffer *handle, const char *operation, struct vr_buffer **out) {
    void *entered, *pool;
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    status = vr_enter(VR_KIND_POOL, (void *)(uintptr_t)buffer->pool_handle, operation, &pool);
    if (status != VRAM_OK) {
        vr_leave(buffer); /* its pool ends at this moment, and the buffer with it */
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

vram_status vr_buffer_finish(struct vr_buffer *buffer, vram_status status, const char *operation) {
    uint64_t handle = buffer->object.handle, pool = buffer->pool_handle;
    uint64_t device = buffer->pool->device->object.handle;
    vr_buffer_leave(buffer);
    status = vr_stale_if_ended(VR_KIND_BUFFER, handle, status, operation);
    status = vr_stale_if_ended(VR_KIND_POOL, pool, status, operation);
    return vr_stale_if_ended(VR_KIND_DEVICE, device, status, operation);
}

static vram_status busy(const struct vr_buffer *buffer, const char *operation) {
    const void *handle = (const void *)(uintptr_t)buffer->object.handle;
    return vr_handle_was(VR_KIND_BUFFER, handle)
               ? vr_handle_error(VR_KIND_BUFFER, handle, operation)
               : vr_fail(VRAM_ERR_BUSY, operation,
                         "another call is using or changing the buffer at this moment");
}

vram_status vr_buffer_share(struct vr_buffer *buffer, const char *operation) {
    return vr_entry_enter(&buffer->sharers) ? VRAM_OK : busy(buffer, operation);
}

void vr_buffer_unshare(struct vr_buffer *buffer) {
    vr_entry_leave(&buffer->sharers);
}

vram_status vr_buffer_claim(struct vr_buffer *buffer, const char *operation) {
    return vr_entry_close_empty(&buffer->sharers) ? VRAM_OK : busy(buffer, operation);
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

/* Takes the memory out of a buffer that nobody may enter any more, to be given back; none while somebody
   is inside who needs it: keeps (5) and (6). */
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

vram_status vram_buffer_destroy(vram_buffer *handle) {
    static const char operation[] = "vram_buffer_destroy";
    if (!handle || vr_exiting()) {
        return VRAM_OK;
    }
    struct vr_buffer *buffer = vr_handle_pin(VR_KIND_BUFFER, handle);
    if (!buffer) {
        return vr_handle_error(VR_KIND_BUFFER, handle, operation);
    }
    if (vr_forked(&buffer->object)) {
        vr_handle_retire(buffer->object.handle);
        return VRAM_OK; /* the references stay: nothing of the parent's is ever torn down here */
    }
    vram_status status = VRAM_OK;
    if (vr_handle_retire(buffer->object.handle)) {
        vram_queue *home;
        struct vr_buffer_memory memory = take_out(buffer, false, &home);
        status = vr_buffer_give(buffer, &memory, home);
        vr_handle_unpin(buffer->object.handle);
    } else {
        status = vr_handle_error(VR_KIND_BUFFER, handle, operation);
    }
    vr_leave(buffer);
    return status;
}

/* --------------------------------------------------------------------- creating */

vram_status vr_buffer_options_check(const struct vram_buffer_options *taken, uint64_t bytes,
                                    const char *operation) {
    uint32_t each = vram_precision_bytes(taken->precision);
    if ((unsigned)taken->kind > VRAM_BUFFER_FALLBACK) {
        return vr_fail(VRAM_ERR_INVALID, operation, "%d is no kind of buffer", (int)taken->kind);
    }
    if (!each) {
        return vr_fail(VRAM_ERR_INVALID, operation, "%d is no precision", (int)taken->precision);
    }
    if (bytes % each) {
        return vr_fail(VRAM_ERR_INVALID, operation, "%llu bytes are no whole number of %s elements",
                       (unsigned long long)bytes, vram_precision_name(taken->precision));
    }
    if (taken->flags & ~(uint32_t)VRAM_BUFFER_PAGEABLE) {
        return vr_fail(VRAM_ERR_INVALID, operation, "there are no such flags: 0x%x", taken->flags);
    }
    if (taken->name && strnlen(taken->name, VRAM_BUFFER_NAME_MAX) == VRAM_BUFFER_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, operation, "a buffer's name has at most %d bytes",
                       VRAM_BUFFER_NAME_MAX - 1);
    }
    return VRAM_OK;
}

/* A pool of page-locked memory has no other. */
static vram_status check_kind(const struct vr_pool *pool, vram_buffer_kind kind,
                              const char *operation) {
    return pool->kind != VRAM_MEMORY_PINNED || kind == VRAM_BUFFER_PINNED ||
                   kind == VRAM_BUFFER_MAPPED
               ? VRAM_OK
               : vr_fail(VRAM_ERR_UNSUPPORTED, operation,
                         "pool \"%s\" is of page-locked memory: its buffers are pinned or mapped",
                         pool->name);
}

vram_status vr_buffer_make(struct vr_pool *pool, uint64_t bytes, vram_queue *queue,
                           const struct vram_buffer_options *options, const char *operation,
                           struct vr_buffer **out) {
    struct vr_tag *tag = NULL;
    vram_status status = check_kind(pool, options->kind, operation);
    if (status == VRAM_OK && options->tag && *options->tag) {
        status = vr_tag_get(vr_ledger_of(pool->device), options->tag, operation, &tag);
    }
    struct vr_buffer *buffer =
        status == VRAM_OK ? vr_mem_alloc(1, sizeof *buffer, operation) : NULL;
    if (!buffer) {
        return status == VRAM_OK ? VRAM_ERR_HOST_MEMORY : status;
    }
    buffer->object.process = vr_os_process_generation();
    buffer->child.pool_ended = vr_buffer_pool_ended;
    buffer->pool = pool;
    buffer->pool_handle = pool->object.handle;
    buffer->id = vr_fetch_add(&last_id, 1, VR_RELAXED) + 1;
    buffer->kind = options->kind;
    buffer->precision = options->precision;
    buffer->flags = options->flags;
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

vram_status vr_buffer_publish(struct vr_pool *pool, struct vr_buffer *buffer, const char *operation,
                              vram_buffer **out) {
    uint64_t handle;
    vram_status status = vr_pool_child_publish(pool, VR_KIND_BUFFER, &buffer->object,
                                               vr_buffer_free, &buffer->child, operation, &handle);
    if (status == VRAM_OK) {
        *out = (vram_buffer *)(uintptr_t)handle;
    }
    return status;
}

static vram_status create(vram_pool *handle, uint64_t bytes, vram_queue *queue_handle,
                          const struct vram_buffer_options *options, const char *operation,
                          vram_buffer **out) {
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    struct vram_growth growth;
    uint64_t capacity;
    vram_status status = vr_growth_first(options->growth, bytes, operation, &growth, &capacity);
    if (status == VRAM_OK) {
        status = vr_pool_enter(handle, queue_handle, operation, &pool, &queue);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer;
    struct vr_buffer_memory memory = {0};
    vram_buffer_event event = {.size = sizeof event, .cause = VRAM_MOVE_FALLBACK};
    status = vr_buffer_make(pool, bytes, queue_handle, options, operation, &buffer);
    if (status == VRAM_OK) {
        buffer->growth.growth = growth;
        buffer->capacity_bytes = capacity;
        status = options->growth ? vr_buffer_take_growing(buffer, capacity, queue_handle, &memory)
                                 : vr_buffer_take(buffer, capacity, queue_handle, &memory);
        buffer->memory = memory;
        event.id = buffer->id;
        if (status == VRAM_OK) {
            status = vr_buffer_publish(pool, buffer, operation, out);
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
                            const char *operation, vram_buffer **out) {
    struct vr_buffer *buffer;
    struct vr_place place;
    vram_status status = vr_buffer_make(pool, bytes, queue, options, operation, &buffer);
    if (status == VRAM_OK) {
        buffer->memory.addr = addr;
        buffer->memory.base = base;
        buffer->memory.kind = vr_address_find(base, &place) ? place.kind : VRAM_MEMORY_DEVICE;
        status = vr_buffer_publish(pool, buffer, operation, out);
    }
    return status;
}

vram_status vram_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                               const vram_buffer_options *options, vram_buffer **buffer) {
    static const char operation[] = "vram_buffer_create";
    struct vram_buffer_options taken;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the buffer is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options, operation);
    if (status == VRAM_OK) {
        status = vr_buffer_options_check(&taken, bytes, operation);
    }
    return status == VRAM_OK ? create(pool, bytes, queue, &taken, operation, buffer) : status;
}

vram_status vram_buffer_create_elements(vram_pool *pool, uint64_t count, vram_precision precision,
                                        vram_queue *queue, const vram_buffer_options *options,
                                        vram_buffer **buffer) {
    static const char operation[] = "vram_buffer_create_elements";
    struct vram_buffer_options taken;
    uint64_t bytes;
    if (!buffer) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the buffer is NULL");
    }
    vram_status status = vram_precision_size(precision, count, &bytes);
    if (status == VRAM_OK) {
        status = vr_options_take(&taken, sizeof taken, options, operation);
    }
    if (status == VRAM_OK) {
        taken.precision = precision;
        status = vr_buffer_options_check(&taken, bytes, operation);
    }
    return status == VRAM_OK ? create(pool, bytes, queue, &taken, operation, buffer) : status;
}

/* ------------------------------------------------------------------------- uses */

/* Makes room for the points that those who share the buffer may add, each one. Under the lock. */
static vram_status uses_reserve(struct vr_buffer *buffer) {
    uint32_t needed = buffer->use_count + vr_entry_inside(&buffer->sharers);
    if (needed <= buffer->use_room) {
        return VRAM_OK;
    }
    uint32_t room = 2 * needed;
    struct vram_point *uses = vr_mem_resize(buffer->uses, room, sizeof *uses, "vram_buffer_use");
    if (!uses) {
        return VRAM_ERR_HOST_MEMORY;
    }
    buffer->uses = uses;
    buffer->use_room = room;
    return VRAM_OK;
}

/* Keeps (4): one point per queue, the latest. Queues that have ended make room. Under the lock, with room. */
static void uses_note(struct vr_buffer *buffer, vram_point point) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < buffer->use_count; i++) {
        if (buffer->uses[i].queue != point.queue &&
            !vr_handle_was(VR_KIND_QUEUE, buffer->uses[i].queue)) {
            buffer->uses[kept++] = buffer->uses[i];
        }
    }
    buffer->uses[kept++] = point;
    buffer->use_count = kept;
}

/* The buffer is shared. */
static vram_status note_use(struct vr_buffer *buffer, vram_queue *queue) {
    vram_point point = {queue, 0};
    vr_mutex_lock(&buffer->lock);
    vram_addr addr = buffer->memory.base ? buffer->memory.base : buffer->memory.addr;
    bool home = buffer->home == queue, wrapped = buffer->memory.wrapped;
    vram_status status = home ? VRAM_OK : uses_reserve(buffer);
    vr_mutex_unlock(&buffer->lock);
    if (status == VRAM_OK && !home) {
        status = wrapped ? vram_queue_mark(queue, &point)
                         : vr_pool_use(addr, queue, "vram_buffer_use", &point);
    }
    if (status == VRAM_OK && !home) {
        vr_mutex_lock(&buffer->lock);
        if (point.value) {
            uses_note(buffer, point);
        } else {
            buffer->captured_use = true;
        }
        vr_mutex_unlock(&buffer->lock);
    }
    return status;
}

/* What is not noted has to be over. */
vram_status vr_buffer_note(struct vr_buffer *buffer, vram_queue *queue) {
    struct vram_error error;
    vr_error_save(&error);
    if (note_use(buffer, queue) == VRAM_OK) {
        return VRAM_OK;
    }
    vr_error_restore(&error);
    return vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
}

vram_status vram_buffer_use(vram_buffer *handle, vram_queue *queue_handle) {
    static const char operation[] = "vram_buffer_use";
    struct vr_buffer *buffer;
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    vram_status status = vr_buffer_enter(handle, operation, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    if (!queue_handle) {
        status = vr_handle_error(VR_KIND_QUEUE, NULL, operation);
    } else {
        status = vr_pool_enter((vram_pool *)(uintptr_t)buffer->pool_handle, queue_handle, operation,
                               &pool, &queue);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_share(buffer, operation);
        if (status == VRAM_OK) {
            status = note_use(buffer, queue_handle);
            vr_buffer_unshare(buffer);
        }
        vr_pool_leave(pool, queue);
    }
    if (status == VRAM_OK) {
        vr_buffer_touch(buffer);
    }
    return vr_buffer_finish(buffer, status, operation);
}

/* ------------------------------------------------------------------ information */

static void describe(struct vr_buffer *buffer, struct vram_buffer_info *info) {
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
    vr_mutex_unlock(&buffer->lock);
    info->elements = info->used_bytes / vram_precision_bytes(info->precision);
    info->location = memory.kind;
    info->addr = memory.addr;
    info->wrapped = memory.wrapped;
    info->pinned = memory.kind == VRAM_MEMORY_PINNED && !memory.pageable;
    info->host = vr_buffer_host_pointer(&memory);
    if (memory.addr && !vr_buffer_on_device(&memory)) {
        info->numa_node = vr_os_numa_of_page(info->host);
    }
}

vram_status vram_buffer_info_get(vram_buffer *handle, vram_buffer_info *info) {
    static const char operation[] = "vram_buffer_info_get";
    struct vram_buffer_info full;
    void *buffer;
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, operation, &buffer);
    if (status == VRAM_OK) {
        describe(buffer, &full);
        status = vr_info_give(info, &full, sizeof full, sizeof full, operation);
        vr_leave(buffer);
    }
    return status;
}

vram_status vram_buffer_addr(vram_buffer *handle, vram_addr *addr) {
    static const char operation[] = "vram_buffer_addr";
    void *entered;
    if (!addr) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the address is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, operation, &entered);
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

vram_status vram_buffer_host(vram_buffer *handle, void **pointer) {
    static const char operation[] = "vram_buffer_host";
    void *entered;
    if (!pointer) {
        return vr_fail(VRAM_ERR_INVALID, operation, "the place for the pointer is NULL");
    }
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, operation, &entered);
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
        return vr_fail(VRAM_ERR_UNSUPPORTED, operation,
                       "the host may not touch this memory; vram_buffer_map gives it a copy");
    }
    *pointer = found;
    return VRAM_OK;
}
