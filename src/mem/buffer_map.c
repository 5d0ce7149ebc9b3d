/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_map.c: host access to a buffer: to its memory where the host can reach it, else to a copy
 * that is downloaded and written back.
 *
 *  (1) A mapping shares its buffer, buffer_object.h (2), from the end of map to the end of unmap.
 *  (2) While it is made it claims the buffer, so there is at most one mapping.
 *  (3) The copy is a block of host memory of the pool. When unmap has succeeded, the only work that
 *      uses it is what unmap submitted, and the block is freed behind that in stream order.
 */
#include "core/pool/pool_calls.h"
#include "mem/buffer_object.h"

#include "base/error.h"
#include "device/address.h"
#include "device/device_calls.h"
#include "vram/oom.h"

static vram_status take_staging(struct vr_buffer *buffer, struct vr_buffer_mapping *mapping) {
    struct vram_alloc_options options = vr_buffer_alloc_options(buffer, mapping->bytes);
    const struct vr_other other = {.kinds = VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST,
                                   .flags = VR_REQUEST_CHOSEN};
    return vr_pool_alloc_other((vram_pool *)(uintptr_t)buffer->pool_handle, mapping->bytes,
                               mapping->queue, &options, &other, &mapping->staging);
}

static void give_staging(struct vr_buffer *buffer, const struct vr_buffer_mapping *mapping) {
    struct vr_buffer_memory staging = {.addr = mapping->staging, .kind = VRAM_MEMORY_PINNED};
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_buffer_give(buffer, &staging, mapping->queue);
    vr_error_restore(&error);
}

/* Makes a copy for the host, and downloads the contents if the host wants to read. The buffer is
   claimed and settled. */
static vram_status fetch_copy(struct vr_buffer *buffer, struct vr_buffer_mapping *mapping) {
    vram_status status = take_staging(buffer, mapping);
    if (status != VRAM_OK || !(mapping->flags & VRAM_MAP_READ) || !mapping->bytes) {
        return status;
    }
    void *entered;
    status = vr_submit_enter(mapping->queue, &entered);
    if (status == VRAM_OK) {
        status = vr_submit_download(mapping->queue, (void *)(uintptr_t)mapping->staging,
                                    buffer->memory.addr + mapping->offset, mapping->bytes);
        if (status == VRAM_OK) {
            status = vr_queue_wait(mapping->queue, VRAM_TIMEOUT_DEFAULT);
        }
        vr_submit_leave(entered);
    }
    if (status != VRAM_OK) {
        give_staging(buffer, mapping);
    }
    return status;
}

/* Whether the host may write where it maps the memory itself: not if it is sealed, or another
   process's and read-only. */
static vram_status write_check(const struct vr_buffer *buffer,
                               const struct vr_buffer_mapping *mapping) {
    struct vr_address_info place;
    struct vr_device_object *owner;
    vram_addr addr = buffer->memory.addr + mapping->offset;
    if (!(mapping->flags & VRAM_MAP_WRITE) || !vr_buffer_on_device(&buffer->memory)) {
        return VRAM_OK;
    }
    vram_status status = vr_span_owner(addr, &place, &owner);
    if (status == VRAM_OK) {
        status = vr_span_check_write(owner, addr, mapping->bytes);
        vr_leave(owner);
    }
    return status;
}

/* The buffer is claimed. */
static vram_status map_claimed(struct vr_buffer *buffer, struct vr_buffer_mapping *mapping,
                               void **pointer) {
    vram_status status = vr_buffer_settle(buffer);
    char *host = status == VRAM_OK ? vr_buffer_host_pointer(&buffer->memory) : NULL;
    if (status == VRAM_OK && !host) {
        status = vr_buffer_queue(buffer, mapping->queue, &mapping->queue);
        if (status == VRAM_OK) {
            status = fetch_copy(buffer, mapping);
        }
        host = (char *)(uintptr_t)mapping->staging;
    } else if (status == VRAM_OK) {
        host += mapping->offset;
        status = write_check(buffer, mapping);
    }
    if (status == VRAM_OK) {
        *pointer = host;
    }
    return status;
}

/* Turns the claim into a share: keeps (1). */
static void open_mapping(struct vr_buffer *buffer, const struct vr_buffer_mapping *mapping) {
    vr_mutex_lock(&buffer->lock);
    buffer->mapping = *mapping;
    buffer->mapping.open = true;
    vr_mutex_unlock(&buffer->lock);
    vr_entry_close_to_enter(&buffer->sharers);
}

vram_status vram_buffer_map(vram_buffer *handle, uint64_t offset, uint64_t bytes, uint32_t flags,
                            vram_queue *queue, void **pointer) {
    VR_CALL;
    struct vr_buffer *buffer;
    struct vr_buffer_mapping mapping = {
        .flags = flags, .offset = offset, .bytes = bytes, .queue = queue};
    if (!pointer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the pointer is NULL");
    }
    if (!flags || flags & ~(uint32_t)(VRAM_MAP_READ | VRAM_MAP_WRITE)) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a mapping: 0x%x", flags);
    }
    vram_status status = vr_buffer_enter(handle, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_span_check(buffer, offset, bytes);
    if (status == VRAM_OK) {
        status = vr_buffer_queue_check(buffer, queue);
    }
    if (status == VRAM_OK) {
        status = vr_buffer_claim(buffer);
    }
    if (status == VRAM_OK) {
        status = map_claimed(buffer, &mapping, pointer);
        if (status == VRAM_OK) {
            vr_buffer_touch(buffer);
            open_mapping(buffer, &mapping);
        } else {
            vr_buffer_unclaim(buffer);
        }
    }
    return vr_buffer_finish(buffer, status);
}

/* ----------------------------------------------------------------------- ending */

/* Writes the copy back. On a queue other than the home queue it waits for the copy, which no record
   would show to be pending. */
static vram_status bring_back(struct vr_buffer *buffer, const struct vr_buffer_mapping *mapping,
                              vram_addr addr, bool home) {
    (void)buffer;
    if (!mapping->staging || !(mapping->flags & VRAM_MAP_WRITE) || !mapping->bytes) {
        return VRAM_OK;
    }
    void *entered;
    vram_status status = vr_submit_enter(mapping->queue, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_submit_upload(mapping->queue, addr + mapping->offset,
                              (const void *)(uintptr_t)mapping->staging, mapping->bytes);
    if (status == VRAM_OK && !home) {
        status = vr_queue_wait(mapping->queue, VRAM_TIMEOUT_DEFAULT);
    }
    vr_submit_leave(entered);
    return status;
}

/* Makes the caller the one that ends the mapping, if there is one and no other call is ending
   it. */
static vram_status begin_end(struct vr_buffer *buffer, struct vr_buffer_mapping *mapping,
                             vram_addr *addr, bool *home) {
    vram_status status = VRAM_OK;
    vr_mutex_lock(&buffer->lock);
    *mapping = buffer->mapping;
    *addr = buffer->memory.addr;
    *home = buffer->home == mapping->queue;
    if (!mapping->open) {
        status = VRAM_ERR_INVALID;
    } else if (mapping->ending) {
        status = VRAM_ERR_BUSY;
    } else {
        buffer->mapping.ending = true;
    }
    vr_mutex_unlock(&buffer->lock);
    return status == VRAM_OK
               ? status
               : vr_fail(status, "the buffer is %s",
                         status == VRAM_ERR_BUSY ? "being unmapped already" : "not mapped");
}

static void finish_end(struct vr_buffer *buffer, bool ended) {
    vr_mutex_lock(&buffer->lock);
    if (ended) {
        buffer->mapping = (struct vr_buffer_mapping){0};
    } else {
        buffer->mapping.ending = false;
    }
    vr_mutex_unlock(&buffer->lock);
    if (ended) {
        vr_buffer_unshare(buffer);
    }
}

vram_status vram_buffer_unmap(vram_buffer *handle) {
    VR_CALL;
    struct vr_buffer *buffer;
    struct vr_buffer_mapping mapping;
    vram_addr addr;
    bool home;
    vram_status status = vr_buffer_enter(handle, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = begin_end(buffer, &mapping, &addr, &home);
    if (status == VRAM_OK) {
        status = bring_back(buffer, &mapping, addr, home);
        finish_end(buffer, status == VRAM_OK);
        if (status == VRAM_OK && mapping.staging) {
            give_staging(buffer, &mapping);
        }
        vr_buffer_touch(buffer);
    }
    return vr_buffer_finish(buffer, status);
}
