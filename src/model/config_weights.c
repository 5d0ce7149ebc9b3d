/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_weights.c: the parameters of a model by its config.json, part by part, and their bytes in
 * the types that the config names. Layers for multi-token prediction are not counted: programs load
 * them only on request.
 */
#include "model/config_parts.h"

#include "base/error.h"
#include "base/text.h"
#include "model/tensor_type.h"

#include <string.h>

/* The inputs of the count. */
struct weight_count {
    struct vr_config *config;
    const struct vr_config_part *text;
    const struct vr_family *family;
    struct vram_model *model;
    struct vr_quantization *quantization; /* NULL: nothing is packed */
    const struct vr_tensor_type *type;    /* of all that is not packed */
    bool asked;                           /* for `quantization`: then it names the whole */
};

static bool count_has(const struct weight_count *count, uint32_t bit) {
    return (count->family->bits & bit) != 0;
}

/* -------------------------------------------------------------------- layers */

/* Norms of a layer, each as wide as the hidden size. */
static uint64_t norm_count(const struct weight_count *count, const struct vr_layer_plan *plan) {
    if (count_has(count, VR_FAMILY_FALCON)) {
        bool two = vr_config_get(count->text, VR_CONFIG_NEW_DECODER, 0) ||
                   !vr_config_get(count->text, VR_CONFIG_PARALLEL, 1);
        return two ? 2 : 1;
    }
    if (count_has(count, VR_FAMILY_NO_NORM)) {
        return 0;
    }
    if (count_has(count, VR_FAMILY_ONE_NORM | VR_FAMILY_ONE_BLOCK)) {
        return 1;
    }
    uint64_t pair = count_has(count, VR_FAMILY_FOUR_NORMS) ? 2 : 1;
    return pair * ((plan->mixer != VR_MIXER_NONE) + (plan->feed != VR_FEED_NONE) + plan->cross);
}

static uint64_t norm_width(const struct weight_count *count) {
    return count->model->hidden * (count_has(count, VR_FAMILY_LAYER_NORM) ? 2 : 1);
}

/* What some families add to each layer: an input of its own (PLE), alternating copies of the
   stream (AltUp) with a low-rank block (Laurel), and streams that are mixed anew around each block
   (hyper-connections). */
static void extras_add(const struct weight_count *count, struct vr_part_sum *part) {
    const struct vr_config_part *text = count->text;
    uint64_t hidden = count->model->hidden;
    uint64_t input = vr_config_get(text, VR_CONFIG_LAYER_INPUT, 0);
    uint64_t copies = vr_config_get(text, VR_CONFIG_ALTUP, 0);
    uint64_t rank = vr_config_get(text, VR_CONFIG_LAUREL, 0);
    uint64_t streams = vr_config_get(text, VR_CONFIG_STREAMS, 0);
    uint64_t mixed = streams * (streams + 2);
    if (input > 0) {
        vr_matrix_add(part, "per_layer_input_gate", "linear", input, hidden);
        vr_matrix_add(part, "per_layer_projection", "linear", hidden, input);
        VR_NUMBERS_ADD(part, hidden);
    }
    if (copies > 0) {
        VR_NUMBERS_ADD(part, copies + 2, hidden);
        VR_NUMBERS_ADD(part, copies + 1, copies, copies);
        VR_NUMBERS_ADD(part, 2 * rank + 1, hidden);
    }
    VR_NUMBERS_ADD(part, 2, mixed, streams, hidden);
    VR_NUMBERS_ADD(part, 2, mixed + 3, streams > 0);
}

static void layer_add(const struct weight_count *count, uint32_t index, struct vr_part_sum *part) {
    struct vr_block_count block = {
        .config = count->config,
        .text = count->text,
        .family = count->family,
        .model = count->model,
        .plan = vr_layer_plan_make(count->config, count->family, count->model, index),
        .part = part};
    vr_mixer_add(&block);
    vr_feed_add(&block);
    VR_NUMBERS_ADD(part, norm_count(count, &block.plan), norm_width(count));
    extras_add(count, part);
}

/* ---------------------------------------------------------------------- ends */

/* Positions of OPT start at 2; others have as many as they were trained for. */
static uint64_t position_count(const struct weight_count *count) {
    bool shifted = strcmp(count->text->type, "opt") == 0;
    return count->model->context_most + (shifted ? 2 : 0) +
           vr_config_get(count->text, VR_CONFIG_SOURCE_POSITIONS, 0);
}

static void input_add(const struct weight_count *count, struct vr_part_sum *part) {
    const struct vr_config_part *text = count->text;
    const struct vram_model *model = count->model;
    uint64_t hidden = model->hidden, mels = vr_config_get(text, VR_CONFIG_MEL_BINS, 0);
    uint64_t layered = vr_config_get(text, VR_CONFIG_LAYER_INPUT, 0) * model->layer_count;
    VR_NUMBERS_ADD(part, model->vocabulary, hidden);
    VR_NUMBERS_ADD(part, position_count(count), hidden, count_has(count, VR_FAMILY_POSITIONS));
    VR_NUMBERS_ADD(part, vr_config_get(text, VR_CONFIG_TOKEN_TYPES, 0), hidden,
                   count_has(count, VR_FAMILY_ENCODER));
    VR_NUMBERS_ADD(part, norm_width(count), count_has(count, VR_FAMILY_INPUT_NORM));
    VR_NUMBERS_ADD(part, 3 * (mels + hidden), hidden, mels > 0); /* two convolutions over sound */
    VR_NUMBERS_ADD(part, 2, hidden, mels > 0);
    if (layered > 0) {
        uint64_t input = layered / model->layer_count;
        VR_NUMBERS_ADD(part, vr_config_get(text, VR_CONFIG_LAYER_VOCABULARY, model->vocabulary),
                       layered);
        VR_NUMBERS_ADD(part, hidden, layered);
        VR_NUMBERS_ADD(part, input);
    }
}

/* An encoder for masked words ends in a matrix, a norm and a bias; others in a matrix, or in
   nothing. */
static void encoder_end_add(const struct weight_count *count, struct vr_part_sum *part) {
    const char *end = strstr(count->config->architecture, "ForMaskedLM");
    uint64_t hidden = count->model->hidden;
    bool biased = count_has(count, VR_FAMILY_LINEAR_BIAS);
    if (end) {
        VR_NUMBERS_ADD(part, hidden + biased, hidden);
        VR_NUMBERS_ADD(part, norm_width(count));
        VR_NUMBERS_ADD(part, count->model->vocabulary);
    } else {
        VR_NUMBERS_ADD(part, hidden + biased, hidden, count_has(count, VR_FAMILY_POOLER));
    }
    VR_NUMBERS_ADD(part, norm_width(count), !count_has(count, VR_FAMILY_INPUT_NORM) || !biased);
}

static void output_add(const struct weight_count *count, struct vr_part_sum *part) {
    const struct vr_config_part *text = count->text;
    const struct vram_model *model = count->model;
    uint64_t hidden = model->hidden, streams = vr_config_get(text, VR_CONFIG_STREAMS, 0);
    uint64_t copies = vr_config_get(text, VR_CONFIG_ALTUP, 1);
    bool bias = vr_config_get(text, VR_CONFIG_OUTPUT_BIAS, count_has(count, VR_FAMILY_OUTPUT_BIAS));
    if (count_has(count, VR_FAMILY_ENCODER)) {
        encoder_end_add(count, part);
        return;
    }
    VR_NUMBERS_ADD(part, norm_width(count), count_has(count, VR_FAMILY_DECODER) ? 2 : 1,
                   !count_has(count, VR_FAMILY_NO_NORM));
    VR_NUMBERS_ADD(part, model->vocabulary, hidden, !model->tied);
    VR_NUMBERS_ADD(part, model->vocabulary, bias);
    VR_NUMBERS_ADD(part, 2, copies ? copies - 1 : 0, hidden, hidden);
    VR_NUMBERS_ADD(part, streams, streams, hidden);
    VR_NUMBERS_ADD(part, streams + 1, streams > 0);
}

/* -------------------------------------------------------------------- bytes */

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

/* Files of models that are older than the key have float32: those with learned positions, encoders
   and T5. */
static const char *dtype_told(const struct weight_count *count) {
    bool old = count_has(count, VR_FAMILY_POSITIONS | VR_FAMILY_ENCODER | VR_FAMILY_DECODER);
    return count->text->dtype[0] ? count->text->dtype : old ? "float32" : "bfloat16";
}

/* A type that is asked for counts for everything; else the config says. */
static vram_status choose_types(struct weight_count *count, const char *weight_type) {
    struct vr_quantization *quantization = &count->config->quantization;
    bool packed = weight_type ? vr_quantization_ask(quantization, weight_type)
                              : quantization->scheme_count > 1;
    bool told = weight_type && !packed;
    count->type = told ? vr_tensor_type_of_name(weight_type) : dtype_of(dtype_told(count));
    if (!count->type) {
        return vr_fail(VRAM_ERR_INVALID,
                       "\"%.16s\" is not a type of weights; use F32, F16, BF16, " VR_PACKINGS
                       ", Q8_0, Q6_K, Q5_K_M/S, Q4_K_M/S, Q4/5_0/1, Q3_K_L/M/S, Q2_K/_S, "
                       "IQ4_NL/XS, IQ2/3_M/S/XS/XXS, IQ1_M/S, TQ1_0, TQ2_0, MXFP4_MOE",
                       weight_type);
    }
    if (!told && !count->text->dtype[0]) {
        vr_default_name(count->model, "torch_dtype", "%s", count->type->name);
    }
    if (!weight_type && quantization->unknown[0]) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the weights are quantized by \"%.24s\", which is not known here: name "
                       "their type, or the files with the weights",
                       quantization->unknown);
    }
    count->quantization = packed ? quantization : NULL;
    count->asked = packed && weight_type;
    return VRAM_OK;
}

/* Bytes of numbers, of which those that are not packed are rounded up to whole blocks. */
static struct vr_sum bytes_of(const struct vr_number_sum *numbers,
                              const struct vr_tensor_type *type) {
    struct vr_sum bytes = numbers->packed_bytes;
    uint64_t plain = numbers->plain.value;
    uint64_t blocks = plain / type->block_elements + (plain % type->block_elements != 0);
    bytes.overflow = bytes.overflow || numbers->plain.overflow || numbers->packed.overflow;
    vr_sum_add(&bytes, 2, (uint64_t[]){blocks, type->block_bytes});
    return bytes;
}

static struct vr_sum numbers_of(const struct vr_number_sum *numbers) {
    struct vr_sum sum = numbers->plain;
    vr_sum_add_times(&sum, numbers->packed, 1);
    return sum;
}

/* ----------------------------------------------------------------- together */

struct total {
    struct vr_sum parameters, active, bytes, plain_bytes;
    struct vr_sum scheme_bytes[VR_SCHEMES_MAX];
};

/* Adds a part of the model to the totals. Returns its bytes. */
static uint64_t add_part(const struct weight_count *count, struct total *total,
                         const struct vr_part_sum *part) {
    const struct vram_model *model = count->model;
    struct vr_sum rest = numbers_of(&part->numbers), experts = numbers_of(&part->experts);
    struct vr_sum bytes = bytes_of(&part->numbers, count->type);
    struct vr_sum one = vr_sum_of(model->experts ? experts.value / model->experts : 0);
    vr_sum_add_times(&bytes, bytes_of(&part->experts, count->type), 1);
    vr_sum_add_times(&total->parameters, rest, 1);
    vr_sum_add_times(&total->parameters, experts, 1);
    vr_sum_add_times(&total->active, rest, 1);
    vr_sum_add_times(&total->active, one, model->experts_used);
    vr_sum_add_times(&total->bytes, bytes, 1);
    for (uint32_t i = 0; i < VR_SCHEMES_MAX; i++) {
        vr_sum_add_times(&total->scheme_bytes[i], part->scheme_bytes[i], 1);
    }
    return bytes.value;
}

static void add_layers(const struct weight_count *count, struct total *total) {
    for (uint32_t i = 0; i < count->model->layer_count; i++) {
        struct vr_part_sum part = {.quantization = count->quantization, .layer = i};
        struct vram_model_layer *layer = &count->model->layers[i];
        layer_add(count, i, &part);
        layer->weight_bytes = add_part(count, total, &part);
        layer->expert_bytes = bytes_of(&part.experts, count->type).value;
        layer->parameters = numbers_of(&part.numbers).value + numbers_of(&part.experts).value;
    }
}

/* Where nothing is said about them, towers are left as they are: so do the programs that pack. */
static void add_tower(const struct weight_count *count, struct total *total) {
    struct vram_model *model = count->model;
    struct vr_part_sum tower = {.quantization = NULL};
    bool known = vr_towers_add(count->config, model, &tower);
    model->family_known = model->family_known && known;
    model->other_bytes = add_part(count, total, &tower);
    model->tower_parameters = numbers_of(&tower.numbers).value;
}

static void name_types(const struct weight_count *count, const struct total *total,
                       struct vram_model *model) {
    const struct vr_quantization *quantization = &count->config->quantization;
    uint64_t packed = 0;
    uint32_t most = VR_SCHEME_PLAIN;
    for (uint32_t i = 1; i < VR_SCHEMES_MAX; i++) {
        packed += total->scheme_bytes[i].value; /* no more than all bytes */
        most = total->scheme_bytes[i].value > total->scheme_bytes[most].value ? i : most;
    }
    bool plain = !count->asked && total->scheme_bytes[most].value < total->bytes.value - packed;
    if (most != VR_SCHEME_PLAIN && quantization->usual == VR_SCHEME_PLAIN &&
        quantization->experts == VR_SCHEME_PLAIN) { /* a list has modules one by one */
        vr_text_format(model->quantization, sizeof model->quantization, "%s",
                       quantization->schemes[most].name);
    }
    vr_text_format(model->weight_type, sizeof model->weight_type, "%s",
                   plain ? count->type->name : quantization->schemes[most].name);
}

vram_status vr_config_weights(struct vr_config *config, const char *weight_type,
                              struct vram_model *model) {
    static const struct vr_family like_llama = {.names = ""};
    const struct vr_family *family = vr_family_find(config->text.type);
    struct weight_count count = {.config = config,
                                 .text = &config->text,
                                 .family = family ? family : &like_llama,
                                 .model = model};
    struct total total = {.parameters = vr_sum_of(0)};
    struct vr_part_sum input = {.quantization = NULL}, output = {.quantization = NULL};
    if (!model->kv_known) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "layers of \"%.32s\" are not counted from config.json; name the weights",
                       config->text.type);
    }
    vram_status status = choose_types(&count, weight_type);
    if (status != VRAM_OK) {
        return status;
    }
    input_add(&count, &input);
    output_add(&count, &output);
    model->input_bytes = add_part(&count, &total, &input);
    model->output_bytes = add_part(&count, &total, &output);
    add_layers(&count, &total);
    add_tower(&count, &total);
    if (total.parameters.overflow || total.active.overflow || total.bytes.overflow) {
        return vr_fail(VRAM_ERR_OVERFLOW, "the weights do not fit in 64 bits");
    }
    model->parameters = total.parameters.value;
    model->active_parameters = total.active.value;
    model->weight_bytes = total.bytes.value;
    name_types(&count, &total, model);
    return VRAM_OK;
}
