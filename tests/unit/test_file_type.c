/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_type.c: the mixes of llama-quantize, held against the sizes that it prints for its
 * files, and against sums by hand.
 */
#include "model/file_type.h"
#include "vram/vram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static vram_model model;

static vram_status read_as(const char *name, const char *type) {
    char path[1024];
    vram_model_read_options options = {.size = sizeof options, .weight_type = type};
    snprintf(path, sizeof path, "%s/%s.json", MODEL_CONFIGS, name);
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    return vram_model_read(path, &options, &model);
}

/* `llama-quantize --help` lists GiB of Llama 3 8B, with the vocabulary of about 8 MiB. */
static void sizes_of_published_files(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double gib;
    } rows[] = {
        {"Q4_0", 4.34},   {"Q4_1", 4.78},   {"Q5_0", 5.21},   {"Q5_1", 5.65},   {"Q2_K", 2.96},
        {"Q3_K_S", 3.41}, {"Q3_K_M", 3.74}, {"Q3_K_L", 4.03}, {"Q4_K_S", 4.37}, {"Q4_K_M", 4.58},
        {"Q5_K_S", 5.21}, {"Q5_K_M", 5.33}, {"Q6_K", 6.14},   {"Q8_0", 7.96},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_as("llama3_8b", rows[i].type), VRAM_OK);
        double gib = (double)model.weight_bytes / (1 << 30);
        if (gib > rows[i].gib + 0.005 || gib < rows[i].gib - 0.02) {
            fail_msg("%s: %.4f GiB instead of %.2f", rows[i].type, gib, rows[i].gib);
        }
    }
}

/* Every mix keeps the parts consistent, and more bits never need less. */
static void every_mix_adds_up(void **state) {
    (void)state;
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
static void the_mix_q4_k_m(void **state) {
    (void)state;
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

static void experts_as_mxfp4(void **state) {
    (void)state;
    assert_int_equal(read_as("qwen3_30b_a3b", "MXFP4_MOE"), VRAM_OK);
    assert_int_equal(model.layers[0].expert_bytes, UINT64_C(128) * 3 * 2048 * 768 / 32 * 17);
    /* The router stays in f32, the rest is q8_0. */
    assert_in_range(model.layers[0].weight_bytes - model.layers[0].expert_bytes,
                    UINT64_C(2048) * (4096 + 512 + 512 + 4096) / 32 * 34 + 2048 * 128 * 4,
                    UINT64_C(2048) * (4096 + 512 + 512 + 4096) / 32 * 34 + 2048 * 128 * 4 + 8192);
}

static void a_wrong_name_gets_the_list(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_published_files),
        cmocka_unit_test(every_mix_adds_up),
        cmocka_unit_test(the_mix_q4_k_m),
        cmocka_unit_test(experts_as_mxfp4),
        cmocka_unit_test(a_wrong_name_gets_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
