/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_select.c: a backend and a device for a model, in the order of the backends.
 *
 * The bytes needed follow from the formula, or are the caller's; vram_device_select finds a device
 * with so much memory.
 */
#include "vram/model.h"

#include "base/error.h"
#include "base/struct_tail.h"

static vram_status bytes_needed(const struct vram_model_select_options *options, uint64_t *bytes) {
    struct vram_inference_memory memory = {.size = sizeof memory};
    if ((options->shape != NULL) == (options->bytes != 0)) {
        return vr_fail(VRAM_ERR_INVALID,
                       options->shape ? "both a shape and bytes are given; give one of them"
                                      : "neither a shape nor bytes are given; give one of them");
    }
    if (!options->shape) {
        *bytes = options->bytes;
        return VRAM_OK;
    }
    vram_status status = vram_inference_estimate(options->shape, &memory);
    if (status == VRAM_OK) {
        *bytes = memory.total_bytes;
    }
    return status;
}

vram_status vram_model_select(vram_context *context, const vram_model_select_options *options,
                              vram_model_place *place) {
    VR_CALL;
    struct vram_model_select_options taken;
    struct vram_select_options wanted = {.size = sizeof wanted};
    struct vram_device_info info = {.size = sizeof info};
    uint32_t index;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && !place) {
        status = vr_fail(VRAM_ERR_INVALID, "the place to fill is NULL");
    }
    if (status != VRAM_OK || (status = bytes_needed(&taken, &wanted.bytes)) != VRAM_OK) {
        return status;
    }
    wanted.order = taken.order;
    if ((status = vram_device_select(context, &wanted, &index)) != VRAM_OK ||
        (status = vram_device_info_get(context, index, &info)) != VRAM_OK) {
        return status;
    }
    struct vram_model_place full = {.size = sizeof full,
                                    .backend = info.backend,
                                    .backend_index = info.backend_index,
                                    .device = index,
                                    .bytes = wanted.bytes};
    return vr_info_give(place, &full, sizeof full, sizeof full);
}
