/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_gguf.c: whatever is called a GGUF file is refused with a reason, or is a model whose weights
 * are no more than the bytes of the file. Nothing is allocated for it.
 */
#include "model_expect.h"

#include "model/model_file.h"

const char *const fuzz_words[] = {"GGUF",
                                  "general.architecture",
                                  "general.alignment",
                                  "llama.block_count",
                                  "llama.attention.head_count_kv",
                                  "llama.attention.sliding_window",
                                  "llama.ssm.state_size",
                                  "split.count",
                                  "tokenizer.ggml.tokens",
                                  "blk.1.ffn_up_exps.weight",
                                  "token_embd.weight",
                                  "\x09",
                                  "\x08",
                                  "\xff\xff\xff\xff\xff\xff\xff\xff",
                                  "qwen3next",
                                  "gemma4",
                                  "nemotron_h",
                                  "clip",
                                  "gemma4.attention.sliding_window_pattern",
                                  "gemma4.attention.shared_kv_layers",
                                  "llama.nextn_predict_layers",
                                  "llama.attention.recurrent_layers",
                                  "llama.kda.head_dim",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static vram_model model;
    struct vr_weight_sum sum = {.model = &model};
    struct vr_gguf_split split;
    struct vr_source source;
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    uint64_t calls = vr_mem_calls();
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_gguf_read(&source, &sum, VR_GGUF_MODEL, &split);
    FUZZ_EXPECT(vr_mem_calls() == calls);
    FUZZ_EXPECT(source.at <= bytes);
    if (status != VRAM_OK) {
        expect_refusal(status);
        return 0;
    }
    FUZZ_EXPECT(vr_weight_sum_finish(&sum));
    FUZZ_EXPECT(model.weight_bytes <= bytes);
    expect_model(&model);
    return 0;
}
