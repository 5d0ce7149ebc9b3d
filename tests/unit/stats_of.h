/* SPDX-License-Identifier: Apache-2.0 */
/* stats_of.h: what a pool counts. */
#ifndef TEST_STATS_OF_H
#define TEST_STATS_OF_H

#include "unit/assert_ok.h"
#include "vram/pool.h"

static inline vram_pool_stats stats_of(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    return stats;
}

#endif
