/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_layers.c: what each layer has. A list in the config counts most, then its rule for every
 * n-th layer, then that of the family.
 */
#include "model/config_parts.h"

/* ---------------------------------------------------------------- attention */

static enum vr_attention attention_of(const struct vr_config *config,
                                      const struct vr_family *family, uint32_t layer) {
    const struct vr_config_part *text = &config->text;
    uint64_t full_every = vr_config_get(text, VR_CONFIG_FULL_EVERY, 0);
    uint64_t attention_every = vr_config_get(text, VR_CONFIG_ATTENTION_EVERY, 0);
    uint64_t every = vr_config_get(text, VR_CONFIG_WINDOW_PATTERN, family->window_every);
    if (config->layers[layer].attention != VR_ATTENTION_UNTOLD) {
        return (enum vr_attention)config->layers[layer].attention;
    }
    if (full_every > 0) {
        return (layer + 1) % full_every == 0 ? VR_ATTENTION_FULL : VR_ATTENTION_LINEAR;
    }
    if (attention_every > 0) {
        uint64_t offset = vr_config_get(text, VR_CONFIG_ATTENTION_OFFSET, 0);
        return layer % attention_every == offset ? VR_ATTENTION_FULL : VR_ATTENTION_LINEAR;
    }
    if (every > 0) {
        return (layer + 1) % every == 0 ? VR_ATTENTION_FULL : VR_ATTENTION_SLIDING;
    }
    bool windowed = (family->bits & VR_FAMILY_WINDOWED) != 0;
    windowed = vr_config_get(text, VR_CONFIG_USE_WINDOW, windowed);
    return windowed ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL;
}

static enum vr_mixer mixer_of(const struct vr_config *config, const struct vr_family *family,
                              enum vr_attention attention) {
    switch (attention) {
    case VR_ATTENTION_LINEAR:
        return family->linear ? family->linear : family->mixer ? family->mixer : VR_MIXER_DELTA;
    case VR_ATTENTION_NONE:
        return VR_MIXER_NONE;
    case VR_ATTENTION_MATRIX:
        return VR_MIXER_MATRIX;
    default:
        return family->mixer == VR_MIXER_HEADS && config->text.values[VR_CONFIG_KV_RANK].known
                   ? VR_MIXER_LATENT
                   : family->mixer;
    }
}

/* Heads of the layer, which may differ between layers that slide and those that do not. */
static void plan_heads(const struct vr_config *config, const struct vram_model *model,
                       uint32_t index, struct vr_layer_plan *plan) {
    const struct vr_config_part *text = &config->text;
    uint64_t group = config->layers[index].group;
    const struct vr_config_layer *own = &config->layers[index];
    plan->heads = own->heads ? own->heads : model->heads;
    plan->kv_heads = own->kv_heads ? own->kv_heads : group ? model->heads / group : model->kv_heads;
    plan->head = own->head ? own->head : model->head_elements;
    plan->value_head = vr_config_get(text, VR_CONFIG_V_DIM, plan->head);
    if (plan->sliding) {
        plan->heads = vr_config_get(text, VR_CONFIG_SLIDING_HEADS, plan->heads);
        plan->kv_heads = vr_config_get(text, VR_CONFIG_SLIDING_KV_HEADS, plan->kv_heads);
        plan->head = vr_config_get(text, VR_CONFIG_SLIDING_HEAD_DIM, plan->head);
        plan->value_head = vr_config_get(text, VR_CONFIG_SLIDING_V_DIM, plan->value_head);
    } else if (text->values[VR_CONFIG_FULL_HEAD_DIM].known) {
        plan->head = plan->value_head = vr_config_get(text, VR_CONFIG_FULL_HEAD_DIM, 0);
        plan->keys_are_values = vr_config_get(text, VR_CONFIG_KEYS_ARE_VALUES, 0) != 0;
        plan->kv_heads = plan->keys_are_values
                             ? vr_config_get(text, VR_CONFIG_FULL_KV_HEADS, plan->kv_heads)
                             : plan->kv_heads;
    }
}

/* ------------------------------------------------------------- feed-forward */

static bool has_experts(const struct vr_config *config, uint32_t layer) {
    const struct vr_config_part *text = &config->text;
    uint64_t every = vr_config_get(text, VR_CONFIG_EXPERT_EVERY, 1);
    uint64_t step = vr_config_get(text, VR_CONFIG_SPARSE_STEP, 1);
    uint64_t period = vr_config_get(text, VR_CONFIG_EXPERT_PERIOD, 1);
    return layer >= vr_config_get(text, VR_CONFIG_DENSE_FIRST, 0) &&
           (every <= 1 || layer % every == 0) && (step <= 1 || (layer + 1) % step == 0) &&
           (period <= 1 || layer % period == vr_config_get(text, VR_CONFIG_EXPERT_OFFSET, 0));
}

static enum vr_layer_feed feed_of(const struct vr_config *config, const struct vr_family *family,
                                  const struct vram_model *model, uint32_t layer) {
    enum vr_layer_feed told = (enum vr_layer_feed)config->layers[layer].feed;
    if (told == VR_FEED_UNTOLD && family->bits & VR_FAMILY_ONE_BLOCK) {
        return VR_FEED_NONE;
    }
    if (told == VR_FEED_UNTOLD) {
        told =
            !config->experts_listed && has_experts(config, layer) ? VR_FEED_EXPERTS : VR_FEED_DENSE;
    }
    return told == VR_FEED_EXPERTS && model->experts == 0 ? VR_FEED_DENSE : told;
}

/* The width, of this layer or of all: two thirds of ffn_mult times the hidden size, in steps of
   256, is how Nemotron's search writes it. */
static uint64_t width_of(const struct vr_config *config, const struct vr_family *family,
                         const struct vram_model *model, const struct vr_layer_plan *plan,
                         uint32_t index) {
    const struct vr_config_part *text = &config->text;
    const struct vr_config_layer *layer = &config->layers[index];
    uint64_t plain =
        family->bits & VR_FAMILY_PLAIN_MLP ? vr_expanded_width(text, model->hidden) : 0;
    uint64_t width = vr_config_get(text, VR_CONFIG_INTERMEDIATE, plain);
    if (layer->width_parts) {
        return (2 * (uint64_t)layer->width_parts * model->hidden / 3000000 + 255) / 256 * 256;
    }
    if (layer->width) {
        return layer->width;
    }
    if (plan->feed == VR_FEED_DENSE) {
        width = vr_config_get(text, VR_CONFIG_DENSE_INTERMEDIATE, width);
    }
    return plan->shares_cache && vr_config_get(text, VR_CONFIG_DOUBLE_WIDE, 0) ? 2 * width : width;
}

/* ------------------------------------------------------------------ together */

struct vr_layer_plan vr_layer_plan_make(const struct vr_config *config,
                                        const struct vr_family *family,
                                        const struct vram_model *model, uint32_t index) {
    const struct vr_config_part *text = &config->text;
    struct vr_layer_plan plan = {.feed = feed_of(config, family, model, index)};
    enum vr_attention attention = attention_of(config, family, index);
    uint64_t sharing = vr_config_get(text, VR_CONFIG_SHARED_KV_LAYERS, 0);
    plan.mixer = mixer_of(config, family, attention);
    plan.beside = family->bits & VR_FAMILY_TWO_MIXERS ? family->linear : VR_MIXER_NONE;
    plan.no_cache = attention == VR_ATTENTION_IMAGE || family->bits & VR_FAMILY_ENCODER;
    plan.sliding = attention == VR_ATTENTION_SLIDING;
    plan.window = plan.sliding ? vr_config_get(text, VR_CONFIG_WINDOW, 0) : 0;
    plan.shares_cache = sharing <= model->layer_count && index >= model->layer_count - sharing;
    plan.sinks = vr_config_get(text, plan.sliding ? VR_CONFIG_SLIDING_SINKS : VR_CONFIG_FULL_SINKS,
                               (family->bits & VR_FAMILY_SINKS) != 0) != 0;
    plan.indexed = plan.mixer == VR_MIXER_HEADS && config->layers[index].indexed;
    if (plan.mixer == VR_MIXER_COMPRESSED) {
        plan.ratio = config->layers[index].ratio;
        plan.indexed = plan.ratio > 0 && plan.ratio < 16;
        plan.window = vr_config_get(text, VR_CONFIG_WINDOW, 0);
    }
    if (family->bits & VR_FAMILY_DECODER) {
        uint64_t encoders =
            vr_config_get(text, VR_CONFIG_ENCODER_LAYERS, vr_config_get(text, VR_CONFIG_LAYERS, 0));
        plan.no_cache = index < encoders;
        plan.cross = !plan.no_cache;
    }
    plan_heads(config, model, index, &plan);
    plan.width = width_of(config, family, model, &plan, index);
    return plan;
}
