/* SPDX-License-Identifier: Apache-2.0 */
/* weight_spread.c: see weight_spread.h. */
#include "model/weight_spread.h"

/* Gives `part` its share of the total: as much as it has of what was counted. */
static uint64_t share_of(uint64_t part, uint64_t counted, uint64_t total, uint64_t *left) {
    uint64_t share = (uint64_t)((double)part / (double)counted * (double)total);
    share = share < *left ? share : *left;
    *left -= share;
    return share;
}

void vr_weight_spread(struct vram_model *model, uint64_t total) {
    uint64_t left = total, counted = model->weight_bytes;
    if (counted == 0) {
        model->input_bytes = model->output_bytes = model->other_bytes = 0;
        for (uint32_t i = 0; i < model->layer_count; i++) {
            model->layers[i] = (struct vram_model_layer){
                .weight_bytes = 1,
                .k_elements = model->layers[i].k_elements,
                .v_elements = model->layers[i].v_elements,
                .window = model->layers[i].window,
                .state_elements = model->layers[i].state_elements,
            };
        }
        counted = model->layer_count;
    }
    model->input_bytes = share_of(model->input_bytes, counted, total, &left);
    model->output_bytes = share_of(model->output_bytes, counted, total, &left);
    model->other_bytes = share_of(model->other_bytes, counted, total, &left);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct vram_model_layer *layer = &model->layers[i];
        uint64_t experts = layer->expert_bytes, before = layer->weight_bytes;
        layer->weight_bytes = share_of(before, counted, total, &left);
        uint64_t mine = layer->weight_bytes; /* of which the experts get their share */
        layer->expert_bytes = before ? share_of(experts, before, mine, &mine) : 0;
    }
    model->layers[model->layer_count - 1].weight_bytes += left;
    model->weight_bytes = total;
}
