/* SPDX-License-Identifier: Apache-2.0 */
/* block_info_of.h: what a pool says of a live block. */
#ifndef TESTS_BLOCK_INFO_OF_H
#define TESTS_BLOCK_INFO_OF_H

#include "unit/device_world.h"
#include "vram/pool.h"

static inline vram_block_info block_info_of(vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    assert_ok(vram_block_info_get(addr, &info));
    return info;
}

#endif
