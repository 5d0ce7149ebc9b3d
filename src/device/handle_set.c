/* SPDX-License-Identifier: Apache-2.0 */
/* handle_set.c: a hash table of numbers, with open addressing. */
#include "device/handle_set.h"

#include "base/memory.h"

#include <assert.h>

/* The slot where the search for a handle begins: handles may be pointers, tickets or offsets. */
static uint32_t home(const struct vr_handle_set *set, uint64_t handle) {
    return (uint32_t)((handle * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (set->room - 1);
}

/* The slot that holds the handle, or the free one where it would be. */
static uint32_t find(const struct vr_handle_set *set, uint64_t handle) {
    uint32_t at = home(set, handle);
    while (set->slots[at] && set->slots[at] != handle) {
        at = (at + 1) & (set->room - 1);
    }
    return at;
}

vram_status vr_handle_set_book(struct vr_handle_set *set, const char *operation) {
    if (set->count < set->room / 2) {
        set->count++;
        return VRAM_OK;
    }
    struct vr_handle_set larger = {.room = set->room ? 2 * set->room : 64, .count = set->count + 1};
    larger.slots = vr_mem_alloc(larger.room, sizeof *larger.slots, operation);
    if (!larger.slots) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < set->room; i++) {
        if (set->slots[i]) {
            larger.slots[find(&larger, set->slots[i])] = set->slots[i];
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
    uint32_t at = find(set, handle);
    if (set->slots[at]) {
        vr_handle_set_cancel(set);
        return false;
    }
    set->slots[at] = handle;
    return true;
}

/* Handles behind the gap move up where the search for them would end in it. */
void vr_handle_set_take(struct vr_handle_set *set, uint64_t handle) {
    uint32_t mask = set->room - 1, gap = find(set, handle);
    assert(set->slots[gap] == handle);
    for (uint32_t at = (gap + 1) & mask; set->slots[at]; at = (at + 1) & mask) {
        if (((at - home(set, set->slots[at])) & mask) >= ((at - gap) & mask)) {
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
