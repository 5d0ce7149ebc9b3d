/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h: a model and the options to run it, checked once and estimated any number of times.
 */
#ifndef VR_LAYOUT_H
#define VR_LAYOUT_H

#include "model/cache_size.h"
#include "vram/model.h"

struct vr_layout {
    const struct vram_model *model;
    struct vram_estimate_options options; /* with defaults */
    struct vr_cache_types types;
    uint64_t token_bytes;
    uint64_t cells; /* tokens for which a sequence has memory; follows from options.context */
    bool split;     /* by the devices' shares */
    bool input_on_devices;
};

vram_status vr_layout_begin(struct vr_layout *layout, const struct vram_model *model,
                            const struct vram_estimate_options *options);

/* May be called again after options.context or options.layers were changed. Fails only with
   VRAM_ERR_OVERFLOW. */
vram_status vr_layout_estimate(struct vr_layout *layout, struct vram_estimate *estimate);

#endif
