/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_edges.c: model files at the edges of what is read: numbers that almost overflow, and
 * lists that are too short or too long. The fuzzers have files that are cut anywhere.
 */
#include "model/model_config.h"
#include "model/model_file.h"

#include "rig/rig.h"
#include "unit/model_maker.h"

static struct maker maker;
static vram_model model;
static struct vr_weight_sum sum;

static vram_status gguf_read_as(enum vr_gguf_role role, size_t bytes) {
    struct vr_source source;
    struct vr_gguf_split split;
    memset(&model, 0, sizeof model);
    memset(&sum, 0, sizeof sum);
    sum.model = &model;
    vr_source_memory(&source, maker.data, bytes);
    vram_status status = vr_gguf_read(&source, &sum, role, &split);
    vr_source_close(&source);
    return status;
}

static vram_status gguf_read(size_t bytes) {
    return gguf_read_as(VR_GGUF_MODEL, bytes);
}

static void refused(vram_status status, const char *word) {
    assert_int_equal(gguf_read(maker.bytes), status);
    if (!strstr(vram_error_get()->text, word)) {
        fail_msg("\"%s\" is not in \"%s\"", word, vram_error_get()->text);
    }
}

/* A model with `layers` layers, a hidden size of 256 and these numbers, by the ends of their keys;
   the list ends with NULL. */
struct number {
    const char *key;
    uint64_t value;
};

static void shape_make(const char *name, uint32_t layers, const struct number *numbers) {
    uint64_t count = 0;
    char key[96];
    while (numbers[count].key) {
        count++;
    }
    gguf_begin(&maker, 0, 3 + count);
    gguf_string(&maker, "general.architecture", name);
    snprintf(key, sizeof key, "%s.block_count", name);
    gguf_u32(&maker, key, layers);
    snprintf(key, sizeof key, "%s.embedding_length", name);
    gguf_u32(&maker, key, 256);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s.%s", name, numbers[i].key);
        gguf_u32(&maker, key, (uint32_t)numbers[i].value);
    }
}

static void layer_is(uint32_t layer, uint32_t keys, uint32_t values, uint32_t states,
                     uint32_t window) {
    assert_int_equal(model.layers[layer].k_elements, keys);
    assert_int_equal(model.layers[layer].v_elements, values);
    assert_int_equal(model.layers[layer].state_elements, states);
    assert_int_equal(model.layers[layer].window, window);
}

#define SHAPE(name, layers, ...) shape_make(name, layers, (struct number[]){__VA_ARGS__, {NULL, 0}})
#define HEADS                                                                                      \
    { "attention.head_count", 4 }
#define STATES                                                                                     \
    {"ssm.inner_size", 10}, {                                                                      \
        "ssm.state_size", 2                                                                        \
    }

/* What is cached by models of these numbers, in one of their layers. */
TEST(shapes_by_architecture) {
    static const struct {
        const char *name;
        uint32_t layers;
        struct number numbers[5];
        uint32_t layer, keys, values, states, window;
        bool unknown; /* what it caches */
    } rows[] = {
        {"exaone4", 64, {HEADS}, 0, 256, 256, 0, 4096, false}, /* of this size alone with windows */
        {"exaone4", 64, {HEADS}, 3, 256, 256, 0, 0, false},
        {"exaone4", 30, {HEADS}, 0, 256, 256, 0, 0, false},
        {"gemma3n", 30, {HEADS}, 19, 256, 256, 0, 0, false},
        {"gemma3n", 30, {HEADS}, 20, 0, 0, 0, 0, false},
        {"gemma4", 3, {HEADS, {"attention.shared_kv_layers", 3}}, 2, 256, 256, 0, 0, false},
        {"qwen35", 4, {HEADS, STATES}, 2, 0, 0, 20, 0, false}, /* one layer in four is full */
        {"qwen35", 4, {HEADS, STATES}, 3, 256, 256, 0, 0, false},
        {"falcon-h1", 1, {HEADS, STATES}, 0, 256, 256, 20, 0, false}, /* has both */
        {"kimi-linear",
         1,
         {HEADS, {"attention.head_count_kv", 0}, {"kda.head_dim", 16}, {"ssm.conv_kernel", 2}},
         0,
         0,
         0,
         3 * 1 * 4 * 16 + 16 * 16 * 4,
         0,
         false},
        {"mamba", 1, {STATES}, 0, 0, 0, 20, 0, false}, /* without heads */
        {"rwkv7", 1, {{"wkv.head_size", 4}}, 0, 0, 0, 256 * 4 + 256 * 2, 0, false},
        {"strange", 1, {{"context_length", 4}}, 0, 0, 0, 0, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape_make(rows[i].name, rows[i].layers, rows[i].numbers);
        assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
        assert_int_equal(model.kv_known, !rows[i].unknown);
        layer_is(rows[i].layer, rows[i].keys, rows[i].values, rows[i].states, rows[i].window);
    }
}

TEST(shapes_that_overflow) {
    static const struct number many[][5] = {{HEADS, {"attention.value_length", UINT32_MAX}},
                                            {{"ssm.inner_size", UINT32_MAX}, {"ssm.state_size", 2}},
                                            {{"ssm.inner_size", UINT32_MAX},
                                             {"ssm.state_size", UINT32_MAX},
                                             {"ssm.conv_kernel", UINT32_MAX},
                                             {"ssm.group_count", UINT32_MAX}}};
    for (size_t i = 0; i < 3; i++) {
        shape_make(i == 0 ? "llama" : "mamba", 1, many[i]);
        refused(VRAM_ERR_CORRUPT, "2^32");
    }
}

TEST(arrays_of_other_lengths) {
    static uint32_t many[VRAM_MODEL_LAYERS_MAX + 2];
    static const uint32_t none[] = {0, 0}, some[] = {512, 512};
    SHAPE("gemma3", 3, HEADS, {"attention.sliding_window", 99}); /* one more pair is counted */
    maker.data[16]++;
    many[0] = 1;
    gguf_array(&maker, "gemma3.attention.sliding_window_pattern", many, 2);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 256, 256, 0, 99);
    layer_is(1, 256, 256, 0, 0);
    layer_is(2, 256, 256, 0, 0); /* that the array does not have */
    SHAPE("qwen35", 3, HEADS, {"ssm.inner_size", 10}, {"ssm.state_size", 2});
    maker.data[16]++;
    gguf_array(&maker, "qwen35.attention.recurrent_layers", many, 2);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 0, 0, 20, 0);
    layer_is(2, 256, 256, 0, 0);
    SHAPE("llama", 2, {"ssm.inner_size", 10}, {"ssm.state_size", 2}); /* fed, and has a state */
    maker.data[16] += 2;
    gguf_array(&maker, "llama.attention.head_count_kv", none, 2);
    gguf_array(&maker, "llama.feed_forward_length", some, 2);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 0, 0, 20, 0);
    many[0] = many[1] = 2;
    SHAPE("llama", 2, {"attention.head_count", 4}); /* longer than any model */
    maker.data[16]++;
    gguf_array(&maker, "llama.attention.head_count_kv", many, VRAM_MODEL_LAYERS_MAX + 2);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(1, 128, 128, 0, 0);
}

/* Elements that are negative or past 32 bits are none. */
TEST(arrays_of_other_numbers) {
    SHAPE("llama", 2, HEADS, {"attention.key_length", 64});
    maker.data[16]++;
    gguf_text(&maker, "llama.attention.head_count_kv");
    put_number(&maker, 9, 4);
    put_number(&maker, 11, 4); /* 64 bits with a sign */
    put_number(&maker, 2, 8);
    put_number(&maker, UINT64_MAX, 8);
    put_number(&maker, UINT64_C(1) << 33, 8);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 256, 256, 0, 0); /* as if there were no array */
}

static void small_pairs(uint64_t tensors) {
    SHAPE("llama", 1, HEADS);
    maker.data[8] = (uint8_t)tensors;
}

TEST(tensors_at_the_edges) {
    small_pairs(2);
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_tensor(&maker, "blk.0.b", UINT64_MAX, 1, 24, 32); /* i8: its end is past 2^64 */
    gguf_data(&maker, 200);
    refused(VRAM_ERR_CORRUPT, "truncated: tensor blk.0.b");
    small_pairs(1);
    gguf_tensor(&maker, "blk.512.a", 8, 1, 0, 0);
    gguf_data(&maker, 200);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK); /* for multi-token prediction */
    assert_int_equal(gguf_read_as(VR_GGUF_PART, maker.bytes), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "beyond the 512"));
    small_pairs(1);
    maker.data[16]++;
    gguf_u32(&maker, "general.alignment", 65536); /* the file ends before its data begin */
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_data(&maker, 64);
    refused(VRAM_ERR_CORRUPT, "truncated: the tensors end");
}

/* ---------------------------------------------------------------- the config */

static struct vr_config config;

/* Whether a text is refused, by these words. */
static void config_refuse(const char *text, const char *words) {
    assert_int_equal(vr_config_read(text, strlen(text), &config), VRAM_ERR_CORRUPT);
    if (!strstr(vram_error_get()->text, words)) {
        fail_msg("%s: %s", text, vram_error_get()->text);
    }
}

/* Counts that are none: none of them is answered as if it were missing. */
TEST(counts_that_are_none) {
    static const char *const wrong[] = {"-1",        "1e23",       "0.5",     "NaN",
                                        "-Infinity", "4294967296", "\"big\"", "\"\""};
    char text[256], words[64];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"n_embd\":%s}", wrong[i]);
        snprintf(words, sizeof words, "n_embd is %s, not a number from 0 to 4294967295", wrong[i]);
        config_refuse(text, words);
        snprintf(text, sizeof text, "{\"text_config\":{\"head_dim\":[%s]}}", wrong[i]);
        if (wrong[i][0] != '"') { /* a text in a list is no number, and is skipped */
            config_refuse(text, "head_dim is ");
        }
    }
    config_refuse("{\"vision_config\":{\"width\":-1}}", "width is -1, not");
    config_refuse("{\"mlp_ratio\":-2.5}", "mlp_ratio is -2.5, not");
    config_refuse("{\"mlp_ratio\":NaN}", "mlp_ratio is NaN, not");
    config_refuse("{\"n_embd\":1234567890123456789012345678901234567890}",
                  "n_embd is 12345678901234567890123456789012, not");
    config_refuse("{\"compress_ratios\":[Infinity]}", "a count that is not");
    config_refuse("{\"mlp_ratio\":\"\"}", "mlp_ratio is \"\", not");
    config_refuse("{\"compress_ratios\":[7,-1]}", "at byte 24: a count that is not");
    config_refuse("{\"full_attn_layers\":\"1,-5\"}", "a count that is not");
    config_refuse("{\"block_configs\":[{\"ffn\":{\"n_heads_in_group\":-1}}]}", "a count that is");
    config_refuse("{\"block_configs\":[{\"ffn\":{\"intermediate_size\":4294967296}}]}", "a count");
    config_refuse("{\"block_configs\":[{\"ffn\":{\"ffn_mult\":-1}}]}", "a count that is");
    static const char good[] = "{\"sliding_window\":-1,\"max_position_embeddings\":-1,"
                               "\"mamba_dt_rank\":\"auto\",\"num_experts\":null,\"n_layer\":12.0}";
    assert_int_equal(vr_config_read(good, sizeof good - 1, &config), VRAM_OK);
    assert_false(config.text.values[VR_CONFIG_WINDOW].known);
    assert_false(config.text.values[VR_CONFIG_STATE_RANK].known);
    assert_int_equal(config.text.values[VR_CONFIG_LAYERS].value, 12);
}
