/* SPDX-License-Identifier: Apache-2.0 */
/* handle_set.c: a hash table of numbers, with open addressing. */
#include "device/handle_set.h"

#include "base/memory.h"

#include <assert.h>

/* The slot where the search for a handle begins. Handles may be pointers, counters or offsets. */
static uint32_t slot_first(const struct vr_handle_set *set, uint64_t handle) {
    return (uint32_t)((handle * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (set->capacity - 1);
}

/* The slot that holds the handle, or the free one where it would be. */
static uint32_t slot_find(const struct vr_handle_set *set, uint64_t handle) {
    uint32_t at = slot_first(set, handle);
    while (set->slots[at] && set->slots[at] != handle) {
        at = (at + 1) & (set->capacity - 1);
    }
    return at;
}

vram_status vr_handle_set_reserve(struct vr_handle_set *set, const char *operation) {
    if (set->count < set->capacity / 2) {
        set->count++;
        return VRAM_OK;
    }
    struct vr_handle_set larger = {.capacity = set->capacity ? 2 * set->capacity : 64,
                                   .count = set->count + 1};
    larger.slots = vr_mem_alloc(larger.capacity, sizeof *larger.slots, operation);
    if (!larger.slots) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < set->capacity; i++) {
        if (set->slots[i]) {
            larger.slots[slot_find(&larger, set->slots[i])] = set->slots[i];
        }
    }
    vr_mem_free(set->slots);
    *set = larger;
    return VRAM_OK;
}

void vr_handle_set_cancel(struct vr_handle_set *set) {
    set->count--;
}

bool vr_handle_set_add(struct vr_handle_set *set, uint64_t handle) {
    uint32_t at = slot_find(set, handle);
    if (set->slots[at]) {
        vr_handle_set_cancel(set);
        return false;
    }
    set->slots[at] = handle;
    return true;
}

/* Later handles move into the gap if their search would otherwise stop there. */
void vr_handle_set_take(struct vr_handle_set *set, uint64_t handle) {
    uint32_t mask = set->capacity - 1, gap = slot_find(set, handle);
    assert(set->slots[gap] == handle);
    for (uint32_t at = (gap + 1) & mask; set->slots[at]; at = (at + 1) & mask) {
        if (((at - slot_first(set, set->slots[at])) & mask) >= ((at - gap) & mask)) {
            set->slots[gap] = set->slots[at];
            gap = at;
        }
    }
    set->slots[gap] = 0;
}

void vr_handle_set_free(struct vr_handle_set *set) {
    vr_mem_free(set->slots);
    *set = (struct vr_handle_set){0};
}
