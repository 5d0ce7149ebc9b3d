/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_gguf.c: GGUF files that a generator made: weights to the byte, every type of tensor,
 * split files; and files that lie.
 */
#include "base/memory.h"
#include "base/os/os.h"
#include "model/model_file.h"

#include "rig/rig.h"
#include "unit/model_maker.h"

static struct maker maker;
static vram_model model;
static struct vr_weight_sum sum;

static const char *const files[] = {"a.gguf", "m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                    "m-00003-of-00003.gguf", "b.gguf"};

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

/* From memory, as the fuzzer does it. */
static vram_status read_memory(const void *data, size_t bytes) {
    struct vr_source source;
    struct vr_gguf_split split;
    memset(&model, 0, sizeof model);
    memset(&sum, 0, sizeof sum);
    sum.model = &model;
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_gguf_read(&source, &sum, VR_GGUF_MODEL, &split);
    if (status == VRAM_OK) {
        assert_true(vr_weight_sum_finish(&sum));
        assert_true(model.weight_bytes <= bytes);
    }
    return status;
}

static void refused(vram_status status, const char *word) {
    assert_int_equal(read_memory(maker.data, maker.bytes), status);
    if (!strstr(vram_error_get()->text, word)) {
        fail_msg("\"%s\" is not in \"%s\"", word, vram_error_get()->text);
    }
}

/* A model of two layers; q4_K has 144 bytes for 256 numbers, f16 512. */
static void small_pairs(uint64_t tensors) {
    gguf_begin(&maker, tensors, 9);
    gguf_string(&maker, "general.architecture", "llama");
    gguf_string(&maker, "general.name", "Small");
    gguf_u32(&maker, "llama.block_count", 2);
    gguf_u32(&maker, "llama.context_length", 2048);
    gguf_u32(&maker, "llama.embedding_length", 256);
    gguf_u32(&maker, "llama.feed_forward_length", 512);
    gguf_u32(&maker, "llama.attention.head_count", 4);
    gguf_u32(&maker, "llama.attention.head_count_kv", 2);
    gguf_u32(&maker, "llama.vocab_size", 3);
}

static void small_make(void) {
    small_pairs(5);
    gguf_tensor(&maker, "token_embd.weight", 256, 3, 12, 0);            /* 432, 448 with padding */
    gguf_tensor(&maker, "blk.0.attn_q.weight", 256, 2, 1, 448);         /* 1024 */
    gguf_tensor(&maker, "blk.1.ffn_gate_exps.weight", 256, 1, 0, 1472); /* 1024 */
    gguf_tensor(&maker, "output_norm.weight", 8, 1, 0, 2496);           /* 32 */
    gguf_tensor(&maker, "rope_freqs.weight", 4, 1, 0, 2528);            /* 16 */
    gguf_data(&maker, 2528 + 16);
}

TEST(weights_to_the_byte) {
    small_make();
    folder_write("a.gguf", maker.data, maker.bytes);
    model.size = sizeof model;
    assert_int_equal(vram_model_read(folder_path("a.gguf"), NULL, &model), VRAM_OK);
    assert_int_equal(model.format, VRAM_MODEL_GGUF);
    assert_string_equal(model.architecture, "llama");
    assert_string_equal(model.name, "Small");
    assert_int_equal(model.files, 1);
    assert_int_equal(model.tensors, 5);
    assert_int_equal(model.layer_count, 2);
    assert_int_equal(model.input_bytes, 432);
    assert_int_equal(model.layers[0].weight_bytes, 1024);
    assert_int_equal(model.layers[1].weight_bytes, 1024);
    assert_int_equal(model.layers[1].expert_bytes, 1024);
    assert_int_equal(model.output_bytes, 32);
    assert_int_equal(model.other_bytes, 16);
    assert_int_equal(model.weight_bytes, 432 + 1024 + 1024 + 32 + 16);
    assert_int_equal(model.parameters, 768 + 512 + 256 + 8 + 4);
    assert_true(model.tied);
    assert_int_equal(model.context_most, 2048);
    assert_int_equal(model.vocabulary, 3);
    assert_int_equal(model.layers[0].k_elements, 2 * 64);
    assert_int_equal(model.layers[0].v_elements, 2 * 64);
    uint64_t token;
    assert_int_equal(vram_model_token_bytes(&model, NULL, "q8_0", &token), VRAM_OK);
    assert_int_equal(token, 2 * (128 * 2 + 128 / 32 * 34));
}

/* Every type of the format: elements and bytes of a block, as the format has them. */
TEST(every_type_of_tensor) {
    static const struct {
        uint32_t type, elements, bytes;
    } types[] = {{0, 1, 4},      {1, 1, 2},      {2, 32, 18},    {3, 32, 20},    {6, 32, 22},
                 {7, 32, 24},    {8, 32, 34},    {9, 32, 36},    {10, 256, 84},  {11, 256, 110},
                 {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292}, {16, 256, 66},
                 {17, 256, 74},  {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110},
                 {22, 256, 82},  {23, 256, 136}, {24, 1, 1},     {25, 1, 2},     {26, 1, 4},
                 {27, 1, 8},     {28, 1, 8},     {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
                 {35, 256, 66},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18},  {42, 64, 18}};
    bool known[50] = {false};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const uint64_t columns = 3 * types[i].elements, bytes = UINT64_C(15) * types[i].bytes;
        small_pairs(1);
        gguf_tensor(&maker, "blk.1.ffn_up.weight", columns, 5, types[i].type, 0);
        gguf_data(&maker, bytes);
        assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
        assert_int_equal(model.layers[1].weight_bytes, bytes);
        assert_int_equal(model.parameters, columns * 5);
        assert_int_equal(read_memory(maker.data, maker.bytes - 1), VRAM_ERR_CORRUPT);
        known[types[i].type] = true;
        if (types[i].elements > 1) { /* a row that is no whole blocks */
            small_pairs(1);
            gguf_tensor(&maker, "blk.1.ffn_up.weight", columns + 1, 5, types[i].type, 0);
            gguf_data(&maker, 2 * bytes);
            refused(VRAM_ERR_CORRUPT, "rows of");
        }
    }
    for (uint32_t type = 0; type < 50; type++) {
        if (!known[type]) {
            small_pairs(1);
            gguf_tensor(&maker, "blk.1.ffn_up.weight", 256, 5, type, 0);
            gguf_data(&maker, 65536);
            refused(VRAM_ERR_UNSUPPORTED, "is of type");
        }
    }
}

TEST(layers_may_differ) {
    static const uint32_t heads[] = {2, 0, 4};
    gguf_begin(&maker, 0, 12);
    gguf_string(&maker, "general.architecture", "jamba");
    gguf_u32(&maker, "jamba.block_count", 3);
    gguf_u32(&maker, "jamba.embedding_length", 256);
    gguf_u32(&maker, "jamba.attention.head_count", 4);
    gguf_array(&maker, "jamba.attention.head_count_kv", heads, 3);
    gguf_u32(&maker, "jamba.attention.key_length", 32);
    gguf_u32(&maker, "jamba.attention.value_length", 16);
    gguf_u32(&maker, "jamba.attention.sliding_window", 100);
    gguf_u32(&maker, "jamba.ssm.conv_kernel", 4);
    gguf_u32(&maker, "jamba.ssm.inner_size", 512);
    gguf_u32(&maker, "jamba.ssm.state_size", 16);
    gguf_u32(&maker, "jamba.ssm.group_count", 1);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 2 * 32);
    assert_int_equal(model.layers[0].v_elements, 2 * 16);
    assert_int_equal(model.layers[0].window, 0); /* llama.cpp reads it for no Jamba */
    assert_int_equal(model.layers[1].k_elements, 0);
    assert_int_equal(model.layers[1].state_elements, 512 * 16 + 3 * (512 + 2 * 1 * 16));
    assert_int_equal(model.layers[2].k_elements, 4 * 32);
    assert_int_equal(model.layers[2].window, 0);
    assert_int_equal(model.layers[2].state_elements, 0);
}

TEST(windows_latents_and_experts) {
    gguf_begin(&maker, 0, 6);
    gguf_string(&maker, "general.architecture", "gemma3");
    gguf_u32(&maker, "gemma3.block_count", 12);
    gguf_u32(&maker, "gemma3.embedding_length", 256);
    gguf_u32(&maker, "gemma3.attention.head_count", 4);
    gguf_u32(&maker, "gemma3.attention.head_count_kv", 1);
    gguf_u32(&maker, "gemma3.attention.sliding_window", 512);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].window, 512);
    assert_int_equal(model.layers[5].window, 0);
    assert_int_equal(model.layers[11].window, 0);
    gguf_begin(&maker, 0, 10);
    gguf_string(&maker, "general.architecture", "deepseek2");
    gguf_u32(&maker, "deepseek2.block_count", 1);
    gguf_u32(&maker, "deepseek2.embedding_length", 256);
    gguf_u32(&maker, "deepseek2.attention.head_count", 4);
    gguf_u32(&maker, "deepseek2.attention.head_count_kv", 1);
    gguf_u32(&maker, "deepseek2.attention.kv_lora_rank", 512);
    gguf_u32(&maker, "deepseek2.rope.dimension_count", 64);
    gguf_u32(&maker, "deepseek2.expert_count", 8);
    gguf_u32(&maker, "deepseek2.expert_used_count", 2);
    gguf_u32(&maker, "deepseek2.expert_feed_forward_length", 100);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 576);
    assert_int_equal(model.layers[0].v_elements, 0);
    assert_int_equal(model.experts, 8);
    assert_int_equal(model.intermediate, 200);
}

/* Windows as llama.cpp applies them: "w" has one, "." sees all. 12 layers, and 100 tokens where the
   file says so. */
TEST(windows_by_architecture) {
    static const struct {
        const char *name;
        bool told; /* the file has sliding_window = 100 */
        const char *layers;
        uint32_t window;
    } rows[] = {
        {"llama", true, "............", 0}, /* Mistral */
        {"phi3", true, "............", 0},
        {"qwen2", true, "............", 0},
        {"starcoder2", true, "............", 0},
        {"exaone4", true, "............", 0}, /* only with 64 layers */
        {"nobody-knows", true, "............", 0},
        {"gemma2", true, "w.w.w.w.w.w.", 100},
        {"gemma2", false, "w.w.w.w.w.w.", 4096},
        {"gemma3", true, "wwwww.wwwww.", 100},
        {"gemma3", false, "............", 0},
        {"gpt-oss", true, "w.w.w.w.w.w.", 100},
        {"cohere2", true, "www.www.www.", 100},
        {"olmo2", true, "www.www.www.", 100},
        {"olmo2", false, "............", 0},
        {"smallthinker", true, ".www.www.www", 100},
        {"llama4", false, "www.www.www.", 8192},
        {"lfm2", true, "wwwwwwwwwwww", 100},
        {"gemma4", true, "............", 0}, /* only by an array */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char key[96];
        gguf_begin(&maker, 0, rows[i].told ? 5 : 4);
        gguf_string(&maker, "general.architecture", rows[i].name);
        snprintf(key, sizeof key, "%s.block_count", rows[i].name);
        gguf_u32(&maker, key, 12);
        snprintf(key, sizeof key, "%s.embedding_length", rows[i].name);
        gguf_u32(&maker, key, 256);
        snprintf(key, sizeof key, "%s.attention.head_count", rows[i].name);
        gguf_u32(&maker, key, 4);
        snprintf(key, sizeof key, "%s.attention.sliding_window", rows[i].name);
        if (rows[i].told) {
            gguf_u32(&maker, key, 100);
        }
        assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
        for (uint32_t layer = 0; layer < 12; layer++) {
            bool slides = rows[i].layers[layer] == 'w';
            if (model.layers[layer].window != (slides ? rows[i].window : 0)) {
                fail_msg("%s, layer %u: %u", rows[i].name, layer, model.layers[layer].window);
            }
            assert_int_equal(model.layers[layer].k_elements, 256);
        }
    }
}

/* Gemma 4 names its layers with windows, which have heads of another width; its last layers use the
   caches of earlier ones. */
TEST(layers_of_gemma4) {
    static const uint32_t heads[] = {8, 8, 2, 8}, pattern[] = {1, 1, 0, 1};
    gguf_begin(&maker, 0, 11);
    gguf_string(&maker, "general.architecture", "gemma4");
    gguf_u32(&maker, "gemma4.block_count", 4);
    gguf_u32(&maker, "gemma4.embedding_length", 256);
    gguf_u32(&maker, "gemma4.attention.head_count", 16);
    gguf_array(&maker, "gemma4.attention.head_count_kv", heads, 4);
    gguf_u32(&maker, "gemma4.attention.key_length", 512);
    gguf_u32(&maker, "gemma4.attention.value_length", 512);
    gguf_u32(&maker, "gemma4.attention.key_length_swa", 256);
    gguf_u32(&maker, "gemma4.attention.sliding_window", 1024);
    gguf_array(&maker, "gemma4.attention.sliding_window_pattern", pattern, 4);
    gguf_u32(&maker, "gemma4.attention.shared_kv_layers", 1);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].window, 1024);
    assert_int_equal(model.layers[0].k_elements, 8 * 256);
    assert_int_equal(model.layers[0].v_elements, 8 * 512);
    assert_int_equal(model.layers[2].window, 0);
    assert_int_equal(model.layers[2].k_elements, 2 * 512);
    assert_int_equal(model.layers[3].k_elements, 0);
}

static void small_shape(const char *name, uint64_t more) {
    char key[64];
    gguf_begin(&maker, 0, 4 + more);
    gguf_string(&maker, "general.architecture", name);
    snprintf(key, sizeof key, "%s.block_count", name);
    gguf_u32(&maker, key, 4);
    snprintf(key, sizeof key, "%s.embedding_length", name);
    gguf_u32(&maker, key, 256);
    snprintf(key, sizeof key, "%s.attention.head_count", name);
    gguf_u32(&maker, key, 4);
}

/* What layers have instead of a cache, or beside it. */
TEST(states_by_architecture) {
    static const uint32_t heads[] = {0, 0, 2, 0}, fed[] = {0, 512, 0, 0}, full[] = {1, 1, 0, 1};
    small_shape("bert", 0);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_true(model.kv_known);
    assert_int_equal(model.layers[0].k_elements + model.layers[0].v_elements, 0);
    small_shape("nemotron_h", 5); /* Mamba, feed-forward, attention, Mamba */
    gguf_array(&maker, "nemotron_h.attention.head_count_kv", heads, 4);
    gguf_array(&maker, "nemotron_h.feed_forward_length", fed, 4);
    gguf_u32(&maker, "nemotron_h.ssm.inner_size", 100);
    gguf_u32(&maker, "nemotron_h.ssm.state_size", 10);
    gguf_u32(&maker, "nemotron_h.ssm.conv_kernel", 4);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].state_elements, 100 * 10 + 3 * 100);
    assert_int_equal(model.layers[1].state_elements, 0);
    assert_int_equal(model.layers[2].k_elements, 2 * 64);
    assert_int_equal(model.layers[3].state_elements, 100 * 10 + 3 * 100);
    small_shape("qwen35", 3);
    gguf_array(&maker, "qwen35.attention.recurrent_layers", full, 4);
    gguf_u32(&maker, "qwen35.ssm.inner_size", 100);
    gguf_u32(&maker, "qwen35.ssm.state_size", 10);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].state_elements, 1000);
    assert_int_equal(model.layers[2].state_elements, 0);
    assert_int_equal(model.layers[2].k_elements, 256);
    small_shape("lfm2", 2);
    gguf_array(&maker, "lfm2.attention.head_count_kv", heads, 4);
    gguf_u32(&maker, "lfm2.shortconv.l_cache", 3);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].state_elements, 256 * 2);
    small_shape("kimi-linear", 2);
    gguf_array(&maker, "kimi-linear.attention.head_count_kv", heads, 4);
    gguf_u32(&maker, "kimi-linear.kda.head_dim", 16);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].state_elements, 3 * 3 * 4 * 16 + 16 * 16 * 4);
    small_shape("rwkv6", 2);
    gguf_u32(&maker, "rwkv6.attention.head_count_kv", 0);
    gguf_u32(&maker, "rwkv6.wkv.head_size", 64);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].state_elements, 256 * 64 + 2 * 256);
    small_shape("glm4moe", 1); /* the last layer predicts further tokens, and is not run */
    gguf_u32(&maker, "glm4moe.nextn_predict_layers", 1);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[2].k_elements, 256);
    assert_int_equal(model.layers[3].k_elements, 0);
    small_shape("glm-dsa", 4);
    gguf_u32(&maker, "glm-dsa.attention.head_count_kv", 1);
    gguf_u32(&maker, "glm-dsa.attention.kv_lora_rank", 512);
    gguf_u32(&maker, "glm-dsa.rope.dimension_count", 64);
    gguf_u32(&maker, "glm-dsa.attention.indexer.key_length", 128);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 512 + 64 + 128);
}

/* ------------------------------------------------------- no weights, projectors */

TEST(a_vocabulary_is_not_a_model) {
    small_pairs(0);
    folder_write("a.gguf", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("a.gguf"), NULL, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "a.gguf contains no weights: it has 0 tensors"));
}

TEST(an_adapter_is_not_a_model) {
    small_shape("llama", 1);
    gguf_string(&maker, "general.type", "model");
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    small_shape("llama", 1);
    gguf_string(&maker, "general.type", "adapter");
    refused(VRAM_ERR_INVALID, "its general.type is \"adapter\"");
    small_shape("llama", 1);
    gguf_string(&maker, "general.type", "mmproj");
    refused(VRAM_ERR_INVALID, "--mmproj");
}

TEST(projectors_are_added) {
    char path[256];
    vram_model_read_options options = {.size = sizeof options, .projector = path};
    gguf_begin(&maker, 3, 2);
    gguf_string(&maker, "general.architecture", "clip");
    gguf_u32(&maker, "clip.vision.block_count", 27);
    gguf_tensor(&maker, "v.blk.0.attn_q.weight", 256, 2, 1, 0); /* 1024 */
    gguf_tensor(&maker, "a.blk.1.attn_q.weight", 256, 1, 0, 1024);
    gguf_tensor(&maker, "mm.0.weight", 256, 1, 1, 2048); /* 512 */
    gguf_data(&maker, 2048 + 512);
    folder_write("b.gguf", maker.data, maker.bytes);
    snprintf(path, sizeof path, "%s", folder_path("b.gguf"));
    assert_int_equal(vram_model_read(path, NULL, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "--mmproj"));
    small_make();
    folder_write("a.gguf", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("a.gguf"), &options, &model), VRAM_OK);
    assert_int_equal(model.projector_bytes, 2560);
    assert_int_equal(model.other_bytes, 16 + 2560);
    assert_int_equal(model.layers[0].weight_bytes, 1024);
    assert_int_equal(model.weight_bytes, 432 + 1024 + 1024 + 32 + 16 + 2560);
    assert_int_equal(model.tensors, 5 + 3);
    assert_int_equal(model.files, 2);
    snprintf(path, sizeof path, "%s", folder_path("a.gguf"));
    assert_int_equal(vram_model_read(path, &options, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "not a projector"));
    snprintf(path, sizeof path, "/nonexistent/x");
    assert_int_equal(vram_model_read(folder_path("a.gguf"), &options, &model), VRAM_ERR_IO);
}

/* ---------------------------------------------------------------- split files */

static void part_make(uint32_t number, uint32_t says, uint64_t tensors_in_all) {
    char name[64];
    gguf_begin(&maker, 1, number == 0 ? 8 : 3);
    if (number == 0) {
        gguf_string(&maker, "general.architecture", "llama");
        gguf_u32(&maker, "llama.block_count", 3);
        gguf_u32(&maker, "llama.embedding_length", 256);
        gguf_u32(&maker, "llama.attention.head_count", 4);
        gguf_u32(&maker, "llama.attention.head_count_kv", 2);
    }
    gguf_u32(&maker, "split.count", 3);
    gguf_u32(&maker, "split.no", says);
    gguf_u32(&maker, "split.tensors.count", (uint32_t)tensors_in_all);
    snprintf(name, sizeof name, "blk.%u.attn_q.weight", number);
    gguf_tensor(&maker, name, 256, 1 + number, 12, 0);
    gguf_data(&maker, 144 * (1 + number));
    snprintf(name, sizeof name, "m-%05u-of-00003.gguf", number + 1);
    folder_write(name, maker.data, maker.bytes);
}

TEST(split_files_are_one_model) {
    for (uint32_t i = 0; i < 3; i++) {
        part_make(i, i, 3);
    }
    for (size_t named = 1; named <= 3; named++) { /* whichever part is named */
        model.size = sizeof model;
        assert_int_equal(vram_model_read(folder_path(files[named]), NULL, &model), VRAM_OK);
        assert_int_equal(model.files, 3);
        assert_int_equal(model.tensors, 3);
        assert_int_equal(model.weight_bytes, 144 * (1 + 2 + 3));
        assert_int_equal(model.layers[2].weight_bytes, 144 * 3);
    }
    part_make(1, 2, 3);
    assert_int_equal(vram_model_read(folder_path(files[1]), NULL, &model), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "says that it is part 3, but its name says 2"));
    part_make(1, 1, 3);
    part_make(0, 0, 4);
    assert_int_equal(vram_model_read(folder_path(files[1]), NULL, &model), VRAM_ERR_CORRUPT);
    assert_non_null(strstr(vram_error_get()->text, "says 4 tensors, but 3 were found"));
    folder_write("b.gguf", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("b.gguf"), NULL, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "one of 3 parts"));
    unlink(folder_path(files[2]));
    assert_int_equal(vram_model_read(folder_path(files[1]), NULL, &model), VRAM_ERR_IO);
    assert_non_null(strstr(vram_error_get()->text, "m-00002-of-00003.gguf: there is no such file"));
}

/* -------------------------------------------------------------- files that lie */

TEST(counts_that_lie) {
    gguf_begin(&maker, 0, UINT64_C(1) << 60);
    put_zeros(&maker, 100);
    refused(VRAM_ERR_CORRUPT, "pairs are more than");
    gguf_begin(&maker, UINT64_MAX, 2);
    gguf_u32(&maker, "llama.block_count", 1);
    gguf_u32(&maker, "llama.attention.head_count", 1);
    refused(VRAM_ERR_CORRUPT, "tensors are more than");
    gguf_begin(&maker, 0, 1);
    gguf_text(&maker, "llama.x");
    put_number(&maker, 9, 4);
    put_number(&maker, 10, 4);
    put_number(&maker, UINT64_C(1) << 61, 8);
    refused(VRAM_ERR_CORRUPT, "an array has");
    gguf_begin(&maker, 0, 1);
    gguf_text(&maker, "llama.x");
    put_number(&maker, 9, 4);
    put_number(&maker, 8, 4);
    put_number(&maker, UINT64_MAX, 8);
    put_zeros(&maker, 80);
    refused(VRAM_ERR_CORRUPT, "truncated");
    gguf_begin(&maker, 0, 1);
    put_number(&maker, UINT64_MAX, 8);
    put_zeros(&maker, 80);
    refused(VRAM_ERR_CORRUPT, "truncated");
}

TEST(types_and_nesting_that_lie) {
    gguf_begin(&maker, 0, 1);
    gguf_text(&maker, "llama.x");
    put_number(&maker, 13, 4);
    put_zeros(&maker, 80);
    refused(VRAM_ERR_CORRUPT, "type 13");
    gguf_begin(&maker, 0, 1);
    gguf_text(&maker, "llama.x");
    put_number(&maker, 9, 4);
    put_number(&maker, 9, 4);
    put_zeros(&maker, 80);
    refused(VRAM_ERR_CORRUPT, "elements of type 9");
    small_pairs(1);
    gguf_text(&maker, "blk.0.x");
    put_number(&maker, 5, 4);
    put_zeros(&maker, 80);
    refused(VRAM_ERR_CORRUPT, "5 dimensions");
}

TEST(offsets_and_alignments_that_lie) {
    for (int how = 0; how < 3; how++) { /* overlapping, with a gap, unaligned */
        static const uint64_t offsets[] = {0, 64, 33};
        small_pairs(2);
        gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
        gguf_tensor(&maker, "blk.0.b", 8, 1, 0, offsets[how]);
        gguf_data(&maker, 200);
        refused(VRAM_ERR_CORRUPT, "the tensors before it end at 32");
    }
    small_pairs(1);
    gguf_tensor(&maker, "blk.0.a", UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0);
    gguf_data(&maker, 200);
    refused(VRAM_ERR_CORRUPT, "rows of");
    small_pairs(1);
    gguf_tensor(&maker, "blk.0.a", UINT64_C(1) << 40, 1, 0, 0);
    gguf_data(&maker, 200);
    refused(VRAM_ERR_CORRUPT, "truncated");
    for (uint32_t align = 0; align < 3; align++) {
        gguf_begin(&maker, 0, 1);
        gguf_u32(&maker, "general.alignment", align == 0 ? 0 : align == 1 ? 3 : 0x80000000);
        refused(VRAM_ERR_CORRUPT, "the alignment is");
    }
}

TEST(numbers_that_no_model_has) {
    gguf_begin(&maker, 0, 0);
    refused(VRAM_ERR_INVALID, "no block_count");
    gguf_begin(&maker, 0, 1);
    gguf_u32(&maker, "llama.block_count", 513);
    refused(VRAM_ERR_UNSUPPORTED, "513 layers");
    gguf_begin(&maker, 0, 3);
    gguf_u32(&maker, "llama.block_count", 1);
    gguf_u32(&maker, "llama.expert_count", 2);
    gguf_u32(&maker, "llama.expert_used_count", 3);
    refused(VRAM_ERR_CORRUPT, "3 of 2 experts");
    gguf_begin(&maker, 0, 3);
    gguf_u32(&maker, "llama.block_count", 1);
    gguf_u32(&maker, "llama.attention.head_count", UINT32_MAX);
    gguf_u32(&maker, "llama.attention.key_length", UINT32_MAX);
    refused(VRAM_ERR_CORRUPT, "2^32");
    gguf_begin(&maker, 0, 1);
    gguf_text(&maker, "llama.block_count");
    put_number(&maker, 10, 4);
    put_number(&maker, UINT64_MAX, 8);
    refused(VRAM_ERR_CORRUPT, "more than any model");
    gguf_begin(&maker, 0, 0);
    maker.data[4] = 1;
    refused(VRAM_ERR_UNSUPPORTED, "version 1");
    maker.data[4] = 0;
    maker.data[7] = 3;
    refused(VRAM_ERR_UNSUPPORTED, "big-endian");
    maker.data[0] = 'x';
    refused(VRAM_ERR_INVALID, "not a GGUF");
}

/* The fuzzer changes what is in them. */
TEST(files_end_anywhere) {
    small_make();
    for (size_t bytes = 0; bytes < maker.bytes; bytes++) {
        vram_error_clear();
        assert_int_not_equal(read_memory(maker.data, bytes), VRAM_OK);
        assert_int_not_equal(vram_error_get()->status, VRAM_OK);
    }
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
}

TEST(everything_may_fail) {
    small_make();
    folder_write("a.gguf", maker.data, maker.bytes);
    for (int system = 0; system < 2; system++) {
        vram_status status = VRAM_ERR_IO;
        for (uint64_t nth = 1; status != VRAM_OK; nth++) {
            assert_true(nth < 100);
            model.size = sizeof model;
            if (system) {
                vr_os_fail_at(nth, false, 5);
            } else {
                vr_mem_fail_at(nth, false);
            }
            status = vram_model_read(folder_path("a.gguf"), NULL, &model);
            vr_os_fail_at(0, false, 0);
            vr_mem_fail_at(0, false);
            assert_int_equal(vr_mem_live_bytes(), 0);
        }
    }
}

EACH_TEST(begin, end)
