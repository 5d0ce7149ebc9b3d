/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_weights.c: the parameters of a model by its config.json: matrix by matrix, as its family
 * is built, and their bytes in the type that the config names.
 *
 * All dimensions are below 2^32 (model_config.c); products are checked like sums (sum.h).
 */
#include "model/model_config.h"

#include "base/error.h"
#include "base/text.h"
#include "model/family.h"
#include "model/sum.h"
#include "model/tensor_type.h"

#include <string.h>

#define PRODUCT(sum, ...)                                                                          \
    vr_sum_add(sum, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (uint64_t[]){__VA_ARGS__})

/* The inputs of the count. */
struct weight_count {
    const struct vr_config *config;
    const struct vr_config_part *text;
    struct vram_model *model;
    uint32_t bits;       /* of the family */
    bool attention_bias; /* query, key and value */
    bool linear_bias;    /* every matrix */
};

/* A layer's parameters; those of experts that a router chooses from are separate. */
struct layer_count {
    struct vr_sum plain, experts;
};

/* ---------------------------------------------------------------- attention */

static void count_latent(const struct weight_count *count, struct vr_sum *sum) {
    const struct vr_config_part *text = count->text;
    uint64_t hidden = count->model->hidden, heads = count->model->heads;
    uint64_t nope = vr_config_get(text, VR_CONFIG_NOPE_DIM, 0);
    uint64_t rope = vr_config_get(text, VR_CONFIG_ROPE_DIM, 0);
    uint64_t value = vr_config_get(text, VR_CONFIG_V_DIM, nope);
    uint64_t q_rank = vr_config_get(text, VR_CONFIG_Q_RANK, 0);
    uint64_t kv_rank = vr_config_get(text, VR_CONFIG_KV_RANK, 0);
    if (q_rank) {
        PRODUCT(sum, hidden, q_rank);
        PRODUCT(sum, q_rank); /* its norm */
        PRODUCT(sum, q_rank, heads, nope + rope);
    } else {
        PRODUCT(sum, hidden, heads, nope + rope);
    }
    PRODUCT(sum, hidden, kv_rank + rope);
    PRODUCT(sum, kv_rank);
    PRODUCT(sum, kv_rank, heads, nope + value);
    PRODUCT(sum, heads, value, hidden);
}

static void count_heads(const struct weight_count *count, struct vr_sum *sum) {
    const struct vram_model *model = count->model;
    uint64_t hidden = model->hidden, head = model->head_elements;
    uint64_t q = model->heads, kv = model->kv_heads;
    uint64_t gate = count->bits & VR_FAMILY_GATED_QUERY ? 2 : 1;
    bool out_bias = (count->bits & VR_FAMILY_O_BIAS) != 0;
    PRODUCT(sum, hidden, q, head, gate);
    PRODUCT(sum, 2, hidden, kv, head);
    PRODUCT(sum, q, head, hidden);
    PRODUCT(sum, q, head, gate, count->attention_bias || count->linear_bias);
    PRODUCT(sum, 2, kv, head, count->attention_bias || count->linear_bias);
    PRODUCT(sum, hidden, out_bias || count->linear_bias);
    PRODUCT(sum, 2, head, (count->bits & VR_FAMILY_HEAD_NORM) != 0);
    PRODUCT(sum, q, (count->bits & VR_FAMILY_SINKS) != 0);
}

/* Gated delta nets: queries, keys, values and a gate in one matrix, two numbers for each head of
   values, a convolution over the first three. */
static void count_linear(const struct weight_count *count, struct vr_sum *sum) {
    const struct vr_config_part *text = count->text;
    uint64_t hidden = count->model->hidden;
    uint64_t heads = vr_config_get(text, VR_CONFIG_LINEAR_VALUE_HEADS, 0);
    uint64_t value_dim = vr_config_get(text, VR_CONFIG_LINEAR_VALUE_DIM, 0);
    uint64_t keys = vr_config_get(text, VR_CONFIG_LINEAR_KEY_HEADS, 0) *
                    vr_config_get(text, VR_CONFIG_LINEAR_KEY_DIM, 0);
    uint64_t values = heads * value_dim; /* both checked by vr_config_shape */
    PRODUCT(sum, hidden, 2 * keys + 2 * values);
    PRODUCT(sum, hidden, 2, heads);
    PRODUCT(sum, 2 * keys + values, vr_config_get(text, VR_CONFIG_LINEAR_KERNEL, 1));
    PRODUCT(sum, 2, heads);
    PRODUCT(sum, value_dim);
    PRODUCT(sum, values, hidden);
}

static uint64_t norm_count(const struct weight_count *count) {
    if (count->bits & VR_FAMILY_FALCON) {
        bool two = vr_config_get(count->text, VR_CONFIG_NEW_DECODER, 0) ||
                   !vr_config_get(count->text, VR_CONFIG_PARALLEL, 1);
        return two ? 2 : 1;
    }
    return count->bits & VR_FAMILY_FOUR_NORMS ? 4 : count->bits & VR_FAMILY_ONE_NORM ? 1 : 2;
}

static uint64_t norm_width(const struct weight_count *count) {
    return count->model->hidden * (count->bits & VR_FAMILY_LAYER_NORM ? 2 : 1);
}

/* ------------------------------------------------------------- feed-forward */

static void count_dense(const struct weight_count *count, uint64_t width, struct vr_sum *sum) {
    bool plain = (count->bits & VR_FAMILY_PLAIN_MLP) != 0;
    PRODUCT(sum, plain ? 2 : 3, count->model->hidden, width);
    PRODUCT(sum, width, count->linear_bias);
    PRODUCT(sum, count->model->hidden, count->linear_bias);
}

static void count_experts(const struct weight_count *count, struct layer_count *layer) {
    const struct vr_config_part *text = count->text;
    uint64_t hidden = count->model->hidden, experts = count->model->experts;
    uint64_t width = vr_config_get(text, VR_CONFIG_EXPERT_INTERMEDIATE,
                                   vr_config_get(text, VR_CONFIG_INTERMEDIATE, 0));
    uint64_t shared = vr_config_get(text, VR_CONFIG_SHARED_INTERMEDIATE,
                                    width * vr_config_get(text, VR_CONFIG_SHARED_EXPERTS, 0));
    bool bias = (count->bits & VR_FAMILY_EXPERT_BIAS) != 0;
    PRODUCT(&layer->experts, experts, 3, hidden, width);
    PRODUCT(&layer->experts, experts, 2 * width + hidden, bias);
    PRODUCT(&layer->plain, hidden, experts);
    PRODUCT(&layer->plain, experts, bias || (count->bits & VR_FAMILY_ROUTER_FIX) != 0);
    PRODUCT(&layer->plain, 3, hidden, shared);
    PRODUCT(&layer->plain, hidden, shared > 0 && (count->bits & VR_FAMILY_SHARED_GATE));
}

static bool has_experts(const struct weight_count *count, uint32_t layer) {
    const struct vr_config_part *text = count->text;
    uint64_t every = vr_config_get(text, VR_CONFIG_EXPERT_EVERY, 1);
    uint64_t step = vr_config_get(text, VR_CONFIG_SPARSE_STEP, 1);
    return count->model->experts > 0 && layer >= vr_config_get(text, VR_CONFIG_DENSE_FIRST, 0) &&
           (every <= 1 || layer % every == 0) && (step <= 1 || (layer + 1) % step == 0) &&
           !count->config->mlp_only[layer];
}

static struct layer_count count_layer(const struct weight_count *count, uint32_t index) {
    struct layer_count layer = {vr_sum_of(0), vr_sum_of(0)};
    const struct vram_model_layer *shape = &count->model->layers[index];
    if (shape->state_elements) {
        count_linear(count, &layer.plain);
    } else if (count->text->values[VR_CONFIG_KV_RANK].known) {
        count_latent(count, &layer.plain);
    } else {
        count_heads(count, &layer.plain);
    }
    PRODUCT(&layer.plain, norm_count(count), norm_width(count));
    if (has_experts(count, index)) {
        count_experts(count, &layer);
    } else {
        uint64_t plain = count->bits & VR_FAMILY_PLAIN_MLP ? 4 * count->model->hidden : 0;
        count_dense(count, vr_config_get(count->text, VR_CONFIG_INTERMEDIATE, plain), &layer.plain);
    }
    return layer;
}

/* ------------------------------------------------------------------- vision */

/* A plain vision transformer and its projector: patches and positions, layers of four attention
   matrices and two of feed-forward, all with biases; then one matrix to the language model with a
   norm before it. */
static struct vr_sum count_vision(const struct weight_count *count) {
    const struct vr_config_part *vision = &count->config->vision;
    struct vr_sum layer = vr_sum_of(0), all = vr_sum_of(0);
    uint64_t hidden = vr_config_get(vision, VR_CONFIG_HIDDEN, 0);
    uint64_t width = vr_config_get(vision, VR_CONFIG_INTERMEDIATE, 4 * hidden);
    uint64_t patch = vr_config_get(vision, VR_CONFIG_PATCH, 0);
    uint64_t side = patch ? vr_config_get(vision, VR_CONFIG_IMAGE, 0) / patch : 0;
    PRODUCT(&layer, 4, hidden, hidden);
    PRODUCT(&layer, 4, hidden);
    PRODUCT(&layer, 2, hidden, width);
    PRODUCT(&layer, width);
    PRODUCT(&layer, hidden);
    PRODUCT(&layer, 4, hidden); /* two norms with biases */
    vr_sum_add_times(&all, layer, vr_config_get(vision, VR_CONFIG_LAYERS, 0));
    PRODUCT(&all, patch, patch, vr_config_get(vision, VR_CONFIG_CHANNELS, 3), hidden);
    PRODUCT(&all, hidden);
    PRODUCT(&all, side, side, hidden);
    PRODUCT(&all, 2, hidden);
    PRODUCT(&all, hidden, count->model->hidden);
    PRODUCT(&all, hidden);
    return all;
}

/* -------------------------------------------------------------------- bytes */

/* How the numbers of a part are stored: `bytes` for each block of elements. */
struct rate {
    const char *name;
    uint64_t elements, bytes;
};

struct rates {
    struct rate plain;   /* embeddings, norms, vision */
    struct rate layers;  /* matrices of layers */
    struct rate experts; /* matrices of experts */
};

static struct rate rate_of(const struct vr_tensor_type *type) {
    return (struct rate){type->name, type->block_elements, type->block_bytes};
}

static const struct vr_tensor_type *dtype_of(const char *dtype) {
    static const char *const names[][2] = {
        {"float32", "f32"},
        {"float", "f32"},
        {"float16", "f16"},
        {"half", "f16"},
        {"bfloat16", "bf16"},
        {"float64", "f64"},
        {"float8_e4m3fn", "f8_e4m3"},
        {"float8_e5m2", "f8_e5m2"},
        {"int8", "i8"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(dtype, names[i][0]) == 0) {
            return vr_tensor_type_of_name(names[i][1]);
        }
    }
    return vr_tensor_type_of_name("bf16");
}

/* Quantized by groups: `bits` per number, and for each group a scale of 16 bits and a zero of
   `bits`. */
static struct rate grouped_rate(const char *name, uint64_t bits, uint64_t group) {
    return (struct rate){name, 8 * group, group * bits + 16 + bits};
}

static void set_quantized(const struct vr_config *config, struct rates *rates) {
    const struct vr_config_part *quant = &config->quant;
    uint64_t bits = vr_config_get(quant, VR_CONFIG_QUANT_BITS, 0);
    uint64_t group = vr_config_get(quant, VR_CONFIG_QUANT_GROUP, 128);
    group = group == 0 || group > 65536 ? 128 : group; /* -1, one group per row, is close enough */
    if (strcmp(quant->quant, "mxfp4") == 0) {
        rates->experts = rate_of(vr_tensor_type_of_name("mxfp4"));
    } else if (strcmp(quant->quant, "fp8") == 0) {
        /* a float32 for each 128 x 128 */
        rates->layers = rates->experts = (struct rate){"f8_e4m3", 16384, 16384 + 4};
    } else if (bits >= 2 && bits <= 8) {
        rates->layers = rates->experts = grouped_rate(quant->quant, bits, group);
    } else if (vr_config_get(quant, VR_CONFIG_QUANT_4BIT, 0)) {
        rates->layers = rates->experts = grouped_rate("nf4", 4, 64);
    } else if (vr_config_get(quant, VR_CONFIG_QUANT_8BIT, 0)) {
        rates->layers = rates->experts = rate_of(vr_tensor_type_of_name("i8"));
    }
}

static vram_status choose_rates(const struct vr_config *config, const char *weight_type,
                                struct rates *rates) {
    const struct vr_tensor_type *type =
        weight_type ? vr_tensor_type_of_name(weight_type) : dtype_of(config->text.dtype);
    if (!type) {
        return vr_fail(VRAM_ERR_INVALID, "\"%.32s\" is not a type of weights", weight_type);
    }
    rates->plain = rates->layers = rates->experts = rate_of(type);
    if (!weight_type && config->has_quant) {
        set_quantized(config, rates);
    }
    return VRAM_OK;
}

/* Bytes of that many numbers, rounded up to whole blocks. */
static struct vr_sum bytes_of(struct vr_sum parameters, struct rate rate) {
    struct vr_sum bytes = vr_sum_of(0);
    uint64_t blocks = parameters.value / rate.elements + (parameters.value % rate.elements != 0);
    bytes.overflow = parameters.overflow;
    vr_sum_add(&bytes, 2, (uint64_t[]){blocks, rate.bytes});
    return bytes;
}

/* ----------------------------------------------------------------- together */

struct total {
    struct vr_sum parameters, active, bytes;
};

/* Adds a part of the model to the totals. Returns its bytes. */
static uint64_t add_part(struct total *total, struct vr_sum parameters, struct rate rate) {
    struct vr_sum bytes = bytes_of(parameters, rate);
    vr_sum_add_times(&total->parameters, parameters, 1);
    vr_sum_add_times(&total->active, parameters, 1);
    vr_sum_add_times(&total->bytes, bytes, 1);
    return bytes.value;
}

/* Experts: all of them are stored; a token uses only some. */
static uint64_t add_experts(struct total *total, struct vr_sum parameters, struct rate rate,
                            const struct vram_model *model) {
    struct vr_sum bytes = bytes_of(parameters, rate);
    struct vr_sum one = vr_sum_of(model->experts ? parameters.value / model->experts : 0);
    vr_sum_add_times(&total->parameters, parameters, 1);
    vr_sum_add_times(&total->active, one, model->experts_used);
    vr_sum_add_times(&total->bytes, bytes, 1);
    return bytes.value;
}

static void add_ends(const struct weight_count *count, struct total *total,
                     const struct rates *rates) {
    struct vram_model *model = count->model;
    struct vr_sum input = vr_sum_of(0), output = vr_sum_of(0);
    PRODUCT(&input, model->vocabulary, model->hidden);
    PRODUCT(&input, model->context_most, model->hidden, (count->bits & VR_FAMILY_POSITIONS) != 0);
    PRODUCT(&output, norm_width(count));
    PRODUCT(&output, model->vocabulary, model->hidden, !model->tied);
    model->input_bytes = add_part(total, input, rates->plain);
    model->output_bytes = add_part(total, output, rates->plain);
    if (count->config->has_vision) {
        const struct vram_value *told = count->config->vision.values;
        model->other_bytes = add_part(total, count_vision(count), rates->plain);
        /* A part that config.json describes by other keys was not counted. */
        model->family_known = model->family_known && told[VR_CONFIG_HIDDEN].known &&
                              told[VR_CONFIG_LAYERS].known && told[VR_CONFIG_PATCH].known &&
                              told[VR_CONFIG_IMAGE].known;
    }
}

vram_status vr_config_weights(const struct vr_config *config, const char *weight_type,
                              struct vram_model *model) {
    const struct vr_family *family = vr_family_find(config->text.type);
    struct weight_count count = {.config = config, .text = &config->text, .model = model};
    struct total total = {vr_sum_of(0), vr_sum_of(0), vr_sum_of(0)};
    struct rates rates = {0};
    if (!model->kv_known) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "layers of \"%.32s\" are not counted from config.json; name the weights",
                       config->text.type);
    }
    vram_status status = choose_rates(config, weight_type, &rates);
    if (status != VRAM_OK) {
        return status;
    }
    count.bits = family ? family->bits : 0;
    count.attention_bias = vr_config_get(count.text, VR_CONFIG_ATTENTION_BIAS,
                                         (count.bits & VR_FAMILY_QKV_BIAS) != 0) != 0;
    count.linear_bias =
        vr_config_get(count.text, VR_CONFIG_BIAS, (count.bits & VR_FAMILY_LINEAR_BIAS) != 0) != 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct vram_model_layer *layer = &model->layers[i];
        struct layer_count parts = count_layer(&count, i);
        layer->expert_bytes = add_experts(&total, parts.experts, rates.experts, model);
        layer->weight_bytes = add_part(&total, parts.plain, rates.layers) + layer->expert_bytes;
        layer->parameters = parts.plain.value + parts.experts.value;
    }
    add_ends(&count, &total, &rates);
    if (total.bytes.overflow || total.parameters.overflow || total.active.overflow) {
        return vr_fail(VRAM_ERR_OVERFLOW, "the model's weights do not fit in 64 bits");
    }
    model->parameters = total.parameters.value;
    model->active_parameters = total.active.value;
    model->weight_bytes = total.bytes.value;
    vr_text_format(model->weight_type, sizeof model->weight_type, "%s",
                   model->experts ? rates.experts.name : rates.layers.name);
    return VRAM_OK;
}
