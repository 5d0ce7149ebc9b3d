/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_type.c: the mixes of llama-quantize, held against the sizes of files that it wrote, and
 * against sums by hand.
 */
#include "model/file_type.h"
#include "rig/rig.h"
#include "vram/vram.h"

#include <stdio.h>
#include <string.h>

#include "unit/model_maker.h"

static vram_model model;

static vram_status read_path(const char *path, const char *type) {
    vram_model_read_options options = {.size = sizeof options, .weight_type = type};
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    return vram_model_read(path, &options, &model);
}

static vram_status read_as(const char *name, const char *type) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json", MODEL_CONFIGS, name);
    return read_path(path, type);
}

/* Bits of a weight of Llama 3.1 8B, as tools/quantize/README.md of llama.cpp (b11549) has them. Our
   norms are not in f32, which is 0.0005 bits. Its files of type IQ4 were made without an importance
   matrix: then the last matrix of the feed-forward block is q5_K in the first four layers. */
TEST(bits_of_llama_8b) {
    static const struct {
        const char *type;
        double bits;
    } rows[] = {
        {"IQ1_S", 2.0042},  {"IQ1_M", 2.1460},  {"IQ2_XXS", 2.3824}, {"IQ2_XS", 2.5882},
        {"IQ2_S", 2.7403},  {"IQ2_M", 2.9294},  {"IQ3_XXS", 3.2548}, {"IQ3_XS", 3.4977},
        {"IQ3_S", 3.6606},  {"IQ3_M", 3.7628},  {"IQ4_XS", 4.4597},  {"IQ4_NL", 4.6818},
        {"Q2_K_S", 2.9697}, {"Q2_K", 3.1593},   {"Q3_K_S", 3.6429},  {"Q3_K_M", 3.9960},
        {"Q3_K_L", 4.2979}, {"Q4_K_S", 4.6672}, {"Q4_K_M", 4.8944},  {"Q5_K_S", 5.5704},
        {"Q5_K_M", 5.7036}, {"Q6_K", 6.5633},   {"Q8_0", 8.5008},
    };
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_as("llama3_8b", rows[i].type), VRAM_OK);
        double bits = (double)model.weight_bytes * 8 / (double)model.parameters;
        if (strncmp(rows[i].type, "IQ4", 3) == 0) {
            double base = strcmp(rows[i].type, "IQ4_XS") == 0 ? 136 * 8 / 256.0 : 18 * 8 / 32.0;
            bits += 4.0 * 4096 * 14336 * (176 * 8 / 256.0 - base) / (double)model.parameters;
        }
        if (bits > rows[i].bits + 0.001 || bits < rows[i].bits - 0.002) {
            print_message("%s: %.4f bits instead of %.4f\n", rows[i].type, bits, rows[i].bits);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* GB of the files of huggingface.co/bartowski/Meta-Llama-3.1-70B-Instruct-GGUF, as its page lists
   them, with a vocabulary of about 8 MB. In this size llama.cpp stores values with more bits. */
TEST(sizes_of_llama_70b) {
    static const struct {
        const char *type;
        double gb;
    } rows[] = {
        {"Q5_K_M", 49.95}, {"Q5_K_S", 48.66}, {"Q4_K_M", 42.52},  {"Q4_K_S", 40.35},
        {"IQ4_XS", 37.90}, {"Q3_K_L", 37.14}, {"Q3_K_M", 34.27},  {"IQ3_M", 31.94},
        {"Q3_K_S", 30.91}, {"IQ3_XS", 29.31}, {"Q2_K", 26.38},    {"IQ2_M", 24.12},
        {"IQ2_S", 22.24},  {"IQ2_XS", 21.14}, {"IQ2_XXS", 19.10}, {"IQ1_M", 16.75},
    };
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_as("llama3_70b", rows[i].type), VRAM_OK);
        double gb = (double)model.weight_bytes / 1e9;
        if (gb > rows[i].gb + 0.005 || gb < rows[i].gb - 0.025) {
            print_message("%s: %.3f GB instead of %.2f\n", rows[i].type, gb, rows[i].gb);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* GB of the files of huggingface.co/bartowski/Mixtral-8x22B-v0.1-GGUF, as its page lists them.
   Those of type IQ4 were made without an importance matrix and are left out. llama.cpp has rules
   for models with 8 experts. */
TEST(sizes_of_mixtral) {
    static const char config[] =
        "{\"model_type\":\"mixtral\",\"hidden_size\":6144,\"intermediate_size\":16384,"
        "\"num_hidden_layers\":56,\"num_attention_heads\":48,\"num_key_value_heads\":8,"
        "\"vocab_size\":32000,\"num_local_experts\":8,\"num_experts_per_tok\":2}";
    static const struct {
        const char *type;
        double gb;
    } rows[] = {
        {"Q5_K_M", 99.96}, {"Q5_K_S", 96.97}, {"Q4_K_M", 85.58}, {"Q4_K_S", 80.47},
        {"Q3_K_L", 72.57}, {"Q3_K_M", 67.78}, {"IQ3_M", 64.49},  {"IQ3_S", 61.49},
        {"Q3_K_S", 61.49}, {"IQ3_XS", 58.22}, {"Q2_K", 52.10},
    };
    size_t wrong = 0;
    folder_make();
    folder_write("mixtral.json", config, sizeof config - 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_path(folder_path("mixtral.json"), rows[i].type), VRAM_OK);
        double gb = (double)model.weight_bytes / 1e9;
        if (gb > rows[i].gb + 0.02 || gb < rows[i].gb - 0.02) {
            print_message("%s: %.3f GB instead of %.2f\n", rows[i].type, gb, rows[i].gb);
            wrong++;
        }
    }
    folder_remove((const char *const[]){"mixtral.json"}, 1);
    assert_int_equal(wrong, 0);
}

/* Phi-3: 3072 wide, 32 heads of keys; GGUF files have queries, keys and values in one matrix, which
   counts as the values. */
TEST(one_matrix_for_attention) {
    const uint64_t fused = UINT64_C(3072) * 3 * 3072 / 256, down = UINT64_C(3072) * 8192 / 256;
    assert_int_equal(read_as("phi3_mini", "Q4_K_M"), VRAM_OK);
    assert_int_equal(model.layers[0].weight_bytes - model.layers[4].weight_bytes,
                     (fused + down) * (210 - 144));
}

/* Every mix keeps the parts consistent, and more bits never need less. */
TEST(every_mix_adds_up) {
    static const char *const types[] = {"IQ1_S",  "IQ1_M",  "IQ2_XXS", "IQ2_XS", "IQ2_S",
                                        "IQ2_M",  "Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S",
                                        "IQ3_M",  "Q3_K_M", "Q3_K_L",  "IQ4_XS", "Q4_K_S",
                                        "Q4_K_M", "Q5_K_S", "Q5_K_M",  "Q6_K",   "BF16"};
    static const char *const names[] = {"llama3_8b",   "llama3_70b",    "mixtral_8x7b",
                                        "deepseek_v3", "qwen3_30b_a3b", "gemma3_4b"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        uint64_t last = 0;
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            assert_int_equal(read_as(names[n], types[i]), VRAM_OK);
            uint64_t sum = model.input_bytes + model.output_bytes + model.other_bytes;
            for (uint32_t k = 0; k < model.layer_count; k++) {
                sum += model.layers[k].weight_bytes;
                assert_true(model.layers[k].expert_bytes <= model.layers[k].weight_bytes);
            }
            assert_int_equal(sum, model.weight_bytes);
            if (model.weight_bytes < last) {
                fail_msg("%s takes less as %s than as %s", names[n], types[i], types[i - 1]);
            }
            last = model.weight_bytes;
        }
    }
}

/* Llama 3 8B: 4096 wide, 14336 in the feed-forward block, 32 layers, 128256 tokens. q4_K has 144
   bytes for 256 numbers, q6_K 210. */
TEST(the_mix_q4_k_m) {
    const uint64_t down = UINT64_C(4096) * 14336 / 256, values = UINT64_C(4096) * 1024 / 256;
    assert_int_equal(read_as("llama3_8b", "Q4_K_M"), VRAM_OK);
    assert_string_equal(model.weight_type, "Q4_K_M");
    /* The first eighth, the last, and every third between have more bits. */
    static const char more[] = "++++..+..+..+..+..+..+..+..+++++";
    for (uint32_t i = 0; i < 32; i++) {
        uint64_t few = model.layers[4].weight_bytes;
        assert_int_equal(model.layers[i].weight_bytes,
                         few + (more[i] == '+' ? (down + values) * (210 - 144) : 0));
    }
    assert_int_equal(model.input_bytes, UINT64_C(128256) * 4096 / 256 * 144);
    assert_in_range(model.output_bytes, UINT64_C(128256) * 4096 / 256 * 210,
                    UINT64_C(128256) * 4096 / 256 * 210 + 4 * 4096);
    uint64_t bytes = model.weight_bytes;
    assert_int_equal(read_as("llama3_8b", "q4_k"), VRAM_OK); /* another name of it */
    assert_int_equal(model.weight_bytes, bytes);
    assert_int_equal(read_as("gemma3_4b", "Q4_K_M"), VRAM_OK); /* tied: the input is the output */
    assert_int_equal(model.input_bytes, model.vocabulary * 2560 / 256 * 210);
}

TEST(experts_as_mxfp4) {
    assert_int_equal(read_as("qwen3_30b_a3b", "MXFP4_MOE"), VRAM_OK);
    assert_int_equal(model.layers[0].expert_bytes, UINT64_C(128) * 3 * 2048 * 768 / 32 * 17);
    /* The router stays in f32, the rest is q8_0. */
    assert_in_range(model.layers[0].weight_bytes - model.layers[0].expert_bytes,
                    UINT64_C(2048) * (4096 + 512 + 512 + 4096) / 32 * 34 + 2048 * 128 * 4,
                    UINT64_C(2048) * (4096 + 512 + 512 + 4096) / 32 * 34 + 2048 * 128 * 4 + 8192);
}

TEST(a_wrong_name_gets_the_list) {
    static const char *const listed[] = {"Q4_K_M", "Q2_K", "IQ4_NL", "MXFP4_MOE", "TQ1_0"};
    assert_null(vr_file_type_find("Q4_K_X"));
    assert_null(vr_file_type_find("Q4_K_"));
    assert_null(vr_file_type_find(""));
    assert_non_null(vr_file_type_find("iq4_xs"));
    assert_int_equal(read_as("llama3_8b", "Q4_K_X"), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "\"Q4_K_X\" is not a type of weights; use"));
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
        assert_non_null(strstr(vram_error_get()->text, listed[i]));
    }
}
