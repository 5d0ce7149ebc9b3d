/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.h: the keys of a config.json of Hugging Face, and the model that it describes.
 */
#ifndef VR_MODEL_CONFIG_H
#define VR_MODEL_CONFIG_H

#include "model/quantization.h"

#include "vram/model.h"

/* Numbers and switches: X(name, the key with its other spellings, separated by blanks). EXPANSION,
   which need not be a whole number, is in millionths. */
#define VR_CONFIG_MAP(X)                                                                           \
    X(HIDDEN, "hidden_size n_embd d_model n_embed dim vt_hidden_size")                             \
    X(INTERMEDIATE, "intermediate_size ffn_hidden_size n_inner d_ff ffn_dim hidden_dim "           \
                    "decoder_ffn_dim vt_intermediate_size ff_intermediate_size")                   \
    X(DENSE_INTERMEDIATE, "intermediate_size_mlp dense_intermediate_size")                         \
    X(EXPANSION, "expansion_ratio mlp_ratio")                                                      \
    X(LAYERS, "num_hidden_layers n_layer num_layers n_layers depth vt_num_hidden_layers")          \
    X(ENCODER_LAYERS, "encoder_layers")                                                            \
    X(DECODER_LAYERS, "decoder_layers num_decoder_layers")                                         \
    X(HEADS, "num_attention_heads n_head num_heads n_heads decoder_attention_heads")               \
    X(KV_HEADS, "num_key_value_heads num_kv_heads n_head_kv num_attention_groups "                 \
                "multi_query_group_num")                                                           \
    X(HEAD_DIM, "head_dim attention_head_dim d_kv kv_channels")                                    \
    X(VOCABULARY, "vocab_size padded_vocab_size")                                                  \
    X(POSITIONS, "max_position_embeddings n_positions seq_length max_seq_len "                     \
                 "max_target_positions model_max_length")                                          \
    X(SOURCE_POSITIONS, "max_source_positions")                                                    \
    X(TOKEN_TYPES, "type_vocab_size")                                                              \
    X(MEL_BINS, "num_mel_bins")                                                                    \
    X(WINDOW, "sliding_window sliding_window_size attention_chunk_size local_attention")           \
    X(WINDOW_PATTERN, "sliding_window_pattern _sliding_window_pattern "                            \
                      "global_attn_every_n_layers no_rope_layer_interval")                         \
    X(SLIDING_HEADS, "swa_num_attention_heads num_sliding_attention_heads")                        \
    X(SLIDING_KV_HEADS, "swa_num_key_value_heads")                                                 \
    X(SLIDING_HEAD_DIM, "swa_head_dim")                                                            \
    X(SLIDING_V_DIM, "swa_v_head_dim")                                                             \
    X(SLIDING_SINKS, "add_swa_attention_sink_bias")                                                \
    X(FULL_SINKS, "add_full_attention_sink_bias")                                                  \
    X(FULL_HEAD_DIM, "global_head_dim")                                                            \
    X(FULL_KV_HEADS, "num_global_key_value_heads")                                                 \
    X(KEYS_ARE_VALUES, "attention_k_eq_v")                                                         \
    X(SHARED_KV_LAYERS, "num_kv_shared_layers")                                                    \
    X(DOUBLE_WIDE, "use_double_wide_mlp")                                                          \
    X(LAYER_INPUT, "hidden_size_per_layer_input")                                                  \
    X(LAYER_VOCABULARY, "vocab_size_per_layer_input")                                              \
    X(ALTUP, "altup_num_inputs")                                                                   \
    X(LAUREL, "laurel_rank")                                                                       \
    X(EXPERTS, "num_local_experts num_experts n_routed_experts moe_num_experts")                   \
    X(EXPERTS_USED, "num_experts_per_tok experts_per_token num_experts_per_token top_k_experts "   \
                    "moe_top_k moe_topk moe_k")                                                    \
    X(EXPERT_INTERMEDIATE, "moe_intermediate_size")                                                \
    X(EXPERT_HIDDEN, "moe_latent_size routed_expert_hidden_size")                                  \
    X(SHARED_EXPERTS, "n_shared_experts num_shared_experts moe_num_shared_experts "                \
                      "num_shared_expert")                                                         \
    X(SHARED_INTERMEDIATE, "shared_expert_intermediate_size moe_shared_expert_intermediate_size "  \
                           "share_expert_dim shared_intermediate_size")                            \
    X(HAS_EXPERTS, "enable_moe_block")                                                             \
    X(DENSE_FIRST, "first_k_dense_replace moe_layer_start_index")                                  \
    X(EXPERT_EVERY, "moe_layer_freq moe_layer_interval")                                           \
    X(SPARSE_STEP, "decoder_sparse_step interleave_moe_layer_step")                                \
    X(Q_RANK, "q_lora_rank share_q_dim")                                                           \
    X(KV_RANK, "kv_lora_rank")                                                                     \
    X(NOPE_DIM, "qk_nope_head_dim")                                                                \
    X(ROPE_DIM, "qk_rope_head_dim")                                                                \
    X(V_DIM, "v_head_dim")                                                                         \
    X(O_RANK, "o_lora_rank")                                                                       \
    X(O_GROUPS, "o_groups")                                                                        \
    X(OUTPUT_GATE, "mla_use_output_gate")                                                          \
    X(INDEX_HEADS, "index_n_heads sparse_num_index_heads")                                         \
    X(INDEX_DIM, "index_head_dim sparse_index_dim")                                                \
    X(STREAMS, "hc_mult")                                                                          \
    X(FULL_EVERY, "full_attention_interval")                                                       \
    X(LINEAR_KEY_HEADS, "linear_num_key_heads linear_num_heads")                                   \
    X(LINEAR_VALUE_HEADS, "linear_num_value_heads")                                                \
    X(LINEAR_KEY_DIM, "linear_key_head_dim linear_head_dim")                                       \
    X(LINEAR_VALUE_DIM, "linear_value_head_dim")                                                   \
    X(LINEAR_KERNEL, "linear_conv_kernel_dim short_conv_kernel_size")                              \
    X(FULL_RANK_GATE, "use_full_rank_gate")                                                        \
    X(STATE_HEADS, "mamba_num_heads mamba_n_heads")                                                \
    X(STATE_HEAD_DIM, "mamba_head_dim mamba_d_head")                                               \
    X(STATE_GROUPS, "n_groups mamba_n_groups")                                                     \
    X(STATE_SIZE, "ssm_state_size state_size mamba_d_state")                                       \
    X(STATE_KERNEL, "conv_kernel mamba_d_conv")                                                    \
    X(STATE_EXPAND, "expand mamba_expand")                                                         \
    X(STATE_RANK, "time_step_rank mamba_dt_rank")                                                  \
    X(ATTENTION_EVERY, "attn_layer_period")                                                        \
    X(ATTENTION_OFFSET, "attn_layer_offset")                                                       \
    X(EXPERT_PERIOD, "expert_layer_period")                                                        \
    X(EXPERT_OFFSET, "expert_layer_offset")                                                        \
    X(PATCH, "patch_size")                                                                         \
    X(IMAGE, "image_size")                                                                         \
    X(CHANNELS, "num_channels in_channels in_chans")                                               \
    X(EMBED_DIM, "embed_dim")                                                                      \
    X(OUT_HIDDEN, "out_hidden_size vision_output_dim")                                             \
    X(MERGE, "spatial_merge_size merge_kernel_size")                                               \
    X(TEMPORAL, "temporal_patch_size")                                                             \
    X(PATCH_POSITIONS, "num_position_embeddings position_embedding_size num_patches")              \
    X(PATCH_SIDE, "init_pos_emb_height pos_emb_height")                                            \
    X(PROJECTOR_IN, "projector_input_dim")                                                         \
    X(PROJECTOR_WIDTH, "projection_intermediate_size")                                             \
    X(GLOBAL_LAYERS, "num_global_layers")                                                          \
    X(TILES, "max_num_tiles")                                                                      \
    X(KERNEL, "conv_kernel_size conf_conv_kernel_size")                                            \
    X(AUDIO_OUT, "output_proj_dims")                                                               \
    X(PROJECTION, "projection_dim")                                                                \
    X(TIED, "tie_word_embeddings")                                                                 \
    X(ATTENTION_BIAS, "attention_bias qkv_bias add_qkv_bias use_qkv_bias")                         \
    X(O_BIAS, "attention_out_bias")                                                                \
    X(MLP_BIAS, "mlp_bias")                                                                        \
    X(OUTPUT_BIAS, "lm_head_bias")                                                                 \
    X(HEAD_NORM, "use_qk_norm qk_layernorm")                                                       \
    X(USE_WINDOW, "use_sliding_window")                                                            \
    X(MULTI_QUERY, "multi_query")                                                                  \
    X(NEW_DECODER, "new_decoder_architecture")                                                     \
    X(PARALLEL, "parallel_attn")                                                                   \
    X(BIAS, "bias use_bias")                                                                       \
    X(GATED, "feed_forward_proj is_gated_act")                                                     \
    X(DEEPSTACK, "deepstack_visual_indexes")

enum vr_config_key {
#define VR_CONFIG_ENUM(name, keys) VR_CONFIG_##name,
    VR_CONFIG_MAP(VR_CONFIG_ENUM)
#undef VR_CONFIG_ENUM
        VR_CONFIG_KEYS
};

/* What a layer does with other tokens. */
enum vr_attention {
    VR_ATTENTION_UNTOLD,
    VR_ATTENTION_FULL,
    VR_ATTENTION_SLIDING,
    VR_ATTENTION_LINEAR, /* a state instead of a cache: linear attention, Mamba */
    VR_ATTENTION_IMAGE,  /* to an image, whose keys and values do not grow with the text */
    VR_ATTENTION_NONE,
    VR_ATTENTION_MATRIX, /* one matrix in its place */
    VR_ATTENTION_OTHER   /* anything else: not counted */
};

/* What a layer does with each token alone. */
enum vr_layer_feed { VR_FEED_UNTOLD, VR_FEED_DENSE, VR_FEED_EXPERTS, VR_FEED_NONE, VR_FEED_MATRIX };

/* What lists of the config say about one layer; 0: nothing. */
struct vr_config_layer {
    uint8_t attention;    /* enum vr_attention */
    uint8_t feed;         /* enum vr_layer_feed */
    bool indexed;         /* attention to tokens that an indexer chooses */
    uint32_t ratio;       /* tokens that are cached as one, and 0: only those of the window */
    uint32_t width;       /* of the feed-forward block */
    uint32_t width_parts; /* the same as a multiple of the hidden size, in millionths */
    uint32_t group;       /* queries for each head of keys */
    uint32_t heads, kv_heads, head; /* where they differ from those of other layers */
};

/* One object of the file. */
struct vr_config_part {
    vram_value values[VR_CONFIG_KEYS]; /* switches are 0 and 1; null and other values are unknown */
    char type[64];                     /* model_type */
    char dtype[24];                    /* torch_dtype; "" if missing */
};

struct vr_config {
    struct vr_config_part text;   /* the language model: text_config over the outermost object */
    struct vr_config_part vision; /* vision_config */
    struct vr_config_part audio;  /* audio_config */
    char outer_type[64];          /* model_type of the outermost object */
    char architecture[64];        /* the first of architectures */
    char class_name[64];          /* _class_name, which diffusion models have */
    char expert_type[24];         /* expert_dtype */
    bool has_vision, has_audio;
    bool experts_listed; /* a list names the layers with experts: all others have none */
    uint32_t listed;     /* layers whose kinds a list names */
    struct vr_config_layer layers[VRAM_MODEL_LAYERS_MAX];
    struct vr_quantization quantization; /* last: its lists are not cleared */
};

/* Reads config.json from memory. VRAM_ERR_CORRUPT: invalid JSON; VRAM_ERR_INVALID: JSON that does
   not describe a model. */
vram_status vr_config_read(const char *text, size_t bytes, struct vr_config *config);

/* Fills everything of `model` that a config has, except the weights: dimensions, and what layers
   cache. VRAM_ERR_UNSUPPORTED: it is not a language model. */
vram_status vr_config_shape(struct vr_config *config, struct vram_model *model);

/* Counts the parameters and the bytes of each part, in `weight_type` or as the config says. After
   vr_config_shape. */
vram_status vr_config_weights(struct vr_config *config, const char *weight_type,
                              struct vram_model *model);

/* The spellings of a key, separated by blanks. */
const char *vr_config_key_names(enum vr_config_key key);

/* Notes in model->defaults what was taken for a key that config.json does not have; of `key` the
   first word counts. */
void vr_default_name(struct vram_model *model, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The value, or `other` if the config does not have it. */
static inline uint64_t vr_config_get(const struct vr_config_part *part, enum vr_config_key key,
                                     uint64_t other) {
    return part->values[key].known ? part->values[key].value : other;
}

#endif
