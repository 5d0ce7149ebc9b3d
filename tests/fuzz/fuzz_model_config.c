/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_model_config.c: whatever is called a config.json is refused with a reason, or describes a
 * model whose parts add up; and the reader of JSON stays inside its text, token by token.
 */
#include "model_expect.h"

#include "model/json_reader.h"
#include "model/model_config.h"

static const char fuzz_words[] =
    " \"model_type\":\"gemma3\" \"num_hidden_layers\": \"hidden_size\": \"num_attention_heads\":"
    " \"num_experts\": \"kv_lora_rank\": \"text_config\":{ \"vision_config\":{"
    " \"quantization_config\":{ \"layer_types\":[ \"linear_attention\""
    " \"full_attention_interval\":4 \"model_type\":\"nemotron_h\" \"model_type\":\"deepseek_v4\""
    " \"model_type\":\"kimi_linear\" \"hybrid_override_pattern\":\"M*E-\""
    " \"block_configs\":[{\"ffn\":{\"ffn_mult\":2.5}}]"
    " \"linear_attn_config\":{\"kda_layers\":[1]} \"compress_ratios\":[4,128]"
    " \"quant_method\":\"compressed-tensors\""
    " \"config_groups\":{\"g\":{\"weights\":{\"num_bits\":4}}}"
    " \"ignore\":[\"re:.*(a|b)?[c-d]\\\\.\\\\d+$\"] \"quantized_layers\":{\"layers.0\":{}} null"
    " true 1e3 \\ud83d\\ude00 [[[[[[[[[[[[[[[[ ] } ,";

static void read_tokens(const char *text, size_t bytes) {
    struct vr_json_reader reader;
    struct vr_json_token token;
    size_t last = 0, count = 0;
    vr_json_begin(&reader, text, bytes);
    do {
        char copy[64];
        uint64_t number;
        token = vr_json_next(&reader);
        FUZZ_EXPECT(reader.at >= last && reader.at <= bytes + 1);
        FUZZ_EXPECT(reader.depth <= VR_JSON_DEPTH_MAX);
        if (token.kind == VR_JSON_KEY || token.kind == VR_JSON_TEXT ||
            token.kind == VR_JSON_NUMBER) {
            FUZZ_EXPECT(token.at >= text && token.at + token.bytes <= text + bytes);
        }
        (void)vr_json_copy(token, copy, sizeof copy);
        FUZZ_EXPECT(strlen(copy) < sizeof copy);
        (void)vr_json_unsigned_read(token, &number);
        last = reader.at;
        FUZZ_EXPECT(count++ <= 2 * bytes + 2);
    } while (token.kind != VR_JSON_BAD && token.kind != VR_JSON_END);
    FUZZ_EXPECT((token.kind == VR_JSON_BAD) == (reader.problem != NULL));
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static vram_model model;
    static struct vr_config config;
    const char *text = (const char *)data;
    read_tokens(text, bytes);
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    vram_status status = vr_config_read(text, bytes, &config);
    if (status == VRAM_OK) {
        status = vr_config_shape(&config, &model);
    }
    if (status == VRAM_OK) {
        status = vr_config_weights(&config, NULL, &model);
    }
    if (status != VRAM_OK) {
        expect_refusal(status);
        return 0;
    }
    expect_model(&model);
    return 0;
}

FUZZ_TARGET(model_config, .split = fuzz_split_json)
