/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_safetensors.c: safetensors files that a generator made, one or many with an index,
 * with and without config.json beside them; files that lie; config.json that describes no model,
 * that lies, is cut or cannot be read; and calls that make no sense.
 */
#include "unit/config_world.h"
#include "unit/model_maker.h"

#include "base/memory.h"
#include "base/os/os.h"
#include "model/model_config.h"
#include "model/model_file.h"
#include "rig/rig.h"

#include <errno.h>

static struct maker maker;
static vram_model model;
static struct vr_weight_sum sum;

static const char *const files[] = {"model.safetensors",
                                    "config.json",
                                    "a.safetensors",
                                    "b.safetensors",
                                    "model.safetensors.index.json",
                                    "m-00001-of-00002.safetensors",
                                    "m-00002-of-00002.safetensors",
                                    "m.safetensors.index.json"};

static int begin(void) {
    folder_make();
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    return 0;
}

static int end(void) {
    folder_remove(files, sizeof files / sizeof files[0]);
    assert_int_equal(vr_mem_live_bytes(), 0);
    return 0;
}

static vram_status read_memory(const void *data, size_t bytes) {
    struct vr_source source;
    memset(&model, 0, sizeof model);
    memset(&sum, 0, sizeof sum);
    sum.model = &model;
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_safetensors_read(&source, &sum);
    if (status == VRAM_OK) {
        assert_true(vr_weight_sum_finish(&sum));
        assert_true(model.weight_bytes <= bytes);
    }
    return status;
}

static void refused(const char *header, size_t data, vram_status status, const char *word) {
    safetensors_make(&maker, header, data);
    assert_int_equal(read_memory(maker.data, maker.bytes), status);
    if (!strstr(vram_error_get()->text, word)) {
        fail_msg("\"%s\" is not in \"%s\"", word, vram_error_get()->text);
    }
}

/* 64 wide, 2 layers: embeddings 10 x 64 bf16, keys and values 32 rows, an output layer, a vision
   tower. */
static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[10,64],\"data_offsets\":[0,1280]}"
    ","
    "\"model.layers.0.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64],"
    "\"data_offsets\":[1280,5376]},"
    "\"model.layers.0.self_attn.v_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64],"
    "\"data_offsets\":[5376,9472]},"
    "\"model.layers.1.self_attn.v_proj.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[32,64],"
    "\"data_offsets\":[13568,15616]},"
    "\"model.layers.1.self_attn.k_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[32,64],"
    "\"data_offsets\":[9472,13568]},"
    "\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[10,64],\"data_offsets\":[15616,18176]},"
    "\"empty\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[15616,15616]},"
    "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[18176,18180]},"
    "\"model.visual.patch\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[18180,18184]}}";

enum { DATA = 18184 };

static const char config[] =
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,"
    "\"intermediate_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"max_position_embeddings\":4096}";

static void check_small(void) {
    assert_int_equal(model.format, VRAM_MODEL_SAFETENSORS);
    assert_int_equal(model.tensors, 9);
    assert_int_equal(model.layer_count, 2);
    assert_int_equal(model.weight_bytes, DATA);
    assert_int_equal(model.input_bytes, 1280);
    assert_int_equal(model.layers[0].weight_bytes, 8192);
    assert_int_equal(model.layers[1].weight_bytes, 4096 + 2048);
    assert_int_equal(model.output_bytes, 2560);
    assert_int_equal(model.other_bytes, 4 + 4);
    assert_false(model.tied);
    assert_true(model.kv_known);
    assert_int_equal(model.layers[1].k_elements, 32);
    assert_int_equal(model.layers[1].v_elements, 32);
    assert_int_equal(model.vocabulary, 10);
    assert_int_equal(model.hidden, 64);
    assert_string_equal(model.weight_type, "bf16");
}

TEST(weights_to_the_byte) {
    safetensors_make(&maker, header, DATA);
    folder_write("model.safetensors", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("model.safetensors"), NULL, &model), VRAM_OK);
    check_small(); /* without a config the matrices of keys and values tell what is cached */
    assert_int_equal(model.files, 1);
    assert_int_equal(model.context_most, 0);
    folder_write("config.json", config, sizeof config - 1);
    assert_int_equal(vram_model_read(folder_path("model.safetensors"), NULL, &model), VRAM_OK);
    check_small();
    assert_int_equal(model.context_most, 4096);
    model.size = sizeof model;
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK); /* the folder */
    check_small();
    folder_write("config.json", "{", 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_ERR_CORRUPT);
}

/* -------------------------------------------------------------------- shards */

static void shards_write(void) {
    static const char index[] =
        "{\"metadata\":{\"total_size\":8320},\"weight_map\":{"
        "\"model.embed_tokens.weight\":\"a.safetensors\",\"lm_head.weight\":\"b.safetensors\","
        "\"model.layers.0.mlp.up_proj.weight\":\"a.safetensors\"}}";
    safetensors_make(&maker,
                     "{\"model.embed_tokens.weight\":{\"dtype\":\"F16\",\"shape\":[10,64],"
                     "\"data_offsets\":[0,1280]},\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":"
                     "\"F16\",\"shape\":[64,10],\"data_offsets\":[1280,2560]}}",
                     2560);
    folder_write("a.safetensors", maker.data, maker.bytes);
    safetensors_make(&maker,
                     "{\"lm_head.weight\":{\"dtype\":\"F16\",\"shape\":[10,64],"
                     "\"data_offsets\":[0,1280]}}",
                     1280);
    folder_write("b.safetensors", maker.data, maker.bytes);
    folder_write("model.safetensors.index.json", index, sizeof index - 1);
    folder_write("config.json", config, sizeof config - 1);
}

TEST(shards_are_one_model) {
    shards_write();
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.files, 2);
    assert_int_equal(model.tensors, 3);
    assert_int_equal(model.weight_bytes, 3 * 1280);
    assert_int_equal(model.layers[0].weight_bytes, 1280);
    assert_int_equal(model.layer_count, 2);
    assert_int_equal(vram_model_read(folder_path("model.safetensors.index.json"), NULL, &model),
                     VRAM_OK);
}

/* What is known without the files: the size of all tensors, exactly. */
TEST(an_index_without_its_files) {
    static const char no_total[] = "{\"weight_map\":{\"x\":\"a.safetensors\"}}";
    static const char absurd[] = "{\"metadata\":{\"total_size\":18446744073709551615},"
                                 "\"weight_map\":{\"x\":\"a.safetensors\"}}";
    shards_write();
    unlink(folder_path("b.safetensors"));
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.format, VRAM_MODEL_SAFETENSORS);
    assert_int_equal(model.missing_files, 1);
    assert_int_equal(model.files, 2);
    assert_int_equal(model.tensors, 3);
    assert_int_equal(model.weight_bytes, 8320);
    assert_int_equal(model.input_bytes + model.output_bytes + model.other_bytes +
                         model.layers[0].weight_bytes + model.layers[1].weight_bytes,
                     8320);
    assert_true(model.layers[0].weight_bytes > 0 && model.input_bytes > 0);
    assert_true(model.family_known && !model.kv_guessed);
    assert_int_equal(model.layers[0].k_elements, 32);
    unlink(folder_path("config.json")); /* without it nothing is known of the layers */
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_ERR_IO);
    assert_non_null(strstr(vram_error_get()->text, "b.safetensors: there is no such file"));
    assert_non_null(strstr(vram_error_get()->text, "config.json"));
    folder_write("config.json", config, sizeof config - 1);
    unlink(folder_path("a.safetensors"));
    folder_write("model.safetensors.index.json", no_total, sizeof no_total - 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_ERR_IO);
    assert_non_null(strstr(vram_error_get()->text, "no total_size"));
    folder_write("model.safetensors.index.json", absurd, sizeof absurd - 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "18446744073709551615"));
}

/* The weights beside a config.json that is named count, unless another type is asked for. */
TEST(a_config_beside_its_weights) {
    vram_model_read_options options = {.size = sizeof options, .weight_type = "f32"};
    shards_write();
    assert_int_equal(vram_model_read(folder_path("config.json"), NULL, &model), VRAM_OK);
    assert_int_equal(model.format, VRAM_MODEL_SAFETENSORS);
    assert_int_equal(model.weight_bytes, 3 * 1280);
    assert_int_equal(vram_model_read(folder_path("config.json"), &options, &model), VRAM_OK);
    assert_int_equal(model.format, VRAM_MODEL_CONFIG);
    assert_string_equal(model.weight_type, "f32");
}

/* A family that nobody knows: its weights are exact, its cache is a guess until the matrices of
   keys and values confirm it. */
TEST(families_that_are_not_known) {
    static const char unknown[] =
        "{\"model_type\":\"nobody\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,"
        "\"intermediate_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":2}";
    static const char wider[] =
        "{\"model_type\":\"nobody\",\"num_hidden_layers\":2,\"hidden_size\":64,\"vocab_size\":10,"
        "\"intermediate_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":4}";
    static const char parameters[] =
        "{\"metadata\":{\"total_size\":9000,\"total_parameters\":4500},"
        "\"weight_map\":{\"x\":\"gone.safetensors\"}}";
    static const char none[] = "{\"metadata\":{\"total_size\":9000,\"total_parameters\":0},"
                               "\"weight_map\":{\"x\":\"gone.safetensors\"}}";
    folder_write("config.json", unknown, sizeof unknown - 1);
    assert_int_equal(vram_model_read(folder_path("config.json"), NULL, &model), VRAM_OK);
    assert_true(!model.family_known && model.kv_guessed && model.kv_known);
    safetensors_make(&maker, header, DATA);
    folder_write("model.safetensors", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.weight_bytes, DATA);
    assert_true(model.family_known && !model.kv_guessed); /* the file has 32 rows, too */
    folder_write("config.json", wider, sizeof wider - 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.weight_bytes, DATA);
    assert_true(model.family_known && model.kv_guessed);
    shards_write();
    folder_write("config.json", unknown, sizeof unknown - 1);
    unlink(folder_path("a.safetensors"));
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.weight_bytes, 8320);
    assert_int_equal(model.parameters, 0); /* they would be a guess */
    assert_true(model.family_known && model.kv_guessed);
    folder_write("model.safetensors.index.json", parameters, sizeof parameters - 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.parameters, 4500);
    assert_int_equal(model.active_parameters, 4500);
    folder_write("model.safetensors.index.json", none, sizeof none - 1);
    assert_int_equal(vram_model_read(maker_folder, NULL, &model), VRAM_OK);
    assert_int_equal(model.parameters, 0); /* as if it said nothing */
}

/* A part of a model is not taken for all of it. */
TEST(parts_are_found_by_their_names) {
    static const char index[] =
        "{\"metadata\":{\"total_size\":999},\"weight_map\":{\"lm_head.weight\":"
        "\"m-00003-of-00003.safetensors\"}}";
    safetensors_make(&maker, header, DATA);
    folder_write("m-00001-of-00002.safetensors", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("m-00001-of-00002.safetensors"), NULL, &model),
                     VRAM_ERR_IO);
    assert_non_null(strstr(vram_error_get()->text, "m-00002-of-00002.safetensors"));
    safetensors_make(&maker,
                     "{\"model.norm.weight\":{\"dtype\":\"F16\",\"shape\":[64],"
                     "\"data_offsets\":[0,128]}}",
                     128);
    folder_write("m-00002-of-00002.safetensors", maker.data, maker.bytes);
    for (int part = 1; part <= 2; part++) {
        const char *name =
            part == 1 ? "m-00001-of-00002.safetensors" : "m-00002-of-00002.safetensors";
        assert_int_equal(vram_model_read(folder_path(name), NULL, &model), VRAM_OK);
        assert_int_equal(model.weight_bytes, DATA + 128);
        assert_int_equal(model.files, 2);
    }
    folder_write("m.safetensors.index.json", index, sizeof index - 1);
    folder_write("config.json", config, sizeof config - 1);
    assert_int_equal(vram_model_read(folder_path("m-00001-of-00002.safetensors"), NULL, &model),
                     VRAM_OK);
    assert_int_equal(model.weight_bytes, 999);
}

TEST(indexes_that_lie) {
    static const struct {
        const char *text;
        vram_status status;
        const char *word;
    } rows[] = {
        {"{\"weight_map\":{\"x\":\"a.safetensors\"}}", VRAM_ERR_CORRUPT,
         "names 1 tensors, its files hold 2"},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", VRAM_ERR_CORRUPT, "not in its folder"},
        {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}", VRAM_ERR_CORRUPT, "not in its folder"},
        {"{\"weight_map\":{\"x\":\"\"}}", VRAM_ERR_CORRUPT, "not in its folder"},
        {"{\"weight_map\":{\"x\":\"a\\u0000b\"}}", VRAM_ERR_CORRUPT, "not in its folder"},
        {"{\"weight_map\":{\"x\":7}}", VRAM_ERR_CORRUPT, "JSON"},
        {"{\"weight_map\":[]}", VRAM_ERR_CORRUPT, "JSON"},
        {"{\"weight_map\":{}}", VRAM_ERR_INVALID, "no tensors"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\"}", VRAM_ERR_CORRUPT, "JSON"},
    };
    shards_write();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        folder_write("model.safetensors.index.json", rows[i].text, strlen(rows[i].text));
        assert_int_equal(vram_model_read(maker_folder, NULL, &model), rows[i].status);
        if (!strstr(vram_error_get()->text, rows[i].word)) {
            fail_msg("\"%s\" is not in \"%s\"", rows[i].word, vram_error_get()->text);
        }
    }
}

/* ------------------------------------------------------------- files that lie */

#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(headers_that_lie) {
    refused("{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 9, VRAM_ERR_CORRUPT, "or do not cover");
    refused("{\"a\":" TENSOR("F32", "[2]", "[0,8]") ",\"b\":" TENSOR("F32", "[2]", "[0,8]") "}", 8,
            VRAM_ERR_CORRUPT, "or do not cover");
    refused("{\"a\":" TENSOR("F32", "[2]", "[0,8]") ",\"b\":" TENSOR("F32", "[2]", "[4,12]") "}",
            12, VRAM_ERR_CORRUPT, "or do not cover");
    refused("{\"a\":" TENSOR("F32", "[2]", "[4,12]") "}", 12, VRAM_ERR_CORRUPT, "overlap");
    refused("{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 7, VRAM_ERR_CORRUPT, "of 7 bytes");
    refused("{\"a\":" TENSOR("F32", "[2]", "[8,0]") "}", 8, VRAM_ERR_CORRUPT, "at 8 to 0");
    refused("{\"a\":" TENSOR("F32", "[3]", "[0,8]") "}", 8, VRAM_ERR_CORRUPT, "3 elements");
    refused("{\"a\":" TENSOR("F4", "[3]", "[0,1]") "}", 1, VRAM_ERR_CORRUPT, "3 elements");
    refused("{\"a\":" TENSOR("Q8", "[3]", "[0,8]") "}", 8, VRAM_ERR_UNSUPPORTED, "dtype");
    refused("{\"a\":" TENSOR("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, VRAM_ERR_CORRUPT,
            "JSON");
    refused("{\"a\":" TENSOR("F32", "[-1]", "[0,0]") "}", 0, VRAM_ERR_CORRUPT, "JSON");
    refused("{\"a\":" TENSOR("F32", "[1]", "[0,4,8]") "}", 4, VRAM_ERR_CORRUPT, "JSON");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, VRAM_ERR_CORRUPT, "JSON");
    refused("{\"a\":7}", 0, VRAM_ERR_CORRUPT, "JSON");
    refused("[]", 0, VRAM_ERR_CORRUPT, "JSON");
    refused("{}", 1, VRAM_ERR_CORRUPT, "not cover");
    refused("{\"layers.512.a\":" TENSOR("F32", "[1]", "[0,4]") "}", 4, VRAM_ERR_UNSUPPORTED,
            "beyond the 512");
    safetensors_make(&maker, "{}", 0);
    maker.data[3] = 0xff; /* a length of 4 GB, and one that is longer than the file */
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "at most 100000000"));
    maker.data[3] = 1;
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "truncated"));
}

/* The fuzzer changes what is in them. */
TEST(files_end_anywhere) {
    safetensors_make(&maker, header, DATA);
    const size_t head = 8 + strlen(header);
    for (size_t bytes = 0; bytes < maker.bytes; bytes += bytes < head ? 1 : 61) {
        vram_error_clear();
        assert_int_not_equal(read_memory(maker.data, bytes), VRAM_OK);
        assert_int_not_equal(vram_error_get()->status, VRAM_OK);
    }
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
}

EACH_TEST(begin, end)

/* ----------------------------------------------------------- config.json that lies */

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

static void config_refused(const char *text, vram_status status, const char *words) {
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
        config_refused(refusals[i].text, refusals[i].status, refusals[i].words);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"n_embd\":%s}", wrong[i]);
        snprintf(words, sizeof words, "n_embd is %s, not a number from 0 to 4294967295", wrong[i]);
        config_refused(text, VRAM_ERR_CORRUPT, words);
        if (wrong[i][0] != '"') { /* a text in a list is no number, and is skipped */
            snprintf(text, sizeof text, "{\"text_config\":{\"head_dim\":[%s]}}", wrong[i]);
            config_refused(text, VRAM_ERR_CORRUPT, "head_dim is ");
        }
    }
    snprintf(text, sizeof text, "{\"a\":%0200d}", 0);
    memset(text + 5, '[', 200);
    config_refused(text, VRAM_ERR_CORRUPT, "nested too deep");
}

/* Counts that are missing, in the words that files have for it. */
TEST(counts_that_are_missing) {
    static struct vr_config found;
    static const char text[] = "{\"sliding_window\":-1,\"max_position_embeddings\":-1,"
                               "\"mamba_dt_rank\":\"auto\",\"num_experts\":null,\"n_layer\":12.0}";
    assert_int_equal(vr_config_read(text, sizeof text - 1, &found), VRAM_OK);
    assert_false(found.text.values[VR_CONFIG_WINDOW].known);
    assert_false(found.text.values[VR_CONFIG_STATE_RANK].known);
    assert_int_equal(found.text.values[VR_CONFIG_LAYERS].value, 12);
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
    config_refused(text, VRAM_ERR_CORRUPT, "at most 4194304 are read");
}

/* The fuzzer changes what is in them. */
TEST(configs_end_anywhere) {
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
