/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.c: the table of families. Names without any bit are listed too: they are known to be built
 * like Llama, which is only a guess for a name that is missing.
 */
#include "model/family.h"

#include <stddef.h>
#include <string.h>

static const struct vr_family table[] = {
    {.names = "llama granite internlm2 yi deepseek olmo exaone seed_oss"},
    {.names = "mistral mixtral ministral phi3 phimoe", .bits = VR_FAMILY_WINDOWED},
    {.names = "qwen2 qwen2_5_vl qwen2_vl qwen2_5_vl_text", .bits = VR_FAMILY_QKV_BIAS},
    {.names = "qwen2_moe qwen2moe", .bits = VR_FAMILY_QKV_BIAS | VR_FAMILY_SHARED_GATE},
    {.names = "qwen3 qwen3_moe qwen3moe qwen3_vl_text", .bits = VR_FAMILY_HEAD_NORM},
    {.names = "qwen3_next",
     .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_GATED_QUERY | VR_FAMILY_SHARED_GATE},
    {.names = "gemma smollm3", .bits = VR_FAMILY_TIED},
    {.names = "gemma2", .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS, .window_every = 2},
    {.names = "gemma3 gemma3_text",
     .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS | VR_FAMILY_HEAD_NORM,
     .window_every = 6,
     .heads = 8,
     .kv_heads = 4,
     .head_elements = 256,
     .vocabulary = 262208},
    {.names = "deepseek_v2 deepseek2"},
    {.names = "deepseek_v3 kimi_k2 glm4_moe", .bits = VR_FAMILY_ROUTER_FIX},
    {.names = "gpt_oss gpt-oss",
     .bits = VR_FAMILY_QKV_BIAS | VR_FAMILY_O_BIAS | VR_FAMILY_SINKS | VR_FAMILY_EXPERT_BIAS,
     .window_every = 2},
    /* Its files have the output layer, although programs tie it. */
    {.names = "falcon RefinedWeb RefinedWebModel",
     .bits = VR_FAMILY_FALCON | VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM},
    {.names = "cohere", .bits = VR_FAMILY_TIED | VR_FAMILY_ONE_NORM},
    {.names = "cohere2", .bits = VR_FAMILY_TIED | VR_FAMILY_ONE_NORM, .window_every = 4},
    {.names = "starcoder2",
     .bits = VR_FAMILY_TIED | VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_LINEAR_BIAS |
             VR_FAMILY_WINDOWED},
    {.names = "gpt2",
     .bits = VR_FAMILY_TIED | VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_LINEAR_BIAS |
             VR_FAMILY_POSITIONS},
    {.names = "gpt_neox",
     .bits = VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_LINEAR_BIAS},
};

const struct vr_family *vr_family_find(const char *type) {
    size_t bytes = strlen(type);
    for (size_t i = 0; i < sizeof table / sizeof table[0] && bytes > 0; i++) {
        for (const char *at = table[i].names; *at;) {
            size_t one = strcspn(at, " ");
            if (one == bytes && memcmp(at, type, bytes) == 0) {
                return &table[i];
            }
            at += one + (at[one] == ' ');
        }
    }
    return NULL;
}
