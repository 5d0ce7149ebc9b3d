/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_stats_of.h: what a device counts of its transfers, by direction and route. */
#ifndef TEST_TRANSFER_STATS_OF_H
#define TEST_TRANSFER_STATS_OF_H

#include "unit/assert_ok.h"
#include "vram/transfer.h"

static inline vram_transfer_stats transfer_stats_of(vram_device *device,
                                                    vram_transfer_direction direction,
                                                    vram_transfer_route route) {
    vram_transfer_stats stats = {.size = sizeof stats};
    assert_ok(vram_transfer_stats_get(device, direction, route, &stats));
    return stats;
}

#endif
