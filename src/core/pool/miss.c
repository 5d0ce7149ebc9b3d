/* SPDX-License-Identifier: Apache-2.0 */
/*
 * miss.c: where a block comes from when the thread's cache has none.
 *
 * The sources, each tried only if those before it found nothing:
 *
 *   1. free memory of the pool: a block of exactly this size that other threads freed on this queue
 *      (central cache), or else a hole of the space that is already mapped;
 *   2. the blocks in thread caches, drained into the space; if there were any, source 1 again;
 *   3. a plan: the space moves free memory to where it is needed or takes more from the driver, as
 *      its policy says;
 *   4. the same after blocks have left quarantine (guard.h), if there were any;
 *   5. memory is short: the ladder (ladder.h).
 *
 * The pool grows before it waits while memory is plentiful, and waits before it fails when it is
 * not.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/cache/stamp.h"
#include "core/ladder/handler.h"
#include "core/ladder/report.h"
#include "core/limit/limit_source.h"
#include "core/pool/pool_calls.h"

#include "base/error.h"
#include "base/size.h"
#include "base/size_text.h"
#include "base/status.h"
#include "base/text.h"

#include <assert.h>

enum { QUEUE_NONE = 1 }; /* for the space: no queue; no handle and no queue state is 1 */

/* Takes a block out of the space for the request. */
static void block_leave_space(struct vr_pool *pool, const struct vr_request *request,
                              struct vr_block *block) {
    vr_pool_leave_space(pool, block, request->queue);
    block->part = (uint8_t)vr_request_part(request);
}

/* Asks the space once. On VRAM_OK the answer has a block, which has left the space, or a plan.
   Under the lock. */
static vram_status space_alloc(struct vr_pool *pool, const struct vr_request *request,
                               uint32_t flags, uint64_t grow_bytes, struct vr_answer *answer) {
    bool small =
        vr_request_part(request) == VR_PART_SMALL; /* all blocks of the central cache are small */
    assert(vr_pool_is_locked(pool));
    uint64_t queue = vr_pool_queue_in_space(pool, request->queue);
    struct vr_want want = {.bytes = request->bytes,
                           .align = request->align,
                           .queue = queue ? queue : QUEUE_NONE,
                           .reserve = request->reserve,
                           .behind = request->behind,
                           .now_ns = flags & VR_WANT_HELD ? 0 : vr_pool_now(pool),
                           .idle_bytes = small ? pool->central.held_bytes : 0,
                           .grow_bytes = grow_bytes,
                           .flags = flags};
    if (request->flags & VRAM_ALLOC_CACHED_ONLY) {
        want.flags |= VR_WANT_ANY; /* no later source follows */
    }
    vram_status status = vr_block_table_reserve(&pool->table);
    *answer = (struct vr_answer){.block = NULL};
    if (status == VRAM_OK) {
        status = vr_space_alloc(vr_request_space(pool, request), &want, answer);
    }
    if (status == VRAM_OK && answer->block) {
        block_leave_space(pool, request, answer->block);
    }
    return status;
}

/* One request on its way through the sources. */
struct miss {
    struct vr_pool *pool;
    const struct vr_request *request;
    struct vr_block **block;   /* the result, */
    struct vr_block **more;    /* further blocks of the same size: */
    uint32_t *extra, capacity; /* how many there are, and how many fit */
    vram_status status;        /* of the last source */
    uint64_t grown;            /* bytes that the driver gave for a plan that failed */
    struct vr_ladder_run *run; /* the run of the ladder; without steps if memory was not short */
};

static void reverse_blocks(struct vr_block **blocks, uint32_t count) {
    for (uint32_t i = 0; i < count / 2; i++) {
        struct vr_block *swapped = blocks[i];
        blocks[i] = blocks[count - 1 - i];
        blocks[count - 1 - i] = swapped;
    }
}

/* Source 1. Also takes a few more blocks of the same size for the thread's cache if they need no
   driver call. */
static vram_status from_held(struct miss *miss) {
    VR_OPERATION("vram_alloc");
    struct vr_pool *pool = miss->pool;
    const struct vr_request *request = miss->request;
    struct vr_block **block = miss->block, **more = miss->more;
    struct vr_answer answer;
    uint32_t got = 0;
    vr_mutex_lock(&pool->lock);
    if (pool->stateless_blocks) {
        vr_mutex_unlock(&pool->lock);
        vr_pool_make_queue_states(pool);
        vr_mutex_lock(&pool->lock);
    }
    vr_pool_settle(pool);
    vram_status status = vr_pool_ensure_queue(pool, request->queue_object);
    if (status == VRAM_OK && !request->align && !request->behind) {
        if (vr_central_take(&pool->central, request->queue, request->bytes, block, 1)) {
            got = vr_central_take(&pool->central, request->queue, request->bytes, more,
                                  miss->capacity);
            reverse_blocks(more, got); /* the youngest is handed out first, as by shortcut.c */
        }
    }
    if (status == VRAM_OK && !*block) {
        status = space_alloc(pool, request, VR_WANT_HELD, 0, &answer);
        *block = answer.block;
        while (status == VRAM_OK && got < miss->capacity &&
               space_alloc(pool, request, VR_WANT_HELD, 0, &answer) == VRAM_OK) {
            more[got++] = answer.block;
        }
    }
    vr_mutex_unlock(&pool->lock);
    *miss->extra = got;
    return status != VRAM_ERR_STALE ? status : vr_fail(status, "the queue was destroyed");
}

/* Source 1 without the central cache, which has no large blocks. */
struct vr_block *vr_pool_supply_held(struct vr_pool *pool, struct vr_queue_id queue, uint64_t bytes,
                                     bool *marks) {
    const struct vr_queue_state *queue_state =
        queue.handle ? vr_queue_state_find(&pool->queue_states, queue) : NULL;
    bool open = !queue.handle || (queue_state && vr_queue_is_open(queue_state->queue));
    assert(vr_pool_is_locked(pool) && !(pool->flags & VRAM_POOL_DETERMINISTIC));
    if (!open || pool->stateless_blocks || !vr_block_table_has_room(&pool->table)) {
        return NULL;
    }
    vr_pool_settle(pool);
    struct vr_block *block = vr_space_take(pool->spaces[vr_part_of(bytes)], bytes,
                                           queue.handle ? queue.handle : QUEUE_NONE);
    if (block) {
        vr_pool_leave_space(pool, block, queue);
        *marks = vr_pool_batch_is_full(pool, queue, 0);
    }
    return block;
}

static vram_status plan_once(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                             uint64_t *grown, struct vr_block **block) {
    struct vr_space *space = vr_request_space(pool, request);
    struct vr_answer answer;
    if (request->behind && !(pool->flags & VRAM_POOL_DETERMINISTIC)) {
        flags |= VR_WANT_GATHER;
    }
    vr_pool_make_queue_states(pool);
    vr_pool_sweep(pool, space);
    vr_budget_refresh(pool, false);
    bool stays = vr_network_cards_register(&pool->device->base);
    vr_mutex_lock(&pool->lock);
    vr_pool_settle(pool);
    vr_budget_apply(pool, space);
    vr_space_stays_set(space, stays);
    vr_space_rebuilds_set(space, pool->ladder.rebuilds);
    pool->plans++;
    vram_status status = space_alloc(pool, request, flags, *grown, &answer);
    bool lands = status == VRAM_OK && answer.plan;
    pool->leaving_plans += lands;
    vr_mutex_unlock(&pool->lock);
    *grown = 0;
    *block = answer.block;
    if (!lands) {
        return status;
    }
    vr_request_miss(request);
    status = vr_pool_execute(pool, space, answer.plan, block, grown);
    vr_mutex_lock(&pool->lock);
    if (status == VRAM_OK && (status = vr_block_table_reserve(&pool->table)) == VRAM_OK) {
        block_leave_space(pool, request, *block);
    } else if (*block) {
        (*block)->stamp = (struct vr_stamp){0, 0};
        vr_space_free(space, *block);
        *block = NULL;
    }
    assert(pool->leaving_plans > 0);
    pool->leaving_plans--;
    vr_mutex_unlock(&pool->lock);
    return status;
}

/* If no run of addresses is long enough, reserves more: addresses cost no memory. */
static vram_status plan_with_addresses(struct vr_pool *pool, const struct vr_request *request,
                                       uint32_t flags, uint64_t *grown, struct vr_block **block) {
    uint64_t given = *grown;
    vram_status status = plan_once(pool, request, flags, grown, block);
    if (status == VRAM_ERR_FRAGMENTED) {
        status = vr_addresses_add(pool, vr_request_part(request), request->bytes);
        if (status == VRAM_OK) {
            *grown = given;
            status = plan_once(pool, request, flags, grown, block);
        }
    }
    return status;
}

/* Memory behind a block is requested in one large piece. If the driver has no such piece, the plan
   uses all free memory first and takes the rest in smaller pieces. */
static vram_status miss_plan(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                             uint64_t *grown, struct vr_block **block) {
    vram_status status = plan_with_addresses(pool, request, flags, grown, block);
    if (status == VRAM_ERR_DEVICE_MEMORY && request->behind && !(flags & VR_WANT_NO_GROWTH)) {
        *grown = UINT64_MAX;
        status = plan_with_addresses(pool, request, flags | VR_WANT_NO_GROWTH, grown, block);
    }
    return status;
}

static vram_status miss_held(struct vr_pool *pool, const struct vr_request *request,
                             struct vr_block **block) {
    struct vr_request plain = *request;
    struct vr_answer answer;
    plain.reserve = 0; /* a block without a reserve is better than none */
    vr_mutex_lock(&pool->lock);
    vr_pool_settle(pool);
    vram_status status = space_alloc(pool, &plain, VR_WANT_HELD | VR_WANT_ANY, 0, &answer);
    vr_mutex_unlock(&pool->lock);
    *block = answer.block;
    return status;
}

static vram_status miss_after(struct vr_pool *pool, const struct vr_request *request,
                              struct vr_block **block) {
    struct vr_answer answer;
    if (!request->queue_object) {
        return VRAM_ERR_NOT_READY;
    }
    vr_mutex_lock(&pool->lock);
    vram_status status =
        space_alloc(pool, request, VR_WANT_HELD | VR_WANT_AFTER | VR_WANT_ANY, 0, &answer);
    struct vr_queue_stamp after = vr_pool_stamp_from_space(pool, answer.after);
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK || !after.queue.handle) {
        *block = answer.block;
        return status;
    }
    vr_pool_mark(pool, after, false);
    vr_request_miss(request);
    status = vr_queue_submit_after(request->queue_object,
                                   (vram_point){vr_queue_id_handle(after.queue), after.value});
    if (status == VRAM_OK) {
        *block = answer.block;
        (*block)->home = request->queue; /* which now runs after that work */
    } else {
        vr_mutex_lock(&pool->lock);
        vr_pool_put_back(pool, answer.block, after);
        vr_mutex_unlock(&pool->lock);
        /* The other queue has no such mark yet, or this one cannot wait on the device: the host
           waits. */
        bool later = status == VRAM_ERR_INVALID || status == VRAM_ERR_CAPTURE;
        status = later ? VRAM_ERR_NOT_READY : status;
    }
    return status;
}

const struct vr_miss_ops vr_miss_ops = {miss_plan, miss_held, miss_after, vr_pool_rebuild};

/* A block beyond a hard limit is that limit's to refuse, whatever else lacks. Otherwise:
   VRAM_ERR_FRAGMENTED advises the program to request smaller pieces, and VRAM_ERR_LIMIT to raise a
   limit. Neither helps a block that is larger than the device. */
static vram_status refine_status(const struct vr_pool *pool, const struct vr_request *request,
                                 vram_status status) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    struct vr_budget budget = vr_budget_get(pool);
    bool hard = budget.bound == VR_BOUND_POOL || budget.bound == VR_BOUND_DEVICE;
    uint64_t whole = request->behind ? vr_load(&request->behind->bytes, VR_RELAXED) : 0;
    whole = vr_add(whole, request->bytes, &whole) ? whole : UINT64_MAX;
    if (hard && whole > budget.bytes && vr_status_is_exhausted(status)) {
        return VRAM_ERR_LIMIT;
    }
    bool too_large = vr_pool_on_device(pool) && memory.known && whole > memory.value &&
                     (status == VRAM_ERR_FRAGMENTED || (status == VRAM_ERR_LIMIT && !hard));
    return too_large ? VRAM_ERR_DEVICE_MEMORY : status;
}

/* Adds to why a limit refused the request that the pool has as much, but in smaller pieces. The
   status stays: who refused is the status, what did not help is the report's cause. */
static void explain_pieces(struct vr_pool *pool, uint64_t bytes, char *why, size_t why_bytes) {
    uint64_t unused = 0, largest = 0;
    char all[VRAM_SIZE_TEXT_MAX], most[VRAM_SIZE_TEXT_MAX];
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        struct vr_space_stats stats;
        vr_space_stats_get(pool->spaces[part], &stats);
        unused += stats.hole_bytes + stats.spare_bytes;
        largest = vr_larger(largest, stats.largest_hole_bytes);
    }
    vr_mutex_unlock(&pool->lock);
    if (unused >= bytes && largest < bytes) {
        size_t used = strlen(why);
        vr_text_format(why + used, why_bytes - used,
                       ", of which %s are free in pieces of at most %s",
                       vr_size_format(unused, all), vr_size_format(largest, most));
    }
}

static vram_status explain_failure(struct vr_pool *pool, const struct vr_request *request,
                                   vram_status status) {
    VR_OPERATION("vram_alloc");
    if (vr_error_get()->status == status) {
        return status;
    }
    if (status == VRAM_ERR_BUSY && request->behind) {
        return status; /* resize.c reports what is in the way */
    }
    if (status == VRAM_ERR_BUSY) {
        return vr_fail(status, "pool \"%s\" is asleep; call vram_pool_wake first", pool->name);
    }
    status = refine_status(pool, request, status);
    if (status == VRAM_ERR_LIMIT) {
        char why[VRAM_ERROR_TEXT_MAX];
        vr_limit_explain(pool, request->bytes, why, sizeof why);
        explain_pieces(pool, request->bytes, why, sizeof why);
        return vr_fail(status, "pool \"%s\": %s", pool->name, why);
    }
    if (status == VRAM_ERR_FRAGMENTED && pool->range) {
        return vr_fail(status,
                       "pool \"%s\" has no free run of %llu bytes of addresses and cannot reserve "
                       "more; raise range_bytes (VRAM_RANGE_BYTES)",
                       pool->name, (unsigned long long)request->bytes);
    }
    return vr_fail(status, "pool \"%s\" cannot supply %llu bytes: %s", pool->name,
                   (unsigned long long)request->bytes, vr_status_text(status));
}

void vr_pool_reap(struct vr_pool *pool) {
    if (!vr_block_table_has_retired(&pool->table)) {
        return;
    }
    vr_mutex_lock(&pool->lock);
    struct vr_block_slots *retired = vr_block_table_retired(&pool->table);
    vr_mutex_unlock(&pool->lock);
    if (retired) {
        vr_thread_quiesce();
        vr_block_slots_free(retired);
    }
}

static vram_status from_drained(struct miss *miss) {
    return vr_pool_drain(miss->pool) ? from_held(miss) : miss->status;
}

static vram_status from_plan(struct miss *miss) {
    vr_pool_poll(miss->pool, false);
    miss->grown = 0;
    return miss_plan(miss->pool, miss->request, 0, &miss->grown, miss->block);
}

static vram_status from_quarantine(struct miss *miss) {
    if (!vr_guard_release(miss->pool)) {
        return miss->status;
    }
    miss->grown = 0;
    return miss_plan(miss->pool, miss->request, 0, &miss->grown, miss->block);
}

static vram_status from_ladder(struct miss *miss) {
    vr_ladder_begin(miss->run, miss->pool, miss->request, miss->status, miss->grown, miss->block);
    return vr_ladder_execute(miss->run);
}

static vram_status (*const sources[])(struct miss *miss) = {from_held, from_drained, from_plan,
                                                            from_quarantine, from_ladder};

enum { SOURCE_COUNT = sizeof sources / sizeof sources[0], CACHED_SOURCES = 2 };

/* Tries the sources from `first` on, until one has the block or fails for another reason than a
   shortage of memory. */
static vram_status find_from(struct miss *miss, uint32_t first) {
    VR_OPERATION("vram_alloc");
    bool cached_only = miss->request->flags & VRAM_ALLOC_CACHED_ONLY;
    uint32_t count = cached_only ? CACHED_SOURCES : SOURCE_COUNT;
    *miss->extra = 0;
    for (uint32_t i = first; i < count; i++) {
        miss->status = sources[i](miss);
        if (!vr_status_is_short(miss->status)) {
            return miss->status;
        }
    }
    return cached_only ? vr_fail(VRAM_ERR_LIMIT,
                                 "the pool has no free run of %llu bytes, and "
                                 "VRAM_ALLOC_CACHED_ONLY allows no other memory",
                                 (unsigned long long)miss->request->bytes)
                       : miss->status;
}

static vram_status find_again(struct vr_ladder_run *run) {
    return find_from(run->subject, 0);
}

/* The library's own host memory has run out: releases everything cached on every device and tries
   the sources once more. */
static vram_status find_after_cleanup(struct miss *miss) {
    struct vr_ladder_run run;
    vr_ladder_begin_for(&run, VR_FOR_HOST, miss->pool, miss->request, miss->status, find_again,
                        miss);
    vram_status status = vr_ladder_execute(&run);
    if (status == VRAM_ERR_HOST_MEMORY) {
        *miss->run = run;
    }
    return status;
}

/* One attempt through the sources. If it fails, the error is recorded; if memory is exhausted, the
   report is written too. */
static vram_status attempt_sources(struct miss *miss, uint32_t first) {
    struct vr_pool *pool = miss->pool;
    bool cached_only = miss->request->flags & VRAM_ALLOC_CACHED_ONLY;
    *miss->run = (struct vr_ladder_run){.pool = NULL};
    vr_error_clear(); /* so that explain_failure sees only errors of this call */
    vram_status status = find_from(miss, first);
    if (status == VRAM_ERR_HOST_MEMORY && !cached_only) {
        status = find_after_cleanup(miss);
    }
    vr_pool_reap(pool);
    if (status == VRAM_OK) {
        return status;
    }
    status = explain_failure(pool, miss->request, status);
    if (vr_status_is_exhausted(status) && !cached_only) {
        vr_report_write(pool, miss->request, status, miss->run);
    }
    return status;
}

/* The attempt failed: does what the context's error handler answers, if it may be asked. */
static vram_status handler_apply(struct miss *miss, vram_status status) {
    VR_OPERATION("vram_alloc");
    struct vr_pool *pool = miss->pool;
    vram_error_answer answer;
    for (uint32_t retries = 0;
         status != VRAM_OK &&
         (answer = vr_handler_ask(pool, miss->request, status, retries)) != VRAM_ERROR_FAIL;
         retries++) {
        *miss->extra = 0;
        if (vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
            return vr_fail(VRAM_ERR_STALE, "the pool was destroyed by the error handler");
        }
        if (answer == VRAM_ERROR_FALL_BACK) {
            return vr_ladder_fall_back(pool, miss->request, status, miss->block);
        }
        status = attempt_sources(miss, 0);
    }
    return status;
}

/* Source 1 has no block. If it failed for another reason, it is tried again, so that it records
   why. */
static vram_status supply_slowly(struct miss *miss) {
    struct vr_ladder_run run;
    miss->run = &run;
    vram_status status = attempt_sources(miss, vr_status_is_short(miss->status) ? 1 : 0);
    bool elsewhere = miss->request->behind && status == VRAM_ERR_BUSY; /* resize.c handles it */
    bool counts = !(miss->request->flags & VRAM_ALLOC_CACHED_ONLY);
    if (status != VRAM_OK && !elsewhere) {
        status = handler_apply(miss, status);
    }
    if (status != VRAM_OK) {
        *miss->extra = 0;
        vr_counter_add(&miss->pool->counters.refusals, counts && vr_status_is_exhausted(status));
        vr_counter_add(&miss->pool->counters.limit_refusals, counts && status == VRAM_ERR_LIMIT);
    }
    return status;
}

/* Other memory, by the driver or a provider. The error handler is asked about memory that the
   caller chose, as nothing else would replace it. */
static vram_status supply_other(struct vr_pool *pool, const struct vr_request *request,
                                struct vr_block **block) {
    uint32_t retries = 0;
    struct vram_error error;
    vr_error_save(&error);
    for (;;) {
        vram_status status = vr_fallback_supply(pool, request, block);
        if (status == VRAM_OK) {
            vr_error_restore(&error);
        }
        if (!vr_status_is_exhausted(status) || !(request->flags & VR_REQUEST_CHOSEN) ||
            vr_handler_ask(pool, request, status, retries++) != VRAM_ERROR_RETRY) {
            return status;
        }
        if (!vr_pool_is_open(pool)) {
            return vr_fail(VRAM_ERR_STALE, "the pool was destroyed by the error handler");
        }
    }
}

vram_status vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block **block, struct vr_block **more, uint32_t *extra) {
    struct miss miss = {.pool = pool,
                        .request = request,
                        .block = block,
                        .more = more,
                        .extra = extra,
                        .capacity = *extra};
    struct vram_error error;
    if (vr_request_is_other(request)) {
        return supply_other(pool, request, block);
    }
    assert(vr_locks_held() == 0); /* plans call the driver, the ladder calls the program */
    vr_error_save(&error);
    *block = NULL;
    vr_pool_flush(pool);
    miss.status = from_held(&miss);
    if (miss.status == VRAM_OK) { /* the usual case */
        vr_pool_reap(pool);
        return VRAM_OK;
    }
    vram_status status = supply_slowly(&miss);
    if (status == VRAM_OK) {
        vr_error_restore(&error); /* what failed before does not matter */
    }
    return status;
}
