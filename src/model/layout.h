/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: a model and how it is to be run, checked once and estimated as often as one likes.
 */
#ifndef VR_LAYOUT_H
#define VR_LAYOUT_H

#include "model/cache_size.h"
#include "vram/model.h"

struct vr_layout {
    const struct vram_model *model;
    struct vram_estimate_options options; /* defaults filled in */
    struct vr_cache_types types;
    uint64_t token_bytes;
    bool input_on_devices;
};

vram_status vr_layout_begin(struct vr_layout *layout, const struct vram_model *model,
                            const struct vram_estimate_options *options);

/* Once more after options.context or options.layers were changed. VRAM_ERR_OVERFLOW alone. */
vram_status vr_layout_estimate(struct vr_layout *layout, struct vram_estimate *estimate);

#endif
