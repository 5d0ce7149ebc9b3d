/* SPDX-License-Identifier: Apache-2.0 */
/* whole_device.h: for tests that fill small devices to the last byte: by default pools leave
   some. */
#ifndef WHOLE_DEVICE_H
#define WHOLE_DEVICE_H

#include "vram/limits.h"

static inline void whole_device(vram_device *device) {
    const vram_limits limits = {
        .size = sizeof limits, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    assert_int_equal(vram_device_limits_set(device, &limits), VRAM_OK);
}

#endif
