/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_edges.c: config.json that describes no model, that lies, is cut or cannot be read, and
 * calls that make no sense.
 */
#include "base/memory.h"
#include "base/os/os.h"
#include "model/model_config.h"
#include "unit/config_world.h"

#include <errno.h>

#define HEADS_OF_2 DIMENSIONS ",\"num_attention_heads\":2"

static const struct {
    const char *text;
    vram_status status;
    const char *words;
} refusals[] = {
    {"{}", VRAM_ERR_INVALID, "num_hidden_layers"},
    {"{\"num_hidden_layers\":2}", VRAM_ERR_INVALID, "hidden_size"},
    {"{\"num_hidden_layers\":2,\"hidden_size\":64}", VRAM_ERR_INVALID, "vocab_size"},
    {"{" DIMENSIONS "}", VRAM_ERR_INVALID, "num_attention_heads"},
    {"{" DIMENSIONS ",\"num_attention_heads\":0}", VRAM_ERR_CORRUPT, "heads is 0"},
    {"{" DIMENSIONS ",\"num_attention_heads\":128}", VRAM_ERR_CORRUPT, "0 wide"},
    {"{" HEADS_OF_2 ",\"num_key_value_heads\":3}", VRAM_ERR_CORRUPT, "num_key_value_heads is 3"},
    {"{" HEADS_OF_2 ",\"num_key_value_heads\":0}", VRAM_ERR_CORRUPT, "num_key_value_heads is 0"},
    {"{" HEADS_OF_2 ",\"num_experts\":2,\"num_experts_per_tok\":3}", VRAM_ERR_CORRUPT,
     "3 of 2 experts"},
    {"{" DIMENSIONS ",\"num_hidden_layers\":513}", VRAM_ERR_UNSUPPORTED, "513 layers"},
    {"{" DIMENSIONS ",\"num_hidden_layers\":4294967296}", VRAM_ERR_CORRUPT, "4294967296"},
    {"{" HEADS_OF_2 ",\"layer_types\":[\"mamba\"]}", VRAM_ERR_UNSUPPORTED, "not counted"},
    {"{\"num_hidden_layers\":512,\"hidden_size\":4294967295,\"vocab_size\":4294967295,"
     "\"intermediate_size\":4294967295,\"num_attention_heads\":2}",
     VRAM_ERR_OVERFLOW, "64 bits"},
    {"{" HEADS_OF_2 ",\"head_dim\":4294967295}", VRAM_ERR_CORRUPT, "2^32"},
    /* Numbers that no model has: an error, and no time lost. */
    {"{" LLAMA ",\"vision_config\":{\"model_type\":\"siglip_vision_model\",\"hidden_size\":"
     "4294967295,\"num_hidden_layers\":4294967295,\"patch_size\":4294967295}}",
     VRAM_ERR_OVERFLOW, ""},
    {"{\"model_type\":\"nemotron_h\"," SMALL ",\"hybrid_override_pattern\":\"MM\","
     "\"num_attention_heads\":2,\"mamba_num_heads\":4294967295,\"mamba_head_dim\":4294967295}",
     VRAM_ERR_CORRUPT, ""},
    {"{\"model_type\":\"deepseek_v3\"," SMALL ",\"num_attention_heads\":4294967295,"
     "\"head_dim\":1,\"qk_nope_head_dim\":4294967295,\"kv_lora_rank\":4294967295}",
     VRAM_ERR_OVERFLOW, ""},
    {"{\"model_type\":\"whisper\",\"d_model\":384,\"encoder_layers\":4,\"decoder_layers\":4,"
     "\"num_heads\":6,\"vocab_size\":10,\"max_source_positions\":4294967295}",
     VRAM_ERR_CORRUPT, ""},
    {"{\"model_type\":\"t5\",\"d_model\":64,\"num_layers\":4294967295,\"num_heads\":6,"
     "\"vocab_size\":10}",
     VRAM_ERR_UNSUPPORTED, ""},
    {"{" LLAMA ",\"moe_layers_enum\":\"1,,99999999999999999999,x,513\"}", VRAM_ERR_CORRUPT, ""},
    {"{\"_class_name\":\"UNet2DConditionModel\",\"sample_size\":64}", VRAM_ERR_UNSUPPORTED,
     "is not a language model"},
    {"{\"_class_name\":\"AutoencoderKL\",\"latent_channels\":4}", VRAM_ERR_UNSUPPORTED,
     "is not a language model"},
    {"{\"model_type\":\"vit\",\"hidden_size\":768,\"num_hidden_layers\":12}", VRAM_ERR_UNSUPPORTED,
     "is not a language model"},
    {"{\"model_type\":\"wav2vec2\",\"hidden_size\":768}", VRAM_ERR_UNSUPPORTED,
     "is not a language model"},
    /* What json_reader has against it, with its place. */
    {"{\"a\":01}", VRAM_ERR_CORRUPT, "byte"},
    {"{\"a\":1} x", VRAM_ERR_CORRUPT, "byte"},
    {"[]", VRAM_ERR_INVALID, "not a model"},
    /* Counts that are none: none of them is answered as if it were missing. */
    {"{\"vision_config\":{\"width\":-1}}", VRAM_ERR_CORRUPT, "width is -1, not"},
    {"{\"mlp_ratio\":-2.5}", VRAM_ERR_CORRUPT, "mlp_ratio is -2.5, not"},
    {"{\"mlp_ratio\":NaN}", VRAM_ERR_CORRUPT, "mlp_ratio is NaN, not"},
    {"{\"mlp_ratio\":\"\"}", VRAM_ERR_CORRUPT, "mlp_ratio is \"\", not"},
    {"{\"n_embd\":1234567890123456789012345678901234567890}", VRAM_ERR_CORRUPT,
     "n_embd is 12345678901234567890123456789012, not"},
    {"{\"compress_ratios\":[Infinity]}", VRAM_ERR_CORRUPT, "a count that is not"},
    {"{\"compress_ratios\":[7,-1]}", VRAM_ERR_CORRUPT, "at byte 24: a count that is not"},
    {"{\"full_attn_layers\":\"1,-5\"}", VRAM_ERR_CORRUPT, "a count that is not"},
    {"{\"block_configs\":[{\"ffn\":{\"n_heads_in_group\":-1}}]}", VRAM_ERR_CORRUPT, "a count"},
    {"{\"block_configs\":[{\"ffn\":{\"intermediate_size\":4294967296}}]}", VRAM_ERR_CORRUPT,
     "a count"},
    {"{\"block_configs\":[{\"ffn\":{\"ffn_mult\":-1}}]}", VRAM_ERR_CORRUPT, "a count that is"},
};

static void refused(const char *text, vram_status status, const char *words) {
    vram_status found = read_config(text);
    if (found != status || !strstr(vram_error_get()->text, words)) {
        fail_msg("%.200s: %d, \"%s\", not %d, \"%s\"", text, (int)found, vram_error_get()->text,
                 (int)status, words);
    }
}

TEST(configs_that_describe_nothing) {
    static const char *const wrong[] = {"-1",        "1e23",       "0.5",     "NaN",
                                        "-Infinity", "4294967296", "\"big\"", "\"\""};
    char text[300], words[64];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        refused(refusals[i].text, refusals[i].status, refusals[i].words);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"n_embd\":%s}", wrong[i]);
        snprintf(words, sizeof words, "n_embd is %s, not a number from 0 to 4294967295", wrong[i]);
        refused(text, VRAM_ERR_CORRUPT, words);
        if (wrong[i][0] != '"') { /* a text in a list is no number, and is skipped */
            snprintf(text, sizeof text, "{\"text_config\":{\"head_dim\":[%s]}}", wrong[i]);
            refused(text, VRAM_ERR_CORRUPT, "head_dim is ");
        }
    }
    snprintf(text, sizeof text, "{\"a\":%0200d}", 0);
    memset(text + 5, '[', 200);
    refused(text, VRAM_ERR_CORRUPT, "nested too deep");
}

/* Counts that are missing, in the words that files have for it. */
TEST(counts_that_are_missing) {
    static struct vr_config config;
    static const char text[] = "{\"sliding_window\":-1,\"max_position_embeddings\":-1,"
                               "\"mamba_dt_rank\":\"auto\",\"num_experts\":null,\"n_layer\":12.0}";
    assert_int_equal(vr_config_read(text, sizeof text - 1, &config), VRAM_OK);
    assert_false(config.text.values[VR_CONFIG_WINDOW].known);
    assert_false(config.text.values[VR_CONFIG_STATE_RANK].known);
    assert_int_equal(config.text.values[VR_CONFIG_LAYERS].value, 12);
}

/* As long as a file may be read, and longer. */
TEST(long_files_are_refused) {
    static char text[5 << 20];
    memset(text, ' ', sizeof text - 1);
    memcpy(text, "{" DIMENSIONS ",\"num_attention_heads\":2",
           strlen("{" DIMENSIONS ",\"num_attention_heads\":2"));
    text[(4 << 20) - 1] = '}';
    text[4 << 20] = '\0';
    assert_int_equal(read_config(text), VRAM_OK);
    text[4 << 20] = ' ';
    refused(text, VRAM_ERR_CORRUPT, "at most 4194304 are read");
}

/* The fuzzer changes what is in them. */
TEST(files_end_anywhere) {
    static const char text[] = "{\"model_type\":\"gemma3\",\"text_config\":{" DIMENSIONS
                               ",\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                               "\"layer_types\":[\"full_attention\"],"
                               "\"sliding_window\":null},\"vision_config\":{\"patch_size\":14},"
                               "\"mlp_only_layers\":[1],\"tie_word_embeddings\":true}";
    char cut[sizeof text];
    assert_int_equal(read_config(text), VRAM_OK);
    for (size_t bytes = 1; bytes < sizeof text - 1; bytes++) {
        snprintf(cut, sizeof cut, "%.*s", (int)bytes, text);
        assert_int_not_equal(read_config(cut), VRAM_OK);
    }
}

TEST(calls_that_make_no_sense) {
    uint64_t bytes;
    vram_model_read_options options = {.size = 3};
    assert_int_equal(vram_model_read(NULL, NULL, &model), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_read("", NULL, &model), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_read("x", NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_read("x", &options, &model), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_read("/nonexistent/x", NULL, &model), VRAM_ERR_IO);
    assert_non_null(strstr(vram_error_get()->text, "/nonexistent/x: there is no such file"));
    assert_int_equal(vram_model_read("/dev/null", NULL, &model), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_read("/", NULL, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "the folder holds no model"));
    char longer[5000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(vram_model_read(longer, NULL, &model), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_token_bytes(NULL, NULL, NULL, &bytes), VRAM_ERR_INVALID);
    read_config("llama3_8b");
    assert_int_equal(vram_model_token_bytes(&model, NULL, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_token_bytes(&model, "q4_K", NULL, &bytes), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_token_bytes(&model, NULL, "nonsense", &bytes), VRAM_ERR_INVALID);
    model.layers[3].k_elements = 33;
    assert_int_equal(vram_model_token_bytes(&model, "q8_0", NULL, &bytes), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "layer 3"));
    model.layer_count = VRAM_MODEL_LAYERS_MAX + 1;
    assert_int_equal(vram_model_token_bytes(&model, NULL, NULL, &bytes), VRAM_ERR_INVALID);
    model.layer_count = 1;
    model.kv_known = false;
    assert_int_equal(vram_model_token_bytes(&model, NULL, NULL, &bytes), VRAM_ERR_UNSUPPORTED);
}

/* By the system's word, whoever runs the test. */
TEST(files_that_may_not_be_read) {
    static const struct {
        uint64_t call; /* opening it, or reading */
        int error;
        const char *word;
    } rows[] = {{1, EACCES, "permission denied"},
                {1, EMFILE, "cannot be opened"},
                {2, EIO, "cannot be read at"}};
    char path[1024];
    snprintf(path, sizeof path, "%s/llama3_8b.json", MODEL_CONFIGS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fresh();
        vr_os_fail_at(rows[i].call, false, rows[i].error);
        assert_int_equal(vram_model_read(path, NULL, &model), VRAM_ERR_IO);
        vr_os_fail_at(0, false, 0);
        if (!strstr(vram_error_get()->text, rows[i].word)) {
            fail_msg("\"%s\" is not in \"%s\"", rows[i].word, vram_error_get()->text);
        }
    }
}

TEST(memory_may_run_out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/llama3_8b.json", MODEL_CONFIGS);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    for (uint64_t nth = 1; status != VRAM_OK && nth < 50; nth++) {
        fresh();
        vr_mem_fail_at(nth, false);
        status = vram_model_read(path, NULL, &model);
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY);
        assert_int_equal(vr_mem_live_bytes(), 0);
    }
    assert_int_equal(status, VRAM_OK);
}
