/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_tracking.c: makes records and events of a pool's blocks. See pool_tracking.h.
 */
#include "core/object/request.h"
#include "core/tracking/leaks.h"

#include "base/error.h"
#include "base/log.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "core/limit/limit.h"
#include "core/stats/pool_stats.h"
#include "track/stack.h"
#include "track/trace_shard.h"

/* ----------------------------------------------------------------- the pool */

/* An event with the fields that all kinds have. */
static struct vr_event event_of(struct vr_pool *pool, enum vr_event_kind kind) {
    return (struct vr_event){
        .source = pool,
        .kind = kind,
        .pool = pool->object.handle,
        .device = pool->device->object.handle,
        .thread = vr_os_thread_number(),
        .pool_name = pool->name,
    };
}

static bool is_wanted(struct vr_pool *pool) {
    struct vram_limits device, limits;
    struct vr_ledger *ledger = vr_ledger_of(pool->device);
    struct vr_capacity capacity = vr_capacity_of(pool->device);
    vr_mutex_lock(&ledger->lock);
    struct vram_limits above = ledger->limits, own = pool->limits;
    vr_mutex_unlock(&ledger->lock);
    own.tracking = pool->flags & VRAM_POOL_TRACKED ? VRAM_SWITCH_ON : own.tracking;
    vr_limits_resolve(&above, NULL, capacity, &device);
    vr_limits_resolve(&own, &device, capacity, &limits);
    return limits.tracking == VRAM_SWITCH_ON || vr_option_number(VR_OPTION_LEAKS) ||
           vr_option_number(VR_OPTION_LEAK_EXIT) || vr_log_enabled(VRAM_LOG_DEBUG) ||
           (vr_events_taken() && vr_option_number(VR_OPTION_TRACK_STACKS));
}

static void track_begin(struct vr_pool *pool) {
    struct vr_track_config config = {
        .pool = pool->object.handle,
        .device = pool->device->object.handle,
        .context = pool->device->context->object.handle,
        .group = (uintptr_t)pool->device->slot,
        .name = pool->name,
        .now = &pool->requested_now,
        .peak = &pool->requested_peak,
    };
    pool->stack_every = (uint32_t)vr_option_number(VR_OPTION_TRACK_STACKS);
    pool->track = vr_track_make(&config);
    if (pool->track) {
        vr_leaks_watch_exit();
    } else {
        vr_log(VRAM_LOG_WARN, "not enough memory to track the allocations of pool \"%s\"",
               pool->name);
    }
}

/* If there is no memory for the track, the pool works without: keeps (3). */
void vr_tracking_begin(struct vr_pool *pool) {
    struct vram_error error;
    if (!VR_TRACKER) {
        return;
    }
    vr_error_save(&error);
    if (is_wanted(pool)) {
        track_begin(pool);
    }
    vr_error_restore(&error);
    pool->traced = pool->track || pool->announced || pool->guard.by_stream || vr_events_taken();
    if (pool->traced && vr_events_wanted()) {
        struct vr_event event = event_of(pool, VR_EVENT_POOL_BEGIN);
        event.name = pool->name;
        vr_event_tell(&event);
    }
}

/* What is live in the pool: exactly, if it is tracked. */
static void event_total(struct vr_pool *pool, struct vr_event *event) {
    if (pool->track) {
        struct vr_track_totals totals;
        vr_track_totals_get(pool->track, &totals);
        event->bytes = totals.bytes;
        event->held = totals.held;
        event->elements = totals.count;
    } else {
        struct vram_pool_stats stats = {.size = sizeof stats};
        vr_stats_of_pool(pool, &stats);
        event->bytes = stats.requested_bytes;
        event->held = stats.allocated_bytes;
        event->elements = stats.live_blocks;
    }
}

void vr_tracking_end(struct vr_pool *pool) {
    if (vr_exchange(&pool->end_reported, true, VR_SEQ_CST)) {
        return;
    }
    if (pool->traced && vr_events_wanted()) {
        struct vr_event event = event_of(pool, VR_EVENT_POOL_END);
        event_total(pool, &event);
        event.name = pool->name;
        vr_event_tell(&event);
    }
    vr_leaks_of_pool(pool);
    if (pool->track) {
        vr_track_end(pool->track);
    }
}

/* --------------------------------------------------------------- the blocks */

static vram_addr address_of(const struct vr_block *block) {
    return vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block);
}

/* The memory kind of a block. One that fell back has an address record of its own. */
static uint32_t memory_of(const struct vr_block *block) {
    struct vr_address_info place;
    return vr_load(&block->held, VR_RELAXED) && vr_address_find(address_of(block), &place)
               ? (uint32_t)place.kind
               : VRAM_MEMORY_DEVICE;
}

void vr_tracking_prepare(struct vr_pool *pool, struct vr_request *request) {
    request->stack = vr_stack_sample(pool->stack_every);
    struct vr_site_key key = {
        .tag = vr_tag_name(request->tag), .queue = request->queue.handle, .stack = request->stack};
    struct vr_track_label label = {.name = request->name, .elements = request->elements};
    request->record = vr_track_prepare(pool->track, &key, &label);
}

uint64_t vr_tracking_alloc(struct vr_pool *pool, const struct vr_request *request,
                           struct vr_block *block) {
    if (!vr_pool_is_tracked(pool)) {
        return 0;
    }
    vr_store(&block->record, request->record, VR_RELAXED);
    return vr_track_commit(pool->track, request->record, address_of(block), request->size,
                           vr_load(&block->bytes, VR_RELAXED), memory_of(block));
}

/* Fills the event of an allocation, a free or a resize. Setting every field is cheaper than
   clearing them first. */
static inline void event_fill(struct vr_event *event, enum vr_event_kind kind, struct vr_pool *pool,
                              const struct vr_block *block, uint64_t queue,
                              const struct vr_track_brief *brief, const struct vr_tag *tag,
                              uint64_t bytes) {
    *event = (struct vr_event){
        .source = pool,
        .block = block,
        .kind = kind,
        .memory = memory_of(block),
        .time_ns = 0,
        .id = brief->id,
        .pool = pool->object.handle,
        .device = pool->device->object.handle,
        .queue = queue,
        .addr = address_of(block),
        .bytes = bytes,
        .held = vr_load(&block->bytes, VR_RELAXED),
        .before = 0,
        .elements = brief->elements,
        .thread = vr_os_thread_number(),
        .tag = vr_tag_name(tag),
        .name = NULL,
        .stack = brief->stack,
        .status = VRAM_OK,
        .pool_name = pool->name,
    };
    (void)vr_text_copy(event->label, sizeof event->label, brief->name);
}

bool vr_tracking_trace_hit(const struct vr_cache *cache, struct vr_block *block, uint64_t size,
                           const struct vr_tag *tag) {
    const struct vr_trace_block about = {.pool = cache->pool_handle,
                                         .queue = cache->queue.handle,
                                         .tag = vr_tag_name(tag),
                                         .addr = vr_load(&block->addr, VR_RELAXED),
                                         .bytes = size,
                                         .held = vr_load(&block->bytes, VR_RELAXED)};
    bool done = !vr_events_others_wanted() && vr_trace_quick_alloc(&about);
    vr_store(&block->traced_by, done ? (uint32_t)vr_os_thread_number() : 0, VR_RELAXED);
    return done;
}

/* traced_by is cleared: the block's next allocation may be traced in another way. */
bool vr_tracking_trace_free(const struct vr_cache *cache, struct vr_block *block) {
    uint32_t traced_by = vr_load(&block->traced_by, VR_RELAXED);
    const struct vr_trace_block about = {.pool = cache->pool_handle,
                                         .queue = cache->queue.handle,
                                         .addr = address_of(block),
                                         .bytes = vr_load(&block->requested, VR_RELAXED),
                                         .own = traced_by == (uint32_t)vr_os_thread_number()};
    vr_store(&block->traced_by, 0, VR_RELAXED);
    return !vr_events_others_wanted() && vr_trace_quick_free(&about);
}

void vr_tracking_notify(struct vr_pool *pool, const struct vr_request *request,
                        struct vr_block *block, uint64_t id) {
    struct vr_track_brief brief = {
        .id = id, .elements = request->elements, .stack = request->stack};
    struct vr_event event;
    char name[VR_TRACK_NAME];
    event_fill(&event, VR_EVENT_ALLOC, pool, block, request->queue.handle, &brief, request->tag,
               request->size);
    if (request->name) {
        (void)vr_text_copy(name, sizeof name, request->name);
        event.name = name[0] ? name : NULL;
    }
    vr_event_tell(&event);
    if (vr_load(&pool->end_reported, VR_SEQ_CST)) { /* keeps (4) */
        event.kind = VR_EVENT_FREE;
        event.name = NULL;
        vr_event_tell(&event);
    }
}

void vr_tracking_notify_hit(struct vr_cache *cache, struct vr_block *block, uint64_t size,
                            struct vr_tag *tag, uint64_t id) {
    struct vr_request request = {.size = size, .queue = cache->queue, .tag = tag};
    struct vr_pool *pool = cache->pool;
    uint64_t handle = cache->pool_handle;
    bool lives = vr_handle_try_ref(handle);
    vr_thread_leave(cache->thread);
    if (lives) {
        vr_tracking_notify(pool, &request, block, id);
        vr_handle_unpin(handle);
    }
}

void vr_tracking_refuse(struct vr_pool *pool, const struct vr_request *request,
                        vram_status status) {
    if (pool->track) {
        vr_track_drop(pool->track, request->record);
    }
    if (vr_events_wanted()) {
        struct vr_event event = event_of(pool, VR_EVENT_REFUSED);
        event.status = status;
        event.bytes = request->size;
        event.held = request->bytes;
        event.queue = request->queue.handle;
        event.elements = request->elements;
        event.tag = vr_tag_name(request->tag);
        event.name = request->name;
        event.stack = request->stack;
        vr_event_tell(&event);
    }
}

/* A refusal is rare: its stack is taken where stacks are at all, sampled or not. */
void vr_tracking_report(struct vr_pool *pool, const struct vr_request *request,
                        const struct vram_oom_report *report) {
    if (vr_events_wanted()) {
        struct vr_event event = event_of(pool, VR_EVENT_REPORT);
        event.report = report;
        event.stack = request->stack ? request->stack : pool->stack_every ? vr_stack_take() : 0;
        vr_event_tell(&event);
    }
}

bool vr_tracking_free(struct vr_pool *pool, struct vr_block *block, uint64_t queue,
                      struct vr_event *event) {
    struct vr_track_brief brief = {0};
    if (!vr_events_wanted()) {
        vr_tracking_remove(pool, block, NULL);
        return false;
    }
    vr_tracking_remove(pool, block, &brief);
    event_fill(event, VR_EVENT_FREE, pool, block, queue, &brief, vr_load(&block->tag, VR_RELAXED),
               vr_load(&block->requested, VR_RELAXED));
    return true;
}

bool vr_tracking_resize(struct vr_pool *pool, struct vr_block *block, struct vr_track_size before,
                        uint64_t queue, struct vr_event *event) {
    struct vr_track_size after = {vr_load(&block->requested, VR_RELAXED),
                                  vr_load(&block->bytes, VR_RELAXED)};
    struct vr_track_brief brief = {0};
    if (!vr_pool_is_watched(pool)) {
        return false;
    }
    if (pool->track) {
        vr_track_resize(pool->track, vr_load(&block->record, VR_RELAXED), before, after, &brief);
    }
    if (vr_events_wanted()) {
        event_fill(event, VR_EVENT_RESIZE, pool, block, queue, &brief,
                   vr_load(&block->tag, VR_RELAXED), after.requested);
        event->before = before.requested;
        return true;
    }
    return false;
}
