/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c: pools with pooling switched off (option `pool`), for staged roll-outs and for finding
 * out whose mistake it is.
 *
 * Such a pool runs on segments, one for each block, as large as the block in whole granules; the
 * space never hands one out twice. A freed block is given back to the driver when its queue has
 * come that far, which is looked at by the call that frees it and by every later one that allocates
 * or frees. Statuses and counters are those of any pool.
 */
#include "core/cache/drain.h"
#include "core/cache/stamp.h"
#include "core/pool/pool_calls.h"
#include "core/pressure/trim.h"

#include "base/error.h"

void vr_pool_flush(struct vr_pool *pool) {
    struct vram_error error;
    if (!pool->direct) {
        return;
    }
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    vr_pool_settle(pool);
    vr_mutex_unlock(&pool->lock);
    (void)vr_pool_poll(pool, false);
    (void)vr_pool_shrink_to(pool, 0);
    vr_error_restore(&error); /* what the driver does not take now is tried again */
}
