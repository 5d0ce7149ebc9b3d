/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_shape.c: dimensions of a model by its config.json, and what each of its layers keeps of
 * past tokens.
 */
#include "model/model_config.h"

#include "base/error.h"
#include "base/text.h"
#include "model/family.h"

#include <string.h>

static const struct vr_family like_llama = {.names = ""};

static const struct vr_family *family_of(const struct vr_config *config) {
    const struct vr_family *family = vr_family_find(config->text.type);
    return family ? family : &like_llama;
}

static vram_status fail_missing(const char *key) {
    return vr_fail(VRAM_ERR_INVALID, "config.json has no %s: it does not describe a model", key);
}

/* ---------------------------------------------------------------- attention */

static enum vr_attention attention_of(const struct vr_config *config,
                                      const struct vr_family *family, uint32_t layer) {
    const struct vr_config_part *text = &config->text;
    uint64_t full_every = vr_config_get(text, VR_CONFIG_FULL_EVERY, 0);
    uint64_t every = vr_config_get(text, VR_CONFIG_WINDOW_PATTERN, family->window_every);
    if (layer < config->layer_type_count) {
        return (enum vr_attention)config->layer_types[layer];
    }
    if (full_every > 0) {
        return (layer + 1) % full_every == 0 ? VR_ATTENTION_FULL : VR_ATTENTION_LINEAR;
    }
    if (every > 0) {
        return (layer + 1) % every == 0 ? VR_ATTENTION_FULL : VR_ATTENTION_SLIDING;
    }
    bool windowed = (family->bits & VR_FAMILY_WINDOWED) != 0;
    windowed = vr_config_get(text, VR_CONFIG_USE_WINDOW, windowed);
    return windowed ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL;
}

/* Keys and values of one token. With MLA the layer keeps the latent and the rotated part of the
   key, from which it computes both. */
static bool set_cache(const struct vr_config *config, const struct vram_model *model,
                      struct vram_model_layer *layer) {
    const struct vr_config_part *text = &config->text;
    uint64_t k, v;
    if (text->values[VR_CONFIG_KV_RANK].known) {
        k = vr_config_get(text, VR_CONFIG_KV_RANK, 0) + vr_config_get(text, VR_CONFIG_ROPE_DIM, 0);
        v = 0;
    } else {
        k = v = model->kv_heads * model->head_elements; /* both below 2^32 */
    }
    layer->k_elements = (uint32_t)k;
    layer->v_elements = (uint32_t)v;
    return k <= UINT32_MAX;
}

/* The state of linear attention: a matrix for each head of values, and the inputs of the
   convolution. */
static bool set_state(const struct vr_config_part *text, struct vram_model_layer *layer) {
    uint64_t keys = vr_config_get(text, VR_CONFIG_LINEAR_KEY_HEADS, 0) *
                    vr_config_get(text, VR_CONFIG_LINEAR_KEY_DIM, 0);
    uint64_t value_heads = vr_config_get(text, VR_CONFIG_LINEAR_VALUE_HEADS, 0);
    uint64_t values = value_heads * vr_config_get(text, VR_CONFIG_LINEAR_VALUE_DIM, 0);
    uint64_t kernel = vr_config_get(text, VR_CONFIG_LINEAR_KERNEL, 1);
    uint64_t key_dim = vr_config_get(text, VR_CONFIG_LINEAR_KEY_DIM, 0);
    if (keys > UINT16_MAX * 16 || values > UINT16_MAX * 16 || key_dim > UINT16_MAX || kernel == 0 ||
        kernel > UINT16_MAX) {
        return false;
    }
    uint64_t state = values * key_dim + (kernel - 1) * (2 * keys + values);
    layer->state_elements = (uint32_t)state;
    return state <= UINT32_MAX;
}

static vram_status set_layer(const struct vr_config *config, const struct vr_family *family,
                             struct vram_model *model, uint32_t index) {
    struct vram_model_layer *layer = &model->layers[index];
    enum vr_attention attention = attention_of(config, family, index);
    bool good = true;
    switch (attention) {
    case VR_ATTENTION_LINEAR:
        good = set_state(&config->text, layer);
        break;
    case VR_ATTENTION_OTHER:
        model->kv_known = false;
        break;
    default:
        good = set_cache(config, model, layer);
        if (attention == VR_ATTENTION_SLIDING) {
            layer->window = (uint32_t)vr_config_get(&config->text, VR_CONFIG_WINDOW, 0);
        }
    }
    return good ? VRAM_OK
                : vr_fail(VRAM_ERR_CORRUPT, "layer %u would keep more than 2^32 numbers", index);
}

/* --------------------------------------------------------------- dimensions */

/* Falcon's first models have one head of keys, or as many as queries, and do not say how many. */
static uint64_t kv_heads_of(const struct vr_config_part *text, const struct vr_family *family,
                            uint64_t heads) {
    if (family->bits & VR_FAMILY_FALCON && !vr_config_get(text, VR_CONFIG_NEW_DECODER, 0)) {
        return vr_config_get(text, VR_CONFIG_MULTI_QUERY, 1) ? 1 : heads;
    }
    return vr_config_get(text, VR_CONFIG_KV_HEADS, family->kv_heads ? family->kv_heads : heads);
}

static vram_status set_heads(const struct vr_config_part *text, const struct vr_family *family,
                             struct vram_model *model) {
    model->heads = vr_config_get(text, VR_CONFIG_HEADS, family->heads);
    if (model->heads == 0) {
        return text->values[VR_CONFIG_HEADS].known
                   ? vr_fail(VRAM_ERR_CORRUPT, "num_attention_heads is 0")
                   : fail_missing("num_attention_heads");
    }
    model->kv_heads = kv_heads_of(text, family, model->heads);
    uint64_t divided = model->hidden / model->heads;
    model->head_elements = vr_config_get(text, VR_CONFIG_HEAD_DIM,
                                         family->head_elements ? family->head_elements : divided);
    if (model->kv_heads == 0 || model->kv_heads > model->heads) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "num_key_value_heads is %llu and num_attention_heads is %llu",
                       (unsigned long long)model->kv_heads, (unsigned long long)model->heads);
    }
    return model->head_elements ? VRAM_OK : vr_fail(VRAM_ERR_CORRUPT, "a head would be 0 wide");
}

static vram_status set_dimensions(const struct vr_config *config, const struct vr_family *family,
                                  struct vram_model *model) {
    const struct vr_config_part *text = &config->text;
    uint64_t layers = vr_config_get(text, VR_CONFIG_LAYERS, 0);
    model->hidden = vr_config_get(text, VR_CONFIG_HIDDEN, 0);
    model->vocabulary = vr_config_get(text, VR_CONFIG_VOCABULARY, family->vocabulary);
    if (layers == 0 || model->hidden == 0 || model->vocabulary == 0) {
        return fail_missing(layers == 0          ? "num_hidden_layers"
                            : model->hidden == 0 ? "hidden_size"
                                                 : "vocab_size");
    }
    if (layers > VRAM_MODEL_LAYERS_MAX) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "%llu layers; at most %d are read",
                       (unsigned long long)layers, VRAM_MODEL_LAYERS_MAX);
    }
    model->layer_count = (uint32_t)layers;
    model->context_most = vr_config_get(text, VR_CONFIG_POSITIONS, 0);
    model->experts = vr_config_get(text, VR_CONFIG_EXPERTS, 0);
    model->experts_used = vr_config_get(text, VR_CONFIG_EXPERTS_USED, model->experts);
    if (model->experts_used > model->experts) {
        return vr_fail(VRAM_ERR_CORRUPT, "%llu of %llu experts are used",
                       (unsigned long long)model->experts_used, (unsigned long long)model->experts);
    }
    model->tied = vr_config_get(text, VR_CONFIG_TIED, (family->bits & VR_FAMILY_TIED) != 0) != 0;
    return set_heads(text, family, model);
}

/* The width that a token has in the widest block: each expert that is used counts. */
static void set_intermediate(const struct vr_config *config, const struct vr_family *family,
                             struct vram_model *model) {
    const struct vr_config_part *text = &config->text;
    uint64_t dense = vr_config_get(text, VR_CONFIG_INTERMEDIATE,
                                   family->bits & VR_FAMILY_PLAIN_MLP ? 4 * model->hidden : 0);
    uint64_t one = vr_config_get(text, VR_CONFIG_EXPERT_INTERMEDIATE, dense);
    uint64_t experts = model->experts ? model->experts_used * one : 0;
    model->intermediate = dense > experts ? dense : experts;
}

vram_status vr_config_shape(const struct vr_config *config, struct vram_model *model) {
    const struct vr_family *family = family_of(config);
    vram_status status = set_dimensions(config, family, model);
    if (status != VRAM_OK) {
        return status;
    }
    vr_text_format(model->architecture, sizeof model->architecture, "%s", config->text.type);
    model->family_known = family != &like_llama;
    model->kv_known = true;
    set_intermediate(config, family, model);
    for (uint32_t i = 0; i < model->layer_count && status == VRAM_OK; i++) {
        status = set_layer(config, family, model, i);
    }
    return status;
}
