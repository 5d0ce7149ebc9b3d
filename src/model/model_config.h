/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.h: the keys of a config.json of Hugging Face, and the model that it describes.
 */
#ifndef VR_MODEL_CONFIG_H
#define VR_MODEL_CONFIG_H

#include "vram/model.h"

/* Numbers and switches: X(name, the key with its other spellings, separated by blanks). */
#define VR_CONFIG_MAP(X)                                                                           \
    X(HIDDEN, "hidden_size n_embd d_model")                                                        \
    X(INTERMEDIATE, "intermediate_size ffn_hidden_size n_inner")                                   \
    X(LAYERS, "num_hidden_layers n_layer num_layers n_layers")                                     \
    X(HEADS, "num_attention_heads n_head num_heads")                                               \
    X(KV_HEADS, "num_key_value_heads num_kv_heads n_head_kv")                                      \
    X(HEAD_DIM, "head_dim attention_head_dim")                                                     \
    X(VOCABULARY, "vocab_size")                                                                    \
    X(POSITIONS, "max_position_embeddings n_positions seq_length")                                 \
    X(WINDOW, "sliding_window sliding_window_size")                                                \
    X(WINDOW_PATTERN, "sliding_window_pattern _sliding_window_pattern")                            \
    X(EXPERTS, "num_local_experts num_experts n_routed_experts")                                   \
    X(EXPERTS_USED, "num_experts_per_tok experts_per_token num_experts_per_token")                 \
    X(EXPERT_INTERMEDIATE, "moe_intermediate_size")                                                \
    X(SHARED_EXPERTS, "n_shared_experts num_shared_experts")                                       \
    X(SHARED_INTERMEDIATE, "shared_expert_intermediate_size")                                      \
    X(DENSE_FIRST, "first_k_dense_replace")                                                        \
    X(EXPERT_EVERY, "moe_layer_freq")                                                              \
    X(SPARSE_STEP, "decoder_sparse_step")                                                          \
    X(Q_RANK, "q_lora_rank")                                                                       \
    X(KV_RANK, "kv_lora_rank")                                                                     \
    X(NOPE_DIM, "qk_nope_head_dim")                                                                \
    X(ROPE_DIM, "qk_rope_head_dim")                                                                \
    X(V_DIM, "v_head_dim")                                                                         \
    X(FULL_EVERY, "full_attention_interval")                                                       \
    X(LINEAR_KEY_HEADS, "linear_num_key_heads")                                                    \
    X(LINEAR_VALUE_HEADS, "linear_num_value_heads")                                                \
    X(LINEAR_KEY_DIM, "linear_key_head_dim")                                                       \
    X(LINEAR_VALUE_DIM, "linear_value_head_dim")                                                   \
    X(LINEAR_KERNEL, "linear_conv_kernel_dim")                                                     \
    X(PATCH, "patch_size")                                                                         \
    X(IMAGE, "image_size")                                                                         \
    X(CHANNELS, "num_channels in_channels")                                                        \
    X(TIED, "tie_word_embeddings")                                                                 \
    X(ATTENTION_BIAS, "attention_bias qkv_bias")                                                   \
    X(USE_WINDOW, "use_sliding_window")                                                            \
    X(MULTI_QUERY, "multi_query")                                                                  \
    X(NEW_DECODER, "new_decoder_architecture")                                                     \
    X(PARALLEL, "parallel_attn")                                                                   \
    X(BIAS, "bias use_bias")                                                                       \
    X(QUANT_BITS, "bits")                                                                          \
    X(QUANT_GROUP, "group_size")                                                                   \
    X(QUANT_4BIT, "load_in_4bit")                                                                  \
    X(QUANT_8BIT, "load_in_8bit")

enum vr_config_key {
#define VR_CONFIG_ENUM(name, keys) VR_CONFIG_##name,
    VR_CONFIG_MAP(VR_CONFIG_ENUM)
#undef VR_CONFIG_ENUM
        VR_CONFIG_KEYS
};

/* Which tokens a layer attends to. */
enum vr_attention {
    VR_ATTENTION_UNTOLD,
    VR_ATTENTION_FULL,
    VR_ATTENTION_SLIDING,
    VR_ATTENTION_LINEAR, /* a state instead of a cache */
    VR_ATTENTION_OTHER   /* Mamba, and anything else */
};

/* One object of the file. */
struct vr_config_part {
    vram_value values[VR_CONFIG_KEYS]; /* switches are 0 and 1; null and other values are unknown */
    char type[64];                     /* model_type */
    char dtype[24];                    /* torch_dtype; "" if missing */
    char quant[24];                    /* quant_method */
};

struct vr_config {
    struct vr_config_part text;   /* the language model: text_config over the outermost object */
    struct vr_config_part vision; /* vision_config */
    struct vr_config_part quant;  /* quantization_config */
    bool has_vision, has_quant;
    uint32_t layer_type_count;                  /* entries of layer_types that are set */
    uint8_t layer_types[VRAM_MODEL_LAYERS_MAX]; /* enum vr_attention */
    uint8_t mlp_only[VRAM_MODEL_LAYERS_MAX];    /* 1: no experts, whatever the rule says */
};

/* Reads config.json from memory. VRAM_ERR_CORRUPT: invalid JSON; VRAM_ERR_INVALID: JSON that does
   not describe a model. */
vram_status vr_config_read(const char *text, size_t bytes, struct vr_config *config);

/* Fills everything of `model` that a config has, except the weights: dimensions, and what layers
   cache. */
vram_status vr_config_shape(const struct vr_config *config, struct vram_model *model);

/* Counts the parameters and the bytes of each part, in `weight_type` or as the config says. After
   vr_config_shape. */
vram_status vr_config_weights(const struct vr_config *config, const char *weight_type,
                              struct vram_model *model);

/* The value, or `other` if the config does not have it. */
static inline uint64_t vr_config_get(const struct vr_config_part *part, enum vr_config_key key,
                                     uint64_t other) {
    return part->values[key].known ? part->values[key].value : other;
}

#endif
