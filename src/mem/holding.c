/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding.c: a list of things that somebody has, and letting go of one.
 */
#include "mem/holding.h"

#include "base/error.h"
#include "base/memory.h"
#include "core/guard/block_lookup.h"
#include "core/pool/pool_calls.h"
#include "mem/mem_calls.h"
#include "vram/buffer.h"

#include <string.h>

enum { ROOM_FIRST = 16 };

vram_status vr_holding_reserve(struct vr_holding *holding, size_t more) {
    if (more <= holding->room - holding->count) {
        return VRAM_OK;
    }
    size_t room = holding->room ? holding->room * 2 : ROOM_FIRST;
    room = room - holding->count < more ? holding->count + more : room;
    struct vr_thing *things =
        vr_mem_resize(holding->things, room, sizeof *holding->things, vr_operation());
    if (!things) {
        return VRAM_ERR_HOST_MEMORY;
    }
    holding->things = things;
    holding->room = room;
    return VRAM_OK;
}

vram_status vr_holding_add(struct vr_holding *holding, const struct vr_thing *thing) {
    vram_status status = vr_holding_reserve(holding, 1);
    if (status == VRAM_OK) {
        holding->things[holding->count++] = *thing;
    }
    return status;
}

const struct vr_thing *vr_holding_find(const struct vr_holding *holding, enum vr_thing_kind kind,
                                       uint64_t number) {
    for (size_t i = holding->count; i-- > 0;) {
        const struct vr_thing *thing = &holding->things[i];
        if (thing->kind == kind && thing->number == number) {
            return thing;
        }
    }
    return NULL;
}

bool vr_holding_remove(struct vr_holding *holding, enum vr_thing_kind kind, uint64_t number,
                       struct vr_thing *thing) {
    const struct vr_thing *found = vr_holding_find(holding, kind, number);
    if (!found) {
        return false;
    }
    *thing = *found;
    size_t at = (size_t)(found - holding->things);
    memmove(&holding->things[at], found + 1, (--holding->count - at) * sizeof *found);
    return true;
}

bool vr_holding_pop(struct vr_holding *holding, struct vr_thing *thing) {
    if (!holding->count) {
        return false;
    }
    *thing = holding->things[--holding->count];
    return true;
}

void vr_holding_free(struct vr_holding *holding) {
    vr_mem_free(holding->things);
    *holding = (struct vr_holding){0};
}

/* ---------------------------------------------------------------- letting go */

static vram_status free_block(const struct vr_thing *block) {
    vram_pool *pool = (vram_pool *)(uintptr_t)block->pool;
    vram_queue *queue = (vram_queue *)(uintptr_t)block->queue;
    (void)vr_pool_own(block->pool, block->number, false);
    vram_status status = vr_free(pool, block->number, queue);
    if (status == VRAM_ERR_STALE) { /* the pool or the queue has ended */
        status = vr_pool_free_after_queue(pool, block->number, queue);
    }
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

static vram_status destroy_buffer(const struct vr_thing *buffer) {
    vram_status status = vr_buffer_destroy((vram_buffer *)(uintptr_t)buffer->number);
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

vram_status vr_thing_release(const struct vr_thing *thing) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = thing->kind == VR_THING_BLOCK ? free_block(thing) : destroy_buffer(thing);
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_holding_release(struct vr_holding *holding) {
    vram_status first = VRAM_OK;
    struct vram_error error;
    struct vr_thing thing;
    while (vr_holding_pop(holding, &thing)) {
        vram_status status = vr_thing_release(&thing);
        if (status != VRAM_OK && first == VRAM_OK) {
            first = status;
            vr_error_save(&error);
        }
    }
    if (first != VRAM_OK) {
        vr_error_restore(&error);
    }
    vr_holding_free(holding);
    return first;
}
