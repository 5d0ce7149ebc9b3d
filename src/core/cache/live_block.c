/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_block.c: prepares a block that leaves its space for a cache or the program.
 */
#include "core/cache/drain.h"

#include <assert.h>

/* Returns `queue` if its own unfinished work may still use the memory, else VR_NO_QUEUE; keeps
   block.h (5). A deterministic pool does not check progress. Under the lock. */
static struct vr_queue_id home_of(struct vr_pool *pool, struct vr_queue_id queue) {
    struct vr_queue_state *queue_state =
        queue.handle ? vr_queue_state_find(&pool->queue_states, queue) : NULL;
    bool deterministic = pool->flags & VRAM_POOL_DETERMINISTIC;
    bool works = queue_state &&
                 (deterministic || !vr_queue_passed(queue_state->queue, queue_state->stamped));
    return works ? queue : VR_NO_QUEUE;
}

void vr_pool_leave_space(struct vr_pool *pool, struct vr_block *block, struct vr_queue_id queue) {
    assert(vr_block_is_free(block) && !block->uses); /* no owner yet: block.h (4) */
    block->home = home_of(pool, queue);
    block->freed = block->before = (struct vr_queue_stamp){{0}, 0};
    block->uses = NULL;
    block->pins = block->exports = 0;
    block->asleep = block->sealed = block->growing = false;
    block->part = (uint8_t)vr_part_of(vr_load(&block->bytes, VR_RELAXED));
    vr_store(&block->zone, 0, VR_RELAXED);
    vr_store(&block->traced_by, 0, VR_RELAXED);
    block->stateless = false;
    block->generation += VR_BLOCK_STATES + 1; /* keeps block.h (4) */
    vr_store(&block->held, false, VR_RELAXED);
    vr_store(&block->pool, pool->object.handle, VR_RELAXED);
    vr_store(&block->state, block->generation | VR_BLOCK_CACHED, VR_RELAXED);
    vr_block_table_insert(&pool->table, block); /* keeps pool_object.h (2) */
    vr_pool_out(pool, block);
}
