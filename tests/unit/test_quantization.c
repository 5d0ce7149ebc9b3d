/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_quantization.c: the bytes of one small model as each way to pack weights stores it, worked
 * out by hand: a scale for each group, block or row, and modules that are left out.
 */
#include "model/name_pattern.h"
#include "model/quantization.h"
#include "rig/rig.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static vram_model model;

/* Two layers of 256: queries, keys, values and output of 256 x 256, three matrices of 512 x 256. */
#define HEAD                                                                                       \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":256,"                       \
    "\"intermediate_size\":512,\"vocab_size\":1000,\"num_attention_heads\":4,"                     \
    "\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\""
enum {
    ATTENTION = 4 * 256 * 256,
    FEED = 3 * 512 * 256,
    ROWS = 4 * 256 + 2 * 512 + 256, /* of all matrices of a layer */
    BLOCKS = 4 * 4 + 3 * 8,         /* of 128 x 128 */
    NORMS = 2 * 256 * 2,            /* bytes */
    PLAIN = (ATTENTION + FEED) * 2
};

static void file_write(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Reads a folder with this config.json, and with that beside it unless it is NULL. */
static vram_status folder_read(const char *config, const char *beside) {
    char folder[] = "/tmp/vram-quant-XXXXXX", path[64], other[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.json", folder);
    snprintf(other, sizeof other, "%s/hf_quant_config.json", folder);
    file_write(path, config);
    if (beside) {
        file_write(other, beside);
    }
    model = (vram_model){.size = sizeof model};
    vram_status status = vram_model_read(folder, NULL, &model);
    unlink(path);
    unlink(other);
    rmdir(folder);
    return status;
}

static void layer_is(const char *quantization, uint64_t first, uint64_t second) {
    assert_string_equal(model.quantization, quantization);
    assert_int_equal(model.layers[0].weight_bytes, first + NORMS);
    assert_int_equal(model.layers[1].weight_bytes, second + NORMS);
    assert_int_equal(model.input_bytes, 1000 * 256 * 2); /* never packed, nor is the output */
    assert_int_equal(model.output_bytes, 1000 * 256 * 2 + 256 * 2);
}

TEST(each_way_has_its_bytes) {
    enum { ALL = ATTENTION + FEED };
    static const struct {
        const char *text, *name;
        uint64_t bytes;
    } ways[] = {
        {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", "fp8", ALL + BLOCKS * 4},
        {"{\"quant_method\":\"fbgemm_fp8\"}", "fp8", ALL + ROWS * 4},
        {"{\"quant_algo\":\"FP8\",\"kv_cache_scheme\":\"FP8\"}", "fp8", ALL + ROWS * 4},
        {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"group_size\":16}", "nvfp4",
         ALL / 2 + ALL / 16},
        {"{\"quant_method\":\"mxfp4\"}", "mxfp4", ALL / 2 + ALL / 32},
        /* scales of 16 bits and zeros of 4 */
        {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"zero_point\":true}", "int4",
         ALL / 2 + ALL / 128 * 20 / 8},
        {"{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":128,\"sym\":true}", "int8",
         ALL + ALL / 128 * (16 + 8) / 8},
        {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":"
         "\"nf4\",\"bnb_4bit_use_double_quant\":true}",
         "nf4", ALL / 2 + ALL / 64},
        {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}", "nf4",
         ALL / 2 + ALL / 64 * 4},
        {"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true,\"load_in_4bit\":false}", "int8",
         ALL + ROWS * 4},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
         "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,"
         "\"type\":\"int\",\"group_size\":32,\"symmetric\":true}}}}",
         "int4", ALL / 2 + ALL / 32 * 2},
        {"{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\","
         "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"input_activations\":{"
         "\"num_bits\":4},\"weights\":{\"num_bits\":8,\"type\":\"float\",\"group_size\":null}}}}",
         "fp8", ALL + ROWS * 4},
        {"{\"quant_method\":\"hqq\",\"quant_config\":{\"weight_quant_params\":{\"nbits\":4,"
         "\"group_size\":64}}}",
         "int4", ALL / 2 + ALL / 64 * 2},
        {"{\"quant_method\":\"torchao\",\"quant_type\":{\"default\":{\"_type\":"
         "\"Int4WeightOnlyConfig\",\"_data\":{\"group_size\":128}}}}",
         "int4", ALL / 2 + ALL / 128 * 2},
        {"{\"quant_method\":\"w4afp8\"}", "int4", ALL / 2 + ALL / 128 * 2},
        {"{\"quant_method\":\"quanto\",\"weights\":\"int8\"}", "int8", ALL + ROWS * 4},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, HEAD ",\"quantization_config\":%s}", ways[i].text);
        assert_int_equal(folder_read(text, NULL), VRAM_OK);
        layer_is(ways[i].name, ways[i].bytes, ways[i].bytes);
    }
}

TEST(a_config_without_the_key_is_taken_as_it_stands) {
    assert_int_equal(folder_read(HEAD "}", NULL), VRAM_OK);
    layer_is("none", PLAIN, PLAIN);
    assert_string_equal(model.weight_type, "bf16");
    assert_int_equal(folder_read("\xEF\xBB\xBF" HEAD "}", NULL), VRAM_OK); /* a byte order mark */
    layer_is("none", PLAIN, PLAIN);
}

/* Attention of both layers, and everything in the second. */
TEST(modules_are_left_out) {
    static const char *const lists[] = {
        "\"modules_to_not_convert\":[\"self_attn\",\"model.layers.1\",\"lm_head\"]",
        "\"ignore\":[\"re:.*self_attn.*\",\"re:.*layers\\\\.1\\\\..*\"]",
        "\"exclude_modules\":[\"model.layers.0.self_attn.q_proj\","
        "\"model.layers.0.self_attn.k_proj\",\"model.layers.0.self_attn.v_proj\","
        "\"model.layers.0.self_attn.o_proj\",\"model.layers.1.*\"]",
        "\"llm_int8_skip_modules\":[\"*self_attn*\",\"layers.1\"]",
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, HEAD ",\"quantization_config\":{\"quant_algo\":\"FP8\",%s}}",
                 lists[i]);
        assert_int_equal(folder_read(text, NULL), VRAM_OK);
        layer_is("fp8", ATTENTION * 2 + FEED + (2 * 512 + 256) * 4, PLAIN);
    }
}

/* Groups with targets, and layers that are named one by one. */
TEST(ways_are_mixed) {
    const uint64_t mixed = ATTENTION + 4 * 256 * 4 + FEED / 2 + FEED / 16;
    assert_int_equal(
        folder_read(HEAD ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                         "\"config_groups\":{\"group_0\":{\"targets\":[\"re:.*self_attn.*\"],"
                         "\"weights\":{\"num_bits\":8,\"type\":\"float\"}},\"group_1\":{"
                         "\"targets\":[\"Linear\"],\"format\":\"nvfp4-pack-quantized\","
                         "\"weights\":{\"num_bits\":4,\"type\":\"float\",\"group_size\":16}}}}}",
                    NULL),
        VRAM_OK);
    layer_is("nvfp4", mixed, mixed);
    /* what is left out counts more than a target, wherever it stands */
    assert_int_equal(
        folder_read(HEAD ",\"quantization_config\":{\"config_groups\":{\"group_0\":{\"targets\":["
                         "\"re:.*layers.*\"],\"weights\":{\"num_bits\":8,\"type\":\"float\"}}},"
                         "\"ignore\":[\"re:.*mlp.*\"]}}",
                    NULL),
        VRAM_OK);
    layer_is("fp8", ATTENTION + 4 * 256 * 4 + FEED * 2, ATTENTION + 4 * 256 * 4 + FEED * 2);
    assert_int_equal(
        folder_read(HEAD "}", "{\"quantization\":{\"quant_algo\":\"MIXED_PRECISION\","
                              "\"quantized_layers\":{\"model.layers.0.mlp\":{\"quant_algo\":"
                              "\"FP8\"},\"model.layers.1.mlp.up_proj\":{\"quant_algo\":\"NVFP4\","
                              "\"group_size\":16}}}}"),
        VRAM_OK);
    layer_is("fp8", ATTENTION * 2 + FEED + (2 * 512 + 256) * 4,
             PLAIN - 512 * 256 * 2 + 512 * 256 / 2 + 512 * 256 / 16);
}

TEST(the_file_beside_it_is_read) {
    enum { ALL = ATTENTION + FEED };
    const char *beside = "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":"
                         "\"NVFP4\",\"group_size\":16,\"exclude_modules\":[\"lm_head\"]}}";
    assert_int_equal(folder_read(HEAD "}", beside), VRAM_OK);
    layer_is("nvfp4", ALL / 2 + ALL / 16, ALL / 2 + ALL / 16);
    /* config.json itself counts more */
    assert_int_equal(
        folder_read(HEAD ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", beside),
        VRAM_OK);
    assert_string_equal(model.quantization, "mxfp4");
    assert_int_equal(folder_read(HEAD "}", "{\"quantization\":["), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "hf_quant_config.json"));
}

#define EXPERTS                                                                                    \
    "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":1,\"hidden_size\":256,"                   \
    "\"moe_intermediate_size\":512,\"vocab_size\":1000,\"num_attention_heads\":4,"                 \
    "\"num_experts\":8,\"num_experts_per_tok\":2,\"torch_dtype\":\"bfloat16\""

TEST(experts_have_a_type_of_their_own) {
    enum { PACKED = 8 * FEED };
    assert_int_equal(folder_read(EXPERTS ",\"expert_dtype\":\"fp4\",\"quantization_config\":{"
                                         "\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}"
                                         "}",
                                 NULL),
                     VRAM_OK);
    assert_int_equal(model.layers[0].expert_bytes, PACKED / 2 + PACKED / 32);
    const uint64_t rest = model.layers[0].weight_bytes - model.layers[0].expert_bytes;
    const uint64_t router = 8 * 256 * 2, head_norms = 2 * 64 * 2;
    assert_int_equal(rest, ATTENTION + 4 * 4 * 4 + router + head_norms + NORMS);
    assert_string_equal(model.quantization, "mxfp4");
}

/* One matrix has several names, by the program that wrote the file. */
TEST(modules_have_other_names_elsewhere) {
    enum { PACKED = 8 * FEED };
    static const struct {
        const char *text;
        uint64_t experts, attention;
    } rows[] = {
        /* experts as Mixtral and MiniMax call them, one by one */
        {"{\"model_type\":\"mixtral\",\"num_local_experts\":8,\"intermediate_size\":512,%s,"
         "\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":"
         "\"MIXED_PRECISION\",\"quantized_layers\":{"
         "\"model.layers.0.block_sparse_moe.experts.0.w1\":{\"quant_algo\":\"NVFP4\"},"
         "\"model.layers.0.block_sparse_moe.experts.0.w2\":{\"quant_algo\":\"NVFP4\"},"
         "\"model.layers.0.block_sparse_moe.experts.0.w3\":{\"quant_algo\":\"NVFP4\"},"
         "\"model.layers.0.self_attn.q_proj\":{\"quant_algo\":\"MXFP8\"}}}}",
         PACKED / 2 + PACKED / 16, ATTENTION * 2 - 256 * 256 + 256 * 256 / 32},
        /* dense block and experts have blocks of their own */
        {"{\"model_type\":\"minimax_m3_vl\",\"num_local_experts\":8,\"intermediate_size\":512,%s,"
         "\"quantization_config\":{\"quant_algo\":\"NVFP4\",\"exclude_modules\":[\"self_attn\","
         "\"mlp\"]}}",
         PACKED / 2 + PACKED / 16, ATTENTION * 2},
        {"{\"model_type\":\"gemma4\",\"num_experts\":8,\"moe_intermediate_size\":512,"
         "\"hidden_size_per_layer_input\":0,\"global_head_dim\":64,%s,"
         "\"intermediate_size\":0,\"quantization_config\":{\"quant_algo\":\"NVFP4\",\"ignore\":"
         "[\"model.language_model.layers.0.mlp*\",\"model.language_model.layers.0.router*\","
         "\"model.language_model.layers.0.self_attn*\"]}}",
         PACKED / 2 + PACKED / 16, ATTENTION * 2},
        {"{\"model_type\":\"step3p5\",\"num_experts\":8,\"moe_intermediate_size\":512,%s,"
         "\"quantization_config\":{\"quant_algo\":\"NVFP4\",\"ignore\":[\"mlp\","
         "\"self_attn\",\"moe.down_proj\"]}}",
         PACKED / 3 * 2 / 2 + PACKED / 3 * 2 / 16 + PACKED / 3 * 2, ATTENTION * 2},
        /* matrices that are one in the file */
        {"{\"model_type\":\"qwen3_moe\",\"num_experts\":8,\"moe_intermediate_size\":512,%s,"
         "\"quantization_config\":{\"quant_algo\":\"NVFP4\",\"ignore\":[\"self_attn.qkv_proj\","
         "\"experts.0.gate_up_proj\"]}}",
         PACKED / 3 / 2 + PACKED / 3 / 16 + PACKED / 3 * 2 * 2,
         3 * 256 * 256 * 2 + 256 * 256 / 2 + 256 * 256 / 16},
    };
    static const uint64_t router = 8 * 256 * 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, rows[i].text,
                 "\"hidden_size\":256,\"num_hidden_layers\":1,\"vocab_size\":1000,"
                 "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"head_dim\":64,"
                 "\"num_experts_per_tok\":2,\"torch_dtype\":\"bfloat16\"");
        assert_int_equal(folder_read(text, NULL), VRAM_OK);
        assert_int_equal(model.layers[0].expert_bytes, rows[i].experts);
        uint64_t rest = model.layers[0].weight_bytes - rows[i].experts - rows[i].attention - router;
        assert_in_range(rest, 0, 10000); /* norms */
        assert_string_equal(model.quantization, "nvfp4");
    }
}

/* Types that are asked for, whatever the config says: matrices of layers alone. */
TEST(ways_that_are_asked_for) {
    enum { ALL = ATTENTION + FEED };
    static const struct {
        const char *name, *type;
        uint64_t bytes;
    } rows[] = {
        {"fp8", "fp8", ALL + ROWS * 4},
        {"FP8", "fp8", ALL + ROWS * 4},
        {"int8", "int8", ALL + ROWS * 4},
        {"mxfp8", "mxfp8", ALL + ALL / 32},
        {"nvfp4", "nvfp4", ALL / 2 + ALL / 16},
        {"mxfp4", "mxfp4", ALL / 2 + ALL / 32},
        {"int4", "int4", ALL / 2 + ALL / 128 * 2},
        {"awq", "int4", ALL / 2 + ALL / 128 * 20 / 8},
        {"gptq", "int4", ALL / 2 + ALL / 128 * 20 / 8},
    };
    char path[] = "/tmp/vram-quant-XXXXXX";
    close(mkstemp(path));
    file_write(path, HEAD ",\"quantization_config\":{\"quant_method\":\"aqlm\",\"bits\":2,"
                          "\"modules_to_not_convert\":[\"mlp\"]}}");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_model_read_options options = {.size = sizeof options, .weight_type = rows[i].name};
        model = (vram_model){.size = sizeof model};
        assert_int_equal(vram_model_read(path, &options, &model), VRAM_OK);
        assert_string_equal(model.weight_type, rows[i].type);
        assert_int_equal(model.layers[0].weight_bytes, rows[i].bytes + NORMS);
        assert_int_equal(model.input_bytes, 1000 * 256 * 2);
    }
    static const char *const wrong[] = {"fp7", "awq ", "", "nvfp4 or any other"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vram_model_read_options options = {.size = sizeof options, .weight_type = wrong[i]};
        assert_int_equal(vram_model_read(path, &options, &model), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "nvfp4, mxfp4, int4, int8, awq"));
        assert_non_null(strstr(vram_error_get()->text, "MXFP4_MOE"));
    }
    unlink(path);
}

/* What a config leaves out is named, with what is taken for it. */
TEST(defaults_are_named) {
    assert_int_equal(folder_read(HEAD "}", NULL), VRAM_OK);
    assert_string_equal(model.defaults, "max_position_embeddings 2048");
    assert_int_equal(folder_read("{\"model_type\":\"llama\",\"n_embd\":256,"
                                 "\"n_positions\":512,\"hidden_dim\":512}",
                                 NULL),
                     VRAM_OK);
    assert_string_equal(model.defaults, "num_hidden_layers 32, num_attention_heads 32, "
                                        "vocab_size 32000, torch_dtype bf16");
}

/* A method that is not known is refused by its name, unless the type is asked for. */
TEST(ways_that_are_not_known) {
    const char *text = HEAD ",\"quantization_config\":{\"quant_method\":\"aqlm\"}}";
    assert_int_equal(folder_read(text, NULL), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "aqlm"));
    char path[] = "/tmp/vram-quant-XXXXXX";
    vram_model_read_options options = {.size = sizeof options, .weight_type = "q8_0"};
    close(mkstemp(path));
    file_write(path, text);
    assert_int_equal(vram_model_read(path, &options, &model), VRAM_OK);
    assert_string_equal(model.weight_type, "q8_0");
    unlink(path);
}

/* As many modules as are read, and more; and names of any length. */
TEST(lists_have_an_end) {
    enum { MANY = VR_QUANT_RULES_MAX + 1, EACH = 16 };
    char *text = malloc(1024 + (size_t)MANY * EACH);
    assert_non_null(text);
    for (int more = 0; more < 2; more++) {
        size_t used = (size_t)sprintf(text, HEAD ",\"quantization_config\":{\"quant_algo\":\"FP8\","
                                                 "\"ignore\":[\"x\"");
        for (int i = 1; i < VR_QUANT_RULES_MAX + more; i++) {
            used += (size_t)sprintf(text + used, ",\"layers.%d\"", i % 1000);
        }
        strcpy(text + used, "]}}");
        assert_int_equal(folder_read(text, NULL), more ? VRAM_ERR_UNSUPPORTED : VRAM_OK);
    }
    assert_non_null(strstr(vram_error_get()->text, "more than 4096 modules"));
    free(text);
}

/* ----------------------------------------------------------------- the text alone */

static struct vr_quantization found;

/* Reads a text, and refuses all that it begins with. */
static void text_take(const char *text) {
    size_t bytes = strlen(text);
    for (size_t cut = 0; cut <= bytes; cut++) {
        memset(&found, 0, sizeof found);
        assert_int_equal(vr_quantization_parse(text, cut, &found),
                         cut < bytes ? VRAM_ERR_CORRUPT : VRAM_OK);
    }
}

static const struct vr_scheme *usual(void) {
    return &found.schemes[found.usual];
}

TEST(schemes_by_their_words) {
    text_take("{\"type\":\"float\",\"bits\":4,\"group_size\":16}");
    assert_string_equal(usual()->name, "nvfp4");
    text_take("{\"type\":\"float\",\"bits\":4,\"group_size\":4294967296}");
    assert_string_equal(usual()->name, "mxfp4");
    text_take("{\"type\":\"float\",\"bits\":6,\"group_size\":32}");
    assert_string_equal(usual()->name, "fp6");
    text_take("{\"quant_method\":\"x\",\"bits\":16}"); /* not packed */
    assert_int_equal(found.usual, VR_SCHEME_PLAIN);
    assert_string_equal(found.unknown, "x");
    text_take("{\"bits\":4,\"group_size\":128,\"zero_point\":true,\"sym\":true}");
    assert_int_equal(usual()->scale_bits, 16 + 4);
    text_take("{\"bits\":4,\"group_size\":128,\"sym\":false,\"zero_point\":false}");
    assert_int_equal(usual()->scale_bits, 16 + 4);
    text_take("{\"bits\":4,\"group_size\":128,\"sym\":false,\"symmetric\":7,\"x\":true}");
    assert_int_equal(usual()->scale_bits, 16 + 4);
    text_take("{\"load_in_4bit\":true,\"bnb_4bit_use_double_quant\":true,\"x\":true}");
    assert_int_equal(usual()->scale_bits, 8);
    text_take("{\"fmt\":\"fp8\",\"weight_block_size\":[64,128,256],\"ignore\":7}");
    assert_int_equal(usual()->rows, 64);
    assert_int_equal(usual()->width, 256);
    text_take("{\"fmt\":\"fp8\",\"weight_block_size\":[[1],32]}");
    assert_int_equal(usual()->rows, 1);
    assert_int_equal(usual()->width, 32);
    text_take("{\"fmt\":\"fp8\",\"weight_block_size\":7,\"weights\":\"int8\"}");
    assert_int_equal(usual()->rows, 1);
    text_take(
        "{\"fmt\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"dtype\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\","
        "\"format\":\"cccccccccccccccccccccccccccccc\",\"type\":\"dddddddddddddddddddddddddddddd\","
        "\"_type\":\"eeeeeeeeeeeeeeeeeeeeeeeeeeeeee\",\"quant_algo\":"
        "\"fffffffffffffffffffffffffffff\","
        "\"quant_type\":\"fp8 is one word too many here\","
        "\"quant_method\":\"this one is too long for a word of it\"}");
    assert_int_equal(found.usual, VR_SCHEME_PLAIN);
}

/* Names of modules fill the table of texts before that of rules. */
TEST(texts_have_an_end) {
    enum { NAMES = 1000, LENGTH = 200 };
    char *text = malloc((size_t)NAMES * (LENGTH + 8) + 64);
    assert_non_null(text);
    for (int modules = 0; modules < 2; modules++) {
        size_t used = (size_t)sprintf(text, modules ? "{\"quantized_layers\":{" : "{\"ignore\":[");
        for (int i = 0; i < NAMES; i++) {
            used += (size_t)sprintf(text + used, "%s\"%0*d\"%s", i ? "," : "", LENGTH, i,
                                    modules ? ":1" : "");
        }
        used += (size_t)sprintf(text + used, modules ? "}}" : "]}");
        memset(&found, 0, sizeof found);
        assert_int_equal(vr_quantization_parse(text, used, &found), VRAM_ERR_UNSUPPORTED);
        assert_int_equal(found.rule_count, VR_QUANT_TEXT_MAX / (LENGTH + 1));
    }
    free(text);
}

TEST(bytes_that_overflow) {
    static const struct {
        struct vr_scheme scheme;
        uint64_t rows, columns;
    } rows[] = {
        {{"", 4, 16, 1, 128}, UINT64_MAX, 2},
        {{"", 4, 16, 1, 128}, UINT64_MAX / 2, 1},
        {{"", 1, 16, 1, 1}, UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1},
        {{"", 1, 8, 1, 8}, UINT64_C(1) << 63, 1},
        {{"", 1, 1, 1, 1}, UINT64_MAX, 1},
        {{"", 1, 0, 1, 0}, UINT64_MAX, 1},
    };
    uint64_t bytes = 7;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_false(vr_scheme_bytes(&rows[i].scheme, rows[i].rows, rows[i].columns, &bytes));
        assert_int_equal(bytes, 7);
    }
    assert_true(vr_scheme_bytes(&rows[0].scheme, 0, 5, &bytes));
    assert_int_equal(bytes, 0);
    bytes = 7;
    assert_true(vr_scheme_bytes(&rows[0].scheme, 5, 0, &bytes));
    assert_int_equal(bytes, 0);
}

/* ------------------------------------------------------------- patterns of names */

#define STEPS UINT64_C(100000)

static bool matches(const char *pattern, const char *name) {
    uint64_t steps = STEPS;
    return vr_name_matches(pattern, name, &steps);
}

TEST(words_are_whole) {
    assert_true(matches("mlp.gate", "model.layers.3.mlp.gate"));
    assert_true(matches("gate", "model.layers.3.mlp.gate"));
    assert_false(matches("gate", "model.layers.3.mlp.gate_proj"));
    assert_false(matches("mlp.gate", "model.layers.3.bmlp.gate"));
    assert_true(matches("self_attn", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("language_model.model.layers.3.mlp.gate", "model.layers.3.mlp.gate"));
    assert_false(matches("model.layers.3.mlp.gate", "model.layers.33.mlp.gate"));
    assert_false(matches("lm_head", "model.layers.3.mlp.gate"));
}

TEST(wildcards_end_at_components) {
    assert_true(matches("model.layers.*.self_attn", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("model.layers.*.self_attn", "model.layers.3.self_attn"));
    assert_false(matches("model.layers.*.self_attn", "model.layers.3.self_attn_norm"));
    assert_true(matches("*self_attn*", "model.layers.3.self_attn.q_proj"));
    assert_true(matches("backbone.layers.1*", "model.layers.12.mixer.in_proj"));
    assert_false(matches("backbone.layers.1*", "model.layers.2.mixer.in_proj"));
    assert_true(matches("*.layer?.*", "a.layer7.b"));
    assert_false(matches("*vision*", "model.layers.3.mlp.gate"));
}

TEST(expressions_begin_at_the_start) {
    assert_true(matches("re:.*self_attn.*", "model.layers.3.self_attn.q_proj"));
    assert_false(matches("re:self_attn.*", "model.layers.3.self_attn.q_proj"));
    const char *gates = "re:.*mlp\\.(gate|up|gate_up|down)_proj.*";
    assert_true(matches(gates, "model.layers.3.mlp.gate_up_proj"));
    assert_true(matches(gates, "model.layers.3.mlp.down_proj"));
    assert_false(matches(gates, "model.layers.3.mlp.experts.0.down_proj"));
    assert_false(matches(gates, "model.layers.3.mlpx.down_proj"));
    assert_true(matches("re:.*layers\\.[0-2]\\..*", "model.layers.2.mlp.gate"));
    assert_false(matches("re:.*layers\\.[^0-2]\\..*", "model.layers.2.mlp.gate"));
    assert_true(matches("re:^model\\.layers\\.\\d+\\.mlp\\.gate$", "model.layers.42.mlp.gate"));
    assert_false(
        matches("re:^model\\.layers\\.\\d+\\.mlp\\.gate$", "model.layers.42.mlp.gate_proj"));
    assert_true(matches("re:.*\\.(?:a(b|c))?d", "x.acd"));
    assert_true(matches("re:.*\\.(?:a(b|c))?d", "x.d"));
    assert_true(matches("re:\\w+\\.x?y", "abc_1.y"));
    assert_true(matches("re:layers\\.3\\.mlp.*", "model.layers.3.mlp.gate"));
}

/* What is not understood matches nothing, and what could take forever ends. */
TEST(expressions_that_are_bad) {
    static const char *const bad[] = {"re:(a",   "re:[a",   "re:a\\", "re:(?!b).*",
                                      "re:(a)*", "re:(a)+", "re:a$b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(matches(bad[i], "aaaa"));
    }
    char pattern[200] = "re:", name[100];
    for (size_t i = 0; i < 30; i++) {
        strcat(pattern, ".*a");
    }
    strcat(pattern, "b");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    uint64_t steps = STEPS;
    assert_false(vr_name_matches(pattern, name, &steps));
    assert_int_equal(steps, 0);
    assert_false(vr_name_matches("re:.*", name, &steps)); /* nothing matches from then on */
    assert_false(vr_name_matches("*", name, &steps));
}

TEST(one_layer_is_found) {
    uint32_t layer = 7;
    const char *rest = NULL;
    assert_true(vr_name_layer("model.layers.12.mlp.gate", &layer, &rest));
    assert_int_equal(layer, 12);
    assert_string_equal(rest, "mlp.gate");
    assert_true(vr_name_layer("layers.0", &layer, &rest));
    assert_string_equal(rest, "");
    assert_false(vr_name_layer("model.layers.1*", &layer, &rest));
    assert_false(vr_name_layer("model.layers.x.mlp", &layer, &rest));
    assert_false(vr_name_layer("model.layers.12345678", &layer, &rest));
    assert_false(vr_name_layer("lm_head", &layer, &rest));
}
