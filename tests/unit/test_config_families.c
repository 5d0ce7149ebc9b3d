/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config_families.c: what the layers of public models cache, keep and look back at, by their
 * config.json as published, worked out by hand; and the parameters of many models by their
 * dimensions, as families.json has them. `docs.estimates` compares those of published files.
 */
#include "model/json_reader.h"
#include "model/model_config.h"
#include "rig/rig.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* About 25 KiB: one for all tests. */
static vram_model model;

static void read_published(const char *name) {
    char path[1024];
    model = (vram_model){.size = sizeof model};
    snprintf(path, sizeof path, "%s/published/%s", MODEL_CONFIGS, name);
    assert_int_equal(vram_model_read(path, NULL, &model), VRAM_OK);
    assert_true(model.family_known && model.kv_known);
}

static vram_status read_text(const char *text) {
    char path[] = "/tmp/vram-family-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    model = (vram_model){.size = sizeof model};
    vram_status status = vram_model_read(path, NULL, &model);
    unlink(path);
    return status;
}

static uint64_t token_bytes(void) {
    uint64_t bytes = 0;
    assert_int_equal(vram_model_token_bytes(&model, NULL, NULL, &bytes), VRAM_OK);
    return bytes;
}

static uint32_t layers_with_cache(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model.layer_count; i++) {
        count += model.layers[i].k_elements > 0;
    }
    return count;
}

/* ----------------------------------------------------------------- parameters */

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

/* ------------------------------------------------------------------ attention */

/* Of 80 blocks that a search chose, 49 have attention, with 8 queries for each of 8 heads of keys;
   feed-forward blocks are of eight widths. */
TEST(blocks_that_were_searched_for) {
    read_published("nemotron_super_49b.json");
    assert_int_equal(layers_with_cache(), 49);
    assert_int_equal(token_bytes(), 196 << 10);
    const uint64_t attention = UINT64_C(2) * 8192 * 8192 + UINT64_C(2) * 8192 * 1024;
    assert_int_equal(model.layers[0].parameters, attention + UINT64_C(3) * 8192 * 14336 + 2 * 8192);
    assert_int_equal(model.layers[1].parameters, attention + UINT64_C(3) * 8192 * 28672 + 2 * 8192);
    assert_int_equal(model.intermediate, 28672);
}

/* Three of four layers see chunks of 8192; every layer has 16 experts and one more for all. */
TEST(chunks_and_an_expert_for_all) {
    read_published("llama4_scout.json");
    assert_int_equal(model.layers[2].window, 8192);
    assert_int_equal(model.layers[3].window, 0);
    assert_int_equal(model.layers[0].expert_bytes, UINT64_C(16) * 3 * 5120 * 8192 * 2);
    assert_int_equal(model.active_parameters,
                     model.parameters - UINT64_C(48) * 15 * 3 * 5120 * 8192);
}

/* Layers that slide have 8 heads of 256; full ones have 2 of 512, where keys are values too. */
TEST(heads_of_two_widths) {
    read_published("gemma4_26b_a4b.json");
    assert_int_equal(model.layers[0].k_elements, 8 * 256);
    assert_int_equal(model.layers[0].window, 1024);
    assert_int_equal(model.layers[5].k_elements, 2 * 512);
    assert_int_equal(model.layers[5].v_elements, 2 * 512);
    assert_int_equal(model.layers[5].window, 0);
    read_published(
        "mimo_v2_flash.json"); /* keys of 192, values of 128, twice as many in a window */
    assert_int_equal(model.layers[0].k_elements, 4 * 192);
    assert_int_equal(model.layers[0].v_elements, 4 * 128);
    assert_int_equal(model.layers[1].k_elements, 8 * 192);
    assert_int_equal(model.layers[1].window, 128);
    assert_int_equal(model.layers[0].expert_bytes, 0);
    assert_int_not_equal(model.layers[1].expert_bytes, 0);
}

TEST(layers_that_share_a_cache) {
    assert_int_equal(
        read_text("{\"model_type\":\"gemma4_text\",\"hidden_size\":64,\"intermediate_size\":96,"
                  "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":1,"
                  "\"head_dim\":16,\"hidden_size_per_layer_input\":0,\"num_kv_shared_layers\":2,"
                  "\"use_double_wide_mlp\":true,\"vocab_size\":100}"),
        VRAM_OK);
    assert_int_equal(layers_with_cache(), 2);
    const uint64_t both = UINT64_C(2) * 64 * 64 + 4 * 64; /* queries and output, norms */
    assert_int_equal(model.layers[0].parameters, both + 2 * 64 * 16 + 2 * 16 + 3 * 64 * 96);
    assert_int_equal(model.layers[3].parameters, both + 16 + 3 * 64 * 192);
}

/* The latent of 512 with 64 of the rotated key, and a key of 128 for the indexer. */
TEST(an_indexer_keeps_a_key) {
    read_published("glm5_fp8.json");
    assert_int_equal(model.layers[0].k_elements, 512 + 64 + 128);
    assert_int_equal(model.layers[0].v_elements, 0);
}

/* Two layers see the last 128 tokens; others keep these, and one vector of 512 for 4 or for 128
   tokens; for 4, with a key of 128. */
TEST(tokens_are_cached_together) {
    read_published("deepseek_v4_flash.json");
    assert_int_equal(model.layers[0].k_elements, 512);
    assert_int_equal(model.layers[0].window, 128);
    assert_int_equal(model.layers[2].k_elements, (512 + 128) / 4);
    assert_int_equal(model.layers[3].k_elements, 512 / 128);
    assert_int_equal(model.layers[3].state_elements, 128 * 512);
    assert_int_equal(model.layers[3].window, 0);
}

/* --------------------------------------------------------------------- states */

/* "M" keeps 64 heads of 64 x 128, and 3 inputs of a convolution over 4096 + 2 x 8 x 128; "*" has 2
   heads of 128; "E" keeps nothing. */
TEST(a_letter_for_each_layer) {
    read_published("nemotron3_nano_30b_a3b.json");
    assert_int_equal(layers_with_cache(), 6);
    assert_int_equal(token_bytes(), 6 * 2 * (2 * 128) * 2);
    assert_int_equal(model.layers[0].state_elements, 64 * 64 * 128 + 3 * (4096 + 2 * 8 * 128));
    assert_int_equal(model.layers[1].state_elements, 0);
    assert_int_equal(model.layers[1].k_elements, 0);
    assert_int_equal(model.layers[0].expert_bytes, 0);
    assert_int_equal(model.layers[1].expert_bytes, UINT64_C(128) * 2 * 2688 * 1856 * 2);
    assert_int_equal(model.layers[5].k_elements, 2 * 128);
}

/* Experts of 2688 work in a space of 1024. */
TEST(experts_in_a_narrower_space) {
    read_published("nemotron3_super_120b_a12b_fp8.json");
    assert_int_equal(model.layers[1].expert_bytes, UINT64_C(512) * 2 * 1024 * 2688 * 2);
    assert_string_equal(model.quantization, "none"); /* the file does not say FP8 */
}

/* Three of four layers keep 48 heads of 128 x 128; the language model has 26.9 billion. */
TEST(delta_nets_beside_a_tower) {
    read_published("qwen3_5_27b.json");
    assert_int_equal(token_bytes(), 16 * 2 * (4 * 256) * 2);
    assert_int_equal(model.layers[0].state_elements,
                     48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128));
    assert_int_equal((model.parameters - model.tower_parameters) / 10000000, 2689);
    assert_int_equal(model.other_bytes, 2 * model.tower_parameters);
}

/* Heads of 96 x 128 x 128 and their convolution over three; the lists count from 1. */
TEST(lists_that_count_from_one) {
    read_published("kimi_k3.json");
    assert_int_equal(model.layers[0].state_elements, 96 * 128 * 128 + 3 * 3 * 96 * 128);
    assert_int_equal(model.layers[3].k_elements, 512 + 64);
    assert_int_equal(model.layers[3].state_elements, 0);
}

#define SMALL "\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":100"

TEST(mamba_caches_nothing) {
    assert_int_equal(read_text("{\"model_type\":\"mamba\"," SMALL
                               ",\"intermediate_size\":128,\"state_size\":16,\"conv_kernel\":4}"),
                     VRAM_OK);
    assert_int_equal(token_bytes(), 0);
    assert_int_equal(model.layers[1].state_elements, 128 * 16 + 3 * 128);
    /* the first files, which name no family */
    assert_int_equal(
        read_text("{\"d_model\":2560,\"n_layer\":64,\"vocab_size\":50288,\"ssm_cfg\":{\"layer\":"
                  "\"Mamba2\"},\"rms_norm\":true}"),
        VRAM_OK);
    assert_true(model.family_known);
    assert_string_equal(model.architecture, "mamba2");
    assert_int_equal(model.parameters, UINT64_C(2702599680)); /* mamba2-2.7b */
    assert_int_equal(model.layers[0].state_elements, 80 * 64 * 128 + 3 * (5120 + 2 * 128));
}

TEST(both_mixers_in_one_layer) {
    assert_int_equal(read_text("{\"model_type\":\"falcon_h1\"," SMALL
                               ",\"intermediate_size\":128,\"num_attention_heads\":4,"
                               "\"mamba_n_heads\":2,\"mamba_d_head\":32,\"mamba_d_state\":8,"
                               "\"mamba_n_groups\":1,\"mamba_d_conv\":4}"),
                     VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 64);
    assert_int_equal(model.layers[0].state_elements, 64 * 8 + 3 * (64 + 2 * 8));
}

/* ------------------------------------------------------------------- encoders */

TEST(an_encoder_has_no_cache) {
    assert_int_equal(
        read_text("{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"hidden_size\":768,"
                  "\"intermediate_size\":3072,\"num_hidden_layers\":12,\"num_attention_heads\":12,"
                  "\"max_position_embeddings\":512,\"type_vocab_size\":2,\"vocab_size\":30522}"),
        VRAM_OK);
    assert_true(model.family_known && model.kv_known);
    assert_int_equal(model.parameters, 109482240);
    assert_int_equal(model.weight_bytes, UINT64_C(4) * 109482240); /* of a time before dtype */
    assert_int_equal(token_bytes(), 0);
}

/* Six layers of an encoder, six of a decoder; a token is in one of them. Sound is always 1500. */
TEST(a_decoder_behind_an_encoder) {
    assert_int_equal(
        read_text("{\"model_type\":\"t5\",\"d_model\":512,\"d_ff\":2048,\"d_kv\":64,"
                  "\"num_layers\":6,\"num_heads\":8,\"vocab_size\":32128,\"n_positions\":512,"
                  "\"feed_forward_proj\":\"relu\"}"),
        VRAM_OK);
    assert_int_equal(model.layer_count, 12);
    assert_int_equal(layers_with_cache(), 6);
    assert_int_equal(model.layers[5].k_elements, 0);
    assert_int_equal(model.layers[6].k_elements, 8 * 64);
    assert_int_equal(
        read_text("{\"model_type\":\"whisper\",\"d_model\":384,\"encoder_layers\":4,"
                  "\"decoder_layers\":4,\"decoder_attention_heads\":6,\"decoder_ffn_dim\":1536,"
                  "\"num_mel_bins\":80,\"vocab_size\":51865,\"max_source_positions\":1500,"
                  "\"max_target_positions\":448}"),
        VRAM_OK);
    assert_int_equal(model.context_most, 448);
    assert_int_equal(model.layers[4].state_elements, 1500 * 384);
}

/* ------------------------------------------------------------------ other kinds */

TEST(what_is_not_a_language_model) {
    static const char *const texts[] = {
        "{\"_class_name\":\"UNet2DConditionModel\",\"sample_size\":64}",
        "{\"_class_name\":\"AutoencoderKL\",\"latent_channels\":4}",
        "{\"model_type\":\"vit\",\"hidden_size\":768,\"num_hidden_layers\":12}",
        "{\"model_type\":\"wav2vec2\",\"hidden_size\":768}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(read_text(texts[i]), VRAM_ERR_UNSUPPORTED);
        assert_non_null(strstr(vram_error_get()->text, "is not a language model"));
    }
}

/* A tower that is not known leaves the language model's counts, and says that it guesses. */
TEST(towers_that_are_not_known) {
#define LLAMA "\"model_type\":\"llama\"," SMALL ",\"intermediate_size\":8,\"num_attention_heads\":2"
    assert_int_equal(read_text("{" LLAMA ",\"audio_config\":{\"model_type\":\"unheard\"}}"),
                     VRAM_OK);
    assert_false(model.family_known);
    assert_int_equal(model.tower_parameters, 0);
    assert_int_equal(read_text("{" LLAMA ",\"audio_config\":null}"), VRAM_OK);
    assert_true(model.family_known);
    assert_int_equal(read_text("{\"thinker_config\":{\"text_config\":{" LLAMA "}}}"), VRAM_OK);
    assert_int_equal(model.hidden, 64);
}

/* MiniMax-M3: an indexer in some layers has two matrices and two norms, and caches a key. */
TEST(layers_with_an_indexer) {
    assert_int_equal(
        read_text("{\"model_type\":\"minimax_m3_vl\"," SMALL
                  ",\"intermediate_size\":8,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                  "\"head_dim\":16,\"sparse_attention_config\":{\"sparse_index_dim\":128,"
                  "\"sparse_num_index_heads\":3,\"sparse_attention_freq\":[0,1]}}"),
        VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 2 * 16);
    assert_int_equal(model.layers[1].k_elements, 2 * 16 + 128);
    assert_int_equal(model.layers[1].v_elements, 2 * 16);
    assert_int_equal(model.layers[1].parameters - model.layers[0].parameters,
                     (3 + 1) * 128 * 64 + 2 * 128);
}

/* Numbers that no model has: an error, and no time lost. */
TEST(numbers_that_are_absurd) {
    static const struct {
        const char *text;
        vram_status status;
    } cases[] = {
        {"{" LLAMA ",\"vision_config\":{\"model_type\":\"siglip_vision_model\",\"hidden_size\":"
         "4294967295,\"num_hidden_layers\":4294967295,\"patch_size\":4294967295}}",
         VRAM_ERR_OVERFLOW},
        {"{\"model_type\":\"nemotron_h\"," SMALL ",\"hybrid_override_pattern\":\"MM\","
         "\"num_attention_heads\":2,\"mamba_num_heads\":4294967295,\"mamba_head_dim\":4294967295}",
         VRAM_ERR_CORRUPT},
        {"{\"model_type\":\"deepseek_v3\"," SMALL ",\"num_attention_heads\":4294967295,"
         "\"head_dim\":1,\"qk_nope_head_dim\":4294967295,\"kv_lora_rank\":4294967295}",
         VRAM_ERR_OVERFLOW},
        {"{\"model_type\":\"whisper\",\"d_model\":384,\"encoder_layers\":4,\"decoder_layers\":4,"
         "\"num_heads\":6,\"vocab_size\":10,\"max_source_positions\":4294967295}",
         VRAM_ERR_CORRUPT},
        {"{\"model_type\":\"t5\",\"d_model\":64,\"num_layers\":4294967295,\"num_heads\":6,"
         "\"vocab_size\":10}",
         VRAM_ERR_UNSUPPORTED},
        {"{" LLAMA ",\"moe_layers_enum\":\"1,,99999999999999999999,x,513\"}", VRAM_ERR_CORRUPT},
        {"{" LLAMA ",\"moe_layers_enum\":\"1,,x,513\"}", VRAM_OK},
        {"{" LLAMA ",\"block_configs\":[{\"ffn\":{\"ffn_mult\":4.2e3}},{\"ffn\":{\"ffn_mult\":"
         "1e99}},7,{}]}",
         VRAM_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_status status = read_text(cases[i].text);
        if (status != cases[i].status) {
            fail_msg("%s: %d, %s", cases[i].text, (int)status, vram_error_get()->text);
        }
    }
}
