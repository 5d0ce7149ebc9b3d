/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_memory.c: the memory of a buffer: allocation, free in stream order, and copies that are
 * ordered behind all work that uses the buffer.
 */
#include "mem/buffer_object.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/cache/other_memory.h"
#include "core/cache/provided.h"
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "mem/mem_calls.h"
#include "vram/oom.h"

#include <string.h>

static vram_pool *pool_of(const struct vr_buffer *buffer) {
    return (vram_pool *)(uintptr_t)buffer->pool_handle;
}

/* ----------------------------------------------------------------------- taking */

void vr_buffer_found(vram_addr addr, struct vr_buffer_memory *memory) {
    struct vr_address_info place;
    *memory = (struct vr_buffer_memory){
        .addr = addr, .kind = vr_address_find(addr, &place) ? place.kind : VRAM_MEMORY_DEVICE};
}

struct vram_alloc_options vr_buffer_alloc_options(const struct vr_buffer *buffer, uint64_t bytes) {
    bool shown = vr_pool_is_watched(buffer->pool) || vr_log_maybe(VRAM_LOG_DEBUG);
    bool named = shown && *buffer->name;
    return (struct vram_alloc_options){
        .size = sizeof(struct vram_alloc_options),
        .tag = buffer->tag,
        .name = named ? buffer->name : NULL,
        .elements =
            named ? bytes / vr_element_bytes(&buffer->growth.growth, buffer->precision) : 0};
}

/* From the pool, whose ladder may fall back to memory that is not on the device. A buffer with a
   fallback of its own does not use the ladder's, and does not first wait for memory that other
   threads free. */
vram_status vr_buffer_take_block(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                 struct vr_buffer_memory *memory) {
    bool hasty = buffer->kind == VRAM_BUFFER_FALLBACK;
    struct vram_alloc_options options = vr_buffer_alloc_options(buffer, bytes);
    options.flags = hasty ? VRAM_ALLOC_NO_WAIT | VRAM_ALLOC_NO_FALLBACK : 0;
    vram_addr addr;
    bool plain = !options.tag && !options.flags && !options.name;
    vram_status status =
        vr_alloc_owned(pool_of(buffer), bytes, queue, plain ? NULL : &options, &addr);
    if (status == VRAM_OK) {
        vr_buffer_found(addr, memory);
    }
    return status;
}

static vram_status take_by(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                           const struct vr_other *other, struct vr_buffer_memory *memory) {
    struct vram_alloc_options options = vr_buffer_alloc_options(buffer, bytes);
    vram_addr addr;
    vram_status status = vr_pool_alloc_other(pool_of(buffer), bytes, queue, &options, other, &addr);
    if (status == VRAM_OK) {
        vr_buffer_found(addr, memory);
    }
    return status;
}

static vram_status take_other(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                              uint32_t kinds, uint32_t flags, struct vr_buffer_memory *memory) {
    return take_by(buffer, bytes, queue, &(struct vr_other){.kinds = kinds, .flags = flags},
                   memory);
}

vram_status vr_buffer_take_host(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                struct vr_buffer_memory *memory) {
    return take_other(buffer, bytes, queue, VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST,
                      VR_REQUEST_MOVED, memory);
}

static vram_status fail_unsupported(struct vr_buffer *buffer, const char *what) {
    VR_OPERATION("vram_buffer_create");
    const struct vram_device_info *info = &buffer->pool->device->base.info;
    return vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u has no %s", info->backend,
                   info->backend_index, what);
}

/* Asks the driver, where it can be asked, whether the memory is really page-locked. If not, frees
   it, unless pageable memory is allowed. */
static vram_status ask_driver(struct vr_buffer *buffer, bool pageable, vram_queue *queue,
                              struct vr_buffer_memory *memory) {
    VR_OPERATION("vram_buffer_create");
    vram_value pinned = {0};
    vram_status status = vr_pinned_check(&buffer->pool->device->base, memory->addr, &pinned);
    memory->pageable = pinned.known && !pinned.value;
    if (status == VRAM_OK && memory->pageable && !pageable) {
        status =
            vr_fail(VRAM_ERR_UNSUPPORTED, "the driver says that the memory is not page-locked; "
                                          "VRAM_BUFFER_PAGEABLE allows it");
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_buffer_give(buffer, memory, queue);
        vr_error_restore(&error);
        *memory = (struct vr_buffer_memory){0};
    }
    return status;
}

/* For a pool of page-locked or managed memory. Allocates without a queue: the host may write at
   once, so pending work must not use the memory. Memory of another kind, from the pool's own
   fallback, is accepted only with the flag. So is what a provider calls page-locked and the driver
   does not. */
static vram_status take_pooled(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                               struct vr_buffer_memory *memory) {
    VR_OPERATION("vram_buffer_create");
    vram_status status = vr_buffer_take_block(buffer, bytes, NULL, memory);
    if (status == VRAM_OK && memory->kind == VRAM_MEMORY_PINNED && buffer->pool->provider.alloc) {
        return ask_driver(buffer, buffer->flags & VRAM_BUFFER_PAGEABLE, queue, memory);
    }
    if (status != VRAM_OK || memory->kind == buffer->pool->kind ||
        buffer->flags & VRAM_BUFFER_PAGEABLE) {
        return status;
    }
    (void)vr_buffer_give(buffer, memory, queue);
    *memory = (struct vr_buffer_memory){0};
    return buffer->pool->kind == VRAM_MEMORY_MANAGED
               ? vr_fail(VRAM_ERR_LIMIT, "no managed memory is left")
               : vr_fail(VRAM_ERR_LIMIT, "no page-locked memory is left; VRAM_BUFFER_PAGEABLE "
                                         "allows ordinary memory");
}

static vram_status take_pinned(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                               struct vr_buffer_memory *memory) {
    if (buffer->pool->kind == VRAM_MEMORY_PINNED) {
        return take_pooled(buffer, bytes, queue, memory);
    }
    bool pageable = buffer->flags & VRAM_BUFFER_PAGEABLE;
    bool has = buffer->pool->device->base.info.caps & VRAM_CAP_PINNED;
    if (!has && !pageable) {
        return fail_unsupported(buffer,
                                "page-locked memory; VRAM_BUFFER_PAGEABLE allows ordinary memory");
    }
    uint32_t other = VRAM_FALLBACK_PINNED | (pageable ? VRAM_FALLBACK_HOST : 0);
    vram_status status = take_other(buffer, bytes, queue, other, VR_REQUEST_CHOSEN, memory);
    return status == VRAM_OK && memory->kind == VRAM_MEMORY_PINNED
               ? ask_driver(buffer, pageable, queue, memory)
               : status;
}

static vram_status take_managed(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                struct vr_buffer_memory *memory) {
    if (buffer->pool->kind == VRAM_MEMORY_MANAGED) {
        return take_pooled(buffer, bytes, queue, memory);
    }
    if (!(buffer->pool->device->base.info.caps & VRAM_CAP_MANAGED)) {
        return fail_unsupported(buffer, "memory that migrates between host and device");
    }
    return take_other(buffer, bytes, queue, VRAM_FALLBACK_MANAGED, VR_REQUEST_CHOSEN, memory);
}

/* For devices that read page-locked memory in place: a host pointer is a device address. */
static vram_status take_mapped(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                               struct vr_buffer_memory *memory) {
    uint32_t caps = buffer->pool->device->base.info.caps;
    uint32_t needed = VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS;
    if (caps & VRAM_CAP_HOST_ACCESS && vr_pool_on_device(buffer->pool)) {
        return vr_buffer_take_block(buffer, bytes, queue, memory);
    }
    if ((caps & needed) != needed) {
        return fail_unsupported(buffer, "memory that host and device reach at one address");
    }
    if (buffer->pool->kind == VRAM_MEMORY_PINNED) {
        return take_pooled(buffer, bytes, queue, memory);
    }
    return take_other(buffer, bytes, queue, VRAM_FALLBACK_PINNED, VR_REQUEST_CHOSEN, memory);
}

/* Falls back to host memory when any memory of the device runs out. If host memory runs out too,
   returns the device's error. */
static vram_status take_fallback(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                 struct vr_buffer_memory *memory) {
    struct vram_error before, error;
    vr_error_save(&before);
    vram_status status = vr_buffer_take_block(buffer, bytes, queue, memory);
    if (!vr_status_is_exhausted(status) || !vr_limit_falls_back(buffer->pool)) {
        return status;
    }
    vr_error_save(&error);
    vram_status other =
        take_other(buffer, bytes, queue, VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST, 0, memory);
    if (vr_status_is_exhausted(other)) {
        vr_error_restore(&error);
        return status;
    }
    if (other == VRAM_OK) {
        vr_error_restore(&before);
        vr_mutex_lock(&buffer->lock);
        buffer->displaced = true;
        vr_mutex_unlock(&buffer->lock);
    }
    return other;
}

/* The kind of memory that a buffer with a provider of its own asks it for. */
static vram_memory_kind provided_kind(const struct vr_buffer *buffer) {
    return buffer->kind == VRAM_BUFFER_PINNED    ? VRAM_MEMORY_PINNED
           : buffer->kind == VRAM_BUFFER_MANAGED ? VRAM_MEMORY_MANAGED
                                                 : VRAM_MEMORY_DEVICE;
}

static vram_status take_provided(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                 struct vr_buffer_memory *memory) {
    const struct vr_provided source = {&buffer->provider, provided_kind(buffer), NULL};
    const struct vr_other other = {.flags = VR_REQUEST_CHOSEN, .provided = &source};
    vram_status status = take_by(buffer, bytes, queue, &other, memory);
    return status == VRAM_OK && source.kind == VRAM_MEMORY_PINNED
               ? ask_driver(buffer, buffer->flags & VRAM_BUFFER_PAGEABLE, queue, memory)
               : status;
}

/* Whether the driver's memory would take the place of the pool's provider without a word. */
static bool is_beside_provider(const struct vr_buffer *buffer) {
    return buffer->pool->provider.alloc && buffer->pool->kind == VRAM_MEMORY_DEVICE &&
           buffer->kind != VRAM_BUFFER_DEVICE && buffer->kind != VRAM_BUFFER_FALLBACK;
}

vram_status vr_buffer_take(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                           struct vr_buffer_memory *memory) {
    if (buffer->provider.alloc) {
        return take_provided(buffer, bytes, queue, memory);
    }
    if (is_beside_provider(buffer)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "pool \"%s\" is on a provider of device memory: a %s buffer would not come "
                       "from it; say what it serves (vram_pool_options.kind), or give the buffer a "
                       "provider",
                       buffer->pool->name, vr_buffer_kind_name(buffer->kind));
    }
    switch (buffer->kind) {
    case VRAM_BUFFER_PINNED:
        return take_pinned(buffer, bytes, queue, memory);
    case VRAM_BUFFER_MANAGED:
        return take_managed(buffer, bytes, queue, memory);
    case VRAM_BUFFER_MAPPED:
        return take_mapped(buffer, bytes, queue, memory);
    case VRAM_BUFFER_FALLBACK:
        return take_fallback(buffer, bytes, queue, memory);
    case VRAM_BUFFER_DEVICE:
    default:
        return vr_buffer_take_block(buffer, bytes, queue, memory);
    }
}

/* --------------------------------------------------------------------- freeing */

/* Returns the pool's fallback memory to the driver, as soon as no work uses it. */
static void reap_fallback(const struct vr_buffer *buffer) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, pool_of(buffer));
    if (pool) {
        vr_fallback_reap(pool);
        vr_leave(pool);
    }
}

/* Removes wrapped memory from the address map, and releases a wrapped object. */
static void unwrap_memory(const struct vr_buffer_memory *memory) {
    struct vr_record *record = memory->foreign;
    if (record) {
        uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
        vr_record_withdraw(record);
        vr_record_give(record);
        if (memory->keeper) {
            vr_object_give(&memory->keeper->base, memory->addr, bytes);
            vr_handle_unpin(memory->keeper->object.handle);
        }
    }
}

vram_status vr_buffer_give(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                           vram_queue *queue) {
    struct vram_error error;
    if (memory->wrapped) {
        unwrap_memory(memory);
    }
    if (memory->wrapped || !memory->addr || memory->base ||
        vr_handle_was(VR_KIND_POOL, pool_of(buffer))) {
        return VRAM_OK;
    }
    (void)vr_pool_own(buffer->pool_handle, memory->addr, false);
    vr_error_save(&error);
    vram_status status = vr_free(pool_of(buffer), memory->addr, queue);
    if (status == VRAM_ERR_STALE && queue) {
        vr_error_restore(&error);
        status = vr_pool_free_after_queue(pool_of(buffer), memory->addr, queue);
    }
    if (status != VRAM_OK && status != VRAM_ERR_CORRUPT) {
        vr_error_restore(&error); /* the pool has ended meanwhile, and has freed the memory */
        status = VRAM_OK;
    }
    if (memory->kind != VRAM_MEMORY_DEVICE || buffer->provider.alloc) {
        reap_fallback(buffer);
    }
    return status;
}

/* ----------------------------------------------------------------------- moving */

/* Waits for the work of a user that has ended or is ending. `before` is the error record from
   before the queue refused the call. */
static vram_status wait_for_user(vram_queue *user, const struct vram_error *before) {
    vr_error_restore(before);
    return vr_queue_drained(user)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_BUSY, "the buffer's queue was destroyed with unfinished work");
}

/* Has `queue` wait for what was submitted to `user`, the buffer's home or another queue that uses
   it. One that has ended has nothing left to wait for. */
static vram_status follow_user(vram_queue *queue, vram_queue *user) {
    struct vram_error error;
    vram_point point;
    if (!user || user == queue || vr_handle_was(VR_KIND_QUEUE, user)) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_submit_mark(user, &point);
    if (status == VRAM_OK) {
        return vr_submit_after(queue, point);
    }
    return status == VRAM_ERR_STALE ? wait_for_user(user, &error) : status;
}

vram_status vr_buffer_order(struct vr_buffer *buffer, vram_queue *queue) {
    /* The buffer is claimed: no other thread changes these. */
    vram_status status = follow_user(queue, buffer->home);
    if (status == VRAM_OK && buffer->captured_use) {
        status = vr_fail(VRAM_ERR_CAPTURE,
                         "work in a captured graph uses the buffer: it has to stay where it is");
    }
    for (uint32_t i = 0; i < buffer->use_count && status == VRAM_OK; i++) {
        status = follow_user(queue, buffer->uses[i]);
    }
    return status;
}

/* Copies the users of a buffer that is only shared, as other calls may add some meanwhile. The
   caller frees the copy (vr_mem_free). */
static vram_status copy_uses(struct vr_buffer *buffer, vram_queue **home, vram_queue ***users,
                             uint32_t *count) {
    vr_mutex_lock(&buffer->lock);
    *home = buffer->home;
    *count = buffer->use_count;
    *users = *count ? vr_mem_alloc(*count, sizeof **users, vr_operation()) : NULL;
    if (*users) {
        memcpy(*users, buffer->uses, *count * sizeof **users);
    }
    bool captured = buffer->captured_use;
    vr_mutex_unlock(&buffer->lock);
    if (*count && !*users) {
        return VRAM_ERR_HOST_MEMORY;
    }
    if (captured) {
        vr_mem_free(*users);
        return vr_fail(VRAM_ERR_CAPTURE,
                       "work in a captured graph uses the buffer: its end cannot be waited for");
    }
    return VRAM_OK;
}

static vram_status settle_user(vram_queue *user) {
    struct vram_error error;
    if (!user || vr_handle_was(VR_KIND_QUEUE, user)) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_queue_wait(user, VRAM_TIMEOUT_DEFAULT);
    return status == VRAM_ERR_STALE ? wait_for_user(user, &error) : status;
}

vram_status vr_buffer_settle(struct vr_buffer *buffer) {
    vram_queue **users, *home;
    uint32_t count;
    vram_status status = copy_uses(buffer, &home, &users, &count);
    if (status != VRAM_OK) {
        return status;
    }
    status = settle_user(home);
    for (uint32_t i = 0; i < count && status == VRAM_OK; i++) {
        status = settle_user(users[i]);
    }
    vr_mem_free(users);
    return status;
}

bool vr_buffer_on_device(const struct vr_buffer_memory *memory) {
    return memory->kind == VRAM_MEMORY_DEVICE || memory->kind == VRAM_MEMORY_MANAGED;
}

void *vr_buffer_host_pointer(const struct vr_buffer_memory *memory) {
    struct vram_native_info native = {.size = sizeof native};
    if (!memory->addr || memory->kind != VRAM_MEMORY_DEVICE) {
        return (void *)(uintptr_t)memory->addr;
    }
    struct vram_error error;
    vr_error_save(&error);
    bool found = vr_native_get(memory->addr, &native) == VRAM_OK;
    vr_error_restore(&error);
    return found ? native.host_pointer : NULL;
}

vram_status vr_buffer_queue_check(struct vr_buffer *buffer, vram_queue *queue) {
    struct vr_pool *pool;
    struct vr_queue_object *entered;
    if (!queue) {
        return VRAM_OK;
    }
    vram_status status = vr_pool_enter(pool_of(buffer), queue, &pool, &entered);
    if (status == VRAM_OK) {
        vr_pool_leave(pool, entered);
    }
    return status;
}

vram_status vr_buffer_queue(struct vr_buffer *buffer, vram_queue *given, vram_queue **queue) {
    vr_mutex_lock(&buffer->lock);
    *queue = given ? given : buffer->home;
    vr_mutex_unlock(&buffer->lock);
    return *queue ? VRAM_OK
                  : vr_fail(VRAM_ERR_INVALID,
                            "the buffer has no queue of its own, and none was given");
}

static vram_status copy_on_host(vram_queue *queue, const struct vr_buffer_memory *to,
                                const struct vr_buffer_memory *from, uint64_t bytes) {
    vram_status status = vr_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    if (status == VRAM_OK) {
        memcpy((void *)(uintptr_t)to->addr, (const void *)(uintptr_t)from->addr, bytes);
    }
    return status;
}

static vram_status copy_on(vram_queue *queue, const struct vr_buffer_memory *to,
                           const struct vr_buffer_memory *from, uint64_t bytes) {
    bool to_device = vr_buffer_on_device(to), from_device = vr_buffer_on_device(from);
    if (!bytes) {
        return VRAM_OK;
    }
    if (to_device && from_device) {
        return vr_submit_copy(queue, to->addr, from->addr, bytes);
    }
    if (to_device) {
        return vr_submit_upload(queue, to->addr, (const void *)(uintptr_t)from->addr, bytes);
    }
    return from_device ? vr_submit_download(queue, (void *)(uintptr_t)to->addr, from->addr, bytes)
                       : copy_on_host(queue, to, from, bytes);
}

/* Enters the queue, so that it does not end between the two steps. */
vram_status vr_buffer_copy(struct vr_buffer *buffer, vram_queue *queue,
                           const struct vr_buffer_memory *to, const struct vr_buffer_memory *from,
                           uint64_t bytes) {
    void *entered;
    vram_status status = vr_submit_enter(queue, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_order(buffer, queue);
    if (status == VRAM_OK) {
        status = copy_on(queue, to, from, bytes);
    }
    vr_submit_leave(entered);
    return status;
}

vram_status vr_buffer_install(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                              vram_queue *queue) {
    struct vram_error error;
    vr_error_save(&error);
    for (uint32_t i = 0; i < buffer->use_count; i++) { /* claimed: nobody adds one */
        vram_status status = vr_pool_use(memory->addr, buffer->uses[i]);
        if (status != VRAM_OK && status != VRAM_ERR_STALE) {
            return status;
        }
    }
    vr_error_restore(&error);
    vr_mutex_lock(&buffer->lock);
    buffer->memory = *memory;
    buffer->home = queue;
    vr_mutex_unlock(&buffer->lock);
    return VRAM_OK;
}
