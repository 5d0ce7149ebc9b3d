/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding.c: a list of things that somebody has, and letting go of one.
 */
#include "mem/holding.h"

#include "base/error.h"
#include "base/memory.h"
#include "device/objects.h"

#include <string.h>

enum { ROOM_FIRST = 16 };

vram_status vr_holding_add(struct vr_holding *holding, const struct vr_thing *thing,
                           const char *operation) {
    if (holding->count == holding->room) {
        size_t room = holding->room ? holding->room * 2 : ROOM_FIRST;
        struct vr_thing *things =
            vr_mem_resize(holding->things, room, sizeof *holding->things, operation);
        if (!things) {
            return VRAM_ERR_HOST_MEMORY;
        }
        holding->things = things;
        holding->room = room;
    }
    holding->things[holding->count++] = *thing;
    return VRAM_OK;
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

/* Whether work of a queue that takes no calls any more may still be running. */
static bool is_unfinished(uint64_t handle) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, (void *)(uintptr_t)handle);
    if (!queue) {
        return false;
    }
    bool unfinished = !vr_load(&queue->finished, VR_ACQUIRE);
    vr_leave(queue);
    return unfinished;
}

/* The pool or the queue has ended. */
static vram_status release_late(const struct vr_thing *thing, const char *operation) {
    void *pool = (void *)(uintptr_t)thing->pool;
    if (vr_handle_was(VR_KIND_POOL, pool)) {
        return VRAM_OK;
    }
    if (is_unfinished(thing->queue)) {
        return vr_fail(VRAM_ERR_STALE, operation,
                       "the queue of block 0x%llx was destroyed with unfinished work; its memory "
                       "is kept until the pool ends",
                       (unsigned long long)thing->number);
    }
    vram_status status = vram_free(pool, thing->number, NULL);
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

vram_status vr_thing_release(const struct vr_thing *thing, const char *operation) {
    struct vram_error error;
    void *pool = (void *)(uintptr_t)thing->pool;
    vr_error_save(&error);
    vram_status status = vram_free(pool, thing->number, (vram_queue *)(uintptr_t)thing->queue);
    if (status == VRAM_ERR_STALE) {
        status = release_late(thing, operation);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}
