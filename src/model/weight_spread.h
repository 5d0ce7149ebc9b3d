/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight_spread.h: the weights of a model of which only the sum is known.
 */
#ifndef VR_WEIGHT_SPREAD_H
#define VR_WEIGHT_SPREAD_H

#include "vram/model.h"

/* Makes the sum of the weights `total` bytes, which are below 2^63. Each part gets the share that
   it has of the weights counted so far; if none were, the layers share it evenly. */
void vr_weight_spread(struct vram_model *model, uint64_t total);

#endif
