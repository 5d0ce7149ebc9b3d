/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_handles.c: see layer_handles.h. Open addressing with linear probing; a removal moves the
 * handles behind it up, so there are no marks of removed ones.
 */
#include "layer_handles.h"

#include "base/lock.h"
#include "base/memory.h"

enum { FIRST = 64 };

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_MONITOR); /* guards all below */
static struct layer_handle *table;                            /* value 0: a free place */
static uint64_t mask;                                         /* places, a power of two, minus 1 */
static uint64_t count;                                        /* at most half of them */

static uint64_t place_first(uint64_t value) {
    uint64_t mixed = value * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed ^ mixed >> 32) & mask;
}

/* The place of a handle, or the free one where it would be. */
static struct layer_handle *place_find(uint64_t value) {
    uint64_t place = place_first(value);
    while (table[place].value && table[place].value != value) {
        place = (place + 1) & mask;
    }
    return &table[place];
}

static struct layer_handle *handle_find(uint64_t value) {
    struct layer_handle *found = table && value ? place_find(value) : NULL;
    return found && found->value ? found : NULL;
}

/* Makes the table twice as large; false: memory ran out. */
static bool table_grow(void) {
    uint64_t places = table ? 2 * (mask + 1) : FIRST, old_places = table ? mask + 1 : 0;
    struct layer_handle *old = table, *fresh = vr_mem_alloc(places, sizeof *fresh, "vram run");
    if (!fresh) {
        return false;
    }
    table = fresh;
    mask = places - 1;
    for (uint64_t i = 0; i < old_places; i++) {
        if (old[i].value) {
            *place_find(old[i].value) = old[i];
        }
    }
    vr_mem_free(old);
    return true;
}

/* Fills the gap with handles from behind it that may be there. */
static void handle_remove(struct layer_handle *handle) {
    uint64_t gap = (uint64_t)(handle - table);
    for (uint64_t at = (gap + 1) & mask; table[at].value; at = (at + 1) & mask) {
        if (((at - place_first(table[at].value)) & mask) >= ((at - gap) & mask)) {
            table[gap] = table[at];
            gap = at;
        }
    }
    table[gap] = (struct layer_handle){0};
    count--;
}

bool layer_handle_put(const struct layer_handle *handle) {
    if (!handle->value) {
        return false;
    }
    vr_mutex_lock(&lock);
    bool fits = (table && 2 * (count + 1) <= mask + 1) || table_grow();
    if (fits) {
        struct layer_handle *place = place_find(handle->value);
        count += !place->value;
        *place = *handle;
    }
    vr_mutex_unlock(&lock);
    return fits;
}

bool layer_handle_get(uint64_t value, struct layer_handle *handle) {
    vr_mutex_lock(&lock);
    const struct layer_handle *found = handle_find(value);
    if (found) {
        *handle = *found;
    }
    vr_mutex_unlock(&lock);
    return found;
}

void layer_handle_retain(uint64_t value) {
    vr_mutex_lock(&lock);
    struct layer_handle *found = handle_find(value);
    if (found && found->references < UINT32_MAX) {
        found->references++;
    }
    vr_mutex_unlock(&lock);
}

bool layer_handle_release(uint64_t value, struct layer_handle *handle) {
    vr_mutex_lock(&lock);
    struct layer_handle *found = handle_find(value);
    bool last = found && found->references <= 1;
    if (last) {
        *handle = *found;
        handle_remove(found);
    } else if (found) {
        found->references--;
    }
    vr_mutex_unlock(&lock);
    return last;
}
