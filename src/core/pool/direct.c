/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c: pools with pooling switched off (option `pool`), for staged roll-outs and to find out
 * whether a fault is the pool's or the program's.
 *
 * Such a pool has one segment per block, as large as the block in whole granules. The space never
 * hands out a segment twice. Pools with VRAM_POOL_SHAREABLE do the same with handles that they map,
 * so that what another process has seen of a handle is never a later block's. A freed block is
 * released to the driver once its queue has completed the work submitted before the free. The call
 * that frees it checks that, and so does every later call that allocates or frees. Statuses and
 * counters are those of any pool.
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
    vr_error_restore(&error); /* a release that the driver refuses is retried by a later call */
}
