/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_parts.h: the parts that a model is built of, by its config and its family: one plan for
 * each layer, and the tensors of its blocks.
 *
 * All dimensions are below 2^32 (model_config.c); products are checked like sums (sum.h).
 */
#ifndef VR_CONFIG_PARTS_H
#define VR_CONFIG_PARTS_H

#include "model/family.h"
#include "model/sum.h"

/* What one layer has. */
struct vr_layer_plan {
    enum vr_mixer mixer;
    enum vr_mixer beside; /* a second mixer, or VR_MIXER_NONE */
    enum vr_layer_feed feed;
    bool no_cache;             /* attends to something else than the text so far */
    bool cross;                /* a second attention, to the encoder */
    bool sliding;              /* attention looks back `window` tokens */
    bool sinks;                /* a number for each head of queries */
    bool shares_cache;         /* keys and values are those of an earlier layer */
    bool keys_are_values;      /* one matrix makes both */
    uint64_t heads, kv_heads;  /* of queries; of keys and values */
    uint64_t head, value_head; /* width of a head of keys, and of values */
    uint64_t width;            /* of the feed-forward block */
    uint64_t window;
    uint64_t ratio; /* VR_MIXER_COMPRESSED: tokens cached as one; 0: those in the window alone */
    bool indexed;   /* so few that an indexer chooses among them; VR_MIXER_HEADS: one does */
};

/* The width of a feed-forward block that the config gives as a multiple of the hidden size; four
   times if it does not. */
static inline uint64_t vr_expanded_width(const struct vr_config_part *part, uint64_t hidden) {
    uint64_t ratio = vr_config_get(part, VR_CONFIG_EXPANSION, 4000000);
    return (ratio * hidden + 500000) / 1000000; /* both below 2^32 */
}

struct vr_layer_plan vr_layer_plan_make(const struct vr_config *config,
                                        const struct vr_family *family,
                                        const struct vram_model *model, uint32_t index);

/* Numbers of parameters: those in the type of the model, and those that are packed. */
struct vr_number_sum {
    struct vr_sum plain, packed, packed_bytes;
};

/* The tensors of a part of the model. */
struct vr_part_sum {
    struct vr_quantization *quantization; /* NULL: nothing is packed */
    uint32_t layer;
    struct vr_number_sum numbers, experts; /* experts: those that a router chooses from */
    struct vr_sum scheme_bytes[VR_SCHEMES_MAX];
};

/* A vector, an embedding, or any other tensor that is never packed: a product of dimensions. */
#define VR_NUMBERS_ADD(part, ...)                                                                  \
    vr_sum_add(&(part)->numbers.plain, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),       \
               (uint64_t[]){__VA_ARGS__})

/* A matrix of the block `block`: "self_attn", "q_proj". */
void vr_matrix_add(struct vr_part_sum *part, const char *block, const char *name, uint64_t rows,
                   uint64_t columns);

/* The same matrix of each of `count` experts. */
void vr_experts_add(struct vr_part_sum *part, const char *block, const char *name, uint64_t count,
                    uint64_t rows, uint64_t columns);

/* What the blocks of a layer are counted by. */
struct vr_block_count {
    const struct vr_config *config;
    const struct vr_config_part *text;
    const struct vr_family *family;
    const struct vram_model *model;
    struct vr_layer_plan plan;
    struct vr_part_sum *part;
};

/* The mixer of a layer, without the norms around it. */
void vr_mixer_add(const struct vr_block_count *count);

/* The feed-forward block or the experts of a layer. */
void vr_feed_add(const struct vr_block_count *count);

/* Vision and audio towers with their projectors. False: one is not known, and was counted as if it
   were SigLIP, or not at all. */
bool vr_towers_add(const struct vr_config *config, const struct vram_model *model,
                   struct vr_part_sum *part);

/* Numbers that a layer keeps for a sequence: the states of its mixers that have one. */
struct vr_sum vr_mixer_state(const struct vr_config_part *text, const struct vr_layer_plan *plan,
                             uint64_t hidden);

#endif
