/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_edges.c: model files at the edges of what is read: numbers that almost overflow, lists
 * that are too short or too long, files that end or fail at every step.
 */
#include "base/memory.h"
#include "base/os/os.h"
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

TEST(shapes_by_architecture) {
    SHAPE("exaone4", 64, HEADS); /* of this size alone the layers have windows */
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 256, 256, 0, 4096);
    layer_is(3, 256, 256, 0, 0);
    SHAPE("exaone4", 30, HEADS);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 256, 256, 0, 0);
    SHAPE("gemma3n", 30, HEADS);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(19, 256, 256, 0, 0);
    layer_is(20, 0, 0, 0, 0);
    SHAPE("gemma4", 3, HEADS,
          {"attention.shared_kv_layers", 3}); /* of nothing: they are their own */
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(2, 256, 256, 0, 0);
    SHAPE("qwen35", 4, HEADS, {"ssm.inner_size", 10}, {"ssm.state_size", 2});
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK); /* one layer in four is full */
    layer_is(2, 0, 0, 20, 0);
    layer_is(3, 256, 256, 0, 0);
    SHAPE("falcon-h1", 1, HEADS, {"ssm.inner_size", 10}, {"ssm.state_size", 2}); /* has both */
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 256, 256, 20, 0);
    SHAPE("kimi-linear", 1, HEADS, {"attention.head_count_kv", 0}, {"kda.head_dim", 16},
          {"ssm.conv_kernel", 2});
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    layer_is(0, 0, 0, 3 * 1 * 4 * 16 + 16 * 16 * 4, 0);
}

/* Without heads, a model is known by the numbers of its states. */
TEST(shapes_without_heads) {
    SHAPE("mamba", 1, {"ssm.inner_size", 10}, {"ssm.state_size", 2});
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    assert_true(model.kv_known);
    layer_is(0, 0, 0, 20, 0);
    SHAPE("rwkv7", 1, {"wkv.head_size", 4});
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    assert_true(model.kv_known);
    layer_is(0, 0, 0, 256 * 4 + 256 * 2, 0);
    SHAPE("strange", 1, {"context_length", 4});
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    assert_false(model.kv_known);
}

TEST(shapes_that_overflow) {
    SHAPE("llama", 1, HEADS, {"attention.value_length", UINT32_MAX});
    refused(VRAM_ERR_CORRUPT, "2^32");
    SHAPE("mamba", 1, {"ssm.inner_size", UINT32_MAX}, {"ssm.state_size", 2});
    refused(VRAM_ERR_CORRUPT, "2^32");
    SHAPE("mamba", 1, {"ssm.inner_size", UINT32_MAX}, {"ssm.state_size", UINT32_MAX},
          {"ssm.conv_kernel", UINT32_MAX}, {"ssm.group_count", UINT32_MAX});
    refused(VRAM_ERR_CORRUPT, "2^32");
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
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    size_t header = maker.bytes;
    gguf_data(&maker, 32);
    assert_int_equal(gguf_read(maker.bytes), VRAM_OK);
    for (size_t bytes = 0; bytes < header; bytes++) {
        assert_int_equal(gguf_read(bytes), VRAM_ERR_CORRUPT);
    }
    small_pairs(1);
    maker.data[16]++;
    gguf_u32(&maker, "general.alignment", 65536); /* the file ends before its data begin */
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_data(&maker, 64);
    refused(VRAM_ERR_CORRUPT, "truncated: the tensors end");
    gguf_begin(&maker, 0, 0);
    maker.data[4] = 0, maker.data[7] = 2;
    refused(VRAM_ERR_UNSUPPORTED, "big-endian");
    maker.data[7] = 4;
    refused(VRAM_ERR_UNSUPPORTED, "version 67108864;");
    SHAPE("llama", 1, HEADS);
    maker.data[16]++;
    size_t before = maker.bytes;
    gguf_array(&maker, "llama.attention.head_count_kv", (const uint32_t[]){2}, 1);
    for (size_t bytes = before; bytes < maker.bytes; bytes++) {
        assert_int_equal(gguf_read(bytes), VRAM_ERR_CORRUPT);
    }
}

/* A file of several windows, of which every read fails. */
TEST(reads_that_fail) {
    static const char *const files[] = {"a.gguf", "model.safetensors"};
    static uint32_t many[30000];
    vram_status status = VRAM_ERR_IO;
    folder_make();
    SHAPE("llama", 1, HEADS);
    maker.data[16]++;
    gguf_array(&maker, "llama.attention.head_count_kv", many, 30000);
    maker.data[8] = 1;
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_data(&maker, 32);
    folder_write("a.gguf", maker.data, maker.bytes);
    for (uint64_t nth = 1; status != VRAM_OK; nth++) {
        assert_true(nth < 100);
        memset(&model, 0, sizeof model);
        model.size = sizeof model;
        vr_os_fail_at(nth, false, 5);
        status = vram_model_read(folder_path("a.gguf"), NULL, &model);
        vr_os_fail_at(0, false, 0);
        assert_int_equal(vr_mem_live_bytes(), 0);
    }
    folder_write("model.safetensors", "12345678", 8);
    struct vr_source source;
    bool folder;
    char *text = NULL;
    assert_int_equal(vr_source_open(&source, folder_path("model.safetensors"), &folder), VRAM_OK);
    assert_int_equal(truncate(folder_path("model.safetensors"), 4), 0);
    assert_int_equal(vr_source_text(&source, 8, &text), VRAM_ERR_IO);
    assert_null(text);
    vr_source_close(&source);
    source.path = "a/folder/";
    assert_string_equal(vr_source_name(&source), "a/folder/");
    folder_remove(files, 2);
    assert_int_equal(vr_mem_live_bytes(), 0);
}

/* ----------------------------------------------------------------- the index */

static vram_status index_read(const char *text, size_t bytes, struct vr_shards *shards) {
    struct vr_source source;
    bool found;
    vr_source_memory(&source, text, bytes);
    memset(shards, 0, sizeof *shards);
    return vr_shards_read(&source, text, bytes, shards, &found);
}

TEST(indexes_at_the_edges) {
    static struct vr_shards shards;
    static const char twice[] = "{\"weight_map\":{\"x\":\"a\"},\"weight_map\":{\"y\":\"b\"}}",
                      windows[] = "{\"weight_map\":{\"x\":\"a\\\\b\"}}";
    assert_int_equal(index_read(twice, sizeof twice - 1, &shards), VRAM_OK);
    assert_int_equal(shards.count, 1);
    assert_int_equal(index_read(windows, sizeof windows - 1, &shards), VRAM_ERR_CORRUPT);
    for (uint32_t count = VR_SHARDS_MAX; count <= VR_SHARDS_MAX + 1; count++) {
        maker.bytes = 0;
        put(&maker, "{\"weight_map\":{", 15);
        for (uint32_t i = 0; i < 2 * count; i++) { /* each twice */
            char one[64];
            int bytes =
                snprintf(one, sizeof one, "%s\"t%u\":\"file-%u\"", i ? "," : "", i, i % count);
            put(&maker, one, (size_t)bytes);
        }
        put(&maker, "}}", 2);
        assert_int_equal(index_read((const char *)maker.data, maker.bytes, &shards),
                         count == VR_SHARDS_MAX ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
        assert_int_equal(shards.count, VR_SHARDS_MAX);
    }
}

/* ---------------------------------------------------------------- the config */

static struct vr_config config;

/* Reads a text, and refuses all that it begins with. */
static void config_take(const char *text) {
    size_t bytes = strlen(text);
    for (size_t cut = 0; cut < bytes; cut++) {
        char *copy = malloc(cut + 1); /* so that a sanitizer sees a read behind it */
        assert_non_null(copy);
        memcpy(copy, text, cut);
        assert_int_equal(vr_config_read(copy, cut, &config), VRAM_ERR_CORRUPT);
        free(copy);
    }
    assert_int_equal(vr_config_read(text, bytes, &config), VRAM_OK);
}

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
    config_take("{\"sliding_window\":-1,\"max_position_embeddings\":-1,\"qkv_bias\":0.5,"
                "\"mamba_dt_rank\":\"auto\",\"num_experts\":null,\"n_layer\":12.0}");
    assert_false(config.text.values[VR_CONFIG_WINDOW].known);
    assert_false(config.text.values[VR_CONFIG_STATE_RANK].known);
    assert_int_equal(config.text.values[VR_CONFIG_LAYERS].value, 12);
}

TEST(configs_with_lists) {
    config_take("{\"architectures\":[\"A\",\"B\",[1]],\"attn_type_list\":[1,0,{\"a\":[]}],"
                "\"compress_ratios\":[\"a\",7],\"mlp_only_layers\":\"2,x3,,5/\","
                "\"full_attn_layers\":[0,1,600],\"num_key_value_heads\":[[],3]}");
    assert_string_equal(config.architecture, "A");
    assert_int_equal(config.layers[0].attention, VR_ATTENTION_FULL);
    assert_int_equal(config.layers[1].attention, VR_ATTENTION_LINEAR);
    assert_int_equal(config.layers[0].ratio, 0);
    assert_int_equal(config.layers[1].ratio, 7);
    assert_int_equal(config.layers[2].feed, VR_FEED_DENSE);
    assert_int_equal(config.layers[3].feed, VR_FEED_UNTOLD);
    assert_int_equal(config.layers[5].feed, VR_FEED_UNTOLD);
    assert_false(config.text.values[VR_CONFIG_KV_HEADS].known);
    config_take("{\"deepstack_visual_indexes\":[7,8]}");
    assert_int_equal(config.text.values[VR_CONFIG_DEEPSTACK].value, 2);
    config_take("{\"num_key_value_heads\":[4]}");
    assert_int_equal(config.text.values[VR_CONFIG_KV_HEADS].value, 4);
}

TEST(configs_with_blocks) {
    static char many[VRAM_MODEL_LAYERS_MAX + 8];
    char text[VRAM_MODEL_LAYERS_MAX * 4];
    config_take("{\"block_configs\":[{\"attention\":{\"no_op\":true,\"n_heads_in_group\":4},"
                "\"ffn\":{\"ffn_mult\":2.5000001,\"intermediate_size\":99}},"
                "{\"attention\":{\"replace_with_linear\":true,\"no_op\":false,\"x\":true},"
                "\"ffn\":{\"replace_with_linear\":true,\"z\":true,\"x\":{\"y\":1}}},"
                "{\"ffn\":{\"no_op\":true,\"intermediate_size\":null,"
                "\"ffn_mult\":\"a\"}},7,"
                "{\"ffn\":{\"ffn_mult\":10000000,\"n_heads_in_group\":\"x\"}},"
                "{\"ffn\":{\"ffn_mult\":0.10000000000000000000000000000000000000000}},"
                "{\"ffn\":{\"ffn_mult\":1000000000000000000000000000000000000}}]}");
    assert_int_equal(config.layers[0].attention, VR_ATTENTION_NONE);
    assert_int_equal(config.layers[0].group, 4);
    assert_int_equal(config.layers[0].width_parts, 2500000);
    assert_int_equal(config.layers[0].width, 99);
    assert_int_equal(config.layers[1].attention, VR_ATTENTION_MATRIX);
    assert_int_equal(config.layers[1].feed, VR_FEED_MATRIX);
    assert_int_equal(config.layers[2].feed, VR_FEED_NONE);
    assert_int_equal(config.layers[2].width, 0);
    assert_int_equal(config.layers[4].width_parts, 0);
    assert_int_equal(config.layers[5].width_parts, 100000);
    assert_int_equal(config.layers[6].width_parts, 0);
    config_take("{\"block_configs\":{\"a\":1}}");
    config_take("{\"mlp_ratio\":[]}");
    config_take("{\"mlp_ratio\":0.0}");
    assert_false(config.text.values[VR_CONFIG_EXPANSION].known);
    memset(many, 'E', sizeof many - 1); /* more layers than any model has */
    memcpy(many, "M*-x", 4);
    int used = snprintf(text, sizeof text, "{\"hybrid_override_pattern\":\"%s\"}", many);
    assert_int_equal(vr_config_read(text, (size_t)used, &config), VRAM_OK);
    assert_int_equal(config.layers[0].attention, VR_ATTENTION_LINEAR);
    assert_int_equal(config.layers[3].attention, VR_ATTENTION_OTHER);
    assert_int_equal(config.layers[VRAM_MODEL_LAYERS_MAX - 1].feed, VR_FEED_EXPERTS);
    used = snprintf(text, sizeof text, "{\"block_configs\":[7");
    for (int i = 0; i < VRAM_MODEL_LAYERS_MAX; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, ",{}");
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "]}");
    assert_int_equal(vr_config_read(text, (size_t)used, &config), VRAM_OK);
}

TEST(configs_with_parts) {
    config_take("{\"attention_other_setting\":{\"num_attention_heads\":3,\"head_dim\":5},"
                "\"ssm_cfg\":{\"layer\":\"Mamba2\"},\"audio_config\":{},\"audio_config\":7,"
                "\"vision_config\":{},\"vision_config\":null,"
                "\"per_layer_config\":{\"01\":{\"head_dim\":9},\"999\":{\"head_dim\":1},"
                "\"123456789\":{},\"02\":3,\"x\":{\"head_dim\":7},\"\":{\"head_dim\":7}},\"hybrid_"
                "override_pattern\":5,"
                "\"feed_forward_proj\":\"gated-gelu\",\"sliding_window_pattern\":\"LLLG\"}");
    assert_int_equal(config.text.values[VR_CONFIG_SLIDING_HEADS].value, 3);
    assert_int_equal(config.text.values[VR_CONFIG_SLIDING_HEAD_DIM].value, 5);
    assert_string_equal(config.text.type, "mamba2");
    assert_true(config.has_audio && config.has_vision);
    assert_int_equal(config.layers[0].head, 0); /* "x" is no layer's number */
    assert_int_equal(config.layers[1].head, 9);
    assert_int_equal(config.layers[2].head, 0);
    assert_int_equal(config.text.values[VR_CONFIG_GATED].value, 1);
    assert_int_equal(config.text.values[VR_CONFIG_WINDOW_PATTERN].value, 4);
    config_take("{\"model_type\":\"other\",\"ssm_cfg\":{},\"per_layer_config\":[1],"
                "\"feed_forward_proj\":\"relu\",\"sliding_window_pattern\":\"\"}");
    assert_string_equal(config.text.type, "other");
    assert_int_equal(config.text.values[VR_CONFIG_GATED].value, 0);
    assert_false(config.text.values[VR_CONFIG_WINDOW_PATTERN].known);
    config_take("{\"sparse_attention_config\":{\"sparse_index_dim\":128,"
                "\"sparse_num_index_heads\":4,\"sparse_attention_freq\":[0,1]}}");
    assert_int_equal(config.text.values[VR_CONFIG_INDEX_HEADS].value, 4);
    assert_int_equal(config.text.values[VR_CONFIG_INDEX_DIM].value, 128);
    assert_false(config.layers[0].indexed);
    assert_true(config.layers[1].indexed);
    config_take("{\"sparse_attention_config\":null}");
    assert_false(config.text.values[VR_CONFIG_INDEX_DIM].known);
    config_take("{\"feed_forward_proj\":\"gelu_new\",\"ssm_cfg\":{}}");
    assert_int_equal(config.text.values[VR_CONFIG_GATED].value, 0);
    assert_string_equal(config.text.type, "mamba");
}
