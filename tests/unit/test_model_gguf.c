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
static vram_status read_as(enum vr_gguf_role role, const void *data, size_t bytes) {
    struct vr_source source;
    struct vr_gguf_split split;
    memset(&model, 0, sizeof model);
    memset(&sum, 0, sizeof sum);
    sum.model = &model;
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_gguf_read(&source, &sum, role, &split);
    if (status == VRAM_OK) {
        assert_true(vr_weight_sum_finish(&sum));
        assert_true(model.weight_bytes <= bytes);
    }
    return status;
}

static vram_status read_memory(const void *data, size_t bytes) {
    return read_as(VR_GGUF_MODEL, data, bytes);
}

/* A model with a hidden size of 256 and, in words, "key=7", "key=0,0,2" or "key=text", where keys
   are the architecture's but for those of "general". */
static void shape_make(const char *name, uint32_t layers, const char *words, uint64_t tensors) {
    uint64_t pairs = 3;
    char key[96];
    gguf_begin(&maker, tensors, 0);
    gguf_string(&maker, "general.architecture", name);
    snprintf(key, sizeof key, "%s.block_count", name);
    gguf_u32(&maker, key, layers);
    snprintf(key, sizeof key, "%s.embedding_length", name);
    gguf_u32(&maker, key, 256);
    for (; *words; pairs++) {
        size_t length = strcspn(words, "="), end = strcspn(words, " ");
        const char *value = words + length + 1;
        bool general = strncmp(words, "general.", 8) == 0;
        snprintf(key, sizeof key, "%s%s%.*s", general ? "" : name, general ? "" : ".", (int)length,
                 words);
        if (memchr(value, ',', end - length)) {
            uint32_t values[16], count = 0;
            for (char *at = (char *)(uintptr_t)value - 1; at < words + end; count++) {
                values[count] = (uint32_t)strtoul(at + 1, &at, 10);
            }
            gguf_array(&maker, key, values, count);
        } else if (*value >= '0' && *value <= '9') {
            gguf_u32(&maker, key, (uint32_t)strtoul(value, NULL, 10));
        } else {
            char text[32];
            snprintf(text, sizeof text, "%.*s", (int)(end - length - 1), value);
            gguf_string(&maker, key, text);
        }
        words += end + strspn(words + end, " ");
    }
    maker.data[16] = (uint8_t)pairs;
}

static void refused(vram_status status, const char *word) {
    assert_int_equal(read_memory(maker.data, maker.bytes), status);
    if (!strstr(vram_error_get()->text, word)) {
        fail_msg("\"%s\" is not in \"%s\"", word, vram_error_get()->text);
    }
}

/* A model of two layers; q4_K has 144 bytes for 256 numbers, f16 512. */
static void small_pairs(uint64_t tensors) {
    shape_make("llama", 2,
               "general.name=Small context_length=2048 feed_forward_length=512 "
               "attention.head_count=4 attention.head_count_kv=2 vocab_size=3",
               tensors);
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

/* What is cached by models of these numbers, in one of their layers. */
TEST(shapes_by_architecture) {
#define HEADS  "attention.head_count=4 "
#define STATES "ssm.inner_size=10 ssm.state_size=2 "
#define JAMBA                                                                                      \
    HEADS "attention.head_count_kv=2,0,4 attention.key_length=32 attention.value_length=16 "       \
          "attention.sliding_window=100 ssm.conv_kernel=4 ssm.inner_size=512 ssm.state_size=16 "   \
          "ssm.group_count=1"
#define GEMMA4                                                                                     \
    "attention.head_count=16 attention.head_count_kv=8,8,2,8 attention.key_length=512 "            \
    "attention.value_length=512 attention.key_length_swa=256 attention.sliding_window=1024 "       \
    "attention.sliding_window_pattern=1,1,0,1 attention.shared_kv_layers=1"
#define NEMOTRON /* Mamba, feed-forward, attention, Mamba */                                       \
    HEADS "attention.head_count_kv=0,0,2,0 feed_forward_length=0,512,0,0 ssm.inner_size=100 "      \
          "ssm.state_size=10 ssm.conv_kernel=4"
#define DEEPSEEK                                                                                   \
    HEADS "attention.head_count_kv=1 attention.kv_lora_rank=512 rope.dimension_count=64 "
    static const struct {
        const char *name;
        uint32_t layers;
        const char *words;
        uint32_t layer, keys, values, states, window;
    } rows[] = {
        {"exaone4", 64, HEADS, 0, 256, 256, 0, 4096}, /* of this size alone with windows */
        {"exaone4", 64, HEADS, 3, 256, 256, 0, 0},
        {"exaone4", 30, HEADS, 0, 256, 256, 0, 0},
        {"gemma3n", 30, HEADS, 19, 256, 256, 0, 0},
        {"gemma3n", 30, HEADS, 20, 0, 0, 0, 0},
        {"gemma4", 3, HEADS "attention.shared_kv_layers=3", 2, 256, 256, 0, 0},
        {"gemma4", 4, GEMMA4, 0, 8 * 256, 8 * 512, 0, 1024}, /* heads of another width */
        {"gemma4", 4, GEMMA4, 2, 2 * 512, 2 * 512, 0, 0},
        {"gemma4", 4, GEMMA4, 3, 0, 0, 0, 0},        /* uses the cache of an earlier one */
        {"qwen35", 4, HEADS STATES, 2, 0, 0, 20, 0}, /* one layer in four is full */
        {"qwen35", 4, HEADS STATES, 3, 256, 256, 0, 0},
        {"qwen35", 4, HEADS STATES "attention.recurrent_layers=1,1,0,1", 0, 0, 0, 20, 0},
        {"qwen35", 4, HEADS STATES "attention.recurrent_layers=1,1,0,1", 2, 256, 256, 0, 0},
        {"qwen35", 3, HEADS STATES "attention.recurrent_layers=1,0", 2, 256, 256, 0, 0},
        {"falcon-h1", 1, HEADS STATES, 0, 256, 256, 20, 0}, /* has both */
        {"jamba", 3, JAMBA, 0, 2 * 32, 2 * 16, 0, 0}, /* llama.cpp reads windows for no Jamba */
        {"jamba", 3, JAMBA, 1, 0, 0, 512 * 16 + 3 * (512 + 2 * 1 * 16), 0},
        {"jamba", 3, JAMBA, 2, 4 * 32, 4 * 16, 0, 0},
        {"nemotron_h", 4, NEMOTRON, 0, 0, 0, 100 * 10 + 3 * 100, 0},
        {"nemotron_h", 4, NEMOTRON, 1, 0, 0, 0, 0},
        {"nemotron_h", 4, NEMOTRON, 2, 2 * 64, 2 * 64, 0, 0},
        {"lfm2", 4, HEADS "attention.head_count_kv=0,0,2,0 shortconv.l_cache=3", 0, 0, 0, 512, 0},
        {"kimi-linear", 4, HEADS "attention.head_count_kv=0,0,2,0 kda.head_dim=16", 0, 0, 0,
         3 * 3 * 4 * 16 + 16 * 16 * 4, 0},
        {"kimi-linear", 1, HEADS "attention.head_count_kv=0 kda.head_dim=16 ssm.conv_kernel=2", 0,
         0, 0, 3 * 1 * 4 * 16 + 16 * 16 * 4, 0},
        {"mamba", 1, STATES, 0, 0, 0, 20, 0}, /* without heads */
        {"rwkv6", 4, HEADS "attention.head_count_kv=0 wkv.head_size=64", 0, 0, 0,
         256 * 64 + 2 * 256, 0},
        {"rwkv7", 1, "wkv.head_size=4", 0, 0, 0, 256 * 4 + 256 * 2, 0},
        {"bert", 4, HEADS, 0, 0, 0, 0, 0},
        /* the last layer predicts further tokens, and is not run */
        {"glm4moe", 4, HEADS "nextn_predict_layers=1", 2, 256, 256, 0, 0},
        {"glm4moe", 4, HEADS "nextn_predict_layers=1", 3, 0, 0, 0, 0},
        {"glm-dsa", 4, DEEPSEEK "attention.indexer.key_length=128", 0, 512 + 64 + 128, 0, 0, 0},
        {"deepseek2", 1, DEEPSEEK, 0, 576, 0, 0, 0},
        /* arrays that are shorter than the layers are */
        {"gemma3", 3, HEADS "attention.sliding_window=99 attention.sliding_window_pattern=1,0", 0,
         256, 256, 0, 99},
        {"gemma3", 3, HEADS "attention.sliding_window=99 attention.sliding_window_pattern=1,0", 2,
         256, 256, 0, 0},
        {"llama", 2, STATES "attention.head_count_kv=0,0 feed_forward_length=512,512", 0, 0, 0, 20,
         0}, /* fed, and has a state */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape_make(rows[i].name, rows[i].layers, rows[i].words, 0);
        assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
        const vram_model_layer *layer = &model.layers[rows[i].layer];
        if (!model.kv_known || layer->k_elements != rows[i].keys ||
            layer->v_elements != rows[i].values || layer->state_elements != rows[i].states ||
            layer->window != rows[i].window) {
            fail_msg("row %zu, %s: %u, %u, %u, %u", i, rows[i].name, layer->k_elements,
                     layer->v_elements, layer->state_elements, layer->window);
        }
    }
    shape_make("strange", 1, "context_length=4", 0);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_false(model.kv_known);
    shape_make("deepseek2", 1,
               DEEPSEEK "expert_count=8 expert_used_count=2 expert_feed_forward_length=100", 0);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
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
        shape_make(rows[i].name, 12, rows[i].told ? HEADS "attention.sliding_window=100" : HEADS,
                   0);
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

/* An array longer than any model; elements that are negative or past 32 bits are none. */
TEST(arrays_of_other_numbers) {
    static uint32_t many[VRAM_MODEL_LAYERS_MAX + 2] = {2, 2};
    shape_make("llama", 2, HEADS, 0);
    maker.data[16]++;
    gguf_array(&maker, "llama.attention.head_count_kv", many, VRAM_MODEL_LAYERS_MAX + 2);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[1].k_elements, 128);
    shape_make("llama", 2, HEADS "attention.key_length=64", 0);
    maker.data[16]++;
    gguf_text(&maker, "llama.attention.head_count_kv");
    put_number(&maker, 9, 4);
    put_number(&maker, 11, 4); /* 64 bits with a sign */
    put_number(&maker, 2, 8);
    put_number(&maker, UINT64_MAX, 8);
    put_number(&maker, UINT64_C(1) << 33, 8);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    assert_int_equal(model.layers[0].k_elements, 256); /* as if there were no array */
    assert_int_equal(model.layers[0].v_elements, 256);
}

/* ------------------------------------------------------- no weights, projectors */

TEST(a_vocabulary_is_not_a_model) {
    small_pairs(0);
    folder_write("a.gguf", maker.data, maker.bytes);
    assert_int_equal(vram_model_read(folder_path("a.gguf"), NULL, &model), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "a.gguf contains no weights: it has 0 tensors"));
}

TEST(an_adapter_is_not_a_model) {
    shape_make("llama", 4, HEADS "general.type=model", 0);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK);
    shape_make("llama", 4, HEADS "general.type=adapter", 0);
    refused(VRAM_ERR_INVALID, "its general.type is \"adapter\"");
    shape_make("llama", 4, HEADS "general.type=mmproj", 0);
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
    gguf_begin(&maker, 1, 3);
    if (number == 0) {
        shape_make("llama", 3, HEADS "attention.head_count_kv=2", 1);
        maker.data[16] += 3;
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
    small_pairs(2);
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_tensor(&maker, "blk.0.b", UINT64_MAX, 1, 24, 32); /* i8: its end is past 2^64 */
    gguf_data(&maker, 200);
    refused(VRAM_ERR_CORRUPT, "truncated: tensor blk.0.b");
    shape_make("llama", 1, HEADS "general.alignment=65536", 1);
    gguf_tensor(&maker, "blk.0.a", 8, 1, 0, 0);
    gguf_data(&maker, 64); /* the file ends before its data begin */
    refused(VRAM_ERR_CORRUPT, "truncated: the tensors end");
    small_pairs(1);
    gguf_tensor(&maker, "blk.512.a", 8, 1, 0, 0);
    gguf_data(&maker, 200);
    assert_int_equal(read_memory(maker.data, maker.bytes), VRAM_OK); /* multi-token prediction */
    assert_int_equal(read_as(VR_GGUF_PART, maker.data, maker.bytes), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "beyond the 512"));
    for (uint32_t align = 0; align < 3; align++) {
        gguf_begin(&maker, 0, 1);
        gguf_u32(&maker, "general.alignment", align == 0 ? 0 : align == 1 ? 3 : 0x80000000);
        refused(VRAM_ERR_CORRUPT, "the alignment is");
    }
}

TEST(numbers_that_no_model_has) {
    static const struct {
        uint32_t layers;
        const char *words;
        vram_status status;
        const char *why;
    } rows[] = {
        {513, HEADS, VRAM_ERR_UNSUPPORTED, "513 layers"},
        {1, HEADS "expert_count=2 expert_used_count=3", VRAM_ERR_CORRUPT, "3 of 2 experts"},
        {1, "attention.head_count=4294967295 attention.key_length=4294967295", VRAM_ERR_CORRUPT,
         "2^32"},
        {1, HEADS "attention.value_length=4294967295", VRAM_ERR_CORRUPT, "2^32"},
        {1, "ssm.inner_size=4294967295 ssm.state_size=2", VRAM_ERR_CORRUPT, "2^32"},
        {1,
         "ssm.inner_size=4294967295 ssm.state_size=4294967295 ssm.conv_kernel=4294967295 "
         "ssm.group_count=4294967295",
         VRAM_ERR_CORRUPT, "2^32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape_make(rows[i].words[0] == 's' ? "mamba" : "llama", rows[i].layers, rows[i].words, 0);
        refused(rows[i].status, rows[i].why);
    }
    gguf_begin(&maker, 0, 0);
    refused(VRAM_ERR_INVALID, "no block_count");
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
