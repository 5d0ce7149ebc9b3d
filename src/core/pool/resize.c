/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c: blocks that grow and shrink in place.
 *
 *     shrinking   | BLOCK          |        growing   | BLOCK |  HOLE, VOID ...
 *                 | BLOCK | tail   |                  | BLOCK | tail    |
 *                          freed on the queue          allocated like any block, then joined
 *
 * Memory behind a block is allocated by a request of its own, which accepts one place only
 * (vr_request.behind). So limits, plans, the ladder, reports and counters are those of an
 * allocation. The block itself does not change before that memory is there.
 *
 *  (1) A live block changes under the pool's lock, while its state says CACHED. A free at that
 *      moment takes the slow path and finds the block LIVE again under the lock, with another
 *      generation.
 *  (2) During the search for memory the lock is open and the block is LIVE, but `growing`. A free
 *      at that moment wins: the block waits in `deferred` until the search is over, and the memory
 *      found goes back to the space.
 *  (3) A block has one home (block.h (5)). If that is not the caller's queue, memory that the
 *      caller's queue may still use is not taken.
 *  (4) The tail that a block loses is freed in stream order, after the work of the block's home and
 *      of all queues that use the block. If it had to wait for more (pins), the block keeps it.
 */
#include "core/cache/drain.h"
#include "core/guard/block_lookup.h"
#include "core/ladder/report.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "core/tracking/pool_tracking.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <assert.h>

/* One call of vram_resize. */
struct resizing {
    struct vr_pool *pool;
    struct vr_queue_object *queue; /* NULL: none */
    vram_addr addr;                /* as the program knows it */
    uint64_t size;                 /* new, as requested */
    uint64_t bytes;                /* new, rounded */
    struct vr_block *block;
    uint64_t old_size, old_bytes;
    struct vr_queue_id home; /* the block's, without the mark of its tag */
    struct vr_tag *tag;      /* NULL: none */
    struct vr_block *tail;   /* cut off; NULL: none */
    uint64_t reserve;        /* kept behind the block; 0: none */
    bool notify;             /* listeners must be notified */
    bool owner;              /* the caller is the object that owns the block */
    uint32_t was;            /* the block's state before it was seized */
    struct vr_event event;
};

/* ----------------------------------------------------------------- the block */

/* Claims a live block for a moment: keeps (1). Under the lock. */
static bool block_seize(struct resizing *job) {
    uint32_t seen = vr_load(&job->block->state, VR_ACQUIRE);
    job->was = seen & VR_BLOCK_STATES;
    return VR_BLOCK_IS_LIVE(seen) &&
           vr_cas(&job->block->state, &seen, seen ^ job->was ^ VR_BLOCK_CACHED, VR_ACQ_REL);
}

static void block_release(const struct resizing *job) {
    struct vr_block *block = job->block;
    assert(vr_block_is_cached(block)); /* seized: (1) */
    block->generation += VR_BLOCK_STATES + 1;
    vr_store(&block->state, block->generation | job->was, VR_RELEASE);
}

/* Records the new size of a block that the caller has claimed. Under the lock. */
static void note_size(struct resizing *job) {
    struct vr_track_size before = {job->old_size, job->old_bytes};
    job->notify = vr_tracking_resize(job->pool, job->block, before,
                                     job->queue ? job->queue->object.handle : 0, &job->event);
}

static vram_status refuse_resize(const struct resizing *job, vram_status status, const char *why) {
    return vr_fail(status, "the block at 0x%llx %s", (unsigned long long)job->addr, why);
}

/* Whether the block's memory may change at all. The caller has claimed the block. */
static vram_status check_block(struct resizing *job) {
    const struct vr_block *block = job->block;
    if (!job->owner && job->was == VR_BLOCK_OWNED) {
        return refuse_resize(job, VRAM_ERR_INVALID,
                             "belongs to a buffer, a scope or a batch, which alone resizes it");
    }
    if (vr_load(&job->pool->guard.modes, VR_RELAXED)) {
        job->bytes = job->old_bytes; /* zones included */
        if (job->size != job->old_size) {
            return refuse_resize(job, VRAM_ERR_UNSUPPORTED,
                                 "belongs to a pool with safety modes and keeps its size");
        }
    }
    if (block->asleep || job->pool->sleep.whole) {
        return refuse_resize(job, VRAM_ERR_BUSY, "is asleep; call vram_pool_wake first");
    }
    if (block->sealed) {
        return refuse_resize(job, VRAM_ERR_BUSY, "is sealed; call vram_pool_unseal first");
    }
    if (block->growing) {
        return refuse_resize(job, VRAM_ERR_BUSY, "is being resized by another thread");
    }
    if (vr_block_is_other(block) && job->bytes > job->old_bytes) {
        return refuse_resize(job, VRAM_ERR_UNSUPPORTED, "is not device memory and cannot grow");
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------------- shrinking */

/* Whether the memory at the block's end must stay: keeps (4). */
static bool is_kept(const struct vr_block *block) {
    return block->pins || vr_block_is_other(block);
}

static void uses_free(struct vr_uses *uses) {
    while (uses) {
        struct vr_uses *next = uses->next;
        vr_mem_free(uses);
        uses = next;
    }
}

/* Copies the uses of a block for its tail. */
static vram_status uses_copy(const struct vr_uses *uses, struct vr_uses **copy) {
    for (*copy = NULL; uses; uses = uses->next) {
        struct vr_uses *use = vr_mem_alloc(1, sizeof *use, vr_operation());
        if (!use) {
            uses_free(*copy);
            return VRAM_ERR_HOST_MEMORY;
        }
        *use = (struct vr_uses){.next = *copy, .stamp = uses->stamp};
        *copy = use;
    }
    return VRAM_OK;
}

/* Cuts off the tail as a freed block that the caller must return. Keeps (4). Without host memory
   for that the block keeps its tail: shrinking never fails. Under the lock, with the block
   claimed. */
static void cut_tail(struct resizing *job) {
    struct vr_pool *pool = job->pool;
    struct vr_block *block = job->block;
    struct vr_space *space = pool->spaces[block->part];
    struct vr_uses *uses = NULL;
    struct vram_error error;
    assert(vr_pool_is_locked(pool) && vr_block_is_cached(block));
    vr_error_save(&error);
    if (job->bytes < job->old_bytes && !is_kept(block) &&
        vr_block_table_reserve(&pool->table) == VRAM_OK &&
        uses_copy(block->uses, &uses) == VRAM_OK &&
        vr_space_split(space, block, job->bytes, &job->tail) == VRAM_OK) {
        vr_pool_in(pool, job->tail); /* and out again, as a separate block */
        vr_pool_leave_space(pool, job->tail, VR_NO_QUEUE);
        vr_store(&job->tail->tag, NULL, VR_RELAXED);
        job->tail->part = block->part;
        job->tail->home = job->home;
        job->tail->uses = uses;
        vr_block_note_held(job->tail);
        uses = NULL;
    }
    uses_free(uses);
    vr_error_restore(&error);
}

/* Returns the tail like a block that is freed on the queue. No lock held. */
static void return_tail(const struct resizing *job) {
    struct vr_queue_id queue = {job->queue ? job->queue->object.handle : 0};
    bool foreign = job->home.handle && !vr_queue_id_same(job->home, queue);
    if ((job->pool->flags & VRAM_POOL_DETERMINISTIC) && (foreign || job->tail->uses)) {
        vr_pool_return_ordered(job->pool, job->queue, job->tail);
    } else {
        vr_pool_return_new(job->pool, job->queue, job->tail);
    }
    vr_pool_flush(job->pool);
}

/* ------------------------------------------------------------------- growing */

/* A block with a reserve behind it grows by whole granules, so that the rest of the reserve stays
   adjacent. Under the lock. */
static void note_reserve(struct resizing *job) {
    uint64_t bytes;
    job->reserve = vr_space_reserve(job->block);
    if (job->reserve && vr_round_up(job->bytes, job->pool->granule, &bytes)) {
        job->bytes = bytes;
    }
}

/* Joins the tail, which a request has found, to the block. A plan that failed before has taken the
   reserve: what is left of it is kept again. Under the lock, with the block claimed. */
static void join_tail(const struct resizing *job, struct vr_block *tail) {
    struct vr_block *block = job->block;
    struct vr_space *space = job->pool->spaces[block->part];
    uint64_t grown = job->bytes - job->old_bytes;
    assert(vr_block_is_cached(block) && vr_block_is_cached(tail)); /* the caller holds both */
    assert(vr_load(&tail->bytes, VR_RELAXED) == grown && tail->part == block->part);
    vr_block_table_remove(&job->pool->table, tail);
    if (!job->home.handle) {
        block->home.handle |= tail->home.handle; /* keeps (3) */
    }
    block->asleep = block->asleep || tail->asleep;
    vr_space_join(space, block, tail);
    if (job->reserve > grown && !vr_space_reserve(block)) {
        vr_space_keep_reserve(space, block, job->reserve - grown);
    }
}

/* Ends the search, with or without a tail: keeps (2). False: the block was freed in the
   meantime. */
static bool end_growth(struct resizing *job, struct vr_block *tail) {
    struct vr_pool *pool = job->pool;
    struct vr_block *block = job->block;
    vr_mutex_lock(&pool->lock);
    assert(block->growing); /* set by resize_begin, and cleared only here: (2) */
    bool ours = block_seize(job);
    if (tail && ours) {
        join_tail(job, tail);
        vr_store(&block->requested, job->size, VR_RELAXED);
        note_size(job);
    } else if (tail) {
        vr_pool_put_back(pool, tail, (struct vr_queue_stamp){{0}, 0});
    } else if (ours && !vr_space_reserve(block)) {
        vr_space_keep_reserve(pool->spaces[block->part], block,
                              job->reserve); /* the failed search has taken it */
    }
    block->growing = false;
    vr_block_note_held(block);
    if (ours) {
        block_release(job);
    } else {
        vr_pool_settle(pool);
    }
    vr_mutex_unlock(&pool->lock);
    return ours;
}

/* Gives an error of the request the name of this call. */
static vram_status rename_error(const struct resizing *job, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    if (status == VRAM_ERR_BUSY && error.status != status) {
        return refuse_resize(job, status, "has no free addresses behind it");
    }
    error.operation = vr_operation();
    vr_error_restore(&error);
    return status;
}

/* Searches for the tail within the quotas of the block's tag. */
static vram_status find_tail(const struct resizing *job, const struct vr_request *request,
                             uint32_t *crossed, struct vr_block **tail) {
    uint32_t extra = 0;
    vram_status status = job->tag ? vr_quota_charge(job->pool, request, crossed) : VRAM_OK;
    if (status == VRAM_OK) {
        status = vr_pool_supply(job->pool, request, tail, NULL, &extra);
        if (status != VRAM_OK && job->tag) {
            vr_tag_cancel(job->tag, request->bytes, request->size);
        }
    }
    return status == VRAM_OK ? status : rename_error(job, status);
}

/* The block is `growing`. */
static vram_status grow_block(struct resizing *job) {
    bool own = job->queue &&
               (!job->home.handle || job->home.handle == job->queue->object.handle); /* keeps (3) */
    struct vr_request request = {.size = job->size - job->old_size,
                                 .bytes = job->bytes - job->old_bytes,
                                 .queue = {own ? job->queue->object.handle : 0},
                                 .queue_object = own ? job->queue : NULL,
                                 .flags = VR_REQUEST_AHEAD, /* no other memory than the device's */
                                 .tag = job->tag,
                                 .behind = job->block};
    struct vr_block *tail = NULL;
    uint32_t crossed = 0;
    vram_status status = find_tail(job, &request, &crossed, &tail);
    bool ours = end_growth(job, status == VRAM_OK ? tail : NULL);
    if (status != VRAM_OK) {
        return status;
    }
    if (!ours && job->tag) {
        vr_tag_cancel(job->tag, request.bytes, request.size);
    } else if (job->tag) {
        vr_tag_join(job->tag);
        vr_tag_notify(job->pool->device, job->pool, job->tag, crossed);
    }
    return ours ? VRAM_OK : refuse_resize(job, VRAM_ERR_INVALID, "was freed while it grew");
}

/* ---------------------------------------------------------------------- all */

/* Counts the change in the thread's cache, so that the peak of one thread is exact. */
static void count_change(const struct resizing *job, uint64_t requested, uint64_t held) {
    struct vr_pool *pool = job->pool;
    struct vr_cache *cache = vr_pool_cache_enter(pool, job->queue);
    if (cache) {
        vr_count(&cache->counts.requested, requested);
        vr_count(&cache->counts.held, held);
        int64_t live = vr_cache_live(cache);
        cache->high_bytes = live > cache->high_bytes ? live : cache->high_bytes;
        vr_pool_report_cache(cache);
        vr_thread_leave(cache->thread);
    } else {
        vr_fetch_add(&pool->past.requested, requested, VR_RELAXED);
        vr_fetch_add(&pool->past.held, held, VR_RELAXED);
        vr_pool_report_bytes(pool, (int64_t)requested > 0 ? (int64_t)requested : 0,
                             (int64_t)requested);
    }
}

/* Does what needs no search. *grows: the block is `growing` now, and the caller continues with
   grow_block. */
static vram_status resize_begin(struct resizing *job, bool *grows) {
    struct vr_pool *pool = job->pool;
    vram_status status = VRAM_ERR_INVALID;
    *grows = false;
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = job->block = vr_guard_find(pool, job->addr);
    bool ours = block && block_seize(job);
    if (ours) {
        job->old_size = vr_load(&block->requested, VR_RELAXED);
        job->old_bytes = vr_load(&block->bytes, VR_RELAXED);
        job->tag = vr_load(&block->tag, VR_RELAXED);
        job->home.handle = block->home.handle & ~(uint64_t)VR_HOME_TAGGED;
        status = check_block(job);
        *grows = status == VRAM_OK && job->bytes > job->old_bytes;
        if (*grows) {
            note_reserve(job);
            block->growing = true;
            vr_block_note_held(block);
        } else if (status == VRAM_OK) {
            cut_tail(job);
            vr_store(&block->requested, job->size, VR_RELAXED);
            job->bytes = vr_load(&block->bytes, VR_RELAXED);
            note_size(job);
        }
        block_release(job);
    }
    vr_mutex_unlock(&pool->lock);
    return ours ? status : vr_pool_no_block(pool, job->addr);
}

static vram_status resize_block(struct resizing *job) {
    bool grows;
    vram_status status = resize_begin(job, &grows);
    if (status == VRAM_OK && grows) {
        status = grow_block(job);
        vr_pressure_on_miss(job->pool);
    } else if (status == VRAM_OK && job->tag) {
        vr_tag_shrink(job->tag, job->old_bytes - job->bytes, job->old_size - job->size);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (job->notify) {
        vr_event_tell(&job->event);
    }
    count_change(job, job->size - job->old_size, job->bytes - job->old_bytes);
    if (job->tail) {
        return_tail(job);
    }
    return VRAM_OK;
}

/* `handle`: the pool that the block must belong to, for the object that owns it; NULL: the
   program's own call, for a block that no object owns. */
static vram_status resize_for(vram_pool *handle, vram_addr addr, uint64_t new_size,
                              vram_queue *queue_handle) {
    VR_OPERATION("vram_resize");
    struct resizing job = {.addr = addr, .size = new_size, .owner = handle != NULL};
    if (!vr_block_bytes(new_size, &job.bytes)) {
        return vr_fail_size(new_size);
    }
    vram_status status = handle ? vr_pool_enter(handle, queue_handle, &job.pool, &job.queue)
                                : vr_pool_enter_block(addr, queue_handle, &job.pool, &job.queue);
    if (status == VRAM_OK) {
        status = vr_pool_bucket(job.pool, &job.bytes) ? resize_block(&job) : vr_fail_size(new_size);
        vr_pool_leave(job.pool, job.queue);
    }
    return status;
}

vram_status vr_pool_resize(vram_pool *pool, vram_addr addr, uint64_t new_size, vram_queue *queue) {
    return resize_for(pool, addr, new_size, queue);
}

vram_status vram_resize(vram_addr addr, uint64_t new_size, vram_queue *queue) {
    return resize_for(NULL, addr, new_size, queue);
}
