/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.c: the table of families. Names without any bit are listed too: they are known to be built
 * like Llama, which is only a guess for a name that is missing.
 *
 * Defaults are those of the program that reads the config: inside text_config, files leave out what
 * equals them.
 */
#include "model/family.h"

#include "model/word_list.h"

#define LLAMA_DEFAULTS                                                                             \
    {                                                                                              \
        {VR_CONFIG_HIDDEN, 4096}, {VR_CONFIG_INTERMEDIATE, 11008}, {VR_CONFIG_LAYERS, 32},         \
            {VR_CONFIG_HEADS, 32}, {VR_CONFIG_VOCABULARY, 32000}, {                                \
            VR_CONFIG_POSITIONS, 2048                                                              \
        }                                                                                          \
    }

#define PLAIN_BIASED (VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_LINEAR_BIAS)
#define BERT_BITS    (PLAIN_BIASED | VR_FAMILY_ENCODER | VR_FAMILY_POSITIONS | VR_FAMILY_INPUT_NORM)
#define LATENT_BITS  (VR_FAMILY_ROUTER_FIX | VR_FAMILY_O_BIAS)

static const struct vr_family families[] = {
    /* ------------------------------------------------------------- like Llama */
    {.names =
         "llama internlm2 yi deepseek exaone granite granitemoe granitemoeshared helium cwm mllama "
         "mllama_text_model ernie4_5 solar_open hy_v3 mellum exaone_moe flex_olmo bitnet",
     .bits = VR_FAMILY_O_BIAS,
     .defaults = LLAMA_DEFAULTS},
    {.names = "arcee", .bits = VR_FAMILY_PLAIN_MLP | VR_FAMILY_O_BIAS},
    {.names = "seed_oss", .bits = VR_FAMILY_QKV_BIAS},
    {.names = "mistral ministral ministral3 phi3 phi3_v", .bits = VR_FAMILY_WINDOWED},
    {.names = "mistral4 mistral_large4 mistral_large4_text", .mixer = VR_MIXER_LATENT},
    {.names = "phi3small", .bits = VR_FAMILY_TIED | VR_FAMILY_LAYER_NORM | VR_FAMILY_LINEAR_BIAS},
    {.names = "mixtral", .bits = VR_FAMILY_WINDOWED, .feed = "block_sparse_moe"},
    {.names = "llama4 llama4_text",
     .bits = VR_FAMILY_SHARED_ONE,
     .feed = "feed_forward",
     .window_every = 4,
     .defaults = {{VR_CONFIG_KV_HEADS, 8}, {VR_CONFIG_HEAD_DIM, 128}}},
    {.names = "olmo", .bits = VR_FAMILY_NO_NORM},
    {.names = "olmo2", .bits = VR_FAMILY_WIDE_NORM},
    {.names = "olmo3", .bits = VR_FAMILY_WIDE_NORM, .window_every = 4},
    {.names = "olmoe", .bits = VR_FAMILY_WIDE_NORM},
    {.names = "ernie4_5_moe", .bits = VR_FAMILY_ROUTER_FIX | VR_FAMILY_TIED},
    {.names = "hunyuan_v1_dense hunyuan_v1_moe", .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_TIED},
    {.names = "exaone4", .bits = VR_FAMILY_HEAD_NORM},
    {.names = "smollm3", .bits = VR_FAMILY_TIED},
    {.names = "stablelm", .bits = VR_FAMILY_LAYER_NORM},
    {.names = "cohere", .bits = VR_FAMILY_TIED | VR_FAMILY_ONE_NORM},
    {.names = "cohere2", .bits = VR_FAMILY_TIED | VR_FAMILY_ONE_NORM, .window_every = 4},

    /* -------------------------------------------------------------------- Qwen */
    {.names = "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text mimo",
     .bits = VR_FAMILY_QKV_BIAS},
    {.names = "qwen2_moe qwen2moe", .bits = VR_FAMILY_QKV_BIAS | VR_FAMILY_SHARED_GATE},
    {.names = "qwen3 qwen3_moe qwen3moe qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text",
     .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_O_BIAS},
    {.names = "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text qwen3_6 qwen3_6_text "
              "qwen3_6_moe qwen3_6_moe_text",
     .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_GATED_QUERY | VR_FAMILY_SHARED_GATE,
     .linear = VR_MIXER_DELTA,
     .defaults = {{VR_CONFIG_FULL_EVERY, 4}}},

    /* ------------------------------------------------------------------- Gemma */
    {.names = "gemma vaultgemma", .bits = VR_FAMILY_TIED, .defaults = {{VR_CONFIG_HEAD_DIM, 256}}},
    {.names = "gemma2", .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS, .window_every = 2},
    {.names = "gemma3 gemma3_text",
     .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS | VR_FAMILY_HEAD_NORM,
     .window_every = 6,
     .defaults = {{VR_CONFIG_HEADS, 8},
                  {VR_CONFIG_KV_HEADS, 4},
                  {VR_CONFIG_HEAD_DIM, 256},
                  {VR_CONFIG_VOCABULARY, 262208},
                  {VR_CONFIG_POSITIONS, 131072}}},
    {.names = "gemma3n gemma3n_text",
     .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS | VR_FAMILY_HEAD_NORM,
     .window_every = 5,
     .defaults = {{VR_CONFIG_HEADS, 8},
                  {VR_CONFIG_KV_HEADS, 2},
                  {VR_CONFIG_HEAD_DIM, 256},
                  {VR_CONFIG_VOCABULARY, 262400},
                  {VR_CONFIG_LAYER_VOCABULARY, 262144},
                  {VR_CONFIG_LAYER_INPUT, 256},
                  {VR_CONFIG_SHARED_KV_LAYERS, 15},
                  {VR_CONFIG_ALTUP, 4},
                  {VR_CONFIG_LAUREL, 64}}},
    {.names = "gemma4 gemma4_text",
     .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS | VR_FAMILY_HEAD_NORM | VR_FAMILY_BOTH_FEEDS,
     .experts = "",
     .window_every = 6,
     .defaults = {{VR_CONFIG_HEAD_DIM, 256},
                  {VR_CONFIG_FULL_HEAD_DIM, 512},
                  {VR_CONFIG_VOCABULARY, 262144},
                  {VR_CONFIG_LAYER_VOCABULARY, 262144},
                  {VR_CONFIG_LAYER_INPUT, 256}}},

    {.names = "gemma4_unified gemma4_unified_text",
     .bits = VR_FAMILY_TIED | VR_FAMILY_FOUR_NORMS | VR_FAMILY_HEAD_NORM | VR_FAMILY_BOTH_FEEDS,
     .experts = "",
     .window_every = 6,
     .defaults = {{VR_CONFIG_HEAD_DIM, 256},
                  {VR_CONFIG_FULL_HEAD_DIM, 512},
                  {VR_CONFIG_VOCABULARY, 262144}}},

    /* ---------------------------------------------------- DeepSeek, Kimi, GLM */
    {.names = "deepseek_v2 deepseek2 minicpm3 youtu",
     .bits = VR_FAMILY_O_BIAS,
     .mixer = VR_MIXER_LATENT},
    {.names = "deepseek_v3 deepseek_v32 kimi_k2 glm4_moe_lite glm_moe_dsa axk1",
     .bits = LATENT_BITS,
     .mixer = VR_MIXER_LATENT},
    {.names = "kimi_linear",
     .bits = LATENT_BITS,
     .mixer = VR_MIXER_LATENT,
     .linear = VR_MIXER_KIMI,
     .experts = "block_sparse_moe"},
    {.names = "glm5_next glm5_next_text",
     .bits = LATENT_BITS,
     .mixer = VR_MIXER_LATENT,
     .linear = VR_MIXER_KIMI},
    {.names = "deepseek_v4",
     .bits = VR_FAMILY_ROUTER_FIX | VR_FAMILY_SINKS,
     .mixer = VR_MIXER_COMPRESSED},
    {.names = "glm chatglm", .bits = VR_FAMILY_QKV_BIAS},
    {.names = "glm4 glm4v glm4v_text", .bits = VR_FAMILY_FOUR_NORMS},
    {.names = "glm4_moe glm4v_moe glm4v_moe_text",
     .bits = VR_FAMILY_ROUTER_FIX | VR_FAMILY_HEAD_NORM | VR_FAMILY_NORM_TOLD},

    /* --------------------------------------------------- MiniMax, Step, MiMo */
    {.names = "minimax minimax_text_01 minimax_m1",
     .linear = VR_MIXER_LIGHTNING,
     .feed = "block_sparse_moe"},
    {.names = "minimax_m2",
     .bits = VR_FAMILY_WIDE_NORM | VR_FAMILY_ROUTER_FIX,
     .feed = "block_sparse_moe"},
    {.names = "minimax_m3_vl minimax_m3_vl_text",
     .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_ROUTER_FIX,
     .experts = "block_sparse_moe"},
    {.names = "step3 step3_text step3_vl"},
    {.names = "step3p5 step3p7 step3p7_text",
     .bits = VR_FAMILY_HEAD_NORM | VR_FAMILY_HEAD_GATE | VR_FAMILY_ROUTER_FIX,
     .experts = "moe"},
    {.names = "mimo_v2_flash mimo_v2", .bits = VR_FAMILY_ROUTER_FIX},

    /* ------------------------------------------------- Nemotron, Mamba, Jamba */
    {.names = "nemotron", .bits = VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_O_BIAS},
    {.names = "nemotron-nas deci", .bits = VR_FAMILY_O_BIAS},
    {.names = "nemotron_h",
     .bits = VR_FAMILY_ONE_BLOCK | VR_FAMILY_PLAIN_MLP | VR_FAMILY_ROUTER_FIX | VR_FAMILY_O_BIAS,
     .linear = VR_MIXER_MAMBA2,
     .attention = "mixer",
     .feed = "mixer"},
    {.names = "mamba falcon_mamba",
     .bits = VR_FAMILY_ONE_BLOCK | VR_FAMILY_TIED,
     .mixer = VR_MIXER_MAMBA,
     .attention = "mixer",
     .defaults = {{VR_CONFIG_STATE_SIZE, 16}}},
    {.names = "mamba2",
     .bits = VR_FAMILY_ONE_BLOCK | VR_FAMILY_TIED,
     .mixer = VR_MIXER_MAMBA2,
     .attention = "mixer",
     .defaults = {{VR_CONFIG_STATE_GROUPS, 8},
                  {VR_CONFIG_STATE_SIZE, 128},
                  {VR_CONFIG_HEAD_DIM, 64}}},
    {.names = "falcon_h1",
     .bits = VR_FAMILY_TWO_MIXERS,
     .linear = VR_MIXER_MAMBA2,
     .feed = "feed_forward"},
    {.names = "jamba",
     .bits = VR_FAMILY_STATE_NORM,
     .linear = VR_MIXER_MAMBA,
     .feed = "feed_forward"},

    /* --------------------------------------------------- GPT, and others of old */
    {.names = "gpt_oss gpt-oss",
     .bits = VR_FAMILY_QKV_BIAS | VR_FAMILY_O_BIAS | VR_FAMILY_SINKS | VR_FAMILY_EXPERT_BIAS,
     .window_every = 2},
    {.names = "gpt2 gpt_bigcode", .bits = VR_FAMILY_TIED | PLAIN_BIASED | VR_FAMILY_POSITIONS},
    {.names = "opt", .bits = VR_FAMILY_TIED | PLAIN_BIASED | VR_FAMILY_POSITIONS},
    {.names = "gpt_neox", .bits = PLAIN_BIASED},
    {.names = "gptj",
     .bits =
         VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM | VR_FAMILY_ONE_NORM | VR_FAMILY_OUTPUT_BIAS},
    {.names = "starcoder2", .bits = VR_FAMILY_TIED | PLAIN_BIASED | VR_FAMILY_WINDOWED},
    {.names = "bloom", .bits = VR_FAMILY_TIED | PLAIN_BIASED | VR_FAMILY_INPUT_NORM},
    {.names = "mpt", .bits = VR_FAMILY_TIED | VR_FAMILY_PLAIN_MLP},
    {.names = "phi", .bits = PLAIN_BIASED | VR_FAMILY_ONE_NORM | VR_FAMILY_OUTPUT_BIAS},
    {.names = "phimoe",
     .bits = VR_FAMILY_WINDOWED | VR_FAMILY_LAYER_NORM | VR_FAMILY_O_BIAS,
     .feed = "block_sparse_moe"},
    /* Its files have an output layer as well, which programs do not load. */
    {.names = "falcon RefinedWeb RefinedWebModel",
     .bits = VR_FAMILY_FALCON | VR_FAMILY_TIED | VR_FAMILY_PLAIN_MLP | VR_FAMILY_LAYER_NORM},

    /* ----------------------------------------------- encoders, and both in one */
    {.names = "bert roberta xlm-roberta camembert",
     .bits = BERT_BITS | VR_FAMILY_POOLER,
     .defaults = {{VR_CONFIG_TOKEN_TYPES, 2}}},
    {.names = "distilbert", .bits = BERT_BITS},
    {.names = "modernbert", .bits = VR_FAMILY_ENCODER | VR_FAMILY_INPUT_NORM, .window_every = 3},
    {.names = "siglip siglip_text_model siglip2 siglip2_text_model",
     .bits = PLAIN_BIASED | VR_FAMILY_ENCODER | VR_FAMILY_POSITIONS | VR_FAMILY_POOLER,
     .defaults = {{VR_CONFIG_HIDDEN, 768},
                  {VR_CONFIG_INTERMEDIATE, 3072},
                  {VR_CONFIG_LAYERS, 12},
                  {VR_CONFIG_HEADS, 12},
                  {VR_CONFIG_VOCABULARY, 32000},
                  {VR_CONFIG_POSITIONS, 64}}},
    {.names = "clip clip_text_model",
     .bits = PLAIN_BIASED | VR_FAMILY_ENCODER | VR_FAMILY_POSITIONS,
     .defaults = {{VR_CONFIG_HIDDEN, 512},
                  {VR_CONFIG_INTERMEDIATE, 2048},
                  {VR_CONFIG_LAYERS, 12},
                  {VR_CONFIG_HEADS, 8},
                  {VR_CONFIG_VOCABULARY, 49408},
                  {VR_CONFIG_POSITIONS, 77}}},
    {.names = "t5 mt5 umt5", .bits = VR_FAMILY_DECODER | VR_FAMILY_TIED | VR_FAMILY_PLAIN_MLP},
    {.names = "whisper",
     .bits = VR_FAMILY_DECODER | VR_FAMILY_TIED | PLAIN_BIASED | VR_FAMILY_POSITIONS},
};

#define SIGLIP_BITS                                                                                \
    (VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_PATCH_BIAS | VR_TOWER_POSITIONS |              \
     VR_TOWER_POST_NORM)
#define QWEN_BITS (VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_PATCH_BIAS | VR_TOWER_POSITIONS)

static const struct vr_tower towers[] = {
    {.names = "gemma3", .bits = SIGLIP_BITS, .projector = VR_PROJECTOR_NORM_MATRIX},
    {.names = "paligemma", .bits = SIGLIP_BITS, .projector = VR_PROJECTOR_MATRIX},
    {.names = "siglip_vision_model siglip2_vision_model",
     .bits = SIGLIP_BITS,
     .projector = VR_PROJECTOR_TWO},
    {.names = "clip_vision_model",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_CLASS | VR_TOWER_POSITIONS |
             VR_TOWER_PRE_NORM | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_TWO},
    {.names = "clip",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_CLASS | VR_TOWER_POSITIONS |
             VR_TOWER_PRE_NORM | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_CLIP,
     .defaults = {{VR_CONFIG_HIDDEN, 768},
                  {VR_CONFIG_INTERMEDIATE, 3072},
                  {VR_CONFIG_LAYERS, 12},
                  {VR_CONFIG_PATCH, 32},
                  {VR_CONFIG_IMAGE, 224}}},
    {.names = "siglip siglip2",
     .bits = SIGLIP_BITS,
     .projector = VR_PROJECTOR_SIGLIP,
     .defaults = {{VR_CONFIG_HIDDEN, 768},
                  {VR_CONFIG_INTERMEDIATE, 3072},
                  {VR_CONFIG_LAYERS, 12},
                  {VR_CONFIG_PATCH, 16},
                  {VR_CONFIG_IMAGE, 224}}},
    {.names = "mllama_vision_model",
     .bits = VR_TOWER_MLP_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_CLASS | VR_TOWER_POSITIONS |
             VR_TOWER_PRE_NORM | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_LLAMA3},
    {.names = "step3p5_vision step3p7",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_POSITIONS | VR_TOWER_PRE_NORM,
     .projector = VR_PROJECTOR_STEP},
    {.names = "minimax_m3_vl minimax_m3_vl_vision",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_PRE_NORM,
     .projector = VR_PROJECTOR_MINIMAX,
     .defaults = {{VR_CONFIG_TEMPORAL, 2}}},
    {.names = "pixtral",
     .bits = VR_TOWER_GATED | VR_TOWER_PRE_NORM,
     .projector = VR_PROJECTOR_MISTRAL},
    {.names = "qwen2_vl",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM,
     .projector = VR_PROJECTOR_MERGER},
    {.names = "qwen2_5_vl",
     .bits = VR_TOWER_BIAS | VR_TOWER_GATED,
     .projector = VR_PROJECTOR_MERGER},
    {.names = "qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe qwen3_6 qwen3_6_moe",
     .bits = QWEN_BITS,
     .projector = VR_PROJECTOR_MERGER},
    {.names = "kimi_k25 kimi_vl",
     .bits = QWEN_BITS | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_MERGER},
    {.names = "kimi_k3",
     .bits = VR_TOWER_POSITIONS | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_MERGER},
    {.names = "glm4v glm4v_moe glm4v_moe_vision glm4v_vision",
     .bits = VR_TOWER_GATED | VR_TOWER_PATCH_BIAS | VR_TOWER_POSITIONS | VR_TOWER_PRE_NORM |
             VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_GLM},
    {.names = "glm5_next",
     .bits = VR_TOWER_BIAS | VR_TOWER_GATED | VR_TOWER_PATCH_BIAS | VR_TOWER_POST_NORM |
             VR_TOWER_HEAD_NORM,
     .projector = VR_PROJECTOR_GLM},
    /* MobileNet V5 */
    {.names = "gemma3n_vision", .projector = VR_PROJECTOR_EMBEDDER, .fixed = 294126912},
    /* CLIP's ViT-L of 336 x 336 */
    {.names = "phi3_v",
     .projector = VR_PROJECTOR_PHI,
     .fixed = 303507456,
     .defaults = {{VR_CONFIG_HIDDEN, 1024}}},
    {.names = "gemma4_vision",
     .bits = VR_TOWER_GATED | VR_TOWER_PLANE | VR_TOWER_HEAD_NORM | VR_TOWER_FOUR_NORMS,
     .projector = VR_PROJECTOR_MATRIX},
    {.names = "llama4_vision_model",
     .bits = VR_TOWER_BIAS | VR_TOWER_LAYER_NORM | VR_TOWER_CLASS | VR_TOWER_POSITIONS |
             VR_TOWER_PRE_NORM | VR_TOWER_POST_NORM,
     .projector = VR_PROJECTOR_LLAMA4},
};

/* Models that vram_model_read may meet, and for which weights and a cache mean nothing. */
static const struct {
    const char *kind, *names;
} foreigners[] = {
    {"a vision model", "vit deit beit swin swinv2 convnext convnextv2 resnet dinov2 dinov3_vit "
                       "detr rt_detr yolos sam sam2 segformer mask2former depth_anything "
                       "clip_vision_model siglip_vision_model"},
    {"a speech model", "wav2vec2 hubert wavlm encodec dac mimi vits speecht5 seamless_m4t"},
    {"a time series model", "timesfm patchtst informer autoformer"},
};

const struct vr_family *vr_family_find(const char *type) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (vr_word_listed(families[i].names, type)) {
            return &families[i];
        }
    }
    return NULL;
}

const struct vr_tower *vr_tower_find(const char *type) {
    for (size_t i = 0; i < sizeof towers / sizeof towers[0]; i++) {
        if (vr_word_listed(towers[i].names, type)) {
            return &towers[i];
        }
    }
    return NULL;
}

const char *vr_family_foreign(const char *type) {
    for (size_t i = 0; i < sizeof foreigners / sizeof foreigners[0]; i++) {
        if (vr_word_listed(foreigners[i].names, type)) {
            return foreigners[i].kind;
        }
    }
    return NULL;
}
