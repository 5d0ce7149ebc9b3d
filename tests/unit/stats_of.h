/* SPDX-License-Identifier: Apache-2.0 */
/* stats_of.h: what pools and devices count, and what they say of a live block. */
#ifndef TEST_STATS_OF_H
#define TEST_STATS_OF_H

#include "unit/assert_ok.h"
#include "vram/pool.h"
#include "vram/transfer.h"

static inline vram_pool_stats stats_of(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    return stats;
}

static inline vram_block_info block_info_of(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info;
}

static inline vram_transfer_stats transfer_stats_of(vram_device *device,
                                                    vram_transfer_direction direction,
                                                    vram_transfer_route route) {
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(vram_transfer_stats_get(device, direction, route, &stats));
    return stats;
}

#endif
