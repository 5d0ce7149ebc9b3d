/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: vram_status_name, _text and _is_exhausted for the library's own code. */
#ifndef VR_STATUS_H
#define VR_STATUS_H

#include "vram/base.h"

const char *vr_status_name(vram_status status);
const char *vr_status_text(vram_status status);

/* Whether memory of any kind ran out: freeing some may help. */
static inline bool vr_status_is_exhausted(vram_status status) {
    return status == VRAM_ERR_HOST_MEMORY || status == VRAM_ERR_DEVICE_MEMORY ||
           status == VRAM_ERR_LIMIT || status == VRAM_ERR_FRAGMENTED;
}

#endif
