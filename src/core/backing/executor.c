/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executor.c: executes plans with the driver or the program's provider. The pool's lock is not
 * held during driver calls.
 *
 *  (1) Steps run in order. The first that fails ends the plan; then the undo steps run, as far as
 *      the driver allows.
 *  (2) Physical memory is charged to the limits of pool and device before it is created, and
 *      uncharged after it was released, so that the limit holds at every moment.
 *  (3) A segment of driver or provider is in the address map for as long as it exists; its record
 *      is the `native` of the piece.
 */
#include "core/backing/announce.h"
#include "core/backing/backing.h"
#include "core/cache/provided.h"
#include "core/guard/block_lookup.h"
#include "core/limit/budget.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/status.h"
#include "device/ops.h"
#include "track/event.h"

#include <assert.h>

static void count_call(struct vr_pool *pool, enum vr_pool_call call) {
    vr_fetch_add(&pool->calls[call], 1, VR_RELAXED);
}

/* ----------------------------------------------------------------- segments */

static vram_status segment_from_provider(struct vr_pool *pool, struct vr_step *step) {
    struct vr_record *record;
    const struct vr_provided source = {&pool->provider, pool->kind, vr_pool_extent};
    vram_status status = vr_provided_take(pool, &source, step->bytes, &record);
    if (status == VRAM_OK) {
        step->piece->addr = vr_load(&record->base, VR_RELAXED);
        step->piece->native = (uint64_t)(uintptr_t)record; /* keeps (3) */
    }
    return status;
}

static vram_status segment_from_driver(struct vr_pool *pool, struct vr_step *step) {
    VR_OPERATION("vram_alloc");
    vram_addr addr = 0;
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status =
        (vr_pool_is_shareable(pool) ? vr_share_create : vr_memory_row(pool->kind)->alloc)(
            &pool->device->base, step->bytes, &addr);
    if (status == VRAM_OK && (!addr || addr % pool->granule)) {
        status = vr_fail(VRAM_ERR_CORRUPT,
                         "the driver reported success with the impossible address 0x%llx",
                         (unsigned long long)addr);
    } else if (status == VRAM_OK) {
        vr_store(&record->pool, pool->object.handle, VR_RELEASE);
        vr_store(&record->extent, vr_pool_extent, VR_RELEASE);
        status = vr_record_publish(record, addr, step->bytes, pool->device->object.handle,
                                   pool->kind, false);
        if (status != VRAM_OK && status != VRAM_ERR_CORRUPT) {
            struct vram_error error;
            vr_error_save(&error);
            (void)vr_memory_row(pool->kind)->free(&pool->device->base, addr, step->bytes);
            vr_error_restore(&error);
        }
    }
    if (status != VRAM_OK) {
        vr_record_give(record);
        return status;
    }
    vr_announce_segment(pool, record, addr, step->bytes);
    step->piece->addr = addr;
    step->piece->native = (uint64_t)(uintptr_t)record; /* keeps (3) */
    return VRAM_OK;
}

/* The release was refused: the segment stays in use. If it cannot be entered in the map again, it
   is not found by address; the release is tried again when the pool is destroyed. */
static void segment_restore(struct vr_pool *pool, struct vr_record *record, vram_addr addr,
                            uint64_t bytes) {
    VR_OPERATION("vram_pool_trim");
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_record_publish(record, addr, bytes, pool->device->object.handle, pool->kind, false);
    vr_announce_segment(pool, record, addr, bytes);
    vr_error_restore(&error);
}

/* The pool is destroyed but the driver keeps the segment: frees its record only. */
static void segment_forget(const struct vr_pool *pool, struct vr_piece *piece) {
    struct vr_record *record = (struct vr_record *)(uintptr_t)piece->native;
    if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
        vr_record_withdraw(record);
    }
    vr_announce_segment_end(pool, record);
    vr_record_give(record);
}

static vram_status segment_release(struct vr_pool *pool, const struct vr_step *step) {
    struct vr_record *record = (struct vr_record *)(uintptr_t)step->piece->native;
    uint64_t addr = vr_load(&record->base, VR_RELAXED);
    if (vr_load(&record->sequence, VR_RELAXED) % 2 == 0) {
        vr_record_withdraw(record);
    }
    vr_announce_segment_end(pool, record);
    vram_status status =
        pool->provider.alloc
            ? vr_provided_release(&pool->provider, addr, step->bytes)
            : vr_memory_row(pool->kind)->free(&pool->device->base, addr, step->bytes);
    if (status == VRAM_OK) {
        vr_record_give(record);
    } else {
        segment_restore(pool, record, addr, step->bytes);
    }
    return status;
}

/* -------------------------------------------------------------------- steps */

static vram_status step_create(struct vr_pool *pool, struct vr_step *step) {
    vram_status status = vr_budget_charge(pool, step->bytes); /* keeps (2) */
    if (status != VRAM_OK) {
        return status;
    }
    count_call(pool, pool->range ? VR_CALL_CREATE : VR_CALL_ALLOC);
    if (pool->provider.alloc) {
        status = segment_from_provider(pool, step);
    } else if (!pool->range) {
        status = segment_from_driver(pool, step);
    } else {
        vr_vmm_create_fn *create = pool->flags & VRAM_POOL_SHARE_FABRIC ? vr_fabric_create
                                   : vr_pool_is_shareable(pool)         ? vr_share_create
                                                                        : vr_vmm_create;
        status = create(&pool->device->base, step->bytes, &step->piece->native);
    }
    if (status != VRAM_OK) {
        vr_budget_uncharge(pool, step->bytes);
    } else if (!pool->provider.alloc) {
        vr_held_add(pool->device, step->bytes);
    }
    return status;
}

static vram_status step_release(struct vr_pool *pool, const struct vr_step *step) {
    vram_status status;
    assert(!step->piece->released &&
           !step->piece->stale_mappings); /* mapped nowhere, and not released yet */
    count_call(pool, pool->range ? VR_CALL_RELEASE : VR_CALL_FREE);
    if (pool->range) {
        status = vr_vmm_release(&pool->device->base, step->piece->native, step->bytes);
    } else {
        status = segment_release(pool, step);
    }
    if (status == VRAM_OK) {
        if (!pool->provider.alloc) {
            vr_held_sub(pool->device, step->bytes);
        }
        vr_budget_uncharge(pool, step->bytes);
    }
    return status;
}

vram_status vr_pool_step(struct vr_pool *pool, struct vr_step *step) {
    struct vr_device *device = &pool->device->base;
    switch (step->kind) {
    case VR_STEP_CREATE:
        return step_create(pool, step);
    case VR_STEP_UNMAP:
        count_call(pool, VR_CALL_UNMAP);
        return vr_vmm_unmap(device, step->addr, step->bytes);
    case VR_STEP_MAP:
        count_call(pool, VR_CALL_MAP);
        return vr_vmm_map(device, step->addr, step->piece->native, step->bytes);
    case VR_STEP_ACCESS:
        count_call(pool, VR_CALL_ACCESS);
        return vr_vmm_access(device, step->addr, step->bytes);
    case VR_STEP_RELEASE:
        return step_release(pool, step);
    }
    return VRAM_ERR_INVALID;
}

vram_status vr_pool_protect(struct vr_pool *pool, uint64_t addr, uint64_t bytes, bool read_only) {
    count_call(pool, VR_CALL_ACCESS);
    return vr_vmm_protect(&pool->device->base, addr, bytes, read_only);
}

/* Divides the time that consecutive steps of one kind took among them, by handles. */
static void note_time(struct vr_plan *plan, uint32_t first, uint32_t end, uint64_t ns) {
    uint64_t handles = 0;
    for (uint32_t i = first; i < end; i++) {
        handles += plan->steps[i].handles;
    }
    assert(handles > 0);
    for (uint32_t i = first; i < end; i++) {
        plan->steps[i].ns = ns * plan->steps[i].handles / handles;
    }
}

/* Runs the steps of the plan until one fails; returns how many succeeded. */
static uint32_t run_steps(struct vr_pool *pool, struct vr_plan *plan, vram_status *status) {
    uint32_t done = 0;
    *status = VRAM_OK;
    while (done < plan->count && *status == VRAM_OK) {
        uint32_t first = done;
        uint64_t before = vr_pool_now(pool);
        while (done < plan->count && plan->steps[done].kind == plan->steps[first].kind &&
               (*status = vr_pool_step(pool, &plan->steps[done])) == VRAM_OK) {
            done++;
        }
        if (*status == VRAM_OK) { /* the time of a refusal is not a price */
            note_time(plan, first, done, vr_pool_now(pool) - before);
        }
    }
    return done;
}

void vr_pool_note_peak(struct vr_pool *pool) {
    assert(vr_pool_is_locked(pool));
    uint64_t bytes = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                     vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    if (bytes > pool->peak_reserved_bytes) {
        pool->peak_reserved_bytes = bytes;
    }
    vr_held_peak(pool->device, vr_load(&pool->device->held_bytes, VR_RELAXED));
}

/* Whether an earlier step has failed for the same piece. */
static bool has_failed(const struct vr_plan *plan, uint32_t at) {
    for (uint32_t i = 0; i < at; i++) {
        if (plan->steps[i].failed && plan->steps[i].piece == plan->steps[at].piece) {
            return true;
        }
    }
    return false;
}

/* Runs the undo steps and aborts the plan. A piece that could not be unmapped is not released. */
static void execute_undo(struct vr_pool *pool, struct vr_space *space, struct vr_plan *plan) {
    bool any = false;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct vr_step *step = &plan->steps[i];
        step->failed = (any && has_failed(plan, i)) || vr_pool_step(pool, step) != VRAM_OK;
        any = any || step->failed;
    }
    vr_mutex_lock(&pool->lock);
    vr_space_abort(space, plan, NULL);
    vr_pool_note_peak(pool); /* what could not be undone is still held */
    vr_mutex_unlock(&pool->lock);
}

/* Bytes that the first `done` steps of a plan created. */
static uint64_t created_bytes(const struct vr_plan *plan, uint32_t done) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < done; i++) {
        bytes += plan->steps[i].kind == VR_STEP_CREATE ? plan->steps[i].bytes : 0;
    }
    return bytes;
}

vram_status vr_pool_execute(struct vr_pool *pool, struct vr_space *space, struct vr_plan *plan,
                            struct vr_block **block, uint64_t *grown) {
    VR_UNCANCELLED; /* once for all steps */
    vram_status status;
    assert(vr_locks_held() == 0 && (space == pool->spaces[0] || space == pool->spaces[1]));
    uint64_t moved = plan->moved_bytes, pieces = plan->moved_handles;
    uint32_t done = run_steps(pool, plan, &status);
    *grown = created_bytes(plan, done);
    vr_fetch_add(&pool->pressure.changes, 1, VR_RELAXED);
    if (status == VRAM_OK) {
        vr_mutex_lock(&pool->lock);
        *block = vr_space_commit(space, plan);
        vr_pool_note_peak(pool);
        vr_mutex_unlock(&pool->lock);
        if (moved) {
            vr_memory_log(NULL, NULL, pool->name, "move: %llu bytes of free memory in %llu pieces",
                          (unsigned long long)moved, (unsigned long long)pieces);
        }
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    vr_space_undo(space, plan, done);
    vr_mutex_unlock(&pool->lock);
    execute_undo(pool, space, plan);
    vr_error_restore(&error);
    return status;
}

/* Makes and executes a plan without a block. A failure is ignored: the plan is made again later.
   Returns whether there was a plan and it succeeded. */
static bool plan_and_execute(struct vr_pool *pool, struct vr_space *space,
                             vram_status (*make)(struct vr_space *, struct vr_plan **)) {
    struct vr_plan *plan = NULL;
    struct vr_block *none = NULL;
    uint64_t grown;
    vr_mutex_lock(&pool->lock);
    vram_status status = make(space, &plan);
    vr_mutex_unlock(&pool->lock);
    return status == VRAM_OK && plan &&
           vr_pool_execute(pool, space, plan, &none, &grown) == VRAM_OK;
}

void vr_pool_sweep(struct vr_pool *pool, struct vr_space *space) {
    struct vram_error error;
    vr_error_save(&error);
    (void)plan_and_execute(pool, space, vr_space_sweep);
    (void)plan_and_execute(pool, space, vr_space_tidy);
    vr_error_restore(&error);
}

/* Sweeps all stale mappings, in as many plans as that takes: a piece is not released while it has
   any. */
static void sweep_all(struct vr_pool *pool, struct vr_space *space) {
    struct vram_error error;
    vr_error_save(&error);
    while (plan_and_execute(pool, space, vr_space_sweep)) {
    }
    vr_error_restore(&error);
}

vram_status vr_pool_shrink(struct vr_pool *pool, struct vr_space *space, uint64_t keep_bytes) {
    struct vr_plan *plan = NULL;
    struct vr_block *none = NULL;
    uint64_t grown;
    vr_pool_sweep(pool, space);
    sweep_all(pool, space);
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_space_trim(space, keep_bytes, &plan);
    vr_mutex_unlock(&pool->lock);
    return status == VRAM_OK && plan ? vr_pool_execute(pool, space, plan, &none, &grown) : status;
}

/* ------------------------------------------------------------- destruction */

/* Unmaps all stale mappings; a piece keeps the count of those that the driver refuses to unmap. */
static void unmap_stale(struct vr_pool *pool, struct vr_space *space) {
    for (struct vr_block *stale = vr_space_stale_next(space, NULL); stale;
         stale = vr_space_stale_next(space, stale)) {
        struct vr_piece *piece = stale->span.segment;
        assert(piece && piece->stale_mappings); /* span.h (6) */
        struct vr_step step = {.kind = VR_STEP_UNMAP,
                               .piece = piece,
                               .addr = vr_load(&stale->addr, VR_RELAXED),
                               .bytes = piece->bytes};
        if (vr_pool_step(pool, &step) == VRAM_OK || vr_pool_step(pool, &step) == VRAM_OK) {
            piece->stale_mappings--;
        }
    }
}

static void release_space(struct vr_pool *pool, struct vr_space *space) {
    unmap_stale(pool, space);
    for (struct vr_piece *piece = vr_space_piece_next(space, NULL); piece;
         piece = vr_space_piece_next(space, piece)) {
        struct vr_step step = {.piece = piece, .addr = piece->addr, .bytes = piece->bytes};
        bool mapped = pool->range && piece->addr != VR_NOWHERE &&
                      (!piece->sleep_state || piece->sleep_state->mapped);
        step.kind = VR_STEP_UNMAP;
        if (mapped && vr_pool_step(pool, &step) != VRAM_OK &&
            vr_pool_step(pool, &step) != VRAM_OK) {
            piece->stale_mappings++; /* it stays mapped */
        }
        if (pool->range && piece->stale_mappings) {
            pool->range->stuck = true;
            continue;
        }
        if (piece->released) {
            continue;
        }
        step.kind = VR_STEP_RELEASE;
        if (vr_pool_step(pool, &step) != VRAM_OK && vr_pool_step(pool, &step) != VRAM_OK) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to release %llu bytes of a pool",
                   (unsigned long long)piece->bytes);
            if (!pool->range) {
                segment_forget(pool, piece);
            }
        }
    }
}

void vr_pool_release_all(struct vr_pool *pool) {
    for (int part = 0; part < VR_PART_COUNT; part++) {
        if (pool->spaces[part]) {
            release_space(pool, pool->spaces[part]);
        }
    }
}
