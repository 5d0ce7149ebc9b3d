/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_fit.c: the largest context and the most layers that fit.
 */
#include "base/error.h"
#include "base/struct_tail.h"
#include "model/layout.h"

enum { STEP = 256 }; /* tokens */

#define CONTEXT_MOST (UINT64_C(1) << 24) /* if the model does not say */

/* A sum that does not fit in 64 bits does not fit in memory. Keeps the error record. */
static bool layout_fits(struct vr_layout *layout) {
    struct vram_estimate estimate;
    struct vram_error error;
    vr_error_save(&error);
    bool fits = vr_layout_estimate(layout, &estimate) == VRAM_OK && estimate.fits;
    vr_error_restore(&error);
    return fits;
}

static bool fits_context(const struct vr_layout *asked, uint64_t context) {
    struct vr_layout layout = *asked;
    layout.options.context = context;
    return context >= layout.options.sequences && layout_fits(&layout);
}

/* A larger context never needs less: bisection finds the limit. */
static uint64_t largest_context(const struct vr_layout *layout) {
    uint64_t most = layout->model->context_most ? layout->model->context_most : CONTEXT_MOST;
    uint64_t low = 0, high = most / STEP;
    if (fits_context(layout, most)) {
        return most;
    }
    while (low < high) { /* low steps fit, or are 0; more than high do not */
        uint64_t middle = low + (high - low + 1) / 2;
        if (fits_context(layout, middle * STEP)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low * STEP;
}

/* Tries from the largest number down: a tied output that moves to a device needs a copy, so memory
   does not grow evenly with the layers. */
static struct vram_value most_layers(const struct vr_layout *asked) {
    struct vr_layout layout = *asked;
    uint64_t most = layout.options.device_count ? layout.model->layer_count + UINT64_C(1) : 0;
    for (uint64_t layers = most + 1; layers > 0; layers--) {
        layout.options.layers = (struct vram_value){layers - 1, true};
        if (layout_fits(&layout)) {
            return layout.options.layers;
        }
    }
    return (struct vram_value){0, false};
}

vram_status vram_fit_get(const vram_model *model, const vram_estimate_options *options,
                         vram_fit *fit) {
    VR_CALL;
    struct vr_layout layout;
    vram_status status = vr_layout_begin(&layout, model, options);
    if (status != VRAM_OK) {
        return status;
    }
    struct vram_fit full = {
        .size = sizeof full, .context = largest_context(&layout), .layers = most_layers(&layout)};
    return vr_info_give(fit, &full, sizeof full, sizeof full);
}
