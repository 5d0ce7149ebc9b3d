/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_type.c: see file_type.h. The table says what llama_tensor_get_type_impl of llama.cpp, build
 * b11549, does for each mix. Where that depends on it, an importance matrix was used, as for
 * published files.
 */
#include "model/file_type.h"

#include "base/text.h"
#include "model/sum.h"
#include "model/tensor_type.h"

#include <string.h>

/* NULL: the base type. */
struct vr_file_type {
    const char *names; /* separated by blanks; the first is its own */
    const char *base;
    const char *input, *output;   /* embeddings, unless tied; output layer, q6_K if NULL */
    const char *value;            /* values of attention; with few heads of keys the next */
    const char *value_grouped;    /* if at least 4 heads of queries share one of keys */
    const char *value_first;      /* in the first value_first_layers layers */
    uint32_t value_first_layers;  /* and in all layers with more bits if 0 */
    const char *keys, *attention; /* queries and keys; output of attention */
    const char *down;             /* last matrix of the feed-forward block */
    const char *down_first;       /* in the first 1 / down_first_part of the layers */
    uint32_t down_first_part;     /* and in all layers with more bits if 0 */
    const char *up_middle; /* first matrices of the feed-forward block, in the middle 6/8 of all */
};

static const struct vr_file_type table[] = {
    {.names = "Q6_K", .base = "q6_K"},
    {.names = "Q5_K_M Q5_K", .base = "q5_K", .value_first = "q6_K", .down_first = "q6_K"},
    {.names = "Q5_K_S", .base = "q5_K"},
    {.names = "Q5_1", .base = "q5_1"},
    {.names = "Q5_0", .base = "q5_0"},
    {.names = "Q4_K_M Q4_K", .base = "q4_K", .value_first = "q6_K", .down_first = "q6_K"},
    {.names = "Q4_K_S",
     .base = "q4_K",
     .value_first = "q5_K",
     .value_first_layers = 4,
     .down_first = "q5_K",
     .down_first_part = 8},
    {.names = "Q4_1", .base = "q4_1"},
    {.names = "Q4_0", .base = "q4_0"},
    {.names = "IQ4_NL", .base = "iq4_nl", .value_grouped = "q5_K"},
    {.names = "IQ4_XS", .base = "iq4_xs", .value_grouped = "q5_K"},
    {.names = "Q3_K_L", .base = "q3_K", .value = "q5_K", .attention = "q5_K", .down = "q5_K"},
    {.names = "Q3_K_M Q3_K",
     .base = "q3_K",
     .value = "q4_K",
     .value_first = "q5_K",
     .value_first_layers = 2,
     .attention = "q4_K",
     .down = "q4_K",
     .down_first = "q5_K",
     .down_first_part = 16},
    {.names = "Q3_K_S", .base = "q3_K"},
    {.names = "IQ3_M",
     .base = "iq3_s",
     .value = "q4_K",
     .attention = "q4_K",
     .down_first = "q4_K",
     .down_first_part = 8},
    {.names = "IQ3_S", .base = "iq3_s", .value_grouped = "q4_K"},
    {.names = "IQ3_XS",
     .base = "iq3_s",
     .value_grouped = "q4_K",
     .keys = "iq3_xxs",
     .up_middle = "iq3_xxs"},
    {.names = "IQ3_XXS",
     .base = "iq3_xxs",
     .input = "iq3_s",
     .output = "q5_K",
     .value_grouped = "q4_K",
     .keys = "iq2_s",
     .attention = "iq3_s"},
    {.names = "Q2_K",
     .base = "q2_K",
     .value = "q3_K",
     .value_grouped = "q4_K",
     .attention = "q3_K",
     .down = "q3_K"},
    {.names = "Q2_K_S",
     .base = "q2_K",
     .value_grouped = "q4_K",
     .down_first = "q4_K",
     .down_first_part = 8},
    {.names = "IQ2_M",
     .base = "iq2_s",
     .input = "iq3_s",
     .output = "q5_K",
     .value = "iq3_s",
     .value_grouped = "q4_K",
     .attention = "iq3_s",
     .down_first = "iq3_s",
     .down_first_part = 8},
    {.names = "IQ2_S",
     .base = "iq2_xs",
     .input = "iq3_s",
     .output = "q5_K",
     .value = "iq3_s",
     .value_grouped = "q4_K",
     .attention = "iq3_s",
     .down_first = "iq3_s",
     .down_first_part = 8},
    {.names = "IQ2_XS",
     .base = "iq2_xs",
     .input = "q2_K",
     .output = "q5_K",
     .value = "q2_K",
     .value_grouped = "q4_K",
     .down_first = "q2_K",
     .down_first_part = 8},
    {.names = "IQ2_XXS",
     .base = "iq2_xxs",
     .input = "q2_K",
     .output = "q5_K",
     .value = "q2_K",
     .value_grouped = "q4_K",
     .down_first = "q2_K",
     .down_first_part = 8},
    {.names = "IQ1_M",
     .base = "iq1_m",
     .input = "q2_K",
     .output = "q5_K",
     .value = "q2_K",
     .value_grouped = "q4_K",
     .attention = "iq2_xxs",
     .down_first = "q2_K",
     .down_first_part = 8},
    {.names = "IQ1_S",
     .base = "iq1_s",
     .input = "q2_K",
     .output = "q5_K",
     .value = "q2_K",
     .value_grouped = "q4_K",
     .attention = "iq2_xxs",
     .down_first = "q2_K",
     .down_first_part = 8},
    {.names = "TQ2_0", .base = "tq2_0", .input = "q4_K"},
    {.names = "TQ1_0", .base = "tq1_0", .input = "q4_K"},
    {.names = "MXFP4_MOE", .base = "q8_0", .output = "q8_0"}, /* and mxfp4 for experts */
};

/* Whether the word of `bytes` is `name`, in any case. */
static bool same_word(const char *word, size_t bytes, const char *name) {
    size_t at = 0;
    while (at < bytes && vr_text_lower(word[at]) == vr_text_lower(name[at])) {
        at++;
    }
    return at == bytes && name[at] == '\0';
}

const struct vr_file_type *vr_file_type_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (const char *at = table[i].names; *at;) {
            size_t one = strcspn(at, " ");
            if (same_word(at, one, name)) {
                return &table[i];
            }
            at += one + (at[one] == ' ');
        }
    }
    return NULL;
}

const char *vr_file_type_base(const struct vr_file_type *type) {
    return type->base;
}

/* ------------------------------------------------------------------- one layer */

struct mixing {
    const struct vr_file_type *type;
    const struct vr_config_part *text;
    const struct vram_model *model;
    const struct vr_tensor_type *base;
};

/* The layers that a mix with "more bits" favours: the first and last eighth, and every third. */
static bool has_more_bits(uint32_t layer, uint32_t layers) {
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

static uint64_t type_bytes(const struct vr_tensor_type *type, uint64_t parameters) {
    struct vr_sum bytes = vr_sum_of(0);
    uint64_t blocks = parameters / type->block_elements + (parameters % type->block_elements != 0);
    vr_sum_add(&bytes, 2, (uint64_t[]){blocks, type->block_bytes});
    return bytes.value; /* 0 after an overflow: of so many parameters nothing is changed */
}

/* Stores `parameters` of `bytes`, which were counted in the base type, in the type `name`. */
static void retype_part(const struct mixing *mixing, const char *name, uint64_t parameters,
                        uint64_t *bytes) {
    uint64_t before = type_bytes(mixing->base, parameters);
    if (name && before > 0 && before <= *bytes) {
        uint64_t after = type_bytes(vr_tensor_type_of_name(name), parameters);
        *bytes = vr_add(*bytes - before, after, &after) ? after : UINT64_MAX;
    }
}

/* The mixes with the fewest bits have rules of their own for attention. */
static bool is_tiny(const struct vr_file_type *type) {
    return strncmp(type->base, "iq1", 3) == 0 || strncmp(type->base, "iq2", 3) == 0;
}

static const char *value_type(const struct mixing *mixing, uint32_t layer) {
    const struct vr_file_type *type = mixing->type;
    const struct vram_model *model = mixing->model;
    bool grouped = model->kv_heads > 0 && model->heads / model->kv_heads >= 4;
    grouped = grouped || (is_tiny(type) && model->experts >= 4);
    const char *found = type->value_grouped && grouped ? type->value_grouped : type->value;
    if (is_tiny(type)) {
        return found;
    }
    if (type->value_first &&
        (type->value_first_layers ? layer < type->value_first_layers
                                  : has_more_bits(layer, model->layer_count))) {
        found = type->value_first;
    }
    /* What llama.cpp takes for a model of 70 billion parameters, and for Mixtral. */
    if (model->layer_count == 80 && model->heads != model->kv_heads &&
        (strcmp(found ? found : type->base, "q3_K") == 0 ||
         strcmp(found ? found : type->base, "q4_K") == 0)) {
        found = "q5_K";
    }
    return model->experts == 8 ? "q8_0" : found;
}

static const char *key_type(const struct mixing *mixing) {
    return mixing->model->experts != 8 ? mixing->type->keys
           : is_tiny(mixing->type)     ? "q4_K"
                                       : "q8_0";
}

static const char *down_type(const struct mixing *mixing, uint32_t layer) {
    const struct vr_file_type *type = mixing->type;
    uint32_t layers = mixing->model->layer_count;
    bool mixtral = mixing->model->experts == 8 && strcmp(type->names, "IQ3_M") == 0;
    bool first = type->down_first_part && !mixtral ? layer < layers / type->down_first_part
                                                   : has_more_bits(layer, layers);
    return type->down_first && first ? type->down_first : type->down;
}

/* Of Mixtral, which has 8 experts, mixes with few bits store the output of attention so, and the
   others as most matrices. */
static const char *attention_type(const struct mixing *mixing) {
    const char *base = mixing->type->base;
    bool few = base[0] == 'i' || strcmp(base, "q2_K") == 0 || strcmp(base, "q3_K") == 0 ||
               strcmp(base, "q4_K") == 0;
    if (mixing->model->experts != 8) {
        return mixing->type->attention;
    }
    return few && strcmp(mixing->type->names, "Q3_K_L") != 0 ? "q5_K" : NULL;
}

static uint64_t product_of(uint64_t a, uint64_t b) {
    uint64_t result;
    return vr_mul(a, b, &result) ? result : 0; /* as type_bytes does it */
}

/* Whether queries, keys and values are one matrix in GGUF files, which counts as the values. */
static bool is_fused(const struct vram_model *model) {
    static const char *const families[] = {"phi3", "gpt2", "gpt_neox", "falcon", "bloom", "mpt"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(model->architecture, families[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Matrices of attention. With MLA the one that expands the latent vector counts as the values. */
static void mix_attention(const struct mixing *mixing, uint32_t index, uint64_t *bytes) {
    const struct vram_model *model = mixing->model;
    const struct vram_model_layer *layer = &model->layers[index];
    const struct vr_file_type *type = mixing->type;
    uint64_t width = product_of(model->heads, model->head_elements);
    uint64_t values = product_of(model->hidden, layer->v_elements);
    uint64_t rank = vr_config_get(mixing->text, VR_CONFIG_KV_RANK, 0);
    if (layer->k_elements == 0) {
        return;
    }
    if (rank) {
        uint64_t nope = vr_config_get(mixing->text, VR_CONFIG_NOPE_DIM, 0);
        uint64_t value = vr_config_get(mixing->text, VR_CONFIG_V_DIM, nope);
        width = product_of(model->heads, value);
        values = product_of(product_of(rank, model->heads), nope + value);
    } else if (is_fused(model)) {
        values = product_of(model->hidden, width + layer->k_elements + layer->v_elements);
    } else {
        retype_part(mixing, key_type(mixing), product_of(model->hidden, layer->k_elements), bytes);
        retype_part(mixing, type->keys, product_of(model->hidden, width), bytes);
    }
    retype_part(mixing, value_type(mixing, index), values, bytes);
    retype_part(mixing, attention_type(mixing), product_of(width, model->hidden), bytes);
}

static void mix_feed(const struct mixing *mixing, uint32_t index, struct vram_model_layer *layer) {
    const struct vram_model *model = mixing->model;
    const struct vr_file_type *type = mixing->type;
    uint32_t layers = model->layer_count;
    bool middle = index >= layers / 8 && index < 7 * layers / 8;
    if (layer->expert_bytes) {
        uint64_t rest = layer->weight_bytes - layer->expert_bytes;
        uint64_t third =
            layer->expert_bytes / mixing->base->block_bytes * mixing->base->block_elements / 3;
        bool mxfp4 = strcmp(type->names, "MXFP4_MOE") == 0;
        retype_part(mixing, mxfp4 ? "mxfp4" : down_type(mixing, index), third,
                    &layer->expert_bytes);
        retype_part(mixing,
                    mxfp4    ? "mxfp4"
                    : middle ? type->up_middle
                             : NULL,
                    2 * third, &layer->expert_bytes);
        retype_part(mixing, "f32", product_of(model->hidden, model->experts),
                    &rest); /* the router */
        if (!vr_add(rest, layer->expert_bytes, &layer->weight_bytes)) {
            layer->weight_bytes = UINT64_MAX;
        }
    } else {
        uint64_t one =
            product_of(model->hidden, vr_config_get(mixing->text, VR_CONFIG_INTERMEDIATE, 0));
        retype_part(mixing, down_type(mixing, index), one, &layer->weight_bytes);
        retype_part(mixing, middle ? type->up_middle : NULL, 2 * one, &layer->weight_bytes);
    }
}

/* -------------------------------------------------------------------- together */

bool vr_file_type_apply(const struct vr_file_type *type, const struct vr_config *config,
                        struct vram_model *model) {
    struct mixing mixing = {type, &config->text, model, vr_tensor_type_of_name(type->base)};
    uint64_t table_parameters = product_of(model->vocabulary, model->hidden);
    const char *output = type->output ? type->output : "q6_K";
    struct vr_sum total = vr_sum_of(0);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct vram_model_layer *layer = &model->layers[i];
        mix_feed(&mixing, i, layer);
        mix_attention(&mixing, i, &layer->weight_bytes);
        vr_sum_add(&total, 1, &layer->weight_bytes);
    }
    retype_part(&mixing, model->tied ? output : type->input, table_parameters, &model->input_bytes);
    retype_part(&mixing, output, model->tied ? 0 : table_parameters, &model->output_bytes);
    /* The encoder of images is in a file of its own (mmproj), in f16. */
    retype_part(&mixing, "f16",
                model->other_bytes / mixing.base->block_bytes * mixing.base->block_elements,
                &model->other_bytes);
    vr_sum_add(&total, 1, &model->input_bytes);
    vr_sum_add(&total, 1, &model->output_bytes);
    vr_sum_add(&total, 1, &model->other_bytes);
    model->weight_bytes = total.value;
    vr_text_format(model->weight_type, sizeof model->weight_type, "%.*s",
                   (int)strcspn(type->names, " "), type->names);
    return !total.overflow;
}
