/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_handle.c: the handles of physical memory, native queues and kernels.
 *
 * A handle is generation and slot. It is looked up, never dereferenced, so a handle that was
 * released, belongs to another machine or was invented is recognised, whatever its value.
 *
 *     63          32 31        0
 *    +--------------+-----------+
 *    |  generation  |  slot + 1 |
 *    +--------------+-----------+
 */
#include "backend/sim/sim_backend.h"

#include "base/memory.h"

static bool handles_grow(struct vr_sim *sim) {
    uint32_t count = sim->handle_count ? sim->handle_count * 2 : 64;
    if (count <= sim->handle_count) {
        return false;
    }
    struct vr_sim_handle *larger =
        vr_mem_resize(sim->handles, count, sizeof *larger, "simulated handle");
    if (!larger) {
        return false;
    }
    sim->handles = larger;
    for (uint32_t i = sim->handle_count; i < count; i++) {
        larger[i] = (struct vr_sim_handle){.generation = 1, .next = i + 1 < count ? i + 2 : 0};
    }
    sim->handle_free = sim->handle_count + 1;
    sim->handle_count = count;
    return true;
}

uint64_t vr_sim_handle_take(struct vr_sim *sim, enum vr_sim_kind kind, void *object) {
    if (!sim->handle_free && !handles_grow(sim)) {
        return 0;
    }
    uint32_t slot = sim->handle_free - 1;
    struct vr_sim_handle *handle = &sim->handles[slot];
    sim->handle_free = handle->next;
    handle->object = object;
    handle->kind = kind;
    return (uint64_t)handle->generation << 32 | (slot + 1);
}

static struct vr_sim_handle *handle_at(struct vr_sim *sim, uint64_t number) {
    uint64_t slot = (number & UINT32_MAX) - 1;
    if (slot >= sim->handle_count || sim->handles[slot].generation != number >> 32) {
        return NULL;
    }
    return &sim->handles[slot];
}

void *vr_sim_handle_find(struct vr_sim *sim, enum vr_sim_kind kind, uint64_t number) {
    struct vr_sim_handle *handle = handle_at(sim, number);
    return handle && handle->kind == kind ? handle->object : NULL;
}

void vr_sim_handle_give(struct vr_sim *sim, uint64_t number) {
    struct vr_sim_handle *handle = handle_at(sim, number);
    if (handle && handle->object) {
        handle->object = NULL;
        handle->generation++;
        handle->next = sim->handle_free;
        sim->handle_free = (uint32_t)number;
    }
}
