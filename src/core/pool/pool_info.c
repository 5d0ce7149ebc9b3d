/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_info.c: uses by other queues, pins, and blocks prepared ahead of time.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"
#include "core/pressure/trim.h"
#include "core/tracking/pool_tracking.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "device/quiesce.h"

/* --------------------------------------------------------------- uses, pins */

/* Adds a use to a live block, one per queue. Those of queues that have ended go, so that the list
   does not grow with every queue that a long-lived block has seen. Under the lock. */
static vram_status add_use(struct vr_pool *pool, struct vr_block *block, struct vr_queue_id queue) {
    for (struct vr_uses **at = &block->uses; *at;) {
        struct vr_uses *use = *at;
        if (vr_queue_id_same(use->stamp.queue, queue)) {
            return VRAM_OK;
        }
        if (vr_queue_state_find(&pool->queue_states, use->stamp.queue)) {
            at = &use->next;
        } else {
            *at = use->next;
            vr_mem_free(use);
        }
    }
    struct vr_uses *use = vr_mem_alloc(1, sizeof *use, vr_operation());
    if (use) {
        *use = (struct vr_uses){.next = block->uses, .stamp = {.queue = queue}};
        block->uses = use;
    }
    vr_block_note_held(block);
    return use ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

/* Notes on a live block that `queue` uses it until it is freed. Where there is no live block
   nothing is noted, not even the queue: the address may be in a pool that is being made. */
static vram_status note_use(struct vr_pool *pool, struct vr_queue_object *queue, vram_addr addr) {
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_pool_live_block(pool, addr);
    vram_status status = block ? vr_pool_ensure_queue(pool, queue) : VRAM_ERR_INVALID;
    if (status == VRAM_OK) {
        status = add_use(pool, block, (struct vr_queue_id){queue->object.handle});
    }
    vr_mutex_unlock(&pool->lock);
    /* It has ended in the meantime: nothing is left to wait for. */
    return status == VRAM_ERR_STALE ? VRAM_OK : status;
}

vram_status vr_pool_use(vram_addr addr, vram_queue *handle) {
    void *queue;
    vram_status status = vr_queue_enter(handle, &queue);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool;
    status = vr_pool_enter_at(addr, &pool);
    if (status == VRAM_OK) {
        status = note_use(pool, queue, addr);
        vr_leave(pool);
    }
    vr_leave(queue);
    return status;
}

vram_status vram_use(vram_addr addr, vram_queue *queue) {
    VR_CALL;
    return vr_pool_use(addr, queue);
}

/* Adds or removes a pin of a live block, or of one that was freed while pinned. */
static vram_status change_pins(struct vr_pool *pool, vram_addr addr, bool add) {
    vram_status status = VRAM_ERR_INVALID;
    vr_mutex_lock(&pool->lock);
    struct vr_block *block = vr_guard_find(pool, addr);
    bool asleep = block && add && block->asleep;
    if (asleep) {
        status = VRAM_ERR_BUSY;
    } else if (block && add && vr_block_is_live(block)) {
        block->pins++;
        vr_block_note_held(block);
        status = VRAM_OK;
    } else if (block && !add && block->pins > block->exports) {
        block->pins--;
        vr_block_note_held(block);
        vr_pool_settle(pool);
        status = VRAM_OK;
    }
    vr_mutex_unlock(&pool->lock);
    if (asleep) {
        vr_fail(status, "the block at 0x%llx is asleep; call vram_pool_wake first",
                (unsigned long long)addr);
    } else if (status != VRAM_OK && add) {
        status = vr_pool_no_block(pool, addr);
    } else if (status != VRAM_OK) {
        vr_fail(status, "0x%llx is not the start of a pinned block", (unsigned long long)addr);
    }
    return status;
}

static vram_status change_pins_at(vram_addr addr, bool add) {
    struct vr_pool *pool;
    vram_status status = vr_pool_enter_at(addr, &pool);
    if (status == VRAM_OK) {
        status = change_pins(pool, addr, add);
        vr_leave(pool);
    }
    return status;
}

vram_status vr_pin(vram_addr addr) {
    VR_OPERATION("vram_pin");
    return change_pins_at(addr, true);
}

vram_status vram_pin(vram_addr addr) {
    return vr_pin(addr);
}

vram_status vr_unpin(vram_addr addr) {
    VR_OPERATION("vram_unpin");
    return change_pins_at(addr, false);
}

vram_status vram_unpin(vram_addr addr) {
    return vr_unpin(addr);
}

/* ------------------------------------------------------------ ahead of time */

/* Whether all blocks together could ever be live on the pool's device. */
static vram_status could_hold(const struct vr_pool *pool, uint64_t bytes, uint32_t count) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t all;
    if (vr_pool_on_device(pool) && memory.known &&
        (!vr_mul(bytes, count, &all) || all > memory.value)) {
        return vr_fail(VRAM_ERR_DEVICE_MEMORY,
                       "%u blocks of %llu bytes exceed the device's memory of %llu bytes", count,
                       (unsigned long long)bytes, (unsigned long long)memory.value);
    }
    return VRAM_OK;
}

/* Supplies blocks and returns them to the pool. They are neither handed out nor counted. */
static vram_status warm_blocks(struct vr_pool *pool, const struct vr_request *request,
                               uint32_t count) {
    uint64_t before = vr_pool_reserved(pool);
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
    VR_CALL;
    struct vr_request request = {
        .size = size, .queue = vr_queue_id_of(queue_handle), .flags = VR_REQUEST_AHEAD};
    struct vr_pool *pool;
    if (!count) {
        return vr_fail(VRAM_ERR_INVALID, "the number of blocks is 0; pass at least 1");
    }
    if (!vr_block_bytes(size, &request.bytes)) {
        return vr_fail_size(size);
    }
    vram_status status = vr_pool_enter(handle, queue_handle, &pool, &request.queue_object);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_pool_bucket(pool, &request.bytes) ? could_hold(pool, request.bytes, count)
                                                  : vr_fail_size(size);
    if (status == VRAM_OK) {
        status = warm_blocks(pool, &request, count);
        vr_pressure_on_miss(pool);
    }
    vr_pool_leave(pool, request.queue_object);
    return status;
}
