/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_tower.c: the towers of a model, for images and for sound, and the projectors that lead
 * from them to the language model.
 */
#include "model/config_parts.h"

#include <string.h>

/* Dimensions of a tower. */
struct tower_shape {
    uint32_t bits; /* of vr_tower_bit */
    uint64_t hidden, width, layers;
    uint64_t patch, patches, head; /* side of a patch; patches of an image; width of a head */
    uint64_t merged;               /* numbers of the patches that are merged into one */
    uint64_t out;                  /* width of the language model's side */
};

static const struct vr_tower like_siglip = {.names = "",
                                            .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM |
                                                    VR_TOWER_PATCH_BIAS | VR_TOWER_POSITIONS |
                                                    VR_TOWER_POST_NORM};

static void matrix_with_bias(struct vr_part_sum *part, const char *block, const char *name,
                             uint64_t rows, uint64_t columns, bool bias) {
    vr_matrix_add(part, block, name, rows, columns);
    VR_NUMBERS_ADD(part, rows, bias);
}

/* The value in vision_config, or else the tower's own. */
static uint64_t tower_get(const struct vr_config_part *vision, const struct vr_tower *tower,
                          enum vr_config_key key, uint64_t other) {
    size_t most = sizeof tower->defaults / sizeof tower->defaults[0];
    for (size_t i = 0; i < most && tower->defaults[i].value; i++) {
        other = tower->defaults[i].key == key ? tower->defaults[i].value : other;
    }
    return vr_config_get(vision, key, other);
}

static struct tower_shape tower_shape_of(const struct vr_config_part *vision,
                                         const struct vr_tower *tower, uint64_t hidden) {
    struct tower_shape shape = {.bits = tower->bits};
    uint64_t own = tower_get(vision, tower, VR_CONFIG_HIDDEN, 0);
    uint64_t merge = vr_config_get(vision, VR_CONFIG_MERGE, 2);
    uint64_t heads = vr_config_get(vision, VR_CONFIG_HEADS, 1);
    uint64_t side = vr_config_get(vision, VR_CONFIG_PATCH_SIDE, 0);
    shape.hidden = vr_config_get(vision, VR_CONFIG_EMBED_DIM, own); /* then `own` is the output */
    shape.width =
        tower_get(vision, tower, VR_CONFIG_INTERMEDIATE, vr_expanded_width(vision, shape.hidden));
    bool glm = tower->projector == VR_PROJECTOR_GLM;
    if (glm && !vision->values[VR_CONFIG_PROJECTOR_WIDTH].known) { /* intermediate_size is its */
        shape.width = vr_config_get(vision, VR_CONFIG_OUT_HIDDEN, shape.width);
    }
    shape.layers = tower_get(vision, tower, VR_CONFIG_LAYERS, 0) +
                   vr_config_get(vision, VR_CONFIG_GLOBAL_LAYERS, 0);
    shape.patch = tower_get(vision, tower, VR_CONFIG_PATCH, 0);
    side = side          ? side
           : shape.patch ? tower_get(vision, tower, VR_CONFIG_IMAGE, 0) / shape.patch
                         : 0;
    shape.patches = vr_config_get(vision, VR_CONFIG_PATCH_POSITIONS, side * side);
    shape.head = vr_config_get(vision, VR_CONFIG_HEAD_DIM, heads ? shape.hidden / heads : 0);
    shape.merged = merge * merge > UINT32_MAX ? UINT32_MAX : merge * merge * shape.hidden;
    shape.out = glm || tower->projector == VR_PROJECTOR_MERGER
                    ? vr_config_get(vision, VR_CONFIG_OUT_HIDDEN, hidden)
                    : hidden;
    return shape;
}

static void layer_add(struct vr_part_sum *part, const struct tower_shape *shape) {
    uint64_t hidden = shape->hidden, width = shape->width;
    bool bias = (shape->bits & VR_TOWER_BIAS) != 0, gated = (shape->bits & VR_TOWER_GATED) != 0;
    bool bias_norm = (shape->bits & VR_TOWER_LAYER_NORM) != 0;
    bool mlp_bias = bias || (shape->bits & VR_TOWER_MLP_BIAS);
    matrix_with_bias(part, "attn", "qkv", 3 * hidden, hidden, bias);
    matrix_with_bias(part, "attn", "proj", hidden, hidden, bias);
    matrix_with_bias(part, "mlp", "gate_proj", gated ? width : 0, hidden, mlp_bias);
    matrix_with_bias(part, "mlp", "fc1", width, hidden, mlp_bias);
    matrix_with_bias(part, "mlp", "fc2", hidden, width, mlp_bias);
    VR_NUMBERS_ADD(part, shape->bits & VR_TOWER_FOUR_NORMS ? 4 : 2, hidden, bias_norm ? 2 : 1);
    VR_NUMBERS_ADD(part, 2, shape->head, (shape->bits & VR_TOWER_HEAD_NORM) != 0);
}

/* A norm, and two matrices over the patches that are merged. */
static void merger_add(struct vr_part_sum *part, const struct tower_shape *shape, uint64_t norm) {
    matrix_with_bias(part, "merger", "linear_fc1", shape->merged, shape->merged, true);
    matrix_with_bias(part, "merger", "linear_fc2", shape->out, shape->merged, true);
    VR_NUMBERS_ADD(part, norm, shape->bits & VR_TOWER_LAYER_NORM ? 2 : 1);
}

/* GLM's: four patches become one by a convolution, then a gated block as wide as the language
   model's. */
static void glm_add(const struct vr_config_part *vision, const struct tower_shape *shape,
                    struct vr_part_sum *part) {
    uint64_t out = shape->out, width = vr_config_get(vision, VR_CONFIG_INTERMEDIATE, 0);
    width = vr_config_get(vision, VR_CONFIG_PROJECTOR_WIDTH, width);
    VR_NUMBERS_ADD(part, shape->merged + 1, out);
    vr_matrix_add(part, "merger", "proj", out, out);
    vr_matrix_add(part, "merger", "gate_up_proj", 2 * width, out);
    vr_matrix_add(part, "merger", "down_proj", out, width);
    VR_NUMBERS_ADD(part, 2, out);
}

/* Gemma 3n's: from the tower's width to the language model's, with 128 tokens of its own. */
static void embedder_add(struct vr_part_sum *part, uint64_t width, uint64_t out) {
    VR_NUMBERS_ADD(part, 128 + 2, width);
    vr_matrix_add(part, "embedder", "embedding_projection", out, width);
}

static void projector_add(const struct vr_config *config, enum vr_projector kind,
                          const struct tower_shape *shape, struct vr_part_sum *part) {
    const struct vr_config_part *vision = &config->vision;
    uint64_t hidden = shape->hidden, out = shape->out;
    uint64_t middle = vr_config_get(vision, VR_CONFIG_PROJECTOR_IN, 4096);
    uint64_t shared = vr_config_get(&config->text, VR_CONFIG_PROJECTION, 512);
    switch (kind) {
    case VR_PROJECTOR_NORM_MATRIX:
        VR_NUMBERS_ADD(part, hidden);
        vr_matrix_add(part, "multi_modal_projector", "linear", out, hidden);
        break;
    case VR_PROJECTOR_MATRIX:
        vr_matrix_add(part, "multi_modal_projector", "linear", out, hidden);
        VR_NUMBERS_ADD(part, out, (shape->bits & VR_TOWER_BIAS) != 0);
        break;
    case VR_PROJECTOR_TWO:
        matrix_with_bias(part, "multi_modal_projector", "linear_1", out, hidden, true);
        matrix_with_bias(part, "multi_modal_projector", "linear_2", out, out, true);
        break;
    case VR_PROJECTOR_MERGER:
        merger_add(part, shape, hidden);
        for (uint64_t i = 0; i < vr_smaller(vr_config_get(vision, VR_CONFIG_DEEPSTACK, 0), 64);
             i++) {
            merger_add(part, shape, shape->merged);
        }
        break;
    case VR_PROJECTOR_MISTRAL:
        VR_NUMBERS_ADD(part, hidden);
        vr_matrix_add(part, "patch_merger", "merging_layer", hidden, shape->merged);
        vr_matrix_add(part, "multi_modal_projector", "linear_1", out, hidden);
        vr_matrix_add(part, "multi_modal_projector", "linear_2", out, out);
        break;
    case VR_PROJECTOR_GLM:
        glm_add(vision, shape, part);
        break;
    case VR_PROJECTOR_LLAMA3: { /* an image is tiled in one of eight ways, or not */
        uint64_t tiles = 9 * vr_config_get(vision, VR_CONFIG_TILES, 4);
        VR_NUMBERS_ADD(part, tiles, shape->patches + 1 + 2, hidden);
        matrix_with_bias(part, "multi_modal_projector", "linear", out,
                         vr_config_get(vision, VR_CONFIG_OUT_HIDDEN, hidden), true);
        break;
    }
    case VR_PROJECTOR_MINIMAX:
        matrix_with_bias(part, "multi_modal_projector", "linear_1", out, hidden, true);
        matrix_with_bias(part, "multi_modal_projector", "linear_2", out, out, true);
        matrix_with_bias(part, "multi_modal_projector", "merge_linear_1", out,
                         hidden ? shape->merged / hidden * out : 0, true);
        matrix_with_bias(part, "multi_modal_projector", "merge_linear_2", out, out, true);
        break;
    case VR_PROJECTOR_STEP: /* each of two convolutions halves the sides and doubles the width */
        VR_NUMBERS_ADD(part, 2, hidden, 9 * hidden + 1);
        VR_NUMBERS_ADD(part, 4, hidden, 18 * hidden + 1);
        VR_NUMBERS_ADD(part, 2, hidden, shape->layers); /* scales of blocks */
        vr_matrix_add(part, "multi_modal_projector", "linear", out, 4 * hidden);
        break;
    case VR_PROJECTOR_LLAMA4:
        vr_matrix_add(part, "vision_adapter", "fc1", middle, shape->width);
        vr_matrix_add(part, "vision_adapter", "fc2", middle, middle);
        vr_matrix_add(part, "multi_modal_projector", "linear_1", out,
                      vr_config_get(vision, VR_CONFIG_OUT_HIDDEN, middle));
        break;
    case VR_PROJECTOR_PHI:
        matrix_with_bias(part, "img_projection", "0", out, shape->merged, true);
        matrix_with_bias(part, "img_projection", "2", out, out, true);
        VR_NUMBERS_ADD(part, 2, shape->merged); /* what separates rows and images */
        break;
    case VR_PROJECTOR_EMBEDDER:
        embedder_add(part, hidden, out);
        break;
    case VR_PROJECTOR_CLIP: /* both towers end in the same space */
        vr_matrix_add(part, "visual_projection", "weight", shared, hidden);
        vr_matrix_add(part, "text_projection", "weight", shared, out);
        break;
    case VR_PROJECTOR_SIGLIP:
        layer_add(part, shape);
        break;
    }
}

static bool vision_add(const struct vr_config *config, const struct vram_model *model,
                       struct vr_part_sum *part) {
    const struct vr_config_part *vision = &config->vision;
    const struct vr_tower *tower = vr_tower_find(config->outer_type);
    tower = tower ? tower : vr_tower_find(vision->type);
    bool known = tower != NULL;
    tower = known ? tower : &like_siglip;
    struct tower_shape shape = tower_shape_of(vision, tower, model->hidden);
    uint64_t norm = shape.hidden * (shape.bits & VR_TOWER_LAYER_NORM ? 2 : 1);
    uint64_t class_patch = (shape.bits & VR_TOWER_CLASS) != 0;
    uint64_t layers = vr_smaller(shape.layers, VRAM_MODEL_LAYERS_MAX);
    VR_NUMBERS_ADD(part, shape.patch, shape.patch, shape.hidden,
                   vr_config_get(vision, VR_CONFIG_CHANNELS, 3),
                   tower_get(vision, tower, VR_CONFIG_TEMPORAL, 1));
    VR_NUMBERS_ADD(part, shape.hidden, (shape.bits & VR_TOWER_PATCH_BIAS) != 0);
    VR_NUMBERS_ADD(part, shape.patches + class_patch, shape.hidden,
                   (shape.bits & VR_TOWER_POSITIONS) != 0);
    VR_NUMBERS_ADD(part, 2, shape.patches, shape.hidden, (shape.bits & VR_TOWER_PLANE) != 0);
    VR_NUMBERS_ADD(part, class_patch, shape.hidden);
    VR_NUMBERS_ADD(part, norm, (shape.bits & VR_TOWER_PRE_NORM) != 0);
    VR_NUMBERS_ADD(part, norm, (shape.bits & VR_TOWER_POST_NORM) != 0);
    for (uint64_t i = 0; i < layers; i++) {
        layer_add(part, &shape);
    }
    projector_add(config, tower->projector, &shape, part);
    if (tower->fixed) {
        VR_NUMBERS_ADD(part, tower->fixed);
        return shape.hidden > 0;
    }
    /* A tower that config.json describes by other keys was not counted. */
    return known && shape.hidden && layers == shape.layers && layers && shape.patch;
}

/* -------------------------------------------------------------------- audio */

/* Gemma's: a conformer. A layer has two feed-forward blocks four times as wide, attention with a
   matrix for relative positions, and a gated convolution. */
static bool audio_add(const struct vr_config *config, const struct vram_model *model,
                      struct vr_part_sum *part) {
    const struct vr_config_part *audio = &config->audio;
    bool third = strcmp(audio->type, "gemma3n_audio") == 0;
    uint64_t hidden = vr_config_get(audio, VR_CONFIG_HIDDEN, third ? 1536 : 1024);
    uint64_t layers = vr_config_get(audio, VR_CONFIG_LAYERS, 12);
    uint64_t heads = vr_config_get(audio, VR_CONFIG_HEADS, 8);
    uint64_t out = vr_config_get(audio, VR_CONFIG_AUDIO_OUT, 1536);
    enum { FIRST = 128, SECOND = 32, SIDES = 9, FREQUENCIES = 32 }; /* of two convolutions */
    if (!third && strcmp(audio->type, "gemma4_audio") != 0) {
        return false;
    }
    VR_NUMBERS_ADD(part, layers, 16 + 5 + 3, hidden, hidden);
    VR_NUMBERS_ADD(part, layers, 9 + vr_config_get(audio, VR_CONFIG_KERNEL, 5), hidden);
    VR_NUMBERS_ADD(part, layers, heads ? hidden / heads : 0);
    VR_NUMBERS_ADD(part, FIRST + SECOND + FIRST * SIDES + FIRST * SECOND * SIDES);
    VR_NUMBERS_ADD(part, SECOND, FREQUENCIES, hidden);
    if (third) {
        embedder_add(part, hidden, model->hidden);
    } else {
        VR_NUMBERS_ADD(part, hidden + 1, out);
        VR_NUMBERS_ADD(part, out, model->hidden);
    }
    return true;
}

bool vr_towers_add(const struct vr_config *config, const struct vram_model *model,
                   struct vr_part_sum *part) {
    bool vision = !config->has_vision || vision_add(config, model, part);
    bool audio = !config->has_audio || audio_add(config, model, part);
    return vision && audio;
}
