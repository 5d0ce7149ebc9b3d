/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_info.c: look-ups, uses by other queues, pins, wishes of requests, and preparing ahead.
 */
#include "core/limit/limit.h"
#include "core/witness/witness.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "device/stillness.h"

/* Enters the pool whose memory `addr` is. One that ended meanwhile has none there any more. */
static vram_status enter_pool_of(vram_addr addr, const char *operation, struct vr_pool **pool) {
    uint64_t handle = vr_address_pool(addr);
    void *entered;
    vram_status status =
        handle ? vr_enter(VR_KIND_POOL, (void *)(uintptr_t)handle, operation, &entered)
               : VRAM_ERR_STALE;
    if (status == VRAM_ERR_STALE) {
        return vr_fail(VRAM_ERR_INVALID, operation, "no pool has memory at 0x%llx",
                       (unsigned long long)addr);
    }
    if (status == VRAM_OK) {
        *pool = entered;
    }
    return status;
}

static vram_status no_block(vram_addr addr, const char *operation) {
    return vr_fail(VRAM_ERR_INVALID, operation, "0x%llx is not the start of a live block",
                   (unsigned long long)addr);
}

/* The live block that starts at `addr`; NULL with the error set. Under the lock. */
static struct vr_block *live_block(struct vr_pool *pool, vram_addr addr, const char *operation) {
    struct vr_block *block = vr_guard_find(pool, addr);
    if (!block || !vr_block_is_live(block)) {
        no_block(addr, operation);
        return NULL;
    }
    return block;
}

/* What the block's record says, if it stood for the live block of the pool at `addr` all the while: keeps
   block.h (4). */
static bool read_block(const struct vr_pool *pool, const struct vr_block *block, vram_addr addr,
                       struct vram_block_info *info, uint64_t *front) {
    uint32_t seen = block ? vr_load(&block->state, VR_ACQUIRE) : VR_BLOCK_FREE;
    if ((seen & VR_BLOCK_STATES) != VR_BLOCK_LIVE ||
        (vr_load(&block->pool, VR_ACQUIRE) & ~(uint64_t)VR_POOL_OWNED) != pool->object.handle) {
        return false;
    }
    *front = vr_guard_front(block);
    info->addr = vr_load(&block->addr, VR_ACQUIRE) + *front;
    info->requested_bytes = vr_load(&block->requested, VR_ACQUIRE);
    info->held_bytes = vr_load(&block->bytes, VR_ACQUIRE);
    info->tag = vr_tag_name(vr_load(&block->tag, VR_ACQUIRE));
    return info->addr == addr && vr_load(&block->state, VR_ACQUIRE) == seen;
}

/* Inside its caches a thread keeps the table from being freed (block_table.h). One that has none, or is
   kept out of them at this moment, takes the lock. */
static bool look_up(struct vr_pool *pool, vram_addr addr, struct vram_block_info *info,
                    uint64_t *front) {
    struct vr_thread_state *thread = vr_thread_current;
    bool inside = thread && vr_thread_enter(thread);
    if (!inside) {
        vr_mutex_lock(&pool->lock);
    }
    struct vr_block *block = vr_guard_find(pool, addr);
    bool found = read_block(pool, block, addr, info, front);
    if (inside) {
        vr_thread_leave(thread);
    } else {
        vr_mutex_unlock(&pool->lock);
    }
    if (!found && block &&
        inside) { /* it may be resized at this moment, which is done under the lock */
        vr_mutex_lock(&pool->lock);
        found = read_block(pool, vr_guard_find(pool, addr), addr, info, front);
        vr_mutex_unlock(&pool->lock);
    }
    return found;
}

/* Moves the mark on the live block that starts at `addr`. Inside the thread's caches or under the lock. */
static bool move_mark(struct vr_pool *pool, vram_addr addr, bool owned) {
    struct vr_block *block = vr_guard_find(pool, addr);
    uint64_t plain = pool->object.handle, marked = plain | VR_POOL_OWNED;
    uint64_t from = owned ? plain : marked;
    return block && vr_block_is_live(block) &&
           vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block) == addr &&
           vr_cas(&block->pool, &from, owned ? marked : plain, VR_ACQ_REL);
}

bool vr_pool_own(uint64_t handle, vram_addr addr, bool owned) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)handle);
    struct vr_thread_state *thread = vr_thread_current;
    bool done = false;
    if (!pool) {
        return false;
    }
    if (thread && vr_thread_enter(thread)) {
        done = move_mark(pool, addr, owned);
        vr_thread_leave(thread);
    }
    if (!done) { /* it may be resized at this moment, which is done under the lock */
        vr_mutex_lock(&pool->lock);
        done = move_mark(pool, addr, owned);
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return done;
}

/* A thread that has no state yet gets one here, so that later look-ups take no lock. Every copy asks. The zone in
   front of a block is part of what it holds, and does not lie behind the program's address. */
uint64_t vr_pool_extent(uint64_t handle, vram_addr addr) {
    struct vram_block_info info;
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)handle);
    if (!pool) {
        return 0;
    }
    if (!vr_thread_current) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_thread_get("vram_native");
        vr_error_restore(&error);
    }
    uint64_t front, bytes = look_up(pool, addr, &info, &front) ? info.held_bytes - front : 0;
    vr_leave(pool);
    return bytes;
}

vram_status vram_block_info_get(vram_addr addr, vram_block_info *info) {
    static const char operation[] = "vram_block_info_get";
    struct vram_block_info full = {.size = sizeof full};
    struct vr_place place;
    struct vr_pool *pool;
    uint64_t front;
    vram_status status = enter_pool_of(addr, operation, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    full.pool = (vram_pool *)(uintptr_t)pool->object.handle;
    full.kind = vr_address_find(addr, &place) ? place.kind : VRAM_MEMORY_DEVICE;
    status = look_up(pool, addr, &full, &front)
                 ? vr_info_give(info, &full, sizeof full, sizeof full, operation)
                 : no_block(addr, operation);
    vr_leave(pool);
    return status;
}

vram_status vr_pool_record_of(vram_addr addr, const char *operation, struct vr_pool **pool,
                              uint32_t *record) {
    struct vr_pool *entered;
    vram_status status = enter_pool_of(addr, operation, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&entered->lock);
    struct vr_block *block = live_block(entered, addr, operation);
    *record = block ? vr_load(&block->record, VR_RELAXED) : 0;
    vr_mutex_unlock(&entered->lock);
    if (!block) {
        vr_leave(entered);
        return VRAM_ERR_INVALID;
    }
    *pool = entered;
    return VRAM_OK;
}

/* --------------------------------------------------------------- uses, pins */

/* Notes on a live block that `queue` uses it until the point just marked, or, with value 0, until its next
   one, whoever will mark that. */
static vram_status note_use(struct vr_pool *pool, struct vr_queue_object *queue, vram_addr addr,
                            vram_point point, const char *operation) {
    struct vr_queue_id id = {queue->object.handle};
    struct vr_uses *use = vr_mem_alloc(1, sizeof *use, operation);
    if (!use) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_lock(&pool->lock);
    vram_status status = vr_pool_know(pool, queue);
    bool ended = status == VRAM_ERR_STALE; /* meanwhile: nothing is left to wait for */
    if (status == VRAM_OK && !point.value) {
        point.value = vr_lane_stamp(&pool->lanes, id).value;
    }
    struct vr_block *block = status == VRAM_OK || ended ? live_block(pool, addr, operation) : NULL;
    if (block && ended) {
        vr_mutex_unlock(&pool->lock);
        vr_mem_free(use);
        return VRAM_OK;
    }
    for (struct vr_uses *old = block ? block->uses : NULL; old; old = old->next) {
        if (vr_queue_id_same(old->stamp.queue, id)) { /* one per queue: the latest counts */
            old->stamp.value = point.value > old->stamp.value ? point.value : old->stamp.value;
            vr_mutex_unlock(&pool->lock);
            vr_mem_free(use);
            return VRAM_OK;
        }
    }
    if (block) {
        use->stamp = (struct vr_queue_stamp){id, point.value};
        use->next = block->uses;
        block->uses = use;
        vr_block_note_held(block);
    } else {
        status = status == VRAM_OK || ended ? VRAM_ERR_INVALID : status;
    }
    vr_mutex_unlock(&pool->lock);
    if (!block) {
        vr_mem_free(use);
    }
    return status;
}

/* No marker may go into a capture: the block then waits for one that comes after it. */
static vram_status mark_use(struct vr_pool *pool, vram_queue *queue, vram_point *point) {
    struct vram_error error;
    vr_error_save(&error);
    vr_fetch_add(&pool->calls[VR_CALL_MARK], 1, VR_RELAXED);
    vram_status status = vram_queue_mark(queue, point);
    if (status != VRAM_ERR_CAPTURE) {
        return status;
    }
    vr_error_restore(&error);
    point->value = 0;
    return VRAM_OK;
}

vram_status vr_pool_use(vram_addr addr, vram_queue *handle, const char *operation,
                        vram_point *point) {
    void *queue;
    vram_status status = vr_queue_enter(handle, operation, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool;
    status = enter_pool_of(addr, operation, &pool);
    if (status == VRAM_OK) {
        status = mark_use(pool, handle, point);
        if (status == VRAM_OK) {
            status = note_use(pool, queue, addr, *point, operation);
        }
        vr_leave(pool);
    }
    vr_leave(queue);
    return status;
}

vram_status vram_use(vram_addr addr, vram_queue *queue) {
    vram_point point;
    return vr_pool_use(addr, queue, "vram_use", &point);
}

/* Adds to the pins of a live block, or of one that was freed while pinned. */
static vram_status change_pins(vram_addr addr, bool add, const char *operation) {
    struct vr_pool *pool;
    vram_status status = enter_pool_of(addr, operation, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    status = VRAM_ERR_INVALID;
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_guard_find(pool, addr);
    bool asleep = block && add && block->asleep;
    if (asleep) {
        status = VRAM_ERR_BUSY;
    } else if (block && add && vr_block_is_live(block)) {
        block->pins++;
        vr_block_note_held(block);
        status = VRAM_OK;
    } else if (block && !add && block->pins) {
        block->pins--;
        vr_block_note_held(block);
        vr_pool_settle(pool);
        status = VRAM_OK;
    }
    vr_mutex_unlock(&pool->lock);
    if (asleep) {
        vr_fail(status, operation, "the block at 0x%llx is asleep; vram_pool_wake comes first",
                (unsigned long long)addr);
    } else if (status != VRAM_OK) {
        vr_fail(status, operation, "0x%llx is not the start of a %s block",
                (unsigned long long)addr, add ? "live" : "pinned");
    }
    vr_leave(pool);
    return status;
}

vram_status vram_pin(vram_addr addr) {
    return change_pins(addr, true, "vram_pin");
}

vram_status vram_unpin(vram_addr addr) {
    return change_pins(addr, false, "vram_unpin");
}

/* ----------------------------------------------------------------- wishes */

vram_status vr_request_read(const struct vr_pool *pool, const vram_alloc_options *options,
                            struct vr_request *request) {
    static const char operation[] = "vram_alloc_with";
    struct vram_alloc_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options, operation);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.alignment && (!vr_is_power_of_two(taken.alignment) || taken.alignment < 256 ||
                            taken.alignment > pool->granule)) {
        return vr_fail(VRAM_ERR_INVALID, operation,
                       "the alignment is a power of two from 256 to %llu, not %llu",
                       (unsigned long long)pool->granule, (unsigned long long)taken.alignment);
    }
    if (taken.flags & ~(uint32_t)(VRAM_ALLOC_CACHED_ONLY | VRAM_ALLOC_NO_WAIT)) {
        return vr_fail(VRAM_ERR_INVALID, operation, "there are no such flags: 0x%x", taken.flags);
    }
    request->align = taken.alignment > VR_UNIT ? taken.alignment : 0;
    request->flags = taken.flags;
    vr_request_wish_room(pool, taken.room_bytes, request);
    request->name = taken.name;
    request->elements = taken.elements;
    if (taken.tag && *taken.tag) {
        return vr_tag_get(vr_ledger_of(pool->device), taken.tag, operation, &request->tag);
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------ ahead of time */

static uint64_t reserved_of(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    uint64_t bytes = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                     vr_space_reserved(pool->spaces[VR_PART_LARGE]);
    vr_mutex_unlock(&pool->lock);
    return bytes;
}

/* Leaves to one part what the other does not use up of `keep_bytes`. */
static vram_status shrink(struct vr_pool *pool, int part, uint64_t keep_bytes) {
    vr_mutex_lock(&pool->lock);
    uint64_t other = vr_space_reserved(pool->spaces[!part]);
    vr_mutex_unlock(&pool->lock);
    return vr_pool_shrink(pool, pool->spaces[part], keep_bytes > other ? keep_bytes - other : 0);
}

vram_status vr_pool_shrink_to(struct vr_pool *pool, uint64_t keep_bytes) {
    vram_status status = VRAM_OK;
    for (int part = VR_PART_COUNT; part-- > 0 && status == VRAM_OK;) {
        status = shrink(pool, part, keep_bytes);
    }
    return status;
}

static bool driver_waits(const struct vr_pool *pool) {
    return pool->kind == VRAM_MEMORY_PINNED && pool->device->base.pageable_waits &&
           !(pool->flags & VRAM_POOL_DETERMINISTIC);
}

bool vr_pool_calm_begin(struct vr_pool *pool) {
    return !driver_waits(pool) || vr_still_begin(pool->device);
}

void vr_pool_calm_end(struct vr_pool *pool) {
    if (driver_waits(pool)) {
        vr_still_end(pool->device);
    }
}

vram_status vr_pool_trim_to(struct vr_pool *pool, uint64_t keep_bytes) {
    vram_status status = VRAM_OK;
    (void)vr_guard_release(pool);
    vr_pool_drain(pool);
    if (pool->flags & VRAM_POOL_DETERMINISTIC) {
        status = vr_pool_finish(pool);
    } else {
        vr_pool_look(pool, true);
    }
    if (status == VRAM_OK && vr_pool_calm_begin(pool)) {
        status = vr_pool_shrink_to(pool, keep_bytes);
        vr_pool_calm_end(pool);
    }
    return status;
}

/* Whether all blocks together could ever be live on the pool's device. */
static vram_status could_hold(const struct vr_pool *pool, uint64_t bytes, uint32_t count,
                              const char *operation) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t all;
    if (vr_pool_on_device(pool) && memory.known &&
        (!vr_mul(bytes, count, &all) || all > memory.value)) {
        return vr_fail(VRAM_ERR_DEVICE_MEMORY, operation,
                       "%u blocks of %llu bytes are more than the device's %llu bytes", count,
                       (unsigned long long)bytes, (unsigned long long)memory.value);
    }
    return VRAM_OK;
}

/* Blocks that nobody asked for, and that nobody counts: they are supplied, and go back. */
static vram_status warm(struct vr_pool *pool, const struct vr_request *request, uint32_t count) {
    uint64_t before = reserved_of(pool);
    struct vr_block *list = NULL, *block;
    uint32_t extra = 0;
    vram_status status = VRAM_OK;
    while (count-- > 0 &&
           (status = vr_pool_supply(pool, request, &block, NULL, &extra)) == VRAM_OK) {
        block->next = list;
        list = block;
    }
    struct vram_error error;
    vr_error_save(&error);
    while ((block = list)) {
        list = block->next;
        vr_pool_return(pool, request->queue, &block, 1);
    }
    if (status != VRAM_OK) {
        (void)vr_pool_trim_to(pool, before); /* all or nothing */
    }
    vr_error_restore(&error);
    return status;
}

vram_status vram_pool_warm(vram_pool *handle, uint64_t size, uint32_t count,
                           vram_queue *queue_handle) {
    static const char operation[] = "vram_pool_warm";
    struct vr_request request = {
        .size = size, .queue = vr_queue_id_of(queue_handle), .flags = VR_REQUEST_AHEAD};
    struct vr_pool *pool;
    if (!count) {
        return vr_fail(VRAM_ERR_INVALID, operation, "0 blocks were asked for");
    }
    if (!vr_block_bytes(size, &request.bytes)) {
        return vr_fail(VRAM_ERR_OVERFLOW, operation, "%llu bytes cannot be rounded up",
                       (unsigned long long)size);
    }
    vram_status status =
        vr_pool_enter(handle, queue_handle, operation, &pool, &request.queue_object);
    if (status != VRAM_OK) {
        return status;
    }
    status = could_hold(pool, request.bytes, count, operation);
    if (status == VRAM_OK) {
        status = warm(pool, &request, count);
        vr_pressure_pass(pool);
    }
    vr_pool_leave(pool, request.queue_object);
    return status;
}

vram_status vram_pool_trim(vram_pool *handle, uint64_t keep_bytes) {
    void *pool;
    uint64_t released;
    vram_status status = vr_enter(VR_KIND_POOL, handle, "vram_pool_trim", &pool);
    if (status != VRAM_OK) {
        return status;
    }
    bool damaged = vr_guard_inspect(pool);
    struct vram_error error;
    vr_error_save(&error);
    status = vr_pool_trim(pool, keep_bytes, &released);
    if (status == VRAM_OK && damaged) {
        vr_error_restore(&error);
        status = VRAM_ERR_CORRUPT;
    }
    vr_pressure_note(pool, false);
    vr_leave(pool);
    return status;
}
