/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_list.c: the list of blocks, buffers and scopes that an object owns, and their release.
 */
#include "mem/owned_list.h"

#include "base/error.h"
#include "base/memory.h"
#include "core/guard/block_lookup.h"
#include "core/pool/pool_calls.h"
#include "mem/mem_calls.h"
#include "vram/buffer.h"

#include <string.h>

enum { CAPACITY_FIRST = 16 };

vram_status vr_owned_list_reserve(struct vr_owned_list *owned, size_t more) {
    if (more <= owned->capacity - owned->count) {
        return VRAM_OK;
    }
    size_t capacity = owned->capacity ? owned->capacity * 2 : CAPACITY_FIRST;
    capacity = capacity - owned->count < more ? owned->count + more : capacity;
    struct vr_owned *items =
        vr_mem_resize(owned->items, capacity, sizeof *owned->items, vr_operation());
    if (!items) {
        return VRAM_ERR_HOST_MEMORY;
    }
    owned->items = items;
    owned->capacity = capacity;
    return VRAM_OK;
}

vram_status vr_owned_list_add(struct vr_owned_list *owned, const struct vr_owned *item) {
    vram_status status = vr_owned_list_reserve(owned, 1);
    if (status == VRAM_OK) {
        owned->items[owned->count++] = *item;
    }
    return status;
}

const struct vr_owned *vr_owned_list_find(const struct vr_owned_list *owned,
                                          enum vr_owned_kind kind, uint64_t number) {
    for (size_t i = owned->count; i-- > 0;) {
        const struct vr_owned *item = &owned->items[i];
        if (item->kind == kind && item->number == number) {
            return item;
        }
    }
    return NULL;
}

bool vr_owned_list_remove(struct vr_owned_list *owned, enum vr_owned_kind kind, uint64_t number,
                          struct vr_owned *item) {
    const struct vr_owned *found = vr_owned_list_find(owned, kind, number);
    if (!found) {
        return false;
    }
    *item = *found;
    size_t at = (size_t)(found - owned->items);
    memmove(&owned->items[at], found + 1, (--owned->count - at) * sizeof *found);
    return true;
}

bool vr_owned_list_pop(struct vr_owned_list *owned, struct vr_owned *item) {
    if (!owned->count) {
        return false;
    }
    *item = owned->items[--owned->count];
    return true;
}

void vr_owned_list_free(struct vr_owned_list *owned) {
    vr_mem_free(owned->items);
    *owned = (struct vr_owned_list){0};
}

/* ------------------------------------------------------------------ releasing */

static vram_status free_block(const struct vr_owned *block) {
    vram_pool *pool = (vram_pool *)(uintptr_t)block->pool;
    vram_queue *queue = (vram_queue *)(uintptr_t)block->queue;
    (void)vr_pool_own(block->pool, block->number, false);
    vram_status status = vr_free(pool, block->number, queue);
    if (status == VRAM_ERR_STALE) { /* the pool or the queue has ended */
        status = vr_pool_free_after_queue(pool, block->number, queue);
    }
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

static vram_status destroy_buffer(const struct vr_owned *buffer) {
    vram_status status = vr_buffer_destroy((vram_buffer *)(uintptr_t)buffer->number);
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

vram_status vr_owned_release(const struct vr_owned *item) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = item->kind == VR_OWNED_BLOCK ? free_block(item) : destroy_buffer(item);
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_owned_list_release(struct vr_owned_list *owned) {
    vram_status first = VRAM_OK;
    struct vram_error error;
    struct vr_owned item;
    while (vr_owned_list_pop(owned, &item)) {
        vram_status status = vr_owned_release(&item);
        if (status != VRAM_OK && first == VRAM_OK) {
            first = status;
            vr_error_save(&error);
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error);
    }
    vr_owned_list_free(owned);
    return first;
}
