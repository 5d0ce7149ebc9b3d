/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_shape.h: what the metadata of a GGUF file say about a model's dimensions, and what llama.cpp
 * caches for each of its layers.
 */
#ifndef VR_GGUF_SHAPE_H
#define VR_GGUF_SHAPE_H

#include "model/source.h"
#include "vram/model.h"

/* The numbers to read: X(name, end of the key behind "ARCHITECTURE."). */
#define VR_GGUF_MAP(X)                                                                             \
    X(LAYERS, "block_count")                                                                       \
    X(EXTRA_LAYERS, "nextn_predict_layers")                                                        \
    X(CONTEXT, "context_length")                                                                   \
    X(HIDDEN, "embedding_length")                                                                  \
    X(FEED_FORWARD, "feed_forward_length")                                                         \
    X(EXPERT_FEED_FORWARD, "expert_feed_forward_length")                                           \
    X(HEADS, "attention.head_count")                                                               \
    X(KV_HEADS, "attention.head_count_kv")                                                         \
    X(KEY, "attention.key_length")                                                                 \
    X(VALUE, "attention.value_length")                                                             \
    X(WINDOW_KEY, "attention.key_length_swa")                                                      \
    X(WINDOW_VALUE, "attention.value_length_swa")                                                  \
    X(WINDOW, "attention.sliding_window")                                                          \
    X(WINDOW_PATTERN, "attention.sliding_window_pattern")                                          \
    X(SHARED_CACHES, "attention.shared_kv_layers")                                                 \
    X(KV_RANK, "attention.kv_lora_rank")                                                           \
    X(INDEXER_KEY, "attention.indexer.key_length")                                                 \
    X(RECURRENT, "attention.recurrent_layers")                                                     \
    X(ROPE, "rope.dimension_count")                                                                \
    X(EXPERTS, "expert_count")                                                                     \
    X(EXPERTS_USED, "expert_used_count")                                                           \
    X(VOCABULARY, "vocab_size")                                                                    \
    X(FULL_EVERY, "full_attention_interval")                                                       \
    X(SSM_KERNEL, "ssm.conv_kernel")                                                               \
    X(SSM_INNER, "ssm.inner_size")                                                                 \
    X(SSM_STATE, "ssm.state_size")                                                                 \
    X(SSM_GROUPS, "ssm.group_count")                                                               \
    X(KDA_HEAD, "kda.head_dim")                                                                    \
    X(WKV_HEAD, "wkv.head_size")                                                                   \
    X(TOKEN_SHIFTS, "token_shift_count")                                                           \
    X(SHORT_KERNEL, "shortconv.l_cache")

enum vr_gguf_number {
#define VR_GGUF_ENUM(name, key) VR_GGUF_##name,
    VR_GGUF_MAP(VR_GGUF_ENUM)
#undef VR_GGUF_ENUM
        VR_GGUF_NUMBERS
};

struct vr_gguf_shape {
    struct vram_value numbers[VR_GGUF_NUMBERS];
    uint64_t tokens; /* entries of tokenizer.ggml.tokens */
    /* Entries of the arrays below, where the file has arrays. */
    uint32_t kv_head_count, slide_count, recurrent_count, feed_forward_count;
    uint32_t kv_heads[VRAM_MODEL_LAYERS_MAX];
    uint32_t feed_forward[VRAM_MODEL_LAYERS_MAX];
    uint8_t slides[VRAM_MODEL_LAYERS_MAX];    /* 1: the layer has a window */
    uint8_t recurrent[VRAM_MODEL_LAYERS_MAX]; /* 1: the layer has a state instead of a cache */
};

/* The number with that key, behind the architecture; VR_GGUF_NUMBERS if it is not read. */
enum vr_gguf_number vr_gguf_number_find(const char *key);

/* Element `index` of an array of the file. */
void vr_gguf_shape_note(struct vr_gguf_shape *shape, enum vr_gguf_number key, uint64_t index,
                        struct vram_value value);

/* Sets the dimensions and layers of the model, whose architecture is set. `source` is for error
   texts. */
vram_status vr_gguf_shape_apply(const struct vr_gguf_shape *shape, const struct vr_source *source,
                                struct vram_model *model);

#endif
