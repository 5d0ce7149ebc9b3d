/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_rebuild.c: rebuilds coarse pieces (rebuild.h). The first four steps are those of falling
 * asleep (sleep.c): a piece that is rebuilt has a sleep state meanwhile, so that no block leaves it
 * and no copy of the library's reaches it. Then, piece by piece:
 *
 *   5. Finer pieces are created and mapped at free addresses, the stage.
 *   6. The used granules are copied there, on the device.
 *   7. The finer pieces are unmapped from the stage, and the coarse one from its place.
 *   8. The finer pieces are mapped there, with sleep states of their own; the coarse one is
 *      released.
 *
 *  (1) Until the coarse piece is unmapped a failure changes nothing: what was created is free
 *      memory of the pool, and is released.
 *  (2) After that, a failure maps the coarse piece again. If the driver refuses that, it stays
 *      asleep (sleep.h (4)): its handle has the contents.
 *  (3) A finer piece that the driver has mapped and refuses to unmap is in the way of (2). Then the
 *      finer pieces, which have the contents too, take the place, and stay asleep.
 *  (4) If a copy has not ended, the stage stays as it is for ever: the copy may still write there.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/pressure/trim.h"
#include "core/space/rebuild.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/status.h"
#include "base/struct_tail.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "track/event.h"

#include <assert.h>
#include <stdlib.h>

/* One call. */
struct rebuild_job {
    struct vr_sleep_change change;
    struct vr_rebuild *list;   /* all that may be rebuilt */
    struct vr_rebuild **order; /* the same, most free bytes first; NULL: done */
    uint32_t count;
    vram_queue *handle; /* of the copies; NULL: none */
    struct vr_queue_object *queue;
    uint64_t refused_bytes; /* so many could not be created */
    struct vram_rebuild_result *result;
};

/* One piece, in steps 5 to 8. */
struct rebuild_piece {
    struct rebuild_job *job;
    struct vr_rebuild *rebuild;
    struct vr_sleep_state *fresh; /* for all finer pieces but the first */
    uint64_t reserved_bytes;      /* of the pool before it */
};

static vram_status piece_step(struct rebuild_piece *piece, enum vr_step_kind kind,
                              struct vr_piece *of, uint64_t addr) {
    struct vr_step step = {
        .kind = kind, .handles = 1, .piece = of, .addr = addr, .bytes = of->bytes};
    return vr_pool_step(piece->job->change.pool, &step);
}

/* ---------------------------------------------------------------------- copies */

static vram_status copies_begin(struct rebuild_job *job) {
    void *entered;
    vram_device *device = (vram_device *)(uintptr_t)job->change.pool->device->object.handle;
    vram_status status = vr_queue_make(device, NULL, &job->handle);
    if (status != VRAM_OK) {
        job->handle = NULL;
        return status;
    }
    status = vr_enter(VR_KIND_QUEUE, job->handle, &entered);
    job->queue = status == VRAM_OK ? entered : NULL;
    return status;
}

/* Waits for the copies; false: some have not ended. */
static bool copies_end(struct rebuild_job *job) {
    struct vram_error error;
    bool safe = true;
    if (!job->handle) {
        return true;
    }
    vr_error_save(&error);
    vr_queue_end(job->handle);
    if (job->queue) {
        safe = vr_load(&job->queue->finished, VR_ACQUIRE);
        vr_leave(job->queue);
    }
    vr_error_restore(&error);
    job->handle = NULL;
    job->queue = NULL;
    return safe;
}

/* Step 6. */
static vram_status copy_parts(const struct rebuild_piece *piece) {
    struct vr_queue_object *queue = piece->job->queue;
    const struct vr_rebuild *rebuild = piece->rebuild;
    uint64_t value;
    if (!vr_submit_begin(queue)) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < rebuild->part_count && status == VRAM_OK; i++) {
        const struct vr_rebuild_part *part = &rebuild->parts[i];
        status = vr_queue_copy(&queue->base, part->piece->addr, part->to, part->bytes);
    }
    if (status == VRAM_OK && (status = vr_queue_mark(queue, &value)) == VRAM_OK) {
        status = vr_queue_wait_value(queue, value, queue->device->context->wait_ns);
    }
    vr_submit_end(queue);
    return status;
}

/* ------------------------------------------------------------------- one piece */

/* The finer pieces are free memory of the pool: releases as much as was created for them. */
static void release_parts(struct rebuild_piece *piece) {
    struct vr_pool *pool = piece->job->change.pool;
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    vr_rebuild_give_up(piece->rebuild);
    vr_mutex_unlock(&pool->lock);
    (void)vr_pool_shrink_to(pool, piece->reserved_bytes);
    vr_error_restore(&error);
}

/* Step 5. On failure there are no finer pieces. */
static vram_status make_stage(struct rebuild_piece *piece) {
    struct vr_pool *pool = piece->job->change.pool;
    struct vr_rebuild *rebuild = piece->rebuild;
    struct vr_plan *plan = NULL;
    uint64_t grown;
    vr_mutex_lock(&pool->lock);
    piece->reserved_bytes = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                            vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    vram_status status = vr_rebuild_stage(rebuild, &plan);
    vr_mutex_unlock(&pool->lock);
    if (status == VRAM_OK) {
        status = vr_pool_execute(pool, rebuild->space, plan, &rebuild->stage, &grown);
        if (status != VRAM_OK) {
            vr_mutex_lock(&pool->lock);
            vr_rebuild_forget(rebuild);
            vr_mutex_unlock(&pool->lock);
        }
    }
    return status;
}

/* Whether memory or addresses are missing, of which there may be enough for another piece. */
static bool is_short(vram_status status) {
    return vr_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY;
}

/* The same; if memory is short, once more after free memory was released. */
static vram_status make_stage_or_trim(struct rebuild_piece *piece) {
    struct vr_pool *pool = piece->job->change.pool;
    vram_status status = make_stage(piece);
    if (!is_short(status)) {
        return status;
    }
    uint64_t before = piece->reserved_bytes;
    (void)vr_pool_shrink_to(pool, before - vr_smaller(before, piece->rebuild->used_bytes));
    vr_mutex_lock(&pool->lock);
    uint64_t after = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                     vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    vr_mutex_unlock(&pool->lock);
    return after < before ? make_stage(piece) : status;
}

/* The copies failed, which end here: keeps (4). */
static void leave_stage(struct rebuild_piece *piece) {
    struct vr_pool *pool = piece->job->change.pool;
    bool safe = copies_end(piece->job);
    vr_mutex_lock(&pool->lock);
    if (safe) {
        vr_rebuild_unstaged(piece->rebuild, 0);
    } else {
        vr_rebuild_forget(piece->rebuild);
    }
    vr_mutex_unlock(&pool->lock);
    if (safe) {
        release_parts(piece);
    } else {
        vr_log(VRAM_LOG_ERROR, "a copy within pool \"%s\" never finished; its %llu bytes are kept",
               pool->name, (unsigned long long)piece->rebuild->used_bytes);
    }
}

/* Step 7, for the finer pieces. On failure they are released. */
static vram_status unmap_stage(struct rebuild_piece *piece) {
    struct vr_pool *pool = piece->job->change.pool;
    struct vr_rebuild *rebuild = piece->rebuild;
    vram_status status = VRAM_OK;
    uint32_t count = 0;
    while (count < rebuild->part_count && status == VRAM_OK) {
        struct vr_piece *part = rebuild->parts[count].piece;
        status = piece_step(piece, VR_STEP_UNMAP, part, part->addr);
        count += status == VRAM_OK;
    }
    vr_mutex_lock(&pool->lock);
    vr_rebuild_unstaged(rebuild, count);
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK) {
        release_parts(piece);
    }
    return status;
}

/* Step 8. `mapped`: how many of the finer pieces are mapped in place; `usable`: all, with access.
   A piece that is not usable stays asleep. */
static void take_place(struct rebuild_piece *piece, uint32_t mapped, bool usable) {
    struct vr_pool *pool = piece->job->change.pool;
    struct vr_rebuild *rebuild = piece->rebuild;
    struct vr_piece *coarse = rebuild->coarse;
    struct vr_sleep_state *sleep_state = coarse->sleep_state;
    struct vram_error error;
    vr_error_save(&error);
    bool released = piece_step(piece, VR_STEP_RELEASE, coarse, coarse->addr) == VRAM_OK ||
                    piece_step(piece, VR_STEP_RELEASE, coarse, coarse->addr) == VRAM_OK;
    vr_error_restore(&error);
    struct vram_rebuild_result *result = piece->job->result;
    result->won_bytes += released ? coarse->bytes - rebuild->used_bytes : 0;
    result->copied_bytes += rebuild->used_bytes;
    result->handles++;
    vr_mutex_lock(&pool->lock);
    coarse->sleep_state = NULL;
    for (uint32_t i = 0; i < rebuild->part_count; i++) {
        if (i) {
            sleep_state = piece->fresh;
            piece->fresh = sleep_state->next;
            sleep_state->next = pool->sleep.sleep_states;
            pool->sleep.sleep_states = sleep_state;
        }
        *sleep_state = (struct vr_sleep_state){.next = sleep_state->next,
                                               .space = rebuild->space,
                                               .piece = rebuild->parts[i].piece,
                                               .mapped = i < mapped,
                                               .changing = usable};
        rebuild->parts[i].piece->sleep_state = sleep_state;
    }
    vr_rebuild_swap(rebuild, released);
    vr_mutex_unlock(&pool->lock);
}

/* Keeps (2) and (3), after `mapped` finer pieces were mapped in place. */
static void put_back(struct rebuild_piece *piece, uint32_t mapped) {
    struct vr_rebuild *rebuild = piece->rebuild;
    struct vram_error error;
    vr_error_save(&error);
    while (mapped > 0) {
        const struct vr_rebuild_part *part = &rebuild->parts[mapped - 1];
        if (piece_step(piece, VR_STEP_UNMAP, part->piece, part->to) != VRAM_OK &&
            piece_step(piece, VR_STEP_UNMAP, part->piece, part->to) != VRAM_OK) {
            break;
        }
        mapped--;
    }
    bool asleep = mapped > 0;
    if (mapped) {
        take_place(piece, mapped, false);
    } else {
        struct vr_sleep_change one = piece->job->change;
        one.sleep_states = &rebuild->coarse->sleep_state;
        one.count = 1;
        vr_sleep_change_map_again(&one, 0);
        asleep = !rebuild->coarse->sleep_state->changing;
        release_parts(piece);
    }
    if (asleep) {
        vr_log(VRAM_LOG_ERROR,
               "the driver refused to map %llu bytes of pool \"%s\" again; they stay asleep",
               (unsigned long long)rebuild->used_bytes, piece->job->change.pool->name);
    }
    vr_error_restore(&error);
}

/* Steps 7, for the coarse piece, and 8. */
static vram_status piece_exchange(struct rebuild_piece *piece) {
    struct vr_rebuild *rebuild = piece->rebuild;
    uint32_t mapped = 0;
    vram_status status = piece_step(piece, VR_STEP_UNMAP, rebuild->coarse, rebuild->coarse->addr);
    if (status != VRAM_OK) {
        release_parts(piece);
        return status;
    }
    rebuild->coarse->sleep_state->mapped = false;
    while (mapped < rebuild->part_count && status == VRAM_OK) {
        const struct vr_rebuild_part *part = &rebuild->parts[mapped];
        status = piece_step(piece, VR_STEP_MAP, part->piece, part->to);
        mapped += status == VRAM_OK;
    }
    for (uint32_t i = 0; i < rebuild->part_count && status == VRAM_OK; i++) {
        const struct vr_rebuild_part *part = &rebuild->parts[i];
        status = piece_step(piece, VR_STEP_ACCESS, part->piece, part->to);
    }
    if (status == VRAM_OK) {
        take_place(piece, mapped, true);
    } else {
        put_back(piece, mapped);
    }
    return status;
}

/* Sleep states for the finer pieces, so that step 8 allocates nothing. */
static vram_status make_states(struct rebuild_piece *piece) {
    for (uint32_t i = 1; i < piece->rebuild->part_count; i++) {
        struct vr_sleep_state *sleep_state = vr_mem_alloc(1, sizeof *sleep_state, vr_operation());
        if (!sleep_state) {
            return VRAM_ERR_HOST_MEMORY;
        }
        sleep_state->next = piece->fresh;
        piece->fresh = sleep_state;
    }
    return VRAM_OK;
}

/* *refused: there is no memory for the stage. */
static vram_status rebuild_one(struct rebuild_job *job, struct vr_rebuild *rebuild, bool *refused) {
    struct rebuild_piece piece = {.job = job, .rebuild = rebuild};
    vram_status status = make_states(&piece);
    *refused = false;
    if (status == VRAM_OK) {
        status = make_stage_or_trim(&piece);
        *refused = is_short(status);
    }
    if (status == VRAM_OK && (status = copy_parts(&piece)) != VRAM_OK) {
        leave_stage(&piece);
    } else if (status == VRAM_OK && (status = unmap_stage(&piece)) == VRAM_OK) {
        status = piece_exchange(&piece);
    }
    while (piece.fresh) {
        struct vr_sleep_state *next = piece.fresh->next;
        vr_mem_free(piece.fresh);
        piece.fresh = next;
    }
    return status;
}

/* ------------------------------------------------------------------ all pieces */

static uint64_t free_bytes(const struct vr_rebuild *rebuild) {
    return rebuild->coarse->bytes - rebuild->used_bytes;
}

/* Most free bytes first, and of equal ones the lowest. */
static int by_free_bytes(const void *a, const void *b) {
    const struct vr_rebuild *first = *(struct vr_rebuild *const *)a,
                            *second = *(struct vr_rebuild *const *)b;
    uint64_t x = free_bytes(first), y = free_bytes(second);
    return x != y ? (x < y) - (x > y)
                  : (first->coarse->addr > second->coarse->addr) -
                        (first->coarse->addr < second->coarse->addr);
}

static vram_status list_order(struct rebuild_job *job) {
    for (const struct vr_rebuild *at = job->list; at; at = at->next) {
        job->count++;
    }
    job->order = vr_mem_alloc(job->count + 1, sizeof(struct vr_rebuild *), vr_operation());
    if (!job->order) {
        return VRAM_ERR_HOST_MEMORY;
    }
    uint32_t i = 0;
    for (struct vr_rebuild *at = job->list; at; at = at->next) {
        job->order[i++] = at;
    }
    qsort(job->order, job->count, sizeof(struct vr_rebuild *), by_free_bytes);
    return VRAM_OK;
}

/* Step 3. */
static vram_status pick_pieces(struct rebuild_job *job) {
    struct vr_pool *pool = job->change.pool;
    vram_status status = VRAM_OK;
    (void)vr_pool_poll(pool, true);
    vr_mutex_lock(&pool->lock);
    vr_pool_empty_central(pool, VR_NO_QUEUE);
    vr_pool_settle(pool);
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        status = vr_rebuild_find(pool->spaces[part], &job->list);
        if (status == VRAM_OK) {
            status = vr_sleep_pick_rebuilds(pool->spaces[part], &pool->sleep.sleep_states);
        }
        if (status == VRAM_OK) {
            status = vr_rebuild_prepare(pool->spaces[part]);
        }
    }
    vr_mutex_unlock(&pool->lock);
    return status == VRAM_OK ? list_order(job) : status;
}

/* One pass over all that is left. *more: memory was short for some, and others were rebuilt. */
static vram_status rebuild_pass(struct rebuild_job *job, uint64_t bytes, bool *more) {
    struct vram_rebuild_result *result = job->result;
    vram_status status = VRAM_OK;
    bool left = false, rebuilt = false;
    for (uint32_t i = 0; i < job->count && result->won_bytes < bytes && status == VRAM_OK; i++) {
        struct vr_rebuild *rebuild = job->order[i];
        if (!rebuild || rebuild->used_bytes >= job->refused_bytes) {
            left = left || rebuild;
            continue;
        }
        uint64_t won = free_bytes(rebuild);
        bool refused;
        status = rebuild_one(job, rebuild, &refused);
        if (refused) {
            job->refused_bytes = rebuild->used_bytes;
            left = true;
            status = VRAM_OK;
        } else if (status == VRAM_OK) {
            job->order[i] = NULL;
            job->refused_bytes += vr_smaller(won, UINT64_MAX - job->refused_bytes);
            rebuilt = true;
        }
    }
    *more = left && rebuilt && result->won_bytes < bytes;
    return status;
}

static vram_status rebuild_all(struct rebuild_job *job, uint64_t bytes) {
    vram_status status = job->count ? copies_begin(job) : VRAM_OK;
    bool more = job->count > 0;
    job->refused_bytes = UINT64_MAX;
    while (status == VRAM_OK && more) {
        status = rebuild_pass(job, bytes, &more);
    }
    (void)copies_end(job); /* all were waited for */
    return status;
}

static void job_end(struct rebuild_job *job) {
    struct vr_pool *pool = job->change.pool;
    vr_mutex_lock(&pool->lock);
    vr_rebuild_end(&job->list);
    vr_mutex_unlock(&pool->lock);
    vr_mem_free(job->order);
    vr_sleep_change_end(&job->change, false);
}

vram_status vr_pool_rebuild(struct vr_pool *pool, uint64_t bytes,
                            struct vram_rebuild_result *result) {
    struct rebuild_job job = {
        .change = {.pool = pool,
                   .kind = VR_SLEEP_REBUILD,
                   .deadline = vr_deadline_in(pool->device->context->wait_ns)},
        .result = result};
    struct vram_error error;
    *result = (struct vram_rebuild_result){.size = sizeof *result};
    vram_status status = vr_sleep_check(pool, NULL);
    if (status == VRAM_OK && pool->flags & VRAM_POOL_DETERMINISTIC) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED, "pool \"%s\" is deterministic", pool->name);
    }
    if (status == VRAM_OK && vr_network_cards_register(&pool->device->base)) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED,
                         "network cards may have registered memory of pool \"%s\" (VRAM_RDMA)",
                         pool->name);
    }
    if (status == VRAM_OK && vr_sleep_has_graphs(pool->device)) {
        status = vr_fail(VRAM_ERR_CAPTURE, "graphs of a captured region may use pool \"%s\"",
                         pool->name);
    }
    if (status != VRAM_OK || (status = vr_sleep_change_begin(&job.change)) != VRAM_OK) {
        return status;
    }
    vr_error_save(&error);
    status = vr_sleep_change_settle(&job.change);
    if (status == VRAM_OK && (status = pick_pieces(&job)) == VRAM_OK &&
        (status = vr_sleep_wait_for_work(&job.change)) == VRAM_OK) {
        status = rebuild_all(&job, bytes ? bytes : UINT64_MAX);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error); /* what memory was short for does not matter */
    }
    job_end(&job);
    if (result->handles) {
        vr_memory_log(NULL, NULL, pool->name, "rebuild: %llu bytes won in %llu handles",
                      (unsigned long long)result->won_bytes, (unsigned long long)result->handles);
    }
    return status;
}

vram_status vram_pool_rebuild(vram_pool *handle, const vram_rebuild_options *options,
                              vram_rebuild_result *result) {
    VR_CALL;
    struct vram_rebuild_options taken;
    struct vram_rebuild_result done = {.size = sizeof done};
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && result) { /* refuses a wrong size before anything is done */
        status = vr_info_give(result, &done, sizeof done, sizeof done);
    }
    if (status == VRAM_OK) {
        status = vr_pool_rebuild(entered, taken.bytes, &done);
        if (result) {
            (void)vr_info_give(result, &done, sizeof done, sizeof done);
        }
    }
    vr_leave(entered);
    return status;
}
