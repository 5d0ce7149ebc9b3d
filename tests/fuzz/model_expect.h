/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_expect.h: what holds of every model that was read, whatever the file was.
 */
#ifndef TEST_MODEL_EXPECT_H
#define TEST_MODEL_EXPECT_H

#include "fuzz.h"

#include "base/memory.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <string.h>

/* A refusal has a text, one line of it. */
static inline void expect_refusal(vram_status status) {
    const vram_error *error = vram_error_get();
    FUZZ_EXPECT(error->status == status);
    FUZZ_EXPECT(error->text[0] && !strchr(error->text, '\n'));
}

static inline void expect_estimate(const vram_model *model, uint64_t context, uint32_t devices) {
    const vram_estimate_device two[] = {{.free_bytes = UINT64_C(1) << 34},
                                        {.free_bytes = UINT64_C(1) << 30}};
    vram_estimate_options options = {.size = sizeof options,
                                     .context = context,
                                     .sequences = 2,
                                     .devices = two,
                                     .device_count = devices};
    vram_estimate estimate = {.size = sizeof estimate};
    vram_status status = vram_estimate_get(model, &options, &estimate);
    if (status != VRAM_OK) {
        FUZZ_EXPECT(status == VRAM_ERR_OVERFLOW || status == VRAM_ERR_UNSUPPORTED ||
                    status == VRAM_ERR_INVALID);
        expect_refusal(status);
        return;
    }
    uint32_t layers = estimate.host.layers;
    uint64_t total = estimate.host.total_bytes;
    for (uint32_t i = 0; i < devices; i++) {
        layers += estimate.devices[i].layers;
        total += estimate.devices[i].total_bytes;
    }
    FUZZ_EXPECT(layers == model->layer_count);
    FUZZ_EXPECT(total == estimate.total_bytes);
    FUZZ_EXPECT(estimate.weight_bytes >= model->weight_bytes);
}

static inline void expect_model(const vram_model *model) {
    uint64_t bytes = model->input_bytes + model->output_bytes + model->other_bytes;
    FUZZ_EXPECT(model->layer_count <= VRAM_MODEL_LAYERS_MAX);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        bytes += model->layers[i].weight_bytes;
        FUZZ_EXPECT(model->layers[i].expert_bytes <= model->layers[i].weight_bytes);
    }
    FUZZ_EXPECT(bytes == model->weight_bytes);
    FUZZ_EXPECT(model->active_parameters <= model->parameters);
    FUZZ_EXPECT(memchr(model->architecture, 0, sizeof model->architecture));
    FUZZ_EXPECT(memchr(model->name, 0, sizeof model->name));
    expect_estimate(model, 512, 2);
    expect_estimate(model, UINT64_C(1) << 40, 1);
    expect_estimate(model, VRAM_CONTEXT_MOST, 0);
    FUZZ_EXPECT(vr_mem_live_bytes() == 0);
}

#endif
