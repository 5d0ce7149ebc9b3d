/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_shape.c: dimensions of a model by its config.json, and what each of its layers keeps of
 * past tokens.
 */
#include "model/config_parts.h"

#include "base/error.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct vr_family like_llama = {.names = ""};

static vram_status fail_missing(const char *key) {
    return vr_fail(VRAM_ERR_INVALID, "config.json has no %s: it does not describe a model", key);
}

/* -------------------------------------------------------------------- cache */

/* Keys and values of one token. With MLA the layer keeps the latent and the rotated part of the
   key, from which it computes both; an indexer keeps a key of its own. */
static bool set_cache(const struct vr_config_part *text, const struct vr_layer_plan *plan,
                      struct vram_model_layer *layer) {
    uint64_t k = plan->kv_heads * plan->head; /* all below 2^32 */
    uint64_t v = plan->kv_heads * plan->value_head;
    uint64_t index = vr_config_get(text, VR_CONFIG_INDEX_DIM, 0);
    layer->window = (uint32_t)plan->window;
    if (plan->mixer == VR_MIXER_HEADS && plan->indexed) {
        k += index;
    } else if (plan->mixer == VR_MIXER_LATENT) {
        k = vr_config_get(text, VR_CONFIG_KV_RANK, 0) + vr_config_get(text, VR_CONFIG_ROPE_DIM, 0) +
            index;
        v = 0;
    } else if (plan->mixer == VR_MIXER_COMPRESSED) {
        /* One vector for `ratio` tokens, in the indexed layers with a key; those of the window are
           of a fixed number. */
        v = 0;
        if (plan->ratio > 0) {
            uint64_t window = plan->window * plan->head;
            k = (plan->head + (plan->indexed ? index : 0) + plan->ratio - 1) / plan->ratio;
            layer->window = 0;
            layer->state_elements = (uint32_t)window;
            if (window > UINT32_MAX) {
                return false;
            }
        }
    }
    layer->k_elements = (uint32_t)k;
    layer->v_elements = (uint32_t)v;
    return k <= UINT32_MAX && v <= UINT32_MAX;
}

static vram_status set_layer(const struct vr_config *config, const struct vr_family *family,
                             struct vram_model *model, uint32_t index) {
    struct vram_model_layer *layer = &model->layers[index];
    struct vr_layer_plan plan = vr_layer_plan_make(config, family, model, index);
    struct vr_sum state = vr_mixer_state(&config->text, &plan, model->hidden);
    bool good = !state.overflow && state.value <= UINT32_MAX &&
                plan.heads * vr_larger(plan.head, plan.value_head) <= UINT32_MAX;
    bool attends = plan.mixer <= VR_MIXER_COMPRESSED;
    layer->state_elements = (uint32_t)state.value;
    if (good && attends && !plan.shares_cache && !plan.no_cache) {
        good = set_cache(&config->text, &plan, layer);
    }
    /* A decoder also keeps keys and values of the encoder's tokens, if their number is fixed. In
       other models a token is either the encoder's or the decoder's, and takes the same. */
    uint64_t source = plan.cross ? vr_config_get(&config->text, VR_CONFIG_SOURCE_POSITIONS, 0) : 0;
    if (source > 0) {
        uint64_t numbers = source * plan.kv_heads; /* below 2^64: both are below 2^32 */
        good = good && vr_mul(numbers, plan.head, &numbers) && numbers <= UINT32_MAX;
        layer->state_elements = (uint32_t)numbers; /* two of 16 bits take as much as one of 32 */
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
    return vr_config_get(text, VR_CONFIG_KV_HEADS,
                         vr_config_get(text, VR_CONFIG_MULTI_QUERY, 0) ? 1 : heads);
}

static vram_status set_heads(const struct vr_config_part *text, const struct vr_family *family,
                             struct vram_model *model) {
    uint64_t wide = vr_config_get(text, VR_CONFIG_STATE_EXPAND, 2) * model->hidden;
    uint64_t untold = family->mixer == VR_MIXER_MAMBA    ? 1
                      : family->mixer == VR_MIXER_MAMBA2 ? wide / 64
                                                         : 0;
    model->heads = vr_config_get(text, VR_CONFIG_HEADS, untold);
    if (model->heads == 0) {
        return text->values[VR_CONFIG_HEADS].known
                   ? vr_fail(VRAM_ERR_CORRUPT, "num_attention_heads is 0")
                   : fail_missing("num_attention_heads");
    }
    model->kv_heads = kv_heads_of(text, family, model->heads);
    model->head_elements = vr_config_get(text, VR_CONFIG_HEAD_DIM, 0);
    model->head_elements =
        model->head_elements ? model->head_elements : model->hidden / model->heads;
    if (model->kv_heads == 0 || model->kv_heads > model->heads) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "num_key_value_heads is %llu and num_attention_heads is %llu",
                       (unsigned long long)model->kv_heads, (unsigned long long)model->heads);
    }
    return model->head_elements ? VRAM_OK : vr_fail(VRAM_ERR_CORRUPT, "a head would be 0 wide");
}

/* Encoder and decoder together, where a model has both. */
static uint64_t layers_of(const struct vr_config *config, const struct vr_family *family) {
    const struct vr_config_part *text = &config->text;
    uint64_t layers = vr_config_get(text, VR_CONFIG_LAYERS, config->listed);
    if (!(family->bits & VR_FAMILY_DECODER)) {
        return layers;
    }
    return vr_config_get(text, VR_CONFIG_ENCODER_LAYERS, layers) +
           vr_config_get(text, VR_CONFIG_DECODER_LAYERS, layers);
}

static vram_status set_dimensions(const struct vr_config *config, const struct vr_family *family,
                                  struct vram_model *model) {
    const struct vr_config_part *text = &config->text;
    uint64_t layers = layers_of(config, family);
    model->hidden = vr_config_get(text, VR_CONFIG_HIDDEN, 0);
    model->vocabulary = vr_config_get(text, VR_CONFIG_VOCABULARY, 0);
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
    model->experts = vr_config_get(text, VR_CONFIG_HAS_EXPERTS, 1)
                         ? vr_config_get(text, VR_CONFIG_EXPERTS, 0)
                         : 0;
    model->experts_used =
        model->experts ? vr_config_get(text, VR_CONFIG_EXPERTS_USED, model->experts) : 0;
    if (model->experts_used > model->experts) {
        return vr_fail(VRAM_ERR_CORRUPT, "%llu of %llu experts are used",
                       (unsigned long long)model->experts_used, (unsigned long long)model->experts);
    }
    model->tied = vr_config_get(text, VR_CONFIG_TIED, (family->bits & VR_FAMILY_TIED) != 0) != 0;
    return set_heads(text, family, model);
}

/* The width that a token has in the widest block: each expert that is used counts. */
static uint64_t width_on_path(const struct vr_config *config, const struct vram_model *model,
                              const struct vr_layer_plan *plan) {
    uint64_t one = vr_config_get(&config->text, VR_CONFIG_EXPERT_INTERMEDIATE, plan->width);
    return plan->feed == VR_FEED_EXPERTS ? model->experts_used * one
           : plan->feed == VR_FEED_DENSE ? plan->width
                                         : 0;
}

/* ------------------------------------------------------------------ together */

void vr_default_name(struct vram_model *model, const char *key, const char *format, ...) {
    size_t used = strlen(model->defaults), room = sizeof model->defaults - used;
    char value[24];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    vr_text_format(model->defaults + used, room, "%s%.*s %s", used ? ", " : "",
                   (int)strcspn(key, " "), key, value);
}

/* Values that the config leaves out, as the family's own program has them. */
static void set_defaults(const struct vr_family *family, struct vr_config_part *text,
                         struct vram_model *model) {
    size_t most = sizeof family->defaults / sizeof family->defaults[0];
    for (size_t i = 0; i < most && family->defaults[i].value; i++) {
        const struct vr_family_default *other = &family->defaults[i];
        if (!text->values[other->key].known) {
            text->values[other->key] = (vram_value){other->value, true};
            vr_default_name(model, vr_config_key_names(other->key), "%u", other->value);
        }
    }
}

static vram_status refuse_foreign(const struct vr_config *config) {
    const char *type = config->class_name[0] ? config->class_name : config->outer_type;
    const char *kind =
        config->class_name[0] ? "a part of a diffusion model" : vr_family_foreign(type);
    return kind ? vr_fail(VRAM_ERR_UNSUPPORTED,
                          "\"%.48s\" is not a language model: it is %s, and has neither tokens nor "
                          "a key-value cache",
                          type, kind)
                : VRAM_OK;
}

vram_status vr_config_shape(struct vr_config *config, struct vram_model *model) {
    const struct vr_family *family = vr_family_find(config->text.type);
    family = family ? family : &like_llama;
    set_defaults(family, &config->text, model);
    vram_status status = refuse_foreign(config);
    status = status == VRAM_OK ? set_dimensions(config, family, model) : status;
    if (status != VRAM_OK) {
        return status;
    }
    vr_text_format(model->architecture, sizeof model->architecture, "%s", config->text.type);
    model->family_known = family != &like_llama;
    model->kv_known = true;
    model->intermediate = 0;
    vr_text_format(model->quantization, sizeof model->quantization, "%s",
                   vr_quantization_name(&config->quantization, model->experts > 0));
    for (uint32_t i = 0; i < model->layer_count && status == VRAM_OK; i++) {
        struct vr_layer_plan plan = vr_layer_plan_make(config, family, model, i);
        bool told =
            plan.mixer != VR_MIXER_DELTA || config->text.values[VR_CONFIG_LINEAR_VALUE_HEADS].known;
        model->kv_known =
            model->kv_known && told && config->layers[i].attention != VR_ATTENTION_OTHER;
        model->intermediate = vr_larger(model->intermediate, width_on_path(config, model, &plan));
        status = set_layer(config, family, model, i);
    }
    return status;
}
