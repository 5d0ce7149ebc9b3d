/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_memory.c: the memory of a buffer: taking it, giving it back in queue order, copying from one to
 * another behind all work that uses it.
 */
#include "mem/buffer_object.h"

#include "base/error.h"

static vram_pool *pool_of(const struct vr_buffer *buffer) {
    return (vram_pool *)(uintptr_t)buffer->pool_handle;
}

/* ----------------------------------------------------------------------- taking */

/* From the pool; whose ladder may have had to take other memory than the device's. */
static vram_status take_block(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                              struct vr_buffer_memory *memory) {
    struct vram_alloc_options options = {.size = sizeof options, .tag = buffer->tag};
    struct vr_place place;
    vram_addr addr;
    vram_status status = buffer->tag
                             ? vram_alloc_with(pool_of(buffer), bytes, queue, &options, &addr)
                             : vram_alloc(pool_of(buffer), bytes, queue, &addr);
    if (status == VRAM_OK) {
        *memory = (struct vr_buffer_memory){
            .addr = addr, .kind = vr_address_find(addr, &place) ? place.kind : VRAM_MEMORY_DEVICE};
    }
    return status;
}

vram_status vr_buffer_take(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                           struct vr_buffer_memory *memory) {
    return take_block(buffer, bytes, queue, memory);
}

/* ------------------------------------------------------------------ giving back */

/* Frees a block whose queue takes no calls any more. One that has not finished its work keeps the block
   out of everybody's hands until the pool ends: there is no later moment to wait for. */
static vram_status give_without_queue(struct vr_buffer *buffer, vram_addr addr,
                                      const vram_queue *queue) {
    if (!vr_handle_was(VR_KIND_QUEUE, queue)) {
        (void)vram_pin(addr);
    }
    return vram_free(pool_of(buffer), addr, NULL);
}

vram_status vr_buffer_give(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                           vram_queue *queue) {
    struct vram_error error;
    if (!memory->addr || memory->base || vr_handle_was(VR_KIND_POOL, pool_of(buffer))) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vram_free(pool_of(buffer), memory->addr, queue);
    if (status == VRAM_ERR_STALE && queue) {
        vr_error_restore(&error);
        status = give_without_queue(buffer, memory->addr, queue);
    }
    if (status != VRAM_OK && status != VRAM_ERR_CORRUPT) {
        vr_error_restore(&error); /* the pool has ended meanwhile: so has its memory */
        status = VRAM_OK;
    }
    return status;
}

/* ----------------------------------------------------------------------- moving */

/* Has `queue` wait for what was submitted to `home`. A home that has ended has nothing left to wait for. */
static vram_status follow_home(vram_queue *queue, vram_queue *home, const char *operation) {
    struct vram_error error;
    vram_point point;
    if (!home || home == queue || vr_handle_was(VR_KIND_QUEUE, home)) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vram_queue_mark(home, &point);
    if (status == VRAM_OK) {
        return vram_queue_after(queue, point);
    }
    if (status == VRAM_ERR_STALE && vr_handle_was(VR_KIND_QUEUE, home)) {
        vr_error_restore(&error);
        return VRAM_OK;
    }
    if (status == VRAM_ERR_STALE) {
        return vr_fail(VRAM_ERR_BUSY, operation,
                       "the buffer's queue was destroyed with unfinished work");
    }
    return status;
}

vram_status vr_buffer_order(struct vr_buffer *buffer, vram_queue *queue, const char *operation) {
    /* Claimed, nobody else changes these. */
    vram_status status = follow_home(queue, buffer->home, operation);
    if (status == VRAM_OK && buffer->captured_use) {
        status = vr_fail(VRAM_ERR_CAPTURE, operation,
                         "work in a captured graph uses the buffer: it has to stay where it is");
    }
    for (uint32_t i = 0; i < buffer->use_count && status == VRAM_OK; i++) {
        if (buffer->uses[i].queue != queue) {
            status = vram_queue_after(queue, buffer->uses[i]);
        }
    }
    return status;
}

static bool on_device(const struct vr_buffer_memory *memory) {
    return memory->kind == VRAM_MEMORY_DEVICE || memory->kind == VRAM_MEMORY_MANAGED;
}

vram_status vr_buffer_copy(struct vr_buffer *buffer, vram_queue *queue,
                           const struct vr_buffer_memory *to, const struct vr_buffer_memory *from,
                           uint64_t bytes) {
    (void)buffer;
    if (!bytes) {
        return VRAM_OK;
    }
    if (on_device(to) && on_device(from)) {
        return vram_queue_copy(queue, to->addr, from->addr, bytes);
    }
    return on_device(to)
               ? vram_queue_upload(queue, to->addr, (const void *)(uintptr_t)from->addr, bytes)
               : vram_queue_download(queue, (void *)(uintptr_t)to->addr, from->addr, bytes);
}

void vr_buffer_install(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                       vram_queue *queue) {
    vr_mutex_lock(&buffer->lock);
    buffer->memory = *memory;
    buffer->home = queue;
    buffer->use_count = 0;
    vr_mutex_unlock(&buffer->lock);
}
