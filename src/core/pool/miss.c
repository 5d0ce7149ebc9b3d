/* SPDX-License-Identifier: Apache-2.0 */
/*
 * miss.c: where a block comes from when the thread's cache has none.
 *
 * In order, each only if those before it found nothing:
 *
 *   1. the depot: what other threads freed on this queue, exactly this size;
 *   2. a hole of the space that is mapped already;
 *   3. everything that threads keep to themselves is drained into the space, and 2 again;
 *   4. a plan: the space moves free memory to where it is needed or takes more from the driver, as its
 *      policy says;
 *   5. memory is short: the ladder (ladder.h).
 *
 * Growing comes before waiting while memory is plentiful, waiting before failing when it is not.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"
#include "core/cache/other_memory.h"
#include "core/cache/stamp.h"
#include "core/ladder/handler.h"
#include "core/ladder/report.h"
#include "core/limit/budget.h"
#include "core/pool/pool_calls.h"

#include "base/error.h"
#include "base/size.h"

enum { QUEUE_NONE = 1 }; /* for the space: no queue; no handle and no lane has this number */

/* A block of the space leaves it for the request. */
static void leave(struct vr_pool *pool, const struct vr_request *request, struct vr_block *block) {
    vr_pool_leave_space(pool, block, request->queue);
    block->part = (uint8_t)vr_request_part(request);
}

/* One question to the space. On VRAM_OK the answer has a block, which has left the space, or a plan.
   Under the lock. */
static vram_status ask(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                       uint64_t grow_bytes, struct vr_answer *answer) {
    bool small = vr_request_part(request) == VR_PART_SMALL; /* as all that is in the depot */
    uint64_t queue = vr_pool_queue_in_space(pool, request->queue);
    struct vr_want want = {.bytes = request->bytes,
                           .align = request->align,
                           .queue = queue ? queue : QUEUE_NONE,
                           .room = request->room,
                           .behind = request->behind,
                           .now_ns = flags & VR_WANT_HELD ? 0 : vr_pool_now(pool),
                           .idle_bytes = small ? pool->depot.held_bytes : 0,
                           .grow_bytes = grow_bytes,
                           .flags = flags};
    if (request->flags & VRAM_ALLOC_CACHED_ONLY) {
        want.flags |= VR_WANT_ANY; /* there is no other way */
    }
    vram_status status = vr_block_table_reserve(&pool->table);
    *answer = (struct vr_answer){.block = NULL};
    if (status == VRAM_OK) {
        status = vr_space_alloc(vr_request_space(pool, request), &want, answer);
    }
    if (status == VRAM_OK && answer->block) {
        leave(pool, request, answer->block);
    }
    return status;
}

/* Steps 1 and 2, with a few more of the same size for the thread's cache when they cost nothing. */
static vram_status from_held(struct vr_pool *pool, const struct vr_request *request,
                             struct vr_block **block, struct vr_block **more, uint32_t *extra) {
    struct vr_answer answer;
    uint32_t room = *extra, got = 0;
    vr_mutex_lock(&pool->lock);
    if (pool->owed) {
        vr_mutex_unlock(&pool->lock);
        vr_pool_repay(pool);
        vr_mutex_lock(&pool->lock);
    }
    vr_pool_settle(pool);
    vram_status status = vr_pool_know(pool, request->queue_object);
    if (status == VRAM_OK && !request->align && !request->behind) {
        *block = vr_depot_take(&pool->depot, request->queue, request->bytes);
        while (*block && got < room &&
               (more[got] = vr_depot_take(&pool->depot, request->queue, request->bytes))) {
            got++;
        }
    }
    if (status == VRAM_OK && !*block) {
        status = ask(pool, request, VR_WANT_HELD, 0, &answer);
        *block = answer.block;
        while (status == VRAM_OK && got < room &&
               ask(pool, request, VR_WANT_HELD, 0, &answer) == VRAM_OK) {
            more[got++] = answer.block;
        }
    }
    vr_mutex_unlock(&pool->lock);
    *extra = got;
    return status != VRAM_ERR_STALE ? status
                                    : vr_fail(status, "vram_alloc", "the queue was destroyed");
}

/* Step 2 alone; the depot has no large blocks. */
struct vr_block *vr_pool_supply_held(struct vr_pool *pool, const struct vr_request *request,
                                     bool *marks) {
    struct vr_answer answer = {.block = NULL};
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    struct vr_queue_id queue = request->queue;
    const struct vr_lane *lane = queue.handle ? vr_lane_find(&pool->lanes, queue) : NULL;
    bool open = !queue.handle || (lane && vr_queue_is_open(lane->queue));
    if (open && !pool->owed) {
        vr_pool_settle(pool);
        (void)ask(pool, request, VR_WANT_HELD, 0, &answer);
    }
    *marks = answer.block && vr_pool_batch_is_full(pool, queue, 0);
    vr_mutex_unlock(&pool->lock);
    if (!answer.block) {
        vr_error_restore(&error); /* the long way tells */
    }
    return answer.block;
}

static vram_status plan_once(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                             uint64_t *grown, struct vr_block **block) {
    struct vr_space *space = vr_request_space(pool, request);
    struct vr_answer answer;
    if (request->behind && !(pool->flags & VRAM_POOL_DETERMINISTIC)) {
        flags |= VR_WANT_GATHER;
    }
    vr_pool_repay(pool);
    vr_pool_sweep(pool, space);
    vr_budget_refresh(pool, false);
    vr_mutex_lock(&pool->lock);
    vr_pool_settle(pool);
    vr_budget_apply(pool, space);
    pool->plans++;
    vram_status status = ask(pool, request, flags, *grown, &answer);
    bool lands = status == VRAM_OK && answer.plan;
    pool->landing += lands;
    vr_mutex_unlock(&pool->lock);
    *grown = 0;
    *block = answer.block;
    if (!lands) {
        return status;
    }
    status = vr_pool_execute(pool, space, answer.plan, block, grown);
    vr_mutex_lock(&pool->lock);
    if (status == VRAM_OK && (status = vr_block_table_reserve(&pool->table)) == VRAM_OK) {
        leave(pool, request, *block);
    } else if (*block) {
        (*block)->stamp = (struct vr_stamp){0, 0};
        vr_space_free(space, *block);
        *block = NULL;
    }
    pool->landing--;
    vr_mutex_unlock(&pool->lock);
    return status;
}

/* If no run of addresses is long enough, more are reserved: addresses cost no memory. */
static vram_status plan(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                        uint64_t *grown, struct vr_block **block) {
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

/* Behind a block memory is asked for in one large piece. Where the driver has no such, all that is free comes
   first, and the rest in smaller ones. */
static vram_status miss_plan(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                             uint64_t *grown, struct vr_block **block) {
    vram_status status = plan(pool, request, flags, grown, block);
    if (status == VRAM_ERR_DEVICE_MEMORY && request->behind && !(flags & VR_WANT_NO_GROWTH)) {
        *grown = UINT64_MAX;
        status = plan(pool, request, flags | VR_WANT_NO_GROWTH, grown, block);
    }
    return status;
}

static vram_status miss_held(struct vr_pool *pool, const struct vr_request *request,
                             struct vr_block **block) {
    struct vr_request plain = *request;
    struct vr_answer answer;
    plain.room = 0; /* better without than not at all */
    vr_mutex_lock(&pool->lock);
    vr_pool_settle(pool);
    vram_status status = ask(pool, &plain, VR_WANT_HELD | VR_WANT_ANY, 0, &answer);
    vr_mutex_unlock(&pool->lock);
    *block = answer.block;
    return status;
}

static vram_status miss_after(struct vr_pool *pool, const struct vr_request *request,
                              struct vr_block **block) {
    struct vr_answer answer;
    if (!request->queue.handle) {
        return VRAM_ERR_NOT_READY;
    }
    vr_mutex_lock(&pool->lock);
    vram_status status = ask(pool, request, VR_WANT_HELD | VR_WANT_AFTER | VR_WANT_ANY, 0, &answer);
    struct vr_queue_stamp after = vr_pool_stamp_from_space(pool, answer.after);
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK || !after.queue.handle) {
        *block = answer.block;
        return status;
    }
    vr_pool_mark(pool, after, false);
    status = vram_queue_after(vr_queue_id_handle(request->queue),
                              (vram_point){vr_queue_id_handle(after.queue), after.value});
    if (status == VRAM_OK) {
        *block = answer.block;
        (*block)->home = request->queue; /* which is behind that work now */
    } else {
        vr_mutex_lock(&pool->lock);
        vr_pool_put_back(pool, answer.block, after);
        vr_mutex_unlock(&pool->lock);
        /* That queue is not marked yet, or this one cannot be told to wait: the host can. */
        bool later = status == VRAM_ERR_INVALID || status == VRAM_ERR_CAPTURE;
        status = later ? VRAM_ERR_NOT_READY : status;
    }
    return status;
}

const struct vr_miss_ops vr_miss_ops = {miss_plan, miss_held, miss_after};

/* VRAM_ERR_FRAGMENTED tells the program to ask for smaller pieces, and VRAM_ERR_LIMIT to raise one: what is
   too large for the device as a whole is told apart from both. */
static vram_status judge(const struct vr_pool *pool, const struct vr_request *request,
                         vram_status status) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    enum vr_bound bound = status == VRAM_ERR_LIMIT ? vr_budget_get(pool).bound : VR_BOUND_NONE;
    bool limited = bound == VR_BOUND_POOL || bound == VR_BOUND_DEVICE;
    bool too_large = vr_pool_on_device(pool) && memory.known && request->bytes > memory.value &&
                     (status == VRAM_ERR_FRAGMENTED || (status == VRAM_ERR_LIMIT && !limited));
    return too_large ? VRAM_ERR_DEVICE_MEMORY : status;
}

static vram_status explain(const struct vr_pool *pool, const struct vr_request *request,
                           vram_status status) {
    if (vram_error_get()->status == status) {
        return status;
    }
    if (status == VRAM_ERR_BUSY && request->behind) {
        return status; /* resize.c knows what is in the way */
    }
    if (status == VRAM_ERR_BUSY) {
        return vr_fail(status, "vram_alloc", "pool \"%s\" is asleep; vram_pool_wake comes first",
                       pool->name);
    }
    status = judge(pool, request, status);
    if (status == VRAM_ERR_LIMIT) {
        char why[VRAM_ERROR_TEXT_MAX];
        vr_budget_explain(pool, request->bytes, why, sizeof why);
        return vr_fail(status, "vram_alloc", "pool \"%s\": %s", pool->name, why);
    }
    if (status == VRAM_ERR_FRAGMENTED && pool->range) {
        return vr_fail(
            status, "vram_alloc",
            "pool \"%s\" has no run of %llu addresses free, and no more can be reserved; "
            "see range_bytes (VRAM_RANGE_BYTES)",
            pool->name, (unsigned long long)request->bytes);
    }
    return vr_fail(status, "vram_alloc", "pool \"%s\" has no %llu bytes to give: %s", pool->name,
                   (unsigned long long)request->bytes, vram_status_text(status));
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

/* Where what was found goes. */
struct find {
    struct vr_block **block, **more;
    uint32_t *extra, room; /* blocks in `more`, and how many may be */
    struct vr_climb climb; /* as far as it came; it has no steps where nothing was short */
};

static vram_status find_or_make(struct vr_pool *pool, const struct vr_request *request,
                                struct find *find) {
    struct vr_block **block = find->block, **more = find->more;
    uint32_t *extra = find->extra, room = find->room;
    *extra = room;
    vram_status status = from_held(pool, request, block, more, extra);
    if (status == VRAM_OK || !vr_status_is_short(status)) {
        return status;
    }
    vr_pool_drain(pool);
    *extra = room;
    status = from_held(pool, request, block, more, extra);
    if (status == VRAM_OK || !vr_status_is_short(status)) {
        return status;
    }
    *extra = 0;
    if (request->flags & VRAM_ALLOC_CACHED_ONLY) {
        return vr_fail(VRAM_ERR_LIMIT, "vram_alloc",
                       "the pool holds no free run of %llu bytes, and only cached memory was asked "
                       "for",
                       (unsigned long long)request->bytes);
    }
    vr_pool_look(pool, false);
    uint64_t grown = 0;
    status = miss_plan(pool, request, 0, &grown, block);
    if (vr_status_is_short(status) && vr_guard_release(pool)) {
        grown = 0;
        status = miss_plan(pool, request, 0, &grown, block);
    }
    if (!vr_status_is_short(status)) {
        return status;
    }
    vr_climb_begin(&find->climb, pool, request, status, grown, block);
    return vr_climb_run(&find->climb);
}

static vram_status find_again(struct vr_climb *climb) {
    return find_or_make(climb->pool, climb->request, climb->subject);
}

/* The same, and when the library's own memory has run out: once more after all that is cached on every device
   was given back. */
static vram_status find_or_clean(struct vr_pool *pool, const struct vr_request *request,
                                 struct find *find) {
    struct vr_climb climb;
    vram_status status = find_or_make(pool, request, find);
    if (status != VRAM_ERR_HOST_MEMORY || (request->flags & VRAM_ALLOC_CACHED_ONLY)) {
        return status;
    }
    vr_climb_begin_for(&climb, VR_FOR_HOST, pool, request, status, find_again, find);
    status = vr_climb_run(&climb);
    if (status == VRAM_ERR_HOST_MEMORY) {
        find->climb = climb;
    }
    return status;
}

/* One attempt with all that belongs to it. When it fails, the error is in the record, and the report of an
   exhaustion is written. */
static vram_status attempt(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block **block, struct vr_block **more, uint32_t *extra) {
    struct find find = {.block = block, .more = more, .extra = extra, .room = *extra};
    *block = NULL;
    vram_error_clear(); /* for explain: what is there then is of this call */
    vram_status status = find_or_clean(pool, request, &find);
    vr_pool_reap(pool);
    if (status == VRAM_OK) {
        return status;
    }
    status = explain(pool, request, status);
    if (vram_status_is_exhausted(status) && !(request->flags & VRAM_ALLOC_CACHED_ONLY)) {
        vr_report_write(pool, request, status, &find.climb);
    }
    return status;
}

/* The attempt failed: what the context's error handler says is done, as far as it may say anything. */
static vram_status handle(struct vr_pool *pool, const struct vr_request *request,
                          vram_status status, struct vr_block **block, struct vr_block **more,
                          uint32_t *extra) {
    uint32_t room = *extra;
    vram_error_answer answer;
    for (uint32_t retries = 0;
         status != VRAM_OK &&
         (answer = vr_handler_ask(pool, request, status, retries)) != VRAM_ERROR_FAIL;
         retries++) {
        *extra = 0;
        if (vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
            return vr_fail(VRAM_ERR_STALE, "vram_alloc",
                           "the pool was destroyed by the error handler");
        }
        if (answer == VRAM_ERROR_FALL_BACK) {
            return vr_climb_fall_back(pool, request, status, block);
        }
        *extra = room;
        status = attempt(pool, request, block, more, extra);
    }
    return status;
}

vram_status vr_pool_supply(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block **block, struct vr_block **more, uint32_t *extra) {
    struct vram_error error;
    uint32_t room = *extra;
    if (request->other) {
        return vr_fallback_supply(pool, request, block);
    }
    vr_error_save(&error);
    *block = NULL;
    vr_pool_flush(pool);
    if (from_held(pool, request, block, more, extra) == VRAM_OK) { /* as nearly always */
        vr_pool_reap(pool);
        return VRAM_OK;
    }
    *extra = room;
    vram_status status = attempt(pool, request, block, more, extra);
    bool elsewhere =
        request->behind && status == VRAM_ERR_BUSY; /* no error: there is another way */
    if (status != VRAM_OK && !elsewhere) {
        *extra = room;
        status = handle(pool, request, status, block, more, extra);
    }
    if (status != VRAM_OK) {
        *extra = 0;
        vr_tally(&pool->tally.refusals,
                 vram_status_is_exhausted(status) && !(request->flags & VRAM_ALLOC_CACHED_ONLY));
        vr_tally(&pool->tally.limit_refusals,
                 status == VRAM_ERR_LIMIT && !(request->flags & VRAM_ALLOC_CACHED_ONLY));
        return status;
    }
    vr_error_restore(&error); /* what was tried in vain is nobody's business */
    return status;
}
