/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_config.c: config.json of public models and of small ones: parameters as published, and
 * what layers cache, keep and look back at as worked out by hand.
 * families.json has the dimensions of many more; `docs.estimates` compares published files.
 */
#include "model/json_reader.h"
#include "model/model_config.h"
#include "unit/config_world.h"

static uint64_t token_bytes(const char *type) {
    uint64_t bytes = 0;
    assert_int_equal(vram_model_token_bytes(&model, type, type, &bytes), VRAM_OK);
    return bytes;
}

/* -------------------------------------------------------------- public models */

static const struct published {
    const char *name;
    uint64_t parameters;  /* as published */
    uint64_t token_bytes; /* layers x (keys + values) x 2 bytes, f16 */
} published[] = {
    {"llama3_8b", UINT64_C(8030261248), 32 * (8 * 128 + 8 * 128) * 2},
    {"llama3_70b", UINT64_C(70553706496), 80 * (8 * 128 + 8 * 128) * 2},
    {"mistral_7b", UINT64_C(7241732096), 32 * (8 * 128 + 8 * 128) * 2},
    {"mixtral_8x7b", UINT64_C(46702792704), 32 * (8 * 128 + 8 * 128) * 2},
    {"qwen2_5_7b", UINT64_C(7615616512), 28 * (4 * 128 + 4 * 128) * 2},
    {"qwen3_8b", UINT64_C(8190735360), 36 * (8 * 128 + 8 * 128) * 2},
    {"qwen3_30b_a3b", UINT64_C(30532122624), 48 * (4 * 128 + 4 * 128) * 2},
    {"gemma2_9b", UINT64_C(9241705984), 42 * (8 * 256 + 8 * 256) * 2},
    {"gemma3_4b", UINT64_C(4300079472), 34 * (4 * 256 + 4 * 256) * 2},
    {"phi3_mini", UINT64_C(3821079552), 32 * (32 * 96 + 32 * 96) * 2},
    {"deepseek_v3", UINT64_C(671026419200), 61 * (512 + 64) * 2},
    {"gpt_oss_20b", UINT64_C(20914757184), 24 * (8 * 64 + 8 * 64) * 2},
    {"gpt_oss_120b", UINT64_C(116829156672), 36 * (8 * 64 + 8 * 64) * 2},
    {"falcon_7b", UINT64_C(6921720704), 32 * (1 * 64 + 1 * 64) * 2},
    {"gpt2", UINT64_C(124439808), 12 * (12 * 64 + 12 * 64) * 2},
};

/* The issue asks for 0.1 %; all of these are exact. */
TEST(sums_of_published_models) {
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        assert_int_equal(read_config(published[i].name), VRAM_OK);
        assert_int_equal(model.format, VRAM_MODEL_CONFIG);
        assert_true(model.family_known && model.kv_known);
        if (model.parameters != published[i].parameters) {
            fail_msg("%s has %llu parameters, %llu were published", published[i].name,
                     (unsigned long long)model.parameters,
                     (unsigned long long)published[i].parameters);
        }
        assert_int_equal(token_bytes(NULL), published[i].token_bytes);
        assert_int_equal(token_bytes("F32"), 2 * published[i].token_bytes);
        /* 34 bytes for 32 numbers: keys and values are whole blocks in all of these */
        assert_int_equal(token_bytes("q8_0"), published[i].token_bytes / 2 / 32 * 34);
        uint64_t bytes = model.input_bytes + model.output_bytes + model.other_bytes;
        for (uint32_t l = 0; l < model.layer_count; l++) {
            assert_true(model.layers[l].expert_bytes < model.layers[l].weight_bytes);
            bytes += model.layers[l].weight_bytes;
        }
        assert_int_equal(bytes, model.weight_bytes);
    }
}

/* As vram_model_read does it, without a file. */
static vram_status read_memory(const char *text, size_t bytes) {
    static struct vr_config config;
    model = (vram_model){.size = sizeof model};
    vram_status status = vr_config_read(text, bytes, &config);
    status = status == VRAM_OK ? vr_config_shape(&config, &model) : status;
    return status == VRAM_OK ? vr_config_weights(&config, NULL, &model) : status;
}

/* One entry of the list: its name, its number and its config. */
static void check_entry(struct vr_json_reader *reader) {
    struct vr_json_token key;
    char name[64] = "";
    uint64_t parameters = 0;
    while ((key = vr_json_next(reader)).kind == VR_JSON_KEY) {
        struct vr_json_token token = vr_json_next(reader);
        size_t start = reader->at - 1;
        if (vr_json_is(key, "model")) {
            assert_true(vr_json_copy(token, name, sizeof name));
        } else if (vr_json_is(key, "parameters")) {
            assert_true(vr_json_unsigned_read(token, &parameters));
        }
        assert_true(vr_json_skip(reader, token));
        if (!vr_json_is(key, "config")) {
            continue;
        }
        vram_status status = read_memory(reader->text + start, reader->at - start);
        double difference = (double)model.parameters / (double)parameters - 1;
        if (status != VRAM_OK || !model.family_known || !model.kv_known || difference > 0.0005 ||
            difference < -0.0005) {
            fail_msg("%s: %llu parameters, %llu expected; status %d", name,
                     (unsigned long long)model.parameters, (unsigned long long)parameters,
                     (int)status);
        }
    }
}

/* Within a twentieth of a per cent, a tenth of what is promised. */
TEST(every_family_has_its_parameters) {
    static char text[1 << 20];
    struct vr_json_reader reader;
    struct vr_json_token token;
    uint32_t models = 0;
    FILE *file = fopen(MODEL_CONFIGS "/families.json", "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    vr_json_begin(&reader, text, bytes);
    while ((token = vr_json_next(&reader)).kind != VR_JSON_ARRAY) { /* of models */
        assert_int_not_equal(token.kind, VR_JSON_BAD);
    }
    while ((token = vr_json_next(&reader)).kind == VR_JSON_OBJECT) {
        check_entry(&reader);
        models++;
    }
    assert_int_equal(token.kind, VR_JSON_ARRAY_END);
    assert_true(models > 90);
}

/* ------------------------------------------------------------------ what layers have */

enum what {
    K,
    V,
    STATE,
    WINDOW,
    EXPERTS,
    LAYER, /* of the layer: elements, tokens, bytes, parameters, */
    STEP,  /* which are so many more than those of the one before */
    TOKEN,
    CACHING,
    IDLE, /* bytes of a token; layers that cache; parameters that */
          /* a token does not pass */
    PARAMETERS,
    WEIGHTS,
    INPUT,
    OUTPUT,
    OTHER,
    TOWER,
    TIED,
    KNOWN /* family */
    ,
    LAYERS,
    HIDDEN,
    HEADS,
    VOCABULARY,
    CONTEXT,
    WIDEST,
    EXPERT_COUNT
};

#define LINEAR_HIDDEN UINT64_C(2048)
#define LINEAR_EXPERTS                                                                             \
    (LINEAR_HIDDEN * 512 + 512 * 3 * LINEAR_HIDDEN * 512 + 3 * LINEAR_HIDDEN * 512 + LINEAR_HIDDEN)
#define SEARCHED (UINT64_C(2) * 8192 * 8192 + UINT64_C(2) * 8192 * 1024)
#define BIG      UINT64_C(1) /* products beyond 32 bits */

static const struct {
    const char *config; /* NULL: the same again */
    uint32_t layer;
    enum what what;
    uint64_t value;
} rows[] = {
    /* 2 of 8 experts of three matrices in each of 32 layers; of DeepSeek the first three have none,
       and 512 numbers, with 64 of the rotated key, are keys and values together */
    {"mixtral_8x7b", 0, EXPERT_COUNT, 8},
    {NULL, 0, IDLE, BIG * 32 * 6 * 3 * 4096 * 14336},
    {NULL, 0, EXPERTS, BIG * 8 * 3 * 4096 * 14336 * 2},
    {NULL, 0, WINDOW, 0}, /* null */
    {"deepseek_v3", 0, IDLE, BIG * 58 * 248 * 3 * 7168 * 2048},
    {NULL, 2, EXPERTS, 0},
    {NULL, 0, K, 512 + 64},
    {NULL, 0, V, 0},
    {"gemma2_9b", 0, WINDOW, 4096}, /* every second layer sees all */
    {NULL, 1, WINDOW, 0},
    {NULL, 0, TIED, 1},
    {NULL, 0, INPUT, BIG * 256000 * 3584 * 4}, /* it says float32 */
    {NULL, 0, OUTPUT, 3584 * 4},
    {"llama3_8b", 0, TIED, 0},
    {NULL, 0, OUTPUT, BIG * 128256 * 4096 * 2 + 4096 * 2},
    {"gemma3_4b", 4, WINDOW, 1024}, /* every sixth sees all */
    {NULL, 5, WINDOW, 0},
    {NULL, 33, WINDOW, 1024},
    /* SigLIP: 27 layers of 1152 and 4304, patches of 14, 64 x 64 of them; and the projector */
    {NULL, 0, OTHER,
     BIG * 2 *
         (27 * (4 * (1152 * 1152 + 1152) + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152) +
          14 * 14 * 3 * 1152 + 1152 + 64 * 64 * 1152 + 2 * 1152 + 1152 * 2560 + 1152)},
    {"gpt_oss_20b", 22, WINDOW, 128}, /* by its list */
    {NULL, 23, WINDOW, 0},
    /* matrices of 17 bytes for 32 numbers, biases bf16 */
    {NULL, 0, EXPERTS, BIG * 32 * 3 * 2880 * 2880 / 32 * 17 + BIG * 32 * 3 * 2880 * 2},
    {"mistral_7b", 31, WINDOW, 0}, /* everywhere, but llama.cpp does not apply it */
    {"qwen2_5_7b", 0, WINDOW, 0},  /* switched off */
    /* Three of four layers keep a state: 32 heads of 128 x 128, and three inputs of the convolution
       over queries, keys (16 x 128 each) and values (32 x 128) */
    {"qwen3_next_80b", 0, STATE, 32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)},
    {NULL, 0, K, 0},
    {NULL, 3, STATE, 0},
    {NULL, 3, K, 2 * 256},
    {NULL, 0, TOKEN, 12 * (2 * 256 + 2 * 256) * 2},
    {NULL, 0, LAYER,
     LINEAR_HIDDEN *(2 * 16 * 128 + 2 * 32 * 128) + LINEAR_HIDDEN * 64 +
         (2 * 16 * 128 + 32 * 128) * 4 + 64 + 128 + 32 * 128 * LINEAR_HIDDEN + 2 * LINEAR_HIDDEN +
         LINEAR_EXPERTS},
    {NULL, 3, LAYER,
     LINEAR_HIDDEN * 2 * 16 * 256 + 2 * LINEAR_HIDDEN * 2 * 256 + 16 * 256 * LINEAR_HIDDEN +
         2 * 256 + 2 * LINEAR_HIDDEN + LINEAR_EXPERTS},
    /* Of 80 blocks that a search chose, 49 have attention, with 8 queries for each of 8 heads of
       keys; feed-forward blocks are of eight widths. */
    {"published/nemotron_super_49b", 0, CACHING, 49},
    {NULL, 0, TOKEN, 196 << 10},
    {NULL, 0, LAYER, SEARCHED + BIG * 3 * 8192 * 14336 + 2 * 8192},
    {NULL, 1, LAYER, SEARCHED + BIG * 3 * 8192 * 28672 + 2 * 8192},
    {NULL, 0, WIDEST, 28672},
    /* Three of four layers see chunks of 8192; every layer has 16 experts and one more for all. */
    {"published/llama4_scout", 2, WINDOW, 8192},
    {NULL, 3, WINDOW, 0},
    {NULL, 0, EXPERTS, BIG * 16 * 3 * 5120 * 8192 * 2},
    {NULL, 0, IDLE, BIG * 48 * 15 * 3 * 5120 * 8192},
    /* Layers that slide have 8 heads of 256; full ones 2 of 512, where keys are values too. */
    {"published/gemma4_26b_a4b", 0, K, 8 * 256},
    {NULL, 0, WINDOW, 1024},
    {NULL, 5, K, 2 * 512},
    {NULL, 5, V, 2 * 512},
    {NULL, 5, WINDOW, 0},
    /* keys of 192, values of 128, twice as many in a window */
    {"published/mimo_v2_flash", 0, K, 4 * 192},
    {NULL, 0, V, 4 * 128},
    {NULL, 1, K, 8 * 192},
    {NULL, 1, WINDOW, 128},
    {NULL, 0, EXPERTS, 0},
    /* layers that share a cache: queries and output, norms, and keys in the first two */
    {"{\"model_type\":\"gemma4_text\",\"hidden_size\":64,\"intermediate_size\":96,"
     "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":1,"
     "\"head_dim\":16,\"hidden_size_per_layer_input\":0,\"num_kv_shared_layers\":2,"
     "\"use_double_wide_mlp\":true,\"vocab_size\":100}",
     0, CACHING, 2},
    {NULL, 0, LAYER, 2 * 64 * 64 + 4 * 64 + 2 * 64 * 16 + 2 * 16 + 3 * 64 * 96},
    {NULL, 3, LAYER, 2 * 64 * 64 + 4 * 64 + 16 + 3 * 64 * 192},
    {"published/glm5_fp8", 0, K, 512 + 64 + 128}, /* the last is a key for the indexer */
    {NULL, 0, V, 0},
    /* Two layers see the last 128 tokens; others keep these, and one vector of 512 for 4 or for 128
       tokens; for 4, with a key of 128. */
    {"published/deepseek_v4_flash", 0, K, 512},
    {NULL, 0, WINDOW, 128},
    {NULL, 2, K, (512 + 128) / 4},
    {NULL, 3, K, 512 / 128},
    {NULL, 3, STATE, 128 * 512},
    {NULL, 3, WINDOW, 0},
    /* "M" keeps 64 heads of 64 x 128, and 3 inputs of a convolution over 4096 + 2 x 8 x 128; "*"
       has 2 heads of 128; "E" keeps nothing. */
    {"published/nemotron3_nano_30b_a3b", 0, CACHING, 6},
    {NULL, 0, TOKEN, 6 * 2 * (2 * 128) * 2},
    {NULL, 0, STATE, 64 * 64 * 128 + 3 * (4096 + 2 * 8 * 128)},
    {NULL, 0, EXPERTS, 0},
    {NULL, 1, STATE, 0},
    {NULL, 1, K, 0},
    {NULL, 1, EXPERTS, BIG * 128 * 2 * 2688 * 1856 * 2},
    {NULL, 5, K, 2 * 128},
    /* Experts of 2688 work in a space of 1024. */
    {"published/nemotron3_super_120b_a12b_fp8", 1, EXPERTS, BIG * 512 * 2 * 1024 * 2688 * 2},
    /* Three of four layers keep 48 heads of 128 x 128, beside a tower. */
    {"published/qwen3_5_27b", 0, TOKEN, 16 * 2 * (4 * 256) * 2},
    {NULL, 0, STATE, 48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128)},
    /* Heads of 96 x 128 x 128 and their convolution over three; the lists count from 1. */
    {"published/kimi_k3", 0, STATE, 96 * 128 * 128 + 3 * 3 * 96 * 128},
    {NULL, 3, K, 512 + 64},
    {NULL, 3, STATE, 0},
    {"{\"model_type\":\"mamba\"," SMALL
     ",\"intermediate_size\":128,\"state_size\":16,\"conv_kernel\":4}",
     0, TOKEN, 0},
    {NULL, 1, STATE, 128 * 16 + 3 * 128},
    /* the first files, which name no family: mamba2-2.7b */
    {"{\"d_model\":2560,\"n_layer\":64,\"vocab_size\":50288,\"ssm_cfg\":{\"layer\":"
     "\"Mamba2\"},\"rms_norm\":true}",
     0, PARAMETERS, UINT64_C(2702599680)},
    {NULL, 0, KNOWN, 1},
    {NULL, 0, STATE, 80 * 64 * 128 + 3 * (5120 + 2 * 128)},
    /* both mixers in one layer */
    {"{\"model_type\":\"falcon_h1\"," SMALL ",\"intermediate_size\":128,"
     "\"num_attention_heads\":4,\"mamba_n_heads\":2,\"mamba_d_head\":32,\"mamba_d_state\":8,"
     "\"mamba_n_groups\":1,\"mamba_d_conv\":4}",
     0, K, 64},
    {NULL, 0, STATE, 64 * 8 + 3 * (64 + 2 * 8)},
    /* an encoder has no cache; and it is of a time before dtype */
    {"{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"hidden_size\":768,"
     "\"intermediate_size\":3072,\"num_hidden_layers\":12,\"num_attention_heads\":12,"
     "\"max_position_embeddings\":512,\"type_vocab_size\":2,\"vocab_size\":30522}",
     0, PARAMETERS, 109482240},
    {NULL, 0, KNOWN, 1},
    {NULL, 0, WEIGHTS, UINT64_C(4) * 109482240},
    {NULL, 0, TOKEN, 0},
    /* Six layers of an encoder, six of a decoder; a token is in one of them. */
    {"{\"model_type\":\"t5\",\"d_model\":512,\"d_ff\":2048,\"d_kv\":64,\"num_layers\":6,"
     "\"num_heads\":8,\"vocab_size\":32128,\"n_positions\":512,"
     "\"feed_forward_proj\":\"relu\"}",
     0, LAYERS, 12},
    {NULL, 0, CACHING, 6},
    {NULL, 5, K, 0},
    {NULL, 6, K, 8 * 64},
    /* sound is always 1500 */
    {"{\"model_type\":\"whisper\",\"d_model\":384,\"encoder_layers\":4,"
     "\"decoder_layers\":4,\"decoder_attention_heads\":6,\"decoder_ffn_dim\":1536,"
     "\"num_mel_bins\":80,\"vocab_size\":51865,\"max_source_positions\":1500,"
     "\"max_target_positions\":448}",
     0, CONTEXT, 448},
    {NULL, 4, STATE, 1500 * 384},
    /* MiniMax-M3: an indexer in some layers has two matrices and two norms, and caches a key. */
    {"{\"model_type\":\"minimax_m3_vl\"," SMALL ",\"intermediate_size\":8,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
     "\"sparse_attention_config\":{\"sparse_index_dim\":128,\"sparse_num_index_heads\":3,"
     "\"sparse_attention_freq\":[0,1]}}",
     0, K, 2 * 16},
    {NULL, 1, K, 2 * 16 + 128},
    {NULL, 1, V, 2 * 16},
    {NULL, 1, STEP, (3 + 1) * 128 * 64 + 2 * 128},
    /* What is not known leaves the language model's counts, and says that it is a guess. */
    {"{\"model_type\":\"unheard_of\"," DIMENSIONS ",\"num_attention_heads\":2}", 0, KNOWN, 0},
    {"{" LLAMA ",\"vision_config\":{\"depth\":32}}", 0, KNOWN, 0},
    {"{" LLAMA ",\"audio_config\":{\"model_type\":\"unheard\"}}", 0, KNOWN, 0},
    {NULL, 0, TOWER, 0},
    {"{" LLAMA ",\"audio_config\":null}", 0, KNOWN, 1},
    {"{\"thinker_config\":{\"text_config\":{" LLAMA "}}}", 0, HIDDEN, 64},
    {"{" LLAMA ",\"moe_layers_enum\":\"1,,x,513\"}", 0, KNOWN, 1},
    {"{" LLAMA ",\"block_configs\":[{\"ffn\":{\"ffn_mult\":4.2e3}},{\"ffn\":{\"ffn_mult\":"
     "1e99}},7,{}]}",
     0, KNOWN, 1},
    /* What should be an object and is something else is passed over. */
    {"{" DIMENSIONS ",\"num_attention_heads\":2,\"linear_attn_config\":[1],"
     "\"quantization_config\":null}",
     0, HEADS, 2},
    /* numbers in any spelling; without model_type: built like Llama, perhaps */
    {"\n {\"num_hidden_layers\":2e0,\"hidden_\\u0073ize\":6.4e1,\"vocab_size\":100e-1,"
     "\"intermediate_size\":8.0,\"num_attention_heads\":0.2E+1,\"x\":[{\"y\":-1.5e-9}]}\r\n",
     0, HIDDEN, 64},
    {NULL, 0, VOCABULARY, 10},
    {NULL, 0, HEADS, 2},
    {NULL, 0, KNOWN, 0},
};

static uint64_t caching_layers(void) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < model.layer_count; i++) {
        count += model.layers[i].k_elements > 0;
    }
    return count;
}

static uint64_t value_of(enum what what, uint32_t at) {
    const vram_model_layer *layer = &model.layers[at];
    switch (what) {
    case TOKEN:
        return token_bytes(NULL);
    case CACHING:
        return caching_layers();
    case IDLE:
        return model.parameters - model.active_parameters;
    case STEP:
        return layer->parameters - layer[-1].parameters;
    default:
        break;
    }
    const uint64_t values[] = {[K] = layer->k_elements,
                               [V] = layer->v_elements,
                               [STATE] = layer->state_elements,
                               [WINDOW] = layer->window,
                               [EXPERTS] = layer->expert_bytes,
                               [LAYER] = layer->parameters,
                               [PARAMETERS] = model.parameters,
                               [WEIGHTS] = model.weight_bytes,
                               [INPUT] = model.input_bytes,
                               [OUTPUT] = model.output_bytes,
                               [OTHER] = model.other_bytes,
                               [TOWER] = model.tower_parameters,
                               [TIED] = model.tied,
                               [KNOWN] = model.family_known,
                               [LAYERS] = model.layer_count,
                               [HIDDEN] = model.hidden,
                               [HEADS] = model.heads,
                               [VOCABULARY] = model.vocabulary,
                               [CONTEXT] = model.context_most,
                               [WIDEST] = model.intermediate,
                               [EXPERT_COUNT] = model.experts};
    return values[what];
}

TEST(layers_by_hand) {
    const char *config = "";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].config) {
            config = rows[i].config;
            assert_int_equal(read_config(config), VRAM_OK);
            assert_true(strncmp(config, "published/", 10) != 0 ||
                        (model.family_known && model.kv_known));
        }
        uint64_t value = value_of(rows[i].what, rows[i].layer);
        if (value != rows[i].value) {
            fail_msg("row %zu, %s, layer %u: %llu, not %llu", i, config, rows[i].layer,
                     (unsigned long long)value, (unsigned long long)rows[i].value);
        }
    }
}

TEST(types_of_weights) {
    static const struct {
        const char *config, *weights, *quantization;
    } types[] = {
        {"gpt_oss_20b", "mxfp4", "mxfp4"},
        {"deepseek_v3", "fp8", "fp8"},
        {"published/nemotron3_super_120b_a12b_fp8", "bf16", "none"}, /* it does not say FP8 */
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(read_config(types[i].config), VRAM_OK);
        assert_string_equal(model.weight_type, types[i].weights);
        assert_string_equal(model.quantization, types[i].quantization);
    }
    read_config("deepseek_v3"); /* a byte each, and a scale for 128 x 128; routers are bf16 */
    assert_in_range(model.weight_bytes, UINT64_C(671026419200),
                    UINT64_C(671026419200) + UINT64_C(2) * 129280 * 7168 + (UINT64_C(1) << 29));
    read_config("published/qwen3_5_27b"); /* the language model has 26.9 billion */
    assert_int_equal((model.parameters - model.tower_parameters) / 10000000, 2689);
    assert_int_equal(model.other_bytes, 2 * model.tower_parameters);
}

TEST(another_type_may_be_asked_for) {
    char path[1024];
    vram_model_read_options options = {.size = sizeof options, .weight_type = "q8_0"};
    snprintf(path, sizeof path, "%s/llama3_8b.json", MODEL_CONFIGS);
    assert_int_equal(vram_model_read(path, &options, &model), VRAM_OK);
    assert_string_equal(model.weight_type, "q8_0");
    assert_int_equal(model.layers[0].weight_bytes, model.layers[0].parameters / 32 * 34);
    options.weight_type = "q9_9";
    assert_int_equal(vram_model_read(path, &options, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "q9_9"));
}
