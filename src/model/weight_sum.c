/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight_sum.c: see weight_sum.h. A tensor belongs to the layer whose number is in its name, to the
 * input, to the output, or to none of these; its bytes are counted once in any case.
 */
#include "model/weight_sum.h"

#include "base/text.h"

#include <string.h>

enum tensor_place { PLACE_LAYER, PLACE_INPUT, PLACE_OUTPUT, PLACE_OTHER };

static bool name_contains(const char *name, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strstr(name, words[i])) {
            return true;
        }
    }
    return false;
}

#define CONTAINS(name, words) name_contains(name, words, sizeof(words) / sizeof((words)[0]))

/* The number between `word` and a dot: "blk.12.attn". False: there is none. */
static bool number_behind(const char *name, const char *word, uint64_t *number) {
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word)) {
        const char *digit = at + strlen(word);
        uint64_t value = 0;
        size_t count = 0;
        for (; digit[count] >= '0' && digit[count] <= '9' && count < 9; count++) {
            value = value * 10 + (uint64_t)(digit[count] - '0');
        }
        bool begins = at == name || at[-1] == '.';
        if (begins && count > 0 && digit[count] == '.') {
            *number = value;
            return true;
        }
    }
    return false;
}

static enum tensor_place place_of(const char *name, uint64_t *layer) {
    static const char *const others[] = {"vision",      "visual", "image", "mm_projector",
                                         "multi_modal", "audio",  "mmproj"};
    static const char *const layers[] = {"blk.", "layers.", "h.", "blocks.", "block."};
    static const char *const inputs[] = {"embed_tokens", "token_embd",      "wte.",
                                         "wpe.",         "word_embeddings", "tok_embeddings",
                                         "embed_in",     "position_embd",   "token_types"};
    static const char *const outputs[] = {"lm_head", "output", "embed_out", "ln_f", "norm"};
    if (CONTAINS(name, others) || strncmp(name, "v.", 2) == 0 || strncmp(name, "mm.", 3) == 0) {
        return PLACE_OTHER;
    }
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (number_behind(name, layers[i], layer)) {
            return PLACE_LAYER;
        }
    }
    return CONTAINS(name, inputs)    ? PLACE_INPUT
           : CONTAINS(name, outputs) ? PLACE_OUTPUT
                                     : PLACE_OTHER;
}

static void add_bytes(struct vr_weight_sum *sum, uint64_t *to, uint64_t bytes) {
    sum->overflow = sum->overflow || !vr_add(*to, bytes, to);
}

static bool ends_with(const char *name, const char *end) {
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

/* Without a config, the matrices of keys and values tell what is cached; with one, they confirm
   it. */
static void note_cache(struct vr_weight_sum *sum, struct vram_model_layer *layer,
                       const struct vr_tensor *tensor) {
    bool k = ends_with(tensor->name, "k_proj.weight") || ends_with(tensor->name, ".wk.weight");
    bool v = ends_with(tensor->name, "v_proj.weight") || ends_with(tensor->name, ".wv.weight");
    uint32_t *elements = k ? &layer->k_elements : v ? &layer->v_elements : NULL;
    if (!elements || tensor->rows == 0 || tensor->rows > UINT32_MAX) {
        return;
    }
    if (!sum->layers_known) {
        *elements = (uint32_t)tensor->rows;
    } else if (*elements == tensor->rows) {
        sum->caches_confirmed++;
    }
}

static bool add_to_layer(struct vr_weight_sum *sum, uint64_t index,
                         const struct vr_tensor *tensor) {
    static const char *const experts[] = {".experts.", "_exps.", ".experts_"};
    struct vram_model *model = sum->model;
    if (!sum->layers_known && index >= VRAM_MODEL_LAYERS_MAX) {
        return false;
    }
    if (sum->layers_known && index >= model->layer_count) { /* for multi-token prediction */
        add_bytes(sum, &model->other_bytes, tensor->bytes);
        return true;
    }
    struct vram_model_layer *layer = &model->layers[index];
    model->layer_count = index >= model->layer_count ? (uint32_t)index + 1 : model->layer_count;
    add_bytes(sum, &layer->weight_bytes, tensor->bytes);
    add_bytes(sum, &layer->parameters, tensor->parameters);
    if (CONTAINS(tensor->name, experts)) {
        add_bytes(sum, &layer->expert_bytes, tensor->bytes);
        add_bytes(sum, &sum->expert_parameters, tensor->parameters);
    }
    note_cache(sum, layer, tensor);
    return true;
}

bool vr_weight_sum_add(struct vr_weight_sum *sum, const struct vr_tensor *tensor) {
    struct vram_model *model = sum->model;
    uint64_t layer = 0;
    enum tensor_place place = place_of(tensor->name, &layer);
    model->tensors++;
    add_bytes(sum, &model->weight_bytes, tensor->bytes);
    add_bytes(sum, &model->parameters, tensor->parameters);
    for (size_t i = 0; i < VR_WEIGHT_SUM_TYPES; i++) {
        if (vr_tensor_type_at(i) == tensor->type) {
            add_bytes(sum, &sum->type_bytes[i], tensor->bytes);
        }
    }
    switch (place) {
    case PLACE_LAYER:
        return add_to_layer(sum, layer, tensor);
    case PLACE_INPUT:
        add_bytes(sum, &model->input_bytes, tensor->bytes);
        if (model->vocabulary == 0 && tensor->rows > 0) {
            model->vocabulary = tensor->rows;
            model->hidden = model->hidden ? model->hidden : tensor->parameters / tensor->rows;
        }
        break;
    case PLACE_OUTPUT:
        sum->output_seen =
            sum->output_seen || (!strstr(tensor->name, "norm") && !strstr(tensor->name, "ln_f"));
        add_bytes(sum, &model->output_bytes, tensor->bytes);
        break;
    case PLACE_OTHER:
        add_bytes(sum, &model->other_bytes, tensor->bytes);
    }
    return true;
}

bool vr_weight_sum_finish(struct vr_weight_sum *sum) {
    struct vram_model *model = sum->model;
    size_t most = 0;
    for (size_t i = 0; i < VR_WEIGHT_SUM_TYPES; i++) {
        most = sum->type_bytes[i] > sum->type_bytes[most] ? i : most;
    }
    if (sum->type_bytes[most] > 0) {
        vr_text_format(model->weight_type, sizeof model->weight_type, "%s",
                       vr_tensor_type_at(most)->name);
    }
    model->active_parameters = model->parameters;
    if (model->experts > 0 && model->experts_used <= model->experts) {
        uint64_t idle = model->experts - model->experts_used;
        model->active_parameters -= sum->expert_parameters / model->experts * idle;
    }
    model->tied = !sum->output_seen;
    return !sum->overflow;
}
